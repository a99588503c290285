#!/bin/sh
# with-dynamo.sh [-p] PROGRAM... -- run it with the port of a DynamoDB of its
# own: dynalite behind test/dynamo/dynamo.js; -p without what that adds.
set -eu

here=$(dirname "$0")
shim=
[ "$1" != -p ] || { shim=--plain; shift; }
modules=${SLUICE_NODE_MODULES:-$here/../../build/node_modules}
if ! [ -d "$modules/dynalite" ]; then
    echo "1..0 # SKIP dynalite is not installed; run scripts/setup"
    exit 0
fi
dir=$(mktemp -d)
mkfifo "$dir/in"
# shellcheck disable=SC2086 # a word, or none
node "$here/dynamo.js" $shim <"$dir/in" >"$dir/port" &
pid=$!
exec 3>"$dir/in"
trap 'exec 3>&-; kill $pid 2>/dev/null; wait $pid 2>/dev/null || :
    rm -rf "$dir"' EXIT
for _ in $(seq 900); do
    [ -s "$dir/port" ] && break
    sleep 0.1
done
"$@" "$(cat "$dir/port")"
