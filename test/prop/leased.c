/* leased.c -- nodes that lease a quota or a level from one usage database.
 * Requests, answers, writes, resets, kills, and reports that reduce a level
 * happen in random order.
 *
 * The nodes are stores as the daemon has them, each over a table of its own.
 * The database is a few numbers. Each request to it and each answer waits in a
 * queue until a random step picks it, so claims overtake writes, and answers
 * each other.
 *
 * Checked after every step:
 *   (1) a grant does not make used + leased more than the cap;
 *   (2) units that a node has taken, and the database has not recorded, are
 *       leased to the node, or were freed when it was gone;
 *   (3) when all requests are done, the whole cap can be taken; it is exceeded
 *       by no more than the overshoot: units that nodes had taken, and not
 *       recorded, when theirs were freed;
 *   (4) a node that is alone is denied only units that it cannot have;
 *   (5) the cell of a level is emptied when nothing is leased. */
#include <stdlib.h>

#include "leased_db.h"
#include "leased_under.h"
#include "net/loop.h"

#define TAKES 24
#define JOBS  512
#define DAY_0 (20000 * SL_DAY)

enum job_kind { CLAIM, LIFE, SLIP, RESET };

struct job {
    enum job_kind kind;
    unsigned node;
    struct sl_quota_ask *ask;
    uint64_t amount;
    sl_ns sent;
    bool done; /* by the database; the answer is under way */
};

struct world;

struct node {
    struct sl_quota_lessor lessor; /* first */
    struct world *w;
    struct under under;
    struct sl_store *store;
    struct sl_limit_binding stored;
    uint64_t slip; /* taken, and not sent to the database yet */
    bool stopped;  /* for a while */
    struct sl_quota_watch watch;
};

struct attempt {
    struct world *w;
    unsigned node;
    bool busy;
    struct sl_take take;
    struct sl_part part;
};

struct world {
    struct usage_db db;
    uint64_t taken;
    uint64_t unrecorded; /* when units were freed; overshoot is not more */
    struct node nodes[NODES];
    struct attempt tries[TAKES];
    struct job jobs[JOBS];
    unsigned job_count;
    struct sl_clock clock;
    struct sl_loop *loop;
    sl_ns mono;
    struct sl_limit quota; /* or level */
    bool alone; /* one node, and nothing is lost, reset or given back */
    bool resets, dying;
    unsigned refused, undecided;
    unsigned emptied; /* cells */
};

/* ---- the queue ---- */

static void put_job(struct world *w, struct job job)
{
    if (w->job_count == JOBS)
        abort();
    w->jobs[w->job_count++] = job;
}

static struct job drop_job(struct world *w, unsigned i)
{
    struct job job = w->jobs[i];

    memmove(&w->jobs[i], &w->jobs[i + 1],
            (--w->job_count - i) * sizeof(w->jobs[0]));
    return job;
}

static void ask(struct sl_quota_lessor *lessor, struct sl_quota_ask *ask)
{
    struct node *n = (struct node *)lessor;

    put_job(n->w, (struct job){.kind = CLAIM,
                               .node = (unsigned)(n - n->w->nodes),
                               .ask = ask,
                               .sent = n->w->mono});
}

/* The first claim, or the first of the rest; false: there is none. */
static bool execute(struct world *w, bool claims)
{
    for (unsigned i = 0; i < w->job_count; i++) {
        struct job *job = &w->jobs[i];

        if (job->done || (job->kind <= LIFE) != claims)
            continue;
        if (job->kind == CLAIM)
            claim(&w->db, job->node, job->ask, job->sent);
        if (job->kind == LIFE)
            see(&w->db, job->node, job->sent);
        if (job->kind <= LIFE)
            return job->done = true;
        if (job->kind == SLIP)
            record(&w->db, job->node, job->amount);
        else
            w->db.used = 0;
        drop_job(w, i);
        return true;
    }
    return false;
}

/* One of the answers arrives, or is lost. */
static bool land(struct world *w, bool lost)
{
    unsigned start = (unsigned)any(w->job_count + 1);

    for (unsigned k = 0; k < w->job_count; k++) {
        unsigned i = (start + k) % w->job_count;
        struct job job = w->jobs[i];

        if (!job.done || w->nodes[job.node].stopped)
            continue;
        drop_job(w, i);
        if (job.kind == LIFE) {
            sl_quota_leases_seen(w->nodes[job.node].store, job.sent);
            return true;
        }
        job.ask->err = lost ? SLUICE_ESTORE : 0;
        job.ask->uncertain = lost;
        job.ask->done(job.ask);
        return true;
    }
    return false;
}

