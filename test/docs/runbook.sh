#!/usr/bin/env bash
# runbook.sh SLUICE SLUICED-TEST GUIDE [TIME] -- a guide, against a daemon whose
# clock stands still. The daemon begins in 1970; for "since TIME", when it began,
# the guide shows TIME.
set -uo pipefail

sluice=$(realpath "$1") sluiced=$(realpath "$2") guide=$(realpath "$3")
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
folder=$(mktemp -d)
"$sluiced" --clock=virtual --store memory: --deadline 5s --log-format json \
    --listen-http 127.0.0.1:0 --listen-admin 127.0.0.1:0 \
    --listen-grpc off --listen-resp off \
    >/dev/null 2>"$folder/log" &
daemon=$!
trap 'kill "$daemon" 2>/dev/null; wait "$daemon"; rm -rf "$folder"' EXIT

where() {
    sed -n "/\"event\":\"serving\"/s/.*\"$1\":\"\([^\"]*\)\".*/\1/p" \
        "$folder/log"
}

for ((i = 0; i < 3000; i++)); do
    [[ -z $(where admin) ]] || break
    sleep 0.02
done
if [[ -n ${4-} ]]; then
    curl -sS "http://$(where admin)/v1/clock" -d "{\"now\":\"$4\"}" >/dev/null
    sed "s/^since ${4%Z}\.000Z:/since 1970-01-01T00:00:00.000Z:/" "$guide" \
        >"$folder/${guide##*/}"
    guide=$folder/${guide##*/}
fi
SLUICE_URL=http://$(where http) SLUICE_ADMIN_URL=http://$(where admin) \
    "$here/guide.sh" "$sluice" "$guide"
