#!/usr/bin/env bash
# webhooks_names.sh -- webhooks to names whose addresses change: a scripted DNS
# server answers with a public address first, with an inner one later, or with
# both. What is connected to is judged, so nothing reaches the inner one.
#
# It runs in a network of its own, where the public address is that of loopback,
# and the destination listens on all of them.
#
# shellcheck disable=SC2016 # conditions are evaluated later

if [[ -z ${SLUICE_TEST_INSIDE-} ]]; then
    if ! unshare -rmn true 2>/dev/null; then
        echo "1..0 # SKIP a network of one's own can't be had here"
        exit 0
    fi
    exec unshare -rmn env SLUICE_TEST_INSIDE=1 bash "$0" "$@"
fi

# shellcheck source=test/support/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"

public=93.184.216.34
ip link set lo up
ip addr add "$public/32" dev lo
echo 'nameserver 127.0.0.1' >resolv.conf
mount --bind resolv.conf /etc/resolv.conf
cat >names <<EOF
public.test $public
rebind.test $public 127.0.0.1
loop.test 127.0.0.1
mixed.test 127.0.0.1,10.0.0.1
later.test 127.0.0.1 $public
meta.test 169.254.169.254
mapped.test ::ffff:127.0.0.1
six.test ::1
inner.test 127.0.0.1
EOF
background names.out python3 "$here/names.py" names asked
until_ grep -q ready asked
background dest.log python3 "$here/destination.py" port hits 0.0.0.0 80
until_ test -s port
: >>hits
cat >p.yaml <<EOF
sluice: 1
limits: { any: { kind: fixed-window, per: user, rate: 1/s } }
default: [any]
webhooks: { destination: unlimited, insecure: true }
EOF
# allow NETWORK: of the policy, from now on.
allow() {
    sed -i "s|unlimited.*|unlimited, insecure: true, allow: [$1] }|" p.yaml
    tell /v1/policy -X POST
}
begin() {
    start -c p.yaml --threads 1 --store memory: --usage sqlite:./books.db
}

# send NAME: leaves $message.
send() {
    ask /v1/webhooks/messages -d "{\"org\":\"$1\",\"type\":\"a\",\"payload\":\"$1\"}"
    message=$(member id)
    message=${message//\"/}
}

# tried MESSAGE: an attempt is in its log.
tried() {
    ask "/v1/webhooks/messages/$1"
    has "$out" '"attempt":1'
}

hits() {
    grep -cF "\\\"$1\\\"" hits
}

begin
check 'a daemon' alive "$pid"
for name in public rebind loop mixed later meta mapped six; do
    ask /v1/webhooks/endpoints -d "{\"org\":\"$name\",\"url\":\"http://$name.test/$name\"}"
done
check 'names are accepted: their addresses are judged when they are called' answers 201
send public
check 'a public address gets its webhook' until_ eval '[[ $(hits public) = 1 ]]'
send rebind
check 'and so does a name that has one first' until_ eval '[[ $(hits rebind) = 1 ]]'
for name in loop mixed later meta mapped six; do
    send "$name"
    check "$name is not called" until_ tried "$message"
    check 'with the reason' has "$out" 'webhooks are not sent there'
done
check 'they were looked up' has "$(<asked)" "later.test 1 ['127.0.0.1']"
stop
begin # it has forgotten names and connections
send rebind
check 'later it has an inner address, and is not called' until_ tried "$message"
check 'with the reason' has "$out" '127.0.0.1 is loopback'
check 'the name was looked up twice' has "$(<asked)" "rebind.test 1 ['127.0.0.1']"
send later
check 'an address that becomes public is called' until_ eval '[[ $(hits later) -ge 1 ]]'
check 'nothing else arrived' eval '! grep -qE "\"/(loop|mixed|meta|mapped|six)\"" hits'
allow 127.0.0.0/8
ask /v1/webhooks/endpoints -d '{"org":"inner","url":"http://inner.test/inner"}'
send inner
check 'an inner address that is allowed is called' until_ tried "$message"
check 'and answers' until_ eval '[[ $(hits inner) = 1 ]]'
allow 10.0.0.0/8
send inner
check 'an open connection to it is not used when it is no longer allowed' until_ tried "$message"
check 'with the reason' has "$out" '127.0.0.1 is loopback'
check 'nothing more arrived' eval '[[ $(hits inner) = 1 ]]'
stop
check 'the daemon ends' is 0
finish
