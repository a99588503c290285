/* hammer.c -- threads that take overlapping sets from one table.
 *
 * Built twice: as it is, and with the hooks of the table, where every thread
 * gives way in the middle of every few changes. Then hardly a set goes by that
 * is not met half way and helped or undone.
 */
#include "hammer.h"

#include <sched.h>

#define NEW_KEYS 3000

struct thread {
    pthread_t id;
    struct hammer *hammer;
    unsigned number;
    _Atomic uint64_t *admitted; /* of new keys, or NULL: sets */
};

static _Atomic bool all_there; /* no thread begins before the last is there */

static void *strike_main(void *arg)
{
    struct thread *t = arg;

    while (!atomic_load(&all_there))
        sched_yield();
    if (t->hammer->gives_back)
        strike_back(t->hammer, t->number + 1);
    else if (t->admitted)
        strike_new(t->hammer, t->number, NEW_KEYS, t->admitted);
    else
        strike(t->hammer, t->number + 1);
    return NULL;
}

static void run_threads(struct hammer *h, unsigned count,
                        _Atomic uint64_t *admitted, bool read)
{
    struct thread threads[256];

    atomic_store(&h->tally->running, count);
    for (unsigned i = 0; i < count; i++) {
        threads[i] = (struct thread){0, h, i, admitted};
        if (pthread_create(&threads[i].id, NULL, strike_main, &threads[i]))
            abort();
    }
    atomic_store(&all_there, true);
    if (read)
        read_along(h);
    for (unsigned i = 0; i < count; i++)
        pthread_join(threads[i].id, NULL);
    atomic_store(&all_there, false);
}

static void begin(struct hammer *h, struct tally *tally, uint64_t size)
{
    memset(tally, 0, sizeof(*tally));
    h->tally = tally;
    open_heap(&h->table, size, SL_FULL_ALLOW);
    know_limits(h);
}

static void test_sets(struct hammer *h, unsigned count, unsigned rounds)
{
    static struct tally tally;

    begin(h, &tally, MIB);
    h->rounds = rounds / SLOWER / count;
    run_threads(h, count, NULL, true);
    check_totals(h, (uint64_t)h->rounds * count);
    sl_table_done(&h->table);
}

static void *filler_main(void *arg)
{
    unsigned next = 0;

    fill_along(arg, &next);
    return NULL;
}

static void test_given_back(struct hammer *h, unsigned count, unsigned rounds)
{
    static struct tally tally;
    pthread_t filler;
    char key[32];

    begin(h, &tally, MIB);
    h->rounds = rounds / SLOWER / count;
    h->gives_back = true;
    for (unsigned i = 0; i < 20000; i++) {
        snprintf(key, sizeof(key), "first%u", i);
        (void)take(&h->table, &h->limit[SOFT], key, 1);
    }
    atomic_store(&tally.running, 1);
    if (pthread_create(&filler, NULL, filler_main, h))
        abort();
    run_threads(h, count, NULL, true);
    pthread_join(filler, NULL);
    check_given_back(h);
    sl_table_done(&h->table);
    h->gives_back = false;
}

static void test_new(struct hammer *h, unsigned count)
{
    static struct tally tally;
    static _Atomic uint64_t admitted[NEW_KEYS];

    begin(h, &tally, MIB);
    memset(admitted, 0, sizeof(admitted));
    run_threads(h, count, admitted, false);
    check_new(h, NEW_KEYS, 3 * count, admitted);
    sl_table_done(&h->table);
}

/* A key with little left: in any order of threads all of it is given out, and
 * no more. */
static void *drain_main(void *arg)
{
    struct thread *t = arg;
    struct hammer *h = t->hammer;

    for (unsigned i = 0; i < h->rounds; i++) {
        struct sl_part parts[2];

        parts[t->number % 2] = part_of(&h->limit[SOFT], "little", 1);
        parts[!(t->number % 2)] = part_of(&h->limit[RIGHT], "r0", 1);
        if (sl_table_decide(&h->table, parts, 2, NOW, true) == SL_SET_ALLOW)
            atomic_fetch_add(&h->tally->shared, 1);
    }
    return NULL;
}

static void test_drain(struct hammer *h, unsigned count)
{
    static struct tally tally;
    struct thread threads[8];

    for (unsigned round = 0; round < 20; round++) {
        begin(h, &tally, MIB);
        h->rounds = 100;
        for (unsigned i = 0; i < count; i++) {
            threads[i] = (struct thread){0, h, i, NULL};
            if (pthread_create(&threads[i].id, NULL, drain_main, &threads[i]))
                abort();
        }
        for (unsigned i = 0; i < count; i++)
            pthread_join(threads[i].id, NULL);
        CHECK_EQ(atomic_load(&tally.shared), 100);
        CHECK_EQ(used(&h->table, &h->limit[SOFT], "little"), 100);
        CHECK_EQ(used(&h->table, &h->limit[RIGHT], "r0"), 100);
        sl_table_done(&h->table);
    }
}

#ifdef SL_HOOKS
static void on_step(enum sl_step step)
{
    static _Thread_local uint64_t state;

    if (!state)
        state = (uintptr_t)&state >> 4 | 1;
    (void)step;
    if (next_random(&state) % 32 == 0)
        sched_yield();
}
#endif

int main(void)
{
    static struct hammer h;

    alarm(300); /* no test hangs */
#ifdef SL_HOOKS
    sl_step_hook = on_step;
#endif
    CASE("2 threads: totals are exact and no set is half taken");
    test_sets(&h, 2, 400000);
    CASE("8 threads: totals are exact and no set is half taken");
    test_sets(&h, 8, 400000);
    CASE("150 threads, more than there are records: totals are exact and no "
         "set is half taken");
    test_sets(&h, 150, 80000);
    CASE("2 threads: what is given back is gone, also when its slot is taken");
    test_given_back(&h, 2, 200000);
    CASE("8 threads: what is given back is gone, also when its slot is taken");
    test_given_back(&h, 8, 200000);
    CASE("2 threads: a new key is added once");
    test_new(&h, 2);
    CASE("8 threads: a new key is added once");
    test_new(&h, 8);
    CASE("8 threads: the last one is given out once");
    test_drain(&h, 8);
    return CHECK_DONE();
}
