/* ways.h -- random policies and the acts on them, for ways.c.
 *
 * A policy is a text with one key on each line, so that a shrinker can drop
 * lines. An act is printed as a line of a flow file.
 */
#ifndef SL_PROP_WAYS_H
#define SL_PROP_WAYS_H

#include <stdlib.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/parse.h"
#include "prop.h"

#define WAYS_ACTS    40
#define WAYS_HEADERS 6

struct pair {
    const char *name, *value;
};

struct act {
    enum act_kind {
        ACT_REQUEST, /* method, path */
        ACT_JOB,
        ACT_LIMIT,  /* limit, key */
        ACT_USED,   /* limit, key: a report of usage; cost */
        ACT_FAILED, /* limit, key: a report of a failed attempt */
        ACT_SETTLE,
        ACT_RELEASE,
        ACT_EXTEND,
        ACT_SUBJECT,
    } kind;
    bool off;    /* the shrinker has dropped it */
    sl_ns after; /* the clock moves before it */
    bool back;   /* USED: a refund */
    unsigned of; /* SETTLE, RELEASE, EXTEND: the act that holds */
    sl_ns until; /* SUBJECT: of plan and rate, from now; 0: for good */
    const char *method, *path, *job, *limit, *key; /* NULL: not given */
    const char *user, *org, *plan, *role, *ip;
    struct pair headers[WAYS_HEADERS];
    unsigned header_count;
    bool has_cost;
    uint64_t cost;
    struct pair costs; /* a limit and its cost, or the rate of a SUBJECT */
    const char *body, *repeat_key;
    sl_ns hold;
};

/* An episode: all that a run needs, and that the shrinker changes. */
struct tale {
    struct sl_arena arena;
    struct rng rng;
    char *policy;
    struct act acts[WAYS_ACTS];
    unsigned count;
    unsigned limit_count;
    unsigned joined; /* by limit, a bit: it has two `per` */
    bool guarded;    /* anonymous callers are told apart by a header, and each
                      * route has a limit by address */
};

/* ---- writing ---- */

static inline void put(struct sl_buf *out, const char *text)
{
    if (sl_buf_add(out, sl_str_c(text)))
        abort();
}

#define PUTF(out, ...)                                                         \
    do {                                                                       \
        if (sl_buf_addf(out, __VA_ARGS__))                                     \
            abort();                                                           \
    } while (0)

static inline char *keep(struct tale *t, const char *text)
{
    char *copy = sl_arena_copy(&t->arena, sl_str_c(text));

    if (!copy)
        abort();
    return copy;
}

static inline const char *pick_of(struct rng *rng, const char *const *words,
                                  size_t count)
{
    return words[rng_below(rng, count)];
}

