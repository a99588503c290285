#!/usr/bin/env bash
# compare.sh -- the examples say what the documents say.
#
#   compare.sh output PROGRAM FILE [ARGUMENT...]
#                                       PROGRAM prints what is in FILE
#   compare.sh guide GUIDE EXAMPLE...   every block of GUIDE is cut from an
#                                       EXAMPLE, line by line
set -euo pipefail

output() {
    diff <("$1" "${@:3}") "$2" || { echo "$1 prints something else than $2" && exit 1; }
}

# The blocks of a document, each followed by a NUL. Commands (sh) are no code.
blocks() {
    awk '/^```/ { if (open) { if (keep) printf "%s%c", body, 0; open = 0 }
                  else { open = 1; keep = $0 != "```sh"; body = "" }
                  next }
         open { body = body $0 "\n" }' "$1"
}

guide() {
    local document=$1 shown=0 body found

    shift
    while IFS= read -r -d '' body; do
        shown=$((shown + 1))
        found=no
        for example; do
            [[ $(<"$example")$'\n' == *"$body"* ]] && found=yes
        done
        [[ $found = yes ]] || { echo "$document: in no example:"; echo "$body"
                                exit 1; }
    done < <(blocks "$document")
    echo "$shown blocks, all from examples"
    [[ $shown -ge 5 ]]
}

"$@"
