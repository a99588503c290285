/* database.c -- the queries of the registry.
 *
 * The driver prepares all queries once. A bound text is borrowed until the
 * query is reset. A text of a row is copied to the arena.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "registry/registry_int.h"

/* For the texts of a subject, and its JSON before and after a change. */
#define ARENA_MOST ((size_t)4 << 20)

const char *const sl_queries[SL_QUERIES] = {
#define QUERY(id, text) [SL_QUERY_##id] = (text),
#include "registry/queries.def"
};

/* ---- one query ---- */

void sl_query_text(struct sl_database *db, enum sl_query query, int at,
                   struct sl_str text)
{
    db->driver->text(db, query, at, text);
}

void sl_query_number(struct sl_database *db, enum sl_query query, int at,
                     int64_t number)
{
    db->driver->number(db, query, at, number);
}

/* An unbound parameter is NULL: never. */
static void bind_time(struct sl_database *db, enum sl_query query, int at,
                      sl_ns time)
{
    if (time != SL_NS_NONE)
        sl_query_number(db, query, at, time);
}

static void bind_who(struct sl_database *db, enum sl_query query,
                     struct sl_str scope, struct sl_str id)
{
    sl_query_text(db, query, 1, scope);
    sl_query_text(db, query, 2, id);
}

int sl_query_step(struct sl_database *db, enum sl_query query)
{
    return db->driver->step(db, query);
}

void sl_query_reset(struct sl_database *db, enum sl_query query)
{
    db->driver->reset(db, query);
}

struct sl_str sl_query_column(struct sl_database *db, enum sl_query query,
                              int column)
{
    struct sl_str text;

    return db->driver->column(db, query, column, &text) ? text : SL_STR("");
}

int64_t sl_query_integer(struct sl_database *db, enum sl_query query,
                         int column)
{
    return db->driver->integer(db, query, column);
}

sl_ns sl_query_time(struct sl_database *db, enum sl_query query, int column)
{
    struct sl_str text;

    return db->driver->column(db, query, column, &text)
               ? db->driver->integer(db, query, column)
               : SL_NS_NONE;
}

static int no_memory(struct sl_database *db)
{
    return sl_diag_error(&db->diag, SLUICE_ENOMEM, "out of memory");
}

static int keep(struct sl_database *db, struct sl_str text, struct sl_str *ret)
{
    char *copy = sl_arena_copy(&db->arena, text);

    if (!copy)
        return no_memory(db);
    *ret = (struct sl_str){copy, text.len};
    return 0;
}

static int keep_column(struct sl_database *db, enum sl_query query, int column,
                       struct sl_str *ret)
{
    return keep(db, sl_query_column(db, query, column), ret);
}

/* Runs a query without rows whose parameters are bound. */
static int finish(struct sl_database *db, enum sl_query query)
{
    return db->driver->run(db, query);
}

int sl_database_run(struct sl_database *db, enum sl_query query)
{
    return finish(db, query);
}

int sl_database_script(struct sl_database *db, const char *sql)
{
    return db->driver->script(db, sql);
}

void sl_database_rollback(struct sl_database *db)
{
    db->driver->rollback(db);
}

/* ---- reading ---- */

static int load_names(struct sl_database *db, enum sl_query query,
                      const struct sl_subject_draft *of, struct sl_str *list,
                      unsigned most, unsigned *ret_count)
{
    int err;

    bind_who(db, query, of->scope, of->id);
    *ret_count = 0;
    while ((err = sl_query_step(db, query)) == 1 && *ret_count < most) {
        err = keep_column(db, query, 0, &list[*ret_count]);
        if (err)
            break;
        ++*ret_count;
    }
    sl_query_reset(db, query);
    return err < 0 ? err : 0;
}

static int load_rate(struct sl_database *db, struct sl_subject_override *rate)
{
    int err = keep_column(db, SL_QUERY_RATES, 0, &rate->limit);

    if (!err)
        err = keep_column(db, SL_QUERY_RATES, 1, &rate->rate);
    rate->until = sl_query_time(db, SL_QUERY_RATES, 2);
    if (!err)
        err = keep_column(db, SL_QUERY_RATES, 3, &rate->by);
    if (!err)
        err = keep_column(db, SL_QUERY_RATES, 4, &rate->note);
    return err;
}

