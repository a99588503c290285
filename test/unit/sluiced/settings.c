/* settings.c -- priority of the sources, values, paths, and what must go
 * together. */
#include "sluiced/settings.h"

#include <stdlib.h>
#include <unistd.h>

#include "check.h"
#include "row.h"

static struct sl_settings s;
static struct sl_setting_source given;
static struct sl_server_conf server;
static struct sl_diag why;

static int make(const char *path)
{
    sl_settings_done(&s);
    why = (struct sl_diag){0};
    return sl_settings_make(&s, &given, &server, path, &why);
}

static void begin(void)
{
    given = (struct sl_setting_source){0};
    server = (struct sl_server_conf){0};
}

static bool says(const char *text)
{
    return strstr(why.sentence, text) != NULL ||
           !printf("# %s\n", why.sentence);
}

TEST(order)
{
    CASE("without a source: the presets, and no file");
    begin();
    CHECK_EQ(make(NULL), 0);
    CHECK(s.open[SL_PROTOCOL_HTTP] && s.open[SL_PROTOCOL_ADMIN]);
    CHECK_STR(s.at[SL_PROTOCOL_HTTP].text, "127.0.0.1:8080");
    CHECK_STR(s.at[SL_PROTOCOL_ADMIN].text, "127.0.0.1:9090");
    CHECK(s.state == NULL);
    CHECK_EQ(s.memory, 64 << 20);
    CHECK_EQ(s.deadline, 20 * SL_MS);
    CHECK_EQ(s.drain, 5 * SL_S);
    CHECK(s.watch && !s.tls_certificate && s.threads >= 1);
    CHECK_EQ(s.access_token.len, 0);
    CHECK_EQ(s.values[SL_SET_memory].origin, SL_ORIGIN_DEFAULT);

    CASE("the policy overrides presets");
    server.memory = 2 << 20;
    server.deadline = 5 * SL_MS;
    server.log_level = SL_STR("debug");
    CHECK_EQ(make("p.yaml"), 0);
    CHECK_EQ(s.memory, 2 << 20);
    CHECK_STR(s.values[SL_SET_memory].text, "2MiB");
    CHECK_EQ(s.deadline, 5 * SL_MS);
    CHECK_EQ(s.log_level, SL_LOG_DEBUG);
    CHECK_EQ(s.values[SL_SET_memory].origin, SL_ORIGIN_POLICY);

    CASE("a variable overrides the policy, a flag both");
    given.variables[SL_SET_memory] = "3MiB";
    CHECK_EQ(make("p.yaml"), 0);
    CHECK_EQ(s.memory, 3 << 20);
    CHECK_EQ(s.values[SL_SET_memory].origin, SL_ORIGIN_VARIABLE);
    given.flags[SL_SET_memory] = "4MiB";
    CHECK_EQ(make("p.yaml"), 0);
    CHECK_EQ(s.memory, 4 << 20);
    CHECK_EQ(s.values[SL_SET_memory].origin, SL_ORIGIN_FLAG);
}

/* Bits of the listeners that are open, or have the PROXY protocol. */
static unsigned bits(const bool flags[SL_PROTOCOLS])
{
    unsigned ret = 0;

    for (int i = 0; i < SL_PROTOCOLS; i++)
        ret |= (unsigned)flags[i] << i;
    return ret;
}

#define HTTP  (1u << SL_PROTOCOL_HTTP)
#define RESP  (1u << SL_PROTOCOL_RESP)
#define ADMIN (1u << SL_PROTOCOL_ADMIN)

