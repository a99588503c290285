# shellcheck shell=bash
# rules.sh -- the house rules, one function each.
#
# A rule prints `FILE:LINE: sentence` for each violation in the tree below the
# current folder, and nothing otherwise. prepare() leaves in $view what the
# rules read:
#
#   files     every file of the project, one path per line
#   code      FILE <tab> LINE <tab> the line without comments and literals
#   comments  FILE <tab> LINE <tab> the text of one comment, on one line
#   excused   FILE:LINE of the lines that may break a rule
#
# Rule zero: any rule may be broken where a comment says why. A line that ends
# in `/* style: why */`, or that follows a line which is only such a comment,
# is excused. Rules about functions point at the line of the name, rules about
# files at the first line.

c_files='\.(c|h|def)$'
text_files='\.(c|h|def|md|awk|sh|py|lua|sql|yaml|yml|flow|html|css|js)$'
text_files+='|(^|/)meson(\.build|_options\.txt)$|^(scripts|\.ci)/'
text_files+='|^test/mutants/|^\.[a-z-]+$'

# Shared by the rules that name functions: not part of a longer name, and not
# a member of something.
call_begins='(^|[^A-Za-z0-9_.>])'

rules=(format file_length function_length line_length banned_calls memory
    secrets clocks purity includes own_header empty_comments todos words old_words
    tags file_names readmes mutants tabs trailing_blanks conflicts shell headers)
slow_rules=(tidy)
tools=(awk clang clang-format clang-tidy ctags gcc g++ git grep python3 shellcheck xargs)

# ---- what the rules stand on ----

list_files() {
    if [[ -e .git ]]; then
        git -c safe.directory='*' ls-files -co --exclude-standard
    else
        find . -type f -not -path './build/*' -not -path './bin/*' \
            -not -path './lib/*' | sed 's|^\./||'
    fi | sort -u | while IFS= read -r file; do
        [[ ! -f $file ]] || echo "$file"
    done
}

# The project's files whose path matches $1 and, if given, does not match $2.
files() {
    grep -E -- "$1" "$view/files" | grep -Ev -- "${2:-^$}" || true
}

# Run a command on those files, if there are any: on_files MATCH COMMAND...
on_files() {
    local match=$1

    shift
    files "$match" | xargs -r -d '\n' "$@"
}

