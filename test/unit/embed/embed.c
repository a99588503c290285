/* embed.c -- policies in a worker: which can be used, and deciding by them. */
#include "embed/embed.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "region_version.h"

static int64_t clock_now = 1000 * SL_S;

static int64_t read_clock(void *ctx)
{
    (void)ctx;
    return clock_now;
}

static struct sluice_policy *load(const char *text)
{
    struct sluice_policy *policy = NULL;
    struct sluice_problems *problems = NULL;

    if (sluice_policy_parse("p.yaml", text, strlen(text), NULL, &policy,
                            &problems))
        printf("# %s\n", sluice_problems_text(problems));
    sluice_problems_free(problems);
    return policy;
}

#define API                                                                    \
    "sluice: 1\nlimits: { api: { kind: quota, per: user, rate: 5/month } }\n"

#define ROW(why, text, sentence)                                               \
    {                                                                          \
        why, text, sentence                                                    \
    }

static const struct {
    const char *why, *text, *sentence; /* NULL: it can be used */
} policies[] = {
    ROW("a plain policy", API "default: [api]\n", NULL),
    ROW("a file of state", API "server: { store: \"memory:x\" }\n", NULL),
    ROW("Redis", API "server: { store: \"redis://h:6379\" }\n",
        "server.store is redis:, and"),
    ROW("keys at a URL",
        API "identity: { user: [jwt.sub], "
            "jwt: { jwks: \"https://x.example\" } }\n",
        "identity.jwt.jwks is a URL"),
    ROW("a query for subjects",
        API "identity: { subjects: "
            "{ query: \"SELECT plan FROM t WHERE id = $1\" } }\n"
            "server: { usage: \"postgres://h/d\" }\n",
        "identity.subjects has a query"),
    ROW("dedupe", API "routes: [{ match: /x, dedupe: header.x-id }]\n",
        "has dedupe, which"),
    ROW("backlog",
        API "routes: [{ match: /x, backlog: { name: q, max: 5 } }]\n",
        "has backlog, which"),
    ROW("a member of the body",
        API "routes: [{ match: /x, limits: [api], cost: body./n }]\n",
        "has a cost from the body, which"),
};

TEST(which)
{
    for (size_t i = 0; i < SL_LEN(policies); i++) {
        struct sluice_policy *policy = load(policies[i].text);
        struct sl_diag diag = {.sentence = ""};
        int err;

        CASE(policies[i].why);
        if (!CHECK(policy != NULL))
            continue;
        err = sl_embed_check_policy(policy, &diag);
        CHECK_EQ(err, policies[i].sentence ? SLUICE_ECONF : 0);
        CHECK(!policies[i].sentence ||
              strstr(diag.sentence, policies[i].sentence));
        CHECK(!policies[i].sentence || strstr(diag.sentence, "sluice_pass"));
        sluice_policy_release(policy);
    }
}

TEST(deciding)
{
    struct sluice_policy *policy =
        load("sluice: 1\nlimits:\n"
             "  api: { kind: quota, per: user, rate: 5/month }\n"
             "  jobs: { kind: concurrency, per: user, rate: \"1\", hold: 5s }\n"
             "routes: [{ match: /jobs, limits: [jobs] }]\ndefault: [api]\n");
    size_t size = 1 << 20;
    void *memory = aligned_alloc(4096, size);
    struct sl_embed_options options = {
        .memory = memset(memory, 0, size), .size = size, .now = read_clock};
    struct sl_request request = {.method = SL_STR("GET"),
                                 .user = SL_STR("ann")};
    struct sl_peer peer = {.is_unix = true};
    struct sl_diag diag = {.sentence = ""};
    struct sl_embed *one = NULL, *two = NULL;
    struct sl_embed_answer a;
    char hold[64];

    CASE("two workers share the memory");
    CHECK(sl_embed_open(policy, &options, &one, &diag) == 0);
    CHECK(sl_embed_open(policy, &options, &two, &diag) == 0);
    CHECK_STR(sl_embed_notice(one), "");
    request.path = SL_STR("/x");
    CHECK(sl_embed_decide(one, &request, &peer, &a, &diag) == 0);
    CHECK(a.allowed && a.has_numbers && a.limit == 5 && a.remaining == 4);
    CHECK(sl_embed_decide(two, &request, &peer, &a, &diag) == 0);
    CHECK(a.remaining == 3);

    CASE("a permit, extended, ended by another worker, once");
    request.path = SL_STR("/jobs");
    CHECK(sl_embed_decide(one, &request, &peer, &a, &diag) == 0);
    CHECK(a.allowed && a.hold.len > 0 && a.hold_for == 5 * SL_S);
    memcpy(hold, a.hold.at, a.hold.len + 1);
    clock_now += 4 * SL_S;
    CHECK(sl_embed_extend(one, sl_str_c(hold), 5 * SL_S, &diag) == 0);
    clock_now += 4 * SL_S;
    CHECK(sl_embed_decide(two, &request, &peer, &a, &diag) == 0);
    CHECK(!a.allowed && sl_str_eq(a.by, SL_STR("jobs")));
    CHECK(sl_embed_end(two, sl_str_c(hold), NULL, &diag) == 0);
    CHECK(sl_embed_end(two, sl_str_c(hold), NULL, &diag) == 0);
    CHECK(sl_embed_decide(two, &request, &peer, &a, &diag) == 0);
    CHECK(a.allowed);

    CASE("a hold that does not exist");
    CHECK(sl_embed_end(one, SL_STR("none"), NULL, &diag) == SLUICE_ENOENT);
    CHECK(sl_embed_refresh(one, &diag) == 0 && !sl_embed_reads_keys(one));
    sl_embed_close(one);
    sl_embed_close(two);
    sl_embed_close(NULL);
    sluice_policy_release(policy);
    free(memory);
}

