#!/usr/bin/env bash
# locks.sh -- another session has locked an organisation: it delays that
# organisation, and no other.

# shellcheck source=test/postgres/postgres.sh
. "$(dirname "${BASH_SOURCE[0]}")/postgres.sh"

# On main all of these wait for two seconds; a busy machine for less.
deadline=500ms

# hold_until FILE SQL...: another session that keeps its locks until then.
hold_until() {
    psql -X -q "$SLUICE_TEST_POSTGRES" >/dev/null < <(
        printf '%s\n' 'BEGIN;' "$2"
        while [[ ! -e $1 ]]; do sleep 0.05; done
        echo 'COMMIT;'
    ) &
    running+=("$!")
    check "another session has locked: $1" until_ is_held
}
is_held() {
    [[ $(sql "SELECT count(*) FROM pg_stat_activity
        WHERE state = 'idle in transaction' AND application_name = 'psql'"
    ) -gt 0 ]]
}

key=0
# reports ORG [AMOUNT]
reports() {
    ask /v1/usage -d "{\"org\":\"$1\",\"limit\":\"minutes\",
        \"amount\":${2-1},\"idempotency_key\":\"l$((key += 1))\"}"
    answers 200
}
# A client that reports usage of acme again and again, until FILE is there.
keep_reporting() {
    while [[ ! -e $1 ]]; do
        curl -s -o /dev/null --max-time 30 "http://$http/v1/usage" \
            -d '{"org":"acme","limit":"minutes","amount":1}'
        pause 0.05
    done &
    running+=("$!")
}
# of_40 COMMAND...: do most of 40 organisations pass? If they wait for the
# lock, about one does; on a busy machine some miss their deadline.
of_40() {
    local i

    passed=0
    for ((i = 0; i < 40; i++)); do
        ! "$@" "org$((key += 1))" || ((passed += 1))
    done
    echo "# $passed of 40"
    ((passed >= 20))
}
checks() {
    ask /v1/check -d "{\"job\":\"transcribe\",\"org\":\"$1\"}"
    [[ $out = '{"allowed":true,'* ]]
}

cat >>p.yaml <<'EOT'
webhooks: { allow: [127.0.0.0/8], insecure: true }
EOT
one
check 'usage is reported' reports acme
before=$(used)

# ---- a row ----

hold_until row "UPDATE sluice.usage_counters SET used = used WHERE id = 'acme';"
keep_reporting reported
slowly() {
    ! reports acme && has "$out" 'another session of the database has locked'
}
check 'a report of the locked organisation fails, and why is said' until_ slowly
check 'checks of others are decided meanwhile' of_40 checks
check 'and their usage is reported' of_40 reports
check 'a check of the locked one does not wait for long' answers 200
: >row
check 'when it is free it is reported again' until_ reports acme
: >reported
good=$(sql "SELECT count(*) FROM sluice.usage_keys WHERE id = 'acme'")
check 'it is recorded' test "$(used)" -ge "$good" -a "$(used)" -gt "$before"
check 'by day, too' test "$(days)" = "$(used)"

# ---- a slot, as by a daemon that is stopped ----

hold_until slots "SELECT pg_advisory_xact_lock(1936487779, slot)
    FROM generate_series(1, 5) AS slot;"
check 'some organisations are locked: others are decided' of_40 checks
check 'and reported' of_40 reports
: >slots

# ---- all slots, as by a daemon that is stopped while it sends ----

# unsynced COUNT: so many sessions have locks, and wait for their clients.
unsynced() {
    [[ $(sql "SELECT count(*) FROM pg_stat_activity WHERE state = 'active'
        AND wait_event = 'ClientRead' AND query = 'SELECT 1'") = "$1" ]]
}
background other.out python3 "$here/unsynced.py" "$POSTGRES_PORT" other
check 'a session of another program has locks of its own' until_ unsynced 1
# The server takes such a session for active, and never ends it by itself.
background unsynced.out python3 "$here/unsynced.py" "$POSTGRES_PORT" slots
check 'a session has locked all, and waits' until_ unsynced 2
check 'the daemon ends it, and reports' until_ reports acme
check 'and it is told' until_ grep -q ended unsynced.out

# ---- a row that is no subject's ----

ask /v1/webhooks/endpoints -d '{"org":"acme","url":"http://127.0.0.1:1/"}'
check 'there is an endpoint of webhooks' answers 201
endpoint=$(sed -n 's/.*"id":"\([^"]*\)".*/\1/p' <<<"$out")
changes() {
    ask "/v1/webhooks/endpoints/$endpoint" -X PATCH -d '{"enabled":false}'
    answers 200
}
background row.out python3 "$here/unsynced.py" "$POSTGRES_PORT" endpoint
check 'a session has locked it, and waits' until_ unsynced 2
check 'the daemon ends that, too' until_ changes
check 'and it is told, too' until_ grep -q ended row.out
check 'that of the other program goes on' unsynced 1

# ---- usage of decisions ----

# One organisation among many whose usage is written together.
admitted=0
decide_many() {
    local i

    for ((i = 0; i < 50; i++)); do
        ! checks "many$i" || ((admitted += 1))
    done
}
decided() {
    [[ $(sql "SELECT sum(used) FROM sluice.usage_counters
        WHERE id LIKE 'many%'") = "$admitted" ]]
}
decide_many
check 'usage of decisions is recorded' until_ decided
hold_until many "UPDATE sluice.usage_counters SET used = used
    WHERE id = 'many7';"
decide_many
check 'all but one are decided' test "$admitted" -ge 95
check 'others are decided while its usage cannot be written' of_40 checks
: >many
check 'when the lock is gone it is recorded, once' until_ decided
sleep 0.5
check 'and not again' decided
stop
check 'it ends as asked' is 0
finish
