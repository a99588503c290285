/* once.h -- what has been answered already, so that a repeat is known.
 *
 * A key is claimed before its request is decided, and then either finished,
 * with a memo of the answer, or dropped. Whoever comes with the same key in
 * between finds it running; whoever comes later finds the memo.
 *
 *     begin --> RUNNING --> finish --> DONE --> forgotten
 *                  |                             (life over, no room, or as
 *                  +------> drop                  often repeated as may be)
 *
 * Keys are keyed fingerprints: nobody can aim at another's. Memory is bounded
 * by a budget in bytes. What is to be forgotten first is what was asked for
 * longest ago, unless the memory is strict: then only what is over goes, and
 * when there is no room begin() says FULL. What is running always stays.
 *
 * Threads: any. A key belongs to one of some shards with a lock each, held for
 * as long as a short list is searched.
 */
#ifndef SL_REPLAY_CACHE_H
#define SL_REPLAY_CACHE_H

#include "base/alloc.h"
#include "base/hash.h"

#define SL_REPLAY_CACHE_MEMO 4096 /* bytes of a memo at most */

struct sl_replay_cache;

enum sl_replay_cache_found {
    SL_REPLAY_CACHE_FIRST,   /* nobody has come with it: claimed */
    SL_REPLAY_CACHE_RUNNING, /* somebody is being answered */
    SL_REPLAY_CACHE_OTHER,   /* the key is known by another fingerprint */
    SL_REPLAY_CACHE_AGAIN,   /* here is what was answered */
    SL_REPLAY_CACHE_FULL,    /* there is no room: not claimed */
};

/* One claim. */
struct sl_replay_cache_claim {
    struct sl_hash128 key;   /* whose, and which */
    struct sl_hash128 print; /* what must be the same in a repeat */
    sl_ns until;             /* when it is over */
    uint32_t repeats;        /* how many are answered by one */
};

SL_MUST_USE int sl_replay_cache_open(size_t bytes, bool strict,
                                     const struct sl_alloc *alloc,
                                     struct sl_replay_cache **ret);

/* NULL is allowed. */
void sl_replay_cache_close(struct sl_replay_cache *once);

/* Forget all that is done. NULL is allowed. */
void sl_replay_cache_forget(struct sl_replay_cache *once);

/* Another budget from now on. */
void sl_replay_cache_resize(struct sl_replay_cache *once, size_t bytes);

/* Has it come before? FIRST claims it unless it is only `look`ed for. AGAIN
 * copies at most `size` bytes of the memo to `memo`, and says how many. */
enum sl_replay_cache_found
sl_replay_cache_begin(struct sl_replay_cache *once,
                      const struct sl_replay_cache_claim *claim, sl_ns now,
                      bool look, void *memo, size_t size, size_t *ret_len);

/* What was claimed is answered. Without memory it is dropped. */
void sl_replay_cache_finish(struct sl_replay_cache *once,
                            const struct sl_replay_cache_claim *claim,
                            const void *memo, size_t len);

/* It was not answered, or not so that it counts: as if it had not come. */
void sl_replay_cache_drop(struct sl_replay_cache *once,
                          const struct sl_replay_cache_claim *claim);

/* How many are remembered, and their bytes; O(shards). */
struct sl_replay_cache_stats {
    uint64_t count, bytes;
    uint64_t evicted; /* forgotten before they were over, ever */
};
void sl_replay_cache_stats(struct sl_replay_cache *once,
                           struct sl_replay_cache_stats *ret);

#endif
