/* engine.c -- the active policy over a store. */
#include "engine/engine.h"

#include <string.h>

#include "base/clock.h"
#include "engine/engine_int.h"
#include "engine/render.h"
#include "policy/policy.h"

#define LOCAL_SIZE (8 * UINT64_C(1024) * 1024)
#define TEXTS_MAX  ((size_t)4 << 20)
#define NAME_MAX_  96 /* a limit's name, and what marks a candidate */

void sl_active_policy_unref(struct sl_active_policy *active)
{
    if (!active || atomic_fetch_sub(&active->refs, 1) != 1)
        return;
    sl_policy_unref(active->policy);
    sl_arena_done(&active->texts_arena);
    sl_alloc_free(active->alloc, active, active->size);
}

/* State belongs to the name. No rule can have the name of a candidate. */
static void describe(const struct sl_rule *rule, bool candidate,
                     char name[NAME_MAX_], struct sl_limit_binding *ret)
{
    size_t len =
        rule->name.len < NAME_MAX_ - 16 ? rule->name.len : NAME_MAX_ - 16;

    if (len > 0) /* the rule of guards may be missing */
        memcpy(name, rule->name.at, len);
    memcpy(name + len, candidate ? "#candidate" : "", candidate ? 11 : 1);
    *ret = (struct sl_limit_binding){
        .name = name,
        .strictest = candidate ? rule->candidate_strictest : rule->strictest,
        .on_full = rule->on_full,
        .lease = candidate ? 0 : rule->lease,
        .carried = rule->carried,
        .quota_leased = sl_is_durable(rule->kind) && !candidate &&
                        !rule->carried && rule->mode != SL_MODE_SHADOW,
    };
}

/* Allocates the active policy in one piece: twice its bindings (shared and
 * local), the strictest numbers, backlogs, node counts, names, switches. */
static struct sl_active_policy *new_active(struct sl_policy *policy,
                                           const struct sl_alloc *alloc)
{
    static _Atomic uint64_t generations;
    size_t n = 2 * (size_t)policy->rule_total;
    size_t size = sizeof(struct sl_active_policy) +
                  2 * n * sizeof(struct sl_limit_binding) +
                  policy->rule_total * sizeof(struct sl_tightest) +
                  policy->backlog_count * sizeof(struct sl_depth) +
                  policy->rule_total * sizeof(_Atomic unsigned) +
                  n * NAME_MAX_ + policy->feature_count + 1;
    struct sl_active_policy *active = sl_alloc_new(alloc, size);
    char *names;

    if (!active)
        return NULL;
    memset(active, 0, size);
    atomic_init(&active->refs, 1);
    active->generation =
        atomic_fetch_add_explicit(&generations, 1, memory_order_relaxed) + 1;
    active->alloc = alloc;
    active->size = size;
    active->policy = sl_policy_ref(policy);
    sl_arena_init(&active->texts_arena, TEXTS_MAX, alloc);
    active->texts = sl_render_texts(policy, &active->texts_arena);
    active->stored = (struct sl_limit_binding *)(active + 1);
    active->tightest = (struct sl_tightest *)(active->stored + 2 * n);
    active->depths = (struct sl_depth *)(active->tightest + policy->rule_total);
    active->nodes =
        (_Atomic unsigned *)(active->depths + policy->backlog_count);
    names = (char *)(active->nodes + policy->rule_total);
    for (unsigned i = 0; i < n; i++) {
        describe(&policy->rules[i / 2], i % 2, names + i * NAME_MAX_,
                 &active->stored[i]);
        active->stored[n + i] = active->stored[i];
    }
    for (unsigned i = 0; i < policy->rule_total; i++) {
        atomic_init(&active->tightest[i].count,
                    policy->rules[i].strictest.count);
        atomic_init(&active->tightest[i].capacity,
                    policy->rules[i].strictest.capacity);
    }
    active->features = (_Atomic bool *)(names + n * NAME_MAX_);
    for (unsigned i = 0; i < policy->feature_count; i++)
        atomic_init(&active->features[i], policy->features[i].enabled);
    return active;
}

static bool wants_local(const struct sl_policy *policy)
{
    for (unsigned i = 0; i < policy->rule_count; i++)
        if (policy->rules[i].failure == SL_FAILURE_LOCAL)
            return true;
    for (unsigned i = 0; i < policy->route_count; i++)
        if (policy->routes[i].failure == SL_FAILURE_LOCAL)
            return true;
    return false;
}

