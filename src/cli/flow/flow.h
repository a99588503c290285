/* flow.h -- flow files: reading and running them.
 *
 * A flow file tests a policy. It has flows; each has a name, a policy, acts,
 * and the expectations of each act. Reading needs no policy and no engine.
 *
 *     flow "a free user bursts eight"
 *     policy unraveldocs.yaml
 *     at 0s
 *       GET /api/v1/ai/extract user=ann plan=FREE x8  -> allowed=8
 *
 * All data is in the arena of the file. Texts end in NUL and contain none.
 *
 * Limits: a file has at most SL_FLOW_BYTES, a line SL_FLOW_LINE bytes and
 * SL_FLOW_WORDS words, an act SL_FLOW_TIMES repeats.
 */
#ifndef SL_CLI_FLOW_FLOW_H
#define SL_CLI_FLOW_FLOW_H

#include "base/arena.h"
#include "base/diag.h"
#include "identity/identity.h"
#include "sluice_policy.h"

#define SL_FLOW_BYTES (1024 * 1024)
#define SL_FLOW_LINE  4096
#define SL_FLOW_WORDS 256
#define SL_FLOW_TIMES 10000000

enum sl_flow_act_kind {
    SL_FLOW_ACT_AT,
    SL_FLOW_ACT_REQUEST,     /* METHOD PATH */
    SL_FLOW_ACT_JOB,         /* NAME */
    SL_FLOW_ACT_TAKE,        /* LIMIT KEY */
    SL_FLOW_ACT_SUBJECT,     /* SCOPE ID */
    SL_FLOW_ACT_BLOCK,       /* SCOPE ID */
    SL_FLOW_ACT_UNBLOCK,     /* SCOPE ID */
    SL_FLOW_ACT_FEATURE,     /* NAME on|off */
    SL_FLOW_ACT_BACKLOG,     /* NAME DEPTH */
    SL_FLOW_ACT_STORE,       /* fails|slow|heals */
    SL_FLOW_ACT_RELOAD,      /* PATH */
    SL_FLOW_ACT_USAGE,       /* SCOPE ID LIMIT AMOUNT */
    SL_FLOW_ACT_FAILED,      /* LIMIT KEY */
    SL_FLOW_ACT_SETTLE,      /* NAME */
    SL_FLOW_ACT_RELEASE,     /* NAME */
    SL_FLOW_ACT_EXTEND,      /* NAME */
    SL_FLOW_ACT_WEBHOOK,     /* ORG URL */
    SL_FLOW_ACT_DELIVERY,    /* NAME */
    SL_FLOW_ACT_DESTINATION, /* URL STATUS */
};

#define SL_FLOW_ACT_NAMES 4 /* maximum number of names of an act */

/* A time since 1970, or relative to now. */
struct sl_moment {
    bool relative;
    sl_ns at;
};

/* The inputs of a request. NULL: not given. `request` borrows `costs`. */
struct sl_inputs {
    struct sluice_request request;
    struct sluice_cost *costs;
    const char *token, *as;
    uint64_t times; /* >= 1 */
    sl_ns every;    /* between two repeats */
    bool single;    /* of a command: messages do not mention repeats */
};

/* The inputs by name: to read arguments and flow files, and to write requests
 * to a daemon. */
struct sl_input_field {
    const char *name; /* "header.NAME" matches all names with the prefix */
    enum { SL_INPUT_TEXT, SL_INPUT_SPAN, SL_INPUT_COST, SL_INPUT_HEADER } kind;
    size_t offset;  /* of TEXT and SPAN, in struct sl_inputs */
    bool flow_only; /* not an argument of a command */
};

extern const struct sl_input_field sl_input_fields[]; /* NULL name: end */

/* Is the field a text of struct sluice_request? */
static inline bool sl_input_in_request(const struct sl_input_field *field)
{
    return field->kind == SL_INPUT_TEXT &&
           field->offset < sizeof(struct sluice_request);
}

/* The text of the field in a request. */
static inline const char *const *
sl_request_text(const struct sluice_request *request,
                const struct sl_input_field *field)
{
    return (const char *const *)(const void *)((const char *)request +
                                               field->offset);
}

