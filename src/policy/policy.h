/* policy.h -- a checked policy: immutable and reference counted.
 *
 * sl_policy_read() makes a policy from the text of a file, or reports every
 * problem of the file. A decision needs no lookup by name and cannot fail. All
 * memory is in the policy's arena and is freed with the last reference.
 *
 * An entry of `limits` is a rule: a name, scopes, and numbers for each plan.
 */
#ifndef SL_POLICY_POLICY_H
#define SL_POLICY_POLICY_H

#include "base/buf.h"
#include "base/ip.h"
#include "core/limit.h"
#include "policy/diagnostics.h"
#include "policy/key.h"
#include "policy/route.h"
#include "policy/template.h"
#include "table/table.h"
#include "wire/webhook.h"

/* ---- prechecks of a route, in this order.
 *
 *   verify    is the signature of the webhook valid?       401
 *   require   are its headers within bounds?               400, or as written
 *   cost      can the cost be read from it?                400
 *   backlog   is too much work waiting?                    503
 *   dedupe    is it a repeat?                              saved; 409, 422
 *   guard     is another request with the key running?     409
 *
 * A guard is taken together with the limits, all or none.
 */

#define SL_REQUIRES_MAX      16 /* of one route */
#define SL_DEDUPE_FIELDS_MAX 16 /* of a fingerprint */
#define SL_GUARD_VALUES      4  /* of one guard's key */

#define SL_BODY_READ ((size_t)1 << 20) /* larger bodies are not read */

/* In the keys of guards only. */
#define SL_GUARD_NAME "#guard"

/* Behind the names of limits and of their keys, for penalties. */
#define SL_PENALTY_NAME "#penalty"

/* `verify`: which webhooks are valid. */
struct sl_verify {
    bool written; /* false: the rest is empty */
    struct sl_webhook_rules rules;
    struct sl_str header;   /* in lower case */
    struct sl_str names[3]; /* headers: id, timestamp, signature */
};

/* What must be the same in a repeat. */
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

struct sl_dedupe {
    bool written;
    struct sl_str header;  /* with the key, or: */
    struct sl_str pointer; /* of a member of the JSON body; "": a header */
    sl_ns life;            /* of a saved answer */
    unsigned repeats;      /* free ones */
    const struct sl_dedupe_field *traits;
    unsigned trait_count;
};

struct sl_require {
    struct sl_str header;
    bool has_min, has_max;
    uint64_t min, max;
    struct sl_str equals; /* another header; "": none */
    bool optional;
    int status;
    struct sl_str code;
    struct sl_template message; /* no pieces: the default */
};

struct sl_backlog {
    bool written;
    unsigned index; /* into the policy's backlogs */
    uint64_t max;
    sl_ns retry_after;
    sl_ns stale; /* older reports are ignored */
};

/* A piece of a guard's key: a literal, a header, or a scope. */
struct sl_guard_piece {
    struct sl_str literal;           /* "": a header or a scope */
    const struct sl_require *header; /* NULL: a scope */
    unsigned scope;                  /* enum sl_scope */
};

/* Routes with equal keys share a guard. */
struct sl_guard {
    bool written;
    struct sl_str text; /* the key, as written */
    const struct sl_guard_piece *pieces;
    unsigned count;
    sl_ns hold; /* default duration; > 0 */
    bool skip;  /* requests without a value of the key are not guarded */
};

/* Where the cost of a request comes from that gives none. */
enum sl_cost_from {
    SL_COST_FROM_POLICY,
    SL_COST_FROM_HEADER,
    SL_COST_FROM_BODY, /* a member of the JSON body */
    SL_COST_FROM_SIZE, /* of the body */
};

struct sl_route_cost {
    const struct sl_rule *rule; /* NULL: every limit but permits */
    enum sl_cost_from from;
    struct sl_str text;   /* as written */
    struct sl_str source; /* HEADER: its name; BODY: a JSON pointer */
    uint64_t bytes;       /* SIZE: of a unit; > 0 */
    bool has_default;
    uint64_t number; /* POLICY, or the default; > 0 */
};

struct sl_prechecks {
    const struct sl_prechecks *next; /* all of the policy, in any order */
    struct sl_verify verify;
    struct sl_dedupe dedupe;
    struct sl_backlog backlog;
    const struct sl_require *requires;
    unsigned require_count;
    const struct sl_route_cost *costs;
    unsigned cost_count;
    struct sl_guard guard;
};

/* Does a precheck read the header? */
bool sl_prechecks_read(const struct sl_prechecks *guards, struct sl_str header);

