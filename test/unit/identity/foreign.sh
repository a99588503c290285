#!/usr/bin/env bash
# foreign.sh PROGRAM MAKER -- tokens of another maker, to unit-identity-foreign.
set -euo pipefail

tokens=$(mktemp)
trap 'rm -f "$tokens"' EXIT
/usr/bin/python3 "$2" >"$tokens"
"$1" "$tokens"