/* The arguments of `subject`, and of `block`, which has `until` and `note`. */
struct sl_flow_subject_args {
    const char *plan, *note;   /* or NULL */
    const char *anchor, *zone; /* or NULL */
    bool has_until, until_date;
    struct sl_moment until; /* unless it is a date: */
    int64_t last_day;       /* since 1970-01-01 */
    struct sluice_override *overrides;
    size_t override_count;
};

enum sl_field {
    SL_FIELD_OUTCOME, /* allow, deny, never, ok, or the state of a hold or a
                       * webhook */
    SL_FIELD_STATUS,
    SL_FIELD_BY,
    SL_FIELD_LIMIT,
    SL_FIELD_REMAINING,
    SL_FIELD_RETRY,
    SL_FIELD_RESET,
    SL_FIELD_WAIT,
    SL_FIELD_QUOTA,
    SL_FIELD_ALLOWED,
    SL_FIELD_DENIED,
    SL_FIELD_TRIES,
    SL_FIELD_HEADER,
    SL_FIELD_BODY,
};

struct sl_expect {
    enum sl_field field;
    const char *label; /* as written: "retry", "header.X-A"; "" for a word */
    const char *name;  /* HEADER, BODY: after the dot */
    const char *want;  /* as written */
    bool none;         /* of a number or duration: "none" */
    uint64_t number;
    sl_ns span;
};

struct sl_flow_act {
    enum sl_flow_act_kind kind;
    unsigned line;
    const char *names[SL_FLOW_ACT_NAMES];
    struct sl_moment when; /* AT */
    struct sl_inputs *in;  /* of acts that have an answer, else NULL */
    struct sl_flow_subject_args *record; /* SUBJECT, BLOCK, else NULL */
    struct sl_expect *expects;
    size_t expect_count;
    struct sl_flow_act *next;
};

struct sl_flow {
    const char *name;
    unsigned line;
    const char *policy; /* relative to the working folder */
    struct sl_flow_act *acts, *last;
    size_t act_count; /* without AT */
    struct sl_flow *next;
};

struct sl_flow_file {
    const char *name;
    struct sl_flow *flows, *last;
    size_t count;
    struct sl_arena arena;
};

/* Read `text`. The caller ends *ret with sl_flow_file_done(). On failure *ret
 * is untouched, `diag` has file (borrowed from `name`), line and column, and
 * *ret_line is the text of the line. SLUICE_ECONF: not a flow file.
 * SLUICE_ENOMEM. */
SL_MUST_USE int sl_flow_read(const char *name, struct sl_str text,
                             const struct sl_alloc *alloc,
                             struct sl_flow_file *ret, struct sl_diag *diag,
                             struct sl_str *ret_line);

void sl_flow_file_done(struct sl_flow_file *file);

/* Resolve a path relative to `file`. NULL: out of memory. */
SL_MUST_USE const char *sl_flow_path(const char *file, const char *path,
                                     struct sl_arena *arena);

/* ---- a line of a flow file as words ----
 *
 * Words are separated by blanks. A word, or the value after its first `=`, may
 * be in double quotes; inside them \" is a quote and \\ a backslash. A `#` at
 * the start of a word begins a comment.
 *
 * The functions return SLUICE_ECONF with a column and a message in the line's
 * diag, or SLUICE_ENOMEM.
 */

struct sl_flow_word {
    const char *text;      /* without quotes; NUL-terminated */
    struct sl_str name;    /* before the first `=`, or the whole word */
    const char *value;     /* after it, or "" */
    bool is_pair;          /* has an `=` outside quotes */
    bool quoted;           /* the whole word */
    unsigned column;       /* from 1 */
    unsigned value_column; /* of the first byte of the value */
};

struct sl_flow_line {
    struct sl_flow_word words[SL_FLOW_WORDS];
    size_t count;
    struct sl_arena *arena; /* for the texts; the owner sets it */
    struct sl_diag *diag;   /* likewise */
};

/* Split a line. */
SL_MUST_USE int sl_flow_line_read(struct sl_flow_line *line,
                                  struct sl_str text);

/* Set the column of the diag and return it. */
struct sl_diag *sl_flow_line_at(struct sl_flow_line *line, unsigned column);

