/* schema.h -- the policy language, once.
 *
 * schema.def has every key with its type and a sentence. The check of a file,
 * the JSON Schema for editors, the reference page and the suggestions for
 * misspelt keys are loops over it.
 */
#ifndef SL_SCHEMA_H
#define SL_SCHEMA_H

#include "policy/yaml.h"

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

#endif
