/* report.h -- everything that is wrong with a file, not only the first thing.
 *
 * Reading goes on after a problem; what could not be read is left out. In the
 * end a file with errors is refused and one with warnings is not. Problems are
 * kept in the order of their place in the file.
 */
#ifndef SL_POLICY_REPORT_H
#define SL_POLICY_REPORT_H

#include <stdarg.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/diag.h"

#define SL_PROBLEMS 100 /* kept; more are counted only */

struct sl_problem {
    struct sl_diag diag; /* file, line, column, sentence, hint */
    bool warning;
};

struct sl_report {
    const char *file;   /* as the user named it; borrowed */
    struct sl_str text; /* the whole file; borrowed */
    struct sl_problem *problems;
    unsigned kept;
    unsigned errors;   /* all of them, kept or not */
    unsigned warnings; /* likewise */
    bool no_memory;
    const struct sl_alloc *alloc;
    unsigned room;        /* problems allocated */
    struct sl_diag spare; /* written if there is no room; never read */
};

/* Both `file` and `text` are borrowed for the report's life. */
void sl_report_init(struct sl_report *report, const char *file,
                    struct sl_str text, const struct sl_alloc *alloc);
void sl_report_done(struct sl_report *report);

/* Where in the file. Lines and columns count from 1; columns in bytes. Line 0
 * means the file as a whole. */
struct sl_source_pos {
    unsigned line;
    unsigned column;
};

/* Between the sentence and the hint of a format. No text of a policy has it. */
#define SL_HINT "\x1f"

/* Add an error or a warning:
 *
 *     sl_report_error(report, place, "Unknown plan \"%s\"" SL_HINT "%s", ...);
 *
 * Returns the diagnostic, to which a hint can be added; never NULL: without
 * room it is one that is not printed. */
struct sl_diag *sl_report_error(struct sl_report *report,
                                struct sl_source_pos place, const char *fmt,
                                ...) SL_PRINTF(3, 4);
struct sl_diag *sl_report_warning(struct sl_report *report,
                                  struct sl_source_pos place, const char *fmt,
                                  ...) SL_PRINTF(3, 4);
struct sl_diag *sl_report_add(struct sl_report *report,
                              struct sl_source_pos place, bool warning,
                              const char *fmt, va_list args) SL_PRINTF(4, 0);

/* The place of byte `at` of the scalar that begins at `place`, behind its
 * opening quote if it has one; `place` itself where escapes or line breaks
 * stand between the two, so that counting would mislead. */
struct sl_source_pos sl_report_within(const struct sl_report *report,
                                      struct sl_source_pos place, size_t at);

/* Put down what a small parser said of a scalar that begins at `place`: its
 * sentence and hint, at its offset (as sl_report_within() has it). */
void sl_report_diag(struct sl_report *report, struct sl_source_pos place,
                    const struct sl_diag *diag);

/* So many problems that another one is hardly read by anyone: then searching
 * for what may have been meant is not worth the time. */
bool sl_report_full(const struct sl_report *report);

/* Append every problem as text (sl_diag_print), one after the other, each with
 * a newline behind it; warnings have "warning: " before the sentence. Beyond
 * SL_PROBLEMS a last line says how many more there are. */
SL_MUST_USE int sl_report_print(const struct sl_report *report,
                                struct sl_buf *out);

#endif
