#!/usr/bin/env bash
# two.sh -- two daemons on one PostgreSQL: what one is told the other knows.

# shellcheck source=test/postgres/postgres.sh
. "$(dirname "${BASH_SOURCE[0]}")/postgres.sh"

# ---- the first daemon makes the tables ----

launch "$sluiced" "${listeners[@]}" -c p.yaml --threads 1 --store memory: \
    --usage "$SLUICE_TEST_POSTGRES"
first=$pid first_log=$log
one
check 'two that start at once do not meet' alive "$pid"
log=$first_log
until_ said '"event":"serving"'
check 'nor does the other' said '"event":"serving"'
kill "$first"
until_ gone "$first"
check 'there is one of each version' \
    test "$(sql 'SELECT count(*) - max(number) FROM sluice.tables_version')" = 0
stop

# ---- one tells, the other knows ----

both

# knows MEMBER...: what b decides for ann has all of them.
knows() {
    local word

    fetch "http://$b_http/v1/check" -d \
        '{"method":"GET","path":"/x","user":"ann"}'
    for word; do
        [[ $out = *"$word"* ]] || return 1
    done
}

# An entry lives for five seconds. A daemon that knows of a change sooner was told. A
# machine that is slow has some attempts: told UNDO DO WORD... does DO until it
# is known soon, and UNDO before it is tried again.
soon() {
    local begin=${EPOCHREALTIME/./}

    until_ "$@" || return 1
    (((${EPOCHREALTIME/./} - begin) < 4000000))
}
told() {
    local try

    for try in 1 2 3 4 5; do
        ((try == 1)) || { "$1" && sleep 6; }
        "$2"
        ! soon knows "${@:3}" || return 0
    done
    return 1
}
ann() {
    fetch "http://$a_admin/v1/subjects/user/ann" "$@"
}
pro() {
    ann -X PUT -d '{"plan":"pro"}'
}
override() {
    ann -X PATCH -d '{"overrides":{"api":"7/min"}}'
}
remove() {
    ann -X DELETE
}

fetch "http://$a_admin/v1/subjects/user/bob" -X PUT -d '{"plan":"free"}'
check 'a subject is registered' answers 200
check 'and the other looks for others, too' until_ knows '"plan":"free"'
check 'a plan is known to the other at once' \
    told remove pro '"plan":"pro"' '"limit":50'
check 'an override too' told pro override '"limit":7'
check 'and that it is gone' told pro remove '"limit":5,'

# Each asks for another user: no limit is used up by asking.
asked=0
switched() {
    fetch "http://$b_http/v1/check" -d \
        '{"method":"GET","path":"/ai","user":"looker'$((asked += 1))'"}'
    [[ $out = *"\"status\":$1"* ]]
}

check 'a feature is on' switched 200
fetch "http://$a_admin/v1/features/assistant" -X PUT -d '{"enabled":false}'
check 'it is switched off by one' answers 200
check 'and off at the other' until_ switched 503
fetch "http://$a_admin/v1/features/assistant" -X DELETE
check 'and as the policy says again' until_ switched 200

# ---- the same usage ----

check 'both report' test "$(send 0 400 "$a_http" "$b_http")" = 400
check 'and all of it is recorded' test "$(used)" = 400
check 'by day, too' test "$(days)" = 400
check 'the same again, the other way round' \
    test "$(send 0 400 "$b_http" "$a_http")" = 400
check 'is recorded once' test "$(used)" = 400
fetch "http://$b_http/v1/usage/org/acme"
check 'each reads what both have reported' has "$out" '"used":400'

# ---- without notifications, and after that ----

sql "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
     WHERE application_name = 'sluiced'" >/dev/null
# The first write may still meet a connection that has ended: 503, and nothing
# was changed.
pro_again() {
    pro
    answers 200
}
check 'connections that were ended are opened again' until_ pro_again
check 'and what was missed is found' until_ knows '"plan":"pro"'

# ---- secrets ----

hides() {
    [[ $err != *"$1"* ]]
}

stop
start -c p.yaml --store memory: \
    --usage "postgres://ann:hunter2@127.0.0.1:1/x?connect_timeout=2"
check 'a server that is not there is said' has "$err" '127.0.0.1:1/x'
check 'and the daemon starts without it' said '"event":"serving"'
check 'the password is not said' hides hunter2
finish
