/* query.c -- ?by=denied&n=20, and names in paths.
 *
 * Whoever writes these is an operator or his script. What is not understood is
 * refused with what may be written, rather than passed over: a filter that is
 * misspelt would answer another question.
 */
#include <string.h>

#include "base/digits.h"
#include "doors/http/admin/inner.h"
#include "doors/http/inner.h"

#define OPTIONS_MAX 8

int sl_admin_decode(struct sl_arena *arena, struct sl_str text, bool is_query,
                    struct sl_str *ret)
{
    char *out = sl_arena_take(arena, text.len + 1);
    size_t len = 0;

    if (!out)
        return SLUICE_ENOMEM;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.at[i];

        if (c == '+' && is_query)
            c = ' ';
        if (c == '%') {
            int high = i + 2 < text.len ? sl_hex_value(text.at[i + 1]) : -1;
            int low = i + 2 < text.len ? sl_hex_value(text.at[i + 2]) : -1;

            if (high < 0 || low < 0 || high + low == 0)
                return SLUICE_ECONF;
            c = (char)(high << 4 | low);
            i += 2;
        }
        out[len++] = c;
    }
    out[len] = '\0';
    *ret = (struct sl_str){out, len};
    return 0;
}

struct sl_str sl_admin_cut(struct sl_str *rest, char mark)
{
    const char *end = rest->len ? memchr(rest->at, mark, rest->len) : NULL;
    struct sl_str piece = {rest->at,
                           end ? (size_t)(end - rest->at) : rest->len};

    *rest = sl_str_from(*rest, piece.len + (end != NULL));
    return piece;
}

static bool refuse_unknown(struct sl_http_call *call, struct sl_str name,
                           const struct sl_admin_option *options,
                           unsigned count)
{
    const char *names[OPTIONS_MAX], *near;
    char all[128] = "";
    size_t len = 0;

    for (unsigned i = 0; i < count && i < OPTIONS_MAX; i++) {
        names[i] = options[i].name;
        if (len + strlen(names[i]) + 3 < sizeof(all)) {
            memcpy(all + len, len > 0 ? ", " : "", len > 0 ? 3 : 1);
            len += len > 0 ? 2 : 0;
            memcpy(all + len, names[i], strlen(names[i]) + 1);
            len += strlen(names[i]);
        }
    }
    near = sl_str_nearest(name, names, count);
    if (near)
        sl_http_refuse(call, 400, "BAD_QUERY",
                       "unknown option \"%.*s\" of %.*s; did you mean \"%s\"?",
                       SL_STR_ARG(name), SL_STR_ARG(call->path), near);
    else
        sl_http_refuse(call, 400, "BAD_QUERY",
                       "unknown option \"%.*s\" of %.*s; valid are: %s",
                       SL_STR_ARG(name), SL_STR_ARG(call->path), all);
    return false;
}

static bool read_pair(struct sl_http_call *call, struct sl_str pair,
                      const struct sl_admin_option *options, unsigned count)
{
    struct sl_str name = sl_admin_cut(&pair, '='), value;
    int err;

    for (unsigned i = 0; i < count; i++) {
        if (!sl_str_eq(name, sl_str_c(options[i].name)))
            continue;
        err = sl_admin_decode(&call->arena, pair, true, &value);
        if (err == SLUICE_ENOMEM)
            sl_http_no_memory(call);
        else if (err)
            sl_http_refuse(
                call, 400, "BAD_QUERY",
                "\"%.*s\" is not encoded as a query; write %%25 for a %%",
                SL_STR_ARG(pair));
        else if (options[i].value->len > 0)
            sl_http_refuse(call, 400, "BAD_QUERY", "\"%s\" is given twice",
                           options[i].name);
        else
            *options[i].value = value;
        return call->status == 200;
    }
    return refuse_unknown(call, name, options, count);
}

bool sl_admin_options(struct sl_http_call *call,
                      const struct sl_admin_option *options, unsigned count)
{
    struct sl_str query = call->query;

    for (unsigned i = 0; i < count; i++)
        *options[i].value = (struct sl_str){"", 0};
    while (query.len > 0) {
        struct sl_str pair = sl_admin_cut(&query, '&');

        if (pair.len > 0 && !read_pair(call, pair, options, count))
            return false;
    }
    return true;
}
