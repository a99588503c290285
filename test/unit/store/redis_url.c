/* redis_url.c -- addresses of stores in Redis: each row is one. */
#include "store/redis/redis.h"

#include "check.h"
#include "fail.h"

#define SENTINEL "redis+sentinel://:x@a/m/4?sentinel_password=y"
#define MANY     "redis+cluster://1,2,3,4,5,6,7,8,9,a,b,c,d,e,f,g,h"

static void print(const struct sl_redis_url *w, char *out, size_t size)
{
    static const char *const kinds[] = {"one", "cluster", "sentinel"};
    int len = snprintf(out, size, "%s%s", kinds[w->kind], w->tls ? " tls" : "");

    for (unsigned i = 0; i < w->host_count; i++)
        len += snprintf(out + len, size - (size_t)len, " %s:%u",
                        w->hosts[i].name, w->hosts[i].port);
    snprintf(out + len, size - (size_t)len,
             " user=%.*s password=%.*s db=%u%s%s%s%s%s%s", SL_STR_ARG(w->user),
             SL_STR_ARG(w->password), w->database, w->master ? " master=" : "",
             w->master ? w->master : "", w->ca ? " ca=" : "",
             w->ca ? w->ca : "", w->sentinel_password.len ? " sentinel=" : "",
             w->sentinel_password.len ? w->sentinel_password.at : "");
}

TEST(good)
{
    static const struct {
        const char *text, *want;
    } rows[] = {
  /* clang-format off */
        {"redis://localhost",
         "one localhost:6379 user= password= db=0"},
        {"redis://127.0.0.1:7000/3",
         "one 127.0.0.1:7000 user= password= db=3"},
        {"redis://h/",
         "one h:6379 user= password= db=0"},
        {"rediss://h?ca=%2fa.pem",
         "one tls h:6379 user= password= db=0 ca=/a.pem"},
        {"redis://[::1]:7000",
         "one ::1:7000 user= password= db=0"},
        {"redis://:word@h",
         "one h:6379 user= password=word db=0"},
        {"redis://ann:w%40%2F%3a@h",
         "one h:6379 user=ann password=w@/: db=0"},
        {"redis://ann:a@b@h",
         "one h:6379 user=ann password=a@b db=0"},
        {"redis+unix:///run/redis.sock?db=2",
         "one /run/redis.sock:0 user= password= db=2"},
        {"redis+unix://:word@/run/redis.sock",
         "one /run/redis.sock:0 user= password=word db=0"},
        {"redis+cluster://a,b:7001,[::2]",
         "cluster a:6379 b:7001 ::2:6379 user= password= db=0"},
        {"rediss+cluster://u:p@a",
         "cluster tls a:6379 user=u password=p db=0"},
        {"redis+sentinel://a,b:5/mymaster",
         "sentinel a:26379 b:5 user= password= db=0 master=mymaster"},
        {SENTINEL,
         "sentinel a:26379 user= password=x db=4 master=m sentinel=y"},
  /* clang-format on */
    };

    for (unsigned i = 0; i < SL_LEN(rows); i++) {
        struct sl_arena arena;
        struct sl_redis_url where;
        struct sl_diag diag = {.sentence = ""};
        char got[512];

        CASE(rows[i].text);
        sl_arena_init(&arena, 1 << 16, &sl_alloc_libc);
        CHECK_EQ(
            sl_redis_url_read(sl_str_c(rows[i].text), &arena, &where, &diag),
            0);
        print(&where, got, sizeof(got));
        CHECK_STR(got, rows[i].want);
        sl_arena_done(&arena);
    }
}

TEST(bad)
{
    static const struct {
        const char *text, *words;
    } rows[] = {
        {"",                        "write redis://HOST"     },
        {"http://h",                "write redis://HOST"     },
        {"redis://",                "the host is missing"    },
        {"redis://h:",              "\"\" is not a port"     },
        {"redis://h:0",             "0 is not a port"        },
        {"redis://h:65536",         "is not a port"          },
        {"redis://h:7x",            "\"7x\" is not a port"   },
        {"redis://h/x",             "is not a database"      },
        {"redis://h/1000001",       "is not a database"      },
        {"redis://a,b",             "redis+cluster://"       },
        {"redis://[::1",            "missing ]"              },
        {"redis://[::1]x",          "only a port is allowed" },
        {"redis://h?ca=x",          "write rediss://"        },
        {"redis://h?what=x",        "unknown option \"what\""},
        {"redis://:%zz@h",          "two hexadecimal digits" },
        {"redis://:%1@h",           "two hexadecimal digits" },
        {"redis://u:pass/secret@h", "%2F"                    },
        {"redis://u:pass?secret@h", "%2F"                    },
        {"redis://a b",             "a space"                },
        {"redis+cluster://h/1",     "one database only"      },
        {"redis+cluster://h?db=1",  "unknown option \"db\""  },
        {"redis+sentinel://h",      "master is missing"      },
        {"redis+sentinel://h/",     "master is missing"      },
        {"redis+unix://",           "the host is missing"    },
        {MANY,                      "more than 16 hosts"     },
    };

    for (unsigned i = 0; i < SL_LEN(rows); i++) {
        struct sl_arena arena;
        struct sl_redis_url where;
        struct sl_diag diag = {.sentence = ""};

        CASE(rows[i].text);
        sl_arena_init(&arena, 1 << 16, &sl_alloc_libc);
        CHECK_EQ(
            sl_redis_url_read(sl_str_c(rows[i].text), &arena, &where, &diag),
            SLUICE_ECONF);
        if (!CHECK(strstr(diag.sentence, rows[i].words) != NULL))
            printf("# %s\n", diag.sentence);
        CHECK(!strstr(diag.sentence, "secret"));
        sl_arena_done(&arena);
    }
}

TEST(memory)
{
    static const char text[] = "rediss+cluster://u:p@host,two?ca=a&cert=b";
    unsigned n = 1;

    CASE("without memory it says so");
    for (bool failed = true; failed && n < 50; n++) {
        struct fail fail = {.nth = n};
        struct sl_alloc alloc = fail_alloc(&fail);
        struct sl_redis_url where;
        struct sl_diag diag = {.sentence = ""};
        struct sl_arena arena;
        int err;

        sl_arena_init(&arena, 1 << 16, &alloc);
        err = sl_redis_url_read(sl_str_c(text), &arena, &where, &diag);
        failed = fail.calls >= n;
        CHECK_EQ(err, failed ? SLUICE_ENOMEM : 0);
        sl_arena_done(&arena);
        fail_check(&fail);
    }
    CHECK(n > 1);
}

CHECK_MAIN()
