/* url.c -- where a Redis is. */
#include <string.h>

#include "base/str.h"
#include "store/redis/redis.h"

#define DATABASES 1000000
#define NAME_MOST 255

struct reader {
    struct sl_arena *arena;
    struct sl_redis_url *where;
    struct sl_diag *diag;
    struct sl_str rest;
};

static const struct scheme {
    const char *text;
    enum sl_redis_kind kind;
    bool tls, is_unix;
    unsigned port;
} schemes[] = {
    {"redis://",           SL_REDIS_ONE,      false, false, 6379 },
    {"rediss://",          SL_REDIS_ONE,      true,  false, 6379 },
    {"redis+unix://",      SL_REDIS_ONE,      false, true,  0    },
    {"redis+cluster://",   SL_REDIS_CLUSTER,  false, false, 6379 },
    {"rediss+cluster://",  SL_REDIS_CLUSTER,  true,  false, 6379 },
    {"redis+sentinel://",  SL_REDIS_SENTINEL, false, false, 26379},
    {"rediss+sentinel://", SL_REDIS_SENTINEL, true,  false, 26379},
};

static const struct scheme *scheme_of(struct sl_str *text)
{
    for (unsigned i = 0; i < SL_LEN(schemes); i++) {
        size_t len = strlen(schemes[i].text);

        if (text->len >= len && memcmp(text->at, schemes[i].text, len) == 0) {
            *text = sl_str_from(*text, len);
            return &schemes[i];
        }
    }
    return NULL;
}

static int no_memory(struct reader *r)
{
    return sl_diag_error(r->diag, SLUICE_ENOMEM, "out of memory");
}

/* Take off what stands before the first of `marks`, or all. */
static struct sl_str cut(struct sl_str *rest, const char *marks)
{
    struct sl_str first = *rest;

    for (size_t i = 0; i < rest->len; i++)
        if (strchr(marks, rest->at[i])) {
            first.len = i;
            break;
        }
    *rest = sl_str_from(*rest, first.len);
    return first;
}

/* %xx is one byte. */
static int unescape(struct reader *r, struct sl_str text, struct sl_str *ret)
{
    char *out = sl_arena_take(r->arena, text.len + 1);
    size_t len = 0;

    if (!out)
        return no_memory(r);
    for (size_t i = 0; i < text.len; i++) {
        int high = 0, low = 0;

        if (text.at[i] != '%') {
            out[len++] = text.at[i];
            continue;
        }
        if (i + 2 < text.len) {
            high = sl_hex_value(text.at[i + 1]);
            low = sl_hex_value(text.at[i + 2]);
        }
        if (i + 2 >= text.len || high < 0 || low < 0)
            return sl_diag_error(
                r->diag, SLUICE_ECONF,
                "after a %% there must be two hexadecimal digits; "
                "write %%25 for a %% itself");
        out[len++] = (char)(high << 4 | low);
        i += 2;
    }
    out[len] = '\0';
    *ret = (struct sl_str){out, len};
    return 0;
}

/* What stands before the last '@' that is no part of a path. */
static int read_user(struct reader *r)
{
    struct sl_str rest = r->rest, all = cut(&rest, "/?"), user, password;
    const char *at = NULL;
    int err;

    for (size_t i = all.len; i-- > 0 && !at;)
        if (all.at[i] == '@')
            at = all.at + i;
    if (!at && all.len > 0 && rest.len > 0 && memchr(rest.at, '@', rest.len))
        return sl_diag_error(
            r->diag, SLUICE_ECONF,
            "there is an @ after a / or ?; in a password write "
            "%%2F and %%3F for these, and %%40 for an @");
    if (!at)
        return 0;
    password = (struct sl_str){all.at, (size_t)(at - all.at)};
    r->rest = sl_str_from(r->rest, password.len + 1);
    user = cut(&password, ":");
    err = unescape(r, user, &r->where->user);
    if (!err)
        err = unescape(r, sl_str_from(password, 1), &r->where->password);
    return err;
}

