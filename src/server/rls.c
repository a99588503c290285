/* rls.c -- decides a request of Envoy's rate limit service, in rounds.
 *
 * The descriptors of a request make one decision: the units of all their limits
 * are taken together or not at all. Descriptors with a hits_addend of 0 are
 * peeked first: would one more hit be allowed? Refunds come last. After a
 * denial the remaining descriptors are only peeked. With a route `count: each`
 * every descriptor is decided by itself, in order, as envoyproxy/ratelimit
 * does.
 *
 *     peeks --> takes --> refunds          or one round per descriptor
 *
 * A failure is an error, never OVER_LIMIT, because Envoy by default lets a
 * request pass after an error. Every denial is OVER_LIMIT.
 */
#include "server/rls.h"

#include <string.h>

#include "base/clock.h"
#include "engine/render.h"
#include "net/loop.h"

#define ARENA_MOST ((size_t)1 << 20)

enum { PEEKS, TAKES, REFUNDS, ROUNDS };

/* ---- life ---- */

void sl_rls_call_init(struct sl_rls_call *call, struct sl_engine *engine,
                      const struct sl_engine_ctx *engine_ctx,
                      const struct sl_alloc *alloc)
{
    sl_check_init(&call->check, engine, engine_ctx, alloc);
    call->check.no_wait = true; /* Envoy's timeout is shorter than a wait */
    sl_arena_init(&call->arena, ARENA_MOST, alloc);
    sl_arena_init(&call->text_arena, ARENA_MOST, alloc);
    sl_rls_call_reset(call);
}

void sl_rls_call_done(struct sl_rls_call *call)
{
    sl_check_done(&call->check);
    sl_arena_done(&call->arena);
    sl_arena_done(&call->text_arena);
}

void sl_rls_call_reset(struct sl_rls_call *call)
{
    sl_arena_reset(&call->arena);
    sl_arena_reset(&call->text_arena);
    call->each = call->denied = call->has_rendered = call->gone = false;
    call->step = call->quotas = call->quotas_over = call->chosen_count = 0;
    call->deadline = 0;
    call->response.count = call->response.header_count = 0;
    call->response.body = (struct sl_str){"", 0};
}

/* ---- descriptors to requests, decisions to statuses ----
 *
 * These keys of entries have a meaning: user, org, plan, role, ip or
 * remote_address, and scopes of the policy name the caller; method and path, or
 * job, name the action. `header.NAME` is a header of the request. Other keys
 * have no meaning of their own. A descriptor without path and job asks for the
 * job with the name of the domain. A route of the policy for such descriptors
 * has precedence over all this.
 */

/* Returns the field for the key, or NULL. */
static struct sl_str *place_of(struct sl_request *requests, struct sl_str key)
{
    const struct {
        const char *key;
        struct sl_str *place;
    } rows[] = {
        {"user",           &requests->user  },
        {"org",            &requests->org   },
        {"plan",           &requests->plan  },
        {"role",           &requests->role  },
        {"ip",             &requests->ip    },
        {"remote_address", &requests->ip    },
        {"method",         &requests->method},
        {"path",           &requests->path  },
        {"job",            &requests->job   },
    };

    for (size_t i = 0; i < SL_LEN(rows); i++)
        if (sl_str_eq(key, sl_str_c(rows[i].key)))
            return rows[i].place;
    return NULL;
}

static bool is_header(struct sl_str key, struct sl_str *name)
{
    static const struct sl_str prefix = {"header.", 7};

    *name = sl_str_from(key, prefix.len);
    return key.len > prefix.len &&
           sl_str_eq((struct sl_str){key.at, prefix.len}, prefix);
}

static void read_entries(const struct sl_rls_descriptor *d,
                         struct sl_request *requests, struct sl_header *headers,
                         struct sl_descriptor_entry *entries)
{
    for (unsigned i = 0; i < d->entry_count; i++) {
        const struct sl_rls_entry *entry = &d->entries[i];
        struct sl_str *place = place_of(requests, entry->key);
        struct sl_str name;

        entries[i] = (struct sl_descriptor_entry){entry->key, entry->value};
        if (place)
            *place = entry->value;
        else if (is_header(entry->key, &name))
            headers[requests->header_count++] =
                (struct sl_header){name, entry->value};
    }
    requests->headers = headers;
    requests->entries = entries;
    requests->entry_count = d->entry_count;
}

