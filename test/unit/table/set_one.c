/* set_one.c -- single changes that come late.
 *
 * A victim has read a cell, has judged it and is about to swap it. There it is
 * stopped, while others take, give back, or pass the slot on to other keys,
 * which come to owe just as much at just the same time; then it goes on, or is
 * killed. Its take is there once, or not at all, and on its own key: that is
 * (5) of intent.h.
 *
 * A take goes the short way (set_one.c of the table), an adjustment the long
 * one (set.c), which announces the swap later. Both are tried, with a key in
 * its first bucket and with one that had to go to its second.
 */
#include "schedule.h"
#include "table/set.h"

#define ROUNDS 600 /* generations begin again more than twice */
#define HEIRS  2

/* The slot of the victim's key, and other keys that get the same one when it
 * is free. The victim's own is the first. */
struct estate {
    struct world *world;
    const struct sl_limit_binding *limit;
    struct sl_slot slot;
    char key[1 + HEIRS][32];
    unsigned holder; /* whose it is */
};

static uint64_t tag_of(const struct estate *e, unsigned i,
                       struct sl_slot_key *key)
{
    struct sl_part part = part_of(e->limit, e->key[i], 1);

    sl_slot_key_hash(&e->world->table, &part, key);
    return key->tag;
}

static struct sl_cell cell_of(const struct estate *e)
{
    const struct sl_region *r = &e->world->table.region;
    uint64_t at = sl_cell_at(r, e->slot);

    return sl_cell_of(sl_load(r, at), sl_load(r, at + 8));
}

static bool holds(const struct estate *e, unsigned i)
{
    const struct sl_region *r = &e->world->table.region;
    struct sl_slot_key key;

    return sl_load(r, sl_tag_at(r, e->slot)) == tag_of(e, i, &key);
}

static enum sl_take_op act; /* of the victim */
static unsigned choice; /* of the victim's key: the bucket that it lives in */

/* Empty what owes nothing in the bucket. */
static void sweep(struct sl_table *table, uint64_t bucket)
{
    struct sl_intent *intent;

    atomic_store(&sl_region_head(&table->region)->hand, bucket);
    intent = sl_actor_borrow(&table->actors);
    (void)sl_sweep(intent, 1, NOW);
    sl_actor_return(&table->actors, intent);
}

/* The victim's key goes, and finds its first bucket crowded when it comes
 * again. */
static void fill_bucket(struct estate *e, const struct sl_slot_key *home)
{
    struct sl_table *table = &e->world->table;
    struct sl_slot_key key;

    reset(table, e->limit, e->key[0]);
    sweep(table, home->bucket[0]);
    for (unsigned i = 0, found = 0; found < 3; i++) {
        snprintf(e->key[1], sizeof(e->key[1]), "filler%u", i);
        (void)tag_of(e, 1, &key);
        if (key.bucket[0] != home->bucket[0])
            continue;
        CHECK_EQ(take(table, e->limit, e->key[1], BASE), SL_SET_ALLOW);
        found++;
    }
    CHECK_EQ(take(table, e->limit, e->key[0], BASE), SL_SET_ALLOW);
}

/* Every part of the victim's set does the same. */
static void add_victim(struct world *w, unsigned limit, const char *key)
{
    add_part(w, limit, key);
    w->parts[w->count - 1].op = act;
    w->parts[w->count - 1].cost = 1;
}

/* A world in which the victim takes one of a key that has used BASE. Every
 * world hashes by a secret of its own; one in which the key has one bucket
 * twice is not used. */
