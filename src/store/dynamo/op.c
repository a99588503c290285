/* op.c -- ops of the DynamoDB store: read, judge, write.
 *
 *     begin --+--> COUNTS (one fixed window) ----------> answer
 *             |       | condition not met
 *             +--> READS --> judge --+-- nothing to write --> answer
 *                     ^              +--> WRITES -----------> answer
 *                     |                     | condition not met
 *                     +---------------------+ (bounded, jittered)
 *
 *     deadline: failed. A read is cancelled; a write goes on without its take,
 *     and is refunded if it succeeds.
 *
 * A request is sent again only if a reply proves that nothing has happened.
 * Otherwise the op is uncertain.
 *
 * A journaled write, where the endpoint has no transactions:
 *
 *   judge --> NOTES --> JOURNALS --> STEPS, a row each --> answer --> CLEARS
 *     ^         once                   |                                |
 *     |                                | condition not met,             v
 *     |                                | or it is too late            ENDS
 *     |                                v                                ^
 *     |                 UNDOES <--> REVIEWS ------- all undone ---------+
 *     +---------------------------------------- if the take still waits +
 *
 * Each attempt has a new journal id, so that late replies of the last attempt
 * do not count. Each step marks its row with the id. After the last step the
 * set is taken. Then the marks are removed in the order of the rows, and then
 * the journal. Recovery (dynamo.c) handles what can't be finished here. It
 * waits until no op works on the journal: no step begins later than LIFE after
 * the journal was written. Steps are undone from the last row to the first:
 * while the last row has its mark the set counts as taken.
 */
#include <stdio.h>
#include <string.h>

#include "store/dynamo/dynamo_int.h"

#define AGAIN_MOST   64 /* retries after conflicts; a deadline is earlier */
#define PAUSE_MOST   3  /* retries when throttled */
#define PAUSE        (4 * SL_MS)
#define PAUSE_LONG   (16 * PAUSE)
#define PATIENCE     (5 * SL_S) /* of a call: writes outlive their deadline */
#define NAMES_MOST   ((size_t)64 << 10)
#define LIFE         (10 * SL_S)
#define JOURNAL_MOST ((size_t)64 << 10)

static void go_on(struct sl_dynamo_op *op);
static void finish(struct sl_dynamo_op *op);
static void again(struct sl_dynamo_op *op, bool known);

static struct sl_dynamo_op *of(struct sl_remote_op *base)
{
    return (struct sl_dynamo_op *)base;
}

/* Frees it; the leases that it requested were not taken. */
static void op_free(struct sl_dynamo_op *op)
{
    sl_remote_op_leases_lost(&op->base, true);
    sl_remote_op_free(&op->base);
}

/* The wall clock of the server, or `own` if the take's time is used. */
static sl_ns wall_or(const struct sl_dynamo_op *op, sl_ns own)
{
    return op->base.client->options->own_now
               ? own
               : sl_dynamo_client_wall(sl_dynamo_op_client(op));
}

/* ---- journaled writes ---- */

static struct sl_row *row_at(struct sl_dynamo_op *op, unsigned step)
{
    return &op->set.rows[op->order[step]];
}

static struct sl_row *row_of(struct sl_dynamo_op *op)
{
    return row_at(op, op->step);
}

static bool is_journaled(const struct sl_dynamo_op *op)
{
    return op->phase > SL_DYNAMO_OP_WRITES;
}

static void describe(const struct sl_dynamo_op *op, unsigned step,
                     struct sl_journal_row *ret)
{
    const struct sl_row_set *set = &op->set;
    unsigned k = op->order[step], i = set->first[k];

    *ret = (struct sl_journal_row){.name = set->rows[k].name,
                                   .limit = set->limits[i],
                                   .period = set->periods[i],
                                   .shape = sl_limit_shape(&set->limits[i]),
                                   .cost = set->cost[k],
                                   .taken = set->at[k]};
}

