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

const struct sl_yaml_node *sl_build_scalar(const struct sl_yaml_node *map,
                                           const char *key)
{
    const struct sl_yaml_node *node = sl_yaml_node_get(map, key);

    return node && node->kind == SL_NODE_SCALAR ? node : NULL;
}

int sl_build_choice(const struct sl_yaml_node *map, const char *key,
                    const char *const *words, int count, int preset)
{
    const struct sl_yaml_node *node = sl_build_scalar(map, key);

    for (int i = 0; node && i < count; i++)
        if (sl_str_eq(node->text, sl_str_c(words[i])))
            return i;
    return preset;
}

bool sl_build_refused(const struct sl_yaml_node *node)
{
    return node && node->refused;
}

struct sl_quoted sl_build_shown(const struct sl_yaml_node *node)
{
    return sl_quote(node->substituted ? SL_STR("...") : node->text);
}

bool sl_build_ok(struct sl_build *b, const struct sl_yaml_node *node, int err,
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

uint64_t sl_build_number(struct sl_build *b, const struct sl_yaml_node *map,
                         const char *key, uint64_t least, uint64_t most,
                         uint64_t preset)
{
    const struct sl_yaml_node *node = sl_build_scalar(map, key);
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

sl_ns sl_build_duration(struct sl_build *b, const struct sl_yaml_node *map,
                        const char *key, sl_ns preset)
{
    const struct sl_yaml_node *node = sl_build_scalar(map, key);
    struct sl_diag diag = {0};
    sl_ns span = preset;

    if (node)
        (void)sl_build_ok(b, node, sl_parse_duration(node->text, &span, &diag),
                          &diag);
    return span;
}

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

    if (count <= most)
        return true;
    sl_report_error(b->report, SL_AT(list),
                    "%u %s are too many. The maximum is %u", count, what, most);
    return false;
}

bool sl_build_twice(struct sl_build *b, const struct sl_yaml_node *list,
                    const struct sl_yaml_node *item, const char *what)
{
    const struct sl_yaml_node *node = sl_build_first(list);

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
                        struct sl_quoted name, struct sl_source_pos place)
{
    sl_report_error(b->report, place,
                    "Invalid name \"%s\" for %s. A name has up to %d letters, "
                    "digits, '.', '_' and '-', and begins with a letter or a "
                    "digit",
                    name.text, what, SL_NAME_MAX);
}

bool sl_build_name(struct sl_build *b, const char *what,
                   const struct sl_yaml_node *node)
{
    if (is_name(node->text))
        return true;
    refuse_name(b, what, sl_build_shown(node), SL_AT(node));
    return false;
}

bool sl_build_key_name(struct sl_build *b, const char *what,
                       const struct sl_yaml_node *node)
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
        sl_diag_hint(diag, "%s", meant);
    return meant;
}

int sl_build_find(struct sl_build *b, const struct sl_names *names,
                  const struct sl_yaml_node *item, const char *what)
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

/* ---- sorted names and their indices. */

#define FEW 8

bool sl_names_init(struct sl_names *names, unsigned room, bool nocase,
                   struct sl_arena *arena)
{
    struct sl_name *list = sl_arena_take(arena, room * sizeof(*list));
    const char **words = sl_arena_take(arena, room * sizeof(*words));

