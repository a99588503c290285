/* usage_db.c -- records usage.
 *
 * A counter is read, changed and written. There is one writer, or a lock.
 */
#include "registry/usage_db.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/joined.h"
#include "base/parse.h"
#include "base/timestamp.h"
#include "registry/registry_int.h"
#include "wire/json.h"

struct counter {
    int64_t used, overage, credited;
    int64_t threshold; /* highest threshold that was reported */
    int64_t leased;
    /* The last change of the cap: the cap since then (-1: none, -2: not
     * known), the usage at that time, and what was beyond the cap by then. */
    struct {
        int64_t cap, used, beyond;
    } split;
    int64_t last_day; /* 0: not known */
    struct sl_str plan;
    int64_t exports; /* that show the counter as it was */
    bool found;
};

/* ---- the counter ---- */

static int load(struct sl_database *db, const struct sl_usage_entry *u,
                struct counter *ret)
{
    int found;

    *ret = (struct counter){.split = {.cap = -2}, .plan = SL_STR("")};
    found = sl_query_one(db, SL_QUERY_COUNTER, "tttn nnnnnnnnntn", u->scope,
                         u->id, u->limit, u->start, &ret->used, &ret->overage,
                         &ret->credited, &ret->threshold, &ret->leased,
                         &ret->split.cap, &ret->split.used, &ret->split.beyond,
                         &ret->last_day, &ret->plan, &ret->exports);
    ret->found = found == 1;
    return found < 0 ? found : 0;
}

static int64_t cap_of(const struct sl_usage_entry *u)
{
    return u->cap <= INT64_MAX ? (int64_t)u->cap : -1;
}

/* Exports that have begun show the values before this change. An entry without
 * a plan keeps that of the counter. A level has no last day. */
static int store(struct sl_database *db, const struct sl_usage_entry *u,
                 const struct counter *c)
{
    int64_t last_day = u->start == 0 ? -1 : u->last_day;
    int err = 0;

    if (c->exports > 0)
        err = sl_query_run(db, SL_QUERY_KEEP_BEFORE, "tttn", u->scope, u->id,
                           u->limit, u->start);
    if (!err && c->found && c->last_day == 0 && last_day != 0)
        err = sl_query_run(db, SL_QUERY_PUT_PERIOD, "tttnnnt", u->scope, u->id,
                           u->limit, u->start, u->end, last_day, u->zone);
    if (err)
        return err;
    return sl_query_run(
        db, SL_QUERY_PUT_COUNTER, "tttnnnnnnnnntnnt", u->scope, u->id, u->limit,
        u->start, c->used, c->overage, c->credited, c->threshold, u->at,
        c->split.cap, c->split.used, c->split.beyond,
        u->plan.len > 0 ? u->plan : c->plan, u->end, last_day, u->zone);
}

/* Adds to a day or month. A level is set: its last value of the day stays. */
static int add_up(struct sl_database *db, enum sl_query q, int64_t when,
                  const struct sl_usage_entry *u, int64_t over)
{
    return sl_query_run(db, q, "tttnnni", u->scope, u->id, u->limit, when,
                        u->level        ? (int64_t)u->used
                        : u->change > 0 ? u->change
                                        : 0,
                        u->level ? (int64_t)u->overage : over, u->level);
}

/* Removes units of usage (USED_DAY), or of overage (OVERAGE_DAY), from the days
 * of the period, the last one that has some first, and from their months. (7)
 */
static int reduce_days(struct sl_database *db, const struct sl_usage_entry *u,
                       enum sl_query days, int64_t units)
{
    int64_t day, had, part, used, over;
    int err = 0;

    for (; units > 0 && !err; units -= part) {
        int found = sl_query_one(db, days, "tttn nn", u->scope, u->id, u->limit,
                                 u->start, &day, &had);

        if (found != 1)
            return found;
        part = had < units ? had : units;
        used = days == SL_QUERY_USED_DAY ? -part : 0;
        over = days == SL_QUERY_USED_DAY ? 0 : -part;
        err = sl_query_run(db, SL_QUERY_ADD_DAY, "tttnnni", u->scope, u->id,
                           u->limit, day, used, over, false);
        if (!err)
            err = sl_query_run(db, SL_QUERY_ADD_MONTH, "tttnnni", u->scope,
                               u->id, u->limit, sl_month_of(day * SL_DAY), used,
                               over, false);
    }
    return err;
}

static int write_days(struct sl_database *db, const struct sl_usage_entry *u,
                      int64_t over)
{
    int64_t more = over > 0 ? over : 0;
    int err = add_up(db, SL_QUERY_ADD_DAY, u->at / SL_DAY, u, more);

    if (!err)
        err = add_up(db, SL_QUERY_ADD_MONTH, sl_month_of(u->at), u, more);
    if (!err && !u->level)
        err = reduce_days(db, u, SL_QUERY_USED_DAY, -u->change);
    return err || u->level ? err
                           : reduce_days(db, u, SL_QUERY_OVERAGE_DAY, -over);
}

/* ---- keys ---- */

/* Looks the key up. If it is known, the result is REPLAYED or CONFLICT. */
static int check_key(struct sl_database *db, struct sl_usage_entry *u,
                     bool *ret)
{
    struct sl_str limit;
    int64_t amount, same_name;
    int found = 0;

    if (u->key.len > 0)
        found = sl_query_one(db, SL_QUERY_KEY, "tttt tnn", u->scope, u->id,
                             u->key, u->name, &limit, &amount, &same_name);
    *ret = found == 1;
    if (found == 1)
        u->result =
            sl_str_eq(limit, u->limit) && amount == u->amount && same_name
                ? SL_USAGE_REPLAYED
                : SL_USAGE_CONFLICT;
    return found < 0 ? found : 0;
}

