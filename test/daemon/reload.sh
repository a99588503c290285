#!/usr/bin/env bash
# reload.sh -- another policy while it runs: by signal, by file, by request.

# shellcheck source=test/support/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"

good() {
    [[ $(metric sluice_config_last_reload_successful) = "$1" ]]
}

# ---- by signal ----

policy p.yaml 3/3000d
start -c p.yaml --watch off
auth ann && auth ann
check 'two of three are used' answers 200

policy p.yaml 5/3000d
kill -HUP "$pid"
until_ said 'api 3/3000d -> 5/3000d; usage kept'
check 'HUP: what changed is told' said 'api 3/3000d -> 5/3000d; usage kept'
codes=
for _ in 1 2 3 4; do
    auth ann
    codes+=" $code"
done
check 'three of five are left' test "$codes" = ' 200 200 200 429'
policy p.yaml 4/3000d
kill -HUP "$pid"
until_ said '5/3000d -> 4/3000d'
auth ann
check 'fewer: nothing is handed out' answers 429

# ---- a policy that is refused ----

policy p.yaml '4/dya'
kill -HUP "$pid"
until_ said '"event":"reload failed, policy unchanged"'
check 'a refused policy is told with its place' said \
    '"event":"policy refused","at":"p.yaml:6:'
check 'metrics show it' good 0
auth bob
check 'and the old one stays' answers 200
policy p.yaml 4/3000d
kill -HUP "$pid"
until_ good 1
check 'until a good one is there' good 1

# ---- what starts afresh, and what needs a restart ----

policy p.yaml 4/3000d 'server: { memory: 2MiB, log: { level: debug } }'
sed -i 's/fixed-window/sliding-window/' p.yaml
kill -HUP "$pid"
until_ said 'server.memory'
check 'another kind starts afresh' said \
    'limit api: kind fixed-window -> sliding-window; usage reset'
check 'a restart is asked for where it is needed' said \
    'server.memory 64MiB -> 2MiB; needs a restart'
check 'and not where it is not' said 'server.log.level info -> debug"'
policy p.yaml 4/3000d 'server: { usage: "postgres://h/%zz" }'
kill -HUP "$pid"
until_ said "this is not the URL of a PostgreSQL"
check 'what would not start is not loaded' good 0

# ---- by request ----

policy p.yaml 6/3000d
tell /v1/policy -X POST
check 'POST without a body reads the file' has "$out" \
    'limit api: kind sliding-window -> fixed-window; usage reset'
policy posted.yaml 7/3000d
tell /v1/policy --data-binary @posted.yaml
check 'with one it is that' has "$out" 'api 6/3000d -> 7/3000d; usage kept'
tell /v1/policy
check 'which is then in force' has "$out" 'rate: 7/3000d'
sed '/^limits:/a\  unused: { kind: fixed-window, per: user, rate: 1/min }' posted.yaml >unused.yaml
tell /v1/policy --data-binary @unused.yaml
check 'warnings are in the answer' has "$out" '"warnings":["'
check 'with their text' has "$out" 'warning: No route uses limit'
tell /v1/policy --data-binary @posted.yaml
check 'without warnings there are none' [ "${out/warnings/}" = "$out" ]
tell /v1/policy --data-binary 'sluice: 2'
check 'a bad one is refused' has "$out" 'posted:1:9'
tell /v1/policy --data-binary "env: \"\${FILE:/etc/passwd}\""
check 'none can read our files' test "${out/root:/}" = "$out"
tell /v1/policy
check 'and the one before stays' has "$out" 'rate: 7/3000d'
policy keyless.yaml 8/3000d
sed -i 's|^identity:$|&\n  jwt: { algorithms: [RS256], jwks: "file:./gone.json" }|' \
    keyless.yaml
tell /v1/policy --data-binary @keyless.yaml
check 'nor is one loaded whose key file is missing' has "$out" '"ok":false'
check 'which is said' has "$out" 'identity.jwt.jwks: '
tell /v1/policy
check 'and the one before stays again' has "$out" 'rate: 7/3000d'
kill -HUP "$pid"
until_ said 'api 7/3000d -> 6/3000d'
check 'HUP brings the file back' said 'api 7/3000d -> 6/3000d'
stop
check 'the end' is 0

# ---- by file ----

rm -f sluice.state
policy w.yaml 3/3000d
start -c w.yaml --log-level debug
policy next 4/3000d
mv next w.yaml
until_ said '3/3000d -> 4/3000d'
check 'a rename over the file' said '3/3000d -> 4/3000d'
policy w.yaml 5/3000d
until_ said '4/3000d -> 5/3000d'
check 'a write into it' said '4/3000d -> 5/3000d'
loads=$(grep -c 'policy loaded' "$log")
policy .w.yaml.swp 9/3000d
policy w.yaml~ 9/3000d
touch -d '2020-01-01' w.yaml
policy other.yaml 9/3000d # a reason to look, and then there is nothing
until_ said '"event":"policy unchanged"'
check 'the same text is looked at' said '"event":"policy unchanged"'
check 'no other file is a reason, nor is the same text' \
    test "$(grep -c 'policy loaded' "$log")" = "$loads"
