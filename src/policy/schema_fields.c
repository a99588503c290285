/* schema_fields.c -- the fields of a policy, by the rows of schema.def.
 *
 * A row names the field of its key. Here the field is filled from a checked
 * node, printed and compared, by the type of the row. Rows with a hook do it
 * themselves.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/parse.h"
#include "policy/policy_int.h"

/* ---- fields ---- */

int64_t sl_schema_get(const struct sl_schema_key *row, const void *from)
{
    const char *field = (const char *)from + row->offset;
    int32_t small;
    int64_t large;

    if (row->size == sizeof(bool))
        return *(const bool *)field;
    if (row->size == sizeof(small)) {
        memcpy(&small, field, sizeof(small));
        return small;
    }
    memcpy(&large, field, sizeof(large));
    return large;
}

void sl_schema_set(const struct sl_schema_key *row, void *into, int64_t value)
{
    char *field = (char *)into + row->offset;
    int32_t small = (int32_t)value;

    if (row->size == sizeof(bool))
        *(bool *)field = value != 0;
    else if (row->size == sizeof(small))
        memcpy(field, &small, sizeof(small));
    else
        memcpy(field, &value, sizeof(value));
}

/* Texts are slices; all other fields that are not hooks' are smaller. */
static bool is_text(const struct sl_schema_key *row)
{
    return row->size == sizeof(struct sl_str);
}

static struct sl_str text_of(const struct sl_schema_key *row, const void *from)
{
    return *(const struct sl_str *)sl_schema_const_field(row, from);
}

static unsigned count_of(const struct sl_schema_key *row, const void *from)
{
    return *(const unsigned *)(const void *)((const char *)from + row->count);
}

static bool is_set(const struct sl_schema_key *row, const void *from)
{
    if (row->list)
        return count_of(row, from) > 0;
    return is_text(row) ? text_of(row, from).len > 0
                        : sl_schema_get(row, from) != 0;
}

struct sl_str sl_schema_word_of(const struct sl_schema_key *row, int64_t value)
{
    const char *rest = row->values ? row->values : row->words;
    struct sl_str word = sl_schema_word(&rest);

    while (value-- > 0)
        word = sl_schema_word(&rest);
    return word;
}

int64_t sl_schema_value(const struct sl_schema_key *row, struct sl_str word)
{
    int64_t value = 0;

    while (!sl_str_eq(sl_schema_word_of(row, value), word))
        value++; /* the check has accepted only words of the row */
    return value;
}

static const char *print_size(uint64_t size, char *room)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    unsigned unit = 0;

    while (size > 0 && size % 1024 == 0 && unit + 1 < SL_LEN(units)) {
        size /= 1024;
        unit++;
    }
    snprintf(room, SL_SCHEMA_TEXT, "%" PRIu64 "%s", size, units[unit]);
    return room;
}

struct sl_str sl_schema_text(const struct sl_schema_key *row, const void *from,
                             char room[SL_SCHEMA_TEXT])
{
    int64_t value;

    if (is_text(row))
        return text_of(row, from);
    value = row->size ? sl_schema_get(row, from) : 1; /* VERSION */
    switch (row->type) {
    case SL_TYPE_BOOL:
        return sl_str_c((value != 0) != row->inverted ? "true" : "false");
    case SL_TYPE_CHOICE:
        return sl_schema_word_of(row, value);
    case SL_TYPE_SIZE:
        return sl_str_c(print_size((uint64_t)value, room));
    case SL_TYPE_DURATION:
        return sl_str_c(sl_format_duration(value, room));
    default:
        snprintf(room, SL_SCHEMA_TEXT, "%" PRIu64, (uint64_t)value);
        return sl_str_c(room);
    }
}

/* ---- filling ---- */

static int64_t read_size(struct sl_build *b, const struct sl_schema_key *row,
                         const struct sl_yaml_node *node, int64_t preset)
{
    struct sl_diag diag = {0};
    uint64_t size;

    if (!sl_build_ok(b, node, sl_parse_size(node->text, &size, &diag), &diag))
        return preset;
    if (size < (uint64_t)row->least)
        sl_build_error(b, node,
                       "%" PRIu64 " bytes are too small for `%s`. The minimum "
                       "is 1MiB" SL_HINT "%s: %s",
                       size, row->name, row->name, row->example);
    return (int64_t)size;
}

