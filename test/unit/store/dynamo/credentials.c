/* credentials.c -- where the keys come from: files, services, and what is wrong
 * with them. */
#include "store/dynamo/aws.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "check.h"

/* ---- texts ---- */

#define FILE_TEXT                                                              \
    "# mine\n[default]\naws_access_key_id = AKID\n"                            \
    "aws_secret_access_key=se/cr+et=\n\n[profile two]\r\n"                     \
    "aws_access_key_id=TWO\r\nAWS_SECRET_ACCESS_KEY = two\r\n"                 \
    "aws_session_token = tok\r\nregion = eu\r\n[half]\naws_access_key_id=H\n"

static const struct {
    const char *why, *profile;
    int err;
    const char *id, *secret, *token;
} profiles[] = {
  /* clang-format off */
    {"the usual one", "default", 0, "AKID", "se/cr+et=", ""},
    {"another, with a token", "two", 0, "TWO", "two", "tok"},
    {"half of one", "half", SLUICE_ECONF, "", "", ""},
    {"none of that name", "none", SLUICE_ENOENT, "", "", ""},
  /* clang-format on */
};

static void check_text(struct sl_str got, const char *want)
{
    if (!CHECK(sl_str_eq(got, sl_str_c(want))))
        printf("#   got %.*s, want %s\n", SL_STR_ARG(got), want);
}

static void test_profiles(void)
{
    for (size_t i = 0; i < SL_LEN(profiles); i++) {
        struct sl_aws_found found = {.expires = 0};
        struct sl_diag why;

        CASE(profiles[i].why);
        CHECK_EQ(sl_aws_read_profile(SL_STR(FILE_TEXT),
                                     sl_str_c(profiles[i].profile), &found,
                                     &why),
                 profiles[i].err);
        check_text(found.keys.id, profiles[i].id);
        check_text(found.keys.secret, profiles[i].secret);
        check_text(found.keys.token, profiles[i].token);
    }
}

#define DOC(rest)                                                              \
    "{\"AccessKeyId\":\"A\",\"SecretAccessKey\":\"S\",\"Token\":\"T\"" rest "}"

#define BAD_KEY           "{\"AccessKeyId\":\"\\r\",\"SecretAccessKey\":\"S\"}"
#define WORD(name, value) DOC(",\"" name "\":\"" value "\"")

static const struct {
    const char *why, *text;
    int err;
    sl_ns expires;
} documents[] = {
  /* clang-format off */
    {"a document", WORD("Expiration", "1970-01-01T00:01:00Z"), 0, SL_MIN},
    {"one that lasts", WORD("Code", "Success"), 0, SL_NS_NONE},
    {"a refusal", WORD("Code", "Failed"), SLUICE_ECONF, 0},
    {"no instant", WORD("Expiration", "soon"), SLUICE_ECONF, 0},
    {"no secret", "{\"AccessKeyId\":\"A\"}", SLUICE_ECONF, 0},
    {"a header in a key", BAD_KEY, SLUICE_ECONF, 0},
    {"a list", "[]", SLUICE_ECONF, 0},
    {"nothing", "", SLUICE_ECONF, 0},
  /* clang-format on */
};

static void test_documents(void)
{
    for (size_t i = 0; i < SL_LEN(documents); i++) {
        struct sl_aws_found found = {.expires = 0};
        struct sl_diag why = {.sentence = ""};

        CASE(documents[i].why);
        CHECK_EQ(
            sl_aws_read_document(sl_str_c(documents[i].text), &found, &why),
            documents[i].err);
        CHECK_EQ(found.expires, documents[i].expires);
        CHECK((documents[i].err != 0) == (why.sentence[0] != '\0'));
    }
}

/* ---- services ---- */

/* A metadata service: it wants its token, and its answers expire. */
static struct {
    int fd;
    unsigned port;
    pthread_t thread;
    atomic_uint tokens, documents, refused;
} service;

