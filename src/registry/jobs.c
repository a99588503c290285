/* jobs.c -- runs the jobs of the registry.
 *
 * Waiting writes are committed together. Each has a savepoint: a refused write
 * is rolled back alone. A database error fails all of them, because none is on
 * disk.
 */
#include <string.h>

#include "base/timestamp.h"
#include "registry/registry_int.h"
#include "wire/json.h"

/* ---- versions ---- */

static void touch(struct sl_registry *r, struct sl_str scope, struct sl_str id)
{
    unsigned version = sl_registry_version_of(r, scope, id);

    r->dirty[version / 64] |= UINT64_C(1) << version % 64;
    sl_sharing_touch(r, scope, id);
}

/* Marks the id and all aliases of a subject as changed. */
static void touch_names(struct sl_registry *r,
                        const struct sl_subject_draft *draft)
{
    if (draft->id.len == 0)
        return;
    touch(r, draft->scope, draft->id);
    for (unsigned i = 0; i < draft->alias_count; i++)
        touch(r, draft->scope, draft->aliases[i]);
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

static int find(struct sl_registry *r, struct sl_job *job)
{
    struct sl_subject_record **end = &job->entries;
    struct sl_subject_draft draft;
    bool found = false;
    int err;

    job->version = atomic_load_explicit(
        &r->versions[sl_registry_version_of(r, job->scope, job->id)],
        memory_order_acquire);
    err = sl_database_load(&r->db, job->scope, job->id, &draft, &found);
    if (err)
        return fault(r, job, err);
    if (!found) {
        job->result = SL_JOB_NOT_FOUND;
        draft.id = job->id;
    }
    err = sl_usage_db_credits(&r->db, job->scope, draft.id, job->now, &draft);
    if (err)
        return fault(r, job, err);
    return give(r, job, &draft, found, &end);
}

static int list_scope(struct sl_registry *r, struct sl_job *job,
                      struct sl_str scope, struct sl_str after,
                      struct sl_subject_record ***end, unsigned *count)
{
    char last[SL_SUBJECT_RECORD_ID]; /* the arena is reset for each subject */
    struct sl_subject_draft draft;
    struct sl_str id = after;
    bool found = true;
    int err = 0;

    while (!err && *count < job->most) {
        err = sl_database_next(&r->db, scope, id, job->prefix, &id);
        if (err || id.len == 0 || id.len > sizeof(last))
            break;
        memcpy(last, id.at, id.len);
        id.at = last;
        sl_arena_reset(&r->db.arena);
        err = sl_database_load(&r->db, scope, id, &draft, &found);
        if (!err && found)
            err = give(r, job, &draft, true, end);
        ++*count;
    }
    return err && !job->err ? fault(r, job, err) : err;
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
    atomic_fetch_add_explicit(&r->reads, 1, memory_order_relaxed);
    if (job->kind == SL_JOB_FIND) {
        find(r, job);
    } else if (job->kind == SL_JOB_LIST) {
        list(r, job);
    } else {
        err = sl_database_audit(&r->db, job->scope, job->id, job->before,
                                job->most, &job->text);
        if (err)
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
    struct sl_str owner = {"", 0};
    bool found = false;
    int err = 0;

    if (old->id.len == 0)
        err = sl_database_alias(&r->db, new->scope, new->id, &owner);
    if (!err && owner.len > 0)
        return refuse_alias(job, new->scope, new->id, owner);
    for (unsigned i = 0; i < new->alias_count && !err; i++) {
        err = sl_database_load(&r->db, new->scope, new->aliases[i], &other,
                               &found);
        if (err || !found || sl_str_eq(other.id, new->id))
            continue;
        sl_diag_error(
            &job->diag, SLUICE_ECONF,
            "the alias %.*s already belongs to the %.*s %.*s; remove it "
            "there first",
            SL_STR_ARG(new->aliases[i]), SL_STR_ARG(new->scope),
            SL_STR_ARG(other.id));
        return refuse(job, SL_JOB_CONFLICT);
    }
    return err;
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
    return sl_database_store(&r->db, old, NULL, change->by, job->now);
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
    err = check_names(r, job, old, &new);
    if (err || job->result != SL_JOB_DONE)
        return err;
    touch_names(r, old);
    touch_names(r, &new);
    err = sl_database_store(&r->db, old->id.len > 0 ? old : NULL, &new,
                            change->by, job->now);
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
    bool found = false;
    int err;

    sl_arena_reset(&r->db.arena);
    err = sl_database_load(&r->db, change->scope, change->id, &old, &found);
    if (err)
        return err;
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
    int err = sl_database_run(&r->db, SL_QUERY_MARK);

    for (unsigned i = 0; i < job->change_count && !err; i++) {
        err = change_one(r, job, &job->changes[i]);
        if (err || job->result != SL_JOB_DONE) {
            job->failed = i;
            break;
        }
    }
    if (!err && job->result != SL_JOB_DONE)
        err = sl_database_run(&r->db, SL_QUERY_UNDO);
    return err ? err : sl_database_run(&r->db, SL_QUERY_KEEP);
}

static int forget(struct sl_registry *r)
{
    int err;

    memset(r->dirty, 0xff, sizeof(r->dirty));
    sl_sharing_touch_all(r);
    err = sl_database_script(&r->db, "DELETE FROM subjects; DELETE FROM roles;"
                                     "DELETE FROM aliases; DELETE FROM "
                                     "overrides; DELETE FROM audit;"
                                     "DELETE FROM switches");
    return err ? err : sl_database_script(&r->db, sl_usage_db_forget);
}

/* A refused amount rolls back its whole job. */
static int record(struct sl_registry *r, struct sl_job *job)
{
    int err = sl_database_run(&r->db, SL_QUERY_MARK);

    if (!err)
        err = sl_usage_db_record(&r->db, job->usage, job->change_count,
                                 &job->failed);
    if (!err && job->failed < job->change_count) {
        job->result = SL_JOB_CONFLICT;
        err = sl_database_run(&r->db, SL_QUERY_UNDO);
    }
    for (unsigned i = 0; i < job->change_count && !err; i++)
        if (job->usage[i].absorbed)
            touch(r, job->usage[i].scope, job->usage[i].id);
    return err ? err : sl_database_run(&r->db, SL_QUERY_KEEP);
}

static int grant(struct sl_registry *r, struct sl_job *job)
{
    bool found = true;
    int err = job->on ? sl_usage_db_grant(&r->db, job->grant, job->now)
                      : sl_usage_db_revoke(&r->db, job->grant, &found);

    if (!found)
        job->result = SL_JOB_NOT_FOUND;
    touch(r, job->grant->scope, job->grant->id);
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

static int read_meters(struct sl_registry *r, struct sl_job *job)
{
    int err = sl_usage_db_read(&r->db, job->scope, job->id, job->since,
                               job->started, job->now, &job->text);

    return spare(job, err, "the history is too long; request fewer days");
}

static int read_credits(struct sl_registry *r, struct sl_job *job)
{
    int err = sl_usage_db_credits_json(&r->db, job->scope, job->id, job->now,
                                       &job->text);

    return spare(job, err,
                 "there are too many credits to show; delete those that are "
                 "used or expired");
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

static int claim(struct sl_registry *r, struct sl_job *job)
{
    int err = sl_usage_db_claim(&r->db, job->claim);

    if (!err && job->claim->lost)
        return refuse(job, SL_JOB_CONFLICT);
    return err;
}

static int carry_lease(struct sl_registry *r, struct sl_job *job)
{
    if (job->kind == SL_JOB_LEASES)
        return sl_usage_db_leases_json(&r->db, job->name, job->most, &job->text,
                                       &job->cut);
    return job->kind == SL_JOB_RELEASE ? release(r, job) : claim(r, job);
}

static int write(struct sl_registry *r, struct sl_job *job)
{
    if (job->already_done)
        return 0;
    if (job->kind == SL_JOB_USAGE_READ)
        return read_meters(r, job);
    if (job->kind >= SL_JOB_LEASE)
        return carry_lease(r, job);
    atomic_fetch_add_explicit(&r->writes, 1, memory_order_relaxed);
    if (job->kind == SL_JOB_CREDITS)
        return read_credits(r, job);
    if (job->kind == SL_JOB_GRANT)
        return grant(r, job);
    if (job->kind == SL_JOB_USAGE)
        return record(r, job);
    if (job->kind == SL_JOB_SWITCH) {
        sl_sharing_switch(r, job->name, job->on);
        return sl_database_switch(&r->db, job->name, job->on, job->by,
                                  job->now);
    }
    return job->kind == SL_JOB_CLEAR ? forget(r) : write_all(r, job);
}

/* None of the jobs is on disk. */
static void fail_all(struct sl_registry *r, struct sl_job *first, int err)
{
    struct sl_diag why = r->db.diag;

    sl_database_rollback(&r->db);
    for (struct sl_job *job = first; job; job = job->next) {
        if (job->already_done)
            continue;
        sl_subject_records_free(job->entries);
        job->entries = NULL;
        job->result = SL_JOB_DONE;
        if (job->uncertain_txn == 0)
            job->uncertain_txn = r->db.uncertain_txn;
        r->db.diag = why;
        fault(r, job, err);
    }
}

int sl_job_run_look(struct sl_registry *r)
{
    int any = sl_query_step(&r->db, SL_QUERY_ANY);

    sl_query_reset(&r->db, SL_QUERY_ANY);
    /* A notification of another process may have come meanwhile. */
    if (any > 0 || (any == 0 && !r->db.driver->notify))
        atomic_store_explicit(&r->has_subjects, any > 0, memory_order_release);
    return any < 0 ? any : 0;
}

/* Begins a transaction and locks the slots of its subjects. Begins again, once
 * for each, for holds that were recorded meanwhile. */
static int begin(struct sl_registry *r, struct sl_job *first)
{
    bool again = true;
    int err = 0;

    while (again && !err) {
        err = sl_database_run(&r->db, SL_QUERY_BEGIN);
        if (!err)
            err = sl_sharing_lock(r, first, &again);
        if (!err && again)
            sl_database_rollback(&r->db);
    }
    return err;
}

void sl_job_run_writes(struct sl_registry *r, struct sl_job *first)
{
    int err = sl_sharing_check_commit(r, first);

    if (!err)
        err = begin(r, first);
    for (struct sl_job *job = first; job && !err; job = job->next)
        err = write(r, job);
    if (!err)
        err = sl_sharing_commit(r);
    if (err)
        fail_all(r, first, err);
    else
        atomic_fetch_add_explicit(&r->commits, 1, memory_order_relaxed);
    /* Also after a failure: the commit may have succeeded. */
    if (sl_job_run_look(r))
        atomic_store_explicit(&r->has_subjects, true, memory_order_release);
    raise_stamps(r);
}

/* ---- history: the changes of a subject.
 *
 * A row has the whole subject before and after, as JSON. The number of the row
 * is the revision of the subject, so revisions grow over a removal too. A
 * subject keeps its latest SL_AUDIT_KEPT rows, also after its removal.
 */

#define PICTURE_MOST ((size_t)1 << 20)

/* Makes {"scope":...} in the arena; NULL stays NULL. */
static int picture(struct sl_database *db, const struct sl_subject_draft *draft,
                   sl_ns now, struct sl_str *ret)
{
    struct sl_buf text;
    int err;

    ret->at = NULL;
    ret->len = 0;
    if (!draft)
        return 0;
    sl_buf_init(&text, PICTURE_MOST, db->arena.alloc);
    err = sl_buf_add(&text, SL_STR("{"));
    if (!err)
        err = sl_subject_draft_json(draft, now, true, &text);
    if (!err)
        err = sl_buf_add(&text, SL_STR("}"));
    if (!err) {
        ret->len = text.len;
        ret->at = sl_arena_copy(&db->arena, sl_buf_str(&text));
    }
    sl_buf_done(&text);
    return !err && ret->at
               ? 0
               : sl_diag_error(&db->diag, SLUICE_ENOMEM, "out of memory");
}

static int trim(struct sl_database *db, const struct sl_subject_draft *of)
{
    const enum sl_query q = SL_QUERY_TRIM_AUDIT;

    sl_query_text(db, q, 1, of->scope);
    sl_query_text(db, q, 2, of->id);
    sl_query_number(db, q, 3, SL_AUDIT_KEPT);
    return sl_database_run(db, q);
}

int sl_database_note(struct sl_database *db, const struct sl_subject_draft *old,
                     const struct sl_subject_draft *new, struct sl_str by,
                     sl_ns now, uint64_t *ret_line)
{
    const enum sl_query q = SL_QUERY_PUT_AUDIT;
    const struct sl_subject_draft *of = new ? new : old;
    const char *what = !old ? "create" : new ? "change" : "remove";
    struct sl_str before, after;
    int err = picture(db, old, now, &before);

    SL_HOLDS(of);
    if (!err)
        err = picture(db, new, now, &after);
    if (err)
        return err;
    sl_query_text(db, q, 1, of->scope);
    sl_query_text(db, q, 2, of->id);
    sl_query_number(db, q, 3, now);
    sl_query_text(db, q, 4, by);
    sl_query_text(db, q, 5, sl_str_c(what));
    if (before.at) /* unbound is NULL */
        sl_query_text(db, q, 6, before);
    if (after.at)
        sl_query_text(db, q, 7, after);
    err = sl_query_step(db, q);
    if (err == 1)
        *ret_line = (uint64_t)sl_query_integer(db, q, 0);
    sl_query_reset(db, q);
    if (err < 0)
        return err;
    return old ? trim(db, of) : 0;
}

static int json_or_null(struct sl_buf *out, const char *name,
                        struct sl_str text)
{
    int err = sl_buf_addf(out, ",\"%s\":", name);

    return err ? err : sl_buf_add(out, text.len ? text : SL_STR("null"));
}

static int write_line(struct sl_database *db, struct sl_buf *out)
{
    const enum sl_query q = SL_QUERY_AUDIT;
    char at[SL_TIMESTAMP_TEXT];
    int err;

    sl_timestamp_print(sl_query_integer(db, q, 1), true, at);
    err = sl_buf_addf(out, "{\"revision\":%lld,\"at\":\"%s\",\"by\":",
                      (long long)sl_query_integer(db, q, 0), at);
    if (!err)
        err = sl_json_string(out, sl_query_column(db, q, 2));
    if (!err)
        err = sl_buf_add(out, SL_STR(",\"what\":"));
    if (!err)
        err = sl_json_string(out, sl_query_column(db, q, 3));
    if (!err)
        err = json_or_null(out, "before", sl_query_column(db, q, 4));
    if (!err)
        err = json_or_null(out, "after", sl_query_column(db, q, 5));
    return err ? err : sl_buf_add(out, SL_STR("}"));
}

int sl_database_audit(struct sl_database *db, struct sl_str scope,
                      struct sl_str id, uint64_t before, unsigned most,
                      struct sl_buf *out)
{
    const enum sl_query q = SL_QUERY_AUDIT;
    bool first = true;
    int err;

    sl_query_text(db, q, 1, scope);
    sl_query_text(db, q, 2, id);
    sl_query_number(db, q, 3, (int64_t)before);
    sl_query_number(db, q, 4, most);
    while ((err = sl_query_step(db, q)) == 1) {
        err = first ? 0 : sl_buf_add(out, SL_STR(","));
        if (!err)
            err = write_line(db, out);
        if (err)
            break;
        first = false;
    }
    sl_query_reset(db, q);
    return err;
}
