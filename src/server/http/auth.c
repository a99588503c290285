/* auth.c -- /v1/auth: a proxy asks about a request; and /v1/deny.
 *
 * The setting `forward_auth` names the family of headers that describe the
 * request. Headers of other families come from clients and are not used. Only
 * trusted peers may send them:
 *
 *   original    X-Original-Method, X-Original-URI (or -URL),
 *               X-Original-Content-Length                     nginx
 *   forwarded   X-Forwarded-Method, X-Forwarded-Uri, -Host,
 *               X-Forwarded-Content-Length                    Traefik, Caddy
 *   path        its own method and the path behind /v1/auth   Envoy
 *
 * A repeated header of the family, or a repeated identity header of the policy,
 * is refused: one of them may come from the client. The same is true if both
 * names of the URI are sent.
 */
#include <stdio.h>
#include <string.h>

#include "base/parse.h"
#include "base/str.h"
#include "engine/request.h"
#include "server/http/http_int.h"

#define PREFIX "/v1/auth"

#define NAME(text)                                                             \
    {                                                                          \
        "" text, sizeof(text) - 1                                              \
    }

/* Indices of a family's names. */
enum { METHOD, URI, LENGTH, URL };

static const struct family {
    struct sl_str names[5];
    bool has_url; /* instead of the URI */
} families[] = {
    [SL_FORWARD_ORIGINAL] = {{NAME("x-original-method"), NAME("x-original-uri"),
                              NAME("x-original-content-length"),
                              NAME("x-original-url")},
                             true },
    [SL_FORWARD_FORWARDED] = {{NAME("x-forwarded-method"),
                               NAME("x-forwarded-uri"),
                               NAME("x-forwarded-content-length"),
                               NAME("x-forwarded-host"),
                               NAME("x-forwarded-proto")},
                             false},
};

#define MEMBERS SL_LEN(families[0].names)

/* The options in the query of /v1/auth. */
struct auth_options {
    bool has_cost;
    uint64_t cost;
    int deny_status; /* 0: the status of the verdict */
    bool body;       /* the body of a denial is in a header, too */
};

/* Returns the index of the name in the family, or MEMBERS. */
static size_t find_member(const struct family *family, struct sl_str name)
{
    size_t i = 0;

    while (i < MEMBERS && (family->names[i].len == 0 ||
                           !sl_str_eq_nocase(name, family->names[i])))
        i++;
    return i;
}

static bool refuse_twice(struct sl_http_call *call, struct sl_str name)
{
    return sl_http_refuse(
        call, 400, "HEADER_TWICE",
        "the header %.*s is sent twice, so it is not clear which one the proxy "
        "set; let the proxy replace the client's header",
        SL_STR_ARG(name));
}

/* ---- the original request ---- */

/* Read the values of the family, each at the index of its name. */
static bool read_family(struct sl_http_call *call, const struct family *family,
                        struct sl_str values[MEMBERS])
{
    const struct sl_http1 *request = call->request;

    memset(values, 0, MEMBERS * sizeof(values[0]));
    for (unsigned i = 0; i < request->field_count; i++) {
        size_t member = find_member(family, request->fields[i].name);

        if (member == MEMBERS)
            continue;
        if (values[member].at)
            return refuse_twice(call, family->names[member]);
        values[member] = request->fields[i].value;
    }
    return true;
}

/* A proxy sends one of the two, so the other comes from the client. The answer
 * is a denial and not 400: a client can cause it, and some proxies let a
 * request pass after a 400. */
static bool refuse_both(struct sl_http_call *call, const struct family *family)
{
    return sl_http_refuse(
        call, 403, "TWO_URIS",
        "both %.*s and %.*s are sent, so one of them may come from the client; "
        "let the proxy remove the header that it does not set",
        SL_STR_ARG(family->names[URI]), SL_STR_ARG(family->names[URL]));
}

static bool refuse_untrusted(struct sl_http_call *call)
{
    char ip[SL_IP_TEXT] = "it";

    if (call->has_peer)
        sl_ip_print(&call->peer, ip);
    return sl_http_refuse(
        call, 403, "UNTRUSTED_PEER",
        "%s is not a trusted proxy; if it is your proxy, add it to "
        "identity: trusted_proxies in the policy",
        ip);
}

