/* http_int.h -- shared by the files of this folder. */
#ifndef SL_SERVER_HTTP_HTTP_INT_H
#define SL_SERVER_HTTP_HTTP_INT_H

#include "engine/hold_op.h"
#include "registry/registry.h"
#include "registry/usage_buffer.h"
#include "server/http/admin.h"
#include "wire/csv.h"
#include "wire/json.h"

/* ---- connections: server.c ---- */

enum sl_http_phase {
    SL_HTTP_PHASE_IDLE,
    SL_HTTP_PHASE_HEAD,
    SL_HTTP_PHASE_BODY,
    SL_HTTP_PHASE_SUSPENDED,
    SL_HTTP_PHASE_STREAM,
};

struct sl_http_conn {
    struct sl_server_conn base; /* first */
    enum sl_http_phase phase;
    struct sl_http_call *call;     /* SUSPENDED: the call in progress */
    struct sl_http_stream *stream; /* STREAM: the stream it belongs to */
    struct sl_http1 parser;
};

/* Send the answer of a suspended call whose client is still connected. */
void sl_http_resume(struct sl_http_call *call);

/* Returns false after a refusal (401): the client needs a token. */
bool sl_http_admit(struct sl_http_call *call);

/* The token that the request has, if any. */
enum sl_http_shown {
    SL_SHOWN_NONE,
    SL_SHOWN_READ_TOKEN,
    SL_SHOWN_TOKEN,
};

enum sl_http_shown sl_http_shown(struct sl_http_call *call);

/* ---- sessions of browsers: session.c ---- */

/* What the session cookie of the request allows. */
enum sl_http_session {
    SL_SESSION_NONE,
    SL_SESSION_GOOD,
    SL_SESSION_READ_ONLY, /* it would be a change */
    SL_SESSION_NO_CSRF,   /* a change without X-Sluice-CSRF */
};

enum sl_http_session sl_http_session(const struct sl_http_call *call);

/* Returns the session of the request at its worker; number 0: none. */
struct sl_session sl_http_session_of(const struct sl_http_call *call);

/* Has it been signed out of, or has its last cookie expired? */
bool sl_session_is_over(const struct sl_server_worker *worker,
                        const struct sl_session *session);

sl_http_f sl_session_get, sl_session_post, sl_session_delete;

/* ---- requests and answers: router.c ---- */

/* The protocol's op_init and op_done. */
void sl_http_call_init(struct sl_server_worker *worker,
                       struct sl_server_op *op);
void sl_http_call_free(struct sl_server_op *op);

/* May the client send the body of this head? If not, the call has its refusal:
 * without a token, up to SL_PUBLIC_BODY bytes are buffered for a public path,
 * and none for others. */
SL_MUST_USE bool sl_http_access_check(struct sl_http_call *call,
                                      bool *is_public);

#define SL_PUBLIC_BODY ((size_t)4 << 10)

/* Count the answered call. */
void sl_http_count(const struct sl_http_call *call);

/* Reset the answer: 200, without a body. */
void sl_http_begin(struct sl_http_call *call);

/* Answer 503 with a text that needs no memory. Returns false. */
bool sl_http_no_memory(struct sl_http_call *call);

/* Returns zeroed memory that lasts as long as the call, or NULL after
 * sl_http_no_memory(). */
SL_MUST_USE void *sl_http_new(struct sl_http_call *call, size_t size);

/* Answer 200 with the JSON in call->text if `err` is 0. */
void sl_http_answer_json(struct sl_http_call *call, int err);

/* Answer with the fields and the body of a decision. */
void sl_http_show(struct sl_http_call *call, int status,
                  const struct sl_rendered *rendered);

/* ---- JSON bodies: json_body.c ----
 *
 * Reading is strict. A refusal names the item of an array, the member, and what
 * to write instead. Functions that refuse return false.
 */

struct sl_json_body {
    struct sl_json_reader json;
    const char *one;    /* the kind of object: "check" */
    const char *inside; /* "headers." inside of them; "" elsewhere */
    bool is_array;
    unsigned index; /* in the array, of the object that is read */
    unsigned seen;  /* members of the object, one bit for each field */
    unsigned nulls; /* those of `seen` that are null */
    struct sl_http_call *call;      /* or NULL */
    const struct sl_policy *policy; /* costs must name its limits; or NULL */
    int status; /* of the refusal, with its code and sentence */
    const char *code;
    char sentence[384];
};

