/* usage_leases.c -- quota leases. */
#include <inttypes.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "registry/registry_int.h"
#include "registry/usage_db.h"
#include "wire/json.h"

static uint64_t number(struct sl_database *db, enum sl_query q, int column)
{
    int64_t n = sl_query_integer(db, q, column);

    return n > 0 ? (uint64_t)n : 0;
}

static void bind_key(struct sl_database *db, enum sl_query q,
                     const struct sl_usage_lease_claim *c)
{
    sl_query_text(db, q, 1, c->scope);
    sl_query_text(db, q, 2, c->id);
    sl_query_text(db, q, 3, c->limit);
    sl_query_number(db, q, 4, c->start);
}

static void bind_own(struct sl_database *db, enum sl_query q,
                     const struct sl_usage_lease_claim *c)
{
    bind_key(db, q, c);
    sl_query_text(db, q, 5, c->node);
}

/* ---- rows ---- */

struct row {
    uint64_t base, spent, leased;
    bool there;
};

static int find_row(struct sl_database *db,
                    const struct sl_usage_lease_claim *c, struct row *ret)
{
    const enum sl_query q = SL_QUERY_LEASE_OWN;
    int err;

    *ret = (struct row){.there = false};
    bind_own(db, q, c);
    err = sl_query_step(db, q);
    if (err == 1)
        *ret = (struct row){number(db, q, 0), number(db, q, 1),
                            number(db, q, 2), true};
    sl_query_reset(db, q);
    return err < 0 ? err : 0;
}

/* Removes `units` from a lease; `spent` of them were used. (1) (4) */
static int reduce(struct sl_database *db, const struct sl_usage_lease_claim *c,
                  const struct row *row, uint64_t units, uint64_t spent)
{
    enum sl_query q = SL_QUERY_LEASE_LESS;
    int err = 0;

    if (units > 0) {
        bind_key(db, q, c);
        sl_query_number(db, q, 5, (int64_t)units);
        err = sl_database_run(db, q);
    }
    if (err)
        return err;
    q = units < row->leased ? SL_QUERY_SPEND_LEASE : SL_QUERY_DROP_LEASE;
    bind_own(db, q, c);
    if (q == SL_QUERY_SPEND_LEASE) {
        sl_query_number(db, q, 6, (int64_t)spent);
        sl_query_number(db, q, 7, (int64_t)units);
    }
    return sl_database_run(db, q);
}

/* ---- claims ---- */

/* Reads the state when nothing was granted. */
static int look(struct sl_database *db, struct sl_usage_lease_claim *c)
{
    const enum sl_query q = SL_QUERY_COUNTER;
    struct row row;
    int err;

    c->granted = c->used = c->leased = 0;
    bind_key(db, q, c);
    err = sl_query_step(db, q);
    if (err == 1) {
        c->used = number(db, q, 0);
        c->leased = number(db, q, 4);
    }
    sl_query_reset(db, q);
    if (err < 0)
        return err;
    err = find_row(db, c, &row);
    c->there = row.there;
    c->base = row.there ? row.base : c->ceiling;
    c->spent = row.spent;
    c->own = row.leased;
    return err;
}

static int give(struct sl_database *db, const struct sl_usage_lease_claim *c)
{
    struct row row;
    int err = find_row(db, c, &row);
    uint64_t units = c->give < row.leased ? c->give : row.leased;

    return err || !row.there ? err : reduce(db, c, &row, units, 0);
}

/* Heartbeat, unless another node has the name. (5) */
static int live(struct sl_database *db, struct sl_usage_lease_claim *c)
{
    const enum sl_query q = SL_QUERY_SEEN_NODE;
    int found;

    sl_query_text(db, q, 1, c->node);
    sl_query_number(db, q, 2, c->at);
    sl_query_text(db, q, 3, sl_str_c(db->word));
    found = sl_query_step(db, q);
    sl_query_reset(db, q);
    c->lost = found == 0;
    return found < 0 ? found : 0;
}

/* The first lease of a node counts as a heartbeat. If the node has lost its
 * name, it gets nothing. */
static int look_alive(struct sl_database *db, struct sl_usage_lease_claim *c)
{
    int err = live(db, c);

    if (err || !c->lost)
        return err;
    c->give = c->granted;
    c->granted = 0;
    return give(db, c);
}

