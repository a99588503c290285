#!/usr/bin/env bash
# usage.sh -- what was used: reported, charged, read, told, and still there
# after the daemon was killed.

# shellcheck source=test/support/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"
books=${4-} # ?shared: quotas are leased, and the same holds

cat >p.yaml <<'EOT'
sluice: 1
plans: { default: free, free: {}, pro: { overage: true }, open: {} }
limits:
  minutes:
    kind: quota
    per: org
    unit: minutes
    rate: { free: 120/month, pro: 1200/month, open: unlimited }
    deny: { status: 402 }
  links: { kind: level, per: org, rate: 3, deny: { status: 402 } }
  words: { kind: quota, per: [org, user], rate: 10/day }
  api: { kind: token-bucket, per: user, rate: 5/min }
  slots: { kind: concurrency, per: org, rate: 2 }
  calls: { kind: token-bucket, per: org, rate: 2/s burst 10 }
routes:
  - { job: transcribe, limits: [minutes] }
  - { job: share, limits: [links] }
  - { job: both, limits: [minutes, calls] }
  - { job: write, limits: [words] }
  - { job: call, limits: [calls] }
default: [api]
EOT

# begin WORD...: on the virtual clock, clock noon of a day in November.
begin() {
    start_virtual -c p.yaml --threads 1 ${books:+--deadline 5s} "$@"
}

job() {
    ask /v1/check -d "{\"job\":\"$1\",\"org\":\"$2\"${3-}}"
}

meters() {
    ask "/v1/usage/$1"
}

begin --store memory: --usage "sqlite:./u.db$books"
clock 2026-11-15T12:00:00Z

# ---- reports ----

report '{"org":"acme","limit":"minutes","amount":30,"idempotency_key":"k1"}'
check 'a report is recorded' has "$out" \
    '{"recorded":true,"name":"minutes","kind":"quota","unit":"minutes","plan":"free","scope":"org","id":"acme","used":30,"limit":120,"remaining":90,"share":25,"overage":0,'
report '{"org":"acme","limit":"minutes","amount":30,"idempotency_key":"k1"}'
check 'the same once more is not' has "$out" '{"recorded":false,'
check 'and changes nothing' has "$out" '"used":30,'
report '{"org":"acme","limit":"minutes","amount":31,"idempotency_key":"k1"}'
check 'its key for another amount is refused' answers 409
check 'with what is wrong' has "$out" 'key \"k1\" was used for another report'
job transcribe acme ',"cost":80'
check 'decisions see it' has "$out" '"remaining":10,'
report '{"org":"paced","limit":"calls","amount":4}'
check 'a report shows the state after it' has "$out" '"used":4,"limit":10,"remaining":6,'
check 'when it is full again, too' has "$out" '"reset":"2026-11-15T12:00:02Z","reset_ms":2000,'
check 'and a rate has no overage' has "$out" '"overage":0,'
for _ in 1 2 3; do
    job transcribe often ',"cost":10,"idempotency_key":"once"'
done
report '[{"org":"acme","limit":"minutes","amount":100},
    {"org":"beta","limit":"minutes","amount":1}]'
check 'above the limit it is recorded, too' has "$out" \
    '"used":210,"limit":120,"remaining":0,"share":175,"overage":90,'
check 'and all of an array' has "$out" '"id":"beta","used":1,'
job transcribe acme
check 'the next decision refuses' has "$out" '"status":402,'
check 'by the code of plans' has "$out" '"code":"PLAN_LIMIT_EXCEEDED"'
report '[{"org":"gone","limit":"minutes","amount":1},
    {"org":"acme","limit":"minutes","amount":9,"idempotency_key":"k1"}]'
check 'of an array none is, if one is not' answers 409
meters org/gone
check 'not even the good one' has "$out" '"used":0,'

# ---- what is refused ----

while IFS='|' read -r body want; do
    report "$body"
    check "refused: $want" has "$code $out" "$want"
