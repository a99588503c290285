/* memory.c -- the memory store: the table as a store. Answers before take()
 * returns, and never fails. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "store/store.h"

#define DEFAULT_SIZE (64 * UINT64_C(1024) * 1024)

struct memory {
    struct sl_store store; /* first: the two are cast into each other */
    struct sl_table table;
    const struct sl_alloc *alloc;
    sl_ns (*now)(void *ctx);
    void *now_ctx;
    char notice[1024];
};

/* The table needs whole cache lines; the allocator does not align to them. */
#define ALIGN _Alignof(struct memory)
#define PIECE (sizeof(struct memory) + ALIGN + sizeof(void *))

static struct memory *of(struct sl_store *store)
{
    return (struct memory *)store;
}

static uint32_t used_limits(const struct sl_limit_binding *limits,
                            unsigned count)
{
    uint32_t used = 0;

    for (unsigned i = 0; i < count; i++)
        used += limits[i].strictest.capacity > 0;
    return used;
}

/* Refuses limits with keys that are counted in another unit. */
static int check_units(struct memory *m, const struct sl_limit_binding *limits,
                       unsigned count, struct sl_diag *diag)
{
    uint64_t was;

    for (unsigned i = 0; i < count; i++) {
        const struct sl_limit_binding *l = &limits[i];

        if (l->strictest.capacity == 0 ||
            !sl_table_has_unit(&m->table, l, &was))
            continue;
        return sl_unit_refuse(
            diag, "the state", sl_str_c(l->name),
            &(struct sl_unit_name){sl_unit_mark_scale(was), SL_STR("")},
            &(struct sl_unit_name){sl_unit_mark_scale(l->strictest.unit),
                                   SL_STR("")});
    }
    return 0;
}

static int bind(struct sl_store *store, struct sl_limit_binding *limits,
                unsigned count, struct sl_diag *diag)
{
    uint32_t used = used_limits(limits, count);
    int err = check_units(of(store), limits, count, diag);

    if (err)
        return err;
    for (unsigned i = 0; i < count; i++) {
        limits[i].equal_parts = used;
        if (limits[i].strictest.capacity > 0 &&
            sl_table_add_limit(&of(store)->table, &limits[i]))
            return sl_diag_error(
                diag, SLUICE_EFULL,
                "the state file already has %d limits, from this "
                "and earlier policies; start a new one",
                SL_LIMITS);
    }
    return 0;
}

static int tighten(struct sl_store *store, const struct sl_limit_binding *limit,
                   const struct sl_limit *strictest)
{
    struct sl_limit_binding known = *limit; /* other threads read `limit` */

    known.strictest = *strictest;
    return sl_table_add_limit(&of(store)->table, &known);
}

/* ---- taking ---- */

static bool decide(struct memory *m, struct sl_part *parts, unsigned count,
                   sl_ns now)
{
    struct sl_clock_reading r = {m->now, m->now_ctx, now, false, 0};
    enum sl_set_result verdict;

    while ((verdict = sl_table_decide(&m->table, parts, count, r.now,
                                      r.fresh)) == SL_SET_STALE)
        sl_clock_read_again(&r, &m->table);
    return verdict == SL_SET_ALLOW;
}

/* The same with a hold. SLUICE_EFULL if there is no room for it. */
static int decide_held(struct memory *m, struct sl_take *take, unsigned count)
{
    struct sl_clock_reading r = {m->now, m->now_ctx, take->now, false, 0};
    enum sl_set_result verdict;

    while ((verdict = sl_table_hold(&m->table, take->parts, count, take->hold,
                                    take->hold_for, r.now, r.fresh)) ==
           SL_SET_STALE)
        sl_clock_read_again(&r, &m->table);
    take->allowed = verdict == SL_SET_ALLOW;
    take->place = 0;
    return verdict == SL_SET_NO_HOLD_ROOM ? SLUICE_EFULL : 0;
}

/* Each part by itself, with what is carried to it. */
static void decide_each(struct memory *m, struct sl_part *parts, unsigned count,
                        sl_ns now)
{
    unsigned n;

    for (unsigned i = 0; i < count; i += n) {
        n = parts[i].carried && i + 1 < count ? 2 : 1;
        (void)decide(m, &parts[i], n, now);
    }
}

