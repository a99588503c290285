#!/usr/bin/env bash
# leases.sh -- two daemons on one usage database: a quota is used up to the last
# unit and never beyond, also when a daemon is killed.

# shellcheck source=test/support/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"

cat >p.yaml <<'EOT'
sluice: 1
plans: { default: free, free: {}, pro: { overage: true } }
limits:
  units:
    kind: quota
    per: org
    rate: { free: 2000/month, pro: 100/month }
    deny: { status: 402 }
  small: { kind: quota, per: org, rate: 20/month }
  large: { kind: quota, per: org, rate: 200/month }
  open: { kind: quota, per: org, rate: 1000/month, on_store_failure: allow }
  carried: { kind: quota, per: user, rate: 5/month, missing: anonymous }
  partly: { kind: quota, per: user, rate: 40/month, missing: anonymous }
  narrow: { kind: fixed-window, per: user, rate: 5/3000d }
routes:
  - { job: work, limits: [units] }
  - { job: few, limits: [small] }
  - { job: many, limits: [large] }
  - { job: both, limits: [small, narrow] }
  - { job: lenient, limits: [open] }
  - { match: /carried, sign_in: carry, limits: [carried] }
  - { match: /partly, sign_in: carry, limits: [partly] }
  - { job: partly, limits: [partly] }
EOT

past_midnight # the months are real ones
declare -A pids hosts admins logs
books=${SLUICE_TEST_POSTGRES:-sqlite:./books.db?shared}

# up NAME WORD...: a daemon of this name.
up() {
    local name=$1

    shift
    start -c p.yaml --usage "$books" --deadline 6s --threads 2 "$@"
    keep "$name"
}

keep() {
    pids[$1]=$pid hosts[$1]=$http admins[$1]=$admin logs[$1]=$log
}

# at NAME: the one that is meant from now on.
at() {
    pid=${pids[$1]} http=${hosts[$1]} admin=${admins[$1]} log=${logs[$1]}
}

load() {
    python3 "$here/drain_quota.py" "$@"
}

job() {
    ask /v1/check -d "{\"job\":\"$1\",\"org\":\"$2\"${3-}}"
}

# The usage database has this count: used ORG COUNT
used() {
    ask "/v1/usage/org/$1"
    has "$out" "\"used\":$2,"
}

nothing_leased() {
    tell /v1/leases
    has "$out" '{"leases":[]}'
}

# ---- the cap, exactly ----

up one --store memory:
up two --store memory:
read -r taken refused undecided <<<"$(load acme 4000 "${hosts[one]}" "${hosts[two]}")"
# Units that a daemon does not need are returned after a moment.
all_taken() {
    local more late

    read -r more _ late <<<"$(load acme 80 "${hosts[one]}" "${hosts[two]}")"
    ((taken += more, undecided += late))
    ((taken >= 2000))
}
((taken >= 2000)) || until_ all_taken
echo "# taken $taken, refused $refused, not decided $undecided"
check 'two daemons give out all of a quota, and no more' test "$taken" = 2000
# A process that is not scheduled may hold the lock of a file for longer than
# the other waits for it: 503.
check 'each request was decided, but for a few' test "$undecided" -le 40
at one
check 'one daemon shows it' until_ used acme 2000
at two
check 'and those of the other' until_ used acme 2000
job work acme
check 'the next one is refused' has "$out" '"status":402,'
check 'with nothing left' has "$out" '"remaining":0,'
at one
check 'what is not needed goes back' until_ nothing_leased

# ---- what is told ----

