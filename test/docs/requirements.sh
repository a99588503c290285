#!/usr/bin/env bash
# requirements.sh -- every requirement has a row, and what cites one is right.
#
#   requirements.sh ROOT
#
# ROOT/test/data/requirements.txt has every id, one per line.
# ROOT/docs/requirements.md has each in one row of its tables. The programs of
# test/requirements write these and compare them with what is seen.
set -euo pipefail

cd "$1"
page=docs/requirements.md
list=test/data/requirements.txt
number='([0-9]{3}-[A-Z][0-9]{2}|7-[0-9]{2}|V[0-9]+)'
rows=$(grep -E "^\| $number \|" "$page")
tests=0 failed=0

# verdict NAME COMPLAINTS: one line of TAP.
verdict() {
    tests=$((tests + 1))
    if [[ -z $2 ]]; then
        echo "ok $tests - $1"
    else
        failed=$((failed + 1))
        echo "# ${2//$'\n'/$'\n# '}"
        echo "not ok $tests - $1"
    fi
}

# Ids in comments of flows that are not in the list.
strangers() {
    grep -ohE '#.*' presets/*.flow presets/*.yaml test/flow/*.flow |
        grep -oE "\b([0-9]{3}-[A-Z][0-9]{2}|7-[0-9]{2})\b" | sort -u |
        grep -vxF -f "$list" || true
}

# Presets without a flow, and flows without a preset.
pairs() {
    local file

    for file in presets/*.yaml; do
        [[ -f ${file%yaml}flow ]] || echo "$file has no flow"
    done
    for file in presets/*.flow; do
        [[ -f ${file%flow}yaml ]] || echo "$file has no preset"
    done
}

echo "1..4"
verdict "the list has every number once" "$(sort "$list" | uniq -d)"
verdict "every number is in a table, once" \
    "$(diff <(sort "$list") <(awk '{ print $2 }' <<<"$rows" | sort) || true)"
verdict "flows and presets cite what exists" "$(strangers)"
verdict "every preset has a flow, and every flow a preset" "$(pairs)"
((failed == 0))
