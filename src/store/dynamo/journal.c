/* journal.c -- a set taken in steps, where the endpoint has no transactions.
 *
 *   decide --> NOTES --> PLEDGES --> STEPS, a row each --> told --> CLEARS
 *     ^         once                   |                              |
 *     |                                | somebody came between,       v
 *     |                                | or it is too late          ENDS
 *     |                                v                              ^
 *     |                 UNDOES <--> REVIEWS ------- all undone -------+
 *     +------------------------------------------- if somebody waits -+
 *
 * Each try is a set of its own, with a new name: what was said of the last one,
 * or comes late of it, says nothing of this one.
 *
 * What is meant is written first (pledge.h); each step puts the set's mark into
 * its row. From the last step on it is taken, whoever dies: then the marks go,
 * the last row's last, and then the pledge. Whatever can't be finished here is
 * healed by whoever finds the pledge (heal.c). That one waits for long enough
 * that nobody is still at work: so no step is begun LIFE after the pledge.
 *
 * The last of those that are undone is the first row: as long as the last row
 * has its mark the set counts as taken.
 */
#include "store/dynamo/dynamo_int.h"

#define LIFE        (10 * SL_S)
#define PLEDGE_MOST ((size_t)64 << 10)

static struct sl_row *row_at(struct sl_dynamo_op *op, unsigned step)
{
    return &op->take_rows.rows[op->order[step]];
}

static struct sl_row *row_of(struct sl_dynamo_op *op)
{
    return row_at(op, op->step);
}

bool sl_journal_is_one(const struct sl_dynamo_op *op)
{
    return op->phase > SL_DYNAMO_OP_WRITES;
}

struct sl_row *sl_journal_row(struct sl_dynamo_op *op)
{
    bool has =
        op->phase >= SL_DYNAMO_OP_STEPS && op->phase <= SL_DYNAMO_OP_REVIEWS;

    return has ? row_of(op) : NULL;
}

bool sl_journal_is_last(const struct sl_dynamo_op *op)
{
    return op->phase == SL_DYNAMO_OP_STEPS && op->step + 1 == op->steps;
}

/* ---- what is asked ---- */

static void describe(const struct sl_dynamo_op *op, unsigned step,
                     struct sl_journal_pledge_row *ret)
{
    const struct sl_take_rows *take_rows = &op->take_rows;
    unsigned k = op->order[step], i = take_rows->first[k];

    *ret = (struct sl_journal_pledge_row){
        .name = take_rows->rows[k].name,
        .limit = take_rows->limits[i],
        .period = take_rows->periods[i],
        .shape = sl_limit_shape(&take_rows->limits[i]),
        .cost = take_rows->cost[k],
        .taken = take_rows->at[k]};
}

static int put_pledge(struct sl_dynamo_op *op)
{
    struct sl_dynamo_client *client = sl_dynamo_op_client(op);
    struct sl_buf rows;
    int err = 0;

    sl_buf_init(&rows, PLEDGE_MOST, client->base.options->alloc);
    for (unsigned i = 0; i < op->steps && !err; i++) {
        struct sl_journal_pledge_row row;

        describe(op, i, &row);
        err = sl_journal_pledge_add(&rows, &row);
    }
    if (!err)
        err = sl_journal_pledge_put(
            &op->call.body, client->options->where.table, op->set,
            sl_dynamo_client_wall(client), sl_buf_str(&rows));
    sl_buf_done(&rows);
    return err;
}

int sl_journal_put(struct sl_dynamo_op *op, const char **ret_operation)
{
    struct sl_str table = sl_dynamo_op_client(op)->options->where.table;
    struct sl_buf *out = &op->call.body;

    *ret_operation = "UpdateItem";
    switch (op->phase) {
    case SL_DYNAMO_OP_NOTES:
        return sl_dynamo_identity_put_note(out, table);
    case SL_DYNAMO_OP_PLEDGES:
        *ret_operation = "PutItem";
        return put_pledge(op);
    case SL_DYNAMO_OP_REVIEWS:
        *ret_operation = "GetItem";
        return sl_row_put_get(out, table, row_of(op));
    case SL_DYNAMO_OP_CLEARS:
        return sl_row_put_unmark(out, table, row_of(op));
    case SL_DYNAMO_OP_ENDS:
        *ret_operation = "DeleteItem";
        return sl_journal_pledge_put_delete(out, table, op->set);
    default:
        return sl_row_put_swap(out, table, row_of(op));
    }
}

/* ---- on its way ---- */

static void go(struct sl_dynamo_op *op, unsigned phase)
{
    op->phase = phase;
    op->paused = 0;
    sl_dynamo_op_go_on(op);
}

static void add_steps(struct sl_dynamo_op *op, bool expire)
{
    const struct sl_take_rows *take_rows = &op->take_rows;

    for (unsigned k = 0; k < take_rows->row_count; k++)
        if (take_rows->rows[k].changed &&
            (take_rows->rows[k].ttl > 0) == expire)
            op->order[op->steps++] = (uint8_t)k;
}

/* Those that never expire come last, since the last one decides. */
static void put_in_order(struct sl_dynamo_op *op)
{
    op->steps = 0;
    add_steps(op, true);
    add_steps(op, false);
}

