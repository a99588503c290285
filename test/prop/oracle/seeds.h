/* seeds.h -- how a property test is started, repeated and remembered.
 *
 * A run is a row of episodes. Episode k of a run with seed S is made from the
 * number S + k alone, so that one which fails is replayed alone:
 *
 *     prop-bucket --seed 1234 --steps 1
 *
 * (an episode always runs to its end). Seeds that once failed are kept in
 * test/prop/seeds/NAME.seeds, one a line, and are tried first on every run;
 * what follows the number is a note.
 *
 * --steps N, or SL_PROP_STEPS in the environment, says how many steps a run
 * takes; sanitizer builds ask for fewer. SL_PROP_TIMES=10 asks for ten times as
 * many as a test takes by itself, which long runs do. With --seed, only the
 * random episodes are run.
 */
#ifndef SL_PROP_SEEDS_H
#define SL_PROP_SEEDS_H

#include <stdbool.h>
#include <stdint.h>

/* Run the episode made from `seed`. Count its steps up in *steps. False if
 * something disagreed; then it has said what and at which step. */
typedef bool seeds_episode_f(uint64_t seed, uint64_t *steps);

struct seeds {
    const char *name; /* of the file in test/prop/seeds and of the program */
    uint64_t seed;
    uint64_t steps;
    bool only; /* --seed was given: a replay */
};

/* Read the arguments. `steps` is the default. Ends the program with status 2
 * on an argument that is not known. */
struct seeds seeds_start(int argc, char **argv, const char *name,
                         uint64_t steps);

/* Kept seeds first (unless a seed was given), then random episodes until the
 * steps are spent. True if all agreed. Gives up after a few that did not. */
bool seeds_run(const struct seeds *run, seeds_episode_f *episode);

#endif
