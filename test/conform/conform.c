/* conform.c -- histories, and the comparison with the model. */
#include "conform.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "model.h"

/* Beyond this, "very long" is all that must be agreed on. */
#define LONG (200 * 365 * SL_DAY)

/* ---- making ---- */

static uint64_t pick(struct rng *rng, const uint64_t *list, unsigned count)
{
    return list[rng_below(rng, count)];
}

static uint64_t random_count(struct rng *rng)
{
    static const uint64_t counts[] = {1,   2,    3,       5,        8, 10,
                                      100, 1000, 1000000, 50000000, 7};

    return pick(rng, counts, SL_LEN(counts));
}

static struct sl_rate random_rate(struct rng *rng, enum sl_kind kind)
{
    static const enum sl_unit units[] = {SL_UNIT_SECOND, SL_UNIT_MINUTE,
                                         SL_UNIT_HOUR, SL_UNIT_DAY};
    struct sl_rate rate = {.form = SL_RATE_PER, .every = 1};

    if (kind == SL_PERMITS || kind == SL_LEVEL) {
        rate.form = SL_RATE_PLAIN;
        return rate;
    }
    rate.unit = units[rng_below(rng, SL_LEN(units))];
    if (rng_below(rng, 3) == 0)
        rate.every = 1 + rng_below(rng, 40);
    if (kind == SL_QUOTA && rng_below(rng, 2) == 0)
        rate.unit = rng_below(rng, 2) ? SL_UNIT_MONTH : SL_UNIT_WEEK;
    return rate;
}

/* Other counts and bursts of the same period. False if that is no limit. */
static bool make_plan(struct rng *rng, enum sl_kind kind, struct sl_rate rate,
                      enum sl_quantum quantum, struct sl_limit *table,
                      struct sl_limit *judged)
{
    struct sl_limit_options fine = {.anchor =
                                        rate.unit == SL_UNIT_MONTH ? 31 : 1};
    struct sl_limit_options own = fine;
    struct sl_diag diag;

    own.quantum = quantum;
    rate.count = random_count(rng);
    if ((kind == SL_BUCKET || kind == SL_INTERVAL) && rng_below(rng, 2)) {
        rate.has_burst = true;
        rate.burst = random_count(rng);
    }
    if (kind == SL_LEAKY && rng_below(rng, 2)) {
        rate.has_queue = true;
        rate.queue = rng_below(rng, 20);
    }
    return !sl_limit_init(table, kind, &rate, &fine, &diag) &&
           !sl_limit_init(judged, kind, &rate, &own, &diag);
}

/* Plans of a penalty share the times that are its shape. */
static void make_penalty(struct history *h, unsigned i)
{
    static const uint64_t counts[] = {1, 2, 2, 3, 5, 40};
    struct rng *rng = &h->rng;
    sl_ns within = SL_S * (1 + (sl_ns)rng_log(rng, 7200));
    sl_ns most = SL_S * (1 + (sl_ns)rng_log(rng, 200000));

    for (unsigned plan = 0; plan < PLANS; plan++) {
        struct sl_penalty_rate rate = {
            .after = pick(rng, counts, SL_LEN(counts)),
            .within = within,
            .block =
                SL_S * (1 + (sl_ns)rng_below(rng, (uint64_t)(most / SL_S))),
            .growth = 1 + rng_below(rng, 4),
            .most = most,
        };

        h->limits[i][plan] = sl_limit_penalty(&rate, SL_QUANTUM_NS);
        h->judged[i][plan] = sl_limit_penalty(&rate, h->conform->quantum);
    }
}

static void make_plans(struct history *h, unsigned i)
{
    enum sl_kind kind = (enum sl_kind)(i % SL_KINDS);
    struct sl_rate rate;

    if (kind == SL_PENALTY) {
        make_penalty(h, i);
        return;
    }
    rate = random_rate(&h->rng, kind);
    for (unsigned plan = 0; plan < PLANS; plan++)
        while (!make_plan(&h->rng, kind, rate, h->conform->quantum,
                          &h->limits[i][plan], &h->judged[i][plan]))
            rate = plan == 0 ? random_rate(&h->rng, kind) : rate;
}

