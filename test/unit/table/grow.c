/* grow.c -- a state file that grows keeps the usage of every key, its holds,
 * and what they give back. */
#include <fcntl.h>
#include <sys/stat.h>

#include "held.h"

#define KEYS  1000
#define HOLDS 40

static char dir[64];
static char path[96];
static struct sl_table table;
static struct sl_limit_binding bucket, day, pool, window;
static struct sl_limit_binding *const limits[] = {&bucket, &day, &window};

static void open_table(uint64_t size)
{
    struct sl_region region;
    struct sl_diag diag = {0};

    if (sl_region_open_file(&region, path, size, SL_DAMAGE_REFUSE, &diag)) {
        printf("# %s\n", diag.sentence);
        abort();
    }
    sl_table_init(&table, &region, SL_FULL_ALLOW);
    add_limit(&table, &bucket, "bucket", SL_BUCKET, "10/10s burst 20", 0);
    add_limit(&table, &day, "day", SL_QUOTA, "1000/day", 0);
    add_limit(&table, &pool, "pool", SL_PERMITS, "90", 0);
    add_limit(&table, &window, "window", SL_SLIDING, "50/min", 0);
}

static const char *key_of(unsigned i, char text[16])
{
    snprintf(text, 16, "key-%u", i);
    return text;
}

/* What key `i` uses of each limit: 1 to 19. */
static uint64_t usage_of(unsigned i)
{
    return 1 + i * 7 % 19;
}

static void fill(void)
{
    char key[16];

    unlink(path);
    open_table(MIB);
    for (unsigned i = 0; i < KEYS; i++)
        CHECK_EQ(take(&table, limits[i % SL_LEN(limits)], key_of(i, key),
                      usage_of(i)),
                 SL_SET_ALLOW);
    for (unsigned i = 0; i < HOLDS; i++)
        CHECK_EQ(hold_at(&table, &pool, key_of(i, key), 2, i + 1, SL_S, NOW),
                 SL_SET_ALLOW);
    sl_table_done(&table);
}

/* The keys whose usage is not what was taken. */
static unsigned wrong_keys(void)
{
    unsigned wrong = 0;
    char key[16];

    for (unsigned i = 0; i < KEYS; i++)
        wrong += used(&table, limits[i % SL_LEN(limits)], key_of(i, key)) !=
                 usage_of(i);
    return wrong;
}

static uint64_t grow(uint64_t size)
{
    struct sl_diag diag = {0};
    uint64_t now = 0;

    CHECK_EQ(sl_region_grow(path, size, &now, &diag), 0);
    return now;
}

TEST(keeps)
{
    char key[16];

    CASE("all usage is in a file three times as large");
    fill();
    CHECK_EQ(grow(3 * MIB), 3 * MIB);
    open_table(3 * MIB);
    CHECK(sl_region_head(&table.region)->buckets * SL_SLOTS >
          2 * sl_region_slots(MIB));
    CHECK_EQ(wrong_keys(), 0);

    CASE("a key is counted once: what it takes is in one place");
    CHECK_EQ(take(&table, &day, key_of(1, key), 5), SL_SET_ALLOW);
    CHECK_EQ(used(&table, &day, key), usage_of(1) + 5);
    reset(&table, &day, key);
    CHECK_EQ(used(&table, &day, key), 0);
    CHECK_EQ(take(&table, &day, key, usage_of(1)), SL_SET_ALLOW);

    CASE("holds are held, give back and expire");
    for (unsigned i = 0; i < HOLDS; i++)
        CHECK_EQ(used(&table, &pool, key_of(i, key)), 2);
    for (unsigned i = 0; i < HOLDS / 2; i++)
        CHECK_EQ(release_at(&table, i + 1, NOW), SL_HOLD_HELD);
    for (unsigned i = 0; i < HOLDS; i++)
        CHECK_EQ(used(&table, &pool, key_of(i, key)), i < HOLDS / 2 ? 0 : 2);
    CHECK_EQ(take_at(&table, &day, "later", 1, NOW + 2 * SL_S), SL_SET_ALLOW);
    CHECK_EQ(held_now(&table), 0);
    sl_table_done(&table);

    CASE("it grows again");
    CHECK_EQ(grow(9 * MIB), 9 * MIB);
    open_table(9 * MIB);
    CHECK_EQ(used(&table, &day, key_of(1, key)), usage_of(1));
    CHECK_EQ(used(&table, &pool, key_of(HOLDS - 1, key)), 0);
    sl_table_done(&table);
}

