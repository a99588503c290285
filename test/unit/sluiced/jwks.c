/* jwks.c -- keys of a policy: read, activated, fetched and dropped. */
#include "sluiced/jwks.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/log.h"
#include "canned.h"
#include "check.h"
#include "fail.h"
#include "files.h"

#define EDDSA                                                                  \
    "{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"kid\":\"a\","                      \
    "\"x\":\"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo\"}"
#define SET  "{\"keys\":[" EDDSA "]}"
#define HEAD "HTTP/1.1 200 OK\r\nConnection: close\r\n"

static const char *answers[] = {
    HEAD "Cache-Control: max-age=1\r\n\r\n" SET,
    HEAD "\r\n{\"keys\":[]}",
    "HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n",
    HEAD "Cache-Control: max-age=1000000\r\n\r\n" SET,
    HEAD "\r\n" SET,
};

static struct {
    struct canned server;
    struct sl_loop *loop;
    struct sl_timer *timer;
    struct sl_jwks *jwks;
    bool (*wanted)(void);
    unsigned turns;
    char folder[32], path[64], keys[64];
} t;

/* ---- policies and files ---- */

static struct sl_policy *make_policy(const char *jwt)
{
    struct sl_policy_options options = {0};
    struct sl_policy *policy = NULL;
    struct sl_report report;
    char text[512];

    snprintf(text, sizeof(text),
             "sluice: 1\nidentity: { user: jwt.sub, jwt: { %s } }\n", jwt);
    sl_report_init(&report, "p.yaml", sl_str_c(text), &sl_alloc_libc);
    CHECK_EQ(sl_policy_read(&report, &options, &policy), 0);
    sl_report_done(&report);
    return policy;
}

/* Activates a policy. */
static int use(const char *jwt, bool optional, struct sl_diag *diag)
{
    struct sl_policy *policy = make_policy(jwt);
    int err = sl_jwks_use(t.jwks, policy, t.path, optional, diag);

    sl_policy_unref(policy);
    return err;
}

static int use_url(unsigned answer)
{
    struct sl_diag diag = {.sentence = ""};
    char jwt[128];

    snprintf(jwt, sizeof(jwt), "jwks: \"http://127.0.0.1:%u/%u\"",
             t.server.port, answer);
    return use(jwt, false, &diag);
}

/* ---- the loop ---- */

static void on_look(void *ctx)
{
    (void)ctx;
    if (t.wanted() || ++t.turns > 1000)
        sl_loop_stop(t.loop);
    else
        sl_timer_start(t.timer, 5 * SL_MS);
}

/* Runs the loop until it is true, or for five seconds. */
static bool until(bool (*wanted)(void))
{
    t.wanted = wanted;
    t.turns = 0;
    sl_timer_start(t.timer, 0);
    sl_loop_run(t.loop);
    return wanted();
}

static struct sl_jwks_stats stats(void)
{
    struct sl_jwks_stats now;

    sl_jwks_stats(t.jwks, &now);
    return now;
}

static bool has_key(void)
{
    return stats().keys == 1;
}

static bool has_none(void)
{
    return !has_key();
}

static bool was_refused(void)
{
    return stats().results[SL_JWKS_REFUSED] > 0;
}

static bool failed_thrice(void)
{
    return stats().results[SL_JWKS_STATUS] >= 3;
}

static bool read_twice(void)
{
    return stats().results[SL_JWKS_GOOD] >= 2;
}

static void open_jwks(sl_ns ms, const struct sl_alloc *alloc)
{
    struct sl_jwks_options options = {
        .loop = t.loop,
        .alloc = alloc,
        .cool_down = ms * SL_MS,
        .retry_least = ms * SL_MS / 4,
        .retry_most = ms * SL_MS,
        .life_least = 2 * ms * SL_MS,
        .timeout = SL_S,
        .look = 2 * SL_MS,
    };
    struct sl_diag diag = {.sentence = ""};

    if (sl_jwks_open(&options, &t.jwks, &diag)) {
        printf("Bail out! %s\n", diag.sentence);
        exit(1);
    }
}

/* ---- at hand ---- */

