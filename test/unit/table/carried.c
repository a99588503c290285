/* carried.c -- what one key has used counts against another, too.
 *
 * A visitor has 5 in a window, a user 10; what the visitor used counts against
 * the user's. The table is compared with three numbers.
 */
#include "rig.h"

#define VISITOR 5
#define USER    10

struct world {
    struct sl_table table;
    struct sl_limit_binding limit; /* what the table knows: the strictest */
    struct sl_limit user;
    sl_ns period;
};

struct model {
    sl_ns window; /* its number */
    uint64_t visitor, user;
};

static uint64_t random_state = UINT64_C(0x9e3779b97f4a7c15);

static uint64_t pick(uint64_t below)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state % below;
}

static void open_world(struct world *w, enum sl_kind kind, const char *visitor,
                       const char *user, sl_ns period)
{
    open_heap(&w->table, MIB, SL_FULL_ALLOW);
    w->limit = limit_of("session", kind, visitor, 0);
    w->user = rate_of(kind, user);
    w->period = period;
    know(&w->table, &w->limit);
}

static enum sl_set_result as_visitor(struct world *w, uint64_t cost, sl_ns now,
                                     struct sl_answer *ret)
{
    struct sl_part part = part_of(&w->limit, "visitor", cost);
    enum sl_set_result v = sl_table_decide(&w->table, &part, 1, now, true);

    *ret = part.answer;
    return v;
}

static enum sl_set_result as_user(struct world *w, enum sl_take_op act,
                                  uint64_t cost, sl_ns now,
                                  struct sl_answer *ret)
{
    struct sl_part parts[2] = {part_of(&w->limit, "visitor", 0),
                               part_of(&w->limit, "user", cost)};
    enum sl_set_result v;

    parts[0].carried = true;
    for (unsigned i = 0; i < 2; i++) {
        parts[i].op = act;
        parts[i].limit = &w->user;
    }
    v = sl_table_decide(&w->table, parts, 2, now, true);
    *ret = parts[1].answer;
    return v;
}

static void move(struct model *m, const struct world *w, sl_ns now)
{
    if (now / w->period == m->window)
        return;
    *m = (struct model){.window = now / w->period};
}

static uint64_t left_of(uint64_t limit, uint64_t used)
{
    return used < limit ? limit - used : 0;
}

static void check_user(const struct world *w, struct model *m,
                       const struct sl_answer *a, uint64_t cost, sl_ns now,
                       bool spend)
{
    uint64_t used = m->user + m->visitor;
    bool fits = used + cost <= USER || cost == 0;

    CHECK_EQ(a->outcome, cost > USER ? SL_NEVER : fits ? SL_ALLOW : SL_DENY);
    if (a->outcome == SL_DENY)
        CHECK_EQ(a->retry_in, (m->window + 1) * w->period - now);
    if (a->outcome == SL_ALLOW && spend)
        m->user += cost;
    CHECK_EQ(a->remaining, left_of(USER, m->user + m->visitor));
    CHECK_EQ(a->capacity, USER);
    CHECK_EQ(a->reset_in, (m->window + 1) * w->period - now);
}

static void step(struct world *w, struct model *m, sl_ns now)
{
    struct sl_answer a;
    uint64_t cost = pick(4);
    enum sl_take_op act = pick(4) ? SL_TAKE_OP_TAKE : SL_TAKE_OP_PEEK;

    move(m, w, now);
    if (pick(2)) {
        (void)as_visitor(w, cost, now, &a);
        if (a.outcome == SL_ALLOW)
            m->visitor += cost;
        CHECK(m->visitor <= VISITOR);
        CHECK_EQ(a.remaining, VISITOR - m->visitor);
        return;
    }
    if (pick(16) == 0)
        cost = USER + 1;
    (void)as_user(w, act, cost, now, &a);
    check_user(w, m, &a, cost, now, act == SL_TAKE_OP_TAKE);
}

static void test_histories(enum sl_kind kind, const char *visitor,
                           const char *user, sl_ns period)
{
    struct world w;
    struct model m = {.window = 0};
    sl_ns now = period * 1000;

    CASE(user);
    open_world(&w, kind, visitor, user, period);
    for (int i = 0; i < 20000; i++) {
        now += (sl_ns)pick((uint64_t)period / 8);
        step(&w, &m, now);
    }
    sl_table_done(&w.table);
}

