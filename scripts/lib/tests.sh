# shellcheck shell=bash
# tests.sh -- run tests by Meson, count their cases, and be fair to a slow
# machine: a program that starts processes and fails is run once more.
#
# By itself, when all others are done. If it passes then, so does the stage, but
# its line has `unsteady: NAME`, and what the program said both times is in
# build/logs/STAGE.NAME.first and .second. Which programs have that chance is
# said in cases.py. A report of a sanitizer has none: it is not about time.

# Run tests in folder $1 for stage $2, with $3 steps in property tests (nothing:
# their own number); what follows goes to `meson test`, which builds what the
# chosen tests need unless --no-rebuild is there.
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
    # Meson's status is how many have failed: were these all of them?
    if ((status == 0 || status != ${#again[@]})); then
        count_cases "$stage" "$log" || status=$((status ? status : 1))
        return "$status"
    fi
    test_with "$folder" "again-$stage" --no-rebuild --num-processes 1 \
        "${again[@]}" || true
    count_cases "$stage" "$log" "$folder/meson-logs/again-$stage.json"
}

# test_with FOLDER LOG WORD...: by Meson.
test_with() {
    meson test -C "$1" --logbase "$2" --timeout-multiplier "$patience" "${@:3}"
}

# count_cases STAGE LOG [LOG OF SECOND TRIES]: the tally; fails if a program did,
# or if a sanitizer has something to report.
count_cases() {
    local stage=$1 programs good bad note reports

    # shellcheck disable=SC2034 # programs are in the note
    read -r programs good bad note < <(
        python3 scripts/lib/cases.py count "$stage" build/logs "${@:2}"
    ) || return 1
    reports=$(find build/logs -name "$stage.report.*" | wc -l)
    if ((reports)); then
        find build/logs -name "$stage.report.*" | sort | head -n 20 |
            xargs head -n 60
        bad=$((bad + reports)) note+=", $reports reports of the sanitizer"
    fi
    tally "$stage" "$good" "$bad" "$note"
    ((bad == 0))
}
