#!/usr/bin/env bash
# why.sh -- why a request was denied: by request id and by caller, through every
# way in, after a restart, without names in the database, and erased with the
# subject.

# shellcheck source=test/support/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"

# write_policy SERVER
write_policy() {
    cat >p.yaml <<EOF
sluice: 1
server: { deadline: 5s, $1 }
plans: { default: free, free: {} }
identity: { user: header.x-user-id, trusted_proxies: [127.0.0.0/8] }
features: { speech: { enabled: false } }
limits:
  requests: { kind: fixed-window, per: user, rate: 1/day }
  minutes: { kind: quota, per: org, rate: 1/month }
  places: { kind: fixed-window, per: ip, rate: 1/day }
  slots: { kind: concurrency, per: user, rate: 1 }
routes:
  - { match: /slots, limits: [slots] }
  - { match: /speech, limits: [], feature: speech }
  - { match: /admin, limits: [], roles: [admin] }
  - { match: /jobs, limits: [], backlog: { name: jobs, max: 10 } }
  - { match: /minutes, limits: [minutes] }
  - { match: /places, limits: [places] }
  - { match: /account, limits: [], anonymous: deny }
  - { match: /alone, limits: [], guard: { key: "alone:{user}", hold: 60s } }
default: [requests]
EOF
}

books=${SLUICE_TEST_POSTGRES:-sqlite:./books.db}
write_policy 'denials: hashed'
start_virtual -c p.yaml --threads 1 --store memory: --usage "$books" \
    --listen-resp 127.0.0.1:0 --listen-grpc 127.0.0.1:0
clock 2026-11-15T14:03:00Z

# why WORD...: asks the daemon.
why() {
    run "$sluice" why "$@" --admin-url "http://$admin"
}

# id: the request id of the last answer.
id() {
    local id

    id=$(member request_id)
    [[ -n $id ]] || id=$(field X-Request-Id)
    echo "${id//\"/}"
}

# ---- what is told apart, through each way in ----

ask_for ann /x
ask_for ann /x
http_id=$(id)
why "$http_id"
check 'a limit, by HTTP' is 0
check 'when, and with which answer' has "$out" '2026-11-15T14:03:00.000Z  user #'
check 'with its status and code' has "$out" ' with 429 RATE_LIMITED.'
check 'the limit, the plan and the line' has "$out" \
    'The limit "requests" per user of the plan "free" (line 7 of the policy) allows 1. 0 were left, and the request costs 1.'
check 'when it would have passed' has "$out" ' later, at 2026-11-16T00:00:00Z.'
check 'and its id' has "$out" "Request $http_id, daemon"

auth ann /x
auth_id=$(id)
check 'forward-auth tells the id' [ -n "$auth_id" ]
why "$auth_id"
check 'and it is found' [ "$status" = 0 ]

resp_id=by-redis-7
run redis-cli -p "${resp##*:}" SLUICE.CHECK path /x user ann id "$resp_id"
why "$resp_id"
check 'RESP' has "$out" "Request $resp_id, daemon"

# A RateLimitRequest of the domain "d" with the entries path=/x and user=gus.
should_rate_limit() {
    printf '\0\0\0\0\x1e\x0a\x01d\x12\x19\x0a\x0a\x0a\x04path\x12\x02/x\x0a\x0b\x0a\x04user\x12\x03gus' |
        curl -sS --http2-prior-knowledge -H 'content-type: application/grpc' \
            -H 'te: trailers' --data-binary @- -o grpc.out \
            "http://$(where grpc)/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"
}

for _ in 1 2; do should_rate_limit; done
grpc_id=$(grep -ao 'req_[a-z0-9]*' grpc.out | head -n 1)
why "$grpc_id"
check 'gRPC' has "$out" "Request $grpc_id, daemon"
check 'by its limit' has "$out" 'The limit "requests" per user'

for _ in 1 2; do ask_for ann /minutes ',"org":"acme"'; done
why "$(id)"
check 'a quota' has "$out" 'The quota "minutes" per org'
for _ in 1 2; do ask_for '' /places ',"ip":"203.0.113.7"'; done
why ip=203.0.113.7 at=2026-11-15T14:03
check 'an address' has "$out" 'ip 203.0.113.7 was denied at places with 429'
ask_for ann /speech
why "$(id)"
check 'a feature' has "$out" 'The feature behind this route is switched off.'
ask_for ann /admin
why "$(id)"
check 'a role' has "$out" 'The caller has none of the roles of this route.'
tell /v1/backlog/jobs -X PUT -d '{"depth":11}'
ask_for ann /jobs
why "$(id)"
check 'a backlog' has "$out" 'The backlog behind this route is too long.'
check 'its end is not known' has "$out" \
    'It is not known when it would have passed. The client was told to retry after 30s.'
