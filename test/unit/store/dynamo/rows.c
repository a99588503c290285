/* rows.c -- takes and their rows: what is counted, leased and given back. */
#include "store/dynamo/dynamo_int.h"

#include "check.h"
#include "fail.h"
#include "limit.h"

#define T0 (20000 * SL_DAY)

struct world {
    struct sl_row_set set;
    struct sl_limit limit;
    struct sl_part part;
    struct sl_take take;
};

static void open_world(struct world *w, enum sl_kind kind, const char *text,
                       const struct sl_alloc *alloc)
{
    memset(w, 0, sizeof(*w));
    w->limit = rate_of(kind, text);
    sl_buf_init(&w->set.names, 4096, alloc);
    w->part = (struct sl_part){
        .limit = &w->limit, .name = SL_STR("k"), .cost = 3, .taken_at = T0};
    w->take =
        (struct sl_take){.op = SL_TAKE_OP_TAKE, .parts = &w->part, .count = 1};
}

/* ---- how long rows last ---- */

static void test_ttl(void)
{
    static const struct {
        enum sl_kind kind;
        const char *rate;
        uint64_t lasts; /* seconds, from the take on */
    } rows[] = {
  /* clang-format off */
        {SL_FIXED, "10/hour", 3600 + 3600},
        {SL_BUCKET, "10/hour", 3 * 360 + 3601},
        {SL_SLIDING, "10/hour", 2 * 3600 + 3601},
        {SL_QUOTA, "10/day", 86400 + 3601},
        {SL_LEVEL, "10", 0},
  /* clang-format on */
    };

    for (size_t i = 0; i < SL_LEN(rows); i++) {
        struct world w;
        struct sl_row *row = &w.set.rows[0];

        CASE("a row lasts an hour longer than it means something");
        open_world(&w, rows[i].kind, rows[i].rate, &sl_alloc_libc);
        CHECK_EQ(sl_row_set_fill(&w.set, &w.take, T0), 0);
        CHECK(sl_row_set_judge(&w.set));
        CHECK_EQ(row->ttl, rows[i].lasts ? T0 / SL_S + rows[i].lasts : 0);

        CASE("what gives back leaves that alone");
        row->found = true;
        row->cell = row->next;
        sl_row_set_invert(&w.set, T0);
        CHECK(sl_row_set_judge(&w.set));
        CHECK(row->changed);
        CHECK_EQ(row->ttl > 0, rows[i].kind == SL_FIXED);
        sl_buf_done(&w.set.names);
    }
}

/* ---- counting without a look ---- */

static void test_counts(void)
{
    static const struct {
        const char *why;
        enum sl_take_op op;
        uint64_t cost;
        struct sl_row_lease lease;
        bool counts;
        struct sl_row_count want;
    } rows[] = {
  /* clang-format off */
        {"a take", SL_TAKE_OP_TAKE, 3, {0}, true, {3, 0, 7}},
        {"one of all", SL_TAKE_OP_TAKE, 10, {0}, true, {10, 0, 0}},
        {"too much", SL_TAKE_OP_TAKE, 11, {0}, false, {0}},
        {"a look", SL_TAKE_OP_TAKE, 0, {0}, false, {0}},
        {"with a lease", SL_TAKE_OP_TAKE, 3, {.want = 4}, true, {7, 0, 3}},
        {"of all that may be", SL_TAKE_OP_TAKE, 3, {.want = 9}, true,
         {10, 0, 0}},
        {"and the rest of another", SL_TAKE_OP_TAKE, 1,
         {.want = 4, .back = 2, .taken = T0}, true, {3, 2, 7}},
        {"which is more", SL_TAKE_OP_TAKE, 1, {.back = 2, .taken = T0}, true,
         {-1, 2, 11}},
        {"of a window that is over", SL_TAKE_OP_TAKE, 1,
         {.back = 2, .taken = T0 - 1}, true, {1, 0, 9}},
        {"what goes back", SL_TAKE_OP_REFUND, 3, {0}, true,
         {-3, 3, SL_AMOUNT_MAX}},
        {"a charge is looked at", SL_TAKE_OP_CHARGE, 3, {0}, false, {0}},
  /* clang-format on */
    };

    for (unsigned i = 0; i < SL_LEN(rows); i++) {
        struct sl_row_count count;
        struct world w;

        CASE(rows[i].why);
        open_world(&w, SL_FIXED, "10/hour", &sl_alloc_libc);
        w.take.op = rows[i].op;
        w.part.cost = rows[i].cost;
        CHECK_EQ(sl_row_set_fill(&w.set, &w.take, T0), 0);
        w.set.lease[0] = rows[i].lease;
        CHECK_EQ(sl_row_set_is_count(&w.set), rows[i].counts);
        if (rows[i].counts) {
            count = sl_row_set_count(&w.set);
            CHECK_EQ(count.add, rows[i].want.add);
            CHECK_EQ(count.least, rows[i].want.least);
            CHECK_EQ(count.most, rows[i].want.most);
        }
        sl_buf_done(&w.set.names);
    }
}

