/* take.c -- sluice take: ask a daemon that runs, and spend.
 *
 * The words are those of `sluice explain`, but for the policy: that is the
 * daemon's.
 */
#include <string.h>

#include "base/clock.h"
#include "base/parse.h"
#include "cli/cli.h"
#include "cli/flow/daemon.h"
#include "cli/flow/flow.h"
#include "wire/json.h"

#define CHECK_BYTES ((size_t)1 << 20)

static const char *text_of(json_t *verdict, const char *name)
{
    const char *text = json_string_value(json_object_get(verdict, name));

    return text ? text : "";
}

/* held for 30s as 6f1c0a... */
static void print_hold(FILE *out, json_t *verdict)
{
    const char *hold = text_of(verdict, "hold");
    json_t *left = json_object_get(verdict, "hold_expires_ms");
    char span[32];

    if (!hold[0] || !json_is_integer(left) || json_integer_value(left) < 0 ||
        json_integer_value(left) > SL_NS_MAX / SL_MS)
        return;
    fprintf(out, "held for %s, id ",
            sl_span_print(json_integer_value(left) * SL_MS, span));
    sl_out_clean(out, hold);
    fputc('\n', out);
}

/* denied 429 by ai-minute; come back in 12s */
static void print_verdict(FILE *out, json_t *verdict, bool allowed)
{
    json_t *retry = json_object_get(verdict, "retry_after_ms");
    const char *by = text_of(verdict, "by");
    const char *message = text_of(verdict, "message");
    char span[32];

    sl_out_colour(out, allowed ? SL_GREEN : SL_RED);
    fputs(allowed ? "allowed" : "denied", out);
    sl_out_colour(out, SL_PLAIN);
    fprintf(out, " %d",
            (int)json_integer_value(json_object_get(verdict, "status")));
    if (by[0])
        fputs(" by ", out);
    sl_out_clean(out, by);
    if (json_is_integer(retry) && json_integer_value(retry) >= 0 &&
        json_integer_value(retry) <= SL_NS_MAX / SL_MS)
        fprintf(out, "; retry in %s",
                sl_span_print(json_integer_value(retry) * SL_MS, span));
    if (json_is_true(json_object_get(verdict, "degraded")))
        fputs("; decided without the store", out);
    fputc('\n', out);
    print_hold(out, verdict);
    if (message[0]) {
        sl_out_clean(out, message);
        fputc('\n', out);
    }
}

static int print(struct sl_cli_args *call, json_t *verdict)
{
    json_t *limits = json_object_get(verdict, "limits");
    bool allowed = json_is_true(json_object_get(verdict, "allowed"));
    int status = 0;

    if (call->format == SL_FORMAT_JSON) {
        status = sl_json_print(call, verdict);
    } else {
        print_verdict(call->cli->out, verdict, allowed);
        if (json_array_size(limits) > 0)
            status = sl_numbers_print(call, limits);
    }
    if (status)
        return status;
    return allowed ? SL_EXIT_OK : SL_EXIT_FAILED;
}

static int ask(struct sl_cli_args *call, const struct sl_check_args *q,
               struct sl_daemon_client *client)
{
    struct sluice_request request;
    json_t *verdict = NULL;
    struct sl_buf check;
    int status;

    sl_flow_request_fill(&q->act, &request);
    if (request.has_cost && request.cost_count > 0)
        return sl_cli_error(call, SL_EXIT_USAGE,
                            "a check accepts cost= or cost.LIMIT=, not both");
    sl_buf_init(&check, CHECK_BYTES, &sl_alloc_libc);
    if (sl_flow_check_write(&check, &request, SL_STR("null")))
        status = sl_cli_error(call, SL_EXIT_USAGE, "the request is too large");
    else
        status = sl_daemon_reach_ask(call, client, "POST", "/v1/check",
                                     sl_buf_str(&check), &verdict);
    if (!status)
        status = print(call, verdict);
    json_decref(verdict);
    sl_buf_done(&check);
    return status;
}

/* token=FILE goes where tokens usually are: the policy is the daemon's. */
static int bring_token(struct sl_cli_args *call, struct sl_check_args *q)
{
    struct sl_diag diag = {.sentence = ""};
    struct sluice_header header;
    int err;

    if (!q->in.token)
        return 0;
    err = sl_flow_bearer(q->in.token, &q->arena, &header, &diag);
    if (!err)
        err = sl_inputs_header(&q->in, &header, &q->arena);
    if (!err)
        return 0;
    return sl_cli_error(
        call, err == SLUICE_ENOMEM ? SL_EXIT_STORE : SL_EXIT_USAGE, "%s",
        diag.sentence[0] ? diag.sentence : "out of memory");
}

/* --hold says the same as hold=. */
static int read_hold(struct sl_cli_args *call, struct sl_check_args *q)
{
    const char *text = sl_cli_args_flag(call, "hold");
    struct sl_diag diag = {.sentence = ""};

    if (!text)
        return 0;
    if (q->in.hold > 0)
        return sl_cli_error(call, SL_EXIT_USAGE,
                            "--hold and hold= are both given; remove one");
    if (sl_parse_duration(sl_str_c(text), &q->in.hold, &diag))
        return sl_cli_error(call, SL_EXIT_USAGE, "--hold %s: %s", text,
                            diag.sentence);
    if (q->in.hold == 0)
        return sl_cli_error(
            call, SL_EXIT_USAGE,
            "a hold needs a duration above 0; write one like --hold 30s");
    return 0;
}

