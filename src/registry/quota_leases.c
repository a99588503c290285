/* quota_leases.c -- grants units of quotas to nodes, in the usage database.
 *
 * Each node has a row for each quota that it leases: what it has spent and what
 * it may still spend. docs/internals/leases.md has the protocol. Numbers in
 * parentheses are the invariants of leases in usage_db.h.
 */
#include <inttypes.h>
#include <string.h>

#include "base/arena.h"
#include "base/arith.h"
#include "base/clock.h"
#include "registry/registry_int.h"
#include "registry/usage_db.h"
#include "wire/json.h"

/* ---- rows ---- */

struct row {
    uint64_t base, spent, leased, freed;
};

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Returns 1, 0 without a row (*ret is zeros), or an error. */
static int find_row(struct sl_database *db,
                    const struct sl_usage_lease_claim *c, struct row *ret)
{
    *ret = (struct row){.base = 0};
    return sl_query_one(db, SL_QUERY_LEASE_OWN, "tttnt cccc", c->scope, c->id,
                        c->limit, c->start, c->node, &ret->base, &ret->spent,
                        &ret->leased, &ret->freed);
}

/* Writes a row that had `leased` units. (1) (4) */
static int write_row(struct sl_database *db,
                     const struct sl_usage_lease_claim *c, uint64_t leased,
                     const struct row *row)
{
    int err = 0;

    if (row->leased < leased)
        err = sl_query_run(db, SL_QUERY_LEASE_LESS, "tttnc", c->scope, c->id,
                           c->limit, c->start, leased - row->leased);
    if (err)
        return err;
    if (row->leased > 0 || row->freed > 0)
        return sl_query_run(db, SL_QUERY_SET_LEASE, "tttntccc", c->scope, c->id,
                            c->limit, c->start, c->node, row->spent,
                            row->leased, row->freed);
    return sl_query_run(db, SL_QUERY_DROP_LEASE, "tttnt", c->scope, c->id,
                        c->limit, c->start, c->node);
}

/* Returns up to `units` of the lease of the claim, if there is one. */
static int give_back(struct sl_database *db,
                     const struct sl_usage_lease_claim *c, uint64_t units)
{
    struct row row;
    int found = find_row(db, c, &row);
    uint64_t leased = row.leased;

    row.leased -= smaller(units, leased);
    return found == 1 ? write_row(db, c, leased, &row) : found;
}

/* ---- claims ---- */

/* Reads the state when nothing was granted. A row without leased units is no
 * lease: they were freed. */
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
    c->found = row.leased > 0;
    c->no_row = found == 0;
    c->base = c->found ? row.base : c->ceiling;
    c->spent = c->found ? row.spent + row.freed : 0;
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

/* The node is back, and knows that `freed` units were freed. Those that it had
 * not used by then, as its count shows, are not its own any more. (6) */
static int settle_freed(struct sl_database *db, struct sl_usage_lease_claim *c,
                        uint64_t freed)
{
    struct row row = {c->base, c->spent, c->leased_here, freed};

    row.freed = smaller(freed, sl_sub_floor(c->ceiling, c->base + c->spent));
    c->spent += row.freed;
    return row.freed < freed ? write_row(db, c, row.leased, &row) : 0;
}

