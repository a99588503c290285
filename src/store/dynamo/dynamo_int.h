/* dynamo_int.h -- the inside of the DynamoDB store. */
#ifndef SL_STORE_DYNAMO_DYNAMO_INT_H
#define SL_STORE_DYNAMO_DYNAMO_INT_H

#include <stdatomic.h>
#include <sys/queue.h>

#include "base/buf.h"
#include "base/str.h"
#include "store/caches.h"
#include "store/dynamo/aws.h"
#include "store/dynamo/dynamo.h"
#include "store/remote.h"
#include "store/store.h"

/* ---- how far a server's clock is from ours, by its Date.
 *
 * A Date has whole seconds: one of S says that the server's clock was in
 * [S, S + 1) at some instant between sending and receiving. Each reply narrows
 * the span that the difference may lie in; one that does not fit any more
 * means that a clock was set, and begins anew.
 *
 *     ours      sent |-----------| received
 *     theirs         [S, S + 1)
 *     difference     (S - received, S + 1 - sent)
 *
 * The correction is the least that fits: none at all between clocks that agree
 * to a second. Pure.
 */

struct sl_skew {
    bool known;
    sl_ns least, most; /* theirs minus ours lies between */
};

/* "Sun, 15 Nov 2026 13:46:24 GMT" as whole seconds; SLUICE_ECONF. */
SL_MUST_USE int sl_date_read(struct sl_str text, sl_ns *ret);

/* A reply said `date`; `sent` and `received` are by our clock. */
void sl_skew_note(struct sl_skew *skew, sl_ns date, sl_ns sent, sl_ns received);

/* What to add to our time. */
sl_ns sl_skew_of(const struct sl_skew *skew);

/* ---- an item of the table: whose it is, and what it says.
 *
 *   userId             dataType                   count  resetTime  ttl
 *   search:user:123    RATE_LIMIT#1704067200000   45     ...ms      ...s
 *   userId             dataType                   cell0  cell1      ttl
 *   sluice:prod:...    CELL#0000000e8d4a5101      ...    ...        ...s
 *
 * A fixed window is a row of its own, named by its start: so the table looked
 * before there was a Sluice, and so anybody can read it. Every other kind is
 * one row with the two words of its cell, named by the limit's shape, so that
 * a changed kind or period starts afresh.
 *
 * `ttl` is an hour after a row has lost its meaning. Nothing depends on when
 * DynamoDB removes it.
 */

#define SL_ROW_NAME_MOST 1024 /* bytes; longer names are hashed */
#define SL_ROW_SORT      40
#define SL_ROW_LEASES    64 /* loops beyond that share one */

struct sl_row {
    struct sl_str name;
    char sort[SL_ROW_SORT];
    bool is_window;
    uint64_t reset_ms; /* of a window: its end */

    bool there;          /* it was found... */
    struct sl_cell cell; /* ...and says this; zeros if not */
    struct sl_cell next; /* what it is to say */
    uint64_t ttl;        /* of `next`, in seconds; 0: none */
    bool changed;        /* it is to be written */
    bool leaned_on;      /* what another was judged by: it must not have
                          * changed when that is written */

    /* What loops have taken in advance, each in an attribute of its own, so
     * that a reset leaves that taken: "lease7" is "till 1704067201000: 40". */
    uint64_t leased;     /* by all that was found, and lasts at the time */
    bool leases;         /* a write notes ours: */
    unsigned lease_slot; /* < SL_ROW_LEASES */
    uint64_t lease_amount;
    uint64_t lease_till; /* ms */
    bool deletes;        /* a reset: the row goes, if it has no marks */

    const char *set; /* of which it is a part, taken in steps (pledge.h); NULL:
                      * none */
    bool marked;     /* it was found with that one's mark */
    bool has_marks;  /* or that of any */
    bool unmarks;    /* a swap takes the mark away, and needs it there; else it
                      * puts it there */
};

/* The row of a part at `now`. `name` is borrowed. */
void sl_row_of(const struct sl_part *part, struct sl_str name, sl_ns now,
               struct sl_row *ret);

/* Its ttl, if it is full again `reset_in` from now. One without a clock
 * (SL_NS_NONE) has none, and then a write leaves what is there. */
void sl_row_date(struct sl_row *row, const struct sl_limit *limit, sl_ns now,
                 sl_ns reset_in);

/* The sort key of a cell, by its limit's shape. */
void sl_row_sort(uint64_t shape, char ret[SL_ROW_SORT]);

/* What a part is called in the table: its name, or "sha256:..." if that is too
 * long, no UTF-8, or begins so. Appended to `out`. */
