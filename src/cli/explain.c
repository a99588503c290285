/* explain.c -- sluice explain: what would happen to a request, and why.
 *
 * The words behind the policy are those of an act in a flow file. The state is
 * empty, and nothing is spent.
 */
#include <string.h>

#include "base/clock.h"
#include "base/instant.h"
#include "cli/errand.h"
#include "cli/flow/run.h"
#include "cli/flow/tokens.h"
#include "cli/flow/words.h"
#include "cli/out.h"

#define ARENA_BYTES (1024 * 1024)
#define STATE_BYTES ((size_t)1 << 20) /* for a single request */

struct question {
    struct sl_act act;
    struct sl_inputs in;
    sl_ns now;
    struct sl_arena arena;
    struct sl_words words;
    struct sl_flow_tokens tokens;
};

static int64_t on_now(void *ctx)
{
    return ((struct question *)ctx)->now;
}

/* The next argument as a word; blanks in it are its own. */
static bool add_word(struct question *q, const char *text)
{
    const char *equals = strchr(text, '=');

    if (q->words.count == SL_FLOW_WORDS)
        return false;
    q->words.at[q->words.count++] = (struct sl_word){
        .text = text,
        .len = strlen(text),
        .equals = equals ? (size_t)(equals - text) : SL_NO_EQUALS,
        .column = 1,
        .value_column = 1,
    };
    return true;
}

/* 'GET /path' is two words, and so may be GET /path. Only the first argument
 * is taken apart: values may have blanks. */
static bool take_apart(struct question *q, char *text)
{
    char *at = text;

    for (;;) {
        char *end;

        at += strspn(at, " \t");
        if (!*at)
            return q->words.count > 0;
        end = at + strcspn(at, " \t");
        if (!*end)
            return add_word(q, at);
        *end = '\0';
        if (!add_word(q, at))
            return false;
        at = end + 1;
    }
}

/* How many words name what is asked for. */
static size_t name_count(const struct question *q)
{
    const char *first = q->words.at[0].text;

    if (strcmp(first, "take") == 0)
        return 3;
    return 2;
}

static int read_names(struct sl_call *call, struct question *q)
{
    const char *first = q->words.at[0].text;
    size_t count = name_count(q);

    if (q->words.count < count)
        return sl_complain(call, SL_EXIT_USAGE,
                           "\"%s\" asks for nothing; write 'GET /path', 'job "
                           "NAME' or 'take LIMIT KEY'",
                           first);
    if (strcmp(first, "job") == 0) {
        q->act.kind = SL_ACT_JOB;
        q->act.names[0] = q->words.at[1].text;
    } else if (strcmp(first, "take") == 0) {
        q->act.kind = SL_ACT_TAKE;
        q->act.names[0] = q->words.at[1].text;
        q->act.names[1] = q->words.at[2].text;
    } else {
        q->act.kind = SL_ACT_REQUEST;
        q->act.names[0] = first;
        q->act.names[1] = q->words.at[1].text;
    }
    return 0;
}

static int refuse(struct sl_call *call, const struct sl_diag *diag)
{
    if (diag->hint[0])
        return sl_complain(call, SL_EXIT_USAGE, "%s; write: %s", diag->sentence,
                           diag->hint);
    return sl_complain(call, SL_EXIT_USAGE, "%s",
                       diag->sentence[0] ? diag->sentence
                                         : "there is no memory left");
}

static int read_at(const struct sl_word *word, struct question *q,
                   struct sl_diag *diag)
{
    struct sl_moment moment;
    int err = sl_moment_read(sl_word_value(word), word, &moment, diag);

    if (err)
        return err;
    q->now = moment.at + (moment.relative ? q->now : 0);
    if (q->now >= SL_TIME_END)
        return sl_refuse(diag, SLUICE_ECONF, "at= is beyond the year 2115");
    return 0;
}

/* What has no meaning for a single question. */
static const char *pointless(const struct sl_inputs *in)
{
    return in->times > 1 ? "xN"
           : in->every   ? "every="
           : in->hold    ? "hold="
           : in->as      ? "as="
                         : NULL;
}

static int read_inputs(struct sl_call *call, struct question *q)
{
    struct sl_diag diag = {.line = 0};
    int err = 0;

    for (size_t i = name_count(q); i < q->words.count && !err; i++) {
        const struct sl_word *word = &q->words.at[i];

        if (sl_str_eq(sl_word_name(word), SL_STR("at")))
            err = read_at(word, q, &diag);
        else
            err = sl_input_read(&q->words, i, &q->arena, &q->in, &diag);
    }
    if (err)
        return refuse(call, &diag);
    if (pointless(&q->in))
        return sl_complain(call, SL_EXIT_USAGE, "%s is not for explain",
                           pointless(&q->in));
    return 0;
}

