#!/usr/bin/env bash
# flows_leased.sh SLUICED SLUICED-TEST SLUICE -- the flows over HTTP against a
# daemon whose rates are in Redis and whose quotas are leased from a SQLite
# database, of its own and shared. Verdicts are those of a table of its own, to
# the byte, except in the flows listed below.

# shellcheck source=test/support/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"

redis_start
take_flows 10000 "$root/presets" "$root/test/flow"
# A denial of several units shows what is available at this daemon. A clock that
# goes back months finds the counter of another period. The end of a hold does
# not show what is left of a quota.
cat >known <<'EOT'
flow/a01-acts.flow: jobs, quotas and costs of their own
flow/a02-clock.flow: it begins in 1970 and is moved to instants, by spans and back
flow/h01-holds.flow: beyond a quota that may be exceeded, what is left is none
flow/h01-holds.flow: less than was held comes back, more is charged, beyond the limit too
flow/h01-holds.flow: one cost for all leaves the limit alone whose cost is fixed
flow/h01-holds.flow: things that exist: a hold that is settled stays
flow/h01-holds.flow: what had ended stays as it is, and tells how
flow/p03-retry.flow: by a limit (429, 402 or its `status`)
flow/q03-held-report.flow: a hold reserves, and its settlement takes
flow/q04-scale.flow: a hold is settled in seconds
flow/q04-scale.flow: seconds are counted, whole minutes are shown
flow/q04-scale.flow: the rate of an override is in minutes
flow/q05-credits.flow: a hold holds credits, and gives back what was not used
flow/q05-credits.flow: a quota that a route lists is settled as itself
flow/q05-credits.flow: and by the name of that limit, or their own
flow/q05-credits.flow: credits are settled as the limit that they paid for: a fixed cost stays
flow/q05-credits.flow: credits of two limits: one that is fixed keeps them, the larger named cost counts
flow/q06-anchors.flow: an organisation has the periods of its provider
presets/saas-quotas.flow: assistant: queries and tokens per day
presets/saas-quotas.flow: assistant: tokens are reserved, then settled
presets/saas-quotas.flow: metering: used minutes, tokens and chunks
presets/saas-quotas.flow: transcription: minutes per month
EOT

# compare USAGE: runs all flows
compare() {
    local passed

    start_for_flows -u FEATURE_BETA -- --store "$store" --deadline 5s \
        --usage "$1"
    check "$1: it is up" until_ is_ok
    check 'quotas are leased' said 'quota leases enabled'
    over "http://$http" "${flows[@]}"
    passed=$(grep -c '^ok ' <<<"$out")
    out=$(sed -n 's/^FAIL \(.*\) ([0-9]* lines*)$/\1/p' <<<"$out" |
        LC_ALL=C sort | LC_ALL=C comm -13 known -)
    check 'no other flow differs' test -z "$out"
    check "nearly all flows pass ($passed)" test "$passed" -ge 180
    check 'rates are taken in Redis' test \
        "$(metric 'sluice_store_takes_total{result="answered"}')" -gt 1000
    stop
}

compare sqlite:one.db
compare 'sqlite:shared.db?shared'
finish
