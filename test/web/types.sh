#!/usr/bin/env bash
# types.sh COMPONENTS -- the types of web/components are those of its code: a
# program that uses them compiles, and every export has a type.
set -uo pipefail

components=$(realpath "$1")
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
modules=${SLUICE_NODE_MODULES:-$(realpath "$here/../..")/build/node_modules}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failed=0 tests=0

try() {
    local name=$1 said

    shift
    tests=$((tests + 1))
    if said=$("$@" 2>&1); then
        echo "ok $tests - $name"
    else
        echo "# ${said//$'\n'/$'\n# '}"
        echo "not ok $tests - $name"
        failed=1
    fi
}

mkdir -p "$folder/node_modules"
ln -s "$components" "$folder/node_modules/sluice-components"
cp "$here/types.ts" "$folder"
echo '{ "type": "module" }' >"$folder/package.json"
# A stand-in for the types of React, which are not installed.
mkdir "$folder/node_modules/react"
cat >"$folder/node_modules/react/index.d.ts" <<'EOT'
export type ReactNode = unknown;
export interface RefAttributes<T> { ref?: { current: T | null }; }
export interface ForwardRefExoticComponent<P> { (props: P): ReactNode; }
EOT
echo '{ "name": "react", "types": "./index.d.ts" }' >"$folder/node_modules/react/package.json"

# shellcheck disable=SC2317 # by try
compile() {
    (cd "$folder" && node "$modules/typescript/bin/tsc" --noEmit --strict \
        --target es2022 --lib es2022,dom,dom.iterable --preserveSymlinks \
        --module nodenext --moduleResolution nodenext types.ts)
}

# names MODULE: what it exports, and what has a type.
# shellcheck disable=SC2317 # by try
names() {
    diff <(sed -nE 's/^export (const|\{) ?(.*)/\2/p' "$components/$1.js" |
        sed -E 's/ = .*//; s/ *\}.*//; s/, /\n/g' | LC_ALL=C sort) \
        <(sed -nE 's/^export (function|class|const) ([A-Za-z]+).*/\2/p' \
            "$components/$1.d.ts" | LC_ALL=C sort)
}

try 'a program with types compiles' compile
try 'every export has a type' names index
try 'and in react.js' names react
echo "1..$tests"
exit $failed
