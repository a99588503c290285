#!/usr/bin/env bash
# journal.sh -- usage that is not in the database yet survives kill -9: the
# table, the database and what was acknowledged agree afterwards.

# shellcheck source=test/support/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"

cat >p.yaml <<'EOT'
sluice: 1
limits:
  minutes: { kind: quota, per: org, rate: 1000000/month, deny: { status: 402 } }
  free: { kind: quota, per: org, rate: 1000000/month, on_store_failure: allow }
routes:
  - { job: transcribe, limits: [minutes] }
  - { job: pass, limits: [free] }
default: []
EOT
past_midnight

begin() {
    start -c p.yaml --threads 2 --store memory:./state --usage sqlite:./u.db
}

# `used` is of the table, the days are of the database.
in_table() {
    ask "/v1/usage/org/acme?limit=minutes"
    sed -n 's/.*"used":\([0-9]*\),"limit".*/\1/p' <<<"$out"
}

in_days() {
    ask "/v1/usage/org/acme?limit=minutes"
    sed -n 's/.*"days":\[{"day":"[^"]*","used":\([0-9]*\),.*/\1/p' <<<"$out"
}

# hammer NAME: two clients in the background, whose counts are in NAME.1 and .2
hammer() {
    background "$1.1" python3 "$here/checks.py" "$http" /v1/check \
        '{"job":"transcribe","org":"acme","cost":3}'
    first=$client
    background "$1.2" python3 "$here/checks.py" "$http" /v1/check \
        '{"job":"transcribe","org":"acme"}'
    second=$client
}

some() {
    [[ $(in_table) -gt ${1-0} ]]
}

# ---- killed again and again ----

acknowledged=0 unknown=0 before=0
for round in 1 2 3 4; do
    begin
    hammer "counts$round"
    until_ some $((before + 200))
    before=$(in_table)
    end_by KILL
    wait "$first" "$second"
    for i in 1 2; do
        cost=$((i == 1 ? 3 : 1))
        read -r good lost <"counts$round.$i"
        acknowledged=$((acknowledged + good * cost))
        unknown=$((unknown + lost * cost))
    done
done
begin
table=$(in_table) days=$(in_days)
echo "# $acknowledged acknowledged, $unknown unknown, table $table, days $days"
check 'what was acknowledged is recorded' test "$days" -ge "$acknowledged"
check 'nothing is recorded twice' test "$days" -le $((acknowledged + unknown))
check 'the table and the database agree' test "$table" = "$days"
check 'no unit is lost' test "$(metric sluice_usage_lost_units_total)" = 0
none_pending() {
    [[ $(metric sluice_usage_journal_pending_units) = 0 ]]
}
check 'nothing is pending' until_ none_pending
check 'nor old' test "$(metric sluice_usage_journal_age_seconds)" = 0
stop

# ---- the table is ahead: it was killed between the count and the line ----

python3 - <<'EOT'
import sqlite3
db = sqlite3.connect("u.db")
db.executescript("UPDATE usage_counters SET used = used - 7;"
                 "UPDATE usage_days SET used = used - 7;")
db.close()
EOT
begin
check 'what only the table has is recorded' test "$(in_days)" = "$table"
check 'and logged' said '"units":"7"'
stop

# Usage of a later month: the clock was set back, and the table has what was
# used before that.
python3 - <<'EOT'
import sqlite3
db = sqlite3.connect("u.db")
db.executescript("UPDATE usage_counters SET used = used - 7;"
                 "UPDATE usage_days SET used = used - 7;"
                 "CREATE TABLE later AS SELECT * FROM usage_counters;"
                 "UPDATE later SET period_start = period_end, period_end = 0;"
                 "INSERT INTO usage_counters SELECT * FROM later;"
                 "DROP TABLE later;")
db.close()
EOT
begin
check 'what the clock has moved to this month is not recorded' \
    test "$(in_days)" = $((table - 7))
check 'and stays in the table' test "$(in_table)" = "$table"
end_by KILL

# ---- files ----

begin
run "$sluiced" -c p.yaml "${listeners[@]}" --store memory: --usage sqlite:./v.db \
    --journal ./state.usage
check 'a journal in use is refused' is 5
check 'with the reason' has "$err" 'another sluiced uses it'
end_by KILL
run "$sluiced" -c p.yaml "${listeners[@]}" --store memory: --usage sqlite:./v.db \
    --journal p.yaml
check 'a file of another kind is refused' is 5
check 'and named' has "$err" 'p.yaml: the file is not a usage journal'
# A limit on the size of files is like a full disk.
run bash -c 'ulimit -f 2048; exec "$@"' - "$sluiced" -c p.yaml \
    "${listeners[@]}" --store memory: --usage sqlite:./w.db --journal ./full
check 'without room on the disk it does not start' is 5
check 'and says what to do' has "$err" \
    'full: File too large; choose another file or size with --journal'
check 'nothing is left behind' test ! -e full

# ---- a database file that daemons share, and no state ----

# lock FILE: another program has the file until it is killed
lock() {
    rm -f locked
    background locked python3 -uc 'import sqlite3, sys, time
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("PRAGMA busy_timeout = 60000")
db.execute("BEGIN IMMEDIATE")
print("locked")
time.sleep(1000)' "$1"
    until_ grep -q locked locked
}

unlock() {
    kill "$client"
    wait "$client" || :
}

spends() {
    ask /v1/check -d '{"job":"transcribe","org":"acme"}'
    [[ $out = *'"status":200,'* ]] && spent=$((spent + 1))
}

all_recorded() {
    [[ $(in_days) = "$spent" ]]
}

# spends_locked FILE: one unit of a lease is used while the file is locked.
# Unused units go back after a second, which may pass on a busy machine: try
# again.
spends_locked() {
    until_ all_recorded && lock "$1" && spends && return
    unlock
    spends
    return 1
}

alone() {
    start -c p.yaml --threads 1 --store memory: --usage "$1" "${@:2}"
}

spent=0
alone 'sqlite:./s.db?shared'
check 'the first unit is leased, with three more' spends
check 'they are used while the file is locked' until_ spends_locked s.db
spends
spends
check 'nothing is at risk' test "$(metric sluice_usage_at_risk_units)" = 0
check 'the journal is beside the database' test -s s.db.usage
alone_pid=$pid
run timeout 20 "$sluiced" -c p.yaml "${listeners[@]}" --store memory: \
    --usage 'sqlite:./s.db?shared' --journal ./s.db.usage
check 'and locked' has "$err" 'another sluiced uses it'
kill -KILL "$alone_pid"
until_ gone "$alone_pid"
unlock
alone 'sqlite:./s.db?shared'
check 'after kill -9 all are recorded' until_ all_recorded
running_pid=$pid
alone 'sqlite:./s.db?shared'
check 'another daemon has a journal of its own' test -s s.db.usage.2
check 'no warning' test -z "$(grep 'usage journal in memory' "$log")"
kill "$running_pid"
until_ gone "$running_pid"
stop

# ---- in memory ----

spent=0
alone 'sqlite:./n.db?shared' --journal none
spends
check 'without a file decisions go on' until_ spends_locked n.db
check 'and what a kill would lose is shown' test \
    "$(metric sluice_usage_at_risk_units)" = 1
unlock
stop

# ---- settings ----

run "$sluiced" -c p.yaml --show-settings --journal '?size=1kB'
check 'a journal that is too small is refused' has "$err" \
    'between 1MiB and 16GiB, not 1kB'
finish
