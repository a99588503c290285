/* listener.c -- binds addresses and accepts connections.
 *
 * TCP. Any program of the same user may join a SO_REUSEPORT group: a second
 * daemon started by mistake would silently take half of the connections. So
 * the first socket listens without SO_REUSEPORT, which fails if another
 * program listens on the port. Then it gets the flag, and the others join.
 *
 *     first:  bind, listen     fails if another program has the port
 *     first:  SO_REUSEPORT     from here on others may join
 *     others: SO_REUSEPORT, bind, listen
 *
 * SO_REUSEADDR lets two daemons bind, but listen() checks again and fails for
 * the second. Not covered: a program that sets SO_REUSEPORT and joins later.
 *
 * Unix sockets. A dead socket file must be removed before bind(). The check,
 * the removal and bind() run under the lock PATH.lock, so that a daemon that
 * starts meanwhile does not lose its socket. Closing removes the path only if
 * it is still our socket, and before the socket is closed.
 */
#include "net/listener.h"

#include <errno.h>
#include <event2/event.h>
#include <event2/event_struct.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* The kernel cuts it to net.core.somaxconn. */
#define BACKLOG 4096

#define UNIX_MODE 0660

static void set_flag(int fd, int level, int name, int value)
{
    /* These options can't fail on a stream socket. */
    (void)setsockopt(fd, level, name, &value, sizeof(value));
}

static int refuse_errno(const struct sl_address *address, const char *what,
                        struct sl_diag *diag)
{
    int was = errno;
    char text[sizeof(address->text)];

    sl_address_print(address, text, sizeof(text));
    switch (was) {
    case EADDRINUSE:
        sl_diag_error(
            diag, SLUICE_ESYS,
            "%s is in use by another program ('ss %s' lists it); stop "
            "that program, or choose another address",
            text, sl_address_is_unix(address) ? "-lxp" : "-ltnp");
        sl_diag_hint(diag, sl_address_is_unix(address) ? "another path"
                                                       : "another port");
        break;
    case EADDRNOTAVAIL:
        sl_diag_error(
            diag, SLUICE_ESYS,
            "cannot listen on %s: this machine does not have the address",
            text);
        break;
    case EACCES:
    case EPERM:
        sl_diag_error(diag, SLUICE_ESYS,
                      "cannot listen on %s: permission denied (%s)", text,
                      what);
        if (sl_address_port(address) > 0 && sl_address_port(address) < 1024)
            sl_diag_hint(diag, "a port above 1023, or give the program "
                               "CAP_NET_BIND_SERVICE");
        break;
    default:
        sl_diag_error(diag, SLUICE_ESYS, "cannot listen on %s: %s: %s", text,
                      what, strerror(was));
    }
    errno = was;
    return SLUICE_ESYS;
}

/* ---- TCP ---- */

/* Without IPv6 in the kernel, `*` is all of IPv4. */
static int socket_of(struct sl_address *address)
{
    int type = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC;
    int fd = socket(address->bytes.ss_family, type, 0);
    struct sockaddr_in sin = {.sin_family = AF_INET};

    if (fd >= 0 || errno != EAFNOSUPPORT || address->text[0] != '*')
        return fd;
    sin.sin_port = htons((uint16_t)sl_address_port(address));
    memcpy(&address->bytes, &sin, sizeof(sin));
    address->len = sizeof(sin);
    return socket(AF_INET, type, 0);
}

/* A listening socket; or -1, and `what` is the call that failed. */
static int listen_tcp(struct sl_address *address, bool reuse_port,
                      const char **what)
{
    const struct sockaddr *sa = (const void *)&address->bytes;
    int was, fd = socket_of(address);

    *what = "socket";
    if (fd < 0)
        return -1;
    set_flag(fd, SOL_SOCKET, SO_REUSEADDR, 1);
    if (reuse_port)
        set_flag(fd, SOL_SOCKET, SO_REUSEPORT, 1);
    if (sa->sa_family == AF_INET6)
        set_flag(fd, IPPROTO_IPV6, IPV6_V6ONLY, address->text[0] != '*');
    set_flag(fd, IPPROTO_TCP, TCP_NODELAY,
             1); /* inherited by accepted sockets */
    *what = "bind";
    if (bind(fd, sa, address->len) == 0) {
        *what = "listen";
        if (listen(fd, BACKLOG) == 0)
            return fd;
    }
    was = errno;
    close(fd);
    errno = was;
    return -1;
}

