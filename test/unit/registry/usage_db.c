/* usage_db.c -- the usage database; invariants are in registry/usage_db.h. */
#include "books.h"
#include "fail.h"
#include "registry/usage_buffer.h"

static void test_adding(struct world *w)
{
    struct sl_usage_entry u = report("acme", 30, "");

    CASE("(1) amounts add up, also beyond the limit, where they are overage");
    put_one(w, u, SL_USAGE_RECORDED, 30, 0);
    u.amount = 80;
    put_one(w, u, SL_USAGE_RECORDED, 110, 10);
    u.amount = 5;
    put_one(w, u, SL_USAGE_RECORDED, 115, 15);
    CASE("(1) never below 0");
    u.amount = -1000;
    put_one(w, u, SL_USAGE_RECORDED, 0, 0);
    CASE("the next period begins with nothing; days and months go on");
    u = report("acme", 7, "");
    u.start += SL_DAY;
    u.at += SL_DAY;
    put_one(w, u, SL_USAGE_RECORDED, 7, 0);
    CHECK_EQ(sum(w, "acme", SL_ROW_DAY), 7);
    CHECK_EQ(sum(w, "acme", SL_ROW_MONTH), 7);
    CHECK_EQ(sum(w, "unknown", SL_ROW_DAY), 0);
    CASE("a reset leaves nothing used, and the history as it was");
    u = report("decided", 110, "");
    put_one(w, u, SL_USAGE_RECORDED, 110, 10);
    u.reset = true;
    put_one(w, u, SL_USAGE_RECORDED, 0, 0);
    CHECK_EQ(sum(w, "decided", SL_ROW_DAY), 110);
    CHECK_EQ(sum_overage(w, "decided", SL_ROW_DAY), 10);
}

static void test_keys(struct world *w)
{
    struct sl_usage_entry two[2];

    CASE("(2) a key is recorded once");
    put_one(w, report("keyed", 30, "k1"), SL_USAGE_RECORDED, 30, 0);
    put_one(w, report("keyed", 30, "k1"), SL_USAGE_REPLAYED, 30, 0);
    put_one(w, report("keyed", 30, "k2"), SL_USAGE_RECORDED, 60, 0);
    CASE("(2) with another amount it is refused");
    put_one(w, report("keyed", 31, "k1"), SL_USAGE_CONFLICT, 60, 0);
    CASE("(2) the keys of others are others");
    put_one(w, report("other", 1, "k1"), SL_USAGE_RECORDED, 1, 0);
    CASE("(4) a job is recorded as a whole, or not at all");
    two[0] = report("keyed", 5, "k3");
    two[1] = report("keyed", 5, "k1");
    CHECK_EQ(put(w, two, 2), SL_JOB_CONFLICT);
    put_one(w, report("keyed", 5, "k3"), SL_USAGE_RECORDED, 65, 0);
    CASE("(2) twice in one job is once");
    two[0] = two[1] = report("keyed", 5, "k4");
    CHECK_EQ(put(w, two, 2), SL_JOB_DONE);
    CHECK_EQ(two[0].result, SL_USAGE_RECORDED);
    CHECK_EQ(two[1].result, SL_USAGE_REPLAYED);
    CHECK_EQ(two[1].change, 0);
    CHECK_EQ(two[1].used, 70);
}

/* Runs a job of these totals; returns how many counters change. */
static unsigned set_totals(struct world *w, struct sl_usage_entry *list,
                           unsigned count, bool dry_run)
{
    struct sl_audit_note note = {
        .what = S("usage import"),
        .by = S("eve"),
        .origin = S("admin"),
        .note = S("moved in"),
    };
    struct sl_job job;
    unsigned changed = 0;

    sl_job_init(&job, SL_JOB_USAGE, &sl_alloc_libc);
    job.usage = list;
    job.change_count = count;
    job.dry_run = dry_run;
    job.audit = &note;
    ask(w, &job);
    CHECK_EQ(job.err, 0);
    CHECK_EQ(job.result, SL_JOB_DONE);
    sl_job_clear(&job);
    for (unsigned i = 0; i < count; i++)
        changed += list[i].change != 0;
    return changed;
}

