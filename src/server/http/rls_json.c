/* rls_json.c -- POST /json: Envoy's rate limit service over HTTP.
 *
 * As in envoyproxy/ratelimit, the body is a RateLimitRequest in the JSON of
 * proto3, and the answer is a RateLimitResponse, with 200 if the request is
 * allowed and 429 if not. Names can be lowerCamelCase or as in the .proto file,
 * and numbers can be strings. GET /healthcheck answers OK, or 500 during
 * shutdown.
 */
#include <inttypes.h>
#include <openssl/evp.h>
#include <string.h>

#include "base/parse.h"
#include "server/http/http_int.h"
#include "server/rls.h"

struct reading {
    struct sl_json_body body; /* first */
    struct sl_rls_request *request;
};

static struct sl_rls_request *request_of(struct sl_json_body *r)
{
    return ((struct reading *)r)->request;
}

static const char *const units[] = {"UNKNOWN", "SECOND", "MINUTE", "HOUR",
                                    "DAY",     "MONTH",  "YEAR",   "WEEK"};

/* ---- reading ---- */

static bool refuse(struct sl_json_body *r, const char *why)
{
    return sl_json_body_refuse(r, "BAD_REQUEST", "%s", why);
}

/* Read a whole number, or a string with one. */
static bool read_number(struct sl_json_body *r, struct sl_str member,
                        uint64_t most, uint64_t *ret)
{
    struct sl_str text;

    if (sl_json_peek(&r->json) != SL_JSON_STRING) {
        if (!sl_json_body_whole(r, member, ret))
            return false;
    } else if (!sl_json_text(&r->json, &text) ||
               sl_parse_number(text, ret, NULL)) {
        return refuse(r, "a number is not a whole number");
    }
    return *ret <= most || refuse(r, "a number is too large");
}

static bool read_u32(struct sl_json_body *r, struct sl_str member, void *at)
{
    uint64_t number;

    if (!read_number(r, member, UINT32_MAX, &number))
        return false;
    *(uint32_t *)at = (uint32_t)number;
    return true;
}

/* Read a unit by its name or its number. A week has no name in requests. */
static bool read_unit(struct sl_json_body *r, struct sl_str member, void *at)
{
    uint32_t *unit = at;
    struct sl_str text;

    if (sl_json_peek(&r->json) != SL_JSON_STRING)
        return read_u32(r, member, unit);
    if (!sl_json_body_text(r, member, &text))
        return false;
    for (*unit = 0; *unit < SL_LEN(units) - 1; ++*unit)
        if (sl_str_eq(text, sl_str_c(units[*unit])))
            return true;
    return refuse(r, "unknown unit");
}

static bool read_entry(struct sl_json_body *r, struct sl_rls_entry *ret)
{
    static const struct sl_json_field fields[] = {
        SL_JSON_FIELD("key", offsetof(struct sl_rls_entry, key),
                      sl_json_body_text),
        SL_JSON_FIELD("value", offsetof(struct sl_rls_entry, value),
                      sl_json_body_text),
    };

    ret->key = ret->value = (struct sl_str){"", 0};
    if (!sl_json_body_fields(r, fields, SL_LEN(fields),
                             ": an entry may only have a key and a value", ret))
        return false;
    return ret->key.len > 0 || refuse(r, "an entry has no key");
}

static bool read_entries(struct sl_json_body *r, struct sl_str member, void *at)
{
    struct sl_rls_request *request = request_of(r);
    struct sl_rls_descriptor *d = at;

    if (!sl_json_enter(&r->json, '['))
        return sl_json_body_wrong(r, member, "a list");
    while (sl_json_item(&r->json)) {
        if (d->entry_count == SL_RLS_ENTRIES ||
            request->entry_count == SL_RLS_ALL)
            return refuse(r, "there are too many entries");
        if (!read_entry(r, &request->entries[request->entry_count]))
            return false;
        request->entry_count++;
        d->entry_count++;
    }
    return !r->json.why || sl_json_body_broken(r);
}

#define OF(name) offsetof(struct sl_rls_descriptor, name)