static void make_limit(struct history *h, unsigned i)
{
    make_plans(h, i);
    snprintf(h->names[i], sizeof(h->names[i]), "%s%" PRIx64 "-%u",
             h->conform->prefix, h->seed, i);
    h->stored[i] = (struct sl_limit_binding){.name = h->names[i],
                                             .strictest = h->limits[i][0]};
    for (unsigned plan = 1; plan < PLANS; plan++) {
        const struct sl_limit *l = &h->limits[i][plan];
        struct sl_limit *s = &h->stored[i].strictest;

        s->count = l->count < s->count ? l->count : s->count;
        s->capacity = l->capacity < s->capacity ? l->capacity : s->capacity;
    }
    sl_limit_derive(&h->stored[i].strictest);
    h->stored[i].quota_leased =
        h->conform->leases_quotas && sl_is_durable(h->stored[i].strictest.kind);
    for (unsigned k = 0; k < KEYS; k++)
        snprintf(h->keys[i][k], sizeof(h->keys[i][k]), "%s:k%u", h->names[i],
                 k);
}

static sl_ns unless_just_behind(sl_ns now, sl_ns other)
{
    return now < other && other - now < SL_S ? other : now;
}

/* Did the clock go back into another fixed window? */
static bool is_other_window(const struct history *h)
{
    for (unsigned i = 0; i < LIMITS; i++) {
        const struct sl_limit *l = &h->limits[i][0];

        if (l->kind == SL_FIXED && h->conform->now < h->latest &&
            h->conform->now / l->period != h->latest / l->period)
            return true;
    }
    return false;
}

static sl_ns written_at(const struct sl_limit *l, struct sl_cell cell)
{
    uint64_t index = (cell.w[0] >> 32) | (cell.w[1] >> 32) << 31;

    if (l->kind == SL_PENALTY)
        return 0; /* it has no time of its own */
    return l->kind == SL_SLIDING ? (sl_ns)index * l->period : (sl_ns)cell.w[0];
}

/* On, until no cell lies just ahead. */
static void pass_cells(const struct history *h, sl_ns *now)
{
    for (unsigned i = 0; i < LIMITS * KEYS; i++) {
        const struct sl_limit *l = &h->limits[i / KEYS][0];
        sl_ns at = written_at(l, h->cells[i / KEYS][i % KEYS]);

        if (l->kind != SL_FIXED && at > *now && at - *now <= h->conform->lag) {
            *now = at;
            i = (unsigned)-1; /* from the first on */
        }
    }
}

/* Mostly on, by spans that the limits care about. A step back is either within
 * the jitter of clocks or a real one: between, the table waits for the others'
 * time to pass. */
static void move_time(struct history *h)
{
    const struct sl_limit *l =
        &h->limits[rng_below(&h->rng, LIMITS)][rng_below(&h->rng, PLANS)];
    sl_ns *now = &h->conform->now;
    uint64_t period = l->period > 0 ? (uint64_t)l->period : (uint64_t)SL_DAY;

    h->past = *now;
    switch (rng_below(&h->rng, 16)) {
    case 0:
    case 1:
    case 2:
    case 3:
    case 4:
        break;
    case 5:
        *now += (sl_ns)(period / l->count);
        break;
    case 6:
        *now += (sl_ns)(period - (uint64_t)*now % period);
        break;
    case 7:
        *now += (sl_ns)(period - (uint64_t)*now % period) - SL_US;
        break;
    case 8:
        *now += (sl_ns)period;
        break;
    case 9:
        *now -= (sl_ns)rng_below(&h->rng, (uint64_t)SL_MS);
        break;
    case 10:
        if (rng_below(&h->rng, 8) == 0)
            *now -= (sl_ns)(SL_S + (sl_ns)rng_below(&h->rng, period));
        break;
    default:
        *now += (sl_ns)rng_below(&h->rng, period / 4 + 1);
        break;
    }
    *now -= *now % SL_US;
    if (h->conform->latest)
        *now = unless_just_behind(*now, h->conform->latest(h->conform->store));
    if ((h->conform->names_windows && is_other_window(h)) ||
        (h->conform->leases_quotas && *now < h->latest))
        *now = h->latest;
    pass_cells(h, now);
    h->latest = *now > h->latest ? *now : h->latest;
    if (*now < SL_DAY || *now > SL_TIME_END / 2)
        *now = 20000 * SL_DAY;
}

