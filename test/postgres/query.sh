#!/usr/bin/env bash
# query.sh -- plans that stand in tables of others.
# shellcheck disable=SC2016 # $1 is PostgreSQL's

# shellcheck source=test/postgres/postgres.sh
. "$(dirname "${BASH_SOURCE[0]}")/postgres.sh"

# asking QUERY [KEY]: a policy that asks it.
asking() {
    cat >q.yaml <<EOT
sluice: 1
plans: { default: free, free: {}, pro: {}, team: {} }
identity:
  user: [header.x-user-id]
  org: [header.x-org-id]
  plan: [subject.plan]
  trusted_proxies: [127.0.0.0/8]
  subjects:
    query: "$1"
    ${2-}
limits:
  api:
    kind: token-bucket
    per: user
    rate: { free: 1000/min, pro: 2000/min, team: 3000/min }
    on_store_failure: deny
  words: { kind: quota, per: user, rate: 3/day }
routes:
  - { job: write, limits: [words] }
default: [api]
EOT
}

# at_1970: a daemon that asks, whose clock stands still.
at_1970() {
    start_virtual -c q.yaml --threads 1 --store memory: \
        --usage "$SLUICE_TEST_POSTGRES" --deadline 5s
}

# has_plan PLAN MEMBERS: what is decided for them.
has_plan() {
    ask /v1/check -d "{\"method\":\"GET\",\"path\":\"/x\",$2}"
    [[ $out = *"\"plan\":\"$1\""* ]]
}
is_default() {
    ask /v1/check -d "{\"path\":\"/x\",$1}"
    has "$out" '"plan":"free"' && has "$out" '"degraded":true'
}
sql "CREATE TABLE accounts (id text, kind text DEFAULT 'user',
         tier varchar(20), until timestamptz);
     INSERT INTO accounts VALUES ('ann', 'user', 'pro', NULL),
         ('bob', 'user', 'PRO', '1970-01-01 01:00+00'),
         ('nil', 'user', NULL, NULL), ('o''hara\\', 'user', 'pro', 'infinity'),
         ('old', 'user', 'pro', '-infinity'), ('\$1', 'user', 'pro', NULL),
         ('jörg', 'user', 'pro', '9999-12-31'), ('twice', 'user', 'pro', NULL),
         ('twice', 'user', 'free', NULL), ('acme', 'org', 'team', NULL),
         ('ann', 'org', 'team', NULL)"

# ---- plans of subjects ----

asking 'SELECT tier AS plan, until AS expires FROM accounts WHERE id = $1 AND kind = $2'
at_1970
check 'a plan is read from a table' has_plan pro '"user":"ann"'
check 'also by another spelling of its name' has_plan pro '"user":"bob"'
check 'an unknown subject has the default' has_plan free '"user":"eve"'
check 'null is no plan' has_plan free '"user":"nil"'
check 'one that has ended is none' has_plan free '"user":"old"'
check 'a quote is a quote' has_plan pro '"user":"o'\''hara\\"'
check 'and injects nothing' has_plan free '"user":"x'\'' OR '\''1'\''='\''1"'
check 'a parameter is no parameter' has_plan pro '"user":"$1"'
check 'other letters' has_plan pro '"user":"jörg"'
check 'an organisation, by $2' has_plan team '"user":"eve","org":"acme"'
check 'the user goes first' has_plan pro '"user":"ann","org":"acme"'
ask /v1/auth -H 'x-original-uri: /x' -H 'x-original-method: GET' \
    -H $'x-user-id: ann\xff\xfe'
check 'bytes that are no text are no subject' answers 200
check 'with the default plan' has "$fields" 'X-RateLimit-Limit: 1000'
check 'two rows are a mistake: the default plan, degraded' is_default '"user":"twice"'
check 'that is said' said 'the query returned 2 rows for one id'

# ---- beside the registry ----

tell /v1/subjects/user/eve -X PUT -d '{"plan":"team","aliases":["e@x.org"]}'
check 'whom the table does not know the registry may' \
    has_plan team '"user":"eve"'
tell /v1/subjects/user/ann -X PUT \
    -d '{"plan":"free","aliases":["a@x.org"],"overrides":{"api":"7/min"}}'
check 'the plan of the table goes first' has_plan pro '"user":"ann"'
check 'and the override before it' has "$out" '"limit":7'
check 'an alias is asked for by its id' has_plan pro '"user":"a@x.org"'

# ---- life ----