/* Is a row of this text in the audit? */
static bool is_in_audit(struct world *w, const char *text)
{
    struct sl_job job;
    bool found;

    sl_job_init(&job, SL_JOB_AUDIT, &sl_alloc_libc);
    job.most = 100;
    ask(w, &job);
    CHECK_EQ(job.err, 0);
    found = job.text.len > 0 &&
            memmem(job.text.bytes, job.text.len, text, strlen(text));
    sl_job_clear(&job);
    return found;
}

static void test_totals(struct world *w)
{
    struct sl_usage_entry two[2];

    put_one(w, report("total", 30, ""), SL_USAGE_RECORDED, 30, 0);
    for (unsigned i = 0; i < 2; i++) {
        two[i] = report(i ? "total" : "fresh", i ? 110 : 7, "");
        two[i].total = true;
    }
    CASE("a dry run shows the totals and sets none");
    CHECK_EQ(set_totals(w, two, 2, true), 2);
    CHECK_EQ(two[1].change, 80);
    CHECK_EQ(two[1].overage, 10);
    CHECK_EQ(sum(w, "fresh", SL_ROW_COUNTER), 0);
    CHECK_EQ(sum(w, "total", SL_ROW_COUNTER), 30);
    CHECK(!is_in_audit(w, "moved in"));
    CASE("a total is the new value of the counter");
    CHECK_EQ(set_totals(w, two, 2, false), 2);
    CHECK_EQ(sum(w, "fresh", SL_ROW_COUNTER), 7);
    CHECK_EQ(sum(w, "total", SL_ROW_COUNTER), 110);
    CHECK_EQ(sum_overage(w, "total", SL_ROW_DAY), 10);
    CHECK(is_in_audit(w, "\"scope\":\"org\",\"id\":\"total\",\"note\":\"moved "
                         "in\",\"before\":{\"limit\":\"minutes\",\"used\":30},"
                         "\"after\":{\"limit\":\"minutes\",\"used\":110}"));
    CASE("twice is once");
    CHECK_EQ(set_totals(w, two, 2, false), 0);
    CHECK_EQ(two[0].result, SL_USAGE_REPLAYED);
    CHECK_EQ(sum(w, "total", SL_ROW_DAY), 110);
    CASE("it may be less, also nothing");
    two[1].amount = 0;
    CHECK_EQ(set_totals(w, two, 2, false), 1);
    CHECK_EQ(sum(w, "total", SL_ROW_COUNTER), 0);
    CHECK_EQ(sum_overage(w, "total", SL_ROW_DAY), 0);
}

static void test_things(struct world *w)
{
    struct sl_usage_entry u;

    CASE("a thing is counted once, however often it is named");
    put_one(w, thing("a", 1), SL_USAGE_RECORDED, 1, 0);
    put_one(w, thing("a", 1), SL_USAGE_REPLAYED, 1, 0);
    put_one(w, thing("b", 1), SL_USAGE_RECORDED, 2, 0);
    CASE("it may grow and shrink");
    put_one(w, thing("b", 2), SL_USAGE_RECORDED, 3, 0);
    put_one(w, thing("b", 1), SL_USAGE_RECORDED, 2, 0);
    CASE("one that is gone is gone once");
    put_one(w, thing("a", 0), SL_USAGE_RECORDED, 1, 0);
    put_one(w, thing("a", 0), SL_USAGE_REPLAYED, 1, 0);
    CASE("what does not fit is refused, if that is wanted");
    u = thing("c", 3);
    u.enforce = true;
    put_one(w, u, SL_USAGE_FULL, 1, 0);
    u.amount = 2;
    put_one(w, u, SL_USAGE_RECORDED, 3, 0);
    put_one(w, u, SL_USAGE_REPLAYED, 3, 0);
    CASE("the day shows how much there was at last");
    CHECK_EQ(sum(w, "acme", SL_ROW_DAY), 7 + 3);
    CASE("a reset forgets the things, too");
    u.reset = true;
    u.enforce = false;
    u.name = S("");
    put_one(w, u, SL_USAGE_RECORDED, 0, 0);
    put_one(w, thing("b", 1), SL_USAGE_RECORDED, 1, 0);
}

