/* tls.c -- TLS contexts and sessions.
 *
 * TLS 1.3, or 1.2 with forward secrecy and authenticated ciphers. No
 * renegotiation, no compression. Sessions are resumed by tickets, whose keys
 * are in the context; loops share no cache.
 *
 * An open context does not change. Loops share it; references are counted.
 */
#include "net/tls.h"

#include <errno.h>
#include <limits.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/arena.h"
#include "net/net_int.h"

/* For TLS 1.2; those of 1.3 are all good. */
#define CIPHERS "ECDHE+AESGCM:ECDHE+CHACHA20"

/* As ALPN wants them: the length before each. */
static const unsigned char h2_first[] = "\x02h2\x08http/1.1";
static const unsigned char *const http1_only = h2_first + 3;

struct sl_tls {
    SSL_CTX *ctx;
    BIO_METHOD *method; /* of the sockets */
    bool http2;
    bool client;
    _Atomic unsigned refs;
};

/* Without this, OpenSSL reads the password from the terminal. */
static int no_password(char *out, int size, int writing, void *ctx)
{
    (void)out;
    (void)size;
    (void)writing;
    if (ctx)
        *(bool *)ctx = true;
    return -1;
}

/* Choose our first protocol that the client offers. A client that offers only
 * others is refused (RFC 7301, 3.2); one that offers none is served. */
