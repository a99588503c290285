/* pg_driver.c -- runs the queries of the registry on PostgreSQL.
 *
 * All statements are prepared when a connection is opened. Statements without
 * rows are only sent. A query waits for all before it (pg.h).
 */
#include <errno.h>
#include <inttypes.h>
#include <libpq-fe.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "registry/pg.h"

#define SQL_MOST 16384

/* Advisory locks of subjects; "sluc". */
#define LOCK_SPACE "1936487779"

/* Queries that differ for PostgreSQL. Any daemon may trim old keys. */
static const struct {
    enum sl_query query;
    const char *sql;
} own[] = {
    {SL_QUERY_BEGIN,           "BEGIN"                                     },
    {SL_QUERY_TRIM_KEYS,
     "DELETE FROM usage_keys WHERE (scope, id, key) IN (SELECT scope, id, key"
     " FROM usage_keys WHERE at < $1 ORDER BY at LIMIT 4"
     " FOR UPDATE SKIP LOCKED)"                                            },
    {SL_QUERY_TRIM_HOLDS,
     "DELETE FROM usage_holds WHERE hold IN (SELECT hold FROM usage_holds"
     " WHERE expires < $1 ORDER BY expires LIMIT 4 FOR UPDATE SKIP LOCKED)"},
    {SL_QUERY_ENDPOINT,
     "SELECT org, url, events, metadata, secret, old_secret, old_until,"
     " enabled, contact, reason, failures, not_before FROM webhook_endpoints"
     " WHERE id = $1 FOR UPDATE"                                           },
    {SL_QUERY_CLAIM_ENDPOINTS,
     "SELECT id, org, url, secret, old_secret, old_until, updated FROM"
     " webhook_endpoints WHERE enabled = 1 AND next <= $1 ORDER BY next LIMIT"
     " $2 FOR UPDATE SKIP LOCKED"                                          },
    {SL_QUERY_LOCK_ENDPOINT,
     "SELECT 1 FROM webhook_endpoints WHERE id = $1 FOR NO KEY UPDATE"     },
};

#define OF_SLOTS " FROM unnest(CAST($1 AS int[])) AS slot"
#define LOCK_ALL "SELECT pg_advisory_xact_lock(" LOCK_SPACE ", slot)" OF_SLOTS
#define LOCK_FREE                                                              \
    "SELECT slot" OF_SLOTS " WHERE pg_try_advisory_xact_lock(" LOCK_SPACE      \
    ", slot)"

/* A daemon that is stopped while it sends keeps its locks: its session awaits
 * the rest of what was sent, and is not idle. A statement ends within
 * SL_PG_STATEMENT_MS. Only daemons write to `writers`, and each transaction
 * does (see "number"): so sessions of other programs are not found. */
#define STOPPED_MS  5000
#define STOPPED_FOR "CAST('" SL_TEXT(STOPPED_MS) " ms' AS interval)"
#define WRITES                                                                 \
    "(SELECT pid FROM pg_locks WHERE locktype = 'relation' AND granted"        \
    " AND mode = 'RowExclusiveLock'"                                           \
    " AND relation = to_regclass('" SL_PG_SCHEMA ".writers')"                  \
    " AND database = (SELECT oid FROM pg_database"                             \
    " WHERE datname = current_database()))"
#define END_STOPPED                                                            \
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"                   \
    " WHERE usename = current_user AND wait_event_type = 'Client'"             \
    " AND state_change < clock_timestamp() - " STOPPED_FOR                     \
    " AND pid IN " WRITES
_Static_assert(STOPPED_MS > SL_PG_STATEMENT_MS, "a statement may run so long");

/* Queries for PostgreSQL only. */
static const struct {
    const char *name, *sql;
} more[] = {
    {"lock",     LOCK_ALL                                     },
    {"try",      LOCK_FREE                                    },
    {"patience", "SELECT set_config('lock_timeout', $1, true)"},
    {"tell",     "SELECT pg_notify('sluice', $1)"             },
    {"stopped",  END_STOPPED                                  },
};

