/* usage_model.c -- the usage database, as sums in memory. */
#include "usage_model.h"

static struct model_counter *counter_of(struct model *m,
                                        const struct model_report *r)
{
    return r->level ? &m->level[r->who] : &m->quota[r->who][r->period];
}

/* The one that expires first, of those that have not. */
static struct model_credit *next_credit(struct model *m, unsigned who, sl_ns at)
{
    struct model_credit *first = NULL;

    for (unsigned i = 0; i < m->credit_count; i++) {
        struct model_credit *c = &m->credits[i];
        bool never = c->expires == SL_NS_NONE;

        if (c->who != who || c->unused == 0 || (!never && c->expires <= at))
            continue;
        if (!first || (!never && (first->expires == SL_NS_NONE ||
                                  c->expires < first->expires)))
            first = c;
    }
    return first;
}

int64_t model_credits(const struct model *m, unsigned who, sl_ns at)
{
    int64_t sum = 0;

    for (unsigned i = 0; i < m->credit_count; i++)
        if (m->credits[i].who == who &&
            (m->credits[i].expires == SL_NS_NONE || m->credits[i].expires > at))
            sum += m->credits[i].unused;
    return sum;
}

/* (5) */
static int64_t absorb(struct model *m, const struct model_report *r,
                      int64_t over)
{
    struct model_credit *c;
    int64_t sum = 0;

    while (!r->level && over > 0 && (c = next_credit(m, r->who, r->at))) {
        int64_t part = over < c->unused ? over : c->unused;

        c->unused -= part;
        over -= part;
        sum += part;
    }
    return sum;
}

/* Is credit `a` returned to before `b`? The last to expire is the first. */
static bool is_later(const struct model_credit *a, const struct model_credit *b)
{
    if ((a->expires == SL_NS_NONE) != (b->expires == SL_NS_NONE))
        return a->expires == SL_NS_NONE;
    return a->expires != b->expires ? a->expires > b->expires
                                    : a->number > b->number;
}

static void unabsorb(struct model *m, unsigned who, int64_t units)
{
    while (units > 0) {
        struct model_credit *last = NULL;
        int64_t part;

        for (unsigned i = 0; i < m->credit_count; i++) {
            struct model_credit *c = &m->credits[i];

            if (c->who == who && c->unused < c->amount &&
                (!last || is_later(c, last)))
                last = c;
        }
        if (!last)
            return;
        part = last->amount - last->unused;
        part = part < units ? part : units;
        last->unused += part;
        units -= part;
    }
}

/* Takes units from the last days of the period that have some. */
static void reduce_days(const struct model *m, const struct model_report *r,
                        int64_t days[DAYS], int64_t over)
{
    unsigned end = DAYS;

    for (unsigned p = PERIODS - 1; p > r->period; p--)
        if (m->quota[r->who][p].made)
            end = p * (DAYS / PERIODS);
    for (unsigned d = end; d-- > r->period * (DAYS / PERIODS) && over > 0;) {
        int64_t *had = &days[d];
        int64_t part = *had < over ? *had : over;

        *had -= part;
        over -= part;
    }
}

/* (8) What is beyond the cap if `used` are used. */
static int64_t beyond(const struct model_counter *c, int64_t used)
{
    int64_t sum = c->closed;

    for (int64_t n = used; n < c->base && sum > 0; n++)
        sum--;
    for (int64_t n = c->base + 1; n <= used; n++)
        sum += c->cap != CAP_NONE && n > c->cap;
    return sum;
}

static void change_cap(struct model_counter *c, const struct model_report *r)
{
    if (c->made && c->cap == r->cap)
        return;
    c->cap = r->cap;
    c->base = r->level ? 0 : c->used;
    c->closed = r->level ? 0 : c->overage + c->credited;
}

static void move(struct model *m, const struct model_report *r, int64_t by)
{
    struct model_counter *c = counter_of(m, r);
    int64_t after = c->used + by > 0 ? c->used + by : 0; /* (1) */
    int64_t over, paid, moved = after - c->used;

    change_cap(c, r);
    c->made = true;
    c->used = after;
    over = beyond(c, after) - c->overage - c->credited; /* (7) */
    if (over >= 0)
        paid = absorb(m, r, over);
    else
        paid = over + c->overage < 0 ? over + c->overage : 0;
    unabsorb(m, r->who, -paid);
    c->credited += paid;
    c->overage += over -= paid;
    if (r->level)
        return;
    m->days[r->who][r->day] += moved > 0 ? moved : 0;
    m->over[r->who][r->day] += over > 0 ? over : 0;
    reduce_days(m, r, m->days[r->who], -moved);
    reduce_days(m, r, m->over[r->who], -over);
}

static void reset(struct model *m, const struct model_report *r)
{
    struct model_counter *c = counter_of(m, r);

    c->used = c->overage = c->credited = c->base = c->closed = 0;
    if (!c->made)
        c->cap = CAP_UNKNOWN;
    c->made = true;
    for (int i = 0; r->level && i < THINGS; i++)
        m->things[r->who][i] = 0;
}

enum sl_usage_result model_put(struct model *m, const struct model_report *r,
                               struct model_counter *ret)
{
    struct model_counter *c = counter_of(m, r);
    struct model_key *key = r->key >= 0 ? &m->keys[r->who][r->key] : NULL;
    int64_t by = r->amount;

    *ret = *c;
    if (key && key->known) /* (2) */
        return key->level == r->level && key->amount == r->amount &&
                       key->thing == r->thing
                   ? SL_USAGE_REPLAYED
                   : SL_USAGE_CONFLICT;
    if (r->thing >= 0)
        by -= m->things[r->who][r->thing];
    if (r->thing >= 0 && by == 0)
        return SL_USAGE_REPLAYED;
    if (r->enforce && by > 0 && r->cap != CAP_NONE && c->used + by > r->cap)
        return SL_USAGE_FULL;
    if (r->reset)
        reset(m, r);
    else
        move(m, r, by);
    if (r->thing >= 0)
        m->things[r->who][r->thing] = r->amount;
    if (key)
        *key = (struct model_key){true, r->level, r->amount, r->thing};
    *ret = *c;
    return SL_USAGE_RECORDED;
}

/* ---- holds ---- */

/* (6) What was held belongs to the period that it was taken in, and what it
 * came to beyond that to the one that it has ended in. */
static void settle(struct model *m, const struct model_hold *h,
                   const struct model_report *at, int64_t amount,
                   unsigned end_period)
{
    struct model_report part = *at;
    int64_t rest =
        end_period != h->period && amount > h->amount ? amount - h->amount : 0;

    part.who = h->who;
    part.cap = h->cap;
    part.period = h->period;
    if (amount > rest)
        move(m, &part, amount - rest);
    part.period = end_period;
    if (rest > 0)
        move(m, &part, rest);
}

void model_hold(struct model *m, unsigned hold, const struct model_report *r)
{
    struct model_hold *h = &m->holds[hold];
    struct model_hold taken = {HELD,      r->who, r->period, 0,
                               r->amount, r->cap, r->at};

    if (h->state == ENDED)
        settle(m, &taken, r, h->amount, h->end_period);
    if (h->state == ENDED)
        h->state = FREE;
    else
        *h = taken;
}

void model_end(struct model *m, unsigned hold, const struct model_report *r)
{
    struct model_hold *h = &m->holds[hold];

    if (h->state == HELD)
        settle(m, h, r, r->amount, r->period);
    if (h->state == HELD)
        h->state = FREE;
    else if (h->state == FREE)
        *h = (struct model_hold){ENDED, 0, 0, r->period, r->amount, 0, r->at};
}
