#!/usr/bin/env bash
# spread.sh -- few connections are spread over all threads.

# shellcheck source=test/support/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"

rounds=8

# even ADDRESS [proxy]: do two threads have half of the connections each?
even() {
    local counts
    counts=$(python3 "$here/spread.py" "$pid" "$1" "$rounds" "${@:2}" |
        sort | uniq -c | sed 's/^ *//')
    [[ $counts == "$rounds 2 as 1 1
$rounds 3 as 1 2
$rounds 4 as 2 2" ]] || { echo "# ${counts//$'\n'/; }" && false; }
}

policy p.yaml 5/3000d
start -c p.yaml --threads 2 --listen-grpc 127.0.0.1:0 \
    --listen-resp "unix:$PWD/resp.sock"
check 'http: each thread has half of few connections' even "$http"
check 'grpc' even "$(where grpc)"
check 'resp on a unix socket, which the threads share' \
    even "unix:$PWD/resp.sock"

# The last connections are handed over while the daemon ends.
background storm python3 "$here/storm.py" "$http"
until_ grep -qs asking storm
stop
wait "$client"
check "hardly a request is lost at the end ($(tail -n 1 storm))" \
    grep -Eq '^[0-2] lost of [1-9]' storm
check 'which is in order' is 0

start -c p.yaml --threads 2 --proxy-protocol http
check 'behind a load balancer with PROXY headers' even "$http" proxy
stop
finish
