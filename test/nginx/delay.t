#!/usr/bin/env perl
# delay.t -- leaky buckets delay by timers; dry runs do nothing.
use strict;
use warnings;

use Test::More;
use FindBin;
use lib "$FindBin::Bin/lib";
use Sluice::Nginx;
use Time::HiRes qw(time);

my $t = Sluice::Nginx->new;

$t->write('policy.yaml', <<'END');
sluice: 1
identity: { user: [header.x-user-id] }
limits:
  even: { kind: leaky-bucket, per: user, rate: 2/s queue 2 }
  few: { kind: token-bucket, per: user, rate: 1/hour }
  slow: { kind: leaky-bucket, per: user, rate: 1/hour queue 2 }
  jobs: { kind: concurrency, per: user, rate: "1", hold: 60s }
routes:
  - { match: /few/**, limits: [few] }
  - { match: /slow/**, limits: [slow] }
  - { match: /slow-job/**, limits: [slow, jobs] }
  - { match: /job/**, limits: [jobs] }
default: [even]
END

$t->start(
    http => <<'END',
    sluice_policy {dir}/policy.yaml;
    log_format test '$uri $status $sluice_status';
    access_log {dir}/access.log test;
END
    server => <<'END');
        sluice on;
        location / { add_header X-Status $sluice_status always; empty_gif; }
        location /dry/ { sluice dry_run; empty_gif; }
        location /few/dry/ { sluice dry_run; empty_gif; }
END

# The first goes at once, the next two wait for half a second each, and one more
# does not fit.
my $begin = time;
my @sockets = map { $t->send('GET', '/', 'X-User-Id' => 'ann',
    Connection => 'close') } 1 .. 3;
my @answers = map { $t->receive($_) } @sockets;
my $took = time - $begin;
is(join(' ', map { $_->{status} } @answers), '200 200 200', 'all pass');
is(join(' ', sort map { $_->{headers}{'x-status'} } @answers),
    'DELAYED DELAYED PASSED', 'two of them delayed');
cmp_ok($took, '>=', 0.95, 'each at its time');

my @late = map { $t->send('GET', '/', 'X-User-Id' => 'bob',
    Connection => 'close') } 1 .. 6;
my %by;
$by{$_->{status} . ' ' . $_->{headers}{'x-status'}}++
    for map { $t->receive($_) } @late;
cmp_ok($by{'429 REJECTED'} // 0, '>=', 2, 'a full queue refuses');
cmp_ok($by{'200 DELAYED'} // 0, '>=', 2, 'and others wait');

# A client that goes away while it waits leaves its connection.
my $gone = $t->send('GET', '/left', 'X-User-Id' => 'cat');
my $left = $t->send('GET', '/left', 'X-User-Id' => 'cat');
close $left;
is($t->receive($gone)->{status}, 200, 'one of two passes');
$t->wait_for(sub { $t->read('access.log') =~ m{^/left 499 DELAYED$}m },
    'the other is logged as gone');
pass('a client that left while it waited');

# It frees its permits. Its place in the queue stays used, as with limit_req.
my $waiting = 0;
sub wait_long { # sends a request that is delayed by an hour or more
    my ($path, $user) = @_;
    my $socket = $t->send('GET', $path, 'X-User-Id' => $user);

    $waiting++;
    $t->wait_for(sub {
        $waiting == (() = $t->read('error.log') =~ /delayed: \d{7,} ms/g)
    }, "$path is delayed");
    return $socket;
}
# The first has no permit, which it could still have after its answer.
is($t->get('/slow/x', 'X-User-Id' => 'fay')->{status}, 200, 'the first');
my $away = wait_long('/slow-job/x', 'fay');
is($t->get('/job/x', 'X-User-Id' => 'fay')->{status}, 429,
    'one that waits has its permit');
close $away;
$t->wait_for(sub { $t->get('/job/x', 'X-User-Id' => 'fay')->{status} == 200 },
    'a permit');
pass('one that left has none');
is($t->get('/slow/x', 'X-User-Id' => 'gus')->{status}, 200, 'a queue of two');
close wait_long('/slow/left', 'gus');
$t->wait_for(sub { $t->read('access.log') =~ m{^/slow/left 499 }m }, 'gone');
my $second = wait_long('/slow/x', 'gus');
is($t->get('/slow/x', 'X-User-Id' => 'gus')->{status}, 429,
    'has the place of one that left');
close $second;

# Dry runs count, and neither delay nor refuse nor show anything.
$begin = time;
my @dry = map { $t->get('/dry/x', 'X-User-Id' => 'eve') } 1 .. 4;
is(join(' ', map { $_->{status} } @dry), '200 200 200 200', 'a dry run passes');
ok(!grep({ exists $_->{headers}{'x-ratelimit-limit'} } @dry), 'without headers');
is($t->statuses(2, '/few/dry/x', 'X-User-Id' => 'eve'), '200 200',
    'beyond a limit, too');
is($t->get('/few/x', 'X-User-Id' => 'eve')->{status}, 429, 'but it counts');
my $log = $t->read('access.log');
like($log, qr{^/dry/x 200 DELAYED_DRY_RUN$}m, 'DELAYED_DRY_RUN');
like($log, qr{^/dry/x 200 REJECTED_DRY_RUN$}m, 'REJECTED_DRY_RUN');
like($log, qr{^/few/dry/x 200 PASSED$}m, 'PASSED');
like($t->read('error.log'), qr/\[warn\].*sluice: delayed: \d+ ms/,
    'delays in the error log, one level below');

done_testing;
