#!/usr/bin/env bash
# erase_restart.sh -- usage that was erased stays erased after a restart, though
# the table in a file goes on counting it: decisions keep their counts, and
# bills, days and months have only what was used since.

# shellcheck source=test/support/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"

cat >p.yaml <<'EOF_POLICY'
sluice: 1
limits:
  minutes: { kind: quota, per: org, rate: 120/month }
  shared: { kind: quota, per: [org, user], rate: 100/day }
  links: { kind: level, per: org, rate: 30 }
routes:
  - { job: transcribe, limits: [minutes] }
  - { job: write, limits: [shared] }
EOF_POLICY

begin() {
    start -c p.yaml --threads 1 --store memory:./state --usage sqlite:./u.db"${1-}"
}

add() {
    report "{\"org\":\"$1\",\"limit\":\"${3-minutes}\",\"amount\":$2}"
}

take() {
    ask /v1/check -d "{\"job\":\"transcribe\",\"org\":\"$1\",\"cost\":$2}"
}

erase() {
    run "$sluice" subject erase org "$1" --admin-url "http://$admin"
}

# billed ORG LIMIT USED: in the bill, in the day and in the month.
billed() {
    local sum="\"used\":$3,\"overage\":0"

    ask /v1/usage/export
    if [[ $2 = minutes ]]; then
        [[ $out =~ \"org\":\"$1\"[^$'\n']*$sum ]] || return 1
    fi
    ask "/v1/usage/org/$1?limit=$2"
    [[ $out =~ \"days\":\[\{\"day\":\"[0-9-]*\",$sum\}\],\"months\":\[\{\"month\":\"[0-9-]*\",$sum\}\] ]]
}

# counts ORG REST: what decisions have left.
counts() {
    take "$1" 0
    has "$out" "\"remaining\":$2,"
}

all_right() {
    check "$1: a report and one more" billed one minutes 10
    check "$1: decisions keep their count" counts one 20
    check "$1: no overage is invented" billed over minutes 70
    check "$1: what was erased twice" billed twice minutes 3
    check "$1: and its count" counts twice 59
    check "$1: decisions" billed checked minutes 7
    check "$1: a reset after the erasure" billed reset minutes 5
    check "$1: decisions begin again, too" counts reset 115
    check "$1: a level" billed one links 2
    check "$1: a hold of before" billed held minutes 4
    check "$1: a refund" billed back minutes 6
    ask '/v1/usage/org:user/one:ann?limit=shared'
    check "$1: of several names" has "$out" '"used":2,"overage":0}],"months"'
    check "$1: others keep all" billed two minutes 50
}

past_midnight # the days are real ones
begin
for org in one two over twice checked reset back; do add "$org" 50; done
add one 40
add over 21
take over 1
take checked 20
add one 9 links
report '{"org":"one","user":"ann","limit":"shared","amount":9}'
ask /v1/check -d '{"job":"transcribe","org":"held","cost":30,"hold":"10m"}'
hold=$(sed -n "s/.*\"hold\":\"\([^\"]*\)\".*/\1/p" <<<"$out")
for org in one over twice checked reset held back; do erase "$org"; done
check 'they are erased' is 0
ask "/v1/holds/$hold/release" -X POST
check "a hold of an erased subject is released" has "$out" released
add one 10
add one 2 links
report '{"org":"one","user":"ann","limit":"shared","amount":2}'
add over 70
add twice 8
erase twice
add twice 3
take checked 7
add held 4
add back 16
report '{"org":"back","limit":"minutes","amount":10,"release":true}'
tell /v1/keys/minutes/reset -X DELETE
add reset 5
end_by KILL

begin
all_right 'after a kill'
stop
check 'it ends' is 0
begin
all_right 'after a stop'
check 'nothing was recorded anew' \
    test "$(grep -c 'only the state had' "$log")" = 0

# A count and its line of the journal are two steps: what the table has beyond
# both is still found.
stop
python3 - <<'EOF_PYTHON'
import sqlite3
db = sqlite3.connect("u.db")
for table in "counters", "days", "months":
    db.execute(f"UPDATE usage_{table} SET used = 8 WHERE id = 'one'"
               " AND limit_name = 'minutes'")
db.commit()
db.close()
EOF_PYTHON
begin
check 'usage since then that only the table has is recorded' \
    said '"limit":"minutes","units":"2"'
check 'to the unit' counts one 20

# ---- the name ----

stop
grep -aqi twice ./u.db* && erased=no || erased=yes
check 'a subject that came back has its name' test "$erased" = no
begin
erase twice
stop
grep -aqi twice ./u.db* && erased=no || erased=yes
check 'and none after its erasure' test "$erased" = yes

# ---- another table ----

begin '?shared'
add over 1
stop
begin
ask /v1/usage/org/over
check 'after sharing the counters are those of the database' \
    counts over 49
stop
begin
check 'and stay so' counts over 49
stop
rm -f state*
begin
check 'a lost table has what the database has' counts one 110
check 'and nothing else' billed one minutes 10
stop
finish
