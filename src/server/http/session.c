/* session.c -- /v1/session: browsers exchange a token for a cookie.
 *
 *     POST {"token":"..."}  -->  Set-Cookie: NAME=END.BEGIN.NUMBER.ACCESS.MAC
 *
 * A page must not keep the token: a script could read it. The cookie is
 * HttpOnly and SameSite=Strict, is valid for an hour, and is renewed while the
 * console is open, until 12 hours after the sign-in. No session is stored: the
 * MAC (SipHash with a key of this process) covers the end, the sign-in, the
 * access and the token. So a restart or another token ends all sessions, and no
 * other daemon accepts the cookie.
 *
 * NUMBER counts the sign-ins with a token and is kept when a cookie is renewed.
 * DELETE writes it down, and no cookie with it is valid from then on. The list
 * is short. When it is full, its lowest number leaves it, and every session of
 * this token with that number or a lower one has ended. Each token has its own
 * numbers and its own list: the read-only token ends no other sessions.
 *
 * Browsers send cookies to all ports of a host. So NAME has the port of the
 * Host header, "sluice_session_9090", and daemons on one host keep their own.
 *
 * A cookie is sent without the page's doing. A change must therefore have the
 * session's other half in X-Sluice-CSRF, which only a page of this listener can
 * read, in addition to the Origin that sl_admin_admit() compares.
 *
 * The read-only token, and a session that began with it, may GET and nothing
 * else.
 *
 * A proxy that signs users in adds the token to each request. Then there is no
 * cookie, and a change needs no X-Sluice-CSRF.
 *
 * A person who mistypes a token again and again, or a page that guesses, is
 * slowed down: after WRONG_MOST wrong tokens of an address it signs in no more
 * until the minute has ended. Sessions, other addresses and requests with a
 * token are not affected. Of more than SL_WRONG_TOKENS addresses the oldest is
 * forgotten: a token is too long to be guessed, however many ask.
 */
#include <inttypes.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>

#include "base/parse.h"
#include "engine/request.h"
#include "server/http/http_int.h"

#define COOKIE     "sluice_session"
#define COOKIE_MAX (sizeof(COOKIE) + 6) /* with _PORT */
#define LIFETIME   SL_HOUR
#define LONGEST    (12 * SL_HOUR)
#define MAC        32 /* hexadecimal digits */
#define SESSION    96 /* END.BEGIN.NUMBER.ACCESS.MAC and its NUL */
#define WRONG_MOST 10 /* wrong tokens in a minute */

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

/* Without a port in the Host header the name is COOKIE alone. */
static void name_cookie(const struct sl_http_call *call, char out[COOKIE_MAX])
{
    struct sl_str host = call->request->host;
    size_t at = host.len;

    while (at > 0 && host.at[at - 1] >= '0' && host.at[at - 1] <= '9')
        at--;
    if (at > 0 && host.at[at - 1] == ':' && at < host.len && host.len - at <= 5)
        snprintf(out, COOKIE_MAX, COOKIE "_%.*s",
                 SL_STR_ARG(sl_str_from(host, at)));
    else
        snprintf(out, COOKIE_MAX, COOKIE);
}

static struct sl_str find_cookie(const struct sl_http_call *call)
{
    struct sl_str rest = sl_http1_field(call->request, SL_STR("cookie"), NULL);
    char own[COOKIE_MAX];

    name_cookie(call, own);

    while (rest.len > 0) {
        struct sl_str value = sl_str_trim(sl_admin_cut(&rest, ';'));
        struct sl_str name = sl_admin_cut(&value, '=');

        if (sl_str_eq(name, sl_str_c(own)))
            return value;
    }
    return (struct sl_str){"", 0};
}

static bool has_ended(const struct sl_sessions *sessions, uint64_t number)
{
    for (unsigned i = 0; i < SL_SESSIONS_ENDED; i++)
        if (sessions->ended[i] == number)
            return true;
    return number <= sessions->ended_to;
}

static void end_session(struct sl_sessions *sessions, uint64_t number)
{
    uint64_t *least = &sessions->ended[0]; /* 0: free */

    for (unsigned i = 1; i < SL_SESSIONS_ENDED; i++)
        if (sessions->ended[i] < *least)
            least = &sessions->ended[i];
    if (*least > sessions->ended_to)
        sessions->ended_to = *least;
    *least = number;
}

