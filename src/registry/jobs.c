/* jobs.c -- runs the jobs of the registry.
 *
 * Waiting writes are committed together. Each has a savepoint: a refused write
 * is rolled back alone. A database error fails all of them, because none is on
 * disk.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/timestamp.h"
#include "registry/registry_int.h"
#include "wire/json.h"

/* ---- versions ---- */

#define MESSAGE_MOST 4096

/* Sends the notification "KIND A:B" to the others at commit. */
static void notify(struct sl_registry *r, const char *kind, struct sl_str a,
                   struct sl_str b)
{
    char text[MESSAGE_MOST];
    int len = snprintf(text, sizeof(text), "%s", kind);

    if (!r->db.driver->notify || a.len + b.len + 8 > sizeof(text))
        return;
    memcpy(text + len, a.at, a.len);
    len += (int)a.len;
    text[len++] = ':';
    memcpy(text + len, b.at, b.len);
    len += (int)b.len;
    /* COMMIT reports a failure. */
    (void)!r->db.driver->notify(&r->db, (struct sl_str){text, (size_t)len});
}

void sl_job_notify(struct sl_registry *r, const char *kind)
{
    notify(r, kind, SL_STR(""), SL_STR(""));
}

static unsigned version_of(const struct sl_registry *r, struct sl_str scope,
                           struct sl_str id)
{
    return (unsigned)(sl_registry_version(r, scope, id) - r->versions);
}

void sl_job_touch(struct sl_registry *r, struct sl_str scope, struct sl_str id)
{
    unsigned version = version_of(r, scope, id);

    r->dirty[version / 64] |= UINT64_C(1) << version % 64;
    notify(r, "s:", scope, id);
}

/* Marks the id and all aliases of a subject as changed. */
static void touch_names(struct sl_registry *r,
                        const struct sl_subject_draft *draft)
{
    if (draft->id.len == 0)
        return;
    sl_job_touch(r, draft->scope, draft->id);
    for (unsigned i = 0; i < draft->alias_count; i++)
        sl_job_touch(r, draft->scope, draft->aliases[i]);
}

static void raise_stamps(struct sl_registry *r)
{
    for (unsigned i = 0; i < SL_LEN(r->dirty); i++) {
        for (uint64_t left = r->dirty[i]; left; left &= left - 1)
            atomic_fetch_add_explicit(
                &r->versions[64 * i + (unsigned)__builtin_ctzll(left)], 1,
                memory_order_release);
        r->dirty[i] = 0;
    }
}

/* ---- subjects ---- */

static int load_names(struct sl_database *db, enum sl_query query,
                      const struct sl_subject_draft *of, struct sl_str *list,
                      unsigned most, unsigned *ret_count)
{
    int found = 1;

    sl_query_bind(db, query, "tt", of->scope, of->id);
    for (*ret_count = 0; *ret_count < most; ++*ret_count) {
        found = sl_query_next(db, query, &db->arena, "t", &list[*ret_count]);
        if (found != 1)
            break;
    }
    sl_query_reset(db, query);
    return found < 0 ? found : 0;
}

static int load_rates(struct sl_database *db, struct sl_subject_draft *draft)
{
    const enum sl_query q = SL_QUERY_RATES;
    int found = 1;

    sl_query_bind(db, q, "tt", draft->scope, draft->id);
    for (; draft->rate_count < SL_SUBJECT_RECORD_RATES; draft->rate_count++) {
        struct sl_subject_override *rate = &draft->rates[draft->rate_count];

        found =
            sl_query_next(db, q, &db->arena, "ttwtt", &rate->limit, &rate->rate,
                          &rate->until, &rate->by, &rate->note);
        if (found != 1)
            break;
    }
    sl_query_reset(db, q);
    return found < 0 ? found : 0;
}

/* Loads the subject with this id. Returns 1, 0 if there is none, or an error.
 */
static int load_exactly(struct sl_database *db, struct sl_str scope,
                        struct sl_str id, struct sl_subject_draft *ret)
{
    struct sl_subject_calendar *is = &ret->calendar;
    struct sl_subject_calendar *was = &ret->calendar_before;
    int found, err;

    memset(ret, 0, sizeof(*ret));
    ret->expires = SL_NS_NONE;
    err = sl_database_copy(db, &db->arena, scope, &ret->scope);
    if (!err)
        err = sl_database_copy(db, &db->arena, id, &ret->id);
    if (err)
        return err;
    found = sl_query_one(db, SL_QUERY_SUBJECT, "tt twttncttnttn", scope, id,
                         &ret->plan, &ret->expires, &ret->note, &ret->by,
                         &ret->updated, &ret->revision, &is->anchor, &is->zone,
                         &is->since, &was->anchor, &was->zone, &was->since);
    if (found != 1)
        return found;
    err = load_names(db, SL_QUERY_ROLES, ret, ret->roles,
                     SL_SUBJECT_RECORD_ROLES, &ret->role_count);
    if (!err)
        err = load_names(db, SL_QUERY_ALIASES, ret, ret->aliases,
                         SL_SUBJECT_RECORD_ALIASES, &ret->alias_count);
    if (!err)
        err = load_rates(db, ret);
    return err ? err : 1;
}

/* Finds the subject that has an alias. Returns 1, 0 if there is none, or an
 * error. */
static int find_alias(struct sl_database *db, struct sl_str scope,
                      struct sl_str alias, struct sl_str *ret_id)
{
    char *room = sl_arena_take(&db->arena, alias.len + 1);

