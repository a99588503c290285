# shellcheck shell=bash
# shellcheck disable=SC2034,SC2164 # scripts/test uses the variables, and set -e
# stages.sh -- the stages of scripts/test, one function each.
#
# A stage prints to build/logs/STAGE.log, writes its tally, and fails by
# returning non-zero. Stages run side by side, so each builds in its own folder
# or waits for the build.
#
# Every program runs in plain, in clients or in asan, today or tomorrow. These
# parts are left out of a usual run, to keep it short; todays_tests.py chooses.
#
#   asan      clients, proxies, ops: they use the servers that unit, daemon and
#             fuzz tests run under the same sanitizers. again: flows repeated
#             over another protocol or store; codecs and stores have their own
#             suites here. style: plain has them, and the code under test is
#             not in them. asan also measures line coverage, of the objects
#             below build/asan/src; with -O1, and -O0 for the tests.
#             A process keeps 16 MB of freed memory to detect its use, not 256:
#             new pages for each malloc cost system time.
#             With SL_SHORT (also in tsan): long flows in daemon-flows, nine of
#             ten connections and imported subjects in daemon tests, two of
#             three kills in thread tests, seven of ten keys that flood a table;
#             plain has them. Of daemon programs that run with two databases,
#             the run with one of them: the other one is tomorrow's.
#             Half of the conformance programs: plain has the other half, and
#             tomorrow they change places.
#   clients   each day another half. js-next: `next build` needs a compiler of
#             140 MB.
#   plain     clients: a stage of its own.
#             daemon, dynamo, redis and shared: asan runs the same programs.
#             Those that are shorter there are in both. Of bad, cli, flow and
#             unit, which asan runs whole, each day another third. Of again,
#             each day another half.
#             Also flows of a day over the Redis protocol and with Redis
#             (daemon-flows and the engine's flows have them), and flows of more
#             than 500 requests with DynamoDB and gRPC
#   tsan      of the programs with a daemon or a PostgreSQL, each day another
#             half; asan runs them, too.
#   memcheck  zoneinfo, yaml_bombs: large inputs to code that smaller tests reach.
#             Each day runs another quarter of the programs.
#   mutants   most of the list; each day tests another twenty-fourth. The test in
#             test/mutants/killers runs first; the others run only if it does
#             not fail.
#   check     clang-tidy's analyzer stops early, and each day reads another sixth
#             of the files. The other checks of clang-tidy read all.
#             Of the scripts, another third is read by shellcheck.
#   smoke     link-time optimization: the packages have it.
#   property tests under sanitizers take half as many steps as for mutants
#
# scripts/test --long leaves nothing out, except in memcheck.

# Long stages first, and short ones last, so that both cores work to the end.
# clients and memcheck need the build of plain.
all_stages=(asan plain tsan clients check mutants package smoke fuzz memcheck)

# A property test takes SL_PROP_STEPS random steps, or SL_PROP_TIMES times its
# own number.
plain_times=1
asan_steps=10000
fuzz_seconds=1
fuzz_optimization=0 # compiles in a third of the time that 1 takes
mutant_shares=24
tidy_shares=6
shell_shares=3
patience=3 # factor for the timeouts in meson.build

least_coverage=94 # percent of lines

# Sanitizer builds: quick to compile, with lines for stack traces. The tests are
# not optimized: they take no longer, and compile in half the time.
sanitized=(-Dtests=true -Ddebug=false -Db_lundef=false)
unoptimized_tests=(-Doptimization=0 -Dlib_optimization=1)

# Most tests wait for processes and sockets: three per core.
at_a_time=$((3 * $(nproc)))

# scripts/test --long
take_longer() {
    plain_times=10
    asan_steps= # as in plain
    fuzz_seconds=300
    fuzz_optimization=1
    mutant_shares=1
    tidy_shares=1
    shell_shares=1
    patience=9
    export SL_LONG=1 # a thousand kills and stops instead of a hundred
    export SL_TIDY_STATES=225000 # clang-tidy's default
}

# Slow builds repeat less. They still reach every line and every race.
share_less() {
    [[ -n ${SL_LONG-} ]] || export SL_SHORT=1
}

# All stages of a run have the same day. SL_TEST_DAY repeats another one.
today=${SL_TEST_DAY:-$(($(date +%s) / 86400))}

# share_of SHARES: today's share of them, such as 3/16.
share_of() {
    echo "$((today % $1 + 1))/$1"
}

