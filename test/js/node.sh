#!/usr/bin/env bash
# node.sh FILE -- node's own runner on one file. Its TAP has tests inside of
# tests, and lines that readers of the plain kind stumble over: those stay in
# as comments.
set -uo pipefail

node --test --test-reporter=tap "$1" |
    awk '/^(not )?ok |^1\.\./ { print; next } { print "# " $0 }'
