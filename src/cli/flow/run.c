/* run.c -- run a flow.
 *
 * The engine uses the clock `now` of the run. Its store does not answer in time
 * while `store_fails` is set. The flow ends at the first act that is not
 * answered as expected, because later acts would run on another state.
 */
#include <inttypes.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/parse.h"
#include "cli/cli.h"
#include "engine/engine_int.h"
#include "libpolicy/libpolicy.h"

/* A line adds at most one key, so the smallest state is enough for any flow;
 * this is four times as much. */
#define STATE_BYTES ((size_t)4 << 20)

#define OVERRIDES_MAX 64          /* of a subject */
#define DEFAULT_IP    "192.0.2.1" /* TEST-NET-1 */

/* A hold of the flow, by name. */
struct hold {
    const char *name;   /* as=NAME */
    const char *own;    /* the engine's id; "" if nothing is held */
    const char *remote; /* the daemon's id, or NULL */
    struct hold *next;
};

struct run {
    const char *file;
    struct sl_arena *arena;
    struct sl_flow_daemon *daemon; /* or NULL */
    struct sluice_policy *policy;
    struct sluice_engine *engine;
    struct sluice_decision *decision;
    struct sluice_ended *ended;
    struct hold *holds;
    struct sl_flow_registry registry;
    bool has_asked; /* a request, or a report of usage */
    struct sl_flow_tokens tokens;
    struct sl_flow_webhooks webhooks;
    sl_ns now;
    bool store_fails;
    struct sl_flow_outcome *out;
};

static int64_t on_now(void *ctx)
{
    return ((struct run *)ctx)->now;
}

static int on_store(void *ctx)
{
    return ((struct run *)ctx)->store_fails;
}

/* End the flow with a message. Returns false. */
static bool stop(struct run *run, enum sl_flow_result end, const char *fmt, ...)
    SL_PRINTF(3, 4);

static bool stop(struct run *run, enum sl_flow_result end, const char *fmt, ...)
{
    char text[512];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    run->out->end = end;
    run->out->message = sl_arena_copy(run->arena, sl_str_c(text));
    if (!run->out->message)
        run->out->message = "out of memory";
    return false;
}

static bool out_of_memory(struct run *run)
{
    return stop(run, SL_END_BROKEN, "out of memory");
}

/* End the flow with the message of sluice_why(). */
static bool broken(struct run *run)
{
    return stop(run, SL_END_BROKEN, "%s", sluice_why());
}

/* True if a call to the daemon succeeded, else ends the flow with its
 * message. */
static bool daemon_ok(struct run *run, int err)
{
    static const enum sl_flow_result ends[] = {SL_END_UNREACHABLE,
                                               SL_END_FAILED};

    if (!err)
        return true;
    if (err == SLUICE_ENOMEM)
        return out_of_memory(run);
    return stop(run, ends[err != SLUICE_ESYS], "%s", run->daemon->why.sentence);
}

/* The same for a call to the webhooks of the flow. */
static bool webhooks_ok(struct run *run, int err)
{
    if (err == SLUICE_ENOMEM)
        return out_of_memory(run);
    return !err || stop(run, SL_END_FAILED, "%s", run->webhooks.why.sentence);
}

/* ---- subjects ---- */

/* Add or replace a subject. `end` applies to the plan and to all overrides;
 * SL_NS_NONE: never. False without memory. */
static bool set_subject(struct run *run, const struct sl_flow_act *act,
                        sl_ns end)
{
    const struct sl_flow_subject_args *record = act->record;
    struct sl_subject_override *rates = sl_arena_take(
        run->arena, (record->override_count + 1) * sizeof(*rates));
    struct sl_flow_subject *s =
        rates ? sl_flow_registry_add(&run->registry, run->arena, act->names[0],
                                     act->names[1])
              : NULL;

    if (!s)
        return false;
    for (size_t i = 0; i < record->override_count; i++)
        rates[i] = (struct sl_subject_override){
            .limit = sl_str_c(record->overrides[i].limit),
            .rate = sl_str_c(record->overrides[i].rate),
            .until = end,
            .by = SL_STR("flow")};
    s->anchor = record->anchor;
    s->zone = record->zone;
    s->subject =
        (struct sl_subject){.refs = 1,
                            .known = true,
                            .id = sl_str_c(s->id),
                            .plan = sl_str_c(record->plan),
                            .expires = end,
                            .rates = rates,
                            .rate_count = (unsigned)record->override_count,
                            .own.last = sl_own_calendar_read(
                                sl_str_c(s->anchor), sl_str_c(s->zone)),
                            .block = s->subject.block};
    return true;
}

/* ---- policies ---- */

static bool bad_policy(struct run *run, const struct sluice_problems *problems)
{
    const char *text = problems ? sluice_problems_text(problems) : "";

    if (!text[0])
        return stop(run, SL_END_BAD_POLICY, "%s", sluice_why());
    run->out->end = SL_END_BAD_POLICY;
    run->out->message = sl_arena_copy(run->arena, sl_str_c(text));
    return run->out->message ? false : out_of_memory(run);
}

