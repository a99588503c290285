/* denial_ring.c -- the last denials of one thread. */
#include "server/denial_ring.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "engine/engine_int.h"
#include "engine/render.h"

/* The texts of a slot, one behind the other; then scope and id of each name. */
enum {
    REQUEST_ID,
    CODE,
    LIMIT,
    SCOPE,
    PLAN,
    ENDPOINT,
    NAMES,
    TEXTS = NAMES + 2 * SL_DENIAL_NAMES
};

struct slot {
    uint64_t index; /* of the record; see number_of() */
    sl_ns at, retry_in;
    uint64_t cost, capacity, remaining;
    const char *reason; /* static */
    uint32_t line;
    uint16_t status;
    bool allowed, degraded, erased;
    uint8_t text_count;
    uint16_t caller; /* and limit; see caller_of() */
    uint16_t ends[TEXTS];
    char texts[SL_DENIAL_TEXTS];
};

struct sl_denial_ring {
    const struct sl_alloc *alloc;
    struct sl_hash_key secret;
    _Atomic bool keep;
    /* Of the owner's thread: */
    unsigned passed; /* since the last recorded one */
    sl_ns second;
    unsigned in_second;            /* records of this second, */
    uint8_t of[SL_DENIAL_CALLERS]; /* and of each caller and limit */
    _Atomic uint64_t left_out;     /* since the start */

    pthread_mutex_t lock;
    uint64_t told;    /* of those left out */
    uint64_t end;     /* records so far; record n is at n % SL_DENIAL_RING */
    uint64_t taken;   /* and of these taken, or skipped */
    uint64_t written; /* and of these in the database, or skipped */
    struct slot slots[SL_DENIAL_RING];
};

int sl_denial_ring_open(const struct sl_alloc *alloc,
                        struct sl_denial_ring **ret)
{
    struct sl_denial_ring *ring;

    if (!alloc)
        alloc = &sl_alloc_libc;
    ring = sl_alloc_new(alloc, sizeof(*ring));
    if (!ring)
        return SLUICE_ENOMEM;
    /* The slots are written before they are read. */
    memset(ring, 0, offsetof(struct sl_denial_ring, slots));
    if (sl_hash_key_make(&ring->secret)) {
        sl_alloc_free(alloc, ring, sizeof(*ring));
        return SLUICE_ESYS;
    }
    ring->alloc = alloc;
    pthread_mutex_init(&ring->lock, NULL);
    *ret = ring;
    return 0;
}

void sl_denial_ring_close(struct sl_denial_ring *ring)
{
    if (!ring)
        return;
    pthread_mutex_destroy(&ring->lock);
    sl_alloc_free(ring->alloc, ring, sizeof(*ring));
}

void sl_denial_ring_keep(struct sl_denial_ring *ring, bool keep)
{
    atomic_store_explicit(&ring->keep, keep, memory_order_relaxed);
}

/* ---- recording ---- */

const char *sl_denial_reason(const struct sl_decision *d)
{
    static const char *const words[] = {
        [SL_REASON_NONE] = "limit",
        [SL_REASON_FEATURE] = "feature",
        [SL_REASON_ANONYMOUS] = "anonymous",
        [SL_REASON_MISSING] = "missing",
        [SL_REASON_ROLE] = "role",
        [SL_REASON_CAPABILITY] = "capability",
        [SL_REASON_UNKNOWN_PLAN] = "unknown_plan",
        [SL_REASON_UNKNOWN_SUBJECT] = "unknown_subject",
        [SL_REASON_STORE] = "store",
        [SL_REASON_WEBHOOK] = "webhook",
        [SL_REASON_WEBHOOKS_FULL] = "webhooks_full",
        [SL_REASON_REQUIRE] = "require",
        [SL_REASON_COST] = "cost",
        [SL_REASON_BACKLOG] = "backlog",
        [SL_REASON_RUNNING] = "running",
        [SL_REASON_REUSED] = "reused",
        [SL_REASON_PATH] = "path",
        [SL_REASON_LONG_PATH] = "long_path",
        [SL_REASON_HOLDS] = "holds",
        [SL_REASON_QUEUE] = "queue",
        [SL_REASON_CONFLICT] = "guard",
        [SL_REASON_BLOCKED] = "blocked",
        [SL_REASON_PENALTY] = "penalty",
    };

    if (d->allowed)
        return "passed";
    if (d->reason == SL_REASON_NONE && d->by >= 0 &&
        d->shown[d->by].rule->kind == SL_QUOTA)
        return "quota";
    if (d->reason == SL_REASON_NONE && d->by >= 0 &&
        d->shown[d->by].rule->kind == SL_PERMITS)
        return "concurrency";
    return d->reason < SL_LEN(words) ? words[d->reason] : "other";
}

