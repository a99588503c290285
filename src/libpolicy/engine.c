/* engine.c -- engines, requests, and deciding. */
#include "base/clock.h"
#include "libpolicy/libpolicy.h"

#define RENDER_MAX (1024 * 1024) /* a body, and the names of all limits */
#define TEXT_MAX   (256 * 1024)
#define LIST_MAX   256 /* costs, overrides of a request */
#define ROLES_MAX  32  /* of a subject */
#define GRANTS_MAX 64
#define READ_MAX   320 /* headers that a policy can read, each once */

/* ---- engines ---- */

sl_ns sl_libpolicy_now(const struct sluice_engine *engine)
{
    sl_ns now = engine->now ? engine->now(engine->now_ctx) : sl_clock_wall();

    if (now < 0)
        return 0;
    return now < SL_TIME_END ? now : SL_TIME_END - 1;
}

static sl_ns on_now(void *ctx)
{
    return sl_libpolicy_now(ctx);
}

static int open_engine(struct sluice_engine *engine, struct sl_policy *policy,
                       const struct sluice_engine_options *o)
{
    struct sl_diag *diag = sluice_private_diag();
    struct sl_memory_options memory = {
        .path = o->path, .size = o->size, .now = on_now, .now_ctx = engine};
    struct sl_engine_options options = {.now = on_now,
                                        .now_ctx = engine,
                                        .fault = o->fault,
                                        .fault_ctx = o->fault_ctx};
    int err = sl_memory_open(&memory, &options.store, diag);

    if (err)
        return err;
    err = sl_engine_open(&options, policy, &engine->engine, diag);
    if (err)
        sl_store_close(options.store);
    return err;
}

int sluice_engine_open(struct sluice_policy *policy,
                       const struct sluice_engine_options *options,
                       struct sluice_engine **ret)
{
    static const struct sluice_engine_options none;
    struct sluice_engine *engine;
    int err;

    if (!policy || !ret)
        return sl_libpolicy_invalid(
            "sluice_engine_open needs a policy and a result");
    engine = sl_libpolicy_new(sizeof(*engine));
    if (!engine)
        return sl_libpolicy_no_memory();
    if (!options)
        options = &none;
    engine->now = options->now;
    engine->now_ctx = options->now_ctx;
    err = open_engine(engine, policy->policy, options);
    if (err) {
        sl_libpolicy_free(engine, sizeof(*engine));
        return err;
    }
    *ret = engine;
    return 0;
}

int sluice_engine_use(struct sluice_engine *engine,
                      struct sluice_policy *policy)
{
    if (!engine || !policy)
        return sl_libpolicy_invalid(
            "sluice_engine_use needs an engine and a policy");
    return sl_engine_use(engine->engine, policy->policy, sluice_private_diag());
}

int sluice_engine_switch(struct sluice_engine *engine, const char *feature,
                         int on)
{
    if (!engine || !feature)
        return sl_libpolicy_invalid(
            "sluice_engine_switch needs an engine and a name");
    return sl_engine_switch(engine->engine, sl_str_c(feature), on,
                            sluice_private_diag());
}

int sluice_engine_backlog(struct sluice_engine *engine, const char *name,
                          uint64_t depth)
{
    if (!engine || !name)
        return sl_libpolicy_invalid(
            "sluice_engine_backlog needs an engine and a name");
    return sl_engine_backlog(engine->engine, sl_str_c(name), depth,
                             sl_libpolicy_now(engine), sluice_private_diag());
}

void sluice_engine_close(struct sluice_engine *engine)
{
    if (!engine)
        return;
    sl_engine_close(engine->engine);
    sl_libpolicy_free(engine, sizeof(*engine));
}

/* ---- decisions ---- */

struct sluice_decision *sluice_decision_new(void)
{
    struct sluice_decision *d = sl_libpolicy_new(sizeof(*d));

    if (!d)
        return NULL;
    sl_check_init(&d->check, NULL, &d->ctx, &sl_alloc_libc);
    sl_arena_init(&d->arena, RENDER_MAX, &sl_alloc_libc);
    sl_buf_init(&d->message, TEXT_MAX, &sl_alloc_libc);
    sl_buf_init(&d->json, 4 * TEXT_MAX, &sl_alloc_libc);
    sl_buf_init(&d->text, TEXT_MAX, &sl_alloc_libc);
    return d;
}

void sluice_decision_free(struct sluice_decision *decision)
{
    if (!decision)
        return;
    sl_check_done(&decision->check);
    sl_arena_done(&decision->arena);
    sl_buf_done(&decision->message);
    sl_buf_done(&decision->json);
    sl_buf_done(&decision->text);
    sl_libpolicy_free(decision, sizeof(*decision));
}

/* The lists of a request in the engine's form; small ones are on the stack. */
struct lists {
    struct sl_header headers[READ_MAX];
    struct sl_cost costs[LIST_MAX];
    struct sl_override overrides[LIST_MAX];
};

/* A subject of the caller's registry. */
struct registered {
    struct sl_subject subject;
    struct sl_str roles[ROLES_MAX];
    struct sl_subject_override rates[GRANTS_MAX];
};

