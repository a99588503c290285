#!/usr/bin/env bash
# nginx.sh -- the recipe for nginx, run by nginx.
#
#   nginx.sh SLUICED SLUICED-TEST SLUICE GUIDE

# shellcheck source=test/proxies/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
PATH=$PATH:/usr/sbin
family=original

recipes() {
    mkdir "$1/snippets" "$1/temp" "$1/cache"
    recipe /etc/nginx/snippets/sluice.conf | "$2" \
        >"$1/snippets/sluice.conf"
    recipe /etc/nginx/conf.d/site.conf | "$2" |
        sed -e "s/listen 80;/listen $site;/" \
            -e "s|/var/cache/nginx/|$1/cache/|" >"$1/site.conf"
    recipe /etc/nginx/snippets/sluice-login.conf >"$1/snippets/sluice-login.conf"
    sed -i "s|listen $site;|&\n    include snippets/sluice-login.conf;|" \
        "$1/site.conf"
    main "$1" >"$1/nginx.conf"
}

# What Debian's nginx.conf has around it.
main() {
    ((EUID != 0)) || echo 'user root;'
    cat <<EOT
worker_processes 1;
daemon off;
pid $1/pid;
error_log $1/error.log;
events {}
http {
    access_log off;
    client_body_temp_path $1/temp/body;
    proxy_temp_path $1/temp/proxy;
    fastcgi_temp_path $1/temp/fastcgi;
    uwsgi_temp_path $1/temp/uwsgi;
    scgi_temp_path $1/temp/scgi;
    include site.conf;
}
EOT
}

proxy_command() {
    command=(nginx -p "$1" -e "$1/error.log" -c "$1/nginx.conf")
}

# One question and the state of the cache: search ADDRESS QUERY
search() {
    ask_as "$1" "/api/search?q=$2" "${@:3}"
}

story_cache() {
    local before

    before=$(seen)
    search 127.0.0.6 hot
    check 'search: the first is asked of the app' shows X-Cache MISS
    check 'its limit is another one' shows X-RateLimit-Limit 20
    check 'and counted' shows X-RateLimit-Remaining 19
    for _ in {1..18}; do
        search 127.0.0.6 hot
    done
    check 'repeated, it is answered from the cache' shows X-Cache HIT
    check 'as the app has answered' test "$out" = 'GET /api/search?q=hot '
    check 'and each is counted' shows X-RateLimit-Remaining 1
    search 127.0.0.6 hot
    search 127.0.0.6 hot
    check 'up to the limit' answers 429
    check 'then there is no answer in it' test "$(member code)" = RATE_LIMITED
    search 127.0.0.7 hot
    check 'for others it is still there' shows X-Cache HIT
    check 'with their own numbers' shows X-RateLimit-Remaining 19
    check 'the app has seen one of all these' test "$(seen)" = $((before + 1))
    search 127.0.0.7 cold
    check 'another query is another answer' shows X-Cache MISS
    before=$(seen)
    curl -sS --max-time 10 -Z --parallel-immediate --interface 127.0.0.10 \
        "http://$site/api/search?q=slow#[1-15]" >many 2>/dev/null
    check 'many at once are answered' test "$(wc -l <many)" = 15
    check 'and the app has seen one' test "$(seen)" = $((before + 1))
    search 127.0.0.7 hot -H 'Authorization: Bearer x'
    check 'and so is another caller' shows X-Cache MISS
    ask_as 127.0.0.7 '/api/search?q=hot' -d x
    check 'a POST is not answered from it' test "$out" = \
        'POST /api/search?q=hot x'
    check 'and has the limit of its own route' shows X-RateLimit-Limit 5
}

# nginx's own 403 is none of ours.
story_own_403() {
    sed -i "s|location / {|&\n        deny 127.0.0.9;|" "$1/site.conf"
    kill -HUP "$proxy"
    until_ forbidden
    check "nginx's own 403 stays one" answers 403
    check 'as a problem' test "$(member code)" = FORBIDDEN
    check 'without a time' test -z "$(field Retry-After)"
}

forbidden() {
    ask_as 127.0.0.9 /api/hello
    answers 403
}

start_app
start_sluiced
start_proxy "$folder/open"
check 'nginx takes the recipe' test -n "$proxy"
story_passes
story_denied
story_pretends
check 'a denial is no error' test ! -s "$folder/open/error.log"
story_pads
refused 'our own location' /_sluice
story_cache
story_misunderstood
story_answers
story_failed
story_megabyte
story_websockets
story_degraded
spend_all
story_open
story_own_403 "$folder/open"
end_proxy

start_proxy "$folder/closed" closed
check 'nginx takes it without the marked lines' test -n "$proxy"
story_closed
story_app_away
end_proxy

finish
