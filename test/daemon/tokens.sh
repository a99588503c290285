#!/usr/bin/env bash
# tokens.sh -- callers known by real tokens: keys from files and secrets, in
# headers and cookies, for presets; and that no token is ever written down.

# shellcheck source=test/support/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"

provider_start

# bearer TOKEN [PATH] [CURL-WORD...]
bearer() {
    ask /v1/auth -H "X-Original-URI: ${2-/orders}" \
        -H 'X-Original-Method: GET' -H "Authorization: Bearer $1" "${@:3}"
}

fields_have() {
    [[ $(field "$1") = *"$2"* ]]
}

metric() {
    tell /metrics
    grep -F "$1 " <<<"$out" | sed '/^#/d; s/.* //'
}

# A clock that stands still where tokens are good, so that nothing grows back.
begin() {
    start_virtual "$@" || return
    clock "$(date -u +%FT%TZ)"
}

curl -sS "http://$provider/keys" >jwks.json
cp "$root"/presets/*.yaml .

# ---- jwt-redis ----

mine='iss=https://issuer.example&aud=api'
begin -c jwt-redis.yaml --store memory:
token "$mine&sub=kim&plan=pro" >kim.token
run "$sluice" take 'GET /orders' token=kim.token --url "http://$http" -o json
check 'sluice take brings a token: the user' has "$out" '"scope":"user"'
check 'and the plan' has "$out" '"plan":"pro"'
run "$sluice" take 'GET /orders' token=none.token --url "http://$http"
check 'a token that is not there' is 2
check 'with where' has "$err" 'none.token'
ann=$(token "$mine&sub=ann")
codes=
for _ in 1 2 3 4 5 6 7 8 9 10 11; do
    bearer "$ann"
    codes+=" ${code/200/.}"
done
check 'jwt-redis: a bucket of ten for the token' \
    test "$codes" = ' . . . . . . . . . . 429'
bearer "$(token "$mine&sub=ann&x=1")"
check 'another token of the same user is the same user' answers 429
bearer "$(token "$mine&sub=bob")"
check 'and another user is another' fields_have X-RateLimit-Remaining 9
bearer "$(token "$mine&sub=pat&plan=PRO")"
check 'the plan is in the token' fields_have X-RateLimit-Remaining 99
ask /v1/check -d "{\"path\":\"/orders\",\"headers\":{\"Authorization\":
    \"Bearer $(token "$mine&sub=bob")\"}}"
check '/v1/check takes it among the headers' has "$out" '"remaining":8'
ask /v1/check -d "{\"path\":\"/orders\",\"user\":\"eve\",\"headers\":{
    \"Authorization\":\"Bearer $(token "$mine&sub=bob")\"}}"
check 'values in the request override those of the token' has "$out" '"remaining":9'

# A bad one counts by address, as none does, and takes from no user.
bad=(
    "$(token 'iss=https://other.example&aud=api&sub=bob')"
    "$(token 'iss=https://issuer.example&aud=web&sub=bob')"
    "$(token "$mine&sub=bob&life=-60")"
    "${ann%.*}.$(token "$mine&sub=bob" | sed 's/.*\.//')"
    "$(token "$mine&sub=bob" | sed 's/[^.]*/eyJhbGciOiJub25lIn0/')"
    not-a-token
    "$(token "$mine&sub=bob&kid=elsewhere")"
)
codes=
for one in "${bad[@]}"; do
    bearer "$one" /orders -H 'X-Forwarded-For: 198.51.100.7'
    codes+=" $(field X-RateLimit-Remaining)"
done
check 'bad ones share the bucket of their address' \
    test "$codes" = ' 9 8 7 6 5 4 3'
bearer "$ann" /orders -H "Authorization: Bearer $ann" \
    -H 'X-Forwarded-For: 198.51.100.7'
check 'one that comes twice is one of them' \
    fields_have X-RateLimit-Remaining 2
bearer "$(token "$mine&sub=bob")"
check 'and took nothing from whom they name' \
    fields_have X-RateLimit-Remaining 7