/* The store may be another than the policy's own: a cluster, or one without
 * holds. */
static int check_store(const struct sl_engine *engine,
                       const struct sl_policy *policy, struct sl_diag *diag)
{
    const struct sl_store *store = engine->store;
    struct sl_diag why = {0};
    struct sl_source_pos place;
    int err = store->in_slots ? sl_slots_check(policy, &place, &why) : 0;

    if (!err && store->wants_names && !store->calls->hold)
        err = sl_store_support_check(policy, &place, &why);
    if (!err)
        return 0;
    return sl_diag_error(diag, SLUICE_ECONF, "line %u of the policy: %s",
                         place.line, why.sentence);
}

/* Bytes of the replay caches, unless the policy sets them. */
#define REPEATS_BYTES ((size_t)16 << 20)
#define REPLAYS_BYTES ((size_t)8 << 20)

#define FILE_BYTES ((size_t)16 << 20)

static int open_cache(struct sl_engine *engine, unsigned which, size_t bytes)
{
    int err = sl_replay_cache_open(bytes, which == SL_CLAIM_WEBHOOK,
                                   engine->alloc, &engine->caches[which]);

    if (!err && engine->file)
        sl_replay_cache_load(engine->caches[which], engine->file, which,
                             engine->now ? engine->now(engine->now_ctx)
                                         : sl_clock_wall());
    return err;
}

/* Opens the replay caches. Any request may have a key, so repeats always have
 * one. */
static int open_caches(struct sl_engine *engine, const struct sl_policy *policy,
                       struct sl_diag *diag)
{
    size_t bytes =
        policy->server.idempotency ? policy->server.idempotency : REPEATS_BYTES;
    struct sl_replay_cache **caches = engine->caches;
    int err = 0;

    if (engine->shared)
        return 0;
    if (engine->repeats_path && !engine->file) {
        err = sl_replay_file_open(engine->repeats_path, FILE_BYTES,
                                  engine->alloc, &engine->file, diag);
        if (err)
            return err;
    }
    if (!caches[SL_CLAIM_REPEAT])
        err = open_cache(engine, SL_CLAIM_REPEAT, bytes);
    else
        sl_replay_cache_resize(caches[SL_CLAIM_REPEAT], bytes);
    if (!err && policy->guarded && !caches[SL_CLAIM_WEBHOOK])
        err = open_cache(engine, SL_CLAIM_WEBHOOK, REPLAYS_BYTES);
    return err ? sl_diag_error(diag, err, "out of memory") : 0;
}

static int prepare(struct sl_engine *engine, struct sl_active_policy *active,
                   struct sl_diag *diag)
{
    const struct sl_policy *policy = active->policy;
    unsigned count = 2 * policy->rule_total;
    int err = check_store(engine, policy, diag);

    if (!err)
        err = open_caches(engine, policy, diag);
    if (!err)
        err = sl_store_bind(engine->store, active->stored, count, diag);
    if (err || !wants_local(policy))
        return err;
    if (!engine->local) {
        struct sl_memory_options options = {.size = LOCAL_SIZE,
                                            .alloc = engine->alloc,
                                            .now = engine->now,
                                            .now_ctx = engine->now_ctx};

        err = sl_memory_open(&options, &engine->local, diag);
    }
    if (!err) {
        active->local = active->stored + count;
        err = sl_store_bind(engine->local, active->local, count, diag);
    }
    return err;
}

/* ---- backlogs.
 *
 * Workers report depths by name. The engine keeps the last report of each name
 * over reloads. The active policy has a copy, which checks read without a lock.
 */

static const struct reported *find(const struct sl_engine *engine,
                                   struct sl_str name)
{
    for (unsigned i = 0; i < engine->reported_count; i++)
        if (sl_str_eq(sl_str_c(engine->reported[i].name), name))
            return &engine->reported[i];
    return NULL;
}

/* The time is stored last, so that its reader sees the depth. */
static void put(struct sl_depth *depth, const struct reported *reported)
{
    atomic_store_explicit(&depth->depth, reported ? reported->depth : 0,
                          memory_order_relaxed);
    atomic_store_explicit(&depth->at, reported ? reported->at : SL_NS_NONE,
                          memory_order_release);
}

static void apply_backlogs(const struct sl_engine *engine,
                           const struct sl_active_policy *active)
{
    for (unsigned i = 0; i < active->policy->backlog_count; i++)
        put(&active->depths[i], find(engine, active->policy->backlogs[i]));
}

