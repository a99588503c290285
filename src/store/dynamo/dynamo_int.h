/* dynamo_int.h -- what the files of the DynamoDB store share. */
#ifndef SL_STORE_DYNAMO_DYNAMO_INT_H
#define SL_STORE_DYNAMO_DYNAMO_INT_H

#include <stdatomic.h>
#include <sys/queue.h>

#include "base/buf.h"
#include "base/str.h"
#include "store/dynamo/aws.h"
#include "store/dynamo/dynamo.h"
#include "store/remote.h"
#include "store/store.h"

/* ---- clock skew, by the Date header of the server; pure.
 *
 * A Date of S says that the server's clock was in [S, S + 1) at some instant
 * between sending and receiving. Each reply narrows the interval of the
 * difference. If it does not overlap the interval so far, a clock was set, and
 * the interval starts again.
 *
 *     ours      sent |-----------| received
 *     theirs         [S, S + 1)
 *     difference     (S - received, S + 1 - sent)
 *
 * The correction is the smallest that fits: none between clocks that agree to a
 * second.
 */

struct sl_skew {
    bool known;
    sl_ns least, most; /* theirs minus ours lies between */
};

/* "Sun, 15 Nov 2026 13:46:24 GMT" as whole seconds; SLUICE_ECONF. */
SL_MUST_USE int sl_date_read(struct sl_str text, sl_ns *ret);

/* `sent` and `received` are by our clock. */
void sl_skew_note(struct sl_skew *skew, sl_ns date, sl_ns sent, sl_ns received);

/* The time to add to ours. */
sl_ns sl_skew_of(const struct sl_skew *skew);

/* ---- an item of the table.
 *
 *   userId             dataType                   count  resetTime  ttl
 *   search:user:123    RATE_LIMIT#1704067200000   45     ...ms      ...s
 *   userId             dataType                   cell0  cell1      ttl
 *   sluice:prod:...    CELL#0000000e8d4a5101      ...    ...        ...s
 *
 * A fixed window is a row named by its start, in the format of older programs
 * that use the table. Every other kind is one row with the two words of its
 * cell, named by the limit's shape: a changed kind or period starts afresh.
 *
 * `ttl` is an hour after a row has lost its meaning. Nothing depends on when
 * DynamoDB removes it.
 */

#define SL_ROW_NAME_MOST 1024 /* bytes; longer names are hashed */
#define SL_ROW_SORT      40
#define SL_ROW_LEASES    64 /* more loops share an attribute */

struct sl_row {
    struct sl_str name;
    char sort[SL_ROW_SORT];
    bool is_window;
    uint64_t reset_ms; /* of a window: its end */

    bool found;
    struct sl_cell cell; /* as read; zeros: not found */
    struct sl_cell next; /* to be written */
    uint64_t ttl;        /* of `next`, in seconds; 0: none */
    bool changed;        /* it is to be written */
    bool is_checked;     /* another row was judged by it: it must not change
                          * before that is written */

    /* Tokens leased by loops, each in its own attribute, so that a reset leaves
     * them taken: "lease7" is "till 1704067201000: 40". */
    uint64_t leased;     /* sum of the leases that have not ended */
    bool leases;         /* a write also writes our lease: */
    unsigned lease_slot; /* < SL_ROW_LEASES */
    uint64_t lease_amount;
    uint64_t lease_till; /* ms */
    bool deletes;        /* a reset: the row is deleted, if it has no marks */

    const char *journal_id; /* of the journaled write; NULL: none */
    bool marked;            /* it was found with this mark */
    bool has_marks;         /* or with any */
    bool unmarks; /* a swap removes the mark and requires it; otherwise it adds
                   * the mark */
};

/* The row of a part at `now`. `name` is borrowed. */
void sl_row_of(const struct sl_part *part, struct sl_str name, sl_ns now,
               struct sl_row *ret);

/* The sort key of a cell, by its limit's shape. */
void sl_row_sort(uint64_t shape, char ret[SL_ROW_SORT]);

/* Appends the name of a part in the table: "sha256:..." if the name is too
 * long, not UTF-8, or begins so. */
SL_MUST_USE int sl_row_name(struct sl_str name, struct sl_buf *out);

/* The count of a window as a cell of core. */
struct sl_cell sl_row_cell(uint64_t count, sl_ns now);

