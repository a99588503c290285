#!/usr/bin/env bash
# erase.sh -- after the erasure of a subject neither the database nor the journal
# has one of its names; other subjects keep everything. The numbers are those of
# src/registry/erase.c.

# shellcheck source=test/support/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"

cat >p.yaml <<'EOF'
sluice: 1
plans: { default: free, free: {}, pro: { overage: true } }
limits:
  minutes: { kind: quota, per: org, rate: { free: 120/month, pro: 1200/month } }
  words: { kind: quota, per: user, rate: 100/day }
  shared: { kind: quota, per: [org, user], rate: 100/day }
  links: { kind: level, per: user, rate: 30 }
routes:
  - { job: transcribe, limits: [minutes] }
  - { job: write, limits: [words, shared] }
EOF

past_midnight # the days are real ones
books=${SLUICE_TEST_POSTGRES:-sqlite:./books.db}
start -c p.yaml --threads 2 --usage "$books" --journal ./books.journal \
    --store memory:

# use USER: everything that can be stored about a user of acme.
use() {
    run "$sluice" subject set user "$1" plan=pro roles=admin \
        aliases="$1@mail.example,also-$1" words=200/day note="for $1" \
        --admin-url "http://$admin"
    tell "/v1/credits/user/$1" -d "{\"limit\":\"words\",\"amount\":5,\"note\":\"$1\"}"
    report "{\"user\":\"$1\",\"limit\":\"words\",\"amount\":3,\"idempotency_key\":\"key-$1\"}"
    report "{\"user\":\"also-$1\",\"limit\":\"words\",\"amount\":2}"
    report "{\"org\":\"acme\",\"user\":\"$1\",\"limit\":\"shared\",\"amount\":4}"
    report "{\"user\":\"$1\",\"limit\":\"links\",\"name\":\"link-of-$1\",\"amount\":2}"
    ask /v1/check -d "{\"job\":\"write\",\"org\":\"acme\",\"user\":\"$1\"}" \
        -H "Idempotency-Key: request-$1"
    ask /v1/check -d "{\"job\":\"write\",\"org\":\"acme\",\"user\":\"$1\",\"hold\":\"10m\"}"
    tell "/v1/keys/links/$1" -X DELETE -H "X-Sluice-Note: by $1"
    report "{\"user\":\"$1\",\"limit\":\"links\",\"amount\":1}"
}

# stored: all texts of the database and the journal.
stored() {
    if [[ $books = postgres* ]]; then
        pg_dump --data-only --inserts "$books"
    fi
    cat ./*.db* ./*.journal* 2>/dev/null
}

counts() {
    stored | grep -aoi -- "$1" | wc -l
}

# gone NAME: no text has it.
gone_() {
    [ "$(counts "$1")" = 0 ]
}

# used PATH COUNT
used() {
    ask "/v1/usage/$1&days=0"
    has "$out" "\"used\":$2,"
}

erase() {
    run env USER=joe SUDO_USER= "$sluice" subject erase "$@" \
        --admin-url "http://$admin"
}

report '{"org":"acme","limit":"minutes","amount":30}'
for user in annika annika2 xannika 'ann%ka' 'ann_ka'; do use "$user"; done
check 'the usage is recorded' until_ used 'org:user/acme:annika?limit=shared' 6
check 'the database has the user' test "$(counts annika)" -gt 20

# ---- a user ----

erase user annika note='request 7'
check 'the command says so' [ "$out" = 'erased annika' ]
others=$(stored | grep -aoiE 'annika2|xannika' | wc -l)
check '(1) nothing has the name' [ "$(stored | grep -aoi annika | wc -l)" = "$others" ]
check '(1) nor an alias' gone_ 'also-annika\b'
check '(2) similar names stay' used 'org:user/acme:annika2?limit=shared' 6
check '(2) also behind it' used 'org:user/acme:xannika?limit=shared' 6
check '(2) and those with wildcards' used 'org:user/acme:ann_ka?limit=shared' 6
check '(2) the organisation keeps its bill' used 'org/acme?limit=minutes' 30
tell /v1/subjects/user/annika
check 'the subject is gone' answers 404
tell /v1/subjects/user/annika2
check 'others are not' answers 200
tell '/v1/audit?limit=1'
check 'it is recorded, without the id' has "$out" '"by":"joe","origin":"admin 127.0.0.1","what":"erase","scope":"user","id":"","note":"request 7","before":null,"after":null'
tell '/v1/audit?limit=1000'
check 'earlier rows stay, without the id' has "$out" '"what":"create","scope":"user","id":"","note":"","before":null,"after":null'
check 'with their author' has "$out" '"what":"reset","scope":"user","id":"","note":""'
erase user annika
check '(3) it can be repeated' is 0
erase user annika2@mail.example
check 'an alias erases its subject' is 0
check '(1) all of it' gone_ annika2
erase user 'ann%ka'
check '(2) a wildcard is no wildcard' used 'org:user/acme:ann_ka?limit=shared' 6
check '(1) and is gone' gone_ 'ann%ka'

# ---- an organisation ----

for org in acme other; do
    ask /v1/webhooks/endpoints -d "{\"org\":\"$org\",\"url\":\"https://hooks.$org.example/\"}"
    ask /v1/webhooks/messages -d "{\"org\":\"$org\",\"type\":\"paid\",\"payload\":{\"to\":\"$org\"},\"idempotency_key\":\"$org-1\"}"
done
check 'organisations have webhooks' answers 202
erase org acme
check 'an organisation' is 0
ask '/v1/webhooks/endpoints?org=acme'
check '(1) with its endpoints' has "$out" '"endpoints":[]'
ask '/v1/webhooks/endpoints?org=other'
check '(2) others keep theirs' has "$out" hooks.other.example
check '(1) with the usage of its users in it' gone_ acme
check '(2) what they used elsewhere stays' used 'user/xannika?limit=words' 7
erase user xannika
erase user ann_ka
check '(1) all are gone' gone_ 'ann.ka'
long=$(printf 'x%.0s' {1..300})
report "{\"org\":\"a\\nb\",\"limit\":\"minutes\",\"amount\":8}"
report "{\"org\":\"$long\",\"limit\":\"minutes\",\"amount\":9}"
check '(1) ids that cannot be registered have usage' used 'org/a%0Ab?limit=minutes' 8
tell '/v1/subjects/org/a%0Ab?erase=true' -X DELETE
tell "/v1/subjects/org/$long?erase=true" -X DELETE
check '(1) and are erased' gone_ "$long"
ask /v1/usage/export
check '(1) from bills, too' test "$(grep -c 'a.nb' <<<"$out")" = 0
tell '/v1/subjects/org/a%FFb?erase=true' -X DELETE
check 'no id is without UTF-8' answers 400
erase group x
check 'only users and organisations' is 2
erase user note=why
check 'a note is no id' is 2

# ---- afterwards ----

ask /v1/check -d '{"job":"write","org":"acme","user":"annika"}'
check 'an erased user may come again' has "$out" '"allowed":true'
billed_anew() {
    ask /v1/usage/export
    has "$out" '"limit":"shared","unit":"","included":100,"used":1,'
}
check 'and is billed anew' until_ billed_anew
stop
check 'it ends' is 0
start -c p.yaml --threads 1 --usage "$books" --journal ./books.journal \
    --store memory:
check 'a restart brings nothing back' used 'user/xannika?limit=words' 0
stop
finish