job work beta ',"cost":10'
check 'one takes some' has "$out" '"remaining":1990,'
at two
until_ used beta 10 # it is written some 50 ms later
job work beta ',"cost":5'
check 'the other knows' has "$out" '"remaining":1985,'
ask /v1/usage -d '{"org":"gamma","limit":"units","amount":1999}'
job work gamma
check 'a report leaves one' has "$out" '"remaining":0,'
at one
job work gamma
check 'which no other organisation gets' has "$out" '"status":402,'
listed() { # units that are not needed are soon returned
    job work beta
    tell /v1/leases
    has "$out" '"scope":"org","id":"beta","limit":"units"'
}
check 'leases are listed' until_ listed
node=$(sed -n 's/.*"node":"\([0-9a-f]*\)","scope":"org","id":"beta".*/\1/p' <<<"$out")
tell "/v1/leases/$node" -X DELETE
check 'those of a daemon that lives stay' answers 409
tell /v1/leases -H 'Origin: http://evil.example'
check 'no page in a browser may read them' answers 403
tell "/v1/leases/$node" -X DELETE -H 'Origin: http://evil.example'
check 'or release them' answers 403

# ---- reports that must fit ----

at two
job many eta
check 'one has something leased' has "$out" '"remaining":199,'
refused() {
    ask /v1/usage -d '{"org":"eta","limit":"large","amount":200,"enforce":true}'
    has "$out" '"status":429,'
}
check 'more than is left is denied, once the take is written' \
    until_ refused
at one
job many eta
ask /v1/usage -d '{"org":"eta","limit":"large","amount":198,"enforce":true}'
check 'what is leased is not given out again' answers 503
check 'that it is leased is said' has "$out" 'are leased to daemons'
fits_then() {
    ask /v1/usage -d '{"org":"eta","limit":"large","amount":198,"enforce":true}'
    answers 200
}
check 'when it is back it fits' until_ fits_then
job many eta
check 'and then nothing is left' has "$out" '"allowed":false,'

# ---- credits, by two ----

# theta MEMBERS: its usage, as any of the daemons shows it.
theta() {
    ask /v1/usage/org/theta
    has "$out" "\"name\":\"units\"" && has "$out" "$1"
}
at one
tell /v1/credits/org/theta -d '{"limit":"units","amount":300}'
tell /v1/credits/org/theta -d \
    '{"limit":"units","amount":100,"expires":"2099-01-01"}'
check 'credits are given' has "$out" '{"number":'
taken=0
# Until both know of them; without notifications, in some seconds.
take_all() {
    local more

    read -r more refused undecided \
        <<<"$(load theta 800 "${hosts[one]}" "${hosts[two]}")"
    taken=$((taken + more))
    ((taken >= 2400 && more == 0))
}
check 'two daemons use up a quota and the credits beside it' until_ take_all
check 'and no more' test "$taken" = 2400
for name in one two; do
    at "$name"
    check "it is recorded once, at $name" until_ theta \
        '"used":2400,"limit":2000,"remaining":0,"share":120,"overage":0,"credited":400,"credits":0,'
done
tell /v1/credits/org/theta
check 'the one that expires is used up' has "$out" '"amount":100,"unused":0'
check 'and the other' has "$out" '"amount":300,"unused":0'

# ---- several limits ----

for _ in 1 2 3 4 5 6 7 8 9; do job both delta ',"user":"ann"'; done
check 'another limit refuses' has "$out" '"by":"narrow"'
check 'what passed is recorded' until_ used delta 5
at two
passed=0
# What the other does not need it gives back, and is asked for again.
all_passed() {
    job few delta
    has "$out" '"allowed":true' && passed=$((passed + 1))
    ((passed == 15))
}
check 'what was refused there was not spent: the rest passes here' \
    until_ all_passed
job few delta
check 'and no more' has "$out" '"by":"small"'

# ---- overage ----

for name in one two one two; do
    at "$name"
    job work rich ',"plan":"pro","cost":30'
done
check 'overage goes on' has "$out" '"allowed":true'
check 'and is counted once' until_ used rich 120
check 'as overage' has "$out" '"overage":20,'

# Reports at one daemon are recorded before the decisions of the other that they
# follow, which had leased the last units.
near_taken() {
    job many "near$n" ',"cost":190'
    has "$out" '"allowed":true'
}
near_reported() {
    report "{\"org\":\"near$n\",\"limit\":\"large\",\"amount\":50,
        \"idempotency_key\":\"near$n\"}"
    answers 200
}
for n in {1..5}; do
    at one
    until_ near_taken
    at two
    until_ near_reported
