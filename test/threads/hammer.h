/* hammer.h -- many threads on a handful of keys, and their counts.
 *
 * Every set takes one from a key on the left and one from a key on the right,
 * in either order, and every other one also from a key that all share, which
 * is also taken alone. So at every instant the sum of the left is the sum of
 * the right; a reader looks at all of them at once and compares. What was
 * admitted is counted by the threads; at the end the table must say
 * the same.
 *
 * Works on a table that threads share and on tables that processes have over
 * the same region; the tallies are in memory that all of them see.
 */
#ifndef SL_THREADS_HAMMER_H
#define SL_THREADS_HAMMER_H

#include <pthread.h>

#include "rig.h"

#define SIDE 4 /* keys on each side */

/* Sanitizers slow things down, and so do threads that give way half way. */
#if defined(__SANITIZE_THREAD__)
#define SLOWED 8
#elif defined(__SANITIZE_ADDRESS__)
#define SLOWED 4
#else
#define SLOWED 1
#endif
#ifdef SL_HOOKS
#define SLOWER (SLOWED * 5)
#else
#define SLOWER SLOWED
#endif

enum { LEFT, RIGHT, SHARED, FEW, SOFT, LIMITS };

struct tally {
    _Atomic uint64_t left[SIDE], right[SIDE], shared;
    _Atomic uint64_t denied;
    _Atomic uint64_t torn;  /* sums that differed */
    _Atomic uint64_t reads; /* sums that were compared */
    _Atomic uint64_t running;
};

struct hammer {
    struct sl_table table;
    struct sl_limit_binding limit[LIMITS];
    struct tally *tally;
    unsigned rounds;
    bool gives_back;
};

static const char *const left_keys[SIDE] = {"l0", "l1", "l2", "l3"};
static const char *const right_keys[SIDE] = {"r0", "r1", "r2", "r3"};

static inline uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* Make the limits known; every process does it for itself. */
static inline void know_limits(struct hammer *h)
{
    h->limit[LEFT] = limit_of("left", SL_BUCKET, "100M/day", 100);
    h->limit[RIGHT] = limit_of("right", SL_PERMITS, "100M", 100);
    h->limit[SHARED] = limit_of("shared", SL_QUOTA, "100M/month", 100);
    h->limit[FEW] = limit_of("few", SL_SLIDING, "5/h", 400);
    h->limit[SOFT] = limit_of("soft", SL_BUCKET, "100/h", 100);
    for (unsigned i = 0; i < LIMITS; i++)
        know(&h->table, &h->limit[i]);
}

/* One worker. */
static inline void strike(struct hammer *h, uint64_t seed)
{
    struct tally *t = h->tally;
    uint64_t state = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;

    for (unsigned i = 0; i < h->rounds; i++) {
        uint64_t random = next_random(&state);
        unsigned l = (unsigned)(random >> 8) % SIDE;
        unsigned r = (unsigned)(random >> 16) % SIDE;
        unsigned first = (unsigned)(random >> 24) % 2;
        unsigned count = random >> 32 & 1 ? 3 : 2;
        struct sl_part parts[3];

        parts[first] = part_of(&h->limit[LEFT], left_keys[l], 1);
        parts[!first] = part_of(&h->limit[RIGHT], right_keys[r], 1);
        parts[2] = part_of(&h->limit[SHARED], "all", 1);
        if (sl_table_decide(&h->table, parts, count, NOW, true) !=
            SL_SET_ALLOW) {
            atomic_fetch_add(&t->denied, 1);
            continue;
        }
        atomic_fetch_add(&t->left[l], 1);
        atomic_fetch_add(&t->right[r], 1);
        if (count == 3)
            atomic_fetch_add(&t->shared, 1);
        if (random >> 33 & 1 &&
            take(&h->table, &h->limit[SHARED], "all", 1) == SL_SET_ALLOW)
            atomic_fetch_add(&t->shared, 1);
    }
    atomic_fetch_sub(&t->running, 1);
}

static inline uint64_t used_in(const struct sl_part *part)
{
    return part->answer.capacity - part->answer.remaining;
}

