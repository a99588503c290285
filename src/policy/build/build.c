/* build.c -- what all parts of a build need: memory, values, names. */
#include "policy/build/build.h"

#include <inttypes.h>
#include <string.h>

#include "base/parse.h"

/* ---- memory ---- */

static void *take(struct sl_build *b, struct sl_arena *arena, size_t count,
                  size_t size)
{
    void *piece = NULL;

    if (count <= SIZE_MAX / size)
        piece = sl_arena_take(arena, count * size);
    if (piece)
        memset(piece, 0, count * size);
    else
        b->no_memory = true;
    return piece;
}

void *sl_build_take(struct sl_build *b, size_t count, size_t size)
{
    return take(b, b->arena, count, size);
}

void *sl_build_borrow(struct sl_build *b, size_t count, size_t size)
{
    return take(b, b->scratch, count, size);
}

struct sl_str sl_build_keep(struct sl_build *b, struct sl_str text)
{
    char *copy = sl_arena_copy(b->arena, text);

    if (copy)
        return (struct sl_str){copy, text.len};
    b->no_memory = true;
    return SL_STR("");
}

/* ---- values ---- */

const struct sl_node *sl_build_scalar(const struct sl_node *map,
                                      const char *key)
{
    const struct sl_node *node = sl_node_get(map, key);

    return node && node->kind == SL_NODE_SCALAR ? node : NULL;
}

struct sl_str sl_build_text(struct sl_build *b, const struct sl_node *map,
                            const char *key)
{
    const struct sl_node *node = sl_build_scalar(map, key);

    return node ? sl_build_keep(b, node->text) : SL_STR("");
}

bool sl_build_bool(const struct sl_node *map, const char *key, bool preset)
{
    const struct sl_node *node = sl_build_scalar(map, key);

    return node ? sl_str_eq(node->text, SL_STR("true")) : preset;
}

int sl_build_choice(const struct sl_node *map, const char *key,
                    const char *const *words, int count, int preset)
{
    const struct sl_node *node = sl_build_scalar(map, key);

    for (int i = 0; node && i < count; i++)
        if (sl_str_eq(node->text, sl_str_c(words[i])))
            return i;
    return preset;
}

bool sl_build_refused(const struct sl_node *node)
{
    return node && node->refused;
}

struct sl_quoted sl_build_shown(const struct sl_node *node)
{
    return sl_quote(node->substituted ? SL_STR("...") : node->text);
}

bool sl_build_ok(struct sl_build *b, const struct sl_node *node, int err,
                 const struct sl_diag *diag)
{
    if (err == SLUICE_ENOMEM)
        b->no_memory = true;
    else if (err && node->substituted) /* parsers quote what they read */
        sl_report_error(b->report, SL_AT(node),
                        "Invalid value after substitution of ENV or FILE. It "
                        "is not shown because it could be a secret");
    else if (err)
        sl_report_diag(b->report, node->place, diag);
    return err == 0;
}

uint64_t sl_build_number(struct sl_build *b, const struct sl_node *map,
                         const char *key, uint64_t least, uint64_t most,
                         uint64_t preset)
{
    const struct sl_node *node = sl_build_scalar(map, key);
    struct sl_diag diag = {0};
    uint64_t number;

    if (!node ||
        !sl_build_ok(b, node, sl_parse_number(node->text, &number, &diag),
                     &diag))
        return preset;
    if (number >= least && number <= most)
        return number;
    sl_report_error(b->report, SL_AT(node),
                    "`%s` must be between %" PRIu64 " and %" PRIu64
                    ", not %" PRIu64,
                    key, least, most, number);
    return preset;
}

sl_ns sl_build_duration(struct sl_build *b, const struct sl_node *map,
                        const char *key, sl_ns preset)
{
    const struct sl_node *node = sl_build_scalar(map, key);
    struct sl_diag diag = {0};
    sl_ns span = preset;

    if (node)
        (void)sl_build_ok(b, node, sl_parse_duration(node->text, &span, &diag),
                          &diag);
    return span;
}

