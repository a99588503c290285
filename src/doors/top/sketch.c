/* sketch.c -- the largest of very many counts.
 *
 * Making room. For each of the three numbers the floor rises to what the
 * ITEMS / 4 largest have at least; who is above a floor stays. So fewer than
 * three quarters stay, and (3) holds: let the excess of an item be count -
 * floor. Adding w raises the sum of all excesses by w; raising the floor by d
 * takes d from at least ITEMS / 4 of them, and no excess is ever negative.
 * Hence floor * ITEMS / 4 never passes what was added.
 *
 * It is O(ITEMS), some ten microseconds, and at least ITEMS / 4 new keys come
 * between two of them.
 */
#include "doors/top/sketch.h"

#include <string.h>

#define RANK (SL_SKETCH_ITEMS / 4)
#define MASK (2 * SL_SKETCH_ITEMS - 1)

void sl_sketch_init(struct sl_sketch *sketch)
{
    memset(sketch->floor, 0, sizeof(sketch->floor));
    memset(sketch->total, 0, sizeof(sketch->total));
    memset(sketch->index, 0, sizeof(sketch->index));
    sketch->count = 0;
}

/* ---- finding ---- */

/* Where the print is in the index, or would be. Prints are keyed hashes, so
 * that nobody can choose keys that share a place. */
static unsigned find_place(const struct sl_sketch *sketch, uint64_t print)
{
    unsigned i = (unsigned)(print >> 32) & MASK;

    while (sketch->index[i] &&
           sketch->items[sketch->index[i] - 1].print != print)
        i = (i + 1) & MASK;
    return i;
}

const struct sl_sketch_item *sl_sketch_find(const struct sl_sketch *sketch,
                                            uint64_t print)
{
    unsigned at = sketch->index[find_place(sketch, print)];

    return at ? &sketch->items[at - 1] : NULL;
}

/* ---- making room ---- */

/* Keep those of `values` whose `bit` is as wanted; how many. */
static unsigned keep_bit(uint64_t *values, unsigned count, uint64_t bit,
                         bool set)
{
    unsigned kept = 0;

    for (unsigned i = 0; i < count; i++) {
        values[kept] = values[i];
        kept += ((values[i] & bit) != 0) == set;
    }
    return kept;
}

/* The largest bit in which some of the values differ; 0 if none. */
static uint64_t find_difference(const uint64_t *values, unsigned count)
{
    uint64_t differ = 0;

    for (unsigned i = 1; i < count; i++)
        differ |= values[i] ^ values[0];
    return differ ? UINT64_C(1) << (63 - __builtin_clzll(differ)) : 0;
}

/* The `rank` largest of `values` are at least this. Bit by bit from the top:
 * no order of the values makes it slow. */
static uint64_t select_largest(uint64_t *values, unsigned count, unsigned rank)
{
    uint64_t bit;

    while ((bit = find_difference(values, count)) != 0) {
        unsigned with = 0;

        for (unsigned i = 0; i < count; i++)
            with += (values[i] & bit) != 0;
        count = keep_bit(values, count, bit, with >= rank);
        if (with < rank)
            rank -= with;
    }
    return values[0];
}

static void raise_floor(struct sl_sketch *sketch, enum sl_measure m)
{
    uint64_t values[SL_SKETCH_ITEMS], floor;

    for (unsigned i = 0; i < SL_SKETCH_ITEMS; i++)
        values[i] = sketch->items[i].count[m];
    floor = select_largest(values, SL_SKETCH_ITEMS, RANK);
    if (floor > sketch->floor[m])
        sketch->floor[m] = floor;
}

/* Lift to the floors what is below them. False if nothing is above. */
static bool lift(const struct sl_sketch *sketch, struct sl_sketch_item *item)
{
    bool above = false;

    for (unsigned m = 0; m < SL_MEASURES; m++)
        if (item->count[m] > sketch->floor[m])
            above = true;
        else
            item->count[m] = item->error[m] = sketch->floor[m];
    return above;
}

