# shellcheck shell=bash
# lib.sh -- runs programs and daemons, asks them, compares, and answers TAP.
#
# A script is given what it needs as arguments. If these begin with SLUICED
# SLUICED-TEST SLUICE, it can start daemons. It works in a folder of its own; at
# the end the processes that are still running are killed by their numbers and
# the folder is removed. The folder is in /tmp and not in the build, since the
# path of a unix socket is short. $here is the folder of the script, $root that
# of the project.
#
#   run COMMAND...     leaves $status, $out and $err
#   check WHAT COND... one TAP line; the case is good if COND is true
#   finish             the last line; ends the script
#   has TEXT WORDS     TEXT has WORDS in it
#   is STATUS          the last command ended so
#   until_ COND...     waits until it is true: half a minute, on a busy machine
#                      longer, since turns are counted
#   background FILE COMMAND...  its output goes to FILE; leaves $client
#   free_port          a port without a listener, which the kernel hands to no
#                      connection
#   past_midnight      for tests with days or months of the real clock
#
# Daemons:
#
#   start WORD...      sluiced, its listeners on free ports; leaves $pid, $http
#                      and $admin (and $resp with --listen-resp) when it serves;
#                      fails when it has ended
#   start_virtual WORD...  the same on the virtual clock; clock TIME sets it
#   launch COMMAND...  any other way to start one, with the flags "${listeners[@]}"
#                      and then: started
#   share WORD...      start, on $store; returns when the store answers
#   stop               ends it; leaves $status and $err; end_by SIGNAL too
#   said TEXT          its log has TEXT
#   ask PATH WORD...   curl to the http listener; leaves $code, $out, $fields
#   tell PATH WORD...  the same to the admin listener
#   ask_for USER PATH [MEMBERS]  one check; its verdict is in $out
#   member NAME        its value in $out
#   field NAME         the value of a header in $fields
#   metric SAMPLE      its value now
#   load SECONDS|refused CONNECTIONS BODY HOST:PORT...   leaves $allowed $denied
#                      $outage $unanswered $degraded $slowest
#   take_flows MOST FOLDER...  copies of the flows there, in $flows
#   start_for_flows, over URL, all_pass URL LEAST   run flows against a daemon
#   policy FILE RATE [MORE LINES]  a policy of one limit
#
# A provider of tokens and keys, see test/daemon/provider.py:
#
#   provider_start     leaves its address in $provider
#   token QUERY        a token of it
#
# A network that fails, see test/support/proxy.py:
#
#   proxy_start SERVER leaves its address in $proxy
#   network WORD...    pass, cut, hold, delay, close, after, gone or move
#
# A Redis of the test's own, on a unix socket:
#
#   redis_start WORD...  leaves $redis_pid; $store is its address
#   redis_kill         as by kill -9
#   redis WORD...      redis-cli
#   used KEY           how much of a window is taken, as Redis has it
#
# shellcheck disable=SC2034,SC2120 # the scripts read them
set -uo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[1]}")" && pwd)
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
number=0 failed=0 status=0 out='' err='' running=() client='' log=''
proxy='' code='' fields='' http='' admin='' resp='' pid='' flows=()
allowed='' denied='' outage='' unanswered='' degraded='' slowest=''
listeners=(--listen-http 127.0.0.1:0 --listen-admin 127.0.0.1:0 --log-format json)
if [[ ${1-} = */sluiced && ${2-} = */sluiced-test ]]; then
    sluiced=$(realpath "$1") sluiced_test=$(realpath "$2") sluice=$(realpath "$3")
    [[ -x $sluiced && -x $sluiced_test ]] || {
        echo "Bail out! there is no $sluiced"
        exit 1
    }
fi
TMPDIR=/tmp
folder=$(mktemp -d)
trap 'end_all; rm -rf "$folder"' EXIT
mkdir "$folder/files"
mkfifo "$folder/nothing"
cd "$folder/files" || exit 1
provider='' redis_pid='' socket=$folder/redis.sock store=redis+unix://$folder/redis.sock
unset NO_COLOR CLICOLOR_FORCE NOTIFY_SOCKET LISTEN_PID LISTEN_FDS
# Daemons of several tests run at once, and these listeners have ports of their
# own by default. A test that wants them opens them by a flag.
export SLUICE_LISTEN_GRPC=off SLUICE_LISTEN_RESP=off
# A busy machine keeps a registry waiting for longer than 20 ms, and the answer
# would be another. A test of deadlines sets its own.
export SLUICE_DEADLINE=5s

# ---- programs ----

run() {
    status=0
    "$@" >"$folder/out" 2>"$folder/err" || status=$?
    out=$(<"$folder/out") err=$(<"$folder/err")
}

check() {
    local what=$1

    shift
    number=$((number + 1))
    if "$@"; then
        echo "ok $number - $what"
        return
    fi
    failed=1
    printf 'status %s\n%s\n%s\n' "$status" "$out" "$err" | sed 's/^/# /'
    echo "not ok $number - $what"
}

