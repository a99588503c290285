#!/usr/bin/env bash
# export.sh -- bills: the export has what was reported and decided, as of one
# instant, in pages or in one answer, with little memory.

# shellcheck source=test/support/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"
many=${SLUICE_EXPORT_ROWS:-20000}

cat >p.yaml <<'EOT'
sluice: 1
plans: { default: free, free: {}, pro: { overage: true }, open: {} }
limits:
  minutes:
    kind: quota
    per: org
    unit: minutes
    rate: { free: 120/month, pro: 1200/month, open: unlimited }
  words: { kind: quota, per: [org, user], rate: 10/day, zone: America/New_York }
  links: { kind: level, per: org, rate: 3 }
  pages: { kind: quota, per: user, rate: 100/2week }
routes:
  - { job: transcribe, limits: [minutes] }
  - { job: share, limits: [links] }
  - { job: write, limits: [words] }
  - { job: print, limits: [pages] }
EOT

start_virtual -c p.yaml --threads 1 --store memory: --usage sqlite:./u.db
clock 2026-11-15T12:00:00Z

export_() {
    ask "/v1/usage/export?$1"
}

# row NAME...: the only row that has all of these, of the last answer.
row() {
    local text=$out one

    for one; do text=$(grep -F -- "$one" <<<"$text"); done
    out=$text
    [[ -n $text && $(wc -l <<<"$text") = 1 ]]
}

lacks() {
    ! has "$1" "$2"
}

event_id() {
    sed -n 's/^{"specversion":"1.0","id":"\([0-9a-f]*\)",.*/\1/p' <<<"$out"
}

# ---- rows ----

report '{"org":"acme","limit":"minutes","amount":100}'
ask /v1/check -d '{"job":"transcribe","org":"acme","cost":20}'
report '{"org":"acme","limit":"minutes","amount":30}'
report '{"org":"rich","plan":"open","limit":"minutes","amount":9}'
report '{"org":"acme","user":"ann:1","limit":"words","amount":3}'
report '{"user":"bob","limit":"pages","amount":4}'
report '{"org":"acme","limit":"links","name":"a"}'
export_ 'from=2026-11-01&to=2026-12-01'
check 'an export is NDJSON' has "$(field content-type)" application/x-ndjson
check 'as of a stated instant' [ "$(field sluice-as-of)" = 2026-11-15T12:00:00.000Z ]
check 'in chunks' [ "$(field transfer-encoding)" = chunked ]
all=$out
check 'with a row for each limit and period' [ "$(wc -l <<<"$out")" = 4 ]
check 'levels have no period' lacks "$out" links
row '"org":"acme"' '"limit":"minutes"'
check 'reports and decisions are in it' [ "$out" = '{"org":"acme","user":null,"plan":"free","limit":"minutes","unit":"minutes","included":120,"used":150,"overage":30,"credited":0,"from":"2026-11-01T00:00:00Z","to":"2026-12-01T00:00:00Z","zone":"UTC","period":"month","scope":"org","id":"acme","as_of":"2026-11-15T12:00:00.000Z","scale":1}' ]
out=$all
row '"org":"rich"'
check 'an unlimited plan includes all' has "$out" '"plan":"open","limit":"minutes","unit":"minutes","included":null,"used":9,"overage":0,'
out=$all
row '"limit":"words"'
check 'limits per user have both names' has "$out" '"org":"acme","user":"ann:1",'
check 'periods are in their zone' has "$out" '"from":"2026-11-15T05:00:00Z","to":"2026-11-16T05:00:00Z","zone":"America/New_York","period":"day"'
out=$all
row '"limit":"pages"'
check 'a user without an organisation has a row' has "$out" '"org":null,"user":"bob",'
check 'with a period of two weeks' has "$out" '"period":"2week"'

# ---- days ----

export_ 'from=2026-11-15&to=2026-11-16'
check 'a day has the periods that end with it' has "$out" '"limit":"words"'
check 'and no month' lacks "$out" '"limit":"minutes"'
export_ 'from=2026-11-16&to=2026-11-30'
check 'a month that ends later is not in it' lacks "$out" '"limit":"minutes"'
export_ 'from=2026-11-30&to=2026-12-01'
check 'its last day has it' has "$out" '"limit":"minutes"'
clock 2027-02-15T12:00:00Z
report '{"org":"acme","limit":"minutes","amount":7}'
export_ 'from=2026-11-01&to=2026-12-01'
check 'a past month stays' has "$out" '"limit":"minutes","unit":"minutes","included":120,"used":150,'
export_ ''
check 'without dates there is everything' [ "$(grep -c '"limit":"minutes"' <<<"$out")" = 3 ]
for one in 'from=2026-13-01|must be a date' 'from=yesterday|must be a date' \
    'from=|must be a date' 'to=|must be a date' 'from=2026-11-01&to|must be a date' \
    'from=2026-12-01&to=2026-12-01|it must be after' 'rows=0|from 1 to 1000' \
    'format=xml|ndjson, csv or cloudevents' 'cursor=7|is not the Sluice-Cursor' \
    'cursor=1/1/2/3/4/5/6/7&from=2026-11-01|has the dates' \
    'org=acme|"org"'; do
    export_ "${one%%|*}"
    check "${one%%|*} is refused" answers 400
    check 'with what to write' has "${out//\\/}" "${one##*|}"