static void check_marks(struct world *w, int64_t amount, unsigned before,
                        unsigned after)
{
    struct sl_usage_entry u = report("marked", amount, "");

    CHECK_EQ(put(w, &u, 1), SL_JOB_DONE);
    CHECK_EQ(u.threshold_before, before);
    CHECK_EQ(u.threshold, after);
}

static void test_marks(struct world *w)
{
    CASE("(3) each mark is crossed once");
    check_marks(w, 79, 0, 0);
    check_marks(w, 1, 0, 80);
    check_marks(w, 19, 80, 80);
    check_marks(w, 1, 80, 100);
    check_marks(w, 50, 100, 100);
    CASE("(3) and again when less was used in between");
    check_marks(w, -60, 100, 80);
    check_marks(w, 10, 80, 100);
}

static void test_restart(struct world *w)
{
    struct sl_diag diag = {0};

    CASE("all of it is there after a restart");
    world_stop(w);
    CHECK_EQ(world_start(w, &diag), 0);
    put_one(w, report("keyed", 30, "k1"), SL_USAGE_REPLAYED, 70, 0);
    put_one(w, thing("b", 1), SL_USAGE_REPLAYED, 1, 0);
}

/* ---- credits ---- */

static bool lists(struct world *w, const char *want)
{
    struct sl_job job;
    bool there;

    sl_job_init(&job, SL_JOB_CREDITS, &sl_alloc_libc);
    job.scope = S("org");
    job.id = S("rich");
    ask(w, &job);
    CHECK_EQ(sl_buf_add(&job.text, (struct sl_str){"", 1}), 0);
    there = strstr(job.text.bytes, want) != NULL;
    if (!there)
        printf("# %s\n", job.text.bytes);
    sl_job_clear(&job);
    return there;
}

static void test_credits(struct world *w)
{
    struct sl_usage_entry u = report("rich", 90, "");

    CASE("(5) credits absorb what lies beyond the limit");
    give(w, 20, SL_NS_NONE);
    give(w, 10, DAY_0 + 5 * SL_DAY);
    give(w, 99, DAY_0); /* expired */
    CHECK_EQ(known_credit(w, DAY_0, false), 30);
    put_one(w, u, SL_USAGE_RECORDED, 90, 0);
    u.amount = 25;
    put_one(w, u, SL_USAGE_RECORDED, 115, 0);
    CASE("(5) those first that expire first");
    CHECK(lists(w, "\"amount\":10,\"unused\":0,"));
    CHECK(lists(w, "\"amount\":20,\"unused\":15,"));
    CHECK(lists(w, "\"amount\":99,\"unused\":99,"));
    CASE("what is used and what is not are the same together");
    CHECK_EQ(known_credit(w, DAY_0, true), 15);
    CHECK_EQ(known_credit(w, DAY_0, false), 15);
    CASE("what they do not cover is overage");
    u.amount = 20;
    put_one(w, u, SL_USAGE_RECORDED, 135, 5);
    CASE("(7) what is refunded is no overage, and then no credit is used");
    u.amount = -30;
    put_one(w, u, SL_USAGE_RECORDED, 105, 0);
    CHECK_EQ(known_credit(w, DAY_0, true), 5);
    CHECK_EQ(known_credit(w, DAY_0, false), 25);
    CHECK(lists(w, "\"amount\":10,\"unused\":5,"));
    CHECK(lists(w, "\"amount\":20,\"unused\":20,"));
    u.amount = 30;
    put_one(w, u, SL_USAGE_RECORDED, 135, 5);
    CHECK_EQ(known_credit(w, DAY_0, true), 30);
}

/* ---- orders ---- */

#define AMOUNTS 12

struct totals {
    uint64_t used, overage, credited, unused, days, months;
};

static struct totals totals_of(struct world *w, const char *id)
{
    struct totals t = {.days = sum_overage(w, id, SL_ROW_DAY),
                       .months = sum_overage(w, id, SL_ROW_MONTH)};
    struct sl_job job;
    size_t count;
    const struct sl_usage_row *rows = read_rows(w, id, &job, &count);

