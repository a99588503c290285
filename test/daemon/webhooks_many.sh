#!/usr/bin/env bash
# webhooks_many.sh -- a daemon that only decides and two processes that only send:
# each message arrives once, of the senders each has a part, one destination of
# many that hangs delays no other, a message that is queued while a result is
# recorded is sent, and one idempotency key at two daemons at once is one message.
# SL_LONG has 1,000 destinations.
#
# shellcheck disable=SC2016 # conditions are evaluated later

# shellcheck source=test/support/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"

many=200
[[ -z ${SL_LONG-} ]] || many=1000
background dest.log python3 "$here/destination.py" port hits
until_ test -s port
dest=http://127.0.0.1:$(<port)
: >>hits
cat >p.yaml <<EOF
sluice: 1
server: { deadline: 5s }
limits: { any: { kind: fixed-window, per: user, rate: 1/s } }
default: [any]
webhooks: { destination: 1000/s burst 1000, allow: [127.0.0.0/8], insecure: true }
EOF
run "$sluiced" -c p.yaml --only webhooks --usage sqlite:./books.db --check
check 'a process that only sends needs a shared database' has "$err" \
    'needs the usage database of the others'

usage=(--usage "$SLUICE_TEST_POSTGRES" --threads 1 --store memory:)
start -c p.yaml --only decisions "${usage[@]}"
check 'a daemon that decides' alive "$pid"
decides=$http pids=("$pid")
ask /v1/webhooks/endpoints -d "{\"org\":\"acme\",\"url\":\"$dest/ok\"}"
ask /v1/webhooks/messages -d '{"org":"acme","type":"a","payload":1}'
check 'accepts a message' answers 202
check 'and has no metrics of a sender' test -z "$(metric sluice_webhook_waiting)"
for i in 1 2; do
    start -c p.yaml --only webhooks "${usage[@]}"
    senders[i]=$admin pids+=("$pid")
done
check 'a process that only sends delivers it' until_ grep -q '"path": "/ok"' hits
check 'and has no other listener' test -z "$http"
run python3 "$here/webhooks_many.py" "$many" hits "$dest" "$decides"
sed -n '/^#/p' <<<"$out"
check 'a destination that hangs delays no other' is 0
ids=$(grep -v '"/hang"' hits | sed 's/.*"id": "\([^"]*\)".*/\1/' | sort)
check 'each message arrives once' test "$(uniq -d <<<"$ids" | wc -l)" = 0
for i in 1 2; do
    admin=${senders[i]}
    check "sender $i has sent a part" test \
        "$(metric 'sluice_webhook_attempts_total{class="success"}')" -gt $((many / 20))
done

# A message is queued, and not committed before the result of the one before it
# waits for its lock: it must not be forgotten.
sql() {
    psql -qXAt "$SLUICE_TEST_POSTGRES" -c "$1"
}
sessions() {
    test "$(sql "SELECT count(*) FROM pg_stat_activity WHERE $1")" -gt 0
}
http=$decides
ask /v1/webhooks/endpoints -d "{\"org\":\"race\",\"url\":\"$dest/until/go\"}"
endpoint=$(member id | tr -d '"')
ask /v1/webhooks/messages -d '{"org":"race","type":"a","payload":1}'
check 'a message is being sent' until_ grep -q '"path": "/until/go"' hits
exec 7> >(psql -qX "$SLUICE_TEST_POSTGRES" >psql.log 2>&1)
cat >&7 <<EOF
SET search_path TO sluice;
BEGIN;
INSERT INTO webhook_messages(id, org, type, payload, at, held)
    VALUES('msg_race', 'race', 'a', '2', 1, 0);
INSERT INTO webhook_deliveries(message, endpoint, org, state, tries, due, lease)
    VALUES('msg_race', '$endpoint', 'race', 0, 0, 1, 0);
UPDATE webhook_endpoints SET next = 1 WHERE id = '$endpoint';
DO 'BEGIN LOOP
    EXIT WHEN EXISTS(SELECT 1 FROM pg_stat_activity WHERE wait_event_type = ''Lock'');
    PERFORM pg_sleep(0.01), pg_stat_clear_snapshot();
END LOOP; END';
COMMIT;
EOF
check 'the next one is not committed' until_ sessions "query LIKE 'DO %'"
touch go
check 'the next one is sent, too' until_ grep -q '"id": "msg_race"' hits
exec 7>&-
for pid in "${pids[@]}"; do kill -9 "$pid"; done

# both_at_once OPTION...: two daemons that share a database get each of 20 keys at
# the same time.
both_at_once() {
    local other i key

    pids=()
    start -c p.yaml --threads 1 --store memory: --only decisions "$@"
    other=$http pids+=("$pid")
    start -c p.yaml --threads 1 --store memory: --only decisions "$@"
    pids+=("$pid")
    ask /v1/webhooks/endpoints -d "{\"org\":\"keys\",\"url\":\"$dest/ok\"}"
    for ((i = 0; i < 20; i++)); do
        key="{\"org\":\"keys\",\"type\":\"a\",\"payload\":1,\"idempotency_key\":\"k$i\"}"
        for address in "$http" "$other"; do
            curl -s -m 60 -d "$key" "http://$address/v1/webhooks/messages" \
                >"answer-$address" &
            asked+=("$!")
        done
        wait "${asked[@]}"
        asked=()
        cat "answer-$http" "answer-$other" |
            grep -o '"id":"[^"]*"' >"ids-$i"
    done
}
same_ids() {
    local i

    for ((i = 0; i < 20; i++)); do
        [[ $(wc -l <"ids-$i") = 2 && $(sort -u "ids-$i" | wc -l) = 1 ]] || return 1
    done
}
asked=()
both_at_once --usage "$SLUICE_TEST_POSTGRES"
check 'one key at two daemons has one id' same_ids
check 'and is one message' test "$(sql "SELECT count(*) FROM sluice.webhook_messages WHERE org = 'keys'")" = 20
for pid in "${pids[@]}"; do kill -9 "$pid"; done
both_at_once --usage 'sqlite:./shared.db?shared'
check 'also in a shared SQLite file' same_ids
ask '/v1/webhooks/messages?org=keys&limit=100'
check 'as one message' test "$(grep -o '"id":"msg' <<<"$out" | wc -l)" = 20
for pid in "${pids[@]}"; do kill -9 "$pid"; done
finish
