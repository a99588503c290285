#!/bin/sh
# install-policy.sh SYSCONFDIR -- the first policy of an installed daemon. One
# that exists stays as it is.
set -eu

policy=${DESTDIR-}$1/sluice/sluice.yaml
[ ! -e "$policy" ] || exit 0
mkdir -p "${policy%/*}"
cp "$MESON_SOURCE_ROOT/ops/sluice.yaml" "$policy"
chmod 644 "$policy"
