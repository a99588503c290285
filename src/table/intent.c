/* intent.c -- several words changed as one step. The protocol is in intent.h.
 */
#include "table/intent.h"

#include <assert.h>

#ifdef SL_HOOKS
void (*sl_step_hook)(enum sl_step step);
#endif

/* Pauses, with growing gaps between reads, before the owner of a lock is helped
 * or undone. A change takes well under a microsecond; this is several. */
#define PATIENCE 256

enum state { IDLE, OPEN, SET, VOID };

#define NUMBER_BITS 55
#define NUMBER_MASK ((UINT64_C(1) << NUMBER_BITS) - 1)

static_assert(sizeof(struct sl_actor) == 4096, "actors are pages");
static_assert(SL_ACTORS <= 1 << (63 - NUMBER_BITS), "actors fit a lock word");

static uint64_t lock_word(uint64_t actor, uint64_t number)
{
    return SL_LOCKED | actor << NUMBER_BITS | number;
}

static uint64_t status_of(uint64_t number, enum state state)
{
    return number << 2 | state;
}

static void put(sl_word *word, uint64_t value)
{
    atomic_store_explicit(word, value, memory_order_release);
}

static bool swap(sl_word *word, uint64_t from, uint64_t to)
{
    return atomic_compare_exchange_strong(word, &from, to);
}

void sl_pause(unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#elif defined(__aarch64__)
        __asm__ volatile("yield");
#endif
    }
}

/* ---- dead intents ---- */

static bool is_overtaken(const struct sl_actor *a)
{
    uint64_t active = sl_get(&a->active);

    return active != 0 && sl_get(&a->overtaken) == active;
}

/* May `a` write the word at `at`, though its change is over? */
static bool may_write(const struct sl_actor *a, uint64_t at)
{
    uint64_t writes;

    if (sl_get(&a->help_at) == at)
        return true;
    if (!is_overtaken(a))
        return false;
    writes = sl_get(&a->writes);
    for (uint64_t i = 0; i < writes && i < SL_WRITES; i++)
        if (sl_get(&a->write[i].at) == at)
            return true;
    return false;
}

/* The value never repeats. */
static void raise_has_dead(const struct sl_region *r)
{
    sl_word *has_dead = &sl_region_head(r)->has_dead;
    uint64_t last = atomic_load(has_dead);

    while (!swap(has_dead, last, (last | 1) + 2))
        last = atomic_load(has_dead);
}

/* Clears has_dead if no dead intent is left. An unchanged word means that none
 * was added meanwhile. */
bool sl_intent_dead_at(struct sl_intent *intent, uint64_t at)
{
    sl_word *word = &sl_region_head(intent->region)->has_dead;
    uint64_t has_dead = atomic_load(word);
    bool quiet = true;

    if (!(has_dead & 1))
        return false;
    intent->scans++;
    for (uint64_t i = 0; i < SL_ACTORS; i++) {
        const struct sl_actor *a = sl_region_actor(intent->region, i);

        if (a == intent->actor)
            continue;
        if (may_write(a, at))
            return true;
        quiet = quiet && !is_overtaken(a) && sl_get(&a->help_at) == 0;
    }
    if (quiet)
        swap(word, has_dead, has_dead & ~UINT64_C(1));
    return false;
}

/* ---- single changes ---- */

/* Entries are set before they are counted. An entry that is overwritten while
 * it is read belongs to a finished change. */
static bool may_swap_in(const struct sl_actor *a, uint64_t head)
{
    uint64_t swaps = atomic_load(&a->swaps);

    for (uint64_t i = 0; i < swaps && i < SL_SWAPS; i++)
        if (sl_get(&a->swap_in[i]) == head)
            return true;
    return atomic_load(&a->swap_in[SL_SWAPS]) == head;
}

bool sl_swaps_any(const struct sl_intent *intent, uint64_t head)
{
    for (uint64_t i = 0; i < SL_ACTORS; i++)
        if (i != intent->index &&
            may_swap_in(sl_region_actor(intent->region, i), head))
            return true;
    return false;
}

/* ---- resolving locks of other threads ---- */

/* The number only grows: a slow helper must not overwrite a later one. */
static void mark_overtaken(struct sl_actor *a, uint64_t number)
{
    uint64_t last = sl_get(&a->overtaken);

    while (last < number && !swap(&a->overtaken, last, number))
        last = sl_get(&a->overtaken);
}

/* Carries out one write of another thread's change, unless its lock is
 * released: then it was carried out. */
