#!/usr/bin/env bash
# start.sh -- the first run, settings, and what keeps it from starting.

# shellcheck source=test/support/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"

# ---- words ----

run "$sluiced" --version
check 'it knows its version' has "$out" 'sluiced 0.'
run "$sluiced" --help
check 'it helps' is 0
check 'with examples' has "$out" 'sluiced -c sluice.yaml --check'
run "$sluiced" --chek
check 'a slip is status 2' is 2
check 'and what was meant' has "$err" 'did you mean --check?'
run bash -c "'$sluiced' --help >/dev/full"
check 'a full disk is no success' is 1

# ---- the demo ----

start
check 'without a policy there is a demo' test -n "$http"
until_ grep -q 'curl -s .*/v1/check' "$log.out"
line=$(grep -m 1 'curl -s .*/v1/check' "$log.out")
out=$(bash -c "$line" 2>&1)
check 'the line it prints answers' has "$out" '"allowed":true'
line=$(grep -m 1 'curl -i .*/v1/auth' "$log.out")
out=$(bash -c "$line" 2>&1)
check 'so does the other' has "$out" 'HTTP/1.1 200'
# Five times, unless that takes longer than the twelve seconds of a token.
is_refused() {
    out=$(bash -c "$line" 2>&1)
    has "$out" 'HTTP/1.1 429'
}
check 'a few times' until_ is_refused
line=$(grep -m 1 'curl -s .*/metrics' "$log.out")
out=$(bash -c "$line" 2>&1)
check 'and the third' has "$out" 'sluice_decisions_total'
check 'it says what is next' grep -q 'sluice init' "$log.out"
end_by INT
check 'Ctrl-C ends it' is 0
check 'and nothing is left behind' test -z "$(ls -A)"

# ---- settings ----

policy p.yaml 3/3000d 'server: { memory: 2MiB, log: { level: warn } }'
SLUICE_DRAIN=1s SLUICE_ADMIN_TOKEN=s3cret run "$sluiced" -c p.yaml \
    --threads 3 --show-settings
check 'settings are shown' is 0
check 'a flag' has "$out" $'threads          3                          flag'
check 'a variable' has "$out" 'variable SLUICE_DRAIN'
check 'the policy' has "$out" 'policy p.yaml, server.memory'
check 'a preset' has "$out" $'forward_auth     original                   default'
check 'and no secret' test "${out/s3cret/}" = "$out"
run "$sluiced" -c p.yaml --check
check 'a check without serving' has "$out" 'p.yaml: ok'
cat >keys.yaml <<'EOT'
sluice: 1
identity:
  user: [jwt.sub]
  jwt: { algorithms: [RS256], jwks: "file:./gone.json" }
limits: { api: { kind: fixed-window, per: user, rate: 1/hour } }
default: [api]
EOT
run "$sluiced" -c keys.yaml --check
check 'a key file that is missing is refused, as at the start' is 3
check 'with its name' has "$err" 'identity.jwt.jwks: '
echo '{"keys":[]}' >gone.json
run "$sluiced" -c keys.yaml --check
check 'so is one without keys' is 3
SLUICE_LISTN_HTTP=x run "$sluiced" -c p.yaml --check
check 'a slip in a variable is doubted' has "$err" 'did you mean SLUICE_LISTEN_HTTP'

# ---- refusals ----

sed 's/fixed-window/fixed-windw/' p.yaml >bad.yaml
run "$sluiced" -c bad.yaml
check 'a bad policy is status 3' is 3
check 'with its place' has "$err" 'bad.yaml:6:16: '
check 'and what to write' has "$err" 'write: fixed-window'
run "$sluiced" -c none.yaml
check 'so is none' is 3
check 'which is named' has "$err" 'none.yaml can'
policy shared.yaml 3/3000d 'server: { store: "redis://u:s3cret@h:99999" }'
run "$sluiced" -c shared.yaml
check 'a store that it can not mean' has "$err" \
    'shared.yaml: server.store: "99999" is not a port'
check 'and no password is printed' test "${err/s3cret/}" = "$err"
run "$sluiced" -c shared.yaml --store memory: --check
check 'unless a flag says otherwise' is 0
run "$sluiced" --listen-http 0.0.0.0:0
check 'beyond loopback it needs a token' is 2
check 'and what would help' has "$err" 'access_token (--access-token-file) or tls.client_ca'
run "$sluiced" --listen-admin '*:0'
check 'the admin listener too' has "$err" 'set admin_token'
run "$sluiced" --listen-resp '*:0'
check 'and the RESP listener' has "$err" \
    '--listen-resp: *:0 is reachable from other machines'
run "$sluiced" --clock virtual
check 'the shipped program has no other clock' is 2

# ---- a signal at the start ----

# When the lock is there, the state is being made, and signals are not handled yet.
policy hup.yaml 3/3000d
launch "$sluiced" "${listeners[@]}" -c hup.yaml --memory 256MiB \
    --store memory:hup.state
until [[ -e hup.state.lock ]] || gone "$pid"; do :; done
kill -HUP "$pid"
started
check 'HUP while it starts does not end it' said '"event":"serving"'
until_ said '"event":"policy loaded"'
check 'and is heard' said '"event":"policy loaded"'
stop

# ---- held by others ----

policy q.yaml 3/3000d
start -c q.yaml
first=$pid
check 'a state beside the policy' test -s sluice.state
check 'root is told so, once' test "$(grep -c '"event":"running as root"' \
    "$log")" = "$((EUID == 0))"
