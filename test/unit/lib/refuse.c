/* refuse.c -- what is refused, with which code and which sentence, and that a
 * refused call leaves everything as it was. */
#include "gate.h"

#define BUCKET SLUICE_TOKEN_BUCKET
#define WINDOW SLUICE_FIXED_WINDOW
#define QUOTA  SLUICE_QUOTA

static const char *const hourly[] = {"10/min", "100/hour", NULL};
static const char *const bad_second[] = {"10/min", "ten/min", NULL};
static const char *const with_burst[] = {"10/min burst 3", NULL};

/* An opening that must fail; `gate` must not be touched. */
static void refuses(const char *name, const struct sluice_options *options,
                    int err, const char *why)
{
    static char untouched;
    struct sluice *gate = (struct sluice *)(void *)&untouched;

    CASE(name);
    CHECK_EQ(sluice_open(options, &gate), err);
    CHECK(gate == (struct sluice *)(void *)&untouched);
    CHECK_STR(sluice_why(), why);
}

/* An opening with one limit. */
static void one(const char *name, struct sluice_limit limit, int err,
                const char *why)
{
    struct sluice_options options = {.limits = &limit, .limit_count = 1};

    refuses(name, &options, err, why);
}

#define LIMIT(...) ((struct sluice_limit){__VA_ARGS__})

static void test_names_and_rates(void)
{
    one("no name", LIMIT(.kind = BUCKET, .rate = "5/min"), SLUICE_EINVAL,
        "a limit needs a name");
    one("an empty name", LIMIT(.name = "", .kind = BUCKET, .rate = "5/min"),
        SLUICE_EINVAL, "a limit needs a name");
    one("a kind that is none",
        LIMIT(.name = "a", .kind = (enum sluice_kind)7, .rate = "5/min"),
        SLUICE_EINVAL, "limit \"a\": 7 is not a kind");
    one("no rate", LIMIT(.name = "a", .kind = BUCKET), SLUICE_EINVAL,
        "limit \"a\" has no rate");
    one("no text for a rate",
        LIMIT(.name = "a", .kind = BUCKET, .rate = "five a minute"),
        SLUICE_ECONF,
        "limit \"a\": five a minute: Invalid rate \"five a minute\". Write a "
        "rate like 5/min, or unlimited, or none");
    one("a unit that is none",
        LIMIT(.name = "a", .kind = BUCKET, .rate = "5/minn"), SLUICE_ECONF,
        "limit \"a\": 5/minn: Unknown unit of time \"minn\". Valid units: ms, "
        "s, min, h, day, week or month; did you mean 5/min");
    one("a bucket without a period",
        LIMIT(.name = "a", .kind = BUCKET, .rate = "5"), SLUICE_ECONF,
        "limit \"a\": 5: A token-bucket needs a period after the count. Write "
        "it like 5/min burst 8");
    one("permits with a period",
        LIMIT(.name = "a", .kind = SLUICE_CONCURRENCY, .rate = "5/min"),
        SLUICE_ECONF,
        "limit \"a\": 5/min: A concurrency limit is a count without a period. "
        "Write it like 2");
    one("a burst where there is none",
        LIMIT(.name = "a", .kind = WINDOW, .rate = "5/min",
              .plans = with_burst),
        SLUICE_ECONF,
        "limit \"a\": 10/min burst 3: A fixed-window has no burst. Only a "
        "token-bucket has one");
    one("a rate of none", LIMIT(.name = "a", .kind = BUCKET, .rate = "none"),
        SLUICE_ECONF,
        "limit \"a\": none: \"unlimited\" and \"none\" are not limits. Leave "
        "this limit out of the set");
    one("a bad second plan",
        LIMIT(.name = "a", .kind = BUCKET, .rate = "5/min",
              .plans = bad_second),
        SLUICE_ECONF,
        "limit \"a\": ten/min: Invalid rate \"ten/min\". Write a rate like "
        "5/min, or unlimited, or none");
    one("a plan with another period",
        LIMIT(.name = "a", .kind = BUCKET, .rate = "5/min", .plans = hourly),
        SLUICE_ECONF,
        "limit \"a\": 100/hour has another period than 5/min; all plans of a "
        "limit must have the same period");
    one("a share of more than everything",
        LIMIT(.name = "a", .kind = BUCKET, .rate = "5/min", .share = 1001),
        SLUICE_EINVAL,
        "limit \"a\": a share of 1001 is more than the maximum of 1000");
}

