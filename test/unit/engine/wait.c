/* wait.c -- requests that wait for their turn: which one is served, when, and
 * which one is sent away. Also a request that is being asked again while its
 * client leaves or its thread ends. The test moves the clock. A thread is a
 * room that rings by setting a flag. The registry answers when told to. */
#include "engine/check.h"
#include "engine/hold_op.h"
#include "fixture.h"

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

/* ---- the registry ---- */

static struct {
    struct sl_subjects subjects; /* first */
    struct sl_lookup *waiting;
    bool waits;
} registry;

static void find(struct sl_subjects *subjects, struct sl_lookup *lookup)
{
    (void)subjects;
    if (registry.waits)
        registry.waiting = lookup;
    else
        lookup->done(lookup);
}

static void answer_lookup(void)
{
    struct sl_lookup *lookup = registry.waiting;

    registry.waiting = NULL;
    registry.waits = false;
    if (CHECK(lookup != NULL))
        lookup->done(lookup);
}

static const struct sl_subjects_calls calls = {find};

/* ---- two threads' rooms, served by hand ---- */

static struct sl_wait_thread rooms[2];
static bool rung[2];
static struct sl_engine_ctx stations[2] = {
    {.wait_thread = &rooms[0], .subjects = &registry.subjects},
    {.wait_thread = &rooms[1], .subjects = &registry.subjects},
};

static bool on_ring(struct sl_wait_thread *room)
{
    rung[room - rooms] = true;
    return true;
}

static unsigned waiting(void)
{
    return sl_queues_count(sl_engine_queues(rig.engine));
}

static void open_rooms(void)
{
    for (int i = 0; i < 2; i++)
        sl_wait_thread_init(&rooms[i], sl_engine_queues(rig.engine), on_ring,
                            NULL);
}

static void close_rooms(void)
{
    for (int i = 0; i < 2; i++)
        sl_wait_thread_done(&rooms[i]);
    CHECK_EQ(waiting(), 0);
}

/* Serve the rooms that ring, until none does. */
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

/* ---- clients ---- */

struct client {
    struct sl_check check;
    struct sl_request request;
    char org[16];
    unsigned answers;
    unsigned turn; /* the how manieth was answered */
};

static struct client *all[1200];
static unsigned count, turns;

static void on_answer(struct sl_check *check)
{
    struct client *c = check->ctx;

    c->answers++;
    c->turn = ++turns;
}

static struct client *come_at(const char *path, const char *org, sl_ns wait,
                              int room)
{
    struct client *c = calloc(1, sizeof(*c));

    if (!c || count == SL_LEN(all))
        abort();
    all[count++] = c;
    snprintf(c->org, sizeof(c->org), "%s", org);
    c->request = (struct sl_request){.method = SL_STR("GET"),
                                     .path = sl_str_c(path),
                                     .org = sl_str_c(c->org),
                                     .wait = wait,
                                     .now = rig.now};
    sl_check_init(&c->check, rig.engine, &stations[room], &sl_alloc_libc);
    c->check.done = on_answer;
    c->check.ctx = c;
    c->check.no_wait = wait == SL_NS_NONE;
    sl_check_start(&c->check, &c->request, 1, true);
    return c;
}

/* In the first room; `seconds` is how long it waits. */
static struct client *come(const char *path, const char *org, sl_ns seconds)
{
    return come_at(path, org, seconds * SL_S, 0);
}

/* All were answered, once; forget them. */
static void all_go(void)
{
    while (count > 0) {
        struct client *c = all[--count];

        CHECK_EQ(c->answers, 1);
        sl_check_done(&c->check);
        free(c);
    }
}

static void on_released(struct sl_hold_op *check)
{
    CHECK_EQ(check->err, 0);
}

static void release_unserved(const struct client *c)
{
    struct sl_hold_op_input q = {.verb = SL_VERB_RELEASE,
                                 .name = sl_str_c(c->check.decision.hold),
                                 .now = rig.now};
    struct sl_hold_op check;

    sl_hold_op_init(&check, rig.engine, NULL, &sl_alloc_libc);
    check.done = on_released;
    sl_hold_op_begin(&check, &q);
    sl_hold_op_done(&check);
}

static void release(const struct client *c)
{
    release_unserved(c);
    serve();
}

static bool allowed(const struct client *c)
{
    return c->answers == 1 && c->check.decision.allowed;
}

/* Sent away with `status`. */
static bool away(const struct client *c, int status)
{
    return c->answers == 1 && c->check.decision.status == status;
}

static void pass(sl_ns span)
{
    rig.now += span;
    serve();
}

