/* op.c -- a take on its way: read, judged, written; or too late.
 *
 *     begin --+--> COUNTS (one fixed window) ----------> answered
 *             |       | condition not met
 *             +--> READS --> judge --+-- nothing to write --> answered
 *                     ^              +--> WRITES -----------> answered
 *                     |                     | somebody came between
 *                     +---------------------+ (bounded, jittered)
 *
 *     deadline: failed. A read is given up; a write goes on without its take,
 *     and if it succeeds a trip of ours gives it back.
 *
 * Whatever proves that nothing has happened may be asked again. What leaves
 * that open never is: it is uncertain.
 */
#include <stdio.h>
#include <string.h>

#include "store/dynamo/dynamo_int.h"

#define AGAIN_MOST 64 /* when somebody came between; a deadline is sooner */
#define PAUSE_MOST 3  /* when it is throttled */
#define PAUSE      (4 * SL_MS)
#define DENIALS    1024
#define PATIENCE   (5 * SL_S) /* for one call: writes outlive their deadline */

/* ---- ends ---- */

static bool frees(enum sl_take_op errand)
{
    return errand == SL_TAKE_OP_REFUND || errand == SL_TAKE_OP_RESET;
}

static void forget(const struct sl_dynamo_op *trip)
{
    if (frees(trip->sheet.errand))
        sl_denial_forgets_add(&trip->seat->shared->forgets, &trip->key);
}

/* (1) */
static void tell(struct sl_dynamo_op *trip, int err)
{
    struct sl_take *take = trip->take;

    sl_timer_stop(trip->timer);
    trip->take = NULL;
    take->err = err;
    take->allowed = !err && trip->allowed;
    if (!err)
        sl_take_rows_answer(&trip->sheet, take);
    take->done(take);
}

/* Can an answer be asked for again? Of a set in steps all can but the steps:
 * its marks say what has happened. */
static bool is_write(const struct sl_dynamo_op *trip)
{
    return trip->phase == SL_DYNAMO_OP_COUNTS ||
           trip->phase == SL_DYNAMO_OP_WRITES ||
           trip->phase == SL_DYNAMO_OP_STEPS;
}

/* May the endpoint have done it, and we not know? */
static bool is_uncertain(const struct sl_dynamo_op *trip,
                         enum sl_dynamo_status answered)
{
    if (sl_journal_is_one(trip) && !sl_journal_is_last(trip))
        return false; /* whatever it was, it is undone */
    return answered == SL_UNSURE && is_write(trip);
}

static void fail(struct sl_dynamo_op *trip, enum sl_dynamo_status answered,
                 const char *why)
{
    struct sl_dynamo_client *seat = trip->seat;
    bool uncertain = is_uncertain(trip, answered);

    sl_dynamo_client_trouble(seat, answered, why);
    if (uncertain || (trip->ours && !trip->ends_lease))
        SL_DYNAMO_ADD(seat->counts.uncertain);
    sl_dynamo_op_lost(trip, !uncertain && !trip->ends_lease);
    forget(trip);
    if (trip->take) {
        SL_DYNAMO_ADD(seat->counts.failed);
        trip->take->sent = uncertain;
        /* Whoever says that has answered. */
        sl_dynamo_client_note(trip, answered == SL_UNMET ||
                                        answered == SL_NO_TRANSACTION);
        tell(trip, SLUICE_ESTORE);
    }
    sl_dynamo_op_free(trip);
}

static void remember(struct sl_dynamo_op *trip)
{
    struct sl_dynamo_client *seat = trip->seat;
    unsigned most =
        seat->options.denials_most ? seat->options.denials_most : DENIALS;
    struct sl_take *take = trip->take;
    sl_ns now = seat->options.own_now ? take->now : sl_loop_mono(seat->loop);

    if (trip->sheet.errand != SL_TAKE_OP_TAKE || trip->allowed ||
        seat->options.no_denials)
        return;
    if (!seat->denials &&
        sl_denial_caches_open(most, seat->options.alloc, &seat->denials))
        return; /* there is no memory: then it is asked for again */
    take->allowed = false;
    sl_take_rows_answer(&trip->sheet, take);
    sl_denial_cache_add(seat->denials, &trip->key, &seat->shared->forgets, take,
                        trip->sent, now);
}

