/* subjects.h -- the registry of a flow: who has which plan and which numbers
 * of his own.
 *
 * It stands in for the subjects of a daemon: whose word goes first is decided
 * by the same engine. A record replaces the one before it.
 */
#ifndef SL_FLOW_SUBJECTS_H
#define SL_FLOW_SUBJECTS_H

#include "cli/flow/flow.h"

struct sl_flow_subject {
    const char *scope, *id;
    struct sluice_subject subject;
    struct sl_flow_subject *next;
};

struct sl_flow_subjects {
    struct sl_flow_subject *first;
    struct sl_arena *arena;
};

/* The act is borrowed for the life of the registry. What `until` says goes for
 * the plan and for all numbers. */
SL_MUST_USE int sl_flow_subjects_set(struct sl_flow_subjects *subjects,
                                     const struct sl_flow_act *act, sl_ns now);

/* Let the request know what the registry has of its user and org. */
void sl_flow_subjects_fill(const struct sl_flow_subjects *subjects,
                           struct sluice_request *request);

/* When a record ends; -1: never. */
int64_t sl_flow_record_end(const struct sl_flow_subject_args *record,
                           sl_ns now);

#endif
