/* out.h -- what errands read and print. */
#ifndef SL_OUT_H
#define SL_OUT_H

#include <stdio.h>

#include "base/buf.h"
#include "cli/cli.h"
#include "sluice_policy.h"

/* A text without what could move a cursor: control characters are '?', but
 * for ends of lines. */
void sl_out_clean(FILE *out, const char *text);

/* A JSON string, quotes included. */
void sl_out_json(FILE *out, const char *text);

/* Colours, where `out` is a terminal or CLICOLOR_FORCE asks for them, and
 * NO_COLOR does not forbid them; else nothing. */
enum sl_colour { SL_PLAIN, SL_GREEN, SL_RED, SL_YELLOW };
void sl_out_colour(FILE *out, enum sl_colour colour);

/* Read a file, or standard input if `path` is "-", into `buf` up to its
 * ceiling; one that is larger is cut there. -1 if it cannot be read; see
 * errno. */
SL_MUST_USE int sl_read_all(struct sl_cli *cli, const char *path,
                            struct sl_buf *buf);

/* Load the policy in a file, or on standard input if `path` is "-". As
 * sluice_policy_load(). */
SL_MUST_USE int sl_load_policy(struct sl_cli *cli, const char *path,
                               struct sluice_policy **ret,
                               struct sluice_problems **problems);

/* Why that failed, where there is no problem that says so; a sentence. */
const char *sl_load_why(const char *path);

/* The problems of a policy as text, with an end of line. */
void sl_print_problems(FILE *out, const struct sluice_problems *problems);

/* Give back what sluice_schema_json() handed over. */
void sl_free_text(char *text);

/* Load it or say on err why not: 0 or an exit status. Warnings are for
 * `sluice check` to tell. */
SL_MUST_USE int sl_need_policy(struct sl_cli_args *call, const char *path,
                               struct sluice_policy **ret);

#endif
