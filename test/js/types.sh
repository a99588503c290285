#!/usr/bin/env bash
# types.sh CLIENT -- the types of the module are those of its code: programs that
# use them compile, alone and in each framework, with the settings of their
# authors, and every name that the module hands out is typed.
set -uo pipefail

client=$(realpath "$1")
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

# The compiler finds the module as it would find it in anybody's project.
mkdir -p "$folder/node_modules"
ln -s "$client" "$folder/node_modules/sluice-client"
ln -s "$modules/@types" "$folder/node_modules/@types"
cp "$here/types.ts" "$folder"
echo '{ "type": "module" }' >"$folder/package.json"

# shellcheck disable=SC2317 # by try
compile() {
    (cd "$folder" && node "$modules/typescript/bin/tsc" --noEmit --strict \
        --target es2022 --lib es2022,dom,dom.iterable --types node \
        --module nodenext --moduleResolution nodenext types.ts)
}

# As npm installs it from a registry: only then the types of frameworks have what
# the middleware adds to their requests.
apps=$folder/apps
mkdir -p "$apps/node_modules"
cp -r "$client" "$apps/node_modules/sluice-client"
for name in @types express fastify hono next; do
    ln -s "$modules/$name" "$apps/node_modules/$name"
done
cp "$here/frameworks.ts" "$apps"
echo '{ "type": "module" }' >"$apps/package.json"

# framework MODULE RESOLUTION
# shellcheck disable=SC2317 # by try
framework() {
    (cd "$apps" && node "$modules/typescript/bin/tsc" --noEmit --strict \
        --exactOptionalPropertyTypes --noUncheckedIndexedAccess --skipLibCheck \
        --verbatimModuleSyntax --target es2022 --lib es2022,dom,dom.iterable \
        --types node --module "$1" --moduleResolution "$2" frameworks.ts)
}

# shellcheck disable=SC2317 # by try
names() {
    diff <(node --input-type=module -e \
        "import * as m from '$client/index.js'; console.log(Object.keys(m).sort().join('\n'))") \
        <(sed -nE 's/^export (function|class) ([A-Za-z]+).*/\2/p' \
            "$client/index.d.ts" | LC_ALL=C sort)
}

try 'a program with types compiles' compile
try 'applications of the frameworks compile, with node16' framework node16 node16
try 'applications of the frameworks compile, with a bundler' \
    framework esnext bundler
try 'what is handed out has a type, and the other way round' names
echo "1..$tests"
exit $failed
