# shellcheck shell=bash
# stages.sh -- the stages of scripts/test, one function each.
#
# A stage prints whatever it likes (it ends in build/logs/STAGE.log), leaves
# its tally, and fails by returning non-zero. Stages may run side by side, so
# each builds in a folder of its own, or waits until it is built.
#
# The plain build runs every program. What is left out, so that a run stays
# below twenty minutes on two cores, and why that is safe:
#
#   asan      foreign clients, proxies and dashboards (clients, proxies, ops):
#             they talk to the doors that unit, daemon and fuzz tests open under
#             the same sanitizers. Flows once more by another protocol or store
#             (again): the codecs and stores have suites of their own here. It
#             counts the lines that were run, too: one build and one run for
#             both questions, and -O1, which compiles in half the time.
#             And in it and in tsan, by SL_SHORT in the environment: days of one
#             request a second in daemon-flows, nine of ten browsers, strangers
#             and imported subjects in daemon tests, two of three kills in
#             those of threads; plain has them
#   plain     days of one request a second over the Redis protocol and with a
#             Redis (daemon-flows and the engine's own flows have them), and
#             flows of more than five hundred in DynamoDB and gRPC
#   memcheck  zoneinfo, yaml_bombs: thousands of files and megabytes through
#             code that its smaller tests run through as well
#   mutants   three quarters of the list, another quarter being tried each day;
#             and tests after the one that notices, which test/mutants/killers
#             remembers: a mistake that this one overlooks meets all the others
#   properties under sanitizers take no more steps than the mutants need to be
#             caught; the analyzer of clang-tidy stops early
#
# scripts/test --long leaves nothing out but for memcheck.

# The long ones first, so that none is left over at the end. Memcheck wants what
# plain has built.
all_stages=(asan plain check mutants tsan fuzz memcheck smoke)

# How long things take. A property test takes SL_PROP_STEPS random steps, or
# SL_PROP_TIMES as many as it would by itself; sanitizers are slow.
plain_times=1
asan_steps=20000
fuzz_seconds=3
mutant_shares=4
patience=3 # a test may take so many times as long as it says in meson.build

asan_without=(--no-suite again --no-suite clients --no-suite proxies
    --no-suite ops)

least_coverage=90 # percent of lines

# The sanitizers: quick to compile, and lines enough for a trace.
sanitized=(-Doptimization=1 -Ddebug=false -Db_lundef=false)

# Most tests wait for processes and sockets, so two cores have time for four.
at_a_time=$((2 * $(nproc)))

# scripts/test --long: for a night, not for a commit.
take_longer() {
    plain_times=10
    asan_steps= # as many as in plain otherwise
    fuzz_seconds=300
    mutant_shares=1
    patience=9
    asan_without=()
    export SL_LONG=1 # a thousand kills and stops instead of a hundred
    export SL_TIDY_STATES=225000 # as many as clang-tidy itself would
}

# A build that is slow asks less of the same: what it takes to reach every line
# and every meeting of threads, and not how often.
share_less() {
    [[ -n ${SL_LONG-} ]] || export SL_SHORT=1
}

# tally STAGE PASSED FAILED NOTE: what the stage came to.
tally() {
    echo "$2 $3 $4" >"build/logs/$1.tally"
}

# ---- source ----

stage_check() {
    local status=0 examples rules

    scripts/check --self-test | tee build/logs/check.examples
    scripts/check --all | tee build/logs/check.rules || status=$?
    examples=$(tail -n 1 build/logs/check.examples)
    rules=$(tail -n 1 build/logs/check.rules)
    tally check "$(number_before 'rules kept' "$rules")" \
        "$(number_before broken "$rules")" "${rules#*: }, ${examples#*: }"
    return "$status"
}

# The number that stands before the words $1 in the sentence $2.
number_before() {
    sed -nE "s/^(.*[^0-9])?([0-9]+) $1.*/\2/p" <<<"$2"
}

# ---- tests, built in different ways ----

# Build all of folder $1, which two stages may want.
build() {
    flock "$1.building" ninja -C "$1"
}

stage_plain() {
    configure_plain
    build build/plain
    export SL_PROP_TIMES=$plain_times
    run_tests build/plain plain '' --no-rebuild
}

# Where a sanitizer puts what it finds for stage $1, in whatever process it is:
# what a test's daemon prints ends in a file that nobody reads. Leaves $reports.
report_to() {
    reports="log_path='$PWD/build/logs/$1.report'"
}