ask /v1/explain -d "{\"path\":\"/orders\",\"headers\":{\"Authorization\":
    \"Bearer ${bad[2]}\"}}"
check 'explain says why' has "$out" 'rejected: the token has expired'
check 'as a word, too' has "$out" '"token_fault":"expired"'
check 'metrics: good ones' test \
    "$(metric 'sluice_tokens_total{result="good"}')" -ge 15
check 'metrics: bad ones' test \
    "$(metric 'sluice_tokens_total{result="expired"}')" = 1
check 'metrics: twice is malformed' test \
    "$(metric 'sluice_tokens_total{result="malformed"}')" = 2
check 'metrics: keys' test "$(metric sluice_jwks_keys)" = 1

# ---- the keys change ----

curl -sS -X POST "http://$provider/rotate"
new=$(token "$mine&sub=new")
sed -i 's/\[RS256\]/[RS256, ES256]/' jwt-redis.yaml
until_ said '"event":"policy loaded"'
bearer "$new" /orders -H 'X-Forwarded-For: 198.51.100.8'
check 'a token of another key is not believed' has \
    "$(field X-RateLimit-Remaining)" 9
bearer "$(token "$mine&sub=new")" /orders -H 'X-Forwarded-For: 198.51.100.8'
check 'nor is the next' fields_have X-RateLimit-Remaining 8
curl -sS "http://$provider/keys" >jwks.new && mv jwks.new jwks.json
until_ said '"event":"JWKS loaded"'
bearer "$new"
check 'a new file of keys is read when it is there' \
    fields_have X-RateLimit-Remaining 9
bearer "$ann" /orders -H 'X-Forwarded-For: 198.51.100.9'
check 'and what was remembered by the old is forgotten' \
    fields_have X-RateLimit-Remaining 9
echo '{"keys":[]}' >jwks.json
until_ said '"event":"JWKS not loaded"'
bearer "$(token "$mine&sub=new")"
check 'an empty set changes nothing' fields_have X-RateLimit-Remaining 8
check 'and is counted' test \
    "$(metric 'sluice_jwks_refreshes_total{result="refused"}')" = 1
sed -i 's/pro: 10/pro: 11/' jwt-redis.yaml
until_ said '"event":"reload failed, policy unchanged"'
check 'nor is a policy loaded whose keys are no keys' said \
    'identity.jwt.jwks: ./jwks.json: '
stop
begin -c jwt-redis.yaml --store memory:
check 'nor does it start' is 3
rm jwks.json
begin -c jwt-redis.yaml --store memory:
check 'without the file it does not start, and says which' has "$err" \
    'identity.jwt.jwks: '

# ---- the other presets ----

