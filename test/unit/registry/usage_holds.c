/* usage_holds.c -- usage of a hold is recorded once, when it has ended, in any
 * order of its messages. Pending refunds of the table are kept. */
#include "books.h"
#include "fail.h"

#define END_AT (DAY_0 + 2 * SL_HOUR)

static struct sl_usage_delta held(uint64_t hold, enum sl_usage_act act,
                                  int64_t amount)
{
    static struct sl_str acme = {"acme", 4};

    return (struct sl_usage_delta){
        .act = act,
        .hold = {hold, 7},
        .until = DAY_0 + SL_DAY,
        .limit = S("minutes"),
        .scope = act == SL_USAGE_ACT_HOLD ? S("org") : S(""),
        .values = &acme,
        .value_count = act == SL_USAGE_ACT_HOLD,
        .start = DAY_0,
        .at = END_AT,
        .amount = amount,
        .cap = act == SL_USAGE_ACT_HOLD ? 100 : 0,
        .thresholds = thresholds
    };
}

struct reported {
    unsigned count;
    char id[16];
};

static void on_threshold(void *ctx, const struct sl_usage_entry *u)
{
    struct reported *reported = ctx;

    reported->count++;
    snprintf(reported->id, sizeof(reported->id), "%.*s", SL_STR_ARG(u->id));
}

/* h9 holds nine, e4 settles for four, x0 extends; a ; sends the batch. */
static const struct {
    const char *why, *acts;
    uint64_t used; /* by this one alone */
} scripts[] = {
    {"taken and settled in one batch", "h9e4;",   4},
    {"taken, and settled on the next", "h9;e4;",  4},
    {"settled for more than was held", "h1;e6;",  6},
    {"released in one batch",          "h9e0;",   0},
    {"released on the next",           "h9;e0;",  0},
    {"the end comes first",            "e5;h9;",  5},
    {"the end comes first, for more",  "e5;h3;",  5},
    {"never ended",                    "h9;",     0},
    {"ended twice",                    "h9;e2e2", 2},
    {"extended, then ended",           "h9;x0e3", 3},
    {"extended, and ended later",      "h9x0;e3", 3},
    {"all of it in one batch",         "h9x0e3",  3},
};

static void play(struct sl_usage_sink *meter, uint64_t hold, const char *acts)
{
    for (; *acts; acts++) {
        enum sl_usage_act act = *acts == 'h'   ? SL_USAGE_ACT_HOLD
                                : *acts == 'e' ? SL_USAGE_ACT_HOLD_END
                                               : SL_USAGE_ACT_HOLD_EXTEND;
        struct sl_usage_delta spent;

        if (*acts == ';') {
            sl_usage_buffer_flush(meter);
            continue;
        }
        spent = held(hold, act, *++acts - '0');
        meter->calls->spent(meter, &spent);
    }
    sl_usage_buffer_flush(meter);
}

static void test_scripts(struct world *w)
{
    struct sl_usage_buffer_options options = {.on_threshold = NULL};
    struct sl_usage_buffer *buffer = NULL;
    uint64_t used = 0;

    CHECK_EQ(
        sl_usage_buffer_open(w->registry, w->loop, &options, &buffer, NULL), 0);
    for (size_t i = 0; i < SL_LEN(scripts); i++) {
        printf("# (6) %s\n", scripts[i].why);
        play(sl_usage_buffer_sink(buffer), i + 1, scripts[i].acts);
        used += scripts[i].used;
        CHECK_EQ(sum(w, "acme", SL_ROW_COUNTER), used);
        CHECK_EQ(sum(w, "acme", SL_ROW_DAY), used);
    }
    sl_usage_buffer_close(buffer);
}

