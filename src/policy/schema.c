/* schema.c -- checks keys and values of a file against schema.def.
 *
 * Values are checked by their form only: a duration has units, a word is among
 * the choices. The build checks what they mean. An invalid value becomes an
 * empty node; later steps skip empty nodes.
 *
 * A value from ${ENV:...} or ${FILE:...} is never quoted in a message, because
 * it can be a secret.
 */
#include "policy/schema.h"

#include <stdio.h>
#include <string.h>

#include "base/parse.h"
#include "policy/policy_int.h"

/* A value and its key. */
struct value {
    struct sl_yaml_node *node;
    const struct sl_schema_key *row;
    struct sl_report *report;
    struct sl_quoted key; /* as the user wrote it */
    bool item;            /* one of a list or map that is the key's value */
};

static void check_map(struct sl_yaml_node *map, enum sl_schema_level level,
                      struct sl_report *report);

/* A list in words, "a, b or c", as far as it fits. */
struct list {
    char text[200];
};

static void list_add(struct list *list, struct sl_str word, bool last)
{
    size_t len = strlen(list->text);
    const char *glue = len == 0 ? "" : last ? " or " : ", ";

    if (len + strlen(glue) + word.len + 1 > sizeof(list->text))
        return;
    memcpy(list->text + len, glue, strlen(glue));
    len += strlen(glue);
    memcpy(list->text + len, word.at, word.len);
    list->text[len + word.len] = '\0';
}

static bool is_word(const struct sl_schema_key *row, struct sl_str word)
{
    const char *rest = row->words;
    struct sl_str next;

    while ((next = sl_schema_word(&rest)).len > 0)
        if (sl_str_eq(next, word))
            return true;
    return false;
}

#define WORDS 160 /* bytes of the words of a row */

/* The word that was probably meant, in `room`; or NULL. */
static const char *near_word(const struct sl_schema_key *row,
                             struct sl_str typo, char room[WORDS])
{
    const char *list[16];
    size_t count = 0;

    snprintf(room, WORDS, "%s", row->words);
    for (char *c = room; *c && count < SL_LEN(list);) {
        list[count++] = c;
        c += strcspn(c, " ");
        if (*c)
            *c++ = '\0';
    }
    return sl_str_nearest(typo, list, count);
}

static const char *near_key(enum sl_schema_level level, struct sl_str typo)
{
    const struct sl_schema_key *row = NULL;
    const char *list[32];
    size_t count = 0;

    while (count < SL_LEN(list) && (row = sl_schema_next(level, row)))
        if (strcmp(row->name, "*") != 0 && row->when != SL_WHEN_LATER)
            list[count++] = row->name;
    return sl_str_nearest(typo, list, count);
}

/* What was found, in words: "a list", "\"abc\"". */
static const char *found(const struct sl_yaml_node *node, char out[80])
{
    static const char *const words[] = {
        [SL_NODE_EMPTY] = "nothing",
        [SL_NODE_LIST] = "a list",
        [SL_NODE_MAP] = "a map",
    };

    if (node->kind != SL_NODE_SCALAR)
        return words[node->kind];
    if (node->substituted)
        return "the substituted value";
    snprintf(out, 80, "\"%s\"%s", sl_quote(node->text).text,
             node->quoted ? " in quotes" : "");
    return out;
}

/* What must be there, in words. */
static void say_must(const struct value *v, char *out, size_t size)
{
    const struct sl_schema_key *row = v->row;
    const struct sl_schema_kind *kind = &sl_schema_kinds[row->type];
    const char *must = v->item && kind->each ? kind->each : kind->must;
    const char *rest = row->words;
    struct list list = {""};
    struct sl_str word, next;

    if (must) {
        snprintf(out, size, "%s", must);
        return;
    }
    for (word = sl_schema_word(&rest); word.len > 0; word = next) {
        next = sl_schema_word(&rest);
        list_add(&list, word, next.len == 0);
    }
    snprintf(out, size, "%s%s", list.text,
             row->type == SL_TYPE_CHOICES && !v->item ? ", or a list of them"
                                                      : "");
}

