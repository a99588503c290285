/* usage.c -- `sluice usage`, `sluice backlog` and `sluice leases`. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/parse.h"
#include "cli/cli.h"
#include "wire/csv.h"
#include "wire/json.h"

#define BAR_COLUMNS 20 /* inside the brackets */
#define DAYS_SHOWN  14 /* at most, the last ones */

/* ---- sluice usage: show or report the usage of quotas and levels ---- */

static uint64_t amount_of(const json_t *map, const char *name)
{
    json_int_t n = sl_member_int(map, name);

    return n > 0 ? (uint64_t)n : 0;
}

/* [####----], returns out. */
static const char *draw_bar(uint64_t part, uint64_t whole,
                            char out[BAR_COLUMNS + 3])
{
    uint64_t filled = whole > 0 ? part * BAR_COLUMNS / whole : 0;

    snprintf(out, BAR_COLUMNS + 3, "[%*s]", BAR_COLUMNS, "");
    for (unsigned i = 0; i < BAR_COLUMNS; i++)
        out[i + 1] = i < filled ? '#' : '-';
    return out;
}

static void print_amount(FILE *out, const json_t *meter, bool limited)
{
    const char *unit = sl_member_text(meter, "unit");

    fprintf(out, "%" PRIu64, amount_of(meter, "used"));
    if (limited)
        fprintf(out, " of %" PRIu64, amount_of(meter, "limit"));
    if (unit[0])
        sl_out_print(out, " %s", unit);
    if (amount_of(meter, "overage") > 0)
        fprintf(out, ", %" PRIu64 " overage", amount_of(meter, "overage"));
    if (amount_of(meter, "credited") > 0)
        fprintf(out, ", %" PRIu64 " by credits", amount_of(meter, "credited"));
    fputc('\n', out);
}

/* When the period ends, and when the limit is likely to be reached. */
static void print_times(FILE *out, const json_t *meter, int width)
{
    const char *reset = sl_member_text(meter, "reset");
    const char *exhausted = sl_member_text(meter, "exhausted");

    if (!reset[0])
        return;
    sl_out_print(out, "%*s  resets %s", width, "", reset);
    if (exhausted[0] && amount_of(meter, "remaining") > 0)
        sl_out_print(out, ", used up about %s", exhausted);
    fputc('\n', out);
}

/* A bar for each of the last days, relative to the busiest day. */
static void print_days(FILE *out, const json_t *days, int width)
{
    size_t count = json_array_size(days);
    size_t from = count > DAYS_SHOWN ? count - DAYS_SHOWN : 0;
    char bar[BAR_COLUMNS + 3];
    uint64_t most = 0;

    for (size_t i = from; i < count; i++) {
        uint64_t used = amount_of(json_array_get(days, i), "used");

        most = used > most ? used : most;
    }
    for (size_t i = from; i < count && most > 0; i++) {
        const json_t *day = json_array_get(days, i);

        sl_out_print(out, "%*s  %s %s %" PRIu64 "\n", width, "",
                     sl_member_text(day, "day"),
                     draw_bar(amount_of(day, "used"), most, bar),
                     amount_of(day, "used"));
    }
}

static void print_meter(struct sl_cli_args *args, const json_t *meter,
                        int width)
{
    FILE *out = args->cli->out;
    bool limited = json_is_integer(json_object_get(meter, "limit"));
    const char *name = sl_member_text(meter, "name");
    uint64_t share = amount_of(meter, "share");
    char bar[BAR_COLUMNS + 3], text[sizeof(bar) + 32];

    sl_out_print(out, "%s%*s  ", name, width - (int)strlen(name), "");
    if (limited) {
        snprintf(text, sizeof(text), "%s %4" PRIu64 " %%",
                 draw_bar(share < 100 ? share : 100, 100, bar), share);
        sl_out_coloured(out,
                        share >= 100  ? SL_RED
                        : share >= 80 ? SL_YELLOW
                                      : SL_GREEN,
                        text);
        fputs("  ", out);
    } else {
        fprintf(out, "%-*s  ", BAR_COLUMNS + 9, "unlimited");
    }
    print_amount(out, meter, limited);
    print_times(out, meter, width);
    if (sl_cli_flag(args, "days"))
        print_days(out, json_object_get(meter, "days"), width);
}

