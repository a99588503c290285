/* seat.c -- what one loop has of the store: its connections, and what is on its
 * way.
 *
 *     take --> voyage --> reply -------------> answered
 *                |          |
 *                |          +-- NOSCRIPT: once more, with the text
 *                +-- deadline: failed; recalled if it was not sent yet,
 *                    otherwise the voyage goes on without its take
 *                               |
 *                               +-- reply: it had taken --> given back
 *
 * Here is how one begins and when it is given up; landing.c has its ends.
 */
#include "store/redis/seat.h"

#include <string.h>

#include "store/redis/inner.h"
#include "store/redis/script.h"

#define DEADLINE  (20 * SL_MS)
#define IN_FLIGHT 8192

static sl_ns steady(const struct sl_redis_seat *seat)
{
    return sl_loop_steady(seat->loop);
}

/* ---- news ---- */

/* A reply that is no answer: say what it means, not too often. */
void sl_seat_trouble(struct sl_redis_seat *seat, struct sl_str reply)
{
    struct sl_diag said;
    struct sl_str text;
    enum sl_trouble trouble = sl_trouble_of(reply, &text);

    if (!sl_herald_may(&seat->herald, (int)trouble, steady(seat)))
        return;
    text.len = text.len < 80 ? text.len : 80;
    sl_refuse(&said, 0, "%s (%.*s)", sl_trouble_sentence(trouble),
              SL_STR_ARG(text));
    sl_herald_tell(&seat->herald, SL_NEWS_TROUBLE, said.sentence);
}

void sl_seat_note(struct sl_record *r, bool good)
{
    struct sl_redis_seat *seat = r->seat;

    sl_herald_note(&seat->herald, &seat->breaker, good, &r->tries, steady(seat),
                   &seat->counts.open);
}

/* ---- deadlines ---- */

static void give_up(struct sl_record *r)
{
    bool recalled = sl_fleet_recall(&r->voyage);

    SL_ADD(r->seat->counts.late);
    if (r->take)
        r->take->sent = !recalled;
    sl_seat_note(r, false);
    r->seat->telling = recalled ? NULL : r;
    sl_record_tell(r, SLUICE_ESTORE);
    r->seat->telling = NULL;
    if (recalled) { /* otherwise its voyage goes on */
        sl_seat_lost(r, true);
        sl_record_free(r);
    }
}

static void on_timer(void *ctx)
{
    struct sl_redis_seat *seat = ctx;
    sl_ns now = steady(seat);
    struct sl_record *r;

    while ((r = TAILQ_FIRST(&seat->waiting)) != NULL && r->until <= now)
        give_up(r);
    if (r)
        sl_timer_start(seat->timer, r->until - now);
}

/* Nearly all have the same time, so that its place is at the end. */
void sl_record_wait(struct sl_record *r, sl_ns deadline)
{
    struct sl_redis_seat *seat = r->seat;
    sl_ns span = seat->options.deadline > 0 ? seat->options.deadline : DEADLINE;
    sl_ns now = steady(seat);
    struct sl_record *before = TAILQ_LAST(&seat->waiting, sl_records);

    r->until = now + span;
    if (deadline > 0 && deadline < r->until)
        r->until = deadline;
    while (before && before->until > r->until)
        before = TAILQ_PREV(before, sl_records, waits);
    if (before) {
        TAILQ_INSERT_AFTER(&seat->waiting, before, r, waits);
        return;
    }
    TAILQ_INSERT_HEAD(&seat->waiting, r, waits);
    sl_timer_start(seat->timer, r->until > now ? r->until - now : 0);
}

/* ---- taking ---- */

static void refuse(struct sl_redis_seat *seat, struct sl_take *take)
{
    SL_ADD(seat->counts.failed);
    take->sent = false;
    take->err = SLUICE_ESTORE;
    take->allowed = false;
    take->done(take);
}

/* The slot that all keys of the set lie in. False if there is none. */
static bool slot_of(struct sl_redis_seat *seat, const struct sl_take *take,
                    unsigned *ret)
{
    *ret = 0;
    if (!sl_fleet_is_cluster(seat->fleet))
        return true;
    *ret = sl_slot_of(sl_take_part_name(&take->parts[0]));
    for (unsigned i = 1; i < take->count; i++)
        if (sl_slot_of(sl_take_part_name(&take->parts[i])) != *ret) {
            SL_ADD(seat->counts.spanning);
            sl_seat_trouble(seat, SL_STR("-CROSSSLOT\r\n"));
            return false;
        }
    return true;
}