/* Begin to read the body of the call's request. */
void sl_json_body_begin(struct sl_json_body *body, struct sl_http_call *call,
                        const char *one);

/* Set the refusal. */
bool sl_json_body_refuse(struct sl_json_body *body, const char *code,
                         const char *fmt, ...) SL_PRINTF(3, 4);
bool sl_json_body_no_memory(struct sl_json_body *body);
bool sl_json_body_broken(struct sl_json_body *body); /* invalid JSON */
bool sl_json_body_wrong(struct sl_json_body *body, struct sl_str member,
                        const char *wanted); /* another kind of value */

/* Answer the call with the refusal. */
bool sl_json_body_answer(struct sl_json_body *body);

/* Reads the value of a member to `at`. */
typedef bool sl_json_field_f(struct sl_json_body *body, struct sl_str member,
                             void *at);

struct sl_json_field {
    struct sl_str name;
    size_t offset; /* of `at` in the object */
    sl_json_field_f *read;
};

#define SL_JSON_FIELD(text, offset, read)                                      \
    {                                                                          \
        {"" text, sizeof(text) - 1}, offset, read                              \
    }

/* Read an object to `object` by a table of its members. A null is skipped.
 * Unknown and repeated members are refused; `unknown` is the end of the
 * sentence, or NULL for a suggestion. */
SL_MUST_USE bool sl_json_body_fields(struct sl_json_body *body,
                                     const struct sl_json_field *fields,
                                     unsigned count, const char *unknown,
                                     void *object);

sl_json_field_f sl_json_body_text;  /* struct sl_str */
sl_json_field_f sl_json_body_whole; /* uint64_t */
sl_json_field_f sl_json_body_flag;  /* bool */
sl_json_field_f sl_json_body_hold;  /* sl_ns: a duration above 0 */
sl_json_field_f sl_json_body_wait;  /* sl_ns */
sl_json_field_f sl_json_body_cost;  /* struct sl_request: its costs */

/* A suggestion: "; did you mean \"NAME\"?", or `otherwise`. */
struct sl_hint {
    char text[128];
};
struct sl_hint sl_hint_of(const char *near, const char *otherwise);
struct sl_hint sl_hint_limit(const struct sl_policy *policy, struct sl_str name,
                             const char *otherwise);

/* ---- checks: check.c ---- */

/* Begin a check. Returns true if it is decided already. Otherwise later() is
 * called with `ctx` from the loop. The request lives until then. */
SL_MUST_USE bool sl_http_ask(struct sl_http_call *call,
                             const struct sl_request *request, bool spend,
                             void (*later)(struct sl_check *check), void *ctx);

/* Count and render the decision. Returns false after a refusal. */
SL_MUST_USE bool sl_http_decided(struct sl_http_call *call,
                                 struct sl_rendered *ret);

/* Refuse requests of web pages. Returns true after a refusal. */
SL_MUST_USE bool sl_http_is_page(struct sl_http_call *call);

sl_http_f sl_backlog_put, sl_http_holds, sl_http_auth, sl_http_deny,
    sl_http_json, sl_http_healthcheck;

/* ---- usage: usage_post.c, usage_import.c, usage_get.c, usage_export.c ---- */

#define SL_REPORTS 1000 /* reports in one array */

struct sl_usage_report_item {
    struct sl_request request; /* for the caller and the limit */
    const struct sl_rule *rule;
    struct sl_str keys[SL_PER_MAX]; /* `request` points to them */
    struct sl_str scopes[SL_PER_MAX];
    struct sl_str key, name;
    struct sl_str other; /* the member "key" */
    uint64_t amount;     /* or the failed attempts */
    bool has_amount, release, enforce;
    bool failed; /* failed attempts, for the penalty of the limit */

    /* Of an import: `amount` is the usage of the period that began at `from`
     * (0: the current one). */
    sl_ns from;
    unsigned line;
};

struct sl_usage_report_items {
    bool is_array, is_import, dry_run;
    unsigned count;
    unsigned skipped; /* rows of an import whose period has ended */
    struct sl_usage_report_item *list;
};

