#!/usr/bin/env bash
# install.sh DIST CACHE -- the packages in a Debian 12 without anything else:
# install, use, upgrade, remove, purge.
#
# A minimal Debian is made by mmdebstrap, once, and kept in CACHE. There is no
# systemd in it: the daemon is started as the unit says, with its variables and
# as an unprivileged user. Needs root and a mirror; without them all is skipped.
#
#   SL_CHROOT_SECONDS  the time to make the Debian (300)
dist=$(realpath "$1") cache=$(realpath -m "$2")
# shellcheck source=test/support/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"

skip() {
    echo "1..0 # SKIP $*"
    exit 0
}

((EUID == 0)) || skip 'a chroot needs root'
command -v mmdebstrap >/dev/null || skip 'mmdebstrap is not installed'

# The packages that ours depend on are in it, so that later runs need no network.
base=$cache/bookworm-nginx.tar
if [[ ! -s $base ]]; then
    mkdir -p "$cache"
    depends=$(for deb in "$dist"/sluice_*.deb "$dist"/libsluice0_*.deb \
        "$dist"/libnginx-mod-*.deb; do
        dpkg-deb -f "$deb" Depends
    done | tr ',' '\n' | sed -E 's/\|.*//; s/\(.*//; s/ //g' |
        grep -vxE 'libsluice0|init-system-helpers|nginx-abi-.*' | sort -u |
        paste -sd ,)
    timeout "${SL_CHROOT_SECONDS:-300}" mmdebstrap --quiet --variant=minbase \
        --dpkgopt=force-unsafe-io \
        --include="$depends,curl,init-system-helpers,ca-certificates,nginx" \
        bookworm "$cache/new.tar" >"$cache/mmdebstrap.log" 2>&1 ||
        skip "no Debian from a mirror; see $cache/mmdebstrap.log"
    mv "$cache/new.tar" "$base"
fi
mkdir debian
chroot=$PWD/debian
tar -C "$chroot" -xf "$base" --exclude='./dev/*' --exclude=./dev/pts
mkdir -p "$chroot/dev"
for device in null zero urandom; do
    cp -a "/dev/$device" "$chroot/dev/"
done
printf '#!/bin/sh\nexit 101\n' >"$chroot/usr/sbin/policy-rc.d"
chmod 755 "$chroot/usr/sbin/policy-rc.d"

within() {
    env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive \
        chroot "$chroot" "$@"
}

# ---- the version before: the same files with a lower number ----

mkdir "$chroot/old" "$chroot/new"
cp "$dist"/*.deb "$chroot/new/"
for deb in "$dist"/sluice_*.deb "$dist"/libsluice0_*.deb; do
    rm -rf unpacked
    dpkg-deb -R "$deb" unpacked
    sed -i 's/^Version: .*/Version: 0.0.9-1/' unpacked/DEBIAN/control
    dpkg-deb --root-owner-group -b unpacked "$chroot/old/${deb##*/}" >/dev/null
done

run within sh -c "dpkg -i /old/*.deb"
check 'it installs' is 0
[[ $status == 0 ]] || finish
check 'with its policy' test -f "$chroot/etc/sluice/sluice.yaml"
run within sluice check /etc/sluice/sluice.yaml
check 'which is valid' is 0
check 'and its unit' test -f "$chroot/lib/systemd/system/sluiced.service"
for file in bash-completion/completions/{sluice,sluiced} \
    zsh/vendor-completions/_sluice fish/vendor_completions.d/sluiced.fish \
    man/man8/sluiced.8.gz man/man5/sluice.yaml.5.gz doc/sluice/copyright; do
    check "${file##*/}" test -f "$chroot/usr/share/$file"
done

# ---- as the unit starts it ----

unit=$chroot/lib/systemd/system/sluiced.service
mkdir -p "$chroot/var/lib/sluice" "$chroot/run/sluice"
chown 64000:64000 "$chroot/var/lib/sluice" "$chroot/run/sluice"

