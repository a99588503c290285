/* usage_tokens.c -- tokens for the usage page, and the page's data.
 *
 *   POST /v1/usage-tokens   {"org": "acme", "ttl": "15m"}: make a token
 *   GET  /ui/usage/data     the usage of the token's organisation
 *
 * The application's backend makes a token for the organisation of a signed-in
 * admin. The browser sends it as Authorization: Bearer TOKEN. It reads the
 * usage of this organisation and nothing else, until it expires. The data has
 * its own token, so its path is public: web pages may ask for it. A page of
 * another origin can read the answer if the settings have the origin.
 *
 * The token is never in a path, a log or an error.
 */
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/parse.h"
#include "server/http/http_int.h"

#define TTL       SL_HOUR
#define TTL_LEAST SL_S
#define TTL_MOST  SL_DAY
#define NAME_MOST 256
#define URL_MOST  1024
#define KEY_NAME  "usage-token" /* of the row in the database */

#define LIKE "{\"org\":\"acme\",\"ttl\":\"15m\"}"

/* ---- the key ---- */

/* A call that waits for the key. next() returns false if it suspends the
 * call. */
struct waiting {
    struct sl_http_call *call;
    struct sl_job job;
    struct sl_job_repeat repeat;
    struct sl_usage_claims claims; /* to sign */
    bool (*next)(struct waiting *wait, const uint8_t *key);
};

static struct sl_usage_page *page_of(const struct sl_http_call *call)
{
    return call->worker->server->usage_page;
}

/* Threads that read it at the same time read the same row. */
static void keep_key(struct sl_usage_page *page, struct sl_str text)
{
    int unknown = SL_USAGE_KEY_UNKNOWN;

    if (!atomic_compare_exchange_strong(&page->key_state, &unknown,
                                        SL_USAGE_KEY_WRITING))
        return;
    memcpy(page->key, text.at, SL_USAGE_TOKEN_KEY);
    atomic_store_explicit(&page->key_state, SL_USAGE_KEY_KNOWN,
                          memory_order_release);
}

static void refuse_without_key(struct sl_http_call *call, const char *why)
{
    sl_http_field(call, SL_STR("Retry-After"), SL_STR("1"));
    sl_http_refuse(call, 503, "USAGE",
                   "the key of usage tokens is in the database: %s", why);
}

static void on_key(struct sl_job *job)
{
    struct waiting *wait = job->ctx;
    struct sl_http_call *call = wait->call;
    struct sl_str text = sl_buf_str(&job->text);
    bool answered = true;

    if (job->err || text.len != SL_USAGE_TOKEN_KEY) {
        atomic_store(&page_of(call)->key_failed, sl_http_now(call));
        refuse_without_key(call,
                           job->err ? job->diag.sentence : "it is damaged");
    } else {
        keep_key(page_of(call), text);
        answered = wait->next(wait, (const uint8_t *)text.at);
    }
    sl_job_clear(job);
    if (answered)
        sl_http_resume_finish(call);
}

/* Read the key from the database, or make it there. */
static void ask_key(struct waiting *wait, struct sl_registry *registry)
{
    struct sl_hash_key key;

    sl_http_job_init(&wait->job, wait->call, SL_JOB_REPEAT, on_key, wait);
    wait->job.repeat = &wait->repeat;
    wait->repeat.op = SL_JOB_REPEAT_SECRET;
    snprintf(wait->repeat.key, sizeof(wait->repeat.key), KEY_NAME);
    if (sl_hash_key_make(&key)) {
        sl_http_refuse(wait->call, 503, "USAGE",
                       "the kernel gave no random bytes");
        return;
    }
    snprintf(wait->repeat.fingerprint, sizeof(wait->repeat.fingerprint),
             "%016" PRIx64 "%016" PRIx64, key.k0, key.k1);
    sl_http_suspend(wait->call);
    sl_registry_ask(registry, &wait->job);
}

