#!/usr/bin/env bash
# internals.sh SLUICED SLUICED-TEST SLUICE SLUICED-TRACED -- the maps in
# docs/internals are true.
#
# Each row of a map names a function and its file. The function must be defined
# there, and a daemon that records its calls must call the functions in the
# order of the rows. maps.py reads the pages and the records.

traced=$(realpath "$4")
# shellcheck source=test/support/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"
pages=$root/docs/internals

cat >p.yaml <<'EOF'
sluice: 1
env: test
limits:
  reads: { kind: token-bucket, per: user, rate: 10/min }
routes:
  - { match: /read, limits: [reads] }
default: []
EOF

# start_traced WORD...: as start, and each call is a line of $folder/calls. The
# memory is small: each pass over all of it is a call, and a line, per slot.
start_traced() {
    SL_TRACE=$folder/calls launch "$traced" "${listeners[@]}" --threads 1 \
        --memory 1MiB -c p.yaml "$@"
    started
}

# record COMMAND...: run it. The calls meanwhile are in $folder/during.
record() {
    local before

    before=$(wc -l <"$folder/calls")
    "$@"
    tail -n "+$((before + 1))" "$folder/calls" >"$folder/during"
}

# follows PAGE: the recorded calls have the order of the map in PAGE.
follows() {
    run python3 "$here/maps.py" order "$root" "$pages/$1" "$traced" \
        "$folder/during"
    check "$1: the daemon calls the functions in this order" is 0
}

throttle() {
    redis-cli -h "${resp%:*}" -p "${resp##*:}" CL.THROTTLE user-1 9 10 60 1
}

run python3 "$here/maps.py" names "$root" "$pages"/*.md
check 'every function is in the file that the page names, and every file exists' is 0

check 'a daemon that records its calls starts' \
    start_traced --listen-resp 127.0.0.1:0
record ask_for ann /read
check 'a request is allowed' has "$out" '"allowed":true'
follows request-http-memory.md
record run throttle
check 'CL.THROTTLE is answered' has "$out" 9
follows request-cl-throttle.md
stop

redis_start
check 'and one on Redis' start_traced --store "$store"
check 'Redis answers' until_ is_ok
record ask_for ann /read
check 'a request on Redis is allowed' has "$out" '"allowed":true'
follows request-http-redis.md
stop

finish
