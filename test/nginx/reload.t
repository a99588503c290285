#!/usr/bin/env perl
# reload.t -- state and holds outlive reloads, restarts and upgrades of nginx,
# and are shared with sluiced.
use strict;
use warnings;

use Test::More;
use FindBin;
use lib "$FindBin::Bin/lib";
use Sluice::Nginx;

my $t = Sluice::Nginx->new(daemon => 1);
my $policy = <<'END';
sluice: 1
identity: { user: [header.x-user-id] }
limits:
  api: { kind: token-bucket, per: user, rate: 5/hour }
  jobs: { kind: concurrency, per: user, rate: "1", hold: 30s }
routes:
  - { match: /jobs/**, limits: [jobs] }
default: [api]
END
my @http = (http => 'sluice_policy {dir}/policy.yaml; sluice_state {dir}/state size=4m;');
my @server = (server => <<'END');
        sluice on;
        location / { empty_gif; }
        location /jobs/ { proxy_pass http://127.0.0.1:{port:app}; }
END

$t->serve(app => sub {
    my ($method, $path) = @_;
    my $dir = $t->dir;

    $t->write('in', '');
    select undef, undef, undef, 0.01 until -e "$dir/go" || !-d $dir;
    return "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
});
$t->write('policy.yaml', $policy);
$t->start(@http, @server);

sub left { return $t->get($_[0] // '/x', 'X-User-Id' => 'ann')
    ->{headers}{'x-ratelimit-remaining'} }

# A reload.
my $job = $t->send('GET', '/jobs/x', 'X-User-Id' => 'ann',
    Connection => 'close');
$t->wait_for(sub { -e $t->dir . '/in' }, 'a job runs');
is(left(), 4, 'the first');
$t->reload;
is(left(), 3, 'a reload keeps the count');
is($t->get('/jobs/z', 'X-User-Id' => 'ann')->{status}, 429, 'and holds');

# A reload with a bad policy changes nothing.
my @before = sort $t->workers;
$t->write('policy.yaml', $policy =~ s/5\/hour/5\/huor/r);
kill HUP => $t->master;
$t->wait_for(sub { $t->read('error.log') =~ /policy\.yaml:\d+:\d+: .*"huor"/ },
    'the message');
is_deeply([sort $t->workers], \@before, 'a bad policy leaves the old workers');
is(left(), 2, 'which go on');
$t->write('policy.yaml', $policy =~ s/5\/hour/50\/hour/r);
$t->reload;
cmp_ok(left(), '>=', 40, 'a good one is used');

# An upgrade of the program: both masters use the state.
$t->write('policy.yaml', $policy);
$t->reload;
my $old = $t->master;
kill USR2 => $old;
$t->wait_for(sub { -s $t->dir . '/nginx.pid.oldbin' && ($t->master // $old) != $old
    && $t->workers == 2 }, 'a new master');
kill QUIT => $old;
$t->write('go', '');
is($t->receive($job)->{status}, 200, 'the old one ends its requests');
$t->wait_for(sub { !kill 0, $old }, 'the old master ends');
is(left(), 0, 'an upgrade keeps the count');
is($t->get('/x', 'X-User-Id' => 'ann')->{status}, 429, 'exactly');
$t->wait_for(sub { $t->get('/jobs/z', 'X-User-Id' => 'ann')->{status} == 200 },
    'the permit');
pass('and a permit of the old workers is free when their request ends');

# A file of another size keeps its size and its counts.
$t->configure((map { s/size=4m/size=8m/r } @http), @server);
$t->reload;
is($t->get('/x', 'X-User-Id' => 'ann')->{status}, 429,
    'another size keeps the count');
like($t->read('error.log'), qr/state has 4194304 bytes, not 8388608, and is used/,
    'and is said');
is(-s $t->dir . '/state', 4 << 20, 'the file stays');

# After a stop it grows, and keeps them, too.
my $last = $t->master;
kill QUIT => $last;
$t->wait_for(sub { !kill 0, $last }, 'nginx ends');
$t->start;
is(-s $t->dir . '/state', 8 << 20, 'the file grows at a start');
is($t->get('/x', 'X-User-Id' => 'ann')->{status}, 429, 'with its counts');
is($t->get('/x', 'X-User-Id' => 'eve')->{status}, 200, 'which are per caller');
like($t->read('error.log'), qr/has grown to 8388608 bytes; usage is kept/,
    'and says so');

# sluiced with the same file.
SKIP: {
    my $daemon = $ENV{SLUICED} // '';
    skip 'SLUICED names no daemon', 2 unless -x $daemon;
    $t->port('api');
    $t->spawn($daemon, '-c', $t->dir . '/policy.yaml', '--store',
        'memory:' . $t->dir . '/state', '--memory', '8MiB', '--listen-http',
        '127.0.0.1:' . $t->port('api'), '--listen-admin', 'off',
        '--listen-grpc', 'off', '--listen-resp', 'off');
    $t->wait_for(sub { $t->connect('api') }, 'sluiced listens');
    my $check = sub {
        my ($user) = @_;
        return $t->request('POST', '/v1/check', socket => $t->connect('api'),
            Connection => 'close',
            body => qq({"path":"/x","user":"$user"}))->{body};
    };
    like($check->('ann'), qr/"allowed":false/, 'sluiced sees the same count');
    $check->('bob') for 1 .. 5;
    is($t->get('/x', 'X-User-Id' => 'bob')->{status}, 429,
        'and nginx that of sluiced');
}

# A file that is damaged while workers use it ends no master.
$t->configure((map { s!dir\}/state!dir}/other!r } @http), @server);
$t->reload;
open my $file, '+<', $t->dir . '/other' or die $!;
sysseek $file, 100_000, 0;
syswrite $file, "\xff" x 400_000;
close $file;
$last = $t->master;
kill HUP => $last;
$t->wait_for(sub { $t->read('error.log')
    =~ /other" is damaged: a process that opened it ended by signal \d/ },
    'a refusal');
ok(kill(0, $last), 'a damaged file is refused, and the master stays');
unlink $t->dir . '/other';
$t->reload;
is($t->get('/x', 'X-User-Id' => 'ann')->{status}, 200, 'it takes a new one');

$t->stop;
done_testing;