    for (size_t i = 0; i < count; i++) {
        if (rows[i].kind == SL_ROW_CREDIT)
            t.unused += rows[i].used;
        if (rows[i].kind != SL_ROW_COUNTER)
            continue;
        t.used += rows[i].used;
        t.overage += rows[i].overage;
        t.credited += rows[i].credited;
    }
    sl_job_clear(&job);
    return t;
}

static int64_t any(int64_t below)
{
    return random() % below;
}

/* Decisions of two nodes, reports and refunds, over two days and two months;
 * refunds are less than the first amount, so that used does not reach 0. */
static void make_amounts(struct sl_usage_entry *list)
{
    list[0] = report("", 40 + any(80), "");
    for (int i = 1; i < AMOUNTS; i++) {
        list[i] = report("", any(3) ? any(40) : -any(4), "");
        if (any(3))
            list[i].node = any(2) ? S("a") : S("b");
        list[i].at += any(2) * 40 * SL_DAY;
    }
}

static void shuffle(struct sl_usage_entry *list)
{
    for (int i = AMOUNTS - 1; i > 1; i--) {
        int64_t k = 1 + any(i);
        struct sl_usage_entry u = list[i];

        list[i] = list[k];
        list[k] = u;
    }
}

static struct totals record_all(struct world *w, const char *id,
                                struct sl_usage_entry *list, uint64_t credits)
{
    uint64_t first = credits / 3;

    give_to(w, id, credits - first, SL_NS_NONE);
    give_to(w, id, first, DAY_0 + 90 * SL_DAY);
    for (int i = 0; i < AMOUNTS; i++)
        list[i].id = sl_str_c(id);
    CHECK_EQ(put(w, list, AMOUNTS / 2), SL_JOB_DONE);
    CHECK_EQ(put(w, list + AMOUNTS / 2, AMOUNTS / 2), SL_JOB_DONE);
    return totals_of(w, id);
}

static void test_orders(struct world *w)
{
    struct sl_usage_entry list[AMOUNTS];

    CASE("(7) the sums are the same in any order");
    srandom(11);
    for (int round = 0; round < 40; round++) {
        uint64_t credits = (uint64_t)any(2) * (uint64_t)(3 + any(60));
        int64_t used = 0;
        struct totals want = {0}, is;
        char id[24];

        make_amounts(list);
        for (int i = 0; i < AMOUNTS; i++)
            used += list[i].amount;
        want.used = (uint64_t)used;
        want.overage = used > 100 ? (uint64_t)used - 100 : 0;
        want.credited = want.overage < credits ? want.overage : credits;
        want.unused = credits - want.credited;
        want.days = want.months = want.overage -= want.credited;
        for (int order = 0; order < 3; order++) {
            snprintf(id, sizeof(id), "order%d-%d", round, order);
            shuffle(list);
            is = record_all(w, id, list, credits);
            if (!CHECK(memcmp(&is, &want, sizeof(is)) == 0))
                return;
        }
    }
}

/* ---- the table of the guide ----
 *
 * | use 150 | 100 | 150 | 50 | 0 |: what is done, the quota, and then used,
 * overage and credited. A bold step begins with another subject.
 */

struct guide {
    struct world *w;
    char id[16];
    uint64_t cap;
    unsigned subjects, rows;
};

static uint64_t number_of(const char *text)
{
    return strcmp(text, "unlimited") == 0 ? UINT64_MAX
                                          : strtoull(text, NULL, 10);
}

static void do_step(struct guide *g, const char *what, const char *number)
{
    struct sl_usage_entry u = report(g->id, (int64_t)number_of(number), "");

    u.cap = g->cap;
    if (strcmp(what, "refund") == 0)
        u.amount = -u.amount;
    if (strcmp(what, "quota") == 0)
        g->cap = number_of(number);
    else if (strcmp(what, "credit") == 0)
        give_to(g->w, g->id, number_of(number), SL_NS_NONE);
    else if (CHECK(strcmp(what, "use") == 0 || strcmp(what, "refund") == 0))
        CHECK_EQ(put(g->w, &u, 1), SL_JOB_DONE);
}