/* The value is not what it must be. */
static struct sl_diag *refuse(const struct value *v)
{
    char must[200], what[80];
    struct sl_diag *diag;
    enum sl_schema_type type = v->row->type;
    bool plain = type == SL_TYPE_BOOL || type == SL_TYPE_CHOICE ||
                 type == SL_TYPE_CHOICES || type == SL_TYPE_VERSION;

    say_must(v, must, sizeof(must));
    diag = sl_report_error(v->report, v->node->place,
                           "%s\"%s\" must be %s%s%s, not %s",
                           v->item ? "Each item of " : "", v->key.text, must,
                           plain ? "" : ", as in ",
                           plain ? "" : v->row->example, found(v->node, what));
    sl_yaml_node_refuse(v->node);
    return diag;
}

/* There is nothing where something must be. */
static void refuse_nothing(const struct value *v)
{
    if (v->item)
        sl_report_error(v->report, v->node->place,
                        "Missing value. Remove the item, or write a value of "
                        "\"%s\"",
                        v->key.text);
    else
        sl_report_error(v->report, v->node->place,
                        "Key \"%s\" has no value" SL_HINT "%s: %s", v->key.text,
                        v->key.text, v->row->example);
    v->node->refused = true;
}

static bool is_any(struct sl_str text, const char *words)
{
    for (struct sl_str word; (word = sl_schema_word(&words)).len > 0;)
        if (sl_str_eq_nocase(text, word))
            return true;
    return false;
}

static void check_bool(const struct value *v)
{
    struct sl_str text = v->node->text;
    bool from_outside = v->node->substituted;
    bool written = !v->node->quoted || from_outside;
    bool yes = is_any(text, "true yes on y 1");
    bool no = is_any(text, "false no off n 0");
    struct sl_diag *diag;

    if (written &&
        (sl_str_eq(text, SL_STR("true")) || sl_str_eq(text, SL_STR("false"))))
        return;
    diag = refuse(v);
    if ((yes || no) && !from_outside)
        sl_diag_hint(diag, "%s", yes ? "true" : "false");
}

static void check_version(const struct value *v)
{
    struct sl_str text = v->node->text;

    if (sl_str_eq(text, SL_STR("1")) && !v->node->quoted)
        return;
    sl_diag_hint(refuse(v), "%s: 1", v->row->name);
}

static void check_choice(const struct value *v)
{
    struct sl_str text = v->node->text;
    char room[WORDS];
    const char *meant = NULL;
    bool hide = v->node->substituted || sl_report_full(v->report);
    struct sl_diag *diag;

    if (is_word(v->row, text))
        return;
    if (!hide)
        meant = near_word(v->row, text, room);
    diag = refuse(v);
    if (meant)
        sl_diag_hint(diag, "%s", meant);
}

/* The parser of the type reports in detail. */
static void check_parsed(const struct value *v)
{
    struct sl_str text = v->node->text;
    struct sl_diag diag = {.line = 0};
    struct sl_rate rate;
    uint64_t number;
    sl_ns span;
    int err;

    switch (v->row->type) {
    case SL_TYPE_NUMBER:
        err = sl_parse_number(text, &number, &diag);
        break;
    case SL_TYPE_COUNT:
        err = sl_parse_count(text, &number, &diag);
        break;
    case SL_TYPE_DURATION:
        err = sl_parse_duration(text, &span, &diag);
        break;
    case SL_TYPE_SIZE:
        err = sl_parse_size(text, &number, &diag);
        break;
    default:
        err = sl_parse_rate(text, &rate, &diag);
        break;
    }
    if (!err)
        return;
    if (v->node->substituted) {
        (void)refuse(v);
        return;
    }
    sl_report_diag(v->report, v->node->place, &diag);
    sl_yaml_node_refuse(v->node);
}

static void check_text(const struct value *v)
{
    if (v->node->text.len > 0 || v->row->type == SL_TYPE_TEXT ||
        v->row->type == SL_TYPE_TEXTS || v->row->can_be_empty)
        return;
    (void)refuse(v);
}

/* A scalar where one may be. */
static void check_scalar(const struct value *v)
{
    switch (v->row->type) {
    case SL_TYPE_VERSION:
        check_version(v);
        break;
    case SL_TYPE_BOOL:
        check_bool(v);
        break;
    case SL_TYPE_CHOICE:
    case SL_TYPE_CHOICES:
        check_choice(v);
        break;
    case SL_TYPE_NAME:
    case SL_TYPE_NAMES:
    case SL_TYPE_TEXT:
    case SL_TYPE_TEXTS:
    case SL_TYPE_SOURCES:
    case SL_TYPE_SHORT:
    case SL_TYPE_COSTS:
        check_text(v);
        break;
    default:
        check_parsed(v);
        break;
    }
}

