/* quota_leases.c -- the table behind leases: what is asked of the books, what
 * is shown, and what happens when they do not answer or memory runs out. */
#include <string.h>

#include "fail.h"
#include "limit.h"
#include "net/loop.h"
#include "store/quota_lease.h"

#define DAY_0 (20000 * SL_DAY)

/* Books of one counter, for one node. */
struct books {
    struct sl_quota_lessor lessor; /* first */
    uint64_t order;                /* of answers, if not 0 */
    struct sl_quota_ask *kept;     /* an answer that is late */
    bool keeps;
    uint64_t used, leased, spent, asked, given;
    uint64_t elsewhere; /* leased to other nodes */
    bool away, nameless;
    unsigned looks, emptied;
};

static void ask(struct sl_quota_lessor *lessor, struct sl_quota_ask *ask)
{
    struct books *b = (struct books *)lessor;
    uint64_t out = b->used + b->leased + b->elsewhere;
    uint64_t left = ask->cap > out ? ask->cap - out : 0;

    b->asked++;
    ask->err = b->away ? SLUICE_ESTORE : 0;
    if (!b->away && ask->give > 0) {
        b->leased -= ask->give;
        b->given += ask->give;
    } else if (!b->away) {
        ask->terms = (struct sl_quota_lease_terms){
            .order = b->order, .used = b->used, .spent = b->spent};
        if (ask->want > 0 && ask->least <= left)
            ask->terms.granted = ask->want < left        ? ask->want
                                 : left / 4 > ask->least ? left / 4
                                                         : ask->least;
        b->leased += ask->terms.granted;
        ask->terms.leased = b->leased;
        ask->terms.found = b->leased > 0;
        ask->terms.no_row = b->leased == 0;
        if (b->leased == 0)
            ask->terms.spent = 0; /* there is no row */
    }
    if (b->keeps)
        b->kept = ask;
    else
        ask->done(ask);
}

static bool name(struct sl_quota_lessor *lessor, const struct sl_part *part,
                 struct sl_str *scope, struct sl_buf *id)
{
    *scope = SL_STR("org");
    return !((struct books *)lessor)->nameless && !sl_buf_add(id, part->key);
}

static bool look(struct sl_quota_lessor *lessor, const struct sl_quota_ask *who,
                 uint64_t *ret)
{
    (void)who;
    (void)ret;
    ((struct books *)lessor)->looks++;
    return false;
}

static void empty(struct sl_quota_lessor *lessor,
                  const struct sl_quota_ask *who)
{
    CHECK_EQ(who->start, 0);
    ((struct books *)lessor)->emptied++;
}

struct world {
    struct books books;
    struct fail f;
    struct sl_alloc alloc;
    struct sl_loop *loop;
    struct sl_store *store;
    struct sl_limit quota, bucket;
    struct sl_limit_binding stored[2];
    struct sl_part parts[2];
    struct sl_take take;
    uint64_t order; /* of the report, if it is one */
    unsigned done;
};

static bool open_world(struct world *w)
{
    struct sl_quota_leases_options options = {
        .lessor = &w->books.lessor, .alloc = &w->alloc, .patience = SL_S};
    struct sl_store *memory = NULL;

    w->alloc = fail_alloc(&w->f);
    w->books = (struct books){
        .lessor = {.ask = ask, .name = name, .count = look, .empty = empty}
    };
    w->quota = rate_of(SL_QUOTA, "100/month");
    w->bucket = rate_of(SL_BUCKET, "5/hour");
    if (sl_memory_open(&(struct sl_memory_options){.size = 1 << 20}, &memory,
                       NULL) ||
        sl_loop_open(NULL, &w->loop, NULL))
        abort();
    options.store = memory;
    if (sl_quota_leases_open(&options, &w->store)) {
        sl_store_close(memory);
        sl_loop_close(w->loop);
        return false;
    }
    w->stored[0] =
        (struct sl_limit_binding){.name = "units", .strictest = w->quota};
    w->stored[1] =
        (struct sl_limit_binding){.name = "rate", .strictest = w->bucket};
    CHECK_EQ(sl_store_bind(w->store, w->stored, 2, NULL), 0);
    return true;
}

static void close_world(struct world *w)
{
    sl_store_close(w->store);
    sl_loop_close(w->loop);
    fail_check(&w->f);
}