/* The record of the name: its own, a new one, or that of the oldest report. */
static struct reported *place_of(struct sl_engine *engine, struct sl_str name)
{
    struct reported *place = (struct reported *)(uintptr_t)find(engine, name);

    if (place)
        return place;
    if (engine->reported_count < KEPT_MAX)
        return &engine->reported[engine->reported_count++];
    place = &engine->reported[0];
    for (unsigned i = 1; i < KEPT_MAX; i++)
        if (engine->reported[i].at < place->at)
            place = &engine->reported[i];
    return place;
}

static int find_index(const struct sl_policy *policy, struct sl_str name)
{
    for (unsigned i = 0; i < policy->backlog_count; i++)
        if (sl_str_eq(policy->backlogs[i], name))
            return (int)i;
    return -1;
}

/* Under the lock. */
static int report(struct sl_engine *engine, struct sl_str name, uint64_t depth,
                  sl_ns now)
{
    const struct sl_active_policy *active = atomic_load(&engine->active);
    int index = find_index(active->policy, name);
    struct reported *place;

    if (index < 0 || name.len >= sizeof(place->name))
        return SLUICE_ENOENT;
    place = place_of(engine, name);
    memcpy(place->name, name.at, name.len);
    place->name[name.len] = '\0';
    place->depth = depth;
    place->at = now;
    put(&active->depths[index], place);
    return 0;
}

int sl_engine_backlog(struct sl_engine *engine, struct sl_str name,
                      uint64_t depth, sl_ns now, struct sl_diag *diag)
{
    int err;

    pthread_mutex_lock(&engine->lock);
    err = report(engine, name, depth, now);
    pthread_mutex_unlock(&engine->lock);
    return err ? sl_diag_error(diag, err, "the policy has no backlog \"%.*s\"",
                               SL_STR_ARG(name))
               : 0;
}

void sl_engine_backlog_heard(struct sl_engine *engine, struct sl_str name,
                             uint64_t depth, sl_ns at)
{
    const struct reported *known;

    pthread_mutex_lock(&engine->lock);
    known = find(engine, name);
    if (!known || known->at < at)
        (void)!report(engine, name, depth, at);
    pthread_mutex_unlock(&engine->lock);
}

/* ---- switches ---- */

static struct kept *find_kept(struct sl_engine *engine, struct sl_str name)
{
    for (unsigned i = 0; i < engine->kept_count; i++)
        if (sl_str_eq(sl_str_c(engine->kept[i].name), name))
            return &engine->kept[i];
    return NULL;
}

static void apply(const struct sl_active_policy *active, struct sl_str name,
                  int on)
{
    int index = sl_policy_feature(active->policy, name);

    if (index >= 0)
        atomic_store(&active->features[index],
                     on < 0 ? active->policy->features[index].enabled
                            : on != 0);
}

static int keep(struct sl_engine *engine, struct sl_str name, int on,
                struct sl_diag *diag)
{
    struct kept *kept = find_kept(engine, name);

    if (on < 0) {
        if (kept)
            *kept = engine->kept[--engine->kept_count];
        return 0;
    }
    if (!kept) {
        if (engine->kept_count == KEPT_MAX || name.len >= sizeof(kept->name))
            return sl_diag_error(
                diag, SLUICE_EFULL,
                "%d features are already switched by hand; reset "
                "some to the policy",
                KEPT_MAX);
        kept = &engine->kept[engine->kept_count++];
        memcpy(kept->name, name.at, name.len);
        kept->name[name.len] = '\0';
    }
    kept->on = on != 0;
    return 0;
}

/* ---- the active policy ---- */

/* Limits that stay keep the count of daemons that share them. `old` may be
 * NULL. */
static void keep_nodes(const struct sl_active_policy *old,
                       struct sl_active_policy *active)
{
    for (unsigned i = 0; old && i < active->policy->rule_count; i++) {
        int was = sl_policy_rule(old->policy, active->policy->rules[i].name);

        if (was >= 0)
            atomic_init(&active->nodes[i], atomic_load(&old->nodes[was]));
    }
}

int sl_engine_use(struct sl_engine *engine, struct sl_policy *policy,
                  struct sl_diag *diag)
{
    struct sl_active_policy *active = new_active(policy, engine->alloc);
    const struct sl_active_policy *old;
    int err = 0;

