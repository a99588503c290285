/* sluice_policy.h -- policies and verdicts: libsluice-policy.
 *
 * A policy is a file of limits and the routes they apply to. An engine applies
 * a policy to a state. It turns a request into a decision: allowed or not, why,
 * and what to answer.
 *
 *     struct sluice_policy *policy;
 *     struct sluice_problems *problems;
 *     struct sluice_engine *engine;
 *     struct sluice_decision *decision = sluice_decision_new();
 *
 *     if (sluice_policy_load("policy.yaml", NULL, &policy, &problems))
 *         errx(3, "%s", sluice_problems_text(problems));
 *     if (sluice_engine_open(policy, NULL, &engine))
 *         errx(1, "%s", sluice_why());
 *
 *     struct sluice_request request = {
 *         .method = "GET", .path = "/api/v1/ai/extract", .user = "ann"};
 *
 *     if (sluice_decide(engine, &request, decision))
 *         errx(1, "%s", sluice_why());
 *     if (!sluice_decision_allowed(decision))
 *         reply(sluice_decision_status(decision),
 *               sluice_decision_body(decision));
 *
 * Ownership  Results are yours until _free, _close or _release. Arguments are
 *            borrowed for the length of the call, except that an engine keeps a
 *            reference to its policy.
 * Threads    Policies and engines may be shared by any number of threads. The
 *            policy of an engine may be changed while decisions are made: each
 *            decision sees one policy, the old or the new. A decision object
 *            belongs to one thread at a time.
 * Memory     A decision object keeps what it needs from one use to the next:
 *            after the first few, sluice_decide() allocates nothing.
 * Errors     0 is success; failures are negative enum sluice_err values, and
 *            sluice_why() has a sentence. A denied request is not a failure.
 *            After a failure a decision is empty: not allowed, status 0.
 */
#ifndef SLUICE_POLICY_H
#define SLUICE_POLICY_H

#include "sluice.h"

