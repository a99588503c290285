#!/usr/bin/env perl
# h2.t -- HTTP/2: streams are decided one by one.
use strict;
use warnings;

use Test::More;
use FindBin;
use lib "$FindBin::Bin/lib";
use Sluice::Nginx;

my $t = Sluice::Nginx->new;

plan skip_all => 'curl has no HTTP/2' unless `curl -V 2>/dev/null` =~ /HTTP2/;
plan skip_all => 'h2load is not installed' unless `h2load --version 2>/dev/null`;

$t->write('policy.yaml', <<'END');
sluice: 1
identity: { user: [header.x-user-id] }
limits:
  api: { kind: quota, per: user, rate: 60/month }
  even: { kind: leaky-bucket, per: user, rate: 20/s queue 3 }
routes:
  - { match: /even/**, limits: [even] }
default: [api]
END
$t->start(
    http => 'sluice_policy {dir}/policy.yaml;',
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

done_testing;