static bool read_limit(struct sl_json_body *r, struct sl_str member, void *at)
{
    static const struct sl_json_field fields[] = {
        SL_JSON_FIELD("requestsPerUnit", OF(requests_per_unit), read_u32),
        SL_JSON_FIELD("requests_per_unit", OF(requests_per_unit), read_u32),
        SL_JSON_FIELD("unit", OF(unit), read_unit),
    };
    struct sl_rls_descriptor *d = at;

    (void)member;
    d->has_limit = true;
    return sl_json_body_fields(
        r, fields, SL_LEN(fields),
        ": a limit may only have requestsPerUnit and unit", d);
}

static bool read_hits(struct sl_json_body *r, struct sl_str member, void *at)
{
    struct sl_rls_descriptor *d = at;

    d->has_hits = true;
    return read_number(r, member, UINT64_MAX, &d->hits);
}

static bool read_descriptors(struct sl_json_body *r, struct sl_str member,
                             void *at)
{
    static const struct sl_json_field fields[] = {
        SL_JSON_FIELD("entries", 0, read_entries),
        SL_JSON_FIELD("limit", 0, read_limit),
        SL_JSON_FIELD("hitsAddend", 0, read_hits),
        SL_JSON_FIELD("hits_addend", 0, read_hits),
        SL_JSON_FIELD("isNegativeHits", OF(negative), sl_json_body_flag),
        SL_JSON_FIELD("is_negative_hits", OF(negative), sl_json_body_flag),
    };
    struct sl_rls_request *request = at;

    if (!sl_json_enter(&r->json, '['))
        return sl_json_body_wrong(r, member, "a list");
    while (sl_json_item(&r->json)) {
        struct sl_rls_descriptor *d = &request->descriptors[request->count];

        if (request->count == SL_RLS_DESCRIPTORS)
            return refuse(r, "there are more than 64 descriptors");
        *d = (struct sl_rls_descriptor){.entries = request->entries +
                                                   request->entry_count};
        request->count++;
        if (!sl_json_body_fields(r, fields, SL_LEN(fields),
                                 ": a descriptor may only have entries, limit, "
                                 "hitsAddend and isNegativeHits",
                                 d))
            return false;
    }
    return !r->json.why || sl_json_body_broken(r);
}

static bool read_request(struct sl_json_body *r, struct sl_rls_request *request)
{
    static const struct sl_json_field fields[] = {
        SL_JSON_FIELD("domain", offsetof(struct sl_rls_request, domain),
                      sl_json_body_text),
        SL_JSON_FIELD("descriptors", 0, read_descriptors),
        SL_JSON_FIELD("hitsAddend", offsetof(struct sl_rls_request, hits),
                      read_u32),
        SL_JSON_FIELD("hits_addend", offsetof(struct sl_rls_request, hits),
                      read_u32),
    };

    request->domain = (struct sl_str){"", 0};
    request->hits = 0;
    request->count = request->entry_count = 0;
    if (!sl_json_body_fields(
            r, fields, SL_LEN(fields),
            ": a request may only have domain, descriptors and hitsAddend",
            request))
        return false;
    if (!sl_json_end(&r->json))
        return sl_json_body_broken(r);
    if (request->domain.len == 0)
        return refuse(r, "rate limit domain must not be empty");
    return request->count > 0 ||
           refuse(r, "rate limit descriptor list must not be empty");
}

/* ---- writing ---- */

static const char *const codes[] = {"UNKNOWN", "OK", "OVER_LIMIT"};

static void write_limit(struct sl_writer *w, const struct sl_rls_status *s)
{
    sl_writer_addf(
        w, ",\"currentLimit\":{\"requestsPerUnit\":%" PRIu32 ",\"unit\":\"%s\"",
        s->requests_per_unit, units[s->unit]);
    sl_json_member_str(w, "name", s->name);
    sl_json_close(w, '}');
}

/* Write "12s" or "0.500s": the seconds have no, three or nine decimals. */
static void write_reset(struct sl_writer *w, sl_ns reset)
{
    int64_t nanos = reset % SL_S;

    sl_writer_addf(w, ",\"durationUntilReset\":\"%" PRId64, reset / SL_S);
    if (nanos % SL_MS != 0)
        sl_writer_addf(w, ".%09" PRId64, nanos);
    else if (nanos != 0)
        sl_writer_addf(w, ".%03" PRId64, nanos / SL_MS);
    sl_writer_add(w, SL_STR("s\""));
}