static void test_two_buffers(struct world *w)
{
    struct reported reported = {0};
    struct sl_usage_buffer_options options = {.on_threshold = on_threshold,
                                              .ctx = &reported};
    struct sl_usage_buffer *buffers[2] = {NULL, NULL};
    struct sl_usage_delta take = held(100, SL_USAGE_ACT_HOLD, 200);
    struct sl_usage_delta end = held(100, SL_USAGE_ACT_HOLD_END, 150);
    struct sl_str vast = S("vast");

    CASE("(6) thresholds and overage are the owner's");
    take.values = &vast;
    for (int i = 0; i < 2; i++)
        CHECK_EQ(sl_usage_buffer_open(w->registry, w->loop, &options,
                                      &buffers[i], NULL),
                 0);
    for (int i = 0; i < 2; i++) {
        struct sl_usage_sink *meter = sl_usage_buffer_sink(buffers[i]);

        meter->calls->spent(meter, i == 0 ? &take : &end);
        sl_usage_buffer_flush(meter);
    }
    put_one(w, report("vast", 0, ""), SL_USAGE_RECORDED, 150, 50);
    CHECK_EQ(reported.count, 1);
    CHECK_STR(reported.id, "vast");
    CASE("what comes to more than was held, in a later period, counts there");
    take = held(101, SL_USAGE_ACT_HOLD, 10);
    take.values = &vast;
    end = held(101, SL_USAGE_ACT_HOLD_END, 30);
    end.start += SL_DAY;
    for (int i = 0; i < 2; i++) {
        struct sl_usage_sink *meter = sl_usage_buffer_sink(buffers[i]);

        meter->calls->spent(meter, i == 0 ? &take : &end);
        sl_usage_buffer_flush(meter);
    }
    put_one(w, report("vast", 0, ""), SL_USAGE_RECORDED, 160, 60);
    CHECK_EQ(sum(w, "vast", SL_ROW_COUNTER), 160 + 20);
    CASE("also if both are in one batch");
    take.hold[0] = end.hold[0] = 102;
    for (int i = 0; i < 2; i++) {
        struct sl_usage_sink *meter = sl_usage_buffer_sink(buffers[0]);

        meter->calls->spent(meter, i == 0 ? &take : &end);
    }
    sl_usage_buffer_flush(sl_usage_buffer_sink(buffers[0]));
    put_one(w, report("vast", 0, ""), SL_USAGE_RECORDED, 170, 70);
    CHECK_EQ(sum(w, "vast", SL_ROW_COUNTER), 170 + 40);
    for (int i = 0; i < 2; i++)
        sl_usage_buffer_close(buffers[i]);
}

/* ---- who else ends it ---- */

#ifdef ON_POSTGRES
#define LOCKS "1936487779" /* those of subjects */

/* Of the owner, as jobs.c computes it. */
static int slot_of(struct sl_str scope, struct sl_str id)
{
    struct sl_hash_key key = {UINT64_C(0x736c75696365), scope.len};

    return 1 + (int)(sl_hash64(&key, id) % 255);
}

static void say(PGconn *conn, const char *sql)
{
    PGresult *result = PQexec(conn, sql);
    ExecStatusType status = PQresultStatus(result);

    CHECK(status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK);
    PQclear(result);
}

/* Waits until a session waits for a lock, of `slot` or of another one. */
static void await_waiter(PGconn *conn, bool of, int slot)
{
    char sql[200];
    bool waits = false;

    snprintf(sql, sizeof(sql),
             "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND"
             " classid = " LOCKS " AND NOT granted AND objid %s %d",
             of ? "=" : "<>", slot);
    while (!waits) {
        PGresult *result = PQexec(conn, sql);

        waits = PQntuples(result) > 0;
        PQclear(result);
    }
}

/* One daemon ends a hold that is not recorded yet. While it waits for a lock
 * the hold is recorded, and ended by another. */
static void test_two_ends(struct world *w)
{
    struct sl_usage_buffer_options options = {.on_threshold = NULL};
    struct sl_usage_buffer *buffer = NULL;
    struct sl_usage_delta end = held(200, SL_USAGE_ACT_HOLD_END, 4);
    PGconn *all = PQconnectdb(backed_url()), *own = PQconnectdb(backed_url());
    int slot = slot_of(S("org"), S("twice"));
    char sql[200];

    CASE("(6) a hold that two end at once is recorded once");
    CHECK_EQ(
        sl_usage_buffer_open(w->registry, w->loop, &options, &buffer, NULL), 0);
    put_one(w, report("twice", 0, ""), SL_USAGE_RECORDED, 0, 0);
    snprintf(sql, sizeof(sql),
             "BEGIN; SELECT pg_advisory_xact_lock(" LOCKS ", %d)", slot);
    say(own, sql);
    snprintf(sql, sizeof(sql),
             "BEGIN; SELECT pg_advisory_xact_lock(" LOCKS ", slot)"
             " FROM generate_series(0, 255) AS slot WHERE slot <> %d",
             slot);
    say(all, sql);
    sl_usage_buffer_sink(buffer)->calls->spent(sl_usage_buffer_sink(buffer),
                                               &end);
    sl_usage_buffer_flush(sl_usage_buffer_sink(buffer));
    await_waiter(own, false, slot);
    say(all, "INSERT INTO sluice.usage_holds(hold, scope, id, period_start,"
             " amount, cap, expires) VALUES('00000000000000c80000000000000007"
             ":minutes', 'org', 'twice', 1728000000000000000, 9, 100,"
             " 1728086400000000000); COMMIT");
    await_waiter(own, true, slot);
    say(own, "DELETE FROM sluice.usage_holds WHERE id = 'twice'");
    say(own, "UPDATE sluice.usage_counters SET used = 4 WHERE id = 'twice'");
    say(own, "COMMIT");
    await_recorded(w, buffer); /* a blocked job is tried again later */
    CHECK_EQ(sum(w, "twice", SL_ROW_COUNTER), 4);
    sl_usage_buffer_close(buffer);
    PQfinish(all);
    PQfinish(own);
}
#endif