TEST(local)
{
    struct sl_diag diag = {.sentence = ""};
    uint64_t version;

    open_jwks(100, &sl_alloc_libc);
    CASE("a secret");
    CHECK_EQ(use("secret: 0123456789abcdef0123456789abcdef", false, &diag), 0);
    CHECK(has_key() && !t.jwks->active.file);
    CASE("a file beside the policy");
    put_file(t.keys, SET);
    CHECK_EQ(use("jwks: \"file:./keys.json\"", false, &diag), 0);
    CHECK(has_key());
    CHECK_STR(t.jwks->active.file + strlen(t.folder), "/./keys.json");
    CASE("a broken file changes nothing");
    put_file(t.keys, "{\"keys\":[{\"kty\":");
    version = sl_jwks_current_version(t.jwks->keys);
    CHECK_EQ(use("jwks: \"file:keys.json\"", false, &diag), SLUICE_ECONF);
    CHECK(strstr(diag.sentence, "identity.jwt.jwks: ") != NULL);
    sl_jwks_read_again(t.jwks);
    CHECK(was_refused() && has_key());
    CHECK_EQ(sl_jwks_current_version(t.jwks->keys), version);
    CASE("nor does a missing file");
    unlink(t.keys);
    CHECK_EQ(use("jwks: \"file:keys.json\"", false, &diag), SLUICE_ECONF);
    sl_jwks_read_again(t.jwks);
    CHECK_EQ(stats().results[SL_JWKS_UNREACHABLE], 1);
    CHECK(has_key());
    CASE("an optional file may be missing");
    CHECK_EQ(use("jwks: \"file:keys.json\"", true, &diag), 0);
    CHECK(has_none() && sl_jwks_ready(t.jwks, NULL));
    put_file(t.keys, SET);
    sl_jwks_read_again(t.jwks);
    CHECK(has_key());
    sl_jwks_close(t.jwks);
}

/* ---- elsewhere ---- */

TEST(remote)
{
    struct sl_buf why;

    CASE("not ready until the first keys have come");
    open_jwks(100, &sl_alloc_libc);
    sl_buf_init(&why, 256, &sl_alloc_libc);
    CHECK_EQ(use_url(0), 0);
    CHECK(has_none() && !sl_jwks_ready(t.jwks, &why));
    CHECK(why.len > 0);
    CHECK(until(has_key));
    CHECK(sl_jwks_ready(t.jwks, &why));
    CHECK(stats().age >= 0 && stats().age < 10 * SL_S);

    CASE("the same keys are not activated again");
    {
        uint64_t version = sl_jwks_current_version(t.jwks->keys);

        CHECK(until(read_twice)); /* its life is two cool-downs at least */
        CHECK_EQ(sl_jwks_current_version(t.jwks->keys), version);
    }

    CASE("other rules: the same keys at once");
    CHECK_EQ(use_url(0), 0);
    CHECK(has_key());

    CASE("keys that are not confirmed are dropped");
    t.jwks->read_at -= t.jwks->active.policy->identity.jwt.stale;
    t.jwks->next_at = SL_NS_MAX;
    CHECK(until(has_none));
    CHECK_EQ(stats().age, SL_NS_NONE);
    CHECK(sl_jwks_ready(t.jwks, &why)); /* it was, once */
    sl_buf_done(&why);
    sl_jwks_close(t.jwks);
}

TEST(requests)
{
    unsigned before;
    sl_ns began;

    CASE("many requests are one fetch per cool-down");
    open_jwks(100, &sl_alloc_libc);
    CHECK_EQ(use_url(3), 0); /* its life is a day */
    CHECK(until(has_key));
    began = sl_loop_mono(t.loop);
    before = atomic_load(&t.server.asked);
    do {
        for (int i = 0; i < 1000; i++)
            sl_jwks_current_request_refresh(t.jwks->keys);
        t.turns = 0;
        t.wanted = has_none; /* never true */
        t.turns = 998;
        sl_timer_start(t.timer, 0);
        sl_loop_run(t.loop);
    } while (sl_loop_mono(t.loop) < began + 350 * SL_MS);
    before = atomic_load(&t.server.asked) - before;
    CHECK(before >= 1 && before <= 4);
    sl_jwks_close(t.jwks);
}

TEST(failures)
{
    CASE("an empty set is a failure");
    open_jwks(40, &sl_alloc_libc);
    CHECK_EQ(use_url(1), 0);
    CHECK(until(was_refused));
    CHECK(has_none());
    CASE("so is an error, with longer delays");
    CHECK_EQ(use_url(2), 0);
    CHECK(until(failed_thrice));
    CHECK(t.jwks->failures >= 3);
    sl_jwks_close(t.jwks);
}

