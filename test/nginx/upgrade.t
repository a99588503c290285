#!/usr/bin/env perl
# upgrade.t -- another nginx takes over under load, and is taken back: totals are
# exact and permits stay. Two policies and a sluiced have the same state file.
use strict;
use warnings;

use Test::More;
use FindBin;
use lib "$FindBin::Bin/lib";
use Sluice::Nginx;

my $t = Sluice::Nginx->new(daemon => 1);
my $daemon = $ENV{SLUICED} // 'bin/sluiced';
my $limit = 1_000_000;

plan skip_all => 'SLUICED names no daemon' unless -x $daemon;
my $policy = <<"END";
sluice: 1
limits:
  total: { kind: quota, per: [], rate: $limit/month }
  jobs: { kind: concurrency, per: [], rate: "1", hold: 60s }
routes:
  - { match: /jobs/**, limits: [jobs] }
  - { match: /total/**, limits: [total] }
default: []
END
$t->write('one.yaml', $policy);
# Another policy: the same total, one more limit, and a limit of another kind
# that has the same name.
$t->write('two.yaml', <<"END");
sluice: 1
limits:
  total: { kind: quota, per: [], rate: $limit/month }
  mine: { kind: token-bucket, per: [], rate: 2/hour }
  jobs: { kind: token-bucket, per: [], rate: 2/hour }
routes:
  - { match: /mine/**, limits: [mine] }
  - { match: /jobs/**, limits: [jobs] }
  - { match: /total/**, limits: [total] }
default: []
END
$t->serve(app => sub {
    my ($method, $path) = @_;
    my $dir = $t->dir;

    $t->write('in', '');
    select undef, undef, undef, 0.01 until -e "$dir/go" || !-d $dir;
    return "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
});
$t->spawn($daemon, '-c', $t->dir . '/one.yaml', '--store',
    'memory:' . $t->dir . '/state', '--memory', '4MiB', '--listen-http',
    '127.0.0.1:' . $t->port('api'), '--listen-admin', 'off', '--listen-grpc',
    'off', '--listen-resp', 'off');
$t->wait_for(sub { $t->connect('api') }, 'sluiced listens');
$t->start(
    http => <<'END',
    sluice_state {dir}/state;
    sluice_log_level info;
    sluice on;
    server {
        listen 127.0.0.1:{port:two};
        sluice_policy {dir}/two.yaml;
        location / { empty_gif; }
    }
END
    server => <<'END');
        sluice_policy {dir}/one.yaml;
        location / { empty_gif; }
        location /jobs/ { proxy_pass http://127.0.0.1:{port:app}; }
END

# The status of a request to nginx, or what sluiced would answer.
sub ask {
    my ($port, $path) = @_;
    my $socket = $t->connect($port) or return 'gone';
    my @close = (socket => $socket, Connection => 'close');
    my $answer = $port eq 'api'
        ? $t->request('POST', '/v1/check', @close, body => qq({"path":"$path"}))
        : $t->get($path, @close);

    return 'gone' unless $answer;
    return $answer->{status} if $port ne 'api';
    return $answer->{body} =~ /"status":(\d+)/ ? $1 : $answer->{body};
}

sub statuses { return join ' ', map { ask($_[1], $_[2]) } 1 .. $_[0] }

# Limits of one policy are its own.
is(statuses(3, two => '/mine/x'), '200 200 429', 'a limit of one policy');
is(statuses(3, two => '/jobs/x'), '200 200 429',
    'a limit of another kind with the same name');
my $job = $t->send('GET', '/jobs/x', Connection => 'close');
$t->wait_for(sub { -e $t->dir . '/in' }, 'a job runs');
is(ask(main => '/jobs/y'), 429, 'one permit');
is(ask(api => '/jobs/y'), 429, 'which sluiced sees');

# Clients of both servers and of sluiced, until the file `stop` is there.
my @pids = map {
    my $port = $_;
    $t->in_child(sub {
        my %count;
        until (-e $t->dir . '/stop') {
            $count{ask($port => '/total/x')}++;
            select undef, undef, undef, 0.005;
        }
        $t->write("count-$port", join ' ', map { "$_=$count{$_}" } sort keys %count);
        POSIX::_exit(0);
    })
} qw(main two api);

# Signals for an upgrade: a new master with workers, beside the old one.
sub upgrade {
    my $old = $t->master;

    kill USR2 => $old;
    $t->wait_for(sub { -s $t->dir . '/nginx.pid.oldbin'
        && ($t->master // $old) != $old && $t->workers == 2 }, 'a new master');
    return $old;
}

sub children {
    my ($pid) = @_;

    open my $file, '<', "/proc/$pid/task/$pid/children" or return;
    return split ' ', <$file> // '';
}

# The old workers end, but for the one that has the job; the new master is a child
# of the old one, too. Then the upgrade is taken back.
my $old = upgrade();
my $new = $t->master;
kill WINCH => $old;
$t->wait_for(sub { children($old) == 2 }, 'old workers end');
is(ask(main => '/jobs/y'), 429, 'the permit of an old worker stays');
kill HUP => $old;
$t->wait_for(sub { children($old) == 4 }, 'workers of the old master');
kill QUIT => $new;
$t->wait_for(sub { !kill(0, $new) && ($t->master // 0) == $old },
    'the new master ends');
is(ask(main => '/jobs/y'), 429, 'also when the upgrade is taken back');

# Once more, to its end.
$old = upgrade();
kill WINCH => $old;
$t->wait_for(sub { children($old) == 2 }, 'old workers end');
kill QUIT => $old;
is(ask(main => '/jobs/y'), 429, 'and when the old master is told to end');
$t->write('go', '');
is($t->receive($job)->{status}, 200, 'its request ends');
$t->wait_for(sub { !kill 0, $old }, 'the old master ends');
$t->wait_for(sub { ask(main => '/jobs/y') == 200 }, 'a permit');
pass('and frees its permit');
$t->reload for 1 .. 3;

# Everything that passed is counted, once.
$t->write('stop', '');
$t->end_child($_, 0) for @pids;
my $passed = 1;
for my $port (qw(main two api)) {
    my $counts = $t->read("count-$port");

    like($counts, qr/^200=[1-9]\d*$/, "$port: all pass");
    $passed += $1 if $counts =~ /200=(\d+)/;
}
is($t->get('/total/x')->{headers}{'x-ratelimit-remaining'}, $limit - $passed,
    "exactly $passed are counted");
unlike($t->read('error.log'), qr/\[alert\]|\[crit\]|signal 11/, 'no crash');

$t->stop;
done_testing;
