#!/usr/bin/env bash
# flows.sh SLUICED SLUICED-TEST SLUICE -- the flows of the presets, and our own,
# over HTTP against a daemon whose limits are in DynamoDB, on the virtual clock.
# Every verdict must be the one that the engine gives over its own table.

# shellcheck source=test/dynamo/dynamo.sh
. "$(dirname "${BASH_SOURCE[0]}")/dynamo.sh"

cp -r "$root/test/flow/tokens" . # the keys of a policy that is posted are here
policy p.yaml 2/day
dynamo_start
launch env -u FEATURE_BETA "$sluiced_test" -c p.yaml --clock=virtual \
    --store "$store" --deadline 5s "${listeners[@]}"
started
check 'it is up' until_ is_ok

# Each request is some calls to a server in node: two presets are enough here,
# and of these what does not take thousands of them; the other stores have the
# rest.
most=500
[[ -z ${SL_LONG-} ]] || most=10000
take_flows "$most" "$root/presets"
flows=(presets/jobseek.flow presets/fluo.flow)
run "$sluice" test --url "http://$http" --admin-url "http://$admin" \
    "${flows[@]}"
check 'none fails' is 0
all=$(cat "${flows[@]}" | grep -c '^flow ')
passed=$(grep -c '^ok ' <<<"$out") skipped=$(grep -c '^skip ' <<<"$out")
check "all $all were run or skipped" test $((passed + skipped)) = "$all"
check "nearly all were run ($passed)" test "$passed" -ge 16
check 'in DynamoDB' test \
    "$(metric 'sluice_store_takes_total{result="answered"}')" -gt 500
check 'and nothing was decided without it' test \
    "$(metric 'sluice_fail_mode_decisions_total{mode="allow"}')" = 0

finish
