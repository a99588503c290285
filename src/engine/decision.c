/* decision.c -- from the answers of all limits to one verdict.
 *
 * Rules. (test/flow/m01-conclude.flow checks each by number.)
 *   (1) Allowed if every limit that counts allows.
 *   (2) `by` is the first limit that denies, in the route's order.
 *   (3) The retry is the largest of the limits that deny. It is never if one of
 *       them answers NEVER or does not refill with time.
 *   (4) The numbers shown are those of `by`; when allowed those of the route's
 *       `report`, else of the limit with the least share left.
 *   (5) When the store fails, the strictest setting of the limits wins: deny,
 *       then local, then allow. A guard denies.
 *   (6) A guard goes before all limits: if it is held, the decision names the
 *       guard.
 */
#include "engine/decision.h"

#include "engine/engine_int.h"
#include "engine/render.h"

static const struct {
    int status;
    const char *code;
} refusals[] = {
    [SL_REASON_FEATURE] = {503, "SERVICE_UNAVAILABLE"   },
    [SL_REASON_ANONYMOUS] = {401, "UNAUTHORIZED"          },
    [SL_REASON_MISSING] = {401, "UNAUTHORIZED"          },
    [SL_REASON_ROLE] = {403, "FORBIDDEN"             },
    [SL_REASON_CAPABILITY] = {403, "FORBIDDEN"             },
    [SL_REASON_UNKNOWN_PLAN] = {403, "FORBIDDEN"             },
    [SL_REASON_UNKNOWN_SUBJECT] = {403, "FORBIDDEN"             },
    [SL_REASON_STORE] = {503, "SERVICE_UNAVAILABLE"   },
    [SL_REASON_WEBHOOK] = {401, "UNAUTHORIZED"          },
    [SL_REASON_WEBHOOKS_FULL] = {503, "SERVICE_UNAVAILABLE"   },
    [SL_REASON_REQUIRE] = {400, "BAD_REQUEST"           },
    [SL_REASON_COST] = {400, "BAD_REQUEST"           },
    [SL_REASON_BACKLOG] = {503, "SERVICE_UNAVAILABLE"   },
    [SL_REASON_RUNNING] = {409, "CONFLICT"              },
    [SL_REASON_REUSED] = {422, "IDEMPOTENCY_KEY_REUSED"},
    [SL_REASON_PATH] = {400, "BAD_REQUEST"           },
    [SL_REASON_LONG_PATH] = {414, "URI_TOO_LONG"          },
    [SL_REASON_HOLDS] = {503, "SERVICE_UNAVAILABLE"   },
    [SL_REASON_QUEUE] = {503, "SERVICE_UNAVAILABLE"   },
    [SL_REASON_CONFLICT] = {409, "CONFLICT"              },
    [SL_REASON_BLOCKED] = {403, "BLOCKED"               },
    [SL_REASON_PENALTY] = {429, "BLOCKED"               },
};

/* The first reason stays. A policy in shadow mode refuses only switched-off
 * features. */
void sl_decision_refuse(struct sl_decision *d, enum sl_reason reason)
{
    if (d->reason != SL_REASON_NONE ||
        (d->policy->mode == SL_MODE_SHADOW && reason != SL_REASON_FEATURE))
        return;
    d->reason = reason;
    d->allowed = false;
    d->status = refusals[reason].status;
    d->code = sl_str_c(refusals[reason].code);
    d->by = -1;
    d->report = -1;
    d->quota = -1;
    d->retry_in = SL_NS_NONE;
}

/* Is less of `a` left than of `b`, as a share of what it holds? */
static bool tighter(const struct sl_answer *a, const struct sl_answer *b)
{
    return (unsigned __int128)a->remaining * b->capacity <
           (unsigned __int128)b->remaining * a->capacity;
}

/* Is it a quota of the organisation, which X-Org-Quota-Remaining shows? */
static bool is_org_quota(const struct sl_rule *rule)
{
    return rule->kind == SL_QUOTA && rule->per_count == 1 &&
           rule->per[0] == SL_SCOPE_ORG;
}

