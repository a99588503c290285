#!/usr/bin/env bash
# cli.sh -- what redis-cli sees: cli.sh HOST PORT PASSWORD KEY
set -euo pipefail

redis() {
    redis-cli --no-auth-warning -h "$host" -p "$port" -a "$password" "$@"
}

# The reply on one line.
line() {
    redis "$@" | tr '\n' ' ' | sed 's/ $//'
    echo
}

host=$1 port=$2 password=$3 key=$4
redis PING
for _ in 1 2 3 4; do
    line CL.THROTTLE "$key" 2 1 1
done
line CL.THROTTLE "$key" 2 1 1 -1
# A pipeline: commands on standard input.
printf "CL.THROTTLE $key:p 4 1 1 %s\\n" 1 4 1 | redis | paste -d' ' - - - - - |
    cut -d' ' -f1,3
line SLUICE.CHECK GET /x user "$key" | awk '{print $2, $4, $6, $8}'
redis SLUICE.CHECK GET /x user "$key" cost 4 >/dev/null
line -3 SLUICE.CHECK GET /x user "$key" |
    sed 's/.*(false) status \([0-9]*\).*retry_after_ms \([0-9]*\).* by \([a-z]*\).*/0 \1 \3 \2/'
redis NONSENSE 2>&1 | sed -n 's/^ERR \(unknown\) command .*/\1/p'
