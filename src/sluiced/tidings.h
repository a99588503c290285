/* tidings.h -- what those who listen are told: the daemon's part. */
#ifndef SL_EVENT_PUBLISHER_H
#define SL_EVENT_PUBLISHER_H

#include "doors/events/denials.h"
#include "doors/http/feed.h"

struct sl_event_publisher {
    struct sl_events *events;
    struct sl_event_stream *feed;
    struct sl_timer *beat;
    uint64_t degraded; /* decisions without the store, when last looked */
    uint64_t phase;    /* of these, in the phase that lasts; 0: there is none */
    sl_ns last;        /* when the last of them was seen; steady */
    bool crowded;      /* the table is nearly full */
    struct sl_said {   /* what the log was told of, and when; steady */
        uint64_t count;
        sl_ns at;
    } denied, failed;
};

#endif
