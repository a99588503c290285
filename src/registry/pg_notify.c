/* pg_notify.c -- notifications of other daemons.
 *
 * A thread with its own connection LISTENs. After each (re)connect
 * notifications may have been missed: it then passes an empty message, and the
 * switch of every feature.
 */
#include <libpq-fe.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "registry/pg.h"

/* How often a silent connection is checked. */
#define SILENCE (2 * SL_S)
#define AGAIN   (200 * SL_MS)

#define TEXT_MOST ((size_t)64 << 10)

struct sl_pg_notifier {
    struct sl_pg_notifier_options options;
    struct sl_pg_conn link;
    struct sl_arena arena;
    pthread_t thread;
    bool has_thread;
    int stop; /* an eventfd */
};

static void hear(struct sl_pg_notifier *l, struct sl_str text)
{
    struct sl_str message;

    sl_arena_reset(&l->arena);
    /* An unreadable message may be about anything. */
    if (!sl_pg_unescape(&l->arena, text, &message))
        message = SL_STR("");
    l->options.heard(l->options.ctx, message);
}

static void hear_all(struct sl_pg_notifier *l)
{
    PGnotify *notify;

    while ((notify = PQnotifies(l->link.conn))) {
        if (notify->be_pid != atomic_load(l->options.own))
            hear(l, sl_str_c(notify->extra));
        PQfreemem(notify);
    }
}

/* Makes up for missed messages: whether there are subjects, and all switches.
 */
static const char missed[] =
    "SELECT 's::' WHERE EXISTS(SELECT 1 FROM subjects) OR"
    " EXISTS(SELECT 1 FROM usage_credits) OR EXISTS(SELECT 1 FROM blocks)"
    " UNION ALL"
    " SELECT 'f:' || is_on || ':' || name FROM switches";

static int notifier_on_open(struct sl_pg_conn *link, struct sl_diag *diag)
{
    struct sl_pg_notifier *l = link->ctx;
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
static bool wait_for(struct sl_pg_notifier *l, int fd, sl_ns most,
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
static void listen_once(struct sl_pg_notifier *l, bool heard)
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

static void *run_notifier(void *ctx)
{
    struct sl_pg_notifier *l = ctx;
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

void sl_pg_notifier_close(struct sl_pg_notifier *notifier)
{
    if (!notifier)
        return;
    if (notifier->has_thread) {
        /* A write of 1 to a counter of 0 does not block. */
        (void)!write(notifier->stop, &(uint64_t){1}, sizeof(uint64_t));
        pthread_join(notifier->thread, NULL);
    }
    if (notifier->stop >= 0)
        close(notifier->stop);
    sl_pg_close(&notifier->link);
    sl_arena_done(&notifier->arena);
    sl_alloc_free(notifier->options.alloc, notifier, sizeof(*notifier));
}

int sl_pg_notifier_open(const struct sl_pg_notifier_options *options,
                        struct sl_pg_notifier **ret, struct sl_diag *diag)
{
    struct sl_pg_notifier *l = sl_alloc_new(options->alloc, sizeof(*l));
    int err;

    if (!l)
        return sl_diag_error(diag, SLUICE_ENOMEM, "out of memory");
    memset(l, 0, sizeof(*l));
    l->options = *options;
    l->link.url = options->url;
    l->link.search_path = SL_PG_SCHEMA;
    l->link.on_open = notifier_on_open;
    l->link.ctx = l;
    sl_pg_init(&l->link);
    sl_arena_init(&l->arena, TEXT_MOST, options->alloc);
    l->stop = eventfd(0, EFD_CLOEXEC);
    if (l->stop < 0)
        err = sl_diag_error(diag, SLUICE_ESYS, "cannot open an eventfd");
    else
        err = sl_thread_start(&l->thread, run_notifier, l, diag);
    l->has_thread = !err;
    if (err)
        sl_pg_notifier_close(l);
    else
        *ret = l;
    return err;
}
