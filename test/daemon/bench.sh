#!/usr/bin/env bash
# bench.sh -- sluice bench --url: it counts what a server admits.

# shellcheck source=test/support/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"

cat >p.yaml <<'EOT'
sluice: 1
limits:
  calls: { kind: token-bucket, per: user, rate: 40/day burst 60 }
  costly: { kind: quota, per: org, rate: 1000/month }
  fast: { kind: token-bucket, per: user, rate: 1M/s }
routes:
  - { match: /fast, limits: [fast] }
  - { match: POST /reports/:id, limits: [calls, costly], cost: { costly: 20 } }
default: [calls]
EOT
sed '/fast/d' p.yaml >slow.yaml

bench() {
    run "$sluice" bench --url "http://$http" --duration 20ms --threads 4 "$@"
}

# --- a clock that stands still ---
start_virtual -c slow.yaml
bench slow.yaml
check 'a server is measured' is 0
check 'by the first route of the policy' has "$out" 'POST /reports/x: 4 threads'
check 'it admits what the costly limit has' has "$out" 'yes: 50 admitted for one key, 50'
bench -o json
check 'without a policy' is 0
check 'what no route matches' has "$out" '"request":"GET /bench"'
check 'exactly the burst' has "$out" '"exact":true,"admitted":60,"expected":60'
bench -o json
check 'once more: other callers' has "$out" '"admitted":60,'
stop

# --- a clock that runs ---
start -c p.yaml --store memory:
bench slow.yaml
check 'a clock that runs' is 0
check 'admits as much' has "$out" 'yes: 5'
bench p.yaml
check 'a limit that is too fast to be used up' is 0
check 'is not tested' has "$out" 'not tested: '
stop

# --- a server that counts wrong ---
background generous python3 "$here/generous.py" 52
until_ test -s generous
http=$(<generous)
bench slow.yaml
check 'two too many are noticed' is 1
check 'and told' has "$out" 'NO: 52 admitted for one key, 50'
background stingy python3 "$here/generous.py" 49
until_ test -s stingy
http=$(<stingy)
bench slow.yaml
check 'one too few, too' is 1
check 'is told' has "$out" 'NO: 49 admitted for one key, 50'

# --- what cannot be measured ---
http=127.0.0.1:$(free_port)
bench
check 'no server' is 4
check 'says where' has "$err" "cannot connect to $http"
run "$sluice" bench --url redis://127.0.0.1:1
check 'another protocol' is 2
printf 'sluice: 1\ndefault: []\n' >none.yaml
start -c none.yaml --store memory:
bench
check 'a server without limits' is 1
check 'says what to write' has "$err" 'name the policy that it runs'

finish
