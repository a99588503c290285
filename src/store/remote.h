/* remote.h -- what the seats of one store have in common: the secret, the
 * marker, and what was forgotten. */
#ifndef SL_STORE_REMOTE_H
#define SL_STORE_REMOTE_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/base.h"
#include "base/diag.h"
#include "base/hash.h"
#include "store/caches.h"

#define SL_STORE_IDENTITY 32 /* hex digits of a secret or a marker */

struct sl_store_identity {
    pthread_mutex_t lock;
    struct sl_store *store;    /* whose secret it is */
    struct sl_hash_key secret; /* written once, and then shown to others */
    bool has_secret, has_epoch;
    char secret_text[SL_STORE_IDENTITY + 1]; /* what we propose, or know */
    char epoch[SL_STORE_IDENTITY + 1];
    _Atomic uint64_t epochs;
    _Atomic bool memory_asked;
    struct sl_denial_forgets forgets;
};

SL_MUST_USE int sl_store_identity_init(struct sl_store_identity *shared,
                                       struct sl_store *store);
void sl_store_identity_done(struct sl_store_identity *shared);

/* What to put there if there is none. */
void sl_store_identity_secret(struct sl_store_identity *shared,
                              char ret[SL_STORE_IDENTITY + 1]);
SL_MUST_USE int sl_store_identity_fresh(char ret[SL_STORE_IDENTITY + 1]);

/* What is there. False if it is none of ours. *ret_changed if it is another
 * than before: a secret is then kept nevertheless. */
SL_MUST_USE bool sl_store_identity_see_secret(struct sl_store_identity *shared,
                                              struct sl_str text,
                                              bool *ret_changed);
SL_MUST_USE bool sl_store_identity_see_epoch(struct sl_store_identity *shared,
                                             struct sl_str text,
                                             bool *ret_changed);

/* ---- when to stop asking a store that does not answer.
 *
 *     CLOSED --FAILURES in a row, or half of many--> OPEN
 *        ^                                            |
 *        +-------- one that tried has succeeded ------+
 *
 * While it is open nobody is made to wait: takes fail at once, but for one now
 * and then that tries. The next one is not let through before that has ended,
 * and the time between them is jittered, so that many daemons do not try at
 * one instant.
 *
 * Pure: time is handed in.
 */

struct sl_breaker {
    struct sl_jitter dice;
    bool is_open;
    bool tries;      /* one is on its way */
    sl_ns try_at;    /* OPEN: when the next one may */
    unsigned in_row; /* failures */
    sl_ns began;     /* of the second that is counted */
    unsigned good, bad;
};

/* May one be asked now? If it is one that tries, *ret_tries says so, and its
 * end must be noted. */
bool sl_breaker_may(struct sl_breaker *breaker, sl_ns now, bool *ret_tries);

/* How one has ended. True if that has opened or closed it. */
bool sl_breaker_note(struct sl_breaker *breaker, bool good, bool tried,
                     sl_ns now);

/* It ended without having been asked. */
void sl_breaker_forget(struct sl_breaker *breaker, bool tried);

/* Until the next one may try; 0 when it is closed. */
sl_ns sl_breaker_tries_in(const struct sl_breaker *breaker, sl_ns now);

/* ---- what there is to say about a store elsewhere, for a log: each thing
 * once, and the same trouble not too often. Of one seat. */

enum sl_store_news {
    SL_STORE_EVENT_UP,      /* it is there */
    SL_STORE_EVENT_DOWN,    /* it is not, and why */
    SL_STORE_EVENT_OPENED,  /* the breaker: nobody waits for it any more */
    SL_STORE_EVENT_CLOSED,  /* it answers again */
    SL_STORE_EVENT_TROUBLE, /* it answers with an error, and what that means */
    SL_STORE_EVENT_CHANGED, /* its marker */
};

/* The sentence has no secrets and no full stop. */
typedef void sl_store_event_f(void *ctx, enum sl_store_news news,
                              const char *sentence);

struct sl_store_log {
    sl_store_event_f *on_news; /* or NULL */
    void *ctx;
    bool closing;  /* nothing is told any more */
    int told;      /* which trouble, last... */
    sl_ns told_at; /* ...and when: steady; 0: none yet */
};

void sl_store_log_tell(const struct sl_store_log *herald,
                       enum sl_store_news news, const char *sentence);

/* Is that trouble to be told now? The same one is after ten seconds. */
SL_MUST_USE bool sl_store_log_may(struct sl_store_log *herald, int trouble,
                                  sl_ns now);

/* How a take has ended: tell the breaker, and of it. *tries is its take's. */
void sl_store_log_note(const struct sl_store_log *herald,
                       struct sl_breaker *breaker, bool good, bool *tries,
                       sl_ns now, _Atomic bool *is_open);

/* ---- what each loop has of a store that is elsewhere: its seat.
 *
 * A take finds its seat without a lock, since only its own thread changes the
 * place of its loop. Whoever looks at all seats holds the lock, so that none is
 * closed meanwhile.
 */

#define SL_REMOTE_CLIENTS 256

struct sl_loop;

struct sl_remote_clients {
    pthread_mutex_t lock; /* over what follows, but for a seat's own thread */
    struct {
        struct sl_loop *_Atomic loop; /* NULL: free */
        void *seat;                   /* the store's */
    } list[SL_REMOTE_CLIENTS];
    _Atomic unsigned count; /* places up to the last that was ever taken */
};

/* All zeros before. */
void sl_remote_clients_init(struct sl_remote_clients *seats);
void sl_remote_clients_done(struct sl_remote_clients *seats);

/* The seat of this loop, asked by its thread; or NULL. */
void *sl_remote_clients_find(const struct sl_remote_clients *seats,
                             const struct sl_loop *loop);

/* SLUICE_EFULL if there are too many loops. */
SL_MUST_USE int sl_remote_clients_add(struct sl_remote_clients *seats,
                                      struct sl_loop *loop, void *seat,
                                      struct sl_diag *diag);

/* The seat that this loop had, or NULL. */
void *sl_remote_clients_remove(struct sl_remote_clients *seats,
                               const struct sl_loop *loop);

/* With the lock held: the seat at place `i` < count, or NULL. */
void *sl_remote_clients_at(const struct sl_remote_clients *seats, unsigned i);

#endif
