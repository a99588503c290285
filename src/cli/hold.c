/* hold.c -- sluice hold: end or extend what a daemon holds. */
#include <string.h>

#include "base/parse.h"
#include "cli/columns.h"
#include "cli/flow/flow.h"
#include "cli/flow/lex.h"
#include "cli/flow/words.h"
#include "cli/numbers.h"
#include "cli/out.h"
#include "cli/reach.h"
#include "wire/json.h"

#define BODY_BYTES  ((size_t)64 << 10)
#define NAME_BYTES  128
#define LIMITS_MOST 64

/* ---- what is asked ---- */

/* cost=N, or cost.LIMIT=N, or status=N; each as a member. */
static int add_word(struct sl_call *call, struct sl_buf *costs,
                    struct sl_buf *body, const char *word)
{
    const char *equals = strchr(word, '=');
    struct sl_str name = {word, equals ? (size_t)(equals - word) : 0};
    uint64_t number = 0;
    bool limit = sl_word_under(name, "cost.");
    int err;

    if (!limit && !sl_str_eq(name, SL_STR("cost")) &&
        !sl_str_eq(name, SL_STR("status")))
        return sl_complain(
            call, SL_EXIT_USAGE,
            "unknown argument \"%s\"; write cost=N, cost.LIMIT=N or status=N",
            word);
    if (sl_parse_number(sl_str_c(equals + 1), &number, NULL))
        return sl_complain(call, SL_EXIT_USAGE,
                           "\"%s\" needs a whole number after the '='", word);
    if (limit) {
        err = sl_buf_addf(costs, "%s", costs->len > 0 ? "," : "");
        if (!err)
            err = sl_json_string(costs, sl_str_from(name, strlen("cost.")));
        if (!err)
            err = sl_buf_addf(costs, ":%s", equals + 1);
    } else {
        err = sl_buf_addf(body, "%s\"%.*s\":%s", body->len > 1 ? "," : "",
                          SL_STR_ARG(name), equals + 1);
    }
    return err ? sl_complain(call, SL_EXIT_USAGE, "too many arguments") : 0;
}

static int write_settle(struct sl_call *call, struct sl_buf *body)
{
    struct sl_buf costs;
    int status = 0;

    sl_buf_init(&costs, BODY_BYTES, &sl_alloc_libc);
    for (size_t i = 2; i < call->word_count && !status; i++)
        status = add_word(call, &costs, body, call->words[i]);
    if (!status && costs.len > 0 &&
        sl_buf_addf(body, "%s\"cost\":{%.*s}", body->len > 1 ? "," : "",
                    SL_STR_ARG(sl_buf_str(&costs))))
        status = sl_complain(call, SL_EXIT_USAGE, "too many arguments");
    sl_buf_done(&costs);
    return status;
}

static int write_extend(struct sl_call *call, struct sl_buf *body)
{
    struct sl_diag diag = {.sentence = ""};
    sl_ns span;

    if (call->word_count != 3)
        return sl_complain(call, SL_EXIT_USAGE,
                           "missing duration; write sluice hold extend ID 30s");
    if (sl_parse_duration(sl_str_c(call->words[2]), &span, &diag))
        return sl_complain(call, SL_EXIT_USAGE, "%s", diag.sentence);
    if (sl_buf_addf(body, "\"hold\":\"%s\"", call->words[2]))
        return sl_complain(call, SL_EXIT_USAGE, "too many arguments");
    return 0;
}

static int write_body(struct sl_call *call, struct sl_buf *body)
{
    const char *verb = call->words[0];
    int status = 0;

    if (sl_buf_addf(body, "{"))
        return sl_complain(call, SL_EXIT_STORE, "out of memory");
    if (strcmp(verb, "settle") == 0)
        status = write_settle(call, body);
    else if (strcmp(verb, "extend") == 0)
        status = write_extend(call, body);
    else if (strcmp(verb, "release") != 0)
        status = sl_complain(
            call, SL_EXIT_USAGE,
            "unknown action \"%s\"; write settle, release or extend", verb);
    else if (call->word_count != 2)
        status =
            sl_complain(call, SL_EXIT_USAGE,
                        "release accepts the id of the hold and nothing else");
    if (!status && sl_buf_addf(body, "}"))
        status = sl_complain(call, SL_EXIT_STORE, "out of memory");
    return status;
}

