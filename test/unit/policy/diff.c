/* diff.c -- each change of a policy is one line, and no change is none. */
#include "policy/policy.h"

#include "fail.h"
#include "read.h"
#include "row.h"

static const char base[] =
    "sluice: 1\n"
    "plans: { default: free, free: {}, pro: { aliases: [gold] } }\n"
    "identity:\n"
    "  user: [header.x-user]\n"
    "  trusted_proxies: [10.0.0.0/8]\n"
    "limits:\n"
    "  ai:\n"
    "    kind: token-bucket\n"
    "    per: user\n"
    "    rate: { free: 5/min burst 8, pro: 15/min }\n"
    "    deny: { message: \"Wait {retry_after} s.\" }\n"
    "  day: { kind: quota, per: [org, user], rate: 100/month }\n"
    "  pace: { kind: leaky-bucket, per: ip, rate: 5/10s queue 5 }\n"
    "routes:\n"
    "  - match: GET /a\n"
    "    limits: [ai, pace]\n"
    "    feature: chat\n"
    "  - match: /b/**\n"
    "    limits: [ai, day, pace]\n"
    "default: [pace]\n"
    "features: { chat: { enabled: true, message: \"Later.\" } }\n";

/* The base with the first `from` replaced by `to`; NULL: as it is. */
static void edit(char *out, size_t size, const char *from, const char *to)
{
    const char *at = from ? strstr(base, from) : NULL;

    if (!from || !CHECK(at != NULL)) {
        snprintf(out, size, "%s", base);
        return;
    }
    snprintf(out, size, "%.*s%s%s", (int)(at - base), base, to,
             at + strlen(from));
}

static void check_diff(const char *from, const char *to, const char *want)
{
    char text[4096];
    struct sl_policy *old, *new;
    struct sl_buf out;

    edit(text, sizeof(text), from, to);
    old = read_policy(base);
    new = read_policy(text);
    sl_buf_init(&out, 1 << 16, &sl_alloc_libc);
    if (old && new) {
        CHECK_EQ(sl_policy_diff(old, new, &out), 0);
        CHECK_EQ(sl_buf_add(&out, (struct sl_str){"", 1}), 0);
        CHECK_STR(out.bytes, want);
    }
    sl_buf_done(&out);
    sl_policy_unref(old);
    sl_policy_unref(new);
}