static int take_limit(const struct sl_rls_descriptor *d,
                      struct sl_request *requests, struct sl_diag *diag)
{
    if (!d->has_limit)
        return 0;
    requests->imposed = (struct sl_fixed_rate){
        .count = d->requests_per_unit,
        .period = sl_rls_unit_length(d->unit),
    };
    if (requests->imposed.period == 0)
        return sl_diag_error(
            diag, SLUICE_EINVAL,
            "the limit of a descriptor has unit %u; valid are 1 "
            "(second) to 6 (year)",
            d->unit);
    return 0;
}

static int make_requests(struct sl_rls_call *call, unsigned count,
                         struct sl_diag *diag)
{
    call->requests =
        sl_arena_take(&call->arena, count * sizeof(*call->requests));
    return call->requests ? 0
                          : sl_diag_error(diag, SLUICE_ENOMEM, "out of memory");
}

static int describe_one(struct sl_rls_call *call, unsigned index,
                        struct sl_request *ret, struct sl_diag *diag)
{
    const struct sl_rls_request *request = &call->request;
    const struct sl_rls_descriptor *d = &request->descriptors[index];
    size_t count = d->entry_count + 1;
    struct sl_header *headers =
        sl_arena_take(&call->arena, count * sizeof(*headers));
    struct sl_descriptor_entry *entries =
        sl_arena_take(&call->arena, count * sizeof(*entries));

    if (!headers || !entries)
        return sl_diag_error(diag, SLUICE_ENOMEM, "out of memory");
    *ret = (struct sl_request){
        .trusted = true, /* clients of this listener may name the caller */
        .domain = request->domain,
        .has_cost = d->has_hits || request->hits > 0,
        .cost = d->has_hits ? d->hits : request->hits,
        .give_back = d->negative,
        .insist = call->each,
        .deadline = call->deadline,
        .now = sl_loop_now(call->loop),
    };
    read_entries(d, ret, headers, entries);
    if (ret->path.len == 0 && ret->job.len == 0)
        ret->job = request->domain;
    return take_limit(d, ret, diag);
}

/* ---- statuses ---- */

static uint32_t fit(uint64_t number)
{
    return number < UINT32_MAX ? (uint32_t)number : UINT32_MAX;
}

static enum sl_rls_unit unit_of(const struct sl_limit_view *shown)
{
    if (!shown->numbers->calendar)
        return sl_rls_unit_of(shown->numbers->period);
    if (shown->numbers->cal.every > 1)
        return SL_RLS_UNKNOWN;
    switch (shown->numbers->cal.unit) {
    case SL_CALENDAR_DAY:
        return SL_RLS_DAY;
    case SL_CALENDAR_WEEK:
        return SL_RLS_WEEK;
    case SL_CALENDAR_MONTH:
        break;
    }
    return SL_RLS_MONTH;
}

/* Is a smaller share of the capacity left in `a` than in `b`? */
static bool is_tighter(const struct sl_limit_view *a,
                       const struct sl_limit_view *b)
{
    return (unsigned __int128)a->answer.remaining * b->answer.capacity <
           (unsigned __int128)b->answer.remaining * a->answer.capacity;
}

/* Returns the limit that a descriptor shows: the first that denies, else the
 * tightest; enforced limits before others. */
static const struct sl_limit_view *
choose_view(const struct sl_decision *d, const struct sl_descriptor_match *side)
{
    const struct sl_limit_view *best = NULL;

    for (unsigned i = 0; i < d->shown_count; i++) {
        const struct sl_limit_view *s = &d->shown[i];

        if (!(side->shown >> i & 1) || !sl_limit_view_limited(s) ||
            !sl_limit_view_answered(s))
            continue;
        if (sl_decision_view_denies(d, s))
            return s;
        if (!best || s->mode < best->mode ||
            (s->mode == best->mode && is_tighter(s, best)))
            best = s;
    }
    return best;
}

/* Are there limits, and are all of them unlimited? */
static bool is_unlimited(const struct sl_decision *d,
                         const struct sl_descriptor_match *side)
{
    bool any = false;

    for (unsigned i = 0; i < d->shown_count; i++) {
        if (!(side->shown >> i & 1) || d->shown[i].skipped)
            continue;
        if (d->shown[i].form != SL_RATE_UNLIMITED)
            return false;
        any = true;
    }
    return any;
}

