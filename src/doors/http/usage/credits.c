/* credits.c -- /v1/credits/SCOPE/ID of the admin listener: units that somebody
 * is given beside what his plan has of a quota.
 *
 *   POST    {"limit": "minutes", "amount": 500, "expires": "2026-12-31",
 *            "note": "for the outage"}
 *   GET     all of them
 *   DELETE  .../NUMBER: what of it is unused is gone
 */
#include <inttypes.h>

#include "base/parse.h"
#include "doors/http/subjects/subjects.h"
#include "doors/http/usage/usage.h"

#define LIKE "{\"limit\":\"minutes\",\"amount\":500,\"expires\":\"2026-12-31\"}"

static bool bad(struct sl_http_call *call, const char *sentence)
{
    sl_http_refuse(call, 400, "BAD_REQUEST", "%s; send " LIKE, sentence);
    return false;
}

/* An errand for the subject of the path, or NULL: then it was refused. */
static struct sl_errand_call *
begin(struct sl_http_call *call, enum sl_job_kind kind,
      void (*answer)(struct sl_errand_call *errand), struct sl_str *tail)
{
    struct sl_errand_call *errand = sl_subject_errand(call, kind, answer, tail);

    if (!errand)
        return NULL;
    errand->job.grant = sl_arena_take(&call->arena, sizeof(*errand->job.grant));
    if (!errand->job.grant) {
        sl_http_refuse(call, 503, "NO_MEMORY", "out of memory");
        return NULL;
    }
    *errand->job.grant = (struct sl_credit_grant){.scope = errand->job.scope,
                                                  .id = errand->job.id,
                                                  .expires = SL_NS_NONE};
    return errand;
}

/* ---- giving ---- */

static bool read_text(struct sl_http_call *call, const json_t *member,
                      struct sl_str *ret)
{
    const char *copy;

    *ret = (struct sl_str){"", 0};
    if (!member || json_is_null(member))
        return true;
    if (!json_is_string(member))
        return bad(call, "\"limit\", \"expires\" and \"note\" must be strings");
    ret->len = json_string_length(member);
    copy = sl_arena_copy(&call->arena,
                         (struct sl_str){json_string_value(member), ret->len});
    ret->at = copy;
    return copy || bad(call, "out of memory");
}

/* A quota of the policy that is kept per the scope of the path. */
static bool check_limit(struct sl_http_call *call,
                        const struct sl_credit_grant *grant)
{
    const struct sl_policy *policy = call->ask.live->policy;
    int index = sl_policy_rule(policy, grant->limit);
    const struct sl_rule *rule = index < 0 ? NULL : &policy->rules[index];

    if (rule && rule->kind == SL_QUOTA && rule->per_count == 1 &&
        sl_str_eq(policy->identity.scope_names[rule->per[0]], grant->scope))
        return true;
    sl_http_refuse(call, 400, "BAD_REQUEST",
                   rule ? "credits are for quotas with `per: %.*s` only; "
                          "\"%.*s\" is not one"
                        : "credits are for quotas with `per: %.*s` only; the "
                          "policy has no limit \"%.*s\"",
                   SL_STR_ARG(grant->scope), SL_STR_ARG(grant->limit));
    return false;
}

static bool read_members(struct sl_http_call *call, const json_t *root,
                         struct sl_credit_grant *grant)
{
    struct sl_reading reading = {.arena = &call->arena,
                                 .now = sl_http_now(call)};
    json_t *amount = json_object_get(root, "amount");
    struct sl_str expires;
    size_t known = 0;

    static const char *const names[] = {"limit", "amount", "expires", "note"};

