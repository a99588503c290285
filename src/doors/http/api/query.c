/* query.c -- what the query of /v1/auth says: ?deny_status=403&cost=5
 *
 * It is meant to be written by whoever set up the proxy. But some proxies put
 * the client's own query behind our path (Caddy does, unless its `uri` ends in
 * a question mark). Whatever is in both queries may be the client's, who must
 * not choose what his request costs:
 *
 *   - an option that the original request has too, with the same value, is
 *     refused, for nobody can tell whose it is;
 *   - any other parameter that the original request has too is passed over;
 *   - what is left and not known is a slip of whoever set up the proxy.
 *
 * Each of these questions walks through the client's query, which may hold
 * thousands of parameters. So options, of which there are two, are always
 * asked about, and of all others only the first few: a slip stands there.
 *
 * Names and values are compared as a form decodes them: a proxy may have
 * written them anew.
 */
#include <string.h>

#include "base/parse.h"
#include "doors/http/api/api.h"
#include "wire/json.h"

/* Parameters that are no options and are looked up in the client's query. */
#define FOREIGN_MOST 16

struct pair {
    struct sl_str name, value; /* as they were sent */
};

/* Cut the first pair off a query. */
static bool cut_pair(struct sl_str *query, struct pair *ret)
{
    size_t len = 0, mark;

    if (query->len == 0)
        return false;
    while (len < query->len && query->at[len] != '&' && query->at[len] != ';')
        len++;
    for (mark = 0; mark < len && query->at[mark] != '=';)
        mark++;
    ret->name = (struct sl_str){query->at, mark};
    ret->value = (struct sl_str){query->at + mark, len - mark};
    ret->value = sl_str_from(ret->value, 1);
    *query = sl_str_from(*query, len + 1);
    return true;
}

static int hex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 32;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The next byte of a form's text, or -1 at its end. */
static int next_byte(struct sl_str *text)
{
    int byte, high, low;

    if (text->len == 0)
        return -1;
    byte = (unsigned char)text->at[0];
    if (byte == '+')
        byte = ' ';
    if (byte == '%' && text->len > 2) {
        high = hex(text->at[1]);
        low = hex(text->at[2]);
        if (high >= 0 && low >= 0) {
            byte = high << 4 | low;
            *text = sl_str_from(*text, 2);
        }
    }
    *text = sl_str_from(*text, 1);
    return byte;
}

static bool is_same(struct sl_str a, struct sl_str b)
{
    int x, y;

    do {
        x = next_byte(&a);
        y = next_byte(&b);
    } while (x == y && x >= 0);
    return x == y;
}

/* Does the original request have the same parameter? */
static bool is_shared(const struct pair *pair, struct sl_str uri)
{
    const char *mark = uri.len > 0 ? memchr(uri.at, '?', uri.len) : NULL;
    struct sl_str query;
    struct pair other;

    if (!mark)
        return false;
    query = sl_str_from(uri, (size_t)(mark - uri.at) + 1);
    while (cut_pair(&query, &other))
        if (is_same(pair->name, other.name) &&
            is_same(pair->value, other.value))
            return true;
    return false;
}

/* ---- options ---- */

static bool refuse(struct sl_http_call *call, const struct pair *pair,
                   const char *what)
{
    sl_http_refuse(call, 400, "BAD_QUERY", "\"%.*s=%.*s\" %s",
                   SL_STR_ARG(pair->name), SL_STR_ARG(pair->value), what);
    return false;
}

static bool read_status(struct sl_http_call *call, const struct pair *pair,
                        struct sl_auth_options *ret)
{
    static const int may[] = {401, 403, 429, 503};
    uint64_t status;

    if (ret->deny_status)
        return refuse(call, pair, "is given twice");
    if (!sl_parse_number(pair->value, &status, NULL))
        for (size_t i = 0; i < SL_LEN(may); i++)
            if (status == (uint64_t)may[i])
                ret->deny_status = may[i];
    return ret->deny_status ||
           refuse(call, pair, "must be one of 401, 403, 429 and 503");
}

static bool read_cost(struct sl_http_call *call, const struct pair *pair,
                      struct sl_auth_options *ret)
{
    if (ret->has_cost)
        return refuse(call, pair, "is given twice");
    ret->has_cost = true;
    if (sl_parse_number(pair->value, &ret->cost, NULL) ||
        ret->cost > SL_JSON_MAX)
        return refuse(call, pair,
                      "must be a whole number from 0 to 9007199254740991");
    return true;
}

static const struct option {
    const char *name;
    bool (*read)(struct sl_http_call *call, const struct pair *pair,
                 struct sl_auth_options *ret);
} options[] = {
    {"deny_status", read_status},
    {"cost",        read_cost  },
};

static const struct option *find_option(struct sl_str name)
{
    for (size_t i = 0; i < SL_LEN(options); i++)
        if (is_same(name, sl_str_c(options[i].name)))
            return &options[i];
    return NULL;
}

static bool refuse_unknown(struct sl_http_call *call, struct sl_str name)
{
    const char *names[SL_LEN(options)], *near;

    for (size_t i = 0; i < SL_LEN(options); i++)
        names[i] = options[i].name;
    near = sl_str_nearest(name, names, SL_LEN(names));
    sl_http_refuse(
        call, 400, "BAD_QUERY", "unknown option \"%.*s\" of /v1/auth; %s%s%s",
        SL_STR_ARG(name), near ? "did you mean \"" : "",
        near ? near : "valid are deny_status and cost", near ? "\"?" : "");
    return false;
}

bool sl_auth_options_read(struct sl_http_call *call, struct sl_str uri,
                          struct sl_auth_options *ret)
{
    struct sl_str query = call->query;
    unsigned foreign = 0;
    struct pair pair;

    *ret = (struct sl_auth_options){.cost = 0};
    while (cut_pair(&query, &pair)) {
        const struct option *option = find_option(pair.name);
        bool shared;

        if (!option && (pair.name.len == 0 || foreign++ >= FOREIGN_MOST))
            continue;
        shared = is_shared(&pair, uri);
        if (option && shared)
            return refuse(call, &pair,
                          "is in the client's query as well, so its source is "
                          "not clear; let the proxy send only its own query");
        if (option && !option->read(call, &pair, ret))
            return false;
        if (!option && !shared)
            return refuse_unknown(call, pair.name);
    }
    return true;
}
