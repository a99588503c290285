/* resume.c -- a node that comes back: its name, and what it had leased.
 *
 * The name is taken first: from then on nobody releases what it has. Its rows
 * are then gone through a few at a time, each time with the slots of those whom
 * they are about, so that the others who write wait for a few and not for all;
 * and each time it says that it lives, since nobody else does so meanwhile.
 */
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "identity/ledger/lease.h"
#include "identity/registry/database.h"

/* Rows of one node. */
#define ROWS_MOST ((size_t)64 << 20)
#define PORTION   64 /* of them in a transaction */

/* Nodes that were not seen for so long, and have nothing, are forgotten. */
#define NODE_KEPT (30 * SL_DAY)

/* ---- the name ---- */

/* When it was seen last; untouched if it never was. */
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

static uint64_t number(struct sl_database *db, enum sl_query q, int column)
{
    int64_t n = sl_query_integer(db, q, column);

    return n > 0 ? (uint64_t)n : 0;
}

struct found {
    struct sl_lease_row row;
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
    f->row = (struct sl_lease_row){.start = (sl_ns)number(db, q, 3),
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
                      const struct sl_lease_row *row, sl_lease_f *f, void *ctx)
{
    bool held = false;
    sl_ns at = row->start;
    uint64_t left = f(ctx, row, &held, &at);
    unsigned failed = 0;
    struct sl_usage u = {.scope = row->scope,
                         .id = row->id,
                         .limit = row->limit,
                         .node = node,
                         .start = row->start,
                         .at = at,
                         .cap = UINT64_MAX,
                         .reported = true};
    struct sl_lease_claim c = sl_lease_claim_of(&u);
    int err;

    c.give = left < row->leased ? left : row->leased;
    u.amount = (int64_t)(row->leased - c.give);
    if (u.amount == 0)
        c.give = (uint64_t)SL_USAGE_MOST; /* a row without units, too */
    err = c.give > 0 ? sl_ledger_claim(db, &c) : 0;
    if (err || held || u.amount == 0)
        return err;
    return sl_ledger_record(db, &u, 1, &failed);
}

/* The time that the caller has said, and what has gone by since. */
struct watch {
    struct sl_clock clock;
    sl_ns now;
    sl_ns began; /* steady */
};

static void start_watch(struct watch *watch, sl_ns now)
{
    sl_clock_init_real(&watch->clock);
    watch->now = now;
    watch->began = watch->clock.mono(watch->clock.ctx);
}

/* By whole seconds: the caller's clock may be one that stands still. */
static sl_ns read_watch(const struct watch *watch)
{
    sl_ns gone = watch->clock.mono(watch->clock.ctx) - watch->began;

    return watch->now + gone - gone % SL_S;
}

static int say_alive(struct sl_database *db, struct sl_str node,
                     const struct watch *watch)
{
    struct sl_lease_claim c = {.node = node, .at = read_watch(watch)};
    int err = sl_ledger_claim(db, &c);

    if (err || !c.lost)
        return err;
    return sl_refuse(
        &db->diag, SLUICE_ESTORE,
        "another daemon was started with the node name of this daemon, %.*s; "
        "it runs on a copy of the state file: stop it and remove the copy",
        SL_STR_ARG(node));
}

/* As many as are gone through at once. */
static int resume_some(struct sl_database *db, struct sl_str node,
                       const struct watch *watch, struct found **rows,
                       sl_lease_f *f, void *ctx)
{
    uint64_t slots[SL_SLOTS / 64] = {0};
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

int sl_ledger_resume(struct sl_database *db, struct sl_str node, sl_ns now,
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
