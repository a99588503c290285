/* leases.c -- nodes that lease a quota from one usage database and fail:
 * invariants (1) to (8) of store/quota_lease.h by number.
 *
 * The database is a few numbers. A node is its cell, which survives a kill, and
 * its lease in memory, which does not. Time is true months. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/calendar.h"
#include "leased_db.h"

#define MONTH SL_CALENDAR_MONTH

/* ---- nodes ---- */

struct node {
    uint64_t cell;  /* in the table */
    uint64_t slip;  /* taken, and not recorded yet */
    bool remembers; /* `lease` is one */
    bool away;      /* killed; its table may be found later */
    bool lost;      /* it will never come back */
    struct sl_quota_lease lease;
};

struct world {
    struct usage_db db; /* of this period */
    struct node nodes[NODES];
    struct sl_period period;
    struct sl_calendar cal;
    uint64_t cap, taken; /* by all, in this period */
    sl_ns now, steady;
};

/* Ask the database; sometimes the answer is lost. */
static void ask_db(struct world *w, unsigned i, uint64_t cost, bool answered)
{
    struct node *n = &w->nodes[i];
    struct sl_quota_lease *l = &n->lease;
    struct sl_quota_lease_wish wish = {.cost = cost, .cap = w->cap};
    struct sl_quota_ask ask = {.cap = w->cap};

    ask.ceiling = l->ceiling > l->count ? l->ceiling : l->count;
    if (cost > 0)
        ask.want = sl_quota_lease_shortfall(l, cost, w->cap, &wish.least);
    ask.least = ask.need = wish.least;
    claim(&w->db, i, &ask, w->steady);
    CHECK(w->db.used + w->db.leased <= w->cap + w->db.overshoot); /* (1) */
    if (answered)
        sl_quota_lease_granted(l, &ask.terms, &wish, w->steady);
}

static bool try(struct world *w, struct node *n, uint64_t cost)
{
    struct sl_quota_lease *l = &n->lease;

    if (!l->has_terms || n->cell + cost > sl_quota_lease_room(l, w->cap))
        return false;
    n->cell += cost;
    n->slip += cost;
    w->taken += cost;
    sl_quota_lease_spent(l, cost, n->cell, w->now);
    return true;
}

static bool take(struct world *w, unsigned i, uint64_t cost)
{
    struct node *n = &w->nodes[i];

    if (!n->remembers) {
        sl_quota_lease_begin(&n->lease, w->period.start, w->period.end,
                             n->cell);
        n->remembers = true;
    }
    n->lease.count = n->cell;
    if (try(w, n, cost))
        return true;
    ask_db(w, i, cost, any(8) != 0);
    return try(w, n, cost);
}

static void put_down(struct world *w, unsigned i)
{
    record(&w->db, i, w->nodes[i].slip);
    w->nodes[i].slip = 0;
}

static void give(struct world *w, unsigned i, bool idle)
{
    struct node *n = &w->nodes[i];
    uint64_t units;

    if (!n->remembers || !n->lease.has_terms)
        return;
    n->lease.count = n->cell;
    units = sl_quota_lease_surplus(&n->lease, idle);
    if (units > 0)
        reduce(&w->db, i, units);
}

/* A killed node starts with its table. */
static void come_back(struct world *w, unsigned i)
{
    struct node *n = &w->nodes[i];
    uint64_t used = w->db.used;

    recover(&w->db, i, n->cell);
    CHECK(!w->db.rows[i].there); /* (4) */
    CHECK_EQ(w->db.used - used, n->slip);
    n->slip = 0;
    n->away = false;
}

/* The node is killed; its table is found at once, or later, or never. */
static void die(struct world *w, unsigned i)
{
    struct node *n = &w->nodes[i];

    n->remembers = false;
    if (any(2)) {
        come_back(w, i);
        return;
    }
    n->away = true;
    n->lost = any(8) == 0;
}

