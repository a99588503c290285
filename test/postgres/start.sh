#!/usr/bin/env bash
# start.sh -- a start that loses the database after each of its answers, one by
# one: the daemon serves, and everything is recorded once when it is back.
#
#   with-postgres.sh start.sh SLUICED SLUICED-TEST SLUICE
set -euo pipefail

# shellcheck source=test/postgres/postgres.sh
. "$(dirname "$0")/postgres.sh"

support=$here/../support
one
stop
background "$folder/port" python3 "$support/proxy.py" \
    "127.0.0.1:$POSTGRES_PORT" "$folder/control"
until_ test -s "$folder/port"
url="postgres://postgres@127.0.0.1:$(<"$folder/port")/postgres"
url+='?sslmode=disable&gssencmode=disable'

network() {
    python3 "$support/proxy.py" --tell "$folder/control" "$@"
}

total=0
recorded() {
    [[ $(used) = "$total" ]]
}

# A report whose answer is lost is sent again with its key.
reports() {
    report '{"org":"acme","limit":"minutes","amount":3,"idempotency_key":"'"$n"'"}'
    answers 202 || answers 200
}

# Until three starts in a row have all of their answers.
away=0 whole=0
for ((n = 0; n < 60 && whole < 3; n++)); do
    network after "$n"
    start -c p.yaml --threads 1 --store memory:./state --usage "$url" \
        --deadline 5s
    said '"event":"serving"' || break
    whole=$((whole + 1))
    ! said 'starting without it' || away=$((away + 1)) whole=0
    reports || { network pass && until_ reports; } || break
    total=$((total + 3))
    end_by KILL
    network pass
    if ((n % 10 == 0)); then
        start -c p.yaml --threads 1 --store memory:./state --usage "$url" \
            --deadline 5s
        until_ recorded || break
        stop
    fi
done
check "each start has served (answer $n)" test "$whole" = 3
check 'many of them without the database' test "$away" -ge 15
network pass
start -c p.yaml --threads 1 --store memory:./state --usage "$url" --deadline 5s
check 'everything is recorded once' until_ recorded

finish
