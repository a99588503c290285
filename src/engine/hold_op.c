/* hold_op.c -- holds. The store gets the actual cost of each limit; a limit
 * without one keeps the held cost. */
#include "engine/hold_op.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/arith.h"
#include "base/hash.h"
#include "base/parse.h"
#include "engine/engine_int.h"
#include "engine/render.h"

void sl_hold_op_init(struct sl_hold_op *op, struct sl_engine *engine,
                     const struct sl_engine_ctx *engine_ctx,
                     const struct sl_alloc *alloc)
{
    memset(op, 0, sizeof(*op));
    op->engine = engine;
    op->engine_ctx = engine_ctx;
    op->alloc = alloc;
}

void sl_hold_op_done(struct sl_hold_op *op)
{
    sl_active_policy_unref(op->active);
    op->active = NULL;
    sl_alloc_free(op->alloc, op->actual, op->actual_room * sizeof(*op->actual));
    op->actual = NULL;
    op->actual_room = 0;
}

static void answer(struct sl_hold_op *op, int err)
{
    op->err = err;
    op->busy = false;
    op->done(op);
}

static int refuse_unknown(struct sl_hold_op *op)
{
    return sl_diag_error(&op->diag, SLUICE_ENOENT,
                         "there is no such hold, or it ended long ago");
}

/* The fingerprint of an endpoint. A collision mislabels a count, or has credits
 * settled by the costs of another route. */
static uint32_t print_endpoint(struct sl_str endpoint)
{
    static const struct sl_hash_key key = {0x736c75696365, 0x686f6c6473};

    return (uint32_t)sl_hash64(&key, endpoint);
}

/* ---- costs ---- */

static int make_room(struct sl_hold_op *op)
{
    unsigned wanted = op->active->policy->rule_total;
    struct sl_actual *list;

    if (wanted <= op->actual_room)
        return 0;
    list = sl_alloc_new(op->alloc, wanted * sizeof(*list));
    if (!list)
        return sl_diag_error(&op->diag, SLUICE_ENOMEM, "out of memory");
    sl_alloc_free(op->alloc, op->actual, op->actual_room * sizeof(*list));
    op->actual = list;
    op->actual_room = wanted;
    return 0;
}

static int check_costs(struct sl_hold_op *op, const struct sl_hold_op_input *q)
{
    for (unsigned i = 0; i < q->cost_count; i++)
        if (sl_policy_rule(op->active->policy, q->costs[i].limit) < 0)
            return sl_diag_error(&op->diag, SLUICE_ECONF,
                                 "the policy has no limit \"%.*s\"",
                                 SL_STR_ARG(q->costs[i].limit));
    return 0;
}

static bool lists(const struct sl_route *route, const struct sl_rule *rule)
{
    for (unsigned i = 0; i < route->rule_count; i++)
        if (route->rules[i] == rule)
            return true;
    return false;
}

/* Does the endpoint of the hold take from `rule`? */
static bool takes(const struct sl_hold_op *op, const struct sl_rule *rule)
{
    const struct sl_policy *policy = op->active->policy;
    uint32_t endpoint = op->name.endpoint;

    for (unsigned i = 0; i < policy->route_count; i++)
        if (lists(&policy->routes[i], rule) &&
            print_endpoint(policy->routes[i].endpoint) == endpoint)
            return true;
    return lists(&policy->fallback, rule) &&
           print_endpoint(policy->fallback.endpoint) == endpoint;
}

/* Is `rule` held as the credits of other limits? *ret_known: the endpoint takes
 * from one of these. */
static bool are_credits(const struct sl_hold_op *op, const struct sl_rule *rule,
                        bool *ret_known)
{
    const struct sl_policy *policy = op->active->policy;
    bool any = false;

    *ret_known = false;
    for (unsigned i = 0; i < policy->rule_count && !*ret_known; i++) {
        if (policy->rules[i].credits != rule)
            continue;
        any = true;
        *ret_known = takes(op, &policy->rules[i]);
    }
    return any && !takes(op, rule);
}

/* What settling says of a limit, or of the limits that the same credits pay. */
struct settled {
    bool named, fixed;
    uint64_t cost; /* named: the largest */
};

