/* sketch.c -- random counting against exact counts. The numbers are those of
 * src/server/top_keys.h.
 *
 *   (1)  count - error <= true <= count, for what is there
 *   (2)  true <= floor <= count, for what is not there and what is
 *   (3)  floor * (items / 4) <= all that was added
 *   (4)  there are at most so many items
 *
 * An episode adds to several sketches, as threads do, merges them in some
 * order, and goes on adding.
 */
#include "server/top_keys.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "prop.h"

#define KEYS     20000
#define SKETCHES 3
#define STEPS    20000 /* of an episode */

struct world {
    struct rng rng;
    struct sl_sketch sketches[SKETCHES];
    uint64_t true_count[SKETCHES][KEYS][SL_MEASURES];
    uint16_t places[4];
    unsigned keys; /* that are in use */
    unsigned style;
};

static struct world w;
static uint64_t rooms_made;

/* No order, and no two alike. */
static uint64_t print_of(unsigned key)
{
    struct rng rng = {key};

    return rng_next(&rng);
}

/* All have alike, few have most of it, or some hundred do; some cost much. */
static unsigned choose_key(void)
{
    switch (w.style % 4) {
    case 0:
        return (unsigned)rng_below(&w.rng, w.keys);
    case 1:
        return (unsigned)rng_log(&w.rng, w.keys - 1);
    case 2:
        return (unsigned)rng_below(
            &w.rng, rng_once_in(&w.rng, 3) || w.keys < 300 ? w.keys : 300);
    default:
        return rng_once_in(&w.rng, 2) ? (unsigned)rng_below(&w.rng, 10)
                                      : (unsigned)rng_below(&w.rng, w.keys);
    }
}

static void add(unsigned which)
{
    unsigned key = choose_key();
    char text[16];
    struct sl_counted what = {.fingerprint = print_of(key), .place = 1};

    what.key =
        (struct sl_str){text, (size_t)snprintf(text, sizeof(text), "k%u", key)};
    if (rng_once_in(&w.rng, 3)) {
        what.add[SL_DENIED] = 1;
    } else {
        what.add[SL_ALLOWED] = 1;
        what.add[SL_COST] = 1 + rng_log(&w.rng, w.style % 2 ? 1000000 : 3);
    }
    sl_sketch_add(&w.sketches[which], &what);
    for (unsigned m = 0; m < SL_MEASURES; m++)
        w.true_count[which][key][m] += what.add[m];
}

static const char *number_broken(const struct sl_sketch *s,
                                 const struct sl_sketch_item *item, uint64_t is,
                                 unsigned m)
{
    if (is > (item ? item->count[m] : s->floor[m]))
        return item ? "(1) true <= count" : "(2) true <= floor";
    if (item && item->count[m] - item->error[m] > is)
        return "(1) count - error <= true";
    if (item &&
        (item->count[m] < s->floor[m] || item->error[m] > item->count[m]))
        return "(2) floor <= count";
    return NULL;
}

static const char *sketch_broken(unsigned which)
{
    const struct sl_sketch *s = &w.sketches[which];
    const char *broken = NULL;
    uint64_t all = 0;

    for (unsigned m = 0; m < SL_MEASURES && !broken; m++, all = 0) {
        for (unsigned key = 0; key < w.keys && !broken; key++) {
            uint64_t is = w.true_count[which][key][m];

            all += is;
            broken = number_broken(s, sl_sketch_find(s, print_of(key)), is, m);
        }
        if (!broken && s->total[m] != all)
            broken = "the total";
        if (!broken && s->floor[m] > all / (SL_SKETCH_ITEMS / 4))
            broken = "(3) floor";
    }
    return s->count > SL_SKETCH_ITEMS ? "(4) items" : broken;
}

/* The names are those of the key. */
static const char *names_broken(unsigned which)
{
    const struct sl_sketch *s = &w.sketches[which];
    char text[16];

    for (unsigned i = 0; i < s->count; i++) {
        const struct sl_sketch_item *item = &s->items[i];
        unsigned key;

        snprintf(text, sizeof(text), "%.*s", (int)item->key_len, item->key);
        key = (unsigned)strtoul(text + 1, NULL, 10);
        if (text[0] != 'k' || print_of(key) != item->fingerprint || item->cut)
            return "names";
    }
    return NULL;
}