static sl_ns now_of(struct sl_dynamo_client *seat)
{
    return sl_loop_now(seat->loop) + sl_dynamo_http_skew(seat->client);
}

/* It was written, but whoever asked was told that it has failed. */
static void land_late(struct sl_dynamo_op *trip)
{
    struct sl_dynamo_client *seat = trip->seat;
    bool takes = trip->sheet.errand == SL_TAKE_OP_TAKE;

    if (!takes)
        SL_DYNAMO_ADD(seat->counts.uncertain);
    if (!takes || !trip->allowed || trip->keeps || seat->closing) {
        sl_dynamo_op_free(trip);
        return;
    }
    sl_take_rows_invert(&trip->sheet,
                        seat->options.own_now ? trip->sheet.now : now_of(seat));
    trip->ours = true;
    trip->again = trip->paused = 0;
    sl_dynamo_op_begin(trip);
}

/* All that was asked for is done. */
void sl_dynamo_op_finish(struct sl_dynamo_op *trip)
{
    struct sl_dynamo_client *seat = trip->seat;

    forget(trip);
    sl_dynamo_op_landed(trip);
    if (trip->take) {
        sl_dynamo_client_note(trip, true);
        SL_DYNAMO_ADD(seat->counts.taken);
        remember(trip);
        tell(trip, 0);
    } else if (trip->ours) {
        if (!trip->ends_lease)
            SL_DYNAMO_ADD(seat->counts.returned);
    } else {
        land_late(trip);
        return;
    }
    if (trip->pledged)
        sl_journal_clear(trip);
    else
        sl_dynamo_op_free(trip);
}

/* ---- calls ---- */

static int put_write(struct sl_dynamo_op *trip, const char **ret_operation)
{
    struct sl_take_rows *sheet = &trip->sheet;
    struct sl_str table = trip->seat->options.where.table;
    struct sl_row *row = &sheet->rows[trip->written];

    if (trip->written == SL_PARTS) {
        *ret_operation = "TransactWriteItems";
        return sl_row_put_set(&trip->call.body, table, sheet->rows,
                              sheet->row_count);
    }
    *ret_operation = row->deletes ? "DeleteItem" : "UpdateItem";
    return row->deletes ? sl_row_put_delete(&trip->call.body, table, row)
                        : sl_row_put_swap(&trip->call.body, table, row);
}

static int put_body(struct sl_dynamo_op *trip, const char **ret_operation)
{
    struct sl_take_rows *sheet = &trip->sheet;
    struct sl_str table = trip->seat->options.where.table;
    struct sl_buf *out = &trip->call.body;
    struct sl_row_count count;

    sl_buf_clear(out);
    switch (trip->phase) {
    case SL_DYNAMO_OP_READS:
        *ret_operation = sheet->row_count == 1 ? "GetItem" : "BatchGetItem";
        return sheet->row_count == 1
                   ? sl_row_put_get(out, table, &sheet->rows[0])
                   : sl_row_put_batch(out, table, sheet->rows,
                                      sheet->row_count);
    case SL_DYNAMO_OP_COUNTS:
        *ret_operation = "UpdateItem";
        count = sl_take_rows_count(sheet);
        return sl_row_put_count(out, table, &sheet->rows[0], &count);
    case SL_DYNAMO_OP_WRITES:
        return put_write(trip, ret_operation);
    default:
        return sl_journal_put(trip, ret_operation);
    }
}

/* Ask what its phase asks. */
void sl_dynamo_op_go_on(struct sl_dynamo_op *trip)
{
    const char *operation = "";
    int err;

    if (sl_journal_invert(trip))
        return;
    err = put_body(trip, &operation);
    if (!err)
        err = sl_dynamo_call_send(&trip->call, operation, PATIENCE);
    if (!err) {
        SL_DYNAMO_ADD(trip->seat->counts.asked);
        return;
    }
    fail(trip, SL_UNSENT,
         err == SLUICE_ESTORE ? "no AWS credentials" : "out of memory");
}