/* Fingerprints of limits whose usage is recorded: it is added up by them. */
static void set_fingerprints(const struct memory *m, struct sl_part *parts,
                             unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        struct sl_part *part = &parts[i];

        if (!sl_is_durable(part->binding->strictest.kind) ||
            (part->fingerprint.lo | part->fingerprint.hi) != 0)
            continue;
        part->fingerprint = sl_table_fingerprint(part->binding, part->key);
        if (count > 1) /* the table does it for the others */
            sl_table_prefetch(&m->table, part->fingerprint);
    }
}

static bool is_held(const struct sl_take *take)
{
    return take->op == SL_TAKE_OP_TAKE && !sl_hold_id_is_none(take->hold);
}

static void take(struct sl_store *store, struct sl_take *take)
{
    struct memory *m = of(store);
    unsigned count = take->count < SL_PARTS ? take->count : SL_PARTS;

    for (unsigned i = 0; i < count; i++)
        take->parts[i].op =
            take->op == SL_TAKE_OP_EACH ? SL_TAKE_OP_TAKE : take->op;
    set_fingerprints(m, take->parts, count);
    take->err = 0;
    take->allowed = true;
    if (take->op == SL_TAKE_OP_EACH)
        decide_each(m, take->parts, count, take->now);
    else if (is_held(take))
        take->err = decide_held(m, take, count);
    else if (count > 0)
        take->allowed = decide(m, take->parts, count, take->now);
    take->done(take);
}

static void expect(struct sl_store *store, const struct sl_part *part)
{
    sl_table_prefetch(&of(store)->table, part->fingerprint);
}

/* ---- holds ---- */

/* Which of the policy's limits it is. */
static const struct sl_limit_binding *stored_of(const struct sl_hold_call *call,
                                                uint32_t id)
{
    for (unsigned i = 0; i < call->limits_count; i++)
        if (call->limits[i].strictest.capacity > 0 && call->limits[i].id == id)
            return &call->limits[i];
    return NULL;
}

static const struct sl_limit *numbers(void *ctx, uint32_t id, uint64_t held,
                                      uint64_t *cost)
{
    const struct sl_hold_call *call = ctx;
    const struct sl_limit_binding *of = stored_of(call, id);

    *cost = call->as_held ? held : call->cost;
    for (unsigned i = 0; of && i < call->actual_count; i++)
        if (call->actual[i].of == of)
            *cost = call->actual[i].cost;
    return of ? &of->strictest : NULL;
}

static void hold(struct sl_store *store, struct sl_hold_call *call)
{
    struct memory *m = of(store);
    struct sl_clock_reading r = {m->now, m->now_ctx, call->now, false, 0};
    struct sl_hold_result deed = {
        .op = call->op,
        .id = call->id,
        .release = call->release,
        .life = call->hold_for,
        .numbers = numbers,
        .ctx = call,
    };

    while (sl_table_end(&m->table, &deed, r.now, r.fresh) == SL_SET_STALE)
        sl_clock_read_again(&r, &m->table);
    call->err = 0;
    call->state = deed.state;
    call->expires_in = deed.expires_in;
    call->count = deed.count;
    for (unsigned i = 0; i < deed.count; i++)
        call->parts[i] = (struct sl_held_part){
            .binding = stored_of(call, deed.parts[i].limit_id),
            .held = deed.parts[i].held,
            .cost = deed.parts[i].cost,
            .answer = deed.parts[i].answer,
            .over = deed.parts[i].over,
        };
    call->done(call);
}

/* ---- taking many ---- */

#define MANY 32 /* in one batch */

/* A take of one key: what the table can overlap with others. */
static bool is_single(const struct sl_take *take, sl_ns now)
{
    return take->count == 1 && take->op == SL_TAKE_OP_TAKE && !is_held(take) &&
           take->now == now;
}

static void batch(struct memory *m, struct sl_take *const *takes,
                  unsigned count)
{
    struct sl_part *parts[MANY] = {0};
    enum sl_set_result verdicts[MANY];

    for (unsigned i = 0; i < count; i++) {
        parts[i] = takes[i]->parts;
        parts[i]->op = SL_TAKE_OP_TAKE;
    }
    sl_table_batch(&m->table, parts, verdicts, count, takes[0]->now, false);
    for (unsigned i = 0; i < count; i++) {
        bool allowed = verdicts[i] == SL_SET_ALLOW;

        if (verdicts[i] == SL_SET_STALE)
            allowed = decide(m, parts[i], 1, takes[i]->now);
        takes[i]->err = 0;
        takes[i]->allowed = allowed;
    }
    for (unsigned i = 0; i < count; i++)
        takes[i]->done(takes[i]);
}

