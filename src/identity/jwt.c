/* jwt.c -- verifies a token.
 *
 * In this order: shape, header, keys, signature, claims. The payload is not
 * read before the signature is verified. The header chooses nothing but a key
 * by its name.
 */
#include "identity/jwt.h"

#include <string.h>

#include "base/arith.h"
#include "base/str.h"
#include "identity/jwk.h"

/* Most keys tried for a token without a key name: each costs a check. */
#define TRIED_MOST 4

struct parts {
    struct sl_str header, payload, signature; /* decoded */
    struct sl_str text;                       /* the signed text */
};

struct asked {
    const struct sl_alg *alg;
    bool has_kid;
    struct sl_str kid; /* in the arena */
};

/* ---- shape ---- */

static enum sl_token_error decode(struct sl_str text, struct sl_arena *arena,
                                  struct sl_str *ret)
{
    int err = sl_base64url_copy(text, arena, ret);

    if (!err)
        return SL_TOKEN_GOOD;
    return err == SLUICE_ENOMEM ? SL_TOKEN_NO_MEMORY : SL_TOKEN_MALFORMED;
}

/* Exactly two dots. Only the payload may be empty. */
static enum sl_token_error split(struct sl_str text, struct sl_arena *arena,
                                 struct parts *ret)
{
    const char *end = text.at + text.len;
    const char *one = text.len ? memchr(text.at, '.', text.len) : NULL;
    const char *two =
        one ? memchr(one + 1, '.', (size_t)(end - one) - 1) : NULL;
    enum sl_token_error fault;

    if (!two || one == text.at || two + 1 == end ||
        memchr(two + 1, '.', (size_t)(end - two) - 1))
        return SL_TOKEN_MALFORMED;
    ret->text = (struct sl_str){text.at, (size_t)(two - text.at)};
    fault = decode((struct sl_str){text.at, (size_t)(one - text.at)}, arena,
                   &ret->header);
    if (!fault)
        fault = decode((struct sl_str){one + 1, (size_t)(two - one) - 1}, arena,
                       &ret->payload);
    if (!fault)
        fault = decode((struct sl_str){two + 1, (size_t)(end - two) - 1}, arena,
                       &ret->signature);
    return fault;
}

static enum sl_token_error read_object(struct sl_str text, json_t **ret)
{
    struct sl_json_object_why why;

    *ret = sl_json_object_read(text, &why);
    if (*ret)
        return SL_TOKEN_GOOD;
    if (why.fault == SL_OBJECT_NO_MEMORY)
        return SL_TOKEN_NO_MEMORY;
    return why.fault == SL_OBJECT_DEEP ? SL_TOKEN_TOO_LARGE
                                       : SL_TOKEN_MALFORMED;
}

/* ---- header ---- */

/* Members by which a sender would choose the key or the format. */
static bool has_refused(const json_t *header)
{
    static const char *const names[] = {"crit", "b64", "zip", "jku",
                                        "jwk",  "x5u", "x5c"};

    for (size_t i = 0; i < SL_LEN(names); i++)
        if (json_object_get(header, names[i]))
            return true;
    return false;
}

static enum sl_token_error read_kid(const json_t *header,
                                    struct sl_arena *arena, struct asked *ret)
{
    const json_t *kid = json_object_get(header, "kid");
    size_t len = json_string_length(kid);
    char *copy;

    if (!kid)
        return SL_TOKEN_GOOD;
    if (!json_is_string(kid))
        return SL_TOKEN_MALFORMED;
    if (len > SL_KID_BYTES)
        return SL_TOKEN_TOO_LARGE;
    copy = sl_arena_copy(arena, sl_json_slice(kid));
    if (!copy)
        return SL_TOKEN_NO_MEMORY;
    ret->kid = (struct sl_str){copy, len};
    ret->has_kid = true;
    return SL_TOKEN_GOOD;
}

static enum sl_token_error read_fields(const json_t *header, unsigned allowed,
                                       struct sl_arena *arena,
                                       struct asked *ret)
{
    struct sl_str alg;

    if (has_refused(header))
        return SL_TOKEN_HEADER;
    if (!sl_json_object_text(header, "alg", &alg))
        return SL_TOKEN_MALFORMED;
    ret->alg = sl_alg_of(sl_algorithm_of(alg));
    if (!ret->alg || (allowed && !(ret->alg->bit & allowed)))
        return SL_TOKEN_ALGORITHM;
    return read_kid(header, arena, ret);
}

static enum sl_token_error read_header(struct sl_str text, unsigned allowed,
                                       struct sl_arena *arena,
                                       struct asked *ret)
{
    json_t *header;
    enum sl_token_error fault = read_object(text, &header);

    if (!fault)
        fault = read_fields(header, allowed, arena, ret);
    json_decref(header);
    return fault;
}

/* ---- keys ---- */

static bool is_called(const struct sl_jwk *key, struct sl_str kid)
{
    return key->has_kid &&
           sl_str_eq((struct sl_str){key->kid, key->kid_len}, kid);
}