TEST(listeners)
{
    CASE("listen opens only the listeners that it names");
    begin();
    server.has_listen = true;
    server.admin = SL_STR("127.0.0.1:1");
    CHECK_EQ(make("p.yaml"), 0);
    CHECK_EQ(bits(s.open), ADMIN);

    CASE("listeners with the PROXY protocol");
    CHECK_EQ(bits(s.proxied), 0);
    server.proxy_protocol = SL_STR("http,resp");
    server.hosts = SL_STR("a.example,b");
    CHECK_EQ(make("p.yaml"), 0);
    CHECK_EQ(bits(s.proxied), HTTP | RESP);
    CHECK(sl_str_eq(s.hosts, SL_STR("a.example,b")));
    given.flags[SL_SET_hosts] = "http://a.example";
    CHECK(make("p.yaml") != 0 && says("without a scheme and a port"));
    given.flags[SL_SET_hosts] = NULL;

    CASE("origins of the usage page become part of a header");
    given.flags[SL_SET_usage_origins] = "https://a.example,http://[::1]:8080";
    CHECK_EQ(make("p.yaml"), 0);
    CHECK(sl_str_eq(s.usage_origins,
                    SL_STR("https://a.example,http://[::1]:8080")));
    given.flags[SL_SET_usage_origins] = "https://a.example/";
    CHECK(make("p.yaml") != 0 && says("is not an origin"));
    given.flags[SL_SET_usage_origins] = "https://a.example;script-src";
    CHECK(make("p.yaml") != 0 && says("is not an origin"));
    given.flags[SL_SET_usage_origins] = "*";
    CHECK(make("p.yaml") != 0 && says("is not an origin"));
    given.flags[SL_SET_usage_origins] = "https://a.example,";
    CHECK(make("p.yaml") != 0 && says("is not an origin"));
    given.flags[SL_SET_usage_origins] = NULL;
    given.variables[SL_SET_proxy_protocol] = "admin";
    CHECK_EQ(make("p.yaml"), 0);
    CHECK_EQ(bits(s.proxied), ADMIN);
    given.flags[SL_SET_proxy_protocol] = "none";
    CHECK_EQ(make("p.yaml"), 0);
    CHECK_EQ(bits(s.proxied), 0);

    CASE("a flag opens and closes one listener");
    given.flags[SL_SET_listen_http] = "127.0.0.1:2";
    CHECK_EQ(make("p.yaml"), 0);
    CHECK_EQ(bits(s.open), HTTP | ADMIN);
    given.flags[SL_SET_listen_admin] = "off";
    CHECK_EQ(make("p.yaml"), 0);
    CHECK_EQ(bits(s.open), HTTP);
}

TEST(paths)
{
    CASE("the state is beside the policy");
    begin();
    CHECK_EQ(make("/etc/sluice/sluice.yaml"), 0);
    CHECK_STR(s.state, "/etc/sluice/sluice.state");
    CHECK_EQ(make("conf/sluice.yaml"), 0);
    CHECK_STR(s.state, "conf/sluice.state");
    CHECK_EQ(make("sluice.yaml"), 0);
    CHECK_STR(s.state, "sluice.state");

    CASE("paths of the policy are relative to it, others are not");
    server.tls_certificate = SL_STR("./c.pem");
    server.tls_key = SL_STR("/k.pem");
    server.has_listen = true;
    server.http = SL_STR("unix:h.sock");
    CHECK_EQ(make("/etc/sluice/sluice.yaml"), 0);
    CHECK_STR(s.tls_certificate, "/etc/sluice/c.pem");
    CHECK_STR(s.tls_key, "/k.pem");
    CHECK_STR(s.values[SL_SET_listen_http].text, "unix:/etc/sluice/h.sock");
    given.flags[SL_SET_tls_certificate] = "./d.pem";
    given.flags[SL_SET_store] = "memory:x/y.state";
    CHECK_EQ(make("/etc/sluice/sluice.yaml"), 0);
    CHECK_STR(s.tls_certificate, "d.pem");
    CHECK_STR(s.state, "x/y.state");

    CASE("memory: has no file");
    given.flags[SL_SET_store] = "memory:";
    CHECK_EQ(make("/etc/sluice/sluice.yaml"), 0);
    CHECK(s.state == NULL);
}

/* ---- flags that are refused, or not ---- */

