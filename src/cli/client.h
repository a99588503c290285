/* client.h -- HTTP/1.1, or the Redis protocol, from this side: ask, and wait
 * for the answer.
 *
 * One connection, kept from one question to the next. It blocks, but never
 * longer than SL_DAEMON_CLIENT_WAIT at a time, and understands what a daemon of
 * ours answers: a status and a body with a Content-Length.
 */
#ifndef SL_DAEMON_CLIENT_H
#define SL_DAEMON_CLIENT_H

#include "base/buf.h"
#include "base/diag.h"

#define SL_DAEMON_CLIENT_WAIT  10                         /* seconds */
#define SL_DAEMON_CLIENT_BYTES ((size_t)64 * 1024 * 1024) /* of an answer */

struct sl_daemon_client {
    int fd;     /* or -1 */
    bool redis; /* its URL was redis://; then sl_daemon_client_pipeline() is for
                   it */
    char host[256], port[8];
    char where[280]; /* HOST:PORT, as it is said */
    char token[512]; /* to be shown with each question, or "" */
    struct sl_buf out, in;
};

/* The server of a URL such as http://127.0.0.1:8080, or redis://127.0.0.1:6380,
 * or at a socket, unix:/run/sluice.sock. Nothing is opened yet. It has no
 * token. `alloc` is borrowed for the client's life. SLUICE_ECONF: not such a
 * URL. */
SL_MUST_USE int sl_daemon_client_init(struct sl_daemon_client *client,
                                      const char *url,
                                      const struct sl_alloc *alloc,
                                      struct sl_diag *diag);
void sl_daemon_client_done(struct sl_daemon_client *client);

/* Close the connection; the next question opens another. */
void sl_daemon_client_close(struct sl_daemon_client *client);

/* Ask. On success *ret_status is the answer's, and *ret_body is borrowed until
 * the next question. SLUICE_ESYS: nobody answered, or no HTTP; the connection
 * is closed then, and nothing is asked twice. SLUICE_ENOMEM. */
SL_MUST_USE int sl_daemon_client_ask(struct sl_daemon_client *client,
                                     const char *method, const char *path,
                                     struct sl_str body, int *ret_status,
                                     struct sl_str *ret_body,
                                     struct sl_diag *diag);

/* Send `commands`, of which there are `count`, to a redis:// server. On success
 * *ret_replies has as many replies, borrowed until the next question. The rest
 * is as above. */
SL_MUST_USE int sl_daemon_client_pipeline(struct sl_daemon_client *client,
                                          struct sl_str commands,
                                          unsigned count,
                                          struct sl_str *ret_replies,
                                          struct sl_diag *diag);

#endif