static void rest(struct sl_dynamo_op *trip, unsigned turn)
{
    sl_ns most = PAUSE << (turn < 4 ? turn : 4);

    sl_timer_start(trip->pausing, sl_jitter_span(&trip->seat->dice, most));
}

/* The first row that changed; of a take, the first from which nothing is taken:
 * it is healed, and so for itself. SL_PARTS: none. */
static unsigned one_to_write(const struct sl_dynamo_op *trip, bool heals)
{
    const struct sl_take_rows *sheet = &trip->sheet;

    heals = heals && trip->allowed;
    for (unsigned k = 0; k < sheet->row_count; k++)
        if (sheet->rows[k].changed && (!heals || sheet->cost[k] == 0))
            return k;
    return SL_PARTS;
}

/* Without transactions: a row alone; in steps, if it may be; or not at all. */
static void write_apart(struct sl_dynamo_op *trip)
{
    bool takes = trip->sheet.errand == SL_TAKE_OP_TAKE;

    trip->phase = SL_DYNAMO_OP_WRITES;
    trip->written = SL_PARTS;
    if (sl_take_rows_writes(&trip->sheet) == 1)
        trip->written = one_to_write(trip, false);
    else if (takes)
        trip->written = one_to_write(trip, true);
    if (trip->written < SL_PARTS) {
        sl_dynamo_op_go_on(trip);
    } else if (!trip->apart || !sl_journal_begin(trip)) {
        trip->phase = SL_DYNAMO_OP_READS; /* nothing was sent */
        SL_DYNAMO_ADD(trip->seat->counts.spanning);
        fail(trip, SL_NO_TRANSACTION, "");
    }
}

/* One row is written: without transactions there may be others. */
static void on_written(struct sl_dynamo_op *trip)
{
    struct sl_take_rows *sheet = &trip->sheet;

    if (trip->written < SL_PARTS)
        sheet->rows[trip->written].changed = false;
    if (trip->take && trip->written < SL_PARTS &&
        sl_take_rows_writes(sheet) > 0)
        write_apart(trip);
    else
        sl_dynamo_op_finish(trip);
}

/* The rows say what is: decide, and write what must be. */
static void decide(struct sl_dynamo_op *trip)
{
    struct sl_take_rows *sheet = &trip->sheet;
    unsigned writes;

    trip->allowed = sl_take_rows_judge(sheet);
    writes = sl_take_rows_writes(sheet);
    if (writes == 0) {
        sl_dynamo_op_finish(trip);
        return;
    }
    trip->phase = SL_DYNAMO_OP_WRITES;
    trip->written = SL_PARTS;
    if (atomic_load(trip->seat->in_steps)) {
        write_apart(trip);
        return;
    }
    if (writes == 1 && sl_take_rows_checks(sheet) == 0)
        trip->written = one_to_write(trip, false);
    sl_dynamo_op_go_on(trip);
}

/* A window was counted: what it was before, and what that means. */
static void on_counted(struct sl_dynamo_op *trip)
{
    struct sl_row *row = &trip->sheet.rows[0];
    int64_t before =
        (int64_t)row->cell.w[1] - sl_take_rows_count(&trip->sheet).add;

    if (!row->there || before < 0) {
        fail(trip, SL_UNSURE, "the count was not written by Sluice");
        return;
    }
    row->cell = sl_row_cell(row, (uint64_t)before, trip->sheet.now);
    trip->allowed = sl_take_rows_judge(&trip->sheet);
    sl_dynamo_op_finish(trip);
}