/* Tokens come from any client: a database in trouble is not asked for each. */
static bool has_just_failed(const struct sl_http_call *call)
{
    sl_ns failed = atomic_load(&page_of(call)->key_failed);
    sl_ns since = sl_http_now(call) - failed;

    return failed > 0 && since >= 0 && since < SL_USAGE_KEY_PAUSE;
}

/* Call next() with the key: now, or when the database has answered. */
static void with_key(struct waiting *wait)
{
    struct sl_usage_page *page = page_of(wait->call);
    struct sl_usage_sink *meter = wait->call->worker->engine_ctx->meter;

    if (atomic_load_explicit(&page->key_state, memory_order_acquire) ==
        SL_USAGE_KEY_KNOWN)
        (void)wait->next(wait, page->key);
    else if (meter && has_just_failed(wait->call))
        refuse_without_key(wait->call, "it did not answer a moment ago");
    else if (meter)
        ask_key(wait, sl_usage_buffer_registry(meter));
    else
        sl_http_refuse(wait->call, 503, "USAGE",
                       "this daemon has no key for usage tokens");
}

static struct waiting *begin(struct sl_http_call *call,
                             bool (*next)(struct waiting *wait,
                                          const uint8_t *key))
{
    struct waiting *wait = NULL;

    if (!page_of(call))
        sl_http_refuse(call, 501, "USAGE", "there is no usage page here");
    else
        wait = sl_http_new(call, sizeof(*wait));
    if (wait) {
        wait->call = call;
        wait->next = next;
    }
    return wait;
}

/* ---- POST /v1/usage-tokens ---- */

static bool read_ttl(struct sl_json_body *body, struct sl_str member, void *at)
{
    struct sl_diag why = {.sentence = ""};
    sl_ns *ttl = at;
    struct sl_str text;

    if (sl_json_peek(&body->json) != SL_JSON_STRING)
        return sl_json_body_wrong(body, member, "a string such as \"15m\"");
    if (!sl_json_text(&body->json, &text))
        return sl_json_body_broken(body);
    if (sl_parse_duration(text, ttl, &why))
        return sl_json_body_refuse(body, "BAD_REQUEST", "\"ttl\": %s",
                                   why.sentence);
    return (*ttl >= TTL_LEAST && *ttl <= TTL_MOST) ||
           sl_json_body_refuse(body, "BAD_REQUEST",
                               "\"ttl\" must be from 1s to 24h, not %.*s",
                               SL_STR_ARG(text));
}

struct wanted {
    struct sl_usage_claims claims;
    sl_ns ttl;
};

#define WANTED(name) offsetof(struct wanted, name)

static const struct sl_json_field fields[] = {
    SL_JSON_FIELD("org", WANTED(claims.org), sl_json_body_text),
    SL_JSON_FIELD("ttl", WANTED(ttl), read_ttl),
    SL_JSON_FIELD("name", WANTED(claims.name), sl_json_body_text),
    SL_JSON_FIELD("upgrade_url", WANTED(claims.upgrade_url), sl_json_body_text),
};

static bool begins(struct sl_str text, struct sl_str with)
{
    return text.len > with.len && memcmp(text.at, with.at, with.len) == 0;
}

/* A link that runs a script must not come into the page. */
static bool is_link(struct sl_str url)
{
    for (size_t i = 0; i < url.len; i++)
        if ((unsigned char)url.at[i] <= ' ' || url.at[i] == 0x7f)
            return false;
    return begins(url, SL_STR("https://")) || begins(url, SL_STR("http://"));
}

