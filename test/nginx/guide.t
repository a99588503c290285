#!/usr/bin/env perl
# guide.t -- the configuration at the top of docs/guide/nginx.md, as printed but
# for addresses and paths.
use strict;
use warnings;

use Test::More;
use FindBin;
use lib "$FindBin::Bin/lib";
use Sluice::Nginx;

my $t = Sluice::Nginx->new;
my $page = do {
    open my $file, '<', "$FindBin::Bin/../../docs/guide/nginx.md" or die $!;
    local $/;
    <$file>;
};

# The first block of a language.
sub block {
    my ($language) = @_;
    my ($text) = $page =~ /^```$language\n(.*?)^```$/ms;

    return $text // BAIL_OUT("the guide has no block of $language");
}

sub change {
    my ($text, $from, $to) = @_;

    index($text, $from) >= 0 or BAIL_OUT("the guide has no '$from'");
    return $text =~ s/\Q$from\E/$to/gr;
}

$t->serve(app => sub { "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\napp" });
$t->write('sluice.yaml', block('yaml'));

my $conf = block('nginx');
$conf = change($conf, 'modules/ngx_http_sluice_module.so', $t->{module});
$conf = change($conf, '/etc/sluice/', '{dir}/');
$conf = change($conf, '/var/lib/nginx/', '{dir}/');
$conf = change($conf, 'listen 80;', 'listen 127.0.0.1:{port};');
$conf = change($conf, '127.0.0.1:3000', '127.0.0.1:{port:app}');
# What a distribution sets when it builds nginx.
$conf = "pid {dir}/nginx.pid;\nerror_log {dir}/error.log;\n" . $conf;
$conf =~ s/^http \{$/http {\n    access_log off;/m;
$conf =~ s/^(    access_log off;)$/join "\n    ", $1,
    map { "${_}_temp_path {dir}\/$_;" } qw(client_body proxy fastcgi uwsgi scgi)/me;
my ($count) = block('nginx') =~ tr/\n//;
cmp_ok($count, '<=', 16, 'a dozen lines');

chmod 0755, $t->dir;
$t->start(conf => $conf);
my ($expected) = $page =~ /^```sh\nfor i in.*?^```\n```\n(.*?)^```\n/ms;
is($t->statuses(6, '/') =~ tr/ /\n/r . "\n", $expected,
    'answers as the guide says');
is($t->get('/')->{headers}{'x-ratelimit-limit'}, 5, 'with headers');
ok(-s $t->dir . '/sluice.state', 'the state is in its file');

done_testing;
