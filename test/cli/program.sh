#!/usr/bin/env bash
# program.sh SLUICE -- exit statuses, pipes, files and terminals.
sluice=$(realpath "$1")
# shellcheck source=test/support/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"
unset NO_COLOR CLICOLOR_FORCE

run "$sluice"
check 'alone it helps, and fails' is 2
check 'and that is a message' test -z "$out"

run "$sluice" --version
check 'it knows its version' has "$out" 'sluice 0.'

run "$sluice" init
check 'init writes sluice.yaml' test -s sluice.yaml
check 'and how to serve it' has "$out" 'sluiced -c sluice.yaml'
check 'and says what is next' has "$out" 'sluice check sluice.yaml'
sum=$(md5sum <sluice.yaml)
run "$sluice" init
check 'init does not write twice' is 1
check 'and leaves the file as it is' test "$sum" = "$(md5sum <sluice.yaml)"

run "$sluice" check sluice.yaml
check 'the starter is right' is 0
check 'without a word on standard error' test -z "$err"
sed '/^default:/,$d' sluice.yaml >no-default.yaml
run "$sluice" check no-default.yaml
check 'a missing default is a warning' has "$err" 'warning: Requests that match no route'
(cat no-default.yaml && echo 'default: []') >empty-default.yaml
run "$sluice" check empty-default.yaml
check 'default: [] is meant' test -z "$err"
run bash -c "'$sluice' init - | '$sluice' check -"
check 'also through a pipe' is 0

printf '%s\n' '# partners' '198.51.100.0/24  # the first' 192.0.2.77 >partners.txt
cat >exempt.yaml <<'END'
sluice: 1
limits: { a: { kind: fixed-window, per: ip, rate: 5/min } }
routes:
  - { match: /a, exempt: [{ ip: "${FILE:./partners.txt}" }], limits: [a] }
default: [a]
END
run "$sluice" explain exempt.yaml 'GET /a' ip=192.0.2.77
check 'networks of a file are exempt' has "$out" 'exempt   ip: 2 networks holds'
run "$sluice" explain exempt.yaml 'GET /a' ip=192.0.2.78
check 'and no others' has "$out" 'limit    a: 5/1m'

sed 's/token-bucket/token-buket/' sluice.yaml >bad.yaml
run "$sluice" check bad.yaml
check 'a bad policy is status 3' is 3
check 'with a place' has "$err" 'bad.yaml:23:11: '
check 'and a suggestion' has "$err" token-bucket

run "$sluice" explain sluice.yaml 'GET /api/x' user=ann
check 'explain: it would pass' is 0
run "$sluice" explain sluice.yaml 'POST /api/exports' user=ann cost=11
check 'explain: it would not' is 1

cat >good.flow <<'EOT'
flow "twenty at once, then one a second"
policy sluice.yaml
  GET /api/x user=ann x21 -> 429 allowed=20 by=api retry=1s
at 1s
  GET /api/x user=ann     -> 200 remaining=0
EOT
sed 's/retry=1s/retry=2s/' good.flow >wrong.flow
run "$sluice" test good.flow
check 'a flow that passes' is 0
check 'and what it says' test "$out" = \
    'ok   good.flow: twenty at once, then one a second (2 lines)
1 passed, 0 failed'
run "$sluice" test good.flow wrong.flow
check 'a flow that fails' is 1
check 'and where' has "$out" $'\nwrong.flow:3: want retry=2s, got retry=1s\n'
mkdir sub && cp good.flow sub/ && cp sluice.yaml sub/
run "$sluice" test sub/good.flow
check 'policies are found beside their flow' is 0
sed 's/sluice.yaml/bad.yaml/' good.flow >refused.flow
run "$sluice" test refused.flow wrong.flow
check 'a bad policy goes before a failure' is 3
echo 'flew x' >none.flow
run "$sluice" test none.flow refused.flow wrong.flow
check 'a file that is no flow goes before both' is 2
check 'with a caret below the line' has "$err" $'\n  flew x\n  ^\n  write: flow'
run "$sluice" test .
check 'a folder is no flow' is 2

head -c 3000000 /dev/zero >large.flow
run "$sluice" test large.flow
check 'nor is what is too large' has "$err" 'larger than 1 MB'
head -c 100000 /dev/urandom >noise.flow
run "$sluice" test noise.flow
check 'nor is noise' is 2

run "$sluice" bench --duration 50ms --threads 2
check 'bench is exact' is 0
run "$sluice" bench sluice.yaml --duration 10ms -o json
check 'also on a policy, as JSON' python3 -c '
import json, sys
b = json.loads(sys.argv[1])
assert b["exact"] is True and b["admitted"] == b["expected"] > 0
assert b["latency_ns"]["p50"] <= b["latency_ns"]["p99.9"]' "$out"

run "$sluice" check --schema
check 'the schema is JSON' python3 -m json.tool "$folder/out" "$folder/schema"
run "$sluice" test -o json good.flow wrong.flow
check 'so is a report' python3 -c '
import json, sys
r = json.loads(sys.argv[1])
assert r["passed"] == 1 and r["failed"] == 1
assert r["flows"][1]["misses"][0] == {
    "field": "retry", "want": "2s", "got": "1s"}' "$out"

run bash -c "'$sluice' check --schema >/dev/full"
check 'a full disk is no success' is 1

if command -v script >/dev/null; then
    run script -qec "TERM=xterm '$sluice' check sluice.yaml" /dev/null
    check 'a terminal has colours' has "$out" $'\033[32mok'
    run script -qec "NO_COLOR=1 TERM=xterm '$sluice' check sluice.yaml" /dev/null
    check 'unless they are forbidden' has "$out" 'sluice.yaml: ok:'
fi

cat >application.properties <<'EOT'
rate-limit.tiers.starter.requests-per-minute=15
rate-limit.tiers.starter.burst-capacity=20
rate-limit.tiers.starter.daily-limit=200
EOT
run "$sluice" import spring application.properties
check 'import prints a policy' has "$out" 'starter: 15/min burst 20'
check 'and tells what is missing' has "$err" 'rate-limit.tiers.business is missing'
run bash -c "'$sluice' import spring application.properties 2>/dev/null |
    '$sluice' check - 2>/dev/null"
check 'that passes' is 0
cat >application.yml <<'EOT'
fluo:
  ratelimit:
    tenant:
      requests-per-minute: 500
EOT
run "$sluice" import spring application.yml
check 'import reads YAML' has "$out" 'rate: 500/min'
finish
