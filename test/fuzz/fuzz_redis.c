/* fuzz_redis.c -- what clients of Redis may send.
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
#include "engine.h"

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

/* ---- one conversation ---- */

struct talk {
    struct sl_server door;
    struct sl_resp_worker worker;
    struct sl_resp_conn session;
    struct sl_buf in, out;
};

static void converse(struct talk *t, struct sl_str text, bool locked,
                     size_t step)
{
    enum sl_resp_served served = SL_RESP_EMPTY;

    memset(t, 0, sizeof(*t));
    t->door.protocol = &sl_protocol_resp;
    t->door.token = locked ? SL_STR("s3cret") : SL_STR("");
    sl_server_worker_init(&t->worker.base, &t->door, engine, NULL, &fuzz_alloc);
    sl_buf_init(&t->in, 1 << 20, &fuzz_alloc);
    sl_buf_init(&t->out, 64 << 20, &fuzz_alloc);
    sl_resp_conn_init(&t->session, &t->worker, &t->out);
    t->session.id = 1;
    while (text.len > 0 && served != SL_RESP_ENDED) {
        size_t len = text.len < step ? text.len : step;

        MUST(sl_buf_add(&t->in, (struct sl_str){text.at, len}) == 0);
        text = sl_str_from(text, len);
        do
            served = sl_resp_serve(&t->session, &t->in, 16);
        while (served == SL_RESP_FULL && t->out.len < 1 << 20);
        MUST(served != SL_RESP_SUSPENDED && !t->session.call); /* (4) */
        MUST(!t->session.broken);
    }
}

static void finish(struct talk *t)
{
    sl_server_worker_close(&t->worker.base);
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

void fuzz_redis(struct sl_str text, unsigned choice)
{
    struct talk whole, cut;
    bool locked;

    if (text.len == 0)
        return;
    locked = (choice & 1) && !has(text, "s3cret");
    engine = fuzz_engine(policy_text);
    converse(&whole, text, locked, text.len);
    must_be_replies(sl_buf_str(&whole.out), text, locked);
    sl_engine_close(engine);
    engine = fuzz_engine(policy_text); /* the same beginning */
    converse(&cut, text, locked, 1 + (choice >> 1 & 31));
    /* (2), but for ids that are made up, and counters. */
    if (!has(sl_buf_str(&whole.out), "req_") &&
        !has(sl_buf_str(&whole.out), "total_commands"))
        MUST(sl_str_eq(sl_buf_str(&whole.out), sl_buf_str(&cut.out)));
    finish(&whole);
    finish(&cut);
    sl_engine_close(engine);
}
