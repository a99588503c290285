#!/usr/bin/env bash
# jobseek.sh SLUICED SLUICED-TEST SLUICE -- the preset jobseek in DynamoDB, as
# its original documents it: its own tests by curl, the rows in the table, users
# from the same table, the words in the log, and what happens without it. Then
# the same on a Redis, by one line.

# shellcheck source=test/dynamo/dynamo.sh
. "$(dirname "${BASH_SOURCE[0]}")/dynamo.sh"
cp -r "$root/presets" .

# The original's loop: curl, COUNT times, and how many of them were 200.
session() {
    local i code passed=0 count=$1

    shift
    for ((i = 0; i < count; i++)); do
        code=$(curl -s -o "$folder/body" -w '%{http_code}' -X POST \
            "http://$http/v1/auth/api/wallcrawler/session" "$@")
        [[ $code != 200 ]] || passed=$((passed + 1))
    done
    echo "$passed $code"
}

# serve STORE USAGE [USER]: by header, unless something else is said
serve() {
    sed "s/user: \[jwt.sub\]/user: [${3-header.x-user}]/" \
        presets/jobseek.yaml >presets/p.yaml
    cat >>presets/p.yaml <<EOF
server:
  store: "$1"
  usage: "$2"
  deadline: 5s
  forward_auth: path
EOF
    start_virtual -c presets/p.yaml && until_ is_ok
}

says() {
    grep -qF "\"event\":\"$1\"" "$log"
}

dynamo_start
serve "$store" "$store"
check 'it is up' is_ok

# ---- the original's first test: six, of which five pass ----

clock 2024-01-01T00:30:00Z
check 'a visitor: five sessions in an hour, the sixth is 429' test \
    "$(session 6)" = '5 429'
check 'with the body of the original' test "$(cat "$folder/body")" = \
    '{"error":"Rate limit exceeded","limit":5,"remaining":0,"resetTime":"2024-01-01T01:00:00.000Z"}'
check 'and its word in the log' until_ says 'Rate limit exceeded'
row=$(rows | grep '^session:anon:')
check 'under a fingerprint, in the window of the hour' test \
    "${row##* }" = 'RATE_LIMIT#1704067200000'
