#!/usr/bin/env bash
# two.sh SLUICED SLUICED-TEST SLUICE -- two daemons on one Redis: what they
# admit together is exact, whatever their clocks say, through reloads and ends.

# shellcheck source=test/support/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"

cat >p.yaml <<'EOF'
sluice: 1
env: test
limits:
  window: { kind: fixed-window, per: user, rate: 300/3000d }
  bucket: { kind: token-bucket, per: user, rate: 1/day burst 250 }
  sliding: { kind: sliding-window, per: user, rate: 280/3000d }
  tenant: { kind: fixed-window, per: org, rate: 200/3000d }
  big: { kind: fixed-window, per: user, rate: 1M/3000d }
routes:
  - { match: /window, limits: [window] }
  - { match: /bucket, limits: [bucket] }
  - { match: /sliding, limits: [sliding] }
  - { match: /set, limits: [tenant, window] }
  - { match: /big, limits: [big] }
default: []
EOF

redis_start
share -c p.yaml --threads 2
first=$http first_admin=$admin first_pid=$pid first_log=$log
share -c p.yaml --threads 2
second=$http

# both USER PATH: load on both until they have refused for some time
both() {
    load refused 4 "{\"path\":\"$2\",\"user\":\"$1\",\"org\":\"$1\"}" "$first" \
        "$second"
}

# exact NAME WANT: that many passed, and no daemon decided without the store
exact() {
    check "$1: exactly $2 pass at two daemons" test \
        "$allowed $outage $unanswered $degraded" = "$2 0 0 0"
    check "$1: and others were refused" test "$denied" -gt 0
}

both ann /window
exact 'a window' 300
check 'which is what Redis has' test "$(used sluice:test:window:user:ann)" = 300
both ann /bucket
exact 'a bucket' 250
both ann /sliding
exact 'a sliding window' 280
both bob /set
exact 'a set' 200
check 'of which neither has more' test \
    "$(used sluice:test:tenant:org:bob) $(used sluice:test:window:user:bob)" = \
    '200 200'

# ---- reloads ----

reload_often() {
    local i

    for ((i = 0; i < 10; i++)); do
        kill -HUP "$first_pid"
        sleep 0.1
    done
}
reload_often &
load 2 4 '{"path":"/big","user":"ann"}' "$first" "$second"
wait "$!"
check 'a reload under load loses nothing and doubles nothing' test \
    "$(used sluice:test:big:user:ann) $outage $unanswered $degraded" = \
    "$allowed 0 0 0"
check 'it was reloaded' grep -qF '"event":"policy loaded"' "$first_log"

# ---- the end ----

load_first() {
    load 3 4 '{"path":"/big","user":"eve"}' "$first"
    echo "$allowed $denied $outage $degraded" >"$folder/ended"
}
load_first &
loader=$!
some_passed() {
    [[ -n $(used sluice:test:big:user:eve) ]]
}
until_ some_passed
kill -TERM "$first_pid"
wait "$loader"
until_ gone "$first_pid"
read -r allowed denied outage degraded <"$folder/ended"
check 'at the end, what passed is what Redis has' test \
    "$(used sluice:test:big:user:eve) $denied $outage $degraded" = \
    "$allowed 0 0 0"
check 'and there was some' test "$allowed" -gt 0
: "$first_admin"

# ---- clocks ----

lib=$(echo /usr/lib/*/faketime/libfaketime.so.1)
skewed() {
    launch env ASAN_OPTIONS=verify_asan_link_order=0 LD_PRELOAD="$lib" \
        FAKETIME="$1" FAKETIME_DONT_FAKE_MONOTONIC=1 \
        "$sluiced" "${listeners[@]}" -c p.yaml --store "$store" --deadline 5s
    started && until_ is_ok
}
skewed +30s
first=$http
ask_for dan /big
check 'a daemon that is thirty seconds ahead serves' answers 200
ahead=$(metric sluice_store_clock_ahead_seconds)
check "and reports the difference ($ahead)" test "${ahead%%.*}" -le -29
skewed -30s
second=$http
ask_for dan /big
ahead=$(metric sluice_store_clock_ahead_seconds)
check "one that is behind, too ($ahead)" test "${ahead%%.*}" -ge 29
both cat /window
exact 'clocks a minute apart, a window' 300
both cat /bucket
exact 'clocks a minute apart, a bucket' 250
both cat /sliding
exact 'clocks a minute apart, a sliding window' 280

finish