/* Nothing has happened, since another was there first. */
static void on_unmet(struct sl_dynamo_op *trip, bool told)
{
    SL_DYNAMO_ADD(trip->seat->counts.unmet);
    if (sl_journal_is_one(trip)) {
        sl_journal_on_unmet(trip);
        return;
    }
    if (!trip->take && !trip->ours) {
        sl_dynamo_op_free(trip); /* too late, and not taken */
        return;
    }
    trip->phase = SL_DYNAMO_OP_READS;
    sl_dynamo_op_again(trip, told);
}

void sl_dynamo_op_again(struct sl_dynamo_op *trip, bool told)
{
    if (++trip->again > AGAIN_MOST) {
        fail(trip, SL_UNMET, "");
        return;
    }
    if (trip->again >= 3) /* or the quicker of two is so every time */
        rest(trip, trip->again / 4);
    else if (told && trip->sheet.row_count == 1)
        decide(trip);
    else
        sl_dynamo_op_go_on(trip);
}

static void on_answered(struct sl_dynamo_op *trip)
{
    switch (trip->phase) {
    case SL_DYNAMO_OP_READS:
        decide(trip);
        break;
    case SL_DYNAMO_OP_COUNTS:
        on_counted(trip);
        break;
    case SL_DYNAMO_OP_WRITES:
        on_written(trip);
        break;
    default:
        sl_journal_on_answer(trip);
        break;
    }
}

static bool may_pause(struct sl_dynamo_op *trip, enum sl_dynamo_status answered)
{
    if (answered == SL_THROTTLED)
        SL_DYNAMO_ADD(trip->seat->counts.throttled);
    else if (answered != SL_UNSURE || is_write(trip))
        return false;
    return (trip->take || trip->ours || trip->pledged) &&
           trip->paused < PAUSE_MOST;
}

static enum sl_dynamo_status read_reply(struct sl_dynamo_op *trip,
                                        bool *ret_told, char why[SL_REPLY_WHY])
{
    struct sl_dynamo_call *call = &trip->call;
    struct sl_take_rows *sheet = &trip->sheet;
    struct sl_row *rows = sheet->rows;
    unsigned count = sheet->row_count;

    *ret_told = false;
    if (call->status == 0) {
        snprintf(why, SL_REPLY_WHY, "%.150s", call->fetch.why);
        return call->unsent ? SL_UNSENT : SL_UNSURE;
    }
    if (trip->phase == SL_DYNAMO_OP_WRITES) {
        count = trip->written < SL_PARTS;
        rows += count ? trip->written : 0;
    } else if (sl_journal_is_one(trip)) {
        /* What a step was answered with says nothing: the row is reviewed. */
        rows = sl_journal_row(trip);
        count = trip->phase == SL_DYNAMO_OP_REVIEWS;
    }
    return sl_dynamo_reply_read(call->status, call->reply, rows, count,
                                sheet->now, ret_told, why);
}

void sl_dynamo_op_on_reply(struct sl_dynamo_call *call)
{
    struct sl_dynamo_op *trip = (struct sl_dynamo_op *)call;
    struct sl_dynamo_client *seat = trip->seat;
    char why[SL_REPLY_WHY] = "";
    bool told = false;
    enum sl_dynamo_status answered = read_reply(trip, &told, why);

    sl_dynamo_client_heard(seat, call->status > 0, why);
    if (answered == SL_DYNAMO_ANSWERED) {
        on_answered(trip);
    } else if (answered == SL_UNMET) {
        on_unmet(trip, told);
    } else if (answered == SL_SKEWED && !trip->skewed) {
        trip->skewed = true; /* and by now the Date was seen */
        sl_dynamo_op_go_on(trip);
    } else if (may_pause(trip, answered)) {
        rest(trip, trip->paused++);
    } else {
        if (answered == SL_NO_TRANSACTION) {
            atomic_store(seat->in_steps, true);
            if (trip->take && trip->phase == SL_DYNAMO_OP_WRITES) {
                write_apart(trip);
                return;
            }
        }
        if (answered == SL_FORBIDDEN)
            sl_dynamo_http_doubt(seat->client);
        fail(trip, answered, why);
    }
}

/* ---- beginning, and the deadline ---- */

