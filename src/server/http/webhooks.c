/* webhooks.c -- /v1/webhooks/endpoints: where webhooks are sent.
 *
 *   POST    /v1/webhooks/endpoints {"org","url","events":["order.*"]}: create;
 *           the answer has the secret, which is not shown again
 *   GET     /v1/webhooks/endpoints?org=ORG, and .../ID
 *   PATCH   .../ID {"url","events","metadata","contact","enabled","queued"}
 *   DELETE  .../ID
 *   POST    .../ID/rotate {"keep":"24h"}: a new secret; the old one signs, too,
 *           for so long
 *   POST    .../ID/ping: send a test message
 *   POST    .../ID/replay {"from","to","type"}: send the messages of a time
 *           again
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/parse.h"
#include "base/timestamp.h"
#include "server/http/http_int.h"
#include "webhook/sign.h"
#include "webhook/url_guard.h"

#define KEEP          SL_DAY /* an old secret, unless it is said */
#define METADATA_MOST ((size_t)4 << 10)
#define LIKE                                                                   \
    "{\"org\":\"acme\",\"url\":\"https://example.com/hook\","                  \
    "\"events\":[\"*\"]}"

/* ---- calls ---- */

struct sl_http_webhook *
sl_http_webhook_new(struct sl_http_call *call, enum sl_webhook_op op,
                    void (*answer)(struct sl_http_job *op))
{
    struct sl_http_job *job = sl_http_job_new(call, SL_JOB_WEBHOOK, answer);
    struct sl_http_webhook *w = job ? sl_http_new(call, sizeof(*w)) : NULL;

    if (!w)
        return NULL;
    w->op = job;
    w->job.op = op;
    w->job.most = SL_WEBHOOK_PAGE;
    w->job.to = INT64_MAX;
    w->job.outcome = -1;
    job->job.webhook = &w->job;
    call->check.ctx = w;
    return w;
}

/* The call of a job that is answered. */
static struct sl_http_webhook *of(struct sl_http_job *op)
{
    return op->call->check.ctx;
}

void sl_http_webhook_id(struct sl_http_call *call, const char *prefix,
                        char out[SL_WEBHOOK_ID])
{
    uint64_t random[2] = {0};

    /* At most 256 bytes of getrandom() are never short. */
    (void)!getrandom(random, sizeof(random), 0);
    sl_webhook_make_id(out, prefix, sl_http_now(call), random);
}

void sl_http_webhook_wake(struct sl_http_call *call)
{
    const struct sl_admin *admin = sl_admin_of(call);

    if (admin && admin->webhooks)
        admin->webhooks(admin->ctx);
}

bool sl_http_webhook_name(struct sl_http_call *call, const char *member,
                          struct sl_str text, size_t most, const char *like)
{
    if (text.len == 0)
        return sl_http_refuse(call, 400, "BAD_REQUEST",
                              "\"%s\" is missing; send %s", member, like);
    if (text.len > most)
        return sl_http_refuse(call, 400, "BAD_REQUEST",
                              "\"%s\" has more than %zu bytes", member, most);
    for (size_t i = 0; i < text.len; i++)
        if ((unsigned char)text.at[i] < ' ' || text.at[i] == '"' ||
            text.at[i] == '\\' || text.at[i] == 0x7f)
            return sl_http_refuse(call, 400, "BAD_REQUEST",
                                  "\"%s\" has a quote, a backslash or a "
                                  "control character",
                                  member);
    return true;
}

bool sl_http_webhook_instant(struct sl_http_call *call, const char *code,
                             const char *name, struct sl_str text, sl_ns *ret)
{
    struct sl_diag diag = {0};

    return text.len == 0 || !sl_timestamp_parse(text, ret, &diag) ||
           sl_http_refuse(call, 400, code,
                          "\"%s\" must be a time like 2026-11-15T12:00:00Z",
                          name);
}

