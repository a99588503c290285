/* guest.h -- an owner of connections that notes its callbacks, and does what
 * the test wants.
 */
#ifndef SL_TEST_GUEST_H
#define SL_TEST_GUEST_H

#include "turns.h"

struct guest {
    struct rig *rig;
    struct sl_conn *conn; /* NULL once it is closed */
    int client;           /* the other end */
    unsigned inputs, ends, deadlines, closes;
    bool inside;            /* on_input has not returned */
    char got[256];          /* the first bytes that came in */
    size_t got_len, in_len; /* all that came; what was in `in` last time */

    /* What to do with input. */
    bool echo;     /* send it back */
    bool may_fail; /* for want of memory */
    bool leave;    /* take nothing */
    size_t take;   /* at most so many bytes at once; 0: all */
    size_t answer; /* append so many bytes for each byte taken */
    bool pause, finish, abort, flush; /* after that */
    struct guest *victim;             /* abort another's, too */
    bool pause_shortly;               /* pause and go on at once */
    bool yield;                       /* let the others have their turn */
    /* And else. */
    const char *at_end;      /* append this when the peer has ended */
    bool pause_at_end;       /* or think about it */
    const char *at_deadline; /* append this and finish */
    bool unfinished;         /* or do not finish */
    sl_ns again;             /* or set this deadline */
};

static inline void guest_answer(struct guest *g, struct sl_str text, size_t n)
{
    if (g->echo && sl_buf_add(&g->conn->out, text)) {
        CHECK(g->may_fail);
        sl_conn_abort(g->conn);
    }
    for (size_t i = 0; i < g->answer * n; i++)
        CHECK_EQ(sl_buf_add(&g->conn->out, SL_STR("x")), 0);
}

static void guest_input(struct sl_conn *conn)
{
    struct guest *g = conn->owner;
    size_t n = g->take && g->take < conn->in.len ? g->take : conn->in.len;

    CHECK(!g->inside);
    CHECK(conn == g->conn);
    g->inside = true;
    g->inputs++;
    g->in_len = conn->in.len;
    if (g->pause || g->pause_shortly)
        sl_conn_pause(conn, true);
    if (!g->leave) {
        size_t room =
            sizeof(g->got) - 1 - (g->got_len < 255 ? g->got_len : 255);

        if (room > 0)
            memcpy(g->got + g->got_len, conn->in.bytes, n < room ? n : room);
        g->got_len += n;
        guest_answer(g, (struct sl_str){conn->in.bytes, n}, n);
        sl_buf_drop(&conn->in, n);
    }
    if (g->pause_shortly)
        sl_conn_pause(conn, false);
    if (g->yield)
        sl_conn_yield(conn);
    if (g->flush)
        sl_conn_flush(conn);
    if (g->finish)
        sl_conn_finish(conn);
    if (g->abort)
        sl_conn_abort(conn);
    if (g->victim && g->victim->conn)
        sl_conn_abort(g->victim->conn);
    sl_buf_check(&conn->in);
    sl_buf_check(&conn->out);
    g->inside = false;
}

static void guest_end(struct sl_conn *conn)
{
    struct guest *g = conn->owner;

    CHECK(!g->inside);
    g->ends++;
    if (g->pause_at_end)
        sl_conn_pause(conn, true);
    if (g->at_end)
        CHECK_EQ(sl_buf_add(&conn->out, sl_str_c(g->at_end)), 0);
}

static void guest_deadline(struct sl_conn *conn)
{
    struct guest *g = conn->owner;

    g->deadlines++;
    if (g->at_deadline) {
        CHECK_EQ(sl_buf_add(&conn->out, sl_str_c(g->at_deadline)), 0);
        if (!g->unfinished)
            sl_conn_finish(conn);
    }
    if (g->again)
        sl_conn_deadline(conn, g->again);
}

static void guest_close(struct sl_conn *conn)
{
    struct guest *g = conn->owner;

    CHECK(!g->inside);
    CHECK(g->closes == 0);
    g->closes++;
    g->conn = NULL;
    /* None of these may do anything any more. */
    sl_conn_flush(conn);
    sl_conn_finish(conn);
    sl_conn_abort(conn);
    sl_conn_deadline(conn, SL_S);
    sl_conn_pause(conn, true);
    sl_conn_pause(conn, false);
    sl_conn_yield(conn);
}

static const struct sl_conn_calls guest_calls = {
    .on_input = guest_input,
    .on_end = guest_end,
    .on_deadline = guest_deadline,
    .on_close = guest_close,
};

static inline struct sl_conn_options guest_options(struct guest *g)
{
    return (struct sl_conn_options){
        .calls = &guest_calls,
        .owner = g,
        .in_most = 65536,
        .out_most = 1 << 20,
        .out_high = 16384,
        .alloc = &sl_alloc_libc,
    };
}

/* A connection whose other end is g->client. */
static inline void guest_open(struct guest *g, struct rig *rig,
                              const struct sl_conn_options *options)
{
    struct sl_conn_options usual = guest_options(g);
    int fds[2];

    pair(fds);
    g->rig = rig;
    g->client = fds[1];
    if (sl_conn_open(rig->conns, fds[0], NULL, options ? options : &usual,
                     &g->conn)) {
        printf("Bail out! no connection\n");
        exit(1);
    }
}

/* The client goes, and so does the connection. */
static inline void guest_leave(struct guest *g)
{
    close(g->client);
    WAIT_FOR(g->rig, g->closes == 1);
}

#endif
