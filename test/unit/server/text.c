/* text.c -- a decision as people read it. */
#include "world.h"

#define SECOND INT64_C(1000000000)
#define DAY    (86400 * SECOND)

static const char policy[] =
    "sluice: 1\n"
    "identity:\n"
    "  user: [header.x-user]\n"
    "  device: [header.x-device]\n"
    "limits:\n"
    "  minute: { kind: token-bucket, per: user, rate: 10/min }\n"
    "  month: { kind: quota, per: user, rate: 5/month }\n"
    "  slow: { kind: token-bucket, per: user, rate: 1/97m }\n"
    "  quick: { kind: token-bucket, per: user, rate: 1/90s }\n"
    "  all: { kind: token-bucket, per: [], rate: 9/min }\n"
    "routes:\n"
    "  - { match: /month, limits: [month] }\n"
    "  - { match: /slow, limits: [slow] }\n"
    "  - { match: /quick, limits: [quick] }\n"
    "  - { match: /all, limits: [all] }\n"
    "default: [minute]\n";

static const char fingerprints[] =
    "sluice: 1\n"
    "identity: { anonymous: [ip, header.user-agent] }\n"
    "limits:\n"
    "  minute: { kind: token-bucket, per: user, rate: 10/min }\n"
    "  address: { kind: token-bucket, per: ip, rate: 90/min }\n"
    "default: [minute, address]\n";

static bool says(struct world *w, const char *what)
{
    const char *text = sluice_decision_text(w->decision);
    bool found = text && strstr(text, what);

    if (!found)
        printf("# not in it: %s\n# it is: %s\n", what, text ? text : "(none)");
    return found;
}

static void explain(struct world *w, const struct sluice_request *ask)
{
    CHECK_EQ(sluice_explain(w->engine, ask, w->decision), 0);
}

static void test_who(struct world *w)
{
    static const struct sluice_header headers[] = {
        {"x-device", "d1"}
    };
    struct world other = {0};

    CASE("who asks");
    explain(w, &(struct sluice_request){
                   .path = "/x", .user = "ann", .org = "acme", .role = "boss"});
    CHECK(says(w, "\ncaller   user ann, org acme, role boss; plan default\n"));
    CHECK(says(w, "token-bucket for user ann, key "));
    explain(w, &(struct sluice_request){.path = "/x",
                                        .headers = headers,
                                        .header_count = 1,
                                        .trusted = 1});
    CHECK(says(w, "\ncaller   device d1; plan default\n"));

    CASE("nobody");
    explain(w, &(struct sluice_request){.path = "/x", .ip = "192.0.2.1"});
    CHECK(says(w, "\ncaller   anonymous, by ip 192.0.2.1; plan default\n"));
    explain(w, &(struct sluice_request){
                   .path = "/x", .ip = "192.0.2.1", .role = "boss"});
    CHECK(says(w, "by ip 192.0.2.1, role boss; plan"));
    world_begin(&other, fingerprints);
    explain(&other, &(struct sluice_request){.path = "/x", .ip = "192.0.2.1"});
    CHECK(says(&other, "\ncaller   anonymous, by fingerprint; plan default\n"));
    world_end(&other);

    CASE("one limit, by its key; and one for all");
    explain(w, &(struct sluice_request){.limit = "minute", .key = "k1"});
    CHECK(says(w, "\ncaller   key k1; plan default\n"));
    explain(w, &(struct sluice_request){.path = "/all", .user = "ann"});
    CHECK(says(w, "token-bucket for all, key "));

    CASE("it outlives the request, also of a decision that spends");
    {
        char name[] = "eve";

        CHECK_EQ(
            sluice_decide(w->engine,
                          &(struct sluice_request){.path = "/x", .user = name},
                          w->decision),
            0);
        memset(name, 'X', 3);
        CHECK(says(w, "caller   user eve; plan"));
    }
}

