/* quota_leases.c -- quota leases. */
#include <inttypes.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "registry/registry_int.h"
#include "registry/usage_db.h"
#include "wire/json.h"

/* ---- rows ---- */

struct row {
    uint64_t base, spent, leased;
};

/* Returns 1, 0 without a row (*ret is zeros), or an error. */
static int find_row(struct sl_database *db,
                    const struct sl_usage_lease_claim *c, struct row *ret)
{
    *ret = (struct row){.base = 0};
    return sl_query_one(db, SL_QUERY_LEASE_OWN, "tttnt ccc", c->scope, c->id,
                        c->limit, c->start, c->node, &ret->base, &ret->spent,
                        &ret->leased);
}

/* Removes `units` of the `leased` ones; `spent` of them were used. (1) (4) */
static int reduce(struct sl_database *db, const struct sl_usage_lease_claim *c,
                  uint64_t leased, uint64_t units, uint64_t spent)
{
    int err = 0;

    if (units > 0)
        err = sl_query_run(db, SL_QUERY_LEASE_LESS, "tttnc", c->scope, c->id,
                           c->limit, c->start, units);
    if (err)
        return err;
    if (units < leased)
        return sl_query_run(db, SL_QUERY_SPEND_LEASE, "tttntcc", c->scope,
                            c->id, c->limit, c->start, c->node, spent, units);
    return sl_query_run(db, SL_QUERY_DROP_LEASE, "tttnt", c->scope, c->id,
                        c->limit, c->start, c->node);
}

/* Removes up to `most` units from the lease of the claim, if there is one. */
static int reduce_row(struct sl_database *db,
                      const struct sl_usage_lease_claim *c, uint64_t most,
                      uint64_t spent)
{
    struct row row;
    int found = find_row(db, c, &row);

    return found == 1 ? reduce(db, c, row.leased,
                               most < row.leased ? most : row.leased, spent)
                      : found;
}

/* ---- claims ---- */

/* Reads the state when nothing was granted. */
static int look(struct sl_database *db, struct sl_usage_lease_claim *c)
{
    uint64_t overage, credited, threshold;
    struct row row;
    int found;

    c->granted = c->used = c->leased = 0;
    found = sl_query_one(db, SL_QUERY_COUNTER, "tttn ccccc", c->scope, c->id,
                         c->limit, c->start, &c->used, &overage, &credited,
                         &threshold, &c->leased);
    if (found >= 0)
        found = find_row(db, c, &row);
    if (found < 0)
        return found;
    c->found = found;
    c->base = found ? row.base : c->ceiling;
    c->spent = row.spent;
    c->leased_here = row.leased;
    return 0;
}

/* Heartbeat, unless another node has the name. (5) */
static int heartbeat(struct sl_database *db, struct sl_usage_lease_claim *c)
{
    int found = sl_query_one(db, SL_QUERY_SEEN_NODE, "tnt", c->node, c->at,
                             sl_str_c(db->word));

    c->lost = found == 0;
    return found < 0 ? found : 0;
}

static int put_row(struct sl_database *db, struct sl_usage_lease_claim *c)
{
    uint64_t granted = c->granted;
    int found =
        sl_query_one(db, SL_QUERY_PUT_LEASE, "tttntccn ccc", c->scope, c->id,
                     c->limit, c->start, c->node, c->ceiling, granted, c->at,
                     &c->base, &c->spent, &c->leased_here);
    int err;

    if (found < 0)
        return found;
    c->found = c->found || found == 1;
    if (c->leased_here != granted)
        return 0;
    /* The first lease of a node counts as a heartbeat. If the node has lost its
     * name, it gets nothing. */
    err = heartbeat(db, c);
    if (err || !c->lost)
        return err;
    c->granted = 0;
    return reduce_row(db, c, granted, 0);
}

static uint64_t need_of(const struct sl_usage_lease_claim *c)
{
    uint64_t need = c->need < c->cap ? c->need : c->cap;

    return need > c->least ? need : c->least;
}

/* The node was released without knowing, and counts on units that others have
 * now. With a row it would go on using them, so the row is removed. */
static int take_back(struct sl_database *db, struct sl_usage_lease_claim *c)
{
    int err = reduce(db, c, c->granted, c->granted, 0);

    return err ? err : look(db, c);
}

static int want(struct sl_database *db, struct sl_usage_lease_claim *c)
{
    int found, err;

    if (c->least > c->cap || c->cap > (uint64_t)SL_USAGE_MOST)
        return look(db, c);
    found = sl_query_one(db, SL_QUERY_LEASE, "tttnncccc ccc", c->scope, c->id,
                         c->limit, c->start, c->at,
                         c->want < c->cap ? c->want : c->cap, c->least, c->cap,
                         need_of(c), &c->used, &c->leased, &c->granted);
    if (found < 0)
        return found;
    err = found ? put_row(db, c) : look(db, c);
    if (err || !c->has_units || c->granted == 0 || c->leased_here > c->granted)
        return err;
    return take_back(db, c);
}

