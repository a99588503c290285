#!/usr/bin/env bash
# ends.sh SLUICED SLUICED-TEST SLUICE -- a hold with units of a quota ends at
# another daemon than the one that took it, or is extended there, while
# something fails: no unit is lost, none is used twice. Rates in a Redis, quotas
# in a SQLite that both share.

# shellcheck source=test/support/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"
past_midnight

cp "$here/minutes.yaml" p.yaml

# take ORG COST [SPAN]: one check at $http, held for a span
take() {
    ask /v1/check -d '{"job":"both","org":"'"$1"'","cost":{"minutes":'"$2"'}'"${3:+,\"hold\":\"$3\"}"'}'
}

# take_all ORG COST: COST units can be taken, and no unit more, at either daemon
take_all() {
    passes() {
        for http in "$first" "$second"; do
            take "$1" "$2"
            [[ $out != *'"status":200,'* ]] || return 0
        done
        return 1
    }
    check "$2 units pass" until_ passes "$1" "$2"
    for http in "$first" "$second"; do
        take "$1" 1
        check 'and no unit more' has "$out" '"status":402,'
    done
}

# hold ORG COST SPAN: at the first daemon; leaves $hold
hold() {
    http=$first
    take "$@"
    check 'a hold at the first daemon' has "$out" '"status":200,'
    hold=$(member hold | tr -d '"')
}

# settle HOLD COST: at the second daemon
settle() {
    fetch "http://$second/v1/holds/$1/settle" -d '{"cost":{"minutes":'"$2"'}}'
}

# Has the database so many ends and extensions for the first daemon?
has_ends() {
    [[ $(python3 -c '
import sqlite3, sys
base = sqlite3.connect("file:%s?mode=ro" % sys.argv[1], uri=True, timeout=30)
print(base.execute("SELECT count(*) FROM usage_ends").fetchone()[0])' "$base") = "$1" ]]
}
base=c.db

# Stops the first daemon while it does not write to the database.
freeze() {
    kill -STOP "$first_pid"
    python3 -c '
import sqlite3
base = sqlite3.connect("c.db", timeout=0.2, isolation_level=None)
base.execute("BEGIN IMMEDIATE")
base.execute("ROLLBACK")' 2>/dev/null && return
    kill -CONT "$first_pid"
    return 1
}

redis_start
share -c p.yaml --threads 1 --state one --usage 'sqlite:c.db?shared'
first=$http first_pid=$pid first_admin=$admin
share -c p.yaml --threads 1 --state two --usage 'sqlite:c.db?shared'
second=$http second_admin=$admin

# ---- the answer is lost, and the client repeats it ----

all_recorded() {
    [[ $(metric sluice_usage_journal_bytes) = 0 ]]
}
hold again 120 300s
admin=$first_admin
check 'which is recorded' until_ all_recorded
check 'the first is stopped' until_ freeze
settle "$hold" 20
check 'it ends at the second' has "$out" '"held":120,"cost":20,'
check 'the first is to be told' until_ has_ends 1
settle "$hold" 20
check 'the end is repeated' has "$out" '"again":true'
admin=$second_admin
check 'which is recorded' until_ all_recorded
check 'the first is still to be told' has_ends 1
kill -CONT "$first_pid"
check 'until it knows' until_ has_ends 0
take_all again 100

# ---- the hold has expired in the table, and its end cannot be confirmed ----

extend() {
    fetch "http://$second/v1/holds/$1/extend" -d '{"hold":"300s"}'
    check 'the second extends a hold' has "$out" '"state":"held"'
}
hold late 10 300s
other=$hold
hold late 100 2s
began=$(date +%s)
admin=$first_admin
check 'which is recorded' until_ all_recorded
check 'the first is stopped' until_ freeze
extend "$hold"
expired() {
    (($(date +%s) > began + 3))
}
check 'it expires at the first, which is not told in time' until_ expired
settle "$hold" 20
check 'the second ends it' has "$out" '"held":100,"cost":20,'
check 'and the first is to be told' until_ has_ends 1
# Readers go on while this has the right to write.
background lock.out python3 -c '
import os, sqlite3, time
base = sqlite3.connect("c.db", timeout=60, isolation_level=None)
base.execute("BEGIN IMMEDIATE")
open("locked", "w").close()
while not os.path.exists("unlock"):
    time.sleep(0.02)'
check 'the database is locked' until_ test -e locked
kill -CONT "$first_pid"
before=$(metric sluice_usage_errors_total)
fails() {
    (($(metric sluice_usage_errors_total) >= before + 3))
}
check 'what the first knows cannot be recorded' until_ fails
touch unlock
check 'then it is' until_ has_ends 0
fetch "http://$first/v1/holds/$other/release" -X POST
check 'the other hold is released' answers 200
take_all late 100

# ---- the clock of the first moves on ----

base=d.db
virtual() {
    start_virtual -c p.yaml --threads 1 --store "$store" --deadline 5s \
        --state "$1" --usage "sqlite:$base?shared" && until_ is_ok
}
virtual three
first=$http first_admin=$admin
virtual four
second=$http second_admin=$admin
# recorded ADMIN-LISTENER
recorded() {
    admin=$1
    check 'which is recorded' until_ all_recorded
}
# at TIME: by the clock of the first; that of the second stands
at() {
    admin=$first_admin
    clock "2026-11-15T$1Z"
    check "it is $1 at the first" answers 200
}
admin=$second_admin
clock 2026-11-15T12:00:00Z
at 12:00:00

hold longer 100 60s
recorded "$first_admin"
extend "$hold"
recorded "$second_admin"
check 'the first knows' until_ has_ends 0
at 12:02:00
http=$first
take longer 30
check 'the hold goes on there' has "$out" '"status":402,'
settle "$hold" 20
check 'until it ends at the second' has "$out" '"held":100,"cost":20,'
take_all longer 100

hold stepped 100 60s
recorded "$first_admin"
at 12:10:00
http=$first
ask /v1/check -d '{"job":"one","org":"stepped","cost":{"minutes":120}}'
check 'by a step of its clock the first has all units again' has "$out" '"status":200,'
check 'none are overshoot yet' test "$(metric sluice_quota_overshoot_units_total)" = 0
settle "$hold" 90
check 'the hold ends at the second' has "$out" '"held":100,"cost":90,'
overshoot() {
    [[ $(metric sluice_quota_overshoot_units_total) = 90 ]]
}
check 'what is used beyond the quota is overshoot' until_ overshoot

# Ends are read rarely when there were no holds for a minute.
if [[ ${SL_LONG-} ]]; then
    hold rare 100 60s
    recorded "$first_admin"
    at 12:20:00
    http=$first
    ask /v1/check -d '{"job":"one","org":"rare","cost":{"minutes":30}}'
    check 'the hold has expired at the first' has "$out" '"status":200,'
    sleep 65
    settle "$hold" 20
    check 'it ends at the second' has "$out" '"held":100,"cost":20,'
    recorded "$second_admin"
    check 'the first knows' until_ has_ends 0
    take_all rare 70
fi
finish
