/* buf.c -- growable bytes: ceilings, formats, failures. */
#include "base/buf.h"

#include "check.h"
#include "fail.h"

static bool holds(const struct sl_buf *buf, const char *text)
{
    return sl_str_eq(sl_buf_str(buf), sl_str_c(text));
}

TEST(life)
{
    struct fail f = {0};
    struct sl_alloc alloc = fail_alloc(&f);
    struct sl_buf buf;

    sl_buf_init(&buf, 1000, &alloc);
    CASE("a new buffer is empty and has allocated nothing");
    CHECK(holds(&buf, ""));
    CHECK_EQ(f.calls, 0);
    sl_buf_check(&buf);

    CASE("nothing can be added without memory");
    CHECK_EQ(sl_buf_add(&buf, (struct sl_str){NULL, 0}), 0);
    CHECK_EQ(sl_buf_addf(&buf, "%s", ""), 0);
    CHECK_EQ(sl_buf_reserve(&buf, 0), 0);
    sl_buf_drop(&buf, 0);
    CHECK_EQ(f.calls, 0);
    sl_buf_check(&buf);

    CASE("bytes are appended in order");
    CHECK_EQ(sl_buf_add(&buf, SL_STR("one ")), 0);
    CHECK_EQ(sl_buf_addf(&buf, "%d%c", 2, ' '), 0);
    CHECK_EQ(sl_buf_add(&buf, SL_STR("three")), 0);
    CHECK(holds(&buf, "one 2 three"));
    sl_buf_check(&buf);

    CASE("dropping moves the rest to the front");
    sl_buf_drop(&buf, 4);
    CHECK(holds(&buf, "2 three"));
    sl_buf_drop(&buf, 7);
    CHECK(holds(&buf, ""));
    sl_buf_check(&buf);

    CASE("clearing keeps the memory");
    CHECK_EQ(sl_buf_add(&buf, SL_STR("again")), 0);
    sl_buf_clear(&buf);
    CHECK(holds(&buf, ""));
    CHECK(buf.size > 0);
    CHECK_EQ(f.calls, 1);

    CASE("done gives it back, and the buffer may be used again");
    sl_buf_done(&buf);
    fail_check(&f);
    sl_buf_check(&buf);
    CHECK_EQ(buf.ceiling, 1000);
    CHECK_EQ(sl_buf_add(&buf, SL_STR("again")), 0);
    CHECK(holds(&buf, "again"));
    sl_buf_done(&buf);
    fail_check(&f);
}

TEST(growth)
{
    struct fail f = {0};
    struct sl_alloc alloc = fail_alloc(&f);
    struct sl_buf buf;

    CASE("a byte at a time costs few calls, and the ceiling is met exactly");
    sl_buf_init(&buf, 100000, &alloc);
    for (unsigned i = 0; i < 100000; i++)
        CHECK_EQ(sl_buf_add(&buf, SL_STR("x")), 0);
    CHECK(f.calls <= 12);
    CHECK_EQ(sl_buf_add(&buf, SL_STR("x")), SLUICE_EFULL);
    CHECK_EQ(buf.len, 100000);
    sl_buf_check(&buf);
    sl_buf_done(&buf);

    CASE("reserved room may be written to without further ado");
    sl_buf_init(&buf, 300, &alloc);
    CHECK_EQ(sl_buf_reserve(&buf, 300), 0);
    memset(buf.bytes, 'y', 300);
    buf.len = 300;
    sl_buf_check(&buf);
    CHECK_EQ(sl_buf_reserve(&buf, 0), 0);
    CHECK_EQ(sl_buf_reserve(&buf, 1), SLUICE_EFULL);
    CHECK_EQ(sl_buf_reserve(&buf, SIZE_MAX), SLUICE_EFULL);
    sl_buf_done(&buf);
    fail_check(&f);
}

TEST(ceiling)
{
    static const struct {
        const char *why;
        size_t ceiling;
        const char *first, *second;
        int err;
        const char *holds;
    } rows[] = {
        {"up to the ceiling",      6, "abc", "def", 0,            "abcdef"},
        {"not one byte beyond",    5, "abc", "def", SLUICE_EFULL, "abc"   },
        {"a ceiling of one byte",  1, "",    "a",   0,            "a"     },
        {"and not two",            1, "",    "ab",  SLUICE_EFULL, ""      },
        {"full, and nothing more", 3, "abc", "",    0,            "abc"   },
        {"one place left for NUL", 7, "abc", "def", 0,            "abcdef"},
    };

    for (size_t i = 0; i < SL_LEN(rows); i++) {
        for (unsigned way = 0; way < 2; way++) {
            struct fail f = {0};
            struct sl_alloc alloc = fail_alloc(&f);
            struct sl_buf buf;
            int err;

            CASE(rows[i].why);
            sl_buf_init(&buf, rows[i].ceiling, &alloc);
            CHECK_EQ(sl_buf_addf(&buf, "%s", rows[i].first), 0);
            err = way ? sl_buf_addf(&buf, "%s", rows[i].second)
                      : sl_buf_add(&buf, sl_str_c(rows[i].second));
            CHECK_EQ(err, rows[i].err);
            CHECK(holds(&buf, rows[i].holds));
            sl_buf_check(&buf);
            sl_buf_done(&buf);
            fail_check(&f);
        }
    }
}

/* Adds both ways until the ceiling is met; the first error, or 0. */
static int live(struct sl_buf *buf)
{
    int err = 0;

    for (unsigned i = 0; i < 30 && !err; i++) {
        size_t len = buf->len;

        err = i % 2 ? sl_buf_add(buf, SL_STR("0123456789"))
                    : sl_buf_addf(buf, "%s", "0123456789");
        CHECK_EQ(buf->len, len + (err ? 0 : 10));
        sl_buf_check(buf);
    }
    return err;
}

TEST(failures)
{
    int err = SLUICE_ENOMEM;
    unsigned n;

    CASE("with the nth allocation failing: ENOMEM, nothing added, no leak");
    for (n = 1; err; n++) {
        struct fail f = {.nth = n};
        struct sl_alloc alloc = fail_alloc(&f);
        struct sl_buf buf;

        sl_buf_init(&buf, 300, &alloc);
        err = live(&buf);
        CHECK(!err || err == SLUICE_ENOMEM);
        for (size_t i = 0; i < buf.len; i++)
            CHECK_EQ(buf.bytes[i], '0' + (char)(i % 10));
        sl_buf_done(&buf);
        fail_check(&f);
    }
    CHECK(n > 4);

    CASE("libc's memory serves as well");
    for (unsigned i = 0; i < 2; i++) {
        struct sl_buf buf;

        sl_buf_init(&buf, 300, &sl_alloc_libc);
        CHECK_EQ(live(&buf), 0);
        sl_buf_done(&buf);
        sl_buf_done(&buf);
    }

    CASE("a detour without memory adds nothing");
    for (n = 2; n < 4; n++) {
        struct fail f = {.nth = n};
        struct sl_alloc alloc = fail_alloc(&f);
        struct sl_buf buf;

        sl_buf_init(&buf, 3, &alloc);
        err = sl_buf_addf(&buf, "%s", "abc");
        CHECK_EQ(err, n == 2 ? SLUICE_ENOMEM : 0);
        CHECK(holds(&buf, n == 2 ? "" : "abc"));
        sl_buf_done(&buf);
        fail_check(&f);
    }
}

CHECK_MAIN()
