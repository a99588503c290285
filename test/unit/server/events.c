/* What has happened: the ring, and refusals that are gathered. The numbers are
 * those of src/server/events.h. */
#include "server/events.h"

#include <jansson.h>
#include <pthread.h>

#include "asking.h"
#include "fail.h"
#include "server/metrics.h"

static struct sl_events *events;

static void begin(void)
{
    CHECK_EQ(sl_events_open(NULL, 5 * SL_S, &events), 0);
}

static void end(void)
{
    sl_events_close(events);
}

static void publish(const char *members)
{
    sl_events_publish(events, "test", 7 * SL_S, sl_str_c(members));
}

static void check_ring(void)
{
    struct sl_event event;
    uint64_t at, lost;

    CASE("(2) each event once, in order");
    begin();
    at = sl_events_end(events);
    CHECK(!sl_events_next(events, &at, &event, &lost));
    publish("\"n\":1");
    publish("");
    CHECK(sl_events_next(events, &at, &event, &lost));
    CHECK_STR(event.type, "test");
    CHECK_EQ(event.number, 1);
    CHECK_EQ(lost, 0);
    event.data[event.len] = '\0';
    CHECK_STR(event.data, "{\"at\":\"1970-01-01T00:00:07.000Z\",\"n\":1}");
    CHECK(sl_events_next(events, &at, &event, &lost));
    event.data[event.len] = '\0';
    CHECK_STR(event.data, "{\"at\":\"1970-01-01T00:00:07.000Z\"}");
    CHECK(!sl_events_next(events, &at, &event, &lost));

    CASE("(2) a slow reader gets the number of events it has lost");
    for (unsigned i = 0; i < SL_EVENTS + 10; i++)
        publish("\"n\":2");
    CHECK(sl_events_next(events, &at, &event, &lost));
    CHECK_EQ(lost, 10);
    CHECK_EQ(event.number, 13);
    for (unsigned i = 1; i < SL_EVENTS; i++) {
        CHECK(sl_events_next(events, &at, &event, &lost));
        CHECK_EQ(lost, 0);
        CHECK_EQ(event.number, 13 + i);
    }
    CHECK(!sl_events_next(events, &at, &event, &lost));

    CASE("a reader that wants all kept events has lost nothing");
    at = 0;
    CHECK(sl_events_next(events, &at, &event, &lost));
    CHECK_EQ(lost, 0);
    CHECK_EQ(event.number, 13);
    end();
}

static void check_ids(void)
{
    static const char *const bad[] = {
        "",
        "0",
        "-",
        "7",
        "5000",
        "-7",
        "5000-",
        "a-1",
        "1-a",
        "1--",
        "1-2-3",
        "5000-1 ",
        " 5000-1",
        "5000-18446744073709551615",
        "5000-99999999999999999999",
    };
    char text[SL_EVENT_ID];
    uint64_t at = 99;

    CASE("(1) numbers as text, and back");
    begin();
    sl_events_print(events, 17, text);
    CHECK_STR(text, "5000-17");
    CHECK(sl_events_parse(events, sl_str_c(text), &at));
    CHECK_EQ(at, 18);
    CHECK(sl_events_parse(events, SL_STR("4999-17"), &at));
    CHECK_EQ(at, 0);
    for (size_t i = 0; i < SL_LEN(bad); i++)
        CHECK(!sl_events_parse(events, sl_str_c(bad[i]), &at));
    end();
}

static void check_size(void)
{
    static char members[SL_EVENT_BYTES + 10];
    struct sl_event event;
    uint64_t at, lost;
    unsigned cut = 0;
    json_t *root;

    CASE("(3) what is too long is cut, and JSON nevertheless");
    begin();
    for (size_t len = SL_EVENT_BYTES - 50; len < sizeof(members); len++) {
        snprintf(members, sizeof(members), "\"text\":\"%0*d\"", (int)(len - 10),
                 7);
        at = sl_events_end(events);
        publish(members);
        CHECK(sl_events_next(events, &at, &event, &lost));
        root = json_loadb(event.data, event.len, 0, NULL);
        CHECK(root);
        cut += json_is_true(json_object_get(root, "cut"));
        json_decref(root);
    }
    CHECK(cut > 5 && cut < 55);

    CASE("without anybody to tell it is nothing");
    sl_events_publish(NULL, "test", 0, SL_STR(""));
    end();
}

/* ---- refusals ---- */

static const char policy[] =
    "sluice: 1\n"
    "features: { off: { enabled: false } }\n"
    "limits:\n"
    "  day: { kind: fixed-window, per: user, rate: 1/day }\n"
    "routes:\n"
    "  - { match: /off, limits: [day], feature: off }\n"
    "  - { match: /day, endpoint: day, limits: [day] }\n"
    "default: [day]\n";