void sl_dynamo_op_begin(struct sl_dynamo_op *trip)
{
    struct sl_take_rows *sheet = &trip->sheet;

    forget(trip);
    trip->phase =
        sl_take_rows_is_count(sheet) ? SL_DYNAMO_OP_COUNTS : SL_DYNAMO_OP_READS;
    sl_dynamo_op_go_on(trip);
}

void sl_dynamo_op_give_up(struct sl_dynamo_op *trip)
{
    struct sl_dynamo_client *seat = trip->seat;
    bool goes_on = sl_journal_is_one(trip)
                       ? sl_journal_give_up(trip)
                       : is_write(trip) && sl_dynamo_call_is_open(&trip->call);

    if (!trip->take)
        return;
    SL_DYNAMO_ADD(seat->counts.late);
    trip->take->sent = goes_on && is_write(trip);
    sl_dynamo_client_note(trip, false);
    trip->sheet.orphaned = true;
    seat->telling = goes_on ? trip : NULL;
    tell(trip, SLUICE_ESTORE);
    seat->telling = NULL;
    if (!goes_on)
        sl_dynamo_op_free(trip);
}

void sl_dynamo_op_abandon(struct sl_dynamo_op *trip)
{
    bool sent = is_write(trip) && sl_dynamo_call_is_open(&trip->call);

    if (sent) {
        SL_DYNAMO_ADD(trip->seat->counts.uncertain);
        sl_dynamo_op_lost(trip, false);
    }
    if (trip->take) {
        SL_DYNAMO_ADD(trip->seat->counts.failed);
        trip->take->sent = sent;
        tell(trip, SLUICE_ESTORE);
    }
    sl_dynamo_op_free(trip);
}

/* ---- trips come and go: those that have ended are kept for the next. */

#define SPARES     64
#define NAMES_MOST ((size_t)64 << 10)

static void on_deadline(void *ctx)
{
    sl_dynamo_op_give_up(ctx);
}

static void on_pause(void *ctx)
{
    sl_dynamo_op_go_on(ctx);
}

void sl_dynamo_op_destroy(struct sl_dynamo_op *trip)
{
    const struct sl_alloc *alloc = trip->seat->options.alloc;

    sl_dynamo_call_done(&trip->call);
    sl_timer_free(trip->timer);
    sl_timer_free(trip->pausing);
    sl_buf_done(&trip->sheet.names);
    sl_alloc_free(alloc, trip, sizeof(*trip));
}

static struct sl_dynamo_op *make(struct sl_dynamo_client *seat)
{
    struct sl_dynamo_op *trip =
        sl_alloc_new(seat->options.alloc, sizeof(*trip));

    if (!trip)
        return NULL;
    memset(trip, 0, sizeof(*trip));
    trip->seat = seat;
    sl_dynamo_call_init(&trip->call, seat->client);
    trip->call.done = sl_dynamo_op_on_reply;
    trip->sheet.slot = seat->lease_slot;
    sl_buf_init(&trip->sheet.names, NAMES_MOST, seat->options.alloc);
    if (sl_timer_new(seat->loop, on_deadline, trip, &trip->timer) ||
        sl_timer_new(seat->loop, on_pause, trip, &trip->pausing)) {
        sl_dynamo_op_destroy(trip);
        return NULL;
    }
    return trip;
}

struct sl_dynamo_op *sl_dynamo_op_new(struct sl_dynamo_client *seat)
{
    struct sl_dynamo_op *trip = TAILQ_FIRST(&seat->spare);

    if (trip) {
        TAILQ_REMOVE(&seat->spare, trip, links);
        seat->spare_count--;
    } else {
        trip = make(seat);
        if (!trip)
            return NULL;
    }
    sl_buf_clear(&trip->sheet.names);
    trip->take = NULL;
    trip->allowed = trip->tries = trip->keeps = trip->ours = false;
    trip->skewed = trip->ends_lease = trip->pledged = trip->apart = false;
    trip->asks.count = 0;
    trip->asks.frees = false;
    trip->again = trip->paused = 0;
    TAILQ_INSERT_TAIL(&seat->under_way, trip, links);
    atomic_store(&seat->counts.under_way, ++seat->under_way_count);
    return trip;
}