static int put_row(struct sl_database *db, struct sl_usage_lease_claim *c)
{
    const enum sl_query q = SL_QUERY_PUT_LEASE;
    int err;

    bind_own(db, q, c);
    sl_query_number(db, q, 6, (int64_t)c->ceiling);
    sl_query_number(db, q, 7, (int64_t)c->granted);
    sl_query_number(db, q, 8, c->at);
    err = sl_query_step(db, q);
    if (err == 1) {
        c->there = true;
        c->base = number(db, q, 0);
        c->spent = number(db, q, 1);
        c->own = number(db, q, 2);
    }
    sl_query_reset(db, q);
    if (err < 0)
        return err;
    return c->own == c->granted ? look_alive(db, c) : 0;
}

static uint64_t need_of(const struct sl_usage_lease_claim *c)
{
    uint64_t need = c->need < c->cap ? c->need : c->cap;

    return need > c->least ? need : c->least;
}

/* The node was released without knowing, and counts on units that others have
 * now. With a row it would go on using them, so it is told first. */
static int take_back(struct sl_database *db, struct sl_usage_lease_claim *c)
{
    struct row row = {.leased = c->granted, .there = true};
    int err = reduce(db, c, &row, c->granted, 0);

    return err ? err : look(db, c);
}

static int want(struct sl_database *db, struct sl_usage_lease_claim *c)
{
    const enum sl_query q = SL_QUERY_LEASE;
    int err;

    if (c->least > c->cap || c->cap > (uint64_t)SL_USAGE_MOST)
        return look(db, c);
    bind_key(db, q, c);
    sl_query_number(db, q, 5, c->at);
    sl_query_number(db, q, 6, (int64_t)(c->want < c->cap ? c->want : c->cap));
    sl_query_number(db, q, 7, (int64_t)c->least);
    sl_query_number(db, q, 8, (int64_t)c->cap);
    sl_query_number(db, q, 9, (int64_t)need_of(c));
    err = sl_query_step(db, q);
    if (err == 1) {
        c->used = number(db, q, 0);
        c->leased = number(db, q, 1);
        c->granted = number(db, q, 2);
    }
    sl_query_reset(db, q);
    if (err < 0)
        return err;
    err = err == 1 ? put_row(db, c) : look(db, c);
    if (err || !c->has || c->granted == 0 || c->own > c->granted)
        return err;
    return take_back(db, c);
}

int sl_usage_db_claim(struct sl_database *db, struct sl_usage_lease_claim *c)
{
    int err = 0;

    c->lost = false;
    if (c->scope.len == 0 || c->lives)
        err = live(db, c);
    if (err || c->lost || c->scope.len == 0)
        return err;
    if (c->give > 0)
        return give(db, c);
    return c->want > 0 ? want(db, c) : look(db, c);
}

/* ---- usage ---- */

struct sl_usage_lease_claim
sl_usage_lease_claim_of(const struct sl_usage_entry *u)
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
    struct sl_usage_lease_claim c = sl_usage_lease_claim_of(u);
    struct row row;
    int err = find_row(db, &c, &row);
    uint64_t units = amount < row.leased ? amount : row.leased;

    return err || !row.there ? err : reduce(db, &c, &row, units, amount);
}

/* ---- operators ---- */

static int add_text(struct sl_buf *out, const char *name, struct sl_str text)
{
    int err = sl_buf_addf(out, "\"%s\":", name);

    if (!err)
        err = sl_json_string(out, text);
    return err ? err : sl_buf_addf(out, ",");
}

static int add_row(struct sl_database *db, struct sl_str own,
                   struct sl_buf *out)
{
    static const char *const names[] = {"node", "scope", "id", "limit"};
    const enum sl_query q = SL_QUERY_LEASES;
    int err = sl_buf_addf(out, out->len > 0 ? ",{" : "{");

    for (int i = 0; i < (int)SL_LEN(names) && !err; i++)
        err = add_text(out, names[i], sl_query_column(db, q, i));
    if (err)
        return err;
    return sl_buf_addf(
        out,
        "\"period_start_ms\":%" PRIu64 ",\"leased\":%" PRIu64
        ",\"spent\":%" PRIu64 ",\"since_ms\":%" PRIu64 ",\"seen_ms\":%" PRIu64
        ",\"here\":%s}",
        number(db, q, 4) / SL_MS, number(db, q, 5), number(db, q, 6),
        number(db, q, 7) / SL_MS, number(db, q, 8) / SL_MS,
        sl_str_eq(sl_query_column(db, q, 0), own) ? "true" : "false");
}

