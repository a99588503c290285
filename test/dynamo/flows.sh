#!/usr/bin/env bash
# flows.sh SLUICED SLUICED-TEST SLUICE -- the flows of the presets, and our own,
# over HTTP against a daemon whose limits are in DynamoDB, on the virtual clock.
# Every verdict must be the one that the engine gives over its own table.

# shellcheck source=test/dynamo/dynamo.sh
. "$(dirname "${BASH_SOURCE[0]}")/dynamo.sh"

dynamo_start
start_for_flows -u FEATURE_BETA -- --store "$store" --deadline 5s
check 'it is up' until_ is_ok

# Each request is some calls to a server in node: two presets, limits that
# reports charge, and penalties are enough here, and of these what does not take thousands of
# them; the other stores have the rest.
most=500
[[ -z ${SL_LONG-} ]] || most=10000
take_flows "$most" "$root/presets" "$root/test/flow"
flows=(presets/jobseek.flow presets/fluo.flow flow/q02-on-report.flow
       flow/n01-penalties.flow)
all_pass "http://$http" 25
check 'in DynamoDB' test \
    "$(metric 'sluice_store_takes_total{result="answered"}')" -gt 500
check 'and nothing was decided without it' test \
    "$(metric 'sluice_fail_mode_decisions_total{mode="allow"}')" = 0

finish
