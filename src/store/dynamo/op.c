/* op.c -- ops of the DynamoDB store: read, judge, write.
 *
 *     begin --+--> COUNTS (one fixed window) ----------> status
 *             |       | condition not met
 *             +--> READS --> judge --+-- nothing to write --> status
 *                     ^              +--> WRITES -----------> status
 *                     |                     | condition not met
 *                     +---------------------+ (bounded, jittered)
 *
 *     deadline: failed. A read is cancelled; a write goes on without its take,
 *     and is refunded if it succeeds.
 *
 * A request is sent again only if a reply proves that nothing has happened.
 * Otherwise the op is uncertain.
 */
#include <stdio.h>
#include <string.h>

#include "store/dynamo/dynamo_int.h"

#define AGAIN_MOST 64 /* retries after conflicts; a deadline is earlier */
#define PAUSE_MOST 3  /* retries when throttled */
#define PAUSE      (4 * SL_MS)
#define PATIENCE   (5 * SL_S) /* for one call: writes outlive their deadline */
#define NAMES_MOST ((size_t)64 << 10)

static struct sl_dynamo_op *of(struct sl_remote_op *base)
{
    return (struct sl_dynamo_op *)base;
}

/* ---- ends ---- */

void sl_dynamo_op_free(struct sl_dynamo_op *op)
{
    sl_remote_op_leases_lost(&op->base, true);
    sl_remote_op_free(&op->base);
}

/* Can an answer be asked for again? Of a set in steps all can but the steps:
 * its marks say what has happened. */
static bool is_write(const struct sl_dynamo_op *op)
{
    return op->phase == SL_DYNAMO_OP_COUNTS ||
           op->phase == SL_DYNAMO_OP_WRITES || op->phase == SL_DYNAMO_OP_STEPS;
}

/* May the endpoint have done it, and we not know? */
static bool is_uncertain(const struct sl_dynamo_op *op,
                         enum sl_dynamo_status status)
{
    if (sl_journal_is_one(op) && !sl_journal_is_last(op))
        return false; /* whatever it was, it is undone */
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
    sl_dynamo_op_free(op);
}

