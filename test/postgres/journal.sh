#!/usr/bin/env bash
# journal.sh -- PostgreSQL is away: while a client reports, at a start, and when
# the daemon is killed meanwhile. In the end everything is recorded once.

# shellcheck source=test/postgres/postgres.sh
. "$(dirname "${BASH_SOURCE[0]}")/postgres.sh"

past_midnight
deadline=200ms
sed -i '/^limits:/a\  words: { kind: quota, per: org, rate: { free: 9000/month, pro: 100/month } }' \
    p.yaml

# One thread: each report would send the usage of the checks.
one() {
    start -c p.yaml --threads 1 --store memory:./state \
        --usage "$SLUICE_TEST_POSTGRES" --deadline "$deadline"
}

used_by() {
    sql "SELECT coalesce(sum(used), 0) FROM sluice.usage_counters
         WHERE id = '$1' AND limit_name = 'minutes'"
}

pending() {
    [[ $(metric sluice_usage_journal_pending_units) -gt ${1-0} ]]
}

recorded() {
    [[ $(used_by "$1") = "$2" ]]
}

# failures COUNT: batches were sent in vain so often
failures() {
    [[ $(metric sluice_usage_errors_total) -ge $1 ]]
}

used_some() {
    [[ $(used_by acme) -gt 100 ]]
}

# ---- while a client reports ----

one
background checks python3 "$root/test/daemon/checks.py" "$http" /v1/check \
    '{"job":"transcribe","org":"acme"}' over
checking=$client
background reports python3 "$root/test/daemon/checks.py" "$http" /v1/usage \
    '{"org":"other","limit":"minutes","amount":2,"idempotency_key":"@"}' over
reporting=$client
until_ used_some
"$POSTGRES_CTL" kill
check 'usage is pending' until_ pending 100
check 'and sent again from time to time' until_ failures 4
"$POSTGRES_CTL" start >/dev/null
back() {
    [[ $(used_by acme) -gt $1 ]]
}
check 'it is recorded when the database is back' until_ back "$(used_by acme)"
: >over
wait "$checking" "$reporting"
read -r allowed _ <checks
read -r acknowledged unknown <reports
echo "# $allowed allowed, $acknowledged reports and $unknown unknown"
check 'what was allowed is recorded, once' until_ recorded acme "$allowed"
check 'so is what was reported' until_ recorded other $((2 * acknowledged))
check 'no outcome is unknown' test "$unknown" = 0
check 'no unit is lost' test "$(metric sluice_usage_lost_units_total)" = 0
stop

# ---- each report sends what is there ----

cat >full.yaml <<'EOT'
sluice: 1
plans: { default: free, free: {} }
identity: { plan: [header.x-plan] }
limits:
  links: { kind: level, per: org, rate: 5 }
  things: { kind: level, per: org, rate: 5, on_store_failure: allow }
routes:
  - { job: share, limits: [links] }
  - { job: make, limits: [things] }
default: []
EOT
start -c full.yaml --threads 1 --store memory:./turns --usage \
    "$SLUICE_TEST_POSTGRES" --deadline "$deadline"
"$POSTGRES_CTL" kill
run python3 - "$http" <<'EOT'
import http.client, sys
connection = http.client.HTTPConnection(sys.argv[1], timeout=60)
allowed = 0
for i in range(100):
    for path, body in (
            ("/v1/check", '{"job":"make","org":"turn-%d","plan":"free"}' % i),
            ("/v1/usage", '{"org":"x","limit":"links","amount":1}')):
        connection.request("POST", path, body)
        text = connection.getresponse().read()
        allowed += text.startswith(b'{"allowed":true')
