#!/usr/bin/env bash
# guide.sh -- what a guide shows is what happens.
#
#   guide.sh SLUICE GUIDE
#
# A block of yaml or flow begins with its name in a comment, `# first.yaml`, and
# is put into a file of that name. A yaml block must pass `sluice check`, a flow
# block `sluice test`. A block of sh is run in the folder of these files, and the
# block of text behind it, if there is one, is what it must print on standard
# output. A block of python, lua, nginx or yml is a file for these commands.
set -euo pipefail

sluice=$(realpath "$1") guide=$(realpath "$2")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/bin" "$folder/files" "$folder/blocks"
ln -s "$sluice" "$folder/bin/sluice"
export PATH="$folder/bin:$PATH" NO_COLOR=1
cd "$folder/files"
tests=0 failed=0

# The blocks as files: blocks/01.yaml, blocks/02.sh, ...
awk -v folder="$folder/blocks" '
    /^```/ && !open {
        open = 1
        file = sprintf("%s/%02d.%s", folder, ++count, substr($0, 4))
        printf "" >file
        next
    }
    /^```/ { open = 0; close(file); next }
    open { print >file }' "$guide"

# verdict STATUS NAME, with what was printed on standard input.
verdict() {
    tests=$((tests + 1))
    sed 's/^/# /'
    if [[ $1 = 0 ]]; then
        echo "ok $tests - $2"
    else
        failed=$((failed + 1))
        echo "not ok $tests - $2"
    fi
}

# Run a command as one test: try NAME COMMAND...
try() {
    local name=$1 status=0 said

    shift
    said=$("$@" 2>&1) || status=$?
    verdict "$status" "$name" <<<"$said"
}

# Put a block under the name in its first line, and check it.
put() {
    local block=$1 command=$2 name

    name=$(sed -n '1s/^# \([a-z-]*\.[a-z]*\)$/\1/p' "$block")
    if [[ -z $name ]]; then
        verdict 1 "block ${block##*/} begins with its name" </dev/null
        return
    fi
    cp "$block" "$name"
    try "$name" sluice "$command" "$name"
}

run() {
    local block=$1 next status=0 said

    printf -v next '%s/%02d.text' "$folder/blocks" \
        $((10#$(basename "$block" .sh) + 1))
    said=$(bash -e "$block") || status=$?
    if [[ -f $next ]]; then
        status=0
        said=$(diff -u "$next" <(echo "$said")) || status=$?
    fi
    verdict "$status" "$(head -n 1 "$block")" <<<"$said"
}

for block in "$folder"/blocks/*; do
    case $block in
    *.yaml) put "$block" check ;;
    *.flow) put "$block" test ;;
    *.python | *.lua | *.nginx | *.yml)
        cp "$block" "$(sed -En '1s/^(#|--) ([a-z]+\.[a-z]+)$/\2/p' "$block")"
        ;;
    *.sh) run "$block" ;;
    esac
done
echo "1..$tests"
((failed == 0 && tests >= 2))
