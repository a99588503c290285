#!/usr/bin/env bash
# penalties.sh -- penalties of limits in a daemon: failed attempts over HTTP,
# every way in, a restart, a reset, what is refused.

# shellcheck source=test/support/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"

cat >p.yaml <<'EOT'
sluice: 1
identity: { user: [header.x-user-id], trusted_proxies: [127.0.0.0/8] }
limits:
  login:
    kind: fixed-window
    per: user
    rate: 2/hour
    penalty: { after: 3, within: 10m, block: 15m }
  tries:
    kind: token-bucket
    per: ip
    rate: 100/s
    penalty: { after: 2, within: 10m, block: 15m }
  api: { kind: fixed-window, per: user, rate: 100/hour }
  pair:
    kind: fixed-window
    per: [user, ip]
    rate: 100/hour
    penalty: { after: 2, within: 10m, block: 15m }
routes:
  - { match: /login, limits: [login] }
  - { match: /form, limits: [tries] }
  - { descriptor: [edge, user], limits: [login] }
default: [api]
EOT

begin() {
    start_virtual -c p.yaml --threads 1 --store memory:./state --usage none \
        --listen-resp 127.0.0.1:0
    clock "$1"
}
# by_route USER: the verdict.
by_route() {
    ask /v1/check -d '{"method":"GET","path":"/login","user":"'"$1"'"}'
}
form() {
    ask /v1/check -d '{"method":"GET","path":"/form","ip":"'"$1"'"}'
}

lacks() {
    [[ $1 != *"$2"* ]]
}

# ---- failed attempts ----

begin 2026-11-15T12:00:00Z
report '{"limit":"login","user":"ann","failed":1}'
check 'a failed attempt is counted' [ "$out" = '{"recorded":true,"blocked":false,"retry_after_ms":null}' ]
report '[{"limit":"login","user":"ann","failed":2},{"limit":"login","user":"bob","failed":1}]'
check 'the third blocks' [ "$out" = '[{"recorded":true,"blocked":true,"retry_after_ms":900000},{"recorded":true,"blocked":false,"retry_after_ms":null}]' ]
by_route ann
check 'by route' has "$out" '"allowed":false,"status":429,"code":"BLOCKED"'
check 'with the limit and the wait' has "$out" '"by":"login","retry_after_ms":900000'
ask /v1/check -d '{"limit":"login","key":"ann"}'
check 'by limit' has "$out" '"status":429,"code":"BLOCKED"'
auth ann /login
check 'forward-auth' answers 429
ask /json -d '{"domain":"edge","descriptors":[{"entries":[{"key":"user","value":"ann"}]}]}'
check 'descriptors' has "$out" '"overallCode":"OVER_LIMIT"'
ask /v1/explain -d '{"method":"GET","path":"/login","user":"ann"}'
check 'explain says it' has "$out" 'the caller is blocked by the penalty of the limit: retry in 15m'
check 'in the line of the limit, too' has "$out" 'blocked now, for 15m'
check 'the metric counts one block' test \
    "$(metric 'sluice_penalty_blocks_total{limit="login"}')" = 1
ask /v1/check -d '{"method":"GET","path":"/x","user":"ann"}'
check 'other limits do not know it' has "$out" '"allowed":true'
report '{"limit":"tries","ip":"2001:db8::1","failed":2}'
form 2001:db8::99
check 'an address is its network' has "$out" '"code":"BLOCKED"'
form 2001:db8:1::1
check 'and no other' has "$out" '"allowed":true'

# ---- a restart, a reset ----

stop
begin 2026-11-15T12:05:00Z
by_route ann
check 'a restart keeps the block' has "$out" '"retry_after_ms":600000'
report '{"limit":"login","user":"bob","failed":1}'
by_route bob
check 'and the count' has "$out" '"allowed":true'
report '{"limit":"login","user":"bob","failed":1}'
check 'of failures' has "$out" '"blocked":true'
run "$sluice" reset login ann --look --admin-url "http://$admin"
check 'reset --look shows the block' has "$out" 'blocked by the penalty of login until 2026-11-15T12:15:00Z'
tell /v1/keys/login/ann
check 'over HTTP, too' has "$out" '"blocked":true,"blocked_until":"2026-11-15T12:15:00Z"'
run "$sluice" take login ann cost=0 --url "http://$http"
check 'and take' has "$out" 'blocked by the penalty of login until 2026-11-15T12:15:00Z'
run redis-cli -h "${resp%:*}" -p "${resp##*:}" sluice.reset limit login zed
check 'SLUICE.RESET counts limits, not penalties' [ "$out" = 1 ]
by_route ann
tell '/v1/top?limit=(blocked)'
check 'the blocked caller is in /v1/top' has "$out" '"limit":"(blocked)","scope":"user","key":"ann"'
run "$sluice" reset login ann --admin-url "http://$admin"
check 'a reset' is 0
check 'shows no block' lacks "$out" blocked
by_route ann
check 'ends the block' has "$out" '"allowed":true'
clock 2026-11-15T12:20:00Z
by_route bob
check 'and time does' has "$out" '"allowed":true'

# ---- unblock ----

