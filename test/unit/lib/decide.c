/* decide.c -- sets, looks, batches, plans, and what the verdict makes of the
 * parts. */
#include "gate.h"

static const char *const plans[] = {"10/min", "20/min", NULL};
static struct sluice_limit limits[] = {
    {.name = "minute", .kind = SLUICE_TOKEN_BUCKET, .rate = "5/min"   },
    {.name = "hour",   .kind = SLUICE_FIXED_WINDOW, .rate = "100/hour"},
    {.name = "links",  .kind = SLUICE_LEVEL,        .rate = "3"       },
};

enum { MINUTE, PER_HOUR, LINKS };

static struct hands hands;

static struct sluice *fresh_gate(void)
{
    hands.now = START;
    limits[MINUTE].plans = plans;
    return open_gate(limits, COUNT(limits), &hands);
}

TEST(answers)
{
    struct sluice *gate = fresh_gate();
    struct sluice_answer a;

    CASE("an answer says all there is to say");
    a = take(gate, MINUTE, "ann", 2);
    CHECK_EQ(a.outcome, SLUICE_ALLOW);
    CHECK_EQ(a.limit, 5);
    CHECK_EQ(a.capacity, 5);
    CHECK_EQ(a.remaining, 3);
    CHECK_EQ(a.retry_in_ns, -1);
    CHECK_EQ(a.reset_in_ns, 24 * SEC);
    CHECK_EQ(a.wait_ns, 0);
    CHECK_EQ(a.untracked, 0);
    a = take(gate, MINUTE, "ann", 5);
    CHECK_EQ(a.outcome, SLUICE_DENY);
    CHECK_EQ(a.remaining, 3);
    CHECK_EQ(a.retry_in_ns, 24 * SEC);
    a = take(gate, MINUTE, "ann", 6);
    CHECK_EQ(a.outcome, SLUICE_NEVER);
    CHECK_EQ(a.retry_in_ns, -1);
    a = take(gate, LINKS, "ann", 3);
    CHECK_EQ(a.outcome, SLUICE_ALLOW);
    CHECK_EQ(a.reset_in_ns, -1);
    a = take(gate, LINKS, "ann", 1);
    CHECK_EQ(a.outcome, SLUICE_DENY);
    CHECK_EQ(a.retry_in_ns, -1);
    CASE("the promised instant is exact");
    CHECK_EQ(drain(gate, MINUTE, "eve"), 5);
    hands.now += take(gate, MINUTE, "eve", 1).retry_in_ns - 1;
    CHECK_EQ(take(gate, MINUTE, "eve", 1).retry_in_ns, 1);
    hands.now += 1;
    CHECK_EQ(take(gate, MINUTE, "eve", 1).outcome, SLUICE_ALLOW);
    sluice_close(gate);
}

TEST(verdicts)
{
    struct sluice *gate = fresh_gate();
    struct sluice_part set[3] = {part_of(LINKS, "ann", 1),
                                 part_of(MINUTE, "ann", 5),
                                 part_of(PER_HOUR, "ann", 1)};
    struct sluice_verdict v;

    CASE("all parts pass");
    CHECK_EQ(sluice_take(gate, set, 3, &v), 0);
    CHECK_EQ(v.outcome, SLUICE_ALLOW);
    CHECK_EQ(v.by, 0);
    CHECK_EQ(v.retry_in_ns, -1);
    CASE("one refuses: it is named, and nothing is spent anywhere");
    CHECK_EQ(sluice_take(gate, set, 3, &v), 0);
    CHECK_EQ(v.outcome, SLUICE_DENY);
    CHECK_EQ(v.by, 1);
    CHECK_EQ(v.retry_in_ns, MIN);
    CHECK_EQ(set[0].answer.outcome, SLUICE_ALLOW);
    CHECK_EQ(set[0].answer.remaining, 2);
    CHECK_EQ(set[2].answer.outcome, SLUICE_ALLOW);
    CHECK_EQ(set[2].answer.remaining, 99);
    CHECK_EQ(left(gate, LINKS, "ann"), 2);
    CASE("several refuse: the first is named, the longest wait is given");
    take(gate, PER_HOUR, "ann", 99);
    CHECK_EQ(sluice_take(gate, set, 3, &v), 0);
    CHECK_EQ(v.by, 1);
    CHECK_EQ(v.retry_in_ns, HOUR);
    CASE("a refusal without a clock does not hide the others' wait");
    take(gate, LINKS, "ann", 2);
    CHECK_EQ(sluice_take(gate, set, 3, &v), 0);
    CHECK_EQ(v.outcome, SLUICE_DENY);
    CHECK_EQ(v.by, 0);
    CHECK_EQ(v.retry_in_ns, HOUR);
    CASE("never wins, and has no wait");
    set[2].cost = 101;
    CHECK_EQ(sluice_take(gate, set, 3, &v), 0);
    CHECK_EQ(v.outcome, SLUICE_NEVER);
    CHECK_EQ(v.by, 0);
    CHECK_EQ(v.retry_in_ns, -1);
    CHECK_EQ(set[2].answer.outcome, SLUICE_NEVER);
    sluice_close(gate);
}