    if (!room)
        return sl_diag_error(&db->diag, SLUICE_ENOMEM, "out of memory");
    return sl_query_one(db, SL_QUERY_ALIAS, "tt t", scope,
                        sl_str_lower(alias, room), ret_id);
}

int sl_job_load(struct sl_database *db, struct sl_str scope, struct sl_str id,
                struct sl_subject_draft *ret)
{
    struct sl_str own_id;
    int found = load_exactly(db, scope, id, ret);

    if (found == 0) {
        found = find_alias(db, scope, id, &own_id);
        if (found == 1)
            found = load_exactly(db, scope, own_id, ret);
    }
    return found;
}

static int drop_all(struct sl_database *db, const struct sl_subject_draft *old,
                    bool row_too)
{
    const struct {
        enum sl_query query;
        bool found;
    } tables[] = {
        {SL_QUERY_DROP_SUBJECT, row_too             },
        {SL_QUERY_DROP_ROLES,   old->role_count > 0 },
        {SL_QUERY_DROP_ALIASES, old->alias_count > 0},
        {SL_QUERY_DROP_RATES,   old->rate_count > 0 },
    };
    int err = 0;

    for (size_t i = 0; i < SL_LEN(tables) && !err; i++)
        if (tables[i].found)
            err = sl_query_run(db, tables[i].query, "tt", old->scope, old->id);
    return err;
}

static int put_all(struct sl_database *db, const struct sl_subject_draft *d)
{
    const struct sl_subject_calendar *is = &d->calendar;
    const struct sl_subject_calendar *was = &d->calendar_before;
    int err = sl_query_run(db, SL_QUERY_PUT_SUBJECT, "tttwttncttnttn", d->scope,
                           d->id, d->plan, d->expires, d->note, d->by,
                           d->updated, d->revision, is->anchor, is->zone,
                           is->since, was->anchor, was->zone, was->since);

    for (unsigned i = 0; i < d->role_count && !err; i++)
        err = sl_query_run(db, SL_QUERY_PUT_ROLE, "ttt", d->scope, d->id,
                           d->roles[i]);
    for (unsigned i = 0; i < d->alias_count && !err; i++)
        err = sl_query_run(db, SL_QUERY_PUT_ALIAS, "ttt", d->scope, d->id,
                           d->aliases[i]);
    for (unsigned i = 0; i < d->rate_count && !err; i++) {
        const struct sl_subject_override *rate = &d->rates[i];

        err = sl_query_run(db, SL_QUERY_PUT_RATE, "ttttwtt", d->scope, d->id,
                           rate->limit, rate->rate, rate->until, rate->by,
                           rate->note);
    }
    return err;
}

/* ---- history: the changes of a subject.
 *
 * A row has the whole subject before and after, as JSON. The number of the row
 * is the revision of the subject, so revisions grow over a removal too. A
 * subject keeps its latest AUDIT_KEPT rows, also after its removal.
 */

#define AUDIT_KEPT   INT64_C(200)
#define PICTURE_MOST ((size_t)1 << 20)

/* Makes {"scope":...} in the arena; NULL stays NULL. */
static int picture(struct sl_database *db, const struct sl_subject_draft *draft,
                   sl_ns now, struct sl_str *ret)
{
    struct sl_buf text;
    struct sl_writer w = {.out = &text};

    *ret = (struct sl_str){NULL, 0};
    if (!draft)
        return 0;
    sl_buf_init(&text, PICTURE_MOST, db->arena.alloc);
    sl_json_open(&w, '{');
    sl_subject_draft_json(draft, now, true, &w);
    sl_json_close(&w, '}');
    if (w.err)
        w.err = sl_diag_error(&db->diag, SLUICE_ENOMEM, "out of memory");
    else
        w.err = sl_database_copy(db, &db->arena, sl_buf_str(&text), ret);
    sl_buf_done(&text);
    return w.err;
}

/* Adds a row of history; *ret_revision is its number. */
static int add_history(struct sl_database *db,
                       const struct sl_subject_draft *old,
                       const struct sl_subject_draft *new, struct sl_str by,
                       const struct sl_job *job, uint64_t *ret_revision)
{
    const struct sl_subject_draft *of = new ? new : old;
    const char *what = !old ? "create" : new ? "change" : "remove";
    struct sl_audit_note note = {.what = sl_str_c(what), .by = by};
    int err = picture(db, old, job->now, &note.before);

    SL_HOLDS(of);
    note.scope = of->scope;
    note.id = of->id;
    if (job->audit) {
        note.origin = job->audit->origin;
        note.note = job->audit->note;
    }
    if (!err)
        err = picture(db, new, job->now, &note.after);
    if (!err)
        err = sl_audit_put(db, &note, job->now, ret_revision);
    if (err)
        return err;
    return old ? sl_query_run(db, SL_QUERY_TRIM_AUDIT, "ttn", of->scope, of->id,
                              AUDIT_KEPT)
               : 0;
}

/* Replaces `old` (NULL: none) by `new` (NULL: none) and adds a row of history.
 * Sets new->revision. */
static int store(struct sl_database *db, const struct sl_subject_draft *old,
                 struct sl_subject_draft *new, struct sl_str by,
                 const struct sl_job *job)
{
    uint64_t revision = 0;
    int err = add_history(db, old, new, by, job, &revision);

    if (!err && old)
        err = drop_all(db, old, !new);
    if (!err && new) {
        new->revision = revision;
        err = put_all(db, new);
    }
    return err;
}

