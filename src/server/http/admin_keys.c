/* admin_keys.c -- /v1/keys/LIMIT/VALUE...: the usage of one key of a limit, and
 * GET /v1/top.
 *
 *     GET      show the numbers; nothing is spent
 *     DELETE   reset the key, then show the numbers
 *
 * The path has one value for each `per` of the limit, in this order. Values are
 * percent-encoded: a slash is %2F. ?scope= names other scopes than those of the
 * limit, as /v1/top shows them: an anonymous caller is stored as `anon` or `ip`
 * instead of `user`. ?plan= uses the numbers of another plan.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/parse.h"
#include "base/timestamp.h"
#include "engine/engine_int.h"
#include "server/http/http_int.h"

struct key_op {
    struct sl_http_call *call;
    const struct sl_rule *rule;
    struct sl_request request;
    struct sl_str values[SL_PER_MAX], scopes[SL_PER_MAX];
    unsigned count;
    bool reset; /* not done yet */
    bool done;  /* the key was reset */
};

/* ---- the path ---- */

static bool decode(struct sl_http_call *call, struct sl_str text,
                   struct sl_str *ret)
{
    int err = sl_admin_decode(&call->arena, text, false, ret);

    if (err == SLUICE_ENOMEM)
        sl_http_no_memory(call);
    else if (err || ret->len == 0)
        sl_http_refuse(
            call, 400, "BAD_PATH",
            "\"%.*s\" is not a valid value; write /v1/keys/LIMIT/VALUE, with "
            "%%2F for a slash and %%25 for a %%",
            SL_STR_ARG(text));
    return call->status == 200;
}

/* Refuse a wrong number of values, with the path to write. */
static bool refuse_count(struct key_op *e)
{
    const struct sl_policy *policy = e->call->check.active->policy;
    char like[160] = "";
    size_t len = 0;

    for (unsigned i = 0; i < e->rule->per_count && len < sizeof(like); i++)
        len += (size_t)snprintf(
            like + len, sizeof(like) - len, "/%.*s",
            SL_STR_ARG(policy->identity.scope_names[e->rule->per[i]]));
    return sl_http_refuse(
        e->call, 400, "BAD_PATH",
        "limit \"%.*s\" has %u `per` value%s; write /v1/keys/%.*s%s",
        SL_STR_ARG(e->rule->name), e->rule->per_count,
        e->rule->per_count == 1 ? "" : "s", SL_STR_ARG(e->rule->name), like);
}

static bool read_path(struct key_op *e)
{
    struct sl_http_call *call = e->call;
    const struct sl_policy *policy = call->check.active->policy;
    struct sl_str rest = call->rest, name;
    int index;

    if (!decode(call, sl_admin_cut(&rest, '/'), &name))
        return false;
    index = sl_policy_rule(policy, name);
    if (index < 0)
        return sl_http_refuse(
            call, 404, "NO_SUCH_LIMIT", "the policy has no limit \"%.*s\"%s",
            SL_STR_ARG(name), sl_hint_limit(policy, name, "").text);
    e->rule = &policy->rules[index];
    while (rest.len > 0) {
        if (e->count == SL_PER_MAX)
            return refuse_count(e);
        if (!decode(call, sl_admin_cut(&rest, '/'), &e->values[e->count++]))
            return false;
    }
    return e->count == e->rule->per_count || refuse_count(e);
}

/* ---- the query ---- */

static bool refuse_scope(struct key_op *e, struct sl_str scope)
{
    return sl_http_refuse(
        e->call, 400, "BAD_QUERY",
        "\"scope\" needs one name per value, joined by ':', such as "
        "org:user or anon; \"%.*s\" is not in the policy",
        SL_STR_ARG(scope));
}

static bool is_scope(const struct sl_identity *identity, struct sl_str name)
{
    for (unsigned s = 0; s < identity->scope_count; s++)
        if (sl_str_eq(identity->scope_names[s], name))
            return true;
    return false;
}

/* Read the scopes of ?scope=, or use those of the rule. */
static bool read_scopes(struct key_op *e, struct sl_str text)
{
    const struct sl_identity *identity =
        &e->call->check.active->policy->identity;
    struct sl_str rest = text;

    for (unsigned i = 0; i < e->count; i++) {
        e->scopes[i] = text.len > 0 ? sl_admin_cut(&rest, ':')
                                    : identity->scope_names[e->rule->per[i]];
        if (!is_scope(identity, e->scopes[i]))
            return refuse_scope(e, text);
    }
    return (rest.len == 0 && (e->count > 0 || text.len == 0)) ||
           refuse_scope(e, text);
}

static bool check_plan(struct key_op *e)
{
    const struct sl_policy *policy = e->call->check.active->policy;

    if (e->request.plan.len == 0 ||
        sl_policy_plan(policy, e->request.plan) >= 0)
        return true;
    return sl_http_refuse(e->call, 400, "BAD_QUERY",
                          "the policy has no plan \"%.*s\"",
                          SL_STR_ARG(e->request.plan));
}

