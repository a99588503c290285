/* settings_check.c -- what settings must keep together. */
#include "check.h"
#include "sluiced/settings.h"

static struct sl_settings s;
static struct sl_diag why;

/* Flags as NAME, VALUE pairs by their setting. */
struct flag {
    enum sl_setting id;
    const char *value;
};

static int make(const struct flag *flags, size_t count, bool secret)
{
    struct sl_setting_source given = {0};

    for (size_t i = 0; i < count; i++)
        given.flags[flags[i].id] = flags[i].value;
    if (secret) {
        given.secrets[SL_SET_access_token] = "abc";
        given.secrets[SL_SET_admin_token] = "def";
    }
    sl_settings_done(&s);
    why = (struct sl_diag){0};
    return sl_settings_make(&s, &given, NULL, NULL, &why);
}

#define MAKE(secret, ...)                                                      \
    make((struct flag[]){__VA_ARGS__}, SL_LEN(((struct flag[]){__VA_ARGS__})), \
         secret)

TEST(version)
{
    CASE("doors and stores of later versions are refused by name");
    CHECK_EQ(MAKE(false, {SL_SET_usage, "mysql://u:s3cret@x"}), SL_EXIT_USAGE);
    CHECK_STR(why.sentence,
              "--usage: \"mysql\" is not a usage database; write sqlite:PATH, "
              "postgres://HOST/DATABASE, dynamodb://REGION/TABLE or none");
    CHECK_EQ(MAKE(false, {SL_SET_usage, "postgres://u:s3%zzret@h/d"}),
             SL_EXIT_USAGE);
    CHECK_STR(why.sentence,
              "--usage: this is not the URL of a PostgreSQL database; write "
              "postgres://USER@HOST:PORT/DATABASE, and write characters other "
              "than letters and digits in a name as %XX");
    CHECK_EQ(MAKE(false, {SL_SET_usage, "postgres://h/d?sslmode=require"}), 0);
    CHECK_EQ(MAKE(false, {SL_SET_usage, "sqlite:"}), SL_EXIT_USAGE);
    CHECK_EQ(MAKE(false, {SL_SET_usage, "sqlite:x"}), 0);
    CHECK_EQ(MAKE(false, {SL_SET_store, "dynamodb://u:s3cret@h"}),
             SL_EXIT_USAGE);
    CHECK_STR(why.sentence, "--store: dynamodb:// needs a region; write "
                            "dynamodb://eu-west-1/TABLE");
    CHECK_EQ(MAKE(false, {SL_SET_store, "dynamodb://eu-west-1/tab"}), 0);
    CHECK_EQ(MAKE(false, {SL_SET_usage, "dynamodb://eu-west-1/x"}),
             SL_EXIT_USAGE);
    CHECK_EQ(MAKE(false, {SL_SET_store, "memery:"}), SL_EXIT_USAGE);
    CHECK_STR(why.sentence,
              "--store: \"memery\" is not a store; write memory:, memory:PATH, "
              "redis://HOST:PORT or dynamodb://REGION/TABLE");

    CASE("to say that they are off is no wish for them");
    CHECK_EQ(MAKE(false, {SL_SET_listen_resp, "off"}), 0);
}

/* What a reload would say of another store. */
static const char *differs(const char *was, const char *is)
{
    static char text[512];
    struct sl_setting_source given = {.flags = {[SL_SET_store] = was}};
    struct sl_settings old;
    struct sl_buf out;

    sl_buf_init(&out, sizeof(text), &sl_alloc_libc);
    CHECK_EQ(sl_settings_make(&old, &given, NULL, NULL, &why), 0);
    CHECK_EQ(MAKE(false, {SL_SET_store, is}), 0);
    CHECK_EQ(sl_settings_diff(&old, &s, false, &out), 0);
    snprintf(text, sizeof(text), "%.*s", SL_STR_ARG(sl_buf_str(&out)));
    sl_buf_done(&out);
    sl_settings_done(&old);
    return text;
}

