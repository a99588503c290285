/* combined.c -- the combined store without memory: the nth allocation of an
 * open, a take, a hold or its end fails, and no part is taken alone. */
#include "store/combined.h"

#include "fail.h"
#include "limit.h"
#include "table/table.h"

#define DAY_0 (20000 * SL_DAY)

struct world {
    struct fail fail;
    struct sl_alloc alloc;
    struct sl_store *tables[2], *store;
    struct sl_limit_binding bindings[2]; /* a quota, a window */
    unsigned done;
};

static void on_done(struct sl_take *take)
{
    ((struct world *)take->ctx)->done++;
}

static void on_ended(struct sl_hold_call *call)
{
    ((struct world *)call->ctx)->done++;
}

/* Opens two tables, of which the second stands for the remote store. */
static void open_tables(struct world *w)
{
    struct sl_memory_options options = {.size = 1 << 20};

    w->bindings[0] =
        (struct sl_limit_binding){.name = "quota",
                                  .strictest = rate_of(SL_QUOTA, "10/month"),
                                  .quota_leased = true};
    w->bindings[1] = (struct sl_limit_binding){
        .name = "window", .strictest = rate_of(SL_FIXED, "10/hour")};
    for (unsigned i = 0; i < 2; i++)
        CHECK_EQ(sl_memory_open(&options, &w->tables[i], NULL), 0);
}

static int open_world(struct world *w, unsigned nth)
{
    struct sl_combined_options options = {.alloc = &w->alloc};
    int err;

    *w = (struct world){.fail = {.nth = nth}};
    w->alloc = fail_alloc(&w->fail);
    open_tables(w);
    options.local = w->tables[0];
    options.remote = w->tables[1];
    err = sl_combined_store_open(&options, &w->store);
    if (!err)
        return sl_store_bind(w->store, w->bindings, 2, NULL);
    CHECK_EQ(err, SLUICE_ENOMEM);
    sl_store_close(w->tables[0]);
    sl_store_close(w->tables[1]);
    return err;
}

/* Takes 3 of both limits, or looks. */
static struct sl_take take(struct world *w, enum sl_take_op op, bool is_hold,
                           uint64_t left[2])
{
    struct sl_part parts[2];
    struct sl_take t = {.op = op,
                        .parts = parts,
                        .count = 2,
                        .now = DAY_0,
                        .done = on_done,
                        .ctx = w};

    for (unsigned i = 0; i < 2; i++)
        parts[i] = (struct sl_part){.binding = &w->bindings[i],
                                    .limit = &w->bindings[i].strictest,
                                    .key = SL_STR("acme"),
                                    .op = op,
                                    .cost = op == SL_TAKE_OP_PEEK ? 0 : 3};
    if (is_hold) {
        t.hold = (struct sl_hold_id){
            {1, 2}
        };
        t.hold_for = SL_S;
    }
    w->done = 0;
    sl_store_take(w->store, &t);
    CHECK_EQ(w->done, 1);
    for (unsigned i = 0; i < 2; i++)
        left[i] = parts[i].answer.remaining;
    return t;
}

static void check_left(struct world *w, uint64_t want)
{
    uint64_t left[2];

    w->fail.nth = 0;
    CHECK_EQ(take(w, SL_TAKE_OP_PEEK, false, left).err, 0);
    CHECK_EQ(left[0], want);
    CHECK_EQ(left[1], want);
}

static int end_hold(struct world *w, uint32_t place)
{
    struct sl_hold_call call = {.op = SL_HOLD_SETTLE,
                                .id = {{1, 2}},
                                .place = place,
                                .limits = w->bindings,
                                .limits_count = 2,
                                .cost = 1,
                                .now = DAY_0,
                                .done = on_ended,
                                .ctx = w};

    w->done = 0;
    sl_store_hold(w->store, &call);
    CHECK_EQ(w->done, 1);
    return call.err;
}

static void close_world(struct world *w)
{
    sl_store_close(w->store);
    fail_check(&w->fail);
}

static void test_open_and_take(void)
{
    unsigned refused = 0, failed = 0;
    struct world w;

    CASE("an open or a take without memory takes no part");
    for (unsigned nth = 1; nth < 4; nth++) {
        uint64_t left[2];
        struct sl_take t;

        if (open_world(&w, nth)) {
            fail_check(&w.fail);
            refused++;
            continue;
        }
        t = take(&w, SL_TAKE_OP_TAKE, false, left);
        CHECK_EQ(t.err, SLUICE_ESTORE);
        CHECK(!t.allowed && !t.sent && t.taken == 0);
        failed++;
        check_left(&w, 10);
        CHECK(take(&w, SL_TAKE_OP_TAKE, false, left).allowed);
        check_left(&w, 7);
        close_world(&w);
    }
    CHECK_EQ(refused, 2);
    CHECK_EQ(failed, 1);
}

static void test_hold(void)
{
    struct sl_take t;
    struct world w;
    uint64_t left[2];

    CASE("a hold without memory takes no part");
    CHECK_EQ(open_world(&w, 3), 0);
    t = take(&w, SL_TAKE_OP_TAKE, true, left);
    CHECK_EQ(t.err, SLUICE_ESTORE);
    CHECK(!t.allowed);
    check_left(&w, 10);
    t = take(&w, SL_TAKE_OP_TAKE, true, left);
    CHECK(t.err == 0 && t.allowed);
    check_left(&w, 7);
    CASE("a hold that has memory again ends once");
    CHECK_EQ(end_hold(&w, t.place), 0);
    check_left(&w, 9);
    close_world(&w);
}

int main(void)
{
    test_open_and_take();
    test_hold();
    return CHECK_DONE();
}
