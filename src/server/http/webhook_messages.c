/* webhook_messages.c -- /v1/webhooks/messages and /v1/webhooks/attempts.
 *
 *   POST  /v1/webhooks/messages {"org","type","payload","idempotency_key"}:
 *         202 if it is committed to the database
 *   GET   /v1/webhooks/messages?org=&type=&from=&to=: the newest first
 *   GET   /v1/webhooks/messages/ID: its deliveries and attempts
 *   POST  /v1/webhooks/messages/ID/replay: send it again
 *   GET   /v1/webhooks/attempts?org=&endpoint=&message=&result=&from=&to=: the
 *         delivery log, the newest first
 *
 * The admin listener has the last four, too: for the console. There a message
 * is shown without its payload, and a replay is a change of the audit.
 *
 * A message counts once against the quota of its organisation, when it is
 * accepted:
 *
 *     key? --> FIND_KEY --> quota --> PUT_MESSAGE --> 202
 *                 |           |            |
 *                202         402     an error: the unit is given back
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/timestamp.h"
#include "engine/render.h"
#include "server/http/http_int.h"

#define LIKE "{\"org\":\"acme\",\"type\":\"order.paid\",\"payload\":{\"id\":1}}"

/* ---- accepting a message ---- */

struct put {
    struct sl_http_call *call;
    struct sl_registry *registry;
    struct sl_job job;
    struct sl_webhook_job w;
    struct sl_str payload, key;
    char id[SL_WEBHOOK_ID], fingerprint[33];
    struct sl_request request; /* of the quota */
    bool taken;                /* the quota has counted it */
    bool held;                 /* beyond the quota: it waits */
};

static void finish(struct put *p)
{
    sl_job_clear(&p->job);
    sl_http_resume_finish(p->call);
}

static void answer_accepted(struct put *p)
{
    struct sl_http_call *call = p->call;
    struct sl_writer out = {.out = &call->text};
    bool again = p->w.found[0] != '\0';

    sl_json_open(&out, '{');
    sl_json_member_text(&out, "id", again ? p->w.found : p->id);
    if (again)
        sl_writer_add(&out, SL_STR(",\"repeated\":true"));
    else
        sl_writer_addf(&out, ",\"deliveries\":%u", p->w.deliveries);
    if (p->held && !again)
        sl_json_member_time(&out, "held_until", p->w.hold);
    sl_json_close(&out, '}');
    sl_http_answer_json(call, out.err);
    if (call->status == 200)
        call->status = 202;
}

static void refuse_key(struct put *p)
{
    sl_http_refuse(p->call, 422, "IDEMPOTENCY_KEY_REUSED",
                   "the idempotency key was used for another message, %s; "
                   "use a new key for each message",
                   p->w.found);
}

static void on_given_back(struct sl_check *check)
{
    finish(check->ctx);
}

/* A message that was not queued does not count. */
static void give_back(struct put *p)
{
    if (!p->taken || p->job.uncertain_txn) {
        finish(p);
        return;
    }
    p->request.give_back = true;
    if (sl_http_ask(p->call, &p->request, true, on_given_back, p))
        finish(p);
}

static void on_put(struct sl_job *job)
{
    struct put *p = job->ctx;
    struct sl_http_call *call = p->call;

    if (job->err)
        sl_http_job_refuse(call, job, "WEBHOOKS", "queued",
                           "the message was queued; send it again with the "
                           "same idempotency key");
    else if (job->result == SL_JOB_NOT_FOUND)
        sl_http_refuse(call, 404, "UNKNOWN_ORG",
                       "the organisation \"%.*s\" has no endpoint and is not "
                       "registered; POST /v1/webhooks/endpoints first",
                       SL_STR_ARG(p->w.org));
    else if (job->result == SL_JOB_CONFLICT)
        refuse_key(p);
    else
        answer_accepted(p);
    if (call->status != 202 || p->w.found[0]) {
        give_back(p);
        return;
    }
    sl_http_webhook_wake(call);
    finish(p);
}

