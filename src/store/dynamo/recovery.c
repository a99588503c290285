/* recovery.c -- sets in steps that nobody will finish: undone, or cleared.
 *
 *   QUERIES --> an old pledge --> JUDGES, by its last row
 *      ^ page by page               | has its mark        | has not
 *      |                            v                     v
 *      |                          CLEARS, a row each    REVIEWS <--> UNDOES
 *      |                            |                     |
 *      +---------- ENDS <-----------+---------------------+
 *
 * Every daemon looks, one client of each; two at the same pledge do no harm:
 * what is given back takes its mark away in the same write, and marks are taken
 * away from the first row to the last.
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
    struct sl_dynamo_client *client;
    struct sl_timer *timer;
    enum { QUERIES, JUDGES, CLEARS, REVIEWS, UNDOES, ENDS } phase;
    struct sl_buf after; /* where the next page begins; "": the first */
    struct sl_journal_pledge pledge;
    struct sl_row row; /* of the pledge, at... */
    unsigned at;
    unsigned again;
    bool undone; /* something was */
};

static void rest(struct sl_recovery *recovery)
{
    sl_timer_start(recovery->timer,
                   sl_jitter_span(&recovery->client->jitter, EVERY));
}

/* ---- questions ---- */

static int put_body(struct sl_recovery *recovery, const char **ret_operation)
{
    struct sl_str table = recovery->client->options->where.table;
    struct sl_buf *out = &recovery->call.body;

    sl_buf_clear(out);
    *ret_operation = "UpdateItem";
    switch (recovery->phase) {
    case QUERIES:
        *ret_operation = "Query";
        return sl_journal_pledge_put_query(out, table,
                                           sl_buf_str(&recovery->after));
    case JUDGES:
    case REVIEWS:
        *ret_operation = "GetItem";
        return sl_row_put_get(out, table, &recovery->row);
    case CLEARS:
        return sl_row_put_unmark(out, table, &recovery->row);
    case UNDOES:
        return sl_row_put_swap(out, table, &recovery->row);
    case ENDS:
        break;
    }
    *ret_operation = "DeleteItem";
    return sl_journal_pledge_put_delete(out, table, recovery->pledge.id);
}

static void ask(struct sl_recovery *recovery, unsigned phase)
{
    const char *operation = "";
    int err;

    recovery->phase = phase;
    err = put_body(recovery, &operation);
    if (!err)
        err = sl_dynamo_call_send(&recovery->call, operation, PATIENCE);
    if (err)
        rest(recovery); /* for want of keys or memory */
}

/* Row `at` of the pledge, by `phase`; behind the last one it ends. */
static void ask_at(struct sl_recovery *recovery, unsigned at, unsigned phase)
{
    recovery->at = at;
    if (at == recovery->pledge.count) {
        ask(recovery, ENDS);
        return;
    }
    sl_journal_pledge_row_of(&recovery->pledge.rows[at], recovery->pledge.id,
                             &recovery->row);
    ask(recovery, phase);
}

/* ---- answers ---- */

static void on_page(struct sl_recovery *recovery)
{
    bool found = sl_journal_pledge_read(
        recovery->call.reply, sl_dynamo_client_wall(recovery->client) - OLD,
        &recovery->pledge, &recovery->after);

    if (found) {
        recovery->undone = false;
        recovery->again = 0;
        ask_at(recovery, recovery->pledge.count - 1, JUDGES);
    } else if (recovery->after.len > 0) {
        ask(recovery, QUERIES);
    } else {
        rest(recovery);
    }
}

/* The row was read, and is to be undone if it has the mark. */
static void review(struct sl_recovery *recovery)
{
    struct sl_row *row = &recovery->row;

    if (!row->marked) {
        ask_at(recovery, recovery->at + 1, REVIEWS);
        return;
    }
    row->next =
        sl_journal_pledge_undo(&recovery->pledge.rows[recovery->at], row->cell,
                               sl_dynamo_client_wall(recovery->client));
    row->unmarks = true;
    ask(recovery, UNDOES);
}