static void add_settled(const struct sl_rule *rule,
                        const struct sl_hold_op_input *q, struct settled *s)
{
    const struct sl_cost *named =
        sl_cost_find(q->costs, q->cost_count, rule->name);

    s->fixed |= rule->fixed_cost;
    if (!named)
        return;
    s->named = true;
    if (s->cost < named->cost)
        s->cost = named->cost;
}

/* Credits pay the cost of a limit, so they go by that limit. A check by the
 * name of a limit has no endpoint that tells which: then all count. */
static void settle_credits(const struct sl_hold_op *op,
                           const struct sl_rule *rule, bool known,
                           const struct sl_hold_op_input *q, struct settled *s)
{
    const struct sl_policy *policy = op->active->policy;

    for (unsigned i = 0; i < policy->rule_count; i++) {
        const struct sl_rule *paid = &policy->rules[i];

        if (paid->credits == rule && (!known || takes(op, paid)))
            add_settled(paid, q, s);
    }
}

/* The actual cost of a limit. False if it keeps the held cost. */
static bool is_actual(const struct sl_hold_op *op, const struct sl_rule *rule,
                      const struct sl_hold_op_input *q, uint64_t *ret)
{
    struct settled s = {0};
    bool known;

    if (rule->kind == SL_QUOTA && are_credits(op, rule, &known) &&
        !sl_cost_find(q->costs, q->cost_count, rule->name))
        settle_credits(op, rule, known, q, &s);
    else
        add_settled(rule, q, &s);
    if (rule->kind == SL_PERMITS)
        *ret = 0; /* permits come back */
    else if (s.named)
        *ret = s.cost;
    else if (q->has_cost && !s.fixed)
        *ret = q->cost;
    else
        return false;
    return true;
}

static int add_actual(struct sl_hold_op *op, const struct sl_hold_op_input *q)
{
    const struct sl_policy *policy = op->active->policy;
    struct sl_hold_call *call = &op->call;
    int err = make_room(op);

    for (unsigned i = 0; i < policy->rule_total && !err; i++) {
        uint64_t cost;

        if (is_actual(op, &policy->rules[i], q, &cost))
            op->actual[call->actual_count++] =
                (struct sl_actual){&call->limits[2 * (size_t)i], cost};
    }
    call->actual = op->actual;
    call->as_held = true;
    return err;
}

/* ---- ending ---- */

/* A quota with overage has no ceiling in the store: shows the plan's quota, as
 * the check did. */
static void show_ceiling(struct sl_held_part *part)
{
    struct sl_answer *a = &part->answer;
    uint64_t used = sl_sub_floor(a->capacity, a->remaining);

    if (!part->binding || part->no_answer ||
        (part->binding->strictest.kind != SL_QUOTA &&
         part->binding->strictest.kind != SL_LEVEL) ||
        a->capacity <= a->limit)
        return;
    a->capacity = a->limit;
    a->remaining = sl_sub_floor(a->limit, used);
    part->over = part->cost > 0 && used > a->limit;
}

static void on_done(struct sl_hold_call *call)
{
    struct sl_hold_op *op = call->ctx;
    int err = call->err;

    for (unsigned i = 0; !err && i < call->count; i++)
        show_ceiling(&call->parts[i]);
    if (err)
        sl_diag_error(&op->diag, err, "the store did not answer in time");
    else if (call->state == SL_HOLD_UNKNOWN)
        err = refuse_unknown(op);
    else
        sl_usage_report_hold_end(op);
    if (!err && call->state == SL_HOLD_HELD && op->verb != SL_VERB_EXTEND)
        sl_wait_check_freed(op);
    answer(op, err);
}

/* The store of the hold; NULL if it has no holds. */
static struct sl_store *find_store(const struct sl_hold_op *op)
{
    struct sl_engine *engine = op->engine;
    struct sl_store *store = op->name.local ? engine->local : engine->store;

    if (!store || !store->calls->hold || (op->name.local && !op->active->local))
        return NULL;
    return store;
}

