/* take.c -- `sluice take` and `sluice hold`: checks against a running daemon.
 *
 * The words of `sluice take` are those of `sluice explain` without the policy.
 * `sluice explain --url` is here, too.
 */
#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "base/parse.h"
#include "cli/cli.h"
#include "wire/json.h"

/* ---- sluice take ---- */

/* denied 429 by ai-minute; retry in 12s */
static void print_verdict(FILE *out, json_t *verdict, bool allowed)
{
    const char *by = sl_member_text(verdict, "by");
    const char *hold = sl_member_text(verdict, "hold");
    const char *message = sl_member_text(verdict, "message");
    char text[32];
    const char *span = sl_member_span(verdict, "retry_after_ms", text);

    sl_out_coloured(out, allowed ? SL_GREEN : SL_RED,
                    allowed ? "allowed" : "denied");
    sl_out_print(out, " %d%s%s", (int)sl_member_int(verdict, "status"),
                 by[0] ? " by " : "", by);
    if (span)
        fprintf(out, "; retry in %s", span);
    if (sl_member_true(verdict, "degraded"))
        fputs("; decided without the store", out);
    fputc('\n', out);
    span = sl_member_span(verdict, "hold_expires_ms", text);
    if (hold[0] && span)
        sl_out_print(out, "held for %s, id %s\n", span, hold);
    if (message[0])
        sl_out_print(out, "%s\n", message);
}

static int print_take(struct sl_cli_args *args, json_t *verdict)
{
    json_t *limits = json_object_get(verdict, "limits");
    bool allowed = sl_member_true(verdict, "allowed");
    int status = 0;

    if (args->format == SL_FORMAT_JSON) {
        status = sl_json_print(args, verdict);
    } else {
        print_verdict(args->cli->out, verdict, allowed);
        if (json_array_size(limits) > 0)
            status = sl_numbers_print(args, limits);
    }
    if (status)
        return status;
    return allowed ? SL_EXIT_OK : SL_EXIT_FAILED;
}

static int check_request(struct sl_cli_request *r,
                         const struct sl_check_args *q, const char *path,
                         int (*print)(struct sl_cli_args *, json_t *))
{
    struct sluice_request request;
    json_t *verdict = NULL;
    int status;

    sl_flow_request_fill(&q->act, &request);
    if (request.has_cost && request.cost_count > 0)
        return sl_cli_misuse(r->args,
                             "a check accepts cost= or cost.LIMIT=, not both");
    sl_writer_add(&r->path, sl_str_c(path));
    sl_flow_check_write(&r->body, &request, SL_STR("null"));
    status =
        sl_cli_request_send(r, "POST", "the request is too large", &verdict);
    if (!status)
        status = print(r->args, verdict);
    json_decref(verdict);
    return status;
}

/* --hold is the same as hold=. */
static int read_hold(struct sl_cli_args *args, struct sl_check_args *q)
{
    const char *text = sl_cli_flag(args, "hold");
    struct sl_diag diag = {.sentence = ""};

    if (!text)
        return 0;
    if (q->in.request.hold_ns > 0)
        return sl_cli_misuse(args,
                             "--hold and hold= are both given; remove one");
    if (sl_parse_duration(sl_str_c(text), &q->in.request.hold_ns, &diag))
        return sl_cli_misuse(args, "--hold %s: %s", text, diag.sentence);
    if (q->in.request.hold_ns == 0)
        return sl_cli_misuse(
            args, "a hold needs a duration above 0; write one like --hold 30s");
    return 0;
}

static int ask_take(struct sl_cli_request *r)
{
    struct sl_check_args q;
    int status;

    sl_check_args_init(&q, SL_NS_NONE);
    q.bare_limits = true;
    q.accepts_hold = true;
    status = sl_check_args_read(r->args, 0, &q);
    if (!status)
        status = read_hold(r->args, &q);
    if (!status)
        status = sl_check_args_token(r->args, &q, NULL, NULL);
    if (!status && q.now != SL_NS_NONE)
        status = sl_cli_misuse(
            r->args,
            "at= cannot be used with take: the daemon uses its own clock");
    if (!status)
        status = check_request(r, &q, "/v1/check", print_take);
    sl_check_args_done(&q);
    return status;
}

/* ---- sluice explain --url ---- */

