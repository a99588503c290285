#!/usr/bin/env bash
# penalties.sh SLUICED SLUICED-TEST SLUICE -- two daemons on one Redis: a caller
# that one of them blocks is blocked at the other, failures are counted once, and
# neither a refusal nor a block costs a question more.

# shellcheck source=test/support/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"

cat >p.yaml <<'EOF'
sluice: 1
env: test
limits:
  login:
    kind: fixed-window
    per: user
    rate: 2/3000d
    key: "rl:{name}:{scope}:{id}:{window_start}"
    penalty: { after: 5, within: 1h, block: 1h }
routes:
  - { match: /login, limits: [login] }
default: []
EOF

redis_start
share -c p.yaml --threads 1
first=$http first_pid=$pid
share -c p.yaml --threads 1

# at LISTENER USER: the verdict.
at() {
    fetch "http://$1/v1/check" -d '{"path":"/login","user":"'"$2"'"}'
}
asked() {
    metric 'sluice_store_takes_total{result="answered"}'
}

at "$first" ann
at "$http" ann
check 'both pass' has "$out" '"allowed":true'
# The daemon asks something of its own now and then: the fewest are counted.
fewest=99
for i in 1 2 3 4; do
    before=$(asked)
    at "$http" ann
    questions=$(($(asked) - before))
    check "refusal $i" has "$out" '"code":"RATE_LIMITED"'
    fewest=$((questions < fewest ? questions : fewest))
done
check 'one question each' test "$fewest" -eq 1
at "$first" ann
check 'the fifth refusal is one of the limit' has "$out" '"code":"RATE_LIMITED"'
check 'with a key of its own' test \
    "$(redis-cli -s "$socket" KEYS 'rl:login:user:ann:0#penalty')" = \
    'rl:login:user:ann:0#penalty'
at "$http" ann
check 'then the caller is blocked at the other' has "$out" '"code":"BLOCKED"'
ms=$(member retry_after_ms)
check 'for an hour' test "$ms" -gt 3500000 -a "$ms" -le 3600000
at "$first" ann
check 'and here' has "$out" '"code":"BLOCKED"'
at "$http" bob
check 'another caller passes' has "$out" '"allowed":true'

# ---- failed attempts ----

fetch "http://$first/v1/usage" -d '{"limit":"login","user":"eve","failed":4}'
check 'four failed attempts' has "$out" '"recorded":true,"blocked":false'
fetch "http://$http/v1/usage" -d '{"limit":"login","user":"eve","failed":1}'
check 'and one elsewhere block' has "$out" '"recorded":true,"blocked":true'
at "$first" eve
check 'everywhere' has "$out" '"code":"BLOCKED"'

# ---- the end of a daemon, a reset ----

kill "$first_pid"
until_ gone "$first_pid"
stop
share -c p.yaml --threads 1
at "$http" eve
check 'restarts keep it' has "$out" '"code":"BLOCKED"'
run "$sluice" reset login eve --admin-url "http://$admin"
at "$http" eve
check 'a reset ends it' has "$out" '"allowed":true'
finish