/* Another month: cells begin anew when they are taken from. */
static void turn(struct world *w)
{
    for (unsigned i = 0; i < NODES; i++) {
        put_down(w, i);
        give(w, i, true);
    }
    w->now = w->period.end + (sl_ns)any(SL_DAY);
    w->period = sl_calendar_period(&w->cal, w->now);
    w->db = (struct usage_db){.cap = w->cap};
    for (unsigned i = 0; i < NODES; i++)
        w->nodes[i] = (struct node){.lost = false};
    w->taken = 0;
    CHECK_EQ(w->db.leased, 0); /* (5) */
}

static void check(const struct world *w)
{
    uint64_t rows = 0, slips = 0, freed = 0;

    for (unsigned i = 0; i < NODES; i++) {
        const struct row *row = &w->db.rows[i];
        uint64_t slip = w->nodes[i].slip;

        CHECK(slip <= row->leased + row->freed); /* (2) */
        rows += row->leased;
        slips += slip;
        freed += least_of(slip, row->freed);
    }
    CHECK_EQ(w->db.leased, rows);
    CHECK_EQ(w->taken, w->db.used + slips); /* (4) */
    CHECK(w->taken <= w->cap + w->db.overshoot + freed);
}

static void step(struct world *w)
{
    unsigned i = (unsigned)any(NODES);

    w->steady += (sl_ns)any(200 * (uint64_t)SL_MS);
    w->now += (sl_ns)any((uint64_t)SL_S);
    if (any(50) == 0 && w->now > w->period.start + SL_HOUR)
        w->now -= (sl_ns)any((uint64_t)SL_HOUR); /* a clock that steps back */
    if (w->now >= w->period.end)
        w->now = w->period.end - 1;
    if (w->nodes[i].away) {
        if (any(8) == 0)
            free_lease(&w->db, i); /* it is gone for too long */
        else if (any(8) == 0 && !w->nodes[i].lost)
            come_back(w, i);
        return;
    }
    switch (any(16)) {
    case 0:
        give(w, i, any(2));
        break;
    case 1:
        die(w, i);
        break;
    case 2:
    case 3:
        put_down(w, i);
        break;
    default:
        (void)take(w, i, 1 + any(any(6) ? 2 : 1 + w->cap / 3));
    }
}

/* Units of nodes that are gone are freed. The others take one unit after
 * another until there is none. Then the tables that are not lost are found. */
static void use_up(struct world *w)
{
    bool passed = true;

    for (unsigned i = 0; i < NODES; i++)
        if (w->nodes[i].away)
            free_lease(&w->db, i);
        else
            put_down(w, i);
    while (passed) {
        passed = false;
        for (unsigned i = 0; i < NODES; i++) {
            w->steady += SL_S;
            for (int tries = 0; tries < 4 && !w->nodes[i].away; tries++)
                passed |= take(w, i, 1);
        }
        check(w);
    }
    for (unsigned i = 0; i < NODES; i++)
        if (!w->nodes[i].lost)
            come_back(w, i); /* also what answers that were lost had granted */
    check(w);
}

static unsigned nodes_left(const struct world *w)
{
    unsigned left = 0;

    for (unsigned i = 0; i < NODES; i++)
        left += !w->nodes[i].away;
    return left;
}

static bool episode(uint64_t seed, uint64_t *steps)
{
    struct world w = {.cap = 1, .now = 20000 * SL_DAY};

    chance.state = seed;
    w.cap = w.db.cap = 1 + any(any(2) ? 30 : 5000);
    w.cal = (struct sl_calendar){.zone = &sl_zone_utc,
                                 .unit = MONTH,
                                 .every = 1,
                                 .anchor = 1 + (uint32_t)any(31)};
    w.period = sl_calendar_period(&w.cal, w.now);
    for (int month = 0; month < 3; month++) {
        for (unsigned i = 0; i < 600; i++) {
            step(&w);
            check(&w);
        }
        use_up(&w);
        if (nodes_left(&w) > 0) { /* (3): whatever the others had */
            use_up(&w);
            CHECK(w.db.used >= w.cap);
            CHECK(w.db.used <= w.cap + w.db.overshoot);
        }
        turn(&w);
    }
    *steps += 20; /* they are short */
    return true;
}

/* ---- nodes that are gone ---- */

/* One node has heartbeats for a while, and another one reads them, with delays
 * and gaps. Which of the two is slow, or has no database, is random. */
