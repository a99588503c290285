#!/usr/bin/env bash
# theirs.sh MODULE -- nginx's own tests of limit_req, limit_conn, auth_request,
# realip and HTTP/2, with our module switched on for all of their requests: what
# passes without it passes with it.
#
#   NGINX_TESTS  a copy of https://github.com/nginx/nginx-tests as old as the
#                installed nginx (of 2022 for 1.22); without it all is skipped
set -euo pipefail

module=$(realpath "$1")
if [[ -z ${NGINX_TESTS-} ]]; then
    echo '1..0 # SKIP NGINX_TESTS names no copy of nginx-tests'
    exit
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# Their configuration loads each module that Debian's nginx could load, and the
# packages of these are not installed.
cat >"$folder/nginx" <<'EOP'
#!/bin/sh
case " $* " in
*' -V '*) /usr/sbin/nginx -V 2>&1 | sed -E 's/--with-[a-z_]+=dynamic//g' >&2 ;;
*) exec /usr/sbin/nginx "$@" ;;
esac
EOP
chmod 755 "$folder/nginx"
cat >"$folder/policy.yaml" <<'EOP'
sluice: 1
limits:
  api: { kind: token-bucket, per: ip, rate: 1000000/s burst 1000000 }
  jobs: { kind: concurrency, per: ip, rate: "100000", hold: 60s }
default: [api, jobs]
EOP
export TEST_NGINX_BINARY=$folder/nginx TEST_NGINX_GLOBALS=''
if ((EUID == 0)); then
    TEST_NGINX_GLOBALS='user root;' # their folders are closed to others
fi

# run NAME: the files that pass, in $folder/NAME.
run() {
    (
        cd "$NGINX_TESTS"
        prove -j "$(nproc)" {limit_req,limit_conn,auth_request,realip,h2}*.t
    ) >"$folder/$1.log" 2>&1 || true
    sed -nE 's/^([a-z0-9_]+\.t) \.+ ok$/\1/p' "$folder/$1.log" |
        sort >"$folder/$1"
}

echo 1..2
run without
TEST_NGINX_GLOBALS+=" load_module $module;"
export TEST_NGINX_GLOBALS_HTTP="sluice_policy $folder/policy.yaml;
    sluice on; sluice_state zone=theirs:4m;"
run with
status=0
result() {
    if (($1)); then
        status=1
        printf 'not '
    fi
    echo "ok $2"
}
result $(($(wc -l <"$folder/without") < 20)) \
    "1 - $(wc -l <"$folder/without") files pass without the module"
worse=$(comm -23 "$folder/without" "$folder/with" | paste -sd ' ')
result "${#worse}" "2 - and with it"
for file in $worse; do
    echo "# $file"
    sed -n "/$file/,/^\$/s/^/# /p" "$folder/with.log"
done
exit "$status"