static size_t used(const struct slot *slot)
{
    return slot->text_count ? slot->ends[slot->text_count - 1] : 0;
}

/* Appends a text, or as much of it as there is room for. */
static void add(struct slot *slot, struct sl_str text)
{
    size_t begin = used(slot);
    size_t room = SL_DENIAL_TEXTS - begin;
    size_t len = text.len < room ? text.len : room;

    if (len > 0)
        memcpy(slot->texts + begin, text.at, len);
    slot->ends[slot->text_count++] = (uint16_t)(begin + len);
}

static struct sl_str text_of(const struct slot *slot, const char *texts,
                             unsigned which)
{
    unsigned begin = which ? slot->ends[which - 1] : 0;

    return (struct sl_str){texts + begin, slot->ends[which] - begin};
}

static unsigned name_count(const struct slot *slot)
{
    return (slot->text_count - (unsigned)NAMES) / 2;
}

static bool has_scope(const struct slot *slot, struct sl_str scope)
{
    for (unsigned i = 0; i < name_count(slot); i++)
        if (sl_str_eq(text_of(slot, slot->texts, NAMES + 2 * i), scope))
            return true;
    return false;
}

/* A name is whole or not there: a part of it may be the name of another caller.
 */
static void add_name(struct slot *slot, struct sl_str scope, struct sl_str id)
{
    if (id.len == 0 || name_count(slot) == SL_DENIAL_NAMES ||
        has_scope(slot, scope) ||
        scope.len + id.len > SL_DENIAL_TEXTS - used(slot))
        return;
    add(slot, scope);
    add(slot, id);
}

/* The address, which most denials do not count by. */
static void add_address(struct slot *slot, const struct sl_decision *d)
{
    struct sl_str scope = d->policy->identity.scope_names[SL_SCOPE_IP];
    char text[SL_IP_TEXT + 5];
    struct sl_str ip;

    if (has_scope(slot, scope))
        return;
    ip = sl_identify_ip(d->policy, d->ip, text);
    if (ip.at == text) /* it is one */
        add_name(slot, scope, ip);
}

/* What the limits count by, and then what else is known of the caller. */
static void add_names(struct slot *slot, const struct sl_decision *d)
{
    for (unsigned i = 0; i < d->shown_count; i++) {
        const struct sl_limit_view *shown = &d->shown[i];

        for (unsigned k = 0; k < shown->value_count; k++)
            add_name(slot, shown->values[k].scope, shown->values[k].value);
    }
    for (unsigned i = 0; i < d->who_count; i++)
        if (d->who[i].value.len < SL_WHO_BYTES && /* longer ones are cut */
            (sl_str_eq(d->who[i].scope, SL_STR("user")) ||
             sl_str_eq(d->who[i].scope, SL_STR("org"))))
            add_name(slot, d->who[i].scope, d->who[i].value);
    if (!d->allowed && d->ip.len > 0)
        add_address(slot, d);
}

