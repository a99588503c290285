/* precheck.c -- checks of a request before its limits.
 *
 * A valid webhook is remembered until it expires, so that it is not handled
 * twice: the same message is answered as before (idempotency.c).
 */
#include <string.h>

#include "base/parse.h"
#include "engine/engine_int.h"

#define RETRY SL_S /* if no better time is known */

struct sl_hash128 sl_fingerprint_add(const struct sl_hash_key *secret,
                                     struct sl_hash128 before,
                                     struct sl_str text)
{
    const struct sl_hash_key key = {secret->k0 ^ before.lo,
                                    secret->k1 ^ before.hi};

    return sl_hash128(&key, text);
}

/* ---- verify ---- */

/* The only header of that name. */
static enum sl_webhook_fault find_header(const struct sl_request *request,
                                         struct sl_str name, struct sl_str *ret)
{
    unsigned count;

    if (name.len == 0)
        return SL_WEBHOOK_GOOD;
    *ret = sl_str_trim(sl_request_find(request, name, &count));
    if (count > 1)
        return SL_WEBHOOK_TWICE;
    return count == 1 ? SL_WEBHOOK_GOOD : SL_WEBHOOK_NO_HEADER;
}

static enum sl_webhook_fault read_message(const struct sl_request *request,
                                          const struct sl_verify *verify,
                                          struct sl_webhook *ret)
{
    struct sl_str *places[] = {&ret->id, &ret->timestamp, &ret->signature};
    enum sl_webhook_fault fault = SL_WEBHOOK_GOOD;

    for (size_t i = 0; !fault && i < SL_LEN(places); i++)
        fault = find_header(request, verify->names[i], places[i]);
    if (!fault && !request->has_body)
        fault = SL_WEBHOOK_NO_BODY;
    ret->body = request->body;
    return fault;
}

/* Without the signature: a message has several while secrets change. */
static struct sl_hash128 print_message(const struct sl_check *c,
                                       const struct sl_route *route,
                                       const struct sl_webhook *message,
                                       struct sl_str seconds)
{
    const struct sl_hash_key *secret = sl_idempotency_secret(c);
    const struct sl_str texts[] = {SL_STR("webhook"), c->decision.policy->env,
                                   route->text,       message->id,
                                   seconds,           message->body};
    struct sl_hash128 fingerprint = {0, 0};

    for (size_t i = 0; i < SL_LEN(texts); i++)
        fingerprint = sl_fingerprint_add(secret, fingerprint, texts[i]);
    return fingerprint;
}

static enum sl_webhook_fault verify_route(struct sl_check *c,
                                          const struct sl_route *route)
{
    struct sl_decision *d = &c->decision;
    const struct sl_verify *verify = &route->guards->verify;
    struct sl_webhook message = {
        .id = {"", 0}
    };
    struct sl_webhook_seen seen;
    struct sl_decision_claim *claim = &d->claims[SL_CLAIM_WEBHOOK];
    enum sl_webhook_fault fault = read_message(c->request, verify, &message);

    if (!fault && !c->known->webhook)
        fault = SL_WEBHOOK_NOT_HERE;
    if (!fault)
        fault = c->known->webhook(&verify->rules, &message, d->now, &seen);
    if (fault)
        return fault;
    if (!claim->wanted) {
        claim->claim = (struct sl_repeat_claim){
            .key = print_message(c, route, &message, seen.seconds),
            .until = seen.until,
            .repeats = UINT32_MAX,
        };
        claim->wanted = true;
    }
    return SL_WEBHOOK_GOOD;
}

static void check_webhook(struct sl_check *c, const struct sl_route *route)
{
    struct sl_decision *d = &c->decision;
    enum sl_webhook_fault fault = verify_route(c, route);

    d->webhook_verified = !fault;
    d->webhook_fault = fault;
    if (!fault)
        return;
    if (fault == SL_WEBHOOK_NO_MEMORY) {
        sl_decision_refuse(d, SL_REASON_WEBHOOKS_FULL);
        d->retry_in = d->allowed ? d->retry_in : RETRY;
    } else {
        sl_decision_refuse(d, SL_REASON_WEBHOOK);
    }
}

