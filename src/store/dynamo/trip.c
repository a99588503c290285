/* trip.c -- a take on its way: read, judged, written; or too late.
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

#include "store/dynamo/seat.h"

#define AGAIN_MOST 64 /* when somebody came between; a deadline is sooner */
#define PAUSE_MOST 3  /* when it is throttled */
#define PAUSE      (4 * SL_MS)
#define DENIALS    1024
#define PATIENCE   (5 * SL_S) /* for one call: writes outlive their deadline */

/* ---- ends ---- */

static bool frees(enum sl_errand errand)
{
    return errand == SL_ERRAND_GIVE_BACK || errand == SL_ERRAND_RESET;
}

static void forget(const struct sl_trip *trip)
{
    if (frees(trip->sheet.errand))
        sl_forgets_add(&trip->seat->shared->forgets, &trip->key);
}

/* (1) */
static void tell(struct sl_trip *trip, int err)
{
    struct sl_take *take = trip->take;

    sl_timer_stop(trip->timer);
    trip->take = NULL;
    take->err = err;
    take->allowed = !err && trip->allowed;
    if (!err)
        sl_sheet_tell(&trip->sheet, take);
    take->done(take);
}

/* Can an answer be asked for again? Of a set in steps all can but the steps:
 * its marks say what has happened. */
static bool is_write(const struct sl_trip *trip)
{
    return trip->phase == SL_TRIP_COUNTS || trip->phase == SL_TRIP_WRITES ||
           trip->phase == SL_TRIP_STEPS;
}

/* May the endpoint have done it, and we not know? */
static bool is_uncertain(const struct sl_trip *trip, enum sl_answered answered)
{
    if (sl_steps_is_one(trip) && !sl_steps_is_last(trip))
        return false; /* whatever it was, it is undone */
    return answered == SL_UNSURE && is_write(trip);
}

static void fail(struct sl_trip *trip, enum sl_answered answered,
                 const char *why)
{
    struct sl_dynamo_seat *seat = trip->seat;
    bool uncertain = is_uncertain(trip, answered);

    sl_dynamo_seat_trouble(seat, answered, why);
    if (uncertain || (trip->ours && !trip->ends_lease))
        SL_DYNAMO_ADD(seat->counts.uncertain);
    sl_trip_lost(trip, !uncertain && !trip->ends_lease);
    forget(trip);
    if (trip->take) {
        SL_DYNAMO_ADD(seat->counts.failed);
        trip->take->sent = uncertain;
        /* Whoever says that has answered. */
        sl_dynamo_seat_note(trip, answered == SL_UNMET ||
                                      answered == SL_NO_TRANSACTION);
        tell(trip, SLUICE_ESTORE);
    }
    sl_trip_free(trip);
}

static void remember(struct sl_trip *trip)
{
    struct sl_dynamo_seat *seat = trip->seat;
    unsigned most =
        seat->options.denials_most ? seat->options.denials_most : DENIALS;
    struct sl_take *take = trip->take;
    sl_ns now = seat->options.own_now ? take->now : sl_loop_steady(seat->loop);

    if (trip->sheet.errand != SL_ERRAND_TAKE || trip->allowed ||
        seat->options.no_denials)
        return;
    if (!seat->denials &&
        sl_far_denials_open(most, seat->options.alloc, &seat->denials))
        return; /* there is no memory: then it is asked for again */
    take->allowed = false;
    sl_sheet_tell(&trip->sheet, take);
    sl_denials_add(seat->denials, &trip->key, &seat->shared->forgets, take,
                   trip->sent, now);
}

static sl_ns now_of(struct sl_dynamo_seat *seat)
{
    return sl_loop_now(seat->loop) + sl_dynamo_client_skew(seat->client);
}

/* It was written, but whoever asked was told that it has failed. */
static void land_late(struct sl_trip *trip)
{
    struct sl_dynamo_seat *seat = trip->seat;
    bool takes = trip->sheet.errand == SL_ERRAND_TAKE;

    if (!takes)
        SL_DYNAMO_ADD(seat->counts.uncertain);
    if (!takes || !trip->allowed || trip->keeps || seat->closing) {
        sl_trip_free(trip);
        return;
    }
    sl_sheet_turn(&trip->sheet,
                  seat->options.own_now ? trip->sheet.now : now_of(seat));
    trip->ours = true;
    trip->again = trip->paused = 0;
    sl_trip_begin(trip);
}

