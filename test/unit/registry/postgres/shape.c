/* shape.c -- who can be called what, and instants in PostgreSQL's own form. */
#include "registry/pg.h"

#include <string.h>

#include "check.h"

#define UUID "123e4567-e89b-12d3-a456-426614174000"

static const struct {
    unsigned type;
    const char *id;
    bool can;
} id_rows[] = {
    {SL_PG_TEXT,    "ann",                                  true },
    {SL_PG_TEXT,    "ann ",                                 true },
    {SL_PG_TEXT,    "o'hara\\\x1b",                         true },
    {SL_PG_TEXT,    "",                                     false},
    {SL_PG_TEXT,    "j\xc3\xb6rg",                          true },
    {SL_PG_TEXT,    "j\xc3",                                false},
    {SL_PG_TEXT,    "\xff",                                 false},
    {SL_PG_VARCHAR, "ann ",                                 true },
    {SL_PG_CHAR,    "ann",                                  true },
    {SL_PG_CHAR,    "ann ",                                 false},
    {SL_PG_INT2,    "32767",                                true },
    {SL_PG_INT2,    "32768",                                false},
    {SL_PG_INT2,    "-32768",                               true },
    {SL_PG_INT2,    "-32769",                               false},
    {SL_PG_INT4,    "0",                                    true },
    {SL_PG_INT4,    "-0",                                   false},
    {SL_PG_INT4,    "00",                                   false},
    {SL_PG_INT4,    "07",                                   false},
    {SL_PG_INT4,    "+7",                                   false},
    {SL_PG_INT4,    " 7",                                   false},
    {SL_PG_INT4,    "7 ",                                   false},
    {SL_PG_INT4,    "",                                     false},
    {SL_PG_INT4,    "-",                                    false},
    {SL_PG_INT4,    "0x7",                                  false},
    {SL_PG_INT4,    "2147483647",                           true },
    {SL_PG_INT4,    "2147483648",                           false},
    {SL_PG_INT8,    "9223372036854775807",                  true },
    {SL_PG_INT8,    "9223372036854775808",                  false},
    {SL_PG_INT8,    "-9223372036854775808",                 true },
    {SL_PG_INT8,    "-9223372036854775809",                 false},
    {SL_PG_INT8,    "18446744073709551617",                 false},
    {SL_PG_UUID,    UUID,                                   true },
    {SL_PG_UUID,    UUID "0",                               false},
    {SL_PG_UUID,
     "123E4567" /* upper case is another spelling */
     "-e89b-12d3-a456-426614174000",                        false},
    {SL_PG_UUID,    "{123e4567-e89b-12d3-a456-4266141740}", false},
    {SL_PG_UUID,    "ann",                                  false},
    {SL_PG_UUID,    "",                                     false},
};

TEST(ids)
{
    char longest[SL_SUBJECT_RECORD_ID + 1];

    CASE("ids have one spelling");
    for (size_t i = 0; i < SL_LEN(id_rows); i++) {
        printf("# \"%s\" as %u\n", id_rows[i].id, id_rows[i].type);
        CHECK_EQ(sl_pg_can_be(id_rows[i].type, sl_str_c(id_rows[i].id)),
                 id_rows[i].can);
    }
    CHECK(!sl_pg_can_be(SL_PG_TEXT, (struct sl_str){"a\0b", 3}));
    memset(longest, 'a', sizeof(longest));
    CHECK(sl_pg_can_be(SL_PG_TEXT,
                       (struct sl_str){longest, SL_SUBJECT_RECORD_ID}));
    CHECK(!sl_pg_can_be(SL_PG_TEXT,
                        (struct sl_str){longest, SL_SUBJECT_RECORD_ID + 1}));
}

/* `size` bytes of a number, the first the highest. */
static sl_ns instant(unsigned type, int64_t number, size_t size)
{
    char bytes[9];
    sl_ns ret = -2;

    for (size_t i = size; i-- > 0; number >>= 8)
        bytes[i] = (char)number;
    if (sl_pg_instant(type, (struct sl_str){bytes, size}, &ret))
        CHECK_EQ(ret, -2); /* untouched */
    return ret;
}

TEST(instants)
{
    const int64_t zero = INT64_C(946684800); /* 2000-01-01, in seconds */
    const int64_t last = (SL_NS_MAX - zero * SL_S) / SL_US;

    CASE("timestamps are microseconds since 2000");
    CHECK_EQ(instant(SL_PG_TIMESTAMPTZ, 0, 8), zero * SL_S);
    CHECK_EQ(instant(SL_PG_TIMESTAMP, 1, 8), zero * SL_S + 1000);
    CHECK_EQ(instant(SL_PG_TIMESTAMP, -1, 8), zero * SL_S - 1000);
    CHECK_EQ(instant(SL_PG_TIMESTAMPTZ, -zero * 1000000, 8), 0);
    CHECK_EQ(instant(SL_PG_TIMESTAMPTZ, -zero * 1000000 - 1, 8), 0);
    CHECK_EQ(instant(SL_PG_TIMESTAMPTZ, last, 8), zero * SL_S + last * SL_US);
    CHECK_EQ(instant(SL_PG_TIMESTAMPTZ, last + 1, 8), SL_NS_NONE);
    CHECK_EQ(instant(SL_PG_TIMESTAMPTZ, INT64_MAX, 8), SL_NS_NONE);
    CHECK_EQ(instant(SL_PG_TIMESTAMPTZ, INT64_MIN, 8), 0);

    CASE("dates are days");
    CHECK_EQ(instant(SL_PG_DATE, 0, 4), zero * SL_S);
    CHECK_EQ(instant(SL_PG_DATE, 1, 4), (zero + 86400) * SL_S);
    CHECK_EQ(instant(SL_PG_DATE, -10957, 4), 0);
    CHECK_EQ(instant(SL_PG_DATE, -10956, 4), 86400 * SL_S);
    CHECK_EQ(instant(SL_PG_DATE, INT32_MIN, 4), 0);
    CHECK_EQ(instant(SL_PG_DATE, INT32_MAX, 4), SL_NS_NONE);
    CHECK_EQ(instant(SL_PG_DATE, 2932896, 4), SL_NS_NONE); /* 9999-12-31 */

    CASE("all else is none");
    CHECK_EQ(instant(SL_PG_DATE, 0, 8), -2);
    CHECK_EQ(instant(SL_PG_TIMESTAMP, 0, 4), -2);
    CHECK_EQ(instant(SL_PG_TIMESTAMP, 0, 0), -2);
    CHECK_EQ(instant(SL_PG_TIMESTAMP, 0, 9), -2);
    CHECK_EQ(instant(SL_PG_INT8, 0, 8), -2);
}

