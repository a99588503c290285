/* region.c -- regions on the heap, in memory and in files, and what is done
 * with those that cannot be used. */
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "rig.h"
#include "row.h"

static char dir[64];
static char path[96];

static int open_it(struct sl_region *ret, uint64_t size, enum sl_damage damage,
                   struct sl_diag *diag)
{
    memset(diag, 0, sizeof(*diag));
    return sl_region_open_file(ret, path, size, damage, diag);
}

/* Make a file with one key in it, and close it. */
static void make_file(void)
{
    static struct sl_table table;
    struct sl_limit_binding held = limit_of("held", SL_PERMITS, "10", 0);
    struct sl_region region;
    struct sl_diag diag;

    unlink(path);
    CHECK_EQ(open_it(&region, MIB, SL_DAMAGE_REFUSE, &diag), 0);
    sl_table_init(&table, &region, SL_FULL_ALLOW);
    know(&table, &held);
    CHECK_EQ(take(&table, &held, "ann", 3), SL_SET_ALLOW);
    sl_table_done(&table);
}

/* What "ann" holds according to the file; 99 if it cannot be opened. */
static uint64_t held_in_file(void)
{
    static struct sl_table table;
    struct sl_limit_binding held = limit_of("held", SL_PERMITS, "10", 0);
    struct sl_region region;
    struct sl_diag diag;
    uint64_t holds;

    if (open_it(&region, MIB, SL_DAMAGE_REFUSE, &diag)) {
        printf("# %s\n", diag.sentence);
        return 99;
    }
    sl_table_init(&table, &region, SL_FULL_ALLOW);
    know(&table, &held);
    holds = used(&table, &held, "ann");
    sl_table_done(&table);
    return holds;
}

static uint64_t word_in_file(uint64_t at)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    uint64_t word = 0;

    CHECK_EQ(pread(fd, &word, 8, (off_t)at), 8);
    close(fd);
    return word;
}

static void write_word(uint64_t at, uint64_t word)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);

    CHECK_EQ(pwrite(fd, &word, 8, (off_t)at), 8);
    close(fd);
}

#define HEAD_AT(field) offsetof(struct sl_region_head, field)

/* In the last slot of the last bucket. */
#define LAST_AT(word) (MIB - sizeof(struct sl_bucket) + UINT64_C(8) * (word))
#define LAST_TAG      LAST_AT(sl_tag_word(SL_SLOTS - 1))
#define LAST_CELL     LAST_AT(sl_cell_word(SL_SLOTS - 1))

/* The head of the first record: behind the due words of eleven blocks. */
#define FIRST_HOLD (4096 + 128 * SL_LIMITS + 4096 * SL_ACTORS + 256 + 16)

TEST(memory)
{
    struct sl_region a, b;
    struct sl_diag diag = {.line = 0};
    char *pages = shared_pages(4 * MIB);

    CASE("sizes that make no table are refused");
    CHECK_EQ(sl_region_open_heap(&a, MIB - 1, &diag), SLUICE_ECONF);
    CHECK_STR(diag.sentence, "a table needs between 1 MiB and 1 TiB, not "
                             "1048575 bytes");
    CHECK_EQ(sl_region_open_heap(&a, (UINT64_C(1) << 40) + 1, NULL),
             SLUICE_ECONF);
    CHECK_EQ(sl_region_open_memory(&a, pages, 0, NULL), SLUICE_ECONF);

    CASE("the heap");
    CHECK_EQ(sl_region_open_heap(&a, MIB + 12345, &diag), 0);
    CHECK_EQ(a.size, MIB + 12345);
    CHECK_EQ(sl_region_check(&a, &diag), 0);
    sl_region_close(&a);

    CASE("memory that was handed in");
    CHECK_EQ(sl_region_open_memory(&a, pages + 8, MIB, &diag), SLUICE_EINVAL);
    CHECK_STR(diag.sentence, "the memory is not aligned to 64 bytes");
    CHECK_EQ(sl_region_open_memory(&a, pages + 64, MIB, &diag), 0);
    CHECK_EQ(sl_region_open_memory(&b, pages + 64, MIB, &diag), 0);
    CHECK(sl_region_head(&a)->key.k0 == sl_region_head(&b)->key.k0);
    CHECK_EQ(sl_region_open_memory(&b, pages + 64, 2 * MIB, &diag),
             SLUICE_EDAMAGE);
    CHECK_STR(diag.sentence,
              "it was created for 1048576 bytes, not for 2097152");
    sl_region_close(&b);
    sl_region_close(&a);
    CHECK(pages[64] != 0); /* it is the caller's */
    pages[64] ^= 1;
    CHECK_EQ(sl_region_open_memory(&b, pages + 64, MIB, &diag), SLUICE_EDAMAGE);
    CHECK_STR(diag.sentence, "it is not a state file of Sluice");
    munmap(pages, 4 * MIB);
}