/* The parameters of the next statement. */
struct bound {
    struct sl_pg_params params;
    char numbers[SL_PG_PARAMS][24];
    char name[16];
};

#define COMMITTED 256

/* Queries that are sent ahead at once, at most. */
#define FETCHED 256

struct fetched {
    struct sl_hash128 key; /* of the query and its parameters */
    PGresult *result;      /* NULL: taken */
};

struct store {
    struct sl_pg_conn link;
    struct sl_pg_notifier *notifier; /* or NULL */
    _Atomic int served_by;           /* process id of the server backend */
    bool in_transaction;
    bool has_row;           /* a result came after the number was sent */
    uint64_t number;        /* of the last transaction begun */
    uint64_t uncertain_txn; /* its COMMIT was sent and not answered; 0: none */
    uint64_t committed[COMMITTED]; /* found to be committed later */
    unsigned committed_count;      /* ever added */
    char word[20];                 /* random name of this writer */
    int counts[SL_QUERIES];        /* of parameters */
    struct bound bound[SL_QUERIES];
    PGresult *results[SL_QUERIES];
    int rows[SL_QUERIES]; /* current row of each result */
    struct fetched fetched[FETCHED];
    unsigned fetched_count, sent_count; /* with results, or without */
    char url[];
};

static struct store *store_of(const struct sl_database *db)
{
    return db->conn;
}

static int fail(struct sl_database *db)
{
    db->diag = store_of(db)->link.diag;
    db->is_locked = store_of(db)->link.is_locked;
    db->is_temporary = store_of(db)->link.temporary;
    return SLUICE_ESTORE;
}

static int ensure(struct sl_database *db)
{
    struct store *s = store_of(db);
    int err = sl_pg_conn_ensure(&s->link, &db->diag);

    /* A server that has let us in before refuses for a time only: nothing
     * listens any more, for example. */
    if (err)
        db->is_temporary = s->link.temporary || s->link.was_refused;
    return err;
}

/* ---- binding ---- */