int sl_usage_db_leases_json(struct sl_database *db, struct sl_str own,
                            unsigned most, struct sl_buf *out, bool *ret_cut)
{
    const enum sl_query q = SL_QUERY_LEASES;
    size_t before = out->len;
    int err;

    *ret_cut = false;
    sl_query_number(db, q, 1, (int64_t)most + 1);
    for (unsigned i = 0; (err = sl_query_step(db, q)) == 1; i++) {
        before = out->len;
        err = i < most ? add_row(db, own, out) : SLUICE_EFULL;
        if (err)
            break;
    }
    sl_query_reset(db, q);
    if (err != SLUICE_EFULL)
        return err;
    out->len = before;
    *ret_cut = true;
    return 0;
}

static int find_alive(struct sl_database *db, struct sl_str node, sl_ns since,
                      bool *ret)
{
    const enum sl_query q = SL_QUERY_NODE_SEEN;
    int found;

    sl_query_text(db, q, 1, node);
    sl_query_number(db, q, 2, since);
    found = sl_query_step(db, q);
    sl_query_reset(db, q);
    *ret = found == 1;
    return found < 0 ? found : 0;
}

int sl_usage_db_release(struct sl_database *db, struct sl_str node, sl_ns since,
                        bool *ret_alive, unsigned *ret, uint64_t *ret_units)
{
    enum sl_query q = SL_QUERY_RELEASE_ALL;
    int err = find_alive(db, node, since, ret_alive);

    *ret = 0;
    *ret_units = 0;
    if (err || *ret_alive)
        return err;
    sl_query_text(db, q, 1, node);
    err = sl_database_run(db, q);
    if (err)
        return err;
    q = SL_QUERY_DROP_OWED; /* its table will not come back either */
    sl_query_text(db, q, 1, node);
    err = sl_database_run(db, q);
    if (err)
        return err;
    q = SL_QUERY_DROP_NODE;
    sl_query_text(db, q, 1, node);
    err = sl_database_run(db, q);
    if (err)
        return err;
    q = SL_QUERY_DROP_LEASES;
    sl_query_text(db, q, 1, node);
    while ((err = sl_query_step(db, q)) == 1) {
        ++*ret;
        *ret_units += number(db, q, 0);
    }
    sl_query_reset(db, q);
    return err;
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

/* ---- the name ---- */

/* Reads when the node was last seen; unchanged if never. */
static int find_seen(struct sl_database *db, struct sl_str node, sl_ns *ret)
{
    const enum sl_query q = SL_QUERY_NODE_LAST;
    int found;

    sl_query_text(db, q, 1, node);
    found = sl_query_step(db, q);
    if (found == 1)
        *ret = sl_query_integer(db, q, 0);
    sl_query_reset(db, q);
    return found < 0 ? found : 0;
}

static int put_name(struct sl_database *db, struct sl_str node, sl_ns now)
{
    enum sl_query q = SL_QUERY_TRIM_NODES;
    int err;

    sl_query_number(db, q, 1, now > NODE_KEPT ? now - NODE_KEPT : 0);
    err = sl_database_run(db, q);
    if (err)
        return err;
    q = SL_QUERY_ENTER_NODE;
    sl_query_text(db, q, 1, node);
    sl_query_number(db, q, 2, now);
    sl_query_text(db, q, 3, sl_str_c(db->word));
    return sl_database_run(db, q);
}

static int enter(struct sl_database *db, struct sl_str node, sl_ns now,
                 sl_ns *ret_seen)
{
    int err = sl_database_run(db, SL_QUERY_BEGIN);

    if (!err)
        err = find_seen(db, node, ret_seen);
    if (!err)
        err = put_name(db, node, now);
    if (!err)
        err = sl_database_run(db, SL_QUERY_COMMIT);
    if (err)
        sl_database_rollback(db);
    return err;
}

/* ---- its rows ---- */

struct found {
    struct sl_usage_lease_row row;
    struct found *next;
};

static bool keep_text(struct sl_arena *arena, struct sl_str text,
                      struct sl_str *ret)
{
    ret->at = sl_arena_copy(arena, text);
    ret->len = text.len;
    return ret->at;
}

static int load_one(struct sl_database *db, struct sl_arena *arena,
                    struct found **ret)
{
    const enum sl_query q = SL_QUERY_OWN_LEASES;
    struct found *f = sl_arena_take(arena, sizeof(*f));

    if (!f)
        return SLUICE_ENOMEM;
    f->next = NULL;
    f->row = (struct sl_usage_lease_row){.start = (sl_ns)number(db, q, 3),
                                         .base = number(db, q, 4),
                                         .spent = number(db, q, 5),
                                         .leased = number(db, q, 6)};
    if (!keep_text(arena, sl_query_column(db, q, 0), &f->row.scope) ||
        !keep_text(arena, sl_query_column(db, q, 1), &f->row.id) ||
        !keep_text(arena, sl_query_column(db, q, 2), &f->row.limit))
        return SLUICE_ENOMEM;
    *ret = f;
    return 0;
}

static int load_rows(struct sl_database *db, struct sl_str node,
                     struct sl_arena *arena, struct found **ret)
{
    const enum sl_query q = SL_QUERY_OWN_LEASES;
    struct found **end = ret, *last = NULL;
    int err;

    sl_query_text(db, q, 1, node);
    while ((err = sl_query_step(db, q)) == 1) {
        err = load_one(db, arena, end);
        if (err)
            break;
        (*end)->row.older = last &&
                            sl_str_eq(last->row.limit, (*end)->row.limit) &&
                            sl_str_eq(last->row.id, (*end)->row.id) &&
                            sl_str_eq(last->row.scope, (*end)->row.scope);
        last = *end;
        end = &(*end)->next;
    }
    sl_query_reset(db, q);
    return err;
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
                               .cap = UINT64_MAX,
                               .reported = true};
    struct sl_usage_lease_claim c = sl_usage_lease_claim_of(&u);
    int err;

    c.give = left < row->leased ? left : row->leased;
    u.amount = (int64_t)(row->leased - c.give);
    if (u.amount == 0)
        c.give = (uint64_t)SL_USAGE_MOST; /* also a row without units */
    err = c.give > 0 ? sl_usage_db_claim(db, &c) : 0;
    if (err || held || u.amount == 0)
        return err;
    return sl_usage_db_record(db, &u, 1, &failed);
}

