#!/usr/bin/env bash
# rows.sh SLUICED SLUICED-TEST SLUICE -- rows that are removed late, early, or
# between a look and a write; a daemon that is killed between the writes of a
# set; and policies that a table can't keep.
# shellcheck disable=SC2119,SC2154,SC2317 # dynamo.sh leaves them
set -uo pipefail

# shellcheck source=test/dynamo/dynamo.sh
. "$(dirname "${BASH_SOURCE[0]}")/dynamo.sh"

cat >p.yaml <<'EOF'
sluice: 1
env: test
limits:
  window: { kind: fixed-window, per: user, rate: 3/hour }
  bucket: { kind: token-bucket, per: user, rate: 3/hour }
  sliding: { kind: sliding-window, per: user, rate: 3/hour }
  day: { kind: quota, per: user, rate: 3/day }
  tenant: { kind: fixed-window, per: org, rate: 5/hour }
routes:
  - { match: /window, limits: [window] }
  - { match: /bucket, limits: [bucket] }
  - { match: /sliding, limits: [sliding] }
  - { match: /day, limits: [day] }
  - { match: /steps, limits: [tenant, window], atomic: false }
default: []
server: { deadline: 5s }
EOF

at() {
    tell /v1/clock -d "{\"now\":\"$1\"}"
}

# passes USER PATH: how many of four
passes() {
    local i passed=0

    for i in {1..4}; do
        ask_for "$@"
        [[ $out != *'"allowed":true'* ]] || passed=$((passed + 1))
    done
    echo "$passed"
}

begin() {
    launch "$sluiced_test" -c p.yaml --clock=virtual --store "$store" \
        --listen-http 127.0.0.1:0 --listen-admin 127.0.0.1:0 --log-format json
    started && until_ is_ok
}

number() {
    sed -n "s/.*\"$1\":{\"N\":\"\([0-9]*\)\".*/\1/p" <<<"$out"
}

# expired NOW: rows whose ttl has passed, and are there all the same
expired() {
    local row count=0

    while read -r row; do
        out=$(item "${row%% *}" "${row##* }")
        [[ $(number ttl) -ge $1 ]] || count=$((count + 1))
    done < <(rows)
    echo "$count"
}

remove() {
    operation DeleteItem "{\"TableName\":\"$table\",\"Key\":{\"userId\":{\"S\":\"${1%% *}\"},\"dataType\":{\"S\":\"${1##* }\"}}}" >/dev/null
}

dynamo_start
begin

# ---- what a table can't do ----

cat >q.yaml <<'EOF'
sluice: 1
limits:
  running: { kind: concurrency, per: user, rate: 2 }
default: [running]
EOF
"$sluiced" -c q.yaml --store "$store" --listen-http 127.0.0.1:0 \
    --listen-admin 127.0.0.1:0 >q.out 2>&1 </dev/null
check 'permits by a flag that names DynamoDB are refused' test $? = 3
check 'with what to do' grep -q 'keep it in memory or in Redis' q.out
ask_for ann /window ',"hold":"30s"'
check 'a check that asks for a hold is told no' has "$out" '"status":503'

# ---- late: nothing is ever removed here ----

at 2026-03-01T00:30:00Z
for kind in window bucket sliding day; do
    check "three of a $kind pass" test "$(passes ann "/$kind")" = 3
done
at 2026-03-03T00:30:00Z
check 'all four rows are over, and still there' test \
    "$(expired "$(date -d 2026-03-03T00:30:00Z +%s)")" = 4
for kind in window bucket sliding day; do
    check "a $kind that is over, and still there, counts for nothing" test \
        "$(passes ann "/$kind")" = 3
done

# ---- early: somebody removes what is in use ----

while read -r row; do
    remove "$row"
done < <(rows)
for kind in window bucket sliding day; do
    check "a $kind whose row is gone begins anew" test \
        "$(passes ann "/$kind")" = 3
done

# ---- between ----

for kind in window bucket sliding day; do
    shim '{"fail":2,"type":"ConditionalCheckFailedException","only":"UpdateItem"}'
    check "a condition that fails twice: a $kind takes three all the same" \
        test "$(passes bob "/$kind")" = 3
done
shim '{"fail":100,"type":"ConditionalCheckFailedException","only":"UpdateItem"}'
ask_for cat /bucket
check 'one that fails for ever is an outage, after a few attempts' has "$out" \
    '"degraded":true'
tried=$(asked UpdateItem)
# Thirteen of its own; what it has passed is charged later, by attempts as well.
check "of $tried" test "$tried" -ge 3 -a "$tried" -le 60
shim '{}'
end_by TERM
dynamo_kill

# ---- a daemon dies between two writes of a set ----

dynamo_port=0
dynamo_start --plain
begin
at 2026-03-01T00:30:00Z
ask_for dan /steps ',"org":"acme"' # and it knows that there are no transactions
ask_for dan /steps ',"org":"acme"'
check 'a set in steps' has "$out" '"allowed":true'
before=$(rows | wc -l)
shim '{"hold":20000,"only":"UpdateItem"}'
ask_for eve /steps ',"org":"acme"' &
asking=$!
first_is_written() {
    out=$(item sluice:test:tenant:org:acme RATE_LIMIT#1772323200000)
    [[ $(number count) = 3 ]]
}
until_ first_is_written
kill -9 "$pid"
wait "$pid" 2>/dev/null
kill "$asking" 2>/dev/null
wait "$asking" 2>/dev/null
shim '{}'
check 'killed after the first write: it has counted' first_is_written
check 'and the second is not there' test "$(rows | wc -l)" = "$before"
begin
at 2026-03-01T00:40:00Z
ask_for fay /steps ',"org":"acme"'
ask_for fay /steps ',"org":"acme"'
check 'what was taken stays taken' has "$out" '"allowed":true'
ask_for fay /steps ',"org":"acme"'
check 'so that nobody gets more than the limit' has "$out" '"by":"tenant"'
at 2026-03-01T01:00:00Z
ask_for fay /steps ',"org":"acme","cost":3'
check 'and is healed when the window ends' has "$out" '"allowed":true'
ask_for eve /steps ',"org":"acme","cost":2'
check 'to the unit' has "$out" '"allowed":true'
end_by TERM

finish
