/* history.c -- random histories of one caller, against an array of cells.
 *
 * What a table answers is what core answers: every set is also judged on plain
 * cells that are driven by sl_take and sl_adjust directly. All kinds, some
 * fifty keys, sets of one to five parts with keys that meet, a clock that runs,
 * stands, jitters and steps. SL_PROP_STEPS in the environment says how many
 * sets. Single sets also go through sl_table_batch. (2) of table.h.
 *
 * No two keys share a bucket: a key that owes nothing may lose its slot to
 * another, and if the clock then steps back to where it owed something, that
 * is forgotten. So the table is large and the fingerprints have a fixed
 * secret.
 */
#include "rig.h"

#define KEYS   6
#define LIMITS SL_PENALTY /* and all kinds before it */
#define MOST   5          /* parts in a set */

static const struct {
    enum sl_kind kind;
    const char *rate;
} kinds[LIMITS] = {
    {SL_BUCKET,   "7/s burst 20"},
    {SL_INTERVAL, "5/s burst 9" },
    {SL_LEAKY,    "4/s queue 6" },
    {SL_FIXED,    "12/s"        },
    {SL_SLIDING,  "9/s"         },
    {SL_QUOTA,    "40/day"      },
    {SL_PERMITS,  "6"           },
    {SL_LEVEL,    "50"          },
};

static const char *const keys[KEYS] = {"a", "b", "c", "d", "e", ""};

struct world {
    struct sl_table table;
    struct sl_limit_binding limit[LIMITS];
    struct sl_cell cell[LIMITS][KEYS]; /* what must be in the table */
    uint64_t state;
    sl_ns now;
    sl_ns peak; /* of now since the last step; lags are not this test's */
};

/* A part, and which cell it is about. */
struct wish {
    struct sl_part part;
    unsigned limit, key;
    struct sl_answer answer; /* what the plain cells say */
};

static uint64_t below(struct world *w, uint64_t most)
{
    w->state ^= w->state << 13;
    w->state ^= w->state >> 7;
    w->state ^= w->state << 17;
    return (w->state >> 16) % most;
}

static void make_wish(struct world *w, struct wish *wish, enum sl_take_op act)
{
    wish->limit = (unsigned)below(w, LIMITS);
    wish->key = (unsigned)below(w, KEYS);
    wish->part = part_of(&w->limit[wish->limit], keys[wish->key], 0);
    wish->part.op = act;
    wish->part.taken_at = w->now - (sl_ns)below(w, 3 * SL_S);
    if (act == SL_TAKE_OP_REFUND)
        set_delta(&wish->part, (int64_t)below(w, 9) - 5);
    else if (act != SL_TAKE_OP_RESET)
        wish->part.cost = below(w, 20) ? below(w, 4) : below(w, 60);
}

/* The first wish of the same key. */
static struct wish *first_of(struct wish *wishes, const struct wish *wish)
{
    while (wishes->limit != wish->limit || wishes->key != wish->key)
        wishes++;
    return wishes;
}

/* Judge one key; its costs are added up already. */
static struct sl_take_result judge(const struct wish *wish, uint64_t cost,
                                   int64_t delta, struct sl_cell cell,
                                   sl_ns now)
{
    const struct sl_limit *limit = wish->part.limit;
    struct sl_take_result t, would;

    switch (wish->part.op) {
    case SL_TAKE_OP_CHARGE:
    case SL_TAKE_OP_REFUND:
        return sl_adjust(limit, cell, delta, wish->part.taken_at, now);
    case SL_TAKE_OP_RESET:
        return sl_take(limit, sl_cell_of(0, 0), 0, now);
    case SL_TAKE_OP_PEEK:
        would = sl_take(limit, cell, cost, now);
        t = sl_take(limit, cell, 0, now);
        t.answer.outcome = would.answer.outcome;
        t.answer.retry_in = would.answer.retry_in;
        return t;
    default:
        return sl_take(limit, cell, cost, now);
    }
}

/* What plain cells say to the set. */
static enum sl_set_result model(struct world *w, struct wish *wishes,
                                unsigned count, bool fresh)
{
    struct sl_take_result taken[MOST];
    bool allowed = true;

    for (unsigned i = 0; i < count; i++) {
        uint64_t cost = 0;
        int64_t delta = 0;
        struct wish *wish = &wishes[i];

        for (unsigned j = 0; j < count; j++)
            if (first_of(wishes, &wishes[j]) == wish) {
                cost += wishes[j].part.cost;
                delta += wishes[j].part.op == SL_TAKE_OP_REFUND
                             ? -(int64_t)wishes[j].part.cost
                             : (int64_t)wishes[j].part.cost;
            }
        if (first_of(wishes, wish) != wish)
            continue;
        taken[i] =
            judge(wish, cost, delta, w->cell[wish->limit][wish->key], w->now);
        if (taken[i].stepped && !fresh)
            return SL_SET_STALE;
        allowed = allowed && taken[i].answer.outcome == SL_ALLOW;
    }
    for (unsigned i = 0; i < count; i++) {
        struct wish *wish = &wishes[i], *first = first_of(wishes, wish);
        struct sl_cell *cell = &w->cell[wish->limit][wish->key];

        if (first == wish) {
            if (!allowed && taken[i].answer.outcome == SL_ALLOW)
                taken[i] = sl_take(wish->part.limit, *cell, 0, w->now);
            *cell = taken[i].next;
            wish->answer = taken[i].answer;
        } else {
            wish->answer = first->answer;
        }
    }
    return allowed ? SL_SET_ALLOW : SL_SET_DENY;
}

