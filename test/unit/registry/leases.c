/* leases.c -- units promised to nodes: granted, recorded, given back, released,
 * found again; see the invariants in registry/usage_db.h. */
#include "claims.h"

static void test_granting(struct world *w)
{
    struct sl_usage_entry u = report("acme", 1, "");

    CASE("a twentieth of the cap to all nodes, unless more is needed");
    CHECK_EQ(lease(w, "a", 40, 1), 5);
    CHECK_EQ(lease(w, "a", 40, 20), 20);
    CHECK_EQ(lease(w, "b", 40, 1), 1);
    CHECK_EQ(lease(w, "c", 40, 1), 1);
    hand_back(w, "b", 1);
    hand_back(w, "c", 1);
    CHECK_EQ(lease(w, "b", 5, 5), 5);
    CHECK_EQ(lease(w, "b", 40, 30), 30);
    CHECK_EQ(look(w, "a").leased, 60);
    CASE("(2) never beyond the cap");
    CHECK_EQ(lease(w, "b", 50, 41), 0);
    CHECK_EQ(lease(w, "b", 40, 40), 40);
    CHECK_EQ(lease(w, "a", 1, 1), 0);
    CASE("(3) a row says how far the cell may go");
    CHECK_EQ(look(w, "a").leased_here, 25);
    CHECK_EQ(look(w, "c").leased_here, 0);
    CHECK_EQ(look(w, "c").base, 77);
    CASE("what must fit must fit beside what is leased");
    u.enforce = true;
    CHECK_EQ(put(w, &u, 1), SL_JOB_CONFLICT);
    CHECK_EQ(u.result, SL_USAGE_LEASED);
    CHECK_EQ(u.leased, 100);
    CHECK_EQ(u.used, 0);
    CASE("what would not fit without that is refused");
    u.amount = 101;
    CHECK_EQ(put(w, &u, 1), SL_JOB_CONFLICT);
    CHECK_EQ(u.result, SL_USAGE_FULL);
}

static void test_spending(struct world *w)
{
    CASE("what is recorded is no longer leased");
    spend(w, "a", 20);
    CHECK_EQ(look(w, "a").used, 20);
    CHECK_EQ(look(w, "a").leased_here, 5);
    CHECK_EQ(look(w, "a").spent, 20);
    CHECK_EQ(look(w, "a").leased, 80);
    CASE("(4) a row without units is gone");
    hand_back(w, "a", 5);
    CHECK_EQ(look(w, "a").base, 77);
    CHECK_EQ(look(w, "a").leased, 75); /* (1) */
    CASE("a node cannot return more units than it has");
    hand_back(w, "a", 5);
    hand_back(w, "b", 1000);
    CHECK_EQ(look(w, "a").leased, 0);
    CASE("what was not leased is counted all the same");
    spend(w, "a", 30);
    CHECK_EQ(look(w, "a").used, 50);
    CHECK_EQ(lease(w, "a", 9, 9), 9);
    spend(w, "a", 12);
    CHECK_EQ(look(w, "a").leased, 0);
    CHECK_EQ(look(w, "a").used, 62);
}

static void test_reset(struct world *w)
{
    struct sl_usage_entry u = report("acme", 0, "");

    CASE("a reset forgets what was used, and leaves what is leased");
    CHECK_EQ(lease(w, "a", 9, 9), 9);
    CHECK_EQ(lease(w, "b", 7, 7), 7);
    u.node = S("a");
    u.reset = true;
    CHECK_EQ(put(w, &u, 1), SL_JOB_DONE);
    CHECK_EQ(look(w, "a").used, 0);
    CHECK_EQ(look(w, "a").leased, 16);
    CASE("usage from before it that arrives later counts");
    spend(w, "a", 4);
    CHECK_EQ(look(w, "b").used, 4);
    CHECK_EQ(look(w, "a").leased_here, 5);
    hand_back(w, "a", 5);
    CHECK_EQ(look(w, "a").leased, 7);
    u.node = S("b");
    CHECK_EQ(put(w, &u, 1), SL_JOB_DONE);
}

/* With a print, as decisions tell it: their line is found by that alone. */
static void tell(struct sl_usage_sink *meter, int64_t amount)
{
    struct sl_str id = S("acme");
    struct sl_usage_delta spent = {
        .fingerprint = {.lo = 7, .hi = 7},
        .limit = S("minutes"),
        .scope = S("org"),
        .values = &id,
        .value_count = 1,
        .start = DAY_0,
        .at = DAY_0 + SL_HOUR,
        .amount = amount,
        .cap = 100
    };

    meter->calls->spent(meter, &spent);
}