enum sl_mode { SL_MODE_ENFORCE, SL_MODE_SHADOW, SL_MODE_OFF };
enum sl_missing { SL_MISSING_ANONYMOUS, SL_MISSING_SKIP, SL_MISSING_DENY };
/* When a limit is charged. */
enum sl_charge { SL_CHARGE_ON_CHECK, SL_CHARGE_ON_REPORT };
enum sl_anonymous { SL_ANONYMOUS_LIMIT, SL_ANONYMOUS_PASS, SL_ANONYMOUS_DENY };
/* Subjects that the registry does not have. */
enum sl_unknown { SL_UNKNOWN_DEFAULT, SL_UNKNOWN_PASS, SL_UNKNOWN_DENY };
enum sl_reset { SL_RESET_FULL, SL_RESET_NEXT };

/* The descriptors of a request: all or none, each on its own, or each on its
 * own and denied only if all of them are. */
enum sl_count { SL_COUNT_ALL, SL_COUNT_EACH, SL_COUNT_QUOTA };

/* The header in which proxies send the address of the client. */
enum sl_forwarded { SL_FORWARDED_X_FOR, SL_FORWARDED_RFC7239 };

/* The usage of a caller from before sign-in. */
enum sl_sign_in { SL_SIGN_IN_FRESH, SL_SIGN_IN_CARRY, SL_SIGN_IN_CAP };

/* The decision if the store does not answer; a larger value is stricter. */
enum sl_failure { SL_FAILURE_ALLOW, SL_FAILURE_LOCAL, SL_FAILURE_DENY };

/* The words of the enums, by value. */
extern const char *const sl_mode_words[3];
extern const char *const sl_forwarded_words[2];
extern const char *const sl_failure_words[3];

/* Of tokens: bits of enum sl_token_algorithm, ALGORITHMS of schema.def. */
#define SL_ALGORITHMS 13

/* Dialects of headers, as bits. 0 is none. */
enum sl_dialect {
    SL_DIALECT_X_RATELIMIT = 1 << 0,
    SL_DIALECT_IETF = 1 << 1,
    SL_DIALECT_IETF_06 = 1 << 2,
    SL_DIALECT_GITHUB = 1 << 3,
    SL_DIALECT_OPENAI = 1 << 4,
    SL_DIALECT_KONG = 1 << 5,
};

/* From SL_SCOPE_NAMED on, scopes are defined under `identity`. */
enum sl_scope {
    SL_SCOPE_USER,
    SL_SCOPE_ORG,
    SL_SCOPE_IP,
    SL_SCOPE_ANON,
    SL_SCOPE_ENDPOINT,
    SL_SCOPE_DESCRIPTOR, /* values that the pattern leaves open */
    SL_SCOPE_NAMED,
    SL_SCOPES = 17
};

enum sl_source_kind {
    SL_SOURCE_HEADER,  /* header.NAME; NAME in lower case */
    SL_SOURCE_IP,      /* ip; only in `anonymous` */
    SL_SOURCE_JWT,     /* jwt.CLAIM; a path like "realm.role" */
    SL_SOURCE_COOKIE,  /* cookie.NAME, case-sensitive */
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
    bool written;           /* false: the rest is empty */
    struct sl_sources from; /* headers and cookies */
    unsigned algorithms;    /* bits; 0: those of the keys */
    struct sl_str jwks;     /* "file:PATH" or a URL; or: */
    struct sl_str secret;   /* of HMAC; exactly one of the two is set */
    struct sl_str issuer;   /* "": any */
    const struct sl_str *audiences;
    unsigned audience_count; /* 0: any */
    sl_ns leeway;
    sl_ns stale; /* how long keys are used that cannot be fetched again */
    bool expiry_optional;
};

/* Why a text is not a URL to fetch keys from, or NULL: "has no host...". */
const char *sl_jwks_url_error(struct sl_str text);

/* `identity: subjects`: plans in the user's own tables. */
enum sl_asked { SL_ASKED_ANY, SL_ASKED_USER, SL_ASKED_ORG };
struct sl_plan_query {
    struct sl_str text; /* "": none */
    enum sl_asked scope;
    sl_ns life; /* of an answer */
};

struct sl_identity {
    struct sl_str scope_names[SL_SCOPES]; /* "user", "org", ... */
    unsigned scope_count;
    struct sl_sources scopes[SL_SCOPES]; /* user, org and named scopes */
    struct sl_sources plan, role;
    struct sl_sources anonymous; /* default: [ip] */
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
    unsigned weight; /* requests in a row in a wait queue; >= 1 */
};

