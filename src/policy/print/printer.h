/* printer.h -- keys, values and lists of a policy's print; for print.c, this
 * folder and build/errors.c.
 *
 * A printer knows where in the file it is, so that a value from outside is
 * shown as it was written there. It remembers the first error: whoever prints
 * goes on and looks at `err` in the end.
 */
#ifndef SL_PRINTER_H
#define SL_PRINTER_H

#include "policy/policy.h"

#define SL_PRINT_PATH 512 /* six names, and what is between them */

#define SL_PRINT_SECRET "(secret)"

struct sl_printer {
    const struct sl_policy *policy;
    struct sl_buf *out;
    unsigned depth; /* of maps */
    bool item;      /* the next key is the first of an item of a list */
    char path[SL_PRINT_PATH];
    size_t path_len;
    int err;
};

/* ---- scalars (scalar.c) ---- */

/* Append a text, without quotes where it is safe to leave them out; inside of
 * `flow` brackets fewer are. */
SL_MUST_USE int sl_print_scalar(struct sl_buf *out, struct sl_str text,
                                bool flow);

/* The same for a key. */
SL_MUST_USE int sl_print_key(struct sl_buf *out, struct sl_str key);

/* Append a text that has ${...} to be replaced. */
SL_MUST_USE int sl_print_written(struct sl_buf *out, struct sl_str written);

/* Append a body as YAML on one line that is read back as the same. */
SL_MUST_USE int sl_print_body(struct sl_buf *out,
                              const struct sl_yaml_node *node);

/* ---- the printer (printer.c) ---- */

/* Begin the map `key`, end it. */
void sl_print_open(struct sl_printer *p, struct sl_str key);
void sl_print_close(struct sl_printer *p);

/* The same for the `index`th map of the list that was opened last. */
void sl_print_open_item(struct sl_printer *p, unsigned index);
void sl_print_close_item(struct sl_printer *p);

/* `key: value`: a text of the user's, a word of ours, a number, ... */
void sl_print_text(struct sl_printer *p, const char *key, struct sl_str text);
void sl_print_word(struct sl_printer *p, const char *key, const char *word);
void sl_print_number(struct sl_printer *p, const char *key, uint64_t number);
void sl_print_bool(struct sl_printer *p, const char *key, bool value);
void sl_print_duration(struct sl_printer *p, const char *key, sl_ns span);

/* A text with its placeholders; nothing if it has no pieces. */
void sl_print_message(struct sl_printer *p, const char *key,
                      const struct sl_template *message);

/* `key: ` of the user's, and what is YAML already. */
void sl_print_yaml(struct sl_printer *p, struct sl_str key, struct sl_str yaml);

/* A list of texts, on one line if it fits. item(ctx, i, room) is the ith; it
 * may use `room`. */
#define SL_PRINT_ITEM 320
typedef struct sl_str sl_print_item_f(const void *ctx, unsigned i,
                                      char room[SL_PRINT_ITEM]);
struct sl_print_list {
    sl_print_item_f *item;
    const void *ctx;
    unsigned count;
    bool in_any_order; /* the items are not in the order of the file */
};
void sl_print_list(struct sl_printer *p, const char *key,
                   const struct sl_print_list *list);

/* `headers`. */
void sl_print_dialects(struct sl_printer *p, int dialects);

/* `key: ` and what was written for it. */
void sl_print_from(struct sl_printer *p, struct sl_str key,
                   const struct sl_external_value *from);

/* What was written where the printer is, or at `key` there, if that came from
 * outside; else NULL. */
const struct sl_external_value *sl_print_here(const struct sl_printer *p);
const struct sl_external_value *sl_print_at(struct sl_printer *p,
                                            struct sl_str key);

/* `key` has the value that it has at the top of the file. Did that come from
 * outside, and this not? Then it is better left out. */
bool sl_print_follows(struct sl_printer *p, const char *key);

/* What came from outside and is below the place where the printer is: the
 * first of them, by path, and how many. */
const struct sl_external_value *sl_print_below(const struct sl_printer *p,
                                               unsigned *count);

/* ---- parts of a policy ---- */

/* Has the policy only the plan that those without plans have? No other can be
 * called `default`, which is a key of `plans`. */
bool sl_print_only_plan(const struct sl_printer *p);

/* A list of sources (tokens.c). */
void sl_print_sources(struct sl_printer *p, const char *key,
                      const struct sl_sources *sources);

/* What a route asks before its limits. */
void sl_print_guards(struct sl_printer *p, const struct sl_prechecks *guards);

void sl_print_jwt(struct sl_printer *p); /* `identity: jwt` */
void sl_print_limits(struct sl_printer *p);
void sl_print_server(struct sl_printer *p);

#endif
