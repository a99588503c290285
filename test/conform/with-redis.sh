#!/bin/sh
# with-redis.sh PROGRAM -- run it with the socket of a Redis of its own.
set -eu

dir=$(mktemp -d)
redis-server --port 0 --unixsocket "$dir/redis.sock" --save '' --dir "$dir" \
    --logfile "$dir/log" --daemonize no &
pid=$!
trap 'kill $pid 2>/dev/null; wait $pid 2>/dev/null || :; rm -rf "$dir"' EXIT
for _ in $(seq 600); do
    [ -S "$dir/redis.sock" ] && break
    sleep 0.1
done
"$@" "$dir/redis.sock"
