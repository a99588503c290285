/* url.c -- where a table of DynamoDB is. */
#include <string.h>

#include "base/str.h"
#include "store/dynamo/dynamo.h"

#define SCHEME      "dynamodb://"
#define TABLE       "jobseek-users"
#define TABLE_LEAST 3
#define TABLE_MOST  255
#define TEXT_MOST   1024

static bool is_of(struct sl_str text, const char *more)
{
    for (size_t i = 0; i < text.len; i++) {
        char c = text.at[i];
        char letter = (char)(c | 0x20);

        if (!(letter >= 'a' && letter <= 'z') && !(c >= '0' && c <= '9') &&
            !strchr(more, c))
            return false;
        if (c == '\0')
            return false;
    }
    return true;
}

/* Up to one of `ends`; *rest is what follows, that byte included. */
static struct sl_str cut(struct sl_str *rest, const char *ends)
{
    struct sl_str head = {rest->at, 0};

    while (head.len < rest->len && !strchr(ends, rest->at[head.len]))
        head.len++;
    *rest = sl_str_from(*rest, head.len);
    return head;
}

/* ---- options ---- */

/* %xx is a byte. An empty slice at NULL if there is no memory. */
static struct sl_str unescape(struct sl_str text, struct sl_arena *arena)
{
    char *out = sl_arena_take(arena, text.len + 1);
    size_t len = 0;

    if (!out)
        return (struct sl_str){NULL, 0};
    for (size_t i = 0; i < text.len; i++) {
        int high = i + 2 < text.len && text.at[i] == '%'
                       ? sl_hex_value(text.at[i + 1])
                       : -1;
        int low = high >= 0 ? sl_hex_value(text.at[i + 2]) : -1;

        out[len++] = text.at[i];
        if (low >= 0)
            out[len - 1] = (char)(unsigned char)(high << 4 | low);
        i += low >= 0 ? 2 : 0;
    }
    out[len] = '\0';
    return (struct sl_str){out, len};
}

static int refuse_endpoint(struct sl_str text, struct sl_diag *diag)
{
    return sl_diag_error(
        diag, SLUICE_ECONF,
        "\"%.*s\" is not an endpoint; write http://HOST:PORT or https://HOST",
        SL_STR_ARG(text));
}

static int set_endpoint(struct sl_str text, struct sl_arena *arena,
                        struct sl_dynamo_url *ret, struct sl_diag *diag)
{
    struct sl_str http = SL_STR("http://"), https = SL_STR("https://");
    bool tls =
        text.len > https.len && memcmp(text.at, https.at, https.len) == 0;
    struct sl_str usual = tls ? SL_STR(":443") : SL_STR(":80");
    struct sl_str host;
    char *url;

    if (!tls &&
        (text.len <= http.len || memcmp(text.at, http.at, http.len) != 0))
        return refuse_endpoint(text, diag);
    host = sl_str_from(text, tls ? https.len : http.len);
    if (host.len > 0 && host.at[host.len - 1] == '/')
        host.len--;
    if (host.len == 0 || !is_of(host, ".-:[]"))
        return refuse_endpoint(text, diag);
    url = sl_arena_take(arena, https.len + host.len + 2);
    if (!url)
        return sl_diag_error(diag, SLUICE_ENOMEM, "out of memory");
    memcpy(url, text.at, (size_t)(host.at - text.at) + host.len);
    memcpy(url + (host.at - text.at) + host.len, "/", 2);
    ret->endpoint = url;
    /* As curl does, and servers when they look at the signature. */
    if (host.len > usual.len &&
        memcmp(host.at + host.len - usual.len, usual.at, usual.len) == 0)
        host.len -= usual.len;
    ret->host = (struct sl_str){url + (host.at - text.at), host.len};
    return 0;
}

static int read_option(struct sl_str option, struct sl_arena *arena,
                       struct sl_dynamo_url *ret, struct sl_diag *diag)
{
    static const char *const names[] = {"endpoint", "profile"};
    struct sl_str rest = option;
    struct sl_str name = cut(&rest, "=");
    struct sl_str value = unescape(sl_str_from(rest, 1), arena);
    const char *near;

