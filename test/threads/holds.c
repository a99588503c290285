/* holds.c -- holds with many at once, and with holders that are killed.
 *
 * Every hold takes a permit, some of a bucket of no rate to speak of, and some
 * of a day. The clock is a number that goes up; no thread waits for it.
 *
 *   (4) of store.h: what was granted less what has ended is held, on all
 *       limits; and no more permits are out than there are
 *   (5) of all threads that try to end a hold the first one does
 */
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

#include "held.h"

#define THREADS 6
#define ROUNDS  4000
#define KILLS   60
#define PERMITS 3
#define SLOTS   16 /* where ids are left for others */

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__) ||           \
    defined(SL_HOOKS)
#define SLOWER 8
#else
#define SLOWER 1
#endif

enum { POOL, DAY, LIMITS };

/* Seen by all, children too. */
struct page {
    _Atomic uint64_t clock;
    _Atomic uint64_t next_id;
    _Atomic uint64_t granted, ended, expired;
    _Atomic uint64_t begun, settled; /* of the day: attempted; told */
    _Atomic int inside;
    _Atomic uint64_t too_many;
    _Atomic uint64_t left[SLOTS];
};

struct crew {
    struct sl_table table;
    struct sl_limit_binding limit[LIMITS];
    struct page *page;
    uint64_t seed;
};

static char path[64];

static void know_limits(struct crew *c)
{
    c->limit[POOL] = limit_of("pool", SL_PERMITS, "3", 100);
    c->limit[DAY] = limit_of("day", SL_QUOTA, "100M/day", 100);
    know(&c->table, &c->limit[POOL]);
    know(&c->table, &c->limit[DAY]);
}

static void open_file(struct crew *c)
{
    struct sl_diag diag = {.line = 0};
    struct sl_region region;

    if (sl_region_open_file(&region, path, MIB, SL_DAMAGE_REFUSE, &diag)) {
        printf("Bail out! %s\n", diag.sentence);
        fflush(NULL);
        abort();
    }
    sl_table_init(&c->table, &region, SL_FULL_ALLOW);
    know_limits(c);
}

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static sl_ns now_of(const struct crew *c)
{
    return NOW + (sl_ns)atomic_load(&c->page->clock);
}

static enum sl_set_result hold_one(struct crew *c, uint64_t id, uint64_t cost,
                                   sl_ns life)
{
    struct sl_part parts[] = {part_of(&c->limit[POOL], "p", 1),
                              part_of(&c->limit[DAY], "d", cost)};
    enum sl_set_result verdict;

    do {
        verdict = sl_table_hold(&c->table, parts, 2, id_of(id), life, now_of(c),
                                false);
    } while (verdict == SL_SET_STALE);
    return verdict;
}

/* Permits come back, and of the day `cost` was used. */
static const struct sl_limit *bill(void *ctx, uint32_t id, uint64_t held,
                                   uint64_t *cost)
{
    const struct crew *c = ctx;

    *cost = id == c->limit[POOL].id ? 0 : held / 2;
    return &c->limit[id == c->limit[POOL].id ? POOL : DAY].strictest;
}

static enum sl_hold_state end_one(struct crew *c, uint64_t id, bool release,
                                  uint64_t *cost)
{
    struct sl_hold_result deed = {.op = SL_HOLD_SETTLE,
                                  .id = id_of(id),
                                  .release = release,
                                  .numbers = bill,
                                  .ctx = c};

    while (sl_table_end(&c->table, &deed, now_of(c), false) == SL_SET_STALE)
        ;
    *cost = deed.state == SL_HOLD_HELD ? deed.parts[1].cost : 0;
    return deed.state;
}

/* ---- threads ---- */

/* End whatever lies in a slot; two may have the same. */
static void end_some(struct crew *c, uint64_t random)
{
    uint64_t id = atomic_load(&c->page->left[random % SLOTS]), cost;
    enum sl_hold_state state;

    if (id == 0)
        return;
    state = end_one(c, id, random & 64, &cost);
    if (state == SL_HOLD_HELD) {
        atomic_fetch_add(&c->page->ended, 1);
        atomic_fetch_add(&c->page->settled, cost);
    }
}

/* Who holds and is held for long is inside alone with PERMITS - 1 others. */
static void go_inside(struct crew *c, uint64_t id)
{
    uint64_t cost;

    if (atomic_fetch_add(&c->page->inside, 1) >= PERMITS)
        atomic_fetch_add(&c->page->too_many, 1);
    sched_yield();
    atomic_fetch_sub(&c->page->inside, 1);
    if (end_one(c, id, true, &cost) != SL_HOLD_HELD)
        abort();
    atomic_fetch_add(&c->page->ended, 1);
}

static void work(struct crew *c, uint64_t *state, bool many)
{
    uint64_t random = next_random(state);
    uint64_t id = atomic_fetch_add(&c->page->next_id, 1);
    sl_ns life = many ? SL_DAY : 1 + (sl_ns)(random >> 40) % 2000;

    atomic_fetch_add(&c->page->clock, random % 64);
    if (hold_one(c, id, random % 100, life) == SL_SET_ALLOW) {
        atomic_fetch_add(&c->page->granted, 1);
        if (many)
            go_inside(c, id);
        else
            atomic_store(&c->page->left[random / 64 % SLOTS], id);
    }
    if (!many)
        end_some(c, random >> 16);
}

static void *expiring(void *arg)
{
    struct crew *c = arg;
    uint64_t state = atomic_fetch_add(&c->page->next_id, 1) * 2654435761U + 1;

    for (unsigned i = 0; i < ROUNDS / SLOWER; i++)
        work(c, &state, false);
    return NULL;
}