policy w.yaml 'many/3000d'
# A busy machine may read the file while it is empty, and refuse that first.
until_ said '"at":"w.yaml:6:'
check 'a bad one is refused' said '"at":"w.yaml:6:'
policy w.yaml 5/3000d
until_ good 1
check 'and a mistake that is taken back is forgotten' good 1
stop

# A ConfigMap: w.yaml -> ..data/w.yaml, ..data -> ..1
mkdir -p map/..1 map/..2
policy map/..1/w.yaml 3/3000d
policy map/..2/w.yaml 4/3000d
ln -s ..1 map/..data
ln -s ..data/w.yaml map/w.yaml
start -c map/w.yaml --store memory:
ln -s ..2 map/..data_tmp
mv -T map/..data_tmp map/..data
until_ said '3/3000d -> 4/3000d'
check 'the swap of a link' said '3/3000d -> 4/3000d'
stop

# ---- files that the policy refers to ----

cat >lists.yaml <<'EOT'
sluice: 1
limits:
  api: { kind: fixed-window, per: ip, rate: 1/3000d }
routes:
  - match: /**
    exempt: [{ ip: "${FILE:./lists/inner.txt}" }]
    limits: [api]
EOT
mkdir -p lists
echo '192.0.2.0/24' >lists/inner.txt
start -c lists.yaml --store memory: --usage none --log-level debug
# exempt ADDRESS: does no limit apply?
exempt() {
    ask /v1/check -d '{"path":"/","ip":"'"$1"'","cost":0}'
    has "$out" '"limits":[]'
}
limited() { ! exempt "$1"; }
# list TEXT: in one step, so that it is never read while it is empty.
list() {
    echo "$1" >lists/next
    mv lists/next lists/inner.txt
}
check 'a network of the file' exempt 192.0.2.7
check 'no other address' limited 203.0.113.7
echo '203.0.113.0/24' >>lists/inner.txt
until_ exempt 203.0.113.7
check 'a write into the file is read' exempt 203.0.113.7
list '203.0.113.0/24'
until_ limited 192.0.2.7
check 'a rename over it, too' limited 192.0.2.7
list '203.0.113.0/240'
until_ said 'reload failed, policy unchanged'
check 'a bad one is refused' exempt 203.0.113.7
check 'with its place in the list' said 'Entry 1 of the list is not an address'
check 'and the metric says so' good 0
list '203.0.113.0/24'
until_ good 1
check 'until it is corrected' good 1
loads=$(grep -c 'policy loaded' "$log")
sed 's/rate: 1/rate: 2/' lists.yaml >posted.yaml
tell /v1/policy --data-binary @posted.yaml
check 'a posted policy has the file, too' has "$out" '1/3000d -> 2/3000d'
touch -d '2020-01-01' lists/inner.txt
until_ said '"event":"policy unchanged"'
check 'the same text is no reason to read the policy' \
    test "$(grep -c 'policy loaded' "$log")" = $((loads + 1))
tell /v1/policy --data-binary 'limits: ['
check 'a posted policy that is bad is refused' has "$out" 'POLICY_REFUSED'
looks=$(grep -cE '"event":"policy (unchanged|loaded)"' "$log")
looked_again() {
    (($(grep -cE '"event":"policy (unchanged|loaded)"' "$log") > looks))
}
touch -d '2020-01-02' lists/inner.txt
until_ looked_again
check 'and does not let the same text replace the one before' \
    test "$(grep -c 'policy loaded' "$log")" = $((loads + 1))
stop

# ---- under load ----

policy s.yaml 1M/3000d
start -c s.yaml --store memory: --watch off
(
    for _ in $(seq 20); do
        curl -sS --max-time 10 -o /dev/null -w '%{http_code}\n' \
            "http://$http/v1/check?[1-50]" -d '{"path":"/x","user":"ann"}' \
            2>&1
    done
) >codes &
load=$!
# Two of three are waited for, so that none of these is overtaken by the next.
refusals() {
    grep -cF 'reload failed, policy unchanged' "$log"
}
refused_again() {
    (($(refusals) > refused))
}
for i in $(seq 30); do
    refused=$(refusals)
    policy s.yaml "${i}M/3000d"
    ((i % 3)) || echo 'limits: [' >>s.yaml
    kill -HUP "$pid"
    case $((i % 3)) in
    0) until_ refused_again ;;
    2) until_ said "-> ${i}000000/3000d; usage kept" ;;
    esac
done
wait "$load"
check 'a storm of reloads loses no decision' \
    test "$(sort codes | uniq -c | tr -s ' ')" = ' 1000 200'
check 'good ones were loaded' said '000000/3000d; usage kept'
check 'bad ones were refused' said 'reload failed, policy unchanged'
stop
check 'and it ends in peace' is 0

finish
