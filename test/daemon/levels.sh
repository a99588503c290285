#!/usr/bin/env bash
# levels.sh -- two daemons on one usage database: a level is taken up to its
# limit and never beyond, while things go at any of them, also if a daemon is
# killed.

# shellcheck source=test/support/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"

cat >p.yaml <<'EOT'
sluice: 1
limits:
  things: { kind: level, per: org, rate: 200 }
  links: { kind: level, per: org, rate: 5 }
routes:
  - { job: work, limits: [things] }
  - { job: link, limits: [links] }
EOT

declare -A pids hosts admins logs
books=${SLUICE_TEST_POSTGRES:-sqlite:./books.db?shared}

# up NAME WORD...: a daemon of this name, with a table of its own.
up() {
    start -c p.yaml --usage "$books" --deadline 6s --threads 2 \
        --store "memory:./$1.state" "${@:2}"
    pids[$1]=$pid hosts[$1]=$http admins[$1]=$admin logs[$1]=$log
}

# at NAME: the one that is meant from now on.
at() {
    pid=${pids[$1]} http=${hosts[$1]} admin=${admins[$1]} log=${logs[$1]}
}

# take_all ORG COUNT: takes at both, until so many were taken. Units that a
# daemon does not need are returned after a moment.
taken=0
take_all() {
    local more

    read -r more _ <<<"$(python3 "$here/drain_quota.py" "$1" $((2 * $2)) \
        "${hosts[one]}" "${hosts[two]}")"
    ((taken += more))
    ((taken >= $2))
}

link() {
    ask /v1/check -d "{\"job\":\"link\",\"org\":\"$1\"${2-}}"
}

report() {
    ask /v1/usage -d "{\"org\":\"$1\",\"limit\":\"$2\",$3}"
}

# The usage database has this level, in the days of the meter: used ORG LEVEL
used() {
    ask "/v1/usage/org/$1"
    has "$out" "\"used\":$2,"
}

up one
up two

# ---- the limit, exactly ----

check 'two daemons give out all of a level' until_ take_all acme 200
check 'and no more' test "$taken" = 200
for name in one two; do
    at "$name"
    check "$name shows it" until_ used acme 200
done
ask /v1/check -d '{"job":"work","org":"acme"}'
check 'the next one is denied' has "$out" '"status":429,'
# The other daemon may still return units: then there is a time.
no_time() {
    ask /v1/check -d '{"job":"work","org":"acme"}'
    has "$out" '"status":429,' && has "$out" '"retry_after_ms":null'
}
check 'and at last without a time' until_ no_time
at one
report acme things '"amount":60,"release":true'
check 'things go at one' answers 200
check 'and the database knows it' until_ used acme 140
taken=0
check 'and as many come at both' until_ take_all acme 60
check 'and no more than that' test "$taken" = 60

# ---- named things ----

report nest links '"name":"a"'
check 'a named thing is at one' has "$out" '"used":1,'
at two
link nest
check 'another thing comes at two, which knows of it' has "$out" '"remaining":3,'
until_ used nest 2
report nest links '"name":"b","amount":3'
check 'a named thing moves the level while units are leased' has "$out" '"used":5,'
link nest
check 'then it is full there' has "$out" '"allowed":false,'
at one
link nest
check 'and here' has "$out" '"allowed":false,'
report nest links '"name":"b","amount":1'
check 'it shrinks' has "$out" '"used":3,'
link nest
check 'which gives room here' has "$out" '"allowed":true,'
check 'as the database knows' until_ used nest 4
at two
# It was full there, and a refusal counts for a tenth of a second.
link_passes() {
    link nest
    has "$out" '"allowed":true,'
}
check 'and there' until_ link_passes
check 'which it knows, too' until_ used nest 5
# 503 while a daemon has yet to record what it has leased.
does_not_fit() {
    report nest links '"name":"c","enforce":true'
    has "$out" '"status":429,'
}
check 'what must fit does not' until_ does_not_fit
report nest links '"name":"a","release":true'
report nest links '"name":"a","release":true'
check 'a thing goes once' until_ used nest 4

# ---- holds ----

at one
link held ',"cost":5,"hold":"1h"'
hold=$(sed -n 's/.*"hold":"\([^"]*\)".*/\1/p' <<<"$out")
at two
link held
check 'what is held at one is not there for the other' has "$out" '"allowed":false,'
at one
ask "/v1/holds/$hold/settle" -d '{"cost":2}'
at two
three_pass() {
    link held
    has "$out" '"allowed":true,' && passed=$((passed + 1))
    ((passed == 3))
}
passed=0
check 'the rest of the hold is free again' until_ three_pass
link held
check 'and no more' has "$out" '"allowed":false,'

# ---- a daemon that is killed ----

at one
for _ in 1 2; do link killed; done
end_by KILL
up one
check 'what a killed daemon had taken is recorded' until_ used killed 2
for _ in 1 2 3; do link killed; done
check 'the rest is there' has "$out" '"remaining":0,'
link killed
check 'and no more' has "$out" '"allowed":false,'
check 'the level is right' until_ used killed 5
for name in one two; do
    at "$name"
    stop
    check "$name ends well" is 0
done
# A new table knows nothing, and the database all.
rm -f one.state
up one
link killed
check 'a daemon with a new table knows the level' has "$out" '"allowed":false,'
report killed links '"amount":5,"release":true'
link killed
check 'and what is left after all are gone' has "$out" '"remaining":4,'
stop
finish
