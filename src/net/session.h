/* session.h -- TLS on one socket; for this room only.
 *
 * Nothing here waits: what can't be done now says what it waits for, and is
 * tried again then. The queue of OpenSSL's errors, one for each thread, is
 * empty before and after each call.
 */
#ifndef SL_TLS_CONN_H
#define SL_TLS_CONN_H

#include <openssl/ssl.h>
#include <sys/types.h>

#include "net/tls.h"

/* What reading and writing answer when it is no number of bytes. */
enum sl_io {
    SL_IO_END = 0,     /* the peer has closed its side */
    SL_IO_INPUT = -1,  /* waits until there is input */
    SL_IO_ROOM = -2,   /* waits until there is room for output */
    SL_IO_BROKEN = -3, /* the connection is of no more use */
};

/* How sessions of a context use their sockets. */
BIO_METHOD *sl_tls_conn_method(void);

/* A session on `fd`, which is borrowed, or NULL. `tls` is borrowed too and
 * outlives it. A client's context wants to know whom it calls. */
SSL *sl_tls_conn_open(struct sl_tls *tls, int fd, const char *server_name);

/* 1 when the handshake is done, or an enum sl_io. */
int sl_tls_conn_handshake(SSL *ssl);

ssize_t sl_tls_conn_read(SSL *ssl, char *bytes, size_t size);
ssize_t sl_tls_conn_write(SSL *ssl, const char *bytes, size_t len);

/* Is there input that was read from the socket and not handed out? */
bool sl_tls_conn_pending(SSL *ssl);

/* Say goodbye, if there is room for it. */
void sl_tls_conn_shutdown(SSL *ssl);

bool sl_tls_conn_has_client(SSL *ssl);
bool sl_tls_conn_is_h2(SSL *ssl);

/* In tls.c: a fresh SSL, or NULL, and the method for its socket. */
SSL *sl_tls_ssl(struct sl_tls *tls, BIO_METHOD **method);
bool sl_tls_is_client(const struct sl_tls *tls);

#endif
