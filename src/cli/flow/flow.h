/* flow.h -- a flow file as it was read.
 *
 * A flow file tests a policy: a row of flows, each a name, a policy and a row
 * of acts, and behind an act what is expected of it. Reading needs no policy
 * and no engine; running is in run.h.
 *
 *     flow "a free user bursts eight"
 *     policy unraveldocs.yaml
 *     at 0s
 *       GET /api/v1/ai/extract user=ann plan=FREE x8  -> allowed=8
 *
 * Everything that was read lives in the file's arena. Texts end in NUL and
 * have none inside.
 *
 * Limits: a file of SL_FLOW_BYTES, lines of SL_FLOW_LINE, SL_FLOW_WORDS words
 * on a line, SL_FLOW_TIMES repeats. Whatever is beyond is refused.
 */
#ifndef SL_CLI_FLOW_FLOW_H
#define SL_CLI_FLOW_FLOW_H

#include "base/arena.h"
#include "base/diag.h"
#include "sluice_policy.h"

#define SL_FLOW_BYTES (1024 * 1024)
#define SL_FLOW_LINE  4096
#define SL_FLOW_WORDS 256
#define SL_FLOW_TIMES 10000000

enum sl_flow_act_kind {
    SL_FLOW_ACT_AT,
    SL_FLOW_ACT_REQUEST, /* METHOD PATH */
    SL_FLOW_ACT_JOB,     /* NAME */
    SL_FLOW_ACT_TAKE,    /* LIMIT KEY */
    SL_FLOW_ACT_SUBJECT, /* SCOPE ID */
    SL_FLOW_ACT_FEATURE, /* NAME on|off */
    SL_FLOW_ACT_BACKLOG, /* NAME DEPTH */
    SL_FLOW_ACT_STORE,   /* fails|slow|heals */
    SL_FLOW_ACT_RELOAD,  /* PATH */
    SL_FLOW_ACT_USAGE,   /* SCOPE ID LIMIT AMOUNT */
    SL_FLOW_ACT_SETTLE,  /* NAME */
    SL_FLOW_ACT_RELEASE, /* NAME */
    SL_FLOW_ACT_EXTEND,  /* NAME */
};

#define SL_FLOW_ACT_NAMES 4 /* the most words that an act names things by */

/* An instant, or a span from now. */
struct sl_moment {
    bool relative;
    sl_ns at;
};

/* The inputs of a request. NULL: not given. `headers` and `costs` are what
 * `request` points at. */
struct sl_inputs {
    struct sluice_request request;
    struct sluice_header *headers;
    struct sluice_cost *costs;
    const char *token, *as;
    uint64_t times; /* >= 1 */
    sl_ns every;    /* between two repeats */
    bool single;    /* of a command: messages do not mention repeats */
};

/* The inputs by name. Reads arguments and flow files, and writes requests to a
 * daemon. */
struct sl_input_field {
    const char *name; /* "header.NAME" stands for all names with the prefix */
    enum { SL_INPUT_TEXT, SL_INPUT_SPAN, SL_INPUT_COST, SL_INPUT_HEADER } kind;
    size_t offset;  /* of TEXT and SPAN, in struct sl_inputs */
    bool flow_only; /* not an argument of a command */
};

extern const struct sl_input_field sl_input_fields[]; /* ended by no name */

/* Is the field a text of struct sluice_request? */
static inline bool sl_input_in_request(const struct sl_input_field *field)
{
    return field->kind == SL_INPUT_TEXT &&
           field->offset < sizeof(struct sluice_request);
}

/* That text of a request. */
static inline const char *const *
sl_request_text(const struct sluice_request *request,
                const struct sl_input_field *field)
{
    return (const char *const *)(const void *)((const char *)request +
                                               field->offset);
}

/* What the registry is told. */
struct sl_flow_subject_args {
    const char *plan; /* or NULL */
    bool has_until;
    struct sl_moment until;
    struct sluice_override *overrides;
    size_t override_count;
};

enum sl_field {
    SL_FIELD_OUTCOME, /* allow, deny, never, ok; of holds their states */
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
    SL_FIELD_HEADER,
    SL_FIELD_BODY,
};

struct sl_expect {
    enum sl_field field;
    const char *label; /* as written: "retry", "header.X-A"; "" for a word */
    const char *name;  /* HEADER, BODY: behind the dot */
    const char *want;  /* as written */
    bool none;         /* a number or a span: there is none */
    uint64_t number;
    sl_ns span;
};