static int put_row(struct sl_database *db, struct sl_usage_lease_claim *c)
{
    uint64_t granted = c->granted, freed = 0;
    int found =
        sl_query_one(db, SL_QUERY_PUT_LEASE, "tttntccn cccc", c->scope, c->id,
                     c->limit, c->start, c->node, c->ceiling, granted, c->at,
                     &c->base, &c->spent, &c->leased_here, &freed);
    int err = 0;

    if (found < 0)
        return found;
    c->found = c->found || found == 1;
    if (freed > 0)
        err = settle_freed(db, c, freed);
    if (err || c->leased_here != granted)
        return err;
    /* The first lease of a node counts as a heartbeat. If the node has lost its
     * name, it gets nothing. */
    err = heartbeat(db, c);
    if (err || !c->lost)
        return err;
    c->granted = 0;
    return give_back(db, c, granted);
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
    int err = give_back(db, c, c->granted);

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

    c->lost = c->no_row = false;
    if (c->scope.len == 0 || c->heartbeat)
        err = heartbeat(db, c);
    if (err || c->lost || c->scope.len == 0)
        return err;
    if (c->give_back > 0)
        return give_back(db, c, c->give_back);
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

/* Units that were freed are older than leased ones: they are spent first. */
int sl_usage_db_spend(struct sl_database *db, const struct sl_usage_entry *u,
                      uint64_t amount)
{
    struct sl_usage_lease_claim c = claim_of(u);
    struct row row;
    int found = find_row(db, &c, &row);
    uint64_t over = smaller(amount, row.freed), leased = row.leased;

    if (found != 1)
        return found;
    row.spent += amount;
    row.freed -= over;
    row.leased -= smaller(amount - over, leased);
    db->overshoot += over;
    return write_row(db, &c, leased, &row);
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
    int found = sl_query_one(db, SL_QUERY_NODE_SEEN, "tn", node, since);
    uint64_t rows = 0;
    int err;

    *ret_alive = found == 1;
    *ret = 0;
    *ret_units = 0;
    if (found)
        return found < 0 ? found : 0;
    found =
        sl_query_one(db, SL_QUERY_LEASED_TO, "t cc", node, &rows, ret_units);
    *ret = (unsigned)rows;
    if (found < 0 || rows == 0)
        return found < 0 ? found : 0;
    err = sl_query_run(db, SL_QUERY_RELEASE_ALL, "t", node);
    return err ? err : sl_query_run(db, SL_QUERY_FREE_LEASES, "t", node);
}

int sl_usage_db_nodes(struct sl_database *db, struct sl_str own, unsigned most,
                      struct sl_buf *out)
{
    const enum sl_query q = SL_QUERY_OTHER_NODES;
    struct sl_usage_node node;
    struct sl_str name;
    int found, err = 0;

    memset(&node, 0, sizeof(node));
    sl_query_bind(db, q, "tn", own, (int64_t)most);
    while (!err &&
           (found = sl_query_next(db, q, NULL, "tn", &name, &node.seen)) == 1) {
        if (name.len > SL_NODE_NAME)
            continue;
        memset(node.name, 0, sizeof(node.name));
        memcpy(node.name, name.at, name.len);
        err = sl_buf_add(out, (struct sl_str){(char *)&node, sizeof(node)});
    }
    sl_query_reset(db, q);
    return err ? err : found;
}

/* ---- holds of a node that ended, or were extended, at another daemon ---- */

int sl_usage_db_ends(struct sl_database *db, struct sl_str node, unsigned most,
                     struct sl_buf *out)
{
    const enum sl_query q = SL_QUERY_ENDS;
    struct sl_str hold, scope, id, limit;
    struct sl_usage_end end;
    int found, err = 0;

    memset(&end, 0, sizeof(end));
    sl_query_bind(db, q, "tn", node, (int64_t)most);
    while (!err && (found = sl_query_next(
                        db, q, NULL, "ttttncnn", &hold, &scope, &id, &limit,
                        &end.start, &end.amount, &end.until, &end.end)) == 1) {
        if (!sl_usage_hold_read(hold, end.hold))
            continue;
        end.lens[0] = (uint32_t)scope.len;
        end.lens[1] = (uint32_t)id.len;
        end.lens[2] = (uint32_t)limit.len;
        err = sl_buf_add(out, (struct sl_str){(char *)&end, sizeof(end)});
        if (!err)
            err = sl_buf_add(out, scope);
        if (!err)
            err = sl_buf_add(out, id);
        if (!err)
            err = sl_buf_add(out, limit);
    }
    sl_query_reset(db, q);
    return err ? err : found;
}

bool sl_usage_ends_next(struct sl_str *ends, struct sl_usage_end *ret,
                        struct sl_str texts[3])
{
    if (ends->len < sizeof(*ret))
        return false;
    memcpy(ret, ends->at, sizeof(*ret));
    *ends = (struct sl_str){ends->at + sizeof(*ret), ends->len - sizeof(*ret)};
    for (int i = 0; i < 3; i++) {
        texts[i] = (struct sl_str){ends->at, ret->lens[i]};
        *ends =
            (struct sl_str){ends->at + ret->lens[i], ends->len - ret->lens[i]};
    }
    return true;
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

/* Nodes without leases, and what is owed to them, are deleted after this time.
 */
#define NODE_KEPT (30 * SL_DAY)

#define NODES_MOST 1024

/* A node that reads its leases again. */
struct resume {
    struct sl_database *db;
    struct sl_str node;
    sl_lease_f *f;
    void *ctx;
    struct sl_clock clock;
    sl_ns now, began; /* of the caller; monotonic */
    bool leaves;      /* the database is not shared any more */
};

/* ---- units that were held before the database was shared.
 *
 * They are in cells of this node, and no lease has them: other nodes could be
 * granted them, too. So they are leased, as units that are held later.
 */

struct held {
    struct sl_usage_lease_row row; /* `leased`: the units */
    struct held *next;
};

static int load_held(struct resume *r, struct sl_arena *arena,
                     struct held **ret)
{
    const enum sl_query q = SL_QUERY_HELD_ALONE;
    int found = 1;

    sl_query_bind(r->db, q, "n", r->now);
    while (found == 1) {
        struct held *h = sl_arena_take(arena, sizeof(*h));

        if (!h) {
            found = SLUICE_ENOMEM;
            break;
        }
        memset(h, 0, sizeof(*h));
        found =
            sl_query_next(r->db, q, arena, "tttnc", &h->row.scope, &h->row.id,
                          &h->row.limit, &h->row.start, &h->row.leased);
        if (found != 1)
            break;
        h->row.held = true;
        h->next = *ret;
        *ret = h;
    }
    sl_query_reset(r->db, q);
    return found;
}

/* The count of the cell is what would be taken of a lease without end. */
static int adopt_one(struct resume *r, const struct held *h)
{
    const struct sl_usage_lease_row *row = &h->row;
    struct sl_usage_lease_row all = *row;
    uint64_t held = 0;
    sl_ns at = row->start;
    uint64_t count, units;
    int err;

    all.leased = (uint64_t)SL_USAGE_MOST;
    count = all.leased - r->f(r->ctx, &all, &held, &at);
    units = smaller(row->leased, count);
    if (units == 0)
        return 0; /* the table is another one, or the limit is not leased */
    err = sl_query_run(r->db, SL_QUERY_LEASE_HELD, "tttnnc", row->scope,
                       row->id, row->limit, row->start, r->now, units);
    if (!err)
        err = sl_query_run(r->db, SL_QUERY_PUT_HELD, "tttntccn", row->scope,
                           row->id, row->limit, row->start, r->node,
                           count - units, units, r->now);
    if (!err)
        err = sl_query_run(r->db, SL_QUERY_OWN_HELD, "tttnt", row->scope,
                           row->id, row->limit, row->start, r->node);
    return err;
}

static int adopt_held(struct resume *r, struct sl_arena *arena)
{
    uint64_t slots[SL_SHARE_SLOTS / 64] = {0};
    struct held *first = NULL;
    int err = load_held(r, arena, &first);

    for (struct held *h = first; h; h = h->next)
        sl_slot_take(slots, h->row.scope, h->row.id);
    if (!err && first && r->db->driver->lock)
        err = r->db->driver->lock(r->db, slots);
    for (struct held *h = first; h && !err; h = h->next)
        err = adopt_one(r, h);
    return err;
}

/* Takes the name. *ret_seen: when its node was last seen; unchanged if never.
 */
static int enter(struct resume *r, struct sl_arena *arena, sl_ns *ret_seen)
{
    static const enum sl_query trims[] = {
        SL_QUERY_TRIM_FREED, SL_QUERY_TRIM_OWED, SL_QUERY_TRIM_ENDS,
        SL_QUERY_TRIM_NODES};
    struct sl_database *db = r->db;
    sl_ns old = r->now > NODE_KEPT ? r->now - NODE_KEPT : 0;
    int err = sl_query_run(db, SL_QUERY_BEGIN, ""), found = 0;

    if (!err)
        found = sl_query_one(db, SL_QUERY_NODE_LAST, "t n", r->node, ret_seen);
    if (!err)
        err = found < 0 ? found : 0;
    if (!err && found == 0)
        err = adopt_held(r, arena);
    for (size_t i = 0; i < SL_LEN(trims) && !err; i++)
        err = sl_query_run(db, trims[i], "n", old);
    if (!err)
        err = sl_query_run(db, SL_QUERY_ENTER_NODE, "tnt", r->node, r->now,
                           sl_str_c(db->word));
    if (!err)
        err = sl_query_run(db, SL_QUERY_COMMIT, "");
    if (err)
        db->driver->rollback(db);
    return err;
}

/* ---- its rows ---- */

struct found {
    struct sl_usage_lease_row row; /* `leased` includes the freed units */
    uint64_t freed;
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
        found =
            sl_query_next(db, q, arena, "tttncccc", &f->row.scope, &f->row.id,
                          &f->row.limit, &f->row.start, &f->row.base,
                          &f->row.spent, &f->row.leased, &f->freed);
        if (found != 1)
            break;
        f->row.leased += f->freed;
        f->row.older = last && sl_str_eq(last->row.limit, f->row.limit) &&
                       sl_str_eq(last->row.id, f->row.id) &&
                       sl_str_eq(last->row.scope, f->row.scope);
        *end = last = f;
        end = &f->next;
    }
    sl_query_reset(db, q);
    return found;
}

/* Of the units of the row that were taken, those in holds stay leased. The
 * others are recorded. The freed ones were taken first. */
static int resume_row(const struct resume *r, const struct found *found)
{
    const struct sl_usage_lease_row *row = &found->row;
    uint64_t held = 0;
    sl_ns at = row->start;
    uint64_t taken = sl_sub_floor(row->leased, r->f(r->ctx, row, &held, &at));
    uint64_t kept = 0;
    unsigned failed = 0;
    struct sl_usage_entry u = {.scope = row->scope,
                               .id = row->id,
                               .limit = row->limit,
                               .node = r->node,
                               .start = row->start,
                               .at = at,
                               .level = row->start == 0,
                               .cap = SL_USAGE_CAP_KEPT};
    struct sl_usage_lease_claim c = claim_of(&u);
    struct row rest = {.base = row->base, .spent = row->spent};
    int err = 0;

    if (r->leaves) { /* held units are in the cell alone */
        if (sl_query_one(r->db, SL_QUERY_HELD, "tttntn c", row->scope, row->id,
                         row->limit, row->start, r->node, r->now, &kept) < 0)
            return SLUICE_ESTORE;
        taken = sl_sub_floor(taken, kept);
        held = 0;
    }
    u.amount = (int64_t)sl_sub_floor(taken, held);
    rest.freed = smaller(taken, found->freed);
    rest.leased = taken - rest.freed;
    err = write_row(r->db, &c, row->leased - found->freed, &rest);
    if (err || u.amount == 0)
        return err;
    return sl_usage_db_record(r->db, &u, 1, &failed);
}

/* At the caller's time plus the whole seconds passed since: the caller's clock
 * may be virtual. */
static int say_alive(const struct resume *r)
{
    sl_ns passed = r->clock.mono(r->clock.ctx) - r->began;
    struct sl_usage_lease_claim c = {.node = r->node,
                                     .at = r->now + passed - passed % SL_S};
    int err = r->leaves ? 0 : sl_usage_db_claim(r->db, &c);

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
        err = resume_row(r, *rows);
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

/* The node was last seen at `seen`; 0: unknown. */
static int resume_rows(const struct resume *r, struct sl_arena *arena,
                       sl_ns seen)
{
    struct found *first = NULL;
    int err = load_rows(r->db, r->node, arena, &first);

    for (struct found *i = first; i; i = i->next)
        i->row.seen = seen;
    while (first && !err)
        err = resume_some(r, &first);
    return err;
}

int sl_usage_db_resume(struct sl_database *db, struct sl_str node, sl_ns now,
                       sl_lease_f *f, void *ctx, const struct sl_alloc *alloc)
{
    struct resume r = {.db = db, .node = node, .f = f, .ctx = ctx, .now = now};
    struct sl_arena arena;
    sl_ns seen = 0;
    int err;

    sl_clock_init_real(&r.clock);
    r.began = r.clock.mono(r.clock.ctx);
    sl_arena_init(&arena, ROWS_MOST, alloc);
    err = enter(&r, &arena, &seen);
    if (!err)
        err = resume_rows(&r, &arena, seen);
    sl_arena_done(&arena);
    return err;
}

/* ---- a database that is not shared any more ---- */

/* Nothing is leased to a node without its table. This daemon alone has the
 * database, so the others are gone. */
static int free_others(struct sl_database *db)
{
    struct sl_buf list;
    const struct sl_usage_node *nodes;
    int err;

    sl_buf_init(&list, NODES_MOST * sizeof(*nodes), db->arena.alloc);
    err = sl_usage_db_nodes(db, SL_STR(""), NODES_MOST, &list);
    nodes = (const void *)list.bytes;
    for (size_t i = 0; i < list.len / sizeof(*nodes) && !err; i++) {
        bool alive;
        unsigned rows;
        uint64_t units;

        err = sl_usage_db_release(db, sl_str_c(nodes[i].name), SL_NS_MAX,
                                  &alive, &rows, &units);
    }
    sl_buf_done(&list);
    return err;
}

static int forget_node(struct sl_database *db, struct sl_str node)
{
    int err = sl_query_run(db, SL_QUERY_BEGIN, "");

    if (!err)
        err = sl_query_run(db, SL_QUERY_LEAVE_HELD, "t", node);
    if (!err)
        err = sl_query_run(db, SL_QUERY_LEAVE_NODE, "t", node);
    if (!err)
        err = free_others(db);
    if (!err)
        err = sl_query_run(db, SL_QUERY_COMMIT, "");
    if (err)
        db->driver->rollback(db);
    return err;
}

/* The cells get what the counters have, and what is held. */
static int set_cells(const struct resume *r, sl_ns since, sl_usage_db_f *f)
{
    const enum sl_query q = SL_QUERY_EACH_LEFT;
    struct sl_usage_entry usage = {.exact = true};
    int found, err = 0;

    sl_query_bind(r->db, q, "tnn", r->node, since, r->now);
    while (!err &&
           (found = sl_query_next(r->db, q, NULL, "tttncnn", &usage.scope,
                                  &usage.id, &usage.limit, &usage.start,
                                  &usage.used, &usage.at, &usage.end)) == 1) {
        (void)f(r->ctx, &usage);
        err = sl_erased_drop(r->db, &usage);
    }
    sl_query_reset(r->db, q);
    return err ? err : found;
}

int sl_usage_db_leave(struct sl_database *db, struct sl_str node, sl_ns now,
                      sl_ns since, sl_lease_f *on_lease,
                      sl_usage_db_f *on_usage, void *ctx,
                      const struct sl_alloc *alloc)
{
    struct resume r = {.db = db,
                       .node = node,
                       .f = on_lease,
                       .ctx = ctx,
                       .now = now,
                       .leaves = true};
    struct sl_arena arena;
    sl_ns seen = 0;
    int found = sl_query_one(db, SL_QUERY_NODE_LAST, "t n", node, &seen);
    int err = found < 0 ? found : 0;

    if (found == 1 && sl_query_one(db, SL_QUERY_ANY_END, "t", node) == 1)
        return sl_diag_error(
            &db->diag, SLUICE_ESTORE,
            "the database is not shared any more, and holds of this daemon "
            "were ended at another one; start it once as it was, stop it after "
            "a second, and then change the setting");
    sl_clock_init_real(&r.clock);
    sl_arena_init(&arena, ROWS_MOST, alloc);
    if (found == 1)
        err = resume_rows(&r, &arena, seen);
    sl_arena_done(&arena);
    if (!err && found == 1)
        err = set_cells(&r, since, on_usage);
    return err ? err : forget_node(db, node);
}
