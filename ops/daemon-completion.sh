#!/bin/sh
# daemon-completion.sh SLUICED bash|zsh|fish -- print the completion of the
# daemon's flags, from its own help. `sluice` has a command for that; the daemon
# has flags only.
set -eu

"$1" --help | awk -v shell="$2" '
function quoted(text) {
    gsub(/\x27/, "\x27\\\x27\x27", text)
    return text
}

# "  -c, --policy FILE      policy file", "      --watch on|off   reload"
/^ +(-., )?--[a-z]/ {
    wait = 0
    line = $0
    sub(/^ +/, "", line)
    letter = ""
    if (line ~ /^-[a-z], /) {
        letter = substr(line, 2, 1)
        line = substr(line, 5)
    }
    flag = line
    sub(/[ =].*/, "", flag)
    rest = substr(line, length(flag) + 2)
    value = ""
    if (rest !~ /^ /) {
        value = rest
        sub(/ .*/, "", value)
        rest = substr(rest, length(value) + 1)
    }
    sub(/^ +/, "", rest)
    count++
    flags[count] = flag
    letters[count] = letter
    values[count] = value
    texts[count] = rest
    wait = rest == ""
    next
}

# The text of a long flag is on the next line.
wait {
    sub(/^ +/, "")
    texts[count] = $0
    wait = 0
}

function words(value) {
    if (value !~ /\|/ || value ~ /[A-Z]/)
        return ""
    gsub(/\|/, " ", value)
    return value
}

function put_bash(   i, list, all) {
    print "# bash completion for sluiced"
    print "_sluiced() {"
    print "    local cur=${COMP_WORDS[COMP_CWORD]}"
    print "    COMPREPLY=()"
    print "    case ${COMP_WORDS[COMP_CWORD-1]} in"
    for (i = 1; i <= count; i++) {
        list = words(values[i])
        if (list != "")
            printf "    %s) mapfile -t COMPREPLY < <(compgen -W \"%s\" -- \"$cur\"); return ;;\n", flags[i], list
        else if (values[i] == "FILE" || values[i] == "FOLDER")
            printf "    %s%s) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -f -- \"$cur\"); return ;;\n", flags[i], letters[i] == "" ? "" : " | -" letters[i]
        all = all " " flags[i]
    }
    print "    esac"
    printf "    mapfile -t COMPREPLY < <(compgen -W \"%s\" -- \"$cur\")\n", substr(all, 2)
    print "}"
    print "complete -F _sluiced sluiced"
}

function put_zsh(   i, text) {
    print "#compdef sluiced"
    print "_arguments \\"
    for (i = 1; i <= count; i++) {
        text = quoted(texts[i])
        gsub(/\[/, "(", text)
        gsub(/\]/, ")", text)
        gsub(/:/, "\\:", text)
        printf "    \x27%s[%s]", flags[i], text
        if (words(values[i]) != "")
            printf ":value:(%s)", words(values[i])
        else if (values[i] == "FILE" || values[i] == "FOLDER")
            printf ":file:_files"
        else if (values[i] != "")
            printf ":value: "
        print i < count ? "\x27 \\" : "\x27"
    }
}

function put_fish(   i) {
    for (i = 1; i <= count; i++) {
        printf "complete -c sluiced -l %s", substr(flags[i], 3)
        if (letters[i] != "")
            printf " -s %s", letters[i]
        if (words(values[i]) != "")
            printf " -xa \x27%s\x27", words(values[i])
        else if (values[i] == "FILE" || values[i] == "FOLDER")
            printf " -r"
        else if (values[i] != "")
            printf " -x"
        printf " -d \x27%s\x27\n", quoted(texts[i])
    }
}

END {
    if (count == 0)
        exit 1
    if (shell == "bash")
        put_bash()
    else if (shell == "zsh")
        put_zsh()
    else
        put_fish()
}'
