/* penalty.c -- penalties of limits: a caller that was refused too often is
 * blocked for a time (core/penalty.c).
 *
 * A limit with a penalty has a second part in each take, which takes nothing
 * and denies during a block. Its view follows those of the guards; the verdict
 * does not show it. After a refusal by the limit, one failure is charged to it:
 * by a remote store in the same step, else after the take.
 *
 * Invariants. (test/flow/n01-penalties.flow checks each by number.)
 *   (1) A request during a block takes nothing, and is no failure.
 *   (2) A refusal is one failure of each limit that refuses, and of no other.
 *       A repeat of it, an explanation and a shadow are none.
 *   (3) The refusal that begins a block has the end of the block as its retry.
 *   (4) A reset of the key ends its block and forgets its failures.
 */
#include <string.h>

#include "engine/decision.h"
#include "engine/engine_int.h"

static bool has_penalty(const struct sl_limit_view *shown)
{
    return shown->rule->penalty_rule && !shown->skipped &&
           shown->mode == SL_MODE_ENFORCE && sl_rate_has_numbers(shown->form);
}

unsigned sl_penalty_first(const struct sl_decision *d)
{
    return d->shown_count + d->running_count;
}

unsigned sl_penalty_most(const struct sl_decision *d)
{
    unsigned count = 0;

    for (unsigned i = 0; i < d->shown_count; i++)
        count += has_penalty(&d->shown[i]);
    return count;
}

void sl_penalty_show(struct sl_decision *d)
{
    struct sl_limit_view *view = &d->shown[sl_penalty_first(d)];

    d->penalty_count = 0;
    for (unsigned i = 0; i < d->shown_count; i++) {
        const struct sl_limit_view *of = &d->shown[i];

        if (!has_penalty(of))
            continue;
        memset(view, 0, offsetof(struct sl_limit_view, values));
        view->rule = of->rule->penalty_rule;
        view->form = SL_RATE_PLAIN;
        view->numbers = &view->rule->strictest;
        view->key = of->key;
        view->name = of->penalty_name;
        view->penalty_of = i;
        view->cost = d->failed ? of->cost : 0;
        view->allowed = true;
        view->answer.retry_in = view->next_in = SL_NS_NONE;
        view++;
        d->penalty_count++;
    }
}

/* The end of the last block, or SL_NS_NONE; *ret: whose it is. */
static sl_ns find_end(const struct sl_decision *d, unsigned *ret)
{
    const struct sl_limit_view *views = &d->shown[sl_penalty_first(d)];
    sl_ns end = SL_NS_NONE;

    for (unsigned i = 0; i < d->penalty_count; i++)
        if (views[i].answer.retry_in > end) {
            end = views[i].answer.retry_in;
            *ret = views[i].penalty_of;
        }
    return end;
}

/* (3) */
void sl_penalty_counted(struct sl_decision *d)
{
    unsigned of;
    sl_ns end = find_end(d, &of);

    if (end > d->retry_in && !d->never)
        d->retry_in = end;
}

static bool is_blocked(const struct sl_decision *d)
{
    const struct sl_limit_view *views = &d->shown[sl_penalty_first(d)];
    bool blocked = false;

    for (unsigned i = 0; i < d->penalty_count; i++)
        blocked |= !views[i].allowed;
    return blocked;
}

sl_ns sl_penalty_blocked_for(const struct sl_decision *d,
                             const struct sl_limit_view *of)
{
    const struct sl_limit_view *views = &d->shown[sl_penalty_first(d)];

    for (unsigned i = 0; i < d->penalty_count; i++)
        if (&d->shown[views[i].penalty_of] == of &&
            views[i].answer.retry_in > 0)
            return views[i].answer.retry_in;
    return SL_NS_NONE;
}

bool sl_penalty_blocks(const struct sl_decision *d,
                       const struct sl_limit_view *of)
{
    return sl_penalty_blocked_for(d, of) != SL_NS_NONE;
}

void sl_penalty_conclude(struct sl_decision *d)
{
    unsigned of = 0;
    sl_ns end = find_end(d, &of);

    if (end < 0)
        return;
    if (!d->failed && !is_blocked(d)) { /* the store has counted the refusal */
        sl_penalty_counted(d);
        return;
    }
    sl_decision_refuse(d, SL_REASON_PENALTY);
    if (d->reason != SL_REASON_PENALTY)
        return;
    d->never = false;
    d->by = (int)of;
    d->retry_in = end;
}

bool sl_penalty_begins(const struct sl_decision *d, unsigned shown)
{
    const struct sl_limit_view *views = &d->shown[sl_penalty_first(d)];

    for (unsigned i = 0; i < d->penalty_count; i++)
        if (views[i].penalty_of == shown)
            return views[i].answer.wait > 0;
    return false;
}

bool sl_penalty_is_due(const struct sl_decision *d, unsigned index)
{
    return !d->shown[d->shown[index].penalty_of].allowed; /* (2) */
}