finish() {
    echo "1..$number"
    exit "$failed"
}

has() {
    [[ $1 == *"$2"* ]]
}

is() {
    [[ $status = "$1" ]]
}

# Only jobs that still run are killed: the number of a process that has ended can
# be that of another test's process by now.
#
# What a sanitizer has said of undefined steps goes with the log, unless it is
# printed here: cases.py looks for it.
end_all() {
    local one

    for one in $(jobs -pr); do
        [[ " ${running[*]} " != *" $one "* ]] || {
            kill -9 "$one" 2>/dev/null
            wait "$one" 2>/dev/null
        }
    done
    cat "$folder"/log.* 2>/dev/null | grep -aF 'runtime error:' | sed 's/^/# /'
}

# pause SECONDS: like sleep, without another process. Tests wait thousands of
# times.
pause() {
    read -rt "$1" <>"$folder/nothing"
}

# Most conditions start a program, so waiting costs processor time: after half a
# second they are tried less often.
until_() {
    local i end=$((SECONDS + 100)) seconds=0.02

    for ((i = 0; i < 325 && SECONDS < end; i++)); do
        "$@" && return
        ((i < 25)) || seconds=0.1
        pause "$seconds"
    done
    return 1
}

background() {
    "${@:2}" >"$1" 2>&1 &
    client=$!
    running+=("$client")
}

alive() {
    kill -0 "$1" 2>/dev/null
}

gone() {
    ! alive "$1"
}

# Below the ports of connections, which would take one that is free for now.
free_port() {
    python3 -c 'import random, socket
while True:
    port = random.randrange(10000, 32000)
    with socket.socket() as s:
        try:
            s.bind(("127.0.0.1", port))
        except OSError:
            continue
    print(port)
    break'
}

# If a day of UTC ends within eight minutes, wait until it has.
past_midnight() {
    local left=$((86400 - $(date +%s) % 86400))

    ((left > 480)) || sleep "$left"
}

# ---- daemons ----

# Bash reads the log by itself: tests wait for thousands of starts.
said() {
    [[ $(<"$log") == *"$1"* ]]
}

serves_or_gone() {
    said '"event":"serving"' || gone "$pid"
}

# The value of a member in the line that says where it serves.
where() {
    grep -F '"event":"serving"' "$log" | tail -n 1 |
        sed -n "s/.*\"$1\":\"\([^\"]*\)\".*/\1/p"
}