TEST(set)
{
    struct world w;
    struct sl_part parts[3];
    struct sl_answer a;

    CASE("beside other limits, all or none");
    open_world(&w, SL_FIXED, "5/hour", "10/hour", 3600 * SL_S);
    CHECK_EQ(as_visitor(&w, 5, NOW, &a), SL_SET_ALLOW);
    parts[0] = part_of(&w.limit, "address", 3);
    parts[1] = part_of(&w.limit, "visitor", 0);
    parts[2] = part_of(&w.limit, "user", 5);
    parts[1].carried = true;
    parts[1].limit = parts[2].limit = &w.user;
    CHECK_EQ(sl_table_decide(&w.table, parts, 3, NOW, true), SL_SET_ALLOW);
    CHECK_EQ(parts[0].answer.remaining, 2);
    CHECK_EQ(parts[2].answer.remaining, 0);
    parts[0].cost = parts[2].cost = 1;
    CHECK_EQ(sl_table_decide(&w.table, parts, 3, NOW, true), SL_SET_DENY);
    CHECK_EQ(parts[0].answer.remaining, 2);
    CHECK_EQ(parts[0].answer.outcome, SL_ALLOW);
    CHECK_EQ(parts[2].answer.outcome, SL_DENY);
    CASE("if another refuses, it shows what is left of both");
    parts[0].cost = 4;
    parts[2].key = SL_STR("another");
    CHECK_EQ(sl_table_decide(&w.table, parts, 3, NOW, true), SL_SET_DENY);
    CHECK_EQ(parts[2].answer.outcome, SL_ALLOW);
    CHECK_EQ(parts[2].answer.remaining, 5);
    CASE("a key is not carried to itself");
    parts[1].key = parts[2].key = SL_STR("alone");
    parts[0].cost = 0;
    parts[2].cost = 6;
    CHECK_EQ(sl_table_decide(&w.table, parts, 3, NOW, true), SL_SET_ALLOW);
    CHECK_EQ(parts[2].answer.remaining, 4);
    sl_table_done(&w.table);
}

/* Keys whose first bucket is the same: a table of few buckets. */
TEST(neighbours)
{
    struct world w;
    char visitor[16], user[16];
    unsigned allowed = 0;

    CASE("new keys in one bucket");
    open_world(&w, SL_FIXED, "5/hour", "10/hour", 3600 * SL_S);
    for (int i = 0; i < 20000; i++) {
        struct sl_part parts[2];

        snprintf(visitor, sizeof(visitor), "v%d", i);
        snprintf(user, sizeof(user), "u%d", i);
        parts[0] = part_of(&w.limit, visitor, 0);
        parts[1] = part_of(&w.limit, user, 1);
        parts[0].carried = true;
        allowed +=
            sl_table_decide(&w.table, parts, 2, NOW, true) == SL_SET_ALLOW;
    }
    CHECK_EQ(allowed, 20000);
    sl_table_done(&w.table);
}

/* ---- another thread comes in between ---- */

static struct world *between;
static enum sl_step at_step;

static void on_step(enum sl_step step)
{
    struct sl_answer a;

    if (step != at_step)
        return;
    sl_step_hook = NULL;
    (void)as_visitor(between, VISITOR - 1, NOW, &a);
}

/* The user has 5 of 10 and asks for 1 more, while the visitor's use goes from
 * `before` to 4 or 5 at a step of that. */
static enum sl_set_result interrupt(enum sl_step step, uint64_t before,
                                    uint64_t *left)
{
    struct world w;
    struct sl_answer a;
    enum sl_set_result v;

    open_world(&w, SL_FIXED, "5/hour", "10/hour", 3600 * SL_S);
    (void)as_user(&w, SL_TAKE_OP_TAKE, 5, NOW, &a);
    (void)as_visitor(&w, before, NOW, &a);
    between = &w;
    at_step = step;
    sl_step_hook = on_step;
    v = as_user(&w, SL_TAKE_OP_TAKE, before == 0 ? 2 : 1, NOW, &a);
    CHECK(!sl_step_hook); /* it was met */
    *left = a.remaining;
    sl_table_done(&w.table);
    return v;
}

TEST(between)
{
    uint64_t left;

    CASE("the visitor takes after both were judged");
    CHECK_EQ(interrupt(SL_STEP_LOCK, 1, &left), SL_SET_DENY);
    CHECK_EQ(left, 0);
    CASE("and comes for the first time");
    CHECK_EQ(interrupt(SL_STEP_LOCK, 0, &left), SL_SET_DENY);
    CHECK_EQ(left, 1);
    CASE("when the user's key is locked");
    CHECK_EQ(interrupt(SL_STEP_LOCKED, 1, &left), SL_SET_DENY);
    CHECK_EQ(interrupt(SL_STEP_LOCKED, 0, &left), SL_SET_DENY);
    CASE("when both are locked: the other thread undoes it");
    CHECK_EQ(interrupt(SL_STEP_COMMIT, 1, &left), SL_SET_DENY);
    CASE("or comes for the first time, after us");
    CHECK_EQ(interrupt(SL_STEP_COMMIT, 0, &left), SL_SET_ALLOW);
    CHECK_EQ(left, 3);
}

int main(void)
{
    test_histories(SL_FIXED, "5/hour", "10/hour", 3600 * SL_S);
    test_histories(SL_QUOTA, "5/day", "10/day", 86400 * SL_S);
    RUN_TESTS();
    return CHECK_DONE();
}
