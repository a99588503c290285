/* model.c -- what core/ says. */
#include "model.h"

unsigned first_of(const struct asked *a, unsigned i)
{
    for (unsigned k = 0; k < i; k++)
        if (a->limit[k] == a->limit[i] && a->key[k] == a->key[i])
            return k;
    return i;
}

/* Takes nothing. Denied as a take of `cost` would be. */
static struct sl_take_result look(const struct sl_limit *limit,
                                  struct sl_cell cell, uint64_t cost, sl_ns now)
{
    struct sl_answer would = sl_take(limit, cell, cost, now).answer;
    struct sl_take_result t = sl_take(limit, cell, 0, now);

    t.answer.outcome = would.outcome;
    t.answer.retry_in = would.retry_in;
    return t;
}

/* Does the part, or one of the same key, need a unit and take none? */
static bool needs_one(const struct asked *a, unsigned i, uint64_t cost)
{
    enum sl_take_op op = a->take.op;
    bool on_report = a->parts[i].on_report;

    for (unsigned k = 0; op != SL_TAKE_OP_EACH && k < a->take.count; k++)
        on_report |= first_of(a, k) == i && a->parts[k].on_report;
    return on_report && cost == 0 &&
           (op == SL_TAKE_OP_TAKE || op == SL_TAKE_OP_EACH ||
            op == SL_TAKE_OP_PEEK);
}

static struct sl_take_result
judge(const struct history *h, const struct asked *a, unsigned i, uint64_t cost)
{
    const struct sl_limit *limit = &h->judged[a->limit[i]][a->plan[i]];
    struct sl_cell cell = h->cells[a->limit[i]][a->key[i]];
    sl_ns now = a->take.now;

    if (needs_one(a, i, cost))
        return look(limit, cell, 1, now);
    switch (a->take.op) {
    case SL_TAKE_OP_PEEK:
        return look(limit, cell, cost, now);
    case SL_TAKE_OP_CHARGE:
        return sl_adjust(limit, cell, (int64_t)cost, now, now);
    case SL_TAKE_OP_REFUND:
        return sl_adjust(limit, cell, -(int64_t)cost, a->parts[i].taken_at,
                         now);
    case SL_TAKE_OP_RESET:
        return sl_take(limit, sl_cell_of(0, 0), 0, now);
    default:
        return sl_take(limit, cell, cost, now);
    }
}

static void keep(struct history *h, const struct asked *a, unsigned i,
                 struct sl_cell next)
{
    h->cells[a->limit[i]][a->key[i]] = next;
}

/* What part `i` says if `used` of another key counts against it, too. */
static void count_beside(const struct history *h, const struct asked *a,
                         unsigned i, uint64_t cost, uint64_t used,
                         struct sl_take_result *taken)
{
    const struct sl_limit *limit = &h->judged[a->limit[i]][a->plan[i]];
    struct sl_cell cell = h->cells[a->limit[i]][a->key[i]];
    sl_ns now = a->take.now;
    struct sl_cell both = sl_adjust(limit, cell, (int64_t)used, now, now).next;
    bool one = needs_one(a, i, cost);
    struct sl_answer would = sl_take(limit, both, one ? 1 : cost, now).answer;

    if (would.outcome != SL_ALLOW)
        taken->next = sl_take(limit, cell, 0, now).next;
    taken->answer = would;
    if (one || a->take.op == SL_TAKE_OP_PEEK)
        taken->answer = look(limit, both, one ? 1 : cost, now).answer;
}

static uint64_t used_of(const struct sl_answer *a)
{
    return a->capacity - a->remaining;
}

/* Every part for itself, but for what is carried to it: the two are a set. */
void model_each(struct history *h, const struct asked *a,
                struct sl_answer *want)
{
    bool carries = false;

    for (unsigned i = 0; i < a->take.count; i++) {
        bool same = carries && a->key[i - 1] == a->key[i];
        struct sl_take_result t = judge(h, a, i, a->parts[i].cost);

        if (carries && !same && used_of(&want[i - 1]) > 0)
            count_beside(h, a, i, a->parts[i].cost, used_of(&want[i - 1]), &t);
        want[i] = t.answer;
        if (same)
            want[i - 1] = t.answer;
        keep(h, a, i, t.next);
        carries = a->parts[i].carried && !carries;
    }
}

/* Costs of parts of the same key add up. */
static uint64_t cost_of(const struct asked *a, unsigned first)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < a->take.count; i++)
        if (first_of(a, i) == first)
            sum += a->parts[i].cost;
    return sum;
}

/* Which part counts against part `i`, too; -1: none. */
static int beside_of(const struct asked *a, unsigned i)
{
    int beside = -1;

    for (unsigned k = 1; k < a->take.count; k++)
        if (first_of(a, k) == i && a->parts[k - 1].carried &&
            first_of(a, k - 1) < i)
            beside = (int)first_of(a, k - 1);
    return beside;
}

/* Judge part `i`, or look at it if the set is refused. */
static struct sl_take_result model_part(struct history *h,
                                        const struct asked *a, unsigned i,
                                        bool refused,
                                        const struct sl_take_result *taken)
{
    uint64_t cost = refused ? 0 : cost_of(a, i);
    int beside = beside_of(a, i);
    struct sl_take_result t;

    if (refused)
        t = sl_take(&h->judged[a->limit[i]][a->plan[i]],
                    h->cells[a->limit[i]][a->key[i]], 0, a->take.now);
    else
        t = judge(h, a, i, cost);
    if (beside >= 0 && used_of(&taken[beside].answer) > 0)
        count_beside(h, a, i, cost, used_of(&taken[beside].answer), &t);
    return t;
}

/* Has the refusal of the set one failure more for the penalty of part `i`? */
static bool is_failure(const struct history *h, const struct asked *a,
                       unsigned i, const struct sl_answer *first)
{
    unsigned of = a->parts[i].penalty_of;

    for (unsigned k = 0; k < a->take.count; k++)
        if (h->limits[a->limit[k]][0].kind == SL_PENALTY &&
            first[k].outcome != SL_ALLOW)
            return false; /* refused by a block */
    return a->take.op == SL_TAKE_OP_TAKE && of > 0 &&
           first[of - 1].outcome != SL_ALLOW;
}

bool model_set(struct history *h, const struct asked *a, struct sl_answer *want)
{
    struct sl_take_result taken[SL_PARTS];
    struct sl_answer said[SL_PARTS];
    bool allowed = true;

    for (unsigned i = 0; i < a->take.count; i++) {
        unsigned first = first_of(a, i);

        taken[i] = first < i ? taken[first] : model_part(h, a, i, false, taken);
        allowed = allowed && taken[i].answer.outcome == SL_ALLOW;
        said[i] = taken[i].answer;
    }
    for (unsigned i = 0; i < a->take.count; i++) {
        unsigned first = first_of(a, i);

        if (first < i)
            taken[i] = taken[first];
        else if (!allowed && is_failure(h, a, i, said))
            taken[i] = sl_adjust(&h->judged[a->limit[i]][a->plan[i]],
                                 h->cells[a->limit[i]][a->key[i]], 1,
                                 a->take.now, a->take.now);
        else if (!allowed && taken[i].answer.outcome == SL_ALLOW)
            taken[i] = model_part(h, a, i, true, taken);
        want[i] = taken[i].answer;
    }
    for (unsigned i = 0; i < a->take.count; i++)
        keep(h, a, i, taken[i].next);
    return allowed;
}