run "$sluiced" --listen-http "$http" --listen-admin 127.0.0.1:0
check 'a port that is held' is 1
check 'is named' has "$err" "$http"
start -c q.yaml
check 'a state that is held is status 5' is 5
check 'and the process that holds it' has "$err" "(process $first)"
check 'and what to do' has "$err" '--store memory:PATH'
ln -s sluice.state link.state
start -c q.yaml --store memory:link.state
check 'also by another name' is 5
pid=$first
ask /v1/check -d '{"path":"/x","user":"ann"}'
check 'the first one goes on' answers 200
kill -TERM "$first"
until_ gone "$first"

# The kernel may still be ending a killed process.
flock sluice.state.lock sleep 0.3 &
held=$!
until ! flock -n sluice.state.lock true; do :; done
start -c q.yaml
ask /v1/check -d '{"path":"/x","user":"ann"}'
check 'a state that is held for a moment is waited for' answers 200
wait "$held"
stop

# ---- tokens ----

echo s3cret >token
echo 0ther >admin.token
start --access-token-file token --admin-token-file admin.token
ask /v1/check -d '{"path":"/x"}'
check 'a request without a token is refused' answers 401
ask /v1/check -d '{"path":"/x"}' -H 'Authorization: Bearer s3cret'
check 'with it one is' answers 200
tell /metrics
check 'metrics are for all' answers 200
tell /v1/policy
check 'the policy is not' answers 401
tell /v1/policy -H 'Authorization: Bearer 0ther'
check 'but for those with the token' answers 200
tell /v1/session -d '{"token":"wr0ng"}'
check 'a wrong token does not sign in' answers 401
stop
check 'which is logged with its address' has "$err" '"event":"sign-in refused","peer":"127.0.0.1"'
check 'no token was logged' test "${err/s3cret/}${err/0ther/}${err/wr0ng/}" = "$err$err$err"

# ---- unix sockets ----

launch "$sluiced" --listen-http "unix:$folder/h" --listen-admin \
    "unix:$folder/a" --log-format json
started
fetch --unix-socket "$folder/h" http://x/v1/check -d '{"path":"/x","ip":"192.0.2.7"}'
check 'over a unix socket' answers 200
fetch --unix-socket "$folder/a" http://x/readyz
check 'and at the other' answers 200
stop
check 'they are gone afterwards' test ! -e "$folder/h" -a ! -e "$folder/a"

# The admin API on an address and on a socket.
start --listen-local "unix:$folder/l"
fetch --unix-socket "$folder/l" http://x/readyz
check 'the admin API on a socket' answers 200
tell /readyz
check 'and on its address' answers 200
run "$sluice" top --admin-url "unix:$folder/l"
check 'commands use the socket' is 0
stop
check 'it ends' is 0
check 'the socket is gone' test ! -e "$folder/l"
run "$sluiced" --listen-local 127.0.0.1:0
check 'only a socket can be local' is 2
check 'as the message says' has "$err" 'is not a unix socket; write unix:PATH'

# ---- a PostgreSQL that is slow ----

# The first connection gets no answer. All others are refused at once.
cat >silent.py <<'EOT'
import socket, sys
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
first = server.accept()
if sys.argv[1] == "queries":
    first[0].recv(4096)  # welcome, ready
    first[0].sendall(b"R\0\0\0\x08\0\0\0\0"
                     b"S\0\0\0\x18server_version\x0015.0\0Z\0\0\0\x05I")
while True:
    client = server.accept()[0]
    client.recv(4096)
    said = b"SFATAL\0VFATAL\0C28000\0Mno\0\0"
    client.sendall(b"E" + (len(said) + 4).to_bytes(4, "big") + said)
    client.close()
EOT
cat >quota.yaml <<'EOT'
sluice: 1
limits: { minutes: { kind: quota, per: org, rate: 10/month } }
routes: [{ job: work, limits: [minutes] }]
EOT
for what in queries connections; do
    rm -f "$folder/silent"
    background "$folder/silent" python3 silent.py "$what"
    until_ test -s "$folder/silent"
    url="postgres://x@127.0.0.1:$(<"$folder/silent")/x?sslmode=disable&gssencmode=disable"
    start -c quota.yaml --store memory: --journal none --usage "$url"
    check "a database that does not answer $what in time is away" \
        said 'database unreachable, starting without it'
    check 'and the daemon serves' said '"event":"serving"'
    stop
done
start -c quota.yaml --store memory: --journal none \
    --usage "$url&connect_timeout=60"
check 'one that refuses ends the start' is 5

# Without descriptors for its parts: a loop, a signal, a thread. What was opened is
# closed in order. One that hangs at its start or at its end does not pass. The
# search for leaks needs descriptors of its own.
check_few() {
    # shellcheck disable=SC2016 # the inner shell expands them
    ASAN_OPTIONS=${ASAN_OPTIONS-}:detect_leaks=0 \
        launch bash -c 'ulimit -n "$0"; exec "$@"' "$1" "$sluiced" \
        -c quota.yaml "${listeners[@]}" --threads 2 --store memory: \
        --journal none --usage sqlite:./few.db
    if started; then
        kill -TERM "$pid"
        until_ gone "$pid" || kill -9 "$pid"
        status=0
        wait "$pid" || status=$?
        ((status < 128))
    elif alive "$pid"; then
        kill -9 "$pid"
        wait "$pid"
        return 1
    else
        ((status < 128)) && [[ -n $err ]]
    fi
}
for ((few = 8; few <= 20; few++)); do
    check "$few descriptors: it serves or says why not" check_few "$few"
done

finish
