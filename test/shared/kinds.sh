#!/usr/bin/env bash
# kinds.sh SLUICED SLUICED-TEST SLUICE -- daemons on a Redis by TLS, on one that
# sentinels watch, on a cluster, and on one that would throw keys away.

# shellcheck source=test/support/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"

cat >p.yaml <<'EOF'
sluice: 1
env: test
limits:
  tenant: { kind: fixed-window, per: org, rate: 30/3000d }
  window: { kind: fixed-window, per: [org, user], rate: 20/3000d }
routes:
  - { match: /set, limits: [tenant, window] }
default: []
EOF

# serve PORT WORD...: a redis-server there; others than the one of redis.sh
serve() {
    local port=$1

    shift
    mkdir -p "$folder/$port"
    redis-server --port "$port" --dir "$folder/$port" --save '' \
        --logfile "$folder/$port/log" "$@" &
    running+=("$!")
}

# exact NAME: two daemons there admit 20 of one user and 30 of an organisation
exact() {
    share -c p.yaml
    first=$http
    share -c p.yaml
    load refused 2 '{"path":"/set","user":"ann","org":"acme"}' "$first" "$http"
    check "$1: a user has its own part" test \
        "$allowed $outage $unanswered $degraded" = '20 0 0 0'
    load refused 2 '{"path":"/set","user":"bob","org":"acme"}' "$first" "$http"
    check "$1: and all of them theirs" test "$allowed $degraded" = '10 0'
}

# ---- TLS ----

openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 \
    -keyout key.pem -out cert.pem -subj /CN=localhost \
    -addext subjectAltName=DNS:localhost,IP:127.0.0.1 2>/dev/null
port=$(free_port)
serve 0 --tls-port "$port" --tls-cert-file "$PWD/cert.pem" \
    --tls-key-file "$PWD/key.pem" --tls-ca-cert-file "$PWD/cert.pem" \
    --tls-auth-clients no --requirepass hush
store="rediss://:hush@localhost:$port?ca=$PWD/cert.pem"
exact TLS
store="rediss://:hush@localhost:$port"
start --store "$store" -c p.yaml
until_ is_degraded
check 'an unknown certificate is not accepted' is_degraded

# ---- sentinels ----

port=$(free_port)
serve "$port"
watch=$(free_port)
mkdir -p sentinel
cat >sentinel/conf <<EOF
port $watch
dir $PWD/sentinel
sentinel monitor main 127.0.0.1 $port 1
EOF
redis-server sentinel/conf --sentinel >sentinel/log &
running+=("$!")
store="redis+sentinel://127.0.0.1:$watch/main"
exact sentinels

# ---- a cluster ----

nodes=()
for _ in 1 2 3; do
    port=$(free_port)
    serve "$port" --cluster-enabled yes --cluster-port "$(free_port)"
    nodes+=("127.0.0.1:$port")
done
formed() {
    redis-cli --cluster create "${nodes[@]}" --cluster-yes >cluster.log 2>&1
}
settled() {
    [[ $(redis-cli -p "$port" cluster info) = *cluster_state:ok* ]]
}
until_ formed
until_ settled
store="redis+cluster://${nodes[0]},${nodes[1]}"
exact 'a cluster'
check 'where what belongs together lies together' test \
    "$(redis-cli -c -p "$port" get 'sluice:test:tenant:org:{acme}' |
        cut -d: -f4)" = 30

# keyed HOST N: a check with a key; the user, the organisation and the key say in
# which slot its rows are.
keyed() {
    fetch "http://$1/v1/check" -d "{\"path\":\"/set\",\"user\":\"u$2\",\
\"org\":\"o$2\",\"idempotency_key\":\"k$2\"}"
}
first_ok=0 repeated=0 charged=0
for n in {1..24}; do
    keyed "$first" "$n"
    has "$out" '"remaining":19' && has "$out" '"degraded":false' &&
        first_ok=$((first_ok + 1))
    keyed "$http" "$n"
    has "$out" '"remaining":19' &&
        has "$out" '"Idempotency-Replayed":"true"' && repeated=$((repeated + 1))
    fetch "http://$http/v1/check" -d "{\"path\":\"/set\",\"user\":\"u$n\",\"org\":\"o$n\",\"cost\":0}"
    has "$out" '"remaining":19' && charged=$((charged + 1))
done
check 'a cluster: keys of all slots are charged' test "$first_ok" = 24
check 'a cluster: the other daemon repeats their answers' test "$repeated" = 24
check 'a cluster: and charges none of them again' test "$charged" = 24
spread=0
for node in "${nodes[@]}"; do
    [[ $(redis-cli -p "${node#*:}" dbsize) = 0 ]] || spread=$((spread + 1))
done
check 'a cluster: all nodes have some of them' test "$spread" = 3

# ---- one that throws keys away ----

redis_start --maxmemory 100mb --maxmemory-policy allkeys-lru
store=redis+unix://$socket
share -c p.yaml
warned() {
    grep -q 'maxmemory-policy allkeys-lru' "$log"
}
until_ warned
check 'a Redis that evicts keys is named in the log' warned
check 'once' test "$(grep -c allkeys-lru "$log")" = 1

finish
