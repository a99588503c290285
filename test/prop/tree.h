/* tree.h -- a tree of words, lists and maps, and its YAML in a random style.
 *
 * Block or flow, plain or in one of two kinds of quotes, keys in any order,
 * comments and blank lines anywhere: a reader must get the same tree.
 * Now and then a word is not written but put into the environment.
 */
#ifndef SL_PROP_TREE_H
#define SL_PROP_TREE_H

#include <stdlib.h>

#include "base/arena.h"
#include "base/buf.h"
#include "check.h"
#include "rng.h"

enum tree_kind {
    TREE_WORD,  /* with or without quotes, or from the environment */
    TREE_PLAIN, /* without quotes, or from the environment: booleans */
    TREE_BARE,  /* without quotes: numbers of a body */
    TREE_TEXT,  /* with quotes, or from the environment */
    TREE_LIST,
    TREE_MAP,
};

struct tree {
    enum tree_kind kind;
    const char *key, *text;
    struct tree *child, *next;
};

#define TREE_VARIABLES 64

/* What is made in an episode. */
struct forest {
    struct rng rng;
    struct sl_arena arena;
    struct sl_buf out;
    const char *values[TREE_VARIABLES]; /* of V0, V1, ... */
    const char *keys[TREE_VARIABLES];   /* whose values they are, or NULL */
    unsigned value_count;
};

static inline void forest_open(struct forest *f, uint64_t seed)
{
    *f = (struct forest){.rng = {seed}};
    sl_arena_init(&f->arena, 1 << 22, &sl_alloc_libc);
    sl_buf_init(&f->out, 1 << 20, &sl_alloc_libc);
}

static inline void forest_close(struct forest *f)
{
    sl_arena_done(&f->arena);
    sl_buf_done(&f->out);
}

/* The environment, for the policy's reader. */
static inline const char *forest_env(void *ctx, const char *name)
{
    const struct forest *f = ctx;
    unsigned long i;

    if (name[0] != 'V')
        return NULL;
    i = strtoul(name + 1, NULL, 10);
    return i < f->value_count ? f->values[i] : NULL;
}

/* ---- making ---- */

static inline const char *tree_copy(struct forest *f, const char *text)
{
    char *copy = sl_arena_copy(&f->arena, sl_str_c(text));

    if (!copy)
        abort();
    return copy;
}

static inline struct tree *tree_new(struct forest *f, enum tree_kind kind,
                                    const char *text)
{
    struct tree *t = sl_arena_take(&f->arena, sizeof(*t));

    if (!t)
        abort();
    *t = (struct tree){.kind = kind};
    if (text)
        t->text = tree_copy(f, text);
    return t;
}

static inline struct tree *tree_word(struct forest *f, const char *text)
{
    return tree_new(f, TREE_WORD, text);
}

/* Put `child` into a list, or into a map under `key`: anywhere in a map, last
 * in a list. */
static inline struct tree *tree_put(struct forest *f, struct tree *parent,
                                    const char *key, struct tree *child)
{
    struct tree **link = &parent->child;

    while (*link && (!key || !rng_once_in(&f->rng, 4)))
        link = &(*link)->next;
    child->key = key ? tree_copy(f, key) : NULL;
    child->next = *link;
    *link = child;
    return child;
}

/* ---- printing ---- */

static inline void tree_add(struct forest *f, const char *text)
{
    if (sl_buf_add(&f->out, sl_str_c(text)))
        abort();
}

static inline void tree_indent(struct forest *f, unsigned indent)
{
    while (indent-- > 0)
        tree_add(f, " ");
}

/* The end of a line, and what may stand between two. */
static inline void tree_line(struct forest *f)
{
    tree_add(f, rng_once_in(&f->rng, 12) ? "  # why: {x}\n" : "\n");
    if (rng_once_in(&f->rng, 15))
        tree_add(f, "\n");
    if (rng_once_in(&f->rng, 15))
        tree_add(f, "   # - nothing: here\n");
}

/* Can it only be read as this text? */
static inline bool tree_is_plain(const char *text)
{
    size_t len = strspn(text, "abcdefghijklmnopqrstuvwxyz"
                              "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-@");

    return len > 0 && text[len] == '\0' && text[0] != '-' &&
           strcmp(text, "null") != 0;
}

/* With blanks, colons and stars, which a block may have in the middle. */
static inline bool tree_is_line(const char *text)
{
    size_t len = strspn(text, "abcdefghijklmnopqrstuvwxyz"
                              "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-*, :");

    return len > 0 && text[len] == '\0' && !strchr("-*, :", text[0]) &&
           !strchr(" :", text[len - 1]) && !strstr(text, ": ") &&
           strcmp(text, "null") != 0;
}

static inline void tree_escaped(struct forest *f, char c)
{
    char out[8];

    if (c == '"' || c == '\\')
        snprintf(out, sizeof(out), "\\%c", c);
    else if (c == '\n')
        snprintf(out, sizeof(out), "\\n");
    else if ((c > 0 && c < ' ') || (c > 0 && rng_once_in(&f->rng, 20)))
        snprintf(out, sizeof(out), "\\x%02x", (unsigned)c);
    else
        snprintf(out, sizeof(out), "%c", c);
    tree_add(f, out);
}

