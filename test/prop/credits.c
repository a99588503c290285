/* credits.c -- credits that pay for spikes, against a plain count. The numbers
 * are those of the invariants in src/engine/parts.c.
 *
 * Windows are counted here as they are meant: so many in each. Every request is
 * explained first, which must say the same and take nothing.
 */
#include "asking.h"
#include "prop.h"

#define A     4
#define B     9
#define C     7
#define POOL  12
#define USERS 2

static const char policy[] =
    "sluice: 1\n"
    "limits:\n"
    "  a: { kind: fixed-window, per: user, rate: 4/10s, credits: pool }\n"
    "  b: { kind: fixed-window, per: org, rate: 9/10s }\n"
    "  c: { kind: fixed-window, per: [org, user], rate: 7/min,\n"
    "       credits: pool }\n"
    "  pool: { kind: quota, per: org, rate: 12/day }\n"
    "routes:\n"
    "  - { match: /all, limits: [a, b, c] }\n"
    "  - { match: /two, limits: [c, a] }\n"
    "default: []\n";

/* Used in the window of `at`. */
struct count {
    sl_ns window;
    uint64_t used;
};

struct model {
    struct count a[USERS], b, c[USERS], pool;
};

static uint64_t *in(struct count *count, sl_ns now, sl_ns period)
{
    if (count->window != now / period)
        *count = (struct count){.window = now / period};
    return &count->used;
}

/* Takes the request from the model. Returns the credits that pay, or -1 if it
 * is denied. */
static int64_t take(struct model *m, unsigned user, bool all, uint64_t cost,
                    sl_ns now)
{
    uint64_t *a = in(&m->a[user], now, 10 * SL_S);
    uint64_t *b = in(&m->b, now, 10 * SL_S);
    uint64_t *c = in(&m->c[user], now, SL_MIN);
    uint64_t *pool = in(&m->pool, now, SL_DAY);
    bool no_a = *a + cost > A, no_c = *c + cost > C;
    uint64_t pays = no_a || no_c ? cost : 0; /* (1) (3) */

    if (cost == 0)
        return 0;
    if ((all && *b + cost > B) || *pool + pays > POOL) /* (2) (4) */
        return -1;
    *a += no_a ? 0 : cost;
    *b += all ? cost : 0;
    *c += no_c ? 0 : cost;
    *pool += pays;
    return (int64_t)pays;
}

static int64_t paid(const struct sl_decision *d)
{
    int64_t pays = 0;

    if (!d->allowed)
        return -1;
    for (unsigned i = 0; i < d->shown_count; i++)
        if (d->shown[i].pays_for)
            pays = (int64_t)d->shown[i].cost;
    return pays;
}

/* What is left of a limit after an answer. */
static bool is_left(const struct sl_decision *d, const char *limit,
                    uint64_t left)
{
    for (unsigned i = 0; i < d->shown_count; i++)
        if (!d->shown[i].skipped &&
            sl_str_eq(d->shown[i].rule->name, sl_str_c(limit)))
            return d->shown[i].answer.remaining == left;
    return true;
}

static bool agrees(const struct sl_decision *d, struct model *m, unsigned user,
                   sl_ns now)
{
    return is_left(d, "a", A - *in(&m->a[user], now, 10 * SL_S)) &&
           is_left(d, "b", B - *in(&m->b, now, 10 * SL_S)) &&
           is_left(d, "c", C - *in(&m->c[user], now, SL_MIN)) &&
           is_left(d, "pool", POOL - *in(&m->pool, now, SL_DAY));
}

static bool episode(uint64_t seed, uint64_t *steps)
{
    static const char *const users[USERS] = {"ann", "bob"};
    static struct rig rig;
    struct model m = {.b = {0}};
    struct rng rng = {seed};
    bool good = true;

    rig_open(&rig, policy);
    for (unsigned i = 0; i < 60 && good; i++, ++*steps) {
        unsigned user = (unsigned)rng_below(&rng, USERS);
        bool all = rng_below(&rng, 2);
        uint64_t cost = rng_below(&rng, 7);
        struct sl_request request =
            GET("/all", ORG("acme"), .has_cost = true, .cost = cost);
        int64_t want, told;

        rig.now += (sl_ns)rng_log(&rng, 40) * SL_S;
        request.now = rig.now;
        request.user = sl_str_c(users[user]);
        request.path = all ? SL_STR("/all") : SL_STR("/two");
        CHECK_EQ(rig_decide(&rig, &request, 1, NULL, false), 0);
        told = paid(&rig.d);
        want = take(&m, user, all, cost, rig.now);
        CHECK_EQ(rig_decide(&rig, &request, 1, NULL, true), 0);
        good = CHECK_EQ(told, want) && CHECK_EQ(paid(&rig.d), want) &&
               CHECK(agrees(&rig.d, &m, user, rig.now));
    }
    rig_close(&rig);
    return good;
}

const struct property prop_credits = {
    .name = "credits",
    .steps = 20000,
    .cases = {{"credits (1) (2) (3) (4) rate first, then credits", episode, 0}},
};