TEST(files)
{
    struct sl_region a, b;
    struct sl_diag diag;
    struct stat st;

    CASE("a file is its owner's alone");
    make_file();
    CHECK_EQ(stat(path, &st), 0);
    CHECK_EQ(st.st_mode & 0777, 0600);
    CHECK_EQ(st.st_size, MIB);

    CASE("the last process that closes it seals it");
    CHECK(word_in_file(HEAD_AT(sealed)) != 0);
    CHECK_EQ(open_it(&a, MIB, SL_DAMAGE_REFUSE, &diag), 0);
    CHECK_EQ(word_in_file(HEAD_AT(sealed)), 0);
    CHECK_EQ(open_it(&b, MIB, SL_DAMAGE_REFUSE, &diag), 0);
    sl_region_close(&a);
    CHECK_EQ(word_in_file(HEAD_AT(sealed)), 0);
    sl_region_close(&b);
    CHECK(word_in_file(HEAD_AT(sealed)) != 0);
    CHECK_EQ(held_in_file(), 3);

    CASE("a file in use is not replaced by an open with another size");
    CHECK_EQ(open_it(&a, MIB, SL_DAMAGE_REFUSE, &diag), 0);
    CHECK_EQ(open_it(&b, 2 * MIB, SL_DAMAGE_SET_ASIDE, &diag), SLUICE_EDAMAGE);
    CHECK_EQ(stat(path, &st), 0);
    CHECK_EQ(st.st_size, MIB);
    sl_region_close(&a);
    CHECK_EQ(held_in_file(), 3);

    CASE("an empty file is made, and so is one of zeros");
    unlink(path);
    close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    CHECK_EQ(open_it(&a, MIB, SL_DAMAGE_REFUSE, &diag), 0);
    sl_region_close(&a);
    CHECK_EQ(truncate(path, 0), 0);
    CHECK_EQ(truncate(path, MIB), 0); /* killed before it was made */
    CHECK_EQ(held_in_file(), 0);

    CASE("what the system refuses is said");
    unlink(path);
    CHECK_EQ(mkdir(path, 0700), 0);
    CHECK_EQ(open_it(&a, MIB, SL_DAMAGE_SET_ASIDE, &diag), SLUICE_ESYS);
    CHECK(strstr(diag.sentence, "cannot be opened: Is a directory") != NULL);
    rmdir(path);
    CHECK_EQ(sl_region_open_file(&a, "/nowhere/at/all", MIB,
                                 SL_DAMAGE_SET_ASIDE, &diag),
             SLUICE_ESYS);
    CHECK_STR(diag.sentence, "/nowhere/at/all: cannot be opened: No such file "
                             "or directory");
}

/* Sets the time of the last change of the file. */
static void set_time(struct timespec at)
{
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, at};

    CHECK_EQ(utimensat(AT_FDCWD, path, times, 0), 0);
}

/* Opens the file, which has a damaged cell that its structure does not show,
 * with the time of its last change. */
static int open_damaged(struct timespec at)
{
    struct sl_region region;
    struct sl_diag diag;
    int err;

    write_word(LAST_CELL + 8, word_in_file(LAST_CELL + 8) ^ 1);
    set_time(at);
    err = open_it(&region, MIB, SL_DAMAGE_REFUSE, &diag);
    if (!err)
        sl_region_close(&region);
    return err;
}