int sl_usage_db_claim(struct sl_database *db, struct sl_usage_lease_claim *c)
{
    int err = 0;

    c->lost = false;
    if (c->scope.len == 0 || c->heartbeat)
        err = heartbeat(db, c);
    if (err || c->lost || c->scope.len == 0)
        return err;
    if (c->give_back > 0)
        return reduce_row(db, c, c->give_back, 0);
    return c->want > 0 ? want(db, c) : look(db, c);
}

/* ---- usage ---- */

static struct sl_usage_lease_claim claim_of(const struct sl_usage_entry *u)
{
    return (struct sl_usage_lease_claim){.node = u->node,
                                         .scope = u->scope,
                                         .id = u->id,
                                         .limit = u->limit,
                                         .start = u->start};
}

int sl_usage_db_spend(struct sl_database *db, const struct sl_usage_entry *u,
                      uint64_t amount)
{
    struct sl_usage_lease_claim c = claim_of(u);

    return reduce_row(db, &c, amount, amount);
}

/* ---- operators ---- */

int sl_usage_db_leases_json(struct sl_database *db, struct sl_str own,
                            unsigned most, struct sl_buf *out, bool *ret_cut)
{
    const enum sl_query q = SL_QUERY_LEASES;
    struct sl_writer w = {.out = out};
    struct sl_str node, scope, id, limit;
    uint64_t start, leased, spent, since, seen;
    size_t before = out->len;
    int found;

    sl_query_bind(db, q, "n", (int64_t)most + 1);
    for (unsigned i = 0;
         (found = sl_query_next(db, q, NULL, "ttttccccc", &node, &scope, &id,
                                &limit, &start, &leased, &spent, &since,
                                &seen)) == 1 &&
         i < most && !w.err;
         i++) {
        before = out->len;
        sl_json_open(&w, '{');
        sl_json_member_str(&w, "node", node);
        sl_json_member_str(&w, "scope", scope);
        sl_json_member_str(&w, "id", id);
        sl_json_member_str(&w, "limit", limit);
        sl_writer_addf(&w,
                       ",\"period_start_ms\":%" PRIu64 ",\"leased\":%" PRIu64
                       ",\"spent\":%" PRIu64 ",\"since_ms\":%" PRIu64
                       ",\"seen_ms\":%" PRIu64 ",\"here\":%s}",
                       start / SL_MS, leased, spent, since / SL_MS,
                       seen / SL_MS, sl_str_eq(node, own) ? "true" : "false");
    }
    sl_query_reset(db, q);
    if (w.err == SLUICE_EFULL)
        out->len = before;
    else if (w.err || found < 0)
        return w.err ? w.err : found;
    *ret_cut = w.err || found == 1;
    return 0;
}

int sl_usage_db_release(struct sl_database *db, struct sl_str node, sl_ns since,
                        bool *ret_alive, unsigned *ret, uint64_t *ret_units)
{
    static const enum sl_query steps[] = {
        SL_QUERY_RELEASE_ALL,
        SL_QUERY_DROP_OWED, /* its table will not come back either */
        SL_QUERY_DROP_NODE};
    int found = sl_query_one(db, SL_QUERY_NODE_SEEN, "tn", node, since);
    int err = 0;
    uint64_t leased;

    *ret_alive = found == 1;
    *ret = 0;
    *ret_units = 0;
    if (found)
        return found < 0 ? found : 0;
    for (size_t i = 0; i < SL_LEN(steps) && !err; i++)
        err = sl_query_run(db, steps[i], "t", node);
    if (err)
        return err;
    sl_query_bind(db, SL_QUERY_DROP_LEASES, "t", node);
    while ((found = sl_query_next(db, SL_QUERY_DROP_LEASES, NULL, "c",
                                  &leased)) == 1) {
        ++*ret;
        *ret_units += leased;
    }
    sl_query_reset(db, SL_QUERY_DROP_LEASES);
    return found;
}

/* ---- a node that restarts: its name and its leases.
 *
 * The name is taken first: from then on no operator releases its units. Its
 * rows are then processed a few at a time, each time with the slots of their
 * subjects locked, so that other writers wait for a few rows only. Each portion
 * is also a heartbeat.
 */

/* Bytes of the rows of one node. */
#define ROWS_MOST ((size_t)64 << 20)
#define PORTION   64 /* rows in a transaction */

/* Nodes without leases are deleted after this time. */
#define NODE_KEPT (30 * SL_DAY)

/* Takes the name. *ret_seen: when its node was last seen; unchanged if never.
 */
static int enter(struct sl_database *db, struct sl_str node, sl_ns now,
                 sl_ns *ret_seen)
{
    int err = sl_query_run(db, SL_QUERY_BEGIN, "");

    if (!err)
        err = sl_query_one(db, SL_QUERY_NODE_LAST, "t n", node, ret_seen);
    if (err >= 0)
        err = sl_query_run(db, SL_QUERY_TRIM_NODES, "n",
                           now > NODE_KEPT ? now - NODE_KEPT : (sl_ns)0);
    if (!err)
        err = sl_query_run(db, SL_QUERY_ENTER_NODE, "tnt", node, now,
                           sl_str_c(db->word));
    if (!err)
        err = sl_query_run(db, SL_QUERY_COMMIT, "");
    if (err)
        db->driver->rollback(db);
    return err;
}

