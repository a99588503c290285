/* usage_export.c -- exports of usage; invariants are in
 * registry/usage_export.h. */
#include "books.h"
#include "fail.h"

#define DAY_NUMBER (DAY_0 / SL_DAY)

/* Amount of the month that began at DAY_0, of `id`. */
static struct sl_usage_entry month(const char *id, int64_t amount)
{
    struct sl_usage_entry u = report(id, amount, "");

    u.plan = S("free");
    u.zone = S("UTC");
    u.end = u.start + 30 * SL_DAY;
    u.last_day = DAY_NUMBER + 29;
    return u;
}

static void put_month(struct world *w, const char *id, int64_t amount)
{
    struct sl_usage_entry u = month(id, amount);

    CHECK_EQ(put(w, &u, 1), SL_JOB_DONE);
}

/* An export that is read page by page. */
struct reading {
    struct sl_usage_export e;
    struct sl_job job;
    char scope[16], id[64], limit[32];
};

static void begin(struct reading *r, unsigned most)
{
    memset(r, 0, sizeof(*r));
    r->e = (struct sl_usage_export){.from = 1, .to = 1000000, .most = most};
    r->e.after.scope = r->e.after.id = r->e.after.limit = S("");
    sl_job_init(&r->job, SL_JOB_EXPORT, &sl_alloc_libc);
    r->job.export = &r->e;
}

static void keep(struct sl_str *text, char *room, size_t size)
{
    CHECK(text->len < size);
    memcpy(room, text->at, text->len);
    text->at = room;
}

/* Read a page; returns its rows, of at most `most`. */
static unsigned next_page(struct world *w, struct reading *r,
                          struct sl_usage_export_row *rows, unsigned most)
{
    struct sl_str page;
    unsigned count = 0;

    sl_buf_clear(&r->job.text);
    ask(w, &r->job);
    CHECK_EQ(r->job.err, 0);
    page = sl_buf_str(&r->job.text);
    while (count < most && sl_usage_export_next(&page, &rows[count]))
        count++;
    CHECK_EQ(page.len, 0);
    r->e.number = r->e.begun;
    r->e.after = r->e.next;
    if (count > 0) {
        keep(&r->e.after.scope, r->scope, sizeof(r->scope));
        keep(&r->e.after.id, r->id, sizeof(r->id));
        keep(&r->e.after.limit, r->limit, sizeof(r->limit));
    }
    return count;
}

static void test_rows(struct world *w)
{
    struct sl_usage_export_row rows[10];
    struct sl_usage_entry u = month("acme", 130);
    struct reading r;

    CASE("(1) a counter is a row, with the plan and cap of its last record");
    CHECK_EQ(put(w, &u, 1), SL_JOB_DONE);
    u = month("acme", 1);
    u.plan = S("pro");
    u.cap = 110;
    CHECK_EQ(put(w, &u, 1), SL_JOB_DONE);
    u = thing("a", 1);
    CHECK_EQ(put(w, &u, 1), SL_JOB_DONE);
    begin(&r, 10);
    CHECK_EQ(next_page(w, &r, rows, 10), 1);
    CHECK(sl_str_eq(rows[0].scope, S("org")));
    CHECK(sl_str_eq(rows[0].id, S("acme")));
    CHECK(sl_str_eq(rows[0].limit, S("minutes")));
    CHECK(sl_str_eq(rows[0].plan, S("pro")));
    CHECK(sl_str_eq(rows[0].zone, S("UTC")));
    CHECK_EQ(rows[0].cap, 110);
    CHECK_EQ(rows[0].used, 131);
    CHECK_EQ(rows[0].overage, 31);
    CHECK_EQ(rows[0].start, DAY_0);
    CHECK_EQ(rows[0].end, DAY_0 + 30 * SL_DAY);
    CHECK(!r.e.more);
    sl_job_clear(&r.job);
    CASE("(1) by the last day of its period: `to` is not included");
    begin(&r, 10);
    r.e.from = DAY_NUMBER + 29;
    r.e.to = DAY_NUMBER + 30;
    CHECK_EQ(next_page(w, &r, rows, 10), 1);
    sl_job_clear(&r.job);
    begin(&r, 10);
    r.e.to = DAY_NUMBER + 29;
    CHECK_EQ(next_page(w, &r, rows, 10), 0);
    sl_job_clear(&r.job);
    begin(&r, 10);
    r.e.from = DAY_NUMBER + 30;
    CHECK_EQ(next_page(w, &r, rows, 10), 0);
    sl_job_clear(&r.job);
    CASE("a record without a plan keeps the plan");
    u = month("acme", 1);
    u.plan = S("");
    u.cap = 110;
    CHECK_EQ(put(w, &u, 1), SL_JOB_DONE);
    begin(&r, 10);
    CHECK_EQ(next_page(w, &r, rows, 10), 1);
    CHECK(sl_str_eq(rows[0].plan, S("pro")));
    CHECK_EQ(rows[0].cap, 110);
    sl_job_clear(&r.job);
}

