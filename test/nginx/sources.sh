#!/usr/bin/env bash
# sources.sh ARCHIVE -- NGINX_SOURCES: the module from sources that are not those
# of Debian's nginx-dev. They stand for a folder of nginx.org: without the flags
# of the package. Debian's nginx loads the module, since both are built with
# --with-compat.
set -euo pipefail

root=$(realpath "$(dirname "${BASH_SOURCE[0]}")/../..")
debian=/usr/share/nginx/src

if [[ ! -x $debian/configure ]] || ! command -v nginx >/dev/null; then
    echo '1..0 # SKIP nginx and nginx-dev are not installed'
    exit
fi
archive=$(realpath "$1")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

echo 1..3
cp -r "$debian" other
rm -f other/conf_flags

# build SOURCES
build() {
    NGINX_SOURCES=$1 "$root/nginx/build.sh" "$archive" built module.so \
        >log 2>&1
}

# result NUMBER NAME STATUS: with the log if it failed
result() {
    if (($3 == 0)); then
        echo "ok $1 - $2"
    else
        echo "not ok $1 - $2"
        sed 's/^/# /' log
    fi
}

status=0
build "$folder/other" || status=$?
result 1 'sources without the flags of a package' "$status"

user=
((EUID != 0)) || user='user root;'
cat >nginx.conf <<EOF
load_module $folder/module.so;
$user
error_log stderr;
pid $folder/pid;
events {}
http {
    access_log off;
    client_body_temp_path $folder/body;
    proxy_temp_path $folder/proxy;
    fastcgi_temp_path $folder/fastcgi;
    uwsgi_temp_path $folder/uwsgi;
    scgi_temp_path $folder/scgi;
    sluice_policy $root/ops/sluice.yaml;
    sluice_state zone=test:1m;
    server { listen unix:$folder/socket; location / { sluice on; return 200; } }
}
EOF
status=0
nginx -t -p "$folder" -c "$folder/nginx.conf" >log 2>&1 || status=$?
result 2 'the installed nginx loads the module' "$status"

status=0
build "$folder/missing" && status=1
grep -qF "no nginx sources in $folder/missing" log || status=1
result 3 'a folder without sources is named' "$status"
