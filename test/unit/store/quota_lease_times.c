/* quota_lease_times.c -- the table behind leases, and time: a node that is
 * stopped within a turn of its loop, takes that wait, and periods that end. */
#include <stdlib.h>

#include "base/clock.h"
#include "check.h"
#include "limit.h"
#include "net/loop.h"
#include "store/quota_lease.h"

#define DAY_0 (20000 * SL_DAY)

/* Books of one counter. */
struct world {
    struct sl_quota_lessor lessor; /* first */
    uint64_t used, leased, asked;
    bool slow; /* they answer when they are told to */
    bool away; /* they do not answer */
    struct sl_quota_ask *pending[8];
    unsigned count;
    sl_ns mono; /* moves when it is told to */
    struct sl_clock clock;
    struct sl_loop *loop;
    struct sl_store *store;
    struct sl_limit quota;
    struct sl_limit_binding stored;
};

static void answer(struct world *w, struct sl_quota_ask *ask)
{
    uint64_t left = ask->cap - w->used - w->leased;

    ask->err = w->away ? SLUICE_ESTORE : 0;
    if (w->away) {
        ask->done(ask);
        return;
    }
    w->leased -= ask->give;
    ask->terms = (struct sl_quota_lease_terms){.used = w->used};
    if (ask->want > 0 && ask->least <= left)
        ask->terms.granted = ask->want < left ? ask->want : left;
    w->leased += ask->terms.granted;
    ask->terms.leased = w->leased;
    ask->terms.found = w->leased > 0;
    ask->done(ask);
}

static void ask(struct sl_quota_lessor *lessor, struct sl_quota_ask *ask)
{
    struct world *w = (struct world *)lessor;

    w->asked++;
    if (w->slow && w->count < SL_LEN(w->pending))
        w->pending[w->count++] = ask;
    else
        answer(w, ask);
}

/* The books answer the question at `i`. */
static void answer_at(struct world *w, unsigned i)
{
    struct sl_quota_ask *ask = w->pending[i];

    if (!CHECK(i < w->count))
        return;
    w->count--;
    for (; i < w->count; i++)
        w->pending[i] = w->pending[i + 1];
    answer(w, ask);
}

static bool name(struct sl_quota_lessor *lessor, const struct sl_part *part,
                 struct sl_str *scope, struct sl_buf *id)
{
    (void)lessor;
    *scope = SL_STR("org");
    return !sl_buf_add(id, part->key);
}

static sl_ns read_steady(void *ctx)
{
    return ((struct world *)ctx)->mono;
}

static sl_ns read_wall(void *ctx)
{
    return DAY_0 + read_steady(ctx);
}

static void open_world(struct world *w)
{
    struct sl_quota_leases_options options = {
        .lessor = &w->lessor, .patience = SL_S, .mono = read_steady, .ctx = w};

    *w = (struct world){
        .lessor = {.ask = ask, .name = name},
          .mono = SL_HOUR
    };
    sl_clock_init_sources(&w->clock, read_wall, read_steady, w);
    w->quota = rate_of(SL_QUOTA, "100/day");
    if (sl_memory_open(&(struct sl_memory_options){.size = 1 << 20},
                       &options.store, NULL) ||
        sl_loop_open(&w->clock, &w->loop, NULL) ||
        sl_quota_leases_open(&options, &w->store))
        abort();
    w->stored =
        (struct sl_limit_binding){.name = "units", .strictest = w->quota};
    CHECK_EQ(sl_store_bind(w->store, &w->stored, 1, NULL), 0);
}

static void close_world(struct world *w)
{
    sl_store_close(w->store);
    sl_loop_close(w->loop);
}

/* ---- takes ---- */

struct op {
    struct sl_take take;
    struct sl_part part;
    bool done;
};

static void on_done(struct sl_take *take)
{
    ((struct op *)take->ctx)->done = true;
}

