# shellcheck shell=bash
# dynamo.sh -- a DynamoDB of the test's own, on top of lib.sh: dynalite
# behind dynamo.js.
#
#   dynamo_start WORD...  leaves $dynamo_pid, $dynamo_port and $store
#   dynamo_kill           as by kill -9
#   shim JSON             trouble, from now on; see dynamo.js
#   asked                 how many requests it had since then; asked OPERATION
#   item KEY SORT         a row, as JSON on a line, its members in order
#   rows                  "KEY SORT" of all rows but those of the store itself
#   journals               how many sets are under way, or were left behind
#   put JSON              a row
#
# shellcheck disable=SC2034,SC2120 # the scripts read them

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
modules=${SLUICE_NODE_MODULES:-$here/../../build/node_modules}
if ! [[ -d $modules/dynalite ]]; then
    echo '1..0 # SKIP dynalite is not installed; run scripts/setup'
    exit 0
fi
# shellcheck source=test/support/lib.sh
. "$here/../support/lib.sh"
export AWS_ACCESS_KEY_ID=id AWS_SECRET_ACCESS_KEY=secret
unset AWS_SESSION_TOKEN AWS_PROFILE
dynamo_pid='' dynamo_port=0 store='' table=jobseek-users kinds=()

dynamo_is_up() {
    [[ -s $folder/dynamo.port ]]
}

# At the port that it had, if it had one.
dynamo_start() {
    rm -f "$folder/dynamo.port"
    node "$here/dynamo.js" --stay --port "$dynamo_port" "$@" </dev/null \
        >"$folder/dynamo.port" 2>"$folder/dynamo.err" &
    dynamo_pid=$!
    running+=("$dynamo_pid")
    until_ dynamo_is_up
    dynamo_port=$(cat "$folder/dynamo.port")
    endpoint=http://127.0.0.1:$dynamo_port
    store="dynamodb://eu-west-1/$table?endpoint=$endpoint"
}

dynamo_kill() {
    kill -9 "$dynamo_pid"
    wait "$dynamo_pid" 2>/dev/null
}

shim() {
    curl -s "$endpoint/_shim" -d "$1" >/dev/null
}

asked() {
    curl -s "$endpoint/_shim" | python3 -c '
import json, sys
said = json.load(sys.stdin)
print(said["by"].get(sys.argv[1], 0) if len(sys.argv) > 1 else said["asked"])
' "$@"
}

# operation NAME BODY: past the shim's look at signatures.
operation() {
    python3 "$here/signed.py" "$endpoint" "$1" "$2"
}

item() {
    operation GetItem "{\"TableName\":\"$table\",\"ConsistentRead\":true,
        \"Key\":{\"userId\":{\"S\":\"$1\"},\"dataType\":{\"S\":\"$2\"}}}" |
        python3 -c 'import json, sys
item = json.load(sys.stdin).get("Item", {})
print(json.dumps(item, sort_keys=True, separators=(",", ":")))'
}

all_rows() {
    operation Scan "{\"TableName\":\"$table\",\"ConsistentRead\":true}" |
        python3 -c 'import json, sys
for item in sorted(json.load(sys.stdin)["Items"],
                   key=lambda i: (i["userId"]["S"], i["dataType"]["S"])):
    print(item["userId"]["S"], item["dataType"]["S"],
          "marked" if "sets" in item else "")' | sed 's/ $//'
}

rows() {
    all_rows | grep -v -e '^sluice:secret ' -e '^sluice:pledges ' -e '#nodes[: ]'
}

journals() {
    all_rows | grep -c '^sluice:pledges '
}

put() {
    operation PutItem "{\"TableName\":\"$table\",\"Item\":$1}" >/dev/null
}

# begin [DEADLINE]: a daemon on it, on the virtual clock
begin() {
    start_virtual -c p.yaml --store "$store" --deadline "${1-5s}" && until_ is_ok
}

# left USER: what each limit of $kinds has left, without taking
left() {
    local kind list=()

    for kind in "${kinds[@]}"; do
        ask_for "$1" "/$kind" ",\"org\":\"$1\",\"cost\":0"
        list+=("$(member remaining)")
    done
    echo "${list[*]}"
}

all_healed() {
    [[ $(journals) = 0 ]]
}

is_stalled() {
    curl -s "$endpoint/_shim" | grep -q '"stalled":[1-9]'
}

# killed USER PATH SERVED: the daemon, after so many requests: two until
# the daemon knows what it has to do, the journal, and a row each
killed() {
    local asking

    begin
    clock 2026-03-10T00:30:00Z
    shim "{\"serve\":$3}"
    curl -s "http://$http/v1/check" -o "told.$1" -d \
        "{\"path\":\"$2\",\"user\":\"$1\",\"org\":\"$1\"}" &
    asking=$!
    until_ is_stalled
    kill -9 "$pid"
    wait "$pid" 2>/dev/null
    wait "$asking" 2>/dev/null
    shim '{}'
}