/* One look at all keys of both sides. */
static inline void compare_sides(struct hammer *h)
{
    struct sl_part parts[2 * SIDE];
    uint64_t left = 0, right = 0;

    for (unsigned i = 0; i < SIDE; i++) {
        parts[i] = part_of(&h->limit[LEFT], left_keys[i], 0);
        parts[SIDE + i] = part_of(&h->limit[RIGHT], right_keys[i], 0);
        parts[i].op = parts[SIDE + i].op = SL_TAKE_OP_PEEK;
    }
    if (sl_table_decide(&h->table, parts, 2 * SIDE, NOW, true) != SL_SET_ALLOW)
        abort();
    for (unsigned i = 0; i < SIDE; i++) {
        left += used_in(&parts[i]);
        right += used_in(&parts[SIDE + i]);
    }
    atomic_fetch_add(&h->tally->reads, 1);
    if (left != right)
        atomic_fetch_add(&h->tally->torn, 1);
}

/* What one key after the other has used: every change is on both sides, so
 * no one on the right is behind the left of before, nor ahead of the left of
 * later. */
static inline void compare_in_turn(struct hammer *h)
{
    uint64_t sum[3] = {0, 0, 0};

    for (unsigned turn = 0; turn < 3; turn++)
        for (unsigned i = 0; i < SIDE; i++)
            sum[turn] += turn == 1
                             ? used(&h->table, &h->limit[RIGHT], right_keys[i])
                             : used(&h->table, &h->limit[LEFT], left_keys[i]);
    atomic_fetch_add(&h->tally->reads, 1);
    if (sum[0] > sum[1] || sum[1] > sum[2])
        atomic_fetch_add(&h->tally->torn, 1);
}

/* The reader: as long as any thread works. */
static inline void read_along(struct hammer *h)
{
    do {
        if (!h->gives_back)
            compare_in_turn(h);
        compare_sides(h);
    } while (atomic_load(&h->tally->running) > 0);
}

/* The table agrees with the counts of the threads. */
static inline void check_totals(struct hammer *h, uint64_t attempts)
{
    struct tally *t = h->tally;
    uint64_t left = 0, right = 0, stray;

    for (unsigned i = 0; i < SIDE; i++) {
        left += atomic_load(&t->left[i]);
        right += atomic_load(&t->right[i]);
        CHECK_EQ(used(&h->table, &h->limit[LEFT], left_keys[i]),
                 atomic_load(&t->left[i]));
        CHECK_EQ(used(&h->table, &h->limit[RIGHT], right_keys[i]),
                 atomic_load(&t->right[i]));
    }
    CHECK_EQ(used(&h->table, &h->limit[SHARED], "all"),
             atomic_load(&t->shared));
    CHECK_EQ(left, attempts - atomic_load(&t->denied));
    CHECK_EQ(right, left);
    CHECK_EQ(atomic_load(&t->torn), 0);
    CHECK(atomic_load(&t->reads) > 0);
    CHECK_EQ(locks_left(&h->table.region, &stray), 0);
    CHECK_EQ(counted(&h->table, SL_STAT_FULL), 0);
    printf("# %" PRIu64 " sets, %" PRIu64 " looks, %" PRIu64 " helped, %" PRIu64
           " undone\n",
           attempts, atomic_load(&t->reads), counted(&h->table, SL_STAT_HELPED),
           counted(&h->table, SL_STAT_UNDONE));
}

/* ---- giving back ---- */

/* A worker gives back what it has taken: the same values come again and again,
 * and keys that are not held lose their slots to others. */
static inline void strike_back(struct hammer *h, uint64_t seed)
{
    uint64_t state = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    struct sl_part parts[2];

    for (unsigned i = 0; i < h->rounds; i++) {
        uint64_t random = next_random(&state);
        unsigned first = (unsigned)(random >> 24) % 2;

        parts[first] =
            part_of(&h->limit[LEFT], left_keys[(random >> 8) % SIDE], 1);
        parts[!first] =
            part_of(&h->limit[RIGHT], right_keys[(random >> 16) % SIDE], 1);
        if (sl_table_decide(&h->table, parts, 2, NOW, true) != SL_SET_ALLOW ||
            parts[0].untracked || parts[1].untracked)
            atomic_fetch_add(&h->tally->denied, 1);
        for (unsigned p = 0; p < 2; p++) {
            parts[p].op = SL_TAKE_OP_REFUND;
            parts[p].taken_at = NOW;
        }
        if (sl_table_decide(&h->table, parts, 2, NOW, true) != SL_SET_ALLOW)
            atomic_fetch_add(&h->tally->denied, 1);
    }
    atomic_fetch_sub(&h->tally->running, 1);
}

