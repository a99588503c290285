#!/usr/bin/env bash
# vectors.sh -- V1 and V2: steady callers with uneven gaps are never denied.
#
#   vectors.sh SLUICE VECTORS.YAML
#
# A bucket that drops the fraction of a token at each take denies 451 of the
# first and 4501 of the second. The flows are made here, since a flow has no
# loop with two gaps.
set -euo pipefail

sluice=$1 policy=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cp "$policy" "$folder/vectors.yaml"

# uneven NAME COUNT GAP OTHER: COUNT requests, the gaps in ms in turn.
uneven() {
    echo "flow \"$1: $2 requests, $3 and $4 ms apart\""
    echo "policy vectors.yaml"
    awk -v name="$1" -v count="$2" -v gap="$3" -v other="$4" 'BEGIN {
        for (i = 0; i < count; i++) {
            printf "at %dms\n  GET /%s user=a -> 200\n", now, name
            now += i % 2 ? other : gap
        }
    }'
}

uneven v1 2000 500 900 >"$folder/v1.flow"
uneven v2 20000 50 75 >"$folder/v2.flow"
"$sluice" test "$folder/v1.flow" "$folder/v2.flow" -o tap