static int open_tcp(struct sl_sockets *s, unsigned loops, struct sl_diag *diag)
{
    struct sl_address *address = &s->address;
    const char *what;
    int fd;

    while (s->count < loops) {
        fd = listen_tcp(address, s->count > 0, &what);
        if (fd < 0)
            return refuse_errno(address, what, diag);
        s->fds[s->count++] = fd;
        if (s->count > 1)
            continue;
        set_flag(fd, SOL_SOCKET, SO_REUSEPORT, 1);
        /* The others need the port that the kernel chose. */
        address->len = sizeof(address->bytes);
        if (getsockname(fd, (void *)&address->bytes, &address->len))
            return refuse_errno(address, "getsockname", diag);
    }
    return 0;
}

/* ---- unix ---- */

/* The locked file, or -1. Retries if its last owner has removed it. */
static int take_lock(const char *path)
{
    struct stat held, found;
    int fd, was;

    for (;;) {
        fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd < 0)
            return -1;
        if (flock(fd, LOCK_EX | LOCK_NB) || fstat(fd, &held)) {
            was = errno == EWOULDBLOCK ? EADDRINUSE : errno;
            close(fd);
            errno = was;
            return -1;
        }
        if (lstat(path, &found) == 0 && found.st_ino == held.st_ino &&
            found.st_dev == held.st_dev)
            return fd;
        close(fd);
    }
}

/* Does a program listen there? Assumes so if its queue is full or connect()
 * is not permitted. */
static bool is_answered(const struct sl_address *address)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    bool answered;

    if (fd < 0)
        return true;
    answered = connect(fd, (const void *)&address->bytes, address->len) == 0 ||
               (errno != ECONNREFUSED && errno != ENOENT);
    close(fd);
    return answered;
}

/* Remove what a dead program left at `path`. */
static int clear_path(const struct sl_address *address, const char *path,
                      struct sl_diag *diag)
{
    struct stat st;

    if (lstat(path, &st))
        return errno == ENOENT ? 0 : refuse_errno(address, "lstat", diag);
    if (!S_ISSOCK(st.st_mode))
        return sl_diag_error(
            diag, SLUICE_ESYS,
            "cannot listen on unix:%s: a file with this name exists and is not "
            "a socket; remove it or write another path",
            path);
    if (is_answered(address)) {
        errno = EADDRINUSE;
        return refuse_errno(address, "connect", diag);
    }
    if (unlink(path) && errno != ENOENT)
        return refuse_errno(address, "unlink", diag);
    return 0;
}

/* Bind, listen, and keep the inode. */
static int listen_unix(struct sl_sockets *s, int fd, const char *path,
                       struct sl_diag *diag)
{
    struct sl_address *address = &s->address;
    struct stat st;

    /* The file gets this mode less the umask, and exactly this mode below. */
    if (fchmod(fd, UNIX_MODE) ||
        bind(fd, (const void *)&address->bytes, address->len))
        return refuse_errno(address, "bind", diag);
    if (lstat(path, &st) == 0) {
        s->device = st.st_dev;
        s->inode = st.st_ino;
    }
    if (chmod(path, UNIX_MODE))
        return refuse_errno(address, "chmod", diag);
    if (listen(fd, BACKLOG))
        return refuse_errno(address, "listen", diag);
    return 0;
}

static int open_unix(struct sl_sockets *s, struct sl_diag *diag)
{
    const struct sockaddr_un *sun = (const void *)&s->address.bytes;
    char lock_path[sizeof(sun->sun_path) + sizeof(".lock")];
    int fd, lock, err;

    snprintf(lock_path, sizeof(lock_path), "%s.lock", sun->sun_path);
    lock = take_lock(lock_path);
    if (lock < 0)
        return refuse_errno(&s->address, "lock", diag);
    err = clear_path(&s->address, sun->sun_path, diag);
    if (err)
        goto out;
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        err = refuse_errno(&s->address, "socket", diag);
        goto out;
    }
    s->fds[s->count++] = fd;
    err = listen_unix(s, fd, sun->sun_path, diag);
out:
    unlink(lock_path);
    close(lock);
    return err;
}

/* ---- both ---- */