/* ---- one after the other ---- */

static void check_release(void)
{
    struct client *a = come("/one", "a", 0), *b = come("/one", "b", 20);
    struct client *c = come_at("/one", "c", 20 * SL_S, 1);
    struct client *d = come("/one", "d", 0);

    CASE("a release is the next one's turn at once, on any thread");
    serve();
    CHECK(allowed(a) && !b->answers && !c->answers);
    CHECK(away(d, 429)); /* does not wait */
    CHECK_EQ(waiting(), 2);
    rig.now += SL_S;
    release(a);
    CHECK(allowed(b) && !c->answers);
    CHECK_EQ(b->check.decision.waited, SL_S);
    rig.now += SL_S;
    release(b);
    CHECK(allowed(c));
    CHECK_EQ(c->check.decision.waited, 2 * SL_S);
    release(c);

    CASE("a hold that is not released ends at its expiry");
    a = come("/one", "a", 0);
    rig.now += 20 * SL_S;
    b = come("/one", "b", 15);
    serve();
    pass(10 * SL_S - 1);
    CHECK(!b->answers);
    pass(1);
    CHECK(allowed(b));
    release(b);
    all_go();
}

static void check_time(void)
{
    struct client *a = come("/drip", "x", 0), *b = come("/drip", "x", 5);
    struct client *c = come_at("/drip", "x", 5 * SL_S, 1);
    struct client *d = come("/drip", "x", 2), *e = come("/drip", "x", 3);
    struct client *f = come("/hour", "x", 0), *g = come("/hour", "x", 50);

    CASE("a rate serves its row in time, to the nanosecond");
    serve();
    CHECK(allowed(a) && !b->answers && !c->answers);
    pass(SL_S - 1);
    CHECK(!b->answers);
    pass(1);
    CHECK(allowed(b) && !c->answers);
    pass(SL_S);
    CHECK(allowed(c) && !e->answers);
    CASE("an estimate that is longer than the wait is told at once");
    CHECK(away(d, 503));
    CHECK_EQ(d->check.decision.reason, SL_REASON_QUEUE);
    CHECK_EQ(d->check.decision.retry_in, 3 * SL_S);
    CASE("one that is just as long is waited for");
    pass(SL_S - 1);
    CHECK(!e->answers);
    pass(1);
    CHECK_EQ(e->answers, 1);
    CASE("a limit that is not free in time denies as ever");
    CHECK(allowed(f));
    CHECK(away(g, 429));
    all_go();
}

static void check_end(void)
{
    struct client *a = come("/own", "y", 0), *in[3], *full, *other;

    CASE("a route's wait ends in its time, with 503");
    for (int i = 0; i < 3; i++)
        in[i] = come_at("/own", "y", i == 1 ? 5 * SL_S : 0, i % 2);
    full = come("/own", "y", 0);
    serve();
    CHECK(allowed(a));
    CHECK(away(full, 503));
    other = come("/own", "z", 0);
    CHECK(allowed(other)); /* another key does not wait */
    pass(5 * SL_S - 1);
    CHECK(!in[1]->answers);
    pass(1);
    CHECK(!in[0]->answers && away(in[1], 503) && !in[2]->answers);
    CASE("a client that has left is passed over");
    sl_check_cancel(&in[0]->check);
    CHECK(in[0]->answers == 1 && !in[0]->check.decision.allowed);
    release(a);
    CHECK(allowed(in[2]));
    release(in[2]);
    release(other);
    all_go();
}

static void check_full(void)
{
    struct sl_queues *queues = sl_engine_queues(rig.engine);
    struct client *first = come("/own", "f", 0), *other;

    CASE("a full queue tells the time since the last one passed, for each "
         "waiter");
    for (int i = 0; i < 3; i++)
        come("/own", "f", 0);
    other = come("/own", "f", 0);
    CHECK(away(other, 503));
    CHECK_EQ(other->check.decision.retry_in, 4 * SL_S);
    rig.now += 3 * SL_S;
    CHECK_EQ(come("/own", "f", 0)->check.decision.retry_in, 12 * SL_S);
    CASE("and how fast they pass, if they do");
    release(first);
    come("/own", "f", 0);
    CHECK_EQ(come("/own", "f", 20)->check.decision.retry_in, 12 * SL_S);

    CASE("all queues together have an end, too");
    sl_queues_resize(queues, 3);
    CHECK(allowed(come("/one", "g", 1)));
    other = come("/one", "g", 1);
    CHECK(away(other, 503));
    CHECK_EQ(other->check.decision.reason, SL_REASON_QUEUE);
    sl_queues_resize(queues, 4);
    CHECK(!come("/one", "g", 1)->answers);
    pass(40 * SL_S);
    all_go();
    sl_queues_resize(queues, SL_WAITERS);
}