static int prepare(struct sl_hold_op *op, const struct sl_hold_op_input *q)
{
    const struct sl_policy *policy = op->active->policy;
    sl_ns most = policy->hold_max;
    int err;

    if (!sl_hold_name_read(q->name, &op->name) || !find_store(op))
        return refuse_unknown(op);
    err = check_costs(op, q);
    if (err)
        return err;
    op->call = (struct sl_hold_call){
        .op = q->verb == SL_VERB_EXTEND ? SL_HOLD_EXTEND : SL_HOLD_SETTLE,
        .id = op->name.id,
        .place = op->name.place,
        .limits = op->name.local ? op->active->local : op->active->stored,
        .limits_count = 2 * policy->rule_total,
        .release = q->verb == SL_VERB_RELEASE,
        .hold_for = q->hold < most ? q->hold : most,
        .now = q->now,
        .deadline = q->deadline,
        .loop = op->engine_ctx ? op->engine_ctx->loop : NULL,
        .done = on_done,
        .ctx = op,
    };
    return q->verb == SL_VERB_SETTLE ? add_actual(op, q) : 0;
}

static bool has_fault(const struct sl_hold_op *op)
{
    const struct sl_engine *engine = op->engine;

    return !op->name.local && engine->fault && engine->fault(engine->fault_ctx);
}

/* The end of a hold of usage that cannot be recorded is not acknowledged. Which
 * limits are held is not known yet, so it is enough that the policy has such a
 * limit. */
static bool has_no_room(const struct sl_hold_op *op)
{
    const struct sl_usage_sink *meter =
        op->engine_ctx ? op->engine_ctx->meter : NULL;
    const struct sl_policy *policy = op->active->policy;

    if (!meter || !meter->no_room)
        return false;
    for (unsigned i = 0; i < policy->rule_total; i++)
        if (sl_is_durable(policy->rules[i].kind))
            return true;
    return false;
}

void sl_hold_op_begin(struct sl_hold_op *op,
                      const struct sl_hold_op_input *question)
{
    int err;

    op->busy = true;
    op->verb = question->verb;
    op->diag.sentence[0] = '\0';
    op->active = sl_engine_ref_policy(op->engine, op->active);
    err = prepare(op, question);
    if (!err && has_no_room(op))
        err = sl_diag_error(&op->diag, SLUICE_ESTORE,
                            "the usage journal is full, so that usage cannot "
                            "be recorded; ask again");
    if (err) {
        answer(op, err);
    } else if (has_fault(op)) {
        op->call.err = SLUICE_ESTORE;
        on_done(&op->call);
    } else {
        sl_store_hold(find_store(op), &op->call);
    }
}

/* ---- taking ---- */

/* Retry-After if there is no room for holds. */
#define ROOM_RETRY SL_S

void sl_hold_refuse(struct sl_decision *d)
{
    sl_decision_refuse(d, SL_REASON_HOLDS);
    if (d->reason == SL_REASON_HOLDS)
        d->retry_in = ROOM_RETRY;
}

static const struct sl_rule *rule_of(const struct sl_decision *d, unsigned i)
{
    return d->shown[d->part_shown[i]].rule;
}

/* Guards have a time of their own. */
static sl_ns hold_of(const struct sl_decision *d, unsigned i)
{
    unsigned shown = d->part_shown[i];

    return shown < d->shown_count ? rule_of(d, i)->hold
                                  : d->running[shown - d->shown_count].hold;
}

/* The default time of permits: the longest of the limits; 0 without permits. */
static sl_ns span_of_permits(const struct sl_decision *d)
{
    sl_ns longest = 0;

    for (unsigned i = 0; i < d->take.count; i++)
        if (rule_of(d, i)->kind == SL_PERMITS && d->parts[i].cost > 0 &&
            hold_of(d, i) > longest)
            longest = hold_of(d, i);
    return longest;
}

/* Marks the parts that are not held. Returns whether any part is. */
static bool mark_not_held(struct sl_decision *d)
{
    bool any = false;

    for (unsigned i = 0; i < d->take.count; i++) {
        struct sl_part *part = &d->parts[i];

        part->not_held =
            part->cost == 0 || part->carried ||
            (d->hold_asked == 0 && rule_of(d, i)->kind != SL_PERMITS);
        any |= !part->not_held;
    }
    return any;
}

static bool make_id(struct sl_hold_id *ret)
{
    struct sl_hash_key random;

    do {
        if (sl_hash_key_make(&random))
            return false;
        *ret = (struct sl_hold_id){
            {random.k0, random.k1}
        };
    } while (sl_hold_id_is_none(*ret));
    return true;
}

static bool has_holds(const struct sl_check *c)
{
    const struct sl_engine *engine = c->engine;
    const struct sl_store *store =
        c->decision.on_local ? engine->local : engine->store;

    return store->calls->hold != NULL;
}

