/* family.h -- children that work on one file, and a page that all of them see.
 */
#ifndef SL_THREADS_FAMILY_H
#define SL_THREADS_FAMILY_H

#include <signal.h>
#include <sys/wait.h>

#include "hammer.h"

#define FAMILY_MAX 8

/* What one child has begun and what it has been told. Written by the child
 * alone; read by its parent, also when the child is dead. */
struct account {
    _Atomic uint64_t attempted[SIDE][SIDE]; /* left, right */
    _Atomic uint64_t acknowledged[SIDE][SIDE];
    _Atomic uint64_t single[2]; /* takes of the shared key alone, likewise */
    _Atomic uint64_t progress;
    _Atomic uint64_t target; /* wake the parent when progress is here; or 0 */
    char pad[32];
};

struct page {
    struct tally tally;
    _Atomic uint64_t stop; /* children finish when it is 1 */
    struct account account[FAMILY_MAX];
};

static char family_dir[64];
static char family_path[80];
static int family_wake[2]; /* a pipe: a byte for each target reached */

static inline void make_dir(void)
{
    if (pipe(family_wake))
        abort();
    snprintf(family_dir, sizeof(family_dir), "/tmp/sluice-threads-XXXXXX");
    if (!mkdtemp(family_dir))
        abort();
    snprintf(family_path, sizeof(family_path), "%s/state", family_dir);
}

static inline void remove_dir(void)
{
    unlink(family_path);
    CHECK_EQ(rmdir(family_dir), 0); /* nothing else was left in it */
}

/* Open the table in the file. It must not be found damaged. */
static inline void open_file(struct hammer *h)
{
    struct sl_diag diag = {.line = 0};
    struct sl_region region;

    if (sl_region_open_file(&region, family_path, MIB, SL_DAMAGE_REFUSE,
                            &diag)) {
        printf("Bail out! %s\n", diag.sentence);
        fflush(NULL);
        abort();
    }
    sl_table_init(&h->table, &region, SL_FULL_ALLOW);
    know_limits(h);
}

typedef void child_f(struct hammer *h, struct page *page, unsigned number);

/* Start a child that runs `body` and exits. */
static inline pid_t start(struct page *page, child_f *body, unsigned number)
{
    struct hammer *h;
    pid_t pid;

    fflush(NULL);
    pid = fork();
    if (pid < 0)
        abort();
    if (pid > 0)
        return pid;
    alarm(300);
    h = calloc(1, sizeof(*h));
    if (!h)
        abort();
    h->tally = &page->tally;
    body(h, page, number);
    _exit(0);
}

static inline void wait_well(pid_t pid)
{
    int status = 0;

    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* Until the child has made `steps` more takes. */
static inline void wait_progress(struct account *a, uint64_t steps)
{
    char byte;

    atomic_store(&a->target, atomic_load(&a->progress) + steps);
    if (read(family_wake[0], &byte, 1) != 1)
        abort();
}

/* The child's side of it. */
static inline void make_progress(struct account *a)
{
    uint64_t progress = atomic_fetch_add(&a->progress, 1) + 1;
    uint64_t target = atomic_load(&a->target);

    if (target && progress >= target) {
        atomic_store(&a->target, 0);
        if (write(family_wake[1], "!", 1) != 1)
            abort();
    }
}

/* Take the key that all share, and say so before and after. */
static inline void take_single(struct hammer *h, struct account *a)
{
    atomic_fetch_add(&a->single[0], 1);
    if (take(&h->table, &h->limit[SHARED], "all", 1) != SL_SET_ALLOW)
        abort();
    atomic_fetch_add(&a->single[1], 1);
}

/* Take one set, and say so before and after. Each child also brings new keys
 * of no weight, so that slots are given out, and takes a shared key alone. */
static inline void take_set(struct hammer *h, struct account *a,
                            uint64_t *state)
{
    uint64_t random = next_random(state);
    unsigned l = (unsigned)(random >> 8) % SIDE;
    unsigned r = (unsigned)(random >> 16) % SIDE;
    unsigned first = (unsigned)(random >> 24) % 2;
    struct sl_part parts[3];
    char key[32];

    snprintf(key, sizeof(key), "soft%u", (unsigned)(random >> 32));
    parts[first] = part_of(&h->limit[LEFT], left_keys[l], 1);
    parts[!first] = part_of(&h->limit[RIGHT], right_keys[r], 1);
    parts[2] = part_of(&h->limit[SOFT], key, 1);
    atomic_fetch_add(&a->attempted[l][r], 1);
    if (sl_table_decide(&h->table, parts, random >> 60 ? 2 : 3, NOW, true) !=
        SL_SET_ALLOW)
        abort();
    atomic_fetch_add(&a->acknowledged[l][r], 1);
    take_single(h, a);
    make_progress(a);
}

/* Single takes: what was acknowledged is there, and nothing that was not
 * attempted. */
static inline void check_singles(struct hammer *h, const struct page *page,
                                 bool exact)
{
    uint64_t n = used(&h->table, &h->limit[SHARED], "all");
    uint64_t most = 0, least = 0;

    for (unsigned i = 0; i < FAMILY_MAX; i++) {
        most += atomic_load(&page->account[i].single[0]);
        least += atomic_load(&page->account[i].single[1]);
    }
    CHECK(n >= least && n <= most);
    if (exact)
        CHECK_EQ(n, most);
}

/* What was acknowledged is there, and nothing that was not attempted; if
 * `exact`, everything that was attempted. */
static inline void check_accounts(struct hammer *h, const struct page *page,
                                  bool exact)
{
    uint64_t least[2][SIDE] = {{0}}, most[2][SIDE] = {{0}};
    uint64_t sum[2] = {0, 0}, stray;

    for (unsigned i = 0; i < FAMILY_MAX * SIDE * SIDE; i++) {
        const struct account *a = &page->account[i / SIDE / SIDE];
        unsigned l = i / SIDE % SIDE, r = i % SIDE;

        least[0][l] += atomic_load(&a->acknowledged[l][r]);
        least[1][r] += atomic_load(&a->acknowledged[l][r]);
        most[0][l] += atomic_load(&a->attempted[l][r]);
        most[1][r] += atomic_load(&a->attempted[l][r]);
    }
    for (unsigned i = 0; i < 2 * SIDE; i++) {
        unsigned side = i / SIDE, k = i % SIDE;
        uint64_t n = used(&h->table, &h->limit[side ? RIGHT : LEFT],
                          side ? right_keys[k] : left_keys[k]);

        CHECK(n >= least[side][k] && n <= most[side][k]);
        if (exact)
            CHECK_EQ(n, most[side][k]);
        sum[side] += n;
    }
    CHECK_EQ(sum[0], sum[1]);
    check_singles(h, page, exact);
    CHECK_EQ(locks_left(&h->table.region, &stray), 0);
}

/* How many rounds: SL_LONG in the environment makes it ten times as many,
 * SL_SHORT a third, where programs are slow. */
static inline unsigned rounds_of(unsigned rounds)
{
    if (getenv("SL_LONG"))
        return 10 * rounds;
    return getenv("SL_SHORT") ? rounds / 3 : rounds;
}

#endif