static void read_status(const struct sl_decision *d, unsigned index,
                        struct sl_rls_status *ret)
{
    const struct sl_descriptor_match *side = &d->sides[index];
    const struct sl_limit_view *s = choose_view(d, side);
    bool denied = side->refused || (s && sl_decision_view_denies(d, s));

    *ret = (struct sl_rls_status){
        .code = denied ? SL_RLS_OVER_LIMIT : SL_RLS_OK,
        .reset_in = SL_NS_NONE,
    };
    if (is_unlimited(d, side))
        ret->remaining = UINT32_MAX;
    if (!s)
        return;
    ret->has_limit = true;
    ret->requests_per_unit = fit(sl_limit_view_count(s));
    ret->unit = unit_of(s);
    ret->name = s->rule->name;
    ret->remaining = fit(sl_limit_view_remaining(s));
    ret->reset_in = sl_limit_view_reset_in(d, s);
}

/* ---- headers and body ---- */

static void add_header(struct sl_rls_call *call, struct sl_str name,
                       struct sl_str value)
{
    struct sl_rls_response *r = &call->response;

    if (r->header_count < SL_LEN(r->headers))
        r->headers[r->header_count++] = (struct sl_rls_header){name, value};
}

static void add_rendered(struct sl_rls_call *call)
{
    const struct sl_rendered *rendered = &call->rendered;

    if (!call->has_rendered)
        return;
    for (unsigned i = 0; i < rendered->header_count; i++)
        add_header(call, rendered->headers[i].name, rendered->headers[i].value);
    if (!call->denied || rendered->body.len == 0)
        return;
    add_header(call, SL_STR("content-type"), rendered->content_type);
    call->response.body = rendered->body;
}

/* ---- rounds ---- */

static unsigned round_of(const struct sl_rls_descriptor *d)
{
    if (d->negative)
        return REFUNDS;
    return d->has_hits && d->hits == 0 ? PEEKS : TAKES;
}

/* Do other descriptors of the request replace all limits of this one? */
static bool is_replaced(const struct sl_rls_call *call, unsigned index)
{
    const struct sl_route *route = call->routes[index];

    for (unsigned i = 0; i < route->rule_count; i++) {
        bool found = false;

        for (unsigned k = 0; k < call->request.count; k++)
            for (unsigned n = 0; n < call->routes[k]->replace_count; n++)
                found |= call->routes[k]->replaces[n] == route->rules[i];
        if (!found)
            return false;
    }
    return route->rule_count > 0;
}

static bool is_of_round(const struct sl_rls_call *call, unsigned index)
{
    if (call->each)
        return index == call->step && !is_replaced(call, index);
    return round_of(&call->request.descriptors[index]) == call->step;
}

/* Choose the descriptors of the next round that has any. Returns false if there
 * is no such round. */
static bool choose(struct sl_rls_call *call)
{
    unsigned count = call->request.count;
    unsigned rounds = call->each ? count : ROUNDS;

    call->chosen_count = 0;
    for (; call->step < rounds && call->chosen_count == 0; call->step++)
        for (unsigned i = 0; i < count; i++)
            if (is_of_round(call, i))
                call->chosen[call->chosen_count++] = i;
    return call->chosen_count > 0;
}

static bool is_peek(const struct sl_rls_call *call)
{
    return round_of(&call->request.descriptors[call->chosen[0]]) == PEEKS;
}

static int describe(struct sl_rls_call *call, struct sl_diag *diag)
{
    int err = make_requests(call, call->chosen_count, diag);

    for (unsigned i = 0; i < call->chosen_count && !err; i++) {
        err = describe_one(call, call->chosen[i], &call->requests[i], diag);
        if (is_peek(call)) /* would one more hit be allowed? */
            call->requests[i].cost = 1;
    }
    return err;
}

static void count(const struct sl_rls_call *call)
{
    const struct sl_check *check = &call->check;
    sl_ns took = sl_clock_wall() - call->asked_at;

    if (check->spend && !check->decision.give_back && call->stats) {
        sl_metrics_decision(call->stats, &check->decision, call->door,
                            took > 0 ? took : 0);
        sl_metrics_record(call->stats, check);
    }
}

