/* tls.c -- a Redis by TLS, found by its name. */
#include "cluster.h"
#include "load.h"

static void make_certificates(const char *dir)
{
    char line[512];

    for (unsigned i = 0; i < 2; i++) {
        snprintf(line, sizeof(line),
                 "openssl req -x509 -newkey ec -pkeyopt "
                 "ec_paramgen_curve:prime256v1 -nodes -days 2 -subj "
                 "/CN=localhost -addext subjectAltName=DNS:localhost "
                 "-keyout %s/key%u.pem -out %s/cert%u.pem",
                 dir, i, dir, i);
        if (!shell(line))
            server_give_up("no certificates");
    }
}

static void open_at(struct client *c, const struct server *s, unsigned port,
                    const char *name, unsigned ca)
{
    char where[256];

    memset(c, 0, sizeof(*c));
    c->options.remote.deadline = 2 * SL_S;
    snprintf(where, sizeof(where), "rediss://%s:%u?ca=%s/cert%u.pem", name,
             port, s->dir, ca);
    client_open(c, where);
}

int main(void)
{
    struct server s = {.pid = 0};
    struct sl_limit limit = rate_of(SL_FIXED, "5/day");
    struct client c;
    unsigned port;
    int err;

    server_start(&s);
    port = free_port();
    make_certificates(s.dir);
    CASE("a Redis by TLS, found by its name");
    server_say(&s,
               "CONFIG SET tls-auth-clients no tls-cert-file %s/cert0.pem "
               "tls-key-file %s/key0.pem tls-port %u",
               s.dir, s.dir, port);
    open_at(&c, &s, port, "localhost", 0);
    client_ready(&c);
    CHECK_EQ(client_take(&c, SL_TAKE_OP_TAKE, &limit, "k", 1, &err).remaining,
             4);
    CHECK_EQ(err, 0);
    client_close(&c);

    CASE("one that we do not trust");
    open_at(&c, &s, port, "localhost", 1);
    CLIENT_WAIT(&c, c.news[SL_STORE_EVENT_DOWN] > 0);
    CHECK(!sl_remote_store_is_ready(c.store));
    client_close(&c);

    CASE("one that is called otherwise");
    open_at(&c, &s, port, "127.0.0.1", 0);
    CLIENT_WAIT(&c, c.news[SL_STORE_EVENT_DOWN] > 0);
    CHECK(!sl_remote_store_is_ready(c.store));
    client_close(&c);

    CASE("a name that no certificate has");
    open_at(&c, &s, port, "no..name", 0);
    CLIENT_WAIT(&c, c.news[SL_STORE_EVENT_DOWN] > 0);
    CHECK(strstr(c.last[SL_STORE_EVENT_DOWN], "cannot be resolved"));
    client_close(&c);
    server_stop(&s);
    return CHECK_DONE();
}
