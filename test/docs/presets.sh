#!/usr/bin/env bash
# presets.sh -- what a flow can't see of the presets: keys in a shared store,
# and policies that must be refused.
#
#   presets.sh SLUICE ROOT
set -euo pipefail

sluice=$(realpath "$1")
cd "$2/presets"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
tests=0 failed=0

# verdict STATUS NAME, with what was printed on standard input.
verdict() {
    tests=$((tests + 1))
    if [[ $1 = 0 ]]; then
        echo "ok $tests - $2"
    else
        failed=$((failed + 1))
        sed 's/^/# /'
        echo "not ok $tests - $2"
    fi
}

# key WANT POLICY WORD...: one of the limits of the request has this key.
key() {
    local want=$1 said status=0

    shift
    said=$("$sluice" explain "$@" 2>&1) || true
    grep -qE -- "key $want\$" <<<"$said" || status=1
    verdict "$status" "$want" <<<"$said"
}

# refused SENTENCE NAME: the policy on standard input is refused with it.
refused() {
    local said status=0

    cat >"$folder/policy.yaml"
    said=$("$sluice" check "$folder/policy.yaml" 2>&1) || status=$?
    [[ $status = 3 ]] && grep -qE -- "$1" <<<"$said" && status=0
    verdict "$status" "$2" <<<"$said"
}

for policy in *.yaml variants/*.yaml; do
    status=0
    said=$("$sluice" check "$policy" 2>&1) || status=$?
    verdict "$status" "$policy is right" <<<"$said"
done

# 000-K02
key u1:daily unraveldocs.yaml 'GET /api/v1/ai/extract' user=u1
key u1:minute unraveldocs.yaml 'GET /api/v1/ai/extract' user=u1
# 001-Q01
key sluice:prod:requests:user:ann jwt-redis.yaml 'GET /orders' user=ann
key sluice:prod:requests:ip:192.0.2.9 jwt-redis.yaml 'GET /orders' ip=192.0.2.9
# 002-K01; and names with separators in them, 002-B07
key rl:prod:assistant_query:user:ann saas-quotas.yaml \
    'POST /api/assistant/query' user=ann org=c2b3
key rl:prod:recordings_finalize:org:c2b3 saas-quotas.yaml \
    'POST /api/recordings/finalize' user=ann org=c2b3
key rl:prod:public_api:ip:203.0.113.5 saas-quotas.yaml \
    'GET /api/public/x' ip=203.0.113.5
key rl:prod:invites:org:a%3Ab saas-quotas.yaml 'POST /api/invites' org=a:b
# 003-K02
key search:user:123 jobseek.yaml 'GET /api/search' user=123
key 'session:anon:[0-9a-f]{32}' jobseek.yaml 'POST /api/wallcrawler/session'
# 004-K01
key ratelimit:tenant:t1 fluo.yaml 'POST /api/rules' org=t1 user=ann
key ratelimit:user:t1:ann fluo.yaml 'POST /api/rules' org=t1 user=ann
key ratelimit:user:t1:a%3Ab fluo.yaml 'POST /api/rules' org=t1 user=a:b

# 002-R27: the switch of the environment.
said=$(FEATURE_ASSISTANT=false "$sluice" explain saas-quotas.yaml \
    'POST /api/assistant/query' user=ann org=acme 2>&1) && status=1 || status=$?
grep -q '^verdict *503' <<<"$said" && [[ $status = 1 ]] && status=0
verdict "$status" "FEATURE_ASSISTANT=false" <<<"$said"

# 000-R16, 000-B08: no plan falls back to free in silence.
refused 'pro' "a limit that forgets a plan" <<'POLICY'
sluice: 1
plans: { default: free, free: {}, pro: {} }
limits:
  api: { kind: token-bucket, per: user, rate: { free: 5/min } }
routes:
  - { match: /api/**, limits: [api] }
POLICY

# 7-04: a template that merges two states, and one that splits one.
refused 'user' "a key that merges all users" <<'POLICY'
sluice: 1
limits:
  api: { kind: token-bucket, per: user, missing: deny, rate: 5/min, key: "rl:{name}" }
routes:
  - { match: /api/**, limits: [api] }
POLICY
refused 'ip' "a key that splits a user by address" <<'POLICY'
sluice: 1
limits:
  api: { kind: token-bucket, per: user, missing: deny, rate: 5/min, key: "rl:{user}:{ip}" }
routes:
  - { match: /api/**, limits: [api] }
POLICY

# 001-B06: a capacity of nothing.
refused '0' "a rate of nothing" <<'POLICY'
sluice: 1
limits:
  api: { kind: token-bucket, per: user, rate: 0/min }
routes:
  - { match: /api/**, limits: [api] }
POLICY

echo "1..$tests"
((failed == 0))
