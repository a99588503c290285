/* credit.c -- credits: units that were given to somebody, and that absorb what
 * lies beyond a limit; those that expire first go first.
 *
 * Whoever decides counts what is unused and what was used in the period of the
 * decision: their sum does not change when one becomes the other, so that it
 * does not matter how fresh his numbers are.
 */
#include <inttypes.h>

#include "base/instant.h"
#include "identity/ledger/ledger.h"
#include "identity/registry/database.h"
#include "wire/json.h"

static int64_t number(struct sl_database *db, enum sl_query q, int column)
{
    return sl_query_integer(db, q, column);
}

static sl_ns time_of(struct sl_database *db, enum sl_query q, int column)
{
    return sl_query_time(db, q, column);
}

/* ---- using them up ---- */

/* The next credit that has something left: its number, and how much. */
static int find_next(struct sl_database *db, const struct sl_usage *u,
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

int sl_ledger_absorb(struct sl_database *db, const struct sl_usage *u,
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

/* ---- giving and taking away ---- */

int sl_ledger_grant(struct sl_database *db, struct sl_credit_grant *grant,
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

int sl_ledger_revoke(struct sl_database *db,
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
    char at[SL_INSTANT_TEXT];
    int err = sl_buf_addf(
        out, "{\"number\":%" PRId64 ",\"limit\":", number(db, q, 0));

    if (!err)
        err = sl_json_string(out, sl_query_column(db, q, 1));
    if (!err)
        err = sl_buf_addf(out, ",\"amount\":%" PRId64 ",\"unused\":%" PRId64,
                          number(db, q, 2), number(db, q, 3));
    if (expires != SL_NS_NONE)
        sl_instant_print(expires, false, at);
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
    sl_instant_print(number(db, q, 7), false, at);
    return err ? err : sl_buf_addf(out, ",\"at\":\"%s\"}", at);
}

int sl_ledger_credits_json(struct sl_database *db, struct sl_str scope,
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

/* Until there are `most`; what is bound besides is bound already. */
static int load(struct sl_database *db, enum sl_query q, struct sl_str scope,
                struct sl_str id, unsigned most, struct sl_draft *draft)
{
    int err;

    sl_query_text(db, q, 1, scope);
    sl_query_text(db, q, 2, id);
    while ((err = sl_query_step(db, q)) == 1 && draft->credit_count < most) {
        struct sl_str limit = sl_query_column(db, q, 0);
        const char *copy = sl_arena_copy(&db->arena, limit);

        if (!copy) {
            err = sl_refuse(&db->diag, SLUICE_ENOMEM, "out of memory");
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

/* What was used comes first: without it, the rest would be counted as used up
 * twice. */
int sl_ledger_credits(struct sl_database *db, struct sl_str scope,
                      struct sl_str id, sl_ns now, struct sl_draft *draft)
{
    int err =
        load(db, SL_QUERY_USED_CREDITS, scope, id, SL_ENTRY_CREDITS / 2, draft);

    if (err)
        return err;
    sl_query_number(db, SL_QUERY_UNUSED_CREDITS, 3, now);
    return load(db, SL_QUERY_UNUSED_CREDITS, scope, id, SL_ENTRY_CREDITS,
                draft);
}
