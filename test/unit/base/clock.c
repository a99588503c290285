/* clock.c -- real time over sources that a test moves by hand.
 *
 * Each row moves the two sources and says what the clock must read then. No
 * test waits for anything.
 */
#include "base/clock.h"

#include "check.h"
#include "row.h"

#define T0 (INT64_C(1790000000) * SL_S) /* some day in 2026 */

struct sources {
    sl_ns wall, mono;
    sl_ns drag;            /* what both advance before the wall clock is read */
    sl_ns stall;           /* and behind that */
    unsigned walls, monos; /* how often each was read */
};

static sl_ns read_wall(void *ctx)
{
    struct sources *s = ctx;

    sl_ns now = s->wall + s->drag;

    s->walls++;
    s->mono += s->drag + s->stall;
    s->wall += s->drag + s->stall;
    return now;
}

static sl_ns read_mono(void *ctx)
{
    struct sources *s = ctx;

    s->monos++;
    return s->mono;
}

/* Let both run by `by`. */
static void run(struct sources *s, sl_ns by)
{
    s->wall += by;
    s->mono += by;
}

struct row {
    const char *why;
    sl_ns wall_by, mono_by;
    sl_ns reads; /* since T0 */
    uint64_t jumps;
};

static void test_rows(sl_ns mono, const struct row *rows, size_t count)
{
    struct sources s = {.wall = T0, .mono = mono};
    struct sl_clock clock;

    sl_clock_init_sources(&clock, read_wall, read_mono, &s);
    for (size_t i = 0; i < count; i++) {
        s.wall += rows[i].wall_by;
        s.mono += rows[i].mono_by;
        CASE(rows[i].why);
        CHECK_EQ(sl_clock_now(&clock) - T0, rows[i].reads);
        CHECK_EQ(clock.jumps, rows[i].jumps);
    }
}

TEST(steps)
{
    static const struct row rows[] = {
        ROW("the first reading is the wall clock's", 0, 0, 0, 0),
        ROW("time passes as the monotonic clock does", SL_MS, SL_MS, SL_MS, 0),
        ROW("jitter of the wall clock is not seen", 5 * SL_MS, SL_MS, 2 * SL_MS,
            0),
        ROW("nor when it goes back", -10 * SL_MS, SL_MS, 3 * SL_MS, 0),
        ROW("the clock may stand still", 0, 0, 3 * SL_MS, 0),
        /* the wall is now 7 ms behind */
        ROW("a step forward is not seen before a second has passed",
            SL_HOUR + 996 * SL_MS, 996 * SL_MS, 999 * SL_MS, 0),
        ROW("and seen then", SL_MS + 7 * SL_MS, SL_MS, SL_HOUR + SL_S, 1),
        ROW("after which time passes as before", SL_MS, SL_MS,
            SL_HOUR + 1001 * SL_MS, 1),
        ROW("a step back is seen at the next look", SL_S - SL_HOUR, SL_S,
            2001 * SL_MS, 2),
        ROW("and counted once", 2 * SL_S, 2 * SL_S, 4001 * SL_MS, 2),
        ROW("parting by less than a step is nothing", SL_S + SL_CLOCK_STEP - 1,
            SL_S, 5001 * SL_MS, 2),
        ROW("one more nanosecond is a step", SL_S + 1, SL_S,
            6001 * SL_MS + SL_CLOCK_STEP, 3),
        ROW("so it is backwards: not yet", SL_S - SL_CLOCK_STEP + 1, SL_S,
            7001 * SL_MS + SL_CLOCK_STEP, 3),
        ROW("and now", SL_S - 1, SL_S, 8001 * SL_MS, 4),
        ROW("eight hours of sleep", 8 * SL_HOUR + SL_MS, SL_MS, 8002 * SL_MS,
            4),
        ROW("are seen within a second of waking up", SL_S, SL_S,
            8 * SL_HOUR + 9002 * SL_MS, 5),
        ROW("a monotonic clock that went back stops time at most", SL_MS,
            -100 * SL_MS, 8 * SL_HOUR + 9002 * SL_MS, 5),
        ROW("until it has caught up", 150 * SL_MS, 150 * SL_MS,
            8 * SL_HOUR + 9052 * SL_MS, 5),
        ROW("and by a lot is healed from the wall clock at once", 0, -SL_S,
            8 * SL_HOUR + 9153 * SL_MS, 6),
    };

    test_rows(SL_HOUR, rows, SL_LEN(rows));
}