check 'with exactly what is documented' test "$(item "${row%% *}" "${row##* }")" \
    = "{\"count\":{\"N\":\"5\"},\"dataType\":{\"S\":\"${row##* }\"},\"resetTime\":{\"N\":\"1704070800000\"},\"ttl\":{\"N\":\"1704074400\"},\"userId\":{\"S\":\"${row%% *}\"}}"

# ---- its second: eleven, of which ten pass ----

check 'a user: ten sessions in an hour' test \
    "$(session 11 -H 'x-user: 124')" = '10 429'
check 'by the id' has "$(item session:user:124 RATE_LIMIT#1704067200000)" \
    '"count":{"N":"10"}'

# ---- the rows of its page ----

for ((i = 0; i < 45; i++)); do
    ask_for 123 /api/search
done
ask_for 123 /api/apply/1 ',"method":"POST","cost":12'
check 'the row of a search' test \
    "$(item search:user:123 RATE_LIMIT#1704067200000)" = \
    '{"count":{"N":"45"},"dataType":{"S":"RATE_LIMIT#1704067200000"},"resetTime":{"N":"1704070800000"},"ttl":{"N":"1704074400"},"userId":{"S":"search:user:123"}}'
check 'the row of a day' test \
    "$(item apply:user:123 RATE_LIMIT#1704067200000)" = \
    '{"count":{"N":"12"},"dataType":{"S":"RATE_LIMIT#1704067200000"},"resetTime":{"N":"1704153600000"},"ttl":{"N":"1704157200"},"userId":{"S":"apply:user:123"}}'

# ---- its third: premium, until it ends ----

put '{"userId":{"S":"7"},"dataType":{"S":"PROFILE"},"subscriptionTier":{"S":"premium"},"subscriptionExpiry":{"S":"2025-12-31T23:59:59Z"},"name":{"M":{"a":{"L":[]}}}}'
put '{"userId":{"S":"8"},"dataType":{"S":"PROFILE"},"subscriptionTier":{"S":"premium"}}'
put '{"userId":{"S":"10"},"dataType":{"S":"PROFILE"},"subscriptionTier":{"S":"premium"},"subscriptionExpiry":{"S":"2025-12-31"}}'
put '{"userId":{"S":"org:9"},"dataType":{"S":"PROFILE"},"subscriptionTier":{"S":"premium"},"subscriptionExpiry":{"S":"2025-12-31T23:59:59Z"}}'
clock 2025-12-31T22:00:00Z
check 'premium: fifty sessions in an hour' test \
    "$(session 51 -H 'x-user: 7')" = '50 429'
check 'premium without a date is free' test \
    "$(session 11 -H 'x-user: 8')" = '10 429'
check 'a user does not get the plan of an organisation of that name' test \
    "$(session 11 -H 'x-user: org:9')" = '10 429'
clock 2025-12-31T23:59:58Z
check 'to its last second' test "$(session 11 -H 'x-user: 7')" = '11 200'
check 'a date is valid all day' test \
    "$(session 11 -H 'x-user: 10')" = '11 200'
clock 2026-01-01T00:00:00Z
check 'and not after it' test "$(session 11 -H 'x-user: 10')" = '10 429'
check 'and then ten' test "$(session 11 -H 'x-user: 7')" = '10 429'

# ---- a visitor's day, in the original's other row ----

clock 2024-01-01T05:00:00Z
ask /v1/check -d '{"method":"POST","path":"/api/apply/1","cost":12,"ip":"192.0.2.7"}'
row=$(rows | grep '^apply:anon:')
check 'the row of a visitor' test "$(item "${row%% *}" "${row##* }")" = \
    "{\"count\":{\"N\":\"12\"},\"dataType\":{\"S\":\"RATE_LIMIT#1704067200000\"},\"resetTime\":{\"N\":\"1704153600000\"},\"ttl\":{\"N\":\"1704157200\"},\"userId\":{\"S\":\"${row%% *}\"}}"

# ---- the rows are counters that can be asked for ----

clock 2024-01-01T00:40:00Z
fetch "http://$http/v1/usage/user/123?limit=search"
check 'forty-five of a hundred searches' has "$out" \
    '"used":45,"limit":100,"remaining":55'
stop

# ---- the session's cookie, by the preset as it is ----

/usr/bin/python3 - presets/jwks.json >token <<'EOF'
import json, sys
import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
public = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(key.public_key()))
public.update(kid="session", use="sig", alg="RS256")
json.dump({"keys": [public]}, open(sys.argv[1], "w"))
print(jwt.encode({"sub": "125", "exp": 2000000000}, key, algorithm="RS256",
                 headers={"kid": "session"}), end="")
EOF
serve "$store" "$store" jwt.sub
clock 2024-01-01T00:30:00Z
check 'a user by the cookie: ten sessions in an hour' test \
    "$(session 11 -b "next-auth.session-token=$(cat token)")" = '10 429'
check 'by the id' has "$(item session:user:125 RATE_LIMIT#1704067200000)" \
    '"count":{"N":"10"}'

# ---- without the table ----

dynamo_kill
check 'without DynamoDB everybody passes' test "$(session 7)" = '7 200'
check 'with the words of the original in the log' until_ says \
    'Rate limit check failed'
check 'and is counted' test \
    "$(metric 'sluice_fail_mode_decisions_total{mode="allow"}')" -ge 7
stop

# ---- an endpoint without transactions ----

dynamo_port=0
dynamo_start --plain
serve "$store" none
clock 2024-01-01T00:30:00Z
check 'without transactions: five sessions of a visitor' test \
    "$(session 6)" = '5 429'
check 'with the numbers of the original' has "$(cat "$folder/body")" \
    '"limit":5,"remaining":0'
check 'ten of a user' test "$(session 11 -H 'x-user: 124')" = '10 429'
check 'not one of them without the store' test \
    "$(metric 'sluice_fail_mode_decisions_total{mode="allow"}')" = 0
check 'and the log says how' until_ grep -qF 'TransactWriteItems' "$log"
stop

# ---- on a Redis, by one line ----

redis_start
serve "redis+unix://$folder/redis.sock" none
check 'the same preset on a Redis' is_ok
clock 2024-01-01T00:30:00Z
check 'five sessions' test "$(session 6)" = '5 429'
check 'ten sessions' test "$(session 11 -H 'x-user: 124')" = '10 429'

finish