static void bind(struct sl_database *db, enum sl_query query, int at,
                 const struct sl_str *text, int64_t number)
{
    struct bound *bound = &store_of(db)->bound[query];
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
static const struct sl_pg_params *take_bound(struct store *s,
                                             enum sl_query query)
{
    struct sl_pg_params *p = &s->bound[query].params;

    p->count = s->counts[query];
    return p;
}

static void unbind(struct store *s, enum sl_query query)
{
    memset(&s->bound[query].params, 0, sizeof(s->bound[query].params));
}

/* ---- the status of a transaction whose COMMIT was not answered.
 *
 * Each writer has a row in `writers`, by a random name chosen at its start.
 * Every transaction writes its number there: if the row has the number, the
 * transaction was committed.
 *
 *     BEGIN, number ... a result arrives ... COMMIT
 *
 * The number is the first write of a transaction. COMMIT is not sent before a
 * later result has arrived: from then on the row is locked until the
 * transaction ends. A read of the row with a lock therefore waits for a COMMIT
 * in flight, also at a server that has not noticed the lost connection.
 *
 *     COMMIT sent, no answer --> uncertain --> the row was read: known
 *                                  ^  |
 *                                  +--+ it was not: read again
 *
 * While a transaction is uncertain nothing is written: the next number would
 * replace it. Results are kept for later questions (COMMITTED of them;
 * each costs a lost connection, and is looked up within a second).
 *
 * pg_xact_status() does not serve: after a crash PostgreSQL may reuse the
 * number of a lost transaction.
 */

/* How long rows of dead writers are kept. */
#define KEPT_FOR "30 days"

static const struct {
    const char *name, *sql;
} statements[] = {
    {"number",
     "INSERT INTO writers(word, mark) VALUES($1, CAST($2 AS bigint))"
     " ON CONFLICT(word) DO UPDATE SET mark = excluded.mark, at = now()"   },
    {"marked", "SELECT mark FROM writers WHERE word = $1 FOR UPDATE"       },
    {"forget",
     "DELETE FROM writers WHERE word IN (SELECT word FROM writers"
     " WHERE at < now() - interval '" KEPT_FOR "' AND word <> $1 LIMIT 100"
     " FOR UPDATE SKIP LOCKED)"                                            },
    {"enter",
     "INSERT INTO writers(word, mark) VALUES($1, 0) ON CONFLICT DO NOTHING"},
};

static int register_writer(struct sl_pg_conn *l)
{
    const struct store *s = l->ctx;
    struct sl_pg_params p = {.count = 1, .values = {s->word}};
    int err = 0;

    for (size_t i = 0; i < SL_LEN(statements) && !err; i++)
        err = sl_pg_prepare(l, statements[i].name, statements[i].sql);
    if (!err)
        err = sl_pg_conn_send(l, "forget", NULL, &p);
    return err ? err : sl_pg_conn_send(l, "enter", NULL, &p);
}

static int number_txn(struct sl_database *db)
{
    struct store *s = store_of(db);
    char number[24];
    struct sl_pg_params p = {
        .count = 2, .values = {s->word, number}
    };

    s->has_row = false;
    snprintf(number, sizeof(number), "%" PRIu64, ++s->number);
    return sl_pg_conn_send(&s->link, "number", NULL, &p) ? fail(db) : 0;
}

/* Waits until the server has the number of a transaction without queries. */
static int await_row(struct sl_database *db)
{
    struct store *s = store_of(db);
    struct sl_pg_params p = {.count = 1, .values = {s->word}};
    PGresult *result = NULL;

    if (s->has_row)
        return 0;
    if (sl_pg_conn_query(&s->link, "marked", &p, false, false, &result))
        return fail(db);
    PQclear(result);
    return 0;
}

static int commit(struct sl_database *db)
{
    static const struct sl_pg_params none;
    struct store *s = store_of(db);
    PGresult *result = NULL;
    bool done;

    if (await_row(db))
        return SLUICE_ESTORE;
    s->link.was_lost = false;
    s->in_transaction = false;
    if (sl_pg_conn_query(&s->link, s->bound[SL_QUERY_COMMIT].name, &none, true,
                         false, &result)) {
        s->uncertain_txn = s->link.was_lost ? s->number : 0;
        db->uncertain_txn = s->uncertain_txn;
        return fail(db);
    }
    done = strcmp(PQcmdStatus(result), "COMMIT") == 0;
    PQclear(result);
    return done ? 0
                : sl_diag_error(&db->diag, SLUICE_ESTORE,
                                "the registry at %s rolled back a transaction",
                                s->link.shown);
}

static int resolve_commit(struct sl_database *db)
{
    struct store *s = store_of(db);
    struct sl_pg_params p = {.count = 1, .values = {s->word}};
    PGresult *result = NULL;
    uint64_t mark = 0;

    if (s->uncertain_txn == 0)
        return 0;
    if (sl_pg_conn_query(&s->link, "marked", &p, true, false, &result))
        return fail(db);
    if (PQntuples(result) == 1)
        mark = strtoull(PQgetvalue(result, 0, 0), NULL, 10);
    PQclear(result);
    if (mark == s->uncertain_txn)
        s->committed[s->committed_count++ % COMMITTED] = mark;
    s->uncertain_txn = 0;
    return 0;
}

static int commit_status(struct sl_database *db, uint64_t number)
{
    struct store *s = store_of(db);

    if (ensure(db) || resolve_commit(db))
        return SLUICE_ESTORE;
    for (unsigned i = 0; i < COMMITTED; i++)
        if (s->committed[i] == number)
            return 1;
    return 0;
}

/* ---- queries that are sent ahead ---- */

static struct sl_hash128 fetch_key(const struct store *s, enum sl_query query)
{
    const struct sl_pg_params *p = &s->bound[query].params;
    struct sl_hash_key key = {strtoull(s->word, NULL, 16), (uint64_t)query};
    struct sl_hash128 sum = {0, 0};

    for (int i = 0; i < s->counts[query]; i++) {
        const char *at = p->values[i] ? p->values[i] : "";
        size_t len = p->formats[i] ? (size_t)p->lengths[i] : strlen(at);

        sum = sl_hash128(&key, (struct sl_str){at, len});
        key = (struct sl_hash_key){key.k0 ^ sum.lo, key.k1 + sum.hi};
    }
    return sum;
}

static struct fetched *find_fetched(struct store *s, unsigned count,
                                    struct sl_hash128 key)
{
    for (unsigned i = 0; i < count; i++)
        if (sl_hash128_eq(s->fetched[i].key, key))
            return &s->fetched[i];
    return NULL;
}

static void forget_fetched(struct store *s)
{
    for (unsigned i = 0; i < s->fetched_count; i++)
        PQclear(s->fetched[i].result);
    s->fetched_count = 0;
}

/* A query that is under way already, or does not fit, is asked when it is
 * needed. */
static int prefetch(struct sl_database *db, enum sl_query query)
{
    struct store *s = store_of(db);
    struct sl_hash128 key = fetch_key(s, query);
    int err = 0;

    forget_fetched(s);
    if (s->sent_count < FETCHED && !find_fetched(s, s->sent_count, key)) {
        s->fetched[s->sent_count++] = (struct fetched){.key = key};
        err = sl_pg_conn_send(&s->link, s->bound[query].name, NULL,
                              take_bound(s, query));
    }
    unbind(s, query);
    return err ? fail(db) : 0;
}

static int fetch(struct sl_database *db)
{
    struct store *s = store_of(db);
    PGresult *results[FETCHED];
    unsigned count = s->sent_count;

    s->sent_count = 0;
    forget_fetched(s);
    if (count == 0)
        return 0;
    if (sl_pg_conn_collect(&s->link, count, results))
        return fail(db);
    for (unsigned i = 0; i < count; i++)
        s->fetched[i].result = results[i];
    s->fetched_count = count;
    s->has_row = true;
    return 0;
}

/* Moves the result of the bound query to where step() finds it. */
static bool take_fetched(struct store *s, enum sl_query query)
{
    struct fetched *f = NULL;

    if (s->fetched_count > 0)
        f = find_fetched(s, s->fetched_count, fetch_key(s, query));
    if (!f || !f->result)
        return false;
    s->results[query] = f->result;
    f->result = NULL;
    return true;
}

/* ---- transactions ---- */

static void rollback(struct sl_database *db)
{
    struct store *s = store_of(db);

    s->in_transaction = false;
    s->sent_count = 0;
    forget_fetched(s);
    sl_pg_conn_rollback(&s->link);
}

static int begin(struct sl_database *db)
{
    struct store *s = store_of(db);

    if (ensure(db) || resolve_commit(db))
        return SLUICE_ESTORE;
    s->in_transaction = true;
    s->sent_count = 0;
    forget_fetched(s);
    return 0;
}

/* ---- one question ---- */

/* Runs a single statement as its own transaction. */
static int run_alone(struct sl_database *db, enum sl_query query)
{
    struct store *s = store_of(db);
    PGresult *result = NULL;
    int err = ensure(db);

    if (!err && sl_pg_conn_query(&s->link, s->bound[query].name,
                                 take_bound(s, query), true, false, &result))
        err = fail(db);
    PQclear(result);
    unbind(s, query);
    return err;
}

static int run(struct sl_database *db, enum sl_query query)
{
    struct store *s = store_of(db);
    int err = 0;

    if (query == SL_QUERY_COMMIT)
        return commit(db);
    if (query == SL_QUERY_BEGIN && begin(db))
        return SLUICE_ESTORE;
    if (!s->in_transaction)
        return run_alone(db, query);
    err = sl_pg_conn_send(&s->link, s->bound[query].name, NULL,
                          take_bound(s, query));
    unbind(s, query);
    if (err)
        return fail(db);
    return query == SL_QUERY_BEGIN ? number_txn(db) : 0;
}

/* Reading all counters may need more memory than there is. */
static bool is_long(enum sl_query query)
{
    return query == SL_QUERY_EACH_COUNTER;
}

static void drop_result(struct store *s, enum sl_query query)
{
    PQclear(s->results[query]);
    s->results[query] = NULL;
}

static int ask(struct sl_database *db, enum sl_query query)
{
    struct store *s = store_of(db);

    if (!s->in_transaction && ensure(db))
        return SLUICE_ESTORE;
    if (!take_fetched(s, query) &&
        sl_pg_conn_query(&s->link, s->bound[query].name, take_bound(s, query),
                         !s->in_transaction, is_long(query),
                         &s->results[query]))
        return fail(db);
    s->has_row = true;
    s->rows[query] = 0;
    return s->results[query] && PQntuples(s->results[query]) > 0;
}

static int step(struct sl_database *db, enum sl_query query)
{
    struct store *s = store_of(db);

    if (!s->results[query])
        return ask(db, query);
    if (!is_long(query))
        return ++s->rows[query] < PQntuples(s->results[query]);
    drop_result(s, query);
    return sl_pg_conn_next(&s->link, &s->results[query]) ? fail(db)
                                                         : !!s->results[query];
}

static void reset(struct sl_database *db, enum sl_query query)
{
    struct store *s = store_of(db);
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
    const PGresult *result = store_of(db)->results[query];
    int row = store_of(db)->rows[query];
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
    struct store *s = store_of(db);

    return strtoll(PQgetvalue(s->results[query], s->rows[query], column), NULL,
                   10);
}

/* ---- all of it ---- */

static int script(struct sl_database *db, const char *sql)
{
    struct store *s = store_of(db);
    char one[200];

    while (*sql) {
        int len = (int)strcspn(sql, ";");

        snprintf(one, sizeof(one), "%.*s", len, sql);
        if (sl_pg_conn_send(&s->link, NULL, one, NULL))
            return fail(db);
        sql += len;
        sql += strspn(sql, "; ");
    }
    return 0;
}

/* ---- several at once ---- */

/* An array of the slots. */
struct slot_list {
    char text[5 * SL_SHARE_SLOTS + 3];
};

static const char *list_slots(const uint64_t *slots, struct slot_list *list)
{
    size_t len = 1, size = sizeof(list->text);

    snprintf(list->text, size, "{");
    for (unsigned i = 0; i < SL_SHARE_SLOTS; i++)
        if (slots[i / 64] & UINT64_C(1) << i % 64)
            len += (size_t)snprintf(list->text + len, size - len, "%s%u",
                                    len > 1 ? "," : "", i);
    snprintf(list->text + len, size - len, "}");
    return list->text;
}

static int lock(struct sl_database *db, const uint64_t *slots)
{
    struct slot_list list;
    struct sl_pg_params p = {.count = 1, .values = {list_slots(slots, &list)}};

    return sl_pg_conn_send(&store_of(db)->link, "lock", NULL, &p) ? fail(db)
                                                                  : 0;
}

static int try_lock(struct sl_database *db, const uint64_t *slots,
                    uint64_t *ret)
{
    struct store *s = store_of(db);
    struct slot_list list;
    struct sl_pg_params p = {.count = 1, .values = {list_slots(slots, &list)}};
    PGresult *result = NULL;

    if (sl_pg_conn_query(&s->link, "try", &p, false, false, &result))
        return fail(db);
    s->has_row = true;
    memset(ret, 0, SL_SHARE_SLOTS / 8);
    for (int i = 0; i < PQntuples(result); i++) {
        unsigned slot = (unsigned)strtoul(PQgetvalue(result, i, 0), NULL, 10) %
                        SL_SHARE_SLOTS;

        ret[slot / 64] |= UINT64_C(1) << slot % 64;
    }
    PQclear(result);
    return 0;
}

static int be_patient(struct sl_database *db, unsigned ms)
{
    char text[16];
    struct sl_pg_params p = {.count = 1, .values = {text}};

    snprintf(text, sizeof(text), "%ums", ms);
    return sl_pg_conn_send(&store_of(db)->link, "patience", NULL, &p) ? fail(db)
                                                                      : 0;
}

static void recover(struct sl_database *db)
{
    struct sl_pg_conn *link = &store_of(db)->link;

    db->is_locked = false;
    if (link->conn)
        link->failed = link->is_locked = false;
}

/* An administrator may have forbidden it. */
static void end_stopped(struct sl_database *db)
{
    static const struct sl_pg_params none;
    PGresult *result = NULL;

    if (!sl_pg_conn_query(&store_of(db)->link, "stopped", &none, true, false,
                          &result))
        PQclear(result);
}

static int tell(struct sl_database *db, struct sl_str message)
{
    struct store *s = store_of(db);
    struct sl_pg_params p = {.count = 1, .formats = {1}};
    struct sl_str text;

    if (!sl_pg_escape(&db->arena, message, true, &text))
        return sl_diag_error(&db->diag, SLUICE_ENOMEM, "out of memory");
    p.values[0] = text.at;
    p.lengths[0] = (int)text.len;
    return sl_pg_conn_send(&s->link, "tell", NULL, &p) ? fail(db) : 0;
}

static int listen_to(struct sl_database *db, sl_notified_f *heard, void *ctx,
                     struct sl_diag *diag)
{
    struct store *s = store_of(db);
    struct sl_pg_notifier_options options = {
        .url = s->url,
        .own = &s->served_by,
        .heard = heard,
        .ctx = ctx,
        .alloc = db->arena.alloc,
    };

    return sl_pg_notifier_open(&options, &s->notifier, diag);
}

/* ---- the tables of the registry in PostgreSQL. */

/* Advisory lock of migrations; "sluc", and a number. */
#define LOCK "1936487779, 0"

/* Migrations may take longer than queries. */
#define PATIENCE SL_MIN
#define PATIENT                                                                \
    "BEGIN; SET LOCAL statement_timeout = '60s'; SET LOCAL lock_timeout = "    \
    "'60s'"

/* The types of schema.def. Names compare by their bytes. */
#define NAME_OR_NULL "text COLLATE \"C\""
#define NAME         NAME_OR_NULL " NOT NULL"
#define NAME_KEY     NAME " PRIMARY KEY"
#define TEXT         "text"
#define NUMBER       "bigint"
#define SIZE         "bigint NOT NULL"
#define NUMBERED     "bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY"
#define UNIQUE       "PRIMARY KEY"
#define END          ")"
#define ENDED        ")"
#include "registry/schema.def"

/* The SQL of each version. */
static const char *const steps[] = {
    TABLES_OF_SUBJECTS TABLES_OF_USAGE,
    TABLES_OF_HOLDS,
    TABLES_OF_LEASES,
    /* The node whose table must apply the refund; '': any. */
    "ALTER TABLE usage_owed ADD COLUMN node " NAME " DEFAULT '';"
    "ALTER TABLE usage_owed DROP CONSTRAINT usage_owed_pkey;"
    "ALTER TABLE usage_owed ADD PRIMARY KEY(node, scope, id, limit_name,"
    " period_start);",
    /* The last transaction of each writer. */
    TABLES_OF_NODES "CREATE TABLE writers(word " NAME_KEY ", mark " SIZE ","
                    " at timestamptz NOT NULL DEFAULT now());",
    TABLES_OF_JOURNALS,
    TABLES_OF_FREED,
    COLUMNS_OF_CAPS,
    TABLES_OF_REPEATS,
    TABLES_OF_EXPORTS,
    TABLES_OF_AUDIT,
    TABLES_OF_ENDS,
    COLUMNS_OF_ANCHORS,
    TABLES_OF_SEGMENTS,
    TABLES_OF_UNITS,
    TABLES_OF_BLOCKS,
    TABLES_OF_DENIALS,
    TABLES_OF_WEBHOOKS,
    INDEX_OF_OVERRIDES,
    INDEX_OF_RETRIES,
    COLUMN_OF_EXTENSIONS,
    INDEXES_OF_WAITING,
    TABLES_OF_ERASED,
};

#define LATEST ((int)SL_LEN(steps))

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

static int take_steps(struct sl_pg_conn *l, int from, struct sl_diag *diag)
{
    struct sl_diag why = {0};
    char mark[100];
    int err = 0;

    for (int i = from; i < LATEST; i++) {
        snprintf(mark, sizeof(mark),
                 "INSERT INTO tables_version(number) VALUES(%d)", i + 1);
        err = sl_pg_exec(l, steps[i], NULL, &why);
        if (!err)
            err = sl_pg_exec(l, mark, NULL, &why);
        if (err)
            return sl_diag_error(diag, err,
                                 "the upgrade to version %d failed: %s", i + 1,
                                 why.sentence);
    }
    return 0;
}

/* Reads the version, and refuses a later one. */
static int check_version(struct sl_pg_conn *l, int *ret, struct sl_diag *diag)
{
    int err = ask_version(l, ret, diag);

    if (!err && *ret > LATEST)
        err = sl_diag_error(
            diag, SLUICE_ESTORE,
            "the registry was written by a later version of sluiced (schema "
            "%d, this version %d); use that version, or another database",
            *ret, LATEST);
    return err;
}

/* Runs under the lock, so the version does not change meanwhile. */
static int bring_up(struct sl_pg_conn *l, struct sl_diag *diag)
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
        err = check_version(l, &version, diag);
    return err ? err : take_steps(l, version, diag);
}

