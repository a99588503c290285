#!/usr/bin/env bash
# flows_resp.sh -- the flows of the presets, and our own, over the Redis protocol
# against a running daemon on the virtual clock; as flows.sh does over HTTP.

# shellcheck source=test/support/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"

words=(--store memory: --listen-http off --listen-resp 127.0.0.1:0)
start_for_flows -u FEATURE_BETA -- "${words[@]}"
# The days of requests are asked for over HTTP.
most=10000
[[ -z ${SL_LONG-} ]] || most=100000
take_flows "$most" "$root/presets" "$root/test/flow"
all_pass "redis://$resp" 145

cat >wrong.flow <<'EOT'
flow "three of two"
policy p.yaml
  GET /x user=ann x2 -> allowed=2
  GET /x user=ann    -> 200
EOT
over "redis://$resp" wrong.flow
check 'an expectation that is wrong fails' is 1
check 'with its line' has "$out" 'wrong.flow:4: want 200, got 429'
cat >many.flow <<'EOT'
flow "costs of both kinds go together here"
policy p.yaml
  GET /x user=ann cost=1 cost.api=2 -> 200 remaining=0
EOT
over "redis://$resp" many.flow
check 'what HTTP can not say' is 0
stop

start_for_flows FEATURE_BETA=false -- "${words[@]}"
over "redis://$resp" "$root/test/flow/a01-acts.flow"
check 'a daemon that decides otherwise fails' is 1
check 'and it is told what is different' has "$out" \
    'a01-acts.flow:42: over RESP: want {"allowed":true,"status":200,'
run "$sluice" test --url "redis://$admin" --admin-url "http://$admin" many.flow
check 'what speaks something else is none' is 4
check 'and it is said' has "$out" 'is not valid RESP'
stop
finish
