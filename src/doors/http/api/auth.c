/* auth.c -- /v1/auth: a proxy asks for a request that it holds in its hands.
 *
 * What that request is comes from one family of headers, the one that the
 * setting `forward_auth` names; the others are what some client sent. It comes
 * from peers that may speak for others, or not at all:
 *
 *   original    X-Original-Method, X-Original-URI (or -URL)   nginx
 *   forwarded   X-Forwarded-Method, X-Forwarded-Uri, -Host    Traefik, Caddy
 *   path        its own method and the path behind /v1/auth   Envoy
 *
 * A header of the family, or one that the policy takes an identity from, that
 * comes twice is refused: a proxy that appends where it should replace would
 * let the client's own go first. The same goes for the two names of the URI:
 * a proxy sets one of them, and the other would be the client's.
 */
#include <string.h>

#include "base/digits.h"
#include "doors/http/api/api.h"
#include "engine/forwarded.h"

#define PREFIX "/v1/auth"

#define NAME(text)                                                             \
    {                                                                          \
        "" text, sizeof(text) - 1                                              \
    }

/* Which place of a family's names says what. */
enum { METHOD, URI, URL };

static const struct family {
    struct sl_str names[4];
    bool has_url; /* instead of the URI */
} families[] = {
    [SL_FORWARD_ORIGINAL] = {{NAME("x-original-method"), NAME("x-original-uri"),
                              NAME("x-original-url")},
                             true },
    [SL_FORWARD_FORWARDED] = {{NAME("x-forwarded-method"),
                               NAME("x-forwarded-uri"),
                               NAME("x-forwarded-host"),
                               NAME("x-forwarded-proto")},
                             false},
};

#define MEMBERS SL_LEN(families[0].names)

/* Which of the family's names it is; MEMBERS if none. */
static size_t find_member(const struct family *family, struct sl_str name)
{
    size_t i = 0;

    while (i < MEMBERS && (family->names[i].len == 0 ||
                           !sl_str_eq_nocase(name, family->names[i])))
        i++;
    return i;
}

static bool is_twice(const struct sl_http_call *call, struct sl_str name)
{
    unsigned count = 0;

    (void)sl_http1_field(call->request, name, &count);
    return count > 1;
}

static bool refuse_twice(struct sl_http_call *call, struct sl_str name)
{
    sl_http_refuse(
        call, 400, "HEADER_TWICE",
        "the header %.*s is sent twice, so it is not clear which one the proxy "
        "set; let the proxy replace the client's header",
        SL_STR_ARG(name));
    return false;
}

/* ---- the original request ---- */

/* The family's values, each at the place of its name. */
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

/* A proxy sends the one or the other. If both are there one is the client's,
 * and his would be believed where the proxy does not know of it. A denial, not
 * 400: a client can bring it about, and there are proxies that let pass what
 * they were not answered by yes or no. */
static bool refuse_both(struct sl_http_call *call, const struct family *family)
{
    sl_http_refuse(
        call, 403, "TWO_URIS",
        "both %.*s and %.*s are sent, so one of them may come from the client; "
        "let the proxy remove the header that it does not set",
        SL_STR_ARG(family->names[URI]), SL_STR_ARG(family->names[URL]));
    return false;
}

static bool refuse_stranger(struct sl_http_call *call)
{
    char ip[SL_IP_TEXT] = "it";

    if (call->has_peer)
        sl_ip_print(&call->peer, ip);
    sl_http_refuse(call, 403, "UNTRUSTED_PEER",
                   "%s is not a trusted proxy; if it is your proxy, add it to "
                   "identity: trusted_proxies in the policy",
                   ip);
    return false;
}

static bool from_headers(struct sl_http_call *call, const struct family *family,
                         struct sl_facts *facts)
{
    struct sl_str values[MEMBERS];

    if (!call->trusted)
        return refuse_stranger(call);
    if (!read_family(call, family, values))
        return false;
    if (family->has_url && values[URI].len > 0 && values[URL].len > 0)
        return refuse_both(call, family);
    facts->path = values[URI];
    if (family->has_url && values[URI].len == 0)
        facts->path = values[URL];
    if (facts->path.len == 0) {
        sl_http_refuse(call, 400, "NO_ORIGINAL_URI",
                       "the header %.*s is missing; with this forward_auth "
                       "setting the proxy must send it",
                       SL_STR_ARG(family->names[URI]));
        return false;
    }
    facts->method = values[METHOD];
    if (facts->method.len == 0)
        facts->method = call->request->method;
    return true;
}

static void from_path(const struct sl_http_call *call, struct sl_facts *facts)
{
    facts->method = call->request->method;
    facts->path = sl_str_from(call->path, strlen(PREFIX));
    if (facts->path.len == 0)
        facts->path = SL_STR("/");
}

/* ---- headers and address ---- */

/* What the client may be known by: all but what is meant for us, and names
 * with an underscore, which many servers take for a hyphen. */
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

static bool copy_headers(struct sl_http_call *call, const struct family *family,
                         struct sl_facts *facts)
{
    const struct sl_http1 *request = call->request;
    struct sl_header *list = sl_arena_take(
        &call->arena, (request->field_count + 1) * sizeof(struct sl_header));
    unsigned count = 0;

