/* part.h -- one limit of a take, from the engine through a store to the table.
 *
 * The caller fills in a part. The store or the table writes `answer` and
 * `untracked` into the same struct, so a part is never copied on its way. The
 * parts of one take are contiguous.
 */
#ifndef SL_TABLE_PART_H
#define SL_TABLE_PART_H

#include "base/fingerprint.h"
#include "core/algorithm.h"
#include "core/limit.h"

#define SL_PARTS 16 /* in one set */

struct sl_limit_view;

enum sl_take_op {
    SL_TAKE_OP_TAKE, /* all or none; a part of cost 0 is a peek */
    SL_TAKE_OP_PEEK, /* the answers of a take, without taking */
    SL_TAKE_OP_EACH, /* each part on its own: shadows and candidates; stores
                      * only, the table takes them one by one */
    SL_TAKE_OP_CHARGE,
    SL_TAKE_OP_REFUND,
    SL_TAKE_OP_RESET,
    SL_TAKE_OP_SETTLE, /* the end of a hold; inside the table only */
};

enum sl_on_full { SL_FULL_ALLOW, SL_FULL_DENY };

/* A limit as a store knows it; all its plans share one shape. It is bound
 * before its first take and outlives its last one. */
struct sl_limit_binding {
    const char *name;          /* stored state belongs to it */
    struct sl_limit strictest; /* smallest count and capacity of all plans. Its
                                * cells are evicted by these numbers */
    enum sl_on_full on_full;   /* DENY here or of the whole table denies */
    uint32_t share; /* of the table reserved and kept for it, in 1/1000; 0: an
                     * equal part of the half for limits that are bound
                     * together, of which an eighth is kept; see set.h */
    uint32_t equal_parts; /* how many share that half; 0: 1 */
    unsigned lease; /* percent of a capacity that a loop may lease from a remote
                     * store; 0: none */
    bool carried;   /* some takes carry usage over to it */
    bool quota_leased; /* a quota or level whose units a usage database can
                        * lease: not a shadow, not a candidate, and not carried
                        * to */
    uint32_t id;       /* out: its number in the table */
    struct sl_hasher hasher; /* out: of fingerprints */
};

struct sl_part {
    const struct sl_limit_binding *binding;
    const struct sl_limit *limit;  /* the numbers that apply */
    struct sl_str key;             /* unique bytes */
    struct sl_str name;            /* for remote stores; may be empty */
    struct sl_hash128 fingerprint; /* sl_table_fingerprint() of the key; zeros:
                                    * not computed */
    enum sl_take_op op; /* set by the store from its take; for the table */
    bool carried;       /* TAKE, PEEK and EACH, cost 0: the usage of its key
                         * also counts against the next part; see "Carrying"
                         * in table.h */
    bool on_report;     /* TAKE, PEEK and EACH, cost 0: denied if nothing is
                         * left; reports take from it */
    uint8_t penalty_of; /* TAKE, of a penalty: 1 + the number of the part before
                         * it whose refusals are its failures; see store.h. 0:
                         * none */
    bool not_held;      /* take with a hold: taken, but not held */
    bool untracked;     /* out: there was no room for the key */
    bool unleased;      /* out: TAKE from a leased quota without a lease: only
                         * the usage database counts it */
    uint64_t cost;
    sl_ns taken_at;                   /* REFUND: when it was taken */
    const struct sl_limit_view *view; /* for callers of stores, for usage
                                       * reports; NULL: it does not count */
    struct sl_answer answer;          /* out */
};

/* Units that must be left for the part to pass; `cost` of them are taken. */
static inline uint64_t sl_part_least(const struct sl_part *part)
{
    return part->cost > 0 ? part->cost : part->on_report;
}

#endif