/* Makes settings of flags, separated by blanks. */
static int make_flags(const char *flags, bool tokens)
{
    static char text[256];
    const char *argv[8] = {"sluiced"};
    int argc = 1;

    snprintf(text, sizeof(text), "%s", flags);
    for (char *at = text; *at; argc++) {
        argv[argc] = at;
        at += strcspn(at, " ");
        if (*at)
            *at++ = '\0';
    }
    begin();
    CHECK_EQ(sl_setting_source_read(&given, argc, argv, NULL, &why), 0);
    if (tokens) {
        given.secrets[SL_SET_access_token] = "abc";
        given.secrets[SL_SET_admin_token] = "def";
    }
    return make(NULL);
}

static const struct {
    const char *flags, *says; /* NULL: accepted */
} refused[] = {
    /* values */
    ROW("--memory=64Mb", "--memory: \"64Mb\": "),
    ROW("--memory=1KiB", "--memory: the memory must"),
    ROW("--deadline=soon", "--deadline: \"soon\": "),
    ROW("--drain=5", "--drain: \"5\": "),
    ROW("--threads=0", "between 1 and 64, not 0"),
    ROW("--threads=65", "between 1 and 64, not 65"),
    ROW("--threads=many", "--threads: \"many\": "),
    ROW("--connections=0", "--connections: the value "),
    ROW("--forward-auth=x", "original|forwarded|path"),
    ROW("--log-level=loud", "error|warn|info|debug"),
    ROW("--log-format=xml", "auto|human|json|journal"),
    ROW("--watch=maybe", "is not one of on|off"),
    ROW("--only=grpc", "is not one of all|decisions|webhooks"),
    ROW("--only=webhooks", "needs the usage database of the others"),
    ROW("--listen-http=8080", "--listen-http: "),
    ROW("--listen-admin=host:1", "--listen-admin: "),
    ROW("--proxy-protocol=http,",
        "--proxy-protocol: \"\" is not a listener; write some of "
        "http,grpc,resp,admin or none"),
    ROW("--proxy-protocol=https", "\"https\" is not a listener"),
    /* stores */
    ROW("--usage=mysql://u:s3cret@x",
        "--usage: \"mysql\" is not a usage database; write sqlite:PATH, "
        "postgres://HOST/DATABASE, dynamodb://REGION/TABLE or none"),
    ROW("--usage=postgres://u:s3%zzret@h/d",
        "--usage: this is not the URL of a PostgreSQL database; write "
        "postgres://USER@HOST:PORT/DATABASE, and write characters other "
        "than letters and digits in a name as %XX"),
    ROW("--usage=postgres://h/d?sslmode=require", NULL),
    ROW("--usage=sqlite:", "--usage: "),
    ROW("--usage=sqlite:x", NULL),
    ROW("--store=dynamodb://u:s3cret@h",
        "--store: dynamodb:// needs a region; write "
        "dynamodb://eu-west-1/TABLE"),
    ROW("--store=dynamodb://eu-west-1/tab", NULL),
    ROW("--usage=dynamodb://eu-west-1/x", "--usage: "),
    ROW("--store=memery:",
        "--store: \"memery\" is not a store; write memory:, memory:PATH, "
        "redis://HOST:PORT or dynamodb://REGION/TABLE"),
    ROW("--store=redis://127.0.0.1", NULL),
    ROW("--store=redis://u:p@127.0.0.1:7000/3", NULL),
    ROW("--store=rediss://h?ca=/ca.pem", NULL),
    ROW("--store=redis+unix:///run/r.sock?db=2", NULL),
    ROW("--store=redis+cluster://a:1,b:2", NULL),
    ROW("--store=redis+sentinel://a,b/mymaster/1", NULL),
    ROW("--store=redis:", "unknown Redis URL; write"),
    ROW("--store=redis://u:s3cret@", "the host is missing"),
    ROW("--store=redis://u:s3cret@h:x", "is not a port"),
    ROW("--store=redis+sentinel://u:s3cret@h", "master is missing"),
    ROW("--store=redis://u:s3cret@h?what=1", "unknown option"),
    ROW("--store=redis://h --deadline=0s",
        "--deadline: the deadline must be between 1ms and 10s, not 0s; "
        "the default is 20ms"),
    ROW("--store=redis://h --deadline=11s", "not 11s"),
    ROW("--store=redis://h --deadline=1ms", NULL),
    /* together */
    ROW("--tls-certificate=c", "a certificate needs a key"),
    ROW("--tls-key=k", "a key needs a certificate"),
    ROW("--tls-client-ca=a", "client certificates need TLS"),
    ROW("--tls-certificate=c --tls-key=k", NULL),
    ROW("--listen-http=127.0.0.1:5 --listen-admin=127.0.0.1:5",
        "is already the address of the http listener"),
    ROW("--listen-http=127.0.0.1:0 --listen-admin=127.0.0.1:0", NULL),
    ROW("--listen-resp=off", NULL),
    ROW("--listen-http=off --listen-grpc=off --listen-resp=off "
        "--listen-admin=off",
        "all listeners are off"),
    /* a client certificate is enough for http, not for admin */
    ROW("--listen-http=*:80 --tls-certificate=c --tls-key=k "
        "--tls-client-ca=a",
        NULL),
    ROW("--listen-admin=*:80 --tls-certificate=c --tls-key=k "
        "--tls-client-ca=a",
        "admin_token"),
};

