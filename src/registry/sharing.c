/* sharing.c -- the registry among others who write to the same tables.
 *
 * The jobs of a transaction name whom they are about. Each name belongs to a
 * slot by its hash, the same on every machine, and a transaction has all slots
 * of its names before it reads anything, in their order: no other changes what
 * it has read, and no two wait for each other. Subjects and switches share slot
 * 0, since an alias may clash with any name. Who ends a hold does not know
 * whose it is: that is looked up first, and again when the hold itself is
 * locked. If somebody has put it down in between, all slots are let go, and it
 * begins anew.
 *
 * A transaction whose COMMIT was sent and not answered may have been carried
 * out. Its jobs fail, and remember its number: when one of them is given to the
 * registry again, the number is looked up first.
 *
 * What has changed is told to the others in words:
 *     s:SCOPE:ID     a subject, its overrides, or its credits
 *     f:1:NAME       a feature was switched on; 0: off; -: as the policy says
 *     *              everything
 */
#include <stdio.h>
#include <string.h>

#include "registry/registry_int.h"

#define MESSAGE_MOST 4096

/* ---- locks ---- */

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
    if (u->act == SL_USAGE_ACT_HOLD || u->act == SL_USAGE_ACT_HOLD_END)
        sl_slot_take(slots, SL_STR("hold"), hold);
}

static void take_slots(uint64_t *slots, const struct sl_job *job)
{
    if (job->kind == SL_JOB_USAGE)
        for (unsigned i = 0; i < job->change_count; i++)
            take_usage(slots, &job->usage[i]);
    else if (job->kind == SL_JOB_GRANT)
        sl_slot_take(slots, job->grant->scope, job->grant->id);
    else if (job->kind == SL_JOB_LEASE)
        sl_slot_take(slots, job->claim->scope, job->claim->id);
    else if (job->kind == SL_JOB_RELEASE)
        memset(slots, 0xff, SL_SHARE_SLOTS / 8); /* whoever it had units of */
    else if (job->kind != SL_JOB_USAGE_READ && job->kind != SL_JOB_CREDITS)
        slots[0] |= 1;
}

/* Of all ends that do not say whose hold it is. *ret: somebody was found. */
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

int sl_sharing_lock(struct sl_registry *r, struct sl_job *first,
                    bool *ret_again)
{
    uint64_t slots[SL_SHARE_SLOTS / 64] = {0};
    bool found;
    int err;

    *ret_again = false;
    if (!r->db.driver->lock)
        return 0;
    err = find_all(r, first, &found);
    if (err)
        return err;
    for (const struct sl_job *job = first; job; job = job->next)
        take_slots(slots, job);
    err = r->db.driver->lock(&r->db, slots);
    return err ? err : find_all(r, first, ret_again);
}

/* ---- doubts ---- */

int sl_sharing_check_commit(struct sl_registry *r, struct sl_job *first)
{
    int known = 0;

    r->db.doubt = 0;
    for (struct sl_job *job = first; job; job = job->next) {
        job->is_done = false;
        if (job->doubt == 0 || known < 0)
            continue;
        known = r->db.driver->outcome(&r->db, job->doubt);
        if (known < 0)
            continue;
        job->is_done = known == 1;
        job->doubt = 0;
    }
    return known < 0 ? known : 0;
}

int sl_sharing_commit(struct sl_registry *r)
{
    int err = sl_database_run(&r->db, SL_QUERY_COMMIT);
    struct sl_diag why = r->db.diag;
    int known;

    if (!err || r->db.doubt == 0)
        return err;
    known = r->db.driver->outcome(&r->db, r->db.doubt);
    r->db.diag = why;
    if (known >= 0)
        r->db.doubt = 0;
    return known == 1 ? 0 : err;
}

/* ---- tidings ---- */

static void tell(struct sl_registry *r, const char *kind, struct sl_str a,
                 struct sl_str b)
{
    char text[MESSAGE_MOST];
    int len = snprintf(text, sizeof(text), "%s", kind);

    if (!r->db.driver->tell || a.len + b.len + 8 > sizeof(text))
        return;
    memcpy(text + len, a.at, a.len);
    len += (int)a.len;
    text[len++] = ':';
    memcpy(text + len, b.at, b.len);
    len += (int)b.len;
    /* A failure is told by the COMMIT. */
    (void)!r->db.driver->tell(&r->db, (struct sl_str){text, (size_t)len});
}

void sl_sharing_touch(struct sl_registry *r, struct sl_str scope,
                      struct sl_str id)
{
    tell(r, "s:", scope, id);
}

void sl_sharing_touch_all(struct sl_registry *r)
{
    tell(r, "*", SL_STR(""), SL_STR(""));
}

void sl_sharing_switch(struct sl_registry *r, struct sl_str name, int on)
{
    tell(r, "f:", on < 0 ? SL_STR("-") : on ? SL_STR("1") : SL_STR("0"), name);
}

static void raise_all(struct sl_registry *r)
{
    for (unsigned i = 0; i < SL_REGISTRY_VERSIONS; i++)
        atomic_fetch_add_explicit(&r->stamps[i], 1, memory_order_release);
}

/* What stands before the next ':'; *text is what stands behind it. */
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
    if (!sl_str_eq(kind, SL_STR("s"))) {
        raise_all(r);
        return;
    }
    /* Before the stamp: whoever sees a new one asks. */
    atomic_store_explicit(&r->has_any, true, memory_order_release);
    atomic_fetch_add_explicit(
        &r->stamps[sl_registry_version_of(r, first, message)], 1,
        memory_order_release);
}

int sl_sharing_listen(struct sl_registry *r, struct sl_diag *diag)
{
    return r->db.driver->listen ? r->db.driver->listen(&r->db, hear, r, diag)
                                : 0;
}