static uint64_t random_cost(struct rng *rng, const struct sl_limit *l)
{
    static const uint64_t usual[] = {0, 1, 1, 1, 1, 2, 3};

    switch (rng_below(rng, 8)) {
    case 0:
        return l->capacity;
    case 1:
        return l->capacity + rng_below(rng, 3) - 1;
    case 2:
        return 1 + rng_below(rng, l->capacity);
    default:
        return pick(rng, usual, SL_LEN(usual));
    }
}

static void on_done(struct sl_take *take)
{
    struct history *h = take->ctx;

    h->done = true;
    if (h->conform->wake)
        h->conform->wake(h->conform->ctx);
}

/* What is carried is carried to another key of the same limit. */
static unsigned random_limit(struct history *h, const struct asked *a,
                             unsigned i)
{
    unsigned limit = (unsigned)rng_below(&h->rng, LIMITS);

    return i > 0 && a->parts[i - 1].carried ? a->limit[i - 1] : limit;
}

/* Carrying is for what ends together. */
static bool may_carry(const struct history *h, const struct asked *a,
                      unsigned i)
{
    enum sl_kind kind = h->limits[a->limit[i]][0].kind;
    enum sl_take_op op = a->take.op;

    return (kind == SL_FIXED || kind == SL_QUOTA) &&
           (op == SL_TAKE_OP_TAKE || op == SL_TAKE_OP_PEEK ||
            op == SL_TAKE_OP_EACH);
}

static void make_part(struct history *h, struct asked *a, unsigned i)
{
    unsigned limit = random_limit(h, a, i);
    unsigned key = (unsigned)rng_below(&h->rng, KEYS);
    struct sl_part *p = &a->parts[i];
    unsigned first;

    a->limit[i] = limit;
    a->key[i] = key;
    a->plan[i] = (unsigned)rng_below(&h->rng, PLANS);
    first = first_of(a, i);
    if (first < i) /* one caller has one plan */
        a->plan[i] = a->plan[first];
    *p = (struct sl_part){
        .binding = &h->stored[limit],
        .limit = &h->limits[limit][a->plan[i]],
        .key = sl_str_c(h->keys[limit][key]),
        .name = sl_str_c(h->keys[limit][key]),
        .cost = random_cost(&h->rng, &h->limits[limit][a->plan[i]]),
        .taken_at = h->past < h->conform->now && !h->conform->leases_quotas
                        ? h->past
                        : h->conform->now, /* by which a take is undone */
    };
    if (h->conform->counts && i > 0 && p->limit->kind == SL_PENALTY &&
        rng_below(&h->rng, 4))
        p->penalty_of = (uint8_t)(1 + rng_below(&h->rng, i));
    if (!h->conform->leases_quotas && may_carry(h, a, i) &&
        rng_below(&h->rng, 2)) {
        p->carried = true;
        p->cost = 0;
    } else if (rng_below(&h->rng, 4) == 0) {
        p->on_report = true;
        p->cost = rng_below(&h->rng, 8) ? 0 : p->cost;
    }
}

static void make_take(struct history *h, struct asked *a)
{
    static const enum sl_take_op ops[] = {
        SL_TAKE_OP_TAKE,   SL_TAKE_OP_TAKE, SL_TAKE_OP_TAKE, SL_TAKE_OP_TAKE,
        SL_TAKE_OP_TAKE,   SL_TAKE_OP_PEEK, SL_TAKE_OP_EACH, SL_TAKE_OP_CHARGE,
        SL_TAKE_OP_REFUND, SL_TAKE_OP_TAKE, SL_TAKE_OP_RESET};
    unsigned most = h->conform->parts_most ? h->conform->parts_most : 8;

    a->take = (struct sl_take){
        .op = ops[rng_below(&h->rng, SL_LEN(ops))],
        .parts = a->parts,
        .count =
            rng_below(&h->rng, 2) ? 1 : 1 + (unsigned)rng_below(&h->rng, most),
        .now = h->conform->now,
        .loop = h->conform->loop,
        .done = on_done,
        .ctx = h,
    };
    if (h->conform->in_steps && a->take.op != SL_TAKE_OP_TAKE)
        a->take.count = 1;
    a->take.apart = h->conform->in_steps;
    for (unsigned i = 0; i < a->take.count; i++)
        make_part(h, a, i);
}

