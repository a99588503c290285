#!/usr/bin/env bash
# systemd.sh -- what systemd is told, what it hands over, and its unit.

# shellcheck source=test/support/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"

listen() {
    rm -f heard
    python3 "$here/hear.py" "$1" heard &
    hearer=$!
    running+=("$hearer")
    until_ grep -qs hearing heard
}

heard() {
    grep -qF -- "$1" heard
}

# ---- notify ----

policy p.yaml 3/3000d
listen "$folder/notify"
export NOTIFY_SOCKET=$folder/notify WATCHDOG_USEC=200000
start -c p.yaml
until_ heard READY=1
check 'it says when it is ready' heard $'READY=1'
check 'and what it does' heard 'STATUS=Serving p.yaml'
until_ heard WATCHDOG=1
check 'it feeds the watchdog' heard WATCHDOG=1
policy p.yaml 4/3000d
kill -HUP "$pid"
until_ heard MONOTONIC_USEC=
until_ said '3/3000d -> 4/3000d'
check 'it says that it reloads' heard RELOADING=1
check 'and when' grep -Eq '^MONOTONIC_USEC=[0-9]+$' heard
ready_again() {
    [[ $(grep -c '^READY=1' heard) -ge 2 ]]
}
check 'and that it has' until_ ready_again
echo 'limits: [' >>p.yaml
kill -HUP "$pid"
until_ heard 'Policy refused'
check 'or that it has not' heard 'Policy refused (line '
stop
check 'it says that it stops' heard STOPPING=1
kill -9 "$hearer" 2>/dev/null

policy p.yaml 3/3000d
listen "@sluiced-$$"
NOTIFY_SOCKET=@sluiced-$$ start -c p.yaml
until_ heard READY=1
check 'also by an abstract name' heard READY=1
stop
kill -9 "$hearer" 2>/dev/null
unset NOTIFY_SOCKET WATCHDOG_USEC

# ---- sockets that are handed over ----

launch python3 "$here/hand.py" http:admin "$sluiced" -c p.yaml \
    --log-format json --threads 2
started
check 'both sockets are taken' test -n "$http" -a -n "$admin"
auth ann
check 'and served' answers 200
tell /readyz
check 'each as what it is' answers 200
stop
launch python3 "$here/hand.py" http:gopher "$sluiced" -c p.yaml
until_ gone "$pid"
stop
check 'one of another name is refused' has "$err" 'FileDescriptorName=http'

# ---- the unit ----

units=$root/ops/systemd
if command -v systemd-analyze >/dev/null; then
    mkdir units
    sed "s|@sbindir@/sluiced|$sluiced|; s|@bindir@/sluice|$sluice|
        s|@policy@|$folder/p.yaml|; s|@environment@|/etc/sluice/sluiced.env|
        s|@configuration@|ConfigurationDirectory=sluice|" \
        "$units/sluiced.service.in" >units/sluiced.service
    cp "$units/sluiced.socket" units/
    run systemd-analyze verify --man=no units/sluiced.service \
        units/sluiced.socket
    check 'systemd understands the units' test -z "$(grep -F sluiced <<<"$err")"
    run systemd-analyze security --offline=true units/sluiced.service
    level=$(sed -n 's/.*exposure level.*: \([0-9.]*\).*/\1/p' <<<"$out")
    check "and finds them hardened (${level:-?})" \
        awk -v level="${level:-9}" 'BEGIN { exit !(level <= 1.5) }'
else
    number=$((number + 2))
    echo "ok $((number - 1)) - systemd understands the units # SKIP no systemd"
    echo "ok $number - and finds them hardened # SKIP no systemd"
fi

finish
