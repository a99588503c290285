/* key.h -- the key of a limit's state.
 *
 * In the table: the values of `per`, each with its scope and its length, so
 * that different tuples never have one key.
 *
 * In remote stores: a name from the limit's template. Values are escaped (all
 * but letters, digits, `-`, `_`, `.`, `@` and `~` as %XX). A template must name
 * every value of `per`, or states would merge, and no other, or a state would
 * split.
 */
#ifndef SL_POLICY_KEY_H
#define SL_POLICY_KEY_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/diag.h"

struct sl_hash_key;
struct sl_key_use;

#define SL_PER_MAX   4   /* scopes of one limit */
#define SL_VALUE_MAX 512 /* bytes of a value; longer ones are hashed */
#define SL_KEY_MAX   (SL_PER_MAX * (SL_VALUE_MAX + 260))

enum sl_key_hold {
    SL_KEY_ENV,
    SL_KEY_ENDPOINT,
    SL_KEY_NAME,
    SL_KEY_SCOPE, /* scopes, joined by ':' : "org:user"; "all" without `per` */
    SL_KEY_ID,    /* values, joined by ':' */
    SL_KEY_ORG,   /* or what replaces a missing value; also USER */
    SL_KEY_USER,
    SL_KEY_IP,
    SL_KEY_USER_TYPE,    /* "user", or "anon" if the user is not known */
    SL_KEY_WINDOW_START, /* ms */
    SL_KEY_HOLDS
};

extern const char *const sl_key_hold_names[SL_KEY_HOLDS];

struct sl_key_piece {
    bool is_literal;
    enum sl_key_hold hold;
    struct sl_str literal;
};

struct sl_key_template {
    const struct sl_key_piece *pieces;
    unsigned count;
    unsigned holds; /* bits, 1 << enum sl_key_hold */
};

#define SL_KEY_DEFAULT "sluice:{env}:{name}:{scope}:{id}"

#define SL_KEY_TEXT 256 /* bytes of a template */

/* Behind the name of a candidate. No template has it. */
#define SL_KEY_CANDIDATE "#candidate"

/* Read a template into `arena`. `{{` and `}}` are literal braces. Refuses
 * unknown placeholders, and two placeholders without a byte between them that
 * no value contains ("{org}-{user}"): different values would make one name. */
SL_MUST_USE int sl_key_template_read(struct sl_str text, struct sl_arena *arena,
                                     struct sl_key_template *ret,
                                     struct sl_diag *diag);

/* Does escaping leave the byte alone? Letters, digits, - _ . @ ~ */
static inline bool sl_key_is_plain(unsigned char c)
{
    unsigned char letter = c | 0x20;

    return (letter >= 'a' && letter <= 'z') || (c >= '0' && c <= '9') ||
           c == '-' || c == '_' || c == '.' || c == '@' || c == '~';
}

/* One value of a key: "user" and "ann". */
struct sl_key_value {
    struct sl_str scope;
    struct sl_str value;
};

/* The bytes for the table; returns their length. `count` <= SL_PER_MAX. A value
 * beyond SL_VALUE_MAX is replaced by its length and a fingerprint with
 * `secret`. Scopes must be shorter than 256 bytes. */
size_t sl_key_bytes(const struct sl_key_value *values, unsigned count,
                    const struct sl_hash_key *secret, char out[SL_KEY_MAX]);

struct sl_key_context {
    struct sl_str env, endpoint, name;
    uint64_t window_start_ms;
    unsigned tag; /* which of the values is in braces, from 1; 0: none */
    const struct sl_key_use *use; /* for collisions only; NULL: unknown */
};

/* Append the name for a remote store. A value beyond SL_VALUE_MAX is replaced
 * by a fingerprint without a secret, because all nodes must use the same name.
 * SLUICE_EFULL, SLUICE_ENOMEM: nothing is appended. */
SL_MUST_USE int sl_key_name(const struct sl_key_template *key,
                            const struct sl_key_context *context,
                            const struct sl_key_value *values, unsigned count,
                            struct sl_buf *out);

/* Append a value of a name, escaped or as a fingerprint. */
SL_MUST_USE int sl_key_add_value(struct sl_buf *out, struct sl_str value);

/* Is the template valid for a limit per `scopes`? Refuses one without a value
 * (it merges) or with a value that is not in `per` (it splits):
 *   {id} has all values; {org} {user} {ip} one each; {user_type} {scope} none.
 *   {org}, {user}, {ip} not in `per`: splits.
 *   {endpoint} with several `endpoints` and not in `per`: splits.
 *   {window_start}: only for fixed windows (`windows`).
 * With `missing: anonymous` (`anonymous`), {scope} or {user_type} is required,
 * or a user named like an address would share its state. {user_type} is enough
 * only if no other scope than `user` can be missing. */
struct sl_key_use {
    const struct sl_str *scopes;
    unsigned scope_count;
    unsigned endpoints;
    bool windows;
    bool anonymous;
};
SL_MUST_USE int sl_key_template_check(const struct sl_key_template *key,
                                      const struct sl_key_use *use,
                                      struct sl_diag *diag);

/* Could the two templates make the same name? Empty texts of the contexts, and
 * no `use`, are unknown and can be anything. May be true by mistake, never
 * false. */
bool sl_key_templates_collide(const struct sl_key_template *a,
                              const struct sl_key_context *a_context,
                              const struct sl_key_template *b,
                              const struct sl_key_context *b_context);

/* The same for many templates: each is prepared once, in `arena`. NULL without
 * memory. */
struct sl_key_form;
SL_MUST_USE struct sl_key_form *
sl_key_form(const struct sl_key_template *key,
            const struct sl_key_context *context, struct sl_arena *arena);
bool sl_key_forms_collide(const struct sl_key_form *a,
                          const struct sl_key_form *b);

#endif
