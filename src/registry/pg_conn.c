/* pg_conn.c -- one connection to PostgreSQL, in pipeline mode. */
#include <errno.h>
#include <libpq-fe.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "registry/pg.h"

#define PAUSE_MIN (100 * SL_MS)
#define PAUSE_MAX (500 * SL_MS)

/* A silent peer is checked after this many seconds, and every second then. The
 * third check without an answer, or data that the peer has not acknowledged for
 * this long, closes the connection. Both ends do so. */
#define KEEPALIVE_S     3
#define USER_TIMEOUT_MS 6000

/* How often a probe that waits is looked at. */
#define PROBE_TICK (50 * SL_MS)

/* SQLSTATE of a lock that was not granted in time. */
#define LOCK_NOT_AVAILABLE "55P03"

/* ---- errors ---- */

/* Sets the first line of libpq's message, without its newline. */
static int refuse_saying(struct sl_pg_conn *l, struct sl_diag *diag, int err,
                         const char *what)
{
    int len = what ? (int)strcspn(what, "\n") : 0;

    return sl_diag_error(diag, err, "the registry at %s: %.*s", l->shown, len,
                         what ? what : "");
}

bool sl_pg_is_temporary(const char *code, bool read_only)
{
    static const struct {
        const char *start;
        bool any; /* of a query that only reads, too */
    } codes[] = {
        {"08",               true }, /* connections */
        {"40",               true }, /* transactions that met others */
        {"53000",            true }, /* resources, */
        {"53100",            true }, /* the disk, */
        {"53200",            true }, /* memory, */
        {"53300",            true }, /* or connections used up */
        {"53",               false}, /* temp_file_limit */
        {"57P01",            true }, /* the server stops, */
        {"57P02",            true }, /* has crashed */
        {"57P03",            true }, /* or starts */
        {LOCK_NOT_AVAILABLE, true },
        {"57014",            false}, /* statement_timeout */
        {"25006",            false}, /* a write to a standby */
    };

    for (size_t i = 0; i < SL_LEN(codes); i++)
        if ((codes[i].any || !read_only) &&
            strncmp(code, codes[i].start, strlen(codes[i].start)) == 0)
            return true;
    return false;
}

