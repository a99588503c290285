#!/usr/bin/env bash
# peers.sh -- daemons that share a Redis store or a usage database know each
# other: their counts are summed, names stay with the daemon that heard them, and
# what the last minutes would have been is asked of one.

# shellcheck source=test/support/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"

cat >p.yaml <<'EOT'
sluice: 1
server: { deadline: 5s }
limits:
  requests: { kind: fixed-window, per: user, rate: 3/day }
routes:
  - { match: /x, endpoint: x, limits: [requests] }
EOT
declare -A https admins

# up NAME WORD...: a daemon of this name.
up() {
    start_virtual -c p.yaml --threads 1 "${@:2}"
    https[$1]=$http admins[$1]=$admin
}

# clocks TIME: of both. Their counts are read.
clocks() {
    for name in one two; do
        admin=${admins[$name]}
        clock "2026-11-15T14:$1Z"
        tell /v1/history
    done
}

# knows NAME COUNT: the daemon knows so many, itself included.
knows() {
    admin=${admins[$1]}
    tell /v1/daemons
    [[ $(grep -o '"id":' <<<"$out" | wc -l) = "$2" ]]
}

# sums WHO TOTAL: of `one`, the column has this sum.
sums() {
    admin=${admins[one]}
    tell "/v1/history?daemon=$1"
    out=${out%%\"endpoints\"*}
    [[ $(grep -o '"\(allowed\|429\)":\[[^]]*' <<<"$out" |
        grep -o '[0-9][0-9,]*$' | tr ',' '\n' | awk '{ n += $1 } END { print n + 0 }') = "$2" ]]
}

# hears TEXT: `one` has heard this from the other.
hears() {
    admin=${admins[one]}
    tell /v1/daemons
    has "${out#*\"self\":false}" "$1"
}

# both WHAT WORD...: two daemons with these words. 14:00 to 14:02.
both() {
    local what=$1

    up one "${@:2}"
    up two "${@:2}"
    clocks 00:00
    check "$what: they know each other" until_ knows one 2
    check "$what: both of them" until_ knows two 2
    clocks 00:10
    http=${https[one]}
    for _ in 1 2 3 4 5; do ask_for ann /x; done
    http=${https[two]}
    for _ in 1 2 3 4 5 6 7; do ask_for bob-the-other /x; done
    for minute in 00:20 00:30 00:40; do clocks "$minute"; done
    check "$what: the counts are summed" until_ sums all 12
    check "$what: this one alone has its own" sums "" 5
    check "$what: the other has told of a caller" until_ hears '\"denied\":'
    check "$what: by its hash" hears '\"hash\":\"#'
    check "$what: not by its name" [ "$(grep -c bob-the-other <<<"$out")" = 0 ]
    check "$what: and of its state" hears 'sluice_waiting 0'
    tell /v1/history?daemon=63
    check "$what: no such daemon" answers 404
}

# ---- a database ----

up none --store memory: --usage none
tell /v1/daemons
check 'a daemon that shares nothing is alone' has "$out" '"self":true'
check 'and the sum of all is its own' eval 'tell /v1/history?daemon=all; answers 200'
stop

both database --store memory: --usage 'sqlite:./books.db?shared'
check 'no name is in the database' [ "$(cat ./books.db* | grep -ac bob-the-other)" = 0 ]

# What the last minutes would have been, of one daemon.
admin=${admins[one]}
sed 's,3/day,5/day,' p.yaml >new.yaml
tell '/v1/policy/check?minutes=10' --data-binary @new.yaml
check 'a candidate' has "$out" '"requests":5,"denied":2,"active":2,"candidate":0,"newly_denied":0,"newly_allowed":2'
tell '/v1/policy/check' --data-binary @new.yaml
check 'only if it is asked' [ "$(grep -c what_if <<<"$out")" = 0 ]
for bad in minutes=0 minutes=61 minutes=x hours=1; do
    tell "/v1/policy/check?$bad" --data-binary @new.yaml
    check "refused: $bad" answers 400
done

# One is killed: it is forgotten, and what it counted is not.
kill -9 "$pid"
clocks_of_one() {
    admin=${admins[one]}
    clock "2026-11-15T14:$1Z"
    tell /v1/history
}
clocks_of_one 02:00
check 'a daemon that was killed is left out' until_ knows one 1
stop

# ---- a Redis store ----

redis_start
both store --store "$store" --usage none

finish
