#!/usr/bin/env bash
# unsteady.sh ROOT -- a program that starts processes has a second chance, one
# that does not has none; tried on a project of a few such programs.
# shellcheck source=test/support/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"
unset MESON_TEST_ITERATION SL_PROP_STEPS
patience=1 at_a_time=2
: "$patience$at_a_time"
# shellcheck source=scripts/lib/tests.sh
. "$root/scripts/lib/tests.sh"
mkdir scripts && ln -s "$root/scripts/lib" scripts/lib

# As stages.sh has it.
tally() {
    echo "$2 $3 $4" >"build/logs/$1.tally"
}

# program WHEN NAME: says two words of TAP, the second one badly when it is run
# for the first WHEN times.
cat >program <<'EOT'
#!/bin/sh
echo run >>"$2.runs"
echo 1..2
echo ok 1
if [ "$(wc -l <"$2.runs")" -gt "$1" ]; then
    echo ok 2
else
    echo not ok 2
fi
EOT
chmod +x program

# project LINE...: SUITE NAME WHEN of each test; runs them all. Meson names no
# suites where there is but one, so there is always another.
project() {
    local line suite name when

    rm -rf build meson.build ./*.runs
    mkdir -p build/logs
    {
        echo "project('p')"
        echo "program = find_program('program')"
        for line in 'cli other 0' "$@"; do
            read -r suite name when <<<"$line"
            echo "test('$name', program, args: ['$when', '$PWD/$name'],"
            echo "  suite: '$suite'.split('+'), protocol: 'tap')"
        done
    } >meson.build
    run meson setup build/x
    run run_tests build/x stage ''
    tally=$(cat build/logs/stage.tally)
}

runs() {
    cat "${@/%/.runs}" | wc -l
}

project 'unit a 0' 'daemon b 0'
check 'all pass' is 0
check 'and are counted' test "$tally" = '6 0 3 programs, 6 cases'
check 'nothing is run twice' test "$(runs a b other)" = 3

project 'unit a 0' 'daemon+threads b 1' 'style c 0'
check 'one that starts processes and then passes' is 0
check 'is named' test "$tally" = '8 0 4 programs, 8 cases, unsteady: b'
check 'what it said first is kept' grep -qx 'not ok 2' build/logs/stage.b.first
check 'and what it said then' grep -qx 'ok 2' build/logs/stage.b.second
check 'no other is run twice' test "$(runs a c other)" = 3

project 'daemon b 2'
check 'one that fails twice has failed' is 1
check 'and is counted once, and named' test "$tally" = \
    '3 1 2 programs, 4 cases, failed: b'
check 'and what it printed is kept' grep -qx 'not ok 2' build/logs/stage.failed
check 'after two runs' test "$(runs b)" = 2

project 'unit a 1' 'prop b 1' 'conform c 1'
check 'those without processes have no second chance' is 3
check 'nor were they run again' test "$(runs a b c)" = 3
project 'unit+daemon a 1' 'style b 1'
check 'nor has one that is both' is 2

project 'unit a 1' 'daemon b 1'
check 'beside one that has none it does not help' is 2
project 'daemon a 1' 'daemon b 1' 'shared c 1' 'redis d 1'
check 'many that fail are no accident' is 4

project 'daemon b 0'
sed -i 's/"stdout": "/&# x.c:1:2: runtime error: overflow\\n/' \
    build/x/meson-logs/stage.json
run count_cases stage build/x/meson-logs/stage.json
check 'what a sanitizer says of undefined steps fails, too' is 1

project 'daemon b 0'
echo race >build/logs/stage.report.17
run count_cases stage build/x/meson-logs/stage.json
check 'a report of a sanitizer fails whatever passed' is 1
check 'and is shown' has "$(cat build/logs/stage.failed)" race

finish
