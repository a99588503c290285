/* recorder.h -- the last requests of one thread, to ask what another policy
 * would have decided.
 *
 * All requests of a caller are recorded, or none: limits count by caller. Which
 * callers is decided by a hash of the organisation, else the user, else the
 * address. At first all are recorded. If the ring would be full before it has
 * SL_RECORDER_SPAN, half of them, then a quarter, and so on; with less traffic
 * more again.
 *
 * Requests are kept in memory only, and leave it as sums.
 *
 * Invariants. (test/unit/server/recorder.c checks each by number.)
 *   (1) A copied request is decided like the recorded one.
 *   (2) The copy has all recorded requests of a caller, or none.
 *   (3) After an erasure the ring has no request of the name.
 *   (4) However many requests there are, the ring goes back at least
 *       SL_RECORDER_SPAN soon, and few requests are recorded in a second.
 */
#ifndef SL_SERVER_RECORDER_H
#define SL_SERVER_RECORDER_H

#include "engine/check.h"

#define SL_RECORDER_RING  4096 /* requests of one thread */
#define SL_RECORDER_SPAN  (10 * SL_MIN)
#define SL_RECORDER_TEXTS 384 /* bytes; a request with more is left out */
#define SL_RECORDER_LISTS 4   /* keys, entries or costs of a request, each */

enum {
    SL_RECORDED_METHOD,
    SL_RECORDED_PATH,
    SL_RECORDED_JOB,
    SL_RECORDED_LIMIT,
    SL_RECORDED_KEY,
    SL_RECORDED_USER,
    SL_RECORDED_ORG,
    SL_RECORDED_PLAN,
    SL_RECORDED_ROLE,
    SL_RECORDED_IP,
    SL_RECORDED_DOMAIN,
    SL_RECORDED_ENDPOINT,
    SL_RECORDED_LIST, /* keys; key and value of entries; limits of costs */
    SL_RECORDED_TEXTS = SL_RECORDED_LIST + 4 * SL_RECORDER_LISTS
};

/* One request and its verdict. */
struct sl_recorded {
    sl_ns at;
    uint64_t hash; /* of the caller */
    uint64_t cost, costs[SL_RECORDER_LISTS];
    uint16_t ends[SL_RECORDED_TEXTS];
    uint8_t text_count, key_count, entry_count, cost_count;
    uint8_t shift; /* callers were recorded whose hash has so many zeros */
    bool has_cost, allowed, erased;
    char texts[SL_RECORDER_TEXTS];
};

/* What the request of a record points to. */
struct sl_recorded_lists {
    struct sl_str keys[SL_RECORDER_LISTS];
    struct sl_descriptor_entry entries[SL_RECORDER_LISTS];
    struct sl_cost costs[SL_RECORDER_LISTS];
};

struct sl_recorder; /* of one thread */

/* All of a daemon have the same key. NULL `alloc` is libc's. */
SL_MUST_USE int sl_recorder_open(const struct sl_alloc *alloc,
                                 const struct sl_hash_key *key,
                                 struct sl_recorder **ret);
void sl_recorder_close(struct sl_recorder *recorder); /* NULL is allowed */

/* Record from now on, or forget all and record nothing, as at first. Any
 * thread. */
void sl_recorder_keep(struct sl_recorder *recorder, bool keep);

/* Record an answered check, if its caller is recorded. Owner's thread only.
 * Never fails. */
void sl_recorder_check(struct sl_recorder *recorder,
                       const struct sl_check *check);

/* Copy the requests of `from` and later to `ret`, which has room for
 * SL_RECORDER_RING. *ret_shift is increased to the largest shift of them.
 * Returns their number. Any thread. */
unsigned sl_recorder_copy(struct sl_recorder *recorder, sl_ns from,
                          struct sl_recorded *ret, unsigned *ret_shift);

/* Is the caller of the record among those of `shift`? */
static inline bool sl_recorded_is_in(const struct sl_recorded *record,
                                     unsigned shift)
{
    return (record->hash & ((UINT64_C(1) << shift) - 1)) == 0;
}

struct sl_str sl_recorded_text(const struct sl_recorded *record,
                               unsigned which);

/* The request of a record; it borrows from both. */
struct sl_request sl_recorded_request(const struct sl_recorded *record,
                                      struct sl_recorded_lists *lists);

/* Forget all requests that have this text as a name. */
void sl_recorder_erase(struct sl_recorder *recorder, struct sl_str id);

#endif