/* The answer to a report is one meter. */
static int print_usage(struct sl_cli_args *args, json_t *answer)
{
    json_t *meters = json_object_get(answer, "meters"), *meter;
    size_t i;
    int width = 0;

    if (!meters) {
        print_meter(args, answer, (int)strlen(sl_member_text(answer, "name")));
        return 0;
    }
    json_array_foreach(meters, i, meter)
    {
        int len = (int)strlen(sl_member_text(meter, "name"));

        width = len > width ? len : width;
    }
    json_array_foreach(meters, i, meter) print_meter(args, meter, width);
    if (json_array_size(meters) == 0)
        fprintf(args->cli->err, "the policy has no limit per %s\n",
                args->words[0]);
    return 0;
}

/* GET /v1/usage/SCOPE/ID */
static int show_usage(struct sl_cli_request *r)
{
    struct sl_cli_args *args = r->args;
    const char *days = sl_cli_flag(args, "days");

    sl_writer_add(&r->path, SL_STR("/v1/usage"));
    sl_cli_request_segment(r, args->words[0]);
    sl_cli_request_segment(r, args->words[1]);
    if (!days && args->format != SL_FORMAT_JSON)
        days = "0";
    sl_cli_request_option(r, "days", days);
    sl_cli_request_option(r, "limit", sl_cli_flag(args, "limit"));
    return sl_cli_request_print(
        r, "GET", "the values of the flags are too long", print_usage);
}

/* POST /v1/usage */
static int report_usage(struct sl_cli_request *r)
{
    struct sl_cli_args *args = r->args;
    const char *scope = args->words[0], *number = args->words[3];
    const char *key = sl_cli_flag(args, "key");
    bool release = number[0] == '-';
    struct sl_diag diag = {.sentence = ""};
    uint64_t amount;

    if (strcmp(scope, "user") != 0 && strcmp(scope, "org") != 0)
        return sl_cli_misuse(
            args, "usage is reported for user or org, not for \"%s\"", scope);
    if (sl_parse_count(sl_str_c(number + release), &amount, &diag))
        return sl_cli_misuse(args, "%s", diag.sentence);
    sl_writer_addf(&r->body, "{\"amount\":%" PRIu64 "%s", amount,
                   release ? ",\"release\":true" : "");
    sl_json_member_text(&r->body, scope, args->words[1]);
    sl_json_member_text(&r->body, "limit", args->words[2]);
    sl_json_member_text(&r->body, "idempotency_key", key);
    sl_json_close(&r->body, '}');
    sl_writer_add(&r->path, SL_STR("/v1/usage"));
    return sl_cli_request_print(r, "POST", "the report is too long",
                                print_usage);
}

/* ---- sluice usage export: all organisations, for bills ---- */

/* GET /v1/usage/export, a page at a time. */
static int export_usage(struct sl_cli_request *r)
{
    struct sl_cli_args *args = r->args;
    const char *format = sl_cli_flag(args, "format");
    bool is_csv = format && strcmp(format, "csv") == 0;
    struct sl_str text = SL_STR("");
    char cursor[8192] = "";
    int status;

    do {
        sl_buf_clear(&r->path_text);
        sl_writer_add(&r->path, SL_STR("/v1/usage/export?rows=1000"));
        sl_cli_request_option(r, "format", format);
        if (cursor[0]) {
            sl_writer_addf(&r->path, "&cursor=%s", cursor);
        } else {
            sl_cli_request_option(r, "from", sl_cli_flag(args, "from"));
            sl_cli_request_option(r, "to", sl_cli_flag(args, "to"));
        }
        status = sl_cli_request_text(
            r, "GET", "the values of the flags are too long", &text);
        if (status)
            return status;
        if (is_csv && cursor[0]) /* the heading is printed */
            text = sl_str_from(text, sl_csv_cut(text));
        fwrite(text.at, 1, text.len, args->cli->out);
        snprintf(cursor, sizeof(cursor), "%.*s", SL_STR_ARG(r->client.cursor));
    } while (cursor[0] && !ferror(args->cli->out));
    return SL_EXIT_OK;
}