/* The headers and the body are those of the first denial, or of the round that
 * took units. */
static int render(struct sl_rls_call *call)
{
    const struct sl_decision *d = &call->check.decision;

    if (call->has_rendered && (call->denied || d->allowed))
        return 0;
    call->has_rendered = true;
    return sl_render(d, &call->text_arena, &call->rendered);
}

/* Is this a descriptor of `count: quota`, with a status? They deny only
 * together. */
static bool counts_as_quota(const struct sl_rls_call *call)
{
    unsigned index = call->chosen[0];

    return call->each && call->routes[index]->count == SL_COUNT_QUOTA &&
           call->response.statuses[index].has_limit;
}

/* Store the answer of a round. Returns 0 or an error. */
static int keep(struct sl_rls_call *call)
{
    struct sl_check *check = &call->check;
    const struct sl_decision *d = &check->decision;
    int err = check->err;

    if (err)
        return err;
    count(call);
    if (d->reason == SL_REASON_STORE)
        return sl_diag_error(
            &check->diag, SLUICE_ESTORE,
            "the store does not answer, and the policy denies in that case");
    for (unsigned i = 0; i < call->chosen_count; i++)
        read_status(d, i, &call->response.statuses[call->chosen[i]]);
    if (counts_as_quota(call)) {
        call->quotas++;
        call->quotas_over += !d->allowed;
        return 0;
    }
    err = render(call);
    call->denied = call->denied || !d->allowed;
    return err ? sl_diag_error(&check->diag, err, "out of memory") : 0;
}

static void go_on(struct sl_rls_call *call);

static void on_answer(struct sl_check *check)
{
    struct sl_rls_call *call = check->ctx;

    if (!call->inside)
        go_on(call);
}

/* Begin the next round. Returns true if it is answered already. */
static bool check(struct sl_rls_call *call)
{
    bool spend = !is_peek(call) && (call->each || !call->denied);

    call->check.done = on_answer;
    call->check.ctx = call;
    call->asked_at = sl_clock_wall();
    call->inside = true;
    sl_check_start(&call->check, call->requests, call->chosen_count, spend);
    call->inside = false;
    return !call->check.busy;
}

/* Complete the response and call done(). */
static void answer(struct sl_rls_call *call, int err)
{
    call->err = err;
    call->denied |= call->quotas > 0 && call->quotas == call->quotas_over;
    call->response.code = call->denied ? SL_RLS_OVER_LIMIT : SL_RLS_OK;
    call->response.count = call->request.count;
    if (!err)
        add_rendered(call);
    call->done(call);
}

static void go_on(struct sl_rls_call *call)
{
    int err = 0;

    do {
        if (call->chosen_count > 0)
            err = keep(call);
        if (err || call->gone || !choose(call))
            break;
        err = describe(call, &call->check.diag);
        if (err)
            break;
    } while (check(call));
    if (!call->check.busy)
        answer(call, err);
}

/* ---- begin ---- */

/* Find the routes of the descriptors if the policy has `count: each` or
 * `count: quota` anywhere. */
static int choose_way(struct sl_rls_call *call, struct sl_diag *diag)
{
    const struct sl_active_policy *active = sl_check_ref_policy(&call->check);
    int err;

    if (!active->policy->counts_each)
        return 0;
    err = make_requests(call, 1, diag);
    for (unsigned i = 0; i < call->request.count && !err; i++) {
        const struct sl_route *route;

        err = describe_one(call, i, &call->requests[0], diag);
        if (err)
            break;
        route = sl_check_route(&call->check, &call->requests[0]);
        call->routes[i] = route;
        if (!route)
            err = sl_diag_error(diag, SLUICE_ENOMEM, "out of memory");
        else if (route->count != SL_COUNT_ALL)
            call->each = true;
        call->response.statuses[i] =
            (struct sl_rls_status){.code = SL_RLS_OK, .reset_in = SL_NS_NONE};
    }
    return err;
}

void sl_rls_decide(struct sl_rls_call *call)
{
    int err = choose_way(call, &call->check.diag);

    if (err)
        answer(call, err);
    else
        go_on(call);
}
