#!/usr/bin/env bash
# end.sh -- how it ends, and what is remembered afterwards.

# shellcheck source=test/support/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"

# half N: N clients that have sent half of a request; sets $client.
half() {
    rm -f go answers connected
    background answers python3 "$here/slow.py" "$http" "$1" go
    until_ grep -qs ready answers
}

refuses() {
    local code=0

    curl -s --max-time 5 -o /dev/null "http://$http/v1/check" || code=$?
    ((code == 7)) # no connection
}

# ---- TERM ----

policy p.yaml 5/3000d
start -c p.yaml
half 4
kill -TERM "$pid"
until_ refuses
check 'TERM: new connections are refused' refuses
tell /readyz
check 'and readyz reports it' answers 503
tell /livez
check 'though it lives' answers 200
touch go
wait "$client"
check 'requests under way are finished, and the connection closed' \
    test "$(grep -c '^HTTP/1.1 200 OK close$' answers)" = 4
until_ gone "$pid"
stop
check 'then it ends as asked' is 0
check 'and logs it' said '"event":"stopped"'

# Each connection that was accepted gets an answer.
start -c p.yaml
background storm python3 "$here/storm.py" "$http"
until_ grep -qs asking storm
stop
wait "$client"
check "hardly a request is lost at the end ($(tail -n 1 storm))" \
    grep -Eq '^[0-2] lost of [1-9]' storm

# ---- impatience ----

start -c p.yaml --drain 300ms
half 1
stop
check 'requests that take too long are cut off' said '"event":"drain timeout: connections closed"'
check 'and it still ends as asked' is 0
start -c p.yaml --drain 1h
half 1
kill -TERM "$pid"
until_ said '"event":"stopping"'
stop
check 'a second TERM ends at once' is 0

# ---- what is remembered ----

rm -f sluice.state*
policy p.yaml 3/3000d
start -c p.yaml
for _ in 1 2 3; do auth ann; done
auth ann
check 'drained' answers 429
end_by KILL
check 'killed' is 137
start -c p.yaml
check 'a killed one leaves no lock' test -n "$http"
auth ann
check 'and hands out nothing' answers 429
auth bob
check 'to others it gives what is theirs' answers 200
stop
start -c p.yaml
auth ann
check 'nor does a restart' answers 429
stop
start -c p.yaml --memory 128MiB
check 'a larger table is not made by forgetting' said \
    '"event":"state file has grown; usage kept"'
check 'the file is larger' test "$(stat -c %s sluice.state)" = 134217728
check 'and the old one gone' test ! -e sluice.state.growing
auth ann
check 'nor does that' answers 429
stop
start -c p.yaml --memory 150MiB
check 'it grows to twice its size or not at all' said \
    '"event":"state file size unchanged"'
auth ann
check 'which forgets nothing either' answers 429
stop

# Under load: no client passes more often.
rm -f sluice.state*
policy p.yaml 200/3000d
start -c p.yaml
curl -s --max-time 10 -o /dev/null -w '%{http_code}\n' \
    "http://$http/v1/auth#[1-400]" -H 'X-Original-URI: /x' \
    -H 'X-User-Id: eve' >codes 2>/dev/null &
load=$!
until_ grep -q 200 codes
end_by KILL
wait "$load"
start -c p.yaml
curl -s --max-time 10 -o /dev/null -w '%{http_code}\n' \
    "http://$http/v1/auth#[1-400]" -H 'X-Original-URI: /x' \
    -H 'X-User-Id: eve' >>codes
passed=$(grep -c 200 codes)
check "kill -9 under load: at most 200 pass ($passed)" test "$passed" -le 200
check 'and hardly one less' test "$passed" -ge 190
stop

# ---- a damaged state ----

printf 'nonsense' | dd of=sluice.state bs=1 seek=8 conv=notrunc status=none
start -c p.yaml
check 'a damaged state is set aside' test -s sluice.state.damaged-1
check 'and that is told' said '"event":"state file damaged, moved aside"'
auth ann
check 'and it serves' answers 200
stop
head -c 1000 /dev/urandom >sluice.state
start -c p.yaml
check 'so is a file of something else' test -s sluice.state.damaged-2
stop

# ---- no place for it ----

rm -f sluice.state*
(
    ulimit -f 1024
    exec "$sluiced" -c p.yaml --listen-http 127.0.0.1:0 \
        --listen-admin 127.0.0.1:0
) >out 2>err
status=$? err=$(<err)
check 'no room on the disk is status 5' is 5
check 'and said with what to do' has "$err" 'in memory only with --store memory:'
rm -f sluice.state*
run "$sluiced" -c p.yaml --store memory:/nowhere/at/all
check 'no folder for it' is 5
check 'is named' has "$err" '/nowhere/at/all'
run "$sluiced" -c p.yaml --store memory:/proc/sluice.state
check 'nor one that can be written' is 5
run "$sluiced" -c p.yaml --store "memory:$PWD"
check 'a folder is no file' is 5

# A disk of its own, of 96 megabytes: there is room for the journal of usage and
# the memory of repeats. It goes away with the process.
on_small_disk() {
    launch unshare -rm bash -c 'mkdir -p disk && mount -t tmpfs -o size=96m \
        none disk && cp p.yaml disk && exec "$@"' - "$sluiced" \
        -c disk/p.yaml "${listeners[@]}" "$@"
    started
}
if unshare -rm true 2>unshared; then
    on_small_disk
    check 'a disk that is too small' is 5
    check 'is named, with what to do' has "$err" 'No space left on device'
    on_small_disk --memory 1MiB
    check 'a disk that is just large enough' test -n "$http"
    dd if=/dev/zero of="/proc/$pid/root$PWD/disk/fill" bs=4k status=none \
        2>/dev/null
    check 'and then full' test \
        "$(stat -f -c %f "/proc/$pid/root$PWD/disk")" = 0
    many=$(printf ',{"path":"/x","user":"u%d"}' {1..1000})
    ask /v1/check -d "[${many:1}]"
    check 'decisions go on' has "$out" '"remaining":199,'
    check 'for each of a thousand' \
        test "$(grep -o '"allowed":true,"status"' <<<"$out" | wc -l)" = 1000
    kill -HUP "$pid"
    until_ said '"event":"policy loaded"'
    check 'and reloads' said '"event":"policy loaded"'
    stop
    check 'and it ends as asked' is 0
else
    echo "# a disk of one's own can't be had here: $(<unshared)"
fi
: >sluice.state
start -c p.yaml
check 'what is left of an attempt is no damage' \
    test -n "$http" -a ! -e sluice.state.damaged-1
stop
rm -f sluice.state*
start -c p.yaml --store memory:
check 'without a file it needs none' test -n "$http"
stop
check 'and leaves none' test ! -e sluice.state

finish
