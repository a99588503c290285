/* check.h -- one question to the engine, answered at once or later.
 *
 * A store in this process answers before the question returns; one across a
 * network, or a registry that must look a caller up, many turns of the loop
 * later. Whoever asks is told by done() in both cases and should not care
 * which it was.
 *
 *     sl_check_begin() --> who? --> his subjects --> sl_decide_begin()
 *                                                        |
 *                  done() <-- sl_decide_took() <-- the store's take
 *
 * A station is what one thread has at hand when it decides; all its questions
 * share it. An ask is used for one question after another, so that it keeps
 * its memory, and the policy in force that it holds.
 */
#ifndef SL_ENGINE_CHECK_H
#define SL_ENGINE_CHECK_H

#include "engine/engine.h"
#include "engine/wait.h"

struct sl_loop;

/* Zeros are good: nobody's token is believed, nobody is registered, and the
 * store answers at once. */
struct sl_engine_ctx {
    struct sl_loop *loop;         /* of this thread; NULL: none */
    struct sl_tokens *tokens;     /* NULL: no token is believed */
    struct sl_subjects *subjects; /* NULL: there is no registry */
    struct sl_usage_sink *meter;  /* NULL: nobody keeps books of usage */
    sl_webhook_f *webhook;        /* NULL: no webhook is believed */
    struct sl_wait_thread *room;  /* where questions wait; NULL: none does */
};

struct sl_check {
    struct sl_decision decision; /* the answer, if err is 0 */
    int err; /* as of sl_decide_begin(); the sentence is in diag */
    struct sl_diag diag;
    struct sl_active_policy *live; /* held: what the decision points into */
    void (*done)(struct sl_check *ask);
    void *ctx; /* the asker's, as is `done` */

    /* The engine's own. */
    struct sl_engine *engine;
    const struct sl_engine_ctx *station;
    const struct sl_request *facts;
    unsigned sides, side; /* how many facts, and which is looked at */
    bool spend;
    bool busy; /* asked, and not answered yet */
    struct sl_auth_info known;
    struct sl_lookup lookups[2]; /* the user, the organisation */
    unsigned lookups_open;
    sl_ns lookups_until; /* steady; 0: nobody has waited for them yet */
    bool has_waited; /* for the registry: the token must be looked at again */

    /* The asker's, or NULL: its first take is about to be carried out. If it
     * `may`, it can as well be left to a sl_check_start() before this turn
     * ends, by returning true; what it needs is fetched meanwhile. It is
     * answered at once then. */
    bool (*defers)(struct sl_check *ask, bool may);

    /* Waiting for a turn; wait/turn.h. */
    void (*waits)(struct sl_check *ask); /* the asker's: it does now; or NULL */
    bool no_wait;   /* the asker's: it does not, whatever the route says */
    bool in_turn;   /* it has waited, or does */
    bool gone;      /* nobody waits for it any more */
    sl_ns wait;     /* how long it may; 0: not at all */
    sl_ns estimate; /* how long it was thought to take; SL_NS_NONE */
    struct sl_waiter waiter;
    struct sl_request again; /* what is asked when its turn comes */
};

void sl_check_init(struct sl_check *ask, struct sl_engine *engine,
                   const struct sl_engine_ctx *station,
                   const struct sl_alloc *alloc);

/* Not while it is busy. */
void sl_check_done(struct sl_check *ask);

/* Hold the policy in force now, for those who read it before they ask. The
 * next sl_check_begin() decides by it. */
struct sl_active_policy *sl_check_hold(struct sl_check *ask);

/* Ask. `facts` and what they point to stay until done(), which is called once:
 * perhaps before this returns. */
void sl_check_begin(struct sl_check *ask, const struct sl_request *facts,
                    bool spend);

/* The same with `count` sides, whose facts stand in a row: one decision over
 * all of them. See decide.h. */
void sl_check_descriptors(struct sl_check *ask, const struct sl_request *facts,
                          unsigned count, bool spend);

/* Carry out what was deferred. */
void sl_check_start(struct sl_check *ask);

/* Whoever asked has gone: if it waits for its turn it is answered now. */
void sl_check_cancel(struct sl_check *ask);

/* After an answer: let the keys of its limits have used nothing, in the store
 * and in the local table. done() is called again; the decision is of no more
 * use then. SLUICE_ESTORE. */
void sl_check_reset(struct sl_check *ask);

#endif