static int read_number(struct reader *r, struct sl_str text, const char *what,
                       unsigned most, unsigned *ret)
{
    unsigned n = 0;
    bool good = text.len > 0 && text.len <= 7;

    for (size_t i = 0; good && i < text.len; i++) {
        good = text.at[i] >= '0' && text.at[i] <= '9';
        n = n * 10 + (unsigned)(text.at[i] - '0');
    }
    if (!good || n > most)
        return sl_diag_error(r->diag, SLUICE_ECONF,
                             "\"%.*s\" is not a %s; write a number up to %u",
                             SL_STR_ARG(text), what, most);
    *ret = n;
    return 0;
}

static int add_host(struct reader *r, struct sl_str name, unsigned port)
{
    struct sl_redis_url *where = r->where;
    const char *copy = sl_arena_copy(r->arena, name);

    if (!copy)
        return no_memory(r);
    if (name.len == 0)
        return sl_diag_error(
            r->diag, SLUICE_ECONF,
            "the host is missing; write one like redis://127.0.0.1:6379");
    if (name.len > NAME_MOST)
        return sl_diag_error(r->diag, SLUICE_ECONF,
                             "the name of a host has at most %d bytes, not %zu",
                             NAME_MOST, name.len);
    if (where->host_count == SL_REDIS_HOSTS)
        return sl_diag_error(
            r->diag, SLUICE_ECONF,
            "there are more than %d hosts; some are enough to find the others",
            SL_REDIS_HOSTS);
    where->hosts[where->host_count++] = (struct sl_redis_host){copy, port};
    return 0;
}

/* [ADDRESS] or a name. */
static int read_name(struct reader *r, struct sl_str *ret)
{
    static const char behind[] = {':', ',', '/', '?'};

    if (r->rest.len == 0 || r->rest.at[0] != '[') {
        *ret = cut(&r->rest, ":,/?");
        return 0;
    }
    r->rest = sl_str_from(r->rest, 1);
    *ret = cut(&r->rest, "]");
    if (r->rest.len == 0)
        return sl_diag_error(r->diag, SLUICE_ECONF, "missing ] after \"[%.*s\"",
                             SL_STR_ARG(*ret));
    r->rest = sl_str_from(r->rest, 1);
    if (r->rest.len > 0 && !memchr(behind, r->rest.at[0], sizeof(behind)))
        return sl_diag_error(
            r->diag, SLUICE_ECONF,
            "after [%.*s] only a port is allowed, like :6379, not \"%.*s\"",
            SL_STR_ARG(*ret), SL_STR_ARG(r->rest));
    return 0;
}

static int read_host(struct reader *r, unsigned port)
{
    struct sl_str name;
    int err = read_name(r, &name);

    if (!err && r->rest.len > 0 && r->rest.at[0] == ':') {
        r->rest = sl_str_from(r->rest, 1);
        err = read_number(r, cut(&r->rest, ",/?"), "port", 65535, &port);
        if (!err && port == 0)
            err = sl_diag_error(r->diag, SLUICE_ECONF, "0 is not a port");
    }
    return err ? err : add_host(r, name, port);
}

static int read_hosts(struct reader *r, const struct scheme *scheme)
{
    int err = read_host(r, scheme->port);

    while (!err && r->rest.len > 0 && r->rest.at[0] == ',') {
        if (scheme->kind == SL_REDIS_ONE)
            return sl_diag_error(r->diag, SLUICE_ECONF,
                                 "redis:// names one server; write "
                                 "redis+cluster:// for several");
        r->rest = sl_str_from(r->rest, 1);
        err = read_host(r, scheme->port);
    }
    return err;
}

