/* webhook_queue.c -- claims deliveries for a sender, and records results.
 *
 * The invariants are in webhook_db.h.
 */
#include <stdlib.h>
#include <string.h>

#include "registry/registry_int.h"
#include "registry/webhook_db.h"
#include "webhook/pace.h"

#define NEVER INT64_MAX

static sl_ns least(sl_ns a, sl_ns b)
{
    return a < b ? a : b;
}

int sl_webhook_schedule(struct sl_database *db, struct sl_str org,
                        struct sl_str endpoint, sl_ns now)
{
    return sl_query_run(db, SL_QUERY_SCHEDULE, "ttni", org, endpoint, now,
                        SL_WEBHOOK_LEASED);
}

/* Numbers of deliveries that one query changes; 0: none. */
#define GROUP 8
_Static_assert(GROUP == SL_WEBHOOK_LEASED,
               "what a claim leases of an endpoint");
#define EACH_OF(n)                                                             \
    (n)[0], (n)[1], (n)[2], (n)[3], (n)[4], (n)[5], (n)[6], (n)[7]

/* ---- claims ---- */

struct lane {
    struct sl_str id, org, url, secret, old_secret;
    int64_t old_until;
    sl_ns updated;
};

struct claim {
    struct sl_database *db;
    struct sl_job *job;
    struct sl_webhook_job *w;
    struct sl_writer out;
    struct lane *lanes;
    unsigned lane_count;
};

/* Locks the endpoints that have something to send, and copies them. */
static int find_lanes(struct claim *c)
{
    const enum sl_query q = SL_QUERY_CLAIM_ENDPOINTS;
    unsigned most = c->w->endpoints;
    int found = 0;

    c->lanes = sl_arena_take(&c->db->arena, most * sizeof(*c->lanes));
    if (!c->lanes)
        return sl_diag_error(&c->db->diag, SLUICE_ENOMEM, "out of memory");
    sl_query_bind(c->db, q, "ni", c->job->now, most);
    while (c->lane_count < most) {
        struct lane *l = &c->lanes[c->lane_count];

        found = sl_query_next(c->db, q, &c->db->arena, "tttttnn", &l->id,
                              &l->org, &l->url, &l->secret, &l->old_secret,
                              &l->old_until, &l->updated);
        if (found != 1)
            break;
        c->lane_count++;
    }
    sl_query_reset(c->db, q);
    return found < 0 ? found : 0;
}

/* The pace of a destination: its cell, while a claim takes from it. */
struct pace {
    struct sl_cell cell;
    bool is_read, changed;
    sl_ns retry_in; /* > 0: it is exhausted */
};

/* (5) */
static int take_pace(struct claim *c, const struct lane *lane,
                     struct pace *pace, bool *ret_allowed)
{
    int64_t w0 = 0, w1 = 0;
    struct sl_cell before;
    sl_ns wait;
    int found;

    *ret_allowed = true;
    if (c->w->unlimited)
        return 0;
    if (!pace->is_read) {
        found = sl_query_one(c->db, SL_QUERY_DESTINATION, "tn nn", lane->url,
                             c->job->now, &w0, &w1);
        if (found < 0)
            return found;
        pace->cell = sl_cell_of((uint64_t)w0, (uint64_t)w1);
        pace->is_read = true;
    }
    before = pace->cell;
    wait = sl_pace_take(&c->w->limit, &pace->cell, c->job->now);
    *ret_allowed = wait == 0;
    if (wait > 0)
        pace->retry_in = wait;
    pace->changed |= !sl_cell_eq(before, pace->cell);
    return 0;
}

/* A claim has reserved the destination until its result: the next one has its
 * distance from the arrival. Endpoints that wait for the end of the reservation
 * wait for that instead. If it is over, another may have taken. */
static int move_pace(struct sl_database *db, const struct sl_webhook_job *w,
                     const struct sl_webhook_result *r, sl_ns now)
{
    sl_ns old, new;
    int err;

    if (w->unlimited || !sl_pace_is_even(&w->limit))
        return 0;
    old = sl_pace_reserved(&w->limit, r->taken);
    new = sl_pace_after(&w->limit, r->taken, r->arrived);
    if (old <= now)
        return 0;
    err = sl_query_run(db, SL_QUERY_MOVE_DESTINATION, "tnn", r->url, old, new);
    return err ? err
               : sl_query_run(db, SL_QUERY_MOVE_NOT_BEFORE, "ttnn", r->url,
                              r->endpoint, old, new);
}