static int read_question(struct sl_call *call, struct question *q)
{
    bool fits = take_apart(q, call->words[1]);
    int status;

    for (size_t i = 2; fits && i < call->word_count; i++)
        fits = add_word(q, call->words[i]);
    if (!fits)
        return sl_complain(call, SL_EXIT_USAGE,
                           q->words.count ? "too many words"
                                          : "what is asked for? write 'GET "
                                            "/path'");
    status = read_names(call, q);
    return status ? status : read_inputs(call, q);
}

static int print(struct sl_call *call, struct sluice_decision *decision)
{
    bool json = call->format == SL_FORMAT_JSON;
    const char *text =
        json ? sluice_decision_json(decision) : sluice_decision_text(decision);

    if (!text)
        return sl_complain(call, SL_EXIT_STORE, "there is no memory left");
    fputs(text, call->cli->out);
    if (!text[0] || text[strlen(text) - 1] != '\n')
        fputc('\n', call->cli->out);
    return sluice_decision_allowed(decision) ? SL_EXIT_OK : SL_EXIT_NO;
}

/* token=FILE becomes a header, and the engine believes it or not. */
static int bring_token(struct sl_call *call, struct question *q,
                       struct sluice_policy *policy,
                       struct sluice_engine *engine)
{
    struct sl_diag diag = {.sentence = ""};
    struct sluice_header header;
    int err = sl_flow_tokens_open(&q->tokens, engine, policy, call->words[0]);

    if (!err && q->in.token)
        err = sl_flow_tokens_header(&q->tokens, policy, q->in.token, &q->arena,
                                    &header, &diag);
    if (!err && q->in.token)
        err = sl_inputs_header(&q->in, &header, &q->arena);
    if (!err)
        return 0;
    return sl_complain(
        call, err == SLUICE_ENOMEM ? SL_EXIT_STORE : SL_EXIT_NO, "%s",
        diag.sentence[0] ? diag.sentence : "there is no memory left");
}

static int explain(struct sl_call *call, struct question *q,
                   struct sluice_policy *policy, struct sluice_engine *engine,
                   struct sluice_decision *decision)
{
    struct sluice_request request;
    int status = bring_token(call, q, policy, engine), err;

    if (status)
        return status;
    sl_request_fill(&q->act, &request);
    err = sluice_explain(engine, &request, decision);
    if (err) /* no such limit: a slip */
        return sl_complain(call,
                           err == SLUICE_ENOENT ? SL_EXIT_USAGE : SL_EXIT_STORE,
                           "%s", sluice_why());
    return print(call, decision);
}

static int ask(struct sl_call *call, struct question *q,
               struct sluice_policy *policy)
{
    struct sluice_engine_options options = {
        .size = STATE_BYTES, .now = on_now, .now_ctx = q};
    struct sluice_decision *decision = sluice_decision_new();
    struct sluice_engine *engine = NULL;
    int status;

    if (!decision)
        status = sl_complain(call, SL_EXIT_STORE, "there is no memory left");
    else if (sluice_engine_open(policy, &options, &engine))
        status = sl_complain(call, SL_EXIT_STORE, "%s", sluice_why());
    else
        status = explain(call, q, policy, engine, decision);
    sluice_decision_free(decision);
    sluice_engine_close(engine);
    sl_flow_tokens_close(&q->tokens);
    return status;
}

static int run(struct sl_call *call)
{
    struct question q = {.now = sl_clock_wall()};
    struct sluice_policy *policy = NULL;
    int status;

    q.act.in = &q.in;
    sl_inputs_init(&q.in);
    q.in.single = true;
    sl_arena_init(&q.arena, ARENA_BYTES, &sl_alloc_libc);
    status = read_question(call, &q);
    if (!status)
        status = sl_need_policy(call, call->words[0], &policy);
    if (!status)
        status = ask(call, &q, policy);
    sluice_policy_release(policy);
    sl_arena_done(&q.arena);
    return status;
}

const struct sl_errand sl_errand_explain = {
    .name = "explain",
    .usage = "POLICY 'METHOD PATH' [NAME=VALUE...]",
    .summary = "Say what would happen to a request, and why",
    .help = "Names the route, who asks, the plan, and each limit with its "
            "numbers and its\nkey. The state is empty and nothing is spent. "
            "Exits 0 if the request would\npass, 1 if not.\n"
            "\n"
            "  user= org= plan= role= ip= header.NAME= cost= cost.LIMIT=\n"
            "  at=     the instant, as RFC 3339 (now, if it is not given)\n"
            "  token=  a file with a token, which is verified by the policy's "
            "keys\n"
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
