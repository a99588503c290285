# shellcheck shell=bash
# clients.sh -- a daemon for foreign clients to talk to; on top of lib.sh.
#
#   NAME.sh SLUICED SLUICED-TEST SLUICE [PROGRAM]
#
# Each client prints a line for everything that it has seen, and the test
# compares: a client that is not there fails, since scripts/setup installs it.

# shellcheck source=test/support/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"

# Where scripts/setup puts what comes from npm.
modules=${SLUICE_NODE_MODULES:-$root/build/node_modules}
: "$modules"

# A daemon on the virtual clock whose state is nowhere, with a password.
start_for_clients() {
    cat >clients.yaml <<'EOT'
sluice: 1
limits:
  minute: { kind: token-bucket, per: user, rate: 5/min }
  hour: { kind: fixed-window, per: user, rate: 100/hour }
default: [minute, hour]
EOT
    echo s3cret >token
    start_virtual -c clients.yaml --store memory: --listen-resp 127.0.0.1:0 \
        --access-token-file token
}
