/* sharing.c -- several processes that write to the same tables.
 *
 * The hash of a subject selects a slot, the same on every machine. Before it
 * reads, a transaction locks the slots of all its subjects in ascending order:
 * no other process changes what it has read, and there is no deadlock. Subjects
 * and switches share slot 0, because an alias may clash with any name. The end
 * of a hold names only the hold. Its owner is looked up, the owner's slot is
 * locked, and the owner is looked up again. If the hold was recorded in
 * between, the transaction begins again.
 *
 * A transaction whose COMMIT was not answered may have been committed. Its jobs
 * fail and keep its number. When one of them is queued again, the number is
 * looked up first.
 *
 * Notifications:
 *     s:SCOPE:ID     a subject, its overrides, credits or block; s:ip:*: the
 *                    blocked addresses
 *     f:1:NAME       a feature was switched on; 0: off; -: as the policy says
 *     w::            a webhook was queued
 *     *              everything
 */
#include <string.h>

#include "registry/registry_int.h"

/* How long a transaction waits for a lock, in ms. Others wait for its own locks
 * meanwhile, and decisions for some of those: it must be shorter than their
 * deadline. */
#define PATIENCE         10
#define CAREFUL_PATIENCE 2

void sl_slot_take(uint64_t *slots, struct sl_str scope, struct sl_str id)
{
    struct sl_hash_key key = {UINT64_C(0x736c75696365), scope.len};
    unsigned slot = 1 + (unsigned)(sl_hash64(&key, id) % (SL_SHARE_SLOTS - 1));

    slots[slot / 64] |= UINT64_C(1) << slot % 64;
}

static void take_usage(uint64_t *slots, const struct sl_usage_entry *u)
{
    struct sl_str hold = {(const char *)u->hold, sizeof(u->hold)};

    if (u->scope.len > 0)
        sl_slot_take(slots, u->scope, u->id);
    if (u->act == SL_USAGE_ACT_HOLD || u->act == SL_USAGE_ACT_HOLD_END ||
        u->act == SL_USAGE_ACT_HOLD_EXTEND)
        sl_slot_take(slots, SL_STR("hold"), hold);
}

static void take_slots(uint64_t *slots, const struct sl_job *job)
{
    if (job->kind == SL_JOB_USAGE)
        for (unsigned i = 0; i < job->change_count; i++)
            take_usage(slots, &job->usage[i]);
    else if (job->kind == SL_JOB_GRANT)
        sl_slot_take(slots, job->grant->scope, job->grant->id);
    else if (job->kind == SL_JOB_LEASE && job->claim->scope.len == 0)
        sl_slot_take(slots, SL_STR("node"), job->claim->node);
    else if (job->kind == SL_JOB_LEASE)
        sl_slot_take(slots, job->claim->scope, job->claim->id);
    else if (job->kind == SL_JOB_RELEASE || job->kind == SL_JOB_ERASE ||
             (job->kind == SL_JOB_EXPORT && job->export->number == 0))
        memset(slots, 0xff, SL_SHARE_SLOTS / 8); /* any subject */
    else if (job->is_pending)
        sl_slot_take(slots, job->scope, job->id);
    else if (job->kind != SL_JOB_USAGE_READ && job->kind != SL_JOB_CREDITS &&
             job->kind != SL_JOB_BLOCKS && job->kind != SL_JOB_EXPORT &&
             job->kind != SL_JOB_REPEAT && job->kind != SL_JOB_DENIALS &&
             job->kind != SL_JOB_PUT_DENIALS && job->kind != SL_JOB_WEBHOOK)
        slots[0] |= 1;
}

bool sl_job_slot(const struct sl_job *job, uint64_t *slots)
{
    int count = 0;

    take_slots(slots, job);
    for (size_t i = 0; i < SL_SHARE_SLOTS / 64; i++)
        count += __builtin_popcountll(slots[i]);
    return count == 1;
}

/* Finds the owners of the holds that end. *ret: one was found. */
static int find_owners(struct sl_registry *r, struct sl_job *job, bool *ret)
{
    int err = 0;

    for (unsigned i = 0; i < job->change_count && !err; i++) {
        struct sl_usage_entry *u = &job->usage[i];

        if (u->act != SL_USAGE_ACT_HOLD_END || u->scope.len > 0)
            continue;
        sl_arena_reset(&r->db.arena);
        err = sl_usage_db_owner(&r->db, u);
        *ret |= u->scope.len > 0;
    }
    return err;
}

static int find_all(struct sl_registry *r, struct sl_job *first, bool *ret)
{
    int err = 0;

    *ret = false;
    for (struct sl_job *job = first; job && !err; job = job->next)
        if (job->kind == SL_JOB_USAGE)
            err = find_owners(r, job, ret);
    return err;
}