static int load_rates(struct sl_database *db, struct sl_subject_draft *draft)
{
    int err;

    bind_who(db, SL_QUERY_RATES, draft->scope, draft->id);
    while ((err = sl_query_step(db, SL_QUERY_RATES)) == 1 &&
           draft->rate_count < SL_SUBJECT_RECORD_RATES) {
        err = load_rate(db, &draft->rates[draft->rate_count]);
        if (err)
            break;
        draft->rate_count++;
    }
    sl_query_reset(db, SL_QUERY_RATES);
    return err < 0 ? err : 0;
}

static int load_row(struct sl_database *db, struct sl_subject_draft *draft,
                    bool *ret_found)
{
    const enum sl_query q = SL_QUERY_SUBJECT;
    int err;

    bind_who(db, q, draft->scope, draft->id);
    err = sl_query_step(db, q);
    *ret_found = err == 1;
    if (err == 1) {
        err = keep_column(db, q, 0, &draft->plan);
        draft->expires = sl_query_time(db, q, 1);
        if (!err)
            err = keep_column(db, q, 2, &draft->note);
        if (!err)
            err = keep_column(db, q, 3, &draft->by);
        draft->updated = sl_query_integer(db, q, 4);
        draft->revision = (uint64_t)sl_query_integer(db, q, 5);
    }
    sl_query_reset(db, q);
    return err;
}

static int load_exactly(struct sl_database *db, struct sl_str scope,
                        struct sl_str id, struct sl_subject_draft *ret,
                        bool *ret_found)
{
    int err;

    memset(ret, 0, sizeof(*ret));
    ret->expires = SL_NS_NONE;
    err = keep(db, scope, &ret->scope);
    if (!err)
        err = keep(db, id, &ret->id);
    if (!err)
        err = load_row(db, ret, ret_found);
    if (err || !*ret_found)
        return err;
    err = load_names(db, SL_QUERY_ROLES, ret, ret->roles,
                     SL_SUBJECT_RECORD_ROLES, &ret->role_count);
    if (!err)
        err = load_names(db, SL_QUERY_ALIASES, ret, ret->aliases,
                         SL_SUBJECT_RECORD_ALIASES, &ret->alias_count);
    return err ? err : load_rates(db, ret);
}

int sl_database_alias(struct sl_database *db, struct sl_str scope,
                      struct sl_str alias, struct sl_str *ret_id)
{
    char *room = sl_arena_take(&db->arena, alias.len + 1);
    int err;

    if (!room)
        return no_memory(db);
    *ret_id = (struct sl_str){"", 0};
    bind_who(db, SL_QUERY_ALIAS, scope, sl_str_lower(alias, room));
    err = sl_query_step(db, SL_QUERY_ALIAS);
    if (err == 1)
        err = keep_column(db, SL_QUERY_ALIAS, 0, ret_id);
    sl_query_reset(db, SL_QUERY_ALIAS);
    return err;
}

int sl_database_load(struct sl_database *db, struct sl_str scope,
                     struct sl_str id, struct sl_subject_draft *ret,
                     bool *ret_found)
{
    struct sl_str own;
    int err = load_exactly(db, scope, id, ret, ret_found);

    if (err || *ret_found)
        return err;
    err = sl_database_alias(db, scope, id, &own);
    if (err || own.len == 0)
        return err;
    return load_exactly(db, scope, own, ret, ret_found);
}

int sl_database_next(struct sl_database *db, struct sl_str scope,
                     struct sl_str after, struct sl_str prefix,
                     struct sl_str *ret_id)
{
    const enum sl_query q = SL_QUERY_NEXT;
    struct sl_str id;
    int err;

    *ret_id = (struct sl_str){"", 0};
    bind_who(db, q, scope, after);
    sl_query_text(db, q, 3, prefix);
    err = sl_query_step(db, q);
    if (err == 1) {
        id = sl_query_column(db, q, 0);
        err = 0;
        if (id.len >= prefix.len &&
            sl_str_eq((struct sl_str){id.at, prefix.len}, prefix))
            err = keep(db, id, ret_id);
    }
    sl_query_reset(db, q);
    return err;
}

/* ---- writing ---- */

static int put_row(struct sl_database *db, const struct sl_subject_draft *d)
{
    const enum sl_query q = SL_QUERY_PUT_SUBJECT;

    bind_who(db, q, d->scope, d->id);
    sl_query_text(db, q, 3, d->plan);
    bind_time(db, q, 4, d->expires);
    sl_query_text(db, q, 5, d->note);
    sl_query_text(db, q, 6, d->by);
    sl_query_number(db, q, 7, d->updated);
    sl_query_number(db, q, 8, (int64_t)d->revision);
    return finish(db, q);
}

