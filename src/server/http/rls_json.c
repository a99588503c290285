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
    struct sl_json_reader json;
    struct sl_rls_request *request;
    const char *why; /* the error, if the JSON is valid */
};

/* ---- reading ---- */

static bool refuse(struct reading *r, const char *why)
{
    if (!r->why)
        r->why = why;
    return false;
}

static bool is(struct sl_str name, const char *camel, const char *snake)
{
    return sl_str_eq(name, sl_str_c(camel)) || sl_str_eq(name, sl_str_c(snake));
}

/* Read a whole number, or a string with one. */
static bool read_number(struct reading *r, uint64_t most, uint64_t *ret)
{
    struct sl_str text;

    if (sl_json_peek(&r->json) != SL_JSON_STRING) {
        if (!sl_json_whole(&r->json, ret))
            return false;
    } else if (!sl_json_text(&r->json, &text) ||
               sl_parse_number(text, ret, NULL)) {
        return refuse(r, "a number is not a whole number");
    }
    return *ret <= most || refuse(r, "a number is too large");
}

static bool read_entry(struct reading *r, struct sl_rls_entry *ret)
{
    struct sl_str name;

    *ret = (struct sl_rls_entry){
        {"", 0},
        {"", 0}
    };
    if (!sl_json_enter(&r->json, '{'))
        return false;
    while (sl_json_member(&r->json, &name)) {
        bool is_key = is(name, "key", "key");

        if (!is_key && !is(name, "value", "value"))
            return refuse(r, "an entry may only have a key and a value");
        if (!sl_json_text(&r->json, is_key ? &ret->key : &ret->value))
            return false;
    }
    if (ret->key.len == 0)
        return refuse(r, "an entry has no key");
    return r->json.why == NULL;
}

static bool read_entries(struct reading *r, struct sl_rls_descriptor *d)
{
    struct sl_rls_request *request = r->request;

    if (!sl_json_enter(&r->json, '['))
        return false;
    while (sl_json_item(&r->json)) {
        if (d->entry_count == SL_RLS_ENTRIES ||
            request->entry_count == SL_RLS_ALL)
            return refuse(r, "there are too many entries");
        if (!read_entry(r, &request->entries[request->entry_count]))
            return false;
        request->entry_count++;
        d->entry_count++;
    }
    return r->json.why == NULL;
}

/* Read a unit by its name or its number. */
static bool read_unit(struct reading *r, struct sl_rls_descriptor *d)
{
    static const char *const units[] = {"UNKNOWN", "SECOND", "MINUTE", "HOUR",
                                        "DAY",     "MONTH",  "YEAR"};
    struct sl_str text;
    uint64_t number = 0;

    if (sl_json_peek(&r->json) != SL_JSON_STRING) {
        if (!read_number(r, UINT32_MAX, &number))
            return false;
        d->unit = (uint32_t)number;
        return true;
    }
    if (!sl_json_text(&r->json, &text))
        return false;
    for (uint32_t i = 0; i < SL_LEN(units); i++)
        if (sl_str_eq(text, sl_str_c(units[i]))) {
            d->unit = i;
            return true;
        }
    return refuse(r, "unknown unit");
}

static bool read_limit(struct reading *r, struct sl_rls_descriptor *d)
{
    struct sl_str name;
    uint64_t number = 0;

    d->has_limit = true;
    if (!sl_json_enter(&r->json, '{'))
        return false;
    while (sl_json_member(&r->json, &name)) {
        bool good;

        if (is(name, "requestsPerUnit", "requests_per_unit"))
            good = read_number(r, UINT32_MAX, &number);
        else if (is(name, "unit", "unit"))
            good = read_unit(r, d);
        else
            good = refuse(r, "a limit may only have requestsPerUnit and unit");
        if (!good)
            return false;
    }
    d->requests_per_unit = (uint32_t)number;
    return r->json.why == NULL;
}

static bool read_field(struct reading *r, struct sl_rls_descriptor *d,
                       struct sl_str name)
{
    if (is(name, "entries", "entries"))
        return read_entries(r, d);
    if (is(name, "limit", "limit"))
        return read_limit(r, d);
    if (is(name, "isNegativeHits", "is_negative_hits"))
        return sl_json_bool(&r->json, &d->negative);
    if (!is(name, "hitsAddend", "hits_addend"))
        return refuse(r, "a descriptor may only have entries, limit, "
                         "hitsAddend and isNegativeHits");
    d->has_hits = true;
    return read_number(r, UINT64_MAX, &d->hits);
}

