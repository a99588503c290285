#!/usr/bin/env bash
# runner.sh RUN -- the runner of bad policies fails on a wrong expectation and
# on a malformed file.
# shellcheck disable=SC2317 # functions are called by check
set -uo pipefail

program=$(realpath "$1")
# shellcheck source=test/support/lib.sh
. "$(dirname "$(realpath "$0")")/../support/lib.sh"

# good NAME: a correct case.
good() {
    printf '%s\n' "== $1" 'sluice: 1' 'mode:' -- wrong >"$1.one"
    mkdir one && mv "$1.one" one/one.bad
    "$program" --write one >/dev/null
    cat one/one.bad
    rm -r one
}

# try LINE...: runs a file of these lines after a correct case.
try() {
    rm -rf cases
    mkdir cases
    good before >cases/x.bad
    (($# == 0)) || printf '%s\n' "$@" >>cases/x.bad
    run "$program" cases
}

mapfile -t second < <(good second)
mapfile -t before < <(good before)
try "${second[@]}"
check 'two correct cases pass' is 0
check 'and are counted' has "$out" '1..2'
check 'and named' has "$out" 'ok 2 - second.yaml'

try "${second[@]/yaml:2/yaml:3}"
check 'a wrong character in the text fails' is 1
check 'and is named' has "$out" 'not ok 2 - second.yaml'
try "${second[@]}" ''
check 'a line too many in the text fails' is 1
try "${second[@]:0:${#second[@]}-1}"
check 'a line too few in the text fails' is 1
try '== second' 'sluice: 1' 'limits: {}' -- 'second.yaml:1:1: wrong'
check 'a policy that is accepted fails' is 1

try "${second[@]/#--/- -}"
check 'a last case without "--" fails' is 1
check 'with the reason' has "$out" 'second.yaml has no line "--"'
try '== empty' "${second[@]}"
check 'a case without "--" before another one fails' is 1
check 'the one before it passes' has "$out" 'ok 1 - before.yaml'
check 'the one after it passes' has "$out" 'ok 3 - second.yaml'
check 'and it fails itself' has "$out" 'not ok 2 - empty.yaml'

try "${before[@]}"
check 'a name that occurs twice fails' is 1
check 'with the reason' has "$out" 'before occurs twice'
try
cp cases/x.bad cases/y.bad
run "$program" cases
check 'so does a name in two files' is 1

try
sed -i '1i mode: off' cases/x.bad
run "$program" cases
check 'a line before the first case fails' is 1
try
: >cases/y.bad
run "$program" cases
check 'an empty file fails' is 1
rm cases/*
run "$program" cases
check 'a folder without cases fails' is 1

try
run "$program" --warn cases
check 'refused policies are not looked for among the warnings' is 1
mv cases/x.bad cases/x.warn
run "$program" --warn cases
check 'a policy that is refused fails there' is 1

try '== second' 'sluice: 1' 'mode:' -- wrong
cp cases/x.bad kept
run "$program" --write cases
check 'the right text can be written' is 0
run "$program" cases
check 'and then passes' is 0
check 'nothing else has changed' test "$(diff kept cases/x.bad | grep -c '^<')" = 1

finish
