/* subjects.h -- shared by the handlers of /v1/subjects.
 *
 * subjects_read.c reads JSON and CSV and checks them against the policy.
 * subjects.c has the handlers and writes subjects as JSON.
 */
#ifndef SL_SERVER_HTTP_SUBJECTS_H
#define SL_SERVER_HTTP_SUBJECTS_H

#include "registry/registry.h"
#include "server/http/admin.h"
#include "wire/csv.h"

#define SL_SUBJECT_BODY ((size_t)64 << 10) /* of one subject */

/* ---- reading ---- */

struct sl_reading {
    struct sl_arena *arena; /* for copied texts */
    sl_ns now;              /* durations start here */
    bool named;             /* scope and id are in the text (import) */
    struct sl_diag diag;    /* the reason of a refusal */
};

/* Set the diagnostic of a reading. The value is false. */
#define SL_REFUSE(reading, ...)                                                \
    (!sl_diag_error(&(reading)->diag, SLUICE_ECONF, __VA_ARGS__))

/* Read one JSON object with the members of a shown subject. Members that cannot
 * be set (revision, updated...) are ignored, so that an answer can be sent
 * back. Returns false with a diagnostic. */
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

/* Read the cells of one line. An empty cell changes nothing. */
SL_MUST_USE bool sl_subject_change_read_csv(struct sl_reading *reading,
                                            const struct sl_csv_head *head,
                                            const struct sl_str *cells,
                                            unsigned count,
                                            struct sl_subject_change *ret);

/* Read "2026-12-31T23:59:59Z", "2026-12-31", or a duration from now. */
SL_MUST_USE bool sl_reading_time(struct sl_reading *reading, const char *name,
                                 struct sl_str text, sl_ns *ret);

/* Check that a text is printable UTF-8 of at most `most` bytes. */
SL_MUST_USE bool sl_reading_text(struct sl_reading *reading, const char *name,
                                 struct sl_str text, size_t most);

/* Check the names and texts of a change, and convert the aliases to lower
 * case. */
SL_MUST_USE bool sl_reading_finish(struct sl_reading *reading,
                                   struct sl_subject_change *change);

/* ---- against the policy ---- */

/* Returns SLUICE_ECONF with a diagnostic if the plan or a limit is not in the
 * policy (unless `force`), or if a rate does not fit its limit. */
SL_MUST_USE int sl_subject_change_check(const struct sl_subject_change *change,
                                        const struct sl_policy *policy,
                                        bool force, struct sl_diag *diag);

/* ---- writing ---- */

/* Write {"scope":...,"warnings":[...]}. The warnings name settings without an
 * effect in the policy. */
void sl_subject_record_write(const struct sl_subject_record *entry,
                             const struct sl_policy *policy, sl_ns now,
                             struct sl_writer *w);

/* ---- events ---- */

struct sl_subject_job_call;

/* Publish a write or an import, unless it changed nothing. */
void sl_subject_events_publish(struct sl_subject_job_call *op);
void sl_subjects_publish(struct sl_http_call *call, unsigned imported,
                         unsigned changed);

/* ---- handlers ---- */

/* A call that waits for the registry, in the call's arena. */
struct sl_subject_job_call {
    struct sl_http_call *call;
    struct sl_job job;
    struct sl_subject_change change;
    void (*answer)(struct sl_subject_job_call *op);
};

/* Returns a new one, or NULL after a refusal (no registry, no memory). */
SL_MUST_USE struct sl_subject_job_call *
sl_subject_job_new(struct sl_http_call *call, enum sl_job_kind kind,
                   void (*answer)(struct sl_subject_job_call *op));

/* Send the job to the registry and suspend the call. answer() is called later
 * if the registry did not fail; then the call is finished. */
void sl_subject_job_send(struct sl_subject_job_call *op);

/* Answer {"NAME":[ROWS]}; the registry has written the rows. With job.cut the
 * answer also has "truncated":true. */
void sl_subject_answer_rows(struct sl_subject_job_call *op, const char *name);

/* Returns the decoded value of a parameter of the query, or an empty slice. */
struct sl_str sl_query_value(struct sl_http_call *call, const char *name);

/* Read "user/ann%40x" from the path. `tail` is the rest after another slash.
 * Returns false after a refusal. */
SL_MUST_USE bool sl_subject_path(struct sl_http_call *call,
                                 struct sl_str *scope, struct sl_str *id,
                                 struct sl_str *tail);

/* Returns an op for the subject in the path, or NULL after a refusal. */
SL_MUST_USE struct sl_subject_job_call *
sl_subject_job(struct sl_http_call *call, enum sl_job_kind kind,
               void (*answer)(struct sl_subject_job_call *op),
               struct sl_str *tail);

/* Returns the author: X-Sluice-By, or `said` of the body, or "admin". */
struct sl_str sl_subject_by(struct sl_http_call *call, struct sl_str said);

sl_http_f sl_subject_get, sl_subject_put, sl_subject_patch, sl_subject_remove;
sl_http_f sl_subject_list, sl_subject_import;

#endif
