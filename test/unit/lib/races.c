/* races.c -- processes that open the same file at the same instant: however
 * they meet, they share one state. */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gate.h"

#define SIZE     (1 << 20)
#define RUNNERS  8
#define ROUNDS   40
#define CAPACITY 100

static struct hands hands = {.now = START};
static char folder[64], path[80];

static const struct sluice_limit limits[] = {
    {.name = "a", .kind = SLUICE_FIXED_WINDOW, .rate = "100/hour"},
    {.name = "b", .kind = SLUICE_LEVEL,        .rate = "100"     },
};

static struct sluice_options options_on(const char *file, void *memory)
{
    return (struct sluice_options){.limits = limits,
                                   .limit_count = 2,
                                   .path = file,
                                   .memory = memory,
                                   .size = SIZE,
                                   .now = read_hands,
                                   .now_ctx = &hands};
}

/* In a child: wait for the start, open, take what there is. Answers how much
 * that was, of both limits, or 0xff. */
static void run(int start, const struct sluice_options *o)
{
    struct sluice *gate = NULL;
    unsigned char got[2] = {0xff, 0xff}, byte;

    if (read(start, &byte, 1) != 0 || sluice_open(o, &gate))
        _exit(1);
    got[0] = (unsigned char)drain(gate, 0, "ann");
    got[1] = (unsigned char)drain(gate, 1, "ann");
    sluice_close(gate);
    _exit(write(STDERR_FILENO, got, 2) == 2 ? 0 : 1);
}

/* Start the children at once; true if they got each limit exactly. */
static bool race(const struct sluice_options *o)
{
    unsigned sum[2] = {0, 0};
    int start[2], result[2];
    unsigned char got[2];

    if (pipe(start) || pipe(result))
        return false;
    for (unsigned i = 0; i < RUNNERS; i++)
        if (fork() == 0) {
            close(start[1]);
            dup2(result[1], STDERR_FILENO);
            run(start[0], o);
        }
    close(start[0]);
    close(result[1]);
    close(start[1]); /* go */
    while (read(result[0], got, 2) == 2) {
        sum[0] += got[0];
        sum[1] += got[1];
    }
    close(result[0]);
    for (int status, i = 0; i < RUNNERS; i++)
        if (wait(&status) < 0 || status)
            sum[0] = 0;
    return sum[0] == CAPACITY && sum[1] == CAPACITY;
}

/* Files that were set aside. */
static unsigned clear_aside(void)
{
    unsigned count = 0;
    char name[96];

    for (unsigned i = 1; i <= RUNNERS; i++) {
        snprintf(name, sizeof(name), "%s.damaged-%u", path, i);
        count += unlink(name) == 0;
    }
    return count;
}

static void test_new_file(void)
{
    struct sluice_options o = options_on(path, NULL);
    unsigned exact = 0;

    CASE("processes that make a file together share it");
    for (unsigned i = 0; i < ROUNDS; i++) {
        exact += race(&o);
        unlink(path);
    }
    CHECK_EQ(exact, ROUNDS);
    CHECK_EQ(clear_aside(), 0);
}

static void test_damaged_file(void)
{
    struct sluice_options o = options_on(path, NULL);
    unsigned exact = 0, aside = 0;

    CASE("processes that find a damaged file set it aside once");
    for (unsigned i = 0; i < ROUNDS; i++) {
        int fd = open(path, O_RDWR | O_CREAT, 0600);

        CHECK_EQ(write(fd, "rubbish", 7), 7);
        close(fd);
        exact += race(&o);
        aside += clear_aside();
        unlink(path);
    }
    CHECK_EQ(exact, ROUNDS);
    CHECK_EQ(aside, ROUNDS);
}

