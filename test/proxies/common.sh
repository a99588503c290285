# shellcheck shell=bash
# common.sh -- the recipes of docs/guide/proxies.md, run by the real proxies.
#
#   NAME.sh SLUICED SLUICED-TEST SLUICE GUIDE
#
#   recipe NAME       a block of the guide, known by the name in its first line,
#                     with the ports and paths of this test
#   closed            what the guide says: leave out the lines marked fail open
#   family=WORD       what forward_auth must be for this proxy
#   ask_as ADDRESS PATH WORD...   a client at that address asks the proxy;
#                     leaves $code, $fields and $out
#
# What a proxy cannot do, its script says, and the guide says it, too:
#
#   silent=yes        adds no headers to responses that pass
#   no_5xx=yes        takes a verdict of 503 for a failure
#   no_length=yes     does not send the length of the client's body
#   fails=STATUS      always fails closed, with this status and nothing else
#
# A proxy's script defines recipes FOLDER FILTER, which puts the files there, and
# proxy_command FOLDER, and calls the stories below. The clock is virtual: nothing
# grows back unless a story sets it.

guide=$(realpath "$4")
# shellcheck source=test/support/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"
trap 'end_gently; end_all; rm -rf "$folder"' EXIT
policy=/etc/sluice/sluice.yaml
proxy='' site='' app='' app_pid='' sluiced_pid='' command=()

# Proxies have children, which they stop themselves when they are asked to.
end_gently() {
    [[ -z $proxy ]] || end_proxy
}

# need PROGRAM: one that scripts/setup could not install is not run.
need() {
    [[ -x $1 ]] && return
    echo "1..0 # SKIP $1 is not installed"
    exit 0
}

# There is nothing to be seen without all of them.
give_up() {
    echo "Bail out! $1"
    sed 's/^/# /' "${@:2}"
    exit 1
}

# ---- the guide ----

