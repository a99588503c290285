/* spring.c -- settings of Java programs become policies. */
#include "cli/spring.h"

#include "fail.h"
#include "send.h"

static char told[4096];

static void on_tell(void *ctx, unsigned line, const char *sentence)
{
    size_t len = strlen(told);

    (void)ctx;
    snprintf(told + len, sizeof(told) - len, "%u: %s\n", line, sentence);
}

/* The wanted families; NULL reads all keys. */
static const char *const *families;

/* Import a text; 0 or an error. The policy is in `out`. */
static int import(const char *text, bool yml, struct sl_buf *out)
{
    struct sl_diag diag = {.line = 0};
    struct sl_arena arena;
    struct sl_properties props = {.arena = &arena, .families = families};
    struct sl_spring spring = {.props = &props, .tell = on_tell};
    int err;

    told[0] = '\0';
    sl_buf_clear(out);
    sl_arena_init(&arena, 1 << 20, &sl_alloc_libc);
    err = yml ? sl_properties_read_yml(sl_str_c(text), &props, &diag)
              : sl_properties_read(sl_str_c(text), &props, &diag);
    if (err)
        on_tell(NULL, diag.line, diag.sentence);
    else
        err = sl_spring_write(&spring, out);
    if (!err)
        err = sl_buf_add(out, (struct sl_str){"", 1}); /* a NUL */
    sl_arena_done(&arena);
    return err;
}

static const char all_tiers[] =
    "# tiers\n"
    "rate-limit.enabled = true\n"
    "rate-limit.tiers.starter.requests-per-minute=15\n"
    "rate-limit.tiers.starter.burst-capacity: 20\n"
    "rate-limit.tiers.starter.daily-limit 200\n"
    "rateLimit.tiers.pro.requestsPerMinute=30\n"
    "rate-limit.tiers.pro.burst_capacity=\\\n"
    "   40\n"
    "rate-limit.tiers.pro.daily-limit=${PRO_DAILY:500}\n"
    "! a comment\n"
    "rate-limit.tiers.business.requests-per-minute=60\n"
    "rate-limit.tiers.business.burst-capacity=80\n"
    "rate-limit.tiers.business.daily-limit=1000\n";

static const char tiers_yml[] = "---\n"
                                "server:\n"
                                "  port: 8080   # not ours\n"
                                "list:\n"
                                "- one\n"
                                "- two\n"
                                "rate-limit:\n"
                                "  enabled: \"false\"\n"
                                "  tiers:\n"
                                "    free:\n"
                                "      requests-per-minute: 6\n"
                                "      burst-capacity: 9 # nine\n"
                                "      daily-limit: '60'\n"
                                "---\n"
                                "rate-limit:\n"
                                "  enabled: true\n";

static void test_tiers(struct sl_buf *out)
{
    CASE("all tiers, and free as it is built in");
    CHECK_EQ(import(all_tiers, false, out), 0);
    CHECK(says(out->bytes, "enabled: true\n"));
    CHECK(says(out->bytes, "    on_store_failure: allow\n"));
    CHECK(says(out->bytes, "      free: 5/min burst 8\n"
                           "      starter: 15/min burst 20\n"
                           "      pro: 30/min burst 40\n"
                           "      business: 60/min burst 80\n"));
    CHECK(says(out->bytes, "      free: 50/day\n      starter: 200/day\n"
                           "      pro: 500/day\n      business: 1000/day\n"));
    CHECK(says(out->bytes, "  pro: { aliases: [PRO_MONTHLY, PRO_YEARLY] }\n"));
    CHECK_STR(told, "9: rate-limit.tiers.pro.daily-limit is read from the "
                    "environment; its default 500 is used\n");
    ends_in(out->bytes, 0, "check -");
    prints_in(out->bytes, 0,
              "explain - 'GET /api/v1/ai/x' user=a plan=STARTER_YEARLY -ojson",
              "\"limit\":15,\"burst\":20");

    CASE("paid tiers that are missing are told");
    CHECK_EQ(import("rate-limit.enabled=true\n", false, out), 0);
    CHECK(says(told, "0: rate-limit.tiers.starter is missing, so customers on "
                     "that plan would get the limits of free"));
    CHECK(says(told, "rate-limit.tiers.pro"));
    CHECK(says(told, "rate-limit.tiers.business"));
    ends_in(out->bytes, 0, "check -");

    CASE("YAML, and the first document alone");
    CHECK_EQ(import(tiers_yml, true, out), 0);
    CHECK(says(out->bytes, "enabled: false\n"));
    CHECK(says(out->bytes, "free: 6/min burst 9\n"));
    CHECK(says(out->bytes, "free: 60/day\n"));
    ends_in(out->bytes, 0, "check -");
}

