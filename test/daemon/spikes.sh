#!/usr/bin/env bash
# spikes.sh -- credits that pay for spikes of a rate, with their database.

# shellcheck source=test/support/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"

cat >p.yaml <<'EOF'
sluice: 1
limits:
  minute: { kind: fixed-window, per: user, rate: 2/min, credits: spikes }
  spikes: { kind: quota, per: org, rate: 3/month }
default: [minute]
EOF
books=${SLUICE_TEST_POSTGRES:-sqlite:./books.db}
begin() {
    start_virtual -c p.yaml --threads 1 --store memory:table --usage "$books" \
        --deadline 5s
    clock 2026-11-15T12:00:00Z
}
# gets STATUS [MEMBERS]: what a request of acme gets.
gets() {
    ask /v1/check -d "{\"path\":\"/x\",\"user\":\"ann\",\"org\":\"acme\"${2-}}"
    has "$out" "\"status\":$1,"
}
# used NUMBER: is it the usage of the credits?
used() {
    ask '/v1/usage/org/acme?limit=spikes'
    has "$out" "\"used\":$1,"
}

begin
check 'the rate' gets 200
check 'pays first' gets 200
check 'no credits are used' used 0
check 'then the credits' gets 200
check 'which the verdict shows' has "$out" '"credits":1'
check 'with what is left' has "$out" '"name":"spikes","kind":"quota","plan":"default","scope":"org","limit":3,"burst":3,"remaining":2,'
ask /v1/explain -d '{"path":"/x","user":"ann","org":"acme"}'
check 'it is explained' has "$out" 'denies, and 1 credits of spikes pay'
check 'as a whole' gets 200 ',"cost":2'
check 'the usage database has them' until_ used 3
check 'then the rate denies' gets 429
check 'with its own numbers' has "$out" '"by":"minute"'
check 'also by the name of the limit' has "$(ask /v1/check \
    -d '{"limit":"minute","key":"ann","org":"acme"}'; echo "$out")" '"status":429'
tell /v1/credits/org/acme -d '{"limit":"spikes","amount":2}'
check 'granted credits count' gets 200
stop
begin
check 'a restart forgets nothing' gets 200
check 'of them' gets 429
check 'all are recorded' until_ used 5
stop
finish