static bool load(struct run *run, const char *path, struct sluice_policy **ret)
{
    struct sluice_problems *problems = NULL;
    int err = sluice_policy_load(path, NULL, ret, &problems);

    if (err == SLUICE_ENOMEM)
        out_of_memory(run);
    else if (err)
        bad_policy(run, problems);
    sluice_problems_free(problems);
    return err == 0;
}

static bool open_engine(struct run *run, const struct sl_flow *flow)
{
    const char *path = flow->policy;
    struct sluice_engine_options options = {
        .size = STATE_BYTES,
        .now = on_now,
        .now_ctx = run,
        .fault = on_store,
        .fault_ctx = run,
    };

    if (!load(run, path, &run->policy))
        return false;
    if (sluice_engine_open(run->policy, &options, &run->engine))
        return broken(run);
    run->decision = sluice_decision_new();
    run->ended = sluice_ended_new();
    if (!run->decision || !run->ended ||
        sl_flow_tokens_open(&run->tokens, run->engine, run->policy, path) ||
        sl_flow_webhooks_open(&run->webhooks, run->arena, run->engine,
                              &run->now))
        return out_of_memory(run);
    run->webhooks.policy = run->policy;
    run->engine->ctx.subjects = sl_flow_registry_open(&run->registry);
    run->out->line = flow->line;
    return !run->daemon ||
           daemon_ok(run, sl_flow_daemon_begin(run->daemon, path));
}

static bool do_reload(struct run *run, const struct sl_flow_act *act)
{
    const char *path = sl_flow_path(run->file, act->names[0], run->arena);
    struct sluice_policy *policy;

    if (!path)
        return out_of_memory(run);
    if (!load(run, path, &policy))
        return false;
    if (sluice_engine_use(run->engine, policy)) {
        sluice_policy_release(policy);
        return broken(run);
    }
    sluice_policy_release(run->policy);
    run->policy = policy;
    run->webhooks.policy = policy;
    if (sl_flow_tokens_open(&run->tokens, run->engine, policy, path))
        return out_of_memory(run);
    return !run->daemon ||
           daemon_ok(run, sl_flow_daemon_policy(run->daemon, path));
}

/* ---- time ---- */

static bool move_to(struct run *run, sl_ns at)
{
    if (at >= SL_TIME_END)
        return stop(run, SL_END_FAILED,
                    "the clock would be after the year 2115");
    return webhooks_ok(run, sl_flow_webhooks_move(&run->webhooks, at)) &&
           (!run->daemon ||
            daemon_ok(run, sl_flow_daemon_clock(run->daemon, at)));
}

static bool do_at(struct run *run, const struct sl_flow_act *act)
{
    /* Both are below SL_TIME_END: the sum fits. */
    return move_to(run, act->when.at + (act->when.relative ? run->now : 0));
}

/* Move the clock between two repeats. */
static bool advance(struct run *run, sl_ns span)
{
    sl_ns at;

    if (__builtin_add_overflow(run->now, span, &at))
        at = SL_TIME_END;
    return move_to(run, at);
}

/* ---- one field of a JSON text, by its dotted path ----
 *
 * `error.code` is the member `code` of the member `error`. A member with dots
 * in its name takes precedence. In an array, a step is an index.
 */

static json_t *member(json_t *at, struct sl_str step)
{
    uint64_t index;

    if (json_is_object(at))
        return json_object_getn(at, step.at, step.len);
    if (json_is_array(at) && sl_parse_number(step, &index, NULL) == 0)
        return json_array_get(at, (size_t)index);
    return NULL;
}

static json_t *find_path(json_t *at, struct sl_str path)
{
    while (at && path.len > 0) {
        const char *dot = memchr(path.at, '.', path.len);
        json_t *whole = member(at, path);
        struct sl_str step = {path.at,
                              dot ? (size_t)(dot - path.at) : path.len};

        if (whole)
            return whole;
        at = member(at, step);
        path = sl_str_from(path, step.len + (dot != NULL));
    }
    return at;
}

static char *as_text(json_t *value, struct sl_arena *arena)
{
    size_t flags = JSON_COMPACT | JSON_ENCODE_ANY | JSON_PRESERVE_ORDER;
    size_t len;
    char *text;

    if (json_is_string(value))
        return sl_arena_copy(arena, (struct sl_str){json_string_value(value),
                                                    json_string_length(value)});
    len = json_dumpb(value, NULL, 0, flags);
    text = sl_arena_take(arena, len + 1);
    if (text) {
        json_dumpb(value, text, len, flags);
        text[len] = '\0';
    }
    return text;
}

/* The field at a dotted path: a string without quotes, other values as JSON.
 * NULL: no such field. *ret_err is set to SLUICE_ENOMEM without memory. */
static const char *body_field(const char *json, const char *path,
                              struct sl_arena *arena, int *ret_err)
{
    json_error_t error;
    json_t *root = json_loads(json, JSON_DECODE_ANY, &error);
    json_t *value = find_path(root, sl_str_c(path));
    const char *text = NULL;

