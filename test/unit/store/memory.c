/* memory.c -- the memory store does what a store must. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "check.h"
#include "fail.h"
#include "limit.h"
#include "store/store.h"

static struct sl_limit bucket, window;
static unsigned done_calls;

static void on_done(struct sl_take *take)
{
    done_calls += take->ctx == &done_calls;
}

static struct sl_take take_of(enum sl_take_op op, struct sl_part *parts,
                              unsigned count, sl_ns now)
{
    return (struct sl_take){.op = op,
                            .parts = parts,
                            .count = count,
                            .now = now,
                            .done = on_done,
                            .ctx = &done_calls};
}

static struct sl_limit_binding stored[3];

static struct sl_part part_of(unsigned limit, const char *key, uint64_t cost)
{
    return (struct sl_part){.binding = &stored[limit],
                            .limit = limit ? &window : &bucket,
                            .key = sl_str_c(key),
                            .cost = cost};
}

static uint64_t left(struct sl_store *store, unsigned limit, const char *key)
{
    struct sl_part part = part_of(limit, key, 0);
    struct sl_take take = take_of(SL_TAKE_OP_TAKE, &part, 1, SL_S);

    sl_store_take(store, &take);
    return part.answer.remaining;
}

static void test_ops(struct sl_store *store)
{
    struct sl_part parts[2] = {part_of(0, "k", 3), part_of(1, "k", 3)};
    struct sl_take take = take_of(SL_TAKE_OP_TAKE, parts, 2, SL_S);

    CASE("a set is taken, and done is called once");
    sl_store_take(store, &take);
    CHECK(take.allowed);
    CHECK_EQ(take.err, 0);
    CHECK_EQ(done_calls, 1);
    CHECK_EQ(parts[0].answer.remaining, 7);
    CHECK_EQ(parts[1].answer.remaining, 1);

    CASE("(1) all or none");
    sl_store_take(store, &take);
    CHECK(!take.allowed);
    CHECK_EQ(left(store, 0, "k"), 7);
    CHECK_EQ(left(store, 1, "k"), 1);

    CASE("a look takes nothing and says what a take would");
    take.op = SL_TAKE_OP_PEEK;
    sl_store_take(store, &take);
    CHECK(!take.allowed);
    CHECK_EQ(parts[0].answer.outcome, SL_ALLOW);
    CHECK_EQ(parts[1].answer.outcome, SL_DENY);
    CHECK_EQ(left(store, 0, "k"), 7);

    CASE("each for itself");
    take.op = SL_TAKE_OP_EACH;
    sl_store_take(store, &take);
    CHECK_EQ(parts[0].answer.outcome, SL_ALLOW);
    CHECK_EQ(parts[1].answer.outcome, SL_DENY);
    CHECK_EQ(left(store, 0, "k"), 4);
    CHECK_EQ(left(store, 1, "k"), 1);

    CASE("charge and give back");
    take.op = SL_TAKE_OP_CHARGE;
    sl_store_take(store, &take);
    CHECK_EQ(left(store, 0, "k"), 1);
    CHECK_EQ(left(store, 1, "k"), 0); /* six of four */
    take.op = SL_TAKE_OP_REFUND;
    parts[0].taken_at = parts[1].taken_at = SL_S;
    sl_store_take(store, &take);
    CHECK_EQ(left(store, 0, "k"), 4);
    CHECK_EQ(left(store, 1, "k"), 1);

    CASE("reset");
    take.op = SL_TAKE_OP_RESET;
    sl_store_take(store, &take);
    CHECK_EQ(left(store, 0, "k"), 10);
    CHECK_EQ(left(store, 1, "k"), 4);
}

