#!/usr/bin/env bash
# man.sh SLUICE SLUICED ROOT -- the manual is well formed, and says what the
# programs say of themselves.
sluice=$(realpath "$1") sluiced=$(realpath "$2") man=$(realpath "$3")/man
# shellcheck source=test/support/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"

for page in "$man"/*.[1-9]; do
    run mandoc -Tlint -Wwarning "$page"
    check "${page##*/} is well formed" test "$status$out$err" = 0
done

# ---- sluice.yaml(5) ----

# SECTION KEY of the reference, and of the page.
"$sluice" check --reference | awk '
    /^## Values/ { exit }
    /^## / { section = substr($0, 4) }
    /^\| `/ { sub(/^\| `/, ""); sub(/`.*/, ""); print section ": " $0 }
    /^\| \*any/ { print section ": any other" }' >keys.want
awk '
    /^\.Sh KEYS/ { keys = 1; next }
    /^\.Sh / { keys = 0 }
    keys && /^\.Ss / { section = substr($0, 5) }
    keys && /^\.It Cm / { sub(/^\.It Cm /, ""); gsub(/"/, "")
                          print section ": " $0 }' \
    "$man/sluice.yaml.5" >keys.got
run diff keys.want keys.got
check "sluice.yaml(5) has every key ($(wc -l <keys.want)), and no other" is 0

# ---- sluiced(8), sluice(1) ----

# The long flags that a help shows, and those of a page.
flags_of_help() {
    grep -oE '^ +(-., )?--[a-z-]+' | grep -oE -- '--[a-z-]+' | sort -u
}

flags_of_page() {
    sed -nE 's/^\.It .*Fl \\-([a-z-]+).*/--\1/p' "$1" | sort -u
}

"$sluiced" --help | flags_of_help >flags.want
flags_of_page "$man/sluiced.8" >flags.got
run diff flags.want flags.got
check 'sluiced(8) has every flag, and no other' is 0

guide=$man/../docs/guide/daemon.md
"$sluiced" --help | flags_of_help |
    grep -vxE -e '--(check|show-settings|help|version)' >flags.want
grep -oE '^\| `--[a-z-]+' "$guide" | grep -oE -- '--[a-z-]+' | sort -u >flags.got
run diff flags.want flags.got
check 'so does the guide' is 0

"$sluice" --help | sed -nE 's/^  ([a-z]+) .*/\1/p' | sort >commands.want
sed -nE 's/^\.It Cm ([a-z]+).*/\1/p' "$man/sluice.1" | sort >commands.got
run diff commands.want commands.got
check 'sluice(1) has every command, and no other' is 0
{
    "$sluice" --help
    while read -r command; do
        "$sluice" "$command" --help
    done <commands.want
} | flags_of_help >flags.want
flags_of_page "$man/sluice.1" >flags.got
run diff flags.want flags.got
check 'and every flag, and no other' is 0

finish