static void refuse_missing(struct sl_http_call *call)
{
    struct sl_str rest = call->rest, id = sl_admin_cut(&rest, '/');

    sl_http_refuse(call, 404, "NO_SUCH_ENDPOINT",
                   "there is no endpoint %.*s; GET /v1/webhooks/endpoints?org= "
                   "lists those of an organisation",
                   SL_STR_ARG(id));
}

/* ---- reading an endpoint ---- */

/* What a body may have. */
struct draft {
    struct sl_http_call *call;
    struct sl_str org, url, events, metadata, secret, signature, queued, reason;
    bool contact, enabled;
};

/* Reads any value as it is written. */
static bool read_raw(struct sl_json_body *body, void *at)
{
    struct sl_arena scratch;
    bool good;

    sl_arena_init(&scratch, (size_t)1 << 20, body->call->worker->alloc);
    good = sl_json_value(&body->json, &scratch, at);
    sl_arena_done(&scratch);
    return good || sl_json_body_broken(body);
}

static bool read_object(struct sl_json_body *body, struct sl_str member,
                        void *at)
{
    struct sl_str *text = at;

    if (sl_json_peek(&body->json) != SL_JSON_OBJECT)
        return sl_json_body_wrong(body, member, "an object");
    if (!read_raw(body, at))
        return false;
    return text->len <= METADATA_MOST ||
           sl_json_body_refuse(body, "BAD_REQUEST",
                               "\"%.*s\" has more than %zu bytes",
                               SL_STR_ARG(member), METADATA_MOST);
}

/* "order.paid". Letters, digits and . _ - / : need no escape in JSON, so that a
 * list is compared as it is. */
static bool is_type(struct sl_str text)
{
    static const char marks[] = "._-/:";

    for (size_t i = 0; i < text.len; i++) {
        char c = text.at[i];

        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
              (c >= '0' && c <= '9') || (c && strchr(marks, c))))
            return false;
    }
    return text.len <= SL_WEBHOOK_TYPE;
}

bool sl_http_webhook_type(struct sl_http_call *call, struct sl_str type)
{
    return is_type(type) ||
           sl_http_refuse(call, 400, "BAD_REQUEST",
                          "\"type\" must be letters, digits and . _ - / :, "
                          "like \"order.paid\"");
}

#define NO_EVENT                                                               \
    "an event type is letters, digits and . _ - / : with an optional * "       \
    "at the end, like \"order.*\""

/* A type, "order.*" or "*". */
static bool is_event(struct sl_str text)
{
    struct sl_str type = text;

    type.len -= text.len > 0 && text.at[text.len - 1] == '*';
    return text.len > 0 && text.len <= SL_WEBHOOK_TYPE && is_type(type);
}

static bool read_events(struct sl_json_body *body, struct sl_str member,
                        void *at)
{
    struct sl_str event;
    size_t from;
    unsigned count = 0;

    if (sl_json_peek(&body->json) != SL_JSON_ARRAY)
        return sl_json_body_wrong(body, member, "a list like [\"order.*\"]");
    from = body->json.at;
    if (!sl_json_enter(&body->json, '['))
        return sl_json_body_broken(body);
    while (sl_json_item(&body->json)) {
        if (sl_json_peek(&body->json) != SL_JSON_STRING ||
            !sl_json_text(&body->json, &event) || !is_event(event))
            return sl_json_body_refuse(body, "BAD_REQUEST", "%s", NO_EVENT);
        count++;
    }
    if (body->json.why)
        return sl_json_body_broken(body);
    if (count == 0 || count > SL_WEBHOOK_EVENTS)
        return sl_json_body_refuse(body, "BAD_REQUEST",
                                   "\"events\" must have 1 to %d types; "
                                   "[\"*\"] is all",
                                   SL_WEBHOOK_EVENTS);
    *(struct sl_str *)at =
        (struct sl_str){body->json.text.at + from, body->json.at - from};
    return true;
}