static void test_escapes(struct world *w)
{
    char longest[4096];

    CASE("a name forges no line and moves no cursor");
    explain(w, &(struct sluice_request){
                   .path = "/x",
                   .user = "ann\nverdict  200, allowed\033[31m",
                   .role = "\x7f\xc2\x9b\xff\xc3\xa9\\"});
    CHECK(says(w, "user \"ann\\x0averdict  200, allowed\\x1b[31m\", role "
                  "\\x7f\\xc2\\x9b\\xff\xc3\xa9\\x5c; plan"));
    CHECK(says(w, "for user \"ann\\x0averdict  200, allowed\\x1b[31m\", key "));
    CHECK(!strstr(sluice_decision_text(w->decision),
                  "\nverdict  200, allowed\\"));
    CHECK(!strchr(sluice_decision_text(w->decision), '\033'));

    CASE("nor words of ours");
    explain(w, &(struct sluice_request){
                   .path = "/x", .user = "ann, role \"boss\"; plan pro"});
    CHECK(says(w, "caller   user \"ann, role \\x22boss\\x22; plan pro\"; plan "
                  "default\n"));

    CASE("a name without an end is cut");
    memset(longest, 'x', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    explain(w, &(struct sluice_request){.path = "/x", .user = longest});
    CHECK(says(w, "caller   user xxxxxxxxxx"));
    CHECK(says(w, "xxxxxxxx; plan default\n"));
}

static void test_left(struct world *w)
{
    struct sluice_request ask = {
        .path = "/x", .user = "lea", .has_cost = 1, .cost = 4};

    CASE("what is left, and what would be after this");
    explain(w, &ask);
    CHECK(says(w, ", cost 4, 10 left, 6 after this\n"));
    CHECK_EQ(sluice_decide(w->engine, &ask, w->decision), 0);
    CHECK(says(w, ", cost 4, 6 left, reset in 24s\n"));
    explain(w, &ask);
    CHECK(says(w, ", cost 4, 6 left, 2 after this, reset in 24s\n"));

    CASE("not when it would be refused, or looks only");
    ask.cost = 7;
    explain(w, &ask);
    CHECK(says(w, ", cost 7, 6 left, reset in 24s; denies, retry in 6s\n"));
    ask.cost = 0;
    explain(w, &ask);
    CHECK(says(w, ", cost 0, 6 left, reset in 24s\n"));
}

static void row(struct world *w, const char *path, int64_t later,
                const char *what)
{
    struct sluice_request ask = {.path = path, .user = "tim"};
    int64_t begin = w->now;

    w->now += later;
    explain(w, &ask);
    CHECK(says(w, what));
    w->now = begin;
}

static void test_spans(struct world *w)
{
    struct sluice_request ask = {.path = "/slow", .user = "tim"};

    CASE("spans as people read them, rounded up");
    CHECK_EQ(sluice_decide(w->engine, &ask, w->decision), 0);
    ask.path = "/quick";
    CHECK_EQ(sluice_decide(w->engine, &ask, w->decision), 0);
    row(w, "/month", 0, ", reset in 31d\n");
    row(w, "/month", 15 * DAY + 8 * 3600 * SECOND + 1, ", reset in 15d 16h\n");
    row(w, "/month", 30 * DAY + 1, ", reset in 24h\n");
    row(w, "/slow", 0, "reset in 1h 37m;");
    row(w, "/slow", 60 * SECOND + 1, "reset in 1h 36m;");
    row(w, "/slow", 38 * 60 * SECOND, "reset in 59m;");
    row(w, "/quick", 0, "retry in 1m 30s\n");
    row(w, "/quick", 1, "retry in 1m 30s\n");
    row(w, "/quick", 30 * SECOND, "retry in 1m\n");
    row(w, "/quick", 30 * SECOND + 1, "retry in 1m\n");
    row(w, "/quick", 75 * SECOND + SECOND / 2 + 1, "retry in 14500ms\n");
    CHECK(says(w, ": retry in 1")); /* and the verdict alike */
}

int main(void)
{
    struct world w = {.now = 0};

    world_begin(&w, policy);
    test_who(&w);
    test_escapes(&w);
    test_left(&w);
    test_spans(&w);
    world_end(&w);
    return CHECK_DONE();
}
