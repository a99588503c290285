/* fuzz_repeats.c -- what the memory of repeats reads, and ids in bodies.
 *
 * The first byte says which: a memo, a body with a pointer before it, or a
 * reply of Redis.
 *
 *   (1) A memo that was read is written again so that it reads alike.
 *   (2) A value is found only in a text that is JSON for jansson too, and it is
 *       what jansson finds.
 *   (3) A reply has at most one memo, of bounded length.
 */
#include "fuzz.h"

#include <jansson.h>

#include "engine/engine_int.h"
#include "store/redis/redis_int.h"
#include "wire/json.h"

static void try_memo(struct sl_str text)
{
    struct sl_repeat_memo memo, again;
    char out[SL_REPEAT_MEMO];
    size_t len;

    memset(&memo, 0, sizeof(memo));
    memset(&again, 0, sizeof(again));
    if (!sl_repeat_memo_read(text, &memo))
        return;
    len = sl_repeat_memo_write(&memo, out);
    MUST(len < sizeof(out));
    MUST(sl_repeat_memo_read((struct sl_str){out, len}, &again));
    MUST(memcmp(&memo, &again, sizeof(memo)) == 0); /* (1) */
}

/* The same by jansson. */
static const json_t *walk(const json_t *at, struct sl_str pointer)
{
    char name[SL_JSON_POINTER + 1];

    for (size_t i = 0; at && i < pointer.len;) {
        size_t len = 0;

        for (i++; i < pointer.len && pointer.at[i] != '/'; i++) {
            char c = pointer.at[i];

            if (c == '~')
                c = pointer.at[++i] == '0' ? '~' : '/';
            name[len++] = c;
        }
        name[len] = '\0';
        at = json_is_array(at)
                 ? json_array_get(at, (size_t)strtoul(name, NULL, 10))
                 : json_object_get(at, name);
    }
    return at;
}

static void try_body(struct sl_str text)
{
    const char *space = text.len > 0 ? memchr(text.at, ' ', text.len) : NULL;
    struct sl_str pointer = {text.at, space ? (size_t)(space - text.at) : 0};
    struct sl_str body = sl_str_from(text, space ? pointer.len + 1 : 0);
    struct sl_str value;
    struct sl_arena arena;
    const json_t *found;
    json_t *root;

    if (!sl_json_pointer_ok(pointer))
        return;
    sl_arena_init(&arena, 1 << 20, &sl_alloc_libc);
    if (sl_json_find(body, pointer, &arena, &value) == SL_JSON_FIND_VALUE) {
        root = json_loadb(body.at, body.len,
                          JSON_DECODE_ANY | JSON_DECODE_INT_AS_REAL, NULL);
        found = root ? walk(root, pointer) : NULL;
        MUST(value.len > 0);
        MUST(!root || json_is_number(found) ||
             (json_is_string(found) && json_string_length(found) == value.len &&
              memcmp(json_string_value(found), value.at, value.len) == 0));
        json_decref(root);
    }
    sl_arena_done(&arena);
}

static void try_reply(struct sl_str text)
{
    char memo[SL_REPEAT_MEMO];
    struct sl_repeat_call call = {.memo = memo};

    if (sl_redis_repeat_read(&call, text))
        MUST(call.found <= SL_REPEAT_AGAIN &&
             call.len <= sizeof(memo)); /* (3) */
}

void fuzz_repeats(struct sl_str text, unsigned choice)
{
    if (choice % 3 == 0)
        try_memo(text);
    else if (choice % 3 == 1)
        try_body(text);
    else
        try_reply(text);
}