/* ---- leases.
 *
 * The table counts a lease as any take. Each loop also notes its leases in an
 * attribute of the row, so that a reset leaves them taken; no take reads that.
 * So a lease must not be spent when a refill may have covered it. The lease of
 * a window, a quota or an interval ends with it; that of a bucket melts. What a
 * dead machine had leased of a window stays taken until the window ends. */

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
    const struct sl_take_rows *take_rows = &op->take_rows;
    unsigned k = take_rows->row_of[i];
    sl_ns life = sl_take_rows_lease_end(take_rows, k) - take_rows->now;

    return (struct sl_lease_grant){
        .has = take_rows->lease[k].has,
        .life = life < SL_S ? life : SL_S,
        .till = (uint64_t)take_rows->now,
        .remaining = take_rows->parts[i].answer.remaining,
        .reset_in = take_rows->parts[i].answer.reset_in,
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

/* It was written, but its take had failed. */
static void finish_late(struct sl_dynamo_op *op)
{
    if (!sl_remote_op_late(&op->base, op->allowed))
        sl_dynamo_op_free(op);
}

void sl_dynamo_op_finish(struct sl_dynamo_op *op)
{
    struct sl_take *take = op->base.take;

    grant_leases(op);
    if (!take && !op->base.is_refund) {
        sl_remote_op_forget(&op->base);
        finish_late(op);
        return;
    }
    if (take) {
        take->allowed = op->allowed;
        sl_take_rows_answer(&op->take_rows, take);
    }
    sl_remote_op_succeed(&op->base, true);
    if (op->pledged)
        sl_journal_clear(op);
    else
        sl_dynamo_op_free(op);
}

/* ---- calls ---- */

static int put_write(struct sl_dynamo_op *op, const char **ret_operation)
{
    struct sl_take_rows *take_rows = &op->take_rows;
    struct sl_str table = sl_dynamo_op_client(op)->options->where.table;
    struct sl_row *row = &take_rows->rows[op->written];

    if (op->written == SL_PARTS) {
        *ret_operation = "TransactWriteItems";
        return sl_row_put_set(&op->call.body, table, take_rows->rows,
                              take_rows->row_count);
    }
    *ret_operation = row->deletes ? "DeleteItem" : "UpdateItem";
    return row->deletes ? sl_row_put_delete(&op->call.body, table, row)
                        : sl_row_put_swap(&op->call.body, table, row);
}

static int put_body(struct sl_dynamo_op *op, const char **ret_operation)
{
    struct sl_take_rows *take_rows = &op->take_rows;
    struct sl_str table = sl_dynamo_op_client(op)->options->where.table;
    struct sl_buf *out = &op->call.body;
    struct sl_row_count count;

    sl_buf_clear(out);
    switch (op->phase) {
    case SL_DYNAMO_OP_READS:
        *ret_operation = take_rows->row_count == 1 ? "GetItem" : "BatchGetItem";
        return take_rows->row_count == 1
                   ? sl_row_put_get(out, table, &take_rows->rows[0])
                   : sl_row_put_batch(out, table, take_rows->rows,
                                      take_rows->row_count);
    case SL_DYNAMO_OP_COUNTS:
        *ret_operation = "UpdateItem";
        count = sl_take_rows_count(take_rows);
        return sl_row_put_count(out, table, &take_rows->rows[0], &count);
    case SL_DYNAMO_OP_WRITES:
        return put_write(op, ret_operation);
    default:
        return sl_journal_put(op, ret_operation);
    }
}

/* Ask what its phase asks. */
void sl_dynamo_op_go_on(struct sl_dynamo_op *op)
{
    const char *operation = "";
    int err;

    if (sl_journal_invert(op))
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
    sl_ns most = PAUSE << (turn < 4 ? turn : 4);

    sl_timer_start(op->retry_timer,
                   sl_jitter_span(&sl_dynamo_op_client(op)->jitter, most));
}

/* The first row that changed; of a take, the first from which nothing is taken:
 * it is healed, and so for itself. SL_PARTS: none. */
static unsigned one_to_write(const struct sl_dynamo_op *op, bool heals)
{
    const struct sl_take_rows *take_rows = &op->take_rows;

    heals = heals && op->allowed;
    for (unsigned k = 0; k < take_rows->row_count; k++)
        if (take_rows->rows[k].changed && (!heals || take_rows->cost[k] == 0))
            return k;
    return SL_PARTS;
}

/* Without transactions: a row alone; in steps, if it may be; or not at all. */
static void write_apart(struct sl_dynamo_op *op)
{
    bool takes = op->take_rows.op == SL_TAKE_OP_TAKE;

    op->phase = SL_DYNAMO_OP_WRITES;
    op->written = SL_PARTS;
    if (sl_take_rows_writes(&op->take_rows) == 1)
        op->written = one_to_write(op, false);
    else if (takes)
        op->written = one_to_write(op, true);
    if (op->written < SL_PARTS) {
        sl_dynamo_op_go_on(op);
    } else if (!op->may_split || !sl_journal_begin(op)) {
        op->phase = SL_DYNAMO_OP_READS; /* nothing was sent */
        SL_REMOTE_COUNT(op->base.client, spanning);
        fail(op, SL_NO_TRANSACTION, "");
    }
}

/* One row is written: without transactions there may be others. */
static void on_written(struct sl_dynamo_op *op)
{
    struct sl_take_rows *take_rows = &op->take_rows;

    if (op->written < SL_PARTS)
        take_rows->rows[op->written].changed = false;
    if (op->base.take && op->written < SL_PARTS &&
        sl_take_rows_writes(take_rows) > 0)
        write_apart(op);
    else
        sl_dynamo_op_finish(op);
}

/* The rows say what is: decide, and write what must be. */
static void decide(struct sl_dynamo_op *op)
{
    struct sl_take_rows *take_rows = &op->take_rows;
    unsigned writes;

    op->allowed = sl_take_rows_judge(take_rows);
    writes = sl_take_rows_writes(take_rows);
    if (writes == 0) {
        sl_dynamo_op_finish(op);
        return;
    }
    op->phase = SL_DYNAMO_OP_WRITES;
    op->written = SL_PARTS;
    if (atomic_load(&sl_dynamo_op_client(op)->base.store->store.in_steps)) {
        write_apart(op);
        return;
    }
    if (writes == 1 && sl_take_rows_checks(take_rows) == 0)
        op->written = one_to_write(op, false);
    sl_dynamo_op_go_on(op);
}

/* A window was counted: what it was before, and what that means. */
static void on_counted(struct sl_dynamo_op *op)
{
    struct sl_row *row = &op->take_rows.rows[0];
    int64_t before =
        (int64_t)row->cell.w[1] - sl_take_rows_count(&op->take_rows).add;

    if (!row->there || before < 0) {
        fail(op, SL_UNSURE, "the count was not written by Sluice");
        return;
    }
    row->cell = sl_row_cell(row, (uint64_t)before, op->take_rows.now);
    op->allowed = sl_take_rows_judge(&op->take_rows);
    sl_dynamo_op_finish(op);
}

/* Nothing has happened, since another was there first. */
static void on_unmet(struct sl_dynamo_op *op, bool told)
{
    SL_REMOTE_COUNT(op->base.client, unmet);
    if (sl_journal_is_one(op)) {
        sl_journal_on_unmet(op);
        return;
    }
    if (!op->base.take && !op->base.is_refund) {
        sl_dynamo_op_free(op); /* too late, and not taken */
        return;
    }
    op->phase = SL_DYNAMO_OP_READS;
    sl_dynamo_op_again(op, told);
}

void sl_dynamo_op_again(struct sl_dynamo_op *op, bool known)
{
    if (++op->again > AGAIN_MOST) {
        fail(op, SL_UNMET, "");
        return;
    }
    if (op->again >= 3) /* or the quicker of two is so every time */
        rest(op, op->again / 4);
    else if (known && op->take_rows.row_count == 1)
        decide(op);
    else
        sl_dynamo_op_go_on(op);
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
        sl_journal_on_answer(op);
        break;
    }
}

