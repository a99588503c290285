/* net.c -- loops and other threads: posts, stops, sharing of sockets and of
 * TLS, and the log.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "check.h"
#include "net/conn.h"
#include "net/listener.h"

#define THREADS 4
#define POSTS   5000U
#define CLIENTS 40
#define ASKS    50

struct poster {
    pthread_t id;
    struct sl_loop *loop;
    unsigned called; /* on the loop's thread, in order */
    bool disorder;
    _Atomic unsigned *done;
};

struct op {
    struct poster *poster;
    unsigned number;
};

static void on_post(void *ctx)
{
    struct op *e = ctx;

    e->poster->disorder |= e->number != e->poster->called;
    if (++e->poster->called == POSTS &&
        atomic_fetch_add(e->poster->done, 1) + 1 == THREADS)
        sl_loop_stop(e->poster->loop);
}

static void *post_main(void *arg)
{
    static struct op posts[THREADS][POSTS];
    static _Atomic unsigned next;
    struct poster *p = arg;
    struct op *mine = posts[atomic_fetch_add(&next, 1)];

    for (unsigned i = 0; i < POSTS; i++) {
        mine[i] = (struct op){p, i};
        if (sl_loop_post(p->loop, on_post, &mine[i]))
            abort();
    }
    return NULL;
}

static void test_posts(void)
{
    struct poster posters[THREADS];
    _Atomic unsigned done = 0;
    struct sl_loop *loop;

    CASE("posts of many threads are all run, each thread's in order");
    CHECK_EQ(sl_loop_open(NULL, &loop, NULL), 0);
    for (unsigned i = 0; i < THREADS; i++) {
        posters[i] = (struct poster){.loop = loop, .done = &done};
        pthread_create(&posters[i].id, NULL, post_main, &posters[i]);
    }
    sl_loop_run(loop);
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(posters[i].id, NULL);
        CHECK_EQ(posters[i].called, POSTS);
        CHECK(!posters[i].disorder);
    }
    sl_loop_close(loop);
}

static void on_note(void *ctx)
{
    *(bool *)ctx = true;
}

struct stopper {
    struct sl_loop *loop;
    bool noted;
};

static void *stop_main(void *arg)
{
    struct stopper *s = arg;

    if (sl_loop_post(s->loop, on_note, &s->noted))
        abort();
    sl_loop_stop(s->loop);
    return NULL;
}

static void test_stops(void)
{
    struct sl_loop *loop;

    CASE("a stop from another thread is never missed, nor what came before it");
    CHECK_EQ(sl_loop_open(NULL, &loop, NULL), 0);
    for (unsigned i = 0; i < 300; i++) {
        struct stopper s = {.loop = loop};
        pthread_t id;

        pthread_create(&id, NULL, stop_main, &s);
        sl_loop_run(loop);
        CHECK(s.noted);
        pthread_join(id, NULL);
    }
    sl_loop_close(loop);
}

/* Two loops on one address, clients in a third thread. */
struct server {
    pthread_t id;
    struct sl_loop *loop;
    struct sl_conns *conns;
    struct sl_listener *listener;
    unsigned guests;
};

static void on_input(struct sl_conn *conn)
{
    if (sl_buf_add(&conn->out, sl_buf_str(&conn->in)))
        abort();
    sl_buf_clear(&conn->in);
    sl_log(SL_LOG_INFO, "input", "from", "a loop", NULL);
}

static void on_accept(void *ctx, int fd, const struct sl_address *peer)
{
    static const struct sl_conn_calls calls = {.on_input = on_input};
    struct server *server = ctx;
    struct sl_conn_options options = {
        .calls = &calls,
        .in_most = 1000,
        .out_most = 1000,
        .out_high = 500,
        .alloc = &sl_alloc_libc,
    };
    struct sl_conn *conn;

    server->guests++;
    if (sl_conn_open(server->conns, fd, peer, &options, &conn))
        abort();
    sl_conn_deadline(conn, SL_MIN);
}

static void *serve_main(void *arg)
{
    struct server *server = arg;

    sl_loop_run(server->loop);
    return NULL;
}

static void *ask_main(void *arg)
{
    const struct sl_sockets *s = arg;
    char text[4];
    int fd = socket(s->address.bytes.ss_family, SOCK_STREAM, 0);

    if (connect(fd, (const void *)&s->address.bytes, s->address.len))
        abort();
    for (unsigned i = 0; i < ASKS; i++)
        if (send(fd, "ask", 3, 0) != 3 || recv(fd, text, 3, MSG_WAITALL) != 3 ||
            memcmp(text, "ask", 3) != 0)
            abort();
    close(fd);
    return NULL;
}

static void serve(const char *where)
{
    struct server servers[2] = {{.guests = 0}};
    pthread_t clients[CLIENTS];
    struct sl_address address;
    struct sl_sockets s;

    CHECK_EQ(sl_address_parse(sl_str_c(where), &address, NULL), 0);
    CHECK_EQ(sl_sockets_open(&address, 2, &s, NULL), 0);
    for (unsigned i = 0; i < 2; i++) {
        struct server *server = &servers[i];

        CHECK_EQ(sl_loop_open(NULL, &server->loop, NULL), 0);
        CHECK_EQ(sl_conns_open(server->loop, CLIENTS, &server->conns), 0);
        CHECK_EQ(sl_listener_open(server->loop, s.fds[i], on_accept, server,
                                  &server->listener),
                 0);
        pthread_create(&server->id, NULL, serve_main, server);
    }
    for (unsigned i = 0; i < CLIENTS; i++)
        pthread_create(&clients[i], NULL, ask_main, &s);
    for (unsigned i = 0; i < CLIENTS; i++)
        pthread_join(clients[i], NULL);
    for (unsigned i = 0; i < 2; i++) {
        sl_loop_stop(servers[i].loop);
        pthread_join(servers[i].id, NULL);
        sl_listener_close(servers[i].listener);
        sl_conns_close(servers[i].conns);
        sl_loop_close(servers[i].loop);
    }
    CHECK_EQ(servers[0].guests + servers[1].guests, CLIENTS);
    sl_sockets_close(&s);
}

int main(void)
{
    char path[64];
    int log[2];

    alarm(300);
    if (pipe(log))
        return 1;
    sl_log_open(SL_LOG_INFO, SL_LOG_AUTO, log[1]);
    test_posts();
    test_stops();
    CASE("two loops on one port");
    serve("127.0.0.1:0");
    CASE("two loops on one unix socket");
    snprintf(path, sizeof(path), "unix:/tmp/sluice-threads-%d", (int)getpid());
    serve(path);
    return CHECK_DONE();
}
