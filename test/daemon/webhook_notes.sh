#!/usr/bin/env bash
# webhook_notes.sh -- notes to the contacts of an organisation and to the
# operator: thresholds, overage, overrides, switches, dead messages and disabled
# endpoints, with a rate of their own, on the virtual clock.
#
# shellcheck disable=SC2016 # conditions are evaluated later

# shellcheck source=test/support/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"

background dest.log python3 "$here/destination.py" port hits
until_ test -s port
dest=http://127.0.0.1:$(<port)
: >>hits
cat >p.yaml <<EOF
sluice: 1
server: { deadline: 5s }
plans: { default: free, free: {}, large: { overage: true } }
limits:
  calls: { kind: quota, per: org, rate: 10/day, thresholds: [80%, 90%, 100%] }
default: [calls]
features: { exports: { enabled: true } }
webhooks: { destination: unlimited, allow: [127.0.0.0/8], insecure: true, operator: ops }
EOF
start_virtual -c p.yaml --threads 1 --store memory: \
    --usage "${SLUICE_TEST_POSTGRES:-sqlite:./books.db}"

# endpoint ORG PATH [MEMBERS]
endpoint() {
    ask /v1/webhooks/endpoints -d "{\"org\":\"$1\",\"url\":\"$dest$2\"${3-}}"
}

message() {
    ask /v1/webhooks/messages -d "{\"org\":\"$1\",\"type\":\"a\",\"payload\":1}"
}

# notes PATH TYPE: how many it got.
notes() {
    grep -F "\"path\": \"$1\"" hits | grep -cF "\\\"type\\\":\\\"$2\\\""
}

has_notes() {
    [[ $(notes "$1" "$2") = "$3" ]]
}

use() {
    ask /v1/check -d "{\"limit\":\"calls\",\"key\":\"$1\",\"org\":\"$1\",\"cost\":$2}"
}

clock 2026-11-15T12:00:00Z
endpoint acme /contact ',"contact":true'
endpoint ops /ops ',"contact":true'
endpoint ops /ops-usage ',"contact":true,"events":["usage.*"]'
check 'there are contacts' answers 201

# ---- usage ----

use acme 8
check '80 % of a quota are told' until_ has_notes /contact usage.threshold 1
check 'to the operator, too' until_ has_notes /ops usage.threshold 1
check 'by type' until_ has_notes /ops-usage usage.threshold 1
use acme 1
check '90 %' until_ has_notes /contact usage.threshold 2
use acme 1
check '100 %' until_ has_notes /contact usage.exhausted 1
check 'with the numbers' has "$(grep usage.exhausted hits)" \
    '{\"org\":\"acme\",\"limit\":\"calls\",\"scope\":\"org\",\"id\":\"acme\",\"mark\":100,\"used\":10,\"of\":10}'
tell /v1/subjects/org/big -X PUT -d '{"plan":"large"}'
use big 12
check 'overage begins, and the operator is told without a contact' \
    until_ has_notes /ops usage.overage 1
use acme 1
check 'a denial is no note' has_notes /contact usage.exhausted 1
tell /v1/features/exports -X PUT -d '{"enabled":false}'
check 'a switch is told to the operator' until_ has_notes /ops feature.switched 1
check 'to no one else' has_notes /contact feature.switched 0
check 'nor to those who did not name it' has_notes /ops-usage feature.switched 0

# ---- overrides ----

tell /v1/subjects/org/acme -X PATCH -d \
    '{"overrides":{"calls":"50/day"},"until":"2026-11-15T13:00:00Z"}'
tell /v1/subjects/user/ann -X PUT -d \
    '{"overrides":{"calls":"50/day"},"until":"2026-11-15T13:00:00Z"}'
check 'overrides' answers 200
clock 2026-11-15T12:59:59Z
tell /v1/features/exports -X DELETE
until_ has_notes /ops feature.switched 2
check 'are not over yet' has_notes /contact override.ended 0
clock 2026-11-15T13:00:12Z
check 'their end is told' until_ has_notes /contact override.ended 1
check 'to the operator, that of a user, too' until_ has_notes /ops override.ended 2
stop
start_virtual -c p.yaml --threads 1 --store memory: \
    --usage "${SLUICE_TEST_POSTGRES:-sqlite:./books.db}"
clock 2026-11-15T13:10:00Z
use more 8
until_ has_notes /ops usage.threshold 5
clock 2026-11-15T13:10:20Z
use more 2
until_ has_notes /ops usage.exhausted 2
check 'once, also after a restart' has_notes /contact override.ended 1

# ---- webhooks ----

endpoint acme /status/404
message acme
attempts() {
    until_ eval '[[ $(grep -c "\"path\": \"/status/404\"" hits) = '"$1"' ]]'
    until_ eval '[[ $(metric sluice_webhook_sending) = 0 ]]'
}
attempts 1
n=1
for at in 13:20:00 13:21:00 13:25:00 13:45:00 15:10:00; do
    clock "2026-11-15T${at}Z"
    n=$((n + 1))
    attempts "$n"
done
check 'a dead message is told' until_ has_notes /contact webhook.message_dead 1
check 'once' has_notes /ops webhook.message_dead 1
check 'contacts get no messages' eval '! grep -F "\"/contact\"" hits | grep -qF "\"body\": \"1\""'
for ((i = 0; i < 25; i++)); do endpoint acme "/status/410?$i"; done
message acme
check 'notes have a rate of their own' until_ eval \
    '[[ $(metric sluice_webhook_notes_omitted_total) = 5 ]]'
check '20 of a type in an hour' until_ has_notes /contact webhook.endpoint_disabled 20
check 'and more to the operator' until_ has_notes /ops webhook.endpoint_disabled 25
clock 2026-11-15T16:15:00Z
endpoint acme /status/410
message acme
check 'later there is room again' until_ has_notes /contact webhook.endpoint_disabled 21
stop
check 'the daemon ends' is 0
finish
