#!/usr/bin/env bash
# abuse.sh -- slow clients, clients that say two things at once, more clients
# than descriptors, and the end without warning, while others are served.
#
#   abuse.sh SLUICED SLUICED-TEST SLUICE DAEMON-REFUSE
refuse=$(realpath "$4")
# shellcheck source=test/support/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"

# What the askers counted: counted FILE WORD
counted() {
    sed -n "s/.*\<$2 \([0-9]*\).*/\1/p" "$1"
}

# In the background: askers FILE HOW [N [GO]]
askers() {
    rm -f go
    background "$1" python3 "$here/askers.py" "$http" "${@:2}"
}

# A bucket that does not refill while a test runs.
bucket() {
    policy "$1" "1/day burst $2" "${3-}"
    sed -i 's/fixed-window/token-bucket/' "$1"
}

# ---- slow clients ----

# slow WHAT URL FLAG...: a few seconds of it, while other clients are served.
slow() {
    local what=$1 url=$2

    shift 2
    askers asked until go
    run slowhttptest "$@" -c 300 -r 300 -u "$url" -p 3
    touch go
    wait "$client"
    out+=$(<asked)
    check "$what: the others are all answered ($(<asked))" \
        test "$(counted asked unanswered)" = 0
    check "$what: and were" test "$(counted asked allowed)" -ge 10
    # A client that waits for a slow one would wait for ten.
    check "$what: without waiting" test "$(counted asked slowest)" -lt 8000
}

few_connections() {
    [[ $(metric 'sluice_connections{door="http"}') -le 1 &&
        $(metric 'sluice_connections{door="admin"}') -le 1 ]]
}

policy slow.yaml 1M/3000d
start -c slow.yaml --store memory: --threads 2
# It ends when the daemon has closed the last one, long before its minute.
slow 'slow heads' "http://$http/v1/auth" -H -i 1 -l 60
tell /metrics
check 'slow heads are not waited for' \
    grep -Eq '^sluice_http_refused_total.door="http",why="[a-z_-]+". 300' <<<"$out"
slow 'slow bodies' "http://$http/v1/check" -B -i 1 -l 4 -s 8192
slow 'slow readers' "http://$admin/metrics" -X -l 4 -w 1 -y 16 -n 1 -z 1 -k 10
until_ few_connections
check 'none of them stays' few_connections
stop
check 'it has come through' is 0

# ---- two things at once ----

policy refuse.yaml 5/3000d
start -c refuse.yaml --store memory:
run "$refuse" "${http##*:}"
all=$(grep -c '^ok' <<<"$out")
check "ambiguous requests are refused, and closed ($all)" is 0
check 'and there were many' test "$all" -ge 34
ask /v1/check -d '{"path":"/x","user":"smuggled"}'
check 'what stood behind them was not heard' has "$out" '"remaining":4'
stop

# ---- few descriptors ----

policy few.yaml 1M/3000d
launch prlimit --nofile=64:64 "$sluiced" -c few.yaml --store memory: \
    "${listeners[@]}" --threads 1
started
askers held held 20 held.go
until_ grep -qs held held
holder=$client
background connected python3 "$here/connections.py" "$http" 200 connections.go
connections=$!
until_ grep -qs open connected
check '200 more connections are open' grep -q 'open 200' connected
touch held.go
wait "$holder"
check 'earlier connections are served' test "$(counted held allowed)" = 40
touch connections.go
wait "$connections"
served() {
    ask /v1/check -d '{"path":"/x","user":"bob"}'
    answers 200
}
until_ served
check 'and others again, once those have gone' served
stop
check 'as if nothing had been' is 0

# ---- kill -9 ----

# Time stands still, so nothing may come back. What was decided and not
# answered when it was killed is spent.
bucket kill.yaml 20k
total=0 unanswered=0 sound=yes
start_stopped() {
    start_virtual -c kill.yaml --store memory:kill.state
}
for i in 1 2 3 4 5; do
    start_stopped || sound=no
    ask /v1/check -d '{"path":"/x","user":"ann","cost":0}'
    left=$(sed -n 's/.*"remaining":\([0-9]*\).*/\1/p' <<<"$out")
    ((20000 - left >= total && 20000 - left <= total + unanswered)) || sound=no
    askers "killed.$i" until-killed 8 "$pid"
    wait "$client"
    end_by KILL 2>/dev/null
    total=$((total + $(counted "killed.$i" allowed)))
    unanswered=$((unanswered + $(counted "killed.$i" unanswered)))
done
check "five ends without warning, $total decisions" test "$total" -ge 100
check 'each was under load' test "$unanswered" -ge 5
check 'what was used is remembered each time' test "$sound" = yes
start_stopped
ask /v1/check -d '{"path":"/x","user":"ann","cost":0}'
left=$(sed -n 's/.*"remaining":\([0-9]*\).*/\1/p' <<<"$out")
askers rest until-denied 8
wait "$client"
check "what is left is handed out, $left" \
    test "$(counted rest allowed)" = "$left"
check 'and not one more in all' test $((total + left)) -le 20000
check 'nor fewer than can be told' \
    test $((total + unanswered + left)) -ge 20000
stop

# ---- a storm of policies ----

bucket good.yaml 20k
bucket other.yaml 20k 'headers: [github]'
bucket bad.yaml 20x
start -c good.yaml --store memory: --threads 2 --watch off
askers storm until-denied 8 storm.go
good=0 bad=0
while alive "$client"; do
    for one in good other bad; do
        tell /v1/policy --data-binary "@$one.yaml"
        case $code in 200) good=$((good + 1)) ;; *) bad=$((bad + 1)) ;; esac
    done
    kill -HUP "$pid"
    ((good < 4 || bad < 2)) || touch storm.go
done
wait "$client"
out+=$(<storm)
check "decisions go on through $good policies" test "$good" -ge 4
check "and $bad that are refused" test "$bad" -ge 2
check 'none is lost' test "$(counted storm unanswered)" = 0
check 'the allowance is the same throughout' \
    test "$(counted storm allowed)" = 20000
check 'and all eight are denied in the end' test "$(counted storm denied)" = 8
stop
check 'the end' is 0

finish
