/* grpc.c -- the grpc door on a loop that is driven step by step.
 *
 * What foreign clients see is in test/clients; this is for what they can't
 * show: stores that answer later, memory that is not there, time that passes.
 */

#include "guest.h"

#include "fail.h"

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

/* ---- a store that answers later ---- */

static struct {
    struct sl_store store;
    struct sl_store *memory;
    struct sl_take *waiting[ASKS];
    unsigned count;
    bool on;
} late;

static int on_bind(struct sl_store *store, struct sl_limit_binding *limits,
                   unsigned count, struct sl_diag *diag)
{
    (void)store;
    return sl_store_bind(late.memory, limits, count, diag);
}

static int on_tighten(struct sl_store *store,
                      const struct sl_limit_binding *limit,
                      const struct sl_limit *strictest)
{
    (void)store;
    return sl_store_set_strictest(late.memory, limit, strictest);
}

static void on_take(struct sl_store *store, struct sl_take *take)
{
    (void)store;
    if (late.on && late.count < ASKS)
        late.waiting[late.count++] = take;
    else
        sl_store_take(late.memory, take);
}

static void on_close(struct sl_store *store)
{
    (void)store;
    sl_store_close(late.memory);
}

static const struct sl_store_calls late_calls = {
    .bind = on_bind,
    .tighten = on_tighten,
    .take = on_take,
    .close = on_close,
};

static void let_go(unsigned index)
{
    struct sl_take *take = late.waiting[index];

    late.count--;
    for (unsigned i = index; i < late.count; i++)
        late.waiting[i] = late.waiting[i + 1];
    sl_store_take(late.memory, take);
}

/* ---- a registry that answers later ---- */

static struct {
    struct sl_subjects subjects; /* first */
    struct sl_lookup *waiting;
    bool on;
} registry;

static void on_find(struct sl_subjects *subjects, struct sl_lookup *lookup)
{
    (void)subjects;
    if (registry.on)
        registry.waiting = lookup;
    else
        lookup->done(lookup);
}

static const struct sl_subjects_calls registry_calls = {on_find};
static const struct sl_engine_ctx station = {.subjects = &registry.subjects};

static void open_engine(struct house *h)
{
    struct sl_memory_options memory = {
        .size = 1 << 20, .now = rig_now, .now_ctx = &h->rig};
    struct sl_engine_options options = {.store = &late.store};
    struct sl_policy *p = rig_policy(policy);
    struct sl_diag diag = {0};

    late.store.calls = &late_calls;
    if (sl_memory_open(&memory, &late.memory, &diag)) {
        printf("Bail out! %s\n", diag.sentence);
        exit(1);
    }
    late.store.secret = late.memory->secret;
    CHECK_EQ(sl_engine_open(&options, p, &h->rig.engine, &diag), 0);
    sl_policy_unref(p);
}

/* ---- tests ---- */

/* What he asked is read after he has gone, and what he said is still there. */
static void test_left(struct house *h)
{
    struct guest *g = guest_new(h);
    struct asked *first, *second;
    struct sl_lookup *lookup;

    CASE("who takes his question back while the registry is asked has paid");
    registry.on = true;
    first = guest_should(g, "api", eve, 1, NULL);
    WAIT_FOR(h, g, registry.waiting != NULL);
    lookup = registry.waiting;
    registry.on = false;
    CHECK_EQ(nghttp2_submit_rst_stream(g->h2, 0, first->id, NGHTTP2_CANCEL), 0);
    for (int i = 0; i < 3; i++) { /* over the bytes of his stream */
        second = guest_should(g, "elsewhere", two, 2, NULL);
        WAIT_FOR(h, g, second->closed);
    }
    CHECK(first->closed);
    lookup->done(lookup);
    second = guest_should(g, "api", eve, 1, NULL);
    WAIT_FOR(h, g, second->closed);
    check_answer(second, SL_RLS_OK, 3);
    CASE("and so has he whose connection ends");
    registry.on = true;
    registry.waiting = NULL;
    guest_should(g, "api", eve, 1, NULL);
    WAIT_FOR(h, g, registry.waiting != NULL);
    registry.on = false;
    lookup = registry.waiting;
    guest_free(g);
    g = guest_new(h);
    second = guest_should(g, "elsewhere", two, 2, NULL);
    WAIT_FOR(h, g, second->closed);
    lookup->done(lookup);
    second = guest_should(g, "api", eve, 1, NULL);
    WAIT_FOR(h, g, second->closed);
    check_answer(second, SL_RLS_OK, 1);
    guest_free(g);
}

