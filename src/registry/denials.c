/* denials.c -- the tables of the denial history.
 *
 * Invariants. (test/unit/registry/denials.c checks each by number.)
 *   (1) A record is written once, however often its job is repeated.
 *   (2) With `hashed` no table has a name; the same question finds the record.
 *   (3) A page continues where the one before ended, also if records were added
 *       or deleted between them.
 */
#include "registry/denials.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/timestamp.h"
#include "registry/registry_int.h"
#include "wire/json.h"

#define SECRET "denials"
#define NEVER  INT64_MAX

/* ---- names ---- */

void sl_denial_hash(const struct sl_hash_key *key, struct sl_denial_name name,
                    char out[SL_DENIAL_HASH])
{
    struct sl_hash_key of_scope = {key->k0 ^ sl_hash64(key, name.scope),
                                   key->k1};
    struct sl_hash128 h = sl_hash128(&of_scope, name.id);

    snprintf(out, SL_DENIAL_HASH, "#%016" PRIx64 "%016" PRIx64, h.hi, h.lo);
}

int sl_denial_names_write(const struct sl_denial_record *record,
                          const struct sl_hash_key *key, struct sl_buf *out)
{
    struct sl_writer w = {.out = out};
    char hash[SL_DENIAL_HASH];

    sl_json_open(&w, '{');
    for (unsigned i = 0; i < record->name_count; i++) {
        struct sl_denial_name name = record->names[i];

        if (key)
            sl_denial_hash(key, name, hash);
        sl_json_key(&w, name.scope);
        sl_json_str(&w, key ? sl_str_c(hash) : name.id);
    }
    sl_json_close(&w, '}');
    return w.err;
}

/* ---- JSON ---- */

int sl_denial_record_write(const struct sl_denial_record *r,
                           struct sl_str names, struct sl_buf *out)
{
    struct sl_writer w = {.out = out};
    char at[SL_TIMESTAMP_TEXT], cursor[48];

    sl_timestamp_print(r->at, true, at);
    snprintf(cursor, sizeof(cursor), "%" PRId64 "-%" PRIu64, r->at, r->number);
    sl_json_open(&w, '{');
    sl_json_member_text(&w, "cursor", cursor);
    sl_json_member_text(&w, "at", at);
    sl_json_member_str(&w, "request_id", r->request_id);
    sl_json_key(&w, SL_STR("allowed"));
    sl_json_flag(&w, r->allowed);
    sl_writer_addf(&w, ",\"status\":%d", r->status);
    sl_json_member_str(&w, "code", r->code);
    sl_json_member_str(&w, "reason", r->reason);
    sl_json_member_str(&w, "endpoint", r->endpoint);
    sl_json_member_str(&w, "plan", r->plan);
    if (r->limit.len > 0) {
        sl_json_member_str(&w, "limit", r->limit);
        sl_json_member_str(&w, "scope", r->scope);
        sl_writer_addf(&w,
                       ",\"cost\":%" PRIu64 ",\"capacity\":%" PRIu64
                       ",\"remaining\":%" PRIu64,
                       r->cost, r->capacity, r->remaining);
    }
    if (r->retry_in >= 0)
        sl_writer_addf(&w, ",\"retry_after_ms\":%" PRId64,
                       r->retry_in / SL_MS + (r->retry_in % SL_MS > 0));
    if (r->line > 0)
        sl_writer_addf(&w, ",\"line\":%u", r->line);
    sl_json_key(&w, SL_STR("degraded"));
    sl_json_flag(&w, r->degraded);
    sl_json_key(&w, SL_STR("caller"));
    sl_json_raw(&w, names);
    sl_json_member_str(&w, "daemon", r->node);
    sl_json_close(&w, '}');
    sl_writer_add(&w, SL_STR("\n"));
    return w.err;
}

/* ---- the secret ---- */

/* Makes it if there is none. */
static int read_secret(struct sl_database *db, struct sl_hash_key *ret)
{
    struct sl_str text, memo;
    int64_t pending, until, uses;
    char hex[33], copy[33];
    int err = sl_hash_key_make(ret);

    if (err)
        return sl_diag_error(&db->diag, err, "the kernel gave no random bytes");
    snprintf(hex, sizeof(hex), "%016" PRIx64 "%016" PRIx64, ret->k0, ret->k1);
    err = sl_query_run(db, SL_QUERY_SECRET_REPEAT, "tnt", SL_STR(SECRET), NEVER,
                       sl_str_c(hex));
    if (!err)
        err = sl_query_one(db, SL_QUERY_REPEAT, "t tnnnt", SL_STR(SECRET),
                           &text, &pending, &until, &uses, &memo);
    if (err <= 0)
        return err < 0 ? err : SLUICE_ESTORE;
    snprintf(copy, sizeof(copy), "%.*s", SL_STR_ARG(text));
    return sscanf(copy, "%16" SCNx64 "%16" SCNx64, &ret->k0, &ret->k1) == 2
               ? 0
               : sl_diag_error(&db->diag, SLUICE_EDAMAGE,
                               "the secret of the denial history is damaged");
}

/* ---- writing ---- */

