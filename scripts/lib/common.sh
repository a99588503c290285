# shellcheck shell=bash
# common.sh -- what every script needs: words to the user, and build folders.
#
# Sourced after `cd` to the root of the repository.

# Say something to the person who waits; results go to standard output.
say() {
    printf '%s\n' "$*" >&2
}

# Give up with a sentence.
die() {
    say "${0##*/}: $*"
    exit 1
}

# The command line makes no sense: say why, point at the help, exit 2.
bad_usage() {
    say "${0##*/}: $*"
    say "Try 'scripts/${0##*/} --help'."
    exit 2
}

# Run quietly; if the command fails, show what it printed.
quietly() {
    local log status=0

    log=$(mktemp)
    "$@" >"$log" 2>&1 || status=$?
    if ((status)); then
        cat "$log" >&2
    fi
    rm -f "$log"
    return "$status"
}

# configure DIR [MESON OPTION...]: make DIR a build folder with exactly these
# options. If it already is one it is brought up to date; if it was made with
# others (or half made) it is made anew. Safe to call from two scripts at a
# time.
configure() (
    dir=$1
    shift
    want="CC=${CC:-cc} $*"
    mkdir -p build
    exec 9>"$dir.lock"
    flock 9
    if [[ -f $dir/build.ninja && $(cat "$dir/.options" 2>&1) == "$want" ]]; then
        ninja -C "$dir" build.ninja >/dev/null # meson.build may have changed
        return
    fi
    rm -rf "$dir"
    meson setup -Db_colorout=never "$@" "$dir" </dev/null || exit
    echo "$want" >"$dir/.options"
)

# The release build, configured: optimised, across files too (which is a tenth
# of a decision), and without asserts, since those are for our own mistakes and
# every test build has them. The archives have plain code beside, for whoever
# links them with another compiler.
configure_release() {
    configure build/release --buildtype=release -Db_ndebug=true \
        -Db_lto=true -Dc_args=-ffat-lto-objects
}

# The build with which the tests are run and clang-tidy reads the source.
configure_plain() {
    configure build/plain --buildtype=debugoptimized --werror
}
