/* Listening to events: the admin door on a loop that is driven step by step,
 * and listeners beside it. */
#include "server/http/http.h"

#include "fail.h"
#include "server/http/admin.h"
#include "turns.h"

#define LISTEN "GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n"

static struct rig rig;
static struct sl_events *events;
static struct sl_admin admin;
static struct sl_server door;
static struct sl_server_worker worker;
static struct sl_buf heard;

static void begin(sl_ns silence)
{
    struct sl_diag diag = {.line = 0};

    rig_open(&rig, NULL);
    CHECK_EQ(sl_events_open(NULL, 5 * SL_S, &events), 0);
    CHECK_EQ(sl_event_stream_open(rig.loop, events, silence, NULL, &admin.feed),
             0);
    admin.events = events;
    door = (struct sl_server){.protocol = &sl_protocol_http,
                              .paths = sl_admin_paths,
                              .path_count = sl_admin_path_count,
                              .name = "admin",
                              .ctx = &admin};
    sl_server_worker_init(&worker, &door, NULL, NULL, NULL);
    CHECK_EQ(sl_server_worker_open(&worker, rig.loop, 100, &diag), 0);
    sl_buf_init(&heard, 64 << 20, &sl_alloc_libc);
}

static void end(void)
{
    sl_event_stream_close(admin.feed);
    admin.feed = NULL;
    sl_server_worker_close(&worker);
    sl_events_close(events);
    rig_close(&rig);
    sl_buf_done(&heard);
}

static int come(const char *request)
{
    int fds[2];

    pair(fds);
    sl_server_accept(&worker, fds[0], NULL);
    say(fds[1], request);
    return fds[1];
}

/* All that has come since `heard` was cleared, with a NUL behind it. */
static const char *all(int fd)
{
    const char *text = hear(fd);

    while (text[0] && strcmp(text, "-") != 0 && strcmp(text, "!") != 0) {
        CHECK_EQ(sl_buf_add(&heard, sl_str_c(text)), 0);
        text = hear(fd);
    }
    CHECK_EQ(sl_buf_reserve(&heard, 1), 0);
    heard.bytes[heard.len] = '\0';
    return heard.bytes;
}

static bool has(int fd, const char *text)
{
    return strstr(all(fd), text) != NULL;
}

static void publish(const char *members)
{
    sl_events_publish(events, "test", 7 * SL_S, sl_str_c(members));
}

static void check_listening(void)
{
    int fd;

    CASE("a listener is greeted, and told what happens from then on");
    begin(0);
    publish("\"n\":1");
    fd = come(LISTEN);
    WAIT_FOR(&rig, has(fd, ": listening\n\n"));
    CHECK(has(fd, "HTTP/1.1 200 OK\r\n"));
    CHECK(has(fd, "Content-Type: text/event-stream\r\n"));
    CHECK(has(fd, "Connection: close\r\n"));
    CHECK(!has(fd, "Content-Length"));
    CHECK(sl_events_wanted(events));
    publish("\"n\":2");
    WAIT_FOR(&rig, has(fd, "\"n\":2"));
    CHECK(has(fd, "\n\nid: 5000-2\nevent: test\ndata: {\"at\":\"1970-01-01T"
                  "00:00:07.000Z\",\"n\":2}\n\n"));
    CHECK(!has(fd, "\"n\":1"));

    CASE("what he says is dropped");
    say(fd, LISTEN "nonsense");
    publish("\"n\":3");
    sl_buf_clear(&heard);
    WAIT_FOR(&rig, has(fd, "\"n\":3"));
    CHECK(!has(fd, "HTTP/1.1"));
    CHECK_EQ(sl_event_stream_count(admin.feed), 1);

    CASE("when he goes he is forgotten");
    close(fd);
    WAIT_FOR(&rig, sl_event_stream_count(admin.feed) == 0);
    CHECK(sl_events_wanted(events)); /* he may come again */

    CASE("and goes on where he was");
    publish("\"n\":4");
    sl_buf_clear(&heard);
    fd = come("GET /v1/events HTTP/1.1\r\nHost: localhost\r\n"
              "Last-Event-ID: 5000-2\r\n\r\n");
    WAIT_FOR(&rig, has(fd, "\"n\":4"));
    CHECK(has(fd, "\"n\":3") && !has(fd, "\"n\":2"));
    close(fd);

    CASE("0 is all that is kept");
    sl_buf_clear(&heard);
    fd = come("GET /v1/events?last_event_id=0 HTTP/1.1\r\nHost: localhost\r\n"
              "\r\n");
    WAIT_FOR(&rig, has(fd, "\"n\":4"));
    CHECK(has(fd, "\"n\":1") && !has(fd, "lost"));
    close(fd);
    end();
}

