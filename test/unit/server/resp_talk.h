/* resp_talk.h -- a session of the door for Redis clients, without a socket. */
#ifndef SL_RESP_TALK_H
#define SL_RESP_TALK_H

#include "asking.h"
#include "server/resp/resp_int.h"

static const char talk_policy[] =
    "sluice: 1\n"
    "env: t\n"
    "plans: { default: free, free: {}, pro: {} }\n"
    "identity: { user: [header.x-user] }\n"
    "limits:\n"
    "  minute:\n"
    "    { kind: token-bucket, per: user, rate: { free: 5/min, pro: 9/min } }\n"
    "  day:\n"
    "    kind: quota\n"
    "    per: user\n"
    "    rate: 20/day\n"
    "    deny: { status: 402, code: NO_MORE, message: \"That was {limit}.\" }\n"
    "routes:\n"
    "  - { match: /free, limits: [] }\n"
    "  - { job: mail, limits: [day] }\n"
    "default: [minute, day]\n";

struct talk {
    struct rig rig;
    struct sl_server door;
    struct sl_resp_worker worker;
    struct sl_resp_conn session;
    struct sl_buf in, out;
    enum sl_resp_served served;
};

static inline void talk_again(struct talk *t)
{
    sl_resp_conn_init(&t->session, &t->worker, &t->out);
}

/* Over `store`, or over one in memory if it is NULL. */
static inline void talk_begin_on(struct talk *t, const char *policy,
                                 struct sl_store *store, const char *token,
                                 const struct sl_alloc *alloc)
{
    memset(t, 0, sizeof(*t));
    rig_open_on(&t->rig, policy, store);
    t->door.protocol = &sl_protocol_resp;
    t->door.name = "resp";
    t->door.token = sl_str_c(token);
    sl_server_worker_init(&t->worker.base, &t->door, t->rig.engine, NULL,
                          alloc);
    sl_buf_init(&t->in, 1 << 20, &sl_alloc_libc);
    sl_buf_init(&t->out, 8 << 20, &sl_alloc_libc);
    talk_again(t);
}

static inline void talk_begin(struct talk *t, const char *policy,
                              const char *token, const struct sl_alloc *alloc)
{
    talk_begin_on(t, policy, NULL, token, alloc);
}

static inline void talk_open(struct talk *t, const char *token,
                             const struct sl_alloc *alloc)
{
    talk_begin(t, talk_policy, token, alloc);
}

static inline void talk_close(struct talk *t)
{
    if (t->session.call)
        sl_resp_call_done(t->session.call);
    sl_server_worker_close(&t->worker.base);
    sl_buf_done(&t->in);
    sl_buf_done(&t->out);
    rig_close(&t->rig);
}

static inline void talk_at(struct talk *t, sl_ns now)
{
    t->rig.now = t->worker.base.still = now;
}

/* Say bytes, and hear the replies: a text until the next call. */
static inline const char *talk_bytes(struct talk *t, struct sl_str bytes)
{
    sl_buf_clear(&t->out);
    if (sl_buf_add(&t->in, bytes))
        abort();
    t->served = sl_resp_serve(&t->session, &t->in, 10000);
    if (sl_buf_reserve(&t->out, 1))
        abort();
    t->out.bytes[t->out.len] = '\0';
    return t->out.bytes;
}

static inline const char *talk(struct talk *t, const char *text)
{
    return talk_bytes(t, sl_str_c(text));
}

#endif
