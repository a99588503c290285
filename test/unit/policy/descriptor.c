/* descriptor.c -- patterns of descriptors: parts, stars, what is left open. */
#include "policy/route.h"

#include "check.h"
#include "fail.h"

/* ---- parts ---- */

static void reads(const char *text, enum sl_part_kind kind, const char *key,
                  const char *value, bool shared)
{
    struct sl_descriptor_part part;
    struct sl_diag diag = {0};

    CASE(text);
    if (!CHECK_EQ(sl_descriptor_part_read(sl_str_c(text), &part, &diag), 0))
        return;
    CHECK_EQ(part.kind, kind);
    CHECK(sl_str_eq(part.key, sl_str_c(key)));
    CHECK(sl_str_eq(part.value, sl_str_c(value)));
    CHECK_EQ(part.shared, shared);
}

static void refuses(const char *text, const char *sentence)
{
    struct sl_descriptor_part part;
    struct sl_diag diag = {0};

    CASE(text);
    CHECK_EQ(sl_descriptor_part_read(sl_str_c(text), &part, &diag),
             SLUICE_ECONF);
    CHECK_STR(diag.sentence, sentence);
}

TEST(parts)
{
    reads("key", SL_PART_ANY, "key", "", false);
    reads("key=value", SL_PART_EXACT, "key", "value", false);
    reads("key=", SL_PART_EXACT, "key", "", false);
    reads("key=a=b~c", SL_PART_EXACT, "key", "a=b~c", false);
    reads("key=a*", SL_PART_LIKE, "key", "a*", false);
    reads("key~a*b", SL_PART_LIKE, "key", "a*b", true);
    reads("key~a", SL_PART_EXACT, "key", "a", true);
    reads("**", SL_PART_REST, "", "", false);
    refuses("", "An entry needs a key. Write KEY, KEY=VALUE or **");
    refuses("=value", "An entry needs a key. Write KEY, KEY=VALUE or **");
    refuses("k*y", "A key must not contain *. Values can, as in KEY=a*");
    refuses("*", "A key must not contain *. Values can, as in KEY=a*");
}

/* ---- stars ---- */

TEST(stars)
{
    static const struct {
        const char *pattern, *value;
        bool like;
    } rows[] = {
        {"*",                 "",                  true },
        {"*",                 "x",                 true },
        {"**",                "",                  true },
        {"a*",                "a",                 true },
        {"a*",                "ab",                true },
        {"a*",                "ba",                false},
        {"a*",                "",                  false},
        {"*a",                "a",                 true },
        {"*a",                "ba",                true },
        {"*a",                "ab",                false},
        {"a*a",               "aa",                true },
        {"a*a",               "a",                 false},
        {"a*a",               "aba",               true },
        {"a*b*c",             "abc",               true },
        {"a*b*c",             "axbyc",             true },
        {"a*b*c",             "acb",               false},
        {"a*b*c",             "ac",                false},
        {"a*bc*bc",           "abcbc",             true },
        {"a*bc*bc",           "abc",               false},
        {"*ab*ab*",           "abab",              true },
        {"*ab*ab*",           "aba",               false},
        {"/api/*/action",     "/api/1/action",     true },
        {"/api/*/action",     "/api/action",       false},
        {"/api/*/r/*/action", "/api/1/r/2/action", true },
        {"/api/*/r/*/action", "/api/1/r/action",   false},
        {"plain",             "plain",             true },
        {"plain",             "plai",              false},
        {"",                  "",                  true },
        {"",                  "x",                 false},
    };

    CASE("stars are any number of characters");
    for (size_t i = 0; i < SL_LEN(rows); i++)
        if (!CHECK_EQ(sl_value_is_like(sl_str_c(rows[i].pattern),
                                       sl_str_c(rows[i].value)),
                      rows[i].like))
            printf("# %s, %s\n", rows[i].pattern, rows[i].value);
}

/* Whether it is like that, by trying everything. */
static bool is_like(const char *p, const char *v)
{
    if (*p == '*')
        return is_like(p + 1, v) || (*v && is_like(p, v + 1));
    return *p == *v && (*p == '\0' || is_like(p + 1, v + 1));
}

TEST(all_stars)
{
    char p[8] = "", v[8] = "";

    CASE("all patterns up to five letters against all values up to five");
    for (unsigned i = 0; i < 364; i++) {
        for (unsigned n = i, k = 0; k < 5; k++, n /= 3) {
            p[k] = "ab*"[n % 3];
            p[k + 1] = '\0';
            if (n < 3)
                break;
        }
        for (unsigned j = 0; j < 62; j++) {
            for (unsigned n = j, k = 0; k < 5; k++, n /= 2) {
                v[k] = "ab"[n % 2];
                v[k + 1] = '\0';
                if (n < 2)
                    break;
            }
            if (!CHECK_EQ(sl_value_is_like(sl_str_c(p), sl_str_c(v)),
                          is_like(p, v)))
                printf("# %s, %s\n", p, v);
        }
    }
}