bool sl_journal_begin(struct sl_dynamo_op *op)
{
    struct sl_dynamo_client *client = sl_dynamo_op_client(op);

    put_in_order(op);
    if (sl_store_identity_fresh(op->set))
        return false;
    for (unsigned i = 0; i < op->steps; i++) {
        row_at(op, i)->set = op->set;
        row_at(op, i)->unmarks = false;
    }
    op->step = 0;
    go(op, atomic_load(client->has_journals) ? SL_DYNAMO_OP_PLEDGES
                                             : SL_DYNAMO_OP_NOTES);
    return true;
}

/* The steps below `op->step` were taken: the last of them goes first. */
static void undo(struct sl_dynamo_op *op)
{
    if (op->step > 0) {
        op->step--;
        go(op, SL_DYNAMO_OP_REVIEWS);
        return;
    }
    /* Whoever was refused by what it had taken may pass. */
    sl_denial_forgets_add(&sl_dynamo_op_client(op)->base.identity->forgets,
                          &op->base.denial);
    if (!op->base.take)
        SL_REMOTE_COUNT(op->base.client, returned);
    go(op, SL_DYNAMO_OP_ENDS);
}

/* The pledge is gone: if somebody waits it was undone, and is tried again. */
static void on_end(struct sl_dynamo_op *op)
{
    if (!op->base.take) {
        sl_dynamo_op_free(op);
        return;
    }
    op->pledged = false;
    op->phase = SL_DYNAMO_OP_READS;
    sl_dynamo_op_again(op, false);
}

static bool is_wanted(const struct sl_dynamo_op *op)
{
    return (op->base.take || op->base.keep_taken) &&
           sl_loop_mono(sl_dynamo_op_client(op)->base.loop) - op->pledged_at <
               LIFE;
}

static void on_step(struct sl_dynamo_op *op)
{
    op->step++;
    if (!is_wanted(op))
        undo(op);
    else if (op->step < op->steps)
        go(op, SL_DYNAMO_OP_STEPS);
    else if (op->base.take)
        sl_dynamo_op_finish(op); /* which comes back, to sl_journal_clear() */
    else
        sl_journal_clear(op);
}

/* The row as it is now: without its mark there is nothing to be undone. */
static void on_review(struct sl_dynamo_op *op)
{
    struct sl_row *row = row_of(op);
    struct sl_journal_pledge_row taken;

    if (!row->marked) {
        undo(op);
        return;
    }
    describe(op, op->step, &taken);
    row->next = sl_journal_pledge_undo(
        &taken, row->cell,
        sl_dynamo_op_client(op)->base.options->own_now
            ? taken.taken
            : sl_dynamo_client_wall(sl_dynamo_op_client(op)));
    row->unmarks = true;
    if (!row->is_window)
        row->ttl = 0; /* it stays: others may have taken more meanwhile */
    go(op, SL_DYNAMO_OP_UNDOES);
}

static void on_cleared(struct sl_dynamo_op *op)
{
    if (++op->step < op->steps)
        go(op, SL_DYNAMO_OP_CLEARS);
    else
        go(op, SL_DYNAMO_OP_ENDS);
}

void sl_journal_clear(struct sl_dynamo_op *op)
{
    op->step = 0;
    go(op, SL_DYNAMO_OP_CLEARS);
}

void sl_journal_on_answer(struct sl_dynamo_op *op)
{
    switch (op->phase) {
    case SL_DYNAMO_OP_NOTES:
        atomic_store(sl_dynamo_op_client(op)->has_journals, true);
        go(op, SL_DYNAMO_OP_PLEDGES);
        break;
    case SL_DYNAMO_OP_PLEDGES:
        op->pledged = true;
        op->pledged_at = sl_loop_mono(sl_dynamo_op_client(op)->base.loop);
        go(op, is_wanted(op) ? SL_DYNAMO_OP_STEPS : SL_DYNAMO_OP_ENDS);
        break;
    case SL_DYNAMO_OP_STEPS:
        on_step(op);
        break;
    case SL_DYNAMO_OP_REVIEWS:
        on_review(op);
        break;
    case SL_DYNAMO_OP_UNDOES:
        undo(op);
        break;
    case SL_DYNAMO_OP_CLEARS:
        on_cleared(op);
        break;
    default:
        on_end(op);
        break;
    }
}

/* A condition was not met, and nothing has happened. */
void sl_journal_on_unmet(struct sl_dynamo_op *op)
{
    if (op->phase == SL_DYNAMO_OP_STEPS) {
        undo(op);
    } else if (op->phase == SL_DYNAMO_OP_CLEARS) {
        on_cleared(op);
    } else { /* UNDOES: somebody came between, or took it back for us */
        op->phase = SL_DYNAMO_OP_REVIEWS;
        sl_dynamo_op_again(op, false);
    }
}

bool sl_journal_give_up(struct sl_dynamo_op *op)
{
    bool idle = !sl_dynamo_call_is_open(&op->call);

    if (op->phase == SL_DYNAMO_OP_NOTES)
        return false;
    if (idle && op->phase == SL_DYNAMO_OP_PLEDGES) { /* it may be there */
        op->pledged = true;
        op->phase = SL_DYNAMO_OP_ENDS;
    }
    if (idle && op->phase == SL_DYNAMO_OP_STEPS)
        sl_timer_start(op->retry_timer, 0); /* and turns round */
    return true;
}

bool sl_journal_invert(struct sl_dynamo_op *op)
{
    if (op->phase != SL_DYNAMO_OP_STEPS || is_wanted(op))
        return false;
    if (op->step > 0)
        undo(op);
    else
        go(op, SL_DYNAMO_OP_ENDS);
    return true;
}