void sl_hold_prepare(struct sl_check *c)
{
    struct sl_decision *d = &c->decision;
    struct sl_take *take = &d->take;
    sl_ns span = d->hold_asked ? d->hold_asked : span_of_permits(d);

    if (take->op != SL_TAKE_OP_TAKE || span == 0 || !mark_not_held(d))
        return;
    if (!has_holds(c)) {
        /* Without holds permits stay taken, as a level does. A guard would
         * never end. */
        if (d->hold_asked || d->running_count > 0)
            sl_hold_refuse(d);
        return;
    }
    if (!make_id(&take->hold)) {
        sl_hold_refuse(d);
        return;
    }
    take->place = 0;
    take->hold_for = span < d->policy->hold_max ? span : d->policy->hold_max;
}

void sl_hold_taken(struct sl_decision *d)
{
    struct sl_hold_name name;

    if (sl_hold_id_is_none(d->take.hold) || !d->take.allowed)
        return;
    name = (struct sl_hold_name){
        .id = d->take.hold,
        .endpoint = print_endpoint(d->route->endpoint),
        .place = d->take.place,
        .local = d->on_local,
    };
    sl_hold_name_write(&name, d->hold);
    d->hold_for = d->take.hold_for;
}

/* ---- names ---- */

#define ID_DIGITS   32
#define NAME_DIGITS 40 /* id and endpoint */

void sl_hold_name_write(const struct sl_hold_name *name, char out[SL_HOLD_TEXT])
{
    int len = snprintf(out, SL_HOLD_TEXT, "%016" PRIx64 "%016" PRIx64 "%08x",
                       name->id.w[0], name->id.w[1], name->endpoint);

    if (len != NAME_DIGITS)
        out[0] = '\0';
    else if (name->local)
        memcpy(out + len, "-local", sizeof("-local"));
    else if (name->place != 0)
        snprintf(out + len, (size_t)(SL_HOLD_TEXT - len), "-%x", name->place);
}

