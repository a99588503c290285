#!/usr/bin/env bash
# repeats.sh SLUICED SLUICED-TEST SLUICE -- two daemons know each other's keys,
# webhooks and backlogs, on a Redis and on a database that they share; and a
# daemon with a state file knows its own after a kill.

# shellcheck source=test/support/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"

cat >p.yaml <<'EOT'
sluice: 1
env: test
identity: { trusted_proxies: [127.0.0.1], user: header.x-user }
limits:
  api: { kind: fixed-window, per: user, rate: 100/3000d }
  paid: { kind: fixed-window, per: user, rate: 100/3000d, on_store_failure: deny }
  jobs: { kind: fixed-window, per: [], rate: 1000/3000d }
routes:
  - match: POST /hook
    verify: { scheme: hmac-sha256, secret: "It's a Secret to Everybody" }
    limits: [jobs]
  - { match: POST /event, dedupe: body./id, limits: [api] }
  - job: transcribe
    backlog: { max: 10, retry_after: 7s, stale: 1h }
    limits: [jobs]
  - { match: /paid, limits: [paid] }
  - { match: /x, limits: [api] }
default: [jobs]
EOT
good=sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17

# keyed USER KEY [PATH [MORE]]: one check with an idempotency key.
keyed() {
    ask /v1/check -d "{\"path\":\"${3-/x}\",\"user\":\"$1\",\
\"idempotency_key\":\"$2\"${4-}}"
}

event() {
    ask /v1/check -d "{\"method\":\"POST\",\"path\":\"/event\",\"user\":\"ann\",\
\"body\":\"{\\\"id\\\":\\\"$1\\\"}\"}"
}

hook() {
    ask /v1/auth -X POST -H 'X-Original-URI: /hook' \
        -H 'X-Original-Method: POST' -H "X-Hub-Signature-256: $good" \
        -d 'Hello, World!'
}

# charged USER WANT: that many units, whatever is asked now.
charged() {
    ask /v1/check -d "{\"path\":\"/x\",\"user\":\"$1\",\"cost\":0}"
    [[ $(member remaining) = $((100 - $2)) ]]
}

works() {
    keyed probe "$RANDOM$RANDOM"
    has "$out" '"allowed":true' && has "$out" '"degraded":false'
}

deep() {
    ask /v1/check -d '{"job":"transcribe"}'
    has "$out" '"status":503'
}

# ---- what the first daemon has answered, the second repeats ----

first_says() {
    keyed ann k1
    check "$1: the first request is charged" has "$out" '"remaining":99'
    check "$1: and is not degraded" has "$out" '"degraded":false'
    event e1
    check "$1: an event" has "$out" '"remaining":98'
    hook
    check "$1: a webhook" answers 200
    ask /v1/backlog/transcribe -X PUT -d '{"depth":11}'
    check "$1: a backlog" answers 200
    out=
}

second_repeats() {
    keyed ann k1
    check "$1: a repeat elsewhere has the same numbers" \
        has "$out" '"remaining":99'
    check "$1: and says so" has "$out" '"Idempotency-Replayed":"true"'
    keyed ann k1 /x ',"cost":2'
    check "$1: the key of another request is refused" has "$out" '"status":422'
    event e1
    check "$1: a repeated event" has "$out" '"Idempotency-Replayed":"true"'
    hook
    check "$1: an identical webhook is answered as the first" answers 200
    check "$1: as a repeat" test "$(field idempotency-replayed)" = true
    check "$1: and the backlog is known" until_ deep
    check "$1: all of it was charged once" charged ann 2
}

# ---- Redis ----

redis_start
share -c p.yaml --threads 2
first_says redis
stop
share -c p.yaml --threads 2
one=$http
second_repeats redis
share -c p.yaml --threads 2
two=$http
second_repeats 'redis, a third daemon'

# both N: the same key at both daemons at once, N times.
both() {
    local i a
    for ((i = 0; i < $1; i++)); do
        body="{\"path\":\"/x\",\"user\":\"bob\",\"idempotency_key\":\"b$i\"}"
        curl -s --max-time 30 "http://$one/v1/check" -d "$body" >/dev/null &
        a=$!
        curl -s --max-time 30 "http://$two/v1/check" -d "$body" >/dev/null
        wait "$a"
    done
}
both 20
check 'redis: a race is charged once for each key' charged bob 20

# While Redis is away: `deny` refuses, the others decide and say so.
redis_kill
keyed cid k9 /paid
check 'redis is gone: a key whose limit denies then gets 503' has "$out" '"status":503'
keyed cid k9
check 'and otherwise the answer is degraded' has "$out" '"degraded":true'
stop
http=$one

# ---- a database ----

shared() {
    start -c p.yaml --store memory: --usage "$books" --deadline 10s \
        --threads 2 && until_ works
}
for books in 'sqlite:./books.db?shared' ${SLUICE_TEST_POSTGRES-}; do
    shared
    first_says database
    end_by KILL
    shared
    one=$http
    keyed ann k1
    check 'database: a repeat elsewhere has the same numbers' \
        has "$out" '"remaining":99'
    check 'database: and says so' has "$out" '"Idempotency-Replayed":"true"'
    event e1
    check 'database: a repeated event' has "$out" '"Idempotency-Replayed":"true"'
    hook
    check 'database: an identical webhook' answers 200
    check 'database: is a repeat' test "$(field idempotency-replayed)" = true
    check 'database: the backlog is known' until_ deep
    stop
done

# ---- a state file ----

start -c p.yaml --store memory:./state --usage none --threads 2
first_says file
end_by KILL
start -c p.yaml --store memory:./state --usage none --threads 2
second_repeats file
end_by KILL
start -c p.yaml --store memory:./state --usage none --threads 2
second_repeats 'file, once more'
stop

finish