/* Quotas count up to 2^53, and so far they can be charged at once. */
static void test_large(struct sl_store *store)
{
    const uint64_t most = SL_AMOUNT_MAX;
    struct sl_limit_binding of = {.name = "vast"};
    struct sl_limit vast;
    struct sl_part parts[SL_PARTS];
    struct sl_take take = take_of(SL_TAKE_OP_CHARGE, parts, 1, SL_S);

    CASE("a charge of 2^52 is one");
    vast = rate_of(SL_QUOTA, "9007199254740992/month");
    of.strictest = vast;
    CHECK_EQ(sl_store_bind(store, &of, 1, NULL), 0);
    for (unsigned i = 0; i < SL_PARTS; i++)
        parts[i] = (struct sl_part){.binding = &of,
                                    .limit = &vast,
                                    .key = SL_STR("k"),
                                    .cost = most / 2};
    sl_store_take(store, &take);
    CHECK_EQ(parts[0].answer.remaining, most / 2);
    CASE("and so is giving it back");
    take.op = SL_TAKE_OP_REFUND;
    sl_store_take(store, &take);
    CHECK_EQ(parts[0].answer.remaining, most);
    CASE("a whole set of them ends where the counter does");
    take.op = SL_TAKE_OP_CHARGE;
    take.count = SL_PARTS;
    sl_store_take(store, &take);
    CHECK_EQ(parts[0].answer.remaining, 0);
    parts[0].cost = 10;
    parts[0].taken_at = SL_S;
    take.op = SL_TAKE_OP_REFUND;
    take.count = 1;
    sl_store_take(store, &take);
    CHECK_EQ(parts[0].answer.remaining, 10);
}

static void bind(struct sl_store *store)
{
    stored[0] =
        (struct sl_limit_binding){.name = "bucket", .strictest = bucket};
    stored[1] =
        (struct sl_limit_binding){.name = "window", .strictest = window};
    stored[2] = (struct sl_limit_binding){.name = "unused"};
    CHECK_EQ(sl_store_bind(store, stored, 3, NULL), 0);
}

/* A head that another process has open is damaged: the file stays where it
 * is. */
static void test_file_in_use(void)
{
    char path[] = "/tmp/sluice-memory-XXXXXX", head[8], want[96];
    struct sl_memory_options options = {.path = path, .size = 1 << 20};
    struct sl_store *store, *other = NULL;
    struct sl_diag diag = {0};
    int fd = mkstemp(path);

    CASE("a damaged file that is in use is named");
    CHECK_EQ(sl_memory_open(&options, &store, &diag), 0);
    CHECK_EQ(pread(fd, head, 8, 0), 8);
    CHECK_EQ(pwrite(fd, "garbage!", 8, 0), 8);
    CHECK_EQ(sl_memory_open(&options, &other, &diag), SLUICE_EDAMAGE);
    snprintf(want, sizeof(want),
             "%s: it is not a state file of Sluice; another process uses it",
             path);
    CHECK_STR(diag.sentence, want);
    CHECK_EQ(pwrite(fd, head, 8, 0), 8);
    sl_store_close(store);
    close(fd);
    CHECK_EQ(unlink(path), 0);
}

static void test_file(void)
{
    char path[] = "/tmp/sluice-memory-XXXXXX";
    struct sl_memory_options options = {.path = path, .size = 1 << 20};
    struct sl_store *store;
    struct sl_diag diag = {0};
    struct sl_part part = part_of(0, "k", 3);
    struct sl_take take = take_of(SL_TAKE_OP_TAKE, &part, 1, SL_S);
    char aside[64];
    FILE *file;

    CASE("a file remembers");
    close(mkstemp(path));
    unlink(path);
    CHECK_EQ(sl_memory_open(&options, &store, &diag), 0);
    bind(store);
    sl_store_take(store, &take);
    sl_store_close(store);
    CHECK_EQ(sl_memory_open(&options, &store, &diag), 0);
    CHECK_STR(sl_memory_notice(store), "");
    bind(store);
    CHECK_EQ(left(store, 0, "k"), 7);
    sl_store_close(store);

    CASE("a file of another size is used as it is, and said so");
    options.size *= 2;
    CHECK_EQ(sl_memory_open(&options, &store, &diag), 0);
    CHECK(strstr(sl_memory_notice(store), "is used as it is") != NULL);
    bind(store);
    CHECK_EQ(left(store, 0, "k"), 7);
    sl_store_close(store);
    options.size = 0;
    CHECK_EQ(sl_memory_open(&options, &store, &diag), 0);
    CHECK_STR(sl_memory_notice(store), "");
    sl_store_close(store);
    options.size = 1 << 20;

    CASE("a damaged file is set aside, and said so");
    file = fopen(path, "r+");
    CHECK(file && fputs("garbage", file) >= 0 && fclose(file) == 0);
    CHECK_EQ(sl_memory_open(&options, &store, &diag), 0);
    CHECK(strstr(sl_memory_notice(store), "an empty state file was created") !=
          NULL);
    sl_store_close(store);
    snprintf(aside, sizeof(aside), "%s.damaged-1", path);
    CHECK_EQ(unlink(aside), 0);
    unlink(path);

    CASE("a folder that is not there");
    options.path = "/nonexistent/state";
    CHECK_EQ(sl_memory_open(&options, &store, &diag), SLUICE_ESYS);
    CHECK(diag.sentence[0]);
}