/* The first scalar from `item` on. */
static const struct sl_node *pass_holes(const struct sl_node *item)
{
    while (item && item->kind != SL_NODE_SCALAR)
        item = item->next;
    return item;
}

const struct sl_node *sl_build_first(const struct sl_node *node)
{
    if (!node || node->kind == SL_NODE_SCALAR)
        return node;
    return node->kind == SL_NODE_LIST ? pass_holes(node->child) : NULL;
}

const struct sl_node *sl_build_next(const struct sl_node *node,
                                    const struct sl_node *item)
{
    return node == item ? NULL : pass_holes(item->next);
}

unsigned sl_build_most(const struct sl_node *node)
{
    if (!node)
        return 0;
    return node->kind == SL_NODE_SCALAR ? 1 : node->count;
}

bool sl_build_short(struct sl_build *b, const struct sl_node *list,
                    unsigned most, const char *what)
{
    unsigned count = sl_build_most(list);

    if (count <= most)
        return true;
    sl_report_error(b->report, SL_AT(list),
                    "%u %s are too many. The maximum is %u", count, what, most);
    return false;
}

bool sl_build_twice(struct sl_build *b, const struct sl_node *list,
                    const struct sl_node *item, const char *what)
{
    const struct sl_node *node = sl_build_first(list);

    /* Quadratic: only for lists whose length has been checked. */
    for (; node != item; node = sl_build_next(list, node))
        if (sl_str_eq(node->text, item->text)) {
            sl_report_error(b->report, SL_AT(item),
                            "%s \"%.64s\" is listed twice. Remove one", what,
                            sl_build_shown(item).text);
            return true;
        }
    return false;
}

/* ---- names ---- */

static bool is_alnum(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c >= '0' && c <= '9');
}

static bool is_name(struct sl_str name)
{
    if (name.len == 0 || name.len > SL_NAME_MAX || !is_alnum(name.at[0]))
        return false;
    for (size_t i = 1; i < name.len; i++)
        if (!is_alnum(name.at[i]) && name.at[i] != '.' && name.at[i] != '_' &&
            name.at[i] != '-')
            return false;
    return true;
}

static void refuse_name(struct sl_build *b, const char *what,
                        struct sl_quoted name, struct sl_place place)
{
    sl_report_error(b->report, place,
                    "Invalid name \"%s\" for %s. A name has up to %d letters, "
                    "digits, '.', '_' and '-', and begins with a letter or a "
                    "digit",
                    name.text, what, SL_NAME_MAX);
}

bool sl_build_name(struct sl_build *b, const char *what,
                   const struct sl_node *node)
{
    if (is_name(node->text))
        return true;
    refuse_name(b, what, sl_build_shown(node), SL_AT(node));
    return false;
}

bool sl_build_key_name(struct sl_build *b, const char *what,
                       const struct sl_node *node)
{
    if (is_name(node->key))
        return true;
    refuse_name(b, what, sl_quote(node->key), SL_AT_KEY(node));
    return false;
}

const char *sl_build_meant(struct sl_build *b, struct sl_diag *diag,
                           const struct sl_names *names, struct sl_str typo)
{
    const char *meant = NULL;

    if (!sl_report_full(b->report))
        meant = sl_names_nearest(names, typo);
    if (meant)
        sl_hint(diag, "%s", meant);
    return meant;
}

int sl_build_find(struct sl_build *b, const struct sl_names *names,
                  const struct sl_node *item, const char *what)
{
    int index = sl_names_find(names, item->text);

    if (index < 0 && !names->unsure)
        (void)sl_build_meant(
            b,
            sl_report_error(b->report, SL_AT(item),
                            "Unknown %s \"%s\". Define it under `%ss`", what,
                            sl_build_shown(item).text, what),
            names, item->text);
    return index;
}