static void begin(struct world *w, struct estate *e, unsigned limit)
{
    struct sl_slot_key home, key;
    unsigned found = 0;

    for (;;) {
        begin_world(w, "single");
        *e = (struct estate){
            .world = w, .limit = &w->limit[limit], .key = {"a"}};
        (void)tag_of(e, 0, &home);
        if (home.bucket[0] != home.bucket[1])
            break;
        sl_table_done(&w->table);
        free_world(w);
    }
    if (choice == 1)
        fill_bucket(e, &home);
    add_victim(w, limit, "a");
    CHECK(sl_slot_key_find_in(&w->table.region, home.bucket[choice], home.tag,
                              &e->slot));
    for (unsigned i = 0; found < HEIRS; i++) {
        snprintf(e->key[1 + found], sizeof(e->key[0]), "heir%u", i);
        (void)tag_of(e, 1 + found, &key);
        found += key.bucket[0] == e->slot.bucket;
    }
    end_world(w);
    restore(w);
}

static void end(struct world *w)
{
    close_world(w);
    free_world(w);
}

/* The holder of the slot owes nothing and loses it, and `to` comes and owes
 * what the holder owed. False if it did not get the slot. */
static bool pass_on(struct estate *e, unsigned to)
{
    struct sl_table *table = &e->world->table;

    adjust(table, e->limit, e->key[e->holder], -BASE);
    sweep(table, e->slot.bucket);
    CHECK_EQ(take(table, e->limit, e->key[to], BASE), SL_SET_ALLOW);
    CHECK_EQ(used(table, e->limit, e->key[to]), BASE);
    if (!holds(e, to))
        return false;
    e->holder = to;
    return true;
}

/* Pass the slot on from heir to heir. How often was it possible? `seen` is
 * what the victim wants to swap: no heir may come to have it. */
static unsigned pass_on_and_on(struct estate *e, struct sl_cell seen)
{
    unsigned round = 0;

    while (round < ROUNDS && pass_on(e, 1 + round % HEIRS)) {
        CHECK(sl_cell_eq(sl_cell_bare(cell_of(e)), sl_cell_bare(seen)));
        CHECK(!sl_cell_eq(cell_of(e), seen));
        round++;
    }
    return round;
}

/* After the first heir, and when it can be passed on no further. */
static void test_other_key(struct world *w, unsigned limit, unsigned rounds)
{
    struct estate e;
    struct stop victim = {.world = w, .step = SL_STEP_SWAP, .nth = 1};
    struct sl_cell seen, left;

    begin(w, &e, limit);
    seen = cell_of(&e);
    CHECK(start_victim(&victim));
    CHECK(sl_cell_eq(cell_of(&e), seen));
    if (rounds == 1) {
        CHECK(pass_on(&e, 1));
    } else {
        CHECK(pass_on_and_on(&e, seen) < 256);
        CHECK_EQ(take(&w->table, e.limit, e.key[e.holder], BASE), SL_SET_ALLOW);
    }
    left = cell_of(&e);
    CHECK(sl_cell_eq(sl_cell_bare(left), sl_cell_bare(seen)));
    let_go(&victim);
    CHECK(sl_cell_eq(cell_of(&e), left));
    CHECK_EQ(used(&w->table, e.limit, "a"), 1); /* it began anew */
    end(w);
}

/* The last of a batch. */
static void test_batch(struct world *w, unsigned limit)
{
    struct estate e;
    struct stop victim = {.world = w, .step = SL_STEP_SWAP, .nth = 2};
    struct sl_cell left;

    begin(w, &e, limit);
    add_victim(w, limit, "a");
    w->parts[0].key = sl_str_c("b");
    w->batch = true;
    left = cell_of(&e);
    CHECK(start_victim(&victim));
    CHECK(pass_on_and_on(&e, left) < 256);
    CHECK_EQ(used(&w->table, e.limit, "b"), BASE + 1);
    let_go(&victim);
    CHECK_EQ(used(&w->table, e.limit, "a"), 1);
    CHECK_EQ(used(&w->table, e.limit, "b"), BASE + 1);
    end(w);
}

/* A thread that has not announced its swap yet is not waited for. It sees that
 * the slot has another key, though everything else is the same. */
