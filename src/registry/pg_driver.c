/* pg_driver.c -- runs the queries of the registry on PostgreSQL.
 *
 * All statements are prepared when a connection is opened. Statements without
 * rows are only sent. A query waits for all before it (pg.h).
 */
#include <inttypes.h>
#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "registry/pg.h"

#define SQL_MOST 4096

/* Advisory locks of subjects; "sluc". */
#define LOCK_SPACE "1936487779"

/* Queries that differ for PostgreSQL. Any daemon may trim old keys. */
static const struct {
    enum sl_query query;
    const char *sql;
} own[] = {
    {SL_QUERY_BEGIN,      "BEGIN"                                          },
    {SL_QUERY_TRIM_KEYS,
     "DELETE FROM usage_keys WHERE (scope, id, key) IN (SELECT scope, id, key"
     " FROM usage_keys WHERE at < $1 ORDER BY at LIMIT 4"
     " FOR UPDATE SKIP LOCKED)"                                            },
    {SL_QUERY_TRIM_HOLDS,
     "DELETE FROM usage_holds WHERE hold IN (SELECT hold FROM usage_holds"
     " WHERE expires < $1 ORDER BY expires LIMIT 4 FOR UPDATE SKIP LOCKED)"},
};

/* Queries for PostgreSQL only. */
static const struct {
    const char *name, *sql;
} more[] = {
    {"lock", "SELECT pg_advisory_xact_lock(" LOCK_SPACE ", slot)"
             " FROM unnest(CAST($1 AS int[])) AS slot"},
    {"tell", "SELECT pg_notify('sluice', $1)"                     },
};

static const char *name_of(enum sl_query query, char name[16])
{
    snprintf(name, 16, "q%d", (int)query);
    return name;
}

/* ---- binding ---- */

static void bind(struct sl_database *db, enum sl_query query, int at,
                 const struct sl_str *text, int64_t number)
{
    struct sl_pg_bound *bound = &sl_pg_store_of(db)->bound[query];
    struct sl_pg_params *p = &bound->params;
    struct sl_str value;

    at--;
    p->formats[at] = text != NULL;
    if (!text) {
        snprintf(bound->numbers[at], sizeof(bound->numbers[at]), "%" PRId64,
                 number);
        p->values[at] = bound->numbers[at];
    } else if (sl_pg_escape(&db->arena, *text, at == 1, &value)) {
        p->values[at] = value.len ? value.at : "";
        p->lengths[at] = (int)value.len;
    } /* otherwise NULL, which no text column accepts and no comparison matches
       */
}

/* Binds all parameters; those after the last bound one are NULL. */
static const struct sl_pg_params *take_bound(struct sl_pg_store *s,
                                             enum sl_query query)
{
    struct sl_pg_params *p = &s->bound[query].params;

    p->count = s->counts[query];
    return p;
}

static void unbind(struct sl_pg_store *s, enum sl_query query)
{
    memset(&s->bound[query].params, 0, sizeof(s->bound[query].params));
}

/* ---- transactions ---- */

static void rollback(struct sl_database *db)
{
    struct sl_pg_store *s = sl_pg_store_of(db);

    s->in_transaction = false;
    sl_pg_conn_rollback(&s->link);
}

static int begin(struct sl_database *db)
{
    struct sl_pg_store *s = sl_pg_store_of(db);

    if (sl_pg_conn_ensure(&s->link, &db->diag) || sl_pg_commit_resolve(db))
        return SLUICE_ESTORE;
    s->in_transaction = true;
    return 0;
}

/* ---- one question ---- */

/* Runs a single statement as its own transaction. */
static int run_alone(struct sl_database *db, enum sl_query query)
{
    struct sl_pg_store *s = sl_pg_store_of(db);
    PGresult *result = NULL;
    char name[16];
    int err = sl_pg_conn_ensure(&s->link, &db->diag);

    if (!err && sl_pg_conn_query(&s->link, name_of(query, name),
                                 take_bound(s, query), true, false, &result))
        err = sl_pg_fail(db);
    PQclear(result);
    unbind(s, query);
    return err;
}