/* Creates the tables or migrates them to the latest version; before the
 * pipeline begins. Each version is applied as a whole or not at all. */
static int migrate(struct sl_pg_conn *l, struct sl_diag *diag)
{
    struct sl_diag ignored = {0};
    sl_ns timeout = l->timeout;
    int version = 0;
    int err = check_version(l, &version, diag);

    if (err || version == LATEST)
        return err;
    l->timeout = PATIENCE;
    err = sl_pg_exec(l,
                     PQserverVersion(l->conn) >= 170000 ? PATIENT
                         "; SET LOCAL transaction_timeout = '60s'"
                                                        : PATIENT,
                     NULL, diag);
    if (!err)
        err = bring_up(l, diag);
    if (!err)
        err = sl_pg_exec(l, "COMMIT", NULL, diag);
    else if (l->conn && sl_pg_exec(l, "ROLLBACK", NULL, &ignored))
        err = SLUICE_ESTORE;
    l->timeout = timeout;
    return err;
}

/* ---- opening ---- */

/* How long the reason of a refusal is waited for. */
#define AWAY_WAIT (3 * SL_S)

/* Replaces ?1 by $1, and removes what only SQLite has. Returns the number of
 * parameters. */
static int translate(const char *sql, char out[SQL_MOST])
{
    static const char fail[] = "UPDATE OR FAIL";
    size_t skip = sizeof(fail) - 1;
    int most = 0;

    if (strncmp(sql, fail, skip) == 0)
        snprintf(out, SQL_MOST, "UPDATE%s", sql + skip);
    else
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
    struct store *s = l->ctx;
    char sql[SQL_MOST];
    int err = 0;

    for (int i = 0; i < SL_QUERIES && !err; i++) {
        s->counts[i] = translate(sl_queries[i], sql);
        for (size_t k = 0; k < SL_LEN(own); k++)
            if (own[k].query == (enum sl_query)i)
                snprintf(sql, sizeof(sql), "%s", own[k].sql);
        snprintf(s->bound[i].name, sizeof(s->bound[i].name), "q%d", i);
        err = sl_pg_prepare(l, s->bound[i].name, sql);
    }
    for (size_t i = 0; i < SL_LEN(more) && !err; i++)
        err = sl_pg_prepare(l, more[i].name, more[i].sql);
    return err ? err : register_writer(l);
}