/* The tightest limit that counts, or only of the quotas of the organisation; -1
 * if there is none. The first of equals. */
static int tightest(const struct sl_decision *d, bool quotas)
{
    int best = -1;

    for (unsigned i = 0; i < d->shown_count; i++) {
        const struct sl_limit_view *shown = &d->shown[i];

        if (!sl_limit_view_counts(d, shown) || shown->pays_for ||
            (quotas && !is_org_quota(shown->rule)))
            continue;
        if (best < 0 || tighter(&shown->answer, &d->shown[best].answer))
            best = (int)i;
    }
    return best;
}

/* Where the route's rule number `wanted` is shown with numbers; -1 if not. */
static int find_shown(const struct sl_decision *d, int wanted)
{
    if (wanted < 0)
        return -1;
    for (unsigned i = 0; i < d->shown_count; i++)
        if (d->shown[i].rule == d->route->rules[wanted] &&
            sl_limit_view_counts(d, &d->shown[i]))
            return (int)i;
    return -1;
}

/* Of several requests, the decision shows the route of the denied one. */
static void choose_shown(struct sl_decision *d)
{
    for (unsigned i = 0; i < d->side_count && d->side_count > 1; i++)
        if (d->sides[i].shown >> d->by & 1) {
            d->route = d->sides[i].route;
            return;
        }
}

static void choose_numbers(struct sl_decision *d)
{
    d->report = d->by;
    if (d->report < 0)
        d->report = find_shown(d, d->route->report);
    if (d->report < 0)
        d->report = tightest(d, false);
    d->quota = find_shown(d, d->route->quota);
    if (d->quota < 0)
        d->quota = tightest(d, true);
}

static void count_refusal(struct sl_decision *d,
                          const struct sl_limit_view *shown, unsigned index)
{
    if (d->by < 0) {
        d->by = (int)index;
        d->status = shown->rule->deny.status;
        d->code = shown->rule->deny.code;
    }
    if (shown->answer.outcome == SL_NEVER || shown->answer.retry_in < 0)
        d->never = true;
    else if (shown->answer.retry_in > d->retry_in)
        d->retry_in = shown->answer.retry_in;
}

void sl_decision_conclude(struct sl_decision *d)
{
    d->by = -1;
    d->never = false;
    d->retry_in = SL_NS_NONE;
    d->status = 200;
    d->code = (struct sl_str){"", 0};
    for (unsigned i = 0; i < d->shown_count; i++)
        if (sl_limit_view_counts(d, &d->shown[i]) && !d->shown[i].allowed)
            count_refusal(d, &d->shown[i], i);
    d->allowed = d->by < 0;
    if (d->never)
        d->retry_in = SL_NS_NONE;
    if (d->by >= 0)
        choose_shown(d);
    choose_numbers(d);
    if (d->no_numbers || d->replayed)
        return;
    sl_penalty_conclude(d);
    sl_guard_conclude(d);
}

/* ---- what of a decision is shown ---- */

bool sl_limit_view_limited(const struct sl_limit_view *shown)
{
    return sl_rate_has_numbers(shown->form) && !shown->skipped &&
           shown->numbers && shown->mode != SL_MODE_OFF;
}

bool sl_limit_view_answered(const struct sl_limit_view *shown)
{
    return sl_limit_view_limited(shown) && shown->answer.capacity > 0;
}

/* With overage the answer has the quota of the plan, and `numbers` may be
 * without a ceiling. */
uint64_t sl_limit_view_exact_count(const struct sl_limit_view *shown)
{
    return sl_limit_view_answered(shown) ? shown->answer.limit
                                         : shown->numbers->count;
}

uint64_t sl_limit_view_exact_capacity(const struct sl_limit_view *shown)
{
    return sl_limit_view_answered(shown) ? shown->answer.capacity
                                         : shown->numbers->capacity;
}

uint64_t sl_limit_view_count(const struct sl_limit_view *shown)
{
    return sl_rule_down(shown->rule, sl_limit_view_exact_count(shown));
}