/* How many events, and how many are said to be lost. */
static void count(const char *text, unsigned *told, unsigned *lost)
{
    *told = *lost = 0;
    for (const char *at = text; (at = strstr(at, "event: ")) != NULL; at++)
        if (strncmp(at, "event: lost\ndata: {\"count\":", 27) == 0)
            *lost += (unsigned)strtoul(at + 27, NULL, 10);
        else
            ++*told;
}

static size_t most_waiting; /* bytes, of any connection */

static void look_at(struct sl_conn *conn, void *ctx)
{
    (void)ctx;
    if (conn->out.len > most_waiting)
        most_waiting = conn->out.len;
}

static void check_slow(void)
{
    static char long_one[800];
    unsigned told, lost, times = 3 * SL_EVENTS;
    int fd;

    CASE("a slow one is overtaken and told so, and keeps nobody waiting");
    begin(0);
    snprintf(long_one, sizeof(long_one), "\"text\":\"%0700d\"", 7);
    fd = come(LISTEN);
    WAIT_FOR(&rig, has(fd, ": listening\n\n"));
    for (unsigned i = 0; i < times; i++) {
        publish(long_one);
        if (i % 7 == 0)
            sl_event_stream_pump(admin.feed);
        sl_conns_each(worker.conns, look_at, NULL);
    }
    CHECK(most_waiting > 0 && most_waiting < 20 << 10);
    publish("\"n\":9");
    sl_buf_clear(&heard);
    for (unsigned i = 0; i < 4000 && !has(fd, "\"n\":9"); i++) {
        sl_event_stream_pump(admin.feed);
        step(&rig, i);
    }
    count(heard.bytes, &told, &lost);
    CHECK_EQ(told + lost, times + 1);
    CHECK(lost > 0 && told >= SL_EVENTS);
    CHECK(has(fd, "event: lost\ndata: {\"count\":"));
    close(fd);
    end();
}

static void check_many(void)
{
    int fds[SL_EVENT_STREAM_LISTENERS], one_more;

    CASE("so many may listen, and no more");
    begin(0);
    for (unsigned i = 0; i < SL_LEN(fds); i++)
        fds[i] = come(LISTEN);
    WAIT_FOR(&rig,
             sl_event_stream_count(admin.feed) == SL_EVENT_STREAM_LISTENERS);
    one_more = come(LISTEN);
    WAIT_FOR(&rig, has(one_more, "TOO_MANY_LISTENERS"));
    CHECK(has(one_more, "HTTP/1.1 503 ") && has(one_more, "Retry-After: 5"));
    close(one_more);
    close(fds[0]);
    WAIT_FOR(&rig, sl_event_stream_count(admin.feed) ==
                       SL_EVENT_STREAM_LISTENERS - 1);
    sl_buf_clear(&heard);
    fds[0] = come(LISTEN);
    WAIT_FOR(&rig, has(fds[0], ": listening"));

    CASE("each is told");
    publish("\"n\":5");
    for (unsigned i = 0; i < SL_LEN(fds); i++) {
        sl_buf_clear(&heard);
        WAIT_FOR(&rig, has(fds[i], "\"n\":5"));
    }

    CASE("at the end all are let go");
    sl_server_drain(&worker);
    CHECK_EQ(sl_event_stream_count(admin.feed), 0);
    WAIT_FOR(&rig, strcmp(hear(fds[3]), "-") == 0);
    for (unsigned i = 0; i < SL_LEN(fds); i++)
        close(fds[i]);
    end();
}