/* ---- require ---- */

static enum sl_want judge(const struct sl_request *request,
                          const struct sl_require *require)
{
    unsigned count;
    struct sl_str value = sl_request_find(request, require->header, &count);
    uint64_t number = 0;

    if (value.len == 0 || count > 1)
        return require->optional && count == 0 ? SL_WANT_NOTHING
                                               : SL_WANT_HEADER;
    if (require->equals.len > 0 &&
        !sl_str_eq(value, sl_request_single(request, require->equals)))
        return SL_WANT_EQUAL;
    if (!require->has_min && !require->has_max)
        return SL_WANT_NOTHING;
    if (sl_parse_number(value, &number, NULL))
        return SL_WANT_NUMBER;
    if (require->has_max && number > require->max)
        return SL_WANT_LESS;
    return require->has_min && number < require->min ? SL_WANT_MORE
                                                     : SL_WANT_NOTHING;
}

static void check_requires(struct sl_check *c,
                           const struct sl_prechecks *guards)
{
    struct sl_decision *d = &c->decision;

    for (unsigned i = 0; i < guards->require_count; i++) {
        const struct sl_require *require = &guards->requires[i];
        enum sl_want want = judge(c->request, require);

        if (want == SL_WANT_NOTHING || d->reason != SL_REASON_NONE)
            continue;
        sl_decision_refuse(d, SL_REASON_REQUIRE);
        if (d->reason != SL_REASON_REQUIRE)
            continue; /* a policy in shadow */
        d->require = require;
        d->want = want;
        if (want == SL_WANT_NUMBER)
            continue; /* 400: whether it is too large is not known */
        d->status = require->status;
        d->code = require->code;
    }
}

/* ---- cost ---- */

enum cost_read { COST_READ, COST_MISSING, COST_WRONG };

enum sl_json_found sl_check_body_member(struct sl_check *c,
                                        struct sl_str pointer,
                                        struct sl_str *ret)
{
    const struct sl_request *request = c->request;
    enum sl_json_found found;

    if (!request->has_body || request->body.len == 0)
        return SL_JSON_FIND_NOTHING;
    if (request->body.len > SL_BODY_READ)
        return SL_JSON_FIND_WRONG;
    found = sl_json_find(request->body, pointer, &c->decision.arena, ret);
    if (found == SL_JSON_FIND_NO_MEMORY)
        c->no_memory = true;
    return found;
}

/* The number in a header. Two of them are wrong: the application may read the
 * other one. */
static enum cost_read read_header(const struct sl_request *request,
                                  struct sl_str name, uint64_t *ret)
{
    unsigned count;
    struct sl_str value = sl_str_trim(sl_request_find(request, name, &count));

    if (count == 0)
        return COST_MISSING;
    return count == 1 && !sl_parse_number(value, ret, NULL) ? COST_READ
                                                            : COST_WRONG;
}

/* Has a request of this method usually no body? */
static bool is_bodiless(const struct sl_request *request)
{
    static const struct sl_str methods[] = {
        {"GET",     3},
        {"HEAD",    4},
        {"DELETE",  6},
        {"OPTIONS", 7},
        {"TRACE",   5}
    };

    if (request->job.len > 0)
        return false;
    for (size_t i = 0; i < SL_LEN(methods); i++)
        if (sl_str_eq_nocase(request->method, methods[i]))
            return true;
    return request->method.len == 0; /* GET */
}

/* The bytes of the body, which is there or announced. Over HTTP/2 and in chunks
 * a body needs no announcement: a POST without one may have any size. */
static enum cost_read read_size(const struct sl_request *request, uint64_t *ret)
{
    enum cost_read read = COST_READ;

