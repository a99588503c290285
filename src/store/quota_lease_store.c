/* quota_lease_store.c -- the store of quota leases: keys with a lease, and
 * takes.
 *
 *     take --> judge each leased part --GO------> the table --> answers
 *                     |        |
 *                     |        +--REFUSE--> peek at the table --> denied
 *                     +--WAIT--> ask the lessor (quota_lease_ask.c), try again
 */
#include <stdatomic.h>
#include <string.h>

#include "store/quota_lease.h"
#include "store/quota_lease_int.h"

/* Refusals of the usage database that may be older than a reset. */
#define UNSETTLED 3

/* Attempts in which other takes may have been faster. */
#define TRIES 16

/* A check that takes nothing asks how much is left if it knows only numbers
 * that are older than this. */
#define TERMS_FRESH (100 * SL_MS)

/* Nodes return units that they do not need within this. */
#define RETURN_TIME (2 * SL_S)

#define ID_MOST    4096
#define ALIGN      _Alignof(struct sl_quota_shard)
#define SHARD_PART (SHARDS * sizeof(struct sl_quota_shard) + ALIGN)

enum way {
    GO,
    REFUSE, /* the usage database has nothing left */
    WAIT,   /* ask it */
    FAIL,   /* it can't be asked */
};

struct place {
    struct sl_hash128 hash;
    unsigned shard;
};

/* What the caller has put into a leased part. */
struct asked {
    const struct sl_limit *limit;
    uint64_t cost;
};

/* The table gets the take itself. Its leased parts have other limits and costs
 * meanwhile. */
struct attempt {
    struct sl_quota_leases *l;
    struct sl_take *take;
    enum sl_take_op op;                 /* of the caller */
    void (*done)(struct sl_take *take); /* likewise */
    struct asked asked[SL_PARTS];
    struct sl_limit limits[SL_PARTS]; /* of the leased parts, for the table */
    struct place places[SL_PARTS];
    struct sl_quota_key *keys[SL_PARTS]; /* NULL: not leased */
    uint32_t leased;                     /* bits: leased parts... */
    uint32_t beyond;                     /* ...and those without a lease */
    uint64_t shards;                     /* bits: locked shards */
    unsigned tries;
    bool blind; /* the usage database did not answer; the take goes without it
                 * where it can */
    sl_ns mono;
    int refuser;                 /* part; -1: none */
    struct sl_quota_job *outbox; /* to be sent when nothing is locked */
};

static struct sl_quota_leases *of(struct sl_store *store)
{
    return (struct sl_quota_leases *)store;
}

static void on_inner(struct sl_take *take)
{
    (void)take; /* the table answers before it returns */
}

/* A limit by which every cell can be read. */
static void open_limit(struct sl_limit *limit)
{
    limit->capacity = SL_AMOUNT_MAX;
}

/* The count of the cell, by the answer. */
static uint64_t count_of(const struct sl_part *part)
{
    return part->limit->capacity - part->answer.remaining;
}

/* ---- keys: in shards with a lock each ---- */

static struct sl_quota_key **row_of(const struct sl_quota_leases *l,
                                    unsigned shard, struct sl_hash128 hash)
{
    const struct sl_quota_shard *s = &l->shards[shard];

    return &s->rows[hash.lo & (s->row_count - 1)];
}

static struct place place_of(const struct sl_quota_leases *l,
                             const struct sl_part *part)
{
    struct place place = {.hash =
                              sl_table_fingerprint(part->binding, part->key)};

    place.shard = (unsigned)(place.hash.hi % SHARDS);
    __builtin_prefetch(&l->shards[place.shard]);
    return place;
}

struct sl_quota_key *sl_quota_key_find(struct sl_quota_leases *l,
                                       unsigned shard, struct sl_hash128 hash,
                                       uint32_t limit_id)
{
    struct sl_quota_key *k = *row_of(l, shard, hash);

    while (k && (k->limit_id != limit_id || !sl_hash128_eq(k->hash, hash)))
        k = k->next;
    return k;
}

struct sl_str sl_quota_text_copy(char **at, struct sl_str text)
{
    struct sl_str copy = {*at, text.len};

    if (text.len > 0)
        memcpy(*at, text.at, text.len);
    *at += text.len;
    return copy;
}

static struct sl_quota_key *new_key(struct sl_quota_leases *l,
                                    struct sl_str scope, struct sl_str id,
                                    struct sl_str limit)
{
    size_t size = sizeof(struct sl_quota_key) + scope.len + id.len + limit.len;
    struct sl_quota_key *k = sl_alloc_new(l->alloc, size);
    char *at;

