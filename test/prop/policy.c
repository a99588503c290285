/* policy.c -- a policy that was printed and read again decides alike. The
 * numbers are those of src/policy/policy.h.
 *
 *   (0)  a random policy, in whatever style, is accepted
 *   (1)  its print is accepted, too, without problems that it did not have
 *   (2)  the print of that is the same
 *   (3)  both give the same verdict, and ask for the same keys, for any caller
 *        for whatever, and whenever
 *   (4)  each variable of the environment is named in the print, but those of
 *        tokens
 */
#include "policy/policy.h"

#include "engine/check.h"
#include "engine/render.h"
#include "policy_limits.h"
#include "prop.h"

#define REQUESTS 40 /* of an episode */

static uint64_t seed_now;
static sl_ns now;
static bool fault;

/* A policy, and what it decides. */
struct side {
    struct sl_policy *policy;
    struct sl_report report;
    struct sl_buf text; /* its print */
    struct sl_engine *engine;
    struct sl_check check;
    struct sl_arena arena;
    struct sl_buf verdict;
};

/* ---- policies ---- */

static void show(const struct sl_report *report, struct sl_str text)
{
    struct sl_buf out;

    sl_buf_init(&out, 1 << 20, &sl_alloc_libc);
    if (sl_report_print(report, &out) == 0)
        printf("# %.*s\n", SL_STR_ARG(sl_buf_str(&out)));
    printf("# ---- the policy:\n%.*s# ----\n", SL_STR_ARG(text));
    sl_buf_done(&out);
}

static bool broken(const char *which)
{
    printf("# %s is broken, seed %" PRIu64 "\n", which, seed_now);
    return false;
}

/* Read `text` and print what was understood. */
static bool side_read(struct side *s, struct forest *f, struct sl_str text,
                      const char *which)
{
    struct sl_policy_options options = {
        .substitute = {.env = forest_env, .ctx = f}
    };

    sl_report_init(&s->report, "p.yaml", text, &sl_alloc_libc);
    sl_buf_init(&s->text, 1 << 20, &sl_alloc_libc);
    if (sl_policy_read(&s->report, &options, &s->policy)) {
        show(&s->report, text);
        return broken(which);
    }
    if (sl_policy_print(s->policy, &s->text))
        return broken("the printing");
    return true;
}

/* Has `b` only problems that `a` has? */
static bool no_news(const struct sl_report *a, const struct sl_report *b)
{
    for (unsigned i = 0; i < b->kept; i++) {
        unsigned k = 0;

        while (k < a->kept && strcmp(a->problems[k].diag.sentence,
                                     b->problems[i].diag.sentence) != 0)
            k++;
        if (k == a->kept)
            return false;
    }
    return true;
}

/* ---- engines ---- */

static sl_ns on_now(void *ctx)
{
    (void)ctx;
    return now;
}

static int on_fault(void *ctx)
{
    (void)ctx;
    return fault;
}

/* Both sides make the same fingerprints of their callers. */
static void side_open(struct side *s)
{
    struct sl_memory_options memory = {.size = 1 << 20, .now = on_now};
    struct sl_engine_options options = {.fault = on_fault};
    static const struct sl_engine_ctx at_once;
    struct sl_diag diag = {.line = 0};

    if (sl_memory_open(&memory, &options.store, &diag))
        abort();
    options.store->secret = (struct sl_hash_key){5, 6};
    if (sl_engine_open(&options, s->policy, &s->engine, &diag)) {
        printf("# %s\n", diag.sentence);
        abort();
    }
    sl_check_init(&s->check, s->engine, &at_once, &sl_alloc_libc);
    sl_arena_init(&s->arena, 1 << 20, &sl_alloc_libc);
    sl_buf_init(&s->verdict, 1 << 20, &sl_alloc_libc);
}

static void side_close(struct side *s)
{
    if (s->engine) {
        sl_check_done(&s->check);
        sl_engine_close(s->engine);
        sl_arena_done(&s->arena);
        sl_buf_done(&s->verdict);
    }
    sl_policy_unref(s->policy);
    sl_report_done(&s->report);
    sl_buf_done(&s->text);
}

/* The verdict, and the keys of its limits. */
static int side_decide(struct side *s, const struct sl_request *request,
                       bool spend)
{
    struct sl_decision *d = &s->check.decision;
    struct sl_rendered rendered;

    sl_arena_reset(&s->arena);
    sl_buf_clear(&s->verdict);
    sl_check_ref_policy(&s->check);
    sl_check_start(&s->check, request, 1, spend);
    if (s->check.err)
        return s->check.err;
    for (char *at = d->hold; *at; at++)
        *at = '#'; /* it is random */
    if (sl_render(d, &s->arena, &rendered) ||
        sl_render_verdict(d, &rendered, false, &s->verdict) ||
        sl_buf_addf(&s->verdict, " %.*s %.*s", SL_STR_ARG(d->route->text),
                    SL_STR_ARG(d->route->endpoint)))
        abort();
    for (unsigned i = 0; i < d->shown_count; i++)
        if (sl_buf_add(&s->verdict, SL_STR(" ")) ||
            sl_decision_key(d, &d->shown[i], &s->verdict))
            abort();
    return 0;
}