static void check_row(struct guide *g, const char *line)
{
    char what[32], number[32] = "", cap[32];
    unsigned long used, overage, credited;
    struct totals is;

    if (sscanf(line, "| **%*[^|]| %31[^ |] |", cap) == 1) {
        g->cap = number_of(cap);
        snprintf(g->id, sizeof(g->id), "guide%u", ++g->subjects);
        return;
    }
    if (sscanf(line, "| %31s %31s | %31s | %lu | %lu | %lu |", what, number,
               cap, &used, &overage, &credited) != 6)
        return;
    g->rows++;
    do_step(g, what, number);
    is = totals_of(g->w, g->id);
    if (!CHECK(is.used == used && is.overage == overage &&
               is.credited == credited && is.days == overage &&
               is.months == overage && g->cap == number_of(cap)))
        printf("# %s#   is %lu %lu %lu\n", line, (unsigned long)is.used,
               (unsigned long)is.overage, (unsigned long)is.credited);
}

static void test_guide(struct world *w)
{
    struct guide g = {.w = w};
    FILE *file = fopen(SL_GUIDE, "r");
    char line[256];

    CASE("(8) plan changes are split as the guide shows");
    if (!CHECK(file != NULL))
        return;
    while (fgets(line, sizeof(line), file))
        if (g.subjects > 0 || strncmp(line, "| **upgrade**", 13) == 0)
            check_row(&g, line);
    fclose(file);
    CHECK_EQ(g.subjects, 5);
    CHECK(g.rows >= 26);
}

/* Units of a list of records, each judged by its own cap. */
static void test_changes(struct world *w)
{
    CASE("(8) each unit is judged by the cap of its record");
    srandom(12);
    for (int round = 0; round < 60; round++) {
        uint64_t used = 0, over = 0;
        struct totals is;
        char id[24];

        snprintf(id, sizeof(id), "change%d", round);
        for (int i = 0; i < 12; i++) {
            struct sl_usage_entry u = report(id, any(60), "");

            u.cap = any(5) ? (uint64_t)any(4) * 70 : UINT64_MAX;
            for (int64_t n = 0; n < u.amount; n++)
                over += ++used > u.cap;
            CHECK_EQ(put(w, &u, 1), SL_JOB_DONE);
            CHECK_EQ(u.overage, over);
        }
        is = totals_of(w, id);
        if (!CHECK(is.used == used && is.overage == over && is.days == over &&
                   is.months == over))
            return;
    }
    CASE("(8) a record without a known plan is judged by the last cap");
    {
        struct sl_usage_entry u = report("kept", 90, "");

        put_one(w, u, SL_USAGE_RECORDED, 90, 0);
        u.cap = SL_USAGE_CAP_KEPT;
        CHECK_EQ(put(w, &u, 1), SL_JOB_DONE);
        CHECK_EQ(u.overage, 80);
        CHECK_EQ(u.threshold_before, 80);
        CHECK_EQ(u.threshold, 100);
        CHECK_EQ(u.of, 100);
        u.cap = 100;
        put_one(w, u, SL_USAGE_RECORDED, 270, 170);
    }
    CASE("(8) and by the next one, if there was none");
    {
        struct sl_usage_entry u = report("guessed", 90, "");

        u.cap = SL_USAGE_CAP_KEPT;
        put_one(w, u, SL_USAGE_RECORDED, 90, 0);
        put_one(w, u, SL_USAGE_RECORDED, 180, 0);
        u.cap = 100;
        put_one(w, u, SL_USAGE_RECORDED, 270, 170);
    }
}

/* ---- names ---- */