static int put_journal(struct sl_dynamo_op *op)
{
    struct sl_dynamo_client *client = sl_dynamo_op_client(op);
    struct sl_buf rows;
    int err = 0;

    sl_buf_init(&rows, JOURNAL_MOST, client->base.options->alloc);
    for (unsigned i = 0; i < op->steps && !err; i++) {
        struct sl_journal_row row;

        describe(op, i, &row);
        err = sl_journal_add(&rows, &row);
    }
    if (!err)
        err = sl_journal_put(&op->call.body, client->options->where.table,
                             op->journal_id, sl_dynamo_client_wall(client),
                             sl_buf_str(&rows));
    sl_buf_done(&rows);
    return err;
}

static int journal_body(struct sl_dynamo_op *op, const char **ret_operation)
{
    struct sl_str table = sl_dynamo_op_client(op)->options->where.table;
    struct sl_buf *out = &op->call.body;

    switch (op->phase) {
    case SL_DYNAMO_OP_NOTES:
        *ret_operation = "UpdateItem";
        return sl_dynamo_client_put_note(out, table);
    case SL_DYNAMO_OP_JOURNALS:
        *ret_operation = "PutItem";
        return put_journal(op);
    case SL_DYNAMO_OP_ENDS:
        *ret_operation = "DeleteItem";
        return sl_journal_put_delete(out, table, op->journal_id);
    default:
        return sl_row_put(out, table, row_of(op),
                          op->phase == SL_DYNAMO_OP_REVIEWS  ? SL_ROW_GET
                          : op->phase == SL_DYNAMO_OP_CLEARS ? SL_ROW_UNMARK
                                                             : SL_ROW_SWAP,
                          ret_operation);
    }
}

static void go(struct sl_dynamo_op *op, unsigned phase)
{
    op->phase = phase;
    op->paused = 0;
    go_on(op);
}

/* Rows that never expire come last, since the last one decides. */
static void put_in_order(struct sl_dynamo_op *op)
{
    const struct sl_row_set *set = &op->set;

    op->steps = 0;
    for (unsigned last = 0; last < 2; last++)
        for (unsigned k = 0; k < set->row_count; k++)
            if (set->rows[k].changed && (set->rows[k].ttl == 0) == last)
                op->order[op->steps++] = (uint8_t)k;
}

