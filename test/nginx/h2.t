#!/usr/bin/env perl
# h2.t -- HTTP/2: streams are decided one by one.
use strict;
use warnings;

use Test::More;
use FindBin;
use lib "$FindBin::Bin/lib";
use Sluice::Nginx;

my $t = Sluice::Nginx->new;
my $daemon = $ENV{SLUICED} // 'bin/sluiced';

plan skip_all => 'curl has no HTTP/2' unless `curl -V 2>/dev/null` =~ /HTTP2/;
plan skip_all => 'h2load is not installed' unless `h2load --version 2>/dev/null`;

$t->write('policy.yaml', <<'END');
sluice: 1
identity: { user: [header.x-user-id] }
limits:
  api: { kind: quota, per: user, rate: 60/month }
  even: { kind: leaky-bucket, per: user, rate: 20/s queue 3 }
  slow: { kind: leaky-bucket, per: user, rate: 1/hour queue 2 }
  jobs: { kind: concurrency, per: user, rate: "1", hold: 60s }
routes:
  - { match: /slow/**, limits: [slow, jobs] }
  - { match: /jobs/**, limits: [jobs] }
  - { match: /even/**, limits: [even] }
default: [api]
END
$t->start(
    http => <<'END',
    sluice_policy {dir}/policy.yaml;
    server {
        listen 127.0.0.1:{port:pass} http2;
        sluice on;
        sluice_pass unix:{dir}/sluiced.sock timeout=10s;
        sluice_identity user=$http_x_user_id;
        location / { empty_gif; }
    }
END
    server => <<'END');
        listen 127.0.0.1:{port:h2} http2;
        sluice on;
        location / { empty_gif; }
END

my $url = 'http://127.0.0.1:' . $t->port('h2');
sub ask {
    return scalar `curl -s --max-time 30 --http2-prior-knowledge -D - -o $t->{dir}/body @_`;
}

like(ask("-H 'x-user-id: ann' $url/x"),
    qr/^HTTP\/2 200.*^x-ratelimit-remaining: 59\r$/ms, 'a pass');
my $load = `h2load -n 100 -c 2 -m 16 -H 'x-user-id: ann' $url/x 2>&1`;
like($load, qr/status codes: 59 2xx, 0 3xx, 41 4xx, 0 5xx/,
    'exactly as many streams pass');
my $refused = ask("-H 'x-user-id: ann' $url/x");
like($refused, qr/^HTTP\/2 429.*^retry-after: \d+\r$/ms, 'a refusal');
like($t->read('body'), qr/"code":"RATE_LIMITED"/, 'has its body');
my $delayed = `h2load -n 4 -c 1 -m 4 -H 'x-user-id: bob' $url/even/x 2>&1`;
like($delayed, qr/status codes: 4 2xx/, 'delayed streams pass');
like($t->read('error.log'), qr/sluice: delayed: \d+ ms/, 'after their delay');

# A client that leaves while its stream waits.
ask("-H 'x-user-id: cat' $url/slow/x");
my $pid = $t->spawn('curl', '-s', '--http2-prior-knowledge', '-H',
    'x-user-id: cat', "$url/slow/x");
$t->wait_for(sub { $t->read('error.log') =~ /delayed: \d{7,} ms/ }, 'a delay');
like(ask("-H 'x-user-id: cat' $url/jobs/x"), qr/^HTTP\/2 429/,
    'a stream that waits has its permit');
$t->end_child($pid, 'KILL');
$t->wait_for(sub { ask("-H 'x-user-id: cat' $url/jobs/x") =~ /^HTTP\/2 200/ },
    'a permit');
pass('one whose client left has none');

# sluiced decides.
SKIP: {
    skip 'SLUICED names no daemon', 3 unless -x $daemon;
    $t->spawn($daemon, '-c', $t->dir . '/policy.yaml', '--store', 'memory:',
        '--listen-http', 'unix:' . $t->dir . '/sluiced.sock', '--listen-admin',
        'off', '--listen-grpc', 'off', '--listen-resp', 'off');
    $t->wait_for(sub { IO::Socket::UNIX->new(Peer => $t->dir . '/sluiced.sock') },
        'sluiced listens');
    $url = 'http://127.0.0.1:' . $t->port('pass');
    like(`h2load -n 100 -c 2 -m 16 -H 'x-user-id: ann' $url/x 2>&1`,
        qr/status codes: 60 2xx, 0 3xx, 40 4xx, 0 5xx/,
        'sluice_pass: exactly as many streams pass');
    like(ask("-H 'x-user-id: ann' $url/x"),
        qr/^HTTP\/2 429.*^retry-after: \d+\r$/ms, 'sluice_pass: a refusal');
    like(`h2load -n 4 -c 1 -m 4 -H 'x-user-id: bob' $url/even/x 2>&1`,
        qr/status codes: 4 2xx/, 'sluice_pass: delayed streams pass');
}
unlike($t->read('error.log'), qr/\[alert\]|\[crit\]|signal/, 'no crash');

done_testing;