const char *sl_pg_refusal_code(const char *message)
{
    const char *code = NULL;

    for (const char *at = message; (at = strstr(at, ":  ")); at++)
        code = at + strlen(":  ");
    if (!code || strspn(code, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ") != 5 ||
        (code[5] != '\n' && code[5] != '\0'))
        return NULL;
    return code;
}

static int refuse_result(struct sl_pg_conn *l, struct sl_diag *diag,
                         const PGresult *result)
{
    const char *what = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
    const char *code = PQresultErrorField(result, PG_DIAG_SQLSTATE);

    /* Without a code it is libpq's own: the connection is lost. */
    l->temporary = code ? sl_pg_is_temporary(code, l->read_only)
                        : PQstatus(l->conn) == CONNECTION_BAD;
    return refuse_saying(l, diag, SLUICE_ESTORE,
                         what ? what : PQresultErrorMessage(result));
}

/* Keeps the first error of a pipeline, which causes all later ones. */
static int note(struct sl_pg_conn *l, const PGresult *result)
{
    const char *code = PQresultErrorField(result, PG_DIAG_SQLSTATE);

    if (!l->failed && PQresultStatus(result) != PGRES_PIPELINE_ABORTED) {
        refuse_result(l, &l->diag, result);
        l->is_locked = code && strcmp(code, LOCK_NOT_AVAILABLE) == 0;
    }
    l->failed = true;
    return SLUICE_ESTORE;
}

static bool is_good(const PGresult *result)
{
    ExecStatusType status = PQresultStatus(result);

    return status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK ||
           status == PGRES_SINGLE_TUPLE || status == PGRES_PIPELINE_SYNC;
}

static void end_probe(struct sl_pg_conn *l)
{
    sl_pg_probe_free(l->probe);
    l->probe = NULL;
}

void sl_pg_conn_drop(struct sl_pg_conn *l)
{
    end_probe(l);
    if (l->backend.pid[0])
        l->lost = l->backend;
    l->backend.pid[0] = '\0';
    PQfinish(l->conn);
    l->conn = NULL;
    l->unread = 0;
    l->synced = false;
    l->was_lost = true;
}

static int lose(struct sl_pg_conn *l, const char *why)
{
    char said[200];

    snprintf(said, sizeof(said), "%s", why ? why : PQerrorMessage(l->conn));
    if (!l->failed)
        refuse_saying(l, &l->diag, SLUICE_ESTORE,
                      said[0] ? said : "the connection was lost");
    l->failed = l->temporary = true;
    l->is_locked = false;
    sl_pg_conn_drop(l);
    return SLUICE_ESTORE;
}

/* ---- waiting ---- */

sl_ns sl_pg_now(const struct sl_pg_conn *l)
{
    return l->clock.mono(l->clock.ctx);
}

/* Goes on with a probe. */
static int step_probe(struct sl_pg_conn *l, sl_ns *probe_at)
{
    sl_ns now = sl_pg_now(l);
    enum sl_pg_probe_result result = SL_PG_PROBE_UNKNOWN;

    if (l->probe)
        result = sl_pg_probe_step(l->probe, now);
    if (result == SL_PG_PROBE_GOES_ON)
        return 0;
    end_probe(l);
    if (result == SL_PG_PROBE_LOST)
        return lose(l, "the connection was lost without notice");
    if (result == SL_PG_PROBE_WORKING)
        *probe_at = now + SL_PG_PROBE_AFTER;
    if (now >= *probe_at)
        l->probe = sl_pg_probe_new(l);
    if (!l->probe && now >= *probe_at)
        *probe_at = now + SL_PG_PROBE_AFTER;
    return 0;
}

/* Waits until there is input, or output can continue. */
static int await(struct sl_pg_conn *l, bool more_to_send, sl_ns until,
                 sl_ns *probe_at)
{
    struct pollfd fds[2] = {
        {.fd = PQsocket(l->conn),
         .events = more_to_send ? POLLIN | POLLOUT : POLLIN},
        {.fd = -1                      }
    };
    sl_ns now = sl_pg_now(l), wake = until;
    int got;

    if (now >= until)
        return lose(l, "the server does not answer");
    if (l->probe)
        sl_pg_probe_poll(l->probe, &fds[1]);
    if (*probe_at < wake)
        wake = *probe_at > now ? *probe_at : now;
    if (l->probe)
        wake = now + PROBE_TICK < until ? now + PROBE_TICK : until;
    got = poll(fds, 2, (int)((wake - now) / SL_MS) + 1);
    if (got < 0 && errno != EINTR)
        return lose(l, strerror(errno));
    /* An answer that has come is read first. */
    if (fds[0].revents)
        return 0;
    return l->probe || sl_pg_now(l) >= *probe_at ? step_probe(l, probe_at) : 0;
}

/* Reads the next result; *ret NULL is the end of a statement. */
static int get(struct sl_pg_conn *l, PGresult **ret)
{
    sl_ns until = sl_pg_now(l) + l->timeout;
    sl_ns probe_at =
        l->backend.pid[0] ? until - l->timeout + SL_PG_PROBE_AFTER : SL_NS_NONE;
    int sending = PQflush(l->conn);

    while (sending >= 0 && PQisBusy(l->conn)) {
        if (await(l, sending > 0, until, &probe_at))
            return SLUICE_ESTORE;
        if (!PQconsumeInput(l->conn))
            return lose(l, NULL);
        if (sending > 0)
            sending = PQflush(l->conn);
    }
    end_probe(l);
    if (sending < 0)
        return lose(l, NULL);
    *ret = PQgetResult(l->conn);
    if (PQstatus(l->conn) != CONNECTION_BAD)
        return 0;
    if (*ret)
        note(l, *ret);
    PQclear(*ret);
    return lose(l, NULL);
}

/* Reads all results of one statement and hands over the first, if `ret`. */
static int read_statement(struct sl_pg_conn *l, PGresult **ret)
{
    PGresult *result = NULL, *first = NULL;
    int err = 0;

    for (;;) {
        if (get(l, &result)) {
            PQclear(first);
            return SLUICE_ESTORE;
        }
        if (!result)
            break;
        if (!is_good(result))
            err = note(l, result);
        if (first)
            PQclear(result);
        else
            first = result;
    }
    if (l->unread > 0)
        l->unread--;
    if (!err && ret)
        *ret = first;
    else
        PQclear(first);
    return err;
}

/* Reads all results up to the last sync. */
static int read_to_sync(struct sl_pg_conn *l)
{
    unsigned ends = 0;
    PGresult *result = NULL;

    while (l->synced) {
        if (get(l, &result))
            return SLUICE_ESTORE;
        ends = result ? 0 : ends + 1;
        if (ends > 1)
            return lose(l, "unexpected answer");
        if (PQresultStatus(result) == PGRES_PIPELINE_SYNC)
            l->synced = false;
        else if (result && !is_good(result))
            note(l, result);
        PQclear(result);
    }
    l->unread = 0;
    return 0;
}

static int send_sync(struct sl_pg_conn *l)
{
    if (!PQpipelineSync(l->conn))
        return lose(l, NULL);
    l->synced = true;
    return 0;
}

/* ---- opening ---- */

void sl_pg_init(struct sl_pg_conn *l)
{
    sl_clock_init_real(&l->clock);
    l->timeout = SL_PG_WAIT;
}

void sl_pg_close(struct sl_pg_conn *l)
{
    end_probe(l);
    PQfinish(l->conn);
    l->conn = NULL;
}

/* Settings that older servers and some platforms do not have. */
static void set_more(struct sl_pg_conn *l)
{
    static const struct {
        int version;
        const char *sql;
    } settings[] = {
        {140000, "SET client_connection_check_interval = '1s'"     },
        {170000, "SET transaction_timeout = " SL_TEXT(SL_PG_TXN_MS)},
    };
    struct sl_diag ignored = {0};

    for (size_t i = 0; i < SL_LEN(settings); i++)
        if (PQserverVersion(l->conn) >= settings[i].version && l->conn)
            (void)!sl_pg_exec(l, settings[i].sql, NULL, &ignored);
}

/* Reads which backend serves this connection. */
static int read_backend(struct sl_pg_conn *l, struct sl_diag *diag)
{
    PGresult *result = NULL;
    int err = sl_pg_exec(l,
                         "SELECT pid, " SL_PG_SINCE " FROM pg_stat_activity"
                         " WHERE pid = pg_backend_pid()",
                         &result, diag);

    if (err)
        return err;
    if (PQntuples(result) == 1) {
        snprintf(l->backend.since, sizeof(l->backend.since), "%s",
                 PQgetvalue(result, 0, 1));
        snprintf(l->backend.pid, sizeof(l->backend.pid), "%s",
                 PQgetvalue(result, 0, 0));
    }
    PQclear(result);
    return 0;
}

/* Ends the backend of the lost connection: it may have locks, and the server
 * may not notice for long that its client is gone. A role may end its own
 * sessions, unless an administrator has forbidden it. */
static void end_lost(struct sl_pg_conn *l)
{
    struct sl_diag ignored = {0};
    char sql[200];

    if (!l->lost.pid[0])
        return;
    snprintf(sql, sizeof(sql),
             "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
             " WHERE pid = %s AND " SL_PG_SINCE " = %s",
             l->lost.pid, l->lost.since);
    if (!sl_pg_exec(l, sql, NULL, &ignored) || l->conn)
        l->lost.pid[0] = '\0';
}

static int set_up(struct sl_pg_conn *l, struct sl_diag *diag)
{
    char sql[600];
    int err;

    snprintf(sql, sizeof(sql),
             "SET client_encoding = 'UTF8'; SET statement_timeout = %d;"
             "SET lock_timeout = %d;"
             "SET idle_in_transaction_session_timeout = %d;"
             "SET tcp_keepalives_idle = %d; SET tcp_keepalives_interval = 1;"
             "SET tcp_keepalives_count = 3; SET tcp_user_timeout = %d;"
             "SET default_transaction_isolation = 'read committed'%s%s%s",
             SL_PG_STATEMENT_MS, SL_PG_LOCK_MS, SL_PG_IDLE_MS, KEEPALIVE_S,
             USER_TIMEOUT_MS,
             l->read_only ? ";SET default_transaction_read_only = on" : "",
             l->search_path ? ";SET search_path = " : "",
             l->search_path ? l->search_path : "");
    err = sl_pg_exec(l, sql, NULL, diag);
    if (!err)
        set_more(l);
    if (!err && !l->conn)
        err = refuse_saying(l, diag, SLUICE_ESTORE, l->diag.sentence);
    if (!err)
        err = read_backend(l, diag);
    if (!err)
        end_lost(l);
    if (!err && !l->conn)
        err = refuse_saying(l, diag, SLUICE_ESTORE, l->diag.sentence);
    return err ? err : l->on_open(l, diag);
}

/* Parameters before the URI are defaults; the URI overrides them. */
static PGconn *begin(const struct sl_pg_conn *l)
{
    static const char *const names[] = {
        "connect_timeout",  "tcp_user_timeout",
        "keepalives_idle",  "keepalives_interval",
        "keepalives_count", "fallback_application_name",
        "dbname",           NULL};
    const char *const values[] = {"2",
                                  SL_TEXT(USER_TIMEOUT_MS),
                                  SL_TEXT(KEEPALIVE_S),
                                  "1",
                                  "3",
                                  "sluiced",
                                  l->url,
                                  NULL};

    return PQconnectdbParams(names, values, 1);
}

/* Discards notices of the server, which libpq prints to stderr. */
static void ignore(void *ctx, const char *message)
{
    (void)ctx;
    (void)message;
}

/* Returns whether the last server that was tried has not answered, by libpq's
 * message, which has a line for each address. It may answer by now. */
static bool is_unanswered(const char *message)
{
    const char *last = message;

    for (const char *at = message; (at = strstr(at, " failed: ")); at++)
        last = at;
    return strstr(last, "timeout expired") ||
           strstr(last, "server closed the connection unexpectedly");
}

static int open_link(struct sl_pg_conn *l, struct sl_diag *diag)
{
    sl_ns timeout = l->timeout;
    int err;

    l->failed = l->is_locked = l->temporary = l->was_refused = false;
    l->unread = 0;
    l->synced = false;
    l->conn = begin(l);
    if (!l->conn)
        return sl_diag_error(diag, SLUICE_ENOMEM, "out of memory");
    PQsetNoticeProcessor(l->conn, ignore, NULL);
    if (PQstatus(l->conn) != CONNECTION_OK) {
        l->temporary = is_unanswered(PQerrorMessage(l->conn));
        l->was_refused = !l->temporary;
        err = refuse_saying(l, diag, SLUICE_ESTORE, PQerrorMessage(l->conn));
    } else if (PQserverVersion(l->conn) < 130000)
        err = refuse_saying(l, diag, SLUICE_ESTORE,
                            "PostgreSQL 13 or later is required");
    else if (PQsetnonblocking(l->conn, 1))
        err = sl_diag_error(diag, SLUICE_ENOMEM, "out of memory");
    else {
        l->timeout = SL_PG_OPEN_WAIT;
        err = set_up(l, diag);
        if (err && PQstatus(l->conn) == CONNECTION_BAD)
            l->temporary = true; /* lost */
        l->timeout = timeout;
    }
    if (err) {
        PQfinish(l->conn);
        l->conn = NULL;
        l->backend.pid[0] = '\0';
    }
    return err;
}

/* Returns false if the server has closed the connection; it sends a reason
 * first. */
static bool is_alive(struct sl_pg_conn *l)
{
    struct pollfd fd = {.events = POLLIN};

    for (int i = 0; i < 8 && l->conn; i++) {
        if (PQstatus(l->conn) != CONNECTION_OK)
            return false;
        fd.fd = PQsocket(l->conn);
        if (poll(&fd, 1, 0) <= 0)
            return true;
        if (!PQconsumeInput(l->conn))
            return false;
    }
    return l->conn;
}

int sl_pg_conn_ensure(struct sl_pg_conn *l, struct sl_diag *diag)
{
    sl_ns now;
    int err;

    if (is_alive(l))
        return 0;
    if (l->conn)
        sl_pg_conn_drop(l);
    now = sl_pg_now(l);
    if (now < l->next_try)
        return sl_diag_error(
            diag, SLUICE_ESTORE,
            "the registry at %s is unavailable; the connection is retried",
            l->shown);
    err = open_link(l, diag);
    l->pause = err ? (l->pause ? 2 * l->pause : PAUSE_MIN) : 0;
    if (l->pause > PAUSE_MAX)
        l->pause = PAUSE_MAX;
    if (err && sl_pg_now(l) - now > PAUSE_MAX)
        l->pause = PAUSE_MIN; /* the attempt itself took long */
    l->next_try = err ? sl_pg_now(l) + l->pause : 0;
    return err;
}

/* ---- within on_open ---- */

int sl_pg_exec(struct sl_pg_conn *l, const char *sql, PGresult **ret,
               struct sl_diag *diag)
{
    PGresult *result = NULL, *last = NULL;
    int err = PQsendQuery(l->conn, sql) ? 0 : SLUICE_ESTORE;

    if (err)
        return refuse_saying(l, diag, err, PQerrorMessage(l->conn));
    for (;;) {
        if (get(l, &result)) {
            *diag = l->diag;
            PQclear(last);
            return SLUICE_ESTORE;
        }
        if (!result)
            break;
        if (!is_good(result) && !err)
            err = refuse_result(l, diag, result);
        PQclear(last);
        last = result;
    }
    if (!err && ret)
        *ret = last;
    else
        PQclear(last);
    return err;
}

int sl_pg_pipeline(struct sl_pg_conn *l, struct sl_diag *diag)
{
    return PQenterPipelineMode(l->conn)
               ? 0
               : refuse_saying(l, diag, SLUICE_ESTORE, PQerrorMessage(l->conn));
}

int sl_pg_prepare(struct sl_pg_conn *l, const char *name, const char *sql)
{
    if (!PQsendPrepare(l->conn, name, sql, 0, NULL))
        return lose(l, NULL);
    l->unread++;
    return 0;
}

int sl_pg_settle(struct sl_pg_conn *l, struct sl_diag *diag)
{
    int err = send_sync(l);

    if (!err)
        err = read_to_sync(l);
    if (!err && l->failed)
        err = SLUICE_ESTORE;
    if (err)
        *diag = l->diag;
    return err;
}

int sl_pg_describe(struct sl_pg_conn *l, const char *name, PGresult **ret)
{
    int err;

    if (!PQsendDescribePrepared(l->conn, name))
        return lose(l, NULL);
    l->unread++;
    err = send_sync(l);
    if (!err)
        err = read_statement(l, ret);
    if (l->conn && read_to_sync(l))
        err = SLUICE_ESTORE;
    return err;
}

/* ---- the pipeline ---- */

int sl_pg_conn_send(struct sl_pg_conn *l, const char *name, const char *sql,
                    const struct sl_pg_params *p)
{
    int sent;

    if (!l->conn)
        return SLUICE_ESTORE;
    if (name)
        sent = PQsendQueryPrepared(l->conn, name, p->count, p->values,
                                   p->lengths, p->formats, p->binary);
    else
        sent = PQsendQueryParams(l->conn, sql, 0, NULL, NULL, NULL, NULL, 0);
    if (!sent)
        return lose(l, NULL);
    l->unread++;
    return 0;
}

/* Reads all results but the last `count`. */
static int read_before(struct sl_pg_conn *l, unsigned count)
{
    int err = 0;

    while (!err && l->unread > count) {
        err = read_statement(l, NULL);
        if (err && l->conn)
            err = 0; /* it is kept; later results must be read, too */
    }
    return err;
}

/* Reads the result, or the first of its rows. */
static int read_answer(struct sl_pg_conn *l, bool by_row, PGresult **ret)
{
    if (!by_row)
        return read_statement(l, ret);
    if (!PQsetSingleRowMode(l->conn))
        return lose(l, "the server cannot answer row by row");
    return sl_pg_conn_next(l, ret);
}

int sl_pg_conn_next(struct sl_pg_conn *l, PGresult **ret)
{
    PGresult *result = NULL;
    int err = get(l, &result);

    if (err)
        return err;
    if (PQresultStatus(result) == PGRES_SINGLE_TUPLE) {
        *ret = result;
        return 0;
    }
    if (!is_good(result))
        err = note(l, result);
    PQclear(result);
    if (read_statement(l, NULL) || (l->synced && read_to_sync(l)))
        return SLUICE_ESTORE;
    if (!err)
        *ret = NULL;
    return err;
}

int sl_pg_conn_collect(struct sl_pg_conn *l, unsigned count, PGresult **ret)
{
    unsigned got = 0;
    int err = l->conn ? send_sync(l) : SLUICE_ESTORE;

    if (!err)
        err = read_before(l, count);
    while (!err && got < count) {
        err = read_statement(l, &ret[got]);
        got += !err;
    }
    if (l->conn && read_to_sync(l))
        err = SLUICE_ESTORE;
    if (!err && l->failed)
        err = SLUICE_ESTORE;
    if (!err && PQtransactionStatus(l->conn) != PQTRANS_INTRANS)
        err = lose(l, "the transaction has ended");
    while (err && got > 0) {
        PQclear(ret[--got]);
        ret[got] = NULL;
    }
    return err;
}

int sl_pg_conn_query(struct sl_pg_conn *l, const char *name,
                     const struct sl_pg_params *params, bool last, bool by_row,
                     PGresult **ret)
{
    PGresult *result = NULL;
    int err = sl_pg_conn_send(l, name, NULL, params);

    if (err)
        return err;
    err = send_sync(l);
    if (!err)
        err = read_before(l, 1);
    if (!err)
        err = read_answer(l, by_row, &result);
    if (!by_row && l->conn && read_to_sync(l))
        err = SLUICE_ESTORE;
    if (!err && l->failed)
        err = SLUICE_ESTORE;
    if (!last && !by_row && !err &&
        PQtransactionStatus(l->conn) != PQTRANS_INTRANS)
        err = lose(l, "the transaction has ended");
    if (last && l->conn)
        l->failed = false; /* the transaction has ended */
    if (err)
        PQclear(result);
    else
        *ret = result;
    return err;
}

void sl_pg_conn_rollback(struct sl_pg_conn *l)
{
    if (!l->conn || (!l->synced && send_sync(l)) || read_to_sync(l))
        return;
    if (PQtransactionStatus(l->conn) == PQTRANS_IDLE) {
        l->failed = false;
        return;
    }
    if (sl_pg_conn_send(l, NULL, "ROLLBACK", NULL) || send_sync(l) ||
        read_to_sync(l))
        return;
    l->failed = false;
    if (PQtransactionStatus(l->conn) != PQTRANS_IDLE)
        sl_pg_conn_drop(l);
}

/* ---- the address, read by libpq. */

static const char *value_of(const PQconninfoOption *options, const char *name)
{
    for (; options->keyword; options++)
        if (strcmp(options->keyword, name) == 0)
            return options->val ? options->val : "";
    return "";
}

int sl_pg_url(const char *url, char shown[SL_PG_SHOWN], struct sl_diag *diag)
{
    char *why = NULL;
    PQconninfoOption *options = PQconninfoParse(url, &why);
    const char *port;

    if (!options && !why)
        return sl_diag_error(diag, SLUICE_ENOMEM, "out of memory");
    PQfreemem(why);
    if (!options)
        return sl_diag_error(
            diag, SLUICE_ECONF,
            "this is not the URL of a PostgreSQL database; write "
            "postgres://USER@HOST:PORT/DATABASE, and write characters other "
            "than letters and digits in a name as %%XX");
    port = value_of(options, "port");
    snprintf(shown, SL_PG_SHOWN, "%s%s%s/%s", value_of(options, "host"),
             port[0] ? ":" : "", port, value_of(options, "dbname"));
    PQconninfoFree(options);
    return 0;
}
