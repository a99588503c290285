/* recovery.c -- sets in steps that nobody will finish: undone, or cleared.
 *
 *   QUERIES --> an old pledge --> JUDGES, by its last row
 *      ^ page by page               | has its mark        | has not
 *      |                            v                     v
 *      |                          CLEARS, a row each    REVIEWS <--> UNDOES
 *      |                            |                     |
 *      +---------- ENDS <-----------+---------------------+
 *
 * Every daemon looks, one seat of each; two at the same pledge do no harm: what
 * is given back takes its mark away in the same write, and marks are taken away
 * from the first row to the last.
 *
 * One that can't be healed now is passed over until the next round: those
 * behind it need not wait.
 *
 * OLD is longer than anybody is at work on a set: LIFE of steps.c, and a call's
 * patience.
 */
#include <string.h>

#include "store/dynamo/dynamo_int.h"

#define OLD        (30 * SL_S)
#define EVERY      (5 * SL_S)
#define PATIENCE   (5 * SL_S)
#define NAMES_MOST ((size_t)64 << 10)
#define KEY_MOST   ((size_t)4 << 10)
#define AGAIN_MOST 64

struct sl_recovery {
    struct sl_dynamo_call call; /* first */
    struct sl_dynamo_client *seat;
    struct sl_timer *timer;
    enum { QUERIES, JUDGES, CLEARS, REVIEWS, UNDOES, ENDS } phase;
    struct sl_buf after; /* where the next page begins; "": the first */
    struct sl_journal_pledge pledge;
    struct sl_row row; /* of the pledge, at... */
    unsigned at;
    unsigned again;
    bool undone; /* something was */
};

static void rest(struct sl_recovery *healer)
{
    sl_timer_start(healer->timer, sl_jitter_span(&healer->seat->dice, EVERY));
}

/* ---- questions ---- */

static int put_body(struct sl_recovery *healer, const char **ret_operation)
{
    struct sl_str table = healer->seat->options.where.table;
    struct sl_buf *out = &healer->call.body;

    sl_buf_clear(out);
    *ret_operation = "UpdateItem";
    switch (healer->phase) {
    case QUERIES:
        *ret_operation = "Query";
        return sl_journal_pledge_put_query(out, table,
                                           sl_buf_str(&healer->after));
    case JUDGES:
    case REVIEWS:
        *ret_operation = "GetItem";
        return sl_row_put_get(out, table, &healer->row);
    case CLEARS:
        return sl_row_put_unmark(out, table, &healer->row);
    case UNDOES:
        return sl_row_put_swap(out, table, &healer->row);
    case ENDS:
        break;
    }
    *ret_operation = "DeleteItem";
    return sl_journal_pledge_put_delete(out, table, healer->pledge.id);
}

static void ask(struct sl_recovery *healer, unsigned phase)
{
    const char *operation = "";
    int err;

    healer->phase = phase;
    err = put_body(healer, &operation);
    if (!err)
        err = sl_dynamo_call_send(&healer->call, operation, PATIENCE);
    if (err)
        rest(healer); /* for want of keys or memory */
}

/* Row `at` of the pledge, by `phase`; behind the last one it ends. */
static void ask_at(struct sl_recovery *healer, unsigned at, unsigned phase)
{
    healer->at = at;
    if (at == healer->pledge.count) {
        ask(healer, ENDS);
        return;
    }
    sl_journal_pledge_row_of(&healer->pledge.rows[at], healer->pledge.id,
                             &healer->row);
    ask(healer, phase);
}

/* ---- answers ---- */

static void on_page(struct sl_recovery *healer)
{
    bool found = sl_journal_pledge_read(
        healer->call.reply, sl_dynamo_client_wall(healer->seat) - OLD,
        &healer->pledge, &healer->after);

    if (found) {
        healer->undone = false;
        healer->again = 0;
        ask_at(healer, healer->pledge.count - 1, JUDGES);
    } else if (healer->after.len > 0) {
        ask(healer, QUERIES);
    } else {
        rest(healer);
    }
}

/* The row was read, and is to be undone if it has the mark. */
static void review(struct sl_recovery *healer)
{
    struct sl_row *row = &healer->row;

    if (!row->marked) {
        ask_at(healer, healer->at + 1, REVIEWS);
        return;
    }
    row->next =
        sl_journal_pledge_undo(&healer->pledge.rows[healer->at], row->cell,
                               sl_dynamo_client_wall(healer->seat));
    row->unmarks = true;
    ask(healer, UNDOES);
}

