#!/usr/bin/env bash
# import.sh -- usage is set from a file: all lines or none, and the same file
# twice is the same state.

# shellcheck source=test/support/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"

cat >p.yaml <<'EOF'
sluice: 1
plans: { default: free, free: {}, pro: { overage: true } }
limits:
  minutes:
    kind: quota
    per: org
    unit: minutes
    rate: { free: 120/month, pro: 1200/month }
  words: { kind: quota, per: [org, user], rate: 10/day, zone: America/New_York }
  links: { kind: level, per: org, rate: 3 }
  search: { kind: token-bucket, per: org, rate: 5/s }
routes:
  - { job: transcribe, limits: [minutes] }
  - { job: share, limits: [links] }
  - { job: write, limits: [words] }
  - { job: search, limits: [search] }
EOF

start_virtual -c p.yaml --threads 1 --store memory: --usage "sqlite:./u.db${4-}"
clock 2026-11-15T12:00:00Z

# import FILE WORD...: by the command.
import() {
    run env USER=joe SUDO_USER= "$sluice" usage import "$@" \
        --admin-url "http://$admin"
}

export_() {
    run "$sluice" usage export --url "http://$http" "$@"
}

# used ORG LIMIT COUNT: of the present period.
used() {
    ask "/v1/usage/org/$1?limit=$2&days=0"
    has "$out" "\"used\":$3,"
}

job() {
    ask /v1/check -d "{\"job\":\"$1\",\"org\":\"$2\",\"user\":\"ann\",\"cost\":$3}"
}

# ---- what an import sets ----

cat >one.ndjson <<'EOF'
{"org":"acme","limit":"minutes","used":100}
{"org":"beta","limit":"minutes","used":120}

{"org":"acme","user":"ann","limit":"words","used":7}
{"org":"acme","limit":"links","used":2}
EOF
import one.ndjson --dry-run
check 'a dry run says what would change' [ "$out" = 'checked 4 rows, 4 of them changed by an import' ]
check 'and changes nothing' used acme minutes 0
import one.ndjson note='moved in'
check 'an import sets the usage' [ "$out" = 'imported 4 rows, 4 of them changed' ]
check 'which is shown' used acme minutes 100
job transcribe acme 20
check 'decisions count on from there' has "$out" '"remaining":0,'
check 'and pass' has "$out" '"allowed":true'
job transcribe beta 1
check 'a quota that is used up refuses' has "$out" '"allowed":false'
job write acme 4
check 'also per user' has "$out" '"allowed":false'
job share acme 1
check 'a level' has "$out" '"remaining":0,'
tell '/v1/audit?limit=1'
check 'it is recorded' has "$out" '"by":"joe","origin":"admin 127.0.0.1","what":"usage import","scope":"org","id":"acme","note":"moved in","before":{"limit":"links","used":0},"after":{"limit":"links","used":2}'

# ---- the same file again ----

printf 'org,limit,used\nacme,minutes,100\nbeta,minutes,120\n' >one.csv
import one.csv
check 'the value of the file counts, not usage since' [ "$out" = 'imported 2 rows, 1 of them changed' ]
import one.csv -o json
check 'the same file twice is the same state' [ "$out" = '{"imported":2,"changed":0,"skipped":0,"dry_run":false}' ]
job transcribe acme 21
check 'for decisions, too' has "$out" '"allowed":false'
job transcribe acme 20
check 'to the unit' has "$out" '"allowed":true'
tell '/v1/audit?limit=1'
check 'a row without a change is not recorded' has "$out" '"before":{"limit":"minutes","used":120},"after":{"limit":"minutes","used":100}'

# ---- an export is an import ----

report '{"org":"=1+1","limit":"minutes","amount":3}'
report '{"org":"a,\"b\"","limit":"minutes","amount":4}'
for form in ndjson csv; do
    export_ --format "$form"
    printf '%s\n' "$out" >all
    before=$out
    import all
    check "an export in $form changes nothing" has "$out" ' rows, 0 of them changed'
    export_ --format "$form"
    check 'and stays as it was' [ "$out" = "$before" ]
done
clock 2026-11-17T12:00:00Z
"$sluice" usage export --url "http://$http" |
    sed 's/"used":[0-9]*/"used":9/' >all
