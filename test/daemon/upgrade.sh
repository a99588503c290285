#!/usr/bin/env bash
# upgrade.sh -- state written by an earlier build is read by this one.
#
# test/data/state has what build 0.1.0 of 15 November 2026 left behind after the
# same few requests at 2026-01-15T12:00:00Z: a state file, a SQLite database and
# the keys of a Redis. Nothing of it may be forgotten or granted again.
#
#   3 requests of user ann to /ai (bucket and sliding window), 30 units of the
#   monthly quota of acme, 2 links of acme, 1 of 2 permits of acme held for 1h,
#   and in the databases: user bea has the plan pro
# shellcheck source=test/support/lib.sh
. "$(dirname "$(realpath "$0")")/../support/lib.sh"

data=$root/test/data/state
cp "$data/policy.yaml" .

# left PATH-OR-JOB OWNER LIMIT: what remains of a limit, without a take
left() {
    ask /v1/explain -d "{$1,$2,\"cost\":0}"
    sed -n "s/.*\"name\":\"$3\",[^}]*\"remaining\":\([0-9]*\).*/\1/p" <<<"$out"
}

one_permit_is_held() {
    check "$name: the permits" \
        test "$(left '"job":"render"' '"org":"acme"' jobs)" = 1
}

# still_used HOLD: everything that was used is still used
still_used() {
    local ann='"user":"ann"' acme='"org":"acme"'

    clock 2026-01-15T12:00:00Z
    check "$name: the bucket" test "$(left '"path":"/ai"' "$ann" minute)" = 5
    check "$name: the window" test "$(left '"path":"/ai"' "$ann" window)" = 17
    check "$name: the quota" test "$(left '"path":"/month"' "$acme" month)" = 70
    check "$name: the level" test "$(left '"path":"/links"' "$acme" links)" = 3
    ask "/v1/holds/$1/release" -X POST
    check "$name: the hold is released" test "$code" = 200
    check "$name: and its permit is free" \
        test "$(left '"job":"render"' "$acme" jobs)" = 2
}

# Also with more memory: the file grows with everything in it.
name=grown
gzip -dc "$data/0.1.0.state.gz" >sluice.state
start_virtual -c policy.yaml --store memory:./sluice.state --memory 16MiB \
    --usage none
check 'the state file has grown' said '"event":"state file has grown; usage kept"'
one_permit_is_held
still_used 3f2227af97bcad6b76dcbc78fd38ae272a14a0ef
stop
# The version stands behind the magic.
check 'it keeps its hash: the version is 5' \
    test "$(od -An -tu8 -j8 -N8 sluice.state | tr -d ' ')" = 5
rm -f sluice.state*

name=memory
gzip -dc "$data/0.1.0.state.gz" >sluice.state
gzip -dc "$data/0.1.0.db.gz" >sluice.db
start_virtual -c policy.yaml --store memory:./sluice.state --memory 1MiB \
    --usage sqlite:./sluice.db
check 'the state file is not set aside' test ! -e sluice.state.damaged -a \
    "$(find . -name 'sluice.state*' | wc -l)" -le 4 # .lock, .usage, .repeats
# The virtual clock starts in 1970, and a step of years ends a hold in memory.
one_permit_is_held
still_used 3f2227af97bcad6b76dcbc78fd38ae272a14a0ef
tell /v1/subjects/user/bea
check 'the plan of a subject' has "$out" '"plan":"pro"'
ask /v1/check -d '{"path":"/ai","user":"bea"}'
check 'which counts' has "$out" '"plan":"pro"'
ask /v1/usage/org/acme
check 'the records of usage' has "$out" '"day":"2026-01-15","used":30'
stop

name=Redis
redis_start
redis <"$data/0.1.0.redis" >/dev/null
start_virtual -c policy.yaml --store "$store" --usage none
until_ said '"event":"store available"' || true
clock 2026-01-15T12:00:00Z
one_permit_is_held
still_used 5fa5d17b42e0faed914b8e3967f33f5d2a14a0ef
stop
finish
