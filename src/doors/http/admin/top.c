/* top.c -- GET /v1/top: whose requests are refused, pass, and take most.
 *
 *     {"by":"denied","window":"start","from":"...","to":"...",
 *      "totals":{"denied":9,"allowed":120,"cost":120},
 *      "rows":[{"limit":"tenant","scope":"org","key":"acme","cut":false,
 *               "denied":9,"allowed":20,"cost":20,
 *               "error":{"denied":0,"allowed":0,"cost":0}}]}
 */
#include <inttypes.h>

#include "base/instant.h"
#include "base/parse.h"
#include "doors/http/admin/inner.h"
#include "wire/json.h"

#define ROWS_USUAL 20

/* ---- the question ---- */

static bool read_by(struct sl_http_call *call, struct sl_str text,
                    enum sl_measure *ret)
{
    if (text.len == 0)
        return true;
    for (unsigned i = 0; i < SL_MEASURES; i++)
        if (sl_str_eq(text, sl_str_c(sl_measure_names[i]))) {
            *ret = (enum sl_measure)i;
            return true;
        }
    sl_http_refuse(call, 400, "BAD_QUERY",
                   "\"by\" must be denied, allowed or cost, not \"%.*s\"",
                   SL_STR_ARG(text));
    return false;
}

static bool read_window(struct sl_http_call *call, struct sl_str text,
                        bool *recent)
{
    *recent = sl_str_eq(text, SL_STR("recent"));
    if (text.len == 0 || *recent || sl_str_eq(text, SL_STR("start")))
        return true;
    sl_http_refuse(call, 400, "BAD_QUERY",
                   "\"window\" must be start or recent, not \"%.*s\"",
                   SL_STR_ARG(text));
    return false;
}

static bool read_rows(struct sl_http_call *call, struct sl_str text,
                      unsigned *ret)
{
    uint64_t rows = ROWS_USUAL;

    if (text.len > 0 && (sl_parse_number(text, &rows, NULL) || rows == 0 ||
                         rows > SL_TOP_MOST)) {
        sl_http_refuse(
            call, 400, "BAD_QUERY",
            "\"n\" must be a number of rows from 1 to %d, not \"%.*s\"",
            SL_TOP_MOST, SL_STR_ARG(text));
        return false;
    }
    *ret = (unsigned)rows;
    return true;
}

/* A limit of an earlier policy may still have its rows; one that nobody ever
 * had is a slip. */
static bool read_query(struct sl_http_call *call, struct sl_top_query *query)
{
    struct sl_str by, window, rows;
    const struct sl_admin_option options[] = {
        {"by",       &by             },
        {"limit",    &query->limit   },
        {"endpoint", &query->endpoint},
        {"n",        &rows           },
        {"window",   &window         },
    };

    *query = (struct sl_top_query){.now = sl_http_now(call)};
    return sl_admin_options(call, options, SL_LEN(options)) &&
           read_by(call, by, &query->by) &&
           read_window(call, window, &query->recent) &&
           read_rows(call, rows, &query->most);
}

/* ---- the answer ---- */

/* "denied":9,"allowed":120,"cost":120 */
static int write_counts(struct sl_buf *out, const uint64_t *counts)
{
    int err = 0;

    for (unsigned m = 0; m < SL_MEASURES && !err; m++) {
        err = sl_buf_addf(out, "%s\"%s\":", m > 0 ? "," : "",
                          sl_measure_names[m]);
        if (!err)
            err = sl_json_number(out, counts[m]);
    }
    return err;
}

static int write_text(struct sl_buf *out, const char *name, struct sl_str text)
{
    int err = sl_buf_addf(out, "%s", name);

    return err ? err : sl_json_string(out, text);
}

static int write_row(struct sl_buf *out, const struct sl_top_row *row)
{
    int err = write_text(out, "{\"limit\":", row->limit);

    if (!err)
        err = write_text(out, ",\"scope\":", row->scope);
    if (!err)
        err = write_text(out, ",\"key\":", row->key);
    if (!err)
        err = sl_buf_addf(out, ",\"cut\":%s,", row->cut ? "true" : "false");
    if (!err)
        err = write_counts(out, row->count);
    if (!err)
        err = sl_buf_addf(out, ",\"error\":{");
    if (!err)
        err = write_counts(out, row->error);
    return err ? err : sl_buf_addf(out, "}}");
}

static int write_head(struct sl_buf *out, const struct sl_top_query *query,
                      const struct sl_top_answer *answer)
{
    char from[SL_INSTANT_TEXT], to[SL_INSTANT_TEXT];
    int err;

    sl_instant_print(answer->from > 0 ? answer->from : 0, true, from);
    sl_instant_print(query->now, true, to);
    err = sl_buf_addf(out,
                      "{\"by\":\"%s\",\"window\":\"%s\",\"from\":\"%s\","
                      "\"to\":\"%s\",\"totals\":{",
                      sl_measure_names[query->by],
                      query->recent ? "recent" : "start", from, to);
    if (!err)
        err = write_counts(out, answer->total);
    return err ? err : sl_buf_addf(out, "},\"rows\":[");
}

static int write_answer(struct sl_buf *out, const struct sl_top_query *query,
                        const struct sl_top_answer *answer)
{
    int err = write_head(out, query, answer);

    for (unsigned i = 0; i < answer->count && !err; i++) {
        err = i > 0 ? sl_buf_addf(out, ",") : 0;
        if (!err)
            err = write_row(out, &answer->rows[i]);
    }
    return err ? err : sl_buf_addf(out, "]}");
}

void sl_admin_top(struct sl_http_call *call)
{
    const struct sl_admin *admin = sl_admin_of(call);
    struct sl_top_query query;
    struct sl_top_answer answer;
    int err;

    if (!sl_admin_admit(call) || !read_query(call, &query))
        return;
    err = admin->top(admin->ctx, &query, &call->arena, &answer);
    if (!err)
        err = write_answer(&call->text, &query, &answer);
    sl_admin_answer(call, err, sl_admin_json);
}