static void on_done(struct sl_take *take)
{
    ((struct world *)take->ctx)->done++;
}

/* One take of `cost` units, and of one token if `both`. */
static bool act(struct world *w, enum sl_take_op op, uint64_t cost, bool both)
{
    unsigned done = w->done;

    memset(w->parts, 0, sizeof(w->parts));
    w->parts[0] = (struct sl_part){.binding = &w->stored[0],
                                   .limit = &w->quota,
                                   .key = SL_STR("acme"),
                                   .cost = cost,
                                   .taken_at = DAY_0,
                                   .view = (const void *)w};
    w->parts[1] = (struct sl_part){.binding = &w->stored[1],
                                   .limit = &w->bucket,
                                   .key = SL_STR("ann"),
                                   .cost = 1};
    w->take = (struct sl_take){.op = op,
                               .parts = w->parts,
                               .count = both ? 2 : 1,
                               .now = DAY_0,
                               .order = w->order,
                               .loop = w->loop,
                               .done = on_done,
                               .ctx = w};
    sl_store_take(w->store, &w->take);
    CHECK_EQ(w->done, done + 1);
    return !w->take.err && w->take.allowed;
}

static uint64_t shown(const struct world *w)
{
    return w->parts[0].answer.remaining;
}

TEST_WITH(taking, struct world *w)
{
    uint64_t asked;

    CASE("a lease is asked for, and then used without asking");
    CHECK(act(w, SL_TAKE_OP_TAKE, 2, false));
    CHECK_EQ(w->books.asked, 1);
    CHECK_EQ(w->books.leased, 8);
    CHECK_EQ(shown(w), 98);
    CHECK_EQ(w->parts[0].answer.limit, 100);
    asked = w->books.asked;
    CHECK(act(w, SL_TAKE_OP_TAKE, 2, false));
    CHECK_EQ(w->books.asked, asked);
    CASE("a look takes nothing");
    CHECK(act(w, SL_TAKE_OP_PEEK, 96, false));
    CHECK(!act(w, SL_TAKE_OP_PEEK, 97, false));
    CHECK_EQ(w->parts[0].answer.outcome, SL_DENY);
    CHECK_EQ(shown(w), 96);
    CASE("what another limit refuses is not taken");
    for (int i = 0; i < 5; i++)
        CHECK(act(w, SL_TAKE_OP_TAKE, 1, true));
    CHECK(!act(w, SL_TAKE_OP_TAKE, 1, true));
    CHECK_EQ(w->parts[0].answer.outcome, SL_ALLOW);
    CHECK_EQ(shown(w), 91);
    CASE("a report counts at once, and is not in the cell");
    w->books.used += 10;
    CHECK(act(w, SL_TAKE_OP_CHARGE, 10, false));
    CHECK_EQ(shown(w), 81);
    CHECK(act(w, SL_TAKE_OP_REFUND, 4, false));
    w->books.used -= 4;
    CHECK_EQ(shown(w), 85);
    CASE("what the limit can never hold is told so");
    CHECK(!act(w, SL_TAKE_OP_TAKE, 101, false));
    CHECK_EQ(w->parts[0].answer.outcome, SL_NEVER);
}

TEST_WITH(carried, struct world *w)
{
    uint64_t asked = w->books.asked;

    CASE("a limit to which others carry is not leased, by any take");
    w->stored[0].carried = true;
    CHECK(act(w, SL_TAKE_OP_TAKE, 0, false));
    CHECK(!act(w, SL_TAKE_OP_TAKE, 100, false)); /* what the cell has */
    CHECK_EQ(w->books.asked, asked);
    w->stored[0].carried = false;
}