    if (!k)
        return NULL;
    memset(k, 0, sizeof(*k));
    at = (char *)(k + 1);
    k->size = size;
    k->waiting_end = &k->waiting;
    k->scope = sl_quota_text_copy(&at, scope);
    k->id = sl_quota_text_copy(&at, id);
    k->limit = sl_quota_text_copy(&at, limit);
    return k;
}

/* As many rows as keys, so that few keys use few cache lines. Without memory
 * the rows stay, and are longer. */
static void grow(struct sl_quota_leases *l, struct sl_quota_shard *s)
{
    unsigned count = 2 * s->row_count, old_count = s->row_count;
    struct sl_quota_key **old = s->rows;
    struct sl_quota_key **rows =
        sl_alloc_new(l->alloc, count * sizeof(struct sl_quota_key *));

    if (!rows)
        return;
    memset(rows, 0, count * sizeof(struct sl_quota_key *));
    for (unsigned i = 0; i < old_count; i++)
        for (struct sl_quota_key *k = old[i], *next; k; k = next) {
            struct sl_quota_key **row = &rows[k->hash.lo & (count - 1)];

            next = k->next;
            k->next = *row;
            *row = k;
        }
    s->rows = rows;
    s->row_count = count;
    if (old != s->few)
        sl_alloc_free(l->alloc, old, old_count * sizeof(struct sl_quota_key *));
}

static void add_key(struct sl_quota_leases *l, unsigned shard,
                    struct sl_quota_key *k)
{
    struct sl_quota_shard *s = &l->shards[shard];
    struct sl_quota_key **row;

    if (s->keys++ >= s->row_count)
        grow(l, s);
    row = row_of(l, shard, k->hash);
    k->next = *row;
    *row = k;
    atomic_fetch_add(&l->keys, 1);
}

/* NULL: no memory, no room, or the key has no name. */
static struct sl_quota_key *make_key(struct sl_quota_leases *l,
                                     const struct place *place,
                                     const struct sl_part *part)
{
    struct sl_quota_key *k = NULL;
    struct sl_str scope;
    struct sl_buf id;

    if (atomic_load(&l->keys) >= SL_LEASES_MOST)
        return NULL;
    sl_buf_init(&id, ID_MOST, l->alloc);
    if (l->options.lessor->name(l->options.lessor, part, &scope, &id))
        k = new_key(l, scope, sl_buf_str(&id), sl_str_c(part->binding->name));
    sl_buf_done(&id);
    if (!k)
        return NULL;
    k->hash = place->hash;
    k->limit_id = part->binding->id;
    add_key(l, place->shard, k);
    return k;
}

static void visit_row(struct sl_quota_leases *l, struct sl_quota_shard *shard,
                      unsigned row, sl_quota_key_f *f, void *ctx)
{
    struct sl_quota_key **at = &shard->rows[row];

    while (*at) {
        struct sl_quota_key *k = *at;

        if (!f(ctx, k)) {
            at = &k->next;
            continue;
        }
        *at = k->next;
        sl_alloc_free(l->alloc, k, k->size);
        shard->keys--;
        atomic_fetch_sub(&l->keys, 1);
    }
}

void sl_quota_key_each(struct sl_quota_leases *l, sl_quota_key_f *f, void *ctx)
{
    for (unsigned i = 0; i < SHARDS; i++) {
        struct sl_quota_shard *shard = &l->shards[i];

        pthread_mutex_lock(&shard->lock);
        for (unsigned row = 0; row < shard->row_count; row++)
            visit_row(l, shard, row, f, ctx);
        pthread_mutex_unlock(&shard->lock);
    }
}

static int make_shards(struct sl_quota_leases *l)
{
    char *at = sl_alloc_new(l->alloc, SHARD_PART);

    if (!at)
        return SLUICE_ENOMEM;
    l->piece = at;
    pthread_mutex_init(&l->seeing, NULL);
    memset(at, 0, SHARD_PART);
    at += (ALIGN - (uintptr_t)at % ALIGN) % ALIGN;
    l->shards = (void *)at;
    for (unsigned i = 0; i < SHARDS; i++) {
        pthread_mutex_init(&l->shards[i].lock, NULL);
        l->shards[i].rows = l->shards[i].few;
        l->shards[i].row_count = SL_QUOTA_ROWS_FEW;
    }
    return 0;
}

static bool always(void *ctx, struct sl_quota_key *key)
{
    (void)ctx;
    (void)key;
    return true;
}

