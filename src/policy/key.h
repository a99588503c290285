/* key.h -- what a limit's state is called.
 *
 * In the table: the values of the limit's `per`, each with its scope and its
 * length before it, so that no two tuples of values ever make one key.
 *
 * In stores that share state: a name from the limit's template. Values are
 * escaped in it (anything but letters, digits, `-`, `_`, `.`, `@` and `~` as
 * %XX), so that separators in a value never look like separators in a template.
 * A template must name every value that the limit is kept for, or states would
 * merge, and none else, or one would split.
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
    SL_KEY_SCOPE, /* the scopes' names, joined by ':' : "user", "org:user";
                   * "all" for a limit that is one for all */
    SL_KEY_ID,    /* the values, joined by ':' */
    SL_KEY_ORG,   /* this one and the next: what stands in its place if the */
    SL_KEY_USER,  /* caller has none */
    SL_KEY_IP,
    SL_KEY_USER_TYPE, /* "anon" if the caller's user is not known, else "user"
                       */
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

/* Stands behind the name of a limit's candidate. No template has it. */
#define SL_KEY_CANDIDATE "#candidate"

/* Cut a template. `{{` and `}}` are a brace. Refuses words that it does not
 * know, and two placeholders without a byte between them that no value can
 * contain ("{org}{user}", "{org}-{user}"): different values would make one
 * name. Pieces and literals live in `arena`. */
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

/* The bytes for the table, into `out` (SL_KEY_MAX of room). `count` <=
 * SL_PER_MAX; values beyond SL_VALUE_MAX go in as their length and a 128-bit
 * fingerprint under `secret` (base/hash.h). Scopes must be shorter than 256
 * bytes. Returns the length. */
size_t sl_key_bytes(const struct sl_key_value *values, unsigned count,
                    const struct sl_hash_key *secret, char out[SL_KEY_MAX]);

/* What fills a template beside the values. */
struct sl_key_context {
    struct sl_str env, endpoint, name;
    uint64_t window_start_ms;
    unsigned tag; /* which of the values stands in braces, from 1; 0: none */
    const struct sl_key_use *use; /* for sl_key_templates_collide() only: what
                                   * the limit is per; NULL = unknown */
};

/* The name for a shared store, appended to `out`. Values beyond SL_VALUE_MAX
 * go in as a fingerprint without a secret, for all who share the store must
 * find the same name. SLUICE_EFULL, SLUICE_ENOMEM: nothing was appended. */
SL_MUST_USE int sl_key_name(const struct sl_key_template *key,
                            const struct sl_key_context *context,
                            const struct sl_key_value *values, unsigned count,
                            struct sl_buf *out);

/* A value as it stands in a name, escaped or as a fingerprint. */
SL_MUST_USE int sl_key_add_value(struct sl_buf *out, struct sl_str value);

/* Is the template right for a limit per `scopes`? Refuses one that leaves out
 * a value (merges) or has one that the limit is not per (splits):
 *   {id} stands for all values; {org} {user} {ip} for one of them each, and
 *   {user_type} {scope} for none; all values must be there.
 *   {org}, {user}, {ip} that the limit is not per: splits.
 *   {endpoint} if `endpoints` > 1 (how many endpoints use the limit) and
 *   `endpoint` is not among the scopes: splits.
 *   {window_start}: only where `windows` (fixed windows).
 * A `missing: anonymous` limit (`anonymous` true) needs {scope} or {user_type}
 * beside the value, or a user called like an address would meet it. {user_type}
 * is enough only where `user` is all that can be missing: it says nothing of
 * an org. */
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

/* Could the two templates ever make the same name? The contexts have what
 * {env}, {name} and {endpoint} stand for in each (empty = unknown, could be
 * anything), and in `use` what each limit is per, without which {scope} could
 * be anything too. Errs on the side of yes. */
bool sl_key_templates_collide(const struct sl_key_template *a,
                              const struct sl_key_context *a_context,
                              const struct sl_key_template *b,
                              const struct sl_key_context *b_context);

/* The same for many templates: what is to be known of one is found out once,
 * and then a pair costs little. A form lives in `arena`, without the template
 * and the context; NULL without memory. */
struct sl_key_form;
SL_MUST_USE struct sl_key_form *
sl_key_form(const struct sl_key_template *key,
            const struct sl_key_context *context, struct sl_arena *arena);
bool sl_key_forms_collide(const struct sl_key_form *a,
                          const struct sl_key_form *b);

#endif