/* Quotas are not evicted: each user takes eight places. */
#define QUOTA(name) "  " name ": { kind: quota, per: user, rate: 5/month }\n"
#define EIGHT       "q0, q1, q2, q3, q4, q5, q6, q7"

TEST(full)
{
    struct sluice_policy *policy =
        load("sluice: 1\nlimits:\n" QUOTA("q0") QUOTA("q1") QUOTA("q2")
                 QUOTA("q3") QUOTA("q4") QUOTA("q5") QUOTA("q6")
                     QUOTA("q7") "default: [" EIGHT "]\n");
    size_t size = 1 << 20;
    void *memory = aligned_alloc(4096, size);
    struct sl_embed_options options = {
        .memory = memset(memory, 0, size), .size = size, .now = read_clock};
    char user[16];
    struct sl_request request = {
        .method = SL_STR("GET"), .path = SL_STR("/x"), .user = {user, 0}
    };
    struct sl_peer peer = {.is_unix = true};
    struct sl_diag diag = {.sentence = ""};
    struct sl_embed *embed = NULL;
    struct sl_embed_answer a = {.allowed = true};
    int count = 0, without = 0;

    CASE("while there is room, no limit is named");
    if (!CHECK(policy != NULL))
        return;
    CHECK(sl_embed_open(policy, &options, &embed, &diag) == 0);
    while (count < 10000 && a.full.len == 0) {
        request.user.len = (size_t)snprintf(user, sizeof(user), "u%d", count++);
        CHECK(sl_embed_decide(embed, &request, &peer, &a, &diag) == 0);
        without += a.full.len == 0;
    }
    CHECK(without > 1000);

    CASE("then one that has none, and on_full lets it pass");
    CHECK(a.allowed && sl_str_begins(a.full, SL_STR("q")));
    sl_embed_close(embed);
    sluice_policy_release(policy);
    free(memory);
}

TEST(addresses)
{
    struct sluice_policy *policy =
        load("sluice: 1\nlimits:\n"
             "  api: { kind: quota, per: ip, rate: 5/month }\n"
             "default: [api]\n");
    size_t size = 1 << 20;
    void *memory = aligned_alloc(4096, size);
    struct sl_embed_options options = {
        .memory = memset(memory, 0, size), .size = size, .now = read_clock};
    struct sl_header forwarded = {SL_STR("X-Forwarded-For"),
                                  SL_STR("198.51.100.7")};
    struct sl_request request = {.method = SL_STR("GET"),
                                 .path = SL_STR("/x"),
                                 .headers = &forwarded,
                                 .header_count = 1};
    struct sl_peer peer = {.text = SL_STR("192.0.2.1"), .has_ip = true};
    struct sl_diag diag = {.sentence = ""};
    struct sl_embed *embed = NULL;
    struct sl_embed_answer a;

    CASE("the text of the peer's address is that of the client");
    CHECK(sl_embed_open(policy, &options, &embed, &diag) == 0);
    CHECK(sl_ip_parse(peer.text, &peer.ip));
    CHECK(sl_embed_decide(embed, &request, &peer, &a, &diag) == 0);
    CHECK(request.ip.at == peer.text.at && request.ip.len == peer.text.len);

    CASE("but not if the peer is a proxy");
    peer.text = SL_STR("127.0.0.1");
    CHECK(sl_ip_parse(peer.text, &peer.ip));
    request.ip = SL_STR("");
    CHECK(sl_embed_decide(embed, &request, &peer, &a, &diag) == 0);
    CHECK(sl_str_eq(request.ip, SL_STR("198.51.100.7")));
    CHECK(a.remaining == 4);

    CASE("a peer without a text");
    CHECK(sl_ip_parse(SL_STR("192.0.2.1"), &peer.ip));
    peer.text = request.ip = SL_STR("");
    CHECK(sl_embed_decide(embed, &request, &peer, &a, &diag) == 0);
    CHECK(sl_str_eq(request.ip, SL_STR("192.0.2.1")));
    CHECK(a.remaining == 3);
    sl_embed_close(embed);
    sluice_policy_release(policy);
    free(memory);
}

