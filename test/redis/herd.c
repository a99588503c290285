/* herd.c -- fifty stores that lose one Redis at the same instant do not come
 * back at the same instant, do not beset it meanwhile, and all come back. */
#include "client.h"
#include "server.h"

#define HERD 50

struct herd {
    struct client c; /* the loop, and the first of them */
    struct sl_store *stores[HERD];
};

static void open_herd(struct herd *h, const struct server *s)
{
    char where[64];

    snprintf(where, sizeof(where), "redis://127.0.0.1:%u", s->port);
    h->c.options.remote.deadline = 5 * SL_S;
    client_open(&h->c, where);
    h->stores[0] = h->c.store;
    for (unsigned i = 1; i < HERD; i++) {
        client_must(sl_redis_open(&h->c.options, &h->stores[i], NULL), NULL);
        client_must(sl_remote_store_attach(h->stores[i], h->c.loop, NULL),
                    NULL);
    }
}

static unsigned count_up(const struct herd *h)
{
    unsigned up = 0;

    for (unsigned i = 0; i < HERD; i++) {
        struct sl_remote_stats stats;

        sl_remote_store_stats(h->stores[i], &stats);
        up += stats.up > 0 && sl_remote_store_is_ready(h->stores[i]);
    }
    return up;
}

/* How many of them will call at an instant of their own. */
static unsigned count_apart(const struct herd *h)
{
    sl_ns at[HERD];
    unsigned apart = 0;

    for (unsigned i = 0; i < HERD; i++) {
        bool alone = true;

        at[i] = sl_remote_store_retry_in(h->stores[i], h->c.loop);
        for (unsigned k = 0; k < i; k++)
            alone &= at[k] != at[i];
        apart += alone;
    }
    return apart;
}

/* A server that closes every connection. */
static int open_rude(unsigned port)
{
    struct sockaddr_in sin = {.sin_family = AF_INET};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int one = 1;

    sin.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    sin.sin_port = htons((uint16_t)port);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (bind(fd, (struct sockaddr *)&sin, sizeof(sin)) || listen(fd, 128))
        server_give_up("the port is taken");
    return fd;
}

static unsigned hang_up_all(int fd)
{
    unsigned count = 0;
    int client;

    while ((client = accept4(fd, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
        close(client);
        count++;
    }
    return count;
}

static void take_all(struct herd *h)
{
    struct sl_limit limit = rate_of(SL_LEVEL, "1000");

    for (unsigned i = 0; i < HERD; i++) {
        int err;

        h->c.store = h->stores[i];
        (void)client_take(&h->c, SL_TAKE_OP_TAKE, &limit, "herd", 1, &err);
        CHECK_EQ(err, 0);
    }
    h->c.store = h->stores[0];
}

int main(void)
{
    static struct herd h;
    static struct server s;
    unsigned calls = 0;
    int rude;

    server_start(&s);
    open_herd(&h, &s);
    CASE("all of a herd are there");
    CLIENT_WAIT(&h.c, count_up(&h) == HERD);

    CASE("when Redis is gone they call again, each at its own time");
    server_kill(&s, SIGKILL);
    CLIENT_WAIT(&h.c, count_up(&h) == 0);
    CHECK(count_apart(&h) > HERD / 2);

    CASE("and no more often than a back-off allows");
    rude = open_rude(s.port);
    for (unsigned i = 0; i < 200; i++) {
        client_run(&h.c, 10 * SL_MS);
        calls += hang_up_all(rude);
    }
    close(rude);
    printf("# %u calls of %d in two seconds\n", calls, HERD);
    CHECK(calls >= HERD / 2);
    CHECK(calls <= HERD * 15);

    CASE("they all come back, and take");
    server_spawn(&s);
    CLIENT_WAIT(&h.c, count_up(&h) == HERD);
    take_all(&h);
    for (unsigned i = 1; i < HERD; i++) {
        sl_remote_store_detach(h.stores[i], h.c.loop);
        sl_store_close(h.stores[i]);
    }
    client_close(&h.c);
    server_stop(&s);
    return CHECK_DONE();
}