/* All that was asked for is done. */
void sl_trip_finish(struct sl_trip *trip)
{
    struct sl_dynamo_seat *seat = trip->seat;

    forget(trip);
    sl_trip_landed(trip);
    if (trip->take) {
        sl_dynamo_seat_note(trip, true);
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
        sl_steps_clear(trip);
    else
        sl_trip_free(trip);
}

/* ---- calls ---- */

static int put_write(struct sl_trip *trip, const char **ret_operation)
{
    struct sl_sheet *sheet = &trip->sheet;
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

static int put_body(struct sl_trip *trip, const char **ret_operation)
{
    struct sl_sheet *sheet = &trip->sheet;
    struct sl_str table = trip->seat->options.where.table;
    struct sl_buf *out = &trip->call.body;
    struct sl_row_count count;

    sl_buf_clear(out);
    switch (trip->phase) {
    case SL_TRIP_READS:
        *ret_operation = sheet->row_count == 1 ? "GetItem" : "BatchGetItem";
        return sheet->row_count == 1
                   ? sl_row_put_get(out, table, &sheet->rows[0])
                   : sl_row_put_batch(out, table, sheet->rows,
                                      sheet->row_count);
    case SL_TRIP_COUNTS:
        *ret_operation = "UpdateItem";
        count = sl_sheet_count(sheet);
        return sl_row_put_count(out, table, &sheet->rows[0], &count);
    case SL_TRIP_WRITES:
        return put_write(trip, ret_operation);
    default:
        return sl_steps_put(trip, ret_operation);
    }
}

/* Ask what its phase asks. */
void sl_trip_go_on(struct sl_trip *trip)
{
    const char *operation = "";
    int err;

    if (sl_steps_turn(trip))
        return;
    err = put_body(trip, &operation);
    if (!err)
        err = sl_call_send(&trip->call, operation, PATIENCE);
    if (!err) {
        SL_DYNAMO_ADD(trip->seat->counts.asked);
        return;
    }
    fail(trip, SL_UNSENT,
         err == SLUICE_ESTORE ? "no AWS credentials" : "out of memory");
}

static void rest(struct sl_trip *trip, unsigned turn)
{
    sl_ns most = PAUSE << (turn < 4 ? turn : 4);

    sl_timer_start(trip->pausing, sl_dice_jitter(&trip->seat->dice, most));
}

/* The first row that changed; of a take, the first from which nothing is taken:
 * it is healed, and so for itself. SL_PARTS: none. */
static unsigned one_to_write(const struct sl_trip *trip, bool heals)
{
    const struct sl_sheet *sheet = &trip->sheet;

    heals = heals && trip->allowed;
    for (unsigned k = 0; k < sheet->row_count; k++)
        if (sheet->rows[k].changed && (!heals || sheet->cost[k] == 0))
            return k;
    return SL_PARTS;
}

/* Without transactions: a row alone; in steps, if it may be; or not at all. */
static void write_apart(struct sl_trip *trip)
{
    bool takes = trip->sheet.errand == SL_ERRAND_TAKE;

    trip->phase = SL_TRIP_WRITES;
    trip->written = SL_PARTS;
    if (sl_sheet_writes(&trip->sheet) == 1)
        trip->written = one_to_write(trip, false);
    else if (takes)
        trip->written = one_to_write(trip, true);
    if (trip->written < SL_PARTS) {
        sl_trip_go_on(trip);
    } else if (!trip->apart || !sl_steps_begin(trip)) {
        trip->phase = SL_TRIP_READS; /* nothing was sent */
        SL_DYNAMO_ADD(trip->seat->counts.spanning);
        fail(trip, SL_NO_TRANSACTION, "");
    }
}

/* One row is written: without transactions there may be others. */
static void on_written(struct sl_trip *trip)
{
    struct sl_sheet *sheet = &trip->sheet;

    if (trip->written < SL_PARTS)
        sheet->rows[trip->written].changed = false;
    if (trip->take && trip->written < SL_PARTS && sl_sheet_writes(sheet) > 0)
        write_apart(trip);
    else
        sl_trip_finish(trip);
}

/* The rows say what is: decide, and write what must be. */
static void decide(struct sl_trip *trip)
{
    struct sl_sheet *sheet = &trip->sheet;
    unsigned writes;

    trip->allowed = sl_sheet_judge(sheet);
    writes = sl_sheet_writes(sheet);
    if (writes == 0) {
        sl_trip_finish(trip);
        return;
    }
    trip->phase = SL_TRIP_WRITES;
    trip->written = SL_PARTS;
    if (atomic_load(trip->seat->in_steps)) {
        write_apart(trip);
        return;
    }
    if (writes == 1 && sl_sheet_leans(sheet) == 0)
        trip->written = one_to_write(trip, false);
    sl_trip_go_on(trip);
}

/* A window was counted: what it was before, and what that means. */
static void on_counted(struct sl_trip *trip)
{
    struct sl_row *row = &trip->sheet.rows[0];
    int64_t before = (int64_t)row->cell.w[1] - sl_sheet_count(&trip->sheet).add;

    if (!row->there || before < 0) {
        fail(trip, SL_UNSURE, "the count was not written by Sluice");
        return;
    }
    row->cell = sl_row_cell(row, (uint64_t)before, trip->sheet.now);
    trip->allowed = sl_sheet_judge(&trip->sheet);
    sl_trip_finish(trip);
}

/* Nothing has happened, since another was there first. */
static void on_unmet(struct sl_trip *trip, bool told)
{
    SL_DYNAMO_ADD(trip->seat->counts.unmet);
    if (sl_steps_is_one(trip)) {
        sl_steps_on_unmet(trip);
        return;
    }
    if (!trip->take && !trip->ours) {
        sl_trip_free(trip); /* too late, and not taken */
        return;
    }
    trip->phase = SL_TRIP_READS;
    sl_trip_again(trip, told);
}

void sl_trip_again(struct sl_trip *trip, bool told)
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
        sl_trip_go_on(trip);
}

static void on_answered(struct sl_trip *trip)
{
    switch (trip->phase) {
    case SL_TRIP_READS:
        decide(trip);
        break;
    case SL_TRIP_COUNTS:
        on_counted(trip);
        break;
    case SL_TRIP_WRITES:
        on_written(trip);
        break;
    default:
        sl_steps_on_answer(trip);
        break;
    }
}

static bool may_pause(struct sl_trip *trip, enum sl_answered answered)
{
    if (answered == SL_THROTTLED)
        SL_DYNAMO_ADD(trip->seat->counts.throttled);
    else if (answered != SL_UNSURE || is_write(trip))
        return false;
    return (trip->take || trip->ours || trip->pledged) &&
           trip->paused < PAUSE_MOST;
}

static enum sl_answered read_reply(struct sl_trip *trip, bool *ret_told,
                                   char why[SL_REPLY_WHY])
{
    struct sl_call *call = &trip->call;
    struct sl_sheet *sheet = &trip->sheet;
    struct sl_row *rows = sheet->rows;
    unsigned count = sheet->row_count;

    *ret_told = false;
    if (call->status == 0) {
        snprintf(why, SL_REPLY_WHY, "%.150s", call->fetch.why);
        return call->unsent ? SL_UNSENT : SL_UNSURE;
    }
    if (trip->phase == SL_TRIP_WRITES) {
        count = trip->written < SL_PARTS;
        rows += count ? trip->written : 0;
    } else if (sl_steps_is_one(trip)) {
        /* What a step was answered with says nothing: the row is reviewed. */
        rows = sl_steps_row(trip);
        count = trip->phase == SL_TRIP_REVIEWS;
    }
    return sl_reply_read(call->status, call->reply, rows, count, sheet->now,
                         ret_told, why);
}

void sl_trip_on_reply(struct sl_call *call)
{
    struct sl_trip *trip = (struct sl_trip *)call;
    struct sl_dynamo_seat *seat = trip->seat;
    char why[SL_REPLY_WHY] = "";
    bool told = false;
    enum sl_answered answered = read_reply(trip, &told, why);

    sl_dynamo_seat_heard(seat, call->status > 0, why);
    if (answered == SL_ANSWERED) {
        on_answered(trip);
    } else if (answered == SL_UNMET) {
        on_unmet(trip, told);
    } else if (answered == SL_SKEWED && !trip->skewed) {
        trip->skewed = true; /* and by now the Date was seen */
        sl_trip_go_on(trip);
    } else if (may_pause(trip, answered)) {
        rest(trip, trip->paused++);
    } else {
        if (answered == SL_NO_TRANSACTION) {
            atomic_store(seat->in_steps, true);
            if (trip->take && trip->phase == SL_TRIP_WRITES) {
                write_apart(trip);
                return;
            }
        }
        if (answered == SL_FORBIDDEN)
            sl_dynamo_client_doubt(seat->client);
        fail(trip, answered, why);
    }
}

/* ---- beginning, and the deadline ---- */

void sl_trip_begin(struct sl_trip *trip)
{
    struct sl_sheet *sheet = &trip->sheet;

    forget(trip);
    trip->phase = sl_sheet_is_count(sheet) ? SL_TRIP_COUNTS : SL_TRIP_READS;
    sl_trip_go_on(trip);
}

void sl_trip_give_up(struct sl_trip *trip)
{
    struct sl_dynamo_seat *seat = trip->seat;
    bool goes_on = sl_steps_is_one(trip)
                       ? sl_steps_give_up(trip)
                       : is_write(trip) && sl_call_is_open(&trip->call);

    if (!trip->take)
        return;
    SL_DYNAMO_ADD(seat->counts.late);
    trip->take->sent = goes_on && is_write(trip);
    sl_dynamo_seat_note(trip, false);
    trip->sheet.orphaned = true;
    seat->telling = goes_on ? trip : NULL;
    tell(trip, SLUICE_ESTORE);
    seat->telling = NULL;
    if (!goes_on)
        sl_trip_free(trip);
}

void sl_trip_abandon(struct sl_trip *trip)
{
    bool sent = is_write(trip) && sl_call_is_open(&trip->call);

    if (sent) {
        SL_DYNAMO_ADD(trip->seat->counts.uncertain);
        sl_trip_lost(trip, false);
    }
    if (trip->take) {
        SL_DYNAMO_ADD(trip->seat->counts.failed);
        trip->take->sent = sent;
        tell(trip, SLUICE_ESTORE);
    }
    sl_trip_free(trip);
}
