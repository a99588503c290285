#!/usr/bin/env bash
# scale.sh -- a unit with a scale: seconds are counted, minutes are shown; in
# meters, credits, exports, imports and events.

# shellcheck source=test/support/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"

cat >p.yaml <<'EOF'
sluice: 1
plans: { default: free, free: {}, pro: { overage: true } }
limits:
  talk:
    kind: quota
    per: org
    unit: { name: minutes, of: 60, reports: seconds }
    rate: 120/month
routes:
  - { job: call, limits: [talk] }
default: [talk]
EOF
sed 's/of: 60/of: 3600/' p.yaml >other.yaml
sed 's/120\/month/200\/month/' p.yaml >more.yaml

start_virtual -c p.yaml --threads 1 --store memory: --usage sqlite:./u.db
clock 2026-11-15T12:00:00Z

call() {
    ask /v1/check -d "{\"job\":\"call\",\"org\":\"$1\",\"cost\":$2}"
}

meter() {
    ask "/v1/usage/org/$1?limit=talk&days=${2-0}"
}

# numbers [exact]: used, remaining and overage of the meter in $out.
numbers() {
    python3 -c '
import json, sys
meter = json.loads(sys.argv[1])["meters"][0]
for of in (meter, meter["exact"]):
    print(of["used"], of["remaining"], of["overage"], end=" ")' "$out"
}

# ---- the table of the guide ----

tell /v1/subjects/org/turn -X PUT -d '{"plan":"pro"}'
steps=0
while IFS='|' read -r _ step used left over exact_used exact_left exact_over _; do
    read -r what amount <<<"$step"
    case $what in
    report) report "{\"org\":\"turn\",\"limit\":\"talk\",\"amount\":$amount}" ;;
    refund) report "{\"org\":\"turn\",\"limit\":\"talk\",\"amount\":$amount,\"release\":true}" ;;
    check) call turn "$amount" ;;
    esac
    code_then=$code
    meter turn
    want="$used$left$over$exact_used$exact_left$exact_over"
    check "$what $amount seconds" [ "$code_then $(numbers)" = "200${want//  / }" ]
    steps=$((steps + 1))
done < <(sed -n '/^| seconds | used/,/^$/p' "$root/docs/guide/usage.md" | sed 1,2d | grep '^|')
check 'the guide has a table' [ "$steps" -ge 8 ]

# ---- thresholds ----

until_ said '"reached":"100%"'
check 'thresholds are of the exact numbers' said '"event":"usage","limit":"talk","scope":"org","reached":"80%","used":"7200 of 7200"'
curl -sN -H 'Last-Event-ID: 0' "http://$admin/v1/events" >events 2>/dev/null &
running+=($!)
check 'an event has both' until_ grep -qsF '"mark":100,"used":120,"of":120,"exact":{"unit":"seconds","scale":60,"used":7200,"of":7200}' events

# ---- meters ----

report '{"org":"acme","limit":"talk","amount":301}'
exact='"exact":{"unit":"seconds","scale":60,"used":301,"limit":7200,"remaining":6899,"overage":0,"credited":0,"credits":0}'
check 'the answer to a report has both' has "$out" "$exact"
check 'and the unit of the policy' has "$out" '"unit":"minutes"'
meter acme 30
check 'a meter has both' has "$out" "\"used\":6,\"limit\":120,\"remaining\":114,\"share\":4,\"overage\":0,\"credited\":0,\"credits\":0,$exact"
check 'and the days' has "$out" '"days":[{"day":"2026-11-15","used":6,"overage":0,"exact":{"used":301,"overage":0}}]'
ask '/v1/usage/org/acme?format=csv'
check 'the CSV of days is exact' has "$out" talk,2026-11-15,301,0
run "$sluice" usage org acme --url "http://$http"
check 'the command shows minutes' has "$out" '6 of 120 minutes'
call acme 1
check 'a verdict has both' has "$out" '"exact":{"unit":"seconds","scale":60,"limit":7200,"burst":7200,"remaining":6898}'
ask /v1/check -d '{"job":"call","org":"acme","cost":100,"hold":"1m"}'
hold=$(member hold | tr -d '"')
ask "/v1/holds/$hold/settle" -d '{"cost":38}'
check 'so has a settled hold' has "$out" '"held":100,"cost":38,"remaining":114,"exact":{"unit":"seconds","scale":60,"remaining":6860}'

# ---- credits ----

tell /v1/credits/org/acme -d '{"limit":"talk","amount":10}'
check 'credits are given in minutes' answers 200
tell /v1/credits/org/acme
check 'and listed so' has "$out" '"amount":10,"unused":10,"exact":{"scale":60,"amount":600,"unused":600}'
report '{"org":"acme","limit":"talk","amount":6861}'
meter acme
check 'the first second beyond is credited' has "$out" '"remaining":0,"share":100,"overage":0,"credited":1,"credits":9,"exact":{"unit":"seconds","scale":60,"used":7201,"limit":7200,"remaining":0,"overage":0,"credited":1,"credits":599}'
call acme 599
check 'decisions count the seconds of credits' has "$out" '"allowed":true'
call acme 1
check 'and no more' has "$out" '"allowed":false'
tell /v1/credits/org/acme -d '{"limit":"talk","amount":150119987579017}'
check 'credits beyond 2^53 seconds are refused' has "$out" 'the maximum of \"talk\" is 150119987579016 minutes'

# ---- exports and imports ----

ask '/v1/usage/export?from=2026-11-01&to=2026-12-01'
rows=$out
check 'an export is exact' has "$out" '"limit":"talk","unit":"seconds","included":7200,"used":7800,"overage":0,"credited":600,'
check 'with its scale' has "$out" '"as_of":"2026-11-15T12:00:00.000Z","scale":60}'
ask '/v1/usage/export?format=csv'
check 'so is CSV' has "$out" 'acme,,free,talk,seconds,7200,7800,0,600,'
printf '%s\n' "$rows" >rows.ndjson
run "$sluice" usage import rows.ndjson --admin-url "http://$admin"
check 'it can be imported, and changes nothing' has "$out" 'imported 2 rows, 0 of them changed'
printf '{"org":"acme","limit":"talk","used":7,"unit":"pages"}\n' >rows.ndjson
run "$sluice" usage import rows.ndjson --admin-url "http://$admin"
check 'pages cannot' has "$err" 'limit "talk" has the unit "seconds", not "pages"'

# ---- reloads ----

tell /v1/policy --data-binary @other.yaml
check 'another scale is refused' has "$out" 'in units of 60 seconds in the active policy, and in units of 3600 seconds in the new policy'
call acme 1
check 'and the policy stays' has "$out" '"allowed":false'
tell /v1/policy --data-binary @more.yaml
check 'another rate is not' has "$out" 'talk free 120/month -> 200/month; usage kept'
call acme 4200
check 'and is in minutes' has "$out" '"limit":200,"burst":200,"remaining":0,'
stop
finish