static bool may_pause(struct sl_dynamo_op *op, enum sl_dynamo_status status)
{
    if (status == SL_THROTTLED)
        SL_REMOTE_COUNT(op->base.client, throttled);
    else if (status != SL_UNSURE || is_write(op))
        return false;
    return (op->base.take || op->base.is_refund || op->pledged) &&
           op->paused < PAUSE_MOST;
}

static enum sl_dynamo_status read_reply(struct sl_dynamo_op *op, bool *ret_told,
                                        char why[SL_REPLY_WHY])
{
    struct sl_dynamo_call *call = &op->call;
    struct sl_take_rows *take_rows = &op->take_rows;
    struct sl_row *rows = take_rows->rows;
    unsigned count = take_rows->row_count;

    *ret_told = false;
    if (call->status == 0) {
        snprintf(why, SL_REPLY_WHY, "%.150s", call->fetch.why);
        return call->unsent ? SL_UNSENT : SL_UNSURE;
    }
    if (op->phase == SL_DYNAMO_OP_WRITES) {
        count = op->written < SL_PARTS;
        rows += count ? op->written : 0;
    } else if (sl_journal_is_one(op)) {
        /* What a step was status with says nothing: the row is reviewed. */
        rows = sl_journal_row(op);
        count = op->phase == SL_DYNAMO_OP_REVIEWS;
    }
    return sl_dynamo_reply_read(call->status, call->reply, rows, count,
                                take_rows->now, ret_told, why);
}