TEST(merging)
{
    struct sluice *gate = fresh_gate();
    struct sluice_part set[3] = {part_of(MINUTE, "ann", 2),
                                 part_of(MINUTE, "bob", 1),
                                 part_of(MINUTE, "ann", 2)};
    struct sluice_verdict v;

    CASE("parts of one key add up");
    CHECK_EQ(sluice_take(gate, set, 3, &v), 0);
    CHECK_EQ(v.outcome, SLUICE_ALLOW);
    CHECK_EQ(set[0].answer.remaining, 1);
    CHECK_EQ(set[2].answer.remaining, 1);
    CHECK_EQ(left(gate, MINUTE, "bob"), 4);
    CHECK_EQ(sluice_take(gate, set, 3, &v), 0);
    CHECK_EQ(v.outcome, SLUICE_DENY);
    CHECK_EQ(v.by, 0);
    CHECK_EQ(left(gate, MINUTE, "bob"), 4);
    CASE("together they may be more than will ever pass");
    set[0].cost = set[2].cost = 3;
    CHECK_EQ(sluice_take(gate, set, 3, &v), 0);
    CHECK_EQ(v.outcome, SLUICE_NEVER);
    set[0].cost = set[2].cost = UINT64_MAX;
    CHECK_EQ(sluice_take(gate, set, 3, &v), 0);
    CHECK_EQ(v.outcome, SLUICE_NEVER);
    sluice_close(gate);
}

TEST(sixteen)
{
    struct sluice *gate = fresh_gate();
    struct sluice_part set[SLUICE_PARTS_MAX];
    char keys[SLUICE_PARTS_MAX][4];
    struct sluice_verdict v;

    CASE("sixteen keys are taken as one, and refused as one");
    for (unsigned i = 0; i < SLUICE_PARTS_MAX; i++) {
        snprintf(keys[i], sizeof(keys[i]), "%u", i);
        set[i] = part_of(MINUTE, keys[i], 2);
    }
    for (unsigned round = 0; round < 3; round++) {
        CHECK_EQ(sluice_take(gate, set, SLUICE_PARTS_MAX, &v), 0);
        CHECK_EQ(v.outcome, round < 2 ? SLUICE_ALLOW : SLUICE_DENY);
        for (unsigned i = 0; i < SLUICE_PARTS_MAX; i++)
            CHECK_EQ(set[i].answer.remaining, round == 0 ? 3 : 1);
    }
    CHECK_EQ(take(gate, MINUTE, "15", 1).remaining, 0);
    for (unsigned i = 0; i < SLUICE_PARTS_MAX; i++)
        set[i].cost = 1;
    CHECK_EQ(sluice_take(gate, set, SLUICE_PARTS_MAX, &v), 0);
    CHECK_EQ(v.by, 15);
    CHECK_EQ(left(gate, MINUTE, "0"), 1);
    sluice_close(gate);
}

TEST(look)
{
    struct sluice *gate = fresh_gate();
    struct sluice_part set[2] = {part_of(MINUTE, "ann", 3),
                                 part_of(LINKS, "ann", 3)};
    struct sluice_verdict v;
    struct sluice_stats stats;

    CASE("a look foretells and spends nothing");
    for (unsigned i = 0; i < 3; i++) {
        CHECK_EQ(sluice_look(gate, set, 2, &v), 0);
        CHECK_EQ(v.outcome, SLUICE_ALLOW);
        CHECK_EQ(set[0].answer.remaining, 5);
    }
    CHECK_EQ(sluice_stats(gate, &stats), 0);
    CHECK_EQ(stats.occupied, 0);
    CHECK_EQ(sluice_take(gate, set, 2, &v), 0);
    CHECK_EQ(v.outcome, SLUICE_ALLOW);
    CHECK_EQ(sluice_look(gate, set, 2, &v), 0);
    CHECK_EQ(v.outcome, SLUICE_DENY);
    CHECK_EQ(v.by, 0);
    CHECK_EQ(v.retry_in_ns, 12 * SEC);
    CHECK_EQ(look(gate, MINUTE, "ann", 6).outcome, SLUICE_NEVER);
    CASE("a take of nothing is a look; the verdict may be left out");
    CHECK_EQ(take(gate, MINUTE, "ann", 0).remaining, 2);
    CHECK_EQ(take(gate, MINUTE, "ann", 0).remaining, 2);
    CHECK_EQ(sluice_look(gate, set, 2, NULL), 0);
    CHECK_EQ(sluice_take(gate, set, 1, NULL), 0);
    CHECK_EQ(set[0].answer.outcome, SLUICE_DENY);
    sluice_close(gate);
}

