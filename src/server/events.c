/* events.c -- the event log: a ring of the last events. */
#include "server/events.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/parse.h"
#include "base/str.h"
#include "base/timestamp.h"
#include "wire/json.h"

struct sl_events {
    const struct sl_alloc *alloc;
    uint64_t start; /* ms since 1970 */
    _Atomic bool wanted;
    pthread_mutex_t lock;
    uint64_t end;                    /* the number of the next event */
    struct sl_event ring[SL_EVENTS]; /* event n is at n % SL_EVENTS */
};

#define FIRST 1 /* the number 0 is never used */

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

static uint16_t write_data(char out[SL_EVENT_BYTES], sl_ns now,
                           struct sl_str members)
{
    char at[SL_TIMESTAMP_TEXT];
    int len;

    sl_timestamp_print(now > 0 ? now : 0, true, at);
    if (members.len > SL_EVENT_BYTES - strlen(at) - strlen("{'at':'',}") - 1)
        members = SL_STR("\"cut\":true");
    len = snprintf(out, SL_EVENT_BYTES, "{\"at\":\"%s\"%s%.*s}", at,
                   members.len > 0 ? "," : "", SL_STR_ARG(members));
    return (uint16_t)len;
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

/* ---- denials of one thread, gathered until they are published ---- */

struct sl_denial_batch {
    const struct sl_alloc *alloc;
    const struct sl_events *events;
    struct sl_hash_key secret; /* clients choose the keys */
    pthread_mutex_t lock;
    uint64_t others;
    unsigned count;
    struct sl_denial rows[SL_DENIALS];
};

int sl_denial_batch_open(const struct sl_alloc *alloc,
                         const struct sl_events *events,
                         struct sl_denial_batch **ret)
{
    struct sl_denial_batch *denials;

    if (!alloc)
        alloc = &sl_alloc_libc;
    denials = sl_alloc_new(alloc, sizeof(*denials));
    if (!denials)
        return SLUICE_ENOMEM;
    memset(denials, 0, sizeof(*denials));
    if (sl_hash_key_make(&denials->secret)) {
        sl_alloc_free(alloc, denials, sizeof(*denials));
        return SLUICE_ESYS;
    }
    denials->alloc = alloc;
    denials->events = events;
    pthread_mutex_init(&denials->lock, NULL);
    *ret = denials;
    return 0;
}

void sl_denial_batch_close(struct sl_denial_batch *denials)
{
    if (!denials)
        return;
    pthread_mutex_destroy(&denials->lock);
    sl_alloc_free(denials->alloc, denials, sizeof(*denials));
}

/* ---- gathering ---- */

static void keep(char to[SL_DENIAL_TEXT], const char *text, size_t len)
{
    len = len < SL_DENIAL_TEXT - 1 ? len : SL_DENIAL_TEXT - 1;
    if (len > 0)
        memcpy(to, text, len);
    to[len] = '\0';
}

static void begin_row(struct sl_denial *row, const struct sl_decision *d,
                      const struct sl_limit_view *shown)
{
    row->count = 0;
    keep(row->limit, shown->rule->name.at, shown->rule->name.len);
    keep(row->scope, shown->scope.at, shown->scope.len);
    keep(row->key, shown->id, strnlen(shown->id, SL_DENIAL_TEXT));
    keep(row->endpoint, d->route->endpoint.at, d->route->endpoint.len);
    keep(row->request_id, d->request_id, strlen(d->request_id));
}

static struct sl_denial *find_row(struct sl_denial_batch *denials,
                                  uint64_t fingerprint)
{
    for (unsigned i = 0; i < denials->count; i++)
        if (denials->rows[i].fingerprint == fingerprint)
            return &denials->rows[i];
    return NULL;
}

static void count(struct sl_denial_batch *denials, const struct sl_decision *d)
{
    const struct sl_limit_view *shown = &d->shown[d->by];
    uint64_t fingerprint = sl_hash64(&denials->secret, shown->key) * 3 +
                           sl_hash64(&denials->secret, shown->rule->name);
    struct sl_denial *row = find_row(denials, fingerprint);

    if (!row && denials->count == SL_DENIALS) {
        denials->others++;
        return;
    }
    if (!row) {
        row = &denials->rows[denials->count++];
        row->fingerprint = fingerprint;
        begin_row(row, d, shown);
    }
    row->count++;
    row->status = d->status;
    row->blocked = d->reason == SL_REASON_PENALTY;
    row->retry_in = d->retry_in;
}

void sl_denial_batch_decision(struct sl_denial_batch *denials,
                              const struct sl_decision *d)
{
    if (d->allowed || d->by < 0 || !sl_events_wanted(denials->events))
        return;
    pthread_mutex_lock(&denials->lock);
    count(denials, d);
    pthread_mutex_unlock(&denials->lock);
}

/* ---- publishing denials ---- */

unsigned sl_denial_batch_take(struct sl_denial_batch *denials,
                              struct sl_denial rows[SL_DENIALS],
                              uint64_t *others)
{
    unsigned taken;

    pthread_mutex_lock(&denials->lock);
    taken = denials->count;
    memcpy(rows, denials->rows, taken * sizeof(rows[0]));
    *others = denials->others;
    denials->count = 0;
    denials->others = 0;
    pthread_mutex_unlock(&denials->lock);
    return taken;
}

int sl_denial_write(const struct sl_denial *denial, struct sl_buf *out)
{
    struct sl_writer w = {.out = out};
    sl_ns retry = denial->retry_in;

    sl_json_member_str(&w, "limit", sl_str_c(denial->limit));
    sl_json_member_str(&w, "scope", sl_str_c(denial->scope));
    sl_json_member_str(&w, "key", sl_str_c(denial->key));
    sl_json_member_str(&w, "endpoint", sl_str_c(denial->endpoint));
    sl_writer_addf(&w, ",\"status\":%d,\"count\":%" PRIu64, denial->status,
                   denial->count);
    if (denial->blocked)
        sl_writer_addf(&w, ",\"blocked\":true");
    if (retry >= 0)
        sl_writer_addf(&w, ",\"retry_after_ms\":%" PRId64,
                       retry / SL_MS + (retry % SL_MS > 0));
    sl_json_member_str(&w, "request_id", sl_str_c(denial->request_id));
    return w.err;
}
