#!/usr/bin/env bash
# steps.sh SLUICED SLUICED-TEST SLUICE -- sets of several limits where there are
# no transactions: daemons are killed after each of the writes, and then every
# total is exact; what came between is undone, and what is late.

# shellcheck source=test/dynamo/dynamo.sh
. "$(dirname "${BASH_SOURCE[0]}")/dynamo.sh"

cat >p.yaml <<'EOF'
sluice: 1
env: test
limits:
  tenant: { kind: fixed-window, per: org, rate: 3/hour, on_store_failure: deny }
  bucket: { kind: token-bucket, per: user, rate: 3/hour }
  sliding: { kind: sliding-window, per: user, rate: 3/hour }
  day: { kind: quota, per: user, rate: 3/day }
  month: { kind: quota, per: user, rate: 3/month, zone: Europe/Berlin }
  things: { kind: level, per: user, rate: 3 }
routes:
  - { match: /steps, limits: [tenant, bucket, sliding, day, month, things], atomic: false }
  - { match: /tenant, limits: [tenant] }
  - { match: /bucket, limits: [bucket] }
  - { match: /sliding, limits: [sliding] }
  - { match: /day, limits: [day] }
  - { match: /month, limits: [month] }
  - { match: /things, limits: [things] }
default: []
EOF
kinds=(tenant bucket sliding day month things)

dynamo_start --plain
begin
clock 2026-03-10T00:30:00Z
ask_for dan /steps ',"org":"dan"'
check 'a set in steps, without knowing before that it had to be' has "$out" \
    '"allowed":true'
check 'of which nothing stays but what was taken' until_ all_healed
check 'and no row is marked' test -z "$(rows | grep marked)"
check 'it is' test "$(left dan)" = '2 2 2 2 2 2'
ask_for dan /things ',"cost":2'
ask_for dan /steps ',"org":"dan"'
check 'the last limit refuses' has "$out" '"by":"things"'
check 'and of the others nothing was taken' test "$(left dan)" = '2 2 2 2 2 0'
end_by TERM

# ---- killed after each of the writes ----

# Two requests until a daemon knows what it has to do, the journal, six rows;
# then it is answered, six marks go, and the journal.
for served in {2..15}; do
    killed "u$served" /steps "$served"
done
check 'thirteen were left behind' test "$(journals)" = 13
begin
clock 2026-03-10T00:30:20Z
ask_for eve /steps ',"org":"eve"'
check 'others go on meanwhile' has "$out" '"allowed":true'
check 'sets that may be under way stay' test "$(journals)" -ge 13
clock 2026-03-10T00:31:00Z
check 'and then all are found' until_ all_healed
for served in {2..15}; do
    want='3 3 3 3 3 3'
    ((served < 9)) || want='2 2 2 2 2 2'
    got=$(left "u$served")
    check "killed after $served requests: $want ($got)" test "$got" = "$want"
    if grep -qs '"allowed":true' "told.u$served"; then
        check 'a request that passed was charged' test "$got" = '2 2 2 2 2 2'
    fi
done
check 'the answer came before all was done' grep -q '"allowed":true' told.u10
check 'no row is marked' test -z "$(rows | grep marked)"
check 'it is said' until_ grep -qF 'in the middle of a take' "$log"
check 'and counted' test "$(metric sluice_store_returned_total)" = 5

# ---- another writer in between ----

for nth in {0..5}; do
    shim "{\"fail\":1,\"after\":$nth,\"only\":\"UpdateItem\",\"type\":\"ConditionalCheckFailedException\"}"
    ask_for "v$nth" /steps ",\"org\":\"v$nth\""
    check "row $nth was written by another: undone, and taken anew" has "$out" \
        '"allowed":true,"status":200'
    check 'as a set of its own' test "$(asked PutItem)" = 2
    check 'once' test "$(left "v$nth")" = '2 2 2 2 2 2'
done
check 'nothing stays' until_ all_healed

# ---- an answer that never comes ----

for nth in 0 2 5; do
    shim "{\"lose\":1,\"after\":$nth,\"only\":\"UpdateItem\"}"
    ask_for "w$nth" /steps ",\"org\":\"w$nth\""
    check "the answer to row $nth is lost: 503" has "$out" '"status":503'
    shim '{}'
done
clock 2026-03-10T00:32:00Z
check 'and healed by the marks' until_ all_healed
check 'the first was undone' test "$(left w0)" = '3 3 3 3 3 3'
check 'one between, too' test "$(left w2)" = '3 3 3 3 3 3'
check 'the last had been taken' test "$(left w5)" = '2 2 2 2 2 2'
end_by TERM

# ---- too late ----

begin 1s
clock 2026-03-10T00:33:00Z
ask_for x0 /steps ',"org":"x0"'
shim '{"hold":1500,"after":2,"only":"UpdateItem"}'
ask_for x1 /steps ',"org":"x1"'
check 'a request that waits too long is refused' has "$out" '"status":503'
shim '{}'
check 'and turned round' until_ all_healed
check 'to the unit' test "$(left x1)" = '3 3 3 3 3 3'
end_by TERM

finish
