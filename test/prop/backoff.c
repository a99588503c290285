/* backoff.c -- random calls of random servers keep the promises of
 * sluice_backoff.h.
 *
 *   (1) a wait of our own lies between the step and twice the step, where the
 *       step is base * 2^n, and half the cap at most: never above the cap
 *   (2) what the server says is waited for in full, and at most a step longer
 *   (3) a call is made at most `attempts` times
 *   (4) a server that asks for more than the longest wait is given up, and no
 *       other is before the last attempt
 *   (5) the larger the chance, the longer the wait
 */
#include "sluice_backoff.h"

#include "base/base.h"
#include "prop.h"

__extension__ typedef __int128 wide;

/* What a server says, and how long that is: -1 is nothing, or behind us. */
struct said {
    struct sluice_refusal refusal;
    char text[40];
    wide span;
};

static void speak(struct rng *rng, sl_ns now, struct said *said)
{
    uint64_t n = rng_log(rng, UINT64_C(2000000));
    int64_t at = now / SL_S + (int64_t)n;

    *said = (struct said){
        {rng_once_in(rng, 2) ? 429 : 503, NULL, NULL},
        "", -1
    };
    switch (rng_below(rng, 5)) {
    case 0:
        snprintf(said->text, sizeof(said->text), "%" PRIu64, n);
        said->refusal.retry_after = said->text;
        said->span = (wide)n * SL_S;
        break;
    case 1:
        snprintf(said->text, sizeof(said->text), "%" PRId64, at);
        said->refusal.reset = said->text;
        said->span = (wide)at * SL_S - now;
        break;
    case 2:
        snprintf(said->text, sizeof(said->text), "%" PRIu64, n);
        said->refusal.reset = said->text;
        said->refusal.retry_after = "in a while";
        said->span = (wide)n * SL_S;
        break;
    case 3:
        said->refusal.retry_after = "Sun, 06 Nov 1994 08:49:37 GMT";
        break;
    default:
        break;
    }
    if (said->span <= 0)
        said->span = -1;
}

static wide step_of(const struct sluice_backoff *b)
{
    wide step = b->base_ns ? b->base_ns : 500 * SL_MS;
    wide most = (b->cap_ns ? b->cap_ns : 30 * SL_S) / 2;

    for (unsigned i = 0; i < b->refused && step < most; i++)
        step *= 2;
    return step < most ? step : most;
}

static bool in_bounds(const struct sluice_backoff *b, const struct said *said,
                      int64_t wait)
{
    wide step = step_of(b), least = said->span < 0 ? step : said->span;

    if (wait < least || wait > least + step) /* (1) (2) */
        return false;
    return said->span >= 0 || wait <= (b->cap_ns ? b->cap_ns : 30 * SL_S);
}

/* One refusal. Returns whether there is another attempt; *good is whether all
 * that was answered is right. */
static bool refuse(struct rng *rng, struct sluice_backoff *b, sl_ns now,
                   bool *good)
{
    struct sluice_backoff before = *b, again = *b;
    uint64_t chance = rng_next(rng), less = rng_below(rng, chance);
    unsigned most = b->attempts ? b->attempts : 6;
    wide longest = b->longest_ns ? b->longest_ns : 15 * SL_MIN;
    int64_t wait, shorter;
    struct said said;
    int err;

    speak(rng, now, &said);
    err = sluice_backoff_next(b, &said.refusal, now, chance, &wait);
    if (err) { /* (3) (4) */
        *good = err == SLUICE_EFULL && b->refused == before.refused &&
                (before.refused + 1 >= most || said.span > longest);
        return false;
    }
    *good =
        b->refused == before.refused + 1 && b->refused < most &&
        said.span <= longest && in_bounds(&before, &said, wait) &&
        sluice_backoff_next(&again, &said.refusal, now, less, &shorter) == 0 &&
        shorter <= wait; /* (5) */
    return *good;
}

static bool episode(uint64_t seed, uint64_t *steps)
{
    struct rng rng = {seed};
    sl_ns now = (sl_ns)rng_between(&rng, 1000000000, 4000000000) * SL_S +
                (sl_ns)rng_below(&rng, (uint64_t)SL_S);
    struct sluice_backoff b = {0};
    bool good = true;

    if (rng_once_in(&rng, 2)) {
        b.attempts = (unsigned)rng_below(&rng, 80);
        b.base_ns = (int64_t)rng_log(&rng, INT64_MAX);
        b.cap_ns = (int64_t)rng_log(&rng, INT64_MAX);
        b.longest_ns = (int64_t)rng_log(&rng, (uint64_t)INT64_MAX / 4);
    }
    while (refuse(&rng, &b, now, &good))
        ++*steps;
    ++*steps;
    if (!good)
        printf("# attempt %u of %u, base %" PRId64 " cap %" PRId64 "\n",
               b.refused, b.attempts, b.base_ns, b.cap_ns);
    return good;
}

const struct property prop_backoff = {
    .name = "backoff",
    .steps = 200000,
    .cases = {{"every wait is inside its bounds", episode}},
};
