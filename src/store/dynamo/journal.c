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

static struct sl_row *row_at(struct sl_dynamo_op *trip, unsigned step)
{
    return &trip->sheet.rows[trip->order[step]];
}

static struct sl_row *row_of(struct sl_dynamo_op *trip)
{
    return row_at(trip, trip->step);
}

bool sl_journal_is_one(const struct sl_dynamo_op *trip)
{
    return trip->phase > SL_DYNAMO_OP_WRITES;
}

struct sl_row *sl_journal_row(struct sl_dynamo_op *trip)
{
    bool has = trip->phase >= SL_DYNAMO_OP_STEPS &&
               trip->phase <= SL_DYNAMO_OP_REVIEWS;

    return has ? row_of(trip) : NULL;
}

bool sl_journal_is_last(const struct sl_dynamo_op *trip)
{
    return trip->phase == SL_DYNAMO_OP_STEPS && trip->step + 1 == trip->steps;
}

/* ---- what is asked ---- */

static void describe(const struct sl_dynamo_op *trip, unsigned step,
                     struct sl_journal_pledge_row *ret)
{
    const struct sl_take_rows *sheet = &trip->sheet;
    unsigned k = trip->order[step], i = sheet->first[k];

    *ret = (struct sl_journal_pledge_row){.name = sheet->rows[k].name,
                                          .limit = sheet->limits[i],
                                          .period = sheet->periods[i],
                                          .shape =
                                              sl_limit_shape(&sheet->limits[i]),
                                          .cost = sheet->cost[k],
                                          .taken = sheet->at[k]};
}

static int put_pledge(struct sl_dynamo_op *trip)
{
    struct sl_dynamo_client *seat = trip->seat;
    struct sl_buf rows;
    int err = 0;

    sl_buf_init(&rows, PLEDGE_MOST, seat->options.alloc);
    for (unsigned i = 0; i < trip->steps && !err; i++) {
        struct sl_journal_pledge_row row;

        describe(trip, i, &row);
        err = sl_journal_pledge_add(&rows, &row);
    }
    if (!err)
        err = sl_journal_pledge_put(&trip->call.body, seat->options.where.table,
                                    trip->set, sl_dynamo_client_wall(seat),
                                    sl_buf_str(&rows));
    sl_buf_done(&rows);
    return err;
}

int sl_journal_put(struct sl_dynamo_op *trip, const char **ret_operation)
{
    struct sl_str table = trip->seat->options.where.table;
    struct sl_buf *out = &trip->call.body;

    *ret_operation = "UpdateItem";
    switch (trip->phase) {
    case SL_DYNAMO_OP_NOTES:
        return sl_dynamo_identity_put_note(out, table);
    case SL_DYNAMO_OP_PLEDGES:
        *ret_operation = "PutItem";
        return put_pledge(trip);
    case SL_DYNAMO_OP_REVIEWS:
        *ret_operation = "GetItem";
        return sl_row_put_get(out, table, row_of(trip));
    case SL_DYNAMO_OP_CLEARS:
        return sl_row_put_unmark(out, table, row_of(trip));
    case SL_DYNAMO_OP_ENDS:
        *ret_operation = "DeleteItem";
        return sl_journal_pledge_put_delete(out, table, trip->set);
    default:
        return sl_row_put_swap(out, table, row_of(trip));
    }
}

/* ---- on its way ---- */

static void go(struct sl_dynamo_op *trip, unsigned phase)
{
    trip->phase = phase;
    trip->paused = 0;
    sl_dynamo_op_go_on(trip);
}

static void add_steps(struct sl_dynamo_op *trip, bool expire)
{
    const struct sl_take_rows *sheet = &trip->sheet;

    for (unsigned k = 0; k < sheet->row_count; k++)
        if (sheet->rows[k].changed && (sheet->rows[k].ttl > 0) == expire)
            trip->order[trip->steps++] = (uint8_t)k;
}

/* Those that never expire come last, since the last one decides. */
static void put_in_order(struct sl_dynamo_op *trip)
{
    trip->steps = 0;
    add_steps(trip, true);
    add_steps(trip, false);
}

bool sl_journal_begin(struct sl_dynamo_op *trip)
{
    struct sl_dynamo_client *seat = trip->seat;

    put_in_order(trip);
    if (sl_store_identity_fresh(trip->set))
        return false;
    for (unsigned i = 0; i < trip->steps; i++) {
        row_at(trip, i)->set = trip->set;
        row_at(trip, i)->unmarks = false;
    }
    trip->step = 0;
    go(trip,
       atomic_load(seat->in_notes) ? SL_DYNAMO_OP_PLEDGES : SL_DYNAMO_OP_NOTES);
    return true;
}

