#!/usr/bin/env bash
# webhooks_changed.sh -- an endpoint that fails gets 20 attempts and no more, and
# one that is changed, disabled or deleted gets nothing of what was claimed
# before: without a pace, so that a claim has several, and on a clock that hardly
# moves, so that no attempt is repeated.
#
# shellcheck disable=SC2016 # conditions are evaluated later

# shellcheck source=test/support/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"

background dest.log python3 "$here/destination.py" port hits
until_ test -s port
dest=http://127.0.0.1:$(<port)
: >>hits
cat >p.yaml <<END
sluice: 1
server: { deadline: 5s }
limits: { any: { kind: fixed-window, per: user, rate: 1/s } }
default: [any]
webhooks: { destination: unlimited, allow: [127.0.0.0/8], insecure: true }
END
start_virtual -c p.yaml --threads 1 --store memory: \
    --usage "${SLUICE_TEST_POSTGRES:-sqlite:./books.db}"

clock 2026-11-15T12:00:00Z

# hits PATH: how many requests it got.
hits() {
    grep -cF "\"path\": \"$1\"" hits
}

has_hits() {
    [[ $(hits "$1") = "$2" ]]
}

# queue PATH: a new endpoint that all messages are queued for at once; leaves
# $endpoint.
queue() {
    ask /v1/webhooks/endpoints -d "{\"org\":\"acme\",\"url\":\"$dest$1\"}"
    endpoint=$(member id)
    endpoint=${endpoint//\"/}
    ask "/v1/webhooks/endpoints/$endpoint/replay" -d '{}'
    check "$1: messages are queued" has "$out" '"queued":28'
}

# change SECOND MEMBERS: at another time than the one when it was made
change() {
    clock "2026-11-15T12:00:0$1Z"
    ask "/v1/webhooks/endpoints/$endpoint" -X PATCH -d "$2"
    check 'it is changed' answers 200
}

is_disabled() {
    ask "/v1/webhooks/endpoints/$endpoint"
    has "$out" '"enabled":false'
}

# Nothing is being sent.
idle() {
    [[ $(metric sluice_webhook_sending) = 0 ]]
}

# Without an endpoint that gets them.
ask /v1/webhooks/endpoints -d "{\"org\":\"acme\",\"url\":\"$dest/ok\",\"events\":[\"no\"]}"
for ((i = 0; i < 28; i++)); do
    ask /v1/webhooks/messages -d '{"org":"acme","type":"a","payload":1}'
done
check 'there are messages' answers 202

queue /status/500
check '20 failures disable it' until_ is_disabled
check 'nothing is being sent then' until_ idle
check 'and it got 20 attempts' has_hits /status/500 20

queue /status/429
check 'one that is slow gets the first one' until_ has_hits /status/429 1
check 'and no other' until_ idle
check 'of all that were claimed' has_hits /status/429 1

queue /status/410
check 'one that is gone is disabled' until_ is_disabled
check 'and idle' until_ idle
check 'after one attempt' has_hits /status/410 1

# Each gets its answer on a connection of its own.
queue /once
all_delivered() {
    ask "/v1/webhooks/attempts?endpoint=$endpoint&limit=100"
    [[ $(grep -o '"result":"delivered"' <<<"$out" | wc -l) = 28 ]]
}
check 'a connection that the server has closed is no failure' until_ all_delivered
check 'of any of them' eval '[[ $out != *'"'"'"result":"retry"'"'"'* ]]'

# The first attempt fails when the file is there. Then the others are sent, but
# for the change.
queue /until/moved/500
check 'the first one arrives' until_ has_hits /until/moved/500 1
change 1 "{\"url\":\"$dest/ok?moved\"}"
touch moved
check 'the others go to the new URL' until_ has_hits '/ok?moved' 27
check 'and none to the old one' has_hits /until/moved/500 1

queue /until/stopped/500
check 'the first one arrives' until_ has_hits /until/stopped/500 1
change 2 '{"enabled":false}'
touch stopped
check 'an endpoint that is disabled by hand gets nothing more' until_ idle
check 'at all' has_hits /until/stopped/500 1

queue /until/deleted/500
check 'the first one arrives' until_ has_hits /until/deleted/500 1
ask "/v1/webhooks/endpoints/$endpoint" -X DELETE
touch deleted
check 'nor does one that is deleted' until_ idle
check 'at all' has_hits /until/deleted/500 1
end_by TERM
check 'the daemon ends' is 0
finish
