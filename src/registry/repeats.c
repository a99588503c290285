/* repeats.c -- the memory of repeats in the database that daemons share.
 *
 * The rules are those of store/repeats.h. A claim is one statement that writes
 * a row if there is none, or if its claim or its life is over. A row with
 * `pending` 0 is complete.
 *
 * The jobs of a group are sorted by their keys: two daemons lock rows in the
 * same order.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "registry/registry_int.h"

/* The row of the secret; no key has its name. */
#define SECRET "secret"

#define NEVER INT64_MAX

static int claim(struct sl_database *db, struct sl_job_repeat *r, int *ret)
{
    struct sl_str owner;
    int err = sl_query_run(db, SL_QUERY_TRIM_REPEATS, "n", r->now);

    if (err)
        return err;
    *ret =
        sl_query_one(db, SL_QUERY_CLAIM_REPEAT, "tnttnnn t", sl_str_c(r->key),
                     r->pending, sl_str_c(r->fingerprint), sl_str_c(r->owner),
                     r->until, (int64_t)r->repeats, r->now, &owner);
    return *ret < 0 ? *ret : 0;
}

/* The row is not ours: what does it say? */
static int read_row(struct sl_database *db, struct sl_job *job)
{
    struct sl_job_repeat *r = job->repeat;
    struct sl_str fingerprint, memo;
    int64_t pending = 0, until = 0, uses = 0;
    int found = sl_query_one(db, SL_QUERY_REPEAT, "t tnnnt", sl_str_c(r->key),
                             &fingerprint, &pending, &until, &uses, &memo);
    bool running = found > 0 && pending > r->now;
    bool done = found > 0 && pending == 0 && until > r->now && uses > 0;

    r->found = SL_JOB_REPEAT_FIRST;
    if (found < 0 || (!running && !done))
        return found < 0 ? found : 0;
    r->found = SL_JOB_REPEAT_OTHER;
    if (!sl_str_eq(fingerprint, sl_str_c(r->fingerprint)))
        return 0;
    r->found = running ? SL_JOB_REPEAT_RUNNING : SL_JOB_REPEAT_AGAIN;
    sl_buf_clear(&job->text);
    return done ? sl_buf_add(&job->text, memo) : 0;
}

static int begin(struct sl_database *db, struct sl_job *job)
{
    struct sl_job_repeat *r = job->repeat;
    int claimed = 0;
    int err = claim(db, r, &claimed);

    r->found = SL_JOB_REPEAT_FIRST;
    if (err || claimed > 0)
        return err;
    err = read_row(db, job);
    if (!err && r->found == SL_JOB_REPEAT_AGAIN)
        err = sl_query_run(db, SL_QUERY_USE_REPEAT, "t", sl_str_c(r->key));
    return err;
}

/* OTHER: the claim was lost. */
static int finish(struct sl_database *db, struct sl_job_repeat *r)
{
    struct sl_str owner;
    int written =
        sl_query_one(db, SL_QUERY_FINISH_REPEAT, "tnttnt t", sl_str_c(r->key),
                     r->until, sl_str_c(r->fingerprint), sl_str_c(r->owner),
                     (int64_t)r->repeats, r->memo, &owner);

    r->found = written > 0 ? SL_JOB_REPEAT_FIRST : SL_JOB_REPEAT_OTHER;
    return written < 0 ? written : 0;
}

/* Writes the secret unless there is one, and reads it. */
static int read_secret(struct sl_database *db, struct sl_job *job)
{
    struct sl_job_repeat *r = job->repeat;
    struct sl_str name = r->key[0] ? sl_str_c(r->key) : SL_STR(SECRET);
    struct sl_str secret;
    int64_t pending, until, uses;
    struct sl_str memo;
    int err = sl_query_run(db, SL_QUERY_SECRET_REPEAT, "tnt", name, NEVER,
                           sl_str_c(r->fingerprint));

    if (!err)
        err = sl_query_one(db, SL_QUERY_REPEAT, "t tnnnt", name, &secret,
                           &pending, &until, &uses, &memo);
    if (err <= 0)
        return err < 0 ? err : SLUICE_ESTORE;
    sl_buf_clear(&job->text);
    return sl_buf_add(&job->text, secret);
}

int sl_repeats_run(struct sl_database *db, struct sl_job *job)
{
    struct sl_job_repeat *r = job->repeat;

    sl_arena_reset(&db->arena);
    switch (r->op) {
    case SL_JOB_REPEAT_BEGIN:
        return begin(db, job);
    case SL_JOB_REPEAT_LOOK:
        return read_row(db, job);
    case SL_JOB_REPEAT_FINISH:
        return finish(db, r);
    case SL_JOB_REPEAT_DROP:
        return sl_query_run(db, SL_QUERY_DROP_REPEAT, "tnt", sl_str_c(r->key),
                            (int64_t)0, sl_str_c(r->owner));
    case SL_JOB_REPEAT_PUT:
        return sl_query_run(db, SL_QUERY_PUT_REPEAT, "tnttnt", sl_str_c(r->key),
                            r->until, sl_str_c(r->fingerprint),
                            sl_str_c(r->owner), (int64_t)r->repeats, r->memo);
    default:
        return read_secret(db, job);
    }
}