static void free_shards(struct sl_quota_leases *l)
{
    sl_quota_key_each(l, always, NULL);
    for (unsigned i = 0; i < SHARDS; i++) {
        struct sl_quota_shard *s = &l->shards[i];

        if (s->rows != s->few)
            sl_alloc_free(l->alloc, s->rows,
                          s->row_count * sizeof(struct sl_quota_key *));
        pthread_mutex_destroy(&s->lock);
    }
    pthread_mutex_destroy(&l->seeing);
    sl_alloc_free(l->alloc, l->piece, SHARD_PART);
}
/* ---- judging ---- */

/* A limit to which some takes carry usage is not leased: that usage would be in
 * its cell, and in no lease. */
static bool is_leased(const struct sl_take *take, unsigned i)
{
    const struct sl_part *part = &take->parts[i];

    return part->view && sl_is_durable(part->binding->strictest.kind) &&
           !part->binding->carried && !part->carried &&
           (i == 0 || !part[-1].carried);
}

/* The leased parts of a take, as bits. */
static uint32_t leased_parts(const struct sl_take *take)
{
    uint32_t bits = 0;

    if (take->op == SL_TAKE_OP_EACH)
        return 0;
    for (unsigned i = 0; i < take->count; i++)
        bits |= (uint32_t)is_leased(take, i) << i;
    return bits;
}

/* The count of the part's cell now. */
static uint64_t peek_count(struct attempt *a, unsigned i)
{
    struct sl_limit open = *a->take->parts[i].limit;
    struct sl_part part = a->take->parts[i];
    struct sl_take look = {.op = SL_TAKE_OP_PEEK,
                           .parts = &part,
                           .count = 1,
                           .now = a->take->now,
                           .done = on_inner};

    open_limit(&open);
    part.limit = &open;
    part.cost = 0;
    sl_store_take(a->l->options.store, &look);
    return count_of(&part);
}

/* A level has one period, which does not end. */
static struct sl_period period_of(const struct sl_limit *limit, sl_ns now)
{
    if (limit->kind == SL_LEVEL)
        return (struct sl_period){0, SL_NS_MAX};
    return sl_limit_period(limit, now);
}

/* Is `now` in the key's period? A reading that is a little late counts, as in
 * the cell. */
static bool is_current(const struct sl_quota_key *k,
                       const struct sl_limit *limit, sl_ns now)
{
    if (k->span != (limit->calendar ? 0 : limit->period) ||
        (limit->calendar && !sl_calendar_same(&k->cal, &limit->cal)))
        return false;
    return now < k->lease.end && now >= k->lease.start - SL_JITTER;
}

/* A question about part `i`. */
static struct sl_quota_need need_of(const struct attempt *a, unsigned i,
                                    struct sl_quota_key *k)
{
    return (struct sl_quota_need){.key = k,
                                  .shard = a->places[i].shard,
                                  .now = a->take->now,
                                  .mono = a->mono};
}

/* Returns the rest of a period that is over. If it can't be sent now, recovery
 * of the node finds it. */
static void return_rest(struct attempt *a, unsigned i, struct sl_quota_key *k)
{
    struct sl_quota_need need = need_of(a, i, k);
    uint64_t units = sl_quota_lease_surplus(&k->lease, true);

    if (units > 0 && !k->pending && a->take->loop)
        (void)!sl_quota_job_add(a->l, &need, units, &a->outbox);
}

/* Another period begins: no take waits for answers about the last one. */
static void turn_over(struct sl_quota_key *k, sl_ns start)
{
    if (!k->pending || k->pending_start >= start)
        return;
    k->pending = false;
    k->old_pending++;
}

/* Is `now` in a period before that of the key? */
static bool is_late(const struct sl_quota_key *k, sl_ns now)
{
    return now < k->lease.start - SL_JITTER;
}

/* The key of a part, in its period; NULL: no room. It stays in a later period
 * while units of an earlier one are being returned. */
static struct sl_quota_key *key_of(struct attempt *a, unsigned i)
{
    const struct sl_part *part = &a->take->parts[i];
    struct sl_quota_key *k = sl_quota_key_find(
        a->l, a->places[i].shard, a->places[i].hash, part->binding->id);
    struct sl_period p;

    if (k && is_current(k, part->limit, a->take->now))
        return k;
    p = period_of(part->limit, a->take->now);
    if (k && k->lease.start == p.start) { /* the limit was changed */
        k->cal = part->limit->cal;
        k->lease.end = p.end;
        return k;
    }
    if (k && k->old_pending > 0 && is_late(k, a->take->now))
        return k;
    if (!k)
        k = make_key(a->l, &a->places[i], part);
    else
        return_rest(a, i, k);
    if (!k)
        return NULL;
    turn_over(k, p.start);
    k->cal = part->limit->cal;
    k->span = part->limit->calendar ? 0 : part->limit->period;
    sl_quota_lease_begin(&k->lease, p.start, p.end, peek_count(a, i));
    return k;
}

