/* pg_conn.c -- one connection to PostgreSQL, in pipeline mode. */
#include <errno.h>
#include <libpq-fe.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "registry/pg.h"

#define PAUSE_MIN (100 * SL_MS)
#define PAUSE_MAX (5 * SL_S)

/* ---- errors ---- */

/* Sets the first line of libpq's message, without its newline. */
static int refuse_saying(struct sl_pg_conn *l, struct sl_diag *diag, int err,
                         const char *what)
{
    int len = what ? (int)strcspn(what, "\n") : 0;

    return sl_diag_error(diag, err, "the registry at %s: %.*s", l->shown, len,
                         what ? what : "");
}

static int refuse_result(struct sl_pg_conn *l, struct sl_diag *diag,
                         const PGresult *result)
{
    const char *what = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);

    return refuse_saying(l, diag, SLUICE_ESTORE,
                         what ? what : PQresultErrorMessage(result));
}

/* Keeps the first error of a pipeline, which causes all later ones. */
static int note(struct sl_pg_conn *l, const PGresult *result)
{
    if (!l->failed && PQresultStatus(result) != PGRES_PIPELINE_ABORTED)
        refuse_result(l, &l->diag, result);
    l->failed = true;
    return SLUICE_ESTORE;
}

static bool is_good(const PGresult *result)
{
    ExecStatusType status = PQresultStatus(result);

    return status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK ||
           status == PGRES_SINGLE_TUPLE || status == PGRES_PIPELINE_SYNC;
}

void sl_pg_conn_drop(struct sl_pg_conn *l)
{
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
    l->failed = true;
    sl_pg_conn_drop(l);
    return SLUICE_ESTORE;
}

/* ---- waiting ---- */

sl_ns sl_pg_now(const struct sl_pg_conn *l)
{
    return l->clock.mono(l->clock.ctx);
}

/* Waits until there is input, or output can continue. */
static int await(struct sl_pg_conn *l, bool more_to_send, sl_ns until)
{
    struct pollfd fd = {.fd = PQsocket(l->conn),
                        .events = more_to_send ? POLLIN | POLLOUT : POLLIN};
    sl_ns left = until - sl_pg_now(l);
    int got;

    if (left <= 0)
        return lose(l, "the server does not answer");
    got = poll(&fd, 1, (int)(left / SL_MS) + 1);
    if (got < 0 && errno != EINTR)
        return lose(l, strerror(errno));
    return 0;
}

/* Reads the next result; *ret NULL is the end of a statement. */
static int get(struct sl_pg_conn *l, PGresult **ret)
{
    sl_ns until = sl_pg_now(l) + l->timeout;
    int sending = PQflush(l->conn);

    while (sending >= 0 && PQisBusy(l->conn)) {
        if (await(l, sending > 0, until))
            return SLUICE_ESTORE;
        if (!PQconsumeInput(l->conn))
            return lose(l, NULL);
        if (sending > 0)
            sending = PQflush(l->conn);
    }
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
    PQfinish(l->conn);
    l->conn = NULL;
}

static int set_up(struct sl_pg_conn *l, struct sl_diag *diag)
{
    char sql[400];
    int err;

    snprintf(sql, sizeof(sql),
             "SET client_encoding = 'UTF8'; SET statement_timeout = %d;"
             "SET lock_timeout = %d;"
             "SET idle_in_transaction_session_timeout = %d;"
             "SET default_transaction_isolation = 'read committed'%s%s%s",
             SL_PG_STATEMENT_MS, SL_PG_LOCK_MS, SL_PG_IDLE_MS,
             l->read_only ? ";SET default_transaction_read_only = on" : "",
             l->search_path ? ";SET search_path = " : "",
             l->search_path ? l->search_path : "");
    err = sl_pg_exec(l, sql, NULL, diag);
    return err ? err : l->on_open(l, diag);
}

/* Parameters before the URI are defaults; the URI overrides them. */
static PGconn *begin(const struct sl_pg_conn *l)
{
    static const char *const names[] = {
        "connect_timeout",           "tcp_user_timeout", "keepalives_idle",
        "fallback_application_name", "dbname",           NULL};
    const char *const values[] = {"3", "6000", "10", "sluiced", l->url, NULL};

    return PQconnectdbParams(names, values, 1);
}

/* Discards notices of the server, which libpq prints to stderr. */
static void ignore(void *ctx, const char *message)
{
    (void)ctx;
    (void)message;
}

static int open_link(struct sl_pg_conn *l, struct sl_diag *diag)
{
    int err;

    l->failed = false;
    l->unread = 0;
    l->synced = false;
    l->conn = begin(l);
    if (!l->conn)
        return sl_diag_error(diag, SLUICE_ENOMEM, "out of memory");
    PQsetNoticeProcessor(l->conn, ignore, NULL);
    if (PQstatus(l->conn) != CONNECTION_OK)
        err = refuse_saying(l, diag, SLUICE_ESTORE, PQerrorMessage(l->conn));
    else if (PQserverVersion(l->conn) < 130000)
        err = refuse_saying(l, diag, SLUICE_ESTORE,
                            "PostgreSQL 13 or later is required");
    else if (PQsetnonblocking(l->conn, 1))
        err = sl_diag_error(diag, SLUICE_ENOMEM, "out of memory");
    else
        err = set_up(l, diag);
    if (err) {
        PQfinish(l->conn);
        l->conn = NULL;
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

static int read_before(struct sl_pg_conn *l)
{
    int err = 0;

    while (!err && l->unread > 1) {
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

int sl_pg_conn_query(struct sl_pg_conn *l, const char *name,
                     const struct sl_pg_params *params, bool last, bool by_row,
                     PGresult **ret)
{
    PGresult *result = NULL;
    int err = sl_pg_conn_send(l, name, NULL, params);

    if (err)
        return err;
    if (last)
        err = send_sync(l);
    else if (!PQsendFlushRequest(l->conn))
        err = lose(l, NULL);
    if (!err)
        err = read_before(l);
    if (!err)
        err = read_answer(l, by_row, &result);
    if (last && !by_row && l->conn && read_to_sync(l))
        err = SLUICE_ESTORE;
    if (!err && l->failed)
        err = SLUICE_ESTORE;
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
