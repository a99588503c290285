#!/usr/bin/env bash
# traefik.sh -- the recipe for Traefik, run by Traefik, which scripts/setup
# installs.
#
#   traefik.sh SLUICED SLUICED-TEST SLUICE GUIDE

# shellcheck source=test/proxies/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
program=$root/build/proxies/bin/traefik
need "$program"
family=forwarded
silent=yes
no_length=yes
fails=500

recipes() {
    recipe /etc/traefik/dynamic/sluice.yaml | "$2" >"$1/sluice.yaml"
}

proxy_command() {
    command=("$program" "--entryPoints.web.address=$site"
        "--providers.file.filename=$1/sluice.yaml" --log.level=WARN
        --global.checkNewVersion=false --global.sendAnonymousUsage=false)
}

# It listens before it has read the file, and answers 404 until then.
serves_or_ended() {
    local code

    code=$(curl -s -o /dev/null -w '%{http_code}' --interface 127.0.0.11 \
        "http://$site/")
    [[ $code = [235]?? ]] || gone "$proxy"
}

all_stories Traefik
finish
