#!/usr/bin/env bash
# journal.sh SLUICED SLUICED-TEST SLUICE -- journals of sets in steps that are
# many, late, or can't be looked for; and rows that go before they are healed.

# shellcheck source=test/dynamo/dynamo.sh
. "$(dirname "${BASH_SOURCE[0]}")/dynamo.sh"

cat >p.yaml <<'EOP'
sluice: 1
env: test
limits:
  things: { kind: level, per: user, rate: 3 }
  month: { kind: quota, per: user, rate: 3/month }
  bucket: { kind: token-bucket, per: user, rate: 50/day }
  tenant: { kind: fixed-window, per: org, rate: 3/hour, on_store_failure: deny }
routes:
  - { match: /steps, limits: [things, month, bucket, tenant], atomic: false }
  - { match: /dated, limits: [month, bucket, tenant], atomic: false }
  - { match: /things, limits: [things] }
  - { match: /month, limits: [month] }
  - { match: /bucket, limits: [bucket] }
  - { match: /tenant, limits: [tenant] }
default: []
EOP

kinds=(things month bucket tenant)

# journal_item ID AT-MS ROWS: as an item
journal_item() {
    printf '{"userId":{"S":"sluice:pledges"},"dataType":{"S":"SET#%s"},"at":{"N":"%s"},"rows":{"S":"%s"}}' "$@"
}

# young N: so many of them, long, and from tomorrow
young() {
    local i list long

    long=$(printf 'x%.0s' {1..20000})
    for ((i = 1; i <= $1; i++)); do
        list+=",{\"PutRequest\":{\"Item\":$(journal_item "$(printf '%032x' "$i")" \
            $((now_ms + 86400000)) "$long")}}"
        ((i % 5 == 0)) || continue
        operation BatchWriteItem \
            "{\"RequestItems\":{\"$table\":[${list#,}]}}" >/dev/null
        list=
    done
}

dynamo_start --plain
begin
clock 2026-03-10T00:30:00Z
ask_for dan /steps ',"org":"dan"'
check 'a set in steps' until_ all_healed
end_by TERM

# ---- more than a page of them ----

now_ms=$(date -d 2026-03-10T00:30:00Z +%s%3N)
name=sluice:test:tenant:org:pat
young 110
put "$(journal_item ffffffffffffffffffffffffffffffff "$now_ms" \
    "3 0 3 3 3600000000000 0 0 1 ${now_ms}000000 216172782117447552 ${#name} $name")"
is_healed() {
    [[ $(item sluice:pledges SET#ffffffffffffffffffffffffffffffff) = '{}' ]]
}
begin
clock 2026-03-10T00:31:00Z
check 'an old one is found behind two megabytes of young ones' until_ is_healed
check 'which stay' has "$(item sluice:pledges "SET#$(printf '%032x' 110)")" rows
shim '{"flush":true}'
shim '{}'
end_by TERM

# ---- too late, before anything was taken ----

begin 1s
clock 2026-03-10T00:30:00Z
ask_for eve /steps ',"org":"eve"'
check 'a set in steps' until_ all_healed
shim '{"hold":1500,"only":"PutItem"}'
ask_for u1 /steps ',"org":"u1"'
check 'a request that waits too long for its journal is refused' has "$out" '"status":503'
check 'and it goes, long before it is old' until_ all_healed
check 'nothing was taken' test "$(left u1)" = '3 3 50 3'
shim '{"fail":2,"after":1,"only":"UpdateItem","type":"ThrottlingException","hold":600}'
ask_for u2 /steps ',"org":"u2"'
shim '{}'
check 'throttled at a row until it is too late' has "$out" '"status":503'
check 'and undone' until_ all_healed
check 'to the unit' test "$(left u2)" = '3 3 50 3'
end_by TERM

# ---- those that may not look ----

begin
clock 2026-03-10T00:30:00Z
ask_for fay /steps ',"org":"fay"'
check 'a set in steps' until_ all_healed
shim '{"fail":9999,"only":"Query","type":"AccessDeniedException"}'
check 'keys that may not query: it is said' until_ grep -q \
    'access denied; .*Query.* (400 AccessDeniedException' "$log"
ask_for fay /steps ',"org":"fay"'
check 'and others go on' has "$out" '"allowed":true'
shim '{}'
end_by TERM

# ---- rows that go before their set is healed ----

killed kim /dated 6
check 'told, and killed' grep -q '"allowed":true' told.kim
begin
clock 2026-03-10T00:30:10Z
tell /v1/keys/tenant/kim -X DELETE
check 'the row that decides is reset' test "$code" = 200
clock 2026-03-10T00:31:00Z
check 'before it is healed' until_ all_healed
check 'what was told stays taken, but for that' test "$(left kim)" = '3 2 49 3'
check 'and no row is marked' test -z "$(rows | grep marked)"
tell /v1/keys/tenant/kim -X DELETE
check 'then a reset takes the row away' test -z "$(rows | grep tenant:org:kim)"
end_by TERM

killed leo /dated 6
check 'told, and killed' grep -q '"allowed":true' told.leo
operation DeleteItem "{\"TableName\":\"$table\",\"Key\":{
    \"userId\":{\"S\":\"sluice:test:tenant:org:leo\"},
    \"dataType\":{\"S\":\"RATE_LIMIT#$((now_ms - 1800000))\"}}}" >/dev/null
check 'a row that has expired' test -z "$(rows | grep tenant:org:leo)"
killed mia /steps 6
check 'killed before all was taken' test ! -s told.mia
begin
clock 2026-03-10T02:31:00Z
check 'two hours later' until_ all_healed
check 'what was told stays taken' test "$(left leo)" = '3 2 50 3'
check 'a level never expires: not taken, and undone' test \
    "$(left mia)" = '3 3 50 3'
end_by TERM

finish
