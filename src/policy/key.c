/* key.c -- templates of names: read, checked for their limit, and filled.
 *
 *     rl:{env}:{endpoint}:{scope}:{id}
 *
 * Three mistakes are refused. A template without a value of `per` merges the
 * states of callers. A template with another value splits a state. {org}-{user}
 * makes one name of (a-b, c) and (a, b-c): escaping keeps the dash, so between
 * two placeholders there must be a byte that escaping replaces.
 */
#include "policy/key.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"

#define KNOWN                                                                  \
    "{env}, {endpoint}, {name}, {scope}, {id}, {org}, {user}, {ip}, "          \
    "{user_type} and {window_start}"

/* For "%.*s": at most 40 bytes. */
#define QUOTE(s) (int)((s).len < 40 ? (s).len : 40), ((s).at ? (s).at : "")

/* ---- reading ---- */

struct reading {
    struct sl_str text;
    size_t at;
    struct sl_diag *diag;
    struct sl_key_piece *pieces;
    unsigned count;
    unsigned holds;
    char *room;   /* for literals: as many bytes as the text has */
    int last;     /* the last placeholder that varies; -1: none */
    bool parted;  /* since then, a byte that no value contains */
    size_t after; /* the end of that placeholder */
};

/* The placeholder for the word of another system, or a similar one. */
static const char *other_word(struct sl_str word)
{
    static const struct {
        const char *theirs, *ours;
    } rows[] = {
        {"tenant",      "org"         },
        {"tenantId",    "org"         },
        {"tenant_id",   "org"         },
        {"orgId",       "org"         },
        {"org_id",      "org"         },
        {"userId",      "user"        },
        {"user_id",     "user"        },
        {"userType",    "user_type"   },
        {"limitType",   "name"        },
        {"limit",       "name"        },
        {"scopeType",   "scope"       },
        {"scope-type",  "scope"       },
        {"scopeId",     "id"          },
        {"scope-id",    "id"          },
        {"key",         "id"          },
        {"windowStart", "window_start"},
    };

    for (size_t i = 0; i < SL_LEN(rows); i++)
        if (sl_str_eq_nocase(word, sl_str_c(rows[i].theirs)))
            return rows[i].ours;
    return sl_str_nearest(word, sl_key_hold_names, SL_KEY_HOLDS);
}

/* The hint is the text with the bytes [from, to) replaced. */
static void hint_instead(const struct reading *r, size_t from, size_t to,
                         const char *words)
{
    sl_diag_hint(r->diag, "%.*s%s%.*s", (int)from, r->text.at, words,
                 SL_STR_ARG(sl_str_from(r->text, to)));
}

static int refuse_word(const struct reading *r, struct sl_str word)
{
    const char *meant = other_word(word);
    size_t from = (size_t)(word.at - r->text.at);

    sl_diag_error_at(
        r->diag, SLUICE_ECONF, from - 1,
        "Unknown placeholder {%.*s} in a key. Valid placeholders: " KNOWN,
        QUOTE(word));
    if (meant)
        hint_instead(r, from, from + word.len, meant);
    return SLUICE_ECONF;
}

static bool varies(enum sl_key_hold hold)
{
    return hold != SL_KEY_ENV && hold != SL_KEY_NAME;
}

static int check_neighbour(const struct reading *r, enum sl_key_hold hold,
                           size_t from)
{
    if (!varies(hold) || r->last < 0 || r->parted)
        return 0;
    sl_diag_error_at(r->diag, SLUICE_ECONF, from,
                     "No separator between {%s} and {%s}, so different values "
                     "could produce the same key. Write a colon between them",
                     sl_key_hold_names[r->last], sl_key_hold_names[hold]);
    hint_instead(r, r->after, r->after, ":");
    return SLUICE_ECONF;
}

static int read_hold(struct reading *r)
{
    size_t from = r->at;
    struct sl_str word = sl_str_from(r->text, from + 1);
    const char *end = word.len ? memchr(word.at, '}', word.len) : NULL;
    int err;

    if (!end)
        return sl_diag_error_at(r->diag, SLUICE_ECONF, from,
                                "\"%.*s\" has no closing brace. Write {{ for a "
                                "literal brace",
                                QUOTE(sl_str_from(r->text, from)));
    word.len = (size_t)(end - word.at);
    for (unsigned i = 0; i < SL_KEY_HOLDS; i++) {
        if (!sl_str_eq(word, sl_str_c(sl_key_hold_names[i])))
            continue;
        err = check_neighbour(r, (enum sl_key_hold)i, from);
        if (err)
            return err;
        r->at = from + word.len + 2;
        r->pieces[r->count++] = (struct sl_key_piece){.hold = (int)i};
        r->holds |= 1U << i;
        if (varies((enum sl_key_hold)i)) {
            r->last = (int)i;
            r->parted = false;
            r->after = r->at;
        }
        return 0;
    }
    return refuse_word(r, word);
}

