/* files.c -- a state in a file: shared, remembered, changed, damaged; and
 * its processes may be killed at any instant. */
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gate.h"

#define SIZE (1 << 20)

static struct hands hands = {.now = START};
static char folder[64], path[80], aside[96];

static const struct sluice_limit hourly = {
    .name = "a", .kind = SLUICE_FIXED_WINDOW, .rate = "100/hour"};

static int open_as(const struct sluice_limit *limit, size_t size,
                   enum sluice_on_damage on_damage, struct sluice **ret)
{
    struct sluice_options options = {.limits = limit,
                                     .limit_count = 1,
                                     .path = path,
                                     .size = size,
                                     .on_damage = on_damage,
                                     .now = read_hands,
                                     .now_ctx = &hands};

    return sluice_open(&options, ret);
}

static struct sluice *must_open(const struct sluice_limit *limit)
{
    struct sluice *gate = NULL;

    if (!CHECK_EQ(open_as(limit, SIZE, SLUICE_DAMAGE_SET_ASIDE, &gate), 0)) {
        printf("# %s\n", sluice_why());
        exit(check_done());
    }
    return gate;
}

TEST(shared)
{
    struct sluice *one = must_open(&hourly), *two = must_open(&hourly);
    struct stat st;

    CASE("two gates on one file see each other");
    CHECK_EQ(take(one, 0, "ann", 30).remaining, 70);
    CHECK_EQ(take(two, 0, "ann", 30).remaining, 40);
    CHECK_EQ(left(one, 0, "ann"), 40);
    CHECK_EQ(sluice_reset(two, 0, "ann", 3), 0);
    CHECK_EQ(take(one, 0, "ann", 1).remaining, 99);
    CASE("closing one leaves the other at work");
    sluice_close(one);
    CHECK_EQ(take(two, 0, "ann", 9).remaining, 90);
    CASE("the file is for its owner alone, and as large as was asked");
    CHECK_EQ(stat(path, &st), 0);
    CHECK_EQ(st.st_mode & 0777, 0600);
    CHECK_EQ(st.st_size, SIZE);
    sluice_close(two);
    CASE("a file that is opened again remembers");
    one = must_open(&hourly);
    CHECK(sluice_notice(one) == NULL);
    CHECK_EQ(left(one, 0, "ann"), 90);
    sluice_close(one);
}