static void fill(struct slot *slot, const struct sl_decision *d)
{
    const struct sl_limit_view *shown = sl_decision_about(d);

    if (d->allowed && d->report >= 0)
        shown = &d->shown[d->report];
    slot->at = d->now;
    slot->retry_in = d->allowed ? SL_NS_NONE : sl_decision_retry_in(d);
    slot->reason = sl_denial_reason(d);
    slot->status = (uint16_t)sl_decision_status(d);
    slot->allowed = d->allowed;
    slot->degraded = d->degraded;
    slot->erased = false;
    slot->line =
        (uint32_t)(shown ? shown->rule->place.line : d->route->place.line);
    slot->cost = shown ? shown->cost : 0;
    slot->capacity =
        shown && sl_limit_view_limited(shown) ? sl_limit_view_count(shown) : 0;
    slot->remaining =
        shown && sl_limit_view_answered(shown) ? shown->answer.remaining : 0;
    slot->text_count = 0;
    add(slot, sl_str_c(d->request_id));
    add(slot, d->code);
    add(slot, shown ? shown->rule->name : SL_STR(""));
    add(slot, shown ? shown->scope : SL_STR(""));
    add(slot, shown ? shown->plan_name : sl_decision_plan(d));
    add(slot, d->route->endpoint);
    add_names(slot, d);
}

/* Which caller and limit, as a small number. Clients cannot choose it. */
static uint16_t caller_of(const struct sl_denial_ring *ring,
                          const struct sl_decision *d)
{
    const struct sl_limit_view *shown = sl_decision_about(d);
    struct sl_str name = d->who_count > 0 ? d->who[0].value : d->ip;

    if (shown && shown->fingerprint.lo != 0)
        return shown->fingerprint.lo % SL_DENIAL_CALLERS;
    if (shown && shown->key.len > 0)
        name = shown->key;
    return sl_hash64(&ring->secret, name) % SL_DENIAL_CALLERS;
}

/* May one more denial of this caller be recorded? (5) */
static bool has_room(struct sl_denial_ring *ring, sl_ns now, uint16_t caller)
{
    sl_ns second = now / SL_S;
    bool flooded;

    if (second != ring->second) {
        ring->second = second;
        ring->in_second = 0;
        memset(ring->of, 0, sizeof(ring->of));
    }
    flooded = ring->in_second >= SL_DENIAL_FLOOD;
    if (ring->of[caller] >= (flooded ? SL_DENIAL_FLOODED : SL_DENIAL_SECOND))
        return false;
    ring->of[caller]++;
    ring->in_second++;
    return true;
}

static void leave_out(struct sl_denial_ring *ring)
{
    uint64_t count =
        atomic_load_explicit(&ring->left_out, memory_order_relaxed);

    /* No other thread writes it. */
    atomic_store_explicit(&ring->left_out, count + 1, memory_order_relaxed);
}

void sl_denial_ring_decision(struct sl_denial_ring *ring,
                             const struct sl_decision *d)
{
    struct slot *slot;
    uint16_t caller;

    if (d->allowed && ++ring->passed < SL_DENIAL_PASSES)
        return;
    if (!atomic_load_explicit(&ring->keep, memory_order_relaxed))
        return;
    caller = caller_of(ring, d);
    if (d->allowed) {
        ring->passed = 0;
    } else if (!has_room(ring, d->now, caller)) {
        leave_out(ring);
        return;
    }
    pthread_mutex_lock(&ring->lock);
    slot = &ring->slots[ring->end % SL_DENIAL_RING];
    fill(slot, d);
    slot->caller = caller;
    slot->index = ring->end++;
    pthread_mutex_unlock(&ring->lock);
}

/* ---- copies ---- */

/* The number of a record: no other ring of any daemon has it. */
static uint64_t number_of(const struct sl_denial_ring *ring,
                          const struct slot *slot)
{
    struct sl_str index = {(const char *)&slot->index, sizeof(slot->index)};

    return sl_hash64(&ring->secret, index) >> 1;
}