/* In quotes. A "${" in a value means itself if it is `literal`. */
static inline void tree_quote(struct forest *f, const char *text, bool literal)
{
    bool single = !strpbrk(text, "\n\r\t") && !strstr(text, "\xe2\x80\xa8") &&
                  rng_once_in(&f->rng, 2);

    tree_add(f, single ? "'" : "\"");
    for (const char *c = text; *c; c++) {
        char byte[3] = {*c, *c == '\'' ? '\'' : '\0', '\0'};

        if (literal && c[0] == '$' && c[1] == '{')
            tree_add(f, "$");
        if (single)
            tree_add(f, byte);
        else
            tree_escaped(f, *c);
    }
    tree_add(f, single ? "'" : "\"");
}

/* All of the text, or the end of it, from the environment. */
static inline void tree_hide(struct forest *f, const struct tree *t)
{
    const char *text = t->text;
    size_t split = rng_once_in(&f->rng, 2) ? rng_below(&f->rng, 4) : 0;
    char out[256];

    if (split > strlen(text) || strchr(text, '$') ||
        (text[split] & 0xc0) == 0x80) /* inside of a character */
        split = 0;
    snprintf(out, sizeof(out), "%.*s${ENV:V%u}", (int)split, text,
             f->value_count);
    f->keys[f->value_count] = t->key;
    f->values[f->value_count++] = tree_copy(f, text + split);
    tree_quote(f, out, false);
}

static inline void tree_scalar(struct forest *f, const struct tree *t,
                               bool flow)
{
    bool plain = flow ? tree_is_plain(t->text) : tree_is_line(t->text);

    if (t->kind != TREE_BARE && f->value_count < TREE_VARIABLES &&
        strlen(t->text) < 100 && rng_once_in(&f->rng, 25))
        tree_hide(f, t);
    else if (t->kind == TREE_PLAIN || t->kind == TREE_BARE ||
             (t->kind == TREE_WORD && plain && !rng_once_in(&f->rng, 3)))
        tree_add(f, t->text);
    else
        tree_quote(f, t->text, true);
}

static inline void tree_key(struct forest *f, const struct tree *t)
{
    if (tree_is_plain(t->key) && !rng_once_in(&f->rng, 6))
        tree_add(f, t->key);
    else
        tree_quote(f, t->key, false);
    tree_add(f, ":");
}

static inline bool tree_is_scalar(const struct tree *t)
{
    return t->kind != TREE_LIST && t->kind != TREE_MAP;
}

static inline void tree_flow(struct forest *f, const struct tree *t)
{
    bool wide = rng_once_in(&f->rng, 2);

    if (tree_is_scalar(t)) {
        tree_scalar(f, t, true);
        return;
    }
    tree_add(f, t->kind == TREE_MAP ? "{" : "[");
    for (const struct tree *c = t->child; c; c = c->next) {
        tree_add(f, c == t->child ? wide ? " " : "" : ", ");
        if (rng_once_in(&f->rng, 30))
            tree_add(f, "\n          ");
        if (t->kind == TREE_MAP) {
            tree_key(f, c);
            tree_add(f, " ");
        }
        tree_flow(f, c);
    }
    if (t->child && rng_once_in(&f->rng, 10))
        tree_add(f, ",");
    tree_add(f, wide ? " " : "");
    tree_add(f, t->kind == TREE_MAP ? "}" : "]");
}

static inline void tree_block(struct forest *f, const struct tree *t,
                              unsigned indent, bool begun);

/* What stands behind a key or a dash, and the end of its line. */
static inline void tree_value(struct forest *f, const struct tree *t,
                              unsigned indent, bool dash)
{
    unsigned more = 1 + (unsigned)rng_below(&f->rng, 4);

    if (tree_is_scalar(t) || !t->child || rng_once_in(&f->rng, 3)) {
        tree_add(f, " ");
        if (tree_is_scalar(t))
            tree_scalar(f, t, false);
        else
            tree_flow(f, t);
        tree_line(f);
    } else if (dash && rng_once_in(&f->rng, 2)) {
        tree_add(f, " ");
        tree_block(f, t, indent + 2, true);
    } else {
        tree_line(f);
        if (t->kind == TREE_LIST && !dash && rng_once_in(&f->rng, 3))
            more = 0;
        tree_block(f, t, indent + more, false);
    }
}

/* `begun`: the indent of the first line is there. */
static inline void tree_block(struct forest *f, const struct tree *t,
                              unsigned indent, bool begun)
{
    for (const struct tree *c = t->child; c; c = c->next) {
        if (!begun)
            tree_indent(f, indent);
        begun = false;
        if (t->kind == TREE_MAP)
            tree_key(f, c);
        else
            tree_add(f, "-");
        tree_value(f, c, indent, t->kind == TREE_LIST);
    }
}

/* The whole tree, which is a map with children; returns its text. */
static inline struct sl_str tree_print(struct forest *f, const struct tree *t)
{
    if (rng_once_in(&f->rng, 8)) {
        tree_flow(f, t);
        tree_add(f, "\n");
    } else {
        tree_block(f, t, 0, false);
    }
    return sl_buf_str(&f->out);
}

#endif
