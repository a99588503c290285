#!/bin/sh
# with-redis.sh PROGRAM -- runs it with the socket of a new Redis.
set -eu

dir=$(mktemp -d)
redis-server --port 0 --unixsocket "$dir/redis.sock" --save '' --dir "$dir" \
    --logfile "$dir/log" --daemonize no &
pid=$!
trap 'kill $pid 2>/dev/null; wait $pid 2>/dev/null || :; rm -rf "$dir"' EXIT
# However busy the machine is, wait until Redis answers or has ended.
until redis-cli -s "$dir/redis.sock" ping >/dev/null 2>&1; do
    kill -0 $pid || exit 1
    sleep 0.1
done
"$@" "$dir/redis.sock"