/* *length is that of the client's body, or empty. */
static bool from_headers(struct sl_http_call *call, const struct family *family,
                         struct sl_request *req, struct sl_str *length)
{
    struct sl_str values[MEMBERS];

    if (!call->trusted)
        return refuse_untrusted(call);
    if (!read_family(call, family, values))
        return false;
    if (family->has_url && values[URI].len > 0 && values[URL].len > 0)
        return refuse_both(call, family);
    req->path = values[URI];
    if (family->has_url && values[URI].len == 0)
        req->path = values[URL];
    if (req->path.len == 0)
        return sl_http_refuse(
            call, 400, "NO_ORIGINAL_URI",
            "the header %.*s is missing; with this forward_auth "
            "setting the proxy must send it",
            SL_STR_ARG(family->names[URI]));
    req->method = values[METHOD];
    if (req->method.len == 0)
        req->method = call->request->method;
    *length = values[LENGTH];
    return true;
}

static void from_path(const struct sl_http_call *call, struct sl_request *req)
{
    req->method = call->request->method;
    req->path = sl_str_from(call->path, strlen(PREFIX));
    if (req->path.len == 0)
        req->path = SL_STR("/");
}

/* ---- the query of /v1/auth: ?deny_status=403&cost=5&body=header ----
 *
 * The operator of the proxy writes it. But some proxies append the client's
 * query to our path (Caddy does, unless its `uri` ends in a question mark). A
 * parameter in both queries may come from the client, and clients must not
 * choose the cost:
 *
 *   - an option that is also in the original request, with the same value, is
 *     refused;
 *   - another parameter that is also in the original request is ignored;
 *   - any other unknown parameter is refused as a mistake of the operator.
 *
 * Each lookup is O(client's query), which may have thousands of parameters. So
 * only options and the first few other parameters are looked up. Names and
 * values are compared after decoding, because a proxy may encode them again.
 */

/* The number of other parameters that are looked up in the client's query. */
#define FOREIGN_MOST 16

struct pair {
    struct sl_str name, value; /* encoded */
};

/* Cut the first pair off a query. */
static bool cut_pair(struct sl_str *query, struct pair *ret)
{
    size_t len = 0, mark;

    if (query->len == 0)
        return false;
    while (len < query->len && query->at[len] != '&' && query->at[len] != ';')
        len++;
    for (mark = 0; mark < len && query->at[mark] != '=';)
        mark++;
    ret->name = (struct sl_str){query->at, mark};
    ret->value = (struct sl_str){query->at + mark, len - mark};
    ret->value = sl_str_from(ret->value, 1);
    *query = sl_str_from(*query, len + 1);
    return true;
}

/* Decode the next byte of a text. Returns -1 at its end. */
static int next_byte(struct sl_str *text)
{
    int byte, high, low;

    if (text->len == 0)
        return -1;
    byte = (unsigned char)text->at[0];
    if (byte == '+')
        byte = ' ';
    if (byte == '%' && text->len > 2) {
        high = sl_hex_value(text->at[1]);
        low = sl_hex_value(text->at[2]);
        if (high >= 0 && low >= 0) {
            byte = high << 4 | low;
            *text = sl_str_from(*text, 2);
        }
    }
    *text = sl_str_from(*text, 1);
    return byte;
}

static bool is_same(struct sl_str a, struct sl_str b)
{
    int x, y;

    do {
        x = next_byte(&a);
        y = next_byte(&b);
    } while (x == y && x >= 0);
    return x == y;
}

/* Does the original request have the same parameter? */
static bool is_shared(const struct pair *pair, struct sl_str uri)
{
    const char *mark = uri.len > 0 ? memchr(uri.at, '?', uri.len) : NULL;
    struct sl_str query;
    struct pair other;

    if (!mark)
        return false;
    query = sl_str_from(uri, (size_t)(mark - uri.at) + 1);
    while (cut_pair(&query, &other))
        if (is_same(pair->name, other.name) &&
            is_same(pair->value, other.value))
            return true;
    return false;
}