static int on_open(struct sl_pg_conn *l, struct sl_diag *diag)
{
    struct store *s = l->ctx;
    int err = check_encoding(l, diag);

    if (!err)
        err = migrate(l, diag);

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
    struct store *s = store_of(db);

    sl_pg_notifier_close(s->notifier);
    forget_fetched(s);
    for (int i = 0; i < SL_QUERIES; i++)
        PQclear(s->results[i]);
    sl_pg_close(&s->link);
    sl_alloc_free(db->arena.alloc, s, sizeof(*s) + strlen(s->url) + 1);
    db->conn = NULL;
}

/* Goes on with a connection until it is open, refused or late. */
static bool await_open(PGconn *conn, sl_ns until)
{
    PostgresPollingStatusType next = PGRES_POLLING_WRITING;
    struct pollfd fd;
    int ready;

    while (next == PGRES_POLLING_READING || next == PGRES_POLLING_WRITING) {
        sl_ns now = sl_clock_mono();

        fd.fd = PQsocket(conn);
        fd.events = next == PGRES_POLLING_READING ? POLLIN : POLLOUT;
        if (now >= until)
            return false;
        ready = poll(&fd, 1, (int)((until - now) / SL_MS) + 1);
        if (ready > 0)
            next = PQconnectPoll(conn);
        else if (ready == 0 || errno != EINTR)
            return false;
    }
    return true;
}

