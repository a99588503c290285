/* seat.c -- what one loop has of the store: its connection, and what is on its
 * way.
 *
 *     take --> flight --> reply -------------> answered
 *                |          |
 *                |          +-- NOSCRIPT: once more, with the text
 *                +-- deadline: failed; the flight goes on without its take
 *                               |
 *                               +-- reply: it had taken --> given back
 *
 * A record is a flight with its take. It is freed when its flight has ended
 * and its take was told, whichever comes last.
 */
#include "store/redis/seat.h"

#include <string.h>

#include "store/redis/script.h"

#define DEADLINE      (20 * SL_MS)
#define IN_FLIGHT     8192
#define FAILURES_MOST 5
#define PROBE_EVERY   (200 * SL_MS)
#define COMMAND_MOST  ((size_t)128 << 10)
#define CONNS         4

struct record {
    struct sl_flight flight; /* first */
    TAILQ_ENTRY(record) waits;
    struct sl_buf command; /* by the script's name */
    struct sl_buf whole;   /* with its text, if the server had to be told */
    struct sl_redis_seat *seat;
    struct sl_take *take; /* NULL: was told already */
    bool gives_back;
    bool repaired;
    bool takes;  /* it was to be taken, and can be given back */
    sl_ns until; /* steady */
};

struct sl_redis_seat {
    struct sl_redis_options options;
    struct sl_loop *loop;
    struct sl_conns *conns;
    struct sl_link *link;
    struct sl_timer *timer;
    TAILQ_HEAD(, record) waiting; /* by deadline: all have the same time */
    TAILQ_HEAD(, record) spare;
    unsigned spare_count;
    unsigned failures; /* in a row */
    sl_ns probe_at;    /* steady: when the next take may try */
    bool closing;
    struct sl_redis_counts counts;
};

#define ADD(counter)                                                           \
    atomic_fetch_add_explicit(&(counter), 1, memory_order_relaxed)

/* ---- the breaker ---- */

static bool may_try(struct sl_redis_seat *seat)
{
    sl_ns now;

    if (seat->failures < FAILURES_MOST)
        return true;
    now = sl_loop_steady(seat->loop);
    if (now < seat->probe_at)
        return false;
    seat->probe_at = now + PROBE_EVERY;
    return true;
}

static void note_success(struct sl_redis_seat *seat)
{
    if (seat->failures >= FAILURES_MOST)
        atomic_store(&seat->counts.open, false);
    seat->failures = 0;
}

static void note_failure(struct sl_redis_seat *seat)
{
    if (++seat->failures != FAILURES_MOST)
        return;
    seat->probe_at = sl_loop_steady(seat->loop) + PROBE_EVERY;
    atomic_store(&seat->counts.open, true);
}

/* ---- records ---- */

static void on_done(struct sl_flight *flight, enum sl_landing landing,
                    struct sl_str reply);

static struct record *record_new(struct sl_redis_seat *seat)
{
    struct record *r = TAILQ_FIRST(&seat->spare);

    if (r) {
        TAILQ_REMOVE(&seat->spare, r, waits);
        seat->spare_count--;
    } else {
        r = sl_alloc_new(seat->options.alloc, sizeof(*r));
        if (!r)
            return NULL;
        sl_buf_init(&r->command, COMMAND_MOST, seat->options.alloc);
        sl_buf_init(&r->whole, COMMAND_MOST, seat->options.alloc);
        r->seat = seat;
    }
    sl_buf_clear(&r->command);
    r->take = NULL;
    r->takes = r->gives_back = r->repaired = false;
    r->flight.done = on_done;
    return r;
}

static void record_free(struct record *r)
{
    struct sl_redis_seat *seat = r->seat;

    if (seat->spare_count < 256 && !seat->closing) {
        TAILQ_INSERT_HEAD(&seat->spare, r, waits);
        seat->spare_count++;
        return;
    }
    sl_buf_done(&r->command);
    sl_buf_done(&r->whole);
    sl_alloc_free(seat->options.alloc, r, sizeof(*r));
}

/* Tell whoever asked. */
static void tell(struct record *r, int err)
{
    struct sl_take *take = r->take;

    TAILQ_REMOVE(&r->seat->waiting, r, waits);
    r->take = NULL;
    take->err = err;
    if (err)
        take->allowed = false;
    take->done(take);
}