/* Refuse the line with a message about a column. Returns SLUICE_ECONF. */
#define sl_flow_refuse(line, column, ...)                                      \
    sl_diag_error(sl_flow_line_at(line, column), SLUICE_ECONF, __VA_ARGS__)

/* Set the column of an error whose position counts from the start of the value.
 * Returns err. */
int sl_flow_value_refused(struct sl_flow_line *line,
                          const struct sl_flow_word *word, int err);

/* Is the word not quoted and equal to `text`? */
bool sl_flow_word_is(const struct sl_flow_word *word, const char *text);

/* Read "0s" or "1h30m" (since 1970), "+500ms" (from now) or RFC 3339. `text` is
 * the word or its value. */
SL_MUST_USE int sl_moment_read(struct sl_flow_line *line,
                               const struct sl_flow_word *word,
                               const char *text, struct sl_moment *ret);

/* Append a header. SLUICE_ENOMEM. */
SL_MUST_USE int sl_inputs_header(struct sl_inputs *in,
                                 const struct sluice_header *header,
                                 struct sl_arena *arena);

/* Read the word at `index` into `in`: user=ann, header.x-a=b, x8. */
SL_MUST_USE int sl_input_read(struct sl_flow_line *line, size_t index,
                              struct sl_inputs *in);

/* Read the words from `from` on as the arguments of `block`. */
SL_MUST_USE int sl_flow_block_read(struct sl_flow_line *line, size_t from,
                                   struct sl_flow_act *act);

/* Read the words from `from` on as the arguments of `subject`. */
SL_MUST_USE int sl_flow_subject_read(struct sl_flow_line *line, size_t from,
                                     struct sl_flow_act *act);

/* Refuse the word at `index` if an earlier word, from `from` on, has the same
 * name. */
SL_MUST_USE int sl_flow_word_once(struct sl_flow_line *line, size_t from,
                                  size_t index);

/* Does `name` begin with the prefix and continue? */
bool sl_flow_word_under(struct sl_str name, const char *prefix);

/* ---- running a flow ----
 *
 * A flow has its own empty engine and its own clock. If there is a daemon, it
 * receives the same requests.
 */

struct sl_flow_daemon;

enum sl_flow_result {
    SL_END_PASSED,
    SL_END_FAILED,      /* an answer was not as expected */
    SL_END_BAD_POLICY,  /* invalid policy; `message` has its problems */
    SL_END_BROKEN,      /* the engine failed; see `message` */
    SL_END_UNREACHABLE, /* the daemon is unreachable; see `message` */
    SL_END_SKIPPED,     /* cannot run this way; see `message` */
};

/* One field that is not as expected. */
struct sl_flow_mismatch {
    const char *label; /* "retry"; "" for a status or a word */
    const char *want, *got;
    struct sl_flow_mismatch *next;
};

struct sl_flow_outcome {
    enum sl_flow_result end;
    unsigned line;                   /* of the last act; 0: before the first */
    size_t acts;                     /* including the one that failed */
    struct sl_flow_mismatch *misses; /* FAILED: the fields, or NULL */
    const char *message;             /* another reason, or "" */
};

/* Run one flow, also against `daemon` unless it is NULL. The texts of *ret are
 * in `arena`. */
void sl_flow_run(const struct sl_flow *flow, const char *file,
                 struct sl_flow_daemon *daemon, struct sl_arena *arena,
                 struct sl_flow_outcome *ret);

/* Fill the request of a REQUEST, JOB or TAKE. */
void sl_flow_request_fill(const struct sl_flow_act *act,
                          struct sluice_request *ret);

/* ---- the tokens of a flow: token=FILE ----
 *
 * The engine of this process verifies tokens with the keys of the policy. Keys
 * at a URL are not fetched.
 */

struct sl_jwks_current;
struct sl_tokens;

/* All zero: no token is verified. */
struct sl_flow_tokens {
    struct sl_jwks_current *keys;
    struct sl_tokens *tokens;
    struct sl_diag why; /* why there are no keys, or "" */
};

/* Let `engine` verify webhooks and the tokens of its policy, which was read
 * from `path`. Closes what was open. Unreadable keys are reported by
 * sl_flow_tokens_add(). SLUICE_ENOMEM. */
