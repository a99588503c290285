/* usage_db.c -- records usage.
 *
 * A counter is read, changed and written. There is one writer, or a lock.
 */
#include "registry/usage_db.h"

#include <inttypes.h>
#include <string.h>

#include "base/parse.h"
#include "base/timestamp.h"
#include "registry/registry_int.h"
#include "wire/json.h"

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

/* Adds to a day or month: the level, or the amount. */
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

/* Looks the key up. If it is known, the result is REPLAYED or CONFLICT. */
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

/* ---- named amounts ---- */

static void bind_thing(struct sl_database *db, enum sl_query q,
                       const struct sl_usage_entry *u)
{
    bind(db, q, u);
    sl_query_text(db, q, 3, u->limit);
    sl_query_text(db, q, 4, u->name);
}

/* Returns the old amount of the name. */
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

/* A counter ends at SL_USAGE_MOST. Of an amount that does not fit, only the
 * part that fits is stored: its removal would otherwise reduce other amounts.
 */
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

/* ---- thresholds ---- */

/* Returns the highest threshold that `used` has reached. */
static unsigned reached(const struct sl_usage_entry *u, int64_t used)
{
    unsigned mark = 0;

    for (unsigned i = 0; i < u->thresholds.count; i++)
        if (u->cap > 0 && u->cap != UINT64_MAX &&
            (unsigned __int128)used * 100 >=
                (unsigned __int128)u->cap * u->thresholds.list[i])
            mark = u->thresholds.list[i];
    return mark;
}

/* ---- one amount ---- */

/* Returns how much of the amount is beyond the cap. */
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
    /* Usage refunded and used again was paid for already. */
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

/* Usage of a node is no longer leased to it. A reset changes no lease: its
 * unspent units are not used. */
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

/* Leased units may be used at any time, so nothing is granted beside them. They
 * may also come back. */
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

/* ---- credits: units granted to a subject that pay for overage. The first to
 * expire is used first.
 *
 * A decision sees the unused credits and those used in its period. Their sum
 * does not change when a credit is used, so slightly old numbers do no harm.
 */

static sl_ns time_of(struct sl_database *db, enum sl_query q, int column)
{
    return sl_query_time(db, q, column);
}

/* ---- using credits ---- */

/* Finds the next credit with units left: its number and units. */
static int find_next(struct sl_database *db, const struct sl_usage_entry *u,
                     int64_t *seq, int64_t *unused)
{
    const enum sl_query q = SL_QUERY_NEXT_CREDIT;
    int found;

    sl_query_text(db, q, 1, u->scope);
    sl_query_text(db, q, 2, u->id);
    sl_query_text(db, q, 3, u->limit);
    sl_query_number(db, q, 4, u->at);
    found = sl_query_step(db, q);
    if (found == 1) {
        *seq = number(db, q, 0);
        *unused = number(db, q, 1);
    }
    sl_query_reset(db, q);
    return found;
}

int sl_usage_db_absorb(struct sl_database *db, const struct sl_usage_entry *u,
                       int64_t over, int64_t *ret)
{
    const enum sl_query q = SL_QUERY_USE_CREDIT;
    int64_t seq = 0, unused = 0, taken;
    int err = 1;

    *ret = 0;
    while (over > *ret && (err = find_next(db, u, &seq, &unused)) == 1) {
        taken = unused < over - *ret ? unused : over - *ret;
        sl_query_number(db, q, 1, seq);
        sl_query_number(db, q, 2, taken);
        err = sl_database_run(db, q);
        if (err)
            return err;
        *ret += taken;
    }
    return err < 0 ? err : 0;
}

/* ---- granting and removing ---- */

int sl_usage_db_grant(struct sl_database *db, struct sl_credit_grant *grant,
                      sl_ns now)
{
    const enum sl_query q = SL_QUERY_PUT_CREDIT;
    int err;

    sl_query_text(db, q, 1, grant->scope);
    sl_query_text(db, q, 2, grant->id);
    sl_query_text(db, q, 3, grant->limit);
    sl_query_number(db, q, 4, (int64_t)grant->amount);
    if (grant->expires != SL_NS_NONE)
        sl_query_number(db, q, 5, grant->expires);
    sl_query_text(db, q, 6, grant->note);
    sl_query_text(db, q, 7, grant->by);
    sl_query_number(db, q, 8, now);
    err = sl_query_step(db, q);
    if (err == 1)
        grant->number = (uint64_t)number(db, q, 0);
    sl_query_reset(db, q);
    return err < 0 ? err : 0;
}

