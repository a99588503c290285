/* intent.h -- several words changed as one, whoever dies in between.
 *
 * A change has guards and writes. A guard is a word that everyone agrees to
 * lock before touching what it guards: the first word of a cell for its slot,
 * the head of a bucket for who may be added to it, the head of a hold's record
 * (which is a cell here, too) for the hold. A cell's second word
 * changes with its guard, in one swap of sixteen bytes; a write changes a
 * tag. Guards and writes are put down in the actor's record in the region
 * before they are carried out.
 *
 *              begin            commit              finish
 *     IDLE ------------> OPEN ------------> SET ------------> IDLE
 *                         |                  :
 *                         | undo (anyone)    : complete (anyone)
 *                         v                  v
 *                        VOID               the words say it all
 *
 *   begin     sl_intent_begin: a new number, nothing locked
 *   lock      sl_intent_lock_head, sl_intent_lock_cell: swap a guard's value
 *             for our lock word
 *   commit    sl_intent_commit: OPEN -> SET. This is the instant at which the
 *             whole change happens
 *   undo      resolve: whoever waits too long swaps OPEN for VOID and puts
 *             the guard's old value back
 *   complete  resolve: whoever waits too long carries out writes and guards
 *             for him
 *   finish    sl_intent_finish: carry out, let go
 *
 * Every step is a compare-and-swap from the value that is on record, so that
 * two may carry out the same change and each step happens once.
 *
 * Single changes. A change of one cell, of a key that has its slot, needs no
 * intent: it swaps the whole cell at once (sl_swap_pair), and that is all of
 * it. It fails if the guard is locked or anything of the cell has changed, and
 * where the same cell of the same key has come back it is right. Only the tag
 * is not part of the swap. So each time that a slot goes to another key, the
 * top byte of its second word, the generation, is one more; and because that
 * begins again after 256 keys, whoever means to swap says first, in his record,
 * in which bucket, and whoever would begin again, with the guard locked, looks
 * through the records and leaves the slot to its key while somebody is there.
 *
 * Why nobody's swap meets another key: he says so, then looks at the guard,
 * which is not locked, then at the second word, then at the tag, then swaps;
 * and let the swap succeed. The generation is the same in the second look and
 * in the swap. If no change of keys was finished in between, none was under
 * way either at the look, for it would have been finished, nor at the swap,
 * for the guard was not locked; so the tag is the one that he saw. If 256 or
 * more were finished in between, one of them began the generations again. It
 * locked the guard after he had looked at it, and so after he had said that he
 * would swap; then it looked through the records, saw him, and did not happen.
 *
 * Ghosts. A process that was stopped may wake up much later and go on with a
 * change that others have completed long ago. Its swaps of guards and cells
 * fail, for a lock word carries a number that never comes again. A write could
 * succeed if the tag had come to hold the same value again; therefore it never
 * does: whoever helps marks the owner as overtaken, notes his own pending
 * write and raises `haunted`, all before he acts; and while that is up,
 * everyone looks through the records before he changes a tag, and one that a
 * ghost means to change stays as it is. When no ghost is left, `haunted` is
 * taken down.
 *
 * Why nobody slips through: a helper puts down his note, raises `haunted` and
 * then looks whether the guard is still locked by the change he helps. The
 * next owner of the guard first locks it and then reads `haunted`. One of the
 * two sees the other.
 *
 * Invariants. (test/unit/table/intent.c, ghost.c and single.c force each
 * schedule.)
 *   (1) At every instant either all changes of an intent are visible to those
 *       who respect guards, or none.
 *   (2) A lock word is resolved by anyone who finds it, whatever its owner
 *       does or does not do.
 *   (3) An actor's number moves on only when none of its lock words is left.
 *   (4) A write of a change that is over changes nothing.
 *   (5) A single change happens to the key that it was made for, or not at
 *       all.
 */
#ifndef SL_TABLE_INTENT_H
#define SL_TABLE_INTENT_H

#include "table/region.h"

#define SL_INTENT_LOCKS                                                        \
    33               /* 16 parts: the slot, and its bucket if it is new; and   \
                      * the record of a hold */
