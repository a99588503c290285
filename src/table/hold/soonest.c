/* soonest.c -- when permits come back. The essay is in soonest.h. */
#include "table/hold/soonest.h"

#include "base/arith.h"
#include "table/hold/due.h"

/* So much is looked through, and no more: somebody who is refused must not be
 * able to keep us busy. A block that may have something is four words, a record
 * that may expire in time some lines. */
#define BLOCKS_MOST 2048 /* of 14 records each, whose signs are looked at */
#define READ_MOST   2048 /* records that are read */
#define FIRST_MOST  256  /* that must expire before enough is free */

/* ---- signs ---- */

#define SIGN_BITS 16
#define ANY_SIGN  UINT64_C(0xffff) /* of several keys */
#define PER_WORD  (64 / SIGN_BITS)
#define PER_ROW   (SL_HOLD_BLOCK / 2)
#define ROW       UINT64_C(128)
#define EACH_SIGN UINT64_C(0x0001000100010001)

/* The word that has the sign of a record, and how far up. */
static sl_word *sign_of(const struct sl_region *r, uint64_t number,
                        unsigned *shift)
{
    uint64_t at = sl_hold_record_at(r, number);
    uint64_t in_row = at % ROW / 16 - 1;

    *shift = (unsigned)(in_row % PER_WORD) * SIGN_BITS;
    return sl_region_word(r, at - at % ROW + in_row / PER_WORD * 8);
}

/* Neither 0 nor ANY_SIGN. */
static uint64_t sign_for(struct sl_hash128 hash)
{
    return 1 + hash.lo % (ANY_SIGN - 1);
}

static bool holds_permit(const struct sl_region *r, const struct sl_kept *kept)
{
    return kept->cost > 0 &&
           sl_region_limit(r, kept->limit)->kind == SL_PERMITS;
}

void sl_hold_record_sign(const struct sl_region *r,
                         const struct sl_hold_record *record)
{
    unsigned shift;
    sl_word *word = sign_of(r, record->number, &shift);
    uint64_t last = atomic_load_explicit(word, memory_order_relaxed);
    uint64_t sign = 0, next;

    for (unsigned i = 0; i < record->count; i++)
        if (holds_permit(r, &record->part[i]))
            sign = sign ? ANY_SIGN : sign_for(record->part[i].hash);
    do {
        next = (last & ~(ANY_SIGN << shift)) | sign << shift;
    } while (next != last && !atomic_compare_exchange_weak(word, &last, next));
}

/* ---- looking ---- */

/* The earliest of a key's permits, in their order. */
struct soonest {
    const struct sl_key *key;
    uint64_t generation; /* of its slot: what was held before a reset is gone */
    unsigned read;
    unsigned most; /* of them are needed, at most */
    unsigned count;
    struct {
        sl_ns expires;
        uint64_t cost;
    } held[FIRST_MOST];
};

static void put_in_order(struct soonest *s, sl_ns expires, uint64_t cost)
{
    unsigned at = s->count < s->most ? s->count++ : s->most;

    for (; at > 0 && s->held[at - 1].expires > expires; at--)
        if (at < s->most)
            s->held[at] = s->held[at - 1];
    if (at < s->most) {
        s->held[at].expires = expires;
        s->held[at].cost = cost;
    }
}

/* What expires at `expires` would not be among them. */
static bool is_too_late(const struct soonest *s, sl_ns expires)
{
    return s->count == s->most && expires >= s->held[s->most - 1].expires;
}

static void collect(const struct sl_intent *intent, uint64_t number,
                    struct soonest *s)
{
    struct sl_cell head = sl_hold_record_head(intent, number);
    struct sl_hold_record record;

    if (sl_hold_record_state(head) != SL_HELD ||
        is_too_late(s, (sl_ns)head.w[0]))
        return;
    s->read++;
    if (!sl_hold_record_read(intent, number, head, &record))
        return;
    for (unsigned i = 0; i < record.count; i++)
        if (sl_kept_is_of(&record.part[i], s->key) && record.part[i].cost > 0 &&
            record.part[i].generation == s->generation) {
            put_in_order(s, (sl_ns)head.w[0], record.part[i].cost);
            break;
        }
}

/* The highest bit of each of four signs that is 0, and perhaps of one above
 * such: whoever finds none has missed none. */
static uint64_t zeros(uint64_t signs)
{
    return (signs - EACH_SIGN) & ~signs & EACH_SIGN << (SIGN_BITS - 1);
}

/* Four signs at a time: those of the key, and those of several. */
static void collect_word(const struct sl_intent *intent, const sl_word *word,
                         uint64_t first, struct soonest *s)
{
    uint64_t signs = atomic_load_explicit(word, memory_order_acquire);
    uint64_t hits =
        zeros(signs ^ sign_for(s->key->hash) * EACH_SIGN) | zeros(~signs);

    for (; hits; hits &= hits - 1)
        collect(intent, first + (uint64_t)__builtin_ctzll(hits) / SIGN_BITS, s);
}

static void collect_block(const struct sl_intent *intent, uint64_t block,
                          struct soonest *s)
{
    const struct sl_region *r = intent->region;
    uint64_t number = block * SL_HOLD_BLOCK;
    uint64_t at = sl_hold_record_at(r, number);
    const sl_word *row = sl_region_word(r, at - at % ROW);

    for (unsigned i = 0; i < 2; i++) {
        collect_word(intent, row, number, s);
        collect_word(intent, row + 1, number + PER_WORD, s);
        row += ROW / sizeof(*row);
        number += PER_ROW;
    }
}

/* False if there are too many. A block whose next expiry is too late is passed
 * by: when that is, it never says too late. */
static bool collect_all(const struct sl_intent *intent, struct soonest *s)
{
    const struct sl_region *r = intent->region;
    uint64_t blocks = sl_hold_record_blocks(r), looked = 0;

    for (uint64_t b = 0; b < blocks; b++) {
        sl_ns due = sl_due_read(sl_due_of(r, b));

        if (due == SL_DUE_NONE || is_too_late(s, due))
            continue;
        if (looked++ == BLOCKS_MOST || s->read > READ_MOST)
            return false;
        collect_block(intent, b, s);
    }
    return true;
}

static sl_ns when_free(const struct soonest *s, uint64_t need)
{
    for (unsigned i = 0; i < s->count; i++) {
        if (s->held[i].cost >= need)
            return s->held[i].expires;
        need -= s->held[i].cost;
    }
    return SL_NS_NONE;
}

sl_ns sl_holds_soonest(struct sl_set *set, const struct sl_key *key,
                       uint64_t capacity, uint64_t cost)
{
    struct soonest s;
    struct sl_slot slot;
    struct sl_cell cell;
    uint64_t head, need;
    sl_ns when;

    if (sl_none_held(set->intent->region) ||
        !sl_key_find(set->intent, key, &slot, &head) ||
        !sl_slot_read(set->intent, slot, key->tag, &cell))
        return SL_NS_NONE;
    need = sl_sub_floor(sl_add_sat(sl_cell_bare(cell).w[1], cost), capacity);
    if (need == 0)
        return SL_NS_NONE; /* it has become free meanwhile */
    s.key = key;
    s.generation = cell.w[1] >> SL_CELL_W1_BITS;
    s.read = s.count = 0;
    s.most = need < FIRST_MOST ? (unsigned)need : FIRST_MOST;
    if (!collect_all(set->intent, &s))
        return SL_NS_NONE;
    when = when_free(&s, need);
    return when > set->now ? when - set->now : SL_NS_NONE;
}
