/* tls_session.c -- TLS over time: tickets, much traffic, pauses, ends. */
#include <signal.h>

#include "talk.h"

static SSL_SESSION *kept;

static int on_session(SSL *ssl, SSL_SESSION *session)
{
    (void)ssl;
    SSL_SESSION_free(kept);
    kept = session;
    return 1;
}

static bool resume(struct rig *rig, struct sl_tls *tls, int version)
{
    struct talk t = {.g = {.echo = true}};
    bool resumed;

    t.ctx = SSL_CTX_new(TLS_client_method());
    SSL_CTX_set_max_proto_version(t.ctx, version);
    SSL_CTX_set_session_cache_mode(t.ctx, SSL_SESS_CACHE_CLIENT |
                                              SSL_SESS_CACHE_NO_INTERNAL_STORE);
    SSL_CTX_sess_set_new_cb(t.ctx, on_session);
    talk_open(&t, rig, tls, NULL);
    show(&t, pki.client_cert, pki.client_key);
    if (kept)
        SSL_set_session(t.ssl, kept);
    CHECK_EQ(shake(&t), 1);
    say_tls(&t, "x");
    CHECK_STR(hear_tls(&t), "x");
    CHECK(t.g.conn->tls_client);
    resumed = SSL_session_reused(t.ssl);
    SSL_shutdown(t.ssl);
    talk_close(&t);
    return resumed;
}

TEST_WITH(resume, struct rig *rig)
{
    static const int versions[] = {TLS1_2_VERSION, TLS1_3_VERSION};

    for (unsigned i = 0; i < 2; i++) {
        struct sl_tls *tls = open_tls(true, false), *renewed;

        CASE("a session is resumed by its ticket, and still knows its client");
        CHECK(!resume(rig, tls, versions[i]));
        CHECK(resume(rig, tls, versions[i]));

        CASE("after new certificates it begins anew");
        renewed = open_tls(true, false);
        CHECK(!resume(rig, renewed, versions[i]));
        sl_tls_unref(renewed);
        sl_tls_unref(tls);
        SSL_SESSION_free(kept);
        kept = NULL;
    }
}

TEST_WITH(renegotiation, struct rig *rig)
{
    struct sl_tls *tls = open_tls(false, false);
    struct talk t = {.g = {.echo = true}};

    CASE("a client can't renegotiate");
    t.ctx = SSL_CTX_new(TLS_client_method());
    SSL_CTX_set_max_proto_version(t.ctx, TLS1_2_VERSION);
    talk_open(&t, rig, tls, NULL);
    CHECK_EQ(shake(&t), 1);
    say_tls(&t, "x");
    CHECK_STR(hear_tls(&t), "x");
    CHECK_EQ(SSL_renegotiate(t.ssl), 1);
    CHECK(shake(&t) != 1);
    talk_close(&t);
    sl_tls_unref(tls);
}

/* Many bytes both ways, through buffers that are smaller, with pauses. */
TEST_WITH(bulk, struct rig *rig)
{
    struct sl_tls *tls = open_tls(false, false);
    struct talk t = {
        .g = {.answer = 30, .take = 5000}
    };
    struct sl_conn_options options = guest_options(&t.g);
    char chunk[7000], text[16384];
    size_t sent = 0, heard = 0;

    CASE("a megabyte and more, in pieces, none lost");
    memset(chunk, 'c', sizeof(chunk));
    options.in_most = 20000;
    options.out_most = 400000;
    t.g.pause_shortly = true;
    talk_open(&t, rig, tls, &options);
    CHECK_EQ(shake(&t), 1);
    for (unsigned i = 0; i < 100000 && heard < 30 * 70000; i++) {
        int n;

        if (sent < 70000) {
            n = SSL_write(t.ssl, chunk, sizeof(chunk));
            sent += n > 0 ? (size_t)n : 0;
        }
        ERR_clear_error();
        n = SSL_read(t.ssl, text, sizeof(text));
        heard += n > 0 ? (size_t)n : 0;
        ERR_clear_error();
        turn(rig);
    }
    CHECK_EQ(sent, 70000);
    CHECK_EQ(t.g.got_len, 70000);
    CHECK_EQ(heard, 30 * 70000);
    talk_close(&t);
    sl_tls_unref(tls);
}