static void test_fluo(struct sl_buf *out)
{
    CASE("tenants and users, with what is built in");
    CHECK_EQ(import("fluo.ratelimit.tenant.requests-per-minute=2000\n"
                    "quarkus.redis.hosts=redis://localhost:6379\n"
                    "quarkus.redis.timeout=2s\n",
                    false, out),
             0);
    CHECK(says(out->bytes, "    rate: 2000/min\n"));
    CHECK(says(out->bytes, "    rate: 100/min\n"));
    CHECK(says(out->bytes, "server:\n  store: \"redis://localhost:6379\"\n"
                           "  deadline: 2s\n"));
    CHECK_STR(told, "3: quarkus.redis.timeout: every request waits up to 2s "
                    "when Redis does not answer; 20ms is a common deadline\n");
    ends_in(out->bytes, 0, "check -");

    CASE("spans as Java writes them, and several hosts");
    CHECK_EQ(import("fluo.ratelimit.user.requests-per-minute=7\n"
                    "quarkus.redis.hosts=redis://a:1,redis://b:2\n"
                    "quarkus.redis.timeout=PT0S\n",
                    false, out),
             SLUICE_ECONF);
    CHECK(says(told, "is not a duration"));
    CHECK_EQ(import("fluo.ratelimit.user.requests-per-minute=7\n"
                    "quarkus.redis.hosts=redis://a:1,redis://b:2\n"
                    "quarkus.redis.timeout=PT1S\n",
                    false, out),
             0);
    CHECK(says(out->bytes, "    rate: 1000/min\n"));
    CHECK(says(out->bytes, "  store: \"redis://a:1\"\n  deadline: 1s\n"));
    CHECK(says(told, "names several hosts"));

    CASE("both programs in one file");
    CHECK_EQ(import("fluo:\n  ratelimit:\n    user:\n"
                    "      requests-per-minute: 7\n"
                    "rate-limit:\n  enabled: true\n",
                    true, out),
             0);
    ends_in(out->bytes, 0, "check -");
}

static struct sl_buf *out_of_row;

static void row(const char *why, const char *text, bool yml, int err,
                const char *words)
{
    CASE(why);
    CHECK_EQ(import(text, yml, out_of_row), err);
    CHECK(says(told, words));
}

TEST(properties)
{
    row("no such setting", "server.port=1\n", false, SLUICE_ENOENT, "");
    row("a slip is told", "rate-limit.enbled=true\n", false, 0,
        "1: rate-limit.enbled is not a known setting and was ignored; did you "
        "mean "
        "enabled?\n");
    row("a slip in a field", "rate-limit.tiers.free.dayly-limit=1\n", false, 0,
        "1: rate-limit.tiers.free.dayly-limit is not a known setting and was "
        "ignored; "
        "did you mean daily-limit?\n");
    row("a slip of the other kind",
        "fluo.ratelimit.tenants.requests-per-minute=1\n", false, 0,
        "1: fluo.ratelimit.tenants.requests-per-minute is not a known setting "
        "and was ignored; did you mean "
        "fluo.ratelimit.tenant.requests-per-minute?\n");
    row("half a tier", "rate-limit.tiers.pro.daily-limit=5\n", false,
        SLUICE_ECONF, "0: rate-limit.tiers.pro has no requests-per-minute");
    row("a tier without a burst",
        "rate-limit.tiers.pro.daily-limit=5\nrate-limit.tiers.pro.requests-per-"
        "minute=3\n",
        false, 0, "0: rate-limit.tiers.pro has no burst-capacity; 3 is used\n");
    row("half of free", "rate-limit.tiers.free.daily-limit=5\n", false, 0,
        "0: rate-limit.tiers.free has no burst-capacity; 8 is used\n");
}