/* Can an escaped value contain the byte? */
static bool in_value(char c)
{
    char letter = (char)(c | 0x20);

    return (letter >= 'a' && letter <= 'z') || (c >= '0' && c <= '9') ||
           (c && strchr("-_.@~%", c));
}

/* Read up to the next placeholder. */
static int read_literal(struct reading *r)
{
    struct sl_str literal = {r->room, 0};

    for (; r->at < r->text.len; r->at++) {
        char c = r->text.at[r->at];
        bool twice = r->at + 1 < r->text.len && r->text.at[r->at + 1] == c;

        if (c == '{' && !twice)
            break;
        if (c == '}' && !twice)
            return sl_diag_error_at(r->diag, SLUICE_ECONF, r->at,
                                    "Unexpected closing brace. Write }} for a "
                                    "literal brace");
        if ((c & 0xe0) == 0 || c == 0x7f)
            return sl_diag_error_at(
                r->diag, SLUICE_ECONF, r->at,
                "A key must not contain control characters");
        r->at += c == '{' || c == '}';
        r->room[literal.len++] = c;
        r->parted = r->parted || !in_value(c);
    }
    r->room += literal.len;
    r->pieces[r->count++] =
        (struct sl_key_piece){.is_literal = true, .literal = literal};
    return 0;
}

int sl_key_template_read(struct sl_str text, struct sl_arena *arena,
                         struct sl_key_template *ret, struct sl_diag *diag)
{
    struct reading r = {.text = text, .diag = diag, .last = -1};
    int err = 0;

    if (text.len == 0)
        return sl_diag_error(diag, SLUICE_ECONF,
                             "Missing key. Write it like " SL_KEY_DEFAULT);
    if (text.len > SL_KEY_TEXT)
        return sl_diag_error(diag, SLUICE_ECONF,
                             "A key can have at most %d bytes, not %zu",
                             SL_KEY_TEXT, text.len);
    r.pieces = sl_arena_take(arena, text.len * sizeof(*r.pieces));
    r.room = sl_arena_take(arena, text.len);
    if (!r.pieces || !r.room)
        return SLUICE_ENOMEM;
    while (!err && r.at < text.len) {
        bool brace = text.at[r.at] == '{' &&
                     !(r.at + 1 < text.len && text.at[r.at + 1] == '{');

        err = brace ? read_hold(&r) : read_literal(&r);
    }
    if (!err)
        *ret = (struct sl_key_template){
            .pieces = r.pieces, .count = r.count, .holds = r.holds};
    return err;
}

/* ---- checking ---- */

static bool is_per(const struct sl_key_use *use, const char *scope)
{
    for (unsigned i = 0; i < use->scope_count; i++)
        if (sl_str_eq(use->scopes[i], sl_str_c(scope)))
            return true;
    return false;
}

static bool holds(const struct sl_key_template *key, enum sl_key_hold hold)
{
    return key->holds & 1U << hold;
}

static int check_splits(const struct sl_key_template *key,
                        const struct sl_key_use *use, struct sl_diag *diag)
{
    for (int i = SL_KEY_ORG; i <= SL_KEY_IP; i++) {
        const char *scope = sl_key_hold_names[i];

        if (holds(key, (enum sl_key_hold)i) && !is_per(use, scope))
            return sl_diag_error(
                diag, SLUICE_ECONF,
                "{%s} would split the state of the limit, which "
                "is not kept per %s. Remove it, or add %s to "
                "`per`",
                scope, scope, scope);
    }
    if (holds(key, SL_KEY_ENDPOINT) && use->endpoints > 1 &&
        !is_per(use, "endpoint"))
        return sl_diag_error(diag, SLUICE_ECONF,
                             "{endpoint} would split the state of the limit, "
                             "which %u endpoints share. Write {name}, or add "
                             "endpoint to `per`",
                             use->endpoints);
    if (holds(key, SL_KEY_WINDOW_START) && !use->windows)
        return sl_diag_error(
            diag, SLUICE_ECONF,
            "{window_start} is valid only for fixed windows. The "
            "state of other limits outlives a window");
    return 0;
}