static bool same_answer(const struct sl_answer *a, const struct sl_answer *b)
{
    return a->outcome == b->outcome && a->limit == b->limit &&
           a->capacity == b->capacity && a->remaining == b->remaining &&
           a->retry_in == b->retry_in && a->reset_in == b->reset_in &&
           a->wait == b->wait;
}

/* Runs, stands, jitters, steps. */
static void move_clock(struct world *w)
{
    uint64_t dice = below(w, 100);

    if (dice < 60)
        w->now += (sl_ns)below(w, SL_S / 2);
    else if (dice < 70)
        w->now -= (sl_ns)below(w, SL_JITTER);
    else if (dice < 72)
        w->now -= (sl_ns)below(w, SL_MIN);
    else if (dice < 73)
        w->now += (sl_ns)below(w, 2 * SL_DAY);
}

static enum sl_take_op pick_act(struct world *w)
{
    uint64_t dice = below(w, 20);

    return dice < 13   ? SL_TAKE_OP_TAKE
           : dice < 15 ? SL_TAKE_OP_PEEK
           : dice < 19 ? SL_TAKE_OP_REFUND
                       : SL_TAKE_OP_RESET;
}

static bool step(struct world *w)
{
    struct wish wishes[MOST];
    struct sl_part parts[MOST];
    unsigned count = 1 + (unsigned)below(w, MOST);
    enum sl_take_op act = pick_act(w);
    bool fresh = below(w, 4) > 0, same = true;
    enum sl_set_result got, want;

    move_clock(w);
    fresh = fresh || w->now < w->peak;
    if (below(w, 2))
        count = 1;
    for (unsigned i = 0; i < count; i++) {
        make_wish(w, &wishes[i], act);
        wishes[i].part.taken_at = wishes[0].part.taken_at;
        parts[i] = wishes[i].part;
    }
    if (fresh || w->now > w->peak)
        w->peak = w->now;
    want = model(w, wishes, count, fresh);
    if (count == 1 && below(w, 2))
        sl_table_batch(&w->table, &(struct sl_part *){parts}, &got, 1, w->now,
                       fresh);
    else
        got = sl_table_decide(&w->table, parts, count, w->now, fresh);
    same = CHECK_EQ(got, want);
    for (unsigned i = 0; want != SL_SET_STALE && i < count; i++)
        same = CHECK(same_answer(&parts[i].answer, &wishes[i].answer)) && same;
    return same;
}

/* A batch of independent takes is the same as one after the other. */
static void test_batches(struct world *w)
{
    struct sl_part parts[100], *pointers[100];
    enum sl_set_result verdicts[100];
    struct wish wishes[100];

    for (unsigned n = 0; n < 200; n++) {
        unsigned count = 1 + (unsigned)below(w, 100);

        move_clock(w);
        for (unsigned i = 0; i < count; i++) {
            make_wish(w, &wishes[i], pick_act(w));
            parts[i] = wishes[i].part;
            pointers[i] = &parts[i];
        }
        sl_table_batch(&w->table, pointers, verdicts, count, w->now, true);
        for (unsigned i = 0; i < count; i++) {
            CHECK_EQ(verdicts[i], model(w, &wishes[i], 1, true));
            CHECK(same_answer(&parts[i].answer, &wishes[i].answer));
        }
    }
}

int main(void)
{
    static struct world w;
    const char *text = getenv("SL_PROP_STEPS");
    uint64_t steps = text ? strtoull(text, NULL, 10) : 200000, i = 0;

    if (steps > 2000000)
        steps = 2000000; /* each is a set; --long means other tests */

    CASE("(2) the answers are those of core, set by set");
    w.state = 88172645463325252;
    w.now = NOW;
    open_heap(&w.table, 16 * MIB, SL_FULL_ALLOW);
    for (unsigned l = 0; l < LIMITS; l++) {
        w.limit[l] = limit_of("x", kinds[l].kind, kinds[l].rate, 0);
        w.limit[l].name = kinds[l].rate;
        know(&w.table, &w.limit[l]);
        sl_hasher_init(&w.limit[l].hasher, &(struct sl_hash_key){l, 1},
                       SL_BY_SIPHASH);
    }
    while (i < steps && step(&w))
        i++;
    CHECK_EQ(i, steps);
    CASE("a batch is the same as one after the other");
    test_batches(&w);
    sl_table_done(&w.table);
    return CHECK_DONE();
}