static bool is_good(const struct sluice_subject *s)
{
    return !s || (s->role_count <= ROLES_MAX && s->grant_count <= GRANTS_MAX &&
                  (s->roles || s->role_count == 0) &&
                  (s->grants || s->grant_count == 0));
}

static int check_calendar(const struct sluice_subject *s)
{
    struct sl_diag *diag = sluice_private_diag(), why = {0};
    struct sl_anchor anchor;

    if (s && s->anchor && sl_anchor_parse(sl_str_c(s->anchor), &anchor, &why))
        return sl_diag_error(diag, SLUICE_EINVAL, "the anchor \"%s\": %s",
                             s->anchor, why.sentence);
    if (s && s->zone && !sl_zone_shared(sl_str_c(s->zone), &why))
        return sl_diag_error(diag, SLUICE_EINVAL, "the zone \"%s\": %s",
                             s->zone, why.sentence);
    return 0;
}

static int check_request(const struct sluice_request *r)
{
    struct sl_diag *diag = sluice_private_diag();

    if (r->cost_count > LIST_MAX || r->override_count > LIST_MAX)
        return sl_diag_error(
            diag, SLUICE_EINVAL,
            "a request can have at most %d costs and as many overrides",
            LIST_MAX);
    if ((r->header_count && !r->headers) || (r->cost_count && !r->costs) ||
        (r->override_count && !r->overrides))
        return sl_libpolicy_invalid("a request has counts of headers, costs or "
                                    "overrides without the arrays");
    if (!is_good(r->user_subject) || !is_good(r->org_subject))
        return sl_diag_error(
            diag, SLUICE_EINVAL,
            "a subject can have at most %d roles and %d grants, "
            "and needs the arrays for its counts",
            ROLES_MAX, GRANTS_MAX);
    if (!r->registry && (r->user_block || r->org_block || r->ip_block))
        return sl_libpolicy_invalid("a request has a block without a registry; "
                                    "set registry to 1");
    if (r->ip_block && !r->ip && !r->limit)
        return sl_libpolicy_invalid("a request has a block of its address "
                                    "without the address; set ip");
    if (!r->path && !r->job && !r->limit)
        return sl_libpolicy_invalid("a request needs a path, a job or a limit");
    return check_calendar(r->user_subject) ? SLUICE_EINVAL
                                           : check_calendar(r->org_subject);
}

/* Clients choose the number of headers, so only the first of each name that the
 * policy reads is kept. Returns the number kept. */
static unsigned pick_headers(const struct sluice_request *r,
                             const struct sl_policy *policy,
                             struct sl_header *ret)
{
    unsigned count = 0;

    for (size_t i = 0; i < r->header_count && count < READ_MAX; i++) {
        struct sl_str name = sl_str_c(r->headers[i].name);
        bool known = !sl_request_wanted(policy, name);

        for (unsigned k = 0; !known && k < count; k++)
            known = sl_str_eq_nocase(ret[k].name, name);
        if (!known)
            ret[count++] =
                (struct sl_header){name, sl_str_c(r->headers[i].value)};
    }
    return count;
}

static struct sl_request facts_of(const struct sluice_request *r,
                                  const struct sl_policy *policy,
                                  struct lists *lists, sl_ns now)
{
    for (size_t i = 0; i < r->cost_count; i++)
        lists->costs[i] =
            (struct sl_cost){sl_str_c(r->costs[i].limit), r->costs[i].cost};
    for (size_t i = 0; i < r->override_count; i++)
        lists->overrides[i] = (struct sl_override){
            sl_str_c(r->overrides[i].limit), sl_str_c(r->overrides[i].rate)};
    return (struct sl_request){
        .method = sl_str_c(r->method ? r->method : "GET"),
        .path = sl_str_c(r->path),
        .job = sl_str_c(r->job),
        .limit = sl_str_c(r->limit),
        .key = sl_str_c(r->key),
        .user = sl_str_c(r->user),
        .org = sl_str_c(r->org),
        .plan = sl_str_c(r->plan),
        .role = sl_str_c(r->role),
        .ip = sl_str_c(r->ip),
        .headers = lists->headers,
        .header_count = pick_headers(r, policy, lists->headers),
        .trusted = r->trusted,
        .overrides = lists->overrides,
        .override_count = (unsigned)r->override_count,
        .has_cost = r->has_cost,
        .cost = r->cost,
        .costs = lists->costs,
        .cost_count = (unsigned)r->cost_count,
        .has_body = r->body != NULL,
        .body = {r->body, r->body ? r->body_len : 0},
        .idempotency_key = sl_str_c(r->idempotency_key),
        .hold = r->hold_ns > 0 ? r->hold_ns : 0,
        .request_id = sl_str_c(r->request_id),
        .charge = r->used > 0 || r->failed,
        .give_back = r->used < 0 && !r->failed,
        .metered = r->used != 0 || r->failed,
        .failed = r->failed,
        .now = now,
    };
}