TEST(early)
{
    struct sources s = {.wall = -10 * SL_S, .mono = SL_HOUR};
    struct sl_clock clock;

    sl_clock_init_sources(&clock, read_wall, read_mono, &s);
    CASE("a wall clock before 1970 reads as 0, and its running is no step");
    for (unsigned i = 0; i < 10; i++) {
        CHECK_EQ(sl_clock_now(&clock), 0);
        run(&s, SL_S);
    }
    CHECK_EQ(sl_clock_now(&clock), 0);
    CHECK_EQ(clock.jumps, 0);

    CASE("1970 comes on time");
    run(&s, SL_S);
    CHECK_EQ(sl_clock_now(&clock), SL_S);
    CHECK_EQ(clock.jumps, 0);

    CASE("a machine that learns the time steps out of 1970");
    s.wall = T0;
    s.mono += SL_S;
    CHECK_EQ(sl_clock_now(&clock), T0);
    CHECK_EQ(clock.jumps, 1);

    CASE("and back before it");
    s.wall = -SL_HOUR;
    s.mono += SL_S;
    CHECK_EQ(sl_clock_now(&clock), 0);
    CHECK_EQ(clock.jumps, 2);
}

TEST(ends)
{
    struct sources s = {.wall = SL_NS_MAX - 1, .mono = 5};
    struct sl_clock clock;

    sl_clock_init_sources(&clock, read_wall, read_mono, &s);
    CASE("at the end of time it stands");
    CHECK_EQ(sl_clock_now(&clock), SL_NS_MAX - 1);
    s.mono += SL_HOUR;
    s.wall = SL_NS_MAX;
    CHECK_EQ(sl_clock_now(&clock), SL_NS_MAX);

    CASE("sources at their ends do no harm");
    s.wall = INT64_MIN;
    s.mono += SL_HOUR;
    CHECK_EQ(sl_clock_now(&clock), 0);
    s.mono = INT64_MIN;
    CHECK_EQ(sl_clock_now(&clock), 0);
    s.wall = SL_NS_MAX;
    s.mono = SL_NS_MAX;
    CHECK(sl_clock_now(&clock) >= 0);
    s.mono = -5;
    sl_clock_init_sources(&clock, read_wall, read_mono, &s);
    CHECK_EQ(sl_clock_now(&clock), SL_NS_MAX - 5);
}

TEST(preempted)
{
    struct sources s = {.wall = T0, .mono = 0};
    struct sl_clock clock;
    sl_ns now;

    sl_clock_init_sources(&clock, read_wall, read_mono, &s);
    CASE("being stopped for minutes while looking is no step");
    s.drag = 5 * SL_MIN;
    run(&s, SL_S);
    CHECK_EQ(sl_clock_now(&clock), T0 + SL_S + 5 * SL_MIN);
    CHECK_EQ(clock.jumps, 0);

    CASE("nor is being stopped right behind the wall clock's reading");
    s.drag = 0;
    s.stall = 5 * SL_MIN;
    run(&s, SL_S);
    CHECK_EQ(sl_clock_now(&clock), T0 + 2 * SL_S + 10 * SL_MIN);
    CHECK_EQ(clock.jumps, 0);
    s.stall = 0;

    CASE("a step back is seen even so");
    s.drag = SL_MS;
    s.wall -= SL_HOUR;
    run(&s, SL_S);
    now = sl_clock_now(&clock);
    CHECK_EQ(now, s.wall);
    CHECK_EQ(clock.jumps, 1);

    CASE("the wall clock is read once a second, not once a reading");
    s = (struct sources){.wall = T0, .mono = 0};
    sl_clock_init_sources(&clock, read_wall, read_mono, &s);
    for (unsigned i = 0; i < 10000; i++) {
        run(&s, SL_MS);
        sl_clock_now(&clock);
    }
    CHECK_EQ(s.walls, 1 + 10);
    CHECK_EQ(s.monos, 1 + 10000 + 10);
}