/* Denied by one limit, then by another: it goes over to its queue. */
static void check_both(void)
{
    struct client *a = come("/own", "w", 0);
    struct client *c = (come("/drip", "w", 0), come("/both", "w", 20));

    CASE("from the queue of one limit to that of another");
    serve();
    CHECK(!c->answers);
    pass(SL_S);
    CHECK(!c->answers); /* a token is there, a permit is not */
    release(a);
    CHECK(allowed(c));
    release(c);
    all_go();
}

/* ---- fairness ---- */

static const struct client *find_turn(unsigned turn)
{
    for (unsigned i = 0; i < count; i++)
        if (all[i]->answers && all[i]->turn == turn)
            return all[i];
    return NULL;
}

static void check_share(void)
{
    struct client *holder = come("/one", "first", 0);
    unsigned last = 0, served = 0;
    char org[16];

    CASE("a thousand of one organisation, and ten each of nine: in turns");
    for (unsigned i = 0; i < 1000; i++)
        come_at("/one", "big", 50 * SL_S, (int)(i % 2));
    for (unsigned i = 0; i < 90; i++) {
        snprintf(org, sizeof(org), "org%u", i / 10);
        come_at("/one", org, 50 * SL_S, (int)(i % 2));
    }
    serve();
    turns = holder->turn = 0;
    release(holder);
    for (unsigned turn = 1; turn <= 200; turn++) {
        const struct client *now = find_turn(turn);

        if (!CHECK(now && allowed(now)))
            break;
        served++;
        if (strcmp(now->org, "big") != 0)
            last = turn;
        release(now);
    }
    CHECK_EQ(served, 200);
    CHECK_EQ(last, 100);
    close_rooms();
    all_go();
    open_rooms();
}

/* ---- leaving ---- */

/* One holds, one waits; the permit comes back, and the waiter is being
 * asked. If `denied`, another client has it by then. Returns the one that
 * waits. */
static struct client *begin_leaving(bool denied)
{
    struct client *a = come("/own", "acme", 0), *b = come("/own", "acme", 10);

    CHECK(allowed(a) && !b->answers);
    sl_wait_thread_serve(&rooms[0], rig.now); /* it was called when it joined */
    release_unserved(a);
    registry.waits = true;
    sl_wait_thread_serve(&rooms[0], rig.now);
    CHECK(registry.waiting != NULL && !b->answers);
    registry.waits = false;
    if (denied) /* without waiting it overtakes */
        CHECK(allowed(come_at("/own", "acme", SL_NS_NONE, 0)));
    return b;
}

enum leaving { DRAINED, GONE, LATE };

static void check_leaving(const char *why, enum leaving how, bool denied)
{
    struct client *b;

    CASE(why);
    rig_open(&rig, policy);
    open_rooms();
    b = begin_leaving(denied);
    if (how == DRAINED) {
        sl_wait_thread_done(&rooms[0]);
        CHECK_EQ(waiting(), 0);
    } else if (how == GONE) {
        sl_check_cancel(&b->check);
    } else {
        rig.now += 11 * SL_S;
        CHECK_EQ(sl_wait_thread_serve(&rooms[0], rig.now), SL_NS_NONE);
    }
    CHECK_EQ(b->answers, 0);
    answer_lookup();
    CHECK_EQ(b->answers, 1);
    CHECK_EQ(b->check.decision.allowed, !denied);
    CHECK_EQ(b->check.decision.hold[0] != 0, !denied);
    CHECK_EQ(waiting(), 0);
    close_rooms();
    all_go();
    rig_close(&rig);
}

int main(void)
{
    registry.subjects.calls = &calls;
    rig_open(&rig, policy);
    open_rooms();
    rig.now = 1000 * SL_S;
    check_release();
    check_time();
    check_end();
    check_full();
    check_both();
    check_share();
    close_rooms();
    rig_close(&rig);
    check_leaving("a drain while asked: the one that passes has passed",
                  DRAINED, false);
    check_leaving("a drain while asked: the one that is denied is answered",
                  DRAINED, true);
    check_leaving("a client leaves while asked: it has passed", GONE, false);
    check_leaving("a client leaves while asked: denied, it waits no more", GONE,
                  true);
    check_leaving("time is over while asked: it is answered all the same", LATE,
                  false);
    return CHECK_DONE();
}
