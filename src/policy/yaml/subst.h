/* subst.h -- ${ENV:NAME} and ${FILE:path} in quoted strings.
 *
 * `$${` is a `${` that means nothing. What is put in is not looked at again.
 * A file loses one line end at its end, as editors put one there.
 *
 * What is put in may be a secret. It is never shown: complaints name the
 * variable or the file.
 */
#ifndef SL_SUBST_H
#define SL_SUBST_H

#include "policy/yaml.h"

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

#endif
