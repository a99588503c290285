/* intent.h -- several words changed as one step, even if a process dies.
 *
 * A change has locks and writes. A lock is on a word: the first word of a cell
 * (it protects the slot), the head of a bucket (it protects additions to the
 * bucket), or the head of a hold's record, which has two words like a cell. The
 * second word of a cell changes together with its lock, in one swap of sixteen
 * bytes. A write changes a tag. Locks and writes are recorded in the actor's
 * record in the region before they are carried out.
 *
 *              begin            commit              finish
 *     IDLE ------------> OPEN ------------> SET ------------> IDLE
 *                         |                  :
 *                         | undo (anyone)    : complete (anyone)
 *                         v                  v
 *                        VOID               all words are changed
 *
 *   begin     sl_intent_begin: a new number, nothing locked
 *   lock      sl_intent_lock_head, sl_intent_lock_cell: swap a value for our
 *             lock word
 *   commit    sl_intent_commit: OPEN -> SET. The whole change happens here
 *   undo      resolve: a thread that waits too long swaps OPEN for VOID and
 *             restores the old value
 *   complete  resolve: a thread that waits too long carries out the change
 *   finish    release: carry out, unlock
 *
 * Every step is a compare-and-swap from the recorded value. Two threads may
 * carry out the same change, and each step happens once.
 *
 * Single changes. A change of one cell whose key has a slot needs no intent: it
 * swaps the whole cell (sl_swap_pair). The swap fails if the cell is locked or
 * has changed. If it has changed and changed back, the swap is still right, as
 * long as the key is the same. But the tag is not part of the swap. So each new
 * key of a slot increments the top byte of the second word, the generation. It
 * wraps after 256 keys. Therefore a thread announces the bucket in its record
 * before it swaps. A thread that would wrap a generation locks the slot, looks
 * through the records, and leaves the slot to its key while a swap in the
 * bucket is announced.
 *
 * Proof that a swap never meets another key: the thread announces, then reads
 * lock (unlocked), second word and tag, then swaps, and the swap succeeds. The
 * generation is the same in the read and in the swap. So in between either no
 * change of keys was finished, or 256 or more were. In the first case none was
 * under way, either: one that was not finished would lock the cell, and the
 * swap would fail. So the tag is the one that was read. In the second case one
 * of them wrapped the generation. It locked the cell after the read, hence
 * after the announcement, then saw the announcement in the records, and did not
 * happen.
 *
 * Dead intents. A stopped process may wake up late and continue a change that
 * others have completed. Its swaps of locks and cells fail, because the number
 * in a lock word never repeats. A write could succeed if the tag had the same
 * value again. To prevent this, a helper marks the owner as overtaken, records
 * its own pending write and raises `has_dead` before it acts. While `has_dead`
 * is raised, every thread looks through the records before it changes a tag,
 * and leaves a tag that a dead intent may still write. `has_dead` is cleared
 * when no dead intent is left.
 *
 * Proof that none is missed: a helper records its write, raises `has_dead` and
 * then checks that the word is still locked by the change. The next owner of
 * the lock first locks it and then reads `has_dead`. One sees the other.
 *
 * Invariants. (test/unit/table/intent.c, recovery.c and set_one.c force each
 * schedule.)
 *   (1) At every instant all changes of an intent are visible to threads that
 *       respect locks, or none is.
 *   (2) Any thread that finds a lock word can resolve it, whatever its owner
 *       does.
 *   (3) An actor's number increases only when none of its lock words is left.
 *   (4) A write of a finished change changes nothing.
 *   (5) A single change happens to the key that it was made for, or not at all.
 */
#ifndef SL_TABLE_INTENT_H
#define SL_TABLE_INTENT_H

#include "table/region.h"

/* 16 parts: the slot, and the bucket of a new key; and the record of a hold. */
#define SL_INTENT_LOCKS 33
#define SL_WRITES       16 /* the tags of new keys */
#define SL_SWAPS        32 /* single changes that are announced together */

#define SL_LOCKED (UINT64_C(1) << 63)

/* Limit of intent numbers: 57 years at ten million a second. */
#define SL_NUMBER_END (UINT64_C(1) << 54)

/* A head or a cell. Of a head only from[0] and to[0] are used. */
struct sl_intent_lock {
    sl_word at; /* offset of the word in the region */
    sl_word from[2];
    sl_word to[2];
};

struct sl_write {
    sl_word at;
    sl_word from;
    sl_word to;
    sl_word under; /* offset of the lock that protects it */
};

