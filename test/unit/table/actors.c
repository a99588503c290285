/* actors.c -- the records that threads borrow: enough for all threads, even if
 * processes keep records, die or are stopped with one. */
#include <signal.h>
#include <sys/wait.h>

#include "rig.h"

static char dir[64];
static char path[96];
static char *pages;
static struct sl_limit_binding held;

/* A table of one's own, over the file or over the shared pages. */
static struct sl_table *open_own(bool file)
{
    struct sl_table *table = calloc(1, sizeof(*table));
    struct sl_region region;

    if (!table ||
        (file ? sl_region_open_file(&region, path, MIB, SL_DAMAGE_REFUSE, NULL)
              : sl_region_open_memory(&region, pages, MIB, NULL)))
        abort();
    sl_table_init(table, &region, SL_FULL_ALLOW);
    add_limit(table, &held, "held", SL_PERMITS, "1000", 0);
    return table;
}

static void close_own(struct sl_table *table)
{
    sl_table_done(table);
    free(table);
}

static pid_t start(void)
{
    pid_t pid;

    fflush(NULL);
    pid = fork();
    if (pid < 0)
        abort();
    if (pid == 0)
        alarm(20);
    return pid;
}

static void check_ends(pid_t pid, int want)
{
    int status = 0;

    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK_EQ(status, want);
}

/* In a child: with a table of its own, a take goes through. */
static void check_child_takes(bool file)
{
    pid_t pid = start();

    if (pid == 0)
        _exit(take(open_own(file), &held, "ann", 1) != SL_SET_ALLOW);
    check_ends(pid, 0);
}

/* All records are in use at once, and are then given back. */
static void test_hoarding(bool file)
{
    struct sl_table *table = open_own(file);
    struct sl_intent *intents[SL_ACTORS];

    for (unsigned i = 0; i < SL_ACTORS; i++) {
        intents[i] = sl_actor_borrow(&table->actors);
        for (unsigned j = 0; j < i; j++)
            CHECK(intents[j]->index != intents[i]->index);
    }
    for (unsigned i = 0; i < SL_ACTORS; i++)
        sl_actor_return(&table->actors, intents[i]);
    check_child_takes(file);
    CHECK_EQ(used(table, &held, "ann"), 1);
    close_own(table);
}

/* More die with a record in hand than there are records. */
static void test_dying(bool file)
{
    struct sl_table *table = open_own(file);

    for (unsigned i = 0; i < SL_ACTORS + 10; i++) {
        pid_t pid = start();

        if (pid == 0) {
            struct sl_table *own = open_own(file);

            (void)sl_actor_borrow(&own->actors);
            _exit(0);
        }
        check_ends(pid, 0);
    }
    CHECK_EQ(take(table, &held, "bob", 1), SL_SET_ALLOW);
    check_child_takes(file);
    close_own(table);
}

/* A stopped process keeps its record. */
static void test_stopped(bool file)
{
    struct sl_table *table = open_own(file);
    struct sl_intent *intents[SL_ACTORS - 1];
    uint64_t *index = shared_pages(sizeof(*index));
    pid_t pid = start();
    int status;

    if (pid == 0) {
        struct sl_table *own = open_own(file);

        *index = sl_actor_borrow(&own->actors)->index;
        kill(getpid(), SIGSTOP);
        _exit(0);
    }
    CHECK_EQ(waitpid(pid, &status, WUNTRACED), pid);
    CHECK(WIFSTOPPED(status));
    sl_actors_reap(&table->actors);
    for (unsigned i = 0; i < SL_ACTORS - 1; i++) {
        intents[i] = sl_actor_borrow(&table->actors);
        CHECK(intents[i]->index != *index);
    }
    kill(pid, SIGKILL);
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK_EQ(sl_actor_borrow(&table->actors)->index, *index);
    for (unsigned i = 0; i < SL_ACTORS - 1; i++)
        sl_actor_return(&table->actors, intents[i]);
    check_child_takes(file);
    munmap(index, sizeof(*index));
    close_own(table);
}

/* Two tables of one process over the same region. */
static void test_two_tables(bool file)
{
    struct sl_table *a = open_own(file), *b = open_own(file);
    struct sl_intent *first = sl_actor_borrow(&a->actors);
    struct sl_intent *second = sl_actor_borrow(&b->actors);

    CHECK(first->index != second->index);
    sl_actors_reap(&a->actors);
    sl_actors_reap(&b->actors);
    CHECK(atomic_load(&first->actor->owner) != 0);
    CHECK(atomic_load(&second->actor->owner) != 0);
    sl_actor_return(&a->actors, first);
    sl_actor_return(&b->actors, second);
    CHECK_EQ(take(a, &held, "carl", 1), SL_SET_ALLOW);
    CHECK_EQ(take(b, &held, "carl", 1), SL_SET_ALLOW);
    CHECK_EQ(used(a, &held, "carl"), 2);
    close_own(b);
    CHECK_EQ(used(a, &held, "carl"), 2);
    close_own(a);
}

/* Two processes use one record by turns: its number never comes again. Keys are
 * new, for a single change of a known one has no number. */
static void test_numbers(bool file)
{
    struct sl_table *tables[2] = {open_own(file), open_own(file)};
    struct sl_intent *others[SL_ACTORS - 1];
    struct sl_intent *one = sl_actor_borrow(&tables[0]->actors);
    uint64_t number = 0;

    for (unsigned i = 0; i < SL_ACTORS - 1; i++)
        others[i] = sl_actor_borrow(&tables[0]->actors);
    sl_actor_return(&tables[0]->actors, one);
    for (unsigned i = 0; i < 10; i++) {
        uint64_t status;
        char key[32];

        snprintf(key, sizeof(key), "dora%u", i);
        CHECK_EQ(take(tables[i / 2 % 2], &held, key, 1), SL_SET_ALLOW);
        status = atomic_load(&one->actor->status);
        CHECK(status >> 2 > number);
        number = status >> 2;
    }
    for (unsigned i = 0; i < SL_ACTORS - 1; i++)
        sl_actor_return(&tables[0]->actors, others[i]);
    close_own(tables[1]);
    close_own(tables[0]);
}

int main(void)
{
    static const char *const where[] = {"in memory", "in a file"};
    static char names[10][80];
    static void (*const tests[])(bool file) = {
        test_hoarding, test_dying, test_stopped, test_two_tables, test_numbers};
    static const char *const what[] = {
        "records are shared with later processes",
        "records of the dead are used again",
        "the record of a stopped process is its own",
        "two tables of one process do not share records",
        "a number never comes again"};

    alarm(300);
    snprintf(dir, sizeof(dir), "/tmp/sluice-actors-XXXXXX");
    if (!mkdtemp(dir))
        return 1;
    snprintf(path, sizeof(path), "%s/state", dir);
    pages = shared_pages(MIB);
    for (unsigned i = 0; i < 2 * SL_LEN(tests); i++) {
        snprintf(names[i], sizeof(names[i]), "%s: %s", where[i % 2],
                 what[i / 2]);
        CASE(names[i]);
        memset(pages, 0, MIB);
        unlink(path);
        tests[i / 2](i % 2);
    }
    unlink(path);
    rmdir(dir);
    return CHECK_DONE();
}
