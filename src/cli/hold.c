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
#include "wire/json_old.h"

#define BODY_BYTES  ((size_t)64 << 10)
#define NAME_BYTES  128
#define LIMITS_MOST 64

/* ---- what is asked ---- */

/* cost=N, or cost.LIMIT=N, or status=N; each as a member. */
static int add_word(struct sl_cli_args *call, struct sl_buf *costs,
                    struct sl_buf *body, const char *word)
{
    const char *equals = strchr(word, '=');
    struct sl_str name = {word, equals ? (size_t)(equals - word) : 0};
    uint64_t number = 0;
    bool limit = sl_flow_word_under(name, "cost.");
    int err;

    if (!limit && !sl_str_eq(name, SL_STR("cost")) &&
        !sl_str_eq(name, SL_STR("status")))
        return sl_cli_error(call, SL_EXIT_USAGE,
                            "\"%s\" is none of cost=N, cost.LIMIT=N and "
                            "status=N",
                            word);
    if (sl_parse_number(sl_str_c(equals + 1), &number, NULL))
        return sl_cli_error(call, SL_EXIT_USAGE,
                            "\"%s\" needs a whole number behind the '='", word);
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
    return err ? sl_cli_error(call, SL_EXIT_USAGE, "there are too many words")
               : 0;
}

static int write_settle(struct sl_cli_args *call, struct sl_buf *body)
{
    struct sl_buf costs;
    int status = 0;

    sl_buf_init(&costs, BODY_BYTES, &sl_alloc_libc);
    for (size_t i = 2; i < call->word_count && !status; i++)
        status = add_word(call, &costs, body, call->words[i]);
    if (!status && costs.len > 0 &&
        sl_buf_addf(body, "%s\"cost\":{%.*s}", body->len > 1 ? "," : "",
                    SL_STR_ARG(sl_buf_str(&costs))))
        status = sl_cli_error(call, SL_EXIT_USAGE, "there are too many words");
    sl_buf_done(&costs);
    return status;
}

static int write_extend(struct sl_cli_args *call, struct sl_buf *body)
{
    struct sl_diag diag = {.sentence = ""};
    sl_ns span;

    if (call->word_count != 3)
        return sl_cli_error(call, SL_EXIT_USAGE,
                            "for how long? write sluice hold extend ID 30s");
    if (sl_parse_duration(sl_str_c(call->words[2]), &span, &diag))
        return sl_cli_error(call, SL_EXIT_USAGE, "%s", diag.sentence);
    if (sl_buf_addf(body, "\"hold\":\"%s\"", call->words[2]))
        return sl_cli_error(call, SL_EXIT_USAGE, "there are too many words");
    return 0;
}

static int write_body(struct sl_cli_args *call, struct sl_buf *body)
{
    const char *verb = call->words[0];
    int status = 0;

    if (sl_buf_addf(body, "{"))
        return sl_cli_error(call, SL_EXIT_STORE, "there is no memory left");
    if (strcmp(verb, "settle") == 0)
        status = write_settle(call, body);
    else if (strcmp(verb, "extend") == 0)
        status = write_extend(call, body);
    else if (strcmp(verb, "release") != 0)
        status = sl_cli_error(call, SL_EXIT_USAGE,
                              "a hold is settled, released or extended, not "
                              "\"%s\"",
                              verb);
    else if (call->word_count != 2)
        status = sl_cli_error(call, SL_EXIT_USAGE,
                              "release needs the hold's id and no more");
    if (!status && sl_buf_addf(body, "}"))
        status = sl_cli_error(call, SL_EXIT_STORE, "there is no memory left");
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
        fprintf(out, ", came to %" JSON_INTEGER_FORMAT,
                json_integer_value(cost));
    fprintf(out, ", %" JSON_INTEGER_FORMAT " left%s\n",
            json_integer_value(json_object_get(limit, "remaining")),
            json_is_true(json_object_get(limit, "over")) ? "; over the limit"
                                                         : "");
}

/* settled; it had ended before */
static int print(struct sl_cli_args *call, json_t *answer)
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
    fputs(again ? " before; nothing was changed\n" : "\n", call->cli->out);
    json_array_foreach(json_object_get(answer, "limits"), i, limit)
        print_limit(call->cli->out, limit);
    return SL_EXIT_OK;
}

static int ask(struct sl_cli_args *call, struct sl_daemon_client *client,
               struct sl_str body)
{
    struct sl_buf path;
    json_t *answer = NULL;
    int status;

    sl_buf_init(&path, 4 * NAME_BYTES, &sl_alloc_libc);
    if (sl_buf_addf(&path, "/v1/holds/") ||
        sl_daemon_reach_encode(&path, sl_str_c(call->words[1])) ||
        sl_buf_addf(&path, "/%s%c", call->words[0], '\0'))
        status = sl_cli_error(call, SL_EXIT_USAGE,
                              "\"%.40s...\" is longer than the id of any hold",
                              call->words[1]);
    else
        status = sl_daemon_reach_ask(call, client, "POST", path.bytes, body,
                                     &answer);
    if (!status)
        status = print(call, answer);
    json_decref(answer);
    sl_buf_done(&path);
    return status;
}

static int run(struct sl_cli_args *call)
{
    struct sl_daemon_client client;
    struct sl_buf body;
    int status;

    sl_buf_init(&body, BODY_BYTES, &sl_alloc_libc);
    status = write_body(call, &body);
    if (!status) {
        status = sl_daemon_reach(call, false, &client);
        if (!status)
            status = ask(call, &client, sl_buf_str(&body));
        sl_daemon_client_done(&client);
    }
    sl_buf_done(&body);
    return status;
}

static const struct sl_flag flags[] = {
    SL_DAEMON_REACH_URL,
    SL_DAEMON_REACH_TOKEN,
    {'\0', NULL, NULL, NULL},
};

const struct sl_command sl_command_hold = {
    .name = "hold",
    .usage = "settle ID [cost=N | cost.LIMIT=N...] [status=N] | release ID | "
             "extend ID TIME",
    .summary = "End or extend what a daemon that runs holds for somebody",
    .help = "The ID is what `sluice take hold=30s` prints. Settled is with "
            "what it came to: one\ncost for all limits, or for each its own; "
            "without any, with what was held. What\nhad ended before stays as "
            "it is, and that is said. Exits 1 if nobody knows it.\n"
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