static void check_deaf(void)
{
    int fds[SL_EVENT_STREAM_LISTENERS], one_more;

    CASE("those who are there and read nothing do not keep others out");
    begin(SL_MS);
    for (unsigned i = 0; i < SL_LEN(fds); i++) {
        fds[i] = come(LISTEN);
        WAIT_FOR(&rig, sl_event_stream_count(admin.feed) == i + 1);
    }
    for (unsigned i = 0; i < 200; i++)
        tick(&rig); /* more than forty silences */
    one_more = come(LISTEN);
    WAIT_FOR(&rig, has(one_more, ": listening"));
    CHECK_EQ(sl_event_stream_count(admin.feed), SL_EVENT_STREAM_LISTENERS);

    CASE("the first has made room, and the second has not");
    sl_buf_clear(&heard);
    publish("\"n\":6");
    WAIT_FOR(&rig, has(one_more, "\"n\":6"));
    sl_buf_clear(&heard);
    WAIT_FOR(&rig, has(fds[1], "\"n\":6"));
    sl_buf_clear(&heard);
    CHECK(!has(fds[0], "\"n\":6"));
    WAIT_FOR(&rig, strcmp(hear(fds[0]), "-") == 0);
    for (unsigned i = 0; i < SL_LEN(fds); i++)
        close(fds[i]);
    close(one_more);
    end();
}

static void check_silence(void)
{
    int fd;

    CASE("whoever hears nothing gets a comment");
    begin(SL_MS);
    fd = come(LISTEN);
    WAIT_FOR(&rig, has(fd, "\n: still here\n\n"));
    end(); /* with a listener there */
    close(fd);
}

static void check_refusals(void)
{
    struct fail f = {.nth = 1};
    struct sl_alloc alloc = fail_alloc(&f);
    struct sl_event_stream *feed = NULL, *poor;
    int fd;

    CASE("what is no id, no option, no method");
    begin(0);
    fd = come("GET /v1/events?last_event_id=7 HTTP/1.1\r\nHost: localhost\r\n"
              "\r\n");
    WAIT_FOR(&rig, has(fd, "is no event's id"));
    say(fd, "GET /v1/events?since=7 HTTP/1.1\r\nHost: localhost\r\n\r\n");
    WAIT_FOR(&rig, has(fd, "is no option of /v1/events"));
    say(fd, "POST /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n");
    WAIT_FOR(&rig, has(fd, "METHOD_NOT_ALLOWED"));

    CASE("HEAD is answered, and the connection stays");
    sl_buf_clear(&heard);
    say(fd, "HEAD /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n"
            "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n");
    WAIT_FOR(&rig, has(fd, "ok\n"));
    CHECK(has(fd, "text/event-stream"));
    CHECK_EQ(sl_event_stream_count(admin.feed), 0);

    CASE("without memory nobody can listen");
    CHECK_EQ(sl_event_stream_open(rig.loop, events, 0, &alloc, &feed),
             SLUICE_ENOMEM);
    CHECK(!feed);
    f.nth = 2;
    f.calls = 0;
    CHECK_EQ(sl_event_stream_open(rig.loop, events, 0, &alloc, &feed), 0);
    poor = admin.feed;
    admin.feed = feed;
    sl_buf_clear(&heard);
    say(fd, LISTEN);
    WAIT_FOR(&rig, has(fd, "NO_MEMORY"));
    CHECK_EQ(sl_event_stream_count(feed), 0);
    sl_event_stream_close(feed);
    fail_check(&f);

    CASE("where there are none");
    admin.feed = NULL;
    say(fd, LISTEN);
    WAIT_FOR(&rig, has(fd, "there are no events here"));
    admin.feed = poor;
    close(fd);
    end();
}

int main(void)
{
    check_listening();
    check_slow();
    check_many();
    check_deaf();
    check_silence();
    check_refusals();
    return CHECK_DONE();
}