/* `leases`: its keys; NULL: nothing is leased. */
static void ask(struct sl_redis_seat *seat, struct sl_take *take,
                const struct sl_denial_key *key, unsigned slot,
                const struct sl_lease_keys *leases)
{
    struct sl_script_how how = {.own_now = seat->options.own_now,
                                .near = sl_seat_near(seat, take->now)};
    char name[SL_HOLD_NAME];
    struct sl_record *r = NULL;
    bool tries;

    if (!sl_breaker_may(&seat->breaker, steady(seat), &tries)) {
        refuse(seat, take);
        return;
    }
    if (sl_fleet_takes(seat->fleet, slot))
        r = sl_record_new(seat);
    if (r) {
        r->key = *key;
        r->voyage.slot = slot;
    }
    if (r && leases)
        sl_seat_ask_leases(r, leases, take, &how);
    if (take->errand == SL_ERRAND_TAKE && !sl_hold_id_is_none(take->hold))
        how.record = sl_seat_record(seat, take->hold, slot, name);
    take->place = slot;
    if (!r || sl_script_write(take, &how, &r->command)) {
        sl_breaker_forget(&seat->breaker, tries);
        if (r) {
            sl_seat_lost(r, true);
            sl_record_free(r);
        }
        refuse(seat, take);
        return;
    }
    r->take = take;
    take->sent = false;
    r->errand = take->errand;
    r->hold = take->hold;
    r->hold_now = take->now;
    r->tries = tries;
    r->sent = sl_seat_time(seat, take);
    r->voyage.flight.command = sl_buf_str(&r->command);
    sl_record_wait(r, take->deadline);
    sl_record_forget(r);
    sl_fleet_send(seat->fleet, &r->voyage);
}

void sl_redis_seat_take(struct sl_redis_seat *seat, struct sl_take *take)
{
    struct sl_lease_keys leases;
    struct sl_denial_key key;
    unsigned slot;
    bool leased;

    if (take->count == 0) {
        take->err = 0;
        take->allowed = true;
        take->done(take);
        return;
    }
    if (seat->closing || !atomic_load(&seat->counts.ready) ||
        !slot_of(seat, take, &slot)) {
        refuse(seat, take);
        return;
    }
    leased = sl_seat_leases(seat, take, &leases);
    if (leased && sl_leases_spend(seat->leases, &leases, take,
                                  sl_seat_time(seat, take))) {
        SL_ADD(seat->counts.leased);
        take->done(take);
        return;
    }
    key = sl_denial_key(&seat->shared->forgets, take);
    if (take->errand == SL_ERRAND_TAKE && seat->denials &&
        sl_denials_find(seat->denials, &key, take, sl_seat_time(seat, take))) {
        SL_ADD(seat->counts.remembered);
        take->done(take);
        return;
    }
    ask(seat, take, &key, slot, leased ? &leases : NULL);
}

void sl_redis_seat_keep(struct sl_redis_seat *seat)
{
    if (seat->telling)
        seat->telling->keeps = true;
}

sl_ns sl_redis_seat_retry_in(const struct sl_redis_seat *seat)
{
    sl_ns calls = sl_fleet_calls_in(seat->fleet);
    sl_ns tries = sl_breaker_tries_in(&seat->breaker, steady(seat));

    return calls > tries ? calls : tries;
}

/* ---- life ---- */

static void on_change(void *ctx, bool up, const char *why)
{
    struct sl_redis_seat *seat = ctx;

    atomic_store(&seat->counts.up, seat->fleet && sl_fleet_is_up(seat->fleet));
    sl_herald_tell(&seat->herald, up ? SL_NEWS_UP : SL_NEWS_DOWN, why);
    if (up && seat->welcome)
        sl_welcome_go(seat->welcome);
}

static void on_ready(void *ctx)
{
    struct sl_redis_seat *seat = ctx;

    atomic_store(&seat->counts.ready, true);
}

static void on_changed(void *ctx, const char *sentence)
{
    const struct sl_redis_seat *seat = ctx;

    sl_herald_tell(&seat->herald, SL_NEWS_CHANGED, sentence);
}

static void on_warning(void *ctx, const char *sentence)
{
    const struct sl_redis_seat *seat = ctx;

    sl_herald_tell(&seat->herald, SL_NEWS_TROUBLE, sentence);
}

