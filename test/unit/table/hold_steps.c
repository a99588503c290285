/* hold_steps.c -- holds, stopped or killed at every step.
 *
 * A victim makes, settles, expires or extends a hold on three limits and is
 * stopped at the nth time that it comes to a step. Others then take from the
 * same keys, and release the same hold. It goes on, or it is killed.
 *
 *   (4) what is used is what others took and what is held, on all keys alike
 *   (5) a hold ends once
 */
#include "held.h"
#include "schedule.h"
#include "table/hold_record.h"

#define COST   5
#define ACTUAL 2
#define LIFE   SL_S

enum deed { HOLD, HOLD_NEW, SETTLE, MORE, EXPIRE, EXTEND, RELEASE, DEEDS };

static const char *const names[DEEDS] = {"a hold",
                                         "a hold of new keys",
                                         "a settlement",
                                         "more is charged",
                                         "an expiry",
                                         "a heartbeat",
                                         "a release of all that is used"};

static struct world world;

/* What the victim saw; it may be a child. */
struct seen {
    enum sl_set_result verdict;
    enum sl_hold_state state;
    bool done;
};

static struct seen *seen;

static struct sl_part *set_of(struct world *w, struct sl_part parts[3])
{
    memcpy(parts, w->parts, sizeof(w->parts));
    for (unsigned i = 0; i < w->count; i++)
        parts[i].cost = COST;
    return parts;
}

static void act_hold(struct world *w, struct sl_table *table)
{
    struct sl_part parts[3];

    seen->verdict = hold_set(table, set_of(w, parts), w->count, 1, LIFE, NOW);
    seen->done = true;
}

static enum sl_hold_state end_it(struct world *w, struct sl_table *table,
                                 enum sl_hold_action op, uint64_t cost)
{
    struct numbers n = {w->limit, LIMITS, cost};
    struct sl_hold_result deed = deed_of(op, 1, &n);

    deed.release = cost == 0;
    deed.life = 2 * LIFE;
    if (sl_table_end(table, &deed, NOW, true) != SL_SET_ALLOW)
        abort();
    return deed.state;
}

static void act_settle(struct world *w, struct sl_table *table)
{
    seen->state = end_it(w, table, SL_HOLD_SETTLE, ACTUAL);
    seen->done = true;
}

static void act_more(struct world *w, struct sl_table *table)
{
    seen->state = end_it(w, table, SL_HOLD_SETTLE, COST + ACTUAL);
    seen->done = true;
}

static void act_release(struct world *w, struct sl_table *table)
{
    seen->state = end_it(w, table, SL_HOLD_SETTLE, 0);
    seen->done = true;
}

static void act_extend(struct world *w, struct sl_table *table)
{
    seen->state = end_it(w, table, SL_HOLD_EXTEND, COST);
    seen->done = true;
}

/* A decision at its expiry ends it. */
static void act_expire(struct world *w, struct sl_table *table)
{
    (void)used_at(table, &w->limit[WALL], "other", NOW + LIFE);
    seen->done = true;
}

static const char *key_of(enum deed deed, const char *old)
{
    return deed == HOLD_NEW || deed == RELEASE ? "new" : old;
}

/* Where buckets drain nothing may depend on the time. */
static void make(struct world *w, enum deed deed)
{
    static void (*const acts[DEEDS])(struct world *, struct sl_table *) = {
        act_hold,   act_hold,   act_settle, act_more,
        act_expire, act_extend, act_release};
    struct sl_part parts[3];

    begin_world(w, names[deed]);
    add_part(w, POOL, key_of(deed, "a"));
    add_part(w, RATE, key_of(deed, "b"));
    add_part(w, DAY, "c");
    for (unsigned i = 0; i < w->count; i++)
        w->base[i] = used_of(w, i);
    if (deed >= SETTLE)
        CHECK_EQ(hold_set(&w->table, set_of(w, parts), w->count, 1, LIFE, NOW),
                 SL_SET_ALLOW);
    sl_table_done(&w->table);
    memcpy(w->image, w->pages, MIB);
    w->act = acts[deed];
    *seen = (struct seen){.done = false};
    restore(w);
}

/* ---- what must be true ---- */

/* What every key has used beyond the beginning and what others took. */
static uint64_t left_over(struct world *w, uint64_t others)
{
    return taken_by_all(w) - others;
}

static uint64_t after(enum sl_hold_state state, enum deed deed)
{
    if (state == SL_HOLD_HELD)
        return COST;
    if (state == SL_HOLD_SETTLED)
        return deed == MORE ? COST + ACTUAL : ACTUAL;
    return 0;
}

/* Claims, and heads that are locked. */
static uint64_t claims_left(const struct sl_region *r)
{
    uint64_t left = 0;

    for (uint64_t i = 0; i < sl_hold_record_blocks(r) * SL_HOLD_BLOCK; i++)
        left += sl_is_locked(sl_load(r, sl_hold_record_at(r, i)));
    for (uint64_t i = 0; i < SL_ACTORS; i++)
        left += atomic_load(&sl_region_actor(r, i)->claims) != 0;
    return left;
}

/* The clock goes on, and all holds are over. A bucket that has drained has
 * nothing more to say. */
static void check_end(struct world *w, uint64_t others, enum deed deed)
{
    enum sl_hold_state state = state_at(&w->table, 1, NOW);
    uint64_t want = after(state, deed);

    if (deed != EXPIRE)
        CHECK_EQ(left_over(w, others), want);
    if (state == SL_HOLD_HELD)
        want = 0;
    CHECK_EQ(
        used_at(&w->table, &w->limit[POOL], key_of(deed, "a"), NOW + 3 * LIFE) -
            w->base[0] - others,
        want);
    CHECK_EQ(held_now(&w->table), 0);
    CHECK_EQ(claims_left(&w->table.region), 0);
}