static void test_batch(struct world *w)
{
    struct sl_usage_buffer_options options = {.node = S("a")};
    struct sl_usage_buffer *buffer = NULL;
    uint64_t used = look(w, "a").used, leased = look(w, "a").leased;
    struct sl_usage_sink *meter;

    CASE("units used and refunded in one batch were leased, and are free");
    CHECK_EQ(lease(w, "a", 9, 9), 9);
    CHECK_EQ(
        sl_usage_buffer_open(w->registry, w->loop, &options, &buffer, NULL), 0);
    meter = sl_usage_buffer_sink(buffer);
    tell(meter, 5);
    tell(meter, -6);
    tell(meter, 1);
    sl_usage_buffer_flush(meter);
    CHECK_EQ(look(w, "a").used, used);
    CHECK_EQ(look(w, "a").spent, 6);
    CHECK_EQ(look(w, "a").leased_here, 3);
    hand_back(w, "a", 3);
    CHECK_EQ(look(w, "a").leased, leased);
    sl_usage_buffer_close(buffer);
}

static void release(struct world *w, const char *node, sl_ns since,
                    enum sl_job_result want, uint64_t units)
{
    struct sl_job job;

    sl_job_init(&job, SL_JOB_RELEASE, &sl_alloc_libc);
    job.name = sl_str_c(node);
    job.since = since;
    ask(w, &job);
    CHECK_EQ(job.err, 0);
    CHECK_EQ(job.result, want);
    CHECK_EQ(job.units, units);
    sl_job_clear(&job);
}

static void list_leases(struct world *w, struct sl_job *job)
{
    sl_job_init(job, SL_JOB_LEASES, &sl_alloc_libc);
    job->name = S("b");
    job->most = 10;
    ask(w, job);
    CHECK_EQ(job->err, 0);
    CHECK_EQ(sl_buf_add(&job->text, (struct sl_str){"", 1}), 0);
}

static unsigned count(const char *text, const char *part)
{
    unsigned n = 0;

    while ((text = strstr(text, part))) {
        n++;
        text++;
    }
    return n;
}

static void test_life(struct world *w)
{
    struct sl_usage_lease_claim other = claim("b", 2, 1);
    struct sl_job job;

    CASE("that a node lives is one row, however many leases it has");
    other.id = S("other");
    carry(w, &other);
#ifdef ON_POSTGRES
    backed_run("CREATE RULE none AS ON UPDATE TO sluice.usage_leases"
               " DO INSTEAD SELECT 1 / 0");
#endif
    beat(w, "b", DAY_0 + 3 * SL_HOUR);
#ifdef ON_POSTGRES
    backed_run("DROP RULE none ON sluice.usage_leases");
#endif
    list_leases(w, &job);
    CHECK_EQ(count(job.text.bytes, "\"seen_ms\":1728010800000"), 2);
    sl_job_clear(&job);
    beat(w, "b", DAY_0 + SL_HOUR);
    other.give_back = 2;
    carry(w, &other);
}

static void lease_other(struct world *w, const char *id)
{
    struct sl_usage_lease_claim c = claim("c", 1, 1);

    c.id = sl_str_c(id);
    carry(w, &c);
}

static void test_release(struct world *w)
{
    struct sl_job job;

    CASE("leases are listed");
    lease_other(w, "one");
    lease_other(w, "two");
    list_leases(w, &job);
    CHECK(strstr(job.text.bytes, "{\"node\":\"b\",\"scope\":\"org\","
                                 "\"id\":\"acme\",\"limit\":\"minutes\""));
    CHECK(strstr(job.text.bytes, "\"leased\":7,\"spent\":0"));
    CHECK(strstr(job.text.bytes, "\"here\":true}"));
    sl_job_clear(&job);
    CASE("a list that is too long is cut, with a flag");
    CHECK(!job.cut);
    for (int i = 0; i < 2; i++) {
        sl_job_init(&job, SL_JOB_LEASES, &sl_alloc_libc);
        job.most = 2;
        sl_buf_done(&job.text);
        sl_buf_init(&job.text, i == 0 ? 4096 : 300, &sl_alloc_libc);
        ask(w, &job);
        CHECK_EQ(job.err, 0);
        CHECK(job.cut);
        CHECK_EQ(sl_buf_add(&job.text, (struct sl_str){"", 1}), 0);
        CHECK_EQ(count(job.text.bytes, "\"here\":false}"), i == 0 ? 2 : 1);
        CHECK_EQ(job.text.bytes[strlen(job.text.bytes) - 1], '}');
        sl_job_clear(&job);
    }
    CASE("a node that lives keeps what it has");
    release(w, "b", DAY_0, SL_JOB_CONFLICT, 0);
    CASE("one that does not is released, once");
    release(w, "b", DAY_0 + 2 * SL_HOUR, SL_JOB_DONE, 7);
    release(w, "b", DAY_0 + 2 * SL_HOUR, SL_JOB_NOT_FOUND, 0);
    CHECK_EQ(look(w, "a").leased, 0);
}