/* The steps below `trip->step` were taken: the last of them goes first. */
static void undo(struct sl_dynamo_op *trip)
{
    if (trip->step > 0) {
        trip->step--;
        go(trip, SL_DYNAMO_OP_REVIEWS);
        return;
    }
    /* Whoever was refused by what it had taken may pass. */
    sl_denial_forgets_add(&trip->seat->shared->forgets, &trip->key);
    if (!trip->take)
        SL_DYNAMO_ADD(trip->seat->counts.returned);
    go(trip, SL_DYNAMO_OP_ENDS);
}

/* The pledge is gone: if somebody waits it was undone, and is tried again. */
static void on_end(struct sl_dynamo_op *trip)
{
    if (!trip->take) {
        sl_dynamo_op_free(trip);
        return;
    }
    trip->pledged = false;
    trip->phase = SL_DYNAMO_OP_READS;
    sl_dynamo_op_again(trip, false);
}

static bool is_wanted(const struct sl_dynamo_op *trip)
{
    return (trip->take || trip->keeps) &&
           sl_loop_mono(trip->seat->loop) - trip->pledged_at < LIFE;
}

static void on_step(struct sl_dynamo_op *trip)
{
    trip->step++;
    if (!is_wanted(trip))
        undo(trip);
    else if (trip->step < trip->steps)
        go(trip, SL_DYNAMO_OP_STEPS);
    else if (trip->take)
        sl_dynamo_op_finish(trip); /* which comes back, to sl_journal_clear() */
    else
        sl_journal_clear(trip);
}

/* The row as it is now: without its mark there is nothing to be undone. */
static void on_review(struct sl_dynamo_op *trip)
{
    struct sl_row *row = row_of(trip);
    struct sl_journal_pledge_row taken;

    if (!row->marked) {
        undo(trip);
        return;
    }
    describe(trip, trip->step, &taken);
    row->next = sl_journal_pledge_undo(&taken, row->cell,
                                       trip->seat->options.own_now
                                           ? taken.taken
                                           : sl_dynamo_client_wall(trip->seat));
    row->unmarks = true;
    if (!row->is_window)
        row->ttl = 0; /* it stays: others may have taken more meanwhile */
    go(trip, SL_DYNAMO_OP_UNDOES);
}

static void on_cleared(struct sl_dynamo_op *trip)
{
    if (++trip->step < trip->steps)
        go(trip, SL_DYNAMO_OP_CLEARS);
    else
        go(trip, SL_DYNAMO_OP_ENDS);
}

void sl_journal_clear(struct sl_dynamo_op *trip)
{
    trip->step = 0;
    go(trip, SL_DYNAMO_OP_CLEARS);
}

void sl_journal_on_answer(struct sl_dynamo_op *trip)
{
    switch (trip->phase) {
    case SL_DYNAMO_OP_NOTES:
        atomic_store(trip->seat->in_notes, true);
        go(trip, SL_DYNAMO_OP_PLEDGES);
        break;
    case SL_DYNAMO_OP_PLEDGES:
        trip->pledged = true;
        trip->pledged_at = sl_loop_mono(trip->seat->loop);
        go(trip, is_wanted(trip) ? SL_DYNAMO_OP_STEPS : SL_DYNAMO_OP_ENDS);
        break;
    case SL_DYNAMO_OP_STEPS:
        on_step(trip);
        break;
    case SL_DYNAMO_OP_REVIEWS:
        on_review(trip);
        break;
    case SL_DYNAMO_OP_UNDOES:
        undo(trip);
        break;
    case SL_DYNAMO_OP_CLEARS:
        on_cleared(trip);
        break;
    default:
        on_end(trip);
        break;
    }
}

/* A condition was not met, and nothing has happened. */
void sl_journal_on_unmet(struct sl_dynamo_op *trip)
{
    if (trip->phase == SL_DYNAMO_OP_STEPS) {
        undo(trip);
    } else if (trip->phase == SL_DYNAMO_OP_CLEARS) {
        on_cleared(trip);
    } else { /* UNDOES: somebody came between, or took it back for us */
        trip->phase = SL_DYNAMO_OP_REVIEWS;
        sl_dynamo_op_again(trip, false);
    }
}

bool sl_journal_give_up(struct sl_dynamo_op *trip)
{
    bool idle = !sl_dynamo_call_is_open(&trip->call);

    if (trip->phase == SL_DYNAMO_OP_NOTES)
        return false;
    if (idle && trip->phase == SL_DYNAMO_OP_PLEDGES) { /* it may be there */
        trip->pledged = true;
        trip->phase = SL_DYNAMO_OP_ENDS;
    }
    if (idle && trip->phase == SL_DYNAMO_OP_STEPS)
        sl_timer_start(trip->pausing, 0); /* and turns round */
    return true;
}

bool sl_journal_invert(struct sl_dynamo_op *trip)
{
    if (trip->phase != SL_DYNAMO_OP_STEPS || is_wanted(trip))
        return false;
    if (trip->step > 0)
        undo(trip);
    else
        go(trip, SL_DYNAMO_OP_ENDS);
    return true;
}
