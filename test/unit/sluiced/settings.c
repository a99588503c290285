/* settings.c -- who goes before whom, what values are read, where paths
 * begin. */
#include <stdlib.h>
#include <unistd.h>

#include "check.h"
#include "sluiced/settings.h"

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

TEST(order)
{
    CASE("without anything: the presets, and no file");
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

    CASE("the policy goes before presets");
    server.memory = 2 << 20;
    server.deadline = 5 * SL_MS;
    server.log_level = SL_STR("debug");
    CHECK_EQ(make("p.yaml"), 0);
    CHECK_EQ(s.memory, 2 << 20);
    CHECK_STR(s.values[SL_SET_memory].text, "2MiB");
    CHECK_EQ(s.deadline, 5 * SL_MS);
    CHECK_EQ(s.log_level, SL_LOG_DEBUG);
    CHECK_EQ(s.values[SL_SET_memory].origin, SL_ORIGIN_POLICY);

    CASE("a variable before the policy, a flag before both");
    given.variables[SL_SET_memory] = "3MiB";
    CHECK_EQ(make("p.yaml"), 0);
    CHECK_EQ(s.memory, 3 << 20);
    CHECK_EQ(s.values[SL_SET_memory].origin, SL_ORIGIN_VARIABLE);
    given.flags[SL_SET_memory] = "4MiB";
    CHECK_EQ(make("p.yaml"), 0);
    CHECK_EQ(s.memory, 4 << 20);
    CHECK_EQ(s.values[SL_SET_memory].origin, SL_ORIGIN_FLAG);
}

TEST(doors)
{
    CASE("listen opens only the doors that it names");
    begin();
    server.has_listen = true;
    server.admin = SL_STR("127.0.0.1:1");
    CHECK_EQ(make("p.yaml"), 0);
    CHECK(!s.open[SL_PROTOCOL_HTTP] && s.open[SL_PROTOCOL_ADMIN]);

    CASE("doors that balancers stand before");
    CHECK(!s.proxied[SL_PROTOCOL_HTTP] && !s.proxied[SL_PROTOCOL_ADMIN]);
    server.proxy_protocol = SL_STR("http,resp");
    CHECK_EQ(make("p.yaml"), 0);
    CHECK(s.proxied[SL_PROTOCOL_HTTP] && s.proxied[SL_PROTOCOL_RESP]);
    CHECK(!s.proxied[SL_PROTOCOL_GRPC] && !s.proxied[SL_PROTOCOL_ADMIN]);
    given.variables[SL_SET_proxy_protocol] = "admin";
    CHECK_EQ(make("p.yaml"), 0);
    CHECK(!s.proxied[SL_PROTOCOL_HTTP] && s.proxied[SL_PROTOCOL_ADMIN]);
    given.flags[SL_SET_proxy_protocol] = "none";
    CHECK_EQ(make("p.yaml"), 0);
    CHECK(!s.proxied[SL_PROTOCOL_ADMIN]);
    given.flags[SL_SET_proxy_protocol] = "http,";
    CHECK_EQ(make("p.yaml"), SL_EXIT_USAGE);
    CHECK_STR(why.sentence,
              "--proxy-protocol: \"\" is not a listener; write some of "
              "http,grpc,resp,admin or none");
    given.flags[SL_SET_proxy_protocol] = "https";
    CHECK_EQ(make("p.yaml"), SL_EXIT_USAGE);
    given.flags[SL_SET_proxy_protocol] = NULL;
    given.variables[SL_SET_proxy_protocol] = NULL;
    server.proxy_protocol = SL_STR("");

    CASE("a flag opens and closes one door");
    given.flags[SL_SET_listen_http] = "127.0.0.1:2";
    CHECK_EQ(make("p.yaml"), 0);
    CHECK(s.open[SL_PROTOCOL_HTTP] && s.open[SL_PROTOCOL_ADMIN]);
    given.flags[SL_SET_listen_admin] = "off";
    CHECK_EQ(make("p.yaml"), 0);
    CHECK(s.open[SL_PROTOCOL_HTTP] && !s.open[SL_PROTOCOL_ADMIN]);
}