/* ---- coming back ---- */

static void come_back(struct world *w, struct back *back)
{
    struct sl_registry_options options = {.driver = BACKED_BY,
                                          .path = w->path,
                                          .on_lease = on_lease,
                                          .node = S("a"),
                                          .ctx = back};

    world_stop(w);
    CHECK_EQ(sl_registry_open(&options, &w->registry, NULL), 0);
}

static void test_return(struct world *w)
{
    struct back back = {.own = 6};

    CASE("what was taken and not put down is put down, the rest is given back");
    CHECK_EQ(lease(w, "a", 10, 10), 10);
    spend(w, "a", 4);
    come_back(w, &back);
    CHECK_EQ(back.rows, 1);
    CHECK_EQ(back.seen, DAY_0 + SL_HOUR);
    CHECK_EQ(look(w, "a").used, 6);
    CHECK_EQ(look(w, "a").leased, 0);
    CASE("once");
    come_back(w, &back);
    CHECK_EQ(back.rows, 1);
    CASE("what is held stays leased");
    CHECK_EQ(lease(w, "a", 10, 10), 10);
    back = (struct back){.own = 3, .held = 4};
    come_back(w, &back);
    CHECK_EQ(look(w, "a").used, 6);
    CHECK_EQ(look(w, "a").leased_here, 3);
    hand_back(w, "a", 3);
    CASE("of what was taken, all that is not held is recorded");
    CHECK_EQ(lease(w, "a", 10, 10), 10);
    back = (struct back){.own = 7, .held = 2};
    come_back(w, &back);
    CHECK_EQ(look(w, "a").used, 11);
    CHECK_EQ(look(w, "a").leased_here, 2);
    hand_back(w, "a", 2);
    CASE("once, too");
    come_back(w, &back);
    CHECK_EQ(look(w, "a").used, 11);
}

/* ---- levels ---- */

static struct sl_usage_lease_claim level_claim(const char *node, uint64_t want)
{
    struct sl_usage_lease_claim c = claim(node, want, want);

    c.id = S("lev");
    c.limit = S("links");
    c.start = 0;
    c.cap = 10;
    return c;
}

static struct sl_usage_lease_claim look_level(struct world *w, const char *node)
{
    struct sl_usage_lease_claim c = level_claim(node, 0);

    carry(w, &c);
    return c;
}

/* A report of links, by name or by amount, or what a node has taken. */
static struct sl_usage_entry links(const char *name, int64_t amount,
                                   const char *node)
{
    struct sl_usage_entry u = thing(name, amount);

    u.id = S("lev");
    u.cap = 10;
    u.node = sl_str_c(node);
    return u;
}