/* ---- patterns ---- */

static struct sl_descriptor_part parts[4];

/* "d k=v k" as a pattern. */
static struct sl_descriptor pattern_of(const char *const *texts, unsigned count)
{
    struct sl_descriptor d = {SL_STR("d"), parts, count};

    for (unsigned i = 0; i < count; i++)
        CHECK_EQ(sl_descriptor_part_read(sl_str_c(texts[i]), &parts[i], NULL),
                 0);
    return d;
}

#define PATTERN(...)                                                           \
    pattern_of((const char *const[]){__VA_ARGS__},                             \
               SL_LEN(((const char *const[]){__VA_ARGS__})))

static bool matches(struct sl_descriptor d, const char *domain,
                    const struct sl_descriptor_entry *entries, unsigned count)
{
    return sl_descriptor_matches(&d, sl_str_c(domain), entries, count);
}

TEST(patterns)
{
    const struct sl_descriptor_entry e[] = {
        {SL_STR("a"), SL_STR("1")},
        {SL_STR("b"), SL_STR("2")},
        {SL_STR("c"), SL_STR("") },
    };

    CASE("as many entries as parts, in their order");
    CHECK(matches(PATTERN("a", "b"), "d", e, 2));
    CHECK(!matches(PATTERN("a", "b"), "d", e, 1));
    CHECK(!matches(PATTERN("a", "b"), "d", e, 3));
    CHECK(!matches(PATTERN("b", "a"), "d", e, 2));
    CHECK(!matches(PATTERN("a", "b"), "D", e, 2));
    CHECK(matches(PATTERN("a=1", "b=2", "c="), "d", e, 3));
    CHECK(!matches(PATTERN("a=1", "b=1"), "d", e, 2));
    CHECK(matches(PATTERN("a=*", "b~*2"), "d", e, 2));
    CASE("the rest may be nothing");
    CHECK(matches(PATTERN("a", "**"), "d", e, 1));
    CHECK(matches(PATTERN("a", "**"), "d", e, 3));
    CHECK(matches(PATTERN("**"), "d", e, 0));
    CHECK(!matches(PATTERN("a", "b", "**"), "d", e, 1));
}

/* ---- what is left open ---- */

static const char *id_of(struct sl_descriptor d, const char *a, const char *b)
{
    static struct sl_arena arena;
    struct sl_descriptor_entry e[] = {
        {SL_STR("a"), sl_str_c(a)},
        {SL_STR("b"), sl_str_c(b)},
    };

    if (arena.ceiling == 0)
        sl_arena_init(&arena, 1 << 20, &sl_alloc_libc);
    return sl_descriptor_id(&d, e, 2, &arena);
}

TEST(open)
{
    CASE("keys are made of what is left open");
    CHECK_STR(id_of(PATTERN("a", "b"), "1", "2"), "1/2");
    CHECK_STR(id_of(PATTERN("a=1", "b"), "1", "2"), "2");
    CHECK_STR(id_of(PATTERN("a=1*", "b=2"), "1x", "2"), "1x");
    CHECK_STR(id_of(PATTERN("a~1*", "b"), "1x", "2"), "2");
    CHECK_STR(id_of(PATTERN("a=1", "b=2"), "1", "2"), "-");
    CASE("and different values make different ones");
    CHECK_STR(id_of(PATTERN("a", "b"), "1/2", "3"), "1%2F2/3");
    CHECK_STR(id_of(PATTERN("a", "b"), "1", "2/3"), "1/2%2F3");
    CHECK_STR(id_of(PATTERN("a", "b"), "", ""), "/");
    CHECK_STR(id_of(PATTERN("a", "b=2"), "-", "2"), "%2D");
    CHECK_STR(id_of(PATTERN("a", "b=2"), "%2F", "2"), "%252F");
    CHECK_STR(id_of(PATTERN("a", "b=2"), "", "2"), "-");
}

TEST(memory)
{
    struct fail fail = {.nth = 1};
    struct sl_alloc alloc = fail_alloc(&fail);
    struct sl_descriptor d = PATTERN("a");
    struct sl_descriptor_entry e = {SL_STR("a"), SL_STR("1")};
    struct sl_arena arena;

    CASE("without memory there is none");
    sl_arena_init(&arena, 1 << 20, &alloc);
    CHECK(sl_descriptor_id(&d, &e, 1, &arena) == NULL);
    sl_arena_done(&arena);
    fail_check(&fail);
}

CHECK_MAIN()