# Leaves $http, $admin and $resp of a daemon that has just started.
read_addresses() {
    local text name line='"event":"serving"[^'$'\n'']*'

    text=$(<"$log") http='' admin='' resp=''
    for name in http admin resp; do
        [[ ! $text =~ $line\"$name\":\"([^\"]*)\" ]] ||
            printf -v "$name" %s "${BASH_REMATCH[1]}"
    done
}

# launch COMMAND...: in the background, with its log in a file of its own.
launch() {
    log=$folder/log.$RANDOM$RANDOM
    : >"$log"
    "$@" >"$log.out" 2>"$log" &
    pid=$!
    running+=("$pid")
}

started() {
    until_ serves_or_gone
    err=$(<"$log") out=$(<"$log.out") status=-
    if gone "$pid"; then
        status=0
        wait "$pid" || status=$?
        return 1
    fi
    read_addresses
    said '"event":"serving"'
}

start() {
    launch "$sluiced" "${listeners[@]}" "$@"
    started
}

start_virtual() {
    launch "$sluiced_test" --clock=virtual "${listeners[@]}" "$@"
    started
}

share() {
    start --store "$store" --deadline "${deadline:-5s}" "$@" && until_ is_ok
}

stop() {
    end_by TERM
}

end_by() {
    kill "-$1" "$pid" 2>/dev/null
    until_ gone "$pid"
    status=0
    wait "$pid" || status=$?
    err=$(<"$log")
}

# ---- requests ----

# fetch CURL-WORD...: leaves $code, $fields and $out, without bytes of 0. Bash
# does all but one step: tests fetch thousands of times.
fetch() {
    status=0
    : >"$folder/body"
    code=$(curl -sS --max-time 30 -D "$folder/fields" -o "$folder/body" \
        -w '%{http_code}' "$@" 2>"$folder/curl") || status=$?
    out='' err=''
    { [[ ! -s $folder/body ]] || out=$(<"$folder/body"); } 2>/dev/null
    [[ ! -s $folder/curl ]] || err=$(<"$folder/curl")
    fields=$(<"$folder/fields")
}

ask() {
    fetch "http://$http$1" "${@:2}"
}

tell() {
    fetch "http://$admin$1" "${@:2}"
}

# auth USER [PATH]: one request of that user.
auth() {
    ask /v1/auth -H "X-Original-URI: ${2-/x}" -H 'X-Original-Method: GET' \
        -H "X-User-Id: $1"
}

ask_for() {
    ask /v1/check -d "{\"path\":\"$2\",\"user\":\"$1\"${3-}}"
}

# report BODY: usage that was measured elsewhere.
report() {
    ask /v1/usage -d "$1"
}

clock() {
    tell /v1/clock -d "{\"now\":\"$1\"}"
}

answers() {
    [[ $code = "$1" ]]
}

member() {
    if [[ $out == *$'\n'* ]]; then
        sed -n "s/.*\"$1\":\([^,}]*\).*/\1/p" <<<"$out"
    elif [[ $out =~ .*\"$1\":([^,}]*) ]]; then
        printf '%s\n' "${BASH_REMATCH[1]}"
    fi
}

field() {
    sed -n "s/\r\$//; s/^$1: *//Ip" <<<"$fields"
}

metric() {
    curl -s "http://$admin/metrics" | sed -n "s/^$1 //p"
}

is_ok() {
    [[ $(curl -s "http://$admin/readyz") = ok ]]
}

is_degraded() {
    [[ $(curl -s "http://$admin/readyz") = degraded:* ]]
}

load() {
    read -r allowed denied outage unanswered degraded slowest < <(
        python3 "$root/test/shared/load.py" "$@"
    )
}

# ---- files ----

# take_flows MOST FOLDER...: all flows in these folders but for those with a line
# that asks MOST times or more, from copies beside their policies; leaves $flows.
# A flow that is left out leaves empty lines, so that the numbers of others stay.
take_flows() {
    local most=$1 from file

    flows=()
    for from in "${@:2}"; do
        cp -r "$from" .
        for file in "$from"/*.flow; do
            awk -v most="$most" '
                function put() {
                    if (large)
                        gsub(/[^\n]+/, "", text)
                    printf "%s", text
                    text = ""
                    large = 0
                }
                /^flow / { put() }
                {
                    text = text $0 "\n"
                    for (i = 1; i <= NF; i++)
                        if ($i ~ /^x[0-9]+$/ && substr($i, 2) + 0 >= most)
                            large = 1
                }
                END { put() }' "$file" >"${from##*/}/${file##*/}"
            flows+=("${from##*/}/${file##*/}")
        done
    done
}

# start_for_flows ENV-WORD... -- SLUICED-WORD...: a daemon that flows are run
# against, on the virtual clock. The keys of a policy that is posted are beside
# its own.
start_for_flows() {
    local env=()

    while [[ $1 != -- ]]; do
        env+=("$1")
        shift
    done
    shift
    policy p.yaml 2/day
    cp -r "$root/test/flow/tokens" .
    launch env "${env[@]}" "$sluiced_test" -c p.yaml --clock=virtual \
        "${listeners[@]}" "$@"
    started
}

# over URL WORD...: runs flows against the daemon.
over() {
    run "$sluice" test --url "$1" --admin-url "http://$admin" "${@:2}"
}

# all_pass URL LEAST: runs $flows; no flow fails, and LEAST or more are run.
all_pass() {
    local all passed skipped

    over "$1" "${flows[@]}"
    check 'none fails' is 0
    all=$(cat "${flows[@]}" | grep -c '^flow ')
    passed=$(grep -c '^ok ' <<<"$out") skipped=$(grep -c '^skip ' <<<"$out")
    check "all $all were run or skipped" test $((passed + skipped)) = "$all"
    check "nearly all were run ($passed)" test "$passed" -ge "$2"
}

# A policy of one limit: policy FILE RATE [MORE LINES]
policy() {
    cat >"$1" <<EOT
sluice: 1
identity:
  user: [header.x-user-id]
  trusted_proxies: [127.0.0.0/8, "::1"]
limits:
  api: { kind: fixed-window, per: user, missing: skip, rate: $2 }
routes: [{ match: /x, limits: [api] }]
default: [api]
${3-}
EOT
}

# ---- a provider of tokens ----

# Debian's Python has python3-jwt.
provider_start() {
    background "$folder/provider.log" /usr/bin/python3 \
        "$root/test/daemon/provider.py" "$folder/provider.port"
    until_ test -s "$folder/provider.port"
    provider=$(<"$folder/provider.port")
}

token() {
    curl -sS --max-time 10 "http://$provider/token?$1"
}

# ---- a network ----

proxy_start() {
    rm -f "$folder/network"
    background "$folder/proxy.port" python3 "$root/test/support/proxy.py" \
        "$1" "$folder/network"
    until_ test -s "$folder/proxy.port"
    proxy=127.0.0.1:$(<"$folder/proxy.port")
}

network() {
    python3 "$root/test/support/proxy.py" --tell "$folder/network" "$@"
}

# ---- a Redis ----

redis() {
    redis-cli -s "$socket" "$@"
}

redis_answers() {
    [[ $(redis ping 2>/dev/null) = PONG ]]
}

redis_start() {
    redis-server --port 0 --unixsocket "$socket" --dir "$folder" --save '' \
        --logfile "$folder/redis.log" "$@" &
    redis_pid=$!
    running+=("$redis_pid")
    until_ redis_answers
}

redis_kill() {
    kill -9 "$redis_pid"
    wait "$redis_pid" 2>/dev/null
}

used() {
    redis get "$1" | cut -d: -f4
}