static void test_level(struct world *w)
{
    struct sl_usage_lease_claim c = level_claim("a", 6);
    struct back back = {.own = 5};

    CASE("units of a level are leased, without a period");
    carry(w, &c);
    CHECK_EQ(c.granted, 6);
    put_one(w, links("", 4, "a"), SL_USAGE_RECORDED, 4, 0);
    CHECK_EQ(look_level(w, "a").leased_here, 2);
    CASE("(2) a named thing counts beside them, and moves the counter");
    put_one(w, links("x", 3, ""), SL_USAGE_RECORDED, 7, 0);
    c = level_claim("v", 2);
    carry(w, &c);
    CHECK_EQ(c.granted, 0); /* 7 used, 2 leased */
    put_one(w, links("x", 2, ""), SL_USAGE_RECORDED, 6, 0);
    carry(w, &c);
    CHECK_EQ(c.granted, 2);
    CASE("what must fit must fit beside them");
    {
        struct sl_usage_entry u = links("y", 1, "");

        u.enforce = true;
        put_one(w, u, SL_USAGE_LEASED, 6, 0);
    }
    CASE("(3) a level that falls moves no lease");
    put_one(w, links("", -4, ""), SL_USAGE_RECORDED, 2, 0);
    CHECK_EQ(look_level(w, "a").leased_here, 2);
    CHECK_EQ(look_level(w, "a").spent, 4);
    CHECK_EQ(look_level(w, "v").leased, 4);
    CASE("a node that comes back records what it had taken, as a level");
    come_back(w, &back);
    CHECK_EQ(back.rows, 1);
    CHECK_EQ(look_level(w, "a").used, 3);
    CHECK_EQ(look_level(w, "a").leased, 2);
    CHECK_EQ(sum(w, "lev", SL_ROW_DAY), 3);
    c = level_claim("v", 0);
    c.give_back = 2;
    carry(w, &c);
    CHECK_EQ(look_level(w, "v").leased, 0);
}

/* ---- freed ---- */

static uint64_t overshoot(struct world *w)
{
    struct sl_registry_counts counts;

    sl_registry_count(w->registry, &counts);
    return counts.overshoot;
}

static void test_freed(struct world *w)
{
    struct sl_usage_lease_claim c = claim("f", 5, 1);
    uint64_t used = look(w, "f").used;

    CASE("(6) units of a node that is gone are freed");
    beat(w, "f", DAY_0);
    CHECK_EQ(lease(w, "f", 10, 10), 10);
    spend(w, "f", 4);
    release(w, "f", DAY_0 + 2 * SL_HOUR, SL_JOB_DONE, 6);
    release(w, "f", DAY_0 + 2 * SL_HOUR, SL_JOB_NOT_FOUND, 0);
    CHECK_EQ(look(w, "f").leased, 0);
    CHECK(!look(w, "f").found);
    CASE("(6) it is told so before it is granted more");
    c.ceiling = 10;
    c.has_units = true;
    carry(w, &c);
    CHECK(!c.found);
    CHECK_EQ(c.granted, 0);
    CHECK_EQ(c.base, 10);
    CHECK_EQ(look(w, "f").leased, 0);
    CASE("(6) units that it had used are overshoot");
    spend(w, "f", 1);
    CHECK_EQ(overshoot(w), 1);
    CHECK_EQ(look(w, "f").used, used + 5);
    CASE("(3) it goes on from its count, with two used and not recorded");
    c = claim("f", 3, 3);
    c.ceiling = 7;
    carry(w, &c);
    CHECK_EQ(c.granted, 3);
    CHECK_EQ(c.base + c.spent + c.leased_here, 10);
    CHECK_EQ(look(w, "f").base + look(w, "f").spent, 7);
    spend(w, "f", 4);
    CHECK_EQ(overshoot(w), 3);
    CHECK_EQ(look(w, "f").leased_here, 1);
    spend(w, "f", 1);
    CHECK(!look(w, "f").found);
    CHECK_EQ(look(w, "f").used, used + 10);
    CASE("what was not leased is no overshoot");
    spend(w, "f", 1);
    CHECK_EQ(overshoot(w), 3);
}

/* The node is "a", as in test_return(). */
static void test_freed_return(struct world *w)
{
    struct back back = {.own = 6};
    uint64_t used = look(w, "a").used;

    CASE("(6) a node that comes back with its table records what it had used");
    CHECK_EQ(lease(w, "a", 10, 10), 10);
    spend(w, "a", 4);
    release(w, "a", DAY_0 + 2 * SL_HOUR, SL_JOB_DONE, 6);
    come_back(w, &back);
    CHECK_EQ(back.rows, 1);
    CHECK_EQ(look(w, "a").used, used + 6);
    CHECK_EQ(look(w, "a").leased, 0);
    CHECK_EQ(overshoot(w), 2);
    CASE("(6) once");
    come_back(w, &back);
    CHECK_EQ(back.rows, 1);
    CHECK_EQ(overshoot(w), 0);
}