TEST(left)
{
    struct stat st;

    CASE("a sealed file that was not written since is trusted");
    make_file();
    CHECK_EQ(stat(path, &st), 0);
    CHECK_EQ(word_in_file(HEAD_AT(left_ns)), st.st_mtim.tv_nsec);
    CHECK_EQ(open_damaged(st.st_mtim), 0);
    CASE("but not with another time");
    make_file();
    CHECK_EQ(stat(path, &st), 0);
    st.st_mtim.tv_nsec ^= 1;
    CHECK_EQ(open_damaged(st.st_mtim), SLUICE_EDAMAGE);
    st.st_mtim.tv_nsec ^= 1;
    st.st_mtim.tv_sec++;
    CHECK_EQ(open_damaged(st.st_mtim), 0); /* the cell is as it was */
    CASE("nor after a start of the machine");
    make_file();
    CHECK_EQ(stat(path, &st), 0);
    write_word(HEAD_AT(left_boot), word_in_file(HEAD_AT(left_boot)) ^ 2);
    CHECK_EQ(open_damaged(st.st_mtim), SLUICE_EDAMAGE);
    CASE("nor without a seal");
    make_file();
    CHECK_EQ(stat(path, &st), 0);
    write_word(HEAD_AT(sealed), 0);
    write_word(LAST_TAG, ~UINT64_C(0));
    set_time(st.st_mtim);
    CHECK_EQ(held_in_file(), 99);
    CASE("keys are there again");
    make_file();
    CHECK_EQ(held_in_file(), 3);
    CHECK_EQ(held_in_file(), 3);
}

/* Closes the file after a process that was killed: it had taken a slot and not
 * counted it, and had claimed a record of a hold. */
static void close_after_kill(void)
{
    static struct sl_table table;
    struct sl_region region;
    struct sl_diag diag;

    CHECK_EQ(open_it(&region, MIB, SL_DAMAGE_REFUSE, &diag), 0);
    sl_table_init(&table, &region, SL_FULL_ALLOW);
    atomic_store(&sl_region_limit(&region, 0)->occupied, 0);
    atomic_store(sl_region_word(&region, FIRST_HOLD + 8), 17);
    sl_table_done(&table);
}

TEST(sealed_after_kill)
{
    struct sl_table_stats stats;
    static struct sl_table table;
    struct sl_region region;
    struct sl_diag diag;
    struct stat st;

    CASE("the last to close completes what a killed process has left");
    make_file();
    close_after_kill();
    CHECK(word_in_file(HEAD_AT(sealed)) != 0);
    CHECK_EQ(word_in_file(FIRST_HOLD + 8), 0);
    CASE("a file that is opened as it was left has the right count");
    CHECK_EQ(stat(path, &st), 0);
    CHECK_EQ(word_in_file(HEAD_AT(left_ns)), st.st_mtim.tv_nsec);
    CHECK_EQ(open_it(&region, MIB, SL_DAMAGE_REFUSE, &diag), 0);
    sl_table_init(&table, &region, SL_FULL_ALLOW);
    sl_table_stats(&table, &stats);
    CHECK_EQ(stats.occupied, 1);
    CASE("a damaged file is not sealed");
    atomic_store(sl_region_word(&region, LAST_TAG), ~UINT64_C(0));
    sl_table_done(&table);
    CHECK_EQ(word_in_file(HEAD_AT(sealed)), 0);
    CHECK_EQ(held_in_file(), 99);
}

