/* session.c -- TLS on one socket.
 *
 * The socket is reached through a BIO of ours instead of OpenSSL's, for one
 * reason: that one uses write(), and writing to a peer that has gone would
 * raise SIGPIPE, which kills a program that does not ignore it.
 */
#include "net/session.h"

#include <errno.h>
#include <limits.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <string.h>
#include <sys/socket.h>

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
    case BIO_CTRL_FLUSH: /* nothing is kept back */
        return 1;
    case BIO_CTRL_EOF:
        return BIO_test_flags(bio, BIO_FLAGS_IN_EOF) != 0;
    default:
        return 0;
    }
}

BIO_METHOD *sl_tls_conn_method(void)
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

/* Call the server by its name, and take no other. An address is no name that
 * is told, but what the certificate must be for. */
static bool expect(SSL *ssl, const char *server_name)
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
    BIO_METHOD *method;
    SSL *ssl = sl_tls_ssl(tls, &method);
    BIO *bio = ssl ? BIO_new(method) : NULL;

    if (!bio) {
        SSL_free(ssl);
        ERR_clear_error();
        return NULL;
    }
    BIO_set_data(bio, (void *)(intptr_t)fd);
    BIO_set_init(bio, 1);
    SSL_set_bio(ssl, bio, bio); /* takes it */
    if (!sl_tls_is_client(tls)) {
        SSL_set_accept_state(ssl);
    } else if (!expect(ssl, server_name)) {
        SSL_free(ssl);
        ssl = NULL;
    }
    ERR_clear_error();
    return ssl;
}

/* What the failure `n` of an SSL call means. */
static int meaning(SSL *ssl, int n)
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
    return n == 1 ? 1 : meaning(ssl, n);
}

ssize_t sl_tls_conn_read(SSL *ssl, char *bytes, size_t size)
{
    int n;

    ERR_clear_error();
    n = SSL_read(ssl, bytes, at_most_int(size));
    return n > 0 ? n : meaning(ssl, n);
}

ssize_t sl_tls_conn_write(SSL *ssl, const char *bytes, size_t len)
{
    int n, io;

    ERR_clear_error();
    n = SSL_write(ssl, bytes, at_most_int(len));
    if (n > 0)
        return n;
    io = meaning(ssl, n);
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
