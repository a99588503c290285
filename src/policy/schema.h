/* schema.h -- the rows of schema.def, and the loops over them.
 *
 * The check of a file, the JSON Schema for editors, the reference page, the
 * suggestions for misspelt keys, the build of a policy, its print and its diff
 * use these rows.
 */
#ifndef SL_POLICY_SCHEMA_H
#define SL_POLICY_SCHEMA_H

#include <stddef.h>

#include "policy/yaml.h"

struct sl_build;
struct sl_changes;
struct sl_printer;

/* Check `root` against the language: unknown keys (with a suggestion), wrong
 * types, words that are not among the choices, missing keys, keys of parts
 * that this version does not have. Says everything in `report`. Values that
 * are wrong become SL_NODE_EMPTY, and unknown keys are removed, so that the
 * build finds only values of the right type. Numbers, durations, sizes and
 * rates are checked for their form only. */
void sl_schema_check(struct sl_yaml_node *root, struct sl_report *report);

/* The JSON Schema (draft 2020-12), and the reference page in Markdown. */
SL_MUST_USE int sl_schema_json(struct sl_buf *out);
SL_MUST_USE int sl_schema_page(struct sl_buf *out);

enum sl_schema_type {
#define TYPE(id, name, must, each, pattern, meaning) SL_TYPE_##id,
#include "policy/schema.def"
    SL_TYPES
};

enum sl_schema_level {
#define LEVEL(id, word, label, title, ...) SL_LEVEL_##id,
#include "policy/schema.def"
    SL_LEVELS
};

enum sl_schema_when { SL_WHEN_NOW, SL_WHEN_MUST, SL_WHEN_LATER };

struct sl_schema_kind {
    const char *name, *must, *each, *pattern, *meaning;
};

struct sl_schema_part {
    const char *word, *label, *title, *meaning, *order;
};

/* A list of a policy, read into an array and printed. */
struct sl_list_form {
    unsigned most;     /* items */
    const char *items; /* "roles", for an error */
    const char *item;  /* "Role"; NULL: an item can be repeated */
    const char *empty; /* the error for an empty list; NULL: it is valid */
    size_t size;       /* of an item */
    /* Read list[i]. False: the item is left out. */
    bool (*read)(struct sl_build *b, const struct sl_yaml_node *item,
                 void *list, unsigned i, const void *ctx);
    /* The text of list[i]; `room` can be used for it. */
    struct sl_str (*print)(const void *list, unsigned i, char *room);
};

/* When the key is printed. */
enum sl_schema_show {
    SL_SHOW_ALWAYS,
    SL_SHOW_SET,     /* if the field is not 0 and not empty */
    SL_SHOW_CHANGED, /* if it is not the preset, or came from ENV or FILE */
};

struct sl_schema_key {
    enum sl_schema_level level;
    const char *name; /* "*": any other */
    enum sl_schema_type type;
    const char *words;          /* CHOICE and CHOICES: with blanks between */
    enum sl_schema_level below; /* MAP, MAPS and SHORT */
    enum sl_schema_when when;
    const char *meaning, *example;

    /* Optional. */
    uint16_t offset, size; /* of the field in the struct of the level */
    uint16_t count;        /* offset of the field with the count of `list` */
    const struct sl_list_form *list; /* the field is a pointer to an array */
    int64_t preset;                  /* of the field, unless 0 */
    int64_t least, most;             /* NUMBER, SIZE and DURATION */
    const char *values; /* CHOICE: the words by value; NULL: `words` */
    const char *noun;   /* TEXT: it is a name, of "an environment" */
    const char *hint;   /* DURATION out of range; NULL: the preset */
    int of;             /* SOURCES: enum sl_sources_of */
    bool inverted;      /* BOOL: the field is true for `false` */
    bool can_be_empty;  /* SHORT: "" is valid */
    enum sl_schema_show show;
    bool in_diff;       /* a change is one line of the diff */
    const char *effect; /* behind that line */

    /* For what the type does not say; NULL: by the type. `node` is the value,
     * or NULL if it is missing or was refused. `into` and `from` are the struct
     * of the level. */
    void (*fill)(struct sl_build *b, const struct sl_schema_key *row,
                 const struct sl_yaml_node *node, void *into);
    void (*print)(struct sl_printer *p, const struct sl_schema_key *row,
                  const void *from);
};

extern const struct sl_schema_kind sl_schema_kinds[SL_TYPES];
extern const struct sl_schema_part sl_schema_parts[SL_LEVELS];
extern const struct sl_schema_key sl_schema_keys[];
extern const unsigned sl_schema_key_count;

/* The row behind `row` (NULL: the first) on that level, or NULL. */
const struct sl_schema_key *sl_schema_next(enum sl_schema_level level,
                                           const struct sl_schema_key *row);

/* The row of that name, or NULL; never that of any other name. */
const struct sl_schema_key *sl_schema_find(enum sl_schema_level level,
                                           struct sl_str name);

/* The row of any other name, or NULL. */
const struct sl_schema_key *sl_schema_any(enum sl_schema_level level);

/* The next of a row's words, or an empty slice; *rest begins as row->words. */
struct sl_str sl_schema_word(const char **rest);

/* Check the value of a key; see sl_schema_check(). */
void sl_schema_check_value(struct sl_yaml_node *node,
                           const struct sl_schema_key *row,
                           struct sl_report *report);

/* ---- fields (schema_fields.c) ---- */

/* Fill the fields of `into`, the struct of the level, from the keys of `map`
 * (NULL: it has none). Presets are set first; other fields of missing keys keep
 * their values. Invalid values are reported and leave the field as it is. */
void sl_schema_fill(struct sl_build *b, enum sl_schema_level level,
                    const struct sl_yaml_node *map, void *into);

/* Print the keys of a level, in its order; or only `keys`, "user org". */
void sl_schema_print(struct sl_printer *p, enum sl_schema_level level,
                     const void *from);
void sl_schema_print_keys(struct sl_printer *p, enum sl_schema_level level,
                          const char *keys, const void *from);

/* Add a line for each field that differs and whose row is `in_diff`. `of` is
 * put before the key: "limit api: ". */
void sl_schema_diff(struct sl_changes *c, enum sl_schema_level level,
                    const char *of, const void *old, const void *new);

/* Where the field of the row is. */
static inline void *sl_schema_field(const struct sl_schema_key *row, void *into)
{
    return (char *)into + row->offset;
}

static inline const void *sl_schema_const_field(const struct sl_schema_key *row,
                                                const void *from)
{
    return (const char *)from + row->offset;
}

/* The field of a BOOL, a CHOICE, a NUMBER, a COUNT, a SIZE or a DURATION. */
int64_t sl_schema_get(const struct sl_schema_key *row, const void *from);
void sl_schema_set(const struct sl_schema_key *row, void *into, int64_t value);

/* The value of a CHOICE for one of its words. */
int64_t sl_schema_value(const struct sl_schema_key *row, struct sl_str word);

/* The word of a value. */
struct sl_str sl_schema_word_of(const struct sl_schema_key *row, int64_t value);

/* The field as a text. `room` is used for it. */
#define SL_SCHEMA_TEXT 64
struct sl_str sl_schema_text(const struct sl_schema_key *row, const void *from,
                             char room[SL_SCHEMA_TEXT]);

#endif
