/* nginx.c -- limits of nginx become policies. */
#include "cli/nginx.h"

#include <unistd.h>

#include "send.h"

static char told[4096];

static void on_tell(void *ctx, const char *file, unsigned line,
                    const char *sentence)
{
    size_t len = strlen(told);

    (void)ctx;
    snprintf(told + len, sizeof(told) - len, "%s:%u: %s\n", file, line,
             sentence);
}

/* Import a text; 0 or an error, whose sentence is told. The policy, with a NUL,
 * is in `out`. */
static int import(const char *text, struct sl_buf *out)
{
    static struct sl_nginx nginx;
    struct sl_diag diag = {.line = 0};
    struct sl_arena arena;
    int err;

    told[0] = '\0';
    sl_buf_clear(out);
    sl_arena_init(&arena, 16 << 20, &sl_alloc_libc);
    nginx = (struct sl_nginx){.arena = &arena, .tell = on_tell};
    sl_nginx_init(&nginx);
    err = sl_nginx_read(&nginx, &nginx.top, "a", sl_str_c(text), &diag);
    if (err)
        on_tell(NULL, "a", diag.line, diag.sentence);
    else
        err = sl_nginx_write(&nginx, out);
    if (!err)
        err = sl_buf_add(out, (struct sl_str){"", 1});
    sl_arena_done(&arena);
    return err;
}

#define ZONE "limit_req_zone $binary_remote_addr zone=a:1m rate=10r/s;\n"

static struct sl_buf *into;

/* `text` becomes a policy with `part`, and says `note`, or nothing. */
static void becomes(const char *name, const char *text, const char *part,
                    const char *note)
{
    CASE(name);
    CHECK_EQ(import(text, into), 0);
    CHECK(says(into->bytes, part));
    if (note)
        CHECK(says(told, note));
    else
        CHECK_STR(told, "");
}

static void kind(const char *use, const char *part, const char *note)
{
    char text[512];

    snprintf(text, sizeof(text), ZONE "server { %s }", use);
    becomes(use, text, part, note);
}

static void test_kinds(struct sl_buf *out)
{
    into = out;
    kind("limit_req zone=a;",
         "kind: token-bucket\n    per: ip\n    rate: 10/s burst 1\n",
         "answers 503");
    kind("limit_req zone=a burst=5 nodelay;", "rate: 10/s burst 6\n",
         "answers 503");
    kind("limit_req zone=a burst=5;",
         "kind: leaky-bucket\n    per: ip\n    rate: 10/s queue 5\n",
         "wait_ms");
    kind("limit_req zone=a burst=5 delay=3;", "rate: 10/s queue 5\n",
         "delay= has no equivalent");
    kind("limit_req_status 503; limit_req zone=a;", "deny: { status: 503 }\n",
         NULL);
    kind("limit_req_status 429; limit_req zone=a;", "burst 1\n\ndefault: [a]\n",
         NULL);
    kind("limit_req_dry_run on; limit_req_status 429; limit_req zone=a;",
         "mode: shadow\n", NULL);
    kind("limit_conn_zone $host zone=a:1m; limit_conn a 7;",
         "kind: concurrency\n    per: host\n    missing: skip\n    rate: 7\n",
         "a permit is free again");
}

static void key(const char *word, const char *part, const char *note)
{
    char text[512];

    snprintf(text, sizeof(text),
             "limit_req_zone %s zone=a:1m rate=30r/m;\n"
             "limit_req_status 429; limit_req zone=a;",
             word);
    becomes(word, text, part, note);
    CHECK(says(into->bytes, "rate: 30/min burst 1\n"));
}

