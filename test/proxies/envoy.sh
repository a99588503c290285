#!/usr/bin/env bash
# envoy.sh -- the recipe for Envoy, run by Envoy, which scripts/setup installs.
#
#   envoy.sh SLUICED SLUICED-TEST SLUICE GUIDE

# shellcheck source=test/proxies/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
program=$root/build/proxies/envoy/_bin/envoy
need "$program"
family=path
no_5xx=yes
no_length=yes
# It closes a connection if it answers before the end of the body.
body=8000

# The recipe names addresses and ports apart.
at() {
    echo "s/address: $1, port_value: $2 /address: ${3%:*}, port_value: ${3##*:} /"
}

recipes() {
    recipe /etc/envoy/envoy.yaml | "$2" |
        sed -e "$(at 0.0.0.0 80 "$site")" -e "$(at 127.0.0.1 8080 "$http")" \
            -e "$(at 127.0.0.1 3000 "$app")" -e 's/timeout: 0.5s/timeout: 3s/' \
            >"$1/envoy.yaml"
}

proxy_command() {
    command=("$program" -c "$1/envoy.yaml" --use-dynamic-base-id
        --concurrency 1 -l warning)
}

all_stories Envoy
finish
