#!/usr/bin/env bash
# dashboard.sh PAGE ROOT -- the dashboard shows what there is, and all of it.
page=$(realpath "$1")
# shellcheck source=test/support/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"
dashboard=$root/ops/grafana/sluice.json

cat >look.py <<'PY'
"""The expressions of all panels, one a line; complaints on standard error."""
import json
import sys

board = json.load(open(sys.argv[1]))
ids, places = set(), []
if board["__inputs"][0]["name"] != "DS_PROMETHEUS":
    print("no input for the data source", file=sys.stderr)
for panel in board["panels"]:
    name, at = panel["title"], panel["gridPos"]
    if panel["id"] in ids:
        print(f"{name}: id {panel['id']} is taken", file=sys.stderr)
    ids.add(panel["id"])
    for other, was in places:
        if (at["x"] < was["x"] + was["w"] and was["x"] < at["x"] + at["w"] and
                at["y"] < was["y"] + was["h"] and was["y"] < at["y"] + at["h"]):
            print(f"{name} lies over {other}", file=sys.stderr)
    places.append((name, at))
    if at["x"] + at["w"] > 24:
        print(f"{name} is too far to the right", file=sys.stderr)
    if panel["type"] == "row":
        continue
    if not panel.get("description"):
        print(f"{name} has no description", file=sys.stderr)
    for target in panel["targets"]:
        if target["datasource"]["uid"] != "${DS_PROMETHEUS}":
            print(f"{name} asks a fixed data source", file=sys.stderr)
        print(" ".join(target["expr"].split()))
for variable in board["templating"]["list"]:
    if variable["type"] == "query":
        print(variable["query"]["query"])
PY
run python3 look.py "$dashboard"
check 'Grafana could read it' is 0
check 'panels have an id, a place and a description of their own' test -z "$err"
# shellcheck disable=SC2016 # the dollars are Grafana's
sed -E 's/label_values\((.*), *[a-z]+\)/\1/
    s/\$__rate_interval|\$__range/5m/g
    s/\$(job|instance|endpoint|limit)\b/.*/g' <<<"$out" >expressions

# The expressions as rules, so that promtool reads them.
{
    echo 'groups: [{name: dashboard, rules: ['
    i=0
    while IFS= read -r expression; do
        echo "{record: 'e:$((i++))', expr: '${expression//\'/\'\'}'},"
    done <expressions
    echo ']}]'
} >expressions.yaml
run promtool check rules expressions.yaml
check 'promtool reads every expression' is 0

"$page" names >names.txt
run python3 "$here/promql.py" names.txt expressions
check 'they ask for what there is' test "$status-$out" = 0-
run diff <(awk '{ print $1 }' names.txt | sort) <(echo "$err")
check 'every metric is on the dashboard' is 0

finish
