#!/usr/bin/env bash
# registered.sh -- many subjects: imports, pages, kill -9 while they are written,
# and the command that does it for people.

# shellcheck source=test/support/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"

cat >p.yaml <<'EOT'
sluice: 1
plans: { default: free, free: {}, pro: {} }
limits:
  api: { kind: fixed-window, per: user, rate: { free: 2/hour, pro: 20/hour } }
default: [api]
EOT

subject() {
    run "$sluice" subject --admin-url "http://$admin" "$@"
}

# ---- the command ----

start -c p.yaml
subject set user ann plan=pro expires=2100-01-01 roles=a,b aliases=ann@x.org
check 'set' is 0
subject set user ann api=9/hour until=30d note='launch week' --by ops
check 'and more of it' has "$out" ', by ops: launch week'
subject get user ANN@x.org
check 'get' has "$out" 'plan     pro, until 2100-01-02T00:00:00Z'
subject set user ann api=
check 'an override is taken away' test "${out/override/}" = "$out"
subject set user ann plan=pto
check 'a slip' is 2
check 'has a sentence' has "$err" 'did you mean "pro"?'
subject set user ann pro
check 'words without =' has "$err" 'write plan=NAME'
subject set team x plan=pro
check 'users and organisations' is 2
subject gte user ann
check 'verbs' has "$err" 'write get'
subject get user
check 'and what they need' has "$err" 'usage: sluice subject get SCOPE ID'
subject rm user ann
check 'rm' is 0
subject get user ann
check 'no subject' is 2

# ---- imports ----

cat >some.csv <<'EOT'
scope,id,plan,roles,aliases,note,override.api,until
org,acme,free,,,,,

user,"o'neil, ""pat""",pro,a;b,pat@x.org,"two
lines",7/hour,30d
EOT
subject import some.csv
check 'a note has one line' is 1
check 'the one that has two is named' has "$err" 'some.csv:4: "note" has control'
sed -z 's/two\n/two /' some.csv >good.csv
subject import good.csv
check 'quotes, commas, blank lines' is 0
subject get user "o'neil, \"pat\""
check 'are what they were' has "$out" 'override api = 7/hour'
printf '{"scope":"user","id":"eve","plan":"pro"}\n\n{"scope":"user"}\n' >bad.jsonl
subject import bad.jsonl
check 'a line without an id' is 1
check 'is named' has "$err" 'bad.jsonl:3: a subject needs an id'
subject get user eve
check 'and nothing of its batch is there' is 2
printf 'scope,id,plam\nuser,eve,pro\n' >bad.csv
subject import bad.csv
check 'a column that there is not' has "$err" 'did you mean "plan"?'
printf 'id,plan\neve,pro\n' >bad.csv
subject import bad.csv
check 'or that is missing' has "$err" 'including scope and id'
subject import nowhere.csv
check 'a file that there is not' has "$err" 'cannot read nowhere.csv'

# Twenty thousand; two where that takes long.
many=20000
[[ -z ${SL_SHORT-} ]] || many=2000
seq -f 'user,u%06g,pro' "$many" | sed '1i scope,id,plan' >many.csv
subject import many.csv
check 'many thousand' test "$out" = \
    "imported $many subjects, $many of them new or changed"
subject import many.csv
check 'again: nothing changes' test "$out" = \
    "imported $many subjects, 0 of them new or changed"
ask /v1/check -d '{"path":"/x","user":"u001999"}'
check 'they count' has "$out" '"limit":20,'
subject list --scope user --prefix u0019
check 'a hundred of them, and a heading' test "$(wc -l <<<"$out")" = 101
subject list -o json
check 'all of them as lines' test "$(wc -l <<<"$out")" = $((many + 2))
"$sluice" subject --admin-url "http://$admin" list -o json >backup.jsonl
stop
rm sluice.db*
start -c p.yaml
subject import backup.jsonl
check 'a backup is read again' has "$out" "imported $((many + 2)) subjects"
tell '/v1/subjects?limit=2&scope=user&prefix=u00000'
check 'pages' has "$out" '"next":"user/u000002"'
tell '/v1/subjects?limit=2&after=user/u000002'
check 'follow each other' has "$out" '"id":"u000003"'
tell '/v1/subjects?limit=0'
check 'of some length' answers 400

# A line in the middle: what came before its batch is in, and it goes on there.
sed '1201s/pro/gold/' many.csv | sed 's/,u/,v/' >gap.csv
subject import gap.csv
check 'a line in the middle' is 1
check 'says where to go on' has "$err" 'gap.csv:1201: the policy has no plan "gold"'
check 'with what is in' has "$err" 'the 1000 subjects before line 1002 are imported'
sed -i '1201s/gold/pro/' gap.csv
subject import gap.csv --from 1002
check 'and goes on' has "$out" "imported $((many - 1000)) subjects"

# ---- kill -9 ----

# Write one after the other, and note what was acknowledged.
write_on() {
    local i

    for ((i = 0; i < 100000; i++)); do
        curl -sf -X PUT "http://$admin/v1/subjects/user/k$i" \
            -d '{"plan":"pro"}' -o /dev/null || return
        echo "k$i" >>"$folder/acknowledged.$1"
    done
}

enough() {
    [[ $(wc -l <"$folder/acknowledged.$1") -ge 25 ]]
}

lost=0 total=0
for round in 1 2 3 4 5; do
    : >"$folder/acknowledged.$round"
    write_on "$round" &
    writer=$!
    until_ enough "$round"
    end_by KILL
    wait "$writer"
    start -c p.yaml
    while read -r id; do
        total=$((total + 1))
        tell "/v1/subjects/user/$id"
        [[ $code = 200 ]] || lost=$((lost + 1))
    done < <(tail -n 40 "$folder/acknowledged.$round")
    "$sluice" subject --admin-url "http://$admin" list --prefix k -o json |
        sed 's/.*"id":"\(k[0-9]*\)".*/\1/' | sort >there
    sort "$folder/acknowledged.$round" >want
    lost=$((lost + $(comm -23 want there | wc -l)))
done
check "nothing acknowledged was lost ($total looked at)" test "$lost" = 0
check 'and there was something' test "$total" -gt 20
stop

finish