static void test_quotas(void)
{
    one("a zone that is none",
        LIMIT(.name = "a", .kind = QUOTA, .rate = "5/day", .zone = "Europe/Oz"),
        SLUICE_ECONF,
        "limit \"a\": Unknown time zone \"Europe/Oz\". Cannot read "
        "/usr/share/zoneinfo/Europe/Oz: No such file or directory");
    one("a zone that leaves its folder",
        LIMIT(.name = "a", .kind = QUOTA, .rate = "5/day", .zone = "../x"),
        SLUICE_ECONF,
        "limit \"a\": Invalid time zone name \"../x\". Write it like "
        "Europe/Berlin");
    one("a zone from the root",
        LIMIT(.name = "a", .kind = QUOTA, .rate = "5/day", .zone = "/etc/x"),
        SLUICE_ECONF,
        "limit \"a\": Invalid time zone name \"/etc/x\". Write it like "
        "Europe/Berlin");
    one("a zone that is a folder",
        LIMIT(.name = "a", .kind = QUOTA, .rate = "5/day", .zone = "Europe"),
        SLUICE_ECONF,
        "limit \"a\": Unknown time zone \"Europe\". Cannot read "
        "/usr/share/zoneinfo/Europe: Is a directory");
    one("a zone without a name",
        LIMIT(.name = "a", .kind = QUOTA, .rate = "5/day", .zone = ""),
        SLUICE_ECONF,
        "limit \"a\": Invalid time zone name \"\". Write it like "
        "Europe/Berlin");
    one("an anchor where there is none",
        LIMIT(.name = "a", .kind = QUOTA, .rate = "5/day", .anchor = 3),
        SLUICE_ECONF,
        "limit \"a\": 5/day: A period in days has no anchor. Only weeks and "
        "months have one");
    one("a zone for a bucket",
        LIMIT(.name = "a", .kind = BUCKET, .rate = "5/day", .zone = "UTC"),
        SLUICE_ECONF,
        "limit \"a\": only a quota can have a time zone and an anchor");
    one("an interval for a quota",
        LIMIT(.name = "a", .kind = QUOTA, .rate = "5/day", .interval = 1),
        SLUICE_ECONF,
        "limit \"a\": only a token-bucket can refill by the interval");
    one("an anchor that no week has",
        LIMIT(.name = "a", .kind = QUOTA, .rate = "5/week", .anchor = 8),
        SLUICE_ECONF,
        "limit \"a\": 5/week: The anchor of a period in weeks must be between "
        "1 and 7, not 8");
}

static void test_two(void)
{
    struct sluice_limit two[] = {
        {.name = "a", .kind = BUCKET, .rate = "5/min", .share = 600},
        {.name = "b", .kind = BUCKET, .rate = "5/min", .share = 401},
    };
    struct sluice_options options = {.limits = two, .limit_count = 2};

    refuses("shares of more than everything", &options, SLUICE_ECONF,
            "the shares of all limits add up to 1001, more than 1000");
    two[1].name = "a";
    two[1].kind = QUOTA;
    refuses("two limits of one name", &options, SLUICE_ECONF,
            "two limits have the name \"a\"");
}

static void test_places(void)
{
    struct sluice_limit limit = {.name = "a", .kind = BUCKET, .rate = "5/min"};
    struct sluice_options options = {.limits = &limit,
                                     .limit_count = 1,
                                     .path = "/nowhere/state",
                                     .size = 1 << 20};

    refuses("a file in a folder that is not there", &options, SLUICE_ESYS,
            "/nowhere/state: cannot be opened: No such file or directory");
    options.memory = &limit;
    refuses("a path and memory", &options, SLUICE_EINVAL,
            "give either a path or memory, not both");
    options.memory = NULL;
    options.path = "";
    refuses("an empty path", &options, SLUICE_EINVAL, "the path is empty");
    options.path = NULL;
    options.on_full = (enum sluice_on_full)9;
    refuses("a choice that is none", &options, SLUICE_EINVAL,
            "9 is not a value of on_full, or 0 is not a value of on_damage");
    options.on_full = SLUICE_FULL_ALLOW;
    options.size = (1 << 20) - 1;
    refuses("too small a size", &options, SLUICE_ECONF,
            "a table needs between 1 MiB and 1 TiB, not 1048575 bytes");
}