/* Appends the history of a subject, newest first, as items of a JSON array. */
static int read_history(struct sl_database *db, const struct sl_job *job,
                        struct sl_buf *out)
{
    const enum sl_query q = SL_QUERY_AUDIT;
    struct sl_writer w = {.out = out};
    struct sl_str by, what, before, after;
    char time[SL_TIMESTAMP_TEXT];
    int64_t revision;
    sl_ns at;
    int found = 0;

    sl_query_bind(db, q, "ttci", job->scope, job->id, job->before, job->most);
    while (!w.err &&
           (found = sl_query_next(db, q, NULL, "nntttt", &revision, &at, &by,
                                  &what, &before, &after)) == 1) {
        sl_timestamp_print(at, true, time);
        sl_json_open(&w, '{');
        sl_writer_addf(&w, "\"revision\":%" PRId64 ",\"at\":\"%s\"", revision,
                       time);
        sl_json_member_str(&w, "by", by);
        sl_json_member_str(&w, "what", what);
        sl_json_key(&w, SL_STR("before"));
        sl_json_raw(&w, before.len ? before : SL_STR("null"));
        sl_json_key(&w, SL_STR("after"));
        sl_json_raw(&w, after.len ? after : SL_STR("null"));
        sl_json_close(&w, '}');
    }
    sl_query_reset(db, q);
    return w.err ? w.err : found;
}

/* ---- reading ---- */

static int fault(struct sl_registry *r, struct sl_job *job, int err)
{
    job->err = err == SLUICE_ENOMEM ? err : SLUICE_ESTORE;
    if (err == SLUICE_ENOMEM || err == SLUICE_EFULL)
        sl_diag_error(&job->diag, err, "out of memory");
    else
        job->diag = r->db.diag;
    return job->err;
}

static int give(struct sl_registry *r, struct sl_job *job,
                const struct sl_subject_draft *draft, bool known,
                struct sl_subject_record ***end)
{
    struct sl_subject_record *entry =
        sl_subject_record_new(draft, known, r->alloc);

    if (!entry)
        return fault(r, job, SLUICE_ENOMEM);
    **end = entry;
    *end = &entry->next;
    return 0;
}

static uint64_t ips_version(const struct sl_registry *r)
{
    return atomic_load_explicit(sl_registry_version(r, SL_IP_SCOPE, SL_IP_ALL),
                                memory_order_acquire);
}

/* Returns whether there is a registered subject, or an error. Only queries set
 * has_registered: a notification may be about a block or a credit. One about a
 * blocked address that comes meanwhile is later than the query. */
static int look_registered(struct sl_registry *r)
{
    uint64_t version = ips_version(r);
    int64_t registered = 0, ips = 0;
    int found =
        sl_query_one(&r->db, SL_QUERY_REGISTERED, " nn", &registered, &ips);

    if (found < 0)
        return found;
    atomic_store_explicit(&r->has_registered, registered != 0,
                          memory_order_release);
    atomic_store_explicit(&r->has_blocked_ips, ips != 0, memory_order_release);
    if (ips_version(r) != version)
        atomic_store_explicit(&r->has_blocked_ips, true, memory_order_release);
    return registered != 0;
}

static int find_blocked_ips(struct sl_registry *r, struct sl_job *job)
{
    int err;

    job->version = ips_version(r);
    err = sl_blocked_ips_load(r, job->now, &job->entries);
    if (err == 0) /* none is left, or there was none */
        err = look_registered(r);
    return err < 0 ? fault(r, job, err) : 0;
}

static int find(struct sl_registry *r, struct sl_job *job)
{
    struct sl_subject_record **end = &job->entries;
    struct sl_subject_draft draft;
    int found, err;

    job->version = atomic_load_explicit(
        &r->versions[version_of(r, job->scope, job->id)], memory_order_acquire);
    found = sl_job_load(&r->db, job->scope, job->id, &draft);
    if (found < 0)
        return fault(r, job, found);
    if (!found) {
        job->result = SL_JOB_NOT_FOUND;
        draft.id = job->id;
    }
    err = sl_usage_db_credits(&r->db, job->scope, draft.id, job->now, &draft);
    if (!err)
        err = sl_block_load(&r->db, job->scope, draft.id, &draft.block);
    /* An id that was blocked may be an alias since then. */
    if (!err && !draft.block.is_set && !sl_str_eq(draft.id, job->id))
        err = sl_block_load(&r->db, job->scope, job->id, &draft.block);
    /* Another process may have registered the first subject. */
    if (!err && !found && !sl_registry_has_registered(r))
        err = look_registered(r);
    if (err < 0)
        return fault(r, job, err);
    return give(r, job, &draft, found, &end);
}

static bool has_prefix(struct sl_str id, struct sl_str prefix)
{
    return id.len >= prefix.len &&
           sl_str_eq((struct sl_str){id.at, prefix.len}, prefix);
}

static int list_scope(struct sl_registry *r, struct sl_job *job,
                      struct sl_str scope, struct sl_str after,
                      struct sl_subject_record ***end, unsigned *count)
{
    char last[SL_SUBJECT_RECORD_ID]; /* the arena is reset for each subject */
    struct sl_subject_draft draft;
    struct sl_str id = after;
    int err = 0;

    while (!err && *count < job->most) {
        int found = sl_query_one(&r->db, SL_QUERY_NEXT, "ttt t", scope, id,
                                 job->prefix, &id);

        if (found != 1 || id.len > sizeof(last) || !has_prefix(id, job->prefix))
            return found < 0 ? fault(r, job, found) : 0;
        memcpy(last, id.at, id.len);
        id.at = last;
        sl_arena_reset(&r->db.arena);
        found = sl_job_load(&r->db, scope, id, &draft);
        if (found == 1)
            err = give(r, job, &draft, true, end);
        else if (found < 0)
            err = fault(r, job, found);
        ++*count;
    }
    return err;
}

