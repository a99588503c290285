#!/usr/bin/env bash
# resp.sh -- clients of Redis as others wrote them, against the RESP listener.
#
# Every one connects as it does by default, says its password, asks for
# redis-cell's verdict until it is refused, in a pipeline too, and for that of
# the policy; and must have seen what the others have seen.
hiredis=$(realpath "$4")
# shellcheck source=test/clients/clients.sh
. "$(dirname "${BASH_SOURCE[0]}")/clients.sh"

start_for_clients
host=${resp%:*} port=${resp##*:}

# What each of them prints. A key of its own is the first word it is given.
seen='PONG
0 3 2 -1 1
0 3 1 -1 2
0 3 0 -1 3
1 3 0 1 3
0 3 1 -1 2
0 4
0 0
1 0
1 200 5 4
0 429 minute 12000
unknown'

# try NAME COMMAND...: it is told where to go, and who it is.
try() {
    local name=$1

    run timeout 60 "${@:2}" "$host" "$port" s3cret "$name"
    check "$name has seen what was to be seen" test "$out" = "$seen"
}

try redis-cli bash "$here/resp/cli.sh"
try hiredis "$hiredis"
# Debian's own, whatever other Python there is.
try redis-py /usr/bin/python3 "$here/resp/redispy.py"
NODE_PATH=$modules try ioredis node "$here/resp/ioredis.js"
NODE_PATH=$modules try node-redis node "$here/resp/noderedis.js"

run timeout 60 redis-benchmark -h "$host" -p "$port" -a s3cret -n 20000 -P 64 \
    -c 8 --csv CL.THROTTLE key 99 100 60
check 'redis-benchmark' is 0
check 'has asked' has "$out" '"CL.THROTTLE key 99 100 60",'
tell /metrics
check 'exactly as many were let through as may be' has "$out" \
    'limit="CL.THROTTLE",endpoint="",status="200",result="allow"} 130'
stop
check 'and it ends as asked' is 0
finish
