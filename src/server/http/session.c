/* session.c -- /v1/session: browsers exchange a token for a cookie.
 *
 *     POST {"token":"..."}  -->  Set-Cookie: sluice_session=END.ACCESS.MAC
 *
 * A page must not keep the token: a script could read it. The cookie is
 * HttpOnly and SameSite=Strict, is valid for an hour, and is renewed while the
 * console is open. Nothing is stored: the MAC (SipHash with a key of this
 * process) covers the end, the access and the token. So a restart or another
 * token ends all sessions.
 *
 * A cookie is sent without the page's doing. A change must therefore have the
 * session's other half in X-Sluice-CSRF, which only a page of this listener can
 * read, in addition to the Origin that sl_admin_admit() compares.
 *
 * The read-only token, and a session that began with it, may GET and nothing
 * else.
 */
#include <inttypes.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>

#include "base/parse.h"
#include "engine/request.h"
#include "server/http/http_int.h"

#define COOKIE   "sluice_session"
#define LIFETIME (3600 * SL_S)
#define MAC      32 /* hexadecimal digits */
#define SESSION  64 /* END.ACCESS.MAC and its NUL */

/* ---- the MAC ---- */

static bool equal(struct sl_str a, struct sl_str b)
{
    return a.len == b.len && a.len > 0 && CRYPTO_memcmp(a.at, b.at, a.len) == 0;
}

/* The MAC of `text` for `purpose`, and of the token of this access. */
static bool make_mac(const struct sl_http_call *call, const char *purpose,
                     struct sl_str text, bool read_only, char out[MAC + 1])
{
    const struct sl_server_worker *worker = call->worker;
    const struct sl_server *server = worker->server;
    struct sl_str token = read_only ? server->read_token : server->token;
    struct sl_hash128 hash;
    struct sl_buf message;
    bool made;

    sl_buf_init(&message, 4096 + token.len, worker->alloc);
    made = token.len > 0 &&
           !sl_buf_addf(&message, "%s\n%.*s\n", purpose, SL_STR_ARG(text)) &&
           !sl_buf_add(&message, token);
    if (made) {
        hash = sl_hash128(&worker->token_key, sl_buf_str(&message));
        snprintf(out, MAC + 1, "%016" PRIx64 "%016" PRIx64, hash.lo, hash.hi);
    }
    sl_buf_done(&message);
    return made;
}

/* ---- the cookie of a request ---- */

static struct sl_str find_cookie(const struct sl_http_call *call)
{
    struct sl_str rest = sl_http1_field(call->request, SL_STR("cookie"), NULL);

    while (rest.len > 0) {
        struct sl_str value = sl_str_trim(sl_admin_cut(&rest, ';'));
        struct sl_str name = sl_admin_cut(&value, '=');

        if (sl_str_eq(name, SL_STR(COOKIE)))
            return value;
    }
    return (struct sl_str){"", 0};
}

/* Is it a session of this process that has not ended? */
static bool check_session(const struct sl_http_call *call,
                          struct sl_str session, bool *read_only)
{
    struct sl_str rest = session;
    struct sl_str end = sl_admin_cut(&rest, '.');
    struct sl_str access = sl_admin_cut(&rest, '.');
    struct sl_str signed_part = {session.at, end.len + 1 + access.len};
    char mac[MAC + 1];
    uint64_t second;

    *read_only = sl_str_eq(access, SL_STR("r"));
    return rest.len == MAC && !sl_parse_number(end, &second, NULL) &&
           second < SL_TIME_END / SL_S &&
           (sl_ns)second * SL_S > sl_http_now(call) &&
           make_mac(call, "session", signed_part, *read_only, mac) &&
           equal(rest, sl_str_c(mac));
}

static bool is_reading(const struct sl_http_call *call)
{
    return sl_str_eq(call->request->method, SL_STR("GET")) ||
           sl_str_eq(call->request->method, SL_STR("HEAD"));
}

static bool has_csrf(const struct sl_http_call *call, struct sl_str session,
                     bool read_only)
{
    char mac[MAC + 1];

    return make_mac(call, "csrf", session, read_only, mac) &&
           equal(sl_http1_field(call->request, SL_STR("x-sluice-csrf"), NULL),
                 sl_str_c(mac));
}