/* The part is the caller's again. */
static void restore(struct attempt *a, unsigned i)
{
    a->take->parts[i].limit = a->asked[i].limit;
    a->take->parts[i].cost = a->asked[i].cost;
}

/* Does the part take units? */
static bool is_taken(const struct attempt *a, unsigned i)
{
    return a->op == SL_TAKE_OP_TAKE && a->asked[i].cost > 0;
}

/* Is the part denied if too little is left? */
static bool is_capped(const struct attempt *a, unsigned i)
{
    return is_taken(a, i) && a->asked[i].limit->capacity < SL_AMOUNT_MAX;
}

/* Does the part take nothing, and is it denied if nothing is left? */
static bool is_on_report(const struct attempt *a, unsigned i)
{
    return a->op == SL_TAKE_OP_TAKE && a->take->parts[i].on_report &&
           a->asked[i].cost == 0 && a->asked[i].limit->capacity < SL_AMOUNT_MAX;
}

static enum way wait_for(struct attempt *a, unsigned i, uint64_t cost,
                         struct sl_quota_need *need)
{
    if (a->blind || !a->take->loop || a->tries > TRIES)
        return FAIL;
    *need = need_of(a, i, a->keys[i]);
    need->cap = a->asked[i].limit->capacity;
    need->cost = cost;
    if (cost > 0)
        need->want = sl_quota_lease_shortfall(&a->keys[i]->lease, cost,
                                              need->cap, &need->least);
    return WAIT;
}

/* Are the numbers of the key recent enough for a part that takes nothing? A
 * denial needs an answer to this question, or the refusal of one like it. */
static bool knows_left(const struct attempt *a, const struct sl_quota_key *k,
                       uint64_t cap)
{
    bool asked = a->tries > 0 && !a->blind;
    bool used_up = sl_quota_lease_used(&k->lease) >= cap;

    return k->lease.has_terms &&
           a->mono - k->sure <= (asked ? SL_S : TERMS_FRESH) &&
           (!used_up || asked ||
            sl_quota_lease_is_refused(&k->lease, 1, cap, a->mono));
}

/* While the usage database does not answer, the numbers of the last seconds are
 * good enough, as units of a lease would be. */
static enum way judge_on_report(struct attempt *a, unsigned i,
                                struct sl_quota_need *need)
{
    const struct sl_quota_key *k = a->keys[i];
    uint64_t cap = a->asked[i].limit->capacity;

    if (!knows_left(a, k, cap)) {
        if (wait_for(a, i, 0, need) == WAIT) {
            need->cost = 1;
            return WAIT;
        }
        if (!k->lease.has_terms || a->mono - k->sure > SL_QUOTA_LEASE_TRUST)
            return FAIL;
    }
    if (sl_quota_lease_used(&k->lease) < cap)
        return GO;
    a->refuser = (int)i;
    return REFUSE;
}

/* Sets *ret_room to how far the cell may go. */
static enum way judge_lease(struct attempt *a, unsigned i,
                            struct sl_quota_need *need, uint64_t *ret_room)
{
    struct sl_quota_lease *lease = &a->keys[i]->lease;
    uint64_t cap = a->asked[i].limit->capacity, cost = a->asked[i].cost, room;

    if (!lease->has_terms || (sl_quota_lease_unspent(lease) > 0 &&
                              !sl_quota_key_is_sure(a->l, a->keys[i], a->mono)))
        return wait_for(a, i, cost, need);
    room = *ret_room = sl_quota_lease_room(lease, cap);
    if (lease->count + cost <= room)
        return GO;
    lease->count = peek_count(a, i);
    if (lease->count + cost <= room)
        return GO;
    if (sl_quota_lease_is_refused(lease, cost, cap, a->mono))
        return REFUSE;
    return wait_for(a, i, cost, need);
}

static enum way judge_capped(struct attempt *a, unsigned i,
                             struct sl_quota_need *need)
{
    uint64_t room = 0;
    enum way way = judge_lease(a, i, need, &room);

    if (way == GO)
        a->limits[i].count = a->limits[i].capacity = room;
    else if (way == REFUSE)
        a->refuser = (int)i;
    return way;
}

/* The part is taken although its units can't be leased. Only the usage database
 * counts them, so that all that the cell has is known to be leased. A hold is
 * in the cell nevertheless. */
static void go_beyond(struct attempt *a, unsigned i)
{
    if (!sl_hold_id_is_none(a->take->hold) && !a->take->parts[i].not_held)
        return;
    a->beyond |= UINT32_C(1) << i;
    a->take->parts[i].cost = 0;
}

