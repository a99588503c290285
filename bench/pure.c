/* pure.c -- what one pure decision of each kind costs.
 *
 * The reference is the arithmetic that a bucket cannot do without: one wide
 * multiply and one divide, on the same times and numbers, and nothing else.
 */
#include <inttypes.h>

#include "base/arith.h"
#include "bench.h"
#include "core/algorithm.h"
#include "pair.h"

#define TIMES 4096 /* a power of two; 32 KiB of instants stay in cache */

struct subject {
    struct sl_limit limit;
    struct sl_cell cell;
    sl_ns times[TIMES];
};

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static uint64_t bare(void *ctx, uint64_t rounds)
{
    const struct subject *s = ctx;
    const struct sl_limit *l = &s->limit;
    uint64_t sum = 0;

    for (uint64_t i = 0; i < rounds; i++) {
        uint64_t elapsed = (uint64_t)s->times[i % TIMES] - (sum & 1023);

        sum += sl_muldiv_down(elapsed, l->count | 1, l->grain | 1);
    }
    return sum;
}

/* Each take depends on the cell that the one before it left. Time wraps with
 * the array, and the cell starts afresh there. */
static uint64_t takes(void *ctx, uint64_t rounds)
{
    struct subject *s = ctx;
    uint64_t sum = 0;

    for (uint64_t i = 0; i < rounds; i++) {
        struct sl_take_result t;

        if (i % TIMES == 0)
            s->cell = (struct sl_cell){
                {0, 0}
            };
        t = sl_take(&s->limit, s->cell, 1, s->times[i % TIMES]);
        s->cell = t.next;
        sum += t.answer.remaining + (uint64_t)t.answer.retry_in +
               (uint64_t)t.answer.reset_in;
    }
    return sum;
}

static int prepare(struct subject *s, enum sl_kind kind, const char *text,
                   const struct sl_zone *zone)
{
    struct sl_limit_options options = {.zone = zone};
    struct sl_diag diag = {0};
    struct sl_rate rate;
    uint64_t state = 88172645463325252;
    sl_ns now = INT64_C(1790000000) * SL_S;

    if (sl_parse_rate(sl_str_c(text), &rate, &diag) ||
        sl_limit_init(&s->limit, kind, &rate, &options, &diag)) {
        fprintf(stderr, "bench: %s: %s\n", text, diag.sentence);
        return 1;
    }
    for (size_t i = 0; i < TIMES; i++) {
        now += (sl_ns)(next_random(&state) % (2 * SL_MS));
        s->times[i] = now;
    }
    return 0;
}

int bench_pure(void)
{
    /* A zone with two shifts a year, as most have. */
    static struct sl_shift shifts[260];
    static const struct sl_zone zone = {shifts, SL_LEN(shifts), 3600};
    static const struct {
        const char *name;
        enum sl_kind kind;
        const char *rate;
        bool zoned;
        double budget;
    } rows[] = {
        {"take-token-bucket",   SL_BUCKET,   "1000/s burst 2000", false, 4.0 },
        {"take-interval",       SL_INTERVAL, "1000/s burst 2000", false, 6.0 },
        {"take-leaky-bucket",   SL_LEAKY,    "1000/s queue 100",  false, 5.0 },
        {"take-fixed-window",   SL_FIXED,    "1000/s",            false, 3.0 },
        {"take-sliding-window", SL_SLIDING,  "1000/s",            false, 5.0 },
        {"take-quota-day-utc",  SL_QUOTA,    "1M/day",            false, 6.0 },
        {"take-quota-month",    SL_QUOTA,    "1M/month",          true,  20.0},
        {"take-concurrency",    SL_PERMITS,  "1000",              false, 2.0 },
    };
    static struct subject reference, subject;
    int err = prepare(&reference, SL_BUCKET, "1000/s burst 2000", NULL);

    for (size_t i = 0; i < SL_LEN(shifts); i++)
        shifts[i] = (struct sl_shift){
            .at = (int64_t)i * 15778800,
            .offset = i % 2 ? 3600 : 7200,
        };
    for (size_t i = 0; !err && i < SL_LEN(rows); i++) {
        fprintf(stderr, "bench: %s\n", rows[i].name);
        err = prepare(&subject, rows[i].kind, rows[i].rate,
                      rows[i].zoned ? &zone : NULL);
        if (!err)
            print_row(rows[i].name, measure(bare, &reference, takes, &subject),
                      rows[i].budget, "against a bare multiply and divide");
    }
    return err;
}
