#!/usr/bin/env bash
# addresses.sh -- the address that a request comes from: forwarded headers, the
# PROXY protocol, anonymous callers, and forged headers.
#
#   addresses.sh SLUICED SLUICED-TEST SLUICE

# shellcheck source=test/support/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"
PATH=$PATH:/usr/sbin
presets=$(cd "$root/presets" && pwd)

# Every denial tells by what it was counted; a cost that never fits is denied
# and spends nothing. rules FILE FIELD
rules() {
    cat >"$1" <<EOT
sluice: 1
identity:
  user: [header.x-user-id]
  trusted_proxies: [127.0.0.1, 10.0.0.0/8, "2001:db8:aa::/48"]
  forwarded: $2
limits:
  by-ip: { kind: fixed-window, per: ip, rate: 3/3000d }
  by-user: { kind: fixed-window, per: user, rate: 3/3000d }
routes:
  - { match: /user/**, limits: [by-user] }
  - { match: /pass/**, anonymous: pass, limits: [by-user] }
  - { match: /deny/**, anonymous: deny, limits: [by-user] }
  - { match: /limit/**, limits: [by-user] }
default: [by-ip]
errors: { rate_limited: { body: { by: "{scope}", id: "{id}" } } }
EOT
}

# Whom does it count? whom CURL-WORD...: the address, or the status.
whom() {
    ask '/v1/auth?cost=100' -H 'X-Original-Method: GET' \
        -H 'X-Original-URI: /x' "$@"
    if [[ $code = 429 ]]; then
        sed -n 's/.*"id":"\([^"]*\)".*/\1/p' <<<"$out"
    else
        echo "$code"
    fi
}

# counts WHAT WANT CURL-WORD...
counts() {
    local got

    got=$(whom "${@:3}")
    check "$1: $got" test "$got" = "$2"
}

letters() {
    local i text=

    for ((i = 0; i < $1; i++)); do
        text+=$2
    done
    printf '%s' "$text"
}

# ---- X-Forwarded-For ----

rules for.yaml x-forwarded-for
start -c for.yaml
f='X-Forwarded-For:'
counts 'no address is given' 127.0.0.1
counts 'one hop' 203.0.113.9 -H "$f 203.0.113.9"
counts 'two hops' 203.0.113.9 -H "$f 203.0.113.9, 10.0.0.2"
counts 'three hops' 203.0.113.9 -H "$f 203.0.113.9, 10.0.0.3, 10.0.0.2"
counts 'spoofed on the left' 203.0.113.9 -H "$f 6.6.6.6, 203.0.113.9, 10.0.0.2"
counts 'garbage on the left' 203.0.113.9 -H "$f <script>, 203.0.113.9"
counts 'garbage stops the walk' 10.0.0.2 -H "$f 6.6.6.6, unknown, 10.0.0.2"
counts 'several fields are one list' 203.0.113.9 -H "$f 6.6.6.6" \
    -H "$f 203.0.113.9" -H "$f 10.0.0.2"
counts 'the other field is not looked at' 127.0.0.1 -H 'Forwarded: for=6.6.6.6'
counts 'nor an alias with underscores' 127.0.0.1 -H 'X_Forwarded_For: 6.6.6.6'
counts 'IPv6 by its prefix' 2001:db8:0:1::/64 -H "$f 2001:db8:0:1:ffff::9"
counts 'mapped IPv4 is IPv4' 203.0.113.9 -H "$f ::ffff:cb00:7109"
counts 'a long list' 203.0.113.9 -H "$f 203.0.113.9$(letters 1300 ,10.0.0.1)"
counts 'ten thousand entries' 431 -H "$f $(letters 10000 10.0.0.1,)"
counts 'an untrusted peer may not ask for others' 403 --interface 127.0.0.2
stop

# ---- Forwarded ----

rules rfc.yaml forwarded
start -c rfc.yaml
f='Forwarded:'
counts 'one hop' 203.0.113.9 -H "$f for=203.0.113.9;proto=https"
counts 'two hops, with ports' 203.0.113.9 \
    -H "$f for=\"203.0.113.9:4711\", for=\"10.0.0.2:_x\""
counts 'IPv6' 2001:db8:0:1::/64 \
    -H "$f for=\"[2001:db8:0:1::9]:80\", for=\"[2001:db8:aa::1]\""
counts 'an open quote changes no other address' 203.0.113.9 \
    -H "$f for=\"6.6.6.6, for=203.0.113.9"
counts 'a hidden one stops the walk' 10.0.0.2 \
    -H "$f for=6.6.6.6, for=_hidden, for=10.0.0.2"
counts 'garbage counts the peer' 127.0.0.1 -H "$f for=6.6.6.6 for=7.7.7.7"
counts 'the other field is not looked at' 127.0.0.1 \
    -H 'X-Forwarded-For: 6.6.6.6'
stop

# ---- names that are given twice ----

start -c for.yaml
ask /v1/auth -H 'X-Original-URI: /user/x' -H 'X-User-Id: ann' \
    -H 'x-user-id: bob'
check 'a name twice is refused' answers 400
ask /v1/auth -H 'X-Original-URI: /x' -H 'X-Original-URL: http://h/user/x'
check 'two URIs are refused' answers 403
stop

# ---- no way around a limit, and no locking out of others ----

# remaining NAME: of a user, as a trusted peer sees it
remaining() {
    ask /v1/check -d "{\"path\":\"/user/x\",\"user\":\"$1\",\"cost\":0}"
    sed -n 's/.*"remaining":\([0-9]*\).*/\1/p' <<<"$out"
}

# The proxy hands the request on under its own path, and untrusted peers are
# answered as themselves.
start -c for.yaml --forward-auth path
ask /v1/auth/user/x -H 'X-User-Id: vic'
check 'the victim has used one' test "$(remaining vic)" = 2
for how in 'X-User-Id: vic' 'X_User_Id: vic' 'Authorization: Bearer vic' \
    'X-Forwarded-For: 203.0.113.9'; do
    for _ in 1 2 3 4; do
        ask /v1/auth/user/x --interface 127.0.0.9 -H "$how"
    done
    check "untrusted, $how: limited by its own address" answers 429
    check 'and the victim has what it had' test "$(remaining vic)" = 2
done
for _ in 1 2 3; do
    ask /v1/auth/x -H 'X-Forwarded-For: 203.0.113.9, 198.51.100.66'
done
ask /v1/auth/x -H 'X-Forwarded-For: 203.0.113.9'
check "a victim's address on the left spends nothing of it" answers 200
ask /v1/auth/x -H 'X-Forwarded-For: 203.0.113.9, 198.51.100.66'
check 'but for the sender' answers 429

# No name or no good one, by what the route says of those.
row=20
for token in '' 'Authorization: Bearer' 'Authorization: Bearer x.y.z' \
    'Authorization: Basic dmljOng=' 'X-User-Id: vic'; do
    row=$((row + 1)) passed=0
    for _ in 1 2 3 4 5; do
        ask /v1/auth/pass/x --interface "127.0.0.$row" ${token:+-H "$token"}
        [[ $code != 200 ]] || passed=$((passed + 1))
    done
    check "${token:-no token}, pass: all pass" test $passed = 5
    passed=0
    for _ in 1 2 3 4 5; do
        ask /v1/auth/limit/x --interface "127.0.0.$row" ${token:+-H "$token"}
        [[ $code != 200 ]] || passed=$((passed + 1))
    done
    check "${token:-no token}, limit: as many as the address may" \
        test $passed = 3
    ask /v1/auth/deny/x --interface "127.0.0.$row" ${token:+-H "$token"}
    check "${token:-no token}, deny: 401" answers 401
done
check 'and the victim has what it had' test "$(remaining vic)" = 2
stop

# The same with real tokens, made by another program: each of them
# names the victim, and each is bad in its own way.
secret=0123456789abcdef0123456789abcdef
sed "/^limits:/i\\  jwt: { algorithms: [HS256], secret: $secret, audience: api }" \
    for.yaml | sed 's/user: \[/user: [jwt.sub, /' >token.yaml
# made ARGUMENTS: of PyJWT's encode(), behind the claims
made() {
    /usr/bin/python3 -c "import jwt, time
soon = int(time.time()) + 600
print(jwt.encode($1))"
}
claims='"sub": "pat", "aud": "api"'
start -c token.yaml --forward-auth path
good=$(made "{$claims, 'exp': soon}, '$secret', 'HS256'")
ask /v1/auth/user/x --interface 127.0.0.40 -H "Authorization: Bearer $good"
check 'a valid token is limited as its own user' test "$(remaining pat)" = 2
row=40
while IFS='|' read -r what arguments; do
    token=$(made "$arguments")
    row=$((row + 1)) passed=0
    for _ in 1 2 3 4 5; do
        ask /v1/auth/pass/x --interface "127.0.0.$row" \
            -H "Authorization: Bearer $token"
        [[ $code != 200 ]] || passed=$((passed + 1))
    done
    check "$what, pass: all pass" test $passed = 5
    passed=0
    for _ in 1 2 3 4 5; do
        ask /v1/auth/limit/x --interface "127.0.0.$row" \
            -H "Authorization: Bearer $token"
        [[ $code != 200 ]] || passed=$((passed + 1))
    done
    check "$what, limit: as many as the address may" test $passed = 3
    ask /v1/auth/deny/x --interface "127.0.0.$row" \
        -H "Authorization: Bearer $token"
    check "$what, deny: 401" answers 401
done <<EOT
expired|{$claims, 'exp': soon - 7200}, '$secret', 'HS256'
not yet good|{$claims, 'exp': soon, 'nbf': soon}, '$secret', 'HS256'
without an end|{$claims}, '$secret', 'HS256'
of another secret|{$claims, 'exp': soon}, 'x$secret', 'HS256'
of another algorithm|{$claims, 'exp': soon}, '$secret', 'HS384'
of no algorithm|{$claims, 'exp': soon}, None, 'none'
for another audience|{'sub': 'pat', 'aud': 'web', 'exp': soon}, '$secret', 'HS256'
with a list to obey|{$claims, 'exp': soon}, '$secret', 'HS256', {'crit': ['b64']}
EOT
check 'and the victim has what it had' test "$(remaining pat)" = 2
stop

# Ten thousand browsers at one address; a thousand where that takes long.
browsers=10000
[[ -z ${SL_SHORT-} ]] || browsers=1000
start_virtual --store memory: -c "$presets/jobseek.yaml"
check "$browsers browsers at one address pass fifty times" test \
    "$(python3 "$here/addresses.py" rotate "$http" "$browsers")" = 50
stop

# ---- the PROXY protocol ----

# begins WHAT [TIMES]: the connection's first bytes; whom it counts, or "closed"
begins() {
    out=$(python3 "$here/addresses.py" preface "$http" "$@")
}

# Three pass and the fourth is told by what it was counted.
is_counted() {
    begins "$1" 4
    check "$1: counted as $2 ($out)" test "$out" = "429 {\"by\":\"ip\",\"id\":\"$2\"}"
}

sed -i 's/trusted_proxies: .*/trusted_proxies: [127.0.0.1]/' for.yaml
proxied() {
    rm -f sluice.state
    start -c for.yaml --forward-auth path --proxy-protocol http
}
proxied
is_counted tcp4-slowly 203.0.113.9
begins tcp4-tlvs
check 'with TLVs, the same client' test "${out:0:3}" = 429
begins mapped
check 'and as mapped IPv4' test "${out:0:3}" = 429
is_counted tcp6 2001:db8:0:1::/64
begins unspec 4
check 'without an address, a limit per address does not apply' test \
    "${out:0:3}" = 200
begins unix
check 'a unix socket there has none, too' test "${out:0:3}" = 200
is_counted local 198.51.100.7
for what in udp long v1 none; do
    begins $what
    check "$what is closed" test "$out" = closed
done
check 'and the log says that version 2 is wanted' said 'send-proxy-v2'
check 'or that there is none' said 'missing PROXY header'
ask /v1/auth/x --haproxy-protocol
check "curl's version 1 is closed" test "$code" = 000
ask /v1/auth/x --interface 127.0.0.2
check 'an untrusted peer is not answered' test "$code" = 000
check 'and the log says why' said 'is not a trusted proxy'
tell /metrics
check 'they are counted' grep -q \
    'sluice_http_refused_total{door="http",why="proxy_header"} [1-9]' <<<"$out"
check 'the admin listener goes on without' answers 200
stop
check 'it ends as usual' test "$status" = 0

# Other listeners, by the same setting: pings WHAT WANT
pings() {
    out=$(python3 "$here/addresses.py" ping "$resp" "$1")
    check "the Redis protocol behind $1: $out" test "$out" = "$2"
}

start -c for.yaml --listen-resp 127.0.0.1:0 --proxy-protocol resp
pings tcp4 +PONG
pings local-slowly +PONG
pings none closed
pings v1 closed
ask /v1/auth -H 'X-Original-URI: /other'
check 'a listener that is not named is as before' test "$code" != 000
stop

# A real balancer, which also looks whether we are there (LOCAL).
if command -v haproxy >/dev/null; then
    proxied
    site=127.0.0.1:$(free_port)
    cat >haproxy.cfg <<EOT
defaults
    mode tcp
    timeout connect 2s
    timeout client 5s
    timeout server 5s
frontend site
    bind $site
    default_backend sluice
backend sluice
    option httpchk GET /v1/auth/up
    http-check expect rstatus (200|429)
    server one $http send-proxy-v2 check check-send-proxy inter 100ms
EOT
    background haproxy.log haproxy -f haproxy.cfg
    up() {
        fetch "http://$site/v1/auth/x" --interface 127.0.0.7
        [[ $code != 000 ]]
    }
    until_ up
    for _ in 1 2 3 4; do
        fetch "http://$site/v1/auth/x" --interface 127.0.0.7
    done
    check 'HAProxy passes the address of the client' test "$out" = \
        '{"by":"ip","id":"127.0.0.7"}'
    fetch "http://$site/v1/auth/x" --interface 127.0.0.8
    check 'and that of another' answers 200
    stop
fi

finish