static void test_no_options(void)
{
    static const struct sluice_limit limit = {
        .name = "a", .kind = BUCKET, .rate = "5/min"};
    struct sluice_options options = {.limits = &limit, .limit_count = 1};
    struct sluice *gate = NULL;

    CASE("an opening without options, place or limits");
    CHECK_EQ(sluice_open(NULL, &gate), SLUICE_EINVAL);
    CHECK_EQ(sluice_open(&options, NULL), SLUICE_EINVAL);
    CHECK_STR(sluice_why(), "sluice_open needs options and a result");
    options.limit_count = 0;
    CHECK_EQ(sluice_open(&options, &gate), SLUICE_EINVAL);
    CHECK_STR(sluice_why(), "a gate needs between 1 and 1024 limits, not 0");
    options.limit_count = 1025;
    CHECK_EQ(sluice_open(&options, &gate), SLUICE_EINVAL);
    CHECK_STR(sluice_why(), "a gate needs between 1 and 1024 limits, not 1025");
    options.limits = NULL;
    options.limit_count = 1;
    CHECK_EQ(sluice_open(&options, &gate), SLUICE_EINVAL);
    CHECK(gate == NULL);
}

static void test_memory(void)
{
    static const struct sluice_limit limit = {
        .name = "a", .kind = BUCKET, .rate = "5/min"};
    char *piece = aligned_alloc(64, (1 << 20) + 64);
    struct sluice_options options = {.limits = &limit,
                                     .limit_count = 1,
                                     .memory = piece + 8,
                                     .size = 1 << 20};
    struct sluice *gate = NULL;

    CASE("memory that is not aligned, or not zeroed");
    memset(piece, 0, (1 << 20) + 64);
    CHECK_EQ(sluice_open(&options, &gate), SLUICE_EINVAL);
    CHECK_STR(sluice_why(), "the memory is not aligned to 64 bytes");
    memset(piece, 'x', 64);
    options.memory = piece;
    options.size = 0;
    CHECK_EQ(sluice_open(&options, &gate), SLUICE_EINVAL);
    CHECK_STR(sluice_why(), "memory needs a size");
    options.size = 1 << 20;
    CHECK_EQ(sluice_open(&options, &gate), SLUICE_EDAMAGE);
    CHECK_STR(sluice_why(), "it is not a state file of Sluice");
    CHECK(gate == NULL);
    free(piece);
}

/* ---- questions ---- */

static const char *const plans[] = {"10/min", NULL};
static const struct sluice_limit limits[] = {
    {.name = "a", .kind = BUCKET, .rate = "5/min",  .plans = plans},
    {.name = "b",           .kind = SLUICE_LEVEL,               .rate = "9"},
};

typedef int set_f(struct sluice *gate, struct sluice_part *parts, size_t count);

static const struct sluice_verdict untouched = {SLUICE_NEVER, 77, 77};

static int call_take(struct sluice *gate, struct sluice_part *parts,
                     size_t count)
{
    struct sluice_verdict verdict = untouched;
    int err = sluice_take(gate, parts, count, &verdict);

    if (err)
        CHECK(memcmp(&verdict, &untouched, sizeof(verdict)) == 0);
    return err;
}

static int call_look(struct sluice *gate, struct sluice_part *parts,
                     size_t count)
{
    struct sluice_verdict verdict = untouched;
    int err = sluice_look(gate, parts, count, &verdict);

    if (err)
        CHECK(memcmp(&verdict, &untouched, sizeof(verdict)) == 0);
    return err;
}

static const struct call {
    const char *name;
    set_f *call;
    bool batch; /* takes any number of parts */
    bool large; /* accepts any cost */
} calls[] = {
    {"take refuses bad sets",      call_take,         false, true },
    {"look refuses bad sets",      call_look,         false, true },
    {"batch refuses bad parts",    sluice_take_batch, true,  true },
    {"give_back refuses bad sets", sluice_give_back,  false, false},
    {"charge refuses bad sets",    sluice_charge,     false, false},
};

/* `parts[1]` is bad; `parts[0]` would be fine. */
static void refused(const struct call *c, struct sluice *gate,
                    struct sluice_part parts[2], int err, const char *why)
{
    struct sluice_answer marked = {.limit = 77, .wait_ns = 77};

    parts[0].answer = parts[1].answer = marked;
    CHECK_EQ(c->call(gate, parts, 2), err);
    CHECK_STR(sluice_why(), why);
    CHECK_EQ(parts[0].answer.limit, 77);
    CHECK_EQ(parts[1].answer.wait_ns, 77);
    CHECK_EQ(left(gate, 0, "ann"), 5);
}