static void copy(const struct sl_denial_ring *ring, const struct slot *slot,
                 struct sl_denial_copy *ret)
{
    const char *texts = ret->texts;

    memcpy(ret->texts, slot->texts, slot->ends[slot->text_count - 1]);
    ret->record = (struct sl_denial_record){
        .number = number_of(ring, slot),
        .at = slot->at,
        .allowed = slot->allowed,
        .degraded = slot->degraded,
        .status = slot->status,
        .node = SL_STR(""),
        .request_id = text_of(slot, texts, REQUEST_ID),
        .code = text_of(slot, texts, CODE),
        .reason = sl_str_c(slot->reason),
        .endpoint = text_of(slot, texts, ENDPOINT),
        .limit = text_of(slot, texts, LIMIT),
        .plan = text_of(slot, texts, PLAN),
        .scope = text_of(slot, texts, SCOPE),
        .cost = slot->cost,
        .capacity = slot->capacity,
        .remaining = slot->remaining,
        .retry_in = slot->retry_in,
        .line = slot->line,
        .name_count = name_count(slot),
    };
    for (unsigned i = 0; i < ret->record.name_count; i++)
        ret->record.names[i] = (struct sl_denial_name){
            text_of(slot, texts, NAMES + 2 * i),
            text_of(slot, texts, NAMES + 2 * i + 1),
        };
}

static uint64_t oldest(const struct sl_denial_ring *ring)
{
    return ring->end > SL_DENIAL_RING ? ring->end - SL_DENIAL_RING : 0;
}

/* ---- taking ---- */

/* Counts what was left out, and what was overwritten before it was taken. */
static uint64_t count_lost(struct sl_denial_ring *ring)
{
    uint64_t left_out =
        atomic_load_explicit(&ring->left_out, memory_order_relaxed);
    uint64_t lost = left_out - ring->told;

    ring->told = left_out;
    if (ring->taken < oldest(ring)) {
        lost += oldest(ring) - ring->taken;
        ring->taken = oldest(ring);
    }
    return lost;
}

unsigned sl_denial_ring_take(struct sl_denial_ring *ring,
                             struct sl_denial_copy *ret, unsigned most,
                             uint64_t *skipped)
{
    uint8_t same[SL_DENIAL_CALLERS] = {0};
    unsigned count = 0;

    pthread_mutex_lock(&ring->lock);
    *skipped += count_lost(ring);
    for (; ring->taken < ring->end && count < most; ring->taken++) {
        const struct slot *slot = &ring->slots[ring->taken % SL_DENIAL_RING];

        if (slot->erased)
            continue;
        if (same[slot->caller] == SL_DENIAL_SAME) {
            ++*skipped;
            continue;
        }
        same[slot->caller]++;
        copy(ring, slot, &ret[count++]);
    }
    pthread_mutex_unlock(&ring->lock);
    return count;
}

void sl_denial_ring_written(struct sl_denial_ring *ring)
{
    pthread_mutex_lock(&ring->lock);
    ring->written = ring->taken;
    pthread_mutex_unlock(&ring->lock);
}

/* ---- finding ---- */

static bool has_name(const struct slot *slot, struct sl_str scope,
                     struct sl_str id)
{
    for (unsigned i = 0; i < name_count(slot); i++)
        if (sl_str_eq(text_of(slot, slot->texts, NAMES + 2 * i), scope) &&
            sl_str_eq(text_of(slot, slot->texts, NAMES + 2 * i + 1), id))
            return true;
    return false;
}

static bool matches(const struct sl_denial_ring *ring, const struct slot *slot,
                    const struct sl_denial_query *query)
{
    if (slot->erased || slot->at > query->before ||
        (slot->at == query->before &&
         number_of(ring, slot) >= query->before_number))
        return false;
    if (query->request_id.len > 0)
        return sl_str_eq(text_of(slot, slot->texts, REQUEST_ID),
                         query->request_id);
    return slot->at >= query->from && slot->at <= query->to &&
           (query->passed || !slot->allowed) &&
           (query->scope.len == 0 || has_name(slot, query->scope, query->id));
}

