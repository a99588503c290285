/* explain.c -- sluice explain: what would happen to a request, and why.
 *
 * The words behind the policy are those of an act in a flow file. The state is
 * empty, and nothing is spent.
 */
#include <string.h>

#include "base/clock.h"
#include "cli/errand.h"
#include "cli/flow/run.h"
#include "cli/flow/tokens.h"
#include "cli/flow/words.h"
#include "cli/out.h"
#include "cli/question.h"

#define STATE_BYTES ((size_t)1 << 20) /* for a single request */

static int64_t on_now(void *ctx)
{
    return ((struct sl_question *)ctx)->now;
}

static int print(struct sl_call *call, struct sluice_decision *decision)
{
    bool json = call->format == SL_FORMAT_JSON;
    const char *text =
        json ? sluice_decision_json(decision) : sluice_decision_text(decision);

    if (!text)
        return sl_complain(call, SL_EXIT_STORE, "out of memory");
    fputs(text, call->cli->out);
    if (!text[0] || text[strlen(text) - 1] != '\n')
        fputc('\n', call->cli->out);
    return sluice_decision_allowed(decision) ? SL_EXIT_OK : SL_EXIT_NO;
}

/* token=FILE becomes a header, and the engine believes it or not. */
static int bring_token(struct sl_call *call, struct sl_question *q,
                       struct sluice_policy *policy,
                       struct sluice_engine *engine,
                       struct sl_flow_tokens *tokens)
{
    struct sl_diag diag = {.sentence = ""};
    struct sluice_header header;
    int err = sl_flow_tokens_open(tokens, engine, policy, call->words[0]);

    if (!err && q->in.token)
        err = sl_flow_tokens_header(tokens, policy, q->in.token, &q->arena,
                                    &header, &diag);
    if (!err && q->in.token)
        err = sl_inputs_header(&q->in, &header, &q->arena);
    if (!err)
        return 0;
    return sl_complain(call, err == SLUICE_ENOMEM ? SL_EXIT_STORE : SL_EXIT_NO,
                       "%s",
                       diag.sentence[0] ? diag.sentence : "out of memory");
}

static int explain(struct sl_call *call, struct sl_question *q,
                   struct sluice_engine *engine,
                   struct sluice_decision *decision)
{
    struct sluice_request request;
    int err;

    sl_request_fill(&q->act, &request);
    err = sluice_explain(engine, &request, decision);
    if (err) /* no such limit: a slip */
        return sl_complain(call,
                           err == SLUICE_ENOENT ? SL_EXIT_USAGE : SL_EXIT_STORE,
                           "%s", sluice_why());
    return print(call, decision);
}

static int ask(struct sl_call *call, struct sl_question *q,
               struct sluice_policy *policy)
{
    struct sluice_engine_options options = {
        .size = STATE_BYTES, .now = on_now, .now_ctx = q};
    struct sluice_decision *decision = sluice_decision_new();
    struct sl_flow_tokens tokens = {.keys = NULL};
    struct sluice_engine *engine = NULL;
    int status;

    if (!decision)
        status = sl_complain(call, SL_EXIT_STORE, "out of memory");
    else if (sluice_engine_open(policy, &options, &engine))
        status = sl_complain(call, SL_EXIT_STORE, "%s", sluice_why());
    else
        status = bring_token(call, q, policy, engine, &tokens);
    if (engine && !status)
        status = explain(call, q, engine, decision);
    sluice_decision_free(decision);
    sluice_engine_close(engine);
    sl_flow_tokens_close(&tokens);
    return status;
}

static int run(struct sl_call *call)
{
    struct sl_question q;
    struct sluice_policy *policy = NULL;
    int status;

    sl_question_init(&q, sl_clock_wall());
    q.takes_token = true;
    status = sl_question_read(call, 1, &q);
    if (!status)
        status = sl_need_policy(call, call->words[0], &policy);
    if (!status)
        status = ask(call, &q, policy);
    sluice_policy_release(policy);
    sl_question_done(&q);
    return status;
}

const struct sl_errand sl_errand_explain = {
    .name = "explain",
    .usage = "POLICY 'METHOD PATH' [NAME=VALUE...]",
    .summary = "Explain the decision for a request",
    .help = "Prints the route, the caller, the plan, and each limit with its "
            "numbers and its\n"
            "key. It starts with empty state and takes nothing. Exits 0 if the "
            "request would\n"
            "pass, 1 if not.\n"
            "\n"
            "  user= org= plan= role= ip= header.NAME= cost= cost.LIMIT=\n"
            "  at=     the time of the request, as RFC 3339 (default: now)\n"
            "  token=  a file with a token, verified with the policy's keys\n"
            "\n"
            "  sluice explain sluice.yaml 'GET /api/search' user=ann\n"
            "  sluice explain sluice.yaml 'job transcribe' org=acme cost=30\n"
            "  sluice explain sluice.yaml 'POST /api/x' user=ann -o json\n",
    .words = "file",
    .formats = "table|json",
    .least = 2,
    .most = (unsigned)-1,
    .run = run,
};
