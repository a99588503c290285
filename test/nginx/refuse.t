#!/usr/bin/env perl
# refuse.t -- passes and refusals, what limit_req does, and the policy's answer.
use strict;
use warnings;

use Test::More;
use FindBin;
use lib "$FindBin::Bin/lib";
use Sluice::Nginx;

my $t = Sluice::Nginx->new(workers => 1);

$t->write('policy.yaml', <<'END');
sluice: 1
plans: { default: free, free: {}, pro: {} }
identity: { user: [header.x-user-id], plan: [header.x-plan] }
limits:
  api:
    kind: token-bucket
    per: user
    rate: { free: 2/hour, pro: 5/hour }
  paid:
    kind: quota
    per: user
    rate: 1/month
    deny: { status: 402, code: NO_CREDIT, message: "Buy more." }
errors:
  plan_limit: { body: { error: "{code}", text: "{message}" } }
routes:
  - { match: /paid/**, limits: [paid] }
  - { match: /free/**, limits: [] }
default: [api]
END

# Quotas are not evicted, and each user takes eight places.
$t->write('full.yaml', join "\n", 'sluice: 1',
    'identity: { user: [header.x-user-id] }', 'limits:',
    (map { "  q$_: { kind: quota, per: user, rate: 5/month }" } 1 .. 8),
    'default: [q1, q2, q3, q4, q5, q6, q7, q8]', '');
$t->write('page.html', "page\n");
$t->start(
    http => <<'END',
    sluice_policy {dir}/policy.yaml;
    sluice_state zone=small:1m;
    log_format test '$uri $sluice_status limit=$sluice_limit '
        'left=$sluice_remaining retry=$sluice_retry_after plan=$sluice_plan '
        'id=$sluice_request_id';
    access_log {dir}/access.log test;
END
    server => <<'END');
        sluice on;
        root {dir};
        location / { empty_gif; }
        location /off/ { sluice off; empty_gif; }
        location /again/ { try_files /none @again; }
        location @again { rewrite ^ /last last; }
        location /missing/ { error_page 404 = /page; root {dir}/none; }
        location = /page { empty_gif; }
        location /plain/ { sluice_status 503; empty_gif; }
        location /own/ {
            sluice_status 429;
            error_page 429 /sorry;
            empty_gif;
        }
        location = /sorry { return 200 "sorry $sluice_status"; }
        location /full/ { sluice_policy {dir}/full.yaml; empty_gif; }
        location /sub/ { auth_request /inner; empty_gif; }
        location = /inner { internal; return 204; }
        location /named/ {
            add_header X-Status $sluice_status always;
            empty_gif;
        }
END

# Passes carry the headers of the policy.
my $first = $t->get('/a', 'X-User-Id' => 'ann', 'X-Request-Id' => 'r1');
is($first->{status}, 200, 'the first passes');
is($first->{headers}{'x-ratelimit-limit'}, 2, 'with its limit');
is($first->{headers}{'x-ratelimit-remaining'}, 1, 'with what is left');
like($first->{headers}{ratelimit}, qr/^"api";r=1;t=\d+$/, 'and RateLimit');
is($first->{headers}{'x-request-id'}, 'r1', 'and its id');
is($t->get('/b', 'X-User-Id' => 'ann')->{status}, 200, 'the second, too');

# A refusal is the policy's.
my $refused = $t->get('/c', 'X-User-Id' => 'ann', 'X-Request-Id' => 'r3');
is($refused->{status}, 429, 'the third is refused');
is($refused->{headers}{'content-type'}, 'application/problem+json',
    'with the type of its body');
like($refused->{body}, qr/"code":"RATE_LIMITED".*"request_id":"r3"/,
    'which is the body of the policy');
like($refused->{headers}{'retry-after'}, qr/^\d+$/, 'and Retry-After');
is($refused->{headers}{'cache-control'}, 'no-store', 'not to be cached');
is($t->get('/c', 'X-User-Id' => 'bob')->{status}, 200, 'others pass');
is($t->statuses(6, '/d', 'X-User-Id' => 'eve', 'X-Plan' => 'pro'),
    '200 200 200 200 200 429', 'by their plan');

# The answer that the policy writes, unchanged.
$t->get('/paid/x', 'X-User-Id' => 'ann');
my $unpaid = $t->get('/paid/x', 'X-User-Id' => 'ann');
is($unpaid->{status}, 402, 'its status');
is($unpaid->{body}, '{"error":"NO_CREDIT","text":"Buy more."}', 'its body');

# A refused connection can be used again, also after a body.
my $socket = $t->connect;
my @same = map {
    $t->request('POST', '/e', 'X-User-Id' => 'ann', body => 'x' x 70000,
        socket => $socket)->{status}
} 1 .. 3;
is("@same", '429 429 429', 'a refused connection is kept');
my $head = $t->request('HEAD', '/e', 'X-User-Id' => 'ann');
is($head->{status}, 429, 'HEAD is refused');
ok($head->{headers}{'content-length'} > 0 && $head->{body} eq '',
    'without a body');

# Where it applies.
is($t->statuses(4, '/off/x', 'X-User-Id' => 'ann'), '200 200 200 200', 'off');
is($t->statuses(4, '/free/x', 'X-User-Id' => 'ann'), '200 200 200 200',
    'a route without limits');
is($t->statuses(3, '/again/x', 'X-User-Id' => 'dan'), '200 200 429',
    'once per request, whatever it is redirected to');
is($t->statuses(3, '/missing/x', 'X-User-Id' => 'fay'), '200 200 429',
    'also after an error page');
is($t->statuses(3, '/sub/x', 'X-User-Id' => 'gus'), '200 200 429',
    'and not for subrequests');

# nginx's own answer.
my $plain = $t->get('/plain/x', 'X-User-Id' => 'ann');
is($plain->{status}, 503, 'sluice_status');
like($plain->{body}, qr/503 Service Temporarily Unavailable/, 'and its page');
like($plain->{headers}{'retry-after'}, qr/^\d+$/, 'with our headers');
my $own = $t->get('/own/x', 'X-User-Id' => 'ann');
is("$own->{status} $own->{body}", '429 sorry REJECTED', 'an error_page');

# Variables.
is($t->get('/named/x', 'X-User-Id' => 'ann')->{headers}{'x-status'},
    'REJECTED', '$sluice_status');
my $log = $t->read('access.log');
like($log, qr{^/a PASSED limit=2 left=1 retry=- plan=free id=r1$}m,
    'a pass in the log');
like($log, qr{^/c REJECTED limit=2 left=0 retry=\d+ plan=free id=r3$}m,
    'a refusal in the log');
like($log, qr{^/off/x - limit=- }m, 'no decision in the log');
like($t->read('error.log'), qr/\[error\].*sluice: refused: 429 RATE_LIMITED, limit "api", request id r3/,
    'a refusal in the error log');

# A full state lets requests pass uncounted, and says so, once a minute.
my $full = qr/\[alert\].*sluice: the state is full: limit "q\d" has no room/;
my $users = 0;
while ($users < 10_000 && $t->read('error.log') !~ $full) {
    my $all = $t->connect;

    $t->send('GET', '/full/x', 'X-User-Id' => 'u' . $users++,
        socket => $all) for 1 .. 50;
    $t->get('/full/x', 'X-User-Id' => 'u', Connection => 'close',
        socket => $all);
    1 while sysread $all, my $rest, 65536;
}
cmp_ok($users, '>', 1000, "the state has room for $users users");
like($t->read('error.log'), $full, 'and logs when it is full');
is($t->get('/full/x', 'X-User-Id' => 'last')->{status}, 200,
    'when requests pass');
is(scalar(() = $t->read('error.log') =~ /$full/g), 1, 'it is logged once');

done_testing;