/* Without a cap nothing is denied, and if the usage database can't be asked,
 * the take goes beyond the lease. Units are leased nevertheless: another
 * request of the subject may have a cap, and the database must know of them. */
static enum way judge_open(struct attempt *a, unsigned i,
                           struct sl_quota_need *need)
{
    enum way way = GO;
    uint64_t room;

    if (is_taken(a, i))
        way = judge_lease(a, i, need, &room);
    else if (!a->keys[i]->lease.has_terms)
        way = wait_for(a, i, 0, need);
    if (way != GO && way != WAIT && is_taken(a, i))
        go_beyond(a, i);
    return way == WAIT ? WAIT : GO;
}

/* A part without a lease; the usage is reported nevertheless. */
static enum way go_without(struct attempt *a, unsigned i)
{
    if (is_capped(a, i) || is_on_report(a, i))
        return FAIL;
    if (a->op == SL_TAKE_OP_CHARGE || a->op == SL_TAKE_OP_REFUND)
        a->take->parts[i].cost = 0;
    else if (is_taken(a, i))
        go_beyond(a, i);
    return GO;
}

static enum way judge_part(struct attempt *a, unsigned i,
                           struct sl_quota_need *need)
{
    struct sl_part *part = &a->take->parts[i];
    enum way way = GO;

    restore(a, i);
    a->beyond &= ~(UINT32_C(1) << i);
    a->keys[i] = key_of(a, i);
    if (a->keys[i] && is_late(a->keys[i], a->take->now)) {
        if (is_capped(a, i) || is_on_report(a, i))
            return wait_for(a, i, 0, need);
        a->keys[i] = NULL;
    }
    if (!a->keys[i])
        return go_without(a, i);
    /* A peek needs no lease. */
    a->keys[i]->touched |= is_taken(a, i) || is_on_report(a, i);
    if (is_capped(a, i) && part->cost > part->limit->capacity)
        return GO; /* the table answers NEVER */
    a->limits[i] = *part->limit;
    open_limit(&a->limits[i]);
    if (a->refuser < 0 && is_on_report(a, i))
        way = judge_on_report(a, i, need);
    else if (a->refuser < 0)
        way =
            is_capped(a, i) ? judge_capped(a, i, need) : judge_open(a, i, need);
    part->limit = &a->limits[i];
    return way;
}

/* Finds the keys of all parts, and how far each may go. */
static enum way judge(struct attempt *a, struct sl_quota_need *need)
{
    enum way way;

    a->refuser = -1;
    for (uint32_t left = a->leased; left; left &= left - 1) {
        way = judge_part(a, (unsigned)__builtin_ctz(left), need);
        if (way == WAIT || way == FAIL)
            return way;
    }
    return a->refuser < 0 ? GO : REFUSE;
}

/* ---- answers: from the cell of this node to the limit of all ---- */

static bool fits(const struct sl_quota_lease *lease, const struct sl_part *part)
{
    uint64_t used = sl_quota_lease_used(lease), cap = part->limit->capacity;
    uint64_t least = sl_part_least(part);

    return least == 0 || (used <= cap && least <= cap - used);
}

static void deny(struct attempt *a, unsigned i, struct sl_answer *answer)
{
    const struct sl_quota_lease *lease = &a->keys[i]->lease;

    answer->outcome = SL_DENY;
    answer->retry_in = answer->reset_in;
    if (a->refuser != (int)i)
        return;
    /* The rest is leased to other nodes. */
    if (answer->remaining > sl_quota_lease_unspent(lease))
        answer->remaining = sl_quota_lease_unspent(lease);
    /* It would fit if other nodes returned their units. */
    if (fits(lease, &a->take->parts[i]) &&
        (answer->retry_in == SL_NS_NONE || answer->retry_in > RETURN_TIME))
        answer->retry_in = RETURN_TIME;
}

static void translate(struct attempt *a, unsigned i)
{
    struct sl_part *part = &a->take->parts[i];
    struct sl_quota_lease *lease = &a->keys[i]->lease;
    struct sl_answer *answer = &part->answer;
    uint64_t cap = a->asked[i].limit->capacity, used;
    bool taken = a->take->op == SL_TAKE_OP_TAKE && a->take->allowed;

    if (part->limit != a->asked[i].limit)
        lease->count = count_of(part);
    restore(a, i);
    if (taken && part->cost > 0)
        sl_quota_lease_spent(lease, part->cost, lease->count, a->take->now);
    if (taken && part->unleased)
        lease->others += (int64_t)part->cost;
    used = sl_quota_lease_used(lease);
    answer->limit = part->limit->count;
    answer->capacity = cap;
    answer->remaining = used < cap ? cap - used : 0;
    if (answer->outcome != SL_NEVER && part->cost > cap)
        answer->outcome = SL_NEVER;
    else if (a->refuser == (int)i ||
             (a->take->op == SL_TAKE_OP_PEEK && !fits(lease, part)))
        deny(a, i, answer);
}

