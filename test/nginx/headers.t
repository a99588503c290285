#!/usr/bin/env perl
# headers.t -- our headers beside those of the application and of nginx.
use strict;
use warnings;

use Test::More;
use FindBin;
use lib "$FindBin::Bin/lib";
use Sluice::Nginx;

my $t = Sluice::Nginx->new;

$t->write('policy.yaml', <<'END');
sluice: 1
headers: [x-ratelimit, ietf, github]
limits:
  api: { kind: token-bucket, per: ip, rate: 1000/hour }
  none: { kind: token-bucket, per: ip, rate: 1/hour }
routes:
  - { match: /none/**, limits: [none] }
default: [api]
END

$t->serve(app => sub {
    return join "\r\n", 'HTTP/1.1 200 OK', 'Content-Length: 2',
        'Access-Control-Expose-Headers: X-App', 'X-App: 1',
        'X-RateLimit-Limit: 7', 'x-ratelimit-limit: 8', '', 'ok';
});
$t->start(
    http => 'sluice_policy {dir}/policy.yaml;',
    server => <<'END');
        sluice on;
        location / { proxy_pass http://127.0.0.1:{port:app}; }
        location /added/ {
            add_header Access-Control-Expose-Headers X-Mine always;
            add_header X-Mine 1 always;
            empty_gif;
        }
        location /missing/ { root {dir}/none; }
        location /none/ {
            add_header Access-Control-Expose-Headers X-Mine always;
            empty_gif;
        }
END

my $answer = $t->get('/');
is_deeply($answer->{all}{'x-ratelimit-limit'}, [1000],
    'ours replaces the header of the application');
is(scalar @{$answer->{all}{'access-control-expose-headers'}}, 1,
    'one list of exposed headers');
like($answer->{headers}{'access-control-expose-headers'},
    qr/^X-App, X-RateLimit-Limit, .*RateLimit/, 'theirs, and ours behind it');
is($answer->{headers}{'x-app'}, 1, 'other headers stay');
ok(defined $answer->{headers}{$_}, "$_ of its dialect")
    for qw(ratelimit ratelimit-policy x-ratelimit-used x-ratelimit-resource);

like($t->get('/added/x')->{headers}{'access-control-expose-headers'},
    qr/^X-Mine, X-RateLimit-Limit/, 'also with add_header');
my $missing = $t->get('/missing/x');
is($missing->{status}, 404, 'an error of nginx');
is($missing->{headers}{'x-ratelimit-limit'}, 1000, 'has our headers');
$t->get('/none/x');
my $refused = $t->get('/none/x');
is($refused->{status}, 429, 'a refusal');
like($refused->{headers}{'access-control-expose-headers'},
    qr/^X-Mine, X-RateLimit-Limit.*Retry-After/, 'exposes all of it');
is(scalar @{$refused->{all}{'retry-after'}}, 1, 'and has each header once');

done_testing;
