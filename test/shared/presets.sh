#!/usr/bin/env bash
# presets.sh SLUICED SLUICED-TEST SLUICE -- the presets end to end on a real
# Redis: names of keys as each preset documents them, times to live, answers,
# and what happens when the Redis is gone.

# shellcheck source=test/support/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"
cp -r "$root/presets" .

# serve NAME: the preset on an empty Redis
serve() {
    [[ -z $pid ]] || stop
    redis flushall >/dev/null
    share -c "presets/$1.yaml"
}

# The keys that limits have made, and not those of the store itself.
keys() {
    redis keys '*' | grep -vE '^sluice:(secret|epoch)$|^sluice:repeat:|#nodes' | sort |
        tr '\n' ' '
}

# Does every key end by itself? One that has ended since it was seen (-2) did.
all_end() {
    local key

    for key in $(keys); do
        [[ $(redis pttl "$key") != -1 ]] || return 1
    done
}

request() {
    ask /v1/auth -H "X-Original-URI: $1" -H 'X-Original-Method: POST' "${@:2}"
}

redis_start

# ---- fluo ----

serve fluo
request /api/rules -H 'tenantId: t1' -H 'userId: ann'
check 'fluo: a request passes, by headers' answers 200
check 'fluo: under the names of the original' test "$(keys)" = \
    'ratelimit:tenant:t1 ratelimit:user:t1:ann '
check 'fluo: which end by themselves' all_end
ask_for bob /api/rules ',"org":"t1","cost":100'
check 'fluo: a hundred of a user pass' test "$(member allowed)" = true
tenant=$(redis get ratelimit:tenant:t1)
ask_for bob /api/rules ',"org":"t1","cost":100'
check 'fluo: no more of them do' has "$out" '"status":429'
check 'fluo: the limit of the user denies' has "$out" \
    'User rate limit exceeded. Retry after'
check "fluo: the tenant's bucket is untouched" test \
    "$(redis get ratelimit:tenant:t1)" = "$tenant"
request /api/rules -H 'tenantId: t1' -H 'userId: cat'
check 'fluo: another user passes' answers 200

# ---- unraveldocs ----

serve unraveldocs
for _ in {1..8}; do
    ask_for u1 /api/v1/ai/extract ',"plan":"FREE"'
done
check 'unraveldocs: eight in a row' test "$(member allowed)" = true
check 'unraveldocs: under the names of the original' test "$(keys)" = \
    'u1:daily u1:minute '
check 'unraveldocs: which end by themselves' all_end
daily=$(redis get u1:daily)
ask_for u1 /api/v1/ai/extract ',"plan":"FREE","cost":8'
check 'unraveldocs: then the minute refuses' has "$out" '"by":"ai-minute"'
check 'unraveldocs: which costs the day nothing' test \
    "$(redis get u1:daily)" = "$daily"
ask_for u1 /api/v1/ai/extract ',"plan":"PRO_MONTHLY"'
left=$(grep -o '"remaining":[0-9]*' <<<"$out" | tail -n 1 | cut -d: -f2)
check "unraveldocs: a better plan counts at once, and has what was used ($left)" \
    test "$left" -ge 31 -a "$left" -lt 40

# ---- jwt-redis ----

provider_start
curl -sS "http://$provider/keys" >presets/jwks.json
token=$(token "sub=ann&plan=pro&iss=https%3A%2F%2Fissuer.example&aud=api")

serve jwt-redis
request /orders -H "Authorization: Bearer $token"
check 'jwt-redis: a token comes in, and its plan counts' test \
    "$code $(field X-RateLimit-Limit) $(field X-RateLimit-Remaining)" = \
    '200 10 99'
check 'jwt-redis: under the name of the policy' test "$(keys)" = \
    'sluice:prod:requests:user:ann '
check 'jwt-redis: which ends by itself' all_end
request /orders -H "Authorization: Bearer $token.x"
check 'jwt-redis: a bad token has the bucket of its address' has "$(keys)" \
    'sluice:prod:requests:ip:127.0.0.1 '
ask_for eve /orders ',"cost":10'
ask_for eve /orders ',"cost":10'
check 'jwt-redis: what is used up is used up' has "$out" '"status":429'
redis set sluice:prod:requests:user:fay 'hello' >/dev/null
redis rpush sluice:prod:requests:user:dan x >/dev/null
ask_for fay /orders
check 'jwt-redis: a foreign value counts as nothing' has "$out" \
    '"degraded":false'
check 'jwt-redis: and is counted' test \
    "$(metric sluice_store_foreign_values_total)" = 1
ask_for dan /orders
check 'jwt-redis: a key of another type is not touched' test \
    "$(redis lrange sluice:prod:requests:user:dan 0 -1)" = x
check 'jwt-redis: the request goes by on_store_failure' has "$out" '"degraded":true'
check 'jwt-redis: and is counted' test \
    "$(metric sluice_store_wrong_type_total)" -ge 1

# ---- saas-quotas ----

serve saas-quotas
ask_for ann /api/assistant/query ',"method":"POST","org":"acme","plan":"pro"'
check 'saas-quotas: a request passes' test "$(member allowed)" = true
check 'saas-quotas: rl:ENV:ENDPOINT:SCOPE:ID' has "$(keys)" \
    'rl:prod:assistant_query:'
check 'saas-quotas: which end by themselves' all_end

# ---- jobseek ----

serve jobseek
ask_for '' /api/search/x ',"method":"GET","ip":"203.0.113.5"'
check 'jobseek: a visitor passes' test "$(member allowed)" = true
check 'jobseek: TYPE:USERTYPE:ID' grep -qE '(^| )search:anon:' <<<"$(keys)"
ask_for 123 /api/search/x ',"method":"GET","ip":"203.0.113.6"'
check 'jobseek: and a user by its id' has "$(keys)" 'search:user:123 '
check 'jobseek: which end by themselves' all_end

# ---- chaos: the Redis is gone ----

serve saas-quotas
redis_kill
until_ is_degraded
for path in /api/assistant/query /api/recordings/init /api/shares /api/invites; do
    request "$path"
    check "saas-quotas: $path fails safe" answers 503
    check 'saas-quotas: and says when to come back' test \
        "$(field Retry-After)" -ge 1
    check 'saas-quotas: and why' test "$(field X-Sluice-Degraded)" = store
done
stop
check 'it ends as asked all the same' is 0

finish