static void settle(struct world *w)
{
    bool more = true;

    while (more) {
        more = execute(w, true);
        more |= execute(w, false);
        more |= land(w, false);
    }
}

/* ---- nodes ---- */

static bool name(struct sl_quota_lessor *lessor, const struct sl_part *part,
                 struct sl_str *scope, struct sl_buf *id)
{
    (void)lessor;
    *scope = SL_STR("org");
    return !sl_buf_add(id, part->key);
}

static void on_looked(struct sl_take *take)
{
    (void)take;
}

/* Acts on the cell of a node. Returns its count. */
static uint64_t at_cell(struct world *w, unsigned i, enum sl_take_op op)
{
    struct sl_limit open = w->quota;
    struct sl_part part = {
        .binding = &w->nodes[i].stored, .limit = &open, .key = SL_STR("acme")};
    struct sl_take take = {.op = op,
                           .parts = &part,
                           .count = 1,
                           .now = DAY_0 + w->mono,
                           .done = on_looked};

    open.count = open.capacity = SL_AMOUNT_MAX;
    sl_store_take(w->nodes[i].under.table, &take);
    return open.capacity - part.answer.remaining;
}

static void empty(struct sl_quota_lessor *lessor,
                  const struct sl_quota_ask *who)
{
    struct node *n = (struct node *)lessor;

    (void)who;
    CHECK_EQ(n->w->quota.kind, SL_LEVEL);
    CHECK_EQ(at_cell(n->w, (unsigned)(n - n->w->nodes), SL_TAKE_OP_RESET), 0);
    n->w->emptied++;
}

static sl_ns read_steady(void *ctx)
{
    return ((struct world *)ctx)->mono;
}

static void open_node(struct world *w, unsigned i)
{
    struct node *n = &w->nodes[i];
    struct sl_quota_leases_options options = {.store = &n->under.store,
                                              .lessor = &n->lessor,
                                              .patience = SL_S,
                                              .mono = read_steady,
                                              .ctx = w};

    if (sl_quota_leases_open(&options, &n->store) ||
        sl_store_bind(n->store, &n->stored, 1, NULL))
        abort();
    n->slip = 0;
}

static sl_ns read_wall(void *ctx)
{
    return DAY_0 + ((struct world *)ctx)->mono;
}

static void make_node(struct world *w, unsigned i)
{
    struct node *n = &w->nodes[i];

    n->w = w;
    n->stored =
        (struct sl_limit_binding){.name = "units", .strictest = w->quota};
    n->lessor =
        (struct sl_quota_lessor){.ask = ask, .name = name, .empty = empty};
    if (sl_memory_open(&(struct sl_memory_options){.size = 1 << 20,
                                                   .now = read_wall,
                                                   .now_ctx = w},
                       &n->under.table, NULL))
        abort();
    n->under.store.calls = &under_calls;
    n->under.store.secret = n->under.table->secret;
    open_node(w, i);
}

static void on_done(struct sl_take *take)
{
    struct attempt *t = take->ctx;
    struct world *w = t->w;

    t->busy = false;
    if (take->op == SL_TAKE_OP_RESET) {
        CHECK_EQ(take->err, 0);
        put_job(w, (struct job){.kind = RESET, .node = t->node});
    } else if (take->op == SL_TAKE_OP_REFUND) {
        CHECK_EQ(take->err, 0);
    } else if (take->err) {
        w->undecided++;
    } else if (take->allowed) {
        w->taken += t->part.cost;
        w->nodes[t->node].slip += t->part.cost;
    } else {
        w->refused++;
        if (w->alone && !w->dying) /* (4) */
            CHECK(w->taken + t->part.cost > w->db.cap);
    }
}

static void act(struct world *w, unsigned node, enum sl_take_op op,
                uint64_t cost)
{
    struct attempt *t = w->tries;

    while (t < w->tries + TAKES && t->busy)
        t++;
    if (t == w->tries + TAKES)
        return;
    *t = (struct attempt){.w = w, .node = node, .busy = true};
    t->part = (struct sl_part){.binding = &w->nodes[node].stored,
                               .limit = &w->quota,
                               .key = SL_STR("acme"),
                               .cost = cost,
                               .view = (const void *)w};
    t->take = (struct sl_take){.op = op,
                               .parts = &t->part,
                               .count = 1,
                               .now = DAY_0 + w->mono,
                               .loop = w->loop,
                               .done = on_done,
                               .ctx = t};
    sl_store_take(w->nodes[node].store, &t->take);
}