static int run(struct sl_database *db, enum sl_query query)
{
    struct sl_pg_store *s = sl_pg_store_of(db);
    char name[16];
    int err = 0;

    if (query == SL_QUERY_COMMIT)
        return sl_pg_commit(db);
    if (query == SL_QUERY_BEGIN && begin(db))
        return SLUICE_ESTORE;
    if (!s->in_transaction)
        return run_alone(db, query);
    err = sl_pg_conn_send(&s->link, name_of(query, name), NULL,
                          take_bound(s, query));
    unbind(s, query);
    if (err)
        return sl_pg_fail(db);
    return query == SL_QUERY_BEGIN ? sl_pg_commit_begin(db) : 0;
}

/* Reading all counters may need more memory than there is. */
static bool is_long(enum sl_query query)
{
    return query == SL_QUERY_EACH_COUNTER;
}

static void drop_result(struct sl_pg_store *s, enum sl_query query)
{
    PQclear(s->results[query]);
    s->results[query] = NULL;
}

static int ask(struct sl_database *db, enum sl_query query)
{
    struct sl_pg_store *s = sl_pg_store_of(db);
    char name[16];

    if (!s->in_transaction && sl_pg_conn_ensure(&s->link, &db->diag))
        return SLUICE_ESTORE;
    if (sl_pg_conn_query(&s->link, name_of(query, name), take_bound(s, query),
                         !s->in_transaction, is_long(query),
                         &s->results[query]))
        return sl_pg_fail(db);
    s->has_row = true;
    s->rows[query] = 0;
    return s->results[query] && PQntuples(s->results[query]) > 0;
}

static int step(struct sl_database *db, enum sl_query query)
{
    struct sl_pg_store *s = sl_pg_store_of(db);

    if (!s->results[query])
        return ask(db, query);
    if (!is_long(query))
        return ++s->rows[query] < PQntuples(s->results[query]);
    drop_result(s, query);
    return sl_pg_conn_next(&s->link, &s->results[query]) ? sl_pg_fail(db)
                                                         : !!s->results[query];
}

static void reset(struct sl_database *db, enum sl_query query)
{
    struct sl_pg_store *s = sl_pg_store_of(db);
    bool stays = is_long(query) && s->results[query];

    while (stays) {
        drop_result(s, query);
        stays =
            !sl_pg_conn_next(&s->link, &s->results[query]) && s->results[query];
    }
    drop_result(s, query);
    unbind(s, query);
}

static bool read_text(struct sl_database *db, enum sl_query query, int column,
                      struct sl_str *ret)
{
    const PGresult *result = sl_pg_store_of(db)->results[query];
    int row = sl_pg_store_of(db)->rows[query];
    struct sl_str text;

    if (PQgetisnull(result, row, column))
        return false;
    text = (struct sl_str){PQgetvalue(result, row, column),
                           (size_t)PQgetlength(result, row, column)};
    if (!sl_pg_unescape(&db->arena, text, ret))
        *ret = text;
    return true;
}

static int64_t read_integer(struct sl_database *db, enum sl_query query,
                            int column)
{
    struct sl_pg_store *s = sl_pg_store_of(db);

    return strtoll(PQgetvalue(s->results[query], s->rows[query], column), NULL,
                   10);
}

/* ---- all of it ---- */

static int script(struct sl_database *db, const char *sql)
{
    struct sl_pg_store *s = sl_pg_store_of(db);
    char one[200];

    while (*sql) {
        int len = (int)strcspn(sql, ";");

        snprintf(one, sizeof(one), "%.*s", len, sql);
        if (sl_pg_conn_send(&s->link, NULL, one, NULL))
            return sl_pg_fail(db);
        sql += len;
        sql += strspn(sql, "; ");
    }
    return 0;
}

/* ---- several at once ---- */