static void fail(struct record *r)
{
    ADD(r->seat->counts.failed);
    note_failure(r->seat);
    if (r->take)
        tell(r, SLUICE_ESTORE);
}

/* ---- giving back ---- */

static void give_back(struct record *r)
{
    struct sl_redis_seat *seat = r->seat;
    struct record *back = record_new(seat);

    if (!back || sl_script_give_back(sl_buf_str(&r->command), &back->command)) {
        ADD(seat->counts.uncertain);
        if (back)
            record_free(back);
        return;
    }
    ADD(seat->counts.returned);
    back->gives_back = true;
    back->flight.command = sl_buf_str(&back->command);
    sl_link_send(seat->link, &back->flight);
}

/* ---- replies ---- */

static bool read_numbers(struct sl_str reply, int64_t *numbers, unsigned *count)
{
    struct sl_resp_value array = sl_resp_next(&reply);

    if (array.type != SL_RESP_ARRAY || array.count > SL_SCRIPT_NUMBERS)
        return false;
    *count = (unsigned)array.count;
    for (unsigned i = 0; i < *count; i++) {
        struct sl_resp_value value = sl_resp_next(&reply);

        if (value.type != SL_RESP_INTEGER)
            return false;
        numbers[i] = value.integer;
    }
    return true;
}

static void note_said(struct sl_redis_seat *seat,
                      const struct sl_script_said *said)
{
    if (said->strange)
        atomic_fetch_add(&seat->counts.strange, said->strange);
    if (!seat->options.own_now)
        atomic_store_explicit(&seat->counts.ahead,
                              said->now - sl_loop_now(seat->loop),
                              memory_order_relaxed);
    note_success(seat);
}

static void on_numbers(struct record *r, const int64_t *numbers, unsigned count)
{
    struct sl_script_said said;

    if (!r->take) { /* told already */
        if (r->takes && count > 0 && numbers[0] == 1)
            give_back(r);
        return;
    }
    if (!sl_script_read(r->take, numbers, count, &said)) {
        fail(r);
        return;
    }
    note_said(r->seat, &said);
    ADD(r->seat->counts.taken);
    tell(r, 0);
}

static bool is_noscript(struct sl_str reply)
{
    struct sl_resp_value value = sl_resp_next(&reply);

    return value.type == SL_RESP_ERROR && value.text.len >= 8 &&
           memcmp(value.text.at, "NOSCRIPT", 8) == 0;
}

/* The server does not know the script: nothing has happened. True if it is
 * asked once more, and told. */
static bool repair(struct record *r)
{
    sl_buf_clear(&r->whole);
    if (r->repaired || sl_script_whole(sl_buf_str(&r->command), &r->whole))
        return false;
    ADD(r->seat->counts.repaired);
    r->repaired = true;
    r->flight.command = sl_buf_str(&r->whole);
    sl_link_send(r->seat->link, &r->flight);
    return true;
}

static void on_done(struct sl_flight *flight, enum sl_landing landing,
                    struct sl_str reply)
{
    struct record *r = (struct record *)flight;
    int64_t numbers[SL_SCRIPT_NUMBERS];
    unsigned count;

    if (landing == SL_LANDED && is_noscript(reply) && repair(r))
        return;
    if (r->gives_back) {
        if (landing != SL_LANDED)
            ADD(r->seat->counts.uncertain);
    } else if (landing == SL_LANDED && read_numbers(reply, numbers, &count)) {
        on_numbers(r, numbers, count);
    } else {
        if (landing == SL_UNCERTAIN && r->takes)
            ADD(r->seat->counts.uncertain);
        fail(r);
    }
    record_free(r);
}

/* ---- deadlines ---- */

static void on_timer(void *ctx)
{
    struct sl_redis_seat *seat = ctx;
    sl_ns now = sl_loop_steady(seat->loop);
    struct record *r;

    while ((r = TAILQ_FIRST(&seat->waiting)) != NULL && r->until <= now) {
        ADD(seat->counts.late);
        note_failure(seat);
        tell(r, SLUICE_ESTORE); /* its flight goes on */
    }
    if (r)
        sl_timer_start(seat->timer, r->until - now);
}