TEST(growing)
{
    struct sluice_policy *policy =
        load("sluice: 1\nlimits:\n"
             "  api: { kind: quota, per: user, rate: 5/month }\n"
             "default: [api]\n");
    char path[] = "/tmp/sluice-embed-XXXXXX", beside[64];
    int fd = mkstemp(path);
    struct sl_embed_options options = {
        .path = path, .size = 1 << 20, .now = read_clock};
    struct sl_request request = {
        .method = SL_STR("GET"), .path = SL_STR("/x"), .user = SL_STR("ann")};
    struct sl_peer peer = {.is_unix = true};
    struct sl_diag diag = {.sentence = ""};
    struct sl_embed *embed = NULL;
    struct sl_embed_answer a;

    CASE("a file that is empty");
    CHECK_EQ(sl_embed_grow(path, 2 << 20, &diag), 0);
    CHECK(sl_embed_open(policy, &options, &embed, &diag) == 0);
    CHECK(sl_embed_decide(embed, &request, &peer, &a, &diag) == 0);
    sl_embed_close(embed);

    CASE("no larger, then twice as large, with its usage");
    CHECK_EQ(sl_embed_grow(path, 1 << 20, &diag), 0);
    CHECK_EQ(sl_embed_grow(path, 2 << 20, &diag), 1);
    CHECK_EQ(sl_embed_grow(path, 2 << 20, &diag), 0);
    options.size = 0;
    CHECK(sl_embed_open(policy, &options, &embed, &diag) == 0);
    CHECK(sl_embed_decide(embed, &request, &peer, &a, &diag) == 0);
    CHECK(a.remaining == 3);
    sl_embed_close(embed);

    CASE("a file that cannot be written, or is no state");
    snprintf(beside, sizeof(beside), "%s.growing", path);
    CHECK(mkdir(beside, 0700) == 0);
    CHECK(sl_embed_grow(path, 4 << 20, &diag) < 0 && diag.sentence[0]);
    CHECK(rmdir(beside) == 0 && truncate(path, 4096) == 0);
    CHECK_EQ(sl_embed_grow(path, 4 << 20, &diag), 0);
    unlink(path);
    close(fd);
    sluice_policy_release(policy);
}

/* A state file with the version, and no usage. */
static void make_state(const char *path, uint64_t version)
{
    struct sl_region region;
    struct sl_diag diag = {.sentence = ""};

    CHECK_EQ(
        sl_region_open_file(&region, path, 1 << 20, SL_DAMAGE_REFUSE, &diag),
        0);
    set_version(&region, version);
    sl_region_close(&region);
}

TEST(versions)
{
    static const uint64_t versions[] = {SL_REGION_SIPHASH, SL_REGION_AES};
    struct sluice_policy *policy = load(API "default: [api]\n");
    char path[] = "/tmp/sluice-embed-XXXXXX";
    int fd = mkstemp(path);
    struct sl_embed_options options = {
        .path = path, .size = 1 << 20, .now = read_clock};
    struct sl_request request = {
        .method = SL_STR("GET"), .path = SL_STR("/x"), .user = SL_STR("ann")};
    struct sl_peer peer = {.is_unix = true};

    for (unsigned i = 0; i < SL_LEN(versions); i++) {
        CASE(i ? "a state hashed by AES" : "a state hashed by SipHash");
        CHECK_EQ(truncate(path, 0), 0);
        make_state(path, versions[i]);
        for (int64_t left = 4; left >= 2; left--) {
            struct sl_diag diag = {.sentence = ""};
            struct sl_embed *embed = NULL;
            struct sl_embed_answer a;

            CHECK(sl_embed_open(policy, &options, &embed, &diag) == 0);
            CHECK(sl_embed_decide(embed, &request, &peer, &a, &diag) == 0);
            CHECK_EQ(a.remaining, left);
            sl_embed_close(embed);
        }
    }
    unlink(path);
    close(fd);
    sluice_policy_release(policy);
}

TEST(failures)
{
    struct sluice_policy *policy = load(
        API "identity: { user: [jwt.sub], jwt: { jwks: \"file:./none.json\" } "
            "}\n");
    struct sl_embed_options options = {.size = 1 << 20};
    struct sl_diag diag = {.sentence = ""};
    struct sl_embed *embed = NULL;

    CASE("a file of keys that is not there");
    CHECK(sl_embed_open(policy, &options, &embed, &diag) == SLUICE_ESYS);
    CHECK(strstr(diag.sentence, "none.json"));
    sluice_policy_release(policy);
    CASE("a state in a folder that is not there");
    policy = load(API);
    options.path = "/nonexistent/state";
    CHECK(sl_embed_open(policy, &options, &embed, &diag) == SLUICE_ESYS);
    CHECK(!embed);
    sluice_policy_release(policy);
}

CHECK_MAIN()