static void answer_take(struct attempt *a)
{
    struct sl_take *take = a->take;

    for (unsigned i = 0; !take->err && i < take->count; i++) {
        take->parts[i].unleased = a->beyond >> i & 1;
        if (a->keys[i])
            translate(a, i);
    }
    if (take->op != SL_TAKE_OP_PEEK)
        return;
    for (unsigned i = 0; i < take->count; i++)
        if (take->parts[i].answer.outcome != SL_ALLOW)
            take->allowed = false;
}

static void restore_all(struct attempt *a)
{
    a->take->op = a->op;
    a->take->done = a->done;
    for (uint32_t left = a->leased; left; left &= left - 1)
        restore(a, (unsigned)__builtin_ctz(left));
}

/* ---- locks: in the order of the shards, against deadlocks ---- */

static void lock(struct attempt *a)
{
    for (uint64_t left = a->shards; left; left &= left - 1)
        pthread_mutex_lock(&a->l->shards[__builtin_ctzll(left)].lock);
}

static void unlock(struct attempt *a)
{
    for (uint64_t left = a->shards; left; left &= left - 1)
        pthread_mutex_unlock(&a->l->shards[__builtin_ctzll(left)].lock);
}

/* ---- execution ---- */

/* Charges and refunds go to the usage database, and not into the cell. */
static void leave_out(struct attempt *a)
{
    bool back = a->op == SL_TAKE_OP_REFUND;

    for (unsigned i = 0; i < a->take->count; i++) {
        struct sl_quota_lease *lease;
        int64_t cost;

        if (!a->keys[i])
            continue;
        lease = &a->keys[i]->lease;
        cost = (int64_t)a->asked[i].cost;
        a->take->parts[i].cost = 0;
        /* After an attempt without an order it is in the answer. */
        if (back && a->take->parts[i].taken_at >= lease->start)
            sl_quota_lease_report(lease, -cost, a->take->order);
        else if (!back && (a->take->order > 0 || a->tries == 0))
            sl_quota_lease_report(lease, cost, a->take->order);
        sl_quota_lease_retry(lease);
    }
}

/* Was a leased part denied because a hold has used more meanwhile? */
static bool is_behind(const struct attempt *a)
{
    for (unsigned i = 0; i < a->take->count; i++)
        if (a->keys[i] && is_capped(a, i) &&
            a->take->parts[i].limit != a->asked[i].limit &&
            a->take->parts[i].answer.outcome != SL_ALLOW)
            return true;
    return false;
}

static void note_hold(struct attempt *a)
{
    sl_ns until = a->take->now + a->take->hold_for;

    if (a->op != SL_TAKE_OP_TAKE)
        return;
    for (unsigned i = 0; i < a->take->count; i++)
        if (a->keys[i] && a->keys[i]->held < until)
            a->keys[i]->held = until;
}

static void run(struct attempt *a, enum sl_take_op op)
{
    a->take->op = op;
    sl_store_take(a->l->options.store, a->take);
}

/* Resets the cells of the other parts. Cells of leased parts go on counting,
 * since the usage database and answers in flight refer to them. Their usage is
 * subtracted. */
static void reset(struct attempt *a)
{
    struct sl_part parts[SL_PARTS];
    struct sl_take rest = *a->take;

    rest.parts = parts;
    rest.count = 0;
    rest.err = 0;
    for (unsigned i = 0; i < a->take->count; i++)
        if (!(a->leased >> i & 1))
            parts[rest.count++] = a->take->parts[i];
    if (rest.count > 0)
        sl_store_take(a->l->options.store, &rest);
    run(a, SL_TAKE_OP_PEEK);
    a->take->op = SL_TAKE_OP_RESET;
    a->take->err = rest.err ? rest.err : a->take->err;
    for (unsigned i = 0; i < a->take->count; i++) {
        if (!a->keys[i])
            continue;
        sl_quota_lease_reset(&a->keys[i]->lease, count_of(&a->take->parts[i]));
        a->keys[i]->unsettled = UNSETTLED;
    }
}

