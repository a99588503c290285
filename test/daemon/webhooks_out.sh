#!/usr/bin/env bash
# webhooks_out.sh -- webhooks that go out: endpoints, messages, the schedule of
# attempts, pace, quota, rotation, replay and refusals, on the virtual clock.
#
# The destination is destination.py; $folder/files/hits has a line for each
# request that it got.
#
# shellcheck disable=SC2016,SC2001 # conditions are evaluated later

# shellcheck source=test/support/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"

background dest.log python3 "$here/destination.py" port hits
until_ test -s port
dest=http://127.0.0.1:$(<port)
: >>hits

# write_policy WEBHOOKS
write_policy() {
    cat >p.yaml <<EOF
sluice: 1
server: { deadline: 5s }
plans: { default: free, free: {}, small: {} }
limits:
  deliveries: { kind: quota, per: org, rate: { free: unlimited, small: 3/day } }
default: []
webhooks: { quota: deliveries, allow: [127.0.0.0/8], insecure: true${1-} }
EOF
}

write_policy
books=${SLUICE_TEST_POSTGRES:-sqlite:./books.db}
start_virtual -c p.yaml --threads 1 --store memory: --usage "$books"

# set_clock SECONDS: after noon. What is in flight is finished before.
noon=$(date -d 2026-11-15T12:00:00Z +%s)
set_clock() {
    until_ idle
    clock "$(date -u -d "@$((noon + $1))" +%Y-%m-%dT%H:%M:%SZ)"
}

# Nothing is being sent, and nothing that is due waits.
idle() {
    [[ $(metric sluice_webhook_sending) = 0 ]]
}

# advance FROM STEP COND...: moves the clock until it is true. A step may pass
# before the sender has looked, so that their number does not matter.
advance() {
    local from=$1 step=$2 i j

    shift 2
    for ((i = 0; i < 200; i++)); do
        set_clock $((from + step * i))
        for ((j = 0; j < 20; j++)); do
            "$@" && return
            sleep 0.02
        done
    done
    return 1
}