/* All places are taken. */
static void make_room(struct sl_sketch *sketch)
{
    unsigned kept = 0;

    for (unsigned m = 0; m < SL_MEASURES; m++)
        raise_floor(sketch, (enum sl_measure)m);
    memset(sketch->index, 0, sizeof(sketch->index));
    for (unsigned i = 0; i < SL_SKETCH_ITEMS; i++) {
        struct sl_sketch_item *item = &sketch->items[i];

        if (!lift(sketch, item))
            continue;
        if (kept != i)
            sketch->items[kept] = *item;
        sketch->index[find_place(sketch, item->print)] = (uint16_t)++kept;
    }
    sketch->count = kept;
}

/* ---- adding ---- */

static struct sl_sketch_item *insert(struct sl_sketch *sketch, uint64_t print)
{
    struct sl_sketch_item *item;

    if (sketch->count == SL_SKETCH_ITEMS)
        make_room(sketch);
    item = &sketch->items[sketch->count++];
    sketch->index[find_place(sketch, print)] = (uint16_t)sketch->count;
    item->print = print;
    return item;
}

/* A key that nobody has counted yet may have had the floors before. */
static struct sl_sketch_item *begin(struct sl_sketch *sketch,
                                    const struct sl_counted *what)
{
    struct sl_sketch_item *item = insert(sketch, what->print);

    memcpy(item->count, sketch->floor, sizeof(item->count));
    memcpy(item->error, sketch->floor, sizeof(item->error));
    item->place = what->place;
    item->cut = what->key.len > SL_SKETCH_TEXT;
    item->key_len =
        (uint8_t)(item->cut ? (size_t)SL_SKETCH_TEXT : what->key.len);
    if (item->key_len > 0)
        memcpy(item->key, what->key.at, item->key_len);
    return item;
}

void sl_sketch_add(struct sl_sketch *sketch, const struct sl_counted *what)
{
    unsigned at = sketch->index[find_place(sketch, what->print)];
    struct sl_sketch_item *item =
        at ? &sketch->items[at - 1] : begin(sketch, what);

    for (unsigned m = 0; m < SL_MEASURES; m++) {
        item->count[m] += what->add[m];
        sketch->total[m] += what->add[m];
    }
}

/* ---- merging ---- */

/* What is here may have the other's floors too, if it is not there. */
static void add_known(struct sl_sketch *sketch, const struct sl_sketch *from)
{
    for (unsigned i = 0; i < sketch->count; i++) {
        struct sl_sketch_item *item = &sketch->items[i];
        const struct sl_sketch_item *other = sl_sketch_find(from, item->print);

        for (unsigned m = 0; m < SL_MEASURES; m++) {
            item->count[m] += other ? other->count[m] : from->floor[m];
            item->error[m] += other ? other->error[m] : from->floor[m];
        }
    }
}

/* What is only there may have had `floors` here. */
static void add_unknown(struct sl_sketch *sketch,
                        const struct sl_sketch_item *other,
                        const uint64_t *floors, uint16_t place)
{
    struct sl_sketch_item item = *other;

    item.place = place;
    for (unsigned m = 0; m < SL_MEASURES; m++) {
        item.count[m] += floors[m];
        item.error[m] += floors[m];
    }
    if (sketch->count == SL_SKETCH_ITEMS)
        make_room(sketch);
    if (lift(sketch, &item))
        *insert(sketch, item.print) = item;
}

void sl_sketch_merge(struct sl_sketch *sketch, const struct sl_sketch *from,
                     const uint16_t *places)
{
    uint64_t floors[SL_MEASURES];

    memcpy(floors, sketch->floor, sizeof(floors));
    add_known(sketch, from);
    for (unsigned m = 0; m < SL_MEASURES; m++) {
        sketch->floor[m] += from->floor[m];
        sketch->total[m] += from->total[m];
    }
    for (unsigned i = 0; i < from->count; i++)
        if (!sl_sketch_find(sketch, from->items[i].print))
            add_unknown(sketch, &from->items[i], floors,
                        places[from->items[i].place]);
}