/* ---- `when` and `exempt`: conditions on a request ---- */

enum sl_condition_of {
    SL_CONDITION_HEADER,
    SL_CONDITION_CLAIM, /* of a verified token */
    SL_CONDITION_IP,
    SL_CONDITION_METHOD,
    SL_CONDITION_PLAN,
    SL_CONDITION_ROLE,
    SL_CONDITION_USER,
    SL_CONDITION_ORG,
};

/* Holds if one of the values matches; * in a value is any number of
 * characters. */
struct sl_condition {
    enum sl_condition_of of;
    unsigned item;      /* of the list: all conditions of an item hold, or it
                         * does not */
    struct sl_str key;  /* as written: "header.x-client" */
    struct sl_str name; /* HEADER, CLAIM */
    const struct sl_str *values;
    unsigned value_count;
    const struct sl_net *nets; /* IP */
    unsigned net_count;
    uint64_t plans[4]; /* PLAN: bits */
    bool is_hidden;    /* a value from ENV or FILE can be a secret */
};

struct sl_conditions {
    const struct sl_conditions *next; /* all of the policy, in any order */
    const struct sl_condition *list;  /* by item */
    unsigned count;                   /* 0: none */
};

/* A policy without plans has one, called "default". */
struct sl_plans {
    const struct sl_plan *list;
    unsigned count;     /* >= 1 */
    unsigned fallback;  /* index: `default` */
    unsigned anonymous; /* index */
    bool deny_unknown;  /* unknown_plan: deny */
};

/* The numbers of a rule for one plan. */
struct sl_plan_limit {
    enum sl_rate_form form; /* PER and PLAIN have numbers */
    struct sl_limit numbers;
    uint64_t scale;       /* `numbers` are multiples of it; 0: 1 */
    bool overage;         /* a quota that is not denied above its count */
    struct sl_limit open; /* overage: the same without a maximum */
};

struct sl_deny {
    int status;
    struct sl_str code;         /* "RATE_LIMITED" */
    struct sl_template message; /* no pieces: the default */
};

struct sl_rule {
    struct sl_str name;
    unsigned index;
    enum sl_kind kind;        /* SL_INTERVAL for `refill: interval` */
    unsigned per[SL_PER_MAX]; /* scopes */
    unsigned per_count;       /* 0: one count for all callers */
    enum sl_missing missing;
    enum sl_mode mode; /* the weaker one of its own and the policy's */
    enum sl_failure failure;
    enum sl_on_full on_full;
    struct sl_thresholds thresholds;
    uint64_t cost;   /* of a request without a cost */
    bool fixed_cost; /* `cost` is written: settling does not change it */
    enum sl_charge charge;
    struct sl_str credits_name;    /* `credits`; "": none */
    const struct sl_rule *credits; /* the quota that pays for what this limit
                                    * denies; NULL: none */
    struct sl_penalty_rate penalty;
    const struct sl_rule *penalty_rule; /* behind the rule of guards; NULL: it
                                         * has no penalty */
    sl_ns hold;                         /* permits: default duration; else 0 */
    unsigned queue;        /* maximum of waiting requests, in one process */
    unsigned lease;        /* percent of the capacity; 0: no lease */
    bool carried;          /* by `sign_in: carry` of a route */
    struct sl_str unit;    /* of the numbers in the policy; "": none */
    struct sl_str reports; /* with a scale: the name of the counted unit */
    struct sl_deny deny;
    struct sl_key_template key;
    struct sl_str key_text;
    struct sl_str endpoint; /* the only endpoint; "": none or several */
    unsigned tag;           /* which of `per` is the cluster hash tag, from 1;
                             * 0: none */
    int dialects;           /* bits; -1: the route's */
    const struct sl_plan_limit *plans; /* by plan */
    bool has_candidate;
    const struct sl_plan_limit *candidates; /* by plan, if has_candidate */

    /* The smallest count and capacity over the plans, and of the candidates.
     * `limited` is false if no plan has numbers. */
    bool limited;
    struct sl_limit strictest;
    struct sl_limit candidate_strictest;

    /* For the rates of the plans and of overrides. */
    struct sl_limit_options options;
    struct sl_str zone_name;
    struct sl_conditions when; /* all must hold, or the limit does not apply */
    struct sl_source_pos place;
};

