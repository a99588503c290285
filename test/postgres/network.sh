#!/usr/bin/env bash
# network.sh -- connections that die without a word: the network drops bytes and
# keeps the sockets, daemons are stopped. The server does not keep what a lost
# connection has locked, and the daemon does not wait for it.

# shellcheck source=test/postgres/postgres.sh
. "$(dirname "${BASH_SOURCE[0]}")/postgres.sh"

# By the proxy.
far=
over_proxy() {
    start -c p.yaml --threads 1 --store memory: --usage "$far" \
        --deadline 5s
}

proxy_start "127.0.0.1:$POSTGRES_PORT"
far="postgres://postgres@$proxy/postgres"

key=0
reports() {
    ask /v1/usage -d "{\"org\":\"${1-acme}\",\"limit\":\"minutes\",\"amount\":1,
        \"idempotency_key\":\"n$((key += 1))\"}"
    answers 200
}
# What is sent until it is acknowledged is recorded once.
reports_key() {
    ask /v1/usage -d "{\"org\":\"acme\",\"limit\":\"minutes\",\"amount\":1,
        \"idempotency_key\":\"$1\"}"
    answers 200
}
in_transaction() {
    [[ $(sql "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'
        AND classid = 1936487779") -gt 0 ]]
}
nothing_open() {
    ! in_transaction
}

# open_transaction KEY: a report whose transaction is open at the server, and
# whose answers are on the way.
open_transaction() {
    network hold
    background "$folder/report" curl -s -o report.out -w '%{http_code}' \
        --max-time 60 "http://$http/v1/usage" -d "{\"org\":\"acme\",
        \"limit\":\"minutes\",\"amount\":1,\"idempotency_key\":\"$1\"}"
    until_ in_transaction
}

# ---- the network is cut for a second, and all sockets stay open ----

over_proxy
check 'usage is reported' reports_key a
leases() {
    ask /v1/check -d "{\"job\":\"transcribe\",\"org\":\"new$((key += 1))\"}"
    [[ $out = '{"allowed":true,'* ]]
}
check 'and leased' leases

# again_soon: the network fails while a transaction is open, and is back after a
# second: the daemon is back within three seconds. A machine that is slow has some
# attempts.
again_soon() {
    local try began

    for try in 1 2 3 4 5; do
        open_transaction "b$try"
        network cut
        sleep 1
        network pass
        began=${EPOCHREALTIME/./}
        until_ reports_key "b$try" && until_ leases || return 1
        (((${EPOCHREALTIME/./} - began) > 3000000)) || return 0
        echo "# back after $(((${EPOCHREALTIME/./} - began) / 1000)) ms"
    done
    return 1
}
check 'the network is back, and the daemon within three seconds' again_soon
check 'the server keeps nothing of what was lost' until_ nothing_open
recorded() {
    [[ $(used) = "$1" ]]
}
count=$(sql "SELECT count(*) FROM sluice.usage_keys WHERE id = 'acme'")
check 'what was sent again is recorded once' recorded "$count"
check 'by day, too' test "$(days)" = "$count"

# ---- the answer to a COMMIT is lost so ----

# A commit that waits until there is a row in the gate.
sql "CREATE TABLE gate(name text);
     CREATE FUNCTION sluice.slow() RETURNS trigger LANGUAGE plpgsql AS
     'BEGIN WHILE NOT EXISTS(SELECT 1 FROM public.gate WHERE name = NEW.key)
      LOOP PERFORM pg_sleep(0.02); END LOOP; RETURN NULL; END';
     CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON sluice.usage_keys
     DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.key LIKE 'slow%')
     EXECUTE FUNCTION sluice.slow()"
backend() {
    sql "SELECT pid FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
}
commits() {
    [[ $(backend) ]]
}
slow_report() {
    background "$folder/report" curl -s -o report.out -w '%{http_code}' \
        --max-time 60 "http://$http/v1/usage" -d "{\"org\":\"acme\",
        \"limit\":\"minutes\",\"amount\":1,\"idempotency_key\":\"$1\"}"
    until_ commits
}
check 'a report is being committed' slow_report slow1
network hold
sql "INSERT INTO gate VALUES('slow1')"
committed() {
    [[ $(sql "SELECT count(*) FROM sluice.usage_keys WHERE key = 'slow1'") = 1 ]]
}
check 'it is committed, and its answer is on the way' until_ committed
network cut
network pass
wait "$client"
check 'the lost answer is found out' test "$(<"$folder/report")" = 200
check 'and the report is recorded once' recorded $((count + 1))

# ---- a slow statement is no lost connection ----

slow_report slow2
pid_of_it=$(backend)
sleep 1.2 # it is asked about twice
check 'a backend that works is not ended' test "$(backend)" = "$pid_of_it"
sql "INSERT INTO gate VALUES('slow2')"
wait "$client"
check 'and its answer is awaited' test "$(<"$folder/report")" = 200
sql 'DROP TRIGGER slow ON sluice.usage_keys'
end_by KILL

# ---- a daemon is stopped within a transaction ----

over_proxy
stopped=$pid stopped_http=$http stopped_admin=$admin
open_transaction stopped
kill -STOP "$stopped"
# Its connection stays open, and no answer reaches it.
one
check 'another daemon has what the stopped one had locked' until_ reports_key c
check 'a stopped daemon keeps no transaction' until_ nothing_open
kill -CONT "$stopped"
network cut
network pass
http=$stopped_http admin=$stopped_admin
check 'continued, it works again' until_ reports_key stopped
count=$(sql "SELECT count(*) FROM sluice.usage_keys WHERE id = 'acme'")
check 'and all is recorded once' recorded "$count"
finish