static void put_down(struct world *w, unsigned i)
{
    uint64_t amount = w->nodes[i].slip;

    w->nodes[i].slip = 0;
    if (amount > 0)
        put_job(w, (struct job){.kind = SLIP, .node = i, .amount = amount});
}

/* The node is killed and starts again with its table. */
static void die(struct world *w, unsigned i)
{
    w->dying = true;
    for (unsigned k = 0; k < w->job_count;) {
        struct job job = w->jobs[k];

        if (job.node != i || job.kind == RESET) {
            k++;
            continue;
        }
        drop_job(w, k);
        if (job.kind == CLAIM) {
            job.ask->err = SLUICE_ESTORE;
            job.ask->done(job.ask);
            k = 0;
        }
    }
    w->dying = false;
    sl_store_close(w->nodes[i].store);
    open_node(w, i);
    if (w->db.rows[i].there)
        recover(&w->db, i, at_cell(w, i, SL_TAKE_OP_PEEK));
}

static uint64_t unknown_of(const struct world *w, unsigned i)
{
    uint64_t unknown = w->nodes[i].slip;

    for (unsigned k = 0; k < w->job_count; k++)
        if (w->jobs[k].kind == SLIP && w->jobs[k].node == i)
            unknown += w->jobs[k].amount;
    return unknown;
}

static bool check(const struct world *w)
{
    uint64_t rows = 0;
    bool good = true;

    for (unsigned i = 0; i < NODES; i++) {
        good &= CHECK(unknown_of(w, i) <=
                      w->db.rows[i].leased + w->db.rows[i].freed); /* (2) */
        rows += w->db.rows[i].leased;
    }
    good &= CHECK(w->db.used + w->db.leased <= w->db.cap + w->db.overshoot);
    good &= CHECK(w->db.overshoot <= w->unrecorded);
    return CHECK_EQ(w->db.leased, rows) && good;
}

static void beat(struct world *w, unsigned i)
{
    sl_quota_leases_heartbeat(w->nodes[i].store, w->loop, DAY_0 + w->mono);
    put_job(w, (struct job){.kind = LIFE, .node = i, .sent = w->mono});
}

static void free_node(struct world *w, unsigned i)
{
    w->unrecorded += least_of(unknown_of(w, i), w->db.rows[i].leased);
    free_lease(&w->db, i);
}

/* The node looks for others that are gone. */
static void look_around(struct world *w, unsigned i)
{
    static const char *const names[NODES] = {"a", "b", "c"};
    struct sl_quota_watch *watch = &w->nodes[i].watch;

    sl_quota_watch_begin(watch, w->mono, w->mono);
    for (unsigned k = 0; k < NODES; k++)
        if (k != i && w->db.rows[k].leased > 0 &&
            sl_quota_watch_node(watch, sl_str_c(names[k]), w->db.seen[k]))
            free_node(w, k);
    sl_quota_watch_end(watch);
}

/* So much time that stopped nodes are gone for the others. */
static void pass_time(struct world *w)
{
    for (int tick = 0; tick < 10; tick++) {
        w->mono += 4 * SL_S;
        for (unsigned i = 0; i < NODES; i++) {
            if (w->nodes[i].stopped)
                continue;
            beat(w, i);
            while (execute(w, true))
                (void)land(w, false);
            look_around(w, i);
        }
    }
}

/* A report: things are gone. The database has recorded it; the node that was
 * told hears of it. */
static void reduce_level(struct world *w, unsigned i)
{
    uint64_t amount = any(w->db.used + 1);

    if (w->quota.kind != SL_LEVEL || amount == 0)
        return;
    w->db.used -= amount;
    act(w, i, SL_TAKE_OP_REFUND, amount);
}

/* Faults; none of them happens to a node that is alone. */
static void trouble(struct world *w, unsigned i)
{
    switch (any(11)) {
    case 10:
        pass_time(w);
        break;
    case 0:
    case 1:
        die(w, i);
        break;
    case 2:
        if (w->resets)
            act(w, i, SL_TAKE_OP_RESET, 0);
        break;
    case 3:
    case 4:
        w->nodes[i].stopped = true;
        break;
    case 5:
        w->mono += (sl_ns)any(12 * (uint64_t)SL_S);
        break;
    default:
        i = (unsigned)any(NODES);
        if (w->mono - w->db.seen[i] > SL_QUOTA_LEASE_ALIVE)
            free_node(w, i); /* by an operator */
    }
}

