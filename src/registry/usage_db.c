/* record.c -- amounts put down in the books.
 *
 * A counter is read, moved and written: one thread writes, so nothing comes
 * between.
 */
#include <string.h>

#include "base/parse.h"
#include "identity/ledger/lease.h"
#include "registry/registry_int.h"

struct counter {
    int64_t used, overage, credited;
    unsigned told;
    int64_t leased;
};

static void bind(struct sl_database *db, enum sl_query q,
                 const struct sl_usage_entry *u)
{
    sl_query_text(db, q, 1, u->scope);
    sl_query_text(db, q, 2, u->id);
}

static int64_t number(struct sl_database *db, enum sl_query q, int column)
{
    return sl_query_integer(db, q, column);
}

/* ---- the counter ---- */

static int load(struct sl_database *db, const struct sl_usage_entry *u,
                struct counter *ret)
{
    const enum sl_query q = SL_QUERY_COUNTER;
    int err;

    *ret = (struct counter){.used = 0};
    bind(db, q, u);
    sl_query_text(db, q, 3, u->limit);
    sl_query_number(db, q, 4, u->start);
    err = sl_query_step(db, q);
    if (err == 1)
        *ret = (struct counter){number(db, q, 0), number(db, q, 1),
                                number(db, q, 2), (unsigned)number(db, q, 3),
                                number(db, q, 4)};
    sl_query_reset(db, q);
    return err < 0 ? err : 0;
}

static int store(struct sl_database *db, const struct sl_usage_entry *u,
                 const struct counter *c)
{
    const enum sl_query q = SL_QUERY_PUT_COUNTER;

    bind(db, q, u);
    sl_query_text(db, q, 3, u->limit);
    sl_query_number(db, q, 4, u->start);
    sl_query_number(db, q, 5, c->used);
    sl_query_number(db, q, 6, c->overage);
    sl_query_number(db, q, 7, c->credited);
    sl_query_number(db, q, 8, c->told);
    sl_query_number(db, q, 9, u->at);
    return sl_database_run(db, q);
}

/* By day or by month. Of a level, how much there is; else what has come. */
static int add_up(struct sl_database *db, enum sl_query q, int64_t when,
                  const struct sl_usage_entry *u, int64_t over)
{
    bind(db, q, u);
    sl_query_text(db, q, 3, u->limit);
    sl_query_number(db, q, 4, when);
    sl_query_number(db, q, 5, u->level ? (int64_t)u->used : u->moved);
    sl_query_number(db, q, 6, over);
    sl_query_number(db, q, 7, u->level);
    return sl_database_run(db, q);
}

/* ---- keys ---- */

/* Is the key known? Then the result says whether for the same. */
static int check_key(struct sl_database *db, struct sl_usage_entry *u,
                     bool *ret)
{
    const enum sl_query q = SL_QUERY_KEY;
    int err;

    *ret = false;
    if (u->key.len == 0)
        return 0;
    bind(db, q, u);
    sl_query_text(db, q, 3, u->key);
    sl_query_text(db, q, 4, u->name);
    err = sl_query_step(db, q);
    if (err == 1) {
        *ret = true;
        u->result = sl_str_eq(sl_query_column(db, q, 0), u->limit) &&
                            number(db, q, 1) == u->amount && number(db, q, 2)
                        ? SL_USAGE_REPLAYED
                        : SL_USAGE_CONFLICT;
    }
    sl_query_reset(db, q);
    return err < 0 ? err : 0;
}

static int keep_key(struct sl_database *db, const struct sl_usage_entry *u)
{
    const enum sl_query q = SL_QUERY_PUT_KEY;
    int err;

    if (u->key.len == 0)
        return 0;
    bind(db, q, u);
    sl_query_text(db, q, 3, u->key);
    sl_query_text(db, q, 4, u->limit);
    sl_query_number(db, q, 5, u->amount);
    sl_query_number(db, q, 6, u->at);
    sl_query_text(db, q, 7, u->name);
    err = sl_database_run(db, q);
    if (err)
        return err;
    sl_query_number(db, SL_QUERY_TRIM_KEYS, 1, u->at - SL_KEY_LIFE);
    return sl_database_run(db, SL_QUERY_TRIM_KEYS);
}

/* ---- things ---- */

static void bind_thing(struct sl_database *db, enum sl_query q,
                       const struct sl_usage_entry *u)
{
    bind(db, q, u);
    sl_query_text(db, q, 3, u->limit);
    sl_query_text(db, q, 4, u->name);
}

/* How much of the thing there was. */
static int find_thing(struct sl_database *db, const struct sl_usage_entry *u,
                      int64_t *ret)
{
    const enum sl_query q = SL_QUERY_THING;
    int err;

    *ret = 0;
    bind_thing(db, q, u);
    err = sl_query_step(db, q);
    if (err == 1)
        *ret = number(db, q, 0);
    sl_query_reset(db, q);
    return err < 0 ? err : 0;
}

/* A counter ends at SL_USAGE_MOST. Of a thing that it has no room for, the rest
 * counts: else it would take away from others when it goes. */
static int put_thing(struct sl_database *db, const struct sl_usage_entry *u,
                     int64_t counts)
{
    enum sl_query q = counts > 0 ? SL_QUERY_PUT_THING : SL_QUERY_DROP_THING;

    if (u->name.len == 0)
        return 0;
    bind_thing(db, q, u);
    if (counts > 0) {
        sl_query_number(db, q, 5, counts);
        sl_query_number(db, q, 6, u->at);
    }
    return sl_database_run(db, q);
}

