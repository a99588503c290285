/* turns.c -- questions that wait for their turn: who is served, when, and who
 * is sent away. The clock is the test's, and rooms ring by setting a flag. */
#include "asking.h"

#include "engine/check.h"
#include "engine/hold_op.h"
#include "fail.h"

static const char policy[] =
    "sluice: 1\n"
    "plans: { default: free, free: {}, pro: { weight: 3 } }\n"
    "limits:\n"
    "  one: { kind: concurrency, per: [], rate: 1, hold: 30s, queue: 2000 }\n"
    "  own: { kind: concurrency, per: org, rate: 1, queue: 3 }\n"
    "  drip: { kind: token-bucket, per: org, rate: 1/s burst 1 }\n"
    "  hour: { kind: fixed-window, per: org, rate: 1/hour }\n"
    "routes:\n"
    "  - { match: /one, limits: [one] }\n"
    "  - { match: /own, limits: [own], wait: 10s }\n"
    "  - { match: /drip, limits: [drip] }\n"
    "  - { match: /both, limits: [drip, own] }\n"
    "  - { match: /hour, limits: [hour] }\n"
    "default: []\n";

static struct rig rig;

/* Two threads' rooms, served by hand. */
static struct sl_wait_thread rooms[2];
static bool rung[2];
static struct sl_engine_ctx stations[2] = {{.room = &rooms[0]},
                                           {.room = &rooms[1]}};

static bool on_ring(struct sl_wait_thread *room)
{
    rung[room - rooms] = true;
    return true;
}

static void open_rig(const struct sl_alloc *alloc)
{
    (void)alloc;
    rig_open(&rig, policy);
    for (int i = 0; i < 2; i++)
        sl_wait_thread_init(&rooms[i], sl_engine_queues(rig.engine), on_ring,
                            NULL);
}

static void close_rig(void)
{
    for (int i = 0; i < 2; i++)
        sl_wait_thread_done(&rooms[i]);
    CHECK_EQ(sl_queues_count(sl_engine_queues(rig.engine)), 0);
    rig_close(&rig);
}

struct client {
    struct sl_check ask;
    struct sl_request facts;
    char org[16];
    bool answered;
    unsigned turn; /* the how manieth was answered */
};

static unsigned answers;

static void on_answer(struct sl_check *ask)
{
    struct client *c = ask->ctx;

    c->answered = true;
    c->turn = ++answers;
}

static struct client *come(const char *path, const char *org, const char *plan,
                           sl_ns wait, int room)
{
    struct client *c = calloc(1, sizeof(*c));

    if (!c)
        abort();
    snprintf(c->org, sizeof(c->org), "%s", org);
    c->facts = (struct sl_request){.method = SL_STR("GET"),
                                   .path = sl_str_c(path),
                                   .org = sl_str_c(c->org),
                                   .plan = sl_str_c(plan),
                                   .wait = wait,
                                   .now = rig.now};
    sl_check_init(&c->ask, rig.engine, &stations[room], &sl_alloc_libc);
    c->ask.done = on_answer;
    c->ask.ctx = c;
    sl_check_begin(&c->ask, &c->facts, true);
    return c;
}

static void go(struct client *c)
{
    sl_check_done(&c->ask);
    free(c);
}

/* Serve whoever rings, until nobody does. */
static void serve(void)
{
    for (int i = 0; i < 2; i++)
        sl_wait_thread_serve(&rooms[i], rig.now);
    while (rung[0] || rung[1])
        for (int i = 0; i < 2; i++) {
            rung[i] = false;
            sl_wait_thread_serve(&rooms[i], rig.now);
        }
}

static void on_released(struct sl_hold_op *ask)
{
    CHECK_EQ(ask->err, 0);
}

static void release(const struct client *c)
{
    struct sl_hold_op_input q = {.verb = SL_VERB_RELEASE,
                                 .name = sl_str_c(c->ask.decision.hold),
                                 .now = rig.now};
    struct sl_hold_op ask;

    sl_hold_op_init(&ask, rig.engine, NULL, &sl_alloc_libc);
    ask.done = on_released;
    sl_hold_op_begin(&ask, &q);
    sl_hold_op_done(&ask);
    serve();
}

static bool allowed(const struct client *c)
{
    return c->answered && c->ask.decision.allowed;
}