TEST(flags)
{
    for (size_t i = 0; i < SL_LEN(refused); i++) {
        CASE(refused[i].flags);
        CHECK_EQ(make_flags(refused[i].flags, false),
                 refused[i].says ? SL_EXIT_USAGE : 0);
        CHECK(!refused[i].says || says(refused[i].says));
        CHECK(!strstr(why.sentence, "s3cret"));
        if (strstr(refused[i].flags, "--store=") && !refused[i].says)
            CHECK(s.shared && s.deadline >= SL_MS);
    }
    CHECK_EQ(make_flags("--store=redis://h --deadline=1ms", false), 0);
    CHECK_EQ(s.deadline, SL_MS);
    CHECK_EQ(make_flags("--store=memory:", false), 0);
    CHECK(!s.shared);

    CASE("the origin decides the exit status");
    begin();
    given.variables[SL_SET_log_level] = "loud";
    CHECK_EQ(make(NULL), SL_EXIT_USAGE);
    CHECK_STR(why.sentence, "SLUICE_LOG_LEVEL: \"loud\" is not one of "
                            "error|warn|info|debug");
    begin();
    server.log_level = SL_STR("loud");
    CHECK_EQ(make("p.yaml"), SL_EXIT_POLICY);
    CHECK_STR(why.sentence, "p.yaml: server.log.level: \"loud\" is not one of "
                            "error|warn|info|debug");
}

TEST(exposed)
{
    static const struct {
        const char *address;
        bool local;
    } rows[] = {
        {"0.0.0.0:8080",     false},
        {"*:8080",           false},
        {"[::]:8080",        false},
        {"192.0.2.1:80",     false},
        {"[2001:db8::1]:80", false},
        {"127.0.0.1:8080",   true },
        {"127.9.9.9:1",      true },
        {"[::1]:8080",       true },
        {"localhost:8080",   true },
        {"unix:/run/x.sock", true },
    };

    CASE("a listener beyond loopback needs a token");
    for (size_t i = 0; i < SL_LEN(rows); i++) {
        int status = rows[i].local ? 0 : SL_EXIT_USAGE;
        char http[128], admin[128];

        snprintf(http, sizeof(http), "--listen-admin=off --listen-http=%s",
                 rows[i].address);
        snprintf(admin, sizeof(admin), "--listen-http=off --listen-admin=%s",
                 rows[i].address);
        CHECK_EQ(make_flags(http, false), status);
        CHECK(rows[i].local ||
              says("access_token (--access-token-file) or tls"));
        CHECK_EQ(make_flags(admin, false), status);
        CHECK(rows[i].local || says("admin_token"));
        CHECK_EQ(make_flags(http, true), 0);
        CHECK_EQ(make_flags(admin, true), 0);
    }
}

