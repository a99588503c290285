/* erased.c -- what the table of the store goes on counting of erased counters.
 *
 * The table has hashes of names and is not changed by an erasure. At the next
 * start it has more than the database, and that must not be recorded again: it
 * is kept here, by a hash of the names with the secret of the table. Without
 * the table the hash says nothing, and so is never found.
 *
 * Invariant: between two starts, units of the table = used + erased, but for
 * what is on its way between the two.
 */
#include <inttypes.h>
#include <stdio.h>

#include "registry/registry_int.h"

struct hash_text {
    char text[33];
};

/* A chain, so that no name can take a part of the next one. */
static struct sl_str hash_of(const struct sl_database *db,
                             const struct sl_usage_entry *u,
                             struct hash_text *room)
{
    const struct sl_str texts[] = {
        SL_STR("erased"),
        u->scope,
        u->id,
        u->limit,
        {(const char *)&u->start, sizeof(u->start)}
    };
    struct sl_hash_key key = db->secret;

    for (size_t i = 0; i < SL_LEN(texts); i++) {
        struct sl_hash128 hash = sl_hash128(&key, texts[i]);

        key = (struct sl_hash_key){hash.lo, hash.hi};
    }
    snprintf(room->text, sizeof(room->text), "%016" PRIx64 "%016" PRIx64,
             key.k0, key.k1);
    return (struct sl_str){room->text, sizeof(room->text) - 1};
}

int sl_erased_keep(struct sl_database *db, struct sl_str scope,
                   struct sl_str id, sl_ns now)
{
    const enum sl_query q = SL_QUERY_ERASED_COUNTERS;
    struct sl_usage_entry u = {.scope = scope, .id = id};
    struct hash_text room;
    int64_t used;
    int found = 0, err = 0;

    if (!db->has_secret)
        return 0;
    err = sl_query_run(db, SL_QUERY_TRIM_ERASED, "n", now);
    sl_query_bind(db, q, "ttn", scope, id, now);
    while (!err && (found = sl_query_next(db, q, NULL, "tnnn", &u.limit,
                                          &u.start, &used, &u.end)) == 1)
        err = sl_query_run(db, SL_QUERY_PUT_ERASED, "tnn",
                           hash_of(db, &u, &room), used, u.end);
    sl_query_reset(db, q);
    return err ? err : found;
}

int sl_erased_find(struct sl_database *db, struct sl_usage_entry *u)
{
    struct hash_text room;
    int found;

    u->erased = 0;
    if (!db->has_secret)
        return 0;
    found = sl_query_one(db, SL_QUERY_ERASED, "t c", hash_of(db, u, &room),
                         &u->erased);
    return found < 0 ? found : 0;
}

int sl_erased_drop(struct sl_database *db, const struct sl_usage_entry *u)
{
    struct hash_text room;

    return db->has_secret ? sl_query_run(db, SL_QUERY_DROP_ERASED, "t",
                                         hash_of(db, u, &room))
                          : 0;
}
