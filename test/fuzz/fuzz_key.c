/* fuzz_key.c -- templates of names, and the keys of hostile values.
 *
 * The text is a template, a newline, and four values with newlines between
 * them: two callers of a limit per org and user.
 *
 *   (1) A template is read whole, or refused with a sentence and the output
 *       untouched.
 *   (2) What the check lets pass gives different callers different names, and
 *       the same the same.
 *   (3) So do the bytes for the table.
 *   (4) A name is printable where its template is.
 *   (5) A template meets itself.
 */
#include "fuzz.h"

#include "base/hash.h"
#include "policy/key.h"

static const struct sl_str scopes[] = {
    {"org",  3},
    {"user", 4}
};
static const struct sl_key_use use = {
    .scopes = scopes, .scope_count = 2, .endpoints = 1, .windows = true};
static const struct sl_key_context context = {
    .env = {"prod",   4},
    .endpoint = {"search", 6},
    .name = {"limit",  5},
    .use = &use,
};

static void must_differ(const struct sl_key_value *a,
                        const struct sl_key_value *b, bool same)
{
    static const struct sl_hash_key secret = {7, 8};
    char one[SL_KEY_MAX], two[SL_KEY_MAX];
    size_t len = sl_key_bytes(a, 2, &secret, one);

    MUST(len <= SL_KEY_MAX);
    MUST((sl_key_bytes(b, 2, &secret, two) == len &&
          memcmp(one, two, len) == 0) == same); /* (3) */
}

static void must_name(const struct sl_key_template *key,
                      const struct sl_key_value *a,
                      const struct sl_key_value *b, bool same)
{
    struct sl_buf one, two;

    sl_buf_init(&one, 1024 * 1024, &sl_alloc_libc);
    sl_buf_init(&two, 1024 * 1024, &sl_alloc_libc);
    MUST(sl_key_name(key, &context, a, 2, &one) == 0);
    MUST(sl_key_name(key, &context, b, 2, &two) == 0);
    if (sl_key_template_check(key, &use, NULL) == 0)
        MUST(sl_str_eq(sl_buf_str(&one), sl_buf_str(&two)) == same); /* (2) */
    for (size_t i = 0; i < one.len; i++)
        MUST((one.bytes[i] & 0xe0) != 0 && one.bytes[i] != 0x7f); /* (4) */
    MUST(sl_key_templates_collide(key, &context, key, &context)); /* (5) */
    sl_buf_done(&one);
    sl_buf_done(&two);
}

void fuzz_key(struct sl_str rest)
{
    struct sl_str text = fuzz_line(&rest);
    struct sl_key_template key = {.count = 77};
    struct sl_key_value a[2], b[2];
    struct sl_diag diag = {.line = 0};
    struct sl_arena arena;
    bool same = true;
    int err;

    sl_arena_init(&arena, 1024 * 1024, &sl_alloc_libc);
    err = sl_key_template_read(text, &arena, &key, &diag);
    must_agree(err, &diag, text.len);
    for (unsigned i = 0; i < 4; i++)
        (i < 2 ? a : b)[i % 2] =
            (struct sl_key_value){scopes[i % 2], fuzz_line(&rest)};
    for (unsigned i = 0; i < 2; i++)
        same = same && sl_str_eq(a[i].value, b[i].value);
    must_differ(a, b, same);
    if (err)
        MUST(key.count == 77); /* (1) */
    else
        must_name(&key, a, b, same);
    sl_arena_done(&arena);
}