static int print_explain(struct sl_cli_args *args, json_t *verdict)
{
    int status = 0;

    if (args->format == SL_FORMAT_JSON)
        status = sl_json_print(args, verdict);
    else
        sl_out_print(args->cli->out, "%s", sl_member_text(verdict, "explain"));
    if (status)
        return status;
    return sl_member_true(verdict, "allowed") ? SL_EXIT_OK : SL_EXIT_FAILED;
}

int sl_explain_ask(struct sl_cli_request *r)
{
    struct sl_check_args q;
    int status;

    sl_check_args_init(&q, SL_NS_NONE);
    status = sl_check_args_read(r->args, 0, &q);
    if (!status)
        status = sl_check_args_token(r->args, &q, NULL, NULL);
    if (!status && q.now != SL_NS_NONE)
        status = sl_cli_misuse(
            r->args,
            "at= cannot be used with --url: the daemon uses its own clock");
    if (!status)
        status = check_request(r, &q, "/v1/explain", print_explain);
    sl_check_args_done(&q);
    return status;
}

static const struct sl_flag take_flags[] = {
    {'\0', "hold", "DURATION",
     "hold the cost for this time; see `sluice hold`"},
    {'\0', NULL,   NULL,       NULL                  },
};

const struct sl_command sl_command_take = {
    .name = "take",
    .usage = "'METHOD PATH' | 'job NAME' | LIMIT KEY [NAME=VALUE...]",
    .summary = "Check a request against a running daemon",
    .help = "An allowed request takes its cost, as a client's request would;\n"
            "cost=0 takes nothing. Exits 0 if allowed, 1 if denied, 4 if the\n"
            "daemon is unreachable.\n"
            "\n"
            "  user= org= plan= role= ip= header.NAME= body= cost=\n"
            "  cost.LIMIT=\n"
            "  hold=   hold the cost for this time; see `sluice hold`\n"
            "  token=  a file with a token, sent as Authorization: Bearer\n"
            "\n"
            "  sluice take 'GET /api/search' user=ann plan=free\n"
            "  sluice take 'job transcribe' org=acme cost=30 -o json\n"
            "  sluice take 'job transcribe' org=acme cost=30 --hold 5m\n"
            "  sluice take ai-minute ann --url http://10.0.0.7:8080\n"
            "  sluice take ai-minute ann cost=0\n",
    .formats = "table|json",
    .flags = take_flags,
    .listener = SL_LISTENER_HTTP,
    .least = 1,
    .most = (unsigned)-1,
    .ask = ask_take,
};

/* ---- sluice hold: settle, release or extend a hold ---- */

#define WORDS_MAX 64

/* cost=N, cost.LIMIT=N or status=N. */
static int read_pair(struct sl_cli_args *args, const char *word,
                     struct sl_str *ret_name, uint64_t *ret_number)
{
    const char *equals = strchr(word, '=');
    struct sl_str name = {word, equals ? (size_t)(equals - word) : 0};

    if (!sl_flow_word_under(name, "cost.") &&
        !sl_str_eq(name, SL_STR("cost")) && !sl_str_eq(name, SL_STR("status")))
        return sl_cli_misuse(
            args,
            "unknown argument \"%s\"; write cost=N, cost.LIMIT=N or status=N",
            word);
    if (sl_parse_number(sl_str_c(equals + 1), ret_number, NULL))
        return sl_cli_misuse(args, "\"%s\" needs a whole number after the '='",
                             word);
    *ret_name = name;
    return 0;
}

/* The members cost and status, then the costs per limit as one object. */
static int write_settle(struct sl_cli_args *args, struct sl_writer *body)
{
    bool any = false;
    struct sl_str name;
    uint64_t number = 0;

    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 2; i < args->word_count; i++) {
            int status = read_pair(args, args->words[i], &name, &number);
            bool limit;

            if (status)
                return status;
            limit = sl_flow_word_under(name, "cost.");
            if (limit != (pass == 1))
                continue;
            if (limit && !any) {
                sl_json_key(body, SL_STR("cost"));
                sl_json_open(body, '{');
                any = true;
            }
            sl_json_key(body,
                        limit ? sl_str_from(name, strlen("cost.")) : name);
            sl_writer_addf(body, "%" PRIu64, number);
        }
    }
    if (any)
        sl_json_close(body, '}');
    return 0;
}