/* A word is changed in a closed file. */
TEST(damage)
{
    const struct {
        const char *what;
        uint64_t at, word;
        bool sealed;
        const char *sentence;
    } rows[] = {
        ROW("magic", HEAD_AT(magic), 1, true,
            "it is not a state file of Sluice"),
        ROW("zeros for a magic", HEAD_AT(magic), 0, true,
            "it is not a state file of Sluice"),
        ROW("version", HEAD_AT(version), 7, true,
            "its format is version 7; this Sluice reads versions 5 and 6"),
        ROW("size", HEAD_AT(size), 4096, true,
            "it was created for 4096 bytes, not for 1048576"),
        ROW("layout", HEAD_AT(buckets_at), 64, true, "its head is damaged"),
        ROW("secret", HEAD_AT(key), 64, true, "its head is damaged"),
        ROW("a cell, sealed", LAST_CELL + 8, 1, true,
            "it was changed after it was closed"),
        ROW("a cell, not sealed", LAST_CELL + 8, 1, false, NULL),
        ROW("a lock without an owner", LAST_CELL, SL_LOCKED | 5, false,
            "bucket 2408 in it is damaged"),
        ROW("a limit", 4096 + offsetof(struct sl_limit_entry, kind), 99, false,
            "limit 0 in it is damaged"),
        ROW("a limit of nothing",
            4096 + offsetof(struct sl_limit_entry, capacity), 0, false,
            "limit 0 in it is damaged"),
        ROW("a limit's state", 4096 + offsetof(struct sl_limit_entry, used), 5,
            false, "limit 0 in it is damaged"),
        ROW("a tag", LAST_TAG, UINT64_C(77) << SL_TAG_BITS | 1, false,
            "bucket 2408 in it is damaged"),
        ROW("an actor",
            4096 + 128 * SL_LIMITS + offsetof(struct sl_actor, locks), 34,
            false, "the record of actor 0 in it is damaged"),
        ROW("a hold without an owner", FIRST_HOLD + 8, 2, false,
            "a hold in it is damaged"),
        ROW("a hold that is locked", FIRST_HOLD, SL_LOCKED | 5, false,
            "a hold in it is damaged"),
        ROW("a claim that was left", FIRST_HOLD + 8, 17, false, NULL),
    };

    for (unsigned i = 0; i < SL_LEN(rows); i++) {
        struct sl_region region;
        struct sl_diag diag;
        int err;

        CASE(rows[i].what);
        make_file();
        if (!rows[i].sealed)
            write_word(HEAD_AT(sealed), 0);
        write_word(rows[i].at, rows[i].word);
        err = open_it(&region, MIB, SL_DAMAGE_REFUSE, &diag);
        CHECK_EQ(err, rows[i].sentence ? SLUICE_EDAMAGE : 0);
        if (rows[i].sentence)
            CHECK_STR(diag.sentence, rows[i].sentence);
        if (!err)
            sl_region_close(&region);
    }
}

/* The bytes of a damaged file are kept; the next one gets the next number. */
TEST(setting_aside)
{
    struct sl_region region;
    struct sl_diag diag;
    char want[128], byte = 0;
    int fd;

    CASE("a damaged file is set aside, by number");
    for (unsigned n = 1; n <= 3; n++) {
        make_file();
        write_word(MIB - 8, n);
        CHECK_EQ(open_it(&region, MIB, SL_DAMAGE_SET_ASIDE, &diag), 0);
        CHECK_STR(diag.sentence, "it was changed after it was closed");
        snprintf(want, sizeof(want), "%s.damaged-%u", path, n);
        CHECK_STR(region.set_aside, want);
        fd = open(want, O_RDONLY | O_CLOEXEC);
        CHECK_EQ(pread(fd, &byte, 1, MIB - 8), 1);
        CHECK_EQ(byte, (char)n);
        close(fd);
        sl_region_close(&region);
        CHECK_EQ(held_in_file(), 0);
    }
    CASE("one that was cut off as well");
    make_file();
    CHECK_EQ(truncate(path, MIB / 2), 0);
    CHECK_EQ(open_it(&region, MIB, SL_DAMAGE_REFUSE, &diag), SLUICE_EDAMAGE);
    CHECK_STR(diag.sentence, "it has 524288 bytes, not 1048576");
    CHECK_EQ(open_it(&region, MIB, SL_DAMAGE_SET_ASIDE, &diag), 0);
    CHECK(strstr(region.set_aside, ".damaged-4") != NULL);
    sl_region_close(&region);
    for (unsigned n = 1; n <= 4; n++) {
        snprintf(want, sizeof(want), "%s.damaged-%u", path, n);
        CHECK_EQ(unlink(want), 0);
    }
}

/* What was half done in a file that was not closed is brought to its end. */
TEST(recovery)
{
    static struct sl_table table;
    struct sl_limit_binding held = limit_of("held", SL_PERMITS, "10", 0);
    struct sl_region region;
    struct sl_diag diag;
    int status;
    pid_t pid;

    CASE("a process that dies with the file open loses nothing");
    make_file();
    fflush(NULL);
    pid = fork();
    if (pid == 0) {
        if (open_it(&region, MIB, SL_DAMAGE_REFUSE, &diag))
            _exit(1);
        sl_table_init(&table, &region, SL_FULL_ALLOW);
        know(&table, &held);
        _exit(take(&table, &held, "ann", 2) != SL_SET_ALLOW);
    }
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK_EQ(status, 0);
    CHECK_EQ(word_in_file(HEAD_AT(sealed)), 0);
    CHECK_EQ(held_in_file(), 5);
    CHECK(word_in_file(HEAD_AT(sealed)) != 0);

    CASE("a limit that was claimed and never filled in is no damage");
    write_word(HEAD_AT(sealed), 0);
    write_word(4096 + 128 * 5, SL_CLAIMED | 4);
    CHECK_EQ(held_in_file(), 5);
    CHECK_EQ(word_in_file(4096 + 128 * 5), 0);
}