int sl_usage_db_revoke(struct sl_database *db,
                       const struct sl_credit_grant *grant, bool *ret_found)
{
    const enum sl_query q = SL_QUERY_DROP_CREDIT;
    int err;

    sl_query_text(db, q, 1, grant->scope);
    sl_query_text(db, q, 2, grant->id);
    sl_query_number(db, q, 3, (int64_t)grant->number);
    err = sl_query_step(db, q);
    *ret_found = err == 1;
    sl_query_reset(db, q);
    return err < 0 ? err : 0;
}

/* ---- reading ---- */

static int write_credit(struct sl_database *db, sl_ns now, struct sl_buf *out)
{
    const enum sl_query q = SL_QUERY_CREDITS;
    sl_ns expires = time_of(db, q, 4);
    char at[SL_TIMESTAMP_TEXT];
    int err = sl_buf_addf(
        out, "{\"number\":%" PRId64 ",\"limit\":", number(db, q, 0));

    if (!err)
        err = sl_json_string(out, sl_query_column(db, q, 1));
    if (!err)
        err = sl_buf_addf(out, ",\"amount\":%" PRId64 ",\"unused\":%" PRId64,
                          number(db, q, 2), number(db, q, 3));
    if (expires != SL_NS_NONE)
        sl_timestamp_print(expires, false, at);
    if (!err)
        err = expires == SL_NS_NONE
                  ? sl_buf_addf(out, ",\"expires\":null")
                  : sl_buf_addf(out, ",\"expires\":\"%s\",\"expired\":%s", at,
                                now >= expires ? "true" : "false");
    if (!err)
        err = sl_buf_addf(out, ",\"note\":");
    if (!err)
        err = sl_json_string(out, sl_query_column(db, q, 5));
    if (!err)
        err = sl_buf_addf(out, ",\"by\":");
    if (!err)
        err = sl_json_string(out, sl_query_column(db, q, 6));
    sl_timestamp_print(number(db, q, 7), false, at);
    return err ? err : sl_buf_addf(out, ",\"at\":\"%s\"}", at);
}

int sl_usage_db_credits_json(struct sl_database *db, struct sl_str scope,
                             struct sl_str id, sl_ns now, struct sl_buf *out)
{
    const enum sl_query q = SL_QUERY_CREDITS;
    bool first = true;
    int err;

    sl_query_text(db, q, 1, scope);
    sl_query_text(db, q, 2, id);
    while ((err = sl_query_step(db, q)) == 1) {
        err = first ? 0 : sl_buf_add(out, SL_STR(","));
        if (!err)
            err = write_credit(db, now, out);
        if (err)
            break;
        first = false;
    }
    sl_query_reset(db, q);
    return err;
}

/* Reads up to `most` rows; other parameters are bound already. */
static int credit_load(struct sl_database *db, enum sl_query q,
                       struct sl_str scope, struct sl_str id, unsigned most,
                       struct sl_subject_draft *draft)
{
    int err;

    sl_query_text(db, q, 1, scope);
    sl_query_text(db, q, 2, id);
    while ((err = sl_query_step(db, q)) == 1 && draft->credit_count < most) {
        struct sl_str limit = sl_query_column(db, q, 0);
        const char *copy = sl_arena_copy(&db->arena, limit);

        if (!copy) {
            err = sl_diag_error(&db->diag, SLUICE_ENOMEM, "out of memory");
            break;
        }
        draft->credits[draft->credit_count++] = (struct sl_credit){
            .limit = {copy, limit.len},
            .units = (uint64_t)number(db, q, 1),
            .start = time_of(db, q, 2),
            .expires = time_of(db, q, 3),
        };
    }
    sl_query_reset(db, q);
    return err < 0 ? err : 0;
}

/* Used credits come first: without them the rest would count as used twice. */
int sl_usage_db_credits(struct sl_database *db, struct sl_str scope,
                        struct sl_str id, sl_ns now,
                        struct sl_subject_draft *draft)
{
    int err = credit_load(db, SL_QUERY_USED_CREDITS, scope, id,
                          SL_SUBJECT_RECORD_CREDITS / 2, draft);