/* A take of `cost`; of 0: a check of a limit that reports charge. */
static void send_op(struct world *w, struct op *e, enum sl_take_op op,
                    uint64_t cost, sl_ns now)
{
    *e = (struct op){.done = false};
    e->part = (struct sl_part){.binding = &w->stored,
                               .limit = &w->quota,
                               .key = SL_STR("acme"),
                               .cost = cost,
                               .on_report = cost == 0,
                               .taken_at = now,
                               .view = (const void *)w};
    e->take = (struct sl_take){.op = op,
                               .parts = &e->part,
                               .count = 1,
                               .now = now,
                               .loop = w->loop,
                               .done = on_done,
                               .ctx = e};
    sl_store_take(w->store, &e->take);
}

static void send(struct world *w, struct op *e, uint64_t cost, sl_ns now)
{
    send_op(w, e, SL_TAKE_OP_TAKE, cost, now);
}

static bool is_allowed(const struct op *e)
{
    return e->done && !e->take.err && e->take.allowed;
}

/* ---- stopped within a turn ---- */

static void stop_within(void *ctx)
{
    struct world *w = ctx;
    struct op e;
    uint64_t asked;

    send(w, &e, 1, DAY_0);
    CHECK(is_allowed(&e));
    asked = w->asked;
    CASE("what is leased is used without asking");
    send(w, &e, 1, DAY_0);
    CHECK(is_allowed(&e));
    CHECK_EQ(w->asked, asked);
    CASE("after a stop in the middle of a turn the books are asked first");
    w->mono += 2 * SL_QUOTA_LEASE_ALIVE;
    w->used = 100; /* it was released, and others have taken all */
    w->leased = 0;
    send(w, &e, 1, DAY_0);
    CHECK(e.done && !e.take.err && !e.take.allowed);
    CHECK(w->asked > asked);
    sl_loop_stop(w->loop);
}

TEST(stop)
{
    struct world w;

    open_world(&w);
    CHECK_EQ(sl_loop_post(w.loop, stop_within, &w), 0);
    sl_loop_run(w.loop);
    close_world(&w);
}

/* ---- waiting ---- */

static void end_turn(void *ctx)
{
    struct world *w = ctx;

    sl_loop_stop(w->loop);
}

/* Timers that are due fire. */
static void run_turns(struct world *w)
{
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(sl_loop_post(w->loop, end_turn, w), 0);
        sl_loop_run(w->loop);
    }
}

TEST(deadline)
{
    struct op first, second;
    struct world w;

    open_world(&w);
    w.slow = true;
    send(&w, &first, 5, DAY_0);
    send(&w, &second, 90, DAY_0);
    CHECK_EQ(w.count, 1);
    CASE("a take that is woken and still short asks again");
    w.mono += SL_S;
    answer_at(&w, 0);
    CHECK(is_allowed(&first));
    CHECK(!second.done);
    CHECK_EQ(w.count, 1);
    CASE("with the deadline that it had");
    run_turns(&w);
    CHECK(second.done);
    CHECK_EQ(second.take.err, SLUICE_ESTORE);
    CHECK_EQ(w.count, 1);
    answer_at(&w, 0);
    close_world(&w);
}

/* ---- another day ---- */

TEST(next_day)
{
    struct op e, late;
    struct world w;

    open_world(&w);
    send(&w, &e, 5, DAY_0);
    CHECK(is_allowed(&e));
    w.slow = true;
    CASE("the new day is asked for, while the old is still given back");
    send(&w, &e, 1, DAY_0 + SL_DAY);
    CHECK(!e.done);
    CHECK_EQ(w.count, 2);
    CASE("a thread whose clock is behind waits until that is done");
    send(&w, &late, 1, DAY_0 + SL_DAY - SL_S);
    CHECK(!late.done);
    CHECK_EQ(w.count, 2);
    CASE("the answer about the new day is enough");
    for (unsigned i = 0; i < w.count; i++)
        if (w.pending[i]->give == 0) {
            answer_at(&w, i);
            break;
        }
    CHECK(is_allowed(&e));
    CHECK(!late.done);
    CASE("in the end all are answered");
    for (int i = 0; i < 9 && w.count > 0; i++)
        answer_at(&w, 0);
    CHECK(late.done);
    CHECK_EQ(w.count, 0);
    w.slow = false;
    sl_quota_leases_drain(w.store, w.loop, DAY_0 + SL_DAY);
    close_world(&w);
}