static void test_late(struct house *h)
{
    struct guest *g = guest_new(h);
    struct asked *first, *second, *third;

    CASE("answers that come later, in another order, are the same answers");
    late.on = true;
    first = guest_should(g, "api", ann, 1, NULL);
    second = guest_should(g, "api", two, 2, NULL);
    WAIT_FOR(h, g, late.count == 2);
    CHECK(!first->closed && !second->closed);
    let_go(1);
    WAIT_FOR(h, g, second->closed);
    check_answer(second, SL_RLS_OK, 4);
    CHECK(!first->closed);
    let_go(0);
    WAIT_FOR(h, g, first->closed);
    check_answer(first, SL_RLS_OK, 4);

    CASE("each descriptor for itself is one question after the other");
    third = guest_should(g, "each", two, 2, NULL);
    WAIT_FOR(h, g, late.count == 1);
    let_go(0);
    CHECK_EQ(late.count, 1);
    CHECK(!third->closed);
    let_go(0);
    WAIT_FOR(h, g, third->closed);
    check_answer(third, SL_RLS_OK, 3);

    CASE("who has waited in vain is told so");
    first = guest_should(g, "api", ann, 1, "30m");
    WAIT_FOR(h, g, late.count == 1);
    CHECK(late.waiting[0]->deadline > 0);
    for (sl_ns end = sl_loop_mono(h->loop) + 40 * SL_MS;
         sl_loop_mono(h->loop) < end;)
        house_turn(h, g);
    let_go(0);
    WAIT_FOR(h, g, first->closed);
    CHECK_EQ(first->status, 4);

    CASE("who goes before his answer comes is not missed");
    guest_should(g, "api", ann, 1, NULL);
    WAIT_FOR(h, g, late.count == 1);
    guest_free(g);
    g = guest_new(h);
    second = guest_should(g, "nowhere", ann, 1, NULL);
    WAIT_FOR(h, g, second->closed);
    let_go(0);
    first = guest_should(g, "api", ann, 1, NULL);
    WAIT_FOR(h, g, late.count == 1);
    let_go(0);
    WAIT_FOR(h, g, first->closed);
    check_answer(first, SL_RLS_OK, 1);
    guest_free(g);
    late.on = false;
}

static void test_times(struct house *h)
{
    struct guest *g;
    struct asked *a;

    CASE("a connection that has come of age is asked to go");
    h->door.max_age = 30 * SL_MS;
    g = guest_new(h);
    a = guest_should(g, "nowhere", ann, 1, NULL);
    WAIT_FOR(h, g, a->closed);
    CHECK_EQ(a->status, 0);
    WAIT_FOR(h, g, g->gone);
    CHECK(g->goaway);
    guest_free(g);
    h->door.max_age = 0;

    CASE("an idle one is closed");
    h->door.idle_timeout = SL_MS;
    g = guest_new(h);
    WAIT_FOR(h, g, g->gone);
    CHECK(g->goaway);
    guest_free(g);
    h->door.idle_timeout = 0;

    CASE("one that does not begin, too");
    h->door.begin_timeout = SL_MS;
    g = guest_new(h);
    for (unsigned i = 0; i < 1000 && recv(g->fd, &(char){0}, 1, MSG_DONTWAIT);
         i++) {
        sl_timer_start(h->tick, SL_MS);
        sl_loop_run(h->loop);
    }
    CHECK_EQ(recv(g->fd, &(char){0}, 1, MSG_DONTWAIT), 0);
    guest_free(g);
    h->door.begin_timeout = 0;
}

static void test_unfinished(struct house *h)
{
    struct guest *g;
    struct asked *a;

    CASE("a request that does not come is given up, and the others go on");
    h->door.body_timeout = 10 * SL_MS;
    g = guest_new(h);
    a = guest_should(g, "nowhere", ann, 1, NULL);
    a->waits = true;
    WAIT_FOR(h, g, a->closed);
    CHECK_EQ(a->error, NGHTTP2_CANCEL);
    a = guest_should(g, "nowhere", ann, 1, NULL);
    WAIT_FOR(h, g, a->closed);
    CHECK_EQ(a->status, 0);
    guest_free(g);
    h->door.body_timeout = 0;
}

/* Whichever allocation fails: an answer, an error or the end, and no leak. */
static void test_memory(struct house *h)
{
    struct fail fail = {.nth = 0};
    struct sl_alloc alloc = fail_alloc(&fail);
    unsigned answered = 0, failed = 0;
    bool whole = false;

    CASE("without memory there is an error or the end, and nothing leaks");
    sl_server_worker_close(&h->worker.base);
    while (!whole && fail.nth < 200) {
        struct guest *g;
        struct asked *a;

        fail.nth++;
        fail.calls = 0;
        CHECK(house_open(h, &alloc));
        g = guest_new(h);
        a = guest_should(g, "each", two, 2, NULL);
        WAIT_FOR(h, g, a->closed || g->gone);
        whole = fail.calls < fail.nth;
        if (a->closed && a->status == 0)
            answered++;
        else
            failed++;
        CHECK(a->status <= 0 || a->status == 14 || a->status == 8);
        guest_free(g);
        for (int i = 0; i < 20; i++)
            sl_timer_start(h->tick, SL_MS), sl_loop_run(h->loop);
        sl_server_worker_close(&h->worker.base);
        fail_check(&fail);
    }
    CHECK(whole);
    CHECK(failed > 5);
    CHECK(answered > 0);
    CHECK(house_open(h, NULL));
}