    if (!active)
        return sl_diag_error(diag, SLUICE_ENOMEM, "out of memory");
    active->engine = engine;
    active->wants_names = engine->store->wants_names;
    active->in_slots = engine->store->in_slots;
    pthread_mutex_lock(&engine->lock);
    old = atomic_load(&engine->active);
    if (old)
        err = sl_policy_check_units(old->policy, policy, diag);
    if (!err)
        err = prepare(engine, active, diag);
    if (!err) {
        for (unsigned i = 0; i < engine->kept_count; i++)
            apply(active, sl_str_c(engine->kept[i].name), engine->kept[i].on);
        apply_backlogs(engine, active);
        keep_nodes(atomic_load(&engine->active), active);
        sl_queues_resize(engine->queues, active->policy->server.waiting
                                             ? active->policy->server.waiting
                                             : SL_WAITERS);
        active = atomic_exchange(&engine->active, active);
    }
    pthread_mutex_unlock(&engine->lock);
    sl_active_policy_unref(active); /* the old one, or the new one on failure */
    return err;
}

struct sl_active_policy *sl_engine_ref_policy(struct sl_engine *engine,
                                              struct sl_active_policy *held)
{
    struct sl_active_policy *active;

    if (held &&
        held == atomic_load_explicit(&engine->active, memory_order_acquire))
        return held;
    pthread_mutex_lock(&engine->lock);
    active = atomic_load(&engine->active);
    atomic_fetch_add(&active->refs, 1);
    pthread_mutex_unlock(&engine->lock);
    sl_active_policy_unref(held);
    return active;
}

int sl_engine_keep(struct sl_engine *engine, struct sl_str name, int on,
                   struct sl_diag *diag)
{
    int err;

    pthread_mutex_lock(&engine->lock);
    err = keep(engine, name, on, diag);
    if (!err)
        apply(atomic_load(&engine->active), name, on);
    pthread_mutex_unlock(&engine->lock);
    return err;
}

bool sl_engine_is_kept(struct sl_engine *engine, struct sl_str name)
{
    bool is;

    pthread_mutex_lock(&engine->lock);
    is = find_kept(engine, name) != NULL;
    pthread_mutex_unlock(&engine->lock);
    return is;
}

int sl_engine_switch(struct sl_engine *engine, struct sl_str name, int on,
                     struct sl_diag *diag)
{
    struct sl_active_policy *active = sl_engine_ref_policy(engine, NULL);
    int index = sl_policy_feature(active->policy, name);

    sl_active_policy_unref(active);
    if (index < 0)
        return sl_diag_error(diag, SLUICE_ENOENT,
                             "the policy has no feature \"%.*s\"",
                             SL_STR_ARG(name));
    return sl_engine_keep(engine, name, on, diag);
}

int sl_engine_open(const struct sl_engine_options *options,
                   struct sl_policy *policy, struct sl_engine **ret,
                   struct sl_diag *diag)
{
    const struct sl_alloc *alloc =
        options->alloc ? options->alloc : &sl_alloc_libc;
    struct sl_engine *engine = sl_alloc_new(alloc, sizeof(*engine));
    int err;

    if (!engine)
        return sl_diag_error(diag, SLUICE_ENOMEM, "out of memory");
    memset(engine, 0, sizeof(*engine));
    engine->alloc = alloc;
    engine->now = options->now;
    engine->now_ctx = options->now_ctx;
    engine->fault = options->fault;
    engine->fault_ctx = options->fault_ctx;
    engine->store = options->store;
    engine->shared = options->repeats;
    engine->repeats_path = options->repeats_path;
    pthread_mutex_init(&engine->lock, NULL);
    err = sl_hash_key_make(&engine->owner_key);
    if (!err)
        err = sl_debts_open(alloc, &engine->debts);
    if (!err)
        err = sl_queues_open(alloc, &engine->queues);
    if (err)
        sl_diag_error(diag, err, "out of memory");
    else
        err = sl_engine_use(engine, policy, diag);
    if (err) {
        engine->store = NULL; /* stays the caller's */
        sl_engine_close(engine);
        return err;
    }
    *ret = engine;
    return 0;
}

void sl_engine_close(struct sl_engine *engine)
{
    if (!engine)
        return;
    sl_active_policy_unref(atomic_load(&engine->active));
    sl_debts_close(engine->debts);
    for (unsigned i = 0; i < SL_DECISION_CLAIMS; i++)
        sl_replay_cache_close(engine->caches[i]);
    sl_replay_file_close(engine->file);
    sl_queues_close(engine->queues);
    sl_store_close(engine->store);
    sl_store_close(engine->local);
    pthread_mutex_destroy(&engine->lock);
    sl_alloc_free(engine->alloc, engine, sizeof(*engine));
}