    *ret = request->body.len;
    if (!request->has_body)
        read = read_header(request, SL_STR("content-length"), ret);
    if (read == COST_MISSING && is_bodiless(request) &&
        sl_request_header(request, SL_STR("transfer-encoding")).len == 0) {
        *ret = 0;
        read = COST_READ;
    }
    return read;
}

/* Was the value found as a string? Strings with escapes are not in the body. */
static bool is_quoted(struct sl_str body, struct sl_str value)
{
    uintptr_t begin = (uintptr_t)body.at, at = (uintptr_t)value.at;

    return at < begin || at >= begin + body.len ||
           (at > begin && value.at[-1] == '"');
}

/* The number in the body. A string with digits is none. A body that cannot be
 * read is wrong, or a client could choose the default. */
static enum cost_read read_member(struct sl_check *c, struct sl_str pointer,
                                  uint64_t *ret)
{
    struct sl_str value;

    switch (sl_check_body_member(c, pointer, &value)) {
    case SL_JSON_FIND_VALUE:
        return is_quoted(c->request->body, value) ||
                       sl_parse_number(value, ret, NULL)
                   ? COST_WRONG
                   : COST_READ;
    case SL_JSON_FIND_NOTHING:
        return COST_MISSING;
    case SL_JSON_FIND_NO_MEMORY:
        return COST_READ; /* the check fails */
    case SL_JSON_FIND_WRONG:
        break;
    }
    return COST_WRONG;
}

/* A cost is at least 1: 0 would pass also if nothing is left. */
static enum cost_read read_cost(struct sl_check *c,
                                const struct sl_route_cost *cost, uint64_t *ret)
{
    enum cost_read read = COST_READ;
    uint64_t number = 0;

    switch (cost->from) {
    case SL_COST_FROM_POLICY:
        number = cost->number;
        break;
    case SL_COST_FROM_HEADER:
        read = read_header(c->request, cost->source, &number);
        break;
    case SL_COST_FROM_BODY:
        read = read_member(c, cost->source, &number);
        break;
    case SL_COST_FROM_SIZE:
        read = read_size(c->request, &number);
        number = number / cost->bytes + (number % cost->bytes > 0);
        break;
    }
    if (read == COST_READ)
        *ret = number == 0              ? 1
               : number < SL_AMOUNT_MAX ? number
                                        : SL_AMOUNT_MAX;
    return read;
}

void sl_precheck_cost(struct sl_check *c, const struct sl_prechecks *guards,
                      struct sl_rule_cost *ret)
{
    const struct sl_rule *rule = ret->rule;
    struct sl_decision *d = &c->decision;
    const struct sl_route_cost *cost = guards->costs;
    const struct sl_route_cost *end = cost + guards->cost_count;
    enum cost_read read;

    while (cost < end &&
           (cost->rule ? cost->rule != rule : rule->kind == SL_PERMITS))
        cost++;
    /* A preflight has no body. */
    if (cost == end || c->preflight || c->request->has_cost ||
        sl_cost_find(c->request->costs, c->request->cost_count, rule->name))
        return;
    if (cost->from != SL_COST_FROM_POLICY)
        ret->from = cost->text;
    read = read_cost(c, cost, &ret->cost);
    if (read == COST_MISSING && cost->has_default)
        ret->cost = cost->number;
    else if (read != COST_READ && d->reason == SL_REASON_NONE) {
        sl_decision_refuse(d, SL_REASON_COST);
        d->no_cost = cost;
    }
}

/* ---- backlog ---- */