static uint64_t left_by(struct sluice *gate, unsigned plan)
{
    struct sluice_part part = part_of(MINUTE, "ann", 0);

    part.plan = plan;
    CHECK_EQ(sluice_look(gate, &part, 1, NULL), 0);
    return part.answer.remaining;
}

TEST(plans)
{
    struct sluice *gate = fresh_gate();
    struct sluice_part part = part_of(MINUTE, "ann", 4);

    CASE("another plan keeps what was used");
    CHECK_EQ(sluice_take(gate, &part, 1, NULL), 0);
    CHECK_EQ(left_by(gate, 0), 1);
    CHECK_EQ(left_by(gate, 1), 6);
    CHECK_EQ(left_by(gate, 2), 16);
    part.plan = 2;
    part.cost = 10;
    CHECK_EQ(sluice_take(gate, &part, 1, NULL), 0);
    CHECK_EQ(part.answer.outcome, SLUICE_ALLOW);
    CHECK_EQ(part.answer.limit, 20);
    CHECK_EQ(part.answer.remaining, 6);
    CASE("back on a smaller plan all that was used must drain");
    CHECK_EQ(left_by(gate, 0), 0);
    part.plan = 0;
    part.cost = 1;
    CHECK_EQ(sluice_take(gate, &part, 1, NULL), 0);
    CHECK_EQ(part.answer.outcome, SLUICE_DENY);
    CHECK_EQ(part.answer.retry_in_ns, 120 * SEC);
    sluice_close(gate);
}

static bool same_answer(const struct sluice_answer *a,
                        const struct sluice_answer *b)
{
    return a->outcome == b->outcome && a->limit == b->limit &&
           a->capacity == b->capacity && a->remaining == b->remaining &&
           a->retry_in_ns == b->retry_in_ns &&
           a->reset_in_ns == b->reset_in_ns && a->wait_ns == b->wait_ns &&
           a->untracked == b->untracked;
}

#define MANY 1000

TEST(batch)
{
    static struct sluice_part one[MANY], all[MANY];
    static char keys[MANY][8];
    struct sluice *gate = fresh_gate(), *other = fresh_gate();
    unsigned different = 0, denied = 0, never = 0;

    CASE("a batch answers as its parts one by one would");
    for (unsigned i = 0; i < MANY; i++) {
        snprintf(keys[i], sizeof(keys[i]), "%u", i * 7919 % 97);
        one[i] = part_of(i % 3, keys[i], i % 5);
        one[i].plan = i % 3 == 0 ? i % 2 : 0;
        all[i] = one[i];
    }
    for (unsigned i = 0; i < MANY; i++)
        CHECK_EQ(sluice_take(gate, &one[i], 1, NULL), 0);
    CHECK_EQ(sluice_take_batch(other, all, MANY), 0);
    for (unsigned i = 0; i < MANY; i++) {
        different += !same_answer(&one[i].answer, &all[i].answer);
        denied += all[i].answer.outcome == SLUICE_DENY;
        never += all[i].answer.outcome == SLUICE_NEVER;
    }
    CHECK_EQ(different, 0);
    CHECK(denied > 50);
    CHECK(never > 50);
    CASE("a batch reads the clock once");
    hands.readings = 0;
    CHECK_EQ(sluice_take_batch(other, all, MANY), 0);
    CHECK_EQ(hands.readings, 1);
    CASE("in a batch every part is for itself");
    all[0] = part_of(LINKS, "new", 2);
    all[1] = part_of(LINKS, "new", 2);
    all[2] = part_of(LINKS, "new", 1);
    CHECK_EQ(sluice_take_batch(other, all, 3), 0);
    CHECK_EQ(all[0].answer.outcome, SLUICE_ALLOW);
    CHECK_EQ(all[1].answer.outcome, SLUICE_DENY);
    CHECK_EQ(all[2].answer.outcome, SLUICE_ALLOW);
    sluice_close(gate);
    sluice_close(other);
}

/* V10: a request that one limit refuses costs the others nothing. */
TEST(v10)
{
    static const struct sluice_limit both[] = {
        {.name = "tenant", .kind = SLUICE_TOKEN_BUCKET, .rate = "1000/min"},
        {.name = "user",   .kind = SLUICE_TOKEN_BUCKET, .rate = "100/min" },
    };
    struct sluice *gate = open_gate(both, 2, &hands);
    struct sluice_part set[2] = {part_of(0, "acme", 1), part_of(1, "ann", 1)};
    struct sluice_verdict v;
    unsigned passed = 0;

    CASE("V10: one user sends 1000: 100 pass, the tenant keeps 900");
    for (unsigned i = 0; i < 1000; i++) {
        CHECK_EQ(sluice_take(gate, set, 2, &v), 0);
        passed += v.outcome == SLUICE_ALLOW;
    }
    CHECK_EQ(passed, 100);
    CHECK_EQ(v.by, 1);
    CHECK_EQ(left(gate, 0, "acme"), 900);
    sluice_close(gate);
}

CHECK_MAIN()