# Set $names to the tests that stage $1 runs today of build folder $2: none,
# which means all, in a long run.
choose_tests() {
    names=()
    [[ -z ${SL_LONG-} ]] || return 0
    mapfile -t names < <(
        python3 scripts/lib/todays_tests.py "$1" "$2" "$today"
    )
    ((${#names[@]}))
}

# tally STAGE PASSED FAILED NOTE: writes the result of a stage.
tally() {
    echo "$2 $3 $4" >"build/logs/$1.tally"
}

# ---- source ----

stage_check() {
    local status=0 examples rules

    scripts/check --self-test | tee build/logs/check.examples
    SL_TIDY_SHARE=$(share_of "$tidy_shares") \
        SL_SHELL_SHARE=$(share_of "$shell_shares") scripts/check --all |
        tee build/logs/check.rules || status=$?
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

# Build all of folder $1. Two stages may call this at once.
build() {
    flock "$1.building" ninja -C "$1"
}

stage_plain() {
    local names=() status=0

    configure_plain
    build build/plain
    export SL_PROP_TIMES=$plain_times
    choose_tests plain build/plain
    record_answers plain
    run_tests build/plain plain '' --no-rebuild "${names[@]}" || status=$?
    check_answers plain || status=$?
    return "$status"
}

# The clients below clients/ in their frameworks, and clients of others, against
# real daemons. Three minutes at most with warm caches.
stage_clients() {
    local names=() status=0

    scripts/setup clients
    configure_plain
    build build/plain
    choose_tests clients build/plain
    record_answers clients
    run_tests build/plain clients '' --no-rebuild --suite clients \
        "${names[@]}" || status=$?
    check_answers clients || status=$?
    return "$status"
}

# Daemons of tests record their answers, for check_answers.
record_answers() {
    export TEST_ANSWERS=$PWD/build/logs/$1.answers
    rm -f "$TEST_ANSWERS"
}

# check_answers STAGE: validate what was recorded against the API description.
# Adds to the tally of the stage.
check_answers() {
    local good bad note status=0

    [[ -s $TEST_ANSWERS && -f build/logs/$1.tally ]] || return 0
    read -r good bad note <"build/logs/$1.tally"
    if node test/js/recorded.js "$TEST_ANSWERS" >"build/logs/$1.api"; then
        good=$((good + 1))
    else
        cat "build/logs/$1.api" >>"build/logs/$1.failed"
        bad=$((bad + 1)) status=1
    fi
    tally "$1" "$good" "$bad" \
        "$note, $(tail -n 1 "build/logs/$1.api") by openapi.yaml"
    return "$status"
}

# Set $reports: sanitizers of all processes of stage $1 write to these files,
# since the output of a daemon that a test starts is not shown.
report_to() {
    reports="log_path='$PWD/build/logs/$1.report'"
}

# Address, leak and undefined-behaviour sanitizers, and line coverage of src/.
# Threads count lines without locks, four times as fast: some counts are lost, but
# never all of a line. ccache does not know -fprofile-update, and lets gcc's other
# spelling of it pass. Warnings are not errors here: instrumented code has false
# ones.
stage_asan() {
    local names=() status=0

    configure build/asan "${sanitized[@]}" "${unoptimized_tests[@]}" \
        -Db_sanitize=address,undefined \
        -Dsrc_coverage=true -Dc_link_args=--coverage \
        '-Dc_args=-g1 -fno-sanitize-recover=all --profile-update=single'
    share_less
    report_to asan
    export ASAN_OPTIONS=detect_leaks=1:strict_string_checks=1:$reports
    [[ -n ${SL_LONG-} ]] || ASAN_OPTIONS+=:quarantine_size_mb=16
    export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1:$reports
    find build/asan -name '*.gcda' -delete
    build build/asan # all: code that no test runs counts too
    choose_tests asan build/asan
    record_answers asan
    run_tests build/asan asan "$asan_steps" --no-rebuild \
        "${names[@]}" || status=$?
    check_answers asan || status=$?
    measure_coverage || status=$?
    return "$status"
}

# Coverage of everything below src/, as compiled there: gcovr does not read the
# counts of the tests' own objects. Lost counts can become negative, which is
# ignored. Adds to the tally of asan.
measure_coverage() {
    local percent good bad note

    rm -f build/logs/coverage.*
    gcovr --root . --filter 'src/' --object-directory build/asan \
        --exclude-throw-branches --gcov-ignore-parse-errors --txt build/logs/coverage.txt \
        --json-summary build/logs/coverage.json \
        build/asan/src || return
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

# Reads of uninitialized memory, which the sanitizers do not see. Only folders
# without threads, where valgrind is fast enough, and without the test that
# replaces malloc.
stage_memcheck() {
    local names

    configure_plain
    build build/plain
    mapfile -t names < <(
        python3 scripts/lib/todays_tests.py memcheck build/plain "$today"
    )
    run_tests build/plain memcheck '' "${names[@]}" --no-rebuild \
        --wrapper 'valgrind -q --error-exitcode=99'
}

stage_tsan() {
    local names=()

    configure build/tsan "${sanitized[@]}" "${unoptimized_tests[@]}" \
        -Db_sanitize=thread -Dc_args=-g1
    share_less
    report_to tsan
    export TSAN_OPTIONS=halt_on_error=1:$reports
    choose_tests tsan build/tsan
    run_tests build/tsan tsan "$asan_steps" --suite threads "${names[@]}"
}

# ---- fuzzing ----

# Targets enable their own sanitizers. Two run at a time.
stage_fuzz() {
    local program programs=() passed=0 notes=

    CC="$(command -v ccache) clang" configure build/fuzz "${sanitized[@]}" \
        -Doptimization="$fuzz_optimization" -Dfuzz=true -Dc_args=-g1
    fuzz_targets | xargs -d '\n' ninja -C build/fuzz
    mapfile -t programs < <(fuzz_targets | sed 's|^|build/fuzz/|')
    rm -f "${programs[@]/%/.passed}"
    for program in "${programs[@]}"; do
        while (($(jobs -pr | wc -l) >= 2)); do
            wait -n || true # success leaves a file
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

# Each target works on a copy of its corpus. Findings are written beside the
# program; PROGRAM.passed means that there are none.
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

# Another share every day.
stage_mutants() {
    local line status=0 share

    share=${SL_MUTANT_SHARE:-$(share_of "$mutant_shares")}
    test/mutants/run --share "$share" |
        tee build/logs/mutants.results || status=$?
    grep -vE '^caught by' build/logs/mutants.results || true
    line=$(grep '^mutants: [0-9]' build/logs/mutants.results) || return 1
    tally mutants "$(number_before caught "$line")" \
        "$(number_before survived "$line")" \
        "${line#mutants: }: share $share of the list"
    return "$status"
}

# ---- Debian packages ----

# Built, checked by lintian, and installed in a clean Debian 12 that is kept in
# build/chroot. A long run builds them twice and compares the bytes.
stage_package() {
    local cases

    scripts/package ${SL_LONG:+--twice}
    lintian --fail-on error --suppress-tags bad-distribution-in-changes-file \
        dist/*.deb
    load_nginx_module
    test/packages/install.sh dist build/chroot >build/logs/package.tap || {
        cat build/logs/package.tap
        return 1
    }
    cat build/logs/package.tap
    cases=$(grep -c '^ok ' build/logs/package.tap || true)
    tally package $((cases + 3)) 0 "$(cd dist && echo *.deb | wc -w) packages, \
lintian finds no errors, $(sed -n 's/^1..0 # SKIP/not installed:/p' \
        build/logs/package.tap)$cases cases of an installed system"
}

# The module of the package, loaded by the installed nginx, whose ABI it needs.
load_nginx_module() {
    local folder=$PWD/build/nginx-package

    rm -rf "$folder"
    dpkg-deb -x dist/libnginx-mod-http-sluice_*.deb "$folder"
    dpkg-deb -f dist/libnginx-mod-http-sluice_*.deb Depends | grep nginx-abi-
    cat >"$folder/nginx.conf" <<EOF
load_module $folder/usr/lib/nginx/modules/ngx_http_sluice_module.so;
error_log stderr;
pid $folder/pid;
events {}
http {
    access_log off;
    sluice_policy $PWD/ops/sluice.yaml;
    sluice_state $folder/state;
    server { listen 127.0.0.1:1; location / { sluice on; return 200; } }
}
EOF
    nginx -t -c "$folder/nginx.conf"
}

# ---- smoke test: the README's commands in a copy of the sources ----

stage_smoke() {
    [[ -n ${SL_LONG-} ]] || export SL_LTO=false
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

# scripts/run on free ports, in its own process group for Ctrl-C.
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

# link_library HEADER TEXT LIBRARY...: build and run a program that prints TEXT
# with only the header and the libraries.
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