static int64_t read_count(struct sl_build *b, const struct sl_yaml_node *node,
                          int64_t preset)
{
    struct sl_diag diag = {0};
    uint64_t count;

    return sl_build_ok(b, node, sl_parse_count(node->text, &count, &diag),
                       &diag)
               ? (int64_t)count
               : preset;
}

static int64_t read_span(struct sl_build *b, const struct sl_schema_key *row,
                         const struct sl_yaml_node *node, int64_t preset)
{
    sl_ns span = sl_build_duration(b, node, preset);
    char least[32], most[32], hint[32];

    if (!row->most || (span >= row->least && span > 0 && span <= row->most))
        return span;
    sl_format_duration(row->least, least);
    sl_build_error(
        b, node, "`%s` must be %s%s%s %s, not \"%.64s\"" SL_HINT "%s: %s",
        row->name, row->least > 0 ? "between " : "",
        row->least > 0 ? least : "longer than 0",
        row->least > 0 ? " and" : " and at most",
        sl_format_duration(row->most, most), sl_build_shown(node).text,
        row->name,
        row->hint ? row->hint : sl_format_duration(row->preset, hint));
    return preset;
}

static int64_t read_value(struct sl_build *b, const struct sl_schema_key *row,
                          const struct sl_yaml_node *node, int64_t preset)
{
    switch (row->type) {
    case SL_TYPE_BOOL:
        return sl_str_eq(node->text, SL_STR("true")) != row->inverted;
    case SL_TYPE_CHOICE:
        return sl_schema_value(row, node->text);
    case SL_TYPE_COUNT:
        return read_count(b, node, preset);
    case SL_TYPE_SIZE:
        return read_size(b, row, node, preset);
    case SL_TYPE_DURATION:
        return read_span(b, row, node, preset);
    default:
        return (int64_t)sl_build_number(b, node, (uint64_t)row->least,
                                        (uint64_t)row->most, (uint64_t)preset);
    }
}

static void fill_field(struct sl_build *b, const struct sl_schema_key *row,
                       const struct sl_yaml_node *node, void *into)
{
    void *field = sl_schema_field(row, into);
    unsigned count = 0;

    if (row->type == SL_TYPE_MAP) {
        sl_schema_fill(b, row->below, node, field);
    } else if (!node) {
        return;
    } else if (row->list) {
        *(void **)field = sl_build_list(b, node, row->list, row, &count);
        *(unsigned *)(void *)((char *)into + row->count) = count;
    } else if (is_text(row)) {
        if (!row->noun || sl_build_name(b, row->noun, node))
            *(struct sl_str *)field = sl_build_keep(b, node->text);
    } else {
        sl_schema_set(row, into,
                      read_value(b, row, node, sl_schema_get(row, into)));
    }
}

void sl_schema_fill(struct sl_build *b, enum sl_schema_level level,
                    const struct sl_yaml_node *map, void *into)
{
    const struct sl_schema_key *row = NULL;

    while ((row = sl_schema_next(level, row))) {
        const struct sl_yaml_node *node = sl_build_get(map, row->name);

        if (row->preset)
            sl_schema_set(row, into, row->preset);
        if (row->fill)
            row->fill(b, row, node, into);
        else if (row->size)
            fill_field(b, row, node, into);
    }
}

void sl_fill_later(struct sl_build *b, const struct sl_schema_key *row,
                   const struct sl_yaml_node *node, void *into)
{
    (void)b;
    (void)row;
    (void)node;
    (void)into;
}

/* ---- printing ---- */

static bool is_empty(enum sl_schema_level level, const void *from)
{
    const struct sl_schema_key *row = NULL;

    while ((row = sl_schema_next(level, row)))
        if (row->type == SL_TYPE_MAP
                ? !is_empty(row->below, sl_schema_const_field(row, from))
                : row->size && is_set(row, from))
            return false;
    return true;
}