static void test_nodes(struct world *w)
{
    const struct sl_usage_node *list;
    struct sl_job job;

    CASE("nodes with leases are listed, the one not seen for longest first");
    release(w, "c", DAY_0 + 2 * SL_HOUR, SL_JOB_DONE, 2);
    CHECK_EQ(lease(w, "n", 1, 1), 1);
    CHECK_EQ(lease(w, "m", 1, 1), 1);
    CHECK_EQ(lease(w, "o", 1, 1), 1);
    beat(w, "n", DAY_0 + 5 * SL_HOUR);
    beat(w, "m", DAY_0 + 4 * SL_HOUR);
    sl_job_init(&job, SL_JOB_NODES, &sl_alloc_libc);
    job.name = S("o");
    job.most = 10;
    ask(w, &job);
    CHECK_EQ(job.err, 0);
    list = (const void *)job.text.bytes;
    if (CHECK_EQ(job.text.len, 2 * sizeof(*list))) {
        CHECK(is(sl_str_c(list[0].name), "m"));
        CHECK(is(sl_str_c(list[1].name), "n"));
        CHECK_EQ(list[1].seen, DAY_0 + 5 * SL_HOUR);
    }
    sl_job_clear(&job);
    hand_back(w, "n", 1);
    hand_back(w, "m", 1);
    hand_back(w, "o", 1);
}

/* The SQL against the sentence in queries.def. */
static void test_portions(struct world *w)
{
    CASE("what is granted, for many numbers");
    srandom(7);
    for (int i = 0; i < 300; i++) {
        struct sl_usage_lease_claim before = look(w, "p"), c = claim("p", 0, 0);
        uint64_t left, out, share, granted;

        c.cap = 1 + (uint64_t)random() % 2000;
        c.least = 1 + (uint64_t)random() % 40;
        c.need = c.least + (uint64_t)random() % 60;
        c.want = c.need + (uint64_t)random() % 300;
        left = before.used + before.leased < c.cap
                   ? c.cap - before.used - before.leased
                   : 0;
        out = left / 2 < c.cap / 20 ? left / 2 : c.cap / 20;
        out = out > c.cap / 100 ? out : c.cap / 100;
        out = out > before.leased ? out - before.leased : 0;
        share = left / 4 < out ? left / 4 : out;
        granted = left < c.need     ? left
                  : share <= c.need ? c.need
                  : share < c.want  ? share
                                    : c.want;
        carry(w, &c);
        if (!CHECK_EQ(c.granted, left < c.least ? 0 : granted))
            break;
        if (i % 3 == 0)
            hand_back(w, "p", (uint64_t)random() % 400);
    }
}

/* ---- holds that end at another daemon ---- */

/* One entry of a hold of limit "minutes", by a node. */
static struct sl_usage_entry hold(uint64_t id, enum sl_usage_act act,
                                  const char *node, int64_t amount)
{
    struct sl_usage_entry u =
        report(act == SL_USAGE_ACT_HOLD ? "acme" : "", amount, "");

    u.act = act;
    u.hold[0] = id;
    u.hold[1] = UINT64_C(0xfedcba9876543210);
    u.until = DAY_0 + SL_DAY;
    u.node = sl_str_c(node);
    if (act != SL_USAGE_ACT_HOLD)
        u.scope = S("");
    return u;
}

static void put_hold(struct world *w, uint64_t id, enum sl_usage_act act,
                     const char *node, int64_t amount)
{
    static struct sl_arena names;
    struct sl_usage_entry u = hold(id, act, node, amount);

    sl_arena_init(&names, 1 << 16, &sl_alloc_libc);
    u.names_in = &names;
    CHECK_EQ(put(w, &u, 1), SL_JOB_DONE);
    sl_arena_done(&names);
}

/* How many ends the node is told of, and the last one. */
static unsigned told(struct world *w, const char *node,
                     struct sl_usage_end *ret)
{
    struct sl_str rest, texts[3];
    struct sl_job job;
    unsigned count = 0;

    sl_job_init(&job, SL_JOB_ENDS, &sl_alloc_libc);
    job.name = sl_str_c(node);
    job.most = 10;
    ask(w, &job);
    CHECK_EQ(job.err, 0);
    rest = sl_buf_str(&job.text);
    while (sl_usage_ends_next(&rest, ret, texts)) {
        count++;
        CHECK(sl_str_eq(texts[0], S("org")));
        CHECK(sl_str_eq(texts[1], S("acme")));
        CHECK(sl_str_eq(texts[2], S("minutes")));
    }
    sl_job_clear(&job);
    return count;
}

