/* numbers.c -- the limits of a verdict, in columns. */
#include "cli/numbers.h"

#include <stdlib.h>

#include "base/parse.h"
#include "cli/columns.h"
#include "cli/out.h"

#define FINE (10 * SL_S)

char *sl_span_print(sl_ns span, char out[32])
{
    sl_ns unit = span > SL_HOUR ? SL_MIN : SL_S;

    if (span > FINE && span < SL_NS_MAX - unit)
        span = (span + unit - 1) / unit * unit;
    return sl_format_duration(span, out);
}

enum { NAME, SCOPE, PLAN, LIMIT, REMAINING, RESET, RETRY, MODE, COLUMNS };

static const char *text_of(json_t *limit, const char *name)
{
    const char *text = json_string_value(json_object_get(limit, name));

    return text ? text : "-";
}

static const char *number_of(json_t *limit, const char *name, char out[32])
{
    json_t *number = json_object_get(limit, name);

    if (!json_is_integer(number))
        return "-";
    snprintf(out, 32, "%" JSON_INTEGER_FORMAT, json_integer_value(number));
    return out;
}

static const char *span_of(json_t *limit, const char *name, char out[32])
{
    json_t *ms = json_object_get(limit, name);

    if (!json_is_integer(ms) || json_integer_value(ms) < 0 ||
        json_integer_value(ms) > SL_NS_MAX / SL_MS)
        return "-";
    return sl_span_print(json_integer_value(ms) * SL_MS, out);
}

static void add_limit(struct sl_columns *columns, json_t *limit)
{
    const char *cells[COLUMNS];
    char room[COLUMNS][32];

    cells[NAME] = text_of(limit, "name");
    cells[SCOPE] = text_of(limit, "scope");
    cells[PLAN] = text_of(limit, "plan");
    cells[LIMIT] = number_of(limit, "limit", room[LIMIT]);
    cells[REMAINING] = number_of(limit, "remaining", room[REMAINING]);
    cells[RESET] = span_of(limit, "reset_ms", room[RESET]);
    cells[RETRY] = span_of(limit, "retry_after_ms", room[RETRY]);
    cells[MODE] = text_of(limit, "mode");
    sl_columns_add(columns, cells);
}

int sl_numbers_print(struct sl_call *call, json_t *limits)
{
    static const char *const head[COLUMNS] = {
        "limit", "scope", "plan", "of", "remaining", "reset", "retry", "mode",
    };
    struct sl_columns columns;
    json_t *limit;
    size_t i;
    int status = 0;

    sl_columns_init(&columns, COLUMNS);
    sl_columns_add(&columns, head);
    json_array_foreach(limits, i, limit) add_limit(&columns, limit);
    if (columns.failed)
        status = sl_complain(call, SL_EXIT_NO, "out of memory");
    else
        sl_columns_print(&columns, call->cli->out);
    sl_columns_done(&columns);
    return status;
}

int sl_json_print(struct sl_call *call, json_t *root)
{
    char *text = json_dumps(root, JSON_COMPACT | JSON_PRESERVE_ORDER);

    if (!text)
        return sl_complain(call, SL_EXIT_NO, "out of memory");
    fprintf(call->cli->out, "%s\n", text);
    sl_free_text(text);
    return 0;
}
