/* reader.h -- what the files that read YAML share; for this folder only.
 *
 * libfyaml gives events; the reader keeps a stack of the collections that are
 * open and hangs nodes into them. Offsets count in `text`, which is the file
 * behind its byte order mark.
 */
#ifndef SL_READER_H
#define SL_READER_H

#include <libfyaml.h>

#include "policy/yaml.h"
#include "policy/yaml/subst.h"

/* A collection that is open. */
struct sl_frame {
    struct sl_yaml_node *node;
    struct sl_yaml_node **tail; /* where the next child goes */
    bool is_key;                /* it stands where a key should; it was said */

    /* In a map, what is known of the next child. */
    bool has_key;
    bool drop; /* its key was refused: read it and forget it */
    struct sl_str key;
    struct sl_source_pos key_place;
};

struct sl_reader {
    struct sl_report *report;
    struct sl_arena *arena;
    struct sl_subst subst;
    struct sl_str text;
    uint32_t *lines; /* where each line begins */
    size_t line_count;
    struct fy_diag *diag;
    struct fy_parser *parser;
    struct sl_yaml_node *root;
    struct sl_frame stack[SL_YAML_DEPTH];
    unsigned depth;
    unsigned nodes;
    size_t seen; /* the end of the last token, where to look for the next */
    bool over;   /* there is nothing more to read */
    bool stop;   /* do not go on, and there is no root; it was said */
};

/* Begin to parse the text, and end it (parser.c). False without memory. */
SL_MUST_USE bool sl_reader_open(struct sl_reader *r);
void sl_reader_close(struct sl_reader *r);

/* The next event; it must be freed. Without memory, report->no_memory is set;
 * if there is none for another reason, sl_reader_error() knows it. */
struct fy_event *sl_reader_next(struct sl_reader *r);

/* What a scalar says, for as long as its event is there. False without memory.
 */
SL_MUST_USE bool sl_reader_text(struct fy_token *token, struct sl_str *ret);

/* Index the lines. False without memory. */
SL_MUST_USE bool sl_reader_index(struct sl_reader *r);

/* Is it plain text, without directives? If not, it was said. */
SL_MUST_USE bool sl_reader_check(struct sl_reader *r);

/* Line and column of an offset. */
struct sl_source_pos sl_reader_pos(const struct sl_reader *r, size_t at);

/* The offset of character `column` of `line`, both from 1. */
size_t sl_reader_offset(const struct sl_reader *r, unsigned line,
                        unsigned column);

/* Where the first of `wanted` stands behind the last token, comments passed
 * over; the end of that token if it is nowhere. */
size_t sl_reader_peek(const struct sl_reader *r, const char *wanted);

/* What the string in single quotes whose first byte is at `from` says, in the
 * arena (quoted.c). False without memory. */
SL_MUST_USE bool sl_reader_single(struct sl_reader *r, size_t from,
                                  struct sl_str *ret);

/* Say in our own words why libfyaml stopped (complain.c). */
void sl_reader_error(struct sl_reader *r);

/* Take all but the first of children with the same key out of `map`, and name
 * both places (node.c). */
void sl_reader_duplicates(struct sl_reader *r, struct sl_yaml_node *map);

#endif