import all
check 'periods that have ended are skipped' [ "$out" = 'imported 4 rows, 4 of them changed; skipped 1 rows of periods that have ended' ]
check 'the present ones are set' used acme minutes 9
job transcribe acme 111
check 'also to less' has "$out" '"allowed":true'
ask '/v1/usage/export?from=2026-11-15&to=2026-11-16'
check 'the past stays' has "$out" '"limit":"words","unit":"","included":10,"used":7,'

# ---- overage ----

run "$sluice" subject set org rich plan=pro --admin-url "http://$admin"
echo '{"org":"rich","limit":"minutes","used":1500}' >over
import over
ask '/v1/usage/export?from=2026-11-01&to=2026-12-01'
check 'usage beyond the plan is overage' has "$out" '"org":"rich","user":null,"plan":"pro","limit":"minutes","unit":"minutes","included":1200,"used":1500,"overage":300,'

# ---- files that are refused ----

# bad TEXT SENTENCE: as the third line.
bad() {
    printf '{"org":"acme","limit":"minutes","used":55}\n\n%s\n' "$1" >bad
    import bad
    check "$1 is refused" is 1
    check 'with the line' has "$err" 'bad:3: '
    check 'with the reason' has "$err" "$2"
    check 'and that nothing was imported' has "$err" '(nothing was imported)'
}
bad '{"org":"acme","limit":"minuts","used":1}' 'the policy has no limit "minuts"; did you mean "minutes"?'
bad '{"org":"acme","limit":"minutes"}' '"used" is missing'
bad '{"org":"acme","limit":"minutes","used":null}' '"used" is missing'
bad '{"org":"acme","limit":"minutes","used":-1}' '"used"'
bad '{"org":"acme","limit":"minutes","used":1.5}' '"used"'
bad '{"limit":"minutes","used":1}' 'limit "minutes" is per org: add "org"'
bad '{"org":"acme","limit":"search","used":1}' 'usage is imported for quotas and levels'
bad '{"org":"acme","limit":"minutes","used":1,"unit":"hours"}' 'has the unit "minutes", not "hours"'
bad '{"org":"acme","limit":"minutes","used":1,"from":"2026-12-01T00:00:00Z"}' 'the present period began at 2026-11-01T00:00:00Z'
bad '{"org":"acme","limit":"links","used":1,"from":"2026-11-01T00:00:00Z"}' 'the limit has no periods'
bad '{"org":"acme","limit":"minutes","used":1,"from":"today"}' 'must be the start of a period'
bad '{"org":"acme","limit":"minutes","uesd":1}' 'unknown member "uesd"'
bad '{"org":"acme",' 'not JSON'
check 'nothing of them was written' used acme minutes 120
for one in 'org,limit,used,what|unknown column "what"' 'org,org,limit,used|is there twice' \
    'org,limit|"used" is missing'; do
    printf '%s\nacme,minutes\n' "${one%%|*}" >bad
    import bad
    check "${one%%|*} is refused" has "$err" "${one##*|}"
done
for ((i = 0; i < 700; i++)); do
    echo "{\"org\":\"many$i\",\"limit\":\"minutes\",\"used\":$i}"
done >many
echo '{"org":"late","limit":"minutes","used":"x"}' >>many
import many
check 'a line of a later batch' has "$err" 'many:701: '
check 'stops those before it' used many7 minutes 0
sed -i '$d' many
import many
check 'a long file is imported' [ "$out" = 'imported 700 rows, 699 of them changed' ]
check 'to its end' used many699 minutes 699
import missing.csv
check 'a file that is not there' is 1
import note=why
check 'a note is no file' is 2
: >empty
import empty
check 'an empty file' has "$err" 'empty is empty'
tell '/v1/usage/import?dry_run=maybe' -d '{}'
check 'dry_run is true or false' answers 400
ask /v1/usage/import -d '{"org":"acme","limit":"minutes","used":1}'
check 'the http listener imports nothing' answers 405

# ---- after a restart ----

stop
check 'it ends' is 0
past_midnight # the month is a real one
start -c p.yaml --threads 2 --store memory: --usage "sqlite:./v.db${4-}"
printf 'org,limit,used\nacme,minutes,119\n' >one.csv
import one.csv
stop
start -c p.yaml --threads 2 --store memory: --usage "sqlite:./v.db${4-}"
check 'the usage is still there' used acme minutes 119
job transcribe acme 2
check 'and decided by' has "$out" '"allowed":false'
job transcribe acme 1
check 'to the unit' has "$out" '"allowed":true'
stop
finish