static const struct {
    const char *why, *from, *to, *want;
} rows[] = {
    ROW("the same is nothing", NULL, NULL, ""),
    ROW("a comment is nothing", "sluice: 1", "# x\nsluice: 1", ""),
    ROW("a rate of one plan", "free: 5/min burst 8", "free: 10/min",
        "ai free 5/min burst 8 -> 10/min; usage kept\n"),
    ROW("a rate of all plans", "rate: 100/month", "rate: 200/month",
        "day free 100/month -> 200/month; usage kept\n"
        "day pro 100/month -> 200/month; usage kept\n"),
    ROW("a period", "5/10s queue 5", "5/20s queue 5",
        "pace free 5/10s queue 5 -> 5/20s queue 5; usage reset\n"
        "pace pro 5/10s queue 5 -> 5/20s queue 5; usage reset\n"),
    ROW("the scale of a unit", "rate: 100/month",
        "rate: 100/month, unit: { name: hours, of: 60, reports: minutes }",
        "limit day: scale of the unit 1 -> 60; refused: give the limit another "
        "name\n"
        "limit day: headers changed\n"),
    ROW("unlimited", "pro: 15/min", "pro: unlimited",
        "ai pro 15/min -> unlimited; usage kept\n"),
    ROW("another kind", "kind: quota, per: [org, user], rate: 100/month",
        "kind: fixed-window, per: [org, user], rate: 100/h",
        "limit day: kind quota -> fixed-window; usage reset\n"),
    ROW("kept per something else", "per: [org, user]", "per: org",
        "limit day: per org+user -> org; usage reset\n"),
    ROW("other thresholds", "kind: quota,", "kind: quota, thresholds: [50%],",
        "limit day: thresholds changed\n"),
    ROW("refilled otherwise", "kind: token-bucket",
        "kind: token-bucket\n    refill: interval",
        "limit ai: refill continuous -> interval\n"),
    ROW("a guard", "    feature: chat", "    feature: chat\n    guard: \"x\"",
        "route GET /a changed\n"),
    ROW("a mode", "    per: user", "    per: user\n    mode: shadow",
        "limit ai: mode enforce -> shadow\n"),
    ROW("words of a limit", "    per: user",
        "    per: user\n    missing: deny\n    on_store_failure: deny\n"
        "    on_full: deny\n    cost: 2\n    lease: 10%",
        "limit ai: missing anonymous -> deny\n"
        "limit ai: on_store_failure allow -> deny\n"
        "limit ai: on_full allow -> deny\n"
        "limit ai: cost 1 -> 2\n"
        "limit ai: lease 0% -> 10%\n"),
    ROW("a message", "Wait {retry_after} s.", "Wait {retry_after} seconds.",
        "limit ai: code or message changed\n"),
    ROW("a status", "deny: {", "deny: { status: 503,",
        "limit ai: status 429 -> 503\n"
        "limit ai: code or message changed\n"),
    ROW("a zone", "rate: 100/month", "rate: 100/month, zone: Europe/Berlin",
        "limit day: zone or anchor changed; usage kept\n"),
    ROW("a candidate", "    per: user", "    per: user\n    candidate: 9/min",
        "limit ai: candidate added\n"),
    ROW("a key", "    per: user",
        "    per: user\n    key: \"x:{name}:{scope}:{id}\"",
        "limit ai: key changed; usage in a remote store reset\n"),
    ROW("a limit more",
        "  pace:", "  more: { kind: level, per: org, rate: 5 }\n  pace:",
        "limit more added\n"),
    ROW("a limit under another name",
        "  pace: { kind: leaky-bucket, per: ip, rate: 5/10s queue 5 }\n"
        "routes:\n",
        "  slow: { kind: leaky-bucket, per: ip, rate: 5/10s queue 5 }\n"
        "  pace: { kind: leaky-bucket, per: ip, rate: 5/10s queue 5 }\n"
        "routes:\n",
        "limit slow added\n"),
    ROW("an alias", "aliases: [gold]", "aliases: [gold, silver]",
        "plan pro: aliases changed\n"),
    ROW("overage", "aliases: [gold]", "aliases: [gold], overage: true",
        "plan pro: overage on\n"),
    ROW("the default plan", "default: free", "default: pro",
        "plans: default free -> pro\nplans: anonymous free -> pro\n"),
    ROW("unknown plans", "default: free,", "default: free, unknown_plan: deny,",
        "plans: unknown_plan default -> deny\n"),
    ROW("limits of a route", "limits: [ai, day, pace]", "limits: [day, pace]",
        "route /b/**: limits [ai, day, pace] -> [day, pace]\n"),
    ROW("their order", "limits: [ai, day, pace]", "limits: [day, ai, pace]",
        "route /b/**: limits [ai, day, pace] -> [day, ai, pace]\n"),
    ROW("a route's manners", "limits: [ai, day, pace]",
        "limits: [ai, day, pace]\n    anonymous: deny",
        "route /b/** changed\n"),
    ROW("what is carried", "limits: [ai, day, pace]",
        "limits: [ai, day, pace]\n    sign_in: cap", "route /b/** changed\n"),
    ROW("a route renamed", "GET /a", "GET /c",
        "route GET /c added\nroute GET /a removed\n"),
    ROW("routes turned round",
        "  - match: GET /a\n    limits: [ai, pace]\n    feature: chat\n"
        "  - match: /b/**\n    limits: [ai, day, pace]\n",
        "  - match: /b/**\n    limits: [ai, day, pace]\n"
        "  - match: GET /a\n    limits: [ai, pace]\n    feature: chat\n",
        "routes: order changed\n"),
    ROW("the default", "default: [pace]", "default: [ai, pace]",
        "default: limits [pace] -> [ai, pace]\n"),
    ROW("a feature", "enabled: true", "enabled: false",
        "feature chat on -> off\n"),
    ROW("a feature's message", "Later.", "Soon.",
        "feature chat: message or retry_after changed\n"),
    ROW("a feature more", "features: {", "features: { more: { enabled: true },",
        "feature more added (on)\n"),
    ROW("the switch", "sluice: 1", "sluice: 1\nenabled: false",
        "enabled true -> false\n"),
    ROW("the environment", "sluice: 1", "sluice: 1\nenv: prod",
        "env \"default\" -> \"prod\"\n"),
    ROW("errors", "sluice: 1",
        "sluice: 1\nerrors: { rate_limited: { body: { a: \"{limit}\" } } }",
        "errors changed\n"),
    ROW("tenants with series", "sluice: 1",
        "sluice: 1\nmetrics: { tenants: [acme] }",
        "metrics: series of tenants changed\n"),
    ROW("who is trusted", "10.0.0.0/8", "10.0.0.0/16",
        "identity: trusted_proxies changed\n"),
    ROW("where proxies say it",
        "identity:", "identity:\n  forwarded: forwarded",
        "identity: forwarded x-forwarded-for -> forwarded\n"),
    ROW("where users come from", "header.x-user", "header.x-id",
        "identity: sources changed\n"),
    ROW("how strangers are told apart",
        "identity:", "identity:\n  anonymous: [ip, header.user-agent]",
        "identity: anonymous changed; usage of anonymous callers reset\n"),
    ROW("who is not registered",
        "identity:", "identity:\n  unknown_subject: deny",
        "identity: unknown_subject default -> deny\n"),
    ROW("plans in tables of others",
        "identity:", "identity:\n  subjects: { query: \"SELECT $1\" }",
        "identity: subjects changed; needs a restart\n"),
    ROW("how much of an address", "identity:", "identity:\n  ipv6_prefix: 48",
        "identity: ipv6_prefix 64 -> 48; usage of IPv6 addresses reset\n"),
    ROW("tokens",
        "identity:", "identity:\n  org: [jwt.org]\n  jwt: { jwks: \"file:a\" }",
        "identity: sources changed\n"
        "identity: jwt added\n"),
    ROW("settings of the daemon are not looked at", "sluice: 1",
        "sluice: 1\nserver: { memory: 2MiB }", ""),
};

