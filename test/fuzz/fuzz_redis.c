/* fuzz_redis.c -- what clients of Redis may send to their door.
 *
 * The first byte chooses whether a password is needed, and how the rest is cut
 * into pieces.
 *
 *   (1) Every reply is one that our own reader takes, and there are no more of
 *       them than lines came.
 *   (2) What is said does not depend on the cuts.
 *   (3) Without the password there is nothing but errors, OK for QUIT and
 *       RESET for RESET.
 *   (4) What was read is dropped; what waits is the beginning of a command.
 *   (5) All memory is given back, in the size in which it was taken.
 */
#include "held.h"

#include "server/resp/resp_int.h"

static const char policy_text[] =
    "sluice: 1\n"
    "plans: { default: free, free: {}, pro: {} }\n"
    "identity: { user: [header.x-user-id] }\n"
    "limits:\n"
    "  minute: { kind: token-bucket, per: user, rate: { free: 2/min, pro: "
    "none } }\n"
    "  month: { kind: quota, per: [org, user], rate: 3/month }\n"
    "routes: [{ match: /a/**, limits: [minute, month] }, { job: j, limits: "
    "[month] }]\n"
    "default: [minute]\n";

static struct sl_engine *engine;

static struct sl_engine *open_engine(void)
{
    struct sl_policy_options options = {0};
    struct sl_memory_options memory = {.size = 1 << 20};
    struct sl_engine_options engine_options = {0};
    struct sl_policy *policy = NULL;
    struct sl_engine *ret = NULL;
    struct sl_report report;

    sl_report_init(&report, "p.yaml", sl_str_c(policy_text), &sl_alloc_libc);
    MUST(sl_policy_read(&report, &options, &policy) == 0);
    MUST(sl_memory_open(&memory, &engine_options.store, NULL) == 0);
    MUST(sl_engine_open(&engine_options, policy, &ret, NULL) == 0);
    sl_report_done(&report);
    sl_policy_unref(policy);
    return ret;
}

/* ---- one conversation ---- */

struct talk {
    struct sl_resp_door door;
    struct sl_resp_worker worker;
    struct sl_resp_session session;
    struct sl_buf in, out;
};

static void converse(struct talk *t, struct sl_str text, bool locked,
                     size_t step)
{
    enum sl_resp_served served = SL_RESP_EMPTY;

    memset(t, 0, sizeof(*t));
    t->door.token = locked ? SL_STR("s3cret") : SL_STR("");
    sl_resp_worker_init(&t->worker, &t->door, engine, NULL, &alloc);
    sl_buf_init(&t->in, 1 << 20, &alloc);
    sl_buf_init(&t->out, 64 << 20, &alloc);
    sl_resp_session_init(&t->session, &t->worker, &t->out);
    t->session.id = 1;
    while (text.len > 0 && served != SL_RESP_ENDED) {
        size_t len = text.len < step ? text.len : step;

        MUST(sl_buf_add(&t->in, (struct sl_str){text.at, len}) == 0);
        text = sl_str_from(text, len);
        do
            served = sl_resp_serve(&t->session, &t->in, 16);
        while (served == SL_RESP_FULL && t->out.len < 1 << 20);
        MUST(served != SL_RESP_LATE && !t->session.call); /* (4) */
        MUST(!t->session.broken);
    }
}

static void finish(struct talk *t)
{
    sl_resp_worker_done(&t->worker);
    sl_buf_done(&t->in);
    sl_buf_done(&t->out);
}

/* ---- what must hold ---- */

static void must_be_replies(struct sl_str out, struct sl_str text, bool locked)
{
    size_t lines = 1, replies = 0;

    for (size_t i = 0; i < text.len; i++)
        lines += text.at[i] == '\n';
    while (out.len > 0) {
        struct sl_resp_reply reply;
        struct sl_str one;

        sl_resp_reply_begin(&reply, out.len);
        MUST(sl_resp_reply_read(&reply, out) == SL_RESP_DONE); /* (1) */
        one = (struct sl_str){out.at, reply.used};
        MUST(!locked || one.at[0] == '-' || sl_str_eq(one, SL_STR("+OK\r\n")) ||
             sl_str_eq(one, SL_STR("+RESET\r\n"))); /* (3) */
        out = sl_str_from(out, reply.used);
        replies++;
    }
    MUST(replies <= lines); /* (1) */
}

static bool has(struct sl_str text, const char *what)
{
    return text.len > 0 &&
           memmem(text.at, text.len, what, strlen(what)) != NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct talk whole, cut;
    struct sl_str text;
    bool locked;

    if (size < 2)
        return 0;
    text = (struct sl_str){(const char *)data + 1, size - 1};
    locked = (data[0] & 1) && !has(text, "s3cret");
    engine = open_engine();
    converse(&whole, text, locked, text.len);
    must_be_replies(sl_buf_str(&whole.out), text, locked);
    sl_engine_close(engine);
    engine = open_engine(); /* the same beginning */
    converse(&cut, text, locked, 1 + (data[0] >> 1 & 31));
    /* (2), but for ids that are made up, and counters. */
    if (!has(sl_buf_str(&whole.out), "req_") &&
        !has(sl_buf_str(&whole.out), "total_commands"))
        MUST(sl_str_eq(sl_buf_str(&whole.out), sl_buf_str(&cut.out)));
    finish(&whole);
    finish(&cut);
    sl_engine_close(engine);
    MUST(held == 0); /* (5) */
    return 0;
}