done
near_right() {
    for n in {1..5}; do
        ask "/v1/usage/org/near$n?limit=large"
        has "$out" '"used":240,"overage":40}],"months":' || return 1
    done
}
check 'a report near the cap is overage, whatever is recorded first' \
    until_ near_right

# A refund at one daemon follows a decision of the other at once, before that is
# recorded, and waits for it. A machine that stands still may be too late.
for n in {1..6}; do
    at one
    job many "back$n" ',"cost":9'
    at two
    report "{\"org\":\"back$n\",\"limit\":\"large\",\"amount\":5,\"release\":true}"
done
refunded() {
    local n right=0

    for n in {1..6}; do
        ask "/v1/usage/org/back$n?limit=large"
        has "$out" '"used":4,"overage":0}],"months":' && right=$((right + 1))
    done
    ((right >= 4))
}
check 'a refund of what the other has just used counts' until_ refunded

# ---- holds ----

job few held ',"cost":20,"hold":"1h"'
hold=$(sed -n 's/.*"hold":"\([^"]*\)".*/\1/p' <<<"$out")
at one
job few held
check 'what is held by one is not there for the other' has "$out" '"by":"small"'
at two
ask "/v1/holds/$hold/release" -X POST
at one
held_passes() {
    job few held
    has "$out" '"allowed":true'
}
check 'what is released comes back' until_ held_passes

# ---- the usage database is away ----

at one
# The plan is given, because it would be looked up in the database.
job lenient away ',"plan":"free"'
# The server stops; a file is locked by another process.
lock_books() {
    if [[ -n ${SLUICE_TEST_POSTGRES-} ]]; then
        "$POSTGRES_CTL" stop >/dev/null && echo locked
        return
    fi
    exec python3 - books.db <<'EOT'
import signal, sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=20)
db.execute("BEGIN EXCLUSIVE")
print("locked", flush=True)
signal.pause()
EOT
}
unlock_books() {
    kill "$client" 2>/dev/null
    wait "$client" 2>/dev/null
    [[ -z ${SLUICE_TEST_POSTGRES-} ]] || "$POSTGRES_CTL" start >/dev/null
}
works_again() {
    job work "$1" ',"plan":"free"'
    has "$out" '"status":200,'
}
# A lease is valid for five seconds after the database was last seen. If this
# machine needs longer than that, try again.
leased_passes() {
    job work away ',"plan":"free","cost":40'
    background lock.out lock_books
    until_ grep -q locked lock.out
    job work away ',"plan":"free"'
    has "$out" '"status":200,' && return
    unlock_books
    until_ works_again back
    return 1
}
for _ in 1 2 3 4 5 6 7 8; do leased_passes && break; done
check 'while the database is away, what is leased passes' has "$out" '"status":200,'
SECONDS=0
job work newcomer ',"plan":"free"'
check 'what is not can not be decided' has "$out" '"status":503,'
check 'in time' test "$SECONDS" -lt 20
job lenient newcomer ',"plan":"free"'
check 'unless the limit says so' has "$out" '"status":200,'
unlock_books
check 'and when it is back it goes on' until_ works_again newcomer

# ---- stopped, released, and back ----

# With units leased, nothing to record, and not while it writes: then it would
# keep the file locked for the others. A request that another limit denies
# leases units and takes none, so that this can be tried again.
at one
for _ in 1 2 3 4 5; do job both filler ',"user":"kate"'; done
until_ used filler 5
tries=0
stop_one() {
    at one
    job both sleepy ',"user":"kate"'
    kill -STOP "${pids[one]}"
    at two
    job few "probe$((++tries))"
    tell /v1/leases
    has "$out" '"id":"probe' && has "$out" '"id":"sleepy"' && return
    kill -CONT "${pids[one]}"
    return 1
}
given=0
for _ in {1..16}; do stop_one && break; done
check 'a daemon that has some of the last units is stopped' \
    has "$out" '"id":"sleepy"'
