/* backlog.c -- sluice backlog: how much work is waiting, told or asked. */
#include <stdio.h>
#include <string.h>

#include "base/parse.h"
#include "cli/numbers.h"
#include "cli/out.h"
#include "cli/reach.h"

static int print_one(struct sl_call *call, json_t *backlog)
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

static int print(struct sl_call *call, json_t *answer)
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
static int write_question(struct sl_call *call, char *path, size_t size,
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
        return sl_complain(call, SL_EXIT_USAGE, "DEPTH: %s", diag.sentence);
    snprintf(body, 64, "{\"depth\":%llu}", (unsigned long long)depth);
    return 0;
}

static bool is_name(const char *name)
{
    return strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                        "0123456789._-") == strlen(name);
}

static int run(struct sl_call *call)
{
    struct sl_client client;
    json_t *answer = NULL;
    char path[96], body[64];
    int status = sl_reach(call, false, &client);

    if (!status && call->word_count > 0 && !is_name(call->words[0]))
        status = sl_complain(call, SL_EXIT_USAGE,
                             "\"%s\" is too long for the name of a backlog",
                             call->words[0]);
    if (!status)
        status = write_question(call, path, sizeof(path), body);
    if (!status)
        status = sl_reach_ask(call, &client, body[0] ? "PUT" : "GET", path,
                              sl_str_c(body), &answer);
    if (!status)
        status = print(call, answer);
    json_decref(answer);
    sl_client_done(&client);
    return status;
}

static const struct sl_flag flags[] = {
    SL_REACH_URL,
    SL_REACH_TOKEN,
    {'\0', NULL, NULL, NULL},
};

const struct sl_errand sl_errand_backlog = {
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
    .flags = flags,
    .least = 0,
    .most = 2,
    .run = run,
};