static int list(struct sl_registry *r, struct sl_job *job)
{
    static const struct sl_str scopes[] = {
        {"org",  3},
        {"user", 4}
    };
    struct sl_subject_record **end = &job->entries;
    unsigned count = 0;
    int err = 0;

    for (size_t i = 0; i < SL_LEN(scopes) && !err; i++) {
        bool here = sl_str_eq(job->after_scope, scopes[i]);

        if (job->scope.len > 0 && !sl_str_eq(job->scope, scopes[i]))
            continue;
        /* The id listed last is not listed again. */
        if (i == 0 && sl_str_eq(job->after_scope, scopes[1]))
            continue;
        err = list_scope(r, job, scopes[i], here ? job->id : SL_STR(""), &end,
                         &count);
    }
    return err;
}

void sl_job_run_read(struct sl_registry *r, struct sl_job *job)
{
    int err;

    sl_arena_reset(&r->db.arena);
    if (job->kind != SL_JOB_PING)
        atomic_fetch_add_explicit(&r->reads, 1, memory_order_relaxed);
    if (job->kind == SL_JOB_FIND && sl_str_eq(job->scope, SL_IP_SCOPE)) {
        find_blocked_ips(r, job);
    } else if (job->kind == SL_JOB_FIND) {
        find(r, job);
    } else if (job->kind == SL_JOB_LIST) {
        list(r, job);
    } else {
        if (job->kind == SL_JOB_NODES)
            err = sl_usage_db_nodes(&r->db, job->name, job->most, &job->text);
        else if (job->kind == SL_JOB_ENDS)
            err = sl_usage_db_ends(&r->db, job->name, job->most, &job->text);
        else if (job->kind == SL_JOB_PING)
            err = sl_query_one(&r->db, SL_QUERY_ANY, "");
        else if (job->scope.len == 0)
            err = sl_audit_read(&r->db, job, &job->text);
        else
            err = read_history(&r->db, job, &job->text);
        if (err < 0)
            fault(r, job, err);
    }
}

/* ---- writing ---- */

static int refuse(struct sl_job *job, enum sl_job_result result)
{
    job->result = result;
    return 0;
}

static int refuse_alias(struct sl_job *job, struct sl_str scope,
                        struct sl_str alias, struct sl_str owner)
{
    sl_diag_error(&job->diag, SLUICE_ECONF,
                  "%.*s is an alias of the %.*s %.*s; change that subject, or "
                  "remove the alias first",
                  SL_STR_ARG(alias), SL_STR_ARG(scope), SL_STR_ARG(owner));
    return refuse(job, SL_JOB_CONFLICT);
}

/* Checks that no other subject has the name or one of the aliases. */
static int check_names(struct sl_registry *r, struct sl_job *job,
                       const struct sl_subject_draft *old,
                       const struct sl_subject_draft *new)
{
    struct sl_subject_draft other;
    struct sl_str owner;
    int found = 0;

    if (old->id.len == 0)
        found = find_alias(&r->db, new->scope, new->id, &owner);
    if (found == 1)
        return refuse_alias(job, new->scope, new->id, owner);
    for (unsigned i = 0; i < new->alias_count &&found >= 0; i++) {
        found = sl_job_load(&r->db, new->scope, new->aliases[i], &other);
        if (found != 1 || sl_str_eq(other.id, new->id))
            continue;
        sl_diag_error(
            &job->diag, SLUICE_ECONF,
            "the alias %.*s already belongs to the %.*s %.*s; remove it "
            "there first",
            SL_STR_ARG(new->aliases[i]), SL_STR_ARG(new->scope),
            SL_STR_ARG(other.id));
        return refuse(job, SL_JOB_CONFLICT);
    }
    return found < 0 ? found : 0;
}

static int answer_one(struct sl_registry *r, struct sl_job *job,
                      const struct sl_subject_draft *draft)
{
    struct sl_subject_record **end = &job->entries;

    return job->change_count == 1 ? give(r, job, draft, true, &end) : 0;
}

static int remove_one(struct sl_registry *r, struct sl_job *job,
                      const struct sl_subject_change *change,
                      const struct sl_subject_draft *old)
{
    if (old->id.len == 0)
        return refuse(job, SL_JOB_NOT_FOUND);
    touch_names(r, old);
    return store(&r->db, old, NULL, change->by, job);
}

/* Begins new periods if the calendar is another. */
static int turn(struct sl_registry *r, const struct sl_subject_draft *old,
                struct sl_subject_draft *new, sl_ns now)
{
    int64_t one;
    int found;

    if (sl_subject_calendar_same(&old->calendar, &new->calendar))
        return 0;
    found =
        sl_query_one(&r->db, SL_QUERY_USES, "tt n", new->scope, new->id, &one);
    if (found >= 0)
        sl_subject_draft_turn(
            old, new, found == 1 || sl_usage_replay_has(r, new->scope, new->id),
            now);
    return found < 0 ? found : 0;
}