node=$(grep -o '{"node":"[0-9a-f]*","scope":"org","id":"sleepy"' <<<"$out" |
    cut -d'"' -f4)
# It is released when it was not seen for ten seconds; after thirty, the daemons
# release it themselves.
# While another session of the database has its rows, the answer is 503.
released() {
    tell "/v1/leases/$node" -X DELETE
    grep -qE '"released":true|"NO_SUCH_NODE"' <<<"$out"
}
check 'and released' until_ released
grep -q '"code":"REGISTRY"' <<<"$out" && [[ -n ${SLUICE_TEST_POSTGRES-} ]] &&
    psql -X "$SLUICE_TEST_POSTGRES" -c "SELECT a.pid, state, wait_event, query,
        state_change, objid FROM pg_locks l JOIN pg_stat_activity a USING (pid)
        WHERE locktype = 'advisory'" | sed 's/^/# /'
rest_passed() {
    job few sleepy
    has "$out" '{"allowed":true' && given=$((given + 1))
    ((given == 20))
}
check 'another gives out all that it had not' until_ rest_passed
kill -CONT "${pids[one]}"
at one
job few sleepy
check 'it uses nothing of what it had' has "$out" '"by":"small"'
check 'and nothing was given out twice' until_ used sleepy 20

# ---- the end ----

for name in one two; do
    at "$name"
    stop
    check "$name ends well" is 0
done
# On a clock that is moved by hand.
still() {
    start_virtual -c p.yaml --usage "$books" --deadline 3s --threads 1 \
        --store "$1"
}

still memory:
check 'a daemon that ends gives everything back' nothing_leased
tell /v1/clock -d '{"now":"2026-01-31T23:59:00Z"}'
job work zeta
check 'a daemon has something leased' has "$out" '"remaining":1999,'
end_by KILL
still memory:
tell /v1/clock -d '{"now":"2026-01-31T23:59:05Z"}'
tell /v1/leases
check 'one that is killed gives nothing back' has "$out" '"id":"zeta"'
node=$(sed -n 's/.*"node":"\([0-9a-f]*\)".*/\1/p' <<<"$out")
leased=$(sed -n 's/.*"leased":\([0-9]*\).*/\1/p' <<<"$out")
spent=$(sed -n 's/.*"spent":\([0-9]*\).*/\1/p' <<<"$out")
read -r taken refused undecided <<<"$(load zeta 2400 "$http")"
check 'what it had counts as used' test "$((taken + leased + spent))" = 2000
tell "/v1/leases/$node" -X DELETE
check 'as long as it may yet live' answers 409
tell /v1/clock -d '{"now":"2026-01-31T23:59:30Z"}'
run "$sluice" leases --admin-url "http://$admin"
check 'the command lists it' has "$out" "$node  org    zeta"
run "$sluice" leases release "$node" note='host is gone' --by eve \
    --admin-url "http://$admin"
check 'until an operator releases it' has "$out" "released $leased units"
tell '/v1/audit?limit=1'
check 'which is recorded' has "$out" '"by":"eve","origin":"admin 127.0.0.1","what":"leases released","scope":"node"'
check 'with the reason' has "$out" '"note":"host is gone"'
run "$sluice" leases release "$node" --admin-url "http://$admin"
check 'once' is 2
read -r taken refused undecided <<<"$(load zeta 40 "$http")"
check 'then the rest is there' test "$taken" = "$leased"
until_ used zeta 2000 # what is not recorded yet would be a lease of January
tell /v1/clock -d '{"now":"2026-02-01T00:00:00Z"}'
job work zeta
check 'another month begins with all of it' has "$out" '"remaining":1999,'
tell /v1/clock -d '{"now":"2026-01-31T23:59:59Z"}'
job work zeta
check 'a clock that steps back grants nothing' has "$out" '"status":402,'

# ---- taken, and lost with the journal ----

