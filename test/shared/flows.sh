#!/usr/bin/env bash
# flows.sh SLUICED SLUICED-TEST SLUICE -- the flows of the presets, and our own,
# over HTTP against a daemon whose limits are in a Redis, on the virtual clock.
# Every verdict must be the one that the engine gives over its own table, to the
# byte.

# shellcheck source=test/support/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"

redis_start
start_for_flows -u FEATURE_BETA -- --store "$store" --deadline 5s
check 'it is up' until_ is_ok

# The days of requests are asked of the table of a daemon.
most=10000
[[ -z ${SL_LONG-} ]] || most=100000
take_flows "$most" "$root/presets" "$root/test/flow"
all_pass "http://$http" 150
check 'in Redis' test "$(metric 'sluice_store_takes_total{result="answered"}')" \
    -gt 1000
check 'and nothing was decided without it' test \
    "$(metric 'sluice_fail_mode_decisions_total{mode="allow"}')" = 0

finish
