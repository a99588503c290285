/* fuzz_path.c -- request paths and patterns of routes.
 *
 *   (1) A segment is not empty, no dots, and has no slash, backslash or NUL in
 *       it; only where room ran out it is empty.
 *   (2) Written again, with whatever is odd as an escape, it is the same path.
 *   (3) A detour in front, and a query behind, change nothing.
 *   (4) Of the readings the first is that, no two are the same, and all keep to
 *       their room.
 *   (5) A pattern is read whole, or refused with a sentence and the output
 *       untouched.
 *   (6) A pattern matches the path that it is written as.
 */
#include "fuzz.h"

#include "policy/route.h"

static void must_be_canonical(const struct sl_path *path, size_t size)
{
    MUST(path->count <= SL_PATH_SEGMENTS);
    MUST(!path->deep || path->count == SL_PATH_SEGMENTS);
    for (unsigned i = 0; i < path->count; i++) {
        struct sl_str s = path->segment[i];

        MUST(s.len > 0 || size > SL_PATH_BYTES);
        MUST(!sl_str_eq(s, SL_STR(".")) && !sl_str_eq(s, SL_STR("..")));
        for (size_t j = 0; j < s.len; j++)
            MUST(s.at[j] != '/' && s.at[j] != '\\' && s.at[j] != '\0');
    }
}

static bool is_same(const struct sl_path *a, const struct sl_path *b)
{
    bool same = a->count == b->count && a->deep == b->deep;

    for (unsigned i = 0; same && i < a->count; i++)
        same = sl_str_eq(a->segment[i], b->segment[i]);
    return same;
}

static void must_be_same(const struct sl_path *a, const struct sl_path *b)
{
    MUST(is_same(a, b));
}

/* Read a text from memory that ends where it ends. */
static char *read_path(struct sl_str text, struct sl_path *ret)
{
    size_t size = text.len < SL_PATH_BYTES ? text.len : SL_PATH_BYTES;
    char *room = malloc(size + 1);

    MUST(room != NULL);
    sl_path_read(text, room, ret);
    must_be_canonical(ret, text.len);
    return room;
}

static void try_readings(struct sl_str text, const struct sl_path *canonical)
{
    size_t size = text.len < SL_PATH_BYTES ? text.len : SL_PATH_BYTES;
    char *room = malloc(SL_PATH_READINGS * size + 1);
    struct sl_path all[SL_PATH_READINGS];
    unsigned count;

    MUST(room != NULL);
    count = sl_path_readings(text, room, all);
    MUST(count >= 1 && count <= SL_PATH_READINGS); /* (4) */
    must_be_same(canonical, &all[0]);
    for (unsigned i = 0; i < count; i++)
        for (unsigned j = 0; j < i; j++)
            MUST(!is_same(&all[i], &all[j]));
    free(room);
}

static void must_read_back(const struct sl_path *path)
{
    size_t len = 0, room_for = 4 * SL_PATH_BYTES + 2 * SL_PATH_SEGMENTS;
    char *text = malloc(room_for), *room;
    struct sl_path again;

    MUST(text != NULL);
    for (unsigned i = 0; i < path->count; i++) {
        struct sl_str s = path->segment[i];

        text[len++] = '/';
        for (size_t j = 0; j < s.len; j++)
            len += (size_t)snprintf(text + len, 4, "%%%02x",
                                    (unsigned char)s.at[j]);
    }
    room = read_path((struct sl_str){text, len}, &again);
    again.deep = path->deep;
    must_be_same(path, &again); /* (2) */
    free(room);
    free(text);
}

/* What is put behind begins with a question mark, which completes no escape. */
static void must_not_matter(struct sl_str path_text, const struct sl_path *path)
{
    static const char before[] = "/x/%2e./;/.%5C", behind[] = "?%00/../x;#";
    size_t head = sizeof(before) - 1, tail = sizeof(behind) - 1;
    size_t len = head + path_text.len + tail;
    char *text = malloc(len), *room;
    struct sl_path again;

    MUST(text != NULL);
    memcpy(text, before, head);
    if (path_text.len > 0)
        memcpy(text + head, path_text.at, path_text.len);
    memcpy(text + head + path_text.len, behind, tail);
    room = read_path((struct sl_str){text, len}, &again);
    must_be_same(path, &again); /* (3) */
    free(room);
    free(text);
}

static void must_match_itself(struct sl_str text, struct sl_pattern *pattern)
{
    const char *slash = memchr(text.at, '/', text.len);
    struct sl_path path;
    char *room;

    MUST(slash != NULL);
    room = read_path(sl_str_from(text, (size_t)(slash - text.at)), &path);
    MUST(sl_pattern_matches(pattern, pattern->methods, &path)); /* (6) */
    MUST(sl_pattern_covers(pattern, pattern));
    free(room);
}

static void try_pattern(struct sl_str text)
{
    struct sl_diag diag = {.line = 0};
    struct sl_pattern pattern = {.methods = 77};
    struct sl_arena arena;
    int err;

    sl_arena_init(&arena, 1024 * 1024, &sl_alloc_libc);
    err = sl_pattern_read(text, &arena, &pattern, &diag);
    must_agree(err, &diag, text.len);
    MUST(sl_pattern_read(text, &arena, &(struct sl_pattern){0}, NULL) == err);
    if (err)
        MUST(pattern.methods == 77); /* (5) */
    else
        must_match_itself(text, &pattern);
    sl_arena_done(&arena);
}

void fuzz_path(struct sl_str text)
{
    struct sl_path path;
    char *room = read_path(text, &path);

    try_readings(text, &path);
    must_read_back(&path);
    if (text.len == 0 || text.at[0] == '/') /* else it may have a host */
        must_not_matter(text, &path);
    try_pattern(text);
    free(room);
}
