/* subjects.h -- what the handlers of /v1/subjects share.
 *
 *   read_json.c  a body or a line of JSON to a change
 *   read_csv.c   a line of CSV to a change
 *   check.c      does the change fit the policy in force?
 *   tell.c       events
 *   show.c       an entry as JSON, and what of it has no effect
 *   one.c        GET, PUT, PATCH, DELETE of one, and its history
 *   list.c       pages
 *   import.c     many at once
 */
#ifndef SL_SERVER_HTTP_SUBJECTS_H
#define SL_SERVER_HTTP_SUBJECTS_H

#include "registry/registry.h"
#include "server/http/admin.h"
#include "wire/csv.h"

#define SL_SUBJECT_BODY ((size_t)64 << 10) /* of one subject */

/* ---- reading ---- */

struct sl_reading {
    struct sl_arena *arena; /* texts are copied to it where they must be */
    sl_ns now;              /* durations count from here */
    bool named;             /* scope and id are in the text: an import */
    struct sl_diag diag;    /* why it was refused */
};

/* Set the diagnostic of a reading. The value is false. */
#define SL_REFUSE(reading, ...)                                                \
    (!sl_diag_error(&(reading)->diag, SLUICE_ECONF, __VA_ARGS__))

/* One object. Its members are those that a subject is shown with; what can't
 * be said (revision, updated...) is passed over, so that what was read can be
 * written back. False with a sentence, or without memory. */
SL_MUST_USE bool sl_subject_change_read_json(struct sl_reading *reading,
                                             struct sl_str text,
                                             struct sl_subject_change *ret);

#define SL_CSV_COLUMNS 96

/* The columns of a CSV, by its first line. */
struct sl_csv_head {
    struct sl_str names[SL_CSV_COLUMNS];
    unsigned count;
};

SL_MUST_USE bool sl_csv_head_read(struct sl_reading *reading,
                                  struct sl_csv *csv, struct sl_csv_head *ret);

/* The cells of one line; an empty one says nothing. */
SL_MUST_USE bool sl_subject_change_read_csv(struct sl_reading *reading,
                                            const struct sl_csv_head *head,
                                            const struct sl_str *cells,
                                            unsigned count,
                                            struct sl_subject_change *ret);

/* "2026-12-31T23:59:59Z", "2026-12-31", or a duration from now. */
SL_MUST_USE bool sl_reading_time(struct sl_reading *reading, const char *name,
                                 struct sl_str text, sl_ns *ret);

/* Is it a text that people can read, of at most `most` bytes? */
SL_MUST_USE bool sl_reading_text(struct sl_reading *reading, const char *name,
                                 struct sl_str text, size_t most);

/* Names and texts of a change that was read: are they what they should be? The
 * aliases are put in lower case. */
SL_MUST_USE bool sl_reading_finish(struct sl_reading *reading,
                                   struct sl_subject_change *change);

/* ---- against the policy ---- */

/* SLUICE_ECONF if its plan or a limit is not in the policy (unless `force`),
 * or a rate does not fit its limit; with what to write instead. */
SL_MUST_USE int sl_subject_change_check(const struct sl_subject_change *change,
                                        const struct sl_policy *policy,
                                        bool force, struct sl_diag *diag);

/* ---- showing ---- */

/* {"scope":...,"warnings":[...]}: the last says what has no effect under the
 * policy. */
void sl_subject_record_write(const struct sl_subject_record *entry,
                             const struct sl_policy *policy, sl_ns now,
                             struct sl_writer *w);

/* ---- telling ---- */

struct sl_subject_job_call;

/* A write was done: publish it, unless it changed nothing. */
void sl_subject_events_publish(struct sl_subject_job_call *op);
void sl_subjects_tell(struct sl_http_call *call, unsigned imported,
                      unsigned changed);

/* ---- handlers ---- */

/* A call that waits for the registry. It lives in the call's arena. */
struct sl_subject_job_call {
    struct sl_http_call *call;
    struct sl_job job;
    struct sl_subject_change change;
    void (*answer)(struct sl_subject_job_call *op);
};

/* A new one, or NULL: then the call was refused (no registry, no memory). */
SL_MUST_USE struct sl_subject_job_call *
sl_subject_job_new(struct sl_http_call *call, enum sl_job_kind kind,
                   void (*answer)(struct sl_subject_job_call *op));

/* Ask the registry. answer() is called later, if the registry did not fail;
 * the call is finished behind it. */
void sl_subject_job_send(struct sl_subject_job_call *op);

/* Answer {"NAME":[ROWS]}; the registry has written the rows. With job.cut the
 * answer also has "truncated":true. */
void sl_subject_answer_rows(struct sl_subject_job_call *op, const char *name);

/* The value of one parameter of the query, decoded to the arena; an empty
 * slice if it is not there. */
struct sl_str sl_query_value(struct sl_http_call *call, const char *name);

/* "user/ann%40x": false if it is not that, and the call was refused. `tail` is
 * what follows behind a further slash. */
SL_MUST_USE bool sl_subject_path(struct sl_http_call *call,
                                 struct sl_str *scope, struct sl_str *id,
                                 struct sl_str *tail);

/* An op for the subject of the path, or NULL: then it was refused. */
SL_MUST_USE struct sl_subject_job_call *
sl_subject_job(struct sl_http_call *call, enum sl_job_kind kind,
               void (*answer)(struct sl_subject_job_call *op),
               struct sl_str *tail);

/* Who does it: X-Sluice-By, or the body's `by`, or "admin". */
struct sl_str sl_subject_by(struct sl_http_call *call, struct sl_str said);

sl_http_f sl_subject_get, sl_subject_put, sl_subject_patch, sl_subject_remove;
sl_http_f sl_subject_list, sl_subject_import;

#endif
