#!/usr/bin/env bash
# retain.sh -- old rows of the database are deleted, and no others. The numbers
# are those of src/registry/retain.c.

# shellcheck source=test/support/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"

# write_policy RETAIN: a policy with this `retain`.
write_policy() {
    cat >p.yaml <<EOF
sluice: 1
server: { $1 }
limits:
  minutes: { kind: quota, per: org, rate: 100/month }
  words: { kind: quota, per: org, rate: 100/day }
  links: { kind: level, per: org, rate: 30 }
default: [minutes]
EOF
}

books=${SLUICE_TEST_POSTGRES:-sqlite:./books.db}
write_policy 'deadline: 5s'
start_virtual -c p.yaml --threads 1 --store memory: --usage "$books"

# use MONTH-DAY: usage of all limits, on this day of 2026, and a change.
use() {
    clock "2026-$1T12:00:00Z"
    report '{"org":"acme","limit":"minutes","amount":1}'
    report '{"org":"acme","limit":"words","amount":2}'
    report '{"org":"acme","limit":"links","amount":1}'
    tell /v1/features/x -X DELETE
    run "$sluice" subject set org "day-$1" plan= --admin-url "http://$admin"
}

# periods LIMIT: the first days of its periods in the database.
periods() {
    ask /v1/usage/export
    grep -F "\"limit\":\"$1\"" <<<"$out" |
        sed 's/.*"from":"2026-\(.....\)T.*/\1/' | tr '\n' ' '
}

# keeps LIMIT DAYS: its periods are these.
keeps() {
    [ "$(periods "$1")" = "$2" ]
}

# history KIND COUNT: the usage of acme has so many days or months of minutes.
history() {
    ask '/v1/usage/org/acme?limit=minutes&days=366'
    [ "$(grep -o "\"$1\":\"2026" <<<"$out" | wc -l)" = "$2" ]
}

audits() {
    tell '/v1/audit?limit=1000'
    [ "$(grep -o '"what":"create"' <<<"$out" | wc -l)" = "$1" ]
}

# turn: two minutes later, on the clock.
minutes=0
turn() {
    minutes=$((minutes + 2))
    clock "$(date -u -d "2026-06-15 13:00 UTC +$minutes minutes" +%FT%TZ)"
}

for day in 01-10 02-10 03-10 04-10 05-10 06-10 06-14 06-15; do use "$day"; done
turn
check 'without retain all is kept' keeps minutes '01-01 02-01 03-01 04-01 05-01 06-01 '
check 'also days' keeps words '01-10 02-10 03-10 04-10 05-10 06-10 06-14 06-15 '
check 'and the audit' audits 8
check 'no row was deleted' [ "$(metric sluice_database_expired_rows_total)" = 0 ]

# ---- by age ----

# set_ RETAIN: by a reload.
set_() {
    write_policy "$1"
    tell /v1/policy --data-binary @p.yaml
}
set_ 'deadline: 5s, retain: { usage: 3month, audit: 60d }'
check 'it can be reloaded' answers 200
settled() {
    turn
    "$@"
}
check '(1) older periods are deleted' until_ settled keeps minutes '03-01 04-01 05-01 06-01 '
check '(1) older days' until_ settled keeps words '04-10 05-10 06-10 06-14 06-15 '
check '(1) older rows of the audit' until_ settled audits 4
check '(1) days of the history, with all of a period that stays' until_ settled history day 6
check '(1) and months' until_ settled history month 4
check 'they are counted' test "$(metric sluice_database_expired_rows_total)" -gt 15
ask '/v1/usage/org/acme?limit=links&days=0'
check '(4) a level stays' has "$out" '"used":8,'

# ---- the least that stays ----

ask '/v1/usage/export?rows=1'
cursor=$(field sluice-cursor)
set_ 'deadline: 5s, retain: { usage: 1d, audit: 1d }'
check 'an export has begun' until_ settled audits 1
ask "/v1/usage/export?cursor=$cursor&rows=1000"
check '(3) it shows all of it' has "$out" '"from":"2026-04-01T'
check '(2) the present month and the one before stay' until_ settled keeps minutes '05-01 06-01 '
check '(2) the present day and the one before' until_ settled keeps words '06-14 06-15 '
check '(2) and both months of the history' until_ settled history month 2
check 'rows of the audit go by their age alone' until_ settled audits 1
report '{"org":"acme","limit":"minutes","amount":97}'
check 'the quota goes on' has "$out" '"used":100,'
ask /v1/check -d '{"method":"GET","path":"/","org":"acme"}'
check 'to its end' has "$out" '"allowed":false'

# ---- what a policy can say ----

for one in 'retain: { usage: soon }|a number of days or months, like 90d or 25month' \
    'retain: { usage: 1h }|a number of days or months' \
    'retain: { usage: 0month }|a number of days or months' \
    'retain: { events: 90d }|Valid keys: usage, audit, denials or denial_rows'; do
    write_policy "${one%%|*}"
    run "$sluice" check p.yaml
    check "${one%%|*} is refused" is 3
    check 'with what is valid' has "$out$err" "${one##*|}"
done
write_policy 'retain: { usage: 25months, audit: 400d }'
run "$sluice" check p.yaml
check 'months and days are ages' is 0
stop
finish