/* ---- options ---- */

static bool refuse(struct sl_http_call *call, const struct pair *pair,
                   const char *what)
{
    return sl_http_refuse(call, 400, "BAD_QUERY", "\"%.*s=%.*s\" %s",
                          SL_STR_ARG(pair->name), SL_STR_ARG(pair->value),
                          what);
}

static bool read_status(struct sl_http_call *call, const struct pair *pair,
                        struct auth_options *ret)
{
    static const int may[] = {401, 403, 429, 503};
    uint64_t status;

    if (ret->deny_status)
        return refuse(call, pair, "is given twice");
    if (!sl_parse_number(pair->value, &status, NULL))
        for (size_t i = 0; i < SL_LEN(may); i++)
            if (status == (uint64_t)may[i])
                ret->deny_status = may[i];
    return ret->deny_status ||
           refuse(call, pair, "must be one of 401, 403, 429 and 503");
}

static bool read_cost(struct sl_http_call *call, const struct pair *pair,
                      struct auth_options *ret)
{
    if (ret->has_cost)
        return refuse(call, pair, "is given twice");
    ret->has_cost = true;
    return (!sl_parse_number(pair->value, &ret->cost, NULL) &&
            ret->cost <= SL_JSON_MAX) ||
           refuse(call, pair,
                  "must be a whole number from 0 to 9007199254740991");
}

static bool read_place(struct sl_http_call *call, const struct pair *pair,
                       struct auth_options *ret)
{
    if (ret->body)
        return refuse(call, pair, "is given twice");
    ret->body = is_same(pair->value, SL_STR("header"));
    return ret->body || refuse(call, pair, "must be `header`");
}

static const struct option {
    const char *name;
    bool (*read)(struct sl_http_call *call, const struct pair *pair,
                 struct auth_options *ret);
} all_options[] = {
    {"deny_status", read_status},
    {"cost",        read_cost  },
    {"body",        read_place },
};

/* Returns the option of that name, or NULL. */
static const struct option *find_option(struct sl_str name)
{
    for (size_t i = 0; i < SL_LEN(all_options); i++)
        if (is_same(name, sl_str_c(all_options[i].name)))
            return &all_options[i];
    return NULL;
}

static bool refuse_unknown(struct sl_http_call *call, struct sl_str name)
{
    const char *names[SL_LEN(all_options)];

    for (size_t i = 0; i < SL_LEN(names); i++)
        names[i] = all_options[i].name;
    return sl_http_refuse(call, 400, "BAD_QUERY",
                          "unknown option \"%.*s\" of /v1/auth%s",
                          SL_STR_ARG(name),
                          sl_hint_of(sl_str_nearest(name, names, SL_LEN(names)),
                                     "; valid are deny_status, cost and body")
                              .text);
}

static bool read_options(struct sl_http_call *call, struct sl_str uri,
                         struct auth_options *ret)
{
    struct sl_str query = call->query;
    unsigned foreign = 0;
    struct pair pair;

    *ret = (struct auth_options){.cost = 0};
    while (cut_pair(&query, &pair)) {
        const struct option *option = find_option(pair.name);
        bool shared;

        if (!option && (pair.name.len == 0 || foreign++ >= FOREIGN_MOST))
            continue;
        shared = is_shared(&pair, uri);
        if (option && shared)
            return refuse(call, &pair,
                          "is in the client's query as well, so its source is "
                          "not clear; let the proxy send only its own query");
        if (option && !option->read(call, &pair, ret))
            return false;
        if (!option && !shared)
            return refuse_unknown(call, pair.name);
    }
    return true;
}

/* ---- headers and address ---- */

/* Is the header passed on as a header of the client? Not our own headers, and
 * no names with an underscore, which many servers treat as a hyphen. */