static int choose_protocol(SSL *ssl, const unsigned char **out,
                           unsigned char *len, const unsigned char *in,
                           unsigned in_len, void *ctx)
{
    struct sl_tls *tls = ctx;
    const unsigned char *ours = tls->http2 ? h2_first : http1_only;
    unsigned ours_len = (unsigned)sizeof(h2_first) - 1;
    unsigned char *chosen;

    (void)ssl;
    if (!tls->http2)
        ours_len -= (unsigned)(http1_only - h2_first);
    if (SSL_select_next_proto(&chosen, len, ours, ours_len, in, in_len) !=
        OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    *out = chosen;
    return SSL_TLSEXT_ERR_OK;
}

/* OpenSSL's reason, without its function names. */
static const char *reason(void)
{
    unsigned long err = ERR_peek_error();
    const char *text = err ? ERR_reason_error_string(err) : NULL;

    return text ? text : "the file contains none";
}

static int refuse_unreadable(const char *what, const char *path,
                             struct sl_diag *diag)
{
    return sl_diag_error(diag, SLUICE_ECONF, "cannot read %s %s: %s", what,
                         path, strerror(errno));
}

static int load_certificate(struct sl_tls *tls, const char *path,
                            struct sl_diag *diag)
{
    FILE *file = fopen(path, "re");

    if (!file)
        return refuse_unreadable("the certificate", path, diag);
    fclose(file);
    if (SSL_CTX_use_certificate_chain_file(tls->ctx, path) != 1)
        return sl_diag_error(
            diag, SLUICE_ECONF,
            "cannot use the certificate %s: %s; it must be in PEM "
            "form, the server's certificate first, then the chain",
            path, reason());
    return 0;
}

static int load_key(struct sl_tls *tls, const char *path,
                    const char *certificate, struct sl_diag *diag)
{
    bool asked = false;
    FILE *file = fopen(path, "re");
    EVP_PKEY *key;
    int good;

    if (!file)
        return refuse_unreadable("the key", path, diag);
    key = PEM_read_PrivateKey(file, NULL, no_password, &asked);
    fclose(file);
    if (asked) {
        EVP_PKEY_free(key);
        return sl_diag_error(
            diag, SLUICE_ECONF,
            "the key %s is encrypted; store it without a password, mode 0600",
            path);
    }
    if (!key)
        return sl_diag_error(
            diag, SLUICE_ECONF,
            "cannot use the key %s: %s; it must be a private key in PEM form",
            path, reason());
    good = SSL_CTX_use_PrivateKey(tls->ctx, key) == 1 &&
           SSL_CTX_check_private_key(tls->ctx) == 1;
    EVP_PKEY_free(key);
    if (!good)
        return sl_diag_error(diag, SLUICE_ECONF,
                             "the key %s does not match the certificate %s",
                             path, certificate);
    return 0;
}

static int load_client_ca(struct sl_tls *tls, const char *path,
                          struct sl_diag *diag)
{
    FILE *file = fopen(path, "re");
    STACK_OF(X509_NAME) * names;

    if (!file)
        return refuse_unreadable("client_ca", path, diag);
    fclose(file);
    names = SSL_load_client_CA_file(path);
    if (!names || SSL_CTX_load_verify_locations(tls->ctx, path, NULL) != 1) {
        sk_X509_NAME_pop_free(names, X509_NAME_free);
        return sl_diag_error(diag, SLUICE_ECONF,
                             "cannot use client_ca %s: %s; it must contain "
                             "certificates in PEM form",
                             path, reason());
    }
    SSL_CTX_set_client_CA_list(tls->ctx, names); /* takes them */
    SSL_CTX_set_verify(tls->ctx,
                       SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    return 0;
}

/* ---- the socket ----
 *
 * OpenSSL's own BIO uses write(): a peer that has gone would raise SIGPIPE.
 * This one uses send() with MSG_NOSIGNAL.
 */

static int fd_of(BIO *bio)
{
    return (int)(intptr_t)BIO_get_data(bio);
}

static bool is_passing(void)
{
    return errno == EAGAIN || errno == EINTR;
}

static int on_write(BIO *bio, const char *bytes, int len)
{
    ssize_t n = send(fd_of(bio), bytes, (size_t)len, MSG_NOSIGNAL);

    BIO_clear_retry_flags(bio);
    if (n < 0 && is_passing())
        BIO_set_retry_write(bio);
    return (int)n;
}

static int on_read(BIO *bio, char *bytes, int size)
{
    ssize_t n = recv(fd_of(bio), bytes, (size_t)size, 0);

    BIO_clear_retry_flags(bio);
    if (n < 0 && is_passing())
        BIO_set_retry_read(bio);
    if (n == 0)
        BIO_set_flags(bio, BIO_FLAGS_IN_EOF);
    return (int)n;
}

static long on_control(BIO *bio, int cmd, long num, void *ptr)
{
    (void)num;
    (void)ptr;
    switch (cmd) {
    case BIO_CTRL_FLUSH: /* nothing is buffered */
        return 1;
    case BIO_CTRL_EOF:
        return BIO_test_flags(bio, BIO_FLAGS_IN_EOF) != 0;
    default:
        return 0;
    }
}

static BIO_METHOD *new_method(void)
{
    BIO_METHOD *method = BIO_meth_new(BIO_TYPE_SOURCE_SINK, "sluice socket");

    if (!method || BIO_meth_set_write(method, on_write) != 1 ||
        BIO_meth_set_read(method, on_read) != 1 ||
        BIO_meth_set_ctrl(method, on_control) != 1) {
        BIO_meth_free(method);
        return NULL;
    }
    return method;
}

/* ---- contexts ---- */

/* Options of servers and clients. */
static bool set_up(struct sl_tls *tls, const SSL_METHOD *side)
{
    SSL_CTX *ctx = SSL_CTX_new(side);

    tls->ctx = ctx;
    tls->method = new_method();
    if (!ctx || !tls->method ||
        SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION) != 1 ||
        SSL_CTX_set_cipher_list(ctx, CIPHERS) != 1)
        return false;
    SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS |
                              SSL_MODE_ENABLE_PARTIAL_WRITE |
                              SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_default_passwd_cb(ctx, no_password);
    SSL_CTX_set_read_ahead(ctx, 1); /* one system call per record, not two */
    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
    return true;
}

static bool set_up_server(struct sl_tls *tls)
{
    static const unsigned char id[] = "sluice";

    if (!set_up(tls, TLS_server_method()) ||
        /* needed to resume sessions with a client certificate */
        SSL_CTX_set_session_id_context(tls->ctx, id, sizeof(id) - 1) != 1)
        return false;
    SSL_CTX_set_options(tls->ctx, SSL_OP_CIPHER_SERVER_PREFERENCE);
    SSL_CTX_set_alpn_select_cb(tls->ctx, choose_protocol, tls);
    return true;
}

int sl_tls_open(const struct sl_tls_options *options, struct sl_tls **ret,
                struct sl_diag *diag)
{
    struct sl_tls *tls;
    int err;

    if (!options->certificate || !options->key)
        return sl_diag_error(diag, SLUICE_ECONF,
                             "TLS needs both a certificate and a key");
    tls = sl_alloc_new(&sl_alloc_libc, sizeof(*tls));
    if (!tls)
        return sl_diag_error(diag, SLUICE_ENOMEM, "out of memory");
    *tls = (struct sl_tls){.http2 = options->http2, .refs = 1};
    ERR_clear_error();
    if (set_up_server(tls))
        err = load_certificate(tls, options->certificate, diag);
    else
        err = sl_diag_error(diag, SLUICE_ESYS, "OpenSSL failed to start: %s",
                            reason());
    if (!err)
        err = load_key(tls, options->key, options->certificate, diag);
    if (!err && options->client_ca)
        err = load_client_ca(tls, options->client_ca, diag);
    ERR_clear_error();
    if (err) {
        sl_tls_unref(tls);
        return err;
    }
    *ret = tls;
    return 0;
}

/* ---- clients ---- */

static int load_ca(struct sl_tls *tls, const char *path, struct sl_diag *diag)
{
    SSL_CTX_set_verify(tls->ctx, SSL_VERIFY_PEER, NULL);
    if (!path)
        return SSL_CTX_set_default_verify_paths(tls->ctx) == 1
                   ? 0
                   : sl_diag_error(
                         diag, SLUICE_ESYS,
                         "cannot read the trusted certificates of this system");
    if (SSL_CTX_load_verify_locations(tls->ctx, path, NULL) == 1)
        return 0;
    return sl_diag_error(
        diag, SLUICE_ECONF,
        "cannot use the file %s: %s; it must contain certificates in PEM form",
        path, reason());
}

int sl_tls_open_client(const struct sl_tls_client_options *options,
                       struct sl_tls **ret, struct sl_diag *diag)
{
    struct sl_tls *tls = sl_alloc_new(&sl_alloc_libc, sizeof(*tls));
    int err;

    if (!tls)
        return sl_diag_error(diag, SLUICE_ENOMEM, "out of memory");
    *tls = (struct sl_tls){.client = true, .refs = 1};
    ERR_clear_error();
    if (set_up(tls, TLS_client_method()))
        err = load_ca(tls, options->ca, diag);
    else
        err = sl_diag_error(diag, SLUICE_ESYS, "OpenSSL failed to start: %s",
                            reason());
    if (!err && options->certificate)
        err = load_certificate(tls, options->certificate, diag);
    if (!err && options->certificate)
        err = load_key(tls, options->key ? options->key : options->certificate,
                       options->certificate, diag);
    ERR_clear_error();
    if (err) {
        sl_tls_unref(tls);
        return err;
    }
    *ret = tls;
    return 0;
}

/* ---- life ---- */

struct sl_tls *sl_tls_ref(struct sl_tls *tls)
{
    if (tls)
        atomic_fetch_add(&tls->refs, 1);
    return tls;
}

void sl_tls_unref(struct sl_tls *tls)
{
    if (!tls || atomic_fetch_sub(&tls->refs, 1) > 1)
        return;
    SSL_CTX_free(tls->ctx);
    BIO_meth_free(tls->method);
    sl_alloc_free(&sl_alloc_libc, tls, sizeof(*tls));
}

/* ---- TLS on one socket ---- */

/* Verify the server's name. An IP address is verified but not sent. */
static bool expect_name(SSL *ssl, const char *server_name)
{
    X509_VERIFY_PARAM *param = SSL_get0_param(ssl);

    SSL_set_connect_state(ssl);
    if (!server_name)
        return false;
    if (X509_VERIFY_PARAM_set1_ip_asc(param, server_name) == 1)
        return true;
    return SSL_set_tlsext_host_name(ssl, server_name) == 1 &&
           SSL_set1_host(ssl, server_name) == 1;
}

SSL *sl_tls_conn_open(struct sl_tls *tls, int fd, const char *server_name)
{
    SSL *ssl = SSL_new(tls->ctx);
    BIO *bio = ssl ? BIO_new(tls->method) : NULL;

    if (!bio) {
        SSL_free(ssl);
        ERR_clear_error();
        return NULL;
    }
    BIO_set_data(bio, (void *)(intptr_t)fd);
    BIO_set_init(bio, 1);
    SSL_set_bio(ssl, bio, bio); /* takes it */
    if (!tls->client) {
        SSL_set_accept_state(ssl);
    } else if (!expect_name(ssl, server_name)) {
        SSL_free(ssl);
        ssl = NULL;
    }
    ERR_clear_error();
    return ssl;
}

/* The enum sl_io of a failed SSL call. */
static int io_of(SSL *ssl, int n)
{
    int why = SSL_get_error(ssl, n);

    ERR_clear_error();
    switch (why) {
    case SSL_ERROR_WANT_READ:
        return SL_IO_INPUT;
    case SSL_ERROR_WANT_WRITE:
        return SL_IO_ROOM;
    case SSL_ERROR_ZERO_RETURN:
        return SL_IO_END;
    default:
        return SL_IO_BROKEN;
    }
}

static int at_most_int(size_t n)
{
    return n < INT_MAX ? (int)n : INT_MAX;
}

int sl_tls_conn_handshake(SSL *ssl)
{
    int n;

    ERR_clear_error();
    n = SSL_do_handshake(ssl);
    return n == 1 ? 1 : io_of(ssl, n);
}

ssize_t sl_tls_conn_read(SSL *ssl, char *bytes, size_t size)
{
    int n;

    ERR_clear_error();
    n = SSL_read(ssl, bytes, at_most_int(size));
    return n > 0 ? n : io_of(ssl, n);
}

ssize_t sl_tls_conn_write(SSL *ssl, const char *bytes, size_t len)
{
    int n, io;

    ERR_clear_error();
    n = SSL_write(ssl, bytes, at_most_int(len));
    if (n > 0)
        return n;
    io = io_of(ssl, n);
    return io == SL_IO_END ? SL_IO_BROKEN : io;
}

bool sl_tls_conn_pending(SSL *ssl)
{
    return SSL_has_pending(ssl) == 1;
}

void sl_tls_conn_shutdown(SSL *ssl)
{
    ERR_clear_error();
    SSL_shutdown(ssl);
    ERR_clear_error();
}

bool sl_tls_conn_has_client(SSL *ssl)
{
    return SSL_get0_peer_certificate(ssl) != NULL &&
           SSL_get_verify_result(ssl) == X509_V_OK;
}

bool sl_tls_conn_is_h2(SSL *ssl)
{
    const unsigned char *name;
    unsigned len;

    SSL_get0_alpn_selected(ssl, &name, &len);
    return len == 2 && memcmp(name, "h2", 2) == 0;
}