    if (!root && json_error_code(&error) == json_error_out_of_memory)
        *ret_err = SLUICE_ENOMEM;
    if (value) {
        text = as_text(value, arena);
        if (!text)
            *ret_err = SLUICE_ENOMEM;
    }
    json_decref(root);
    return text;
}

/* ---- comparing an answer with the expectations ----
 *
 * The numbers are those of the limit that denied, or of the limit that the
 * headers show if the request was allowed. A number that the answer does not
 * have is "none".
 */

/* The results of the repeats of an act. */
struct counts {
    uint64_t allowed, denied;
};

struct answer {
    const struct sluice_decision *decision;
    const struct counts *counts;
    struct sluice_shown shown; /* of the limit that is compared */
    bool has_numbers;
    struct sluice_ended *ended; /* of a hold; NULL: unknown hold */
    /* Of a webhook; its state is NULL if the quota has refused it. */
    struct sl_flow_delivery delivery;
    bool was_denied;
    struct sl_arena *arena;
};

/* Compares one field of an answer. */
typedef bool field_f(const struct answer *a, const struct sl_expect *e,
                     const char **ret_got);

/* The index of the limit that is compared, or -1. */
static int find_limit(const struct sluice_decision *decision)
{
    const char *by = sluice_decision_by(decision);
    size_t count = sluice_decision_limits(decision);

    for (size_t i = 0; by[0] && i < count; i++)
        if (strcmp(sluice_decision_limit(decision, i).name, by) == 0)
            return (int)i;
    return sluice_decision_report(decision);
}

static const char *copy(struct sl_arena *arena, const char *text)
{
    return sl_arena_copy(arena, sl_str_c(text));
}

/* Compare a number; *ret_got is its text. */
static bool number_is(const struct answer *a, const struct sl_expect *e,
                      bool exists, uint64_t number, const char **ret_got)
{
    char text[32];

    snprintf(text, sizeof(text), "%" PRIu64, number);
    *ret_got = exists ? copy(a->arena, text) : "none";
    return e->none ? !exists : exists && number == e->number;
}

static bool span_is(const struct answer *a, const struct sl_expect *e,
                    bool exists, int64_t span, const char **ret_got)
{
    char text[32];

    exists = exists && span >= 0;
    *ret_got = exists ? copy(a->arena, sl_format_duration(span, text)) : "none";
    return e->none ? !exists : exists && span == e->span;
}

static bool outcome_is(const struct answer *a, const struct sl_expect *e,
                       const char **ret_got)
{
    bool allowed = sluice_decision_allowed(a->decision);
    bool never = sluice_decision_never(a->decision);

    *ret_got = allowed ? "allow" : never ? "never" : "deny";
    if (strcmp(e->want, "never") == 0)
        return never && !allowed;
    /* `never` is a denial too. */
    return allowed == (strcmp(e->want, "deny") != 0);
}

static const char *header_value(const struct sluice_decision *decision,
                                const char *name)
{
    const char *type = sluice_decision_content_type(decision);
    size_t count = sluice_decision_headers(decision);

    for (size_t i = 0; i < count; i++) {
        struct sluice_header h = sluice_decision_header(decision, i);

        if (sl_str_eq_nocase(sl_str_c(h.name), sl_str_c(name)))
            return h.value;
    }
    /* It belongs to the body but is sent as a header. */
    if (sl_str_eq_nocase(sl_str_c(name), SL_STR("Content-Type")) && type[0])
        return type;
    return NULL;
}

static bool text_is(const struct answer *a, const struct sl_expect *e,
                    const char *text, const char **ret_got)
{
    if (!text) {
        *ret_got = "none";
        return strcmp(e->want, "none") == 0;
    }
    *ret_got = copy(a->arena, text);
    return strcmp(e->want, text) == 0;
}

static bool body_is(const struct answer *a, const struct sl_expect *e,
                    const char **ret_got)
{
    const char *body = sluice_decision_body(a->decision);
    int err = 0;
    const char *field = body_field(body, e->name, a->arena, &err);

    if (err) {
        *ret_got = NULL;
        return false;
    }
    return text_is(a, e, field, ret_got);
}

/* The outcome of a hold is `ok` if the act changed it. Otherwise it is the
 * state of the hold: settled, released, expired, held or unknown. */
static bool hold_field_is(const struct answer *a, const struct sl_expect *e,
                          const char **ret_got)
{
    bool known = a->ended != NULL;
    const char *json = known ? sluice_ended_json(a->ended) : "{}";
    int err = 0;

    if (e->field == SL_FIELD_OUTCOME) {
        *ret_got = !known                         ? "unknown"
                   : sluice_ended_again(a->ended) ? sluice_ended_state(a->ended)
                                                  : "ok";
        return strcmp(e->want, *ret_got) == 0;
    }
    if (e->field == SL_FIELD_STATUS)
        return number_is(a, e, true, known ? 200 : 404, ret_got);
    *ret_got = NULL;
    if (!json)
        return false;
    json = body_field(json, e->name, a->arena, &err);
    return !err && text_is(a, e, json, ret_got);
}