static bool is_kept(const struct sl_http_call *call,
                    const struct family *family, struct sl_str name)
{
    static const struct sl_str ours = {"x-sluice-", 9};

    if (memchr(name.at, '_', name.len) || find_member(family, name) < MEMBERS)
        return false;
    if (name.len > ours.len &&
        sl_str_eq_nocase((struct sl_str){name.at, ours.len}, ours))
        return false;
    return !call->token_in_authorize ||
           !sl_str_eq_nocase(name, SL_STR("authorization"));
}

/* Is it about the body of the subrequest? A proxy that sends none says so, and
 * that is not the client's. */
static bool is_framing(struct sl_str name)
{
    return sl_str_eq_nocase(name, SL_STR("content-length")) ||
           sl_str_eq_nocase(name, SL_STR("transfer-encoding"));
}

static bool copy_headers(struct sl_http_call *call, const struct family *family,
                         struct sl_str length, struct sl_request *req)
{
    const struct sl_http1 *request = call->request;
    struct sl_header *list = sl_arena_take(
        &call->arena, (request->field_count + 1) * sizeof(struct sl_header));
    bool bodiless = length.len > 0 || request->body.len == 0;
    unsigned count = 0;

    if (!list)
        return sl_http_no_memory(call);
    if (length.len > 0)
        list[count++] = (struct sl_header){SL_STR("content-length"), length};
    for (unsigned i = 0; i < request->field_count; i++)
        if (is_kept(call, family, request->fields[i].name) &&
            !(bodiless && is_framing(request->fields[i].name)))
            list[count++] = (struct sl_header){request->fields[i].name,
                                               request->fields[i].value};
    req->headers = list;
    req->header_count = count;
    req->trusted = call->trusted;
    return true;
}

static bool check_sources(struct sl_http_call *call,
                          const struct sl_sources *sources)
{
    for (unsigned i = 0; i < sources->count; i++) {
        unsigned count = 0;

        if (sources->list[i].kind == SL_SOURCE_HEADER)
            (void)sl_http1_field(call->request, sources->list[i].name, &count);
        if (count > 1)
            return refuse_twice(call, sources->list[i].name);
    }
    return true;
}

/* Refuse repeated identity headers. Untrusted peers have none. */
static bool check_identity(struct sl_http_call *call)
{
    const struct sl_identity *identity = &call->check.active->policy->identity;

    if (!call->trusted)
        return true;
    for (unsigned i = 0; i < identity->scope_count; i++)
        if (!check_sources(call, &identity->scopes[i]))
            return false;
    return check_sources(call, &identity->plan) &&
           check_sources(call, &identity->role);
}

static bool find_client(struct sl_http_call *call, struct sl_request *req)
{
    struct sl_peer peer = {.ip = call->peer,
                           .has_ip = call->has_peer,
                           .is_unix = call->peer_is_unix};
    char *text = sl_arena_take(&call->arena, SL_IP_TEXT);
    struct sl_ip ip;

    if (!text)
        return sl_http_no_memory(call);
    if (sl_forwarded_client(&call->check.active->policy->identity, &peer,
                            req->headers, req->header_count, &ip))
        req->ip = (struct sl_str){text, sl_ip_print(&ip, text)};
    return true;
}

/* ---- the answer ---- */

/* Returns the status as text in the arena. */
static struct sl_str status_text(struct sl_http_call *call, int status)
{
    char *text = sl_arena_take(&call->arena, SL_DIGITS);

    return (struct sl_str){text ? text : "",
                           text ? sl_digits((uint64_t)status, text) : 0};
}

/* Does the answer have a WWW-Authenticate header? */
static bool is_challenge(const struct sl_rendered *rendered)
{
    for (unsigned i = 0; i < rendered->header_count; i++)
        if (sl_str_eq_nocase(rendered->headers[i].name,
                             SL_STR("www-authenticate")))
            return true;
    return false;
}

/* The largest header with a body. Proxies have small buffers for headers. */
#define BODY_LETTERS ((size_t)8 << 10)