static bool is_shown(struct sl_printer *p, const struct sl_schema_key *row,
                     const void *from)
{
    switch (row->show) {
    case SL_SHOW_SET:
        return is_set(row, from);
    case SL_SHOW_CHANGED:
        return sl_schema_get(row, from) != row->preset ||
               sl_print_at(p, sl_str_c(row->name));
    default:
        return row->size > 0 || row->type == SL_TYPE_VERSION;
    }
}

static void print_field(struct sl_printer *p, const struct sl_schema_key *row,
                        const void *from)
{
    const void *field = sl_schema_const_field(row, from);
    char room[SL_SCHEMA_TEXT];

    if (row->list) {
        sl_print_list(p, row->name, row->list->print,
                      *(const void *const *)field, count_of(row, from));
    } else if (is_text(row)) {
        sl_print_text(p, row->name, text_of(row, from));
    } else if (row->type != SL_TYPE_MAP) {
        sl_print_yaml(p, sl_str_c(row->name), sl_schema_text(row, from, room));
    } else if (!is_empty(row->below, field)) {
        sl_print_open(p, sl_str_c(row->name));
        sl_schema_print(p, row->below, field);
        sl_print_close(p);
    }
}

static void print_row(struct sl_printer *p, const struct sl_schema_key *row,
                      const void *from)
{
    if (row->print)
        row->print(p, row, from);
    else if (is_shown(p, row, from))
        print_field(p, row, from);
}

void sl_schema_print_keys(struct sl_printer *p, enum sl_schema_level level,
                          const char *keys, const void *from)
{
    const struct sl_schema_key *row = NULL;
    struct sl_str name;

    while (!keys && (row = sl_schema_next(level, row)))
        print_row(p, row, from);
    while (keys && (name = sl_schema_word(&keys)).len > 0) {
        row = sl_schema_find(level, name);
        print_row(p, row ? row : sl_schema_any(level), from);
    }
}

void sl_schema_print(struct sl_printer *p, enum sl_schema_level level,
                     const void *from)
{
    sl_schema_print_keys(p, level, sl_schema_parts[level].order, from);
}

/* ---- comparing ---- */

static void diff_row(struct sl_changes *c, const struct sl_schema_key *row,
                     const char *of, const void *old, const void *new)
{
    char was[SL_SCHEMA_TEXT], is[SL_SCHEMA_TEXT];
    const char *effect = row->effect ? row->effect : "";
    const char *quote = is_text(row) ? "\"" : "";
    struct sl_str from, to;

    if (!is_text(row) && sl_schema_get(row, old) == sl_schema_get(row, new))
        return;
    if (row->type == SL_TYPE_CHOICES) {
        sl_diff_line(c, "%s%s changed%s", of, row->name, effect);
        return;
    }
    from = sl_schema_text(row, old, was);
    to = sl_schema_text(row, new, is);
    if (!sl_str_eq(from, to))
        sl_diff_line(c, "%s%s %s%.*s%s -> %s%.*s%s%s", of, row->name, quote,
                     SL_STR_ARG(from), quote, quote, SL_STR_ARG(to), quote,
                     effect);
}

void sl_schema_diff(struct sl_changes *c, enum sl_schema_level level,
                    const char *of, const void *old, const void *new)
{
    const struct sl_schema_key *row = NULL;

    while ((row = sl_schema_next(level, row)))
        if (row->in_diff)
            diff_row(c, row, of, old, new);
}

/* ---- settings ---- */

struct sl_str sl_server_conf_text(const struct sl_server_conf *conf,
                                  const char *key, char room[SL_SERVER_TEXT])
{
    enum sl_schema_level level = SL_LEVEL_SERVER;
    const struct sl_schema_key *row = NULL;

    for (bool more = true; more; key += strlen(key) > 0) {
        struct sl_str name = {key, strcspn(key, ".")};

        row = sl_schema_find(level, name);
        key += name.len;
        more = row && *key;
        level = row ? row->below : level;
    }
    return row && is_set(row, conf) ? sl_schema_text(row, conf, room)
                                    : SL_STR("");
}
