#!/usr/bin/env bash
# rules.sh PAGE ROOT -- the alert rules: right, tested, explained.
page=$(realpath "$1")
# shellcheck source=test/support/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"
rules=$root/ops/prometheus/rules.yaml
tests=$root/ops/prometheus/rules.test.yaml
manual=$root/docs/operations.md

run promtool check rules "$rules"
check 'promtool reads the rules' is 0
run promtool test rules "$tests"
check 'each fires when it should' is 0

# The tests themselves: without its threshold no alert passes them.
cp "$tests" .
sed 's/> 0.05/> 0.5/' "$rules" >rules.yaml
run promtool test rules rules.test.yaml
check 'another threshold is seen' test "$status" != 0
sed 's/for: 2m/for: 9m/' "$rules" >rules.yaml
run promtool test rules rules.test.yaml
check 'another patience is seen' test "$status" != 0

# ---- names ----

"$page" names >names.txt
# Expressions on one line each: what is indented below `expr: |` belongs to it.
awk '/^ *expr: [^|]/ { sub(/^ *expr: /, ""); print; next }
     /^ *expr: \|/ { open = 1; next }
     open && /^ {10}/ { line = line " " $0; next }
     open { print line; line = ""; open = 0 }' "$rules" >expressions
run test "$(wc -l <expressions)" = "$(grep -cE '^ *expr:' "$rules")"
check 'all expressions were found' is 0
run python3 "$here/promql.py" names.txt expressions
check 'they ask for what there is' test "$status-$out" = 0-
run python3 "$here/promql.py" names.txt <(echo 'rate(sluice_no_such_total[5m])')
check 'and would be caught otherwise' has "$out" 'there is no sluice_no_such'

# ---- each alert ----

# tested ALERT WHAT: is there a test of the alert with expected alerts (fires)
# or without (silent)?
tested() {     awk -v name="$1" -v want="$2" '
        /^ *- alertname:/ || /^ *- interval:/ {
            if (ours)
                found[fires ? "fires" : "silent"] = 1
            ours = $0 ~ "alertname: " name "$"
            fires = 0
        }
        /exp_alerts:/ { fires = 1 }
        END {
            if (ours)
                found[fires ? "fires" : "silent"] = 1
            exit !(want in found)
        }' "$tests"
}

mapfile -t alerts < <(sed -nE 's/^ *- alert: //p' "$rules")
run test "${#alerts[@]}" -ge 8
check 'there are alerts' is 0
for alert in "${alerts[@]}"; do
    rule=$(sed -n "/- alert: $alert\$/,/^ *runbook:/p" "$rules")
    check "$alert: a test where it fires" tested "$alert" fires
    check "$alert: and one where it does not" tested "$alert" silent
    check "$alert: summary, description, severity" \
        test "$(grep -cE '^ *(summary|description|severity):' <<<"$rule")" = 3
    anchor=docs/operations.md#${alert,,}
    check "$alert: points at its paragraph" has "$rule" "runbook: $anchor"
    check "$alert: and there is one" grep -qx "#### $alert" "$manual"
done

finish