TEST(redis)
{
    static const struct {
        const char *url, *why; /* NULL: taken */
    } rows[] = {
        {"redis://127.0.0.1",               NULL                      },
        {"redis://u:p@127.0.0.1:7000/3",    NULL                      },
        {"rediss://h?ca=/ca.pem",           NULL                      },
        {"redis+unix:///run/r.sock?db=2",   NULL                      },
        {"redis+cluster://a:1,b:2",         NULL                      },
        {"redis+sentinel://a,b/mymaster/1", NULL                      },
        {"redis:",                          "unknown Redis URL; write"},
        {"redis://u:s3cret@",               "the host is missing"     },
        {"redis://u:s3cret@h:x",            "is not a port"           },
        {"redis+sentinel://u:s3cret@h",     "master is missing"       },
        {"redis://u:s3cret@h?what=1",       "unknown option"          },
    };

    CASE("a store in a Redis is read, and its password told to nobody");
    for (size_t i = 0; i < SL_LEN(rows); i++) {
        CHECK_EQ(MAKE(false, {SL_SET_store, rows[i].url}),
                 rows[i].why ? SL_EXIT_USAGE : 0);
        CHECK_EQ(s.shared, strlen(rows[i].url) > 0);
        CHECK(!strstr(why.sentence, "s3cret"));
        if (rows[i].why && !CHECK(strstr(why.sentence, rows[i].why)))
            printf("# %s\n", why.sentence);
    }
    CHECK_EQ(MAKE(false, {SL_SET_store, "memory:"}), 0);
    CHECK(!s.shared);

    CASE("a deadline has bounds there");
    CHECK_EQ(MAKE(false, {SL_SET_store, "redis://h"}, {SL_SET_deadline, "0s"}),
             SL_EXIT_USAGE);
    CHECK_STR(why.sentence, "--deadline: the deadline must be between 1ms and "
                            "10s, not 0s; the default is 20ms");
    CHECK_EQ(MAKE(false, {SL_SET_store, "redis://h"}, {SL_SET_deadline, "11s"}),
             SL_EXIT_USAGE);
    CHECK_EQ(MAKE(false, {SL_SET_store, "redis://h"}, {SL_SET_deadline, "1ms"}),
             0);
    CHECK_EQ(s.deadline, SL_MS);

    CASE("what is said of a change has no password");
    CHECK_STR(differs("redis://u:s3cret@h", "redis://u:s3cret@i"),
              "server.store redis://********@h -> redis://********@i; needs a "
              "restart\n");
    CHECK_STR(differs("redis://u:s3cret@h", "redis://u:other@h"),
              "server.store changed; needs a restart\n");
    CHECK_STR(differs("memory:", "redis://u:other@h"),
              "server.store memory: -> redis://********@h; needs a restart\n");
}

TEST(masks)
{
    static const struct {
        const char *url, *shown;
    } rows[] = {
        {"memory:./x",                                "memory:./x"          },
        {"redis://h:1/2",                             "redis://h:1/2"       },
        {"redis://:p@h",                              "redis://********@h"  },
        {"redis://u:p@q@h/1",                         "redis://********@h/1"},
        {"postgres://h/d?sslmode=require&password=x",
         "postgres://h/d?sslmode=require&password=********"                 },
        {"redis://h?sentinel_password=x&db=1",
         "redis://h?sentinel_password=********&db=1"                        },
        {"redis://a:b@h?sentinel_user=x",
         "redis://********@h?sentinel_user=********"                        },
    };
    char text[128];

    CASE("masks");
    for (size_t i = 0; i < SL_LEN(rows); i++) {
        sl_settings_mask(rows[i].url, text, sizeof(text));
        CHECK_STR(text, rows[i].shown);
        for (size_t size = 1; size < 64; size++) {
            memset(text, 'x', sizeof(text));
            sl_settings_mask(rows[i].url, text, size);
            CHECK(strlen(text) < size && text[size] == 'x');
        }
    }
}

TEST(guard)
{
    static const char *const far[] = {"0.0.0.0:8080", "*:8080", "[::]:8080",
                                      "192.0.2.1:80", "[2001:db8::1]:80"};
    static const char *const near[] = {"127.0.0.1:8080", "127.9.9.9:1",
                                       "[::1]:8080", "localhost:8080",
                                       "unix:/run/x.sock"};

    CASE("a door beyond loopback needs a token");
    for (size_t i = 0; i < SL_LEN(far); i++) {
        CHECK_EQ(MAKE(false, {SL_SET_listen_http, far[i]}), SL_EXIT_USAGE);
        CHECK(strstr(why.sentence,
                     "access_token (--access-token-file) or tls") != NULL);
        CHECK_EQ(MAKE(false, {SL_SET_listen_admin, far[i]}), SL_EXIT_USAGE);
        CHECK(strstr(why.sentence, "admin_token") != NULL);
        CHECK_EQ(MAKE(true, {SL_SET_listen_http, far[i]},
                      {SL_SET_listen_admin, "127.0.0.1:9"}),
                 0);
        CHECK_EQ(MAKE(true, {SL_SET_listen_admin, far[i]},
                      {SL_SET_listen_http, "127.0.0.1:9"}),
                 0);
    }

    CASE("nearer ones do not");
    for (size_t i = 0; i < SL_LEN(near); i++)
        CHECK_EQ(MAKE(false, {SL_SET_listen_http, near[i]}), 0);

    CASE("a client's certificate lets in at the http door, not at the other");
    CHECK_EQ(MAKE(false, {SL_SET_listen_http, "*:80"},
                  {SL_SET_tls_certificate, "c"}, {SL_SET_tls_key, "k"},
                  {SL_SET_tls_client_ca, "a"}),
             0);
    CHECK_EQ(MAKE(false, {SL_SET_listen_admin, "*:80"},
                  {SL_SET_tls_certificate, "c"}, {SL_SET_tls_key, "k"},
                  {SL_SET_tls_client_ca, "a"}),
             SL_EXIT_USAGE);
}