no_time() {
    ! has "$out" 'It would have passed'
}
check 'and not told' no_time
for _ in 1 2; do ask_for zoe /slots; done
why "$(id)"
check 'concurrency' has "$out" 'The limit "slots" per user'
check 'depends on others' has "$out" 'It is not known when it would have passed.'

ask_for '' /account
why "$(id)"
check 'a caller without a name' has "$out" 'The route needs an identity; this request had none.'
check 'is 401' has "$out" ' with 401 UNAUTHORIZED.'
for _ in 1 2; do ask_for eve /alone; done
why "$(id)"
check 'a guard' has "$out" 'Another request of the same guard was running.'
run "$sluice" block user eve until=1h note=scraping --admin-url "http://$admin"
ask_for eve /account
why "$(id)"
check 'a block' has "$out" 'The caller is blocked.'
check 'is 403' has "$out" ' with 403 BLOCKED.'

# ---- by address, whatever denied it ----

from=',"ip":"203.0.113.8"'
ask_for '' /account "$from"
ask_for zoe /admin "$from"
for _ in 1 2; do ask_for zoe /x "$from"; done
why ip=203.0.113.8 at=2026-11-15T14:03
check 'a 401, a role and a limit by user' [ "$(grep -c 'was denied' <<<"$out")" = 3 ]
check 'the 401 has the address' has "$out" \
    'Z  ip 203.0.113.8 was denied at account with 401'
check 'the role has it, too' has "$out" 'ip 203.0.113.8 was denied at admin with 403'
auth zoe /admin
why ip=127.0.0.1 at=2026-11-15T14:03
check 'forward-auth has the address of the client' has "$out" \
    'ip 127.0.0.1 was denied at admin with 403'
ask_for '' /account ',"ip":"2001:db8:7::1"'
for ip in 2001:db8:7::1 2001:db8:7::2 2001:DB8:7:0::1 2001:db8:7::/64; do
    why ip="$ip" at=2026-11-15T14:03
    check "IPv6 by its network: $ip" has "$out" "ip $ip was denied at account with 401"
done
why ip=2001:db8:8::1 at=2026-11-15T14:03
check 'not by another network' is 1
why ip=::ffff:203.0.113.8 at=2026-11-15T14:03
check 'IPv4 written as IPv6' [ "$(grep -c 'was denied' <<<"$out")" = 3 ]
why ip=nowhere at=2026-11-15T14:03
check 'what is not an address is not found' is 1

# ---- by caller and time ----

why user=ann at=2026-11-15T14:03 within=5m
check 'by caller and time' has "$out" 'user ann'
check 'all of them' [ "$(grep -c 'was denied' <<<"$out")" = 7 ]
why user=ann at=2026-11-15T15:03 within=5m
check 'not at another time' is 1
why user=bob at=2026-11-15T14:03
check 'not another caller' is 1
why org=ann at=2026-11-15T14:03
check 'nor another scope' is 1
why no-such-request
check 'nor another request' is 1
for at in 2026-11-15T15:03+01:00 '2026-11-15 15:03+01:00' 2026-11-15T14:03Z \
    2026-11-15T14:03:00 2026-11-15T14:03:00.5 2026-11-15T15:03:00+01:00; do
    why user=ann at="$at" within=1s
    check "at=$at" [ "$(grep -c 'was denied' <<<"$out")" = 7 ]
done
why user=ann at=2026-11-15T14:03+01:00
check 'an offset counts' is 1
why ''
check 'an empty request id' [ "$status" = 2 ]
check 'is told' has "$err" 'the request id is empty; write it as in sluice why req_'
why user=
check 'a caller without an id' has "$err" '"user=" has no id; write user=ann'
why user=ann at=yesterday
check 'a time that is none' [ "$status" = 2 ]
why
check 'a question without words' [ "$status" = 2 ]

# ---- what a daemon would decide now ----

run "$sluice" explain --url "http://$http" 'GET /x' user=ann
check 'explain asks a daemon' is 1
check 'with its state' has "$out" 'verdict  429 by requests: retry in'
run "$sluice" explain --url "http://$http" 'GET /x' user=bob -o json
check 'of another caller' has "$out" '"allowed":true'
run "$sluice" explain p.yaml 'GET /x' user=ann --url "http://$http"
check 'a policy beside --url is refused' is 2
check 'and named' has "$err" 'the daemon has the policy; remove "p.yaml"'
run "$sluice" explain --url "http://$http" GET /x user='ann b'
check 'a request in two words is not' is 0
run "$sluice" explain --url "http://$http" 'GET /x' at=2026-11-15T14:03:00Z
check 'and not of another time' [ "$status" = 2 ]

# ---- pages ----