/* Gives an empty file a version. */
static void make_version(uint64_t version)
{
    struct sl_region region;
    struct sl_diag diag;

    unlink(path);
    CHECK_EQ(open_it(&region, MIB, SL_DAMAGE_REFUSE, &diag), 0);
    set_version(&region, version);
    sl_region_close(&region);
}

/* Opens the file at the path and takes of 100 keys. Those of an AES file are
 * hashed by `method`, whatever this machine would use. */
static void take_hundred(struct sl_table *table, enum sl_hash_method method)
{
    struct sl_limit_binding day = limit_of("day", SL_QUOTA, "100/day", 0);
    struct sl_region region;
    struct sl_diag diag;
    char key[80];

    CHECK_EQ(open_it(&region, (uint64_t)sl_region_file_size(path),
                     SL_DAMAGE_REFUSE, &diag),
             0);
    sl_table_init(table, &region, SL_FULL_ALLOW);
    know(table, &day);
    if (day.hasher.method != SL_HASH_SIP)
        day.hasher.method = method;
    for (int i = 0; i < 100; i++) {
        snprintf(key, sizeof(key), "%0*d", 1 + i * 7 % 75, i);
        CHECK_EQ(take(table, &day, key, 1 + (uint64_t)i / 4), SL_SET_ALLOW);
    }
}

static uint64_t most_used(struct sl_table *table)
{
    struct sl_limit_binding day = limit_of("day", SL_QUOTA, "100/day", 0);
    char key[80];

    know(table, &day);
    snprintf(key, sizeof(key), "%0*d", 1 + 99 * 7 % 75, 99);
    return used(table, &day, key);
}

TEST(versions)
{
    static const uint64_t versions[] = {SL_REGION_SIPHASH, SL_REGION_AES};
    static struct sl_table table;
    struct sl_limit_binding day = limit_of("day", SL_QUOTA, "100/day", 0);
    struct sl_diag diag;
    uint64_t now = 0;

    for (unsigned i = 0; i < SL_LEN(versions); i++) {
        CASE(i ? "a file that is hashed by AES" : "one hashed by SipHash");
        make_version(versions[i]);
        take_hundred(&table, sl_fingerprints_best() == SL_BY_AES
                                 ? SL_HASH_AES
                                 : SL_HASH_AES_SOFTWARE);
        know(&table, &day);
        CHECK_EQ(day.hasher.method == SL_HASH_SIP, i == 0);
        CHECK_EQ(slots_taken(&table.region), 100);
        sl_table_done(&table);
        CASE("finds its keys again, by software too, and stays as it is");
        take_hundred(&table, SL_HASH_AES_SOFTWARE);
        CHECK_EQ(slots_taken(&table.region), 100);
        CHECK_EQ(most_used(&table), 50);
        sl_table_done(&table);
        CHECK_EQ(word_in_file(HEAD_AT(version)), versions[i]);
        CASE("also when it grows");
        CHECK_EQ(sl_region_grow(path, 4 * MIB, &now, &diag), 0);
        CHECK_EQ(now, 4 * MIB);
        CHECK_EQ(word_in_file(HEAD_AT(version)), versions[i]);
        take_hundred(&table, SL_HASH_AES_SOFTWARE);
        CHECK_EQ(most_used(&table), 75);
        sl_table_done(&table);
    }
    CASE("a new file is hashed by what this machine has");
    make_file();
    CHECK_EQ(word_in_file(HEAD_AT(version)), sl_fingerprints_best() == SL_BY_AES
                                                 ? SL_REGION_AES
                                                 : SL_REGION_SIPHASH);
}

int main(void)
{
    alarm(300);
    snprintf(dir, sizeof(dir), "/tmp/sluice-region-XXXXXX");
    if (!mkdtemp(dir))
        return 1;
    snprintf(path, sizeof(path), "%s/state", dir);
    RUN_TESTS();
    unlink(path);
    CASE("nothing else was left behind");
    CHECK_EQ(rmdir(dir), 0);
    return CHECK_DONE();
}
