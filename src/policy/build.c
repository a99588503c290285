/* build.c -- what all parts of a build need: memory, values, names. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/parse.h"
#include "policy/policy_int.h"

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

const struct sl_yaml_node *sl_build_get(const struct sl_yaml_node *map,
                                        const char *key)
{
    const struct sl_yaml_node *node = sl_yaml_node_get(map, key);

    return node && node->kind != SL_NODE_EMPTY ? node : NULL;
}

bool sl_build_refused(const struct sl_yaml_node *node)
{
    return node && node->refused;
}

struct sl_quoted sl_build_shown(const struct sl_yaml_node *node)
{
    return sl_quote(node->substituted ? SL_STR("...") : node->text);
}

bool sl_build_error(struct sl_build *b, const struct sl_yaml_node *node,
                    const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    (void)sl_report_add(b->report, node->place, false, fmt, args);
    va_end(args);
    return false;
}

bool sl_build_key_error(struct sl_build *b, const struct sl_yaml_node *node,
                        const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    (void)sl_report_add(b->report, node->key_place, false, fmt, args);
    va_end(args);
    return false;
}

bool sl_build_ok(struct sl_build *b, const struct sl_yaml_node *node, int err,
                 const struct sl_diag *diag)
{
    if (err == SLUICE_ENOMEM)
        b->no_memory = true;
    else if (err && node->substituted) /* parsers quote what they read */
        sl_build_error(b, node,
                       "Invalid value after substitution of ENV or FILE. It is "
                       "not shown because it could be a secret");
    else if (err)
        sl_report_diag(b->report, node->place, diag);
    return err == 0;
}

uint64_t sl_build_number(struct sl_build *b, const struct sl_yaml_node *node,
                         uint64_t least, uint64_t most, uint64_t preset)
{
    struct sl_diag diag = {0};
    uint64_t number;

    if (!node ||
        !sl_build_ok(b, node, sl_parse_number(node->text, &number, &diag),
                     &diag))
        return preset;
    if (number >= least && number <= most)
        return number;
    sl_build_error(b, node,
                   "`%s` must be between %" PRIu64 " and %" PRIu64
                   ", not %" PRIu64,
                   node->key.at, least, most, number);
    return preset;
}

sl_ns sl_build_duration(struct sl_build *b, const struct sl_yaml_node *node,
                        sl_ns preset)
{
    struct sl_diag diag = {0};
    sl_ns span = preset;

    if (node)
        (void)sl_build_ok(b, node, sl_parse_duration(node->text, &span, &diag),
                          &diag);
    return span;
}

/* ---- lists ---- */

/* The first scalar from `item` on. */
static const struct sl_yaml_node *pass_holes(const struct sl_yaml_node *item)
{
    while (item && item->kind != SL_NODE_SCALAR)
        item = item->next;
    return item;
}

const struct sl_yaml_node *sl_build_first(const struct sl_yaml_node *node)
{
    if (!node || node->kind == SL_NODE_SCALAR)
        return node;
    return node->kind == SL_NODE_LIST ? pass_holes(node->child) : NULL;
}

const struct sl_yaml_node *sl_build_next(const struct sl_yaml_node *node,
                                         const struct sl_yaml_node *item)
{
    return node == item ? NULL : pass_holes(item->next);
}

unsigned sl_build_most(const struct sl_yaml_node *node)
{
    if (!node)
        return 0;
    return node->kind == SL_NODE_SCALAR ? 1 : node->count;
}

bool sl_build_short(struct sl_build *b, const struct sl_yaml_node *list,
                    unsigned most, const char *what)
{
    unsigned count = sl_build_most(list);

    return count <= most ||
           sl_build_error(b, list, "%u %s are too many. The maximum is %u",
                          count, what, most);
}