TEST(room)
{
    uint64_t before, after;

    CASE("there is more room");
    fill();
    open_table(MIB);
    before = sl_region_head(&table.region)->buckets;
    sl_table_done(&table);
    CHECK_EQ(grow(8 * MIB), 8 * MIB);
    open_table(8 * MIB);
    after = sl_region_head(&table.region)->buckets;
    CHECK_EQ(after % before, 0);
    CHECK(after / before >= 8);
    sl_table_done(&table);
}

TEST(refused)
{
    struct sl_region other;
    struct sl_diag diag = {0};
    uint64_t now = 0;
    struct stat st;
    int fd;

    CASE("less than twice the buckets, or a smaller file: it stays");
    fill();
    CHECK_EQ(grow(MIB + 65536), MIB);
    CHECK_EQ(grow(MIB), MIB);
    open_table(MIB);
    CHECK_EQ(wrong_keys(), 0);
    sl_table_done(&table);

    CASE("a file that another process uses stays, and so does its usage");
    CHECK_EQ(sl_region_open_file(&other, path, MIB, SL_DAMAGE_REFUSE, &diag),
             0);
    CHECK_EQ(grow(4 * MIB), MIB);
    sl_region_close(&other);

    CASE("a damaged file is not copied");
    fd = open(path, O_RDWR | O_CLOEXEC);
    CHECK_EQ(pwrite(fd, "x", 1, MIB - 100), 1);
    close(fd);
    CHECK_EQ(sl_region_grow(path, 4 * MIB, &now, &diag), SLUICE_EDAMAGE);
    CHECK(stat(path, &st) == 0 && (uint64_t)st.st_size == MIB);

    CASE("nor is one that is not there");
    unlink(path);
    CHECK_EQ(sl_region_grow(path, 4 * MIB, &now, &diag), SLUICE_ESYS);
}

/* A link stays a link, and the new file has the owner and mode of the old. */
TEST(links_and_owners)
{
    uid_t owner = geteuid() == 0 ? 12345 : geteuid();
    char linked[128], half[128];
    struct stat st;
    uint64_t now = 0;
    struct sl_diag diag = {0};

    CASE("through a link, over what a killed process left");
    fill();
    snprintf(linked, sizeof(linked), "%s/link", dir);
    snprintf(half, sizeof(half), "%s.growing", path);
    CHECK_EQ(symlink("state", linked), 0);
    CHECK_EQ(symlink("elsewhere", half), 0);
    CHECK_EQ(chown(path, owner, (gid_t)-1), 0);
    CHECK_EQ(chmod(path, 0660), 0);
    CHECK_EQ(sl_region_grow(linked, 4 * MIB, &now, &diag), 0);
    CHECK_EQ(now, 4 * MIB);
    CHECK(lstat(linked, &st) == 0 && S_ISLNK(st.st_mode));
    CHECK(lstat(path, &st) == 0 && S_ISREG(st.st_mode));
    CHECK_EQ(st.st_mode & 07777, 0660);
    CHECK_EQ(st.st_uid, owner);
    CHECK_EQ(sl_region_file_size(linked), 4 * MIB);
    CHECK_EQ(access(half, F_OK), -1);
    open_table(4 * MIB);
    CHECK_EQ(wrong_keys(), 0);
    sl_table_done(&table);
    unlink(linked);
    unlink(path);
    CHECK_EQ(sl_region_file_size(path), 0);
}

/* A head with other numbers is not one that has grown. */
TEST(bad_heads)
{
    struct sl_region region;
    struct sl_diag diag = {0};
    uint64_t at = offsetof(struct sl_region_head, buckets);
    uint64_t buckets;
    int fd;

    CASE("a number of buckets that no growth gives");
    fill();
    CHECK_EQ(grow(3 * MIB), 3 * MIB);
    fd = open(path, O_RDWR | O_CLOEXEC);
    CHECK_EQ(pread(fd, &buckets, 8, (off_t)at), 8);
    buckets++;
    CHECK_EQ(pwrite(fd, &buckets, 8, (off_t)at), 8);
    close(fd);
    CHECK_EQ(
        sl_region_open_file(&region, path, 3 * MIB, SL_DAMAGE_REFUSE, &diag),
        SLUICE_EDAMAGE);
    unlink(path);
}

int main(void)
{
    alarm(300);
    snprintf(dir, sizeof(dir), "/tmp/sluice-grow-XXXXXX");
    if (!mkdtemp(dir))
        return 1;
    snprintf(path, sizeof(path), "%s/state", dir);
    RUN_TESTS();
    unlink(path);
    CASE("nothing else was left behind");
    CHECK_EQ(rmdir(dir), 0);
    return CHECK_DONE();
}