/* ---- its rows ---- */

struct found {
    struct sl_usage_lease_row row;
    struct found *next;
};

static int load_rows(struct sl_database *db, struct sl_str node,
                     struct sl_arena *arena, struct found **ret)
{
    const enum sl_query q = SL_QUERY_OWN_LEASES;
    struct found **end = ret, *last = NULL;
    int found = 1;

    sl_query_bind(db, q, "t", node);
    while (found == 1) {
        struct found *f = sl_arena_take(arena, sizeof(*f));

        if (!f) {
            found = SLUICE_ENOMEM;
            break;
        }
        memset(f, 0, sizeof(*f));
        found = sl_query_next(db, q, arena, "tttnccc", &f->row.scope,
                              &f->row.id, &f->row.limit, &f->row.start,
                              &f->row.base, &f->row.spent, &f->row.leased);
        if (found != 1)
            break;
        f->row.older = last && sl_str_eq(last->row.limit, f->row.limit) &&
                       sl_str_eq(last->row.id, f->row.id) &&
                       sl_str_eq(last->row.scope, f->row.scope);
        *end = last = f;
        end = &f->next;
    }
    sl_query_reset(db, q);
    return found;
}

static int resume_row(struct sl_database *db, struct sl_str node,
                      const struct sl_usage_lease_row *row, sl_lease_f *f,
                      void *ctx)
{
    bool held = false;
    sl_ns at = row->start;
    uint64_t left = f(ctx, row, &held, &at);
    unsigned failed = 0;
    struct sl_usage_entry u = {.scope = row->scope,
                               .id = row->id,
                               .limit = row->limit,
                               .node = node,
                               .start = row->start,
                               .at = at,
                               .cap = UINT64_MAX};
    struct sl_usage_lease_claim c = claim_of(&u);
    int err;

    c.give_back = left < row->leased ? left : row->leased;
    u.amount = (int64_t)(row->leased - c.give_back);
    if (u.amount == 0)
        c.give_back = (uint64_t)SL_USAGE_MOST; /* also a row without units */
    err = c.give_back > 0 ? sl_usage_db_claim(db, &c) : 0;
    if (err || held || u.amount == 0)
        return err;
    return sl_usage_db_record(db, &u, 1, &failed);
}

/* A node that reads its leases again. */
struct resume {
    struct sl_database *db;
    struct sl_str node;
    sl_lease_f *f;
    void *ctx;
    struct sl_clock clock;
    sl_ns now, began; /* of the caller; monotonic */
};

/* At the caller's time plus the whole seconds passed since: the caller's clock
 * may be virtual. */
static int say_alive(const struct resume *r)
{
    sl_ns passed = r->clock.mono(r->clock.ctx) - r->began;
    struct sl_usage_lease_claim c = {.node = r->node,
                                     .at = r->now + passed - passed % SL_S};
    int err = sl_usage_db_claim(r->db, &c);

    if (err || !c.lost)
        return err;
    return sl_diag_error(
        &r->db->diag, SLUICE_ESTORE,
        "another daemon was started with the node name of this daemon, %.*s; "
        "it runs on a copy of the state file: stop it and remove the copy",
        SL_STR_ARG(r->node));
}

/* Processes one portion. */
static int resume_some(const struct resume *r, struct found **rows)
{
    struct sl_database *db = r->db;
    uint64_t slots[SL_SHARE_SLOTS / 64] = {0};
    struct found *i = *rows;
    int err = sl_query_run(db, SL_QUERY_BEGIN, "");

    for (unsigned n = 0; i && n < PORTION; n++, i = i->next)
        sl_slot_take(slots, i->row.scope, i->row.id);
    if (!err && db->driver->lock)
        err = db->driver->lock(db, slots);
    while (*rows != i && !err) {
        err = resume_row(db, r->node, &(*rows)->row, r->f, r->ctx);
        *rows = (*rows)->next;
    }
    if (!err)
        err = say_alive(r);
    if (!err)
        err = sl_query_run(db, SL_QUERY_COMMIT, "");
    if (err)
        db->driver->rollback(db);
    return err;
}

int sl_usage_db_resume(struct sl_database *db, struct sl_str node, sl_ns now,
                       sl_lease_f *f, void *ctx, const struct sl_alloc *alloc)
{
    struct resume r = {.db = db, .node = node, .f = f, .ctx = ctx, .now = now};
    struct found *first = NULL;
    struct sl_arena arena;
    sl_ns seen = 0;
    int err;

    sl_clock_init_real(&r.clock);
    r.began = r.clock.mono(r.clock.ctx);
    sl_arena_init(&arena, ROWS_MOST, alloc);
    err = enter(db, node, now, &seen);
    if (!err)
        err = load_rows(db, node, &arena, &first);
    for (struct found *i = first; i; i = i->next)
        i->row.seen = seen;
    while (first && !err)
        err = resume_some(&r, &first);
    sl_arena_done(&arena);
    return err;
}
