/* lex.h -- a line of a flow file as words.
 *
 * Words stand between blanks. A word, or what stands behind its first `=`, may
 * be in double quotes; inside them \" is a quote and \\ a backslash. A `#` at
 * the beginning of a word begins a comment.
 */
#ifndef SL_FLOW_LEX_H
#define SL_FLOW_LEX_H

#include "cli/flow/flow.h"

#define SL_NO_EQUALS SIZE_MAX

struct sl_flow_word {
    const char *text; /* without quotes; NUL-terminated */
    size_t len;
    size_t equals;         /* offset of the first `=` outside quotes */
    unsigned column;       /* from 1 */
    unsigned value_column; /* of the first byte of the value */
    bool quoted;           /* as a whole */
};

struct sl_words {
    struct sl_flow_word at[SL_FLOW_WORDS];
    size_t count;
};

/* The texts live in `arena`. SLUICE_ECONF with a column in `diag`, or
 * SLUICE_ENOMEM. */
SL_MUST_USE int sl_words_read(struct sl_str line, struct sl_arena *arena,
                              struct sl_words *ret, struct sl_diag *diag);

/* Words that nobody quoted: the same as `text`? */
bool sl_flow_word_is(const struct sl_flow_word *word, const char *text);

/* What stands before and behind the `=`; all and nothing if there is none. */
struct sl_str sl_flow_word_name(const struct sl_flow_word *word);
const char *sl_flow_word_value(const struct sl_flow_word *word);

/* Put the column into `diag` and give it back, so that a refusal can name its
 * place in one statement. */
struct sl_diag *sl_diag_at(struct sl_diag *diag, unsigned column);

/* The same for a refusal that counted from the value's beginning. */
int sl_flow_value_refused(struct sl_diag *diag, const struct sl_flow_word *word,
                          int err);

#endif
