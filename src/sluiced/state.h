/* state.h -- the table that limits are kept in, and that no other daemon uses.
 *
 * A state file can be shared by processes, each with its own engine; but two
 * daemons on one file are a mistake nearly always (a second one started by
 * hand, a unit that was copied), so a daemon locks `PATH.lock` beside it. The
 * lock ends with the process, however that ends.
 */
#ifndef SL_STATE_H
#define SL_STATE_H

#include "sluiced/settings.h"
#include "store/store.h"

struct sl_state {
    struct sl_store *store; /* or NULL once an engine has taken it over */
    struct sl_table *table; /* of it */
    int lock;               /* or -1 */
    uint64_t wanted, size;  /* of the table; one that was there keeps its own */
};

/* Open the state that the settings name. `now` is the clock of decisions, as
 * in struct sl_memory_options. 0 or SL_EXIT_STORE with what to do; either way
 * sl_state_close() gives everything back. */
SL_MUST_USE int sl_state_open(struct sl_state *state,
                              const struct sl_settings *settings,
                              sl_ns (*now)(void *ctx), void *now_ctx,
                              struct sl_diag *diag);
void sl_state_close(struct sl_state *state);

#endif
