/* grpc.c -- the grpc server on a loop that is driven step by step.
 *
 * What foreign clients see is in test/clients; this is for what they can't
 * show: stores that answer later, memory that is not there, time that passes.
 */
#include "fail.h"
#include "guest.h"

static struct sl_server door = {.protocol = &sl_protocol_grpc, .name = "grpc"};

/* False without memory. */
static bool open_server(const struct sl_alloc *alloc)
{
    return open_worker(&worker.base, &door, &s, NULL, alloc, 100) == 0;
}

static const char policy[] =
    "sluice: 1\n"
    "limits: { api: { kind: fixed-window, per: user, rate: 5/day } }\n"
    "routes:\n"
    "  - { job: api, limits: [api] }\n"
    "  - { job: each, limits: [api], count: each }\n"
    "default: []\n";

static const char *const ann[] = {"ann"};
static const char *const eve[] = {"eve"};
static const char *const two[] = {"bob", "cy"};

/* ---- tests ---- */

/* A request is read after its client has gone: its bytes are still there. */
static void test_left(void)
{
    struct guest *g = guest_new();
    struct asked *first, *second;
    struct sl_lookup *lookup;

    CASE("a request that is cancelled during a lookup is still counted");
    late.finding = true;
    first = guest_should(g, "api", eve, 1, NULL);
    UNTIL(g, late.lookup_count > 0);
    lookup = late.lookups[0];
    late.finding = false;
    CHECK_EQ(nghttp2_submit_rst_stream(g->h2, 0, first->id, NGHTTP2_CANCEL), 0);
    for (int i = 0; i < 3; i++) { /* over the bytes of the stream */
        second = guest_should(g, "elsewhere", two, 2, NULL);
        UNTIL(g, second->closed);
    }
    CHECK(first->closed);
    lookup->done(lookup);
    second = guest_should(g, "api", eve, 1, NULL);
    UNTIL(g, second->closed);
    check_answer(second, SL_RLS_OK, 3);
    CASE("so is a request whose connection ends");
    late.lookup_count = 0;
    late.finding = true;
    guest_should(g, "api", eve, 1, NULL);
    UNTIL(g, late.lookup_count > 0);
    late.finding = false;
    lookup = late.lookups[0];
    guest_free(g);
    g = guest_new();
    second = guest_should(g, "elsewhere", two, 2, NULL);
    UNTIL(g, second->closed);
    lookup->done(lookup);
    second = guest_should(g, "api", eve, 1, NULL);
    UNTIL(g, second->closed);
    check_answer(second, SL_RLS_OK, 1);
    guest_free(g);
}

static void test_late(void)
{
    struct guest *g = guest_new();
    struct asked *first, *second, *third;

    CASE("answers that come later, in another order, are the same answers");
    late.on = true;
    first = guest_should(g, "api", ann, 1, NULL);
    second = guest_should(g, "api", two, 2, NULL);
    UNTIL(g, late.take_count == 2);
    CHECK(!first->closed && !second->closed);
    let_go(1);
    UNTIL(g, second->closed);
    check_answer(second, SL_RLS_OK, 4);
    CHECK(!first->closed);
    let_go(0);
    UNTIL(g, first->closed);
    check_answer(first, SL_RLS_OK, 4);

    CASE("each descriptor for itself is one question after the other");
    third = guest_should(g, "each", two, 2, NULL);
    UNTIL(g, late.take_count == 1);
    let_go(0);
    CHECK_EQ(late.take_count, 1);
    CHECK(!third->closed);
    let_go(0);
    UNTIL(g, third->closed);
    check_answer(third, SL_RLS_OK, 3);

    CASE("a request whose deadline has passed fails");
    first = guest_should(g, "api", ann, 1, "30m");
    UNTIL(g, late.take_count == 1);
    CHECK(late.takes[0]->deadline > 0);
    for (sl_ns end = sl_loop_mono(s.loop) + 40 * SL_MS;
         sl_loop_mono(s.loop) < end;)
        both_turn(g);
    let_go(0);
    UNTIL(g, first->closed);
    CHECK_EQ(first->status, 4);

    CASE("a client that leaves before its answer is not missed");
    guest_should(g, "api", ann, 1, NULL);
    UNTIL(g, late.take_count == 1);
    guest_free(g);
    g = guest_new();
    second = guest_should(g, "nowhere", ann, 1, NULL);
    UNTIL(g, second->closed);
    let_go(0);
    first = guest_should(g, "api", ann, 1, NULL);
    UNTIL(g, late.take_count == 1);
    let_go(0);
    UNTIL(g, first->closed);
    check_answer(first, SL_RLS_OK, 1);
    guest_free(g);
    late.on = false;
}

