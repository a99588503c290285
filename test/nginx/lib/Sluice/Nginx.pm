package Sluice::Nginx;

# Nginx.pm -- starts an nginx with the module, and asks it.
#
#   my $t = Sluice::Nginx->new;
#   $t->write('policy.yaml', '...');
#   $t->start(http => '...', server => '...');
#   my $answer = $t->get('/x', 'X-User-Id' => 'ann');
#   is($answer->{status}, 200);
#
# SLUICE_NGINX_MODULE names the module. In texts of configurations, {dir} is
# the folder of the test, {port} the port of the server and {port:NAME} another
# free one. Everything is stopped by its process id at the end.

use strict;
use warnings;

use Cwd qw(abs_path);
use File::Temp qw(tempdir);
use IO::Select;
use IO::Socket::INET;
use IO::Socket::UNIX;
use POSIX qw(:sys_wait_h);
use Test::More;
use Time::HiRes qw(sleep time);

my $patience = 60;    # seconds until a wait gives up

sub new {
    my ($class, %options) = @_;
    my $module = $ENV{SLUICE_NGINX_MODULE} // 'lib/ngx_http_sluice_module.so';
    my ($nginx) = grep { -x } '/usr/sbin/nginx', '/usr/local/sbin/nginx';

    plan skip_all => 'nginx is not installed' unless $nginx;
    plan skip_all => "there is no module $module; it needs nginx-dev"
        unless -f $module;
    return bless {
        nginx => $nginx,
        module => abs_path($module),
        dir => tempdir('sluice-nginx-XXXXXX', TMPDIR => 1, CLEANUP => 1),
        workers => $options{workers} // 2,
        daemon => $options{daemon},    # an upgrade needs it
        ports => {},
        children => [],
        owner => $$,
    }, $class;
}

sub dir { return $_[0]{dir} }

# A free port of loopback, by name.
sub port {
    my ($self, $name) = @_;

    $name //= 'main';
    return $self->{ports}{$name} //= do {
        my $socket = IO::Socket::INET->new(
            Listen => 1, LocalAddr => '127.0.0.1', ReuseAddr => 1)
            or die "no free port: $!";
        $socket->sockport;
    };
}

# A text with its {places} filled in.
sub fill {
    my ($self, $text) = @_;

    $text =~ s/\{dir\}/$self->{dir}/g;
    $text =~ s/\{port\}/$self->port/ge;
    $text =~ s/\{port:(\w+)\}/$self->port($1)/ge;
    return $text;
}

sub write {
    my ($self, $name, $text) = @_;

    open my $file, '>', "$self->{dir}/$name" or die "$name: $!";
    print $file $self->fill($text);
    close $file or die "$name: $!";
    return "$self->{dir}/$name";
}

sub read {
    my ($self, $name) = @_;

    open my $file, '<', "$self->{dir}/$name" or return '';
    local $/;
    return scalar <$file>;
}

# ---- nginx ----

