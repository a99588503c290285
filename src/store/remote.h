/* remote.h -- the part that all remote stores share: one client for each loop,
 * store ops and their deadlines, the circuit breaker, the denial cache, leases,
 * refunds of late takes, statistics and the log of the store's status.
 *
 *     take --> leases --> denial cache --> breaker --> encode, send --> reply
 *                                                         |             |
 *          deadline: the take fails; the op is cancelled, |             |
 *          or goes on without its take <------------------+             |
 *                                         |                             |
 *                       late success: refunded            answered <----+
 *
 * A back end (Redis, DynamoDB) encodes, sends and decodes: struct
 * sl_remote_backend. Invariants of an op:
 *   (1) It is in `waiting` exactly as long as it has a take, a hold call or a
 *       repeat call.
 *   (2) Its owner frees it after its request has completed or was cancelled.
 *       The take's done() has run by then.
 *   (3) done() runs once. It may start the next take in the same memory, so
 *       nothing here touches the take after it.
 */
#ifndef SL_STORE_REMOTE_H
#define SL_STORE_REMOTE_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>

#include "base/base.h"
#include "base/diag.h"
#include "base/hash.h"
#include "net/loop.h"
#include "store/lease_cache.h"
#include "store/repeats.h"

/* ---- store identity: the secret and the epoch that are kept in the store ----
 */

#define SL_STORE_IDENTITY 32 /* hex digits of a secret or an epoch */
#define SL_STORE_PROCESS  40 /* bytes of the name of a server process */

struct sl_store_identity {
    pthread_mutex_t lock;
    struct sl_store *store;    /* it publishes the secret */
    struct sl_hash_key secret; /* written once, before it is published */
    bool has_secret, has_epoch;
    char secret_text[SL_STORE_IDENTITY + 1]; /* proposed, or read */
    char epoch[SL_STORE_IDENTITY + 1];
    _Atomic uint64_t epochs;            /* changes of the epoch */
    char process[SL_STORE_PROCESS + 1]; /* "": not known */
    uint64_t process_epochs;            /* `epochs` when it was read */
    _Atomic uint64_t restarts; /* changes of the process, not of the epoch */
    _Atomic bool memory_asked;
    struct sl_denial_forgets forgets;
};

SL_MUST_USE int sl_store_identity_init(struct sl_store_identity *identity,
                                       struct sl_store *store);
void sl_store_identity_done(struct sl_store_identity *identity);

/* Copies the secret to write if the store has none. */
void sl_store_identity_secret(struct sl_store_identity *identity,
                              char ret[SL_STORE_IDENTITY + 1]);
SL_MUST_USE int sl_store_identity_fresh(char ret[SL_STORE_IDENTITY + 1]);

/* Reads what the store has. Returns false if the text is malformed.
 * *ret_changed: it differs from the last one. The first secret is kept even
 * then. */
SL_MUST_USE bool
sl_store_identity_see_secret(struct sl_store_identity *identity,
                             struct sl_str text, bool *ret_changed);
SL_MUST_USE bool sl_store_identity_see_epoch(struct sl_store_identity *identity,
                                             struct sl_str text,
                                             bool *ret_changed);

/* Reads the name of the process that serves the store. Returns true if it is
 * another one with the same epoch. */
bool sl_store_identity_see_process(struct sl_store_identity *identity,
                                   struct sl_str text);

/* ---- circuit breaker: stops calls to a store that does not answer.
 *
 *     CLOSED --failures (*)--> OPEN
 *        ^                      |
 *        +--a probe succeeded---+
 *
 * (*) 5 in a row, or at least half of 20 or more answers within one second.
 *
 * While the breaker is open, takes fail at once. One probe passes from time to
 * time, and the next probe waits for its end. A client without traffic sends a
 * probe of its own. The time between probes is
 * jittered, so that many daemons do not probe at one instant.
 *
 * Pure: the caller passes the time.
 */

struct sl_breaker {
    struct sl_jitter jitter;
    bool is_open;
    bool probing;    /* a probe is in flight */
    sl_ns probe_at;  /* OPEN: the earliest next probe */
    unsigned in_row; /* failures */
    sl_ns began;     /* of the second that is counted */
    unsigned good, bad;
};

/* May a take be sent now? *ret_probe: it is a probe, and its end must be
 * recorded or cancelled. */
bool sl_breaker_allows(struct sl_breaker *breaker, sl_ns now, bool *ret_probe);

/* Records how a take ended. Returns true if that opened or closed the breaker.
 */
bool sl_breaker_record(struct sl_breaker *breaker, bool good, bool probe,
                       sl_ns now);

/* A take ended without being sent. */
void sl_breaker_cancel(struct sl_breaker *breaker, bool probe);