/* Put the body into headers, for /v1/deny. A larger one is left out. */
static void add_body(struct sl_http_call *call,
                     const struct sl_rendered *rendered)
{
    size_t len = SL_BASE64_LETTERS(rendered->body.len);
    char *text = NULL;

    if (len > 0 && len <= BODY_LETTERS)
        text = sl_arena_take(&call->arena, len);
    if (!text)
        return;
    sl_base64_encode(rendered->body, text);
    sl_http_field(call, SL_STR("X-Sluice-Type"), rendered->content_type);
    sl_http_field(call, SL_STR("X-Sluice-Body"), (struct sl_str){text, len});
}

static void answer(struct sl_http_call *call,
                   const struct sl_rendered *rendered,
                   const struct auth_options *options)
{
    const struct sl_decision *d = &call->check.decision;
    int status = options->deny_status ? options->deny_status : rendered->status;

    if (d->allowed) {
        sl_http_show(call, 200, rendered);
        return;
    }
    sl_http_show(call, status, rendered);
    sl_http_field(call, SL_STR("X-Sluice-Decision"), SL_STR("deny"));
    sl_http_field(call, SL_STR("X-Sluice-Status"),
                  status_text(call, rendered->status));
    if (d->code.len > 0)
        sl_http_field(call, SL_STR("X-Sluice-Code"), d->code);
    if (options->body)
        add_body(call, rendered);
    if ((status == 401 || (rendered->status == 401 && options->body)) &&
        !is_challenge(rendered))
        sl_http_field(call, SL_STR("WWW-Authenticate"), SL_STR("Bearer"));
}

static bool read_request(struct sl_http_call *call, const struct family *family,
                         struct sl_request *req, struct auth_options *options)
{
    struct sl_str length = {"", 0};

    *options = (struct auth_options){.cost = 0};
    if (call->worker->server->forward == SL_FORWARD_PATH)
        from_path(call, req); /* its query belongs to the client */
    else if (!from_headers(call, family, req, &length) ||
             !read_options(call, req->path, options))
        return false;
    return check_identity(call) && copy_headers(call, family, length, req);
}

/* Kept until the decision. */
struct asked {
    struct sl_http_call *call;
    struct sl_request req;
    struct auth_options options;
};

static void on_decided(struct sl_check *check)
{
    const struct asked *asked = check->ctx;
    struct sl_rendered rendered;

    if (sl_http_decided(asked->call, &rendered))
        answer(asked->call, &rendered, &asked->options);
    sl_http_resume_finish(asked->call);
}

static void ask_for(struct sl_http_call *call, enum sl_forward forward)
{
    static const struct family none;
    const struct family *family =
        forward == SL_FORWARD_PATH ? &none : &families[forward];
    struct asked *asked = sl_http_new(call, sizeof(*asked));

    if (!asked)
        return;
    asked->call = call;
    asked->req.now = sl_http_now(call);
    if (!read_request(call, family, &asked->req, &asked->options) ||
        !find_client(call, &asked->req))
        return;
    asked->req.body = call->request->body;
    asked->req.has_body = call->request->body.len > 0;
    asked->req.has_cost = asked->options.has_cost;
    asked->req.cost = asked->options.cost;
    sl_http_suspend(call);
    if (sl_http_ask(call, &asked->req, true, on_decided, asked))
        on_decided(&call->check);
}

void sl_http_auth(struct sl_http_call *call)
{
    enum sl_forward forward = call->worker->server->forward;

    if (forward != SL_FORWARD_PATH && call->path.len > strlen(PREFIX))
        sl_http_refuse(call, 404, "NOT_FOUND",
                       "no path is served below " PREFIX
                       " unless forward_auth is `path`");
    else
        ask_for(call, forward);
}

/* ---- GET /v1/deny: the answer to a denied request, from its headers ----
 *
 * nginx drops the body of a denied sub-request and keeps its headers in
 * variables. Its error page sends them here as X-Sluice-... and gets a complete
 * answer for the client, with the body of the verdict if that was put into a
 * header (?body=header). Nothing is checked or spent. Invalid values are left
 * out.
 */

#define VALUE_MAX 1024 /* bytes of a copied field */

/* ---- the fields of the request ---- */

static bool is_number(struct sl_str value)
{
    uint64_t number;

    return value.len <= 15 && !sl_parse_number(value, &number, NULL);
}