static void test_not_said(struct world *w, unsigned limit)
{
    struct estate e;
    struct stop victim = {.world = w, .step = SL_STEP_SAY, .nth = 1};
    struct sl_cell seen;
    unsigned round = 0;

    begin(w, &e, limit);
    seen = cell_of(&e);
    CHECK(start_victim(&victim));
    do {
        CHECK(pass_on(&e, 1 + round % HEIRS));
    } while (!sl_cell_eq(cell_of(&e), seen) && ++round < ROUNDS);
    CHECK(round < ROUNDS);
    let_go(&victim);
    CHECK(sl_cell_eq(cell_of(&e), seen));
    CHECK_EQ(used(&w->table, e.limit, e.key[e.holder]), BASE);
    CHECK_EQ(used(&w->table, e.limit, "a"), 1);
    end(w);
}

/* A thread has chosen a free slot for a new key, and it is the last of its
 * generations. Before the thread locks the slot a swap is announced. */
static void test_said_late(struct world *w, unsigned limit)
{
    struct estate e;
    struct world two;
    struct stop adder = {.world = &two, .step = SL_STEP_LOCK, .nth = 2};
    struct stop victim = {.world = w, .step = SL_STEP_SWAP, .nth = 1};
    unsigned round = 0;

    begin(w, &e, limit);
    while (cell_of(&e).w[1] < ~SL_W1_MASK && round < ROUNDS)
        CHECK(pass_on(&e, 1 + round++ % HEIRS));
    adjust(&w->table, e.limit, e.key[e.holder],
           -(int64_t)used(&w->table, e.limit, e.key[e.holder]));
    two = *w; /* the same pages */
    open_pages(&two.table, w->pages, MIB);
    two.parts[0].key = sl_str_c(e.key[e.holder == 1 ? 2 : 1]);
    w->parts[0].key = sl_str_c(e.key[e.holder]);
    CHECK(start_victim(&adder));
    CHECK(start_victim(&victim));
    let_go(&adder);
    CHECK(holds(&e, e.holder));
    let_go(&victim);
    for (unsigned i = 1; i <= HEIRS; i++)
        CHECK_EQ(used(&w->table, e.limit, e.key[i]), 1);
    sl_table_done(&two.table);
    end(w);
}

/* No swap is announced, or its process is dead: the slot is always passed on.
 */
static void test_passing_on(struct world *w, unsigned limit)
{
    struct estate e;
    unsigned round = 0;

    begin(w, &e, limit);
    while (round < ROUNDS && pass_on(&e, 1 + round % HEIRS))
        round++;
    CHECK_EQ(round, ROUNDS);
    end(w);
}

static void test_killed(struct world *w, unsigned limit)
{
    struct stop stop = {
        .world = w, .step = SL_STEP_SWAP, .nth = 1, .signal = SIGKILL};
    struct estate e;
    struct sl_cell seen;

    begin(w, &e, limit);
    seen = cell_of(&e);
    CHECK(start_child(w, &stop) != 0);
    CHECK_EQ(used(&w->table, e.limit, "a"), BASE);
    CHECK(pass_on_and_on(&e, seen) < 256);
    sl_actors_reap(&w->table.actors);
    for (unsigned i = 0; i < HEIRS; i++) /* they have slots elsewhere by now */
        reset(&w->table, e.limit, e.key[1 + i]);
    atomic_store(&sl_region_head(&w->table.region)->hand, e.slot.bucket);
    CHECK(sl_sweep(sl_actor_borrow(&w->table.actors), 1, NOW) > 0);
    CHECK(!holds(&e, e.holder));
    end(w);
}

/* Others take, and give back if `back`: then it is the same cell of the same
 * key, and the swap is right. */
