#!/usr/bin/env perl
# limit_conn.t -- what nginx's own tests expect of limit_conn, of our module:
# limit_conn.t, limit_conn_complex.t and limit_conn_dry_run.t, in their order.
use strict;
use warnings;

use Test::More;
use FindBin;
use lib "$FindBin::Bin/lib";
use Sluice::Nginx;

my $t = Sluice::Nginx->new;

$t->write('policy.yaml', <<'END');
sluice: 1
identity: { user: [] }
limits:
  zone: { kind: concurrency, per: ip, rate: "1", hold: 60s }
  zone2: { kind: concurrency, per: ip, rate: "1", hold: 60s }
  custom: { kind: concurrency, per: ip, rate: "1", hold: 60s }
  conn: { kind: concurrency, per: user, rate: "1", hold: 60s }
routes:
  - { match: /zone2, limits: [zone2] }
  - { match: /custom/**, limits: [custom] }
  - { match: /keys/**, limits: [conn] }
default: [zone]
END
# The same limit with more room, as `limit_conn zone 5` of another location.
$t->write('more.yaml', <<'END');
sluice: 1
limits:
  zone: { kind: concurrency, per: ip, rate: "5", hold: 60s }
default: [zone]
END

# Answers a path with /w/ when the file go-NAME is there.
$t->serve(app => sub {
    my ($method, $path) = @_;
    my $dir = $t->dir;

    if (my ($name) = $path =~ m{/w/([^/?]+)}) {
        $t->write("in-$name", '');
        select undef, undef, undef, 0.01 until -e "$dir/go-$name" || !-d $dir;
    }
    return "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
});
$t->start(
    http => <<'END',
    sluice_policy {dir}/policy.yaml;
    sluice_state zone=one:4m;
    log_format test '$uri:$sluice_status';
    access_log {dir}/test.log test;
END
    server => <<'END');
        sluice on;
        add_header X-Status $sluice_status always;
        location / { proxy_pass http://127.0.0.1:{port:app}; }
        location = /1 { empty_gif; }
        location = /zone2 { empty_gif; }
        location /unlim { sluice_policy {dir}/more.yaml; empty_gif; }
        location /custom/ {
            sluice_log_level info;
            sluice_status 501;
            proxy_pass http://127.0.0.1:{port:app};
        }
        location /keys/ {
            sluice_identity user=$remote_addr$arg_c;
            proxy_pass http://127.0.0.1:{port:app};
        }
        location = /dry { sluice dry_run; empty_gif; }
        location = /off { sluice off; empty_gif; }
END

# Sends a request that waits, and returns when the application has it. The permit
# of the request before is free when nginx has logged it, which is after its
# client has the response: one that is refused is sent again.
sub begin {
    my ($path) = @_;
    my ($name) = $path =~ m{/w/([^/?]+)};
    my $socket;

    $t->wait_for(sub {
        $socket = undef if $socket && IO::Select->new($socket)->can_read(0);
        $socket //= $t->send('GET', $path, Connection => 'close');
        return -e $t->dir . "/in-$name";
    }, "$name runs");
    return $socket;
}

sub status { return $t->get($_[0])->{status} }

# A client that left is noticed a little later.
sub passes {
    my ($path) = @_;

    return $t->wait_for(sub { status($path) == 200 }, "$path passes");
}

# limit_conn.t
my $s = begin('/w/a');
is(status('/'), 429, 'rejected');
is(status('/1'), 429, 'rejected different location');
is(status('/zone2'), 200, 'passed different zone');
close $s;
ok(passes('/1'), 'passed');
$s = begin('/custom/w/b');
is(status('/custom/x'), 501, 'limit_conn_status');
like($t->read('error.log'), qr/\[info\].*sluice: refused: \d+ \w+, limit "custom"/,
    'limit_conn_log_level');
my $other = begin('/w/c');
is(status('/unlim'), 200, 'unlimited passed');
is(status('/'), 429, 'limited rejected');
close $_ for $s, $other;
ok(passes('/1'), 'all are free again');

# limit_conn_complex.t
$s = begin('/keys/w/d');
is(status('/keys/x'), 429, 'limit_conn same key');
is(status('/keys/x?c=2'), 200, 'limit_conn different key');
close $s;

# limit_conn_dry_run.t
ok(passes('/1'), 'free again');
my $first;
$t->wait_for(sub { ($first = $t->get('/x'))->{status} == 200 }, 'a pass');
is("$first->{status} $first->{headers}{'x-status'}", '200 PASSED', 'passed');
$s = begin('/w/e');
my $rejected = $t->get('/');
is("$rejected->{status} $rejected->{headers}{'x-status'}", '429 REJECTED', 'rejected');
my $dry = $t->get('/dry');
is("$dry->{status} $dry->{headers}{'x-status'}", '200 REJECTED_DRY_RUN',
    'rejected dry run');
ok(!exists $t->get('/off')->{headers}{'x-status'}, 'no limit');
close $s;
ok(passes('/'), 'a dry run that was refused holds nothing');
like($t->read('error.log'), qr/sluice: refused, dry run/, 'log dry run');
$t->wait_for(sub { $t->read('test.log') =~ m{^/off:-$}m }, 'the log');
pass('log not found');
$t->write("go-$_", '') for qw(a b c d e);

done_testing;