static void use_policy(const char *text)
{
    struct sl_policy *next = rig_policy(text);

    CHECK_EQ(sl_engine_use(s.rig.engine, next, &s.rig.diag), 0);
    sl_policy_unref(next);
}

/* As many requests, answered after the last of them has come. */
static void ask_late(struct guest *g, unsigned count)
{
    static const char *const own[] = {"dan"};
    struct asked *last;

    late.on = true;
    for (unsigned i = 1; i < count; i++)
        guest_should(g, "api", own, 1, NULL);
    last = guest_should(g, "api", own, 1, NULL);
    UNTIL(g, late.take_count == count);
    while (late.take_count > 0)
        let_go(0);
    UNTIL(g, last->closed);
    late.on = false;
}

/* What is kept for the next requests. */
static void test_spare(void)
{
    static const char next[] =
        "sluice: 1\n"
        "limits: { api: { kind: fixed-window, per: user, rate: 9/day } }\n"
        "default: [api]\n";
    static const char *many[40];
    struct guest *g = guest_new();
    struct asked *a, *large;

    for (size_t i = 0; i < SL_LEN(many); i++)
        many[i] = "dan";
    CASE("calls whose answers came later are kept");
    ask_late(g, 90);
    CHECK_EQ(worker.base.spare_count, 90);

    CASE("but none that hold the policy before");
    use_policy(next);
    a = guest_should(g, "api", many, 1, NULL);
    UNTIL(g, a->closed);
    CHECK_EQ(worker.base.spare_count, 1);

    CASE("and none beside others that holds large texts");
    late.on = true;
    a = guest_should(g, "api", many, 1, NULL);
    large = guest_should(g, "api", many, SL_LEN(many), NULL);
    UNTIL(g, late.take_count == 2);
    let_go(0);
    UNTIL(g, a->closed);
    let_go(0);
    UNTIL(g, large->closed);
    CHECK_EQ(large->status, 0);
    CHECK_EQ(worker.base.spare_count, 1);
    late.on = false;
    use_policy(policy);
    guest_free(g);
}

static void test_times(void)
{
    struct guest *g;
    struct asked *a;

    CASE("a connection that is too old gets a GOAWAY");
    door.max_age = 30 * SL_MS;
    g = guest_new();
    a = guest_should(g, "nowhere", ann, 1, NULL);
    UNTIL(g, a->closed);
    CHECK_EQ(a->status, 0);
    UNTIL(g, g->gone);
    CHECK(g->goaway);
    guest_free(g);
    door.max_age = 0;

    CASE("an idle one is closed");
    door.idle_timeout = SL_MS;
    g = guest_new();
    UNTIL(g, g->gone);
    CHECK(g->goaway);
    guest_free(g);
    door.idle_timeout = 0;

    CASE("a connection without a preface is closed, too");
    door.begin_timeout = SL_MS;
    g = guest_new();
    for (unsigned i = 0; i < 1000 && recv(g->fd, &(char){0}, 1, MSG_DONTWAIT);
         i++) {
        tick(&s);
    }
    CHECK_EQ(recv(g->fd, &(char){0}, 1, MSG_DONTWAIT), 0);
    guest_free(g);
    door.begin_timeout = 0;
}

static void test_unfinished(void)
{
    struct guest *g;
    struct asked *a;

    CASE("a request that does not come is given up, and the others go on");
    door.body_timeout = 10 * SL_MS;
    g = guest_new();
    a = guest_should(g, "nowhere", ann, 1, NULL);
    a->waits = true;
    UNTIL(g, a->closed);
    CHECK_EQ(a->error, NGHTTP2_CANCEL);
    a = guest_should(g, "nowhere", ann, 1, NULL);
    UNTIL(g, a->closed);
    CHECK_EQ(a->status, 0);
    guest_free(g);
    door.body_timeout = 0;
}

/* Whichever allocation fails: an answer, an error or the end, and no leak. */
static void test_memory(void)
{
    struct fail fail = {.nth = 0};
    struct sl_alloc alloc = fail_alloc(&fail);
    unsigned answered = 0, failed = 0;
    bool whole = false;

    CASE("without memory there is an error or the end, and nothing leaks");
    sl_server_worker_close(&worker.base);
    while (!whole && fail.nth < 200) {
        struct guest *g;
        struct asked *a;

        fail.nth++;
        fail.calls = 0;
        CHECK(open_server(&alloc));
        g = guest_new();
        a = guest_should(g, "each", two, 2, NULL);
        UNTIL(g, a->closed || g->gone);
        whole = fail.calls < fail.nth;
        if (a->closed && a->status == 0)
            answered++;
        else
            failed++;
        CHECK(a->status <= 0 || a->status == 14 || a->status == 8);
        guest_free(g);
        for (int i = 0; i < 20; i++)
            tick(&s);
        sl_server_worker_close(&worker.base);
        fail_check(&fail);
    }
    CHECK(whole);
    CHECK(failed > 5);
    CHECK(answered > 0);
    CHECK(open_server(NULL));
}

