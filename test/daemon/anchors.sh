#!/usr/bin/env bash
# anchors.sh -- the billing periods of an organisation: every way in has the
# same ones, they survive a kill, and a change begins a new period.

# shellcheck source=test/support/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"
shared=${4:-}
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

cat >p.yaml <<'EOP'
sluice: 1
plans: { default: free, free: {}, open: {} }
limits:
  minutes:
    kind: quota
    per: org
    unit: minutes
    rate: { free: 120/month, open: unlimited }
  words: { kind: quota, per: [org, user], rate: 10/day }
  hours: { kind: quota, per: org, rate: 5/12h }
routes:
  - { job: transcribe, limits: [minutes] }
  - { job: write, limits: [words] }
  - { job: count, limits: [hours] }
EOP

start_it() {
    start_virtual -c p.yaml --threads 1 ${shared:+--deadline 5s} \
        --store memory:./state --usage "sqlite:./u.db$shared"
}

subject() {
    tell "/v1/subjects/org/$1" -X "${3:-PATCH}" -d "$2"
}

text_is() {
    [[ $out = "$1" ]]
}

# period ORG: "START END" of its meter.
period() {
    ask "/v1/usage/org/$1?limit=minutes&days=0"
    out=$(period_of)
}

period_of() {
    sed -n 's/.*"period_start":"\([^"]*\)","reset":"\([^"]*\)".*/\1 \2/p' \
        <<<"$out"
}

transcribe() {
    ask /v1/check -d "{\"job\":\"transcribe\",\"org\":\"$1\",\"cost\":$2${3:-}}"
}

rows() {
    ask "/v1/usage/export"
    out=$(grep -F "\"org\":\"$1\"" <<<"$out" | grep -F '"limit":"minutes"' |
        sed 's/.*"used":\([0-9]*\),.*"from":"\([^"]*\)","to":"\([^"]*\)","zone":"\([^"]*\)".*/\1 \2 \3 \4/')
}

# has_used UNITS: is so much of acme in the database?
has_used() {
    rows acme
    has "$out" "$1 "
}

start_it
clock 2026-11-15T12:00:00Z

# ---- every way in ----

subject acme '{"anchor":"2026-01-17T09:30:12+01:00"}' PUT
check 'an anchor is accepted' answers 200
check 'and shown in UTC' has "$out" '"anchor":"2026-01-17T08:30:12Z","zone":null,"periods_from":null'
want='2026-10-17T08:30:12Z 2026-11-17T08:30:12Z'
period acme
check 'the meter has the periods of the anchor' text_is "$want"
transcribe acme 20
check 'a decision by route ends with them' has "$out" '"reset_ms":160212000'
ask /v1/check -d '{"limit":"minutes","key":"acme","org":"acme","cost":0}'
check 'one by limit and key' has "$out" '"remaining":100,"reset_ms":160212000'
report '{"org":"acme","limit":"minutes","amount":30}'
check 'a report' has "$out" '"used":50,"limit":120,"remaining":70'
check 'with the period' has "$out" '"period_start":"2026-10-17T08:30:12Z","reset":"2026-11-17T08:30:12Z","reset_ms":160212000'
transcribe acme 80
check 'a denial ends with them' has "$out" '"retry_after_ms":160212000'
rows acme
check 'the export has them' text_is "50 $want UTC"
report '{"org":"acme","user":"ann","limit":"words","amount":1}'
check 'a limit per organisation and user has its own' has "$out" '"period_start":"2026-11-15T00:00:00Z"'
ask /v1/check -d '{"job":"count","org":"acme"}'
check 'and one of twelve hours' has "$out" '"reset_ms":43200000'

subject rich '{"plan":"open","anchor":"2026-01-17T08:30:12Z"}' PUT
transcribe rich 7
rows rich
check 'an unlimited plan has the periods' text_is "7 $want UTC"

# ---- the first of a month does not matter; the anchor does ----

