#!/usr/bin/env bash
# langs.sh ROOT SLUICED SLUICE TEST -- one test of the clients below clients/.
#
# scripts/setup installs languages and frameworks; what it could not install is
# skipped.
set -euo pipefail

root=$1 sluiced=$(realpath "$2") sluice=$(realpath "$3")
here=$root/test/clients/langs
built=${SLUICE_CLIENTS:-$root/build/clients}
python=$built/python/bin

skip() {
    echo "1..0 # SKIP $*"
    exit 0
}

# table COMMAND...: the conformance table, by the runner of a language.
table() {
    /usr/bin/python3 "$here/conformance.py" \
        "$root/clients/conformance.json" "$sluice" "$@"
}

# app NAME READY COMMAND...: an example application.
app() {
    /usr/bin/python3 "$here/apps.py" "$sluiced" "$root/examples/web.yaml" "$@"
}

need_python() {
    [[ -f $python/.installed ]] ||
        skip "no Python frameworks in $python: scripts/setup installs them"
    export PYTHONPATH=$root/clients/python PYTHONDONTWRITEBYTECODE=1
}

# The programs in Go are built with what scripts/setup has loaded.
need_go() {
    command -v go >/dev/null || skip 'no go: scripts/setup installs it'
    export GOFLAGS=-buildvcs=false GOTOOLCHAIN=local
    [[ -z ${1-} ]] || (cd "$1" && GOPROXY=off go list -deps ./... >/dev/null 2>&1) ||
        skip "$1 needs modules, or a newer go: scripts/setup loads them"
    export GOPROXY=off
}

# go_built FOLDER FLAG...: build a program into a temporary file.
go_built() {
    program=$(mktemp -d)/program
    trap 'rm -rf "${program%/*}"' EXIT
    (cd "$1" && go build "${@:2}" -o "$program" .) || exit 1
}

case $4 in
python-sync | python-async)
    table /usr/bin/python3 -B "$here/python/runner.py" \
        "$root/clients/python" "${4#python-}"
    ;;
python-real)
    need_python
    exec "$python/python" "$here/python/real.py" "$root/clients/python" \
        "$sluiced" "$root"
    ;;
fastapi)
    need_python
    app fastapi port "$python/uvicorn" --port PORT \
        --app-dir "$root/examples/fastapi" app:app
    ;;
flask)
    need_python
    app flask port "$python/flask" --app "$root/examples/flask/app.py" run \
        --port PORT
    ;;
django-asgi)
    need_python
    app django port "$python/uvicorn" --port PORT \
        --app-dir "$root/examples/django" app:asgi_application
    ;;
django-wsgi)
    need_python
    app django port "$python/python" "$root/examples/django/app.py"
    ;;
go)
    need_go
    go_built "$here/go" -race
    table "$program"
    ;;
go-unit)
    need_go
    cd "$root/clients/go"
    [[ -z $(gofmt -l . "$here/go" "$root/examples/chi" | tee /dev/stderr) ]]
    go vet ./...
    go test -race -count=1 -v ./... 2>&1 |
        awk '/^--- (PASS|FAIL)/ { print (/PASS/ ? "" : "not ") "ok " ++n " - " $3; next }
             { print "# " $0 } END { print "1.." n + 0 }'
    ;;
go-page)
    need_go
    exec /usr/bin/python3 "$here/go/real.py" "$root" "$sluiced" page
    ;;
go-grpc)
    need_go "$here/go/grpc"
    exec /usr/bin/python3 "$here/go/real.py" "$root" "$sluiced" grpc
    ;;
chi)
    need_go "$root/examples/chi"
    go_built "$root/examples/chi"
    app chi port "$program"
    ;;
*)
    echo "Bail out! no test $4"
    exit 1
    ;;
esac