static void test_same_key(struct world *w, unsigned limit, bool back)
{
    struct stop victim = {.world = w, .step = SL_STEP_SWAP, .nth = 1};
    struct estate e;
    struct sl_cell seen;

    begin(w, &e, limit);
    seen = cell_of(&e);
    CHECK(start_victim(&victim));
    CHECK_EQ(take(&w->table, e.limit, "a", 1), SL_SET_ALLOW);
    CHECK_EQ(used(&w->table, e.limit, "a"), BASE + 1);
    if (back)
        adjust(&w->table, e.limit, "a", -1);
    CHECK_EQ(sl_cell_eq(cell_of(&e), seen), back);
    let_go(&victim);
    CHECK_EQ(used(&w->table, e.limit, "a"), BASE + (back ? 1 : 2));
    end(w);
}

/* The last one is there for one of two. */
static void test_last_one(struct world *w, unsigned limit)
{
    struct stop victim = {.world = w, .step = SL_STEP_SWAP, .nth = 1};
    struct estate e;

    begin(w, &e, limit);
    CHECK(start_victim(&victim));
    CHECK_EQ(take(&w->table, e.limit, "a", 1000 - BASE - 1), SL_SET_ALLOW);
    let_go(&victim);
    CHECK_EQ(used(&w->table, e.limit, "a"), 1000);
    CHECK_EQ(take(&w->table, e.limit, "a", 1), SL_SET_DENY);
    end(w);
}

/* A stopped set has locked the cell: a swap undoes it or
 * completes it. */
static void test_set(struct world *w, unsigned limit, enum sl_step step)
{
    struct stop single = {.world = w, .step = SL_STEP_SWAP, .nth = 1};
    struct world two;
    struct stop set = {.world = &two, .step = step, .nth = 1};
    struct estate e;

    begin(w, &e, limit);
    CHECK(start_victim(&single));
    two = *w; /* the same pages */
    open_pages(&two.table, w->pages, MIB);
    add_victim(&two, limit, "b");
    CHECK(start_victim(&set));
    let_go(&single);
    CHECK_EQ(used(&w->table, e.limit, "a"),
             BASE + (step >= SL_STEP_SET ? 2 : 1));
    let_go(&set);
    CHECK_EQ(used(&w->table, e.limit, "a"), BASE + 2);
    CHECK_EQ(used(&w->table, e.limit, "b"), BASE + 1);
    sl_table_done(&two.table);
    end(w);
}

static void run_all(struct world *w, unsigned limit)
{
    CASE("a slot is always passed on if no swap is announced");
    test_passing_on(w, limit);
    CASE("another key with the same cell has the slot");
    test_other_key(w, limit, 1);
    CASE("it is never passed on so often that all is the same again");
    test_other_key(w, limit, ROUNDS);
    if (act == SL_TAKE_OP_CHARGE) { /* a take says it before it looks */
        CASE("a swap that is not announced yet sees the new key");
        test_not_said(w, limit);
    }
    if (act == SL_TAKE_OP_TAKE) {
        CASE("it is the last of a batch that comes late");
        test_batch(w, limit);
    }
    CASE("a late announcement is seen by the owner of the lock");
    test_said_late(w, limit);
    CASE("a killed process has taken nothing and blocks no thread");
    test_killed(w, limit);
    CASE("the cell has changed: it is judged again");
    test_same_key(w, limit, false);
    CASE("the same cell of the same key has come back");
    test_same_key(w, limit, true);
    CASE("the last one is given out once");
    test_last_one(w, limit);
    CASE("a set that is stopped half way has the cell");
    for (enum sl_step step = SL_STEP_LOCKED; step <= SL_STEP_RELEASE; step++)
        if (step != SL_STEP_WRITE)
            test_set(w, limit, step);
}

int main(void)
{
    static struct world w;

    alarm(300); /* against a hang */
    sl_step_hook = on_step;
    for (unsigned limit = POOL; limit <= DAY; limit++) {
        for (choice = 0; choice < 2; choice++) {
            act = SL_TAKE_OP_TAKE;
            run_all(&w, limit);
            act = SL_TAKE_OP_CHARGE;
            run_all(&w, limit);
        }
    }
    return CHECK_DONE();
}