TEST(paths)
{
    CASE("the state stands beside the policy");
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

TEST(values)
{
    static const struct {
        enum sl_setting id;
        const char *value, *says;
    } rows[] = {
        {SL_SET_memory,       "64Mb",   "--memory: \"64Mb\": "     },
        {SL_SET_memory,       "1KiB",   "--memory: the memory must"},
        {SL_SET_deadline,     "soon",   "--deadline: \"soon\": "   },
        {SL_SET_drain,        "5",      "--drain: \"5\": "         },
        {SL_SET_threads,      "0",      "between 1 and 64, not 0"  },
        {SL_SET_threads,      "65",     "between 1 and 64, not 65" },
        {SL_SET_threads,      "many",   "--threads: \"many\": "    },
        {SL_SET_connections,  "0",      "--connections: the value "},
        {SL_SET_forward_auth, "x",      "original|forwarded|path"  },
        {SL_SET_log_level,    "loud",   "error|warn|info|debug"    },
        {SL_SET_log_format,   "xml",    "auto|human|json|journal"  },
        {SL_SET_watch,        "maybe",  "is not one of on|off"     },
        {SL_SET_listen_http,  "8080",   "--listen-http: "          },
        {SL_SET_listen_admin, "host:1", "--listen-admin: "         },
    };

    CASE("values that can't be read are a matter of usage");
    for (size_t i = 0; i < SL_LEN(rows); i++) {
        begin();
        given.flags[rows[i].id] = rows[i].value;
        CHECK_EQ(make(NULL), SL_EXIT_USAGE);
        CHECK(strstr(why.sentence, rows[i].says) != NULL ||
              !printf("# %s\n", why.sentence));
    }

    CASE("whose fault it is decides the exit status");
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

static const char *put(const char *text, size_t len)
{
    static char path[64];
    int fd;

    snprintf(path, sizeof(path), "/tmp/sluiced-token-XXXXXX");
    fd = mkstemp(path);
    CHECK(fd >= 0 && write(fd, text, len) == (ssize_t)len);
    close(fd);
    return path;
}

static void check_token(const char *text, size_t len, int status,
                        const char *token)
{
    const char *path = put(text, len);

    begin();
    given.flags[SL_SET_access_token] = path;
    CHECK_EQ(make(NULL), status);
    if (token)
        CHECK(sl_str_eq(s.access_token, sl_str_c(token)));
    else
        CHECK(strstr(why.sentence, "s3cret") == NULL && why.sentence[0]);
    unlink(path);
}

TEST(tokens)
{
    CASE("a token's file, without the end of its line");
    check_token("s3cret\n", 7, 0, "s3cret");
    check_token("s3cret\r\n", 8, 0, "s3cret");
    check_token("s3cret", 6, 0, "s3cret");

    CASE("a token that nobody can send is refused, and not shown");
    check_token("", 0, SL_EXIT_USAGE, NULL);
    check_token("\n", 1, SL_EXIT_USAGE, NULL);
    check_token("s3cret word", 11, SL_EXIT_USAGE, NULL);
    check_token("s3cret\x01", 7, SL_EXIT_USAGE, NULL);
    check_token("s3cret\0x", 8, SL_EXIT_USAGE, NULL);

    CASE("a file that is not there");
    begin();
    given.flags[SL_SET_admin_token] = "/nowhere/at/all";
    CHECK_EQ(make(NULL), SL_EXIT_USAGE);
    CHECK(strstr(why.sentence, "--admin-token-file: /nowhere/at/all can't be "
                               "read") != NULL);

    CASE("tokens of a variable and of the policy stand for themselves");
    begin();
    given.secrets[SL_SET_access_token] = "abc";
    server.admin_token = SL_STR("def");
    CHECK_EQ(make("p.yaml"), 0);
    CHECK(sl_str_eq(s.access_token, SL_STR("abc")));
    CHECK(sl_str_eq(s.admin_token, SL_STR("def")));
}

/* What --show-settings prints of the line that begins with `name`. */
static void show(const char *name, char *out, size_t size)
{
    char *text = NULL;
    size_t len = 0;
    FILE *file = open_memstream(&text, &len);
    const char *at;

    sl_settings_show(&s, file);
    fclose(file);
    at = strstr(text, name);
    snprintf(out, size, "%.*s", at ? (int)strcspn(at, "\n") : 0, at ? at : "");
    CHECK(strstr(text, "s3cret") == NULL);
    free(text);
}

TEST(show)
{
    char line[256];

    CASE("each setting is shown with where it came from");
    begin();
    given.flags[SL_SET_threads] = "2";
    given.variables[SL_SET_drain] = "1s";
    given.secrets[SL_SET_access_token] = "s3cret";
    server.admin_token = SL_STR("s3cret");
    CHECK_EQ(make("p.yaml"), 0);
    show("threads", line, sizeof(line));
    CHECK_STR(line, "threads          2                          flag "
                    "--threads");
    show("drain", line, sizeof(line));
    CHECK_STR(line, "drain            1s                         variable "
                    "SLUICE_DRAIN");
    show("memory ", line, sizeof(line));
    CHECK_STR(line, "memory           64MiB                      default");

    CASE("secrets are masked");
    show("access_token", line, sizeof(line));
    CHECK_STR(line, "access_token     ********                   variable "
                    "SLUICE_ACCESS_TOKEN");
    show("admin_token", line, sizeof(line));
    CHECK_STR(line, "admin_token      ********                   policy "
                    "p.yaml, server.admin_token");
}

int main(void)
{
    RUN_TESTS();
    sl_settings_done(&s);
    return CHECK_DONE();
}