/* What changes of tokens, from one `jwt` to another. */
static void check_tokens(const char *old_jwt, const char *new_jwt,
                         const char *want)
{
    static const char form[] = "sluice: 1\nidentity: { user: jwt.sub, jwt: "
                               "{ %s } }\n";
    char text[2][512];
    struct sl_policy *old, *new;
    struct sl_buf out;

    snprintf(text[0], sizeof(text[0]), form, old_jwt);
    snprintf(text[1], sizeof(text[1]), form, new_jwt);
    old = read_policy(text[0]);
    new = read_policy(text[1]);
    sl_buf_init(&out, 1 << 16, &sl_alloc_libc);
    if (old && new) {
        CHECK_EQ(sl_policy_diff(old, new, &out), 0);
        CHECK_EQ(sl_buf_add(&out, (struct sl_str){"", 1}), 0);
        CHECK_STR(out.bytes, want);
    }
    sl_buf_done(&out);
    sl_policy_unref(old);
    sl_policy_unref(new);
}

#define KEYS    "jwks: \"file:a\""
#define BELIEFS "identity: rules for tokens changed\n"

static void check_all_tokens(void)
{
    CASE("each key of `jwt`");
    check_tokens(KEYS, KEYS ", leeway: 30s, expiry: required", "");
    check_tokens(KEYS, "jwks: \"file:b\"",
                 "identity: source of token keys changed\n");
    check_tokens(KEYS, KEYS ", algorithms: [RS256]", BELIEFS);
    check_tokens(KEYS, KEYS ", from: cookie.a", BELIEFS);
    check_tokens(KEYS, KEYS ", issuer: a", BELIEFS);
    check_tokens(KEYS, KEYS ", audience: a", BELIEFS);
    check_tokens(KEYS, KEYS ", leeway: 31s", BELIEFS);
    check_tokens(KEYS, KEYS ", stale: 1h", BELIEFS);
    check_tokens(KEYS, KEYS ", expiry: optional", BELIEFS);
    check_tokens("secret: 0123456789abcdef0123456789abcdef",
                 "secret: 0123456789abcdef0123456789abcdeX",
                 "identity: source of token keys changed\n");
}

