# shellcheck shell=bash
# examples.sh -- what each rule must catch, and what it must let pass.
#
# A rule that catches nothing looks just like a clean tree, so the rules are
# tried on small bad files. self_test() runs in a folder of its own that holds
# one example at a time.

# caught RULE FILE LINE <<content: the rule must point at that line, and at
# that line only.
caught() {
    local rule=$1 want="$2:$3" got

    got=$(on_example "$rule" "$2" | cut -d: -f1,2 | sort -u | tr '\n' ' ')
    judge "$rule" "$want " "$got"
}

# caught_beside OTHER RULE FILE LINE <<content: the same, where there is an
# empty file OTHER too.
caught_beside() {
    beside=$1
    shift
    caught "$@"
    beside=
}

# passes RULE FILE <<content: the rule must say nothing.
passes() {
    judge "$1" "" "$(on_example "$1" "$2")"
}

# Put standard input in FILE, alone in the folder, and run RULE over it.
on_example() {
    local rule=$1 file=$2

    rm -rf src test docs scripts include presets
    mkdir -p "$(dirname "$file")"
    cat >"$file"
    [[ -z $beside ]] || : >"$beside"
    prepare
    violations "$rule"
}

judge() {
    tried=$((tried + 1))
    if [[ $2 != "$3" ]]; then
        missed=$((missed + 1))
        echo "self-test: rule $1 should have pointed at '$2', not '$3'"
    fi
}

self_test() (
    tried=0 missed=0 beside=
    house=$PWD
    mkdir "$view/tree"
    cd "$view/tree"
    cp "$house"/.clang-format "$house"/.clang-tidy .
    try_looks
    try_lengths
    try_calls
    try_purity
    try_includes
    try_comments
    try_old_words
    try_names
    try_tools
    try_rule_zero
    echo "self-test: $((tried - missed)) examples right, $missed wrong"
    ((missed == 0))
)

try_looks() {
    caught format src/base/a.c 3 <<<$'int f(int a)\n{\n    return  a;\n}'
    passes format src/base/a.c <<<$'int f(int a)\n{\n    return a;\n}'
    caught line_length src/base/a.h 2 <<<$'int a;\n'"$(numbers 41)"
    passes line_length src/base/a.h <<<"$(numbers 40)"
    caught tabs src/base/a.c 2 <<<$'int a;\n\tint b;'
    caught tabs meson.build 1 <<<$'\tx = 1'
    caught trailing_blanks docs/a.md 1 <<<'word '
    caught conflicts src/base/a.def 2 <<<$'A(1)\n<<<<<<< HEAD\nB(2)\n=======\nB(3)'
    passes conflicts docs/a.md <<<$'Title\n=======\n  >>>>>>> quoted'
}

# $1 pairs of characters, the width of which bytes would overstate.
numbers() {
    printf '1µ%.0s' $(seq "$1")
}

try_lengths() {
    caught file_length src/base/a.c 1 < <(seq 1201)
    passes file_length src/base/a.c < <(seq 1200)
    caught function_length src/base/a.c 2 < <(a_function 61)
    passes function_length src/base/a.c < <(a_function 60)
}

# A C function that is $1 lines long.
a_function() {
    printf 'static int before;\nint f(int a)\n{\n'
    printf '    a++;%.0s\n' $(seq $(($1 - 4)))
    printf '    return a;\n}\n'
}

try_calls() {
    local call

    for call in strcpy strcat sprintf vsprintf strtok atoi atol gets rand; do
        caught banned_calls test/unit/base/a.c 2 <<<$'\n    x = '"$call(y);"
    done
    passes banned_calls src/base/a.c <<<'x = operand(y); /* not rand() */'
    passes banned_calls src/base/a.c <<<'puts("never rand()");'
    for call in malloc calloc realloc free strdup; do
        caught memory src/core/a.c 1 <<<"$call (y);"
    done
    passes memory src/base/arena.c <<<'free(p);'
    passes memory test/unit/base/a.c <<<'free(p);'
    passes memory src/base/a.c <<<'alloc->free(p); sl_arena_free(p);'
    caught secrets src/identity/jwk.c 1 <<<'if (memcmp(a, b, n) == 0)'
    caught secrets src/identity/jwk.c 1 <<<'return !strcmp(a, b);'
    passes secrets src/identity/jwk.c <<<'CRYPTO_memcmp(a, b, n);'
    passes secrets src/identity/a.c <<<'memcmp(a, b, n);'
    caught secrets src/server/http/a.c 1 <<<'if (sl_str_eq(door->token, is))'
    caught secrets src/server/a.c 1 <<<'memcmp(a, secret.at, n);'
    passes secrets src/server/a.c <<<'CRYPTO_memcmp(token, b, n);'
    passes secrets src/server/a.c <<<'sl_str_eq(name, SL_STR("token"));'
    for call in clock_gettime time gettimeofday usleep; do
        caught clocks src/base/a.c 1 <<<"    t = $call(0);"
    done
    caught clocks test/prop/a.c 1 <<<'seed(time(NULL));'
    passes clocks src/base/clock.c <<<'clock_gettime(id, &ts);'
    passes clocks bench/a.c <<<'clock_gettime(id, &ts);'
    passes clocks src/base/a.c <<<'sl_time(0); /* not time(0) */'
}

try_purity() {
    caught purity src/core/a.c 1 <<<'static double x;'
    caught purity src/core/a.h 2 <<<$'\nint f(float);'
    caught purity src/core/a.c 1 <<<'#include <stdio.h>'
    caught purity src/core/a.c 1 <<<'#include <sys/time.h>'
    caught purity src/core/a.c 1 <<<'#include "base/clock.h"'
    passes purity src/core/a.c <<<'int doubled; /* exact in a double */'
    passes purity src/base/a.c <<<'static double x;'
}