/* ---- sluice usage import: the usage of present periods ---- */

#define IMPORT_MOST ((size_t)256 << 20) /* bytes of the file */

/* Check the file, or import it. */
static int send_rows(struct sl_cli_request *r, struct sl_str text,
                     struct sl_cli_import *import)
{
    int status;

    import->imported = import->changed = import->skipped = 0;
    import->path =
        import->is_check ? "/v1/usage/import?dry_run=true" : "/v1/usage/import";
    import->file = fmemopen((void *)text.at, text.len, "r");
    if (!import->file)
        return sl_cli_no_memory(r->args);
    status = sl_cli_import_run(r, import);
    fclose(import->file);
    return status;
}

static void print_import(const struct sl_cli_args *args,
                         const struct sl_cli_import *import, bool dry_run)
{
    FILE *out = args->cli->out;

    if (args->format == SL_FORMAT_JSON) {
        fprintf(out,
                "{\"imported\":%" PRIu64 ",\"changed\":%" PRIu64
                ",\"skipped\":%" PRIu64 ",\"dry_run\":%s}\n",
                import->imported, import->changed, import->skipped,
                dry_run ? "true" : "false");
        return;
    }
    fprintf(out, "%s %" PRIu64 " rows, %" PRIu64 " of them changed%s",
            dry_run ? "checked" : "imported", import->imported, import->changed,
            dry_run ? " by an import" : "");
    if (import->skipped > 0)
        fprintf(out, "; skipped %" PRIu64 " rows of periods that have ended",
                import->skipped);
    fputc('\n', out);
}

/* POST /v1/usage/import: all lines are checked before one is written. */
static int import_usage(struct sl_cli_request *r, const char *note)
{
    struct sl_cli_args *args = r->args;
    bool dry_run = sl_cli_flag(args, "dry-run") != NULL;
    struct sl_cli_import import = {
        .name = args->words[1], .what = "rows", .is_check = true};
    struct sl_buf text;
    int status = sl_cli_request_turn(r, SL_LISTENER_ADMIN);

    sl_buf_init(&text, IMPORT_MOST, &sl_alloc_libc);
    if (!status)
        status = sl_cli_request_sign(r, sl_cli_author(args), note);
    if (!status)
        status = sl_need_file(args, import.name, &text);
    if (!status && text.len == 0)
        status = sl_cli_fail(args, "%s is empty", import.name);
    if (!status)
        status = send_rows(r, sl_buf_str(&text), &import);
    import.is_check = false;
    if (!status && !dry_run)
        status = send_rows(r, sl_buf_str(&text), &import);
    if (!status)
        print_import(args, &import, dry_run);
    sl_buf_done(&text);
    return status;
}

static int ask_usage(struct sl_cli_request *r)
{
    char **words = r->args->words;
    const char *note = sl_cli_cut_note(r->args);

    if (r->args->word_count == 0)
        return sl_cli_misuse(r->args, "missing scope; write: sluice usage "
                                      "SCOPE ID");
    if (strcmp(words[0], "import") == 0 && r->args->word_count != 2)
        return sl_cli_misuse(r->args, "missing file; write: sluice usage "
                                      "import FILE [note=TEXT]");
    if (strcmp(words[0], "import") == 0)
        return import_usage(r, note);
    if (note)
        return sl_cli_misuse(r->args, "note= is for sluice usage import");
    if (r->args->word_count == 1 && strcmp(words[0], "export") == 0)
        return export_usage(r);
    if (r->args->word_count == 1)
        return sl_cli_misuse(r->args,
                             "missing id; write: sluice usage %s ID, or "
                             "sluice usage export",
                             words[0]);
    if (r->args->word_count == 3)
        return sl_cli_misuse(
            r->args,
            "missing amount for %s; write: sluice usage %s %s %s AMOUNT",
            words[2], words[0], words[1], words[2]);
    return r->args->word_count == 4 ? report_usage(r) : show_usage(r);
}