static void answer(int fd, const char *status, const char *body)
{
    char text[1024];
    int len = snprintf(text, sizeof(text),
                       "HTTP/1.1 %s\r\nContent-Length: %zu\r\n"
                       "Connection: close\r\n\r\n%s",
                       status, strlen(body), body);

    if (send(fd, text, (size_t)len, MSG_NOSIGNAL) != len)
        atomic_fetch_add(&service.refused, 1);
}

static void serve(int fd, const char *head)
{
    char body[256];

    if (strncmp(head, "PUT /latest/api/token ", 22) == 0 &&
        strstr(head, "token-ttl-seconds: 21600")) {
        atomic_fetch_add(&service.tokens, 1);
        answer(fd, "200 OK", "secret-token");
    } else if (!strstr(head, "X-aws-ec2-metadata-token: secret-token") &&
               !strstr(head, "Authorization: let me in")) {
        atomic_fetch_add(&service.refused, 1);
        answer(fd, "401 Unauthorized", "");
    } else if (strncmp(head, "GET /latest/meta-data/iam/security-credentials/ ",
                       48) == 0) {
        answer(fd, "200 OK", "the-role\n");
    } else {
        unsigned nth = atomic_fetch_add(&service.documents, 1);

        /* The first has nearly ended. */
        snprintf(body, sizeof(body),
                 "{\"AccessKeyId\":\"A%u\",\"SecretAccessKey\":\"S\","
                 "\"Token\":\"T\",\"Expiration\":\"%s\"}",
                 nth,
                 nth == 0 ? "1970-01-02T00:00:02Z" : "2100-01-01T00:00:00Z");
        answer(fd, "200 OK", body);
    }
}

static void *run_service(void *arg)
{
    int fd;

    (void)arg;
    while ((fd = accept(service.fd, NULL, NULL)) >= 0) {
        char head[4096] = "";
        size_t len = 0;
        ssize_t n;

        while (!strstr(head, "\r\n\r\n") && len < sizeof(head) - 1 &&
               (n = read(fd, head + len, sizeof(head) - 1 - len)) > 0)
            head[len += (size_t)n] = '\0';
        serve(fd, head);
        close(fd);
    }
    return NULL;
}

static void open_service(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(at);

    service.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (service.fd < 0 || bind(service.fd, (struct sockaddr *)&at, len) ||
        listen(service.fd, 16) ||
        getsockname(service.fd, (struct sockaddr *)&at, &len) ||
        pthread_create(&service.thread, NULL, run_service, NULL)) {
        printf("Bail out! no server\n");
        exit(1);
    }
    service.port = ntohs(at.sin_port);
}

/* ---- the chain ---- */

static struct {
    struct sl_loop *loop;
    struct sl_http_fetcher *fetcher;
    struct sl_aws_credentials *chain;
    struct sl_clock clock;
    unsigned good, bad;
    char why[256];
} t;

static void on_change(void *ctx, bool good, const char *sentence)
{
    (void)ctx;
    t.good += good;
    t.bad += !good;
    snprintf(t.why, sizeof(t.why), "%s", sentence);
    sl_loop_stop(t.loop);
}

static void begin(const struct sl_aws_env *env)
{
    struct sl_aws_credentials_options options = {.env = env,
                                                 .loop = t.loop,
                                                 .fetcher = t.fetcher,
                                                 .alloc = &sl_alloc_libc,
                                                 .on_change = on_change};

    t.good = t.bad = 0;
    CHECK_EQ(sl_aws_credentials_open(&options, &t.chain), 0);
    CHECK(!sl_aws_credentials_keys(t.chain, SL_DAY));
    sl_loop_run(t.loop);
}

static void check_keys(sl_ns now, const char *id)
{
    const struct sl_aws_keys *keys = sl_aws_credentials_keys(t.chain, now);

    if (CHECK(keys))
        check_text(keys->id, id);
}

static void end(void)
{
    sl_aws_credentials_close(t.chain);
    t.chain = NULL;
}

