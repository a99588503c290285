/* clock.c -- the only file that reads a clock.
 *
 * The wall clock may be set by hand or by NTP; the monotonic clock is never set
 * but has no date. So the wall clock is read once,
 *
 *     offset = wall - mono                  (the anchor)
 *     reading = mono + offset
 *
 * and compared once a second. A pause of this process must not look like a
 * step, so the wall clock is read between two readings of the monotonic one,
 *
 *     before        wall        after            (of mono)
 *       |------------|------------|
 *
 * and has stepped only if it is STEP or more outside of their range.
 *
 * The monotonic clock stands still while the machine sleeps, which is seen as a
 * step of the wall clock.
 *
 * A virtual clock has no sources. Setting it back is a jump, for (1).
 *
 * The near clock. A call of the kernel's clock costs more than a decision
 * without it. Where the kernel itself keeps time by the processor's counter, a
 * thread advances its last reading by the counter for SL_CLOCK_NEAR, then reads
 * again,
 *
 *     counter   wall                             counter
 *        |-------|                                  |
 *     remembered together                     wall + steps * ns
 *
 * so a pause between the two makes readings at most SL_CLOCK_NEAR early, and a
 * counter that is wrong in any way misleads for no longer than that. The length
 * of a step is measured once by each thread, over CALIBRATION.
 */
#include "base/clock.h"

#include <assert.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/arith.h"

static sl_ns read_machine(clockid_t id)
{
    struct timespec ts = {0, 0};
    int err = clock_gettime(id, &ts);
    sl_ns ns;

    assert(err == 0); /* fails only for an invalid id or address */
    (void)err;
    if (__builtin_mul_overflow((int64_t)ts.tv_sec, SL_S, &ns))
        return ts.tv_sec > 0 ? SL_NS_MAX : INT64_MIN;
    return sl_ns_add_sat(ns, ts.tv_nsec);
}

static sl_ns machine_wall(void *ctx)
{
    (void)ctx;
    return read_machine(CLOCK_REALTIME);
}

sl_ns sl_clock_wall(void)
{
    sl_ns now = machine_wall(NULL);

    return now > 0 ? now : 0;
}

sl_ns sl_clock_mono(void)
{
    return read_machine(CLOCK_BOOTTIME);
}

static sl_ns machine_mono(void *ctx)
{
    (void)ctx;
    return read_machine(CLOCK_MONOTONIC);
}

/* a - b, saturated. */
static sl_ns minus(sl_ns a, sl_ns b)
{
    sl_ns d;

    if (!__builtin_sub_overflow(a, b, &d))
        return d;
    return b < 0 ? SL_NS_MAX : INT64_MIN;
}

static sl_ns not_negative(sl_ns t)
{
    return t > 0 ? t : 0; /* (2) */
}

/* Compare the clocks; move the anchor after a step. Returns mono. */
static sl_ns look(struct sl_clock *clock, sl_ns before)
{
    sl_ns wall = clock->wall(clock->ctx);
    sl_ns after = clock->mono(clock->ctx);
    sl_ns ahead = minus(wall, sl_ns_add_sat(after, clock->offset));
    sl_ns behind = minus(sl_ns_add_sat(before, clock->offset), wall);

    clock->looked = after;
    if (ahead >= SL_CLOCK_STEP || behind >= SL_CLOCK_STEP) {
        clock->offset = minus(wall, after);
        clock->last = 0;
        clock->jumps++; /* (3) */
    }
    return after;
}

void sl_clock_init_sources(struct sl_clock *clock, sl_ns (*wall)(void *ctx),
                           sl_ns (*mono)(void *ctx), void *ctx)
{
    sl_ns anchor;

    *clock = (struct sl_clock){.wall = wall, .mono = mono, .ctx = ctx};
    anchor = wall(ctx);
    clock->looked = mono(ctx);
    /* Not clamped: a wall clock before 1970 that runs on is no step. */
    clock->offset = minus(anchor, clock->looked);
}

void sl_clock_init_real(struct sl_clock *clock)
{
    sl_clock_init_sources(clock, machine_wall, machine_mono, NULL);
}

void sl_clock_init_virtual(struct sl_clock *clock, sl_ns now)
{
    *clock = (struct sl_clock){.offset = not_negative(now)};
    clock->last = clock->offset;
}

void sl_clock_set(struct sl_clock *clock, sl_ns now)
{
    assert(!clock->wall);
    now = not_negative(now);
    if (now < clock->offset)
        clock->jumps++;
    clock->offset = clock->last = now;
}

sl_ns sl_clock_now(struct sl_clock *clock)
{
    sl_ns mono, now;

    if (!clock->wall)
        return clock->offset;
    mono = clock->mono(clock->ctx);
    /* A monotonic clock that went back is broken; time stands still. */
    if (mono < clock->looked || minus(mono, clock->looked) >= SL_CLOCK_LOOK)
        mono = look(clock, mono);
    now = sl_ns_add_sat(mono, clock->offset);
    if (now > clock->last)
        clock->last = now;
    return clock->last; /* (1), and (2) since it begins at 0 */
}

/* ---- the near clock ---- */

#define CALIBRATION SL_MS
#define UNDISTURBED 20000 /* steps of the counter: a reading in one piece */
/* Steps of 0.125 to 4 ns, times 2^32. */
#define SHORTEST (UINT64_C(1) << 29)
#define LONGEST  (UINT64_C(1) << 34)

_Thread_local struct sl_clock_near sl_clock_near;

/* How the kernel keeps time; a file of one word. */
static bool kernel_counts(void)
{
    char text[8] = "";
    int fd = open("/sys/devices/system/clocksource/clocksource0/"
                  "current_clocksource",
                  O_RDONLY | O_CLOEXEC);
    ssize_t got = 0;

    if (fd >= 0) {
        got = read(fd, text, sizeof(text));
        close(fd);
    }
    return got == 4 && memcmp(text, "tsc\n", 4) == 0;
}

/* Counter and monotonic clock at one instant. False: there was a pause. */
static bool read_both(uint64_t *counter, sl_ns *mono)
{
    uint64_t before = sl_clock_counter();

    *mono = machine_mono(NULL);
    *counter = sl_clock_counter();
    return *counter - before < UNDISTURBED;
}

static bool is_counter_used(void)
{
    static _Atomic int known; /* 0: not yet; 1: no; 2: yes */

    if (atomic_load(&known) == 0)
        atomic_store(&known, kernel_counts() ? 2 : 1);
    return atomic_load(&known) == 2;
}

/* Measures the length of a step. Nothing is done while there are pauses. */
static void measure(struct sl_clock_near *near)
{
    uint64_t counter;
    sl_ns mono, passed;

    if (!read_both(&counter, &mono))
        return;
    passed = mono - near->first_mono;
    if (near->first_counter == 0 || passed > SL_S) {
        near->first_counter = counter;
        near->first_mono = mono;
    } else if (passed >= CALIBRATION && counter > near->first_counter) {
        uint64_t ns =
            ((uint64_t)passed << 32) / (counter - near->first_counter);

        near->first_counter = 0;
        if (ns < SHORTEST || ns > LONGEST)
            return; /* the machine was suspended in between: again */
        near->ns = ns;
        near->lasts = ((uint64_t)SL_CLOCK_NEAR << 32) / ns;
    }
}

sl_ns sl_clock_wall_again(void)
{
    struct sl_clock_near *near = &sl_clock_near;

    if (near->ns == 0 && is_counter_used())
        measure(near);
    near->counter = sl_clock_counter();
    near->wall = sl_clock_wall();
    return near->wall;
}
