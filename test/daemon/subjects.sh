#!/usr/bin/env bash
# subjects.sh -- the registry: written, found, listed, imported, and what
# it changes for the next request.

# shellcheck source=test/support/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"

cat >p.yaml <<'EOT'
sluice: 1
plans: { default: free, free: {}, pro: {} }
identity:
  user: [header.x-user-id]
  org: [header.x-org-id]
  trusted_proxies: [127.0.0.0/8]
features: { ask: { enabled: true, message: "Not now." } }
limits:
  api:
    kind: fixed-window
    per: user
    missing: skip
    rate: { free: 2/hour, pro: 20/hour }
routes:
  - { match: /admin, roles: [admin], limits: [api] }
  - { match: /ask, feature: ask, limits: [api] }
  - { match: /x, limits: [api] }
default: []
EOT

put() { # SCOPE/ID BODY
    tell "/v1/subjects/$1" -X PUT -d "$2"
}

patch() {
    tell "/v1/subjects/$1" -X PATCH -d "$2"
}

# limit_of USER [ORG]: the limit of the user's next request
limit_of() {
    ask /v1/explain -d "{\"method\":\"GET\",\"path\":\"/x\",\"user\":\"$1\",
        \"org\":\"${2-}\"}"
    sed -n 's/.*"limit":\([0-9]*\).*/\1/p' <<<"$out"
}

limit_is() {
    [[ $(limit_of "$2" "${3-}") = "$1" ]]
}

# ---- one subject ----

start_virtual -c p.yaml
check 'a registry is made beside the policy' test -s sluice.db
check 'readable by its owner only' test "$(stat -c %a sluice.db)" = 600
tell /v1/subjects/user/ann
check 'it is empty' answers 404
put user/ann '{"plan":"pro","expires":"1970-01-01","roles":["admin"],
    "aliases":["Ann@Example.org"],"overrides":{"api":"50/hour"},"until":"2h",
    "by":"ops","note":"launch"}'
check 'put' answers 200
check 'with its revision' has "$fields" 'ETag: "1"'
check 'and all that it says' has "$out" '"overrides":{"api":"50/hour"},"until":"1970-01-01T02:00:00Z"'
saved=$out
tell /v1/subjects/user/ANN%40example.org
check 'found by its alias' test "$out" = "$saved"
put user/ann "$saved"
check 'what was shown can be written back, and changes nothing' \
    has "$out" '"revision":1'
put user/ann '{"plan":"pto"}'
check 'a plan that there is not' answers 400
check 'and which was meant' has "$out" 'did you mean \"pro\"?'
tell '/v1/subjects/user/gus?force=true' -X PUT -d '{"plan":"gold"}'
check 'unless it is forced' answers 200
check 'then there is a warning' has "$out" 'the policy has no plan \"gold\"'
patch user/ann '{"overrides":{"api":"5/min"}}'
check 'a rate of another period' answers 400
check 'with why' has "$out" 'The period of 5/min differs'
patch user/ann '{"overrides":{"apo":"5/hour"}}'
check 'a limit that there is not' has "$out" 'did you mean \"api\"?'
patch user/ann '{"plan":"pro","plan":"free"}'
check 'nothing twice' has "$out" 'is given twice'
patch user/ann '{"plam":"pro"}'
check 'and no other names' has "$out" 'did you mean \"plan\"?'
patch user/ann '{"expires":"tomorrow"}'
check 'times are times' has "$out" 'write 2026-12-31T23:59:59Z'
put user/bob '{"aliases":["ann@example.org"]}'
check 'an alias stands for one' answers 409
put user/ann@example.org '{"plan":"free"}'
check 'and no other is overwritten' answers 409
check 'which is told' has "$out" \
    'ann@example.org is an alias of the user ann; change that subject'
tell /v1/subjects -H 'Content-Type: text/csv' \
    --data-binary $'scope,id,plan\nuser,ann@example.org,free\n'
check 'nor by a line of an import' has "$out" 'is an alias of the user ann'
tell /v1/subjects -H 'Content-Type: text/csv' \
    --data-binary $'scope,id,plan,until\nuser,zoe,pro,2h\n'