TEST_WITH(end, struct world *w)
{
    unsigned passed = 0;
    uint64_t asked;

    CASE("all of it is given out");
    while (passed < 200 && act(w, SL_TAKE_OP_TAKE, 1, false))
        passed++;
    CHECK_EQ(passed, 85);
    CHECK_EQ(w->parts[0].answer.outcome, SL_DENY);
    CHECK_EQ(w->parts[0].answer.retry_in, w->parts[0].answer.reset_in);
    CHECK_EQ(shown(w), 0);
    CASE("and then the books are left in peace for a moment");
    asked = w->books.asked;
    CHECK(!act(w, SL_TAKE_OP_TAKE, 1, false));
    CHECK_EQ(w->books.asked, asked);
    CASE("a reset begins anew, when the books have heard of it");
    w->books.used += w->books.leased;
    w->books.spent += w->books.leased;
    w->books.leased = 0;
    CHECK(act(w, SL_TAKE_OP_RESET, 0, false));
    w->books.used = 0;
    CHECK(act(w, SL_TAKE_OP_TAKE, 1, false));
    CHECK_EQ(shown(w), 99);
}

TEST_WITH(outage, struct world *w)
{
    struct sl_quota_leases_counts counts;
    uint64_t asked;

    CASE("while the books are away what is leased passes, and no more");
    w->books.away = true;
    CHECK(act(w, SL_TAKE_OP_TAKE, 1, false));
    CHECK(!act(w, SL_TAKE_OP_TAKE, 50, false));
    CHECK_EQ(w->take.err, SLUICE_ESTORE);
    CHECK(act(w, SL_TAKE_OP_PEEK, 50, false));
    CASE("meanwhile nothing is given back, and one question in a second asks");
    asked = w->books.asked;
    for (int i = 0; i < 3; i++)
        sl_quota_leases_heartbeat(w->store, w->loop, DAY_0);
    CHECK_EQ(w->books.asked, asked + 3);
    CHECK_EQ(w->books.given, 0);
    CHECK(act(w, SL_TAKE_OP_TAKE, 1, false));
    CASE("what can't be given back is kept");
    sl_quota_leases_drain(w->store, w->loop, DAY_0);
    CHECK_EQ(w->books.given, 0);
    sl_quota_leases_count(w->store, &counts);
    CHECK_EQ(counts.keys, 1);
    CHECK_EQ(counts.unspent, w->books.leased - 3);
    w->books.away = false;
    sl_quota_leases_heartbeat(w->store, w->loop, DAY_0);
    CASE("and given back later");
    sl_quota_leases_drain(w->store, w->loop, DAY_0);
    CHECK_EQ(w->books.given, counts.unspent);
    sl_quota_leases_heartbeat(w->store, w->loop, DAY_0);
    sl_quota_leases_heartbeat(w->store, w->loop, DAY_0);
    sl_quota_leases_count(w->store, &counts);
    CHECK_EQ(counts.keys, 0);
    CASE("who has no name can't lease");
    w->books.nameless = true;
    CHECK(!act(w, SL_TAKE_OP_TAKE, 1, false));
    CHECK_EQ(w->take.err, SLUICE_ESTORE);
}

static void on_held(struct sl_hold_call *call)
{
    CHECK_EQ(call->err, 0);
}

/* Hold one unit for an hour. */
static void hold_one(struct world *w)
{
    act(w, SL_TAKE_OP_TAKE, 1, false); /* so that its parts are there */
    w->take.hold.w[0]++;
    w->take.hold_for = SL_HOUR;
    sl_store_take(w->store, &w->take);
    CHECK(w->take.allowed);
}

static uint64_t keys_of(struct world *w)
{
    struct sl_quota_leases_counts counts;

    sl_quota_leases_count(w->store, &counts);
    return counts.keys;
}

TEST_WITH(holds, struct world *w)
{
    struct sl_hold_call call = {
        .op = SL_HOLD_SETTLE, .release = true, .now = DAY_0, .done = on_held};

    CASE("what is held is looked at when a hold has ended");
    w->books = (struct books){.lessor = w->books.lessor};
    hold_one(w);
    for (int i = 0; i < 5; i++)
        sl_quota_leases_heartbeat(w->store, w->loop, DAY_0 + SL_S);
    CHECK_EQ(w->books.looks, 0);
    CHECK_EQ(keys_of(w), 1);
    call.id = w->take.hold;
    call.place = w->take.place;
    sl_store_hold(w->store, &call);
    for (int i = 0; i < 5; i++)
        sl_quota_leases_heartbeat(w->store, w->loop, DAY_0 + SL_S);
    CHECK_EQ(w->books.looks, 1);
    CASE("an hour later none is left, unless it was extended");
    call.op = SL_HOLD_EXTEND;
    call.hold_for = 2 * SL_HOUR;
    sl_store_hold(w->store, &call);
    sl_quota_leases_heartbeat(w->store, w->loop, DAY_0 + SL_HOUR);
    sl_quota_leases_heartbeat(w->store, w->loop, DAY_0 + SL_HOUR);
    CHECK_EQ(keys_of(w), 1);
    sl_quota_leases_heartbeat(w->store, w->loop, DAY_0 + 2 * SL_HOUR);
    sl_quota_leases_heartbeat(w->store, w->loop, DAY_0 + 2 * SL_HOUR);
    CHECK_EQ(w->books.looks, 2);
    CHECK_EQ(keys_of(w), 0);
}

