/* tls_session.c -- TLS over one blocking socket, for programs without a loop.
 *
 * The socket has timeouts (SO_RCVTIMEO, SO_SNDTIMEO). A call that one of them
 * ends fails with errno EAGAIN, as recv() would.
 */
#include <errno.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "base/arena.h"
#include "net/net_int.h"
#include "net/tls.h"

struct sl_tls_session {
    SSL *ssl;
};

static int fail(int io)
{
    if (io == SL_IO_INPUT || io == SL_IO_ROOM)
        errno = EAGAIN;
    else if (errno == 0)
        errno = ECONNRESET;
    return -1;
}

/* Why the handshake failed: usually the certificate. */
static int refuse_peer(SSL *ssl, int io, struct sl_diag *diag)
{
    long verified = SSL_get_verify_result(ssl);

    if (verified != X509_V_OK)
        return sl_diag_error(diag, SLUICE_ESYS,
                             "its certificate is not accepted: %s",
                             X509_verify_cert_error_string(verified));
    if (io == SL_IO_INPUT || io == SL_IO_ROOM)
        return sl_diag_error(diag, SLUICE_ESYS,
                             "no TLS handshake: timeout; does it listen for "
                             "http://?");
    return sl_diag_error(diag, SLUICE_ESYS,
                         "no TLS handshake; it listens for http://, or needs a "
                         "client certificate");
}

int sl_tls_session_open(struct sl_tls *tls, int fd, const char *server_name,
                        struct sl_tls_session **ret, struct sl_diag *diag)
{
    struct sl_tls_session *session =
        sl_alloc_new(&sl_alloc_libc, sizeof(*session));
    int done, err;

    if (!session)
        return sl_diag_error(diag, SLUICE_ENOMEM, "out of memory");
    session->ssl = sl_tls_conn_open(tls, fd, server_name);
    if (!session->ssl) {
        sl_alloc_free(&sl_alloc_libc, session, sizeof(*session));
        return sl_diag_error(diag, SLUICE_ENOMEM, "out of memory");
    }
    done = sl_tls_conn_handshake(session->ssl);
    if (done != 1) {
        err = refuse_peer(session->ssl, done, diag);
        sl_tls_session_close(session);
        return err;
    }
    *ret = session;
    return 0;
}

ssize_t sl_tls_session_read(struct sl_tls_session *session, char *bytes,
                            size_t size)
{
    ssize_t got;

    errno = 0;
    got = sl_tls_conn_read(session->ssl, bytes, size);
    return got >= 0 ? got : fail((int)got);
}

ssize_t sl_tls_session_write(struct sl_tls_session *session, const char *bytes,
                             size_t len)
{
    ssize_t sent;

    errno = 0;
    sent = sl_tls_conn_write(session->ssl, bytes, len);
    return sent > 0 ? sent : fail((int)sent);
}

void sl_tls_session_close(struct sl_tls_session *session)
{
    if (!session)
        return;
    if (SSL_is_init_finished(session->ssl))
        sl_tls_conn_shutdown(session->ssl);
    SSL_free(session->ssl);
    sl_alloc_free(&sl_alloc_libc, session, sizeof(*session));
}
