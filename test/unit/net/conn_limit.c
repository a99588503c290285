/* Connections counted over all loops and by address, against plain lists. The
 * numbers are those of src/net/conn_limit.c. */
#include "net/listener.h"

#include <pthread.h>

#include "check.h"
#include "fail.h"

#define ADDRESSES 40
#define MOST      64
#define EACH      5

static struct sl_ip address(unsigned i)
{
    struct sl_ip ip = {{0}};

    ip.bytes[10] = ip.bytes[11] = 0xff;
    ip.bytes[15] = (uint8_t)i;
    return ip;
}

static uint64_t next_random(void)
{
    static uint64_t state = 88172645463325252u;

    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

TEST(caps)
{
    struct sl_conn_limit *limit = NULL;
    struct sl_ip a, b;

    CASE("so many of one address, so many in all");
    CHECK(sl_ip_parse(SL_STR("192.0.2.1"), &a));
    CHECK(sl_ip_parse(SL_STR("192.0.2.2"), &b));
    CHECK_EQ(sl_conn_limit_open(NULL, 4, 2, &limit), 0);
    CHECK_EQ(sl_conn_limit_enter(limit, &a), SL_CONN_LIMIT_IN);
    CHECK_EQ(sl_conn_limit_enter(limit, &a), SL_CONN_LIMIT_IN);
    CHECK_EQ(sl_conn_limit_enter(limit, &a), SL_CONN_LIMIT_TOO_MANY);
    CHECK_EQ(sl_conn_limit_enter(limit, &b), SL_CONN_LIMIT_IN);
    CHECK_EQ(sl_conn_limit_enter(limit, NULL), SL_CONN_LIMIT_IN);
    CHECK_EQ(sl_conn_limit_enter(limit, NULL), SL_CONN_LIMIT_FULL);
    CHECK_EQ(sl_conn_limit_enter(limit, &b), SL_CONN_LIMIT_FULL);
    sl_conn_limit_leave(limit, NULL);
    CHECK_EQ(sl_conn_limit_enter(limit, &a), SL_CONN_LIMIT_TOO_MANY);
    sl_conn_limit_leave(limit, &a);
    CHECK_EQ(sl_conn_limit_enter(limit, &a), SL_CONN_LIMIT_IN);
    CHECK_EQ(sl_conn_limit_count(limit), 3);
    sl_conn_limit_close(limit);

    CASE("those who are not counted by address have no cap of their own");
    CHECK_EQ(sl_conn_limit_open(NULL, 3, 1, &limit), 0);
    for (unsigned i = 0; i < 3; i++)
        CHECK_EQ(sl_conn_limit_enter(limit, NULL), SL_CONN_LIMIT_IN);
    sl_conn_limit_close(limit);

    CASE("IPv6 by its first 64 bits");
    CHECK(sl_ip_parse(SL_STR("2001:db8::1"), &a));
    CHECK(sl_ip_parse(SL_STR("2001:db8::2"), &b));
    CHECK_EQ(sl_conn_limit_open(NULL, 9, 1, &limit), 0);
    CHECK_EQ(sl_conn_limit_enter(limit, &a), SL_CONN_LIMIT_IN);
    CHECK_EQ(sl_conn_limit_enter(limit, &b), SL_CONN_LIMIT_TOO_MANY);
    sl_conn_limit_leave(limit, &b);
    CHECK_EQ(sl_conn_limit_enter(limit, &b), SL_CONN_LIMIT_IN);
    sl_conn_limit_close(limit);
    sl_conn_limit_close(NULL);
}

/* (1) (2) (3): places are given back and moved, and none is lost. */
TEST(history)
{
    unsigned is[ADDRESSES] = {0}, all = 0, full = 0, many = 0, wrong = 0;
    struct sl_conn_limit *limit = NULL;

    CASE("a long history agrees with plain counts");
    CHECK_EQ(sl_conn_limit_open(NULL, MOST, EACH, &limit), 0);
    for (unsigned i = 0; i < 200000; i++) {
        unsigned who = (unsigned)(next_random() % ADDRESSES);
        struct sl_ip ip = address(who);

        if (next_random() % 100 < 45 && is[who] > 0) {
            sl_conn_limit_leave(limit, &ip);
            is[who]--;
            all--;
        } else {
            enum sl_conn_limit_answer want = all == MOST ? SL_CONN_LIMIT_FULL
                                             : is[who] == EACH
                                                 ? SL_CONN_LIMIT_TOO_MANY
                                                 : SL_CONN_LIMIT_IN;

            wrong += sl_conn_limit_enter(limit, &ip) != want;
            is[who] += want == SL_CONN_LIMIT_IN;
            all += want == SL_CONN_LIMIT_IN;
            full += want == SL_CONN_LIMIT_FULL;
            many += want == SL_CONN_LIMIT_TOO_MANY;
        }
        wrong += sl_conn_limit_count(limit) != all;
    }
    CHECK_EQ(wrong, 0);
    CHECK(full > 0 && many > 0);
    sl_conn_limit_close(limit);
}

TEST(memory)
{
    struct fail f = {.nth = 1};
    struct sl_alloc alloc = fail_alloc(&f);
    struct sl_conn_limit *limit = NULL;

    CASE("without memory there is none");
    CHECK_EQ(sl_conn_limit_open(&alloc, 10, 10, &limit), SLUICE_ENOMEM);
    CHECK(!limit);
    f.nth = 0;
    CHECK_EQ(sl_conn_limit_open(&alloc, 10, 10, &limit), 0);
    sl_conn_limit_close(limit);
    fail_check(&f);
}

static void *come_and_go(void *ctx)
{
    struct sl_ip ip = address(7);

    for (unsigned i = 0; i < 20000; i++)
        if (sl_conn_limit_enter(ctx, &ip) == SL_CONN_LIMIT_IN)
            sl_conn_limit_leave(ctx, &ip);
    return NULL;
}

TEST(threads)
{
    struct sl_conn_limit *limit = NULL;
    pthread_t threads[3];

    CASE("from several threads");
    CHECK_EQ(sl_conn_limit_open(NULL, 2, 2, &limit), 0);
    for (unsigned i = 0; i < SL_LEN(threads); i++)
        if (pthread_create(&threads[i], NULL, come_and_go, limit))
            exit(1);
    for (unsigned i = 0; i < SL_LEN(threads); i++)
        pthread_join(threads[i], NULL);
    CHECK_EQ(sl_conn_limit_count(limit), 0);
    sl_conn_limit_close(limit);
}

CHECK_MAIN()
