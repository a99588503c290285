/* top.c -- sluice top: whose requests are refused, pass, and take most. */
#include <inttypes.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"

#define PATH_BYTES ((size_t)8 << 10)
#define WATCH      2 /* seconds between two looks */

static const char *const measures[] = {"denied", "allowed", "cost"};

enum { LIMIT, SCOPE, KEY, NUMBERS, COLUMNS = NUMBERS + SL_LEN(measures) };

/* ---- the question ---- */

static int add_option(struct sl_buf *path, const char *name, const char *value)
{
    int err;

    if (!value)
        return 0;
    err = sl_buf_addf(path, "&%s=", name);
    return err ? err : sl_daemon_reach_encode(path, sl_str_c(value));
}

/* With a NUL behind it. */
static int write_path(struct sl_cli_args *call, struct sl_buf *path)
{
    int err = sl_buf_addf(path, "/v1/top?");

    if (!err)
        err = add_option(path, "by", sl_cli_args_flag(call, "by"));
    if (!err)
        err = add_option(path, "limit", sl_cli_args_flag(call, "limit"));
    if (!err)
        err = add_option(path, "endpoint", sl_cli_args_flag(call, "endpoint"));
    if (!err)
        err = add_option(path, "n", sl_cli_args_flag(call, "rows"));
    if (!err)
        err = add_option(path, "window",
                         sl_cli_args_flag(call, "recent") ? "recent" : NULL);
    return err ? err : sl_buf_add(path, (struct sl_str){"", 1});
}

/* ---- the answer ---- */

static const char *text_of(json_t *row, const char *name)
{
    const char *text = json_string_value(json_object_get(row, name));

    return text ? text : "-";
}

static json_int_t number_of(json_t *row, const char *name)
{
    return json_integer_value(json_object_get(row, name));
}

/* 17, or 15..17 where no more is certain. */
static const char *range(json_t *row, const char *name, char out[64])
{
    json_int_t most = number_of(row, name);
    json_int_t error = number_of(json_object_get(row, "error"), name);

    if (error > 0)
        snprintf(out, 64, "%" JSON_INTEGER_FORMAT "..%" JSON_INTEGER_FORMAT,
                 most - error, most);
    else
        snprintf(out, 64, "%" JSON_INTEGER_FORMAT, most);
    return out;
}

static void add_row(struct sl_columns *columns, json_t *row)
{
    const char *cells[COLUMNS];
    char room[COLUMNS][64], key[512];
    bool cut = json_is_true(json_object_get(row, "cut"));

    cells[LIMIT] = text_of(row, "limit");
    cells[SCOPE] = text_of(row, "scope");
    snprintf(key, sizeof(key), "%s%s", text_of(row, "key"), cut ? "..." : "");
    cells[KEY] = key[0] ? key : "-";
    for (unsigned i = 0; i < SL_LEN(measures); i++)
        cells[NUMBERS + i] = range(row, measures[i], room[NUMBERS + i]);
    sl_columns_add(columns, cells);
}

static void print_head(FILE *out, json_t *answer)
{
    json_t *totals = json_object_get(answer, "totals");

    fprintf(out,
            "since %s: %" JSON_INTEGER_FORMAT " denied, %" JSON_INTEGER_FORMAT
            " allowed; by %s\n",
            text_of(answer, "from"), number_of(totals, "denied"),
            number_of(totals, "allowed"), text_of(answer, "by"));
}

static int print_table(struct sl_cli_args *call, json_t *answer)
{
    static const char *const head[COLUMNS] = {"limit",  "scope",   "key",
                                              "denied", "allowed", "cost"};
    struct sl_columns columns;
    json_t *row;
    size_t i;
    int status = 0;

    sl_columns_init(&columns, COLUMNS);
    sl_columns_add(&columns, head);
    json_array_foreach(json_object_get(answer, "rows"), i, row)
        add_row(&columns, row);
    if (columns.failed) {
        status = sl_cli_error(call, SL_EXIT_FAILED, "out of memory");
    } else {
        print_head(call->cli->out, answer);
        sl_columns_print(&columns, call->cli->out);
    }
    sl_columns_done(&columns);
    return status;
}

static int look(struct sl_cli_args *call, struct sl_daemon_client *client,
                const char *path)
{
    json_t *answer = NULL;
    int status = sl_daemon_reach_ask(call, client, "GET", path,
                                     (struct sl_str){"", 0}, &answer);

    if (!status)
        status = call->format == SL_FORMAT_JSON ? sl_json_print(call, answer)
                                                : print_table(call, answer);
    json_decref(answer);
    return status;
}

/* A moment, for somebody who watches. */
static bool rest(void)
{
    struct timespec pause = {.tv_sec = WATCH};

    return nanosleep(&pause, NULL) == 0; /* style: a person waits */
}

/* Until somebody ends it, or nobody answers, or nobody reads. */
static int watch(struct sl_cli_args *call, struct sl_daemon_client *client,
                 const char *path)
{
    FILE *out = call->cli->out;
    bool clears = call->format == SL_FORMAT_TABLE && isatty(fileno(out)) == 1;
    int status;

    do {
        if (clears)
            fputs("\033[H\033[2J", out);
        status = look(call, client, path);
    } while (!status && fflush(out) == 0 && rest());
    return status;
}