static bool is_line(struct sl_str value)
{
    for (size_t i = 0; i < value.len; i++)
        if (value.at[i] < ' ' || value.at[i] > '~')
            return false;
    return value.len > 0 && value.len <= VALUE_MAX;
}

static bool is_id(struct sl_str value)
{
    for (size_t i = 0; i < value.len; i++)
        if (strchr(" \"\\<>", value.at[i]))
            return false;
    return value.len <= SL_REQUEST_ID && is_line(value);
}

/* Is it a valid code of a policy? */
static bool is_code(struct sl_str value)
{
    for (size_t i = 0; i < value.len; i++) {
        char c = value.at[i], small = (char)(c | 0x20);

        if ((small < 'a' || small > 'z') && (c < '0' || c > '9') && c != '_' &&
            c != '.' && c != '-')
            return false;
    }
    return value.len > 0 && value.len <= 64;
}

static bool is_type(struct sl_str value)
{
    return sl_str_eq(value, SL_STR("application/json")) ||
           sl_str_eq(value, SL_STR("application/problem+json"));
}

static bool is_body(struct sl_str value)
{
    return value.len > 0 && value.len <= BODY_LETTERS;
}

static const struct told {
    const char *name; /* of the field in the request */
    struct sl_str as; /* of the field in the answer */
    bool (*is_good)(struct sl_str value);
} told[] = {
    {"x-sluice-ratelimit-policy", {"RateLimit-Policy", 16},      is_line  },
    {"x-sluice-ratelimit",        {"RateLimit", 9},              is_line  },
    {"x-sluice-limit",            {"X-RateLimit-Limit", 17},     is_number},
    {"x-sluice-remaining",        {"X-RateLimit-Remaining", 21}, is_number},
    {"x-sluice-reset",            {"X-RateLimit-Reset", 17},     is_number},
    {"x-sluice-quota-remaining",  {"X-Org-Quota-Remaining", 21}, is_number},
    {"x-sluice-retry-after",      {"Retry-After", 11},           is_number},
    {"x-sluice-request-id",       {"X-Request-Id", 12},          is_id    },
    {"x-sluice-degraded",         {"X-Sluice-Degraded", 17},     is_id    },
};

static struct sl_str check(const struct sl_http_call *call, const char *name,
                           bool (*is_good)(struct sl_str value))
{
    unsigned count = 0;
    struct sl_str value = sl_http1_field(call->request, sl_str_c(name), &count);

    return count == 1 && is_good(value) ? value : (struct sl_str){NULL, 0};
}

/* A denial is 4xx or 5xx. */
static int ask_status(const struct sl_http_call *call)
{
    struct sl_str value = check(call, "x-sluice-status", is_number);
    uint64_t status = 429;

    if (value.len != 3 || sl_parse_number(value, &status, NULL) ||
        status < 400 || status > 599 || !*sl_http1_reason((int)status))
        return 429;
    return (int)status;
}

/* ---- the answer ---- */

#define TYPES "https://iana.org/assignments/http-problem-types"

static const struct words {
    int status;
    const char *code, *title, *sentence;
} all_words[] = {
    {429, "RATE_LIMITED",        "Too many requests",   "Too many requests."  },
    {401, "UNAUTHORIZED",        "Unauthorized",        "Please sign in."     },
    {402, "PLAN_LIMIT_EXCEEDED", "Plan limit reached",
     "The limit of the plan is reached."                                      },
    {403, "FORBIDDEN",           "Forbidden",           "This is not allowed."},
    {503, "SERVICE_UNAVAILABLE", "Service unavailable",
     "The service is not available."                                          },
};

static struct words words_of(int status)
{
    for (size_t i = 0; i < SL_LEN(all_words); i++)
        if (all_words[i].status == status)
            return all_words[i];
    return (struct words){status, "DENIED", sl_http1_reason(status) + 4,
                          "The request was denied."};
}