static void write_status(struct sl_writer *w, const struct sl_rls_status *s)
{
    sl_json_open(w, '{');
    sl_json_member_str(w, "code", sl_str_c(codes[s->code]));
    if (s->has_limit)
        write_limit(w, s);
    if (s->remaining > 0)
        sl_writer_addf(w, ",\"limitRemaining\":%" PRIu32, s->remaining);
    if (s->reset_in >= 0)
        write_reset(w, s->reset_in);
    sl_json_close(w, '}');
}

/* In this JSON, bytes are base64. */
static void write_body(struct sl_writer *w, struct sl_str body)
{
    struct sl_buf *out = w->out;

    sl_writer_add(w, SL_STR(",\"rawBody\":\""));
    if (!w->err)
        w->err = sl_buf_reserve(out, 4 * (body.len / 3 + 1) + 1);
    if (w->err)
        return;
    out->len +=
        (size_t)EVP_EncodeBlock((unsigned char *)out->bytes + out->len,
                                (const unsigned char *)body.at, (int)body.len);
    sl_writer_add(w, SL_STR("\""));
}

static int write_response(struct sl_buf *out, const struct sl_rls_response *r)
{
    struct sl_writer w = {.out = out};

    sl_writer_addf(&w, "{\"overallCode\":\"%s\",\"statuses\":[",
                   codes[r->code]);
    for (unsigned i = 0; i < r->count; i++)
        write_status(&w, &r->statuses[i]);
    sl_json_close(&w, ']');
    if (r->header_count > 0)
        sl_writer_add(&w, SL_STR(",\"responseHeadersToAdd\":["));
    for (unsigned i = 0; i < r->header_count; i++) {
        sl_json_open(&w, '{');
        sl_json_member_str(&w, "key", r->headers[i].key);
        sl_json_member_str(&w, "value", r->headers[i].value);
        sl_json_close(&w, '}');
    }
    if (r->header_count > 0)
        sl_json_close(&w, ']');
    if (r->body.len > 0)
        write_body(&w, r->body);
    sl_json_close(&w, '}');
    return w.err;
}

/* ---- the handlers ---- */

static void free_rls(struct sl_rls_call *rls, const struct sl_alloc *alloc)
{
    sl_rls_call_done(rls);
    sl_alloc_free(alloc, rls, sizeof(*rls));
}

static void on_decided(struct sl_rls_call *rls)
{
    struct sl_http_call *call = rls->ctx;
    const char *why = rls->check.diag.sentence;
    int err = rls->err;

    if (!err && write_response(&call->text, &rls->response))
        err = SLUICE_ENOMEM;
    if (err == SLUICE_ENOMEM)
        sl_http_no_memory(call);
    else if (err == SLUICE_ESTORE)
        sl_http_refuse(call, 503, "SERVICE_UNAVAILABLE", "%s", why);
    else if (err)
        sl_http_refuse(call, 400, "BAD_REQUEST", "%s", why);
    else
        sl_http_answer(call, rls->response.code == SL_RLS_OK ? 200 : 429,
                       SL_STR("application/json"), sl_buf_str(&call->text));
    free_rls(rls, call->worker->alloc);
    sl_http_resume_finish(call);
}

void sl_http_json(struct sl_http_call *call)
{
    struct sl_server_worker *worker = call->worker;
    struct sl_rls_call *rls = sl_alloc_new(worker->alloc, sizeof(*rls));
    struct reading r;

    if (!rls) {
        sl_http_no_memory(call);
        return;
    }
    sl_rls_call_init(rls, worker->engine, worker->engine_ctx, worker->alloc);
    rls->loop = worker->loop;
    rls->stats = worker->stats;
    rls->door = worker->server->name;
    rls->done = on_decided;
    rls->ctx = call;
    r.request = &rls->request;
    sl_json_body_begin(&r.body, call, "request");
    if (read_request(&r.body, r.request)) {
        sl_http_suspend(call);
        sl_rls_decide(rls);
        return;
    }
    if (r.body.json.no_memory)
        sl_http_no_memory(call);
    else
        sl_http_refuse(call, 400, "BAD_REQUEST", "not a RateLimitRequest: %s",
                       r.body.sentence);
    free_rls(rls, worker->alloc);
}

void sl_http_healthcheck(struct sl_http_call *call)
{
    if (call->worker->draining)
        sl_http_answer(call, 500, SL_STR("text/plain"),
                       SL_STR("the daemon is shutting down\n"));
    else
        sl_http_answer(call, 200, SL_STR("text/plain"), SL_STR("OK"));
}
