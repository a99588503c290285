/* log.h -- one line per event, on standard error. Called from programs only:
 * libraries return what went wrong.
 *
 *     sl_log(SL_LOG_INFO, "policy loaded", "file", path, "limits", "4", NULL);
 *
 * Formats: `human` for a terminal, `json` (one object per line), `journal`
 * (<6> before the line, key=value). `auto` is journal under systemd
 * (JOURNAL_STREAM), human on a terminal, else json. Values are escaped so that
 * an event is always one line. Safe from any thread: a line
 * is one write().
 *
 * The same event from one place more than ten times in a second is counted
 * instead, and the next line of it says how many were left out.
 */
#ifndef SL_BASE_LOG_H
#define SL_BASE_LOG_H

#include "base/str.h"

enum sl_log_level { SL_LOG_ERROR, SL_LOG_WARN, SL_LOG_INFO, SL_LOG_DEBUG };
enum sl_log_format {
    SL_LOG_AUTO,
    SL_LOG_HUMAN,
    SL_LOG_JSON,
    SL_LOG_JOURNAL,
};

/* `fd` is borrowed. Before the first call: info, auto, standard error. */
void sl_log_open(enum sl_log_level level, enum sl_log_format format, int fd);

/* An event, and pairs of key and value (both const char *; a NULL value is
 * left out), ended by NULL. */
void sl_log(enum sl_log_level level, const char *event, ...)
    __attribute__((sentinel));

#endif
