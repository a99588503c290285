#!/usr/bin/env bash
# combined.sh -- two daemons on one Redis and one PostgreSQL: the rates are in
# Redis, and the database decides about quotas, whatever Redis loses.

# shellcheck source=test/postgres/postgres.sh
. "$(dirname "${BASH_SOURCE[0]}")/postgres.sh"
past_midnight

cat >q.yaml <<'EOT2'
sluice: 1
env: test
limits:
  minutes: { kind: quota, per: org, rate: 120/month, deny: { status: 402 } }
  wide: { kind: quota, per: org, rate: 1000/month, deny: { status: 402 } }
  api: { kind: fixed-window, per: user, rate: 50/3000d }
  jobs: { kind: concurrency, per: org, rate: 100 }
  metered: { kind: quota, per: org, rate: 100/month, charge: on_report,
             deny: { status: 402 } }
routes:
  - { job: transcribe, limits: [minutes] }
  - { job: both, limits: [api, wide] }
  - { job: quota-first, limits: [minutes, api] }
  - { job: held, limits: [wide, jobs] }
  - { job: meter, limits: [api, metered] }
default: []
EOT2

# daemon WORD...: one more on both
daemon() {
    share -c q.yaml --threads 1 --usage "$SLUICE_TEST_POSTGRES" "$@"
}

# take JOB ORG COST [MEMBERS]: one check at $http
take() {
    ask /v1/check -d \
        '{"job":"'"$1"'","org":"'"$2"'","user":"'"$2"'","cost":{"minutes":'"$3"',"wide":'"$3"'}'"${4-}"'}'
}

status_is() {
    [[ $out = *"\"status\":$1,"* ]]
}

# recorded LIMIT ORG: units in the database
recorded() {
    sql "SELECT coalesce(sum(used), 0) FROM sluice.usage_counters
         WHERE id = '$2' AND limit_name = '$1'"
}

recorded_is() {
    [[ $(recorded "$1" "$2") = "$3" ]]
}

redis_start --appendonly no
daemon
a_http=$http a_admin=$admin a_pid=$pid a_log=$log
check 'quotas are leased beside Redis' grep -q 'quota leases enabled' "$a_log"
daemon
b_http=$http b_admin=$admin b_pid=$pid
: "$a_admin" "$a_pid" "$b_admin" "$b_pid"

# ---- row 7: Redis is flushed ----

# passes ORG: how many of twenty single units of `minutes` pass, at both
# daemons
passes() {
    local i n=0

    for ((i = 0; i < 20; i++)); do
        http=$a_http
        ((i % 2 == 0)) || http=$b_http
        take transcribe "$1" 1
        ! status_is 200 || n=$((n + 1))
    done
    echo "$n"
}

# Units that one daemon has leased and does not need return within two seconds.
use_up() {
    local n

    for ((n = 0; n < 20; n++)); do
        http=$a_http
        while take transcribe "$1" 1 && status_is 200; do :; done
        http=$b_http
        while take transcribe "$1" 1 && status_is 200; do :; done
        ! recorded_is minutes "$1" 120 || return 0
        sleep 0.5
    done
    return 1
}

check 'an organisation uses all of its quota' use_up acme
check 'which is recorded' recorded_is minutes acme 120
redis flushall >/dev/null
check 'a flush of Redis gives no fresh quota' test "$(passes acme)" = 0
check 'and the database has 120' recorded_is minutes acme 120

# ---- row 5: Redis is killed and loses its data ----

redis_kill
redis_start
until_ is_ok
check 'nor does a Redis that comes back empty' test "$(passes acme)" = 0

# ---- sets: all or nothing ----

http=$a_http
for ((i = 0; i < 50; i++)); do
    take both set 1
done
check 'fifty pass' status_is 200
take both set 1
check 'the window in Redis is used up' has "$out" '"by":"api"'
check 'a denied set leaves the quota as it was' has "$out" '"remaining":950'
check 'in the database too' until_ recorded_is wide set 50
window=$(used sluice:test:api:user:acme)
take quota-first acme 1
check 'a quota that denies' status_is 402
check 'takes nothing from Redis' test "$(used sluice:test:api:user:acme)" = "$window"
check 'and shows its numbers' has "$out" '"name":"api","kind":"fixed-window"'

# ---- holds: taken at one daemon, ended at another ----

