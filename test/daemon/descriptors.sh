#!/usr/bin/env bash
# descriptors.sh -- more clients than the process may have descriptors.

# shellcheck source=test/support/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"

# Does every thread sleep? One that tries again and again never does.
all_sleep() {
    ! grep -hEv '^State:\s+S' <(grep -h ^State: "/proc/$pid"/task/*/status) |
        grep -q .
}

# connect N [ADDRESS]: connections to the http listener, or to another one.
connect() {
    rm -f go answers connected
    background connected python3 "$here/connections.py" "${2-$http}" "$1" go
    until_ grep -qs open connected
}

# counted SAMPLE: does the page of metrics have it? Connections come one by one.
counted() {
    tell /metrics
    has "$out" "$1"
}

# ---- the limit is raised as far as it goes ----

launch prlimit --nofile=256:1024 "$sluiced" "${listeners[@]}"
started
check 'the soft limit becomes the hard one' \
    grep -Eq '^Max open files +1024 +1024' "/proc/$pid/limits"
stop

# ---- and if that is not enough ----

launch prlimit --nofile=64:64 "$sluiced" "${listeners[@]}" --threads 2
started
check 'it starts with few' test -n "$http"
connect 300
tell /livez
check 'many connections to one listener leave the other usable' answers 200
check 'it does not spin' until_ all_sleep
touch go
wait "$client"
served() {
    ask /v1/check -d '{"path":"/x","user":"ann"}'
    answers 200
}
until_ served
check 'and serves again when they have gone' served
stop
check 'and ends as asked' is 0

# ---- no more than it was told ----

start --connections 8 --threads 2
connect 50
refused='sluice_http_refused_total{door="http",why="too_many"} 42'
until_ counted "$refused"
check 'all but eight are refused, and counted' has "$out" "$refused"
check 'over both threads' has "$out" 'sluice_connections{door="http"} 8'
touch go
wait "$client"
until_ served
check 'and later others are let in' served
stop

# No peer is trusted, not even on this machine.
cat >p.yaml <<'EOT'
sluice: 1
identity: { trusted_proxies: [192.0.2.1] }
limits: { a: { kind: fixed-window, per: ip, rate: 1k/s } }
default: [a]
EOT
start -c p.yaml --store memory: --connections-per-address 5 --threads 2
connect 20
refused='sluice_http_refused_total{door="http",why="too_many_of_address"} 15'
until_ counted "$refused"
check 'of one address all but five' has "$out" "$refused"
touch go
wait "$client"
until_ served
check 'and others when these have gone' served
stop

# Likewise at the other listeners.
start -c p.yaml --store memory: --connections-per-address 5 --threads 2 \
    --listen-grpc 127.0.0.1:0 --listen-resp 127.0.0.1:0
for door in grpc resp; do
    connect 20 "$(where $door)"
    refused="sluice_http_refused_total{door=\"$door\",why=\"too_many_of_address\"} 15"
    until_ counted "$refused"
    check "$door: of one address all but five" has "$out" "$refused"
    touch go
    wait "$client"
    left="sluice_connections{door=\"$door\"} 0"
    until_ counted "$left"
    connect 5 "$(where $door)"
    again="sluice_connections{door=\"$door\"} 5"
    until_ counted "$again"
    check "$door: and others when these have gone" has "$out" "$again"
    touch go
    wait "$client"
done
stop

sed -i 's/192.0.2.1/127.0.0.1/' p.yaml
start -c p.yaml --store memory: --connections-per-address 5
connect 20
until_ counted 'sluice_connections{door="http"} 20'
check 'but a trusted proxy may have more' \
    has "$out" 'sluice_connections{door="http"} 20'
touch go
wait "$client"
stop

# ---- or if they are taken away while it runs ----

start --threads 1
tell /metrics
check 'accepting has not paused yet' has "$out" 'sluice_listener_paused_total 0'
# A client connects while there is none left. No metrics can be read then, so it
# is seen afterwards whether the daemon has tried; on a busy machine, not yet.
has_paused() {
    prlimit --pid "$pid" --nofile=4:
    curl -sS --max-time 0.2 "http://$http/v1/deny" >/dev/null 2>&1
    prlimit --pid "$pid" --nofile=1024:
    until_ served
    tell /metrics
    grep -Eq '^sluice_listener_paused_total [1-9]' <<<"$out"
}
check 'that accepting paused is counted' until_ has_paused
stop

# ---- and webhooks: no endpoint is to blame ----

background dest.log python3 "$here/destination.py" port hits
until_ test -s port
dest=http://127.0.0.1:$(<port)
: >>hits
cat >hooks.yaml <<'EOT'
sluice: 1
plans: { default: free, free: {} }
limits: { any: { kind: fixed-window, per: user, rate: 1/s } }
default: [any]
webhooks: { destination: unlimited, allow: [127.0.0.0/8], insecure: true }
EOT
# No other connection can be opened then, so the message goes over one that is
# there, and so do the questions whether an attempt was made.
cat >send.py <<'EOT'
import http.client, json, subprocess, sys, time
sluiced = http.client.HTTPConnection(sys.argv[1])
def ask(method, path, value=None):
    sluiced.request(method, path, value and json.dumps(value))
    return json.loads(sluiced.getresponse().read())
message = {"org": "acme", "type": "a", "payload": 1}
ask("GET", "/v1/webhooks/endpoints?org=acme")
subprocess.check_call(["prlimit", "--pid", sys.argv[2], "--nofile=4:"])
made = "/v1/webhooks/messages/" + ask("POST", "/v1/webhooks/messages", message)["id"]
end = time.monotonic() + 2
while time.monotonic() < end and not ask("GET", made)["attempts"]:
    time.sleep(0.05)
subprocess.check_call(["prlimit", "--pid", sys.argv[2], "--nofile=1024:"])
print(made)
EOT
start -c hooks.yaml --threads 1 --store memory: --journal none \
    --usage sqlite:./hooks.db
ask /v1/webhooks/endpoints -d "{\"org\":\"acme\",\"url\":\"$dest/ok\"}"
check 'an endpoint' answers 201
run timeout 100 python3 send.py "$http" "$pid"
check 'a message while no connection can be opened' has "$out" /msg_
message=$out
is_delivered() {
    ask "$message"
    has "$out" '"state":"delivered"'
}
check 'arrives when one can' until_ is_delivered
ask '/v1/webhooks/attempts?org=acme&result=failed'
check 'and no attempt has failed' has "$out" '"attempts":[]'
stop
finish
