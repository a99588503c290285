#!/usr/bin/env perl
# pass.t -- sluice_pass: sluiced decides, over connections that are kept.
use strict;
use warnings;

use Test::More;
use FindBin;
use lib "$FindBin::Bin/lib";
use Sluice::Nginx;
use Time::HiRes qw(time);

my $t = Sluice::Nginx->new(workers => 1);
my $daemon = $ENV{SLUICED} // 'bin/sluiced';

plan skip_all => 'SLUICED names no daemon' unless -x $daemon;
$t->write('policy.yaml', <<'END');
sluice: 1
identity: { user: [header.x-user-id] }
limits:
  api:
    kind: token-bucket
    per: user
    rate: 2/hour
    deny: { message: "Slow \"down\"." }
  jobs: { kind: concurrency, per: user, rate: "1", hold: 1s }
  tokens: { kind: quota, per: user, rate: 1000/month }
  even: { kind: leaky-bucket, per: user, rate: 5/s queue 2 }
  ip: { kind: token-bucket, per: ip, rate: 1/hour }
  slow: { kind: token-bucket, per: user, rate: 1/20s }
routes:
  - { match: /jobs/**, limits: [jobs] }
  - { match: /ai/**, limits: [tokens] }
  - { match: /even/**, limits: [even] }
  - { match: /ip/**, limits: [ip] }
  - { match: /queue/**, limits: [slow], wait: 30s }
default: [api]
END

# A daemon of a name, with more words.
sub start_daemon {
    my ($name, @more) = @_;
    my $socket = $t->dir . "/$name.sock";
    my $pid = $t->spawn($daemon, '-c', $t->dir . '/policy.yaml', '--store',
        'memory:' . $t->dir . "/$name.state", '--memory', '4MiB',
        '--listen-http', "unix:$socket", '--listen-admin', 'off',
        '--listen-grpc', 'off', '--listen-resp', 'off', '--forward-auth',
        'original', @more);
    $t->wait_for(sub { IO::Socket::UNIX->new(Peer => $socket) },
        "$name listens");
    return $pid;
}

my $sluiced = start_daemon('sluiced');
$t->write('token', "0123456789abcdef0123456789abcdef\n");
$t->write('wrong', "fedcba9876543210fedcba9876543210\n");
start_daemon('guarded', '--access-token-file', $t->dir . '/token');
$t->serve(app => sub {
    my ($method, $path, $headers) = @_;
    my $dir = $t->dir;

    $t->write('in', '') if $path =~ /wait/;
    select undef, undef, undef, 0.01
        until $path !~ /wait/ || -e "$dir/go" || !-d $dir;
    return "HTTP/1.1 200 OK\r\nX-Tokens: 150\r\nContent-Length: 2\r\n\r\nok";
});
# A sluiced whose verdict, with a hold, comes after the timeout.
$t->serve(late => sub {
    my ($method, $path) = @_;
    my $dir = $t->dir;
    my $verdict = '{"allowed":true,"status":200,"hold":"h1",'
        . '"hold_expires_ms":60000,"headers":{}}';

    $t->write('released', $path) if $path =~ /settle/;
    select undef, undef, undef, 0.01
        until $path =~ /settle/ || -e "$dir/late" || !-d $dir;
    $verdict = '{}' if $path =~ /settle/;
    return "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: "
        . length($verdict) . "\r\n\r\n$verdict";
});
# Accepts, and never answers.
my $mute = IO::Socket::INET->new(Listen => 8, LocalAddr => '127.0.0.1');
$t->{ports}{mute} = $mute->sockport;

$t->start(
    http => <<'END',
    log_format test '$uri $status $sluice_status $sluice_limit $sluice_plan';
    access_log {dir}/access.log test;
    sluice_pass unix:{dir}/sluiced.sock timeout=10s;
    sluice_identity user=$http_x_user;
END
    server => <<'END');
        sluice on;
        location / { proxy_pass http://127.0.0.1:{port:app}; }
        location /ai/ {
            sluice_cost 400;
            sluice_settle $upstream_http_x_tokens;
            proxy_pass http://127.0.0.1:{port:app};
        }
        location /jobs/typo/ {
            sluice_settle tokns=$upstream_http_x_tokens;
            proxy_pass http://127.0.0.1:{port:app};
        }
        location /open/ { sluice_pass 127.0.0.1:{port:none}; empty_gif; }
        location /closed/ {
            sluice_pass 127.0.0.1:{port:none} fail=closed;
            empty_gif;
        }
        location /token/ {
            sluice_pass unix:{dir}/guarded.sock token={dir}/token timeout=10s
                fail=closed;
            empty_gif;
        }
        location /wrong/ {
            sluice_pass unix:{dir}/guarded.sock token={dir}/wrong timeout=10s;
            empty_gif;
        }
        location /wrong/closed/ {
            sluice_pass unix:{dir}/guarded.sock token=wrong timeout=10s
                fail=closed;
            empty_gif;
        }
        location /late/ {
            sluice_pass 127.0.0.1:{port:late} timeout=50ms;
            empty_gif;
        }
        location /mute/ {
            sluice_pass 127.0.0.1:{port:mute} timeout=50ms;
            empty_gif;
        }
END

# The policy's answer, unchanged.
my $first = $t->get('/x', 'X-User' => 'ann', 'X-Request-Id' => 'r1');
is($first->{status}, 200, 'a pass');
is($first->{headers}{'x-ratelimit-remaining'}, 1, 'with the headers');
is($first->{headers}{'x-request-id'}, 'r1', 'and its id');
$t->get('/x', 'X-User' => 'ann');
my $refused = $t->get('/x', 'X-User' => 'ann', 'X-Request-Id' => 'r3');
is($refused->{status}, 429, 'a refusal');
is($refused->{headers}{'content-type'}, 'application/problem+json', 'its type');
my $direct = $t->request('POST', '/v1/auth', socket =>
    IO::Socket::UNIX->new(Peer => $t->dir . '/sluiced.sock'),
    'X-Original-URI' => '/x', 'X-User-Id' => 'ann', 'X-Request-Id' => 'r3',
    Connection => 'close');
is($direct->{status}, 429, 'sluiced answers the same');
my $strip = sub { $_[0] =~ s/\d+ min|"retry_after(_ms)?":\d+|Try again.*?\././gr };
is($strip->($refused->{body}), $strip->($direct->{body}), 'its body, byte for byte');
is($t->get('/x', 'X-User' => 'bob', 'X-User-Id' => 'ann')->{status}, 200,
    'a client does not name itself');
is($t->statuses(2, '/ip/x'), '200 429', 'by its address');
is($t->request('POST', '/x', 'X-User' => 'ann', body => 'x' x 100_000)->{status},
    429, 'a request with a body');

# Too long for sluiced: refused, and not by an error of ours.
my $long = $t->get('/x', 'X-User' => 'ann', Cookie => "\x01" x 7000,
    Authorization => "\x01" x 7000);
is($long->{status}, 400, 'a check that is too long is refused');
like($long->{body}, qr/Request Header Or Cookie Too Large/, 'as nginx does');
like($t->read('error.log'), qr/too long to ask sluiced/, 'and is logged');
is($t->statuses(2, '/queue/x', 'X-User' => 'zoe'), '200 429',
    'a route with wait refuses at once, and does not let the timeout pass it');

# sluiced with an access_token. A relative path begins in nginx.conf's folder.
is($t->statuses(3, '/token/x', 'X-User' => 'tao'), '200 200 429', 'token=');
is($t->get('/wrong/x', 'X-User' => 'tao')->{status}, 200,
    'with another one it passes');
like($t->read('error.log'), qr/does not decide.*passes \(it refuses the check\)/,
    'which is logged');
is($t->get('/wrong/closed/x', 'X-User' => 'tao')->{status}, 503,
    'or not, with fail=closed');

# Permits, costs, delays.
my @cat = ('X-User' => 'cat', Connection => 'close');
my $job = $t->send('GET', '/jobs/wait', @cat);
$t->wait_for(sub { -e $t->dir . '/in' }, 'a job');
my $end = time + 2;
my $held = 1;
$held &&= $t->get('/jobs/x', @cat)->{status} == 429 while time < $end;
ok($held, 'a permit is extended');
$t->write('go', '');
is($t->receive($job)->{status}, 200, 'the job ends');
$t->wait_for(sub { $t->get('/jobs/x', @cat)->{status} == 200 }, 'its permit');
pass('and its permit is free');
is($t->get('/jobs/typo/x', 'X-User' => 'tim')->{status}, 200, 'a wrong limit');
$t->wait_for(sub { $t->get('/jobs/x', 'X-User' => 'tim')->{status} == 200 },
    'the permit');
like($t->read('error.log'), qr/the actual cost is not counted: sluiced refuses/,
    'in sluice_settle is logged, and its permit is free');
$t->get('/ai/x', 'X-User' => 'dan');
$t->wait_for(sub { $t->get('/ai/x', 'X-User' => 'dan')
    ->{headers}{'x-ratelimit-remaining'} <= 450 }, 'a cost is settled');
pass('costs are settled');
my $begin = time;
$t->get('/even/x', 'X-User' => 'eve') for 1 .. 3;
cmp_ok(time - $begin, '>=', 0.38, 'delays');
like($t->read('access.log'), qr{^/x 429 REJECTED 2 }m, 'variables');

# Connections are kept: nginx has one to sluiced, not one for each request.
my @open = grep { /sluiced\.sock/ } do {
    open my $file, '<', '/proc/net/unix' or die $!;
    <$file>;
};
cmp_ok(scalar @open, '<=', 6, 'connections are kept');

# sluiced restarts: what was kept is closed, and a new connection is made.
$t->end_child($sluiced);
is($t->get('/x', 'X-User' => 'ann')->{status}, 200, 'without sluiced it passes');
$t->wait_for(sub { $t->read('access.log') =~ m{^/x 200 DEGRADED}m }, 'DEGRADED');
pass('DEGRADED');
$sluiced = start_daemon('sluiced');
is($t->get('/x', 'X-User' => 'ann')->{status}, 429, 'and with it, it is refused');

# No answer.
is($t->get('/open/x')->{status}, 200, 'fail=open');
is($t->get('/closed/x')->{status}, 503, 'fail=closed');
unlike($t->read('error.log'), qr/limit "",/, 'which is logged once');
is($t->get('/mute/x')->{status}, 200, 'a timeout');
like($t->read('error.log'), qr/127\.0\.0\.1:\d+ did not answer within 50 ms/,
    'is logged');

# What a late verdict holds is given back.
is($t->get('/late/x')->{status}, 200, 'a verdict that is late');
$t->write('late', '');
$t->wait_for(sub { $t->read('released') eq '/v1/holds/h1/settle' }, 'released');
pass('its hold is ended');

# A client that leaves while sluiced is asked.
my $gone = $t->send('GET', '/mute/x');
close $gone;
is($t->get('/x', 'X-User' => 'fay')->{status}, 200, 'the worker goes on');
unlike($t->read('error.log'), qr/\[alert\]|signal/, 'no crash');

done_testing;