static void queue(struct put *p, enum sl_webhook_op op,
                  void (*done)(struct sl_job *job))
{
    sl_http_job_init(&p->job, p->call, SL_JOB_WEBHOOK, done, p);
    p->w.op = op;
    p->job.webhook = &p->w;
    sl_registry_ask(p->registry, &p->job);
}

/* ---- the quota ---- */

/* 402: the plan has no more messages. The policy may have its own answer. */
static void refuse_quota(struct put *p, const struct sl_rendered *rendered,
                         sl_ns retry_in)
{
    struct sl_http_call *call = p->call;
    char digits[SL_DIGITS], *copy;
    size_t len;

    if (rendered->status == 402) {
        sl_http_show(call, 402, rendered);
        return;
    }
    sl_http_refuse(call, 402, "PLAN_LIMIT_EXCEEDED",
                   "the quota of webhook messages of \"%.*s\" is used up; it "
                   "is a limit of the plan",
                   SL_STR_ARG(p->w.org));
    if (retry_in <= 0)
        return;
    len = sl_digits((uint64_t)((retry_in + SL_S - 1) / SL_S), digits);
    copy = sl_arena_copy(&call->arena, (struct sl_str){digits, len});
    if (copy)
        sl_http_field(call, SL_STR("Retry-After"), (struct sl_str){copy, len});
}

/* Beyond the quota: refuse, or hold until it has room. A refusal for another
 * reason (the store is away, the organisation is blocked) is shown as it is. */
static void on_denied(struct put *p)
{
    const struct sl_decision *d = &p->call->check.decision;
    enum sl_at_cap at_cap = p->call->check.active->policy->webhooks.at_cap;
    sl_ns retry_in = sl_decision_retry_in(d);
    bool by_quota =
        d->reason == SL_REASON_NONE || d->reason == SL_REASON_CAPABILITY;
    struct sl_rendered rendered;

    if (at_cap == SL_AT_CAP_HOLD && retry_in > 0 && by_quota) {
        p->held = true;
        p->w.hold = sl_http_now(p->call) + retry_in;
        queue(p, SL_WEBHOOK_PUT_MESSAGE, on_put);
        return;
    }
    if (!sl_http_decided(p->call, &rendered))
        ; /* answered */
    else if (by_quota)
        refuse_quota(p, &rendered, retry_in);
    else
        sl_http_show(p->call, rendered.status, &rendered);
    finish(p);
}

static void on_quota(struct sl_check *check)
{
    struct put *p = check->ctx;

    if (check->err) {
        sl_http_refuse(p->call, 503, "QUOTA", "%s", check->diag.sentence);
        finish(p);
    } else if (!check->decision.allowed) {
        on_denied(p);
    } else {
        p->taken = true;
        queue(p, SL_WEBHOOK_PUT_MESSAGE, on_put);
    }
}

static void take_quota(struct put *p)
{
    struct sl_http_call *call = p->call;
    const struct sl_rule *rule =
        sl_check_ref_policy(&call->check)->policy->webhooks.quota_rule;

    if (!rule) {
        queue(p, SL_WEBHOOK_PUT_MESSAGE, on_put);
        return;
    }
    p->request = (struct sl_request){.limit = rule->name,
                                     .keys = &p->w.org,
                                     .key_count = 1,
                                     .org = p->w.org,
                                     .has_cost = true,
                                     .cost = 1,
                                     .trusted = true,
                                     .wait = SL_NS_NONE,
                                     .now = sl_http_now(call)};
    if (sl_http_ask(call, &p->request, true, on_quota, p))
        on_quota(&call->check);
}

