/* holds.c -- what a hold costs: hold and settle, against two plain takes of the
 * same limits, and a permit that is refused among many that are held. Keys are
 * many and the clock moves, as in life.
 */
#include <string.h>

#include "pair.h"
#include "table/hold.h"
#include "turns.h"

#define MIB    (UINT64_C(1) << 20)
#define LIMITS 3
#define KEYS   1000

struct field {
    struct sl_table table;
    struct sl_limit_binding limits[LIMITS];
    unsigned parts;
    uint64_t at;
    sl_ns now;
};

static void must(int err, const struct sl_diag *diag)
{
    if (err) {
        fprintf(stderr, "bench: %s\n", diag->sentence);
        exit(1);
    }
}

static void open_field(struct field *f, unsigned parts)
{
    static const char *const names[] = {"one", "two", "three"};
    static const enum sl_kind kinds[] = {SL_BUCKET, SL_QUOTA, SL_PERMITS};
    static const char *const rates[] = {"1000M/min", "1000M/day", "1000M"};
    struct sl_diag diag = {0};
    struct sl_region region;
    struct sl_rate rate;

    must(sl_region_open_heap(&region, 64 * MIB, &diag), &diag);
    sl_table_init(&f->table, &region, SL_FULL_ALLOW);
    for (unsigned i = 0; i < LIMITS; i++) {
        struct sl_limit_binding *l = &f->limits[i];

        *l = (struct sl_limit_binding){.name = names[i], .share = 250};
        must(sl_parse_rate(sl_str_c(rates[i]), &rate, &diag), &diag);
        must(sl_limit_init(&l->strictest, kinds[i], &rate, NULL, &diag), &diag);
        must(sl_table_add_limit(&f->table, l), &diag);
    }
    f->parts = parts;
    f->now = INT64_C(1790000000) * SL_S;
}

/* A set of the next key. */
static void make_set(struct field *f, struct sl_part *parts, uint64_t *key)
{
    *key = f->at++ % KEYS;
    f->now += SL_US;
    for (unsigned i = 0; i < f->parts; i++)
        parts[i] = (struct sl_part){
            .binding = &f->limits[i],
            .limit = &f->limits[i].strictest,
            .key = {(const char *)key, sizeof(*key)},
            .cost = 1
        };
}

static uint64_t take_twice(void *ctx, uint64_t rounds)
{
    struct field *f = ctx;
    struct sl_part parts[LIMITS];
    uint64_t key, sum = 0;

    for (uint64_t i = 0; i < 2 * rounds; i++) {
        make_set(f, parts, &key);
        sum += sl_table_decide(&f->table, parts, f->parts, f->now, false);
    }
    return sum;
}

static const struct sl_limit *as_held(void *ctx, uint32_t id, uint64_t held,
                                      uint64_t *cost)
{
    const struct field *f = ctx;

    *cost = held;
    for (unsigned i = 0; i < LIMITS; i++)
        if (f->limits[i].id == id)
            return &f->limits[i].strictest;
    return NULL;
}

static uint64_t hold_and_settle(void *ctx, uint64_t rounds)
{
    struct field *f = ctx;
    struct sl_part parts[LIMITS];
    struct sl_hold_result deed;
    uint64_t key, sum = 0;

    deed.op = SL_HOLD_SETTLE;
    deed.release = false;
    deed.numbers = as_held;
    deed.ctx = f;
    for (uint64_t i = 0; i < rounds; i++) {
        make_set(f, parts, &key);
        deed.id = (struct sl_hold_id){
            {(f->at + 1) * UINT64_C(0x9e3779b97f4a7c15),
             (f->at + 1) * UINT64_C(0xbf58476d1ce4e5b9)}
        };
        sum += sl_table_hold(&f->table, parts, f->parts, deed.id, SL_MIN,
                             f->now, false);
        sum += sl_table_end(&f->table, &deed, f->now, false);
        if (deed.state != SL_HOLD_HELD)
            exit(1);
    }
    return sum;
}

/* ---- a permit that is refused ---- */

#define HELD  2000 /* all in all */
#define AGAIN 100  /* of them come again and again */

