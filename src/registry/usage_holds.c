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

/* Returns 1, 0 without a row, or an error. */
static int find(struct sl_database *db, struct sl_str name, struct row *ret)
{
    int64_t cap;
    int found = sl_query_one(db, SL_QUERY_HOLD, "t ttnnn", name, &ret->scope,
                             &ret->id, &ret->start, &ret->amount, &cap);

    if (found == 1)
        ret->cap = cap >= 0 ? (uint64_t)cap : UINT64_MAX;
    return found;
}

static int drop(struct sl_database *db, struct sl_str name)
{
    return sl_query_run(db, SL_QUERY_DROP_HOLD, "t", name);
}

static int put(struct sl_database *db, struct sl_str name,
               const struct sl_usage_entry *u, sl_ns until)
{
    int64_t cap = u->cap <= INT64_MAX ? (int64_t)u->cap : -1;
    struct sl_str id = u->scope.len > 0 ? u->id : SL_STR("");
    int err = sl_query_run(db, SL_QUERY_PUT_HOLD, "toonnnn", name, id, u->scope,
                           u->start, u->amount, cap, until);

    return err ? err
               : sl_query_run(db, SL_QUERY_TRIM_HOLDS, "n",
                              u->at - SL_HOLD_KEPT);
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
    struct row end,
        own = {.start = u->start, .amount = u->amount, .cap = u->cap};
    int err = find(db, name, &end);

    if (err != 1)
        return err ? err : put(db, name, u, u->until);
    err = drop(db, name);
    return err ? err : spend(db, u, &own, end.amount, end.start);
}

int sl_usage_db_owner(struct sl_database *db, struct sl_usage_entry *u)
{
    struct name room;
    struct row row;
    int err = find(db, name_of(u, &room), &row);

    if (err != 1 || row.scope.len == 0)
        return err < 0 ? err : 0;
    err = sl_database_copy(db, u->names_in, row.scope, &u->scope);
    return err ? err : sl_database_copy(db, u->names_in, row.id, &u->id);
}

static int end(struct sl_database *db, struct sl_usage_entry *u)
{
    struct name room;
    struct sl_str name = name_of(u, &room);
    struct row row;
    int err = find(db, name, &row);

    if (err != 1)
        return err ? err : put(db, name, u, u->at);
    if (row.scope.len == 0)
        return 0; /* it has ended already */
    err = 0;
    /* With several writers the owner is known by now: its slot is locked. */
    if (u->scope.len == 0)
        err = sl_usage_db_owner(db, u);
    if (!err)
        err = drop(db, name);
    return err ? err : spend(db, u, &row, u->amount, u->start);
}

/* ---- pending refunds ---- */

static int run_refund(struct sl_database *db, enum sl_query q,
                      const struct sl_usage_entry *u, int64_t units)
{
    return sl_query_run(db, q, "tttnnt", u->scope, u->id, u->limit, u->start,
                        units, db->node);
}

int sl_usage_db_pending_refund(struct sl_database *db,
                               const struct sl_usage_entry *u)
{
    if (u->reset)
        return run_refund(db, SL_QUERY_PAID, u, INT64_MAX);
    return u->owes && u->moved < 0 ? run_refund(db, SL_QUERY_OWE, u, -u->moved)
                                   : 0;
}

int sl_usage_db_held(struct sl_database *db, struct sl_usage_entry *u)
{
    struct name room;
    int err;

    u->result = SL_USAGE_RECORDED;
    u->told = u->told_before = 0;
    switch (u->act) {
    case SL_USAGE_ACT_HOLD:
        return begin(db, u);
    case SL_USAGE_ACT_HOLD_END:
        return end(db, u);
    case SL_USAGE_ACT_HOLD_EXTEND:
        return sl_query_run(db, SL_QUERY_EXTEND_HOLD, "tn", name_of(u, &room),
                            u->until);
    case SL_USAGE_ACT_REFUNDED:
        err = run_refund(db, SL_QUERY_PAY, u, u->amount);
        return err ? err : run_refund(db, SL_QUERY_PAID, u, 0);
    case SL_USAGE_ACT_TAKE:
        break;
    }
    return 0;
}