struct sl_feature {
    struct sl_str name;
    bool enabled; /* by the file and the environment */
    struct sl_template message;
    sl_ns retry_after; /* SL_NS_NONE: none */
};

#define SL_NO_FEATURE UINT32_MAX

struct sl_route {
    unsigned index;
    struct sl_str text; /* "GET /api/search", "job transcribe", "default" */
    bool is_job;
    struct sl_str job;
    bool is_descriptor;
    struct sl_descriptor descriptor;
    struct sl_pattern pattern; /* neither job nor descriptor */
    struct sl_str endpoint;    /* default: from the pattern or job */
    bool names_endpoint;       /* `endpoint` is written */
    enum sl_anonymous anonymous;
    enum sl_sign_in sign_in;
    unsigned feature; /* index or SL_NO_FEATURE */
    const struct sl_str *roles;
    unsigned role_count; /* 0: all roles */
    const struct sl_rule *const *rules;
    unsigned rule_count; /* <= SL_PARTS */
    int report;          /* index into rules; -1: the tightest */
    int quota;           /* the same for X-Org-Quota-Remaining */
    int dialects;
    enum sl_reset reset;
    int failure; /* enum sl_failure; -1: each rule's own */
    sl_ns wait;  /* for capacity; 0: not */
    bool apart;  /* `atomic: false`: may be in several cluster slots */
    enum sl_count count;
    const struct sl_rule *const *replaces;
    unsigned replace_count;
    const struct sl_prechecks *guards; /* NULL: none */
    struct sl_conditions when;   /* all must hold, or the next route is tried */
    struct sl_conditions exempt; /* one item must hold: no limits */
    struct sl_source_pos place;
};

enum sl_error {
    SL_ERROR_RATE_LIMITED, /* 429 */
    SL_ERROR_PLAN_LIMIT,   /* 402 */
    SL_ERROR_FORBIDDEN,    /* 403 */
    SL_ERROR_UNAUTHORIZED, /* 401 */
    SL_ERROR_CONFLICT,     /* 409 */
    SL_ERROR_UNAVAILABLE,  /* 503 */
    SL_ERROR_BAD_REQUEST,  /* 400, 413, 414, 422 */
    SL_ERRORS
};

struct sl_error_form {
    int status;    /* 0: that of the verdict */
    bool has_body; /* false: problem+json */
    struct sl_template body;
    struct sl_str printed; /* the body as one line of YAML */
};

/* Settings of the daemon; 0 and "" are not written. */
/* Of a take from a remote store. */
#define SL_DEADLINE_LEAST SL_MS
#define SL_DEADLINE_MOST  (10 * SL_S)

struct sl_server_conf {
    bool has_listen;
    struct sl_str http, grpc, resp, admin;
    struct sl_str store, usage, state, journal;
    uint64_t memory, idempotency; /* bytes */
    unsigned waiting;             /* requests */
    sl_ns deadline;
    struct sl_str forward_auth;
    struct sl_str proxy_protocol; /* "http,resp" */
    struct sl_str hosts;          /* "a.example,b.example" */
    struct sl_str access_token, admin_token, admin_read_token;
    struct sl_str tls_certificate, tls_key, tls_client_ca;
    struct sl_str log_level, log_format;
    struct sl_str denials;                    /* "hashed", "ids" or "off" */
    struct sl_str retain_usage, retain_audit; /* ages; see sl_age_parse() */
    struct sl_str retain_denials;
    uint64_t retain_denial_rows;
};

/* `metrics`: tenants with series of their own. */
#define SL_TENANTS 50
struct sl_metrics_conf {
    const struct sl_str *tenants; /* ids of organisations */
    unsigned tenant_count;
    struct sl_str prefix; /* of the names of these series; "": "sluice" */
};

/* `webhooks`: webhooks that go out. */
enum sl_at_cap { SL_AT_CAP_REFUSE, SL_AT_CAP_HOLD };
struct sl_webhooks_conf {
    struct sl_str destination; /* as written; "": the default */
    struct sl_limit pace;      /* of a destination, unless `unlimited` */
    bool unlimited;
    struct sl_str quota;              /* name of the limit; "": none */
    const struct sl_rule *quota_rule; /* NULL: none */
    enum sl_at_cap at_cap;
    const struct sl_net *allow;
    unsigned allow_count;
    const unsigned *ports;
    unsigned port_count;
    bool insecure;
    struct sl_str operator_org; /* "": none */
};

/* Read an age: a duration of a day or more, or months of 31 days, "25month". */
SL_MUST_USE int sl_age_parse(struct sl_str text, sl_ns *ret,
                             struct sl_diag *diag);

