/* pg_probe.c -- asks the server about a connection whose answer is late.
 *
 * A network may drop what was sent and keep the connection: then neither end
 * learns of it, and an answer is awaited that never comes. A second connection
 * to the same server tells this from a slow statement:
 *
 *     CONNECTING --> ASKING --> the backend waits for its client, or is gone:
 *                               LOST
 *                           --> it runs a statement, or waits for a lock:
 *                               WORKING
 *         (no answer within PATIENCE: UNKNOWN, and the caller begins again)
 *
 * An answer may be on its way while the server is asked, so the backend must
 * have been idle for IDLE_FOR.
 */
#include <libpq-fe.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "registry/pg.h"

/* A probe that a network swallows is given up soon: the next one may pass. */
#define PATIENCE SL_S

#define IDLE_FOR "interval '300 ms'"

struct sl_pg_probe {
    PGconn *conn;
    const struct sl_alloc *alloc;
    sl_ns until; /* monotonic */
    PostgresPollingStatusType next;
    bool asking;
    char sql[320];
};

/* The same host as the first connection, without looking up its name. */
static PGconn *begin(const struct sl_pg_conn *l)
{
    static const char *const names[] = {"fallback_application_name",
                                        "dbname",
                                        "host",
                                        "hostaddr",
                                        "port",
                                        NULL};
    const char *const values[] = {"sluiced",       l->url,
                                  PQhost(l->conn), PQhostaddr(l->conn),
                                  PQport(l->conn), NULL};

    return PQconnectStartParams(names, values, 1);
}

/* Notices of the server, which libpq prints to stderr. */
static void ignore(void *ctx, const char *message)
{
    (void)ctx;
    (void)message;
}

struct sl_pg_probe *sl_pg_probe_new(const struct sl_pg_conn *l)
{
    struct sl_pg_probe *p = sl_alloc_new(&sl_alloc_libc, sizeof(*p));

    if (!p)
        return NULL;
    memset(p, 0, sizeof(*p));
    p->alloc = &sl_alloc_libc;
    p->until = sl_pg_now(l) + PATIENCE;
    p->next = PGRES_POLLING_WRITING;
    p->conn = begin(l);
    if (!p->conn || PQstatus(p->conn) == CONNECTION_BAD) {
        sl_pg_probe_free(p);
        return NULL;
    }
    PQsetNoticeProcessor(p->conn, ignore, NULL);
    snprintf(p->sql, sizeof(p->sql),
             "SELECT wait_event = 'ClientRead' AND"
             " state_change < clock_timestamp() - " IDLE_FOR
             " FROM pg_stat_activity WHERE pid = %s AND " SL_PG_SINCE " = %s",
             l->backend.pid, l->backend.since);
    return p;
}

void sl_pg_probe_free(struct sl_pg_probe *p)
{
    if (!p)
        return;
    PQfinish(p->conn);
    sl_alloc_free(p->alloc, p, sizeof(*p));
}

void sl_pg_probe_poll(const struct sl_pg_probe *p, struct pollfd *ret)
{
    ret->fd = PQsocket(p->conn);
    ret->events = p->next == PGRES_POLLING_WRITING ? POLLOUT : POLLIN;
}

static bool is_ready(const struct sl_pg_probe *p)
{
    struct pollfd fd = {.fd = -1};

    sl_pg_probe_poll(p, &fd);
    return poll(&fd, 1, 0) > 0;
}

/* Goes on connecting; then sends the question. */
static enum sl_pg_probe_result connect_on(struct sl_pg_probe *p)
{
    p->next = PQconnectPoll(p->conn);
    if (p->next == PGRES_POLLING_FAILED)
        return SL_PG_PROBE_UNKNOWN;
    if (p->next != PGRES_POLLING_OK)
        return SL_PG_PROBE_GOES_ON;
    p->asking = true;
    p->next = PGRES_POLLING_READING;
    return PQsendQuery(p->conn, p->sql) ? SL_PG_PROBE_GOES_ON
                                        : SL_PG_PROBE_UNKNOWN;
}

static enum sl_pg_probe_result read_answer(struct sl_pg_probe *p)
{
    enum sl_pg_probe_result answer = SL_PG_PROBE_UNKNOWN;
    PGresult *result;

    if (!PQconsumeInput(p->conn))
        return SL_PG_PROBE_UNKNOWN;
    if (PQisBusy(p->conn))
        return SL_PG_PROBE_GOES_ON;
    result = PQgetResult(p->conn);
    if (PQresultStatus(result) == PGRES_TUPLES_OK)
        answer =
            PQntuples(result) == 0 || strcmp(PQgetvalue(result, 0, 0), "t") == 0
                ? SL_PG_PROBE_LOST
                : SL_PG_PROBE_WORKING;
    PQclear(result);
    return answer;
}

enum sl_pg_probe_result sl_pg_probe_step(struct sl_pg_probe *p, sl_ns now)
{
    if (now >= p->until)
        return SL_PG_PROBE_UNKNOWN;
    if (!is_ready(p))
        return SL_PG_PROBE_GOES_ON;
    return p->asking ? read_answer(p) : connect_on(p);
}
