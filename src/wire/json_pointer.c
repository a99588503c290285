/* json_pointer.c -- one value of a JSON text, by a pointer (RFC 6901).
 *
 *     pointer   = *( "/" token )
 *     token     = *( any byte but "/" and "~", or "~0" for "~", "~1" for "/" )
 *
 * Strict: the whole text must be valid JSON, and no object on the way may have
 * the name twice, because readers differ in which of them counts. The text is
 * read once for each token, so that a value is found only if the rest is valid.
 * Depth and memory are bounded.
 */
#include <string.h>

#include "wire/json.h"

#define TOKENS 8
#define DEPTH  64

/* ---- pointers ---- */

bool sl_json_pointer_ok(struct sl_str pointer)
{
    unsigned tokens = 0;

    if (pointer.len == 0 || pointer.len > SL_JSON_POINTER ||
        pointer.at[0] != '/')
        return false;
    for (size_t i = 0; i < pointer.len; i++) {
        unsigned char c = (unsigned char)pointer.at[i];

        tokens += c == '/';
        if (c < 0x20 || c == 0x7f)
            return false;
        if (c == '~' && (i + 1 == pointer.len || (pointer.at[i + 1] != '0' &&
                                                  pointer.at[i + 1] != '1')))
            return false;
    }
    return tokens <= TOKENS;
}

/* The first token, as written; *pointer is the rest. */
static struct sl_str cut_token(struct sl_str *pointer)
{
    struct sl_str rest = sl_str_from(*pointer, 1);
    const char *slash = rest.len > 0 ? memchr(rest.at, '/', rest.len) : NULL;
    size_t len = slash ? (size_t)(slash - rest.at) : rest.len;

    *pointer = sl_str_from(rest, len);
    return (struct sl_str){rest.at, len};
}

static bool is_token(struct sl_str token, struct sl_str name)
{
    size_t at = 0;

    for (size_t i = 0; i < token.len; i++, at++) {
        char c = token.at[i];

        if (c == '~')
            c = token.at[++i] == '0' ? '~' : '/';
        if (at == name.len || name.at[at] != c)
            return false;
    }
    return at == name.len;
}

/* An index: digits without leading zeros. */
static bool read_index(struct sl_str token, uint64_t *ret)
{
    uint64_t n = 0;

    if (token.len == 0 || token.len > 9 ||
        (token.at[0] == '0' && token.len > 1))
        return false;
    for (size_t i = 0; i < token.len; i++) {
        if (token.at[i] < '0' || token.at[i] > '9')
            return false;
        n = n * 10 + (uint64_t)(token.at[i] - '0');
    }
    *ret = n;
    return true;
}

/* ---- values that are passed over ---- */

static size_t pass_digits(struct sl_json_reader *r)
{
    size_t from = r->at;

    while (r->at < r->text.len && r->text.at[r->at] >= '0' &&
           r->text.at[r->at] <= '9')
        r->at++;
    return r->at - from;
}

static bool is_here(const struct sl_json_reader *r, char a, char b)
{
    return r->at < r->text.len &&
           (r->text.at[r->at] == a || r->text.at[r->at] == b);
}

/* *ret_whole: it has no fraction and no exponent. */
static bool pass_number(struct sl_json_reader *r, bool *ret_whole)
{
    size_t digits, from;

    *ret_whole = true;
    if (is_here(r, '-', '-'))
        r->at++;
    from = r->at;
    digits = pass_digits(r);
    if (digits == 0 || (digits > 1 && r->text.at[from] == '0'))
        return false;
    if (is_here(r, '.', '.')) {
        *ret_whole = false;
        r->at++;
        if (pass_digits(r) == 0)
            return false;
    }
    if (is_here(r, 'e', 'E')) {
        *ret_whole = false;
        r->at++;
        if (is_here(r, '+', '-'))
            r->at++;
        return pass_digits(r) > 0;
    }
    return true;
}

/* A value without brackets. Texts are decoded to be checked, and forgotten. */
static bool pass_scalar(struct sl_json_reader *r)
{
    struct sl_str text;
    bool flag;

    switch (sl_json_peek(r)) {
    case SL_JSON_STRING:
        sl_arena_reset(r->arena);
        return sl_json_text(r, &text);
    case SL_JSON_NUMBER:
        return pass_number(r, &flag);
    case SL_JSON_BOOL:
        return sl_json_bool(r, &flag);
    case SL_JSON_NULL:
        return sl_json_null(r);
    default:
        return false;
    }
}