static int replace_one(struct sl_registry *r, struct sl_job *job,
                       const struct sl_subject_change *change,
                       const struct sl_subject_draft *old)
{
    struct sl_subject_draft new = *old;
    int err;

    if (!sl_subject_draft_change(&new, change, job->now, &job->diag))
        return refuse(job, SL_JOB_CONFLICT);
    if (old->id.len > 0 && sl_subject_draft_same(old, &new)) {
        job->same++;
        return answer_one(r, job, old);
    }
    err = turn(r, old, &new, job->now);
    if (!err)
        err = check_names(r, job, old, &new);
    if (err || job->result != SL_JOB_DONE)
        return err;
    touch_names(r, old);
    touch_names(r, &new);
    err = store(&r->db, old->id.len > 0 ? old : NULL, &new, change->by, job);
    return err ? err : answer_one(r, job, &new);
}

/* A full or imported change must use the id itself: a list of ids does not mean
 * a subject that has one of them as an alias. */
static bool needs_own_name(const struct sl_subject_change *change)
{
    return change->kind == SL_CHANGE_PUT || change->line > 0;
}

/* Applies one change. A subject changed by an alias keeps its id. */
static int change_one(struct sl_registry *r, struct sl_job *job,
                      const struct sl_subject_change *change)
{
    struct sl_subject_change own = *change;
    struct sl_subject_draft old;
    int found;

    sl_arena_reset(&r->db.arena);
    found = sl_job_load(&r->db, change->scope, change->id, &old);
    if (found < 0)
        return found;
    if (found && needs_own_name(change) && !sl_str_eq(change->id, old.id))
        return refuse_alias(job, change->scope, change->id, old.id);
    if (found) {
        own.id = old.id;
    } else {
        memset(&old, 0, sizeof(old));
        old.expires = SL_NS_NONE;
    }
    if (own.must_match && own.match != old.revision)
        return refuse(job, found || own.match == 0 ? SL_JOB_CHANGED
                                                   : SL_JOB_NOT_FOUND);
    return own.kind == SL_CHANGE_REMOVE ? remove_one(r, job, &own, &old)
                                        : replace_one(r, job, &own, &old);
}

static int write_all(struct sl_registry *r, struct sl_job *job)
{
    int err = sl_query_run(&r->db, SL_QUERY_MARK, "");

    for (unsigned i = 0; i < job->change_count && !err; i++) {
        err = change_one(r, job, &job->changes[i]);
        if (err || job->result != SL_JOB_DONE) {
            job->failed = i;
            break;
        }
    }
    if (!err && job->result != SL_JOB_DONE)
        err = sl_query_run(&r->db, SL_QUERY_UNDO, "");
    return err ? err : sl_query_run(&r->db, SL_QUERY_KEEP, "");
}

static int forget(struct sl_registry *r)
{
    int err;

    memset(r->dirty, 0xff, sizeof(r->dirty));
    sl_usage_replay_forget(r);
    notify(r, "*", SL_STR(""), SL_STR(""));
    err =
        r->db.driver->script(&r->db, "DELETE FROM subjects; DELETE FROM roles;"
                                     "DELETE FROM aliases; DELETE FROM "
                                     "overrides; DELETE FROM audit;"
                                     "DELETE FROM switches;"
                                     "DELETE FROM blocks;"
                                     "DELETE FROM repeats;"
                                     "DELETE FROM denials;"
                                     "DELETE FROM webhook_endpoints;"
                                     "DELETE FROM webhook_destinations;"
                                     "DELETE FROM webhook_messages;"
                                     "DELETE FROM webhook_keys;"
                                     "DELETE FROM webhook_deliveries;"
                                     "DELETE FROM webhook_attempts;"
                                     "DELETE FROM denial_names");
    return err ? err : r->db.driver->script(&r->db, sl_usage_db_forget);
}

/* Takes the next sequence of the journal's stream. *ret: the segment must be
 * recorded. If it must not, either it was recorded before, or the one before it
 * was not. */
static int take_sequence(struct sl_database *db, struct sl_job *job, bool *ret)
{
    uint64_t last = 0;
    int found = sl_query_one(db, SL_QUERY_PUT_JOURNAL, "tccnc c", job->journal,
                             job->stream, job->sequence, job->usage[0].at,
                             job->after, &last);

    *ret = found == 1;
    if (found == 0)
        found = sl_query_one(db, SL_QUERY_JOURNAL, "tc c", job->journal,
                             job->stream, &last);
    if (found >= 0 && last < job->sequence)
        job->result = SL_JOB_CHANGED;
    return found < 0 ? found : 0;
}

/* Records a segment once. Its reports were accepted: one whose key belongs to
 * another report is left out, and the others are recorded. */
static int record_segment(struct sl_registry *r, struct sl_job *job)
{
    bool is_new;
    int err = take_sequence(&r->db, job, &is_new);
    unsigned failed, i = 0;

    for (; is_new && i < job->change_count && !err; i++) {
        err = sl_usage_db_record(&r->db, job->usage + i, job->change_count - i,
                                 &failed);
        i += failed;
    }
    job->failed = err && i > 0 ? i - 1 : job->change_count;
    return err;
}

/* How long a refund of more than is recorded waits for the rest: usage of the
 * last moments is recorded by other threads and daemons, in any order. */
#define REFUND_WAIT (3 * SL_S / 2)

/* Segments do not wait: two of them could wait for each other. */
static bool must_wait_for_usage(const struct sl_job *job)
{
    bool is_short = false;

    for (unsigned i = 0; i < job->change_count && job->sequence == 0; i++)
        is_short |= job->usage[i].is_short;
    return is_short && (job->blocked_since == 0 ||
                        sl_clock_mono() - job->blocked_since < REFUND_WAIT);
}