static int keep_key(struct sl_database *db, const struct sl_usage_entry *u)
{
    int err;

    if (u->key.len == 0)
        return 0;
    err = sl_query_run(db, SL_QUERY_PUT_KEY, "ttttnnt", u->scope, u->id, u->key,
                       u->limit, u->amount, u->at, u->name);
    return err ? err
               : sl_query_run(db, SL_QUERY_TRIM_KEYS, "n", u->at - SL_KEY_LIFE);
}

/* ---- named amounts ---- */

/* A counter ends at SL_USAGE_MOST. Of an amount that does not fit, only the
 * part that fits is stored: its removal would otherwise reduce other amounts.
 */
static int put_thing(struct sl_database *db, const struct sl_usage_entry *u,
                     int64_t counts)
{
    if (u->name.len == 0)
        return 0;
    if (counts <= 0)
        return sl_query_run(db, SL_QUERY_DROP_THING, "tttt", u->scope, u->id,
                            u->limit, u->name);
    return sl_query_run(db, SL_QUERY_PUT_THING, "ttttnn", u->scope, u->id,
                        u->limit, u->name, counts, u->at);
}

/* ---- thresholds ---- */

/* Thresholds of an amount whose plan is not known are those of the records
 * before it. */
static uint64_t threshold_cap(const struct sl_usage_entry *u,
                              const struct counter *c)
{
    bool keeps = u->cap == SL_USAGE_CAP_KEPT && u->thresholds.count > 0;

    return keeps && c->split.cap > 0 ? (uint64_t)c->split.cap : u->cap;
}

/* Returns the highest threshold that `used` has reached; `before` if there is
 * no cap. */
static int64_t reached(const struct sl_usage_entry *u, int64_t used,
                       int64_t before)
{
    unsigned mark = 0;

    if (u->of > (uint64_t)SL_USAGE_MOST)
        return before;
    for (unsigned i = 0; i < u->thresholds.count; i++)
        if (u->of > 0 && (unsigned __int128)used * 100 >=
                             (unsigned __int128)u->of * u->thresholds.list[i])
            mark = u->thresholds.list[i];
    return mark;
}

/* ---- credits: units granted to a subject that pay for overage. The first to
 * expire is used first.
 *
 * A decision sees the unused credits and those used in its period. Their sum
 * does not change when a credit is used, so slightly old numbers do no harm.
 * It adds the units beyond the quota that no credit has paid for: a credit that
 * is granted later pays for what is used from then on. They become fewer only
 * by a refund or a reset, which `absorbed` tells.
 */

/* Uses credits for `over` units of `u`; *ret is the number of units paid. */
static int absorb(struct sl_database *db, const struct sl_usage_entry *u,
                  int64_t over, int64_t *ret)
{
    int64_t seq, unused, taken;
    int err = 0;

    for (*ret = 0; over > *ret && !err; *ret += taken) {
        int found = sl_query_one(db, SL_QUERY_NEXT_CREDIT, "tttn nn", u->scope,
                                 u->id, u->limit, u->at, &seq, &unused);

        if (found != 1)
            return found;
        taken = unused < over - *ret ? unused : over - *ret;
        err = sl_query_run(db, SL_QUERY_USE_CREDIT, "nn", seq, taken);
    }
    return err;
}

/* Returns `units` to the credits that paid for them, the last to expire first:
 * the reverse of absorb(). */
static int unabsorb(struct sl_database *db, const struct sl_usage_entry *u,
                    int64_t units)
{
    int64_t seq, used, part;
    int err = 0;

    for (; units > 0 && !err; units -= part) {
        int found = sl_query_one(db, SL_QUERY_LAST_CREDIT, "ttt nn", u->scope,
                                 u->id, u->limit, &seq, &used);

        if (found != 1)
            return found;
        part = used < units ? used : units;
        err = sl_query_run(db, SL_QUERY_USE_CREDIT, "nn", seq, -part);
    }
    return err;
}

/* ---- one amount ---- */

/* Another cap applies to this record: what was beyond the cap before it stays
 * overage or credited. The first known cap is that of the records before it,
 * too. (8) */
static void split_at_change(const struct sl_usage_entry *u, struct counter *c)
{
    int64_t cap = u->cap <= (uint64_t)SL_USAGE_MOST ? (int64_t)u->cap : -1;
    int64_t before = c->overage + c->credited;
    bool none = u->level || (c->split.cap == -2 && before == 0);

    if (u->reset) {
        c->split.used = c->split.beyond = 0;
    } else if (u->cap != SL_USAGE_CAP_KEPT && cap != c->split.cap) {
        c->split.cap = cap;
        c->split.used = none ? 0 : c->used;
        c->split.beyond = none ? 0 : before;
    }
}

/* Returns the units beyond the cap if `used` are used: those before the change
 * of the cap, less what was refunded of them, and those since then. (8) */
static int64_t beyond(const struct counter *c, int64_t used)
{
    int64_t from = c->split.cap > c->split.used ? c->split.cap : c->split.used;
    int64_t refunded = used < c->split.used ? c->split.used - used : 0;
    int64_t before =
        c->split.beyond > refunded ? c->split.beyond - refunded : 0;

    return c->split.cap >= 0 && used > from ? before + used - from : before;
}