/* ---- comparing ---- */

static bool same_span(sl_ns a, sl_ns b)
{
    return a == b ||
           (a > LONG && b > LONG && a != SL_NS_NONE && b != SL_NS_NONE);
}

static bool same_answer(const struct sl_answer *a, const struct sl_answer *b)
{
    return a->outcome == b->outcome && a->limit == b->limit &&
           a->capacity == b->capacity && a->remaining == b->remaining &&
           same_span(a->retry_in, b->retry_in) &&
           same_span(a->reset_in, b->reset_in) && same_span(a->wait, b->wait);
}

static void print_answer(const char *who, const struct sl_answer *a)
{
    printf("#   %-5s %d remaining %" PRIu64 " retry %" PRId64 " reset %" PRId64
           " wait %" PRId64 "\n",
           who, (int)a->outcome, a->remaining, a->retry_in, a->reset_in,
           a->wait);
}

static void print_difference(const struct history *h, const struct asked *a,
                             unsigned step, unsigned i,
                             const struct sl_answer *want)
{
    const struct sl_limit *l = &h->limits[a->limit[i]][a->plan[i]];

    printf("# seed %" PRIu64 " step %u part %u of %u, op %d: %s count "
           "%" PRIu64 " capacity %" PRIu64 " period %" PRId64 " cost %" PRIu64
           " now %" PRId64 "\n",
           h->seed, step, i, a->take.count, (int)a->take.op,
           sl_kind_name(l->kind), l->count, l->capacity, l->period,
           a->parts[i].cost, a->take.now);
    print_answer("want", want);
    print_answer("got", &a->parts[i].answer);
}

static bool ask(struct history *h, struct asked *a)
{
    h->done = false;
    sl_store_take(h->conform->store, &a->take);
    if (!h->done && h->conform->wait)
        h->conform->wait(h->conform->ctx);
    if (!h->done || a->take.err) {
        printf("# seed %" PRIu64 ": the store failed (%d)\n", h->seed,
               a->take.err);
        return false;
    }
    return true;
}

static bool step(struct history *h, unsigned number)
{
    struct sl_answer want[SL_PARTS];
    struct asked a;
    bool allowed = true;

    move_time(h);
    make_take(h, &a);
    if (a.take.op == SL_TAKE_OP_EACH)
        model_each(h, &a, want);
    else
        allowed = model_set(h, &a, want);
    if (!ask(h, &a))
        return false;
    for (unsigned i = 0; i < a.take.count; i++)
        if (!allowed && h->conform->leases_quotas)
            want[i].wait = a.parts[i].answer.wait; /* nothing waits */
    for (unsigned i = 0; i < a.take.count; i++)
        if (!same_answer(&want[i], &a.parts[i].answer)) { /* (2) */
            print_difference(h, &a, number, i, &want[i]);
            return false;
        }
    if (a.take.op != SL_TAKE_OP_EACH && a.take.allowed != allowed) {
        printf("# seed %" PRIu64 " step %u: the set was %s\n", h->seed, number,
               allowed ? "refused" : "allowed"); /* (1) */
        return false;
    }
    return true;
}

bool conform_run(struct conform *conform, uint64_t seed, unsigned steps)
{
    static struct history h;
    struct sl_diag diag = {.sentence = ""};

    memset(&h, 0, sizeof(h));
    h.conform = conform;
    h.seed = seed;
    h.rng.state = seed;
    conform->now = 20000 * SL_DAY;
    for (unsigned i = 0; i < LIMITS; i++)
        make_limit(&h, i);
    if (sl_store_bind(conform->store, h.stored, LIMITS, &diag)) {
        printf("# bind: %s\n", diag.sentence);
        return false;
    }
    for (unsigned i = 0; i < steps; i++)
        if (!step(&h, i))
            return false;
    return true;
}