/* Requests about one row. */
enum sl_row_request {
    SL_ROW_GET,
    SL_ROW_SWAP,   /* writes `next` if the row still has `cell` */
    SL_ROW_UNMARK, /* removes the mark of its journal, if it has it */
    SL_ROW_DELETE, /* if it has no marks */
};

/* Each appends the body of a request to `out`. */
SL_MUST_USE int sl_row_put(struct sl_buf *out, struct sl_str table,
                           const struct sl_row *row,
                           enum sl_row_request request,
                           const char **ret_operation);
SL_MUST_USE int sl_row_put_batch(struct sl_buf *out, struct sl_str table,
                                 const struct sl_row *rows, unsigned count);

/* UpdateItem of a window: adds to its count, if that lies between the two. A
 * missing count is 0. */
struct sl_row_count {
    int64_t add;
    uint64_t least, most;
};
SL_MUST_USE int sl_row_put_count(struct sl_buf *out, struct sl_str table,
                                 const struct sl_row *row,
                                 const struct sl_row_count *count);

/* TransactWriteItems: swaps or deletes the rows that changed, and checks those
 * with is_checked. */
SL_MUST_USE int sl_row_put_set(struct sl_buf *out, struct sl_str table,
                               const struct sl_row *rows, unsigned count);

/* The amount of a lease attribute at `now`; 0: malformed, or it has ended. */
uint64_t sl_row_read_lease(const char *text, sl_ns now);

/* ---- replies of DynamoDB; pure. Values that Sluice did not write are ignored
 * or refused ---- */

/* All but the last prove that nothing has happened. */
enum sl_dynamo_status {
    SL_DYNAMO_ANSWERED,
    SL_UNMET,          /* a condition was not met, or a conflict */
    SL_THROTTLED,      /* the table has no capacity */
    SL_SKEWED,         /* the clocks differ too much */
    SL_FORBIDDEN,      /* the keys are invalid, or lack permissions */
    SL_NO_TABLE,       /* or it is being created */
    SL_NO_TRANSACTION, /* the endpoint has no transactions */
    SL_REFUSED,        /* the request is invalid */
    SL_UNSENT,
    SL_UNSURE, /* it is not known whether it has happened */
};

#define SL_REPLY_WHY 200

/* The meaning and remedy, for logs; may be "". */
const char *sl_dynamo_status_sentence(enum sl_dynamo_status status);

/* Reads a reply: `status` of HTTP, and its body. Fills in `found` and `cell` of
 * the rows; `now` is the time of windows. *ret_has_rows: the reply has the
 * rows, so that they need not be read. `why`: the server's message. */
enum sl_dynamo_status sl_dynamo_reply_read(int status, struct sl_str body,
                                           struct sl_row *rows, unsigned count,
                                           sl_ns now, bool *ret_has_rows,
                                           char why[SL_REPLY_WHY]);

/* A text attribute of an item, truncated to `size`. */
struct sl_dynamo_text {
    const char *name;
    char *out;
    size_t size;
    bool found;
};

/* Reads the text attributes of GetItem's item. *ret_found: the item exists. */
enum sl_dynamo_status sl_dynamo_texts(int status, struct sl_str body,
                                      struct sl_dynamo_text *texts,
                                      unsigned count, bool *ret_found,
                                      char why[SL_REPLY_WHY]);

/* ---- signed requests to one endpoint, on one loop.
 *
 * libcurl keeps the connections. A request fails at once while there are no
 * keys. The server's Date corrects the clock of the next signatures.
 */

struct sl_dynamo_http;

/* One request; the caller owns it. */
struct sl_dynamo_call {
    struct sl_http_fetch fetch;
    struct sl_buf body; /* to be sent: filled by the caller */
    struct sl_buf head; /* the headers' texts */
    const char *headers[8];
    struct sl_dynamo_http *client;
    sl_ns sent_at; /* by our wall clock */
    void (*done)(struct sl_dynamo_call *call);
    void *ctx;

    /* The reply, until the next request. Status 0: see fetch.why. */
    int status;
    struct sl_str reply;
    bool unsent; /* certainly */
};

