/* policies.h -- random policies that are right.
 *
 * Everything that the language has is there at random, in the odd ways that
 * people could write it: names that YAML takes for something else, periods in
 * several spellings, plans by their aliases, bodies with braces in them. Limits
 * and routes are in policy_limits.h.
 */
#ifndef SL_PROP_POLICIES_H
#define SL_PROP_POLICIES_H

#include "policy/policy.h"
#include "tree.h"

#define MOST 6 /* plans, limits, routes */

struct made_limit {
    const char *name, *kind;
};

/* What the parts of a policy must know of each other. */
struct maker {
    struct forest *f;
    struct rng *rng; /* the forest's */
    const char *plans[MOST];
    const char *aliases[MOST]; /* one of each, or NULL */
    unsigned plan_count;
    const char *scopes[12];
    unsigned scope_count;
    struct made_limit limits[MOST + 1];
    unsigned limit_count;
    struct sl_pattern patterns[MOST];
    unsigned pattern_count;
    bool guarded; /* limits[0] is kept by address and belongs everywhere */
    const char *features[2];
    unsigned feature_count;
};

#define PICK(m, list) ((list)[rng_below((m)->rng, SL_LEN(list))])

static inline bool maybe(struct maker *m, unsigned n)
{
    return rng_once_in(m->rng, n);
}

static inline void put_word(struct maker *m, struct tree *map, const char *key,
                            const char *word)
{
    (void)tree_put(m->f, map, key, tree_word(m->f, word));
}

static inline void put_bool(struct maker *m, struct tree *map, const char *key,
                            bool value)
{
    (void)tree_put(m->f, map, key,
                   tree_new(m->f, TREE_PLAIN, value ? "true" : "false"));
}

static inline void put_number(struct maker *m, struct tree *map,
                              const char *key, uint64_t low, uint64_t high)
{
    char text[24];

    snprintf(text, sizeof(text), "%" PRIu64, rng_between(m->rng, low, high));
    put_word(m, map, key, text);
}

static inline struct tree *put_map(struct maker *m, struct tree *map,
                                   const char *key)
{
    return tree_put(m->f, map, key, tree_new(m->f, TREE_MAP, NULL));
}

static inline struct tree *put_list(struct maker *m, struct tree *map,
                                    const char *key)
{
    return tree_put(m->f, map, key, tree_new(m->f, TREE_LIST, NULL));
}

/* A list of some of the words, none twice; of a single one perhaps the word
 * itself. */
static inline void put_some(struct maker *m, struct tree *map, const char *key,
                            const char *const *words, unsigned count,
                            unsigned least)
{
    unsigned want = least + (unsigned)rng_below(m->rng, 3), taken = 0;
    struct tree *list;
    bool used[16] = {false};

    if (want > count)
        want = count;
    if (want == 1 && maybe(m, 2)) {
        put_word(m, map, key, words[rng_below(m->rng, count)]);
        return;
    }
    list = put_list(m, map, key);
    while (taken < want) {
        uint64_t i = rng_below(m->rng, count);

        if (used[i])
            continue;
        used[i] = true;
        taken++;
        (void)tree_put(m->f, list, NULL, tree_word(m->f, words[i]));
    }
}

/* The same letters in another case. */
static inline const char *recase(struct maker *m, const char *name)
{
    char out[80];
    size_t i = 0;

    for (; name[i] && i < sizeof(out) - 1; i++) {
        bool letter = (name[i] | 32) >= 'a' && (name[i] | 32) <= 'z';

        out[i] = (char)(letter && maybe(m, 3) ? name[i] ^ 32 : name[i]);
    }
    out[i] = '\0';
    return tree_copy(m->f, out);
}

/* ---- texts ---- */

/* Pieces that a message may have anywhere. */
static inline const char *random_message(struct maker *m)
{
    static const char *const pieces[] = {"Slow down",
                                         "{limit}",
                                         "{remaining} left",
                                         "{retry_after}s",
                                         "{{",
                                         "}}",
                                         "${{x}}",
                                         "\"quoted\"",
                                         "it's",
                                         " #5: ",
                                         "\\n",
                                         "\xc3\xa4",
                                         "{unit}",
                                         "{plan}",
                                         "{scope}:{id}",
                                         "{reset_iso}",
                                         "{{limit}}",
                                         "\n",
                                         "\t",
                                         "\xe2\x80\xa8",
                                         "{name}",
                                         "  ",
                                         "{request_id}",
                                         "$",
                                         "$$",
                                         "%s",
                                         "{status}{code}",
                                         "\xf0\x9f\x92\xa7",
                                         "{now_iso_ms}"};
    unsigned count = (unsigned)rng_below(m->rng, 5);
    char text[160] = "";
    size_t len = 0;

    for (unsigned i = 0; i < count; i++)
        len += (size_t)snprintf(text + len, 32, "%s", PICK(m, pieces));
    return tree_copy(m->f, text);
}

/* ---- plans ---- */