TEST(values)
{
    row("no number", "rate-limit.tiers.free.daily-limit=x\n", false,
        SLUICE_ECONF,
        "1: rate-limit.tiers.free.daily-limit must be a whole number of at "
        "least 1, not \"x\"\n");
    row("nothing at all", "rate-limit.tiers.free.daily-limit=0\n", false,
        SLUICE_ECONF, "of at least 1, not \"0\"");
    row("no switch", "rate-limit.enabled=maybe\n", false, SLUICE_ECONF,
        "1: rate-limit.enabled must be true or false");
    row("a tier that is no name", "rate-limit.tiers.a b.daily-limit=1\n", false,
        SLUICE_ECONF, "1: rate-limit.tiers.a is not a known");
    row("a tier with a sign", "rate-limit.tiers.\\{x\\}.daily-limit=1\n", false,
        SLUICE_ECONF, "the name of a tier consists of letters");
    row("an address that is none",
        "fluo.ratelimit.user.requests-per-minute=7\nquarkus.redis.hosts=a "
        "\"b\"\n",
        false, SLUICE_ECONF, "is not an address");
    row("a line that is nothing", "=x\n", false, SLUICE_ECONF,
        "1: this line is not a setting; write key=value\n");
}

TEST_WITH(yml, struct sl_buf *out)
{
    row("YAML with braces", "a: {b: c}\n", true, SLUICE_ECONF,
        "1: only plain values are supported here; write each key on its own "
        "line\n");
    row("YAML with a tab", "a:\n\tb: c\n", true, SLUICE_ECONF,
        "2: tab found; indent YAML with spaces\n");
    row("YAML without a colon", "a\n", true, SLUICE_ECONF,
        "1: this line is not a setting; write key: value\n");
    row("YAML with an open quote", "a: \"b\n", true, SLUICE_ECONF,
        "1: the quote is not closed on this line\n");
    row("a list below nothing", "- a\n", true, SLUICE_ECONF,
        "1: a list must be below a key\n");
    row("a list of lists", "a:\n  - - b\n", true, SLUICE_ECONF,
        "2: only lists of plain values and of keys are supported here; write "
        "the first key of an item after its dash\n");
    CASE("keys that are too deep");
    {
        char deep[1024] = "";
        size_t len = 0;

        for (int i = 0; i <= SL_PROPERTIES_DEPTH; i++)
            len += (size_t)snprintf(deep + len, sizeof(deep) - len, "%*sa:\n",
                                    i, "");
        CHECK_EQ(import(deep, true, out), SLUICE_ECONF);
        CHECK(says(told, "nested too deeply"));
    }
}

/* What belongs to others is passed over, in whatever YAML it is written. */
static void foreign(const char *why, const char *text)
{
    char whole[1024];

    CASE(why);
    snprintf(whole, sizeof(whole), "%s%s%s", text,
             "rate-limit:\n  tiers:\n    free:\n"
             "      requests-per-minute: 6\n",
             text);
    CHECK_EQ(import(whole, true, out_of_row), 0);
    CHECK(says(out_of_row->bytes, "free: 6/min burst 8\n"));
}