/* Time until the next probe; 0 while the breaker is closed. */
sl_ns sl_breaker_probe_in(const struct sl_breaker *breaker, sl_ns now);

/* ---- status log of one client: each event once, the same error at most every
 * ten seconds ---- */

enum sl_store_event {
    SL_STORE_EVENT_UP,      /* it is reachable */
    SL_STORE_EVENT_DOWN,    /* it is not, and why */
    SL_STORE_EVENT_OPENED,  /* the breaker opened: takes fail at once */
    SL_STORE_EVENT_CLOSED,  /* the breaker closed */
    SL_STORE_EVENT_TROUBLE, /* the store replied with an error */
    SL_STORE_EVENT_CHANGED, /* its secret or epoch changed */
};

/* The sentence has no secrets and no full stop. */
typedef void sl_store_event_f(void *ctx, enum sl_store_event event,
                              const char *sentence);

struct sl_store_log {
    sl_store_event_f *on_event; /* or NULL */
    void *ctx;
    bool closing;    /* nothing is written any more */
    int last_error;  /* written last... */
    sl_ns last_time; /* ...at this monotonic time; 0: none yet */
};

void sl_store_log_write(const struct sl_store_log *log,
                        enum sl_store_event event, const char *sentence);

/* Is this error to be written now? The same one is, after ten seconds. */
SL_MUST_USE bool sl_store_log_is_due(struct sl_store_log *log, int error,
                                     sl_ns now);

/* ---- statistics ---- */

/* Counted by the client's thread, read by others. */
#define SL_REMOTE_COUNTERS(X)                                                  \
    X(asked)        /* requests sent; DynamoDB only */                         \
    X(taken)        /* takes answered in time */                               \
    X(late)         /* deadlines that passed */                                \
    X(failed)       /* not sent, lost, or answered with an error */            \
    X(returned)     /* late, had succeeded, and were refunded */               \
    X(uncertain)    /* the outcome is not known */                             \
    X(strange)      /* stored values not written by Sluice */                  \
    X(wrong_type)   /* failed: the key is another program's */                 \
    X(repaired)     /* Redis did not know the script */                        \
    X(remembered)   /* denied by the denial cache */                           \
    X(spanning)     /* sets over several slots, or several rows without        \
                     * transactions: failed */                                 \
    X(redirected)   /* redirected to another cluster node */                   \
    X(storms)       /* redirected too often: failed */                         \
    X(unmet)        /* DynamoDB conditions not met; most were retried */       \
    X(throttled)    /* DynamoDB replies that say so */                         \
    X(leased)       /* takes decided by leases */                              \
    X(lease_tokens) /* taken in advance */                                     \
    X(lease_over)   /* spent of leases that the store no longer knew */        \
    X(lease_under)  /* taken in advance, not spent, and lost */

struct sl_remote_counts {
#define SL_REMOTE_FIELD(name) _Atomic uint64_t name;
    SL_REMOTE_COUNTERS(SL_REMOTE_FIELD)
#undef SL_REMOTE_FIELD
    _Atomic bool up, ready, open;
    _Atomic unsigned under_way;
    _Atomic sl_ns ahead;
    _Atomic sl_ns latency;
};

#define SL_REMOTE_COUNT(client, name)                                          \
    atomic_fetch_add_explicit(&(client)->counts.name, 1, memory_order_relaxed)

/* Sums over all clients, closed ones included. */
struct sl_remote_stats {
#define SL_REMOTE_FIELD(name) uint64_t name;
    SL_REMOTE_COUNTERS(SL_REMOTE_FIELD)
#undef SL_REMOTE_FIELD
    uint64_t epochs;    /* changes of the epoch */
    uint64_t restarts;  /* of its server, with the same epoch */
    unsigned under_way; /* ops in flight */
    unsigned up, ready, clients;
    bool open;   /* the breaker of any client */
    sl_ns ahead; /* of the server's clock, against ours; SL_NS_NONE: unknown */
    sl_ns latency; /* the shortest of some seconds, of the slowest client; 0:
                    * unknown */
};

/* ---- the store ---- */

#define SL_REMOTE_CLIENTS 256

struct sl_remote_options {
    sl_ns deadline;          /* 0: 20 ms; a take's own may be earlier */
    bool own_now;            /* test builds: take->now is the time */
    unsigned in_flight_most; /* ops of one loop; 0: the back end's default */
    unsigned denials_most;   /* cached denials of one loop; 0: 1024 */
    bool no_denials;         /* no denial cache */
    unsigned leases_most;    /* keys of one loop; 0: 4096 */
    bool no_leases;          /* nothing is taken in advance */
    const struct sl_alloc *alloc;
    /* Runs on the loop's thread. It must not call this store. */
    sl_store_event_f *on_event;
    void *ctx;
};

