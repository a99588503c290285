#!/usr/bin/env bash
# near_cap.sh -- four daemons on one usage database use up a quota: to the last
# unit, with small leases, and with less and less that is not recorded.

# shellcheck source=test/support/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"

cat >p.yaml <<'EOF'
sluice: 1
limits:
  units: { kind: quota, per: org, rate: 4000/month, deny: { status: 402 } }
routes: [{ job: work, limits: [units] }]
default: []
EOF
past_midnight

pids=() where=()
for _ in 1 2 3 4; do
    start -c p.yaml --threads 1 --store memory: --journal none --deadline 5s \
        --usage 'sqlite:./u.db?shared'
    pids+=("$pid")
    where+=("$http,$admin")
done
read -r passed leased unspent < <(
    python3 "$here/near_cap.py" u.db 4000 "${where[@]}")
echo "# $passed passed, at most $leased leased, $unspent unspent near the end"
check 'all units pass, and no more' test "$passed" = 4000
# 5 %, the units of eight requests, and 1 % at each daemon before it writes.
check 'little is leased and not recorded' test "$leased" -le $((200 + 32 + 160))
# 1 %, and the units of eight requests.
check 'near the cap hardly anything is unspent' test "$unspent" -le $((40 + 8))
for pid in "${pids[@]}"; do
    kill "$pid"
    until_ gone "$pid"
done
finish
