#!/usr/bin/env perl
# limit_req.t -- what nginx's own tests expect of limit_req, of our module:
# limit_req.t, limit_req2.t, limit_req_delay.t and limit_req_dry_run.t, in their
# order. Rates are per hour where theirs are slow, so that a slow machine gets
# the same answers.
use strict;
use warnings;

use Test::More;
use FindBin;
use lib "$FindBin::Bin/lib";
use Sluice::Nginx;
use Time::HiRes qw(sleep);

my $t = Sluice::Nginx->new;

$t->write('policy.yaml', <<'END');
sluice: 1
identity: { user: [], org: [] }
limits:
  one: { kind: token-bucket, per: ip, rate: 2/hour }
  long: { kind: leaky-bucket, per: ip, rate: 2/s queue 5 }
  fast: { kind: leaky-bucket, per: ip, rate: 1000/s queue 1 }
  a: { kind: leaky-bucket, per: user, rate: 1/hour queue 0, missing: skip }
  b: { kind: token-bucket, per: org, rate: 1000/s, missing: skip }
  late: { kind: leaky-bucket, per: ip, rate: 1/s queue 1 }
  dry: { kind: leaky-bucket, per: ip, rate: 60/hour queue 1 }
routes:
  - { match: /long, limits: [long] }
  - { match: /fast, limits: [fast] }
  - { match: /keys, limits: [a, b] }
  - { match: /late, limits: [late] }
  - { match: /dry/**, limits: [dry] }
default: [one]
END
$t->write('long', "1234567890\n" x (1 << 16));
$t->start(
    http => <<'END',
    sluice_policy {dir}/policy.yaml;
    log_format test '$uri:$sluice_status';
    access_log {dir}/test.log test;
END
    server => <<'END');
        sluice on;
        root {dir};
        add_header X-Status $sluice_status always;
        add_header X-Time $request_time always;
        location / { empty_gif; }
        location = /status { sluice_status 501; empty_gif; }
        location = /long { }
        location = /keys {
            sluice_identity user=$arg_a org=$arg_b;
            empty_gif;
        }
        location /dry/ { sluice dry_run; empty_gif; }
        location /dry/off { sluice on; empty_gif; }
        location = /off { sluice off; empty_gif; }
END

# limit_req.t
is($t->get('/x')->{status}, 200, 'request');
$t->get('/x');
is($t->get('/x')->{status}, 429, 'request rejected');
is($t->get('/status')->{status}, 501, 'request rejected status');
my @sockets = map { $t->send('GET', '/long', Connection => 'close') } 1, 2;
my @long = map { $t->receive($_) } @sockets;
is(length $long[1]{body}, length $long[0]{body},
    'delayed big request not truncated');
is(length $long[0]{body}, 11 << 16, 'nor the first');
is(join(' ', sort map { $_->{headers}{'x-status'} } @long), 'DELAYED PASSED',
    'one of them was delayed');
# A refusal takes nothing: of two an hour, two are used, however many ask.
$t->get('/x') for 1 .. 20;
cmp_ok($t->get('/x')->{headers}{'retry-after'}, '<=', 1800, 'rejects not counted');
$t->get('/fast');
sleep 0.1;
is($t->get('/fast')->{status}, 200, 'negative excess');

# limit_req2.t
is($t->get('/keys?b=1')->{status}, 200, 'fast');
is($t->get('/keys?b=1')->{status}, 200, 'fast - passed');
is($t->get('/keys?a=1')->{status}, 200, 'slow');
is($t->get('/keys?a=1')->{status}, 429, 'slow - rejected');
is($t->get('/keys?a=2&b=2')->{status}, 200, 'both');
is($t->get('/keys?a=2&b=2')->{status}, 429, 'both - rejected');
is($t->get('/keys')->{status}, 200, 'no key');
is($t->get('/keys')->{status}, 200, 'no key - passed');

# limit_req_delay.t
my $first = $t->send('GET', '/late', Connection => 'close');
is($t->receive($first)->{headers}{'x-status'}, 'PASSED', 'not yet delayed');
my @waiting = map { $t->send('GET', '/late', Connection => 'close') } 1 .. 4;
my %by;
push @{$by{$_->{status}}}, $_ for map { $t->receive($_) } @waiting;
cmp_ok(scalar @{$by{429} // []}, '>=', 1, 'rejected');
my @delayed = grep { $_->{headers}{'x-status'} eq 'DELAYED' } @{$by{200} // []};
cmp_ok(scalar @delayed, '>=', 1, 'delayed');
is(scalar(grep { $_->{headers}{'x-time'} eq '0.000' } @delayed), 0,
    'by some time');

# limit_req_dry_run.t
my $dry = $t->get('/dry/x');
is("$dry->{status} $dry->{headers}{'x-status'}", '200 PASSED', 'dry run - passed');
$dry = $t->get('/dry/x');
is("$dry->{status} $dry->{headers}{'x-status'}", '200 DELAYED_DRY_RUN',
    'dry run - delayed');
cmp_ok($dry->{headers}{'x-time'}, '<', 20, 'but not by the minute that it is due');
$dry = $t->get('/dry/x');
is("$dry->{status} $dry->{headers}{'x-status'}", '200 REJECTED_DRY_RUN',
    'dry run - rejected');
my $off = $t->get('/dry/off');
is("$off->{status} $off->{headers}{'x-status'}", '429 REJECTED',
    'dry run off - rejected');
ok(!exists $t->get('/off')->{headers}{'x-status'}, 'no limit');
my $log = $t->read('error.log');
like($log, qr/sluice: delayed.*dry run/, 'log - delay');
like($log, qr/sluice: refused.*dry run/, 'log - reject');
$t->wait_for(sub { $t->read('test.log') =~ m{^/off:-$}m }, 'the log');
pass('log - not found');

done_testing;
