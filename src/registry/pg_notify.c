/* pg_notify.c -- notifications of other daemons. */
#include <libpq-fe.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "registry/pg.h"

/* How often a silent connection is checked. */
#define SILENCE (5 * SL_S)
#define AGAIN   (200 * SL_MS)

#define TEXT_MOST ((size_t)64 << 10)

struct sl_pg_notify {
    struct sl_pg_notify_options options;
    struct sl_pg_conn link;
    struct sl_arena arena;
    pthread_t thread;
    bool has_thread;
    int stop; /* an eventfd */
};

/* ---- messages ---- */

static void hear(struct sl_pg_notify *l, struct sl_str text)
{
    struct sl_str message;

    sl_arena_reset(&l->arena);
    /* An unreadable message may be about anything. */
    if (!sl_pg_unescape(&l->arena, text, &message))
        message = SL_STR("");
    l->options.heard(l->options.ctx, message);
}

static void hear_all(struct sl_pg_notify *l)
{
    PGnotify *notify;

    while ((notify = PQnotifies(l->link.conn))) {
        if (notify->be_pid != atomic_load(l->options.own))
            hear(l, sl_str_c(notify->extra));
        PQfreemem(notify);
    }
}

/* ---- the connection ---- */

/* Makes up for missed messages: whether there are subjects, and all switches.
 */
static const char missed[] =
    "SELECT 's::' WHERE EXISTS(SELECT 1 FROM subjects) OR"
    " EXISTS(SELECT 1 FROM usage_credits) UNION ALL"
    " SELECT 'f:' || is_on || ':' || name FROM switches";

static int on_open(struct sl_pg_conn *link, struct sl_diag *diag)
{
    struct sl_pg_notify *l = link->ctx;
    PGresult *result = NULL;
    int err = sl_pg_exec(link, "LISTEN " SL_PG_SCHEMA, NULL, diag);

    if (!err)
        err = sl_pg_exec(link, missed, &result, diag);
    if (err)
        return err;
    l->options.heard(l->options.ctx, SL_STR(""));
    for (int i = 0; i < PQntuples(result); i++)
        hear(l, sl_str_c(PQgetvalue(result, i, 0)));
    PQclear(result);
    return 0;
}

/* Waits for input or for `most`. Returns false if the thread must end. */
static bool wait_for(struct sl_pg_notify *l, int fd, sl_ns most,
                     bool *ret_heard)
{
    struct pollfd fds[2] = {
        {.fd = l->stop, .events = POLLIN},
        {.fd = fd,      .events = POLLIN}
    };

    poll(fds, 2, (int)(most / SL_MS));
    *ret_heard = fds[1].revents != 0;
    return fds[0].revents == 0;
}

/* A silent connection may be dead. */
static void listen_once(struct sl_pg_notify *l, bool heard)
{
    struct sl_diag diag = {0};

    if (heard ? !PQconsumeInput(l->link.conn)
              : sl_pg_exec(&l->link, "SELECT 1", NULL, &diag) != 0) {
        if (l->link.conn)
            sl_pg_conn_drop(&l->link);
        return;
    }
    hear_all(l);
    if (PQstatus(l->link.conn) != CONNECTION_OK)
        sl_pg_conn_drop(&l->link);
}

static void *serve(void *ctx)
{
    struct sl_pg_notify *l = ctx;
    struct sl_diag diag = {0};
    bool heard = false, goes_on = true;

    while (goes_on) {
        if (!l->link.conn && sl_pg_conn_ensure(&l->link, &diag)) {
            goes_on = wait_for(l, -1, AGAIN, &heard);
            continue;
        }
        hear_all(l);
        goes_on = wait_for(l, PQsocket(l->link.conn), SILENCE, &heard);
        if (goes_on)
            listen_once(l, heard);
    }
    return NULL;
}

/* ---- opening ---- */

/* Signals are handled by another thread. */
static int start(struct sl_pg_notify *l)
{
    sigset_t all, old;
    int code;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    code = pthread_create(&l->thread, NULL, serve, l);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    l->has_thread = code == 0;
    return code;
}

int sl_pg_notify_open(const struct sl_pg_notify_options *options,
                      struct sl_pg_notify **ret, struct sl_diag *diag)
{
    struct sl_pg_notify *l = sl_alloc_new(options->alloc, sizeof(*l));

    if (!l)
        return sl_diag_error(diag, SLUICE_ENOMEM, "out of memory");
    memset(l, 0, sizeof(*l));
    l->options = *options;
    l->link.url = options->url;
    l->link.search_path = SL_PG_SCHEMA;
    l->link.on_open = on_open;
    l->link.ctx = l;
    sl_pg_init(&l->link);
    sl_arena_init(&l->arena, TEXT_MOST, options->alloc);
    l->stop = eventfd(0, EFD_CLOEXEC);
    if (l->stop < 0 || start(l)) {
        sl_pg_notify_close(l);
        return sl_diag_error(diag, SLUICE_ESYS, "cannot start another thread");
    }
    *ret = l;
    return 0;
}

void sl_pg_notify_close(struct sl_pg_notify *l)
{
    if (!l)
        return;
    if (l->has_thread) {
        /* A write of 1 to a counter of 0 does not block. */
        (void)!write(l->stop, &(uint64_t){1}, sizeof(uint64_t));
        pthread_join(l->thread, NULL);
    }
    if (l->stop >= 0)
        close(l->stop);
    sl_pg_close(&l->link);
    sl_arena_done(&l->arena);
    sl_alloc_free(l->options.alloc, l, sizeof(*l));
}
