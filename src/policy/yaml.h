/* yaml.h -- text to a tree of nodes with places, and nothing surprising.
 *
 * YAML is read by libfyaml and then made small: one document, mappings with
 * plain string keys, sequences and scalars. Refused, each at its place: more
 * than 1 MB, NUL, invalid UTF-8, control characters, anchors, aliases, tags,
 * merge keys, directives, a second document, keys that are no scalars, the
 * same key twice, more than 32 levels, more than 100,000 nodes, more than 100
 * blank lines in a row. A file in which one of these
 * occurs is not read further where that is dangerous; other problems are
 * collected.
 *
 * A plain scalar is text: `true`, `5` and `12:30` are told apart by whoever
 * asks for a boolean, a number or a string. An empty value is SL_NODE_EMPTY.
 * Quoted strings have ${ENV:NAME} and ${FILE:path} replaced; see subst.h.
 */
#ifndef SL_POLICY_YAML_H
#define SL_POLICY_YAML_H

#include "base/str.h"
#include "policy/report.h"

#define SL_YAML_BYTES (1024 * 1024)
#define SL_YAML_DEPTH 32
#define SL_YAML_NODES 100000

enum sl_yaml_node_kind {
    SL_NODE_EMPTY, /* `key:` with nothing behind it, or ~ or null */
    SL_NODE_SCALAR,
    SL_NODE_LIST,
    SL_NODE_MAP,
};

struct sl_yaml_node {
    enum sl_yaml_node_kind kind;
    struct sl_source_pos place;
    bool quoted;        /* SCALAR: was written in quotes or as a block */
    bool substituted;   /* SCALAR: has text from ENV or FILE; never show it */
    bool refused;       /* EMPTY: something else stood here; it was said */
    struct sl_str text; /* SCALAR: the value, NUL-terminated */
    struct sl_str written; /* if substituted: the text before that */
    struct sl_str key;     /* in a MAP: its key, NUL-terminated */
    struct sl_source_pos key_place;
    struct sl_yaml_node *child; /* LIST, MAP: the first */
    struct sl_yaml_node *next;  /* of the same parent */
    unsigned count;             /* LIST, MAP: children */
};

/* Where ${ENV:...} and ${FILE:...} come from. NULL functions know nothing. */
struct sl_yaml_options {
    /* The value of an environment variable, or NULL. */
    const char *(*env)(void *ctx, const char *name);
    /* The text of a file, path as written; appended to `out`. 0 or an error
     * with a sentence in `diag`. */
    int (*file)(void *ctx, const char *path, struct sl_buf *out,
                struct sl_diag *diag);
    void *ctx;
};

/* Read report->text. The nodes and their texts live in `arena`. Returns the
 * root, or NULL if there is none to go on with; what is wrong is in `report`.
 * An empty file gives an empty map. */
SL_MUST_USE struct sl_yaml_node *
sl_yaml_read(struct sl_report *report, const struct sl_yaml_options *options,
             struct sl_arena *arena);

/* Turn the node into an empty one, after saying why. */
void sl_yaml_node_refuse(struct sl_yaml_node *node);

/* The child of a map, or NULL (also if `map` is NULL or no map). */
struct sl_yaml_node *sl_yaml_node_get(const struct sl_yaml_node *map,
                                      const char *key);

/* ---- ${ENV:NAME} and ${FILE:path} in quoted strings.
 *
 * `$${` is a `${` that means nothing. What is put in is not looked at again.
 * A file loses one line end at its end, as editors put one there.
 *
 * What is put in may be a secret. It is never shown: complaints name the
 * variable or the file.
 */

#define SL_SUBST_BYTES ((size_t)64 * 1024)   /* of one string */
#define SL_SUBST_TOTAL ((size_t)1024 * 1024) /* of all that is put in */

struct sl_subst {
    const struct sl_yaml_options *options; /* NULL knows nothing */
    struct sl_report *report;
    struct sl_arena *arena;
    size_t total; /* bytes put in so far */
};

/* Is there something to replace in `text`? */
bool sl_subst_needed(struct sl_str text);

/* Replace in the text of `node`, a quoted scalar. If that fails, the node is
 * refused and the report says why. */
void sl_subst_node(struct sl_subst *subst, struct sl_yaml_node *node);

/* Nothing is replaced in a scalar without quotes. One that looks as if it were
 * meant is refused: better than to take it for what it says. */
void sl_subst_plain(struct sl_subst *subst, struct sl_yaml_node *node);

/* ---- is it plain text?
 *
 * A policy is UTF-8 without control characters but tabs and line ends. The
 * whole file is looked at before anything else reads it, and once more each
 * string that was written with escapes or comes from elsewhere.
 */

enum sl_utf8_error {
    SL_FAULT_NONE,
    SL_FAULT_NUL,
    SL_FAULT_UTF8,    /* not UTF-8 */
    SL_FAULT_CONTROL, /* a control character */
    SL_FAULT_RETURN,  /* a carriage return without a newline */
    SL_FAULT_MARK,    /* a byte order mark */
};

struct sl_utf8_fault {
    enum sl_utf8_error fault;
    size_t at;
    uint32_t code; /* the character, or the byte that is not UTF-8 */
};

/* The first fault of `text`. */
struct sl_utf8_fault sl_utf8_check(struct sl_str text);

/* What it is, in words: "a NUL byte". `out` holds 64 bytes. Returns out. */
const char *sl_utf8_words(const struct sl_utf8_fault *bad, char out[64]);

#endif
