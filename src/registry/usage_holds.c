/* usage_holds.c -- usage of holds, and refunds that the table has not applied.
 *
 * The end of a hold names its amount, but not its owner. A row keeps the owner
 * from the take on. A row without a scope is an end that arrived before its
 * take.
 */
#include <inttypes.h>
#include <stdio.h>

#include "registry/registry_int.h"
#include "registry/usage_db.h"

/* "ID:LIMIT" */
struct name {
    char text[2 * 16 + 1 + SL_USAGE_NAME + 1];
};

static struct sl_str name_of(const struct sl_usage_entry *u, struct name *room)
{
    int len = snprintf(room->text, sizeof(room->text),
                       "%016" PRIx64 "%016" PRIx64 ":%.*s", u->hold[0],
                       u->hold[1], SL_STR_ARG(u->limit));

    return (struct sl_str){room->text, (size_t)len < sizeof(room->text)
                                           ? (size_t)len
                                           : sizeof(room->text) - 1};
}

/* ---- rows ---- */

struct row {
    struct sl_str scope, id; /* in the database's arena; "": unknown */
    sl_ns start;
    int64_t amount;
    uint64_t cap;
};

static int keep(struct sl_database *db, struct sl_arena *in, struct sl_str text,
                struct sl_str *ret)
{
    const char *copy = sl_arena_copy(in, text);

    *ret = (struct sl_str){copy, text.len};
    return copy ? 0 : sl_diag_error(&db->diag, SLUICE_ENOMEM, "out of memory");
}

static int64_t number(struct sl_database *db, int column)
{
    return sl_query_integer(db, SL_QUERY_HOLD, column);
}

static int find(struct sl_database *db, struct sl_str name, struct row *ret,
                bool *ret_found)
{
    const enum sl_query q = SL_QUERY_HOLD;
    int err;

    sl_query_text(db, q, 1, name);
    err = sl_query_step(db, q);
    *ret_found = err == 1;
    if (err == 1) {
        err = keep(db, &db->arena, sl_query_column(db, q, 0), &ret->scope);
        if (!err)
            err = keep(db, &db->arena, sl_query_column(db, q, 1), &ret->id);
        ret->start = number(db, 2);
        ret->amount = number(db, 3);
        ret->cap = number(db, 4) >= 0 ? (uint64_t)number(db, 4) : UINT64_MAX;
    }
    sl_query_reset(db, q);
    return err;
}

static int drop(struct sl_database *db, struct sl_str name)
{
    sl_query_text(db, SL_QUERY_DROP_HOLD, 1, name);
    return sl_database_run(db, SL_QUERY_DROP_HOLD);
}

static int put(struct sl_database *db, struct sl_str name,
               const struct sl_usage_entry *u, sl_ns until)
{
    const enum sl_query q = SL_QUERY_PUT_HOLD;
    int err;

    sl_query_text(db, q, 1, name);
    if (u->scope.len > 0) {
        sl_query_text(db, q, 2, u->id);
        sl_query_text(db, q, 3, u->scope);
    }
    sl_query_number(db, q, 4, u->start);
    sl_query_number(db, q, 5, u->amount);
    sl_query_number(db, q, 6, u->cap <= INT64_MAX ? (int64_t)u->cap : -1);
    sl_query_number(db, q, 7, until);
    err = sl_database_run(db, q);
    if (err)
        return err;
    sl_query_number(db, SL_QUERY_TRIM_HOLDS, 1, u->at - SL_HOLD_KEPT);
    return sl_database_run(db, SL_QUERY_TRIM_HOLDS);
}

/* ---- kinds ---- */

/* Records a part of the entry. The entry stays unchanged, because a failed job
 * is retried. */
static int put_part(struct sl_database *db, struct sl_usage_entry *u,
                    const struct row *row, sl_ns start, int64_t amount)
{
    struct sl_usage_entry part = *u;
    int err;

    if (amount == 0)
        return 0;
    part.reported = true;
    part.cap = row->cap;
    part.start = start;
    part.amount = amount;
    err = sl_usage_db_put(db, &part);
    u->cap = part.cap;
    u->used = part.used;
    u->told = part.told;
    u->told_before = part.told_before;
    u->absorbed |= part.absorbed;
    return err;
}

