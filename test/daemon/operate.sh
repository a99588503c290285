#!/usr/bin/env bash
# operate.sh -- looking into a daemon and setting it right: /v1/top, /v1/keys,
# and the commands of sluice that ask for them.

# shellcheck source=test/support/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"

cat >p.yaml <<'EOT'
sluice: 1
plans: { default: free, free: {}, pro: {} }
limits:
  tenant: { kind: fixed-window, per: org, rate: { free: 8/3000d, pro: 80/3000d } }
  member: { kind: token-bucket, per: [org, user], rate: 3/day }
routes:
  - { match: /rules, endpoint: rules, limits: [tenant, member] }
  - { match: /spans, endpoint: spans, limits: [tenant] }
  - { job: report, limits: [tenant] }
default: [tenant]
EOT
start -c p.yaml --store memory: --threads 2

# at URL-WORD: sluice, asked about this daemon.
at() {
    run "$sluice" "$@"
}
export SLUICE_URL=http://$http SLUICE_ADMIN_URL=http://$admin

lacks() {
    [[ $1 != *"$2"* ]]
}

# load PATH ORG USER TIMES
load() {
    local i

    for ((i = 0; i < $4; i++)); do
        ask /v1/check -d "{\"path\":\"$1\",\"org\":\"$2\",\"user\":\"$3\"}"
    done
}

# --- a known load, over two threads ---
load /rules acme ann 6  # 3 pass, member says no three times
load /spans acme bob 7  # 5 pass, tenant says no twice
load /spans b/a bob 9   # 8 pass, tenant says no once
tell '/v1/top?by=denied'
check 'top answers' answers 200
check 'the denied keys, the most first' has "$out" '"rows":[{"limit":"member","scope":"org:user","key":"acme:ann","cut":false,"denied":3,"allowed":3,"cost":3,"error":{"denied":0,"allowed":0,"cost":0}},{"limit":"tenant","scope":"org","key":"acme","cut":false,"denied":2,"allowed":8,'
check 'and how many in all' has "$out" '"totals":{"denied":6,"allowed":19,"cost":19}'
tell '/v1/top?limit=tenant&by=allowed&n=1'
check 'violations and passes of a tenant' has "$out" '"key":"acme","cut":false,"denied":2,"allowed":8'
tell '/v1/top?endpoint=spans&by=denied'
check 'at one endpoint' has "$out" '"key":"acme","cut":false,"denied":2,"allowed":5'
tell /metrics
check 'no metric has a name in it' lacks "$out" acme

# --- sluice top ---
at top
check 'sluice top' is 0
check 'has a row for each' has "$out" 'member  org:user  acme:ann  3       3        3'
check 'and says since when' has "$out" ': 6 denied, 19 allowed; by denied'
at top --by cost --limit tenant -n 1
check 'by what was taken' test "$(wc -l <<<"$out")" = 3
at top -o json --recent
check 'as JSON' has "$out" '"window":"recent"'
at top --by size
check 'a slip is status 2' is 2
check 'with what to write' has "$err" 'denied, allowed or cost'
launch "$sluice" top --watch
watched() {
    [[ $(grep -c '^since' "$log.out") -ge 2 ]]
}
watcher=$pid
until_ watched
check 'sluice top --watch looks again' watched
kill "$watcher"

# --- keys ---
tell /v1/keys/member/acme/ann
check 'a key can be looked at' has "$out" '"remaining":0,'
tell /v1/keys/tenant/b%2Fa?plan=pro
check 'with a slash in it, by another plan' has "$out" '"limit":80,"burst":80,"remaining":72,'
tell /v1/keys/member/acme/ann -X DELETE
check 'it is reset' has "$out" '"remaining":3,'
at take 'GET /rules' org=acme user=ann
check 'but the other limit refuses' is 1
check 'and prints the limit' has "$out" 'denied 429 by tenant'
at reset tenant acme --look
check 'sluice reset --look' has "$out" 'tenant  org    free  8   0'
at reset tenant acme
check 'sluice reset' has "$out" 'tenant  org    free  8   8'
at take 'GET /rules' org=acme user=ann
check 'and now it passes' is 0
at reset tenant b/a -o json
check 'as JSON' has "$out" '"remaining":8,'
at reset tenat acme
check 'no such limit is status 2' is 2
check 'with what was meant' has "$err" 'did you mean "tenant"?'
tell /v1/keys/tenant/acme -X DELETE -H 'Origin: http://evil.example'
check 'a page in a browser may not' answers 403

# --- take ---
at take tenant acme cost=0
check 'take LIMIT KEY' is 0
check 'with cost=0 it looks' has "$out" 'tenant  org    free  8   7'
at take tenant acme cost=7 -o json
check 'what passes is spent' has "$out" '"remaining":0,'
at take tenant acme
check 'and then refused' is 1
at take 'job report' org=new cost=2
check 'a job' has "$out" 'tenant  org    free  8   6'
at take /spans org=new plan=pro
check 'a path alone is a GET' has "$out" 'tenant  org    pro   80  77'
at take tenant acme at=1970-01-01T00:00:00Z
check 'the clock is the daemon'"'"'s' is 2
at take tenant acme --url http://127.0.0.1:1
check 'no daemon is status 4' is 4
at take tenant acme --url ftp://x
check 'no URL is status 2' is 2
NO_COLOR=1 CLICOLOR_FORCE=1 at take tenant new
check 'NO_COLOR' lacks "$out" $'\033'
CLICOLOR_FORCE=1 at take tenant new
check 'and colours' has "$out" $'\033[32mallowed'
stop

# --- tokens and sockets ---
printf 'top-secret-admin-token\n' >admin.token
printf 'secret-access-token-1\n' >access.token
launch "$sluiced" -c p.yaml --store memory: --log-format json \
    --listen-http "unix:$folder/h.sock" --listen-admin "unix:$folder/a.sock" \
    --admin-token-file admin.token --access-token-file access.token
started
export SLUICE_URL=unix:$folder/h.sock SLUICE_ADMIN_URL=unix:$folder/a.sock
at top
check 'without the token' is 1
check 'it says what is missing' has "$err" 'requires a token; name the file'
at top --token-file admin.token
check 'with its file' is 0
at take tenant acme --token-file access.token
check 'through a socket' is 0
SLUICE_ADMIN_TOKEN_FILE=admin.token at top
check 'with a variable' is 0
SLUICE_ACCESS_TOKEN=secret-access-token-1 at take tenant acme
check 'or the token itself' is 0
at top --token-file nowhere
check 'a file that is not there' is 2
stop
check 'no token is in the log' lacks "$err" secret

finish