static void help_write(const struct sl_intent *self, uint64_t locked,
                       const struct sl_write *write)
{
    uint64_t at = sl_get(&write->at), from = sl_get(&write->from);
    uint64_t to = sl_get(&write->to);
    const sl_word *lock = sl_region_word(self->region, sl_get(&write->under));

    put(&self->actor->help_at, at);
    raise_has_dead(self->region);
    if (atomic_load(lock) == locked) {
        SL_STEP(SL_STEP_HELP);
        swap(sl_region_word(self->region, at), from, to);
    }
    put(&self->actor->help_at, 0);
}

static const struct sl_intent_lock *find_lock(const struct sl_actor *a,
                                              uint64_t at)
{
    uint64_t locks = sl_get(&a->locks);

    for (uint64_t i = 0; i < locks && i < SL_INTENT_LOCKS; i++)
        if (sl_get(&a->lock[i].at) == at)
            return &a->lock[i];
    return NULL;
}

/* Unlocks a word that holds `locked`: with the new value if `done`, else with
 * the old one. Heads begin buckets; all other locks have two words, as heads of
 * records do, which lie elsewhere. If the record was rewritten while it was
 * read, the word no longer holds `locked`. */
static void release_lock(const struct sl_region *r,
                         const struct sl_intent_lock *g, uint64_t at,
                         uint64_t locked, bool done)
{
    sl_word *lock = sl_region_word(r, at);

    if (!done)
        swap(lock, locked, sl_get(&g->from[0]));
    else if (at % sizeof(struct sl_bucket) == 0)
        swap(lock, locked, sl_get(&g->to[0]));
    else
        sl_swap_pair(lock, sl_cell_of(locked, sl_get(&g->from[1])),
                     sl_cell_of(sl_get(&g->to[0]), sl_get(&g->to[1])));
}

/* Carries out the change that `a` has committed and unlocks the word at `at`.
 * All writes come first, also those under other locks: a thread that sees an
 * unlocked word sees the whole change. A bucket's head protects no write
 * itself, but once it is unlocked the new key must be visible, or it is added
 * twice. */
static void complete(const struct sl_intent *self, struct sl_actor *a,
                     uint64_t at, uint64_t locked)
{
    const struct sl_intent_lock *record = find_lock(a, at);
    uint64_t writes = sl_get(&a->writes);

    if (!record)
        return;
    mark_overtaken(a, locked & NUMBER_MASK);
    for (uint64_t i = 0; i < writes && i < SL_WRITES; i++)
        help_write(self, locked, &a->write[i]);
    SL_STEP(SL_STEP_HELP);
    release_lock(self->region, record, at, locked, true);
}

static void put_back(const struct sl_intent *self, const struct sl_actor *a,
                     uint64_t at, uint64_t locked)
{
    const struct sl_intent_lock *record = find_lock(a, at);

    SL_STEP(SL_STEP_UNDO);
    if (record)
        release_lock(self->region, record, at, locked, false);
}

/* Removes the lock word `locked` at `at`. If its owner has moved on, it is
 * already removed. */
static void resolve(const struct sl_intent *self, uint64_t at, uint64_t locked)
{
    uint64_t number = locked & NUMBER_MASK;
    struct sl_actor *a =
        sl_region_actor(self->region, (locked & ~SL_LOCKED) >> NUMBER_BITS);

    if (swap(&a->status, status_of(number, OPEN), status_of(number, VOID)))
        sl_count(self, SL_STAT_UNDONE);
    if (sl_get(&a->status) == status_of(number, VOID))
        put_back(self, a, at, locked);
    else if (sl_get(&a->status) == status_of(number, SET)) {
        sl_count(self, SL_STAT_HELPED);
        complete(self, a, at, locked);
    }
}

uint64_t sl_intent_lock_read(const struct sl_intent *intent, uint64_t at)
{
    const sl_word *lock = sl_region_word(intent->region, at);
    uint64_t value = sl_get(lock);

    while (sl_is_locked(value)) {
        uint64_t locked = value;

        for (unsigned i = 4; i <= PATIENCE && value == locked; i *= 2) {
            sl_pause(i);
            value = sl_get(lock);
        }
        if (value == locked) {
            resolve(intent, at, locked);
            value = sl_get(lock);
        }
    }
    return value;
}

/* ---- the owner's side ---- */

void sl_intent_begin(struct sl_intent *intent)
{
    struct sl_actor *a = intent->actor;

    intent->number++;
    intent->locks = 0;
    intent->writes = 0;
    put(&a->locks, 0);
    put(&a->writes, 0);
    put(&a->status, status_of(intent->number, OPEN));
}

/* Records a lock before it is taken. */
static void note_lock(struct sl_intent *intent, uint64_t at,
                      struct sl_cell from, struct sl_cell to)
{
    struct sl_actor *a = intent->actor;
    struct sl_intent_lock *record = &a->lock[intent->locks];

