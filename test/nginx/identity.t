#!/usr/bin/env perl
# identity.t -- who is asking: directives, addresses, trust and tokens.
use strict;
use warnings;

use Digest::SHA qw(hmac_sha256);
use MIME::Base64 qw(encode_base64url);
use Test::More;
use FindBin;
use lib "$FindBin::Bin/lib";
use Sluice::Nginx;

my $t = Sluice::Nginx->new;
my $limits = <<'END';
limits:
  user: { kind: token-bucket, per: user, rate: { free: 2/hour, pro: 4/hour } }
  org: { kind: token-bucket, per: org, rate: 3/hour }
  ip: { kind: token-bucket, per: ip, rate: 2/hour }
routes:
  - { match: /org/**, limits: [org] }
  - { match: /ip/**, limits: [ip] }
  - { match: /admin/**, roles: [admin], limits: [user] }
default: [user]
END

$t->write('policy.yaml', <<"END");
sluice: 1
plans: { default: free, free: {}, pro: {} }
identity: { user: [header.x-user-id] }
$limits
END
$t->write('strict.yaml', <<"END");
sluice: 1
plans: { default: free, free: {}, pro: {} }
identity: { user: [header.x-user-id], trusted_proxies: [10.0.0.0/8] }
$limits
END
$t->write('token.yaml', <<"END");
sluice: 1
plans: { default: free, free: {}, pro: {} }
identity:
  user: [jwt.sub]
  plan: [jwt.plan]
  jwt: { jwks: "file:./keys.json", algorithms: [HS256] }
$limits
END

sub write_key {
    my ($name, $key) = @_;

    $t->write('keys.new', sprintf '{"keys":[{"kty":"oct","kid":"%s",'
        . '"alg":"HS256","k":"%s"}]}', $name, encode_base64url($key));
    rename $t->dir . '/keys.new', $t->dir . '/keys.json' or die $!;
}

sub token {
    my ($name, $key, $claims) = @_;
    my $text = join '.', map { encode_base64url($_) }
        qq({"alg":"HS256","kid":"$name"}),
        $claims =~ s/\}$/sprintf ',"exp":%d}', time + 3600/er;

    return "Bearer $text." . encode_base64url(hmac_sha256($text, $key));
}

my ($old, $new) = ('0123456789abcdef0123456789abcdef',
    'fedcba9876543210fedcba9876543210');
write_key('old', $old);

$t->start(
    http => 'sluice_policy {dir}/policy.yaml;',
    server => <<'END');
        sluice on;
        location / {
            sluice_identity user=$arg_user org=$arg_org plan=$arg_plan
                role=$arg_role;
            empty_gif;
        }
        location /ip/real/ {
            set_real_ip_from 127.0.0.1;
            real_ip_header X-Real-IP;
            empty_gif;
        }
        location /ip/given/ { sluice_identity ip=$arg_ip; empty_gif; }
        location /strict/ { sluice_policy {dir}/strict.yaml; empty_gif; }
        location /token/ { sluice_policy {dir}/token.yaml; empty_gif; }
END

# Directives.
is($t->statuses(3, '/x?user=ann'), '200 200 429', 'user=');
is($t->statuses(5, '/x?user=bob&plan=pro'), '200 200 200 200 429', 'plan=');
is($t->statuses(4, '/org/x?org=acme'), '200 200 200 429', 'org=');
is($t->get("/admin/x?user=rex&role=$_->[0]")->{status}, $_->[1],
    "role=$_->[0]") for ['member', 403], ['admin', 200], ['', 403];
is($t->statuses(1, '/x?user=cat'), '200', 'each on their own');

# Addresses.
is($t->statuses(3, '/ip/real/x', 'X-Real-IP' => '203.0.113.1'), '200 200 429',
    'the address that realip finds, also in a location');
is($t->statuses(2, '/ip/real/x', 'X-Real-IP' => '203.0.113.2'), '200 200',
    'others have their own');
is($t->statuses(3, '/ip/given/x?ip=203.0.113.3'), '200 200 429', 'ip=');
is($t->statuses(3, '/ip/x', 'X-Forwarded-For' => '203.0.113.4'),
    '200 200 429', 'X-Forwarded-For of a trusted peer');

# A client cannot name itself, unless the policy trusts it.
is(join(' ', map { $t->get('/strict/x', 'X-User-Id' => "u$_")->{status} }
    1 .. 3), '200 200 429', 'headers of a peer that is not trusted');

# Tokens.
is($t->statuses(3, '/token/x',
    Authorization => token('old', $old, '{"sub":"tom"}')), '200 200 429',
    'a token');
is($t->statuses(5, '/token/x',
    Authorization => token('old', $old, '{"sub":"dan","plan":"pro"}')),
    '200 200 200 200 429', 'its plan');
my $bad = $t->get('/token/x', Authorization =>
    token('old', $new, '{"sub":"eve","plan":"pro"}'));
is($bad->{headers}{'x-ratelimit-limit'}, 2, 'a forged one names no caller');

# Keys are read again when their file changes.
write_key('new', $new);
$t->wait_for(sub {
    my $answer = $t->get('/token/x', Authorization =>
        token('new', $new, '{"sub":"fay' . rand . '","plan":"pro"}'));
    ($answer->{headers}{'x-ratelimit-limit'} // '') eq '4';
}, 'the new keys');
pass('new keys are read without a reload');

done_testing;
