#!/usr/bin/env bash
# resp.sh -- the RESP listener: with redis-cli, and with clients that are
# none.

# shellcheck source=test/support/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"

rows=$root/test/server/resp/redis-cell.talk

# redis WORD...: one command by redis-cli; leaves $out, its lines as words.
redis() {
    out=$(redis-cli -h "${resp%:*}" -p "${resp##*:}" "$@" 2>&1 | tr '\n' ' ')
    out=${out% }
}

answered() {
    [[ $out = "$1" ]]
}

# One reply, and then that it was not understood: nothing behind it is.
refused() {
    [[ $out = $'+PONG\r\n-ERR Protocol error: '* && ${out#+PONG} != *PONG* ]]
}

# raw TEXT: send it, with escapes, and hear all that comes until it is closed.
raw() {
    out=$(python3 "$here/raw.py" "$resp" "$1")
}

# ---- settings ----

run env -u SLUICE_LISTEN_RESP "$sluiced" --show-settings
check 'it is open unless it is closed' has "$out" \
    'listen_resp      127.0.0.1:6380             default'

# ---- redis-cell's rows, over the wire ----

policy p.yaml 3/3000d
start_virtual -c p.yaml --store memory: --listen-resp 127.0.0.1:0
count=0 wrong=''
while read -r word rest; do
    case $word in
    clock)
        at=${rest/%us/000}
        at=${at/%ms/000000}
        tell /v1/clock -d "{\"now\":${at/%s/000000000}}"
        ;;
    '>')
        # shellcheck disable=SC2086 # words of a command
        redis $rest
        ;;
    '<')
        want=$(tr -d '[]:' <<<"$rest")
        answered "$want" || wrong+="$out at $at instead of $want; "
        count=$((count + 1))
        ;;
    esac
done <"$rows"
check "all rows are redis-cell's" test "$wrong" = ''
check "and many they are ($count)" test "$count" -ge 40
stop

# ---- one state and one policy for all protocols ----

start -c p.yaml --listen-resp 127.0.0.1:0
redis PING
check 'it answers' answered PONG
auth ann
redis SLUICE.CHECK GET /x user ann
check 'what HTTP took is taken here' has "$out" 'remaining 1'
auth ann
auth ann
check 'and what was taken here is taken there' answers 429
redis SLUICE.CHECK GET /x user ann
check 'for all' has "$out" 'allowed 0 status 429'
redis SLUICE.RESET GET /x user ann
check 'it is forgotten' answered 1
auth ann
check 'for all, too' answers 200
redis CL.THROTTLE key 0 1 86400
check 'without a policy' answered '0 1 0 -1 86400'
sed -i 's|3/3000d|9/3000d|' p.yaml
tell /v1/policy -X POST
redis SLUICE.CHECK GET /x user bob
check 'another policy is in force here as well' has "$out" 'limit 9 remaining 8'
tell /metrics
check 'decisions are counted' has "$out" \
    'sluice_decisions_total{limit="CL.THROTTLE",endpoint="",status="200",result="allow"} 1'
check 'how long they took' has "$out" \
    'sluice_decision_duration_seconds_count{door="resp"} 4'
check 'and connections' has "$out" 'sluice_connections{door="resp"} 0'
: >idle.out
python3 "$here/raw.py" "$resp" 'PING\r\n' stay >idle.out &
idle=$!
running+=("$idle")
until_ grep -q PONG idle.out
stop
check 'it ends as asked' is 0
until_ gone "$idle"
check 'and idle connections with it' gone "$idle"
start -c p.yaml --listen-resp 127.0.0.1:0
redis CL.THROTTLE key 0 1 86400
check 'a restart hands out no fresh allowance' has "$out" '1 1 0 86'

# ---- clients that do not speak RESP ----

