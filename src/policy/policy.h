/* policy.h -- a checked policy: immutable and reference counted.
 *
 * sl_policy_read() makes a policy from the text of a file, or reports every
 * problem of the file. Names become indices, rates checked integers, texts
 * pieces, so that a decision needs no lookup by name and cannot fail.
 *
 * All memory is in the policy's arena and is freed with the last reference.
 *
 * A limit of a policy is a rule here: a name, its scopes, and numbers for each
 * plan.
 */
#ifndef SL_POLICY_POLICY_H
#define SL_POLICY_POLICY_H

#include "base/buf.h"
#include "base/ip.h"
#include "core/limit.h"
#include "policy/key.h"
#include "policy/report.h"
#include "policy/route.h"
#include "policy/template.h"
#include "table/table.h"
#include "wire/webhook.h"

/* ---- what a route asks of a request before its limits.
 *
 *   verify    is the webhook from whom it says?            401
 *   require   are its headers within bounds?               400, or as written
 *   backlog   is there too much work waiting already?      503
 *   dedupe    has the same been answered before?           as then; 409, 422
 *   guard     is another one running?                      409
 *
 * In this order, and each only where a route has it: most routes have none.
 * A guard is taken together with the limits, all or none.
 */

#define SL_REQUIRES_MAX      16 /* of one route */
#define SL_DEDUPE_FIELDS_MAX 16 /* of a fingerprint */
#define SL_GUARD_VALUES      4  /* of one guard's key */

/* In the names of guards' keys, and in no other's. */
#define SL_GUARD_NAME "#guard"

/* `verify`: which webhooks are valid. */
struct sl_verify {
    bool written; /* false: none of it, and all else is empty */
    struct sl_webhook_rules rules;
    struct sl_str header;   /* as written, in lower case, or the usual one */
    struct sl_str names[3]; /* its headers: id, timestamp, signature */
};

/* What must be the same in a request that is called a repeat. */
enum sl_dedupe_field_kind {
    SL_DEDUPE_FIELD_METHOD,
    SL_DEDUPE_FIELD_PATH, /* or the job */
    SL_DEDUPE_FIELD_COST,
    SL_DEDUPE_FIELD_BODY, /* if there is one */
    SL_DEDUPE_FIELD_HEADER,
};

struct sl_dedupe_field {
    enum sl_dedupe_field_kind kind;
    struct sl_str header;
};

extern const char *const sl_dedupe_field_words[4]; /* all but headers */

/* Which requests are one. */
struct sl_dedupe {
    bool written;
    struct sl_str header; /* the key comes in it */
    sl_ns life;           /* how long an answer is remembered */
    unsigned repeats;     /* that are answered by one */
    const struct sl_dedupe_field *traits;
    unsigned trait_count;
};

/* What a header must be. */
struct sl_require {
    struct sl_str header;
    bool has_min, has_max;
    uint64_t min, max;
    struct sl_str equals; /* another header; "": none */
    bool optional;        /* it may be missing */
    int status;
    struct sl_str code;
    struct sl_template message; /* no pieces: our own */
};

/* How much work may wait. */
struct sl_backlog {
    bool written;
    unsigned index; /* into the policy's backlogs */
    uint64_t max;
    sl_ns retry_after;
    sl_ns stale; /* an older report says nothing */
};

/* A piece of a guard's key: a literal, a header, or a scope. */
struct sl_guard_piece {
    struct sl_str literal;           /* "": it is a value */
    const struct sl_require *header; /* NULL: it is none */
    unsigned scope;                  /* then: enum sl_scope */
};

/* What is done by one at a time. Routes whose keys come out alike guard the
 * same thing. */
struct sl_guard {
    bool written;
    struct sl_str text; /* the key, as written */
    const struct sl_guard_piece *pieces;
    unsigned count;
    sl_ns hold; /* default duration; > 0 */
    bool skip;  /* who lacks a value of the key is not guarded */
};

struct sl_prechecks {
    const struct sl_prechecks *next; /* of the policy's: any order */
    struct sl_verify verify;
    struct sl_dedupe dedupe;
    struct sl_backlog backlog;
    const struct sl_require *requires;
    unsigned require_count;
    struct sl_guard guard;
};

/* Is the header one of those that a guard looks at? */
bool sl_prechecks_read(const struct sl_prechecks *guards, struct sl_str header);

