#!/usr/bin/env bash
# webhooks.sh SLUICED SLUICED-TEST SLUICE -- what the packages of Standard Webhooks,
# Svix and Stripe sign we verify, and what we sign and send they verify. ed25519
# (v1a) is that of node.
# shellcheck disable=SC2001 # sed is clearer
# shellcheck source=test/support/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"
modules=${SLUICE_NODE_MODULES:-$root/build/node_modules}

theirs() {
    node "$here/webhooks.js" "$modules" "$@"
}

# ours VERB SCHEME SECRET BODY WORD...
ours() {
    printf '%s\n' "$3" >secret
    printf %s "$4" | "$sluice" webhook "$1" --scheme "$2" \
        --secret-file secret "${@:5}" -
}

now=$(date +%s)
secret=whsec_$(head -c 32 /dev/urandom | base64 -w 0)
for body in '{"type":"done"}' '{"text":"größer als €5 — ☃"}' \
    "{\"long\":\"$(head -c 60000 /dev/zero | tr '\0' x)\"}"; do
    for id in msg_1 msg_p5jXN8AQM9LWM0D4loKWxJek; do
        signature=$(theirs sign-standard "$secret" "$id" "$now" "$body")
        run ours verify standard-webhooks "$secret" "$body" --id "$id" \
            --timestamp "$now" --signature "v1,AAAA $signature"
        check "standardwebhooks signs, we verify: ${#body} bytes" is 0
        run ours verify standard-webhooks "$secret" "$body." --id "$id" \
            --timestamp "$now" --signature "$signature"
        check 'and nothing else' has "$err" 'its signature is wrong'
        run ours sign standard-webhooks "$secret" "$body" --id "$id" \
            --timestamp "$now"
        signature=$(sed -n 's/^webhook-signature: //p' <<<"$out")
        run theirs verify-standard "$secret" "$id" "$now" "$signature" "$body"
        check 'we sign, standardwebhooks verifies' test "$out" = good
    done
    signature=$(theirs sign-stripe "$secret" "$now" "$body")
    run ours verify stripe "$secret" "$body" --signature "$signature"
    check "stripe signs, we verify: ${#body} bytes" is 0
    run ours verify stripe "$secret." "$body" --signature "$signature"
    check 'and by no other secret' has "$err" 'its signature is wrong'
    run ours sign stripe "$secret" "$body" --timestamp "$now"
    run theirs verify-stripe "$secret" \
        "$(sed -n 's/^stripe-signature: //p' <<<"$out")" "$body"
    check 'we sign, stripe verifies' test "$out" = good
done
run ours verify standard-webhooks "$secret" x --id m --timestamp 1 \
    --signature "$(theirs sign-standard "$secret" m 1 x)"
check 'an old one is refused, and why is said' has "$err" \
    'it was sent too long ago'

# ---- svix and ed25519 ----

body='{"text":"größer als €5"}'
signature=$(theirs sign-svix "$secret" msg_1 "$now" "$body")
run ours verify standard-webhooks "$secret" "$body" --id msg_1 \
    --timestamp "$now" --signature "$signature"
check 'svix signs, we verify' is 0
read -r private public < <(theirs make-key; echo)
signature=$(theirs sign-v1a "$private" msg_1 "$now" "$body")
run ours verify standard-webhooks "$public" "$body" --id msg_1 \
    --timestamp "$now" --signature "v1,AAAA $signature"
check 'node signs by ed25519, we verify' is 0
run ours verify standard-webhooks "$public" "$body." --id msg_1 \
    --timestamp "$now" --signature "$signature"
check 'and nothing else' has "$err" 'its signature is wrong'
run ours verify standard-webhooks "$secret" "$body" --id msg_1 \
    --timestamp "$now" --signature "$signature"
check 'nor by a secret' has "$err" 'its signature is wrong'
forged=$(theirs sign-standard "${public#whpk_}" msg_1 "$now" "$body")
run ours verify standard-webhooks "$public" "$body" --id msg_1 \
    --timestamp "$now" --signature "$forged"
check 'a public key is no secret' has "$err" 'its signature is wrong'
run ours sign standard-webhooks "$public" "$body"
check 'and signs nothing' is 1

# ---- what a daemon sends ----

background dest.log python3 "$root/test/daemon/destination.py" port hits
until_ test -s port
: >>hits
cat >p.yaml <<EOF
sluice: 1
limits: { any: { kind: fixed-window, per: user, rate: 1/s } }
default: [any]
webhooks: { destination: unlimited, allow: [127.0.0.0/8], insecure: true }
EOF
start -c p.yaml --threads 1 --store memory: --usage sqlite:./books.db
# sent ORG [MEMBERS]: leaves the headers of a message, and its secret.
sent() {
    ask /v1/webhooks/endpoints -d \
        "{\"org\":\"$1\",\"url\":\"http://127.0.0.1:$(<port)/$1\"${2-}}"
    secret=$(member secret)
    secret=${secret//\"/}
    ask /v1/webhooks/messages -d "{\"org\":\"$1\",\"type\":\"a\",\"payload\":$body}"
    until_ grep -qF "\"/$1\"" hits
    hit=$(grep -F "\"/$1\"" hits | head -n 1)
    id=$(sed 's/.*"id": "\([^"]*\)".*/\1/' <<<"$hit")
    stamp=$(sed 's/.*"timestamp": "\([0-9]*\)".*/\1/' <<<"$hit")
    signature=$(sed 's/.*"signature": "\([^"]*\)".*/\1/' <<<"$hit")
}

sent acme
for who in standard svix; do
    run theirs "verify-$who" "$secret" "$id" "$stamp" "$signature" "$body"
    check "a daemon sends, $who verifies" test "$out" = good
done
sent keyed ',"signature":"v1a"'
check 'an endpoint with v1a shows a public key' has "$secret" whpk_
run theirs verify-v1a "$secret" "$id" "$stamp" "$signature" "$body"
check 'a daemon signs by ed25519, node verifies' test "$out" = good
run ours verify standard-webhooks "$secret" "$body" --id "$id" \
    --timestamp "$stamp" --signature "$signature"
check 'and so do we' is 0
stop
check 'the daemon ends' is 0
finish