/* ---- clocks ---- */

/* A take of one by a machine whose clock shows `now`. */
static bool take_at(struct world *w, struct sl_cell *cell, sl_ns now)
{
    bool allowed;

    sl_buf_clear(&w->set.names);
    CHECK_EQ(sl_row_set_fill(&w->set, &w->take, now), 0);
    w->set.rows[0].found = true;
    w->set.rows[0].cell = *cell;
    allowed = sl_row_set_judge(&w->set);
    *cell = w->set.rows[0].next;
    return allowed;
}

static void test_clocks(void)
{
    static const enum sl_kind kinds[] = {SL_BUCKET, SL_SLIDING, SL_INTERVAL};

    for (unsigned i = 0; i < SL_LEN(kinds); i++) {
        struct sl_cell cell = sl_cell_of(0, 0);
        unsigned passed = 0;
        struct world w;

        CASE("two machines whose clocks differ refill nothing twice");
        open_world(&w, kinds[i], "100/s", &sl_alloc_libc);
        w.part.cost = 1;
        for (sl_ns at = 0; at < SL_S; at += SL_MS) {
            passed += take_at(&w, &cell, T0 + at);
            passed += take_at(&w, &cell, T0 + at + 900 * SL_MS);
        }
        printf("# %u passed\n", passed);
        CHECK(passed <= 100 + 100 * 19 / 10);
        sl_buf_done(&w.set.names);
    }
}

static void test_step_back(void)
{
    struct sl_cell cell = sl_cell_of(0, 0);
    struct world w;

    CASE("a daemon whose clock is behind gets times of its clock");
    open_world(&w, SL_BUCKET, "2/s", &sl_alloc_libc);
    w.part.cost = 2;
    CHECK(take_at(&w, &cell, T0));
    CHECK(!take_at(&w, &cell, T0 - 2 * SL_S));
    CHECK_EQ(w.set.parts[0].answer.retry_in, 3 * SL_S);
    CHECK_EQ(w.set.parts[0].answer.reset_in, 3 * SL_S);
    CHECK_EQ(cell.w[0], (uint64_t)T0);

    CASE("further back it is a step, which waits no longer than a refill");
    CHECK(!take_at(&w, &cell, T0 - 2 * SL_S - 1));
    CHECK_EQ(w.set.parts[0].answer.retry_in, SL_S);
    CHECK(!take_at(&w, &cell, T0 - SL_S - 2));
    CHECK(take_at(&w, &cell, T0 - SL_S - 1));
    sl_buf_done(&w.set.names);
}

/* ---- leases ---- */

/* `used` of ten, a take of 3, and a lease: what it has, and what is used then.
 */
static void test_leases(void)
{
    static const struct {
        const char *why;
        enum sl_kind kind;
        uint64_t used;
        struct sl_row_lease lease;
        bool allowed;
        uint64_t has, then;
    } rows[] = {
  /* clang-format off */
        {"as much as is wanted", SL_FIXED, 1, {.want = 4}, true, 4, 8},
        {"or as there is", SL_FIXED, 5, {.want = 4}, true, 2, 10},
        {"or nothing", SL_FIXED, 7, {.want = 4}, true, 0, 10},
        {"a denied take gets none", SL_FIXED, 8, {.want = 4}, false, 0, 8},
        {"but gives back", SL_FIXED, 9, {.back = 1, .taken = T0}, false, 0, 8},
        {"and passes by that", SL_FIXED, 9,
         {.want = 4, .back = 4, .taken = T0}, true, 2, 10},
        {"a quota, too", SL_QUOTA, 9, {.want = 4, .back = 4, .taken = T0}, true,
         2, 10},
        {"not of a window that is over", SL_FIXED, 9,
         {.back = 4, .taken = T0 - 1}, false, 0, 9},
        {"half of what a bucket has", SL_BUCKET, 1, {.want = 9}, true, 3, 7},
        {"an interval", SL_INTERVAL, 9, {.back = 4, .taken = T0}, true, 0, 8},
        {"that is over has got it back", SL_INTERVAL, 9,
         {.back = 4, .taken = T0 - 1}, false, 0, 9},
  /* clang-format on */
    };

    for (unsigned i = 0; i < SL_LEN(rows); i++) {
        struct sl_row *row;
        struct world w;

        CASE(rows[i].why);
        open_world(&w, rows[i].kind, "10/day", &sl_alloc_libc);
        CHECK_EQ(sl_row_set_fill(&w.set, &w.take, T0), 0);
        row = &w.set.rows[0];
        row->found = true;
        row->cell = sl_take(&w.limit, sl_cell_of(0, 0), rows[i].used, T0).next;
        w.set.lease[0] = rows[i].lease;
        CHECK_EQ(sl_row_set_judge(&w.set), rows[i].allowed);
        CHECK_EQ(w.set.lease[0].has, rows[i].has);
        CHECK_EQ(10 - sl_take(&w.limit, row->next, 0, T0).answer.remaining,
                 rows[i].then);
        sl_buf_done(&w.set.names);
    }
}