/* The other loops share the first one's socket. */
static int share(struct sl_sockets *s, unsigned loops, struct sl_diag *diag)
{
    while (s->count < loops) {
        int fd = fcntl(s->fds[0], F_DUPFD_CLOEXEC, 0);

        if (fd < 0)
            return refuse_errno(&s->address, "dup", diag);
        s->fds[s->count++] = fd;
    }
    return 0;
}

static int refuse_loops(unsigned loops, struct sl_diag *diag)
{
    return sl_diag_error(
        diag, SLUICE_EINVAL,
        "a listener is shared by 1 to 64 worker threads, not %u", loops);
}

int sl_sockets_open(const struct sl_address *address, unsigned loops,
                    struct sl_sockets *ret, struct sl_diag *diag)
{
    struct sl_sockets s = {.address = *address};
    int err;

    if (loops == 0 || loops > SL_LEN(s.fds))
        return refuse_loops(loops, diag);
    if (sl_address_is_unix(address)) {
        err = open_unix(&s, diag);
        if (!err)
            err = share(&s, loops, diag);
    } else {
        err = open_tcp(&s, loops, diag);
    }
    if (err) {
        int was = errno;

        sl_sockets_close(&s);
        errno = was;
        return err;
    }
    *ret = s;
    return 0;
}

static bool is_listening(int fd, struct sl_address *ret)
{
    int type = 0, listening = 0;
    socklen_t len = sizeof(int);

    ret->len = sizeof(ret->bytes);
    return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) == 0 &&
           type == SOCK_STREAM &&
           getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &len) == 0 &&
           listening && getsockname(fd, (void *)&ret->bytes, &ret->len) == 0 &&
           (ret->bytes.ss_family == AF_INET ||
            ret->bytes.ss_family == AF_INET6 ||
            ret->bytes.ss_family == AF_UNIX);
}

int sl_sockets_adopt(int fd, unsigned loops, struct sl_sockets *ret,
                     struct sl_diag *diag)
{
    struct sl_sockets s = {.activated = true};
    int err, flags;