/* Makes overage + credited what is used beyond the cap, whatever was recorded
 * before: under one cap the order of the records does not matter. (7) */
static int charge_beyond(struct sl_database *db, struct sl_usage_entry *u,
                         struct counter *c)
{
    int64_t over, paid = 0;
    int err;

    if (u->reset) {
        u->absorbed = c->overage + c->credited > 0;
        c->overage = c->credited = 0;
        return 0;
    }
    over = beyond(c, c->used) - c->overage - c->credited;
    if (over >= 0) {
        err = absorb(db, u, over, &paid);
    } else { /* overage is reduced before credits are returned */
        paid = over + c->overage < 0 ? over + c->overage : 0;
        err = unabsorb(db, u, -paid);
    }
    u->absorbed = paid != 0 || over < 0;
    c->credited += paid;
    c->overage += over - paid;
    return err;
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
    u->threshold = (unsigned)c->threshold;
}

/* Usage of a node is no longer leased to it. A reset changes no lease: its
 * unspent units are not used. */
static int move_lease(struct sl_database *db, const struct sl_usage_entry *u)
{
    if (u->node.len == 0 || u->reset || u->amount <= 0)
        return 0;
    return sl_usage_db_spend(db, u, (uint64_t)u->amount);
}

static int run_refund(struct sl_database *db, enum sl_query q,
                      const struct sl_usage_entry *u, int64_t units)
{
    return sl_query_run(db, q, "tttnnt", u->scope, u->id, u->limit, u->start,
                        units, db->node);
}

/* Stores a refund that the table has not applied yet, so that it survives a
 * crash. */
static int pending_refund(struct sl_database *db,
                          const struct sl_usage_entry *u)
{
    if (u->reset)
        return run_refund(db, SL_QUERY_PAID, u, INT64_MAX);
    return u->needs_refund && u->change < 0
               ? run_refund(db, SL_QUERY_OWE, u, -u->change)
               : 0;
}

static int settle(struct sl_database *db, struct sl_usage_entry *u,
                  const struct counter *was, int64_t by)
{
    struct counter c = *was;
    int err;

    split_at_change(u, &c);
    c.used = move(u, was->used, by);
    err = charge_beyond(db, u, &c);
    if (err)
        return err;
    u->of = threshold_cap(u, &c);
    c.threshold = reached(u, c.used, was->threshold);
    u->change = c.used - was->used;
    u->is_short = !u->reset && u->change > by;
    u->threshold_before = (unsigned)was->threshold;
    show(u, &c);
    err = store(db, u, &c);
    if (!err && !u->reset)
        err = write_days(db, u, c.overage - was->overage);
    if (!err && u->reset)
        err = sl_query_run(db, SL_QUERY_DROP_THINGS, "ttt", u->scope, u->id,
                           u->limit);
    if (!err && u->reset)
        err = sl_erased_drop(db, u);
    if (!err)
        err = put_thing(db, u, u->amount - by + (by > 0 ? u->change : by));
    if (!err)
        err = pending_refund(db, u);
    if (!err)
        err = move_lease(db, u);
    return err ? err : keep_key(db, u);
}

/* Leased units may be used at any time, so nothing is granted beside them. They
 * may also come back. */
static void refuse(struct sl_usage_entry *u, const struct counter *c,
                   int64_t by)
{
    bool fits = (uint64_t)(c->used + by) <= u->cap;

    u->result = fits ? SL_USAGE_LEASED : SL_USAGE_FULL;
    u->leased = (uint64_t)c->leased;
}