# The ports of the unit may be in use on this machine: free ones instead. The
# socket is the unit's.
start_installed() {
    local words=() line

    while IFS= read -r line; do
        line=${line//%S/\/var\/lib}
        words+=("${line//%t/\/run}")
    done < <(sed -n 's/^Environment=//p' "$unit")
    http=127.0.0.1:$(free_port)
    admin=127.0.0.1:$(free_port)
    : >log
    env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin "${words[@]}" \
        SLUICE_LISTEN_ADMIN="$admin" \
        SLUICE_LISTEN_HTTP="$http" SLUICE_LISTEN_GRPC=off \
        SLUICE_LISTEN_RESP=off \
        chroot --userspec=64000:64000 "$chroot" \
        /usr/sbin/sluiced -c /etc/sluice/sluice.yaml >log 2>&1 &
    pid=$!
    running+=("$pid")
    until_ grep -q '"event":"serving"' log
}

stop_installed() {
    kill "$pid"
    wait "$pid"
    status=$?
}

start_installed
check 'the daemon starts as the unit says' grep -q '"event":"serving"' log
run within sluice ping
check 'sluice finds its socket' has "$out" 'is ready'
take() {
    within sluice take "$@" --url "http://$http"
}
for _ in {1..10}; do
    take 'GET /api/exports/1' user=ann >/dev/null
done
run take 'GET /api/exports/1' user=ann
check 'the policy denies' is 1
check 'with its message' has "$out" 'The 10 exports of today are used.'
run within sluice subject set user bob plan=pro --by test
check 'the registry' has "$out" 'plan     pro'
run within sluice top
check 'who was denied' has "$out" ann
stop_installed
check 'it stops cleanly' is 0

# ---- upgrade: state, registry and an edited policy stay ----

sed -i 's|rate: { free: 10/day|rate: { free: 12/day|' "$chroot/etc/sluice/sluice.yaml"
run within sh -c "dpkg --force-confold -i /new/libsluice0_* /new/sluice_*"
check 'it upgrades' is 0
check 'the edited policy stays' grep -q 12/day "$chroot/etc/sluice/sluice.yaml"
start_installed
run take 'GET /api/exports/1' user=ann
check 'what was used is still used' has "$out" 'allowed 200'
take 'GET /api/exports/1' user=ann >/dev/null
run take 'GET /api/exports/1' user=ann
check 'by the new rate' is 1
run within sluice subject get user bob
check 'the registry is the same' has "$out" 'plan     pro'

# ---- the runbook, command by command ----

awk '/^```yaml/ { inside = 1; next } /^```/ && inside { exit } inside' \
    "$root/docs/guide/runbook.md" >"$chroot/srv/runbook.yaml"
awk '/^```sh/ { inside = 1; next } /^```/ { inside = 0 } inside' \
    "$root/docs/guide/runbook.md" >"$chroot/srv/runbook.sh"
run within sluice check /srv/runbook.yaml
check 'the policy of the runbook' is 0
run env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/srv \
    SLUICE_URL="http://$http" SLUICE_ADMIN_URL="http://$admin" \
    timeout 120 chroot "$chroot" /bin/bash -ec 'cd /srv && . ./runbook.sh'
check 'every command of the runbook works' is 0
check 'no answer lacks a registry' test "${out/keeps no/}${err/keeps no/}" = "$out$err"
[[ $status == 0 ]] || echo "# $(tail -n 5 <<<"$err")"
stop_installed

# ---- development files ----

run within sh -c "dpkg -i --force-depends /new/libsluice-dev_*"
check 'libsluice-dev installs' is 0
export PKG_CONFIG_SYSROOT_DIR=$chroot
PKG_CONFIG_PATH=$(echo "$chroot"/usr/lib/*/pkgconfig) \
    run pkg-config --cflags --libs libsluice
check 'pkg-config knows libsluice' has "$out" -lsluice
cat >program.c <<'EOC'
#include <sluice.h>
#include <stdio.h>

int main(void)
{
    puts(sluice_version());
    return 0;
}
EOC
library=$(dirname "$(echo "$chroot"/usr/lib/*/libsluice.so)")
run gcc -I"$chroot/usr/include" program.c -L"$library" -lsluice -o program
check 'a program links' is 0
LD_LIBRARY_PATH=$library run ./program
check 'and runs' is 0

# ---- the nginx module, with the configuration of the guide ----

block() {
    awk -v language="$1" '$0 == "```" language { inside = 1; next }
        /^```/ && inside { exit } inside' "$root/docs/guide/nginx.md"
}
run within sh -c "dpkg -i /new/libnginx-mod-http-sluice_*"
check 'the nginx module installs' is 0
check 'and is loaded by nginx' within test -f \
    /etc/nginx/modules-enabled/50-mod-http-sluice.conf
web=127.0.0.1:$(free_port)
block yaml >"$chroot/srv/web.yaml"
{
    echo 'user www-data; pid /run/nginx.pid; error_log stderr;'
    echo 'include /etc/nginx/modules-enabled/*.conf;'
    block nginx | sed "/^load_module/d; s|/etc/sluice/sluice.yaml|/srv/web.yaml|
        s|listen 80;|listen $web; access_log off;|
        s|proxy_pass .*|empty_gif;|"
} >"$chroot/srv/nginx.conf"
run within nginx -t -c /srv/nginx.conf
check 'nginx accepts the configuration' is 0
env -i PATH=/usr/sbin:/usr/bin chroot "$chroot" \
    nginx -c /srv/nginx.conf -g 'daemon off;' >nginx.log 2>&1 &
nginx=$!
running+=("$nginx")
until_ curl -s -o /dev/null "http://$web/"
codes=$(for _ in {1..6}; do
    curl -s -o /dev/null -w '%{http_code} ' "http://$web/"
done)
check "nginx decides ($codes)" has "$codes" '200 429'
check 'over its state' test -s "$chroot/var/lib/nginx/sluice.state"
kill "$nginx"
wait "$nginx"
run within dpkg -P libnginx-mod-http-sluice
check 'the module can be purged' is 0
run within nginx -t
check 'and nginx works without it' is 0

# ---- remove and purge ----

run within dpkg -r libsluice-dev sluice
check 'it can be removed' is 0
check 'the programs are gone' test ! -e "$chroot/usr/sbin/sluiced"
check 'the policy stays' test -f "$chroot/etc/sluice/sluice.yaml"
check 'the state stays' test -f "$chroot/var/lib/sluice/sluice.state"
run within dpkg -P sluice libsluice0
check 'it can be purged' is 0
check 'nothing is left in /etc' test ! -e "$chroot/etc/sluice"
check 'nor in /var/lib' test ! -e "$chroot/var/lib/sluice"
finish