/* Compare one field. *ret_got is its text; NULL: out of memory. */
static bool field_is(const struct answer *a, const struct sl_expect *e,
                     const char **ret_got)
{
    const struct sluice_decision *d = a->decision;
    const char *by = sluice_decision_by(d);
    uint64_t quota = sluice_decision_quota(d);

    switch (e->field) {
    case SL_FIELD_OUTCOME:
        return outcome_is(a, e, ret_got);
    case SL_FIELD_STATUS:
        return number_is(a, e, true, (uint64_t)sluice_decision_status(d),
                         ret_got);
    case SL_FIELD_BY:
        return text_is(a, e, by[0] ? by : NULL, ret_got);
    case SL_FIELD_LIMIT:
        return number_is(a, e, a->has_numbers, a->shown.limit, ret_got);
    case SL_FIELD_REMAINING:
        return number_is(a, e, a->has_numbers, a->shown.remaining, ret_got);
    case SL_FIELD_RETRY:
        return span_is(a, e, true, sluice_decision_retry_in_ns(d), ret_got);
    case SL_FIELD_RESET:
        return span_is(a, e, a->has_numbers, a->shown.reset_in_ns, ret_got);
    case SL_FIELD_WAIT:
        return span_is(a, e, a->has_numbers, a->shown.wait_ns, ret_got);
    case SL_FIELD_QUOTA:
        return number_is(a, e, quota != UINT64_MAX, quota, ret_got);
    case SL_FIELD_ALLOWED:
        return number_is(a, e, true, a->counts->allowed, ret_got);
    case SL_FIELD_DENIED:
        return number_is(a, e, true, a->counts->denied, ret_got);
    case SL_FIELD_TRIES:
        return number_is(a, e, true, a->delivery.tries, ret_got);
    case SL_FIELD_HEADER:
        return text_is(a, e, header_value(d, e->name), ret_got);
    case SL_FIELD_BODY:
        return body_is(a, e, ret_got);
    }
    return false;
}

/* A webhook: the outcome is the state of the delivery. `allow` and `ok` expect
 * that the message was accepted. */
static bool webhook_field_is(const struct answer *a, const struct sl_expect *e,
                             const char **ret_got)
{
    const struct sluice_decision *d = a->decision;

    switch (e->field) {
    case SL_FIELD_OUTCOME:
        *ret_got = a->was_denied ? "deny" : a->delivery.state;
        return strcmp(e->want, *ret_got) == 0 ||
               (!a->was_denied &&
                (strcmp(e->want, "ok") == 0 || strcmp(e->want, "allow") == 0));
    case SL_FIELD_STATUS:
        return number_is(a, e, true, a->was_denied ? 402 : 202, ret_got);
    case SL_FIELD_BY:
        return text_is(a, e, a->was_denied ? sluice_decision_by(d) : NULL,
                       ret_got);
    case SL_FIELD_RETRY:
        return span_is(a, e, true,
                       a->was_denied ? sluice_decision_retry_in_ns(d)
                                     : a->delivery.retry_in,
                       ret_got);
    default:
        return field_is(a, e, ret_got);
    }
}

/* Compare the answer with the expectations; false ends the flow. */
static bool compare(struct run *run, const struct sl_flow_act *act,
                    const struct answer *a, field_f *is_same_field)
{
    struct sl_flow_mismatch **tail = &run->out->misses;

    for (size_t i = 0; i < act->expect_count; i++) {
        const struct sl_expect *e = &act->expects[i];
        struct sl_flow_mismatch *miss;
        const char *got = "";

        if (is_same_field(a, e, &got))
            continue;
        miss = sl_arena_take(run->arena, sizeof(*miss));
        if (!miss || !got)
            return out_of_memory(run);
        *miss = (struct sl_flow_mismatch){
            .label = e->label, .want = e->want, .got = got};
        *tail = miss;
        tail = &miss->next;
        run->out->end = SL_END_FAILED;
    }
    return !run->out->misses;
}

/* The numbers of the last decision. */
static void fill_numbers(const struct run *run, struct answer *a)
{
    int index = find_limit(run->decision);

    if (index < 0)
        return;
    a->shown = sluice_decision_limit(run->decision, (size_t)index);
    a->has_numbers = a->shown.limited;
}

/* Compare the last decision. */
static bool compare_decision(struct run *run, const struct sl_flow_act *act,
                             const struct counts *counts)
{
    struct answer a = {
        .decision = run->decision, .counts = counts, .arena = run->arena};

    fill_numbers(run, &a);
    return compare(run, act, &a, field_is);
}

/* ---- requests ---- */

static bool has_limit(const struct run *run, const char *name)
{
    size_t count = sluice_policy_limits(run->policy);

    for (size_t i = 0; i < count; i++)
        if (strcmp(sluice_policy_limit_name(run->policy, i), name) == 0)
            return true;
    return false;
}

static bool no_limit(struct run *run, const char *name)
{
    return stop(run, SL_END_FAILED, "the policy has no limit \"%s\"", name);
}