enum sl_stat {
    SL_STAT_TAKES,    /* sets decided */
    SL_STAT_DENIED,   /* sets denied */
    SL_STAT_INSERTED, /* new keys that got a slot */
    SL_STAT_EVICTED,  /* evicted cells with usage */
    SL_STAT_FULL,     /* new keys without a slot */
    SL_STAT_HELPED,   /* changes of other threads completed */
    SL_STAT_UNDONE,   /* changes of other threads undone */
    SL_STAT_EXPIRED,  /* holds */
    SL_METRICS = 8
};

/* The record of one actor: one working thread. It is rewritten for the next
 * number only when no word is locked by this number. A reader that still sees
 * the lock after reading has read the right record. */
struct sl_actor {
    sl_word status;    /* number << 2 | state */
    sl_word active;    /* the number while the owner may still write; else 0 */
    sl_word overtaken; /* the last number that others helped with */
    sl_word owner;     /* 0: free; else the name of a process, see actor.c */
    sl_word help_at;   /* offset of a helper's pending write; 0: none */
    sl_word swaps;     /* number of entries of swap_in that are announced */
    sl_word locks;     /* number of entries below */
    sl_word writes;
    struct sl_intent_lock lock[SL_INTENT_LOCKS];
    struct sl_write write[SL_WRITES];
    sl_word stats[SL_METRICS]; /* written by the owner only */

    /* Heads of buckets in which cells may be swapped. The last entry is for
     * sl_intent_swap(); 0: none. */
    sl_word swap_in[SL_SWAPS + 1];
    sl_word claims;    /* head of the hold record being filled in; 0: none */
    sl_word forgotten; /* units that evicted cells owed; as stats */
    char pad[4096 - 64 - SL_INTENT_LOCKS * sizeof(struct sl_intent_lock) -
             SL_WRITES * sizeof(struct sl_write) - SL_METRICS * 8 -
             (SL_SWAPS + 3) * 8];
};

static inline struct sl_actor *sl_region_actor(const struct sl_region *r,
                                               uint64_t index)
{
    return (struct sl_actor *)(r->base + sl_region_head(r)->actors_at) + index;
}

/* A working actor; private to one thread. */
struct sl_intent {
    const struct sl_region *region;
    struct sl_actor *actor;
    uint64_t index; /* of the actor */
    uint64_t number;
    uint64_t locks;
    uint64_t writes;
    unsigned scans; /* searches for dead intents */
};

/* Adds to a word that only its owner writes. */
static inline void sl_add_own(sl_word *word, uint64_t more)
{
    atomic_store_explicit(
        word, atomic_load_explicit(word, memory_order_relaxed) + more,
        memory_order_relaxed);
}

static inline void sl_count(const struct sl_intent *intent, enum sl_stat stat)
{
    sl_add_own(&intent->actor->stats[stat], 1);
}

/* Counts an evicted cell that owed `units`. */
static inline void sl_count_evicted(const struct sl_intent *intent,
                                    uint64_t units)
{
    sl_count(intent, SL_STAT_EVICTED);
    sl_add_own(&intent->actor->forgotten, units);
}

static inline bool sl_is_locked(uint64_t word)
{
    return word & SL_LOCKED;
}

/* Binds to the actor `index`, which the caller has claimed. Completes or undoes
 * what its last owner left. */
void sl_intent_init(struct sl_intent *intent, const struct sl_region *region,
                    uint64_t index);

/* Sets entry `i` < SL_SWAPS of the buckets in which cells may be swapped.
 * Announce `count` entries before the cells are read. */
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

void sl_intent_begin(struct sl_intent *intent);

/* Locks the head or the cell at offset `at`, which must still be `from` and
 * becomes `to` at commit. False: it has changed (then it is not locked), or a
 * waiting thread has undone the intent. */
SL_MUST_USE bool sl_intent_lock_head(struct sl_intent *intent, uint64_t at,
                                     uint64_t from, uint64_t to);
SL_MUST_USE bool sl_intent_lock_cell(struct sl_intent *intent, uint64_t at,
                                     struct sl_cell from, struct sl_cell to);

/* Sets bits in the new value of a locked head. */
void sl_intent_mark(struct sl_intent *intent, uint64_t at, uint64_t bits);

/* Adds a write of a tag, protected by the lock at `under`. */
void sl_intent_write(struct sl_intent *intent, uint64_t under, uint64_t at,
                     uint64_t from, uint64_t to);

/* Commits and carries out. False: another thread has undone the intent, and
 * nothing has changed. */
SL_MUST_USE bool sl_intent_commit(struct sl_intent *intent);

/* Ends the intent without a change. */
void sl_intent_drop(struct sl_intent *intent);

