#!/usr/bin/env bash
# trouble.sh -- daemons, connections and the server end at any moment, tables
# are locked, the disk is full: what was acknowledged is recorded, and what
# is sent again is there once.

# shellcheck source=test/postgres/postgres.sh
. "$(dirname "${BASH_SOURCE[0]}")/postgres.sh"

at=0 # where the keys of the next reports begin

# during COMMAND...: report from two daemons while it happens; leaves $acked
# and $lost, how much of what was acknowledged is not recorded.
during() {
    local before reports

    before=$(used)
    rm -f begun failed
    send --tell "$at" 400 "$a_http" "$b_http" >acked &
    reports=$!
    until_ test -e begun
    "$@"
    wait "$reports"
    acked=$(<acked)
    until_ sql 'SELECT 1' >/dev/null 2>&1
    lost=$((before + acked - $(used)))
}

# All of it again, until all is acknowledged: then it is there once.
repeat() {
    check "$1: nothing that was acknowledged is lost" test "$lost" -le 0
    check "$1: all of it can be sent again" \
        test "$(send --until-all "$at" 400 "$a_http" "$b_http")" = 400
    at=$((at + 400))
    check "$1: and is recorded once" test "$(used)" = $at
    check "$1: by day, too" test "$(days)" = $at
}

both
during true
check 'without trouble all is acknowledged' test "$acked" = 400
repeat 'no trouble'
kill "$a_pid" "$b_pid"
until_ gone "$a_pid"
until_ gone "$b_pid"
deadline=2s # each outage takes that long before it is known
both

end_sessions() {
    local i

    for i in 1 2 3 4 5; do
        sql "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
             WHERE application_name = 'sluiced'" >/dev/null
        sleep 0.05
    done
}
during end_sessions
repeat 'sessions end'

kill_server() {
    "$POSTGRES_CTL" kill >/dev/null 2>&1
    until_ test -e failed
    "$POSTGRES_CTL" start >/dev/null
}
during kill_server
check 'the server was killed' test "$acked" -lt 400
repeat 'the server is killed'

restart_server() {
    "$POSTGRES_CTL" stop >/dev/null
    "$POSTGRES_CTL" start >/dev/null
}
during restart_server
repeat 'the server is restarted'

kill_daemon() {
    kill -9 "$a_pid"
    one
    a_http=$http a_admin=$admin a_pid=$pid
}
during kill_daemon
repeat 'a daemon is killed'

# ---- while it is away ----

http=$b_http admin=$b_admin
decide() {
    ask /v1/check -d '{"method":"GET","path":"/x","user":"ann"}'
    [[ $out = '{"allowed":true,'* ]]
}
check 'rates are decided' decide
# A quota, by a plan that the registry told, from what is leased.
transcribe() {
    ask /v1/check -d "{\"job\":\"transcribe\",\"org\":\"acme\"$1}"
    [[ $out = '{"allowed":true,'*'"plan":"pro"'* ]]
}
tell /v1/subjects/org/acme -X PUT -d '{"plan":"pro"}'
check 'a plan is known' until_ transcribe ',"cost":0'
check 'a quota is decided' transcribe ',"cost":40'
began=$SECONDS meanwhile=0
"$POSTGRES_CTL" stop >/dev/null
while ((meanwhile < 200)) && transcribe ''; do
    ((meanwhile += 1))
    sleep 0.2
done
check 'from what is leased, without a server, too' \
    test "$meanwhile" -gt 0 -o $((SECONDS - began)) -ge 5
check 'but not for long' has "$out" '"code":"SERVICE_UNAVAILABLE"'
check 'with the plan that was known' has "$out" '"plan":"pro"'
ask /v1/usage -d '{"org":"acme","limit":"minutes","amount":1}'
check 'without a server nothing is acknowledged' answers 503
check 'and that is said' has "$out" 'nothing was recorded'
check 'rates are still decided' decide
tell /livez
check 'and it lives' answers 200
# No request asks the database meanwhile.
is_down() {
    tell /readyz
    [[ $code = 200 && $out = 'degraded: database: down: '* ]] &&
        [[ $(metric sluice_database_up) = 0 ]]
}
is_up() {
    tell /readyz
    [[ $code = 200 && $out = ok ]] && [[ $(metric sluice_database_up) = 1 ]]
}
check 'it is ready, and says that the database is down' until_ is_down
tell /readyz?verbose
check 'in a line of its own' has "$out" '[!] database: down: '
check 'the log says so, too' grep -qF '"event":"database unavailable"' "$log"
"$POSTGRES_CTL" start >/dev/null
check 'without traffic it finds that the server is back' until_ is_up
tell /readyz?verbose
check 'and says so' has "$out" '[+] database: ok'
again() {
    ask /v1/usage -d '{"org":"acme","limit":"minutes","amount":0,
        "idempotency_key":"again"}'
    answers 200
}
check 'when the server is back it is used again' until_ again
at=$((at + 40 + meanwhile))
all_used() {
    [[ $(used) = "$at" ]]
}
check 'and what was decided meanwhile is recorded' until_ all_used

