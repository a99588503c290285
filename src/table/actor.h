/* actor.h -- who may write: a pool of records for the threads of all
 * processes.
 *
 * A region has SL_ACTORS records. A thread borrows one for the length of a
 * call, so that as many threads may be at work at once, whichever processes
 * they belong to. A record whose process has died in the middle of a call is
 * taken from it, and what it left half done is brought to its end first.
 *
 * Who is alive: a process that has a file open holds a lock on a byte of it,
 * which the kernel drops with the process, in whatever container it lived. In
 * memory that was handed in, the process id and its start time tell. On the
 * heap there is only one process.
 */
#ifndef SL_ACTOR_H
#define SL_ACTOR_H

#include "table/intent.h"

/* What a process keeps of a record while one of its threads has it. */
struct sl_actor_slot {
    _Alignas(64) struct sl_intent intent;
};

struct sl_actors {
    const struct sl_region *region;
    uint64_t self; /* the name of this process, see actor.c */
    struct sl_actor_slot seat[SL_ACTORS];
};

void sl_actors_init(struct sl_actors *actors, const struct sl_region *region);

/* Borrow an actor for this thread; waits if all SL_ACTORS are at work, which
 * is a matter of microseconds. */
struct sl_intent *sl_actor_borrow(struct sl_actors *actors);

void sl_actor_return(struct sl_actors *actors, struct sl_intent *intent);

/* Free the records of processes that have died, so that their ghosts are laid
 * to rest. Costs system calls. */
void sl_actors_reap(struct sl_actors *actors);

#endif