# hold_at HTTP ORG: again if the database was late.
hold_at() {
    http=$1
    until_ is_held_now "$2"
}
is_held_now() {
    take held "$1" 30 ',"hold":"20m"'
    name=$(member hold)
    name=${name//\"/}
    [[ $name != null ]]
}
end_at() {
    fetch "http://$1/v1/holds/$name/$2" -X POST -d "${3-{\}}"
}

hold_at "$a_http" here
check 'units are held' status_is 200
end_at "$a_http" settle '{"cost":{"wide":12}}'
check 'and settled where they were taken' has "$out" '"state":"settled"'
check 'with the actual cost' until_ recorded_is wide here 12
take both here 0
check 'the rest is free again' has "$out" '"remaining":988'
end_at "$a_http" settle '{"cost":{"wide":12}}'
check 'twice is harmless' has "$out" '"again":true'
hold_at "$a_http" there
sleep 0.2 # the owner of a hold is known to the database after 50 ms
end_at "$b_http" settle '{"cost":{"wide":12}}'
check 'the other daemon can settle it' has "$out" '"state":"settled"'
check 'the permit is back' has "$out" '"name":"jobs"'
check 'and the usage is recorded' until_ recorded_is wide there 12
end_at "$a_http" settle '{"cost":{"wide":12}}'
check 'the first knows the units still, and records them once' \
    test "$(sleep 0.3; recorded wide there)" = 12
hold_at "$b_http" back
end_at "$b_http" release
check 'a release' has "$out" '"state":"released"'
http=$b_http
take both back 0
check 'refunds all of it' has "$out" '"remaining":1000'

# ---- while Redis is away ----

redis_kill
http=$a_http
until_ is_degraded
take transcribe away 1
check 'quotas alone are decided without Redis' status_is 200
take both away 7
check 'a rate that allows on failure does not stop the quota' status_is 200
check 'and its units are recorded' until_ recorded_is wide away 7
take held away 5
check 'a permit that denies on failure denies' status_is 503
take both away 0
redis_start
until_ is_ok
until_passes() {
    take both away 0
    [[ $out = *'"remaining":993'* ]]
}
check 'and what it had reserved is free again' until_ until_passes

# ---- reports: the database has the truth ----

fetch "http://$a_http/v1/usage" -d \
    '{"org":"rep","limit":"wide","amount":900,"idempotency_key":"k1"}'
check 'a report is recorded' has "$out" '"recorded":true'
redis flushall >/dev/null
fetch "http://$b_http/v1/usage" -d \
    '{"org":"rep","limit":"wide","amount":900,"idempotency_key":"k1"}'
check 'its repeat at the other is not' has "$out" '"recorded":false'
http=$b_http
take both rep 200
check 'and counts there without Redis' status_is 402

# ---- a limit that reports charge, at two daemons ----

# report_of AMOUNT DAEMON
report_of() {
    fetch "http://$2/v1/usage" -d "{\"org\":\"m\",\"limit\":\"metered\",
        \"amount\":$1,\"idempotency_key\":\"$1-$2\"}"
}
for http in "$a_http" "$b_http" "$a_http" "$b_http"; do
    take meter m 1
done
check 'a check passes' status_is 200
report_of 60 "$a_http"
check 'a report is recorded' has "$out" '"recorded":true'
check 'and the checks took nothing' recorded_is metered m 60
meter_is() {
    http=$1
    take meter m 1
    status_is "$2"
}
check 'something is left at the other daemon' meter_is "$b_http" 200
report_of 45 "$b_http"
check 'the report beyond the limit is recorded, too' recorded_is metered m 105
check 'nothing is left at the first' until_ meter_is "$a_http" 402
check 'nor at the other' until_ meter_is "$b_http" 402

# ---- row 8: a report is committed, and its answer is lost ----

proxy_start "127.0.0.1:$POSTGRES_PORT"
share -c q.yaml --threads 1 --usage "postgres://postgres@$proxy/postgres"
c_http=$http c_pid=$pid
# A commit that waits until there is a row in the gate.
sql "CREATE TABLE gate(name text);
     CREATE FUNCTION sluice.slow() RETURNS trigger LANGUAGE plpgsql AS
     'BEGIN WHILE NOT EXISTS(SELECT 1 FROM public.gate)
      LOOP PERFORM pg_sleep(0.02); END LOOP; RETURN NULL; END';
     CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON sluice.usage_keys
     DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.key = 'slow')
     EXECUTE FUNCTION sluice.slow()"
slow_report='{"org":"lost","limit":"wide","amount":300,"idempotency_key":"slow"}'
commits() {
    [[ $(sql "SELECT pid FROM pg_stat_activity WHERE wait_event = 'PgSleep'") ]]
}
background "$folder/report" curl -s -o report.out -w '%{http_code}' \
    --max-time 60 "http://$c_http/v1/usage" -d "$slow_report"
check 'a report is being committed' until_ commits
network hold
sql "INSERT INTO gate VALUES('open')"
check 'it is committed, and its answer is on the way' \
    until_ recorded_is wide lost 300
network cut
network pass
wait "$client"
reported_again() {
    fetch "http://$1/v1/usage" -d "$slow_report"
    [[ $code = 200 ]]
}
check 'the same report again at this daemon' until_ reported_again "$c_http"
check 'and at another' until_ reported_again "$b_http"
check 'is recorded once' recorded_is wide lost 300
all_agree() {
    for http in "$a_http" "$b_http" "$c_http"; do
        take both lost 0
        [[ $out = *'"remaining":700'* ]] || return 1
    done
}
check 'and counts once at every daemon' until_ all_agree
kill "$c_pid"
until_ gone "$c_pid"

# ---- a table in a file survives a kill ----

http=$a_http
kill "$a_pid" "$b_pid"
until_ gone "$a_pid"
until_ gone "$b_pid"
daemon --state a.state
node=$(grep -o '"node":"[0-9a-f]*"' "$log" | head -1)
for ((i = 0; i < 40; i++)); do
    take both file 1
done
end_by KILL
daemon --state a.state
check 'the same node comes back' grep -qF "$node" "$log"
check 'and records what it had granted' until_ recorded_is wide file 40

# ---- the state file belongs to leases ----

run "$sluiced" -c q.yaml --store memory: --state x --usage none
check 'a memory store has its own' has "$err" 'store: "memory:x"'
run "$sluiced" -c q.yaml --store "$store" --state x --usage none
check 'and without a database there are none' has "$err" 'usage database'
finish
