/* books.h -- what the tests of the books share: reports, and what became of
 * them. */
#ifndef TEST_BOOKS_H
#define TEST_BOOKS_H

#include "filed.h"
#include "registry/usage_buffer.h"

#define DAY_0 (20000 * SL_DAY) /* 2024-10-04 */

static const struct sl_thresholds thresholds = {
    {80, 100},
    2
};

static inline struct sl_usage_entry report(const char *id, int64_t amount,
                                           const char *key)
{
    return (struct sl_usage_entry){.scope = S("org"),
                                   .id = sl_str_c(id),
                                   .limit = S("minutes"),
                                   .start = DAY_0,
                                   .at = DAY_0 + SL_HOUR,
                                   .amount = amount,
                                   .key = sl_str_c(key),
                                   .cap = 100,
                                   .thresholds = thresholds};
}

static inline struct sl_usage_entry thing(const char *name, int64_t amount)
{
    struct sl_usage_entry u = report("acme", amount, "");

    u.limit = S("links");
    u.name = sl_str_c(name);
    u.start = 0;
    u.level = true;
    u.cap = 3;
    return u;
}

static inline enum sl_job_result
put(struct world *w, struct sl_usage_entry *list, unsigned count)
{
    struct sl_job job;

    sl_job_init(&job, SL_JOB_USAGE, &sl_alloc_libc);
    job.usage = list;
    job.change_count = count;
    ask(w, &job);
    CHECK_EQ(job.err, 0);
    sl_job_clear(&job);
    return job.result;
}

/* Put one down and compare what the counter says. */
static inline void put_one(struct world *w, struct sl_usage_entry u,
                           enum sl_usage_result result, uint64_t used,
                           uint64_t overage)
{
    enum sl_job_result want =
        result >= SL_USAGE_CONFLICT ? SL_JOB_CONFLICT : SL_JOB_DONE;

    CHECK_EQ(put(w, &u, 1), want);
    CHECK_EQ(u.result, result);
    CHECK_EQ(u.used, used);
    CHECK_EQ(u.overage, overage);
}

/* The rows of a subject; the caller gives job->text back. */
static inline const struct sl_usage_row *
read_rows(struct world *w, const char *id, struct sl_job *job, size_t *count)
{
    sl_job_init(job, SL_JOB_USAGE_READ, &sl_alloc_libc);
    job->scope = S("org");
    job->id = sl_str_c(id);
    ask(w, job);
    CHECK_EQ(job->err, 0);
    *count = job->text.len / sizeof(struct sl_usage_row);
    return (const void *)job->text.bytes;
}

static inline uint64_t sum_of(struct world *w, const char *id,
                              enum sl_usage_row_kind kind, bool overage)
{
    struct sl_job job;
    size_t count;
    const struct sl_usage_row *rows = read_rows(w, id, &job, &count);
    uint64_t all = 0;

    for (size_t i = 0; i < count; i++)
        if (rows[i].kind == kind)
            all += overage ? rows[i].overage : rows[i].used;
    sl_job_clear(&job);
    return all;
}

static inline uint64_t sum(struct world *w, const char *id,
                           enum sl_usage_row_kind kind)
{
    return sum_of(w, id, kind, false);
}

static inline uint64_t sum_overage(struct world *w, const char *id,
                                   enum sl_usage_row_kind kind)
{
    return sum_of(w, id, kind, true);
}

/* Waits until the buffer has nothing to record, also after failures. */
static inline void await_recorded(struct world *w,
                                  const struct sl_usage_buffer *buffer)
{
    const struct sl_usage_buffer_counts *counts =
        sl_usage_buffer_counts(buffer);
    struct sl_job job;

    while (atomic_load(&counts->recorded) < atomic_load(&counts->units)) {
        ask_find(w, &job, S("org"), S("none"));
        sl_job_clear(&job);
    }
}

static inline void give_to(struct world *w, const char *id, uint64_t amount,
                           sl_ns expires)
{
    struct sl_credit_grant grant = {.scope = S("org"),
                                    .id = sl_str_c(id),
                                    .limit = S("minutes"),
                                    .amount = amount,
                                    .expires = expires,
                                    .by = S("test")};
    struct sl_job job;

    sl_job_init(&job, SL_JOB_GRANT, &sl_alloc_libc);
    job.grant = &grant;
    job.on = 1;
    ask(w, &job);
    CHECK_EQ(job.err, 0);
    CHECK(grant.number > 0);
    sl_job_clear(&job);
}

static inline void give(struct world *w, uint64_t amount, sl_ns expires)
{
    give_to(w, "rich", amount, expires);
}

/* The credits that a decision sees: unused, or used in this period. */
static inline uint64_t known_credit(struct world *w, sl_ns now, bool used)
{
    struct sl_job job;
    uint64_t units = 0;

    w->now = now;
    ask_find(w, &job, S("org"), S("rich"));
    for (unsigned i = 0; i < job.entries->subject.credit_count; i++)
        if ((job.entries->subject.credits[i].start != SL_NS_NONE) == used)
            units += job.entries->subject.credits[i].units;
    sl_job_clear(&job);
    return units;
}

#endif
