/* usage.c -- sluice usage: how much was used, of how much; or that it was. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/parse.h"
#include "cli/cli.h"
#include "wire/json.h"

#define PATH_BYTES ((size_t)16 << 10)
#define BODY_BYTES ((size_t)64 << 10)
#define BAR        20 /* columns inside of the brackets */
#define HISTORY    14 /* days that are drawn, the last ones */

/* ---- printing ---- */

static const char *text_of(const json_t *map, const char *name)
{
    const char *text = json_string_value(json_object_get(map, name));

    return text ? text : "";
}

static uint64_t number_of(const json_t *map, const char *name)
{
    json_int_t n = json_integer_value(json_object_get(map, name));

    return n > 0 ? (uint64_t)n : 0;
}

static void print_bar(FILE *out, uint64_t part, uint64_t whole)
{
    uint64_t full = whole > 0 ? part * BAR / whole : 0;

    fputc('[', out);
    for (unsigned i = 0; i < BAR; i++)
        fputc(i < full ? '#' : '-', out);
    fputc(']', out);
}

static enum sl_colour colour_of(uint64_t share)
{
    if (share >= 100)
        return SL_RED;
    return share >= 80 ? SL_YELLOW : SL_GREEN;
}

static void print_amount(FILE *out, const json_t *meter, bool limited)
{
    fprintf(out, "%" PRIu64, number_of(meter, "used"));
    if (limited)
        fprintf(out, " of %" PRIu64, number_of(meter, "limit"));
    if (text_of(meter, "unit")[0]) {
        fputc(' ', out);
        sl_out_clean(out, text_of(meter, "unit"));
    }
    if (number_of(meter, "overage") > 0)
        fprintf(out, ", %" PRIu64 " overage", number_of(meter, "overage"));
    if (number_of(meter, "credited") > 0)
        fprintf(out, ", %" PRIu64 " by credits", number_of(meter, "credited"));
    fputc('\n', out);
}

/* When it begins anew, and when it will be used up. */
static void print_times(FILE *out, const json_t *meter, int width)
{
    const char *reset = text_of(meter, "reset");
    const char *exhausted = text_of(meter, "exhausted");

    if (!reset[0])
        return;
    fprintf(out, "%*s  resets ", width, "");
    sl_out_clean(out, reset);
    if (exhausted[0] && number_of(meter, "remaining") > 0) {
        fputs(", used up about ", out);
        sl_out_clean(out, exhausted);
    }
    fputc('\n', out);
}

/* The last days, each as a part of the busiest. */
static void print_days(FILE *out, const json_t *days, int width)
{
    size_t count = json_array_size(days);
    size_t from = count > HISTORY ? count - HISTORY : 0;
    uint64_t most = 0;

    for (size_t i = from; i < count; i++) {
        uint64_t used = number_of(json_array_get(days, i), "used");

        most = used > most ? used : most;
    }
    for (size_t i = from; i < count && most > 0; i++) {
        const json_t *day = json_array_get(days, i);

        fprintf(out, "%*s  ", width, "");
        sl_out_clean(out, text_of(day, "day"));
        fputc(' ', out);
        print_bar(out, number_of(day, "used"), most);
        fprintf(out, " %" PRIu64 "\n", number_of(day, "used"));
    }
}

static void print_meter(struct sl_cli_args *call, const json_t *meter,
                        int width)
{
    FILE *out = call->cli->out;
    bool limited = json_is_integer(json_object_get(meter, "limit"));
    uint64_t share = number_of(meter, "share");
    uint64_t shown = share < 100 ? share : 100;

    sl_out_clean(out, text_of(meter, "name"));
    fprintf(out, "%*s  ", width - (int)strlen(text_of(meter, "name")), "");
    if (limited) {
        sl_out_colour(out, colour_of(share));
        print_bar(out, shown, 100);
        fprintf(out, " %4" PRIu64 " %%", share);
        sl_out_colour(out, SL_PLAIN);
        fputs("  ", out);
    } else {
        fprintf(out, "%-*s  ", BAR + 9, "unlimited");
    }
    print_amount(out, meter, limited);
    print_times(out, meter, width);
    if (sl_cli_args_flag(call, "days"))
        print_days(out, json_object_get(meter, "days"), width);
}

