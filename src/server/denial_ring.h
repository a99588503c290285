/* denial_ring.h -- the last denials of one thread.
 *
 * Each worker has a ring. A denial is copied into it when it is counted; so is
 * one of SL_DENIAL_PASSES requests that pass. Other threads read the rings: to
 * answer GET /v1/denials, and to write the records to the usage database. The
 * lock of a ring is held while one record is copied or the ring is searched.
 *
 * A flood of denials must neither cost much nor push all others out. So in a
 * second at most SL_DENIAL_SECOND denials of each caller and limit are
 * recorded. After SL_DENIAL_FLOOD of all callers in that second it is
 * SL_DENIAL_FLOODED of each. The rest is counted.
 *
 * Names of callers are in memory as they came. They leave it hashed if the
 * policy says so.
 *
 * Invariants. (test/unit/server/denial_ring.c checks each by number.)
 *   (1) The last SL_DENIAL_RING records are there, each whole. A name that
 *       does not fit is left out, not cut.
 *   (2) Taking returns each record at most once, in order, and counts those
 *       that were overwritten before. A taken record is found as one that the
 *       database does not have, until it is written.
 *   (3) Of one caller and limit at most SL_DENIAL_SAME records are taken at
 *       once, so that one caller cannot hide the others. The rest is counted.
 *   (4) After an erasure no ring has the name.
 *   (5) The first denial of a caller and limit in a second is recorded,
 *       whatever others do, unless the hash of another caller selects the
 *       same one of SL_DENIAL_CALLERS counters. In a second at most
 *       SL_DENIAL_FLOOD + SL_DENIAL_CALLERS denials are recorded.
 */
#ifndef SL_SERVER_DENIAL_RING_H
#define SL_SERVER_DENIAL_RING_H

#include "engine/decision.h"
#include "registry/denials.h"

#define SL_DENIAL_RING   2048 /* records of one thread */
#define SL_DENIAL_PASSES 128
#define SL_DENIAL_SAME   8

/* Recorded in a second: of a caller and limit; of all until it is a flood; and
 * then of a caller and limit. */
#define SL_DENIAL_SECOND  64
#define SL_DENIAL_FLOOD   512
#define SL_DENIAL_FLOODED 1
#define SL_DENIAL_CALLERS 1024 /* callers and limits that are told apart */

#define SL_DENIAL_TEXTS                                                        \
    832 /* bytes of all texts of a record; the rest is cut */

/* A record with its texts. It must stay where it is. */
struct sl_denial_copy {
    struct sl_denial_record record; /* borrows from `texts` */
    char texts[SL_DENIAL_TEXTS];
};

struct sl_denial_ring; /* of one thread */

/* NULL `alloc` is libc's. SLUICE_ENOMEM, SLUICE_ESYS. */
SL_MUST_USE int sl_denial_ring_open(const struct sl_alloc *alloc,
                                    struct sl_denial_ring **ret);
void sl_denial_ring_close(struct sl_denial_ring *ring); /* NULL is allowed */

/* Record from now on, or not; what is there stays. Rings begin with false. Any
 * thread. */
void sl_denial_ring_keep(struct sl_denial_ring *ring, bool keep);

/* Record a decision if it is a denial with room in this second, or one of the
 * passed requests. Owner's thread only. Never fails. */
void sl_denial_ring_decision(struct sl_denial_ring *ring,
                             const struct sl_decision *d);

/* Take up to `most` records that were not taken before. `skipped` is increased
 * by the number of denials that will never be taken. Returns the number of
 * records. Any thread. */
unsigned sl_denial_ring_take(struct sl_denial_ring *ring,
                             struct sl_denial_copy *ret, unsigned most,
                             uint64_t *skipped);

/* All records that were taken are in the database. */
void sl_denial_ring_written(struct sl_denial_ring *ring);

/* The rings of a daemon. */
struct sl_denial_rings {
    struct sl_denial_ring *const *rings;
    unsigned count;
    bool all;                      /* look for written records, too */
    const struct sl_hash_key *key; /* names are hashed; NULL: they are not */
    struct sl_str node;            /* name of the daemon */
    const struct sl_alloc *alloc;
};

/* Append the records that a query finds in the rings, one per line, the newest
 * first. Returns their number, SLUICE_ENOMEM or SLUICE_EFULL. */
SL_MUST_USE int sl_denial_rings_find(const struct sl_denial_rings *of,
                                     const struct sl_denial_query *query,
                                     struct sl_buf *out);

/* Delete all records of a name. */
void sl_denial_ring_erase(struct sl_denial_ring *ring, struct sl_str scope,
                          struct sl_str id);

/* The word of a reason: "limit", "quota" or "concurrency" for a limit that
 * denies. */
const char *sl_denial_reason(const struct sl_decision *d);

#endif
