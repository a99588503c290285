#!/usr/bin/env bash
# two.sh SLUICED SLUICED-TEST SLUICE -- two daemons on one table: what they
# admit together is exact; an endpoint that throttles, fails, stalls and loses
# answers; and one without transactions.

# shellcheck source=test/dynamo/dynamo.sh
. "$(dirname "${BASH_SOURCE[0]}")/dynamo.sh"

cat >p.yaml <<'EOF'
sluice: 1
env: test
limits:
  window: { kind: fixed-window, per: user, rate: 40/3000d }
  bucket: { kind: token-bucket, per: user, rate: 1/day burst 30 }
  hot: { kind: fixed-window, per: user, rate: 300/3000d, lease: 20% }
  tenant: { kind: quota, per: org, rate: 25/3000d, on_store_failure: deny }
routes:
  - { match: /window, limits: [window] }
  - { match: /bucket, limits: [bucket] }
  - { match: /hot, limits: [hot] }
  - { match: /set, limits: [tenant, window] }
  - { match: /org, limits: [tenant] }
  - { match: /steps, limits: [tenant, window], atomic: false }
default: []
EOF

# both COUNT USER PATH: that many at each of two daemons, at once; how many
# passed, and how many without the store
both() {
    local one

    for one in "$first" "$second"; do
        python3 - "$one" "$@" <<'EOF' &
import http.client, json, sys
host, count, user, path = sys.argv[1:5]
line = http.client.HTTPConnection(host)
passed = degraded = 0
for _ in range(int(count)):
    line.request("POST", "/v1/check", json.dumps(
        {"path": path, "user": user, "org": user}))
    said = json.loads(line.getresponse().read())
    passed += said["allowed"]
    degraded += said["degraded"]
sys.stdout.write("%d %d\n" % (passed, degraded))  # one write: two print at once
EOF
    done | awk '{ p += $1; d += $2 } END { print p, d }'
    wait
}

count_of() {
    local row

    row=$(rows | grep "^sluice:test:$1 RATE_LIMIT#")
    item "${row%% *}" "${row##* }" | sed 's/.*"count":{"N":"\([0-9]*\)".*/\1/'
}

dynamo_start

# ---- a hot key, by leases ----

share -c p.yaml --threads 1
first=$http first_pid=$pid
share -c p.yaml --threads 1
second=$http
shim '{}'
read -r passed degraded < <(both 120 ivy /hot)
check 'a lease allows requests, while there is enough' test \
    "$passed $degraded" = '240 0'
check "by $(asked) requests, not by 240" test "$(asked)" -lt 120
check 'many of them by leases' test \
    "$(metric 'sluice_store_takes_total{result="leased"}')" -gt 20
read -r more degraded < <(both 120 ivy /hot)
check "no more than the limit ($((passed + more)))" test \
    $((passed + more)) -le 300 -a "$degraded" = 0
stop
pid=$first_pid
stop
check 'daemons that stop give back what they have not spent' test \
    "$(count_of hot:user:ivy)" = $((passed + more))

# The table takes its time, longer than any request may wait.
start --store "$store" --deadline 200ms -c p.yaml --threads 1
until_ is_ok
for _ in {1..20}; do
    ask_for joy /hot
done
shim '{"hold":1500,"only":"UpdateItem"}'
stop
shim '{}'
check 'a slow one gets it back, too: a daemon waits for that' test \
    "$(count_of hot:user:joy)" = 20

# ---- exact totals ----

share -c p.yaml --threads 1
first=$http
share -c p.yaml --threads 1
second=$http
# exactly WANT WHAT USER PATH: that many pass at the two, none of them without
# the store.
exactly() {
    local got

    got=$(both "$1" "$3" "$4")
    check "$2: exactly $1 pass, and 0 without the store ($got)" \
        test "$got" = "$1 0"
}
exactly 40 'a window' ann /window
check 'which is what the table has' test "$(count_of window:user:ann)" = 40
exactly 30 'a bucket' ann /bucket
exactly 25 'a set' bob /set
check 'of which the window has no more' test "$(count_of window:user:bob)" = 25

# ---- one request in the table's eyes ----

shim '{}'
ask_for cat /window
check 'a window that lets pass is one request' test \
    "$(asked) $(asked UpdateItem)" = '1 1'
ask_for cat /window ',"cost":39'
shim '{}'
ask_for cat /window
check 'the first refusal is one, too: what was found comes with it' test \
    "$(asked)" = 1
check 'and is a refusal' has "$out" '"status":429'
remembered() {
    metric 'sluice_store_takes_total{result="remembered"}'
}
before=$(remembered)
for _ in {1..10}; do
    ask_for cat /window
done
more=$(($(remembered) - before))
check "and then $more of ten are not asked for" test "$more" -ge 1
check 'all others are, once each' test "$(asked)" = $((11 - more))