static void on_end(struct sl_recovery *healer)
{
    if (healer->undone) {
        SL_DYNAMO_ADD(healer->seat->counts.returned);
        sl_store_log_tell(
            &healer->seat->herald, SL_STORE_EVENT_TROUBLE,
            "a daemon stopped in the middle of a take from several "
            "limits; the take was refunded");
    }
    ask(healer, QUERIES);
}

static void on_answered(struct sl_recovery *healer)
{
    switch (healer->phase) {
    case QUERIES:
        on_page(healer);
        break;
    case JUDGES:
        ask_at(healer, 0,
               sl_journal_pledge_was_taken(&healer->pledge, &healer->row,
                                           sl_dynamo_client_wall(healer->seat))
                   ? CLEARS
                   : REVIEWS);
        break;
    case REVIEWS:
        review(healer);
        break;
    case UNDOES:
        healer->undone = true;
        ask_at(healer, healer->at + 1, REVIEWS);
        break;
    case CLEARS:
        ask_at(healer, healer->at + 1, CLEARS);
        break;
    case ENDS:
        on_end(healer);
        break;
    }
}

/* Whoever may not look, or not write, is to know it. */
static void give_up(struct sl_recovery *healer, enum sl_dynamo_status answered,
                    const char *why)
{
    if (healer->phase == QUERIES)
        sl_buf_clear(&healer->after);
    sl_dynamo_client_trouble(healer->seat, answered, why);
    rest(healer);
}

static void on_done(struct sl_dynamo_call *call)
{
    struct sl_recovery *healer = (struct sl_recovery *)call;
    bool reads = healer->phase == JUDGES || healer->phase == REVIEWS;
    char why[SL_REPLY_WHY];
    bool told;
    enum sl_dynamo_status answered =
        call->status == 0
            ? SL_UNSENT
            : sl_dynamo_reply_read(call->status, call->reply, &healer->row,
                                   reads, sl_dynamo_client_wall(healer->seat),
                                   &told, why);

    if (answered == SL_DYNAMO_ANSWERED)
        on_answered(healer);
    else if (answered == SL_UNMET && healer->phase == CLEARS)
        ask_at(healer, healer->at + 1, CLEARS); /* another did */
    else if (answered == SL_UNMET && healer->again++ < AGAIN_MOST)
        ask(healer, REVIEWS);
    else
        give_up(healer, answered, call->status ? why : call->fetch.why);
}

/* ---- life ---- */

static void on_timer(void *ctx)
{
    struct sl_recovery *healer = ctx;

    if (sl_dynamo_call_is_open(&healer->call))
        return;
    if (atomic_load(healer->seat->in_notes))
        ask(healer, QUERIES);
    else
        rest(healer);
}

void sl_recovery_go(struct sl_recovery *healer)
{
    sl_timer_start(healer->timer, 0);
}

int sl_recovery_open(struct sl_dynamo_client *seat, struct sl_recovery **ret)
{
    struct sl_recovery *healer =
        sl_alloc_new(seat->options.alloc, sizeof(*healer));
    int err;

    if (!healer)
        return SLUICE_ENOMEM;
    memset(healer, 0, sizeof(*healer));
    healer->seat = seat;
    sl_dynamo_call_init(&healer->call, seat->client);
    healer->call.done = on_done;
    sl_buf_init(&healer->pledge.names, NAMES_MOST, seat->options.alloc);
    sl_buf_init(&healer->after, KEY_MOST, seat->options.alloc);
    err = sl_timer_new(seat->loop, on_timer, healer, &healer->timer);
    if (err) {
        sl_recovery_close(healer);
        return err;
    }
    rest(healer);
    *ret = healer;
    return 0;
}

void sl_recovery_close(struct sl_recovery *healer)
{
    if (!healer)
        return;
    sl_dynamo_call_done(&healer->call);
    sl_timer_free(healer->timer);
    sl_buf_done(&healer->pledge.names);
    sl_buf_done(&healer->after);
    sl_alloc_free(healer->seat->options.alloc, healer, sizeof(*healer));
}