static void test_keys(struct sl_buf *out)
{
    into = out;
    key("$remote_addr", "per: ip\n    rate", NULL);
    key("$http_x_api_key", "per: x-api-key\n    missing: skip\n", NULL);
    key("$cookie_sid", "sid: cookie.sid\n", NULL);
    key("$http_user", "header-user: header.user\n", NULL);
    key("\"$binary_remote_addr$host\"", "per: [ip, host]\n    rate", NULL);
    key("$http_a$http_b", "per: [a, b]\n    missing: skip\n",
        "a:1: key $http_a$http_b: nginx counts a request without one");
    key("${http_a}", "per: a\n    missing: skip\n", NULL);
    key("x$http_a", "missing: skip\n", "a:1: key x$http_a: nginx counts");
    key("${http_a}x", "missing: skip\n", "a:1: key ${http_a}x: nginx");
    key("$server_name", "per: []\n", NULL);
    key("$remote_addr$http_a$http_b$http_c$http_d",
        "per: [ip, a, b, c]\n    rate",
        "a:1: $http_d: a limit counts by at most 4 values; it is left out");
    key("${binary_remote_addr}:$remote_addr", "per: ip\n", NULL);
    key("everyone", "per: []\n", NULL);
    key("$limit_key", "per: ip\n", "a:1: $limit_key has no equivalent");
    key("$uri", "per: endpoint\n", "counts by route");
}

static const char site[] =
    ZONE "limit_req_zone $host zone=b:1m rate=1r/s;\n"
         "limit_req_status 429;\n"
         "http {\n"
         "  map $x $y { default \"a;}\"; }\n"
         "  limit_req zone=a;\n"
         "  server {\n"
         "    server_name one.example 'two.example';\n"
         "    location / { }\n"
         "    location /api/ { limit_req zone=b; location /api/free/ { } }\n"
         "    location = /api/x { limit_req zone=b; limit_req zone=a; }\n"
         "    location ~ \\.php$ { limit_req zone=b; }\n"
         "    location @down { }\n"
         "  }\n"
         "  server { server_name ~^three three.example; limit_req zone=b;\n"
         "    location = / { limit_req zone=a; }\n"
         "    location = // { limit_req zone=a; } }\n"
         "}\n";

static void test_routes(struct sl_buf *out)
{
    const char *at;

    CASE("servers and locations");
    CHECK_EQ(import(site, out), 0);
    at = strstr(out->bytes, "routes:");
    CHECK_STR(at ? at : "", "routes:\n"
                            "  - match: \"/\"\n"
                            "    when: [{ header.host: [\"three.example\"] }]\n"
                            "    limits: [a]\n"
                            "  - match: \"/**\"\n"
                            "    when: [{ header.host: [\"three.example\"] }]\n"
                            "    limits: [b]\n"
                            "  - match: \"/api/x\"\n"
                            "    limits: [b, a]\n"
                            "  - match: \"/api/free/**\"\n"
                            "    limits: [b]\n"
                            "  - match: \"/api/**\"\n"
                            "    limits: [b]\n"
                            "  - match: \"/**\"\n"
                            "    limits: [a]\n"
                            "default: [a]\n");
    CHECK(says(told, "a:12: location \\.php$: a route has no regular"));
    CHECK(!strstr(told, "@down"));
    CHECK(says(told, "a:15: server_name ~^three cannot be a condition"));
    CHECK(says(told, "a:7: several servers: their routes compare"));

    CASE("a zone with two bursts");
    CHECK_EQ(import(ZONE "limit_req_status 429; limit_req zone=a;"
                         "location /x { limit_req zone=a burst=2 nodelay; }",
                    out),
             0);
    CHECK(says(out->bytes, "match: \"/x/**\"\n    limits: [a-2]\n"
                           "default: [a]\n"));
    CHECK(says(told, "in the policy \"a-2\" counts alone"));

    CASE("a zone that is not there");
    CHECK_EQ(
        import(ZONE "limit_req zone=a; location /x { limit_req zone=c; }", out),
        0);
    CHECK(says(told, "zone \"c\" is not in what was read"));
    CASE("no limits");
    CHECK_EQ(import("server { listen 80; }", out), SLUICE_ENOENT);
}

/* The routes of several servers. */
static void servers(const char *name, const char *text, const char *routes,
                    const char *note)
{
    char whole[1024];
    const char *at;

    CASE(name);
    snprintf(whole, sizeof(whole), ZONE "limit_req_status 429;\n%s", text);
    CHECK_EQ(import(whole, into), 0);
    at = strstr(into->bytes, "\n\nroutes:\n");
    CHECK_STR(at ? at + 10 : "", routes);
    CHECK(says(told, note));
}

