#!/usr/bin/env bash
# blocks.sh -- blocks of users, organisations, addresses and networks by hand:
# commands, HTTP, every way in, restarts, the audit; and two daemons.

# shellcheck source=test/support/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"

cat >p.yaml <<'EOT'
sluice: 1
identity: { user: [header.x-user-id], trusted_proxies: [127.0.0.0/8] }
limits:
  api: { kind: fixed-window, per: user, rate: 100/hour }
  both: { kind: fixed-window, per: [org, user], rate: 100/hour }
  calls: { kind: fixed-window, per: org, rate: 100/hour, missing: skip }
  address: { kind: fixed-window, per: ip, rate: 100/hour }
routes:
  - descriptor: [edge, user]
    limits: [api]
default: [api, calls]
EOT

books=${SLUICE_TEST_POSTGRES:-sqlite:./books.db}
begin() {
    start_virtual -c "${policy-p.yaml}" --threads 1 --store memory: --usage "$books"
    clock 2026-11-15T12:00:00Z
}
# cli WORD...: a command of an operator.
cli() {
    run env USER=joe SUDO_USER= "$sluice" "$@" --admin-url "http://$admin"
}
# by_route USER, by_limit USER: the verdict.
by_route() {
    ask /v1/check -d '{"method":"GET","path":"/x","user":"'"$1"'"}'
}
by_limit() {
    ask /v1/check -d '{"limit":"api","key":"'"$1"'"}'
}
lacks() {
    [[ $1 != *"$2"* ]]
}
begin

# ---- every way in ----

cli block user ann until=2h note='scraping the catalogue'
check 'a user is blocked' is 0
check 'and the end is said' has "$out" 'user ann is blocked until 2026-11-15T14:00:00Z'
by_route ann
check 'by route' has "$out" '"allowed":false,"status":403,"code":"BLOCKED","message":"The caller is blocked.'
check 'with the wait' has "$out" '"retry_after_ms":7200000'
tell '/v1/top?limit=(blocked)'
check 'in /v1/top' has "$out" '"limit":"(blocked)","scope":"user","key":"ann","cut":false,"denied":1'
by_limit ann
check 'by limit' has "$out" '"status":403,"code":"BLOCKED"'
ask /v1/check -d '{"limit":"both","key":"acme:ann"}'
check 'by a key of two names' has "$out" '"status":403,"code":"BLOCKED"'
tell '/v1/top?limit=(blocked)'
check 'all as one caller' has "$out" '"limit":"(blocked)","scope":"user","key":"ann","cut":false,"denied":3'
check 'by its own name' lacks "$out" acme
ask /v1/check -d '{"method":"GET","path":"/x","user":"bob"}'
check 'another user passes' has "$out" '"allowed":true'
auth ann
check 'forward-auth' answers 403
ask /json -d '{"domain":"edge","descriptors":[{"entries":[{"key":"user","value":"ann"}]}]}'
check 'descriptors' has "$out" '"overallCode":"OVER_LIMIT"'
ask /v1/explain -d '{"method":"GET","path":"/x","user":"ann"}'
check 'explain says it' has "$out" 'blocked  user, by joe, until 2026-11-15T14:00:00Z: '
check 'and why' has "$out" 'scraping the catalogue'
by_route ann
check 'the verdict does not have the note' lacks "$out" scraping

# ---- the list, the audit ----

cli block
check 'the blocks are listed' has "$out" 'user   ann  2026-11-15T14:00:00Z  joe  scraping the catalogue'
tell /v1/blocks
check 'as JSON' has "$out" '{"blocks":[{"scope":"user","id":"ann","until":"2026-11-15T14:00:00Z","by":"joe","note":"scraping the catalogue","at":"2026-11-15T12:00:00Z"}]}'
tell '/v1/audit?limit=1'
check 'the audit has it' has "$out" '"by":"joe","origin":"admin 127.0.0.1","what":"block","scope":"user","id":"ann","note":"scraping the catalogue","before":null,"after":{"until":"2026-11-15T14:00:00Z"}'

# ---- an address, a network ----

