# lex.awk -- C without its comments and literals, line for line.
#
# Standard output:  FILE <tab> LINE <tab> the code of that line
# -v comments=PATH: FILE <tab> LINE <tab> the text of one comment, on one line
#
# The name in an #include survives, because rules ask for it. Line splices
# inside literals and trigraphs are not understood; nobody here writes them.

function comment_ends(kind) {
    gsub(/[ \t*]+/, " ", text)
    if (kind == "/*" || text ~ /[^ ]/)
        print FILENAME "\t" start "\t" text > comments
    text = ""
}

# What follows the literal that began before `rest`.
function after_literal(rest, quote,    at) {
    while (match(rest, "[" quote "\\\\]")) {
        at = RSTART
        if (substr(rest, at, 1) == quote)
            return substr(rest, at + 1)
        rest = substr(rest, at + 2)
    }
    return ""
}

# One step: move the front of `rest` to `code`, or drop it.
function step(    word, at) {
    if (inside) {
        at = index(rest, "*/")
        text = text " " (at ? substr(rest, 1, at - 1) : rest)
        rest = at ? substr(rest, at + 2) : ""
        if (at) {
            inside = 0
            comment_ends("/*")
        }
        return
    }
    if (!match(rest, keep ? "/[*/]" : "/[*/]|[\"']")) {
        code = code rest
        rest = ""
        return
    }
    code = code substr(rest, 1, RSTART - 1)
    word = substr(rest, RSTART, RLENGTH)
    rest = substr(rest, RSTART + RLENGTH)
    start = FNR
    if (word == "/*") {
        inside = 1
    } else if (word == "//") {
        text = rest
        rest = ""
        comment_ends("//")
    } else {
        code = code word word
        rest = after_literal(rest, word)
    }
}

FNR == 1 {
    inside = 0
    text = ""
}

{
    rest = $0
    code = ""
    keep = !inside && rest ~ /^[ \t]*#[ \t]*include/
    while (rest != "")
        step()
    sub(/[ \t\r]+$/, "", code)
    if (code != "")
        print FILENAME "\t" FNR "\t" code
}
