# shellcheck shell=bash
# redis.sh -- a Redis of the test's own, on top of daemon.sh.
#
#   redis_start WORD...   on a unix socket; leaves $redis_pid and $store
#   redis_kill            as by kill -9
#   redis WORD...         redis-cli
#   used KEY              how much of a window is taken, as Redis has it
#   share WORD...         sluiced on it, once it answers; as start
#   load SECONDS|refused CONNECTIONS BODY HOST:PORT...   leaves $allowed $denied
#                         $outage $unanswered $degraded $slowest
#   metric NAME           of the last daemon
#
# shellcheck disable=SC2034,SC2120 # who sources this reads them

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=test/daemon/daemon.sh
. "$here/../daemon/daemon.sh"
redis_pid='' socket=$folder/redis.sock store=redis+unix://$folder/redis.sock

redis() {
    redis-cli -s "$socket" "$@"
}

redis_answers() {
    [[ $(redis ping 2>/dev/null) = PONG ]]
}

redis_start() {
    redis-server --port 0 --unixsocket "$socket" --dir "$folder" --save '' \
        --logfile "$folder/redis.log" "$@" &
    redis_pid=$!
    running+=("$redis_pid")
    until_ redis_answers
}

redis_kill() {
    kill -9 "$redis_pid"
    wait "$redis_pid" 2>/dev/null
}

used() {
    redis get "$1" | cut -d: -f4
}

is_ok() {
    [[ $(curl -s "http://$admin/readyz") = ok ]]
}

is_degraded() {
    [[ $(curl -s "http://$admin/readyz") = degraded:* ]]
}

# Longer than a busy machine keeps a Redis waiting, unless somebody says how long.
share() {
    start --store "$store" --deadline "${deadline:-5s}" "$@" && until_ is_ok
}

load() {
    local line

    line=$(python3 "$here/load.py" "$@")
    read -r allowed denied outage unanswered degraded slowest <<<"$line"
}

metric() {
    curl -s "http://$admin/metrics" | sed -n "s/^$1 //p"
}

# ask_for USER PATH [MORE]: leaves the verdict in $out.
ask_for() {
    ask /v1/check -d "{\"path\":\"$2\",\"user\":\"$1\"${3-}}"
}

member() {
    sed -n "s/.*\"$1\":\([^,}]*\).*/\1/p" <<<"$out"
}