bool sl_build_twice(struct sl_build *b, const struct sl_yaml_node *list,
                    const struct sl_yaml_node *item, const char *what)
{
    const struct sl_yaml_node *node = sl_build_first(list);

    /* Quadratic: only for lists whose length has been checked. */
    while (node != item && !sl_str_eq(node->text, item->text))
        node = sl_build_next(list, node);
    return node != item &&
           !sl_build_error(b, item, "%s \"%.64s\" is listed twice. Remove one",
                           what, sl_build_shown(item).text);
}

void *sl_build_list(struct sl_build *b, const struct sl_yaml_node *node,
                    const struct sl_list_form *form, const void *ctx,
                    unsigned *count)
{
    const struct sl_yaml_node *item;
    void *list;

    if (!node || !sl_build_short(b, node, form->most, form->items))
        return NULL;
    if (form->empty && node->kind == SL_NODE_LIST && node->count == 0)
        sl_build_error(b, node, "%s", form->empty);
    list = sl_build_take(b, sl_build_most(node) + 1, form->size);
    if (!list)
        return NULL;
    for (item = sl_build_first(node); item; item = sl_build_next(node, item))
        if ((!form->item || !sl_build_twice(b, node, item, form->item)) &&
            form->read(b, item, list, *count, ctx))
            ++*count;
    return list;
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

static bool refuse_name(struct sl_build *b, const char *what,
                        struct sl_quoted name, struct sl_source_pos place)
{
    sl_report_error(b->report, place,
                    "Invalid name \"%s\" for %s. A name has up to %d letters, "
                    "digits, '.', '_' and '-', and begins with a letter or a "
                    "digit",
                    name.text, what, SL_NAME_MAX);
    return false;
}

bool sl_build_name(struct sl_build *b, const char *what,
                   const struct sl_yaml_node *node)
{
    return is_name(node->text) ||
           refuse_name(b, what, sl_build_shown(node), node->place);
}

bool sl_build_key_name(struct sl_build *b, const char *what,
                       const struct sl_yaml_node *node)
{
    return is_name(node->key) ||
           refuse_name(b, what, sl_quote(node->key), node->key_place);
}

const char *sl_build_guess(struct sl_build *b, const struct sl_names *names,
                           struct sl_str typo)
{
    const char *guess = NULL;

    if (!sl_report_full(b->report))
        guess = sl_str_nearest(typo, names->words, names->count);
    return guess ? guess : "";
}

int sl_build_find(struct sl_build *b, const struct sl_names *names,
                  const struct sl_yaml_node *item, const char *what)
{
    int index = sl_names_find(names, item->text);

    if (index < 0 && !names->unsure)
        sl_build_error(b, item,
                       "Unknown %s \"%s\". Define it under `%ss`" SL_HINT "%s",
                       what, sl_build_shown(item).text, what,
                       sl_build_guess(b, names, item->text));
    return index;
}

/* ---- sorted names and their indices. */

#define FEW 8

bool sl_names_init(struct sl_names *names, struct sl_build *b,
                   struct sl_arena *arena, unsigned room, bool nocase)
{
    *names = (struct sl_names){
        .list = take(b, arena, room, sizeof(*names->list)),
        .words = take(b, arena, room, sizeof(*names->words)),
        .room = room,
        .nocase = nocase,
    };
    return !b->no_memory;
}

void sl_names_add(struct sl_names *names, struct sl_str name, unsigned index,
                  struct sl_source_pos place)
{
    if (names->count == names->room)
        return;
    names->words[names->count] = name.at;
    names->list[names->count++] = (struct sl_name){name, index, place};
}

static unsigned char lower(char c)
{
    return (unsigned char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
}

/* Not strcasecmp(), which depends on the locale. */
static int compare(struct sl_str a, struct sl_str b, bool nocase)
{
    size_t len = a.len < b.len ? a.len : b.len;

    for (size_t i = 0; i < len; i++) {
        unsigned char x = nocase ? lower(a.at[i]) : (unsigned char)a.at[i];
        unsigned char y = nocase ? lower(b.at[i]) : (unsigned char)b.at[i];

        if (x != y)
            return x < y ? -1 : 1;
    }
    return (a.len > b.len) - (a.len < b.len);
}

static int by_place(const struct sl_name *a, const struct sl_name *b)
{
    if (a->place.line != b->place.line)
        return a->place.line < b->place.line ? -1 : 1;
    return (a->place.column > b->place.column) -
           (a->place.column < b->place.column);
}

static int in_order(const void *left, const void *right)
{
    const struct sl_name *a = left, *b = right;
    int order = compare(a->name, b->name, false);

    return order ? order : by_place(a, b);
}

static int in_order_nocase(const void *left, const void *right)
{
    const struct sl_name *a = left, *b = right;
    int order = compare(a->name, b->name, true);

    return order ? order : by_place(a, b);
}

void sl_names_close(struct sl_names *names)
{
    if (names->count > 0)
        qsort(names->list, names->count, sizeof(*names->list),
              names->nocase ? in_order_nocase : in_order);
}

/* A short list is searched in order: most names differ in length. */
static int find_among_few(const struct sl_names *names, struct sl_str name)
{
    for (unsigned i = 0; i < names->count; i++)
        if (names->nocase ? sl_str_eq_nocase(names->list[i].name, name)
                          : sl_str_eq(names->list[i].name, name))
            return (int)names->list[i].index;
    return -1;
}

/* The first that is not before `name`. */
static unsigned lower_bound(const struct sl_names *names, struct sl_str name)
{
    unsigned low = 0, high = names->count;

    while (low < high) {
        unsigned mid = low + (high - low) / 2;

        if (compare(names->list[mid].name, name, names->nocase) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

int sl_names_find(const struct sl_names *names, struct sl_str name)
{
    unsigned at;

    if (names->count <= FEW)
        return find_among_few(names, name);
    at = lower_bound(names, name);
    if (at < names->count &&
        compare(names->list[at].name, name, names->nocase) == 0)
        return (int)names->list[at].index;
    return -1;
}

bool sl_names_begin(const struct sl_names *names, struct sl_str prefix)
{
    unsigned at = lower_bound(names, prefix);
    struct sl_str name;

    if (at == names->count || names->list[at].name.len < prefix.len)
        return false;
    name = (struct sl_str){names->list[at].name.at, prefix.len};
    return compare(name, prefix, names->nocase) == 0;
}

bool sl_names_again(const struct sl_names *names, unsigned i)
{
    return i > 0 && compare(names->list[i - 1].name, names->list[i].name,
                            names->nocase) == 0;
}

/* ---- the keys of the top level, and what several levels share: dialects and
 * messages. */

bool sl_build_bits(struct sl_build *b, const struct sl_schema_key *row,
                   const struct sl_yaml_node *node,
                   const struct sl_list_form *form, unsigned *ret)
{
    const struct sl_yaml_node *item;

    *ret = 0;
    if (!node || !sl_build_short(b, node, form->most, form->items))
        return false;
    for (item = sl_build_first(node); item; item = sl_build_next(node, item))
        if (!sl_build_twice(b, node, item, form->item))
            *ret |= 1u << sl_schema_value(row, item->text);
    return true;
}

void sl_fill_dialects(struct sl_build *b, const struct sl_schema_key *row,
                      const struct sl_yaml_node *node, void *into)
{
    static const struct sl_list_form form = {
        .most = 7, .items = "dialects", .item = "Dialect"};
    const unsigned none = 1u << sl_schema_value(row, SL_STR("none"));
    const struct sl_yaml_node *item = sl_build_first(node);
    unsigned bits;

    if (!sl_build_bits(b, row, node, &form, &bits))
        return;
    while (item && !sl_str_eq(item->text, SL_STR("none")))
        item = sl_build_next(node, item);
    if (item && bits != none)
        sl_build_error(b, item,
                       "\"none\" excludes all other dialects. Remove it, or "
                       "remove the others");
    sl_schema_set(row, into, bits & ~none);
}

void sl_fill_message(struct sl_build *b, const struct sl_schema_key *row,
                     const struct sl_yaml_node *node, void *into)
{
    struct sl_template *ret = sl_schema_field(row, into);
    struct sl_diag diag = {0};

    if (node)
        (void)sl_build_ok(
            b, node, sl_template_read(node->text, b->arena, ret, &diag), &diag);
}

void sl_build_general(struct sl_build *b)
{
    struct sl_policy *policy = b->policy;

    policy->env = SL_STR("default");
    policy->dialects = SL_DIALECT_X_RATELIMIT | SL_DIALECT_IETF;
    sl_schema_fill(b, SL_LEVEL_TOP, b->root, policy);
    policy->file = sl_build_keep(b, sl_str_c(b->report->file));
}

/* ---- `features`: kill switches, of the file and the environment. */

#define VARIABLE     "FEATURE_"
#define VARIABLE_MAX (sizeof(VARIABLE) + SL_NAME_MAX)

/* FEATURE_NAME: in upper case, with _ for - and . */
static void name_variable(struct sl_str name, char out[VARIABLE_MAX])
{
    size_t at = strlen(VARIABLE);

    memcpy(out, VARIABLE, at);
    for (size_t i = 0; i < name.len && at < VARIABLE_MAX - 1; i++) {
        char c = name.at[i];

        if (c >= 'a' && c <= 'z')
            c = (char)(c - 'a' + 'A');
        out[at++] = (char)(c == '-' || c == '.' ? '_' : c);
    }
    out[at] = '\0';
}

/* The environment overrides the file. */
static void read_variable(struct sl_build *b, const struct sl_yaml_node *node,
                          struct sl_feature *feature)
{
    static const char *const words[] = {"false", "true", "off", "on", "0", "1"};
    const struct sl_yaml_options *from = &b->options->substitute;
    char name[VARIABLE_MAX];
    const char *value;

    name_variable(feature->name, name);
    value = from->env ? from->env(from->ctx, name) : NULL;
    for (size_t i = 0; value && i < SL_LEN(words); i++)
        if (sl_str_eq_nocase(sl_str_c(value), sl_str_c(words[i]))) {
            feature->enabled = i % 2;
            return;
        }
    if (value)
        sl_build_key_error(b, node,
                           "Environment variable %s has the value \"%.40s\". "
                           "Write true or false",
                           name, value);
}

static void read_feature(struct sl_build *b, const struct sl_yaml_node *node,
                         struct sl_feature *feature)
{
    bool good = sl_build_key_name(b, "a feature", node);

    feature->name = sl_build_keep(b, node->key);
    sl_schema_fill(b, SL_LEVEL_FEATURE, node, feature);
    if (good)
        read_variable(b, node, feature);
}

/* Two features with the same variable could not be switched separately. */
static void refuse_same_variables(struct sl_build *b,
                                  const struct sl_yaml_node *node)
{
    struct sl_names names;
    unsigned i = 0;

    if (!sl_names_init(&names, b, b->scratch, node->count, false))
        return;
    for (const struct sl_yaml_node *n = node->child; n; n = n->next, i++) {
        char *text = sl_build_borrow(b, VARIABLE_MAX, 1);

        if (!text)
            return;
        name_variable(n->key, text);
        sl_names_add(&names, sl_str_c(text), i, n->key_place);
    }
    sl_names_close(&names);
    for (i = 1; i < names.count; i++)
        if (sl_names_again(&names, i))
            sl_report_error(b->report, names.list[i].place,
                            "Environment variable %s switches this feature "
                            "and the feature on line %u. Rename one of them",
                            names.list[i].name.at,
                            names.list[i - 1].place.line);
}

void sl_build_features(struct sl_build *b)
{
    const struct sl_yaml_node *node = sl_build_get(b->root, "features");
    struct sl_names *names = &b->box->features;
    struct sl_feature *list;
    unsigned i = 0;

    names->unsure = sl_build_refused(sl_yaml_node_get(b->root, "features"));
    if (!node)
        return;
    if (node->count > SL_FEATURES_MAX) {
        sl_build_key_error(b, node,
                           "%u features are too many. The maximum is %d",
                           node->count, SL_FEATURES_MAX);
        names->unsure = true;
        return;
    }
    list = sl_build_take(b, node->count + 1, sizeof(*list));
    if (!list || !sl_names_init(names, b, b->arena, node->count, false))
        return;
    for (const struct sl_yaml_node *n = node->child; n; n = n->next, i++) {
        read_feature(b, n, &list[i]);
        sl_names_add(names, list[i].name, i, n->key_place);
    }
    sl_names_close(names);
    b->policy->features = list;
    b->policy->feature_count = i;
    refuse_same_variables(b, node);
}

/* ---- `errors`: the bodies of denials. */

/* A character of the file makes at most six of the print, \uXXXX. */
#define PRINTED_BYTES ((size_t)8 * SL_YAML_BYTES)

/* A body is printed from its nodes, because its pieces do not show which values
 * came from ENV or FILE. */
static struct sl_str print_body(struct sl_build *b,
                                const struct sl_yaml_node *body)
{
    struct sl_str text = SL_STR("");
    struct sl_buf out;
    struct sl_writer w = {&out, 0};

    sl_buf_init(&out, PRINTED_BYTES, b->scratch->alloc);
    sl_print_body(&w, body);
    if (w.err)
        b->no_memory = true;
    else
        text = sl_build_keep(b, sl_buf_str(&out));
    sl_buf_done(&out);
    return text;
}

/* The statuses that each error can have, in the order of enum sl_error. Clients
 * go by the status: a failing store must not look like a limit. */
static const struct family {
    const char *name;
    const char *words; /* the valid statuses; the first is the usual one */
    int least;         /* all from this on, if it is not 0 */
} families[SL_ERRORS] = {
    {"rate_limited", "429, 503 or 420",           0  },
    {"plan_limit",   "402, 403 or 429",           0  },
    {"forbidden",    "403 or 404",                0  },
    {"unauthorized", "401 or 403",                0  },
    {"conflict",     "409, 412, 422, 423 or 425", 0  },
    {"unavailable",  "500 to 599",                500},
    {"bad_request",  "400 or 422",                0  },
};

/* A status that the error cannot have is reported. */
static void check_status(struct sl_build *b, const struct sl_yaml_node *text,
                         const struct family *family,
                         struct sl_error_form *form)
{
    char digits[16];

    snprintf(digits, sizeof(digits), "%d", form->status);
    if (form->status == 0 || !text ||
        (family->least ? form->status >= family->least
                       : strstr(family->words, digits) != NULL))
        return;
    sl_build_error(b, text,
                   "Status %s is not valid for the error \"%s\". Valid "
                   "statuses: %s" SL_HINT "status: %.3s",
                   sl_build_shown(text).text, family->name, family->words,
                   family->least ? "503" : family->words);
    form->status = 0;
}

void sl_build_errors(struct sl_build *b)
{
    const struct sl_yaml_node *errors = sl_yaml_node_get(b->root, "errors");

    for (int i = 0; i < SL_ERRORS; i++) {
        const struct sl_yaml_node *node =
            sl_yaml_node_get(errors, families[i].name);
        const struct sl_yaml_node *body = sl_build_get(node, "body");
        struct sl_error_form *form = &b->policy->errors[i];
        int err;

        sl_schema_fill(b, SL_LEVEL_ERROR, node, form);
        check_status(b, sl_build_get(node, "status"), &families[i], form);
        if (!body)
            continue;
        err = sl_template_read_body(body, b->arena, &form->body, b->report);
        if (err == SLUICE_ENOMEM)
            b->no_memory = true;
        form->has_body = !err;
        if (!err)
            form->printed = print_body(b, body);
    }
}
