/* tls.h -- TLS 1.2 and later, by OpenSSL, for connections.
 *
 * A context is immutable and counted: a reload of certificates makes a new
 * one; connections that exist keep the old one.
 */
#ifndef SL_NET_TLS_H
#define SL_NET_TLS_H

#include <sys/types.h>

#include "base/diag.h"

struct sl_tls; /* a context */

struct sl_tls_options {
    const char *certificate; /* PEM, the chain */
    const char *key;         /* PEM */
    const char *client_ca;   /* PEM; NULL: clients need no certificate */
    bool http2;              /* offer h2 by ALPN, beside http/1.1 */
};

/* Fails if a file can't be read or the key does not match the certificate; the
 * diagnostic names the file. Never prints a key. */
SL_MUST_USE int sl_tls_open(const struct sl_tls_options *options,
                            struct sl_tls **ret, struct sl_diag *diag);

/* For connections that we open. */
struct sl_tls_client_options {
    const char *ca;          /* PEM; NULL: the system's certificates */
    const char *certificate; /* PEM; NULL: none is sent */
    const char *key;
};

SL_MUST_USE int sl_tls_open_client(const struct sl_tls_client_options *options,
                                   struct sl_tls **ret, struct sl_diag *diag);
struct sl_tls *sl_tls_ref(struct sl_tls *tls);
void sl_tls_unref(struct sl_tls *tls); /* NULL is allowed */

/* ---- TLS over a blocking socket, for a client without a loop ----
 *
 * `tls` is a client's context; it and `fd` are borrowed and outlive the
 * session. Open does the handshake and verifies that the server is
 * `server_name`. Read and write return like recv() and send(). Close accepts
 * NULL and leaves `fd` open.
 */
struct sl_tls_session;

SL_MUST_USE int sl_tls_session_open(struct sl_tls *tls, int fd,
                                    const char *server_name,
                                    struct sl_tls_session **ret,
                                    struct sl_diag *diag);
ssize_t sl_tls_session_read(struct sl_tls_session *session, char *bytes,
                            size_t size);
ssize_t sl_tls_session_write(struct sl_tls_session *session, const char *bytes,
                             size_t len);
void sl_tls_session_close(struct sl_tls_session *session);

#endif
