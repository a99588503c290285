/* admin.c -- the admin listener: health, the clock of tests, and the table of
 * all its paths.
 *
 * /livez says that the process turns; it asks nobody, for a store that is away
 * is no reason to be killed. /readyz says whether requests should be sent
 * here, and /healthz is the same for those who know one word only.
 */
#include "doors/http/admin.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/instant.h"
#include "doors/http/admin/inner.h"
#include "doors/http/subjects/subjects.h"
#include "doors/http/usage/usage.h"
#include "wire/json.h"

const struct sl_str sl_admin_json = {"application/json", 16};
static const struct sl_str plain = {"text/plain; charset=utf-8", 25};

/* What is asked twice shall not be answered by a cache. */
static void keep_from_caches(struct sl_http_call *call)
{
    sl_http_field(call, SL_STR("Cache-Control"), SL_STR("no-store"));
}

void sl_admin_answer(struct sl_http_call *call, int err, struct sl_str type)
{
    keep_from_caches(call);
    if (!err)
        sl_http_answer(call, 200, type, sl_buf_str(&call->text));
    else if (err == SLUICE_EFULL)
        sl_http_refuse(call, 500, "TOO_LARGE",
                       "the answer is larger than %zu bytes",
                       call->text.ceiling);
    else
        sl_http_refuse(call, 503, "NO_MEMORY", "out of memory");
}

/* ---- bodies ---- */

static json_t *read_object(struct sl_http_call *call, const char *like)
{
    struct sl_str body = call->request->body;
    json_error_t error;
    json_t *root;

    if (body.len > SL_ADMIN_BODY) {
        sl_http_refuse(call, 413, "TOO_LARGE",
                       "the body has %zu bytes, more than %zu; send %s",
                       body.len, SL_ADMIN_BODY, like);
        return NULL;
    }
    root = json_loadb(body.len ? body.at : "", body.len, JSON_REJECT_DUPLICATES,
                      &error);
    if (!root)
        sl_http_refuse(call, 400, "BAD_REQUEST",
                       "the body is not a JSON object (%s); send %s",
                       error.text, like);
    return root;
}

json_t *sl_admin_member(struct sl_http_call *call, const char *name,
                        const char *like, json_t **root)
{
    json_t *member;

    *root = read_object(call, like);
    if (!*root)
        return NULL;
    member = json_object_get(*root, name);
    if (!member || json_object_size(*root) != 1) {
        sl_http_refuse(call, 400, "BAD_REQUEST",
                       "the body must be an object with only \"%s\"; send %s",
                       name, like);
        return NULL;
    }
    return member;
}

/* ---- health ---- */

static bool is_verbose(const struct sl_http_call *call)
{
    return sl_str_eq(call->query, SL_STR("verbose")) ||
           sl_str_eq(call->query, SL_STR("verbose=1")) ||
           sl_str_eq(call->query, SL_STR("verbose=true"));
}

static void livez(struct sl_http_call *call)
{
    keep_from_caches(call);
    sl_http_answer(call, 200, plain,
                   is_verbose(call) ? SL_STR("[+] process: running\n"
                                             "ok\n")
                                    : SL_STR("ok\n"));
}

static int describe(struct sl_http_call *call, bool ready, struct sl_str why)
{
    struct sl_buf *out = &call->text;
    int err = 0;

    if (is_verbose(call))
        err = sl_buf_add(out, SL_STR("[+] process: running\n"));
    if (!err && ready && why.len > 0)
        err = sl_buf_addf(out, "%s%.*s\n%s",
                          is_verbose(call) ? "[!] degraded: " : "degraded: ",
                          SL_STR_ARG(why), is_verbose(call) ? "ok\n" : "");
    else if (!err && ready)
        err = sl_buf_add(out, is_verbose(call) ? SL_STR("[+] requests: served\n"
                                                        "ok\n")
                                               : SL_STR("ok\n"));
    else if (!err)
        err = sl_buf_addf(
            out, "%s%.*s\n%s", is_verbose(call) ? "[-] requests: " : "",
            SL_STR_ARG(why), is_verbose(call) ? "not ready\n" : "");
    return err;
}

static void readyz(struct sl_http_call *call)
{
    const struct sl_admin *admin = sl_admin_of(call);
    struct sl_buf why;
    bool ready;

    sl_buf_init(&why, 1024, call->worker->alloc);
    ready = admin->ready(admin->ctx, &why);
    if (!ready && why.len == 0 && sl_buf_add(&why, SL_STR("not serving")))
        why.len = 0; /* the status says it as well */
    sl_admin_answer(call, describe(call, ready, sl_buf_str(&why)), plain);
    if (!ready)
        call->status = 503;
    sl_buf_done(&why);
}

/* ---- the clock of tests ---- */

static bool read_instant(struct sl_http_call *call, json_t *member, sl_ns *ret)
{
    struct sl_diag diag = {0};
    struct sl_str text;

    if (json_is_integer(member) && json_integer_value(member) >= 0 &&
        json_integer_value(member) < SL_TIME_END) {
        *ret = json_integer_value(member);
        return true;
    }
    if (!json_is_string(member)) {
        sl_http_refuse(call, 400, "BAD_REQUEST",
                       "\"now\" must be a time like \"2026-03-31T23:59:59Z\", "
                       "or nanoseconds since 1970");
        return false;
    }
    text =
        (struct sl_str){json_string_value(member), json_string_length(member)};
    if (!sl_instant_parse(text, ret, &diag))
        return true;
    sl_http_refuse(call, 400, "BAD_REQUEST", "\"now\": %s", diag.sentence);
    return false;
}

