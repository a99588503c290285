/* check.c -- is what a region says possible? The essay is in check.h. */
#include "table/check.h"

#include <inttypes.h>

#include "core/limit.h"
#include "table/evict.h"
#include "table/hold/due.h"
#include "table/hold_record.h"

static uint64_t peek(const sl_word *word)
{
    return atomic_load_explicit(word, memory_order_relaxed);
}

/* The numbers that are kept ready-made are those that follow from the rest. */
static bool derived_right(const struct sl_limit_entry *e)
{
    struct sl_limit limit = {
        .kind = (enum sl_kind)peek(&e->kind),
        .count = peek(&e->count),
        .capacity = peek(&e->capacity),
        .period = (sl_ns)peek(&e->period),
    };

    sl_limit_derive(&limit);
    return limit.grain == peek(&e->grain) && limit.token == peek(&e->token);
}

/* No calendar, or a number of units that make ten years at most. */
static bool possible_calendar(uint64_t calendar)
{
    static const uint64_t most[] = {
        [SL_CALENDAR_DAY] = 3653,
        [SL_CALENDAR_WEEK] = 521,
        [SL_CALENDAR_MONTH] = 120,
    };
    uint64_t unit = (calendar & 0xffffffff) - 1;

    return calendar == 0 ||
           (unit < SL_LEN(most) && (calendar >> 32) - 1 < most[unit]);
}

/* Claimed by somebody who died before he could fill it in. */
static bool only_claimed(const struct sl_limit_entry *e)
{
    return (peek(&e->used) & 3) == SL_CLAIMED;
}

static bool possible_limit(const struct sl_limit_entry *e)
{
    uint64_t kind = peek(&e->kind), calendar = peek(&e->calendar);
    uint64_t period = peek(&e->period), used = peek(&e->used);
    bool timeless = kind == SL_PERMITS || kind == SL_LEVEL || calendar;

    if (used == 0 || only_claimed(e))
        return true;
    return used == 1 && kind < SL_KINDS &&
           peek(&e->count) - 1 < SL_AMOUNT_MAX &&
           peek(&e->capacity) - 1 < SL_AMOUNT_MAX &&
           possible_calendar(calendar) &&
           (timeless || (period >= (uint64_t)SL_PERIOD_MIN &&
                         period <= (uint64_t)SL_PERIOD_MAX)) &&
           (kind > SL_SLIDING || (peek(&e->count) <= SL_COUNT_MAX &&
                                  peek(&e->capacity) <= SL_COUNT_MAX)) &&
           derived_right(e);
}

enum place { NOWHERE, HEAD, TAG, GUARD, SECOND, RECORD };

static bool is_record(const struct sl_region *r, uint64_t at)
{
    uint64_t records = sl_hold_record_blocks(r) * SL_HOLD_BLOCK;
    uint64_t low = 0, high = records;

    while (low < high) {
        uint64_t middle = low + (high - low) / 2;

        if (sl_hold_record_at(r, middle) < at)
            low = middle + 1;
        else
            high = middle;
    }
    return low < records && sl_hold_record_at(r, low) == at;
}

/* What kind of word is at an offset. */
static enum place place_of(const struct sl_region *r, uint64_t at)
{
    const struct sl_region_head *head = sl_region_head(r);
    uint64_t in;

    if (is_record(r, at))
        return RECORD;
    if (at < head->buckets_at || at % 8 != 0 ||
        (at - head->buckets_at) / sizeof(struct sl_bucket) >= head->buckets)
        return NOWHERE;
    in = (at - head->buckets_at) % sizeof(struct sl_bucket) / 8;
    for (unsigned i = 0; i < SL_SLOTS; i++) {
        if (in == sl_tag_word(i))
            return TAG;
        if (in == sl_cell_word(i))
            return GUARD;
    }
    return in == 0 ? HEAD : SECOND;
}

static bool possible_tag(const struct sl_region *r, uint64_t tag)
{
    uint64_t id = tag >> SL_TAG_BITS;

    return tag == 0 ||
           (id < SL_LIMITS && peek(&sl_region_limit(r, id)->used) == 1);
}

