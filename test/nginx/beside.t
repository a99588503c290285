#!/usr/bin/env perl
# beside.t -- other modules of nginx in the same location: access rules,
# auth_request, caches, error pages, redirects and subrequests. A request is
# decided once, whatever they do, by the worker (sluice_policy) and by sluiced
# (sluice_pass).
use strict;
use warnings;

use Test::More;
use FindBin;
use lib "$FindBin::Bin/lib";
use Sluice::Nginx;

my $t = Sluice::Nginx->new;
my $daemon = $ENV{SLUICED} // 'bin/sluiced';

plan skip_all => 'SLUICED names no daemon' unless -x $daemon;
$t->write('policy.yaml', <<'END');
sluice: 1
limits:
  api: { kind: token-bucket, per: user, rate: 3/hour }
default: [api]
END
$t->write('users', "ann:{PLAIN}secret\n");
$t->write('page.html', '<!--#include virtual="/part" -->'
    . ',<!--#include virtual="/part" -->');
$t->spawn($daemon, '-c', $t->dir . '/policy.yaml', '--store', 'memory:',
    '--listen-http', 'unix:' . $t->dir . '/sluiced.sock', '--listen-admin',
    'off', '--listen-grpc', 'off', '--listen-resp', 'off');
$t->wait_for(sub { IO::Socket::UNIX->new(Peer => $t->dir . '/sluiced.sock') },
    'sluiced listens');

# Remembers what it is asked. It has a header of ours, and one of the caller.
$t->serve(app => sub {
    my ($method, $path, $headers) = @_;
    my $user = $headers->{'x-user'} // '';

    open my $file, '>>', $t->dir . '/asked' or die $!;
    syswrite $file, "$path $user\n";
    close $file;
    return "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Type: text/html\r\n"
        . "X-RateLimit-Limit: 7\r\nX-For: $user\r\n"
        . ($path =~ /accel/ ? "X-Accel-Redirect: /final\r\n" : '') . "\r\nok";
});

# How often the application was asked for a path, by users like this.
sub asked {
    my ($path, $user) = @_;

    return scalar grep { /^\Q$path\E $user\d*$/ } split /\n/, $t->read('asked');
}

# Locations of a server; {app} is the application.
my $locations = <<'END';
        sluice on;
        sluice_identity user=$http_x_user;
        root {dir};
        location / { proxy_pass {app}; }

        # access
        location /any/ {
            satisfy any;
            deny all;
            auth_basic closed;
            auth_basic_user_file {dir}/users;
            proxy_pass {app};
        }
        location /address/ {
            satisfy any;
            allow 127.0.0.1;
            deny all;
            auth_basic closed;
            auth_basic_user_file {dir}/users;
            proxy_pass {app};
        }
        location /auth/ {
            auth_request /yes;
            auth_request_set $seen $upstream_http_x_for;
            add_header X-Seen $seen always;
            proxy_pass {app};
        }
        location = /yes { internal; proxy_pass {app}; }
        location /forbidden/ { auth_request /no; proxy_pass {app}; }
        location = /no { internal; return 403; }
        location /methods/ { limit_except GET { deny all; } proxy_pass {app}; }

        # limits by what auth_request says
        location /after/ {
            sluice off;
            auth_request /yes;
            auth_request_set $caller $upstream_http_x_for;
            try_files /none @after;
        }
        location @after {
            sluice on;
            sluice_identity user=after-$caller;
            proxy_pass {app};
        }

        # answers
        location /cached/ {
            proxy_cache cache;
            proxy_cache_key $uri;
            proxy_cache_valid 200 1h;
            add_header X-Cache $upstream_cache_status always;
            proxy_pass {app};
        }
        location /named/ {
            sluice_status 429;
            error_page 429 = @sorry;
            proxy_pass {app};
        }
        location @sorry {
            add_header X-Why $sluice_status always;
            return 429 sorry;
        }
        location /handled/ {
            sluice_status 429;
            error_page 429 /handler;
            proxy_pass {app};
        }
        location = /handler { internal; proxy_pass {app}; }
        location /own/ { error_page 429 = @sorry; proxy_pass {app}; }

        # redirects and subrequests
        location /tried/ { try_files /none /final; }
        location /gone/ { root {dir}/none; error_page 404 = /final; }
        location /rewritten/ { rewrite ^ /final last; }
        location /accel/ { proxy_pass {app}; }
        location = /final { proxy_pass {app}; }
        location /mirrored/ { mirror /copy; mirror /copy; proxy_pass {app}; }
        location = /copy { internal; proxy_pass {app}; }
        location = /page.html { default_type text/html; ssi on; }
        location = /part { proxy_pass {app}; }
        location /added/ {
            add_before_body /part;
            add_after_body /part;
            proxy_pass {app};
        }
END
$locations =~ s/\{app\}/http:\/\/127.0.0.1:{port:app}/g;

$t->start(
    http => <<"END",
    sluice_policy {dir}/policy.yaml;
    sluice_state zone=one:4m;
    proxy_cache_path {dir}/cache keys_zone=cache:1m;
    server {
        listen 127.0.0.1:{port:pass};
        sluice_pass unix:{dir}/sluiced.sock timeout=10s;
        $locations
    }
END
    server => $locations);