/* Any value. The bits of `objects` say which open brackets are braces. */
static bool pass(struct sl_json_reader *r)
{
    uint64_t objects = 0;
    unsigned depth = 0;
    struct sl_str name;

    for (;;) {
        enum sl_json_kind kind = sl_json_peek(r);
        bool object = kind == SL_JSON_OBJECT;

        if (object || kind == SL_JSON_ARRAY) {
            if (depth == DEPTH || !sl_json_enter(r, object ? '{' : '['))
                return false;
            objects = objects << 1 | object;
            depth++;
        } else if (!pass_scalar(r)) {
            return false;
        }
        for (; depth > 0; depth--, objects >>= 1) {
            sl_arena_reset(r->arena);
            if (objects & 1 ? sl_json_member(r, &name) : sl_json_item(r))
                break;
            if (r->why)
                return false;
        }
        if (depth == 0)
            return true;
    }
}

bool sl_json_value(struct sl_json_reader *r, struct sl_arena *scratch,
                   struct sl_str *ret)
{
    struct sl_arena *arena = r->arena;
    size_t from;
    bool good;

    (void)!sl_json_peek(r); /* skips blanks */
    from = r->at;
    r->arena = scratch;
    good = pass(r);
    r->arena = arena;
    if (good)
        *ret = (struct sl_str){r->text.at + from, r->at - from};
    else if (!r->why)
        r->why = "the value is malformed or nested too deep";
    return good;
}

/* ---- finding ---- */

/* Goes to the member `token` of the object here. */
static enum sl_json_found go_member(struct sl_json_reader *r,
                                    struct sl_str token)
{
    size_t found = 0;
    struct sl_str name;

    if (!sl_json_enter(r, '{'))
        return SL_JSON_FIND_WRONG;
    while (sl_arena_reset(r->arena), sl_json_member(r, &name)) {
        bool is = is_token(token, name);

        if (is && found > 0)
            return SL_JSON_FIND_WRONG; /* twice */
        if (is)
            found = r->at;
        if (!pass(r))
            return SL_JSON_FIND_WRONG;
    }
    if (r->why)
        return SL_JSON_FIND_WRONG;
    r->at = found;
    return found > 0 ? SL_JSON_FIND_VALUE : SL_JSON_FIND_NOTHING;
}

/* The same in an array. */
static enum sl_json_found go_item(struct sl_json_reader *r, struct sl_str token)
{
    size_t found = 0;
    uint64_t index, i = 0;

    if (!read_index(token, &index))
        return SL_JSON_FIND_NOTHING;
    if (!sl_json_enter(r, '['))
        return SL_JSON_FIND_WRONG;
    for (; sl_json_item(r); i++) {
        if (i == index)
            found = r->at;
        if (!pass(r))
            return SL_JSON_FIND_WRONG;
    }
    if (r->why)
        return SL_JSON_FIND_WRONG;
    r->at = found;
    return found > 0 ? SL_JSON_FIND_VALUE : SL_JSON_FIND_NOTHING;
}

/* The text or whole number here. */
static bool read_value(struct sl_json_reader *r, struct sl_arena *arena,
                       struct sl_str *ret)
{
    enum sl_json_kind kind = sl_json_peek(r);
    size_t from = r->at;
    bool whole;

    r->arena = arena;
    if (kind == SL_JSON_STRING)
        return sl_json_text(r, ret);
    if (kind != SL_JSON_NUMBER || !pass_number(r, &whole) || !whole)
        return false;
    *ret = (struct sl_str){r->text.at + from, r->at - from};
    return true;
}

static enum sl_json_found find(struct sl_json_reader *r, struct sl_str pointer,
                               struct sl_arena *arena, struct sl_str *ret)
{
    enum sl_json_found found = SL_JSON_FIND_VALUE;
    struct sl_str value;

    if (!pass(r) || !sl_json_end(r))
        return SL_JSON_FIND_WRONG;
    r->at = 0;
    while (pointer.len > 0 && found == SL_JSON_FIND_VALUE) {
        struct sl_str token = cut_token(&pointer);
        enum sl_json_kind kind = sl_json_peek(r);

        found = kind == SL_JSON_OBJECT  ? go_member(r, token)
                : kind == SL_JSON_ARRAY ? go_item(r, token)
                                        : SL_JSON_FIND_NOTHING;
    }
    if (found != SL_JSON_FIND_VALUE)
        return found;
    if (!read_value(r, arena, &value) || value.len == 0)
        return SL_JSON_FIND_WRONG;
    *ret = value;
    return SL_JSON_FIND_VALUE;
}

enum sl_json_found sl_json_find(struct sl_str text, struct sl_str pointer,
                                struct sl_arena *arena, struct sl_str *ret)
{
    struct sl_json_reader r;
    struct sl_arena scratch;
    enum sl_json_found found;

    sl_arena_init(&scratch, text.len + SL_JSON_SCRATCH, arena->alloc);
    sl_json_begin(&r, text, &scratch);
    found = find(&r, pointer, arena, ret);
    sl_arena_done(&scratch);
    return r.no_memory ? SL_JSON_FIND_NO_MEMORY : found;
}