    if (loops == 0 || loops > SL_LEN(s.fds))
        return refuse_loops(loops, diag);
    flags = fcntl(fd, F_GETFL);
    if (!is_listening(fd, &s.address) || flags < 0 ||
        fcntl(fd, F_SETFL, flags | O_NONBLOCK) ||
        fcntl(fd, F_SETFD, FD_CLOEXEC))
        return sl_diag_error(
            diag, SLUICE_ESYS,
            "descriptor %d, passed by systemd, is not a listening stream "
            "socket; write ListenStream= in the .socket unit, and Accept=no",
            fd);
    if (!sl_address_is_unix(&s.address))
        set_flag(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    sl_address_print(&s.address, s.address.text, sizeof(s.address.text));
    s.fds[s.count++] = fd;
    err = share(&s, loops, diag);
    if (err) {
        while (s.count > 1)
            close(s.fds[--s.count]);
        return err;
    }
    *ret = s;
    return 0;
}

void sl_sockets_close(struct sl_sockets *s)
{
    const struct sockaddr_un *sun = (const void *)&s->address.bytes;
    struct stat st;

    if (s->inode != 0 && lstat(sun->sun_path, &st) == 0 &&
        st.st_dev == s->device && st.st_ino == s->inode)
        unlink(sun->sun_path);
    while (s->count > 0)
        close(s->fds[--s->count]);
    s->inode = 0;
}

/* ---- accept ----
 *
 * Each wake-up accepts at most BATCH connections, so that open ones are served
 * too; the rest wakes the loop again. accept4() sets the flags and TCP_NODELAY
 * is inherited: one system call for each connection.
 *
 * Without free descriptors, accept() fails and the connection stays in the
 * queue, which would wake the loop at once again. So accepting pauses:
 *
 *     LISTENING --(EMFILE)--> accept one with the spare descriptor, close it
 *         ^                             |
 *         +------(timer)------------- PAUSED   10 ms, doubling up to 1 s
 *
 * An accepted connection resets the pause to 10 ms.
 */

#define BATCH       32
#define PAUSE_FIRST (10 * SL_MS)
#define PAUSE_MOST  SL_S

struct sl_listener {
    struct event event;
    struct sl_timer *timer;
    sl_accept_f *on_accept;
    void *ctx;
    int fd;
    int spare; /* descriptor; -1: could not be opened again */
    bool closed;
    bool accepting; /* inside on_readable; closing waits */
    sl_ns pause;
    _Atomic uint64_t *paused; /* counter of pauses, or NULL */
};

static int open_spare(void)
{
    return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static void free_listener(struct sl_listener *listener)
{
    sl_timer_free(listener->timer);
    if (listener->spare >= 0)
        close(listener->spare);
    sl_alloc_free(&sl_alloc_libc, listener, sizeof(*listener));
}

static int accept_one(struct sl_listener *listener, struct sl_address *peer)
{
    *peer = (struct sl_address){.len = sizeof(peer->bytes)};
    return accept4(listener->fd, (void *)&peer->bytes, &peer->len,
                   SOCK_NONBLOCK | SOCK_CLOEXEC);
}

static void pause_accept(struct sl_listener *listener)
{
    event_del(&listener->event);
    if (listener->paused)
        atomic_fetch_add_explicit(listener->paused, 1, memory_order_relaxed);
    sl_timer_start(listener->timer, listener->pause);
    listener->pause *= 2;
    if (listener->pause > PAUSE_MOST)
        listener->pause = PAUSE_MOST;
}

/* Accept and close one connection, so that its client does not wait for a
 * timeout. If another thread takes the descriptor, the next pause retries. */
static void reject_one(struct sl_listener *listener)
{
    struct sl_address peer;
    int fd;

    if (listener->spare >= 0) {
        close(listener->spare);
        fd = accept_one(listener, &peer);
        if (fd >= 0)
            close(fd);
    }
    listener->spare = open_spare();
}

/* Is this the failure of one connection, not of accept()? */
static bool is_transient(int err)
{
    switch (err) {
    case EINTR:
    case ECONNABORTED: /* closed by the client; then errors that Linux passes
                          on: */
    case EPROTO:
    case ENETDOWN:
    case ENOPROTOOPT:
    case EHOSTDOWN:
    case ENONET:
    case EHOSTUNREACH:
    case EOPNOTSUPP:
    case ENETUNREACH:
    case EPERM: /* a firewall */
        return true;
    default:
        return false;
    }
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
    struct sl_listener *listener = arg;
    struct sl_address peer;

    (void)what;
    listener->accepting = true;
    for (unsigned i = 0; i < BATCH && !listener->closed; i++) {
        fd = accept_one(listener, &peer);
        if (fd >= 0) {
            listener->pause = PAUSE_FIRST;
            listener->on_accept(listener->ctx, fd, &peer);
        } else if (errno == EAGAIN) {
            break;
        } else if (!is_transient(errno)) {
            if (errno == EMFILE || errno == ENFILE)
                reject_one(listener);
            pause_accept(listener);
            break;
        }
    }
    listener->accepting = false;
    if (listener->closed)
        free_listener(listener);
}

static void on_pause_end(void *ctx)
{
    struct sl_listener *listener = ctx;

    if (listener->spare < 0)
        listener->spare = open_spare();
    if (event_add(&listener->event, NULL))
        pause_accept(listener);
}

int sl_listener_open(struct sl_loop *loop, int fd, sl_accept_f *on_accept,
                     void *ctx, struct sl_listener **ret)
{
    struct sl_listener *listener;
    int err;

    listener = sl_alloc_new(&sl_alloc_libc, sizeof(*listener));
    if (!listener)
        return SLUICE_ENOMEM;
    *listener = (struct sl_listener){
        .on_accept = on_accept,
        .ctx = ctx,
        .fd = fd,
        .spare = open_spare(),
        .pause = PAUSE_FIRST,
    };
    err = sl_timer_new(loop, on_pause_end, listener, &listener->timer);
    if (err) {
        free_listener(listener);
        return err;
    }
    event_assign(&listener->event, sl_loop_base(loop), fd, EV_READ | EV_PERSIST,
                 on_readable, listener);
    if (event_add(&listener->event, NULL)) {
        free_listener(listener);
        return SLUICE_ESYS;
    }
    *ret = listener;
    return 0;
}

void sl_listener_close(struct sl_listener *listener)
{
    if (!listener)
        return;
    event_del(&listener->event);
    listener->closed = true;
    if (!listener->accepting)
        free_listener(listener);
}

void sl_listener_watch(struct sl_listener *listener, _Atomic uint64_t *paused)
{
    listener->paused = paused;
}