done <<'EOT'
|400 {"type":"about:blank","title":"Bad Request","status":400,"detail":"the body is empty
{"org":"a","limit":"minute","amount":1}|did you mean \"minutes\"?
{"org":"a","amount":1}|a report needs a \"limit\"
{"limit":"minutes","amount":1}|limit \"minutes\" is per org: add \"org\"
{"org":"a","limit":"words","amount":1}|add \"user\"
{"org":"a","limit":"minutes"}|needs an \"amount\"
{"org":"a","limit":"minutes","amount":-1}|\"release\": true
{"org":"a","limit":"minutes","amount":1.5}|must be a whole number
{"org":"a","limit":"minutes","amount":"1"}|\"amount\" must be a whole number, not a string
{"org":"a","limit":"minutes","amount":1,"amount":1}|\"amount\" is given twice
{"org":"a","limit":"minutes","amonut":1}|did you mean \"amount\"?
{"org":"a","limit":"minutes","amount":1,"name":"x"}|of kind level
{"org":"a","limit":"slots","amount":1}|has permits
[{"org":"a","limit":"minutes","amount":1},7]|report 1: a report must be an object
{"org":"a","limit":"minutes","amount":1|not JSON
EOT
ask /v1/usage -d '{"org":"a","limit":"minutes","amount":1}' \
    -H 'Origin: http://evil.example'
check 'a page on the web may not report' answers 403

# ---- meters ----

meters org/acme
check 'meters' has "$out" '{"scope":"org","id":"acme","meters":[{"name":"minutes"'
check 'with the period' has "$out" \
    '"period_start":"2026-11-01T00:00:00Z","reset":"2026-12-01T00:00:00Z","reset_ms":1339200000'
check 'days' has "$out" '"days":[{"day":"2026-11-15","used":210,"overage":90}]'
check 'and months' has "$out" '"months":[{"month":"2026-11","used":210,'
meters org/often
check 'a check that came three times is there once' has "$out" \
    '"days":[{"day":"2026-11-15","used":10,'
report '{"org":"slow","limit":"minutes","amount":59}'
meters org/slow
check 'at this pace it ends half a day before the month' has "$out" \
    '"exhausted":"2026-11-30T11:'
report '{"org":"slow","limit":"minutes","amount":2,"release":true}'
clock 2026-11-16T12:00:00Z
meters org/slow
check 'and clock a slower one it does not' has "$out" '"exhausted":null'
meters 'org/acme?format=csv'
check 'CSV' has "$out" $'limit,day,used,overage\r\nminutes,2026-11-15,210,90'
check 'says what it is' has "$fields" 'text/csv'
meters 'org/acme?days=0'
check 'no history if none is asked for' test "${out/days/}" = "$out"
meters 'org/acme?limit=links'
check 'one limit alone' test "${out/minutes/}" = "$out"
meters 'org/acme?dyas=3'
check 'a slip in the query' has "$out" 'did you mean \"days\"?'
meters 'org/acme?days=many'
check 'a number that is none' answers 400
meters org
check 'no id' answers 400
report '{"org":"a:b","user":"c","limit":"words","amount":4}'
check 'several names are joined' has "$out" '"scope":"org:user","id":"a%3Ab:c"'
meters 'org:user/a%253Ab:c'
check 'and found' has "$out" '"name":"words","kind":"quota","unit":"","plan":"free","scope":"org:user","id":"a%3Ab:c","used":4,'
report '{"user":"ann","limit":"api","amount":7}'
check 'a bucket is charged, too' has "$out" '"limit":5,"remaining":0,'
ask /v1/check -d '{"path":"/x","user":"ann"}'
check 'and refuses' has "$out" '"by":"api"'

# ---- sluice usage ----

usage() {
    run "$sluice" usage --url "http://$http" "$@"
}

usage org acme
check 'bars' has "$out" \
    'minutes  [####################]  175 %  210 of 120 minutes, 90 overage'
check 'and when it begins anew' has "$out" '         resets 2026-12-01T00:00:00Z'
usage org slow --days 3 --limit minutes
check 'part of a bar' has "$out" '[#########-----------]   47 %  57 of 120 minutes'
check 'by day' has "$out" '2026-11-15 [####################] 57'
usage org slow minutes 3 --key cli-1
check 'a report' has "$out" '   50 %  60 of 120 minutes'
usage org slow minutes 3 --key cli-1
check 'that is sent twice' has "$out" '   50 %  60 of 120 minutes'
usage org slow -o json
check 'JSON' has "$out" '"used":60,"limit":120'
usage org slow minutes
check 'half a report is none' is 2
usage org slow minutes some
check 'nor is one of no number' is 2
usage planet earth
check 'nothing is kept per planet' has "$err" 'the policy has no limit per planet'
usage org slow none 3
check 'what the daemon refuses is told' has "$err" 'has no limit'

# ---- plans ----

tell /v1/subjects/org/rich -X PUT -d '{"plan":"pro"}'
report '{"org":"rich","limit":"minutes","amount":1190}'
job transcribe rich ',"cost":30'
check 'with overage requests go on' has "$out" '"allowed":true,"status":200,'
check 'it is marked as overage' has "$out" '"overage":true'
check 'and nothing is left' has "$out" '"X-Org-Quota-Remaining":"0"'
meters org/rich
check 'billable units are counted' has "$out" '"used":1220,"limit":1200,"remaining":0,"share":101,"overage":20,'
report '{"org":"mover","limit":"minutes","amount":295}'
check 'units beyond the quota are overage' has "$out" '"used":295,"limit":120,"remaining":0,"share":245,"overage":175,'
tell /v1/subjects/org/mover -X PUT -d '{"plan":"pro"}'
report '{"org":"mover","limit":"minutes","amount":905}'
check 'of the old plan alone, after a change' has "$out" '"used":1200,"limit":1200,"remaining":0,"share":100,"overage":175,'
job transcribe mover ',"cost":5'
meters org/mover
check 'and then of the new one' has "$out" '"used":1205,"limit":1200,"remaining":0,"share":100,"overage":180,'
tell /v1/subjects/org/mover -X PUT -d '{"plan":"free"}'
report '{"org":"mover","limit":"minutes","amount":1}'
check 'what was included stays included' has "$out" '"used":1206,"limit":120,"remaining":0,"share":1005,"overage":181,'
tell /v1/subjects/org/wide -X PUT -d '{"plan":"open"}'
job transcribe wide ',"cost":77'
report '{"org":"wide","limit":"minutes","amount":3}'
check 'what has no limit is counted as well' has "$out" \
    '"plan":"open","scope":"org","id":"wide","used":80,"limit":null,'
job transcribe wide ',"cost":20,"hold":"1h"'
check 'and held' has "$out" '"hold":"'
ask "/v1/holds/$(member hold | tr -d '"')/settle" -d '{"cost":5}'
check 'with no end to what remains' has "$out" '"name":"minutes","held":20,"cost":5,"remaining":null,"over":false'
job both wide ',"cost":8,"hold":"1h"'
ask "/v1/holds/$(member hold | tr -d '"')/settle" -d '{"cost":7}'
check 'also beside a limit' has "$out" '"held":8,"cost":7,"remaining":null,'
report '{"org":"wide","limit":"minutes","amount":2,"release":true}'
check 'what was used of it is recorded' has "$out" '"used":90,"limit":null,'
tell /v1/subjects/org/wide -X PUT -d '{"plan":"free"}'
job transcribe wide ',"cost":31'
check 'a later plan knows all of it' has "$out" '"status":402'
job transcribe wide ',"cost":30'
check 'to the last unit' has "$out" '"remaining":0,'
report '{"org":"wide","limit":"minutes","amount":1}'
check 'and nothing else was overage' has "$out" '"used":121,"limit":120,"remaining":0,"share":100,"overage":1,'
tell /v1/subjects/org/vast -X PUT -d '{"plan":"open"}'
report '{"org":"vast","limit":"minutes","amount":9007199254740991}'
job both vast ',"cost":8'
check 'a counter that is full denies nothing' has "$out" '"allowed":true'
job both vast ',"cost":8'
check 'and lifts no other limit' has "$out" '"by":"calls"'

# ---- credits ----

credit() {
    tell "/v1/credits/org/$1" -d "$2" -H 'X-Sluice-By: ops'
}

report '{"org":"lucky","limit":"minutes","amount":120}'
job transcribe lucky
check 'the quota is used up' has "$out" '"status":402'
credit lucky '{"limit":"minutes","amount":10,"expires":"2026-11-20","note":"sorry"}'
check 'a credit is given' has "$out" '{"number":1}'
credit lucky '{"limit":"minutes","amount":5}'
job transcribe lucky ',"cost":12'
check 'and lets requests pass' has "$out" '"allowed":true'
meters org/lucky
check 'which is no overage' has "$out" \
    '"used":132,"limit":120,"remaining":0,"share":110,"overage":0,"credited":12,"credits":3,'
tell /v1/credits/org/lucky
check 'the first to expire goes first' has "$out" \
    '{"number":1,"limit":"minutes","amount":10,"unused":0,"expires":"2026-11-21T00:00:00Z","expired":false,"note":"sorry","by":"ops"'
job transcribe lucky ',"cost":4'
check 'no more than there are' has "$out" '"status":402'
job transcribe lucky ',"cost":3'
check 'but all of them' has "$out" '"allowed":true'
job transcribe lucky
check 'then it ends' has "$out" '"status":402'
credit lucky '{"limit":"minutes","amount":7}'
job transcribe lucky ',"cost":2'
check 'until there are more' has "$out" '"allowed":true'
meters org/lucky # so that it is written
tell /v1/credits/org/lucky/3 -X DELETE
check 'one is taken away' has "$out" '{"removed":true}'
job transcribe lucky
check 'with what was left of it' has "$out" '"status":402'
tell /v1/credits/org/lucky/3 -X DELETE
check 'once' answers 404
report '{"org":"late","limit":"minutes","amount":200}'
credit late '{"limit":"minutes","amount":5}'
job transcribe late ',"cost":6'
check 'credits after an overrun are no more than granted' has "$out" '"status":402'
job transcribe late ',"cost":3'
check 'but let requests pass' has "$out" '"allowed":true'
report '{"org":"late","limit":"minutes","amount":40,"release":true}'
job transcribe late ',"cost":3'
check 'a refund of the overrun makes them no more' has "$out" '"status":402'
job transcribe late ',"cost":2'
check 'and no fewer' has "$out" '"allowed":true'
meters org/late
check 'the overrun stays overage' has "$out" \
    '"used":165,"limit":120,"remaining":0,"share":137,"overage":40,"credited":5,"credits":0,'
credit lucky '{"limit":"links","amount":7}'
check 'credits are for quotas' has "$out" 'credits are for quotas'
credit lucky '{"limit":"minuts","amount":7}'
check 'of the policy' has "$out" 'has no limit \"minuts\"'
credit lucky '{"limit":"minutes","amount":0}'
check 'with an amount' has "$out" 'must be a whole number of at least 1'
credit lucky '{"limit":"minutes","amount":1,"till":"x"}'
check 'and no other members' has "$out" 'a credit may only have limit, amount, expires and note'
credit lucky '{"limit":"minutes","amount":1,"expires":"soon"}'
check 'and a time that is one' answers 400

# ---- levels ----

for name in a b a; do
    report "{\"org\":\"acme\",\"limit\":\"links\",\"name\":\"$name\"}"
done
check 'a thing is counted once' has "$out" '{"recorded":false,"name":"links","kind":"level","unit":"","plan":"free","scope":"org","id":"acme","used":2,'
job share acme
check 'decisions see it' has "$out" '"remaining":0,'
report '{"org":"acme","limit":"links","name":"c","enforce":true}'
check 'what does not fit is refused' answers 402
check 'with its numbers' has "$out" '\"links\" of acme has used 3 of 3'
report '{"org":"acme","limit":"links","name":"a","release":true}'
report '{"org":"acme","limit":"links","name":"a","release":true}'
check 'gone is gone, once' has "$out" '"used":2,'
report '{"org":"acme","limit":"links","name":"c","enforce":true}'
check 'then there is room' has "$out" '{"recorded":true,'
job share acme
check 'and no more' has "$out" '"status":402'

# ---- metrics ----

tell /metrics
check 'metrics' has "$out" 'sluice_usage_lost_units_total 0'
check 'marks that were crossed' grep -Eq 'sluice_usage_marks_total [1-9]' \
    <<<"$out"
check 'in the log' said '"event":"usage","limit":"minutes","scope":"org","reached":"80%"'
check 'the next one' said '"event":"usage","limit":"minutes","scope":"org","reached":"100%","used":"210 of 120"'
curl -sN -H 'Last-Event-ID: 0' "http://$admin/v1/events" >ev 2>/dev/null &
running+=($!)
check 'and as events' until_ grep -qs \
    '"limit":"minutes","scope":"org","id":"acme","mark":100,"used":210,"of":120' ev
check 'once each' test \
    "$(grep -c '"limit":"minutes","scope":"org","id":"acme","mark":80,' ev)" = 1

stop
check 'it ends well' is 0

# ---- after a kill ----

# The daemon, killed and started again. Its clock stands clock 1970 then.
again() {
    end_by KILL
    begin --store "$1" --usage "sqlite:./k.db$books"
}

# A report with a key, until it is acknowledged; a daemon that does not answer is
# started again.
insist() {
    local i

    for ((i = 0; i < 20; i++)); do
        report "$2"
        [[ $code != 200 ]] || return 0
        again "$1"
    done
    return 1
}

for store in memory: memory:./state; do
    rm -f k.db* state
    begin --store "$store" --usage "sqlite:./k.db$books"
    job transcribe acme ',"cost":7'
    meters org/acme # so that it is written
    job write acme ',"user":"ann","cost":10'
    meters org:user/acme:ann
    for ((i = 0; i < 40; i++)); do
        one="{\"org\":\"acme\",\"limit\":\"minutes\",\"amount\":2,"
        one+="\"idempotency_key\":\"k$i\"}"
        if ((i % 8 == 7)); then # in the middle of it, or not
            curl -s -o /dev/null --max-time 2 "http://$http/v1/usage" \
                -d "$one" &
            sender=$!
            ((i % 16 == 7)) || sleep 0.00$((RANDOM % 10))
            again "$store"
            wait "$sender"
        fi
        insist "$store" "$one"
    done
    again "$store"
    meters org/acme
    check "$store: nothing is lost, and nothing counted twice" has "$out" \
        '"used":87,"limit":120,'
    check "$store: the usage database has the same" has "$out" \
        '"days":[{"day":"1970-01-01","used":87,'
    job transcribe acme ',"cost":34'
    check "$store: what does not fit is refused" has "$out" '"status":402'
    job transcribe acme ',"cost":33'
    check "$store: what is left passes" has "$out" '"remaining":0,'
    job write acme ',"user":"ann"'
    check "$store: a user without anything left is denied" has "$out" '"by":"words"'
    tell /v1/keys/minutes/acme -X DELETE
    again "$store"
    meters org/acme
    check "$store: a reset is remembered, too" has "$out" '"used":0,'
    stop
done

# ---- reports that are recorded before the decisions they follow ----

# A decision is recorded by its thread, up to 50 ms later than a report that
# another thread got after it.
past_midnight
start -c p.yaml --threads 4 ${books:+--deadline 5s} --store memory: \
    --usage "sqlite:./order.db$books"
for i in {1..20}; do
    job transcribe "order$i" ',"cost":110'
    report "{\"org\":\"order$i\",\"limit\":\"minutes\",\"amount\":50}"
done
all_right() {
    for i in {1..20}; do
        meters "org/order$i"
        has "$out" '"used":160,"overage":40}],"months":' || return 1
    done
}
check 'overage does not depend on the order of the records' until_ all_right
stop

# ---- without a usage database ----

begin --store memory: --usage none
report '{"org":"acme","limit":"minutes","amount":1}'
check 'without a usage database there is nothing to report to' answers 501
check 'and it is said how to have some' has "$out" '--usage sqlite:PATH'
job transcribe acme ',"cost":7'
meters org/acme
check 'what limits say can be read' has "$out" '"name":"minutes"'
check 'as far as they know' has "$out" '"days":[]'
meters 'org/acme?format=csv'
check 'but there is no history' answers 501
job call acme ',"cost":7'
meters 'org/acme?limit=calls'
check 'a bucket says what is left of its burst' \
    has "$out" '"used":7,"limit":10,"remaining":3,"share":70,'
check 'and has no period' has "$out" '"period_start":null,'
stop

finish