/* ---- one after the other ---- */

static void check_release(void)
{
    struct client *a = come("/one", "a", "free", 0, 0);
    struct client *b = come("/one", "b", "free", 20 * SL_S, 0);
    struct client *c = come("/one", "c", "free", 20 * SL_S, 1);
    struct client *d = come("/one", "d", "free", 0, 0);

    CASE("a release is somebody's turn at once, on whatever thread");
    serve();
    CHECK(allowed(a));
    CHECK(!b->answered && !c->answered);
    CHECK(d->answered && d->ask.decision.status == 429); /* does not wait */
    CHECK_EQ(sl_queues_count(sl_engine_queues(rig.engine)), 2);
    rig.now += SL_S;
    release(a);
    CHECK(allowed(b));
    CHECK_EQ(b->ask.decision.waited, SL_S);
    CHECK(!c->answered);
    rig.now += SL_S;
    release(b);
    CHECK(allowed(c));
    CHECK_EQ(c->ask.decision.waited, 2 * SL_S);
    release(c);
    go(a);
    go(b);
    go(c);
    go(d);

    CASE("a holder who is silent is over at his expiry");
    a = come("/one", "a", "free", 0, 0);
    rig.now += 20 * SL_S;
    b = come("/one", "b", "free", 15 * SL_S, 0);
    serve();
    rig.now += 10 * SL_S - 1;
    serve();
    CHECK(!b->answered);
    rig.now += 1;
    serve();
    CHECK(allowed(b));
    release(b);
    go(a);
    go(b);
}

static void check_time(void)
{
    struct client *a = come("/drip", "x", "free", 0, 0);
    struct client *b = come("/drip", "x", "free", 5 * SL_S, 0);
    struct client *c = come("/drip", "x", "free", 5 * SL_S, 1);
    struct client *d = come("/drip", "x", "free", 2 * SL_S, 0);
    struct client *e = come("/hour", "x", "free", 0, 0);
    struct client *f = come("/hour", "x", "free", 50 * SL_S, 0);

    CASE("a rate serves its row in time, to the nanosecond");
    serve();
    CHECK(allowed(a) && !b->answered && !c->answered);
    rig.now += SL_S - 1;
    serve();
    CHECK(!b->answered);
    rig.now += 1;
    serve();
    CHECK(allowed(b) && !c->answered);
    rig.now += SL_S;
    serve();
    CHECK(allowed(c));

    CASE("an estimate that is longer than the wait is told at once");
    CHECK(d->answered);
    CHECK_EQ(d->ask.decision.status, 503);
    CHECK_EQ(d->ask.decision.reason, SL_REASON_QUEUE);
    CHECK_EQ(d->ask.decision.retry_in, 3 * SL_S);

    CASE("a limit that is not free in time denies as ever");
    CHECK(allowed(e));
    CHECK(f->answered);
    CHECK_EQ(f->ask.decision.status, 429);
    go(a);
    go(b);
    go(c);
    go(d);
    go(e);
    go(f);
}

static void check_end(void)
{
    struct client *a = come("/own", "y", "free", 0, 0), *in[3], *full;
    struct client *other;

    CASE("a route's wait ends in its time, with 503");
    for (int i = 0; i < 3; i++)
        in[i] = come("/own", "y", "free", i == 1 ? 5 * SL_S : 0, i % 2);
    full = come("/own", "y", "free", 0, 0);
    serve();
    CHECK(allowed(a));
    CHECK(full->answered && full->ask.decision.status == 503);
    other = come("/own", "z", "free", 0, 0);
    CHECK(allowed(other)); /* who has his own key waits for nobody */
    rig.now += 5 * SL_S;
    serve();
    CHECK(!in[0]->answered && in[1]->answered && !in[2]->answered);
    CHECK_EQ(in[1]->ask.decision.status, 503);

    CASE("who has gone is passed over");
    sl_check_cancel(&in[0]->ask);
    CHECK(in[0]->answered && !in[0]->ask.decision.allowed);
    release(a);
    CHECK(allowed(in[2]));
    release(in[2]);
    release(other);
    go(a);
    go(full);
    go(other);
    for (int i = 0; i < 3; i++)
        go(in[i]);
}

