#!/usr/bin/env bash
# prefix.sh -- what `meson install` would install below a prefix: programs, both
# completions, manual pages, and a unit with the paths of the prefix; no tests.
# Nothing is built: Meson knows it when it has read meson.build.

# shellcheck source=test/support/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"

run meson setup --prefix=/opt/sluice --buildtype=release build "$root"
check 'a folder is made' is 0
meson introspect --installed build | python3 -c '
import json, sys
print(*json.load(sys.stdin).values(), sep="\n")' >installed
for file in sbin/sluiced bin/sluice lib/systemd/system/sluiced.{service,socket} \
    share/bash-completion/completions/{sluice,sluiced} \
    share/zsh/site-functions/{_sluice,_sluiced} \
    share/fish/vendor_completions.d/{sluice,sluiced}.fish \
    share/man/man1/sluice.1 share/man/man8/sluiced.8 \
    share/man/man5/sluice.yaml.5 share/sluice/sluice.yaml; do
    check "${file#*/}" grep -qxF "/opt/sluice/$file" installed
done
check 'all is below the prefix' test -z "$(grep -v '^/opt/sluice/' installed)"
meson introspect --targets build | python3 -c '
import json, sys
for target in json.load(sys.stdin):
    print(target["defined_in"])' >targets
check 'there are targets' test "$(wc -l <targets)" -gt 10
check 'none is a test' test -z "$(grep -E '/(test|bench)/' targets)"
unit=build/ops/sluiced.service
check 'the unit starts the daemon of the prefix' grep -qxF \
    'ExecStart=/opt/sluice/sbin/sluiced -c /opt/sluice/etc/sluice/sluice.yaml' \
    "$unit"
check 'with its variables' grep -qxF \
    'EnvironmentFile=-/opt/sluice/etc/sluice/sluiced.env' "$unit"
check 'no place is left empty' test -z "$(grep '@[a-z]*@' "$unit")"

run meson setup --prefix=/usr --sysconfdir=/etc \
    -Dsystemd_unit_dir=/lib/systemd/system --reconfigure build "$root"
check 'as the package has it' is 0
meson introspect --installed build >installed
check 'the folder of units can be chosen' \
    grep -qF '"/lib/systemd/system/sluiced.service"' installed
check 'and systemd makes the folder in /etc' \
    grep -qxF ConfigurationDirectory=sluice "$unit"
finish