fetch "http://$resp/" -d $'CL.THROTTLE web 0 1 60\r\n' --max-time 5
check 'HTTP is not answered' test "$status" != 0
redis CL.THROTTLE web 0 1 60
check 'and nothing of it was carried out' answered '0 1 0 -1 60'
# shellcheck disable=SC2016 # dollars of the protocol
for text in '*3000000000\r\n' '*-1\r\n' '*1\r\n$2000000000\r\n' \
    '*1\r\n$-1\r\n' '*1\r\n*1\r\n$4\r\nPING\r\n' '*2\r\n$4\r\nPING\r\n:1\r\n' \
    '*1\r\n$4\r\nPINGX\r\n' '*01\r\n' 'PING "\r\n'; do
    raw "PING\r\n$text"'PING\r\n'
    check "refused and closed: $text" refused
done
raw "$(printf 'x%.0s' {1..9000})"
check 'a line without an end' has "$out" 'too big inline request'
raw '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\n'
check 'TLS where there is none' has "$out" 'ERR'
tell /metrics
check 'they are counted' has "$out" \
    'sluice_http_refused_total{door="resp",why="http"} 1'
redis PING
check 'and it is still there' answered PONG
stop

# ---- passwords, unix sockets ----

echo s3cret >token
start -c p.yaml --listen-resp 127.0.0.1:0 --access-token-file token
redis PING
check 'without the password' has "$out" 'NOAUTH Authentication required.'
redis --no-auth-warning -a s3crets CL.THROTTLE a 1 1 60
check 'with another' has "$out" 'WRONGPASS'
redis --no-auth-warning -a s3cret CL.THROTTLE a 1 1 60
check 'with it' answered '0 2 1 -1 60'
redis --no-auth-warning --user default -a s3cret -3 PING
check 'with a name, and version 3' answered PONG
stop
check 'no password was logged' test "${err/s3cret/}" = "$err"

start -c p.yaml --listen-resp "unix:$folder/r"
out=$(redis-cli -s "$folder/r" CL.THROTTLE b 1 1 60 | tr '\n' ' ')
check 'over a unix socket' test "$out" = '0 2 1 -1 60 '
stop
check 'which is gone afterwards' test ! -e "$folder/r"

# ---- TLS ----

openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 \
    -subj /CN=localhost -addext 'subjectAltName=IP:127.0.0.1' \
    -keyout c.key -out c.pem 2>/dev/null
policy t.yaml 9/3000d 'server: { store: "memory:", tls: { certificate: ./c.pem,
  key: ./c.key, client_ca: ./c.pem } }'
start -c t.yaml --listen-resp 127.0.0.1:0
redis --tls --cacert c.pem --cert c.pem --key c.key CL.THROTTLE c 1 1 60
check 'over TLS, with a certificate' answered '0 2 1 -1 60'
redis --tls --cacert c.pem PING
check 'without one' test "$out" != PONG
redis PING
check 'without TLS' test "$out" != PONG
stop

# ---- a reset is a reset everywhere ----

cat >q.yaml <<'EOT'
sluice: 1
limits:
  units: { kind: quota, per: org, rate: 3/month }
routes:
  - { job: work, limits: [units] }
EOT
past_midnight # the day below is today
in_books() { # some 50 ms later
    ask /v1/usage/org/acme
    has "$out" "\"days\":[{\"day\":\"$(date -u +%F)\",\"used\":$1,"
}
for books in sqlite:./alone.db 'sqlite:./shared.db?shared'; do
    start -c q.yaml --usage "$books" --listen-resp 127.0.0.1:0
    for _ in 1 2 3; do
        redis SLUICE.CHECK JOB work org acme as json
    done
    redis SLUICE.CHECK JOB work org acme as json
    check "$books: a quota is used up" has "$out" '"status":429,'
    until_ in_books 3
    redis SLUICE.RESET JOB work org acme
    check "$books: it is forgotten" answered 1
    redis SLUICE.CHECK JOB work org acme as json
    check "$books: and all is there again" has "$out" '"remaining":2,'
    stop
    start -c q.yaml --usage "$books" --listen-resp 127.0.0.1:0
    redis SLUICE.CHECK JOB work org acme as json
    check "$books: it is forgotten there, too" has "$out" '"remaining":1,'
    stop
done

finish