# ---- trouble ----

shim '{"fail":2,"type":"ProvisionedThroughputExceededException"}'
ask_for dan /window
check 'throttling is waited out' has "$out" '"degraded":false'
check 'and counted once' test "$(count_of window:user:dan)" = 1
shim '{"fail":100,"type":"ThrottlingException"}'
ask_for dan /window
check 'for a while' has "$out" '"allowed":true,"status":200'
check 'and then decided without' has "$out" '"degraded":true'
shim '{}'
charged() {
    [[ $(count_of window:user:dan) = 2 ]]
}
check 'what passed is charged when the store answers again' until_ charged
# What is still on its way from before may meet the failure instead: then another
# one is tried.
for try in 1 2 3 4 5; do
    shim '{"fail":1,"type":"InternalServerError","status":500}'
    ask_for "fay$try" /window
    ! has "$out" '"degraded":true' || break
done
check 'a write that fails with 500 is not sent again' test "$(asked)" = 1
check 'which is decided without the store' has "$out" '"degraded":true'
shim '{"lose":1,"only":"UpdateItem"}'
ask_for gus /window
check 'an answer that is lost: not sent again either' test \
    "$(asked UpdateItem)" = 1
check 'so that it moves by one' test "$(count_of window:user:gus)" = 1
shim '{"date":120}'
ask_for eve /window
ask_for eve /window
ahead=$(metric sluice_store_clock_ahead_seconds)
check "a server two minutes ahead is seen ($ahead)" test \
    "${ahead%%.*}" -ge 118
shim '{"fail":1,"type":"RequestTimeTooSkewed"}'
ask_for eve /window
check 'a clock that is too far off is corrected, once' has "$out" \
    '"degraded":false'
shim '{}'
stop

# ---- late ----

start --store "$store" --deadline 300ms -c p.yaml --threads 1
until_ is_ok
ask_for kim /window
shim '{"hold":900,"only":"UpdateItem"}'
ask_for kim /window
check 'a request that waits too long is decided without it' has "$out" '"degraded":true'
shim '{}'
once() {
    [[ $(count_of window:user:kim) = 2 ]]
}
check 'a late take is kept where the request has passed' until_ once
stop

# A quota is read first, and only its write is to be late. If the read was late
# already, nothing was taken: then again.
start --store "$store" --deadline 2s -c p.yaml --threads 1
until_ is_ok
ask_for kim /org ',"org":"kim","cost":7'
returned() {
    [[ $(metric sluice_store_returned_total) -ge 1 ]]
}
take_late() {
    shim '{"hold":3500,"only":"UpdateItem"}'
    ask_for kim /org ',"org":"kim","cost":9'
    shim '{}'
    has "$out" '"status":503' && until_ returned
}
for _ in 1 2 3; do take_late && break; done
check 'where the policy says deny it is 503' has "$out" '"status":503'
check 'and what was taken too late is given back' returned
ask_for kim /org ',"org":"kim"'
check 'to the unit' has "$out" '"remaining":17'
stop

# ---- no such host ----

start --store "${store/127.0.0.1/missing.invalid}" --deadline 300ms -c p.yaml
ask_for lea /window
check 'an unknown host is an outage' has "$out" '"degraded":true'
ask_for lea /set ',"org":"lea"'
check 'which is 503 where the policy says deny' has "$out" '"status":503'
check 'and said' until_ grep -qF '"event":"store error"' "$log"
stop
dynamo_kill

# ---- a store that is slower than its deadline ----

dynamo_port=0
dynamo_start
deadline=100ms share -c p.yaml --threads 1
shim '{"hold":300}'
is_slow() {
    ask_for sue /window
    awk "BEGIN { exit !(0$(metric sluice_store_latency_seconds) >= 0.3) }"
}
check 'the round trip is measured, also of answers that are late' until_ is_slow
named() {
    grep -qE '"event":"store slow","latency":"[^"]+","deadline":"100ms"' "$log"
}
check 'the log has it, with the deadline' until_ named
check 'and what to write' grep -qF 'set server.deadline to ' "$log"
stop
dynamo_kill

# ---- without transactions ----

dynamo_port=0
dynamo_start --plain
share -c p.yaml --threads 1
ask_for bob /set ',"org":"bob"'
check 'a set is taken in steps' has "$out" '"allowed":true,"status":200'
check 'with numbers' has "$out" '"degraded":false'
check 'and the log says so' until_ grep -qF 'TransactWriteItems' "$log"
for _ in {2..25}; do
    ask_for bob /steps ',"org":"bob"'
done
check 'as a route with atomic: false is' has "$out" \
    '"allowed":true,"status":200'
ask_for bob /steps ',"org":"bob"'
check 'to its limit' has "$out" '"by":"tenant"'
check 'and what was taken before a refusal is given back' test \
    "$(count_of window:user:bob)" = 25
stop

finish
