/* prop.h -- a property: what must hold for random histories.
 *
 * A property is a row of the table in main.c. It has one or more cases, and a
 * case is a function that makes an episode from a seed and checks it step by
 * step. A run is a row of episodes. Episode k of a run with seed S is made from
 * the number S + k alone, so a failed one is replayed alone:
 *
 *     prop bucket --seed 1234 --steps 1
 *
 * (an episode always runs to its end). Seeds that once failed are kept in
 * test/prop/seeds and are tried first on every run.
 *
 * --steps N is the number of steps of a run. SL_PROP_STEPS in the environment
 * is the most, if the table has more: sanitizer builds ask for fewer.
 * SL_PROP_TIMES=10 multiplies the number in the table, for long runs. A replay
 * (--seed) tries no kept seeds and does not call finish().
 */
#ifndef SL_PROP_H
#define SL_PROP_H

#include "check.h"
#include "rng.h"

/* Runs the episode made from `seed` and adds its steps to *steps. Returns
 * false, or fails a CHECK(), if something disagrees; then it has printed what
 * and at which step. */
typedef bool prop_episode_f(uint64_t seed, uint64_t *steps);

struct prop_case {
    const char *what;
    prop_episode_f *episode;
    unsigned divisor; /* the case takes steps / divisor; 0: all of them */
};

struct property {
    const char *name; /* of the test prop-NAME and in seeds */
    uint64_t steps;   /* of each case, unless the caller asks for others */
    struct prop_case cases[4];
    bool (*open)(void); /* or NULL; false: the cases cannot run */

    /* Checks that need no seed, or look at what the cases have counted. They
     * come last. `steps` is what each case was asked for. Or NULL. */
    void (*finish)(uint64_t steps);
};

extern const struct property prop_anchor, prop_backoff, prop_bucket,
    prop_calendar, prop_combined, prop_credits, prop_fair, prop_fingerprint,
    prop_subject_cache, prop_fixed, prop_holds, prop_http1, prop_interval,
    prop_ip, prop_journal, prop_key, prop_leased, prop_leases, prop_penalty,
    prop_permits, prop_policy, prop_quota, prop_render, prop_repeats,
    prop_reserve, prop_route, prop_scale, prop_sketch, prop_sliding,
    prop_throttle, prop_ways;

#endif