/* ---- limits that reports charge ---- */

static bool is_denied(const struct op *e)
{
    return e->done && !e->take.err && !e->take.allowed &&
           e->part.answer.outcome == SL_DENY;
}

static void check_left(struct world *w, bool passes, uint64_t left,
                       uint64_t asked)
{
    struct op e;

    asked += w->asked;
    send(w, &e, 0, DAY_0);
    CHECK(passes ? is_allowed(&e) : is_denied(&e));
    CHECK_EQ(e.part.answer.remaining, left);
    CHECK_EQ(e.part.answer.reset_in, SL_DAY);
    CHECK_EQ(e.part.answer.retry_in, passes ? SL_NS_NONE : SL_DAY);
    CHECK_EQ(w->asked, asked);
    CHECK_EQ(w->leased, 0);
}

TEST(on_report)
{
    struct world w;
    struct op e;

    open_world(&w);
    CASE("a check that takes nothing asks what is left, and leases nothing");
    w.used = 97;
    check_left(&w, true, 3, 1);
    CASE("it knows that for a moment");
    w.used = 98;
    check_left(&w, true, 3, 0);
    w.mono += 101 * SL_MS;
    check_left(&w, true, 2, 1);
    CASE("a report of this node counts at once");
    w.used = 99;
    send_op(&w, &e, SL_TAKE_OP_CHARGE, 1, DAY_0);
    check_left(&w, true, 1, 0);
    CASE("before a denial the books are asked; it stands for a moment");
    w.used = 100;
    send_op(&w, &e, SL_TAKE_OP_CHARGE, 1, DAY_0);
    check_left(&w, false, 0, 1);
    check_left(&w, false, 0, 0);
    w.mono += 101 * SL_MS;
    check_left(&w, false, 0, 1);
    CASE("a peek says the same");
    send_op(&w, &e, SL_TAKE_OP_PEEK, 0, DAY_0);
    CHECK(is_denied(&e));
    CASE("a report that was counted twice here denies nothing");
    w.used = 99; /* refunded elsewhere */
    w.mono += 101 * SL_MS;
    check_left(&w, true, 1, 1);
    send_op(&w, &e, SL_TAKE_OP_CHARGE, 1, DAY_0);
    check_left(&w, true, 1, 1);
    close_world(&w);
}

TEST(on_report_away)
{
    struct world w;
    struct op e;

    open_world(&w);
    CASE("without numbers the check fails");
    w.away = true;
    send(&w, &e, 0, DAY_0);
    CHECK(e.done);
    CHECK_EQ(e.take.err, SLUICE_ESTORE);
    CASE("numbers of the last seconds are good enough");
    w.away = false;
    w.used = 99;
    check_left(&w, true, 1, 1);
    w.away = true;
    w.mono += SL_QUOTA_LEASE_TRUST;
    send(&w, &e, 0, DAY_0);
    CHECK(is_allowed(&e));
    CASE("older ones are not");
    w.mono += SL_MS;
    send(&w, &e, 0, DAY_0);
    CHECK_EQ(e.take.err, SLUICE_ESTORE);
    CASE("nothing left is known for as long");
    w.away = false;
    w.used = 100;
    check_left(&w, false, 0, 1);
    w.away = true;
    w.mono += SL_QUOTA_LEASE_TRUST;
    send(&w, &e, 0, DAY_0);
    CHECK(is_denied(&e));
    CASE("a slow answer is used, too");
    w.away = false;
    w.slow = true;
    send(&w, &e, 0, DAY_0);
    CHECK(!e.done);
    w.mono += 500 * SL_MS;
    w.used = 50;
    answer_at(&w, 0);
    CHECK(is_allowed(&e));
    CHECK_EQ(e.part.answer.remaining, 50);
    w.slow = false;
    close_world(&w);
}

TEST(machine)
{
    sl_ns before = sl_clock_mono();

    CASE("the machine's own clock goes on");
    CHECK(before > 0);
    CHECK(sl_clock_mono() >= before);
}

CHECK_MAIN()