struct sl_remote_backend;
struct sl_remote_client;
struct sl_remote_probe;

/* The back end's store begins with it. */
struct sl_remote_store {
    struct sl_store store; /* first */
    struct sl_repeats repeats;
    const struct sl_remote_backend *backend;
    struct sl_remote_options options;
    struct sl_store_identity identity;
    /* A take finds its client without the lock, since only the loop's own
     * thread changes the entry of its loop. Every other reader holds it. */
    pthread_mutex_t lock;
    struct {
        struct sl_loop *_Atomic loop; /* NULL: free */
        struct sl_remote_client *client;
    } clients[SL_REMOTE_CLIENTS];
    _Atomic unsigned client_count; /* entries up to the last one ever used */
    struct sl_remote_stats closed; /* of closed clients; under the lock */
};

/* Opens a client for `loop`: before the loop runs, or on its thread.
 * SLUICE_EFULL: too many loops. */
SL_MUST_USE int sl_remote_store_attach(struct sl_store *store,
                                       struct sl_loop *loop,
                                       struct sl_diag *diag);

/* Closes it; ops in flight fail. On the loop's thread, or after it has stopped;
 * not from within a take's done(). */
void sl_remote_store_detach(struct sl_store *store, struct sl_loop *loop);

/* Returns all leases of this loop and takes no more. On the loop's thread.
 * `now` is used with own_now only. */
void sl_remote_store_drain(struct sl_store *store, struct sl_loop *loop,
                           sl_ns now);

/* Has every client read the secret? From any thread. */
bool sl_remote_store_is_ready(const struct sl_store *store);

/* How long after a failed take a retry is useful: the next attempt to connect
 * or to probe; 0: at once. On the loop's thread. */
sl_ns sl_remote_store_retry_in(const struct sl_store *store,
                               const struct sl_loop *loop);

/* The memory of repeats in the store, which lives as long as it. */
struct sl_repeats *sl_remote_store_repeats(struct sl_store *store);

/* From any thread. */
void sl_remote_store_stats(const struct sl_store *store,
                           struct sl_remote_stats *ret);

/* ---- for back ends ---- */

struct sl_remote_op {
    TAILQ_ENTRY(sl_remote_op) links; /* in flight, or spare */
    TAILQ_ENTRY(sl_remote_op) waits; /* by deadline */
    struct sl_remote_client *client;
    struct sl_take *take;          /* NULL: answered, or not a take */
    struct sl_hold_call *hold;     /* NULL: answered, or not a hold call */
    struct sl_repeat_call *repeat; /* likewise; a DROP has none */
    enum sl_take_op kind;
    bool is_hold;    /* a hold call, also after its answer */
    bool is_repeat;  /* a call to the memory of repeats, likewise */
    bool probe;      /* of the breaker */
    bool keep_taken; /* a late success is not refunded */
    bool is_refund;  /* it refunds a late take, or: */
    bool ends_lease; /* it returns what is left of a lease */
    unsigned place;  /* the back end's: a cluster slot */
    sl_ns sent;      /* monotonic, or take->now: sl_remote_client_time() */
    sl_ns began;     /* monotonic */
    sl_ns deadline;  /* monotonic */
    struct sl_denial_key denial;
    struct sl_lease_requests leases; /* sent with it; count 0: none */
};

TAILQ_HEAD(sl_remote_ops, sl_remote_op);

struct sl_remote_client {
    struct sl_remote_store *store;
    const struct sl_remote_backend *backend; /* the store's */
    const struct sl_remote_options *options; /* the store's */
    struct sl_store_identity *identity;      /* the store's */
    struct sl_loop *loop;
    struct sl_denial_cache *denials; /* NULL: none yet */
    struct sl_lease_cache *leases;   /* NULL: none yet */
    struct sl_timer *lease_timer, *timer, *probe_timer;
    struct sl_remote_probe *probe; /* of the store without traffic */
    struct sl_breaker breaker;
    struct sl_remote_ops waiting; /* by deadline */
    struct sl_remote_ops in_flight, spare;
    unsigned in_flight_count, spare_count;
    bool closing;
    bool draining;                  /* nothing is leased any more */
    struct sl_remote_op *answering; /* its take fails now, and it goes on */
    sl_ns shortest;                 /* round trip since `measured`; 0: none */
    sl_ns measured;                 /* monotonic: when counts.latency was set */
    struct sl_store_log log;
    struct sl_remote_counts counts;
};

struct sl_remote_backend {
    size_t store_size, client_size, op_size; /* each begins with the frame's */
    unsigned spares;                         /* ops kept for reuse */
    sl_lease_keep_f *keep_part;              /* for leases */
    bool leases_shrink; /* with time: the store forgets leases */
    void (*store_close)(struct sl_remote_store *store); /* or NULL */

