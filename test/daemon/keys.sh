#!/usr/bin/env bash
# keys.sh -- keys from a URL: requests never wait for the provider.

# shellcheck source=test/support/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"

provider_start

mood() {
    curl -sS --max-time 10 -X POST "http://$provider/mood/$1"
}

asked() {
    curl -sS --max-time 10 "http://$provider/asked" | wc -l
}

# bearer TOKEN: leaves $code, and in $took how long it took, in milliseconds.
bearer() {
    local began=${EPOCHREALTIME/./}

    ask /v1/auth -H 'X-Original-URI: /x' -H 'X-Original-Method: GET' \
        -H "Authorization: Bearer $1"
    took=$(((${EPOCHREALTIME/./} - began) / 1000))
}

passes() {
    bearer "$1"
    answers 200
}

# How often the keys were read again, with that result.
results() {
    tell /metrics
    sed -n "s/^sluice_jwks_refreshes_total{result=\"$1\"} //p" <<<"$out"
}

more_results() {
    (($(results "$1") > $2))
}

ready() {
    tell /readyz
    answers 200
}

cat >p.yaml <<EOT
sluice: 1
identity:
  user: [jwt.sub]
  jwt:
    algorithms: [RS256, ES256]
    jwks: "http://$provider/keys"
    issuer: "https://id.example/"
    audience: [web, api]
limits:
  api: { kind: fixed-window, per: user, rate: 100k/day }
routes:
  - { match: /x, anonymous: deny, limits: [api] }
default: [api]
EOT

# All spans of the test build follow from this: the cool-down is as long, a
# failure is tried again after a quarter of it to all of it.
export TEST_JWKS_MS=400
begin() {
    launch "$sluiced_test" "${listeners[@]}" --threads 2 "$@"
    started
}

# ---- before the first keys have come ----

mood error
begin -c p.yaml --store memory:
check 'it starts without keys' alive "$pid"
tell /readyz
check 'and is not ready' answers 503
check 'since they have not come' has "$out" \
    'the JWKS has not been fetched yet'
ann=$(token sub=ann)
bearer "$ann"
check 'until then no token is believed' answers 401
check 'and no token is called wrong' has "$fields" \
    'WWW-Authenticate: Bearer'$'\r'
check 'but what is the matter' has "$out" 'the keys have not been fetched yet'
ask /v1/auth -H 'X-Original-URI: /other' -H 'X-Original-Method: GET'
check 'everything else is decided as ever' answers 200
mood good
until_ ready
check 'when they have come, it is ready' ready
bearer "$ann"
check 'and they are believed' answers 200
check 'both are logged, and once' test \
    "$(grep -c '"event":"JWKS not loaded"' "$log"),$(grep -c \
        '"event":"JWKS loaded"' "$log")" = 1,1

# ---- another key ----

curl -sS -X POST "http://$provider/rotate"
bob=$(token sub=bob)
until_ passes "$bob"
check 'a key that is not there is fetched' passes "$bob"
bearer "$ann"
check 'and one that is withdrawn no longer counts' answers 401

# ---- ten thousand unknown keys ----

strangers=10000
[[ -z ${SL_SHORT-} ]] || strangers=2000
before=$(asked) began=${EPOCHREALTIME/./}
strangers() {
    run /usr/bin/python3 "$here/strangers.py" "$http" "$1"
}
strangers "$strangers"
check "$strangers tokens of other keys are refused" has "$out" \
    "{401: $strangers}"
# The cool-down of the question for bob's key may have outlasted them.
is_asked() {
    strangers 1
    questions=$(($(asked) - before))
    ((questions > 0))
}
until_ is_asked
most=$(((${EPOCHREALTIME/./} - began) / 1000 / TEST_JWKS_MS + 2))
check "and cost one question per cool-down: $questions of at most $most" \
    test "$questions" -ge 1 -a "$questions" -le "$most"
bearer "$bob"
check 'meanwhile the others pass' answers 200

# ---- what a provider can do ----

# misbehave MOOD RESULT: the keys there are serve on.
misbehave() {
    local count before

    before=$(results "$2")
    count=$(grep -c '"event":"JWKS not loaded"' "$log")
    mood "$1"
    bearer "$(token 'sub=x&kid=unheard-of')" # a wish
    until_ more_results "$2" "$before"
    check "$1: counted as $2" more_results "$2" "$before"
    bearer "$bob"
    check "$1: tokens are believed as before" answers 200
    before=$(results good)
    mood good
    until_ more_results good "$before"
    check "$1: and all is good again" more_results good "$before"
    check "$1: it is logged once" test \
        "$(grep -c '"event":"JWKS not loaded"' "$log")" = $((count + 1))
}

misbehave error status
misbehave redirect status
misbehave empty refused
misbehave broken refused
misbehave large too_large
misbehave close unreachable
misbehave hang unreachable
misbehave drip unreachable
check 'a redirect is not followed' said \
    'the server answers 302, and redirects are not followed'
check 'ten megabytes are not kept' said 'the answer is larger than 262144 bytes'

# ---- no request waits ----

mood hang
before=$(asked)
bearer "$(token 'sub=x&kid=unheard-of')"
has_asked() { (($(asked) > before)); }
until_ has_asked
for i in 1 2 3 4 5 6 7 8 9 10; do
    bearer "$(token "sub=new-$i")"
    check "while one question hangs, a new token is verified ($took ms)" \
        answers 200
done
mood good

# ---- another policy ----

sed -i 's/\[web, api\]/[web]/' p.yaml
refused() { ! passes "$1"; }
until_ refused "$bob"
check 'another audience: the same keys, other rules' answers 401
sed -i 's/\[web\]/[api]/' p.yaml
until_ passes "$bob"
check 'and back' passes "$bob"
before=$(asked)
sed -i 's#/keys"#/keys?other"#' p.yaml
until_ has_asked
until_ passes "$bob"
check 'another place: asked at once' passes "$bob"
sed -i 's#jwks: .*#jwks: "http://127.0.0.1:1/keys"#' p.yaml
until_ refused "$bob"
check 'keys of elsewhere are not believed any more' answers 401
stop
check 'it ends while it tries to fetch' is 0

# ---- the real one ----

mood good
sed -i "s#jwks: .*#jwks: \"http://$provider/keys\"#" p.yaml
start -c p.yaml --store memory:
until_ ready
check 'the daemon that is shipped fetches keys, too' passes "$bob"
stop

finish