TEST(together)
{
    CASE("a certificate and its key go together");
    CHECK_EQ(MAKE(false, {SL_SET_tls_certificate, "c"}), SL_EXIT_USAGE);
    CHECK_EQ(MAKE(false, {SL_SET_tls_key, "k"}), SL_EXIT_USAGE);
    CHECK_EQ(MAKE(false, {SL_SET_tls_client_ca, "a"}), SL_EXIT_USAGE);
    CHECK_EQ(MAKE(false, {SL_SET_tls_certificate, "c"}, {SL_SET_tls_key, "k"}),
             0);

    CASE("two doors need two addresses");
    CHECK_EQ(MAKE(false, {SL_SET_listen_http, "127.0.0.1:5"},
                  {SL_SET_listen_admin, "127.0.0.1:5"}),
             SL_EXIT_USAGE);
    CHECK_EQ(MAKE(false, {SL_SET_listen_http, "127.0.0.1:0"},
                  {SL_SET_listen_admin, "127.0.0.1:0"}),
             0);

    CASE("and one at least");
    CHECK_EQ(MAKE(false, {SL_SET_listen_http, "off"},
                  {SL_SET_listen_grpc, "off"}, {SL_SET_listen_resp, "off"},
                  {SL_SET_listen_admin, "off"}),
             SL_EXIT_USAGE);
    CHECK(strstr(why.sentence, "all listeners are off") != NULL);
}

static struct sl_settings of(const struct sl_server_conf *server)
{
    struct sl_setting_source given = {0};
    struct sl_settings ret;

    CHECK_EQ(sl_settings_make(&ret, &given, server, "p.yaml", &why), 0);
    return ret;
}

static void check_diff(const struct sl_server_conf *a,
                       const struct sl_server_conf *b, bool live,
                       const char *want)
{
    struct sl_settings old = of(a), new = of(b);
    struct sl_buf out;

    sl_buf_init(&out, 4096, &sl_alloc_libc);
    CHECK_EQ(sl_settings_diff(&old, &new, live, &out), 0);
    CHECK_EQ(sl_buf_add(&out, (struct sl_str){"", 1}), 0);
    CHECK_STR(out.bytes, want);
    sl_buf_done(&out);
    sl_settings_done(&old);
    sl_settings_done(&new);
}

TEST(diffs)
{
    struct sl_server_conf none = {0}, other = {0}, tls = {0}, tls2 = {0};

    other.memory = 2 << 20;
    other.access_token = SL_STR("s3cret");
    other.log_level = SL_STR("debug");
    tls.tls_certificate = SL_STR("/c");
    tls.tls_key = SL_STR("/k");
    tls2 = tls;
    tls2.tls_certificate = SL_STR("/d");

    CASE("a reload names what needs a restart");
    check_diff(&none, &none, false, "");
    check_diff(&none, &other, false,
               "server.memory 64MiB -> 2MiB; needs a restart\n"
               "server.access_token changed; needs a restart\n");
    check_diff(&none, &tls, false,
               "server.tls.certificate none -> /c; needs a restart\n"
               "server.tls.key none -> /k; needs a restart\n");

    CASE("and what it has changed");
    check_diff(&none, &other, true, "server.log.level info -> debug\n");
    check_diff(&tls, &tls2, true, "server.tls.certificate /c -> /d\n");
    check_diff(&tls, &tls2, false, "");
}

int main(void)
{
    RUN_TESTS();
    sl_settings_done(&s);
    return CHECK_DONE();
}
