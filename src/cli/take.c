/* take.c -- sluice take: ask a daemon that runs, and spend.
 *
 * The words are those of `sluice explain`, but for the policy: that is the
 * daemon's.
 */
#include <string.h>

#include "base/clock.h"
#include "base/parse.h"
#include "cli/flow/remote.h"
#include "cli/flow/run.h"
#include "cli/flow/tokens.h"
#include "cli/flow/words.h"
#include "cli/numbers.h"
#include "cli/out.h"
#include "cli/question.h"
#include "cli/reach.h"

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

static int print(struct sl_call *call, json_t *verdict)
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
    return allowed ? SL_EXIT_OK : SL_EXIT_NO;
}

static int ask(struct sl_call *call, const struct sl_question *q,
               struct sl_client *client)
{
    struct sluice_request request;
    json_t *verdict = NULL;
    struct sl_buf check;
    int status;

    sl_request_fill(&q->act, &request);
    if (request.has_cost && request.cost_count > 0)
        return sl_complain(call, SL_EXIT_USAGE,
                           "a check accepts cost= or cost.LIMIT=, not both");
    sl_buf_init(&check, CHECK_BYTES, &sl_alloc_libc);
    if (sl_check_write(&check, &request, SL_STR("null")))
        status = sl_complain(call, SL_EXIT_USAGE, "the request is too large");
    else
        status = sl_reach_ask(call, client, "POST", "/v1/check",
                              sl_buf_str(&check), &verdict);
    if (!status)
        status = print(call, verdict);
    json_decref(verdict);
    sl_buf_done(&check);
    return status;
}

/* token=FILE goes where tokens usually are: the policy is the daemon's. */
static int bring_token(struct sl_call *call, struct sl_question *q)
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
    return sl_complain(
        call, err == SLUICE_ENOMEM ? SL_EXIT_STORE : SL_EXIT_USAGE, "%s",
        diag.sentence[0] ? diag.sentence : "out of memory");
}

/* --hold says the same as hold=. */
static int read_hold(struct sl_call *call, struct sl_question *q)
{
    const char *text = sl_call_flag(call, "hold");
    struct sl_diag diag = {.sentence = ""};

    if (!text)
        return 0;
    if (q->in.hold > 0)
        return sl_complain(call, SL_EXIT_USAGE,
                           "--hold and hold= are both given; remove one");
    if (sl_parse_duration(sl_str_c(text), &q->in.hold, &diag))
        return sl_complain(call, SL_EXIT_USAGE, "--hold %s: %s", text,
                           diag.sentence);
    if (q->in.hold == 0)
        return sl_complain(
            call, SL_EXIT_USAGE,
            "a hold needs a duration above 0; write one like --hold 30s");
    return 0;
}

static int run(struct sl_call *call)
{
    struct sl_question q;
    struct sl_client client;
    int status;

    sl_question_init(&q, SL_NS_NONE);
    q.bare_limits = true;
    q.takes_token = true;
    q.takes_hold = true;
    status = sl_question_read(call, 0, &q);
    if (!status)
        status = read_hold(call, &q);
    if (!status)
        status = bring_token(call, &q);
    if (!status && q.now != SL_NS_NONE)
        status = sl_complain(
            call, SL_EXIT_USAGE,
            "at= cannot be used with take: the daemon uses its own clock");
    if (!status) {
        status = sl_reach(call, false, &client);
        if (!status)
            status = ask(call, &q, &client);
        sl_client_done(&client);
    }
    sl_question_done(&q);
    return status;
}

static const struct sl_flag flags[] = {
    {'\0', "hold", "DURATION",
     "hold the cost for this time; see `sluice hold`"},
    SL_REACH_URL,
    SL_REACH_TOKEN,
    {'\0', NULL,   NULL,       NULL                  },
};

const struct sl_errand sl_errand_take = {
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