# from ADDRESS: the verdict of a request from there.
from() {
    ask /v1/check -d '{"method":"GET","path":"/x","user":"bob","ip":"'"$1"'"}'
}
cli block ip 203.0.113.7 until=2h note='port scans'
check 'an address is blocked' has "$out" 'ip 203.0.113.7 is blocked until 2026-11-15T14:00:00Z'
from 203.0.113.7
check 'its requests, by route' has "$out" '"allowed":false,"status":403,"code":"BLOCKED","message":"The caller is blocked.'
check 'with the wait' has "$out" '"retry_after_ms":7200000'
from ::ffff:203.0.113.7
check 'in another notation' has "$out" '"code":"BLOCKED"'
from 203.0.113.8
check 'another address passes' has "$out" '"allowed":true'
ask /v1/check -d '{"limit":"address","key":"203.0.113.7"}'
check 'by limit, as the key' has "$out" '"status":403,"code":"BLOCKED"'
ask /v1/check -d '{"limit":"api","key":"bob","ip":"203.0.113.7"}'
check 'by limit, as a member' has "$out" '"status":403,"code":"BLOCKED"'
ask /v1/auth -H 'X-Original-URI: /x' -H 'X-Original-Method: GET' -H 'X-Forwarded-For: 203.0.113.7'
check 'forward-auth' answers 403
ask /json -d '{"domain":"edge","descriptors":[{"entries":[{"key":"remote_address","value":"203.0.113.7"}]}]}'
check 'descriptors' has "$out" '"overallCode":"OVER_LIMIT"'
tell '/v1/top?limit=(blocked)'
check 'in /v1/top' has "$out" '"limit":"(blocked)","scope":"ip","key":"203.0.113.7","cut":false,"denied":6'
ask /v1/explain -d '{"method":"GET","path":"/x","ip":"203.0.113.7"}'
check 'explain says it' has "$out" 'blocked  ip 203.0.113.7, by joe, until 2026-11-15T14:00:00Z: '
check 'and why' has "$out" 'port scans'
tell /v1/denials?scope=ip\&id=203.0.113.7
check 'the denials' has "$out" '"reason":"blocked"'
cli why ip=203.0.113.7 at=2026-11-15T12:00:00Z within=1h
check 'sluice why' has "$out" 'The caller is blocked.'
tell '/v1/audit?limit=1'
check 'the audit has it' has "$out" '"what":"block","scope":"ip","id":"203.0.113.7","note":"port scans","before":null,"after":{"until":"2026-11-15T14:00:00Z"}'
cli block
check 'and the list' has "$out" 'ip     203.0.113.7  2026-11-15T14:00:00Z  joe  port scans'

cli block ip 198.51.100.0/24
check 'a network' has "$out" 'ip 198.51.100.0/24 is blocked'
from 198.51.100.99
check 'has its addresses' has "$out" '"code":"BLOCKED"'
check 'without a wait' has "$out" '"retry_after_ms":null'
from 198.51.101.1
check 'and no other' has "$out" '"allowed":true'
cli block ip 198.51.100.99 until=1h
from 198.51.100.99
check 'of two the one that ends last' has "$out" '"retry_after_ms":null'
cli block ip 2001:db8:1:2:3::4
check 'IPv6 by the prefix of the policy' has "$out" 'ip 2001:db8:1:2::/64 is blocked'
from 2001:db8:1:2:ffff::1
check 'any address of it' has "$out" '"code":"BLOCKED"'
from 2001:db8:1:3::1
check 'not of the next' has "$out" '"allowed":true'
ask /v1/check -d '{"limit":"address","key":"2001:db8:1:2::/64"}'
check 'its key' has "$out" '"code":"BLOCKED"'
tell /v1/blocks/ip/2001:db8:7::1/128 -X POST
check 'one address of IPv6' has "$out" '"id":"2001:db8:7::1/128"'
from 2001:db8:7::2
check 'and only that' has "$out" '"allowed":true'
from 2001:db8:7::1
check 'which is blocked' has "$out" '"code":"BLOCKED"'
tell /v1/blocks/ip/64:ff9b::192.0.2.0/120 -X POST
check 'a translated network is the one behind it' has "$out" '"id":"192.0.2.0/24"'
from 192.0.2.200
check 'of IPv4' has "$out" '"code":"BLOCKED"'
ask /v1/check -d '{"method":"GET","path":"/x","user":"bob"}'
check 'without an address no block of one' has "$out" '"allowed":true'
stop
begin
from 203.0.113.7
check 'a restart keeps them' has "$out" '"code":"BLOCKED"'
cli unblock ip 198.51.100.7
check 'an address of a blocked network is not a block' is 2
cli unblock ip 198.51.100.0/24 note='a mistake'
check 'the network is' has "$out" 'ip 198.51.100.0/24 is no longer blocked'
from 198.51.100.99
check 'the block of the address remains' has "$out" '"retry_after_ms":3600000'
for one in 198.51.100.99 2001:db8:1:2:: 2001:db8:7::1%2F128 192.0.2.0/24; do
    tell "/v1/blocks/ip/$one" -X DELETE
    check "ended: $one" has "$out" '"blocked":false'
