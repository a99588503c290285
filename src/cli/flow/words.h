/* words.h -- what the words of an act mean, one by one; for flow files and for
 * the arguments of `sluice explain`.
 *
 * All of these answer SLUICE_ECONF with a column and a sentence in `diag`, or
 * SLUICE_ENOMEM.
 */
#ifndef SL_FLOW_WORDS_H
#define SL_FLOW_WORDS_H

#include "cli/flow/lex.h"

/* "0s", "1h30m": from 1970; "+500ms": from now; or RFC 3339. `word` is where
 * `text`, all of it or its value, stands. */
SL_MUST_USE int sl_moment_read(const char *text,
                               const struct sl_flow_word *word,
                               struct sl_moment *ret, struct sl_diag *diag);

/* Inputs with nothing in them. */
void sl_inputs_init(struct sl_inputs *in);

/* One more header, behind those there are. SLUICE_ENOMEM. */
SL_MUST_USE int sl_inputs_header(struct sl_inputs *in,
                                 const struct sluice_header *header,
                                 struct sl_arena *arena);

/* Add the word words->at[index] to `in`: user=ann, header.x-a=b, x8. */
SL_MUST_USE int sl_input_read(const struct sl_words *words, size_t index,
                              struct sl_arena *arena, struct sl_inputs *in,
                              struct sl_diag *diag);

/* The words from `from` on: what is expected. */
SL_MUST_USE int sl_expects_read(const struct sl_words *words, size_t from,
                                struct sl_arena *arena, struct sl_flow_act *act,
                                struct sl_diag *diag);

/* The words from `from` on: what the registry is told. */
SL_MUST_USE int sl_flow_subject_args_read(const struct sl_words *words,
                                          size_t from, struct sl_arena *arena,
                                          struct sl_flow_act *act,
                                          struct sl_diag *diag);

/* Has an earlier word of the line, from `from` on, the same name? Then refuse
 * the one at `index`. */
SL_MUST_USE int sl_flow_word_once(const struct sl_words *words, size_t from,
                                  size_t index, struct sl_diag *diag);

/* Is `name` the prefix and something behind it? */
bool sl_flow_word_under(struct sl_str name, const char *prefix);

#endif
