/* The event stream of the admin server, and its listeners, on a loop that is
 * driven step by step. */
#include "server/http/http.h"

#include "fail.h"
#include "serve.h"
#include "server/http/admin.h"

#define LISTEN "GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n"

static struct served rig;
static struct sl_events *events;
static struct sl_admin admin;
static struct sl_server door;
static struct sl_server_worker worker;

static void begin(sl_ns silence)
{
    struct sl_diag diag = {.line = 0};

    serve_begin(&rig, 0);
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
}

static void end(void)
{
    sl_event_stream_close(admin.feed);
    admin.feed = NULL;
    sl_server_worker_close(&worker);
    sl_events_close(events);
    serve_end(&rig);
}

static int join(const char *request)
{
    int fd = come(sl_server_accept, &worker, NULL);

    say(fd, request);
    return fd;
}

/* Is it in what has come since `rig.got` was cleared? */
static bool has(int fd, const char *text)
{
    take_in(&rig, fd);
    return strstr(rig.got.bytes, text) != NULL;
}

/* The connection has ended, and nothing more came. */
static bool has_ended(int fd)
{
    sl_buf_clear(&rig.got);
    return !take_in(&rig, fd) && rig.got.len == 0;
}

static void publish(const char *members)
{
    sl_events_publish(events, "test", 7 * SL_S, sl_str_c(members));
}