/* ---- what is owed ---- */

struct seen {
    unsigned count;
    uint64_t used, owed;
    bool is_ahead; /* the table has 7 units more of "ahead" */
};

static uint64_t on_usage(void *ctx, const struct sl_usage_entry *u)
{
    struct seen *seen = ctx;

    if (sl_str_eq(u->id, S("ahead")) && !seen->is_ahead) {
        seen->is_ahead = true;
        return 7;
    }
    if (!sl_str_eq(u->id, S("debtor")))
        return 0;
    seen->count++;
    seen->used = u->used;
    seen->owed = u->owed;
    return 0;
}

static struct seen start_as(struct world *w, const char *node)
{
    struct seen seen = {0};
    struct sl_registry_options options = {.driver = BACKED_BY,
                                          .path = w->path,
                                          .on_usage = on_usage,
                                          .node = sl_str_c(node),
                                          .ctx = &seen};

    world_stop(w);
    CHECK_EQ(sl_registry_open(&options, &w->registry, NULL), 0);
    return seen;
}

static struct seen start_again(struct world *w)
{
    return start_as(w, "");
}

static void test_ahead(struct world *w)
{
    struct sl_usage_buffer_options options = {.on_threshold = NULL};
    struct sl_usage_delta take = held(300, SL_USAGE_ACT_HOLD, 10);
    struct sl_usage_buffer *buffer = NULL;
    struct sl_usage_sink *meter;
    struct sl_str ahead = S("ahead");

    CASE("what only the table has is recorded, whatever hold has expired");
    put_one(w, report("ahead", 5, ""), SL_USAGE_RECORDED, 5, 0);
    CHECK_EQ(
        sl_usage_buffer_open(w->registry, w->loop, &options, &buffer, NULL), 0);
    meter = sl_usage_buffer_sink(buffer);
    take.values = &ahead;
    take.until = take.at + SL_S;
    meter->calls->spent(meter, &take);
    sl_usage_buffer_flush(meter);
    await_recorded(w, buffer);
    sl_usage_buffer_close(buffer);
    CHECK(start_again(w).is_ahead);
    CHECK_EQ(sum(w, "ahead", SL_ROW_COUNTER), 12);
}

static void test_nodes(struct world *w)
{
    struct sl_usage_entry u = report("debtor", 50, "");

    CASE("what is owed to the table of one node is not given to another");
    start_as(w, "one");
    u.needs_refund = true;
    put_one(w, u, SL_USAGE_RECORDED, 50, 0);
    u.amount = -20;
    put_one(w, u, SL_USAGE_RECORDED, 30, 0);
    CHECK_EQ(start_as(w, "two").owed, 0);
    u.amount = -5;
    put_one(w, u, SL_USAGE_RECORDED, 25, 0);
    CHECK_EQ(start_as(w, "one").owed, 20);
    CHECK_EQ(start_as(w, "one").owed, 0);
    CASE("a reset forgets what is owed to the node that it comes from");
    u.reset = true;
    put_one(w, u, SL_USAGE_RECORDED, 0, 0);
    CHECK_EQ(start_as(w, "two").owed, 5);
}

static void test_owed(struct world *w)
{
    struct sl_usage_buffer_options options = {.on_threshold = NULL};
    struct sl_usage_buffer *buffer = NULL;
    struct sl_usage_entry u = report("debtor", 50, "");
    struct sl_str debtor = S("debtor");
    struct sl_usage_delta paid = held(0, SL_USAGE_ACT_REFUNDED, 8);
    struct seen seen;

    CASE("what a report gave back is owed until the table has it");
    u.needs_refund = true;
    put_one(w, u, SL_USAGE_RECORDED, 50, 0);
    u.amount = -20;
    put_one(w, u, SL_USAGE_RECORDED, 30, 0);
    seen = start_again(w);
    CHECK(seen.count == 1 && seen.used == 30 && seen.owed == 20);
    CASE("and then no more");
    seen = start_again(w);
    CHECK(seen.count == 1 && seen.used == 30 && seen.owed == 0);
    CASE("some of it may be paid");
    put_one(w, u, SL_USAGE_RECORDED, 10, 0);
    CHECK_EQ(
        sl_usage_buffer_open(w->registry, w->loop, &options, &buffer, NULL), 0);
    paid.hold[1] = 0;
    paid.scope = S("org");
    paid.values = &debtor;
    paid.value_count = 1;
    for (int i = 0; i < 2; i++)
        sl_usage_buffer_sink(buffer)->calls->spent(sl_usage_buffer_sink(buffer),
                                                   &paid);
    sl_usage_buffer_flush(sl_usage_buffer_sink(buffer));
    CHECK_EQ(sum(w, "debtor", SL_ROW_COUNTER), 10);
    sl_usage_buffer_close(buffer);
    CHECK_EQ(start_again(w).owed, 4);
    CASE("a reset forgets it");
    put_one(w, u, SL_USAGE_RECORDED, 0, 0);
    u.reset = true;
    put_one(w, u, SL_USAGE_RECORDED, 0, 0);
    CHECK_EQ(start_again(w).owed, 0);
}