static void on_no_welcome(void *ctx, struct sl_str reply)
{
    sl_seat_trouble(ctx, reply);
}

static int open_parts(struct sl_redis_seat *seat, struct sl_tls *tls)
{
    const struct sl_redis_options *o = &seat->options;
    struct sl_fleet_options fleet = {
        .where = &o->where,
        .loop = seat->loop,
        .tls = tls,
        .most = o->in_flight_most ? o->in_flight_most : IN_FLIGHT,
        .alloc = o->alloc,
        .on_change = on_change,
        .ctx = seat,
    };
    struct sl_welcome_options welcome = {
        .loop = seat->loop,
        .shared = seat->shared,
        .every = o->look_every,
        .alloc = o->alloc,
        .on_ready = on_ready,
        .on_changed = on_changed,
        .on_reply = on_no_welcome,
        .on_warning = on_warning,
        .ctx = seat,
    };
    int err = sl_dice_make(&seat->breaker.dice);

    if (!err)
        err = sl_timer_new(seat->loop, on_timer, seat, &seat->timer);
    if (!err)
        err = sl_fleet_open(&fleet, &seat->fleet);
    welcome.fleet = seat->fleet;
    return err ? err : sl_welcome_open(&welcome, &seat->welcome);
}

int sl_redis_seat_open(const struct sl_redis_options *options,
                       struct sl_shared *shared, struct sl_tls *tls,
                       struct sl_loop *loop, struct sl_redis_seat **ret)
{
    struct sl_redis_seat *seat = sl_alloc_new(options->alloc, sizeof(*seat));
    int err;

    if (!seat)
        return SLUICE_ENOMEM;
    memset(seat, 0, sizeof(*seat));
    seat->options = *options;
    seat->herald.on_news = options->on_news;
    seat->herald.ctx = options->ctx;
    seat->shared = shared;
    seat->loop = loop;
    TAILQ_INIT(&seat->waiting);
    TAILQ_INIT(&seat->spare);
    err = open_parts(seat, tls);
    if (err) {
        sl_redis_seat_close(seat);
        return err;
    }
    *ret = seat;
    return 0;
}

void sl_redis_seat_close(struct sl_redis_seat *seat)
{
    struct sl_record *r;

    if (!seat)
        return;
    seat->closing = seat->herald.closing = true;
    sl_fleet_close(seat->fleet); /* and all voyages end */
    sl_welcome_close(seat->welcome);
    while ((r = TAILQ_FIRST(&seat->spare)) != NULL) {
        TAILQ_REMOVE(&seat->spare, r, waits);
        sl_record_free(r);
    }
    sl_far_denials_close(seat->denials);
    sl_leases_close(seat->leases);
    sl_timer_free(seat->lease_timer);
    sl_timer_free(seat->timer);
    sl_alloc_free(seat->options.alloc, seat, sizeof(*seat));
}

void sl_redis_seat_stats(const struct sl_redis_seat *seat,
                         struct sl_redis_stats *ret)
{
    const struct sl_redis_counts *c = &seat->counts;
    const struct sl_fleet_counts *fleet = sl_fleet_counts(seat->fleet);

    ret->taken += atomic_load(&c->taken);
    ret->late += atomic_load(&c->late);
    ret->failed += atomic_load(&c->failed);
    ret->returned += atomic_load(&c->returned);
    ret->uncertain += atomic_load(&c->uncertain);
    ret->strange += atomic_load(&c->strange);
    ret->repaired += atomic_load(&c->repaired);
    ret->remembered += atomic_load(&c->remembered);
    ret->spanning += atomic_load(&c->spanning);
    ret->leased += atomic_load(&c->leased);
    ret->lease_tokens += atomic_load(&c->lease_tokens);
    ret->lease_over += atomic_load(&c->lease_over);
    ret->lease_under += atomic_load(&c->lease_under);
    ret->redirected += atomic_load(&fleet->redirected);
    ret->storms += atomic_load(&fleet->storms);
    ret->up += atomic_load(&c->up);
    ret->ready += atomic_load(&c->ready);
    ret->open |= atomic_load(&c->open);
    if (atomic_load(&c->taken) > 0) /* otherwise nobody has told it */
        ret->ahead = atomic_load(&c->ahead);
    ret->seats++;
}