    /* client_stop() ends all ops. Both accept a client that open() left half
     * built. */
    int (*client_open)(struct sl_remote_client *client);
    void (*client_stop)(struct sl_remote_client *client);
    void (*client_close)(struct sl_remote_client *client);

    /* Where the take goes; false: it can't be sent. NULL: place 0. */
    bool (*place)(struct sl_remote_client *client, const struct sl_take *take,
                  unsigned *ret);
    bool (*accepts)(const struct sl_remote_client *client, unsigned place);
    sl_ns (*reconnect_in)(const struct sl_remote_client *client); /* or NULL */
    void (*stats)(const struct sl_remote_client *client,
                  struct sl_remote_stats *ret); /* or NULL: adds its own */

    /* op_init() gets zeroed memory; op_reset() prepares an op for reuse. */
    int (*op_init)(struct sl_remote_op *op);
    void (*op_reset)(struct sl_remote_op *op);
    void (*op_done)(struct sl_remote_op *op);

    /* Each writes the request into the op. `keys` is NULL, or the leases to
     * request with sl_remote_op_request_leases(). */
    int (*encode_take)(struct sl_remote_op *op, struct sl_take *take,
                       const struct sl_lease_keys *keys);
    int (*encode_hold)(struct sl_remote_op *op,
                       struct sl_hold_call *call); /* NULL: no holds */
    /* A call to the memory of repeats: as an op, whose place it also sets, or
     * by the back end alone. One of them is NULL. */
    int (*encode_repeat)(struct sl_remote_op *op,
                         const struct sl_repeat_call *call);
    void (*repeat)(struct sl_remote_client *client,
                   struct sl_repeat_call *call);
    int (*encode_refund)(struct sl_remote_op *op); /* after a late success */
    int (*encode_lease_end)(struct sl_remote_op *op,
                            const struct sl_lease_end *end, sl_ns now);
    void (*send)(struct sl_remote_op *op);

    /* At the deadline. True: the op has ended and did nothing. False: it goes
     * on; *ret_uncertain: the store may do it. */
    bool (*cancel)(struct sl_remote_op *op, bool *ret_uncertain);
};

/* Opens a store of this back end; *ret begins with zeros behind the frame's
 * part. Closed by sl_store_close(). */
SL_MUST_USE int sl_remote_store_open(const struct sl_remote_backend *backend,
                                     const struct sl_remote_options *options,
                                     struct sl_remote_store **ret,
                                     struct sl_diag *diag);

/* An op of no kind; NULL: out of memory. */
struct sl_remote_op *sl_remote_op_new(struct sl_remote_client *client);

/* (2) Leases still requested are lost. */
void sl_remote_op_free(struct sl_remote_op *op);

/* The op succeeded. A take or hold call that waits is answered; the back end
 * has filled it in. `cacheable`: a denial may be cached. */
void sl_remote_op_succeed(struct sl_remote_op *op, bool cacheable);

/* It succeeded after its take had failed. Returns true if it goes on as a
 * refund. `taken`: the take was allowed. */
SL_MUST_USE bool sl_remote_op_late(struct sl_remote_op *op, bool taken);

enum sl_remote_result {
    SL_REMOTE_NOT_DONE,  /* nothing has happened */
    SL_REMOTE_REJECTED,  /* likewise, and the store works */
    SL_REMOTE_ERROR,     /* the store replied with an error */
    SL_REMOTE_UNCERTAIN, /* it may have happened */
};

/* The op failed; so does its take or hold call. */
void sl_remote_op_fail(struct sl_remote_op *op, enum sl_remote_result result);

/* Forgets cached denials, if the op frees something: when it is sent, and when
 * it has ended. */
void sl_remote_op_forget(const struct sl_remote_op *op);

/* Fills op->leases with the leases that a take requests and returns. `near` is
 * the server's time. */
void sl_remote_op_request_leases(struct sl_remote_op *op,
                                 const struct sl_take *take,
                                 const struct sl_lease_keys *keys, sl_ns near);

/* The leases of the op were granted or have ended: counts them. */
void sl_remote_op_leases_granted(struct sl_remote_op *op,
                                 const struct sl_lease_counts *counts);

/* They were not. `not_sent`: nothing has happened. */
void sl_remote_op_leases_lost(struct sl_remote_op *op, bool not_sent);

/* The clock of denials and leases. */
static inline sl_ns sl_remote_client_time(const struct sl_remote_client *client,
                                          const struct sl_take *take)
{
    return client->options->own_now ? take->now : sl_loop_mono(client->loop);
}

#endif
