/* reset.c -- sluice reset: let a key have used nothing. */
#include <string.h>

#include "cli/numbers.h"
#include "cli/out.h"
#include "cli/reach.h"

#define PATH_BYTES ((size_t)8 << 10) /* a daemon's own bound for a line */

static int add_option(struct sl_call *call, struct sl_buf *path,
                      const char *name)
{
    const char *value = sl_call_flag(call, name);
    bool first = !memchr(path->bytes, '?', path->len);
    int err;

    if (!value)
        return 0;
    err = sl_buf_addf(path, "%c%s=", first ? '?' : '&', name);
    return err ? err : sl_reach_encode(path, sl_str_c(value));
}

/* /v1/keys/LIMIT/VALUE... with a NUL behind it. */
static int write_path(struct sl_call *call, struct sl_buf *path)
{
    int err = sl_buf_addf(path, "/v1/keys");

    for (size_t i = 0; i < call->word_count && !err; i++) {
        err = sl_buf_addf(path, "/");
        if (!err)
            err = sl_reach_encode(path, sl_str_c(call->words[i]));
    }
    if (!err)
        err = add_option(call, path, "plan");
    if (!err)
        err = add_option(call, path, "scope");
    return err ? err : sl_buf_add(path, (struct sl_str){"", 1});
}

static int print(struct sl_call *call, json_t *limit)
{
    json_t *list;
    int status;

    if (call->format == SL_FORMAT_JSON)
        return sl_json_print(call, limit);
    list = json_array();
    if (!list || json_array_append(list, limit))
        status = sl_complain(call, SL_EXIT_NO, "out of memory");
    else
        status = sl_numbers_print(call, list);
    json_decref(list);
    return status;
}

static int ask(struct sl_call *call, struct sl_client *client)
{
    const char *method = sl_call_flag(call, "look") ? "GET" : "DELETE";
    json_t *limit = NULL;
    struct sl_buf path;
    int status;

    sl_buf_init(&path, PATH_BYTES, &sl_alloc_libc);
    if (write_path(call, &path))
        status = sl_complain(call, SL_EXIT_USAGE, "the key is too long");
    else
        status = sl_reach_ask(call, client, method, path.bytes,
                              (struct sl_str){"", 0}, &limit);
    if (!status)
        status = print(call, limit);
    json_decref(limit);
    sl_buf_done(&path);
    return status;
}

static int run(struct sl_call *call)
{
    struct sl_client client;
    int status = sl_reach(call, true, &client);

    if (!status)
        status = ask(call, &client);
    sl_client_done(&client);
    return status;
}

static const struct sl_flag flags[] = {
    {'\0', "look",  NULL,   "show the numbers, do not reset them"           },
    {'\0', "plan",  "PLAN", "show the numbers for this plan"                },
    {'\0', "scope", "NAME", "scope of the values, as `sluice top` prints it"},
    SL_REACH_ADMIN_URL,
    SL_REACH_TOKEN,
    {'\0', NULL,    NULL,   NULL                                            },
};

const struct sl_errand sl_errand_reset = {
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
    .flags = flags,
    .least = 1,
    .most = 5,
    .run = run,
};