# Leaks, stray pointers, undefined steps; and which lines nobody ran. Threads
# count together without locks, which would take four times as long: some counts
# are lost, but never all of a line. Warnings are for plain: among so much that
# was added, gcc sees what is not there.
stage_asan() {
    local status=0

    configure build/asan "${sanitized[@]}" \
        -Db_sanitize=address,undefined -Db_coverage=true \
        '-Dc_args=-g1 -fno-sanitize-recover=all -fprofile-update=single'
    share_less
    report_to asan
    export ASAN_OPTIONS=detect_leaks=1:strict_string_checks=1:$reports
    export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1:$reports
    find build/asan -name '*.gcda' -delete
    build build/asan # all of it: what nobody runs counts, too
    run_tests build/asan asan "$asan_steps" --no-rebuild \
        "${asan_without[@]}" || status=$?
    measure_coverage || status=$?
    return "$status"
}

# The programs count too: everything below src/ is the product. Where counts
# were lost gcov may come to a number below zero, which is passed over. Adds to
# the tally of asan.
measure_coverage() {
    local percent good bad note

    rm -f build/logs/coverage.*
    gcovr --root . --filter 'src/' --object-directory build/asan \
        --exclude-throw-branches --gcov-ignore-parse-errors --txt build/logs/coverage.txt \
        --json-summary build/logs/coverage.json \
        build/asan || return # not all of build
    cat build/logs/coverage.txt
    percent=$(python3 -c 'import json, sys
print(json.load(sys.stdin)["line_percent"])' <build/logs/coverage.json)
    read -r good bad note <build/logs/asan.tally
    if awk -v got="$percent" -v want="$least_coverage" \
        'BEGIN { exit got < want }'; then
        tally asan $((good + 1)) "$bad" "$note, $percent % of lines"
        return
    fi
    tally asan "$good" $((bad + 1)) \
        "$note, $percent % of lines: less than $least_coverage %"
    return 1
}

# What the sanitizers do not see: a decision on memory nobody has set. Only in
# the rooms where everything happens in one thread; valgrind is slow at others.
# And not the test that brings a malloc of its own: valgrind has another.
stage_memcheck() {
    local names

    configure_plain
    build build/plain
    mapfile -t names < <(
        unit_tests build/plain base core wire policy engine |
            grep -vxE 'no_memory|zoneinfo|yaml_bombs'
    )
    run_tests build/plain memcheck '' "${names[@]}" --no-rebuild \
        --wrapper 'valgrind -q --error-exitcode=99'
}

# unit_tests FOLDER ROOM...: the names of the unit tests of these rooms.
unit_tests() {
    meson introspect --tests "$1" | python3 -c '
import json, sys

for test in json.load(sys.stdin):
    if any("/unit/%s/" % room in test["cmd"][0] for room in sys.argv[1:]):
        print(test["name"])
' "${@:2}"
}

stage_tsan() {
    configure_plain
    if [[ $(meson introspect --tests build/plain) != *':threads"'* ]]; then
        tally tsan 0 0 'skipped: no test has threads yet'
        return
    fi
    configure build/tsan "${sanitized[@]}" -Db_sanitize=thread -Dc_args=-g1
    share_less
    report_to tsan
    export TSAN_OPTIONS=halt_on_error=1:$reports
    run_tests build/tsan tsan "$asan_steps" --suite threads
}

# ---- hostile ----

# The targets bring their own sanitizers. Two run at a time.
stage_fuzz() {
    local program programs=() passed=0 notes=

    CC=clang configure build/fuzz "${sanitized[@]}" -Dfuzz=true -Dc_args=-g1
    fuzz_targets | xargs -d '\n' ninja -C build/fuzz
    mapfile -t programs < <(fuzz_targets | sed 's|^|build/fuzz/|')
    rm -f "${programs[@]/%/.passed}"
    for program in "${programs[@]}"; do
        while (($(jobs -pr | wc -l) >= 2)); do
            wait -n || true # each leaves a file if all is well
        done
        fuzz "$program" &
    done
    wait
    for program in "${programs[@]}"; do
        [[ ! -f $program.passed ]] || passed=$((passed + 1))
        notes+=", ${program##*/fuzz_} $(executions "$program")"
    done
    tally fuzz "$passed" $((${#programs[@]} - passed)) "runs: ${notes#, }"
    ((passed > 0 && passed == ${#programs[@]}))
}

fuzz_targets() {
    meson introspect --targets build/fuzz | python3 -c '
import json, os, sys

for target in json.load(sys.stdin):
    if target["name"].startswith("fuzz_"):
        print(os.path.relpath(target["filename"][0], "build/fuzz"))
'
}

# Each target works on a copy of its corpus, so that the tree stays as it is.
# What it finds is left beside the program, and whether it found nothing.
fuzz() {
    local program=$1 name=${1##*/fuzz_} words=()
    local corpus=build/fuzz/corpus/$name

    mkdir -p "$corpus"
    cp -r "test/fuzz/corpus/$name/." "$corpus"
    if [[ -f test/fuzz/$name.dict ]]; then
        words=(-dict="test/fuzz/$name.dict")
    fi
    UBSAN_OPTIONS=print_stacktrace=1 "$program" \
        -max_total_time="$fuzz_seconds" -timeout=10 -rss_limit_mb=2048 \
        -print_final_stats=1 -artifact_prefix="$program." "${words[@]}" \
        "$corpus" >"$program.log" 2>&1 || {
        printf '== %s failed\n%s\n' "$name" "$(tail -n 60 "$program.log")"
        return 1
    }
    : >"$program.passed"
    echo "== $name, $fuzz_seconds s: $(executions "$program") runs"
}

executions() {
    sed -nE 's/^stat::number_of_executed_units: *//p' "$1.log" | tail -n 1
}

# Another share of them every day, so that all have had their turn after some.
stage_mutants() {
    local line status=0 share

    share=$(($(date +%s) / 86400 % mutant_shares + 1))/$mutant_shares
    test/mutants/run --share "${SL_MUTANT_SHARE:-$share}" |
        tee build/logs/mutants.results || status=$?
    grep -vE '^caught by' build/logs/mutants.results || true
    line=$(grep '^mutants: [0-9]' build/logs/mutants.results) || return 1
    tally mutants "$(number_before caught "$line")" \
        "$(number_before survived "$line")" \
        "${line#mutants: }: share ${SL_MUTANT_SHARE:-$share} of the list"
    return "$status"
}

# ---- what a newcomer does ----

# In a copy of the sources, as after a clone.
stage_smoke() {
    rm -rf build/newcomer
    mkdir -p build/newcomer
    list_sources | tar -cf - -T - | tar -xf - -C build/newcomer
    (
        cd build/newcomer
        mkdir -p build/logs
        follow_the_readme
        use_what_was_built
    )
    tally smoke 11 0 "scripts/run starts a daemon whose lines answer and \
Ctrl-C ends it, four libraries link, bin/sluice passes the presets"
}

list_sources() {
    git -c safe.directory='*' ls-files -co --exclude-standard |
        while IFS= read -r file; do
            [[ ! -f $file ]] || printf '%s\n' "$file"
        done
}

# scripts/run on free ports, in a group of its own so that Ctrl-C can be sent
# to all of it, as a terminal does.
follow_the_readme() {
    local log=build/logs/run pid line tries=0

    setsid scripts/run --listen-http 127.0.0.1:0 --listen-admin 127.0.0.1:0 \
        --listen-grpc 127.0.0.1:0 --listen-resp 127.0.0.1:0 \
        >"$log.out" 2>"$log.err" &
    pid=$!
    until grep -qs 'Ctrl-C stops' "$log.out"; do
        if ! kill -0 "$pid" 2>/dev/null || ((++tries > 6000)); then
            cat "$log.err"
            return 1
        fi
        sleep 0.1
    done
    grep -E '^  curl ' "$log.out" | while IFS= read -r line; do
        echo "$line"
        bash -c "$line" </dev/null >"$log.answer"
        grep -qE '"allowed":true|HTTP/1.1 200|sluice_decisions_total' \
            "$log.answer"
    done
    kill -INT -- "-$pid"
    wait "$pid"
}

use_what_was_built() {
    link_library sluice.h 'sluice_version()' lib/libsluice.so
    link_library sluice.h 'sluice_version()' lib/libsluice.a
    link_library sluice_policy.h 'sluice_schema_page()' \
        lib/libsluice-policy.so lib/libsluice.so
    link_library sluice_policy.h 'sluice_schema_page()' \
        lib/libsluice-policy.a lib/libsluice.a -lfyaml
    bin/sluice init - >build/logs/smoke.yaml
    bin/sluice check build/logs/smoke.yaml
    bin/sluiced -c build/logs/smoke.yaml --check
    bin/sluice test presets/*.flow
}

# link_library HEADER TEXT LIBRARY...: a program of somebody else that prints
# TEXT, with nothing but the header and the libraries.
link_library() {
    local header=$1 text=$2 program=build/logs/smoke.${3##*.}

    gcc -std=c99 -pedantic -Wall -Wextra -Werror -Iinclude -include "$header" \
        -DTEXT="$text" -x c - -x none "${@:3}" -Wl,-rpath,"$PWD/lib" -o "$program" <<'EOF'
#include <stdio.h>

int main(void)
{
    puts(TEXT);
    return 0;
}
EOF
    "$program" >"$program.out"
}