TEST(tokens)
{
    static const struct {
        const char *text;
        size_t len;
        const char *token; /* NULL: refused */
    } rows[] = {
        {"s3cret\n",    7,  "s3cret"},
        {"s3cret\r\n",  8,  "s3cret"},
        {"s3cret",      6,  "s3cret"},
        {"",            0,  NULL    },
        {"\n",          1,  NULL    },
        {"s3cret word", 11, NULL    },
        {"s3cret\x01",  7,  NULL    },
        {"s3cret\0x",   8,  NULL    },
    };

    CASE("the token in a file, without the end of its line; never shown");
    for (size_t i = 0; i < SL_LEN(rows); i++) {
        char path[] = "/tmp/sluiced-token-XXXXXX";
        int fd = mkstemp(path);

        CHECK(fd >= 0 &&
              write(fd, rows[i].text, rows[i].len) == (ssize_t)rows[i].len);
        close(fd);
        begin();
        given.flags[SL_SET_access_token] = path;
        CHECK_EQ(make(NULL), rows[i].token ? 0 : SL_EXIT_USAGE);
        if (rows[i].token)
            CHECK(sl_str_eq(s.access_token, sl_str_c(rows[i].token)));
        else
            CHECK(!strstr(why.sentence, "s3cret") && why.sentence[0]);
        unlink(path);
    }

    CASE("a missing file");
    begin();
    given.flags[SL_SET_admin_token] = "/nowhere/at/all";
    CHECK_EQ(make(NULL), SL_EXIT_USAGE);
    CHECK(says("--admin-token-file: /nowhere/at/all can't be read"));

    CASE("tokens of a variable and of the policy are used as they are");
    begin();
    given.secrets[SL_SET_access_token] = "abc";
    server.admin_token = SL_STR("def");
    CHECK_EQ(make("p.yaml"), 0);
    CHECK(sl_str_eq(s.access_token, SL_STR("abc")));
    CHECK(sl_str_eq(s.admin_token, SL_STR("def")));
}

TEST(show)
{
    static const char *const lines[] = {
        "\nthreads          2                          flag --threads\n",
        "\ndrain            1s                         variable SLUICE_DRAIN\n",
        "\nmemory           64MiB                      default\n",
        "\naccess_token     ********                   variable "
        "SLUICE_ACCESS_TOKEN\n",
        "\nadmin_token      ********                   policy p.yaml, "
        "server.admin_token\n",
    };
    char *text = NULL;
    size_t len = 0;
    FILE *file = open_memstream(&text, &len);

    CASE("each setting is shown with its origin, and secrets are masked");
    begin();
    given.flags[SL_SET_threads] = "2";
    given.variables[SL_SET_drain] = "1s";
    given.secrets[SL_SET_access_token] = "s3cret";
    server.admin_token = SL_STR("s3cret");
    CHECK_EQ(make("p.yaml"), 0);
    sl_settings_show(&s, file);
    fclose(file);
    for (size_t i = 0; i < SL_LEN(lines); i++)
        CHECK(strstr(text, lines[i]) || !printf("# %s\n", text));
    CHECK(strstr(text, "s3cret") == NULL);
    free(text);
}