/* Of limits that one take uses up: a bucket, and permits. */
static void open_scarce(struct field *f)
{
    static const enum sl_kind kinds[] = {SL_BUCKET, SL_PERMITS};
    static const char *const rates[] = {"1/hour", "1"};
    struct sl_diag diag = {0};
    struct sl_region region;
    struct sl_rate rate;

    must(sl_region_open_heap(&region, 64 * MIB, &diag), &diag);
    sl_table_init(&f->table, &region, SL_FULL_ALLOW);
    for (unsigned i = 0; i < SL_LEN(kinds); i++) {
        struct sl_limit_binding *l = &f->limits[i];

        *l = (struct sl_limit_binding){.name = rates[i], .share = 250};
        must(sl_parse_rate(sl_str_c(rates[i]), &rate, &diag), &diag);
        must(sl_limit_init(&l->strictest, kinds[i], &rate, NULL, &diag), &diag);
        must(sl_table_add_limit(&f->table, l), &diag);
    }
    f->now = INT64_C(1790000000) * SL_S;
}

static struct sl_hold_id some_id(uint64_t n)
{
    return (struct sl_hold_id){
        {(n + 1) * UINT64_C(0x9e3779b97f4a7c15),
         (n + 1) * UINT64_C(0xbf58476d1ce4e5b9)}
    };
}

/* Take one of limit `i` for the next of the keys, or for `key` alone. */
static enum sl_set_result take_scarce(struct field *f, unsigned i, uint64_t key)
{
    struct sl_part part = {
        .binding = &f->limits[i],
        .limit = &f->limits[i].strictest,
        .key = {(const char *)&key, sizeof(key)},
        .cost = 1
    };
    enum sl_set_result verdict;

    f->now += SL_US;
    verdict = i == 0 ? sl_table_decide(&f->table, &part, 1, f->now, false)
                     : sl_table_hold(&f->table, &part, 1, some_id(f->at++),
                                     SL_HOUR, f->now, false);
    if (verdict == SL_SET_DENY && part.answer.retry_in == SL_NS_NONE)
        exit(1); /* it must say when */
    return verdict;
}

static uint64_t refuse(struct field *f, unsigned i, uint64_t keys,
                       uint64_t rounds)
{
    uint64_t refused = 0;

    for (uint64_t n = 0; n < rounds; n++)
        refused += take_scarce(f, i, n % keys) == SL_SET_DENY;
    if (refused != rounds)
        exit(1);
    return refused;
}

static uint64_t refuse_plain(void *ctx, uint64_t rounds)
{
    return refuse(ctx, 0, AGAIN, rounds);
}

static uint64_t refuse_permit(void *ctx, uint64_t rounds)
{
    return refuse(ctx, 1, AGAIN, rounds);
}

/* More than are remembered. */
static uint64_t refuse_at_first(void *ctx, uint64_t rounds)
{
    return refuse(ctx, 1, HELD, rounds);
}

static void bench_refusals(void)
{
    static struct field f;

    open_scarce(&f);
    for (uint64_t key = 0; key < HELD; key++) {
        (void)take_scarce(&f, 0, key);
        (void)take_scarce(&f, 1, key);
    }
    print_row("holds: a permit refused",
              measure(refuse_plain, &f, refuse_permit, &f), 5,
              "to those who come again, 2,000 are held; against a bucket that "
              "refuses");
    print_row("holds: a permit refused, first",
              measure(refuse_plain, &f, refuse_at_first, &f), 200,
              "not remembered, 2,000 are held; against a bucket that refuses");
    sl_table_done(&f.table);
}

int main(void)
{
    static struct field f;

    open_field(&f, 3);
    print_row("holds: hold and settle, three limits",
              measure(take_twice, &f, hold_and_settle, &f), 2.5,
              "against two takes of the same set");
    f.parts = 1;
    print_row("holds: hold and settle, one limit",
              measure(take_twice, &f, hold_and_settle, &f), 2.5,
              "against two takes of one key, which need no intent");
    sl_table_done(&f.table);
    bench_refusals();
    bench_turns();
    return 0;
}
