/* key.c -- what a limit's state is called: in the table, and in a store.
 *
 * In the table a key is bytes. Each value is
 *
 *     scope length (1 byte)  scope  value length (2 bytes)  value
 *
 * or, beyond SL_VALUE_MAX, FF FF for the length, the length in 8 bytes and a
 * fingerprint in 16. Numbers are little-endian. Nothing can be read in two
 * ways, so two tuples with the same bytes are the same tuple.
 *
 * In a store a key is a name that people read. Values are escaped there, and a
 * template has between any two of its placeholders a byte that no escaped
 * value contains (key_template.c sees to that). Since a limit always has the
 * same number of values, the name falls apart in one way only.
 *
 * Invariants. (test/prop/key.c)
 *   (1) Different tuples have different bytes.
 *   (2) Different tuples of one limit have different names, whatever the
 *       template that sl_key_template_check() let pass.
 *   (3) A name that can't be finished leaves the buffer as it was.
 */
#include "policy/key.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"

#define LONG_VALUE 0xffff /* in the place of a value's length */

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
    struct sl_hash128 print;

    if (value.len <= SL_VALUE_MAX)
        return put_bytes(put_number(at, value.len, 2), value);
    print = sl_hash128(secret, value);
    at = put_number(at, LONG_VALUE, 2);
    at = put_number(at, value.len, 8);
    at = put_number(at, print.lo, 8);
    return put_number(at, print.hi, 8);
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

/* A value, escaped. One that is too long becomes %~LENGTH~FINGERPRINT, which
 * no escaped value looks like. The fingerprint has no secret, so somebody may
 * find two long values that share it: then those two share a state. */
int sl_key_add_value(struct sl_buf *out, struct sl_str value)
{
    static const struct sl_hash_key known = {0x736c756963652d6b,
                                             0x65792d6e616d6573};
    struct sl_hash128 print;

    if (value.len <= SL_VALUE_MAX)
        return add_escaped(out, value);
    print = sl_hash128(&known, value);
    return sl_buf_addf(out, "%%~%zu~%016" PRIx64 "%016" PRIx64, value.len,
                       print.hi, print.lo);
}

/* All of them, joined. */
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

/* One that may be tagged: in braces, by which a cluster goes. */
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

/* The value of `scope`; or what stands in its place for an anonymous caller,
 * which is called so. `anon` goes before `ip`, for a limit may be per ip too.
 */
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
