/* slots.c -- slots of keys, redirects, maps and errors: tables. */
#include "store/redis/redis_int.h"

#include "check.h"

TEST(keys)
{
    /* As CLUSTER KEYSLOT of Redis 7.0 says. */
    static const struct {
        const char *key;
        unsigned slot;
    } rows[] = {
        {"",                     0    },
        {"123456789",            12739},
        {"foo",                  12182},
        {"bar",                  5061 },
        {"{foo}bar",             12182},
        {"bar{foo}",             12182},
        {"a{foo}{bar}",          12182},
        {"{}foo",                9500 },
        {"foo{}{bar}",           8363 },
        {"{user1000}.following", 3443 },
        {"foo{{bar}}zap",        4015 },
        {"foo{bar",              15278},
    };

    CASE("a key lies in the slot that Redis says");
    for (unsigned i = 0; i < SL_LEN(rows); i++)
        if (!CHECK_EQ(sl_cluster_slot_of(sl_str_c(rows[i].key)), rows[i].slot))
            printf("# %s\n", rows[i].key);
}

TEST(tags)
{
    bool all = true;

    CASE("every slot has a number that lies in it");
    for (unsigned slot = 0; slot < SL_CLUSTER_SLOTS; slot++) {
        char key[32];

        snprintf(key, sizeof(key), "x{%u}:y", sl_cluster_slot_tag(slot));
        all &= sl_cluster_slot_of(sl_str_c(key)) == slot;
    }
    CHECK(all);
}

TEST(redirects)
{
    static const struct {
        const char *text, *want;
    } rows[] = {
        {"MOVED 3999 127.0.0.1:6381",   "moved 3999 127.0.0.1 6381"},
        {"ASK 0 [x]:1",                 "ask 0 [x] 1"              },
        {"MOVED 16383 ::1:7000",        "moved 16383 ::1 7000"     },
        {"MOVED 5 :7000",               "moved 5  7000"            },
        {"MOVED 5 ?:7000",              "moved 5  7000"            },
        {"MOVED 5 host.name:7000 more", "moved 5 host.name 7000"   },
        {"MOVED 16384 h:1",             NULL                       },
        {"MOVED -1 h:1",                NULL                       },
        {"MOVED 1 h",                   NULL                       },
        {"MOVED 1 h:",                  NULL                       },
        {"MOVED 1 h:0",                 NULL                       },
        {"MOVED 1 h:65536",             NULL                       },
        {"MOVED 1 h:99999999999",       NULL                       },
        {"MOVED 1",                     NULL                       },
        {"MOVED",                       NULL                       },
        {"MOVE 1 h:1",                  NULL                       },
        {"",                            NULL                       },
        {"MOVED 1 h\x01:1",             NULL                       },
    };

    CASE("redirects");
    for (unsigned i = 0; i < SL_LEN(rows); i++) {
        struct sl_redis_redirect to;
        char got[512];
        bool good = sl_redis_redirect_read(sl_str_c(rows[i].text), &to);

        if (!CHECK_EQ(good, rows[i].want != NULL))
            printf("# %s\n", rows[i].text);
        if (!good)
            continue;
        snprintf(got, sizeof(got), "%s %u %s %u", to.is_ask ? "ask" : "moved",
                 to.slot, to.to.name, to.to.port);
        CHECK_STR(got, rows[i].want);
    }
}

static bool on_range(void *ctx, unsigned from, unsigned to,
                     const struct sl_redis_addr *master)
{
    char *text = ctx;
    size_t len = strlen(text);

    snprintf(text + len, 512 - len, "%u-%u=%s:%u ", from, to, master->name,
             master->port);
    return true;
}