/* `amount` units of the hold were used: those held at the time of the take, the
 * rest at its end, `now`. */
static int spend(struct sl_database *db, struct sl_usage_entry *u,
                 const struct row *row, int64_t amount, sl_ns now)
{
    int64_t rest =
        now != row->start && amount > row->amount ? amount - row->amount : 0;
    int err = put_part(db, u, row, row->start, amount - rest);

    return err ? err : put_part(db, u, row, now, rest);
}

static int begin(struct sl_database *db, struct sl_usage_entry *u)
{
    struct name room;
    struct sl_str name = name_of(u, &room);
    struct row end, own = {.start = u->start, .amount = u->amount};
    bool ended;
    int err = find(db, name, &end, &ended);

    if (err || !ended)
        return err ? err : put(db, name, u, u->until);
    own.cap = u->cap;
    err = drop(db, name);
    return err ? err : spend(db, u, &own, end.amount, end.start);
}

int sl_usage_db_owner(struct sl_database *db, struct sl_usage_entry *u)
{
    struct name room;
    struct row row;
    bool known;
    int err = find(db, name_of(u, &room), &row, &known);

    if (err || !known || row.scope.len == 0)
        return err;
    err = keep(db, u->names_in, row.scope, &u->scope);
    return err ? err : keep(db, u->names_in, row.id, &u->id);
}

static int end(struct sl_database *db, struct sl_usage_entry *u)
{
    struct name room;
    struct sl_str name = name_of(u, &room);
    struct row row;
    bool known;
    int err = find(db, name, &row, &known);

    if (err || !known)
        return err ? err : put(db, name, u, u->at);
    if (row.scope.len == 0)
        return 0; /* it has ended already */
    /* With several writers the owner is known by now: its slot is locked. */
    if (u->scope.len == 0)
        err = sl_usage_db_owner(db, u);
    if (!err)
        err = drop(db, name);
    return err ? err : spend(db, u, &row, u->amount, u->start);
}

static int extend(struct sl_database *db, const struct sl_usage_entry *u)
{
    const enum sl_query q = SL_QUERY_EXTEND_HOLD;
    struct name room;

    sl_query_text(db, q, 1, name_of(u, &room));
    sl_query_number(db, q, 2, u->until);
    return sl_database_run(db, q);
}

/* ---- pending refunds ---- */

static void bind(struct sl_database *db, enum sl_query q,
                 const struct sl_usage_entry *u, int64_t units)
{
    sl_query_text(db, q, 1, u->scope);
    sl_query_text(db, q, 2, u->id);
    sl_query_text(db, q, 3, u->limit);
    sl_query_number(db, q, 4, u->start);
    sl_query_number(db, q, 5, units);
    sl_query_text(db, q, 6, db->node);
}

int sl_usage_db_pending_refund(struct sl_database *db,
                               const struct sl_usage_entry *u)
{
    enum sl_query q = u->reset ? SL_QUERY_PAID : SL_QUERY_OWE;

    if (!u->reset && (!u->owes || u->moved >= 0))
        return 0;
    bind(db, q, u, u->reset ? INT64_MAX : -u->moved);
    return sl_database_run(db, q);
}

static int pay(struct sl_database *db, const struct sl_usage_entry *u)
{
    int err;

    bind(db, SL_QUERY_PAY, u, u->amount);
    err = sl_database_run(db, SL_QUERY_PAY);
    bind(db, SL_QUERY_PAID, u, 0);
    return err ? err : sl_database_run(db, SL_QUERY_PAID);
}

int sl_usage_db_held(struct sl_database *db, struct sl_usage_entry *u)
{
    u->result = SL_USAGE_RECORDED;
    u->told = u->told_before = 0;
    switch (u->act) {
    case SL_USAGE_ACT_HOLD:
        return begin(db, u);
    case SL_USAGE_ACT_HOLD_END:
        return end(db, u);
    case SL_USAGE_ACT_HOLD_EXTEND:
        return extend(db, u);
    case SL_USAGE_ACT_REFUNDED:
        return pay(db, u);
    case SL_USAGE_ACT_TAKE:
        break;
    }
    return 0;
}