static void on_key(struct sl_job *job)
{
    struct put *p = job->ctx;

    if (!job->err && !p->w.found[0]) {
        sl_job_clear(job);
        take_quota(p);
        return;
    }
    if (job->err)
        sl_http_job_refuse(p->call, job, "WEBHOOKS", "queued",
                           "the message was queued");
    else if (job->result == SL_JOB_CONFLICT)
        refuse_key(p);
    else
        answer_accepted(p);
    finish(p);
}

/* ---- the body ---- */

static bool read_payload(struct sl_json_body *body, struct sl_str member,
                         void *at)
{
    struct sl_arena scratch;
    bool good;

    (void)member;
    sl_arena_init(&scratch, (size_t)2 << 20, body->call->worker->alloc);
    good = sl_json_value(&body->json, &scratch, at);
    sl_arena_done(&scratch);
    return good || sl_json_body_broken(body);
}

#define FIELD(name, member, read)                                              \
    SL_JSON_FIELD(name, offsetof(struct put, member), read)

static const struct sl_json_field fields[] = {
    FIELD("org", w.org, sl_json_body_text),
    FIELD("type", w.type, sl_json_body_text),
    FIELD("payload", payload, read_payload),
    FIELD("idempotency_key", key, sl_json_body_text),
};

static bool refuse_size(struct sl_http_call *call, size_t size)
{
    return sl_http_refuse(call, 413, "TOO_LARGE",
                          "the payload has %zu bytes; at most %zu are allowed",
                          size, SL_WEBHOOK_PAYLOAD);
}

static bool read_put(struct sl_http_call *call, struct put *p)
{
    struct sl_json_body body;

    sl_json_body_begin(&body, call, "message");
    if (call->request->body.len > SL_WEBHOOK_PAYLOAD + 4096)
        return refuse_size(call, call->request->body.len);
    if (!sl_json_body_fields(&body, fields, SL_LEN(fields), NULL, p) ||
        !(sl_json_end(&body.json) || sl_json_body_broken(&body)))
        return sl_json_body_answer(&body);
    if (!sl_http_webhook_name(call, "org", p->w.org, SL_SUBJECT_RECORD_ID,
                              LIKE) ||
        !sl_http_webhook_name(call, "type", p->w.type, SL_WEBHOOK_TYPE, LIKE) ||
        !sl_http_webhook_type(call, p->w.type))
        return false;
    if (p->payload.len == 0)
        return sl_http_refuse(call, 400, "BAD_REQUEST",
                              "\"payload\" is missing; send " LIKE);
    if (p->payload.len > SL_WEBHOOK_PAYLOAD)
        return refuse_size(call, p->payload.len);
    return p->key.len <= SL_WEBHOOK_KEY ||
           sl_http_refuse(call, 400, "BAD_REQUEST",
                          "\"idempotency_key\" has more than %d bytes",
                          SL_WEBHOOK_KEY);
}

/* Two messages with one key must be the same. */
static void fingerprint(struct put *p)
{
    static const struct sl_hash_key fixed = {UINT64_C(0x776562686f6f6b), 1};
    struct sl_hash_key key = {fixed.k0 ^ sl_hash64(&fixed, p->w.type),
                              fixed.k1};
    struct sl_hash128 h = sl_hash128(&key, p->payload);

    snprintf(p->fingerprint, sizeof(p->fingerprint),
             "%016" PRIx64 "%016" PRIx64, h.hi, h.lo);
}

void sl_webhook_message_put(struct sl_http_call *call)
{
    struct put *p = sl_http_new(call, sizeof(*p));

    if (!p)
        return;
    p->call = call;
    p->registry = sl_http_registry(call);
    if (!p->registry) {
        sl_http_refuse(call, 501, "NO_REGISTRY",
                       "this daemon has no database for webhooks; start it "
                       "with --usage sqlite:PATH");
        return;
    }
    if (!read_put(call, p))
        return;
    sl_http_job_init(&p->job, call, SL_JOB_WEBHOOK, on_put, p);
    sl_http_webhook_id(call, "msg", p->id);
    fingerprint(p);
    p->w.id = sl_str_c(p->id);
    p->w.payload = p->payload;
    p->w.key = p->key;
    p->w.fingerprint = sl_str_c(p->fingerprint);
    sl_http_suspend(call);
    if (p->key.len > 0)
        queue(p, SL_WEBHOOK_FIND_KEY, on_key);
    else
        take_quota(p);
}

