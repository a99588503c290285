# shellcheck shell=bash
# tap.sh -- run a program, look at what it printed, answer TAP.
#
#   run COMMAND...     leaves $status, $out and $err
#   check WHAT COND... one TAP line; the case is good if COND is true
#   has TEXT WORDS     does TEXT have WORDS in it?

number=0 failed=0
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/files"
cd "$folder/files" || exit 1

run() {
    status=0
    "$@" >"$folder/out" 2>"$folder/err" || status=$?
    out=$(<"$folder/out") err=$(<"$folder/err")
}

check() {
    local what=$1

    shift
    number=$((number + 1))
    if "$@"; then
        echo "ok $number - $what"
        return
    fi
    failed=1
    printf 'status %s\n%s\n%s\n' "$status" "$out" "$err" | sed 's/^/# /'
    echo "not ok $number - $what"
}

has() {
    [[ $1 == *"$2"* ]]
}

# is STATUS: did the last command end so?
is() {
    [[ $status = "$1" ]]
}

finish() {
    echo "1..$number"
    exit "$failed"
}