static void merge(unsigned into, unsigned from)
{
    sl_sketch_merge(&w.sketches[into], &w.sketches[from], w.places);
    sl_sketch_init(&w.sketches[from]);
    for (unsigned key = 0; key < w.keys; key++)
        for (unsigned m = 0; m < SL_MEASURES; m++) {
            w.true_count[into][key][m] += w.true_count[from][key][m];
            w.true_count[from][key][m] = 0;
        }
}

static bool episode(uint64_t seed, uint64_t *steps)
{
    static const unsigned sizes[] = {100, 2047, 2048, 2049, 3000, KEYS};
    const char *broken = NULL;
    bool merged;

    memset(w.true_count, 0, sizeof(w.true_count));
    w.rng.state = seed;
    w.places[1] = 1;
    w.keys = sizes[rng_below(&w.rng, SL_LEN(sizes))];
    w.style = (unsigned)rng_below(&w.rng, 8);
    for (unsigned i = 0; i < SKETCHES; i++)
        sl_sketch_init(&w.sketches[i]);
    for (unsigned i = 0; i < STEPS && !broken; i++, ++*steps) {
        add((unsigned)rng_below(&w.rng, SKETCHES));
        merged = rng_once_in(&w.rng, STEPS / 4);
        if (merged)
            merge((unsigned)rng_below(&w.rng, 2), 2);
        if (!merged && !rng_once_in(&w.rng, STEPS / 6) && i < STEPS - 1)
            continue;
        for (unsigned k = 0; k < SKETCHES && !broken; k++) {
            broken = sketch_broken(k);
            broken = broken ? broken : names_broken(k);
            rooms_made += w.sketches[k].floor[SL_ALLOWED] > 0;
        }
    }
    if (broken)
        printf("# sketch %s: %u keys, style %u\n", broken, w.keys, w.style);
    return !broken;
}

/* A key that is refused often is found, whatever floods the rest. */
static void check_flood(void)
{
    const struct sl_sketch_item *item;
    struct sl_counted what = {.key = SL_STR("k")};

    CASE("a million keys that pass do not wash out one that is refused");
    sl_sketch_init(&w.sketches[0]);
    for (unsigned i = 0; i < 1000000; i++) {
        memset(what.add, 0, sizeof(what.add));
        what.fingerprint = print_of(i % 100 == 7 ? 7 : i);
        what.add[i % 100 == 7 ? SL_DENIED : SL_ALLOWED] = 1;
        sl_sketch_add(&w.sketches[0], &what);
    }
    item = sl_sketch_find(&w.sketches[0], print_of(7));
    CHECK(item && item->count[SL_DENIED] == 10000);
    CHECK(item && item->error[SL_DENIED] == 0);
    CHECK(w.sketches[0].floor[SL_ALLOWED] <= 1000000 / 512);

    CASE("long keys are cut, and say so");
    what.fingerprint = 1;
    what.key = (struct sl_str){"0123456789012345678901234567890123456789"
                               "0123456789012345678901234567890123456789x",
                               SL_SKETCH_TEXT};
    sl_sketch_add(&w.sketches[1], &what);
    CHECK(!sl_sketch_find(&w.sketches[1], 1)->cut);
    what.fingerprint = 2;
    what.key.len++;
    sl_sketch_add(&w.sketches[1], &what);
    CHECK(sl_sketch_find(&w.sketches[1], 2)->cut);
    CHECK_EQ(sl_sketch_find(&w.sketches[1], 2)->key_len, SL_SKETCH_TEXT);
}

static void finish(uint64_t steps)
{
    CASE("keys did give way, so that the bounds were tried");
    printf("# %" PRIu64 " times\n", rooms_made);
    CHECK(rooms_made > 0 || steps < 100000);
    check_flood();
}

const struct property prop_sketch = {
    .name = "sketch",
    .steps = 1500000,
    .cases = {{"sketch (1) to (4) counts lie within their bounds", episode}},
    .finish = finish,
};