struct sl_dynamo_http_options {
    const struct sl_dynamo_url *where;
    const struct sl_aws_env *env;
    struct sl_loop *loop;
    const struct sl_alloc *alloc;
    void (*on_keys)(void *ctx, bool good, const char *sentence);
    void *ctx;
};

SL_MUST_USE int
sl_dynamo_http_open(const struct sl_dynamo_http_options *options,
                    struct sl_dynamo_http **ret);

/* No call is open. NULL is allowed. */
void sl_dynamo_http_close(struct sl_dynamo_http *client);

void sl_dynamo_call_init(struct sl_dynamo_call *call,
                         struct sl_dynamo_http *client);
void sl_dynamo_call_done(struct sl_dynamo_call *call); /* cancels it, too */

/* Sends `operation` ("UpdateItem") with call->body. done() is called once,
 * later; not if this fails: SLUICE_ESTORE without keys, SLUICE_ENOMEM. */
SL_MUST_USE int sl_dynamo_call_send(struct sl_dynamo_call *call,
                                    const char *operation, sl_ns timeout);

/* done() is not called. */
void sl_dynamo_call_cancel(struct sl_dynamo_call *call);
bool sl_dynamo_call_is_open(const struct sl_dynamo_call *call);

/* The keys were refused: gets others. */
void sl_dynamo_http_doubt(struct sl_dynamo_http *client);

/* The time to add to our wall clock. */
sl_ns sl_dynamo_http_skew(const struct sl_dynamo_http *client);

/* ---- the rows of a take, and how it is judged; pure.
 *
 * A set has its own copy of the take: it may outlive it, when a late write is
 * refunded. Parts of the same row are one: their costs add up. Core judges,
 * from the cells that were read to those that are written; the condition of the
 * write proves that no other program has written in between.
 *
 * The clocks of machines that share a table differ, and takes overtake each
 * other. A row that was written up to SL_ROW_SET_LAG ahead of `now` is judged
 * at its own time. Otherwise two machines that take turns would refill a bucket
 * by their difference each time.
 */

#define SL_ROW_SET_LAG (2 * SL_S)

/* A lease requested with a take (store/lease_cache.h); the rest of the last. */
struct sl_row_lease {
    uint64_t want;
    uint64_t back; /* returned first */
    sl_ns taken;   /* when `back` was taken */
    uint64_t has;  /* out: granted */
};

struct sl_row_set {
    enum sl_take_op op;
    sl_ns now;
    unsigned count; /* of parts */
    struct sl_part parts[SL_PARTS];
    struct sl_limit limits[SL_PARTS];
    struct sl_period periods[SL_PARTS]; /* of calendars, when it was taken */
    bool orphaned; /* the take has ended: its calendars may be gone */
    bool is_rest;  /* the rest of a lease: it may have been refilled since */
    unsigned slot; /* the attribute of this loop's leases; set once */

    struct sl_row rows[SL_PARTS];
    unsigned row_count;
    unsigned row_of[SL_PARTS]; /* of each part */
    unsigned first[SL_PARTS];  /* of each row: its first part */
    uint64_t cost[SL_PARTS];   /* of each row */
    int beside[SL_PARTS];      /* of each row: the row that is carried to it,
                                * or -1 */
    struct sl_row_lease lease[SL_PARTS]; /* of each row */
    sl_ns at[SL_PARTS]; /* of each row: when it is judged, >= now */
    struct sl_buf names;
};

/* `names` is empty, with a ceiling and an allocator. SLUICE_ENOMEM. */
SL_MUST_USE int sl_row_set_fill(struct sl_row_set *set,
                                const struct sl_take *take, sl_ns now);

/* Refunds the rest of a lease: `amount`, taken at `taken`, of a limit whose
 * calendar may be gone. `period` was its period then. */
struct sl_lease_rest {
    struct sl_str name;
    struct sl_limit limit;
    struct sl_period period;
    uint64_t amount;
    sl_ns taken;
};
SL_MUST_USE int sl_row_set_fill_rest(struct sl_row_set *set,
                                     const struct sl_lease_rest *rest,
                                     sl_ns now);

/* When a row with this cell is judged: now, or a little later. */
sl_ns sl_row_set_time(const struct sl_limit *limit, struct sl_cell cell,
                      sl_ns now);

/* Judges by the cells of the rows: fills in the answers, row.changed and
 * row.next. Returns true if the set is allowed. */
