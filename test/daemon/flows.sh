#!/usr/bin/env bash
# flows.sh -- the flows of the presets, and our own, over HTTP against a running
# daemon on the virtual clock. Every verdict must be the one that the engine
# gives in the process of the test, to the byte.

# shellcheck source=test/support/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"

start_for_flows -u FEATURE_BETA -- --store memory:

# ---- all of them ----

# A day of requests, one a second, is asked for where programs are quick.
most=100000
[[ -z ${SL_SHORT-} ]] || most=10000
take_flows "$most" "$root/presets" "$root/test/flow"
all_pass "http://$http" 150
whys=$(grep '^skip ' <<<"$out" | sed 's/.* (//; s/)$//' | sort -u)
check 'what was skipped had a reason' test "$whys" = \
    "a daemon would send the webhooks of the flow
the store of a daemon cannot be made to fail"
over "http://$http" -o tap "$root/test/flow/a01-acts.flow"
check 'TAP says SKIP, and why' has "$out" "# SKIP the store of a daemon"
over "http://$http" -o json "$root/test/flow/a01-acts.flow"
check 'JSON counts them' has "$out" '"failed":0,"skipped":2'
over "http://$http" "$root/test/flow/a03-subjects.flow"
check 'subjects are registered in the daemon' has "$out" '4 passed, 0 failed'

# ---- it can fail ----

cat >wrong.flow <<'EOF'
flow "three of two"
policy p.yaml
  GET /x user=ann x2 -> allowed=2
  GET /x user=ann    -> 200
EOF
over "http://$http" wrong.flow
check 'an expectation that is wrong fails' is 1
check 'with its line' has "$out" 'wrong.flow:4: want 200, got 429'
over "http://$http" wrong.flow
check 'the second time too: each flow has an empty state' \
    has "$out" 'wrong.flow:4: want 200, got 429'
stop

start_for_flows FEATURE_BETA=false -- --store memory:
over "http://$http" "$root/test/flow/a01-acts.flow"
check 'a daemon that decides otherwise fails' is 1
check 'and it is told what is different' has "$out" \
    'a01-acts.flow:42: over HTTP: want {"allowed":true,"status":200,'
stop

# ---- not the right one to be asked ----

over "http://$http" wrong.flow
check 'there is no daemon' is 4
check 'which is said' has "$out" "wrong.flow:1: cannot connect to $admin"

start -c p.yaml --store memory:
over "http://$http" wrong.flow
check 'one with a real clock is none' is 1
check 'and why' has "$out" 'this daemon has no virtual clock'
check 'before its policy is touched' test \
    "$(grep -c 'policy loaded' "$log")" = 0
stop

run "$sluice" test --url http://127.0.0.1:1 wrong.flow
check 'one URL alone is not enough' is 2
run "$sluice" test --url localhost --admin-url http://127.0.0.1:1 wrong.flow
check 'nor is what is no URL' is 2
check 'and it is shown what one is' has "$err" 'http://127.0.0.1:8080'

finish