static void test_memory_fails(void)
{
    struct fail fail = {.nth = 1};
    struct sl_alloc alloc = {fail_resize, &fail};
    struct sl_memory_options options = {.size = 1 << 20, .alloc = &alloc};
    struct sl_store *store = NULL;
    int err;

    CASE("an allocation fails: an error, and nothing is left over");
    while ((err = sl_memory_open(&options, &store, NULL)) != 0) {
        CHECK_EQ(err, SLUICE_ENOMEM);
        CHECK_EQ(fail.pieces, 0);
        fail.nth++;
        fail.calls = 0;
    }
    CHECK(fail.nth > 1);
    sl_store_close(store);
    CHECK_EQ(fail.pieces, 0);
    CHECK(!fail.lied);
}

/* Takes of one key each, one after the other in each others' way, among
 * others that are not of that kind. */
static void test_many(struct sl_store *store)
{
    static const char *const keys[] = {"m", "n", "m", "m", "o"};
    struct sl_part parts[100],
        set[2] = {part_of(0, "m", 1), part_of(1, "m", 1)};
    struct sl_take takes[101];
    struct sl_take *list[101];
    uint64_t left_of[3] = {10, 10, 10};

    CASE("many takes are done in order, each for itself");
    done_calls = 0;
    for (unsigned i = 0; i < 100; i++) {
        parts[i] = part_of(0, keys[i % SL_LEN(keys)], 1);
        takes[i] = take_of(SL_TAKE_OP_TAKE, &parts[i], 1, 5 * SL_S);
        list[i] = &takes[i];
    }
    parts[40].cost = 2;
    takes[40].op = SL_TAKE_OP_REFUND;
    takes[100] = take_of(SL_TAKE_OP_TAKE, set, 2, 5 * SL_S);
    list[100] = &takes[100];
    sl_store_take_many(store, list, 101);
    CHECK_EQ(done_calls, 101);
    for (unsigned i = 0; i < 100; i++) {
        uint64_t *l = &left_of[parts[i].key.at[0] - 'm'];
        bool want = i == 40 || *l > 0;

        if (i == 40)
            *l = *l + 2 < 10 ? *l + 2 : 10;
        else
            *l -= want;
        CHECK_EQ(takes[i].allowed, want);
        CHECK_EQ(takes[i].err, 0);
        CHECK_EQ(parts[i].answer.remaining, *l);
    }
    CHECK(!takes[100].allowed);
}

int main(void)
{
    struct sl_memory_options options = {.size = 1 << 20};
    struct sl_store *store;

    CASE("a store on the heap");
    bucket = rate_of(SL_BUCKET, "10/min");
    window = rate_of(SL_FIXED, "4/hour");
    CHECK_EQ(sl_memory_open(&options, &store, NULL), 0);
    bind(store);
    test_ops(store);
    test_many(store);
    test_large(store);
    sl_store_close(store);
    sl_store_close(NULL);
    test_file();
    test_file_in_use();
    test_memory_fails();
    return CHECK_DONE();
}