/* Returns the only key of the set without a name, or NULL. */
static const struct sl_jwk *nameless(const struct sl_keyset *set)
{
    const struct sl_jwk *found = NULL;

    for (unsigned i = 0; i < set->count; i++)
        if (!set->keys[i].has_kid) {
            if (found)
                return NULL;
            found = &set->keys[i];
        }
    return found;
}

/* Selects the keys to try: those of the name, or the only one without a name;
 * for a token without a key name, all that fit. */
static enum sl_token_error choose(const struct sl_keyset *set,
                                  const struct asked *asked,
                                  const struct sl_jwk *ret[TRIED_MOST],
                                  unsigned *ret_count)
{
    const struct sl_jwk *lone = asked->has_kid ? nameless(set) : NULL;
    unsigned count = 0, named = 0;

    for (unsigned i = 0; i < set->count && count < TRIED_MOST; i++) {
        const struct sl_jwk *key = &set->keys[i];

        if (asked->has_kid && !is_called(key, asked->kid))
            continue;
        named++;
        if (key->algorithms & asked->alg->bit)
            ret[count++] = key;
    }
    if (named == 0 && lone) {
        named++;
        if (lone->algorithms & asked->alg->bit)
            ret[count++] = lone;
    }
    *ret_count = count;
    if (count > 0)
        return SL_TOKEN_GOOD;
    /* A key of that name exists for another algorithm only. */
    return asked->has_kid && named > 0 ? SL_TOKEN_ALGORITHM : SL_TOKEN_NO_KEY;
}

static enum sl_token_error check_signature(const struct sl_keyset *set,
                                           const struct asked *asked,
                                           const struct parts *parts)
{
    const struct sl_jwk *keys[TRIED_MOST];
    unsigned count = 0;
    enum sl_token_error fault = choose(set, asked, keys, &count);

    for (unsigned i = 0; i < count; i++) {
        fault = sl_signature_check(keys[i], asked->alg, parts->text,
                                   parts->signature);
        if (fault != SL_TOKEN_SIGNATURE)
            break;
    }
    return fault;
}

/* ---- claims of a verified token.
 *
 * Times are seconds since 1970: whole numbers, also written as 1700000000.0.
 * Numbers beyond 2^53 are not exact in JSON, and times before 1970 are refused.
 */

#define SECONDS_MOST (INT64_C(1) << 53)

/* ---- times ---- */

/* jansson returns reals as doubles; nothing is computed with them. */
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

/* Reads the time of claim `name`, SL_NS_NONE without one. Returns false if it
 * is no time. */
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

/* exp is the first instant at which the token is expired, nbf the first at
 * which it is valid. A token issued in the future is rejected. */
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

/* ---- issuer and audience ---- */

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

/* Checks times, issuer and audience. Sets ret->expires and ret->begins, also if
 * the token is rejected for them. */
static enum sl_token_error check_claims(const json_t *claims,
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

/* Returns the length of the list joined by spaces, or 0 if that would be
 * ambiguous. */
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

/* Makes "outer.name", or "name" at the top; empty if that is too long. */
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

/* Recurses into objects, at most SL_OBJECT_DEPTH deep. */
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

/* Copies claims to ret->claims and `arena`: texts, whole numbers, booleans and
 * lists of texts; members of objects by their path. Omits values without a text
 * form (null, fractions, other lists), names that are empty or longer than
 * SL_CLAIM_PATH, and lists with an item that is empty or has a space. Returns
 * SL_TOKEN_MALFORMED for two claims of one path ("a.b", and b in a),
 * SL_TOKEN_TOO_LARGE for more than SL_CLAIMS. */
static enum sl_token_error copy_claims(json_t *claims, struct sl_arena *arena,
                                       struct sl_token *ret)
{
    struct copying c = {arena, ret};

    ret->claim_count = 0;
    return add_members(&c, (struct sl_str){NULL, 0}, claims);
}

static enum sl_token_error read_claims(struct sl_str text,
                                       const struct sl_token_rules *rules,
                                       sl_ns now, struct sl_arena *arena,
                                       struct sl_token *ret)
{
    json_t *claims;
    enum sl_token_error fault = read_object(text, &claims);

    if (!fault)
        fault = check_claims(claims, rules, now, ret);
    if (!fault)
        fault = copy_claims(claims, arena, ret);
    json_decref(claims);
    return fault;
}

enum sl_token_error sl_token_verify(const struct sl_keyset *set,
                                    const struct sl_token_rules *rules,
                                    struct sl_str text, sl_ns now,
                                    struct sl_arena *arena,
                                    struct sl_token *ret, struct sl_str *kid)
{
    struct parts parts;
    struct asked asked = {.alg = NULL};
    enum sl_token_error fault;

    ret->claim_count = 0;
    ret->expires = SL_NS_NONE;
    ret->begins = 0;
    if (text.len > SL_TOKEN_BYTES)
        return SL_TOKEN_TOO_LARGE;
    fault = split(text, arena, &parts);
    if (!fault)
        fault = read_header(parts.header, rules->algorithms, arena, &asked);
    if (!fault)
        fault = check_signature(set, &asked, &parts);
    if (fault == SL_TOKEN_NO_KEY && kid)
        *kid = asked.kid;
    if (!fault && !rules->signature_only)
        fault = read_claims(parts.payload, rules, now, arena, ret);
    return fault;
}