/* Locks slots: waits for all, or marks the jobs whose slots are not free. */
static int lock_them(struct sl_registry *r, struct sl_job *first, bool careful)
{
    uint64_t slots[SL_SHARE_SLOTS / 64] = {0}, free[SL_SHARE_SLOTS / 64];
    int err;

    for (const struct sl_job *job = first; job; job = job->next)
        if (!sl_job_must_wait(r, job))
            take_slots(slots, job);
    if (!careful)
        return r->db.driver->lock(&r->db, slots);
    err = r->db.driver->try_lock(&r->db, slots, free);
    for (struct sl_job *job = first; job && !err; job = job->next) {
        uint64_t own[SL_SHARE_SLOTS / 64] = {0};

        take_slots(own, job);
        for (size_t i = 0; i < SL_LEN(own); i++)
            job->is_blocked |= (own[i] & ~free[i]) != 0;
    }
    return err;
}

int sl_sharing_lock(struct sl_registry *r, struct sl_job *first, bool careful,
                    bool *ret_again)
{
    bool found;
    int err;

    *ret_again = false;
    if (!r->db.driver->lock)
        return 0;
    err = r->db.driver->patience(&r->db, careful ? CAREFUL_PATIENCE : PATIENCE);
    if (!err)
        err = find_all(r, first, &found);
    if (!err)
        err = lock_them(r, first, careful);
    return err ? err : find_all(r, first, ret_again);
}

int sl_sharing_check_commit(struct sl_registry *r, struct sl_job *first)
{
    int known = 0;

    r->db.uncertain_txn = 0;
    for (struct sl_job *job = first; job; job = job->next) {
        job->already_done = false;
        if (job->uncertain_txn == 0 || known < 0)
            continue;
        known = r->db.driver->commit_status(&r->db, job->uncertain_txn);
        if (known < 0)
            continue;
        job->already_done = known == 1;
        job->uncertain_txn = 0;
    }
    return known < 0 ? known : 0;
}

int sl_sharing_commit(struct sl_registry *r)
{
    int err = sl_query_run(&r->db, SL_QUERY_COMMIT, "");
    struct sl_diag why = r->db.diag;
    int known;

    if (!err || r->db.uncertain_txn == 0)
        return err;
    known = r->db.driver->commit_status(&r->db, r->db.uncertain_txn);
    r->db.diag = why;
    if (known >= 0)
        r->db.uncertain_txn = 0;
    return known == 1 ? 0 : err;
}

static void raise_all(struct sl_registry *r)
{
    for (unsigned i = 0; i < SL_REGISTRY_VERSIONS; i++)
        atomic_fetch_add_explicit(&r->versions[i], 1, memory_order_release);
}

/* Cuts off the text before the next ':'; *text is the rest. */
static struct sl_str cut(struct sl_str *text)
{
    const char *colon = text->len ? memchr(text->at, ':', text->len) : NULL;
    struct sl_str first = *text;

    if (!colon)
        return SL_STR("");
    first.len = (size_t)(colon - text->at);
    *text = sl_str_from(*text, first.len + 1);
    return first;
}

static void hear(void *ctx, struct sl_str message)
{
    struct sl_registry *r = ctx;
    struct sl_str kind = cut(&message);
    struct sl_str first = cut(&message);

    if (sl_str_eq(kind, SL_STR("f"))) {
        int on = sl_str_eq(first, SL_STR("1"));

        if (sl_str_eq(first, SL_STR("-")))
            on = -1;
        if (r->on_switch)
            r->on_switch(r->ctx, message, on);
        return;
    }
    if (sl_str_eq(kind, SL_STR("w"))) {
        if (r->on_webhook)
            r->on_webhook(r->ctx);
        return;
    }
    if (!sl_str_eq(kind, SL_STR("s"))) {
        raise_all(r);
        atomic_store_explicit(&r->has_blocked_ips, true, memory_order_release);
        return;
    }
    /* Before the version: a reader of the new version asks the registry. */
    atomic_store_explicit(&r->has_subjects, true, memory_order_release);
    atomic_fetch_add_explicit(
        &r->versions[(unsigned)(sl_registry_version(r, first, message) -
                                r->versions)],
        1, memory_order_release);
    /* After the version: look_registered() may be about to clear it. */
    if (sl_str_eq(first, SL_IP_SCOPE))
        atomic_store_explicit(&r->has_blocked_ips, true, memory_order_release);
}

int sl_sharing_listen(struct sl_registry *r, struct sl_diag *diag)
{
    return r->db.driver->listen ? r->db.driver->listen(&r->db, hear, r, diag)
                                : 0;
}
