/* tls.c -- TLS: what is refused at the start, and what a client meets. */
#include "net/tls.h"

#include "row.h"
#include "talk.h"

static void test_files(void)
{
    const struct {
        const char *why, *cert, *key, *ca, *says, *names;
    } rows[] = {
        {"no certificate",                    NULL,     pki.key,    NULL,
         "TLS needs both a certificate and a key",   ""        },
        {"no key",                            pki.cert, NULL,       NULL,
         "TLS needs both a certificate and a key",   ""        },
        {"a certificate that is not there",   pki.none, pki.key,    NULL,
         "none.pem: No such file or directory",      pki.none  },
        {"a key that is not there",           pki.cert, pki.none,   NULL,
         "none.pem: No such file or directory",      pki.none  },
        {"a client_ca that is not there",     pki.cert, pki.key,    pki.none,
         "none.pem: No such file or directory",      pki.none  },
        {"an empty certificate",              pki.junk, pki.key,    NULL,
         "it must be in PEM form",                   pki.junk  },
        {"a key in place of the certificate", pki.key,  pki.key,    NULL,
         "it must be in PEM form",                   pki.key   },
        {"an empty key",                      pki.cert, pki.junk,   NULL,
         "it must be a private key in PEM form",     pki.junk  },
        {"a certificate in place of the key", pki.cert, pki.cert,   NULL,
         "it must be a private key in PEM form",     pki.cert  },
        {"another's key",                     pki.cert, pki.other,  NULL,
         "does not match the certificate",           pki.other },
        {"a key with a password",             pki.cert, pki.locked, NULL,
         "is encrypted; store it without",           pki.locked},
        {"a client_ca without certificates",  pki.cert, pki.key,    pki.key,
         "it must contain certificates in PEM form", pki.key   },
    };

    for (size_t i = 0; i < SL_LEN(rows); i++) {
        struct sl_tls_options options = {rows[i].cert, rows[i].key, rows[i].ca,
                                         false};
        struct sl_diag diag = {0};
        struct sl_tls *tls = NULL;

        CASE(rows[i].why);
        CHECK_EQ(sl_tls_open(&options, &tls, &diag), SLUICE_ECONF);
        CHECK(!tls);
        if (!CHECK(strstr(diag.sentence, rows[i].says)) ||
            !CHECK(strstr(diag.sentence, rows[i].names)))
            printf("# %s\n", diag.sentence);
        CHECK(!strstr(diag.sentence, "BEGIN"));
        CHECK_EQ(ERR_peek_error(), 0);
    }
}

static void test_talk(struct rig *rig, int version)
{
    struct sl_tls *tls = open_tls(false, false);
    struct talk t = {.g = {.echo = true}};

    CASE(version == TLS1_2_VERSION ? "an echo over TLS 1.2"
                                   : "an echo over TLS 1.3");
    t.ctx = SSL_CTX_new(TLS_client_method());
    SSL_CTX_set_max_proto_version(t.ctx, version);
    talk_open(&t, rig, tls, NULL);
    sl_tls_unref(tls); /* the connection has its own */
    CHECK_EQ(shake(&t), 1);
    CHECK_EQ(SSL_version(t.ssl), version);
    say_tls(&t, "hello");
    CHECK_STR(hear_tls(&t), "hello");
    CHECK(!t.g.conn->tls_client);
    CHECK(!t.g.conn->tls_h2);
    say_tls(&t, "again");
    CHECK_STR(hear_tls(&t), "again");
    CHECK_EQ(ERR_peek_error(), 0);

    CASE("a client that says goodbye still gets its answer, and one back");
    t.g.echo = false;
    t.g.at_end = "late";
    say_tls(&t, "q");
    SSL_shutdown(t.ssl);
    CHECK_STR(hear_tls(&t), "late");
    CHECK_STR(hear_tls(&t), "-");
    CHECK_EQ(t.g.ends, 1);
    talk_close(&t);
}

TEST_WITH(refused, struct rig *rig)
{
    struct sl_tls *tls = open_tls(false, false);
    struct talk t = {.g = {.echo = true}};
    struct guest plain = {.echo = true};
    struct sl_conn_options options = guest_options(&plain);

    CASE("TLS 1.1 is refused");
    t.ctx = SSL_CTX_new(TLS_client_method());
    SSL_CTX_set_security_level(t.ctx, 0);
    SSL_CTX_set_min_proto_version(t.ctx, TLS1_VERSION);
    SSL_CTX_set_max_proto_version(t.ctx, TLS1_1_VERSION);
    talk_open(&t, rig, tls, NULL);
    CHECK(shake(&t) != 1);
    WAIT_FOR(rig, t.g.closes == 1);
    CHECK_EQ(t.g.inputs + t.g.ends, 0);
    talk_close(&t);

    CASE("ciphers without forward secrecy, too");
    t = (struct talk){.g = {.echo = true}};
    t.ctx = SSL_CTX_new(TLS_client_method());
    SSL_CTX_set_max_proto_version(t.ctx, TLS1_2_VERSION);
    SSL_CTX_set_cipher_list(t.ctx, "ECDHE+AES+SHA1:RSA");
    talk_open(&t, rig, tls, NULL);
    CHECK(shake(&t) != 1);
    talk_close(&t);

    CASE("and what is no TLS at all");
    options.tls = tls;
    guest_open(&plain, rig, &options);
    say(plain.client, "GET / HTTP/1.1\r\n\r\n");
    WAIT_FOR(rig, plain.closes == 1);
    CHECK_EQ(plain.inputs, 0);
    close(plain.client);

    CASE("finishing before the handshake is done closes");
    plain = (struct guest){0};
    guest_open(&plain, rig, &options);
    sl_conn_finish(plain.conn);
    WAIT_FOR(rig, plain.closes == 1);
    close(plain.client);
    sl_tls_unref(tls);
}