static int read_path(struct reader *r)
{
    struct sl_redis_url *where = r->where;
    struct sl_str word;

    if (r->rest.len > 0 && r->rest.at[0] == '/' &&
        where->kind == SL_REDIS_SENTINEL) {
        r->rest = sl_str_from(r->rest, 1);
        where->master = sl_arena_copy(r->arena, cut(&r->rest, "/?"));
        if (!where->master)
            return no_memory(r);
    }
    if (where->kind == SL_REDIS_SENTINEL &&
        (!where->master || !where->master[0]))
        return sl_diag_error(
            r->diag, SLUICE_ECONF,
            "the name of the master is missing; write one like "
            "redis+sentinel://127.0.0.1:26379/mymaster");
    if (r->rest.len == 0 || r->rest.at[0] != '/')
        return 0;
    r->rest = sl_str_from(r->rest, 1);
    word = cut(&r->rest, "?");
    if (word.len == 0)
        return 0;
    if (where->kind == SL_REDIS_CLUSTER)
        return sl_diag_error(r->diag, SLUICE_ECONF,
                             "a cluster has one database only; remove /%.*s",
                             SL_STR_ARG(word));
    return read_number(r, word, "database", DATABASES, &where->database);
}

/* A file for TLS. */
static int read_file(struct reader *r, struct sl_str name, struct sl_str value,
                     const char **ret)
{
    struct sl_str text;
    int err;

    if (!r->where->tls)
        return sl_diag_error(
            r->diag, SLUICE_ECONF,
            "\"%.*s\" needs TLS; write rediss:// instead of redis://",
            SL_STR_ARG(name));
    err = unescape(r, value, &text);
    if (!err)
        *ret = text.at;
    return err;
}

static int read_option(struct reader *r, struct sl_str name,
                       struct sl_str value)
{
    struct sl_redis_url *where = r->where;
    bool sentinel = where->kind == SL_REDIS_SENTINEL;

    if (sl_str_eq(name, SL_STR("db")) && where->kind != SL_REDIS_CLUSTER)
        return read_number(r, value, "database", DATABASES, &where->database);
    if (sl_str_eq(name, SL_STR("ca")))
        return read_file(r, name, value, &where->ca);
    if (sl_str_eq(name, SL_STR("cert")))
        return read_file(r, name, value, &where->cert);
    if (sl_str_eq(name, SL_STR("key")))
        return read_file(r, name, value, &where->key);
    if (sl_str_eq(name, SL_STR("sentinel_user")) && sentinel)
        return unescape(r, value, &where->sentinel_user);
    if (sl_str_eq(name, SL_STR("sentinel_password")) && sentinel)
        return unescape(r, value, &where->sentinel_password);
    return sl_diag_error(
        r->diag, SLUICE_ECONF,
        "unknown option \"%.*s\"; valid are ca, cert and key for TLS, db (not "
        "for clusters), and sentinel_user and sentinel_password for sentinels",
        SL_STR_ARG(name));
}

static int read_options(struct reader *r)
{
    int err = 0;

    while (!err && r->rest.len > 0) {
        struct sl_str value, name;

        r->rest = sl_str_from(r->rest, 1); /* '?' or '&' */
        value = cut(&r->rest, "&");
        name = cut(&value, "=");
        err = read_option(r, name, sl_str_from(value, 1));
    }
    return err;
}

int sl_redis_url_read(struct sl_str text, struct sl_arena *arena,
                      struct sl_redis_url *ret, struct sl_diag *diag)
{
    struct reader r = {arena, ret, diag, text};
    const struct scheme *scheme = scheme_of(&r.rest);
    int err;

    *ret = (struct sl_redis_url){.host_count = 0};
    if (!scheme)
        return sl_diag_error(
            diag, SLUICE_ECONF,
            "unknown Redis URL; write redis://HOST:PORT, rediss://, "
            "redis+unix://, redis+cluster:// or redis+sentinel://");
    for (size_t i = 0; i < text.len; i++)
        if ((unsigned char)text.at[i] <= ' ' || text.at[i] == 0x7f)
            return sl_diag_error_at(diag, SLUICE_ECONF, i,
                                    "the address contains a space or a control "
                                    "character; write %%20 for a space");
    ret->kind = scheme->kind;
    ret->tls = scheme->tls;
    err = read_user(&r);
    if (!err && scheme->is_unix)
        err = add_host(&r, cut(&r.rest, "?"), 0);
    else if (!err)
        err = read_hosts(&r, scheme);
    if (!err && !scheme->is_unix)
        err = read_path(&r);
    return err ? err : read_options(&r);
}