struct sl_flow_act {
    enum sl_flow_act_kind kind;
    unsigned line;
    const char *names[SL_FLOW_ACT_NAMES];
    struct sl_moment when; /* AT */
    struct sl_inputs *in;  /* REQUEST, JOB, TAKE and holds, else NULL */
    struct sl_flow_subject_args *record; /* SUBJECT, else NULL */
    struct sl_expect *expects;
    size_t expect_count;
    struct sl_flow_act *next;
};

struct sl_flow {
    const char *name;
    unsigned line;
    const char *policy; /* its path, as seen from the working folder */
    struct sl_flow_act *acts, *last;
    size_t act_count; /* those that move the clock not counted */
    struct sl_flow *next;
};

struct sl_flow_file {
    const char *name;
    struct sl_flow *flows, *last;
    size_t count;
    struct sl_arena arena;
};

/* Read `text`. On success *ret is yours until sl_flow_file_done(). On failure
 * it is untouched, `diag` has file, line and column (`name` is borrowed for
 * that), and *ret_line is the line in question. SLUICE_ECONF: not a flow file.
 * SLUICE_ENOMEM: without memory. */
SL_MUST_USE int sl_flow_read(const char *name, struct sl_str text,
                             const struct sl_alloc *alloc,
                             struct sl_flow_file *ret, struct sl_diag *diag,
                             struct sl_str *ret_line);

void sl_flow_file_done(struct sl_flow_file *file);

/* A path that is relative to `file`, as seen from the working folder. NULL
 * without memory. */
SL_MUST_USE const char *sl_flow_path(const char *file, const char *path,
                                     struct sl_arena *arena);

/* ---- a line of a flow file as words.
 *
 * Words stand between blanks. A word, or what stands behind its first `=`, may
 * be in double quotes; inside them \" is a quote and \\ a backslash. A `#` at
 * the beginning of a word begins a comment.
 */

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

/* ---- what the words of an act mean, one by one; for flow files and for
 * the arguments of `sluice explain`.
 *
 * All of these answer SLUICE_ECONF with a column and a sentence in `diag`, or
 * SLUICE_ENOMEM.
 */

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

/* ---- a flow at work: an engine of its own, empty, on a clock that only
 * the flow moves; and if there is a daemon to be asked, that one too.
 */

struct sl_flow_daemon;

enum sl_flow_result {
    SL_END_PASSED,
    SL_END_FAILED,     /* an act was not answered as expected */
    SL_END_BAD_POLICY, /* a policy was refused; `message` has its problems */
    SL_END_BROKEN,     /* the engine failed; `message` says how */
    SL_END_NOBODY,     /* the daemon could not be reached; likewise */
    SL_END_SKIPPED,    /* it can't be run so; `message` says why */
};

/* One field that came out other than expected. */
struct sl_flow_mismatch {
    const char *label; /* "retry"; "" for a status or a word */
    const char *want, *got;
    struct sl_flow_mismatch *next;
};

struct sl_flow_outcome {
    enum sl_flow_result end;
    unsigned line; /* where it stopped; 0 before the first act */
    size_t acts;   /* done, the one that failed included */
    struct sl_flow_mismatch
        *misses;         /* FAILED: what was wrong, perhaps nothing */
    const char *message; /* or why else it failed; "" none */
};

/* Run one flow, with `remote` (may be NULL) over HTTP. The texts of *ret live
 * in `arena`. */
void sl_flow_run(const struct sl_flow *flow, const char *file,
                 struct sl_flow_daemon *remote, struct sl_arena *arena,
                 struct sl_flow_outcome *ret);

/* Put what a REQUEST, JOB or TAKE says into a request. */
void sl_flow_request_fill(const struct sl_flow_act *act,
                          struct sluice_request *ret);

/* What `usage SCOPE ID LIMIT AMOUNT` reports; in usage.c. SLUICE_ECONF with a
 * sentence. */
SL_MUST_USE int sl_usage_fill(const struct sl_flow_act *act,
                              struct sluice_request *ret, struct sl_diag *diag);

/* ---- what an act was answered, against what was expected. */

/* How the repeats of an act went. */
struct sl_flow_counts {
    uint64_t allowed, denied;
};

/* Append to *ret what is not as expected; the texts live in `arena`.
 * `decision` is that of the last repeat. SLUICE_ENOMEM without memory. */
SL_MUST_USE int sl_compare(const struct sl_flow_act *act,
                           const struct sl_flow_counts *tally,
                           const struct sluice_decision *decision,
                           struct sl_arena *arena,
                           struct sl_flow_mismatch **ret);

