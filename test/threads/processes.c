/* processes.c -- four processes that work on one file. The same checks as for
 * threads, see hammer.h. */
#include "family.h"

#define PROCESSES 4
#define NEW_KEYS  2000

static _Atomic uint64_t *admitted;

static void sets_body(struct hammer *h, struct page *page, unsigned number)
{
    (void)page;
    open_file(h);
    h->rounds = 50000 / SLOWER;
    strike(h, number + 1);
    sl_table_done(&h->table);
}

static void new_body(struct hammer *h, struct page *page, unsigned number)
{
    (void)page;
    open_file(h);
    strike_new(h, number, NEW_KEYS, admitted);
    sl_table_done(&h->table);
}

static void back_body(struct hammer *h, struct page *page, unsigned number)
{
    (void)page;
    open_file(h);
    h->rounds = 20000 / SLOWER;
    strike_back(h, number + 1);
    sl_table_done(&h->table);
}

static void run(struct hammer *h, struct page *page, child_f *body, bool read)
{
    pid_t pids[PROCESSES];

    memset(page, 0, sizeof(*page));
    atomic_store(&page->tally.running, PROCESSES);
    for (unsigned i = 0; i < PROCESSES; i++)
        pids[i] = start(page, body, i);
    h->tally = &page->tally;
    open_file(h); /* while the others do: they all get the same limits */
    if (read)
        read_along(h);
    for (unsigned i = 0; i < PROCESSES; i++)
        wait_well(pids[i]);
}

int main(void)
{
    static struct hammer h;
    struct page *page = shared_pages(sizeof(struct page));

    alarm(300);
    admitted = shared_pages(NEW_KEYS * sizeof(*admitted));
    make_dir();
    CASE("4 processes: totals are exact and no set is half taken");
    run(&h, page, sets_body, true);
    check_totals(&h, PROCESSES * (uint64_t)(50000 / SLOWER));
    sl_table_done(&h.table);

    CASE("4 processes: a new key is added once");
    unlink(family_path);
    run(&h, page, new_body, false);
    check_new(&h, NEW_KEYS, 3 * PROCESSES, admitted);
    sl_table_done(&h.table);

    CASE("4 processes: what is given back is gone");
    unlink(family_path);
    h.gives_back = true;
    run(&h, page, back_body, true);
    check_given_back(&h);
    sl_table_done(&h.table);

    CASE("the file is left sealed and opens again");
    open_file(&h);
    check_given_back(&h);
    sl_table_done(&h.table);
    remove_dir();
    return CHECK_DONE();
}