enum sl_mode { SL_MODE_ENFORCE, SL_MODE_SHADOW, SL_MODE_OFF };
enum sl_missing { SL_MISSING_ANONYMOUS, SL_MISSING_SKIP, SL_MISSING_DENY };
enum sl_anonymous { SL_ANONYMOUS_LIMIT, SL_ANONYMOUS_PASS, SL_ANONYMOUS_DENY };
/* Subjects that the registry does not have. */
enum sl_unknown { SL_UNKNOWN_DEFAULT, SL_UNKNOWN_PASS, SL_UNKNOWN_DENY };
enum sl_reset { SL_RESET_FULL, SL_RESET_NEXT };

/* The descriptors of a request: all or none, each for itself, or so that it is
 * denied only if all of these are. */
enum sl_count { SL_COUNT_ALL, SL_COUNT_EACH, SL_COUNT_QUOTA };

/* The header in which proxies send the address of the client. */
enum sl_forwarded { SL_FORWARDED_X_FOR, SL_FORWARDED_RFC7239 };

/* The usage of a caller from before sign-in. */
enum sl_sign_in { SL_SIGN_IN_FRESH, SL_SIGN_IN_CARRY, SL_SIGN_IN_CAP };

/* The decision if the store does not answer; a larger value is stricter. */
enum sl_failure { SL_FAILURE_ALLOW, SL_FAILURE_LOCAL, SL_FAILURE_DENY };

/* How each of these is written in a policy, by its value. */
extern const char *const sl_mode_words[3];
extern const char *const sl_forwarded_words[2];
extern const char *const sl_failure_words[3];

/* Algorithms of tokens, in the order of the bits of enum
 * sl_token_algorithm. */
#define SL_ALGORITHMS 13
extern const char *const sl_algorithm_words[SL_ALGORITHMS];

/* Dialects of headers, as bits. 0 is none. */
enum sl_dialect {
    SL_DIALECT_X_RATELIMIT = 1 << 0,
    SL_DIALECT_IETF = 1 << 1,
    SL_DIALECT_IETF_06 = 1 << 2,
    SL_DIALECT_GITHUB = 1 << 3,
    SL_DIALECT_OPENAI = 1 << 4,
    SL_DIALECT_KONG = 1 << 5,
};

/* What a limit can be kept per. Those after SL_SCOPE_NAMED are named under
 * `identity` in the policy. */
enum sl_scope {
    SL_SCOPE_USER,
    SL_SCOPE_ORG,
    SL_SCOPE_IP,
    SL_SCOPE_ANON,
    SL_SCOPE_ENDPOINT,
    SL_SCOPE_DESCRIPTOR, /* what a descriptor's route leaves open */
    SL_SCOPE_NAMED,
    SL_SCOPES = 17
};

enum sl_source_kind {
    SL_SOURCE_HEADER,  /* header.NAME; NAME in lower case */
    SL_SOURCE_IP,      /* ip; only in `anonymous` */
    SL_SOURCE_JWT,     /* jwt.CLAIM; the claim's path, as in "realm.role" */
    SL_SOURCE_COOKIE,  /* cookie.NAME, in exactly that spelling */
    SL_SOURCE_SUBJECT, /* subject.plan, subject.role: the registry */
};

struct sl_source {
    enum sl_source_kind kind;
    struct sl_str name;
};

struct sl_sources {
    const struct sl_source *list; /* the first one present wins */
    unsigned count;
};

/* `identity: jwt`: which tokens are valid. */
struct sl_jwt {
    bool written;           /* false: none, and all else is empty */
    struct sl_sources from; /* headers and cookies that a token comes in */
    unsigned algorithms;    /* bits, as sl_algorithm_words; 0: the keys' */
    struct sl_str jwks;     /* "file:PATH" or a URL; or else */
    struct sl_str secret;   /* of HMAC; exactly one of the two is there */
    struct sl_str issuer;   /* "": any */
    const struct sl_str *audiences;
    unsigned audience_count; /* 0: any */
    sl_ns leeway;
    sl_ns stale; /* how long keys serve that can't be fetched anew */
    bool expiry_optional;
};

/* `identity: subjects`: plans in the user's own tables. */
enum sl_asked { SL_ASKED_ANY, SL_ASKED_USER, SL_ASKED_ORG };
struct sl_plan_query {
    struct sl_str text; /* "": none, and all else is empty */
    enum sl_asked scope;
    sl_ns life; /* of an answer */
};