enum sl_http_session sl_http_session(const struct sl_http_call *call)
{
    struct sl_str session = find_cookie(call);
    bool read_only;

    if (session.len == 0 || !check_session(call, session, &read_only))
        return SL_SESSION_NONE;
    if (is_reading(call))
        return SL_SESSION_GOOD;
    if (read_only)
        return SL_SESSION_READ_ONLY;
    return has_csrf(call, session, read_only) ? SL_SESSION_GOOD
                                              : SL_SESSION_NO_CSRF;
}

/* ---- answers ---- */

static bool add_cookie(struct sl_http_call *call, const char *value,
                       unsigned seconds)
{
    char *text = sl_arena_take(&call->arena, 256);
    const char *secure = call->worker->tls ? "; Secure" : "";
    int len;

    if (!text)
        return sl_http_no_memory(call);
    len = snprintf(text, 256,
                   COOKIE "=%s; Path=/; Max-Age=%u; HttpOnly; SameSite=Strict"
                          "%s",
                   value, seconds, secure);
    sl_http_field(call, SL_STR("Set-Cookie"),
                  (struct sl_str){text, (size_t)len});
    return true;
}

/* {"needs_token":true,"signed_in":true,"read_only":false,"csrf":"..."} */
static void describe(struct sl_http_call *call, bool signed_in, bool read_only,
                     const char *csrf)
{
    struct sl_writer w = {.out = &call->text};

    sl_writer_add(&w, SL_STR("{\"needs_token\":"));
    sl_json_flag(&w, call->worker->server->token.len > 0);
    sl_json_key(&w, SL_STR("signed_in"));
    sl_json_flag(&w, signed_in);
    sl_json_key(&w, SL_STR("read_only"));
    sl_json_flag(&w, read_only);
    if (csrf)
        sl_json_member_text(&w, "csrf", csrf);
    sl_json_member_text(&w, "version", SLUICE_VERSION);
    sl_json_close(&w, '}');
    sl_admin_answer_json(call, w.err);
}

/* Begin a session, or renew one. */
static void begin(struct sl_http_call *call, bool read_only)
{
    char session[SESSION], mac[MAC + 1], csrf[MAC + 1];
    int len =
        snprintf(session, sizeof(session), "%" PRId64 ".%s",
                 (sl_http_now(call) + LIFETIME) / SL_S, read_only ? "r" : "w");

    if (!make_mac(call, "session", (struct sl_str){session, (size_t)len},
                  read_only, mac)) {
        sl_http_no_memory(call);
        return;
    }
    snprintf(session + len, sizeof(session) - (size_t)len, ".%s", mac);
    if (!make_mac(call, "csrf", sl_str_c(session), read_only, csrf)) {
        sl_http_no_memory(call);
        return;
    }
    if (add_cookie(call, session, (unsigned)(LIFETIME / SL_S)))
        describe(call, true, read_only, csrf);
}

void sl_session_get(struct sl_http_call *call)
{
    struct sl_str session = find_cookie(call);
    bool read_only = false;

    if (call->worker->server->token.len == 0)
        describe(call, true, false, NULL);
    else if (session.len > 0 && check_session(call, session, &read_only))
        begin(call, read_only);
    else
        describe(call, false, false, NULL);
}

void sl_session_post(struct sl_http_call *call)
{
    const struct sl_server *server = call->worker->server;
    struct sl_str token;

    if (!sl_admin_admit(call) ||
        !sl_admin_member(call, "token", sl_json_body_text,
                         "{\"token\":\"TOKEN\"}", &token))
        return;
    if (server->token.len == 0)
        describe(call, true, false, NULL);
    else if (sl_server_token_ok(call->worker, token))
        begin(call, false);
    else if (sl_server_read_token_ok(call->worker, token))
        begin(call, true);
    else
        sl_http_refuse(call, 401, "UNAUTHORIZED",
                       "this is neither admin_token nor admin_read_token");
}

void sl_session_delete(struct sl_http_call *call)
{
    if (sl_admin_admit(call) && add_cookie(call, "", 0))
        describe(call, call->worker->server->token.len == 0, false, NULL);
}
