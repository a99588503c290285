#!/usr/bin/env bash
# ports.sh -- scripts/run names the addresses that are in use, before it builds.

# shellcheck source=test/support/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"

ports=$root/scripts/lib/ports.py
python3 -c '
import socket, time
s = socket.socket()
s.bind(("127.0.0.1", 0))
s.listen()
print(s.getsockname()[1], flush=True)
time.sleep(600)' >port &
running+=("$!")
until_ test -s port
port=$(cat port)
off=(--listen-http 127.0.0.1:0 --listen-grpc 127.0.0.1:0
    --listen-resp=127.0.0.1:0 --listen-admin off)

run python3 "$ports" "${off[@]}"
check 'free ports are not reported' test "$status$err" = 0
run python3 "$ports" "${off[@]}" --listen-admin "127.0.0.1:$port"
check 'a port in use fails' is 1
check 'the message names it' has "$err" "127.0.0.1:$port"
check 'its listener, and the flag' has "$err" 'admin listener, is in use; choose another: scripts/run --listen-admin'
SLUICE_LISTEN_RESP=127.0.0.1:$port run python3 "$ports" -c p.yaml
check 'a variable counts too' has "$err" --listen-resp
check 'of a policy only what the command line says' \
    test "$(wc -l <<<"$err")" = 1
finish