#define ON "  - match: \"/**\"\n    when: [{ header.host: ["
#define TO "] }]\n    limits: "

static const char by_name[] =
    ON "\"c.b.example\"" TO "[a]\n" ON
       "\"x.b.example\", \"*.x.b.example\", \"mail.*\"" TO "[a]\n" ON
       "\"*.b.example\"" TO "[]\ndefault: []\n";

static void test_servers(struct sl_buf *out)
{
    into = out;
    servers("a default server without limits, and a port that redirects",
            "server { listen 80 default_server; server_name _; return 444; }\n"
            "server { listen 80; server_name a.example; return 301 /; }\n"
            "server { listen 443; server_name a.example; limit_req zone=a; }\n"
            "server { listen 8443; server_name A.example; limit_req zone=a; }",
            ON "\"a.example\"" TO "[a]\ndefault: []\n",
            "a:4: server_name a.example is that of line 5, too");
    CHECK(says(told, "a:6: server_name A.example is that of line 5, too"));
    servers("exact names first, then the longest with a star",
            "server { server_name *.b.example; }\n"
            "server { server_name .x.b.example mail.*; limit_req zone=a; }\n"
            "server { server_name c.b.example; limit_req zone=a; }\n",
            by_name, "a:3: several servers");
    servers("a server without a name is that of its port",
            "server { server_name a.example; }\n"
            "server { listen 1; limit_req zone=a; }\n"
            "server { listen 2; limit_req zone=a; }\n",
            ON "\"a.example\"" TO "[]\ndefault: [a]\n",
            "a:5: a server without a name for a condition; its limits are "
            "left out, those of line 4 apply");
    CASE("two locations with one route");
    CHECK_EQ(import(ZONE "location /a/ { limit_req zone=a; }\n"
                         "location /a { limit_req zone=a; }",
                    out),
             0);
    CHECK(says(told, "a:3: location /a has the same route as that of line 2"));
    CASE("the names of limits differ");
    CHECK_EQ(import(ZONE "limit_conn_zone $remote_addr zone=a:1m;\n"
                         "limit_conn a 1; limit_req zone=a;\n"
                         "location /x { limit_req zone=a burst=1 nodelay; }",
                    out),
             0);
    CHECK(says(out->bytes, "limits: [a-3, a-2]\ndefault: [a, a-2]\n"));
    CHECK(says(told, "a:4: location /x: nginx takes /x2, too"));
    CHECK(says(told, "a:3: without limit_conn_status, nginx answers 503"));
}

/* What is not in the policy is told. */
static void test_told(struct sl_buf *out)
{
    CASE("connections are not requests");
    CHECK_EQ(import("stream { limit_conn_zone $remote_addr zone=a:1m;\n"
                    "server { limit_conn a 1; } }\n" ZONE
                    "server { limit_req zone=a; }",
                    out),
             0);
    CHECK(says(told, "a:2: limit_conn of connections, not requests, has no "));
    CHECK(!strstr(out->bytes, "concurrency"));
    CASE("other directives");
    CHECK_EQ(import("limit_req_zone $host zone=a:1m rate=1r/s sync;\n"
                    "limit_req_log_level warn;\n"
                    "limit_conn_log_level warn;\n"
                    "limit_zone a $x 1m;\n"
                    "error_page 500 429 /slow.html;\n"
                    "include x.conf;\n"
                    "limit_rate 5k; limit_req zone=a;\n",
                    out),
             0);
    CHECK(says(told, "a:1: sync of a zone has no equivalent\n"
                     "a:2: limit_req_log_level has no equivalent\n"
                     "a:3: limit_conn_log_level has no equivalent\n"
                     "a:4: limit_zone has no equivalent\n"
                     "a:5: error_page 429: the policy has the body of denials "
                     "below errors: rate_limited\n"
                     "a:6: x.conf is not read\n"));
    CASE("a server by name, among several");
    CHECK_EQ(import("limit_req_zone $server_name zone=a:1m rate=1r/s;\n"
                    "limit_req zone=a; server { } server { }",
                    out),
             0);
    CHECK(says(told, "a:1: $server_name: nginx counts by server"));
}