void sl_dynamo_op_free(struct sl_dynamo_op *trip)
{
    struct sl_dynamo_client *seat = trip->seat;

    sl_dynamo_op_lost(trip, !trip->ends_lease);
    sl_dynamo_call_cancel(&trip->call);
    sl_timer_stop(trip->timer);
    sl_timer_stop(trip->pausing);
    TAILQ_REMOVE(&seat->under_way, trip, links);
    atomic_store(&seat->counts.under_way, --seat->under_way_count);
    if (seat->spare_count >= SPARES || seat->closing) {
        sl_dynamo_op_destroy(trip);
        return;
    }
    TAILQ_INSERT_HEAD(&seat->spare, trip, links);
    seat->spare_count++;
}

/* ---- the leases of a seat: when they are asked for, and how they go
 * back. What a lease is stands in store/caches.h.
 *
 * To the table a lease is counted as any take is. Beside it stands what each
 * loop has, for a reset to leave taken; no take looks at that. So a lease must
 * not be spent when a refill may have covered it. Of a window, a quota and an
 * interval it dies with these; of a bucket it melts. A machine that is gone
 * keeps what it had leased of a window until that ends; a bucket refills. */

#define LEASES 4096

/* What is kept of a part, behind its name. */
struct kept {
    struct sl_limit limit;
    struct sl_period period;
};