static void check_backlog(struct sl_check *c, const struct sl_backlog *backlog)
{
    struct sl_decision *d = &c->decision;
    const struct sl_depth *depth;
    sl_ns at;

    if (!backlog->written || !c->active->depths)
        return;
    depth = &c->active->depths[backlog->index];
    at = atomic_load_explicit(&depth->at, memory_order_acquire);
    if (at == SL_NS_NONE || d->now - at > backlog->stale ||
        atomic_load_explicit(&depth->depth, memory_order_relaxed) <=
            backlog->max)
        return;
    sl_decision_refuse(d, SL_REASON_BACKLOG);
    if (d->reason == SL_REASON_BACKLOG)
        d->retry_in = backlog->retry_after;
}

/* ---- `guard` of a route: one request at a time per key.
 *
 * Rules. (test/unit/engine/guard.c and test/flow/k01-guards.flow check each by
 * number.)
 *   (1) One request runs; others are refused until it ends or expires.
 *   (2) Different values make different keys. Routes may share a key.
 *   (3) A request without a value is refused, or passes if the route allows
 *       that.
 *   (4) The guard and the limits are taken all or none.
 *   (5) Requests with cost 0, and reports of usage, ignore guards.
 */

#define TEXT_MOST ((size_t)16 << 10)

/* Retry-After if there is no room for holds. */
#define ROOM_RETRY SL_S

static struct sl_str find_value(struct sl_check *c,
                                const struct sl_guard_piece *piece)
{
    struct sl_decision *d = &c->decision;
    struct sl_str value;

    if (piece->header)
        value = sl_request_single(c->request, piece->header->header);
    else if (piece->scope == SL_SCOPE_IP)
        value = sl_caller_ip(&c->caller, d->policy, c->request);
    else
        value = c->caller.values[piece->scope];
    return sl_str_trim(value);
}

/* (3) */
static void refuse_missing(struct sl_decision *d,
                           const struct sl_guard_piece *piece)
{
    if (!piece->header) {
        d->missing_scope = d->policy->identity.scope_names[piece->scope];
        sl_decision_refuse(d, SL_REASON_MISSING);
        return;
    }
    sl_decision_refuse(d, SL_REASON_REQUIRE);
    d->require = piece->header;
    d->want = SL_WANT_HEADER;
}

/* False if a value is missing. */
static bool has_values(struct sl_check *c, const struct sl_guard *guard)
{
    struct sl_decision *d = &c->decision;

    for (unsigned i = 0; i < guard->count; i++) {
        const struct sl_guard_piece *piece = &guard->pieces[i];

        if (piece->literal.len > 0 || find_value(c, piece).len > 0)
            continue;
        if (!guard->skip)
            refuse_missing(d, piece);
        return false;
    }
    return true;
}

static int write_text(struct sl_check *c, const struct sl_guard *guard,
                      struct sl_buf *out)
{
    int err = 0;

    for (unsigned i = 0; i < guard->count && !err; i++) {
        const struct sl_guard_piece *piece = &guard->pieces[i];

        err = piece->literal.len > 0
                  ? sl_buf_add(out, piece->literal)
                  : sl_key_add_value(out, find_value(c, piece));
    }
    return err;
}

static int keep(struct sl_decision *d, struct sl_str text, struct sl_str *ret)
{
    const char *copy = sl_arena_copy(&d->arena, text);

    if (!copy)
        return SLUICE_ENOMEM;
    *ret = (struct sl_str){copy, text.len};
    return 0;
}

/* The rule of all guards follows those of the policy. */
static const struct sl_rule *rule_of(const struct sl_decision *d)
{
    return &d->policy->rules[d->policy->rule_count];
}

/* The name in a shared store: the prefix of the rule's names, and the text. */
static int make_name(struct sl_decision *d, struct sl_guard_key *running)
{
    const struct sl_key_context context = {.env = d->policy->env};
    struct sl_buf name;
    int err;

    sl_buf_init(&name, 2 * TEXT_MOST, d->arena.alloc);
    err = sl_key_name(&rule_of(d)->key, &context, NULL, 0, &name);
    if (!err)
        err = sl_buf_add(&name, running->text);
    if (!err)
        err = keep(d, sl_buf_str(&name), &running->name);
    sl_buf_done(&name);
    return err;
}

