/* event_stream.c -- GET /v1/events: events as server-sent events (SSE). */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "server/http/http_int.h"

#define BEAT    (200 * SL_MS)
#define SILENCE (15 * SL_S) /* then a comment is sent */
#define LINGER  SL_MIN /* denials are still gathered after the last client */
#define STAY    40     /* silences before a client can lose its place */
#define AHEAD   ((size_t)16 << 10) /* bytes that may wait for a client */
#define TEXT    (SL_EVENT_BYTES + 256)

struct listener {
    struct sl_http_stream stream; /* first: the two are cast into each other */
    struct sl_event_stream *feed;
    TAILQ_ENTRY(listener) link;
    uint64_t next; /* number of the next event */
    sl_ns spoken;  /* when something was last sent; monotonic */
    sl_ns since;   /* when it connected; monotonic */
    const struct sl_server_worker *worker;
    struct sl_session session; /* at this worker; number 0: none */
};

struct sl_event_stream {
    const struct sl_alloc *alloc;
    struct sl_loop *loop;
    struct sl_events *events;
    struct sl_timer *beat;
    sl_ns silence;
    TAILQ_HEAD(, listener) listeners; /* the oldest first */
    unsigned count;
    sl_ns left; /* when the last client left; monotonic */
};

/* ---- sending ---- */

/* Send a text. Returns false if the connection was closed. */
static bool send_text(struct listener *l, struct sl_str text)
{
    if (sl_buf_add(&l->stream.conn->out, text)) {
        sl_conn_abort(l->stream.conn);
        return false;
    }
    l->spoken = sl_loop_mono(l->feed->loop);
    return true;
}

/* Send an event, and before it the number of lost events. */
static bool send_event(struct listener *l, const struct sl_event *event,
                       uint64_t lost)
{
    char text[TEXT], id[SL_EVENT_ID];

    if (lost > 0) {
        snprintf(text, sizeof(text),
                 "event: lost\ndata: {\"count\":%" PRIu64 "}\n\n", lost);
        if (!send_text(l, sl_str_c(text)))
            return false;
    }
    sl_events_print(l->feed->events, event->number, id);
    snprintf(text, sizeof(text), "id: %s\nevent: %s\ndata: %.*s\n\n", id,
             event->type, (int)event->len, event->data);
    return send_text(l, sl_str_c(text));
}

static void send_events(struct listener *l)
{
    struct sl_conn *conn = l->stream.conn;
    struct sl_event event;
    uint64_t lost;

    while (conn->out.len < AHEAD &&
           sl_events_next(l->feed->events, &l->next, &event, &lost))
        if (!send_event(l, &event, lost))
            return;
    if (conn->out.len == 0 &&
        sl_loop_mono(l->feed->loop) - l->spoken >= l->feed->silence &&
        !send_text(l, SL_STR(": still here\n\n")))
        return;
    sl_conn_flush(conn);
}

void sl_event_stream_pump(struct sl_event_stream *feed)
{
    struct listener *l;

    TAILQ_FOREACH (l, &feed->listeners, link)
        if (l->stream.conn)
            send_events(l);
}

/* ---- leaving ---- */

static void on_close(struct sl_http_stream *stream)
{
    struct listener *l = (struct listener *)stream;
    struct sl_event_stream *feed = l->feed;

    TAILQ_REMOVE(&feed->listeners, l, link);
    if (--feed->count == 0)
        feed->left = sl_loop_mono(feed->loop);
    sl_alloc_free(feed->alloc, l, sizeof(*l));
}

void sl_event_stream_renew(struct sl_event_stream *feed,
                           const struct sl_server_worker *worker,
                           const struct sl_session *session)
{
    struct listener *l;

    TAILQ_FOREACH (l, &feed->listeners, link)
        if (l->worker == worker && l->session.number == session->number &&
            l->session.read_only == session->read_only)
            l->session.until = session->until;
}

void sl_event_stream_end_sessions(struct sl_event_stream *feed)
{
    struct listener *next, *l = TAILQ_FIRST(&feed->listeners);

    for (; l; l = next) {
        next = TAILQ_NEXT(l, link);
        if (l->session.number == 0 ||
            !sl_session_is_over(l->worker, &l->session))
            continue;
        sl_http_stream_end(&l->stream);
        on_close(&l->stream);
    }
}

/* ---- the timer ---- */

static void on_beat(void *ctx)
{
    struct sl_event_stream *feed = ctx;

    sl_event_stream_end_sessions(feed);
    sl_event_stream_pump(feed);
    if (feed->count == 0 && sl_loop_mono(feed->loop) - feed->left >= LINGER) {
        sl_events_want(feed->events, false);
        return;
    }
    sl_timer_start(feed->beat, BEAT);
}

/* ---- joining ---- */

/* Free a place. A client that does not read is not noticed until the socket
 * buffers are full, which can take hours. So the oldest client is disconnected.
 * A live client connects again with its last event id and loses nothing.
 * Returns false if the oldest client is too new. */