static void test_parts(const struct call *c, struct sluice *gate)
{
    struct sluice_part parts[2] = {part_of(0, "ann", 1), part_of(2, "b", 1)};

    refused(c, gate, parts, SLUICE_ENOENT,
            "unknown limit number 2; the gate has 2");
    parts[1] = part_of(0, "b", 1);
    parts[1].plan = 2;
    refused(c, gate, parts, SLUICE_ENOENT, "limit \"a\" has no plan number 2");
    parts[1] = (struct sluice_part){.limit = 0, .key_len = 3};
    refused(c, gate, parts, SLUICE_EINVAL, "the key is NULL");
    parts[1] = part_of(1, "b", (UINT64_C(1) << 49) + 1);
    if (!c->large)
        refused(c, gate, parts, SLUICE_EINVAL,
                "a cost of more than 2^49 cannot be refunded or charged");
}

static void test_counts(const struct call *c, struct sluice *gate)
{
    struct sluice_part parts[17];

    for (size_t i = 0; i < 17; i++)
        parts[i] = part_of(0, "ann", 1);
    CHECK_EQ(c->call(NULL, parts, 1), SLUICE_EINVAL);
    CHECK_EQ(c->call(gate, NULL, 1), SLUICE_EINVAL);
    if (c->batch) {
        CHECK_STR(sluice_why(), "a batch needs a gate and parts");
        CHECK_EQ(c->call(gate, NULL, 0), 0);
        return;
    }
    CHECK_EQ(c->call(gate, parts, 0), SLUICE_EINVAL);
    CHECK_EQ(c->call(gate, parts, 17), SLUICE_EINVAL);
    CHECK_STR(sluice_why(), "a set needs between 1 and 16 parts, not 17");
    CHECK_EQ(left(gate, 0, "ann"), 5);
}

static int never_called(void *ctx, unsigned limit, uint64_t fingerprint,
                        const struct sluice_answer *answer)
{
    (void)ctx, (void)limit, (void)fingerprint, (void)answer;
    return 1;
}

static void test_the_others(struct sluice *gate)
{
    struct sluice_stats stats = {.takes = 77};

    CASE("reset, each, stats, notice and close, called in vain");
    CHECK_EQ(sluice_reset(NULL, 0, "a", 1), SLUICE_EINVAL);
    CHECK_EQ(sluice_reset(gate, 2, "a", 1), SLUICE_ENOENT);
    CHECK_EQ(sluice_reset(gate, 0, NULL, 1), SLUICE_EINVAL);
    CHECK_EQ(sluice_each(NULL, never_called, NULL), SLUICE_EINVAL);
    CHECK_EQ(sluice_each(gate, NULL, NULL), SLUICE_EINVAL);
    CHECK_STR(sluice_why(), "sluice_each needs a gate and a function");
    CHECK_EQ(sluice_each(gate, never_called, NULL), 0);
    CHECK_EQ(sluice_stats(gate, NULL), SLUICE_EINVAL);
    CHECK_EQ(sluice_stats(NULL, &stats), SLUICE_EINVAL);
    CHECK_STR(sluice_why(), "sluice_stats needs a gate and a result");
    CHECK_EQ(stats.takes, 77);
    CHECK(sluice_notice(NULL) == NULL);
    CHECK(sluice_notice(gate) == NULL);
    CHECK(sluice_close(NULL) == NULL);
}

int main(void)
{
    struct hands hands = {.now = START};
    struct sluice *gate;

    CASE("before anything has gone wrong");
    CHECK_STR(sluice_why(), "no error");
    CHECK_STR(sluice_version(), SLUICE_VERSION);
    test_no_options();
    test_names_and_rates();
    test_quotas();
    test_two();
    test_places();
    test_memory();
    for (size_t i = 0; i < COUNT(calls); i++) {
        CASE(calls[i].name);
        gate = open_gate(limits, COUNT(limits), &hands);
        test_parts(&calls[i], gate);
        test_counts(&calls[i], gate);
        gate = sluice_close(gate);
        CHECK(gate == NULL);
    }
    gate = open_gate(limits, COUNT(limits), &hands);
    test_the_others(gate);
    CASE("an empty key is a key");
    CHECK_EQ(take(gate, 0, "", 2).remaining, 3);
    CHECK_EQ(sluice_take(gate, &(struct sluice_part){.cost = 1}, 1, NULL), 0);
    CHECK_EQ(left(gate, 0, ""), 2);
    sluice_close(gate);
    return CHECK_DONE();
}
