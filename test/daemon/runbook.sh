#!/usr/bin/env bash
# runbook.sh -- the presets with a registry: what an operator of each of them
# does, and what the next request finds.

# shellcheck source=test/support/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"

cp -r "$root/presets/." .

serve() { # PRESET
    start_virtual -c "$1.yaml" --store memory: --usage "sqlite:$1.db"
}

subject() {
    run "$sluice" subject --admin-url "http://$admin" "$@"
}

# times N BODY: how many of N such checks pass
times() {
    local i passed=0

    for ((i = 0; i < $1; i++)); do
        ask /v1/check -d "$2"
        [[ $out != '{"allowed":true'* ]] || passed=$((passed + 1))
    done
    [[ $passed = "$3" ]]
}

# ---- 002: the runbook of saas-quotas ----

serve saas-quotas
ann='{"method":"POST","path":"/api/assistant/query","user":"ann","org":"acme"}'
bob=${ann/ann/bob}
check '002: ten in ten seconds' times 11 "$ann" 10

subject set org acme assistant_query=20/10s until=1h note='launch' --by ops
check '002-R25: a temporary raise' is 0
check 'counts at once, and what was used stays used' times 11 "$ann" 10
check 'for every member' times 21 "$bob" 20
ask /v1/explain -d "$ann"
check 'explain names its owner, its author and the note' \
    has "$out" '(override of org by ops until 1970-01-01T01:00:00Z: launch)'
subject set user ann assistant_query=25/10s until=1h
check 'the override of the user goes first' times 6 "$ann" 5
clock 1970-01-01T01:00:00Z
check 'when it is over it is over' times 11 "$ann" 10
subject set user ann plan=team until=1h
check 'the end of overrides is not that of a plan' is 2
check 'and the message says how to end one' has "$err" 'write expires=TIME'

subject set org hot plan=team assistant_query=2/10s assistant_queries=5000/day
check '002-R26: a hot organisation' is 0
hot=${ann/acme/hot}
check 'less at once for each' times 3 "${hot/ann/uma}" 2
check 'and for the next' times 3 "${hot/ann/vic}" 2
ask /v1/explain -d "$hot"
check 'more per day for all' has "$out" '"name":"assistant_queries","kind":"quota","plan":"team","scope":"org","limit":5000'

tell /v1/features/assistant -X PUT -d '{"enabled":false}'
check '002-R27: the kill switch' has "$out" '"persisted":true'
ask /v1/check -d "$ann"
check '503, with the banner' has "$out" 'The assistant is paused for maintenance.'
end_by KILL
FEATURE_ASSISTANT=true serve saas-quotas
ask /v1/check -d "$ann"
check 'also after the restart' has "$out" '"status":503'
subject get org hot
check 'and so are the overrides' has "$out" 'override assistant_query = 2/10s'
tell /v1/features/assistant -X DELETE
ask /v1/check -d "$ann"
check 'on again' has "$out" '"allowed":true'
stop

# ---- 000: unraveldocs ----

serve unraveldocs
get='{"method":"GET","path":"/api/v1/ai/extract","user":"ANN"}'
subject set user 4711 plan=PRO_MONTHLY aliases=ann@example.org
ask /v1/check -d "${get/ANN/ann@example.org}"
check '000-R15: an e-mail is resolved to the user' \
    has "$out" '"plan":"pro","scope":"user","limit":30,"burst":40,"remaining":39'
ask /v1/check -d "${get/ANN/4711}"
check 'and shares the allowance' has "$out" '"remaining":38'
ask /v1/check -d "${get/ANN/stranger}"
check '000-R05: an unknown user is free' \
    has "$out" '"limit":5,"burst":8,"remaining":7'
subject set user 4711 plan=BUSINESS_YEARLY
ask /v1/check -d "${get/ANN/4711}"
check '000-R10: an upgrade counts on the next request' \
    has "$out" '"limit":60,"burst":80,"remaining":77'
stop

# ---- 003: jobseek ----

serve jobseek
job='{"method":"POST","path":"/api/sessions","user":"123"}'
ask /v1/explain -d "$job"
check '003: a user is free' has "$out" '"plan":"free"'
subject set user 123 plan=premium expires=30d
ask /v1/explain -d "$job"
check '003-R05: premium' has "$out" '"plan":"premium"'
clock 1970-01-30T23:59:59.999Z
ask /v1/explain -d "$job"
check 'until its expiry' has "$out" '"plan":"premium"'
clock 1970-01-31T00:00:00Z
ask /v1/explain -d "$job"
check '003-R11: which is looked at on each request' has "$out" '"plan":"free"'
stop

finish