static struct rig rig;
static struct sl_denial_batch *denials;
static struct sl_metrics *stats;

static void check(struct sl_request request, unsigned times)
{
    for (unsigned i = 0; i < times; i++)
        sl_metrics_decision(stats, rig_ask(&rig, request), "http", 0);
}

static void check_gathering(void)
{
    struct sl_denial rows[SL_DENIALS];
    uint64_t others = 99;
    struct sl_buf out;
    char name[16];

    begin();
    rig_open(&rig, policy);
    CHECK_EQ(sl_metrics_open(NULL, &stats), 0);
    CHECK_EQ(sl_denial_batch_open(NULL, events, &denials), 0);
    sl_metrics_watch(stats, NULL, denials, NULL, NULL);

    CASE("without a listener nothing is gathered");
    check(GET("/day", USER("ann")), 3);
    CHECK_EQ(sl_denial_batch_take(denials, rows, &others), 0);
    CHECK_EQ(others, 0);

    CASE("denials of one key are one row");
    sl_events_want(events, true);
    check(GET("/day", USER("ann"), .request_id = SL_STR("r1")), 1);
    check(GET("/x", USER("ann"), .request_id = SL_STR("r2")), 4);
    check(GET("/day", USER("b\"o\nb")), 3);
    check(GET("/off", USER("eve")), 3); /* no limit refuses */
    CHECK_EQ(sl_denial_batch_take(denials, rows, &others), 2);
    CHECK_EQ(rows[0].count, 5);
    CHECK_EQ(rows[1].count, 2);
    CHECK_EQ(others, 0);

    CASE("as the members of an event");
    sl_buf_init(&out, SL_EVENT_BYTES, &sl_alloc_libc);
    CHECK_EQ(sl_denial_write(&rows[0], &out), 0);
    CHECK_EQ(sl_buf_add(&out, (struct sl_str){"", 1}), 0);
    CHECK_STR(out.bytes, "\"limit\":\"day\",\"scope\":\"user\",\"key\":\"ann\","
                         "\"endpoint\":\"day\",\"status\":429,\"count\":5,"
                         "\"retry_after_ms\":86400000,\"request_id\":\"r1\"");
    sl_buf_clear(&out);
    CHECK_EQ(sl_denial_write(&rows[1], &out), 0);
    CHECK(memmem(out.bytes, out.len, "\"b\\\"o\\nb\"", 9));
    sl_buf_done(&out);

    CASE("what was taken is gone");
    CHECK_EQ(sl_denial_batch_take(denials, rows, &others), 0);

    CASE("more keys than there are rows are counted");
    for (unsigned i = 0; i < 100; i++) {
        snprintf(name, sizeof(name), "u%u", i);
        check(
            (struct sl_request){.path = SL_STR("/day"), .user = sl_str_c(name)},
            3);
    }
    CHECK_EQ(sl_denial_batch_take(denials, rows, &others), SL_DENIALS);
    CHECK_EQ(others, 2 * (100 - SL_DENIALS));
    sl_metrics_close(stats);
    sl_denial_batch_close(denials);
    rig_close(&rig);
    end();
}

static void check_memory(void)
{
    struct fail f = {.nth = 1};
    struct sl_alloc alloc = fail_alloc(&f);
    struct sl_events *none = NULL;
    struct sl_denial_batch *nothing = NULL;

    CASE("without memory there are none");
    CHECK_EQ(sl_events_open(&alloc, 0, &none), SLUICE_ENOMEM);
    f.calls = 0;
    CHECK_EQ(sl_denial_batch_open(&alloc, none, &nothing), SLUICE_ENOMEM);
    CHECK(!none && !nothing);
    sl_events_close(none);
    sl_denial_batch_close(nothing);
    fail_check(&f);
}

/* ---- threads ---- */

static void *publish_many(void *ctx)
{
    (void)ctx;
    for (unsigned i = 0; i < 20000; i++)
        publish("\"n\":3");
    return NULL;
}

static void check_threads(void)
{
    pthread_t threads[2];
    struct sl_event event;
    uint64_t at = 1, lost, seen = 0;

    CASE("(1) (2) from several threads");
    begin();
    for (unsigned i = 0; i < 2; i++)
        if (pthread_create(&threads[i], NULL, publish_many, NULL))
            exit(1);
    while (seen < 40000)
        if (sl_events_next(events, &at, &event, &lost)) {
            seen += lost + 1;
            if (event.number != seen)
                break;
        }
    CHECK_EQ(seen, 40000);
    for (unsigned i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    end();
}

int main(void)
{
    check_ring();
    check_ids();
    check_size();
    check_gathering();
    check_memory();
    check_threads();
    return CHECK_DONE();
}
