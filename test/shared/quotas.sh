#!/usr/bin/env bash
# quotas.sh SLUICED SLUICED-TEST SLUICE -- quotas beside a Redis: a SQLite
# database keeps them when Redis loses its data, and daemons with a database
# each still share them. Without a database the loss is noticed.

# shellcheck source=test/support/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"
past_midnight

cp "$here/minutes.yaml" p.yaml

# take JOB ORG COST: one check at $http
take() {
    ask /v1/check -d \
        '{"job":"'"$1"'","org":"'"$2"'","cost":{"minutes":'"$3"'}}'
}

# passes ORG [ASKED]: how many single units pass
passes() {
    local n=0 i

    for ((i = 0; i < ${2-125}; i++)); do
        take one "$1" 1
        [[ $out != *'"status":200,'* ]] || n=$((n + 1))
    done
    echo "$n"
}

# ---- a SQLite of one daemon: both count ----

redis_start
share -c p.yaml --threads 1 --usage sqlite:a.db
a_http=$http a_pid=$pid
check 'all units pass' test "$(passes acme)" = 120
redis flushall >/dev/null
check 'a flush of Redis gives no fresh quota' test "$(passes acme 10)" = 0
take both acme 1
check 'nor to another route' has "$out" '"status":402,'
check 'and the rates there are not used' test -z "$(used sluice:test:api:org:acme)"

share -c p.yaml --threads 1 --usage sqlite:b.db
check 'another database does not know them' has "$(take one acme 0; echo "$out")" \
    '"remaining":120'
take one shared 70
http=$a_http
take one shared 70
check 'but what one daemon takes the other has not' has "$out" '"status":402,'
take one shared 50
check 'and the rest it has' has "$out" '"status":200,'
fetch "http://$a_http/v1/usage" -d \
    '{"org":"told","limit":"minutes","amount":100,"idempotency_key":"1"}'
check 'reports count in both' has "$out" '"recorded":true'
take one told 30
check 'here' has "$out" '"status":402,'
http=$(where http)
take one told 30
check 'and there' has "$out" '"status":402,'
kill "$pid" "$a_pid"
until_ gone "$pid"
until_ gone "$a_pid"

# ---- a SQLite that daemons share: the database alone ----

share -c p.yaml --threads 1 --usage 'sqlite:c.db?shared'
first=$http
share -c p.yaml --threads 1 --usage 'sqlite:c.db?shared'
take both two 100
http=$first
take both two 30
check 'daemons with one database share a quota' has "$out" '"status":402,'
redis flushall >/dev/null
take both two 30
check 'also when Redis is flushed' has "$out" '"status":402,'
check 'no quota is in Redis' test -z "$(redis --raw keys '*minutes*')"

# A hold of all units at the first daemon ends at the second.
http=$first
ask /v1/check -d '{"job":"both","org":"held","hold":"300s","cost":{"minutes":120}}'
check 'a hold has all units' has "$out" '"status":200,'
hold=$(sed -n 's/.*"hold":"\([^"]*\)".*/\1/p' <<<"$out")
http=$(where http)
take both held 1
check 'the other daemon has none' has "$out" '"status":402,'
fetch "http://$http/v1/holds/$hold/settle" -d '{"cost":{"minutes":20}}'
check 'but ends the hold' has "$out" '"held":120,"cost":20,'
rest_passes() {
    take both held 100
    [[ $out = *'"status":200,'* ]]
}
check 'then the rest is free, long before the hold would expire' until_ rest_passes
for http in "$first" "$http"; do
    take both held 1
    check 'and no unit more, at either daemon' has "$out" '"status":402,'
done
recorded() {
    fetch "http://$http/v1/usage/org/held?limit=minutes"
    [[ $out = *'"used":120,'* ]]
}
check 'all are recorded, once' until_ recorded
stop

# ---- without a database ----

redis_kill
redis_start --appendonly yes --appendfsync everysec
share -c p.yaml --threads 1 --usage none
take one acme 1
check 'quotas are in Redis' has "$(redis --raw keys '*minutes*')" minutes
check 'nothing was lost' test "$(metric sluice_store_losses_total)" = 0
redis_kill
redis_start --appendonly yes --appendfsync everysec
noticed() {
    [[ $(metric sluice_store_losses_total) = 1 ]]
}
check 'a restart may have lost writes, and is counted' until_ noticed
check 'and logged' said 'Redis was restarted'
finish
