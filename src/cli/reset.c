/* reset.c -- sluice reset: let a key have used nothing. */
#include <string.h>

#include "cli/numbers.h"
#include "cli/out.h"
#include "cli/reach.h"

#define PATH_BYTES ((size_t)8 << 10) /* a daemon's own bound for a line */

static int add_option(struct sl_cli_args *call, struct sl_buf *path,
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
static int write_path(struct sl_cli_args *call, struct sl_buf *path)
{
    int err = sl_buf_addf(path, "/v1/keys");

    for (size_t i = 0; i < call->word_count && !err; i++) {
        err = sl_buf_addf(path, "/");
        if (!err)
            err = sl_daemon_reach_encode(path, sl_str_c(call->words[i]));
    }
    if (!err)
        err = add_option(call, path, "plan");
    if (!err)
        err = add_option(call, path, "scope");
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
        status = sl_cli_error(call, SL_EXIT_FAILED, "there is no memory left");
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
    if (write_path(call, &path))
        status = sl_cli_error(call, SL_EXIT_USAGE,
                              "that is longer than a key can be asked for");
    else
        status = sl_daemon_reach_ask(call, client, method, path.bytes,
                                     (struct sl_str){"", 0}, &limit);
    if (!status)
        status = print(call, limit);
    json_decref(limit);
    sl_buf_done(&path);
    return status;
}

static int run(struct sl_cli_args *call)
{
    struct sl_daemon_client client;
    int status = sl_daemon_reach(call, true, &client);

    if (!status)
        status = ask(call, &client);
    sl_daemon_client_done(&client);
    return status;
}

static const struct sl_flag flags[] = {
    {'\0', "look",  NULL,   "show its numbers, and reset nothing"        },
    {'\0', "plan",  "PLAN", "show the numbers of this plan"              },
    {'\0', "scope", "NAME", "what the value is, as `sluice top` shows it"},
    SL_DAEMON_REACH_ADMIN_URL,
    SL_DAEMON_REACH_TOKEN,
    {'\0', NULL,    NULL,   NULL                                         },
};

const struct sl_command sl_command_reset = {
    .name = "reset",
    .usage = "LIMIT VALUE...",
    .summary = "Let a key of a limit have used nothing, in a daemon that runs",
    .help = "There is a VALUE for each `per` of the limit, in that order: an "
            "organisation and\na user for `per: [org, user]`, none for `per: "
            "[]`. Prints the key's numbers as they\nare then.\n"
            "\n"
            "  sluice reset ai-minute ann\n"
            "  sluice reset member acme ann --look\n"
            "  sluice reset per-visitor 6f1c0a... --scope anon\n",
    .words = "",
    .formats = "table|json",
    .flags = flags,
    .least = 1,
    .most = 5,
    .run = run,
};
