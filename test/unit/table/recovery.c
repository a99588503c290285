/* recovery.c -- processes that wake up long after their change is over.
 *
 * A victim is stopped between its commit and its writes. Others complete the
 * change, and then bring every word back to exactly what the victim still
 * expects to find, many times over; they also fill the table and sweep it, so
 * that slots change hands wherever they may. Then the victim wakes up and goes
 * on step by step, and after each step not one byte of the buckets may have
 * changed. That is (4) of intent.h. For single changes see single.c.
 */
#include "schedule.h"

#define ROUNDS 300 /* more than there are generations */

static char *snapshot;

static const char *buckets_of(const struct world *w)
{
    return w->pages + sl_region_head(&w->table.region)->buckets_at;
}

static size_t buckets_size(const struct world *w)
{
    return sl_region_head(&w->table.region)->buckets * sizeof(struct sl_bucket);
}

/* Locks that no thread has met are still locked by the victim; come
 * across them all. */
static void remember(struct world *w)
{
    struct sl_intent *intent = sl_actor_borrow(&w->table.actors);
    const struct sl_region *r = &w->table.region;
    uint64_t stray;

    for (uint64_t b = 0; b < sl_region_head(r)->buckets; b++) {
        (void)sl_intent_lock_read(intent, sl_slot_head_at(r, b));
        for (unsigned i = 0; i < SL_SLOTS; i++)
            (void)sl_intent_lock_read(intent,
                                      sl_cell_at(r, (struct sl_slot){b, i}));
    }
    sl_actor_return(&w->table.actors, intent);
    CHECK_EQ(locks_left(r, &stray), 0);
    memcpy(snapshot, buckets_of(w), buckets_size(w));
}

static void check_unchanged(const struct world *w)
{
    CHECK_EQ(memcmp(snapshot, buckets_of(w), buckets_size(w)), 0);
}

/* Back to the beginning: what is used, and so the bare second word. */
static void bring_back(struct world *w)
{
    for (unsigned i = 0; i < w->count; i++) {
        char key[64];
        uint64_t more = used_of(w, i) - w->base[i];

        snprintf(key, sizeof(key), "%.*s", SL_STR_ARG(w->parts[i].key));
        for (unsigned n = 0; n < ROUNDS; n++) {
            adjust(&w->table, w->parts[i].binding, key, -(int64_t)more);
            CHECK_EQ(used_of(w, i), w->base[i]);
            CHECK_EQ(take(&w->table, w->parts[i].binding, key, more),
                     SL_SET_ALLOW);
        }
        adjust(&w->table, w->parts[i].binding, key, -(int64_t)more);
        if (w->base[i] == 0)
            reset(&w->table, w->parts[i].binding, key);
    }
}

/* Everybody wants a slot. */
static void fill(struct world *w)
{
    unsigned buckets = (unsigned)sl_region_head(&w->table.region)->buckets;
    struct sl_intent *intent;
    char key[32];

    intent = sl_actor_borrow(&w->table.actors);
    (void)sl_sweep(intent, buckets, NOW);
    sl_actor_return(&w->table.actors, intent);
    for (unsigned i = 0; i < 15000; i++) {
        snprintf(key, sizeof(key), "guest%u", i);
        (void)take(&w->table, &w->limit[i % 2 ? WALL : POOL], key, 1);
    }
    intent = sl_actor_borrow(&w->table.actors);
    (void)sl_sweep(intent, buckets, NOW);
    sl_actor_return(&w->table.actors, intent);
}

static void haunt(struct world *w)
{
    others_take(w);
    bring_back(w);
    if (w->base[0] == 0) { /* a new key: its slot may change hands */
        fill(w);
        bring_back(w);
    }
    remember(w);
}

/* The owner of a change wakes up. */
static bool wake_owner(struct world *w, enum sl_step step, unsigned nth)
{
    struct stop owner = {.world = w, .step = step, .nth = nth, .single = true};

    restore(w);
    if (!start_victim(&owner)) {
        close_world(w);
        return false;
    }
    haunt(w);
    while (!owner.done) {
        let_go(&owner);
        check_unchanged(w);
    }
    close_world(w);
    return true;
}

/* A helper wakes up, and then the owner. */
static bool wake_helper(struct world *w, enum sl_step step, unsigned nth)
{
    struct stop owner = {.world = w, .step = step, .nth = 1, .single = true};
    struct stop helper = {
        .world = w, .step = SL_STEP_HELP, .nth = nth, .single = true};
    bool more = false;

    restore(w);
    if (start_victim(&owner)) {
        more = start_victim(&helper);
        haunt(w);
        if (more) {
            let_go(&helper);
            check_unchanged(w);
            helper.single = false;
            let_go(&helper);
            CHECK_EQ(taken_by_all(w), 1);
            remember(w);
        }
        while (!owner.done) {
            let_go(&owner);
            check_unchanged(w);
        }
    }
    close_world(w);
    return more;
}

/* The same, when the owner has gone on long ago: the helper's own note is all
 * that others know of it. */
static bool wake_late_helper(struct world *w, enum sl_step step, unsigned nth)
{
    struct stop owner = {.world = w, .step = step, .nth = 1};
    struct stop helper = {
        .world = w, .step = SL_STEP_HELP, .nth = nth, .single = true};
    bool more = false;

    restore(w);
    if (start_victim(&owner)) {
        more = start_victim(&helper);
        let_go(&owner);
        if (more) {
            haunt(w);
            let_go(&helper);
            check_unchanged(w);
            helper.single = false;
            let_go(&helper);
            CHECK_EQ(taken_by_all(w), 1);
        }
    }
    close_world(w);
    return more;
}

typedef bool schedule_f(struct world *w, enum sl_step step, unsigned nth);

/* Owners are stopped at SET and at each WRITE, helpers at each HELP while the
 * owner is at SET: later nothing is left that they might write. */
static void run_all(struct world *w, const char *what, schedule_f *schedule,
                    enum sl_step last)
{
    static char text[3 * CHANGES][80];
    static unsigned next;
    char *label = text[next++];
    unsigned ran = 0;

    snprintf(label, sizeof(text[0]), "%s: %s", w->name, what);
    CASE(label);
    for (enum sl_step step = SL_STEP_SET; step <= last; step++) {
        unsigned nth = 1;

        while (nth < 100 && schedule(w, step, nth))
            nth++;
        ran += nth - 1;
        if (check_state.bad) {
            printf("# ... at step %d, time %u\n", (int)step, nth);
            return;
        }
    }
    CHECK(ran > 0);
}

int main(void)
{
    static struct world w;
    char key[32];

    alarm(300); /* against a hang */
    sl_step_hook = on_step;
    snapshot = shared_pages(MIB);
    for (enum change change = SET; change < SWEEP; change++) {
        make_world(&w, change, key, sizeof(key));
        run_all(&w, "its owner wakes up late", wake_owner, SL_STEP_WRITE);
        run_all(&w, "a helper wakes up late", wake_helper, SL_STEP_SET);
        run_all(&w, "a helper wakes up after the owner", wake_late_helper,
                SL_STEP_SET);
        free_world(&w);
    }
    return CHECK_DONE();
}
