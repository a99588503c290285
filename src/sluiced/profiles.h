/* profiles.h -- subjects whose plan is written in a table of DynamoDB.
 *
 *   userId   dataType   subscriptionTier   subscriptionExpiry
 *   123      PROFILE    premium            2026-12-31T23:59:59Z
 *
 * The table is that of the application, and only read: plans are changed there.
 * An organisation is looked for under "org:" and its id. A tier without a date,
 * or with one that is none, has ended: whoever has it has the default plan.
 *
 * Answers are kept for some seconds, also that there is nobody. Whoever asks
 * for the same one meanwhile waits for one answer together. One of these
 * belongs to one loop.
 */
#ifndef SL_DYNAMO_SUBJECTS_H
#define SL_DYNAMO_SUBJECTS_H

#include "identity/subject.h"
#include "store/dynamo/client.h"

struct sl_dynamo_subjects_options {
    struct sl_dynamo_url where; /* its texts outlive this, as those of */
    struct sl_aws_env env;      /* this one do */
    struct sl_loop *loop;
    const struct sl_alloc *alloc;
    sl_ns life;       /* of an answer; 0: none is kept */
    sl_ns patience;   /* with the endpoint */
    unsigned most;    /* answers at hand; 0: 4096 */
    unsigned loading; /* questions at once; 0: 256 */
    void (*on_fault)(void *ctx, const char *sentence);
    void *ctx;
};

struct sl_dynamo_subjects;

SL_MUST_USE int
sl_dynamo_subjects_open(const struct sl_dynamo_subjects_options *options,
                        struct sl_dynamo_subjects **ret);

/* Whoever waits is told that it failed. NULL is allowed. */
void sl_dynamo_subjects_close(struct sl_dynamo_subjects *profiles);

struct sl_subjects *
sl_dynamo_subjects_subjects(struct sl_dynamo_subjects *profiles);

/* Counted by its own thread; read by any. */
struct sl_dynamo_subjects_counts {
    _Atomic uint64_t hits, loads, faults, busy;
};
const struct sl_dynamo_subjects_counts *
sl_dynamo_subjects_counts(const struct sl_dynamo_subjects *profiles);

#endif