static void say_time(struct sl_http_call *call, sl_ns now)
{
    char text[SL_INSTANT_TEXT];

    sl_instant_print(now, true, text);
    sl_admin_answer(call,
                    sl_buf_addf(&call->text,
                                "{\"now\":\"%s\",\"ns\":%" PRId64 "}", text,
                                now),
                    sl_admin_json);
}

/* Move it; with ?forget=true nothing was ever used. */
static void turn_clock(struct sl_http_call *call, sl_ns now)
{
    const struct sl_admin *admin = sl_admin_of(call);
    int err = 0;

    if (sl_str_eq(call->query, SL_STR("forget=true")))
        err = admin->forget ? admin->forget(admin->ctx) : SLUICE_EINVAL;
    if (!err)
        err = admin->set_clock(admin->ctx, now);
    if (err)
        sl_http_refuse(call, 500, "CLOCK", "the clock could not be set");
    else
        say_time(call, now);
}

/* The registry has forgotten all, too. */
static void on_forgotten(struct sl_errand_call *errand)
{
    turn_clock(errand->call, errand->job.now);
}

static void begin_turn(struct sl_http_call *call, sl_ns now)
{
    struct sl_errand_call *errand;

    if (!sl_admin_of(call)->registry ||
        !sl_str_eq(call->query, SL_STR("forget=true"))) {
        turn_clock(call, now);
        return;
    }
    errand = sl_errand_new(call, SL_JOB_FORGET, on_forgotten);
    if (!errand)
        return;
    errand->job.now = now;
    sl_errand_send(errand);
}

static void set_clock(struct sl_http_call *call)
{
    const struct sl_admin *admin = sl_admin_of(call);
    json_t *root = NULL, *member;
    sl_ns now;

    if (!admin->set_clock) {
        sl_http_refuse(call, 404, "NOT_FOUND",
                       "this daemon has no virtual clock");
        return;
    }
    if (!sl_admin_admit(call))
        return;
    member = sl_admin_member(call, "now", "{\"now\":\"2026-03-31T23:59:59Z\"}",
                             &root);
    if (member && read_instant(call, member, &now))
        begin_turn(call, now);
    json_decref(root);
}

/* ---- the table ---- */

const struct sl_http_path sl_admin_paths[] = {
    {"GET",    "/livez",        livez,                  SL_GUARD_NONE },
    {"GET",    "/readyz",       readyz,                 SL_GUARD_NONE },
    {"GET",    "/healthz",      readyz,                 SL_GUARD_NONE },
    {"GET",    "/metrics",      sl_admin_metrics,       SL_GUARD_NONE },
    {"GET",    "/rlconfig",     sl_admin_rlconfig,      SL_GUARD_TOKEN},
    {"GET",    "/v1/policy",    sl_admin_policy_get,    SL_GUARD_TOKEN},
    {"POST",   "/v1/policy",    sl_admin_policy_post,   SL_GUARD_TOKEN},
    {"GET",    "/v1/features",  sl_admin_features,      SL_GUARD_TOKEN},
    {"GET",    "/v1/features/", sl_admin_feature_get,   SL_GUARD_TOKEN},
    {"PUT",    "/v1/features/", sl_admin_feature_set,   SL_GUARD_TOKEN},
    {"POST",   "/v1/features/", sl_admin_feature_set,   SL_GUARD_TOKEN},
    {"DELETE", "/v1/features/", sl_admin_feature_leave, SL_GUARD_TOKEN},
    {"PUT",    "/v1/backlog/",  sl_admin_backlog_put,   SL_GUARD_TOKEN},
    {"POST",   "/v1/clock",     set_clock,              SL_GUARD_TOKEN},
    {"GET",    "/v1/top",       sl_admin_top,           SL_GUARD_TOKEN},
    {"GET",    "/v1/events",    sl_admin_events,        SL_GUARD_TOKEN},
    {"GET",    "/v1/keys/",     sl_admin_key_get,       SL_GUARD_TOKEN},
    {"DELETE", "/v1/keys/",     sl_admin_key_reset,     SL_GUARD_TOKEN},
    {"GET",    "/v1/subjects",  sl_subject_list,        SL_GUARD_TOKEN},
    {"POST",   "/v1/subjects",  sl_subject_import,      SL_GUARD_TOKEN},
    {"GET",    "/v1/subjects/", sl_subject_get,         SL_GUARD_TOKEN},
    {"PUT",    "/v1/subjects/", sl_subject_put,         SL_GUARD_TOKEN},
    {"PATCH",  "/v1/subjects/", sl_subject_patch,       SL_GUARD_TOKEN},
    {"DELETE", "/v1/subjects/", sl_subject_remove,      SL_GUARD_TOKEN},
    {"GET",    "/v1/credits/",  sl_admin_credits,       SL_GUARD_TOKEN},
    {"POST",   "/v1/credits/",  sl_admin_credit_give,   SL_GUARD_TOKEN},
    {"DELETE", "/v1/credits/",  sl_admin_credit_revoke, SL_GUARD_TOKEN},
    {"GET",    "/v1/leases",    sl_admin_leases,        SL_GUARD_TOKEN},
    {"DELETE", "/v1/leases/",   sl_admin_lease_release, SL_GUARD_TOKEN},
};

const unsigned sl_admin_path_count = SL_LEN(sl_admin_paths);
