#!/usr/bin/env bash
# moving-redis.sh SLUICED SLUICED-TEST SLUICE ROOT -- the trap of
# docs/guide/moving/redis-script.md: the commands of the page, against a daemon
# whose store is a Redis, print what the page shows, and the log names the key.

# shellcheck source=test/support/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"
page=$root/docs/guide/moving/redis-script.md

# block LANGUAGE [NAME]: the lines of a block; the one whose first line has NAME.
block() {
    awk -v kind="$1" -v name="${2-}" '
        /^```/ && open { open = 0; next }
        $0 == "```" kind { open = 1; first = 1; next }
        open && first && name && !index($0, name) { open = 0 }
        open { first = 0; print }' "$page"
}

block yaml trap.yaml >policy.yaml
redis_start
share -c policy.yaml
export SLUICE_URL=http://$http
mkdir "$folder/bin"
printf '#!/bin/sh\nexec /usr/bin/redis-cli -s %s "$@"\n' "$socket" >"$folder/bin/redis-cli"
chmod +x "$folder/bin/redis-cli"
ln -s "$sluice" "$folder/bin/sluice"
block console >commands
run env PATH="$folder/bin:$PATH" NO_COLOR=1 bash commands
check 'the commands of the page print what it shows' \
    test "$out" = "$(block output)"
diff <(block output) <(echo "$out") | sed 's/^/# /'
logged() { grep -qF "$(block log)" "$log"; }
check 'the log names the key' until_ logged
grep WRONGTYPE "$log" | sed 's/^/# /'
finish
