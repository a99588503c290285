/* schema.h -- the rows of schema.def; for the schema's files only. */
#ifndef SL_POLICY_SCHEMA_H
#define SL_POLICY_SCHEMA_H

#include "policy/yaml.h"

/* ---- the policy language, once.
 *
 * schema.def has every key with its type and a sentence. The check of a file,
 * the JSON Schema for editors, the reference page and the suggestions for
 * misspelt keys are loops over it.
 */

/* Check `root` against the language: unknown keys (with a suggestion), wrong
 * types, words that are not among the choices, missing keys, keys of parts
 * that this version does not have. Says everything in `report`. Values that
 * are wrong are turned into SL_NODE_EMPTY, and keys that are unknown are taken
 * out, so that whoever builds finds only what has the right type. Numbers,
 * durations, sizes and rates are checked for their form only. */
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
#define LEVEL(id, word, label, title, meaning) SL_LEVEL_##id,
#include "policy/schema.def"
    SL_LEVELS
};

enum sl_schema_when { SL_WHEN_NOW, SL_WHEN_MUST, SL_WHEN_LATER };

struct sl_schema_kind {
    const char *name, *must, *each, *pattern, *meaning;
};

struct sl_schema_part {
    const char *word, *label, *title, *meaning;
};

struct sl_schema_key {
    enum sl_schema_level level;
    const char *name; /* "*": any other */
    enum sl_schema_type type;
    const char *words;          /* CHOICE and CHOICES: with blanks between */
    enum sl_schema_level below; /* MAP and MAPS */
    enum sl_schema_when when;
    const char *meaning, *example;
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

/* Is it one of the words? */
bool sl_schema_has_word(const struct sl_schema_key *row, struct sl_str word);

/* The word, or the key of the level, that was most likely meant; or NULL.
 * `room` takes the word and must outlive the use of what is returned. */
struct sl_schema_room {
    char text[64];
};
const char *sl_schema_near_word(const struct sl_schema_key *row,
                                struct sl_str typo,
                                struct sl_schema_room *room);
const char *sl_schema_near_key(enum sl_schema_level level, struct sl_str typo);

/* A list in words, "a, b or c", in as many bytes as there are. */
struct sl_schema_list {
    char text[160];
};
void sl_schema_list_add(struct sl_schema_list *list, struct sl_str word,
                        bool last);

/* Check the value of a key (schema_value.c). */
void sl_schema_check_value(struct sl_yaml_node *node,
                           const struct sl_schema_key *row,
                           struct sl_report *report);

/* Check the keys of a map (schema.c). */
void sl_schema_check_map(struct sl_yaml_node *map, enum sl_schema_level level,
                         struct sl_report *report);

#endif