/* (1), whatever the sources do. */
TEST(order)
{
    struct sources s = {.wall = T0, .mono = SL_S};
    struct sl_clock clock;
    uint64_t random = 1, jumps;
    sl_ns last;

    CASE("between jumps, readings never decrease");
    sl_clock_init_sources(&clock, read_wall, read_mono, &s);
    last = sl_clock_now(&clock);
    jumps = clock.jumps;
    for (unsigned i = 0; i < 200000; i++) {
        sl_ns now;

        random = random * UINT64_C(6364136223846793005) + 1;
        s.wall += (sl_ns)(random >> 33) % (3 * SL_S) - SL_S;
        s.mono += (sl_ns)(random >> 40) % (30 * SL_MS) - 2 * SL_MS;
        now = sl_clock_now(&clock);
        CHECK(now >= last || clock.jumps > jumps);
        CHECK(clock.jumps <= jumps + 1);
        jumps = clock.jumps;
        last = now;
    }
    CHECK(jumps > 100);
}

TEST(virtual)
{
    static const struct {
        const char *why;
        sl_ns set, reads;
        uint64_t jumps;
    } rows[] = {
        {"forward is how time passes", T0 + SL_S,    T0 + SL_S,    0},
        {"the same moment again",      T0 + SL_S,    T0 + SL_S,    0},
        {"back is a jump",             T0 - SL_HOUR, T0 - SL_HOUR, 1},
        {"as far as 1970",             0,            0,            2},
        {"and no further",             -SL_S,        0,            2},
        {"the end of time",            SL_NS_MAX,    SL_NS_MAX,    2},
    };
    struct sl_clock clock;

    sl_clock_init_virtual(&clock, T0);
    CASE("a virtual clock stands where it was put");
    CHECK_EQ(sl_clock_now(&clock), T0);
    CHECK_EQ(sl_clock_now(&clock), T0);
    for (size_t i = 0; i < SL_LEN(rows); i++) {
        CASE(rows[i].why);
        sl_clock_set(&clock, rows[i].set);
        CHECK_EQ(sl_clock_now(&clock), rows[i].reads);
        CHECK_EQ(clock.jumps, rows[i].jumps);
    }
    CASE("it cannot begin before 1970");
    sl_clock_init_virtual(&clock, -5);
    CHECK_EQ(sl_clock_now(&clock), 0);
}

TEST(real)
{
    struct sl_clock clock;
    sl_ns first, second;

    CASE("the machine's clock reads a time after 2020 that does not go back");
    sl_clock_init_real(&clock);
    first = sl_clock_now(&clock);
    second = sl_clock_now(&clock);
    CHECK(first > INT64_C(1577836800) * SL_S);
    CHECK(second >= first);
}

/* The wall clock, the near clock and the wall clock again. */
static bool is_near(void)
{
    sl_ns before = sl_clock_wall(), now = sl_clock_wall_near();

    return now >= before - SL_CLOCK_NEAR &&
           now <= sl_clock_wall() + SL_CLOCK_NEAR + SL_US;
}

TEST(near)
{
    struct sl_clock_near *near = &sl_clock_near;
    sl_ns end = sl_clock_wall() + SL_S;
    unsigned off = 0;

    CASE("the near clock is near, from its first reading on");
    for (unsigned i = 0; i < 10000 && sl_clock_wall() < end; i++) {
        off += !is_near();
        if (near->lasts == 0)
            i = 0; /* not measured yet; never, if the kernel counts otherwise */
    }
    CHECK_EQ(off, 0);
    CASE("a remembered reading that is too old is not used");
    near->wall = 0;
    near->counter -= near->lasts;
    CHECK(is_near());
    CASE("nor one of a counter that went back");
    near->wall = 0;
    near->counter += UINT64_C(1) << 40;
    CHECK(is_near());
}

CHECK_MAIN()