static void *crowding(void *arg)
{
    struct crew *c = arg;
    uint64_t state = atomic_fetch_add(&c->page->next_id, 1) * 2654435761U + 1;

    for (unsigned i = 0; i < ROUNDS / SLOWER; i++)
        work(c, &state, true);
    return NULL;
}

/* The end of all: what was not ended has expired. */
static void check_books(struct crew *c)
{
    struct page *p = c->page;

    atomic_fetch_add(&p->clock, (uint64_t)SL_HOUR);
    CHECK_EQ(used_at(&c->table, &c->limit[POOL], "p", now_of(c)), 0);
    CHECK_EQ(used_at(&c->table, &c->limit[DAY], "d", now_of(c)),
             atomic_load(&p->settled));
    CHECK_EQ(held_now(&c->table), 0);
    CHECK_EQ(counted(&c->table, SL_STAT_EXPIRED),
             atomic_load(&p->granted) - atomic_load(&p->ended));
    CHECK_EQ(atomic_load(&p->too_many), 0);
    printf("# %" PRIu64 " granted, %" PRIu64 " ended, %" PRIu64 " expired\n",
           atomic_load(&p->granted), atomic_load(&p->ended),
           counted(&c->table, SL_STAT_EXPIRED));
}

static void test_threads(struct page *page, void *(*body)(void *))
{
    static struct crew c;
    pthread_t threads[THREADS];

    memset(page, 0, sizeof(*page));
    page->next_id = 1;
    c.page = page;
    open_heap(&c.table, MIB, SL_FULL_ALLOW);
    know_limits(&c);
    for (unsigned i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, body, &c))
            abort();
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    CHECK(atomic_load(&page->granted) > 10);
    check_books(&c);
    sl_table_done(&c.table);
}

/* ---- killed ---- */

/* Hold and settle for ever. What is begun is said before, what is told after.
 */
static void child(struct page *page, uint64_t seed)
{
    struct crew *c = calloc(1, sizeof(*c));
    uint64_t state = seed | 1;

    if (!c)
        abort();
    c->page = page;
    open_file(c);
    for (;;) {
        uint64_t random = next_random(&state), cost;
        uint64_t id = atomic_fetch_add(&page->next_id, 1);

        atomic_fetch_add(&page->clock, random % 100);
        if (hold_one(c, id, 100, 500) != SL_SET_ALLOW)
            continue;
        atomic_fetch_add(&page->begun, 50);
        if (end_one(c, id, false, &cost) == SL_HOLD_HELD)
            atomic_fetch_add(&page->settled, 50);
        else
            atomic_fetch_sub(&page->begun, 50);
    }
}

static pid_t start(struct page *page, uint64_t seed)
{
    pid_t pid;

    fflush(NULL);
    pid = fork();
    if (pid < 0)
        abort();
    if (pid == 0) {
        alarm(120);
        child(page, seed);
    }
    return pid;
}

static void kill_one(pid_t pid)
{
    int status;

    kill(pid, SIGKILL);
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static void wait_for(const _Atomic uint64_t *word, uint64_t more)
{
    uint64_t from = atomic_load(word);

    while (atomic_load(word) < from + more)
        sched_yield();
}

/* Two at work; one is killed, and another comes. Afterwards nothing is held,
 * and what was settled lies between what was told and what was begun. */
static void test_killed(struct page *page)
{
    static struct crew c;
    uint64_t state = 99, used;
    pid_t pids[2];

    memset(page, 0, sizeof(*page));
    page->next_id = 1;
    for (unsigned i = 0; i < 2; i++)
        pids[i] = start(page, i + 1);
    for (unsigned n = 0; n < KILLS / SLOWER + 2; n++) {
        wait_for(&page->settled, 50 * (1 + next_random(&state) % 40));
        kill_one(pids[n % 2]);
        pids[n % 2] = start(page, n + 10);
    }
    for (unsigned i = 0; i < 2; i++)
        kill_one(pids[i]);
    c.page = page;
    open_file(&c);
    atomic_fetch_add(&page->clock, (uint64_t)SL_HOUR);
    used = used_at(&c.table, &c.limit[DAY], "d", now_of(&c));
    CHECK_EQ(used_at(&c.table, &c.limit[POOL], "p", now_of(&c)), 0);
    CHECK(used >= atomic_load(&page->settled));
    CHECK(used <= atomic_load(&page->begun));
    CHECK_EQ(held_now(&c.table), 0);
    printf("# %" PRIu64 " settled, told %" PRIu64 ", begun %" PRIu64 "\n", used,
           atomic_load(&page->settled), atomic_load(&page->begun));
    sl_table_done(&c.table);
    unlink(path);
}

#ifdef SL_HOOKS
/* Another thread runs, at any step. */
static void give_way(enum sl_step step)
{
    static _Thread_local uint64_t state = 7;

    if (next_random(&state) % 5 == step % 5)
        sched_yield();
}
#endif

int main(void)
{
    struct page *page = shared_pages(sizeof(struct page));

    alarm(300); /* no test hangs */
#ifdef SL_HOOKS
    sl_step_hook = give_way;
#endif
    snprintf(path, sizeof(path), "/tmp/sluice-holds-%ld", (long)getpid());
    CASE("holds that are ended by several, or expire");
    test_threads(page, expiring);
    CASE("no more are inside than there are permits");
    test_threads(page, crowding);
    CASE("holders that are killed");
    test_killed(page);
    return CHECK_DONE();
}