/* Returns false if the take must be judged again. */
static bool carry_out(struct attempt *a)
{
    enum sl_take_op op = a->op;

    if (op == SL_TAKE_OP_CHARGE || op == SL_TAKE_OP_REFUND)
        leave_out(a);
    if (op == SL_TAKE_OP_RESET)
        reset(a);
    else
        run(a, op);
    if (op == SL_TAKE_OP_TAKE && !a->take->err && !a->take->allowed &&
        is_behind(a)) {
        for (unsigned i = 0; i < a->take->count; i++)
            if (a->keys[i] && is_capped(a, i))
                a->keys[i]->lease.count = SL_AMOUNT_MAX; /* read it again */
        return false;
    }
    if (!sl_hold_id_is_none(a->take->hold))
        note_hold(a);
    answer_take(a);
    return true;
}

/* Nothing is taken; the answers are those of a peek. */
static void refuse(struct attempt *a)
{
    for (unsigned i = 0; i < a->take->count; i++)
        if (a->keys[i] && a->take->parts[i].limit == &a->limits[i])
            open_limit(&a->limits[i]);
    run(a, SL_TAKE_OP_PEEK);
    answer_take(a);
    a->take->allowed = false;
}

/* Asks for more units before they are needed. */
static void ask_ahead(struct attempt *a)
{
    if (a->op != SL_TAKE_OP_TAKE || !a->take->allowed || !a->take->loop)
        return;
    for (unsigned i = 0; i < a->take->count; i++) {
        struct sl_quota_key *k = a->keys[i];
        struct sl_quota_need need;
        uint64_t more;

        if (!k || !is_taken(a, i) || k->pending ||
            !sl_quota_lease_is_low(&k->lease))
            continue;
        more = sl_quota_lease_unspent(&k->lease) + 1;
        need = need_of(a, i, k);
        need.cap = a->asked[i].limit->capacity;
        need.want =
            sl_quota_lease_shortfall(&k->lease, more, need.cap, &need.least);
        if (!sl_quota_lease_is_refused(&k->lease, more, need.cap, a->mono))
            (void)!sl_quota_job_add(a->l, &need, 0, &a->outbox);
    }
}

/* ---- a take ---- */

/* The clock is read first, while memory is being fetched. */
static void prepare(struct attempt *a)
{
    struct sl_take *take = a->take;

    a->mono = sl_quota_leases_mono(&a->l->store);
    a->op = take->op;
    a->done = take->done;
    take->done = on_inner;
    a->shards = 0;
    a->beyond = 0;
    a->outbox = NULL;
    for (unsigned i = 0; i < take->count; i++) {
        struct sl_part *part = &take->parts[i];

        a->keys[i] = NULL;
        if (!(a->leased >> i & 1))
            continue;
        a->asked[i] = (struct asked){part->limit, part->cost};
        a->places[i] = place_of(a->l, part);
        part->fingerprint = a->places[i].hash;
        sl_store_prefetch(a->l->options.store, part);
        a->shards |= UINT64_C(1) << a->places[i].shard;
    }
}

static void fail(struct sl_take *take)
{
    take->err = SLUICE_ESTORE;
    take->sent = false;
    take->allowed = false;
}

static enum way decide(struct attempt *a, struct sl_quota_need *need)
{
    enum way way = judge(a, need);

    if (way == GO && !carry_out(a)) {
        way = judge(a, need); /* with the counts of now */
        if (way == GO && !carry_out(a))
            way = FAIL;
    }
    if (way == REFUSE)
        refuse(a);
    restore_all(a);
    return way;
}

/* Tries a take with leased parts; the other arguments are those of
 * sl_quota_leases_try(). */
static void try_leased(struct sl_quota_leases *l, struct sl_take *take,
                       uint32_t leased, unsigned tries, sl_ns until, bool blind)
{
    struct attempt a;
    struct sl_loop *loop = take->loop;
    struct sl_quota_waiter *waiter = NULL;
    struct sl_quota_need need;
    enum way way;

    a.l = l;
    a.take = take;
    a.leased = leased;
    a.tries = tries;
    a.blind = blind;
    prepare(&a);
    lock(&a);
    way = decide(&a, &need);
    if (way == WAIT && sl_quota_job_add(l, &need, 0, &a.outbox))
        waiter = sl_quota_waiter_new(l, &need, take, tries, until);
    if (way == WAIT && !waiter)
        way = FAIL;
    if (way == GO)
        ask_ahead(&a);
    unlock(&a);
    if (way == FAIL) {
        atomic_fetch_add(&l->failed, 1);
        fail(take);
    }
    if (waiter)
        sl_quota_waiter_watch(waiter);
    sl_quota_job_send(a.outbox, loop);
    if (way != WAIT)
        take->done(take);
}