/* ---- a test message ---- */

static void answer_ping(struct sl_http_job *op)
{
    struct sl_http_call *call = op->call;
    const struct sl_http_webhook *w = call->check.ctx;

    if (op->job.result == SL_JOB_NOT_FOUND) {
        sl_http_refuse(call, 404, "NO_SUCH_ENDPOINT",
                       "there is no endpoint %.*s", SL_STR_ARG(w->job.only));
        return;
    }
    if (op->job.result == SL_JOB_CONFLICT) {
        sl_http_refuse(call, 409, "ENDPOINT_DISABLED", "%s",
                       op->job.diag.sentence);
        return;
    }
    sl_http_webhook_wake(call);
    sl_admin_answerf(call, "{\"id\":\"%s\"}", w->id);
    if (call->status == 200)
        call->status = 202;
}

void sl_http_webhook_ping(struct sl_http_call *call, struct sl_str endpoint)
{
    struct sl_http_webhook *w =
        sl_http_webhook_new(call, SL_WEBHOOK_PUT_MESSAGE, answer_ping);
    char at[SL_TIMESTAMP_TEXT], text[160];
    const char *copy;

    if (!w)
        return;
    sl_http_webhook_id(call, "msg", w->id);
    sl_timestamp_print(sl_http_now(call), false, at);
    snprintf(text, sizeof(text),
             "{\"type\":\"webhook.ping\",\"timestamp\":\"%s\",\"data\":{}}",
             at);
    copy = sl_arena_copy(&call->arena, sl_str_c(text));
    if (!copy) {
        sl_http_no_memory(call);
        return;
    }
    w->job.id = sl_str_c(w->id);
    w->job.only = endpoint;
    w->job.type = SL_STR("webhook.ping");
    w->job.payload = (struct sl_str){copy, strlen(text)};
    sl_http_job_send(w->op);
}

/* ---- reading and replaying ---- */

static void refuse_missing(struct sl_http_call *call)
{
    struct sl_str rest = call->rest, id = sl_admin_cut(&rest, '/');

    sl_http_refuse(call, 404, "NO_SUCH_MESSAGE",
                   "there is no message %.*s, or it was deleted by its age",
                   SL_STR_ARG(id));
}

static void answer_message(struct sl_http_job *op)
{
    struct sl_writer w = {.out = &op->call->text};

    if (op->job.result == SL_JOB_NOT_FOUND) {
        refuse_missing(op->call);
        return;
    }
    sl_writer_add(&w, sl_buf_str(&op->job.text));
    sl_http_answer_json(op->call, w.err);
}

void sl_webhook_message_get(struct sl_http_call *call)
{
    struct sl_http_webhook *w =
        sl_http_webhook_new(call, SL_WEBHOOK_GET_MESSAGE, answer_message);

    if (!w)
        return;
    w->job.id = call->rest;
    w->job.without_payload = call->arg; /* the admin listener */
    sl_http_job_send(w->op);
}

static void answer_replay(struct sl_http_job *op)
{
    struct sl_http_call *call = op->call;
    const struct sl_http_webhook *w = call->check.ctx;

    if (op->job.result == SL_JOB_NOT_FOUND) {
        refuse_missing(call);
        return;
    }
    sl_http_webhook_wake(call);
    sl_admin_answerf(call, "{\"id\":\"%s\",\"deliveries\":%u}", w->id,
                     w->job.deliveries);
    if (call->status == 200)
        call->status = 202;
}

