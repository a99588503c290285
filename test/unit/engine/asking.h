/* asking.h -- an engine over a policy that stands in the test. */
#ifndef SL_ENGINE_ASKING_H
#define SL_ENGINE_ASKING_H

#include <stdlib.h>

#include "check.h"
#include "engine/check.h"

struct rig {
    struct sl_engine *engine;
    struct sl_active_policy *active; /* of the check */
    union {
        struct sl_check check;
        struct sl_decision d; /* the first member of the check */
    };
    struct sl_diag diag;
    int fault; /* the store fails while this is not 0 */
    sl_ns now;
};

static inline int rig_fault(void *ctx)
{
    return ((struct rig *)ctx)->fault;
}

static inline sl_ns rig_now(void *ctx)
{
    return ((struct rig *)ctx)->now;
}

static inline struct sl_policy *rig_policy(const char *text)
{
    struct sl_policy_options options = {0};
    struct sl_policy *policy = NULL;
    struct sl_report report;
    struct sl_buf printed;

    sl_report_init(&report, "test.yaml", sl_str_c(text), &sl_alloc_libc);
    if (sl_policy_read(&report, &options, &policy)) {
        sl_buf_init(&printed, 1 << 20, &sl_alloc_libc);
        if (!sl_report_print(&report, &printed))
            printf("# %.*s\n", SL_STR_ARG(sl_buf_str(&printed)));
        printf("Bail out! the policy was refused\n");
        exit(1);
    }
    sl_report_done(&report);
    return policy;
}

/* A check without tokens, subjects and a loop. */
static inline void rig_check(struct sl_check *check, struct sl_engine *engine,
                             const struct sl_alloc *alloc)
{
    static const struct sl_engine_ctx at_once;

    sl_check_init(check, engine, &at_once, alloc);
}

/* Over `store`, or over one in memory. */
static inline void rig_open_on(struct rig *rig, const char *text,
                               struct sl_store *store)
{
    struct sl_memory_options memory = {
        .size = 1 << 20, .now = rig_now, .now_ctx = rig};
    struct sl_engine_options options = {.store = store,
                                        .fault = rig_fault,
                                        .fault_ctx = rig,
                                        .now = rig_now,
                                        .now_ctx = rig};
    struct sl_policy *policy = rig_policy(text);

    memset(rig, 0, sizeof(*rig));
    if ((!store && sl_memory_open(&memory, &options.store, &rig->diag)) ||
        sl_engine_open(&options, policy, &rig->engine, &rig->diag)) {
        printf("Bail out! %s\n", rig->diag.sentence);
        exit(1);
    }
    sl_policy_unref(policy);
    rig_check(&rig->check, rig->engine, &sl_alloc_libc);
}

static inline void rig_open(struct rig *rig, const char *text)
{
    rig_open_on(rig, text, NULL);
}

static inline void rig_close(struct rig *rig)
{
    sl_check_done(&rig->check);
    sl_engine_close(rig->engine);
}

/* Decide by the active policy; the answer is in rig->d. */
static inline int rig_decide(struct rig *rig, const struct sl_request *requests,
                             unsigned count, const struct sl_auth_info *auth,
                             bool spend)
{
    rig->active = sl_check_ref_policy(&rig->check);
    rig->check.auth = auth;
    sl_check_start(&rig->check, requests, count, spend);
    CHECK(!rig->check.busy);
    rig->diag = rig->check.diag;
    return rig->check.err;
}

/* The same for one request at rig->now. */
static inline const struct sl_decision *rig_ask(struct rig *rig,
                                                struct sl_request request)
{
    request.now = rig->now;
    CHECK_EQ(rig_decide(rig, &request, 1, NULL, true), 0);
    return &rig->d;
}

/* The shortest questions: GET `path` by `user`. */
#define GET(path_, ...)                                                        \
    ((struct sl_request){.method = SL_STR("GET"),                              \
                         .path = SL_STR(path_),                                \
                         .ip = SL_STR("192.0.2.1"),                            \
                         __VA_ARGS__})
#define FROM(path_, ip_)                                                       \
    ((struct sl_request){                                                      \
        .method = SL_STR("GET"), .path = SL_STR(path_), .ip = SL_STR(ip_)})
#define USER(name) .user = SL_STR(name)
#define ORG(name)  .org = SL_STR(name)
#define PLAN(name) .plan = SL_STR(name)
#define COST(n)    .has_cost = true, .cost = (n)

/* Name of the limit that refused, or "". */
static inline const char *by_of(const struct sl_decision *d)
{
    return d->by < 0 ? "" : d->shown[d->by].rule->name.at;
}

#endif