TEST(foreign)
{
    families = sl_spring_families;
    foreign("a list in brackets", "spring.profiles.active: [prod, eu]\n");
    foreign("a list below", "spring:\n  profiles:\n    active: [prod, eu]\n");
    foreign("a text as it is",
            "banner: |\n  rate-limit:\n    enabled: \"\n\n  [\n");
    foreign("a text that is folded",
            "folded: >-\n  rate-limit: {\n# no comment\n  it's\n");
    foreign("a text in two quotes",
            "long: \"it\n  goes \\\" on\nrate-limit: x\"\n");
    foreign("a text in one", "long: 'it''s\n  on''\nrate-limit: x'\n");
    foreign("brackets over lines",
            "flow: [a, # ]\nb: '}', {c: d},\nrate-limit: {\n}]\n");
    foreign("anchors and tags",
            "base: &base !!map {a: [b,\n c]}\nother: *base\n<<: *base\n");
    foreign("items that are not indented",
            "list:\n- a: {b: c}\n- [d]\n-\n  - e\n");
    foreign("a question mark", "? odd\n: thing\n");
    foreign("a tab", "tab: x\n\ty\n");
    foreign("a mark of Maven", "version: @project.version@\n");
    foreign("a profile", "\"%dev\":\n  rate-limit:\n    enabled: maybe\n");
    foreign("a key in quotes", "'quoted: key': {a: b}\n");
    foreign("beside what is read",
            "fluo:\n  other: {a: b}\nquarkus:\n  redis:\n    tls: {a: b}\n"
            "    hosting: [x]\n");
    foreign("almost the same name",
            "rate-limits: {a: b}\nrate-limit-x:\n  - {a: b}\n");
    foreign(
        "deeper than is read",
        "a:\n a:\n  a:\n   a:\n    a:\n     a:\n      a:\n       a:\n        a:"
        "\n         a:\n          a:\n           a:\n            a:\n          "
        " "
        "  a:\n              a:\n               a:\n                a: b\n");
    families = NULL;
}

TEST(not_foreign)
{
    families = sl_spring_families;
    row("not inside what is asked for", "rate-limit: {enabled: true}\n", true,
        SLUICE_ECONF, "1: only plain values are supported here");
    row("nor above it", "fluo: {ratelimit: x}\n", true, SLUICE_ECONF,
        "1: only plain values are supported here");
    row("however it is written", "x: {\n}\nRate_Limit:\n  enabled: |\n", true,
        SLUICE_ECONF, "4: only plain values are supported here");
    row("a line that is nothing", "spring\n", true, SLUICE_ECONF,
        "1: this line is not a setting; write key: value\n");
    row("a document of others is the first one",
        "%YAML 1.2\n---\nx: [y]\n---\nrate-limit:\n  enabled: true\n", true,
        SLUICE_ENOENT, "");
    row("a mark before the first byte",
        "\xef\xbb\xbfrate-limit:\n  enabled: maybe\n", true, SLUICE_ECONF,
        "2: rate-limit.enabled must be true or false");
    row("properties of others", "x=\\u12\nrate-limit.enabled=maybe\n", false,
        SLUICE_ECONF, "2: rate-limit.enabled must be true or false");
    families = NULL;
}

/* The value of `x` in properties. */
static void value(const char *text, const char *want)
{
    struct sl_diag diag = {.line = 0};
    struct sl_arena arena;
    struct sl_properties props = {.arena = &arena};

    sl_arena_init(&arena, 1 << 20, &sl_alloc_libc);
    if (CHECK_EQ(sl_properties_read(sl_str_c(text), &props, &diag), 0) &&
        CHECK(props.first)) {
        CHECK_STR(props.first->key, "x");
        CHECK_STR(props.first->value, want);
    }
    sl_arena_done(&arena);
}

TEST(escapes)
{
    CASE("escapes of characters");
    value("x=\\u0041\\u00e9\\u20AC", "A\xc3\xa9\xe2\x82\xac");
    value("x=\\uD83D\\uDE00!", "\xf0\x9f\x98\x80!");
    value("\\u0078=\\u007f\\u0080\\u07ff\\u0800\\uffff",
          "\x7f\xc2\x80\xdf\xbf\xe0\xa0\x80\xef\xbf\xbf");
    value("x=a\\tb\\nc\\rd\\fe", "a\tb\nc\rd\fe");
    value("x=\\\\\\:\\=\\#\\!\\q\\ u", "\\:=#!q u");
    value("x=\\\\u0041", "\\u0041");
    CASE("lines that go on");
    value("x=a\\\n   b\\\r\n\tc", "abc");
    value("x=a\\\\\ny=b", "a\\");
    value("x=a\\\n#b", "a#b");
    value("  x  :  a\\", "a");
    value("\xef\xbb\xbfx=a", "a");
    row("too few digits", "x=\\u12\n", false, SLUICE_ECONF,
        "1: \\u must be followed by the four hexadecimal digits of a "
        "character, like "
        "\\u00e9\n");
    row("no digits", "y=1\nx=\\u12g4\n", false, SLUICE_ECONF, "2: \\u must");
    row("in a key", "\\u=1\n", false, SLUICE_ECONF, "1: \\u must");
    row("no character", "x=\\u0000\n", false, SLUICE_ECONF, "1: \\u must");
    row("nor does an address have any",
        "fluo.ratelimit.user.requests-per-minute=7\n"
        "quarkus.redis.hosts=redis://a\\u0085:1\n",
        false, SLUICE_ECONF, "is not an address");
    row("half a pair", "x=\\ud83d\n", false, SLUICE_ECONF, "1: \\u must");
    row("the wrong half", "x=\\ude00\\ud83d\n", false, SLUICE_ECONF,
        "1: \\u must");
    row("half and a letter", "x=\\ud83d\\u0041\n", false, SLUICE_ECONF,
        "1: \\u must");
}

