/* subjects.h -- the registry of a flow: who has which plan and which numbers
 * of his own.
 *
 * It stands in for the subjects of a daemon. A record replaces the one before
 * it; when its `until` has come, it is as if it were not there.
 */
#ifndef SL_FLOW_SUBJECTS_H
#define SL_FLOW_SUBJECTS_H

#include "cli/flow/flow.h"

#define SL_SUBJECT_OVERRIDES 64 /* of one request */

struct sl_subject {
    const char *scope, *id;
    const struct sl_record *record;
    sl_ns until; /* SL_NS_MAX: for ever */
    struct sl_subject *next;
};

struct sl_subjects {
    struct sl_subject *first;
    struct sl_arena *arena;
};

/* The act is borrowed for the life of the registry. */
SL_MUST_USE int sl_subjects_set(struct sl_subjects *subjects,
                                const struct sl_act *act, sl_ns now);

/* Fill in what the registry knows of the request's user and org: the plan,
 * unless there is one, and overrides, those of the user before those of the
 * org. The overrides are written to `room`. */
void sl_subjects_fill(const struct sl_subjects *subjects, sl_ns now,
                      struct sluice_request *request,
                      struct sluice_override room[SL_SUBJECT_OVERRIDES]);

#endif
