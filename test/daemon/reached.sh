#!/usr/bin/env bash
# reached.sh -- usage of a killed daemon reaches thresholds when the next one
# records it: event, note, log line and count are those of live usage, once.
# daemon-leave_journal (the fourth argument) writes the journal of a killed one.

leave=$(realpath "$4")
# shellcheck source=test/support/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"

background dest.log python3 "$here/destination.py" port hits
until_ test -s port
dest=http://127.0.0.1:$(<port)
: >>hits
cat >p.yaml <<'EOT'
sluice: 1
limits:
  minutes: { kind: quota, per: org, rate: 10/month, thresholds: [100%] }
default: []
routes: [{ job: transcribe, limits: [minutes] }]
webhooks: { destination: unlimited, allow: [127.0.0.0/8], insecure: true, operator: ops }
EOT
past_midnight

begin() {
    start -c p.yaml --threads 2 --store memory:./state \
        --usage "${SLUICE_TEST_POSTGRES:-sqlite:./u.db}" --journal ./journal
}

endpoint() {
    ask /v1/webhooks/endpoints -d "{\"org\":\"$1\",\"url\":\"$dest$2\",\"contact\":true}"
}

# has_notes PATH N: it got so many.
has_notes() {
    [[ $(grep -F "\"path\": \"$1\"" hits | grep -cF usage.exhausted) = "$2" ]]
}

reached() {
    grep -cF '"event":"usage","limit":"minutes","scope":"org","reached":"100%"' "$log"
}

begin
endpoint org-1 /contact
endpoint ops /ops
check 'there are contacts' answers 201
stop
rm -f journal
"$leave" journal 3 10
begin
check 'three lines are found' said '"lines":"3"'
check 'each is told to the operator' until_ has_notes /ops 3
check 'one to its organisation' until_ has_notes /contact 1
check 'with its numbers' has "$(grep -F '"/contact"' hits)" \
    '{\"org\":\"org-1\",\"limit\":\"minutes\",\"scope\":\"org\",\"id\":\"org-1\",\"mark\":100,\"used\":10,\"of\":10}'
check 'each is logged' test "$(reached)" = 3
check 'and counted' test "$(metric sluice_usage_marks_total)" = 3
curl -sN --max-time 5 -H 'Last-Event-ID: 0' "http://$admin/v1/events" >ev 2>ev.err
check 'and an event' test "$(grep -c '^event: usage' ev)" = 3
end_by KILL
begin
report '{"org":"live","limit":"minutes","amount":10}'
told=4
check 'live usage is told, too' until_ has_notes /ops 4
check 'and nothing of before again' test "$(metric sluice_usage_marks_total)" = 1
check 'nor to the organisation' has_notes /contact 1

# Reports are recorded before the daemon serves. It has looked up the plan of the
# organisation: without one they are judged by the plan of the next record.
if [[ ${SLUICE_TEST_POSTGRES-} ]]; then
    report '{"org":"late","limit":"minutes","amount":4}'
    "$POSTGRES_CTL" kill
    report '{"org":"late","limit":"minutes","amount":6,"idempotency_key":"a"}'
    check 'without the database a report is kept' answers 202
    end_by KILL
    "$POSTGRES_CTL" start >/dev/null
    begin
    told=5
    check 'the next start tells it' until_ has_notes /ops 5
    check 'and logs it' test "$(reached)" = 1
fi
stop
check 'the daemon ends as asked' is 0

# A start that records usage of six, three of them new, and then fails. What it
# has not recorded by then, the next one records and tells.
rm -f journal
"$leave" journal 6 10
usual=("${listeners[@]}")
listeners=(--listen-http "${dest#http://}" --listen-admin 127.0.0.1:0 --log-format json)
begin
check 'a start whose port is held ends' is 1
logged=$(reached)
listeners=("${usual[@]}")
begin
all_are_logged() {
    (($(reached) + logged == 3))
}
check 'what it has recorded is logged, and the rest by the next start' \
    until_ all_are_logged
check 'no note is repeated' until_ has_notes /ops $((told + 3 - logged))
stop
check 'it ends, too' is 0
finish
