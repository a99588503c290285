/* print_server.c -- `server`: the daemon's settings that were written.
 *
 * Those that were not are the daemon's to choose, and are not here. Tokens are
 * never shown, however they were written. An address of a store may have a
 * password in it, which is not shown either.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "policy/policy_int.h"

/* ---- addresses of stores ---- */

/* An address on its way. */
struct url {
    struct sl_buf *out;
    bool written; /* ${...} in it stands for something */
};

/* Bytes before the next `c` that is not in a ${...}. */
static size_t seek(const struct url *url, struct sl_str text, char c)
{
    bool inside = false;

    for (size_t i = 0; i < text.len; i++) {
        if (text.at[i] == c && !inside)
            return i;
        if (url->written && i > 0 && memcmp(text.at + i - 1, "${", 2) == 0)
            inside = true;
        else if (text.at[i] == '}')
            inside = false;
    }
    return text.len;
}

/* The first `len` bytes, as they are. */
static int add_bytes(struct url *url, struct sl_str text, size_t len)
{
    return sl_buf_add(url->out, (struct sl_str){text.at, len});
}

/* One ${...} and nothing else tells nothing. */
static int add_hidden(struct url *url, struct sl_str secret)
{
    bool reference =
        url->written && secret.len > 3 && memcmp(secret.at, "${", 2) == 0 &&
        memchr(secret.at, '}', secret.len) == secret.at + secret.len - 1;

    if (secret.len == 0 || reference)
        return sl_buf_add(url->out, secret);
    return sl_buf_add(url->out, SL_STR(SL_PRINT_SECRET));
}

/* "user:password". */
static int add_user(struct url *url, struct sl_str user)
{
    size_t len = seek(url, user, ':');
    int err;

    len += len < user.len;
    err = add_bytes(url, user, len);
    return err ? err : add_hidden(url, sl_str_from(user, len));
}

static bool is_secret_name(struct sl_str name)
{
    static const char *const parts[] = {"pass", "secret", "token", "key"};

    for (size_t i = 0; i < SL_LEN(parts); i++)
        for (size_t at = 0; at + strlen(parts[i]) <= name.len; at++) {
            struct sl_str part = {name.at + at, strlen(parts[i])};

            if (sl_str_eq_nocase(part, sl_str_c(parts[i])))
                return true;
        }
    return false;
}

/* "name=value". */
static int add_setting(struct url *url, struct sl_str setting)
{
    size_t len = seek(url, setting, '=');
    bool secret = is_secret_name((struct sl_str){setting.at, len});
    int err;

    len += len < setting.len;
    err = add_bytes(url, setting, len);
    if (err)
        return err;
    return secret ? add_hidden(url, sl_str_from(setting, len))
                  : sl_buf_add(url->out, sl_str_from(setting, len));
}

/* "?name=value&name=value". */
static int add_settings(struct url *url, struct sl_str rest)
{
    int err = 0;

    while (rest.len > 0 && !err) {
        size_t len;

        err = add_bytes(url, rest, 1);
        rest = sl_str_from(rest, 1);
        len = seek(url, rest, '&');
        if (!err)
            err = add_setting(url, (struct sl_str){rest.at, len});
        rest = sl_str_from(rest, len);
    }
    return err;
}

/* Bytes before the last @, or 0. Wherever it is: better too little is shown
 * than half of a password that has a slash in it. */
static size_t seek_last_at(const struct url *url, struct sl_str text)
{
    size_t last = 0;

    for (size_t at = seek(url, text, '@'); at < text.len;) {
        last = at;
        at += 1 + seek(url, sl_str_from(text, at + 1), '@');
    }
    return last;
}

static int add_url(struct url *url, struct sl_str text)
{
    const char *slashes = memmem(text.at, text.len, "://", 3);
    size_t len = slashes ? (size_t)(slashes - text.at) + 3 : 0;
    struct sl_str rest = sl_str_from(text, len);
    int err = add_bytes(url, text, len);

    len = slashes ? seek_last_at(url, rest) : 0;
    if (!err)
        err = add_user(url, (struct sl_str){rest.at, len});
    rest = sl_str_from(rest, len);
    len = seek(url, rest, '?');
    if (!err)
        err = add_bytes(url, rest, len);
    return err ? err : add_settings(url, sl_str_from(rest, len));
}