void sl_quota_leases_try(struct sl_quota_leases *l, struct sl_take *take,
                         unsigned tries, sl_ns until, bool blind)
{
    try_leased(l, take, leased_parts(take), tries, until, blind);
}

/* ---- undoing ---- */

/* Refunds one part of a take. Its units are in the lease again. The key may be
 * gone; the fingerprint of the take is enough. */
static void undo_part(struct sl_quota_leases *l, const struct sl_take *take,
                      struct sl_part part)
{
    struct place place = {.hash = part.fingerprint};
    struct sl_limit open = *part.limit;
    struct sl_take back = *take;
    struct sl_quota_key *k;

    if ((place.hash.lo | place.hash.hi) == 0)
        place.hash = sl_table_fingerprint(part.binding, part.key);
    place.shard = (unsigned)(place.hash.hi % SHARDS);
    open_limit(&open);
    part.limit = &open;
    part.fingerprint = place.hash;
    back.parts = &part;
    back.count = 1;
    back.done = on_inner;
    pthread_mutex_lock(&l->shards[place.shard].lock);
    sl_store_take(l->options.store, &back);
    k = sl_quota_key_find(l, place.shard, place.hash, part.binding->id);
    if (k && take->now >= k->lease.start && take->now < k->lease.end)
        k->lease.count = count_of(&part);
    pthread_mutex_unlock(&l->shards[place.shard].lock);
}

/* The parts need no view, and no question is asked. */
static void undo(struct sl_quota_leases *l, struct sl_take *take)
{
    for (unsigned i = 0; i < take->count; i++)
        undo_part(l, take, take->parts[i]);
    take->err = 0;
    take->allowed = true;
    take->done(take);
}

/* ---- the store ---- */

static void take(struct sl_store *store, struct sl_take *take)
{
    uint32_t leased;

    if (take->op == SL_TAKE_OP_REFUND && take->undo) {
        undo(of(store), take);
        return;
    }
    leased = leased_parts(take);
    if (leased == 0)
        sl_store_take(of(store)->options.store, take);
    else
        try_leased(of(store), take, leased, 0, 0, false);
}

static void take_many(struct sl_store *store, struct sl_take *const *takes,
                      unsigned count)
{
    for (unsigned i = 0, run; i < count; i += run) {
        for (run = 0; i + run < count && leased_parts(takes[i + run]) == 0;)
            run++;
        if (run > 0) {
            sl_store_take_many(of(store)->options.store, takes + i, run);
        } else {
            take(store, takes[i]);
            run = 1;
        }
    }
}

static int bind(struct sl_store *store, struct sl_limit_binding *limits,
                unsigned count, struct sl_diag *diag)
{
    return sl_store_bind(of(store)->options.store, limits, count, diag);
}

static int tighten(struct sl_store *store, const struct sl_limit_binding *limit,
                   const struct sl_limit *strictest)
{
    return sl_store_set_strictest(of(store)->options.store, limit, strictest);
}

/* The call does not name its keys: all keys with holds are read again later. */
static void hold(struct sl_store *store, struct sl_hold_call *call)
{
    struct sl_quota_leases *l = of(store);
    bool ends = call->op == SL_HOLD_SETTLE;
    sl_ns until = call->now + call->hold_for;

    if (call->op == SL_HOLD_EXTEND && atomic_load(&l->extended) < until)
        atomic_store(&l->extended, until);
    sl_store_hold(l->options.store, call);
    if (ends)
        atomic_fetch_add(&l->ends, 1);
}

static void close_leased(struct sl_store *store)
{
    struct sl_quota_leases *l = of(store);

    free_shards(l);
    sl_store_close(l->options.store);
    sl_alloc_free(l->alloc, l, sizeof(*l));
}

static const struct sl_store_calls calls = {
    .bind = bind,
    .tighten = tighten,
    .take = take,
    .close = close_leased,
    .take_many = take_many,
    .hold = hold,
};

int sl_quota_leases_open(const struct sl_quota_leases_options *options,
                         struct sl_store **ret)
{
    const struct sl_alloc *alloc =
        options->alloc ? options->alloc : &sl_alloc_libc;
    struct sl_quota_leases *l = sl_alloc_new(alloc, sizeof(*l));

    if (!l)
        return SLUICE_ENOMEM;
    memset(l, 0, sizeof(*l));
    l->options = *options;
    l->alloc = alloc;
    if (make_shards(l)) {
        sl_alloc_free(alloc, l, sizeof(*l));
        return SLUICE_ENOMEM;
    }
    l->store.calls = &calls;
    l->store.secret = options->store->secret;
    *ret = &l->store;
    return 0;
}
