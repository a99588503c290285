/* stage.h -- decisions made by hand.
 *
 * A stage has one policy with one route and one plan. Limits are put on it by
 * their rate; each begins with everything left and allows.
 */
#ifndef SL_ENGINE_STAGE_H
#define SL_ENGINE_STAGE_H

#include <stdlib.h>

#include "check.h"
#include "engine/render.h"

#define STAGE_NOW (INT64_C(1730822396) * SL_S) /* 2024-11-05T15:59:56Z */

struct stage {
    struct sl_policy policy;
    struct sl_route route;
    struct sl_plan plan;
    struct sl_feature feature;
    struct sl_rule rules[SL_PARTS];
    struct sl_limit numbers[SL_PARTS];
    struct sl_decision d;
    struct sl_rendered out;
    struct sl_arena texts, arena;
    struct sl_buf buf;
};

static inline void stage_open(struct stage *s)
{
    memset(s, 0, sizeof(*s));
    sl_arena_init(&s->texts, 1 << 20, &sl_alloc_libc);
    sl_arena_init(&s->arena, 1 << 20, &sl_alloc_libc);
    sl_buf_init(&s->buf, 1 << 20, &sl_alloc_libc);
    s->plan.name = SL_STR("free");
    s->policy.plans.list = &s->plan;
    s->policy.plans.count = 1;
    s->route.feature = SL_NO_FEATURE;
    s->route.dialects = SL_DIALECT_X_RATELIMIT | SL_DIALECT_IETF;
    s->d.policy = &s->policy;
    s->d.route = &s->route;
    s->d.allowed = true;
    s->d.status = 200;
    s->d.by = s->d.report = s->d.quota = -1;
    s->d.retry_in = SL_NS_NONE;
    s->d.now = STAGE_NOW;
    memcpy(s->d.request_id, "req_abc123", sizeof("req_abc123"));
}

static inline void stage_close(struct stage *s)
{
    sl_arena_done(&s->texts);
    sl_arena_done(&s->arena);
    sl_buf_done(&s->buf);
}

/* One more limit; the first one is reported. */
static inline struct sl_limit_view *stage_limit(struct stage *s,
                                                struct sl_str name,
                                                enum sl_kind kind,
                                                const char *rate)
{
    unsigned i = s->d.shown_count++;
    struct sl_limit_view *shown = &s->d.shown[i];
    struct sl_diag diag = {.line = 0};
    struct sl_rate r;

    if (sl_parse_rate(sl_str_c(rate), &r, &diag) ||
        sl_limit_init(&s->numbers[i], kind, &r, NULL, &diag)) {
        printf("Bail out! %s: %s\n", rate, diag.sentence);
        exit(1);
    }
    s->rules[i] = (struct sl_rule){
        .name = name,
        .kind = kind,
        .dialects = -1,
        .deny = {.status = 429, .code = SL_STR("RATE_LIMITED")},
    };
    *shown = (struct sl_limit_view){
        .rule = &s->rules[i],
        .plan_name = s->plan.name,
        .form = r.form,
        .scope = SL_STR("user"),
        .id = (char *)"ann",
        .numbers = &s->numbers[i],
        .cost = 1,
        .allowed = true,
        .next_in = SL_NS_NONE,
        .answer = {SL_ALLOW, s->numbers[i].count, s->numbers[i].capacity,
                   s->numbers[i].capacity, SL_NS_NONE, 0, 0},
    };
    if (kind == SL_PERMITS || kind == SL_LEVEL)
        shown->answer.reset_in = SL_NS_NONE;
    if (s->d.report < 0)
        s->d.report = (int)i;
    return shown;
}

/* The limit refuses; the first that does is told of. */
static inline void stage_deny(struct stage *s, struct sl_limit_view *shown,
                              sl_ns retry_in)
{
    shown->allowed = false;
    shown->answer.outcome = SL_DENY;
    shown->answer.remaining = 0;
    shown->answer.retry_in = retry_in;
    if (s->d.by < 0) {
        s->d.by = s->d.report = (int)(shown - s->d.shown);
        s->d.allowed = false;
        s->d.status = shown->rule->deny.status;
        s->d.code = shown->rule->deny.code;
    }
    if (retry_in > s->d.retry_in)
        s->d.retry_in = retry_in;
    s->d.never = retry_in < 0;
}

/* Refused for a reason that is no limit. */
static inline void stage_refuse(struct stage *s, enum sl_reason reason,
                                int status, struct sl_str code)
{
    s->d.allowed = false;
    s->d.reason = reason;
    s->d.status = status;
    s->d.code = code;
    s->d.by = s->d.report = s->d.quota = -1;
}

#endif