static const struct sl_flag usage_flags[] = {
    {'\0', "days",      "N",    "show usage per day, for this many days"  },
    {'\0', "limit",     "NAME", "only this limit"                         },
    {'\0', "key",       "TEXT", "idempotency key of a report: counts once"},
    {'\0', "from",      "DATE", "export: last day of a period, or later"  },
    {'\0', "to",        "DATE", "export: periods that end before this day"},
    {'\0', "format",    "FORM", "export: ndjson, csv or cloudevents"      },
    {'\0', "dry-run",   NULL,   "import: check the file, change nothing"  },
    {'\0', "by",        "NAME", "import: author of the change (you)"      },
    {'\0', "admin-url", "URL",  "import: URL of the admin listener"       },
    {'\0', NULL,        NULL,   NULL                                      },
};

const struct sl_command sl_command_usage = {
    .name = "usage",
    .usage = "SCOPE ID [LIMIT AMOUNT] [FLAG...] | export [FLAG...] | import "
             "FILE [note=TEXT]",
    .summary = "Show, report, export or import usage of quotas and levels",
    .help = "Prints a bar for each quota and level per SCOPE. With LIMIT and\n"
            "AMOUNT it reports usage, which is recorded even above the\n"
            "limit; a negative AMOUNT is a refund. `export` prints the usage\n"
            "of all subjects, one line for each limit and period, for bills.\n"
            "`import` sets the usage of present periods from CSV or NDJSON\n"
            "with members of an export: the subject, `limit` and `used`.\n"
            "\n"
            "  sluice usage org acme\n"
            "  sluice usage org acme --days 14 --limit minutes\n"
            "  sluice usage org acme minutes 30 --key job-7\n"
            "  sluice usage org acme -o json\n"
            "  sluice usage export --from 2026-11-01 --to 2026-12-01\n"
            "  sluice usage import usage.csv --dry-run\n",
    .words = "org|user|export|import",
    .formats = "table|json",
    .flags = usage_flags,
    .listener = SL_LISTENER_HTTP,
    .least = 1,
    .most = 4,
    .ask = ask_usage,
};

/* ---- sluice backlog: show or report the number of waiting jobs ---- */

#define NAME_LETTERS                                                           \
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"

static void print_backlog(FILE *out, const json_t *backlog)
{
    const char *name = sl_member_text(backlog, "name");

    if (json_is_integer(json_object_get(backlog, "depth")))
        sl_out_print(out,
                     "%s  %" JSON_INTEGER_FORMAT "  %" JSON_INTEGER_FORMAT
                     " ms ago\n",
                     name, sl_member_int(backlog, "depth"),
                     sl_member_int(backlog, "age_ms"));
    else
        sl_out_print(out, "%s  never reported\n", name);
}

static int print_backlogs(struct sl_cli_args *args, json_t *answer)
{
    json_t *list = json_object_get(answer, "backlogs"), *backlog;
    size_t i;

    if (!list)
        print_backlog(args->cli->out, answer);
    json_array_foreach(list, i, backlog) print_backlog(args->cli->out, backlog);
    return SL_EXIT_OK;
}

