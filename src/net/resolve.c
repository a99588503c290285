/* resolve.c -- looks host names up on threads.
 *
 * Loop and thread share only a socket pair. A cancelled lookup closes the
 * loop's end, and the thread's send fails. So a loop may close while
 * getaddrinfo() still blocks.
 */
#include "net/resolve.h"

#include <arpa/inet.h>
#include <event2/event.h>
#include <event2/event_struct.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define STACK ((size_t)256 << 10)

struct sl_resolve {
    struct event event;
    int fd;
    sl_resolve_f *done;
    void *ctx;
};

struct task {
    int fd;
    char port[8];
    char name[];
};

/* ---- numeric addresses ---- */

static void set_port(struct sl_address *address, unsigned port)
{
    struct sockaddr_in sin;

    /* The port has the same offset in both families. */
    memcpy(&sin, &address->bytes, sizeof(sin));
    sin.sin_port = htons((uint16_t)port);
    memcpy(&address->bytes, &sin, sizeof(sin));
}

static bool path_of(const char *name, struct sl_address *ret)
{
    char text[sizeof(((struct sockaddr_un *)0)->sun_path) + 8];
    int len = snprintf(text, sizeof(text), "unix:%s", name);

    return len < (int)sizeof(text) &&
           sl_address_parse(sl_str_c(text), ret, NULL) == 0;
}

bool sl_resolve_digits(const char *name, unsigned port, struct sl_resolved *ret)
{
    struct sl_address address = {.len = 0};
    struct sockaddr_in sin = {.sin_family = AF_INET};
    struct sockaddr_in6 sin6 = {.sin6_family = AF_INET6};

    if (port == 0) {
        if (!path_of(name, &address))
            return false;
    } else if (inet_pton(AF_INET, name, &sin.sin_addr) == 1) {
        memcpy(&address.bytes, &sin, sizeof(sin));
        address.len = sizeof(sin);
    } else if (inet_pton(AF_INET6, name, &sin6.sin6_addr) == 1) {
        memcpy(&address.bytes, &sin6, sizeof(sin6));
        address.len = sizeof(sin6);
    } else {
        return false;
    }
    if (port > 0)
        set_port(&address, port);
    *ret = (struct sl_resolved){.count = 1};
    ret->list[0] = address;
    return true;
}

/* ---- the thread ---- */

static void keep_all(const struct addrinfo *list, struct sl_resolved *ret)
{
    for (; list && ret->count < SL_RESOLVED_MOST; list = list->ai_next) {
        struct sl_address *address = &ret->list[ret->count];

        if (list->ai_addrlen > sizeof(address->bytes))
            continue;
        memcpy(&address->bytes, list->ai_addr, list->ai_addrlen);
        address->len = list->ai_addrlen;
        ret->count++;
    }
}

static void *run(void *ctx)
{
    struct task *task = ctx;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_ADDRCONFIG};
    struct addrinfo *list = NULL;
    struct sl_resolved resolved = {.count = 0};
    int why = getaddrinfo(task->name, task->port, &hints, &list);
    ssize_t n;

    if (why == 0) {
        keep_all(list, &resolved);
        freeaddrinfo(list);
    }
    if (resolved.count == 0)
        snprintf(resolved.why, sizeof(resolved.why), "cannot be resolved: %s",
                 why ? gai_strerror(why) : "no address");
    n = send(task->fd, &resolved, sizeof(resolved), MSG_NOSIGNAL);
    (void)n; /* fails after sl_resolve_cancel() */
    close(task->fd);
    sl_alloc_free(&sl_alloc_libc, task, sizeof(*task) + strlen(task->name) + 1);
    return NULL;
}

/* Start a detached thread with all signals blocked. */
static int start_thread(struct task *task)
{
    pthread_attr_t attr;
    pthread_t thread;
    sigset_t all, was;
    int err;

    if (pthread_attr_init(&attr))
        return SLUICE_ENOMEM;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &was);
    err = pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED) ||
          pthread_attr_setstacksize(&attr, STACK) ||
          pthread_create(&thread, &attr, run, task);
    pthread_sigmask(SIG_SETMASK, &was, NULL);
    pthread_attr_destroy(&attr);
    return err ? SLUICE_ESYS : 0;
}

/* ---- the loop ---- */

static void on_answer(evutil_socket_t fd, short what, void *arg)
{
    struct sl_resolve *resolve = arg;
    struct sl_resolved resolved = {.count = 0};
    sl_resolve_f *done = resolve->done;
    void *ctx = resolve->ctx;

    (void)what;
    if (recv(fd, &resolved, sizeof(resolved), 0) != sizeof(resolved)) {
        resolved.count = 0;
        snprintf(resolved.why, sizeof(resolved.why), "cannot be looked up");
    }
    sl_resolve_cancel(resolve);
    done(ctx, &resolved);
}

static struct task *task_new(const char *name, unsigned port, int fd)
{
    size_t len = strlen(name) + 1;
    struct task *task = sl_alloc_new(&sl_alloc_libc, sizeof(*task) + len);

    if (!task)
        return NULL;
    task->fd = fd;
    snprintf(task->port, sizeof(task->port), "%u", port);
    memcpy(task->name, name, len);
    return task;
}

/* Start the thread; it takes `fd` over. */
static int begin_task(const char *name, unsigned port, int fd)
{
    struct task *task = task_new(name, port, fd);
    int err = task ? start_thread(task) : SLUICE_ENOMEM;

    if (err) {
        close(fd);
        sl_alloc_free(&sl_alloc_libc, task, sizeof(*task) + strlen(name) + 1);
    }
    return err;
}

int sl_resolve_begin(struct sl_loop *loop, const char *name, unsigned port,
                     sl_resolve_f *done, void *ctx, struct sl_resolve **ret)
{
    struct sl_resolve *resolve = sl_alloc_new(&sl_alloc_libc, sizeof(*resolve));
    int fds[2], err;

    if (!resolve)
        return SLUICE_ENOMEM;
    /* Packets, so that one send() is one recv(). */
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds)) {
        sl_alloc_free(&sl_alloc_libc, resolve, sizeof(*resolve));
        return SLUICE_ESYS;
    }
    *resolve = (struct sl_resolve){.fd = fds[0], .done = done, .ctx = ctx};
    event_assign(&resolve->event, sl_loop_base(loop), fds[0], EV_READ,
                 on_answer, resolve);
    err = event_add(&resolve->event, NULL) ? SLUICE_ENOMEM : 0;
    if (err)
        close(fds[1]);
    else
        err = begin_task(name, port, fds[1]);
    if (err) {
        sl_resolve_cancel(resolve);
        return err;
    }
    *ret = resolve;
    return 0;
}

void sl_resolve_cancel(struct sl_resolve *resolve)
{
    if (!resolve)
        return;
    event_del(&resolve->event);
    close(resolve->fd);
    sl_alloc_free(&sl_alloc_libc, resolve, sizeof(*resolve));
}