static bool read_descriptors(struct reading *r)
{
    struct sl_rls_request *request = r->request;

    if (!sl_json_enter(&r->json, '['))
        return false;
    while (sl_json_item(&r->json)) {
        struct sl_rls_descriptor *d = &request->descriptors[request->count];
        struct sl_str name;

        if (request->count == SL_RLS_DESCRIPTORS)
            return refuse(r, "there are more than 64 descriptors");
        *d = (struct sl_rls_descriptor){.entries = request->entries +
                                                   request->entry_count};
        request->count++;
        if (!sl_json_enter(&r->json, '{'))
            return false;
        while (sl_json_member(&r->json, &name))
            if (!read_field(r, d, name))
                return false;
    }
    return r->json.why == NULL;
}

static bool read_request(struct reading *r)
{
    struct sl_rls_request *request = r->request;
    struct sl_str name;
    uint64_t hits = 0;

    request->domain = (struct sl_str){"", 0};
    request->count = request->entry_count = 0;
    if (!sl_json_enter(&r->json, '{'))
        return false;
    while (sl_json_member(&r->json, &name)) {
        bool good;

        if (is(name, "domain", "domain"))
            good = sl_json_text(&r->json, &request->domain);
        else if (is(name, "descriptors", "descriptors"))
            good = read_descriptors(r);
        else if (is(name, "hitsAddend", "hits_addend"))
            good = read_number(r, UINT32_MAX, &hits);
        else
            good = refuse(
                r,
                "a request may only have domain, descriptors and hitsAddend");
        if (!good)
            return false;
    }
    request->hits = (uint32_t)hits;
    if (r->json.why || !sl_json_end(&r->json))
        return false;
    if (request->domain.len == 0)
        return refuse(r, "rate limit domain must not be empty");
    return request->count > 0 ||
           refuse(r, "rate limit descriptor list must not be empty");
}

/* ---- writing ---- */

static const char *const codes[] = {"UNKNOWN", "OK", "OVER_LIMIT"};

static void write_limit(struct sl_writer *w, const struct sl_rls_status *s)
{
    static const char *const units[] = {"UNKNOWN", "SECOND", "MINUTE", "HOUR",
                                        "DAY",     "MONTH",  "YEAR",   "WEEK"};

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

static void on_decided(struct sl_rls_call *rls)
{
    struct sl_http_call *call = rls->ctx;
    const struct sl_alloc *alloc = call->worker->alloc;
    int err = rls->err;

    if (!err && write_response(&call->text, &rls->response))
        err = SLUICE_ENOMEM;
    if (err == SLUICE_ENOMEM)
        sl_http_no_memory(call);
    else if (err == SLUICE_ESTORE)
        sl_http_refuse(call, 503, "SERVICE_UNAVAILABLE", "%s",
                       rls->check.diag.sentence);
    else if (err)
        sl_http_refuse(call, 400, "BAD_REQUEST", "%s",
                       rls->check.diag.sentence);
    else
        sl_http_answer(call, rls->response.code == SL_RLS_OK ? 200 : 429,
                       SL_STR("application/json"), sl_buf_str(&call->text));
    sl_rls_call_done(rls);
    sl_alloc_free(alloc, rls, sizeof(*rls));
    sl_http_resume_finish(call);
}

static struct sl_rls_call *begin(struct sl_http_call *call)
{
    struct sl_server_worker *worker = call->worker;
    struct sl_rls_call *rls = sl_alloc_new(worker->alloc, sizeof(*rls));

    if (!rls)
        return NULL;
    sl_rls_call_init(rls, worker->engine, worker->engine_ctx, worker->alloc);
    rls->loop = worker->loop;
    rls->stats = worker->stats;
    rls->door = worker->server->name;
    rls->done = on_decided;
    rls->ctx = call;
    return rls;
}

void sl_http_json(struct sl_http_call *call)
{
    struct sl_rls_call *rls = begin(call);
    struct reading r = {.request = NULL};

    if (!rls) {
        sl_http_no_memory(call);
        return;
    }
    r.request = &rls->request;
    sl_json_begin(&r.json, call->request->body, &call->arena);
    if (!read_request(&r)) {
        if (r.json.no_memory)
            sl_http_no_memory(call);
        else
            sl_http_refuse(call, 400, "BAD_REQUEST",
                           "not a RateLimitRequest: %s",
                           r.json.why ? r.json.why
                           : r.why    ? r.why
                                      : "a member has the wrong type");
        sl_rls_call_done(rls);
        sl_alloc_free(call->worker->alloc, rls, sizeof(*rls));
        return;
    }
    sl_http_suspend(call);
    sl_rls_decide(rls);
}

void sl_http_healthcheck(struct sl_http_call *call)
{
    if (call->worker->draining)
        sl_http_answer(call, 500, SL_STR("text/plain"),
                       SL_STR("the daemon is shutting down\n"));
    else
        sl_http_answer(call, 200, SL_STR("text/plain"), SL_STR("OK"));
}
