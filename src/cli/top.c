/* top.c -- `sluice top` and `sluice reset`. */
#include <inttypes.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"

#define WATCH_SECONDS 2

/* ---- sluice top: the keys with the most denials ---- */

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
    char numbers[3][64], key[512];
    const char *scope = sl_member_text(row, "scope");
    const char *cells[] = {sl_member_text(row, "limit"),
                           scope[0] ? scope : "-",
                           key,
                           range(row, "denied", numbers[0]),
                           range(row, "allowed", numbers[1]),
                           range(row, "cost", numbers[2])};

    snprintf(key, sizeof(key), "%s%s", sl_member_text(row, "key"),
             sl_member_true(row, "cut") ? "..." : "");
    if (!key[0])
        cells[2] = "-";
    sl_columns_add(columns, cells);
}

static int print_top(struct sl_cli_args *args, json_t *answer)
{
    static const char *const head[] = {"limit",  "scope",   "key",
                                       "denied", "allowed", "cost"};
    json_t *totals = json_object_get(answer, "totals"), *row;
    struct sl_columns columns;
    size_t i;

    sl_columns_init(&columns, SL_LEN(head), head);
    json_array_foreach(json_object_get(answer, "rows"), i, row)
        add_row(&columns, row);
    if (!columns.failed)
        fprintf(args->cli->out,
                "since %s: %" JSON_INTEGER_FORMAT
                " denied, %" JSON_INTEGER_FORMAT " allowed; by %s\n",
                sl_member_text(answer, "from"), sl_member_int(totals, "denied"),
                sl_member_int(totals, "allowed"), sl_member_text(answer, "by"));
    return sl_columns_finish(&columns, args);
}

static int show(struct sl_cli_request *r)
{
    return sl_cli_request_print(
        r, "GET", "the values of the flags are too long", print_top);
}

/* Repeat until a signal, or until the daemon or the output fails. */
static int watch(struct sl_cli_request *r)
{
    struct timespec pause = {.tv_sec = WATCH_SECONDS};
    FILE *out = r->args->cli->out;
    bool clears =
        r->args->format == SL_FORMAT_TABLE && isatty(fileno(out)) == 1;
    int status;

    do {
        if (clears)
            fputs("\033[H\033[2J", out);
        status = show(r);
    } while (!status && fflush(out) == 0 &&
             nanosleep(&pause, NULL) == 0); /* style: a person waits */
    return status;
}

static int ask_top(struct sl_cli_request *r)
{
    static const struct {
        const char *name, *flag;
    } options[] = {
        {"by",       "by"      },
        {"limit",    "limit"   },
        {"endpoint", "endpoint"},
        {"n",        "rows"    },
    };

    sl_writer_add(&r->path, SL_STR("/v1/top"));
    for (size_t i = 0; i < SL_LEN(options); i++)
        sl_cli_request_option(r, options[i].name,
                              sl_cli_flag(r->args, options[i].flag));
    if (sl_cli_flag(r->args, "recent"))
        sl_cli_request_option(r, "window", "recent");
    return sl_cli_flag(r->args, "watch") ? watch(r) : show(r);
}

static const struct sl_flag top_flags[] = {
    {'\0', "by",       "denied|allowed|cost", "sort order (denied)"          },
    {'\0', "limit",    "NAME",                "only this limit"              },
    {'\0', "endpoint", "NAME",                "only this endpoint"           },
    {'n',  "rows",     "N",                   "number of rows (20)"          },
    {'\0', "recent",   NULL,                  "only the last 5 to 10 minutes"},
    {'\0', "watch",    NULL,                  "refresh every two seconds"    },
    {'\0', NULL,       NULL,                  NULL                           },
};

const struct sl_command sl_command_top = {
    .name = "top",
    .usage = "[FLAG...]",
    .summary = "Show the most denied keys",
    .help = "Prints one row per key of a limit: denials, admissions and the\n"
            "cost taken. With very many keys the numbers of small keys are\n"
            "estimates, printed as a range: 15..17.\n"
            "\n"
            "  sluice top\n"
            "  sluice top --limit tenant --by allowed -n 50\n"
            "  sluice top --watch --recent\n"
            "  sluice top -o json --admin-url http://10.0.0.7:9090\n",
    .formats = "table|json",
    .flags = top_flags,
    .listener = SL_LISTENER_ADMIN,
    .ask = ask_top,
};

/* ---- sluice reset: clear the usage of a key ---- */

static int print_reset(struct sl_cli_args *args, json_t *limit)
{
    json_t *list = json_array();
    int status;

    if (!list || json_array_append(list, limit))
        status = sl_cli_no_memory(args);
    else
        status = sl_numbers_print(args, list);
    json_decref(list);
    return status;
}

/* /v1/keys/LIMIT/VALUE... */
static int ask_reset(struct sl_cli_request *r)
{
    struct sl_cli_args *args = r->args;
    const char *note = sl_cli_cut_note(args);
    int status = sl_cli_request_sign(r, sl_cli_author(args), note);

    if (!status && args->word_count == 0)
        status = sl_cli_misuse(args, "missing limit; write: sluice reset LIMIT "
                                     "VALUE... [note=TEXT]");
    if (status)
        return status;
    sl_writer_add(&r->path, SL_STR("/v1/keys"));
    for (size_t i = 0; i < args->word_count; i++)
        sl_cli_request_segment(r, args->words[i]);
    sl_cli_request_option(r, "plan", sl_cli_flag(args, "plan"));
    sl_cli_request_option(r, "scope", sl_cli_flag(args, "scope"));
    return sl_cli_request_print(r, sl_cli_flag(args, "look") ? "GET" : "DELETE",
                                "the key is too long", print_reset);
}

static const struct sl_flag reset_flags[] = {
    {'\0', "look",  NULL,   "show the numbers, do not reset them"           },
    {'\0', "plan",  "PLAN", "show the numbers for this plan"                },
    {'\0', "scope", "NAME", "scope of the values, as `sluice top` prints it"},
    {'\0', "by",    "NAME", "author of the change (you)"                    },
    {'\0', NULL,    NULL,   NULL                                            },
};

const struct sl_command sl_command_reset = {
    .name = "reset",
    .usage = "LIMIT VALUE... [note=TEXT]",
    .summary = "Reset the usage of one key",
    .help = "Write one VALUE for each `per` of the limit, in that order: an\n"
            "organisation and a user for `per: [org, user]`, none for `per:\n"
            "[]`. Prints the numbers of the key after the reset. The last\n"
            "word can be note=TEXT: the reason, for the audit.\n"
            "\n"
            "  sluice reset ai-minute ann note=\"ticket 7\"\n"
            "  sluice reset member acme ann --look\n"
            "  sluice reset per-visitor 6f1c0a... --scope anon\n",
    .formats = "table|json",
    .flags = reset_flags,
    .listener = SL_LISTENER_ADMIN,
    .least = 1,
    .most = 6,
    .ask = ask_reset,
};