/* The caller's time plus the time passed since. */
struct watch {
    struct sl_clock clock;
    sl_ns now;
    sl_ns began; /* monotonic */
};

static void start_watch(struct watch *watch, sl_ns now)
{
    sl_clock_init_real(&watch->clock);
    watch->now = now;
    watch->began = watch->clock.mono(watch->clock.ctx);
}

/* In whole seconds: the caller's clock may be virtual. */
static sl_ns read_watch(const struct watch *watch)
{
    sl_ns gone = watch->clock.mono(watch->clock.ctx) - watch->began;

    return watch->now + gone - gone % SL_S;
}

static int say_alive(struct sl_database *db, struct sl_str node,
                     const struct watch *watch)
{
    struct sl_usage_lease_claim c = {.node = node, .at = read_watch(watch)};
    int err = sl_usage_db_claim(db, &c);

    if (err || !c.lost)
        return err;
    return sl_diag_error(
        &db->diag, SLUICE_ESTORE,
        "another daemon was started with the node name of this daemon, %.*s; "
        "it runs on a copy of the state file: stop it and remove the copy",
        SL_STR_ARG(node));
}

/* Processes one portion. */
static int resume_some(struct sl_database *db, struct sl_str node,
                       const struct watch *watch, struct found **rows,
                       sl_lease_f *f, void *ctx)
{
    uint64_t slots[SL_SHARE_SLOTS / 64] = {0};
    struct found *i = *rows;
    int err = sl_database_run(db, SL_QUERY_BEGIN);

    for (unsigned n = 0; i && n < PORTION; n++, i = i->next)
        sl_slot_take(slots, i->row.scope, i->row.id);
    if (!err && db->driver->lock)
        err = db->driver->lock(db, slots);
    while (*rows != i && !err) {
        err = resume_row(db, node, &(*rows)->row, f, ctx);
        *rows = (*rows)->next;
    }
    if (!err)
        err = say_alive(db, node, watch);
    if (!err)
        err = sl_database_run(db, SL_QUERY_COMMIT);
    if (err)
        sl_database_rollback(db);
    return err;
}

int sl_usage_db_resume(struct sl_database *db, struct sl_str node, sl_ns now,
                       sl_lease_f *f, void *ctx, const struct sl_alloc *alloc)
{
    struct found *first = NULL;
    struct sl_arena arena;
    struct watch watch;
    sl_ns seen = 0;
    int err;

    start_watch(&watch, now);
    sl_arena_init(&arena, ROWS_MOST, alloc);
    err = enter(db, node, now, &seen);
    if (!err)
        err = load_rows(db, node, &arena, &first);
    for (struct found *i = first; i; i = i->next)
        i->row.seen = seen;
    while (first && !err)
        err = resume_some(db, node, &watch, &first, f, ctx);
    sl_arena_done(&arena);
    return err;
}