/* One of a list, or of a map of rates. */
static void check_item(const struct value *v)
{
    enum sl_yaml_node_kind kind = v->node->kind;
    bool maps = v->row->type == SL_TYPE_MAPS;

    if (kind == SL_NODE_EMPTY && v->node->refused)
        return;
    if (kind == SL_NODE_EMPTY)
        refuse_nothing(v);
    else if (kind == SL_NODE_MAP && maps)
        check_map(v->node, v->row->below, v->report);
    else if (kind == SL_NODE_SCALAR && !maps)
        check_scalar(v);
    else
        (void)refuse(v);
}

static void check_items(const struct value *v)
{
    struct value item = *v;

    item.item = true;
    for (item.node = v->node->child; item.node; item.node = item.node->next)
        check_item(&item);
}

/* Which kinds of nodes, beside scalars, a type may have. */
static bool has_lists(enum sl_schema_type type)
{
    return type == SL_TYPE_CHOICES || type == SL_TYPE_NAMES ||
           type == SL_TYPE_TEXTS || type == SL_TYPE_SOURCES ||
           type == SL_TYPE_MAPS;
}

static bool has_scalars(enum sl_schema_type type)
{
    return type != SL_TYPE_MAP && type != SL_TYPE_MAPS;
}

/* A name of the user's that looks like a key of ours with the wrong value:
 * "defualt: free". */
static void refuse_map(const struct value *v)
{
    struct sl_diag *diag = refuse(v);
    const char *near = NULL;

    if (!strcmp(v->row->name, "*") && !sl_report_full(v->report))
        near = near_key(v->row->level, v->node->key);
    if (near)
        sl_diag_hint(diag, "%s", near);
}

void sl_schema_check_value(struct sl_yaml_node *node,
                           const struct sl_schema_key *row,
                           struct sl_report *report)
{
    struct value v = {node, row, report, sl_quote(node->key), false};
    enum sl_schema_type type = row->type;

    if (type == SL_TYPE_BODY || (node->kind == SL_NODE_EMPTY && node->refused))
        return;
    if (node->kind == SL_NODE_EMPTY && type == SL_TYPE_MAP)
        node->kind = SL_NODE_MAP;
    if (node->kind == SL_NODE_EMPTY)
        refuse_nothing(&v);
    else if (node->kind == SL_NODE_MAP &&
             (type == SL_TYPE_MAP || type == SL_TYPE_SHORT))
        check_map(node, row->below, report);
    else if ((node->kind == SL_NODE_MAP &&
              (type == SL_TYPE_RATES || type == SL_TYPE_COSTS)) ||
             (node->kind == SL_NODE_LIST && has_lists(type)))
        check_items(&v);
    else if (node->kind == SL_NODE_SCALAR && has_scalars(type))
        check_scalar(&v);
    else
        refuse_map(&v);
}

/* ---- keys.
 *
 * A map is compared with the rows of its level. Unknown keys and keys of a
 * later version are reported and removed. The reader limits the depth, and with
 * it the recursion.
 */

/* The labels of the levels that have the key, or an empty list. */
static void list_owners(struct sl_str name, struct list *ret)
{
    const struct sl_schema_key *found[SL_LEVELS];
    unsigned count = 0;

    ret->text[0] = '\0';
    for (unsigned level = 0; level < SL_LEVELS; level++) {
        const struct sl_schema_key *row =
            sl_schema_find((enum sl_schema_level)level, name);

        if (row && row->when != SL_WHEN_LATER)
            found[count++] = row;
    }
    for (unsigned i = 0; i < count; i++)
        list_add(ret, sl_str_c(sl_schema_parts[found[i]->level].label),
                 i + 1 == count);
}