/* Where several routes are told of too, at least the line itself is there. */
static void check_line(const char *from, const char *to, const char *line)
{
    char text[4096];
    struct sl_policy *old = read_policy(base), *new;
    struct sl_buf out;

    edit(text, sizeof(text), from, to);
    new = read_policy(text);
    sl_buf_init(&out, 1 << 16, &sl_alloc_libc);
    if (old && new) {
        CHECK_EQ(sl_policy_diff(old, new, &out), 0);
        CHECK_EQ(sl_buf_add(&out, (struct sl_str){"", 1}), 0);
        CHECK(strstr(out.bytes, line) != NULL);
    }
    sl_buf_done(&out);
    sl_policy_unref(old);
    sl_policy_unref(new);
}

/* What the new one has and the old one has not, and the other way round. */
static void check_removed(void)
{
    static const char less[] =
        "sluice: 1\n"
        "limits: { pace: { kind: level, per: ip, rate: 5 } }\n"
        "routes: [{ match: /b/**, limits: [pace] }]\n"
        "default: [pace]\n";
    struct sl_policy *old = read_policy(base), *new = read_policy(less);
    struct sl_buf out;

    sl_buf_init(&out, 1 << 16, &sl_alloc_libc);
    CHECK_EQ(sl_policy_diff(old, new, &out), 0);
    CHECK_EQ(sl_buf_add(&out, (struct sl_str){"", 1}), 0);
    CHECK_STR(out.bytes, "limit pace: kind leaky-bucket -> level; usage reset\n"
                         "limit ai removed\n"
                         "limit day removed\n"
                         "plan default added\n"
                         "plan free removed\n"
                         "plan pro removed\n"
                         "plans: default free -> default\n"
                         "plans: anonymous free -> default\n"
                         "route /b/**: limits [ai, day, pace] -> [pace]\n"
                         "route GET /a removed\n"
                         "feature chat removed\n"
                         "identity: sources changed\n"
                         "identity: trusted_proxies changed\n");
    sl_buf_done(&out);
    sl_policy_unref(old);
    sl_policy_unref(new);
}

/* Without memory it says so, and gives back what it had. */
static void check_memory(void)
{
    char text[4096];
    struct sl_policy *old = read_policy(base), *new;
    unsigned nth = 0;
    int err;

    edit(text, sizeof(text), "5/min burst 8", "10/min");
    new = read_policy(text);
    do {
        struct fail fail = {.nth = ++nth};
        struct sl_alloc alloc = fail_alloc(&fail);
        struct sl_buf out;

        sl_buf_init(&out, 1 << 16, &alloc);
        err = sl_policy_diff(old, new, &out);
        CHECK(err == 0 || err == SLUICE_ENOMEM);
        sl_buf_done(&out);
        fail_check(&fail);
    } while (err && nth < 1000);
    CHECK(nth > 2);
    sl_policy_unref(old);
    sl_policy_unref(new);
}

int main(void)
{
    for (size_t i = 0; i < SL_LEN(rows); i++) {
        CASE(rows[i].why);
        check_diff(rows[i].from, rows[i].to, rows[i].want);
    }
    CASE("what reaches every route is told with them");
    check_line("sluice: 1", "sluice: 1\nheaders: [github]",
               "headers changed\n");
    check_line("sluice: 1", "sluice: 1\nreset: next", "reset full -> next\n");
    CASE("what goes is told, from the other side");
    check_removed();
    check_all_tokens();
    CASE("no memory is an error, and no leak");
    check_memory();
    return CHECK_DONE();
}