/* The value of a key below `server` ("log.level") as a policy writes it; ""
 * if it is not written. `room` can be used for it. */
#define SL_SERVER_TEXT 64
struct sl_str sl_server_conf_text(const struct sl_server_conf *conf,
                                  const char *key, char room[SL_SERVER_TEXT]);

/* A value from ${ENV:...} or ${FILE:...}. It can be a secret: a print shows
 * what was written. */
struct sl_external_value {
    struct sl_str path; /* keys and indices, a newline before each */
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
    unsigned rule_total;           /* plus the rule of guards, if any, and
                                    * those of penalties */
    const struct sl_route *routes; /* in the order of the file */
    unsigned route_count;
    bool counts_each;            /* a route does not have `count: all` */
    const unsigned *descriptors; /* indices of the routes with descriptors */
    unsigned descriptor_count;
    struct sl_route fallback; /* `default` */
    struct sl_routes *tree;   /* by index of routes */
    const struct sl_feature *features;
    unsigned feature_count;
    const struct sl_prechecks *guarded;     /* a list of all prechecks */
    const struct sl_conditions *conditions; /* a list of all of them */
    const struct sl_str *backlogs;          /* names */
    unsigned backlog_count;
    int dialects;
    enum sl_reset reset;
    sl_ns hold_max; /* > 0 */
    struct sl_error_form errors[SL_ERRORS];
    struct sl_metrics_conf metrics;
    struct sl_webhooks_conf webhooks;
    struct sl_server_conf server;
    const struct sl_external_value *outside; /* by path; without bodies */
    unsigned outside_count;
    struct sl_str file;
};

struct sl_policy_options {
    const struct sl_alloc *alloc;      /* NULL: libc's */
    struct sl_yaml_options substitute; /* ${ENV:...}, ${FILE:...}, FEATURE_X */
    bool posted; /* it came from a client: it has no substituted values but
                  * those of `active` */
    const struct sl_policy *active; /* can be NULL */
};

/* Has the policy a value with `${KIND:NAME}` or `${KIND:NAME:-...}`? */
bool sl_policy_refers(const struct sl_policy *policy, const char *kind,
                      struct sl_str name);

/* Read report->text. On success *ret has one reference. SLUICE_ECONF: the
 * report has errors. SLUICE_ENOMEM. */
SL_MUST_USE int sl_policy_read(struct sl_report *report,
                               const struct sl_policy_options *options,
                               struct sl_policy **ret);

/* NULL is allowed. */
struct sl_policy *sl_policy_ref(struct sl_policy *policy);
void sl_policy_unref(struct sl_policy *policy);

/* The index of a name, or -1. Plans: also aliases, ignoring case. */
int sl_policy_plan(const struct sl_policy *policy, struct sl_str name);
int sl_policy_rule(const struct sl_policy *policy, struct sl_str name);
int sl_policy_feature(const struct sl_policy *policy, struct sl_str name);

/* May the limit be decided by the local table? It, its route or another limit
 * of a route has `on_store_failure: local`. */
bool sl_policy_is_local(const struct sl_policy *policy,
                        const struct sl_rule *rule);

/* The zone in which the dates of subjects and credits end: that of all quotas
 * with a calendar, or UTC if they differ or there are none. Of the policy. */
const struct sl_zone *sl_policy_date_zone(const struct sl_policy *policy);

/* The first route of the job from number `from` on, or -1. */
int sl_policy_job(const struct sl_policy *policy, struct sl_str name,
                  unsigned from);

/* The first route for descriptors that matches; -1 if none does. */
int sl_policy_descriptor(const struct sl_policy *policy, struct sl_str domain,
                         const struct sl_descriptor_entry *entries,
                         unsigned count);

/* The numbers of `rule` for the rate of an override. Refuses another period,
 * because the usage would be lost. */
SL_MUST_USE int sl_rule_rate(const struct sl_rule *rule, struct sl_str rate,
                             struct sl_plan_limit *ret, struct sl_diag *diag);

/* ---- units with a scale: `unit: { name: minutes, of: 60, reports: seconds }`.
 *
 * Stores, the usage database, costs and reports have the counted unit. The
 * policy, overrides and credits are written in units of `of`, and answers show
 * whole ones: what is left is rounded down, what was used is rounded up. Exact
 * numbers stand beside them.
 */

static inline bool sl_rule_is_scaled(const struct sl_rule *rule)
{
    return rule->options.scale > 1;
}