static bool check_wanted(struct sl_json_body *body, const struct wanted *w)
{
    const struct sl_usage_claims *claims = &w->claims;

    if (claims->org.len == 0)
        return sl_json_body_refuse(body, "BAD_REQUEST",
                                   "\"org\" is missing; send " LIKE);
    if (claims->org.len > SL_USAGE_ID)
        return sl_json_body_refuse(
            body, "BAD_REQUEST", "\"org\" has more than %d bytes", SL_USAGE_ID);
    if (claims->name.len > NAME_MOST)
        return sl_json_body_refuse(
            body, "BAD_REQUEST", "\"name\" has more than %d bytes", NAME_MOST);
    if (claims->upgrade_url.len > URL_MOST ||
        (claims->upgrade_url.len > 0 && !is_link(claims->upgrade_url)))
        return sl_json_body_refuse(
            body, "BAD_REQUEST",
            "\"upgrade_url\" must be a link of at most %d bytes that begins "
            "with https:// or http://",
            URL_MOST);
    return true;
}

static bool read_wanted(struct sl_http_call *call, struct wanted *ret)
{
    struct sl_json_body body;

    sl_json_body_begin(&body, call, "usage token");
    if (sl_json_body_fields(&body, fields, SL_LEN(fields),
                            ": a usage token may only have org, ttl, name and "
                            "upgrade_url; send " LIKE,
                            ret) &&
        (sl_json_end(&body.json) || sl_json_body_broken(&body)) &&
        check_wanted(&body, ret))
        return true;
    return sl_json_body_answer(&body);
}

static bool sign(struct waiting *wait, const uint8_t *key)
{
    struct sl_http_call *call = wait->call;
    const struct sl_usage_claims *claims = &wait->claims;
    struct sl_writer w = {.out = &call->text};

    sl_writer_add(&w, SL_STR("{\"token\":\""));
    if (!w.err)
        w.err = sl_usage_token_write(key, claims, w.out);
    if (w.err == SLUICE_EINVAL) {
        sl_http_refuse(call, 400, "BAD_REQUEST",
                       "the token would have more than %d bytes; shorten "
                       "\"name\" or \"upgrade_url\"",
                       SL_USAGE_TOKEN_MOST);
        return true;
    }
    sl_writer_add(&w, SL_STR("\""));
    sl_json_member_str(&w, "org", claims->org);
    sl_json_member_time(&w, "expires", claims->expires);
    sl_writer_addf(&w,
                   ",\"expires_in_ms\":%" PRId64 ",\"page\":\"/ui/usage/\"}",
                   (claims->expires - sl_http_now(call)) / SL_MS);
    sl_http_field(call, SL_STR("Cache-Control"), SL_STR("no-store"));
    sl_http_answer_json(call, w.err);
    return true;
}

/* Rounded up to whole seconds, which the token has. */
static sl_ns end_of(sl_ns now, sl_ns ttl)
{
    return (now + ttl + SL_S - 1) / SL_S * SL_S;
}

void sl_usage_token_post(struct sl_http_call *call)
{
    struct wanted wanted = {.ttl = TTL};
    struct waiting *wait;

    if (!read_wanted(call, &wanted))
        return;
    wait = begin(call, sign);
    if (!wait)
        return;
    wait->claims = wanted.claims;
    wait->claims.expires = end_of(sl_http_now(call), wanted.ttl);
    with_key(wait);
}

/* The demo has one organisation, and no backend that could ask for a token. */
void sl_usage_demo_token(struct sl_http_call *call)
{
    struct waiting *wait;

    if (!page_of(call) || !page_of(call)->demo) {
        sl_http_refuse(call, 404, "NOT_FOUND",
                       "only the demo has this path: sluiced without a policy");
        return;
    }
    wait = begin(call, sign);
    if (!wait)
        return;
    wait->claims = (struct sl_usage_claims){
        .org = SL_STR("demo"),
        .name = SL_STR("Demo Inc"),
        .expires = end_of(sl_http_now(call), TTL),
    };
    with_key(wait);
}

/* ---- GET /ui/usage/data ---- */

/* Let a page of this origin read the answer, if the settings have it. Returns
 * whether they do. */