# ---- it goes away while it commits ----

sql "CREATE FUNCTION sluice.slow() RETURNS trigger LANGUAGE plpgsql AS
     'BEGIN PERFORM pg_sleep(60); RETURN NULL; END';
     CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON sluice.usage_keys
     DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.key LIKE 'doubt%')
     EXECUTE FUNCTION sluice.slow()"
commits() {
    [[ $(sql "SELECT count(*) FROM pg_stat_activity
        WHERE wait_event = 'PgSleep'") = 1 ]]
}
# doubt MEMBERS: a report, while it is committed the server goes away.
doubt() {
    until_ again # it is connected
    curl -s -o doubt.out -w '%{http_code}' "http://$http/v1/usage" -d \
        "{\"org\":\"acme\",\"limit\":\"minutes\",\"amount\":3,$1}" >doubt.code &
    report=$!
    until_ commits
    "$POSTGRES_CTL" stop >/dev/null
    wait "$report"
    "$POSTGRES_CTL" start >/dev/null
    until_ sql 'SELECT 1' >/dev/null 2>&1
}
doubt '"idempotency_key":"doubt"'
check 'a write in doubt is not acknowledged' test "$(<doubt.code)" = 503
check 'that it is not known is said' \
    has "$(<doubt.out)" 'it is not known whether the report was recorded; send it'
doubt '"idempotency_key":"doubt"'
check 'also when it comes again' test "$(<doubt.code)" = 503
sql "CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON sluice.usage_credits
     DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION sluice.slow()"
until_ again
curl -s -o doubt.out "http://$admin/v1/credits/org/acme" \
    -d '{"limit":"minutes","amount":5}' &
report=$!
until_ commits
"$POSTGRES_CTL" stop >/dev/null
wait "$report"
"$POSTGRES_CTL" start >/dev/null
until_ sql 'SELECT 1' >/dev/null 2>&1
check 'of a credit it is said, too' \
    has "$(<doubt.out)" 'it is not known whether the change was made'
sql 'DROP TRIGGER slow ON sluice.usage_credits'
sql 'DROP TRIGGER slow ON sluice.usage_keys'
sent_again() {
    ask /v1/usage -d '{"org":"acme","limit":"minutes","amount":3,
        "idempotency_key":"doubt"}'
    answers 200
}
check 'the same again is recorded' until_ sent_again
at=$((at + 3))
check 'once' test "$(used)" = "$at"

# ---- a locked table ----

# holding SQL: another transaction, until $lock is killed.
psql -X -q "$SLUICE_TEST_POSTGRES" >/dev/null 2>&1 < <(
    echo 'BEGIN; LOCK TABLE sluice.usage_counters;'
    sleep 60
) &
lock=$!
locked() {
    [[ $(sql "SELECT count(*) FROM pg_locks WHERE mode = 'AccessExclusiveLock'
        AND relation = 'sluice.usage_counters'::regclass") = 1 ]]
}
check 'a table is locked' until_ locked
ask /v1/usage -d '{"org":"acme","limit":"minutes","amount":1,
    "idempotency_key":"locked"}'
check 'requests do not wait for it for ever' answers 503
kill "$lock"
wait "$lock" 2>/dev/null
check 'when it is free it goes on' until_ again

# ---- a disk that is full ----

sql "CREATE FUNCTION sluice.full() RETURNS trigger LANGUAGE plpgsql AS
     'BEGIN RAISE ''could not extend file: No space left on device''
      USING ERRCODE = ''53100''; END';
     CREATE TRIGGER full_disk BEFORE INSERT ON sluice.usage_keys
     FOR EACH ROW EXECUTE FUNCTION sluice.full()"
ask /v1/usage -d '{"org":"acme","limit":"minutes","amount":1,
    "idempotency_key":"full"}'
check 'what finds no room is not acknowledged' answers 503
check 'and why is said' has "$out" 'No space left on device'
check 'nothing of it is there' test "$(used)" = $at
sql 'DROP TRIGGER full_disk ON sluice.usage_keys'
ask /v1/usage -d '{"org":"acme","limit":"minutes","amount":1,
    "idempotency_key":"full"}'
check 'when there is room it is' answers 200
check 'once' test "$(used)" = $((at + 1))
finish
