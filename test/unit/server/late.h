/* late.h -- a store that answers many turns later: that of memory, behind a
 * list in which takes wait until the test lets them go, one by one, in the
 * order in which they came or the other. There is one of it in a program.
 */
#ifndef SL_DOORS_LATE_H
#define SL_DOORS_LATE_H

#include <semaphore.h>
#include <stdlib.h>
#include <string.h>

#include "engine/engine.h"
#include "net/loop.h"
#include "store/store.h"

#define LATE_MOST 256

static struct {
    struct sl_store store;
    struct sl_store *memory;
    struct sl_take *waiting[LATE_MOST];
    unsigned count;
    bool backwards;
    sem_t come; /* one for each that has come */
    sem_t gone;
} late;

static int late_bind(struct sl_store *store, struct sl_limit_binding *limits,
                     unsigned count, struct sl_diag *diag)
{
    (void)store;
    return sl_store_bind(late.memory, limits, count, diag);
}

static int late_tighten(struct sl_store *store,
                        const struct sl_limit_binding *limit,
                        const struct sl_limit *strictest)
{
    (void)store;
    return sl_store_set_strictest(late.memory, limit, strictest);
}

static void late_take(struct sl_store *store, struct sl_take *take)
{
    (void)store;
    if (late.count == LATE_MOST)
        abort();
    late.waiting[late.count++] = take;
    sem_post(&late.come);
}

static void late_close(struct sl_store *store)
{
    (void)store;
    sl_store_close(late.memory);
}

static const struct sl_store_calls late_calls = {
    .bind = late_bind,
    .tighten = late_tighten,
    .take = late_take,
    .close = late_close,
};

/* An engine over it. */
static inline int late_open(struct sl_policy *policy, struct sl_engine **ret,
                            struct sl_diag *diag)
{
    struct sl_memory_options memory = {.size = 1 << 20};
    struct sl_engine_options options = {.store = &late.store};
    int err = sl_memory_open(&memory, &late.memory, diag);

    if (err)
        return err;
    sem_init(&late.come, 0, 0);
    sem_init(&late.gone, 0, 0);
    late.store.calls = &late_calls;
    late.store.secret = late.memory->secret;
    return sl_engine_open(&options, policy, ret, diag);
}

/* On the loop: one that waits is answered. */
static void late_let_one_go(void *ctx)
{
    unsigned which = late.backwards ? late.count - 1 : 0;
    struct sl_take *take = late.waiting[which];

    (void)ctx;
    late.count--;
    memmove(late.waiting + which, late.waiting + which + 1,
            (late.count - which) * sizeof(late.waiting[0]));
    sl_store_take(late.memory, take);
    sem_post(&late.gone);
}

#endif