    assert(intent->locks < SL_INTENT_LOCKS);
    put(&record->at, at);
    put(&record->from[0], from.w[0]);
    put(&record->from[1], from.w[1]);
    put(&record->to[0], to.w[0]);
    put(&record->to[1], to.w[1]);
    put(&a->locks, intent->locks + 1);
    SL_STEP(SL_STEP_LOCK);
}

/* False: another thread has undone the intent. */
static bool still_open(struct sl_intent *intent)
{
    intent->locks++;
    SL_STEP(SL_STEP_LOCKED);
    return sl_get(&intent->actor->status) == status_of(intent->number, OPEN);
}

bool sl_intent_lock_head(struct sl_intent *intent, uint64_t at, uint64_t from,
                         uint64_t to)
{
    note_lock(intent, at, sl_cell_of(from, 0), sl_cell_of(to, 0));
    return swap(sl_region_word(intent->region, at), from,
                lock_word(intent->index, intent->number)) &&
           still_open(intent);
}

bool sl_intent_lock_cell(struct sl_intent *intent, uint64_t at,
                         struct sl_cell from, struct sl_cell to)
{
    uint64_t locked = lock_word(intent->index, intent->number);

    note_lock(intent, at, from, to);
    return sl_swap_pair(sl_region_word(intent->region, at), from,
                        sl_cell_of(locked, from.w[1])) &&
           still_open(intent);
}

void sl_intent_mark(struct sl_intent *intent, uint64_t at, uint64_t bits)
{
    for (uint64_t i = 0; i < intent->locks; i++) {
        struct sl_intent_lock *g = &intent->actor->lock[i];

        if (sl_get(&g->at) == at)
            put(&g->to[0], sl_get(&g->to[0]) | bits);
    }
}

void sl_intent_write(struct sl_intent *intent, uint64_t under, uint64_t at,
                     uint64_t from, uint64_t to)
{
    struct sl_write *record = &intent->actor->write[intent->writes++];

    assert(intent->writes <= SL_WRITES);
    put(&record->at, at);
    put(&record->from, from);
    put(&record->to, to);
    put(&record->under, under);
}

static void release(const struct sl_intent *intent, bool done)
{
    uint64_t locked = lock_word(intent->index, intent->number);

    for (uint64_t i = 0; i < intent->locks; i++) {
        const struct sl_intent_lock *g = &intent->actor->lock[i];

        SL_STEP(SL_STEP_RELEASE);
        release_lock(intent->region, g, sl_get(&g->at), locked, done);
    }
    SL_STEP(SL_STEP_FINISH);
    put(&intent->actor->status, status_of(intent->number, IDLE));
    put(&intent->actor->active, 0);
}

bool sl_intent_commit(struct sl_intent *intent)
{
    struct sl_actor *a = intent->actor;

    put(&a->writes, intent->writes);
    put(&a->active, intent->number);
    SL_STEP(SL_STEP_COMMIT);
    if (!swap(&a->status, status_of(intent->number, OPEN),
              status_of(intent->number, SET))) {
        sl_intent_drop(intent);
        return false;
    }
    SL_STEP(SL_STEP_SET);
    for (uint64_t i = 0; i < intent->writes; i++) {
        const struct sl_write *w = &a->write[i];

        SL_STEP(SL_STEP_WRITE);
        swap(sl_region_word(intent->region, sl_get(&w->at)), sl_get(&w->from),
             sl_get(&w->to));
    }
    release(intent, true);
    return true;
}

/* A void intent cannot be committed, so the old values are restored. */
void sl_intent_drop(struct sl_intent *intent)
{
    swap(&intent->actor->status, status_of(intent->number, OPEN),
         status_of(intent->number, VOID));
    release(intent, false);
}

/* Resolves every lock of the last owner before the number moves on. (3) */
void sl_intent_init(struct sl_intent *intent, const struct sl_region *region,
                    uint64_t index)
{
    struct sl_actor *a = sl_region_actor(region, index);
    uint64_t number = sl_get(&a->status) >> 2;
    uint64_t locked = lock_word(index, number);
    uint64_t locks = sl_get(&a->locks);

    *intent = (struct sl_intent){
        .region = region, .actor = a, .index = index, .number = number};
    for (uint64_t i = 0; i < locks && i < SL_INTENT_LOCKS; i++) {
        uint64_t at = sl_get(&a->lock[i].at);

        if (sl_get(sl_region_word(region, at)) == locked)
            resolve(intent, at, locked);
    }
    put(&a->status, status_of(number, IDLE));
    put(&a->active, 0);
    put(&a->help_at, 0);
    put(&a->swaps, 0);
    put(&a->swap_in[SL_SWAPS], 0);
    put(&a->claims, 0);
}