    if (!list || !words)
        return false;
    *names = (struct sl_names){
        .list = list, .words = words, .room = room, .nocase = nocase};
    return true;
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

int sl_names_find(const struct sl_names *names, struct sl_str name)
{
    unsigned low = 0, high = names->count;

    if (names->count <= FEW)
        return find_among_few(names, name);
    while (low < high) {
        unsigned mid = low + (high - low) / 2;

        if (compare(names->list[mid].name, name, names->nocase) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    if (low < names->count &&
        compare(names->list[low].name, name, names->nocase) == 0)
        return (int)names->list[low].index;
    return -1;
}

bool sl_names_again(const struct sl_names *names, unsigned i)
{
    return i > 0 && compare(names->list[i - 1].name, names->list[i].name,
                            names->nocase) == 0;
}

const char *sl_names_nearest(const struct sl_names *names, struct sl_str typo)
{
    return sl_str_nearest(typo, names->words, names->count);
}

/* ---- the keys of the top level, and what several levels share: dialects and
 * messages. */

#define DIALECTS_PRESET (SL_DIALECT_X_RATELIMIT | SL_DIALECT_IETF)

/* In the order of the bits; `none` is no bit. */
static const char *const dialects[] = {
    "x-ratelimit", "ietf", "ietf-06", "github", "openai", "kong", "none",
};
#define NONE (SL_LEN(dialects) - 1)

/* The index of the dialect. The schema has accepted no other word. */
static int find_dialect(const struct sl_yaml_node *item)
{
    int i = 0;

    while (i < (int)NONE && !sl_str_eq(item->text, sl_str_c(dialects[i])))
        i++;
    return i;
}

void sl_fill_dialects(struct sl_build *b, const struct sl_schema_key *row,
                      const struct sl_yaml_node *map, void *into)
{
    const struct sl_yaml_node *node = sl_yaml_node_get(map, row->name);
    const struct sl_yaml_node *item, *none = NULL;
    int bits = 0;

    if (!node || node->kind == SL_NODE_EMPTY ||
        !sl_build_short(b, node, SL_LEN(dialects), "dialects"))
        return;
    for (item = sl_build_first(node); item; item = sl_build_next(node, item)) {
        int i = find_dialect(item);

        if (sl_build_twice(b, node, item, "Dialect"))
            continue;
        if (i == NONE)
            none = item;
        else
            bits |= 1 << i;
    }
    if (none && bits)
        sl_report_error(b->report, SL_AT(none),
                        "\"none\" excludes all other dialects. Remove it, or "
                        "remove the others");
    sl_schema_set(row, into, bits);
}

void sl_fill_message(struct sl_build *b, const struct sl_schema_key *row,
                     const struct sl_yaml_node *map, void *into)
{
    const struct sl_yaml_node *node = sl_build_scalar(map, row->name);
    struct sl_template *ret = (void *)((char *)into + row->offset);
    struct sl_diag diag = {0};

    if (node)
        (void)sl_build_ok(
            b, node, sl_template_read(node->text, b->arena, ret, &diag), &diag);
}

void sl_build_general(struct sl_build *b)
{
    struct sl_policy *policy = b->policy;

    policy->env = SL_STR("default");
    policy->dialects = DIALECTS_PRESET;
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

/* Is `value` one of the three words? */
static bool is_one(const char *value, const char *const words[3])
{
    for (int i = 0; i < 3; i++)
        if (sl_str_eq_nocase(sl_str_c(value), sl_str_c(words[i])))
            return true;
    return false;
}

/* The environment overrides the file. */
static void ask_environment(struct sl_build *b, const struct sl_yaml_node *node,
                            struct sl_feature *feature)
{
    static const char *const on[] = {"true", "on", "1"};
    static const char *const off[] = {"false", "off", "0"};
    const struct sl_yaml_options *from = &b->options->substitute;
    char name[VARIABLE_MAX];
    const char *value;

    name_variable(feature->name, name);
    value = from->env ? from->env(from->ctx, name) : NULL;
    if (!value)
        return;
    if (is_one(value, on))
        feature->enabled = true;
    else if (is_one(value, off))
        feature->enabled = false;
    else
        sl_report_error(b->report, SL_AT_KEY(node),
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
        ask_environment(b, node, feature);
}

/* Two features with the same variable could not be switched separately. */
static void refuse_same_variables(struct sl_build *b,
                                  const struct sl_yaml_node *node)
{
    struct sl_names names;
    char text[VARIABLE_MAX];
    unsigned i = 0;

    if (!sl_names_init(&names, node->count, false, b->scratch)) {
        b->no_memory = true;
        return;
    }
    for (const struct sl_yaml_node *n = node->child; n; n = n->next, i++) {
        char *copy;

        name_variable(n->key, text);
        copy = sl_arena_copy(b->scratch, sl_str_c(text));
        if (!copy) {
            b->no_memory = true;
            return;
        }
        sl_names_add(&names, sl_str_c(copy), i, SL_AT_KEY(n));
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
    const struct sl_yaml_node *node = sl_yaml_node_get(b->root, "features");
    struct sl_feature *list;
    unsigned i = 0;

    b->box->features.unsure = sl_build_refused(node);
    if (!node || node->kind != SL_NODE_MAP)
        return;
    if (node->count > SL_FEATURES_MAX) {
        sl_report_error(b->report, SL_AT_KEY(node),
                        "%u features are too many. The maximum is %d",
                        node->count, SL_FEATURES_MAX);
        b->box->features.unsure = true;
        return;
    }
    list = sl_build_take(b, node->count + 1, sizeof(*list));
    if (!list ||
        !sl_names_init(&b->box->features, node->count, false, b->arena)) {
        b->no_memory = true;
        return;
    }
    for (const struct sl_yaml_node *n = node->child; n; n = n->next, i++) {
        read_feature(b, n, &list[i]);
        sl_names_add(&b->box->features, list[i].name, i, SL_AT_KEY(n));
    }
    sl_names_close(&b->box->features);
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

/* The statuses that each error can have. Clients go by the status: a failing
 * store must not look like a limit. */
struct family {
    const char *name;
    int usual;
    const int *statuses; /* 0 behind the last; NULL: all from 500 to 599 */
    const char *words;   /* what may be written */
};

static const int rates[] = {429, 503, 420, 0};
static const int plans[] = {402, 403, 429, 0};
static const int rights[] = {403, 404, 0};
static const int names[] = {401, 403, 0};
static const int conflicts[] = {409, 412, 422, 423, 425, 0};

/* In the order of enum sl_error. */
static const struct family families[SL_ERRORS] = {
    {"rate_limited", 429, rates,     "429, 503 or 420"          },
    {"plan_limit",   402, plans,     "402, 403 or 429"          },
    {"forbidden",    403, rights,    "403 or 404"               },
    {"unauthorized", 401, names,     "401 or 403"               },
    {"conflict",     409, conflicts, "409, 412, 422, 423 or 425"},
    {"unavailable",  503, NULL,      "500 to 599"               },
};

static bool is_in(const struct family *family, int status)
{
    const int *one = family->statuses;

    if (!one)
        return status >= 500;
    while (*one && *one != status)
        one++;
    return *one != 0;
}

/* A status that the error cannot have is reported. */
static void check_status(struct sl_build *b, const struct sl_yaml_node *node,
                         const struct family *family,
                         struct sl_error_form *form)
{
    const struct sl_yaml_node *text = sl_build_scalar(node, "status");

    if (form->status == 0 || !text || is_in(family, form->status))
        return;
    sl_diag_hint(sl_report_error(b->report, SL_AT(text),
                                 "Status %s is not valid for the error \"%s\". "
                                 "Valid statuses: %s",
                                 sl_build_shown(text).text, family->name,
                                 family->words),
                 "status: %d", family->usual);
    form->status = 0;
}

void sl_build_errors(struct sl_build *b)
{
    const struct sl_yaml_node *errors = sl_yaml_node_get(b->root, "errors");

    for (int i = 0; i < SL_ERRORS; i++) {
        const struct sl_yaml_node *node =
            sl_yaml_node_get(errors, families[i].name);
        const struct sl_yaml_node *body = sl_yaml_node_get(node, "body");
        struct sl_error_form *form = &b->policy->errors[i];
        int err;

        sl_schema_fill(b, SL_LEVEL_ERROR, node, form);
        check_status(b, node, &families[i], form);
        if (!body || body->kind == SL_NODE_EMPTY)
            continue;
        err = sl_template_read_body(body, b->arena, &form->body, b->report);
        if (err == SLUICE_ENOMEM)
            b->no_memory = true;
        form->has_body = !err;
        if (!err)
            form->printed = print_body(b, body);
    }
}
