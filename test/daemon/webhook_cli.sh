#!/usr/bin/env bash
# webhook_cli.sh -- `sluice webhook`: endpoints, messages, the log and replays of
# a daemon, on the virtual clock.
#
# shellcheck disable=SC2016,SC2001 # conditions are evaluated later

# shellcheck source=test/support/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"

background dest.log python3 "$here/destination.py" port hits
until_ test -s port
dest=http://127.0.0.1:$(<port)
: >>hits
cat >p.yaml <<'EOF'
sluice: 1
limits: { deliveries: { kind: quota, per: org, rate: 1000/day } }
default: []
webhooks: { quota: deliveries, destination: unlimited, allow: [127.0.0.0/8], insecure: true }
EOF
start_virtual -c p.yaml --threads 1 --store memory: --usage sqlite:./books.db
export SLUICE_URL=http://$http
clock 2026-11-15T12:00:00Z

webhook() {
    run "$sluice" webhook "$@"
}

# ---- endpoints ----

webhook endpoint add acme "$dest/ok" 'events=order.*,invoice.paid' 'metadata={"team":"a"}'
check 'an endpoint is added' is 0
check 'its secret is printed' has "$out" 'secret  whsec_'
check 'with a word that it is not shown again' has "$err" 'not shown again'
id=$(sed -n 's/^id  *//p' <<<"$out")
webhook endpoint list acme
check 'it is listed' has "$out" "$id"
check 'with its events' has "$out" 'order.*,invoice.paid'
webhook endpoint show "$id"
check 'and shown' has "$out" 'state       enabled'
check 'with its metadata' has "$out" 'metadata    {"team":"a"}'
check 'without the secret' eval '! has "$out" whsec_'
webhook endpoint set "$id" 'events=*' contact=false
check 'it is changed' test "$status-$out" = "0-$id is changed"
webhook endpoint show "$id" -o json
check 'JSON has the change' has "$out" '"events":["*"]'
webhook endpoint rotate "$id" keep=1h
check 'its secret is rotated' has "$out" 'the old secret is valid until 2026-11-15T13:00:00Z'
webhook endpoint ping "$id"
check 'a ping is sent' has "$out" msg_
check 'and arrives' until_ grep -qF webhook.ping hits
webhook endpoint disable "$id" 'reason=unpaid since May'
check 'it is disabled' test "$status-$out" = "0-$id is disabled"
webhook endpoint show "$id"
check 'with the reason' has "$out" 'reason      unpaid since May'
webhook endpoint ping "$id"
check 'a ping to it fails' is 2
check 'and says why' has "$err" 'is disabled (unpaid since May)'
webhook endpoint enable "$id"
check 'it is enabled' test "$status-$out" = "0-$id is enabled"

# ---- messages ----

echo '{"n": 1}' >body.json
webhook message send acme order.paid body.json key=k1
check 'a message is sent' is 0
first=$out
check 'and its id printed' has "$first" msg_
check 'it arrives' until_ grep -qF "\"id\": \"$first\"" hits
webhook message send acme order.paid - key=k1 <body.json
check 'the key finds it again, from standard input' test "$out" = "$first"
check 'and says so' has "$err" 'was sent before'
webhook message send acme refund.made body.json
other=$out
until_ eval 'webhook message show "$other"; has "$out" delivered'
clock 2026-11-15T12:10:00Z
webhook message send acme order.late body.json
check 'a third arrives' until_ grep -qF "\"id\": \"$out\"" hits
webhook message list acme
check 'messages are listed, the newest first' test "$(sed -n '2s/.*\(order\.[a-z]*\).*/\1/p' <<<"$out")" = order.late
check 'all of them' test "$(grep -c msg_ <<<"$out")" = 4
webhook message list acme 'type=order.*'
check 'by type' test "$(grep -c msg_ <<<"$out")" = 2
webhook message list acme type=order.paid
check 'by exact type' test "$(grep -c msg_ <<<"$out")" = 1
webhook message list from=2026-11-15T12:05:00Z
check 'by time, of all organisations' test "$(grep -c msg_ <<<"$out")" = 1
webhook message list acme limit=1 -o json
last=$(sed 's/.*"id":"\([^"]*\)".*/\1/' <<<"$out")
webhook message list acme "before=$last" -o json
check 'and in pages' test "$(grep -o '"id":' <<<"$out" | wc -l)" = 3
webhook message list other
check 'not those of others' eval '! has "$out" msg_'
check 'a message is shown' until_ eval 'webhook message show "$first"; has "$out" delivered'
check 'with its attempts' has "$out" '200'
webhook attempts acme result=delivered "message=$other"
check 'the log has filters' test "$(grep -c "$other" <<<"$out")" = 1

# ---- replay ----

webhook replay "$first"
check 'one message is sent again' test "$status-$out" = '0-1 message will be sent again'
check 'it arrives again' until_ eval '[[ $(grep -cF "\"id\": \"$first\"" hits) = 2 ]]'
webhook replay "$id" from=2026-11-15T11:00:00Z to=2026-11-15T12:05:00Z 'type=order.*'
check 'or those of a time and type' has "$out" '1 message will be sent again'
check 'which arrive' until_ eval '[[ $(grep -cF "\"id\": \"$first\"" hits) = 3 ]]'

# ---- slips ----

webhook endpoint add acme
check 'a missing URL' has "$err" 'write: sluice webhook endpoint add ORG URL'
check 'is misuse' is 2
webhook endpoint ad acme "$dest/ok"
check 'a slip' has "$err" 'did you mean add?'
webhook endpoint
check 'no action' has "$err" 'add, list, show, set, rotate, enable, disable, remove or ping'
webhook endpoint set "$id" evnets=a
check 'an unknown setting' has "$err" 'unknown setting "evnets=a"; valid are url=, events=, metadata=, contact='
webhook endpoint set "$id" 'metadata={"a":1},"enabled":false'
check 'metadata that is not JSON' has "$err" 'metadata is not JSON'
echo '1,"org":"other"' >bad.json
webhook message send acme order.paid bad.json
check 'a payload that is not JSON' has "$err" 'bad.json is not JSON'
webhook message send acme order.paid missing.json
check 'a missing file' has "$err" missing.json
webhook endpoint set "$id" contact=maybe
check 'a flag that is none' has "$err" 'contact must be true or false'
webhook replay "$id"
check 'a replay of everything needs a time' has "$err" 'from=TIME'
webhook replay order-7
check 'a replay of no id' has "$err" 'is not the id of a message (msg_...)'
webhook endpoint show ep_none
check 'an unknown endpoint' has "$err" 'there is no endpoint ep_none'
webhook endpoint add acme https://10.0.0.1/
check 'a refused URL, with the reason' has "$err" '10.0.0.1 is private'
webhook nothing
check 'an unknown action' has "$err" 'unknown action "nothing"'

webhook endpoint remove "$id"
check 'an endpoint is removed' test "$status-$out" = "0-$id is removed"
webhook endpoint list acme
check 'and gone' eval '! has "$out" "$id"'
stop
check 'the daemon ends' is 0
finish
