/* clock.h -- the only room in the house with a window on real time.
 *
 * A clock is read once per loop turn or batch, and the instant is passed down
 * as an argument. Real time is the wall clock read once (the anchor) and
 * advanced by the monotonic clock, so that our time does not jitter and a step
 * of the wall clock is seen rather than suffered: about once a second the two
 * are compared, and when they have parted by SL_CLOCK_STEP or more, the anchor
 * moves to the wall clock and the jump is counted. Virtual time is what it was
 * last told.
 *
 * A clock belongs to one thread. Copies may be handed to others.
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
#define SL_CLOCK_LOOK SL_S /* how often the wall clock is compared */

struct sl_clock {
    sl_ns (*wall)(void *ctx); /* both NULL in a virtual clock */
    sl_ns (*mono)(void *ctx);
    void *ctx;
    sl_ns offset; /* real: wall - mono at the anchor; virtual: the time */
    sl_ns looked; /* real: mono when the wall clock was last compared */
    sl_ns last;   /* the last reading */
    uint64_t jumps;
};

/* The machine's wall clock, as it is; 0 before 1970. For those who share time
 * with others and so can't have an anchor of their own. */
sl_ns sl_clock_wall(void);

/* How long the machine is up, asleep or not. For those who must know what may
 * have happened elsewhere since they last looked. */
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

#endif