/* Returns false without random bytes. */
static bool journal_begin(struct sl_dynamo_op *op)
{
    struct sl_dynamo_client *client = sl_dynamo_op_client(op);

    put_in_order(op);
    if (sl_store_identity_fresh(op->journal_id))
        return false;
    for (unsigned i = 0; i < op->steps; i++) {
        row_at(op, i)->journal_id = op->journal_id;
        row_at(op, i)->unmarks = false;
    }
    op->step = 0;
    go(op, atomic_load(client->has_journals) ? SL_DYNAMO_OP_JOURNALS
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
    /* Takes that it had caused to be denied may pass now. */
    sl_denial_forgets_add(&sl_dynamo_op_client(op)->base.identity->forgets,
                          &op->base.denial);
    if (!op->base.take)
        SL_REMOTE_COUNT(op->base.client, returned);
    go(op, SL_DYNAMO_OP_ENDS);
}

/* The journal is removed. If the take still waits, the set was undone and is
 * tried again. */
static void on_end(struct sl_dynamo_op *op)
{
    if (!op->base.take) {
        op_free(op);
        return;
    }
    op->journaled = false;
    op->phase = SL_DYNAMO_OP_READS;
    again(op, false);
}

static bool is_wanted(const struct sl_dynamo_op *op)
{
    return (op->base.take || op->base.keep_taken) &&
           sl_loop_mono(sl_dynamo_op_client(op)->base.loop) - op->journaled_at <
               LIFE;
}

/* The take was answered: removes the marks, and then the journal. */
static void journal_clear(struct sl_dynamo_op *op)
{
    op->step = 0;
    go(op, SL_DYNAMO_OP_CLEARS);
}

static void on_step(struct sl_dynamo_op *op)
{
    op->step++;
    if (!is_wanted(op))
        undo(op);
    else if (op->step < op->steps)
        go(op, SL_DYNAMO_OP_STEPS);
    else if (op->base.take)
        finish(op); /* ends in journal_clear() */
    else
        journal_clear(op);
}

/* The row was read. Without its mark there is nothing to undo. */
static void on_review(struct sl_dynamo_op *op)
{
    struct sl_row *row = row_of(op);
    struct sl_journal_row taken;

    if (!row->marked) {
        undo(op);
        return;
    }
    describe(op, op->step, &taken);
    row->next = sl_journal_undo(&taken, row->cell, wall_or(op, taken.taken));
    row->unmarks = true;
    if (!row->is_window)
        row->ttl = 0; /* it stays: others may have taken more meanwhile */
    go(op, SL_DYNAMO_OP_UNDOES);
}

static void on_cleared(struct sl_dynamo_op *op)
{
    go(op, ++op->step < op->steps ? SL_DYNAMO_OP_CLEARS : SL_DYNAMO_OP_ENDS);
}

static void journal_on_answer(struct sl_dynamo_op *op)
{
    switch (op->phase) {
    case SL_DYNAMO_OP_NOTES:
        atomic_store(sl_dynamo_op_client(op)->has_journals, true);
        go(op, SL_DYNAMO_OP_JOURNALS);
        break;
    case SL_DYNAMO_OP_JOURNALS:
        op->journaled = true;
        op->journaled_at = sl_loop_mono(sl_dynamo_op_client(op)->base.loop);
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
static void journal_on_unmet(struct sl_dynamo_op *op)
{
    if (op->phase == SL_DYNAMO_OP_STEPS) {
        undo(op);
    } else if (op->phase == SL_DYNAMO_OP_CLEARS) {
        on_cleared(op);
    } else { /* UNDOES: the row has changed, or another daemon undid it */
        op->phase = SL_DYNAMO_OP_REVIEWS;
        again(op, false);
    }
}

/* At the deadline. Returns true if the op goes on without its take. */
static bool journal_give_up(struct sl_dynamo_op *op)
{
    bool idle = !sl_dynamo_call_is_open(&op->call);

    if (op->phase == SL_DYNAMO_OP_NOTES)
        return false;
    if (idle && op->phase == SL_DYNAMO_OP_JOURNALS) { /* it may be there */
        op->journaled = true;
        op->phase = SL_DYNAMO_OP_ENDS;
    }
    if (idle && op->phase == SL_DYNAMO_OP_STEPS)
        sl_timer_start(op->retry_timer, 0); /* it will be undone */
    return true;
}

/* Before a step: returns true if the set is undone instead, since it is too
 * late. */
static bool journal_invert(struct sl_dynamo_op *op)
{
    if (op->phase != SL_DYNAMO_OP_STEPS || is_wanted(op))
        return false;
    if (op->step > 0)
        undo(op);
    else
        go(op, SL_DYNAMO_OP_ENDS);
    return true;
}

/* ---- ends ---- */

/* Is it unknown after a lost reply what has happened? Marks tell that of all
 * phases of a journaled write but the steps. */
static bool is_write(const struct sl_dynamo_op *op)
{
    return op->phase == SL_DYNAMO_OP_COUNTS ||
           op->phase == SL_DYNAMO_OP_WRITES || op->phase == SL_DYNAMO_OP_STEPS;
}

/* May the endpoint have written it? */
static bool is_uncertain(const struct sl_dynamo_op *op,
                         enum sl_dynamo_status status)
{
    if (op->phase == SL_DYNAMO_OP_STEPS && op->step + 1 < op->steps)
        return false; /* it will be undone */
    return status == SL_UNSURE && is_write(op);
}

static void fail(struct sl_dynamo_op *op, enum sl_dynamo_status status,
                 const char *why)
{
    bool works = status == SL_UNMET || status == SL_NO_TRANSACTION;

    sl_dynamo_client_error(sl_dynamo_op_client(op), status, why);
    sl_remote_op_fail(&op->base, is_uncertain(op, status) ? SL_REMOTE_UNCERTAIN
                                 : works                  ? SL_REMOTE_REJECTED
                                                          : SL_REMOTE_NOT_DONE);
    op_free(op);
}

/* ---- leases.
 *
 * The table counts a lease as any take. Each loop also notes its leases in an
 * attribute of the row, so that a reset leaves them taken; no take reads that.
 * So a lease must not be spent when a refill may have covered it. The lease of
 * a window, a quota or an interval ends with it; that of a bucket shrinks. What
 * a dead machine had leased of a window stays taken until the window ends. */

/* Kept of a part, behind its name. */
struct kept {
    struct sl_limit limit;
    struct sl_period period;
};

int sl_dynamo_op_keep_part(const struct sl_part *part, sl_ns near,
                           struct sl_buf *out, size_t *ret_name_len)
{
    struct sl_str name = sl_take_part_name(part);
    struct kept kept = {.limit = *part->limit};
    int err = sl_buf_add(out, name);

    if (kept.limit.calendar)
        kept.period = sl_calendar_period(&kept.limit.cal, near);
    *ret_name_len = name.len;
    return err ? err
               : sl_buf_add(out,
                            (struct sl_str){(const char *)&kept, sizeof(kept)});
}

static struct sl_lease_grant grant_of(const struct sl_dynamo_op *op, unsigned i)
{
    const struct sl_row_set *set = &op->set;
    unsigned k = set->row_of[i];
    sl_ns life = sl_row_set_lease_end(set, k) - set->now;

    return (struct sl_lease_grant){
        .has = set->lease[k].has,
        .life = life < SL_S ? life : SL_S,
        .till = (uint64_t)set->now,
        .remaining = set->parts[i].answer.remaining,
        .reset_in = set->parts[i].answer.reset_in,
    };
}

/* The leases of the op were written, or have ended. */
static void grant_leases(struct sl_dynamo_op *op)
{
    struct sl_lease_requests *leases = &op->base.leases;
    struct sl_lease_cache *cache = op->base.client->leases;
    struct sl_lease_counts counts = {0};

    if (leases->count == 0)
        return;
    for (unsigned i = 0; i < leases->count; i++) {
        struct sl_lease_grant grant;

        if (!leases->list[i])
            continue;
        if (!op->base.ends_lease)
            grant = grant_of(op, i);
        if (sl_lease_cache_granted(cache, leases, i,
                                   op->base.ends_lease ? NULL : &grant,
                                   op->base.sent))
            counts.granted += grant.has;
    }
    sl_remote_op_leases_granted(&op->base, &counts);
}

/* ---- success ---- */

/* Everything is written: answers the take. */
static void finish(struct sl_dynamo_op *op)
{
    struct sl_take *take = op->base.take;

    grant_leases(op);
    if (!take && !op->base.is_refund) {
        sl_remote_op_forget(&op->base);
        if (!sl_remote_op_late(&op->base, op->allowed))
            op_free(op);
        return;
    }
    if (take) {
        take->allowed = op->allowed;
        take->counted = !op->allowed && take->op == SL_TAKE_OP_TAKE;
        sl_row_set_answer(&op->set, take);
    }
    sl_remote_op_succeed(&op->base, true);
    if (op->journaled)
        journal_clear(op);
    else
        op_free(op);
}

/* ---- calls ---- */

static int put_body(struct sl_dynamo_op *op, const char **ret_operation)
{
    struct sl_row_set *set = &op->set;
    struct sl_str table = sl_dynamo_op_client(op)->options->where.table;
    struct sl_buf *out = &op->call.body;
    struct sl_row_count count;
    const struct sl_row *row;

    sl_buf_clear(out);
    switch (op->phase) {
    case SL_DYNAMO_OP_READS:
        *ret_operation = "BatchGetItem";
        return set->row_count == 1
                   ? sl_row_put(out, table, &set->rows[0], SL_ROW_GET,
                                ret_operation)
                   : sl_row_put_batch(out, table, set->rows, set->row_count);
    case SL_DYNAMO_OP_COUNTS:
        *ret_operation = "UpdateItem";
        count = sl_row_set_count(set);
        return sl_row_put_count(out, table, &set->rows[0], &count);
    case SL_DYNAMO_OP_WRITES:
        *ret_operation = "TransactWriteItems";
        if (op->written == SL_PARTS)
            return sl_row_put_set(out, table, set->rows, set->row_count);
        row = &set->rows[op->written];
        return sl_row_put(out, table, row,
                          row->deletes ? SL_ROW_DELETE : SL_ROW_SWAP,
                          ret_operation);
    default:
        return journal_body(op, ret_operation);
    }
}

/* Sends the request of its phase. */
static void go_on(struct sl_dynamo_op *op)
{
    const char *operation = "";
    int err;

    if (journal_invert(op))
        return;
    err = put_body(op, &operation);
    if (!err)
        err = sl_dynamo_call_send(&op->call, operation, PATIENCE);
    if (!err) {
        SL_REMOTE_COUNT(op->base.client, asked);
        return;
    }
    fail(op, SL_UNSENT,
         err == SLUICE_ESTORE ? "no AWS credentials" : "out of memory");
}

static void rest(struct sl_dynamo_op *op, unsigned turn)
{
    sl_timer_start(op->retry_timer,
                   sl_jitter_backoff(&sl_dynamo_op_client(op)->jitter, turn,
                                     PAUSE, PAUSE_LONG));
}

/* The first row that changed. `heals`: of a take, the first one without a cost,
 * whose clock is corrected: it can be written alone. SL_PARTS: none. */
static unsigned one_to_write(const struct sl_dynamo_op *op, bool heals)
{
    const struct sl_row_set *set = &op->set;

    heals = heals && op->allowed;
    for (unsigned k = 0; k < set->row_count; k++)
        if (set->rows[k].changed && (!heals || set->cost[k] == 0))
            return k;
    return SL_PARTS;
}

/* Without transactions: one row alone, or a journaled write of a take. Anything
 * else of several rows fails; the engine sends it row by row. */
static void write_apart(struct sl_dynamo_op *op)
{
    bool takes = op->set.op == SL_TAKE_OP_TAKE;

    op->phase = SL_DYNAMO_OP_WRITES;
    op->written = SL_PARTS;
    if (sl_row_set_writes(&op->set) == 1)
        op->written = one_to_write(op, false);
    else if (takes)
        op->written = one_to_write(op, true);
    if (op->written < SL_PARTS) {
        go_on(op);
    } else if (!op->may_split || !journal_begin(op)) {
        op->phase = SL_DYNAMO_OP_READS; /* nothing was sent */
        SL_REMOTE_COUNT(op->base.client, spanning);
        fail(op, SL_NO_TRANSACTION, "");
    }
}

/* Without transactions there may be more rows to write. */
static void on_written(struct sl_dynamo_op *op)
{
    struct sl_row_set *set = &op->set;

    if (op->written < SL_PARTS) {
        set->rows[op->written].changed = false;
        set->parts[set->first[op->written]].penalty_of = 0; /* it was counted */
    }
    if (op->base.take && op->written < SL_PARTS && sl_row_set_writes(set) > 0)
        write_apart(op);
    else
        finish(op);
}

/* The rows were read: judges the set and writes the rows that change. */
static void decide(struct sl_dynamo_op *op)
{
    struct sl_row_set *set = &op->set;
    unsigned writes;

    op->allowed = sl_row_set_judge(set);
    writes = sl_row_set_writes(set);
    if (writes == 0) {
        finish(op);
        return;
    }
    op->phase = SL_DYNAMO_OP_WRITES;
    op->written = SL_PARTS;
    if (atomic_load(&sl_dynamo_op_client(op)->base.store->store.in_steps)) {
        write_apart(op);
        return;
    }
    if (writes == 1 && sl_row_set_checks(set) == 0)
        op->written = one_to_write(op, false);
    go_on(op);
}

/* A window was counted: judges by its count before. */
static void on_counted(struct sl_dynamo_op *op)
{
    struct sl_row *row = &op->set.rows[0];
    int64_t before = (int64_t)row->cell.w[1] - sl_row_set_count(&op->set).add;

    if (!row->found || before < 0) {
        fail(op, SL_UNSURE, "the count was not written by Sluice");
        return;
    }
    row->cell = sl_row_cell((uint64_t)before, op->set.now);
    op->allowed = sl_row_set_judge(&op->set);
    finish(op);
}

/* A condition was not met: nothing has happened. */
static void on_unmet(struct sl_dynamo_op *op, bool has_rows)
{
    SL_REMOTE_COUNT(op->base.client, unmet);
    if (is_journaled(op)) {
        journal_on_unmet(op);
        return;
    }
    if (!op->base.take && !op->base.is_refund) {
        op_free(op); /* too late, and not taken */
        return;
    }
    op->phase = SL_DYNAMO_OP_READS;
    again(op, has_rows);
}

/* Sends its phase again, a bounded number of times. `known`: the rows need not
 * be read again. */
static void again(struct sl_dynamo_op *op, bool known)
{
    if (++op->again > AGAIN_MOST) {
        fail(op, SL_UNMET, "");
        return;
    }
    if (op->again >= 3) /* otherwise the faster of two always wins */
        rest(op, op->again / 4);
    else if (known && op->set.row_count == 1)
        decide(op);
    else
        go_on(op);
}

static void on_answered(struct sl_dynamo_op *op)
{
    switch (op->phase) {
    case SL_DYNAMO_OP_READS:
        decide(op);
        break;
    case SL_DYNAMO_OP_COUNTS:
        on_counted(op);
        break;
    case SL_DYNAMO_OP_WRITES:
        on_written(op);
        break;
    default:
        journal_on_answer(op);
        break;
    }
}

static bool may_pause(struct sl_dynamo_op *op, enum sl_dynamo_status status)
{
    if (status == SL_THROTTLED)
        SL_REMOTE_COUNT(op->base.client, throttled);
    else if (status != SL_UNSURE || is_write(op))
        return false;
    return (op->base.take || op->base.is_refund || op->journaled) &&
           op->paused < PAUSE_MOST;
}

static enum sl_dynamo_status
read_reply(struct sl_dynamo_op *op, bool *ret_has_rows, char why[SL_REPLY_WHY])
{
    struct sl_dynamo_call *call = &op->call;
    struct sl_row_set *set = &op->set;
    struct sl_row *rows = set->rows;
    unsigned count = set->row_count;

    *ret_has_rows = false;
    if (call->status == 0) {
        snprintf(why, SL_REPLY_WHY, "%.150s", call->fetch.why);
        return call->unsent ? SL_UNSENT : SL_UNSURE;
    }
    if (op->phase == SL_DYNAMO_OP_WRITES) {
        count = op->written < SL_PARTS;
        rows += count ? op->written : 0;
    } else if (is_journaled(op)) {
        /* The row of a step is not in its reply: it is reviewed. */
        count = op->phase == SL_DYNAMO_OP_REVIEWS;
        rows = count ? row_of(op) : NULL;
    }
    return sl_dynamo_reply_read(call->status, call->reply, rows, count,
                                set->now, ret_has_rows, why);
}

/* The endpoint has no transactions. It is said once. */
static void learn_steps(struct sl_dynamo_client *client)
{
    if (!atomic_exchange(&client->base.store->store.in_steps, true))
        sl_dynamo_client_error(client, SL_NO_TRANSACTION, "");
}

static void on_reply(struct sl_dynamo_call *call)
{
    struct sl_dynamo_op *op = call->ctx;
    struct sl_dynamo_client *client = sl_dynamo_op_client(op);
    char why[SL_REPLY_WHY] = "";
    bool has_rows = false;
    enum sl_dynamo_status status = read_reply(op, &has_rows, why);

    sl_dynamo_client_heard(client, call->status > 0, why);
    if (status == SL_DYNAMO_ANSWERED) {
        on_answered(op);
    } else if (status == SL_UNMET) {
        on_unmet(op, has_rows);
    } else if (status == SL_SKEWED && !op->skewed) {
        op->skewed = true; /* the Date header has corrected the clock */
        go_on(op);
    } else if (may_pause(op, status)) {
        rest(op, op->paused++);
    } else {
        if (status == SL_NO_TRANSACTION) {
            learn_steps(client);
            if (op->base.take && op->phase == SL_DYNAMO_OP_WRITES) {
                write_apart(op);
                return;
            }
        }
        if (status == SL_FORBIDDEN)
            sl_dynamo_http_doubt(client->http);
        fail(op, status, why);
    }
}

/* ---- begin, deadline, close ---- */

void sl_dynamo_op_begin(struct sl_remote_op *base)
{
    struct sl_dynamo_op *op = of(base);

    op->phase = sl_row_set_is_count(&op->set) ? SL_DYNAMO_OP_COUNTS
                                              : SL_DYNAMO_OP_READS;
    go_on(op);
}

bool sl_dynamo_op_cancel(struct sl_remote_op *base, bool *ret_uncertain)
{
    struct sl_dynamo_op *op = of(base);
    bool goes_on = is_journaled(op)
                       ? journal_give_up(op)
                       : is_write(op) && sl_dynamo_call_is_open(&op->call);

    *ret_uncertain = goes_on && is_write(op);
    op->set.orphaned = true;
    return !goes_on;
}

void sl_dynamo_op_abandon(struct sl_dynamo_op *op)
{
    bool sent = is_write(op) && sl_dynamo_call_is_open(&op->call);

    sl_remote_op_fail(&op->base,
                      sent ? SL_REMOTE_UNCERTAIN : SL_REMOTE_NOT_DONE);
    op_free(op);
}

/* ---- the back end's calls ---- */

static void on_retry(void *ctx)
{
    go_on(ctx);
}

int sl_dynamo_op_init(struct sl_remote_op *base)
{
    struct sl_dynamo_op *op = of(base);
    struct sl_dynamo_client *client = sl_dynamo_op_client(op);

    sl_dynamo_call_init(&op->call, client->http);
    op->call.done = on_reply;
    op->call.ctx = op;
    op->set.slot = client->lease_slot;
    sl_buf_init(&op->set.names, NAMES_MOST, base->client->options->alloc);
    return sl_timer_new(base->client->loop, on_retry, op, &op->retry_timer);
}

void sl_dynamo_op_reset(struct sl_remote_op *base)
{
    struct sl_dynamo_op *op = of(base);

    sl_dynamo_call_cancel(&op->call);
    sl_timer_stop(op->retry_timer);
    sl_buf_clear(&op->set.names);
    op->allowed = op->skewed = op->journaled = op->may_split = false;
    op->again = op->paused = 0;
}

void sl_dynamo_op_done(struct sl_remote_op *base)
{
    struct sl_dynamo_op *op = of(base);

    sl_dynamo_call_done(&op->call);
    sl_timer_free(op->retry_timer);
    sl_buf_done(&op->set.names);
}

int sl_dynamo_op_encode_take(struct sl_remote_op *base, struct sl_take *take,
                             const struct sl_lease_keys *keys)
{
    struct sl_dynamo_op *op = of(base);
    struct sl_row_set *set = &op->set;
    sl_ns skew = sl_dynamo_http_skew(sl_dynamo_op_client(op)->http);
    sl_ns now = take->now + (base->client->options->own_now ? 0 : skew);
    int err = sl_row_set_fill(set, take, now > 0 ? now : 0);

    atomic_store_explicit(&base->client->counts.ahead, skew,
                          memory_order_relaxed);
    if (err)
        return err;
    op->may_split = take->op == SL_TAKE_OP_TAKE;
    if (keys)
        sl_remote_op_request_leases(base, take, keys, set->now);
    for (unsigned i = 0; i < base->leases.count; i++) {
        const struct sl_lease_request *lease = &base->leases.words[i];

        set->lease[set->row_of[i]] =
            (struct sl_row_lease){.want = lease->want,
                                  .back = lease->left,
                                  .taken = (sl_ns)lease->till};
    }
    return 0;
}

int sl_dynamo_op_encode_refund(struct sl_remote_op *base)
{
    struct sl_dynamo_op *op = of(base);

    sl_row_set_invert(&op->set, wall_or(op, op->set.now));
    op->again = op->paused = 0;
    return 0;
}

int sl_dynamo_op_encode_lease_end(struct sl_remote_op *base,
                                  const struct sl_lease_end *end, sl_ns now)
{
    struct sl_dynamo_op *op = of(base);
    struct sl_dynamo_client *client = sl_dynamo_op_client(op);
    sl_ns skew =
        base->client->options->own_now ? 0 : sl_dynamo_http_skew(client->http);
    struct kept kept;
    struct sl_lease_rest rest = {.name = end->name,
                                 .amount = end->asks.words[0].left,
                                 .taken = (sl_ns)end->asks.words[0].till};

    memcpy(&kept, end->numbers.at, sizeof(kept));
    rest.limit = kept.limit;
    rest.period = kept.period;
    return sl_row_set_fill_rest(&op->set, &rest, now + skew);
}
