/* zoneinfo.c -- every zone of this machine, compared with glibc: each about
 * every 13 days from 1970 to 2100, and a second before, at and behind each of
 * its shifts. */
#include "base/zone.h"

#include <ftw.h>
#include <stdlib.h>
#include <time.h>

#include "check.h"

#define ZONEINFO "/usr/share/zoneinfo"
#define POSIX    ZONEINFO "/posix/"

#define Y2100 INT64_C(4102444800)
#define DAYS  INT64_C(86400)

static void check_invariants(const struct sl_zone *zone)
{
    int32_t last = zone->before;

    for (size_t i = 0; i < zone->count; i++) {
        CHECK(i == 0 || zone->shifts[i - 1].at < zone->shifts[i].at);
        CHECK(zone->shifts[i].offset != last);
        last = zone->shifts[i].offset;
        CHECK(last > -26 * 3600 && last < 26 * 3600);
    }
}

static bool agrees(const struct sl_zone *zone, int64_t at)
{
    time_t t = (time_t)at;
    struct tm tm;

    if (!localtime_r(&t, &tm))
        return false;
    return sl_zone_offset(zone, at) == tm.tm_gmtoff;
}

/* What glibc thinks of the same file. */
static void compare(const struct sl_zone *zone, const char *path)
{
    unsigned wrong = 0;

    setenv("TZ", path, 1);
    tzset();
    for (int64_t at = 0; at < Y2100; at += 13 * DAYS + 4567)
        wrong += !agrees(zone, at);
    for (size_t i = 0; i < zone->count; i++)
        for (int64_t by = -1; by <= 1; by++)
            if (zone->shifts[i].at > 0)
                wrong += !agrees(zone, zone->shifts[i].at + by);
    if (!CHECK_EQ(wrong, 0))
        printf("# in %s\n", path);
}

static unsigned zones;

static int on_file(const char *path, const struct stat *st, int type,
                   struct FTW *ftw)
{
    static char bytes[1 << 20];
    struct sl_diag diag = {.line = 0};
    struct sl_zone zone;
    FILE *file;
    size_t len;

    (void)st;
    (void)ftw;
    /* The copies under posix/ are the same zones once more. */
    if (type != FTW_F || strncmp(path, POSIX, strlen(POSIX)) == 0)
        return 0;
    file = fopen(path, "rb");
    if (!CHECK(file != NULL))
        return 0;
    len = fread(bytes, 1, sizeof(bytes), file);
    fclose(file);
    if (len < 4 || memcmp(bytes, "TZif", 4) != 0)
        return 0; /* a list or a note */
    zones++;
    if (!CHECK_EQ(sl_zone_parse((struct sl_str){bytes, len}, Y2100,
                                &sl_alloc_libc, &zone, &diag),
                  0)) {
        printf("# %s: %s\n", path, diag.sentence);
        return 0;
    }
    check_invariants(&zone);
    compare(&zone, path);
    sl_zone_done(&zone, &sl_alloc_libc);
    return 0;
}

static void test_machine(void)
{
    CASE("every zone of this machine is read, and glibc agrees");
    CHECK_EQ(nftw(ZONEINFO, on_file, 16, FTW_PHYS), 0);
    CHECK(zones > 300);
    printf("# %u zones\n", zones);
}

int main(void)
{
    test_machine();
    return CHECK_DONE();
}