static int drop_things(struct sl_database *db, const struct sl_usage_entry *u)
{
    const enum sl_query q = SL_QUERY_DROP_THINGS;

    bind(db, q, u);
    sl_query_text(db, q, 3, u->limit);
    return sl_database_run(db, q);
}

/* ---- marks ---- */

/* The highest mark that `used` has reached. */
static unsigned reached(const struct sl_usage_entry *u, int64_t used)
{
    unsigned mark = 0;

    for (unsigned i = 0; i < u->marks.count; i++)
        if (u->cap > 0 && u->cap != UINT64_MAX &&
            (unsigned __int128)used * 100 >=
                (unsigned __int128)u->cap * u->marks.list[i])
            mark = u->marks.list[i];
    return mark;
}

/* ---- one amount ---- */

/* How much of what is moved lies beyond the cap. */
static int64_t beyond(const struct sl_usage_entry *u, const struct counter *was,
                      int64_t after)
{
    int64_t over, moved = after - was->used;

    if (u->reset)
        return 0;
    if (!u->reported)
        return (int64_t)u->over;
    if (moved <= 0 || (uint64_t)after <= u->cap)
        return 0;
    /* What was given back and is used again was paid for already. */
    over = after - (int64_t)u->cap - was->overage - was->credited;
    if (over < 0)
        return 0;
    return over < moved ? over : moved;
}

static int64_t move(const struct sl_usage_entry *u, int64_t used, int64_t by)
{
    if (u->reset || used + by < 0)
        return 0;
    return used + by < SL_USAGE_MOST ? used + by : SL_USAGE_MOST;
}

static void show(struct sl_usage_entry *u, const struct counter *c)
{
    u->used = (uint64_t)c->used;
    u->overage = (uint64_t)c->overage;
    u->credited = (uint64_t)c->credited;
    u->told = c->told;
}

/* What a node has used is no longer leased to it. A reset changes no lease:
 * what is unspent of it, nobody has used. */
static int move_lease(struct sl_database *db, const struct sl_usage_entry *u)
{
    if (u->node.len == 0 || u->reset || u->amount <= 0)
        return 0;
    return sl_usage_db_spend(db, u, (uint64_t)u->amount);
}

static int settle(struct sl_database *db, struct sl_usage_entry *u,
                  const struct counter *was, int64_t by)
{
    struct counter c = *was;
    int64_t over, absorbed;
    int err;

    c.used = move(u, was->used, by);
    over = beyond(u, was, c.used);
    err = sl_usage_db_absorb(db, u, over, &absorbed);
    if (err)
        return err;
    u->absorbed = absorbed > 0;
    over -= absorbed;
    c.overage += over;
    c.credited = u->reset ? 0 : c.credited + absorbed;
    c.told = u->cap == UINT64_MAX ? was->told : reached(u, c.used);
    u->moved = c.used - was->used;
    u->told_before = was->told;
    show(u, &c);
    err = store(db, u, &c);
    if (!err && !u->reset)
        err = add_up(db, SL_QUERY_ADD_DAY, u->at / SL_DAY, u, over);
    if (!err && !u->reset)
        err = add_up(db, SL_QUERY_ADD_MONTH, sl_month_of(u->at), u, over);
    if (!err && u->reset)
        err = drop_things(db, u);
    if (!err)
        err = put_thing(db, u, u->amount - by + (by > 0 ? u->moved : by));
    if (!err)
        err = sl_usage_db_pending_refund(db, u);
    if (!err)
        err = move_lease(db, u);
    return err ? err : keep_key(db, u);
}

/* What is leased may be used at any moment, so that nothing is promised beside
 * it; but it is not used up, and what nobody needs comes back. */
static void refuse(struct sl_usage_entry *u, const struct counter *c,
                   int64_t by)
{
    bool fits = (uint64_t)(c->used + by) <= u->cap;

    u->result = fits ? SL_USAGE_LEASED : SL_USAGE_FULL;
    u->leased = (uint64_t)c->leased;
}

int sl_usage_db_put(struct sl_database *db, struct sl_usage_entry *u)
{
    struct counter c;
    int64_t by = u->amount, had = 0;
    bool known = false;
    int err = check_key(db, u, &known);

    if (!err)
        err = load(db, u, &c);
    if (!err && u->name.len > 0)
        err = find_thing(db, u, &had);
    if (err)
        return err;
    by -= had;
    u->told_before = c.told;
    show(u, &c);
    if (known)
        return 0;
    u->result = SL_USAGE_RECORDED;
    if (u->name.len > 0 && by == 0) {
        u->result = SL_USAGE_REPLAYED;
        return 0;
    }
    if (u->enforce && by > 0 && u->cap != UINT64_MAX &&
        (uint64_t)(c.used + c.leased + by) > u->cap) {
        refuse(u, &c, by);
        return 0;
    }
    return settle(db, u, &c, by);
}

int sl_usage_db_record(struct sl_database *db, struct sl_usage_entry *list,
                       unsigned count, unsigned *ret_failed)
{
    int err = 0;

    for (unsigned i = 0; i < count && !err; i++) {
        sl_arena_reset(&db->arena);
        list[i].moved = 0;
        list[i].absorbed = false;
        err = list[i].act == SL_USAGE_ACT_TAKE ? sl_usage_db_put(db, &list[i])
                                               : sl_usage_db_held(db, &list[i]);
        if (!err && list[i].result >= SL_USAGE_CONFLICT) {
            *ret_failed = i;
            return 0;
        }
    }
    *ret_failed = count;
    return err;
}
