/* erase.c -- erasure: deletes everything that is stored about a subject.
 *
 * The subject has several names: its id and its aliases. Usage of limits per
 * several scopes is stored with joined names ("org:user", "acme:ann"): all that
 * contain one of the names are erased, too. Rows of the audit stay, without the
 * id, the values and the reason. Decisions keep their counts: see erased.c.
 *
 * Invariants. (test/daemon/erase.sh checks each by number.)
 *   (1) After it, no table has one of the names.
 *   (2) Rows of other subjects stay, also those whose names are similar.
 *   (3) It can be repeated.
 */
#include <string.h>

#include "registry/registry_int.h"

#define NAMES_MOST ((size_t)256 << 20) /* bytes of all names */
#define PARTS_MOST 8                   /* of a joined name; a limit has fewer */

struct name {
    struct name *next;
    struct sl_str scope, id;
};

struct erasure {
    struct sl_registry *r;
    struct sl_database *db;
    struct sl_arena arena;
    struct name *names, **last;
    sl_ns now;
};

static int no_memory(struct erasure *e)
{
    return sl_diag_error(&e->db->diag, SLUICE_ENOMEM, "out of memory");
}

/* Appends a name. Copies it. */
static int add_name(struct erasure *e, struct sl_str scope, struct sl_str id)
{
    struct name *name = sl_arena_take(&e->arena, sizeof(*name));
    int err;

    if (!name)
        return no_memory(e);
    name->next = NULL;
    err = sl_database_copy(e->db, &e->arena, scope, &name->scope);
    if (!err)
        err = sl_database_copy(e->db, &e->arena, id, &name->id);
    if (err)
        return err;
    *e->last = name;
    e->last = &name->next;
    return 0;
}

/* The id, which may be an alias, and all aliases. */
static int find_names(struct erasure *e, struct sl_str scope, struct sl_str id)
{
    struct sl_database *db = e->db;
    struct sl_str own = id, alias;
    int found = sl_query_one(db, SL_QUERY_ALIAS, "tt t", scope, id, &own);
    int err = found < 0 ? found : add_name(e, scope, own);

    if (!err && !sl_str_eq(own, id))
        err = add_name(e, scope, id);
    if (err)
        return err;
    own = e->names->id;
    sl_query_bind(db, SL_QUERY_ALIASES, "tt", scope, own);
    while (!err && (found = sl_query_next(db, SL_QUERY_ALIASES, NULL, "t",
                                          &alias)) == 1)
        if (!sl_str_eq(alias, id))
            err = add_name(e, scope, alias);
    sl_query_reset(db, SL_QUERY_ALIASES);
    return err ? err : found;
}

/* ---- joined names ---- */

/* Has a joined name this value of the scope? */
static bool has_name(struct erasure *e, struct sl_str scopes, struct sl_str ids,
                     const struct name *name)
{
    struct sl_str scope[PARTS_MOST], id[PARTS_MOST];
    char *texts[] = {(char *)sl_arena_copy(&e->arena, scopes),
                     (char *)sl_arena_copy(&e->arena, ids)};
    unsigned count = 1;

    for (size_t i = 0; i < scopes.len; i++)
        count += scopes.at[i] == ':';
    if (!texts[0] || !texts[1] || count > PARTS_MOST ||
        !sl_usage_split(texts[0], scopes.len, count, scope) ||
        !sl_usage_split(texts[1], ids.len, count, id))
        return false;
    for (unsigned i = 0; i < count; i++)
        if (sl_str_eq(scope[i], name->scope) && sl_str_eq(id[i], name->id))
            return true;
    return false;
}

/* The pattern '%:ID:%' of LIKE. */
static int write_pattern(struct erasure *e, struct sl_str id,
                         struct sl_buf *out)
{
    struct sl_str parts[2] = {id, SL_STR("")};
    struct sl_writer w = {.out = out};
    struct sl_buf joined;
    bool fits;