    for (size_t i = 0; i < SL_LEN(names); i++)
        known += json_object_get(root, names[i]) != NULL;
    if (known != json_object_size(root))
        return bad(call,
                   "a credit may only have limit, amount, expires and note");
    if (!json_is_integer(amount) || json_integer_value(amount) < 1 ||
        json_integer_value(amount) > (json_int_t)SL_AMOUNT_MAX)
        return bad(call, "\"amount\" must be a whole number of at least 1");
    grant->amount = (uint64_t)json_integer_value(amount);
    if (!read_text(call, json_object_get(root, "limit"), &grant->limit) ||
        !read_text(call, json_object_get(root, "expires"), &expires) ||
        !read_text(call, json_object_get(root, "note"), &grant->note))
        return false;
    if (expires.len > 0 &&
        !sl_reading_time(&reading, "expires", expires, &grant->expires))
        return bad(call, reading.diag.sentence);
    if (!sl_reading_text(&reading, "note", grant->note, SL_ENTRY_NOTE))
        return bad(call, reading.diag.sentence);
    return check_limit(call, grant);
}

static bool read_grant(struct sl_http_call *call, struct sl_credit_grant *grant)
{
    struct sl_str body = call->request->body;
    json_t *root = NULL;
    bool good;

    if (body.len <= SL_ADMIN_BODY)
        root = json_loadb(body.len ? body.at : "", body.len,
                          JSON_REJECT_DUPLICATES, NULL);
    good = json_is_object(root) ? read_members(call, root, grant)
                                : bad(call, "the body is not a JSON object");
    json_decref(root);
    return good;
}

static void answer_grant(struct sl_errand_call *errand)
{
    struct sl_http_call *call = errand->call;

    sl_admin_answer(call,
                    sl_buf_addf(&call->text, "{\"number\":%" PRIu64 "}",
                                errand->job.grant->number),
                    sl_admin_json);
}

void sl_admin_credit_give(struct sl_http_call *call)
{
    struct sl_str tail;
    struct sl_errand_call *errand =
        begin(call, SL_JOB_GRANT, answer_grant, &tail);

    if (!errand || !read_grant(call, errand->job.grant))
        return;
    errand->job.grant->by = sl_subject_by(call, SL_STR(""));
    errand->job.on = 1;
    sl_errand_send(errand);
}

/* ---- taking away ---- */

static void answer_revoke(struct sl_errand_call *errand)
{
    struct sl_http_call *call = errand->call;

    if (errand->job.result == SL_JOB_NOBODY)
        sl_http_refuse(call, 404, "NO_SUCH_CREDIT", "there is no credit %.*s",
                       SL_STR_ARG(call->rest));
    else
        sl_admin_answer(call, sl_buf_addf(&call->text, "{\"removed\":true}"),
                        sl_admin_json);
}

void sl_admin_credit_revoke(struct sl_http_call *call)
{
    struct sl_str tail;
    struct sl_errand_call *errand =
        begin(call, SL_JOB_GRANT, answer_revoke, &tail);

    if (!errand)
        return;
    if (sl_parse_number(tail, &errand->job.grant->number, NULL)) {
        sl_http_refuse(call, 404, "NO_SUCH_CREDIT",
                       "\"%.*s\" is not the number of a credit; GET "
                       "/v1/credits/SCOPE/ID lists them",
                       SL_STR_ARG(tail));
        return;
    }
    errand->job.on = 0;
    sl_errand_send(errand);
}

/* ---- reading ---- */

static void answer_list(struct sl_errand_call *errand)
{
    struct sl_http_call *call = errand->call;
    int err = sl_buf_add(&call->text, SL_STR("{\"credits\":["));

    if (!err)
        err = sl_buf_add(&call->text, sl_buf_str(&errand->job.text));
    if (!err)
        err = sl_buf_add(&call->text, SL_STR("]}"));
    sl_admin_answer(call, err, sl_admin_json);
}

void sl_admin_credits(struct sl_http_call *call)
{
    struct sl_str tail;
    struct sl_errand_call *errand =
        begin(call, SL_JOB_CREDITS, answer_list, &tail);

    if (errand)
        sl_errand_send(errand);
}
