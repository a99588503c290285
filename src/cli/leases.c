/* leases.c -- sluice leases: who has units of quotas leased, and how to free
 * what a daemon had that will not come back. */
#include <string.h>

#include "cli/columns.h"
#include "cli/numbers.h"
#include "cli/out.h"
#include "cli/reach.h"

#define PATH_BYTES 256

static const char *text_of(const json_t *lease, const char *name)
{
    const char *text = json_string_value(json_object_get(lease, name));

    return text ? text : "";
}

static void write_number(const json_t *lease, const char *name, char out[24])
{
    snprintf(out, 24, "%lld",
             (long long)json_integer_value(json_object_get(lease, name)));
}

static int print_list(struct sl_call *call, const json_t *list)
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
        const char *const cells[] = {text_of(lease, "node"),
                                     text_of(lease, "scope"),
                                     text_of(lease, "id"),
                                     text_of(lease, "limit"),
                                     leased,
                                     spent};

        write_number(lease, "leased", leased);
        write_number(lease, "spent", spent);
        sl_columns_add(&columns, cells);
    }
    sl_columns_print(&columns, call->cli->out);
    failed = columns.failed;
    sl_columns_done(&columns);
    return failed ? sl_complain(call, SL_EXIT_NO, "out of memory") : SL_EXIT_OK;
}

static int print(struct sl_call *call, json_t *answer)
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

static int ask(struct sl_call *call, struct sl_client *client, bool release)
{
    json_t *answer = NULL;
    struct sl_buf path;
    int err, status;

    sl_buf_init(&path, PATH_BYTES, &sl_alloc_libc);
    err = sl_buf_addf(&path, "/v1/leases%s", release ? "/" : "");
    if (!err && release)
        err = sl_reach_encode(&path, sl_str_c(call->words[1]));
    if (!err)
        err = sl_buf_add(&path, (struct sl_str){"", 1});
    status = err ? sl_complain(call, SL_EXIT_USAGE,
                               "the name of the node is too long")
                 : sl_reach_ask(call, client, release ? "DELETE" : "GET",
                                path.bytes, (struct sl_str){"", 0}, &answer);
    if (!status)
        status = print(call, answer);
    json_decref(answer);
    sl_buf_done(&path);
    return status;
}

static int run(struct sl_call *call)
{
    bool release = call->word_count == 2;
    struct sl_client client;
    int status;

    if (call->word_count > 0 &&
        (!release || strcmp(call->words[0], "release") != 0))
        return sl_complain(call, SL_EXIT_USAGE,
                           "unknown argument; write `sluice leases` or `sluice "
                           "leases release NODE`");
    status = sl_reach(call, true, &client);
    if (!status)
        status = ask(call, &client, release);
    sl_client_done(&client);
    return status;
}

static const struct sl_flag flags[] = {
    SL_REACH_ADMIN_URL,
    SL_REACH_TOKEN,
    {'\0', NULL, NULL, NULL},
};

const struct sl_errand sl_errand_leases = {
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
    .flags = flags,
    .least = 0,
    .most = 2,
    .run = run,
};