/* ---- requests ---- */

struct question {
    struct sl_request request;
    struct sl_header headers[8];
    struct sl_override override;
    struct sl_cost cost;
    char path[256];
    char id[32];
};

static struct sl_str any_of(struct rng *rng, const char *const *words,
                            size_t count)
{
    return sl_str_c(words[rng_below(rng, count)]);
}

#define ANY(rng, ...)                                                          \
    any_of(rng, (const char *const[]){__VA_ARGS__},                            \
           sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

/* A path that a pattern of the policy matches, or nearly. */
static void ask_path(struct rng *rng, const struct sl_policy *policy,
                     struct question *q)
{
    const struct sl_route *route = NULL;
    size_t len = 0;

    if (policy->route_count > 0)
        route = &policy->routes[rng_below(rng, policy->route_count)];
    for (unsigned i = 0; route && i < route->pattern.count; i++) {
        const struct sl_segment *segment = &route->pattern.segments[i];
        struct sl_str word = segment->word;

        if (segment->kind != SL_SEGMENT_WORD || rng_once_in(rng, 8))
            word = ANY(rng, "a", "b", "x.y", "c/d");
        len += (size_t)snprintf(q->path + len, 16, "/%.*s", SL_STR_ARG(word));
    }
    q->request.path = (struct sl_str){q->path, len};
    if (len == 0)
        q->request.path = SL_STR("/");
    q->request.method =
        ANY(rng, "GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "BREW");
}

static void ask_target(struct rng *rng, const struct sl_policy *policy,
                       struct question *q)
{
    unsigned route = (unsigned)rng_below(rng, policy->route_count);

    if (policy->rule_count > 0 && rng_once_in(rng, 5)) {
        q->request.limit =
            policy->rules[rng_below(rng, policy->rule_count)].name;
        q->request.key = ANY(rng, "ann", "bob", "10.0.0.1");
    } else if (policy->route_count > 0 && policy->routes[route].is_job) {
        q->request.job = policy->routes[route].job;
    } else {
        ask_path(rng, policy, q);
    }
}

static struct sl_str ask_plan(struct rng *rng, const struct sl_policy *policy)
{
    const struct sl_plan *plan =
        &policy->plans.list[rng_below(rng, policy->plans.count)];

    if (rng_once_in(rng, 4))
        return ANY(rng, "", "FREE", "pro", "unheard");
    if (plan->alias_count > 0 && rng_once_in(rng, 2))
        return plan->aliases[rng_below(rng, plan->alias_count)];
    return plan->name;
}

static void ask_who(struct rng *rng, const struct sl_policy *policy,
                    struct question *q)
{
    static const char *const names[] = {"x-user", "X-Org-Id",   "x-plan",
                                        "x-role", "user-agent", "X~ODD!"};

    q->request.user = ANY(rng, "", "ann", "bob", "a:b");
    q->request.org = ANY(rng, "", "acme", "x");
    q->request.role = ANY(rng, "", "member", "admin", "null");
    q->request.ip = ANY(rng, "", "203.0.113.5", "2001:db8::1", "2001:db8:1::2");
    q->request.plan = ask_plan(rng, policy);
    q->request.trusted = rng_once_in(rng, 2);
    q->request.headers = q->headers;
    for (size_t i = 0; i < SL_LEN(names); i++)
        if (rng_once_in(rng, 2))
            q->headers[q->request.header_count++] = (struct sl_header){
                sl_str_c(names[i]), ANY(rng, "h1", "member", "pro", "null")};
}

static void ask_cost(struct rng *rng, const struct sl_policy *policy,
                     struct question *q)
{
    struct sl_str limit;

    q->request.has_cost = rng_once_in(rng, 4);
    q->request.cost = rng_below(rng, 6);
    if (policy->rule_count == 0)
        return;
    limit = policy->rules[rng_below(rng, policy->rule_count)].name;
    if (rng_once_in(rng, 6)) {
        q->cost = (struct sl_cost){limit, rng_below(rng, 8)};
        q->request.costs = &q->cost;
        q->request.cost_count = 1;
    }
    if (rng_once_in(rng, 12)) {
        q->override = (struct sl_override){
            limit, ANY(rng, "3/min", "2/day", "4/month", "5", "unlimited",
                       "none", "7/h burst 9", "nonsense")};
        q->request.overrides = &q->override;
        q->request.override_count = 1;
    }
}

static void ask(struct rng *rng, const struct sl_policy *policy,
                struct question *q)
{
    *q = (struct question){.request = {.now = now}};
    ask_target(rng, policy, q);
    ask_who(rng, policy, q);
    ask_cost(rng, policy, q);
    snprintf(q->id, sizeof(q->id), "req-%" PRIu64, rng_below(rng, 1000));
    q->request.request_id = sl_str_c(q->id);
}

/* ---- an episode ---- */

static uint64_t denied, faults;

static bool verdicts_agree(struct rng *rng, struct side *a, struct side *b)
{
    struct question q;
    bool spend = !rng_once_in(rng, 10);
    int one, two;

    if (rng_once_in(rng, 3))
        now += (sl_ns)rng_log(rng, rng_once_in(rng, 5) ? 40 * SL_DAY : SL_MIN);
    fault = rng_once_in(rng, 10);
    ask(rng, a->policy, &q);
    one = side_decide(a, &q.request, spend);
    two = side_decide(b, &q.request, spend);
    denied += !one && !a->check.decision.allowed;
    faults += fault;
    if (one == two &&
        sl_str_eq(sl_buf_str(&a->verdict), sl_buf_str(&b->verdict)))
        return true;
    printf("# %d: %.*s\n# %d: %.*s\n", one, SL_STR_ARG(sl_buf_str(&a->verdict)),
           two, SL_STR_ARG(sl_buf_str(&b->verdict)));
    return broken("(3)");
}

/* (4). Tokens are not shown at all, nor is a text of no bytes. */
static bool shows_variables(const struct forest *f, struct sl_str print)
{
    char name[24];

    for (unsigned i = 0; i < f->value_count; i++) {
        bool token = f->keys[i] && strstr(f->keys[i], "_token");

        snprintf(name, sizeof(name), "${ENV:V%u}", i);
        if (f->values[i][0] && !token &&
            !memmem(print.at, print.len, name, strlen(name))) {
            printf("# %s, \"%s\", is not in:\n%.*s", name, f->values[i],
                   SL_STR_ARG(print));
            return broken("(4)");
        }
    }
    return true;
}

/* (0), (1), (2) and (4). */
static bool prints_agree(struct forest *f, struct side *a, struct side *b)
{
    struct sl_str text = tree_print(f, make_policy(f));

    if (!side_read(a, f, text, "(0)"))
        return false;
    if (!side_read(b, f, sl_buf_str(&a->text), "(1)"))
        return false;
    if (!no_news(&a->report, &b->report)) {
        show(&b->report, sl_buf_str(&a->text));
        return broken("(1)");
    }
    if (sl_str_eq(sl_buf_str(&a->text), sl_buf_str(&b->text)))
        return shows_variables(f, sl_buf_str(&a->text));
    printf("# ---- once:\n%.*s# ---- twice:\n%.*s# ----\n",
           SL_STR_ARG(sl_buf_str(&a->text)), SL_STR_ARG(sl_buf_str(&b->text)));
    return broken("(2)");
}

static bool episode(uint64_t seed, uint64_t *steps)
{
    struct side a = {.policy = NULL}, b = {.policy = NULL};
    struct forest f;
    bool good;

    seed_now = seed;
    now = INT64_C(1772000000) * SL_S;
    forest_open(&f, seed);
    sl_report_init(&b.report, "", SL_STR(""), &sl_alloc_libc);
    sl_buf_init(&b.text, 1, &sl_alloc_libc);
    good = prints_agree(&f, &a, &b);
    if (good) {
        side_open(&a);
        side_open(&b);
    }
    for (unsigned i = 0; i < REQUESTS && good; i++) {
        good = verdicts_agree(&f.rng, &a, &b);
        ++*steps;
    }
    *steps += !good;
    if (!good)
        printf("# ---- from:\n%.*s# ----\n", SL_STR_ARG(sl_buf_str(&f.out)));
    side_close(&a);
    side_close(&b);
    forest_close(&f);
    return good;
}

static void finish(uint64_t steps)
{
    CASE("and there was something to decide");
    printf("# %" PRIu64 " refused, %" PRIu64 " while the store was away\n",
           denied, faults);
    CHECK((denied > steps / 20 && faults > 0) || steps < 1000);
}

const struct property prop_policy = {
    .name = "policy",
    .steps = 40000,
    .cases =
        {{"policy (0) (1) (2) (3) (4) printed and read again it decides alike",
          episode}},
    .finish = finish,
};
