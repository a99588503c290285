#!/usr/bin/env bash
# guards.sh -- webhooks, repeats and backlogs over all protocols of a daemon.

# shellcheck source=test/support/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"

cat >p.yaml <<'EOT'
sluice: 1
identity: { trusted_proxies: [127.0.0.1], user: header.x-user }
limits:
  api: { kind: fixed-window, per: user, rate: 5/3000d }
  jobs: { kind: fixed-window, per: [], rate: 1000/3000d }
routes:
  - match: POST /hook
    verify: { scheme: hmac-sha256, secret: "It's a Secret to Everybody" }
    limits: [jobs]
  - match: POST /once
    dedupe: header.idempotency-key
    limits: [api]
  - job: transcribe
    backlog: { max: 10, retry_after: 7s }
    limits: [jobs]
  - { match: /x, limits: [api] }
default: [jobs]
EOT
start -c p.yaml --store memory: --threads 2

# ---- webhooks ----

good=sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17
printf %s "It's a Secret to Everybody" >secret
hook() {
    ask /v1/auth -X POST -H 'X-Original-URI: /hook' \
        -H 'X-Original-Method: POST' "$@"
}
hook -H "X-Hub-Signature-256: $good"
check 'a proxy that sends no body is told so' answers 401
check 'in words' has "$out" 'its body is missing'
hook -H "X-Hub-Signature-256: $good" -d 'Hello, World?'
check 'a body that is not signed' answers 401
hook -H "X-Hub-Signature-256: $good" -H "X-Hub-Signature-256: $good" \
    -d 'Hello, World!'
check 'a header that is there twice' answers 401
hook -H "X-Hub-Signature-256: $good" -d 'Hello, World!'
check 'a good one' answers 200
hook -H "X-Hub-Signature-256: $good" -d 'Hello, World!'
check 'and once more' answers 200
check 'is a repeat' test "$(field idempotency-replayed)" = true

# signed BODY: its header, by our own hand.
signed() {
    printf %s "$1" | "$sluice" webhook sign --scheme hmac-sha256 \
        --secret-file secret - | sed 's/.*: //'
}
checked() {
    ask /v1/check -d "{\"method\":\"POST\",\"path\":\"/hook\",\"headers\":
        {\"x-hub-signature-256\":\"$1\"},$2}"
}
checked "$(signed one)" '"body":"one"'
check 'an application sends the body as text' has "$out" '"allowed":true'
checked "$(signed two)" '"body_base64":"dHdv"'
check 'or in base64' has "$out" '"allowed":true'
checked "$(signed two)" '"body_base64":"dHdvcg"'
check 'which is strict' answers 400
checked "$(signed two)" '"body_base64":"dHdv","body":"two"'
check 'and not both' answers 400
big=$(head -c 100000 /dev/zero | tr '\0' x)
checked "$(signed "$big")" "\"body\":\"$big\""
check 'a large one' has "$out" '"allowed":true'

# ---- repeats ----

once() {
    ask /v1/check -H "Idempotency-Key: $1" \
        -d "{\"path\":\"/x\",\"user\":\"$2\",\"request_id\":\"r\"}"
}
once k1 ann
first=$out
once '"k1"' ann
check 'the key of the call, quoted or bare' has "$out" \
    '"Idempotency-Replayed":"true"'
check 'the numbers of the first' has "$out" '"remaining":4'
check 'but for that header the same' test \
    "$(sed 's/"Idempotency-Replayed":"true",//; s/Idempotency-Replayed, //' \
        <<<"$out")" = "$first"
once k1 bob
check "another's key is another" has "$out" '"remaining":4'
check 'and no repeat' test "${out/Replayed/}" = "$out"
ask /v1/check -H 'Idempotency-Key: k1' -d '{"path":"/x","user":"ann","cost":2}'
check 'the same key for something else' has "$out" '"status":422'
ask /v1/check -H 'Idempotency-Key: k1' -H 'Idempotency-Key: k1' \
    -d '{"path":"/x"}'
check 'two keys' answers 400
ask /v1/check -d '{"path":"/x","idempotency_key":""}'
check 'an empty key' answers 400
ask /v1/check -H 'Idempotency-Key: k2' \
    -d '[{"path":"/x","user":"cid"},{"path":"/x","user":"cid"}]'
check 'checks of an array are not repeats of each other' has "$out" \
    '"remaining":3'
ask /v1/check -H 'Idempotency-Key: k2' \
    -d '[{"path":"/x","user":"cid"},{"path":"/x","user":"cid"}]'
check 'the whole array again is' test \
    "$(grep -o 'Replayed":"true"' <<<"$out" | wc -l)" = 2
proxied() {
    ask /v1/auth -X POST -H "X-Original-URI: $1" -H 'X-Original-Method: POST' \
        -H 'X-User: dan' -H 'Idempotency-Key: k3'
}
proxied /once
proxied /once
check "a client's own key, where a route asks for it" has "$fields" \
    'Idempotency-Replayed: true'
proxied /x
proxied /x
check 'and nowhere else' test "${fields/Replayed/}" = "$fields"

# Each of many at once is the first, a repeat, or told to wait; one pays.
askers=()
for i in {1..20}; do
    curl -sS --max-time 10 "http://$http/v1/check" -H 'Idempotency-Key: k9' \
        -d '{"path":"/x","user":"eve"}' >"many.$i" &
    askers+=("$!")
done
wait "${askers[@]}"
ask /v1/check -d '{"path":"/x","user":"eve","cost":0}'
check 'of twenty with one key one has paid' has "$out" '"remaining":4'

# ---- backlogs ----

ask /v1/backlog
check 'nothing was reported' test "$out" = \
    '{"backlogs":[{"name":"transcribe","depth":null,"age_ms":null}]}'
ask /v1/backlog/transcribe -X PUT -d '{"depth":11}'
check 'a report' has "$out" '{"name":"transcribe","depth":11,"age_ms":'
ask /v1/check -d '{"job":"transcribe"}'
check 'closes the route' has "$out" '"status":503'
check 'for as long as it says' has "$out" '"Retry-After":"7"'
tell /metrics
check 'a gauge shows it' has "$out" 'sluice_backlog_depth{backlog="transcribe"} 11'
run "$sluice" backlog transcribe 10 --url "http://$http"
check 'the program reports' has "$out" 'transcribe  10  '
ask /v1/check -d '{"job":"transcribe"}'
check 'and the route is open' has "$out" '"status":200'
run "$sluice" backlog --url "http://$http" -o json
check 'it shows them all' has "$out" '"depth":10'
for bad in '{"depth":-1}' '{"depth":1.5}' '{"depth":"9"}' '{}' 'x'; do
    ask /v1/backlog/transcribe -X PUT -d "$bad"
    check "$bad is no depth" answers 400
done
ask /v1/backlog/other -X PUT -d '{"depth":1}'
check 'no such backlog' answers 404
run "$sluice" backlog other 1 --url "http://$http"
check 'which the program says' has "$err" 'no route of the policy has a backlog'
tell /v1/backlog/transcribe -X PUT -d '{"depth":12}'
check 'the admin listener takes it too' answers 200

stop
check 'and it ends as asked' is 0
finish
