#!/usr/bin/env bash
# webhooks.sh SLUICE -- what the packages of Standard Webhooks and of Stripe
# sign we verify, and what we sign they verify.
sluice=$(realpath "$1")
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
finish