uint64_t sl_limit_view_capacity(const struct sl_limit_view *shown)
{
    return sl_rule_down(shown->rule, sl_limit_view_exact_capacity(shown));
}

sl_ns sl_limit_view_reset_in(const struct sl_decision *decision,
                             const struct sl_limit_view *shown)
{
    if (!sl_limit_view_answered(shown) || shown->answer.reset_in < 0)
        return SL_NS_NONE;
    if (decision->route->reset == SL_RESET_NEXT && shown->next_in >= 0)
        return shown->next_in;
    return shown->answer.reset_in;
}

bool sl_decision_view_denies(const struct sl_decision *decision,
                             const struct sl_limit_view *shown)
{
    if (decision->reason == SL_REASON_PENALTY)
        return sl_penalty_blocks(decision, shown);
    return !decision->allowed &&
           (decision->reason == SL_REASON_NONE ||
            decision->reason == SL_REASON_CAPABILITY) &&
           shown->mode == SL_MODE_ENFORCE && !shown->allowed;
}

const struct sl_limit_view *
sl_decision_about(const struct sl_decision *decision)
{
    if (decision->by >= 0)
        return &decision->shown[decision->by];
    if (decision->reason != SL_REASON_CAPABILITY)
        return NULL;
    for (unsigned i = 0; i < decision->shown_count; i++)
        if (decision->shown[i].form == SL_RATE_NONE &&
            decision->shown[i].mode == SL_MODE_ENFORCE)
            return &decision->shown[i];
    return NULL;
}

/* A request that was refused before its plan was found has the default plan. */
struct sl_str sl_decision_plan(const struct sl_decision *decision)
{
    const struct sl_plans *plans = &decision->policy->plans;
    unsigned plan = decision->plan;

    return plans->list[plan < plans->count ? plan : plans->fallback].name;
}

const struct sl_feature *sl_decision_feature(const struct sl_decision *decision)
{
    if (decision->reason != SL_REASON_FEATURE ||
        decision->route->feature >= decision->policy->feature_count)
        return NULL;
    return &decision->policy->features[decision->route->feature];
}

sl_ns sl_decision_retry_in(const struct sl_decision *decision)
{
    const struct sl_feature *feature = sl_decision_feature(decision);

    if (decision->allowed || decision->never)
        return SL_NS_NONE;
    if (decision->retry_in < 0 && feature)
        return feature->retry_after;
    return decision->retry_in;
}

uint64_t sl_retry_seconds(sl_ns retry_in)
{
    uint64_t seconds = sl_span_in(retry_in, SL_S);

    return seconds > 0 ? seconds : 1;
}

/* ---- forms ---- */

static const int form_status[SL_ERRORS] = {
    [SL_ERROR_RATE_LIMITED] = 429, [SL_ERROR_PLAN_LIMIT] = 402,
    [SL_ERROR_FORBIDDEN] = 403,    [SL_ERROR_UNAUTHORIZED] = 401,
    [SL_ERROR_CONFLICT] = 409,     [SL_ERROR_UNAVAILABLE] = 503,
    [SL_ERROR_BAD_REQUEST] = 400,
};

/* Other statuses are those of a limit's `deny`, or of a wrong request. */
static enum sl_error error_of(const struct sl_decision *d)
{
    for (enum sl_error e = 0; e < SL_ERRORS; e++)
        if (form_status[e] == d->status)
            return e;
    return d->reason == SL_REASON_NONE ? SL_ERROR_RATE_LIMITED
                                       : SL_ERROR_BAD_REQUEST;
}

const struct sl_error_form *sl_decision_form(const struct sl_decision *d)
{
    return &d->policy->errors[error_of(d)];
}

int sl_decision_status(const struct sl_decision *decision)
{
    int own;

    if (decision->allowed)
        return decision->status;
    own = sl_decision_form(decision)->status;
    if (own == 0 || form_status[error_of(decision)] != decision->status)
        return decision->status;
    return own;
}
