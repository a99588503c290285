# shellcheck shell=bash
# daemon.sh -- start sluiced, talk to it, stop it; on top of tap.sh.
#
#   NAME.sh SLUICED SLUICED-TEST SLUICE
#
#   start WORD...     sluiced with doors on free ports; leaves $pid, $http and
#                     $admin (and $resp, if --listen-resp is among the words)
#                     once it serves, or fails when it has ended
#   stop              end it; leaves $status and $err; end_by SIGNAL too
#   ask PATH WORD...  curl to the http door; leaves $code, $out and $fields
#   tell PATH WORD... the same to the admin listener
#   take_flows MOST FOLDER...  copies of the flows there, in $flows
#   until_ COND...    wait until it is true: half a minute, on a busy machine
#                     longer, for it is turns that are counted
#   free_port         a port that nobody listens on, nor is given by the kernel
#   past_midnight     for tests with days or months of the real clock
#
# Whatever is still running at the end is killed, by its number. The folder of
# the test is /tmp/... and not the build's: the path of a unix socket is short.

sluiced=$(realpath "$1") sluiced_test=$(realpath "$2") sluice=$(realpath "$3")
: "$sluiced_test" "$sluice"
tests=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
TMPDIR=/tmp
# shellcheck source=test/cli/tap.sh
. "$tests/../cli/tap.sh"
# shellcheck disable=SC2154 # tap.sh has it
trap 'end_all; rm -rf "$folder"' EXIT
unset NO_COLOR CLICOLOR_FORCE NOTIFY_SOCKET LISTEN_PID LISTEN_FDS
# Daemons of several tests run at once, and these doors have ports of their own
# unless somebody says otherwise. Those who want them open them by a flag.
export SLUICE_LISTEN_GRPC=off SLUICE_LISTEN_RESP=off
# A busy machine keeps a registry waiting for longer than 20 ms, and the answer
# would be another. Those who test deadlines say which.
export SLUICE_DEADLINE=5s
running=() log=
[[ -x $sluiced && -x $sluiced_test ]] || {
    echo "Bail out! there is no $sluiced"
    exit 1
}
code='' fields='' http='' admin='' resp='' pid='' flows=()

end_all() {
    local one

    for one in "${running[@]}"; do
        kill -9 "$one" 2>/dev/null
        wait "$one" 2>/dev/null
    done
}

until_() {
    local i end=$((SECONDS + 100))

    for ((i = 0; i < 1500 && SECONDS < end; i++)); do
        "$@" && return
        sleep 0.02
    done
    return 1
}

# Below those that connections get, which would take one that is free for now.
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

# If a day of UTC ends within two minutes, wait until it has.
past_midnight() {
    local left=$((86400 - $(date +%s) % 86400))

    ((left > 120)) || sleep "$left"
}

alive() {
    kill -0 "$1" 2>/dev/null
}

gone() {
    ! alive "$1"
}

# Is there an event of this name in the log?
said() {
    grep -qF -- "$1" "$log"
}

serves_or_gone() {
    said '"event":"serving"' || gone "$pid"
}

# The value of a member in the line that says where it serves.
where() {
    grep -F '"event":"serving"' "$log" | tail -n 1 |
        sed -n "s/.*\"$1\":\"\([^\"]*\)\".*/\1/p"
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
    http=$(where http) admin=$(where admin) resp=$(where resp)
    : "$resp"
    said '"event":"serving"'
}

start() {
    launch "$sluiced" --listen-http 127.0.0.1:0 --listen-admin 127.0.0.1:0 \
        --log-format json "$@"
    started
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

# fetch CURL-WORD...: leaves $code, $fields and $out.
fetch() {
    status=0
    code=$(curl -sS --max-time 30 -D "$folder/fields" -o "$folder/body" \
        -w '%{http_code}' "$@" 2>"$folder/curl") || status=$?
    out=
    [[ ! -e $folder/body ]] || out=$(tr -d '\0' <"$folder/body")
    fields=$(<"$folder/fields") err=$(<"$folder/curl")
    : "$fields"
    rm -f "$folder/body"
}

ask() {
    fetch "http://$http$1" "${@:2}"
}

tell() {
    fetch "http://$admin$1" "${@:2}"
}

# check_user NAME [PATH]: one request of that user; leaves $code.
auth() {
    ask /v1/auth -H "X-Original-URI: ${2-/x}" -H 'X-Original-Method: GET' \
        -H "X-User-Id: $1"
}

answers() {
    [[ $code = "$1" ]]
}

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
