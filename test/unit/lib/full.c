/* full.c -- a full state: which keys are replaced, and on_full for keys without
 * a place. */
#include "gate.h"

static struct hands hands = {.now = START};

static const struct sluice_limit links = {
    .name = "links", .kind = SLUICE_LEVEL, .rate = "5", .share = 1000};

static struct sluice *open_with(const struct sluice_limit *limits, size_t count,
                                enum sluice_on_full on_full)
{
    struct sluice_options options = {.limits = limits,
                                     .limit_count = count,
                                     .size = 1 << 20,
                                     .on_full = on_full,
                                     .now = read_hands,
                                     .now_ctx = &hands};
    struct sluice *gate = NULL;

    CHECK_EQ(sluice_open(&options, &gate), 0);
    return gate;
}

struct flood {
    unsigned tracked, untracked, denied;
};

/* Take 1 for each of `count` keys from number `first`. */
static struct flood flood(struct sluice *gate, unsigned limit, unsigned first,
                          unsigned count)
{
    struct flood f = {0, 0, 0};

    for (unsigned i = first; i < first + count; i++) {
        struct sluice_answer a;
        char key[16];

        snprintf(key, sizeof(key), "%u", i);
        a = take(gate, limit, key, 1);
        f.tracked += !a.untracked;
        f.untracked += a.untracked != 0;
        f.denied += a.outcome == SLUICE_DENY;
    }
    return f;
}

/* How many of the keys still have what they took. */
static unsigned kept(struct sluice *gate, unsigned limit, unsigned count)
{
    unsigned n = 0;

    for (unsigned i = 0; i < count; i++) {
        char key[16];

        snprintf(key, sizeof(key), "%u", i);
        n += look(gate, limit, key, 0).remaining == 4;
    }
    return n;
}

static void test_on_full(enum sluice_on_full on_full)
{
    struct sluice *gate = open_with(&links, 1, on_full);
    struct sluice_stats before, after;
    struct flood f;

    CHECK_EQ(sluice_stats(gate, &before), 0);
    f = flood(gate, 0, 0, 2 * (unsigned)before.places);
    CHECK_EQ(sluice_stats(gate, &after), 0);
    CHECK_EQ(after.bytes, 1 << 20);
    CHECK_EQ(after.occupied, f.tracked);
    CHECK_EQ(after.inserted, f.tracked);
    CHECK_EQ(after.full, f.untracked);
    CHECK_EQ(after.evicted, 0);
    CHECK(f.tracked > before.places * 8 / 10);
    CHECK_EQ(f.denied, on_full == SLUICE_FULL_DENY ? f.untracked : 0);
    CHECK_EQ(kept(gate, 0, 2 * (unsigned)before.places), f.tracked);
    sluice_close(gate);
}

static void test_answers(void)
{
    struct sluice *gate = open_with(&links, 1, SLUICE_FULL_DENY);
    struct sluice_part set[2] = {part_of(0, "0", 1), part_of(0, "", 1)};
    struct sluice_verdict v;
    char key[16] = "";

    CASE("a key without a place is untracked, and the rest of its set is kept");
    flood(gate, 0, 0, 30000);
    for (unsigned i = 30000; set[1].answer.outcome == SLUICE_ALLOW; i++) {
        snprintf(key, sizeof(key), "%u", i);
        set[1] = part_of(0, key, 1);
        sluice_reset(gate, 0, "0", 1);
        CHECK_EQ(sluice_take(gate, set, 2, &v), 0);
    }
    CHECK_EQ(v.outcome, SLUICE_DENY);
    CHECK_EQ(v.by, 1);
    CHECK_EQ(v.retry_in_ns, -1);
    CHECK_EQ(set[0].answer.untracked, 0);
    CHECK_EQ(set[0].answer.remaining, 5);
    CHECK_EQ(set[1].answer.untracked, 1);
    CASE("a cost that will never pass is refused as ever");
    CHECK_EQ(take(gate, 0, key, 6).outcome, SLUICE_NEVER);
    CASE("a place that is given back is a place");
    for (unsigned i = 0; i < 30000; i++) {
        snprintf(key, sizeof(key), "%u", i);
        CHECK_EQ(sluice_reset(gate, 0, key, strlen(key)), 0);
    }
    CHECK_EQ(flood(gate, 0, 40000, 5000).untracked, 0);
    sluice_close(gate);
}

static void test_who_gives_way(void)
{
    static const struct sluice_limit both[] = {
        {"bucket", SLUICE_TOKEN_BUCKET, "5/min", .share = 500},
        {"links",  SLUICE_LEVEL,        "5",     .share = 300},
    };
    struct sluice *gate = open_with(both, 2, SLUICE_FULL_DENY);
    struct sluice_stats stats;
    struct flood f;

    CASE("keys that owe little are replaced, drained keys are not");
    f = flood(gate, 1, 0, 3000);
    CHECK_EQ(f.untracked, 0);
    take(gate, 0, "drained", 5);
    f = flood(gate, 0, 0, 60000);
    CHECK_EQ(sluice_stats(gate, &stats), 0);
    CHECK(stats.evicted > 10000);
    CHECK_EQ(left(gate, 0, "drained"), 0);
    CHECK_EQ(kept(gate, 1, 3000), 3000);
    CASE("a limit that floods does not push out the share of another");
    f = flood(gate, 1, 3000, 500);
    CHECK_EQ(f.untracked, 0);
    CASE("keys that owe nothing are free places");
    hands.now += HOUR;
    f = flood(gate, 0, 70000, 5000);
    CHECK_EQ(f.untracked, 0);
    sluice_close(gate);
}

int main(void)
{
    CASE("full, on_full allow: they pass and are not remembered");
    test_on_full(SLUICE_FULL_ALLOW);
    CASE("full, on_full deny: they are refused");
    test_on_full(SLUICE_FULL_DENY);
    test_answers();
    test_who_gives_way();
    return CHECK_DONE();
}