/* ---- holds that are extended at another daemon ---- */

/* At the time DAY_0, until `until`. */
static void extend(struct world *w, uint64_t id, const char *node, sl_ns until)
{
    struct sl_usage_entry u = hold(id, SL_USAGE_ACT_HOLD_EXTEND, node, 0);

    u.at = DAY_0;
    u.until = until;
    CHECK_EQ(put(w, &u, 1), SL_JOB_DONE);
}

static void check_extended(struct world *w, uint64_t id, sl_ns until)
{
    struct sl_usage_end end;

    if (CHECK_EQ(told(w, "z", &end), 1)) {
        CHECK_EQ(end.hold[0], id);
        CHECK_EQ(end.until, until);
        CHECK_EQ(end.amount, until - DAY_0);
    }
}

static void test_extensions(struct world *w)
{
    const sl_ns soon = DAY_0 + SL_HOUR, late = DAY_0 + 2 * SL_DAY;
    struct sl_usage_end end;

    for (uint64_t id = 40; id < 42; id++) {
        CASE(id == 40 ? "(10) the node of a hold is told that it was extended"
                      : "(10) also if that is recorded before the take");
        CHECK_EQ(lease(w, "z", 6, 6), 6);
        if (id == 40)
            put_hold(w, id, SL_USAGE_ACT_HOLD, "z", 6);
        extend(w, id, "", soon);
        extend(w, id, "", late);
        if (id == 41)
            put_hold(w, id, SL_USAGE_ACT_HOLD, "z", 6);
        check_extended(w, id, late);
        CHECK_EQ(told(w, "y", &end), 0);
        CASE("(10) until it knows of the last one");
        extend(w, id, "z", soon);
        check_extended(w, id, late);
        extend(w, id, "z", late);
        CHECK_EQ(told(w, "z", &end), 0);
        CASE("(10) then it is told of the end");
        extend(w, id, "y", soon);
        put_hold(w, id, SL_USAGE_ACT_HOLD_END, "", 2);
        CHECK_EQ(told(w, "z", &end), 1);
        CHECK_EQ(end.until, 0);
        CHECK_EQ(end.amount, 2);
        CHECK_EQ(look(w, "z").leased_here, 4);
        extend(w, id, "", late);
        CHECK_EQ(told(w, "z", &end), 1);
        CHECK_EQ(end.until, 0);
        put_hold(w, id, SL_USAGE_ACT_HOLD_END, "z", 2);
        CHECK_EQ(told(w, "z", &end), 0);
        hand_back(w, "z", 4);
    }
}

static void test_extension_order(struct world *w)
{
    const sl_ns soon = DAY_0 + SL_HOUR, late = DAY_0 + 2 * SL_DAY;
    struct sl_usage_end end;

    CASE("(10) an extension that is known after the end");
    CHECK_EQ(lease(w, "z", 6, 6), 6);
    put_hold(w, 42, SL_USAGE_ACT_HOLD, "z", 6);
    extend(w, 42, "", late);
    put_hold(w, 42, SL_USAGE_ACT_HOLD_END, "z", 6);
    check_extended(w, 42, late);
    extend(w, 42, "z", late);
    CHECK_EQ(told(w, "z", &end), 0);
    CASE("(10) extended and ended before the take is recorded");
    CHECK_EQ(lease(w, "z", 6, 6), 6);
    extend(w, 43, "", late);
    put_hold(w, 43, SL_USAGE_ACT_HOLD_END, "", 2);
    put_hold(w, 43, SL_USAGE_ACT_HOLD, "z", 6);
    CHECK_EQ(told(w, "z", &end), 1);
    CHECK_EQ(end.until, 0);
    CHECK_EQ(look(w, "z").leased_here, 4);
    put_hold(w, 43, SL_USAGE_ACT_HOLD_END, "z", 2);
    hand_back(w, "z", 4);
    CASE("a node is not told of its own extension");
    CHECK_EQ(lease(w, "z", 6, 6), 6);
    extend(w, 44, "z", late);
    put_hold(w, 44, SL_USAGE_ACT_HOLD, "z", 6);
    extend(w, 44, "z", soon);
    CHECK_EQ(told(w, "z", &end), 0);
    put_hold(w, 44, SL_USAGE_ACT_HOLD_END, "z", 6);
    CHECK_EQ(look(w, "z").leased_here, 0);
}

