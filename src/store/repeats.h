/* repeats.h -- a shared memory of repeats: keys of requests, and the answers
 * that repeats get.
 *
 * A key is claimed before its request is decided. The claim is then completed
 * with a memo of the answer, or dropped. A request with the same key finds it
 * running in between, and the memo afterwards.
 *
 *     BEGIN --> running --> FINISH --> done --> forgotten
 *                  |  \                          (life over, or as often
 *                  |   +--> DROP                  repeated as may be)
 *                  +------> `pending` is over: the next BEGIN claims it
 *
 * The memory is a remote store or a database, the same for all daemons.
 *
 * Invariants (test/conform/repeats.c checks each by number, on every store).
 *   (1) Of all requests with one key, one at a time has claimed it.
 *   (2) A request with another fingerprint is OTHER, while the key is running
 *       and when it is done.
 *   (3) A completed claim answers `repeats` times until its end, with the same
 *       memo. After that the key is new.
 *   (4) A claim ends with FINISH, with DROP, or at `pending`. Calls of another
 *       owner do not change it.
 *   (5) A LOOK changes nothing.
 */
#ifndef SL_STORE_REPEATS_H
#define SL_STORE_REPEATS_H

#include "base/base.h"
#include "base/hash.h"

struct sl_loop;

#define SL_REPEAT_MEMO 5120 /* bytes of a memo at most; printable ASCII */

/* How long the claim of a daemon that has died blocks its key. */
#define SL_REPEAT_PENDING (30 * SL_S)

enum sl_repeat_found {
    SL_REPEAT_FIRST,   /* a new key: claimed */
    SL_REPEAT_RUNNING, /* its request is not answered yet */
    SL_REPEAT_OTHER,   /* the key was used by another request */
    SL_REPEAT_AGAIN,   /* with the memo of its answer */
    SL_REPEAT_FULL,    /* there is no room: not claimed */
};

struct sl_repeat_claim {
    struct sl_hash128 key;         /* of the caller and its key */
    struct sl_hash128 fingerprint; /* what must be the same in a repeat */
    sl_ns until;                   /* when it expires */
    uint32_t repeats;              /* answered by one memo */
    uint64_t owner;                /* unique to this claim */
    sl_ns pending;                 /* until when it blocks the key */
};

enum sl_repeat_op {
    SL_REPEAT_BEGIN,  /* claims the key, or finds its answer */
    SL_REPEAT_LOOK,   /* the same without a claim */
    SL_REPEAT_FINISH, /* completes the claim with the memo */
    SL_REPEAT_DROP,   /* removes the claim; done() is not called */
    SL_REPEAT_PUT,    /* writes a memo, whatever was there; for backlogs */
};

struct sl_repeat_call {
    enum sl_repeat_op op;
    struct sl_repeat_claim claim;
    sl_ns now;
    sl_ns deadline; /* monotonic; 0: that of the memory */
    bool patient;   /* no request waits for it: a database may take a second */
    struct sl_loop *loop;
    char *memo; /* of SL_REPEAT_MEMO bytes: FINISH and PUT write it, AGAIN
                 * fills it; NULL: not wanted, or none */
    size_t len;
    enum sl_repeat_found found; /* out: BEGIN and LOOK; OTHER after a FINISH:
                                 * the claim was lost, and nothing changed */
    int err;                    /* out: 0 or SLUICE_ESTORE */
    void (*done)(struct sl_repeat_call *call);
    void *ctx;
};

/* The memory; its owner closes it after the engine. */
struct sl_repeats {
    /* The call is borrowed until done(), a DROP until this returns. done() is
     * called once, before this returns or later. */
    void (*call)(struct sl_repeats *repeats, struct sl_repeat_call *call);
    /* The secret of the keys, the same for all daemons; NULL: not known yet. */
    const struct sl_hash_key *(*secret)(const struct sl_repeats *repeats);
};

#endif
