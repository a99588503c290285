/* journal.c -- sets in steps: what is written of them, read again, and taken
 * back. */
#include "store/dynamo/dynamo_int.h"

#include "check.h"
#include "fail.h"
#include "limit.h"

#define T0 (20000 * SL_DAY)
#define ID "0123456789abcdef0123456789abcdef"

static void make(struct sl_journal_row *row, enum sl_kind kind,
                 const char *text, uint64_t cost)
{
    memset(row, 0, sizeof(*row));
    row->limit = rate_of(kind, text);
    row->name = SL_STR("a\"b c");
    row->cost = cost;
    row->taken = T0;
    row->shape = sl_limit_shape(&row->limit);
    if (row->limit.calendar)
        row->period = sl_calendar_period(&row->limit.cal, T0);
}

/* What a query answers: one journal with these rows, put at `at`. */
static int answer(struct sl_buf *out, const char *sort, sl_ns at,
                  struct sl_str rows)
{
    struct sl_buf item;
    int err;

    sl_buf_init(&item, 1 << 16, out->alloc);
    err = sl_journal_put(&item, SL_STR("t"), ID, at, rows);
    sl_buf_clear(out);
    if (!err)
        err =
            sl_buf_addf(out, "{\"Items\":[{\"dataType\":{\"S\":\"%s\"}", sort);
    if (!err) { /* the item as it was put, from its time on */
        struct sl_str text = sl_buf_str(&item);
        const char *from = memmem(text.at, text.len, ",\"at\":", 6);

        text.len--;
        err = sl_buf_add(out, sl_str_from(text, (size_t)(from - text.at)));
    }
    if (!err)
        err = sl_buf_add(out, SL_STR("]}"));
    sl_buf_done(&item);
    return err;
}

static bool read_back(struct sl_buf *rows, const char *sort, sl_ns before,
                      struct sl_journal *ret)
{
    struct sl_buf body, after;
    bool found;

    sl_buf_init(&body, 1 << 16, &sl_alloc_libc);
    sl_buf_init(&after, 1 << 12, &sl_alloc_libc);
    CHECK_EQ(answer(&body, sort, T0, sl_buf_str(rows)), 0);
    found = sl_journal_read(sl_buf_str(&body), before, ret, &after);
    CHECK_EQ(after.len, found ? 4 + SL_JOURNAL_ID : 0);
    sl_buf_done(&after);
    sl_buf_done(&body);
    return found;
}

static const struct {
    enum sl_kind kind;
    const char *rate;
} kinds[] = {
    {SL_BUCKET,   "5/min burst 8"},
    {SL_INTERVAL, "5/min"        },
    {SL_LEAKY,    "5/10s queue 5"},
    {SL_FIXED,    "100/hour"     },
    {SL_SLIDING,  "10/10s"       },
    {SL_QUOTA,    "120/month"    },
    {SL_QUOTA,    "9/day"        },
    {SL_LEVEL,    "5"            },
};

static void test_texts(void)
{
    struct sl_journal_row row;
    struct sl_journal back = {.count = 0};
    struct sl_row a, b;
    struct sl_buf rows;

    CASE("whatever the kind, it is the same row that is found again");
    sl_buf_init(&rows, 1 << 16, &sl_alloc_libc);
    sl_buf_init(&back.names, 1 << 16, &sl_alloc_libc);
    for (size_t i = 0; i < SL_LEN(kinds); i++) {
        make(&row, kinds[i].kind, kinds[i].rate, i + 1);
        CHECK_EQ(sl_journal_add(&rows, &row), 0);
    }
    CHECK(read_back(&rows, "SET#" ID, T0 + 1, &back));
    CHECK_STR(back.id, ID);
    CHECK_EQ(back.at, T0);
    CHECK_EQ(back.count, SL_LEN(kinds));
    for (unsigned i = 0; i < back.count; i++) {
        make(&row, kinds[i].kind, kinds[i].rate, i + 1);
        sl_journal_row_of(&row, ID, &a);
        sl_journal_row_of(&back.rows[i], ID, &b);
        CHECK(sl_str_eq(a.name, b.name));
        CHECK_STR(a.sort, b.sort);
        CHECK_EQ(a.ttl, b.ttl);
        CHECK_EQ(back.rows[i].cost, row.cost);
        CHECK_EQ(back.rows[i].taken, row.taken);
        CHECK_EQ(back.rows[i].limit.room, row.limit.room);
        CHECK_EQ(back.rows[i].limit.calendar, row.limit.calendar);
    }

    CASE("those that may be under way are left alone");
    CHECK(!read_back(&rows, "SET#" ID, T0, &back));
    CASE("and what is none of ours");
    CHECK(!read_back(&rows, "SET#x", T0 + 1, &back));
    CHECK(!read_back(&rows, "SET#" ID "0", T0 + 1, &back));
    sl_buf_done(&rows);
    sl_buf_done(&back.names);
}

