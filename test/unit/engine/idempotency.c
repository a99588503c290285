/* idempotency.c -- claims, memos, life and budget. */
#include "engine/decision.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/engine_int.h"
#include "fail.h"

static struct sl_repeat_claim claim(uint64_t n, uint64_t fingerprint,
                                    sl_ns until)
{
    /* In one shard and one chain, where they could be mistaken. */
    return (struct sl_repeat_claim){
        .key = {n * 1024 * 16, 0},
        .fingerprint = {fingerprint,   1},
        .until = until,
        .repeats = 3
    };
}

static enum sl_repeat_found begin(struct sl_replay_cache *once,
                                  struct sl_repeat_claim c, sl_ns now,
                                  char memo[8])
{
    size_t len;
    enum sl_repeat_found found =
        sl_replay_cache_begin(once, &c, now, false, memo, 7, &len);

    memo[len] = '\0';
    return found;
}

static void test_life(void)
{
    struct sl_repeat_claim a = claim(1, 1, 100), other = claim(1, 2, 100);
    struct sl_replay_cache *once = NULL;
    char memo[8];
    size_t len;

    CHECK_EQ(sl_replay_cache_open(1 << 20, false, &sl_alloc_libc, &once), 0);
    CASE("first, running, done");
    CHECK_EQ(sl_replay_cache_begin(once, &a, 0, true, memo, 7, &len),
             SL_REPEAT_FIRST);
    CHECK_EQ(begin(once, a, 0, memo), SL_REPEAT_FIRST);
    CHECK_EQ(begin(once, a, 0, memo), SL_REPEAT_RUNNING);
    CHECK_EQ(begin(once, other, 0, memo), SL_REPEAT_OTHER);
    CHECK_EQ(begin(once, claim(2, 1, 100), 0, memo), SL_REPEAT_FIRST);
    CHECK_EQ(begin(once, a, 1000, memo), SL_REPEAT_RUNNING); /* however long */
    sl_replay_cache_finish(once, &a, "yes", 3);
    CHECK_EQ(sl_replay_cache_begin(once, &a, 0, true, memo, 7, &len),
             SL_REPEAT_AGAIN);
    CHECK_EQ(begin(once, a, 0, memo), SL_REPEAT_AGAIN);
    CHECK_STR(memo, "yes");
    CHECK_EQ(begin(once, other, 0, memo), SL_REPEAT_OTHER);

    CASE("as often as may be, then it is a first one again");
    CHECK_EQ(begin(once, a, 99, memo), SL_REPEAT_AGAIN);
    CHECK_EQ(begin(once, a, 99, memo), SL_REPEAT_AGAIN);
    CHECK_EQ(begin(once, a, 99, memo), SL_REPEAT_FIRST);
    sl_replay_cache_finish(once, &a, "", 0);
    CHECK_EQ(begin(once, a, 99, memo), SL_REPEAT_AGAIN);
    CHECK_STR(memo, "");

    CASE("what is over is forgotten, whatever its fingerprint was");
    CHECK_EQ(begin(once, other, 100, memo), SL_REPEAT_FIRST);
    sl_replay_cache_drop(once, &other);
    CHECK_EQ(begin(once, a, 0, memo), SL_REPEAT_FIRST);
    sl_replay_cache_finish(once, &a, "no", 2);

    CASE("all can be forgotten, but not what is running");
    sl_replay_cache_forget(once);
    CHECK_EQ(begin(once, a, 0, memo), SL_REPEAT_FIRST);
    CHECK_EQ(begin(once, claim(2, 1, 100), 0, memo), SL_REPEAT_RUNNING);
    sl_replay_cache_close(once);
}