done
export_ 'cursor=99/1/20000/3/4/minutes/org/acme'
check 'a cursor of no export is refused' answers 410
for flag in --from --to; do
    run "$sluice" usage export --url "http://$http" "$flag" ''
    check "an empty $flag is refused" is 2
    check 'without rows' [ "$out" = '' ]
    check 'with what to write' has "$err" 'must be a date like 2026-11-01'
done
fetch -I "http://$http/v1/usage/export"
check 'HEAD has no rows' answers 200

# ---- CSV and CloudEvents ----

report '{"org":"=HYPERLINK(1)","limit":"minutes","amount":1}'
report '{"org":"a,\"b\"","limit":"minutes","amount":1}'
export_ 'from=2027-02-01&to=2027-03-01&format=csv'
check 'CSV has a heading' has "$out" 'org,user,plan,limit,unit,included,used,overage,credited,from,to,zone,period,scope,id,as_of,scale'
check 'rows' has "$out" 'acme,,free,minutes,minutes,120,7,0,0,2027-02-01T00:00:00Z,2027-03-01T00:00:00Z,UTC,month,org,acme,'
check 'no formulas' has "$out" "
'=HYPERLINK(1),,free,"
check 'and quotes' has "$out" '"a,""b""",,free,'
export_ 'from=2027-02-01&to=2027-03-01&format=cloudevents'
row '"subject":"org/acme"'
check 'an event has what CloudEvents needs' has "$out" '"source":"/sluice/usage","type":"sluice.usage","subject":"org/acme","time":"2027-02-15T12:00:00.000Z","datacontenttype":"application/json","data":{"org":"acme",'
first=$(event_id)
export_ 'from=2027-02-01&to=2027-03-01&format=cloudevents'
row '"subject":"org/acme"'
check 'and the same id for the same instant' [ "$(event_id)" = "$first" ]
clock 2027-02-15T12:00:01Z
export_ 'from=2027-02-01&to=2027-03-01&format=cloudevents'
row '"subject":"org/acme"'
check 'and another id later' [ "$(event_id)" != "$first" ]

# ---- a refund on a later day ----

report '{"org":"later","limit":"minutes","amount":100}'
clock 2027-02-16T12:00:00Z
report '{"org":"later","limit":"minutes","amount":10}'
report '{"org":"later","limit":"minutes","amount":40,"release":true}'
ask '/v1/usage/org/later?limit=minutes'
check 'a refund leaves the rest' has "$out" '"used":70,"limit":120,'
check 'of the day before' has "$out" '"day":"2027-02-15","used":70,'
check 'nothing of this day' lacks "$out" '"day":"2027-02-16","used":1'
check 'and the rest of the month' has "$out" '"months":[{"month":"2027-02","used":70,'

# ---- pages, by a client that encodes values once more, and by one that doesn't

report '{"org":"a/c me~1","user":"ann:1","limit":"words","amount":3}'
report '{"org":"~7E%41@é","user":"bob","limit":"words","amount":3}'
export_ ''
wanted=$(sort <<<"$out")
pages() { # pages OPTION: of curl, that adds a value to the query
    local seen='' cursor='' count=0

    while ((count++ < 50)); do
        fetch -G "http://$http/v1/usage/export" -d rows=1 \
            ${cursor:+"$1" "cursor=$cursor"}
        seen+=$out${out:+$'\n'}
        cursor=$(field sluice-cursor)
        [[ -n $cursor ]] || break
    done
    [[ $(sort <<<"${seen%$'\n'}") = "$wanted" ]]
}
check 'a cursor in the query as it is: each row once' pages --data
check 'a cursor that the client encodes: each row once' pages --data-urlencode
export_ 'cursor=1/1/2/3/4/5/6/~7'
check 'half an escape is refused' answers 400

# ---- many rows, while reports go on ----

stop
start -c p.yaml --threads 2 --store memory: --usage sqlite:./many.db
python3 - "$http" "$many" <<'EOT'
import http.client, json, sys
host, many = sys.argv[1], int(sys.argv[2])
c = http.client.HTTPConnection(host)
for at in range(0, many, 1000):
    c.request("POST", "/v1/usage", json.dumps([
        {"org": f"org-{i}", "limit": "minutes", "amount": i % 100 + 1}
        for i in range(at, min(at + 1000, many))]))
    answer = c.getresponse()
    answer.read()
    assert answer.status == 200