static inline void make_plan(struct maker *m, struct tree *plans, unsigned i)
{
    static const char *const more[] = {"_MONTHLY", " yearly", ": x", "\xc3\xa4",
                                       "#",        "${V}",    ",",   "'s"};
    struct tree *plan = put_map(m, plans, m->plans[i]), *list;
    char alias[64];

    if (maybe(m, 3))
        put_bool(m, plan, "overage", maybe(m, 2));
    if (maybe(m, 2))
        return;
    list = put_list(m, plan, "aliases");
    for (unsigned k = 0, n = (unsigned)rng_log(m->rng, 12); k < n; k++) {
        snprintf(alias, sizeof(alias), "%s%u%s", m->plans[i], k, PICK(m, more));
        m->aliases[i] = tree_copy(m->f, alias);
        (void)tree_put(m->f, list, NULL, tree_word(m->f, alias));
    }
}

static inline const char *plan_name(struct maker *m, unsigned i)
{
    bool alias = m->aliases[i] && maybe(m, 2);

    return recase(m, alias ? m->aliases[i] : m->plans[i]);
}

static inline void make_plans(struct maker *m, struct tree *top)
{
    static const char *const names[] = {"free", "Pro", "null",
                                        "1.5",  "on",  "a-b"};
    struct tree *plans;

    m->plan_count = (unsigned)rng_below(m->rng, MOST);
    if (m->plan_count == 0 && maybe(m, 2))
        return;
    plans = put_map(m, top, "plans");
    for (unsigned i = 0; i < m->plan_count; i++) {
        m->plans[i] = names[i];
        make_plan(m, plans, i);
    }
    if (m->plan_count > 0 && maybe(m, 2))
        put_word(m, plans, "default",
                 plan_name(m, (unsigned)rng_below(m->rng, m->plan_count)));
    if (m->plan_count > 0 && maybe(m, 2))
        put_word(m, plans, "anonymous",
                 plan_name(m, (unsigned)rng_below(m->rng, m->plan_count)));
    if (maybe(m, 3))
        put_word(m, plans, "unknown_plan", maybe(m, 2) ? "deny" : "default");
}

/* ---- identity ---- */

static const char *const made_headers[] = {
    "header.x-user", "header.X-Org-Id",   "header.x-plan",
    "header.x-role", "header.User-Agent", "header.x~odd!"};

static inline void make_anonymous(struct maker *m, struct tree *identity)
{
    struct tree *list;

    if (maybe(m, 2))
        return;
    if (maybe(m, 2)) {
        put_word(m, identity, "anonymous", "ip");
        return;
    }
    m->guarded = true;
    list = put_list(m, identity, "anonymous");
    if (maybe(m, 2))
        (void)tree_put(m->f, list, NULL, tree_word(m->f, "ip"));
    (void)tree_put(m->f, list, NULL, tree_word(m->f, PICK(m, made_headers)));
}

static inline void make_identity(struct maker *m, struct tree *top)
{
    static const char *const keys[] = {"user", "org",  "plan",
                                       "role", "shop", "null"};
    static const char *const fields[] = {"x-forwarded-for", "forwarded"};
    static const char *const nets[] = {
        "127.0.0.0/8",         "::1",         "10.1.2.3", "2001:DB8::/32",
        "::ffff:10.0.0.0/104", "192.0.2.0/31"};
    static const char *const known[] = {"user", "org", "ip", "anon",
                                        "endpoint"};
    struct tree *identity;

    for (unsigned i = 0; i < SL_LEN(known); i++)
        m->scopes[m->scope_count++] = known[i];
    if (maybe(m, 4))
        return;
    identity = put_map(m, top, "identity");
    for (unsigned i = 0; i < SL_LEN(keys); i++) {
        if (maybe(m, 2))
            continue;
        put_some(m, identity, keys[i], made_headers, SL_LEN(made_headers), 0);
        if (i >= 4)
            m->scopes[m->scope_count++] = keys[i];
    }
    make_anonymous(m, identity);
    if (maybe(m, 2))
        put_some(m, identity, "trusted_proxies", nets, SL_LEN(nets), 0);
    if (maybe(m, 2))
        put_number(m, identity, "ipv6_prefix", 32, 128);
    if (maybe(m, 2))
        put_word(m, identity, "unknown_subject", maybe(m, 2) ? "deny" : "pass");
    if (maybe(m, 2))
        put_word(m, identity, "forwarded", PICK(m, fields));
}

/* ---- the rest of the file ---- */

static const char *const made_dialects[] = {"x-ratelimit", "ietf",   "ietf-06",
                                            "github",      "openai", "kong"};

static inline void make_headers(struct maker *m, struct tree *map)
{
    if (maybe(m, 6))
        put_word(m, map, "headers", "none");
    else
        put_some(m, map, "headers", made_dialects, SL_LEN(made_dialects), 0);
}