/* A failing allocation is an error; nothing leaks. */
static int without_memory(const char *text, bool yml, unsigned nth)
{
    struct fail f = {.nth = nth};
    struct sl_alloc alloc = fail_alloc(&f);
    struct sl_arena arena;
    struct sl_properties props = {.arena = &arena};
    struct sl_spring spring = {.props = &props, .tell = on_tell};
    struct sl_buf out;
    int err;

    sl_arena_init(&arena, 1 << 20, &alloc);
    sl_buf_init(&out, 1 << 20, &alloc);
    err = yml ? sl_properties_read_yml(sl_str_c(text), &props, NULL)
              : sl_properties_read(sl_str_c(text), &props, NULL);
    if (!err)
        err = sl_spring_write(&spring, &out);
    CHECK(err == 0 || err == SLUICE_ENOMEM);
    sl_buf_done(&out);
    sl_arena_done(&arena);
    fail_check(&f);
    return err;
}

TEST(memory)
{
    for (int yml = 0; yml < 2; yml++) {
        const char *text = yml ? tiers_yml : all_tiers;
        unsigned nth = 1;

        CASE(yml ? "YAML without memory" : "properties without memory");
        while (without_memory(text, yml, nth) && nth < 1000)
            nth++;
        CHECK(nth > 2 && nth < 1000);
    }
}

TEST(count)
{
    struct sl_arena arena;
    struct sl_properties props = {.arena = &arena};
    char key[32];
    int err = 0;

    CASE("ten thousand settings, and not one more");
    sl_arena_init(&arena, 8 << 20, &sl_alloc_libc);
    for (unsigned i = 0; i < SL_PROPERTIES_COUNT && !err; i++) {
        snprintf(key, sizeof(key), "k%u", i);
        err = sl_properties_add(&props, sl_str_c(key), SL_STR("v"), 1);
    }
    CHECK_EQ(err, 0);
    CHECK_EQ(sl_properties_add(&props, SL_STR("k0"), SL_STR("w"), 2), 0);
    CHECK_STR(props.first->value, "w");
    CHECK_EQ(sl_properties_add(&props, SL_STR("x"), SL_STR("v"), 1),
             SLUICE_EFULL);
    sl_arena_done(&arena);
}

TEST(op)
{
    CASE("the command");
    prints_in(all_tiers, 0, "import spring -", "sluice: 1\n");
    CHECK_ERR("-:9: rate-limit.tiers.pro.daily-limit is read from");
    reports_in("a=b\n", 1, "import spring -",
               "has no limits: no setting whose name begins with rate-limit");
    reports_in("=\n", 1, "import spring -",
               "-:1:1: this line is not a setting");
    ends_in("rate-limit.enabled=x\n", 1, "import spring -");
    CHECK_STR(sent_out, "");
    ends(1, "import spring no/such");
    reports(1, "import envoy-ratelimit no/such",
            "no/such can't be read: No such file or directory");
    ends(2, "import winter x");
}

int main(void)
{
    struct sl_buf out;

    setenv("NO_COLOR", "1", 1);
    sl_buf_init(&out, 65536, &sl_alloc_libc);
    test_tiers(&out);
    test_fluo(&out);
    out_of_row = &out;
    RUN_TESTS_WITH(&out);
    sl_buf_done(&out);
    send_done();
    return CHECK_DONE();
}
