#!/usr/bin/env bash
# books.sh -- units are held, given back or reported while something is away, and
# the usage database and the table are right afterwards.

# shellcheck source=test/support/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"

cat >p.yaml <<'EOT'
sluice: 1
plans: { default: free, free: {}, pro: { overage: true } }
limits:
  tokens:
    kind: quota
    per: org
    rate: { free: 100/month, pro: 100/month }
    deny: { status: 402 }
  links: { kind: level, per: org, rate: 10, deny: { status: 402 } }
routes:
  - { job: llm, limits: [tokens] }
  - { job: share, limits: [links] }
default: []
EOT

begin() {
    start_virtual -c p.yaml --threads 1 "$@"
    clock 2026-11-15T12:00:00Z
}

# hold ORG COST [MEMBERS]: leaves $hold.
hold() {
    ask /v1/check -d \
        "{\"job\":\"llm\",\"org\":\"$1\",\"cost\":$2,\"hold\":\"5m\"${3-}}"
    hold=$(sed -n 's/.*"hold":"\([^"]*\)".*/\1/p' <<<"$out")
}

settle() {
    ask "/v1/holds/$hold/settle" -d "{\"cost\":$1}"
}

# shows WANT: do the meters of acme? They are read after what is on the slip.
shows() {
    ask /v1/usage/org/acme
    [[ $out == *"$1"* ]]
}

# ---- what is held ----

begin --store memory:./state --usage sqlite:./u.db
hold acme 50
check 'what is held counts in the limit' shows '"used":50,'
check 'and is not recorded' shows '"days":[],'
settle 30
check 'the settled cost is recorded' shows \
    '"days":[{"day":"2026-11-15","used":30,'
check 'and in the limit' shows '"used":30,'
hold acme 20
ask "/v1/holds/$hold/release" -X POST
hold acme 10
tell /v1/clock -d '{"now":"2026-11-15T12:05:00Z"}'
settle 10
check 'what has expired was not used' has "$out" '"state":"expired"'
check 'neither expired nor released counts' shows \
    '"days":[{"day":"2026-11-15","used":30,'
hold acme 40
settle 60
check 'more than was held counts' shows '"used":90,"overage":0}],"mon'
check 'marks are crossed by what was held' said '"reached":"80%"'
hold rich 80 ',"plan":"pro"'
settle 130
check 'beyond the quota nothing remains' has "$out" \
    '"held":80,"cost":130,"remaining":0,"over":true'
over() {
    ask /v1/usage/org/rich
    [[ $out == *'"used":130,"overage":30}'* ]]
}
check 'and the rest is billed' over

# ---- across a kill ----

hold acme 8
check 'what is held is known' shows '"used":98,' # and recorded, whose
end_by KILL
begin --store memory:./state --usage sqlite:./u.db
tell /v1/clock -d '{"now":"2026-11-15T12:05:00Z"}'
settle 5
check 'a hold from before a kill is settled' has "$out" '"state":"settled"'
check 'and is recorded' shows '"used":95,"overage":0}],"mon'
settle 5
check 'once' shows '"used":95,"overage":0}],"mon'

# ---- what is owed to the table ----

report '[{"org":"acme","limit":"links","name":"a"},
    {"org":"acme","limit":"links","name":"b","amount":4},
    {"org":"rich","limit":"links","name":"c","amount":5}]'
report '{"org":"acme","limit":"links","name":"b","release":true}'
check 'a level is given back' has "$out" '"used":1,'
stop
# As if it had been killed between the commit and the table.
python3 - <<'EOT'
import sqlite3
db = sqlite3.connect("u.db")
db.executescript("""
    UPDATE usage_counters SET used = used - 1 WHERE limit_name = 'links';
    INSERT INTO usage_owed SELECT '', scope, id, limit_name, period_start, 3
        FROM usage_counters WHERE limit_name = 'links';
    UPDATE usage_counters SET used = 1
        WHERE limit_name = 'links' AND id = 'rich'""")
db.close()
EOT
begin --store memory:./state --usage sqlite:./u.db
links() {
    ask "/v1/usage/org/$1?limit=links"
    has "$out" "\"id\":\"$1\",\"used\":$2,"
}
check 'a correction of the database is applied to the table' links rich 2
check 'but never more than they have' links acme 0
stop
begin --store memory:./state --usage sqlite:./u.db
check 'once' links rich 2
stop

# ---- while the store is away ----

begin --store redis://127.0.0.1:1 --usage sqlite:./u.db
report '{"org":"away","limit":"tokens","amount":70}'
check 'a report is recorded without the store' answers 200
check 'and shows what is recorded' has "$out" \
    '"used":70,"limit":100,"remaining":30,"share":70,'
check 'with a word of it' has "$out" '"degraded":true'
report '{"org":"away","limit":"tokens","amount":20,"release":true}'
check 'what is given back, too' has "$out" '"used":50,"limit":100,'
ask /v1/usage/org/away
check 'and so do the meters' has "$out" '"used":50,"limit":100,"remaining":50,'
check 'with that word' has "$out" '"degraded":true'
stop

finish