done
from 2001:db8:1:2:ffff::1
check 'at once' has "$out" '"allowed":true'
clock 2026-11-15T14:00:00Z
from 203.0.113.7
check 'a block ends by itself' has "$out" '"allowed":true'
clock 2026-11-15T12:00:00Z
tell /v1/blocks/ip/203.0.113.7 -X DELETE
tell /v1/blocks/ip/unknown -X DELETE
check 'what has no address' answers 404

# ---- a restart, a rewritten subject, an alias ----

stop
begin
by_route ann
check 'a restart keeps it' has "$out" '"code":"BLOCKED"'
cli subject set user ann plan= aliases=ann@example.org --replace
by_route ann
check 'a new record keeps it' has "$out" '"code":"BLOCKED"'
by_route ann@example.org
check 'an alias is blocked, too' has "$out" '"code":"BLOCKED"'
cli unblock user ann@example.org note='talked to them'
check 'and ends it' has "$out" 'user ann@example.org is no longer blocked'
by_route ann
check 'at once' has "$out" '"allowed":true'
tell '/v1/audit?limit=1'
check 'in the audit' has "$out" '"by":"joe","origin":"admin 127.0.0.1","what":"unblock","scope":"user","id":"ann@example.org","note":"talked to them"'
cli unblock user ann
check 'there is no other' is 2
check 'which is said' has "$err" 'user/ann is not blocked'

# ---- without an end, and over ----

tell /v1/blocks/org/acme -X POST
check 'an empty body is a block without an end' has "$out" '{"scope":"org","id":"acme","blocked":true,"until":null}'
ask /v1/check -d '{"method":"GET","path":"/x","user":"bob","org":"acme"}'
check 'of an organisation' has "$out" '"code":"BLOCKED"'
check 'without a wait' has "$out" '"retry_after_ms":null'
ask /v1/check -d '{"limit":"api","key":"ann","org":"acme"}'
check 'of the organisation of a key' has "$out" '"code":"BLOCKED"'
tell '/v1/top?limit=(blocked)'
check 'which /v1/top names' has "$out" '"limit":"(blocked)","scope":"org","key":"acme","cut":false,"denied":2'
check 'and not the key' lacks "$out" '"scope":"org","key":"ann"'
cli block user eve until=1m
clock 2026-11-15T12:01:00Z
by_route eve
check 'a block ends by itself' has "$out" '"allowed":true'
cli block
check 'and is not listed' lacks "$out" eve
tell /v1/blocks/org/acme -X DELETE
check 'ended over HTTP' has "$out" '{"scope":"org","id":"acme","blocked":false}'
tell /v1/subjects/user/ann -X DELETE

# ---- blocked, and an alias later ----

cli block user mallory@example.org
cli subject set user m7 plan= aliases=mallory@example.org
by_route mallory@example.org
check 'a blocked name that becomes an alias stays blocked' has "$out" '"code":"BLOCKED"'
cli unblock user mallory@example.org
check 'and can be unblocked' is 0
by_route mallory@example.org
check 'then it passes' has "$out" '"allowed":true'
tell /v1/subjects/user/m7 -X DELETE

# ---- a date is blocked all day ----