SL_MUST_USE int sl_row_name(struct sl_str name, struct sl_buf *out);

/* The count of a window as the cell that core knows, and back. */
struct sl_cell sl_row_cell(const struct sl_row *row, uint64_t count, sl_ns now);

/* ---- requests: bodies, appended to `out` ---- */

SL_MUST_USE int sl_row_put_get(struct sl_buf *out, struct sl_str table,
                               const struct sl_row *row);
SL_MUST_USE int sl_row_put_batch(struct sl_buf *out, struct sl_str table,
                                 const struct sl_row *rows, unsigned count);

/* UpdateItem: `next` instead of `cell`, if that is still there. */
SL_MUST_USE int sl_row_put_swap(struct sl_buf *out, struct sl_str table,
                                const struct sl_row *row);

/* UpdateItem of a window: add to its count, if that lies between the two. One
 * that is not there is 0. */
struct sl_row_count {
    int64_t add;
    uint64_t least, most;
};
SL_MUST_USE int sl_row_put_count(struct sl_buf *out, struct sl_str table,
                                 const struct sl_row *row,
                                 const struct sl_row_count *count);

/* UpdateItem: take the mark of its set away, if it is there. */
SL_MUST_USE int sl_row_put_unmark(struct sl_buf *out, struct sl_str table,
                                  const struct sl_row *row);

SL_MUST_USE int sl_row_put_delete(struct sl_buf *out, struct sl_str table,
                                  const struct sl_row *row);

/* TransactWriteItems: swap those that changed, or delete them, and check those
 * that were leaned on. */
SL_MUST_USE int sl_row_put_set(struct sl_buf *out, struct sl_str table,
                               const struct sl_row *rows, unsigned count);

/* The value of a lease: what it says of an amount that lasts at `now`; 0 if it
 * is none of ours, or over. */
uint64_t sl_row_read_lease(const char *text, sl_ns now);

/* ---- what DynamoDB answers: what became of a request, and the rows that
 * it tells of.
 *
 * Pure: texts are handed in. What a stranger may have put into the table is
 * passed over, or said to be strange; it never counts as a number of ours.
 */

/* The first few prove that nothing has happened. */
enum sl_dynamo_status {
    SL_DYNAMO_ANSWERED, /* as asked */
    SL_UNMET,          /* a condition was not met, or somebody else was there */
    SL_THROTTLED,      /* too much is asked of the table */
    SL_SKEWED,         /* our clock is too far from theirs */
    SL_FORBIDDEN,      /* the keys are not good, or not for this */
    SL_NO_TABLE,       /* or it is being made */
    SL_NO_TRANSACTION, /* the endpoint does not know that operation */
    SL_REFUSED,        /* our request is not understood */
    SL_UNSENT,         /* it was never sent */
    SL_UNSURE,         /* nobody knows whether it has happened */
};

#define SL_REPLY_WHY 200

/* Words like "ThrottlingException" for logs, and what it means; "" if there is
 * none. */
const char *sl_dynamo_status_sentence(enum sl_dynamo_status answered);

/* Read a reply: `status` of HTTP and its body. Fills in those of `rows` that
 * it tells of (there, cell), and marks the others as not there. `now` is what
 * windows are seen at. *ret_told if the reply says what the rows are: then they
 * need not be read. `why` has the server's own words. */
enum sl_dynamo_status sl_dynamo_reply_read(int status, struct sl_str body,
                                           struct sl_row *rows, unsigned count,
                                           sl_ns now, bool *ret_told,
                                           char why[SL_REPLY_WHY]);

/* One text attribute of an item that is asked for by GetItem: into `out`, cut
 * if it is longer. False if there is no such item, or none of that name. */
struct sl_dynamo_text {
    const char *name;
    char *out;
    size_t size;
    bool there;
};

/* GetItem's item: its text attributes. *ret_there says if there is an item. */
enum sl_dynamo_status sl_dynamo_texts(int status, struct sl_str body,
                                      struct sl_dynamo_text *texts,
                                      unsigned count, bool *ret_there,
                                      char why[SL_REPLY_WHY]);

/* ---- requests to one endpoint, signed, on one loop.
 *
 * Connections are kept by libcurl. A request that can't be sent for want of
 * keys fails at once. What the server's Date says of its clock is taken into
 * account from the next request on, in signatures and for whoever asks.
 */

struct sl_dynamo_http;

/* One request. It belongs to whoever asks. */
struct sl_dynamo_call {
    struct sl_http_fetch fetch;
    struct sl_buf body; /* to be sent: filled by who asks */
    struct sl_buf head; /* the headers' texts */
    const char *headers[8];
    struct sl_dynamo_http *client;
    sl_ns sent_at; /* by our wall clock */
    void (*done)(struct sl_dynamo_call *call);
    void *ctx;