static void wait_for(struct record *r)
{
    struct sl_redis_seat *seat = r->seat;
    sl_ns span = seat->options.deadline > 0 ? seat->options.deadline : DEADLINE;

    r->until = sl_loop_steady(seat->loop) + span;
    if (TAILQ_EMPTY(&seat->waiting))
        sl_timer_start(seat->timer, span);
    TAILQ_INSERT_TAIL(&seat->waiting, r, waits);
}

/* ---- taking ---- */

static void refuse(struct sl_redis_seat *seat, struct sl_take *take)
{
    ADD(seat->counts.failed);
    take->err = SLUICE_ESTORE;
    take->allowed = false;
    take->done(take);
}

static sl_ns near_now(const struct sl_redis_seat *seat,
                      const struct sl_take *take)
{
    sl_ns ahead =
        atomic_load_explicit(&seat->counts.ahead, memory_order_relaxed);

    return seat->options.own_now ? take->now : take->now + ahead;
}

void sl_redis_seat_take(struct sl_redis_seat *seat, struct sl_take *take)
{
    struct sl_script_how how = {.own_now = seat->options.own_now,
                                .near = near_now(seat, take)};
    struct record *r;

    if (!may_try(seat) || !sl_link_takes(seat->link)) {
        refuse(seat, take);
        return;
    }
    r = record_new(seat);
    if (!r || sl_script_write(take, &how, &r->command)) {
        if (r)
            record_free(r);
        refuse(seat, take);
        return;
    }
    r->take = take;
    r->takes = take->errand == SL_ERRAND_TAKE;
    r->flight.command = sl_buf_str(&r->command);
    wait_for(r);
    sl_link_send(seat->link, &r->flight);
}

/* ---- life ---- */

static void on_change(void *ctx, bool up, const char *why)
{
    struct sl_redis_seat *seat = ctx;

    (void)why;
    atomic_store(&seat->counts.up, up);
}

static int open_parts(struct sl_redis_seat *seat, const struct sl_address *to,
                      struct sl_tls *tls)
{
    const struct sl_redis_options *o = &seat->options;
    struct sl_link_options link = {
        .loop = seat->loop,
        .to = *to,
        .tls = tls,
        .server_name = o->where.hosts[0].name,
        .user = o->where.user,
        .password = o->where.password,
        .database = o->where.database,
        .most = o->in_flight_most ? o->in_flight_most : IN_FLIGHT,
        .alloc = o->alloc,
        .on_change = on_change,
        .ctx = seat,
    };
    int err = sl_conns_open(seat->loop, CONNS, &seat->conns);

    if (!err)
        err = sl_timer_new(seat->loop, on_timer, seat, &seat->timer);
    link.conns = seat->conns;
    return err ? err : sl_link_open(&link, &seat->link);
}

int sl_redis_seat_open(const struct sl_redis_options *options,
                       const struct sl_address *to, struct sl_tls *tls,
                       struct sl_loop *loop, struct sl_redis_seat **ret)
{
    struct sl_redis_seat *seat = sl_alloc_new(options->alloc, sizeof(*seat));
    int err;

    if (!seat)
        return SLUICE_ENOMEM;
    memset(seat, 0, sizeof(*seat));
    seat->options = *options;
    seat->loop = loop;
    TAILQ_INIT(&seat->waiting);
    TAILQ_INIT(&seat->spare);
    err = open_parts(seat, to, tls);
    if (err) {
        sl_redis_seat_close(seat);
        return err;
    }
    *ret = seat;
    return 0;
}

void sl_redis_seat_close(struct sl_redis_seat *seat)
{
    struct record *r;

    seat->closing = true;
    sl_link_close(seat->link); /* and all flights end */
    while ((r = TAILQ_FIRST(&seat->spare)) != NULL) {
        TAILQ_REMOVE(&seat->spare, r, waits);
        record_free(r);
    }
    sl_timer_free(seat->timer);
    sl_conns_close(seat->conns);
    sl_alloc_free(seat->options.alloc, seat, sizeof(*seat));
}

const struct sl_redis_counts *
sl_redis_seat_counts(const struct sl_redis_seat *seat)
{
    return &seat->counts;
}
