/* clock.h -- real and virtual clocks: the only reader of time.
 *
 * A clock is read once per loop turn or batch; the instant is an argument from
 * there on. Real time is the wall clock read once (the anchor), advanced by the
 * monotonic clock. Once a second the two are compared. If they differ by
 * SL_CLOCK_STEP or more, the anchor moves to the wall clock and the jump is
 * counted. A virtual clock stands still until it is set.
 *
 * A clock belongs to one thread. Other threads may have copies.
 *
 * Invariants.
 *   (1) Between two jumps, readings never decrease.
 *   (2) Nothing before 1970 is ever read: such a wall clock reads as 0.
 *   (3) `jumps` counts every move of the anchor, in either direction.
 */
#ifndef SL_BASE_CLOCK_H
#define SL_BASE_CLOCK_H

#include "base/base.h"

#define SL_CLOCK_STEP (500 * SL_MS)
#define SL_CLOCK_LOOK SL_S /* time between comparisons with the wall clock */

struct sl_clock {
    sl_ns (*wall)(void *ctx); /* both NULL in a virtual clock */
    sl_ns (*mono)(void *ctx);
    void *ctx;
    sl_ns offset; /* real: wall - mono at the anchor; virtual: the time */
    sl_ns looked; /* real: mono when the wall clock was last compared */
    sl_ns last;   /* the last reading */
    uint64_t jumps;
};

/* The machine's wall clock, without an anchor; 0 before 1970. For time that is
 * shared with other processes. */
sl_ns sl_clock_wall(void);

/* The same, at most SL_CLOCK_NEAR off, for callers that read it for every
 * decision: less than half the price of sl_clock_wall() where they are frequent
 * (clock.c). A step of the wall clock is seen SL_CLOCK_NEAR late. */
static inline sl_ns sl_clock_wall_near(void);

/* Time since the machine's start, sleep included. */
sl_ns sl_clock_mono(void);

/* The machine's clock. */
void sl_clock_init_real(struct sl_clock *clock);

/* A real clock over other sources; for tests and for embedding programs. */
void sl_clock_init_sources(struct sl_clock *clock, sl_ns (*wall)(void *ctx),
                           sl_ns (*mono)(void *ctx), void *ctx);

/* A clock that stands at `now` until it is set. */
void sl_clock_init_virtual(struct sl_clock *clock, sl_ns now);

/* Move a virtual clock, in either direction; negative times become 0. A move
 * back counts as a jump. Setting a real clock is a bug in the caller. */
void sl_clock_set(struct sl_clock *clock, sl_ns now);

sl_ns sl_clock_now(struct sl_clock *clock);

/* ---- the near clock ---- */

#define SL_CLOCK_NEAR (20 * SL_US)

/* A reading of the wall clock, and the processor's counter just before it. Of
 * one thread. */
struct sl_clock_near {
    uint64_t counter;
    uint64_t lasts; /* in steps of the counter; 0: it is not used */
    uint64_t ns;    /* per step, times 2^32; 0: not measured yet */
    sl_ns wall;
    uint64_t first_counter; /* when measuring began; 0: not yet */
    sl_ns first_mono;
};

extern _Thread_local struct sl_clock_near sl_clock_near;

/* Reads the wall clock and remembers it. */
sl_ns sl_clock_wall_again(void);

static inline uint64_t sl_clock_counter(void)
{
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#else
    return 0;
#endif
}

static inline sl_ns sl_clock_wall_near(void)
{
    const struct sl_clock_near *near = &sl_clock_near;
    uint64_t gone;

    if (near->lasts == 0)
        return sl_clock_wall_again();
    gone = sl_clock_counter() - near->counter;
    if (gone >= near->lasts)
        return sl_clock_wall_again();
    return near->wall + (sl_ns)(gone * near->ns >> 32);
}

#endif
