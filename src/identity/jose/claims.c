/* claims.c -- what a signed token claims.
 *
 * Times are seconds since 1970: whole numbers, or fractions that stand for one
 * (1700000000.0). Beyond 2^53 a reader of JSON may not know them any more, and
 * before 1970 there were no tokens.
 */
#include "identity/jose/claims.h"

#include <string.h>

#include "base/arith.h"
#include "base/digits.h"
#include "identity/jose/object.h"

#define SECONDS_MOST (INT64_C(1) << 53)

/* ---- times ---- */

/* Real numbers come from jansson as doubles; nothing is computed with them. */
static bool whole_seconds(const json_t *value, int64_t *ret)
{
    double real;

    if (json_is_integer(value)) {
        *ret = json_integer_value(value);
        return *ret >= 0 && *ret <= SECONDS_MOST;
    }
    if (!json_is_real(value))
        return false;
    real = json_real_value(value);
    if (!(real >= 0 && real <= (double)SECONDS_MOST))
        return false;
    *ret = (int64_t)real;
    return (double)*ret == real;
}

/* The instant of claim `name`, or SL_NS_NONE without one; false if it is no
 * time. */
static bool read_time(const json_t *claims, const char *name, sl_ns *ret)
{
    const json_t *value = json_object_get(claims, name);
    int64_t seconds;

    *ret = SL_NS_NONE;
    if (!value)
        return true;
    if (!whole_seconds(value, &seconds))
        return false;
    *ret = seconds > SL_NS_MAX / SL_S ? SL_NS_MAX : seconds * SL_S;
    return true;
}

/* exp is the first instant at which it is over; nbf the first at which it is
 * good. A token from the future is not believed either. */
static enum sl_token_error check_times(const json_t *claims,
                                       const struct sl_token_rules *rules,
                                       sl_ns now, struct sl_token *ret)
{
    sl_ns nbf, iat;

    if (!read_time(claims, "exp", &ret->expires) ||
        !read_time(claims, "nbf", &nbf) || !read_time(claims, "iat", &iat))
        return SL_TOKEN_MALFORMED;
    ret->begins = nbf > iat ? nbf : iat;
    if (ret->begins < 0)
        ret->begins = 0;
    if (ret->expires == SL_NS_NONE && !rules->needs_no_expiry)
        return SL_TOKEN_NO_EXPIRY;
    if (ret->expires != SL_NS_NONE &&
        now >= sl_ns_add_sat(ret->expires, rules->leeway))
        return SL_TOKEN_EXPIRED;
    if (ret->begins > sl_ns_add_sat(now, rules->leeway))
        return SL_TOKEN_NOT_YET;
    return SL_TOKEN_GOOD;
}

/* ---- who made it, and for whom ---- */

static bool is_ours(const json_t *audience, const struct sl_token_rules *rules)
{
    if (!json_is_string(audience))
        return false;
    for (unsigned i = 0; i < rules->audience_count; i++)
        if (sl_str_eq(sl_json_slice(audience), rules->audiences[i]))
            return true;
    return false;
}

static bool is_for_us(const json_t *claims, const struct sl_token_rules *rules)
{
    const json_t *aud = json_object_get(claims, "aud");

    if (rules->audience_count == 0 || is_ours(aud, rules))
        return true;
    for (size_t i = 0; i < json_array_size(aud); i++)
        if (is_ours(json_array_get(aud, i), rules))
            return true;
    return false;
}

enum sl_token_error sl_claims_check(const json_t *claims,
                                    const struct sl_token_rules *rules,
                                    sl_ns now, struct sl_token *ret)
{
    enum sl_token_error fault = check_times(claims, rules, now, ret);
    struct sl_str issuer;

    if (fault)
        return fault;
    if (rules->issuer.len > 0 &&
        (!sl_json_object_text(claims, "iss", &issuer) ||
         !sl_str_eq(issuer, rules->issuer)))
        return SL_TOKEN_ISSUER;
    return is_for_us(claims, rules) ? SL_TOKEN_GOOD : SL_TOKEN_AUDIENCE;
}

/* ---- as texts ---- */

struct copying {
    struct sl_arena *arena;
    struct sl_token *token;
};