/* Connects once more, for the SQLSTATE of a refusal: libpq keeps it only if
 * it is asked to before the answer comes. Returns whether the server accepts
 * the connection by now, or refuses it for a time. */
static bool is_refused_for_now(const char *url)
{
    const char *const names[] = {"dbname", NULL};
    const char *const values[] = {url, NULL};
    PGconn *conn = PQconnectStartParams(names, values, 1);
    const char *code = NULL;
    bool temporary = false;

    if (conn && PQstatus(conn) != CONNECTION_BAD) {
        PQsetErrorVerbosity(conn, PQERRORS_SQLSTATE);
        if (await_open(conn, sl_clock_mono() + AWAY_WAIT)) {
            temporary = PQstatus(conn) == CONNECTION_OK;
            code = sl_pg_refusal_code(PQerrorMessage(conn));
        }
    }
    if (code)
        temporary = sl_pg_is_temporary(code, false);
    PQfinish(conn);
    return temporary;
}

/* Returns whether no server answers, or one that starts or stops or has no
 * connection left. Another refusal would be the same at the next try. */
static bool is_away(const struct sl_pg_conn *l)
{
    const char *const names[] = {"connect_timeout", "dbname", NULL};
    const char *const values[] = {"3", l->url, NULL};
    PGPing found;

    if (l->temporary || !l->was_refused)
        return l->temporary;
    found = PQpingParams(names, values, 1);
    if (found == PQPING_OK) {
        if (is_refused_for_now(l->url))
            return true;
        found = PQpingParams(names, values, 1); /* it may be gone meanwhile */
    }
    return found == PQPING_NO_RESPONSE || found == PQPING_REJECT;
}

static int open_store(struct sl_database *db, const char *where,
                      struct sl_diag *diag)
{
    struct store *s =
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
    db->is_away = err == SLUICE_ESTORE && is_away(&s->link);
    if (err && !db->is_away)
        close_store(db);
    return db->is_away ? 0 : err;
}

const struct sl_driver sl_driver_postgres = {
    .open = open_store,
    .close = close_store,
    .bind = bind,
    .step = step,
    .reset = reset,
    .run = run,
    .prefetch = prefetch,
    .fetch = fetch,
    .column = read_text,
    .integer = read_integer,
    .script = script,
    .rollback = rollback,
    .lock = lock,
    .try_lock = try_lock,
    .patience = be_patient,
    .recover = recover,
    .end_stopped = end_stopped,
    .notify = tell,
    .commit_status = commit_status,
    .listen = listen_to,
};