static bool watch_episode(uint64_t seed, uint64_t *steps)
{
    struct sl_quota_watch w = {.count = 0};
    sl_ns now = SL_HOUR, seen = 0, written = 0, last = 0, reading = 0;
    bool gone = false;

    chance.state = seed;
    for (int i = 0; i < 400; i++) {
        sl_ns asked = now + (sl_ns)any(3 * (uint64_t)SL_S);
        sl_ns answered =
            asked + (sl_ns)any(any(9) ? (uint64_t)SL_S : 12 * (uint64_t)SL_S);
        sl_ns read = asked + (sl_ns)any((uint64_t)(answered - asked) + 1);

        if (i < 100 && any(6)) { /* a clock of its own, which may step */
            seen = (sl_ns)any(1000 * (uint64_t)SL_S);
            written = read;
        }
        if (last == 0 || answered - last > SL_QUOTA_LEASE_GAP)
            reading = answered;
        sl_quota_watch_begin(&w, asked, answered);
        gone = sl_quota_watch_node(&w, SL_STR("other"), seen);
        sl_quota_watch_end(&w);
        if (gone) { /* (7) */
            CHECK(asked - written >= SL_QUOTA_LEASE_GONE);
            CHECK(asked - reading >= SL_QUOTA_LEASE_GONE);
        } else if (last > 0) { /* (8) */
            CHECK(asked - written < SL_QUOTA_LEASE_GONE + 12 * SL_S ||
                  asked - reading < SL_QUOTA_LEASE_GONE + 12 * SL_S);
        }
        last = now = answered;
    }
    sl_quota_watch_begin(&w, now, now);
    sl_quota_watch_end(&w);
    CHECK_EQ(w.count, 0);
    *steps += 20;
    return true;
}

/* 50 of 100 are used, 47 are leased to others, and 7 were asked for. */
static void finish(uint64_t steps)
{
    struct sl_quota_lease_terms terms = {.used = 50};
    struct sl_quota_lease_wish wish = {.cost = 7, .least = 7, .cap = 100};
    struct sl_quota_lease l;

    (void)steps;
    sl_quota_lease_begin(&l, 0, SL_DAY, 0);
    sl_quota_lease_granted(&l, &terms, &wish, SL_S);
    CASE("a denial is remembered for a moment");
    CHECK(sl_quota_lease_is_refused(&l, 7, 100, SL_S));
    CHECK(sl_quota_lease_is_refused(&l, 8, 100, SL_S));
    CHECK(!sl_quota_lease_is_refused(&l, 7, 100, 2 * SL_S));
    CHECK(!sl_quota_lease_is_refused(&l, 7, 101, SL_S));
    CASE("a smaller cost is asked for");
    CHECK(!sl_quota_lease_is_refused(&l, 6, 100, SL_S));
    CASE("a denial ends when less is missing");
    sl_quota_lease_keep(&l, 1);
    CHECK(!sl_quota_lease_is_refused(&l, 7, 100, SL_S));
    CHECK(sl_quota_lease_is_refused(&l, 8, 100, SL_S));
    CASE("what all nodes together have used does not come back");
    wish.least = 0;
    wish.cost = 51;
    sl_quota_lease_granted(&l, &terms, &wish, SL_S);
    CHECK(sl_quota_lease_is_refused(&l, 51, 100, SL_S));
    CHECK(!sl_quota_lease_is_refused(&l, 50, 100, SL_S));
    CASE("a node whose lease was released is told, and not denied");
    wish = (struct sl_quota_lease_wish){
        .cost = 7, .least = 2, .cap = 100, .has = true};
    sl_quota_lease_keep(&l, 5);
    sl_quota_lease_granted(&l, &terms, &wish, SL_S);
    CHECK_EQ(sl_quota_lease_unspent(&l), 0);
    CHECK(!sl_quota_lease_is_refused(&l, 7, 100, SL_S));
}

const struct property prop_leases = {
    .name = "leases",
    .steps = 40000,
    .cases = {{"nodes lease, take, give back, die and come back", episode},
              {"a node that has no heartbeat is gone", watch_episode}},
    .finish = finish,
};