print(allowed)
EOT
check 'with allow levels pass without the database' test "$out" = 100
"$POSTGRES_CTL" start >/dev/null
turns() {
    [[ $(sql "SELECT sum(used) FROM sluice.usage_counters
        WHERE id LIKE 'turn-%'") = 100 ]]
}
check 'and recorded, however often usage was sent in vain' until_ turns
check 'none of it is lost' test "$(metric sluice_usage_lost_units_total)" = 0
stop

# ---- killed, both of them ----

one
report '{"org":"both","limit":"minutes","amount":5}'
check 'a report is recorded' answers 200
tell /v1/features/assistant -X PUT -d '{"enabled":false}'
check 'a feature is switched off' answers 200
for org in both own new; do
    tell "/v1/subjects/org/$org" -X PUT -d '{"plan":"pro"}'
done
tell /v1/subjects/org/own -X PUT \
    -d "{\"plan\":\"pro\",\"anchor\":\"$(date -ud '3 days ago' +%F)\"}"
for org in both own; do
    report "{\"org\":\"$org\",\"limit\":\"words\",\"amount\":90}"
done
check 'organisations have used a part of their plan' has "$out" '"limit":100,'
"$POSTGRES_CTL" kill
report '{"org":"both","limit":"minutes","amount":7,"idempotency_key":"a"}'
check 'without the database it is kept' answers 202
check 'and said to be pending' has "$out" '"recorded":true,"pending":true,'
report '{"org":"both","limit":"minutes","amount":7,"idempotency_key":"a"}'
check 'a repeat, too' answers 202
report '{"org":"both","limit":"minutes","amount":1,"enforce":true}'
check 'one that must fit is not' answers 503
end_by KILL

# ---- a start without the database ----

one
check 'a daemon starts without the database' said '"event":"serving"'
check 'and warns' said 'database unreachable, starting without it'
check 'it has found the reports' said 'usage found in the journal'
ask /v1/check -d '{"path":"/x","user":"ann"}'
check 'it decides' has "$out" '"allowed":true'
report '{"org":"both","limit":"minutes","amount":11}'
check 'it keeps reports' answers 202
report '{"org":"both","limit":"minutes","amount":3,"release":true}'
check 'and refunds' answers 202
for org in both own new new; do
    report "{\"org\":\"$org\",\"limit\":\"words\",\"amount\":60}"
    check "and those of $org, whose plan it does not know" answers 202
done
end_by KILL
one
report '{"org":"both","limit":"minutes","amount":1}'
check 'also after another kill' answers 202
"$POSTGRES_CTL" start >/dev/null
check 'everything is recorded once' until_ recorded both $((5 + 7 + 11 - 3 + 1))
check 'and logged' said 'database reached'
# The rows of an organisation: used and overage.
words() {
    [[ $(sql "SELECT used, overage FROM sluice.usage_counters
        WHERE id = '$1' AND limit_name = 'words'") = "$2" ]]
}
check 'by the plan of the records before' until_ words both '150|50'
check 'in the period of the organisation' until_ words own '150|50'
report '{"org":"new","limit":"words","amount":30}'
check 'or by that of the next one' words new '150|50'
is_off() {
    ask /v1/check -d '{"method":"GET","path":"/ai","user":"cat"}'
    has "$out" '"status":503'
}
check 'the feature is off again' until_ is_off
quota_works() {
    ask /v1/check -d '{"job":"transcribe","org":"both"}'
    has "$out" '"allowed":true'
}
check 'quotas are decided' until_ quota_works
check 'nothing is lost' test "$(metric sluice_usage_lost_units_total)" = 0
stop

# ---- a journal that is full ----

start -c full.yaml --threads 1 --store memory:./full --usage \
    "$SLUICE_TEST_POSTGRES" --deadline "$deadline" --journal './small?size=1MiB'
"$POSTGRES_CTL" kill

# many JOB FROM: a thousand checks of as many organisations
many() {
    python3 -c 'import json, sys
print(json.dumps([{"job": sys.argv[1], "org": "%s-%d" % (sys.argv[1], i),
                   "plan": "free"}
    for i in range(int(sys.argv[2]), int(sys.argv[2]) + 1000)]))' \
        "$1" "$2" >many.json
    ask /v1/check --data-binary @many.json
    allowed=$(($(grep -o '{"allowed":true' <<<"$out" | wc -l)))
}

run python3 - "$http" <<'EOT'
import http.client, sys
connection = http.client.HTTPConnection(sys.argv[1], timeout=60)
codes = []
while len(codes) < 9000 and codes[-1:] != [503]:
    connection.request("POST", "/v1/usage",
        '{"org":"share-%d","limit":"links","amount":1}' % len(codes))
    answer = connection.getresponse()
    answer.read()
    codes.append(answer.status)
print(codes.count(202), codes[-1])
EOT
read -r links last <<<"$out"
echo "# $links fit"
check 'a full journal refuses reports' test "$last" = 503
check 'after some thousand keys' test "$links" -ge 1500
check 'and has lost none' test "$(metric sluice_usage_lost_units_total)" = 0
many make 0
check 'with allow they pass' test "$allowed" = 1000
check 'marked' has "$out" '"degraded":true'
lost=$(metric sluice_usage_lost_units_total)
check 'and are counted as lost' test "$lost" -gt 0
"$POSTGRES_CTL" start >/dev/null
levels() {
    [[ $(sql "SELECT sum(used) FROM sluice.usage_counters WHERE limit_name IN
        ('links', 'things') AND (id LIKE 'share-%' OR id LIKE 'make-%')") = \
        $((links + 1000 - lost)) ]]
}
check 'everything else is recorded' until_ levels
room_again() {
    ask /v1/check -d '{"job":"share","org":"late"}'
    has "$out" '{"allowed":true'
}
check 'then there is room again' until_ room_again
stop

# ---- no file ----

start -c p.yaml --threads 1 --store memory: --usage "$SLUICE_TEST_POSTGRES"
check 'without a file the start warns' said 'usage journal in memory'
check 'of what a kill loses' said 'loses the usage of the last 50 ms'
stop

# ---- not away, but wrong ----

run "$sluiced" -c p.yaml "${listeners[@]}" --store memory: \
    --usage "${SLUICE_TEST_POSTGRES%/*}/nowhere"
check 'a database that does not exist is an error at the start' is 5
check 'with its name' has "$err" 'nowhere'
finish