    if (!list) {
        sl_http_no_memory(call);
        return false;
    }
    for (unsigned i = 0; i < request->field_count; i++)
        if (is_kept(call, family, request->fields[i].name))
            list[count++] = (struct sl_header){request->fields[i].name,
                                               request->fields[i].value};
    facts->headers = list;
    facts->header_count = count;
    facts->trusted = call->trusted;
    return true;
}

static bool check_sources(struct sl_http_call *call,
                          const struct sl_sources *sources)
{
    for (unsigned i = 0; i < sources->count; i++)
        if (sources->list[i].kind == SL_SOURCE_HEADER &&
            is_twice(call, sources->list[i].name))
            return refuse_twice(call, sources->list[i].name);
    return true;
}

/* Headers that say who it is come once. From strangers none is believed. */
static bool check_identity(struct sl_http_call *call)
{
    const struct sl_identity *identity = &call->ask.live->policy->identity;

    if (!call->trusted)
        return true;
    for (unsigned i = 0; i < identity->scope_count; i++)
        if (!check_sources(call, &identity->scopes[i]))
            return false;
    return check_sources(call, &identity->plan) &&
           check_sources(call, &identity->role);
}

static bool find_client(struct sl_http_call *call, struct sl_facts *facts)
{
    struct sl_peer peer = {call->peer, call->has_peer, call->peer_is_unix};
    char *text = sl_arena_take(&call->arena, SL_IP_TEXT);
    struct sl_ip ip;

    if (!text) {
        sl_http_no_memory(call);
        return false;
    }
    if (sl_forwarded_client(&call->ask.live->policy->identity, &peer,
                            facts->headers, facts->header_count, &ip))
        facts->ip = (struct sl_str){text, sl_ip_print(&ip, text)};
    return true;
}

/* ---- the answer ---- */

/* Three digits that live as long as the answer. */
static struct sl_str status_text(struct sl_http_call *call, int status)
{
    char *text = sl_arena_take(&call->arena, SL_DIGITS);

    if (!text)
        return (struct sl_str){"", 0};
    return (struct sl_str){text, sl_digits((uint64_t)status, text)};
}

/* Does it say already how a caller makes himself known? */
static bool is_challenge(const struct sl_rendered *rendered)
{
    for (unsigned i = 0; i < rendered->header_count; i++)
        if (sl_str_eq_nocase(rendered->headers[i].name,
                             SL_STR("www-authenticate")))
            return true;
    return false;
}

static void answer(struct sl_http_call *call,
                   const struct sl_rendered *rendered, int deny_status)
{
    const struct sl_decision *d = &call->ask.decision;
    int status = deny_status ? deny_status : rendered->status;

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
    if (status == 401 && !is_challenge(rendered))
        sl_http_field(call, SL_STR("WWW-Authenticate"), SL_STR("Bearer"));
}

static bool read_request(struct sl_http_call *call, const struct family *family,
                         struct sl_facts *facts,
                         struct sl_auth_options *options)
{
    *options = (struct sl_auth_options){.cost = 0};
    if (call->worker->door->forward == SL_FORWARD_PATH)
        from_path(call, facts); /* and its query is the client's */
    else if (!from_headers(call, family, facts) ||
             !sl_auth_options_read(call, facts->path, options))
        return false;
    return check_identity(call) && copy_headers(call, family, facts);
}

/* What is kept until the decision is there. */
struct asked {
    struct sl_http_call *call;
    struct sl_facts facts;
    struct sl_auth_options options;
};

static void on_decided(struct sl_ask *ask)
{
    const struct asked *asked = ask->ctx;
    struct sl_rendered rendered;

    if (sl_http_decided(asked->call, &rendered))
        answer(asked->call, &rendered, asked->options.deny_status);
    sl_http_finish(asked->call);
}

static void ask_for(struct sl_http_call *call, enum sl_forward forward)
{
    static const struct family none;
    const struct family *family =
        forward == SL_FORWARD_PATH ? &none : &families[forward];
    struct asked *asked = sl_arena_take(&call->arena, sizeof(*asked));

    if (!asked) {
        sl_http_no_memory(call);
        return;
    }
    *asked = (struct asked){.call = call, .facts.now = sl_http_now(call)};
    if (!read_request(call, family, &asked->facts, &asked->options) ||
        !find_client(call, &asked->facts))
        return;
    asked->facts.body = call->request->body;
    asked->facts.has_body = call->request->body.len > 0;
    asked->facts.has_cost = asked->options.has_cost;
    asked->facts.cost = asked->options.cost;
    sl_http_later(call);
    sl_http_ask(call, &asked->facts, true, on_decided, asked);
}

void sl_http_auth(struct sl_http_call *call)
{
    enum sl_forward forward = call->worker->door->forward;

    if (forward != SL_FORWARD_PATH && call->path.len > strlen(PREFIX))
        sl_http_refuse(call, 404, "NOT_FOUND",
                       "no path is served below " PREFIX
                       " unless forward_auth is `path`");
    else
        ask_for(call, forward);
}