    if (!value.at)
        return sl_diag_error(diag, SLUICE_ENOMEM, "out of memory");
    if (sl_str_eq(name, SL_STR("endpoint")))
        return set_endpoint(value, arena, ret, diag);
    if (sl_str_eq(name, SL_STR("profile"))) {
        if (value.len == 0 || value.len > TABLE_MOST || !is_of(value, "_.-#:"))
            return sl_diag_error(diag, SLUICE_ECONF,
                                 "profile must be a sort key like PROFILE, not "
                                 "\"%.*s\"",
                                 SL_STR_ARG(value));
        ret->profile = value;
        return 0;
    }
    near = sl_str_nearest(name, names, SL_LEN(names));
    return sl_diag_error(
        diag, SLUICE_ECONF, "unknown option \"%.*s\" of dynamodb://; %s%s",
        SL_STR_ARG(name), near ? "did you mean " : "valid are ",
        near ? near : "endpoint and profile");
}

/* ---- the rest ---- */

static int set_usual(struct sl_arena *arena, struct sl_dynamo_url *ret,
                     struct sl_diag *diag)
{
    bool china = ret->region.len > 3 && memcmp(ret->region.at, "cn-", 3) == 0;
    struct sl_str pieces[] = {SL_STR("https://dynamodb."), ret->region,
                              SL_STR(".amazonaws.com"),
                              china ? SL_STR(".cn") : SL_STR("")};
    char text[128];
    size_t len = 0;

    for (size_t i = 0; i < SL_LEN(pieces); i++) {
        memcpy(text + len, pieces[i].at, pieces[i].len);
        len += pieces[i].len;
    }
    return set_endpoint((struct sl_str){text, len}, arena, ret, diag);
}

static int read_names(struct sl_str *rest, struct sl_dynamo_url *ret,
                      struct sl_diag *diag)
{
    ret->region = cut(rest, "/?");
    if (ret->region.len == 0 || ret->region.len > 32 ||
        !is_of(ret->region, "-"))
        return sl_diag_error(diag, SLUICE_ECONF,
                             "dynamodb:// needs a region; write "
                             "dynamodb://eu-west-1/TABLE");
    if (rest->len > 0 && rest->at[0] == '/') {
        *rest = sl_str_from(*rest, 1);
        ret->table = cut(rest, "?");
    }
    if (ret->table.len == 0)
        ret->table = SL_STR(TABLE);
    if (ret->table.len < TABLE_LEAST || ret->table.len > TABLE_MOST ||
        !is_of(ret->table, "_.-"))
        return sl_diag_error(diag, SLUICE_ECONF,
                             "\"%.*s\" is not a table name: 3 to 255 letters, "
                             "digits, '_', '-' or '.'",
                             SL_STR_ARG(ret->table));
    return 0;
}

int sl_dynamo_url_read(struct sl_str text, struct sl_arena *arena,
                       struct sl_dynamo_url *ret, struct sl_diag *diag)
{
    struct sl_dynamo_url where = {.profile = SL_STR("PROFILE")};
    struct sl_str scheme = SL_STR(SCHEME);
    struct sl_str rest;
    int err;

    if (text.len < scheme.len || text.len > TEXT_MOST ||
        memcmp(text.at, scheme.at, scheme.len) != 0)
        return sl_diag_error(
            diag, SLUICE_ECONF,
            "the table is missing; write dynamodb://REGION/TABLE");
    text = sl_str_from(text, scheme.len);
    rest = (struct sl_str){sl_arena_copy(arena, text), text.len};
    if (!rest.at)
        return sl_diag_error(diag, SLUICE_ENOMEM, "out of memory");
    err = read_names(&rest, &where, diag);
    while (!err && rest.len > 0) {
        rest = sl_str_from(rest, 1); /* '?' or '&' */
        err = read_option(cut(&rest, "&"), arena, &where, diag);
    }
    if (!err && !where.endpoint)
        err = set_usual(arena, &where, diag);
    if (!err)
        *ret = where;
    return err;
}