/* The subjects of a request, as a registry. */
struct request_subjects {
    struct sl_subjects base; /* first */
    const struct sluice_request *request;
    struct registered user, org, ip;
};

static void keep_subject(struct sl_subject *subject)
{
    (void)subject; /* on the stack of decide() */
}

/* Converts a subject and its block; NULL is not in the registry. */
static void fill(struct registered *r, const struct sluice_subject *s,
                 const struct sluice_block *block)
{
    r->subject = (struct sl_subject){
        .refs = 1, .free = keep_subject, .known = s, .expires = SL_NS_NONE};
    if (block)
        r->subject.block = (struct sl_block){
            .is_set = true,
            .until = block->until_ns < 0 ? SL_NS_NONE : block->until_ns,
            .by = sl_str_c(block->by),
            .note = sl_str_c(block->note)};
    if (!s)
        return;
    r->subject.id = sl_str_c(s->id);
    r->subject.plan = sl_str_c(s->plan);
    r->subject.expires = s->expires_ns < 0 ? SL_NS_NONE : s->expires_ns;
    r->subject.own.last =
        sl_own_calendar_read(sl_str_c(s->anchor), sl_str_c(s->zone));
    for (size_t i = 0; i < s->role_count; i++)
        r->roles[i] = sl_str_c(s->roles[i]);
    for (size_t i = 0; i < s->grant_count; i++) {
        const struct sluice_grant *g = &s->grants[i];

        r->rates[i] = (struct sl_subject_override){
            sl_str_c(g->limit), sl_str_c(g->rate),
            g->until_ns < 0 ? SL_NS_NONE : g->until_ns, sl_str_c(g->by),
            sl_str_c(g->note)};
    }
    r->subject.roles = r->roles;
    r->subject.role_count = (unsigned)s->role_count;
    r->subject.rates = r->rates;
    r->subject.rate_count = (unsigned)s->grant_count;
}

/* Blocks alone are no registered subjects. */
static bool has_registered(const struct sluice_request *r)
{
    return r->user_subject || r->org_subject ||
           (!r->user_block && !r->org_block && !r->ip_block);
}

/* The user, the organisation and the address of the request are those of its
 * subjects and blocks, wherever it names them. */
static void find_subject(struct sl_subjects *subjects, struct sl_lookup *lookup)
{
    struct request_subjects *all = (struct request_subjects *)subjects;
    const struct sluice_request *request = all->request;
    struct registered *r = &all->org;

    if (sl_str_eq(lookup->scope, SL_STR("ip"))) {
        r = &all->ip;
        fill(r, NULL, request->ip_block);
    } else if (sl_str_eq(lookup->scope, SL_STR("user"))) {
        r = &all->user;
        fill(r, request->user_subject, request->user_block);
    } else {
        fill(r, request->org_subject, request->org_block);
    }
    if (r->subject.id.len == 0)
        r->subject.id = lookup->id;
    lookup->found = &r->subject;
    lookup->has_registered = has_registered(request);
    lookup->done(lookup);
}

/* Clear the texts of the last decision. */
static void clear(struct sluice_decision *d)
{
    d->usable = false;
    d->headers = NULL;
    memset(d->texts, 0, sizeof(d->texts));
    sl_arena_reset(&d->arena);
    sl_buf_clear(&d->message);
    sl_buf_clear(&d->json);
    sl_buf_clear(&d->text);
}

static int decide(struct sluice_engine *engine,
                  const struct sluice_request *request, bool spend,
                  struct sluice_decision *d)
{
    static const struct sl_subjects_calls calls = {find_subject};
    struct sl_diag *diag = sluice_private_diag();
    struct lists lists;
    struct request_subjects subjects;
    const struct sl_policy *policy;
    struct sl_request req;
    int err;

    if (d)
        clear(d);
    if (!engine || !request || !d)
        return sl_libpolicy_invalid(
            "a decision needs an engine, a request and a result");
    err = check_request(request);
    if (err)
        return err;
    d->check.engine = engine->engine;
    policy = sl_check_ref_policy(&d->check)->policy;
    req = facts_of(request, policy, &lists, sl_libpolicy_now(engine));
    d->ctx = engine->ctx;
    if (request->registry) {
        subjects.base.calls = &calls;
        subjects.request = request;
        d->ctx.subjects = &subjects.base;
    }
    err = sl_request_check(policy, &req, diag);
    if (err)
        return err;
    sl_check_start(&d->check, &req, 1, spend);
    d->ctx.subjects = NULL;
    if (d->check.err) {
        *diag = d->check.diag;
        return d->check.err;
    }
    if (sl_render(&d->check.decision, &d->arena, &d->rendered))
        return sl_libpolicy_no_memory();
    d->usable = true;
    return 0;
}

int sluice_decide(struct sluice_engine *engine,
                  const struct sluice_request *request,
                  struct sluice_decision *decision)
{
    return decide(engine, request, true, decision);
}

int sluice_explain(struct sluice_engine *engine,
                   const struct sluice_request *request,
                   struct sluice_decision *decision)
{
    return decide(engine, request, false, decision);
}
