#!/usr/bin/env bash
# webhooks_pace.sh -- three daemons on one PostgreSQL send to one URL: no window
# has more webhooks than the pace allows, by the log of the destination. On virtual
# clocks that differ, on such clocks that do not wait for the senders, and on the
# real clock. SL_LONG sends 500 messages, on the real clock as slowly as the default.

# shellcheck source=test/support/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"

background dest.log python3 "$here/destination.py" port hits
until_ test -s port
dest=http://127.0.0.1:$(<port)
count=120 rate=5/2s mode=real few=25
[[ -z ${SL_LONG-} ]] || count=500 rate=5/10s mode=long few=500

# run_daemons START RATE: three of them; leaves $senders and $pids.
run_daemons() {
    cat >p.yaml <<END
sluice: 1
server: { deadline: 5s }
limits: { any: { kind: fixed-window, per: user, rate: 1/s } }
default: [any]
webhooks: { destination: $2, allow: [127.0.0.0/8], insecure: true }
END
    senders=() pids=()
    for ((i = 0; i < 3; i++)); do
        "$1" -c p.yaml --threads 1 --store memory: --usage "$SLUICE_TEST_POSTGRES"
        [[ $1 = start ]] || clock 2026-11-15T12:00:00Z
        senders+=("$http,$admin") pids+=("$pid")
    done
}

# pace MODE COUNT: passes the lines of its TAP on.
pace() {
    : >hits
    run python3 "$here/webhooks_pace.py" "$1" "$2" hits "$dest/ok?$1" "${senders[@]}"
    sed -n '/^#/p' <<<"$out"
    check "the pace holds, $1" is 0
    for pid in "${pids[@]}"; do
        end_by TERM
        check 'a daemon ends' is 0
    done
}

run_daemons start_virtual 5/10s
pace virtual "$count"
run_daemons start_virtual 5/10s
pace late 40
run_daemons start "$rate"
pace "$mode" "$few"
finish
