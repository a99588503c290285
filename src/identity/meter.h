/* meter.h -- what was used, as those see it who decide.
 *
 * Whoever keeps the books of usage (ledger/, on a database) is told of every
 * decision that took from a quota or a level; the engine reads this plain
 * struct and depends on no database.
 */
#ifndef SL_USAGE_SINK_H
#define SL_USAGE_SINK_H

#include "base/clock.h"
#include "base/hash.h"
#include "base/str.h"
#include "core/marks.h"

/* What became of the units of one limit. */
enum sl_usage_act {
    SL_USAGE_ACT_TAKE,        /* they are used */
    SL_USAGE_ACT_HOLD,        /* they are held, until... */
    SL_USAGE_ACT_HOLD_END,    /* ...it is known how many were used. Nobody says
                                 whose */
    SL_USAGE_ACT_HOLD_EXTEND, /* they are held for longer */
    SL_USAGE_ACT_REFUNDED, /* what a report gave back has been given back to the
                              table */
};

/* Units of one limit. All of it is borrowed. */
struct sl_usage_delta {
    enum sl_usage_act act;
    uint64_t hold[2]; /* HOLD, END, EXTEND: its id */
    sl_ns until;      /* HOLD, EXTEND: its expiry */

    struct sl_hash128 print; /* of limit, scope and values together, if somebody
                              * has made it; zeros: nobody has */
    struct sl_str limit;
    struct sl_str scope;         /* "org"; "org:user"; "all" */
    const struct sl_str *values; /* one for each scope; none for "all" */
    unsigned value_count;
    sl_ns start;    /* of the period that they count in; 0: it has none */
    sl_ns at;       /* when */
    int64_t amount; /* less than 0: given back */
    uint64_t over;  /* how much of it lies beyond the limit */
    uint64_t cap;   /* the limit; UINT64_MAX: none */
    bool level;     /* it has no period, ever */
    bool reset;     /* somebody said that nothing was used */
    struct sl_thresholds marks;
};

struct sl_usage_sink;

struct sl_usage_sink_calls {
    /* Never waits and never fails. */
    void (*spent)(struct sl_usage_sink *meter,
                  const struct sl_usage_delta *spent);
};

/* The books as one thread sees them. */
struct sl_usage_sink {
    const struct sl_usage_sink_calls *calls;
};

#endif