/* Returns the problem type, as in the engine's bodies. */
static const char *type_of(int status)
{
    if (status == 503)
        return TYPES "#temporary-reduced-capacity";
    return status == 429 || status == 402 ? TYPES "#quota-exceeded"
                                          : "about:blank";
}

static int write_body(struct sl_buf *out, const struct words *words,
                      struct sl_str code, struct sl_str retry, struct sl_str id)
{
    struct sl_writer w = {.out = out};

    sl_writer_addf(&w,
                   "{\"type\":\"%s\",\"title\":\"%s\","
                   "\"status\":%d,\"detail\":\"%s",
                   type_of(words->status), words->title, words->status,
                   words->sentence);
    if (retry.len > 0)
        sl_writer_addf(&w, " Please try again in %.*s second%s.",
                       SL_STR_ARG(retry),
                       sl_str_eq(retry, SL_STR("1")) ? "" : "s");
    sl_writer_addf(&w, "\",\"code\":\"%.*s\"", SL_STR_ARG(code));
    if (retry.len > 0)
        sl_writer_addf(&w, ",\"retry_after\":%.*s", SL_STR_ARG(retry));
    if (id.len > 0)
        sl_json_member_str(&w, "request_id", id);
    sl_json_close(&w, '}');
    return w.err;
}

/* Browsers hide fields from scripts unless they are listed here. */
static void add_exposed(struct sl_http_call *call, unsigned count)
{
    char *list = sl_arena_take(&call->arena, 256);
    size_t len = 0;

    if (!list || count == 0)
        return;
    for (unsigned i = 0; i < count; i++)
        len +=
            (size_t)snprintf(list + len, 256 - len, "%s%.*s", i > 0 ? ", " : "",
                             SL_STR_ARG(call->fields[i].name));
    sl_http_field(call, SL_STR("Access-Control-Expose-Headers"),
                  (struct sl_str){list, len});
}

static void add_fields(struct sl_http_call *call)
{
    struct sl_str challenge = check(call, "x-sluice-challenge", is_line);
    unsigned count;

    for (size_t i = 0; i < SL_LEN(told); i++) {
        struct sl_str value = check(call, told[i].name, told[i].is_good);

        if (value.len > 0)
            sl_http_field(call, told[i].as, value);
    }
    count = call->field_count;
    sl_http_field(call, SL_STR("Cache-Control"), SL_STR("no-store"));
    add_exposed(call, count);
    if (challenge.len > 0)
        sl_http_field(call, SL_STR("WWW-Authenticate"), challenge);
}

/* The body of the verdict, if the request has it. */
static bool decode_body(struct sl_http_call *call, struct sl_str *ret)
{
    struct sl_str text = check(call, "x-sluice-body", is_body);
    uint8_t *bytes = NULL;
    size_t len;

    if (text.len > 0)
        bytes = sl_arena_take(&call->arena, SL_BASE64_BYTES(text.len) + 1);
    if (!bytes || !sl_base64_decode(text, bytes, &len))
        return false;
    *ret = (struct sl_str){(const char *)bytes, len};
    return true;
}

static int render_denial(struct sl_http_call *call, int status)
{
    struct words words = words_of(status);
    struct sl_str code = check(call, "x-sluice-code", is_code);

    if (code.len == 0)
        code = sl_str_c(words.code);
    return write_body(&call->text, &words, code,
                      check(call, "x-sluice-retry-after", is_number),
                      check(call, "x-sluice-request-id", is_id));
}

void sl_http_deny(struct sl_http_call *call)
{
    int status = ask_status(call);
    struct sl_str type = check(call, "x-sluice-type", is_type), body;

    if (!call->trusted) {
        sl_http_refuse(call, 403, "UNTRUSTED_PEER",
                       "/v1/deny answers trusted proxies only; add your proxy "
                       "to identity: trusted_proxies in the policy");
        return;
    }
    if (type.len == 0 || !decode_body(call, &body)) {
        if (render_denial(call, status)) {
            sl_http_no_memory(call);
            return;
        }
        type = SL_STR("application/problem+json");
        body = sl_buf_str(&call->text);
    }
    add_fields(call);
    sl_http_answer(call, status, type, body);
}
