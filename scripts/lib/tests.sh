# shellcheck shell=bash
# tests.sh -- runs tests with Meson and counts their cases.
#
# A failed test that starts processes runs once more, alone, at the end. If it
# passes, the stage passes with `unsteady: NAME`, and both outputs are in
# build/logs/STAGE.NAME.first and .second. cases.py selects these tests. A
# sanitizer report always fails the stage.

# run_tests BUILD STAGE STEPS ARG...: run tests of a build folder. STEPS are for
# property tests; empty: their own number. ARGs go to `meson test`, which builds
# the tests unless --no-rebuild is given.
run_tests() {
    local folder=$1 stage=$2 steps=$3 status=0 log again=()

    shift 3
    rm -f "$folder/meson-logs/$stage"* "$folder/meson-logs/again-$stage"*
    if [[ -n $steps ]]; then
        export SL_PROP_STEPS=$steps
    fi
    test_with "$folder" "$stage" --print-errorlogs \
        --num-processes "$at_a_time" "$@" || status=$?
    log=$(echo "$folder/meson-logs/$stage"*.json)
    if ((status)) && [[ -f $log ]]; then
        mapfile -t again < <(python3 scripts/lib/cases.py again "$log")
    fi
    # Meson's status is the number of failed tests. Can all of them run again?
    if ((status == 0 || status != ${#again[@]})); then
        count_cases "$stage" "$log" || status=$((status ? status : 1))
        return "$status"
    fi
    test_with "$folder" "again-$stage" --no-rebuild --num-processes 1 \
        "${again[@]}" || true
    count_cases "$stage" "$log" "$folder/meson-logs/again-$stage.json"
}

test_with() {
    meson test -C "$1" --logbase "$2" --timeout-multiplier "$patience" "${@:3}"
}

# count_cases STAGE LOG [LOG OF SECOND RUNS]: write the tally. Fails if a test
# failed or a sanitizer reported.
count_cases() {
    local stage=$1 programs good bad note reports

    # shellcheck disable=SC2034 # programs are in the note
    read -r programs good bad note < <(
        python3 scripts/lib/cases.py count "$stage" build/logs "${@:2}"
    ) || return 1
    reports=$(find build/logs -name "$stage.report.*" | wc -l)
    if ((reports)); then
        find build/logs -name "$stage.report.*" | sort | head -n 20 |
            xargs head -n 30 >>"build/logs/$stage.failed"
        bad=$((bad + reports)) note+=", $reports reports of the sanitizer"
    fi
    tally "$stage" "$good" "$bad" "$note"
    ((bad == 0))
}
