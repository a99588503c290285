#!/usr/bin/env bash
# rows.sh SLUICED SLUICED-TEST SLUICE -- rows that are removed late, early, or
# between a look and a write; and policies that a table can't keep.

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
routes:
  - { match: /window, limits: [window] }
  - { match: /bucket, limits: [bucket] }
  - { match: /sliding, limits: [sliding] }
  - { match: /day, limits: [day] }
default: []
server: { deadline: 5s }
EOF

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
    start_virtual -c p.yaml --store "$store" && until_ is_ok
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
check 'with what to do' grep -q 'Use a store in memory or in Redis' q.out
ask_for ann /window ',"hold":"30s"'
check 'a check that asks for a hold is told no' has "$out" '"status":503'

# ---- late: nothing is ever removed here ----

clock 2026-03-01T00:30:00Z
for kind in window bucket sliding day; do
    check "three of a $kind pass" test "$(passes ann "/$kind")" = 3
done
clock 2026-03-03T00:30:00Z
check 'all four rows are over, and still there' test \
    "$(expired "$(date -d 2026-03-03T00:30:00Z +%s)")" = 4
for kind in window bucket sliding day; do
    check "a $kind that is over, and still there, counts for nothing" test \
        "$(passes ann "/$kind")" = 3
done

# ---- early: a row in use is removed ----

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
# Sixty-five of its own at most; what it has passed is charged later, likewise.
check "of $tried" test "$tried" -ge 3 -a "$tried" -le 400
shim '{}'
end_by TERM
dynamo_kill

finish