/* Counted units in one of the policy. */
static inline uint64_t sl_rule_scale(const struct sl_rule *rule)
{
    return sl_rule_is_scaled(rule) ? rule->options.scale : 1;
}

/* A number of the counted unit in whole units of the policy. */
static inline uint64_t sl_rule_down(const struct sl_rule *rule, uint64_t number)
{
    return sl_rule_is_scaled(rule) ? number / rule->options.scale : number;
}

static inline uint64_t sl_rule_up(const struct sl_rule *rule, uint64_t number)
{
    if (!sl_rule_is_scaled(rule) || number == 0)
        return number;
    return (number - 1) / rule->options.scale + 1;
}

/* The name of the counted unit; "": none. */
static inline struct sl_str sl_rule_counted(const struct sl_rule *rule)
{
    return sl_rule_is_scaled(rule) ? rule->reports : rule->unit;
}

/* A number of a plan's limit as the policy writes it. */
static inline uint64_t sl_plan_limit_written(const struct sl_plan_limit *limit,
                                             uint64_t number)
{
    return limit->scale > 1 ? number / limit->scale : number;
}

/* ---- a policy as text, in one canonical form.
 *
 * Defaults and the rates of all plans are written out. Tokens and passwords are
 * "(secret)". External values are shown as written, "${ENV:NAME}"; values that
 * only follow from them are left out.
 *
 * Invariants. (test/prop/policy.c checks each by number, for random policies.)
 *   (1) The print is read without problems that the policy did not have.
 *   (2) Printing what was read gives the same bytes.
 *   (3) The two policies decide alike.
 *   (4) External values are shown as written.
 * A print can be larger than the maximum of a policy file.
 */

/* Append the policy. SLUICE_EFULL, SLUICE_ENOMEM: nothing is appended. */
SL_MUST_USE int sl_policy_print(const struct sl_policy *policy,
                                struct sl_buf *out);

/* ---- the reload diff: one line for each change.
 *
 *     ai-minute free 5/min -> 10/min; usage kept
 *     limit search added
 *     limit exports: kind fixed-window -> quota; usage reset
 *     route GET /api/search: limits [search] -> [search, api]
 *
 * A change of a limit's name, kind, `per` or period resets its usage.
 */

/* Append the lines; none if both policies decide alike. `server` is not
 * compared. SLUICE_ENOMEM, SLUICE_EFULL: `out` has some of the lines. */
SL_MUST_USE int sl_policy_diff(const struct sl_policy *old,
                               const struct sl_policy *new, struct sl_buf *out);

/* Refuse a new policy that changes the counted unit of a limit, or its scale:
 * stored counts and overrides would mean something else. */
SL_MUST_USE int sl_policy_check_units(const struct sl_policy *old,
                                      const struct sl_policy *new,
                                      struct sl_diag *diag);

/* Append the rate of a plan as a policy writes it: "5/min burst 8",
 * "120/month", "unlimited". */
SL_MUST_USE int sl_rate_print(const struct sl_plan_limit *limit,
                              struct sl_buf *out);

/* ---- slots of a Redis Cluster.
 *
 * A cluster takes a set in one step only if all names are in one slot, and the
 * text in braces in a name chooses the slot. So each limit puts a value in
 * braces that it shares with the limits that it is taken with, if there is one.
 *
 *     per: org           ratelimit:tenant:{acme}
 *     per: [org, user]   ratelimit:user:{acme}:ann
 *
 * Other stores have no braces.
 */

/* Choose rule->tag of all rules, by the routes that take them together.
 * SLUICE_ENOMEM. */
SL_MUST_USE int sl_slots_choose(const struct sl_policy *policy,
                                struct sl_rule *rules,
                                struct sl_arena *scratch);

/* Can the policy run on a cluster? SLUICE_ECONF: *place is the position of the
 * first limit or route that cannot. */
SL_MUST_USE int sl_slots_check(const struct sl_policy *policy,
                               struct sl_source_pos *place,
                               struct sl_diag *diag);

/* Is it the URL of a cluster? */
bool sl_slots_wanted(struct sl_str store);

/* Can the policy run on a store without holds? Permits and guards are holds and
 * would never end there. SLUICE_ECONF as above. */
SL_MUST_USE int sl_store_support_check(const struct sl_policy *policy,
                                       struct sl_source_pos *place,
                                       struct sl_diag *diag);

/* Is it the URL of a store without holds? */
bool sl_store_support_lacks_holds(struct sl_str store);

#endif
