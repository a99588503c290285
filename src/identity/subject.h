/* subject.h -- a subject of the registry, as those see it who decide.
 *
 * A subject is a user or an organisation of whom the registry knows a plan,
 * roles, or rates of his own. Whoever keeps the registry (registry.h, on
 * SQLite) hands out this plain struct; the engine reads it and depends on no
 * database.
 */
#ifndef SL_SUBJECT_H
#define SL_SUBJECT_H

#include "base/clock.h"
#include "base/str.h"

/* A rate for one limit instead of the plan's, for a time. */
struct sl_subject_override {
    struct sl_str limit;
    struct sl_str rate;     /* as a policy writes it: "10/min burst 20" */
    sl_ns until;            /* SL_NS_NONE: for good */
    struct sl_str by, note; /* who gave it, and why; for explanations */
};

/* Units that he was given beside what his plan has of a limit. */
struct sl_credit {
    struct sl_str limit;
    uint64_t units;
    sl_ns start;   /* used in the period that began then; SL_NS_NONE: unused */
    sl_ns expires; /* SL_NS_NONE: never */
};

struct sl_subject {
    unsigned refs; /* of one thread: see below */
    void (*free)(struct sl_subject *subject);

    bool known;       /* false: the registry has nobody of that name */
    struct sl_str id; /* his own, where he was found by an alias */
    struct sl_str plan;
    sl_ns expires; /* of the plan; SL_NS_NONE: never */
    const struct sl_str *roles;
    unsigned role_count;
    const struct sl_subject_override *rates;
    unsigned rate_count;
    const struct sl_credit *credits; /* also of one that is not known */
    unsigned credit_count;
};

/* A subject belongs to the thread that found it: counting is not atomic. */
static inline struct sl_subject *sl_subject_ref(struct sl_subject *subject)
{
    subject->refs++;
    return subject;
}

static inline void sl_subject_unref(struct sl_subject *subject)
{
    if (subject && --subject->refs == 0)
        subject->free(subject);
}

/* One question to the registry. It belongs to whoever asks; the registry
 * borrows it until done(). */
struct sl_lookup {
    struct sl_str scope;      /* "user" or "org" */
    struct sl_str id;         /* only until find() returns: copied if need be */
    sl_ns deadline;           /* steady; 0: as long as it takes */
    sl_ns over;               /* out: see sl_lookup_wait(); 0: not said */
    struct sl_subject *found; /* out: one reference, the asker's; NULL when it
                               * failed, or the registry has nobody at all */
    int err;                  /* out: 0 or SLUICE_ESTORE, SLUICE_ENOMEM */
    void (*done)(struct sl_lookup *lookup);
    void *ctx;              /* the asker's */
    struct sl_lookup *next; /* the registry's */
};

/* Who answers it has `patience` for the whole question: a quarter is left to
 * the store, so that what is known already is not refused because a registry
 * that is not needed does not answer. */
static inline void sl_lookup_wait(struct sl_lookup *lookup, sl_ns now,
                                  sl_ns patience)
{
    lookup->over = now + patience;
    lookup->deadline = lookup->over - patience / 4;
}

/* The registry as one thread sees it. */
struct sl_subjects;

struct sl_subjects_calls {
    /* Never waits: done() is called once, before this returns (what was asked
     * for lately is at hand) or later on this thread's loop. */
    void (*find)(struct sl_subjects *subjects, struct sl_lookup *lookup);
};

struct sl_subjects {
    const struct sl_subjects_calls *calls;
};

#endif