/* (2) */
static int make_keys(struct sl_check *c, const struct sl_guard *guard,
                     struct sl_guard_key *ret)
{
    struct sl_decision *d = &c->decision;
    struct sl_key_value value = {.scope = SL_STR("guard")};
    char bytes[SL_KEY_MAX];
    struct sl_buf text;
    int err;

    sl_buf_init(&text, TEXT_MOST, d->arena.alloc);
    err = write_text(c, guard, &text);
    if (!err)
        err = keep(d, sl_buf_str(&text), &ret->text);
    sl_buf_done(&text);
    if (err)
        return err;
    value.value = ret->text;
    err = keep(
        d, (struct sl_str){bytes, sl_key_bytes(&value, 1, c->secret, bytes)},
        &ret->key);
    return !err && c->active->wants_names ? make_name(d, ret) : err;
}

/* Several readings of a path may have the same guard. */
static bool is_known(const struct sl_decision *d,
                     const struct sl_guard_key *one)
{
    for (unsigned i = 0; i < d->running_count; i++)
        if (sl_str_eq(d->running[i].text, one->text))
            return true;
    return false;
}

static void claim_guard(struct sl_check *c, const struct sl_guard *guard)
{
    struct sl_decision *d = &c->decision;
    const struct sl_request *request = c->request;
    struct sl_guard_key one = {
        .hold = guard->hold,
        .cost = request->has_cost && request->cost == 0 ? 0 : 1, /* (5) */
    };

    if (c->preflight || d->charge || d->give_back ||
        d->policy->mode != SL_MODE_ENFORCE || !has_values(c, guard))
        return;
    if (make_keys(c, guard, &one)) {
        c->no_memory = true;
        return;
    }
    if (is_known(d, &one))
        return;
    if (d->running_count == SL_RUNNING) {
        sl_decision_refuse(d, SL_REASON_PATH);
        return;
    }
    d->running[d->running_count++] = one;
}

/* ---- all of them ---- */

bool sl_precheck_run(struct sl_check *c, const struct sl_route *route)
{
    struct sl_decision *d = &c->decision;
    const struct sl_prechecks *guards = route->guards;

    if (!guards)
        return true;
    if (guards->verify.written)
        check_webhook(c, route);
    if (d->reason == SL_REASON_NONE)
        check_requires(c, guards);
    if (d->reason == SL_REASON_NONE)
        check_backlog(c, &guards->backlog);
    if (d->reason == SL_REASON_NONE && guards->guard.written)
        claim_guard(c, &guards->guard);
    return d->reason == SL_REASON_NONE;
}

void sl_guard_show(struct sl_decision *d)
{
    for (unsigned i = 0; i < d->running_count; i++) {
        const struct sl_guard_key *running = &d->running[i];
        struct sl_limit_view *shown = &d->shown[d->shown_count + i];

        memset(shown, 0, offsetof(struct sl_limit_view, values));
        shown->rule = rule_of(d);
        shown->form = SL_RATE_PLAIN;
        shown->numbers = &shown->rule->strictest;
        shown->key = running->key;
        shown->name = running->name;
        shown->cost = running->cost;
        shown->allowed = true;
        shown->next_in = SL_NS_NONE;
    }
}

void sl_guard_conclude(struct sl_decision *d)
{
    for (unsigned i = 0; i < d->running_count; i++) {
        const struct sl_limit_view *shown = &d->shown[d->shown_count + i];

        if (shown->allowed)
            continue;
        if (shown->untracked) {
            sl_decision_refuse(d, SL_REASON_HOLDS);
            d->retry_in = ROOM_RETRY;
        } else {
            sl_decision_refuse(d, SL_REASON_CONFLICT);
            d->retry_in = shown->answer.retry_in; /* (1) */
        }
        return;
    }
}