static void write_claimed(struct claim *c, const struct lane *lane,
                          struct sl_webhook_claimed *row,
                          const struct sl_str texts[SL_CLAIMED_ENDPOINT])
{
    bool has_old = lane->old_until > c->job->now;
    const struct sl_str all[SL_CLAIMED_TEXTS] = {
        texts[SL_CLAIMED_MESSAGE],
        texts[SL_CLAIMED_TYPE],
        texts[SL_CLAIMED_PAYLOAD],
        lane->id,
        lane->org,
        lane->url,
        lane->secret,
        has_old ? lane->old_secret : SL_STR(""),
    };

    for (unsigned i = 0; i < SL_CLAIMED_TEXTS; i++)
        row->lens[i] = all[i].len;
    sl_writer_add(&c->out, (struct sl_str){(const char *)row, sizeof(*row)});
    for (unsigned i = 0; i < SL_CLAIMED_TEXTS; i++)
        sl_writer_add(&c->out, all[i]);
    c->w->claimed++;
}

/* Leases what is due of one endpoint, at most `room`. (3) */
static int lease_due(struct claim *c, const struct lane *lane, int64_t room,
                     struct pace *pace)
{
    const enum sl_query q = SL_QUERY_DUE;
    struct sl_webhook_claimed row = {.lease = c->job->now + c->w->lease,
                                     .updated = lane->updated};
    struct sl_str texts[SL_CLAIMED_ENDPOINT];
    uint64_t numbers[GROUP] = {0};
    unsigned count = 0;
    bool allowed = true;
    int found = 0, err = 0;

    sl_query_bind(c->db, q, "tnit", lane->id, c->job->now, SL_WEBHOOK_LEASED,
                  lane->org);
    while (!err && allowed && count < room && c->job->text.len < c->w->bytes &&
           (found = sl_query_next(
                c->db, q, NULL, "ccncttt", &row.number, &row.tries, &row.at,
                &row.held, &texts[SL_CLAIMED_MESSAGE], &texts[SL_CLAIMED_TYPE],
                &texts[SL_CLAIMED_PAYLOAD])) == 1) {
        err = take_pace(c, lane, pace, &allowed);
        if (err || !allowed)
            break;
        numbers[count++] = row.number;
        write_claimed(c, lane, &row, texts);
    }
    sl_query_reset(c->db, q);
    if (!err && found < 0)
        err = found;
    if (!err && count > 0)
        err = sl_query_run(c->db, SL_QUERY_LEASE_DELIVERIES, "ncccccccc",
                           row.lease, EACH_OF(numbers));
    return err ? err : c->out.err;
}

static int end_pace(struct claim *c, const struct lane *lane,
                    const struct pace *pace)
{
    int err = 0;

    if (pace->changed)
        err = sl_query_run(c->db, SL_QUERY_PUT_DESTINATION, "tnn", lane->url,
                           (int64_t)pace->cell.w[0], (int64_t)pace->cell.w[1]);
    if (!err && pace->retry_in > 0) {
        c->w->paced++;
        err = sl_query_run(c->db, SL_QUERY_SET_NOT_BEFORE, "tn", lane->id,
                           c->job->now + pace->retry_in);
    }
    return err;
}

static int claim_lane(struct claim *c, const struct lane *lane)
{
    struct pace pace = {.is_read = false};
    int64_t leased = 0, of_org = 0, room;
    sl_ns end = 0;
    int err, found = sl_query_one(c->db, SL_QUERY_LEASED_TO_ENDPOINT, "ttn n",
                                  lane->org, lane->id, c->job->now, &leased);

    if (found >= 0)
        found = sl_query_one(c->db, SL_QUERY_LEASED_TO_ORG, "tn nn", lane->org,
                             c->job->now, &of_org, &end);
    if (found < 0)
        return found;
    room = least(SL_WEBHOOK_LEASED - leased,
                 SL_WEBHOOK_LEASED_ORG - of_org); /* (4) */
    if (of_org >= SL_WEBHOOK_LEASED_ORG) /* a result of the org wakes it */
        return sl_query_run(c->db, SL_QUERY_SET_NEXT, "tn", lane->id,
                            least(end, c->job->now + SL_S));
    err = lease_due(c, lane, room, &pace);
    if (!err)
        err = end_pace(c, lane, &pace);
    return err ? err
               : sl_webhook_schedule(c->db, lane->org, lane->id, c->job->now);
}

/* Lanes whose rows are read with one round trip. Each may have 2 MiB of them.
 */
#define AHEAD 8

/* Sends ahead what claim_lane() reads of the lanes from `first` on. What two
 * lanes have in common (an organisation, a destination) is read again by the
 * second one: it must see what the first has written. */