/* Read the body. Returns false after a refusal that names the wrong member. */
SL_MUST_USE bool sl_uses_read(struct sl_http_call *call,
                              struct sl_usage_report_items *ret);

/* The same for an import: CSV or JSON lines; usage_import.c. */
SL_MUST_USE bool sl_usage_import_read(struct sl_http_call *call,
                                      struct sl_usage_report_items *ret);

/* Begin an item of the present time, and find its limit and its key. */
void sl_use_begin(struct sl_http_call *call, struct sl_usage_report_item *use);
SL_MUST_USE bool sl_use_check(struct sl_json_body *body,
                              struct sl_usage_report_item *use);

/* Charge failed attempts to penalties, and answer; usage_failed.c. */
void sl_uses_run_failed(struct sl_http_call *call,
                        const struct sl_usage_report_items *uses);

/* Record and charge the items, and answer. */
void sl_uses_run(struct sl_http_call *call, struct sl_usage_sink *meter,
                 const struct sl_usage_report_items *uses);

/* Refuse with "line N: ...", and N as the member "line". */
bool sl_usage_import_refuse(struct sl_http_call *call, int status,
                            const char *code, unsigned line,
                            const char *sentence);

/* The usage of one limit. */
struct sl_meter_view {
    const struct sl_rule *rule;
    struct sl_str plan, scope, id;
    struct sl_str zone; /* of the period */
    bool limited;       /* `limit` is valid */
    bool blind;         /* the store was not asked */
    bool from_database; /* `used` is from the database */
    uint64_t used, limit, overage, credited, credits;
    uint64_t left; /* of a limit that does not count up */
    uint64_t cap;  /* for the database: units beyond it are overage */
    sl_ns start;   /* of the period in the database; 0: none */
    sl_ns end;     /* SL_NS_NONE: none */
    sl_ns now;
    const struct sl_limit *numbers; /* of the period */
};

/* Fill the view from the decision of one limit. `used` is 0 if the limit is
 * switched off or the store is down. */
void sl_meter_view_of(const struct sl_check *check, const struct sl_rule *rule,
                      sl_ns now, struct sl_meter_view *ret);

/* Add the counts of the usage database. */
void sl_meter_view_add(struct sl_meter_view *view, uint64_t used,
                       uint64_t overage, uint64_t credited);

/* Write "name":"transcription",... without braces. */
void sl_meter_view_write(const struct sl_meter_view *view, struct sl_writer *w);

/* Returns the usage sink of this thread, or NULL after a refusal. */
struct sl_usage_sink *sl_http_meter(struct sl_http_call *call);

sl_http_f sl_http_usage_report, sl_http_usage_read, sl_http_usage_export,
    sl_usage_import;

/* Answer with the usage of the organisation in `claims`, which stay valid as
 * long as the call. Returns false if the call is suspended. */
bool sl_http_usage_of(struct sl_http_call *call,
                      const struct sl_usage_claims *claims);

/* usage_tokens.c */
sl_http_f sl_usage_token_post, sl_usage_demo_token, sl_usage_data;

/* The cursor of an export: where the next page begins. Reads NUMBER/FROM/TO/
 * DAY/START/LIMIT/SCOPE/ID, in place: texts are slices of `bytes`. */
SL_MUST_USE bool sl_export_cursor_read(char *bytes, size_t len,
                                       struct sl_usage_export *ret);
sl_http_f sl_credit_list, sl_credit_give, sl_credit_revoke;
sl_http_f sl_lease_list, sl_lease_release;

/* ---- webhooks that go out: webhooks.c, webhook_messages.c ---- */

/* A call that waits for a job of webhooks. */
struct sl_http_webhook {
    struct sl_http_job *op;
    struct sl_webhook_job job;
    char id[SL_WEBHOOK_ID];
};

/* Returns a new call, or NULL after a refusal. */
SL_MUST_USE struct sl_http_webhook *
sl_http_webhook_new(struct sl_http_call *call, enum sl_webhook_op op,
                    void (*answer)(struct sl_http_job *op));

/* Makes "PREFIX_" and a random id that grows with time. */
void sl_http_webhook_id(struct sl_http_call *call, const char *prefix,
                        char out[SL_WEBHOOK_ID]);

/* Wakes the sender. */
void sl_http_webhook_wake(struct sl_http_call *call);

