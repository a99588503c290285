#!/usr/bin/env bash
# guide.sh SLUICED-TEST CLIENT GUIDE [EXAMPLE] -- what the guide shows is what
# happens.
#
# The block of yaml is the policy of a daemon whose clock stands still. Each
# block of js is a file with its name in the first line; it is run, and prints
# the block of text behind it. The block of c is cut from EXAMPLE.
set -uo pipefail

sluiced=$(realpath "$1") client=$(realpath "$2") guide=$(realpath "$3")
example=${4:+$(realpath "$4")}
folder=$(mktemp -d)
daemon=
trap '[[ -z $daemon ]] || kill "$daemon"; wait; rm -rf "$folder"' EXIT
mkdir -p "$folder/node_modules" "$folder/blocks"
ln -s "$client" "$folder/node_modules/sluice-client"
echo '{ "type": "module" }' >"$folder/package.json"
cd "$folder" || exit 1
failed=0 tests=0

awk '/^```/ && !open { open = 1
                       file = sprintf("blocks/%02d.%s", ++n, substr($0, 4)); next }
     /^```/ { open = 0; close(file); next }
     open { print >file }' "$guide"

verdict() {
    tests=$((tests + 1))
    sed 's/^/# /'
    if (($1)); then
        failed=1
        echo "not ok $tests - $2"
    else
        echo "ok $tests - $2"
    fi
}

where() {
    sed -n "/\"event\":\"serving\"/s/.*\"$1\":\"\([^\"]*\)\".*/\1/p" log
}

start() {
    cp blocks/*.yaml policy.yaml
    "$sluiced" -c policy.yaml --clock=virtual --store memory: \
        --deadline 10s --log-format json --listen-http 127.0.0.1:0 \
        --listen-admin 127.0.0.1:0 --listen-grpc off --listen-resp off \
        >/dev/null 2>log &
    daemon=$!
    for ((i = 0; i < 3000; i++)); do
        [[ -z $(where admin) ]] || return 0
        sleep 0.02
    done
    verdict 1 'the daemon serves' <log
}

# Each program at the beginning of time, with an unused state.
run() {
    local block=$1 name next said status=0

    name=$(sed -n '1s|^// \([a-z-]*\.js\)$|\1|p' "$block")
    printf -v next 'blocks/%02d.text' $((10#$(basename "$block" .js) + 1))
    cp "$block" "${name:-nameless.js}"
    said=$(SLUICE_URL=http://$(where http) SLUICE_DEADLINE_MS=20000 \
        SLUICE_ADMIN_URL=http://$(where admin) \
        timeout 60 node "${name:-nameless.js}" 2>&1)
    said=$(diff -u "$next" - <<<"$said") || status=1
    verdict $status "${name:-$block has no name}" <<<"$said"
}

start
for block in blocks/*.js; do
    run "$block"
done
for block in ${example:+blocks/*.c}; do
    status=0
    [[ $(<"$example") == *"$(<"$block")"* ]] || status=1
    verdict $status "$block is in the example" </dev/null
done
((tests >= 3)) || verdict 1 'there are blocks' </dev/null
echo "1..$tests"
exit $failed