static int read_ahead(struct claim *c, unsigned first)
{
    sl_ns now = c->job->now;
    int err = 0;

    for (unsigned i = first; i < first + AHEAD && i < c->lane_count; i++) {
        const struct lane *l = &c->lanes[i];

        err = sl_query_prefetch(c->db, SL_QUERY_LEASED_TO_ENDPOINT, "ttn",
                                l->org, l->id, now);
        if (!err)
            err = sl_query_prefetch(c->db, SL_QUERY_LEASED_TO_ORG, "tn", l->org,
                                    now);
        if (!err)
            err = sl_query_prefetch(c->db, SL_QUERY_DUE, "tnit", l->id, now,
                                    SL_WEBHOOK_LEASED, l->org);
        if (!err && !c->w->unlimited)
            err = sl_query_prefetch(c->db, SL_QUERY_DESTINATION, "tn", l->url,
                                    now);
        if (err)
            return err;
    }
    return sl_query_fetch(c->db);
}

int sl_webhook_claim(struct sl_database *db, struct sl_job *job)
{
    struct claim c = {
        .db = db, .job = job, .w = job->webhook, .out = {.out = &job->text}};
    int found, err;

    c.w->claimed = c.w->paced = 0;
    c.w->next = NEVER;
    err = find_lanes(&c);
    for (unsigned i = 0; i < c.lane_count && !err; i++) {
        if (job->text.len >= c.w->bytes)
            break;
        if (i % AHEAD == 0)
            err = read_ahead(&c, i);
        if (!err)
            err = claim_lane(&c, &c.lanes[i]);
    }
    if (!err)
        err = sl_query_fetch(db); /* to forget what is left */
    if (err)
        return err;
    found = sl_query_one(db, SL_QUERY_NEXT_CLAIM, " w", &c.w->next);
    if (found == 0 || c.w->next == SL_NS_NONE)
        c.w->next = NEVER;
    return found < 0 ? found : 0;
}

/* ---- results ---- */

static int put_attempt(struct sl_database *db,
                       const struct sl_webhook_result *r)
{
    struct sl_str answer = r->answer;

    if (answer.len > SL_WEBHOOK_KEPT)
        answer.len = SL_WEBHOOK_KEPT;
    return sl_query_run(db, SL_QUERY_PUT_ATTEMPT, "tttniinttnw", r->message,
                        r->endpoint, r->org, r->at, (int)r->tries,
                        r->attempt.status, r->took, r->error, answer,
                        (int64_t)r->retry.result,
                        r->retry.result == SL_ATTEMPT_RETRY
                            ? r->at + r->took + r->retry.retry_in
                            : SL_NS_NONE);
}

static int put_result(struct sl_database *db, struct sl_webhook_result *r,
                      sl_ns now)
{
    sl_ns due =
        r->retry.result == SL_ATTEMPT_RETRY ? now + r->retry.retry_in : now;
    struct sl_str id;
    int found, err = put_attempt(db, r);

    if (!err)
        err = sl_query_run(db, SL_QUERY_END_DELIVERY, "ciin", r->number,
                           r->retry.result == SL_ATTEMPT_RETRY  ? 0
                           : r->retry.result == SL_ATTEMPT_DEAD ? 2
                                                                : 1,
                           (int)r->tries + 1, due);
    if (!err && r->retry.result == SL_ATTEMPT_DELIVERED)
        err = sl_query_run(db, SL_QUERY_RESET_FAILURES, "t", r->endpoint);
    else if (!err)
        err = sl_query_run(db, SL_QUERY_PUT_FAILURES, "tin", r->endpoint,
                           (int)r->retry.failures,
                           r->retry.slow > 0 ? now + r->retry.slow : 0);
    if (err || !r->retry.disable)
        return err;
    found = sl_query_one(db, SL_QUERY_DISABLE_ENDPOINT, "ttn t", r->endpoint,
                         sl_str_c(r->retry.disable), now, &id);
    r->disabled = found == 1;
    r->is_old |= r->disabled;
    return found < 0 ? found : 0;
}

/* Of the endpoint of a result, as it is now. */
static int read_endpoint(struct sl_database *db, struct sl_webhook_result *r,
                         int64_t *failures)
{
    sl_ns updated = 0;
    int found = sl_query_one(db, SL_QUERY_FAILURES, "t nn", r->endpoint,
                             failures, &updated);

    r->is_old = found == 0 || updated != r->updated;
    return found;
}

/* The counts of the rows decide, not those of the sender: several senders may
 * have deliveries of an endpoint. */