static void test_ends(struct world *w)
{
    static const enum sl_usage_act orders[2][2] = {
        {SL_USAGE_ACT_HOLD,     SL_USAGE_ACT_HOLD_END},
        {SL_USAGE_ACT_HOLD_END, SL_USAGE_ACT_HOLD    },
    };
    struct sl_usage_end end;

    for (unsigned i = 0; i < 2; i++) {
        uint64_t used = look(w, "z").used;

        CASE(i == 0 ? "(9) a hold that ends at another daemon is spent from "
                      "the lease of its node"
                    : "(9) also if its end is recorded first");
        CHECK_EQ(lease(w, "z", 6, 6), 6);
        for (unsigned k = 0; k < 2; k++)
            put_hold(w, 5 + i, orders[i][k],
                     orders[i][k] == SL_USAGE_ACT_HOLD ? "z" : "",
                     orders[i][k] == SL_USAGE_ACT_HOLD ? 6 : 2);
        CHECK_EQ(look(w, "z").used, used + 2);
        CHECK_EQ(look(w, "z").leased_here, 4);
        CHECK_EQ(look(w, "z").spent, 2);
        CASE("(9) and the node is told, until it has ended it, too");
        CHECK_EQ(told(w, "y", &end), 0);
        CHECK_EQ(told(w, "z", &end), 1);
        CHECK_EQ(end.hold[0], 5 + i);
        CHECK_EQ(end.hold[1], UINT64_C(0xfedcba9876543210));
        CHECK_EQ(end.amount, 2);
        CHECK_EQ(end.start, DAY_0);
        put_hold(w, 5 + i, SL_USAGE_ACT_HOLD_END, "z", 2);
        CHECK_EQ(told(w, "z", &end), 0);
        CHECK_EQ(look(w, "z").used, used + 2);
        hand_back(w, "z", 4);
    }
    CASE("the node that took a hold is not told of its own end");
    CHECK_EQ(lease(w, "z", 6, 6), 6);
    put_hold(w, 9, SL_USAGE_ACT_HOLD, "z", 6);
    put_hold(w, 9, SL_USAGE_ACT_HOLD_END, "z", 1);
    CHECK_EQ(told(w, "z", &end), 0);
    CHECK_EQ(look(w, "z").leased_here, 5);
    hand_back(w, "z", 5);
}

static void test_repeated_ends(struct world *w)
{
    /* Z: the take, by node z; y: its end, by node y; -: by a daemon that does
     * not have the hold. */
    static const char *const repeats[] = {"Zy",  "yZ",  "Z-y", "-Zy",
                                          "-yZ", "yZ-", "Z-y-"};
    struct sl_usage_end end;

    CASE("(9) whichever node repeats the end, its own node is told");
    for (unsigned i = 0; i < SL_LEN(repeats); i++) {
        CHECK_EQ(lease(w, "z", 6, 6), 6);
        for (const char *by = repeats[i]; *by; by++) {
            char node[2] = {*by == '-' ? '\0' : *by, '\0'};

            put_hold(w, 20 + i,
                     *by == 'Z' ? SL_USAGE_ACT_HOLD : SL_USAGE_ACT_HOLD_END,
                     *by == 'Z' ? "z" : node, *by == 'Z' ? 6 : 2);
        }
        CHECK_EQ(told(w, "z", &end), 1);
        CHECK_EQ(told(w, "y", &end), 0);
        CHECK_EQ(look(w, "z").leased_here, 4);
        put_hold(w, 20 + i, SL_USAGE_ACT_HOLD_END, "z", 2);
        CHECK_EQ(told(w, "z", &end), 0);
        put_hold(w, 20 + i, SL_USAGE_ACT_HOLD_END, "y", 2);
        CHECK_EQ(told(w, "z", &end), 0);
        CHECK_EQ(look(w, "z").leased_here, 4);
        hand_back(w, "z", 4);
    }
}

int main(void)
{
    struct world w;

    world_open(&w);
    test_granting(&w);
    test_spending(&w);
    test_reset(&w);
    test_life(&w);
    test_batch(&w);
    test_release(&w);
    test_return(&w);
    test_level(&w);
    test_freed(&w);
    test_freed_return(&w);
    test_nodes(&w);
    test_ends(&w);
    test_repeated_ends(&w);
    test_extensions(&w);
    test_extension_order(&w);
    test_portions(&w);
    world_close(&w);
    return CHECK_DONE();
}