    sl_buf_init(&joined, SL_USAGE_ID, e->r->alloc);
    fits = sl_usage_join(parts, 2, &joined); /* "ID:" */
    sl_writer_add(&w, SL_STR("%:"));
    for (size_t i = 0; i < joined.len; i++) {
        char c = joined.bytes[i];

        if (c == '!' || c == '%' || c == '_')
            sl_writer_add(&w, SL_STR("!"));
        sl_writer_add(&w, (struct sl_str){joined.bytes + i, 1});
    }
    sl_writer_add(&w, SL_STR("%"));
    sl_buf_done(&joined);
    return fits && !w.err ? 0 : no_memory(e);
}

/* Appends the joined names that have this one. */
static int find_joined(struct erasure *e, const struct name *name)
{
    const enum sl_query q = SL_QUERY_JOINED_NAMES;
    struct sl_str scope, id;
    struct sl_buf pattern;
    int found = 0, err;

    sl_buf_init(&pattern, (size_t)4 * SL_USAGE_ID, e->r->alloc);
    err = write_pattern(e, name->id, &pattern);
    if (!err)
        sl_query_bind(e->db, q, "tt", SL_STR("%:%"), sl_buf_str(&pattern));
    while (!err &&
           (found = sl_query_next(e->db, q, NULL, "tt", &scope, &id)) == 1)
        if (has_name(e, scope, id, name))
            err = add_name(e, scope, id);
    sl_query_reset(e->db, q);
    sl_buf_done(&pattern);
    return err ? err : found;
}

/* ---- deleting ---- */

static int erase_name(struct erasure *e, const struct name *name)
{
    static const enum sl_query all[] = {
        SL_QUERY_DROP_SUBJECT,       SL_QUERY_DROP_ROLES,
        SL_QUERY_DROP_ALIASES,       SL_QUERY_DROP_RATES,
        SL_QUERY_ERASE_DAYS,         SL_QUERY_ERASE_MONTHS,
        SL_QUERY_ERASE_COUNTERS,     SL_QUERY_ERASE_KEYS,
        SL_QUERY_ERASE_THINGS,       SL_QUERY_ERASE_CREDITS,
        SL_QUERY_ERASE_HOLDS,        SL_QUERY_ERASE_ENDS,
        SL_QUERY_ERASE_OWED,         SL_QUERY_ERASE_LEASES,
        SL_QUERY_ERASE_BEFORE,       SL_QUERY_ERASE_AUDIT,
        SL_QUERY_DROP_BLOCK,         SL_QUERY_ERASE_DESTINATIONS,
        SL_QUERY_ERASE_ENDPOINTS,    SL_QUERY_ERASE_MESSAGES,
        SL_QUERY_ERASE_MESSAGE_KEYS, SL_QUERY_ERASE_DELIVERIES,
        SL_QUERY_ERASE_ATTEMPTS,
    };
    int err;

    sl_arena_reset(&e->db->arena);
    err = sl_erased_keep(e->db, name->scope, name->id, e->now);
    for (size_t i = 0; i < SL_LEN(all) && !err; i++)
        err = sl_query_run(e->db, all[i], "tt", name->scope, name->id);
    if (!err)
        err = sl_denials_erase(e->db, name->scope, name->id);
    sl_job_touch(e->r, name->scope, name->id);
    return err;
}

int sl_erase_run(struct sl_registry *r, const struct sl_job *job)
{
    struct erasure e = {.r = r, .db = &r->db, .now = job->now};
    struct name **own;
    int err;

    e.last = &e.names;
    sl_arena_init(&e.arena, NAMES_MOST, r->alloc);
    err = find_names(&e, job->scope, job->id);
    own = e.last; /* the joined ones follow */
    for (struct name *n = e.names; n && !err; n = n->next) {
        err = find_joined(&e, n);
        if (&n->next == own)
            break;
    }
    for (struct name *n = e.names; n && !err; n = n->next)
        err = erase_name(&e, n);
    sl_arena_done(&e.arena);
    return err;
}