/* A limit that the policy does not have is an error of the flow. */
static bool check_names(struct run *run, const struct sl_flow_act *act)
{
    if (act->kind == SL_FLOW_ACT_TAKE && !has_limit(run, act->names[0]))
        return no_limit(run, act->names[0]);
    for (size_t i = 0; i < act->in->request.cost_count; i++)
        if (!has_limit(run, act->in->request.costs[i].limit))
            return no_limit(run, act->in->request.costs[i].limit);
    return true;
}

/* In flows a single value is that of each `per` of the limit. NULL after the
 * flow was ended: there is no memory. */
static const char *key_of(struct run *run, const char *limit, const char *key)
{
    const struct sl_policy *policy = run->policy->policy;
    int index = sl_policy_rule(policy, sl_str_c(limit));
    unsigned count = index < 0 ? 1 : policy->rules[index].per_count;
    size_t len = strlen(key) + 1;
    char *text;

    if (count < 2 || strpbrk(key, ":%"))
        return key;
    text = sl_arena_take(run->arena, count * len);
    if (!text) {
        out_of_memory(run);
        return NULL;
    }
    for (unsigned i = 0; i < count; i++) {
        memcpy(text + i * len, key, len);
        text[(i + 1) * len - 1] = i + 1 < count ? ':' : '\0';
    }
    return text;
}

void sl_flow_request_fill(const struct sl_flow_act *act,
                          struct sluice_request *ret)
{
    const struct sl_inputs *in = act->in;

    *ret = in->request;
    ret->trusted = 1;
    if (!ret->ip)
        ret->ip = DEFAULT_IP;
    if (ret->body)
        ret->body_len = strlen(ret->body);
    if (act->kind == SL_FLOW_ACT_JOB)
        ret->job = act->names[0];
    if (act->kind == SL_FLOW_ACT_TAKE) {
        ret->limit = act->names[0];
        ret->key = act->names[1];
    }
    if (act->kind == SL_FLOW_ACT_REQUEST) {
        ret->method = act->names[0];
        ret->path = act->names[1];
    }
}

/* Send the request to the daemon too. */
static bool check_daemon(struct run *run, const struct sluice_request *request)
{
    const char *verdict;

    if (!run->daemon)
        return true;
    verdict = sluice_decision_json(run->decision);
    if (!verdict)
        return out_of_memory(run);
    return daemon_ok(run, sl_flow_daemon_check(run->daemon, request, verdict));
}

static bool repeat(struct run *run, const struct sl_flow_act *act,
                   struct counts *counts)
{
    struct sluice_request request;

    run->has_asked = true;
    for (uint64_t i = 0; i < act->in->times; i++) {
        if (i > 0 && !advance(run, act->in->every))
            return false;
        sl_flow_request_fill(act, &request);
        if (sluice_decide(run->engine, &request, run->decision))
            return broken(run);
        if (!check_daemon(run, &request))
            return false;
        if (sluice_decision_allowed(run->decision))
            counts->allowed++;
        else
            counts->denied++;
    }
    return !run->daemon || daemon_ok(run, sl_flow_daemon_flush(run->daemon));
}

/* token=FILE becomes a header. */
static bool add_token(struct run *run, struct sl_inputs *in)
{
    struct sl_diag why = {.sentence = ""};
    const char *path;
    int err;

    if (!in->token)
        return true;
    path = sl_flow_path(run->file, in->token, run->arena);
    err = path ? sl_flow_tokens_add(&run->tokens, run->policy, path, in,
                                    run->arena, &why)
               : SLUICE_ENOMEM;
    if (err == SLUICE_ENOMEM)
        return out_of_memory(run);
    return !err || stop(run, SL_END_FAILED, "%s", why.sentence);
}

static struct hold *find_hold(const struct run *run, const char *name)
{
    struct hold *hold = run->holds;

    while (hold && strcmp(hold->name, name) != 0)
        hold = hold->next;
    return hold;
}

/* as=NAME keeps the hold of the last repeat. */
static bool keep_hold(struct run *run, const struct sl_inputs *in)
{
    struct hold *hold = in->as ? find_hold(run, in->as) : NULL;

    if (!in->as)
        return true;
    if (!hold) {
        hold = sl_arena_take(run->arena, sizeof(*hold));
        if (!hold)
            return out_of_memory(run);
        *hold = (struct hold){.name = in->as, .next = run->holds};
        run->holds = hold;
    }
    hold->own = copy(run->arena, sluice_decision_hold(run->decision));
    hold->remote = run->daemon ? copy(run->arena, run->daemon->hold) : NULL;
    return (hold->own && (hold->remote || !run->daemon)) || out_of_memory(run);
}

static bool do_request(struct run *run, const struct sl_flow_act *written)
{
    struct sl_inputs in = *written->in;
    struct sl_flow_act brought = *written, *act = &brought;
    struct counts counts = {0};

    act->in = &in;
    if (act->kind == SL_FLOW_ACT_TAKE)
        act->names[1] = key_of(run, act->names[0], act->names[1]);
    if (!act->names[1] && act->kind == SL_FLOW_ACT_TAKE)
        return false;
    if (!add_token(run, &in) || !check_names(run, act) ||
        !repeat(run, act, &counts) || !keep_hold(run, &in))
        return false;
    return compare_decision(run, act, &counts);
}