/* Rows whose period is not known yet come first, and are found once. */
static void test_older(struct world *w)
{
    struct sl_usage_export_row rows[10];
    struct sl_usage_entry u = report("older", 5, "");
    struct reading r;
    unsigned count = 0;

    CASE("(1) counters of earlier versions are rows, too");
    CHECK_EQ(put(w, &u, 1), SL_JOB_DONE);
    begin(&r, 1);
    do {
        unsigned found = next_page(w, &r, rows, 10);

        if (count == 0)
            CHECK(sl_str_eq(rows[0].id, S("older")));
        CHECK_EQ(rows[0].last_day == 0, count == 0);
        count += found;
    } while (r.e.more && count < 10);
    CHECK_EQ(count, 2);
    sl_job_clear(&r.job);
    CASE("their next record has the period");
    put_month(w, "older", 1);
    begin(&r, 10);
    CHECK_EQ(next_page(w, &r, rows, 10), 2);
    CHECK_EQ(rows[0].last_day, DAY_NUMBER + 29);
    CHECK_EQ(rows[1].used, 6);
    sl_job_clear(&r.job);
}

#define MANY 40

/* While pages are read, two organisations always change together, and others
 * begin to use. */
static void test_instant(struct world *w)
{
    struct sl_usage_entry two[2];
    struct sl_usage_export_row rows[10];
    struct reading r, second;
    uint64_t sum = 0;
    unsigned count = 0;
    char id[32];

    for (unsigned i = 0; i < MANY; i++) {
        snprintf(id, sizeof(id), "m%02u", i);
        put_month(w, id, 10);
    }
    CASE("(2) (3) later transactions are not in it, not even in part");
    begin(&r, 7);
    while (count == 0 || r.e.more) {
        unsigned found = next_page(w, &r, rows, 10);

        for (unsigned i = 0; i < found; i++)
            sum += rows[i].id.at[0] == 'm' ? rows[i].used : 0;
        count += found;
        two[0] = month("m00", 1);
        two[1] = month("m39", 1);
        CHECK_EQ(put(w, two, 2), SL_JOB_DONE);
        snprintf(id, sizeof(id), "m%02ux", count);
        put_month(w, id, 3);
    }
    CHECK_EQ(count, MANY + 2);
    CHECK_EQ(sum, MANY * 10);
    CASE("(2) the next one has them");
    begin(&second, 5);
    sum = count = 0;
    while (count == 0 || second.e.more) {
        unsigned found = next_page(w, &second, rows, 10);

        for (unsigned i = 0; i < found; i++)
            sum += rows[i].id.at[0] == 'm' ? rows[i].used : 0;
        count += found;
    }
    CHECK_EQ(sum, MANY * 10 + 7 * 2 + 7 * 3);
    CHECK_EQ(count, MANY + 2 + 6);
    CASE("an export that is over is not found");
    ask(w, &r.job);
    CHECK_EQ(r.job.result, SL_JOB_NOT_FOUND);
    sl_job_clear(&r.job);
    sl_job_clear(&second.job);
}

static void test_two(struct world *w)
{
    struct sl_usage_export_row rows[10];
    struct reading early, late;
    uint64_t before, after;

    CASE("(2) two exports have an instant each");
    begin(&early, 1);
    CHECK_EQ(next_page(w, &early, rows, 10), 1);
    put_month(w, "acme", 1);
    put_month(w, "m05", 100);
    begin(&late, 1);
    CHECK_EQ(next_page(w, &late, rows, 10), 1);
    after = rows[0].used;
    put_month(w, "acme", 50);
    put_month(w, "m05", 1000);
    before = 0;
    while (early.e.more)
        if (next_page(w, &early, rows, 10) && sl_str_eq(rows[0].id, S("m05")))
            before = rows[0].used;
    CHECK_EQ(before, 10);
    while (late.e.more)
        if (next_page(w, &late, rows, 10) && sl_str_eq(rows[0].id, S("m05")))
            before = rows[0].used;
    CHECK_EQ(before, 110);
    CHECK(after > 0);
    CASE("one that is not read for an hour ends");
    sl_job_clear(&early.job);
    begin(&early, 1);
    CHECK_EQ(next_page(w, &early, rows, 10), 1);
    w->now += 2 * SL_HOUR;
    ask(w, &early.job);
    CHECK_EQ(early.job.result, SL_JOB_NOT_FOUND);
    sl_job_clear(&early.job);
    sl_job_clear(&late.job);
}

static void test_no_memory(struct world *w)
{
    struct sl_usage_export_row rows[10];
    struct reading r;
    struct fail f;
    struct sl_alloc alloc = fail_alloc(&f);
    unsigned nth = 0;

    CASE("whichever allocation fails, the page does, and nothing else");
    do {
        f = (struct fail){.nth = ++nth};
        begin(&r, 10);
        sl_job_init(&r.job, SL_JOB_EXPORT, &alloc);
        r.job.export = &r.e;
        ask(w, &r.job);
        if (f.calls >= nth)
            CHECK_EQ(r.job.err, SLUICE_ENOMEM);
        else
            CHECK_EQ(r.job.err, 0);
        sl_job_clear(&r.job);
        fail_check(&f);
        put_month(w, "acme", 1);
    } while (f.calls >= nth && nth < 100);
    CHECK(nth > 1 && nth < 100);
    begin(&r, 10);
    CHECK(next_page(w, &r, rows, 10) > 1);
    sl_job_clear(&r.job);
}

int main(void)
{
    struct world w;

    world_open(&w);
    test_rows(&w);
    test_older(&w);
    test_instant(&w);
    test_two(&w);
    test_no_memory(&w);
    world_close(&w);
    return CHECK_DONE();
}