#define FIELD(name, read)                                                      \
    SL_JSON_FIELD(#name, offsetof(struct draft, name), read)

static const struct sl_json_field make_fields[] = {
    FIELD(org, sl_json_body_text),       FIELD(url, sl_json_body_text),
    FIELD(events, read_events),          FIELD(metadata, read_object),
    FIELD(contact, sl_json_body_flag),   FIELD(secret, sl_json_body_text),
    FIELD(signature, sl_json_body_text),
};

static const struct sl_json_field change_fields[] = {
    FIELD(url, sl_json_body_text),     FIELD(events, read_events),
    FIELD(metadata, read_object),      FIELD(enabled, sl_json_body_flag),
    FIELD(contact, sl_json_body_flag), FIELD(queued, sl_json_body_text),
    FIELD(reason, sl_json_body_text),
};

/* A member that is null is as if it was not there. */
static bool read_body(struct sl_http_call *call,
                      const struct sl_json_field *fields, unsigned count,
                      void *ret, unsigned *seen)
{
    struct sl_json_body body;

    sl_json_body_begin(&body, call, "webhook endpoint");
    if (call->request->body.len > 2 * METADATA_MOST + SL_WEBHOOK_EVENTS * 160)
        return sl_http_refuse(call, 413, "TOO_LARGE",
                              "the body of an endpoint is too large");
    if (sl_json_body_fields(&body, fields, count, NULL, ret) &&
        (sl_json_end(&body.json) || sl_json_body_broken(&body))) {
        *seen = body.seen & ~body.nulls;
        return true;
    }
    return sl_json_body_answer(&body);
}

/* Refuses a URL, or replaces it by its one spelling: the pace is per URL. */
static bool check_url(struct sl_http_call *call, struct sl_str *url)
{
    struct sl_url_rules rules =
        sl_url_rules_of(&sl_check_ref_policy(&call->check)->policy->webhooks);
    struct sl_webhook_url parts;
    struct sl_diag diag = {0};
    struct sl_buf text;
    char *copy = NULL;

    if (sl_url_guard_read(*url, &rules, &parts, &diag))
        return sl_http_refuse(call, 400, "BAD_URL", "%s", diag.sentence);
    sl_buf_init(&text, (size_t)2 * SL_WEBHOOK_URL, call->worker->alloc);
    if (!sl_url_canonical(*url, &parts, &text))
        copy = sl_arena_copy(&call->arena, sl_buf_str(&text));
    *url = (struct sl_str){copy, text.len};
    sl_buf_done(&text);
    return copy || sl_http_no_memory(call);
}

/* ---- creating ---- */

static bool make_secret(struct sl_http_call *call, const struct draft *d,
                        struct sl_str *ret)
{
    char text[SL_WEBHOOK_SECRET_TEXT];
    bool asymmetric = sl_str_eq(d->signature, SL_STR("v1a"));
    char *copy;

    if (d->signature.len > 0 && !asymmetric &&
        !sl_str_eq(d->signature, SL_STR("v1")))
        return sl_http_refuse(call, 400, "BAD_REQUEST",
                              "\"signature\" must be v1 (HMAC) or v1a "
                              "(ed25519)");
    if (d->secret.len > 0 && !sl_webhook_secret_ok(d->secret))
        return sl_http_refuse(call, 400, "BAD_REQUEST",
                              "\"secret\" must be whsec_ and base64 of 24 to "
                              "64 bytes, or whsk_ and an ed25519 key; leave it "
                              "out to have one made");
    if (d->secret.len > 0 && d->signature.len > 0 &&
        asymmetric != sl_str_begins(d->secret, SL_STR("whsk_")))
        return sl_http_refuse(
            call, 400, "BAD_REQUEST", "%s needs a secret that begins with %s",
            asymmetric ? "v1a" : "v1", asymmetric ? "whsk_" : "whsec_");
    *ret = d->secret;
    if (d->secret.len > 0)
        return true;
    if (sl_webhook_secret_make(asymmetric, text))
        return sl_http_refuse(call, 503, "NO_RANDOM",
                              "the system did not provide random bytes");
    copy = sl_arena_copy(&call->arena, sl_str_c(text));
    *ret = (struct sl_str){copy, strlen(text)};
    return copy || sl_http_no_memory(call);
}

/* Answers with what the receiver verifies with. */
static void answer_secret(struct sl_http_job *op, int status)
{
    struct sl_http_call *call = op->call;
    const struct sl_webhook_job *w = &of(op)->job;
    struct sl_writer out = {.out = &call->text};
    char shown[SL_WEBHOOK_SECRET_TEXT];

    if (!sl_webhook_secret_show(w->endpoint.secret, shown)) {
        sl_http_no_memory(call);
        return;
    }
    sl_json_open(&out, '{');
    sl_json_member_str(&out, "id", w->endpoint.id);
    sl_json_member_text(&out, "secret", shown);
    if (w->endpoint.old_until > 0)
        sl_json_member_time(&out, "old_secret_until", w->endpoint.old_until);
    sl_json_close(&out, '}');
    sl_http_answer_json(call, out.err);
    if (call->status == 200)
        call->status = status;
}

static void answer_made(struct sl_http_job *op)
{
    if (op->job.result == SL_JOB_CONFLICT)
        sl_http_refuse(op->call, 409, "TOO_MANY", "%s", op->job.diag.sentence);
    else
        answer_secret(op, 201);
}

void sl_webhook_endpoint_make(struct sl_http_call *call)
{
    struct sl_http_webhook *w =
        sl_http_webhook_new(call, SL_WEBHOOK_PUT_ENDPOINT, answer_made);
    struct draft d = {.call = call};
    struct sl_webhook_endpoint *e = w ? &w->job.endpoint : NULL;
    unsigned seen;

    if (!w || !read_body(call, make_fields, SL_LEN(make_fields), &d, &seen) ||
        !sl_http_webhook_name(call, "org", d.org, SL_SUBJECT_RECORD_ID, LIKE) ||
        !sl_http_webhook_name(call, "url", d.url, SL_WEBHOOK_URL, LIKE) ||
        !check_url(call, &d.url) || !make_secret(call, &d, &e->secret))
        return;
    sl_http_webhook_id(call, "ep", w->id);
    e->id = sl_str_c(w->id);
    e->org = d.org;
    e->url = d.url;
    e->events = d.events.len > 0 ? d.events : SL_STR("[\"*\"]");
    e->metadata = d.metadata.len > 0 ? d.metadata : SL_STR("{}");
    e->contact = d.contact;
    sl_http_job_send(w->op);
}

/* ---- reading ---- */

static void answer_list(struct sl_http_job *op)
{
    op->rows = "endpoints";
    sl_http_job_rows(op);
}

static void answer_one(struct sl_http_job *op)
{
    struct sl_writer w = {.out = &op->call->text};

    if (op->job.result == SL_JOB_NOT_FOUND) {
        refuse_missing(op->call);
        return;
    }
    sl_writer_add(&w, sl_buf_str(&op->job.text));
    sl_http_answer_json(op->call, w.err);
}

void sl_webhook_endpoint_list(struct sl_http_call *call)
{
    struct sl_http_webhook *w =
        sl_http_webhook_new(call, SL_WEBHOOK_LIST_ENDPOINTS, answer_list);
    struct sl_str org = SL_STR("");
    const struct sl_admin_option options[] = {
        {"org", &org}
    };

    if (!w || !sl_admin_options(call, options, SL_LEN(options)))
        return;
    w->job.org = org;
    sl_http_job_send(w->op);
}

void sl_webhook_endpoint_get(struct sl_http_call *call)
{
    struct sl_http_webhook *w =
        sl_http_webhook_new(call, SL_WEBHOOK_LIST_ENDPOINTS, answer_one);

    if (!w)
        return;
    if (call->rest.len == 0) { /* the job would list all */
        refuse_missing(call);
        return;
    }
    w->job.id = call->rest;
    sl_http_job_send(w->op);
}

/* ---- changing ---- */

/* Reads the endpoint again, to answer with it. */
static void answer_changed(struct sl_http_job *op)
{
    struct sl_http_call *call = op->call;

    if (op->job.result == SL_JOB_NOT_FOUND) {
        refuse_missing(call);
        return;
    }
    sl_http_webhook_wake(call);
    sl_admin_answerf(call, "{\"id\":\"%s\",\"changed\":true}", of(op)->id);
}

static bool apply(struct sl_http_call *call, const struct draft *d,
                  unsigned seen, struct sl_webhook_job *job)
{
    static const unsigned bits[] = {
        SL_WEBHOOK_HAS_URL,     SL_WEBHOOK_HAS_EVENTS,  SL_WEBHOOK_HAS_METADATA,
        SL_WEBHOOK_HAS_ENABLED, SL_WEBHOOK_HAS_CONTACT,
    };
    bool drop = sl_str_eq(d->queued, SL_STR("drop"));

    for (unsigned i = 0; i < SL_LEN(bits); i++)
        if (seen & 1u << i)
            job->has |= bits[i];
    job->endpoint = (struct sl_webhook_endpoint){
        .url = d->url,
        .events = d->events,
        .metadata = d->metadata,
        .contact = d->contact,
        .enabled = d->enabled,
        .reason = d->reason.len > 0 ? d->reason : SL_STR("disabled by hand"),
    };
    if (drop)
        job->has |= SL_WEBHOOK_HAS_DROP;
    if (d->queued.len > 0 && !drop && !sl_str_eq(d->queued, SL_STR("keep")))
        return sl_http_refuse(call, 400, "BAD_REQUEST",
                              "\"queued\" must be keep or drop: what happens "
                              "to messages that wait");
    if (d->reason.len > SL_SUBJECT_RECORD_NOTE)
        return sl_http_refuse(call, 400, "BAD_REQUEST",
                              "\"reason\" has more than %d bytes",
                              SL_SUBJECT_RECORD_NOTE);
    return !(job->has & SL_WEBHOOK_HAS_URL) ||
           check_url(call, &job->endpoint.url);
}

void sl_webhook_endpoint_change(struct sl_http_call *call)
{
    struct sl_http_webhook *w =
        sl_http_webhook_new(call, SL_WEBHOOK_CHANGE_ENDPOINT, answer_changed);
    struct draft d = {.call = call};
    unsigned seen = 0;

    if (!w ||
        !read_body(call, change_fields, SL_LEN(change_fields), &d, &seen) ||
        !apply(call, &d, seen, &w->job))
        return;
    w->job.id = call->rest;
    snprintf(w->id, sizeof(w->id), "%.*s", SL_STR_ARG(call->rest));
    sl_http_job_send(w->op);
}

static void answer_dropped(struct sl_http_job *op)
{
    if (op->job.result == SL_JOB_NOT_FOUND)
        refuse_missing(op->call);
    else
        sl_admin_answerf(op->call, "{\"deleted\":true}");
}

void sl_webhook_endpoint_drop(struct sl_http_call *call)
{
    struct sl_http_webhook *w =
        sl_http_webhook_new(call, SL_WEBHOOK_DROP_ENDPOINT, answer_dropped);

    if (!w)
        return;
    w->job.id = call->rest;
    sl_http_job_send(w->op);
}

/* ---- POST .../ID/rotate, ping, replay ---- */

static void answer_rotated(struct sl_http_job *op)
{
    if (op->job.result == SL_JOB_NOT_FOUND)
        refuse_missing(op->call);
    else
        answer_secret(op, 200);
}

struct rotation {
    struct sl_str keep, secret, signature;
};

static const struct sl_json_field rotate_fields[] = {
    SL_JSON_FIELD("keep", offsetof(struct rotation, keep), sl_json_body_text),
    SL_JSON_FIELD("secret", offsetof(struct rotation, secret),
                  sl_json_body_text),
    SL_JSON_FIELD("signature", offsetof(struct rotation, signature),
                  sl_json_body_text),
};

static void rotate(struct sl_http_call *call, struct sl_str id)
{
    struct sl_http_webhook *w =
        sl_http_webhook_new(call, SL_WEBHOOK_CHANGE_ENDPOINT, answer_rotated);
    struct rotation r = {.keep = SL_STR("")};
    struct draft d = {.call = call};
    struct sl_diag diag = {0};
    sl_ns keep = KEEP;
    unsigned seen;

    if (!w ||
        (call->request->body.len > 0 &&
         !read_body(call, rotate_fields, SL_LEN(rotate_fields), &r, &seen)))
        return;
    if (r.keep.len > 0 &&
        (sl_parse_duration(r.keep, &keep, &diag) || keep > 30 * SL_DAY)) {
        sl_http_refuse(call, 400, "BAD_REQUEST",
                       "\"keep\" must be how long the old secret stays valid, "
                       "like \"24h\", at most 30d");
        return;
    }
    d.secret = r.secret;
    d.signature = r.signature;
    if (!make_secret(call, &d, &w->job.endpoint.secret))
        return;
    w->job.id = w->job.endpoint.id = id;
    w->job.has = SL_WEBHOOK_HAS_SECRET;
    w->job.endpoint.old_until = keep > 0 ? sl_http_now(call) + keep : 0;
    sl_http_job_send(w->op);
}

static void answer_replayed(struct sl_http_job *op)
{
    struct sl_http_call *call = op->call;

    if (op->job.result == SL_JOB_NOT_FOUND) {
        refuse_missing(call);
        return;
    }
    sl_http_webhook_wake(call);
    sl_admin_answerf(call, "{\"queued\":%u}", of(op)->job.deliveries);
    if (call->status == 200)
        call->status = 202;
}

struct range {
    struct sl_str from, to, type;
};

static const struct sl_json_field range_fields[] = {
    SL_JSON_FIELD("from", offsetof(struct range, from), sl_json_body_text),
    SL_JSON_FIELD("to", offsetof(struct range, to), sl_json_body_text),
    SL_JSON_FIELD("type", offsetof(struct range, type), sl_json_body_text),
};

static void replay_range(struct sl_http_call *call, struct sl_str id)
{
    struct sl_http_webhook *w =
        sl_http_webhook_new(call, SL_WEBHOOK_REPLAY_RANGE, answer_replayed);
    struct range r = {.from = SL_STR("")};
    unsigned seen;

    if (!w || !read_body(call, range_fields, SL_LEN(range_fields), &r, &seen) ||
        !sl_http_webhook_instant(call, "BAD_REQUEST", "from", r.from,
                                 &w->job.from) ||
        !sl_http_webhook_instant(call, "BAD_REQUEST", "to", r.to, &w->job.to))
        return;
    if (w->job.from > w->job.to) {
        sl_http_refuse(call, 400, "BAD_REQUEST", "\"from\" is after \"to\"");
        return;
    }
    if (r.type.len > 0 && !is_event(r.type)) {
        sl_http_refuse(call, 400, "BAD_REQUEST", "%s", NO_EVENT);
        return;
    }
    w->job.id = id;
    w->job.type = r.type;
    sl_http_job_send(w->op);
}

void sl_webhook_endpoint_act(struct sl_http_call *call)
{
    struct sl_str rest = call->rest, id = sl_admin_cut(&rest, '/');

    if (sl_str_eq(rest, SL_STR("rotate")))
        rotate(call, id);
    else if (sl_str_eq(rest, SL_STR("replay")))
        replay_range(call, id);
    else if (sl_str_eq(rest, SL_STR("ping")))
        sl_http_webhook_ping(call, id);
    else
        sl_http_refuse(call, 404, "NOT_FOUND",
                       "unknown path %.*s; write /v1/webhooks/endpoints/ID/ "
                       "and rotate, ping or replay",
                       SL_STR_ARG(call->path));
}
