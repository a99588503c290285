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

start_app
start_sluiced
start_proxy "$folder/open"
check 'Caddy takes the recipe' test -n "$proxy"
story_passes
story_denied
story_pretends
story_pads
story_misunderstood
story_open
end_proxy

start_proxy "$folder/closed" closed
check 'Caddy takes it without the marked lines' test -n "$proxy"
story_closed
story_app_away
end_proxy

finish