static int lock(struct sl_database *db, const uint64_t *slots)
{
    struct sl_pg_store *s = sl_pg_store_of(db);
    char list[5 * SL_SHARE_SLOTS + 3] = "{";
    struct sl_pg_params p = {.count = 1, .values = {list}};
    size_t len = 1;

    for (unsigned i = 0; i < SL_SHARE_SLOTS; i++)
        if (slots[i / 64] & UINT64_C(1) << i % 64)
            len += (size_t)snprintf(list + len, sizeof(list) - len, "%s%u",
                                    len > 1 ? "," : "", i);
    snprintf(list + len, sizeof(list) - len, "}");
    return sl_pg_conn_send(&s->link, "lock", NULL, &p) ? sl_pg_fail(db) : 0;
}

static int tell(struct sl_database *db, struct sl_str message)
{
    struct sl_pg_store *s = sl_pg_store_of(db);
    struct sl_pg_params p = {.count = 1, .formats = {1}};
    struct sl_str text;

    if (!sl_pg_escape(&db->arena, message, true, &text))
        return sl_diag_error(&db->diag, SLUICE_ENOMEM, "out of memory");
    p.values[0] = text.at;
    p.lengths[0] = (int)text.len;
    return sl_pg_conn_send(&s->link, "tell", NULL, &p) ? sl_pg_fail(db) : 0;
}

static int hear(struct sl_database *db, sl_notified_f *heard, void *ctx,
                struct sl_diag *diag)
{
    struct sl_pg_store *s = sl_pg_store_of(db);
    struct sl_pg_notify_options options = {.url = s->url,
                                           .alloc = db->arena.alloc,
                                           .own = &s->served_by,
                                           .heard = heard,
                                           .ctx = ctx};

    return sl_pg_notify_open(&options, &s->listener, diag);
}

/* ---- opening ---- */

/* Replaces ?1 by $1. Returns the number of parameters. */
static int translate(const char *sql, char out[SQL_MOST])
{
    int most = 0;

    snprintf(out, SQL_MOST, "%s", sql);
    for (char *at = out; (at = strchr(at, '?'));) {
        int number = (int)strtol(at + 1, NULL, 10);

        *at = '$';
        most = number > most ? number : most;
    }
    return most;
}

static int prepare(struct sl_pg_conn *l)
{
    struct sl_pg_store *s = l->ctx;
    char name[16], sql[SQL_MOST];
    int err = 0;

    for (int i = 0; i < SL_QUERIES && !err; i++) {
        s->counts[i] = translate(sl_queries[i], sql);
        for (size_t k = 0; k < SL_LEN(own); k++)
            if (own[k].query == (enum sl_query)i)
                snprintf(sql, sizeof(sql), "%s", own[k].sql);
        err = sl_pg_prepare(l, name_of((enum sl_query)i, name), sql);
    }
    for (size_t i = 0; i < SL_LEN(more) && !err; i++)
        err = sl_pg_prepare(l, more[i].name, more[i].sql);
    return err ? err : sl_pg_commit_register(l);
}

static int on_open(struct sl_pg_conn *l, struct sl_diag *diag)
{
    struct sl_pg_store *s = l->ctx;
    int err = sl_pg_schema(l, diag);

    atomic_store(&s->served_by, PQbackendPID(l->conn));
    if (!err)
        err = sl_pg_pipeline(l, diag);
    if (!err && prepare(l)) {
        *diag = l->diag;
        err = SLUICE_ESTORE;
    }
    return err ? err : sl_pg_settle(l, diag);
}

static void close_store(struct sl_database *db)
{
    struct sl_pg_store *s = sl_pg_store_of(db);

    sl_pg_notify_close(s->listener);
    for (int i = 0; i < SL_QUERIES; i++)
        PQclear(s->results[i]);
    sl_pg_close(&s->link);
    sl_alloc_free(db->arena.alloc, s, sizeof(*s) + strlen(s->url) + 1);
    db->conn = NULL;
}

static int open_store(struct sl_database *db, const char *where,
                      struct sl_diag *diag)
{
    struct sl_pg_store *s =
        sl_alloc_new(db->arena.alloc, sizeof(*s) + strlen(where) + 1);
    int err;