/* ---- stopped ---- */

static bool run_stopped(struct world *w, enum deed deed, enum sl_step step,
                        unsigned nth, bool meddle)
{
    struct stop stop = {.world = w, .step = step, .nth = nth};
    enum sl_hold_state state = SL_HOLD_UNKNOWN;
    uint64_t others = 0;
    bool stopped;

    restore(w);
    seen->state = SL_HOLD_UNKNOWN;
    stopped = start_victim(&stop);
    if (stopped) {
        others = others_take(w);
        if (meddle)
            state = release_at(&w->table, 1, NOW);
        let_go(&stop);
    }
    if (deed >= SETTLE && deed != EXPIRE && meddle && stopped)
        CHECK((seen->state == SL_HOLD_HELD && deed == EXTEND) ||
              (seen->state == SL_HOLD_HELD) + (state == SL_HOLD_HELD) == 1);
    check_end(w, others, deed);
    close_world(w);
    return stopped;
}

/* A thread that is overtaken after it has counted its refund keeps others from
 * getting as much. So no other thread interferes with a release, which must get
 * it all. */
static void test_stopped(enum deed deed)
{
    static char name[DEEDS][64];
    unsigned runs = 0;

    snprintf(name[deed], sizeof(name[deed]), "%s, stopped at every step",
             names[deed]);
    CASE(name[deed]);
    make(&world, deed);
    for (unsigned step = 0; step < SL_JOURNAL; step++)
        for (unsigned meddle = 0; meddle < (deed == RELEASE ? 1 : 2); meddle++)
            for (unsigned n = 1; run_stopped(&world, deed, step, n, meddle);
                 n++)
                runs++;
    CHECK(runs > 5);
    free_world(&world);
}

/* 20 are used beside the 50 that are held; of those 70 and what was there, 50
 * drain in three seconds. What is left comes back, and all of it: what the
 * thread has counted before it was overtaken was its own. */
static void act_release_late(struct world *w, struct sl_table *table)
{
    (void)w;
    (void)release_at(table, 1, NOW + 3 * SL_S);
}

static void test_overtaken(void)
{
    struct stop stop = {.world = &world, .step = SL_STEP_COMMIT, .nth = 1};

    CASE("a release that is overtaken gives back no less");
    begin_world(&world, "a late release");
    CHECK_EQ(take(&world.table, &world.limit[RATE], "b", 20), SL_SET_ALLOW);
    CHECK_EQ(
        hold_at(&world.table, &world.limit[RATE], "b", 50, 1, SL_HOUR, NOW),
        SL_SET_ALLOW);
    world.act = act_release_late;
    CHECK(start_victim(&stop));
    CHECK_EQ(take_at(&world.table, &world.limit[RATE], "b", 1, NOW + 3 * SL_S),
             SL_SET_ALLOW);
    let_go(&stop);
    CHECK_EQ(used_at(&world.table, &world.limit[RATE], "b", NOW + 3 * SL_S), 1);
    close_world(&world);
    free_world(&world);
}

/* ---- killed ---- */

static bool run_killed(struct world *w, enum deed deed, enum sl_step step,
                       unsigned nth)
{
    struct stop stop = {
        .world = w, .step = step, .nth = nth, .signal = SIGKILL};
    uint64_t others;
    pid_t pid;

    restore(w);
    pid = start_child(w, &stop);
    others = others_take(w);
    sl_actors_reap(&w->table.actors);
    check_end(w, others, deed);
    close_world(w);
    return pid != 0;
}

static void test_killed(enum deed deed)
{
    static char name[DEEDS][64];
    unsigned runs = 0;

    snprintf(name[deed], sizeof(name[deed]), "%s, killed at every step",
             names[deed]);
    CASE(name[deed]);
    make(&world, deed);
    for (unsigned step = 0; step < SL_JOURNAL; step++)
        for (unsigned n = 1; run_killed(&world, deed, step, n); n++)
            runs++;
    CHECK(runs > 5);
    free_world(&world);
}

/* The claim of a dead process goes to the next hold, when there is no room
 * otherwise. */
static void test_dead_claims(void)
{
    struct sl_hold_stats stats;
    uint64_t before = 0, again = 0;

    CASE("the claims of the dead are room for others");
    make(&world, HOLD);
    sl_table_hold_stats(&world.table, &stats);
    for (uint64_t i = 0; i < stats.places; i++)
        before += hold_at(&world.table, &world.limit[DAY], "c", 1, 100 + i,
                          LIFE, NOW) == SL_SET_ALLOW;
    restore(&world);
    for (uint64_t i = 0; i < SL_ACTORS; i++) {
        struct stop stop = {.world = &world,
                            .step = SL_STEP_CLAIMED,
                            .nth = 1,
                            .signal = SIGKILL};

        CHECK(start_child(&world, &stop) != 0);
    }
    for (uint64_t i = 0; i < stats.places; i++)
        again += hold_at(&world.table, &world.limit[DAY], "c", 1, 100 + i, LIFE,
                         NOW) == SL_SET_ALLOW;
    CHECK(again + 4 > before); /* they may lie otherwise; 28 were claimed */
    sl_actors_reap(&world.table.actors);
    CHECK_EQ(claims_left(&world.table.region), 0);
    close_world(&world);
    free_world(&world);
}

int main(void)
{
    sl_step_hook = on_step;
    seen = shared_pages(4096);
    for (enum deed deed = 0; deed < DEEDS; deed++) {
        test_stopped(deed);
        test_killed(deed);
    }
    test_overtaken();
    test_dead_claims();
    return CHECK_DONE();
}