static inline void make_features(struct maker *m, struct tree *top)
{
    static const char *const names[] = {"assistant", "no"};
    static const char *const spans[] = {"60s", "1h30m", "1500ms", "2d", "0s"};
    struct tree *features;

    if (maybe(m, 2))
        return;
    features = put_map(m, top, "features");
    m->feature_count = (unsigned)rng_below(m->rng, 3);
    for (unsigned i = 0; i < m->feature_count; i++) {
        struct tree *feature = put_map(m, features, names[i]);

        m->features[i] = names[i];
        if (maybe(m, 2))
            put_bool(m, feature, "enabled", !maybe(m, 3));
        if (maybe(m, 2))
            put_word(m, feature, "message", random_message(m));
        if (maybe(m, 2))
            put_word(m, feature, "retry_after", PICK(m, spans));
    }
}

/* What a body has; nothing deeper than `depth`. */
static inline struct tree *random_body(struct maker *m, unsigned depth)
{
    static const char *const bare[] = {"true",  "false", "null",  "5",
                                       "-0.25", "0",     "1.2.3", "~"};
    static const char *const quoted[] = {"true",
                                         "null",
                                         "5",
                                         "",
                                         "{limit}",
                                         "{message}",
                                         "a: {retry_after_ms}",
                                         "{reset}!",
                                         "-"};
    static const char *const keys[] = {"code",     "null", "a b",  "{x}",
                                       "\"",       "1",    "true", "${ENV:X}",
                                       "\xc3\xa4", "x:y",  "?",    "#"};
    uint64_t choice = rng_below(m->rng, depth ? 5 : 3);
    struct tree *t;

    if (choice == 0)
        return tree_new(m->f, TREE_BARE, PICK(m, bare));
    if (choice == 1)
        return tree_new(m->f, TREE_TEXT, PICK(m, quoted));
    if (choice == 2)
        return tree_word(m->f, random_message(m));
    t = tree_new(m->f, choice == 3 ? TREE_LIST : TREE_MAP, NULL);
    for (unsigned i = 0; i < SL_LEN(keys); i++)
        if (maybe(m, 3))
            (void)tree_put(m->f, t, choice == 3 ? NULL : keys[i],
                           random_body(m, depth - 1));
    return t;
}

static inline void make_errors(struct maker *m, struct tree *top)
{
    static const char *const names[] = {"rate_limited", "plan_limit",
                                        "forbidden",    "unauthorized",
                                        "conflict",     "unavailable"};
    static const uint64_t statuses[][2] = {
        {429, 429},
        {402, 403},
        {403, 404},
        {401, 401},
        {422, 423},
        {500, 599}
    };
    struct tree *errors;

    if (maybe(m, 2))
        return;
    errors = put_map(m, top, "errors");
    for (unsigned i = 0; i < SL_LEN(names); i++) {
        struct tree *error;

        if (maybe(m, 2))
            continue;
        error = put_map(m, errors, names[i]);
        if (maybe(m, 3))
            put_number(m, error, "status", statuses[i][0], statuses[i][1]);
        if (!maybe(m, 4))
            (void)tree_put(m->f, error, "body", random_body(m, 3));
    }
}

static inline void make_metrics(struct maker *m, struct tree *top)
{
    static const char *const tenants[] = {"acme", "b c", "7", "t-9"};
    struct tree *metrics;

    if (!maybe(m, 3))
        return;
    metrics = put_map(m, top, "metrics");
    put_some(m, metrics, "tenants", tenants, SL_LEN(tenants), 1);
    if (maybe(m, 2))
        put_word(m, metrics, "prefix", "fluo_1");
}

static inline void make_server(struct maker *m, struct tree *top)
{
    static const char *const rows[][2] = {
        {"store",        "redis://ann:s3cret@h:6379/0"},
        {"usage",        "sqlite:./x y.db"            },
        {"memory",       "1500kB"                     },
        {"memory",       "64MiB"                      },
        {"deadline",     "20ms"                       },
        {"forward_auth", "forwarded"                  },
        {"access_token", "s3cret"                     },
        {"admin_token",  "null"                       },
    };
    static const char *const doors[] = {"http", "grpc", "resp", "admin"};
    struct tree *server, *below;

    if (maybe(m, 2))
        return;
    server = put_map(m, top, "server");
    for (unsigned i = 0; i < SL_LEN(rows); i++)
        if (i != 2 && maybe(m, 3)) /* one `memory` */
            put_word(m, server, rows[i][0],
                     rows[i == 3 && maybe(m, 2) ? 2 : i][1]);
    if (maybe(m, 3))
        put_some(m, server, "proxy_protocol", doors, SL_LEN(doors), 0);
    if (maybe(m, 2)) {
        below = put_map(m, server, "listen");
        put_word(m, below, "admin", "unix:/run/a b");
        put_word(m, below, "http", "127.0.0.1:0");
    }
    if (maybe(m, 2)) {
        below = put_map(m, server, "tls");
        put_word(m, below, "key", "./key.pem");
        put_word(m, below, "certificate", maybe(m, 4) ? "" : "cert.pem");
    }
    if (maybe(m, 3))
        put_word(m, put_map(m, server, "log"), "level", "warn");
}

#endif