TEST(masks)
{
    static const struct {
        const char *url, *shown;
    } rows[] = {
        ROW("memory:./x", "memory:./x"),
        ROW("redis://h:1/2", "redis://h:1/2"),
        ROW("redis://:p@h", "redis://********@h"),
        ROW("redis://u:p@q@h/1", "redis://********@h/1"),
        ROW("postgres://h/d?sslmode=require&password=x",
            "postgres://h/d?sslmode=require&password=********"),
        ROW("redis://h?sentinel_password=x&db=1",
            "redis://h?sentinel_password=********&db=1"),
        ROW("redis://a:b@h?sentinel_user=x",
            "redis://********@h?sentinel_user=********"),
    };
    char text[128];

    CASE("masks, in buffers of any size");
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

TEST(diffs)
{
    static const struct sl_server_conf
        none =
            {
                0
    },
        other = {.memory = 2 << 20,
                 .access_token = {"s3cret", 6},
                 .log_level = {"debug", 5}},
        tls = {.tls_certificate = {"/c", 2}, .tls_key = {"/k", 2}},
        tls2 = {.tls_certificate = {"/d", 2}, .tls_key = {"/k", 2}},
        memory = {.store = {"memory:", 7}},
        redis = {.store = {"redis://u:s3cret@h", 18}},
        redis2 = {.store = {"redis://u:s3cret@i", 18}},
        redis3 = {.store = {"redis://u:other@h", 17}};
    static const struct {
        const struct sl_server_conf *was, *is;
        bool live;
        const char *want;
    } rows[] = {
        ROW(&none, &none, false, ""),
        ROW(&none, &other, false,
            "server.memory 64MiB -> 2MiB; needs a restart\n"
            "server.access_token changed; needs a restart\n"),
        ROW(&none, &tls, false,
            "server.tls.certificate none -> /c; needs a restart\n"
            "server.tls.key none -> /k; needs a restart\n"),
        ROW(&none, &other, true, "server.log.level info -> debug\n"),
        ROW(&tls, &tls2, true, "server.tls.certificate /c -> /d\n"),
        ROW(&tls, &tls2, false, ""),
        ROW(&redis, &redis2, false,
            "server.store redis://********@h -> redis://********@i; needs a "
            "restart\n"),
        ROW(&redis, &redis3, false, "server.store changed; needs a restart\n"),
        ROW(&memory, &redis3, false,
            "server.store memory: -> redis://********@h; needs a restart\n"),
    };

    CASE("a reload names the changes, and those that need a restart");
    for (size_t i = 0; i < SL_LEN(rows); i++) {
        struct sl_settings old;
        struct sl_buf out;

        begin();
        sl_buf_init(&out, 4096, &sl_alloc_libc);
        CHECK_EQ(sl_settings_make(&old, &given, rows[i].was, "p.yaml", &why),
                 0);
        server = *rows[i].is;
        CHECK_EQ(make("p.yaml"), 0);
        CHECK_EQ(sl_settings_diff(&old, &s, rows[i].live, &out), 0);
        CHECK_EQ(sl_buf_add(&out, (struct sl_str){"", 1}), 0);
        CHECK_STR(out.bytes, rows[i].want);
        sl_buf_done(&out);
        sl_settings_done(&old);
    }
}

TEST(hidden)
{
    static const struct sl_server_conf none = {0};
    struct sl_settings old;
    struct sl_buf out;

    CASE("a store of the policy that a variable replaces");
    begin();
    given.variables[SL_SET_store] = "memory:/x";
    CHECK_EQ(sl_settings_make(&old, &given, &none, "p.yaml", &why), 0);
    CHECK(!old.values[SL_SET_store].hides_policy);
    server.store = SL_STR("redis://u:s3cret@h");
    CHECK_EQ(make("p.yaml"), 0);
    CHECK_STR(s.values[SL_SET_store].text, "memory:/x");
    CHECK(s.values[SL_SET_store].hides_policy);

    CASE("a reload that adds it says so");
    sl_buf_init(&out, 4096, &sl_alloc_libc);
    CHECK_EQ(sl_settings_diff(&old, &s, true, &out), 0);
    CHECK_EQ(out.len, 0);
    CHECK_EQ(sl_settings_diff(&old, &s, false, &out), 0);
    CHECK_EQ(sl_buf_add(&out, (struct sl_str){"", 1}), 0);
    CHECK_STR(out.bytes, "server.store is not used: SLUICE_STORE takes "
                         "precedence\n");
    sl_buf_done(&out);
    sl_settings_done(&old);

    CASE("not the same one, and not by a flag");
    given.variables[SL_SET_store] = "redis://u:s3cret@h";
    CHECK_EQ(make("p.yaml"), 0);
    CHECK(!s.values[SL_SET_store].hides_policy);
    given.flags[SL_SET_store] = "memory:";
    CHECK_EQ(make("p.yaml"), 0);
    CHECK(!s.values[SL_SET_store].hides_policy);
}

int main(void)
{
    RUN_TESTS();
    sl_settings_done(&s);
    return CHECK_DONE();
}