static int write_extend(struct sl_cli_args *args, struct sl_writer *body)
{
    struct sl_diag diag = {.sentence = ""};
    sl_ns span;

    if (args->word_count != 3)
        return sl_cli_misuse(
            args, "missing duration; write sluice hold extend ID 30s");
    if (sl_parse_duration(sl_str_c(args->words[2]), &span, &diag))
        return sl_cli_misuse(args, "%s", diag.sentence);
    sl_json_member_text(body, "hold", args->words[2]);
    return 0;
}

static int write_body(struct sl_cli_args *args, struct sl_writer *body)
{
    const char *action = args->words[0];
    int status = 0;

    sl_json_open(body, '{');
    if (strcmp(action, "settle") == 0)
        status = write_settle(args, body);
    else if (strcmp(action, "extend") == 0)
        status = write_extend(args, body);
    else if (strcmp(action, "release") != 0)
        status = sl_cli_misuse(
            args, "unknown action \"%s\"; write settle, release or extend",
            action);
    else if (args->word_count != 2)
        status = sl_cli_misuse(
            args, "release accepts the id of the hold and nothing else");
    sl_json_close(body, '}');
    return status;
}

static void print_limit(FILE *out, json_t *limit)
{
    const char *name = sl_member_text(limit, "name");
    json_t *cost = json_object_get(limit, "cost");

    sl_out_print(out, "  %s: held %" JSON_INTEGER_FORMAT,
                 name[0] ? name : "(no longer in the policy)",
                 sl_member_int(limit, "held"));
    if (json_is_integer(cost))
        fprintf(out, ", settled with %" JSON_INTEGER_FORMAT,
                json_integer_value(cost));
    fprintf(out, ", %" JSON_INTEGER_FORMAT " left%s\n",
            sl_member_int(limit, "remaining"),
            sl_member_true(limit, "over") ? "; over the limit" : "");
}

/* "settled", or "settled already; nothing was changed" */
static int print_ended(struct sl_cli_args *args, json_t *answer)
{
    FILE *out = args->cli->out;
    json_t *limit;
    size_t i;

    sl_out_print(out, "%s", sl_member_text(answer, "state"));
    if (json_is_integer(json_object_get(answer, "expires_ms")))
        fprintf(out, " for %" JSON_INTEGER_FORMAT " ms",
                sl_member_int(answer, "expires_ms"));
    fputs(sl_member_true(answer, "again") ? " already; nothing was changed\n"
                                          : "\n",
          out);
    json_array_foreach(json_object_get(answer, "limits"), i, limit)
        print_limit(out, limit);
    return SL_EXIT_OK;
}

static int ask_hold(struct sl_cli_request *r)
{
    struct sl_cli_args *args = r->args;
    char too_long[120];
    int status = write_body(args, &r->body);

    if (status)
        return status;
    if (r->body.err)
        return sl_cli_misuse(args, "too many arguments");
    snprintf(too_long, sizeof(too_long),
             "\"%.40s...\" is too long for the id of a hold", args->words[1]);
    sl_writer_add(&r->path, SL_STR("/v1/holds"));
    sl_cli_request_segment(r, args->words[1]);
    sl_writer_addf(&r->path, "/%s", args->words[0]);
    return sl_cli_request_print(r, "POST", too_long, print_ended);
}

const struct sl_command sl_command_hold = {
    .name = "hold",
    .usage = "settle ID [cost=N | cost.LIMIT=N...] [status=N] | release ID | "
             "extend ID TIME",
    .summary = "Settle, release or extend a hold",
    .help = "`sluice take hold=30s` prints the ID. settle charges the actual\n"
            "cost: one cost for all limits, or one cost per limit. Without a\n"
            "cost it charges what was held. A hold that has already ended\n"
            "does not change; the output says so. Exits 1 if the hold is\n"
            "unknown.\n"
            "\n"
            "  sluice take 'job transcribe' org=acme cost=30 hold=5m\n"
            "  sluice hold extend 6f1c0a... 5m\n"
            "  sluice hold settle 6f1c0a... cost=12\n"
            "  sluice hold settle 6f1c0a... cost.tokens=350 status=200\n"
            "  sluice hold release 6f1c0a...\n",
    .words = "settle|release|extend",
    .formats = "table|json",
    .listener = SL_LISTENER_HTTP,
    .least = 2,
    .most = WORDS_MAX,
    .ask = ask_hold,
};