/* Every word that the actor means to change is of the right kind, and nothing
 * becomes locked by it. */
static bool possible_actor(const struct sl_region *r, const struct sl_actor *a)
{
    uint64_t guards = peek(&a->guards), writes = peek(&a->writes);

    if (guards > SL_INTENT_LOCKS || writes > SL_WRITES ||
        peek(&a->status) >> 2 >= SL_NUMBER_END)
        return false;
    for (uint64_t i = 0; i < guards; i++) {
        enum place place = place_of(r, peek(&a->guard[i].at));

        if ((place != HEAD && place != GUARD && place != RECORD) ||
            sl_is_locked(peek(&a->guard[i].from[0])) ||
            sl_is_locked(peek(&a->guard[i].to[0])))
            return false;
    }
    for (uint64_t i = 0; i < writes; i++) {
        const struct sl_write *w = &a->write[i];

        if (place_of(r, peek(&w->at)) != TAG ||
            place_of(r, peek(&w->under)) != GUARD ||
            !possible_tag(r, peek(&w->to)))
            return false;
    }
    return true;
}

/* Bring to its end what was left half done. */
static void recover(const struct sl_region *r)
{
    for (uint64_t i = 0; i < SL_LIMITS; i++) {
        struct sl_limit_entry *e = sl_region_limit(r, i);

        if (only_claimed(e))
            atomic_store(&e->used, 0);
        /* A limit that nobody names any more keeps its cells, no more. */
        atomic_store(&e->reserve, 0);
        atomic_store(&e->stale, 1);
    }
    for (uint64_t i = 0; i < SL_ACTORS; i++) {
        struct sl_intent intent;

        sl_intent_init(&intent, r, i);
        atomic_store(&sl_region_actor(r, i)->owner, 0);
    }
    atomic_store(&sl_region_head(r)->haunted, 0);
}

static bool possible_bucket(const struct sl_region *r, uint64_t number)
{
    const struct sl_bucket *b = sl_region_bucket(r, number);

    if (sl_is_locked(peek(&b->word[0])))
        return false;
    for (unsigned i = 0; i < SL_SLOTS; i++)
        if (sl_is_locked(peek(&b->word[sl_cell_word(i)])) ||
            !possible_tag(r, peek(&b->word[sl_tag_word(i)])))
            return false;
    return true;
}

/* When they expire is counted anew. */
static bool possible_holds(const struct sl_region *r)
{
    uint64_t blocks = sl_hold_record_blocks(r);

    for (uint64_t i = 0; i < blocks * SL_HOLD_BLOCK; i++)
        if (!sl_hold_record_check(r, i))
            return false;
    for (uint64_t b = 0; b < blocks; b++)
        atomic_store(sl_hold_expiry_of(r, b), 0);
    atomic_store(sl_hold_expiry_of_all(r), 0);
    return true;
}

int sl_region_check(const struct sl_region *r, struct sl_diag *diag)
{
    const struct sl_region_head *head = sl_region_head(r);

    for (uint64_t i = 0; i < SL_LIMITS; i++)
        if (!possible_limit(sl_region_limit(r, i)))
            return sl_diag_error(diag, SLUICE_EDAMAGE,
                                 "limit %" PRIu64 " in it is damaged", i);
    for (uint64_t i = 0; i < SL_ACTORS; i++)
        if (!possible_actor(r, sl_region_actor(r, i)))
            return sl_diag_error(
                diag, SLUICE_EDAMAGE,
                "the record of actor %" PRIu64 " in it is damaged", i);
    recover(r);
    for (uint64_t i = 0; i < head->buckets; i++)
        if (!possible_bucket(r, i))
            return sl_diag_error(diag, SLUICE_EDAMAGE,
                                 "bucket %" PRIu64 " in it is damaged", i);
    if (!possible_holds(r))
        return sl_diag_error(diag, SLUICE_EDAMAGE, "a hold in it is damaged");
    sl_recount(r);
    return 0;
}
