#!/usr/bin/env bash
# events.sh -- listening to what happens in a daemon.

# shellcheck source=test/support/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"

cat >p.yaml <<'EOT'
sluice: 1
identity:
  user: [header.x-user-id]
features: { beta: { enabled: true } }
limits:
  api: { kind: fixed-window, per: user, rate: 2/3000d }
default: [api]
EOT
start -c p.yaml --store memory:./state --memory 1MiB --threads 2

# listen FILE CURL-WORD...: in the background; leaves $listener.
listen() {
    curl -sSN "http://$admin/v1/events" "${@:2}" >"$1" 2>"$1.err" &
    listener=$!
    running+=("$listener")
    until_ grep -qs '^: listening' "$1"
}

heard() {
    grep -qF -- "$2" "$1"
}

# hears FILE TEXT WHAT: it is there, or comes.
hears() {
    until_ heard "$1" "$2"
    check "$3" heard "$1" "$2"
}

listen ev
check 'a listener is greeted' heard ev ': listening'

# ---- what operators do ----

tell /v1/features/beta -X PUT -d '{"enabled":false}'
hears ev '"name":"beta","enabled":false' 'a switch'
sed -i 's/2\/3000d/3\/3000d/' p.yaml
tell /v1/policy -X POST
hears ev '"ok":true,"cause":"asked"' 'another policy'
hears ev 'api' 'and what changed'
tell /v1/policy -d 'limits: { secret-looking: 1 }'
hears ev '"ok":false,"cause":"posted"' 'one that was refused'
tell /v1/keys/api/zoe -X DELETE
hears ev '"limit":"api","scope":"user","key":"zoe"' 'a key that was reset'

# ---- refusals ----

for _ in 1 2 3 4 5 6 7; do
    auth ann
done
hears ev '"limit":"api","scope":"user","key":"ann"' 'refusals of a key'
ann_count() {
    grep -F '"key":"ann"' "$1" | sed 's/.*"count":\([0-9]*\).*/\1/' |
        paste -sd+ | bc
}
all_of_ann() {
    [[ $(ann_count ev) = 4 ]]
}
until_ all_of_ann
check 'all of them are counted' all_of_ann
auth $'e\x1bve'
auth 'j"o\e'
auth 'j"o\e'
auth 'j"o\e'
auth 'j"o\e'
hears ev '"key":"j\"o\\e"' 'whatever a key has in it, it is JSON'

# ---- a flood is no flood ----

# flood NAME EACH: forty thousand checks, EACH of one user.
flood() {
    python3 - "$http" "$@" <<'EOT'
import json, sys, urllib.request
name, each = sys.argv[2], int(sys.argv[3])
for i in range(40):
    checks = [{"path": "/x", "user": f"{name}-{i}-{k // each}"}
              for k in range(1000)]
    urllib.request.urlopen(urllib.request.Request(
        f"http://{sys.argv[1]}/v1/check", data=json.dumps(checks).encode(),
        method="POST")).read()
EOT
}
before=$(grep -c '^event: ' ev)
flood many 5
hears ev 'event: denials' 'the rest of a flood is one number'
after=$(grep -c '^event: ' ev)
# However slow the machine is: eight thousand keys were refused twice each.
check "sixteen thousand refusals are few events ($((after - before)))" \
    test $((after - before)) -lt 4000

# ---- clients that were cut off ----

last=$(grep '^id: ' ev | tail -n 1)
kill "$listener"
tell /v1/features/beta -X PUT -d '{"enabled":true}'
listen again -H "Last-Event-ID: ${last#id: }"
hears again '"name":"beta","enabled":true' 'a client that reconnects has missed nothing'
check 'and hears nothing twice' test "$(grep -c 'enabled":false' again)" = 0

# ---- one that does not read ----

sleeper=$listener
kill -STOP "$sleeper"
listen other
tell /v1/features/beta -X PUT -d '{"enabled":false}'
hears other '"enabled":false' 'a client that sleeps blocks no other'
kill -CONT "$sleeper"
hears again '"enabled":false' 'and goes on when it wakes'

# ---- permission, and how many ----

tell /v1/events -H 'Origin: http://evil.example'
check 'no page in a browser' answers 403
# Only when all clients have an answer is there no place left: a client that
# asks before, this test too, may take the place of another, and leave it free.
for i in {1..20}; do
    curl -sSN "http://$admin/v1/events" >"subscriber.$i" 2>&1 &
    running+=($!)
    subscribers[i]=$!
done
all_answered() {
    local i

    for i in {1..20}; do
        [[ -s subscriber.$i ]] || return
    done
}
until_ all_answered
tell /v1/events
check 'one more subscriber gets 503' answers 503
check 'with a Retry-After' has "$fields" 'Retry-After: 5'
tell /livez
check 'other requests are answered' answers 200
kill "${subscribers[@]}" 2>/dev/null

# ---- the table ----

# A small one, that a flood of keys fills.
flood fill 1
hears other '"state":"nearly_full"' 'a table that is nearly full'

# ---- the end ----

stop
check 'it ends while a client listens' is 0
until_ gone "$listener"
check 'and the client is told' gone "$listener"
check 'and no event is in the log' test "$(grep -c '"key":"ann"' <<<"$err")" = 0

finish
