/* intent.c -- several words changed as one. The essay is in intent.h. */
#include "table/intent.h"

#include <assert.h>

#ifdef SL_HOOKS
void (*sl_step_hook)(enum sl_step step);
#endif

/* How many pauses a locked guard is waited for, ever longer between two looks,
 * before its owner is helped or undone. A change takes well under a
 * microsecond; this is several. */
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

static uint64_t get(const sl_word *word)
{
    return atomic_load_explicit(word, memory_order_acquire);
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

/* ---- ghosts ---- */

static bool is_overtaken(const struct sl_actor *a)
{
    uint64_t active = get(&a->active);

    return active != 0 && get(&a->overtaken) == active;
}

/* Does `a` mean to change the word at `at`, though its change is over? */
static bool haunts(const struct sl_actor *a, uint64_t at)
{
    uint64_t writes;

    if (get(&a->ghost_at) == at)
        return true;
    if (!is_overtaken(a))
        return false;
    writes = get(&a->writes);
    for (uint64_t i = 0; i < writes && i < SL_WRITES; i++)
        if (get(&a->write[i].at) == at)
            return true;
    return false;
}

/* Up, and never the same value again. */
static void raise_haunted(const struct sl_region *r)
{
    sl_word *haunted = &sl_region_head(r)->haunted;
    uint64_t last = atomic_load(haunted);

    while (!swap(haunted, last, (last | 1) + 2))
        last = atomic_load(haunted);
}

/* Look through all records. If there is no ghost left the haunting is over;
 * that the word is the same tells that none came while we looked. */
bool sl_intent_dead_at(struct sl_intent *intent, uint64_t at)
{
    sl_word *word = &sl_region_head(intent->region)->haunted;
    uint64_t haunted = atomic_load(word);
    bool quiet = true;

    if (!(haunted & 1))
        return false;
    intent->scans++;
    for (uint64_t i = 0; i < SL_ACTORS; i++) {
        const struct sl_actor *a = sl_region_actor(intent->region, i);

        if (a == intent->actor)
            continue;
        if (haunts(a, at))
            return true;
        quiet = quiet && !is_overtaken(a) && get(&a->ghost_at) == 0;
    }
    if (quiet)
        swap(word, haunted, haunted & ~UINT64_C(1));
    return false;
}

/* ---- single changes ---- */

/* What is announced together is noted first and counted then; a note that is
 * overwritten while it is read here belonged to changes that are over. */
static bool may_swap_in(const struct sl_actor *a, uint64_t head)
{
    uint64_t swaps = atomic_load(&a->swaps);

    for (uint64_t i = 0; i < swaps && i < SL_SWAPS; i++)
        if (get(&a->swap_in[i]) == head)
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

/* The guard is looked at first, and strictly after the note. (5) */
bool sl_intent_swap(struct sl_intent *intent, struct sl_slot_offsets at,
                    uint64_t tag, struct sl_cell from, struct sl_cell to)
{
    sl_word *said = &intent->actor->swap_in[SL_SWAPS];
    sl_word *cell = sl_region_word(intent->region, at.cell);
    bool done;

    SL_STEP(SL_STEP_SAY);
    atomic_store(said, at.head);
    done = atomic_load(cell) == from.w[0] && get(cell + 1) == from.w[1] &&
           get(sl_region_word(intent->region, at.tag)) == tag;
    if (done) {
        SL_STEP(SL_STEP_SWAP);
        done = sl_swap_pair(cell, from, to);
    }
    put(said, 0);
    return done;
}

/* ---- meeting a locked guard ---- */

/* The number only grows: a slow helper must not wipe out a later mark. */
static void mark_overtaken(struct sl_actor *a, uint64_t number)
{
    uint64_t last = get(&a->overtaken);

    while (last < number && !swap(&a->overtaken, last, number))
        last = get(&a->overtaken);
}

/* Carry out one write of another's change. Once its guard is released it has
 * been carried out. */
static void help_write(const struct sl_intent *self, uint64_t locked,
                       const struct sl_write *write)
{
    uint64_t at = get(&write->at), from = get(&write->from);
    uint64_t to = get(&write->to);
    const sl_word *guard = sl_region_word(self->region, get(&write->under));

    put(&self->actor->ghost_at, at);
    raise_haunted(self->region);
    if (atomic_load(guard) == locked) {
        SL_STEP(SL_STEP_HELP);
        swap(sl_region_word(self->region, at), from, to);
    }
    put(&self->actor->ghost_at, 0);
}

/* The record of the guard at `at`, or NULL. */
static const struct sl_intent_lock *find_guard(const struct sl_actor *a,
                                               uint64_t at)
{
    uint64_t guards = get(&a->guards);

    for (uint64_t i = 0; i < guards && i < SL_INTENT_LOCKS; i++)
        if (get(&a->guard[i].at) == at)
            return &a->guard[i];
    return NULL;
}

/* Release a guard that holds `locked`: with what comes now, or with what was
 * there before. Heads are where buckets begin; all other guards are cells, or
 * heads of records, which lie elsewhere and have two words as well. The
 * record may have been rewritten while it was read; then the guard no longer
 * holds `locked` either. */
static void release_guard(const struct sl_region *r,
                          const struct sl_intent_lock *g, uint64_t at,
                          uint64_t locked, bool done)
{
    sl_word *guard = sl_region_word(r, at);

    if (!done)
        swap(guard, locked, get(&g->from[0]));
    else if (at % sizeof(struct sl_bucket) == 0)
        swap(guard, locked, get(&g->to[0]));
    else
        sl_swap_pair(guard, sl_cell_of(locked, get(&g->from[1])),
                     sl_cell_of(get(&g->to[0]), get(&g->to[1])));
}

/* What `a` has committed comes true, and the guard at `at` is released. All
 * writes come first, also those under other guards: whoever sees a released
 * guard sees the whole change. A bucket's head has no writes of its own, but
 * once it is released the new key must be there, or it is added twice. */
static void complete(const struct sl_intent *self, struct sl_actor *a,
                     uint64_t at, uint64_t locked)
{
    const struct sl_intent_lock *record = find_guard(a, at);
    uint64_t writes = get(&a->writes);

    if (!record)
        return;
    mark_overtaken(a, locked & NUMBER_MASK);
    for (uint64_t i = 0; i < writes && i < SL_WRITES; i++)
        help_write(self, locked, &a->write[i]);
    SL_STEP(SL_STEP_HELP);
    release_guard(self->region, record, at, locked, true);
}

static void put_back(const struct sl_intent *self, const struct sl_actor *a,
                     uint64_t at, uint64_t locked)
{
    const struct sl_intent_lock *record = find_guard(a, at);

    SL_STEP(SL_STEP_UNDO);
    if (record)
        release_guard(self->region, record, at, locked, false);
}

/* The guard at `at` holds the lock word `locked`: see that it goes away. If
 * its owner has moved on in the meantime it is gone already. */
static void resolve(const struct sl_intent *self, uint64_t at, uint64_t locked)
{
    uint64_t number = locked & NUMBER_MASK;
    struct sl_actor *a =
        sl_region_actor(self->region, (locked & ~SL_LOCKED) >> NUMBER_BITS);

    if (swap(&a->status, status_of(number, OPEN), status_of(number, VOID)))
        sl_count(self, SL_STAT_UNDONE);
    if (get(&a->status) == status_of(number, VOID))
        put_back(self, a, at, locked);
    else if (get(&a->status) == status_of(number, SET)) {
        sl_count(self, SL_STAT_HELPED);
        complete(self, a, at, locked);
    }
}

uint64_t sl_intent_lock_read(const struct sl_intent *intent, uint64_t at)
{
    const sl_word *guard = sl_region_word(intent->region, at);
    uint64_t value = get(guard);

    while (sl_is_locked(value)) {
        uint64_t locked = value;

        for (unsigned i = 4; i <= PATIENCE && value == locked; i *= 2) {
            sl_pause(i);
            value = get(guard);
        }
        if (value == locked) {
            resolve(intent, at, locked);
            value = get(guard);
        }
    }
    return value;
}

/* ---- the owner's side ---- */

void sl_intent_begin(struct sl_intent *intent)
{
    struct sl_actor *a = intent->actor;

    intent->number++;
    intent->guards = 0;
    intent->writes = 0;
    put(&a->guards, 0);
    put(&a->writes, 0);
    put(&a->status, status_of(intent->number, OPEN));
}

/* Put down a guard that is about to be locked. */
static void note_guard(struct sl_intent *intent, uint64_t at,
                       struct sl_cell from, struct sl_cell to)
{
    struct sl_actor *a = intent->actor;
    struct sl_intent_lock *record = &a->guard[intent->guards];

    assert(intent->guards < SL_INTENT_LOCKS);
    put(&record->at, at);
    put(&record->from[0], from.w[0]);
    put(&record->from[1], from.w[1]);
    put(&record->to[0], to.w[0]);
    put(&record->to[1], to.w[1]);
    put(&a->guards, intent->guards + 1);
    SL_STEP(SL_STEP_LOCK);
}

/* It is locked: is there still something to be locked for? */
static bool locked_in_time(struct sl_intent *intent)
{
    intent->guards++;
    SL_STEP(SL_STEP_LOCKED);
    return get(&intent->actor->status) == status_of(intent->number, OPEN);
}

bool sl_intent_lock_head(struct sl_intent *intent, uint64_t at, uint64_t from,
                         uint64_t to)
{
    note_guard(intent, at, sl_cell_of(from, 0), sl_cell_of(to, 0));
    return swap(sl_region_word(intent->region, at), from,
                lock_word(intent->index, intent->number)) &&
           locked_in_time(intent);
}

bool sl_intent_lock_cell(struct sl_intent *intent, uint64_t at,
                         struct sl_cell from, struct sl_cell to)
{
    uint64_t locked = lock_word(intent->index, intent->number);

    note_guard(intent, at, from, to);
    return sl_swap_pair(sl_region_word(intent->region, at), from,
                        sl_cell_of(locked, from.w[1])) &&
           locked_in_time(intent);
}

void sl_intent_mark(struct sl_intent *intent, uint64_t at, uint64_t bits)
{
    for (uint64_t i = 0; i < intent->guards; i++) {
        struct sl_intent_lock *g = &intent->actor->guard[i];

        if (get(&g->at) == at)
            put(&g->to[0], get(&g->to[0]) | bits);
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

/* Swap our lock words for what was on record before, or for what comes now. */
static void release(const struct sl_intent *intent, bool done)
{
    uint64_t locked = lock_word(intent->index, intent->number);

    for (uint64_t i = 0; i < intent->guards; i++) {
        const struct sl_intent_lock *g = &intent->actor->guard[i];

        SL_STEP(SL_STEP_RELEASE);
        release_guard(intent->region, g, get(&g->at), locked, done);
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
        swap(sl_region_word(intent->region, get(&w->at)), get(&w->from),
             get(&w->to));
    }
    release(intent, true);
    return true;
}

/* Once the intent is void nobody can set it, so the old values go back. */
void sl_intent_drop(struct sl_intent *intent)
{
    swap(&intent->actor->status, status_of(intent->number, OPEN),
         status_of(intent->number, VOID));
    release(intent, false);
}

/* What the last owner left half done is brought to its end for every guard;
 * only then may the number move on. (3) */
void sl_intent_init(struct sl_intent *intent, const struct sl_region *region,
                    uint64_t index)
{
    struct sl_actor *a = sl_region_actor(region, index);
    uint64_t number = get(&a->status) >> 2;
    uint64_t locked = lock_word(index, number);
    uint64_t guards = get(&a->guards);

    *intent = (struct sl_intent){
        .region = region, .actor = a, .index = index, .number = number};
    for (uint64_t i = 0; i < guards && i < SL_INTENT_LOCKS; i++) {
        uint64_t at = get(&a->guard[i].at);

        if (get(sl_region_word(region, at)) == locked)
            resolve(intent, at, locked);
    }
    put(&a->status, status_of(number, IDLE));
    put(&a->active, 0);
    put(&a->ghost_at, 0);
    put(&a->swaps, 0);
    put(&a->swap_in[SL_SWAPS], 0);
    put(&a->claims, 0);
}
