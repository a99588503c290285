/* top.c -- `sluice top` and `sluice reset`. */
#include <inttypes.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"

#define PATH_BYTES    ((size_t)8 << 10)
#define WATCH_SECONDS 2

/* ---- sluice top: the keys with the most denials ---- */

static const char *const measures[] = {"denied", "allowed", "cost"};

enum { LIMIT, SCOPE, KEY, NUMBERS, COLUMNS = NUMBERS + SL_LEN(measures) };

/* 17, or 15..17 for an estimate. */
static const char *range(json_t *row, const char *name, char out[64])
{
    json_int_t most = sl_member_int(row, name);
    json_int_t error = sl_member_int(json_object_get(row, "error"), name);

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
    char numbers[SL_LEN(measures)][64], key[512];

    cells[LIMIT] = sl_member_text(row, "limit", "-");
    cells[SCOPE] = sl_member_text(row, "scope", "-");
    snprintf(key, sizeof(key), "%s%s", sl_member_text(row, "key", "-"),
             sl_member_true(row, "cut") ? "..." : "");
    cells[KEY] = key[0] ? key : "-";
    for (unsigned i = 0; i < SL_LEN(measures); i++)
        cells[NUMBERS + i] = range(row, measures[i], numbers[i]);
    sl_columns_add(columns, cells);
}

static int print_top(struct sl_cli_args *args, json_t *answer)
{
    static const char *const head[COLUMNS] = {"limit",  "scope",   "key",
                                              "denied", "allowed", "cost"};
    json_t *totals = json_object_get(answer, "totals"), *row;
    struct sl_columns columns;
    size_t i;

    sl_columns_init(&columns, COLUMNS);
    sl_columns_add(&columns, head);
    json_array_foreach(json_object_get(answer, "rows"), i, row)
        add_row(&columns, row);
    if (!columns.failed)
        fprintf(args->cli->out,
                "since %s: %" JSON_INTEGER_FORMAT
                " denied, %" JSON_INTEGER_FORMAT " allowed; by %s\n",
                sl_member_text(answer, "from", "-"),
                sl_member_int(totals, "denied"),
                sl_member_int(totals, "allowed"),
                sl_member_text(answer, "by", "-"));
    return sl_columns_finish(&columns, args);
}

static int show(struct sl_daemon_request *r)
{
    return sl_daemon_request_print(
        r, "GET", "the values of the flags are too long", print_top);
}

static bool pause_watch(void)
{
    struct timespec pause = {.tv_sec = WATCH_SECONDS};

    return nanosleep(&pause, NULL) == 0; /* style: a person waits */
}

/* Repeat until a signal, or until the daemon or the output fails. */
static int watch(struct sl_daemon_request *r)
{
    FILE *out = r->args->cli->out;
    bool clears =
        r->args->format == SL_FORMAT_TABLE && isatty(fileno(out)) == 1;
    int status;

    do {
        if (clears)
            fputs("\033[H\033[2J", out);
        status = show(r);
    } while (!status && fflush(out) == 0 && pause_watch());
    return status;
}

static int run_top(struct sl_cli_args *args)
{
    static const struct {
        const char *name, *flag;
    } options[] = {
        {"by",       "by"      },
        {"limit",    "limit"   },
        {"endpoint", "endpoint"},
        {"n",        "rows"    },
    };
    struct sl_daemon_request r;
    int status;

    sl_daemon_request_init(&r, args, PATH_BYTES);
    status = sl_daemon_request_open(&r, true);
    sl_writer_add(&r.path, SL_STR("/v1/top"));
    for (size_t i = 0; i < SL_LEN(options); i++)
        sl_daemon_request_option(&r, options[i].name,
                                 sl_cli_args_flag(args, options[i].flag));
    if (sl_cli_args_flag(args, "recent"))
        sl_daemon_request_option(&r, "window", "recent");
    if (!status)
        status = sl_cli_args_flag(args, "watch") ? watch(&r) : show(&r);
    sl_daemon_request_done(&r);
    return status;
}

static const struct sl_flag top_flags[] = {
    {'\0', "by",       "denied|allowed|cost", "sort order (denied)"          },
    {'\0', "limit",    "NAME",                "only this limit"              },
    {'\0', "endpoint", "NAME",                "only this endpoint"           },
    {'n',  "rows",     "N",                   "number of rows (20)"          },
    {'\0', "recent",   NULL,                  "only the last 5 to 10 minutes"},
    {'\0', "watch",    NULL,                  "refresh every two seconds"    },
    SL_FLAG_ADMIN_URL,
    SL_FLAG_TOKEN,
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
    .flags = top_flags,
    .least = 0,
    .most = 0,
    .run = run_top,
};

/* ---- sluice reset: clear the usage of a key ---- */

static int print_reset(struct sl_cli_args *args, json_t *limit)
{
    json_t *list = json_array();
    int status;

    if (!list || json_array_append(list, limit))
        status = sl_cli_error(args, SL_EXIT_FAILED, "out of memory");
    else
        status = sl_numbers_print(args, list);
    json_decref(list);
    return status;
}

/* /v1/keys/LIMIT/VALUE... */
static int run_reset(struct sl_cli_args *args)
{
    const char *method = sl_cli_args_flag(args, "look") ? "GET" : "DELETE";
    struct sl_daemon_request r;
    int status;

    sl_daemon_request_init(&r, args, PATH_BYTES);
    status = sl_daemon_request_open(&r, true);
    sl_writer_add(&r.path, SL_STR("/v1/keys"));
    for (size_t i = 0; i < args->word_count; i++)
        sl_daemon_request_segment(&r, args->words[i]);
    sl_daemon_request_option(&r, "plan", sl_cli_args_flag(args, "plan"));
    sl_daemon_request_option(&r, "scope", sl_cli_args_flag(args, "scope"));
    if (!status)
        status = sl_daemon_request_print(&r, method, "the key is too long",
                                         print_reset);
    sl_daemon_request_done(&r);
    return status;
}

static const struct sl_flag reset_flags[] = {
    {'\0', "look",  NULL,   "show the numbers, do not reset them"           },
    {'\0', "plan",  "PLAN", "show the numbers for this plan"                },
    {'\0', "scope", "NAME", "scope of the values, as `sluice top` prints it"},
    SL_FLAG_ADMIN_URL,
    SL_FLAG_TOKEN,
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
    .run = run_reset,
};