/* Checks an organisation, a URL or an event type. `like` is a good body. */
SL_MUST_USE bool sl_http_webhook_name(struct sl_http_call *call,
                                      const char *member, struct sl_str text,
                                      size_t most, const char *like);

/* Checks the event type of a message. */
SL_MUST_USE bool sl_http_webhook_type(struct sl_http_call *call,
                                      struct sl_str type);

/* Reads a time; "" leaves *ret as it is. `code` is that of the refusal. */
SL_MUST_USE bool sl_http_webhook_instant(struct sl_http_call *call,
                                         const char *code, const char *name,
                                         struct sl_str text, sl_ns *ret);

/* Queue a message for one endpoint: a test. */
void sl_http_webhook_ping(struct sl_http_call *call, struct sl_str endpoint);

sl_http_f sl_webhook_endpoint_make, sl_webhook_endpoint_list,
    sl_webhook_endpoint_get, sl_webhook_endpoint_change,
    sl_webhook_endpoint_drop, sl_webhook_endpoint_act, sl_webhook_message_put,
    sl_webhook_message_list, sl_webhook_message_get, sl_webhook_message_replay,
    sl_webhook_attempts;

/* ---- the admin listener: admin.c ---- */

#define SL_ADMIN_BODY ((size_t)4 << 10) /* of JSON */

static inline const struct sl_admin *sl_admin_of(struct sl_http_call *call)
{
    return call->worker->server->ctx;
}

/* Returns the registry, or NULL. */
static inline struct sl_registry *sl_http_registry(struct sl_http_call *call)
{
    return sl_admin_of(call) ? sl_admin_of(call)->registry : NULL;
}

/* Refuse requests of web pages with 403. Returns false after a refusal. */
SL_MUST_USE bool sl_admin_admit(struct sl_http_call *call);

/* Is the Host header a foreign name, on a listener without a token? Then the
 * request is refused. */
SL_MUST_USE bool sl_http_is_foreign(struct sl_http_call *call);

/* Cut off and return the text before `mark`, or all of it. `mark` is
 * dropped. */
struct sl_str sl_admin_cut(struct sl_str *rest, char mark);

/* Decode %XX, and in a query + as a blank, to a text in `arena`. Returns
 * SLUICE_ECONF for an invalid %XX or a NUL, SLUICE_ENOMEM without memory. */
SL_MUST_USE int sl_admin_decode(struct sl_arena *arena, struct sl_str text,
                                bool is_query, struct sl_str *ret);

/* An option of a query. */
struct sl_admin_option {
    const char *name;
    struct sl_str *value; /* "" if it is missing */
};

/* Read a query that may have each of `options` once. Returns false after a
 * refusal. */
SL_MUST_USE bool sl_admin_options(struct sl_http_call *call,
                                  const struct sl_admin_option *options,
                                  unsigned count);

/* Read an option that is one of `count` words, or a number from `least` to
 * `most`. "" leaves *ret as it is. Returns false after a refusal that has
 * `wanted`. */
SL_MUST_USE bool sl_admin_word(struct sl_http_call *call, const char *name,
                               struct sl_str text, const char *const *words,
                               unsigned count, const char *wanted,
                               unsigned *ret);
SL_MUST_USE bool sl_admin_number(struct sl_http_call *call, const char *name,
                                 struct sl_str text, uint64_t least,
                                 uint64_t most, const char *wanted,
                                 uint64_t *ret);

/* Answer 200 with the JSON in call->text if `err` is 0; otherwise refuse. */
void sl_admin_answer_json(struct sl_http_call *call, int err);
void sl_admin_answerf(struct sl_http_call *call, const char *fmt, ...)
    SL_PRINTF(2, 3);

/* Read the only member, `name`, of the JSON object in the body to `at`. Returns
 * false after a refusal with the example `like`. */
SL_MUST_USE bool sl_admin_member(struct sl_http_call *call, const char *name,
                                 sl_json_field_f *read, const char *like,
                                 void *at);

sl_http_f sl_admin_top, sl_admin_events, sl_admin_key, sl_limit_list;

/* ---- calls that wait for the registry: subjects.c ---- */

struct sl_http_job {
    struct sl_http_call *call;
    struct sl_job job;
    struct sl_subject_change change;
    void (*answer)(struct sl_http_job *op);
    const char *rows; /* for sl_http_job_rows() */
};