/* ---- usage ---- */

/* Fill the request of `usage SCOPE ID LIMIT AMOUNT`. A negative amount is a
 * refund. */
static int fill_usage(const struct sl_flow_act *act, struct sluice_request *ret,
                      struct sl_diag *diag)
{
    const char *scope = act->names[0], *amount = act->names[3];

    *ret = (struct sluice_request){.limit = act->names[2],
                                   .key = act->names[1],
                                   .plan = act->in->request.plan,
                                   .trusted = 1,
                                   .has_cost = 1,
                                   .used = amount[0] == '-' ? -1 : 1};
    if (strcmp(scope, "user") == 0)
        ret->user = ret->key;
    else if (strcmp(scope, "org") == 0)
        ret->org = ret->key;
    else
        return sl_diag_error(
            diag, SLUICE_ECONF,
            "usage is reported for user or org, not for \"%s\"", scope);
    return sl_parse_count(sl_str_c(amount + (ret->used < 0)), &ret->cost, diag);
}

static bool do_usage(struct run *run, const struct sl_flow_act *act)
{
    struct counts counts = {.allowed = act->in->times};
    struct sluice_request request;
    struct sl_diag why = {.sentence = ""};

    if (!has_limit(run, act->names[2]))
        return no_limit(run, act->names[2]);
    if (fill_usage(act, &request, &why))
        return stop(run, SL_END_FAILED, "%s", why.sentence);
    request.key = key_of(run, request.limit, request.key);
    if (!request.key)
        return false;
    run->has_asked = true;
    for (uint64_t i = 0; i < act->in->times; i++) {
        if (i > 0 && !advance(run, act->in->every))
            return false;
        if (sluice_decide(run->engine, &request, run->decision))
            return broken(run);
        if (run->daemon &&
            !daemon_ok(run, sl_flow_daemon_usage(run->daemon, &request)))
            return false;
    }
    return compare_decision(run, act, &counts);
}

/* failed LIMIT KEY: attempts of the caller that have failed. */
static bool do_failed(struct run *run, const struct sl_flow_act *act)
{
    struct sluice_request request = {
        .limit = act->names[0],
        .key = key_of(run, act->names[0], act->names[1]),
        .has_cost = 1,
        .cost = 1,
        .failed = 1};
    struct counts counts = {0};

    if (!request.key)
        return false;
    if (!has_limit(run, act->names[0]))
        return no_limit(run, act->names[0]);
    for (uint64_t i = 0; i < act->in->times; i++) {
        if (i > 0 && !advance(run, act->in->every))
            return false;
        if (sluice_decide(run->engine, &request, run->decision))
            return broken(run);
        if (run->daemon &&
            !daemon_ok(run, sl_flow_daemon_usage(run->daemon, &request)))
            return false;
        if (sluice_decision_allowed(run->decision))
            counts.allowed++;
        else
            counts.denied++;
    }
    return compare_decision(run, act, &counts);
}

/* ---- holds ---- */

/* Settle, release or extend a hold of the engine. */
static int end_hold(struct run *run, const struct hold *hold,
                    const struct sl_flow_act *act)
{
    const struct sluice_request *in = &act->in->request;
    struct sluice_actual actual = {
        .has_cost = in->has_cost,
        .cost = in->cost,
        .costs = in->costs,
        .cost_count = in->cost_count,
    };

    if (act->kind == SL_FLOW_ACT_SETTLE)
        return sluice_engine_settle(run->engine, hold->own, &actual,
                                    run->ended);
    if (act->kind == SL_FLOW_ACT_RELEASE)
        return sluice_engine_release(run->engine, hold->own, run->ended);
    return sluice_engine_extend(run->engine, hold->own, in->hold_ns,
                                run->ended);
}

static bool do_hold(struct run *run, const struct sl_flow_act *act)
{
    const struct hold *hold = find_hold(run, act->names[0]);
    struct answer a = {.ended = run->ended, .arena = run->arena};
    const char *want = "{}";
    int err;

    if (!hold)
        return stop(
            run, SL_END_FAILED,
            "there is no hold \"%s\"; write as=%s on the line that takes it",
            act->names[0], act->names[0]);
    if (!check_names(run, act))
        return false;
    err = end_hold(run, hold, act);
    if (err && err != SLUICE_ENOENT)
        return broken(run);
    if (err)
        a.ended = NULL;
    else
        want = sluice_ended_json(run->ended);
    if (run->daemon && !want)
        return out_of_memory(run);
    if (run->daemon && !daemon_ok(run, sl_flow_daemon_hold(run->daemon, act,
                                                           hold->remote, want)))
        return false;
    return compare(run, act, &a, hold_field_is);
}

/* ---- webhooks ---- */

