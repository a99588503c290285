/* blocks.c -- the table `blocks`: subjects that an operator has blocked.
 *
 * A block does not depend on the record of the subject: a subject that is not
 * registered can be blocked, and writes of the record leave the block alone. A
 * block that has ended has no effect; the next write of a block deletes it.
 */
#include <string.h>

#include "base/timestamp.h"
#include "registry/registry_int.h"
#include "wire/json.h"

int sl_block_load(struct sl_database *db, struct sl_str scope, struct sl_str id,
                  struct sl_block *ret)
{
    sl_ns at;
    int found = sl_query_one(db, SL_QUERY_BLOCK, "tt wttn", scope, id,
                             &ret->until, &ret->by, &ret->note, &at);

    ret->is_set = found == 1;
    return found < 0 ? found : 0;
}

/* Names are touched, so that caches look up the subject again. */
int sl_block_write(struct sl_registry *r, struct sl_job *job)
{
    struct sl_database *db = &r->db;
    struct sl_subject_draft draft;
    struct sl_block old = {.is_set = false};
    struct sl_str id = job->id;
    int err, found;

    sl_arena_reset(&db->arena);
    found = sl_job_load(db, job->scope, job->id, &draft);
    if (found < 0)
        return found;
    if (found)
        id = draft.id;
    err = sl_query_run(db, SL_QUERY_DROP_ENDED_BLOCKS, "n", job->now);
    if (!err)
        err = sl_block_load(db, job->scope, id, &old);
    if (!err && !job->on && !old.is_set) { /* blocked before it was an alias */
        id = job->id;
        err = sl_block_load(db, job->scope, id, &old);
    }
    if (!err && !job->on && !old.is_set)
        job->result = SL_JOB_NOT_FOUND;
    if (err || job->result != SL_JOB_DONE)
        return err;
    sl_job_touch(r, job->scope, id);
    for (unsigned i = 0; found && i < draft.alias_count; i++)
        sl_job_touch(r, job->scope, draft.aliases[i]);
    return job->on
               ? sl_query_run(db, SL_QUERY_PUT_BLOCK, "ttwttn", job->scope, id,
                              job->since, job->by, job->note, job->now)
               : sl_query_run(db, SL_QUERY_DROP_BLOCK, "tt", job->scope, id);
}

int sl_block_list(struct sl_database *db, struct sl_job *job)
{
    const enum sl_query q = SL_QUERY_BLOCKS;
    struct sl_writer w = {.out = &job->text};
    struct sl_str scope, id;
    struct sl_block block;
    unsigned count = 0;
    sl_ns at;
    int found = 0;

    sl_query_bind(db, q, "ni", job->now, job->most + 1);
    while (!w.err &&
           (found = sl_query_next(db, q, NULL, "ttwttn", &scope, &id,
                                  &block.until, &block.by, &block.note, &at)) ==
               1 &&
           !(job->cut = count++ == job->most)) {
        sl_json_open(&w, '{');
        sl_json_member_str(&w, "scope", scope);
        sl_json_member_str(&w, "id", id);
        sl_json_member_time(&w, "until", block.until);
        sl_json_member_str(&w, "by", block.by);
        sl_json_member_str(&w, "note", block.note);
        sl_json_member_time(&w, "at", at);
        sl_json_close(&w, '}');
    }
    sl_query_reset(db, q);
    return w.err ? w.err : found < 0 ? found : 0;
}