/* Fill the table with keys that owe little, and sweep: whatever may change
 * hands does. */
static inline void fill_along(struct hammer *h, unsigned *next)
{
    struct sl_intent *intent;
    char key[32];

    while (atomic_load(&h->tally->running) > 0) {
        for (unsigned i = 0; i < 100; i++) {
            snprintf(key, sizeof(key), "filler%u", (*next)++);
            (void)take(&h->table, &h->limit[SOFT], key, 1);
        }
        intent = sl_actor_borrow(&h->table.actors);
        (void)sl_sweep(intent, 100, NOW);
        sl_actor_return(&h->table.actors, intent);
    }
}

static inline void check_given_back(struct hammer *h)
{
    uint64_t stray;

    for (unsigned i = 0; i < SIDE; i++) {
        CHECK_EQ(used(&h->table, &h->limit[LEFT], left_keys[i]), 0);
        CHECK_EQ(used(&h->table, &h->limit[RIGHT], right_keys[i]), 0);
    }
    CHECK_EQ(atomic_load(&h->tally->denied), 0);
    CHECK_EQ(atomic_load(&h->tally->torn), 0);
    CHECK(atomic_load(&h->tally->reads) > 0);
    CHECK_EQ(locks_left(&h->table.region, &stray), 0);
    printf("# %" PRIu64 " looks, %" PRIu64 " helped, %" PRIu64
           " undone, %" PRIu64 " inserted\n",
           atomic_load(&h->tally->reads), counted(&h->table, SL_STAT_HELPED),
           counted(&h->table, SL_STAT_UNDONE),
           counted(&h->table, SL_STAT_INSERTED));
}

/* ---- new keys ---- */

/* All workers take from the same new keys, in the same order, five of each can
 * be had; in between come keys of no weight, so that slots change hands.
 * admitted[i] counts for key i. */
static inline void strike_new(struct hammer *h, unsigned worker, unsigned keys,
                              _Atomic uint64_t *admitted)
{
    char key[32];

    for (unsigned i = 0; i < keys; i++) {
        snprintf(key, sizeof(key), "few%u", i);
        for (unsigned n = 0; n < 3; n++)
            if (take(&h->table, &h->limit[FEW], key, 1) == SL_SET_ALLOW)
                atomic_fetch_add(&admitted[i], 1);
        snprintf(key, sizeof(key), "soft%u.%u", worker, i);
        (void)take(&h->table, &h->limit[SOFT], key, 1);
        (void)take(&h->table, &h->limit[SOFT], "soft", 1);
    }
    atomic_fetch_sub(&h->tally->running, 1);
}

/* `attempts` for each key. */
static inline void check_new(struct hammer *h, unsigned keys, uint64_t attempts,
                             const _Atomic uint64_t *admitted)
{
    uint64_t want = attempts < 5 ? attempts : 5, wrong = 0, unlike = 0, stray;
    char key[32];

    for (unsigned i = 0; i < keys; i++) {
        snprintf(key, sizeof(key), "few%u", i);
        wrong += atomic_load(&admitted[i]) != want;
        unlike += used(&h->table, &h->limit[FEW], key) != want;
    }
    CHECK_EQ(wrong, 0);
    CHECK_EQ(unlike, 0);
    CHECK_EQ(locks_left(&h->table.region, &stray), 0);
    printf("# %" PRIu64 " evicted, %" PRIu64 " full, %" PRIu64 " helped\n",
           counted(&h->table, SL_STAT_EVICTED),
           counted(&h->table, SL_STAT_FULL),
           counted(&h->table, SL_STAT_HELPED));
}

#endif
