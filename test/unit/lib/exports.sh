#!/bin/sh
# exports.sh LIBRARY SONAME NODE NEEDS HEADER... -- the shared library shows the
# world nothing but the functions of its headers, all of them under the version
# NODE (and what sister libraries share, marked as private), and needs nothing
# but libc and what the regular expression NEEDS matches. With --sanitized the
# runtime of the sanitizer is let through. Answers TAP.
set -eu

sanitized=
if [ "$1" = --sanitized ]; then
    sanitized='|^lib(asan|ubsan|tsan)\.so|^lib(m|gcc_s|pthread|dl|rt)\.so'
    shift
fi
library=$1 own_name=$2 node=$3
allowed="^libc\\.so\\.6\$|^ld-linux-.*\\.so\\.[0-9]+\$|$4$sanitized"
shift 4
failed=0

# say WHAT BAD: a TAP line; the case is good if there is nothing bad.
number=0
say() {
    number=$((number + 1))
    if [ -z "$2" ]; then
        echo "ok $number - $1"
        return
    fi
    echo "$2" | sed 's/^/# /'
    echo "not ok $number - $1"
    failed=1
}

symbols=$(nm -D --defined-only --with-symbol-versions "$library" | awk '{ print $NF }')
say 'only sluice_* is exported, and the version' \
    "$(echo "$symbols" | grep -vE "^(sluice_[a-z_]+@@$node|$node(@@$node)?|(sluice_private_[a-z_]+@@)?SLUICE_PRIVATE(@@SLUICE_PRIVATE)?)\$" || true)"

wanted=$(sed -nE '/^typedef/d; s/^([a-z].* \*?)?(sluice_[a-z_]+)\(.*/\2/p' "$@" | sort -u)
given=$(echo "$symbols" | sed -nE "s/^(sluice_[a-z_]+)@@$node/\\1/p" | sort -u)
say 'every function of the headers is there, and no other' \
    "$([ "$wanted" = "$given" ] || printf 'header: %s\nlibrary: %s\n' \
        "$(echo "$wanted" | tr '\n' ' ')" "$(echo "$given" | tr '\n' ' ')")"

needed=$(readelf -d "$library" | sed -nE 's/.*\(NEEDED\).*\[(.*)\]/\1/p')
say 'nothing else is needed' "$(echo "$needed" | grep -vE "$allowed" || true)"

soname=$(readelf -d "$library" | sed -nE 's/.*\(SONAME\).*\[(.*)\]/\1/p')
say 'its name carries its version' \
    "$([ "$soname" = "$own_name" ] || echo "it is $soname")"

echo "1..$number"
exit $failed
