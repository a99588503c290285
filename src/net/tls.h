/* tls.h -- TLS 1.2 and later, by OpenSSL, for connections.
 *
 * A context is immutable and counted: a reload of certificates makes a new
 * one; connections that exist keep the old one.
 */
#ifndef SL_NET_TLS_H
#define SL_NET_TLS_H

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

#endif