    if (!s)
        return sl_diag_error(diag, SLUICE_ENOMEM, "out of memory");
    memset(s, 0, sizeof(*s));
    snprintf(s->word, sizeof(s->word), "%s", db->word);
    memcpy(s->url, where, strlen(where) + 1);
    s->link.url = s->url;
    s->link.search_path = SL_PG_SCHEMA;
    s->link.on_open = on_open;
    s->link.ctx = s;
    sl_pg_init(&s->link);
    db->conn = s;
    err = sl_pg_url(where, s->link.shown, diag);
    if (!err)
        err = sl_pg_conn_ensure(&s->link, diag);
    if (err)
        close_store(db);
    return err;
}

const struct sl_driver sl_driver_postgres = {
    .open = open_store,
    .close = close_store,
    .bind = bind,
    .step = step,
    .reset = reset,
    .run = run,
    .column = read_text,
    .integer = read_integer,
    .script = script,
    .rollback = rollback,
    .lock = lock,
    .notify = tell,
    .commit_status = sl_pg_commit_status,
    .listen = hear,
};

/* ---- the tables of the registry in PostgreSQL. */

/* Advisory lock of migrations; "sluc", and a number. */
#define LOCK "1936487779, 0"

/* Migrations may take longer than queries. */
#define PATIENCE SL_MIN

/* Names compare by their bytes. */
#define NAME "text COLLATE \"C\" NOT NULL"
#define SIZE "bigint NOT NULL"

/* The SQL of each version. A released version is never edited: a change is one
 * more step. Times are ns since 1970; NULL is never. */