#ifdef __cplusplus
extern "C" {
#endif

struct sluice_policy;   /* a checked policy; immutable */
struct sluice_problems; /* what is wrong with a file */
struct sluice_engine;   /* a policy in force */
struct sluice_decision; /* an answer */

/* ---- policies ---- */

struct sluice_policy_options {
    /* The environment for ${ENV:NAME} and FEATURE_NAME; NULL is getenv(). */
    const char *(*env)(void *ctx, const char *name);
    void *ctx;
};

/* Read and check the policy in a file. On success *ret is yours. *problems is
 * yours in any case (also when there are only warnings, or none) and may be
 * NULL if memory ran out; pass NULL if you do not care. `options` may be NULL.
 * SLUICE_ECONF: the file was refused. SLUICE_ESYS: it could not be read, and
 * that is the one problem, at line 0. */
int sluice_policy_load(const char *path,
                       const struct sluice_policy_options *options,
                       struct sluice_policy **ret,
                       struct sluice_problems **problems);

/* The same for a text; `name` is what the problems call it, and files named in
 * it are relative to that. */
int sluice_policy_parse(const char *name, const char *text, size_t len,
                        const struct sluice_policy_options *options,
                        struct sluice_policy **ret,
                        struct sluice_problems **problems);

/* The policy as it was understood, as YAML with every default written out.
 * Read again, it decides alike. A new string, to be given back with free();
 * NULL without memory (or a policy). Secrets are left out: tokens show as
 * "(secret)". */
char *sluice_policy_print(const struct sluice_policy *policy);

/* Releases a policy; NULL is allowed. */
void sluice_policy_release(struct sluice_policy *policy);

/* What a policy has, for tools that list and complete. */
size_t sluice_policy_limits(const struct sluice_policy *policy);
size_t sluice_policy_routes(const struct sluice_policy *policy);
size_t sluice_policy_plans(const struct sluice_policy *policy);
const char *sluice_policy_limit_name(const struct sluice_policy *policy,
                                     size_t index);
const char *sluice_policy_route_text(const struct sluice_policy *policy,
                                     size_t index);
const char *sluice_policy_plan_name(const struct sluice_policy *policy,
                                    size_t index);

/* ---- problems ---- */

struct sluice_problem {
    const char *file;
    unsigned line, column; /* from 1; 0 unknown */
    const char *sentence;
    const char *hint; /* what to write instead; "" none */
    int warning;      /* 0: an error */
};

size_t sluice_problems_errors(const struct sluice_problems *problems);
size_t sluice_problems_warnings(const struct sluice_problems *problems);

/* Those that were kept, in the order of the file. At most a hundred. */
size_t sluice_problems_count(const struct sluice_problems *problems);
struct sluice_problem
sluice_problems_get(const struct sluice_problems *problems, size_t index);

/* All of them as text, each with its line and a caret; "" if there are none. */
const char *sluice_problems_text(const struct sluice_problems *problems);

void sluice_problems_free(struct sluice_problems *problems);

/* The language: its JSON Schema, and its reference page in Markdown. A new
 * string, to be given back with free(); NULL without memory. */
char *sluice_schema_json(void);
char *sluice_schema_page(void);

/* ---- engines ---- */

/* Zeros are good defaults. */
struct sluice_engine_options {
    const char *path; /* state in this file; NULL is in memory */
    size_t size;      /* of the state in bytes; 0 is 64 MiB */

    /* The clock: wall time in ns. NULL is the system's. */
    int64_t (*now)(void *ctx);
    void *now_ctx;

    /* For tests of a policy: if this returns other than 0, the store fails for
     * this decision. */
    int (*fault)(void *ctx);
    void *fault_ctx;
};

/* Opens an engine with `policy`. `options` may be NULL. */
int sluice_engine_open(struct sluice_policy *policy,
                       const struct sluice_engine_options *options,
                       struct sluice_engine **ret);

/* Replaces the policy. Usage stays; limits whose name, kind, `per` or period
 * has changed start from zero. SLUICE_ECONF: the scale of a limit's unit has
 * changed. On failure the old policy stays. */
int sluice_engine_use(struct sluice_engine *engine,
                      struct sluice_policy *policy);

/* Switch a feature on (1) or off (0), whatever this and later policies say, or
 * leave it to them again (-1). SLUICE_ENOENT if the policy has none of that
 * name. */
int sluice_engine_switch(struct sluice_engine *engine, const char *feature,
                         int on);

/* Reports the depth of the backlog `name`. SLUICE_ENOENT: no route has it. */
int sluice_engine_backlog(struct sluice_engine *engine, const char *name,
                          uint64_t depth);

/* Close an engine that no thread uses any more. NULL is allowed. */
void sluice_engine_close(struct sluice_engine *engine);

/* ---- requests ---- */

struct sluice_header {
    const char *name;
    const char *value;
};

struct sluice_cost {
    const char *limit;
    uint64_t cost;
};

struct sluice_override {
    const char *limit;
    const char *rate; /* in place of the plan's */
};

/* A rate of a subject, for a time. */
struct sluice_grant {
    const char *limit;
    const char *rate;
    int64_t until_ns;      /* since 1970; -1: for good */
    const char *by, *note; /* for explanations; may be NULL */
};

/* What a registry of yours knows of a user or an organisation. A rate for a
 * limit that the policy does not have, or that the limit can't have, is left
 * aside. */
struct sluice_subject {
    const char *id;     /* used in keys; NULL: as in the request */
    const char *plan;   /* or NULL */
    int64_t expires_ns; /* of the plan, since 1970; -1: never */
    const char *const *roles;
    size_t role_count; /* at most 32 */
    const struct sluice_grant *grants;
    size_t grant_count; /* at most 64 */
    /* The periods of its quotas: a date or an instant (RFC 3339) at which one
     * begins, and a time zone. NULL: those of the limit. */
    const char *anchor, *zone;
};

/* A block of a user, an organisation or an address, registered or not: all that
 * they ask is refused. */
struct sluice_block {
    int64_t until_ns;      /* since 1970; -1: for good */
    const char *by, *note; /* for explanations; may be NULL */
};

/* The facts. NULL is: not known. Strings end in NUL. There may be any number
 * of headers: those that the policy reads count, and of each the first. Of
 * costs and overrides there are at most 256 each; one for a limit that the
 * route does not use is left aside. */
struct sluice_request {
    const char *method, *path;
    const char *job;         /* named work instead of method and path */
    const char *limit, *key; /* or one limit by name, for one key; with several
                              * `per` acme:ann, with %3A for ':', %25 for '%' */

    const char *user, *org, *plan, *role, *ip;

    const struct sluice_header *headers;
    size_t header_count;
    int trusted; /* the headers come from a proxy that may say who it is */

    const struct sluice_override *overrides;
    size_t override_count;

    int has_cost; /* 0: each limit's own cost, usually 1 */
    uint64_t cost;
    const struct sluice_cost *costs; /* for single limits; they go first */
    size_t cost_count;

    const char *request_id;

    /* A repeat of the same request by the same caller, with the same key, is
     * answered as the first one was and pays nothing. */
    const char *idempotency_key;

    const char *body; /* for routes that verify it; NULL: not known */
    size_t body_len;

    /* Who is registered. What the request gives itself goes first, then the
     * user's, then the organisation's. The key of a limit per user or per org
     * names them, too. */
    int registry; /* 1: there is one; a NULL subject is not in it */
    const struct sluice_subject *user_subject, *org_subject;

    int64_t hold_ns; /* hold what is taken for so long; 0: do not, but for the
                      * permits of concurrency limits */

    /* 1: the cost was used already, and counts whatever the limits say; -1: it
     * is given back. Nothing is refused. */
    int used;

    /* 1: the cost is failed attempts (logins), which count for the `penalty` of
     * the limit; the decision then says whether the caller is blocked. */
    int failed;

    /* Of the registry, which must be there: with registry = 0 the request is
     * refused as SLUICE_EINVAL. NULL: not blocked. `ip_block` is of `ip`, or of
     * a network that has it. */
    const struct sluice_block *user_block, *org_block, *ip_block;
};

struct sluice_decision *sluice_decision_new(void);
void sluice_decision_free(struct sluice_decision *decision);

/* Decide: take what the request costs on all its limits, or nothing.
 * SLUICE_ENOENT if the policy has no limit of a name that the request has, in
 * `limit`, `costs` or `overrides`. SLUICE_ECONF if an override is no rate. */
int sluice_decide(struct sluice_engine *engine,
                  const struct sluice_request *request,
                  struct sluice_decision *decision);

/* The same, but spend nothing. */
int sluice_explain(struct sluice_engine *engine,
                   const struct sluice_request *request,
                   struct sluice_decision *decision);

/* ---- answers ---- */

/* All strings live until the decision's next use, and asking twice gives the
 * same ones. */

int sluice_decision_allowed(const struct sluice_decision *decision);
int sluice_decision_status(const struct sluice_decision *decision);

/* Not allowed, and no time will help. */
int sluice_decision_never(const struct sluice_decision *decision);

/* Decided without the store. */
int sluice_decision_degraded(const struct sluice_decision *decision);

/* The name of the limit that refused, or "". */
const char *sluice_decision_by(const struct sluice_decision *decision);
const char *sluice_decision_code(const struct sluice_decision *decision);
const char *sluice_decision_message(const struct sluice_decision *decision);

/* Until the same request passes; -1 if it passed or never will. */
int64_t sluice_decision_retry_in_ns(const struct sluice_decision *decision);

/* What the quota header shows; UINT64_MAX if there is no quota. */
uint64_t sluice_decision_quota(const struct sluice_decision *decision);

/* The name of what is held, or "" if nothing is; and until it frees itself, or
 * -1. */
const char *sluice_decision_hold(const struct sluice_decision *decision);
int64_t sluice_decision_hold_ns(const struct sluice_decision *decision);

/* One limit of the decision, in the route's order. `limit`, `burst` and
 * `remaining` are whole units of the policy, `remaining` rounded down; see
 * sluice_decision_exact(). */
struct sluice_shown {
    const char *name, *kind, *plan, *scope, *id, *mode, *unit;
    const char *key; /* its name in a shared store */
    int limited;     /* 0: unlimited for this plan, or skipped; no numbers */
    int allowed;
    uint64_t limit, burst, remaining, cost;
    int64_t retry_in_ns, reset_in_ns, wait_ns; /* -1: none */
};

/* Beyond the last limit its strings are "". */
size_t sluice_decision_limits(const struct sluice_decision *decision);
struct sluice_shown
sluice_decision_limit(const struct sluice_decision *decision, size_t index);

/* The same numbers in the unit that is counted, which is that of costs. Beyond
 * the last limit `unit` is "" and the numbers are 0. */
struct sluice_exact {
    const char *unit; /* "": it has no name */
    uint64_t scale;   /* of these in a unit of the policy; 1: the same unit */
    uint64_t limit, burst, remaining;
};

struct sluice_exact
sluice_decision_exact(const struct sluice_decision *decision, size_t index);

/* Whose numbers the headers show: an index, or -1. */
int sluice_decision_report(const struct sluice_decision *decision);

size_t sluice_decision_headers(const struct sluice_decision *decision);
struct sluice_header
sluice_decision_header(const struct sluice_decision *decision, size_t index);

/* JSON on one line; "" when there is none. */
const char *sluice_decision_content_type(const struct sluice_decision *d);
const char *sluice_decision_body(const struct sluice_decision *decision);

/* The verdict as one line of JSON. NULL without memory. */
const char *sluice_decision_json(struct sluice_decision *decision);

/* For people: which route, who, which plan, each limit with its numbers and
 * its key, and when the same request passes. What a client chose is escaped:
 * it can't end a line. NULL without memory. */
const char *sluice_decision_text(struct sluice_decision *decision);

/* ---- holds ---- */

/* The costs of a hold are taken provisionally, until it is settled with the
 * actual costs, released, or expires. Ending an ended hold changes nothing and
 * is no failure: see sluice_ended_again(). SLUICE_ENOENT: the hold is unknown,
 * or no longer stored. SLUICE_ECONF: the policy has no limit of a name in
 * `costs`. */

struct sluice_ended; /* the result of ending a hold; reusable */

struct sluice_ended *sluice_ended_new(void);
void sluice_ended_free(struct sluice_ended *ended);

/* The actual costs. Limits that `costs` does not name cost `cost` if
 * `has_cost`, unless the policy fixes their own `cost`; else what was held.
 * Permits are always refunded. */
struct sluice_actual {
    int has_cost;
    uint64_t cost;
    const struct sluice_cost *costs; /* at most 256 */
    size_t cost_count;
};

/* `actual` NULL: the costs are what was held. `ret` may be NULL. A higher cost
 * is charged, even beyond the limit. */
int sluice_engine_settle(struct sluice_engine *engine, const char *hold,
                         const struct sluice_actual *actual,
                         struct sluice_ended *ret);

int sluice_engine_release(struct sluice_engine *engine, const char *hold,
                          struct sluice_ended *ret);

/* The hold expires `hold_ns` from now. */
int sluice_engine_extend(struct sluice_engine *engine, const char *hold,
                         int64_t hold_ns, struct sluice_ended *ret);

/* "settled", "released", "expired" or "held"; "" after a failure. */
const char *sluice_ended_state(const struct sluice_ended *ended);

/* 1: it had ended before, and nothing was changed. */
int sluice_ended_again(const struct sluice_ended *ended);

/* One limit of the hold; none if it had ended before. */
struct sluice_held {
    const char *name;    /* "": no longer in the policy */
    uint64_t held, cost; /* in the counted unit */
    uint64_t remaining;  /* in whole units of the policy */
    int over;            /* the cost exceeds the limit */
};

size_t sluice_ended_limits(const struct sluice_ended *ended);
struct sluice_held sluice_ended_limit(const struct sluice_ended *ended,
                                      size_t index);

/* All of it as one line of JSON. NULL without memory. */
const char *sluice_ended_json(struct sluice_ended *ended);

#ifdef __cplusplus
}
#endif

#endif