clock 2026-11-17T08:30:11Z
transcribe acme 1
check 'a second before, the period lasts' has "$out" '"remaining":69,"reset_ms":1000'
clock 2026-11-17T08:30:12Z
transcribe acme 1
check 'at the anchor the next one begins' has "$out" '"remaining":119,'
clock 2026-11-30T23:59:59Z
transcribe acme 10 ',"hold":"1h"'
hold=$(member hold | tr -d '"')
clock 2026-12-01T00:10:00Z
period acme
check 'it crosses the end of the month' text_is '2026-11-17T08:30:12Z 2026-12-17T08:30:12Z'
ask "/v1/holds/$hold/settle" -d '{"cost":25}'
check 'a hold that crosses it is settled' answers 200
transcribe acme 0
check 'and nothing is forgotten' has "$out" '"remaining":94,'
rows acme
check 'it is in the period of the hold' text_is "51 $want UTC
26 2026-11-17T08:30:12Z 2026-12-17T08:30:12Z UTC"
clock 2026-12-17T08:30:00Z
transcribe acme 10 ',"hold":"1h"'
hold=$(member hold | tr -d '"')
clock 2026-12-17T08:31:00Z
transcribe acme 3
ask "/v1/holds/$hold/settle" -d '{"cost":14}'
rows acme
check 'what exceeds a hold of the last period is in this one' text_is "51 $want UTC
36 2026-11-17T08:30:12Z 2026-12-17T08:30:12Z UTC
7 2026-12-17T08:30:12Z 2027-01-17T08:30:12Z UTC"
transcribe acme 0
check 'in the table, too' has "$out" '"remaining":113,'

# ---- a restart ----

end_by KILL
start_it
clock 2027-01-03T00:00:00Z
transcribe acme 1
check 'a killed daemon knows the period and its usage' has "$out" '"remaining":112,'

# ---- months without a 31st, zones ----

subject end '{"anchor":"2026-01-31","zone":"Europe/Berlin"}' PUT
clock 2027-02-28T22:59:59Z
period end
check 'the 31st is the last day of a shorter month' text_is '2027-02-27T23:00:00Z 2027-03-30T22:00:00Z'
report '{"org":"end","limit":"minutes","amount":3}'
rows end
check 'in the zone, over a change of the clocks' text_is '3 2027-02-27T23:00:00Z 2027-03-30T22:00:00Z Europe/Berlin'

# ---- changes: the table of the guide ----

table=$root/docs/guide/usage.md
steps=0
clock 2026-10-01T00:00:00Z
while IFS='|' read -r _ at step from to used _; do
    read -r at what value <<<"$at $step"
    read -r from to used <<<"$from $to $used"
    clock "$at"
    [[ $value != none ]] || value=
    case $what in
    use) report "{\"org\":\"turn\",\"limit\":\"minutes\",\"amount\":$value}" ;;
    *) subject turn "{\"$what\":\"$value\"}" ;;
    esac
    code_then=$code
    ask '/v1/usage/org/turn?limit=minutes&days=0'
    check "$at $what $value" [ "$code_then $(period_of) $(member used)" = \
        "200 $from $to $used" ]
    transcribe turn 0
    check '  the decision agrees' [ "$(member remaining)" = $((120 - used)) ]
    steps=$((steps + 1))
done < <(sed -n '/^| at | step | from/,/^$/p' "$table" | sed 1,2d | grep '^|')
check 'the guide has a table of changes' [ "$steps" -ge 15 ]
rows turn
check 'the export has a row for each part' text_is '42 2026-11-01T00:00:00Z 2026-11-17T08:30:16Z UTC
5 2026-11-17T08:30:16Z 2026-12-17T08:30:12Z UTC
3 2026-12-21T00:00:02Z 2026-12-31T00:00:00Z UTC
8 2026-12-17T08:30:12Z 2026-12-21T00:00:02Z UTC
4 2027-02-28T00:00:00Z 2027-03-01T12:00:02Z UTC
6 2027-03-01T12:00:02Z 2027-03-31T04:00:00Z America/New_York
9 2027-03-31T04:00:02Z 2027-04-01T04:00:00Z America/New_York'

# ---- what is refused ----