static void test_shared_memory(void)
{
    struct sluice *gate = NULL;
    unsigned exact = 0;

    CASE("processes that learn their limits in shared memory together");
    for (unsigned i = 0; i < ROUNDS; i++) {
        void *memory = mmap(NULL, SIZE, PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        struct sluice_options o = options_on(NULL, memory);
        struct sluice_limit other = {
            .name = "c", .kind = SLUICE_LEVEL, .rate = "1"};

        o.limits = &other; /* made by one, with a limit of its own */
        o.limit_count = 1;
        CHECK_EQ(sluice_open(&o, &gate), 0);
        o = options_on(NULL, memory);
        exact += race(&o);
        sluice_close(gate);
        munmap(memory, SIZE);
    }
    CHECK_EQ(exact, ROUNDS);
}

/* A child that inherited an open gate blocks no other process. */
static void test_fork(void)
{
    struct sluice_options o = options_on(path, NULL);
    struct sluice *gate = NULL;
    int ends[2];
    char byte;
    pid_t pid;

    CASE("a gate closed and opened again while a forked child lives");
    CHECK_EQ(pipe(ends), 0);
    CHECK_EQ(sluice_open(&o, &gate), 0);
    take(gate, 0, "ann", 1);
    pid = fork();
    if (pid == 0) {
        close(ends[1]);
        _exit(read(ends[0], &byte, 1) == 0 ? 0 : 1);
    }
    close(ends[0]);
    gate = sluice_close(gate);
    alarm(5); /* it must not wait for the child */
    CHECK_EQ(sluice_open(&o, &gate), 0);
    alarm(0);
    CHECK(sluice_notice(gate) == NULL);
    CHECK_EQ(left(gate, 0, "ann"), 99);
    sluice_close(gate);
    close(ends[1]);
    waitpid(pid, NULL, 0);
    unlink(path);
}

/* The child's way out of an inherited gate is to close it. */
static void test_child_closes(void)
{
    struct sluice_options o = options_on(path, NULL), larger = o;
    struct sluice *gate = NULL, *other = NULL;
    int status = -1;

    CASE("a forked child may close the gate, and the parent still has it");
    CHECK_EQ(sluice_open(&o, &gate), 0);
    take(gate, 0, "ann", 1);
    if (fork() == 0) {
        sluice_close(gate);
        _exit(0);
    }
    CHECK(wait(&status) > 0 && status == 0);
    CHECK_EQ(take(gate, 0, "ann", 1).remaining, 98);
    larger.size = 2 * SIZE;
    CHECK_EQ(sluice_open(&larger, &other), SLUICE_EDAMAGE); /* in use */
    CHECK_EQ(sluice_open(&o, &other), 0);
    CHECK_EQ(take(other, 0, "ann", 1).remaining, 97);
    sluice_close(other);
    sluice_close(gate);
    unlink(path);
}

/* A process that asks for another size must not take the file from those who
 * use it. */
static void test_in_use(void)
{
    struct sluice_options o = options_on(path, NULL);
    struct sluice *gate = NULL, *other = NULL;

    CASE("a file that others use is never set aside");
    CHECK_EQ(sluice_open(&o, &gate), 0);
    o.size = 2 * SIZE;
    CHECK_EQ(sluice_open(&o, &other), SLUICE_EDAMAGE);
    CHECK(other == NULL);
    CHECK(strstr(sluice_why(), "it has 1048576 bytes, not 2097152"));
    CHECK_EQ(clear_aside(), 0);
    o.size = SIZE;
    CHECK_EQ(sluice_open(&o, &other), 0);
    take(gate, 0, "ann", 1);
    CHECK_EQ(left(other, 0, "ann"), 99);
    sluice_close(other);
    sluice_close(gate);
    unlink(path);
}

int main(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0); /* children must not say it again */
    snprintf(folder, sizeof(folder), "lib-races-%ld", (long)getpid());
    if (mkdir(folder, 0700))
        return 99;
    snprintf(path, sizeof(path), "%s/state", folder);
    test_new_file();
    test_damaged_file();
    test_shared_memory();
    test_in_use();
    test_fork();
    test_child_closes();
    CASE("nothing was left behind");
    CHECK_EQ(rmdir(folder), 0);
    return CHECK_DONE();
}