static bool do_destination(struct run *run, const struct sl_flow_act *act)
{
    return webhooks_ok(
        run, sl_flow_webhooks_answer(&run->webhooks, act->names[0],
                                     (int)strtol(act->names[1], NULL, 10)));
}

static bool do_webhook(struct run *run, const struct sl_flow_act *act)
{
    const struct sl_flow_message *message = NULL;
    const struct sl_inputs *in = act->in;
    struct counts counts = {0};
    struct answer a = {
        .decision = run->decision, .counts = &counts, .arena = run->arena};

    run->has_asked = true;
    for (uint64_t i = 0; i < in->times; i++) {
        if (i > 0 && !advance(run, in->every))
            return false;
        if (!webhooks_ok(run, sl_flow_webhooks_send(
                                  &run->webhooks, act->names[0], act->names[1],
                                  i + 1 == in->times ? in->as : NULL,
                                  run->decision, &message)))
            return false;
        if (message)
            counts.allowed++;
        else
            counts.denied++;
    }
    if (run->policy->policy->webhooks.quota_rule)
        fill_numbers(run, &a);
    a.was_denied = !message;
    if (message)
        a.delivery = sl_flow_webhooks_state(&run->webhooks, message);
    return compare(run, act, &a, webhook_field_is);
}

static bool do_delivery(struct run *run, const struct sl_flow_act *act)
{
    const struct sl_flow_message *message =
        sl_flow_webhooks_find(&run->webhooks, act->names[0]);
    const struct counts counts = {0};
    struct answer a = {
        .decision = run->decision, .counts = &counts, .arena = run->arena};

    if (!message)
        return stop(run, SL_END_FAILED,
                    "there is no webhook \"%s\"; write as=%s on the line that "
                    "queues it",
                    act->names[0], act->names[0]);
    a.delivery = sl_flow_webhooks_state(&run->webhooks, message);
    return compare(run, act, &a, webhook_field_is);
}

/* ---- other acts ---- */

/* The time of until=, or SL_NS_NONE. A date ends with its day, as in a daemon.
 */
static sl_ns end_of(const struct run *run,
                    const struct sl_flow_subject_args *args)
{
    if (!args->has_until)
        return SL_NS_NONE;
    if (args->until_date)
        return sl_calendar_day_end(sl_policy_date_zone(run->policy->policy),
                                   args->last_day);
    /* Both are below SL_TIME_END: the sum fits. */
    return args->until.at + (args->until.relative ? run->now : 0);
}

/* The id of a block: of an address or a network the canonical text, with its
 * `net`. NULL after the flow was ended. */
static const char *block_id(struct run *run, const struct sl_flow_act *act,
                            struct sl_net *net)
{
    char text[SL_NET_TEXT];
    const char *id = act->names[1];

    if (strcmp(act->names[0], "ip") != 0)
        return id;
    if (!sl_identify_net(run->policy->policy, sl_str_c(id), net)) {
        stop(run, SL_END_FAILED,
             "\"%s\" is not an IP address or a network such as 203.0.113.0/24",
             id);
        return NULL;
    }
    sl_net_print(net, text);
    id = sl_arena_copy(run->arena, sl_str_c(text));
    if (!id)
        out_of_memory(run);
    return id;
}

static bool do_block(struct run *run, const struct sl_flow_act *act)
{
    sl_ns end = end_of(run, act->record);
    struct sl_net net = {.bits = 0};
    const char *id = block_id(run, act, &net);
    struct sl_flow_subject *s =
        id ? sl_flow_registry_add(&run->registry, run->arena, act->names[0], id)
           : NULL;

    if (!id)
        return false;
    if (!s)
        return out_of_memory(run);
    if (end >= 0 && end <= run->now)
        return stop(run, SL_END_FAILED, "until= of the block has passed");
    s->net = net;
    s->subject.block = (struct sl_block){.is_set = true,
                                         .by = SL_STR("flow"),
                                         .note = sl_str_c(act->record->note),
                                         .until = end};
    return !run->daemon ||
           daemon_ok(run, sl_flow_daemon_block(run->daemon, act, end));
}

static bool do_unblock(struct run *run, const struct sl_flow_act *act)
{
    struct sl_net net;
    const char *id = block_id(run, act, &net);
    struct sl_flow_subject *s =
        id ? sl_flow_registry_find(&run->registry, sl_str_c(act->names[0]),
                                   sl_str_c(id))
           : NULL;

    if (!id)
        return false;
    if (!s || !s->subject.block.is_set)
        return stop(run, SL_END_FAILED, "%s %s is not blocked", act->names[0],
                    act->names[1]);
    s->subject.block.is_set = false;
    return !run->daemon ||
           daemon_ok(run, sl_flow_daemon_block(run->daemon, act, -1));
}