/* The unlocked value of the word at `at`. Waits for the owner of a lock, then
 * completes or undoes its change. Not for words locked by `intent` itself. */
uint64_t sl_intent_lock_read(const struct sl_intent *intent, uint64_t at);

/* May a dead intent still write the tag at `at`? Exact while the slot is
 * locked, otherwise a good guess. */
bool sl_intent_dead_at(struct sl_intent *intent, uint64_t at);

void sl_pause(unsigned count);

/* Has another thread announced a swap in the bucket with this head? Exact while
 * the slot is locked. Reads all records. */
bool sl_swaps_any(const struct sl_intent *intent, uint64_t head);

/* Test builds can stop or kill a thread at each of these steps. */
enum sl_step {
    SL_STEP_SAY,     /* about to announce the swap of a cell */
    SL_STEP_SWAP,    /* about to swap a cell */
    SL_STEP_LOCK,    /* about to lock a word */
    SL_STEP_LOCKED,  /* a word is locked */
    SL_STEP_COMMIT,  /* about to commit */
    SL_STEP_SET,     /* committed; nothing carried out yet */
    SL_STEP_WRITE,   /* about to carry out a write */
    SL_STEP_RELEASE, /* about to unlock a word */
    SL_STEP_FINISH,  /* all carried out; about to become idle */
    SL_STEP_HELP,    /* about to carry out a write, or all, of another thread */
    SL_STEP_UNDO,    /* about to restore a word for another thread */
    SL_STEP_CLAIM,   /* about to claim the record of a hold */
    SL_STEP_CLAIMED, /* claimed, still empty */
    SL_STEP_DUE,     /* about to change the next expiry */
    SL_JOURNAL
};

#ifdef SL_HOOKS
extern void (*sl_step_hook)(enum sl_step step);
#define SL_STEP(step) (sl_step_hook ? sl_step_hook(step) : (void)0)
#else
#define SL_STEP(step) ((void)0)
#endif

/* ---- actors: records that the threads of all processes borrow.
 *
 * A region has SL_ACTORS records. A thread borrows one for the length of a
 * call. If a process dies during a call, its record is taken from it after its
 * change was completed or undone.
 *
 * Liveness: a process that has a file open holds a lock on one byte of it. The
 * kernel releases the lock when the process ends, in any container. In memory
 * given by the caller, process id and start time identify a process. On the
 * heap there is only one process.
 */

/* The private part of a record while a thread of this process has it. */
struct sl_actor_slot {
    _Alignas(64) struct sl_intent intent;
};

struct sl_actors {
    const struct sl_region *region;
    uint64_t self; /* name of this process, see actor.c */
    struct sl_actor_slot slot[SL_ACTORS];
};

void sl_actors_init(struct sl_actors *actors, const struct sl_region *region);

/* Completes or undoes the changes of dead processes and frees their records.
 * Makes system calls. */
void sl_actors_reap(struct sl_actors *actors);

/* The last record of this thread; SL_ACTORS: none yet. Not initial-exec: then
 * programs could not load libsluice or the nginx module by dlopen(), if little
 * static storage for threads is left. */
extern _Thread_local uint64_t sl_actor_last;

/* Borrows any actor; waits, usually microseconds, while all SL_ACTORS are in
 * use. */
struct sl_intent *sl_actor_borrow_any(struct sl_actors *actors);

/* Borrows the record `at` if it is free; else NULL. */
static inline struct sl_intent *sl_actor_try(struct sl_actors *actors,
                                             uint64_t at)
{
    struct sl_intent *intent = &actors->slot[at].intent;
    struct sl_actor *a = intent->actor;
    uint64_t none = 0;

    if (atomic_load_explicit(&a->owner, memory_order_relaxed) != 0 ||
        !atomic_compare_exchange_strong(&a->owner, &none, actors->self))
        return NULL;
    intent->number = atomic_load(&a->status) >> 2;
    return intent;
}

/* Borrows an actor for this thread. A thread tries its last record first, so
 * that each soon has its own. */
static inline struct sl_intent *sl_actor_borrow(struct sl_actors *actors)
{
    uint64_t last = sl_actor_last;
    struct sl_intent *intent = NULL;

    if (last < SL_ACTORS)
        intent = sl_actor_try(actors, last);
    return intent ? intent : sl_actor_borrow_any(actors);
}

static inline void sl_actor_return(struct sl_actors *actors,
                                   struct sl_intent *intent)
{
    bool reap = intent->scans > 1000;

    if (reap)
        intent->scans = 0;
    atomic_store_explicit(&intent->actor->owner, 0, memory_order_release);
    if (reap)
        sl_actors_reap(actors);
}

#endif