TEST(back_off)
{
    sl_ns most = SL_S, now;

    CASE("the nth failure waits half to all of 2^n seconds, five minutes most");
    open_jwks(0, &sl_alloc_libc);
    CHECK_EQ(t.jwks->options.retry_least, SL_S);
    CHECK_EQ(t.jwks->options.cool_down, 10 * SL_S);
    CHECK_EQ(use_url(2), 0);
    for (unsigned failures = 1; failures < 40; failures++) {
        for (int i = 0; i < 100; i++) {
            t.jwks->failures = failures - 1;
            now = sl_loop_mono(t.loop);
            t.jwks->fetch.result = SL_HTTP_FETCH_STATUS;
            t.jwks->fetch.done(&t.jwks->fetch);
            CHECK_EQ(t.jwks->failures, failures);
            CHECK(t.jwks->next_at - now >= most / 2);
            CHECK(t.jwks->next_at - now <= most);
        }
        most = 2 * most < 300 * SL_S ? 2 * most : 300 * SL_S;
    }
    sl_jwks_close(t.jwks);
}

/* The life of the provider, from a minute to a day, up to a tenth less. */
TEST(lives)
{
    static const struct {
        const char *field;
        sl_ns life;
    } lives[] = {
        {"",                 600 * SL_S  },
        {"max-age=1",        60 * SL_S   },
        {"no-store",         60 * SL_S   },
        {"max-age=61",       61 * SL_S   },
        {"max-age=7200",     7200 * SL_S },
        {"max-age=86401",    86400 * SL_S},
        {"max-age=nonsense", 600 * SL_S  },
    };
    struct sl_http_fetch *fetch;

    CASE("how long keys are used");
    open_jwks(0, &sl_alloc_libc);
    t.jwks->options.look = 2 * SL_MS;
    CHECK_EQ(use_url(4), 0);
    CHECK(until(has_key));
    fetch = &t.jwks->fetch;
    for (size_t i = 0; i < SL_LEN(lives); i++)
        for (int k = 0; k < 50; k++) {
            sl_ns in, now = sl_loop_mono(t.loop);

            snprintf(fetch->cache_control, sizeof(fetch->cache_control), "%s",
                     lives[i].field);
            fetch->result = SL_HTTP_FETCH_GOOD;
            sl_buf_done(&fetch->body);
            CHECK_EQ(sl_buf_add(&fetch->body, SL_STR(SET)), 0);
            fetch->done(fetch);
            in = t.jwks->next_at - now;
            CHECK(in <= lives[i].life);
            CHECK(in >= lives[i].life - lives[i].life / 10);
        }
    sl_jwks_close(t.jwks);
}

/* ---- without memory ---- */

TEST(memory)
{
    static const char *const policies[] = {
        "secret: 0123456789abcdef0123456789abcdef",
        "jwks: \"file:keys.json\", issuer: a, audience: [b, c]",
        "jwks: \"http://127.0.0.1:1/keys\"",
    };
    struct fail fail = {.nth = 0};
    struct sl_alloc alloc = fail_alloc(&fail);

    put_file(t.keys, SET);
    for (size_t i = 0; i < SL_LEN(policies); i++) {
        int err = SLUICE_ENOMEM;

        CASE(policies[i]);
        for (unsigned nth = 1; err && nth < 100; nth++) {
            struct sl_diag diag = {.sentence = ""};

            fail.nth = 0;
            open_jwks(100, &alloc);
            fail.calls = 0;
            fail.nth = nth;
            err = use(policies[i], false, &diag);
            CHECK(err == 0 || err == SLUICE_ENOMEM || err == SLUICE_ECONF);
            if (err)
                CHECK(has_none());
            sl_jwks_close(t.jwks);
            fail_check(&fail);
        }
        CHECK_EQ(err, 0);
    }
    CASE("opening");
    for (unsigned nth = 1;; nth++) {
        struct sl_jwks_options options = {.loop = t.loop, .alloc = &alloc};
        struct sl_diag diag = {.sentence = ""};

        fail.calls = 0;
        fail.nth = nth;
        if (sl_jwks_open(&options, &t.jwks, &diag) == 0)
            break;
        CHECK(diag.sentence[0] != '\0');
        fail_check(&fail);
    }
    sl_jwks_close(t.jwks);
    fail_check(&fail);
}

int main(void)
{
    struct sl_diag diag;

    snprintf(t.folder, sizeof(t.folder), "/tmp/jwks.XXXXXX");
    if (!mkdtemp(t.folder) || sl_loop_open(NULL, &t.loop, &diag) ||
        sl_timer_new(t.loop, on_look, NULL, &t.timer)) {
        printf("Bail out! no folder or no loop\n");
        return 1;
    }
    snprintf(t.path, sizeof(t.path), "%s/p.yaml", t.folder);
    snprintf(t.keys, sizeof(t.keys), "%s/keys.json", t.folder);
    canned_open(&t.server, answers, SL_LEN(answers));
    RUN_TESTS();
    sl_timer_free(t.timer);
    sl_loop_close(t.loop);
    canned_close(&t.server);
    unlink(t.keys);
    rmdir(t.folder);
    return CHECK_DONE();
}