# One server: everything is tried with users whose names begin with $who.
sub try_server {
    my ($port, $who) = @_;
    my $count = 0;
    my $user;

    my $ask = sub {
        my ($method, $path, %headers) = @_;

        return $t->request($method, $path, 'X-User' => $user,
            Connection => 'close', socket => $t->connect($port), %headers);
    };
    # Four requests of a new user.
    my $four = sub {
        my ($method, $path, %headers) = @_;

        $user = $who . ++$count;
        return map { $ask->($method, $path, %headers) } 1 .. 4;
    };
    my $is = sub {
        my ($want, $what, $method, $path, %headers) = @_;

        is(join(' ', map { $_->{status} } $four->($method, $path, %headers)),
            $want, "$who: $what");
    };
    my $limited = sub { $is->('200 200 200 429', @_) };

    # Access. A request that is refused later counts, too.
    $limited->('satisfy any, by a password', GET => '/any/x',
        Authorization => 'Basic YW5uOnNlY3JldA==');
    $is->('401 401 401 429', 'satisfy any, without one', GET => '/any/x');
    $limited->('satisfy any, by address', GET => '/address/x');
    $limited->('auth_request', GET => '/auth/x');
    is(asked('/yes', $who), 3, "$who: which is not asked after a refusal");
    $user = "${who}0";
    my $auth = $ask->(GET => '/auth/x')->{headers};
    is("$auth->{'x-seen'} $auth->{'x-ratelimit-remaining'}", "${who}0 2",
        "$who: its variables and our headers");
    $is->('403 403 403 429', 'auth_request denies', GET => '/forbidden/x');
    $limited->('limit_except, a method that may', GET => '/methods/x');
    $is->('403 403 403 429', 'limit_except, another', POST => '/methods/x',
        body => 'a');
    $limited->('a user that auth_request names', GET => '/after/x');

    # Caches. What is cached is limited, and has the numbers of its caller.
    my @cached = $four->(GET => "/cached/$who");
    is(join(' ', map { $_->{status} } @cached), '200 200 200 429',
        "$who: proxy_cache");
    $user = "${who}other";
    my $other;
    $t->wait_for(sub {
        $user .= 'r';
        $other = $ask->(GET => "/cached/$who", 'X-Request-Id' => 'mine');
        $other->{headers}{'x-cache'} eq 'HIT';
    }, 'a hit');
    is_deeply([map { $other->{headers}{$_} } qw(x-ratelimit-remaining
        x-request-id)], [2, 'mine'], "$who: a hit has its own numbers");
    is_deeply($other->{all}{'x-ratelimit-limit'}, [3],
        "$who: and none of the application's");

    # Error pages keep our headers.
    my $named = ($four->(GET => '/named/x'))[3];
    is("$named->{status} $named->{headers}{'x-why'} $named->{body}",
        '429 REJECTED sorry', "$who: error_page with a named location");
    like($named->{headers}{'retry-after'}, qr/^\d+$/, "$who: Retry-After");
    is($named->{headers}{'x-ratelimit-remaining'}, 0, "$who: our headers");
    my $handled = ($four->(GET => '/handled/x'))[3];
    is("$handled->{status} $handled->{body}", '429 ok',
        "$who: error_page with an application");
    is_deeply($handled->{all}{'x-ratelimit-limit'}, [3],
        "$who: whose headers do not replace ours");
    like(($four->(GET => '/own/x'))[3]{body}, qr/"code":"RATE_LIMITED"/,
        "$who: without sluice_status the policy answers");

    # Once per request.
    $limited->('try_files', GET => '/tried/x');
    $limited->('error_page 404', GET => '/gone/x');
    $limited->('rewrite', GET => '/rewritten/x');
    $limited->('X-Accel-Redirect', GET => '/accel/x');
    is_deeply(($four->(GET => '/accel/x'))[0]{all}{'x-ratelimit-remaining'},
        [2], "$who: and its headers are there once");
    $limited->('mirror', GET => '/mirrored/x');
    $t->wait_for(sub { asked('/copy', $who) == 6 }, 'copies');
    like(($four->(GET => '/page.html'))[0]{body}, qr/ok.*,.*ok/s, "$who: SSI");
    is($ask->(GET => '/page.html')->{status}, 429, "$who: once");
    is(($four->(GET => '/added/x'))[2]{headers}{'x-ratelimit-remaining'}, 0,
        "$who: addition");
    is($ask->(GET => '/x')->{status}, 429, "$who: once");

    # One connection.
    my $socket = $t->connect($port);
    $user = $who . ++$count;
    is(join(' ', map { $ask->(GET => "/$_", socket => $socket,
        Connection => 'keep-alive')->{status} } 1 .. 5),
        '200 200 200 429 429', "$who: requests of one connection");
}

try_server(main => 'policy');
try_server(pass => 'pass');
unlike($t->read('error.log'), qr/\[alert\]|\[crit\]|signal/, 'no crash');

done_testing;