static void list_keys(enum sl_schema_level level, struct list *ret)
{
    const struct sl_schema_key *row = sl_schema_next(level, NULL), *next;

    ret->text[0] = '\0';
    for (; row; row = next) {
        next = sl_schema_next(level, row);
        while (next && next->when == SL_WHEN_LATER)
            next = sl_schema_next(level, next);
        if (row->when != SL_WHEN_LATER)
            list_add(ret, sl_str_c(row->name), !next);
    }
}

/* Keys of other limiters for what is part of `rate` here. */
static bool is_rate_key(const struct sl_yaml_node *node,
                        enum sl_schema_level level)
{
    static const char *const keys[] = {"burst",  "limit",    "max",
                                       "period", "interval", "window",
                                       "count",  "requests", "capacity"};

    for (size_t i = 0; level == SL_LEVEL_LIMIT && i < SL_LEN(keys); i++)
        if (sl_str_eq_nocase(node->key, sl_str_c(keys[i])))
            return true;
    return false;
}

/* The value of a key if it is a text of the file, else `other`. */
static struct sl_quoted text_or(const struct sl_yaml_node *map, const char *key,
                                const char *other)
{
    const struct sl_yaml_node *node = sl_yaml_node_get(map, key);

    return sl_quote(node && node->kind == SL_NODE_SCALAR && !node->substituted
                        ? node->text
                        : sl_str_c(other));
}

/* Only token buckets have a burst. */
static void refuse_rate_key(const struct sl_yaml_node *map,
                            const struct sl_yaml_node *node,
                            struct sl_report *report)
{
    struct sl_quoted kind = text_or(map, "kind", "token-bucket");
    struct sl_quoted rate = text_or(map, "rate", "10/min");
    struct sl_quoted burst = text_or(map, "burst", "20");
    bool has_burst = strcmp(kind.text, "token-bucket") == 0 &&
                     !strchr(rate.text, ' ') && strchr(rate.text, '/');

    sl_report_error(
        report, node->key_place,
        "\"%s\" is not a key of a limit. Counts, periods and bursts "
        "are written in its rate" SL_HINT "rate: %.32s%s%.16s",
        sl_quote(node->key).text, rate.text, has_burst ? " burst " : "",
        has_burst ? burst.text : "");
}

/* The level does not have the key. Returns the key that was probably meant, or
 * NULL. */
static const char *refuse_key(const struct sl_yaml_node *map,
                              const struct sl_yaml_node *node,
                              enum sl_schema_level level,
                              struct sl_report *report)
{
    const char *label = sl_schema_parts[level].label, *near = NULL;
    struct sl_quoted key = sl_quote(node->key);
    bool full = sl_report_full(report);
    struct list list = {""};

    if (is_rate_key(node, level)) {
        refuse_rate_key(map, node, report);
        return NULL;
    }
    if (!full)
        list_owners(node->key, &list);
    if (list.text[0]) {
        sl_report_error(report, node->key_place,
                        "Key \"%s\" is not valid in %s. It belongs in %s",
                        key.text, label, list.text);
        return NULL;
    }
    if (!full)
        near = near_key(level, node->key);
    if (!full && !near)
        list_keys(level, &list);
    sl_report_error(report, node->key_place,
                    "Unknown key \"%s\" in %s%s%s" SL_HINT "%s", key.text,
                    label, list.text[0] ? ". Valid keys: " : "", list.text,
                    near ? near : "");
    return near;
}

/* Check a child. False if it must be removed. A misspelt key stands for the key
 * that was meant, without a value: this one is not missing, and names that it
 * defines are not reported as unknown. */
static bool check_child(const struct sl_yaml_node *map,
                        struct sl_yaml_node *node, enum sl_schema_level level,
                        struct sl_report *report)
{
    const struct sl_schema_key *row = sl_schema_find(level, node->key);
    const char *meant;

    if (!row)
        row = sl_schema_any(level);
    if (!row) {
        meant = refuse_key(map, node, level, report);
        if (!meant || sl_yaml_node_get(map, meant))
            return false;
        node->key = sl_str_c(meant);
        sl_yaml_node_refuse(node);
        return true;
    }
    if (row->when == SL_WHEN_LATER) {
        sl_report_error(report, node->key_place,
                        "Key \"%s\" of %s is not available in this version",
                        row->name, sl_schema_parts[level].label);
        return false;
    }
    sl_schema_check_value(node, row, report);
    return true;
}

