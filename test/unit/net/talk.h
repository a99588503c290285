/* talk.h -- a TLS client beside the loop, and the files that TLS needs. */
#ifndef SL_TEST_TALK_H
#define SL_TEST_TALK_H

#include <openssl/err.h>
#include <openssl/ssl.h>

#include "guest.h"
#include "pem.h"

/* The files, and the objects that clients use. */
static struct {
    char folder[64];
    char cert[128], key[128], other[128], locked[128], ca[128], none[128],
        junk[128];
    X509 *ca_cert, *client_cert;
    EVP_PKEY *client_key;
} pki;

static inline void make_client(EVP_PKEY *ca_key)
{
    pki.client_key = pem_key();
    pki.client_cert =
        pem_certify(pki.client_key, "client", false, pki.ca_cert, ca_key);
}

static inline void make_files(void)
{
    EVP_PKEY *ca_key = pem_key(), *key = pem_key(), *other = pem_key();
    X509 *cert;

    snprintf(pki.folder, sizeof(pki.folder), "/tmp/sluice-tls-XXXXXX");
    if (!mkdtemp(pki.folder))
        exit(1);
    pem_path(pki.cert, pki.folder, "cert.pem");
    pem_path(pki.key, pki.folder, "key.pem");
    pem_path(pki.other, pki.folder, "other.pem");
    pem_path(pki.locked, pki.folder, "locked.pem");
    pem_path(pki.ca, pki.folder, "ca.pem");
    pem_path(pki.none, pki.folder, "none.pem");
    pem_path(pki.junk, pki.folder, "junk.pem");
    pki.ca_cert = pem_certify(ca_key, "ca", true, NULL, NULL);
    cert = pem_certify(key, "localhost", false, pki.ca_cert, ca_key);
    pem_write(pki.ca_cert, pki.ca);
    pem_write(cert, pki.cert);
    pem_write_key(key, pki.key, NULL);
    pem_write_key(other, pki.other, NULL);
    pem_write_key(key, pki.locked, "secret");
    close(open(pki.junk, O_CREAT | O_WRONLY, 0600));
    make_client(ca_key);
    X509_free(cert);
    EVP_PKEY_free(key);
    EVP_PKEY_free(other);
    EVP_PKEY_free(ca_key);
}

static inline void drop_files(void)
{
    const char *files[] = {pki.cert,   pki.key, pki.other,
                           pki.locked, pki.ca,  pki.junk};

    for (size_t i = 0; i < SL_LEN(files); i++)
        unlink(files[i]);
    rmdir(pki.folder);
    X509_free(pki.ca_cert);
    X509_free(pki.client_cert);
    EVP_PKEY_free(pki.client_key);
}

static inline struct sl_tls *open_tls(bool client_ca, bool http2)
{
    struct sl_tls_options options = {pki.cert, pki.key,
                                     client_ca ? pki.ca : NULL, http2};
    struct sl_diag diag = {0};
    struct sl_tls *tls;

    if (sl_tls_open(&options, &tls, &diag)) {
        printf("Bail out! %s\n", diag.sentence);
        exit(1);
    }
    return tls;
}

/* A client, and the connection that it talks to. */
struct talk {
    struct guest g;
    SSL_CTX *ctx;
    SSL *ssl;
    SSL_SESSION *session;
};

static inline void talk_open(struct talk *t, struct rig *rig,
                             struct sl_tls *tls,
                             struct sl_conn_options *options)
{
    struct sl_conn_options usual = guest_options(&t->g);

    if (!options)
        options = &usual;
    options->owner = &t->g;
    options->tls = tls;
    guest_open(&t->g, rig, options);
    if (!t->ctx)
        t->ctx = SSL_CTX_new(TLS_client_method());
    SSL_CTX_set_mode(t->ctx, SSL_MODE_ENABLE_PARTIAL_WRITE |
                                 SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    X509_STORE_add_cert(SSL_CTX_get_cert_store(t->ctx), pki.ca_cert);
    SSL_CTX_set_verify(t->ctx, SSL_VERIFY_PEER, NULL);
    t->ssl = SSL_new(t->ctx);
    SSL_set_fd(t->ssl, t->g.client);
    SSL_set_connect_state(t->ssl);
}

/* Free the client; the connection follows. */
static inline void talk_close(struct talk *t)
{
    SSL_free(t->ssl);
    SSL_CTX_free(t->ctx);
    guest_leave(&t->g);
    ERR_clear_error();
}

/* Repeat a client's call while it only waits. */
#define TALK(t, call)                                                          \
    ({                                                                         \
        int n_ = -1;                                                           \
        for (unsigned k_ = 0; k_ < 300; k_++) {                                \
            ERR_clear_error();                                                 \
            n_ = (call);                                                       \
            if (n_ > 0 ||                                                      \
                (SSL_get_error((t)->ssl, n_) != SSL_ERROR_WANT_READ &&         \
                 SSL_get_error((t)->ssl, n_) != SSL_ERROR_WANT_WRITE))         \
                break;                                                         \
            step((t)->g.rig, k_);                                              \
        }                                                                      \
        n_;                                                                    \
    })

static inline int shake(struct talk *t)
{
    return TALK(t, SSL_do_handshake(t->ssl));
}

static inline void say_tls(struct talk *t, const char *text)
{
    int len = (int)strlen(text);

    CHECK_EQ(TALK(t, SSL_write(t->ssl, text, len)), len);
}

static inline const char *hear_tls(struct talk *t)
{
    static char text[65536];
    int n = TALK(t, SSL_read(t->ssl, text, sizeof(text) - 1));

    text[n > 0 ? n : 0] = '\0';
    return n > 0 ? text : "-";
}

static inline void show(struct talk *t, X509 *cert, EVP_PKEY *key)
{
    SSL_use_certificate(t->ssl, cert);
    SSL_use_PrivateKey(t->ssl, key);
}

#endif