static void test_names(void)
{
    static const struct {
        struct sl_str values[2];
        unsigned count;
        const char *joined;
    } rows[] = {
        {{{"acme", 4}},             1, "acme"       },
        {{{"a:b%c", 5}},            1, "a:b%c"      },
        {{{"acme", 4}, {"ann", 3}}, 2, "acme:ann"   },
        {{{"a:b", 3}, {"c%d", 3}},  2, "a%3Ab:c%25d"},
        {{{"a", 1}, {"b:c", 3}},    2, "a:b%3Ac"    },
        {{{"", 0}, {"", 0}},        2, ":"          },
    };
    struct sl_str back[2];
    char text[64], bad[] = "a:b:c", odd[] = "a%4:b", few[] = "a";
    struct sl_buf out;

    CASE("values are joined so that different ones stay different");
    sl_buf_init(&out, SL_USAGE_ID, &sl_alloc_libc);
    for (size_t i = 0; i < SL_LEN(rows); i++) {
        sl_buf_clear(&out);
        CHECK(sl_usage_join(rows[i].values, rows[i].count, &out));
        CHECK(is(sl_buf_str(&out), rows[i].joined));
        if (out.len > 0)
            memcpy(text, out.bytes, out.len);
        CHECK(sl_usage_split(text, out.len, rows[i].count, back));
        for (unsigned k = 0; k < rows[i].count; k++)
            CHECK(sl_str_eq(back[k], rows[i].values[k]));
    }
    sl_buf_done(&out);
    CHECK(!sl_usage_split(bad, 5, 2, back));
    CHECK(!sl_usage_split(odd, 5, 2, back));
    CHECK(!sl_usage_split(few, 1, 2, back));
    CHECK_EQ(sl_month_of(0), 197001);
    CHECK_EQ(sl_month_of(DAY_0), 202410);
}

/* ---- an older file ---- */

static bool fill(const char *path, const char *sql_path)
{
    static char sql[1 << 16];
    FILE *file = fopen(sql_path, "r");
    size_t len = file ? fread(sql, 1, sizeof(sql) - 1, file) : 0;

    if (file)
        fclose(file);
    sql[len] = '\0';
    return len > 0 && backed_fill(path, sql);
}

static uint64_t on_older(void *ctx, const struct sl_usage_entry *u)
{
    *(uint64_t *)ctx += u->owed;
    return 0;
}

/* With pending refunds of the table, which are passed once. */
static void start_older(struct world *w, uint64_t want)
{
    uint64_t owed = 0;
    struct sl_registry_options options = {.driver = BACKED_BY,
                                          .path = w->path,
                                          .on_usage = on_older,
                                          .node = S("one"),
                                          .ctx = &owed};
    struct sl_diag diag = {0};

    if (!CHECK_EQ(sl_registry_open(&options, &w->registry, &diag), 0))
        printf("Bail out! %s\n", diag.sentence);
    CHECK_EQ(owed, want);
}

/* Two leases of a node, of which one was seen later. */
static void check_leases(struct world *w)
{
    static const char seen[] = "\"seen_ms\":1728003700000";
    struct sl_job job;
    const char *at;

    sl_job_init(&job, SL_JOB_LEASES, &sl_alloc_libc);
    job.most = 10;
    ask(w, &job);
    CHECK_EQ(job.err, 0);
    CHECK_EQ(sl_buf_add(&job.text, (struct sl_str){"", 1}), 0);
    at = strstr(job.text.bytes, seen);
    CHECK(at && strstr(at + 1, seen));
    sl_job_clear(&job);
}

static void test_older(const char *sql_path)
{
    bool has_books = !strstr(sql_path, "/v1.sql");
    bool has_leases =
        strstr(sql_path, "postgres-v4") || strstr(sql_path, "/v5");
    bool has_owed = has_leases || strstr(sql_path, "postgres-v2") ||
                    strstr(sql_path, "v3.sql") || strstr(sql_path, "v4.sql");
    enum sl_usage_result known =
        has_books ? SL_USAGE_REPLAYED : SL_USAGE_RECORDED;
    struct sl_usage_entry link = thing("b", 1);
    struct sl_job job;
    struct world w;

    printf("# %s is brought up to date, and keeps what it has\n", sql_path);
    world_folder(&w);
    CHECK(fill(w.path, sql_path));
    start_older(&w, has_owed ? 7 : 0);
    world_stop(&w);
    start_older(&w, 0);
    ask_find(&w, &job, S("org"), S("acme.example"));
    CHECK_EQ(job.result, SL_JOB_DONE);
    CHECK(is(job.entries->subject.plan, "pro"));
    CHECK_EQ(job.entries->subject.rate_count, 1);
    sl_job_clear(&job);
    put_one(&w, report("acme", 30, "k1"), known, 30, 0);
    /* A key without a stored name may have been for this name. */
    link.key = S("k2");
    put_one(&w, link, known, has_books ? 0 : 1, 0);
    if (has_leases)
        check_leases(&w);
    world_close(&w);
}