/* Who finds no place is told when there may be one. */
static void check_full(void)
{
    struct client *in[4], *full[3], *other;
    struct sl_queues *queues = sl_engine_queues(rig.engine);

    CASE("a full queue tells how long nobody has passed, for each before him");
    for (int i = 0; i < 4; i++)
        in[i] = come("/own", "f", "free", 0, 0);
    full[0] = come("/own", "f", "free", 0, 0);
    CHECK_EQ(full[0]->ask.decision.status, 503);
    CHECK_EQ(full[0]->ask.decision.retry_in, 4 * SL_S);
    rig.now += 3 * SL_S;
    full[1] = come("/own", "f", "free", 0, 0);
    CHECK_EQ(full[1]->ask.decision.retry_in, 12 * SL_S);
    CASE("and how fast they pass, if they do");
    release(in[0]);
    in[0] = (go(in[0]), come("/own", "f", "free", 0, 0));
    full[2] = come("/own", "f", "free", 20 * SL_S, 0);
    CHECK_EQ(full[2]->ask.decision.retry_in, 12 * SL_S);

    CASE("all queues together have an end, too");
    sl_queues_resize(queues, 3);
    other = come("/one", "g", "free", SL_S, 0);
    CHECK(allowed(other));
    go(other);
    other = come("/one", "g", "free", SL_S, 0);
    CHECK(other->answered && other->ask.decision.status == 503);
    CHECK_EQ(other->ask.decision.reason, SL_REASON_QUEUE);
    go(other);
    sl_queues_resize(queues, 4);
    other = come("/one", "g", "free", SL_S, 0);
    CHECK(!other->answered);
    rig.now += 40 * SL_S;
    serve();
    for (int i = 0; i < 4; i++)
        go(in[i]);
    for (int i = 0; i < 3; i++)
        go(full[i]);
    go(other);
    sl_queues_resize(queues, SL_WAIT_TIMER);
}

/* Denied by one limit, then by another: he goes over to its queue. */
static void check_both(void)
{
    struct client *a = come("/own", "w", "free", 0, 0);
    struct client *b = come("/drip", "w", "free", 0, 0);
    struct client *c = come("/both", "w", "free", 20 * SL_S, 0);

    CASE("from the queue of one limit to that of another");
    serve();
    CHECK(!c->answered);
    rig.now += SL_S;
    serve();
    CHECK(!c->answered); /* a token is there, a permit is not */
    release(a);
    CHECK(allowed(c));
    release(c);
    go(a);
    go(b);
    go(c);
}

/* ---- fairness ---- */

static void check_share(void)
{
    static struct client *list[1090];
    struct client *holder = come("/one", "first", "free", 0, 0);
    unsigned n = 0, last = 0, served = 0;
    char org[16];

    CASE("a thousand of one organisation, and ten each of nine: in turns");
    for (unsigned i = 0; i < 1000; i++)
        list[n++] = come("/one", "big", "free", 50 * SL_S, (int)(i % 2));
    for (unsigned o = 0; o < 9; o++)
        for (unsigned i = 0; i < 10; i++) {
            snprintf(org, sizeof(org), "org%u", o);
            list[n++] = come("/one", org, "free", 50 * SL_S, (int)(i % 2));
        }
    serve();
    answers = 0;
    release(holder);
    for (unsigned turn = 1; turn <= 200; turn++) {
        struct client *now = NULL;

        for (unsigned i = 0; i < n; i++)
            if (list[i]->answered && list[i]->turn == turn)
                now = list[i];
        if (!CHECK(now && allowed(now)))
            break;
        served++;
        if (strcmp(now->org, "big") != 0)
            last = turn;
        release(now);
    }
    CHECK_EQ(served, 200);
    CHECK_EQ(last, 100);
    for (int i = 0; i < 2; i++)
        sl_wait_thread_done(&rooms[i]);
    for (unsigned i = 0; i < n; i++) {
        CHECK(list[i]->answered);
        go(list[i]);
    }
    for (int i = 0; i < 2; i++)
        sl_wait_thread_init(&rooms[i], sl_engine_queues(rig.engine), on_ring,
                            NULL);
    go(holder);
}

int main(void)
{
    open_rig(NULL);
    rig.now = 1000 * SL_S;
    check_release();
    check_time();
    check_end();
    check_full();
    check_both();
    check_share();
    close_rig();
    return CHECK_DONE();
}