struct sl_identity {
    struct sl_str scope_names[SL_SCOPES]; /* "user", "org", ... */
    unsigned scope_count;
    struct sl_sources scopes[SL_SCOPES]; /* user, org and the named ones */
    struct sl_sources plan, role;
    struct sl_sources anonymous; /* [ip] if not written */
    bool anonymous_is_ip;        /* [ip] alone: scope `ip`, else `anon` */
    const struct sl_net *trusted;
    unsigned trusted_count;
    unsigned ipv6_prefix;
    enum sl_forwarded forwarded;
    enum sl_unknown unknown_subject;
    struct sl_jwt jwt;
    struct sl_plan_query subjects;
};

struct sl_plan {
    struct sl_str name;
    const struct sl_str *aliases;
    unsigned alias_count;
    bool overage;
    unsigned weight; /* turns in a row when it waits with others; >= 1 */
};

/* A policy without plans has one, called "default". */
struct sl_plans {
    const struct sl_plan *list;
    unsigned count;     /* >= 1 */
    unsigned fallback;  /* index: `default` */
    unsigned anonymous; /* index */
    bool deny_unknown;  /* unknown_plan: deny */
};

/* What a rule says to the callers of one plan. */
struct sl_plan_limit {
    enum sl_rate_form form; /* PER and PLAIN: numbers count */
    struct sl_limit numbers;
    bool overage;         /* quota of a plan with overage: goes on, counted */
    struct sl_limit open; /* overage: the same, without a ceiling */
};

struct sl_deny {
    int status;                 /* 429, or what was written */
    struct sl_str code;         /* "RATE_LIMITED" */
    struct sl_template message; /* no pieces: the default */
};

struct sl_rule {
    struct sl_str name;
    unsigned index;
    enum sl_kind kind;        /* SL_INTERVAL for `refill: interval` */
    unsigned per[SL_PER_MAX]; /* scopes */
    unsigned per_count;       /* 0: one for all */
    enum sl_missing missing;
    enum sl_mode mode; /* already combined with the policy's */
    enum sl_failure failure;
    enum sl_on_full on_full;
    struct sl_thresholds thresholds; /* `thresholds` */
    uint64_t cost;   /* of a request that names none; 1 if not written */
    bool fixed_cost; /* it was written: settling a hold leaves it alone */
    sl_ns hold;      /* permits: default duration; else 0 */
    unsigned queue;  /* how many may wait for it, in one process */
    unsigned lease;  /* percent of the capacity; 0: nothing is leased */
    bool carried;    /* a route carries to it what visitors have used */
    struct sl_str unit;
    struct sl_deny deny;
    struct sl_key_template key;
    struct sl_str key_text;
    struct sl_str endpoint; /* the only one that has it; empty: none, or many */
    unsigned tag; /* on a cluster: which of `per` says where it lies, from 1;
                   * 0: none; see slots.h */
    int dialects; /* bits; -1: the route's */
    const struct sl_plan_limit *plans; /* by plan */
    bool has_candidate;
    const struct sl_plan_limit *candidates; /* by plan, if has_candidate */

    /* For the table: the smallest count and capacity over the plans (and of
     * the candidates). `limited` is false if no plan has numbers. */
    bool limited;
    struct sl_limit strictest;
    struct sl_limit candidate_strictest;

    /* For overrides: what sl_limit_init() needs to read another rate. */
    struct sl_limit_options options;
    struct sl_str zone_name;
    struct sl_source_pos place;
};

struct sl_feature {
    struct sl_str name;
    bool enabled; /* of the file and the environment */
    struct sl_template message;
    sl_ns retry_after; /* SL_NS_NONE if not written */
};

#define SL_NO_FEATURE UINT32_MAX

struct sl_route {
    unsigned index;
    struct sl_str text; /* "GET /api/search", "job transcribe", "default" */
    bool is_job;
    struct sl_str job;
    bool is_descriptor;
    struct sl_descriptor descriptor;
    struct sl_pattern pattern; /* of the others */
    struct sl_str endpoint; /* if not written: made from the pattern or job */
    bool names_endpoint;    /* it was written */
    enum sl_anonymous anonymous;
    enum sl_sign_in sign_in;
    unsigned feature; /* index or SL_NO_FEATURE */
    const struct sl_str *roles;
    unsigned role_count; /* 0: all roles */
    const struct sl_rule *const *rules;
    unsigned rule_count; /* <= SL_PARTS */
    int report;          /* index into rules; -1: the tightest */
    int quota;           /* whose X-Org-Quota-Remaining: index into rules; -1:
                          * the tightest quota */
    int dialects;
    enum sl_reset reset;
    int failure; /* enum sl_failure; -1: each rule's own */
    sl_ns wait;  /* for a turn; 0: not */
    bool apart;  /* `atomic: false`: on a cluster they may lie apart */
    enum sl_count count;
    const struct sl_rule *const *replaces; /* limits that do not count beside
                                            * this route in one request */
    unsigned replace_count;
    const struct sl_prechecks *guards; /* NULL: none */
    struct sl_source_pos place;
};