/* ---- batches ---- */

struct reported {
    unsigned thresholds;
    unsigned last;
};

static void on_threshold(void *ctx, const struct sl_usage_entry *usage)
{
    struct reported *reported = ctx;

    reported->thresholds++;
    reported->last = usage->threshold;
}

static void tell_at(struct sl_usage_sink *meter, const char *id, int64_t amount,
                    bool reset, sl_ns at)
{
    struct sl_str values[] = {sl_str_c(id)};
    struct sl_usage_delta spent = {.limit = S("minutes"),
                                   .scope = S("org"),
                                   .values = values,
                                   .value_count = 1,
                                   .start = DAY_0,
                                   .at = at,
                                   .amount = amount,
                                   .reset = reset,
                                   .cap = 100,
                                   .thresholds = thresholds};

    meter->calls->spent(meter, &spent);
}

static void tell(struct sl_usage_sink *meter, const char *id, int64_t amount,
                 bool reset)
{
    tell_at(meter, id, amount, reset, DAY_0);
}

static void spend(struct sl_usage_sink *meter, const char *id, int64_t amount)
{
    tell(meter, id, amount, false);
}

static void test_batches(struct world *w)
{
    struct reported reported = {0};
    struct sl_usage_buffer_options options = {.on_threshold = on_threshold,
                                              .ctx = &reported};
    struct sl_usage_buffer *buffer = NULL;
    const struct sl_usage_buffer_counts *counts;
    struct sl_usage_sink *meter;
    char id[16];

    CASE("decisions are summed in a batch, and recorded once");
    CHECK_EQ(
        sl_usage_buffer_open(w->registry, w->loop, &options, &buffer, NULL), 0);
    meter = sl_usage_buffer_sink(buffer);
    counts = sl_usage_buffer_counts(buffer);
    for (int i = 0; i < 50; i++)
        spend(meter, "batch", 2);
    spend(meter, "batch", -10);
    sl_usage_buffer_flush(meter);
    CHECK_EQ(sum(w, "batch", SL_ROW_COUNTER), 90);
    CHECK_EQ(counts->spent, 51);
    CHECK_EQ(counts->written, 1);
    CASE("and thresholds are reported");
    CHECK_EQ(reported.thresholds, 1);
    CHECK_EQ(reported.last, 80);
    CASE("what was used after a reset is not forgotten with what was before");
    spend(meter, "anew", 3);
    tell(meter, "anew", 0, true);
    spend(meter, "anew", 1);
    spend(meter, "anew", 4);
    sl_usage_buffer_flush(meter);
    CHECK_EQ(sum(w, "anew", SL_ROW_COUNTER), 5);
    CHECK_EQ(counts->written, 4);
    CASE("twice, too");
    spend(meter, "anew", 3);
    tell(meter, "anew", 0, true);
    spend(meter, "anew", 2);
    tell(meter, "anew", 0, true);
    sl_usage_buffer_flush(meter);
    CHECK_EQ(sum(w, "anew", SL_ROW_COUNTER), 0);
    CASE("more keys than a batch holds are recorded, too");
    for (int i = 0; i < 3000; i++) {
        snprintf(id, sizeof(id), "many%d", i);
        spend(meter, id, 1);
    }
    sl_usage_buffer_flush(meter);
    CHECK_EQ(sum(w, "many0", SL_ROW_COUNTER), 1);
    CHECK_EQ(sum(w, "many2999", SL_ROW_COUNTER), 1);
    CHECK_EQ(counts->written, 3008);
    CHECK_EQ(counts->lost, 0);
    sl_usage_buffer_close(buffer);
}