clock 1970-01-01T00:00:10Z
check 'asked again' has_plan free '"user":"new"'
sql "INSERT INTO accounts VALUES ('new', 'user', 'pro', NULL)"
check 'an answer is remembered' has_plan free '"user":"new"'
clock 1970-01-01T00:00:14.999Z
check 'for its life' has_plan free '"user":"new"'
clock 1970-01-01T00:00:15Z
check 'and no longer' has_plan pro '"user":"new"'
clock 1970-01-01T00:59:59.999Z
check 'a plan counts' has_plan pro '"user":"bob"'
clock 1970-01-01T01:00:00Z
check 'until it ends' has_plan free '"user":"bob"'

# ---- while it is away, altered, and back ----

sql 'ALTER TABLE accounts ALTER tier TYPE text'
clock 1970-01-01T01:00:10Z
altered() {
    has_plan pro '"user":"ann"'
}
check 'a table that was altered is asked anew' until_ altered
"$POSTGRES_CTL" stop >/dev/null
check 'without a server what was remembered counts' \
    has_plan pro '"user":"ann"'
clock 1970-01-01T01:00:20Z
check 'then the default plan, degraded' is_default '"user":"ann"'
"$POSTGRES_CTL" start >/dev/null
check 'and it is found again' until_ altered
stop
check 'it ends as asked' is 0

# ---- overrides ----

sql "CREATE TABLE deals (id text, plan text, expires date, api text);
     INSERT INTO deals VALUES ('amy', 'pro', NULL, '77/min burst 80'),
         ('bob', 'pro', '1970-01-01', '78/min'), ('nil', 'pro', NULL, NULL),
         ('open', 'pro', NULL, 'unlimited'), ('num', 'pro', NULL, '79'),
         ('day', 'pro', NULL, '80/day'), ('void', 'pro', NULL, ''),
         ('odd', 'pro', NULL, '\"81/min\"]')"
asking "SELECT plan, expires, json_build_object('api', api) AS overrides FROM deals WHERE id = \$1"
at_1970
# has_limit NUMBER ID
has_limit() {
    ask /v1/check -d "{\"path\":\"/x\",\"user\":\"$2\"}"
    has "$out" "\"limit\":$1,"
}
check 'a limit from a table' has_limit 77 amy
check 'that is called an override' has "$out" '"override":"user"'
ask /v1/explain -d '{"path":"/x","user":"amy"}'
check 'of the query' has "$out" 'override of user by query'
check 'an expired plan keeps it' has_limit 78 bob
check 'null is none' has_limit 2000 nil
check 'unlimited only as written' has_plan pro '"user":"open"'
check 'then without numbers' has "$out" '"limit":null'
check 'a number without a period leaves the plan' has_limit 2000 num
check 'so does another period' has_limit 2000 day
check 'and an empty text' has_limit 2000 void
check 'a wrong one is in the log' said 'the override of \"api\" is ignored'
# once SENTENCE: is it in the log once?
once() {
    [[ $(grep -c "$1" "$log") = 1 ]]
}
clock 1970-01-01T00:00:10Z
check 'asked again' has_limit 2000 void
check 'but said once' once 'is not a rate like'
tell /v1/subjects/user/amy -X PATCH -d '{"overrides":{"api":"7/min"},"until":"1h"}'
check 'an override of the registry goes first' has_limit 7 amy
clock 1970-01-01T02:00:00Z
check 'until it ends' has_limit 77 amy
tell /v1/credits/user/amy -d '{"limit":"words","amount":2}'
ask /v1/check -d '{"job":"write","user":"amy","cost":5}'
check 'credits of the registry count beside the query' has "$out" '"allowed":true'
stop

# Each of many ids fails with a sentence of its own; 64 are logged in ten seconds.
asking "SELECT plan, api AS overrides FROM deals
        WHERE id = CASE WHEN \$1 LIKE 'bad%' THEN (\$1::int)::text ELSE \$1 END"
at_1970
for ((i = 0; i < 72; i++)); do
    ask /v1/check -d "{\"path\":\"/x\",\"user\":\"bad$i\"}"
done
check 'errors have sentences of their own' said 'type integer: \"bad0\"'
pause 1.1 # the log has ten lines of an event in a second
check 'text that is no JSON leaves the plan' has_limit 2000 odd
check 'and is said, behind all of them' said 'overrides is not an object like'
stop

# ---- other ids ----

sql "CREATE TABLE numbers (id integer, plan char(8), expires date);
     INSERT INTO numbers VALUES (7, 'pro', '1970-01-01'), (-8, 'pro', NULL)"
asking 'SELECT plan, expires FROM numbers WHERE id = $1' 'life: 1h'
at_1970
check 'a number' has_plan pro '"user":"7"'
check 'below zero' has_plan pro '"user":"-8"'
for id in 07 +7 ' 7' 7.0 99999999999 ann; do
    check "\"$id\" is no subject" has_plan free "\"user\":\"$id\""
done
check 'organisations are not asked for without $2' \
    has_plan free '"user":"x","org":"7"'