/* Run `child` in a process of its own; true if it ended as it should. */
static bool in_child(void (*child)(void))
{
    pid_t pid = fork();
    int status = 0;

    if (pid == 0) {
        child();
        _exit(7);
    }
    waitpid(pid, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 7;
}

static void take_and_die(void)
{
    struct sluice *gate = must_open(&hourly);

    take(gate, 0, "bob", 60);
    take(gate, 0, "eve", 1);
}

TEST(killed)
{
    struct sluice *gate;
    struct sluice_stats stats;

    CASE("a process that ends with the gate open has lost nothing");
    CHECK(in_child(take_and_die));
    gate = must_open(&hourly);
    CHECK(sluice_notice(gate) == NULL);
    CHECK_EQ(left(gate, 0, "bob"), 40);
    CHECK_EQ(left(gate, 0, "eve"), 99);
    CHECK_EQ(sluice_stats(gate, &stats), 0);
    CHECK_EQ(stats.occupied, 3);
    CASE("also while another has it open");
    CHECK(in_child(take_and_die));
    CHECK_EQ(left(gate, 0, "bob"), 40);
    CHECK_EQ(left(gate, 0, "eve"), 98);
    CHECK_EQ(take(gate, 0, "bob", 40).outcome, SLUICE_ALLOW);
    sluice_close(gate);
}

/* The limits of a state begin at its second page, 128 bytes each; the first
 * word is 0 if free, 1 if in use, and ends in the bits 10 while it is claimed
 * by a process that has not filled it in. */
static void claim_and_die(void)
{
    struct sluice *gate = must_open(&hourly);
    uint64_t claim = 0x1234567890abcdea;
    int fd = open(path, O_RDWR);

    take(gate, 0, "ann", 1);
    if (pwrite(fd, &claim, 8, 4096 + 100 * 128) != 8)
        _exit(1);
}

TEST(killed_in_open)
{
    struct sluice *gate;

    CASE("a process that is killed while it opens has damaged nothing");
    CHECK(in_child(claim_and_die));
    gate = must_open(&hourly);
    CHECK(sluice_notice(gate) == NULL);
    CHECK_EQ(left(gate, 0, "ann"), 89);
    sluice_close(gate);
}

/* Takes until it is killed; each take is written down after it passed. */
static void take_for_ever(int out)
{
    struct sluice *gate = must_open(&hourly);
    struct sluice_part parts[2] = {part_of(0, "one", 1), part_of(0, "two", 1)};

    for (;;) {
        sluice_reset(gate, 0, "one", 3);
        sluice_reset(gate, 0, "two", 3);
        for (unsigned i = 0; i < 100; i++)
            sluice_take(gate, parts, 2, NULL);
        if (write(out, "x", 1) != 1)
            _exit(1);
    }
}

/* Kill a process at work, at random moments. Its sets of two are
 * whole: the counts differ only by the one reset that may be half way. */
TEST(kill_at_work)
{
    CASE("whenever a process is killed, no set is half taken");
    for (unsigned round = 0; round < 20; round++) {
        struct sluice *gate;
        uint64_t one, two;
        int ends[2];
        char byte;
        pid_t pid;

        CHECK_EQ(pipe(ends), 0);
        pid = fork();
        if (pid == 0)
            take_for_ever(ends[1]);
        close(ends[1]);
        for (unsigned i = 0; i < 3 + 7 * round; i++)
            CHECK_EQ(read(ends[0], &byte, 1), 1);
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        close(ends[0]);
        gate = must_open(&hourly);
        CHECK(sluice_notice(gate) == NULL);
        one = left(gate, 0, "one");
        two = left(gate, 0, "two");
        CHECK(one == two || (one == 100 && two == 0));
        sluice_close(gate);
    }
}

TEST(changes)
{
    struct sluice_limit limit = hourly;
    struct sluice *gate = must_open(&limit);

    CASE("another rate keeps what was used");
    sluice_reset(gate, 0, "ann", 3);
    take(gate, 0, "ann", 70);
    sluice_close(gate);
    limit.rate = "200/hour";
    gate = must_open(&limit);
    CHECK_EQ(left(gate, 0, "ann"), 130);
    sluice_close(gate);
    CASE("another period starts afresh, and the old one is not lost");
    limit.rate = "200/min";
    gate = must_open(&limit);
    CHECK_EQ(left(gate, 0, "ann"), 200);
    sluice_close(gate);
    gate = must_open(&hourly);
    CHECK_EQ(left(gate, 0, "ann"), 30);
    sluice_close(gate);
    CASE("so does another kind, and another name");
    limit.rate = "100/hour";
    limit.kind = SLUICE_SLIDING_WINDOW;
    gate = must_open(&limit);
    CHECK_EQ(left(gate, 0, "ann"), 100);
    sluice_close(gate);
    limit = hourly;
    limit.name = "b";
    gate = must_open(&limit);
    CHECK_EQ(left(gate, 0, "ann"), 100);
    sluice_close(gate);
}

/* ---- damage ---- */

/* Changes a byte of the file: keeps the bits of `keep`, and flips others. */
static void change_byte(off_t at, unsigned keep, unsigned flip)
{
    int fd = open(path, O_RDWR);
    unsigned char byte = 0;

    CHECK_EQ(pread(fd, &byte, 1, at), 1);
    byte = (unsigned char)((byte & keep) ^ flip);
    CHECK_EQ(pwrite(fd, &byte, 1, at), 1);
    close(fd);
}

static void flip_byte(off_t at)
{
    change_byte(at, 0xff, 0x40);
}

/* What the damage was, in the notice and in the refusal. */
static void damaged(const char *name, const char *reason)
{
    struct sluice *const mark = (struct sluice *)(void *)folder;
    struct sluice *gate = mark;
    char want[512];

    CASE(name);
    unlink(aside);
    CHECK_EQ(open_as(&hourly, SIZE, SLUICE_DAMAGE_REFUSE, &gate),
             SLUICE_EDAMAGE);
    CHECK(gate == mark);
    snprintf(want, sizeof(want), "cannot use %s: %s", path, reason);
    CHECK_STR(sluice_why(), want);
    CHECK_EQ(access(aside, F_OK), -1);
    gate = must_open(&hourly);
    snprintf(want, sizeof(want),
             "cannot use %s: %s; it was moved to %s, and an empty state file "
             "was created",
             path, reason, aside);
    CHECK_STR(sluice_notice(gate), want);
    CHECK_EQ(access(aside, F_OK), 0);
    CHECK_EQ(take(gate, 0, "ann", 1).remaining, 99);
    sluice_close(gate);
}

TEST(damage)
{
    struct sluice *gate = NULL;

    flip_byte(SIZE - 4000);
    damaged("a byte changed while it was closed",
            "it was changed after it was closed");
    flip_byte(0);
    damaged("the first byte is wrong", "it is not a state file of Sluice");
    change_byte(8, 0, 69);
    damaged("a later format",
            "its format is version 69; this Sluice reads versions 5 and 6");
    flip_byte(90);
    damaged("the secret is another", "its head is damaged");
    CHECK_EQ(truncate(path, SIZE / 2), 0);
    damaged("half of it is gone", "it has 524288 bytes, not 1048576");
    CASE("another size than it was made for is no use either");
    CHECK_EQ(open_as(&hourly, 2 * SIZE, SLUICE_DAMAGE_REFUSE, &gate),
             SLUICE_EDAMAGE);
    CHECK(strstr(sluice_why(), "it has 1048576 bytes, not 2097152"));
    CASE("every damaged file gets a number of its own");
    flip_byte(0);
    gate = must_open(&hourly);
    CHECK(strstr(sluice_notice(gate), ".damaged-2"));
    sluice_close(gate);
    aside[strlen(aside) - 1] = '2';
    unlink(aside);
    aside[strlen(aside) - 1] = '1';
}

int main(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0); /* children must not say it again */
    snprintf(folder, sizeof(folder), "lib-files-%ld", (long)getpid());
    if (mkdir(folder, 0700))
        return 99;
    snprintf(path, sizeof(path), "%s/state", folder);
    snprintf(aside, sizeof(aside), "%s.damaged-1", path);
    RUN_TESTS();
    unlink(aside);
    unlink(path);
    CASE("nothing else was left behind");
    CHECK_EQ(rmdir(folder), 0);
    return CHECK_DONE();
}