static void refused(const char *text, const char *sentence)
{
    CASE(text);
    CHECK_EQ(import(text, into), SLUICE_ECONF);
    CHECK_STR(told, sentence);
}

static void test_refused(struct sl_buf *out)
{
    into = out;
    refused("server {", "a:1: a block does not end; } is missing\n");
    refused("}", "a:1: a } without a {\n");
    refused("listen 80", "a:1: a directive does not end; write ; behind it\n");
    refused("\n;", "a:2: a directive has no name\n");
    refused("listen '80;", "a:1: a quote is not closed\n");
    refused("limit_req_zone $a;",
            "a:1: a zone has a key and a name: limit_req_zone "
            "$binary_remote_addr zone=one:10m rate=10r/s;\n");
    refused("limit_req_zone $a zone=b:1m rate=10;",
            "a:1: a rate is written rate=10r/s or rate=30r/m\n");
    refused("limit_req_zone $a zone=b:1m rate=0r/s;",
            "a:1: a rate is written rate=10r/s or rate=30r/m\n");
    refused("limit_req_zone $a zone=:1m rate=1r/s;",
            "a:1: a zone has no name\n");
    refused("limit_req burst=3;", "a:1: limit_req needs zone=NAME\n");
    refused("limit_req zone=a burst=-1;", "a:1: burst= needs a whole number\n");
    refused("limit_req zone=a bust=1;",
            "a:1: limit_req has zone=, burst=, nodelay and delay=\n");
    refused("limit_conn a;",
            "a:1: limit_conn needs a zone and a number: limit_conn addr "
            "10;\n");
    refused("limit_req_status 200;", "a:1: the status must be 400 to 599\n");
    refused("a_by_lua_block { {", "a:1: a block does not end\n");
    CASE("deep blocks");
    {
        char deep[256] = "";

        for (int i = 0; i < 40; i++)
            strcat(deep, "a {"); /* style: 120 of 256 bytes */
        CHECK_EQ(import(deep, out), SLUICE_ECONF);
        CHECK_STR(told, "a:1: blocks are nested too deeply\n");
    }
}

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");

    if (!file || fputs(text, file) < 0 || fclose(file))
        abort();
}

/* Files: a folder with an include by a pattern, one in a file that is not
 * there, and one that includes itself. */
static void test_files(void)
{
    char folder[] = "/tmp/sluice-nginx-XXXXXX", main_file[64], site_file[64];

    if (!mkdtemp(folder))
        abort();
    snprintf(main_file, sizeof(main_file), "%s/nginx.conf", folder);
    snprintf(site_file, sizeof(site_file), "%s/a.site", folder);
    write_file(main_file, "http {\n" ZONE "include *.site;\n"
                          "include none;\n}\n");
    write_file(site_file, "server { limit_req zone=a burst=1 nodelay; }\n");
    CASE("files that are included");
    CHECK_EQ(SEND("import", "nginx", main_file), 0);
    CHECK_OUT("rate: 10/s burst 2\n");
    CHECK_ERR("nginx.conf:4: none is included, but cannot be read");
    CASE("a file that includes itself");
    write_file(site_file, "include a.site;");
    CHECK_EQ(SEND("import", "nginx", main_file), SL_EXIT_FAILED);
    CHECK_ERR("there are more than 256 files");
    CASE("a file that is not there");
    unlink(site_file);
    CHECK(SEND("import", "nginx", site_file) != 0);
    CHECK_ERR("a.site");
    unlink(main_file);
    rmdir(folder);
}

int main(void)
{
    struct sl_buf out;

    sl_buf_init(&out, 1 << 16, &sl_alloc_libc);
    test_kinds(&out);
    test_keys(&out);
    test_routes(&out);
    test_servers(&out);
    test_told(&out);
    test_refused(&out);
    test_files();
    sl_buf_done(&out);
    send_done();
    return CHECK_DONE();
}