/* TLS has bytes that epoll does not know of. */
TEST_WITH(pause, struct rig *rig)
{
    struct sl_tls *tls = open_tls(false, false);
    struct talk t = {.g = {.pause = true}};
    struct sl_conn_options options = guest_options(&t.g);
    char chunk[9000];

    CASE("records that came together are shown together");
    talk_open(&t, rig, tls, NULL);
    CHECK_EQ(shake(&t), 1);
    turn(rig);
    for (unsigned i = 0; i < 3; i++)
        CHECK_EQ(SSL_write(t.ssl, "rec", 3), 3);
    WAIT_FOR(rig, t.g.inputs > 0);
    CHECK_EQ(t.g.got_len, 9);
    CHECK_EQ(t.g.inputs, 1);
    sl_conn_pause(t.g.conn, false);
    talk_close(&t);
    t = (struct talk){.g = {.pause = true}};

    CASE("what TLS has read already is found after a pause");
    memset(chunk, 'c', sizeof(chunk));
    options.in_most = 4096;
    talk_open(&t, rig, tls, &options);
    CHECK_EQ(shake(&t), 1);
    CHECK_EQ(SSL_write(t.ssl, chunk, sizeof(chunk)), sizeof(chunk));
    for (unsigned i = 1; i <= 3; i++) {
        WAIT_FOR(rig, t.g.inputs == i);
        for (unsigned k = 0; k < 3; k++)
            turn(rig);
        CHECK_EQ(t.g.inputs, i);
        sl_conn_pause(t.g.conn, false);
    }
    CHECK_EQ(t.g.got_len, 9000);

    CASE("an end that came with the last bytes, too");
    CHECK_EQ(SSL_write(t.ssl, "bye", 3), 3);
    SSL_shutdown(t.ssl);
    WAIT_FOR(rig, t.g.inputs == 4);
    CHECK_EQ(t.g.ends, 0);
    sl_conn_pause(t.g.conn, false);
    WAIT_FOR(rig, t.g.ends == 1);
    talk_close(&t);
    sl_tls_unref(tls);
}

TEST_WITH(gone, struct rig *rig)
{
    struct sl_tls *tls = open_tls(false, false);
    struct talk t = {.g = {.echo = true}};

    CASE("writing to a client that has gone raises no SIGPIPE");
    CHECK(signal(SIGPIPE, SIG_DFL) != SIG_ERR);
    talk_open(&t, rig, tls, NULL);
    CHECK_EQ(shake(&t), 1);
    say_tls(&t, "x");
    CHECK_STR(hear_tls(&t), "x");
    close(t.g.client);
    CHECK_EQ(sl_buf_add(&t.g.conn->out, SL_STR("to no one")), 0);
    sl_conn_flush(t.g.conn);
    CHECK_EQ(t.g.closes, 0);
    WAIT_FOR(rig, t.g.closes == 1);
    SSL_free(t.ssl);
    SSL_CTX_free(t.ctx);

    CASE("finishing says goodbye");
    t = (struct talk){
        .g = {.echo = true, .finish = true}
    };
    talk_open(&t, rig, tls, NULL);
    CHECK_EQ(shake(&t), 1);
    say_tls(&t, "x");
    CHECK_STR(hear_tls(&t), "x");
    CHECK_STR(hear_tls(&t), "-");
    CHECK_EQ(SSL_get_shutdown(t.ssl), SSL_RECEIVED_SHUTDOWN);
    talk_close(&t);
    sl_tls_unref(tls);
    sl_tls_unref(NULL);
    CHECK(!sl_tls_ref(NULL));
}

static sl_ns by_hand = 1000 * SL_S;

static sl_ns read_hand(void *ctx)
{
    (void)ctx;
    return by_hand;
}

TEST(deadline)
{
    struct sl_tls *tls = open_tls(false, false);
    struct guest g = {.at_deadline = "408"};
    struct sl_conn_options options = guest_options(&g);
    struct sl_clock clock;
    struct rig rig;

    CASE("a handshake that never comes has a deadline too");
    sl_clock_init_sources(&clock, read_hand, read_hand, NULL);
    rig_open(&rig, &clock);
    options.tls = tls;
    guest_open(&g, &rig, &options);
    sl_conn_deadline(g.conn, 5 * SL_S);
    by_hand += 5 * SL_S;
    WAIT_FOR(&rig, g.closes == 1);
    CHECK_EQ(g.deadlines, 0);
    CHECK_STR(hear(g.client), "-");
    close(g.client);
    rig_close(&rig);
    sl_tls_unref(tls);
}

int main(void)
{
    struct rig rig;

    alarm(300);
    make_files();
    rig_open(&rig, NULL);
    RUN_TESTS_WITH(&rig);
    CASE("no connection is left");
    CHECK_EQ(sl_conns_count(rig.conns), 0);
    rig_close(&rig);
    drop_files();
    return CHECK_DONE();
}
