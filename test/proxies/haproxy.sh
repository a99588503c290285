#!/usr/bin/env bash
# haproxy.sh -- the recipe for HAProxy, run by HAProxy.
#
#   haproxy.sh SLUICED SLUICED-TEST SLUICE GUIDE

# shellcheck source=test/proxies/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
PATH=$PATH:/usr/sbin
family=forwarded
# It does not wait for the rest of a body that it has no use for, and closes.
body=8000
# The recipe of failed logins is for it.
reports=yes

recipes() {
    recipe /etc/haproxy/sluice.lua | "$2" >"$1/sluice.lua"
    recipe /etc/haproxy/haproxy.cfg | "$2" |
        sed -e "s|/etc/haproxy|$1|" -e "s/bind :80/bind $site/" \
            >"$1/haproxy.cfg"
    recipe /etc/haproxy/sluice-failed.lua >"$1/sluice-failed.lua"
    recipe 'frontend site' | sed 1d >"$1/frontend"
    sed -i -e "/http-response lua.sluice_tell/r $1/frontend" \
        -e "s|lua-load-per-thread .*|&\n    lua-load-per-thread $1/sluice-failed.lua|" \
        "$1/haproxy.cfg"
    name_socket "$1"
}

# Abstract sockets are for all of the machine: two of these tests may run.
name_socket() {
    sed -i "s/abns@sluice-ask/abns@sluice-ask-${site##*:}/" "$1"/haproxy.cfg \
        "$1"/sluice.lua "$1"/sluice-failed.lua
}

proxy_command() {
    command=(haproxy -db -f "$1/haproxy.cfg")
}

all_stories HAProxy
finish