static int keep(const struct sl_store_part *part, sl_ns near,
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

/* ---- going back ---- */

static void send_end(struct sl_dynamo_op *trip, const struct sl_lease_end *end,
                     sl_ns now)
{
    struct sl_lease_rest rest = {.name = end->name,
                                 .amount = end->asks.words[0].left,
                                 .taken = (sl_ns)end->asks.words[0].till};
    struct kept kept;

    memcpy(&kept, end->numbers.at, sizeof(kept));
    rest.limit = kept.limit;
    rest.period = kept.period;
    trip->asks = end->asks;
    trip->ours = trip->ends_lease = true;
    trip->key = (struct sl_denial_key){.count = 1, .names = {end->place}};
    if (sl_take_rows_fill_rest(&trip->sheet, &rest, now))
        sl_dynamo_op_free(trip);
    else
        sl_dynamo_op_begin(trip);
}

/* Those that are due, or all of them. `now` is what leases count by, `wall`
 * what rows are judged at. Without memory what is left is lost. */
static void end_leases(struct sl_dynamo_client *seat, sl_ns now, sl_ns wall,
                       bool all)
{
    struct sl_lease_end end;

    while (sl_lease_cache_end(seat->leases, now, all, &end)) {
        struct sl_dynamo_op *trip =
            end.asks.frees ? sl_dynamo_op_new(seat) : NULL;
        struct sl_lease_counts counts = {0};

        if (trip) {
            send_end(trip, &end, wall);
            continue;
        }
        sl_lease_cache_lost(seat->leases, &end.asks, false, &counts);
        atomic_fetch_add(&seat->counts.lease_under, counts.under);
    }
}

static sl_ns wall_of(const struct sl_dynamo_client *seat)
{
    return sl_loop_now(seat->loop) + sl_dynamo_http_skew(seat->client);
}

static void wait_for_next(struct sl_dynamo_client *seat)
{
    sl_ns due = sl_lease_cache_due(seat->leases);
    sl_ns now = sl_loop_mono(seat->loop);

    if (due != SL_NS_NONE && !seat->options.own_now)
        sl_timer_start(seat->lease_timer, due > now ? due - now : 0);
}

static void on_lease_timer(void *ctx)
{
    struct sl_dynamo_client *seat = ctx;

    end_leases(seat, sl_loop_mono(seat->loop), wall_of(seat), false);
    wait_for_next(seat);
}

void sl_dynamo_client_drain(struct sl_dynamo_client *seat, sl_ns now)
{
    bool own = seat->options.own_now;

    seat->drains = true;
    if (seat->leases)
        end_leases(seat, own ? now : sl_loop_mono(seat->loop),
                   own ? now : wall_of(seat), true);
}

/* ---- taking ---- */

/* False if there are none to be had. */
static bool open_leases(struct sl_dynamo_client *seat)
{
    unsigned most =
        seat->options.leases_most ? seat->options.leases_most : LEASES;

    if (!seat->lease_timer &&
        sl_timer_new(seat->loop, on_lease_timer, seat, &seat->lease_timer))
        return false;
    return seat->leases ||
           !sl_lease_cache_open(most, keep, true, seat->options.alloc,
                                &seat->leases);
}

bool sl_dynamo_client_leases(struct sl_dynamo_client *seat,
                             const struct sl_take *take,
                             struct sl_lease_keys *ret)
{
    if (seat->options.no_leases || seat->drains ||
        !sl_lease_cache_apply(take) || !open_leases(seat))
        return false;
    sl_lease_keys(&seat->shared->forgets, take, ret);
    return true;
}

void sl_dynamo_op_ask_leases(struct sl_dynamo_op *trip,
                             const struct sl_lease_keys *keys)
{
    struct sl_dynamo_client *seat = trip->seat;
    struct sl_take_rows *sheet = &trip->sheet;

    sl_lease_cache_ask(seat->leases, keys, trip->take, 0, sheet->now,
                       sl_dynamo_client_time(seat, trip->take), &trip->asks);
    for (unsigned i = 0; i < trip->asks.count; i++) {
        const struct sl_lease_request *word = &trip->asks.words[i];

        sheet->lease[sheet->row_of[i]] = (struct sl_row_lease){
            .want = word->want, .back = word->left, .taken = (sl_ns)word->till};
    }
    if (trip->asks.frees) { /* what was refused so far may pass now */
        sl_denial_forgets_add(&seat->shared->forgets, &trip->key);
        trip->key = sl_denial_key(&seat->shared->forgets, trip->take);
    }
}

/* ---- landing ---- */

static void land(struct sl_dynamo_op *trip, unsigned i)
{
    const struct sl_take_rows *sheet = &trip->sheet;
    unsigned k = sheet->row_of[i];
    sl_ns life = sl_take_rows_lease_end(sheet, k) - sheet->now;
    struct sl_lease_grant grant = {
        .has = sheet->lease[k].has,
        .life = life < SL_S ? life : SL_S,
        .till = (uint64_t)sheet->now,
        .remaining = sheet->parts[i].answer.remaining,
        .reset_in = sheet->parts[i].answer.reset_in,
    };

    if (sl_lease_cache_granted(trip->seat->leases, &trip->asks, i, &grant,
                               trip->sent))
        atomic_fetch_add(&trip->seat->counts.lease_tokens, grant.has);
}

void sl_dynamo_op_landed(struct sl_dynamo_op *trip)
{
    struct sl_dynamo_client *seat = trip->seat;

    if (trip->asks.count == 0)
        return;
    for (unsigned i = 0; i < trip->asks.count; i++)
        if (trip->asks.list[i] && trip->ends_lease)
            (void)sl_lease_cache_granted(seat->leases, &trip->asks, i, NULL, 0);
        else if (trip->asks.list[i])
            land(trip, i);
    trip->asks.count = 0;
    if (trip->asks.frees)
        sl_denial_forgets_add(&seat->shared->forgets, &trip->key);
    if (seat->drains && trip->take) /* it was asked for before that */
        sl_dynamo_client_drain(seat, trip->take->now);
    else
        wait_for_next(seat);
}

void sl_dynamo_op_lost(struct sl_dynamo_op *trip, bool unsent)
{
    struct sl_lease_counts counts = {0};

    if (trip->asks.count == 0)
        return;
    sl_lease_cache_lost(trip->seat->leases, &trip->asks, unsent, &counts);
    atomic_fetch_add(&trip->seat->counts.lease_under, counts.under);
}