static int judge(struct sl_database *db, struct sl_webhook_result *r)
{
    int64_t failures = 0;
    int found;

    r->attempt.before = r->tries;
    r->attempt.failures = 0;
    sl_retry_judge(&r->attempt, &r->retry);
    if (r->retry.result == SL_ATTEMPT_DELIVERED && !r->has_next)
        return 0;
    found = read_endpoint(db, r, &failures);
    r->attempt.failures = (unsigned)failures;
    sl_retry_judge(&r->attempt, &r->retry);
    return found < 0 ? found : 0;
}

/* A result that comes too late, when another sender has the delivery, is
 * logged; it ends the delivery if it is a success. */
static int record_one(struct sl_database *db, struct sl_webhook_result *r,
                      sl_ns now)
{
    int64_t state = 0, tries = 0, lease = 0;
    int err, found = sl_query_one(db, SL_QUERY_DELIVERY, "c nnn", r->number,
                                  &state, &tries, &lease);

    r->disabled = false;
    r->known = false;
    r->is_old = found == 0;
    if (found <= 0)
        return found; /* it was erased: nothing of it is written */
    if (r->held && sl_query_run(db, SL_QUERY_RELEASE_MESSAGE, "t", r->message))
        return SLUICE_ESTORE;
    if (r->returned)
        return sl_query_run(db, SL_QUERY_RETURN_DELIVERY, "cnn", r->number,
                            r->not_before, r->lease);
    err = judge(db, r);
    if (err)
        return err;
    r->known =
        state == 0 && ((tries == (int64_t)r->tries && lease == r->lease) ||
                       r->retry.result == SL_ATTEMPT_DELIVERED);
    return r->known ? put_result(db, r, now) : put_attempt(db, r);
}

static int by_endpoint(const void *a, const void *b)
{
    const struct sl_webhook_result *const *x = a, *const *y = b;

    size_t n = (*x)->endpoint.len, m = (*y)->endpoint.len;
    int order = memcmp((*x)->endpoint.at, (*y)->endpoint.at, n < m ? n : m);

    return order != 0 ? order : (n > m) - (n < m);
}

/* Locks the endpoints before anything is read: a message that is queued, or the
 * result of another sender, changes the same rows, and what is not seen here
 * would not wake the endpoint. In the order of their ids, so that two senders
 * do not wait for each other. */
static int lock_endpoints(struct sl_database *db,
                          const struct sl_webhook_job *w)
{
    const struct sl_webhook_result **list;
    int err = 0;

    if (!db->driver->lock) /* the transaction has the database */
        return 0;
    list = sl_arena_take(&db->arena, w->count * sizeof(const void *));
    if (!list)
        return sl_diag_error(&db->diag, SLUICE_ENOMEM, "out of memory");
    for (unsigned i = 0; i < w->count; i++)
        list[i] = &w->results[i];
    qsort(list, w->count, sizeof(const void *), by_endpoint);
    for (unsigned i = 0; i < w->count && !err; i++)
        if (i == 0 || by_endpoint(&list[i - 1], &list[i]) != 0)
            err = sl_query_run(db, SL_QUERY_LOCK_ENDPOINT, "t",
                               list[i]->endpoint);
    return err;
}

/* A success needs no look at its row, which most results are. */
static bool is_plain(const struct sl_webhook_result *r)
{
    return !r->returned && !r->held && r->attempt.status / 100 == 2;
}

/* The numbers of the next GROUP successes. Returns where to go on. */
static unsigned next_group(const struct sl_webhook_job *w, unsigned i,
                           uint64_t numbers[GROUP])
{
    unsigned count = 0;

    memset(numbers, 0, GROUP * sizeof(numbers[0]));
    for (; i < w->count && count < GROUP; i++)
        if (is_plain(&w->results[i]))
            numbers[count++] = w->results[i].number;
    return i;
}

/* One round trip for what is read of all results. */
static int read_results(struct sl_database *db, const struct sl_webhook_job *w)
{
    uint64_t numbers[GROUP];
    int err = lock_endpoints(db, w);

    for (unsigned i = 0; i < w->count && !err;) {
        i = next_group(w, i, numbers);
        if (numbers[0] > 0)
            err = sl_query_prefetch(db, SL_QUERY_ARE_WAITING, "icccccccc", 0,
                                    EACH_OF(numbers));
    }
    for (unsigned i = 0; i < w->count && !err; i++) {
        const struct sl_webhook_result *r = &w->results[i];

        if (!is_plain(r))
            err = sl_query_prefetch(db, SL_QUERY_DELIVERY, "c", r->number);
        if (!err && !r->returned)
            err = sl_query_prefetch(db, SL_QUERY_FAILURES, "t", r->endpoint);
    }
    return err ? err : sl_query_fetch(db);
}

