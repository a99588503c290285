#!/usr/bin/env perl
# config.t -- what nginx -t says, and what it refuses.
use strict;
use warnings;

use Test::More;
use FindBin;
use lib "$FindBin::Bin/lib";
use Sluice::Nginx;

my $t = Sluice::Nginx->new;
my $good = "sluice: 1\nlimits:\n  api: { kind: token-bucket, per: ip, rate: 5/min }\ndefault: [api]\n";

# Is the configuration refused with these words?
sub refused {
    my ($words, $http, $server, $policy) = @_;

    $t->write('policy.yaml', $policy // $good);
    my ($ok, $out) = $t->test_conf(http => $http, server => $server // '');
    ok(!$ok, "refused: $words") or diag($out);
    like($out, qr/\[emerg\].*$words/, $words);
}

my $load = 'sluice_policy {dir}/policy.yaml;';

$t->write('policy.yaml', $good);
my ($ok, $out) = $t->test_conf(http => $load,
    server => 'location / { sluice on; }');
ok($ok, 'a good configuration') or diag($out);

# Problems of the policy have its file, line and column.
refused(qr/policy\.yaml:3:47: .*"mni".* in .*nginx\.conf:\d+/, $load, '',
    $good =~ s{5/min}{5/mni}r);
refused(qr/policy\.yaml:4:11: .*apu.*write: api/, $load, '',
    $good =~ s/\[api\]/[apu]/r);
refused(qr/none\.yaml: can't be read: No such file/,
    'sluice_policy {dir}/none.yaml;');

# What a worker cannot do.
my $ask = qr/ask sluiced/;
refused(qr/server\.store is redis:.*$ask/, $load, '',
    $good . "server: { store: \"redis://secret\@db:6379\" }\n");
unlike($t->read('error.log') . ($t->test_conf)[1], qr/secret/,
    'without the URL');
refused(qr/identity\.jwt\.jwks is a URL.*file:.*$ask/, $load, '',
    $good . "identity: { jwt: { jwks: \"https://id.example/keys\" } }\n");
for my $state ('', 'sluice_state {dir}/state;', 'sluice_state zone=one:1m;') {
    refused(qr/identity\.jwt\.jwks: .*none\.json can't be read/, "$load $state",
        '', $good . "identity: { jwt: { jwks: \"file:none.json\" } }\n");
}
refused(qr/policy\.yaml:6: the route .* has dedupe.*$ask/, $load, '',
    $good . "routes:\n  - { match: /x, limits: [api], dedupe: header.x-id }\n");

# Directives.
refused(qr/sluice is on without a policy/, '', 'sluice on;');
refused(qr/invalid value "yes"/, $load, 'sluice yes;');
refused(qr/unknown identity "usr"; valid are user, org/, $load,
    'sluice_identity usr=$remote_user;');
refused(qr/"\$x" must be NAME=VALUE/, $load, 'set $x 1; sluice_identity $x;');
refused(qr/"zone=one" must be zone=NAME:SIZE/, "$load sluice_state zone=one;");
refused(qr/must be a size of at least 1m/,
    "$load sluice_state zone=one:4k;");
($ok, $out) = $t->test_conf(http => "$load sluice_state {dir}/big size=2g;",
    server => 'location / { sluice on; }');
ok($ok, 'a size in gigabytes') or diag($out);
refused(qr/invalid parameter "size=2m"; the size of a zone is written zone=/,
    "$load sluice_state zone=one:1m size=2m;");
refused(qr/"user=" is there twice/, $load,
    'sluice_identity user=$arg_a user=$arg_b;');
refused(qr/"=5" must be NAME=VALUE/, $load, 'sluice_cost =5;');
refused(qr/"api=" is there twice/, $load, 'sluice_cost api=1 api=2;');
refused(qr/"-5" is not a cost; a cost is a whole number/, $load,
    'sluice_cost -5;');
refused(qr/"many" is not a cost/, $load, 'sluice_settle api=many;');
for my $empty ('sluice_cost "";', 'sluice_cost api=;', 'sluice_settle "";') {
    ($ok, $out) = $t->test_conf(http => "$load sluice_cost 2; sluice_settle 3;",
        server => "location / { sluice on; $empty }");
    ok($ok, "an empty cost: $empty") or diag($out);
}
$t->write('empty', "\n");
refused(qr/sluice_pass: there is no token in ".*\/empty"/, '',
    'sluice_pass 127.0.0.1:80 token=empty;');
refused(qr/value must be between 400 and 599/, $load,
    'sluice_status 200;');
refused(qr/"sluice_state" directive is duplicate/,
    "$load sluice_state zone=one:1m; sluice_state zone=two:1m;");
refused(qr/sluice_cost "apo=...": the policy has no limit "apo"; did you mean "api"/,
    $load, 'location / { sluice on; sluice_cost apo=5; }');
refused(qr/sluice_settle "tokens=...": the policy has no limit "tokens"/,
    "$load sluice_settle tokens=5;", 'location / { sluice on; }');
refused(qr/sluice_state: no file can be made in ".*none"/,
    "$load sluice_state {dir}/none/state;", 'sluice on;');

# nginx -t makes no state, and leaves an unusable one alone.
$t->write('policy.yaml', $good);
$t->write('state', 'not a state');
($ok) = $t->test_conf(http => "$load sluice_state {dir}/state;");
ok($ok && $t->read('state') eq 'not a state', 'nginx -t changes no state');

# A link is not followed, and the workers must reach the file.
$t->write('other', '');
symlink $t->dir . '/other', $t->dir . '/link' or die $!;
my @link = (http => "$load sluice_state {dir}/link;");
($ok, $out) = $t->test_conf(@link);
like($out, qr/sluice_state: ".*link" must be a regular file/, 'no link');
like($t->start_fails(@link), qr/\[emerg\].*link" cannot be opened; it must not be a link/,
    'not at the start either');
ok(-z $t->dir . '/other', 'and what it names stays');
SKIP: {
    skip 'only root starts workers of another user', 5 if $> != 0;
    mkdir $t->dir . '/closed', 0700 or die $!;
    my @closed = (user => 'user nobody nogroup;',
        http => "$load sluice_state {dir}/closed/state size=1m;");
    my $words = qr/\[emerg\].*workers, which run as "nobody", cannot use ".*closed.*Permission denied/;
    ($ok, $out) = $t->test_conf(@closed);
    ok(!$ok, 'a folder that workers may not enter');
    like($out, $words, 'nginx -t says so');
    like($t->start_fails(@closed), $words, 'and the start');

    # A file that root has copied without rights.
    mkdir $t->dir . '/open', 0711 or die $!;
    $t->write('open/state', '');
    chmod 0400, $t->dir . '/open/state';
    $t->start(user => 'user nobody nogroup;',
        http => "$load sluice_state {dir}/open/state size=1m;",
        server => 'location / { sluice on; empty_gif; }');
    is($t->get('/x')->{headers}{'x-ratelimit-limit'}, 5,
        'a file of root that may only be read is given to the workers');
    is((stat $t->dir . '/open/state')[2] & 0777, 0600, 'with their rights');
}

done_testing;
