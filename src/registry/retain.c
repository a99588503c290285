/* retain.c -- deletes old rows, a bounded number in each job.
 *
 * Invariants. (test/daemon/retain.sh checks each by number.)
 *   (1) Rows younger than their age stay.
 *   (2) The present and the previous period stay, and the present and the
 *       previous month, whatever the age is.
 *   (3) Periods with leases, and all periods during an export, stay.
 *   (4) Levels, and periods whose end is not known, stay.
 *
 * Several daemons may do this at once: each row is deleted by one of them.
 */
#include "registry/registry_int.h"

#define BATCH 500 /* rows of a table */

/* Runs a query that returns a row for each row it has deleted. */
static int count(struct sl_database *db, enum sl_query q, struct sl_job *job)
{
    int64_t one;
    unsigned rows = 0;
    int found;

    while ((found = sl_query_next(db, q, NULL, "n", &one)) == 1)
        rows++;
    sl_query_reset(db, q);
    job->units += rows;
    job->cut |= rows == BATCH;
    return found;
}

/* The first day of the month before that of `now`. */
static int64_t previous_month(sl_ns now)
{
    int64_t month = sl_month_of(now), day = now / SL_DAY;

    while (day > 0 && sl_month_of(day * SL_DAY) == month)
        day--;
    month = sl_month_of(day * SL_DAY);
    while (day > 0 && sl_month_of((day - 1) * SL_DAY) == month)
        day--;
    return day;
}

static int expire_usage(struct sl_database *db, struct sl_job *job)
{
    int64_t day = (job->now - job->usage_age) / SL_DAY;
    int64_t latest = previous_month(job->now); /* (2) */
    int err;

    sl_query_bind(db, SL_QUERY_OLD_COUNTERS, "nnn", job->now, day,
                  (int64_t)BATCH);
    err = count(db, SL_QUERY_OLD_COUNTERS, job);
    day = day < latest ? day : latest;
    if (!err) {
        sl_query_bind(db, SL_QUERY_OLD_DAYS, "nn", day, (int64_t)BATCH);
        err = count(db, SL_QUERY_OLD_DAYS, job);
    }
    if (!err) {
        sl_query_bind(db, SL_QUERY_OLD_MONTHS, "nn", sl_month_of(day * SL_DAY),
                      (int64_t)BATCH);
        err = count(db, SL_QUERY_OLD_MONTHS, job);
    }
    return err;
}

static int expire_denials(struct sl_database *db, struct sl_job *job)
{
    sl_ns oldest = job->denial_age > 0 && job->denial_age < job->now
                       ? job->now - job->denial_age
                       : 0;
    sl_ns nth = 0;
    int err = job->denial_rows > 0
                  ? sl_denials_oldest(db, (int64_t)job->denial_rows - 1, &nth)
                  : 0;

    oldest = oldest > nth ? oldest : nth;
    for (unsigned i = 0; i < 2 && !err && oldest > 0; i++) {
        enum sl_query q =
            i == 0 ? SL_QUERY_OLD_DENIALS : SL_QUERY_OLD_DENIAL_NAMES;

        sl_query_bind(db, q, "nn", oldest, (int64_t)BATCH);
        err = count(db, q, job);
    }
    return err;
}

/* Webhooks that are delivered, dead or dropped, and their log. Those that wait
 * stay. */
static int expire_webhooks(struct sl_database *db, struct sl_job *job)
{
    static const struct {
        enum sl_query query;
        sl_ns age;
    } tables[] = {
        {SL_QUERY_OLD_ATTEMPTS,     30 * SL_DAY},
        {SL_QUERY_OLD_WEBHOOK_KEYS, 30 * SL_DAY},
        {SL_QUERY_OLD_DELIVERIES,   30 * SL_DAY},
        {SL_QUERY_OLD_MESSAGES,     30 * SL_DAY},
        {SL_QUERY_OLD_DESTINATIONS, SL_DAY     },
    };
    int err = 0;

    for (size_t i = 0; i < SL_LEN(tables) && !err; i++) {
        if (job->now <= tables[i].age)
            continue;
        sl_query_bind(db, tables[i].query, "nn", job->now - tables[i].age,
                      (int64_t)BATCH);
        err = count(db, tables[i].query, job);
    }
    return err;
}

int sl_retain_run(struct sl_database *db, struct sl_job *job)
{
    int err = 0;

    job->units = 0;
    job->cut = false;
    if (job->usage_age > 0 && job->usage_age < job->now)
        err = expire_usage(db, job);
    if (!err && job->audit_age > 0 && job->audit_age < job->now) {
        sl_query_bind(db, SL_QUERY_OLD_AUDIT, "nn", job->now - job->audit_age,
                      (int64_t)BATCH);
        err = count(db, SL_QUERY_OLD_AUDIT, job);
    }
    if (!err)
        err = expire_denials(db, job);
    return err ? err : expire_webhooks(db, job);
}