static void print_url(struct sl_printer *p, const char *key, struct sl_str text)
{
    const struct sl_external_value *from = sl_print_at(p, sl_str_c(key));
    struct sl_external_value shown = {.written = text};
    struct sl_buf out;
    struct url url = {&out, from != NULL};

    if (text.len == 0 || p->err)
        return;
    sl_buf_init(&out, p->out->ceiling, p->out->alloc);
    p->err = add_url(&url, from ? from->written : text);
    shown.written = sl_buf_str(&out);
    if (from)
        sl_print_from(p, sl_str_c(key), &shown);
    else
        sl_print_text(p, key, shown.written);
    sl_buf_done(&out);
}

/* ---- the rest ---- */

static void print_written(struct sl_printer *p, const char *key,
                          struct sl_str text)
{
    if (text.len > 0)
        sl_print_text(p, key, text);
}

static void print_size(struct sl_printer *p, const char *key, uint64_t size)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    unsigned unit = 0;
    char text[32];

    if (size == 0)
        return;
    while (unit + 1 < SL_LEN(units) && size % 1024 == 0) {
        size /= 1024;
        unit++;
    }
    snprintf(text, sizeof(text), "%" PRIu64 "%s", size, units[unit]);
    sl_print_word(p, key, text);
}

/* Whether it was written or came from somewhere. */
static void print_token(struct sl_printer *p, const char *key,
                        struct sl_str token)
{
    static const struct sl_external_value secret = {
        .written = {SL_PRINT_SECRET, sizeof(SL_PRINT_SECRET) - 1}
    };

    if (token.len > 0)
        sl_print_from(p, sl_str_c(key), &secret);
}

static void print_listen(struct sl_printer *p,
                         const struct sl_server_conf *server)
{
    if (!server->has_listen)
        return;
    sl_print_open(p, SL_STR("listen"));
    print_written(p, "http", server->http);
    print_written(p, "grpc", server->grpc);
    print_written(p, "resp", server->resp);
    print_written(p, "admin", server->admin);
    sl_print_close(p);
}

/* The ith of "http,resp". */
static struct sl_str door_of(const void *ctx, unsigned i, char *room)
{
    struct sl_str rest = *(const struct sl_str *)ctx;
    const char *comma;

    (void)room;
    while ((comma = memchr(rest.at, ',', rest.len)) != NULL && i-- > 0)
        rest = sl_str_from(rest, (size_t)(comma - rest.at) + 1);
    if (comma)
        rest.len = (size_t)(comma - rest.at);
    return rest;
}

static void print_proxied(struct sl_printer *p,
                          const struct sl_server_conf *server)
{
    struct sl_print_list list = {
        .item = door_of, .ctx = &server->proxy_protocol, .count = 1};

    for (size_t i = 0; i < server->proxy_protocol.len; i++)
        list.count += server->proxy_protocol.at[i] == ',';
    if (server->proxy_protocol.len > 0)
        sl_print_list(p, "proxy_protocol", &list);
}

static void print_tls(struct sl_printer *p, const struct sl_server_conf *server)
{
    if (server->tls_certificate.len + server->tls_key.len +
            server->tls_client_ca.len ==
        0)
        return;
    sl_print_open(p, SL_STR("tls"));
    sl_print_text(p, "certificate", server->tls_certificate);
    sl_print_text(p, "key", server->tls_key);
    print_written(p, "client_ca", server->tls_client_ca);
    sl_print_close(p);
}

static void print_log(struct sl_printer *p, const struct sl_server_conf *server)
{
    if (server->log_level.len + server->log_format.len == 0)
        return;
    sl_print_open(p, SL_STR("log"));
    print_written(p, "level", server->log_level);
    print_written(p, "format", server->log_format);
    sl_print_close(p);
}

static bool is_empty(const struct sl_server_conf *s)
{
    return !s->has_listen && !s->memory && !s->idempotency && !s->waiting &&
           !s->deadline &&
           s->store.len + s->usage.len + s->forward_auth.len +
                   s->proxy_protocol.len + s->access_token.len +
                   s->admin_token.len + s->tls_certificate.len +
                   s->tls_key.len + s->tls_client_ca.len + s->log_level.len +
                   s->log_format.len ==
               0;
}