/* Where a record is. */
struct found {
    struct sl_denial_ring *ring;
    uint64_t index; /* of the record */
    sl_ns at;
    uint64_t number;
};

static int newest_first(const void *a, const void *b)
{
    const struct found *x = a, *y = b;

    if (x->at != y->at)
        return x->at > y->at ? -1 : 1;
    return (x->number < y->number) - (x->number > y->number);
}

static unsigned find_in(struct sl_denial_ring *ring, bool all,
                        const struct sl_denial_query *query, struct found *ret)
{
    unsigned count = 0;
    uint64_t i;

    pthread_mutex_lock(&ring->lock);
    i = oldest(ring);
    if (!all && i < ring->written)
        i = ring->written;
    for (; i < ring->end; i++) {
        const struct slot *slot = &ring->slots[i % SL_DENIAL_RING];

        if (matches(ring, slot, query))
            ret[count++] =
                (struct found){ring, i, slot->at, number_of(ring, slot)};
    }
    pthread_mutex_unlock(&ring->lock);
    return count;
}

/* Copies the record unless it was overwritten. */
static bool read_found(const struct found *found, struct sl_denial_copy *ret)
{
    struct sl_denial_ring *ring = found->ring;
    const struct slot *slot = &ring->slots[found->index % SL_DENIAL_RING];
    bool there;

    pthread_mutex_lock(&ring->lock);
    there = slot->index == found->index && !slot->erased;
    if (there)
        copy(ring, slot, ret);
    pthread_mutex_unlock(&ring->lock);
    return there;
}

/* Returns 1, 0 if the record was overwritten, or an error. */
static int write_found(const struct found *found,
                       const struct sl_denial_rings *of, struct sl_buf *names,
                       struct sl_buf *out)
{
    struct sl_denial_copy record;
    int err;

    if (!read_found(found, &record))
        return 0;
    record.record.node = of->node;
    sl_buf_clear(names);
    err = sl_denial_names_write(&record.record, of->key, names);
    if (!err)
        err = sl_denial_record_write(&record.record, sl_buf_str(names), out);
    return err ? err : 1;
}

int sl_denial_rings_find(const struct sl_denial_rings *of,
                         const struct sl_denial_query *query,
                         struct sl_buf *out)
{
    size_t size = (size_t)of->count * SL_DENIAL_RING * sizeof(struct found);
    struct found *found = sl_alloc_new(of->alloc, size);
    struct sl_buf names;
    unsigned count = 0, written = 0;
    int err = 0;

    if (!found)
        return SLUICE_ENOMEM;
    for (unsigned i = 0; i < of->count; i++)
        count += find_in(of->rings[i], of->all, query, found + count);
    qsort(found, count, sizeof(*found), newest_first);
    count = count < query->most ? count : query->most;
    sl_buf_init(&names, (size_t)16 << 10, of->alloc);
    for (unsigned i = 0; i < count && err >= 0; i++) {
        err = write_found(&found[i], of, &names, out);
        written += err > 0;
    }
    sl_buf_done(&names);
    sl_alloc_free(of->alloc, found, size);
    return err < 0 ? err : (int)written;
}

void sl_denial_ring_erase(struct sl_denial_ring *ring, struct sl_str scope,
                          struct sl_str id)
{
    pthread_mutex_lock(&ring->lock);
    for (uint64_t i = oldest(ring); i < ring->end; i++) {
        struct slot *slot = &ring->slots[i % SL_DENIAL_RING];

        if (slot->erased || !has_name(slot, scope, id))
            continue;
        memset(slot->texts, 0, sizeof(slot->texts));
        slot->erased = true;
    }
    pthread_mutex_unlock(&ring->lock);
}
