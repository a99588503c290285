/* yaml.h -- text to a tree of nodes with positions.
 *
 * YAML is read by libfyaml and restricted: one document, mappings with plain
 * string keys, sequences and scalars. Refused, with their position: more than
 * 1 MB, NUL, invalid UTF-8, control characters, anchors, aliases, tags, merge
 * keys, directives, a second document, keys that are not scalars, duplicate
 * keys, more than 32 levels, 100,000 nodes or 100 blank lines in a row.
 *
 * Every scalar is text; the schema decides its type. An empty value is
 * SL_NODE_EMPTY. Quoted strings have ${ENV:NAME} and ${FILE:path} replaced.
 */
#ifndef SL_POLICY_YAML_H
#define SL_POLICY_YAML_H

#include "base/str.h"
#include "policy/diagnostics.h"

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
    bool refused;       /* EMPTY: an invalid value, which was reported */
    struct sl_str text; /* SCALAR: the value, NUL-terminated */
    struct sl_str written; /* if substituted: the text before that */
    struct sl_str key;     /* in a MAP: its key, NUL-terminated */
    struct sl_source_pos key_place;
    struct sl_yaml_node *child; /* LIST, MAP: the first */
    struct sl_yaml_node *next;  /* of the same parent */
    unsigned count;             /* LIST, MAP: children */
};

/* The sources of ${ENV:...} and ${FILE:...}; NULL: there are none. */
struct sl_yaml_options {
    /* The value of an environment variable, or NULL. */
    const char *(*env)(void *ctx, const char *name);
    /* The text of a file, path as written; appended to `out`. 0 or an error
     * with a sentence in `diag`. */
    int (*file)(void *ctx, const char *path, struct sl_buf *out,
                struct sl_diag *diag);
    void *ctx;
};

/* Read report->text into `arena`. Returns the root; NULL if there is none,
 * which is reported. An empty file is an empty map. */
SL_MUST_USE struct sl_yaml_node *
sl_yaml_read(struct sl_report *report, const struct sl_yaml_options *options,
             struct sl_arena *arena);

/* Make the node empty; the caller reports why. */
void sl_yaml_node_refuse(struct sl_yaml_node *node);

/* The child of a map, or NULL (also if `map` is NULL or no map). */
struct sl_yaml_node *sl_yaml_node_get(const struct sl_yaml_node *map,
                                      const char *key);

/* ---- ${ENV:NAME}, ${ENV:NAME:-text} and ${FILE:path} in quoted strings.
 *
 * `$${` is a literal `${`. A substituted text is not searched again. A file
 * loses one line end at its end. Substituted texts can be secrets: errors name
 * only the variable or the file.
 */

#define SL_SUBST_NAME  1024                  /* of a variable or a file */
#define SL_SUBST_BYTES ((size_t)64 * 1024)   /* of one string */
#define SL_SUBST_TOTAL ((size_t)1024 * 1024) /* of all substitutions */

struct sl_subst {
    const struct sl_yaml_options *options; /* can be NULL */
    struct sl_report *report;
    struct sl_arena *arena;
    size_t total; /* substituted bytes so far */
};

/* Does `text` have a substitution? */
bool sl_subst_needed(struct sl_str text);

/* Substitute in `node`, a quoted scalar. On failure the node is refused and the
 * error reported. */
void sl_subst_node(struct sl_subst *subst, struct sl_yaml_node *node);

/* Refuse a scalar without quotes that looks like a substitution: nothing is
 * replaced in it. */
void sl_subst_plain(struct sl_subst *subst, struct sl_yaml_node *node);

/* ---- plain text: UTF-8 without control characters other than tabs and line
 * ends. The file is checked before it is parsed, and so are strings with
 * escapes and substituted texts. */

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

/* The fault in words, "a NUL byte", in `out`, which is returned. */
const char *sl_utf8_words(const struct sl_utf8_fault *bad, char out[64]);

#endif