/* A refused amount rolls back its whole job. */
static int record(struct sl_registry *r, struct sl_job *job)
{
    int err = sl_query_run(&r->db, SL_QUERY_MARK, "");
    bool undo;

    if (!err && job->journal.len > 0)
        err = record_segment(r, job);
    else if (!err)
        err = sl_usage_db_record(&r->db, job->usage, job->change_count,
                                 &job->failed);
    if (!err && job->failed < job->change_count)
        job->result = SL_JOB_CONFLICT;
    if (!err && job->result == SL_JOB_DONE && !job->dry_run)
        job->is_blocked = must_wait_for_usage(job);
    undo = job->result == SL_JOB_CONFLICT || job->dry_run || job->is_blocked;
    if (!err && undo)
        err = sl_query_run(&r->db, SL_QUERY_UNDO, "");
    for (unsigned i = 0; i < job->change_count && !err && !undo; i++) {
        if (job->usage[i].absorbed)
            sl_job_touch(r, job->usage[i].scope, job->usage[i].id);
        if (job->audit)
            err = sl_audit_put_usage(&r->db, job->audit, &job->usage[i]);
    }
    return err ? err : sl_query_run(&r->db, SL_QUERY_KEEP, "");
}

static int grant(struct sl_registry *r, struct sl_job *job)
{
    bool found = true;
    int err = job->on ? sl_usage_db_grant(&r->db, job->grant, job->now)
                      : sl_usage_db_revoke(&r->db, job->grant, &found);

    if (!found)
        job->result = SL_JOB_NOT_FOUND;
    sl_job_touch(r, job->grant->scope, job->grant->id);
    return err;
}

/* This read is in the queue of writes, to see those before it. If its answer
 * finds no room, the writes are not affected. */
static int spare(struct sl_job *job, int err, const char *why)
{
    if (err != SLUICE_EFULL)
        return err;
    job->err = sl_diag_error(&job->diag, SLUICE_ESTORE, "%s", why);
    return 0;
}

static int release(struct sl_registry *r, struct sl_job *job)
{
    bool alive = false;
    int err = sl_usage_db_release(&r->db, job->name, job->since, &alive,
                                  &job->same, &job->units);

    if (!err && alive)
        job->result = SL_JOB_CONFLICT;
    else if (!err && job->same == 0)
        job->result = SL_JOB_NOT_FOUND;
    return err;
}

static int lease_units(struct sl_database *db, struct sl_job *job)
{
    int err = sl_usage_db_claim(db, job->claim);

    if (!err && job->claim->lost)
        job->result = SL_JOB_CONFLICT;
    return err;
}

static int set_switch(struct sl_registry *r, const struct sl_job *job)
{
    struct sl_str on = SL_STR("-");

    if (job->on >= 0)
        on = job->on ? SL_STR("1") : SL_STR("0");
    notify(r, "f:", on, job->name);
    return job->on < 0
               ? sl_query_run(&r->db, SL_QUERY_DROP_SWITCH, "t", job->name)
               : sl_query_run(&r->db, SL_QUERY_PUT_SWITCH, "titn", job->name,
                              job->on, job->by, job->now);
}

bool sl_job_must_wait(const struct sl_registry *r, const struct sl_job *job)
{
    return r->replay &&
           (job->kind == SL_JOB_ERASE ||
            (job->kind == SL_JOB_EXPORT && job->export->number == 0));
}

static int write_kind(struct sl_registry *r, struct sl_job *job)
{
    struct sl_database *db = &r->db;
    int err;

    switch (job->kind) {
    case SL_JOB_USAGE_READ:
        err = sl_usage_db_read(db, job->scope, job->id, job->since,
                               job->started, job->now, &job->text);
        return spare(job, err, "the history is too long; request fewer days");
    case SL_JOB_CREDITS:
        err = sl_usage_db_credits_json(db, job, &job->text);
        return spare(job, err,
                     "there are too many credits to show; delete those that "
                     "are used or expired");
    case SL_JOB_EXPORT:
        err = sl_usage_export_page(db, job->export, job->now, &job->text);
        if (!err && job->export->gone)
            job->result = SL_JOB_NOT_FOUND;
        return spare(job, err, "a page of the export is too large");
    case SL_JOB_LEASES:
        return sl_usage_db_leases_json(db, job->name, job->most, &job->text,
                                       &job->cut);
    case SL_JOB_RELEASE:
        return release(r, job);
    case SL_JOB_LEASE:
        return lease_units(db, job);
    case SL_JOB_REPEAT:
        return sl_repeats_run(db, job);
    case SL_JOB_DENIALS:
        err = sl_denials_read(db, &job->denials->query, &job->text);
        return spare(job, err, "the page is too large; request fewer records");
    case SL_JOB_PUT_DENIALS:
        return sl_denials_put(db, job->denials);
    case SL_JOB_WEBHOOK:
        return spare(job, sl_webhook_run(r, job),
                     "the page is too large; request fewer rows");
    case SL_JOB_GRANT:
        return grant(r, job);
    case SL_JOB_BLOCK:
        return sl_block_write(r, job);
    case SL_JOB_BLOCKS:
        err = sl_block_list(db, job);
        return spare(job, err, "there are too many blocks to show");
    case SL_JOB_USAGE:
        return job->is_replay ? sl_usage_replay_run(r, job) : record(r, job);
    case SL_JOB_SWITCH:
        return set_switch(r, job);
    case SL_JOB_CLEAR:
        return forget(r);
    case SL_JOB_ERASE:
        return sl_erase_run(r, job);
    case SL_JOB_RETAIN:
        return sl_retain_run(db, job);
    case SL_JOB_NOTE:
        return 0;
    default:
        return write_all(r, job);
    }
}

