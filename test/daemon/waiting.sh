#!/usr/bin/env bash
# waiting.sh -- checks that wait for their turn: served by a release, by the
# clock, on whatever thread; denied; and a client that leaves is passed over.

# shellcheck source=test/support/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"

cat >p.yaml <<'EOF'
sluice: 1
limits:
  one: { kind: concurrency, per: [], rate: 1, hold: 30s, queue: 3 }
  drip: { kind: token-bucket, per: org, rate: 1/10s }
routes:
  - { match: /one, limits: [one], wait: 20s }
  - { match: /drip, limits: [drip] }
  - { job: envoy, limits: [one], wait: 20s }
default: []
EOF

# Ask in the background; the verdict goes to a file.
waiters=()
wait_for() { # FILE BODY
    curl -s -m 60 -o "$1" "http://$http/v1/check" -d "$2" &
    waiters+=($!)
}

waiting() {
    tell /metrics
    grep -q "^sluice_waiting $1\$" <<<"$out"
}

hold_in() {
    local rest=${1#*\"hold\":\"}

    echo "${rest%%\"*}"
}

is_allowed() {
    [[ -s $1 ]] && has "$(cat "$1")" '"allowed":true'
}

release() {
    ask "/v1/holds/$1/release" -X POST
}

start_virtual -c p.yaml --listen-resp 127.0.0.1:0
ask /v1/check -d '{"path":"/one","org":"a"}'
first=$(hold_in "$out")
check 'a permit is taken' has "$out" '"hold_expires_ms":30000'
ask /json -d '{"domain":"envoy","descriptors":[{"entries":[{"key":"org","value":"z"}]}]}'
check 'descriptors of Envoy do not wait' has "$out" '"overallCode":"OVER_LIMIT"'
ask /json -H 'Origin: http://page.example' -d '{"domain":"envoy"}'
check 'and pages do not send any' answers 403
wait_for b '{"path":"/one","org":"b"}'
until_ waiting 1
check 'the next one waits, as the route says' test ! -s b
wait_for c '{"path":"/one","org":"c"}'
until_ waiting 2
wait_for d '{"path":"/one","org":"b","wait":"5s"}'
until_ waiting 3
ask /v1/check -d '{"path":"/one","org":"e"}'
check 'a full queue is 503' has "$out" '"status":503'
check 'with a time to come back' has "$out" '"Retry-After":"'
release "$first"
until_ is_allowed b
check 'a release is the turn of the first' is_allowed b
check 'and no other' test ! -s c
tell /v1/clock -d '{"now":"1970-01-01T00:00:05Z"}'
until_ test -s d
check 'a wait ends in its time' has "$(cat d)" '"status":503'

kill "${waiters[1]}"
until_ waiting 0
check 'a client that goes away is noticed' waiting 0
wait_for f '{"path":"/one","org":"f","wait":"50s"}'
until_ waiting 1
tell /v1/clock -d '{"now":"1970-01-01T00:00:29.999Z"}'
check 'a silent holder keeps the permit for its time' test ! -s f
tell /v1/clock -d '{"now":"1970-01-01T00:00:30Z"}'
until_ is_allowed f
check 'and not more' is_allowed f

ask /v1/check -d '{"path":"/drip","org":"a"}'
wait_for g '{"path":"/drip","org":"a","wait":"15s"}'
until_ waiting 1
ask /v1/check -d '{"path":"/drip","org":"a","wait":"15s"}'
check 'an estimate that is too long is told at once' \
    has "$out" '"retry_after_ms":20000'
ask /v1/check -d '[{"path":"/drip","org":"a","wait":"15s"}]'
check 'the checks of an array do not wait' has "$out" '"status":429'
tell /v1/clock -d '{"now":"1970-01-01T00:00:40Z"}'
until_ is_allowed g
check 'a token serves a waiter' is_allowed g
tell /metrics
check 'turns are counted' has "$out" 'sluice_turns_total{result="granted"} 3'
check 'and how long they took' has "$out" 'sluice_turn_wait_seconds_count'
check 'and holds' has "$out" 'sluice_held '

wait_for h '{"path":"/one","org":"h","wait":"20s"}'
until_ waiting 1
stop
check 'it ends though a client waits' is 0
until_ test -s h
check 'which gets 503' has "$(cat h)" '"status":503'

# ---- several threads, real time ----

sed -i 's/rate: 1, hold: 30s, queue: 3/rate: 1, hold: 30s/' p.yaml
start -c p.yaml --store memory: --threads 3
ask /v1/check -d '{"path":"/one","org":"a"}'
hold=$(hold_in "$out")
for i in {1..8}; do
    wait_for "t$i" "{\"path\":\"/one\",\"org\":\"o$i\",\"wait\":\"50s\"}"
done
until_ waiting 8
check 'eight wait, on all threads' waiting 8
served=0
for _ in {1..8}; do
    release "$hold"
    someone() {
        for i in {1..8}; do
            [[ -s t$i && ! -e seen$i ]] && touch "seen$i" &&
                hold=$(hold_in "$(cat "t$i")") && return
        done
        return 1
    }
    until_ someone && served=$((served + 1))
done
check 'each is served' test "$served" = 8
release "$hold"
ask /v1/check -d '{"path":"/one","org":"a","wait":"1s"}'
check 'and the permit is back' has "$out" '"allowed":true'
stop
check 'it ends' is 0

finish