/* Records one amount, like sl_usage_db_record(). */
static int put(struct sl_database *db, struct sl_usage_entry *u)
{
    struct counter c;
    int64_t by = u->amount, had = 0;
    bool known = false;
    int err = check_key(db, u, &known);

    if (!err && sl_usage_is_guess(u))
        err = sl_usage_find_period(db, u);
    if (!err)
        err = load(db, u, &c);
    if (!err && u->name.len > 0)
        err = sl_query_one(db, SL_QUERY_THING, "tttt n", u->scope, u->id,
                           u->limit, u->name, &had);
    if (err < 0)
        return err;
    by -= u->total ? c.used : had;
    u->threshold_before = (unsigned)c.threshold;
    show(u, &c);
    if (known)
        return 0;
    u->result = SL_USAGE_RECORDED;
    if ((u->name.len > 0 || u->total) && by == 0) {
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

/* ---- usage of holds.
 *
 * The end of a hold names its amount, but not its owner. A row keeps the owner
 * from the take on. A row without a scope is an end, or an extension, that
 * arrived before its take.
 */

/* "ID:LIMIT" */
struct hold_name {
    char text[2 * 16 + 1 + SL_USAGE_NAME + 1];
};

static struct sl_str hold_name(const struct sl_usage_entry *u,
                               struct hold_name *room)
{
    int len = snprintf(room->text, sizeof(room->text),
                       "%016" PRIx64 "%016" PRIx64 ":%.*s", u->hold[0],
                       u->hold[1], SL_STR_ARG(u->limit));

    return (struct sl_str){room->text, (size_t)len < sizeof(room->text)
                                           ? (size_t)len
                                           : sizeof(room->text) - 1};
}

struct hold_row {
    struct sl_str scope, id; /* in the database's arena; "": unknown */
    sl_ns start;
    int64_t amount;
    uint64_t cap;
    struct sl_str node;
    struct sl_str plan, zone; /* and `end`, `last_day` of the period `start` */
    sl_ns end;
    int64_t last_day;
    sl_ns expires;
};

/* The amount of a row that is an extension of a hold that is not known yet. */
#define EXTENDED (-1)

/* Returns 1, 0 without a row, or an error. */
static int find_hold(struct sl_database *db, struct sl_str name,
                     struct hold_row *ret)
{
    int64_t cap;
    int found = sl_query_one(db, SL_QUERY_HOLD, "t ttnnntnnttn", name,
                             &ret->scope, &ret->id, &ret->start, &ret->amount,
                             &cap, &ret->plan, &ret->end, &ret->last_day,
                             &ret->zone, &ret->node, &ret->expires);

    if (found == 1)
        ret->cap = cap >= 0 ? (uint64_t)cap : UINT64_MAX;
    return found;
}

static int drop_hold(struct sl_database *db, struct sl_str name)
{
    return sl_query_run(db, SL_QUERY_DROP_HOLD, "t", name);
}

static int put_hold(struct sl_database *db, struct sl_str name,
                    const struct sl_usage_entry *u, sl_ns until)
{
    struct sl_str id = u->scope.len > 0 ? u->id : SL_STR("");
    int err = sl_query_run(db, SL_QUERY_PUT_HOLD, "toonnnntnntt", name, id,
                           u->scope, u->start, u->amount, cap_of(u), until,
                           u->plan, u->end, u->last_day, u->zone, u->node);

    return err ? err
               : sl_query_run(db, SL_QUERY_TRIM_HOLDS, "n",
                              u->at - SL_HOLD_KEPT);
}

/* Records a part of the entry. The entry stays unchanged, because a failed job
 * is retried. */
static int put_part(struct sl_database *db, struct sl_usage_entry *u,
                    const struct hold_row *row, sl_ns start, int64_t amount)
{
    struct sl_usage_entry part = *u;
    int err;

    if (amount == 0)
        return 0;
    if (row->node.len > 0)
        part.node = row->node;
    part.cap = row->cap;
    part.plan = row->plan;
    if (start == row->start) {
        part.end = row->end;
        part.last_day = row->last_day;
        part.zone = row->zone;
    } else if (start != u->start) { /* its end is recorded later */
        part.end = 0;
        part.last_day = 0;
        part.zone = row->zone;
    }
    part.start = start;
    part.amount = amount;
    err = put(db, &part);
    u->cap = part.cap;
    u->used = part.used;
    u->threshold = part.threshold;
    u->threshold_before = part.threshold_before;
    u->absorbed |= part.absorbed;
    return err;
}

/* Returns the start of the period in which a hold ends, where `now` is that by
 * the calendar of the limit. If it is not after the period of the take, it is
 * the same period; or the subject has periods of its own, and the next one
 * begins where that of the take ends. */
static sl_ns end_start(const struct sl_usage_entry *u,
                       const struct hold_row *row, sl_ns now)
{
    if (row->end == 0 || now >= row->end)
        return now;
    return u->at < row->end ? row->start : row->end;
}

/* `amount` units of the hold were used: those held at the time of the take, the
 * rest at its end, in the period `now`. */
static int spend_hold(struct sl_database *db, struct sl_usage_entry *u,
                      const struct hold_row *row, int64_t amount, sl_ns now)
{
    int64_t rest;
    int err;

    now = end_start(u, row, now);
    rest = now != row->start && amount > row->amount ? amount - row->amount : 0;
    err = put_part(db, u, row, row->start, amount - rest);

    return err ? err : put_part(db, u, row, now, rest);
}

/* The node that has the hold in its table must end it there. (9) */
static int tell_node(struct sl_database *db, struct sl_str hold,
                     const struct sl_usage_entry *u, struct sl_str node,
                     sl_ns start, int64_t amount)
{
    return sl_query_run(db, SL_QUERY_PUT_END, "ttttnnt", hold, u->id, u->scope,
                        u->limit, start, amount, node);
}

bool sl_usage_hold_read(struct sl_str name, uint64_t ret[2])
{
    if (name.len < 32)
        return false;
    for (int i = 0; i < 32; i++) {
        int digit = sl_hex_value(name.at[i]);

        if (digit < 0)
            return false;
        ret[i / 16] = ret[i / 16] << 4 | (uint64_t)digit;
    }
    return true;
}

/* The node that has the hold in its table must extend it there, for as long as
 * the other daemon did. A later extension replaces this one, and so does the
 * end. (10) */
static int tell_longer(struct sl_database *db, struct sl_str hold,
                       const struct sl_usage_entry *of, struct sl_str node,
                       sl_ns until, sl_ns span)
{
    if (span <= 0 || until <= 0)
        return 0;
    return sl_query_run(db, SL_QUERY_PUT_EXTENSION, "ttttnntn", hold, of->id,
                        of->scope, of->limit, of->start, span, node, until);
}

/* The hold was extended before its take was recorded. */
static int begin_extended(struct sl_database *db, struct sl_str name,
                          const struct sl_usage_entry *u,
                          const struct hold_row *more)
{
    sl_ns until = more->expires > u->until ? more->expires : u->until;
    int err = put_hold(db, name, u, until);

    if (err || u->node.len == 0 || sl_str_eq(u->node, more->node))
        return err;
    return tell_longer(db, name, u, u->node, more->expires, more->start);
}

static int begin_hold(struct sl_database *db, struct sl_usage_entry *u)
{
    struct hold_name room;
    struct sl_str name = hold_name(u, &room);
    struct hold_row end, own = {.start = u->start,
                                .amount = u->amount,
                                .cap = u->cap,
                                .node = u->node,
                                .plan = u->plan,
                                .end = u->end,
                                .last_day = u->last_day,
                                .zone = u->zone};
    int err = find_hold(db, name, &end);

    if (err != 1)
        return err ? err : put_hold(db, name, u, u->until);
    err = drop_hold(db, name);
    if (!err && end.amount == EXTENDED)
        return begin_extended(db, name, u, &end);
    if (!err && u->node.len > 0 && !sl_str_eq(u->node, end.node))
        err = tell_node(db, name, u, u->node, u->start, end.amount);
    return err ? err : spend_hold(db, u, &own, end.amount, end.start);
}

int sl_usage_db_owner(struct sl_database *db, struct sl_usage_entry *u)
{
    struct hold_name room;
    struct hold_row row;
    int err = find_hold(db, hold_name(u, &room), &row);

    if (err != 1 || row.scope.len == 0)
        return err < 0 ? err : 0;
    err = sl_database_copy(db, u->names_in, row.scope, &u->scope);
    return err ? err : sl_database_copy(db, u->names_in, row.id, &u->id);
}

/* The hold has ended already, or its take is not recorded yet (`found` is 0).
 * Its node knows the end now. A repeat by another node tells it nothing. */
static int end_again(struct sl_database *db, struct sl_str name,
                     const struct sl_usage_entry *u, int found)
{
    struct sl_str hold;
    int known = 0;

    if (u->node.len > 0)
        known =
            sl_query_one(db, SL_QUERY_DROP_END, "tt t", name, u->node, &hold);
    if (known < 0)
        return known;
    return found || known ? 0 : put_hold(db, name, u, u->at);
}

static int end_hold(struct sl_database *db, struct sl_usage_entry *u)
{
    struct hold_name room;
    struct sl_str name = hold_name(u, &room);
    struct hold_row row;
    int err = find_hold(db, name, &row);

    if (err < 0)
        return err;
    if (err == 1 && row.amount == EXTENDED) {
        err = drop_hold(db, name);
        return err ? err : end_again(db, name, u, 0);
    }
    if (err == 0 || row.scope.len == 0)
        return end_again(db, name, u, err);
    err = 0;
    /* With several writers the owner is known by now: its slot is locked. */
    if (u->scope.len == 0)
        err = sl_usage_db_owner(db, u);
    if (!err)
        err = drop_hold(db, name);
    if (!err && row.node.len > 0 && !sl_str_eq(row.node, u->node))
        err = tell_node(db, name, u, row.node, row.start, u->amount);
    return err ? err : spend_hold(db, u, &row, u->amount, u->start);
}

/* The take is not recorded yet, or the hold has ended. Its node knows of the
 * extension, or it waits for the take, with its span as the start. */
static int extend_unknown(struct sl_database *db, struct sl_str name,
                          const struct sl_usage_entry *u)
{
    struct sl_usage_entry wait = *u;
    struct sl_str hold;
    int known = sl_query_one(db, SL_QUERY_DROP_EXTENSION, "ttn t", name,
                             u->node, u->until, &hold);

    if (known)
        return known < 0 ? known : 0;
    wait.scope = SL_STR("");
    wait.start = u->until - u->at;
    wait.amount = EXTENDED;
    return put_hold(db, name, &wait, u->until);
}

/* The node of the hold is told, or it tells that it knows. */
static int extend_known(struct sl_database *db, struct sl_str name,
                        const struct sl_usage_entry *u,
                        const struct hold_row *row)
{
    struct sl_usage_entry of = *u;
    struct sl_str hold;

    of.scope = row->scope;
    of.id = row->id;
    of.start = row->start;
    if (!sl_str_eq(row->node, u->node))
        return tell_longer(db, name, &of, row->node, u->until,
                           u->until - u->at);
    return sl_query_one(db, SL_QUERY_DROP_EXTENSION, "ttn t", name, u->node,
                        u->until, &hold);
}

static int extend_hold(struct sl_database *db, const struct sl_usage_entry *u)
{
    struct hold_name room;
    struct sl_str name = hold_name(u, &room);
    struct hold_row row;
    int err = find_hold(db, name, &row);

    if (err == 1 && row.amount == EXTENDED)
        err = drop_hold(db, name);
    if (err <= 0)
        return err ? err : extend_unknown(db, name, u);
    if (row.scope.len == 0)
        return 0; /* it has ended */
    if (row.node.len > 0)
        err = extend_known(db, name, u, &row);
    return err < 0
               ? err
               : sl_query_run(db, SL_QUERY_EXTEND_HOLD, "tn", name, u->until);
}

static int record_hold(struct sl_database *db, struct sl_usage_entry *u)
{
    int err;

    u->result = SL_USAGE_RECORDED;
    u->threshold = u->threshold_before = 0;
    switch (u->act) {
    case SL_USAGE_ACT_HOLD:
        return begin_hold(db, u);
    case SL_USAGE_ACT_HOLD_END:
        return end_hold(db, u);
    case SL_USAGE_ACT_HOLD_EXTEND:
        return extend_hold(db, u);
    case SL_USAGE_ACT_REFUNDED:
        err = run_refund(db, SL_QUERY_PAY, u, u->amount);
        return err ? err : run_refund(db, SL_QUERY_PAID, u, 0);
    case SL_USAGE_ACT_TAKE:
        break;
    }
    return 0;
}

/* ---- reading ahead.
 *
 * A take without a name changes no rows that a take of another counter reads.
 * Of two with the same counter, or the same key, the second reads when it is
 * recorded: the driver does not ask the same twice.
 */

int sl_usage_db_ahead(struct sl_database *db, const struct sl_usage_entry *u)
{
    int err = 0;

    if (!db->driver->prefetch || db->one_by_one || u->name.len > 0 ||
        u->act != SL_USAGE_ACT_TAKE || sl_usage_is_guess(u))
        return 0;
    sl_arena_reset(&db->arena);
    if (u->key.len > 0)
        err = sl_query_prefetch(db, SL_QUERY_KEY, "tttt", u->scope, u->id,
                                u->key, u->name);
    if (!err)
        err = sl_query_prefetch(db, SL_QUERY_COUNTER, "tttn", u->scope, u->id,
                                u->limit, u->start);
    if (!err && u->node.len > 0)
        err = sl_query_prefetch(db, SL_QUERY_LEASE_OWN, "tttnt", u->scope,
                                u->id, u->limit, u->start, u->node);
    return err ? err : 1;
}

int sl_usage_db_prefetch(struct sl_database *db,
                         const struct sl_usage_entry *list, unsigned count)
{
    int found = 1;

    for (unsigned i = 0; i < count && i < SL_USAGE_AHEAD && found == 1; i++)
        found = sl_usage_db_ahead(db, &list[i]);
    return found < 0 ? found : sl_query_fetch(db);
}

static int record_one(struct sl_database *db, struct sl_usage_entry *u)
{
    sl_arena_reset(&db->arena);
    u->change = 0;
    u->absorbed = u->is_short = false;
    return u->act == SL_USAGE_ACT_TAKE ? put(db, u) : record_hold(db, u);
}

int sl_usage_db_record(struct sl_database *db, struct sl_usage_entry *list,
                       unsigned count, unsigned *ret_failed)
{
    bool ahead = count > 1;
    unsigned i;
    int err = 0;

    for (i = 0; i < count && !err; i++) {
        *ret_failed = i;
        if (ahead && i % SL_USAGE_AHEAD == 0)
            err = sl_usage_db_prefetch(db, list + i, count - i);
        if (!err)
            err = record_one(db, &list[i]);
        if (!err && list[i].result >= SL_USAGE_CONFLICT)
            break;
    }
    if (!err && i == count)
        *ret_failed = count;
    return err || !ahead ? err : sl_query_fetch(db);
}

/* ---- credits of subjects ---- */

int sl_usage_db_grant(struct sl_database *db, struct sl_credit_grant *grant,
                      sl_ns now)
{
    int found =
        sl_query_one(db, SL_QUERY_PUT_CREDIT, "tttcwttn c", grant->scope,
                     grant->id, grant->limit, grant->amount, grant->expires,
                     grant->note, grant->by, now, &grant->number);

    return found < 0 ? found : 0;
}

int sl_usage_db_revoke(struct sl_database *db,
                       const struct sl_credit_grant *grant, bool *ret_found)
{
    int found = sl_query_one(db, SL_QUERY_DROP_CREDIT, "ttc", grant->scope,
                             grant->id, grant->number);

    *ret_found = found == 1;
    return found < 0 ? found : 0;
}

/* Amounts are whole units of `scale` counted ones. */
static void write_amounts(struct sl_writer *w, int64_t amount, int64_t unused,
                          int64_t scale)
{
    sl_writer_addf(w, ",\"amount\":%" PRId64 ",\"unused\":%" PRId64,
                   amount / scale, unused / scale);
    if (scale > 1)
        sl_writer_addf(w,
                       ",\"exact\":{\"scale\":%" PRId64 ",\"amount\":%" PRId64
                       ",\"unused\":%" PRId64 "}",
                       scale, amount, unused);
}

int sl_usage_db_credits_json(struct sl_database *db, const struct sl_job *job,
                             struct sl_buf *out)
{
    const enum sl_query q = SL_QUERY_CREDITS;
    struct sl_writer w = {.out = out};
    struct sl_str limit, note, by;
    int64_t seq, amount, unused;
    sl_ns expires, at;
    char time[SL_TIMESTAMP_TEXT];
    int found = 0;

    sl_query_bind(db, q, "tt", job->scope, job->id);
    while (!w.err && (found = sl_query_next(db, q, NULL, "ntnnwttn", &seq,
                                            &limit, &amount, &unused, &expires,
                                            &note, &by, &at)) == 1) {
        sl_json_open(&w, '{');
        sl_writer_addf(&w, "\"number\":%" PRId64, seq);
        sl_json_member_str(&w, "limit", limit);
        write_amounts(
            &w, amount, unused,
            job->scale_of ? (int64_t)job->scale_of(job->scale_ctx, limit) : 1);
        if (expires != SL_NS_NONE) {
            sl_timestamp_print(expires, false, time);
            sl_writer_addf(&w, ",\"expires\":\"%s\",\"expired\":%s", time,
                           job->now >= expires ? "true" : "false");
        } else {
            sl_writer_add(&w, SL_STR(",\"expires\":null"));
        }
        sl_json_member_str(&w, "note", note);
        sl_json_member_str(&w, "by", by);
        sl_timestamp_print(at, false, time);
        sl_json_member_text(&w, "at", time);
        sl_json_close(&w, '}');
    }
    sl_query_reset(db, q);
    return w.err ? w.err : found;
}

/* Reads up to `most` rows; other parameters are bound already. */
static int credit_load(struct sl_database *db, enum sl_query q, unsigned most,
                       struct sl_subject_draft *draft)
{
    int found = 1;

    for (; draft->credit_count < most; draft->credit_count++) {
        struct sl_credit *credit = &draft->credits[draft->credit_count];

        found = sl_query_next(db, q, &db->arena, "tcwwc", &credit->limit,
                              &credit->units, &credit->start, &credit->expires,
                              &credit->used);
        if (found != 1)
            break;
    }
    sl_query_reset(db, q);
    return found < 0 ? found : 0;
}

/* Is the period of the last credit that of another, too? */
static bool is_known(const struct sl_subject_draft *draft)
{
    const struct sl_credit *last = &draft->credits[draft->credit_count - 1];

    for (unsigned i = 0; i + 1 < draft->credit_count; i++)
        if (draft->credits[i].start == last->start &&
            sl_str_eq(draft->credits[i].limit, last->limit))
            return true;
    return false;
}

/* Adds what was used in the latest period of each limit with unused credits. */
static int add_used(struct sl_database *db, struct sl_str scope,
                    struct sl_str id, struct sl_subject_draft *draft)
{
    const enum sl_query q = SL_QUERY_LAST_PERIOD;
    unsigned count = draft->credit_count;
    int err = 0;

    for (unsigned i = 0; i < count && !err; i++) {
        unsigned before = draft->credit_count;

        if (draft->credits[i].start != SL_NS_NONE ||
            before == SL_SUBJECT_RECORD_CREDITS)
            continue;
        sl_query_bind(db, q, "ttt", scope, id, draft->credits[i].limit);
        err = credit_load(db, q, before + 1, draft);
        if (!err && draft->credit_count > before && is_known(draft))
            draft->credit_count--;
    }
    return err;
}

/* Used credits come first: without them the rest would count as used twice. */
int sl_usage_db_credits(struct sl_database *db, struct sl_str scope,
                        struct sl_str id, sl_ns now,
                        struct sl_subject_draft *draft)
{
    int err;

    sl_query_bind(db, SL_QUERY_USED_CREDITS, "tt", scope, id);
    err = credit_load(db, SL_QUERY_USED_CREDITS, SL_SUBJECT_RECORD_CREDITS / 2,
                      draft);
    if (err)
        return err;
    sl_query_bind(db, SL_QUERY_UNUSED_CREDITS, "ttn", scope, id, now);
    err = credit_load(db, SL_QUERY_UNUSED_CREDITS, SL_SUBJECT_RECORD_CREDITS,
                      draft);
    return err ? err : add_used(db, scope, id, draft);
}

/* ---- names of subjects and months. */

static int add_escaped(struct sl_buf *out, struct sl_str value)
{
    int err = 0;

    for (size_t i = 0; i < value.len && !err; i++)
        if (value.at[i] == ':' || value.at[i] == '%')
            err = sl_buf_addf(out, "%%%02X", (unsigned)value.at[i]);
        else
            err = sl_buf_add(out, (struct sl_str){value.at + i, 1});
    return err;
}

bool sl_usage_join(const struct sl_str *values, unsigned count,
                   struct sl_buf *out)
{
    if (count == 1)
        return values[0].len <= SL_USAGE_ID && !sl_buf_add(out, values[0]);
    for (unsigned i = 0; i < count; i++)
        if ((i > 0 && sl_buf_add(out, SL_STR(":"))) ||
            add_escaped(out, values[i]))
            return false;
    return out->len <= SL_USAGE_ID;
}

bool sl_usage_split(char *text, size_t len, unsigned count, struct sl_str *ret)
{
    if (count == 0)
        return len == 0;
    if (count == 1) {
        ret[0] = (struct sl_str){text, len};
        return true;
    }
    if (!sl_str_cut_values((struct sl_str){text, len}, count, ret))
        return false;
    for (unsigned i = 0; i < count; i++)
        ret[i] = sl_str_unescape(ret[i], text + (ret[i].at - text));
    return true;
}

int64_t sl_month_of(sl_ns at)
{
    int64_t year, month, day;

    sl_civil_from_days(at / SL_DAY, &year, &month, &day);
    return year * 100 + month;
}

/* ---- reading. */

const char sl_usage_db_forget[] =
    "DELETE FROM usage_counters; DELETE FROM usage_days;"
    "DELETE FROM usage_months; DELETE FROM usage_keys;"
    "DELETE FROM usage_things; DELETE FROM usage_credits;"
    "DELETE FROM usage_holds; DELETE FROM usage_ends; DELETE FROM usage_owed;"
    "DELETE FROM usage_leases; DELETE FROM usage_journals;"
    "DELETE FROM usage_segments;"
    "DELETE FROM usage_exports; DELETE FROM usage_before;"
    "DELETE FROM usage_erased";

static int read_rows(struct sl_database *db, enum sl_query q,
                     enum sl_usage_row_kind kind, struct sl_buf *out)
{
    struct sl_usage_row row;
    struct sl_str limit;
    int found, err = 0;

    memset(&row, 0, sizeof(row)); /* including padding */
    row.kind = kind;
    while (!err && (found = sl_query_next(db, q, NULL, "tnccc", &limit,
                                          &row.when, &row.used, &row.overage,
                                          &row.credited)) == 1) {
        if (limit.len > SL_USAGE_NAME)
            continue;
        memset(row.limit, 0, sizeof(row.limit));
        if (limit.len > 0)
            memcpy(row.limit, limit.at, limit.len);
        err = sl_buf_add(out, (struct sl_str){(char *)&row, sizeof(row)});
    }
    sl_query_reset(db, q);
    return err ? err : found;
}

int sl_usage_db_read(struct sl_database *db, struct sl_str scope,
                     struct sl_str id, sl_ns since, sl_ns started, sl_ns now,
                     struct sl_buf *out)
{
    const struct {
        enum sl_query query;
        enum sl_usage_row_kind kind;
        int64_t from;
    } parts[] = {
        {SL_QUERY_READ_COUNTERS, SL_ROW_COUNTER, started           },
        {SL_QUERY_READ_DAYS,     SL_ROW_DAY,     since / SL_DAY    },
        {SL_QUERY_READ_MONTHS,   SL_ROW_MONTH,   sl_month_of(since)},
        {SL_QUERY_READ_CREDITS,  SL_ROW_CREDIT,  now               },
    };
    int err = 0;

    for (size_t i = 0; i < SL_LEN(parts) && !err; i++) {
        sl_query_bind(db, parts[i].query, "ttn", scope, id, parts[i].from);
        err = read_rows(db, parts[i].query, parts[i].kind, out);
    }
    return err;
}

/* Units that only the table has. */
struct missing {
    struct sl_usage_entry usage;
    struct missing *next;
};

/* Keeps a copy of the entry for later. */
static int note_missing(struct sl_database *db, struct sl_arena *arena,
                        const struct sl_usage_entry *u, uint64_t units,
                        struct missing **first)
{
    struct missing *m = sl_arena_take(arena, sizeof(*m));
    int err;

    if (!m)
        return sl_diag_error(&db->diag, SLUICE_ENOMEM, "out of memory");
    *m = (struct missing){.usage = *u, .next = *first};
    m->usage.amount =
        (int64_t)(units < (uint64_t)SL_USAGE_MOST ? units
                                                  : (uint64_t)SL_USAGE_MOST);
    m->usage.cap = SL_USAGE_CAP_KEPT;
    err = sl_database_copy(db, arena, u->scope, &m->usage.scope);
    if (!err)
        err = sl_database_copy(db, arena, u->id, &m->usage.id);
    if (!err)
        err = sl_database_copy(db, arena, u->limit, &m->usage.limit);
    if (!err)
        *first = m;
    return err;
}

/* Records units that only the table has. Rows of holds do not matter: they are
 * kept after the hold has expired, and the table knows which units are held. */
static int record_missing(struct sl_database *db, struct missing *m)
{
    unsigned failed;
    int err = sl_query_run(db, SL_QUERY_BEGIN, "");

    if (!err)
        err = sl_usage_db_record(db, &m->usage, 1, &failed);
    if (!err)
        err = sl_query_run(db, SL_QUERY_COMMIT, "");
    if (err)
        db->driver->rollback(db);
    return err;
}

#define MISSING_MOST ((size_t)64 << 20)

/* Calls f() for a counter. */
static int compare(struct sl_database *db, struct sl_arena *arena,
                   struct sl_usage_entry *u, sl_usage_db_f *f, void *ctx,
                   struct missing **missing)
{
    int err = sl_erased_find(db, u);
    uint64_t units = err ? 0 : f(ctx, u);

    return units > 0 ? note_missing(db, arena, u, units, missing) : err;
}

/* Calls f() for the counters that only pending lines have. */
static int each_pending(struct sl_database *db, struct sl_arena *arena,
                        const struct sl_usage_pending *pending,
                        sl_usage_db_f *f, void *ctx, struct missing **missing)
{
    struct sl_usage_entry usage;
    uint32_t at = 0;
    int err = 0;

    while (!err && pending->next(pending->ctx, &at, &usage))
        err = compare(db, arena, &usage, f, ctx, missing);
    return err;
}

int sl_usage_db_each(struct sl_database *db, sl_ns since,
                     const struct sl_usage_pending *pending, sl_usage_db_f *f,
                     void *ctx)
{
    const enum sl_query q = SL_QUERY_EACH_COUNTER;
    struct sl_usage_entry usage = {.used = 0};
    struct missing *missing = NULL;
    struct sl_arena arena;
    sl_ns latest;
    int found, err = 0;

    sl_arena_init(&arena, MISSING_MOST, db->arena.alloc);
    sl_query_bind(db, q, "tn", db->node, since);
    while (!err && (found = sl_query_next(
                        db, q, NULL, "tttnccnnn", &usage.scope, &usage.id,
                        &usage.limit, &usage.start, &usage.used, &usage.owed,
                        &usage.at, &usage.end, &latest)) == 1) {
        usage.later = latest > usage.start;
        if (pending)
            pending->add(pending->ctx, &usage);
        err = compare(db, &arena, &usage, f, ctx, &missing);
    }
    sl_query_reset(db, q);
    err = err ? err : found;
    if (!err && pending)
        err = each_pending(db, &arena, pending, f, ctx, &missing);
    for (; missing && !err; missing = missing->next)
        err = record_missing(db, missing);
    sl_arena_done(&arena);
    /* sl_query_one() waits for the result. */
    return err ? err : sl_query_one(db, SL_QUERY_PAID_ALL, "t", db->node);
}
