/* leased_times.c -- the table behind leases, and time: a node that is stopped
 * within a turn of its loop. */
#include <string.h>

#include "base/clock.h"
#include "check.h"
#include "net/loop.h"
#include "store/lease/leased.h"

#define DAY_0 (20000 * SL_DAY)

/* Books of one counter. */
struct world {
    struct sl_lender lender; /* first */
    uint64_t used, leased, asked;
    sl_ns steady; /* moves when it is told to */
    struct sl_clock clock;
    struct sl_loop *loop;
    struct sl_store *store;
    struct sl_limit quota;
    struct sl_stored stored;
};

static void answer(struct world *w, struct sl_lease_ask *ask)
{
    uint64_t left = ask->cap - w->used - w->leased;

    w->leased -= ask->give;
    ask->terms = (struct sl_lease_terms){.used = w->used};
    if (ask->want > 0 && ask->least <= left)
        ask->terms.granted = ask->want < left ? ask->want : left;
    w->leased += ask->terms.granted;
    ask->terms.own = w->leased;
    ask->terms.there = w->leased > 0;
    ask->err = 0;
    ask->done(ask);
}

static void ask(struct sl_lender *lender, struct sl_lease_ask *ask)
{
    struct world *w = (struct world *)lender;

    w->asked++;
    answer(w, ask);
}

static bool name(struct sl_lender *lender, const struct sl_take_part *part,
                 struct sl_str *scope, struct sl_buf *id)
{
    (void)lender;
    *scope = SL_STR("org");
    return !sl_buf_add(id, part->key);
}

static sl_ns read_steady(void *ctx)
{
    return ((struct world *)ctx)->steady;
}

static sl_ns read_wall(void *ctx)
{
    return DAY_0 + read_steady(ctx);
}

static void open_world(struct world *w)
{
    struct sl_leased_options options = {.lender = &w->lender,
                                        .patience = SL_S,
                                        .steady = read_steady,
                                        .ctx = w};
    struct sl_rate rate;

    *w = (struct world){
        .lender = {.ask = ask, .name = name},
          .steady = SL_HOUR
    };
    sl_clock_init_sources(&w->clock, read_wall, read_steady, w);
    if (sl_parse_rate(SL_STR("100/day"), &rate, NULL) ||
        sl_limit_init(&w->quota, SL_QUOTA, &rate, &(struct sl_limit_options){0},
                      NULL) ||
        sl_memory_open(&(struct sl_memory_options){.size = 1 << 20},
                       &options.store, NULL) ||
        sl_loop_open(&w->clock, &w->loop, NULL) ||
        sl_leased_open(&options, &w->store))
        abort();
    w->stored = (struct sl_stored){.name = "units", .strictest = w->quota};
    CHECK_EQ(sl_store_bind(w->store, &w->stored, 1, NULL), 0);
}

static void close_world(struct world *w)
{
    sl_store_close(w->store);
    sl_loop_close(w->loop);
}

/* ---- takes ---- */

struct errand {
    struct sl_take take;
    struct sl_take_part part;
    bool done;
};

static void on_done(struct sl_take *take)
{
    ((struct errand *)take->ctx)->done = true;
}

static void send(struct world *w, struct errand *e, uint64_t cost, sl_ns now)
{
    *e = (struct errand){.done = false};
    e->part = (struct sl_take_part){.of = &w->stored,
                                    .limit = &w->quota,
                                    .key = SL_STR("acme"),
                                    .cost = cost,
                                    .when = now,
                                    .whose = (const void *)w};
    e->take = (struct sl_take){.errand = SL_ERRAND_TAKE,
                               .parts = &e->part,
                               .count = 1,
                               .now = now,
                               .loop = w->loop,
                               .done = on_done,
                               .ctx = e};
    sl_store_take(w->store, &e->take);
}

static bool is_allowed(const struct errand *e)
{
    return e->done && !e->take.err && e->take.allowed;
}

/* ---- stopped within a turn ---- */

static void stop_within(void *ctx)
{
    struct world *w = ctx;
    struct errand e;
    uint64_t asked;

    send(w, &e, 1, DAY_0);
    CHECK(is_allowed(&e));
    asked = w->asked;
    CASE("what is leased is used without asking");
    send(w, &e, 1, DAY_0);
    CHECK(is_allowed(&e));
    CHECK_EQ(w->asked, asked);
    CASE("after a stop in the middle of a turn the books are asked first");
    w->steady += 2 * SL_LEASE_ALIVE;
    w->used = 100; /* it was released, and others have taken all */
    w->leased = 0;
    send(w, &e, 1, DAY_0);
    CHECK(e.done && !e.take.err && !e.take.allowed);
    CHECK(w->asked > asked);
    sl_loop_stop(w->loop);
}

static void test_stop(void)
{
    struct world w;

    open_world(&w);
    CHECK_EQ(sl_loop_post(w.loop, stop_within, &w), 0);
    sl_loop_run(w.loop);
    close_world(&w);
}

static void test_machine(void)
{
    sl_ns before = sl_clock_up();

    CASE("the machine's own clock goes on");
    CHECK(before > 0);
    CHECK(sl_clock_up() >= before);
}

int main(void)
{
    test_stop();
    test_machine();
    return CHECK_DONE();
}