/* Returns a new job call in the call's arena, or NULL after a refusal (no
 * registry, no memory). */
SL_MUST_USE struct sl_http_job *
sl_http_job_new(struct sl_http_call *call, enum sl_job_kind kind,
                void (*answer)(struct sl_http_job *op));

/* The same for the subject in the path. `tail` is the rest of the path. */
SL_MUST_USE struct sl_http_job *
sl_http_job_subject(struct sl_http_call *call, enum sl_job_kind kind,
                    void (*answer)(struct sl_http_job *op),
                    struct sl_str *tail);

/* Initialize a job whose done() is called with `ctx`. */
void sl_http_job_init(struct sl_job *job, struct sl_http_call *call,
                      enum sl_job_kind kind, void (*done)(struct sl_job *job),
                      void *ctx);

/* Refuse a job that failed with 503: "nothing was NOTHING". A transaction
 * without an answer may have been committed: "it is not known whether UNKNOWN",
 * with the code CODE_UNKNOWN. */
void sl_http_job_refuse(struct sl_http_call *call, const struct sl_job *job,
                        const char *code, const char *nothing,
                        const char *unknown);

/* Send the job to the registry and suspend the call. answer() is called later
 * if the registry did not fail; then the call is finished. */
void sl_http_job_send(struct sl_http_job *op);

/* Answer {"NAME":[ROWS]}, where op->rows is the name and the registry has
 * written the rows. With job.cut the answer also has "truncated":true. */
void sl_http_job_rows(struct sl_http_job *op);

/* Returns the author: X-Sluice-By, or `said` of the body, or "admin". */
struct sl_str sl_subject_by(struct sl_http_call *call, struct sl_str said);

/* ---- the audit: audit.c ---- */

/* Returns a note about a change by this call, with its author, origin and
 * reason (X-Sluice-Note); NULL without memory. */
struct sl_audit_note *sl_http_audit(struct sl_http_call *call, const char *what,
                                    struct sl_str scope, struct sl_str id);

/* Records a change that no job of the call has written. */
void sl_http_audit_send(struct sl_http_call *call,
                        const struct sl_audit_note *note);

sl_http_f sl_audit_list;

sl_http_f sl_block_set, sl_block_end, sl_blocks_get;

/* ---- the denial history: denials.c ---- */

sl_http_f sl_denial_list;

sl_http_f sl_subject_get, sl_subject_change, sl_subject_list, sl_subject_import;

/* ---- subjects in JSON and CSV: subjects_read.c ---- */

struct sl_reading {
    struct sl_json_body body; /* for refusals; its arena is for copied texts */
    sl_ns now;                /* durations start here */
    const struct sl_zone *zone; /* in which dates end; UTC at first */
    bool named;                 /* scope and id are in the text (import) */
};

void sl_reading_init(struct sl_reading *reading, struct sl_arena *arena,
                     sl_ns now);

/* Set the refusal of a reading. The value is false. */
#define SL_REFUSE(reading, ...)                                                \
    sl_json_body_refuse(&(reading)->body, "BAD_REQUEST", __VA_ARGS__)

/* Read one JSON object with the members of a shown subject. Members that cannot
 * be set (revision, updated...) are ignored, so that an answer can be sent
 * back. */
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

/* Read "2026-12-31T23:59:59Z", "2026-12-31" (its first instant, UTC), or a
 * duration from now. */
SL_MUST_USE bool sl_reading_time(struct sl_reading *reading, const char *name,
                                 struct sl_str text, sl_ns *ret);

/* The same for a time at which something ends: a date is its end, in the zone
 * of the reading. */
SL_MUST_USE bool sl_reading_end(struct sl_reading *reading, const char *name,
                                struct sl_str text, sl_ns *ret);

/* Check that a text is printable UTF-8 of at most `most` bytes. */
SL_MUST_USE bool sl_reading_text(struct sl_reading *reading, const char *name,
                                 struct sl_str text, size_t most);

/* Check a change against the policy: its plan and limits must be there (unless
 * `force`), and its rates must fit. */
SL_MUST_USE bool sl_subject_change_check(struct sl_reading *reading,
                                         const struct sl_subject_change *change,
                                         const struct sl_policy *policy,
                                         bool force);

#endif