static void note_delivered(const struct sl_webhook_job *w, unsigned first,
                           unsigned end, uint64_t number)
{
    for (unsigned i = first; i < end; i++)
        w->results[i].known |=
            is_plain(&w->results[i]) && w->results[i].number == number;
}

/* Ends the deliveries that have succeeded. `known` of the others: it was ended
 * before, or erased. */
static int put_delivered(struct sl_database *db, const struct sl_webhook_job *w,
                         sl_ns now)
{
    const enum sl_query q = SL_QUERY_ARE_WAITING;
    uint64_t numbers[GROUP], number = 0;
    unsigned end;
    int found = 0, err = 0;

    for (unsigned i = 0; i < w->count; i++)
        w->results[i].known = w->results[i].disabled = w->results[i].is_old =
            false;
    for (unsigned first = 0; first < w->count && !err; first = end) {
        end = next_group(w, first, numbers);
        if (numbers[0] == 0)
            continue;
        sl_query_bind(db, q, "icccccccc", 0, EACH_OF(numbers));
        while ((found = sl_query_next(db, q, NULL, "c", &number)) == 1)
            note_delivered(w, first, end, number);
        sl_query_reset(db, q);
        err = found < 0 ? found
                        : sl_query_run(db, SL_QUERY_DELIVERED, "ncccccccc", now,
                                       EACH_OF(numbers));
    }
    return err;
}

/* Of a success; `before` is the one before it, or NULL. One look at their
 * endpoint is enough. */
static int put_success(struct sl_database *db, struct sl_webhook_result *r,
                       const struct sl_webhook_result *before)
{
    int64_t failures = 0;
    int found, err;

    r->attempt.before = r->tries;
    r->attempt.failures = 0;
    sl_retry_judge(&r->attempt, &r->retry);
    err = put_attempt(db, r);
    if (err || (before && sl_str_eq(before->endpoint, r->endpoint)))
        return err;
    found = read_endpoint(db, r, &failures);
    if (found < 0 || failures == 0)
        return found < 0 ? found : 0;
    return sl_query_run(db, SL_QUERY_RESET_FAILURES, "t", r->endpoint);
}

int sl_webhook_record(struct sl_database *db, struct sl_job *job)
{
    struct sl_webhook_job *w = job->webhook;
    const struct sl_webhook_result *before = NULL;
    int err = read_results(db, w);

    if (!err)
        err = put_delivered(db, w, job->now);
    for (unsigned i = 0; i < w->count && !err; i++) {
        struct sl_webhook_result *r = &w->results[i];
        bool is_success = is_plain(r) && r->known;

        err = is_success ? put_success(db, r, before)
                         : record_one(db, r, job->now);
        before = is_success ? r : NULL;
        if (!err)
            err = move_pace(db, w, r, job->now);
        /* While others are leased, a success makes nothing due: the result of
         * the next one schedules, or the end of its lease. */
        if (!err && !(r->has_next && r->known &&
                      r->retry.result == SL_ATTEMPT_DELIVERED))
            err = sl_webhook_schedule(db, r->org, r->endpoint, job->now);
    }
    return err ? err : sl_query_fetch(db); /* to forget what is left */
}

/* ---- counts ---- */

int sl_webhook_count(struct sl_database *db, struct sl_webhook_counts *ret)
{
    int64_t waiting = 0, stopped = 0, dead = 0, disabled = 0;
    sl_ns oldest = 0;
    int found = sl_query_one(db, SL_QUERY_COUNT_WAITING, " n", &waiting);

    if (found >= 0)
        found = sl_query_one(db, SL_QUERY_COUNT_STOPPED, " n", &stopped);
    if (found >= 0)
        found = sl_query_one(db, SL_QUERY_COUNT_DEAD, " n", &dead);
    if (found >= 0)
        found = sl_query_one(db, SL_QUERY_COUNT_DISABLED, " n", &disabled);
    if (found >= 0)
        found = sl_query_one(db, SL_QUERY_OLDEST_DELIVERY, " n", &oldest);
    if (found < 0)
        return found;
    if (stopped > waiting) /* it came between the two */
        stopped = waiting;
    *ret = (struct sl_webhook_counts){.waiting = (uint64_t)(waiting - stopped),
                                      .dead = (uint64_t)dead,
                                      .disabled = (uint64_t)disabled,
                                      .oldest = oldest};
    return 0;
}