# page BEFORE: two records.
page() {
    tell "/v1/denials?limit=2${1:+&before=$1}"
    cursor=$(grep -o '"cursor":"[^"]*' <<<"$out" | tail -n 1 | cut -d '"' -f 4)
    count=$(grep -o '"cursor"' <<<"$out" | wc -l)
}
written() {
    tell '/v1/denials?limit=100'
    has "$out" '"from":"database"' && [[ $(counts "$http_id") != 0 ]]
}
stored() {
    if [[ $books = postgres* ]]; then
        pg_dump --data-only --inserts "$books"
    fi
    cat ./*.db* 2>/dev/null
}
# counts PATTERN: how many lines of the database have it.
counts() {
    stored | grep -acE -- "$1" || true
}
check 'they are in the database' until_ written
seen=0 cursor=
while page "$cursor" && ((count > 0)); do seen=$((seen + count)); done
check 'pages have each record once' [ "$seen" = 18 ]
for bad in 'limit=0' 'limit=1001' 'before=7' 'scope=user' 'from=x' 'passed=1' 'x=1' \
    'request_id=' 'request_id' 'scope=&id=' 'scope=user&id='; do
    tell "/v1/denials?$bad"
    check "refused: $bad" answers 400
done
tell '/v1/denials?request_id='
check 'with what to write' has "$out" \
    'is empty; write ?request_id=req_5n2q8d0w3k7m or ?scope=user&id=ann'

# ---- names ----

# no_names: neither the database nor the log has one.
no_names() {
    [[ $(counts '\<ann\>|203\.0\.113\.[78]|2001:db8') = 0 ]] && ! grep -qE '"ann"' "$log"
}
check 'no name is in the database' no_names
clock 2026-11-15T14:05:00Z
stop

# ---- a store that is away ----

cat >away.yaml <<'EOF'
sluice: 1
server: { deadline: 50ms }
limits:
  requests: { kind: fixed-window, per: user, rate: 1/day, on_store_failure: deny }
default: [requests]
EOF
start_virtual -c away.yaml --threads 1 --usage none \
    --store "redis://127.0.0.1:$(free_port)"
ask_for ann /x
why "$(id)"
check 'a store that is away' has "$out" \
    'The store did not answer; the policy denies then.'
check 'is no limit' has "$out" ' with 503 '
check 'without a database it is from memory' [ "$status" = 0 ]
stop

# ---- after a restart ----

start_virtual -c p.yaml --threads 1 --store memory: --usage "$books" \
    --listen-resp 127.0.0.1:0
clock 2026-11-15T14:10:00Z
why "$http_id"
check 'after a restart, by request id' has "$out" "Request $http_id"
why user=ann at=2026-11-15T14:03 within=5m
check 'and by name' [ "$(grep -c 'was denied' <<<"$out")" = 7 ]
why ip=2001:db8:7::2 at=2026-11-15T14:03 within=5m
check 'and by an address of the network' has "$out" 'was denied at account with 401'

# ---- ids, and nothing ----

write_policy 'denials: ids'
tell /v1/policy --data-binary @p.yaml
for _ in 1 2; do ask_for cat /x; done
why user=cat at=2026-11-15T14:10
check 'with ids the name is there' has "$out" 'user cat'
in_clear() {
    [[ $(counts '"user":"cat"') != 0 ]]
}
check 'in the database, too' until_ in_clear
write_policy 'denials: off'
tell /v1/policy --data-binary @p.yaml
until_ answers 200
off() {
    for _ in 1 2; do ask_for dora /x; done
    local last
    last=$(id)
    why "$last"
    [ "$status" = 1 ]
}
check 'off: none is recorded' until_ off

# ---- erasure ----

run "$sluice" subject erase user ann --admin-url "http://$admin"
check 'a subject is erased' [ "$status" = 0 ]
why user=ann at=2026-11-15T14:03 within=1h
check 'and its denials' is 1
why "$http_id"
check 'also by request id' is 1
why user=cat at=2026-11-15T14:10
check 'others stay' [ "$status" = 0 ]
run "$sluice" subject erase user cat --admin-url "http://$admin"
check 'a name in clear is gone, too' [ "$(counts '"user":"cat"')" = 0 ]

# ---- by size, and by age ----

write_policy 'denials: hashed, retain: { denial_rows: 3 }'
tell /v1/policy --data-binary @p.yaml
# denied_at MINUTE: a denial, and the minute after it.
denied_at() {
    clock "2026-11-15T15:$1:00Z"
    for _ in 1 2; do ask_for "u$1" /x; done
}
for minute in 10 11 12 13 14; do denied_at "$minute"; done
# left DAY COUNT: a minute later there are so many denials.
left() {
    clock "2026-11-$1T16:$((minute++)):00Z"
    tell '/v1/denials?limit=1000'
    [[ $(grep -o '"cursor"' <<<"$out" | wc -l) = "$2" ]]
}
check 'the newest rows stay' until_ left 15 3
why user=u11 at=2026-11-15T15:11
check 'the others are gone' is 1
why user=u12 at=2026-11-15T15:12
check 'and no more of them' [ "$status" = 0 ]
check 'and all after seven days' until_ left 25 0

finish
