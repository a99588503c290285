#!/usr/bin/env bash
# build.sh -- build the nginx module with the sources of Debian's nginx-dev.
#
#   build.sh ARCHIVE FOLDER MODULE
#
# Links this folder and the ARCHIVE of Sluice into MODULE. FOLDER keeps the
# configured sources of nginx, which take seconds to configure, until another
# nginx is installed.
set -euo pipefail

archive=$(realpath "$1")
folder=$2
module=$3
here=$(dirname "$(realpath "${BASH_SOURCE[0]}")")
sources=${NGINX_SOURCES:-/usr/share/nginx/src}

if [[ ! -x $sources/configure ]]; then
    echo "build.sh: there are no nginx sources in $sources; install nginx-dev" >&2
    exit 1
fi

# What the configuration depends on.
print_stamp() {
    echo "$here $archive $sources ${SLUICE_LD_OPT-} ${CFLAGS-}"
    cat "$sources/src/core/nginx.h" "$here/config" "$here/build.sh"
    # Sources from nginx.org have no flags of a package.
    [[ ! -f $sources/conf_flags ]] || cat "$sources/conf_flags"
}

configure() {
    local NGX_CONF_FLAGS=(--with-compat --with-threads)
    # No path of this machine is in the debug information, and so in the build id.
    # A package has flags of its own, in CFLAGS.
    local flags=(-fPIC "-ffile-prefix-map=$(realpath -m "$folder")=nginx"
        "-ffile-prefix-map=$here=module")

    [[ -n ${CFLAGS-} ]] || flags+=(-g -O2)
    rm -rf "$folder"
    mkdir -p "$folder"
    cp -r "$sources/." "$folder/"
    # shellcheck disable=SC1091 # of nginx-dev
    [[ ! -f $sources/conf_flags ]] || . "$sources/conf_flags"
    (cd "$folder" && SLUICE_ARCHIVE=$archive ./configure \
        "${NGX_CONF_FLAGS[@]}" --with-cc-opt="${flags[*]}" \
        --add-dynamic-module="$here")
    print_stamp >"$folder/stamp"
}

if [[ $(cat "$folder/stamp" 2>/dev/null) != "$(print_stamp)" ]]; then
    configure
fi
rm -f "$folder/objs/ngx_http_sluice_module.so"
make -s -C "$folder" -f objs/Makefile modules
cp "$folder/objs/ngx_http_sluice_module.so" "$module"