static void check_listening(void)
{
    int fd;

    CASE("a listener gets a greeting, and the events from then on");
    begin(0);
    publish("\"n\":1");
    fd = join(LISTEN);
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

    CASE("what a listener sends is dropped");
    say(fd, LISTEN "nonsense");
    publish("\"n\":3");
    sl_buf_clear(&rig.got);
    WAIT_FOR(&rig, has(fd, "\"n\":3"));
    CHECK(!has(fd, "HTTP/1.1"));
    CHECK_EQ(sl_event_stream_count(admin.feed), 1);

    CASE("a listener that closes is forgotten");
    close(fd);
    WAIT_FOR(&rig, sl_event_stream_count(admin.feed) == 0);
    CHECK(sl_events_wanted(events)); /* it may connect again */

    CASE("Last-Event-ID continues where the listener was");
    publish("\"n\":4");
    sl_buf_clear(&rig.got);
    fd = join("GET /v1/events HTTP/1.1\r\nHost: localhost\r\n"
              "Last-Event-ID: 5000-2\r\n\r\n");
    WAIT_FOR(&rig, has(fd, "\"n\":4"));
    CHECK(has(fd, "\"n\":3") && !has(fd, "\"n\":2"));
    close(fd);

    CASE("0 is all that is kept");
    sl_buf_clear(&rig.got);
    fd = join("GET /v1/events?last_event_id=0 HTTP/1.1\r\nHost: localhost\r\n"
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

    CASE("a slow listener loses events, gets their number, and delays no one");
    begin(0);
    snprintf(long_one, sizeof(long_one), "\"text\":\"%0700d\"", 7);
    fd = join(LISTEN);
    WAIT_FOR(&rig, has(fd, ": listening\n\n"));
    for (unsigned i = 0; i < times; i++) {
        publish(long_one);
        if (i % 7 == 0)
            sl_event_stream_pump(admin.feed);
        sl_conns_each(worker.conns, look_at, NULL);
    }
    CHECK(most_waiting > 0 && most_waiting < 20 << 10);
    publish("\"n\":9");
    sl_buf_clear(&rig.got);
    for (unsigned i = 0; i < 4000 && !has(fd, "\"n\":9"); i++) {
        sl_event_stream_pump(admin.feed);
        step(&rig, i);
    }
    count(rig.got.bytes, &told, &lost);
    CHECK_EQ(told + lost, times + 1);
    CHECK(lost > 0 && told >= SL_EVENTS);
    CHECK(has(fd, "event: lost\ndata: {\"count\":"));
    close(fd);
    end();
}

static void check_many(void)
{
    int fds[SL_EVENT_STREAM_LISTENERS], one_more;

    CASE("the number of listeners is bounded");
    begin(0);
    for (unsigned i = 0; i < SL_LEN(fds); i++)
        fds[i] = join(LISTEN);
    WAIT_FOR(&rig,
             sl_event_stream_count(admin.feed) == SL_EVENT_STREAM_LISTENERS);
    one_more = join(LISTEN);
    WAIT_FOR(&rig, has(one_more, "TOO_MANY_LISTENERS"));
    CHECK(has(one_more, "HTTP/1.1 503 ") && has(one_more, "Retry-After: 5"));
    close(one_more);
    close(fds[0]);
    WAIT_FOR(&rig, sl_event_stream_count(admin.feed) ==
                       SL_EVENT_STREAM_LISTENERS - 1);
    sl_buf_clear(&rig.got);
    fds[0] = join(LISTEN);
    WAIT_FOR(&rig, has(fds[0], ": listening"));

    CASE("each listener gets the event");
    publish("\"n\":5");
    for (unsigned i = 0; i < SL_LEN(fds); i++) {
        sl_buf_clear(&rig.got);
        WAIT_FOR(&rig, has(fds[i], "\"n\":5"));
    }

    CASE("draining closes all listeners");
    sl_server_drain(&worker);
    CHECK_EQ(sl_event_stream_count(admin.feed), 0);
    WAIT_FOR(&rig, has_ended(fds[3]));
    for (unsigned i = 0; i < SL_LEN(fds); i++)
        close(fds[i]);
    end();
}

static void check_deaf(void)
{
    int fds[SL_EVENT_STREAM_LISTENERS], one_more;

    CASE("listeners that read nothing do not keep others out");
    begin(SL_MS);
    for (unsigned i = 0; i < SL_LEN(fds); i++) {
        fds[i] = join(LISTEN);
        WAIT_FOR(&rig, sl_event_stream_count(admin.feed) == i + 1);
    }
    for (unsigned i = 0; i < 200; i++)
        tick(&rig); /* more than forty silences */
    one_more = join(LISTEN);
    WAIT_FOR(&rig, has(one_more, ": listening"));
    CHECK_EQ(sl_event_stream_count(admin.feed), SL_EVENT_STREAM_LISTENERS);

    CASE("the first listener made room, and the second did not");
    sl_buf_clear(&rig.got);
    publish("\"n\":6");
    WAIT_FOR(&rig, has(one_more, "\"n\":6"));
    sl_buf_clear(&rig.got);
    WAIT_FOR(&rig, has(fds[1], "\"n\":6"));
    sl_buf_clear(&rig.got);
    CHECK(!has(fds[0], "\"n\":6"));
    WAIT_FOR(&rig, has_ended(fds[0]));
    for (unsigned i = 0; i < SL_LEN(fds); i++)
        close(fds[i]);
    close(one_more);
    end();
}

static void check_silence(void)
{
    int fd;

    CASE("an idle listener gets a comment");
    begin(SL_MS);
    fd = join(LISTEN);
    WAIT_FOR(&rig, has(fd, "\n: still here\n\n"));
    end(); /* with a listener there */
    close(fd);
}

#define COOKIE 128

/* Signs in on a connection; the tokens have six bytes. */
static void sign_in_by(int fd, const char *token, char cookie[COOKIE])
{
    const char *at;
    char text[256];

    snprintf(text, sizeof(text),
             "POST /v1/session HTTP/1.1\r\nHost: localhost\r\n"
             "Content-Length: 18\r\n\r\n{\"token\":\"%s\"}",
             token);
    sl_buf_clear(&rig.got);
    say(fd, text);
    WAIT_FOR(&rig, has(fd, "\"signed_in\":true"));
    at = strstr(rig.got.bytes, "sluice_session=");
    CHECK(at != NULL);
    snprintf(cookie, COOKIE, "%.*s", at ? (int)strcspn(at, ";") : 0, at);
}

static void sign_in(int fd, char cookie[COOKIE])
{
    sign_in_by(fd, "secret", cookie);
}

/* Sends a request with the cookie. */
static void ask(int fd, const char *request, const char *cookie)
{
    char text[256];

    snprintf(text, sizeof(text),
             "%s HTTP/1.1\r\nHost: localhost\r\nCookie: %s\r\n\r\n", request,
             cookie);
    sl_buf_clear(&rig.got);
    say(fd, text);
}

static void sign_out(int fd, const char *cookie)
{
    ask(fd, "DELETE /v1/session", cookie);
    WAIT_FOR(&rig, has(fd, "\"signed_in\":false"));
}

/* Is the session valid? */
static bool is_valid(int fd, const char *cookie)
{
    ask(fd, "GET /v1/session", cookie);
    WAIT_FOR(&rig, has(fd, "\"version\":"));
    return has(fd, "\"signed_in\":true");
}

static int join_with(const char *cookie)
{
    int fd = come(sl_server_accept, &worker, NULL);

    ask(fd, "GET /v1/events", cookie);
    WAIT_FOR(&rig, has(fd, ": listening"));
    return fd;
}

static void begin_sessions(void)
{
    begin(0);
    door.token = SL_STR("secret");
    door.read_token = SL_STR("reader");
    door.sessions = true;
}

static void check_sign_out(void)
{
    char ann[COOKIE], bob[COOKIE], cat[COOKIE], other[COOKIE];
    int fd, of_ann, of_bob;

    CASE("the sign-out of a session ends its streams, and no others");
    begin_sessions();
    fd = come(sl_server_accept, &worker, NULL);
    sign_in(fd, ann);
    sign_in(fd, bob);
    of_ann = join_with(ann);
    of_bob = join_with(bob);
    sign_out(fd, bob);
    WAIT_FOR(&rig, has_ended(of_bob));
    CHECK_EQ(sl_event_stream_count(admin.feed), 1);
    CHECK(is_valid(fd, ann));
    CHECK(!is_valid(fd, bob));

    CASE("the list of ended sessions is short: the oldest end with it");
    sign_in(fd, cat);
    for (unsigned i = 0; i < SL_SESSIONS_ENDED - 1; i++) {
        sign_in(fd, other);
        sign_out(fd, other);
    }
    CHECK(is_valid(fd, ann));
    CHECK_EQ(sl_event_stream_count(admin.feed), 1);
    sign_in(fd, other);
    sign_out(fd, other);
    CHECK(!is_valid(fd, ann));
    WAIT_FOR(&rig, has_ended(of_ann));
    CHECK_EQ(sl_event_stream_count(admin.feed), 0);
    CHECK(!is_valid(fd, bob));
    CHECK(is_valid(fd, cat));
    CHECK(!is_valid(fd, other));
    close(fd);
    close(of_ann);
    close(of_bob);
    end();
}

static void check_tokens_apart(void)
{
    char ann[COOKIE], old[COOKIE], other[COOKIE];
    int fd, of_ann, of_old;

    CASE("the read-only token ends its own oldest sessions, and no others");
    begin_sessions();
    fd = come(sl_server_accept, &worker, NULL);
    sign_in(fd, ann);
    sign_in_by(fd, "reader", old);
    of_ann = join_with(ann);
    of_old = join_with(old);
    for (unsigned i = 0; i < 2 * SL_SESSIONS_ENDED; i++) {
        sign_in_by(fd, "reader", other);
        sign_out(fd, other);
    }
    CHECK(is_valid(fd, ann));
    CHECK(!is_valid(fd, old));
    WAIT_FOR(&rig, has_ended(of_old));
    CHECK_EQ(sl_event_stream_count(admin.feed), 1);

    CASE("a sign-out of the read-only token leaves the other's same number");
    sign_in_by(fd, "reader", other);
    for (unsigned i = 0; i < 2 * SL_SESSIONS_ENDED + 1; i++)
        sign_in(fd, ann); /* the last one has the number of `other` */
    sign_out(fd, other);
    CHECK(is_valid(fd, ann));
    close(fd);
    close(of_ann);
    close(of_old);
    end();
}

static void check_expiry(void)
{
    char ann[COOKIE], bob[COOKIE];
    int fd, of_ann, of_bob, of_token;

    CASE("an expired session ends its streams; a renewed one keeps them");
    begin_sessions();
    sl_clock_set(&rig.clock, 100 * SL_S);
    turn(&rig);
    fd = come(sl_server_accept, &worker, NULL);
    sign_in(fd, ann);
    sign_in(fd, bob);
    of_ann = join_with(ann);
    of_bob = join_with(bob);
    of_token = join("GET /v1/events HTTP/1.1\r\nHost: localhost\r\n"
                    "Authorization: Bearer secret\r\n\r\n");
    sl_buf_clear(&rig.got);
    WAIT_FOR(&rig, has(of_token, ": listening"));
    sl_clock_set(&rig.clock, 100 * SL_S + SL_HOUR - SL_S);
    turn(&rig);
    CHECK(is_valid(fd, ann)); /* which renews it */
    sl_event_stream_end_sessions(admin.feed);
    CHECK_EQ(sl_event_stream_count(admin.feed), 3);
    sl_clock_set(&rig.clock, 100 * SL_S + SL_HOUR);
    turn(&rig);
    WAIT_FOR(&rig, has_ended(of_bob)); /* by the timer */
    CHECK_EQ(sl_event_stream_count(admin.feed), 2);
    sl_clock_set(&rig.clock, 100 * SL_S + 2 * SL_HOUR);
    turn(&rig);
    WAIT_FOR(&rig, has_ended(of_ann));

    CASE("the stream of a token does not expire");
    CHECK_EQ(sl_event_stream_count(admin.feed), 1);
    close(fd);
    close(of_ann);
    close(of_bob);
    close(of_token);
    end();
}

static void check_refusals(void)
{
    struct fail f = {.nth = 1};
    struct sl_alloc alloc = fail_alloc(&f);
    struct sl_event_stream *feed = NULL, *poor;
    int fd;

    CASE("wrong ids, options and methods");
    begin(0);
    fd = join("GET /v1/events?last_event_id=7 HTTP/1.1\r\nHost: localhost\r\n"
              "\r\n");
    WAIT_FOR(&rig, has(fd, "is not the id of an event"));
    say(fd, "GET /v1/events?since=7 HTTP/1.1\r\nHost: localhost\r\n\r\n");
    WAIT_FOR(&rig, has(fd, " of /v1/events"));
    say(fd, "POST /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n");
    WAIT_FOR(&rig, has(fd, "METHOD_NOT_ALLOWED"));

    CASE("HEAD is answered, and the connection stays");
    sl_buf_clear(&rig.got);
    say(fd, "HEAD /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n"
            "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n");
    WAIT_FOR(&rig, has(fd, "ok\n"));
    CHECK(has(fd, "text/event-stream"));
    CHECK_EQ(sl_event_stream_count(admin.feed), 0);

    CASE("without memory there are no listeners");
    CHECK_EQ(sl_event_stream_open(rig.loop, events, 0, &alloc, &feed),
             SLUICE_ENOMEM);
    CHECK(!feed);
    f.nth = 2;
    f.calls = 0;
    CHECK_EQ(sl_event_stream_open(rig.loop, events, 0, &alloc, &feed), 0);
    poor = admin.feed;
    admin.feed = feed;
    sl_buf_clear(&rig.got);
    say(fd, LISTEN);
    WAIT_FOR(&rig, has(fd, "NO_MEMORY"));
    CHECK_EQ(sl_event_stream_count(feed), 0);
    sl_event_stream_close(feed);
    fail_check(&f);

    CASE("without an event stream");
    admin.feed = NULL;
    say(fd, LISTEN);
    WAIT_FOR(&rig, has(fd, "this daemon has no events"));
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
    check_sign_out();
    check_tokens_apart();
    check_expiry();
    check_refusals();
    return CHECK_DONE();
}
