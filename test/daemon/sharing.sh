#!/usr/bin/env bash
# sharing.sh SLUICED SLUICED-TEST SLUICE -- a usage database that was of one
# daemon is shared from now on, and the other way round: what was used stays
# used, once, and held units stay held.

# shellcheck source=test/support/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"

cat >p.yaml <<'EOT'
sluice: 1
limits:
  links: { kind: level, per: org, rate: 10 }
  minutes: { kind: quota, per: org, rate: 10/month }
routes:
  - { job: links, limits: [links] }
  - { job: minutes, limits: [minutes] }
EOT

declare -A pids hosts admins logs

# up NAME WORD: a daemon of this name; WORD is "" or "?shared".
up() {
    start -c p.yaml --usage "sqlite:./books.db$2" --deadline 6s --threads 2 \
        --store "memory:./$1.state"
    pids[$1]=$pid hosts[$1]=$http admins[$1]=$admin logs[$1]=$log
}

# at NAME: the one that is meant from now on.
at() {
    pid=${pids[$1]} http=${hosts[$1]} admin=${admins[$1]} log=${logs[$1]}
}

# take LIMIT [REST]
take() {
    ask /v1/check -d "{\"job\":\"$1\",\"org\":\"acme\"${2-}}"
    has "$out" '"allowed":true,'
}

# takes LIMIT COUNT NAME...: takes at these until so many were taken, and no
# more. Units that a daemon does not need are back after a moment.
takes() {
    taken=0
    until_ take_all "$@" || return 1
    for name in "${@:3}"; do
        at "$name"
        ! take "$1" || return 1
    done
}

take_all() {
    for name in "${@:3}"; do
        at "$name"
        while ((taken < $2)) && take "$1"; do
            taken=$((taken + 1))
        done
    done
    ((taken == $2))
}

# used LIMIT COUNT: the meter shows this.
used() {
    ask /v1/usage/org/acme
    grep -q "\"name\":\"$1\",[^{}]*\"used\":$2," <<<"$out"
}

# hold LIMIT COST
declare -A holds
hold() {
    take "$1" ",\"cost\":$2,\"hold\":\"1h\"" || return 1
    holds[$1]=$(sed -n 's/.*"hold":"\([^"]*\)".*/\1/p' <<<"$out")
}

settle() {
    ask "/v1/holds/${holds[$1]}/settle" -d "{\"cost\":$2}"
    answers 200
}

for limit in links minutes; do
    up one ''
    for _ in 1 2 3; do take "$limit"; done
    check "$limit: some are taken, some held" hold "$limit" 4
    end_by KILL

    up one '?shared'
    up two '?shared'
    check "$limit: shared from now on, the rest is there" takes "$limit" 3 two one
    at one
    check "$limit: the hold is settled" settle "$limit" 1
    check "$limit: what it did not use is there, once" takes "$limit" 3 one two
    check "$limit: all is recorded" until_ used "$limit" 10

    # Things go, or are refunded, at the other daemon.
    at two
    report "{\"org\":\"acme\",\"limit\":\"$limit\",\"amount\":6,\"release\":true}"
    check "$limit: some go" answers 200
    at one
    check "$limit: some come, some are held" until_ hold "$limit" 2
    take "$limit"
    take "$limit"
    check "$limit: they count" until_ used "$limit" 8
    at two
    stop
    at one
    end_by KILL

    up one ''
    check "$limit: not shared any more, the rest is there" takes "$limit" 2 one
    check "$limit: the hold is settled, too" settle "$limit" 1
    check "$limit: and its rest is there" takes "$limit" 1 one
    check "$limit: all is recorded once" until_ used "$limit" 10
    end_by KILL
    up one ''
    check "$limit: a restart changes nothing" used "$limit" 10
    check "$limit: nor grants more" takes "$limit" 0 one
    stop
    check "$limit: it ends well" is 0
done
finish
