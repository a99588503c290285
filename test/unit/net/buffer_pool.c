/* buffer_pool.c -- who gets the memory of an empty buffer, and who does not. */
#include "net/net_int.h"

#include "fail.h"

static void test_ceilings(struct sl_buf_pool *spares,
                          const struct sl_alloc *alloc)
{
    struct sl_buf a, many[SL_BUF_POOL_COUNT + 1];

    sl_buf_init(&a, 1 << 20, alloc);
    CASE("what is too large is given back, and so is what is too much");
    CHECK_EQ(sl_buf_reserve(&a, SL_BUF_POOL_MOST + 1), 0);
    sl_buf_pool_put(spares, &a);
    CHECK(!a.bytes);
    CHECK_EQ(spares->count, 1);
    for (unsigned i = 0; i < SL_LEN(many); i++) {
        sl_buf_init(&many[i], 100, alloc);
        CHECK_EQ(sl_buf_reserve(&many[i], 100), 0);
    }
    for (unsigned i = 0; i < SL_LEN(many); i++)
        sl_buf_pool_put(spares, &many[i]);
    CHECK_EQ(spares->count, SL_BUF_POOL_COUNT);
}

int main(void)
{
    struct fail f = {0}, other = {0};
    struct sl_alloc alloc = fail_alloc(&f), foreign = fail_alloc(&other);
    struct sl_buf_pool spares = {.count = 0};
    struct sl_buf a, b;
    char *bytes;

    sl_buf_init(&a, 1 << 20, &alloc);
    CASE("nothing to lend, nothing to keep");
    sl_buf_pool_get(&spares, &a);
    sl_buf_pool_put(&spares, &a);
    CHECK(!a.bytes);
    CHECK_EQ(spares.count, 0);

    CASE("what one leaves another gets");
    CHECK_EQ(sl_buf_reserve(&a, 1000), 0);
    bytes = a.bytes;
    sl_buf_pool_put(&spares, &a);
    sl_buf_check(&a);
    CHECK(!a.bytes);
    sl_buf_init(&b, 1000, &alloc);
    sl_buf_pool_get(&spares, &b);
    CHECK(b.bytes == bytes);
    sl_buf_check(&b);
    CHECK_EQ(f.calls, 1);

    CASE("who has memory gets no other");
    sl_buf_pool_put(&spares, &b);
    CHECK_EQ(sl_buf_reserve(&a, 10), 0);
    bytes = a.bytes;
    sl_buf_pool_get(&spares, &a);
    CHECK(a.bytes == bytes);
    CHECK_EQ(spares.count, 1);
    sl_buf_done(&a);

    CASE("nor who may not have so much, nor who allocates elsewhere");
    sl_buf_init(&b, 999, &alloc);
    sl_buf_pool_get(&spares, &b);
    CHECK(!b.bytes);
    sl_buf_init(&b, 1000, &foreign);
    sl_buf_pool_get(&spares, &b);
    CHECK(!b.bytes);

    test_ceilings(&spares, &alloc);
    CHECK_EQ(f.pieces, SL_BUF_POOL_COUNT);

    CASE("in the end all is given back");
    sl_buf_pool_done(&spares);
    fail_check(&f);
    fail_check(&other);
    return CHECK_DONE();
}