/* Small letters only, so that a hold has one name. */
static int digit_of(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* All of `text`, at most 16 digits. */
static bool read_hex(struct sl_str text, uint64_t *ret)
{
    uint64_t n = 0;

    if (text.len == 0 || text.len > 16)
        return false;
    for (size_t i = 0; i < text.len; i++) {
        int digit = digit_of(text.at[i]);

        if (digit < 0)
            return false;
        n = n << 4 | (uint64_t)digit;
    }
    *ret = n;
    return true;
}

static bool read_place(struct sl_str text, struct sl_hold_name *name)
{
    uint64_t place = 0;

    if (sl_str_eq(text, SL_STR("-local"))) {
        name->local = true;
        return true;
    }
    if (text.len == 0)
        return true;
    text = sl_str_from(text, 1);
    if (text.at[-1] != '-' || text.len > 8 || !read_hex(text, &place) ||
        text.at[0] == '0')
        return false;
    name->place = (uint32_t)place;
    return true;
}

bool sl_hold_name_read(struct sl_str text, struct sl_hold_name *ret)
{
    struct sl_hold_name name = {.place = 0};
    uint64_t endpoint = 0;

    if (text.len < NAME_DIGITS ||
        !read_hex((struct sl_str){text.at, 16}, &name.id.w[0]) ||
        !read_hex((struct sl_str){text.at + 16, 16}, &name.id.w[1]) ||
        !read_hex((struct sl_str){text.at + ID_DIGITS, 8}, &endpoint) ||
        !read_place(sl_str_from(text, NAME_DIGITS), &name) ||
        sl_hold_id_is_none(name.id))
        return false;
    name.endpoint = (uint32_t)endpoint;
    *ret = name;
    return true;
}

int sl_hold_span(struct sl_str text, sl_ns *ret, struct sl_diag *diag)
{
    sl_ns span = 0;
    int err = sl_parse_duration(text, &span, diag);

    if (!err && span <= 0)
        err = sl_diag_error(diag, SLUICE_EINVAL,
                            "the duration must be above 0; write one like 30s");
    if (!err)
        *ret = span;
    return err;
}

int sl_wait_span(struct sl_str text, sl_ns *ret, struct sl_diag *diag)
{
    sl_ns span = 0;
    int err = sl_parse_duration(text, &span, diag);

    if (!err)
        *ret = span > 0 ? span : SL_NS_NONE;
    return err;
}

struct sl_str sl_hold_find_endpoint(const struct sl_policy *policy,
                                    uint32_t endpoint)
{
    if (print_endpoint(policy->fallback.endpoint) == endpoint)
        return policy->fallback.endpoint;
    for (unsigned i = 0; i < policy->route_count; i++)
        if (print_endpoint(policy->routes[i].endpoint) == endpoint)
            return policy->routes[i].endpoint;
    return (struct sl_str){"", 0};
}

/* ---- answers ---- */

static const char *const states[] = {
    [SL_HOLD_UNKNOWN] = "unknown", [SL_HOLD_HELD] = "held",
    [SL_HOLD_SETTLED] = "settled", [SL_HOLD_RELEASED] = "released",
    [SL_HOLD_EXPIRED] = "expired",
};

bool sl_hold_is_again(const struct sl_hold_op *op)
{
    return op->call.state != SL_HOLD_HELD;
}

const char *sl_hold_state_word(const struct sl_hold_op *op)
{
    enum sl_hold_state state = op->call.state;

    if (state == SL_HOLD_HELD && op->verb == SL_VERB_SETTLE)
        state = SL_HOLD_SETTLED;
    if (state == SL_HOLD_HELD && op->verb == SL_VERB_RELEASE)
        state = SL_HOLD_RELEASED;
    return states[state];
}

const struct sl_rule *sl_hold_rule(const struct sl_hold_op *op, unsigned i)
{
    const struct sl_limit_binding *of = op->call.parts[i].binding;

    return of ? &op->active->policy->rules[(of - op->call.limits) / 2] : NULL;
}

bool sl_hold_has_remaining(const struct sl_hold_op *op, unsigned i)
{
    const struct sl_held_part *part = &op->call.parts[i];

    return sl_hold_rule(op, i) && !part->no_answer &&
           part->answer.limit < SL_AMOUNT_MAX;
}

/* A limit that is no longer in the policy has neither name nor numbers. */
static void write_part(struct sl_writer *w, const struct sl_hold_op *op,
                       unsigned i)
{
    const struct sl_held_part *part = &op->call.parts[i];
    const struct sl_rule *rule = sl_hold_rule(op, i);
    bool answered = sl_hold_has_remaining(op, i);
    uint64_t left = part->answer.remaining;

    sl_member_str_if(w, i > 0 ? SL_STR(",{\"name\":") : SL_STR("{\"name\":"),
                     rule, rule ? rule->name : SL_STR(""));
    sl_member_uint(w, SL_MEMBER("held"), part->held);
    sl_member_uint_if(w, SL_MEMBER("cost"), op->verb != SL_VERB_EXTEND,
                      part->cost);
    sl_member_uint_if(w, SL_MEMBER("remaining"), answered,
                      answered ? sl_rule_down(rule, left) : 0);
    if (answered && sl_rule_is_scaled(rule)) {
        sl_member_exact(w, rule);
        sl_member_uint(w, SL_MEMBER("remaining"), left);
        sl_writer_add(w, SL_STR("}"));
    }
    sl_member_flag(w, SL_MEMBER("over"), part->over);
    sl_writer_add(w, SL_STR("}"));
}

int sl_hold_render(const struct sl_hold_op *op, struct sl_buf *out)
{
    struct sl_writer w = {.out = out};
    size_t before = out->len;
    bool held = op->verb == SL_VERB_EXTEND && !sl_hold_is_again(op);
    char name[SL_HOLD_TEXT];

    sl_hold_name_write(&op->name, name);
    sl_member_str(&w, SL_STR("{\"hold\":"), sl_str_c(name));
    sl_member_str(&w, SL_MEMBER("state"), sl_str_c(sl_hold_state_word(op)));
    sl_member_flag(&w, SL_MEMBER("again"), sl_hold_is_again(op));
    sl_member_uint_if(&w, SL_MEMBER("expires_ms"), held,
                      sl_span_in(op->call.expires_in, SL_MS));
    sl_writer_add(&w, SL_STR(",\"limits\":["));
    for (unsigned i = 0; i < op->call.count; i++)
        write_part(&w, op, i);
    sl_writer_add(&w, SL_STR("]}"));
    if (w.err)
        out->len = before;
    return w.err;
}
