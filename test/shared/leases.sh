#!/usr/bin/env bash
# leases.sh SLUICED SLUICED-TEST SLUICE -- two daemons that lease from one
# Redis: never more than the limit, and what is not spent goes back.

# shellcheck source=test/support/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"

cat >p.yaml <<'EOF'
sluice: 1
env: test
limits:
  window: { kind: fixed-window, per: user, rate: 400/3000d, lease: 20% }
  bucket: { kind: token-bucket, per: user, rate: 1/day burst 400, lease: 20% }
  big: { kind: fixed-window, per: user, rate: 1M/3000d, lease: 1% }
  tenant: { kind: fixed-window, per: org, rate: 1M/3000d, lease: 1% }
routes:
  - { match: /window, limits: [window] }
  - { match: /bucket, limits: [bucket] }
  - { match: /set, limits: [big, tenant] }
default: []
EOF

redis_start
share -c p.yaml --threads 2
first=$http first_admin=$admin first_pid=$pid
share -c p.yaml --threads 2
second=$http second_pid=$pid

# both HOW USER PATH: load on both, for seconds or until they have refused for
# some time
both() {
    load "$1" 4 "{\"path\":\"$3\",\"user\":\"$2\",\"org\":\"$2\"}" "$first" \
        "$second"
}

# bounded NAME MOST: not more, not much less, and no daemon decided alone
bounded() {
    check "$1: $allowed of $2 pass at two daemons" test "$allowed" -le "$2"
    check "$1: and most of them" test "$allowed" -ge $(($2 / 2))
    check "$1: Redis was there" test "$outage $unanswered $degraded" = '0 0 0'
}

both refused ann /window
bounded 'a window' 400
window=$allowed
both refused ann /bucket
bounded 'a bucket' 400
both 3 eve /set
check 'a set that is leased is decided' test "$allowed" -gt 0
set=$allowed

admin=$first_admin
leased=$(metric 'sluice_store_takes_total{result="leased"}')
check "many are decided without Redis ($leased)" test "${leased:-0}" -gt 100
check 'what was leased is counted' test \
    "$(metric sluice_store_leased_units_total)" -gt 0
check 'and nothing was spent twice' test \
    "$(metric sluice_store_lease_overshoot_units_total)" = 0

kill -TERM "$first_pid" "$second_pid"
until_ gone "$first_pid"
until_ gone "$second_pid"
check 'daemons that end give back what they have not spent' test \
    "$(used sluice:test:window:user:ann) $(used sluice:test:big:user:eve)" = \
    "$window $set"
check 'of all limits of a set' test "$(used sluice:test:tenant:org:eve)" = "$set"

finish