/* An answer or a failure, and nothing lost: the books know of every unit. */
static void test_memory(void)
{
    unsigned n, calls = 100;

    CASE("the nth allocation fails");
    for (n = 1; n <= calls && n < 100; n++) {
        struct world w = {.f = {.nth = n}};
        uint64_t taken = 0;

        if (!open_world(&w))
            continue;
        for (int i = 0; i < 12; i++)
            taken += act(&w, SL_TAKE_OP_TAKE, 3, false) ? 3 : 0;
        sl_quota_leases_heartbeat(w.store, w.loop, DAY_0);
        sl_quota_leases_drain(w.store, w.loop, DAY_0);
        sl_quota_leases_drain(w.store, w.loop, DAY_0);
        CHECK_EQ(w.books.leased, taken);
        calls = w.f.calls;
        close_world(&w);
    }
    printf("# %u allocations\n", n);
    CHECK(n > 5 && n < 100);
}

static void test_without_a_cap(void)
{
    struct world w = {.done = 0};
    struct sl_limit capped;

    CHECK(open_world(&w));
    capped = w.quota;
    w.quota.count = w.quota.capacity = SL_AMOUNT_MAX;
    sl_limit_derive(&w.quota);
    CASE("units without a cap are leased: the books know of each at once");
    CHECK(act(&w, SL_TAKE_OP_TAKE, 3, false));
    CHECK_EQ(w.books.leased, 3); /* no more than is needed, at first */
    CHECK(act(&w, SL_TAKE_OP_TAKE, 97, false));
    CHECK(w.books.leased >= 100);
    CASE("so the cap of another plan denies before anything was recorded");
    w.quota = capped;
    CHECK(!act(&w, SL_TAKE_OP_TAKE, 1, false));
    CHECK_EQ(w.take.err, 0);
    CHECK_EQ(w.parts[0].answer.outcome, SL_DENY);
    CASE("while the books are away usage without a cap goes beyond the lease");
    w.quota.count = w.quota.capacity = SL_AMOUNT_MAX;
    w.books.away = true;
    CHECK(act(&w, SL_TAKE_OP_TAKE, 1000, false));
    CHECK(w.parts[0].unleased);
    CASE("and is not in the cell, which has what is leased");
    w.parts[0].view = NULL;
    w.take.op = SL_TAKE_OP_PEEK;
    sl_store_take(w.store, &w.take);
    CHECK_EQ(SL_AMOUNT_MAX - shown(&w), 100);
    CHECK(act(&w, SL_TAKE_OP_TAKE, 1, false));
    CHECK(!w.parts[0].unleased);
    close_world(&w);
}

/* The books record what was taken here. */
static void put_down(struct world *w, uint64_t units)
{
    w->books.used += units;
    w->books.spent += units;
    w->books.leased -= units;
}