#define SL_WRITES 16 /* 16 parts: the tag if it is new */

#define SL_SWAPS 32 /* single changes that are announced together */

#define SL_LOCKED (UINT64_C(1) << 63)

/* The numbers of intents end here: at ten million a second in 57 years. */
#define SL_NUMBER_END (UINT64_C(1) << 54)

/* A head or a cell; of a head only the first words count. */
struct sl_intent_lock {
    sl_word at; /* offset of the word in the region */
    sl_word from[2];
    sl_word to[2];
};

struct sl_write {
    sl_word at;
    sl_word from;
    sl_word to;
    sl_word under; /* offset of its guard */
};

enum sl_stat {
    SL_STAT_TAKES,    /* sets decided */
    SL_STAT_DENIED,   /* of them not allowed */
    SL_STAT_INSERTED, /* keys that found a slot */
    SL_STAT_EVICTED,  /* cells that still owed something and gave way */
    SL_STAT_FULL,     /* keys that found none */
    SL_STAT_HELPED,   /* changes of others that were completed */
    SL_STAT_UNDONE,   /* changes of others that were undone */
    SL_STAT_EXPIRED,  /* holds that expired */
    SL_METRICS = 8
};

/* The record of one actor: one thread at work. A record of number n is
 * rewritten only when no guard is locked by n any more, so whoever sees such a
 * lock after reading has read the right record. */
struct sl_actor {
    sl_word status;    /* number << 2 | state */
    sl_word active;    /* the number, while the owner may still write; else 0 */
    sl_word overtaken; /* the last number that others helped with */
    sl_word owner;     /* 0 free; else who has claimed it, see actor.c */
    sl_word ghost_at;  /* a helper's own pending write; 0 none */
    sl_word swaps;     /* how many of swap_in are announced together */
    sl_word guards;    /* how many of the following are on record */
    sl_word writes;
    struct sl_intent_lock guard[SL_INTENT_LOCKS];
    struct sl_write write[SL_WRITES];
    sl_word stats[SL_METRICS]; /* counted by the owner alone */

    /* The heads of buckets in which cells may be swapped; the last one counts
     * by itself, and is 0 if there is none. */
    sl_word swap_in[SL_SWAPS + 1];
    sl_word claims; /* the head of the hold's record that it fills in; 0 none */
    char pad[4096 - 64 - SL_INTENT_LOCKS * sizeof(struct sl_intent_lock) -
             SL_WRITES * sizeof(struct sl_write) - SL_METRICS * 8 -
             (SL_SWAPS + 2) * 8];
};

static inline struct sl_actor *sl_region_actor(const struct sl_region *r,
                                               uint64_t index)
{
    return (struct sl_actor *)(r->base + sl_region_head(r)->actors_at) + index;
}

/* An actor at work: private to one thread. */
struct sl_intent {
    const struct sl_region *region;
    struct sl_actor *actor;
    uint64_t index; /* of the actor */
    uint64_t number;
    uint64_t guards;
    uint64_t writes;
    unsigned scans; /* how often ghosts were looked for */
};

/* Count something: nobody else writes there. */
static inline void sl_count(const struct sl_intent *intent, enum sl_stat stat)
{
    sl_word *word = &intent->actor->stats[stat];

    atomic_store_explicit(word,
                          atomic_load_explicit(word, memory_order_relaxed) + 1,
                          memory_order_relaxed);
}

static inline bool sl_is_locked(uint64_t word)
{
    return word & SL_LOCKED;
}

/* Bind to the actor `index`, which the caller has claimed, and clean up what
 * its last owner may have left. */
void sl_intent_init(struct sl_intent *intent, const struct sl_region *region,
                    uint64_t index);

/* Note the bucket whose head is at `head` as number `i` < SL_SWAPS of those in
 * which cells may be swapped; then say so of `count` at once, and then read
 * them. 0 takes it back. */
static inline void sl_swaps_set(const struct sl_intent *intent, unsigned i,
                                uint64_t head)
{
    atomic_store_explicit(&intent->actor->swap_in[i], head,
                          memory_order_relaxed);
}