static void test_budget(bool strict)
{
    struct sl_replay_cache_stats stats;
    struct sl_replay_cache *once = NULL;
    char memo[8];
    unsigned kept = 0;

    CHECK_EQ(sl_replay_cache_open(16 * 4096, strict, &sl_alloc_libc, &once), 0);
    CASE(strict ? "a strict memory is full, and keeps what it has"
                : "the one asked for longest ago gives way");
    for (unsigned i = 0; i < 100; i++) {
        struct sl_repeat_claim c = claim(i, 1, 100);

        if (begin(once, c, 0, memo) == SL_REPEAT_FIRST)
            sl_replay_cache_finish(once, &c, NULL, 0);
        else
            CHECK(strict);
    }
    sl_replay_cache_stats(once, &stats);
    kept = (unsigned)stats.count;
    CHECK(stats.bytes <= 4096);
    CHECK(kept > 20 && kept < 60);
    CHECK_EQ(stats.evicted, strict ? 0 : 100 - kept);
    CHECK_EQ(begin(once, claim(99, 1, 100), 0, memo),
             strict ? SL_REPEAT_FULL : SL_REPEAT_AGAIN);
    CHECK_EQ(begin(once, claim(0, 2, 100), 0, memo),
             strict ? SL_REPEAT_OTHER : SL_REPEAT_FIRST);
    CASE("what is over makes room in both");
    CHECK_EQ(begin(once, claim(200, 1, 200), 100, memo), SL_REPEAT_FIRST);
    sl_replay_cache_resize(once, 0);
    CHECK_EQ(begin(once, claim(201, 1, 200), 100, memo), SL_REPEAT_FULL);
    sl_replay_cache_close(once);
}

/* Records that last stand before such that are over. */
static void test_sweep(void)
{
    struct sl_replay_cache_stats stats;
    struct sl_replay_cache *once = NULL;
    unsigned count = 0, tries = 0;
    char memo[8];

    CASE("of a strict memory, what lasts does not hide what is over");
    CHECK_EQ(sl_replay_cache_open(16 << 17, true, &sl_alloc_libc, &once), 0);
    for (;; count++) {
        struct sl_repeat_claim c = claim(count, 1, count < 600 ? 100000 : 100);

        if (begin(once, c, 0, memo) != SL_REPEAT_FIRST)
            break;
        sl_replay_cache_finish(once, &c, NULL, 0);
    }
    CHECK(count > 1000);
    while (begin(once, claim(count, 1, 100), 100, memo) == SL_REPEAT_FULL)
        if (++tries == 10)
            break;
    CHECK(tries < 4);
    CASE("and is forgotten as others come");
    for (unsigned i = 1; i <= count; i++) {
        struct sl_repeat_claim c = claim(count + i, 1, 200 + i);

        if (!CHECK_EQ(begin(once, c, 100 + i, memo), SL_REPEAT_FIRST))
            break;
        sl_replay_cache_finish(once, &c, NULL, 0);
    }
    sl_replay_cache_stats(once, &stats);
    CHECK(stats.count < 600 + 100 + 400);
    CASE("nothing that lasts was forgotten");
    for (unsigned i = 0; i < 600; i++)
        CHECK_EQ(begin(once, claim(i, 1, 100000), 9000, memo), SL_REPEAT_AGAIN);
    sl_replay_cache_close(once);
}

static void test_no_memory(void)
{
    bool done = false;

    CASE("without memory nothing is claimed, and nothing is lost");
    for (unsigned n = 1; !done; n++) {
        struct fail f = {.nth = n};
        struct sl_alloc alloc = fail_alloc(&f);
        struct sl_repeat_claim c = claim(1, 1, 100);
        struct sl_replay_cache *once = NULL;
        char memo[8];

        if (sl_replay_cache_open(1 << 20, false, &alloc, &once) == 0) {
            enum sl_repeat_found found = begin(once, c, 0, memo);

            CHECK(found == SL_REPEAT_FIRST || found == SL_REPEAT_FULL);
            if (found == SL_REPEAT_FIRST)
                sl_replay_cache_finish(once, &c, "yes", 3);
            done = begin(once, c, 0, memo) == SL_REPEAT_AGAIN;
            sl_replay_cache_close(once);
        }
        fail_check(&f);
        CHECK(n < 20);
    }
}

static void count_entry(void *ctx, unsigned which,
                        const struct sl_repeat_claim *c, const void *memo,
                        size_t len)
{
    unsigned *count = ctx;

    *count += which == 0 && c->fingerprint.lo == 1 && len == 3 &&
              memcmp(memo, "yes", 3) == 0;
}

