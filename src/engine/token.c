/* token.c -- the token that came with a request.
 *
 * What comes twice is nobody's: a proxy may have checked the one and the
 * application may read the other. Whoever sends it so is not known, and it
 * counts as a bad token.
 */
#include <string.h>

#include "engine/forwarded.h"
#include "engine/known.h"
#include "engine/request.h"

/* ---- cookies ---- */

/* Cut the first item off "a=1; b=2". False if there is none left. */
static bool cut_item(struct sl_str *list, struct sl_str *ret)
{
    const char *end;

    if (list->len == 0)
        return false;
    end = memchr(list->at, ';', list->len);
    *ret = *list;
    if (end)
        ret->len = (size_t)(end - list->at);
    *list = sl_str_from(*list, ret->len + 1);
    *ret = sl_str_trim(*ret);
    return true;
}

/* A value may stand in quotes (RFC 6265, 4.1.1). */
static struct sl_str unquote(struct sl_str value)
{
    if (value.len >= 2 && value.at[0] == '"' && value.at[value.len - 1] == '"')
        return (struct sl_str){value.at + 1, value.len - 2};
    return value;
}

/* The last cookie of that name in one field; `count` grows with each. */
static struct sl_str find_cookie(struct sl_str field, struct sl_str name,
                                 unsigned *count)
{
    struct sl_str item, value = {NULL, 0};

    while (cut_item(&field, &item)) {
        const char *equals =
            item.len > 0 ? memchr(item.at, '=', item.len) : NULL;
        size_t len = equals ? (size_t)(equals - item.at) : 0;

        if (!equals || !sl_str_eq((struct sl_str){item.at, len}, name))
            continue;
        value = unquote(sl_str_from(item, len + 1));
        ++*count;
    }
    return value;
}

/* HTTP/2 may send each cookie in a field of its own. */
struct sl_str sl_request_cookie(const struct sl_request *facts,
                                struct sl_str name, unsigned *count)
{
    struct sl_str value = {NULL, 0};

    *count = 0;
    for (unsigned i = 0; i < facts->header_count; i++) {
        unsigned before = *count;
        struct sl_str found;

        if (!sl_str_eq_nocase(facts->headers[i].name, SL_STR("cookie")))
            continue;
        found = find_cookie(facts->headers[i].value, name, count);
        if (*count > before)
            value = found;
    }
    return value;
}

/* ---- tokens ---- */

/* Is it of the scheme? Then *rest is what follows. */
static bool is_bearer(struct sl_str value, struct sl_str *rest)
{
    static const struct sl_str scheme = {"Bearer", 6};
    struct sl_str word = value;

    if (value.len < scheme.len)
        return false;
    word.len = scheme.len;
    *rest = sl_str_from(value, scheme.len);
    return sl_str_eq_nocase(word, scheme) &&
           (rest->len == 0 || rest->at[0] == ' ');
}

/* Authorization is shared with other schemes, which are none of our business;
 * in a header of its own a token may stand alone. False if it has none. */
static bool read_header(const struct sl_source *source, struct sl_str value,
                        struct sl_str *ret)
{
    value = sl_str_trim(value);
    if (is_bearer(value, ret)) {
        *ret = sl_str_trim(*ret);
        return true;
    }
    *ret = value;
    return value.len > 0 &&
           !sl_str_eq_nocase(source->name, SL_STR("authorization"));
}

/* False if the source has no token. */
static bool ask(const struct sl_source *source, const struct sl_request *facts,
                struct sl_str *ret, unsigned *count)
{
    struct sl_str value = {NULL, 0};

    *count = 0;
    if (source->kind == SL_SOURCE_COOKIE) {
        *ret = sl_request_cookie(facts, source->name, count);
        return ret->len > 0 || *count > 1;
    }
    for (unsigned i = 0; i < facts->header_count; i++)
        if (sl_str_eq_nocase(facts->headers[i].name, source->name)) {
            value = facts->headers[i].value;
            ++*count;
        }
    return *count > 1 || (*count == 1 && read_header(source, value, ret));
}

enum sl_token_error sl_request_token(const struct sl_policy *policy,
                                     const struct sl_request *facts,
                                     struct sl_str *ret)
{
    const struct sl_sources *from = &policy->identity.jwt.from;
    struct sl_str text = {NULL, 0};
    unsigned count;

    *ret = text;
    for (unsigned i = 0; i < from->count; i++) {
        if (!ask(&from->list[i], facts, &text, &count))
            continue;
        if (count > 1 || text.len == 0)
            return SL_TOKEN_MALFORMED;
        *ret = text;
        return SL_TOKEN_GOOD;
    }
    return SL_TOKEN_GOOD;
}

/* Whoever sends many bad ones is known by the address that he really has. If
 * that is a proxy's, which does not say whom it speaks for, nobody is blamed:
 * one of its clients could have all others shut out. */
void sl_auth_info_token(struct sl_auth_info *known, struct sl_tokens *tokens,
                        const struct sl_policy *policy,
                        const struct sl_request *facts)
{
    struct sl_str text;
    struct sl_ip ip;
    bool has_ip;

    known->token = NULL;
    known->token_fault = SL_TOKEN_GOOD;
    if (!tokens || !policy->identity.jwt.written)
        return;
    known->token_fault = sl_request_token(policy, facts, &text);
    if (text.len == 0)
        return;
    has_ip =
        sl_ip_parse(facts->ip, &ip) && !sl_ip_trusted(&policy->identity, &ip);
    known->token = tokens->calls->verify(tokens, text, has_ip ? &ip : NULL,
                                         facts->now, &known->token_fault);
}