    if (err)
        return err;
    sl_query_number(db, SL_QUERY_UNUSED_CREDITS, 3, now);
    return credit_load(db, SL_QUERY_UNUSED_CREDITS, scope, id,
                       SL_SUBJECT_RECORD_CREDITS, draft);
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

static int digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Unescapes one value in place. Returns false if an escape is invalid. */
static bool unescape(struct sl_str *value)
{
    char *at = (char *)value->at;
    size_t len = 0;

    for (size_t i = 0; i < value->len; i++, len++) {
        int high, low;

        at[len] = at[i];
        if (at[i] != '%')
            continue;
        if (value->len - i < 3)
            return false;
        high = digit(at[i + 1]);
        low = digit(at[i + 2]);
        if (high < 0 || low < 0)
            return false;
        at[len] = (char)(16 * high + low);
        i += 2;
    }
    value->len = len;
    return true;
}

bool sl_usage_split(char *text, size_t len, unsigned count, struct sl_str *ret)
{
    unsigned found = 0;
    size_t from = 0;

    if (count == 0)
        return len == 0;
    if (count == 1) {
        ret[0] = (struct sl_str){text, len};
        return true;
    }
    for (size_t i = 0; i <= len; i++) {
        if (i < len && text[i] != ':')
            continue;
        if (found == count)
            return false;
        ret[found++] = (struct sl_str){text + from, i - from};
        from = i + 1;
    }
    if (found != count)
        return false;
    for (unsigned i = 0; i < count; i++)
        if (!unescape(&ret[i]))
            return false;
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
    "DELETE FROM usage_holds; DELETE FROM usage_owed;"
    "DELETE FROM usage_leases";

static uint64_t read_number(struct sl_database *db, enum sl_query q, int column)
{
    int64_t n = sl_query_integer(db, q, column);

    return n > 0 ? (uint64_t)n : 0;
}

static int read_rows(struct sl_database *db, enum sl_query q,
                     enum sl_usage_row_kind kind, struct sl_buf *out)
{
    struct sl_usage_row row;
    struct sl_str limit;
    int err;

    while ((err = sl_query_step(db, q)) == 1) {
        memset(&row, 0, sizeof(row)); /* including padding */
        limit = sl_query_column(db, q, 0);
        if (limit.len > SL_USAGE_NAME)
            continue;
        if (limit.len > 0)
            memcpy(row.limit, limit.at, limit.len);
        row.kind = kind;
        row.when = sl_query_integer(db, q, 1);
        row.used = read_number(db, q, 2);
        row.overage = read_number(db, q, 3);
        row.credited = read_number(db, q, 4);
        err = sl_buf_add(out, (struct sl_str){(char *)&row, sizeof(row)});
        if (err)
            break;
    }
    sl_query_reset(db, q);
    return err;
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
        sl_query_text(db, parts[i].query, 1, scope);
        sl_query_text(db, parts[i].query, 2, id);
        sl_query_number(db, parts[i].query, 3, parts[i].from);
        err = read_rows(db, parts[i].query, parts[i].kind, out);
    }
    return err;
}

int sl_usage_db_each(struct sl_database *db, sl_ns since, sl_usage_db_f *f,
                     void *ctx)
{
    const enum sl_query q = SL_QUERY_EACH_COUNTER;
    int err;

    sl_query_text(db, q, 1, db->node);
    sl_query_number(db, q, 2, since);
    while ((err = sl_query_step(db, q)) == 1) {
        struct sl_usage_entry usage = {
            .scope = sl_query_column(db, q, 0),
            .id = sl_query_column(db, q, 1),
            .limit = sl_query_column(db, q, 2),
            .start = sl_query_integer(db, q, 3),
            .used = read_number(db, q, 4),
            .owed = read_number(db, q, 5),
        };

        f(ctx, &usage);
    }
    sl_query_reset(db, q);
    if (err)
        return err;
    sl_query_text(db, SL_QUERY_PAID_ALL, 1, db->node);
    err = sl_query_step(db, SL_QUERY_PAID_ALL); /* and wait for it */
    sl_query_reset(db, SL_QUERY_PAID_ALL);
    return err;
}
