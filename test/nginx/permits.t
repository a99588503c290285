#!/usr/bin/env perl
# permits.t -- concurrency: what limit_conn does; costs that are settled.
use strict;
use warnings;

use Test::More;
use FindBin;
use lib "$FindBin::Bin/lib";
use Sluice::Nginx;

my $t = Sluice::Nginx->new;

$t->write('policy.yaml', <<'END');
sluice: 1
identity: { user: [header.x-user-id] }
limits:
  jobs: { kind: concurrency, per: user, rate: "2", hold: 1s }
  tokens: { kind: quota, per: user, rate: 1000/month }
  calls: { kind: quota, per: user, rate: 100/month, cost: 1 }
routes:
  - { match: /jobs/**, limits: [jobs] }
  - { match: /ai/**, limits: [tokens, calls] }
  - { match: /both/**, limits: [jobs, tokens] }
default: []
END

# Answers when the file of its path is there.
$t->serve(app => sub {
    my ($method, $path, $headers) = @_;
    my ($name) = $path =~ m{([^/]+)$};

    if ($path =~ /wait/) {
        my $dir = $t->dir;
        $t->write("in-$name", '');
        select undef, undef, undef, 0.01 until -e "$dir/go-$name" || !-d $dir;
    }
    my $tokens = $headers->{'x-say-tokens'};
    return "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n"
        . (defined $tokens ? "X-Tokens: $tokens\r\n" : '') . "\r\nok";
});

$t->start(
    http => 'sluice_policy {dir}/policy.yaml; sluice_state zone=one:4m;',
    server => <<'END');
        sluice on;
        location / { proxy_pass http://127.0.0.1:{port:app}; }
        location /ai/ {
            sluice_cost tokens=$http_x_estimate;
            sluice_settle tokens=$upstream_http_x_tokens;
            proxy_pass http://127.0.0.1:{port:app};
        }
        location /both/ {
            sluice_settle tokens=$upstream_http_x_tokens;
            proxy_pass http://127.0.0.1:{port:app};
        }
        location /jobs/sub/ {
            auth_request /allowed;
            proxy_pass http://127.0.0.1:{port:app};
        }
        location = /allowed {
            internal;
            log_subrequest on;
            sluice off;
            proxy_pass http://127.0.0.1:{port:app}/ok;
        }
END

sub go { $t->write("go-$_[0]", '') }

# Sends a request that waits, and returns when the application has it.
sub run {
    my ($name, $user, $path) = @_;
    $path //= "/jobs/wait/$name";
    my $socket = $t->send('GET', $path, 'X-User-Id' => $user,
        Connection => 'close');

    $t->wait_for(sub { -e $t->dir . "/in-$name" }, "$name runs");
    return $socket;
}

# Two at a time.
my @ann = ('X-User-Id' => 'ann', Connection => 'close');
my @first = map { run("a$_", 'ann') } 1, 2;
is($t->get('/jobs/x', @ann)->{status}, 429, 'a third is refused');
is($t->get('/jobs/x', 'X-User-Id' => 'bob')->{status}, 200, 'not of others');
go('a1');
is($t->receive($first[0])->{status}, 200, 'one ends');
$t->wait_for(sub { $t->get('/jobs/x', @ann)->{status} == 200 }, 'a permit');
pass('and its permit is free');

# A request that takes longer than the hold keeps its permit.
my $other = run('a3', 'ann');
my $end = time + 3;
my $refused = 1;
$refused &&= $t->get('/jobs/x', @ann)->{status} == 429 while time < $end;
ok($refused, 'a permit lasts as long as its request, not its hold');

# Clients that go away free theirs.
close $first[1];
close $other;
$t->wait_for(sub { $t->get('/jobs/x', @ann)->{status} == 200 }, 'freed');
pass('a client that goes away frees its permit');
go($_) for 'a2', 'a3';

# A subrequest that ends, and is logged, ends no hold of its main request.
my @subs = map { run("s$_", 'sue', "/jobs/sub/wait/s$_") } 1, 2;
is($t->get('/jobs/x', 'X-User-Id' => 'sue')->{status}, 429,
    'a subrequest leaves the permit to its main request');
go("s$_") for 1, 2;
is($t->receive($_)->{status}, 200, 'which ends') for @subs;

# A worker that exits at once frees those of its requests.
my @left = map { run("b$_", 'dan') } 1, 2;
is($t->get('/jobs/x', 'X-User-Id' => 'dan')->{status}, 429, 'two run');
$t->replace(TERM => $t->workers);
$t->wait_for(sub {
    my $answer = $t->get('/jobs/x', 'X-User-Id' => 'dan');
    $answer && $answer->{status} == 200;
}, 'freed by the exit');
pass('a worker that is told to exit frees its permits');

# ... and one that is killed, when they expire.
@left = map { run("c$_", 'eve') } 1, 2;
is($t->get('/jobs/x', 'X-User-Id' => 'eve')->{status}, 429, 'two run');
$t->replace(KILL => $t->workers);
$t->wait_for(sub {
    my $answer = $t->get('/jobs/x', 'X-User-Id' => 'eve');
    $answer && $answer->{status} == 200;
}, 'freed after a kill');
pass('a worker that is killed frees its permits');
go($_) for map { ("b$_", "c$_") } 1, 2;

# Costs: an estimate is taken, and the actual cost settled.
sub left {
    my ($user) = @_;

    return $t->get('/ai/x', 'X-User-Id' => $user, 'X-Estimate' => 0,
        'X-Say-Tokens' => 0)->{headers}{'ratelimit'} // '';
}
my $answer = $t->get('/ai/x', 'X-User-Id' => 'fay', 'X-Estimate' => 400,
    'X-Say-Tokens' => 150);
like($answer->{headers}{'ratelimit'}, qr/"tokens";r=600/, 'the estimate is taken');
$t->wait_for(sub { left('fay') =~ /"tokens";r=850/ }, 'settled');
pass('and settled with what the response says');
$t->get('/ai/x', 'X-User-Id' => 'fay', 'X-Estimate' => 50);
$t->wait_for(sub { left('fay') =~ /"tokens";r=800/ }, 'settled as held');
pass('without a word of the response it stays');
$t->get('/ai/x', 'X-User-Id' => 'gus', 'X-Estimate' => 1,
    'X-Say-Tokens' => 1200);
$t->wait_for(sub {
    $t->get('/ai/x', 'X-User-Id' => 'gus', 'X-Estimate' => 1)->{status} == 429
}, 'beyond');
pass('a higher cost counts beyond the limit');
is($t->get('/both/x', 'X-User-Id' => 'hal', 'X-Say-Tokens' => 10)->{status},
    200, 'permits and costs together');
is($t->get('/ai/x', 'X-User-Id' => 'ida', 'X-Estimate' => '9' x 30)->{status},
    429, 'a cost of thirty digits is more than any limit');
$t->get('/ai/x', 'X-User-Id' => 'ida', 'X-Estimate' => 'many');
like($t->read('error.log'), qr/"many" is not a cost, and is ignored/,
    'a cost that is no number is logged');

done_testing;
