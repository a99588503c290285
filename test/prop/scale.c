/* scale.c -- a unit with a scale changes numbers, not decisions.
 *
 * Two engines get the same history: one has a limit with a scale, the other the
 * same limit with its numbers multiplied by hand. Costs, reports and refunds
 * are in the counted unit for both; rates of overrides are in the unit of the
 * policy.
 *
 *   (1)  both decide alike: outcome, time until a retry, and what is left
 *   (2)  what is shown is in whole units: the limit exactly, what is left
 *        rounded down, what was used rounded up
 */
#include <inttypes.h>
#include <stdio.h>

#include "asking.h"
#include "engine/render.h"
#include "prop.h"

#define HISTORY 60
#define USERS   3

struct history {
    struct rng rng;
    struct rig scaled, plain;
    uint64_t scale, count, burst;
    const char *kind, *period, *refill;
};

static void write_rate(const struct history *h, uint64_t count, uint64_t burst,
                       uint64_t scale, char out[80])
{
    int len = snprintf(out, 80, "%" PRIu64 "%s", count * scale, h->period);

    if (strcmp(h->kind, "token-bucket") == 0)
        snprintf(out + len, 80 - (size_t)len, " burst %" PRIu64, burst * scale);
}

static void open_rig(const struct history *h, bool scaled, struct rig *rig)
{
    char text[512], rate[80], unit[80] = "seconds";

    write_rate(h, h->count, h->burst, scaled ? 1 : h->scale, rate);
    if (scaled)
        snprintf(unit, sizeof(unit),
                 "{ name: minutes, of: %" PRIu64 ", reports: seconds }",
                 h->scale);
    snprintf(text, sizeof(text),
             "sluice: 1\n"
             "limits:\n"
             "  a: { kind: %s, per: user, rate: %s, unit: %s%s }\n"
             "default: [a]\n",
             h->kind, rate, unit, h->refill);
    rig_open(rig, text);
}

static void open_history(struct history *h, uint64_t seed)
{
    static const struct {
        const char *kind, *period, *refill;
    } kinds[] = {
        {"quota",          "/month", ""                  },
        {"quota",          "/5h",    ""                  },
        {"level",          "",       ""                  },
        {"token-bucket",   "/h",     ""                  },
        {"token-bucket",   "/h",     ", refill: interval"},
        {"fixed-window",   "/h",     ""                  },
        {"sliding-window", "/h",     ""                  },
    };
    static const uint64_t scales[] = {2, 3, 60, 1000, 3600, 65536};
    size_t i;

    *h = (struct history){.rng = {seed}};
    i = rng_below(&h->rng, SL_LEN(kinds));
    h->kind = kinds[i].kind;
    h->period = kinds[i].period;
    h->refill = kinds[i].refill;
    h->scale = scales[rng_below(&h->rng, SL_LEN(scales))];
    h->count = 1 + rng_log(&h->rng, 200);
    h->burst = 1 + rng_log(&h->rng, 300);
    open_rig(h, true, &h->scaled);
    open_rig(h, false, &h->plain);
}

/* Asks one engine; false if it fails. */
static bool ask(struct rig *rig, struct sl_request request, const char *rate,
                sl_ns now)
{
    struct sl_override override = {.limit = SL_STR("a"),
                                   .rate = sl_str_c(rate)};

    rig->now = request.now = now;
    request.overrides = &override;
    request.override_count = rate[0] ? 1 : 0;
    return rig_decide(rig, &request, 1, NULL, true) == 0;
}

static bool is_alike(const struct history *h)
{
    const struct sl_limit_view *a = &h->scaled.d.shown[0];
    const struct sl_limit_view *b = &h->plain.d.shown[0];

    return h->scaled.d.allowed == h->plain.d.allowed &&
           h->scaled.d.never == h->plain.d.never &&
           h->scaled.d.retry_in == h->plain.d.retry_in &&
           a->answer.limit == b->answer.limit &&
           a->answer.capacity == b->answer.capacity &&
           a->answer.remaining == b->answer.remaining &&
           a->answer.reset_in == b->answer.reset_in &&
           a->overage == b->overage && a->used == b->used;
}

static bool is_whole(const struct history *h)
{
    const struct sl_limit_view *a = &h->scaled.d.shown[0];
    uint64_t left = a->answer.remaining, used = a->answer.capacity - left;
    uint64_t shown = sl_limit_view_remaining(a);
    uint64_t up = sl_rule_up(a->rule, used);

    return sl_limit_view_count(a) * h->scale == a->answer.limit &&
           sl_limit_view_capacity(a) * h->scale == a->answer.capacity &&
           shown * h->scale <= left && left < (shown + 1) * h->scale &&
           up * h->scale >= used && (up == 0 || (up - 1) * h->scale < used) &&
           sl_limit_view_capacity(a) - shown == up;
}

static bool step(struct history *h, sl_ns now)
{
    static const char *const users[USERS] = {"ann", "ben", "cat"};
    uint64_t all = h->count * h->scale;
    struct sl_request request = {
        .method = SL_STR("GET"),
        .path = SL_STR("/"),
        .user = sl_str_c(users[rng_below(&h->rng, USERS)]),
        .has_cost = true,
        .cost = rng_log(&h->rng, all + all / 8),
    };
    uint64_t count = 1 + rng_log(&h->rng, 300);
    char scaled[80] = "", plain[80] = "";

    if (rng_once_in(&h->rng, 6))
        request.give_back = true;
    else if (rng_once_in(&h->rng, 6))
        request.charge = true;
    else if (rng_once_in(&h->rng, 6)) {
        write_rate(h, count, h->burst, 1, scaled);
        write_rate(h, count, h->burst, h->scale, plain);
    }
    if (!ask(&h->scaled, request, scaled, now) ||
        !ask(&h->plain, request, plain, now))
        return false;
    if (!is_alike(h))
        printf("# (1) differs\n");
    else if (!is_whole(h))
        printf("# (2) does not hold\n");
    else
        return true;
    return false;
}

static bool histories(uint64_t seed, uint64_t *steps)
{
    struct history *h = malloc(sizeof(*h));
    sl_ns now = 20000 * SL_DAY;
    bool good = h != NULL;

    if (!good)
        return false;
    open_history(h, seed);
    for (unsigned i = 0; i < HISTORY && good; i++, ++*steps) {
        now += (sl_ns)rng_log(&h->rng, (uint64_t)(2 * SL_HOUR));
        good = step(h, now);
        if (!good)
            printf("# step %u: %s %" PRIu64 "%s of %" PRIu64 "\n", i, h->kind,
                   h->count, h->period, h->scale);
    }
    rig_close(&h->scaled);
    rig_close(&h->plain);
    free(h);
    return good;
}

const struct property prop_scale = {
    .name = "scale",
    .steps = 24000,
    .cases = {{"scale (1) (2) as with numbers multiplied by hand", histories}},
};
