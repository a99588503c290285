/* flow.h -- a flow file as it was read.
 *
 * A flow file tests a policy: a row of flows, each a name, a policy and a row
 * of acts, and behind an act what is expected of it. Reading needs no policy
 * and no engine; running is in run.h.
 *
 *     flow "a free user bursts eight"
 *     policy unraveldocs.yaml
 *     at 0s
 *       GET /api/v1/ai/extract user=ann plan=FREE x8  -> allowed=8
 *
 * Everything that was read lives in the file's arena. Texts end in NUL and
 * have none inside.
 *
 * Limits: a file of SL_FLOW_BYTES, lines of SL_FLOW_LINE, SL_FLOW_WORDS words
 * on a line, SL_FLOW_TIMES repeats. Whatever is beyond is refused.
 */
#ifndef SL_FLOW_H
#define SL_FLOW_H

#include "base/arena.h"
#include "base/diag.h"
#include "sluice_policy.h"

#define SL_FLOW_BYTES (1024 * 1024)
#define SL_FLOW_LINE  4096
#define SL_FLOW_WORDS 256
#define SL_FLOW_TIMES 10000000

enum sl_flow_act_kind {
    SL_FLOW_ACT_AT,
    SL_FLOW_ACT_REQUEST, /* METHOD PATH */
    SL_FLOW_ACT_JOB,     /* NAME */
    SL_FLOW_ACT_TAKE,    /* LIMIT KEY */
    SL_FLOW_ACT_SUBJECT, /* SCOPE ID */
    SL_FLOW_ACT_FEATURE, /* NAME on|off */
    SL_FLOW_ACT_BACKLOG, /* NAME DEPTH */
    SL_FLOW_ACT_STORE,   /* fails|slow|heals */
    SL_FLOW_ACT_RELOAD,  /* PATH */
    SL_FLOW_ACT_USAGE,   /* SCOPE ID LIMIT AMOUNT */
    SL_FLOW_ACT_SETTLE,  /* NAME */
    SL_FLOW_ACT_RELEASE, /* NAME */
    SL_FLOW_ACT_EXTEND,  /* NAME */
};

#define SL_FLOW_ACT_NAMES 4 /* the most words that an act names things by */

/* An instant, or a span from now. */
struct sl_moment {
    bool relative;
    sl_ns at;
};

/* What a request brings along. NULL was not written. */
struct sl_inputs {
    const char *user, *org, *plan, *role, *ip;
    const char *token, *as;
    sl_ns hold; /* > 0, or 0: not written */
    const char *body, *idempotency_key;
    struct sluice_header *headers;
    size_t header_count;
    bool has_cost;
    uint64_t cost;
    struct sluice_cost *costs;
    size_t cost_count;
    uint64_t times; /* >= 1 */
    sl_ns every;    /* between two repeats */
    bool single;    /* `sluice explain`: sentences do not name these two */
};

/* What the registry is told. */
struct sl_flow_subject_args {
    const char *plan; /* or NULL */
    bool has_until;
    struct sl_moment until;
    struct sluice_override *overrides;
    size_t override_count;
};

enum sl_field {
    SL_FIELD_OUTCOME, /* allow, deny, never, ok; of holds their states */
    SL_FIELD_STATUS,
    SL_FIELD_BY,
    SL_FIELD_LIMIT,
    SL_FIELD_REMAINING,
    SL_FIELD_RETRY,
    SL_FIELD_RESET,
    SL_FIELD_WAIT,
    SL_FIELD_QUOTA,
    SL_FIELD_ALLOWED,
    SL_FIELD_DENIED,
    SL_FIELD_HEADER,
    SL_FIELD_BODY,
};

struct sl_expect {
    enum sl_field field;
    const char *label; /* as written: "retry", "header.X-A"; "" for a word */
    const char *name;  /* HEADER, BODY: behind the dot */
    const char *want;  /* as written */
    bool none;         /* a number or a span: there is none */
    uint64_t number;
    sl_ns span;
};

struct sl_flow_act {
    enum sl_flow_act_kind kind;
    unsigned line;
    const char *names[SL_FLOW_ACT_NAMES];
    struct sl_moment when; /* AT */
    struct sl_inputs *in;  /* REQUEST, JOB, TAKE and holds, else NULL */
    struct sl_flow_subject_args *record; /* SUBJECT, else NULL */
    struct sl_expect *expects;
    size_t expect_count;
    struct sl_flow_act *next;
};

struct sl_flow {
    const char *name;
    unsigned line;
    const char *policy; /* its path, as seen from the working folder */
    struct sl_flow_act *acts, *last;
    size_t act_count; /* those that move the clock not counted */
    struct sl_flow *next;
};

struct sl_flow_file {
    const char *name;
    struct sl_flow *flows, *last;
    size_t count;
    struct sl_arena arena;
};

/* Read `text`. On success *ret is yours until sl_flow_file_done(). On failure
 * it is untouched, `diag` has file, line and column (`name` is borrowed for
 * that), and *ret_line is the line in question. SLUICE_ECONF: not a flow file.
 * SLUICE_ENOMEM: without memory. */
SL_MUST_USE int sl_flow_read(const char *name, struct sl_str text,
                             const struct sl_alloc *alloc,
                             struct sl_flow_file *ret, struct sl_diag *diag,
                             struct sl_str *ret_line);

void sl_flow_file_done(struct sl_flow_file *file);

/* A path that is relative to `file`, as seen from the working folder. NULL
 * without memory. */
SL_MUST_USE const char *sl_flow_path(const char *file, const char *path,
                                     struct sl_arena *arena);

#endif