for one in '{"anchor":"17"}|"17": it is not a date since 1970; write the day' \
    '{"anchor":"2026-11-17T08:30:12.5Z"}|fraction of a second' \
    '{"anchor":"2026-02-30"}|is not a date' \
    '{"anchor":17}|must be a string' \
    '{"zone":"Berlin"}|Unknown time zone' \
    '{"zone":"../etc/passwd"}|Invalid time zone name'; do
    subject bad "${one%%|*}"
    check "${one%%|*} is refused" answers 400
    check 'with what to write' has "${out//\\/}" "${one##*|}"
done

# ---- a change without usage after it ----

quiet_has() {
    rows quiet
    text_is "7 2027-06-01T00:00:00Z $1 UTC"
}

clock 2027-06-05T12:00:00Z
transcribe quiet 7
check 'usage is recorded' until_ quiet_has 2027-07-01T00:00:00Z
clock 2027-06-10T00:00:00Z
subject quiet '{"anchor":"2027-01-31"}'
clock 2027-06-10T00:00:02Z
check 'an ended period has its end without later usage' \
    quiet_has 2027-06-10T00:00:02Z
clock 2027-06-20T00:00:00Z
subject quiet '{"anchor":"2027-01-15"}'
clock 2027-06-20T00:00:02Z
check 'and keeps it after another change' quiet_has 2027-06-10T00:00:02Z
ask /v1/check -d '{"job":"count","org":"quiet"}'
subject quiet '{"anchor":null}'
clock 2027-06-20T00:00:04Z
ask /v1/usage/export
check 'periods of hours have no anchor' has \
    "$(grep -F '"org":"quiet"' <<<"$out" | grep -F '"limit":"hours"')" \
    '"from":"2027-06-20T00:00:00Z","to":"2027-06-20T12:00:00Z"'

# ---- a hold that was settled in the period before ----

was_settled() {
    rows holder
    has "$out" '2 2027-06-17T11:39:39Z'
}

subject holder '{"anchor":"2026-01-17T11:39:39Z"}' PUT
transcribe holder 5 ',"hold":"1h"'
ask "/v1/holds/$(member hold | tr -d '"')/settle" -d '{"cost":2}'
check 'what was held is recorded' until_ was_settled
clock 2027-08-02T00:00:00Z
report '{"org":"holder","limit":"minutes","amount":14}'
check 'a settled hold does not count in the next period' has "$out" \
    '"used":14,"limit":120,"remaining":106,'
transcribe holder 107
check 'nor is it granted once more' has "$out" '"allowed":false'

# ---- the command line, and an import ----

export SLUICE_ADMIN_URL=http://$admin

run "$sluice" subject set org tool anchor=2026-11-05 zone=Asia/Tokyo
check 'the command sets both' is 0
check 'and shows them' has "$out" 'anchor   2026-11-05'
run "$sluice" subject set org tool anchor=
check 'and removes one' [ "$(grep -c anchor <<<"$out")" = 0 ]
printf 'scope,id,anchor,zone\norg,csv,2026-11-09,UTC\n' >s.csv
run "$sluice" subject import s.csv
run "$sluice" subject get org csv
check 'an import sets them' has "$out" 'anchor   2026-11-09'
run "$sluice" subject list --scope org -o json
grep '"id":"csv"' <<<"$out" >back.jsonl
run "$sluice" subject import back.jsonl
check 'what is listed can be imported' has "$out" ' 0 of them new'

stop

# ---- a daemon that has lost its table; by the real clock ----

rm -f state* u.db*
start -c p.yaml --store memory:./state --usage "sqlite:./u.db$shared"
subject acme "{\"anchor\":\"$(date -u -d '-3 days' +%F)T08:30:12Z\"}" PUT
report '{"org":"acme","limit":"minutes","amount":20}'
transcribe acme 7
until_ has_used 27
end_by KILL
rm -f state*
start -c p.yaml --store memory:./state --usage "sqlite:./u.db$shared"
transcribe acme 1
check 'without its table a daemon restores the period' has "$out" '"remaining":92,'

stop
finish