static void test_here(void)
{
    char path[] = "/tmp/sl-keys-XXXXXX";
    int fd = mkstemp(path);
    struct sl_aws_env env = {.key_id = "ENV", .secret = "s", .file = path};

    CASE("the environment goes first");
    CHECK(fd >= 0 && write(fd, FILE_TEXT, strlen(FILE_TEXT)) > 0);
    begin(&env);
    check_keys(SL_DAY, "ENV");
    end();

    CASE("then a file, and a profile in it");
    env.key_id = NULL;
    begin(&env);
    check_keys(SL_DAY, "AKID");
    end();
    env.profile = "two";
    begin(&env);
    check_keys(SL_DAY, "TWO");
    end();

    CASE("a profile that is not there is said");
    env.profile = "unknown";
    begin(&env);
    CHECK(!sl_aws_credentials_keys(t.chain, SL_DAY));
    CHECK_EQ(t.bad, 1);
    CHECK_STR(t.why, "there is no profile [unknown]");
    end();
    close(fd);
    unlink(path);

    CASE("nothing at all");
    env = (struct sl_aws_env){.no_metadata = true};
    begin(&env);
    CHECK(strstr(t.why, "AWS_ACCESS_KEY_ID"));
    end();
}

static void test_services(void)
{
    static const char *const strangers[] = {
        "http://192.0.2.1/",        "http://127.example.com/x",
        "http://localhost.a.com/",  "http://169.254.170.2.a.com/",
        "http://169.254.170.200/x", "http://localhost@a.com/",
        "http://[::1].a.com/",      "ftp://127.0.0.1/",
        "http://127.0.0.1@a.com/",  "http://[::1",
    };
    char url[64], full[80];
    struct sl_aws_env env = {.metadata = url};

    snprintf(url, sizeof(url), "http://127.0.0.1:%u", service.port);
    snprintf(full, sizeof(full), "%s/creds", url);

    CASE("an instance: token, role, document");
    begin(&env);
    CHECK_EQ(t.good, 1);
    check_keys(SL_DAY, "A0");
    CHECK_EQ(atomic_load(&service.tokens), 1);

    CASE("keys that expire are no keys, and others come before");
    CHECK(!sl_aws_credentials_keys(t.chain, SL_DAY + 2 * SL_S));
    sl_loop_run(t.loop);
    CHECK_EQ(t.good, 2);
    check_keys(SL_DAY + 3 * SL_S, "A1");
    CHECK_EQ(atomic_load(&service.refused), 0);
    end();

    CASE("a container, with its token");
    env = (struct sl_aws_env){.container_full = full,
                              .container_token = "let me in"};
    begin(&env);
    check_keys(SL_DAY, "A2");
    end();

    CASE("and without it");
    env.container_token = NULL;
    begin(&env);
    CHECK(strstr(t.why, "the server answers 401"));
    end();

    CASE("keys are not asked of strangers, whatever their names begin with");
    for (size_t i = 0; i < SL_LEN(strangers); i++) {
        env.container_full = strangers[i];
        begin(&env);
        if (!CHECK(strstr(t.why, "must be https://")))
            printf("#   %s: %s\n", strangers[i], t.why);
        end();
    }

    CASE("nor of a path that makes another host");
    env = (struct sl_aws_env){.container_relative = ".a.com/creds"};
    begin(&env);
    CHECK(strstr(t.why, "must be https://"));
    end();
}

int main(void)
{
    struct sl_diag why;

    test_profiles();
    test_documents();
    sl_clock_init_virtual(&t.clock, SL_DAY);
    CHECK_EQ(sl_loop_open(&t.clock, &t.loop, &why), 0);
    CHECK_EQ(sl_http_fetcher_open(t.loop, &sl_alloc_libc, &t.fetcher, &why), 0);
    open_service();
    test_here();
    test_services();
    sl_http_fetcher_close(t.fetcher);
    sl_loop_close(t.loop);
    shutdown(service.fd, SHUT_RDWR);
    pthread_join(service.thread, NULL);
    close(service.fd);
    return CHECK_DONE();
}