static int run(struct sl_cli_args *call)
{
    struct sl_check_args q;
    struct sl_daemon_client client;
    int status;

    sl_check_args_init(&q, SL_NS_NONE);
    q.bare_limits = true;
    q.takes_token = true;
    q.takes_hold = true;
    status = sl_check_args_read(call, 0, &q);
    if (!status)
        status = read_hold(call, &q);
    if (!status)
        status = bring_token(call, &q);
    if (!status && q.now != SL_NS_NONE)
        status = sl_cli_error(
            call, SL_EXIT_USAGE,
            "at= cannot be used with take: the daemon uses its own clock");
    if (!status) {
        status = sl_daemon_reach(call, false, &client);
        if (!status)
            status = ask(call, &q, &client);
        sl_daemon_client_done(&client);
    }
    sl_check_args_done(&q);
    return status;
}

static const struct sl_flag flags[] = {
    {'\0', "hold", "DURATION",
     "hold the cost for this time; see `sluice hold`"},
    SL_DAEMON_REACH_URL,
    SL_DAEMON_REACH_TOKEN,
    {'\0', NULL,   NULL,       NULL                  },
};

const struct sl_command sl_command_take = {
    .name = "take",
    .usage = "'METHOD PATH' | 'job NAME' | LIMIT KEY [NAME=VALUE...]",
    .summary = "Check a request against a running daemon",
    .help = "An allowed request takes its cost, as a client's request would; "
            "cost=0 takes\n"
            "nothing. Exits 0 if allowed, 1 if denied, 4 if the daemon is "
            "unreachable.\n"
            "\n"
            "  user= org= plan= role= ip= header.NAME= cost= cost.LIMIT=\n"
            "  hold=   hold the cost for this time; see `sluice hold`\n"
            "  token=  a file with a token, sent as Authorization: Bearer\n"
            "\n"
            "  sluice take 'GET /api/search' user=ann plan=free\n"
            "  sluice take 'job transcribe' org=acme cost=30 -o json\n"
            "  sluice take 'job transcribe' org=acme cost=30 --hold 5m\n"
            "  sluice take ai-minute ann --url http://10.0.0.7:8080\n"
            "  sluice take ai-minute ann cost=0\n",
    .words = "",
    .formats = "table|json",
    .flags = flags,
    .least = 1,
    .most = (unsigned)-1,
    .run = run,
};

/* ---- sluice hold: end or extend what a daemon holds. */

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
        return sl_cli_error(
            call, SL_EXIT_USAGE,
            "unknown argument \"%s\"; write cost=N, cost.LIMIT=N or status=N",
            word);
    if (sl_parse_number(sl_str_c(equals + 1), &number, NULL))
        return sl_cli_error(call, SL_EXIT_USAGE,
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
    return err ? sl_cli_error(call, SL_EXIT_USAGE, "too many arguments") : 0;
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
        status = sl_cli_error(call, SL_EXIT_USAGE, "too many arguments");
    sl_buf_done(&costs);
    return status;
}

static int write_extend(struct sl_cli_args *call, struct sl_buf *body)
{
    struct sl_diag diag = {.sentence = ""};
    sl_ns span;

    if (call->word_count != 3)
        return sl_cli_error(
            call, SL_EXIT_USAGE,
            "missing duration; write sluice hold extend ID 30s");
    if (sl_parse_duration(sl_str_c(call->words[2]), &span, &diag))
        return sl_cli_error(call, SL_EXIT_USAGE, "%s", diag.sentence);
    if (sl_buf_addf(body, "\"hold\":\"%s\"", call->words[2]))
        return sl_cli_error(call, SL_EXIT_USAGE, "too many arguments");
    return 0;
}

static int write_body(struct sl_cli_args *call, struct sl_buf *body)
{
    const char *verb = call->words[0];
    int status = 0;

    if (sl_buf_addf(body, "{"))
        return sl_cli_error(call, SL_EXIT_STORE, "out of memory");
    if (strcmp(verb, "settle") == 0)
        status = write_settle(call, body);
    else if (strcmp(verb, "extend") == 0)
        status = write_extend(call, body);
    else if (strcmp(verb, "release") != 0)
        status = sl_cli_error(
            call, SL_EXIT_USAGE,
            "unknown action \"%s\"; write settle, release or extend", verb);
    else if (call->word_count != 2)
        status =
            sl_cli_error(call, SL_EXIT_USAGE,
                         "release accepts the id of the hold and nothing else");
    if (!status && sl_buf_addf(body, "}"))
        status = sl_cli_error(call, SL_EXIT_STORE, "out of memory");
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
static int hold_print(struct sl_cli_args *call, json_t *answer)
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

static int hold_ask(struct sl_cli_args *call, struct sl_daemon_client *client,
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
                              "\"%.40s...\" is too long for the id of a hold",
                              call->words[1]);
    else
        status = sl_daemon_reach_ask(call, client, "POST", path.bytes, body,
                                     &answer);
    if (!status)
        status = hold_print(call, answer);
    json_decref(answer);
    sl_buf_done(&path);
    return status;
}

static int hold_run(struct sl_cli_args *call)
{
    struct sl_daemon_client client;
    struct sl_buf body;
    int status;

    sl_buf_init(&body, BODY_BYTES, &sl_alloc_libc);
    status = write_body(call, &body);
    if (!status) {
        status = sl_daemon_reach(call, false, &client);
        if (!status)
            status = hold_ask(call, &client, sl_buf_str(&body));
        sl_daemon_client_done(&client);
    }
    sl_buf_done(&body);
    return status;
}

static const struct sl_flag hold_flags[] = {
    SL_DAEMON_REACH_URL,
    SL_DAEMON_REACH_TOKEN,
    {'\0', NULL, NULL, NULL},
};

const struct sl_command sl_command_hold = {
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
    .flags = hold_flags,
    .least = 2,
    .most = LIMITS_MOST,
    .run = hold_run,
};
