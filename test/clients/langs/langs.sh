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
    exec /usr/bin/python3 "$here/conformance.py" \
        "$root/clients/conformance.json" "$sluice" "$@"
}

# app NAME READY COMMAND...: an example application.
app() {
    exec /usr/bin/python3 "$here/apps.py" "$sluiced" "$root/examples/web.yaml" "$@"
}

need_python() {
    [[ -f $python/.installed ]] ||
        skip "no Python frameworks in $python: scripts/setup installs them"
    export PYTHONPATH=$root/clients/python PYTHONDONTWRITEBYTECODE=1
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
*)
    echo "Bail out! no test $4"
    exit 1
    ;;
esac