/* Under the lock. */
static int tighten(const struct sl_active_policy *active,
                   const struct sl_rule *rule, const struct sl_limit *numbers)
{
    struct sl_tightest *t = &active->tightest[rule->index];
    struct sl_limit strictest = rule->strictest;
    uint64_t count = atomic_load(&t->count);
    uint64_t capacity = atomic_load(&t->capacity);
    int err;

    strictest.count = count < numbers->count ? count : numbers->count;
    strictest.capacity =
        capacity < numbers->capacity ? capacity : numbers->capacity;
    sl_limit_derive(&strictest);
    err = sl_store_set_strictest(active->engine->store,
                                 &active->stored[2 * rule->index], &strictest);
    if (!err && active->local)
        err = sl_store_set_strictest(
            active->engine->local, &active->local[2 * rule->index], &strictest);
    if (!err) {
        atomic_store(&t->count, strictest.count);
        atomic_store(&t->capacity, strictest.capacity);
    }
    return err;
}

int sl_active_set_strictest(const struct sl_active_policy *active,
                            const struct sl_rule *rule,
                            const struct sl_limit *numbers,
                            struct sl_diag *diag)
{
    const struct sl_tightest *t = &active->tightest[rule->index];
    int err;

    if (numbers->count >= atomic_load(&t->count) &&
        numbers->capacity >= atomic_load(&t->capacity))
        return 0;
    pthread_mutex_lock(&active->engine->lock);
    err = tighten(active, rule, numbers);
    pthread_mutex_unlock(&active->engine->lock);
    return err ? sl_diag_error(diag, err, "the store has too many limits") : 0;
}

struct sl_queues *sl_engine_queues(struct sl_engine *engine)
{
    return engine->queues;
}

/* ---- split takes: a set in several cluster slots, in steps ---- */

/* The part of a name that chooses the cluster slot: the text in the first
 * braces, unless it is empty; else the whole name. */
static struct sl_str tag_of(struct sl_str name)
{
    const char *open = name.len > 0 ? memchr(name.at, '{', name.len) : NULL;
    struct sl_str rest =
        open ? sl_str_from(name, (size_t)(open - name.at) + 1) : name;
    const char *close =
        open && rest.len > 0 ? memchr(rest.at, '}', rest.len) : NULL;

    if (!close || close == rest.at)
        return name;
    return (struct sl_str){rest.at, (size_t)(close - rest.at)};
}

/* Are all parts of the remote store in one slot, by their names? */
static bool is_one_slot(const struct sl_store *store,
                        const struct sl_take *take)
{
    const struct sl_part *first = NULL;

    for (unsigned i = 0; i < take->count; i++) {
        const struct sl_part *part = &take->parts[i];

        if (sl_store_has_here(store, part))
            continue;
        if (!first)
            first = part;
        if (!sl_str_eq(tag_of(first->name), tag_of(part->name)))
            return false;
    }
    return true;
}

static void on_step(struct sl_take *step);

/* A carried part goes with the part after it. */
static unsigned parts_at(const struct sl_take *whole, unsigned at)
{
    return whole->parts[at].carried && at + 1 < whole->count ? 2 : 1;
}

static void end_split(struct sl_split_take *a)
{
    a->whole->err = a->err;
    a->whole->sent = false; /* the steps are refunded */
    a->whole->allowed = a->allowed && !a->err;
    a->whole->done(a->whole);
}

/* The part before `at` that begins a step. */
static unsigned step_before(const struct sl_split_take *a, unsigned at)
{
    at--;
    return at > 0 && a->whole->parts[at - 1].carried ? at - 1 : at;
}

static void begin_step(struct sl_split_take *a, enum sl_take_op op)
{
    a->step.op = op;
    a->step.undo = a->phase == SL_SPLIT_TAKE_BACK;
    a->step.parts = &a->whole->parts[a->at];
    a->step.count = parts_at(a->whole, a->at);
    sl_store_take(a->store, &a->step);
}

/* Refunds the last step that was taken. Carried parts were only peeked. */
static void give_back(struct sl_split_take *a)
{
    a->phase = SL_SPLIT_TAKE_BACK;
    if (a->taken == 0) {
        end_split(a);
        return;
    }
    a->at = step_before(a, a->taken);
    a->taken = a->at;
    a->at += parts_at(a->whole, a->at) - 1;
    begin_step(a, SL_TAKE_OP_REFUND);
}