# The block whose first line is a comment with the name $1.
block() {
    awk -v name="$1" '
        /^```/ { open = !open; first = open; shown = 0; next }
        open && first { shown = $0 == "# " name || $0 == "-- " name; first = 0 }
        shown' "$guide"
}

# A busy machine answers after the half second that a proxy waits, too, and that
# would be no answer.
recipe() {
    sed -e "s/127\.0\.0\.1:8080/$http/g" -e "s/127\.0\.0\.1:3000/$app/g" \
        -e 's/\<500ms\>/3s/' -e 's/timeout = 2000,/timeout = 9000,/' \
        <<<"$(block "$1")"
}

closed() {
    sed '/[#-] fail open$/d'
}

# ---- the app, the daemon and the proxy ----

start_app() {
    rm -f port
    python3 "$here/app.py" "$PWD/port" "$PWD/app.log" 2>app.err &
    app_pid=$!
    running+=("$app_pid")
    until_ test -s port
    : >app.log
    app=127.0.0.1:$(<port)
}

# The first time on a free port; from then on, on the same: start_sluiced [STORE]
start_sluiced() {
    block "$policy" | sed \
        "s/forward_auth: original/forward_auth: $family/" >sluice.yaml
    [[ -s sluice.yaml ]] || every_policy >sluice.yaml
    SLUICE_LISTEN_GRPC=off launch "$sluiced_test" -c sluice.yaml --clock=virtual \
        --listen-http "${http:-127.0.0.1:0}" --listen-admin 127.0.0.1:0 \
        --listen-resp off \
        --store "${1-memory:}" --log-format json
    started || give_up 'sluiced does not start' "$log"
    sluiced_pid=$pid
}

stop_sluiced() {
    pid=$sluiced_pid
    stop
}

listens() {
    (: <"/dev/tcp/127.0.0.1/$1") 2>/dev/null
}

serves_or_ended() {
    listens "${site##*:}" || gone "$proxy"
}

# start_proxy FOLDER [FILTER]: with the recipes there, through a filter. Another
# program may take the free port first: then on another one.
start_proxy() {
    local try

    for try in 1 2 3; do
        site=127.0.0.1:$(free_port)
        rm -rf "${1:?}"
        mkdir -p "$1"
        recipes "$1" "${2-cat}"
        proxy_command "$1"
        "${command[@]}" >"$1/log" 2>&1 &
        proxy=$!
        until_ serves_or_ended
        gone "$proxy" || return 0
        wait "$proxy"
        proxy=''
    done
    give_up "${command[0]} does not start (tried $try times)" "$1"/*log
}

end_proxy() {
    kill -TERM "$proxy" 2>/dev/null
    until_ gone "$proxy" || kill -9 "$proxy"
    wait "$proxy" 2>/dev/null
    proxy=''
}

# ---- clients ----

ask_as() {
    fetch --interface "$1" "http://$site$2" "${@:3}"
}

# A field of the answer, without case: field NAME. There may be a 100 before.
field() {
    awk -v name="$1" '
        { sub(/\r$/, "") }
        /^HTTP\// { found = "" }
        tolower($1) == tolower(name) ":" {
            found = found substr($0, length($1) + 2) "\n"
        }
        END { printf "%s", found }' <<<"$fields"
}

# shows NAME VALUE: is the field there, once, with this value?
shows() {
    [[ $(field "$1") = "$2" ]]
}

# The same on a response that passes, if the proxy can add headers to it.
tells() {
    if [[ -n ${silent-} ]]; then
        [[ -z $(field "$1") ]]
    else
        shows "$@"
    fi
}

seen() {
    wc -l <app.log
}

# member NAME: of the JSON that came
member() {
    python3 -c 'import json, sys
print(json.loads(sys.argv[1])[sys.argv[2]])' "$out" "$1" 2>&1
}

# The codes and new connections of requests on one connection:
# "200 1 200 0" is two answers over one.
one_connection() {
    {
        curl -sS --max-time 10 -w '%{stderr}%{http_code} %{num_connects} ' \
            --interface "$1" "${@:2}" >/dev/null
    } 2>&1
}

# ---- stories ----

story_passes() {
    ask_as 127.0.0.2 '/api/hello?who=x'
    check 'a request passes' answers 200
    answers 200 || give_up 'nothing works' "$folder"/open/*log
    check 'and the app answers it' test "$out" = 'GET /api/hello?who=x '
    check 'the client is told its limit' tells X-RateLimit-Limit 5
    check 'what is left' tells X-RateLimit-Remaining 4
    check 'and when all is back' tells X-RateLimit-Reset 12
    check 'and the same as IETF fields' tells RateLimit '"api";r=4;t=12'
    check 'with the policy' tells RateLimit-Policy '"api";q=5;w=60'
    check 'it has an id' test -n "${silent-}$(field X-Request-Id)"
    ask_as 127.0.0.2 /api/hello -d 'some words'
    check 'a POST reaches the app with its body' \
        test "$out" = 'POST /api/hello some words'
    check 'and counts' tells X-RateLimit-Remaining 3
    ask_as 127.0.0.2 /api/hello -T - -H 'Transfer-Encoding: chunked' \
        <<<'in pieces'
    check 'so does a PUT in pieces' has "$out" 'PUT /api/hello in pieces'
    check 'which counts too' tells X-RateLimit-Remaining 2
    ask_as 127.0.0.2 /api/hello -I
    check 'HEAD counts' tells X-RateLimit-Remaining 1
    check 'five' test "$(one_connection 127.0.0.2 "http://$site/api/hello" \
        "http://$site/api/hello")" = '200 1 429 0 '
}

story_denied() {
    local before

    before=$(seen)
    ask_as 127.0.0.2 /api/hello
    check 'the sixth is denied' answers 429
    check 'with the time to wait' shows Retry-After 12
    check 'as IETF field' shows RateLimit '"api";r=0;t=12'
    check 'the policy' shows RateLimit-Policy '"api";q=5;w=60'
    check 'the limit' shows X-RateLimit-Limit 5
    check 'nothing left' shows X-RateLimit-Remaining 0
    check 'an id' test -n "$(field X-Request-Id)"
    check 'it is not cached' shows Cache-Control no-store
    check 'a problem' shows Content-Type application/problem+json
    check 'with its status' test "$(member status)" = 429
    check 'its code' test "$(member code)" = RATE_LIMITED
    check 'and the time' test "$(member retry_after)" = 12
    check 'the body has the id of the header' \
        test "$(member request_id)" = "$(field X-Request-Id)"
    ask_as 127.0.0.2 /api/hello -I
    check 'HEAD is denied' answers 429
    head -c "${body-100000}" /dev/zero >large
    check 'connections stay open, whatever the method and the body' test \
        "$(one_connection 127.0.0.2 -H Expect: --data-binary @large \
            "http://$site/api/hello" "http://$site/api/hello" \
            "http://$site/other")" = '429 1 429 0 429 0 '
    check 'the app has seen nothing of it' test "$(seen)" = "$before"
    ask_as 127.0.0.3 /api/hello
    check 'another client has its own' tells X-RateLimit-Remaining 4
    check 'and passes' answers 200
    tell /v1/clock -d '{"now":"1970-01-01T00:00:12Z"}'
    ask_as 127.0.0.2 /api/hello
    check 'after the time it was told, it passes' answers 200
    ask_as 127.0.0.2 /api/hello
    check 'once' answers 429
}

# One way to pretend: pretend WORD...
pretend() {
    local before

    before=$(seen)
    ask_as 127.0.0.2 "$@"
    check "pretending: $*" test "${code/400/429}" = 429 -a "$(seen)" = "$before"
}

story_pretends() {
    local name

    for name in X-Original-URI X-Original-URL X-Forwarded-Uri X-Forwarded-Path \
        X-Rewrite-URL; do
        pretend /api/hello -H "$name: /api/search"
    done
    for name in X-Original-Method X-Forwarded-Method X-HTTP-Method-Override; do
        pretend /api/hello -H "$name: OPTIONS"
    done
    for name in X-Forwarded-For X-Real-IP True-Client-IP X-Client-IP \
        X_Forwarded_For; do
        pretend /api/hello -H "$name: 203.0.113.9"
    done
    pretend /api/hello -H 'X-Forwarded-For: 127.0.0.1'
    pretend /api/hello -H 'X-Forwarded-For: 198.51.100.1, 127.0.0.1'
    pretend /api/hello -H 'X-Forwarded-For: a' -H 'X-Forwarded-For: 192.0.2.8'
    pretend /api/hello -H 'Forwarded: for=203.0.113.9'
    pretend /api/hello -H 'X-User-Id: mallory'
    pretend /api/hello -H 'X_User_Id: mallory'
    pretend /api/hello -H 'X-Sluice-Status: 200' -H 'X-Sluice-Cost: 0'
    pretend /api/hello -H 'Connection: X-Forwarded-For'
    pretend /api/hello -H 'Connection: keep-alive, X-Forwarded-Uri, X-User-Id'
    pretend /api/hello -H 'Connection: Upgrade' -H 'Upgrade: websocket' \
        -H 'Sec-WebSocket-Version: 13' -H 'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=='
    pretend '/api/hello?cost=0'
    pretend '/api/hello?deny_status=200'
    pretend '/api/hello?x=/../api/search'
    pretend /api/hello -X OPTIONS
    pretend '/api/search/../hello' --path-as-is
    pretend '//api//hello'
    pretend /x --request-target "http://$site/api/hello"
}

# What is too large for the daemon must not look as if it were away.
refused() {
    local what=$1 before

    before=$(seen)
    ask_as 127.0.0.2 "${@:2}"
    check "$what is no way in ($code)" \
        test "${code:0:1}" -ge 4 -a "$(seen)" = "$before"
}

letters() {
    printf "%0$1d" 0
}

story_pads() {
    local n many=()

    for n in 3000 7000 7950 9000 12000 14000 15{0,1,2,3,5}00; do
        refused "a path of $n bytes" "/$(letters "$n")"
        refused "a query of $n bytes" "/api/hello?$(letters "$n")"
    done
    for n in 7000 12000 15000 17000 30000 60000; do
        refused "a header of $n bytes" /api/hello -H "X-Pad: $(letters "$n")"
        refused "a user of $n bytes" /api/hello -H "X-User-Id: $(letters "$n")"
    done
    for ((n = 0; n < 98; n++)); do
        many+=(-H "X-Pad-$n: $(letters 60)")
    done
    refused 'a hundred headers' /api/hello "${many[@]}"
    for ((n = 0; n < 100; n++)); do
        many+=(-H "X-More-$n: $n")
    done
    refused 'two hundred headers' /api/hello "${many[@]}"
    refused 'four large ones' /api/hello -H "X-A: $(letters 7900)" \
        -H "X-B: $(letters 7900)" -H "X-C: $(letters 7900)" \
        -H "Cookie: $(letters 3900)"
    for ((n = 0; n < 30; n++)); do
        echo "X-Pad-$n: $(letters 30000)"
    done >pads
    refused 'almost a megabyte' /api/hello -H @pads
}

# A daemon that does not understand the question is not away.
story_misunderstood() {
    local right=$family

    stop_sluiced
    family=forwarded
    [[ $right = original ]] || family=original
    start_sluiced
    refused 'the wrong family' /api/hello
    stop_sluiced
    family=$right
    start_sluiced
}

freeze() {
    kill -STOP "$sluiced_pid"
}

thaw() {
    kill -CONT "$sluiced_pid"
}

story_open() {
    freeze
    ask_as 127.0.0.2 /api/hello
    check 'sluiced hangs: requests pass' answers 200
    check 'without headers' test -z "$(field RateLimit)$(field X-RateLimit-Limit)"
    thaw
    until_ limits_again
    check 'sluiced is back: limited' answers 429
    stop_sluiced
    check 'sluiced is stopped, as asked' is 0
    ask_as 127.0.0.2 /api/hello -d 'some words'
    check 'sluiced is away: requests pass' answers 200
    check 'with their bodies' test "$out" = 'POST /api/hello some words'
    check 'without headers' test -z "$(field RateLimit)$(field X-RateLimit-Limit)"
    start_sluiced
    until_ tells_limits
    check 'sluiced is started again: limits again' tells_limits
}

limits_again() {
    ask_as 127.0.0.2 /api/hello
    answers 429
}

tells_limits() {
    ask_as 127.0.0.4 /api/hello
    [[ -n $(field X-RateLimit-Limit) ]] || { [[ -n ${silent-} ]] && answers 200; }
}

# The last one: the app is not started again.
story_app_away() {
    kill "$app_pid"
    wait "$app_pid" 2>/dev/null
    ask_as 127.0.0.8 /api/hello
    check 'the app is away: that is what is said' test "${code:0:2}" = 50
    check 'and not that sluiced is' test "${out/LIMITS/}" = "$out"
}

# start_proxy FOLDER closed came before this.
#
# A client that gives up has not taken its request back: the proxy may learn it
# only after sluiced, thawed, has let the request pass. So a hung sluiced is
# killed and answers nothing any more.
story_closed() {
    local before

    ask_as 127.0.0.5 /api/hello
    check 'fail closed: requests pass while sluiced is there' answers 200
    check 'with headers' tells X-RateLimit-Remaining 4
    before=$(seen)
    freeze
    if [[ -z ${fails-} ]]; then
        ask_as 127.0.0.5 /api/hello
        check 'sluiced hangs: nothing passes' answers 503
    else
        ask_as 127.0.0.5 /api/hello --max-time 2
        check 'sluiced hangs: the request waits' answers 000
    fi
    pid=$sluiced_pid
    end_by KILL
    ask_as 127.0.0.5 /api/hello
    check 'sluiced is away: nothing passes' answers "${fails-503}"
    if [[ -z ${fails-} ]]; then
        check 'which is a problem' shows Content-Type application/problem+json
        check 'told as such' test "$(member code)" = LIMITS_UNAVAILABLE
        check 'with a time to come back' shows Retry-After 1
    fi
    ask_as 127.0.0.5 /api/hello -d 'some words'
    check 'nor does a POST' answers "${fails-503}"
    check 'the app has seen none of it' test "$(seen)" = "$before"
    start_sluiced
    until_ tells_limits
    check 'sluiced is started again: requests pass' answers 200
}

# A policy with every kind of answer. The proxies do not pass on a user.
every_policy() {
    cat <<EOT
sluice: 1
identity: { anonymous: [ip], trusted_proxies: [127.0.0.1, "::1"] }
limits:
  one: { kind: fixed-window, per: ip, rate: 1/hour, deny: { message: "One per hour, {id}." } }
  paid: { kind: quota, per: ip, rate: 1/day, deny: { status: 402, code: PAY_UP, message: "Pay." } }
  large: { kind: fixed-window, per: ip, rate: 1/hour, deny: { status: 413, code: TOO_LARGE, message: "Less." } }
  many: { kind: fixed-window, per: ip, rate: 100/hour, on_store_failure: allow }
  strict: { kind: fixed-window, per: ip, rate: 100/hour, on_store_failure: deny }
  login: { kind: fixed-window, per: ip, rate: 100/min, penalty: { after: 3, within: 10m, block: 15m } }
  traffic: { kind: quota, per: ip, rate: 100/day, unit: KiB }
features: { shop: { enabled: false, message: "Closed today.", retry_after: 60s } }
routes:
  - { match: /one/**, limits: [one] }
  - { match: /paid, limits: [paid] }
  - { match: /large, limits: [large] }
  - { match: /free/**, limits: [] }
  - { match: /plain, headers: [x-ratelimit], limits: [many] }
  - { match: /many/**, limits: [many] }
  - { match: /strict, limits: [strict] }
  - { match: POST /login, limits: [login] }
  - { match: POST /upload, limits: [traffic], cost: size/1KiB }
  - { match: /known, anonymous: deny, limits: [many] }
  - { match: /admin, roles: [admin], limits: [many] }
  - { match: /alone, guard: "alone:{ip}", limits: [many] }
  - { match: /shop, feature: shop, limits: [many] }
default: []
errors:
  rate_limited: { body: { error: "{message}", wait: "{retry_after}" } }
server: { forward_auth: $family }
EOT
}

# denied PATH STATUS TEXT WORD...: is the answer the policy's own?
denied() {
    local before

    before=$(seen)
    ask_as 127.0.0.2 "$1" "${@:4}"
    check "$2 by $1" answers "$2"
    check 'with the body of the policy' has "$out" "$3"
    check 'and not of the app' test "$(seen)" = "$before"
    ask_as 127.0.0.2 "$1" -I
    check 'HEAD too' answers "$2"
}

# passes PATH WORD...: does the app answer?
passes() {
    ask_as 127.0.0.2 "$@"
    check "$1 passes" answers 200
    check 'to the app' has "$out" " $1 "
}

# Both lists reach the client: the app's, and that of the verdict.
exposes() {
    local all

    all=$(field Access-Control-Expose-Headers)
    has "$all" X-App && { has "$all" "$1" || [[ -n ${silent-} ]]; }
}

story_answers() {
    stop_sluiced
    policy=none
    start_sluiced
    passes /free/x
    check 'unlimited: no limit is told' \
        test -z "$(field RateLimit)$(field X-RateLimit-Limit)"
    passes /free/x -d 'some words'
    ask_as 127.0.0.2 /free/x -I
    check 'unlimited: HEAD' answers 200
    passes /many/x
    check 'limited' tells X-RateLimit-Limit 100
    check 'the headers for scripts are those of both' exposes RateLimit-Policy
    passes /plain
    check 'x-ratelimit only: the limit' tells X-RateLimit-Limit 100
    check 'and nothing else' test -z "$(field RateLimit)$(field RateLimit-Policy)"
    passes /one/x
    denied /one/x 429 '{"error":"One per hour, 127.0.0.2.","wait":3600}'
    ask_as 127.0.0.2 /one/x
    check 'with the type of the body' shows Content-Type application/json
    check 'and the time' shows Retry-After 3600
    passes /paid
    denied /paid 402 '"code":"PAY_UP"'
    passes /large
    denied /large 413 '{"error":"Less."'
    denied /known 401 '"status":401'
    ask_as 127.0.0.2 /known
    check '401 has a challenge' shows WWW-Authenticate Bearer
    denied /admin 403 '"status":403'
    passes /alone
    denied /alone 409 '"code":"CONFLICT"'
    [[ -n ${no_5xx-} ]] || story_switched_off
}

story_switched_off() {
    denied /shop 503 '"detail":"Closed today."'
    ask_as 127.0.0.2 /shop
    check '503 has a time' shows Retry-After 60
}

# A proxy that takes a verdict of 503 for a failure: it does not pass if the
# recipe fails closed.
story_no_5xx() {
    stop_sluiced
    policy=none
    start_sluiced
    denied /shop 503 '"code":"LIMITS_UNAVAILABLE"'
    stop_sluiced
    policy=/etc/sluice/sluice.yaml
    start_sluiced
}

is_blocked() {
    ask_as 127.0.0.2 /login -d right
    answers 429
}

# After story_answers, of a proxy that reports the 401 of the app.
story_failed() {
    ask_as 127.0.0.2 /login -d right
    check 'a login passes' answers 200
    for _ in 1 2; do
        ask_as 127.0.0.2 /login -d wrong
        check 'a failed one gets the 401 of the app' answers 401
        check 'with its body' test "$out" = 'POST /login wrong'
    done
    ask_as 127.0.0.2 /login -d right
    check 'two of them are not enough' answers 200
    ask_as 127.0.0.2 /login -d wrong
    check 'the third is answered, too' answers 401
    check 'and blocks' until_ is_blocked
    check 'as a penalty' has "$out" '"wait":900'
    ask_as 127.0.0.3 /login -d right
    check 'another client passes' answers 200
}

# upload KIB WORD...: a body of so many KiB.
upload() {
    head -c $(($1 * 1024)) /dev/zero | tr '\0' x >upload
    ask_as 127.0.0.2 /upload -H Expect: --data-binary @upload "${@:2}"
}

# What is charged by size: the length is the client's, and a client that does not
# tell it, or tells another one in our header, gains nothing.
story_size() {
    local one='X-Original-Content-Length: 1' other='X-Forwarded-Content-Length: 1'

    upload 10
    if [[ -n ${no_length-} ]]; then
        check 'a body whose length is not known' answers 400
        upload 10 -H "$one" -H "$other"
        check 'whatever the client says of it' answers 400
        return
    fi
    check 'ten KiB' tells X-RateLimit-Remaining 90
    upload 10 -H "$one" -H "$other"
    check 'are ten, whatever the client says' tells X-RateLimit-Remaining 80
    upload 10 -H 'Transfer-Encoding: chunked'
    check 'a body in chunks has no size' answers 400
    upload 0
    check 'an empty one costs one' tells X-RateLimit-Remaining 79
    upload 80
    check 'and more than is left is denied' answers 429
}

story_megabyte() {
    story_size
    head -c 1048576 /dev/zero | tr '\0' x >megabyte
    ask_as 127.0.0.2 /free/x -H Expect: --data-binary @megabyte
    check 'a megabyte passes' answers 200
    check 'whole' test "${#out}" = $((1048576 + 13))
    ask_as 127.0.0.2 /many/x -H Expect: --data-binary @megabyte
    check 'also where a limit counts' test "${#out}" = $((1048576 + 13))
    ask_as 127.0.0.2 /one/x -H Expect: --data-binary @megabyte
    check 'or is denied' answers 429
}

# websocket PATH: the status, and the word that came back.
websocket() {
    python3 "$here/websocket.py" "${site%:*}" "${site##*:}" "$1" 127.0.0.2
}

story_websockets() {
    check 'a websocket passes' test "$(websocket /free/ws)" = '101 hello'
    check 'where a limit counts, too' test "$(websocket /many/ws)" = '101 hello'
    check 'or is denied' test "$(websocket /one/ws)" = '429'
}

story_degraded() {
    stop_sluiced
    start_sluiced redis://127.0.0.1:1
    passes /many/x
    check 'degraded: that is told' tells X-Sluice-Degraded store
    check 'without numbers' test -z "$(field X-RateLimit-Limit)"
    [[ -n ${no_5xx-} ]] || denied /strict 503 '"status":503'
    stop_sluiced
    policy=/etc/sluice/sluice.yaml
    start_sluiced
}

# As after story_denied: the client has nothing left.
spend_all() {
    for _ in {1..6}; do
        ask_as 127.0.0.2 /api/hello
    done
    check 'nothing is left' answers 429
}

# ---- all of them ----

# all_stories NAME: of a proxy that has one recipe, open and closed.
all_stories() {
    start_app
    start_sluiced
    start_proxy "$folder/open"
    check "$1 takes the recipe" test -n "$proxy"
    story_passes
    story_denied
    story_pretends
    story_pads
    story_misunderstood
    story_answers
    [[ -z ${reports-} ]] || story_failed
    story_megabyte
    story_websockets
    story_degraded
    spend_all
    if [[ -z ${fails-} ]]; then
        story_open
        end_proxy
        start_proxy "$folder/closed" closed
        check "$1 takes it without the marked lines" test -n "$proxy"
    fi
    [[ -z ${no_5xx-} ]] || story_no_5xx
    story_closed
    story_app_away
    end_proxy
}
