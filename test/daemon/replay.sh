#!/usr/bin/env bash
# replay.sh -- a daemon that finds a large journal serves at once: the usage of
# decisions in it counts from the start, and is recorded in the background.
# daemon-leave_journal (the fourth argument) writes the journal of a killed one.

leave=$(realpath "$4")
# shellcheck source=test/support/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"
lines=20000

cat >p.yaml <<'EOT'
sluice: 1
limits:
  minutes: { kind: quota, per: org, rate: 10/month }
routes:
  - { job: transcribe, limits: [minutes] }
default: []
EOT
past_midnight

if [[ ${SLUICE_TEST_POSTGRES-} ]]; then
    usages=("$SLUICE_TEST_POSTGRES")
else
    usages=(sqlite:./one.db 'sqlite:./shared.db?shared')
fi

begin() {
    start -c p.yaml --threads 2 --store memory:./state"$round" \
        --usage "$usage" --journal ./journal"$round"
}

# The units of an organisation, by a job that reads the database.
in_days() {
    ask "/v1/usage/org/$1?limit=minutes"
    sed -n 's/.*"days":\[{"day":"[^"]*","used":\([0-9]*\),.*/\1/p' <<<"$out"
}

# spend N ORG: how many of N requests for a unit pass
spend() {
    local passed=0 i

    for ((i = 0; i < $1; i++)); do
        ask /v1/check -d "{\"job\":\"transcribe\",\"org\":\"$2\"}"
        [[ $out != *'"status":200,'* ]] || passed=$((passed + 1))
    done
    echo $passed
}

# The number of the first line of the log that has a text.
line_of() {
    grep -nF -- "$1" "$log" | head -1 | cut -d: -f1
}

# The units of all organisations in a CSV export, or the sentence why not.
exported() {
    ask '/v1/usage/export?from=2020-01-01&to=2100-01-01&format=csv'
    [[ $out != *'still being recorded'* ]] || { echo later; return; }
    awk -F, 'NR > 1 { n += $7 } END { print n }' <<<"$out"
}

none_pending() {
    [[ $(metric sluice_usage_journal_pending_units) = 0 ]]
}

round=0
for usage in "${usages[@]}"; do
    round=$((round + 1))
    "$leave" journal$round $lines 8
    begin
    check "${usage%%:*} $round: the journal was found" said "\"lines\":\"$lines\""
    check 'a quota with pending usage is not exceeded' test \
        "$(spend 4 org-$((lines - 1)))" = 2
    check 'what is shown includes pending usage' test \
        "$(in_days org-$((lines - 2)))" = 8
    ask /v1/usage -d '{"org":"org-'$((lines - 3))'","limit":"minutes","amount":1}'
    check 'a report is added to it' has "$out" '"used":9'
    end_by KILL
    begin
    check 'after one more kill no unit is free again' test \
        "$(spend 4 org-$((lines - 1)))" = 0
    check 'nor recorded twice' test "$(in_days org-$((lines - 2)))" = 8
    check 'an export is complete or refused' has " later $((lines * 8 + 3)) " \
        " $(exported) "
    check 'all of it is recorded in the end' until_ none_pending
    check 'no unit is lost' test "$(metric sluice_usage_lost_units_total)" = 0
    check 'and the log says so' until_ said 'usage of the journal recorded'
    check 'it served before that' test "$(line_of '"serving"')" -lt \
        "$(line_of 'usage of the journal recorded')"
    for org in org-0 org-511 org-$((lines / 2)); do
        check "$org has its usage" test "$(in_days $org)" = 8
    done
    check 'with what was used since' test "$(in_days org-$((lines - 1)))" = 10
    check 'the sum is what was acknowledged' test "$(exported)" \
        = $((lines * 8 + 3))
    stop
done
finish