/* ---- what is answered ---- */

static void print_limit(FILE *out, json_t *limit)
{
    const char *name = json_string_value(json_object_get(limit, "name"));
    json_t *cost = json_object_get(limit, "cost");

    fputs("  ", out);
    sl_out_clean(out, name ? name : "(no longer in the policy)");
    fprintf(out, ": held %" JSON_INTEGER_FORMAT,
            json_integer_value(json_object_get(limit, "held")));
    if (json_is_integer(cost))
        fprintf(out, ", settled with %" JSON_INTEGER_FORMAT,
                json_integer_value(cost));
    fprintf(out, ", %" JSON_INTEGER_FORMAT " left%s\n",
            json_integer_value(json_object_get(limit, "remaining")),
            json_is_true(json_object_get(limit, "over")) ? "; over the limit"
                                                         : "");
}

/* settled; it had ended before */
static int print(struct sl_call *call, json_t *answer)
{
    const char *state = json_string_value(json_object_get(answer, "state"));
    bool again = json_is_true(json_object_get(answer, "again"));
    json_t *left = json_object_get(answer, "expires_ms"), *limit;
    size_t i;

    if (call->format == SL_FORMAT_JSON)
        return sl_json_print(call, answer);
    sl_out_clean(call->cli->out, state ? state : "?");
    if (json_is_integer(left))
        fprintf(call->cli->out, " for %" JSON_INTEGER_FORMAT " ms",
                json_integer_value(left));
    fputs(again ? " already; nothing was changed\n" : "\n", call->cli->out);
    json_array_foreach(json_object_get(answer, "limits"), i, limit)
        print_limit(call->cli->out, limit);
    return SL_EXIT_OK;
}

static int ask(struct sl_call *call, struct sl_client *client,
               struct sl_str body)
{
    struct sl_buf path;
    json_t *answer = NULL;
    int status;

    sl_buf_init(&path, 4 * NAME_BYTES, &sl_alloc_libc);
    if (sl_buf_addf(&path, "/v1/holds/") ||
        sl_reach_encode(&path, sl_str_c(call->words[1])) ||
        sl_buf_addf(&path, "/%s%c", call->words[0], '\0'))
        status = sl_complain(call, SL_EXIT_USAGE,
                             "\"%.40s...\" is too long for the id of a hold",
                             call->words[1]);
    else
        status = sl_reach_ask(call, client, "POST", path.bytes, body, &answer);
    if (!status)
        status = print(call, answer);
    json_decref(answer);
    sl_buf_done(&path);
    return status;
}

static int run(struct sl_call *call)
{
    struct sl_client client;
    struct sl_buf body;
    int status;

    sl_buf_init(&body, BODY_BYTES, &sl_alloc_libc);
    status = write_body(call, &body);
    if (!status) {
        status = sl_reach(call, false, &client);
        if (!status)
            status = ask(call, &client, sl_buf_str(&body));
        sl_client_done(&client);
    }
    sl_buf_done(&body);
    return status;
}

static const struct sl_flag flags[] = {
    SL_REACH_URL,
    SL_REACH_TOKEN,
    {'\0', NULL, NULL, NULL},
};

const struct sl_errand sl_errand_hold = {
    .name = "hold",
    .usage = "settle ID [cost=N | cost.LIMIT=N...] [status=N] | release ID | "
             "extend ID TIME",
    .summary = "Settle, release or extend a hold",
    .help = "`sluice take hold=30s` prints the ID. settle charges the actual "
            "cost: one cost\n"
            "for all limits, or one cost per limit. Without a cost it charges "
            "what was held. A\n"
            "hold that has already ended does not change; the output says so. "
            "Exits 1 if the\n"
            "hold is unknown.\n"
            "\n"
            "  sluice take 'job transcribe' org=acme cost=30 hold=5m\n"
            "  sluice hold extend 6f1c0a... 5m\n"
            "  sluice hold settle 6f1c0a... cost=12\n"
            "  sluice hold settle 6f1c0a... cost.tokens=350 status=200\n"
            "  sluice hold release 6f1c0a...\n",
    .words = "settle|release|extend",
    .formats = "table|json",
    .flags = flags,
    .least = 2,
    .most = LIMITS_MOST,
    .run = run,
};
