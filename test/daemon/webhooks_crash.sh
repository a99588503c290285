#!/usr/bin/env bash
# webhooks_crash.sh -- two daemons send from one PostgreSQL and are killed, and
# so is the server; or one sends from SQLite and is killed: every message that was
# acknowledged arrives, with few duplicates. SL_LONG sends 10,000 messages.

# shellcheck source=test/support/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"

count=300 kills=6
[[ -z ${SL_LONG-} ]] || count=10000 kills=100
background dest.log python3 "$here/destination.py" port hits
until_ test -s port
dest=http://127.0.0.1:$(<port)
: >>hits
cat >p.yaml <<EOF
sluice: 1
server: { deadline: 5s }
plans: { default: free, free: {} }
limits: { any: { kind: fixed-window, per: user, rate: 1/s } }
default: [any]
webhooks: { destination: unlimited, allow: [127.0.0.0/8], insecure: true }
EOF
pids=('' '') https=('' '') senders=2 path=/ok
books=${SLUICE_TEST_POSTGRES-}
[[ -n $books ]] || books=sqlite:./books.db senders=1
# Answers take a while, so that a kill meets some. With PostgreSQL their leases last
# a minute.
[[ $senders = 2 && -z ${SL_LONG-} ]] || path=/slow/50

sql() {
    [[ $senders = 2 ]] || return
    psql -qXx "$SLUICE_TEST_POSTGRES" -c 'SET search_path TO sluice' -c "$1"
}

# run_sender N: starts, or starts again.
run_sender() {
    start -c p.yaml --threads 1 --store "memory:state$1" \
        --usage "$books" || return 1
    pids[$1]=$pid https[$1]=$http
}

run_sender 0
check 'a sender starts' alive "${pids[0]}"
if ((senders == 2)); then
    run_sender 1
    check 'and another' alive "${pids[1]}"
fi
http=${https[0]}
for ((i = 0; i < 20; i++)); do
    ask /v1/webhooks/endpoints -d "{\"org\":\"org$i\",\"url\":\"$dest$path?$i\"}"
done
check 'there are endpoints' answers 201

: >acknowledged
for ((i = 0; i < count; i++)); do
    http=${https[i % senders]}
    ask /v1/webhooks/messages -d "{\"org\":\"org$((i % 20))\",\"type\":\"a\",\"payload\":{\"n\":$i}}"
    [[ $code != 202 ]] || member id | tr -d '"' >>acknowledged
    if ((i % (count / kills) == count / kills - 1)); then
        victim=$((RANDOM % senders))
        kill -9 "${pids[victim]}"
        wait "${pids[victim]}" 2>/dev/null
        run_sender "$victim"
    fi
    if ((i == count / 2 && senders == 2)); then
        "$POSTGRES_CTL" kill >/dev/null 2>&1
        "$POSTGRES_CTL" start >/dev/null 2>&1
    fi
done
check 'most are acknowledged' test "$(wc -l <acknowledged)" -gt $((count * 8 / 10))

# Acknowledged messages that have not arrived, one id per line.
missing() {
    sed 's/.*"id": "\([^"]*\)".*/\1/' hits | sort -u >arrived
    sort acknowledged | comm -23 - arrived
}
# What a killed sender has leased is sent when the lease ends, after 60 s, and
# later messages of the endpoint after it.
all_arrive() {
    local end=$((SECONDS + 150))

    until [[ -z $(missing) ]]; do
        ((SECONDS < end)) || return 1
        sleep 0.2
    done
}
# show_missing: prints the rows of the messages that are missing, their times in
# seconds from now.
show_missing() {
    local now

    now=$(date +%s%N)
    missing | while read -r id; do
        sql "SELECT m.id, m.org, m.held, d.number, d.state, d.tries,
                (d.due - $now) / 1e9 AS due, (d.lease - $now) / 1e9 AS lease,
                e.enabled, e.reason, e.failures, (e.next - $now) / 1e9 AS next,
                (e.not_before - $now) / 1e9 AS not_before, (SELECT count(*)
                FROM webhook_attempts a WHERE a.message = m.id) AS attempts
            FROM webhook_messages m LEFT JOIN webhook_deliveries d ON d.message
            = m.id LEFT JOIN webhook_endpoints e ON e.id = d.endpoint WHERE m.id
            = '$id'"
    done | sed 's/^/# /'
}
began=$SECONDS
check 'all acknowledged messages arrive' all_arrive
echo "# after $((SECONDS - began)) s"
[[ -z $(missing) ]] || show_missing
twice=$(($(wc -l <hits) - $(sed 's/.*"id": "\([^"]*\)".*/\1/' hits | sort -u | wc -l)))
echo "# $(wc -l <acknowledged) acknowledged, $(wc -l <hits) arrived, $twice twice"
check 'at most what was in flight at a kill arrives twice' test "$twice" -le $(((kills + 2) * 16))
# count_of QUERY: the number that the database answers.
count_of() {
    if [[ $senders = 2 ]]; then
        psql -qXtA "$SLUICE_TEST_POSTGRES" -c 'SET search_path TO sluice' -c "$1"
    else
        python3 -c 'import sqlite3, sys
print(sqlite3.connect("books.db").execute(sys.argv[1]).fetchone()[0])' "$1"
    fi
}
# again: how many attempts came after a success of the same delivery.
again() {
    count_of 'SELECT count(*) FROM webhook_attempts a JOIN webhook_attempts b
        ON b.message = a.message AND b.endpoint = a.endpoint AND
        b.number > a.number WHERE a.result = 0'
}
for pid in "${pids[@]:0:senders}"; do
    kill -9 "$pid"
    wait "$pid" 2>/dev/null
done
successes=$(count_of 'SELECT count(*) FROM webhook_attempts WHERE result = 0')
check 'successes are recorded' test "$successes" -gt 0
check 'and none is sent after its success was recorded' test "$(again)" = 0
finish