clock 1970-01-01T23:59:59Z
check 'a date is valid all day' has_plan pro '"user":"7"'
tell /v1/clock -d '{"now":"1970-01-02T00:00:00Z"}'
check 'and then not' has_plan free '"user":"7"'
sed 's|rate: 3/day }|rate: 3/day, zone: America/New_York }|' \
    q.yaml >zone.yaml
tell /v1/policy --data-binary @zone.yaml
check 'a policy with quotas of a zone' answers 200
sql "INSERT INTO numbers VALUES (9, 'pro', '1970-01-01')"
tell /v1/clock -d '{"now":"1970-01-02T04:59:59Z"}'
check 'in which the day ends later' has_plan pro '"user":"9"'
tell /v1/clock -d '{"now":"1970-01-02T05:00:00Z"}'
check 'but ends' has_plan free '"user":"9"'
stop
asking 'SELECT plan FROM numbers WHERE id = $1' 'scope: org'
at_1970
check 'or they alone are' has_plan pro '"user":"7x","org":"7"'
check 'and users are not' has_plan free '"user":"7"'
stop

# ---- a slow answer ----

asking "SELECT CASE WHEN \$1 = 'slow' THEN pg_sleep(60)::text ELSE 'pro' END AS plan"
at_1970
while :; do
    curl -s -o /dev/null "http://$http/v1/check" \
        -d '{"method":"GET","path":"/x","user":"slow"}' || break
done &
running+=("$!")

# slept: since when a request has waited for the table.
slept() {
    sql "SELECT query_start FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
}
# meanwhile COMMAND...: is it done while one and the same answer is waited for?
meanwhile() {
    local since

    since=$(slept)
    [[ $since ]] && "$@" && [[ $(slept) = "$since" ]]
}
another() {
    has_plan pro "\"user\":\"fast$RANDOM\""
}
books() {
    tell "/v1/subjects/user/fast$RANDOM" -X PUT -d '{"note":"x"}'
    answers 200
}
check 'a request that waits for the table does not block others' until_ meanwhile another
check 'nor the usage database' until_ meanwhile books
check 'the server gives it up' until_ said 'statement timeout'
stop

# ---- what is refused ----

# refuses WHY SENTENCE QUERY [STATUS]
refuses() {
    asking "$3" "${5-}"
    at_1970
    check "$1" has "$err" "$2"
    check "$1: it does not start" test "$status" = "${4:-3}"
    [[ $status = - ]] && stop
}
refuses 'no table' 'relation "nowhere" does not exist' \
    'SELECT plan FROM nowhere WHERE id = $1'
check 'the key is named' has "$err" 'identity.subjects.query: '
refuses 'no SQL' 'syntax error at or near' 'SELEKT plan WHERE id = $1'
refuses 'a query that writes' 'cannot execute UPDATE in a read-only' \
    "UPDATE numbers SET plan = 'pro' WHERE id = \$1 RETURNING plan"
check 'nothing was written' \
    test "$(sql "SELECT count(*) FROM numbers WHERE plan = 'pro'")" = 3
refuses 'two statements' 'cannot insert multiple commands' \
    'SELECT plan FROM numbers WHERE id = $1; SELECT 1'
refuses 'no plan' 'it answers no column plan' \
    'SELECT expires FROM numbers WHERE id = $1'
refuses 'another column' 'unexpected column "tier"' \
    'SELECT tier FROM accounts WHERE id = $1'
refuses 'a plan that is no text' 'the column plan is not text' \
    'SELECT id AS plan FROM numbers WHERE id = $1'
refuses 'an end that is no time' 'the column expires is not a time' \
    'SELECT plan, id AS expires FROM numbers WHERE id = $1'
refuses 'overrides that are no json' 'the column overrides is not json' \
    'SELECT plan, id AS overrides FROM numbers WHERE id = $1'
refuses 'an id of another type' 'write id::text = $1' \
    'SELECT plan FROM numbers WHERE expires = $1'
refuses 'too many parameters' 'the query has 3 parameters' \
    'SELECT plan FROM accounts, numbers WHERE tier = $1 AND kind = $2 AND tier = $3'
asking 'SELECT plan FROM numbers WHERE id = $1'
run "$sluiced" -c q.yaml --store memory: --usage sqlite::memory:
check 'a registry elsewhere' has "$err" 'needs a PostgreSQL database in usage'
check 'is a mistake in the policy' is 3

# ---- another query ----

at_1970
asking 'SELECT plan FROM numbers WHERE id = $1' 'life: 2s'
tell /v1/policy -X POST -d ''
check 'another query needs a restart' \
    has "$out" 'identity: subjects changed; needs a restart'
stop
finish