    /* Until the next one: what came. Status 0: see fetch.why. */
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

/* No call is under way. NULL is allowed. */
void sl_dynamo_http_close(struct sl_dynamo_http *client);

void sl_dynamo_call_init(struct sl_dynamo_call *call,
                         struct sl_dynamo_http *client);
void sl_dynamo_call_done(struct sl_dynamo_call *call); /* cancels it, too */

/* Ask for `operation` ("UpdateItem") with call->body. done() is called once,
 * later; not if this fails: SLUICE_ESTORE without keys, SLUICE_ENOMEM. */
SL_MUST_USE int sl_dynamo_call_send(struct sl_dynamo_call *call,
                                    const char *operation, sl_ns timeout);

/* Give up without a word. */
void sl_dynamo_call_cancel(struct sl_dynamo_call *call);
bool sl_dynamo_call_is_open(const struct sl_dynamo_call *call);

/* Are there keys? */
bool sl_dynamo_http_has_keys(const struct sl_dynamo_http *client);

/* They were refused: get others. */
void sl_dynamo_http_doubt(struct sl_dynamo_http *client);

/* What to add to our wall time. */
sl_ns sl_dynamo_http_skew(const struct sl_dynamo_http *client);

/* ---- a take, the rows that it is about, and how it is judged.
 *
 * A sheet has its own copy of the take: it may outlive the one who asked, when
 * what was written too late is given back. Parts of the same row are one: their
 * costs add up. Judging is core's, from the cells that were read to those that
 * are to be written; whether nobody came between is for the write to say.
 *
 * The clocks of machines that share a table differ, and a take may be on its
 * way while others overtake it. A row that was written up to SL_TAKE_ROWS_LAG
 * ahead of `now` is no step of the clock: it is judged at its own time.
 * Otherwise two that take turns would refill a bucket by their difference each
 * time.
 *
 * Pure: no connection is known here.
 */

#define SL_TAKE_ROWS_LAG (2 * SL_S)

/* What is leased of a row with a take (see store/caches.h), and what is left of
 * the lease before. */
struct sl_row_lease {
    uint64_t want;
    uint64_t back; /* given back first... */
    sl_ns taken;   /* ...of what was taken then */
    uint64_t has;  /* out: judged to be there */
};

struct sl_take_rows {
    enum sl_take_op op;
    sl_ns now;
    unsigned count; /* of parts */
    struct sl_part parts[SL_PARTS];
    struct sl_limit limits[SL_PARTS];
    struct sl_period periods[SL_PARTS]; /* of calendars, when it was taken */
    bool orphaned; /* who asked was told: his calendars may be gone */
    bool is_rest;  /* of a lease: it may have been refilled since */
    unsigned slot; /* where this loop notes what it leases; set once */

