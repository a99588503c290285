/* events.c -- the ring of what has happened. */
#include "server/events.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/digits.h"
#include "base/parse.h"
#include "base/timestamp.h"

struct sl_events {
    const struct sl_alloc *alloc;
    uint64_t start; /* ms since 1970 */
    _Atomic bool wanted;
    pthread_mutex_t lock;
    uint64_t end;                    /* the number of the next one */
    struct sl_event ring[SL_EVENTS]; /* number n stands at n % SL_EVENTS */
};

#define FIRST 1 /* 0 is nobody's number */

int sl_events_open(const struct sl_alloc *alloc, sl_ns now,
                   struct sl_events **ret)
{
    struct sl_events *events;

    if (!alloc)
        alloc = &sl_alloc_libc;
    events = sl_alloc_new(alloc, sizeof(*events));
    if (!events)
        return SLUICE_ENOMEM;
    memset(events, 0, sizeof(*events));
    events->alloc = alloc;
    events->start = (uint64_t)(now / SL_MS);
    events->end = FIRST;
    pthread_mutex_init(&events->lock, NULL);
    *ret = events;
    return 0;
}

void sl_events_close(struct sl_events *events)
{
    if (!events)
        return;
    pthread_mutex_destroy(&events->lock);
    sl_alloc_free(events->alloc, events, sizeof(*events));
}

/* ---- publishing ---- */

static size_t put(char *to, struct sl_str text)
{
    memcpy(to, text.at, text.len);
    return text.len;
}

static uint16_t write_data(char out[SL_EVENT_BYTES], sl_ns now,
                           struct sl_str members)
{
    char at[SL_TIMESTAMP_TEXT];
    size_t len;

    sl_timestamp_print(now > 0 ? now : 0, true, at);
    len = put(out, SL_STR("{\"at\":\""));
    len += put(out + len, sl_str_c(at));
    len += put(out + len, SL_STR("\""));
    if (members.len > SL_EVENT_BYTES - len - 2)
        members = SL_STR("\"cut\":true");
    if (members.len > 0) {
        len += put(out + len, SL_STR(","));
        len += put(out + len, members);
    }
    return (uint16_t)(len + put(out + len, SL_STR("}")));
}

void sl_events_publish(struct sl_events *events, const char *type, sl_ns now,
                       struct sl_str members)
{
    struct sl_event *event;

    if (!events)
        return;
    pthread_mutex_lock(&events->lock);
    event = &events->ring[events->end % SL_EVENTS];
    event->number = events->end++;
    event->type = type;
    event->len = write_data(event->data, now, members);
    pthread_mutex_unlock(&events->lock);
}

/* ---- reading ---- */

uint64_t sl_events_end(struct sl_events *events)
{
    uint64_t end;

    pthread_mutex_lock(&events->lock);
    end = events->end;
    pthread_mutex_unlock(&events->lock);
    return end;
}

static void copy(struct sl_event *to, const struct sl_event *from)
{
    to->number = from->number;
    to->type = from->type;
    to->len = from->len;
    memcpy(to->data, from->data, from->len);
}

bool sl_events_next(struct sl_events *events, uint64_t *number,
                    struct sl_event *ret, uint64_t *lost)
{
    uint64_t first, at = *number;
    bool found;

    pthread_mutex_lock(&events->lock);
    first = events->end > SL_EVENTS + FIRST ? events->end - SL_EVENTS : FIRST;
    *lost = at > 0 && at < first ? first - at : 0;
    at = at < first ? first : at;
    found = at < events->end;
    if (found)
        copy(ret, &events->ring[at % SL_EVENTS]);
    pthread_mutex_unlock(&events->lock);
    *number = found ? at + 1 : at;
    return found;
}

/* ---- numbers as text: START-NUMBER ---- */

void sl_events_print(const struct sl_events *events, uint64_t number,
                     char out[SL_EVENT_ID])
{
    size_t len = sl_digits(events->start, out);

    out[len++] = '-';
    len += sl_digits(number, out + len);
    out[len] = '\0';
}

bool sl_events_parse(const struct sl_events *events, struct sl_str text,
                     uint64_t *ret)
{
    const char *dash = text.len > 0 ? memchr(text.at, '-', text.len) : NULL;
    struct sl_str first = {text.at, dash ? (size_t)(dash - text.at) : 0};
    uint64_t start, number;

    if (!dash || sl_parse_number(first, &start, NULL) ||
        sl_parse_number(sl_str_from(text, first.len + 1), &number, NULL) ||
        number == UINT64_MAX)
        return false;
    *ret = start == events->start ? number + 1 : 0;
    return true;
}

/* ---- wanted ---- */

void sl_events_want(struct sl_events *events, bool wanted)
{
    atomic_store_explicit(&events->wanted, wanted, memory_order_relaxed);
}

bool sl_events_wanted(const struct sl_events *events)
{
    return atomic_load_explicit(&events->wanted, memory_order_relaxed);
}
