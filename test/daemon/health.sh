#!/usr/bin/env bash
# health.sh SLUICED SLUICED-TEST SLUICE -- what a daemon notices by itself: a
# store that is back, a clock that was set, requests without an address.

# shellcheck source=test/support/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"

policy p.yaml 100/day

# ---- requests without an address ----

cat >address.yaml <<'EOT'
sluice: 1
limits: { address: { kind: fixed-window, per: ip, rate: 1/day } }
default: [address]
EOT
start -c address.yaml --store memory:
for user in ann bob cid; do
    ask /v1/check -d "{\"path\":\"/x\",\"user\":\"$user\"}"
    check "$user passes without an address" has "$out" '"allowed":true'
done
check 'the verdict says so' has "$out" '"skipped":true'
check 'and the log' until_ said 'request without an address'
check 'once' test "$(grep -c 'request without an address' "$log")" = 1
stop

# ---- a remote store, without traffic ----

redis_start
deadline=50ms share -c p.yaml --threads 2
# Each loop has seen enough failures: its breaker is open.
kill -STOP "$redis_pid"
breaker_is_open() {
    load 0.2 8 '{"path":"/x","user":"ann"}' "$http"
    [[ $(metric sluice_store_breaker_open) = 1 ]]
}
check 'the store is gone, and its breaker open' until_ breaker_is_open
check 'the daemon says so' until_ is_degraded
kill -CONT "$redis_pid"
# From here on no request is sent to the store.
is_back() {
    is_ok && [[ $(metric 'sluice_store_up{store="redis"}') = 1 ]] &&
        [[ $(metric sluice_store_breaker_open) = 0 ]]
}
check 'it is back: that is noticed without traffic' until_ is_back
check 'the probe takes nothing' test -z "$(redis keys '*probe*')"
stop

# ---- the database ----

start -c p.yaml --store memory: --usage sqlite:./u.db
answers_up() {
    [[ $(metric sluice_database_up) = 1 ]]
}
check 'a database answers' until_ answers_up
tell /readyz?verbose
check 'as /readyz says' has "$out" '[+] database: ok'
stop
start -c p.yaml --store memory:
check 'without one there is no such metric' test -z "$(metric sluice_database_up)"
tell /readyz?verbose
check 'and no such line' test "$out" = $'[+] process: running\n[+] requests: served\nok'
stop

# ---- the clock ----

lib=$(echo /usr/lib/*/faketime/libfaketime.so.1)
echo '+0' >clock
launch env ASAN_OPTIONS=verify_asan_link_order=0 LD_PRELOAD="$lib" \
    FAKETIME_TIMESTAMP_FILE="$PWD/clock" FAKETIME_NO_CACHE=1 \
    FAKETIME_DONT_FAKE_MONOTONIC=1 \
    "$sluiced" "${listeners[@]}" -c address.yaml --store memory:
started
ask /v1/check -d '{"path":"/x","ip":"192.0.2.1"}'
check 'a window is used' has "$out" '"allowed":true'
check 'a clock that runs has no steps' test "$(metric sluice_clock_steps_total)" = 0
echo '+1d' >clock
steps() {
    [[ $(metric sluice_clock_steps_total) = "$1" ]]
}
check 'a step of a day is counted' until_ steps 1
check 'and logged, with its size' said '"event":"clock step","by":"1d"'
echo '-1h' >clock
check 'a step back, too' until_ steps 2
check 'with its sign' said '"event":"clock step","by":"-1d1h"'
check 'every request had an address' \
    test "$(grep -c 'request without an address' "$log")" = 0
echo '-3601' >clock
ask /v1/check -d '{"path":"/x","user":"ann"}'
check 'the daemon has looked at the clock and at this request' \
    until_ said 'request without an address'
check 'a second is no step' steps 2
kill "$pid"
finish