static void on_end(struct sl_recovery *recovery)
{
    if (recovery->undone) {
        SL_REMOTE_COUNT(&recovery->client->base, returned);
        sl_store_log_write(&recovery->client->base.log, SL_STORE_EVENT_TROUBLE,
                           "a daemon stopped in the middle of a take from "
                           "several limits; the take was refunded");
    }
    ask(recovery, QUERIES);
}

static void on_answered(struct sl_recovery *recovery)
{
    switch (recovery->phase) {
    case QUERIES:
        on_page(recovery);
        break;
    case JUDGES:
        ask_at(
            recovery, 0,
            sl_journal_pledge_was_taken(&recovery->pledge, &recovery->row,
                                        sl_dynamo_client_wall(recovery->client))
                ? CLEARS
                : REVIEWS);
        break;
    case REVIEWS:
        review(recovery);
        break;
    case UNDOES:
        recovery->undone = true;
        ask_at(recovery, recovery->at + 1, REVIEWS);
        break;
    case CLEARS:
        ask_at(recovery, recovery->at + 1, CLEARS);
        break;
    case ENDS:
        on_end(recovery);
        break;
    }
}

/* Whoever may not look, or not write, is to know it. */
static void give_up(struct sl_recovery *recovery, enum sl_dynamo_status status,
                    const char *why)
{
    if (recovery->phase == QUERIES)
        sl_buf_clear(&recovery->after);
    sl_dynamo_client_error(recovery->client, status, why);
    rest(recovery);
}

static void on_done(struct sl_dynamo_call *call)
{
    struct sl_recovery *recovery = (struct sl_recovery *)call;
    bool reads = recovery->phase == JUDGES || recovery->phase == REVIEWS;
    char why[SL_REPLY_WHY];
    bool told;
    enum sl_dynamo_status status =
        call->status == 0
            ? SL_UNSENT
            : sl_dynamo_reply_read(
                  call->status, call->reply, &recovery->row, reads,
                  sl_dynamo_client_wall(recovery->client), &told, why);

    if (status == SL_DYNAMO_ANSWERED)
        on_answered(recovery);
    else if (status == SL_UNMET && recovery->phase == CLEARS)
        ask_at(recovery, recovery->at + 1, CLEARS); /* another did */
    else if (status == SL_UNMET && recovery->again++ < AGAIN_MOST)
        ask(recovery, REVIEWS);
    else
        give_up(recovery, status, call->status ? why : call->fetch.why);
}

/* ---- life ---- */

static void on_timer(void *ctx)
{
    struct sl_recovery *recovery = ctx;

    if (sl_dynamo_call_is_open(&recovery->call))
        return;
    if (atomic_load(recovery->client->has_journals))
        ask(recovery, QUERIES);
    else
        rest(recovery);
}

void sl_recovery_go(struct sl_recovery *recovery)
{
    sl_timer_start(recovery->timer, 0);
}

int sl_recovery_open(struct sl_dynamo_client *client, struct sl_recovery **ret)
{
    struct sl_recovery *recovery =
        sl_alloc_new(client->base.options->alloc, sizeof(*recovery));
    int err;

    if (!recovery)
        return SLUICE_ENOMEM;
    memset(recovery, 0, sizeof(*recovery));
    recovery->client = client;
    sl_dynamo_call_init(&recovery->call, client->http);
    recovery->call.done = on_done;
    sl_buf_init(&recovery->pledge.names, NAMES_MOST,
                client->base.options->alloc);
    sl_buf_init(&recovery->after, KEY_MOST, client->base.options->alloc);
    err = sl_timer_new(client->base.loop, on_timer, recovery, &recovery->timer);
    if (err) {
        sl_recovery_close(recovery);
        return err;
    }
    rest(recovery);
    *ret = recovery;
    return 0;
}

void sl_recovery_close(struct sl_recovery *recovery)
{
    if (!recovery)
        return;
    sl_dynamo_call_done(&recovery->call);
    sl_timer_free(recovery->timer);
    sl_buf_done(&recovery->pledge.names);
    sl_buf_done(&recovery->after);
    sl_alloc_free(recovery->client->base.options->alloc, recovery,
                  sizeof(*recovery));
}