/* Writes a job and its row of the audit. Subjects and usage have rows of their
 * own. */
static int write(struct sl_registry *r, struct sl_job *job)
{
    uint64_t number;
    int err;

    job->is_blocked = sl_job_must_wait(r, job);
    if (job->is_blocked)
        return 0;
    err = sl_usage_replay_before(r, job);
    if (!err)
        err = write_kind(r, job);
    if (err || !job->audit || job->kind == SL_JOB_WRITE ||
        job->kind == SL_JOB_USAGE || job->result != SL_JOB_DONE)
        return err;
    return sl_audit_put(&r->db, job->audit, job->now, &number);
}

/* ---- transactions ---- */

/* Discards what an attempt has left. */
static void clear_output(struct sl_job *job)
{
    sl_subject_records_free(job->entries);
    job->entries = NULL;
    job->result = SL_JOB_DONE;
    job->same = 0;
    sl_buf_clear(&job->text);
}

/* None of the jobs is on disk, unless the commit is uncertain: then all are
 * but those that were left out, or refused: such as a segment of the journal
 * whose predecessor was left out. */
static void fail_all(struct sl_registry *r, struct sl_job *first, int err)
{
    struct sl_diag why = r->db.diag;

    r->db.driver->rollback(&r->db);
    sl_usage_replay_undo(r, 0);
    for (struct sl_job *job = first; job; job = job->next) {
        bool left_out = job->is_blocked || job->result != SL_JOB_DONE;

        job->is_blocked = false;
        if (job->already_done)
            continue;
        clear_output(job);
        if (job->uncertain_txn == 0 && !left_out)
            job->uncertain_txn = r->db.uncertain_txn;
        r->db.diag = why;
        fault(r, job, err);
    }
}

int sl_job_run_look(struct sl_registry *r)
{
    int registered = look_registered(r);
    int any = registered ? registered : sl_query_one(&r->db, SL_QUERY_ANY, "");

    /* A notification of another process may have come meanwhile. */
    if (any > 0 || (any == 0 && !r->db.driver->notify))
        atomic_store_explicit(&r->has_subjects, any > 0, memory_order_release);
    return any < 0 ? any : 0;
}

/* Begins a transaction and locks the slots of its subjects. Begins again, once
 * for each, for holds that were recorded meanwhile. */
static int begin(struct sl_registry *r, struct sl_job *first, bool careful)
{
    bool again = true;
    int err = 0;

    while (again && !err) {
        for (struct sl_job *job = first; job; job = job->next)
            job->is_blocked = false;
        err = sl_query_run(&r->db, SL_QUERY_BEGIN, "");
        if (!err)
            err = sl_sharing_lock(r, first, careful, &again);
        if (!err && again)
            r->db.driver->rollback(&r->db);
    }
    return err;
}

void sl_registry_count_overshoot(struct sl_registry *r, bool committed)
{
    if (committed)
        atomic_fetch_add_explicit(&r->overshoot, r->db.overshoot,
                                  memory_order_relaxed);
    r->db.overshoot = 0;
}

static void block(struct sl_job *job)
{
    job->is_blocked = true;
    job->blocked_at = job->failed;
}

/* Tries the entries at which the job was blocked before: if they are still
 * locked, the others need not be tried. */
static int try_blocked(struct sl_registry *r, struct sl_job *job)
{
    unsigned at = job->blocked_at, failed;
    uint64_t overshoot = r->db.overshoot;
    int err;

    if (at >= job->change_count)
        at = job->change_count - 1;
    if (job->kind != SL_JOB_USAGE || job->blocked_since == 0 ||
        job->change_count < 2)
        return 0;
    err = sl_query_run(&r->db, SL_QUERY_MARK, "");
    for (unsigned i = at > 0 ? at - 1 : 0; i <= at && !err; i++)
        err = sl_usage_db_record(&r->db, &job->usage[i], 1, &failed);
    if (!err)
        err = sl_query_run(&r->db, SL_QUERY_UNDO, "");
    r->db.overshoot = overshoot;
    return err < 0 ? err : sl_query_one(&r->db, SL_QUERY_KEEP, "");
}

/* Runs a job, or leaves it out if another session has locked a row of it.
 * `locked` has the slots of such jobs. */
static int write_careful(struct sl_registry *r, struct sl_job *job,
                         uint64_t *locked)
{
    uint64_t own[SL_SHARE_SLOTS / 64] = {0};
    bool single = sl_job_slot(job, own);
    uint64_t overshoot = r->db.overshoot;
    unsigned mark = sl_usage_replay_mark(r);
    int err;

    for (size_t i = 0; single && i < SL_LEN(own); i++)
        job->is_blocked |= (own[i] & locked[i]) != 0;
    if (job->is_blocked)
        return 0;
    err = sl_query_run(&r->db, SL_QUERY_MARK, "");
    if (!err)
        err = try_blocked(r, job);
    if (!err)
        err = write(r, job);
    /* It waits for the results of all before it. */
    if (!err)
        err = sl_query_one(&r->db, SL_QUERY_KEEP, "");
    if (!err || !r->db.is_locked)
        return err;
    block(job);
    clear_output(job);
    r->db.overshoot = overshoot;
    sl_usage_replay_undo(r, mark);
    for (size_t i = 0; single && i < SL_LEN(own); i++)
        locked[i] |= own[i];
    r->db.driver->recover(&r->db);
    err = sl_query_run(&r->db, SL_QUERY_UNDO, "");
    return err ? err : sl_query_run(&r->db, SL_QUERY_KEEP, "");
}