unblock() { run "$sluice" unblock "$@" --admin-url "http://$admin"; }
report '{"limit":"login","user":"eve","failed":3}'
unblock user eve
check 'unblock without a registry' is 0
check 'says which limit' has "$out" 'user eve is no longer blocked by the penalty of login'
by_route eve
check 'and ends the block, not what was taken' has "$out" '"allowed":true'
unblock user eve
check 'a second time there is none' has "$err" 'user/eve is not blocked'
report '{"limit":"tries","ip":"2001:db8:7::1","failed":2}'
unblock ip 2001:db8:7::99
check 'an address is its network' has "$out" 'no longer blocked by the penalty of tries'
form 2001:db8:7::1
check 'which passes again' has "$out" '"allowed":true'
report '{"limit":"tries","ip":"unknown","failed":2}'
check 'the unknown address is blocked' has "$out" '"blocked":true'
unblock ip unknown
check 'and unblocked' has "$out" 'ip unknown is no longer blocked by the penalty of tries'
unblock ip nonsense
check 'an id that is no address' has "$err" 'is not an IP address'
unblock planet x
check 'an unknown scope' has "$err" 'no limit per planet has a penalty'
report '{"limit":"login","user":"eve","failed":3}'
check 'a failure after it counts anew, as a first block' has "$out" '"retry_after_ms":900000'

# ---- several values of per ----

report '{"limit":"pair","user":"kim","ip":"192.0.2.7","failed":2}'
check 'a pair is blocked' has "$out" '"blocked":true'
report '{"limit":"pair","user":"kim","key":"kim:192.0.2.9","failed":2}'
check 'a key and a member are refused' has "$out" 'or none'
pair() {
    ask /v1/check -d '{"limit":"pair","key":"'"$1"'"}'
}
pair kim:192.0.2.7
check 'and its key says so' has "$out" '"code":"BLOCKED"'
pair kim:192.0.2.8
check 'another pair passes' has "$out" '"allowed":true'
for bad in kim kim: :192.0.2.7 kim:192.0.2.7:x k%00:192.0.2.7 \
    kim%:192.0.2.7; do
    pair "$bad"
    check "the key $bad is refused" answers 400
done
check 'with what to write' has "$out" 'write its key as user:ip, with %3A for a '
ask /v1/check -d '[{"limit":"api","key":"zoe"},{"limit":"pair","key":"kim"}]'
check 'in an array, too' has "$out" 'check 1: limit \"pair\" has 2 '
ask /v1/check -d '{"limit":"api","key":"zoe","cost":0}'
check 'and nothing was taken' has "$out" '"remaining":100'
ask /v1/explain -d '{"limit":"pair","key":"kim"}'
check 'explain refuses it' answers 400
run redis-cli -h "${resp%:*}" -p "${resp##*:}" sluice.check limit pair kim
check 'RESP refuses it' has "$out" 'ERR limit "pair" has 2 '
run redis-cli -h "${resp%:*}" -p "${resp##*:}" sluice.check limit pair kim:192.0.2.7
check 'and knows the block' has "$out" BLOCKED
report '{"limit":"pair","key":"lee:192.0.2.7","failed":2}'
check 'failed attempts by key' has "$out" '"blocked":true'
ask /v1/check -d '{"limit":"pair","key":"lee:192.0.2.7"}'
check 'are those of the pair' has "$out" '"code":"BLOCKED"'
report '{"limit":"pair","key":"lee","failed":2}'
check 'a key with one value' has "$out" 'needs 2 values, joined by'

# ---- what is refused ----

report '{"limit":"api","user":"ann","failed":1}'
check 'a limit without a penalty' answers 400
check 'with what to write' has "$out" 'add penalty: { after: 5, within: 10m, block: 15m } to it'
for bad in '"failed":0' '"failed":-1' '"failed":"1"' '"failed":1,"amount":1' '"failed":1,"idempotency_key":"x"'; do
    report '{"limit":"login","user":"ann",'"$bad"'}'
    check "$bad is refused" answers 400
done
report '[{"limit":"login","user":"ann","failed":1},{"limit":"api","user":"ann","amount":1}]'
check 'usage is reported apart' answers 400
report '{"limit":"login","failed":1}'
check 'a caller is needed' has "$out" 'add \"user\"'
report '{"limit":"login","user":"ann","amount":1}'
check 'usage needs a database' answers 501
stop

# ---- with a registry ----

start_virtual -c p.yaml --threads 1 --store memory: --usage sqlite:./books
clock 2026-11-15T12:00:00Z
report '{"limit":"login","user":"ann","failed":3}'
unblock user ann note=test
check 'a penalty alone' has "$out" 'by the penalty of login'
tell '/v1/audit?limit=1'
check 'is in the audit' has "$out" '"what":"unblock","scope":"user","id":"ann","note":"test"'
report '{"limit":"login","user":"ann","failed":3}'
run "$sluice" block user ann --admin-url "http://$admin"
unblock user ann
check 'both are ended' has "$out" 'no longer blocked by an operator and by the penalty of login'
by_route ann
check 'and the caller passes' has "$out" '"allowed":true'
unblock user ann
check 'then there is none' has "$err" 'user/ann is not blocked'
stop
finish