cli block user eve until=2026-11-15
check 'today is not over' has "$out" 'user eve is blocked until 2026-11-16T00:00:00Z'
stop
sed '/^limits:/a\  day: { kind: quota, per: user, zone: America/New_York, rate: 900/day }' p.yaml >zone.yaml
policy=zone.yaml begin
cli block user eve until=2026-11-15
check 'it ends in the zone of the policy' has "$out" 'user eve is blocked until 2026-11-16T05:00:00Z'
cli unblock user eve
stop
begin

# ---- a block registers no subject ----

# passes_without USER, limited USER: is there no limit, or is there?
passes_without() {
    by_route "$1"
    has "$out" '"allowed":true' && lacks "$out" '"name":"api"'
}
limited() {
    by_route "$1"
    has "$out" '"name":"api"'
}
stop
sed 's/trusted_proxies/unknown_subject: pass, &/' p.yaml >pass.yaml
policy=pass.yaml begin
check 'without subjects no caller passes' limited bob
cli block user mallory
check 'a block does not change it' limited bob
check 'also for a new caller' limited cid
cli unblock user mallory
check 'nor does its end' limited bob
stop
policy=pass.yaml begin
cli block user mallory
stop
policy=pass.yaml begin
check 'nor a restart' limited bob
cli subject set user ann plan=
check 'the first subject does' passes_without bob
cli subject rm user ann
check 'and the last one ends it' limited bob
cli unblock user mallory
stop
begin

# ---- what is refused ----

tell /v1/blocks/user/ann -X POST -d '{"until":"2026-11-01"}'
check 'an end in the past' answers 400
check 'with what to write' has "$out" 'has passed; write a later time'
tell /v1/blocks/user/ann -X POST -d '{"until":""}'
check 'an empty end' answers 400
check 'with what to do' has "$out" 'leave it out for a block without an end'
cli block user ann until=
check 'also on the command line' is 2
tell /v1/blocks/user/a%01b -X POST
check 'an id with a control character' has "$out" 'bytes of UTF-8 without control characters'
tell /v1/blocks/user/ann -X POST -d '{"why":"x"}'
check 'an unknown member' answers 400
tell /v1/blocks/team/x -X POST
check 'an unknown scope' has "$out" 'write /v1/blocks/user/ID or /v1/blocks/org/ID'
tell /v1/blocks/user/a/b -X POST
check 'a slash' answers 404
cli block ip 10.0.0.256
check 'what is no address' has "$err" '"10.0.0.256" is not an IP address or a network'
cli block ip 10.0.0.1/24
check 'a network with bits behind its prefix' has "$err" 'write 203.0.113.7 or 203.0.113.0/24'
cli block team x
check 'a scope that cannot be blocked' has "$err" 'write user ID, org ID or ip ADDRESS'
cli block user ann end=2h
check 'an unknown setting' has "$err" 'write until=TIME or note=TEXT'
tell /v1/blocks/user/ann -X DELETE
check 'nothing was blocked' answers 404
ask /v1/blocks
check 'the http listener has none' answers 404
cli block user ann
cli subject erase user ann
cli block
check 'an erased subject leaves none' lacks "$out" ann
stop

# ---- two daemons ----

shared=${SLUICE_TEST_POSTGRES:-sqlite:./two.db?shared}
start -c p.yaml --threads 1 --store memory: --usage "$shared"
first=$pid first_admin=$admin
start -c p.yaml --threads 1 --store memory: --usage "$shared"
by_route ann
check 'the other lets it pass' has "$out" '"allowed":true'
fetch "http://$first_admin/v1/blocks/user/ann" -X POST -d '{"until":"2h"}'
refused() {
    by_route ann
    has "$out" '"code":"BLOCKED"'
}
check 'and then knows the block' until_ refused
from 203.0.113.7
check 'of addresses, too: it passes' has "$out" '"allowed":true'
fetch "http://$first_admin/v1/blocks/ip/203.0.113.0%2F24" -X POST
denied_there() {
    from 203.0.113.7
    has "$out" '"code":"BLOCKED"'
}
check 'and then knows it' until_ denied_there
fetch "http://$first_admin/v1/blocks/ip/203.0.113.0%2F24" -X DELETE
passes_there() {
    from 203.0.113.7
    has "$out" '"allowed":true'
}
check 'and its end' until_ passes_there
stop
kill "$first"
until_ gone "$first"
finish