try_includes() {
    caught includes src/base/a.c 2 <<<$'#include <x/y.h>\n#include "core/b.h"'
    caught includes src/core/a.c 1 <<<'#include "net/loop.h"'
    caught includes src/policy/a.c 1 <<<'#include "store/store.h"'
    caught includes src/table/a.c 1 <<<'#include "net/loop.h"'
    caught includes test/unit/core/a.c 1 <<<'#include "table/table.h"'
    caught includes src/core/a.c 1 <<<'#include "../base/a.h"'
    caught includes src/attic/a.c 1 <<<'#include "base/a.h"'
    passes includes src/core/a.c <<<$'#include "core/b.h"\n#include "base/a.h"'
    passes includes src/cli/a.c <<<$'#include "server/b.h"\n#include "a.h"'
    passes own_header src/base/a.c <<<'#include "base/b.h"'
    caught_beside src/base/a.h own_header src/base/a.c 2 \
        <<<$'int a;\n#include <stdio.h>\n#include "base/a.h"'
    caught headers src/base/a.h 1 <<<'size_t f(void);'
    caught headers include/a.h 1 <<<'int f(int class);'
    passes headers src/base/a.h <<<$'#include <stddef.h>\nsize_t f(void);'
}

try_comments() {
    caught empty_comments src/base/a.c 2 <<<$'int a;\n/**\n *\n */'
    caught empty_comments src/base/a.c 1 <<<'int a; /* */'
    passes empty_comments src/base/a.c <<<'s = "/**/"; /* a word */'
    caught todos src/base/a.c 1 <<<'/* TODO: more */'
    passes todos src/base/a.c <<<'/* TODO(#12): more */'
    caught words docs/a.md 2 <<<$'# A\nThe white''list.'
    caught words src/base/a.c 1 <<<$'/* FIX''ME */'
    caught words docs/a.md 1 <<<$'See /ho''me/ann/x.'
    passes words docs/a.md <<<'An allow list, and POST /v1/users/x.'
}

# Two lines are left for one word of this list, and none for another.
try_old_words() {
    local list='scripts/lib/old_words'

    old_words=$view/old_words
    printf '%s\n' '# a list' '2 voyages? => command' '0 nobody => no caller' \
        >"$old_words"
    caught old_words docs/a.md 2 <<<$'# A\nNobody knows.'
    caught old_words src/base/a.c 1 <<<'int nobody_asks;'
    passes old_words docs/a.md <<<'Nobodys and annobody.'
    passes old_words src/base/a.c <<<'/* Nobody. */ /* style: a title */'
    passes old_words presets/a.yaml <<<'# nobody'
    passes old_words docs/a.md <<<$'A voyage.\nTwo Voyages.'
    judge old_words "$list:2" "$(on_example old_words src/base/a.c \
        <<<$'int voyage;\nint sl_voyage_a;\nint voyages;' | cut -d: -f 1,2)"
    rm -rf src && mkdir docs && echo 'A voyage.' >docs/a.md
    prepare
    judge old_words 'voyages?: 2 -> 1' "$(lower_old_words)"
    caught old_words docs/a.md 1 <<<'Somebody, nobody.'
    printf '0 trips? => operation\n0 flights? => command\n' >"$old_words"
    passes old_words docs/a.md <<<'A round trip in flight: in_flight_most.'
    caught old_words docs/a.md 1 <<<'A round trip of a trip.'
}

try_names() {
    caught tags src/base/a.c 4 <<<$'struct sl_a {\n    int x;\n};\nunion sl_a { int y; };'
    caught tags src/base/a.h 2 <<<$'enum sl_a { A };\nenum sl_a { B };'
    passes tags src/base/a.c <<<$'struct a { int x; };\nenum a { B };'
    passes tags src/base/a.c <<<$'struct sl_a { int x; };\nstruct sl_a *f(struct sl_a *b);'
    caught file_names src/base/inner.h 1 <<<'int a;'
    caught file_names test/unit/inside.h 1 <<<'int a;'
    passes file_names src/base/base_int.h <<<'int a;'
    caught readmes src/base/README.md 2 <<<$'# base\n| `gone.[ch]` | x |'
    # shellcheck disable=SC2016 # backticks are meant
    passes readmes src/base/README.md <<<'See `README.md` and `sl_gone()`.'
    caught mutants test/mutants/list 2 <<<$'# a list\nsrc/gone.c|old|new|why'
    passes mutants test/mutants/list <<<'test/mutants/list|a || b|new|why'
}

try_tools() {
    caught shell scripts/a 2 <<<$'#!/bin/sh\necho $1'
    mkdir -p build/plain
    cat >build/plain/compile_commands.json <<EOF
[{"directory": "$PWD", "file": "src/base/a.c", "command": "cc -c src/base/a.c"}]
EOF
    caught tidy src/base/a.c 3 <<'EOF'
int f(const int *a);
int f(const int *a) {
    if (!a) return *a;
    return 0;
}
EOF
}

try_rule_zero() {
    passes memory src/base/a.c <<<'free(p); /* style: handed over by libc */'
    passes memory src/base/a.c <<<$'    /* style: from libc */\n    free(p);'
    caught memory src/base/a.c 3 <<<$'/* style: from libc */\nfree(p);\nfree(q);'
    caught memory src/base/a.c 1 <<<'free(p); /* style: */'
    passes file_length src/base/a.c < <(echo '/* style: a table */' && seq 501)
}
