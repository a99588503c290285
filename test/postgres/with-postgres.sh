#!/usr/bin/env bash
# with-postgres.sh PROGRAM [ARGUMENT]... -- run it with a PostgreSQL of its own.
#
# The server listens on a socket in a temporary folder and on a free port of
# loopback; it is stopped and removed at the end. If we are root, it runs as the
# user "postgres". The environment of the program has:
#
#   SLUICE_TEST_POSTGRES   the address of an empty database
#   POSTGRES_FOLDER        the folder; "data" in it is the server's
#   POSTGRES_PORT          the port of loopback
#   POSTGRES_CTL           a program: start, stop, or kill the server
set -euo pipefail

bin=$(find /usr/lib/postgresql -name initdb -printf "%h\n" | sort -V | tail -1)
support=$(cd "$(dirname "$0")/../support" && pwd)
dir=$(mktemp -d /tmp/sluice-postgres-XXXXXX)
as=()
if [ "$(id -u)" = 0 ]; then
    chown postgres "$dir"
    as=(setpriv --reuid=postgres --regid=postgres --clear-groups)
fi
export POSTGRES_FOLDER=$dir POSTGRES_CTL=$dir/ctl

cleanup() {
    "$POSTGRES_CTL" kill >/dev/null 2>&1 || :
    rm -rf "$dir"
}
trap cleanup EXIT

# An empty database is made once and copied: initdb computes for a third of a
# second, and many tests want one. A copy that is moved into place is whole.
root=$(cd "$(dirname "$0")/../.." && pwd)
empty=$root/build/postgres-$(basename "$(dirname "$bin")")-$(id -u)
if ! cp -a "$empty" "$dir/data" 2>/dev/null; then
    rm -rf "$dir/data"
    # Its user may not see the folder that we are in.
    (cd / && "${as[@]}" "$bin/initdb" -D "$dir/data" -U postgres -E UTF8 \
        --locale=C -A trust -N) >"$dir/log" 2>&1 || { cat "$dir/log"; exit 1; }
    {
        new=$(mktemp -d "$root/build/new-XXXXXX") &&
            cp -a "$dir/data" "$new" && mv -nT "$new/data" "$empty"
        rm -rf "$new"
    } 2>/dev/null || :
fi
# In a subshell, for lib.sh changes the folder and has a trap of its own.
# shellcheck source=test/support/lib.sh
export POSTGRES_PORT=${POSTGRES_PORT:-$(. "$support/lib.sh" && free_port)}
# Servers are killed here, not the machine: what is written stays without fsync.
# Who measures turns it on.
cat >>"$dir/data/postgresql.conf" <<END
listen_addresses = '127.0.0.1'
port = $POSTGRES_PORT
unix_socket_directories = '$dir'
shared_buffers = 16MB
max_connections = 40
fsync = ${SL_POSTGRES_FSYNC:-off}
log_min_messages = warning
END
# Killed, the server leaves its children no time either.
cat >"$POSTGRES_CTL" <<END
#!/bin/sh
cd /
case "\$1" in
start) exec ${as[@]} $bin/pg_ctl -D $dir/data -l $dir/server -w -t 60 start ;;
stop) exec ${as[@]} $bin/pg_ctl -D $dir/data -m fast -w stop ;;
kill)
    pid=\$(head -1 $dir/data/postmaster.pid)
    kill -9 "\$pid" \$(pgrep -P "\$pid")
    while kill -0 "\$pid" 2>/dev/null; do sleep 0.05; done ;;
esac
END
chmod 755 "$POSTGRES_CTL" "$dir"
"$POSTGRES_CTL" start >/dev/null || { cat "$dir/server"; exit 1; }
export SLUICE_TEST_POSTGRES="postgres://postgres@127.0.0.1:$POSTGRES_PORT/postgres"
"$@"