# Nothing of the second job is in the database when the daemon is killed. If the
# lease was too old for it on a busy machine, try again.
still memory:./rest.state
taken=0
taken_unseen() {
    job many rest ',"plan":"free"'
    has "$out" '"status":200,' && taken=$((taken + 1))
    until_ used rest "$taken"
    background lock.out lock_books
    until_ grep -q locked lock.out
    job many rest ',"plan":"free"'
    has "$out" '"status":200,' && return
    unlock_books
    until_ works_again again
    return 1
}
job few holder ',"cost":2,"hold":"1h"'
check 'something else is held' has "$out" '"allowed":true,'
for _ in 1 2 3 4 5 6 7 8; do taken_unseen && break; done
end_by KILL
unlock_books
rm -f rest.state.usage
still memory:./rest.state
check 'what a killed daemon took and could not record is recorded' \
    until_ used rest $((taken + 1))
tell /v1/leases
check 'although other units are held, and stay leased' \
    has "$out" '"id":"holder","limit":"small","period_start_ms":'
check 'and none of it stays leased' test "${out/'"id":"rest"'/}" = "$out"
stop

# ---- limits to which visitors are carried ----

carried() {
    ask /v1/check -d '{"method":"GET","path":"/carried","user":"ann",
        "ip":"192.0.2.7"}'
}
stop
up one --store memory:
for _ in 1 2 3; do carried; done
check 'what is carried to is counted' has "$out" '"remaining":2,'
stop
up one --store memory:
carried
check 'and does not start afresh' has "$out" '"remaining":1,'
stop

# By another route nothing is carried, and it is the same limit.
partly() {
    ask /v1/check -d "{\"job\":\"partly\",\"user\":\"ben\",\"cost\":$1${2-}}"
}
ben_used() {
    ask /v1/usage/user/ben
    has "$out" "\"used\":$1,"
}
up one --store memory:./partly.state
up two --store memory:
at one
partly 2 ',"hold":"1h"'
check 'something is held' has "$out" '"remaining":38,'
at two
for _ in 1 2 3 4 5 6; do partly 4; done
until_ ben_used 24
at one
stop
up one --store memory:./partly.state
partly 1
check 'a daemon that comes back has the rest' has "$out" '"allowed":true,'
for name in one two; do
    at "$name"
    stop
done
rm -f partly.state

# ---- what was not put down belongs to the day it was taken on ----

still memory:./day.state
tell /v1/clock -d '{"now":"2026-01-22T12:00:00Z"}'
job work days ',"cost":3'
seen_then() {
    tell /v1/leases
    has "$out" "\"seen_ms\":$(date -ud 2026-01-22T12:00 +%s)000"
}
check 'a daemon is seen' until_ seen_then
job work days
end_by KILL # before it has put that down, if it is not slow
still memory:./day.state
tell /v1/clock -d '{"now":"2026-01-23T12:00:00Z"}'
ask '/v1/usage/org/days?days=90'
check 'what a daemon took before it was killed is of that day' \
    has "$out" '"day":"2026-01-22","used":4'
stop

# ---- a copy of a table ----

up one --store memory:./one.state
job work twin ',"cost":10'
check 'a daemon leases' has "$out" '"allowed":true,'
until_ used twin 10
tell /v1/leases
# What the copy has leased when it starts is also leased to the first one: this
# many units, and no more, may be granted twice.
shared=$(grep -oE '"id":"twin",[^}]*"leased":[0-9]+' <<<"$out" |
    awk -F: '{ sum += $NF } END { print sum + 0 }')
