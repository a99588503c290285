/* database.c -- the queries of the registry.
 *
 * The driver prepares all queries once. A bound text is borrowed until the
 * query is reset. A text of a row is copied to the arena.
 */
#include <inttypes.h>
#include <stdarg.h>
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

static int no_memory(struct sl_database *db)
{
    return sl_diag_error(&db->diag, SLUICE_ENOMEM, "out of memory");
}

int sl_database_copy(struct sl_database *db, struct sl_arena *arena,
                     struct sl_str text, struct sl_str *ret)
{
    char *copy = sl_arena_copy(arena, text);

    if (!copy)
        return no_memory(db);
    *ret = (struct sl_str){copy, text.len};
    return 0;
}

/* Binds the parameters. Returns the types of the columns. */
static const char *bind_values(struct sl_database *db, enum sl_query query,
                               const char *types, va_list *list)
{
    struct sl_str text;
    int64_t number;

    for (int at = 1; *types && *types != ' '; at++) {
        switch (*types++) {
        case 't':
        case 'o':
            text = va_arg(*list, struct sl_str);
            if (text.len > 0 || types[-1] == 't')
                db->driver->bind(db, query, at, &text, 0);
            break;
        case 'i':
            db->driver->bind(db, query, at, NULL, va_arg(*list, int));
            break;
        case 'n':
        case 'c':
            db->driver->bind(db, query, at, NULL, va_arg(*list, int64_t));
            break;
        case 'w':
            number = va_arg(*list, sl_ns);
            if (number != SL_NS_NONE)
                db->driver->bind(db, query, at, NULL, number);
            break;
        }
    }
    return types + (*types == ' ');
}

/* Reads the columns of a row. Texts are copied to the arena, if any. */
static int read_columns(struct sl_database *db, enum sl_query query,
                        struct sl_arena *arena, const char *types,
                        va_list *list)
{
    const struct sl_driver *driver = db->driver;
    int err = 0;

    for (int at = 0; types[at] && !err; at++) {
        struct sl_str text = SL_STR("");
        int64_t number;

        if (types[at] == 't') {
            struct sl_str *ret = va_arg(*list, struct sl_str *);

            (void)!driver->column(db, query, at, &text);
            err = arena ? sl_database_copy(db, arena, text, ret) : 0;
            if (!arena)
                *ret = text;
            continue;
        }
        number = driver->integer(db, query, at);
        if (types[at] == 'c')
            *va_arg(*list, uint64_t *) = number > 0 ? (uint64_t)number : 0;
        else if (types[at] == 'w' && !driver->column(db, query, at, &text))
            *va_arg(*list, sl_ns *) = SL_NS_NONE;
        else
            *va_arg(*list, int64_t *) = number;
    }
    return err;
}

int sl_query_prefetch(struct sl_database *db, enum sl_query query,
                      const char *types, ...)
{
    va_list list;

    if (!db->driver->prefetch)
        return 0;
    va_start(list, types);
    bind_values(db, query, types, &list);
    va_end(list);
    return db->driver->prefetch(db, query);
}

int sl_query_fetch(struct sl_database *db)
{
    return db->driver->fetch ? db->driver->fetch(db) : 0;
}

int sl_query_run(struct sl_database *db, enum sl_query query, const char *types,
                 ...)
{
    va_list list;

    va_start(list, types);
    bind_values(db, query, types, &list);
    va_end(list);
    return db->driver->run(db, query);
}

int sl_query_one(struct sl_database *db, enum sl_query query, const char *types,
                 ...)
{
    va_list list;
    int found, err = 0;

    va_start(list, types);
    types = bind_values(db, query, types, &list);
    found = db->driver->step(db, query);
    if (found == 1)
        err = read_columns(db, query, &db->arena, types, &list);
    va_end(list);
    db->driver->reset(db, query);
    return err ? err : found;
}

void sl_query_bind(struct sl_database *db, enum sl_query query,
                   const char *types, ...)
{
    va_list list;

    va_start(list, types);
    bind_values(db, query, types, &list);
    va_end(list);
}

int sl_query_next(struct sl_database *db, enum sl_query query,
                  struct sl_arena *arena, const char *types, ...)
{
    va_list list;
    int found = db->driver->step(db, query), err = 0;

    va_start(list, types);
    if (found == 1)
        err = read_columns(db, query, arena, types, &list);
    va_end(list);
    return err ? err : found;
}

void sl_query_reset(struct sl_database *db, enum sl_query query)
{
    db->driver->reset(db, query);
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