/* The handshake with this list, as ALPN wants it; what was chosen, or "!". */
static const char *offer(struct rig *rig, struct sl_tls *tls, const char *list,
                         bool *h2)
{
    static char chosen[32];
    struct talk t = {.g = {.echo = true}};
    const unsigned char *name = NULL;
    unsigned len = 0;

    talk_open(&t, rig, tls, NULL);
    if (list)
        SSL_set_alpn_protos(t.ssl, (const unsigned char *)list,
                            (unsigned)strlen(list));
    if (shake(&t) != 1) {
        talk_close(&t);
        return "!";
    }
    SSL_get0_alpn_selected(t.ssl, &name, &len);
    snprintf(chosen, sizeof(chosen), "%.*s", (int)len,
             name ? (const char *)name : "");
    say_tls(&t, "x");
    CHECK_STR(hear_tls(&t), "x");
    *h2 = t.g.conn->tls_h2;
    talk_close(&t);
    return chosen;
}

TEST_WITH(alpn, struct rig *rig)
{
    static const struct {
        const char *why, *offered;
        bool http2;
        const char *chosen;
        bool h2;
    } rows[] = {
        ROW("no ALPN is fine", NULL, true, "", false),
        ROW("http/1.1 is spoken", "\x08http/1.1", false, "http/1.1", false),
        ROW("h2 only if asked for", "\x02h2\x08http/1.1", false, "http/1.1",
            false),
        ROW("and then preferred", "\x08http/1.1\x02h2", true, "h2", true),
        ROW("h2 does not shut out others", "\x08http/1.1", true, "http/1.1",
            false),
        ROW("other protocols are refused",
            "\x03"
            "ftp",
            true, "!", false),
        ROW("h2 alone, not offered", "\x02h2", false, "!", false),
    };

    for (size_t i = 0; i < SL_LEN(rows); i++) {
        struct sl_tls *tls = open_tls(false, rows[i].http2);
        bool h2 = false;

        CASE(rows[i].why);
        CHECK_STR(offer(rig, tls, rows[i].offered, &h2), rows[i].chosen);
        CHECK_EQ(h2, rows[i].h2);
        sl_tls_unref(tls);
    }
}

TEST_WITH(clients, struct rig *rig)
{
    struct sl_tls *tls = open_tls(true, false);
    struct talk t = {.g = {.echo = true}};
    EVP_PKEY *key = pem_key();
    X509 *fake_ca = pem_certify(key, "ca", true, NULL, NULL);
    X509 *fake = pem_certify(key, "client", false, fake_ca, key);

    CASE("with client_ca a client without a certificate is refused");
    talk_open(&t, rig, tls, NULL);
    /* With TLS 1.3 the client learns it after its own side is done. */
    if (shake(&t) == 1)
        say_tls(&t, "let me in");
    WAIT_FOR(rig, t.g.closes == 1);
    CHECK_EQ(t.g.inputs, 0);
    talk_close(&t);

    CASE("and one whose certificate another has signed");
    t = (struct talk){.g = {.echo = true}};
    talk_open(&t, rig, tls, NULL);
    show(&t, fake, key);
    if (shake(&t) == 1)
        say_tls(&t, "let me in");
    WAIT_FOR(rig, t.g.closes == 1);
    CHECK_EQ(t.g.inputs, 0);
    talk_close(&t);

    CASE("one with the right certificate is let in, and known");
    t = (struct talk){.g = {.echo = true}};
    talk_open(&t, rig, tls, NULL);
    show(&t, pki.client_cert, pki.client_key);
    CHECK_EQ(shake(&t), 1);
    say_tls(&t, "it is me");
    CHECK_STR(hear_tls(&t), "it is me");
    CHECK(t.g.conn->tls_client);
    talk_close(&t);
    X509_free(fake);
    X509_free(fake_ca);
    EVP_PKEY_free(key);
    sl_tls_unref(tls);
}

int main(void)
{
    struct rig rig;

    alarm(300);
    make_files();
    rig_open(&rig, NULL);
    test_files();
    test_talk(&rig, TLS1_2_VERSION);
    test_talk(&rig, TLS1_3_VERSION);
    RUN_TESTS_WITH(&rig);
    CASE("no connection is left");
    CHECK_EQ(sl_conns_count(rig.conns), 0);
    rig_close(&rig);
    drop_files();
    return CHECK_DONE();
}
