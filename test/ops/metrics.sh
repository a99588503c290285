#!/usr/bin/env bash
# metrics.sh PAGE ROOT -- the page of metrics, read by those it is made for,
# and the table in the manual.
#
# PAGE is the program of page.c. If a row of metrics.def has changed:
#
#   PAGE table     prints what belongs between the marks in docs/operations.md
page=$(realpath "$1")
# shellcheck source=test/support/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"
manual=$root/docs/operations.md

for what in text open names table; do
    "$page" "$what" >"$what.txt"
done
run test -s text.txt -a -s open.txt -a -s names.txt -a -s table.txt
check 'there is a page' is 0

# ---- Prometheus text ----

run promtool check metrics <text.txt
check 'promtool finds nothing to say' is 0
check 'not even a hint' test -z "$out$err"

sed 's/sluice_table_full_total/sluice_table_full_ms/' text.txt >bad.txt
run promtool check metrics <bad.txt
check 'though it would say something' test "$status" != 0

# ---- OpenMetrics, read by a strict reader ----

# Debian's own Python has the module; another one first in PATH may not.
cat >read.py <<'PY'
import sys
from prometheus_client.openmetrics.parser import text_string_to_metric_families

families = text_string_to_metric_families(sys.stdin.read())
print(sum(len(family.samples) for family in families))
PY
run /usr/bin/python3 read.py <open.txt
check 'OpenMetrics is read' is 0
check 'with as many samples as Prometheus text' \
    test "$out" = "$(grep -vc '^#' text.txt)"
run /usr/bin/python3 read.py < <(sed '$d' open.txt)
check 'a page without an end would not be' has "$err" '# EOF'

# ---- labels ----

# NAME LABELS of every sample, those of a histogram's parts under its name.
sed -nE '/^#/d
    s/="[^"]*"//g
    s/_(bucket|sum|count)(\{[^}]*\}) .*/\2/
    s/ .*//
    s/^([a-z_]+)(\{(.*)\})?$/\1 \3/
    s/,le$//
    s/,/ /g
    p' text.txt | sort -u >used.txt
awk '{ line = $1; for (i = 3; i <= NF; i++) line = line " " $i; print line }' \
    names.txt | sort -u >declared.txt
run diff <(sed 's/ *$//' declared.txt) <(sed 's/ *$//' used.txt)
check 'samples have the labels that metrics.def says, and all have samples' is 0

run grep -E 'ann|192\.0\.2|"pro"' text.txt
check 'no caller is named' test -z "$out"
run grep acme <(grep -v '{tenant_id="acme"' text.txt)
check 'but a tenant that the policy lists' test -z "$out"

# ---- the manual ----

sed -n '/<!-- metrics -->/,/<!-- end -->/p' "$manual" | grep '^| `' >there.txt
run diff table.txt there.txt
check 'the table of the manual is that of metrics.def' is 0

finish