static void take_many(struct sl_store *store, struct sl_take *const *takes,
                      unsigned count)
{
    for (unsigned i = 0, run; i < count; i += run) {
        for (run = 0; i + run < count && run < MANY &&
                      is_single(takes[i + run], takes[i]->now);)
            run++;
        if (run > 1) {
            batch(of(store), takes + i, run);
        } else {
            take(store, takes[i]);
            run = 1;
        }
    }
}

/* ---- life ---- */

static void *piece_of(const struct memory *m)
{
    void *piece;

    memcpy(&piece, (const char *)m + sizeof(*m), sizeof(piece));
    return piece;
}

static void close_memory(struct sl_store *store)
{
    struct memory *m = of(store);

    sl_table_done(&m->table);
    sl_alloc_free(m->alloc, piece_of(m), PIECE);
}

static struct memory *new_memory(const struct sl_alloc *alloc)
{
    char *piece = sl_alloc_new(alloc, PIECE);
    char *at;

    if (!piece)
        return NULL;
    at = piece + (ALIGN - (uintptr_t)piece % ALIGN) % ALIGN;
    memset(at, 0, sizeof(struct memory));
    memcpy(at + sizeof(struct memory), &piece, sizeof(piece));
    return (struct memory *)(void *)at;
}

static int open_region(struct memory *m, const struct sl_memory_options *o,
                       struct sl_region *ret, struct sl_diag *diag)
{
    uint64_t size = o->size ? o->size : DEFAULT_SIZE, there;
    struct sl_diag why = {0};
    int err;

    if (o->memory)
        return sl_region_open_memory(ret, o->memory, size, diag);
    if (!o->path)
        return sl_region_open_heap(ret, size, diag);
    there = sl_region_file_size(o->path);
    err = sl_region_open_file(ret, o->path, there ? there : size,
                              SL_DAMAGE_SET_ASIDE, &why);
    if (err == SLUICE_EDAMAGE) /* else it would have been set aside */
        return sl_diag_error(diag, err, "%s: %s; another process uses it",
                             o->path, why.sentence);
    if (err) {
        if (diag)
            *diag = why;
        return err;
    }
    if (ret->set_aside[0])
        snprintf(m->notice, sizeof(m->notice),
                 "cannot use %s: %s; it was moved to %s, and an empty state "
                 "file was created",
                 o->path, why.sentence, ret->set_aside);
    else if (o->size && ret->size != o->size)
        snprintf(m->notice, sizeof(m->notice),
                 "%s has %" PRIu64 " bytes, not %" PRIu64
                 ", and is used as it is; to start empty with another size, "
                 "remove it",
                 o->path, ret->size, o->size);
    return 0;
}

static const struct sl_store_calls calls = {
    .bind = bind,
    .tighten = tighten,
    .take = take,
    .close = close_memory,
    .take_many = take_many,
    .expect = expect,
    .hold = hold,
};

int sl_memory_open(const struct sl_memory_options *options,
                   struct sl_store **ret, struct sl_diag *diag)
{
    const struct sl_alloc *alloc =
        options->alloc ? options->alloc : &sl_alloc_libc;
    struct memory *m = new_memory(alloc);
    struct sl_region region;
    int err;

    if (!m)
        return sl_diag_error(diag, SLUICE_ENOMEM, "out of memory");
    m->alloc = alloc;
    m->now = options->now;
    m->now_ctx = options->now_ctx;
    err = open_region(m, options, &region, diag);
    if (err) {
        sl_alloc_free(alloc, piece_of(m), PIECE);
        return err;
    }
    sl_table_init(&m->table, &region, SL_FULL_ALLOW);
    m->store.calls = &calls;
    m->store.secret = sl_region_head(&region)->key;
    *ret = &m->store;
    return 0;
}

const char *sl_memory_notice(const struct sl_store *store)
{
    return ((const struct memory *)store)->notice;
}

struct sl_table *sl_memory_table(struct sl_store *store)
{
    return &of(store)->table;
}