/* Check an address; the engine makes it canonical. /v1/top shows IPv6 with its
 * prefix. */
static bool read_ip(struct key_op *e, unsigned i)
{
    struct sl_str rest = e->values[i], text = sl_admin_cut(&rest, '/');
    struct sl_ip ip;

    if (sl_str_eq(e->values[i], SL_STR("unknown")))
        return true;
    if (!sl_ip_parse(text, &ip))
        return sl_http_refuse(e->call, 400, "BAD_PATH",
                              "\"%.*s\" is not an IP address",
                              SL_STR_ARG(e->values[i]));
    e->values[i] = text;
    return true;
}

/* The caller decides the plan if the registry has them. */
static bool fill_facts(struct key_op *e)
{
    struct sl_request *request = &e->request;

    request->limit = e->rule->name;
    request->keys = e->values;
    request->key_scopes = e->scopes;
    request->key_count = e->count;
    request->key = SL_STR("");
    request->trusted = true;
    request->now = sl_http_now(e->call);
    for (unsigned i = 0; i < e->count; i++) {
        if (sl_str_eq(e->scopes[i], SL_STR("user")))
            request->user = e->values[i];
        else if (sl_str_eq(e->scopes[i], SL_STR("org")))
            request->org = e->values[i];
        else if (sl_str_eq(e->scopes[i], SL_STR("ip")) && !read_ip(e, i))
            return false;
    }
    return true;
}

static bool read_input(struct key_op *e)
{
    struct sl_str scope;
    const struct sl_admin_option options[] = {
        {"plan",  &e->request.plan},
        {"scope", &scope          },
    };

    return read_path(e) &&
           sl_admin_options(e->call, options, SL_LEN(options)) &&
           read_scopes(e, scope) && check_plan(e) && fill_facts(e);
}

/* ---- the answer ---- */

/* Publish that the key was reset. */
static void publish(struct key_op *e, const struct sl_limit_view *shown)
{
    const struct sl_admin *admin = sl_admin_of(e->call);
    struct sl_buf members;
    struct sl_writer w = {.out = &members};

    sl_buf_init(&members, SL_EVENT_BYTES, e->call->worker->alloc);
    sl_json_member_str(&w, "limit", shown->rule->name);
    sl_json_member_str(&w, "scope", shown->scope);
    sl_json_member_str(&w, "key", sl_str_c(shown->id));
    if (w.err) /* the key is longer than an event: publish without it */
        sl_buf_clear(&members);
    sl_events_publish(admin->events, "reset", e->request.now,
                      sl_buf_str(&members));
    sl_buf_done(&members);
}

/* Record it in the audit: the limit is what is reset. */
static void note_reset(struct key_op *e, const struct sl_limit_view *shown)
{
    struct sl_audit_note *note =
        sl_http_audit(e->call, "reset", shown->scope, sl_str_c(shown->id));
    char text[SL_USAGE_NAME + 32];
    const char *copy;

    snprintf(text, sizeof(text), "{\"limit\":\"%.*s\"}",
             SL_STR_ARG(shown->rule->name));
    copy = sl_arena_copy(&e->call->arena, sl_str_c(text));
    if (note && copy)
        note->before = sl_str_c(copy);
    sl_http_audit_send(e->call, note);
}

static void answer(struct key_op *e)
{
    struct sl_http_call *call = e->call;
    const struct sl_check *check = &call->check;
    const struct sl_decision *d = &check->decision;

    if (check->err == SLUICE_ESTORE || (!check->err && d->no_numbers))
        sl_http_refuse(call, 503, "STORE", "the store does not answer");
    else if (check->err == SLUICE_ENOMEM)
        sl_http_no_memory(call);
    else if (check->err)
        sl_http_refuse(call, 400, "BAD_REQUEST", "%s", check->diag.sentence);
    else if (d->shown_count == 0)
        sl_http_refuse(
            call, 409, "SWITCHED_OFF",
            "limit \"%.*s\" is switched off in the policy, so it has no keys",
            SL_STR_ARG(e->rule->name));
    else
        sl_admin_answer_json(call,
                             sl_render_limit(d, &d->shown[0], &call->text));
    if (e->done && !check->err && d->shown_count > 0) {
        publish(e, &d->shown[0]);
        note_reset(e, &d->shown[0]);
    }
    sl_http_resume_finish(call);
}

static void on_done(struct sl_check *check);

static void peek(struct key_op *e)
{
    struct sl_check *check = &e->call->check;

    check->done = on_done;
    check->ctx = e;
    sl_check_start(check, &e->request, 1, false);
}

static void on_reset(struct sl_check *check)
{
    struct key_op *e = check->ctx;

    e->done = !check->err;
    if (check->err)
        answer(e);
    else
        peek(e);
}