    struct sl_row rows[SL_PARTS];
    unsigned row_count;
    unsigned row_of[SL_PARTS]; /* of each part */
    unsigned first[SL_PARTS];  /* of each row: its first part */
    uint64_t cost[SL_PARTS];   /* of each row */
    int beside[SL_PARTS];      /* of each row: the one that counts, too; -1 */
    struct sl_row_lease lease[SL_PARTS]; /* of each row */
    sl_ns at[SL_PARTS]; /* of each row: when it is judged, >= now */
    struct sl_buf names;
};

/* `names` is empty, with a ceiling and an allocator. SLUICE_ENOMEM. */
SL_MUST_USE int sl_take_rows_fill(struct sl_take_rows *take_rows,
                                  const struct sl_take *take, sl_ns now);

/* One that gives back the rest of a lease: `amount` of what was taken at
 * `taken`, of a limit whose calendar may be gone: `period` was it then. */
struct sl_lease_rest {
    struct sl_str name;
    struct sl_limit limit;
    struct sl_period period;
    uint64_t amount;
    sl_ns taken;
};
SL_MUST_USE int sl_take_rows_fill_rest(struct sl_take_rows *take_rows,
                                       const struct sl_lease_rest *rest,
                                       sl_ns now);

/* When a row is judged that says `cell`: now, or a little later. */
sl_ns sl_take_rows_time(const struct sl_limit *limit, struct sl_cell cell,
                        sl_ns now);

/* Judge by what the rows say: fills in the answers, and what is to be written
 * (row.changed, row.next). True if the set is allowed. */
bool sl_take_rows_judge(struct sl_take_rows *take_rows);

/* Rows that are to be written, and those that must not have changed. */
unsigned sl_take_rows_writes(const struct sl_take_rows *take_rows);
unsigned sl_take_rows_checks(const struct sl_take_rows *take_rows);

/* One fixed window, and a cost that may fit or goes back: it can be counted
 * without a look. */
bool sl_take_rows_is_count(const struct sl_take_rows *take_rows);

/* What such a count adds, with its lease. */
struct sl_row_count sl_take_rows_count(struct sl_take_rows *take_rows);

/* When a lease of row `k` must be over, by the clock of `now`: what is taken in
 * advance counts in the window, or the interval, that it was taken in. */
sl_ns sl_take_rows_lease_end(const struct sl_take_rows *take_rows, unsigned k);

/* Make of a take that has succeeded one that gives it back at `now`. */
void sl_take_rows_invert(struct sl_take_rows *take_rows, sl_ns now);

/* Hand the answers to who asked. */
void sl_take_rows_answer(const struct sl_take_rows *take_rows,
                         struct sl_take *take);

/* ---- one client and its ops ---- */

struct sl_dynamo_op {
    struct sl_remote_op base; /* first */
    struct sl_dynamo_call call;
    struct sl_take_rows take_rows;
    struct sl_timer *retry_timer; /* until its phase is sent again */
    enum {
        SL_DYNAMO_OP_READS,
        SL_DYNAMO_OP_COUNTS,
        SL_DYNAMO_OP_WRITES,
        SL_DYNAMO_OP_NOTES, /* from here on: in journal.c */
        SL_DYNAMO_OP_PLEDGES,
        SL_DYNAMO_OP_STEPS,
        SL_DYNAMO_OP_UNDOES,
        SL_DYNAMO_OP_REVIEWS,
        SL_DYNAMO_OP_CLEARS,
        SL_DYNAMO_OP_ENDS,
    } phase;
    unsigned written; /* WRITES one row: which */
    /* A journaled write: which rows, and which of them is next. Its journal is
     * in the table while `pledged`, since this monotonic time. */
    bool may_split; /* it may be journaled */
    bool pledged;
    sl_ns pledged_at;
    char set[SL_STORE_IDENTITY + 1]; /* its id */
    uint8_t order[SL_PARTS];
    unsigned steps, step;
    bool allowed;
    unsigned again, paused; /* retries so far: conflicts, pauses */
    bool skewed;            /* sent again once because of the clock */
};

struct sl_dynamo_identity;
struct sl_recovery;

struct sl_dynamo_client {
    struct sl_remote_client base; /* first */
    const struct sl_dynamo_options *options;
    _Atomic bool *has_journals; /* the table says that there may be some */
    struct sl_dynamo_http *http;
    struct sl_dynamo_identity *identity;
    struct sl_recovery *recovery; /* NULL: another client runs it */
    unsigned lease_slot;          /* the attribute for this loop's leases */
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

/* The wall clock, as the server has it. */
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

/* Ends an op of a client that closes. */
void sl_dynamo_op_abandon(struct sl_dynamo_op *op);

/* Frees it; the leases that it requested were not taken. */
void sl_dynamo_op_free(struct sl_dynamo_op *op);

/* Sends the request of its phase. */
void sl_dynamo_op_go_on(struct sl_dynamo_op *op);

/* Everything is written: answers the take. */
void sl_dynamo_op_finish(struct sl_dynamo_op *op);

/* Sends its phase again, a bounded number of times. `known`: the rows need not
 * be read again. */
void sl_dynamo_op_again(struct sl_dynamo_op *op, bool known);

/* In steps.c: sets where there are no transactions. Begin: all rows that
 * changed are taken from (false without random bytes); is it one of them; which
 * row is asked for, or NULL; is this the step that decides; what is asked. */
SL_MUST_USE bool sl_journal_begin(struct sl_dynamo_op *op);
bool sl_journal_is_one(const struct sl_dynamo_op *op);
struct sl_row *sl_journal_row(struct sl_dynamo_op *op);
bool sl_journal_is_last(const struct sl_dynamo_op *op);
SL_MUST_USE int sl_journal_put(struct sl_dynamo_op *op,
                               const char **ret_operation);
void sl_journal_on_answer(struct sl_dynamo_op *op);
void sl_journal_on_unmet(struct sl_dynamo_op *op);
/* Who asked was told: take the marks away, and the pledge. */
void sl_journal_clear(struct sl_dynamo_op *op);
/* At the deadline: does it go on without its take? And then, before it asks:
 * does it turn round? */
bool sl_journal_give_up(struct sl_dynamo_op *op);
bool sl_journal_invert(struct sl_dynamo_op *op);

/* In identity.c: the secret is asked for until it was seen, and while the
 * endpoint does not answer. */
SL_MUST_USE int sl_dynamo_identity_open(struct sl_dynamo_client *client,
                                        struct sl_dynamo_identity **ret);
void sl_dynamo_identity_close(
    struct sl_dynamo_identity *identity); /* NULL is allowed */
void sl_dynamo_identity_go(struct sl_dynamo_identity *identity); /* soon */
/* UpdateItem: note beside it that sets are taken in steps here. */
SL_MUST_USE int sl_dynamo_identity_put_note(struct sl_buf *out,
                                            struct sl_str table);

/* In heal.c: sets that were left half taken are undone, by one client. */
SL_MUST_USE int sl_recovery_open(struct sl_dynamo_client *client,
                                 struct sl_recovery **ret);
void sl_recovery_close(struct sl_recovery *recovery); /* NULL is allowed */
void sl_recovery_go(struct sl_recovery *recovery);    /* soon */

/* ---- what is meant by a set that is taken in steps, so that a crash
 * between two of them can be healed by others.
 *
 *   userId           dataType        at       rows                       ttl
 *   sluice:pledges   SET#3f0c...     ...ms    kind, numbers, cost, name  ...s
 *
 * It is written before the first step and removed after the last. Each step
 * puts the set's mark into its row, in the same write that takes from it
 * (`sets`, a set of texts). So whoever finds a pledge knows of each row
 * whether it was taken, and each row is given back once at most: the write that
 * gives back takes the mark away.
 *
 * The last row decides. If it has the mark all were taken, and the marks are
 * taken away from the first row to the last; if not, the set is to be undone.
 * So a reset leaves marks where they are, and a row that never expires is last
 * if there is one. Of others one that is gone after an hour may have expired:
 * then nobody knows, and the set stays taken.
 *
 * Pure: no connection is known here.
 */

#define SL_JOURNAL_PLEDGE_ID 32 /* hex digits */

/* One row of a set, with as much of its limit as giving back needs. */
struct sl_journal_pledge_row {
    struct sl_str name; /* as the table has it */
    struct sl_limit limit;
    struct sl_period period; /* of a calendar, when it was taken */
    uint64_t shape;          /* which a calendar that is gone had a part in */
    uint64_t cost;
    sl_ns taken;
};

struct sl_journal_pledge {
    char id[SL_JOURNAL_PLEDGE_ID + 1];
    sl_ns at; /* when it was put */
    unsigned count;
    struct sl_journal_pledge_row rows[SL_PARTS];
    struct sl_buf names;
};

/* The row itself, that the set `id` marks. `id` is borrowed, and the name. */
void sl_journal_pledge_row_of(const struct sl_journal_pledge_row *from,
                              const char *id, struct sl_row *ret);

/* What a row that says `cell` says when the set is taken back at `now`. A
 * bucket gets back no more than what was poured since leaves: what it has
 * refilled may have been spent by others. */
struct sl_cell sl_journal_pledge_undo(const struct sl_journal_pledge_row *row,
                                      struct sl_cell cell, sl_ns now);

/* Was all of it taken, by what was found of the last row at `now`? */
bool sl_journal_pledge_was_taken(const struct sl_journal_pledge *pledge,
                                 const struct sl_row *last, sl_ns now);

/* A row as a text, appended to `out`. */
SL_MUST_USE int sl_journal_pledge_add(struct sl_buf *out,
                                      const struct sl_journal_pledge_row *row);

/* ---- requests ---- */

/* PutItem: `rows` are the texts of all rows, `at` is by the wall clock. */
SL_MUST_USE int sl_journal_pledge_put(struct sl_buf *out, struct sl_str table,
                                      const char *id, sl_ns at,
                                      struct sl_str rows);
/* DeleteItem. */
SL_MUST_USE int sl_journal_pledge_put_delete(struct sl_buf *out,
                                             struct sl_str table,
                                             const char *id);
/* Query: a page of them, behind `after`; "": from the first one on. */
SL_MUST_USE int sl_journal_pledge_put_query(struct sl_buf *out,
                                            struct sl_str table,
                                            struct sl_str after);

/* Read what that answered: the first one that was put before `before`, into
 * *ret, whose buffer has an allocator. False if there is none; what is none of
 * ours is passed over. `after` is then where to go on: behind that one, or the
 * page; "" if there are no more. */
SL_MUST_USE bool sl_journal_pledge_read(struct sl_str body, sl_ns before,
                                        struct sl_journal_pledge *ret,
                                        struct sl_buf *after);

#endif