static void step(struct world *w)
{
    unsigned i = w->alone ? 0 : (unsigned)any(NODES);
    uint64_t what = any(w->alone ? 28 : 34);

    w->mono += (sl_ns)any(any(30) ? 5 * (uint64_t)SL_MS : SL_S);
    if (w->nodes[i].stopped)
        w->nodes[i].stopped = any(40) > 0;
    else if (what < 10)
        act(w, i, SL_TAKE_OP_TAKE, 1 + any(any(8) ? 7 : 1 + w->db.cap / 3));
    else if (what < 16)
        (void)execute(w, true);
    else if (what < 19)
        (void)execute(w, false);
    else if (what < 26)
        (void)land(w, !w->alone && any(12) == 0);
    else if (what < 28)
        put_down(w, i);
    else if (what < 30)
        beat(w, i);
    else if (what < 32)
        trouble(w, i);
    else
        reduce_level(w, i);
}

/* All requests are answered, and lost ones are sent again. */
static void rest(struct world *w)
{
    for (int i = 0; i < 6; i++) {
        for (unsigned n = 0; n < NODES; n++) {
            w->nodes[n].stopped = false;
            put_down(w, n);
            beat(w, n);
        }
        settle(w);
        w->mono += SL_S;
    }
    CHECK_EQ(w->db.leased, 0);
    for (unsigned n = 0; n < TAKES; n++)
        CHECK(!w->tries[n].busy);
}

static void use_up(struct world *w)
{
    unsigned refused;

    rest(w);
    w->taken = w->db.used;
    if (w->db.used > w->db.cap)
        return; /* by overshoot, as check() has found */
    do {
        refused = w->refused;
        act(w, (unsigned)any(NODES), SL_TAKE_OP_TAKE, 1);
        settle(w);
        w->mono += SL_S;
    } while (refused == w->refused || any(8));
    rest(w);
    w->undecided = 0;
    for (unsigned i = 0; i < w->db.cap; i++) {
        act(w, 0, SL_TAKE_OP_TAKE, 1);
        settle(w);
    }
    CHECK_EQ(w->undecided, 0);
    rest(w);
    CHECK_EQ(w->taken, w->db.cap); /* (3) */
    CHECK_EQ(w->db.used, w->db.cap);
    if (w->quota.kind == SL_LEVEL) /* (5) */
        CHECK(w->emptied > 0);
}

static void open_world(struct world *w)
{
    enum sl_kind kind = any(2) ? SL_QUOTA : SL_LEVEL;
    struct sl_rate rate;

    memset(w, 0, sizeof(*w));
    w->db.cap = 1 + any(any(2) ? 40 : 1500);
    w->alone = any(4) == 0;
    w->resets = !w->alone && any(2);
    w->mono = SL_HOUR;
    sl_clock_init_sources(&w->clock, read_steady, read_steady, w);
    if (sl_loop_open(&w->clock, &w->loop, NULL) ||
        sl_parse_rate(kind == SL_QUOTA ? SL_STR("1/month") : SL_STR("1"), &rate,
                      NULL))
        abort();
    rate.count = w->db.cap;
    if (sl_limit_init(&w->quota, kind, &rate, &(struct sl_limit_options){0},
                      NULL))
        abort();
    for (unsigned i = 0; i < NODES; i++) {
        w->db.skew[i] = (sl_ns)any(8 * (uint64_t)SL_S) - 4 * SL_S;
        make_node(w, i);
    }
}

static bool episode(uint64_t seed, uint64_t *steps)
{
    static struct world w;
    bool good = true;

    chance.state = seed;
    open_world(&w);
    for (unsigned i = 0; i < 1500 && good; i++) {
        step(&w);
        good = check(&w);
        if (!good)
            printf("# at step %u\n", i);
    }
    *steps += 50; /* they are short */
    if (!good)
        return false; /* takes are still under way: leave it as it is */
    w.alone = false;
    use_up(&w);
    for (unsigned i = 0; i < NODES; i++) {
        sl_store_close(w.nodes[i].store);
        sl_store_close(w.nodes[i].under.table);
    }
    sl_loop_close(w.loop);
    return true;
}

const struct property prop_leased = {
    .name = "leased",
    .steps = 20000,
    .cases = {{"nodes and their usage database, in any order", episode}},
};