cp one.state copy.state
up copy --store memory:./copy.state
job work twin
check 'another one with its name leases, too' has "$out" '"allowed":true,'
at one
# A daemon whose lease has returned finds it out when it asks for one; another
# organisation, so that nothing is taken here.
finds_out() {
    job work elsewhere
    said 'node name in use by another daemon'
}
check 'the first finds that out' until_ finds_out
job work twin
check 'and decides no more about quotas' has "$out" '"status":503,'
at copy
rest=0
rest_taken() {
    read -r taken _ <<<"$(load twin 2400 "$http")"
    ((rest += taken, rest >= 1989))
}
check 'the other has the rest' until_ rest_taken
echo "# rest $rest, $shared leased to both"
check 'and no more than both had leased' test "$rest" -le $((1989 + shared))
check 'which the database shows' until_ used twin $((rest + 11))
for name in one copy; do
    at "$name"
    stop
done
rm -f one.state copy.state

# ---- a daemon that is gone ----

# killed_with_units ORG: one daemon takes some and is killed with units leased.
killed_with_units() {
    up one --store memory:./gone.state
    read -r taken _ <<<"$(COSTS=3 load "$1" 400 "$http")"
    end_by KILL
    at two
    tell /v1/leases
    has "$out" "\"id\":\"$1\"" && return
    up one --store memory:./gone.state # they were returned; with another
    stop
    return 1
}
up two --store memory:
for gone in gone{1..8}; do killed_with_units "$gone" && break; done
check 'a daemon is killed with units leased' has "$out" "\"id\":\"$gone\""
at two
rest_of_gone() {
    local more

    read -r more _ <<<"$(load "$gone" 2000 "$http")"
    ((taken += more))
    used "$gone" 2000
}
check 'half a minute later another one has them, without an operator' \
    until_ rest_of_gone
check 'and says so' said 'quota leases of a daemon that is gone freed'
up one --store memory:./gone.state
check 'what the first had used beyond that is recorded when it is back' \
    until_ used "$gone" "$taken"
check 'and counted as overshoot' has "$(curl -s "http://$admin/metrics")" \
    "sluice_quota_overshoot_units_total $((taken - 2000))"
echo "# taken $taken"
for name in one two; do
    at "$name"
    stop
done
rm -f gone.state

# ---- killed on the way, with their tables ----

rounds=4
[[ -z ${SL_LONG-} ]] || rounds=40
# At ports that no other process gets while they are away.
up one --store memory:./one.state --listen-http "127.0.0.1:$(free_port)"
up two --store memory:./two.state --listen-http "127.0.0.1:$(free_port)"
# decided COUNT: the daemon has made so many decisions, or the load is over.
decided() {
    gone "$loader" || (($(curl -s "http://$admin/metrics" |
        awk '/^sluice_decisions_total/ { n += $2 } END { print n + 0 }') >= $1))
}
# storm ORG WORD...: load, and kills; after each of them the words.
storm() {
    local org=$1

    shift
    COSTS=7 load "$org" $((rounds * 120)) "${hosts[one]}" "${hosts[two]}" >tally &
    loader=$!
    for ((i = 0; i < rounds; i++)); do
        name=one
        ((i % 2)) && name=two
        at "$name"
        until_ decided $((RANDOM % 60 + 1))
        end_by KILL
        up "$name" --store "memory:./$name.state" \
            --listen-http "${hosts[$name]}"
        "$@"
    done
    wait "$loader"
}
storm storm true
read -r taken refused undecided <<<"$(<tally)"
read -r more refused undecided <<<"$(load storm 3000 "${hosts[one]}" "${hosts[two]}")"
echo "# taken $taken and $more"
check 'killed again and again, they never give out more' \
    test "$((taken + more))" -le 2000
check 'and in the end nothing is left' until_ used storm 2000

begin_anew() {
    tell /v1/keys/units/again -X DELETE
    answers 200
}
storm again begin_anew
read -r taken refused undecided <<<"$(<tally)"
echo "# taken $taken, with $rounds resets"
check 'with resets in between they give out no more than after each of them' \
    test "$taken" -le $((2000 * (rounds + 1)))
# One of them may be refused while the other has the last units.
use_up() {
    load again 400 "${hosts[one]}" "${hosts[two]}" >/dev/null
    used again 2000
}
check 'and then all of the last, and no more' until_ use_up
for name in one two; do
    at "$name"
    stop
done
finish
