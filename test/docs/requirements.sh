#!/usr/bin/env bash
# requirements.sh -- every requirement has an answer, and the cited file exists.
#
#   requirements.sh ROOT
#
# ROOT/test/data/requirements.txt has every id, one per line.
# ROOT/docs/requirements.md answers each in one row of its tables. Tables with
# what was seen are written and compared by test/requirements; the others cite
# files.
set -euo pipefail

cd "$1"
page=docs/requirements.md
list=test/data/requirements.txt
number='([0-9]{3}-[A-Z][0-9]{2}|7-[0-9]{2}|V[0-9]+)'
rows=$(grep -E "^\| $number \|" "$page")
parts=$(awk -F' *[|] *' '/^\| not implemented/ { on = 1; next }
                         on && !/^\|/ { exit }
                         on { print $2 }' "$page")
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

# Print the rows as ID <tab> ANSWER, one line per answer. Answers are separated
# by commas; a remark in brackets belongs to the answer before it.
answers() {
    awk -F' *[|] *' 'NF == 5 {
        answer = $4
        gsub(/ \([^)]*\)/, "", answer)
        count = split(answer, one, /, /)
        if (count == 0)
            print $2 "\t"
        for (i = 1; i <= count; i++)
            print $2 "\t" one[i]
    }' <<<"$rows"
}

# in_comment ID FILE: true if a comment of FILE contains ID.
in_comment() {
    grep -o '#.*' "$2" | grep -qE -- "(^|[^0-9A-Z-])$1([^0-9]|\$)"
}

# complain ID ANSWER: print the error of an answer, if any.
complain() {
    local id=$1 answer=$2 file

    case $answer in
    '`'*'`')
        file=${answer//\`/}
        if [[ ! -f $file ]]; then
            echo "$id: there is no $file"
        elif [[ $file == *.flow ]] && ! in_comment "$id" "$file"; then
            echo "$id: no comment of $file has it"
        fi
        ;;
    'not implemented: '*)
        grep -qxF -- "${answer#not implemented: }" <<<"$parts" ||
            echo "$id: '${answer#not implemented: }' is not in the table"
        ;;
    'the application') ;;
    *) echo "$id: '$answer' is no answer" ;;
    esac
}

all_answers() {
    local id answer

    while IFS=$'\t' read -r id answer; do
        complain "$id" "$answer"
    done < <(answers)
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

echo "1..5"
verdict "the list has every number once" "$(sort "$list" | uniq -d)"
verdict "every number is in a table, once" \
    "$(diff <(sort "$list") <(awk '{ print $2 }' <<<"$rows" | sort) || true)"
verdict "every answer is there" "$(all_answers)"
verdict "flows and presets cite what exists" "$(strangers)"
verdict "every preset has a flow, and every flow a preset" "$(pairs)"
((failed == 0))