static bool is_same(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

/* A change of the periods takes effect some time later, if there is usage: a
 * flow has none. */
static bool keeps_periods(const struct run *run, const struct sl_flow_act *act)
{
    const struct sl_flow_subject *s = sl_flow_registry_find(
        &run->registry, sl_str_c(act->names[0]), sl_str_c(act->names[1]));

    return !run->has_asked ||
           (is_same(s ? s->anchor : NULL, act->record->anchor) &&
            is_same(s ? s->zone : NULL, act->record->zone));
}

static bool do_subject(struct run *run, const struct sl_flow_act *act)
{
    sl_ns end = end_of(run, act->record);

    if (!keeps_periods(run, act))
        return stop(run, SL_END_FAILED,
                    "the anchor and the zone of a subject are set before the "
                    "first request of a flow, and repeated in later lines");
    for (size_t i = 0; i < act->record->override_count; i++)
        if (!has_limit(run, act->record->overrides[i].limit))
            return no_limit(run, act->record->overrides[i].limit);
    if (act->record->override_count > OVERRIDES_MAX)
        return stop(run, SL_END_FAILED, "a subject can have at most %d rates",
                    OVERRIDES_MAX);
    if (!set_subject(run, act, end))
        return out_of_memory(run);
    return !run->daemon ||
           daemon_ok(run, sl_flow_daemon_subject(run->daemon, act, end));
}

/* The result of switching a feature or reporting a backlog. */
static bool was_set(struct run *run, const struct sl_flow_act *act,
                    const char *what, int err)
{
    if (err == SLUICE_ENOENT)
        return stop(run, SL_END_FAILED, "the policy has no %s \"%s\"", what,
                    act->names[0]);
    return !err || broken(run);
}

static bool do_feature(struct run *run, const struct sl_flow_act *act)
{
    bool on = strcmp(act->names[1], "on") == 0;
    int err = sluice_engine_switch(run->engine, act->names[0], on);

    return was_set(run, act, "feature", err) &&
           (!run->daemon ||
            daemon_ok(run,
                      sl_flow_daemon_feature(run->daemon, act->names[0], on)));
}

static bool do_backlog(struct run *run, const struct sl_flow_act *act)
{
    uint64_t depth = strtoull(act->names[1], NULL, 10);
    int err = sluice_engine_backlog(run->engine, act->names[0], depth);

    return was_set(run, act, "backlog", err) &&
           (!run->daemon ||
            daemon_ok(run, sl_flow_daemon_backlog(run->daemon, act->names[0],
                                                  depth)));
}

/* A slow store answers after the deadline. The caller has its verdict by then,
 * the same as of a store that fails, and what was taken late is given back. */
static bool do_store(struct run *run, const struct sl_flow_act *act)
{
    run->store_fails = strcmp(act->names[0], "heals") != 0;
    return true;
}

typedef bool act_f(struct run *run, const struct sl_flow_act *act);

static act_f *const acts[] = {
    [SL_FLOW_ACT_AT] = do_at,
    [SL_FLOW_ACT_REQUEST] = do_request,
    [SL_FLOW_ACT_JOB] = do_request,
    [SL_FLOW_ACT_TAKE] = do_request,
    [SL_FLOW_ACT_SUBJECT] = do_subject,
    [SL_FLOW_ACT_FEATURE] = do_feature,
    [SL_FLOW_ACT_BACKLOG] = do_backlog,
    [SL_FLOW_ACT_STORE] = do_store,
    [SL_FLOW_ACT_RELOAD] = do_reload,
    [SL_FLOW_ACT_USAGE] = do_usage,
    [SL_FLOW_ACT_SETTLE] = do_hold,
    [SL_FLOW_ACT_RELEASE] = do_hold,
    [SL_FLOW_ACT_EXTEND] = do_hold,
    [SL_FLOW_ACT_BLOCK] = do_block,
    [SL_FLOW_ACT_UNBLOCK] = do_unblock,
    [SL_FLOW_ACT_FAILED] = do_failed,
    [SL_FLOW_ACT_WEBHOOK] = do_webhook,
    [SL_FLOW_ACT_DELIVERY] = do_delivery,
    [SL_FLOW_ACT_DESTINATION] = do_destination,
};

static void run_acts(struct run *run, const struct sl_flow *flow)
{
    for (const struct sl_flow_act *act = flow->acts; act; act = act->next) {
        run->out->line = act->line;
        run->out->acts += act->kind != SL_FLOW_ACT_AT;
        if (!acts[act->kind](run, act))
            break;
    }
}

void sl_flow_run(const struct sl_flow *flow, const char *file,
                 struct sl_flow_daemon *daemon, struct sl_arena *arena,
                 struct sl_flow_outcome *ret)
{
    struct run run = {
        .file = file, .arena = arena, .daemon = daemon, .out = ret};
    const char *cannot = daemon ? sl_flow_daemon_cannot(daemon, flow) : NULL;

    *ret = (struct sl_flow_outcome){.end = SL_END_PASSED, .message = ""};
    if (cannot)
        stop(&run, SL_END_SKIPPED, "%s", cannot);
    else if (open_engine(&run, flow))
        run_acts(&run, flow);
    sluice_decision_free(run.decision);
    sluice_ended_free(run.ended);
    sluice_engine_close(run.engine);
    sl_flow_tokens_close(&run.tokens);
    sl_flow_webhooks_close(&run.webhooks);
    sluice_policy_release(run.policy);
}
