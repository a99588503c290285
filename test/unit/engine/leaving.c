/* leaving.c -- questions that are being asked again when whoever asked goes, or
 * the room is closed: they are answered once, and what they got is theirs. The
 * registry answers when it is told to, so that there is an in-between. */
#include "asking.h"

#include "engine/check.h"
#include "engine/hold_op.h"

static const char policy[] =
    "sluice: 1\n"
    "plans: { default: free, free: {} }\n"
    "limits: { one: { kind: concurrency, per: org, rate: 1, queue: 9 } }\n"
    "default: [one]\n";

static struct rig rig;
static struct sl_wait_thread room;

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
static const struct sl_engine_ctx station = {.subjects = &registry.subjects,
                                             .room = &room};

/* ---- clients ---- */

struct client {
    struct sl_check ask;
    struct sl_request facts;
    unsigned answers;
};

static void on_answer(struct sl_check *ask)
{
    ((struct client *)ask->ctx)->answers++;
}

static void come(struct client *c)
{
    memset(c, 0, sizeof(*c));
    c->facts = (struct sl_request){.method = SL_STR("GET"),
                                   .path = SL_STR("/"),
                                   .org = SL_STR("acme"),
                                   .wait = 10 * SL_S,
                                   .now = rig.now};
    sl_check_init(&c->ask, rig.engine, &station, &sl_alloc_libc);
    c->ask.done = on_answer;
    c->ask.ctx = c;
    sl_check_begin(&c->ask, &c->facts, true);
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
}

static bool on_ring(struct sl_wait_thread *r)
{
    (void)r;
    return true;
}

/* One holds, one waits; the permit comes back, and the one who waits is being
 * asked. If `denied`, somebody else has it by then. */
static void begin(struct client list[3], bool denied)
{
    rig_open(&rig, policy);
    sl_wait_thread_init(&room, sl_engine_queues(rig.engine), on_ring, NULL);
    registry.waits = false;
    come(&list[0]);
    come(&list[1]);
    CHECK(list[0].answers == 1 && list[0].ask.decision.allowed);
    CHECK_EQ(list[1].answers, 0);
    sl_wait_thread_serve(&room, rig.now); /* he was called when he joined */
    release(&list[0]);
    registry.waits = true;
    sl_wait_thread_serve(&room, rig.now);
    CHECK(registry.waiting != NULL && list[1].answers == 0);
    registry.waits = false;
    memset(&list[2], 0, sizeof(list[2]));
    if (!denied)
        return;
    sl_check_init(&list[2].ask, rig.engine, &station, &sl_alloc_libc);
    list[2].ask.done = on_answer;
    list[2].ask.ctx = &list[2];
    list[2].ask.no_wait = true; /* who does not wait overtakes */
    list[2].facts = list[1].facts;
    list[2].facts.wait = SL_NS_NONE;
    sl_check_begin(&list[2].ask, &list[2].facts, true);
    CHECK(list[2].answers == 1 && list[2].ask.decision.allowed);
}

static void end(struct client list[3], bool denied)
{
    CHECK_EQ(list[1].answers, 1);
    CHECK_EQ(list[1].ask.decision.allowed, !denied);
    CHECK_EQ(list[1].ask.decision.hold[0] != 0, !denied);
    CHECK_EQ(sl_queues_count(sl_engine_queues(rig.engine)), 0);
    sl_wait_thread_done(&room);
    for (int i = 0; i < 3; i++)
        if (list[i].answers > 0)
            sl_check_done(&list[i].ask);
    rig_close(&rig);
}

static void test_drain(bool denied)
{
    static struct client list[3];

    CASE(denied ? "whom a drain finds asked, and who is denied, has his answer"
                : "whom a drain finds asked, and who passes, has passed");
    begin(list, denied);
    sl_wait_thread_done(&room);
    CHECK_EQ(list[1].answers, 0);
    CHECK_EQ(sl_queues_count(sl_engine_queues(rig.engine)), 0);
    answer_lookup();
    end(list, denied);
}

static void test_gone(bool denied)
{
    static struct client list[3];

    CASE(denied ? "who goes while he is asked, and is denied, waits no more"
                : "who goes while he is asked, and passes, has passed");
    begin(list, denied);
    sl_check_cancel(&list[1].ask);
    CHECK_EQ(list[1].answers, 0);
    answer_lookup();
    end(list, denied);
}

static void test_late(void)
{
    static struct client list[3];

    CASE("whose time is over while he is asked has his answer all the same");
    begin(list, false);
    rig.now += 11 * SL_S;
    CHECK_EQ(sl_wait_thread_serve(&room, rig.now), SL_NS_NONE);
    CHECK_EQ(list[1].answers, 0);
    answer_lookup();
    end(list, false);
}

int main(void)
{
    registry.subjects.calls = &calls;
    for (int denied = 0; denied < 2; denied++) {
        test_drain(denied);
        test_gone(denied);
    }
    test_late();
    return CHECK_DONE();
}