static void check_missing(const struct sl_yaml_node *map,
                          enum sl_schema_level level, struct sl_report *report)
{
    const struct sl_schema_key *row = NULL;
    struct sl_source_pos place =
        map->key_place.line ? map->key_place : map->place;

    while ((row = sl_schema_next(level, row))) {
        if (row->when != SL_WHEN_MUST || sl_yaml_node_get(map, row->name))
            continue;
        sl_report_error(
            report, place, "Missing key in %s: \"%s\"" SL_HINT "%s: %s",
            sl_schema_parts[level].label, row->name, row->name, row->example);
    }
}

static void check_map(struct sl_yaml_node *map, enum sl_schema_level level,
                      struct sl_report *report)
{
    struct sl_yaml_node **link = &map->child;

    while (*link) {
        if (check_child(map, *link, level, report)) {
            link = &(*link)->next;
            continue;
        }
        *link = (*link)->next;
        map->count--;
    }
    check_missing(map, level, report);
}

void sl_schema_check(struct sl_yaml_node *root, struct sl_report *report)
{
    if (root->kind == SL_NODE_EMPTY)
        return; /* reported by the reader */
    if (root->kind == SL_NODE_MAP) {
        check_map(root, SL_LEVEL_TOP, report);
        return;
    }
    sl_report_error(report, root->place,
                    "A policy must be a map of keys and values, not %s" SL_HINT
                    "sluice: 1",
                    root->kind == SL_NODE_LIST ? "a list" : "a text");
    sl_yaml_node_refuse(root);
}

/* ---- the rows of schema.def, and how to find them. */

const struct sl_schema_kind sl_schema_kinds[SL_TYPES] = {
#define TYPE(id, name, must, each, pattern, meaning)                           \
    [SL_TYPE_##id] = {name, must, each, pattern, meaning},
#include "policy/schema.def"
};

const struct sl_schema_part sl_schema_parts[SL_LEVELS] = {
#define LEVEL(id, name, label, title, ...)                                     \
    [SL_LEVEL_##id] = {.word = name, label, title, __VA_ARGS__},
#include "policy/schema.def"
};

/* Rows without a level below have SL_LEVELS there. */
#define ROW(of, name, type, words, below, when, ...)                           \
    {.level = SL_LEVEL_##of,                                                   \
     name,                                                                     \
     SL_TYPE_##type,                                                           \
     words,                                                                    \
     below,                                                                    \
     SL_WHEN_##when,                                                           \
     __VA_ARGS__},

const struct sl_schema_key sl_schema_keys[] = {
#define KEY(level, name, type, when, ...)                                      \
    ROW(level, name, type, "", SL_LEVELS, when, __VA_ARGS__)
#define WORD(level, name, type, words, when, ...)                              \
    ROW(level, name, type, words, SL_LEVELS, when, __VA_ARGS__)
#define BELOW(level, name, type, below, when, ...)                             \
    ROW(level, name, type, "", SL_LEVEL_##below, when, __VA_ARGS__)
#include "policy/schema.def"
};

const unsigned sl_schema_key_count = SL_LEN(sl_schema_keys);

const struct sl_schema_key *sl_schema_next(enum sl_schema_level level,
                                           const struct sl_schema_key *row)
{
    const struct sl_schema_key *end = sl_schema_keys + sl_schema_key_count;

    for (row = row ? row + 1 : sl_schema_keys; row < end; row++)
        if (row->level == level)
            return row;
    return NULL;
}

const struct sl_schema_key *sl_schema_any(enum sl_schema_level level)
{
    const struct sl_schema_key *row = NULL;

    while ((row = sl_schema_next(level, row)))
        if (!strcmp(row->name, "*"))
            return row;
    return NULL;
}

const struct sl_schema_key *sl_schema_find(enum sl_schema_level level,
                                           struct sl_str name)
{
    const struct sl_schema_key *row = NULL;

    while ((row = sl_schema_next(level, row)))
        if (sl_str_eq(name, sl_str_c(row->name)) && strcmp(row->name, "*") != 0)
            return row;
    return NULL;
}

struct sl_str sl_schema_word(const char **rest)
{
    const char *from = *rest + strspn(*rest, " ");
    size_t len = strcspn(from, " ");

    *rest = from + len;
    return (struct sl_str){from, len};
}
