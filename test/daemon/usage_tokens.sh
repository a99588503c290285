#!/usr/bin/env bash
# usage_tokens.sh -- tokens of the usage page: made, used, expired, forged; of
# another organisation, another daemon and another key; never in a log.

# shellcheck source=test/support/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"

cat >p.yaml <<'EOT'
sluice: 1
plans: { default: free, free: {} }
limits:
  minutes: { kind: quota, per: org, unit: minutes, rate: 120/month }
  links: { kind: level, per: org, unit: links, rate: 5 }
  mine: { kind: quota, per: user, rate: 5/day }
default: [minutes, mine]
EOT
begin() {
    start_virtual -c p.yaml --threads 1 --store memory: --usage sqlite:./books.db "$@"
    clock 2026-11-15T12:00:00Z
}
# make_token MEMBERS: leaves $token.
make_token() {
    ask /v1/usage-tokens -d "{$1}"
    token=$(member token)
    token=${token//\"/}
    tokens+=("$token")
}
# show TOKEN [QUERY [WORD...]]: the data of the page.
show() {
    ask "/ui/usage/data${2-}" -H "Authorization: Bearer $1" "${@:3}"
}
lacks() {
    [[ $1 != *"$2"* ]]
}
tokens=()
begin

# ---- made and used ----

ask /v1/usage -d '{"org":"acme","limit":"minutes","amount":100}'
ask /v1/usage -d '{"org":"zeta","limit":"minutes","amount":7}'
make_token '"org":"acme","ttl":"15m","name":"Acme","upgrade_url":"https://a.example/up"'
check 'a token is made' answers 200
check 'with its end' has "$out" '"expires":"2026-11-15T12:15:00Z","expires_in_ms":900000,"page":"/ui/usage/"'
check 'and is not cached' has "$fields" 'Cache-Control: no-store'
acme=$token
show "$acme"
check 'it reads the usage' answers 200
check 'of its organisation' has "$out" '{"scope":"org","id":"acme","name":"Acme","upgrade_url":"https://a.example/up","now":"2026-11-15T12:00:00Z","expires":"2026-11-15T12:15:00Z","expires_in_ms":900000,"history":true,"meters":[{"name":"minutes",'
check 'with the numbers' has "$out" '"used":100,"limit":120,"remaining":20'
check 'and the levels' has "$out" '{"name":"links","kind":"level"'
check 'and nothing of users' lacks "$out" '"mine"'
show "$acme" '?format=csv&days=3660'
check 'the history as CSV' has "$out" $'minutes,2026-11-15,100,0\r'
check 'is of this organisation only' lacks "$out" ',7,'
show "$acme" '?limit=mine'
check 'a limit of users stays closed' has "$out" '"meters":[]'
make_token '"org":"zeta"'
show "$token"
check 'another organisation has its own' has "$out" '"id":"zeta","now"'
check 'and its own numbers' has "$out" '"used":7,'
check 'an hour if nothing is said' has "$out" '"expires":"2026-11-15T13:00:00Z"'

# ---- refused ----

ask /ui/usage/data
check 'without a token nothing' answers 401
for bad in "${acme}x" "${acme%?}" "${acme%.*}." "${token%.*}.${acme##*.}" \
    "${acme%.*}.${token##*.}" slu1.e30.AAAA 'eyJhbGciOiJub25lIn0.e30.'; do
    show "$bad"
    check "forged: ${#bad} letters" answers 401
    check 'and not repeated' lacks "$out$fields" "$bad"
done
show "$acme" '' -H "Authorization: Bearer $token"
check 'two tokens are none' answers 401
ask /v1/usage/org/acme -H "Authorization: Bearer $acme" -H 'Origin: https://evil.example'
check 'it opens nothing else to a page' answers 403
for body in '{}' '{"org":""}' '{"org":7}' '{"org":"a","ttl":"0s"}' '{"org":"a","ttl":"25h"}' \
    '{"org":"a","ttl":"soon"}' '{"org":"a","admin":true}' '[]' '{"org":"a"' \
    '{"org":"a","upgrade_url":"javascript:alert(1)"}' '{"org":"a","upgrade_url":"//x"}' \
    '{"org":"a","upgrade_url":"https://x y"}'; do
    ask /v1/usage-tokens -d "$body"
    check "refused: $body" answers 400
done
ask /v1/usage-tokens -d '{"org":"acme"}' -H 'Origin: https://evil.example'
check 'a page cannot make one' answers 403
clock 2026-11-15T12:14:59.999Z
show "$acme"
check 'until it expires' answers 200
clock 2026-11-15T12:15:00Z
show "$acme"
check 'and no longer' has "$code $out" '401 '
check 'it says so' has "$out" '"code":"TOKEN_EXPIRED"'

# ---- pages of other origins ----

ask /ui/usage/
check 'the page is there' has "$out" '<title>Usage</title>'
check 'in no foreign frame' has "$fields" "frame-ancestors 'self'"
check 'without the token of the daemon' answers 200
ask /ui/demo/
check 'the demo is not' answers 404
ask /ui/demo/token -X POST
check 'nor are its tokens' answers 404
show "$token" '' -H 'Origin: https://app.example'
check 'a page of another origin cannot read' lacks "$fields" 'Access-Control-Allow-Origin'
stop
for word in "${tokens[@]}"; do
    check 'no token in the log' lacks "$(<"$log")" "${word:0:24}"
done

# ---- another start, another daemon ----

begin --usage-origins https://app.example,https://b.example
show "$token"
check 'a restart keeps the key, in the database' answers 200
show "$token" '' -H 'Origin: https://b.example'
check 'now this page may read' has "$fields" 'Access-Control-Allow-Origin: https://b.example'
show "$token" '' -H 'Origin: https://b.example.evil'
check 'but no other' lacks "$fields" 'Access-Control-Allow-Origin'
ask /ui/usage/data -X OPTIONS -H 'Origin: https://app.example'
check 'a browser asks first' has "$code$fields" 'Access-Control-Allow-Headers: Authorization'
ask /ui/usage/
check 'and frames of these pages' has "$fields" "frame-ancestors 'self' https://app.example https://b.example"
tell /ui/usage/data -H "Authorization: Bearer $token"
check 'the admin listener has it, too' answers 200
stop
start_virtual -c p.yaml --threads 1 --store memory: --usage none
show "$token"
check 'a daemon with another key refuses' answers 401
make_token '"org":"acme"'
show "$token"
check 'and accepts its own' has "$out" '"history":false,"meters":[{"name":"minutes"'
check 'without a database nothing is CSV' answers 200
show "$token" '?format=csv'
check 'there is no history' answers 501
stop

# ---- a key that the database does not give ----

begin
make_token '"org":"acme"'
stop
python3 -c 'import sqlite3
with sqlite3.connect("books.db") as db:
    db.execute("UPDATE repeats SET fingerprint = 1 WHERE name = \"usage-token\"")'
begin
show "$token"
check 'a damaged key is no answer' answers 503
check 'and is said' has "$out" 'it is damaged'
show "$token"
check 'the database is not asked again at once' has "$out" 'a moment ago'
check 'but later' has "$fields" 'Retry-After: 1'
show abc
check 'what is no token needs no key' answers 401
clock 2026-11-15T12:00:01Z
show "$token"
check 'after a second it is' has "$out" 'it is damaged'
stop

# ---- a key from a file ----

echo one-byte-less-than-thirty-two-b >key
run "$sluiced_test" -c p.yaml --store memory: --usage none --usage-token-key-file key
check 'a short key is refused' is 2
check 'with what to do' has "$err" 'the key has 31 bytes and must have at least 32; make one with'
echo onekeyforall-onekeyforall-onekeyforall >key
start_virtual -c p.yaml --threads 1 --store memory: --usage none --usage-token-key-file key
make_token '"org":"acme"'
stop
start_virtual -c p.yaml --threads 1 --store memory: --usage none --usage-token-key-file key
show "$token"
check 'daemons with one key file accept each other' answers 200
stop
start_virtual -c p.yaml --threads 1 --store memory: --access-token-file key
ask /v1/usage-tokens -d '{"org":"acme"}'
check 'with an access token, a backend needs it' answers 401
ask /v1/usage-tokens -d '{"org":"acme"}' -H 'Authorization: Bearer onekeyforall-onekeyforall-onekeyforall'
check 'and has it' answers 200
token=$(member token)
show "${token//\"/}"
check 'the browser does not' answers 200
finish