static void test_pages(void)
{
#define LAST(type, text)                                                       \
    "{\"LastEvaluatedKey\":{\"dataType\":{\"" type "\":\"" text "\"}}}"
    static const struct {
        const char *why, *body, *after;
    } rows[] = {
  /* clang-format off */
        {"nothing", "{}", ""},
        {"none of ours", "{\"Items\":[7]}", ""},
        {"no JSON", "[", ""},
        {"there are more", LAST("S", "a\\\"b"), "a\"b"},
        {"a key that is none", LAST("N", "1"), ""},
  /* clang-format on */
    };
    struct sl_journal back = {.count = 0};
    struct sl_buf after, query;

    sl_buf_init(&back.names, 1 << 16, &sl_alloc_libc);
    sl_buf_init(&after, 1 << 12, &sl_alloc_libc);
    sl_buf_init(&query, 1 << 12, &sl_alloc_libc);
    for (size_t i = 0; i < SL_LEN(rows); i++) {
        CASE(rows[i].why);
        sl_buf_clear(&after);
        CHECK_EQ(sl_buf_add(&after, SL_STR("left over")), 0);
        CHECK(!sl_journal_read(sl_str_c(rows[i].body), T0, &back, &after));
        CHECK(sl_str_eq(sl_buf_str(&after), sl_str_c(rows[i].after)));
    }

    CASE("and what is behind is asked for");
    CHECK_EQ(sl_journal_put_query(&query, SL_STR("t"), SL_STR("")), 0);
    CHECK(!memmem(query.bytes, query.len, "StartKey", 8));
    sl_buf_clear(&query);
    CHECK_EQ(sl_journal_put_query(&query, SL_STR("t"), SL_STR("a\"b")), 0);
    CHECK(memmem(query.bytes, query.len, "{\"S\":\"a\\\"b\"}}}", 14));
    sl_buf_done(&back.names);
    sl_buf_done(&after);
    sl_buf_done(&query);
}

static void test_bad_texts(void)
{
    static const char *const texts[] = {
        "",
        "3 0 3 3 3600000000000 0 0 1 9 9 3 ab",    /* too short a name */
        "3 0 3 3 3600000000000 0 0 1 9 9 0 ",      /* none */
        "8 0 3 3 3600000000000 0 0 1 9 9 1 a",     /* no such kind */
        "3 2 3 3 3600000000000 0 0 1 9 9 1 a",     /* no such quantum */
        "3 0 0 3 3600000000000 0 0 1 9 9 1 a",     /* no count */
        "3 0 3 0 3600000000000 0 0 1 9 9 1 a",     /* no capacity */
        "3 0 3 3 0 0 0 1 9 9 1 a",                 /* no period */
        "7 0 3 3 3600000000000 0 0 1 9 9 1 a",     /* a level with one */
        "0 0 9 4294967296 60000000 0 0 1 9 9 1 a", /* too large a bucket */
        "3 0 3 3 3600000000000 0 0 -1 9 9 1 a",    /* a sign */
        "3 0 3 3 3600000000000 0 0 1 9 9 1 a3",    /* something behind it */
        "3 0 3 3 3600000000000 0 0 99999999999999999999 9 9 1 a",
    };
    struct sl_journal back = {.count = 0};
    struct sl_buf rows;

    sl_buf_init(&rows, 1 << 16, &sl_alloc_libc);
    sl_buf_init(&back.names, 1 << 16, &sl_alloc_libc);
    for (size_t i = 0; i < SL_LEN(texts); i++) {
        CASE(texts[i]);
        sl_buf_clear(&rows);
        CHECK_EQ(sl_buf_add(&rows, sl_str_c(texts[i])), 0);
        CHECK(!read_back(&rows, "SET#" ID, T0 + 1, &back));
    }
    sl_buf_done(&rows);
    sl_buf_done(&back.names);
}

/* ---- taking back ---- */

static uint64_t left(const struct sl_journal_row *row, struct sl_cell cell,
                     sl_ns now)
{
    return sl_take(&row->limit, cell, 0, now).answer.remaining;
}