static int put_names(struct sl_database *db, const struct sl_denial_record *r,
                     const struct sl_hash_key *key)
{
    char hash[SL_DENIAL_HASH];
    int err = 0;

    for (unsigned i = 0; i < r->name_count && !err; i++) {
        if (key)
            sl_denial_hash(key, r->names[i], hash);
        err = sl_query_run(
            db, SL_QUERY_PUT_DENIAL_NAME, "ttnn", r->names[i].scope,
            key ? sl_str_c(hash) : r->names[i].id, r->at, (int64_t)r->number);
    }
    return err;
}

static int64_t number_of(uint64_t amount)
{
    return amount < INT64_MAX ? (int64_t)amount : INT64_MAX;
}

static int put(struct sl_database *db, const struct sl_denial_record *r,
               const struct sl_hash_key *key, struct sl_buf *names)
{
    int err;

    sl_buf_clear(names);
    err = sl_denial_names_write(r, key, names);
    if (err)
        return sl_diag_error(&db->diag, err, "out of memory");
    err = sl_query_run(
        db, SL_QUERY_PUT_DENIAL, "nnttiiittttttnnnwit", (int64_t)r->number,
        r->at, r->node, r->request_id, (int)r->allowed, (int)r->degraded,
        r->status, r->code, r->reason, r->endpoint, r->limit, r->plan, r->scope,
        number_of(r->cost), number_of(r->capacity), number_of(r->remaining),
        r->retry_in, (int)r->line, sl_buf_str(names));
    return err ? err : put_names(db, r, key);
}

int sl_denials_put(struct sl_database *db, struct sl_denial_job *job)
{
    struct sl_buf names;
    int err;

    sl_arena_reset(&db->arena);
    err = read_secret(db, &job->key);
    sl_buf_init(&names, (size_t)16 << 10, db->arena.alloc);
    for (unsigned i = 0; i < job->count && !err; i++)
        err = put(db, &job->records[i], job->hashed ? &job->key : NULL, &names);
    sl_buf_done(&names);
    return err;
}

/* ---- reading ---- */

static void bind(struct sl_database *db, enum sl_query q,
                 const struct sl_denial_query *query, struct sl_str hash)
{
    int64_t number = number_of(query->before_number);

    if (q == SL_QUERY_DENIALS_BY_REQUEST)
        sl_query_bind(db, q, "tnni", query->request_id, query->before, number,
                      query->most);
    else if (q == SL_QUERY_DENIALS_OF)
        sl_query_bind(db, q, "tttnnnnii", query->scope, query->id, hash,
                      query->from, query->to, query->before, number,
                      (int)query->passed, query->most);
    else
        sl_query_bind(db, q, "nnnnii", query->from, query->to, query->before,
                      number, (int)query->passed, query->most);
}

static int read_rows(struct sl_database *db, enum sl_query q,
                     struct sl_buf *out)
{
    struct sl_denial_record r = {0};
    int64_t allowed, degraded, status, line;
    struct sl_str names;
    int found, err = 0;

    while (!err &&
           (found = sl_query_next(
                db, q, NULL, "cnttnnnttttttcccwnt", &r.number, &r.at, &r.node,
                &r.request_id, &allowed, &degraded, &status, &r.code, &r.reason,
                &r.endpoint, &r.limit, &r.plan, &r.scope, &r.cost, &r.capacity,
                &r.remaining, &r.retry_in, &line, &names)) == 1) {
        r.allowed = allowed;
        r.degraded = degraded;
        r.status = (int)status;
        r.line = (unsigned)line;
        err = sl_denial_record_write(&r, names, out);
    }
    sl_query_reset(db, q);
    return err ? err : found;
}

int sl_denials_read(struct sl_database *db, const struct sl_denial_query *query,
                    struct sl_buf *out)
{
    enum sl_query q = SL_QUERY_DENIALS_ALL;
    char hash[SL_DENIAL_HASH] = "";
    struct sl_hash_key key;
    int err;

    if (query->request_id.len > 0)
        q = SL_QUERY_DENIALS_BY_REQUEST;
    else if (query->scope.len > 0)
        q = SL_QUERY_DENIALS_OF;
    if (q == SL_QUERY_DENIALS_OF) {
        err = read_secret(db, &key);
        if (err)
            return err;
        sl_denial_hash(&key, (struct sl_denial_name){query->scope, query->id},
                       hash);
    }
    bind(db, q, query, sl_str_c(hash));
    return read_rows(db, q, out);
}

/* ---- deleting ---- */

int sl_denials_erase(struct sl_database *db, struct sl_str scope,
                     struct sl_str id)
{
    struct sl_denial_name name = {scope, id};
    char hash[SL_DENIAL_HASH];
    struct sl_hash_key key;
    int err = read_secret(db, &key);

    if (err)
        return err;
    sl_denial_hash(&key, name, hash);
    err = sl_query_run(db, SL_QUERY_ERASE_DENIALS, "ttt", scope, id,
                       sl_str_c(hash));
    return err ? err
               : sl_query_run(db, SL_QUERY_ERASE_DENIAL_NAMES, "ttt", scope, id,
                              sl_str_c(hash));
}

int sl_denials_oldest(struct sl_database *db, int64_t rows, sl_ns *ret)
{
    int found = sl_query_one(db, SL_QUERY_DENIAL_NTH, "n n", rows, ret);

    return found < 0 ? found : 0;
}