static void test_warm(void)
{
    struct fail fail = {.nth = 0};
    struct sl_alloc alloc = fail_alloc(&fail);
    struct guest *g;
    struct asked *a;
    unsigned calls;

    CASE("once warm, a usual request takes no memory");
    sl_server_worker_close(&worker.base);
    CHECK(open_server(&alloc));
    g = guest_new();
    for (unsigned i = 0; i < 4; i++) {
        a = guest_should(g, "nowhere", ann, 1, NULL);
        UNTIL(g, a->closed);
    }
    calls = fail.calls;
    a = guest_should(g, "nowhere", ann, 1, NULL);
    UNTIL(g, a->closed);
#ifdef __SANITIZE_ADDRESS__ /* nothing is kept there; memory.c */
    CHECK(fail.calls - calls <= 12);
#else
    CHECK_EQ(fail.calls - calls, 0);
#endif
    printf("# %u allocations\n", fail.calls - calls);
    guest_free(g);
    sl_server_worker_close(&worker.base);
    fail_check(&fail);
    CHECK(open_server(NULL));
}

/* Turns in which no guest does anything. */
static void wait_alone(unsigned conns)
{
    for (int i = 0; i < 2000 && sl_conns_count(worker.base.conns) > conns; i++)
        tick(&s);
    CHECK_EQ(sl_conns_count(worker.base.conns), conns);
}

/* Some read nothing while they ask nothing. */
static void test_drain_silent(void)
{
    struct guest *busy = guest_new(), *idle = guest_new();
    struct asked *a;

    CASE("draining does not wait for an idle client that reads nothing");
    worker.base.draining = false;
    late.on = true;
    a = guest_should(busy, "api", ann, 1, NULL);
    UNTIL(busy, late.take_count == 1);
    guest_turn(idle);
    both_turn(idle);
    sl_server_announce_drain(&worker.base);
    sl_server_drain(&worker.base);
    wait_alone(1);
    CASE("but it waits for a request of a client that reads nothing");
    let_go(0);
    wait_alone(0);
    guest_turn(busy);
    CHECK(a->closed && busy->goaway);
    CHECK_EQ(a->status, 0);
    guest_turn(idle);
    CHECK(idle->goaway);
    late.on = false;
    guest_free(busy);
    guest_free(idle);
}

static void test_drain(void)
{
    struct guest *g = guest_new(), *idle = guest_new();
    struct asked *a, *watch;

    CASE("draining finishes what is under way, and closes all");
    late.on = true;
    a = guest_should(g, "api", ann, 1, NULL);
    watch = guest_ask(g, "/grpc.health.v1.Health/Watch", SL_STR(""), NULL);
    UNTIL(g, late.take_count == 1 && watch->got_len > 0);
    guest_turn(idle);
    both_turn(idle);
    sl_server_announce_drain(&worker.base);
    UNTIL(g, watch->got_len == 14);
    CHECK_EQ(watch->got[6], 1);
    CHECK_EQ(watch->got[13], 2);
    sl_server_drain(&worker.base);
    UNTIL(g, watch->closed);
    CHECK_EQ(watch->status, 14);
    UNTIL(idle, idle->gone);
    CHECK(g->goaway && idle->goaway);
    CHECK(!a->closed && !g->gone);
    let_go(0);
    UNTIL(g, a->closed && g->gone);
    CHECK_EQ(a->status, 0);
    late.on = false;
    guest_free(g);
    guest_free(idle);
    wait_alone(0);
}

int main(void)
{
    static const struct sl_engine_ctx engine_ctx = {.subjects = &late.subjects};

    serve_begin(&s, 0);
    serve_late(&s, policy);
    CHECK(open_server(NULL));
    worker.base.engine_ctx = &engine_ctx;
    test_left();
    test_late();
    test_spare();
    test_times();
    test_unfinished();
    test_memory();
    test_warm();
    test_drain();
    test_drain_silent();
    sl_server_worker_close(&worker.base);
    rig_close(&s.rig);
    serve_end(&s);
    return CHECK_DONE();
}