static int put_names(struct sl_database *db, enum sl_query query,
                     const struct sl_subject_draft *d,
                     const struct sl_str *list, unsigned count)
{
    int err = 0;

    for (unsigned i = 0; i < count && !err; i++) {
        bind_who(db, query, d->scope, d->id);
        sl_query_text(db, query, 3, list[i]);
        err = finish(db, query);
    }
    return err;
}

static int put_rates(struct sl_database *db, const struct sl_subject_draft *d)
{
    const enum sl_query q = SL_QUERY_PUT_RATE;
    int err = 0;

    for (unsigned i = 0; i < d->rate_count && !err; i++) {
        const struct sl_subject_override *rate = &d->rates[i];

        bind_who(db, q, d->scope, d->id);
        sl_query_text(db, q, 3, rate->limit);
        sl_query_text(db, q, 4, rate->rate);
        bind_time(db, q, 5, rate->until);
        sl_query_text(db, q, 6, rate->by);
        sl_query_text(db, q, 7, rate->note);
        err = finish(db, q);
    }
    return err;
}

static int drop(struct sl_database *db, enum sl_query query,
                const struct sl_subject_draft *d)
{
    bind_who(db, query, d->scope, d->id);
    return finish(db, query);
}

static int drop_all(struct sl_database *db, const struct sl_subject_draft *old,
                    bool row_too)
{
    int err = row_too ? drop(db, SL_QUERY_DROP_SUBJECT, old) : 0;

    if (!err && old->role_count > 0)
        err = drop(db, SL_QUERY_DROP_ROLES, old);
    if (!err && old->alias_count > 0)
        err = drop(db, SL_QUERY_DROP_ALIASES, old);
    if (!err && old->rate_count > 0)
        err = drop(db, SL_QUERY_DROP_RATES, old);
    return err;
}

static int put_all(struct sl_database *db, const struct sl_subject_draft *new)
{
    int err = put_row(db, new);

    if (!err)
        err =
            put_names(db, SL_QUERY_PUT_ROLE, new, new->roles, new->role_count);
    if (!err)
        err = put_names(db, SL_QUERY_PUT_ALIAS, new, new->aliases,
                        new->alias_count);
    return err ? err : put_rates(db, new);
}

int sl_database_store(struct sl_database *db,
                      const struct sl_subject_draft *old,
                      struct sl_subject_draft *new, struct sl_str by, sl_ns now)
{
    uint64_t line = 0;
    int err = sl_database_note(db, old, new, by, now, &line);

    if (!err && old)
        err = drop_all(db, old, !new);
    if (!err && new) {
        new->revision = line;
        err = put_all(db, new);
    }
    return err;
}

int sl_database_switch(struct sl_database *db, struct sl_str name, int on,
                       struct sl_str by, sl_ns now)
{
    enum sl_query q = on < 0 ? SL_QUERY_DROP_SWITCH : SL_QUERY_PUT_SWITCH;

    sl_query_text(db, q, 1, name);
    if (on >= 0) {
        sl_query_number(db, q, 2, on);
        sl_query_text(db, q, 3, by);
        sl_query_number(db, q, 4, now);
    }
    return finish(db, q);
}

/* ---- opening ---- */

int sl_database_open(struct sl_database *db, const struct sl_driver *driver,
                     const char *where, const struct sl_alloc *alloc,
                     struct sl_diag *diag)
{
    struct sl_hash_key random;
    int err;

    memset(db, 0, sizeof(*db));
    db->node = SL_STR("");
    err = sl_hash_key_make(&random);
    if (err)
        return sl_diag_error(diag, err,
                             "the system did not provide random bytes");
    snprintf(db->word, sizeof(db->word), "%016" PRIx64, random.k0);
    sl_arena_init(&db->arena, ARENA_MOST, alloc);
    if (!driver)
        driver = &sl_driver_sqlite;
    err = driver->open(db, where, diag);
    if (err)
        sl_arena_done(&db->arena);
    else
        db->driver = driver;
    return err;
}

void sl_database_close(struct sl_database *db)
{
    if (!db->driver)
        return;
    db->driver->close(db);
    db->driver = NULL;
    sl_arena_done(&db->arena);
}
