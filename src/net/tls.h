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

/* Refuses files that can't be read, keys that don't belong to their
 * certificate, with a sentence that names the file; never prints a key. */
SL_MUST_USE int sl_tls_open(const struct sl_tls_options *options,
                            struct sl_tls **ret, struct sl_diag *diag);

/* For connections that we open: whom we believe, and who we are. */
struct sl_tls_client_options {
    const char *ca;          /* PEM; NULL: whom the system trusts */
    const char *certificate; /* PEM, or NULL: we show none */
    const char *key;
};

SL_MUST_USE int sl_tls_open_client(const struct sl_tls_client_options *options,
                                   struct sl_tls **ret, struct sl_diag *diag);
struct sl_tls *sl_tls_ref(struct sl_tls *tls);
void sl_tls_unref(struct sl_tls *tls); /* NULL is allowed */

#endif
