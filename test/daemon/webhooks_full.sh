#!/usr/bin/env bash
# webhooks_full.sh -- a full disk: messages and endpoints are refused with a
# reason, nothing is half queued, and with room again all goes on.
#
# shellcheck disable=SC2016 # conditions are evaluated later

if ! unshare -rm true 2>/dev/null; then
    echo "1..0 # SKIP a disk of one's own can't be had here"
    exit 0
fi
# shellcheck source=test/support/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"

background dest.log python3 "$here/destination.py" port hits
until_ test -s port
dest=http://127.0.0.1:$(<port)
: >>hits
cat >p.yaml <<EOF
sluice: 1
plans: { default: free, free: {} }
limits:
  deliveries: { kind: quota, per: org, rate: 100/day }
default: []
webhooks: { destination: unlimited, quota: deliveries, allow: [127.0.0.0/8], insecure: true }
EOF
launch unshare -rm bash -c 'mkdir -p disk && mount -t tmpfs -o size=24m none disk &&
    exec "$@"' - "$sluiced" -c p.yaml "${listeners[@]}" --threads 1 \
    --store memory: --journal none --usage sqlite:disk/books.db
started
check 'a daemon on a disk of its own' alive "$pid"
disk=/proc/$pid/root$PWD/disk
ask /v1/webhooks/endpoints -d "{\"org\":\"acme\",\"url\":\"$dest/ok\"}"
check 'an endpoint' answers 201

# message KEY: a payload of 100 KB, so that no page that is there has room.
head -c 100000 /dev/zero | tr '\0' 1 >digits
message() {
    printf '{"org":"acme","type":"a","payload":"%s","idempotency_key":"%s"}' \
        "$(<digits)" "$1" >message.json
    ask /v1/webhooks/messages -d @message.json
}

message first
check 'a message' answers 202
check 'arrives' until_ eval '[[ $(wc -l <hits) = 1 ]]'
until_ eval '[[ $(metric sluice_webhook_sending) = 0 ]]'
dd if=/dev/zero of="$disk/fill" bs=4k status=none 2>/dev/null
check 'the disk is full' test "$(stat -f -c %f "$disk")" = 0
message second
check 'a message is refused' answers 503
check 'with a reason' has "$out" '"code":"WEBHOOKS'
check 'that names the disk' has "$out" 'full'
big=$(printf '{"team":"%s"}' "$(head -c 3900 digits)")
for ((i = 0; i < 20; i++)); do
    ask /v1/webhooks/endpoints -d \
        "{\"org\":\"acme\",\"url\":\"$dest/no\",\"metadata\":$big}"
    [[ $code = 201 ]] || break
done
check 'and so is an endpoint' answers 503
rm "$disk/fill"
check 'with room again the same message is accepted' until_ eval \
    'message second; answers 202'
check 'as a new one: nothing was queued before' eval '! has "$out" repeated'
check 'it arrives' until_ eval '[[ $(grep -c "\"/ok\"" hits) = 2 ]]'
ask /v1/usage/org/acme?days=0
check 'a refused message does not count' has "$out" '"used":2'
ask '/v1/webhooks/messages?org=acme'
check 'two are there' test "$(grep -o '"id":"msg' <<<"$out" | wc -l)" = 2
stop
check 'the daemon ends' is 0
finish