static int check_merges(const struct sl_key_template *key,
                        const struct sl_key_use *use, struct sl_diag *diag)
{
    for (unsigned i = 0; i < use->scope_count; i++) {
        struct sl_str scope = use->scopes[i];
        bool named = holds(key, SL_KEY_ID);
        bool own = false;

        for (unsigned j = 0; j < SL_KEY_HOLDS; j++) {
            bool is =
                sl_str_eq(scope, sl_str_c(sl_key_hold_names[j])) &&
                (j == SL_KEY_ENDPOINT || (j >= SL_KEY_ORG && j <= SL_KEY_IP));

            own = own || is;
            named = named || (is && holds(key, (enum sl_key_hold)j));
        }
        if (named)
            continue;
        sl_diag_error(
            diag, SLUICE_ECONF,
            "The key would merge the state of every %.*s, but the limit "
            "is kept per %.*s. Add {%.*s}%s",
            QUOTE(scope), QUOTE(scope), QUOTE(own ? scope : SL_STR("id")),
            own ? " or {id}" : "");
        return SLUICE_ECONF;
    }
    return 0;
}

/* The address or fingerprint that replaces a missing attribute must differ from
 * its values. */
static int check_anonymous(const struct sl_key_template *key,
                           const struct sl_key_use *use, struct sl_diag *diag)
{
    bool user = false, other = false;

    for (unsigned i = 0; i < use->scope_count; i++) {
        struct sl_str scope = use->scopes[i];

        if (sl_str_eq(scope, SL_STR("user")))
            user = true;
        else if (!sl_str_eq(scope, SL_STR("ip")) &&
                 !sl_str_eq(scope, SL_STR("anon")) &&
                 !sl_str_eq(scope, SL_STR("endpoint")))
            other = true;
    }
    if (!use->anonymous || holds(key, SL_KEY_SCOPE) || !(user || other))
        return 0;
    if (!other && holds(key, SL_KEY_USER_TYPE))
        return 0;
    return sl_diag_error(
        diag, SLUICE_ECONF,
        "With `missing: anonymous`, a caller named like an "
        "address would share its state. Add {scope}%s, or write "
        "`missing: skip` or `missing: deny`",
        other ? "" : " or {user_type}");
}

int sl_key_template_check(const struct sl_key_template *key,
                          const struct sl_key_use *use, struct sl_diag *diag)
{
    int err = check_splits(key, use, diag);

    if (!err)
        err = check_merges(key, use, diag);
    if (!err)
        err = check_anonymous(key, use, diag);
    return err;
}

/* ---- keys of the table, and names of remote stores.
 *
 * In the table each value is
 *
 *     scope length (1 byte)  scope  value length (2 bytes)  value
 *
 * or, beyond SL_VALUE_MAX, FF FF for the length, the length in 8 bytes and a
 * fingerprint in 16. Numbers are little-endian.
 *
 * Invariants. (test/prop/key.c)
 *   (1) Different tuples have different bytes.
 *   (2) Different tuples of one limit have different names, whatever the
 *       template that sl_key_template_check() let pass.
 *   (3) A name that can't be finished leaves the buffer as it was.
 */

#define LONG_VALUE 0xffff /* instead of a value's length */

const char *const sl_key_hold_names[SL_KEY_HOLDS] = {
    "env", "endpoint", "name", "scope",     "id",
    "org", "user",     "ip",   "user_type", "window_start",
};

/* ---- for the table ---- */

static char *put_number(char *at, uint64_t n, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++)
        *at++ = (char)(n >> 8 * i & 0xff);
    return at;
}

static char *put_bytes(char *at, struct sl_str bytes)
{
    if (bytes.len > 0)
        memcpy(at, bytes.at, bytes.len);
    return at + bytes.len;
}

static char *put_value(char *at, struct sl_str value,
                       const struct sl_hash_key *secret)
{
    struct sl_hash128 fingerprint;

    if (value.len <= SL_VALUE_MAX)
        return put_bytes(put_number(at, value.len, 2), value);
    fingerprint = sl_hash128(secret, value);
    at = put_number(at, LONG_VALUE, 2);
    at = put_number(at, value.len, 8);
    at = put_number(at, fingerprint.lo, 8);
    return put_number(at, fingerprint.hi, 8);
}

size_t sl_key_bytes(const struct sl_key_value *values, unsigned count,
                    const struct sl_hash_key *secret, char out[SL_KEY_MAX])
{
    char *at = out;

    for (unsigned i = 0; i < count; i++) {
        at = put_number(at, values[i].scope.len, 1);
        at = put_bytes(at, values[i].scope);
        at = put_value(at, values[i].value, secret);
    }
    return (size_t)(at - out);
}

/* ---- for a store ---- */

static int add_escaped(struct sl_buf *out, struct sl_str text)
{
    size_t len = text.len;
    char *at;
    int err;

    for (size_t i = 0; i < text.len; i++)
        len += sl_key_is_plain((unsigned char)text.at[i]) ? 0 : 2;
    if (len == text.len) /* as nearly always */
        return sl_buf_add(out, text);
    err = sl_buf_reserve(out, len);
    if (err)
        return err;
    at = out->bytes + out->len;
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.at[i];

        if (sl_key_is_plain(c)) {
            *at++ = (char)c;
            continue;
        }
        *at++ = '%';
        *at++ = "0123456789ABCDEF"[c >> 4];
        *at++ = "0123456789ABCDEF"[c & 15];
    }
    out->len += len;
    return 0;
}