/* A row that was written later than the rest was counted: the bucket has got
 * some of it back meanwhile. */
static void test_rest(void)
{
    struct sl_lease_rest rest = {.name = SL_STR("k"), .amount = 4, .taken = T0};
    struct world w;
    unsigned nth = 0;
    int err;

    open_world(&w, SL_BUCKET, "10/s", &sl_alloc_libc);
    rest.limit = w.limit;
    for (unsigned late = 0; late < 6; late++) {
        sl_ns at = T0 + SL_MS * 100 * late;

        CASE("what is left of a lease goes back, less what was refilled");
        sl_buf_clear(&w.set.names);
        CHECK_EQ(sl_row_set_fill_rest(&w.set, &rest, T0), 0);
        w.set.rows[0].found = true;
        w.set.rows[0].cell = sl_take(&w.limit, sl_cell_of(0, 0), 8, at).next;
        CHECK(sl_row_set_judge(&w.set));
        CHECK_EQ(sl_take(&w.limit, w.set.rows[0].next, 0, at).answer.remaining,
                 late < 4 ? 2 + 4 - late : 2);
    }
    sl_buf_done(&w.set.names);

    CASE("no memory");
    do {
        struct fail f = {.nth = ++nth};
        struct sl_alloc alloc = fail_alloc(&f);

        open_world(&w, SL_BUCKET, "10/s", &alloc);
        err = sl_row_set_fill_rest(&w.set, &rest, T0);
        CHECK(!err || err == SLUICE_ENOMEM);
        if (!err) {
            sl_buf_clear(&w.set.names);
            err = sl_row_set_fill(&w.set, &w.take, T0);
        }
        sl_buf_done(&w.set.names);
        fail_check(&f);
    } while (err && nth < 50);
    CHECK(nth > 1 && nth < 50);
}

/* ---- resets ---- */

static void test_reset(void)
{
    static const struct {
        const char *text;
        uint64_t leased;
    } texts[] = {
        {"till 1000: 40",                40           },
        {"till 1000: 9007199254740992",  SL_AMOUNT_MAX},
        {"till 999: 40",                 0            }, /* it is over */
        {"till 1000: 40 ",               0            },
        {"till 1000: 90071992547409921", 0            },
        {"till 1000:",                   0            },
        {"till x: 1",                    0            },
        {"",                             0            },
    };
    struct world w;

    CASE("what a row says of a lease");
    for (size_t i = 0; i < SL_LEN(texts); i++)
        CHECK_EQ(sl_row_read_lease(texts[i].text, 999 * SL_MS),
                 texts[i].leased);

    for (uint64_t leased = 0; leased <= 4; leased += 4) {
        CASE("a reset leaves what is leased");
        open_world(&w, SL_FIXED, "10/min", &sl_alloc_libc);
        w.take.op = SL_TAKE_OP_RESET;
        CHECK_EQ(sl_row_set_fill(&w.set, &w.take, T0), 0);
        w.set.rows[0].found = true;
        w.set.rows[0].cell = sl_cell_of((uint64_t)T0, 7);
        w.set.rows[0].leased = leased;
        CHECK(sl_row_set_judge(&w.set));
        CHECK(w.set.rows[0].changed);
        CHECK_EQ(w.set.rows[0].deletes, leased == 0);
        CHECK_EQ(w.set.rows[0].next.w[1], leased);
        CHECK_EQ(w.set.parts[0].answer.remaining, 10 - leased);
        sl_buf_done(&w.set.names);
    }
}

/* ---- penalties ---- */

/* A limit that has nothing left or not, and its penalty: 5 failures block. */
static void test_penalty(void)
{
    const struct sl_penalty_rate rate = {5, SL_DAY, SL_DAY, 7 * SL_DAY, 2};
    struct sl_limit penalty = sl_limit_penalty(&rate, SL_QUANTUM_NS);

    for (unsigned failing = 0; failing < 2; failing++) {
        struct sl_part parts[2];
        struct world w;

        CASE(failing ? "a refusal of a limit is a failure of its penalty"
                     : "a take is none");
        open_world(&w, SL_FIXED, failing ? "2/hour" : "10/hour",
                   &sl_alloc_libc);
        parts[0] = w.part;
        parts[1] = (struct sl_part){.limit = &penalty,
                                    .name = SL_STR("k#penalty"),
                                    .taken_at = T0,
                                    .penalty_of = 1};
        w.take.parts = parts;
        w.take.count = 2;
        CHECK_EQ(sl_row_set_fill(&w.set, &w.take, T0), 0);
        CHECK_EQ(sl_row_set_judge(&w.set), !failing);
        CHECK_EQ(w.set.rows[1].changed, failing);
        sl_buf_done(&w.set.names);
    }
}

int main(void)
{
    test_ttl();
    test_penalty();
    test_reset();
    test_counts();
    test_clocks();
    test_step_back();
    test_leases();
    test_rest();
    return CHECK_DONE();
}
