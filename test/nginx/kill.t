#!/usr/bin/env perl
# kill.t -- workers that are killed under load, and many reloads: totals are
# exact, permits come back, and neither the master nor workers grow.
#
#   SL_RELOADS  how many reloads (40, or 10,000 with SL_LONG)
use strict;
use warnings;

use Test::More;
use FindBin;
use lib "$FindBin::Bin/lib";
use Sluice::Nginx;
use Time::HiRes qw(sleep time);

my $t = Sluice::Nginx->new(workers => 4);
my $kills = $ENV{SL_LONG} ? 300 : 25;
my $reloads = $ENV{SL_RELOADS} // ($ENV{SL_LONG} ? 10_000 : 40);
my $limit = 1500;
my $clients = 4;

$t->write('policy.yaml', <<"END");
sluice: 1
identity: { user: [header.x-user-id] }
limits:
  total: { kind: quota, per: [], rate: $limit/month }
  jobs: { kind: concurrency, per: [], rate: "6", hold: 1s }
routes:
  - { match: /total/**, limits: [total] }
  - { match: /jobs/**, limits: [jobs] }
default: []
END
$t->serve(app => sub {
    my ($method, $path) = @_;
    my $dir = $t->dir;

    select undef, undef, undef, 0.01
        until $path =~ /short/ || -e "$dir/go" || !-d $dir;
    return "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
});
$t->start(
    http => 'sluice_policy {dir}/policy.yaml; sluice_state {dir}/state size=4m;'
        . ' sluice_log_level info;',
    server => <<'END');
        sluice on;
        location / { empty_gif; }
        location /jobs/ { proxy_pass http://127.0.0.1:{port:app}; }
END

# One request: its status, or `gone` if its worker was killed.
sub try {
    my ($path) = @_;
    my $socket = $t->connect or return 'gone';

    local $SIG{PIPE} = 'IGNORE';
    $t->send('GET', $path, socket => $socket, Connection => 'close');
    my $answer = $t->receive($socket) or return 'gone';
    return $answer->{status};
}

# Clients that count until the file `stop` is there.
my @pids = map {
    my $number = $_;
    $t->in_child(sub {
        my %count = map { $_ => 0 } 200, 429, 'gone';
        until (-e $t->dir . '/stop') {
            $count{try('/total/x')}++;
            try('/jobs/short');
        }
        $t->write("count-$number", join ' ', @count{200, 429, 'gone'});
        POSIX::_exit(0);
    })
} 1 .. $clients;

my $killed = 0;
for (1 .. $kills) {
    my @workers = $t->workers or redo;
    $killed += kill KILL => $workers[rand @workers];
    sleep 0.04;
}
is($killed, $kills, "$kills workers killed under load");
$t->write('stop', '');
$t->end_child($_, 0) for @pids;
$t->wait_for(sub { $t->workers == 4 }, 'workers');

# What passed, and what is left now, is the limit, but for requests that were
# counted when their worker was killed.
my ($passed, $gone) = (0, 0);
for my $number (1 .. $clients) {
    my ($good, $refused, $lost) = split ' ', $t->read("count-$number");
    $passed += $good;
    $gone += $lost;
}
my $after = 0;
for (1 .. $limit + 1) {
    my $status = try('/total/x');
    $after++ if $status eq 200;
    last if $status eq 429;
}
cmp_ok($passed + $after, '<=', $limit, "never more than $limit pass");
cmp_ok($passed + $after + $gone, '>=', $limit,
    "and none is lost: $passed + $after, and $gone without an answer");

# All permits come back, also those of requests whose worker was killed.
my @jobs;
$t->wait_for(sub {
    close $_ for splice @jobs;
    my @tried = map { $t->send('GET', '/jobs/long', Connection => 'close') }
        1 .. 6;
    @jobs = grep { !IO::Select->new($_)->can_read(0.2) } @tried;
    @jobs == 6;
}, 'six permits');
is(try('/jobs/short'), 429, 'six permits are there, and not a seventh');
$t->write('go', '');
is(join(' ', map { $t->receive($_)->{status} } @jobs),
    '200 200 200 200 200 200', 'all of them work');
unlike($t->read('error.log'), qr/\[alert\].*sluice|signal 11/, 'no crash');

# Reloads under load. Master and workers are measured without load, and after the
# workers before have ended: each process has files for each worker.
sub size_of {
    my ($pid) = @_;
    my @fds = glob "/proc/$pid/fd/*";

    open my $file, '<', "/proc/$pid/statm" or return (0, 0);
    return ((split ' ', <$file> // '0 0')[1] * 4, scalar @fds);
}

# Waits until the workers of earlier reloads have ended.
sub settle {
    my $master = $t->master;

    $t->wait_for(sub {
        open my $file, '<', "/proc/$master/task/$master/children" or die $!;
        4 == split ' ', <$file> // '';
    }, 'old workers end');
}

# Of the master and of its largest worker: KiB and files.
sub measure {
    settle();
    $t->reload;
    settle();
    my @workers = map { [size_of($_)] } $t->workers;
    my ($size) = sort { $b <=> $a } map { $_->[0] } @workers;
    my ($fds) = sort { $b <=> $a } map { $_->[1] } @workers;
    return (size_of($t->master), $size, $fds);
}

unlink $t->dir . '/stop';
$t->reload for 1 .. 10;
my @before = measure();
my $load = $t->in_child(sub {
    try('/total/x'), try('/jobs/short') until -e $t->dir . '/stop';
});
for (1 .. $reloads) {
    $t->reload;
    diag(sprintf '%d reloads: %d KiB, %d files', $_, size_of($t->master))
        if $_ % 500 == 0;
}
$t->write('stop', '');
$t->end_child($load, 0);
my @after = measure();
cmp_ok($after[0] - $before[0], '<', 2048,
    "$reloads reloads: the master has $before[0] KiB, then $after[0]");
cmp_ok($after[1], '<=', $before[1], "and $before[1] files, then $after[1]");
cmp_ok($after[2] - $before[2], '<', 2048,
    "a worker has $before[2] KiB, then $after[2]");
cmp_ok($after[3], '<=', $before[3], "and $before[3] files, then $after[3]");

done_testing;
