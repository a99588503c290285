/* guard.c -- pages in an operator's browser are not the operator.
 *
 * Without a token the admin listener is open to the machine it runs on, and a
 * browser on that machine sends what any page on the web tells it to: a page
 * can post to http://127.0.0.1:9090, and one that lets its own name resolve to
 * 127.0.0.1 can also read the answer. Two things give such requests away:
 *
 *   Origin   names the page that asks, and is not the Host that is asked
 *   Host     is a name of the page's choice, where people and scripts on this
 *            machine say localhost or an address
 */
#include <string.h>

#include "base/ip.h"
#include "doors/http/admin/inner.h"

static bool begins(struct sl_str text, struct sl_str with)
{
    return text.len >= with.len &&
           sl_str_eq_nocase((struct sl_str){text.at, with.len}, with);
}

/* The host of "http://HOST:PORT"; an empty slice if it is none. */
static struct sl_str host_of(struct sl_str origin)
{
    if (begins(origin, SL_STR("http://")))
        return sl_str_from(origin, 7);
    if (begins(origin, SL_STR("https://")))
        return sl_str_from(origin, 8);
    return (struct sl_str){"", 0};
}

/* An address, or localhost; with a port or without. */
static bool is_own_name(struct sl_str host)
{
    const char *colon = host.len ? memchr(host.at, ':', host.len) : NULL;
    struct sl_ip ip;

    if (sl_ip_parse(host, &ip))
        return true;
    if (colon)
        host.len = (size_t)(colon - host.at);
    return sl_str_eq_nocase(host, SL_STR("localhost"));
}

static bool is_open(const struct sl_http_call *call)
{
    const struct sl_http_door *door = call->worker->door;

    return door->token.len == 0 && !door->accepts_client_cert &&
           !call->peer_is_unix;
}

bool sl_admin_admit(struct sl_http_call *call)
{
    struct sl_str host = call->request->host;
    unsigned count = 0;
    struct sl_str origin =
        sl_http1_field(call->request, SL_STR("origin"), &count);

    if (count > 0 && (count > 1 || host.len == 0 ||
                      !sl_str_eq_nocase(host_of(origin), host))) {
        sl_http_refuse(call, 403, "CROSS_ORIGIN",
                       "pages of %.*s are not allowed to do this",
                       SL_STR_ARG(origin));
        return false;
    }
    if (is_open(call) && host.len > 0 && !is_own_name(host)) {
        sl_http_refuse(call, 403, "WRONG_HOST",
                       "without an admin_token, the Host header must be "
                       "localhost or an address, not %.*s",
                       SL_STR_ARG(host));
        return false;
    }
    return true;
}
