# shellcheck shell=bash
# common.sh -- messages and build folders, for every script.
#
# Sourced after `cd` to the root of the repository.

# Meson calls ccache if it is installed. Another clone of the tree compiles to
# the same objects, so the folder does not count.
export CCACHE_NOHASHDIR=1

# Print a message to standard error. Results go to standard output.
say() {
    printf '%s\n' "$*" >&2
}

# Print a message and exit 1.
die() {
    say "${0##*/}: $*"
    exit 1
}

# Report an invalid command line and exit 2.
bad_usage() {
    say "${0##*/}: $*"
    say "Try 'scripts/${0##*/} --help'."
    exit 2
}

# Run a command; show its output only if it fails.
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
# options, anew if it has others. Two scripts may call it at once.
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

# Release build: link-time optimization (a tenth of a decision), no asserts. Fat
# objects let other compilers link the archives. SL_LTO=false builds faster.
configure_release() {
    configure build/release --buildtype=release -Db_ndebug=true \
        -Db_lto="${SL_LTO:-true}" -Dc_args=-ffat-lto-objects -Dbench=true
}

# The build of the tests and of clang-tidy. The tests themselves are not
# optimized: they compile in a third of the time.
configure_plain() {
    configure build/plain --werror -Dtests=true -Ddebug=true -Doptimization=0 \
        -Dlib_optimization=2
}
