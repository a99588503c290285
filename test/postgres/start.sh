#!/usr/bin/env bash
# start.sh -- starts that do not get what they need of the database: it is lost
# after one of its answers, or gone, has no connection left, is a standby, or a row is
# locked. The daemon serves, and everything is recorded once when it is back. An
# error that stays ends the start.
#
#   with-postgres.sh start.sh SLUICED SLUICED-TEST SLUICE

# shellcheck source=test/postgres/postgres.sh
. "$(dirname "${BASH_SOURCE[0]}")/postgres.sh"

one
check 'a first start makes the tables' is -
stop
proxy_start "127.0.0.1:$POSTGRES_PORT"
url="postgres://postgres@$proxy/postgres?sslmode=disable&gssencmode=disable"

# on URL: a start with the state that the last daemon has left.
on() {
    start -c p.yaml --threads 1 --store memory:./state --usage "$1" --deadline 5s
}
without() {
    said 'starting without it'
}
reaches_it() {
    until_ said 'database reached'
}

total=0
recorded() {
    [[ $(used) = "$total" ]]
}

# A report whose answer is lost is sent again with its key.
reports() {
    report '{"org":"acme","limit":"minutes","amount":3,"idempotency_key":"'"$1"'"}'
    answers 202 || answers 200
}

# ---- the database is lost ----

# lose WORD: after each of the first answers, and then with wider steps, until
# two starts have all of their answers.
lose() {
    local away=0 whole=0 n=0

    while ((n < 1000 && whole < 2)); do
        network "$1" "$n"
        on "$url" || break
        whole=$((whole + 1))
        ! without || away=$((away + 1)) whole=0
        reports "$1-$n" || { network pass && until_ reports "$1-$n"; } || break
        total=$((total + 3))
        end_by KILL
        network pass
        n=$((n + 1 + n / 3))
    done
    check "$1: each start has served (answer $n)" test "$whole" = 2
    check "$1: many of them without the database ($away)" test "$away" -ge 8
}

lose after
lose gone # and a new connection is refused
on "$url"
check 'everything is recorded once' until_ recorded
stop
check 'the daemon ends as asked' is 0

# ---- other errors of a role ----

sql 'CREATE ROLE app LOGIN; GRANT ALL ON SCHEMA sluice TO app;
     GRANT ALL ON ALL TABLES IN SCHEMA sluice TO app;
     GRANT ALL ON ALL SEQUENCES IN SCHEMA sluice TO app'
app=${SLUICE_TEST_POSTGRES/postgres@/app@}

# heals WHAT WHY SQL: serves without the database until SQL has run.
heals() {
    check "$1: it starts" on "$app"
    check "$1: without the database" without
    check "$1: it says why" said "$2"
    check "$1: a report is taken" reports "$1"
    total=$((total + 3))
    sql "$3"
    check "$1: later it is reached" reaches_it
    check "$1: and the report recorded" until_ recorded
    stop
}
sql 'ALTER ROLE app CONNECTION LIMIT 0'
heals 'no connection left' 'too many connections for role' \
    'ALTER ROLE app CONNECTION LIMIT -1'
sql 'ALTER ROLE app SET default_transaction_read_only = on'
heals 'a standby' 'in a read-only transaction' \
    'ALTER ROLE app RESET default_transaction_read_only'

# Usage in the journal of a killed daemon, and its subject is locked: a report
# with a key is recorded before the daemon serves.
network cut
on "$url"
check 'without the network it starts, too' without
check 'and takes a report' reports locked
total=$((total + 3))
many_errors() {
    [[ $(metric sluice_subject_errors_total) -gt 60 ]]
}
check 'meanwhile many jobs fail' until_ many_errors
check 'and few lines of the log say so' \
    test "$(grep -c '"registry error"' "$log")" -le 20
end_by KILL
network close
background "$folder/lock" psql -X -q "$SLUICE_TEST_POSTGRES" \
    -c 'BEGIN; LOCK TABLE sluice.usage_counters; SELECT pg_sleep(600)'
locker=$client
locked() {
    [[ $(sql "SELECT count(*) FROM pg_stat_activity
              WHERE wait_event = 'PgSleep'") = 1 ]]
}
check 'a session locks the counters' until_ locked
check 'a start beside it serves' on "$url"
check 'without the database, too' without
kill "$locker"
sql "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
     WHERE wait_event = 'PgSleep'" >"$folder/ended"
check 'when it has ended, the daemon reaches the database' reaches_it
check 'and the report is recorded' until_ recorded
stop

# ---- errors that stay ----

# stays WHAT WHY
stays() {
    on "$app"
    check "$1 ends the start" is 5
    check "$1 is named" has "$err" "$2"
}
sql 'REVOKE SELECT ON sluice.switches FROM app'
stays 'a missing grant' 'permission denied for table switches'
sql 'GRANT SELECT ON sluice.switches TO app; ALTER ROLE app NOLOGIN'
stays 'a role that may not log in' 'not permitted to log in'
sql 'ALTER ROLE app LOGIN'
app=${app/%postgres/nowhere}
stays 'an unknown database' 'database "nowhere" does not exist'
finish