static void test_full_segments(struct world *w)
{
    struct sl_usage_buffer_options options = {.on_threshold = NULL};
    struct sl_usage_buffer *buffer = NULL;
    const struct sl_usage_buffer_counts *counts;
    char id[16];

    CASE("a key has one line until it is sent, also in a full segment");
    CHECK_EQ(
        sl_usage_buffer_open(w->registry, w->loop, &options, &buffer, NULL), 0);
    counts = sl_usage_buffer_counts(buffer);
    for (int i = 0; i < 4000; i++) {
        snprintf(id, sizeof(id), "again%d", i % 1000);
        spend(sl_usage_buffer_sink(buffer), id, 1);
    }
    sl_usage_buffer_flush(sl_usage_buffer_sink(buffer));
    await_recorded(w, buffer);
    CHECK_EQ(sum(w, "again0", SL_ROW_COUNTER), 4);
    CHECK_EQ(sum(w, "again999", SL_ROW_COUNTER), 4);
    CHECK_EQ(counts->written, 1000);
    CHECK_EQ(counts->lost, 0);
    sl_usage_buffer_close(buffer);
}

/* Which day an amount is recorded for, if the day ends while it is kept. */
static void test_midnight(struct world *w)
{
    struct sl_usage_buffer_options options = {.on_threshold = NULL};
    struct sl_usage_buffer *buffer = NULL;
    struct sl_usage_sink *meter;
    const struct sl_usage_row *rows;
    uint64_t days[2] = {0};
    struct sl_job job;
    size_t count;

    CASE("amounts of two days of a period are not summed");
    CHECK_EQ(
        sl_usage_buffer_open(w->registry, w->loop, &options, &buffer, NULL), 0);
    meter = sl_usage_buffer_sink(buffer);
    for (int i = 0; i < 3; i++) {
        tell_at(meter, "night", 5, false, DAY_0 + SL_DAY - 1);
        tell_at(meter, "night", 2, false, DAY_0 + SL_DAY);
    }
    sl_usage_buffer_flush(meter);
    CHECK_EQ(sum(w, "night", SL_ROW_COUNTER), 21);
    CHECK_EQ(sl_usage_buffer_counts(buffer)->written, 2);
    rows = read_rows(w, "night", &job, &count);
    for (size_t i = 0; i < count; i++)
        if (rows[i].kind == SL_ROW_DAY)
            days[rows[i].when > DAY_0 / SL_DAY] += rows[i].used;
    CHECK_EQ(days[0], 15);
    CHECK_EQ(days[1], 6);
    sl_job_clear(&job);
    sl_usage_buffer_close(buffer);
}

static void test_no_memory(struct world *w)
{
    CASE("whichever allocation fails, units are put down or counted as lost");
    for (unsigned nth = 1; nth < 40; nth++) {
        struct fail f = {.nth = nth};
        struct sl_alloc alloc = fail_alloc(&f);
        struct sl_usage_buffer_options options = {.alloc = &alloc};
        struct sl_usage_buffer *buffer = NULL;
        char id[16];

        snprintf(id, sizeof(id), "failed%u", nth);
        if (sl_usage_buffer_open(w->registry, w->loop, &options, &buffer,
                                 NULL)) {
            fail_check(&f);
            continue;
        }
        for (int i = 0; i < 3; i++)
            spend(sl_usage_buffer_sink(buffer), id, 1);
        sl_usage_buffer_flush(sl_usage_buffer_sink(buffer));
        await_recorded(w, buffer);
        CHECK_EQ(sum(w, id, SL_ROW_COUNTER) +
                     sl_usage_buffer_counts(buffer)->lost,
                 3);
        sl_usage_buffer_close(buffer);
        fail_check(&f);
    }
}

int main(int argc, char **argv)
{
    struct world w;

    world_open(&w);
    test_adding(&w);
    test_keys(&w);
    test_totals(&w);
    test_things(&w);
    test_marks(&w);
    test_credits(&w);
    test_orders(&w);
    test_changes(&w);
    test_guide(&w);
    test_batches(&w);
    test_full_segments(&w);
    test_midnight(&w);
    test_no_memory(&w);
    test_restart(&w);
    world_close(&w);
    test_names();
    for (int i = 1; i < argc; i++)
        test_older(argv[i]);
    return CHECK_DONE();
}
