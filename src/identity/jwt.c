/* verify.c -- is this text a token that we believe?
 *
 * In this order: the shape, the header, the keys, the signature, the claims.
 * Nothing in the payload is looked at before the signature was found good, and
 * nothing in the header chooses more than a key by its name.
 */
#include "identity/jwt.h"

#include <string.h>

#include "identity/jose/base64url.h"
#include "identity/jose/claims.h"
#include "identity/jose/keyset.h"
#include "identity/jose/object.h"
#include "identity/jose/signature.h"

/* A token without a key's name is tried with so many: each costs a check. */
#define TRIED_MOST 4

struct parts {
    struct sl_str header, payload, signature; /* decoded */
    struct sl_str text;                       /* what was signed */
};

struct asked {
    const struct sl_alg *alg;
    bool has_kid;
    struct sl_str kid; /* in the arena */
};

/* ---- the shape ---- */

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

/* ---- the header ---- */

/* Where to find a key, how to read the rest differently, and extensions: none
 * of it is for the sender to say. */
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

/* ---- the keys ---- */

static bool is_called(const struct sl_jwk *key, struct sl_str kid)
{
    return key->has_kid &&
           sl_str_eq((struct sl_str){key->kid, key->kid_len}, kid);
}

/* The only key of the set that has no name, or NULL. */
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

/* The keys to try: those of that name, or the only one that has none; without
 * a name, those that fit. */
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
    /* A key of that name is there, but pinned to another algorithm. */
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

/* ---- the claims ---- */

static enum sl_token_error read_claims(struct sl_str text,
                                       const struct sl_token_rules *rules,
                                       sl_ns now, struct sl_arena *arena,
                                       struct sl_token *ret)
{
    json_t *claims;
    enum sl_token_error fault = read_object(text, &claims);

    if (!fault)
        fault = sl_claims_check(claims, rules, now, ret);
    if (!fault)
        fault = sl_claims_copy(claims, arena, ret);
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