bool sl_row_set_judge(struct sl_row_set *set);

/* Rows to be written, and rows to be checked only. */
unsigned sl_row_set_writes(const struct sl_row_set *set);
unsigned sl_row_set_checks(const struct sl_row_set *set);

/* Is it one fixed window that can be counted without a read? */
bool sl_row_set_is_count(const struct sl_row_set *set);

/* What such a count adds, with its lease. */
struct sl_row_count sl_row_set_count(struct sl_row_set *set);

/* When a lease of row `k` ends at the latest, by the clock of `now`: tokens
 * taken in advance count in the window or interval in which they were taken. */
sl_ns sl_row_set_lease_end(const struct sl_row_set *set, unsigned k);

/* Turns a take that has succeeded into its refund at `now`. */
void sl_row_set_invert(struct sl_row_set *set, sl_ns now);

/* Copies the answers to the take. */
void sl_row_set_answer(const struct sl_row_set *set, struct sl_take *take);

/* ---- one client and its ops ---- */

struct sl_dynamo_op {
    struct sl_remote_op base; /* first */
    struct sl_dynamo_call call;
    struct sl_row_set set;
    struct sl_timer *retry_timer; /* until its phase is sent again */
    enum {
        SL_DYNAMO_OP_READS,
        SL_DYNAMO_OP_COUNTS,
        SL_DYNAMO_OP_WRITES,
        SL_DYNAMO_OP_NOTES, /* from here on: journaled writes */
        SL_DYNAMO_OP_JOURNALS,
        SL_DYNAMO_OP_STEPS,
        SL_DYNAMO_OP_UNDOES,
        SL_DYNAMO_OP_REVIEWS,
        SL_DYNAMO_OP_CLEARS,
        SL_DYNAMO_OP_ENDS,
    } phase;
    unsigned written;   /* WRITES one row: its index; SL_PARTS: all */
    bool may_split;     /* it may be journaled */
    bool journaled;     /* its journal is in the table... */
    sl_ns journaled_at; /* ...since this monotonic time */
    char journal_id[SL_STORE_IDENTITY + 1];
    uint8_t order[SL_PARTS]; /* of the steps: the index of the row */
    unsigned steps, step;    /* their number, and the current one */
    bool allowed;
    unsigned again, paused; /* retries so far: conflicts, pauses */
    bool skewed;            /* sent again once because of the clock */
};

struct sl_recovery;
struct sl_dynamo_repeat;

struct sl_dynamo_client {
    struct sl_remote_client base; /* first */
    const struct sl_dynamo_options *options;
    _Atomic bool *has_journals; /* the table may have some */
    struct sl_dynamo_http *http;
    struct sl_dynamo_call call;             /* reads or writes the secret */
    bool puts;                              /* `call` writes it */
    unsigned failures;                      /* of `call` */
    struct sl_timer *timer;                 /* until it is sent again */
    struct sl_recovery *recovery;           /* NULL: another client runs it */
    TAILQ_HEAD(, sl_dynamo_repeat) repeats; /* calls in flight */
    unsigned lease_slot; /* the attribute of this loop's leases */
    struct sl_jitter jitter;
};

static inline struct sl_dynamo_client *
sl_dynamo_op_client(const struct sl_dynamo_op *op)
{
    return (struct sl_dynamo_client *)op->base.client;
}

/* Notes whether the endpoint answered, and logs a change. */
void sl_dynamo_client_heard(struct sl_dynamo_client *client, bool answers,
                            const char *why);

/* Logs an error. */
void sl_dynamo_client_error(struct sl_dynamo_client *client,
                            enum sl_dynamo_status status, const char *why);

/* UpdateItem: notes in the row of the secret that there may be journals. Other
 * daemons look for journals only then. */
SL_MUST_USE int sl_dynamo_client_put_note(struct sl_buf *out,
                                          struct sl_str table);

/* The wall clock of the server. */
static inline sl_ns sl_dynamo_client_wall(const struct sl_dynamo_client *client)
{
    return sl_loop_now(client->base.loop) +
           (client->base.options->own_now ? 0
                                          : sl_dynamo_http_skew(client->http));
}