enum sl_error {
    SL_ERROR_RATE_LIMITED, /* 429 */
    SL_ERROR_PLAN_LIMIT,   /* 402 */
    SL_ERROR_FORBIDDEN,    /* 403 */
    SL_ERROR_UNAUTHORIZED, /* 401 */
    SL_ERROR_CONFLICT,     /* 409 */
    SL_ERROR_UNAVAILABLE,  /* 503 */
    SL_ERRORS
};

struct sl_error_form {
    int status;    /* 0: what the verdict has */
    bool has_body; /* false: problem+json */
    struct sl_template body;
    struct sl_str printed; /* the body as one line of YAML; print.h */
};

/* Settings of the daemon, as written; empty texts were not. */
struct sl_server_conf {
    bool has_listen;
    struct sl_str http, grpc, resp, admin;
    struct sl_str store, usage;
    uint64_t memory;      /* bytes; 0: not written */
    uint64_t idempotency; /* likewise: for repeats */
    unsigned waiting;     /* requests; 0: not written */
    sl_ns deadline;       /* 0: not written */
    struct sl_str forward_auth;
    struct sl_str proxy_protocol; /* "http,resp" */
    struct sl_str access_token, admin_token;
    struct sl_str tls_certificate, tls_key, tls_client_ca;
    struct sl_str log_level, log_format;
};

/* The value of the key below `server` ("log.level") as a policy writes it;
 * empty if it was not written or there is no such key. `room` is used for it.
 */
#define SL_SERVER_TEXT 64
struct sl_str sl_server_conf_text(const struct sl_server_conf *conf,
                                  const char *key, char room[SL_SERVER_TEXT]);

/* A value from ${ENV:...} or ${FILE:...}. It can be a secret: a print of the
 * policy shows what was written. */
struct sl_external_value {
    struct sl_str path; /* keys and, in lists, indices from the top down, a
                         * newline before each */
    struct sl_str text;
    struct sl_str written; /* "${ENV:NAME}" */
};

struct sl_policy {
    struct sl_str env;
    bool enabled;
    enum sl_mode mode;
    struct sl_plans plans;
    struct sl_identity identity;
    const struct sl_rule *rules;
    unsigned rule_count;
    unsigned rule_total; /* with one more behind them, by which routes' guards
                          * are kept, if there are any */
    const struct sl_route *routes; /* in the order of the file */
    unsigned route_count;
    bool counts_each;            /* one of them has not `count: all` */
    const unsigned *descriptors; /* indices of those for descriptors */
    unsigned descriptor_count;
    struct sl_route fallback; /* `default` */
    struct sl_routes *tree;   /* by index of routes */
    const struct sl_feature *features;
    unsigned feature_count;
    const struct sl_prechecks *guarded; /* those of all routes, in a row */
    const struct sl_str *backlogs;      /* names of those that routes have */
    unsigned backlog_count;
    int dialects;
    enum sl_reset reset;
    sl_ns hold_max; /* > 0 */
    struct sl_error_form errors[SL_ERRORS];
    struct sl_server_conf server;
    const struct sl_external_value *outside; /* by path; not those of bodies */
    unsigned outside_count;
    struct sl_str file; /* as it was named */
};

struct sl_policy_options {
    const struct sl_alloc *alloc;      /* NULL: libc's */
    struct sl_yaml_options substitute; /* ${ENV:...}, ${FILE:...} */
    /* FEATURE_NAME of the environment switches features; also through
     * substitute.env. */
};

/* Make a policy of report->text. On success *ret is a policy with one
 * reference and the report has at most warnings. SLUICE_ECONF if the report
 * has errors, SLUICE_ENOMEM without memory. */
SL_MUST_USE int sl_policy_read(struct sl_report *report,
                               const struct sl_policy_options *options,
                               struct sl_policy **ret);

/* One more user, one less. The last one frees it. NULL is allowed. */
struct sl_policy *sl_policy_ref(struct sl_policy *policy);
void sl_policy_unref(struct sl_policy *policy);

/* Lookups by name; indices, or -1. Plans also by alias and without case. */
int sl_policy_plan(const struct sl_policy *policy, struct sl_str name);
int sl_policy_rule(const struct sl_policy *policy, struct sl_str name);
int sl_policy_feature(const struct sl_policy *policy, struct sl_str name);
int sl_policy_job(const struct sl_policy *policy, struct sl_str name);

