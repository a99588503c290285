/* crash.c -- processes that are killed in the middle of whatever they do.
 *
 * A child takes in a loop and says in a shared page what it attempts and what
 * was acknowledged. It is killed after a random number of takes: every take
 * that was acknowledged is still there, nothing that was not attempted, and no
 * set is half taken. SL_LONG=1 in the environment kills 1,000.
 */
#include "family.h"

#define KILLS 100

/* Take for ever. */
static void take_body(struct hammer *h, struct page *page, unsigned number)
{
    struct account *a = &page->account[number];
    uint64_t state = number * 77 + atomic_load(&a->progress) + 1;

    open_file(h);
    while (!atomic_load(&page->stop))
        take_set(h, a, &state);
    sl_table_done(&h->table);
}

/* The same, opening and closing all the time. */
static void open_body(struct hammer *h, struct page *page, unsigned number)
{
    struct account *a = &page->account[number];
    uint64_t state = number * 77 + atomic_load(&a->progress) + 1;

    for (;;) {
        open_file(h);
        for (unsigned i = 0; i < 20; i++)
            take_set(h, a, &state);
        sl_table_done(&h->table);
    }
}

static void kill_child(pid_t pid)
{
    int status;

    kill(pid, SIGKILL);
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

/* One child is killed after the other while two go on working. */
static void test_among_others(struct hammer *h, struct page *page)
{
    uint64_t state = 1;
    pid_t others[2];

    for (unsigned i = 0; i < 2; i++)
        others[i] = start(page, take_body, i);
    for (unsigned n = 0; n < rounds_of(KILLS); n++) {
        pid_t pid = start(page, take_body, 2);

        wait_progress(&page->account[2], 1 + next_random(&state) % 50);
        kill_child(pid);
        for (unsigned i = 0; i < 2; i++) /* no test hangs */
            wait_progress(&page->account[i], 1);
    }
    atomic_store(&page->stop, 1);
    for (unsigned i = 0; i < 2; i++)
        wait_well(others[i]);
    open_file(h);
    check_accounts(h, page, false);
    printf("# %" PRIu64 " helped, %" PRIu64 " undone\n",
           counted(&h->table, SL_STAT_HELPED),
           counted(&h->table, SL_STAT_UNDONE));
    sl_table_done(&h->table);
    atomic_store(&page->stop, 0);
}

/* No other process has the file. The next one to open it finds the half-done
 * set. */
static void test_alone(struct hammer *h, struct page *page, child_f *body)
{
    uint64_t state = 7;

    for (unsigned n = 0; n < rounds_of(KILLS); n++) {
        pid_t pid = start(page, body, 3);

        wait_progress(&page->account[3], 1 + next_random(&state) % 50);
        kill_child(pid);
        open_file(h);
        check_accounts(h, page, false);
        sl_table_done(&h->table);
    }
}

/* Two open and close all the time and are killed by turns. */
static void test_openers(struct hammer *h, struct page *page)
{
    pid_t pids[2] = {start(page, open_body, 4), start(page, open_body, 5)};
    uint64_t state = 9;

    for (unsigned n = 0; n < rounds_of(KILLS); n++) {
        unsigned i = n % 2;

        wait_progress(&page->account[4 + i], 1 + next_random(&state) % 50);
        kill_child(pids[i]);
        wait_progress(&page->account[4 + !i], 1);
        pids[i] = start(page, open_body, 4 + i);
    }
    kill_child(pids[0]);
    kill_child(pids[1]);
    open_file(h);
    check_accounts(h, page, false);
    sl_table_done(&h->table);
}

int main(void)
{
    static struct hammer h;
    struct page *page = shared_pages(sizeof(struct page));

    alarm(300); /* no test hangs */
    make_dir();
    CASE("killed while others work");
    test_among_others(&h, page);
    CASE("killed when no other process is there");
    test_alone(&h, page, take_body);
    CASE("killed while opening and closing");
    test_alone(&h, page, open_body);
    CASE("killed while others open and close");
    test_openers(&h, page);
    remove_dir();
    return CHECK_DONE();
}