/* In op.c: the back end's calls for ops. */
int sl_dynamo_op_init(struct sl_remote_op *base);
void sl_dynamo_op_reset(struct sl_remote_op *base);
void sl_dynamo_op_done(struct sl_remote_op *base);
int sl_dynamo_op_encode_take(struct sl_remote_op *base, struct sl_take *take,
                             const struct sl_lease_keys *keys);
int sl_dynamo_op_encode_refund(struct sl_remote_op *base);
int sl_dynamo_op_encode_lease_end(struct sl_remote_op *base,
                                  const struct sl_lease_end *end, sl_ns now);
int sl_dynamo_op_keep_part(const struct sl_part *part, sl_ns near,
                           struct sl_buf *out, size_t *ret_name_len);
void sl_dynamo_op_begin(struct sl_remote_op *base);
bool sl_dynamo_op_cancel(struct sl_remote_op *base, bool *ret_uncertain);

/* In repeats.c: the memory of repeats. stop() ends all calls. */
void sl_dynamo_repeat(struct sl_remote_client *base,
                      struct sl_repeat_call *call);
void sl_dynamo_repeats_stop(struct sl_dynamo_client *client);

/* Ends an op of a client that closes. */
void sl_dynamo_op_abandon(struct sl_dynamo_op *op);

/* ---- the journal of a set that is written row by row; pure.
 *
 *   userId           dataType        at       rows                       ttl
 *   sluice:pledges   SET#3f0c...     ...ms    kind, numbers, cost, name  ...s
 *
 * It is written before the first step and removed after the last. Each step
 * adds the journal's id to its row (`sets`, a set of texts), in the write that
 * takes. So the marks tell which rows were taken, and each row is refunded once
 * at most: the write that refunds removes the mark.
 *
 * The last row decides. If it has the mark, all rows were taken, and the marks
 * are removed from the first row to the last; otherwise the set is undone. So a
 * reset leaves marks, and a row that never expires is the last one if there is
 * one. Any other last row that is not found after an hour may have expired:
 * then the set stays taken.
 */

#define SL_JOURNAL_ID 32 /* hex digits */

/* One row of a set, with the part of its limit that a refund needs. */
struct sl_journal_row {
    struct sl_str name; /* in the table */
    struct sl_limit limit;
    struct sl_period period; /* of a calendar, when it was taken */
    uint64_t shape;          /* of the limit, with its calendar */
    uint64_t cost;
    sl_ns taken;
};

struct sl_journal {
    char id[SL_JOURNAL_ID + 1];
    sl_ns at; /* when it was written */
    unsigned count;
    struct sl_journal_row rows[SL_PARTS];
    struct sl_buf names;
};

/* The row with the mark of journal `id`. `id` and the name are borrowed. */
void sl_journal_row_of(const struct sl_journal_row *from, const char *id,
                       struct sl_row *ret);

/* The next cell of a row with `cell` when the set is undone at `now`. A bucket
 * gets back only tokens that are surely still used. */
struct sl_cell sl_journal_undo(const struct sl_journal_row *row,
                               struct sl_cell cell, sl_ns now);

/* Was the whole set taken, judged by the last row as read at `now`? */
bool sl_journal_was_taken(const struct sl_journal *journal,
                          const struct sl_row *last, sl_ns now);

/* Appends a row as a text. */
SL_MUST_USE int sl_journal_add(struct sl_buf *out,
                               const struct sl_journal_row *row);

/* PutItem: `rows` are the texts of all rows; `at` is by the wall clock. */
SL_MUST_USE int sl_journal_put(struct sl_buf *out, struct sl_str table,
                               const char *id, sl_ns at, struct sl_str rows);
/* DeleteItem. */
SL_MUST_USE int sl_journal_put_delete(struct sl_buf *out, struct sl_str table,
                                      const char *id);
/* Query: a page of journals, behind `after`; "": from the first one. */
SL_MUST_USE int sl_journal_put_query(struct sl_buf *out, struct sl_str table,
                                     struct sl_str after);

/* Reads the reply to the query: the first journal that was written before
 * `before`, into *ret, whose buffer has an allocator. Returns false if there is
 * none; malformed items are skipped. `after`: where the next query starts; "":
 * there are no more. */
SL_MUST_USE bool sl_journal_read(struct sl_str body, sl_ns before,
                                 struct sl_journal *ret, struct sl_buf *after);

#endif