static void test_undo(void)
{
    CASE("taken back at once, nothing was taken");
    for (size_t i = 0; i < SL_LEN(kinds); i++) {
        struct sl_journal_row row;
        struct sl_cell before, taken, others;

        make(&row, kinds[i].kind, kinds[i].rate, 2);
        before = sl_take(&row.limit, sl_cell_of(0, 0), 1, T0).next;
        taken = sl_take(&row.limit, before, 2, T0).next;
        CHECK_EQ(left(&row, sl_journal_undo(&row, taken, T0), T0),
                 left(&row, before, T0));

        /* Another daemon came between and keeps its units. */
        others = sl_take(&row.limit, taken, 1, T0).next;
        CHECK_EQ(left(&row, sl_journal_undo(&row, others, T0), T0) + 1,
                 left(&row, before, T0));
    }
}

/* Whatever happens in between: with what was taken back no more is to be had
 * than if it had never been taken. */
static void test_never_more(void)
{
    uint64_t state = 5;

    CASE("later, never more than if nothing had been taken");
    for (unsigned round = 0; round < 20000; round++) {
        size_t kind = round % SL_LEN(kinds);
        struct sl_journal_row row;
        struct sl_cell with = sl_cell_of(0, 0), without;
        sl_ns now = T0;

        make(&row, kinds[kind].kind, kinds[kind].rate, 1 + round % 3);
        state = state * UINT64_C(6364136223846793005) + 1442695040888963407U;
        with = without = sl_take(&row.limit, with, state >> 62, now).next;
        if (sl_take(&row.limit, with, row.cost, now).answer.outcome != SL_ALLOW)
            continue; /* a denied take writes no journal */
        with = sl_take(&row.limit, with, row.cost, now).next;
        for (unsigned i = 0; i < (state >> 40) % 4; i++) {
            uint64_t cost = state >> (50 + i) & 3;

            now += (sl_ns)(state >> (20 + i) & 0xf) * SL_S;
            if (sl_take(&row.limit, with, cost, now).answer.outcome != SL_ALLOW)
                continue;
            with = sl_take(&row.limit, with, cost, now).next;
            without = sl_take(&row.limit, without, cost, now).next;
        }
        with = sl_journal_undo(&row, with, now);
        CHECK(left(&row, with, now) <= left(&row, without, now));
    }
}

static void test_was_taken(void)
{
    static const struct {
        const char *why;
        enum sl_kind kind;
        const char *rate;
        bool found, marked;
        sl_ns age;
        bool taken;
    } rows[] = {
  /* clang-format off */
        {"its mark", SL_FIXED, "5/min", true, true, SL_MIN, true},
        {"no mark", SL_FIXED, "5/min", true, false, 9 * SL_HOUR, false},
        {"no row", SL_FIXED, "5/min", false, false, SL_HOUR - 1, false},
        {"it may have expired", SL_FIXED, "5/min", false, false, SL_HOUR, true},
        {"levels do not", SL_LEVEL, "5", false, false, 9 * SL_HOUR, false},
  /* clang-format on */
    };

    for (size_t i = 0; i < SL_LEN(rows); i++) {
        struct sl_journal journal = {.at = T0, .count = 2};
        struct sl_row last = {.found = rows[i].found, .marked = rows[i].marked};

        CASE(rows[i].why);
        make(&journal.rows[0], SL_QUOTA, "9/day", 1);
        make(&journal.rows[1], rows[i].kind, rows[i].rate, 1);
        CHECK_EQ(sl_journal_was_taken(&journal, &last, T0 + rows[i].age),
                 rows[i].taken);
    }
}

static void test_memory(void)
{
    struct sl_journal_row row;
    int err = SLUICE_ENOMEM;

    CASE("without memory nothing is put");
    make(&row, SL_FIXED, "5/min", 1);
    for (unsigned n = 1; err && n < 100; n++) {
        struct fail f = {.nth = n};
        struct sl_alloc alloc = fail_alloc(&f);
        struct sl_buf rows, body;

        sl_buf_init(&rows, 1 << 16, &alloc);
        sl_buf_init(&body, 1 << 16, &alloc);
        err = sl_journal_add(&rows, &row);
        if (!err)
            err = sl_journal_put(&body, SL_STR("t"), ID, T0, sl_buf_str(&rows));
        CHECK(!err || err == SLUICE_ENOMEM);
        sl_buf_done(&rows);
        sl_buf_done(&body);
        fail_check(&f);
    }
    CHECK_EQ(err, 0);
}

int main(void)
{
    test_texts();
    test_bad_texts();
    test_pages();
    test_undo();
    test_never_more();
    test_was_taken();
    test_memory();
    return CHECK_DONE();
}