static void test_warm(struct house *h)
{
    struct fail fail = {.nth = 0};
    struct sl_alloc alloc = fail_alloc(&fail);
    struct guest *g;
    struct asked *a;
    unsigned calls;

    CASE("once warm, a usual request takes no memory");
    sl_server_worker_close(&h->worker.base);
    CHECK(house_open(h, &alloc));
    g = guest_new(h);
    for (unsigned i = 0; i < 4; i++) {
        a = guest_should(g, "nowhere", ann, 1, NULL);
        WAIT_FOR(h, g, a->closed);
    }
    calls = fail.calls;
    a = guest_should(g, "nowhere", ann, 1, NULL);
    WAIT_FOR(h, g, a->closed);
#ifdef __SANITIZE_ADDRESS__ /* nothing is kept there; memory.c */
    CHECK(fail.calls - calls <= 12);
#else
    CHECK_EQ(fail.calls - calls, 0);
#endif
    printf("# %u allocations\n", fail.calls - calls);
    guest_free(g);
    sl_server_worker_close(&h->worker.base);
    fail_check(&fail);
    CHECK(house_open(h, NULL));
}

/* Turns in which no guest does anything. */
static void wait_alone(struct house *h, unsigned conns)
{
    for (int i = 0; i < 2000 && sl_conns_count(h->worker.base.conns) > conns;
         i++)
        sl_timer_start(h->tick, SL_MS), sl_loop_run(h->loop);
    CHECK_EQ(sl_conns_count(h->worker.base.conns), conns);
}

/* Some read nothing while they ask nothing. */
static void test_drain_silent(struct house *h)
{
    struct guest *busy = guest_new(h), *idle = guest_new(h);
    struct asked *a;

    CASE("at the end nobody waits for a guest who is idle and silent");
    h->worker.base.draining = false;
    late.on = true;
    a = guest_should(busy, "api", ann, 1, NULL);
    WAIT_FOR(h, busy, late.count == 1);
    guest_turn(idle);
    house_turn(h, idle);
    sl_server_announce_drain(&h->worker.base);
    sl_server_drain(&h->worker.base);
    wait_alone(h, 1);
    CASE("but for one who has asked for something, though he is silent");
    let_go(0);
    wait_alone(h, 0);
    guest_turn(busy);
    CHECK(a->closed && busy->goaway);
    CHECK_EQ(a->status, 0);
    guest_turn(idle);
    CHECK(idle->goaway);
    late.on = false;
    guest_free(busy);
    guest_free(idle);
}

static void test_drain(struct house *h)
{
    struct guest *g = guest_new(h), *idle = guest_new(h);
    struct asked *a, *watch;

    CASE("at the end what is under way is finished, and all go");
    late.on = true;
    a = guest_should(g, "api", ann, 1, NULL);
    watch = guest_ask(g, "/grpc.health.v1.Health/Watch", SL_STR(""), NULL);
    WAIT_FOR(h, g, late.count == 1 && watch->got_len > 0);
    guest_turn(idle);
    house_turn(h, idle);
    sl_server_announce_drain(&h->worker.base);
    WAIT_FOR(h, g, watch->got_len == 14);
    CHECK_EQ(watch->got[6], 1);
    CHECK_EQ(watch->got[13], 2);
    sl_server_drain(&h->worker.base);
    WAIT_FOR(h, g, watch->closed);
    CHECK_EQ(watch->status, 14);
    WAIT_FOR(h, idle, idle->gone);
    CHECK(g->goaway && idle->goaway);
    CHECK(!a->closed && !g->gone);
    let_go(0);
    WAIT_FOR(h, g, a->closed && g->gone);
    CHECK_EQ(a->status, 0);
    late.on = false;
    guest_free(g);
    guest_free(idle);
    wait_alone(h, 0);
}

int main(void)
{
    static struct house h;

    alarm(100);
    open_engine(&h);
    house_begin(&h);
    CHECK(house_open(&h, NULL));
    registry.subjects.calls = &registry_calls;
    h.worker.base.station = &station;
    test_left(&h);
    test_late(&h);
    test_times(&h);
    test_unfinished(&h);
    test_memory(&h);
    test_warm(&h);
    test_drain(&h);
    test_drain_silent(&h);
    sl_server_worker_close(&h.worker.base);
    house_end(&h);
    sl_engine_close(h.rig.engine);
    return CHECK_DONE();
}