# Writes nginx.conf: whole texts of the http block and of one server.
sub configure {
    my ($self, %texts) = @_;
    my $user = $texts{user} // ($> == 0 ? 'user root;' : '');
    my $http = $texts{http} // '';
    my $server = $texts{server} // '';
    my $log = $http =~ /access_log/ ? '' : 'access_log off;';
    my $paths = join "\n    ", map { "${_}_temp_path {dir}/$_;" }
        qw(client_body proxy fastcgi uwsgi scgi);

    chmod 0755, $self->{dir};
    return $self->write('nginx.conf', $texts{conf} // <<"END");
load_module $self->{module};
$user
worker_processes $self->{workers};
pid {dir}/nginx.pid;
error_log {dir}/error.log info;
events { worker_connections 512; }
http {
    $log
    default_type text/plain;
    $paths
    $http
    server {
        listen 127.0.0.1:{port};
        $server
    }
}
END
}

# The output of nginx -t, and whether it was satisfied.
sub test_conf {
    my ($self, %texts) = @_;
    my $out;

    $self->configure(%texts) if %texts;
    $out = `$self->{nginx} -t -p $self->{dir} -c $self->{dir}/nginx.conf 2>&1`;
    return ($? == 0, $out);
}

# The output of an nginx that does not start.
sub start_fails {
    my ($self, %texts) = @_;

    $self->configure(%texts);
    return scalar `timeout 30 $self->{nginx} -p $self->{dir} -c $self->{dir}/nginx.conf -g 'daemon off;' 2>&1`;
}

sub start {
    my ($self, %texts) = @_;

    $self->configure(%texts) if %texts;
    my $pid = $self->spawn($self->{nginx}, '-p', $self->{dir}, '-c',
        "$self->{dir}/nginx.conf", $self->{daemon} ? () : ('-g', 'daemon off;'));
    $self->wait_for(sub {
        -s "$self->{dir}/nginx.pid"
            or !$self->{daemon} && waitpid($pid, WNOHANG) != 0
    }, 'nginx starts');
    BAIL_OUT('nginx: ' . $self->read('error.log') . $self->read('output'))
        unless $self->{daemon} || kill 0, $pid;
    $self->wait_for(sub { $self->connect }, 'nginx listens');
    return $self;
}

sub master {
    my ($self) = @_;

    my ($pid) = $self->read('nginx.pid') =~ /(\d+)/;
    return $pid;
}

# The process ids of the workers that take requests.
sub workers {
    my ($self) = @_;
    my $master = $self->master // return;
    my @pids;

    open my $file, '<', "/proc/$master/task/$master/children" or return;
    for my $pid (split ' ', <$file> // '') {
        open my $line, '<', "/proc/$pid/cmdline" or next;
        push @pids, $pid if (<$line> // '') =~ /worker process(?! is)/;
    }
    return @pids;
}

# Reloads, and waits until only new workers are there.
sub reload {
    my ($self) = @_;

    return $self->replace(HUP => $self->master);
}

# Sends a signal, and waits until only new workers are there.
sub replace {
    my ($self, $signal, @pids) = @_;
    my %old = map { $_ => 1 } $self->workers;

    kill $signal => @pids;
    $self->wait_for(sub {
        my @now = $self->workers;
        @now >= $self->{workers} && !grep { $old{$_} } @now;
    }, 'new workers');
    return $self;
}

# ---- processes ----

sub spawn {
    my ($self, @command) = @_;
    my $pid = fork // die "fork: $!";

    if ($pid == 0) {
        open STDOUT, '>>', "$self->{dir}/output" or POSIX::_exit(1);
        open STDERR, '>&', \*STDOUT or POSIX::_exit(1);
        exec @command or POSIX::_exit(127);
    }
    push @{$self->{children}}, $pid;
    return $pid;
}

# Runs code in a child.
sub in_child {
    my ($self, $code) = @_;
    my $pid = fork // die "fork: $!";

    if ($pid == 0) {
        $self->{owner} = 0;
        # Who runs the test waits until its output is closed.
        open STDOUT, '>>', "$self->{dir}/output" or POSIX::_exit(1);
        open STDERR, '>&', \*STDOUT or POSIX::_exit(1);
        eval { $code->() };
        POSIX::_exit($@ ? 1 : 0);
    }
    push @{$self->{children}}, $pid;
    return $pid;
}

sub end_child {
    my ($self, $pid, $signal) = @_;

    kill $signal // 'TERM', $pid;
    $self->wait_for(sub { waitpid($pid, WNOHANG) != 0 }, "$pid ends");
    @{$self->{children}} = grep { $_ != $pid } @{$self->{children}};
}

# Waits until the code is true. Fails the test after a minute.
sub wait_for {
    my ($self, $code, $what) = @_;
    my $end = time + $patience;

    until ($code->()) {
        if (time > $end) {
            diag($self->read('error.log'), $self->read('output'));
            BAIL_OUT("$what: not within $patience s");
        }
        sleep 0.02;
    }
    return 1;
}

# At the end of a program objects are destroyed in any order, and the folder
# with the pid file may go first: tests with a daemon call this.
sub stop {
    my ($self) = @_;

    return if $self->{owner} != $$ || $self->{stopped}++;
    local $?;
    if ($self->{daemon} && (my $pid = $self->master)) {
        kill TERM => $pid;
        my $end = time + 20;
        sleep 0.01 while kill(0, $pid) && time < $end;
    }
    for my $pid (reverse @{$self->{children}}) {
        kill TERM => $pid;
        my $end = time + 20;
        while (waitpid($pid, WNOHANG) == 0) {
            kill KILL => $pid if time > $end;
            sleep 0.01;
        }
    }
}

sub DESTROY { $_[0]->stop }

# ---- an application ----

# Serves on {port:NAME} until the end: the code gets the method, the path, a
# hash of headers in lower case and the socket, and returns a whole response.
sub serve {
    my ($self, $name, $code) = @_;
    my $listener = IO::Socket::INET->new(
        Listen => 128, LocalAddr => '127.0.0.1', ReuseAddr => 1)
        or die "listen: $!";

    $self->{ports}{$name} = $listener->sockport;
    return $self->in_child(sub {
        local $SIG{CHLD} = 'IGNORE';
        local $SIG{TERM} = sub { POSIX::_exit(0) };
        while (1) {
            my $client = $listener->accept or next;
            next if fork;
            my $head = read_head($client) // POSIX::_exit(0);
            my ($method, $path) = $head =~ /^(\S+) (\S+)/;
            my %fields;
            $fields{lc $1} = $2 while $head =~ /^([^:\r\n]+): *(.*?)\r$/mg;
            print $client $code->($method, $path, \%fields, $client);
            POSIX::_exit(0);
        }
    });
}

sub read_head {
    my ($socket) = @_;
    my $head = '';

    while ($head !~ /\r\n\r\n/) {
        sysread($socket, $head, 8192, length $head) or return;
    }
    return $head;
}

# ---- clients ----

sub connect {
    my ($self, $name) = @_;

    return IO::Socket::INET->new(
        PeerAddr => '127.0.0.1', PeerPort => $self->port($name));
}

# Sends a request and leaves its connection open.
sub send {
    my ($self, $method, $path, %headers) = @_;
    my $socket = delete $headers{socket} // $self->connect
        // BAIL_OUT("connect: $!");
    my $body = delete $headers{body};

    $headers{Host} //= 'localhost';
    $headers{'Content-Length'} = length $body if defined $body;
    print $socket "$method $path HTTP/1.1\r\n",
        (map { "$_: $headers{$_}\r\n" } sort keys %headers), "\r\n",
        $body // '';
    $socket->flush;
    return $socket;
}

# The response on a socket: status, headers (in lower case; several of one name
# are an array in `all`), body. undef if the connection ends without one.
sub receive {
    my ($self, $socket, $method) = @_;
    my $text = '';

    my $more = sub {
        IO::Select->new($socket)->can_read($patience)
            or BAIL_OUT("no answer within $patience s");
        return sysread($socket, $text, 65536, length $text);
    };
    while ($text !~ /\r\n\r\n/) {
        $more->() or return undef;
    }
    my ($head, $body) = $text =~ /\A(.*?\r\n)\r\n(.*)\z/s;
    my ($status) = $head =~ m{\AHTTP/1.1 (\d+)};
    my (%headers, %all);
    while ($head =~ /^([^:\r\n]+): *(.*?)\r$/mg) {
        $headers{lc $1} = $2;
        push @{$all{lc $1}}, $2;
    }
    my $length = $headers{'content-length'};
    unless (($method // '') eq 'HEAD' || $status == 204 || $status == 304) {
        $text = $body;
        while (!defined $length || length $text < $length) {
            last if ($headers{'transfer-encoding'} // '') eq 'chunked'
                && $text =~ /(?:^|\r\n)0\r\n\r\n\z/;
            $more->() or last;
        }
        $body = $text;
    }
    return {status => $status, headers => \%headers, all => \%all,
        body => $body, head => $head};
}

sub request {
    my ($self, $method, $path, %headers) = @_;
    my $keep = $headers{socket};

    $headers{Connection} //= 'close' unless $keep;
    return $self->receive($self->send($method, $path, %headers), $method);
}

sub get {
    my ($self, $path, %headers) = @_;

    return $self->request('GET', $path, %headers);
}

# The statuses of as many requests as `count`, in their order.
sub statuses {
    my ($self, $count, $path, %headers) = @_;

    return join ' ', map { $self->get($path, %headers)->{status} } 1 .. $count;
}

1;
