#!/usr/bin/env bash
# caddy.sh -- the recipe for Caddy, run by Caddy.
#
#   caddy.sh SLUICED SLUICED-TEST SLUICE GUIDE

# shellcheck source=test/proxies/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
family=forwarded

# Caddy's own listener for changes would be on a port of its own.
recipes() {
    recipe /etc/caddy/Caddyfile | "$2" |
        sed -e "s|^:80 {|http://$site {|" \
            -e '0,/^{$/s/^{$/{\n    admin off/' >"$1/Caddyfile"
}

proxy_command() {
    command=(env "HOME=$1" "XDG_DATA_HOME=$1" "XDG_CONFIG_HOME=$1"
        caddy run --config "$1/Caddyfile" --adapter caddyfile)
}

all_stories Caddy
finish