EOT
memory() {
    awk '/VmHWM/ { print $2 }' "/proc/$pid/status"
}
before=$(memory)
# Reports that change the first and the last organisation together.
python3 - "$http" "$many" >/dev/null 2>&1 <<'EOT' &
import http.client, json, sys
c = http.client.HTTPConnection(sys.argv[1])
while True:
    c.request("POST", "/v1/usage", json.dumps([
        {"org": "org-0", "limit": "minutes", "amount": 1},
        {"org": "zz-last", "limit": "minutes", "amount": 1}]))
    c.getresponse().read()
EOT
writer=$!
running+=("$writer")
last_is_there() {
    ask '/v1/usage/org/zz-last?days=0&limit=minutes'
    lacks "$out" '"used":0,'
}
until_ last_is_there
verify() {
    python3 - "$many" "$1" <<'EOT'
import json, sys
many = int(sys.argv[1])
rows = [json.loads(line) for line in open(sys.argv[2])]
used = {row["org"]: row["used"] for row in rows}
assert len(rows) == len(used) == many + 1, len(rows)
assert all(used[f"org-{i}"] == i % 100 + 1 for i in range(1, many))
assert used["org-0"] - 1 == used["zz-last"] > 0, (used["org-0"], used["zz-last"])
assert len({row["as_of"] for row in rows}) == 1
EOT
}
for i in 1 2 3; do
    curl -sS --max-time 100 "http://$http/v1/usage/export" >"all.$i"
    check "$many rows in one answer, of one instant ($i)" verify "all.$i"
done
after=$(memory)
# A sanitizer keeps what was freed.
if [[ -z ${ASAN_OPTIONS-}${TSAN_OPTIONS-} ]]; then
    check "with little memory ($before, then $after KiB)" \
        [ "$after" -lt $((before + 20000)) ]
fi
run "$sluice" usage export --url "http://$http"
printf '%s\n' "$out" >pages
check 'and in pages, with the command' verify pages
run "$sluice" usage export --url "http://$http" --format csv --from 2020-01-01
check 'the CSV of all pages has one heading' [ "$(grep -c '^org,user' <<<"$out")" = 1 ]
check 'and all rows' [ "$(wc -l <<<"$out")" = $((many + 2)) ]
kill "$writer"

# ---- a stop while the database is read ----

stop
start -c p.yaml --threads 1 --store memory: --usage 'sqlite:./ends.db?shared'
for i in 1 2 3; do
    report "{\"org\":\"org-$i\",\"limit\":\"minutes\",\"amount\":1}"
done
# The file is locked, so that the rows come after the end has begun.
python3 - "$http" "$pid" >ends <<'EOT'
import http.client, os, signal, socket, sqlite3, sys, time
host, pid = sys.argv[1], int(sys.argv[2])
c = http.client.HTTPConnection(host, timeout=60)
c.request("GET", "/v1/usage/org/org-1")
c.getresponse().read()
other = sqlite3.connect("ends.db", isolation_level=None, timeout=60)
other.execute("BEGIN IMMEDIATE")
c.request("GET", "/v1/usage/export")
os.kill(pid, signal.SIGTERM)
end = time.monotonic() + 60
while time.monotonic() < end:  # until it listens no more
    try:
        socket.create_connection(host.rsplit(":", 1), 5).close()
    except OSError:
        break
other.execute("ROLLBACK")
try:
    answer = c.getresponse()
    rows = answer.read().decode().splitlines()
    print(answer.status, len(rows) if answer.status == 200 else "refused")
except (OSError, http.client.HTTPException):
    print("cut off")
EOT
until_ gone "$pid"
check "an export that the end overtakes is whole, or an error ($(<ends))" \
    grep -qx '200 3\|503 refused\|cut off' ends
start -c p.yaml --threads 2 --store memory: --usage sqlite:./many.db

# ---- clients that go ----

exports() {
    python3 -c 'import sqlite3
db = sqlite3.connect("many.db")
print(db.execute("SELECT count(*) FROM usage_exports").fetchone()[0],
    db.execute("SELECT count(*) FROM usage_before").fetchone()[0])'
}
for i in 1 2 3; do
    curl -sS --max-time 10 "http://$http/v1/usage/export" 2>/dev/null | head -n 3 >/dev/null
done
run "$sluice" usage org org-5 --url "http://$http"
check 'a client that goes stops nothing' is 0
stop
check 'the daemon ends' is 0
check 'and no export is left' [ "$(exports)" = '0 0' ]
finish