static bool read_second(struct sl_str text, sl_ns *ret)
{
    uint64_t second;

    if (sl_parse_number(text, &second, NULL) || second >= SL_TIME_END / SL_S)
        return false;
    *ret = (sl_ns)second * SL_S;
    return true;
}

bool sl_session_is_over(const struct sl_server_worker *worker,
                        const struct sl_session *session)
{
    return session->until <= sl_server_now(worker) ||
           has_ended(&worker->sessions[session->read_only], session->number);
}

/* Is it a session of this process that is not over? */
static bool check_session(const struct sl_http_call *call, struct sl_str text,
                          struct sl_session *ret)
{
    struct sl_str rest = text;
    struct sl_str end = sl_admin_cut(&rest, '.');
    struct sl_str begin = sl_admin_cut(&rest, '.');
    struct sl_str number = sl_admin_cut(&rest, '.');
    struct sl_str access = sl_admin_cut(&rest, '.');
    struct sl_str signed_part = {text.at, end.len + 1 + begin.len + 1 +
                                              number.len + 1 + access.len};
    char mac[MAC + 1];

    ret->read_only = sl_str_eq(access, SL_STR("r"));
    return rest.len == MAC && read_second(end, &ret->until) &&
           read_second(begin, &ret->begin) &&
           sl_parse_number(number, &ret->number, NULL) == 0 &&
           make_mac(call, "session", signed_part, ret->read_only, mac) &&
           equal(rest, sl_str_c(mac)) && !sl_session_is_over(call->worker, ret);
}

struct sl_session sl_http_session_of(const struct sl_http_call *call)
{
    struct sl_str cookie = find_cookie(call);
    struct sl_session session;

    return cookie.len > 0 && check_session(call, cookie, &session)
               ? session
               : (struct sl_session){.number = 0};
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
    struct sl_str cookie = find_cookie(call);
    struct sl_session session;

    if (cookie.len == 0 || !check_session(call, cookie, &session))
        return SL_SESSION_NONE;
    if (is_reading(call))
        return SL_SESSION_GOOD;
    if (session.read_only)
        return SL_SESSION_READ_ONLY;
    return has_csrf(call, cookie, false) ? SL_SESSION_GOOD : SL_SESSION_NO_CSRF;
}

/* ---- answers ---- */

