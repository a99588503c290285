#!/usr/bin/env bash
# units.sh -- the unit of a limit stays: usage that was counted in one unit is
# not read in another, by a start, a reload or a posted policy, in the state file
# and in the usage database.

# shellcheck source=test/support/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"
books=${SLUICE_TEST_POSTGRES-sqlite:./u.db}

# policy_of FILE UNIT [NAME]
policy_of() {
    cat >"$1" <<EOF
sluice: 1
limits:
  ${3-talk}: { kind: quota, per: org, unit: $2, rate: 120/month }
  other: { kind: quota, per: org, rate: 5/month }
routes:
  - { job: call, limits: [${3-talk}] }
  - { job: other, limits: [other] }
default: []
EOF
}

policy_of minutes.yaml '{ name: minutes, of: 60, reports: seconds }'
policy_of hours.yaml '{ name: hours, of: 3600, reports: seconds }'
policy_of frames.yaml '{ name: minutes, of: 60, reports: frames }'
policy_of plain.yaml minutes
policy_of later.yaml '{ name: minutes, of: 60, reports: seconds }' talk2
grep -v talk minutes.yaml >none.yaml

# begin POLICY STORE [USAGE]
begin() {
    cp "$1.yaml" p.yaml
    start -c p.yaml --threads 1 --store "$2" --usage "${3-$books}" \
        --deadline 10s
}

# refuses POLICY STORE USAGE WHERE OLD NEW: a start ends with a sentence.
refuses() {
    ! begin "$1" "$2" "$3" && [[ $status = 3 ]] && said_all "$4" "$5" "$6"
}

said_all() {
    has "$err$out" "is counted in $2 in $1, and in $3 in the new policy" &&
        has "$err$out" 'or give the limit another name and import its usage'
}

call() {
    ask /v1/check -d "{\"job\":\"call\",\"org\":\"acme\",\"cost\":$1}"
}

posted() {
    tell /v1/policy --data-binary "@$1.yaml"
    err=
}

recorded() {
    ask '/v1/usage/org/acme?limit=talk&days=0'
    has "$out" "\"exact\":{\"unit\":\"seconds\",\"scale\":60,\"used\":$1,"
}

# ---- without usage, units are free ----

begin minutes memory:
stop
begin hours memory:
check 'a limit without usage can change its unit' alive "$pid"
stop

# ---- a start ----

begin minutes memory:
call 90
until_ recorded 90
end_by KILL
database='the usage database'
check 'the database of another scale is refused' \
    refuses hours memory: "$books" "$database" 'units of 60 seconds' 'units of 3600 seconds'
check 'and of another counted unit' \
    refuses frames memory: "$books" "$database" 'units of 60 seconds' 'units of 60 frames'
check 'and by a plain unit' \
    refuses plain memory: "$books" "$database" 'units of 60 seconds' 'plain units'
check 'the same unit is not' begin minutes memory:
call 0
check 'and has its usage' has "$out" '"remaining":118,'

# ---- a posted policy, and a reload ----

posted hours
check 'a posted policy is refused' \
    said_all 'the active policy' 'units of 60 seconds' 'units of 3600 seconds'
check 'as invalid' answers 422
posted none
check 'one without the limit is not' answers 200
posted plain
check 'nor is the limit forgotten' said_all "$database" 'units of 60 seconds' 'plain units'
cp hours.yaml p.yaml
kill -HUP "$pid"
check 'a reload is refused, too' until_ said 'is counted in units of 60 seconds in the usage database, and in units of 3600 seconds in the new policy'
posted minutes
check 'its own unit is accepted again' answers 200
call 0
check 'with its usage' has "$out" '"remaining":118,'
posted later
check 'another name is, too' answers 200
printf '{"org":"acme","limit":"talk2","used":7,"unit":"minutes","scale":1}\n' >rows
run "$sluice" usage import rows --admin-url "http://$admin"
check 'rows of the large unit are imported' is 0
ask '/v1/usage/org/acme?limit=talk2&days=0'
check 'multiplied' has "$out" '"used":7,"limit":120,"remaining":113,'
check 'exactly' has "$out" '"scale":60,"used":420,'
ask '/v1/usage/export?format=csv'
check 'the export knows the unit of a limit that is gone' \
    has "$out" 'acme,,default,talk,seconds,7200,90,0,0,'
check 'and that of the new one' has "$out" 'acme,,default,talk2,seconds,7200,420,0,0,'
stop

# ---- a database that was away at the start ----

if [[ ${POSTGRES_PORT-} ]]; then
    proxy_start "127.0.0.1:$POSTGRES_PORT"
    network move 127.0.0.1:1
    begin hours memory: "postgres://postgres@$proxy/postgres"
    check 'a daemon starts without its database' said 'starting without it'
    network move "127.0.0.1:$POSTGRES_PORT"
    check 'and finds its units later' until_ said 'is counted in units of 60 seconds in the usage database, and in units of 3600 seconds in the new policy'
    call 3600
    ask /v1/usage -d '{"org":"acme","limit":"talk","amount":1}'
    check 'nothing is recorded in another unit' answers 503
    stop
fi

# ---- plain usage ----

begin plain memory: sqlite:./plain.db
call 2
end_by TERM
check 'plain usage is not read with a scale' \
    refuses minutes memory: sqlite:./plain.db "$database" 'plain units' 'units of 60 seconds'

# ---- the state file ----

begin minutes memory:./state none
call 90
end_by KILL
check 'the state of another scale is refused' \
    refuses hours memory:./state none 'the state' 'units of 60' 'units of 3600'
check 'and by a plain unit' \
    refuses plain memory:./state none 'the state' 'units of 60' 'plain units'
check 'the same unit is not' begin minutes memory:./state none
call 0
check 'and has its counts' has "$out" '"remaining":118,'
posted none
posted plain
check 'nor are they read after two reloads' said_all 'the state' 'units of 60' 'plain units'
stop

finish
