/* dial.c -- connections that we open ourselves.
 *
 * The socket is asked to connect and says later whether it could: it becomes
 * writable. From then on the connection is like any other.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/net_int.h"

void sl_conn_connected(struct sl_conn_impl *c)
{
    int error = 0;
    socklen_t len = sizeof(error);

    if (getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &len) || error) {
        c->doomed = true;
        return;
    }
    c->state = c->ssl ? SL_CONN_HANDSHAKE : SL_CONN_OPEN;
    c->fresh_open = !c->ssl;
}

/* A socket on its way to `to`, or -1. */
static int dial(const struct sl_address *to)
{
    int fd = socket(to->bytes.ss_family,
                    SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int on = 1;

    if (fd < 0)
        return -1;
    if (!sl_address_is_unix(to))
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    if (connect(fd, (const struct sockaddr *)&to->bytes, to->len) &&
        errno != EINPROGRESS && errno != EINTR) {
        close(fd);
        return -1;
    }
    return fd;
}

int sl_conn_connect(struct sl_conns *conns, const struct sl_address *to,
                    const struct sl_conn_options *options, struct sl_conn **ret)
{
    struct sl_conn_impl *c;
    int fd, err;

    if (conns->count >= conns->most)
        return SLUICE_EFULL;
    fd = dial(to);
    if (fd < 0)
        return SLUICE_ESYS;
    c = sl_conn_make(conns, fd, to, options);
    if (!c) {
        close(fd);
        return SLUICE_ENOMEM;
    }
    c->state = SL_CONN_CONNECTING;
    c->dialled = true;
    c->blocked = true; /* until it is writable */
    err = sl_conn_begin(c, options->server_name);
    if (!err)
        *ret = &c->face;
    return err;
}