static void test_no_memory(struct world *w)
{
    CASE("whichever allocation fails, it is put down or counted as lost");
    for (unsigned nth = 1; nth < 30; nth++) {
        struct fail f = {.nth = nth};
        struct sl_alloc alloc = fail_alloc(&f);
        struct sl_usage_buffer_options options = {.alloc = &alloc};
        struct sl_usage_buffer *buffer = NULL;
        struct sl_usage_delta spent = held(1000 + nth, SL_USAGE_ACT_HOLD, 3);
        uint64_t before = sum(w, "acme", SL_ROW_COUNTER), lost;

        if (sl_usage_buffer_open(w->registry, w->loop, &options, &buffer, NULL))
            continue;
        sl_usage_buffer_sink(buffer)->calls->spent(sl_usage_buffer_sink(buffer),
                                                   &spent);
        sl_usage_buffer_flush(sl_usage_buffer_sink(buffer));
        await_recorded(w, buffer);
        spent = held(1000 + nth, SL_USAGE_ACT_HOLD_END, 3);
        sl_usage_buffer_sink(buffer)->calls->spent(sl_usage_buffer_sink(buffer),
                                                   &spent);
        sl_usage_buffer_flush(sl_usage_buffer_sink(buffer));
        await_recorded(w, buffer);
        lost = sl_usage_buffer_counts(buffer)->lost;
        CHECK_EQ(sum(w, "acme", SL_ROW_COUNTER), before + 3 - lost);
        sl_usage_buffer_close(buffer);
        fail_check(&f);
    }
}

/* ---- prints ---- */

static void spend(struct sl_usage_sink *meter, struct sl_str id,
                  uint64_t fingerprint, struct sl_str plan, int64_t amount)
{
    struct sl_usage_delta spent = {
        .act = SL_USAGE_ACT_TAKE,
        .fingerprint = {fingerprint, fingerprint},
        .limit = S("minutes"),
        .scope = S("org"),
        .values = &id,
        .value_count = 1,
        .start = DAY_0,
        .at = END_AT,
        .plan = plan,
        .amount = amount,
        .cap = 1000
    };

    meter->calls->spent(meter, &spent);
}

/* Those of 5 and of 5 + 2^20 have the same place in the batch. */
static void test_prints(struct world *w)
{
    struct sl_usage_buffer_options options = {.on_threshold = NULL};
    struct sl_usage_buffer *buffer = NULL;
    struct sl_usage_sink *meter;

    CASE("what has the same print is one line, and nothing else is");
    CHECK_EQ(
        sl_usage_buffer_open(w->registry, w->loop, &options, &buffer, NULL), 0);
    meter = sl_usage_buffer_sink(buffer);
    for (int i = 0; i < 3; i++) {
        spend(meter, S("first"), 5, S(""), 10);
        spend(meter, S("second"), 5 + (1 << 20), S(""), 100);
    }
    spend(meter, S("first"), 5, S(""), -4);
    spend(meter, S("first"), 0, S(""), 1);
    sl_usage_buffer_flush(meter);
    CHECK_EQ(sum(w, "first", SL_ROW_COUNTER), 27);
    CHECK_EQ(sum(w, "second", SL_ROW_COUNTER), 300);
    CHECK_EQ(sl_usage_buffer_counts(buffer)->spent, 8);
    CHECK_EQ(sl_usage_buffer_counts(buffer)->written, 3);
    CHECK_EQ(sl_usage_buffer_counts(buffer)->lost, 0);
    CASE("nor is what another plan with the same cap has used");
    spend(meter, S("third"), 9, S("one"), 1);
    spend(meter, S("third"), 9, S("two"), 2);
    spend(meter, S("third"), 9, S("one"), 4);
    sl_usage_buffer_flush(meter);
    CHECK_EQ(sum(w, "third", SL_ROW_COUNTER), 7);
    CHECK_EQ(sl_usage_buffer_counts(buffer)->written, 5);
    sl_usage_buffer_close(buffer);
}

int main(void)
{
    struct world w;

    world_open(&w);
    test_scripts(&w);
    test_two_buffers(&w);
#ifdef ON_POSTGRES
    test_two_ends(&w);
#endif
    test_owed(&w);
    test_ahead(&w);
    test_nodes(&w);
    test_prints(&w);
    test_no_memory(&w);
    world_close(&w);
    return CHECK_DONE();
}
