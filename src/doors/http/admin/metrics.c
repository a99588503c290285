/* metrics.c -- GET /metrics, in the format that the caller prefers. */
#include "doors/http/admin/inner.h"

#include <string.h>

static const struct sl_str prometheus = {
    "text/plain; version=0.0.4; charset=utf-8", 40};
static const struct sl_str open_metrics = {
    "application/openmetrics-text; version=1.0.0; charset=utf-8", 58};

/* Cut off what stands before `mark`, or all of it; `rest` is what follows. */
static struct sl_str cut(struct sl_str *rest, char mark)
{
    const char *end = rest->len ? memchr(rest->at, mark, rest->len) : NULL;
    struct sl_str piece = *rest;

    piece.len = end ? (size_t)(end - rest->at) : rest->len;
    *rest = sl_str_from(*rest, piece.len + (end != NULL));
    return sl_str_trim(piece);
}

/* "q=0.75" as 750; 1000 for any other parameter. */
static unsigned read_q(struct sl_str parameter)
{
    unsigned q = 0, unit = 1000;

    if (parameter.len < 3 || (parameter.at[0] | 32) != 'q' ||
        parameter.at[1] != '=')
        return 1000;
    for (size_t i = 2; i < parameter.len && unit > 0; i++) {
        char c = parameter.at[i];

        if (c == '.')
            continue;
        if (c < '0' || c > '9')
            return 0;
        q += unit * (unsigned)(c - '0');
        unit /= 10;
    }
    return q < 1000 ? q : 1000;
}

/* How much the caller wants `type`: the largest q of the ranges that name it;
 * 0 if none does. */
static unsigned wish(struct sl_str accept, struct sl_str type)
{
    unsigned best = 0;

    while (accept.len > 0) {
        struct sl_str range = cut(&accept, ',');
        bool named = sl_str_eq_nocase(cut(&range, ';'), type);
        unsigned q = 1000;

        while (range.len > 0) {
            unsigned said = read_q(cut(&range, ';'));

            q = said < q ? said : q;
        }
        if (named && q > best)
            best = q;
    }
    return best;
}

void sl_admin_metrics(struct sl_http_call *call)
{
    const struct sl_admin *admin = sl_admin_of(call);
    struct sl_str accept =
        sl_http1_field(call->request, SL_STR("accept"), NULL);
    unsigned open = wish(accept, SL_STR("application/openmetrics-text"));
    bool is_open = open > 0 && open >= wish(accept, SL_STR("text/plain"));
    int err = admin->metrics(admin->ctx, is_open, &call->text);

    sl_http_field(call, SL_STR("Vary"), SL_STR("Accept"));
    sl_admin_answer(call, err, is_open ? open_metrics : prometheus);
}