SL_MUST_USE int sl_flow_tokens_open(struct sl_flow_tokens *tokens,
                                    struct sluice_engine *engine,
                                    const struct sluice_policy *policy,
                                    const char *path);
void sl_flow_tokens_close(struct sl_flow_tokens *tokens);

/* Append the token in the file `path` to the headers of `in`, where the policy
 * looks first. Without `tokens` it is Authorization: Bearer. The texts are in
 * `arena`. SLUICE_ECONF with a message; SLUICE_ENOMEM. */
SL_MUST_USE int sl_flow_tokens_add(const struct sl_flow_tokens *tokens,
                                   const struct sluice_policy *policy,
                                   const char *path, struct sl_inputs *in,
                                   struct sl_arena *arena,
                                   struct sl_diag *diag);

/* ---- webhooks of a flow ----
 *
 * They are queued, paced and repeated as by a daemon. Nothing is sent. All
 * functions that can fail return SLUICE_ENOMEM or another error, with a message
 * in `why`.
 */

struct sl_flow_message;

/* A message that was queued, at this time. */
struct sl_flow_delivery {
    const char *state; /* delivered, paced, retrying, held, dead or disabled */
    unsigned tries;
    sl_ns retry_in; /* until its endpoint is tried; SL_NS_NONE: it is not */
};

/* The members after `policy` are private. */
struct sl_flow_webhooks {
    struct sl_diag why;
    const struct sluice_policy *policy; /* the active one; the owner sets it */
    struct sl_arena *arena;
    struct sluice_engine *engine;
    struct sluice_decision *held; /* of the quota, for held messages */
    sl_ns *now;
    struct destination *destinations;
    struct endpoint *endpoints;
    struct sl_flow_message *waiting, *spare, *named;
    size_t waiting_count;
};

/* `now` is the clock of the flow, which the engine uses. */
SL_MUST_USE int sl_flow_webhooks_open(struct sl_flow_webhooks *w,
                                      struct sl_arena *arena,
                                      struct sluice_engine *engine, sl_ns *now);
void sl_flow_webhooks_close(struct sl_flow_webhooks *w);

/* The destination answers so from now on. 200 before. */
SL_MUST_USE int sl_flow_webhooks_answer(struct sl_flow_webhooks *w,
                                        const char *url, int status);

/* Queue a message, and send what is due. `decision` is that of the quota, if
 * the policy has one. *ret is NULL if the quota refuses the message; otherwise
 * it is valid until the next call, or with a name as long as `w` is. */
SL_MUST_USE int sl_flow_webhooks_send(struct sl_flow_webhooks *w,
                                      const char *org, const char *url,
                                      const char *name,
                                      struct sluice_decision *decision,
                                      const struct sl_flow_message **ret);

/* Move the clock, and send what is due until then. */
SL_MUST_USE int sl_flow_webhooks_move(struct sl_flow_webhooks *w, sl_ns to);

/* The last message with this name, or NULL. */
const struct sl_flow_message *
sl_flow_webhooks_find(const struct sl_flow_webhooks *w, const char *name);

struct sl_flow_delivery
sl_flow_webhooks_state(const struct sl_flow_webhooks *w,
                       const struct sl_flow_message *message);

/* ---- registry.c ---- */

/* A subject of the flow. A later record replaces an earlier one. */
struct sl_flow_subject {
    const char *scope, *id;
    const char *anchor, *zone; /* or NULL */
    struct sl_subject subject;
    struct sl_net net; /* of scope ip */
    struct sl_flow_subject *next;
};

/* The registry of the flow, in place of a daemon's. */
struct sl_flow_registry {
    struct sl_subjects base; /* first */
    struct sl_flow_subject *subjects;
    struct sl_subject unknown;
};

/* Opens an empty registry. */
struct sl_subjects *sl_flow_registry_open(struct sl_flow_registry *registry);

/* The subject, or NULL. */
struct sl_flow_subject *
sl_flow_registry_find(const struct sl_flow_registry *registry,
                      struct sl_str scope, struct sl_str id);

/* The subject, which is added if there is none. The texts are borrowed. NULL
 * without memory. */
SL_MUST_USE struct sl_flow_subject *
sl_flow_registry_add(struct sl_flow_registry *registry, struct sl_arena *arena,
                     const char *scope, const char *id);

#endif
