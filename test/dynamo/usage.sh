#!/usr/bin/env bash
# usage.sh SLUICED SLUICED-TEST SLUICE -- what was used, of limits in DynamoDB:
# the rows themselves are the counters; and with a usage database in SQLite
# beside them, reports, history and thresholds.

# shellcheck source=test/dynamo/dynamo.sh
. "$(dirname "${BASH_SOURCE[0]}")/dynamo.sh"

cat >p.yaml <<'EOF'
sluice: 1
env: test
plans: { default: free, free: {}, premium: {} }
identity: { plan: [subject.plan] }
limits:
  searches: { kind: fixed-window, per: user, rate: { free: 100/hour, premium: 500/hour } }
  minutes: { kind: quota, per: user, rate: 10/day }
  links: { kind: level, per: user, rate: 5 }
  pace: { kind: token-bucket, per: org, rate: 5/min }
routes:
  - { match: /search, limits: [searches] }
  - { match: /minutes, limits: [minutes] }
  - { match: /links, limits: [links] }
default: []
EOF

# begin USAGE
begin() {
    start_virtual -c p.yaml --store "$store" --usage "$1" --deadline 5s &&
        until_ is_ok
}

# meter NAME MEMBER of the last answer
meter() {
    python3 -c 'import json, sys
for meter in json.loads(sys.argv[1])["meters"]:
    if meter["name"] == sys.argv[2]:
        print(meter[sys.argv[3]])' "$out" "$@"
}

dynamo_start
put '{"userId":{"S":"7"},"dataType":{"S":"PROFILE"},"subscriptionTier":{"S":"premium"},"subscriptionExpiry":{"S":"2026-12-31T23:59:59+01:00"}}'

# ---- the rows are the counters ----

begin "$store"
clock 2026-03-10T00:30:00Z
ask_for 7 /search ',"cost":45'
ask_for 7 /minutes ',"cost":3'
ask_for 7 /links
ask /v1/usage/user/7
check 'what was used is read from the rows' test \
    "$(meter searches used) $(meter minutes used) $(meter links used)" = '45 3 1'
check 'of the plan that the same table says' test \
    "$(meter searches plan) $(meter searches limit)" = 'premium 500'
check 'until the window ends' test "$(meter searches reset)" = \
    2026-03-10T01:00:00Z
check 'and of no other user' has "$out" '"id":"7"'
check 'a limit of organisations is not shown for a user' test -z "$(meter pace used)"
ask '/v1/usage/user/7?limit=minutes'
check 'one of them' test "$(meter minutes remaining) $(meter links used)" = '7 '
ask /v1/usage/user/8
check 'a user without usage' test \
    "$(meter searches used) $(meter searches limit)" = '0 100'
ask '/v1/usage/user/7?format=csv'
check 'there is no history' test "$code" = 501
check 'and it is said what would keep one' has "$out" '--usage sqlite:PATH'
report '{"user":"7","limit":"minutes","amount":1}'
check 'nor can usage be reported' test "$code" = 501
run "$sluice" usage user 7 --url "http://$http"
check 'in a terminal' has "$out" '45 of 500'
dynamo_kill
ask /v1/usage/user/7
check 'without the table the answer is marked' has "$out" '"degraded":true'
end_by TERM

# ---- a usage database in SQLite, beside it ----

dynamo_port=0
dynamo_start
begin "sqlite:$folder/books.db"
clock 2026-03-10T00:30:00Z
ask_for ann /minutes ',"cost":2'
report '{"user":"ann","limit":"minutes","amount":5,"idempotency_key":"k1"}'
check 'a report is recorded' has "$out" '"recorded":true'
report '{"user":"ann","limit":"minutes","amount":5,"idempotency_key":"k1"}'
check 'once' has "$out" '"recorded":false'
ask /v1/usage/user/ann
check 'and charged to the row' test "$(meter minutes used)" = 7
ask_for ann /minutes ',"cost":4'
check 'by which requests are decided' has "$out" '"by":"minutes"'
report '{"user":"ann","limit":"minutes","amount":2,"release":true}'
ask_for ann /minutes ',"cost":5'
check 'what is given back goes there, too' has "$out" '"allowed":true'
report '{"user":"ann","limit":"minutes","amount":6}'
ask /v1/usage/user/ann
check 'above the limit it is overage' test \
    "$(meter minutes used) $(meter minutes overage)" = '16 6'
kill -9 "$pid"
wait "$pid" 2>/dev/null
begin "sqlite:$folder/books.db"
clock 2026-03-10T00:40:00Z
ask /v1/usage/user/ann
check 'after a kill both know it' test \
    "$(meter minutes used) $(meter minutes overage)" = '16 6'
check 'with its history' has "$out" '"day":"2026-03-10"'
first=$http
begin "sqlite:$folder/others.db"
clock 2026-03-10T00:40:00Z
ask_for ann /minutes
check 'another daemon, with another database, decides by the same row' has "$out" \
    '"by":"minutes"'
check 'two daemons' test "$first" != "$http"
end_by TERM

finish
