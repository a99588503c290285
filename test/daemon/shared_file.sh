#!/usr/bin/env bash
# shared_file.sh SLUICED SLUICED-TEST SLUICE -- an SQLite file that daemons
# share, while a process that has locked it is stopped.

# shellcheck source=test/support/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"

cat >p.yaml <<'EOT'
sluice: 1
limits: { minutes: { kind: quota, per: org, rate: 1000000/month } }
routes: [{ job: transcribe, limits: [minutes] }]
default: []
EOT
start -c p.yaml --threads 1 --store memory: --usage 'sqlite:./u.db?shared' \
    --journal none
reports() {
    report '{"org":"acme","limit":"minutes","amount":1}'
    answers 200
}
check 'usage is reported' reports

# A process that is stopped within a transaction.
background "$folder/holder" python3 -c 'import os, signal, sqlite3
db = sqlite3.connect("u.db", isolation_level=None)
db.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
os.kill(os.getpid(), signal.SIGSTOP)
db.execute("ROLLBACK")'
holder=$client
until_ grep -q locked "$folder/holder"

# Ten reports wait behind each other. A machine that is slow has some attempts.
soon_refused() {
    local try began i

    for ((try = 0; try < 5; try++)); do
        began=${EPOCHREALTIME/./}
        for ((i = 0; i < 10; i++)); do
            ! reports || return 1
        done
        (((${EPOCHREALTIME/./} - began) > 4000000)) || return 0
    done
    return 1
}
check 'ten reports are refused within four seconds' soon_refused
check 'with 503' answers 503
check 'and the process that has it is named' \
    has "$out" "is locked by process $holder; if it is stopped"
kill -CONT "$holder"
check 'when it goes on, so does the daemon' until_ reports
kill -9 "$holder" 2>/dev/null
stop
check 'it ends as asked' is 0

# A process that is stopped while it commits: the file cannot be read, either.
background "$folder/second" python3 -c 'import os, signal, sqlite3
db = sqlite3.connect("u.db", isolation_level=None)
db.execute("BEGIN EXCLUSIVE")
print("locked", flush=True)
os.kill(os.getpid(), signal.SIGSTOP)'
holder=$client
until_ grep -q locked "$folder/second"
start -c p.yaml --store memory: --usage 'sqlite:./u.db?shared' --journal none
check 'a daemon starts without the file meanwhile' said '"event":"serving"'
check 'and names the process, too' \
    said "is locked by process $holder; if it is stopped"
check 'without a journal it refuses reports' eval '! reports'
check 'with 503' answers 503
kill -9 "$holder" 2>/dev/null
check 'when the process has ended, it reads the file' until_ reports
check 'and logs it' said 'database reached'
stop

# A daemon that does not share the file keeps it.
start -c p.yaml --store memory: --usage sqlite:./alone.db --journal none
check 'a daemon has a file for itself' reports
first=$pid
start -c p.yaml --store memory: --usage 'sqlite:./alone.db?shared' \
    --journal none
check 'another that would share it ends' is 5
check 'and names the first' has "$err" "process $first uses the registry"
kill -STOP "$first"
start -c p.yaml --store memory: --usage 'sqlite:./alone.db?shared' \
    --journal none
check 'while the first is stopped, it serves without the file' \
    said 'starting without it'
kill -9 "$first"
check 'and reads it when the first has ended' until_ reports
stop
finish