static enum sl_token_error add(struct copying *c, struct sl_str path,
                               struct sl_str value)
{
    struct sl_token *token = c->token;
    char *bytes;

    for (unsigned i = 0; i < token->claim_count; i++)
        if (sl_str_eq(token->claims[i].path, path))
            return SL_TOKEN_MALFORMED;
    if (token->claim_count == SL_CLAIMS)
        return SL_TOKEN_TOO_LARGE;
    bytes = sl_arena_copy(c->arena, value);
    if (!bytes)
        return SL_TOKEN_NO_MEMORY;
    token->claims[token->claim_count++] = (struct sl_claim){
        path, {bytes, value.len}
    };
    return SL_TOKEN_GOOD;
}

static enum sl_token_error add_number(struct copying *c, struct sl_str path,
                                      int64_t number)
{
    char text[1 + SL_DIGITS] = "-";
    uint64_t size = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
    size_t sign = number < 0, len = sl_digits(size, text + sign);

    return add(c, path, (struct sl_str){text, sign + len});
}

/* Can the list be one text, its items parted by blanks? Its length, or 0. */
static size_t joined_len(const json_t *list)
{
    size_t len = 0;

    for (size_t i = 0; i < json_array_size(list); i++) {
        struct sl_str item = sl_json_slice(json_array_get(list, i));

        if (item.len == 0 || memchr(item.at, ' ', item.len))
            return 0;
        len += item.len + 1;
    }
    return len;
}

static enum sl_token_error add_list(struct copying *c, struct sl_str path,
                                    const json_t *list)
{
    size_t room = joined_len(list), len = 0;
    char *text;

    if (room == 0)
        return SL_TOKEN_GOOD;
    text = sl_arena_take(c->arena, room);
    if (!text)
        return SL_TOKEN_NO_MEMORY;
    for (size_t i = 0; i < json_array_size(list); i++) {
        struct sl_str item = sl_json_slice(json_array_get(list, i));

        memcpy(text + len, item.at, item.len);
        len += item.len;
        text[len++] = ' ';
    }
    return add(c, path, (struct sl_str){text, len - 1});
}

/* "outer.name", or "name" at the top; empty if that is too long. */
static bool path_of(struct copying *c, struct sl_str outer, struct sl_str name,
                    struct sl_str *ret)
{
    size_t before = outer.len ? outer.len + 1 : 0;
    char *path;

    *ret = (struct sl_str){NULL, 0};
    if (before + name.len > SL_CLAIM_PATH)
        return true;
    path = sl_arena_take(c->arena, before + name.len);
    if (!path)
        return false;
    if (before) {
        memcpy(path, outer.at, outer.len);
        path[outer.len] = '.';
    }
    memcpy(path + before, name.at, name.len);
    *ret = (struct sl_str){path, before + name.len};
    return true;
}

/* Objects in objects: as deep as object.h lets them be. */
static enum sl_token_error add_members(struct copying *c, struct sl_str outer,
                                       json_t *object)
{
    enum sl_token_error fault = SL_TOKEN_GOOD;
    struct sl_str path;
    const char *name;
    json_t *value;

    json_object_foreach(object, name, value)
    {
        if (!path_of(c, outer, sl_str_c(name), &path))
            return SL_TOKEN_NO_MEMORY;
        if (path.len == 0)
            continue;
        if (json_is_string(value))
            fault = add(c, path, sl_json_slice(value));
        else if (json_is_integer(value))
            fault = add_number(c, path, json_integer_value(value));
        else if (json_is_boolean(value))
            fault = add(c, path,
                        json_is_true(value) ? SL_STR("true") : SL_STR("false"));
        else if (json_is_array(value))
            fault = add_list(c, path, value);
        else if (json_is_object(value))
            fault = add_members(c, path, value);
        if (fault)
            return fault;
    }
    return SL_TOKEN_GOOD;
}

enum sl_token_error sl_claims_copy(json_t *claims, struct sl_arena *arena,
                                   struct sl_token *ret)
{
    struct copying c = {arena, ret};

    ret->claim_count = 0;
    return add_members(&c, (struct sl_str){NULL, 0}, claims);
}
