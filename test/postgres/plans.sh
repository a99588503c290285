#!/usr/bin/env bash
# plans.sh -- two daemons on one PostgreSQL: overage and credits are split at the
# change of a plan, whichever daemon is told what. The steps are the table of
# docs/guide/usage.md.

# shellcheck source=test/postgres/postgres.sh
. "$(dirname "${BASH_SOURCE[0]}")/postgres.sh"

cat >p.yaml <<'EOT'
sluice: 1
plans: { default: pro, pro: { overage: true } }
limits:
  minutes: { kind: quota, per: org, rate: 100/month }
routes:
  - { job: transcribe, limits: [minutes] }
default: []
EOT

both

# turn: the daemons take turns.
turns=0
turn() {
    turns=$((turns + 1))
    http=$a_http admin=$a_admin
    ((turns % 2 == 0)) || http=$b_http admin=$b_admin
}

# numbers HOST: "LIMIT USED OVERAGE CREDITED" of the organisation.
numbers() {
    fetch "http://$1/v1/usage/org/$org?limit=minutes&days=0"
    sed -n 's/.*"used":\([0-9]*\),"limit":\([a-z0-9]*\),.*"overage":\([0-9]*\),"credited":\([0-9]*\),.*/\2 \1 \3 \4/p' \
        <<<"$out" | sed 's/^null/unlimited/'
}

both_show() {
    [[ $(numbers "$a_http") = "$1" && $(numbers "$b_http") = "$1" ]]
}

# decides HOST QUOTA: its decisions have the quota.
decides() {
    fetch "http://$1/v1/check" -d "{\"job\":\"transcribe\",\"org\":\"$org\",\"cost\":0}"
    has "$out" "\"limit\":${2/unlimited/null},"
}

# use AMOUNT: half by a report, half by a decision of the other daemon.
use() {
    turn
    report "{\"org\":\"$org\",\"limit\":\"minutes\",\"amount\":$(($1 / 2))}"
    turn
    ask /v1/check -d "{\"job\":\"transcribe\",\"org\":\"$org\",\"cost\":$(($1 - $1 / 2))}"
    has "$out" '"allowed":true'
}

quota() {
    local rate=$1

    [[ $1 = unlimited ]] || rate=$1/month
    tell "/v1/subjects/org/$org" -X PATCH -d "{\"overrides\":{\"minutes\":\"$rate\"}}"
    answers 200 && until_ decides "$a_http" "$1" && until_ decides "$b_http" "$1"
}

refund() {
    report "{\"org\":\"$org\",\"limit\":\"minutes\",\"amount\":$1,\"release\":true}"
    answers 200
}

credit() {
    tell "/v1/credits/org/$org" -d "{\"limit\":\"minutes\",\"amount\":$1}"
    answers 200
}

steps=0
while IFS='|' read -r _ step quota used overage credited _; do
    read -r what amount _ <<<"${step//\*/}"
    case $step in
    *\*\**)
        org=${step//[^a-z]/}
        turn
        tell "/v1/subjects/org/$org" -X PUT -d '{"plan":"pro"}'
        check "$org: a new organisation" quota "${quota// /}"
        continue
        ;;
    esac
    turn
    check "$org: $what $amount" "$what" "$amount"
    want=$quota$used$overage$credited
    want=${want//  / } want=${want# } want=${want% }
    check "$org: both have $want" until_ both_show "$want"
    steps=$((steps + 1))
done < <(sed -n '/^| step | quota/,/^$/p' "$root/docs/guide/usage.md" | sed 1,2d | grep '^|')
check 'the guide has a table' [ "$steps" -ge 25 ]

finish