static void go_on(struct sl_split_take *a)
{
    enum sl_take_op op = a->whole->op;

    if (a->at == a->whole->count || a->err) {
        if (op == SL_TAKE_OP_TAKE && (!a->allowed || a->err))
            give_back(a);
        else
            end_split(a);
        return;
    }
    if (op == SL_TAKE_OP_TAKE && !a->allowed)
        op = SL_TAKE_OP_PEEK; /* the verdict shows them */
    begin_step(a, op);
}

static void on_step(struct sl_take *step)
{
    struct sl_split_take *a = step->ctx;

    if (a->phase == SL_SPLIT_TAKE_BACK) {
        give_back(a); /* also after a failure: that step stays taken */
        return;
    }
    a->err = step->err;
    a->at += step->count;
    if (!step->err && step->op == SL_TAKE_OP_TAKE && step->allowed)
        a->taken = a->at;
    if (!step->err && step->op != SL_TAKE_OP_EACH)
        a->allowed = a->allowed && step->allowed;
    go_on(a);
}

/* Carries out `take` in steps; `apart` lasts until its done(). */
static void take_split(struct sl_split_take *apart, struct sl_store *store,
                       struct sl_take *take)
{
    *apart =
        (struct sl_split_take){.whole = take, .store = store, .allowed = true};
    apart->step = (struct sl_take){
        .now = take->now,
        .deadline = take->deadline,
        .loop = take->loop,
        .done = on_step,
        .ctx = apart,
    };
    go_on(apart);
}

/* ---- takes ---- */

/* Is the set taken part by part? In a cluster, if it has several slots; in a
 * store without sets, if it need not be all or none. */
static bool is_split(struct sl_store *store, const struct sl_decision *d)
{
    if (store->in_slots)
        return !is_one_slot(store, &d->take);
    return atomic_load(&sl_store_remote(store)->in_steps) &&
           d->take.count > 1 && d->take.op != SL_TAKE_OP_TAKE;
}

/* Charges the debts of the keys first. */
static void take_from_store(struct sl_engine *engine, struct sl_decision *d)
{
    d->take.sent = false;
    d->take.apart = d->route && d->route->apart;
    if (sl_debts_any(engine->debts))
        sl_debts_settle(engine->debts, engine->store, &d->take);
    if (!is_split(engine->store, d)) {
        sl_store_take(engine->store, &d->take);
    } else if (sl_hold_id_is_none(d->take.hold)) {
        take_split(&d->apart, engine->store, &d->take);
    } else {
        d->take.err = SLUICE_EFULL; /* a split set cannot have one hold */
        d->take.done(&d->take);
    }
}

bool sl_engine_prefetch(struct sl_engine *engine, struct sl_decision *d)
{
    struct sl_store *store = engine->store;

    if (!store->calls->expect || sl_debts_any(engine->debts))
        return false;
    for (unsigned i = 0; i < d->take.count; i++) {
        struct sl_part *part = &d->parts[i];

        part->fingerprint = sl_table_fingerprint(part->binding, part->key);
        sl_store_prefetch(store, part);
    }
    return true;
}

void sl_engine_take(struct sl_engine *engine, struct sl_decision *d)
{
    if (d->on_local) {
        sl_store_take(engine->local, &d->take);
    } else if (engine->fault && engine->fault(engine->fault_ctx)) {
        d->take.err = SLUICE_ESTORE;
        d->take.sent = false;
        d->take.done(&d->take);
    } else {
        take_from_store(engine, d);
    }
}

int sl_engine_forget(struct sl_engine *engine, struct sl_diag *diag)
{
    struct sl_active_policy *active = sl_engine_ref_policy(engine, NULL);
    struct sl_store *local = engine->local;
    int err;

    engine->local = NULL;
    err = sl_engine_use(engine, active->policy, diag);
    sl_active_policy_unref(active);
    if (err) {
        sl_store_close(engine->local);
        engine->local = local;
        return err;
    }
    sl_debts_forget(engine->debts);
    for (unsigned i = 0; i < SL_DECISION_CLAIMS; i++)
        sl_replay_cache_forget(engine->caches[i]);
    engine->reported_count = 0;
    apply_backlogs(engine, atomic_load(&engine->active));
    sl_store_close(local);
    return 0;
}

bool sl_engine_no_address(const struct sl_engine *engine)
{
    return atomic_load_explicit(&engine->no_address, memory_order_relaxed);
}
