/* subject_record.c -- drafts, how they change, and how they are written down.
 */
#include "registry/registry.h"

#include "check.h"
#include "fail.h"

#define S(text) ((struct sl_str){(text), sizeof(text) - 1})

static struct sl_subject_override rate(struct sl_str limit, struct sl_str text)
{
    return (struct sl_subject_override){limit, text, SL_NS_NONE, S("ops"),
                                        S("")};
}

static struct sl_subject_draft full(void)
{
    struct sl_subject_draft d = {.scope = S("user"),
                                 .id = S("ann"),
                                 .plan = S("pro"),
                                 .expires = 10 * SL_S,
                                 .by = S("ops"),
                                 .note = S("a \"note\""),
                                 .updated = 5 * SL_S + 5 * SL_MS,
                                 .revision = 7,
                                 .role_count = 1,
                                 .alias_count = 1,
                                 .rate_count = 1};

    d.roles[0] = S("admin");
    d.aliases[0] = S("ann@x");
    d.rates[0] = rate(S("search"), S("5/min"));
    d.rates[0].until = 20 * SL_S;
    d.rates[0].note = S("why");
    return d;
}

/* Checks the JSON of a draft. */
static void check_json(const struct sl_subject_draft *d, bool brief,
                       const char *expected)
{
    struct sl_buf out;
    struct sl_writer w = {.out = &out};

    sl_buf_init(&out, 4096, &sl_alloc_libc);
    sl_subject_draft_json(d, 15 * SL_S, brief, &w);
    sl_writer_add(&w, (struct sl_str){"", 1});
    CHECK_EQ(w.err, 0);
    CHECK_STR(out.bytes, expected);
    sl_buf_done(&out);
}

TEST(json)
{
    struct sl_subject_draft d = full(),
                            none = {.scope = S("org"), .id = S("x")};

    none.expires = SL_NS_NONE;

    CASE("a full draft has all members");
    check_json(&d, false,
               "\"scope\":\"user\",\"id\":\"ann\",\"plan\":\"pro\","
               "\"expires\":\"1970-01-01T00:00:10Z\",\"expired\":true,"
               "\"roles\":[\"admin\"],\"aliases\":[\"ann@x\"],"
               "\"overrides\":{\"search\":\"5/min\"},"
               "\"until\":\"1970-01-01T00:00:20Z\",\"override_details\":["
               "{\"limit\":\"search\",\"rate\":\"5/min\","
               "\"until\":\"1970-01-01T00:00:20Z\",\"over\":false,"
               "\"by\":\"ops\",\"note\":\"why\"}],\"note\":\"a \\\"note\\\"\","
               "\"by\":\"ops\",\"updated\":\"1970-01-01T00:00:05.005Z\","
               "\"revision\":7");
    check_json(&none, false,
               "\"scope\":\"org\",\"id\":\"x\",\"plan\":null,"
               "\"expires\":null,\"expired\":false,\"roles\":[],"
               "\"aliases\":[],\"overrides\":{},\"until\":null,"
               "\"override_details\":[],\"note\":\"\",\"by\":\"\","
               "\"updated\":\"1970-01-01T00:00:00Z\",\"revision\":0");

    CASE("brief JSON omits empty members");
    check_json(&none, true, "\"scope\":\"org\",\"id\":\"x\"");
    none.plan = S("pro");
    check_json(&none, true,
               "\"scope\":\"org\",\"id\":\"x\",\"plan\":\"pro\","
               "\"expires\":null,\"expired\":false");
}

TEST(pack)
{
    struct sl_subject_draft d = full(), back;
    struct fail f = {0};
    struct sl_alloc alloc = fail_alloc(&f);
    struct sl_subject_record *entry;

    CASE("an entry is one piece and gives the draft back");
    entry = sl_subject_record_new(&d, true, &alloc);
    CHECK_EQ(f.pieces, 1);
    memset(&d, 0, sizeof(d));
    d = full();
    sl_subject_draft_of(entry, &back);
    CHECK(sl_subject_draft_same(&d, &back));
    CHECK_EQ(back.revision, 7);
    sl_subject_records_free(entry);
    f.nth = f.calls + 1;
    CHECK(!sl_subject_record_new(&d, true, &alloc));
    fail_check(&f);
}

TEST(change)
{
    struct sl_subject_draft d = full(), before = full();
    struct sl_subject_override rates[2] = {rate(S("zeta"), S("1/s")),
                                           rate(S("alpha"), S("2/s"))};
    struct sl_subject_change c = {.kind = SL_CHANGE_PATCH,
                                  .scope = S("user"),
                                  .id = S("ann"),
                                  .by = S("bob"),
                                  .has = SL_HAS_RATES,
                                  .rates = rates,
                                  .rate_count = 2};
    struct sl_diag diag = {0};

    CASE("overrides are kept by name, and given once");
    CHECK(sl_subject_draft_change(&d, &c, 6 * SL_S, &diag));
    CHECK_EQ(d.rate_count, 3);
    CHECK(sl_str_eq(d.rates[0].limit, S("alpha")));
    CHECK(sl_str_eq(d.rates[1].limit, S("search")));
    CHECK(sl_str_eq(d.rates[2].limit, S("zeta")));
    CHECK(!sl_subject_draft_same(&d, &before));
    rates[0].by = S("admin"); /* gives the same: it stays as given */
    CHECK(sl_subject_draft_change(&d, &c, 6 * SL_S, &diag));
    CHECK(sl_str_eq(d.rates[2].by, S("ops")));
    rates[0].rate = S("3/s");
    CHECK(sl_subject_draft_change(&d, &c, 6 * SL_S, &diag));
    CHECK(sl_str_eq(d.rates[2].by, S("admin")));
    rates[0].rate = rates[1].rate = S("");
    CHECK(sl_subject_draft_change(&d, &c, 6 * SL_S, &diag));
    CHECK(sl_subject_draft_same(&d, &before));

    CASE("a plan that is given again after its end has none");
    c.rate_count = 0;
    c.has = SL_HAS_PLAN;
    c.plan = S("pro");
    CHECK(sl_subject_draft_change(&d, &c, 10 * SL_S - 1, &diag));
    CHECK_EQ(d.expires, 10 * SL_S);
    CHECK(sl_subject_draft_change(&d, &c, 10 * SL_S, &diag));
    CHECK_EQ(d.expires, SL_NS_NONE);

    CASE("there are so many of them and no more");
    static char names[SL_SUBJECT_RECORD_RATES][8];
    for (unsigned i = 0; i < SL_SUBJECT_RECORD_RATES; i++) {
        snprintf(names[i], sizeof(names[i]), "n%02u", i);
        rates[0] = rate(sl_str_c(names[i]), S("1/s"));
        c.rate_count = 1;
        CHECK_EQ(sl_subject_draft_change(&d, &c, 0, &diag),
                 i + 1 < SL_SUBJECT_RECORD_RATES);
    }
    CHECK_STR(diag.sentence,
              "a subject can have at most 64 overrides; remove some first");
}

CHECK_MAIN()