static int print(struct sl_cli_args *call, json_t *answer)
{
    json_t *meters = json_object_get(answer, "meters"), *meter;
    size_t i;
    int width = 0;

    if (call->format == SL_FORMAT_JSON)
        return sl_json_print(call, answer);
    if (!meters) { /* a report is answered by one */
        print_meter(call, answer, (int)strlen(text_of(answer, "name")));
        return 0;
    }
    json_array_foreach(meters, i, meter)
    {
        int len = (int)strlen(text_of(meter, "name"));

        width = len > width ? len : width;
    }
    json_array_foreach(meters, i, meter) print_meter(call, meter, width);
    if (json_array_size(meters) == 0)
        fprintf(call->cli->err, "the policy has no limit per %s\n",
                call->words[0]);
    return 0;
}

/* ---- asking ---- */

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
    const char *days = sl_cli_args_flag(call, "days");
    int err = sl_buf_addf(path, "/v1/usage/");

    if (!err)
        err = sl_daemon_reach_encode(path, sl_str_c(call->words[0]));
    if (!err)
        err = sl_buf_add(path, SL_STR("/"));
    if (!err)
        err = sl_daemon_reach_encode(path, sl_str_c(call->words[1]));
    if (!err)
        err = sl_buf_add(path, SL_STR("?"));
    if (!err && (days || call->format != SL_FORMAT_JSON))
        err = add_option(path, "days", days ? days : "0");
    if (!err)
        err = add_option(path, "limit", sl_cli_args_flag(call, "limit"));
    return err ? err : sl_buf_add(path, (struct sl_str){"", 1});
}

static int read_meters(struct sl_cli_args *call,
                       struct sl_daemon_client *client, json_t **ret)
{
    struct sl_buf path;
    int status;

    sl_buf_init(&path, PATH_BYTES, &sl_alloc_libc);
    if (write_path(call, &path))
        status = sl_cli_error(call, SL_EXIT_USAGE,
                              "the values of the flags are too long");
    else
        status = sl_daemon_reach_ask(call, client, "GET", path.bytes,
                                     (struct sl_str){"", 0}, ret);
    sl_buf_done(&path);
    return status;
}

/* ,"name":"text" */
static int add_text(struct sl_buf *out, const char *name, const char *text)
{
    int err;

    if (!text)
        return 0;
    err = sl_buf_addf(out, ",\"%s\":", name);
    return err ? err : sl_json_string(out, sl_str_c(text));
}

static int write_report(struct sl_cli_args *call, uint64_t amount, bool release,
                        struct sl_buf *out)
{
    int err = sl_buf_addf(out, "{\"amount\":%" PRIu64 "%s", amount,
                          release ? ",\"release\":true" : "");

    if (!err)
        err = add_text(out, call->words[0], call->words[1]);
    if (!err)
        err = add_text(out, "limit", call->words[2]);
    if (!err)
        err = add_text(out, "idempotency_key", sl_cli_args_flag(call, "key"));
    return err ? err : sl_buf_add(out, SL_STR("}"));
}

static int report(struct sl_cli_args *call, struct sl_daemon_client *client,
                  json_t **ret)
{
    const char *word = call->words[3];
    bool release = word[0] == '-';
    struct sl_diag why = {.sentence = ""};
    struct sl_buf body;
    uint64_t amount;
    int status;

    if (strcmp(call->words[0], "user") != 0 &&
        strcmp(call->words[0], "org") != 0)
        return sl_cli_error(call, SL_EXIT_USAGE,
                            "usage is reported for user or org, not for \"%s\"",
                            call->words[0]);
    if (sl_parse_count(sl_str_c(word + release), &amount, &why))
        return sl_cli_error(call, SL_EXIT_USAGE, "%s", why.sentence);
    sl_buf_init(&body, BODY_BYTES, &sl_alloc_libc);
    if (write_report(call, amount, release, &body))
        status = sl_cli_error(call, SL_EXIT_USAGE, "the report is too long");
    else
        status = sl_daemon_reach_ask(call, client, "POST", "/v1/usage",
                                     sl_buf_str(&body), ret);
    sl_buf_done(&body);
    return status;
}

static int run(struct sl_cli_args *call)
{
    struct sl_daemon_client client;
    json_t *answer = NULL;
    int status;

    if (call->word_count == 3)
        return sl_cli_error(
            call, SL_EXIT_USAGE,
            "missing amount for %s; write: sluice usage %s %s %s AMOUNT",
            call->words[2], call->words[0], call->words[1], call->words[2]);
    status = sl_daemon_reach(call, false, &client);
    if (!status)
        status = call->word_count == 4 ? report(call, &client, &answer)
                                       : read_meters(call, &client, &answer);
    if (!status)
        status = print(call, answer);
    json_decref(answer);
    sl_daemon_client_done(&client);
    return status;
}