static bool allow_origin(struct sl_http_call *call)
{
    unsigned count = 0;
    struct sl_str origin =
        sl_http1_field(call->request, SL_STR("origin"), &count);
    struct sl_str rest = page_of(call) ? page_of(call)->origins : SL_STR("");

    sl_http_field(call, SL_STR("Vary"), SL_STR("Origin"));
    while (count == 1 && rest.len > 0) {
        struct sl_str one = sl_admin_cut(&rest, ',');

        if (!sl_str_eq(one, origin))
            continue;
        sl_http_field(call, SL_STR("Access-Control-Allow-Origin"), one);
        sl_http_field(call, SL_STR("Access-Control-Expose-Headers"),
                      SL_STR("Retry-After"));
        return true;
    }
    return false;
}

/* A browser asks with OPTIONS whether a page of another origin may send the
 * token. */
static void answer_options(struct sl_http_call *call)
{
    if (allow_origin(call)) {
        sl_http_field(call, SL_STR("Access-Control-Allow-Methods"),
                      SL_STR("GET"));
        sl_http_field(call, SL_STR("Access-Control-Allow-Headers"),
                      SL_STR("Authorization"));
        sl_http_field(call, SL_STR("Access-Control-Max-Age"), SL_STR("600"));
    }
    sl_http_answer(call, 204, SL_STR(""), SL_STR(""));
}

/* Returns false after an answer to another method. */
static bool is_get(struct sl_http_call *call)
{
    struct sl_str method = call->request->method;

    if (sl_str_eq(method, SL_STR("GET")) || sl_str_eq(method, SL_STR("HEAD")))
        return true;
    if (sl_str_eq(method, SL_STR("OPTIONS"))) {
        answer_options(call);
        return false;
    }
    sl_http_field(call, SL_STR("Allow"), SL_STR("GET, HEAD, OPTIONS"));
    return sl_http_refuse(call, 405, "METHOD_NOT_ALLOWED",
                          "%.*s does not support %.*s; it supports GET",
                          SL_STR_ARG(call->path), SL_STR_ARG(method));
}

static struct sl_str token_of(const struct sl_http_call *call)
{
    unsigned count = 0;
    struct sl_str value =
        sl_http1_field(call->request, SL_STR("authorization"), &count);

    return count == 1 ? sl_server_bearer(value) : SL_STR("");
}

static bool refuse_token(struct sl_http_call *call, bool expired)
{
    sl_http_field(call, SL_STR("WWW-Authenticate"),
                  SL_STR("Bearer realm=\"sluice usage\""));
    sl_http_refuse(call, 401, expired ? "TOKEN_EXPIRED" : "UNAUTHORIZED",
                   expired ? "the usage token has expired; ask the application "
                             "for a new one (POST /v1/usage-tokens)"
                           : "missing or wrong usage token; send one of POST "
                             "/v1/usage-tokens as Authorization: Bearer TOKEN");
    return true;
}

static bool show(struct waiting *wait, const uint8_t *key)
{
    struct sl_http_call *call = wait->call;

    switch (sl_usage_token_read(key, token_of(call), sl_http_now(call),
                                &call->arena, &wait->claims)) {
    case SL_USAGE_TOKEN_GOOD:
        return sl_http_usage_of(call, &wait->claims);
    case SL_USAGE_TOKEN_EXPIRED:
        return refuse_token(call, true);
    case SL_USAGE_TOKEN_WRONG:
        return refuse_token(call, false);
    case SL_USAGE_TOKEN_NO_MEMORY:
        break;
    }
    return !sl_http_no_memory(call);
}

void sl_usage_data(struct sl_http_call *call)
{
    struct waiting *wait;

    if (!is_get(call))
        return;
    sl_http_field(call, SL_STR("Cache-Control"), SL_STR("no-store"));
    (void)allow_origin(call);
    if (!sl_usage_token_has_form(token_of(call))) { /* needs no database */
        (void)refuse_token(call, false);
        return;
    }
    wait = begin(call, show);
    if (wait)
        with_key(wait);
}