static void on_reply(struct sl_dynamo_call *call)
{
    struct sl_dynamo_op *op = call->ctx;
    struct sl_dynamo_client *client = sl_dynamo_op_client(op);
    char why[SL_REPLY_WHY] = "";
    bool told = false;
    enum sl_dynamo_status status = read_reply(op, &told, why);

    sl_dynamo_client_heard(client, call->status > 0, why);
    if (status == SL_DYNAMO_ANSWERED) {
        on_answered(op);
    } else if (status == SL_UNMET) {
        on_unmet(op, told);
    } else if (status == SL_SKEWED && !op->skewed) {
        op->skewed = true; /* and by now the Date was seen */
        sl_dynamo_op_go_on(op);
    } else if (may_pause(op, status)) {
        rest(op, op->paused++);
    } else {
        if (status == SL_NO_TRANSACTION) {
            atomic_store(&client->base.store->store.in_steps, true);
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

    op->phase = sl_take_rows_is_count(&op->take_rows) ? SL_DYNAMO_OP_COUNTS
                                                      : SL_DYNAMO_OP_READS;
    sl_dynamo_op_go_on(op);
}

bool sl_dynamo_op_cancel(struct sl_remote_op *base, bool *ret_uncertain)
{
    struct sl_dynamo_op *op = of(base);
    bool goes_on = sl_journal_is_one(op)
                       ? sl_journal_give_up(op)
                       : is_write(op) && sl_dynamo_call_is_open(&op->call);

    *ret_uncertain = goes_on && is_write(op);
    op->take_rows.orphaned = true;
    return !goes_on;
}

void sl_dynamo_op_abandon(struct sl_dynamo_op *op)
{
    bool sent = is_write(op) && sl_dynamo_call_is_open(&op->call);

    sl_remote_op_fail(&op->base,
                      sent ? SL_REMOTE_UNCERTAIN : SL_REMOTE_NOT_DONE);
    sl_dynamo_op_free(op);
}

/* ---- the back end's calls ---- */

static void on_retry(void *ctx)
{
    sl_dynamo_op_go_on(ctx);
}

int sl_dynamo_op_init(struct sl_remote_op *base)
{
    struct sl_dynamo_op *op = of(base);
    struct sl_dynamo_client *client = sl_dynamo_op_client(op);

    sl_dynamo_call_init(&op->call, client->http);
    op->call.done = on_reply;
    op->call.ctx = op;
    op->take_rows.slot = client->lease_slot;
    sl_buf_init(&op->take_rows.names, NAMES_MOST, base->client->options->alloc);
    return sl_timer_new(base->client->loop, on_retry, op, &op->retry_timer);
}

void sl_dynamo_op_reset(struct sl_remote_op *base)
{
    struct sl_dynamo_op *op = of(base);

    sl_dynamo_call_cancel(&op->call);
    sl_timer_stop(op->retry_timer);
    sl_buf_clear(&op->take_rows.names);
    op->allowed = op->skewed = op->pledged = op->may_split = false;
    op->again = op->paused = 0;
}

void sl_dynamo_op_done(struct sl_remote_op *base)
{
    struct sl_dynamo_op *op = of(base);

    sl_dynamo_call_done(&op->call);
    sl_timer_free(op->retry_timer);
    sl_buf_done(&op->take_rows.names);
}

int sl_dynamo_op_encode_take(struct sl_remote_op *base, struct sl_take *take,
                             const struct sl_lease_keys *keys)
{
    struct sl_dynamo_op *op = of(base);
    struct sl_take_rows *take_rows = &op->take_rows;
    sl_ns skew = sl_dynamo_http_skew(sl_dynamo_op_client(op)->http);
    sl_ns now = take->now + (base->client->options->own_now ? 0 : skew);
    int err = sl_take_rows_fill(take_rows, take, now > 0 ? now : 0);

    atomic_store_explicit(&base->client->counts.ahead, skew,
                          memory_order_relaxed);
    if (err)
        return err;
    op->may_split = take->apart && take->op == SL_TAKE_OP_TAKE;
    if (keys)
        sl_remote_op_request_leases(base, take, keys, take_rows->now);
    for (unsigned i = 0; i < base->leases.count; i++) {
        const struct sl_lease_request *lease = &base->leases.words[i];

        take_rows->lease[take_rows->row_of[i]] =
            (struct sl_row_lease){.want = lease->want,
                                  .back = lease->left,
                                  .taken = (sl_ns)lease->till};
    }
    return 0;
}

int sl_dynamo_op_encode_refund(struct sl_remote_op *base)
{
    struct sl_dynamo_op *op = of(base);
    struct sl_remote_client *client = base->client;

    sl_take_rows_invert(&op->take_rows,
                        client->options->own_now
                            ? op->take_rows.now
                            : sl_dynamo_client_wall(sl_dynamo_op_client(op)));
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
    return sl_take_rows_fill_rest(&op->take_rows, &rest, now + skew);
}