static void on_done(struct sl_check *check)
{
    struct key_op *e = check->ctx;

    if (check->err || !e->reset || check->decision.shown_count == 0) {
        answer(e);
        return;
    }
    e->reset = false;
    check->done = on_reset;
    sl_check_reset(check);
}

/* call->arg: reset the key. */
void sl_admin_key(struct sl_http_call *call)
{
    struct key_op *e = sl_http_new(call, sizeof(*e));

    if (!e)
        return;
    e->call = call;
    e->reset = call->arg;
    if (!read_input(e))
        return;
    sl_http_suspend(call);
    peek(e);
}

/* ---- GET /v1/top: the keys with the most denials, allowed requests and units
 *
 *     {"by":"denied","window":"start","from":"...","to":"...",
 *      "totals":{"denied":9,"allowed":120,"cost":120},
 *      "rows":[{"limit":"tenant","scope":"org","key":"acme","cut":false,
 *               "denied":9,"allowed":20,"cost":20,
 *               "error":{"denied":0,"allowed":0,"cost":0}}]}
 */

#define ROWS_USUAL 20

/* ---- the query ---- */

/* The limit is not checked: a limit of an earlier policy may have rows. */
static bool read_query(struct sl_http_call *call,
                       struct sl_top_keys_query *query)
{
    struct sl_str by, window, rows;
    const struct sl_admin_option options[] = {
        {"by",       &by             },
        {"limit",    &query->limit   },
        {"endpoint", &query->endpoint},
        {"n",        &rows           },
        {"window",   &window         },
    };

    static const char *const windows[] = {"start", "recent"};
    unsigned by_index = SL_DENIED, recent = 0;
    uint64_t most = ROWS_USUAL;

    *query = (struct sl_top_keys_query){.now = sl_http_now(call)};
    if (!sl_admin_options(call, options, SL_LEN(options)) ||
        !sl_admin_word(call, "by", by, sl_measure_names, SL_MEASURES,
                       "denied, allowed or cost", &by_index) ||
        !sl_admin_word(call, "window", window, windows, SL_LEN(windows),
                       "start or recent", &recent) ||
        !sl_admin_number(call, "n", rows, 1, SL_TOP_KEYS_MOST,
                         "a number of rows from 1 to 1000", &most))
        return false;
    query->by = (enum sl_measure)by_index;
    query->recent = recent;
    query->most = (unsigned)most;
    return true;
}

/* ---- the answer ---- */

/* Write "denied":9,"allowed":120,"cost":120 */
static void write_counts(struct sl_writer *w, const uint64_t *counts)
{
    for (unsigned m = 0; m < SL_MEASURES; m++) {
        sl_json_key(w, sl_str_c(sl_measure_names[m]));
        sl_json_uint(w, counts[m]);
    }
}

static void write_row(struct sl_writer *w, const struct sl_top_keys_row *row)
{
    sl_json_open(w, '{');
    sl_json_member_str(w, "limit", row->limit);
    sl_json_member_str(w, "scope", row->scope);
    sl_json_member_str(w, "key", row->key);
    sl_json_key(w, SL_STR("cut"));
    sl_json_flag(w, row->cut);
    write_counts(w, row->count);
    sl_writer_add(w, SL_STR(",\"error\":{"));
    write_counts(w, row->error);
    sl_writer_add(w, SL_STR("}}"));
}

static int write_answer(struct sl_buf *out,
                        const struct sl_top_keys_query *query,
                        const struct sl_top_keys_answer *answer)
{
    char from[SL_TIMESTAMP_TEXT], to[SL_TIMESTAMP_TEXT];
    struct sl_writer w = {.out = out};

    sl_timestamp_print(answer->from > 0 ? answer->from : 0, true, from);
    sl_timestamp_print(query->now, true, to);
    sl_writer_addf(&w,
                   "{\"by\":\"%s\",\"window\":\"%s\",\"from\":\"%s\","
                   "\"to\":\"%s\",\"totals\":{",
                   sl_measure_names[query->by],
                   query->recent ? "recent" : "start", from, to);
    write_counts(&w, answer->total);
    sl_writer_add(&w, SL_STR("},\"rows\":["));
    for (unsigned i = 0; i < answer->count; i++)
        write_row(&w, &answer->rows[i]);
    sl_writer_add(&w, SL_STR("]}"));
    return w.err;
}

void sl_admin_top(struct sl_http_call *call)
{
    const struct sl_admin *admin = sl_admin_of(call);
    struct sl_top_keys_query query;
    struct sl_top_keys_answer answer;
    int err;

    if (!read_query(call, &query))
        return;
    err = admin->top(admin->ctx, &query, &call->arena, &answer);
    if (!err)
        err = write_answer(&call->text, &query, &answer);
    sl_admin_answer_json(call, err);
}
