/* list.c -- all subjects, or some, page by page.
 *
 * As JSON it is a line for each, which `import` reads again: a backup of a
 * daemon that runs.
 */
#include <string.h>

#include "cli/columns.h"
#include "cli/numbers.h"
#include "cli/subject/subject.h"

#define PAGE 500

static int add_option(struct sl_buf *path, const char *name, const char *value)
{
    int err;

    if (!value || !value[0])
        return 0;
    err = sl_buf_addf(path, "&%s=", name);
    return err ? err : sl_reach_encode(path, sl_str_c(value));
}

static int ask_page(struct sl_call *call, struct sl_client *client,
                    const char *after, json_t **ret)
{
    struct sl_buf path;
    int err, status;

    sl_buf_init(&path, SL_SUBJECT_PATH, &sl_alloc_libc);
    err = sl_buf_addf(&path, "/v1/subjects?limit=%d", PAGE);
    if (!err)
        err = add_option(&path, "scope", sl_call_flag(call, "scope"));
    if (!err)
        err = add_option(&path, "prefix", sl_call_flag(call, "prefix"));
    if (!err)
        err = add_option(&path, "after", after);
    if (!err)
        err = sl_buf_add(&path, (struct sl_str){"", 1});
    status =
        err ? sl_complain(call, SL_EXIT_USAGE, "the prefix is too long")
            : sl_reach_ask(call, client, "GET", path.bytes, SL_STR(""), ret);
    sl_buf_done(&path);
    return status;
}

static const char *text_of(const json_t *map, const char *name)
{
    const char *text = json_string_value(json_object_get(map, name));

    return text ? text : "";
}

/* "a, b" */
static void join(const json_t *list, char *out, size_t size)
{
    size_t i, len = 0;
    json_t *item;

    out[0] = '\0';
    json_array_foreach(list, i, item)
    {
        if (len < size)
            len += (size_t)snprintf(out + len, size - len, "%s%s",
                                    i > 0 ? "," : "", json_string_value(item));
    }
}

static void join_rates(json_t *rates, char *out, size_t size)
{
    const char *limit;
    size_t len = 0;
    json_t *rate;

    out[0] = '\0';
    json_object_foreach(rates, limit, rate)
    {
        if (len < size)
            len += (size_t)snprintf(out + len, size - len, "%s%s=%s",
                                    len > 0 ? "," : "", limit,
                                    json_string_value(rate));
    }
}

static void add_row(struct sl_columns *columns, const json_t *subject)
{
    char roles[256], rates[512], expires[64];
    const char *cells[] = {
        text_of(subject, "scope"),
        text_of(subject, "id"),
        text_of(subject, "plan"),
        expires,
        roles,
        rates,
        text_of(subject, "note"),
    };

    snprintf(expires, sizeof(expires), "%s%s", text_of(subject, "expires"),
             json_is_true(json_object_get(subject, "expired")) ? " (over)"
                                                               : "");
    join(json_object_get(subject, "roles"), roles, sizeof(roles));
    join_rates(json_object_get(subject, "overrides"), rates, sizeof(rates));
    sl_columns_add(columns, cells);
}

static void warn(struct sl_call *call, const json_t *subject)
{
    json_t *item;
    size_t i;

    json_array_foreach(json_object_get(subject, "warnings"), i, item)
        sl_complain(call, 0, "%s %s: %s", text_of(subject, "scope"),
                    text_of(subject, "id"), json_string_value(item));
}

static int show_page(struct sl_call *call, struct sl_columns *columns,
                     const json_t *page)
{
    json_t *subject;
    int status = 0;
    size_t i;

    json_array_foreach(json_object_get(page, "subjects"), i, subject)
    {
        warn(call, subject);
        if (call->format == SL_FORMAT_JSON)
            status = sl_json_print(call, subject);
        else
            add_row(columns, subject);
        if (status)
            break;
    }
    return status;
}

int sl_subject_list(struct sl_call *call, struct sl_client *client,
                    char **words, size_t count)
{
    static const char *const heads[] = {"SCOPE", "ID",        "PLAN", "EXPIRES",
                                        "ROLES", "OVERRIDES", "NOTE"};
    struct sl_columns columns;
    char after[1024] = "";
    bool more = true;
    int status = 0;

    (void)words;
    (void)count;
    sl_columns_init(&columns, SL_LEN(heads));
    sl_columns_add(&columns, heads);
    while (more && !status) {
        json_t *page = NULL;

        status = ask_page(call, client, after, &page);
        if (!status)
            status = show_page(call, &columns, page);
        snprintf(after, sizeof(after), "%s", text_of(page, "next"));
        more = after[0];
        json_decref(page);
    }
    if (!status && columns.failed)
        status = sl_subject_no_memory(call);
    if (!status && call->format != SL_FORMAT_JSON)
        sl_columns_print(&columns, call->cli->out);
    sl_columns_done(&columns);
    return status;
}