find_excused() {
    on_files "$text_files" awk '
        /(\/\*|#) style: [^ *]/ {
            print FILENAME ":" FNR
            if (/^[ \t]*(\/\*|#) style: /)
                print FILENAME ":" FNR + 1
        }'
}

# Fill the folder $view.
prepare() {
    list_files >"$view/files"
    : >"$view/comments"
    on_files "$c_files" awk -v comments="$view/comments" \
        -f "$rules_lib/lex.awk" >"$view/code"
    find_excused >"$view/excused"
}

# Print the violations of rule $1, without those that are excused. Inside a
# rule a grep that finds nothing is good news, not a failure.
violations() (
    set +e +o pipefail
    "rule_$1" | sort -u -t: -k1,1 -k2,2n -k3 | not_excused
)

# Standard input without the lines FILE:LINE:... that are excused.
not_excused() {
    awk -F: '
        FILENAME != "-" { excused[$1 ":" $2] = 1; next }
        !(($1 ":" $2) in excused)' "$view/excused" -
}

# Lines of code that match $3, in files that match $1 but not $2; in the
# sentence $4, % stands for what was found.
in_code() {
    only=$1 except=${2:-^$} bad=$3 sentence=$4 awk -F'\t' '
        $1 ~ ENVIRON["only"] && $1 !~ ENVIRON["except"] &&
        match($3, ENVIRON["bad"]) {
            found = substr($3, RSTART, RLENGTH)
            gsub(/^[^A-Za-z0-9_]+|[ (]+$/, "", found)
            sentence = ENVIRON["sentence"]
            sub(/%/, found, sentence)
            print $1 ":" $2 ": " sentence
        }' "$view/code"
}

# The same for calls of functions: $3 is a|b|c.
calls() {
    in_code "$1" "$2" "$call_begins($3) *[(]" "$4"
}

# Raw lines that match $2 in the files that match $1; $3 says what is wrong.
in_text() {
    on_files "$1" grep -HnE -- "$2" | sentence=$3 awk -F: '
        { print $1 ":" $2 ": " ENVIRON["sentence"] }'
}

# ---- how it looks ----

rule_format() {
    on_files '\.(c|h)$' clang-format --dry-run -Werror 2>&1 |
        sed -nE 's/^([^:]+:[0-9]+):.*error:.*/\1: not as clang-format lays it out/p'
}

rule_line_length() {
    LC_ALL=C.UTF-8 in_text "$c_files" '.{81}' 'longer than 80 columns'
}

rule_tabs() {
    in_text "$text_files" $'\t' 'a tab; indent with spaces'
}

rule_trailing_blanks() {
    in_text "$text_files" '[[:blank:]]$' 'blanks at the end of the line'
}

# Where a merge gave up; none of these lines is code or prose of ours.
rule_conflicts() {
    in_text "$text_files" '^(<{7}|>{7}|\|{7}) ' 'left over from a merge'
}

# ---- how long it is ----

rule_file_length() {
    on_files "$c_files|^scripts/" awk '
        FNR == 1201 {
            print FILENAME ":1: more than 1,200 lines; it holds more than one subject"
        }'
}

rule_function_length() {
    on_files '\.(c|h)$' ctags --language-force=C --kinds-C=f --fields=+ne \
        -x --_xformat='%F:%n:%e:%N' |
        awk -F: '$3 - $2 >= 60 {
            print $1 ":" $2 ": " $4 "() is " $3 - $2 + 1 " lines long; 60 is the ceiling"
        }'
}

# ---- what it may call ----

rule_banned_calls() {
    local names='strcpy|stpcpy|strcat|sprintf|vsprintf|strtok|gets'

    names+='|atoi|atol|atoll|atof|rand|srand|alloca'
    calls . '' "$names" '%() is banned: it cannot be told where to stop, or guesses'
}

rule_memory() {
    local names='malloc|calloc|realloc|reallocarray|aligned_alloc|free'

    names+='|posix_memalign|strdup|strndup|asprintf|vasprintf'
    calls ^src/ '^src/base/arena\.c$' "$names" '%(): memory comes from base/arena.h'
}

# How long a comparison takes must not tell how much was right.
rule_secrets() {
    calls '^src/identity/jw' '' 'memcmp|bcmp|strcmp|strncmp|strcasecmp' \
        '%() stops at the first difference; CRYPTO_memcmp() does not'
    # What a client shows is compared with our secrets by the servers.
    in_code '^src/(server|net|wire)/' '' \
        "$call_begins(memcmp|bcmp|strn?cmp|strcasecmp|sl_str_eq(_nocase)?) *[(].*(secret|token|password)" \
        '%: a secret is compared by CRYPTO_memcmp() of keyed hashes, as in server/http/server.c'
}

rule_clocks() {
    local names='clock_gettime|gettimeofday|time|clock|ftime|timespec_get'

    calls '^(src|test)/' '^src/base/clock\.c$' "$names" \
        '%(): only src/base/clock.c reads a clock; take now as an argument'
    calls '^(src|test)/' '' 'sleep|usleep|nanosleep|clock_nanosleep' \
        '%(): nothing sleeps; move the virtual clock'
}

# The core computes: no floating point, no I/O, no clock, no memory.
rule_purity() {
    local headers='stdio|stdlib|time|unistd|fcntl|pthread|signal|threads'

    in_code ^src/core/ '' '(^|[^A-Za-z0-9_])(float|double)([^A-Za-z0-9_]|$)' \
        'floating point in core; integers only'
    in_code ^src/core/ '' "include *<(($headers)[.]h|sys/|netinet/)" \
        'core is pure; no %>'
    in_code ^src/core/ '' 'include *"base/(arena|buf|clock)[.]h' \
        'core is pure; no %"'
}

# ---- what it may include ----

rule_includes() {
    awk -F'\t' -v layers="$rules_lib/layers" -v tree='^(src|test/unit)/' '
        BEGIN {
            while ((getline line < layers) > 0) {
                if (line !~ /^[a-z]+:/)
                    continue
                layer = line
                sub(/:.*/, "", layer)
                may[layer] = line " " layer " "
                sub(/^[a-z]+:/, " ", may[layer])
            }
        }
        $1 !~ tree || $3 !~ /^ *# *include *"/ { next }
        {
            from = $1
            sub(tree, "", from)
            if (from !~ /\//)
                next # a file of no layer
            sub(/\/.*/, "", from)
            to = $3
            sub(/^[^"]*"/, "", to)
            sub(/".*/, "", to)
        }
        to ~ /^\.|\/\.\./ {
            print $1 ":" $2 ": \"" to "\": write the path from src/"
            next
        }
        !(from in may) {
            print $1 ":" $2 ": layer " from " is not in scripts/lib/layers"
            next
        }
        to ~ /\// {
            sub(/\/.*/, "", to)
            if (index(may[from], " " to " ") == 0)
                print $1 ":" $2 ": " from " may not include " to
        }' "$view/code"
}

# A file that includes its own header first proves that the header stands
# alone, and shows where its contract is.
rule_own_header() {
    awk -F'\t' '
        NR == FNR { there[$1] = 1; next }
        $1 !~ /^src\/.*\.c$/ || $3 !~ /^ *# *include/ || seen[$1]++ { next }
        {
            own = $1
            sub(/c$/, "h", own)
            name = own
            sub(/^src\//, "", name)
            if (own in there && index($3, "\"" name "\"") == 0)
                print $1 ":" $2 ": include \"" name "\" first"
        }' "$view/files" "$view/code"
}

# Tests include each other's headers by name alone.
rule_headers() {
    local header test_folders

    mapfile -t test_folders < <(files '^test/.*\.h$' | sed 's|/[^/]*$||' | sort -u)
    while IFS= read -r header; do
        compiles "$header" c gnu11 -D_GNU_SOURCE
        if [[ $header == include/* ]]; then
            compiles "$header" c c99 -pedantic
            compiles "$header" c++ c++11 -pedantic
        fi
    done < <(files '^(src|include|test|bench)/.*\.h$')
}

# Does the header compile alone? compiles HEADER LANGUAGE STANDARD FLAG...
compiles() {
    local header=$1 language=$2 standard=$3 why

    shift 3
    why=$(gcc -x "$language" -std="$standard" "$@" -Wall -Wextra -Werror \
        -fsyntax-only -Iinclude -Isrc "${test_folders[@]/#/-I}" \
        - <<<"#include \"$PWD/$header\"" 2>&1) ||
        echo "$header:1: does not compile alone as $standard:" \
            "$(grep -m1 error: <<<"$why" | sed 's/.*error: //')"
}

# ---- what it says ----

rule_empty_comments() {
    awk -F'\t' '$3 !~ /[A-Za-z0-9]/ {
        print $1 ":" $2 ": a comment that says nothing"
    }' "$view/comments"
}

rule_todos() {
    on_files "$c_files|meson\.build$" grep -HnE '\bTODO\b' |
        awk -F: '!/TODO[:( ]*#[0-9]/ {
            print $1 ":" $2 ": TODO without the number of an issue"
        }'
}

rule_words() {
    local line

    while IFS= read -r line; do
        [[ $line == *' => '* && $line != \#* ]] || continue
        files "$text_files" '^scripts/lib/' |
            xargs -r -d '\n' grep -HniE -- "${line%% => *}" |
            sentence=${line##* => } awk -F: '
                { print $1 ":" $2 ": " ENVIRON["sentence"] }'
    done <"$rules_lib/words"
}

# The file with the old words; the self-test has another.
old_words=$rules_lib/old_words

# Print FILE:LINE: for each line with an old word that matches $1, a whole
# word of letters: `_` and digits separate words. The phrases of the field that
# contain an old word are removed first, and so are names of stored tables.
old_word_lines() {
    files "$text_files|^README" '^(scripts/lib/|CHANGELOG|presets/|examples/|test/data/|web/vendor/)' |
        xargs -r -d '\n' grep -HniE -- "(^|[^a-z])($1)([^a-z]|\$)" |
        word="(^|[^a-z])($1)([^a-z]|\$)" awk '{
            at = match($0, /:[0-9]+:/) + RLENGTH
            text = tolower(substr($0, at))
            gsub(/in[ _-]flight|round[ -]trips?|sluice:pledges/, "", text)
            if (text ~ ENVIRON["word"])
                print substr($0, 1, at - 1)
        }' | not_excused
}

# Print LINE <tab> COUNT <tab> REGEXP <tab> WORD of each line of the list.
list_old_words() {
    sed -nE 's/^([0-9]+) (.*) => (.*)$/\1\t\2\t\3/; t found; b
        :found; =; p' "$old_words" | paste - -
}

# The list allows a number of lines for each old word. More lines are a
# violation at the line of the list. If the number is 0, each line is one.
rule_old_words() {
    local line most word instead found count

    while IFS=$'\t' read -r line most word instead; do
        found=$(old_word_lines "$word")
        count=$(grep -c . <<<"$found")
        if ((count <= most)); then
            continue
        elif ((most == 0)); then
            sentence="an old word; write $instead" awk '
                { print $0 " " ENVIRON["sentence"] }' <<<"$found"
        else
            echo "scripts/lib/old_words:$line: '$word' is on $count lines," \
                "$most are left to remove: write $instead" \
                "('scripts/check --old-word \"$word\"' lists them)"
        fi
    done < <(list_old_words)
}

# Write the numbers of today into the list, where they are lower.
lower_old_words() {
    local line most word instead count

    while IFS=$'\t' read -r line most word instead; do
        count=$(old_word_lines "$word" | wc -l)
        if ((count < most)); then
            sed -i "${line}s/^$most /$count /" "$old_words"
            echo "$word: $most -> $count"
        fi
    done < <(list_old_words)
}

# ---- what it is called ----

# A tag names one type in all of src/. Tags without sl_ belong to their file.
rule_tags() {
    on_files '^src/.*\.(c|h)$' ctags --language-force=C --kinds-C=sgu \
        --fields=+n -x --_xformat='%N:%F:%n' | sort -t: -k1,1 -k2,2 -k3,3n |
        awk -F: '
            $1 ~ /^sl_/ && $1 == last {
                print $2 ":" $3 ": " $1 " is defined in " place ", too"
            }
            { last = $1; place = $2 ":" $3 }'
}

# A private header is called after its folder: net/net_int.h.
rule_file_names() {
    files '(^|/)(inner|inside|words)\.h$' |
        sed 's|$|:1: call a private header FOLDER_int.h|'
}

# A file that a README below src/ names in backticks exists: in its folder, below
# src/ or below the root. \`a.[ch]\` names two files.
rule_readmes() {
    local readme

    files '^src/.*README\.md$' | while IFS= read -r readme; do
        # shellcheck disable=SC2016 # a backtick is meant
        grep -noE '`[a-z0-9_/]+\.(\[ch\]|[ch]|def|lua|map|sh|md)`' "$readme" |
            tr -d '`' | while IFS=: read -r line name; do
            for file in "${name/\[ch\]/c}" "${name/\[ch\]/h}"; do
                [[ -f ${readme%/*}/$file || -f src/$file || -f $file ]] ||
                    echo "$readme:$line: there is no file $file"
            done
        done | sort -u
    done
}

# The old text of each line of test/mutants/list stands once in its file. A single
# | separates; || is code.
rule_mutants() {
    on_files '^test/mutants/list$' python3 -c '
import re, sys

for number, line in enumerate(open(sys.argv[1]), 1):
    path, old = (re.split(r"(?<!\|)\|(?!\|)", line) + [""])[:2]
    if line[0] in "#\n":
        continue
    try:
        times = open(path).read().count(old)
    except OSError:
        times = 0
    if times != 1:
        print("%s:%d: its text stands %d times in %s, not once"
              % (sys.argv[1], number, times, path))
'
}

# ---- what other tools say ----

# What is sourced is checked with the script that sources it. A script that was
# clean is not read again: build/shell.clean has hashes of clean scripts, each
# with all that may be sourced. SL_SHELL_SHARE is the share of the scripts that is
# read, such as 2/3, the second third.
rule_shell() {
    local script scripts=() sourced=() shared hash clean=build/shell.clean
    local i share=${SL_SHELL_SHARE:-1/1}

    while IFS= read -r script; do
        if head -c 64 "$script" | grep -aqE '^#!.*sh$'; then
            scripts+=("$script")
        elif [[ $script == *.sh ]]; then
            sourced+=("$script")
        fi
    done < <(files '^(scripts|\.ci|test|bench)/' '\.(c|h|md|build|awk)$')
    mkdir -p build
    touch "$clean"
    shared=$(shellcheck --version | cat - "${sourced[@]}" | sha256sum)
    for ((i = ${share%/*} - 1; i < ${#scripts[@]}; i += ${share#*/})); do
        script=${scripts[i]}
        hash=$(echo "$shared" | cat - "$script" | sha256sum)
        grep -qxF "${hash%% *}" "$clean" || echo "${hash%% *} $script"
    done >"$view/shell"
    # shellcheck disable=SC2016 # the inner shell expands them
    xargs -r -n 2 -P "$(nproc)" bash -c '
        shellcheck -x -a -f gcc "$1" && echo "$0" >>build/shell.clean' \
        <"$view/shell" | sed -E 's/^([^:]+:[0-9]+):[0-9]+: [a-z]+: /\1: /'
}

# Reads build/plain/compile_commands.json. Nearly all of its time goes by in
# the analyzer, which walks the paths through a function until it has seen so
# many states: five times as many take five times as long. What it would find
# only behind them, it finds under `scripts/test --long`.
rule_tidy() {
    local status=0

    files '^src/.*\.c$' |
        xargs -r -d '\n' python3 "$rules_lib/tidy.py" build/plain \
            "${SL_TIDY_STATES:-10000}" "${SL_TIDY_SHARE:-1/1}" \
            >"$view/tidy" 2>"$view/tidy.err" || status=$?
    sed -nE "s|^($PWD/)?(build/plain/)?(\.\./\.\./)?||
        s/^([^:]+:[0-9]+):[0-9]+: (error|warning): /\1: /p" "$view/tidy"
    if ((status)) && ! grep -qE ': (error|warning): ' "$view/tidy"; then
        echo "src:1: clang-tidy did not finish: $(tail -n 1 "$view/tidy.err")"
    fi
}
