#!/usr/bin/env bash
# outage.sh SLUICED SLUICED-TEST SLUICE -- a Redis that is not there yet, stalls,
# dies, comes back empty, or is full: what the policy says happens, in time, and
# what passed meanwhile is charged.

# shellcheck source=test/support/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"

cat >p.yaml <<'EOF'
sluice: 1
env: test
limits:
  open: { kind: fixed-window, per: user, rate: 10/3000d }
  near: { kind: fixed-window, per: user, rate: 6/3000d, on_store_failure: local }
  shut: { kind: quota, per: user, rate: 5/3000d }
  many: { kind: fixed-window, per: user, rate: 4000M/3000d }
routes:
  - { match: /open, limits: [open] }
  - { match: /near, limits: [near] }
  - { match: /shut, limits: [open, shut] }
  - { match: /many, limits: [many] }
default: []
EOF

deadline=1s # each outage takes that long before it is known
remaining() {
    member remaining
}

# How often is there such an event in the log of the daemon?
times() {
    grep -c "\"event\":\"$1\"" "$log"
}

says() {
    [[ $(times "$1") -ge $2 ]]
}

# ---- before it is there ----

start -c p.yaml --store "$store" --threads 2
check 'the daemon starts without its Redis' test -n "$http"
check 'it is ready, and says that it is degraded' until_ is_degraded
tell /readyz
check 'with 200: all would be taken out of service at once' answers 200
tell '/readyz?verbose'
check 'and why' has "$out" '[!] degraded: the store does not answer'
ask_for ann /open
check 'what may pass without it passes' has "$out" \
    '"allowed":true,"status":200'
check 'and is marked' has "$out" '"degraded":true'
ask /v1/auth -H 'X-Original-URI: /shut' -H 'X-Original-Method: GET'
check 'what may not gets 503, not 429' answers 503
check 'and when to come back' grep -qiE '^Retry-After: [1-9]' <<<"$fields"
check 'the log has it' until_ says 'store unavailable' 1
check 'the metrics, too' test "$(metric 'sluice_store_up{store="redis"}')" = 0
redis_start
check 'it connects when its Redis comes' until_ is_ok
check 'which the log has, too' until_ says 'store available' 1
check 'each once' test "$(times 'store unavailable') $(times 'store available')" = '1 1'
charged() {
    [[ $(metric sluice_store_charged_units_total) = "$1" ]]
}
check 'what passed is charged' until_ charged 1
ask_for ann /open
check 'and counts' test "$(remaining)" = 8
stop
check 'it ends as asked' is 0

# ---- local: parts of a limit ----

sed 's/near/other/g' p.yaml >other.yaml
share -c other.yaml --threads 1
share -c p.yaml --threads 1
one=$http one_admin=$admin
share -c p.yaml --threads 1
all_count() {
    local i

    for ((i = 0; i < 3; i++)); do
        admin=$one_admin
        [[ $(metric sluice_store_nodes) = 3 ]] || return 1
        admin=$(where admin)
        [[ $(metric sluice_store_nodes) = 3 ]] || return 1
    done
}
until_ all_count # a window may have to pass, and another
check 'daemons count each other, also with another policy' until_ all_count
kill -STOP "$redis_pid"
passed=0
for ((i = 0; i < 12; i++)); do
    ((i % 2)) && http=$one || http=$(where http)
    ask_for eve /near
    [[ $out != *'"allowed":true'* ]] || passed=$((passed + 1))
done
check 'without their Redis both together keep a limit' test "$passed" = 6
check 'as 429, for it is the limit that refuses' has "$out" '"status":429'
check 'and it is said that it was decided here' has "$out" '"degraded":true'
kill -CONT "$redis_pid"
# A take that waited in the connection when the daemon closed it may have been
# done: Redis reads such a connection only until it cannot write a reply.
all_charged() {
    local each sum

    sum=$(used sluice:test:near:user:eve)
    ((sum < 6)) || return 0
    for each in "$one_admin" "$(where admin)"; do
        admin=$each
        sum=$((sum + $(metric sluice_store_uncertain_total)))
    done
    out="$sum are used or uncertain"
    ((sum >= 6))
}
check 'all of it is charged when the Redis is back, or counted as uncertain' \
    until_ all_charged
check 'and nothing twice' test "$(used sluice:test:near:user:eve)" -le 6
admin=$(where admin)
check 'the daemon is well' until_ is_ok

# ---- it stalls for ten seconds, under load ----

rss() {
    awk '/^VmRSS/ { print $2 }' "/proc/$pid/status"
}
http=$(where http)
load 1 4 '{"path":"/many","user":"ann"}' "$http"
before=$(rss)
stall() {
    sleep 1
    kill -STOP "$redis_pid"
    sleep 10
    kill -CONT "$redis_pid"
}
stall &
load 13 4 '{"path":"/many","user":"ann"}' "$http"
wait "$!"
check 'all are answered while it stalls' test "$unanswered $outage" = '0 0'
check 'none of them as 429' test "$denied" = 0
check "some of them without it ($degraded)" test "$degraded" -gt 0
check "long before the store answers again (${slowest} ms)" test "$slowest" -lt 8000
after=$(rss)
# A sanitizer keeps what was given back for a while.
! grep -q __asan_init "$sluiced" || after=$before
check "memory stays as it was ($before, $after KiB)" test \
    $((after - before)) -lt 8192
check 'it is used again' until_ is_ok
ask_for ann /open
check 'for decisions, too' has "$out" '"degraded":false'
check 'no take is left open' test "$(metric sluice_store_breaker_open)" = 0
stop
check 'it ends as asked, after all' is 0

# ---- it dies, and comes back with or without what it had ----

redis_kill
redis_start --appendonly yes --appendfsync always
share -c p.yaml --threads 2
ask_for kim /open
ask_for kim /open
check 'two of ten are used' test "$(remaining)" = 8
redis_kill
until_ is_degraded
ask_for kim /open
check 'one more passes without it' has "$out" '"degraded":true'
redis_start --appendonly yes --appendfsync always
check 'it comes back with what it had' until_ is_ok
until_ charged 1
ask_for kim /open
check 'and nothing is lost or doubled' test "$(remaining)" = 6
redis_kill
rm -rf "$folder/appendonlydir"
redis_start
until_ is_ok
lost() {
    [[ $(metric sluice_store_losses_total) -ge 1 ]]
}
check 'one that comes back empty is told apart' until_ lost
check 'the log has that, too' until_ says 'store data replaced' 1
ask_for kim /open
check 'and is used' test "$(remaining)" = 9
redis script flush >/dev/null
ask_for kim /open
check 'it is told the script again when it has forgotten it' test \
    "$(remaining)" = 8

# ---- it is full ----

redis config set maxmemory 1 >/dev/null
ask_for kim /open
check 'a full one is an outage: allowed' has "$out" \
    '"allowed":true,"status":200'
check 'which is said' has "$out" '"degraded":true'
ask_for kim /shut
check 'or 503' has "$out" '"status":503'
check 'and the log says what to do' until_ says 'store error' 1
redis config set maxmemory 0 >/dev/null
works() {
    ask_for kim /shut
    [[ $out = *'"degraded":false'* ]]
}
check 'when there is room again it is used' until_ works
kill -9 "$redis_pid"
stop
check 'without its Redis it ends as asked, too' is 0

finish