void sl_webhook_message_replay(struct sl_http_call *call)
{
    struct sl_str rest = call->rest, id = sl_admin_cut(&rest, '/');
    const struct sl_audit_note *note;
    struct sl_http_webhook *w;

    if (!sl_str_eq(rest, SL_STR("replay"))) {
        sl_http_refuse(call, 404, "NOT_FOUND",
                       "unknown path %.*s; write /v1/webhooks/messages/ID/"
                       "replay",
                       SL_STR_ARG(call->path));
        return;
    }
    w = sl_http_webhook_new(call, SL_WEBHOOK_REPLAY, answer_replay);
    if (!w)
        return;
    snprintf(w->id, sizeof(w->id), "%.*s", SL_STR_ARG(id));
    w->job.id = sl_str_c(w->id);
    if (call->arg) { /* the admin listener */
        note = sl_http_audit(call, "replay", SL_STR("webhook"), w->job.id);
        if (!note) {
            sl_http_no_memory(call);
            return;
        }
        w->op->job.audit = note;
    }
    sl_http_job_send(w->op);
}

/* ---- lists: the delivery log, and messages ---- */

static void answer_attempts(struct sl_http_job *op)
{
    op->rows = "attempts";
    sl_http_job_rows(op);
}

static void answer_messages(struct sl_http_job *op)
{
    op->rows = "messages";
    sl_http_job_rows(op);
}

/* How much of a list is wanted: texts of the query. */
struct page {
    struct sl_str from, to, limit;
};

static bool read_page(struct sl_http_call *call, const struct page *page,
                      struct sl_webhook_job *job)
{
    uint64_t most = 100;

    if (!sl_admin_number(call, "limit", page->limit, 1, SL_WEBHOOK_PAGE,
                         "a number from 1 to 1000", &most) ||
        !sl_http_webhook_instant(call, "BAD_QUERY", "from", page->from,
                                 &job->from) ||
        !sl_http_webhook_instant(call, "BAD_QUERY", "to", page->to, &job->to))
        return false;
    job->most = (unsigned)most;
    return true;
}

void sl_webhook_message_list(struct sl_http_call *call)
{
    struct sl_http_webhook *w =
        sl_http_webhook_new(call, SL_WEBHOOK_LIST_MESSAGES, answer_messages);
    struct sl_webhook_job *job = w ? &w->job : NULL;
    struct page page;

    if (!w)
        return;
    const struct sl_admin_option options[] = {
        {"org",    &job->org       },
        {"type",   &job->type      },
        {"from",   &page.from      },
        {"to",     &page.to        },
        {"limit",  &page.limit     },
        {"before", &job->message_id},
    };

    if (sl_admin_options(call, options, SL_LEN(options)) &&
        read_page(call, &page, job))
        sl_http_job_send(w->op);
}

void sl_webhook_attempts(struct sl_http_call *call)
{
    static const char *const words[] = {"failed", "delivered"};
    struct sl_http_webhook *w =
        sl_http_webhook_new(call, SL_WEBHOOK_LIST_ATTEMPTS, answer_attempts);
    struct sl_str result, before;
    struct page page;
    struct sl_webhook_job *job = w ? &w->job : NULL;
    uint64_t last = 0;
    unsigned outcome = 2;

    if (!w)
        return;
    const struct sl_admin_option options[] = {
        {"org",      &job->org        },
        {"endpoint", &job->endpoint_id},
        {"message",  &job->message_id },
        {"result",   &result          },
        {"from",     &page.from       },
        {"to",       &page.to         },
        {"limit",    &page.limit      },
        {"before",   &before          },
    };

    if (!sl_admin_options(call, options, SL_LEN(options)) ||
        !sl_admin_word(call, "result", result, words, 2, "failed or delivered",
                       &outcome) ||
        !sl_admin_number(call, "before", before, 1, INT64_MAX,
                         "the number of an attempt", &last) ||
        !read_page(call, &page, job))
        return;
    job->outcome = outcome < 2 ? (int)outcome : -1;
    job->before = last;
    sl_http_job_send(w->op);
}