static bool add_cookie(struct sl_http_call *call, const char *value,
                       unsigned seconds)
{
    char *text = sl_arena_take(&call->arena, 256);
    const char *secure = call->worker->tls ? "; Secure" : "";
    char name[COOKIE_MAX];
    int len;

    if (!text)
        return sl_http_no_memory(call);
    name_cookie(call, name);
    len = snprintf(text, 256,
                   "%s=%s; Path=/; Max-Age=%u; HttpOnly; SameSite=Strict%s",
                   name, value, seconds, secure);
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
static void begin(struct sl_http_call *call, struct sl_session *session)
{
    struct sl_event_stream *feed = sl_admin_of(call)->feed;
    bool read_only = session->read_only;
    sl_ns now = sl_http_now(call) / SL_S * SL_S;
    sl_ns most = session->begin + LONGEST - now;
    sl_ns left = most < LIFETIME ? most : LIFETIME;
    char text[SESSION], mac[MAC + 1], csrf[MAC + 1];
    int len =
        snprintf(text, sizeof(text), "%" PRId64 ".%" PRId64 ".%" PRIu64 ".%s",
                 (now + left) / SL_S, session->begin / SL_S, session->number,
                 read_only ? "r" : "w");

    session->until = now + left;
    if (!make_mac(call, "session", (struct sl_str){text, (size_t)len},
                  read_only, mac)) {
        sl_http_no_memory(call);
        return;
    }
    snprintf(text + len, sizeof(text) - (size_t)len, ".%s", mac);
    if (!make_mac(call, "csrf", sl_str_c(text), read_only, csrf)) {
        sl_http_no_memory(call);
        return;
    }
    if (!add_cookie(call, text, (unsigned)(left / SL_S)))
        return;
    if (feed)
        sl_event_stream_renew(feed, call->worker, session);
    describe(call, true, read_only, csrf);
}

void sl_session_get(struct sl_http_call *call)
{
    enum sl_http_shown shown = sl_http_shown(call);
    struct sl_str cookie = find_cookie(call);
    struct sl_session session;

    if (call->worker->server->token.len == 0)
        describe(call, true, false, NULL);
    else if (shown != SL_SHOWN_NONE)
        describe(call, true, shown == SL_SHOWN_READ_TOKEN, NULL);
    else if (cookie.len > 0 && check_session(call, cookie, &session))
        begin(call, &session);
    else
        describe(call, false, false, NULL);
}

/* ---- wrong tokens ---- */

/* The row of this address, or the one to use for it: a free one, or that whose
 * minute began first. */
static struct sl_wrong_tokens *find_wrong(struct sl_http_call *call)
{
    struct sl_wrong_tokens *rows = call->worker->wrong, *oldest = rows;
    struct sl_ip from = {{0}};
    sl_ns now = sl_http_now(call);

    if (call->has_peer)
        from = sl_ip_prefix(&call->peer, 64);
    for (unsigned i = 0; i < SL_WRONG_TOKENS; i++) {
        sl_ns since = now - rows[i].since;

        if (since < 0 || since >= SL_MIN) /* the clock may step back */
            rows[i].count = 0;
        if (rows[i].count > 0 &&
            memcmp(&rows[i].from, &from, sizeof(from)) == 0)
            return &rows[i];
        if (oldest->count > 0 &&
            (rows[i].count == 0 || rows[i].since < oldest->since))
            oldest = &rows[i];
    }
    *oldest = (struct sl_wrong_tokens){.from = from, .since = now};
    return oldest;
}

/* Returns false after a refusal: there were too many in this minute. */
static bool may_sign_in(struct sl_http_call *call,
                        const struct sl_wrong_tokens *wrong)
{
    sl_ns left = wrong->since + SL_MIN - sl_http_now(call);
    char *text;

    if (wrong->count < WRONG_MOST)
        return true;
    text = sl_arena_take(&call->arena, SL_DIGITS);
    if (!text)
        return sl_http_no_memory(call);
    snprintf(text, SL_DIGITS, "%" PRId64, (left + SL_S - 1) / SL_S);
    sl_http_field(call, SL_STR("Retry-After"), sl_str_c(text));
    return sl_http_refuse(call, 429, "TOO_MANY_SIGN_INS",
                          "%d wrong tokens came from this address within a "
                          "minute; try again after %s s",
                          WRONG_MOST, text);
}

static void refuse_wrong(struct sl_http_call *call,
                         struct sl_wrong_tokens *wrong)
{
    const struct sl_admin *admin = sl_admin_of(call);
    char peer[SL_IP_TEXT] = "unix";

    if (call->has_peer)
        sl_ip_print(&call->peer, peer);
    if (admin->wrong_token)
        admin->wrong_token(admin->ctx, peer);
    wrong->count++;
    sl_http_refuse(call, 401, "UNAUTHORIZED",
                   "this is neither admin_token nor admin_read_token");
}

void sl_session_post(struct sl_http_call *call)
{
    const struct sl_server *server = call->worker->server;
    struct sl_session session = {.begin = sl_http_now(call) / SL_S * SL_S};
    struct sl_wrong_tokens *wrong;
    struct sl_str token;

    if (!sl_admin_admit(call) ||
        !sl_admin_member(call, "token", sl_json_body_text,
                         "{\"token\":\"TOKEN\"}", &token))
        return;
    session.read_only = sl_server_read_token_ok(call->worker, token);
    wrong = find_wrong(call);
    if (server->token.len == 0)
        describe(call, true, false, NULL);
    else if (!may_sign_in(call, wrong))
        return;
    else if (session.read_only || sl_server_token_ok(call->worker, token)) {
        session.number = ++call->worker->sessions[session.read_only].begun;
        begin(call, &session);
    } else {
        refuse_wrong(call, wrong);
    }
}

void sl_session_delete(struct sl_http_call *call)
{
    const struct sl_admin *admin = sl_admin_of(call);
    struct sl_session session;

    if (!sl_admin_admit(call))
        return;
    session = sl_http_session_of(call);
    if (session.number > 0) {
        end_session(&call->worker->sessions[session.read_only], session.number);
        if (admin->feed)
            sl_event_stream_end_sessions(admin->feed);
    }
    if (add_cookie(call, "", 0))
        describe(call, call->worker->server->token.len == 0, false, NULL);
}