static inline void sl_swaps_announce(const struct sl_intent *intent,
                                     unsigned count)
{
    atomic_store(&intent->actor->swaps, count);
}

static inline void sl_swaps_withdraw(const struct sl_intent *intent)
{
    atomic_store_explicit(&intent->actor->swaps, 0, memory_order_release);
}

/* Where the words of a slot are, as offsets. */
struct sl_slot_offsets {
    uint64_t head; /* of its bucket */
    uint64_t tag;
    uint64_t cell;
};

/* A single change, all of it: say so, and swap the cell for `to` if it is
 * still `from` and the slot still carries `tag`. */
SL_MUST_USE bool sl_intent_swap(struct sl_intent *intent,
                                struct sl_slot_offsets at, uint64_t tag,
                                struct sl_cell from, struct sl_cell to);

void sl_intent_begin(struct sl_intent *intent);

/* Lock the head or the cell at offset `at`, which must still hold `from`; it
 * will become `to` at commit. False if it holds something else by now (nothing
 * is locked then), or if the intent was undone by somebody who waited. */
SL_MUST_USE bool sl_intent_lock_head(struct sl_intent *intent, uint64_t at,
                                     uint64_t from, uint64_t to);
SL_MUST_USE bool sl_intent_lock_cell(struct sl_intent *intent, uint64_t at,
                                     struct sl_cell from, struct sl_cell to);

/* Set bits in what a locked head will become. */
void sl_intent_mark(struct sl_intent *intent, uint64_t at, uint64_t bits);

/* Add a write of a tag that the locked guard at `under` protects. */
void sl_intent_write(struct sl_intent *intent, uint64_t under, uint64_t at,
                     uint64_t from, uint64_t to);

/* Make it happen, and carry it out. False if somebody has undone it: then
 * nothing has happened. */
SL_MUST_USE bool sl_intent_commit(struct sl_intent *intent);

/* Drop it: nothing has happened. */
void sl_intent_drop(struct sl_intent *intent);

/* The value of a guard that is not locked; whoever holds it is waited for, and
 * then helped or undone. Not for a guard that `intent` itself has locked. */
uint64_t sl_intent_lock_read(const struct sl_intent *intent, uint64_t at);

/* Does any ghost mean to change the tag at `at`? To be asked with the guard
 * locked; before that, the answer is a good guess. */
bool sl_intent_dead_at(struct sl_intent *intent, uint64_t at);

/* Pause `count` times the shortest that the machine knows. */
void sl_pause(unsigned count);

/* May anybody else swap a cell in the bucket whose head is at `head`? To be
 * asked with the guard locked, likewise. Looks through all records. */
bool sl_swaps_any(const struct sl_intent *intent, uint64_t head);

/* Test builds can stop, kill or overtake a thread at each of these. */
enum sl_step {
    SL_STEP_SAY,     /* judged; about to say that a cell will be swapped */
    SL_STEP_SWAP,    /* about to swap a cell */
    SL_STEP_LOCK,    /* about to lock a guard */
    SL_STEP_LOCKED,  /* a guard is locked */
    SL_STEP_COMMIT,  /* about to commit */
    SL_STEP_SET,     /* committed; nothing carried out yet */
    SL_STEP_WRITE,   /* about to carry out a write */
    SL_STEP_RELEASE, /* about to release a guard */
    SL_STEP_FINISH,  /* everything carried out; about to go idle */
    SL_STEP_HELP,    /* about to carry out a write, or all, for another */
    SL_STEP_UNDO,    /* about to put back a guard for another */
    SL_STEP_CLAIM,   /* about to claim the record of a hold */
    SL_STEP_CLAIMED, /* it is claimed, and nothing is in it yet */
    SL_STEP_DUE,     /* about to change when the next hold expires */
    SL_JOURNAL
};

#ifdef SL_HOOKS
extern void (*sl_step_hook)(enum sl_step step);
#define SL_STEP(step) (sl_step_hook ? sl_step_hook(step) : (void)0)
#else
#define SL_STEP(step) ((void)0)
#endif

/* ---- who may write: a pool of records for the threads of all
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