static const struct sl_flag flags[] = {
    {'\0', "days",  "N",    "show usage per day, for this many days"         },
    {'\0', "limit", "NAME", "only this limit"                                },
    {'\0', "key",   "TEXT", "idempotency key of a report: repeats count once"},
    SL_DAEMON_REACH_URL,
    SL_DAEMON_REACH_TOKEN,
    {'\0', NULL,    NULL,   NULL                                             },
};

const struct sl_command sl_command_usage = {
    .name = "usage",
    .usage = "SCOPE ID [LIMIT AMOUNT] [FLAG...]",
    .summary = "Show or report usage of quotas and levels",
    .help = "Prints a bar for each quota and level per SCOPE. With LIMIT and "
            "AMOUNT it\n"
            "reports usage, which is recorded even above the limit; a negative "
            "AMOUNT is a\n"
            "refund.\n"
            "\n"
            "  sluice usage org acme\n"
            "  sluice usage org acme --days 14 --limit minutes\n"
            "  sluice usage org acme minutes 30 --key job-7\n"
            "  sluice usage org acme -o json\n",
    .words = "org|user",
    .formats = "table|json",
    .flags = flags,
    .least = 2,
    .most = 4,
    .run = run,
};

/* ---- sluice backlog: how much work is waiting, told or asked. */

static int print_one(struct sl_cli_args *call, json_t *backlog)
{
    FILE *out = call->cli->out;
    json_t *depth = json_object_get(backlog, "depth");

    sl_out_clean(out, json_string_value(json_object_get(backlog, "name")));
    if (json_is_integer(depth))
        fprintf(
            out, "  %lld  %lld ms ago\n", (long long)json_integer_value(depth),
            (long long)json_integer_value(json_object_get(backlog, "age_ms")));
    else
        fputs("  never reported\n", out);
    return SL_EXIT_OK;
}

static int backlog_print(struct sl_cli_args *call, json_t *answer)
{
    json_t *list = json_object_get(answer, "backlogs"), *one;
    size_t i;

    if (call->format == SL_FORMAT_JSON)
        return sl_json_print(call, answer);
    if (!list)
        return print_one(call, answer);
    json_array_foreach(list, i, one)(void) print_one(call, one);
    return SL_EXIT_OK;
}

/* PUT if there is a depth, else GET. */
static int write_question(struct sl_cli_args *call, char *path, size_t size,
                          char body[64])
{
    struct sl_diag diag = {0};
    uint64_t depth;

    body[0] = '\0';
    snprintf(path, size, "/v1/backlog%s%.64s", call->word_count > 0 ? "/" : "",
             call->word_count > 0 ? call->words[0] : "");
    if (call->word_count < 2)
        return 0;
    if (sl_parse_number(sl_str_c(call->words[1]), &depth, &diag))
        return sl_cli_error(call, SL_EXIT_USAGE, "DEPTH: %s", diag.sentence);
    snprintf(body, 64, "{\"depth\":%llu}", (unsigned long long)depth);
    return 0;
}

static bool is_name(const char *name)
{
    return strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                        "0123456789._-") == strlen(name);
}

static int backlog_run(struct sl_cli_args *call)
{
    struct sl_daemon_client client;
    json_t *answer = NULL;
    char path[96], body[64];
    int status = sl_daemon_reach(call, false, &client);

    if (!status && call->word_count > 0 && !is_name(call->words[0]))
        status = sl_cli_error(call, SL_EXIT_USAGE,
                              "\"%s\" is too long for the name of a backlog",
                              call->words[0]);
    if (!status)
        status = write_question(call, path, sizeof(path), body);
    if (!status)
        status = sl_daemon_reach_ask(call, &client, body[0] ? "PUT" : "GET",
                                     path, sl_str_c(body), &answer);
    if (!status)
        status = backlog_print(call, answer);
    json_decref(answer);
    sl_daemon_client_done(&client);
    return status;
}

static const struct sl_flag backlog_flags[] = {
    SL_DAEMON_REACH_URL,
    SL_DAEMON_REACH_TOKEN,
    {'\0', NULL, NULL, NULL},
};

const struct sl_command sl_command_backlog = {
    .name = "backlog",
    .usage = "[NAME [DEPTH]]",
    .summary = "Report or show the number of waiting jobs",
    .help = "A route with `backlog: {max: N}` answers 503 while more than N "
            "jobs wait.\n"
            "Workers report the number with this command. A report is valid "
            "for one minute\n"
            "unless the route sets another time.\n"
            "\n"
            "  sluice backlog transcribe 1200    report\n"
            "  sluice backlog                    show all reports\n",
    .words = "",
    .formats = "table|json",
    .flags = backlog_flags,
    .least = 0,
    .most = 2,
    .run = backlog_run,
};