void sl_print_server(struct sl_printer *p)
{
    const struct sl_server_conf *server = &p->policy->server;

    if (is_empty(server))
        return;
    sl_print_open(p, SL_STR("server"));
    print_listen(p, server);
    print_url(p, "store", server->store);
    print_url(p, "usage", server->usage);
    print_size(p, "memory", server->memory);
    print_size(p, "idempotency", server->idempotency);
    if (server->waiting > 0)
        sl_print_number(p, "waiting", server->waiting);
    if (server->deadline > 0)
        sl_print_duration(p, "deadline", server->deadline);
    print_written(p, "forward_auth", server->forward_auth);
    print_proxied(p, server);
    print_token(p, "access_token", server->access_token);
    print_token(p, "admin_token", server->admin_token);
    print_tls(p, server);
    print_log(p, server);
    sl_print_close(p);
}

/* ---- where names come from, and which tokens are believed.
 *
 * A secret is never shown, whether it was written or came from somewhere.
 * What stands in for it is long enough to be read back as one.
 */

#define SECRET "(a secret, which is not shown here)"

static struct sl_str source_of(const void *ctx, unsigned i,
                               char room[SL_PRINT_ITEM])
{
    static const char *const kinds[] = {
        [SL_SOURCE_HEADER] = "header",
        [SL_SOURCE_JWT] = "jwt",
        [SL_SOURCE_COOKIE] = "cookie",
        [SL_SOURCE_SUBJECT] = "subject",
    };
    const struct sl_source *source = &((const struct sl_sources *)ctx)->list[i];
    int len;

    if (source->kind == SL_SOURCE_IP)
        return SL_STR("ip");
    len = snprintf(room, SL_PRINT_ITEM, "%s.%.*s", kinds[source->kind],
                   SL_STR_ARG(source->name));
    return (struct sl_str){room, (size_t)len};
}

void sl_print_sources(struct sl_printer *p, const char *key,
                      const struct sl_sources *sources)
{
    struct sl_print_list list = {
        .item = source_of, .ctx = sources, .count = sources->count};

    sl_print_list(p, key, &list);
}

/* ---- jwt ---- */

/* The `i`th of the algorithms that are there. */
static struct sl_str algorithm_of(const void *ctx, unsigned i,
                                  char room[SL_PRINT_ITEM])
{
    unsigned bits = *(const unsigned *)ctx, at = 0;

    (void)room;
    for (;; at++)
        if ((bits & 1u << at) && i-- == 0)
            return sl_str_c(sl_algorithm_words[at]);
}

static void print_algorithms(struct sl_printer *p, const struct sl_jwt *jwt)
{
    struct sl_print_list list = {
        .item = algorithm_of, .ctx = &jwt->algorithms, .in_any_order = true};

    for (unsigned i = 0; i < SL_ALGORITHMS; i++)
        list.count += jwt->algorithms >> i & 1;
    if (list.count > 0)
        sl_print_list(p, "algorithms", &list);
}

static struct sl_str audience_of(const void *ctx, unsigned i,
                                 char room[SL_PRINT_ITEM])
{
    (void)room;
    return ((const struct sl_str *)ctx)[i];
}

static void print_keys(struct sl_printer *p, const struct sl_jwt *jwt)
{
    static const struct sl_external_value secret = {
        .written = {SECRET, sizeof(SECRET) - 1}
    };

    if (jwt->jwks.len > 0)
        sl_print_text(p, "jwks", jwt->jwks);
    if (jwt->secret.len > 0)
        sl_print_from(p, SL_STR("secret"), &secret);
}

void sl_print_jwt(struct sl_printer *p)
{
    const struct sl_jwt *jwt = &p->policy->identity.jwt;
    struct sl_print_list audiences = {.item = audience_of,
                                      .ctx = jwt->audiences,
                                      .count = jwt->audience_count};

    if (!jwt->written)
        return;
    sl_print_open(p, SL_STR("jwt"));
    sl_print_sources(p, "from", &jwt->from);
    print_algorithms(p, jwt);
    print_keys(p, jwt);
    if (jwt->issuer.len > 0)
        sl_print_text(p, "issuer", jwt->issuer);
    if (jwt->audience_count > 0)
        sl_print_list(p, "audience", &audiences);
    sl_print_duration(p, "leeway", jwt->leeway);
    sl_print_word(p, "expiry", jwt->expiry_optional ? "optional" : "required");
    sl_print_duration(p, "stale", jwt->stale);
    sl_print_close(p);
}
