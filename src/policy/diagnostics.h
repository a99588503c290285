/* diagnostics.h -- all problems of a file, in the order of their positions. A
 * file with errors is refused, a file with only warnings is not. */
#ifndef SL_POLICY_DIAGNOSTICS_H
#define SL_POLICY_DIAGNOSTICS_H

#include <stdarg.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/diag.h"

#define SL_PROBLEMS 100 /* kept; more are only counted */

struct sl_problem {
    struct sl_diag diag; /* file, line, column, sentence, hint */
    bool warning;
};

struct sl_report {
    const char *file;   /* borrowed */
    struct sl_str text; /* the whole file; borrowed */
    struct sl_problem *problems;
    unsigned kept;
    unsigned errors, warnings; /* kept or not */
    bool no_memory;
    const struct sl_alloc *alloc;
    unsigned room;        /* problems allocated */
    struct sl_diag spare; /* written without room; never read */
};

/* Both `file` and `text` are borrowed for the report's life. */
void sl_report_init(struct sl_report *report, const char *file,
                    struct sl_str text, const struct sl_alloc *alloc);
void sl_report_done(struct sl_report *report);

/* Lines and columns count from 1; columns in bytes. Line 0 is the whole file.
 */
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

/* The position of byte `at` of the scalar that begins at `place`; `place` if
 * escapes or line breaks are between them. */
struct sl_source_pos sl_report_within(const struct sl_report *report,
                                      struct sl_source_pos place, size_t at);

/* Add the error of a parser that read the scalar at `place`: its sentence and
 * hint, at its offset. */
void sl_report_diag(struct sl_report *report, struct sl_source_pos place,
                    const struct sl_diag *diag);

/* Are there so many problems that suggestions are not worth the time? */
bool sl_report_full(const struct sl_report *report);

/* Append every problem as text (sl_diag_print), and the number of those that
 * are not kept. Warnings begin with "warning: ". */
SL_MUST_USE int sl_report_print(const struct sl_report *report,
                                struct sl_buf *out);

#endif