static const struct {
    const char *json;
    const char *rates; /* "limit=rate ..."; NULL: all are ignored */
} override_rows[] = {
    {"{}",                                      ""                  },
    {" {\"api\": \"9/min burst 12\"} ",         "api=9/min burst 12"},
    {"{\"a\":\"1/s\",\"b\":\"unlimited\"}",     "a=1/s b=unlimited" },
    {"{\"a\":null,\"b\":\"2/s\"}",              "b=2/s"             },
    {"{\"exports\":12}",                        "exports=12"        },
    {"{\"\\u0061\":\"1\\/s\"}",                 "a=1/s"             },
    {"",                                        NULL                },
    {"null",                                    NULL                },
    {"7",                                       NULL                },
    {"[\"api\"]",                               NULL                },
    {"{\"a\":\"1/s\"",                          NULL                },
    {"{\"a\":\"1/s\"}}",                        NULL                },
    {"{\"a\":\"\"}",                            NULL                },
    {"{\"a\":true}",                            NULL                },
    {"{\"a\":-1}",                              NULL                },
    {"{\"a\":1.5}",                             NULL                },
    {"{\"a\":1e9}",                             NULL                },
    {"{\"a\":[\"1/s\"]}",                       NULL                },
    {"{\"a\":{\"rate\":\"1/s\"}}",              NULL                },
    {"{\"a\":\"1/s\",\"a\":\"2/s\"}",           NULL                },
    {"{\"b\":\"1/s\",\"a\":99999999999999999}", NULL                },
};

TEST(overrides)
{
    CASE("overrides of a row come after those of the registry, all or none");
    for (size_t i = 0; i < SL_LEN(override_rows); i++) {
        struct sl_subject_draft draft = {.rate_count = 1};
        struct sl_diag diag = {0};
        struct sl_arena arena;
        char text[256] = "";
        size_t len = 0;
        int err;

        printf("# %s\n", override_rows[i].json);
        draft.rates[0].limit = SL_STR("a");
        sl_arena_init(&arena, 1 << 16, &sl_alloc_libc);
        err = sl_pg_overrides(sl_str_c(override_rows[i].json), &arena, &draft,
                              &diag);
        CHECK_EQ(err, override_rows[i].rates ? 0 : SLUICE_ESTORE);
        CHECK_EQ(err != 0, diag.sentence[0] != '\0');
        for (unsigned k = 1; k < draft.rate_count; k++) {
            CHECK_EQ(draft.rates[k].until, SL_NS_NONE);
            len += (size_t)snprintf(text + len, sizeof(text) - len,
                                    "%s%.*s=%.*s", k > 1 ? " " : "",
                                    SL_STR_ARG(draft.rates[k].limit),
                                    SL_STR_ARG(draft.rates[k].rate));
        }
        CHECK_STR(text, err ? "" : override_rows[i].rates);
        sl_arena_done(&arena);
    }
}

TEST(many_overrides)
{
    static char json[2 * SL_PG_OVERRIDES];
    struct sl_arena arena;
    struct sl_diag diag = {0};

    CASE("as many as a subject can have");
    sl_arena_init(&arena, 1 << 16, &sl_alloc_libc);
    for (unsigned count = SL_SUBJECT_RECORD_RATES - 1;
         count <= SL_SUBJECT_RECORD_RATES; count++) {
        struct sl_subject_draft draft = {.rate_count = 1};
        size_t len = 1;

        json[0] = '{';
        for (unsigned i = 0; i < count; i++)
            len += (size_t)snprintf(json + len, sizeof(json) - len,
                                    "%s\"l%u\":\"1/s\"", i ? "," : "", i);
        json[len++] = '}';
        CHECK_EQ(
            sl_pg_overrides((struct sl_str){json, len}, &arena, &draft, &diag),
            count < SL_SUBJECT_RECORD_RATES ? 0 : SLUICE_ESTORE);
        CHECK_EQ(draft.rate_count,
                 count < SL_SUBJECT_RECORD_RATES ? count + 1 : 1);
    }
    memset(json, ' ', sizeof(json));
    json[0] = '{';
    json[SL_PG_OVERRIDES] = '}';
    CHECK_EQ(sl_pg_overrides((struct sl_str){json, SL_PG_OVERRIDES + 1}, &arena,
                             &(struct sl_subject_draft){.rate_count = 0},
                             &diag),
             SLUICE_ESTORE);
    sl_arena_done(&arena);
}

CHECK_MAIN()
