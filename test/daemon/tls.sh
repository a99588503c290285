#!/usr/bin/env bash
# tls.sh -- certificates, theirs and ours, and new ones while it runs.

# shellcheck source=test/support/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"

# authority NAME; certificate NAME AUTHORITY
authority() {
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes \
        -days 2 -subj "/CN=$1" -keyout "$1.key" -out "$1.pem" 2>/dev/null
}

certificate() {
    openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes \
        -subj "/CN=$1" -keyout "$1.key" -out "$1.csr" 2>/dev/null
    openssl x509 -req -in "$1.csr" -CA "$2.pem" -CAkey "$2.key" \
        -CAcreateserial -days 2 -out "$1.pem" \
        -extfile <(echo 'subjectAltName=IP:127.0.0.1,DNS:localhost') 2>/dev/null
}

authority ours
authority theirs
certificate one ours
certificate two ours
certificate client theirs
certificate stranger ours

serial() {
    openssl x509 -noout -subject -in <(openssl s_client -connect "$1" \
        </dev/null 2>/dev/null) 2>/dev/null
}

shows() {
    [[ $(serial "$http") == *"$1"* ]]
}

body='{"path":"/x","user":"ann"}'

# ---- ours ----

cp one.pem c.pem && cp one.key c.key
policy p.yaml 9/3000d 'server: { tls: { certificate: ./c.pem, key: ./c.key } }'
start -c p.yaml
fetch --cacert ours.pem "https://$http/v1/check" -d "$body"
check 'over TLS' answers 200
fetch --cacert ours.pem "https://$admin/readyz"
check 'the admin listener too' answers 200
fetch "http://$http/v1/check" -d "$body"
check 'and not without' test "$code" != 200
fetch --cacert ours.pem --tls-max 1.1 "https://$http/v1/check" -d "$body"
check 'nor with what is older than 1.2' test "$status" != 0
check 'it shows its certificate' shows one

cp two.key c.key && cp two.pem c.pem
until_ shows two
check 'a new one is shown when the files change' shows two
cp one.pem c.pem
kill -HUP "$pid"
until_ said 'certificates refused'
check 'one that does not belong to its key is refused' said 'policy refused'
check 'and the old one stays' shows two
fetch --cacert ours.pem "https://$http/v1/check" -d "$body"
check 'and is served' answers 200
good() {
    fetch --cacert ours.pem "https://$admin/metrics"
    has "$out" "sluice_config_last_reload_successful $1"
}
check 'which metrics show' good 0
cp one.key c.key
kill -HUP "$pid"
until_ shows one
check 'HUP reads them again' shows one
check 'and all is well' good 1

# The commands of sluice speak TLS, and verify the name and the CA.
run "$sluice" take GET\ /x user=eve --url "https://$http" --ca ours.pem
check 'sluice --ca' test "$status$err" = 0
SLUICE_CA=ours.pem run "$sluice" top --admin-url "https://$admin"
check 'SLUICE_CA, for the admin listener' has "$out" ' allowed; by denied'
run "$sluice" take GET\ /x user=eve --url "https://$http" --ca theirs.pem
check 'another CA is refused' is 4
check 'and the flag named' has "$err" 'its certificate is not accepted: '
check 'with what to do' has "$err" '--ca FILE'
run "$sluice" take GET\ /x user=eve --url "https://127.0.0.2:${http##*:}" \
    --ca ours.pem
check 'so is another name' is 4
run "$sluice" take GET\ /x user=eve --url "https://$http" --ca nowhere.pem
check 'a CA file that is not there is named' has "$err" nowhere.pem
stop
check 'no key is in the log' test "${err/PRIVATE/}" = "$err"

# ---- theirs ----

start --tls-certificate one.pem --tls-key one.key --tls-client-ca theirs.pem \
    --threads 1
curl=(--cacert ours.pem "https://$http/v1/check" -d "$body")
fetch "${curl[@]}" --cert client.pem --key client.key
check 'a client with a certificate' answers 200
fetch "${curl[@]}"
check 'one without' test "$code" != 200
fetch "${curl[@]}" --cert stranger.pem --key stranger.key
check 'one with another' test "$code" != 200
fetch --cacert ours.pem "https://$admin/metrics"
check 'metrics are for all' answers 200
stop

# Whether clients need a certificate does not change before a restart.
ask_for() {
    policy q.yaml 9/3000d "server: { access_token: \"t0ken\", tls: { certificate: \
      ./one.pem, key: ./one.key$1 } }"
}
ask_for ''
start -c q.yaml --store memory: --watch off
curl=(--cacert ours.pem "https://$http/v1/check" -d "$body"
    -H 'Authorization: Bearer t0ken')
ask_for ', client_ca: ./theirs.pem'
kill -HUP "$pid"
until_ said 'needs a restart'
check 'to ask clients for theirs needs a restart' \
    said 'server.tls.client_ca none -> theirs.pem; needs a restart'
fetch "${curl[@]}"
check 'until then the token is enough' answers 200
stop
start -c q.yaml --store memory: --watch off
curl=(--cacert ours.pem "https://$http/v1/check" -d "$body")
ask_for ''
kill -HUP "$pid"
until_ said 'needs a restart'
fetch "${curl[@]}" --cert client.pem --key client.key
check 'and so does to cease to ask' answers 200
stop

policy r.yaml 9/3000d
start -c r.yaml
run "$sluice" take GET\ /x user=eve --url "https://$http" --ca ours.pem
check 'a listener without TLS' test "$status" = 4
check 'says so' has "$err" 'no TLS handshake'
stop

run "$sluiced" --tls-certificate one.pem --tls-key two.key \
    --listen-http 127.0.0.1:0 --listen-admin 127.0.0.1:0
check 'a key of another certificate keeps it from starting' is 1
check 'and is named' has "$err" two.key

finish