/* The field of a JSON text at a dotted path, as text: strings without quotes,
 * everything else as JSON. NULL if there is no such field; *ret_err is
 * SLUICE_ENOMEM without memory. */
const char *sl_flow_body_field(const char *json, const char *path,
                               struct sl_arena *arena, int *ret_err);

/* ---- the holds of a flow, by the names that it gives them.
 */

struct sl_flow_hold {
    const char *name;   /* as=NAME */
    const char *own;    /* what the engine calls it; "" if nothing is held */
    const char *remote; /* what the daemon does; NULL: there is none */
    struct sl_flow_hold *next;
};

struct sl_flow_holds {
    struct sl_arena *arena;
    struct sl_flow_hold *list;
};

/* Keep a hold by its name; a later one of that name takes its place. The texts
 * are copied. SLUICE_ENOMEM. */
SL_MUST_USE int sl_flow_holds_set(struct sl_flow_holds *holds, const char *name,
                                  const char *own, const char *remote);

/* The one of that name, or NULL. */
const struct sl_flow_hold *sl_flow_holds_find(const struct sl_flow_holds *holds,
                                              const char *name);

/* Settle, release or extend as `act` says. Returns as sluice_engine_settle();
 * a hold that nobody knows is an answer: *ret_known is false then. */
SL_MUST_USE int sl_flow_holds_end(struct sluice_engine *engine,
                                  const struct sl_flow_hold *hold,
                                  const struct sl_flow_act *act,
                                  struct sluice_ended *ended, bool *ret_known);

/* What became of it, against what was expected. SLUICE_ENOMEM. */
SL_MUST_USE int sl_flow_holds_compare(const struct sl_flow_act *act,
                                      struct sluice_ended *ended, bool known,
                                      struct sl_arena *arena,
                                      struct sl_flow_mismatch **ret);

/* ---- the registry of a flow: who has which plan and which numbers
 * of his own.
 *
 * It stands in for the subjects of a daemon: whose word goes first is decided
 * by the same engine. A record replaces the one before it.
 */

struct sl_flow_subject {
    const char *scope, *id;
    struct sluice_subject subject;
    struct sl_flow_subject *next;
};

struct sl_flow_subjects {
    struct sl_flow_subject *first;
    struct sl_arena *arena;
};

/* The act is borrowed for the life of the registry. What `until` says goes for
 * the plan and for all numbers. */
SL_MUST_USE int sl_flow_subjects_set(struct sl_flow_subjects *subjects,
                                     const struct sl_flow_act *act, sl_ns now);

/* Let the request know what the registry has of its user and org. */
void sl_flow_subjects_fill(const struct sl_flow_subjects *subjects,
                           struct sluice_request *request);

/* When a record ends; -1: never. */
int64_t sl_flow_record_end(const struct sl_flow_subject_args *record,
                           sl_ns now);

/* ---- token=FILE: the token of a request, and who verifies it here.
 *
 * The engine that runs in this process verifies tokens by the keys that the
 * policy has at hand. Keys at a URL are not fetched.
 */

struct sl_jwks_current;
struct sl_tokens;

/* Zeros are good: nobody verifies. */
struct sl_flow_tokens {
    struct sl_jwks_current *keys;
    struct sl_tokens *tokens;
    struct sl_diag why; /* there are no keys; "" if none are asked for */
};

/* Let `engine` believe webhooks, and the tokens of its policy, which was read
 * from `path`. What was open before is closed. If the keys can't be read, that
 * is said when the first token comes: see below. SLUICE_ENOMEM. */
SL_MUST_USE int sl_flow_tokens_open(struct sl_flow_tokens *tokens,
                                    struct sluice_engine *engine,
                                    const struct sluice_policy *policy,
                                    const char *path);
void sl_flow_tokens_close(struct sl_flow_tokens *tokens);

/* The header that brings the token in the file `path` to where the policy
 * looks first; its texts live in `arena`. SLUICE_ECONF, with a sentence, if
 * that can't be done. */
SL_MUST_USE int sl_flow_tokens_header(const struct sl_flow_tokens *tokens,
                                      const struct sluice_policy *policy,
                                      const char *path, struct sl_arena *arena,
                                      struct sluice_header *ret,
                                      struct sl_diag *diag);

/* The same where the policy is not known: Authorization: Bearer TOKEN. */
SL_MUST_USE int sl_flow_bearer(const char *path, struct sl_arena *arena,
                               struct sluice_header *ret, struct sl_diag *diag);

#endif