/* Reads ahead for reports that follow each other. Lines of the journal that are
 * recorded before a report may change what it reads. *ret: the jobs after this
 * one. */
static int read_ahead(struct sl_registry *r, const struct sl_job *job,
                      unsigned *ret)
{
    int found = 1;

    unsigned count = 0;

    for (; job && found == 1 && count < SL_USAGE_AHEAD; job = job->next) {
        if (r->replay || job->kind != SL_JOB_USAGE || job->change_count != 1 ||
            job->already_done)
            break;
        found = sl_usage_db_ahead(&r->db, job->usage);
        count += found == 1;
    }
    *ret = count > 0 ? count - 1 : 0;
    return found < 0 ? found : sl_query_fetch(&r->db);
}

/* Runs the jobs as one transaction. */
static int write_group(struct sl_registry *r, struct sl_job *first,
                       bool careful)
{
    uint64_t locked[SL_SHARE_SLOTS / 64] = {0};
    unsigned ahead = 0;
    int err = begin(r, first, careful);

    r->db.one_by_one = careful;
    for (struct sl_job *job = first; job && !err; job = job->next) {
        if (ahead > 0)
            ahead--;
        else
            err = read_ahead(r, job, &ahead);
        if (!err && !job->already_done)
            err = careful ? write_careful(r, job, locked) : write(r, job);
    }
    return err ? err : sl_sharing_commit(r);
}

/* Another session has locked something that a job needs: finds out which job,
 * and runs the others. */
static int write_others(struct sl_registry *r, struct sl_job *first)
{
    r->db.driver->rollback(&r->db);
    sl_usage_replay_undo(r, 0);
    r->db.is_locked = false;
    r->db.overshoot = 0;
    for (struct sl_job *job = first; job; job = job->next)
        if (!job->already_done)
            clear_output(job);
    if (!first || first->next)
        return write_group(r, first, true);
    block(first);
    return 0;
}

static void count_expired(struct sl_registry *r, const struct sl_job *first)
{
    for (const struct sl_job *job = first; job; job = job->next)
        if (job->kind == SL_JOB_RETAIN && !job->is_blocked)
            atomic_fetch_add_explicit(&r->expired, job->units,
                                      memory_order_relaxed);
}

/* Its transaction is over, whether the files could be cleaned or not. */
static void scrub(struct sl_registry *r, const struct sl_job *first)
{
    bool erased = false;

    for (const struct sl_job *job = first; job; job = job->next)
        erased |= job->kind == SL_JOB_ERASE && !job->is_blocked;
    if (erased && r->db.driver->scrub)
        (void)!r->db.driver->scrub(&r->db);
}

static void count_writes(struct sl_registry *r, const struct sl_job *first)
{
    atomic_fetch_add_explicit(&r->commits, 1, memory_order_relaxed);
    for (const struct sl_job *job = first; job; job = job->next)
        if (!job->is_blocked && !job->already_done &&
            job->kind != SL_JOB_USAGE_READ && job->kind != SL_JOB_EXPORT &&
            job->kind < SL_JOB_LEASE)
            atomic_fetch_add_explicit(&r->writes, 1, memory_order_relaxed);
}

#define LOOK_PERIOD SL_S

/* The other session may be that of a daemon that was stopped. */
static void end_stopped(struct sl_registry *r)
{
    sl_ns now = sl_clock_mono();

    if (!r->db.driver->end_stopped || now < r->look_at)
        return;
    r->db.driver->end_stopped(&r->db);
    r->look_at = now + LOOK_PERIOD;
}

void sl_job_give_up(struct sl_registry *r, struct sl_job *job)
{
    if (!sl_job_must_wait(r, job))
        end_stopped(r);
    job->is_blocked = false;
    job->blocked_since = 0;
    sl_diag_error(&r->db.diag, SLUICE_ESTORE,
                  sl_job_must_wait(r, job)
                      ? "usage that an earlier run of this daemon has left in "
                        "its journal is still being recorded; try again later "
                        "(sluice_usage_journal_pending_units)"
                      : "another session of the database has locked this "
                        "subject");
    fault(r, job, SLUICE_ESTORE);
}

void sl_job_run_writes(struct sl_registry *r, struct sl_job *first,
                       bool careful)
{
    int err = sl_registry_contact(r);

    if (!err && first && !first->next && sl_job_must_wait(r, first)) {
        first->is_blocked = true; /* it needs no transaction for that */
        return;
    }
    if (!err)
        err = sl_sharing_check_commit(r, first);
    for (struct sl_job *job = first; job; job = job->next)
        job->is_pending =
            (job->kind == SL_JOB_USAGE_READ || job->kind == SL_JOB_CREDITS) &&
            sl_usage_replay_has(r, job->scope, job->id);
    r->db.is_locked = false;
    if (!err)
        err = write_group(r, first, careful && first && first->next);
    if (err && r->db.is_locked)
        err = write_others(r, first);
    if (err) {
        fail_all(r, first, err);
    } else {
        sl_usage_replay_commit(r);
        count_writes(r, first);
        count_expired(r, first);
        scrub(r, first);
    }
    sl_registry_count_overshoot(r, !err);
    /* Also after a failure: the commit may have succeeded. */
    if (sl_job_run_look(r))
        atomic_store_explicit(&r->has_subjects, true, memory_order_release);
    raise_stamps(r);
}
