#!/usr/bin/env bash
# audit.sh -- every change is recorded: who, when, from where, what and why.

# shellcheck source=test/support/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"

cat >p.yaml <<'EOT'
sluice: 1
plans: { default: free, free: {}, pro: {} }
limits:
  minutes: { kind: quota, per: org, rate: { free: 10/month, pro: 100/month } }
  words: { kind: quota, per: user, rate: 10/month }
routes:
  - { job: transcribe, limits: [minutes], feature: speech }
  - { job: write, limits: [words] }
features: { speech: { enabled: true } }
EOT

start_virtual -c p.yaml --threads 1 --store memory: --usage sqlite:./a.db
clock 2026-11-15T12:00:00Z

# last WANT: the newest row of the audit has this.
last() {
    tell '/v1/audit?limit=1'
    has "$out" "$1"
}

tell /v1/subjects/org/acme -X PUT -d '{"plan":"pro"}' -H 'X-Sluice-By: eve' -H 'X-Sluice-Note: ticket 7'
check 'a subject' last '"by":"eve","origin":"admin 127.0.0.1","what":"create","scope":"org","id":"acme","note":"ticket 7","before":null,"after":{"scope":"org"'
check 'with the time' last '"at":"2026-11-15T12:00:00.000Z"'
tell /v1/features/speech -X PUT -d '{"enabled":false}' -H 'X-Sluice-By: eve'
check 'a feature' last '"by":"eve","origin":"admin 127.0.0.1","what":"feature","scope":"feature","id":"speech","note":"","before":{"enabled":true},"after":{"enabled":false}'
tell /v1/features/speech -X DELETE
check 'a feature that is left to the policy' last '"by":"admin","origin":"admin 127.0.0.1","what":"feature"'
tell /v1/credits/org/acme -d '{"limit":"minutes","amount":5,"note":"outage"}'
check 'a credit' last '"what":"credit","scope":"org","id":"acme","note":"outage","before":null,"after":{"limit":"minutes","amount":5}'
tell /v1/credits/org/acme/1 -X DELETE
check 'a credit that is removed' last '"what":"credit removed","scope":"org","id":"acme","note":"","before":{"number":1},"after":null'
tell /v1/credits/org/acme/99 -X DELETE
check 'what was refused is not there' last '"before":{"number":1}'
report '{"org":"acme","limit":"minutes","amount":7}'
tell /v1/keys/minutes/acme -X DELETE -H 'X-Sluice-By: ops'
check 'a reset' until_ last '"by":"ops","origin":"admin 127.0.0.1","what":"reset","scope":"org","id":"acme","note":"","before":{"limit":"minutes"}'
tell /v1/policy --data-binary @p.yaml -H 'X-Sluice-By: cd'
check 'a policy' until_ last '"by":"cd","origin":"admin 127.0.0.1","what":"policy"'
kill -HUP "$pid"
check 'a policy that was read again' until_ last '"by":"sluiced","origin":"signal","what":"policy"'
tell /v1/subjects/org/acme -X DELETE
check 'a subject that is removed' last '"what":"remove","scope":"org","id":"acme"'

# ---- by the commands ----

# cli WORD...: a command that changes the daemon.
cli() {
    run env USER=joe SUDO_USER= "$sluice" "$@" --admin-url "http://$admin"
}
cli subject set org acme plan=pro note='ticket 8'
check 'the note of subject set' last '"by":"joe","origin":"admin 127.0.0.1","what":"create","scope":"org","id":"acme","note":"ticket 8"'
cli subject set org acme plan=free note='Prüfung' --by eve
check 'with its author' last '"by":"eve","origin":"admin 127.0.0.1","what":"change","scope":"org","id":"acme","note":"Prüfung"'
cli subject rm org acme note='ticket 9'
check 'the note of subject rm' last '"by":"joe","origin":"admin 127.0.0.1","what":"remove","scope":"org","id":"acme","note":"ticket 9"'
printf 'scope,id,plan\norg,acme,pro\norg,beta,pro\n' >subjects.csv
cli subject import subjects.csv note='moved in' --by eve
check 'the note of subject import' last '"by":"eve","origin":"admin 127.0.0.1","what":"create","scope":"org","id":"beta","note":"moved in"'
cli reset minutes acme note='ticket 10'
check 'the note of reset' until_ last '"by":"joe","origin":"admin 127.0.0.1","what":"reset","scope":"org","id":"acme","note":"ticket 10"'
cli reset note=why
check 'a note is not a limit' is 2
cli subject rm org note=why
check 'nor an id' is 2
cli subject import note=why
check 'nor a file' is 2
cli reset minutes acme note=$'two\nlines'
check 'a note is one line' is 2
check 'and says so' has "$err" 'note= must be one line of text'
cli reset minutes acme note="$(printf '%0513d' 0)"
check 'of a bounded length' is 2

# ---- pages ----

tell '/v1/audit?limit=2'
page=$(grep -o '"number":[0-9]*' <<<"$out" | tail -n 1)
tell "/v1/audit?limit=1&before=${page#*:}"
check 'the next page begins behind it' has "$out" "\"number\":$((${page#*:} - 1)),"
clock 2026-11-16T12:00:00Z
tell '/v1/audit?since=2026-11-16'
check 'nothing since' [ "$out" = '{"audit":[]}' ]
for bad in since=soon limit=0 before=x who=me; do
    tell "/v1/audit?$bad"
    check "$bad is refused" answers 400
done
run "$sluice" audit --admin-url "http://$admin" --limit 3
check 'and by the command' has "$out" 'number'
check 'with its rows' has "$out" 'admin 127.0.0.1'
ask /v1/audit
check 'the http listener has none' answers 404

# ---- the log has no users ----

cli subject set user ann@corp plan=pro aliases=ann-alias words=20/month
tell /v1/credits/user/ann@corp -d '{"limit":"words","amount":1}'
report '{"user":"ann@corp","limit":"words","amount":17}'
check 'the log has the threshold' until_ said '"event":"usage","limit":"words","scope":"user","reached":"80%"'
ask /v1/check -d '{"job":"write","user":"ann@corp","cost":9}'
ask /v1/check -d '{"job":"write","user":"ann@corp","cost":1,"hold":"1m"}'
tell /v1/keys/words/ann@corp -X DELETE
tell /v1/keys/words/ann@corp -X DELETE -H 'X-Sluice-Note: \001'
printf 'scope,id,plan\nuser,ann@corp,pro\nuser,ann@corp2,none\n' >bad.csv
cli subject import bad.csv
check 'and a refusal goes to the client' is 1
cli subject rm user ann@corp
tell '/v1/audit?limit=1'
check 'the audit has the user' has "$out" ann@corp
lacks_user() {
    ! grep -qi ann "$log"
}
check 'without the user' lacks_user

# ---- without a database ----

stop
check 'it ends' is 0
start -c p.yaml --threads 1 --store memory: --usage none
tell /v1/features/speech -X PUT -d '{"enabled":false}' -H 'X-Sluice-By: eve'
check 'without a database there is the log' until_ said '"event":"audit","what":"feature","by":"eve","origin":"admin 127.0.0.1"'
tell /v1/audit
check 'and no list' answers 501
stop
finish