static const char *const steps[] = {
    "CREATE TABLE subjects(scope " NAME ", id " NAME ", plan " NAME ","
    " expires bigint, note " NAME ", author " NAME ", updated " SIZE ","
    " revision " SIZE ", PRIMARY KEY(scope, id));"
    "CREATE TABLE roles(scope " NAME ", id " NAME ", role " NAME ","
    " PRIMARY KEY(scope, id, role));"
    "CREATE TABLE aliases(scope " NAME ", alias " NAME ", id " NAME ","
    " PRIMARY KEY(scope, alias));"
    "CREATE INDEX aliases_of ON aliases(scope, id);"
    "CREATE TABLE overrides(scope " NAME ", id " NAME ", limit_name " NAME ","
    " rate " NAME ", until bigint, author " NAME ", note " NAME ","
    " PRIMARY KEY(scope, id, limit_name));"
    "CREATE TABLE audit(seq bigint GENERATED BY DEFAULT AS IDENTITY"
    " PRIMARY KEY, at " SIZE ", author " NAME ", scope " NAME ", id " NAME ","
    " what " NAME ", before text, after text);"
    "CREATE INDEX audit_of ON audit(scope, id, seq);"
    "CREATE TABLE switches(name " NAME " PRIMARY KEY, is_on " SIZE ","
    " author " NAME ", at " SIZE ");"

    "CREATE TABLE usage_counters(scope " NAME ", id " NAME ","
    " limit_name " NAME ", period_start " SIZE ", used " SIZE ","
    " overage " SIZE ", credited " SIZE ", told " SIZE ", updated " SIZE ","
    " PRIMARY KEY(scope, id, limit_name, period_start));"
    "CREATE TABLE usage_days(scope " NAME ", id " NAME ", limit_name " NAME ","
    " day " SIZE ", used " SIZE ", overage " SIZE ","
    " PRIMARY KEY(scope, id, limit_name, day));"
    "CREATE TABLE usage_months(scope " NAME ", id " NAME ","
    " limit_name " NAME ", month " SIZE ", used " SIZE ", overage " SIZE ","
    " PRIMARY KEY(scope, id, limit_name, month));"
    "CREATE TABLE usage_keys(scope " NAME ", id " NAME ", key " NAME ","
    " limit_name " NAME ", amount " SIZE ", at " SIZE ","
    " PRIMARY KEY(scope, id, key));"
    "CREATE INDEX usage_keys_at ON usage_keys(at);"
    "CREATE TABLE usage_things(scope " NAME ", id " NAME ","
    " limit_name " NAME ", name " NAME ", amount " SIZE ", at " SIZE ","
    " PRIMARY KEY(scope, id, limit_name, name));"
    "CREATE TABLE usage_credits(seq bigint GENERATED BY DEFAULT AS IDENTITY"
    " PRIMARY KEY, scope " NAME ", id " NAME ", limit_name " NAME ","
    " amount " SIZE ", unused " SIZE ", expires bigint, note " NAME ","
    " author " NAME ", at " SIZE ");"
    "CREATE INDEX usage_credits_of ON usage_credits(scope, id, limit_name);",

    /* A key is for one report. Holds, and refunds that the table has not
     * applied. */
    "ALTER TABLE usage_keys ADD COLUMN name text COLLATE \"C\";"
    "CREATE TABLE usage_holds(hold " NAME " PRIMARY KEY,"
    " scope text COLLATE \"C\", id text COLLATE \"C\","
    " period_start " SIZE ", amount " SIZE ", cap bigint, expires " SIZE ");"
    "CREATE INDEX usage_holds_at ON usage_holds(expires);"
    "CREATE TABLE usage_owed(scope " NAME ", id " NAME ","
    " limit_name " NAME ", period_start " SIZE ", units " SIZE ","
    " PRIMARY KEY(scope, id, limit_name, period_start));",

    /* Leases. */
    "ALTER TABLE usage_counters ADD COLUMN leased " SIZE " DEFAULT 0;"
    "ALTER TABLE usage_counters ADD COLUMN granted " SIZE " DEFAULT 0;"
    "CREATE TABLE usage_leases(node " NAME ", scope " NAME ", id " NAME ","
    " limit_name " NAME ", period_start " SIZE ", base " SIZE ","
    " spent " SIZE ", leased " SIZE ", since " SIZE ", seen " SIZE ","
    " PRIMARY KEY(node, scope, id, limit_name, period_start));",

    /* The node whose table must apply the refund; '': any. */
    "ALTER TABLE usage_owed ADD COLUMN node " NAME " DEFAULT '';"
    "ALTER TABLE usage_owed DROP CONSTRAINT usage_owed_pkey;"
    "ALTER TABLE usage_owed ADD PRIMARY KEY(node, scope, id, limit_name,"
    " period_start);",

    /* When each node was seen, and the random name of its current run. The last
     * transaction of each writer. */
    "CREATE TABLE usage_nodes(node " NAME " PRIMARY KEY, word " NAME ","
    " seen " SIZE ");"
    "INSERT INTO usage_nodes SELECT node, '', max(seen) FROM usage_leases"
    " GROUP BY node;"
    "ALTER TABLE usage_leases DROP COLUMN seen;"
    "CREATE TABLE writers(word " NAME " PRIMARY KEY, mark " SIZE ","
    " at timestamptz NOT NULL DEFAULT now());",
};

/* ---- asking ---- */

/* Returns the first column of the only row; "" if it is NULL. */
static int schema_ask(struct sl_pg_conn *l, const char *sql, char ret[64],
                      struct sl_diag *diag)
{
    PGresult *result = NULL;
    int err = sl_pg_exec(l, sql, &result, diag);

    if (err)
        return err;
    snprintf(ret, 64, "%s",
             PQntuples(result) == 1 ? PQgetvalue(result, 0, 0) : "");
    PQclear(result);
    return 0;
}

static int check_encoding(struct sl_pg_conn *l, struct sl_diag *diag)
{
    char encoding[64] = "";
    int err = schema_ask(l, "SHOW server_encoding", encoding, diag);

    if (err || strcmp(encoding, "UTF8") == 0)
        return err;
    return sl_diag_error(diag, SLUICE_ESTORE,
                         "the database at %s has the encoding %s, but UTF8 is "
                         "required: createdb -E UTF8 -T template0 NAME",
                         l->shown, encoding);
}