# endpoint ORG PATH [MEMBERS]: leaves $endpoint and $secret.
endpoint() {
    ask /v1/webhooks/endpoints -d "{\"org\":\"$1\",\"url\":\"$dest$2\"${3-}}"
    endpoint=$(member id) secret=$(member secret)
    endpoint=${endpoint//\"/} secret=${secret//\"/}
}

# message ORG [TYPE [MEMBERS]]: leaves $message.
message() {
    ask /v1/webhooks/messages \
        -d "{\"org\":\"$1\",\"type\":\"${2-order.paid}\",\"payload\":{\"n\":1}${3-}}"
    message=$(member id)
    message=${message//\"/}
}

# hits PATH: how many requests it got.
hits() {
    grep -cF "\"path\": \"$1\"" hits
}

has_hits() {
    [[ $(hits "$1") = "$2" ]]
}

# is_state MESSAGE STATE: of its first delivery.
is_state() {
    ask "/v1/webhooks/messages/$1"
    [[ $out =~ \"deliveries\":\[\{[^}]*\"state\":\"$2\" ]]
}

set_clock 0

# ---- a message ----

endpoint acme /ok ',"events":["order.*"],"metadata":{"team":"a"}'
check 'an endpoint is created' answers 201
check 'with a secret' has "$secret" whsec_
acme=$endpoint acme_secret=$secret
ask "/v1/webhooks/endpoints/$acme"
check 'which is not shown again' eval '! has "$out" whsec_'
check 'it has its members' has "$out" '"events":["order.*"],"metadata":{"team":"a"},"enabled":true'
ask '/v1/webhooks/endpoints?org=acme'
check 'and is in the list' has "$out" "$acme"
message acme order.paid ',"idempotency_key":"k1"'
check 'a message is accepted' answers 202
first=$message
check 'and arrives' until_ has_hits /ok 1
check 'with its id' has "$(<hits)" "\"id\": \"$first\""
check 'it is delivered' until_ is_state "$first" delivered
check 'the log has the answer' has "$out" '"status":200,"result":"delivered"'
check 'but no text of an address that only allow has opened' has "$out" '"answer":""'
ask "/v1/webhooks/attempts?org=acme&message=$first"
check 'it has filters' has "$out" "$first"
ask '/v1/webhooks/attempts?org=acme&message=msg_none'
check 'for organisation and message together' has "$out" '"attempts":[]'
ask /v1/webhooks/endpoints/
check 'an endpoint without an ID is not found' answers 404
line=$(head -n 1 hits)
stamp=$(sed 's/.*"timestamp": "\([0-9]*\)".*/\1/' <<<"$line")
signature=$(sed 's/.*"signature": "\([^"]*\)".*/\1/' <<<"$line")
printf '%s' "$acme_secret" >secret
printf '{"n":1}' >body.json
run "$sluice" webhook verify --scheme standard-webhooks --secret-file secret \
    --id "$first" --timestamp "$stamp" --signature "$signature" \
    --now 2026-11-15T12:00:00Z body.json
check 'sluice webhook verify accepts it' is 0
message acme order.paid ',"idempotency_key":"k1"'
check 'a repeated key is the same message' test "$message" = "$first"
ask /v1/webhooks/messages -d '{"org":"acme","type":"order.paid","payload":{"n":2},"idempotency_key":"k1"}'
check 'another message with the key is refused' answers 422
message acme invoice.paid
check 'a type without an endpoint goes nowhere' has "$out" '"deliveries":0'

# ---- bad input ----

message none
check 'an unknown organisation is refused' answers 404
ask /v1/webhooks/endpoints -d '{"org":"acme","url":"https://10.0.0.1/"}'
check 'a private address is refused' answers 400
check 'with the reason' has "$out" '10.0.0.1 is private (10.0.0.0/8)'
ask /v1/webhooks/endpoints -d '{"org":"acme","url":"https://user@example.com/"}'
check 'credentials are refused' has "$out" 'has credentials'
ask /v1/webhooks/endpoints -d '{"org":"acme","url":"https://example.com/","events":["a b"]}'
check 'a bad event type is refused' has "$out" 'an event type is'
ask /v1/webhooks/endpoints -d '{"org":"acme"}'
check 'a missing URL is refused' has "$out" '\"url\" is missing'
ask /v1/webhooks/messages -d '{"org":"acme","payload":1}'
check 'a missing type is refused with a message that is right' has "$out" \
    '\"type\" is missing; send {\"org\":\"acme\",\"type\"'
for type in 'order paid' 'order.*' 'ordré'; do
    ask /v1/webhooks/messages -d "{\"org\":\"acme\",\"type\":\"$type\",\"payload\":1}"
    check "\"$type\" is no type of a message" has "$out" 'must be letters, digits'
done
ask /v1/webhooks/messages -d '{"org":"acme","type":"order.paid"}'
check 'a missing payload is refused' has "$out" '\"payload\" is missing'
ask /v1/webhooks/messages -d '{"org":"acme","type":"order.paid","payload":{"n":}}'
check 'a broken payload is refused' has "$out" 'is not JSON'
head -c 262145 /dev/zero | tr '\0' 1 >large
printf '{"org":"acme","type":"order.paid","payload":"%s"}' "$(<large)" >large.json
ask /v1/webhooks/messages -d @large.json
check 'a payload that is too large is refused' answers 413
ask /v1/webhooks/messages/msg_none
check 'an unknown message is not found' answers 404
ask /v1/webhooks/messages/msg_none/replay -X POST
check 'nor can it be replayed' has "$out" 'there is no message msg_none,'
ask /v1/webhooks/endpoints/ep_none -X DELETE
check 'an unknown endpoint is not found' answers 404
ask /v1/webhooks/endpoints/ep_none/rotate -d '{}'
check 'by its own name' has "$out" 'there is no endpoint ep_none;'
ask "/v1/webhooks/endpoints/$acme/replay" -d '{"from":"2026-11-15T12:00:00Z","to":"2026-11-15T11:00:00Z"}'
check 'a range that ends before it begins is refused' has "$out" 'is after'
ask "/v1/webhooks/endpoints/$acme/replay" -d '{"type":"order paid"}'
check 'and so is one of what is no type' has "$out" 'an event type is'
ask "/v1/webhooks/endpoints/$acme/rotate" -d "{\"signature\":\"v1a\",\"secret\":\"$acme_secret\"}"
check 'a secret of v1 does not sign v1a' has "$out" 'v1a needs a secret that begins with whsk_'
ask "/v1/webhooks/endpoints/$acme/rotate" -d "{\"signature\":\"v1\",\"secret\":\"whsk_$(head -c 32 /dev/zero | base64)\"}"
check 'nor the other way' has "$out" 'v1 needs a secret that begins with whsec_'
ask /v1/webhooks/endpoints -d '{"organisation":"acme"}'
check 'an unknown member is named' has "$out" 'of a webhook endpoint'
check 'nothing of it was sent' has_hits /ok 1

# ---- the pace: evenly spaced, so that no window of 10 s has more than 5 ----

set_clock 100
for ((i = 0; i < 12; i++)); do message acme; done
last=$message
check 'one is sent at once' until_ has_hits /ok 2
for ((i = 1; i < 12; i++)); do
    set_clock $((100 + 2 * i - 1))
    until_ idle
    early=$(hits /ok)
    set_clock $((100 + 2 * i))
    until_ has_hits /ok $((i + 2)) || break
    ((early == i + 1)) || break
done
check 'then one every 2 s, and none earlier' test "$i" = 12
check 'the last one is delivered' until_ is_state "$last" delivered
check 'waiting for the pace is counted' test "$(metric sluice_webhook_paced_total)" -gt 0
check 'in the order of the messages' test "$(grep -F '"/ok"' hits | sed 's/.*"id": "\([^"]*\)".*/\1/' |
    tail -n 1)" = "$last"

# ---- the schedule ----

set_clock 1000
endpoint beta /status/500
message beta
retried=$message
check 'a first attempt fails' until_ has_hits /status/500 1
check 'and the message waits' until_ is_state "$retried" waiting
now=1000 n=1
for delay in 5 30 120 600 3600; do
    set_clock $((now + delay * 79 / 100))
    until_ idle
    has_hits /status/500 "$n" || break
    now=$((now + delay * 12 / 10 + 1)) n=$((n + 1))
    set_clock "$now"
    until_ has_hits /status/500 "$n" || break
done
check 'the attempts come after 5 s, 30 s, 2 min, 10 min and 1 h' test "$n" = 6
check 'then the message is dead' until_ is_state "$retried" dead
check 'each attempt is in the log' test "$(grep -o '"attempt":[0-9]' <<<"$out" | wc -l)" = 6
ask '/v1/webhooks/attempts?org=beta&result=failed&limit=2'
check 'which has filters and pages' test "$(grep -o '"number":' <<<"$out" | wc -l)" = 2
ask '/v1/webhooks/attempts?org=beta&result=delivered'
check 'of successes, too' has "$out" '"attempts":[]'
tell '/v1/webhooks/attempts?org=beta&result=failed&limit=2'
check 'the admin listener has the log' test "$(grep -o '"number":' <<<"$out" | wc -l)" = 2
tell '/v1/webhooks/messages?org=beta&limit=1001'
check 'and bounds its pages' answers 400
tell "/v1/webhooks/messages/$retried"
check 'it shows the deliveries of a message' has "$out" '"state":"dead","attempts":6'
check 'without the payload' eval '! has "$out" payload'
tell '/v1/webhooks/messages' -d '{"org":"beta","type":"a","payload":1}'
check 'and accepts no messages' answers 405
tell "/v1/webhooks/messages/$retried/replay" -X POST
check 'a dead message can be replayed' answers 202
tell '/v1/audit?limit=1'
check 'which is in the audit' has "$out" "$retried"
set_clock $((now + 2))
check 'and is sent again' until_ has_hits /status/500 7

# ---- failures in a row disable ----

set_clock 10000
for ((i = 0; i < 13; i++)); do message beta; done
advance 10000 2 said 'webhook endpoint disabled'
ask "/v1/webhooks/endpoints/$endpoint"
check '20 failures in a row disable the endpoint' has "$out" '"enabled":false,"reason":"20 attempts in a row failed"'
check 'after exactly so many attempts' has_hits /status/500 20
check 'and it has no next time' has "$out" '"next":null'
check 'it is logged' said 'webhook endpoint disabled'
waiting=$(curl -s "http://$http/v1/webhooks/messages/$message")
check 'its messages stay' has "$waiting" '"state":"disabled"'
check 'and have no next time either' eval '[[ ${waiting%%\"attempts\":\[*} != *\"next\"* ]]'
ask "/v1/webhooks/endpoints/$endpoint/ping" -X POST
check 'a ping to it is refused' answers 409
check 'with the reason' has "$out" 'is disabled (20 attempts in a row failed)'
set_clock 19000
check 'what waits for it does not count as late' until_ eval \
    '[[ $(metric sluice_webhook_waiting)-$(metric sluice_webhook_oldest_seconds) =~ ^0-[0.]+$ ]]'
ask "/v1/webhooks/endpoints/$endpoint" -X PATCH -d "{\"enabled\":true,\"url\":\"$dest/enabled\"}"
check 'it can be enabled' answers 200
check 'and then they are sent' until_ has_hits /enabled 1
check 'all of them' advance 20000 2 has_hits /enabled 14
check 'a success resets the count' until_ eval \
    'ask "/v1/webhooks/endpoints/$endpoint"; has "$out" "\"failures\":0"'

# ---- answers that are special ----

set_clock 30000
endpoint gone /status/410
message gone
check 'a first message' until_ has_hits /status/410 1
check '410 disables at once' until_ eval \
    'ask "/v1/webhooks/endpoints/$endpoint"; has "$out" "answered 410 Gone"'
endpoint redirected /redirect
message redirected
check 'a redirect is a failure' until_ is_state "$message" waiting
check 'and is not followed' has_hits /ok 13
endpoint slow '/status/429?after=8'
message slow
check '429 slows the endpoint' until_ is_state "$message" waiting
check 'Retry-After is honoured' has "$out" '"next":"2026-11-15T20:20:08Z"'
set_clock 30003
message slow
until_ idle
check 'the next message waits, too' has_hits '/status/429?after=8' 1
set_clock 30008
check 'until the time has come' until_ has_hits '/status/429?after=8' 2
set_clock 30100
endpoint long_after '/status/429?after=3600'
message long_after
check 'a Retry-After of an hour' until_ is_state "$message" waiting
check 'is honoured up to twice the delay' has "$out" '"next":"2026-11-15T20:21:50Z"'
ask "/v1/webhooks/endpoints/$endpoint"
check 'and stops the endpoint for no longer' has "$out" '"next":"2026-11-15T20:21:50Z"'
set_clock 30109
until_ idle
check 'nothing is sent before' has_hits '/status/429?after=3600' 1
set_clock 30110
check 'and then it is' until_ has_hits '/status/429?after=3600' 2
endpoint long /long
message long
check 'an endless answer is cut' until_ is_state "$message" delivered
endpoint fields /fields
message fields
check 'header fields without end are a failure' until_ is_state "$message" waiting
check 'with the reason' has "$out" 'header fields of the answer are larger'

# ---- rotation ----

set_clock 40000
ask "/v1/webhooks/endpoints/$acme/rotate" -d '{"keep":"1h"}'
new_secret=$(member secret)
new_secret=${new_secret//\"/}
check 'a secret is rotated' has "$new_secret" whsec_
# valid SECRET: is the last message at /ok signed with it?
valid() {
    line=$(grep -F '"/ok"' hits | tail -n 1)
    printf '%s' "$1" >secret
    run "$sluice" webhook verify --scheme standard-webhooks \
        --secret-file secret --tolerance 3650d \
        --id "$(sed 's/.*"id": "\([^"]*\)".*/\1/' <<<"$line")" \
        --timestamp "$(sed 's/.*"timestamp": "\([0-9]*\)".*/\1/' <<<"$line")" \
        --signature "$(sed 's/.*"signature": "\([^"]*\)".*/\1/' <<<"$line")" \
        body.json
    is 0
}
message acme
until_ has_hits /ok 14
check 'the new one signs' valid "$new_secret"
check 'and the old one, too' valid "$acme_secret"
set_clock 44000
message acme
until_ has_hits /ok 15
check 'after the hour only the new one' valid "$new_secret"
check 'and not the old one' eval '! valid "$acme_secret"'
ask "/v1/webhooks/endpoints/$acme/ping" -X POST
check 'a ping is sent' answers 202
set_clock 44002
check 'and arrives' until_ grep -qF webhook.ping hits
ask "/v1/webhooks/endpoints/$acme/replay" -d '{"from":"2026-11-15T12:00:00Z","to":"2026-11-15T12:01:00Z"}'
check 'a range is replayed' has "$out" '"queued":1'
ask "/v1/webhooks/endpoints/$acme/replay" -d '{"from":"2026-11-15T12:00:00Z","to":"2026-11-15T12:01:00Z","type":"*"}'
check 'a type adds nothing that the endpoint has not subscribed to' has "$out" '"queued":1'
ask "/v1/webhooks/endpoints/$acme/replay" -d '{"from":"2026-11-15T12:00:00Z","to":"2026-11-15T12:01:00Z","type":"invoice.*"}'
check 'it only narrows' has "$out" '"queued":0'

# ---- the quota ----

set_clock 50000
endpoint tiny /tiny
endpoint tiny /tiny2
tell /v1/subjects/org/tiny -X PUT -d '{"plan":"small"}'
for ((i = 0; i < 3; i++)); do message tiny; done
check 'three messages are in the quota' answers 202
message tiny order.paid ',"idempotency_key":"cap"'
check 'the fourth is refused' answers 402
check 'with the reason' has "$out" 'is used up'
tell /v1/subjects/org/tiny -X PATCH -d '{"plan":"free"}'
message tiny order.paid ',"idempotency_key":"cap"'
check 'a larger plan accepts it' answers 202
tell /v1/subjects/org/tiny -X PATCH -d '{"plan":"small"}'
message tiny order.paid ',"idempotency_key":"cap"'
check 'its repeat is accepted at the cap, too' answers 202
tell /v1/blocks/org/tiny -d '{"note":"unpaid"}'
message tiny
check 'a blocked organisation is not told of its quota' answers 403
tell /v1/blocks/org/tiny -X DELETE
write_policy ', at_cap: hold'
tell /v1/policy -X POST
check 'at_cap: hold' answers 200
message tiny
check 'accepts a message beyond the quota' answers 202
check 'and says until when it is held' has "$out" '"held_until":"2026-11-17T00:00:00Z"'
held=$message
check 'the others are sent' advance 50000 2 has_hits /tiny 4
check 'the held one waits' is_state "$held" waiting
set_clock 140000
check 'until the quota has room' until_ is_state "$held" delivered
check 'at all endpoints' advance 140000 2 grep -qF "\"path\": \"/tiny2\", \"id\": \"$held\"" hits
ask /v1/usage/org/tiny?days=0
check 'and then it counts, once' has "$out" '"used":1'

# ---- contacts ----

set_clock 200000
endpoint delta /status/404
endpoint delta /contact ',"contact":true'
message delta
check 'a contact is told of a dead message' advance 200000 4400 \
    grep -qF webhook.message_dead hits
check 'and gets no other messages' eval '! grep -F "\"/contact\"" hits | grep -qF "\"n\""'

# ---- retention ----

set_clock $((45 * 86400))
check 'after 30 days a message is deleted' until_ eval \
    'ask "/v1/webhooks/messages/$first"; answers 404'

# ---- a refusal of the policy counts for stored URLs, too ----

set_clock $((45 * 86400 + 100))
endpoint plain /plain
message plain
until_ has_hits /plain 1
write_policy
sed -i 's/insecure: true/insecure: false/' p.yaml
tell /v1/policy -X POST
set_clock $((45 * 86400 + 110))
message plain
check 'http is refused after insecure: false' until_ is_state "$message" waiting
check 'with the reason' has "$out" 'only allowed with webhooks.insecure'
check 'and not sent' has_hits /plain 1
write_policy
tell /v1/policy -X POST

# ---- a retry is sent while first attempts wait for one that hangs ----

set_clock $((46 * 86400))
endpoint stuck /stuck
message stuck
retried=$message
check 'a first attempt fails' until_ is_state "$retried" waiting
clock 2026-12-31T12:00:02Z
for ((i = 0; i < 20; i++)); do message stuck; done
check 'the next one hangs' until_ has_hits /stuck 2
clock 2026-12-31T12:00:12Z
check 'the retry is sent beside it' until_ has_hits /stuck 3
check 'it is the retry' has "$(tail -n 1 hits)" "\"id\": \"$retried\""

# ---- a long URL is kept ----

endpoint lengthy /short
long=$dest/$(printf 'x%.0s' {1..1900})
ask "/v1/webhooks/endpoints/$endpoint" -X PATCH -d "{\"url\":\"$long\"}"
check 'a URL of 1900 bytes is accepted' answers 200
ask "/v1/webhooks/endpoints/$endpoint"
check 'and stored as it is' has "$out" "\"url\":\"$long\""

# ---- members that are null ----

ask "/v1/webhooks/endpoints/$endpoint"
before=${out%,\"updated*}
ask "/v1/webhooks/endpoints/$endpoint" -X PATCH \
    -d '{"url":null,"events":null,"metadata":null,"enabled":null,"contact":null,"queued":null}'
check 'a change to nothing is accepted' answers 200
ask "/v1/webhooks/endpoints/$endpoint"
check 'and changes nothing' test "${out%,\"updated*}" = "$before"

# ---- the end ----

ask "/v1/webhooks/endpoints/$acme" -X DELETE
check 'an endpoint is deleted' answers 200
message acme
check 'and gets nothing any more' answers 404
check 'no secret is in the log' eval '! grep -q "whsec_" "$log"'
stop
check 'the daemon ends' is 0

# ---- the store of the quota is away: with a PostgreSQL it is not in the store ----

for cap in refuse hold; do
    [[ -z ${SLUICE_TEST_POSTGRES-} ]] || break
    write_policy ", at_cap: $cap"
    start_virtual -c p.yaml --threads 1 --store redis://127.0.0.1:1 --usage "$books"
    clock 2027-01-02T12:00:00Z
    tell /v1/subjects/org/tiny -X PUT -d '{"plan":"small"}'
    message tiny
    check "at_cap: $cap: a store that is away is no used up quota" answers 503
    check 'the answer says what it is' has "$out" 'The store is not available'
    check 'and nothing of the quota' eval '[[ $out != *"used up"* && $out != *held_until* ]]'
    stop
done
finish