TEST(maps)
{
    static const struct {
        const char *text, *want;
    } rows[] = {
  /* clang-format off */
        {"*2\r\n*3\r\n:0\r\n:100\r\n*3\r\n$1\r\na\r\n:1\r\n$2\r\nid\r\n"
         "*4\r\n:101\r\n:16383\r\n*4\r\n$-1\r\n:2\r\n$2\r\nid\r\n*0\r\n"
         "*2\r\n$1\r\nr\r\n:3\r\n",
         "0-100=a:1 101-16383=:2 "},
        {"*1\r\n*3\r\n:5\r\n:5\r\n*2\r\n$1\r\n?\r\n:7\r\n",
         "5-5=:7 "},
        {"*0\r\n",
         NULL},
        {"-ERR no\r\n",
         NULL},
        {"*1\r\n:1\r\n",
         NULL},
        {"*1\r\n*3\r\n:7\r\n:5\r\n*2\r\n$1\r\na\r\n:7\r\n",
         NULL},
        {"*1\r\n*3\r\n:0\r\n:16384\r\n*2\r\n$1\r\na\r\n:7\r\n",
         NULL},
        {"*1\r\n*3\r\n:0\r\n:1\r\n*2\r\n$1\r\na\r\n:0\r\n",
         NULL},
        {"*1\r\n*3\r\n:0\r\n:1\r\n*1\r\n$1\r\na\r\n",
         NULL},
        {"*1\r\n*2\r\n:0\r\n:1\r\n",
         NULL},
  /* clang-format on */
    };
    struct sl_redis_addr place;

    CASE("maps of a cluster");
    for (unsigned i = 0; i < SL_LEN(rows); i++) {
        char got[512] = "";
        bool good =
            sl_cluster_slots_read(sl_str_c(rows[i].text), on_range, got);

        CHECK_EQ(good, rows[i].want != NULL);
        if (good)
            CHECK_STR(got, rows[i].want);
    }
    CASE("masters of sentinels");
    CHECK(sl_redis_master_read(SL_STR("*2\r\n$1\r\nh\r\n$4\r\n6379\r\n"),
                               &place));
    CHECK_STR(place.name, "h");
    CHECK_EQ(place.port, 6379);
    CHECK(!sl_redis_master_read(SL_STR("*-1\r\n"), &place));
    CHECK(!sl_redis_master_read(SL_STR("$-1\r\n"), &place));
    CHECK(!sl_redis_master_read(SL_STR("*2\r\n$0\r\n\r\n$1\r\n1\r\n"), &place));
    CHECK(
        !sl_redis_master_read(SL_STR("*2\r\n$1\r\nh\r\n$1\r\nx\r\n"), &place));
}

TEST(troubles)
{
    static const struct {
        enum sl_redis_error want;
        const char *reply;
    } rows[] = {
  /* clang-format off */
        {SL_REDIS_ERROR_NONE, "+OK\r\n"},
        {SL_REDIS_ERROR_NONE, "*1\r\n-OOM x\r\n"},
        {SL_REDIS_ERROR_NOSCRIPT, "-NOSCRIPT No matching script.\r\n"},
        {SL_REDIS_ERROR_MOVED, "-MOVED 1 h:1\r\n"},
        {SL_REDIS_ERROR_OOM, "-OOM command not allowed\r\n"},
        {SL_REDIS_ERROR_READONLY, "-READONLY You can't write\r\n"},
        {SL_REDIS_ERROR_READONLY,
         "-ERR Error running script (call to f_1): @user_script:1: "
         "-READONLY You can't write against a replica.\r\n"},
        {SL_REDIS_ERROR_OOM,
         "-ERR Error running script: @user: -OOM command\r\n"},
        {SL_REDIS_ERROR_CLUSTERDOWN, "-CLUSTERDOWN Hash slot not served\r\n"},
        {SL_REDIS_ERROR_OTHER, "-BUSYGROUP no\r\n"},
        {SL_REDIS_ERROR_BUSY, "-BUSY Redis is busy\r\n"},
        {SL_REDIS_ERROR_OTHER, "-ERR something else\r\n"},
        {SL_REDIS_ERROR_OTHER, "-\r\n"},
  /* clang-format on */
    };
    struct sl_str text;

    CASE("errors, and what they mean");
    for (unsigned i = 0; i < SL_LEN(rows); i++)
        if (!CHECK_EQ(sl_redis_error_of(sl_str_c(rows[i].reply), &text),
                      rows[i].want))
            printf("# %s", rows[i].reply);
    for (unsigned i = 0; i < SL_REDIS_ERRORS; i++)
        CHECK(strlen(sl_redis_error_sentence((enum sl_redis_error)i)) > 10);
}

CHECK_MAIN()
