#!/usr/bin/env bash
# flows.sh -- the flows of the presets, and our own, over HTTP against a running
# daemon on the virtual clock. Every verdict must be the one that the engine
# gives in the process of the test, to the byte.
# shellcheck disable=SC2317 # functions are called by until_ and check
set -uo pipefail

# shellcheck source=test/daemon/daemon.sh
. "$(dirname "${BASH_SOURCE[0]}")/daemon.sh"

root=$(realpath "$tests/../..")

# A daemon for flows; what stands before it goes into its environment.
start_for_flows() {
    launch env "$@" "$sluiced_test" -c p.yaml --clock=virtual --store memory: \
        --listen-http 127.0.0.1:0 --listen-admin 127.0.0.1:0 --log-format json
    started
}

over_http() {
    run "$sluice" test --url "http://$http" --admin-url "http://$admin" "$@"
}

# How many flows of the last run began with this word?
count() {
    grep -c "^$1 " <<<"$out"
}

policy p.yaml 2/day
cp -r "$root/test/flow/tokens" . # the keys of a policy that is posted are here
start_for_flows -u FEATURE_BETA

# ---- all of them ----

# A day of requests, one a second, is asked for where programs are quick.
most=100000
[[ -z ${SL_SHORT-} ]] || most=10000
take_flows "$most" "$root/presets" "$root/test/flow"
over_http "${flows[@]}"
check 'none fails' is 0
all=$(cat "${flows[@]}" | grep -c '^flow ')
passed=$(count 'ok ') skipped=$(count 'skip')
check "all $all were run or skipped" test $((passed + skipped)) = "$all"
check "nearly all were run ($passed)" test "$passed" -ge 150
whys=$(grep '^skip ' <<<"$out" | sed 's/.* (//; s/)$//' | sort | uniq -c |
    sed 's/^ *//')
check 'what was skipped had a reason' test "$whys" = \
    "5 the store of a daemon cannot be made to fail"
over_http -o tap "$root/test/flow/a01-acts.flow"
check 'TAP says SKIP, and why' has "$out" "# SKIP the store of a daemon"
over_http -o json "$root/test/flow/a01-acts.flow"
check 'JSON counts them' has "$out" '"failed":0,"skipped":1'
over_http "$root/test/flow/a03-subjects.flow"
check 'subjects are registered in the daemon' has "$out" '4 passed, 0 failed'

# ---- it can fail ----

cat >wrong.flow <<'EOF'
flow "three of two"
policy p.yaml
  GET /x user=ann x2 -> allowed=2
  GET /x user=ann    -> 200
EOF
over_http wrong.flow
check 'an expectation that is wrong fails' is 1
check 'with its line' has "$out" 'wrong.flow:4: want 200, got 429'
over_http wrong.flow
check 'the second time too: each flow has an empty state' \
    has "$out" 'wrong.flow:4: want 200, got 429'
stop

start_for_flows FEATURE_BETA=false
over_http "$root/test/flow/a01-acts.flow"
check 'a daemon that decides otherwise fails' is 1
check 'and it is told what is different' has "$out" \
    'a01-acts.flow:42: over HTTP: want {"allowed":true,"status":200,'
stop

# ---- not the right one to be asked ----

over_http wrong.flow
check 'nobody is there' is 4
check 'which is said' has "$out" "wrong.flow:1: cannot connect to $admin"

start -c p.yaml --store memory:
over_http wrong.flow
check 'one with a real clock is none' is 1
check 'and says so' has "$out" 'this daemon has no virtual clock'
check 'before its policy is touched' test \
    "$(grep -c 'policy loaded' "$log")" = 0
stop

run "$sluice" test --url http://127.0.0.1:1 wrong.flow
check 'one URL alone is not enough' is 2
run "$sluice" test --url localhost --admin-url http://127.0.0.1:1 wrong.flow
check 'nor is what is no URL' is 2
check 'and it is shown what one is' has "$err" 'http://127.0.0.1:8080'

finish