/* PUT if there is a depth, else GET. */
static int ask_backlog(struct sl_cli_request *r)
{
    struct sl_cli_args *args = r->args;
    bool reports = args->word_count == 2;
    struct sl_diag diag = {.sentence = ""};
    uint64_t depth;

    if (args->word_count > 0 &&
        args->words[0][strspn(args->words[0], NAME_LETTERS)])
        return sl_cli_misuse(args,
                             "\"%s\" is too long for the name of a backlog",
                             args->words[0]);
    if (reports && sl_parse_number(sl_str_c(args->words[1]), &depth, &diag))
        return sl_cli_misuse(args, "DEPTH: %s", diag.sentence);
    sl_writer_add(&r->path, SL_STR("/v1/backlog"));
    if (args->word_count > 0)
        sl_writer_addf(&r->path, "/%.64s", args->words[0]);
    if (reports)
        sl_writer_addf(&r->body, "{\"depth\":%" PRIu64 "}", depth);
    return sl_cli_request_print(r, reports ? "PUT" : "GET", "", print_backlogs);
}

const struct sl_command sl_command_backlog = {
    .name = "backlog",
    .usage = "[NAME [DEPTH]]",
    .summary = "Report or show the number of waiting jobs",
    .help = "A route with `backlog: {max: N}` answers 503 while more than N\n"
            "jobs wait. Workers report the number with this command. A\n"
            "report is valid for one minute unless the route sets another\n"
            "time.\n"
            "\n"
            "  sluice backlog transcribe 1200    report\n"
            "  sluice backlog                    show all reports\n",
    .formats = "table|json",
    .listener = SL_LISTENER_HTTP,
    .most = 2,
    .ask = ask_backlog,
};

/* ---- sluice leases: show the quota leases of daemons, or release them ---- */

/* The answer to a release has no list. */
static int print_leases(struct sl_cli_args *args, json_t *answer)
{
    static const char *const members[] = {"node",  "scope",  "id",
                                          "limit", "leased", "spent"};
    json_t *list = json_object_get(answer, "leases");

    if (sl_member_true(answer, "truncated"))
        fprintf(args->cli->err, "only the first %zu leases are shown\n",
                json_array_size(list));
    if (!json_is_array(list)) {
        fprintf(args->cli->out, "released %" JSON_INTEGER_FORMAT " units\n",
                sl_member_int(answer, "units"));
        return SL_EXIT_OK;
    }
    return sl_columns_print(args, list, members, SL_LEN(members));
}

static int ask_leases(struct sl_cli_request *r)
{
    struct sl_cli_args *args = r->args;
    const char *note = sl_cli_cut_note(args);
    bool release = args->word_count == 2;
    int status = sl_cli_request_sign(r, sl_cli_author(args), note);

    if (status)
        return status;
    if (args->word_count > 0 &&
        (!release || strcmp(args->words[0], "release") != 0))
        return sl_cli_misuse(
            args, "unknown argument; write `sluice leases` or `sluice "
                  "leases release NODE [note=TEXT]`");
    sl_writer_add(&r->path, SL_STR("/v1/leases"));
    if (release)
        sl_cli_request_segment(r, args->words[1]);
    return sl_cli_request_print(r, release ? "DELETE" : "GET",
                                "the name of the node is too long",
                                print_leases);
}

static const struct sl_flag leases_flags[] = {
    {'\0', "by", "NAME", "author of the release (you)"},
    {'\0', NULL, NULL,   NULL                         },
};

const struct sl_command sl_command_leases = {
    .name = "leases",
    .usage = "[release NODE [note=TEXT]]",
    .summary = "Show and release quota leases",
    .help = "Daemons that share a quota lease units of it before they spend\n"
            "them. The units of a daemon that is gone are freed after 30\n"
            "seconds, or released by hand when it was not seen for ten.\n"
            "\n"
            "  sluice leases\n"
            "  sluice leases release 1d6f67b91c82d724 note=\"host is gone\"\n",
    .words = "release",
    .formats = "table|json",
    .flags = leases_flags,
    .listener = SL_LISTENER_ADMIN,
    .most = 3,
    .ask = ask_leases,
};