/* ---- sluice leases: who has units of quotas leased, and how to free
 * what a daemon had that will not come back. */

#define LEASES_PATH_BYTES 256

static const char *leases_text_of(const json_t *lease, const char *name)
{
    const char *text = json_string_value(json_object_get(lease, name));

    return text ? text : "";
}

static void write_number(const json_t *lease, const char *name, char out[24])
{
    snprintf(out, 24, "%lld",
             (long long)json_integer_value(json_object_get(lease, name)));
}

static int print_list(struct sl_cli_args *call, const json_t *list)
{
    static const char *const heading[] = {"node",  "scope",  "id",
                                          "limit", "leased", "spent"};
    struct sl_columns columns;
    const json_t *lease;
    char leased[24], spent[24];
    size_t i;
    bool failed;

    sl_columns_init(&columns, SL_LEN(heading));
    sl_columns_add(&columns, heading);
    json_array_foreach(list, i, lease)
    {
        const char *const cells[] = {leases_text_of(lease, "node"),
                                     leases_text_of(lease, "scope"),
                                     leases_text_of(lease, "id"),
                                     leases_text_of(lease, "limit"),
                                     leased,
                                     spent};

        write_number(lease, "leased", leased);
        write_number(lease, "spent", spent);
        sl_columns_add(&columns, cells);
    }
    sl_columns_print(&columns, call->cli->out);
    failed = columns.failed;
    sl_columns_done(&columns);
    return failed ? sl_cli_error(call, SL_EXIT_FAILED, "out of memory")
                  : SL_EXIT_OK;
}

static int leases_print(struct sl_cli_args *call, json_t *answer)
{
    const json_t *list = json_object_get(answer, "leases");

    if (call->format == SL_FORMAT_JSON)
        return sl_json_print(call, answer);
    if (json_is_true(json_object_get(answer, "truncated")))
        fprintf(call->cli->err, "only the first %zu leases are shown\n",
                json_array_size(list));
    if (json_is_array(list))
        return print_list(call, list);
    fprintf(call->cli->out, "released %lld units\n",
            (long long)json_integer_value(json_object_get(answer, "units")));
    return SL_EXIT_OK;
}

static int ask(struct sl_cli_args *call, struct sl_daemon_client *client,
               bool release)
{
    json_t *answer = NULL;
    struct sl_buf path;
    int err, status;

    sl_buf_init(&path, LEASES_PATH_BYTES, &sl_alloc_libc);
    err = sl_buf_addf(&path, "/v1/leases%s", release ? "/" : "");
    if (!err && release)
        err = sl_daemon_reach_encode(&path, sl_str_c(call->words[1]));
    if (!err)
        err = sl_buf_add(&path, (struct sl_str){"", 1});
    status =
        err ? sl_cli_error(call, SL_EXIT_USAGE,
                           "the name of the node is too long")
            : sl_daemon_reach_ask(call, client, release ? "DELETE" : "GET",
                                  path.bytes, (struct sl_str){"", 0}, &answer);
    if (!status)
        status = leases_print(call, answer);
    json_decref(answer);
    sl_buf_done(&path);
    return status;
}

static int leases_run(struct sl_cli_args *call)
{
    bool release = call->word_count == 2;
    struct sl_daemon_client client;
    int status;

    if (call->word_count > 0 &&
        (!release || strcmp(call->words[0], "release") != 0))
        return sl_cli_error(
            call, SL_EXIT_USAGE,
            "unknown argument; write `sluice leases` or `sluice "
            "leases release NODE`");
    status = sl_daemon_reach(call, true, &client);
    if (!status)
        status = ask(call, &client, release);
    sl_daemon_client_done(&client);
    return status;
}

static const struct sl_flag leases_flags[] = {
    SL_DAEMON_REACH_ADMIN_URL,
    SL_DAEMON_REACH_TOKEN,
    {'\0', NULL, NULL, NULL},
};

const struct sl_command sl_command_leases = {
    .name = "leases",
    .usage = "[release NODE]",
    .summary = "Show and release quota leases",
    .help = "Daemons that share a quota lease units of it before they spend "
            "them. The units\n"
            "of a daemon that was killed count as used until the daemon "
            "returns or its lease\n"
            "is released. Release a lease only if its daemon will not return.\n"
            "\n"
            "  sluice leases\n"
            "  sluice leases release 1d6f67b91c82d724\n",
    .words = "release",
    .formats = "table|json",
    .flags = leases_flags,
    .least = 0,
    .most = 2,
    .run = leases_run,
};