/* A long value becomes %~LENGTH~FINGERPRINT, which no escaped value looks like.
 * The fingerprint has no secret: two long values that are made to have the same
 * fingerprint share a state. */
int sl_key_add_value(struct sl_buf *out, struct sl_str value)
{
    static const struct sl_hash_key known = {0x736c756963652d6b,
                                             0x65792d6e616d6573};
    struct sl_hash128 fingerprint;

    if (value.len <= SL_VALUE_MAX)
        return add_escaped(out, value);
    fingerprint = sl_hash128(&known, value);
    return sl_buf_addf(out, "%%~%zu~%016" PRIx64 "%016" PRIx64, value.len,
                       fingerprint.hi, fingerprint.lo);
}

static int add_scopes(struct sl_buf *out, const struct sl_key_value *values,
                      unsigned count)
{
    int err = 0;

    if (count == 0)
        return sl_buf_add(out, SL_STR("all"));
    for (unsigned i = 0; i < count && !err; i++) {
        if (i > 0)
            err = sl_buf_add(out, SL_STR(":"));
        if (!err)
            err = add_escaped(out, values[i].scope);
    }
    return err;
}

/* A tagged value is in braces: it chooses the cluster slot. */
static int add_tagged(struct sl_buf *out, struct sl_str value, bool tagged)
{
    int err;

    if (!tagged)
        return sl_key_add_value(out, value);
    err = sl_buf_add(out, SL_STR("{"));
    if (!err)
        err = sl_key_add_value(out, value);
    return err ? err : sl_buf_add(out, SL_STR("}"));
}

static int add_values(struct sl_buf *out, const struct sl_key_value *values,
                      unsigned count, unsigned tag)
{
    int err = 0;

    for (unsigned i = 0; i < count && !err; i++) {
        if (i > 0)
            err = sl_buf_add(out, SL_STR(":"));
        if (!err)
            err = add_tagged(out, values[i].value, tag == i + 1);
    }
    return err;
}

static const struct sl_key_value *find(const struct sl_key_value *values,
                                       unsigned count, struct sl_str scope)
{
    for (unsigned i = 0; i < count; i++)
        if (sl_str_eq(values[i].scope, scope))
            return &values[i];
    return NULL;
}

/* The value of `scope`, or what replaces it for an anonymous caller. `anon`
 * comes before `ip`, because `per` can contain ip, too. */
static int add_scope(struct sl_buf *out, const struct sl_key_value *values,
                     unsigned count, const char *scope, unsigned tag)
{
    const struct sl_key_value *found = find(values, count, sl_str_c(scope));

    if (!found)
        found = find(values, count, SL_STR("anon"));
    if (!found)
        found = find(values, count, SL_STR("ip"));
    return found ? add_tagged(out, found->value, tag == found - values + 1) : 0;
}

static int add_hold(struct sl_buf *out, enum sl_key_hold hold,
                    const struct sl_key_context *context,
                    const struct sl_key_value *values, unsigned count)
{
    const struct sl_key_value *found;

    switch (hold) {
    case SL_KEY_ENV:
        return add_escaped(out, context->env);
    case SL_KEY_ENDPOINT:
        found = find(values, count, SL_STR("endpoint"));
        return found ? add_tagged(out, found->value,
                                  context->tag == found - values + 1)
                     : add_escaped(out, context->endpoint);
    case SL_KEY_NAME:
        return add_escaped(out, context->name);
    case SL_KEY_SCOPE:
        return add_scopes(out, values, count);
    case SL_KEY_ID:
        return add_values(out, values, count, context->tag);
    case SL_KEY_USER_TYPE:
        return sl_buf_add(out, find(values, count, SL_STR("user"))
                                   ? SL_STR("user")
                                   : SL_STR("anon"));
    case SL_KEY_WINDOW_START:
        return sl_buf_addf(out, "%" PRIu64, context->window_start_ms);
    default:
        return add_scope(out, values, count, sl_key_hold_names[hold],
                         context->tag);
    }
}

int sl_key_name(const struct sl_key_template *key,
                const struct sl_key_context *context,
                const struct sl_key_value *values, unsigned count,
                struct sl_buf *out)
{
    size_t before = out->len;
    int err = 0;

    for (unsigned i = 0; i < key->count && !err; i++) {
        const struct sl_key_piece *piece = &key->pieces[i];

        if (piece->is_literal)
            err = sl_buf_add(out, piece->literal);
        else
            err = add_hold(out, piece->hold, context, values, count);
    }
    if (err)
        out->len = before; /* (3) */
    return err;
}
