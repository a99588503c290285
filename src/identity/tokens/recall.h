/* recall.h -- tokens that were good a moment ago.
 *
 * A token is known by its SHA-256, so that what is kept is no token and two
 * never meet. Each has a span of time in which it is good; the one that was
 * asked for longest ago gives way when there are too many, or too many bytes.
 *
 * Invariants.
 *   (1) Every entry is in one chain, that of its digest, and in the line of
 *       use; count entries are.
 *   (2) count <= most, and bytes <= most * SL_RECALL_BYTES, unless there is
 *       but one.
 */
#ifndef SL_RECALL_H
#define SL_RECALL_H

#include "base/alloc.h"
#include "identity/token.h"

#define SL_RECALL_BYTES 2048 /* of one entry, on average */

struct sl_digest {
    uint8_t bytes[32];
};

struct sl_recall_entry;

struct sl_recall_chain {
    struct sl_recall_entry *first;
};

struct sl_recall {
    struct sl_recall_chain *chains;
    struct sl_recall_entry *newest, *oldest; /* the line of use */
    unsigned chain_count;                    /* a power of two */
    unsigned count, most;
    size_t bytes;
    const struct sl_alloc *alloc;
};

/* most > 0. `alloc` is borrowed. */
SL_MUST_USE int sl_recall_init(struct sl_recall *recall, unsigned most,
                               const struct sl_alloc *alloc);
void sl_recall_done(struct sl_recall *recall); /* one of zeros too */

/* The token of that digest if it is good at `now`; its texts live until the
 * next call that changes something. One that is over is forgotten. */
SL_MUST_USE bool sl_recall_find(struct sl_recall *recall,
                                const struct sl_digest *digest, sl_ns now,
                                struct sl_token *ret);

/* Keep a copy of a token that is not there yet; it is good in [from, until).
 * Without memory it is just not kept. */
void sl_recall_keep(struct sl_recall *recall, const struct sl_digest *digest,
                    const struct sl_token *token, sl_ns from, sl_ns until);

void sl_recall_forget(struct sl_recall *recall);

/* Assert the invariants. */
void sl_recall_check(const struct sl_recall *recall);

#endif