static void test_level(void)
{
    struct world w = {.done = 0};
    unsigned passed = 0;

    CHECK(open_world(&w));
    w.quota = w.stored[0].strictest = rate_of(SL_LEVEL, "10");
    w.stored[0].name = "things";
    CHECK_EQ(sl_store_bind(w.store, w.stored, 1, NULL), 0);
    CASE("units of a level are leased");
    while (passed < 20 && act(&w, SL_TAKE_OP_TAKE, 1, false))
        passed++;
    CHECK_EQ(passed, 10);
    CHECK_EQ(w.books.leased, 10);
    CHECK_EQ(w.parts[0].answer.outcome, SL_DENY);
    CHECK_EQ(w.parts[0].answer.retry_in, SL_NS_NONE);
    CASE("it falls by a report, and rises again, any number of times");
    put_down(&w, 10);
    for (int i = 0; i < 5; i++) {
        w.books.used -= 4;
        CHECK(act(&w, SL_TAKE_OP_REFUND, 4, false));
        CHECK_EQ(shown(&w), 4);
        for (int k = 0; k < 4; k++)
            CHECK(act(&w, SL_TAKE_OP_TAKE, 1, false));
        CHECK(!act(&w, SL_TAKE_OP_TAKE, 1, false));
        put_down(&w, w.books.leased);
    }
    CHECK_EQ(w.books.used, 10);
    CASE("what others have leased may come back in two seconds");
    w.books.used -= 3;
    w.books.elsewhere = 3;
    CHECK(act(&w, SL_TAKE_OP_REFUND, 3, false));
    CHECK(!act(&w, SL_TAKE_OP_TAKE, 1, false));
    CHECK_EQ(w.take.err, 0);
    CHECK_EQ(w.parts[0].answer.retry_in, 2 * SL_S);
    CASE("its cell is emptied when nothing is leased, which is asked once");
    w.books.elsewhere = 0;
    w.books.used--;
    CHECK(act(&w, SL_TAKE_OP_REFUND, 1, false));
    CHECK(act(&w, SL_TAKE_OP_TAKE, 3, false));
    put_down(&w, 3);
    sl_quota_leases_heartbeat(w.store, w.loop, DAY_0 + 4000 * SL_DAY);
    CHECK_EQ(w.books.emptied, 0);
    for (int i = 0; i < 4; i++)
        sl_quota_leases_heartbeat(w.store, w.loop, DAY_0 + 4000 * SL_DAY);
    CHECK_EQ(w.books.emptied, 1);
    CHECK_EQ(keys_of(&w), 0);
    close_world(&w);
}

/* Asks, and keeps the answer: what the books know now. */
static void keep_answer(struct world *w, uint64_t order)
{
    w->books.order = order;
    w->books.keeps = true;
    sl_quota_leases_heartbeat(w->store, w->loop, DAY_0);
    w->books.keeps = false;
    CHECK(w->books.kept != NULL);
}

/* A report of `amount` that the books have recorded. */
static void record(struct world *w, int64_t amount)
{
    w->books.used += (uint64_t)amount;
}

/* The table hears of it. */
static void hear(struct world *w, int64_t amount, uint64_t order)
{
    w->order = order;
    CHECK(act(w, amount < 0 ? SL_TAKE_OP_REFUND : SL_TAKE_OP_CHARGE,
              (uint64_t)(amount < 0 ? -amount : amount), false));
    w->order = 0;
}

/* The next question waits for its answer, which is delivered later. */
static void test_order(void)
{
    struct world w = {.done = 0};

    CHECK(open_world(&w));
    w.books.order = 1;
    CHECK(act(&w, SL_TAKE_OP_TAKE, 1, false));
    CASE("a refund that is in an answer already is not counted twice");
    record(&w, 50);
    hear(&w, 50, 2);
    CHECK_EQ(shown(&w), 49);
    w.books.away = true; /* so that the next heartbeat asks */
    CHECK(!act(&w, SL_TAKE_OP_TAKE, 40, false));
    w.books.away = false;
    record(&w, -10);
    keep_answer(&w, 4);
    w.books.kept->done(w.books.kept); /* it has the refund, with order 3 */
    hear(&w, -10, 3);
    CHECK_EQ(shown(&w), 59);
    CASE("a report that an answer does not have yet stays");
    w.books.away = true;
    CHECK(!act(&w, SL_TAKE_OP_TAKE, 40, false));
    w.books.away = false;
    keep_answer(&w, 5);
    record(&w, 9);
    hear(&w, 9, 6);
    CHECK_EQ(shown(&w), 50);
    w.books.kept->done(w.books.kept); /* from before the report */
    CHECK(act(&w, SL_TAKE_OP_PEEK, 0, false));
    CHECK_EQ(shown(&w), 50);
    close_world(&w);
}

int main(void)
{
    struct world w = {.done = 0};

    CHECK(open_world(&w));
    RUN_TESTS_WITH(&w);
    close_world(&w);
    test_without_a_cap();
    test_level();
    test_order();
    test_memory();
    return CHECK_DONE();
}
