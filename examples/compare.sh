#!/usr/bin/env bash
# compare.sh -- compare the examples with their output and with the guide.
#
#   compare.sh output PROGRAM FILE [ARGUMENT...]
#                                       PROGRAM prints the text of FILE
#   compare.sh guide GUIDE EXAMPLE...   every code block of GUIDE occurs in an
#                                       EXAMPLE
set -euo pipefail

output() {
    diff <("$1" "${@:3}") "$2" || { echo "$1 does not print $2" && exit 1; }
}

# Print the code blocks of a document, except sh, each followed by a NUL.
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