curl -sS "http://$provider/keys" >jwks.json
sed -i 's/\[RS256\]/[ES256]/' ./*.yaml

begin -c unraveldocs.yaml --store memory:
codes=
for plan in STARTER_MONTHLY PRO_YEARLY; do
    bearer "$(token "sub=$plan&plan=$plan")" /api/v1/ai/extract
    codes+=" $(field X-RateLimit-Limit)"
done
check 'unraveldocs: plans of tokens' test "$codes" = ' 15 30'
bearer bad /api/v1/ai/extract
check 'a bad token passes where the policy allows it' answers 200
stop

begin -c saas-quotas.yaml --store memory:
ask /v1/check -d "{\"job\":\"docify\",\"headers\":{\"Authorization\":\"Bearer \
$(token 'sub=ann&org_id=acme&plan=team')\"}}"
check 'saas-quotas: the organisation is in the token' has "$out" \
    '"scope":"org","limit"'
stop

begin -c jobseek.yaml --store memory:
session() {
    ask /v1/auth -X POST -H 'X-Original-URI: /api/wallcrawler/session' \
        -H 'X-Original-Method: POST' -H "Cookie: $1"
}
name=next-auth.session-token
session "theme=dark; $name=$(token 'sub=ann'); lang=de"
check 'jobseek: the session is a cookie' fields_have X-RateLimit-Limit 10
session "__Secure-$name=$(token 'sub=ann')"
check 'and the same user by the other name' \
    fields_have X-RateLimit-Remaining 8
session "$name=$(token 'sub=ann'); $name=$(token 'sub=eve')"
check 'two tokens are none' fields_have X-RateLimit-Limit 5
stop

# ---- a secret, and 401 ----

secret=0123456789abcdef0123456789abcdef-canary-secret
cat >hmac.yaml <<'EOT'
sluice: 1
identity:
  user: [jwt.sub, cookie.user]
  role: [jwt.realm.roles]
  trusted_proxies: [10.0.0.0/8]
  jwt: { from: [header.x-token, cookie.session], secret: "${ENV:JWT}" }
limits:
  api: { kind: fixed-window, per: user, rate: 100/day }
routes:
  - { match: /admin, anonymous: deny, roles: [admin], limits: [api] }
  - { match: /deny, anonymous: deny, limits: [api] }
default: [api]
server: { forward_auth: path }
EOT
hmac() {
    /usr/bin/python3 -c '
import jwt, sys, time
claims = {"sub": sys.argv[2], "exp": int(time.time()) + 600,
          "realm": {"roles": sys.argv[3]}}
print(jwt.encode(claims, sys.argv[1], algorithm="HS256"))' "$@"
}
export JWT=$secret
begin -c hmac.yaml --store memory:./state
ask /v1/auth/deny -H "X-Token: $(hmac "$secret" hal user)"
check 'a secret: good' answers 200
ask /v1/auth/deny -H "X-Token: $(hmac "${secret}x" hal user)"
check 'another secret: 401' answers 401
check 'with a challenge that says why' fields_have WWW-Authenticate \
    "Bearer error=\"invalid_token\", error_description=\"the token's signature"
check 'and a body that does' has "$out" \
    "The caller is not authenticated: the token's signature is wrong."
ask /v1/auth/deny
check 'none: 401, and what to send' fields_have WWW-Authenticate Bearer
check 'without an error' test "$(field WWW-Authenticate)" = Bearer
ask /v1/auth/admin -H "X-Token: $(hmac "$secret" hal user)"
check 'a role in the token: not that one' answers 403
ask /v1/auth/admin -H "X-Token: Bearer $(hmac "$secret" hal admin)"
check 'that one' answers 200
ask /v1/auth/deny -H 'Cookie: user=hal'
check 'a cookie with a foreign signature names no user' answers 401

# ---- no token is written down ----

canary=$(hmac "$secret" canary-user user)
wrong=$(hmac "${secret}x" canary-user user)
pages=
for one in "$canary" "$wrong" canary-garbage-canary-garbage; do
    ask /v1/auth/deny -H "X-Token: $one"
    pages+=$out$fields
    ask /v1/auth/deny -H "Cookie: session=$one; user=canary-cookie"
    pages+=$out$fields
    ask /v1/explain -d "{\"path\":\"/deny\",\"headers\":{\"X-Token\":\"$one\"}}"
    pages+=$out
done
for path in /metrics /v1/policy /readyz?verbose /livez /; do
    tell "$path"
    pages+=$out
done
kill -HUP "$pid"
until_ said '"event":"policy loaded"'
tell /v1/policy -X POST
pages+=$out
stop
printf '%s' "$pages" >pages
seen() {
    local one

    for one in "$canary" "${canary##*.}" "$wrong" "${wrong##*.}" \
        canary-garbage canary-cookie canary-secret "$secret"; do
        grep -aqF -- "$one" "$@" && return
    done
    return 1
}
echo "$canary" >believes
check 'the canary can be seen at all' seen believes
unseen() {
    ! seen "$@"
}
check 'no token, cookie or secret in answers' unseen pages
check 'nor in the log' unseen "$log" "$log.out"
check 'nor in the state' unseen ./state*

finish