check 'an end without overrides is refused in an import' has "$out" 'is the end of overrides, and there is none'
tell /v1/subjects/user/ann -X PATCH -d '{"plan":"pro","until":"2h"}'
check 'and in a PATCH' answers 400
put team/x '{}'
check 'there are users and organisations' answers 404
tell /v1/subjects/user/a/b -X PUT -d '{}'
check 'a slash in an id is written otherwise' has "$out" '%2F'
tell /v1/subjects/user/a%2Fb -X PUT -d '{}'
check 'like that' has "$out" '"id":"a/b"'
tell /v1/subjects/user/ann -X PUT -d '{}' -H 'If-Match: "99"'
check 'a write for another revision' answers 412
tell /v1/subjects/user/ann -X PUT -d '{}' -H 'If-None-Match: *'
check 'or for a new subject' answers 412
tell /v1/subjects/user/ann -X PATCH -d '{"note":"x"}' -H 'If-Match: "1"' \
    -H 'X-Sluice-By: eve'
check 'for this one' has "$out" '"by":"eve"'
tell '/v1/subjects/user/ann/audit?limit=1'
check 'its history: author, and the state before' has "$out" '"by":"eve","what":"change","before":{"scope":"user","id":"ann","plan":"pro"'

ask /v1/check -d '{"path":"/x","user":"ANN@example.org"}'
tell /v1/keys/api/ann%40example.org
check 'what an alias has used is what its subject has' \
    has "$out" ':api:user:ann"'
tell /v1/keys/api/ann%40example.org -X DELETE
tell /v1/keys/api/ann
check 'and is forgotten by the alias, too' has "$out" '"remaining":50,'

# ---- the next request ----

check 'an override holds' limit_is 50 ann
check 'for the alias, too' limit_is 50 Ann@example.org
clock 1970-01-01T01:59:59.999Z
check 'to the end' limit_is 50 ann
clock 1970-01-01T02:00:00Z
check 'and then the plan' limit_is 20 ann
clock 1970-01-01T23:59:59Z
check 'to its end' limit_is 20 ann
clock 1970-01-02T00:00:00Z
check 'and then the default' limit_is 2 ann
ask /v1/explain -d '{"method":"GET","path":"/x","user":"ann"}'
check 'which is explained' has "$out" 'own plan has expired'
put org/acme '{"plan":"pro","overrides":{"api":"30/hour"},"by":"boss"}'
check 'an organisation has members' limit_is 30 ann acme
ask /v1/explain -d '{"method":"GET","path":"/x","user":"ann","org":"acme"}'
check 'and it is told whose rate it is' has "$out" '(override of org by boss)'
check 'in the verdict as well' has "$out" '"override":"org"'
patch org/acme '{"overrides":null}'
check 'its plan is theirs' limit_is 20 ann acme

auth ann
auth ann
auth ann
check 'two an hour are used' answers 429
patch user/ann '{"plan":"pro"}'
auth ann
check 'an upgrade counts at once' answers 200
check 'and keeps what was used' has "$fields" 'X-RateLimit-Remaining: 17'
patch user/ann '{"plan":"free"}'
auth ann
check 'so does the way back' answers 429
tell /v1/subjects/user/ann -X DELETE
check 'gone' answers 200
tell /v1/subjects/user/ann -X DELETE
check 'once' answers 404

put user/roy '{"roles":["member","admin"]}'
ask /v1/check -d '{"path":"/admin","user":"roy"}'
check 'roles let in' has "$out" '"status":200'
ask /v1/check -d '{"path":"/admin","user":"ann"}'
check 'and keep out' has "$out" '"status":403'

# ---- features ----

tell /v1/features/ask -X PUT -d '{"enabled":false}' -H 'X-Sluice-By: ops'
check 'a switch is written down' has "$out" '"persisted":true'
auth roy /ask
check 'and works' answers 503
kill -HUP "$pid"
until_ said 'policy loaded'
auth roy /ask
check 'after a reload' answers 503
end_by KILL
FEATURE_ASK=true start_virtual -c p.yaml
auth roy /ask
check 'and after a restart, whatever the environment says' answers 503
check 'with its banner' has "$out" 'Not now.'
tell /v1/features/ask -X DELETE
check 'until it is left to the policy' has "$out" '"enabled":true,"by_hand":false'
stop
start_virtual -c p.yaml
auth roy /ask
check 'for good' answers 200

# ---- two of them ----

run "$sluiced" -c p.yaml --store memory:x.state --usage sqlite:sluice.db \
    --listen-http 127.0.0.1:0 --listen-admin 127.0.0.1:0
check 'a second daemon on the same file is refused' is 5
check 'with what to do' has "$err" 'another process uses the registry'
stop

start -c p.yaml --store memory:
tell /v1/subjects
check 'with a store and no usage there is none' answers 501
tell /v1/features/ask -X PUT -d '{"enabled":false}'
check 'then a switch lasts until the restart, and the answer has the reason' \
    has "$out" '"persisted":false,"why":"this daemon has no database'
stop

finish