static bool make_room(struct sl_event_stream *feed)
{
    struct listener *l = TAILQ_FIRST(&feed->listeners);

    if (feed->count < SL_EVENT_STREAM_LISTENERS)
        return true;
    SL_HOLDS(l);
    if (sl_loop_mono(feed->loop) - l->since < STAY * feed->silence)
        return false;
    sl_http_stream_end(&l->stream);
    on_close(&l->stream);
    return true;
}

int sl_event_stream_join(struct sl_event_stream *feed,
                         struct sl_http_call *call, uint64_t from)
{
    struct listener *l;

    if (!make_room(feed))
        return SLUICE_EFULL;
    l = sl_alloc_new(feed->alloc, sizeof(*l));
    if (!l)
        return SLUICE_ENOMEM;
    *l = (struct listener){
        .stream = {.on_close = on_close},
        .feed = feed,
        .next = from,
        .spoken = sl_loop_mono(feed->loop),
        .since = sl_loop_mono(feed->loop),
        .worker = call->worker,
        .session = sl_http_session_of(call),
    };
    TAILQ_INSERT_TAIL(&feed->listeners, l, link);
    feed->count++;
    sl_events_want(feed->events, true);
    sl_timer_start(feed->beat, BEAT);
    call->stream = &l->stream;
    return 0;
}

unsigned sl_event_stream_count(const struct sl_event_stream *feed)
{
    return feed->count;
}

/* ---- life ---- */

int sl_event_stream_open(struct sl_loop *loop, struct sl_events *events,
                         sl_ns silence, const struct sl_alloc *alloc,
                         struct sl_event_stream **ret)
{
    struct sl_event_stream *feed;
    int err;

    if (!alloc)
        alloc = &sl_alloc_libc;
    feed = sl_alloc_new(alloc, sizeof(*feed));
    if (!feed)
        return SLUICE_ENOMEM;
    memset(feed, 0, sizeof(*feed));
    feed->alloc = alloc;
    feed->loop = loop;
    feed->events = events;
    feed->silence = silence > 0 ? silence : SILENCE;
    TAILQ_INIT(&feed->listeners);
    err = sl_timer_new(loop, on_beat, feed, &feed->beat);
    if (err) {
        sl_alloc_free(alloc, feed, sizeof(*feed));
        return err;
    }
    *ret = feed;
    return 0;
}

void sl_event_stream_close(struct sl_event_stream *feed)
{
    struct listener *l;

    if (!feed)
        return;
    while ((l = TAILQ_FIRST(&feed->listeners)) != NULL) {
        sl_http_stream_end(&l->stream);
        on_close(&l->stream);
    }
    sl_timer_free(feed->beat);
    sl_alloc_free(feed->alloc, feed, sizeof(*feed));
}

/* ---- the handler ----
 *
 * The stream begins now, or after the event in Last-Event-ID (sent by browsers)
 * or ?last_event_id=. The id 0 stands for all kept events.
 */

#define GREETING SL_STR("retry: 2000\n\n: listening\n\n")

static bool read_from(struct sl_http_call *call, uint64_t *ret)
{
    const struct sl_admin *admin = sl_admin_of(call);
    struct sl_str id;
    const struct sl_admin_option options[] = {
        {"last_event_id", &id},
    };

    if (!sl_admin_options(call, options, SL_LEN(options)))
        return false;
    if (id.len == 0)
        id = sl_http1_field(call->request, SL_STR("last-event-id"), NULL);
    *ret = sl_str_eq(id, SL_STR("0")) ? 0 : sl_events_end(admin->events);
    if (id.len == 0 || *ret == 0 || sl_events_parse(admin->events, id, ret))
        return true;
    return sl_http_refuse(
        call, 400, "BAD_EVENT_ID",
        "\"%.*s\" is not the id of an event; send an id that you "
        "received, or 0 for all stored events",
        SL_STR_ARG(id));
}

void sl_admin_events(struct sl_http_call *call)
{
    const struct sl_admin *admin = sl_admin_of(call);
    uint64_t from;
    int err = 0;

    if (!admin->feed) {
        sl_http_refuse(call, 404, "NOT_FOUND", "this daemon has no events");
        return;
    }
    if (!read_from(call, &from))
        return;
    if (!call->request->is_head_request)
        err = sl_event_stream_join(admin->feed, call, from);
    if (err == SLUICE_ENOMEM) {
        sl_http_no_memory(call);
    } else if (err) {
        sl_http_field(call, SL_STR("Retry-After"), SL_STR("5"));
        sl_http_refuse(
            call, 503, "TOO_MANY_LISTENERS",
            "the maximum of %d event streams is reached, and all started "
            "within the last ten minutes; retry when one has closed, or in ten "
            "minutes",
            SL_EVENT_STREAM_LISTENERS);
    } else {
        sl_http_field(call, SL_STR("Cache-Control"), SL_STR("no-store"));
        sl_http_field(call, SL_STR("X-Accel-Buffering"), SL_STR("no"));
        sl_http_answer(call, 200, SL_STR("text/event-stream"), GREETING);
    }
}
