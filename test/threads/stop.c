/* stop.c -- processes that are stopped in the middle of whatever they do, and
 * wake up later.
 *
 * Three children take in a loop. One after the other is stopped; the others
 * must get on; then it goes on. In the end every take that was attempted is
 * there exactly once. SL_LONG=1 in the environment stops 1,000 times.
 */
#include "family.h"

#define CHILDREN 3
#define STOPS    100

static void take_body(struct hammer *h, struct page *page, unsigned number)
{
    struct account *a = &page->account[number];
    uint64_t state = number * 77 + 1;

    open_file(h);
    while (!atomic_load(&page->stop))
        take_set(h, a, &state);
    sl_table_done(&h->table);
}

static void stop_child(pid_t pid)
{
    int status;

    kill(pid, SIGSTOP);
    CHECK_EQ(waitpid(pid, &status, WUNTRACED), pid);
    CHECK(WIFSTOPPED(status));
}

/* How many may be stopped at once: one, or all but one. */
static void test_stops(struct hammer *h, struct page *page, unsigned at_once)
{
    pid_t pids[CHILDREN];
    uint64_t state = 3;

    for (unsigned i = 0; i < CHILDREN; i++) {
        pids[i] = start(page, take_body, i);
        wait_progress(&page->account[i], 1);
    }
    for (unsigned n = 0; n < rounds_of(STOPS); n++) {
        unsigned worker = (n + at_once) % CHILDREN;

        wait_progress(&page->account[n % CHILDREN], next_random(&state) % 50);
        for (unsigned i = 0; i < at_once; i++)
            stop_child(pids[(n + i) % CHILDREN]);
        wait_progress(&page->account[worker], 100); /* gets on */
        for (unsigned i = 0; i < at_once; i++)
            kill(pids[(n + i) % CHILDREN], SIGCONT);
    }
    atomic_store(&page->stop, 1);
    for (unsigned i = 0; i < CHILDREN; i++)
        wait_well(pids[i]);
    open_file(h);
    check_accounts(h, page, true);
    printf("# %" PRIu64 " takes, %" PRIu64 " helped, %" PRIu64 " undone\n",
           counted(&h->table, SL_STAT_TAKES),
           counted(&h->table, SL_STAT_HELPED),
           counted(&h->table, SL_STAT_UNDONE));
    sl_table_done(&h->table);
    unlink(family_path);
    memset(page, 0, sizeof(*page));
}

int main(void)
{
    static struct hammer h;
    struct page *page = shared_pages(sizeof(struct page));

    alarm(300); /* no test hangs */
    make_dir();
    CASE("one is stopped, two get on");
    test_stops(&h, page, 1);
    CASE("two are stopped, one gets on");
    test_stops(&h, page, 2);
    remove_dir();
    return CHECK_DONE();
}