static int run(struct sl_cli_args *call)
{
    struct sl_daemon_client client;
    struct sl_buf path;
    int status = sl_daemon_reach(call, true, &client);

    sl_buf_init(&path, PATH_BYTES, &sl_alloc_libc);
    if (!status && write_path(call, &path))
        status = sl_cli_error(call, SL_EXIT_USAGE,
                              "the values of the flags are too long");
    if (!status)
        status = sl_cli_args_flag(call, "watch")
                     ? watch(call, &client, path.bytes)
                     : look(call, &client, path.bytes);
    sl_buf_done(&path);
    sl_daemon_client_done(&client);
    return status;
}

static const struct sl_flag flags[] = {
    {'\0', "by",       "denied|allowed|cost", "sort order (denied)"          },
    {'\0', "limit",    "NAME",                "only this limit"              },
    {'\0', "endpoint", "NAME",                "only this endpoint"           },
    {'n',  "rows",     "N",                   "number of rows (20)"          },
    {'\0', "recent",   NULL,                  "only the last 5 to 10 minutes"},
    {'\0', "watch",    NULL,                  "refresh every two seconds"    },
    SL_DAEMON_REACH_ADMIN_URL,
    SL_DAEMON_REACH_TOKEN,
    {'\0', NULL,       NULL,                  NULL                           },
};

const struct sl_command sl_command_top = {
    .name = "top",
    .usage = "[FLAG...]",
    .summary = "Show the most denied keys",
    .help = "Prints one row per key of a limit: denials, admissions and the "
            "cost taken. With\n"
            "very many keys the numbers of small keys are estimates, printed "
            "as a range:\n"
            "15..17.\n"
            "\n"
            "  sluice top\n"
            "  sluice top --limit tenant --by allowed -n 50\n"
            "  sluice top --watch --recent\n"
            "  sluice top -o json --admin-url http://10.0.0.7:9090\n",
    .words = "",
    .formats = "table|json",
    .flags = flags,
    .least = 0,
    .most = 0,
    .run = run,
};

/* ---- sluice reset: let a key have used nothing. */

static int reset_add_option(struct sl_cli_args *call, struct sl_buf *path,
                            const char *name)
{
    const char *value = sl_cli_args_flag(call, name);
    bool first = !memchr(path->bytes, '?', path->len);
    int err;

    if (!value)
        return 0;
    err = sl_buf_addf(path, "%c%s=", first ? '?' : '&', name);
    return err ? err : sl_daemon_reach_encode(path, sl_str_c(value));
}

/* /v1/keys/LIMIT/VALUE... with a NUL behind it. */
static int reset_write_path(struct sl_cli_args *call, struct sl_buf *path)
{
    int err = sl_buf_addf(path, "/v1/keys");

    for (size_t i = 0; i < call->word_count && !err; i++) {
        err = sl_buf_addf(path, "/");
        if (!err)
            err = sl_daemon_reach_encode(path, sl_str_c(call->words[i]));
    }
    if (!err)
        err = reset_add_option(call, path, "plan");
    if (!err)
        err = reset_add_option(call, path, "scope");
    return err ? err : sl_buf_add(path, (struct sl_str){"", 1});
}

static int print(struct sl_cli_args *call, json_t *limit)
{
    json_t *list;
    int status;

    if (call->format == SL_FORMAT_JSON)
        return sl_json_print(call, limit);
    list = json_array();
    if (!list || json_array_append(list, limit))
        status = sl_cli_error(call, SL_EXIT_FAILED, "out of memory");
    else
        status = sl_numbers_print(call, list);
    json_decref(list);
    return status;
}

static int ask(struct sl_cli_args *call, struct sl_daemon_client *client)
{
    const char *method = sl_cli_args_flag(call, "look") ? "GET" : "DELETE";
    json_t *limit = NULL;
    struct sl_buf path;
    int status;

    sl_buf_init(&path, PATH_BYTES, &sl_alloc_libc);
    if (reset_write_path(call, &path))
        status = sl_cli_error(call, SL_EXIT_USAGE, "the key is too long");
    else
        status = sl_daemon_reach_ask(call, client, method, path.bytes,
                                     (struct sl_str){"", 0}, &limit);
    if (!status)
        status = print(call, limit);
    json_decref(limit);
    sl_buf_done(&path);
    return status;
}

static int reset_run(struct sl_cli_args *call)
{
    struct sl_daemon_client client;
    int status = sl_daemon_reach(call, true, &client);

    if (!status)
        status = ask(call, &client);
    sl_daemon_client_done(&client);
    return status;
}

static const struct sl_flag reset_flags[] = {
    {'\0', "look",  NULL,   "show the numbers, do not reset them"           },
    {'\0', "plan",  "PLAN", "show the numbers for this plan"                },
    {'\0', "scope", "NAME", "scope of the values, as `sluice top` prints it"},
    SL_DAEMON_REACH_ADMIN_URL,
    SL_DAEMON_REACH_TOKEN,
    {'\0', NULL,    NULL,   NULL                                            },
};

const struct sl_command sl_command_reset = {
    .name = "reset",
    .usage = "LIMIT VALUE...",
    .summary = "Reset the usage of one key",
    .help = "Write one VALUE for each `per` of the limit, in that order: an "
            "organisation and\n"
            "a user for `per: [org, user]`, none for `per: []`. Prints the "
            "numbers of the key\n"
            "after the reset.\n"
            "\n"
            "  sluice reset ai-minute ann\n"
            "  sluice reset member acme ann --look\n"
            "  sluice reset per-visitor 6f1c0a... --scope anon\n",
    .words = "",
    .formats = "table|json",
    .flags = reset_flags,
    .least = 1,
    .most = 5,
    .run = reset_run,
};