/* The first route for descriptors that matches; -1 if none does. */
int sl_policy_descriptor(const struct sl_policy *policy, struct sl_str domain,
                         const struct sl_descriptor_entry *entries,
                         unsigned count);

/* The numbers of `rule` for a rate text other than its plans': an override.
 * Refuses another period, as that would start afresh. */
SL_MUST_USE int sl_rule_rate(const struct sl_rule *rule, struct sl_str rate,
                             struct sl_plan_limit *ret, struct sl_diag *diag);

/* ---- a checked policy as text again: what was understood.
 *
 * The text is a policy file in one canonical form: every default is written
 * out, every plan has its rate, names are in the order of the file. Who reads
 * it sees what will be done; read again, it decides alike.
 *
 * Secrets are left out. Tokens, and passwords in the addresses of stores, are
 * "(secret)". What came from the environment or from a file is shown as it was
 * written, "${ENV:NAME}", and means the same where that means the same. What
 * only follows from such a value is not written out.
 *
 * Invariants. (test/prop/policy.c checks each by number, for random policies.)
 *   (1) The print is read without problems that the policy did not have.
 *   (2) Printing what was read gives the same bytes.
 *   (3) The two policies decide alike.
 *   (4) What came from outside is shown as it was written.
 * A print can be larger than a file may be, since all is written out: then
 * only people can read it.
 */

struct sl_policy;

/* Append the policy. SLUICE_EFULL, SLUICE_ENOMEM: nothing was appended. */
SL_MUST_USE int sl_policy_print(const struct sl_policy *policy,
                                struct sl_buf *out);

/* ---- what a new policy changes: the reload diff.
 *
 * One line for each change: first the top level, then limits, plans, routes,
 * features and identity:
 *
 *     ai-minute free 5/min -> 10/min; usage kept
 *     limit search added
 *     limit exports: kind fixed-window -> quota; usage reset
 *     route GET /api/search: limits [search] -> [search, api]
 *
 * Usage belongs to a limit's name, kind, `per` and period. A change of one of
 * these resets it, and the line says "usage reset".
 */

/* Append the lines, each with a newline behind it; none if the two decide
 * alike. `server` is not looked at: the daemon knows which of its settings it
 * can change. SLUICE_ENOMEM or SLUICE_EFULL; then `out` has some of them. */
SL_MUST_USE int sl_policy_diff(const struct sl_policy *old,
                               const struct sl_policy *new, struct sl_buf *out);

/* Append the rate of a plan as a policy writes it: "5/min burst 8",
 * "120/month", "unlimited". */
SL_MUST_USE int sl_rate_print(const struct sl_plan_limit *limit,
                              struct sl_buf *out);

/* ---- where the states of a policy lie in a Redis Cluster.
 *
 * A cluster takes a set in one step only if all of its names lie in one slot,
 * and a slot is chosen by what stands in braces in a name. So each limit has a
 * value that is put in braces there: one that it shares with the limits that
 * it is taken with, if there is one.
 *
 *     per: org           ratelimit:tenant:{acme}
 *     per: [org, user]   ratelimit:user:{acme}:ann
 *
 * Elsewhere there are no braces, and names are as the templates have them.
 */

/* Choose rule->tag of all rules, by the routes that need them together.
 * SLUICE_ENOMEM if `scratch` has no room. */
SL_MUST_USE int sl_slots_choose(const struct sl_policy *policy,
                                struct sl_rule *rules,
                                struct sl_arena *scratch);

/* Can the policy be kept on a cluster? SLUICE_ECONF with a sentence, and *place
 * is where the first thing stands that can't. */
SL_MUST_USE int sl_slots_check(const struct sl_policy *policy,
                               struct sl_source_pos *place,
                               struct sl_diag *diag);

/* Is that the URL of a cluster? */
bool sl_slots_wanted(struct sl_str store);

/* ---- holds, which not every store has.
 *
 * Permits and guards are holds: they end when they are released or expire. In a
 * store without holds a permit would stay taken, so that such a policy is
 * refused when it is loaded.
 */

/* Can the policy be kept in a store without holds? SLUICE_ECONF with a
 * sentence, and *place is where the first thing stands that can't. */
SL_MUST_USE int sl_store_support_check(const struct sl_policy *policy,
                                       struct sl_source_pos *place,
                                       struct sl_diag *diag);

/* Is that the URL of a store without holds? */
bool sl_store_support_lacks_holds(struct sl_str store);

#endif