#define WORD(rng, ...)                                                         \
    pick_of(rng, (const char *const[]){__VA_ARGS__},                           \
            sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

/* ---- policies ---- */

static const char *const limit_names[] = {"a", "b", "c", "d"};

static const char *some_rate(struct tale *t, const char *kind,
                             const char *period)
{
    struct rng *rng = &t->rng;
    unsigned count = 1 + (unsigned)rng_below(rng, 12);
    const char *more = "";
    char text[64];

    if (rng_once_in(rng, 12))
        return WORD(rng, "unlimited", "none");
    if (!strcmp(kind, "concurrency") || !strcmp(kind, "level")) {
        snprintf(text, sizeof(text), "%u", count);
        return keep(t, text);
    }
    if (!strcmp(kind, "token-bucket"))
        more = WORD(rng, "", " burst 3", " burst 20");
    if (!strcmp(kind, "leaky-bucket"))
        more = WORD(rng, " queue 2", " queue 9");
    snprintf(text, sizeof(text), "%u/%s%s", count, period, more);
    return keep(t, text);
}

static void put_conditions(struct tale *t, struct sl_buf *out, const char *key)
{
    struct rng *rng = &t->rng;
    unsigned items = 1 + (unsigned)rng_below(rng, 2);

    PUTF(out, "    %s:\n", key);
    for (unsigned i = 0; i < items; i++)
        PUTF(out, "      - %s\n",
             WORD(rng, "method: [POST, put]", "plan: pro", "plan: [team, free]",
                  "header.x-client: \"mob*\"", "header.user-agent: \"*bot*\"",
                  "user: \"a*\"", "org: acme", "role: [admin, \"cr*\"]",
                  "ip: [203.0.113.0/24, \"2001:db8::/32\"]"));
}

static void put_rates(struct tale *t, struct sl_buf *out, const char *key,
                      const char *kind, const char *period)
{
    if (rng_once_in(&t->rng, 2)) {
        PUTF(out, "    %s: %s\n", key, some_rate(t, kind, period));
        return;
    }
    PUTF(out, "    %s:\n      free: %s\n      pro: %s\n      team: %s\n", key,
         some_rate(t, kind, period), some_rate(t, kind, period),
         some_rate(t, kind, period));
}

static void put_limit(struct tale *t, struct sl_buf *out, unsigned i)
{
    struct rng *rng = &t->rng;
    const char *kind = WORD(rng, "token-bucket", "token-bucket", "leaky-bucket",
                            "fixed-window", "sliding-window", "quota", "quota",
                            "concurrency", "level");
    const char *period = !strcmp(kind, "quota")
                             ? WORD(rng, "day", "week", "month")
                             : WORD(rng, "min", "10s", "7s", "hour");
    const char *per;

    PUTF(out, "  %s:\n    kind: %s\n", limit_names[i], kind);
    if (!strcmp(kind, "token-bucket") && rng_once_in(rng, 4))
        put(out, "    refill: interval\n");
    per = WORD(rng, "user", "user", "org", "ip", "device", "[org, user]",
               "[user, endpoint]", "[]", "anon");
    PUTF(out, "    per: %s\n", per);
    if (strchr(per, ','))
        t->joined |= 1U << i;
    put_rates(t, out, "rate", kind, period);
    if (rng_once_in(rng, 8))
        put_rates(t, out, "candidate", kind, period);
    if (rng_once_in(rng, 2))
        PUTF(out, "    missing: %s\n", WORD(rng, "anonymous", "skip", "deny"));
    if (rng_once_in(rng, 6))
        PUTF(out, "    mode: %s\n", WORD(rng, "shadow", "off", "enforce"));
    if (rng_once_in(rng, 6))
        put(out, "    cost: 2\n");
    if (rng_once_in(rng, 6))
        put_conditions(t, out, "when");
    if (!strcmp(kind, "concurrency") && rng_once_in(rng, 2))
        put(out, "    hold: 45s\n");
    if (rng_once_in(rng, 4))
        PUTF(out,
             "    penalty: { after: %s, within: %s, block: %s, growth: %s, "
             "most: 10m }\n",
             WORD(rng, "1", "2", "4"), WORD(rng, "5s", "1m", "1h"),
             WORD(rng, "3s", "1m"), WORD(rng, "1", "2", "7"));
    if (!strcmp(kind, "quota") && rng_once_in(rng, 4))
        put(out, "    charge: on_report\n");
    if (!strcmp(kind, "quota") && rng_once_in(rng, 3))
        PUTF(out, "    zone: %s\n", WORD(rng, "Europe/Berlin", "UTC"));
    if (rng_once_in(rng, 3))
        PUTF(out,
             "    deny:\n      status: %s\n      message: \"{name} of {id} has "
             "{limit}, back in {retry_after}\"\n",
             WORD(rng, "402", "403", "429", "503"));
}

/* Writes [a, c], in any order. Returns the first. */
static const char *put_names(struct tale *t, struct sl_buf *out)
{
    unsigned from = (unsigned)rng_below(&t->rng, t->limit_count);

    PUTF(out, "[%s", limit_names[from]);
    for (unsigned i = 1; i < t->limit_count; i++)
        if (rng_once_in(&t->rng, 2))
            PUTF(out, ", %s", limit_names[(from + i) % t->limit_count]);
    put(out, t->guarded ? ", guard]\n" : "]\n");
    return limit_names[from];
}

static void put_route(struct tale *t, struct sl_buf *out)
{
    struct rng *rng = &t->rng;
    const char *first;

    if (rng_once_in(rng, 4))
        PUTF(out, "  - job: %s\n", WORD(rng, "mail", "index"));
    else
        PUTF(out, "  - match: %s\n",
             WORD(rng, "/a", "GET /a", "POST /a/**", "/a/*", "/b/:id", "/c/**",
                  "GET,POST /b", "/**"));
    put(out, "    limits: ");
    first = put_names(t, out);
    if (rng_once_in(rng, 6))
        PUTF(out, "    cost: { %s: 3 }\n", first);
    else if (rng_once_in(rng, 2))
        PUTF(out, "    cost: %s\n",
             WORD(rng, "2", "5", "header.x-tokens default 3", "header.x-tokens",
                  "body./n default 2", "body./n", "size",
                  "size/1KiB default 2"));
    if (rng_once_in(rng, 4))
        put_conditions(t, out, "when");
    if (rng_once_in(rng, 5))
        put_conditions(t, out, "exempt");
    if (rng_once_in(rng, 5))
        PUTF(out, "    anonymous: %s\n", WORD(rng, "pass", "deny", "limit"));
    if (rng_once_in(rng, 8))
        put(out, "    roles: [admin, member]\n");
    if (rng_once_in(rng, 6))
        PUTF(out, "    report: %s\n", first);
    if (rng_once_in(rng, 8))
        put(out, "    endpoint: spot\n");
    if (rng_once_in(rng, 8))
        put(out, "    headers: [ietf, github]\n");
}

static void put_top(struct tale *t, struct sl_buf *out)
{
    struct rng *rng = &t->rng;

    put(out, "sluice: 1\nplans:\n  default: free\n");
    if (rng_once_in(rng, 4))
        put(out, "  anonymous: team\n");
    put(out, "  free: {}\n  pro: { aliases: [PREMIUM] }\n  team: {}\n"
             "identity:\n  user: [header.x-user]\n  org: [header.x-org]\n"
             "  device: [header.x-device]\n"
             "  plan: [header.x-plan, subject.plan]\n"
             "  role: [header.x-role]\n");
    if (t->guarded)
        put(out, "  anonymous: [ip, header.user-agent]\n");
    if (rng_once_in(rng, 6))
        PUTF(out, "  unknown_subject: %s\n", WORD(rng, "deny", "pass"));
    if (rng_once_in(rng, 4))
        put(out, "  ipv6_prefix: 56\n");
    if (rng_once_in(rng, 2))
        put(out, "headers: [x-ratelimit, ietf]\n");
    if (rng_once_in(rng, 4))
        put(out, "reset: next\n");
    if (rng_once_in(rng, 12))
        put(out, "mode: shadow\n");
}

static void make_policy(struct tale *t)
{
    unsigned routes = 1 + (unsigned)rng_below(&t->rng, 4);
    struct sl_buf out;

    sl_buf_init(&out, 1 << 20, &sl_alloc_libc);
    t->limit_count = 1 + (unsigned)rng_below(&t->rng, SL_LEN(limit_names));
    t->guarded = rng_once_in(&t->rng, 3);
    put_top(t, &out);
    put(&out, "limits:\n");
    if (t->guarded)
        put(&out, "  guard:\n    kind: fixed-window\n    per: ip\n"
                  "    rate: 9/min\n");
    for (unsigned i = 0; i < t->limit_count; i++)
        put_limit(t, &out, i);
    put(&out, "routes:\n");
    for (unsigned i = 0; i < routes; i++)
        put_route(t, &out);
    put(&out, "default: ");
    put_names(t, &out);
    if (sl_buf_add(&out, (struct sl_str){"", 1}))
        abort();
    t->policy = keep(t, out.bytes);
    sl_buf_done(&out);
}

/* ---- acts ---- */

/* Segments, and spellings of the same path. Few are just below, at and beyond
 * the longest path. */
static const char *some_path(struct tale *t)
{
    struct rng *rng = &t->rng;
    struct sl_buf out;
    const char *kept;

    if (!rng_once_in(rng, 60))
        return WORD(rng, "/a", "/a", "/b", "/a/x", "/b/7", "/b/8", "/c/d/e",
                    "/A", "/a/", "//a", "/a/../b", "/%61", "/a?x=1&cost=9",
                    "/a/%2e%2e/c", "/a;v=1", "/b/%C3%A9", "/b/\xc3\xa9", "/",
                    "/other", "/a/./x", "/b/%2F", "/c\\d");
    sl_buf_init(&out, 1 << 20, &sl_alloc_libc);
    put(&out, "/a/");
    for (size_t len = rng_once_in(rng, 2) ? rng_between(rng, 8170, 8200)
                                          : rng_log(rng, 9000);
         out.len < len;)
        put(&out, rng_once_in(rng, 40) ? "/" : "x");
    put(&out, WORD(rng, "", "/pay"));
    if (sl_buf_add(&out, (struct sl_str){"", 1}))
        abort();
    kept = keep(t, out.bytes);
    sl_buf_done(&out);
    return kept;
}

static const char *some_name(struct rng *rng)
{
    return WORD(rng, "ann", "ann", "ann", "bob", "a:b", "Ann", "\xc3\xa9va",
                "\xe6\x97\xa5\xe6\x9c\xac", "a b", "%61nn", "10.0.0.1",
                "a\"\\b",
                "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
                "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa");
}

static void add_header(struct act *a, const char *name, const char *value)
{
    if (a->header_count < WAYS_HEADERS)
        a->headers[a->header_count++] = (struct pair){name, value};
}

/* A name is given by the request or by a header. */
static void make_caller(struct tale *t, struct act *a)
{
    struct rng *rng = &t->rng;

    if (rng_once_in(rng, 8) && a->kind != ACT_LIMIT)
        add_header(a, "x-user", WORD(rng, "ann", "bob"));
    else if (!rng_once_in(rng, 4))
        a->user = some_name(rng);
    if (rng_once_in(rng, 2))
        a->org = WORD(rng, "acme", "acme", "beta", "ann");
    if (rng_once_in(rng, 3))
        a->plan = WORD(rng, "free", "pro", "PREMIUM", "Team", "unheard");
    if (rng_once_in(rng, 3))
        a->role = WORD(rng, "admin", "member", "crawler");
    a->ip = WORD(rng, "203.0.113.7", "203.0.113.7", "198.51.100.9",
                 "2001:db8::1", "2001:DB8:0:0:1::2", "2001:db8:0:100::1",
                 "::ffff:203.0.113.7", "", "nonsense");
    if (rng_once_in(rng, 4))
        add_header(a, "x-device", WORD(rng, "phone", "tab let"));
    if (rng_once_in(rng, 4))
        add_header(a, "User-Agent", WORD(rng, "a bot 1", "browser"));
    if (rng_once_in(rng, 4))
        add_header(a, "X-Client", WORD(rng, "mobile", "tv"));
    if (rng_once_in(rng, 3))
        add_header(a, "x-tokens", WORD(rng, "4", "1", "0", "many", "-1", "70"));
    if (rng_once_in(rng, 4))
        add_header(a, "content-length", WORD(rng, "0", "3", "5000", "many"));
}

static void make_cost(struct tale *t, struct act *a)
{
    struct rng *rng = &t->rng;

    a->has_cost = rng_once_in(rng, 5);
    a->cost = rng_log(rng, rng_once_in(rng, 8) ? 1000000 : 5);
    if (!a->has_cost && rng_once_in(rng, 8))
        a->costs = (struct pair){limit_names[rng_below(rng, t->limit_count)],
                                 WORD(rng, "0", "1", "3", "9")};
    if (rng_once_in(rng, 4))
        a->body = WORD(rng, "{\"n\":3}", "{\"n\":0}", "{\"n\":\"x\"}", "{}",
                       "no json", "{\"m\":1,\"n\":2}");
    if (rng_once_in(rng, 6))
        a->hold = (sl_ns)rng_between(rng, 1, 90) * SL_S;
}

static void make_subject(struct tale *t, struct act *a)
{
    struct rng *rng = &t->rng;

    a->kind = ACT_SUBJECT;
    a->user = WORD(rng, "user", "org");
    a->key =
        !strcmp(a->user, "user") ? some_name(rng) : WORD(rng, "acme", "beta");
    if (!rng_once_in(rng, 3))
        a->plan = WORD(rng, "pro", "team", "premium", "unheard");
    if (!rng_once_in(rng, 3))
        a->until = (sl_ns)rng_log(rng, SL_HOUR);
    if (rng_once_in(rng, 2))
        a->costs = (struct pair){limit_names[rng_below(rng, t->limit_count)],
                                 WORD(rng, "3/min", "20/min burst 25", "9",
                                      "50/month", "unlimited", "none")};
}

/* Fills what a check of one limit, or a report, needs. */
static void make_by_limit(struct tale *t, struct act *a, bool used)
{
    struct rng *rng = &t->rng;
    unsigned limit = (unsigned)rng_below(rng, t->limit_count);

    a->kind = used ? ACT_USED : ACT_LIMIT;
    a->limit = limit_names[limit];
    a->key = rng_once_in(rng, 4)
                 ? WORD(rng, "acme", "203.0.113.7", "2001:db8::1", "phone")
                 : some_name(rng);
    /* Few keys lack a value: that is an error, which ends the flow. */
    if (t->joined >> limit & 1 && !rng_once_in(rng, 16))
        a->key = WORD(rng, "acme:ann", "acme:bob", "beta:ann", "ann:search",
                      "a%3Ab:ann", "acme:x%25y");
    if (!used)
        return;
    a->cost = rng_log(rng, 9);
    a->has_cost = true;
    a->back = rng_once_in(rng, 5);
    a->user = rng_once_in(rng, 2) ? "user" : "org";
}

static void make_act(struct tale *t, unsigned i)
{
    struct rng *rng = &t->rng;
    struct act *a = &t->acts[i];

    *a = (struct act){.kind = ACT_REQUEST};
    add_header(a, "X-Request-Id", "r"); /* else each engine makes its own */
    if (rng_once_in(rng, 3))
        a->after =
            (sl_ns)rng_log(rng, rng_once_in(rng, 8) ? 40 * SL_DAY : 20 * SL_S);
    switch (rng_below(rng, 21)) {
    case 0:
        make_subject(t, a);
        return;
    case 20:
        make_by_limit(t, a, false);
        a->kind = ACT_FAILED;
        return;
    case 1:
        make_by_limit(t, a, true);
        return;
    case 2:
    case 3:
        a->kind = (enum act_kind)rng_between(rng, ACT_SETTLE, ACT_EXTEND);
        a->of = (unsigned)rng_below(rng, i + 1);
        a->hold = 30 * SL_S;
        a->has_cost = rng_once_in(rng, 2);
        a->cost = rng_below(rng, 6);
        return;
    case 4:
    case 5:
        make_by_limit(t, a, false);
        if (rng_once_in(rng, 2))
            make_caller(t, a);
        break;
    case 6:
    case 7:
        a->kind = ACT_JOB;
        a->job = WORD(rng, "mail", "index", "other");
        make_caller(t, a);
        break;
    default:
        a->method = WORD(rng, "GET", "GET", "POST", "PUT", "HEAD", "OPTIONS");
        a->path = some_path(t);
        make_caller(t, a);
    }
    make_cost(t, a);
    if (rng_once_in(rng, 12))
        a->repeat_key = WORD(rng, "k1", "k2");
}

static void make_tale(struct tale *t, uint64_t seed)
{
    sl_arena_init(&t->arena, 1 << 20, &sl_alloc_libc);
    t->rng = (struct rng){seed};
    make_policy(t);
    t->count = (unsigned)rng_between(&t->rng, 5, WAYS_ACTS);
    for (unsigned i = 0; i < t->count; i++)
        make_act(t, i);
}

/* ---- an act as a line of a flow ---- */

static void put_word(struct sl_buf *out, const char *name, const char *value)
{
    if (!value)
        return;
    PUTF(out, " %s%s\"", name, name[0] ? "=" : "");
    for (; *value; value++) {
        if (*value == '"' || *value == '\\')
            put(out, "\\");
        if (sl_buf_add(out, (struct sl_str){value, 1}))
            abort();
    }
    put(out, "\"");
}

static void put_span(struct sl_buf *out, const char *name, sl_ns span)
{
    char text[32];

    if (span > 0)
        PUTF(out, " %s=%s", name, sl_format_duration(span, text));
}

static void put_target(struct sl_buf *out, const struct act *a, unsigned i)
{
    switch (a->kind) {
    case ACT_REQUEST:
        PUTF(out, "  %s", a->method);
        put_word(out, "", a->path);
        break;
    case ACT_JOB:
        PUTF(out, "  job %s", a->job);
        break;
    case ACT_LIMIT:
        PUTF(out, "  take %s", a->limit);
        put_word(out, "", a->key);
        break;
    case ACT_USED:
        PUTF(out, "  usage %s", a->user);
        put_word(out, "", a->key);
        PUTF(out, " %s %s%llu", a->limit, a->back ? "-" : "",
             (unsigned long long)a->cost);
        break;
    case ACT_FAILED:
        PUTF(out, "  failed %s", a->limit);
        put_word(out, "", a->key);
        break;
    case ACT_SETTLE:
    case ACT_RELEASE:
    case ACT_EXTEND:
        PUTF(out, "  %s h%u",
             a->kind == ACT_SETTLE    ? "settle"
             : a->kind == ACT_RELEASE ? "release"
                                      : "extend",
             a->of);
        break;
    case ACT_SUBJECT:
        PUTF(out, "  subject %s", a->user);
        put_word(out, "", a->key);
        break;
    }
    if (a->kind <= ACT_LIMIT)
        PUTF(out, " as=h%u", i);
}

static void put_act(struct sl_buf *out, const struct act *a, unsigned i)
{
    char name[64];

    if (a->after > 0)
        PUTF(out, "at +%s\n", sl_format_duration(a->after, name));
    put_target(out, a, i);
    if (a->kind <= ACT_LIMIT) {
        put_word(out, "user", a->user);
        put_word(out, "org", a->org);
        put_word(out, "role", a->role);
        put_word(out, "ip", a->ip ? a->ip : "");
        put_word(out, "body", a->body);
        put_word(out, "idempotency_key", a->repeat_key);
    }
    put_word(out, "plan", a->plan);
    for (unsigned h = 0; h < a->header_count && a->kind <= ACT_LIMIT; h++) {
        snprintf(name, sizeof(name), "header.%s", a->headers[h].name);
        put_word(out, name, a->headers[h].value);
    }
    if (a->has_cost && a->kind != ACT_USED && a->kind < ACT_RELEASE)
        PUTF(out, " cost=%llu", (unsigned long long)a->cost);
    if (a->costs.name) {
        snprintf(name, sizeof(name), "%s%s",
                 a->kind == ACT_SUBJECT ? "" : "cost.", a->costs.name);
        put_word(out, name, a->costs.value);
    }
    if (a->kind <= ACT_LIMIT || a->kind == ACT_EXTEND)
        put_span(out, "hold", a->hold);
    if (a->until > 0) {
        put(out, " until=+");
        put(out, sl_format_duration(a->until, name));
    }
}

#endif