static void test_file_no_memory(void)
{
    char path[] = "/tmp/sluice-repeats-XXXXXX";
    int fd = mkstemp(path);

    CASE("a file of repeats that finds no memory loses nothing");
    for (unsigned n = 0; n < 3; n++) {
        struct fail f = {.nth = n == 1};
        struct sl_alloc alloc = fail_alloc(&f);
        struct sl_repeat_claim c = claim(1, 1, 100);
        struct sl_replay_file *file = NULL;
        struct sl_diag diag = {0};
        unsigned count = 0;
        int err = sl_replay_file_open(path, 65536, &alloc, &file, &diag);

        CHECK_EQ(err, n == 1 ? SLUICE_ENOMEM : 0);
        if (err) {
            CHECK_STR(diag.sentence, "out of memory");
        } else {
            sl_replay_file_each(file, count_entry, &count);
            CHECK_EQ(count, n > 0);
            if (n == 0)
                sl_replay_file_add(file, 0, &c, "yes", 3);
        }
        sl_replay_file_close(file);
        fail_check(&f);
    }
    close(fd);
    unlink(path);
}

static void test_load_no_memory(void)
{
    char path[] = "/tmp/sluice-repeats-XXXXXX";
    int fd = mkstemp(path);
    unsigned missing = 1;

    CASE("entries of the file for which there is no memory stay in the file");
    for (unsigned n = 0; n < 20 && missing > 0; n++) {
        struct fail f = {.nth = n};
        struct sl_alloc alloc = fail_alloc(&f);
        struct sl_replay_cache *once = NULL;
        struct sl_replay_file *file = NULL;
        char memo[8];

        CHECK_EQ(sl_replay_file_open(path, 65536, &sl_alloc_libc, &file, NULL),
                 0);
        for (unsigned i = 0; i < 3 && n == 0; i++) {
            struct sl_repeat_claim c = claim(1 + i, 1, 100);

            sl_replay_file_add(file, 0, &c, "yes", 3);
        }
        if (n > 0 && sl_replay_cache_open(1 << 20, false, &alloc, &once) == 0) {
            sl_replay_cache_load(once, file, 0, 0);
            missing = 0;
            for (unsigned i = 0; i < 3; i++) {
                enum sl_repeat_found found =
                    begin(once, claim(1 + i, 1, 100), 0, memo);

                CHECK(found == SL_REPEAT_AGAIN || found == SL_REPEAT_FIRST);
                missing += found != SL_REPEAT_AGAIN;
            }
            CHECK(missing <= 1);
        }
        sl_replay_cache_close(once);
        sl_replay_file_close(file);
        fail_check(&f);
    }
    CHECK_EQ(missing, 0);
    close(fd);
    unlink(path);
}

/* ---- many at once ---- */

#define THREADS 4
#define ROUNDS  2000

static struct sl_replay_cache *shared;
static atomic_uint firsts, again, running;

static void *hammer(void *ctx)
{
    (void)ctx;
    for (unsigned i = 0; i < ROUNDS; i++) {
        struct sl_repeat_claim c = claim(i, 1, 100);
        char memo[8];

        c.repeats = UINT32_MAX;
        switch (begin(shared, c, 0, memo)) {
        case SL_REPEAT_FIRST:
            atomic_fetch_add(&firsts, 1);
            sl_replay_cache_finish(shared, &c, "yes", 3);
            break;
        case SL_REPEAT_AGAIN:
            atomic_fetch_add(&again, strcmp(memo, "yes") == 0);
            break;
        default:
            atomic_fetch_add(&running, 1);
            break;
        }
    }
    return NULL;
}

static void test_threads(void)
{
    pthread_t threads[THREADS];

    CASE("of many who come with one key, one is the first");
    CHECK_EQ(sl_replay_cache_open(16 << 20, false, &sl_alloc_libc, &shared), 0);
    for (unsigned i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, hammer, NULL), 0);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    CHECK_EQ(firsts, ROUNDS);
    CHECK_EQ(firsts + again + running, THREADS * ROUNDS);
    sl_replay_cache_close(shared);
}

int main(void)
{
    test_life();
    test_budget(false);
    test_budget(true);
    test_sweep();
    test_no_memory();
    test_file_no_memory();
    test_load_no_memory();
    test_threads();
    return CHECK_DONE();
}