/* Reads the version of the tables; 0: none. */
static int ask_version(struct sl_pg_conn *l, int *ret, struct sl_diag *diag)
{
    char text[64] = "";
    int err = schema_ask(
        l, "SELECT to_regclass('" SL_PG_SCHEMA ".tables_version')", text, diag);

    *ret = 0;
    if (err || !text[0])
        return err;
    err = schema_ask(l, "SELECT max(number) FROM tables_version", text, diag);
    *ret = (int)strtol(text, NULL, 10);
    return err;
}

/* ---- versions ---- */

static int make_schema(struct sl_pg_conn *l, struct sl_diag *diag)
{
    struct sl_diag why = {0};
    char there[64] = "";
    int err = schema_ask(l, "SELECT to_regnamespace('" SL_PG_SCHEMA "')", there,
                         diag);

    if (err || there[0])
        return err;
    err = sl_pg_exec(l, "CREATE SCHEMA " SL_PG_SCHEMA, NULL, &why);
    if (err)
        sl_diag_error(diag, err,
                      "%s; let its owner say: CREATE SCHEMA " SL_PG_SCHEMA
                      " AUTHORIZATION %s",
                      why.sentence, PQuser(l->conn));
    return err;
}

static int take_steps(struct sl_pg_conn *l, const char *const *list, int from,
                      int count, struct sl_diag *diag)
{
    struct sl_diag why = {0};
    char mark[100];
    int err = 0;

    for (int i = from; i < count; i++) {
        snprintf(mark, sizeof(mark),
                 "INSERT INTO tables_version(number) VALUES(%d)", i + 1);
        err = sl_pg_exec(l, list[i], NULL, &why);
        if (!err)
            err = sl_pg_exec(l, mark, NULL, &why);
        if (err)
            return sl_diag_error(diag, err,
                                 "the upgrade to version %d failed: %s", i + 1,
                                 why.sentence);
    }
    return 0;
}

static int refuse_later(int version, int count, struct sl_diag *diag)
{
    return sl_diag_error(
        diag, SLUICE_ESTORE,
        "the registry was written by a later version of sluiced (schema %d, "
        "this version %d); use that version, or another database",
        version, count);
}

/* Runs under the lock, so the version does not change meanwhile. */
static int bring_up(struct sl_pg_conn *l, const char *const *list, int count,
                    struct sl_diag *diag)
{
    int version = 0;
    int err =
        sl_pg_exec(l, "SELECT pg_advisory_xact_lock(" LOCK ")", NULL, diag);

    if (!err)
        err = make_schema(l, diag);
    if (!err)
        err = sl_pg_exec(l,
                         "CREATE TABLE IF NOT EXISTS tables_version(number"
                         " integer PRIMARY KEY)",
                         NULL, diag);
    if (!err)
        err = ask_version(l, &version, diag);
    if (!err && version > count)
        err = refuse_later(version, count, diag);
    if (!err)
        err = take_steps(l, list, version, count, diag);
    return err;
}

int sl_pg_migrate(struct sl_pg_conn *l, const char *const *list, int count,
                  struct sl_diag *diag)
{
    struct sl_diag ignored = {0};
    int version = 0;
    int err = ask_version(l, &version, diag);

    if (err || version == count)
        return err;
    if (version > count)
        return refuse_later(version, count, diag);
    l->timeout = PATIENCE;
    err = sl_pg_exec(l,
                     "BEGIN; SET LOCAL statement_timeout = '60s';"
                     " SET LOCAL lock_timeout = '60s'",
                     NULL, diag);
    if (!err)
        err = bring_up(l, list, count, diag);
    if (!err)
        err = sl_pg_exec(l, "COMMIT", NULL, diag);
    else if (l->conn && sl_pg_exec(l, "ROLLBACK", NULL, &ignored))
        err = SLUICE_ESTORE;
    l->timeout = SL_PG_WAIT;
    return err;
}

int sl_pg_schema(struct sl_pg_conn *l, struct sl_diag *diag)
{
    int err = check_encoding(l, diag);

    return err ? err : sl_pg_migrate(l, steps, (int)SL_LEN(steps), diag);
}
