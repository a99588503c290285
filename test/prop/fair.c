/* fair.c -- a fair queue against a plain model. The numbers are those of the
 * invariants in src/engine/wait.h.
 *
 *   (1)  within a lane, first come is first served
 *   (2)  the lanes are served in turn, each by its weight
 *   (3)  a lane that comes anew stands behind all others
 *   (4)  leaving moves no other turn backwards
 */
#include "engine/wait.h"

#include <stdlib.h>
#include <string.h>

#include "prop.h"

#define LANES 12
#define MOST  400

struct one {
    struct sl_fair_entry place; /* first */
    unsigned lane;
    unsigned number;
};

/* The model: lanes in their order, each an array. */
struct model {
    unsigned order[LANES], lanes;
    unsigned weight[LANES], served[LANES];
    struct one *rows[LANES][MOST];
    unsigned counts[LANES];
};

static struct sl_hash128 whose(unsigned lane)
{
    return (struct sl_hash128){lane * 64,
                               lane}; /* all in one bucket at first */
}

static void model_add(struct model *m, struct one *one, unsigned weight)
{
    unsigned lane = one->lane;

    if (m->counts[lane] == 0) {
        m->order[m->lanes++] = lane;
        m->served[lane] = 0;
    }
    m->weight[lane] = weight;
    if (m->served[lane] >= weight)
        m->served[lane] = weight - 1;
    m->rows[lane][m->counts[lane]++] = one;
}

static void model_remove(struct model *m, unsigned lane, unsigned at)
{
    for (unsigned i = at; i + 1 < m->counts[lane]; i++)
        m->rows[lane][i] = m->rows[lane][i + 1];
    if (--m->counts[lane] > 0)
        return;
    for (unsigned i = 0; i < m->lanes; i++)
        if (m->order[i] == lane) {
            memmove(&m->order[i], &m->order[i + 1],
                    (m->lanes - i - 1) * sizeof(m->order[0]));
            m->lanes--;
            return;
        }
}

static void model_serve(struct model *m)
{
    unsigned lane = m->order[0];

    if (++m->served[lane] >= m->weight[lane]) {
        m->served[lane] = 0;
        memmove(&m->order[0], &m->order[1],
                (m->lanes - 1) * sizeof(m->order[0]));
        m->order[m->lanes - 1] = lane;
    }
    model_remove(m, lane, 0);
}

static struct one *model_first(const struct model *m)
{
    return m->lanes > 0 ? m->rows[m->order[0]][0] : NULL;
}

static struct one *make(unsigned lane, unsigned number)
{
    struct one *one = calloc(1, sizeof(*one));

    if (!one)
        abort();
    one->lane = lane;
    one->number = number;
    return one;
}

static bool leave(struct sl_fair_queue *fair, struct model *m, struct rng *rng)
{
    unsigned lane = (unsigned)rng_between(rng, 0, LANES - 1);
    unsigned at;
    struct one *one;

    if (m->counts[lane] == 0)
        return true;
    at = (unsigned)rng_between(rng, 0, m->counts[lane] - 1);
    one = m->rows[lane][at];
    sl_fair_queue_leave(fair, &one->place);
    model_remove(m, lane, at);
    free(one);
    return true;
}

static bool history(uint64_t seed, uint64_t *steps)
{
    struct rng rng = {seed};
    struct model *m = calloc(1, sizeof(*m));
    struct sl_fair_queue fair;
    bool good = true;

    if (!m || sl_fair_queue_init(&fair, &sl_alloc_libc))
        abort();
    for (unsigned i = 0; i < 600 && good; i++) {
        struct one *first = model_first(m);

        good = sl_fair_queue_first(&fair) == /* (1) (2) (3) */
               (first ? &first->place : NULL);
        if (first && rng_once_in(&rng, 3)) {
            sl_fair_queue_serve(&fair);
            model_serve(m);
            free(first);
        } else if (rng_once_in(&rng, 5)) {
            good = good && leave(&fair, m, &rng); /* (4) */
        } else {
            struct one *one =
                make((unsigned)rng_between(&rng, 0, LANES - 1), i);
            unsigned weight = (unsigned)rng_between(&rng, 1, 4);

            if (m->counts[one->lane] == MOST ||
                sl_fair_queue_add(&fair, whose(one->lane), weight,
                                  &one->place)) {
                free(one);
                continue;
            }
            model_add(m, one, weight);
        }
        ++*steps;
    }
    while (m->lanes > 0) {
        struct one *first = model_first(m);

        good = good && &first->place == sl_fair_queue_first(&fair);
        sl_fair_queue_serve(&fair);
        model_serve(m);
        free(first);
    }
    good = good && fair.count == 0 && fair.tenants == 0;
    sl_fair_queue_done(&fair);
    free(m);
    return good;
}

/* One organisation with a thousand waiting and nine with ten each: counted in
 * turns. */
static void check_share(void)
{
    struct sl_fair_queue fair;
    unsigned turns = 0, left[10] = {1000, 10, 10, 10, 10, 10, 10, 10, 10, 10};
    unsigned last = 0, nine = 0;

    CASE("a thousand of one organisation cost nine others nothing");
    CHECK_EQ(sl_fair_queue_init(&fair, &sl_alloc_libc), 0);
    for (unsigned lane = 0; lane < 10; lane++)
        for (unsigned i = 0; i < left[lane]; i++)
            CHECK_EQ(
                sl_fair_queue_add(&fair, whose(lane), 1, &make(lane, i)->place),
                0);
    CHECK_EQ(sl_fair_queue_ahead(&fair, whose(3), 1), 10 + 9 * 10 + 1);
    CHECK_EQ(sl_fair_queue_ahead(&fair, whose(11), 1), 10);
    while (fair.count > 0) {
        struct one *one = (struct one *)sl_fair_queue_first(&fair);

        turns++;
        if (one->lane > 0) {
            nine++;
            last = turns;
        }
        sl_fair_queue_serve(&fair);
        free(one);
    }
    CHECK_EQ(turns, 1090);
    CHECK_EQ(nine, 90);
    CHECK_EQ(last, 100); /* ten rounds of ten */
    sl_fair_queue_done(&fair);
}

/* Of two lanes with weights 3 and 1, the one has three turns in four. */
static void check_weights(void)
{
    struct sl_fair_queue fair;
    unsigned heavy = 0;

    CASE("weights are turns in a row");
    CHECK_EQ(sl_fair_queue_init(&fair, &sl_alloc_libc), 0);
    for (unsigned i = 0; i < 80; i++)
        CHECK_EQ(sl_fair_queue_add(&fair, whose(i % 2), i % 2 ? 1 : 3,
                                   &make(i % 2, i)->place),
                 0);
    for (unsigned turn = 0; turn < 40; turn++) {
        struct one *one = (struct one *)sl_fair_queue_first(&fair);

        heavy += one->lane == 0;
        sl_fair_queue_serve(&fair);
        free(one);
    }
    CHECK_EQ(heavy, 30);
    while (fair.count > 0) {
        struct one *one = (struct one *)sl_fair_queue_first(&fair);

        sl_fair_queue_serve(&fair);
        free(one);
    }
    sl_fair_queue_done(&fair);
}

static void finish(uint64_t steps)
{
    (void)steps;
    check_share();
    check_weights();
}

const struct property prop_fair = {
    .name = "fair",
    .steps = 500000,
    .cases = {{"fair (1) (2) (3) (4) random histories agree with the model",
               history}},
    .finish = finish,
};
