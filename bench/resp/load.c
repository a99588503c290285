/* load.c -- connections that send a pipeline, wait for all of its replies, and
 * send the next at once.
 *
 * One thread, one epoll. Of replies only the end is looked for.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "resp/resp.h"
#include "wire/resp.h"

#define REPLY_BYTES ((size_t)256 << 10)

struct asker {
    int fd;
    unsigned open; /* replies to come */
    size_t len;
    char *bytes;
};

struct pipeline {
    int epoll;
    const struct sl_buf *questions;
    unsigned count, next, depth;
    unsigned waiting;
    struct asker askers[CONNS];
};

static double now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static void *need(void *memory)
{
    if (!memory)
        die("there is no memory");
    return memory;
}

static int connect_to(const struct server *s, bool is_unix)
{
    struct sockaddr_in in = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)s->port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    const struct sockaddr *at =
        is_unix ? (struct sockaddr *)&un : (struct sockaddr *)&in;
    int fd = socket(at->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int one = 1;

    snprintf(un.sun_path, sizeof(un.sun_path), "%s", s->path);
    if (fd < 0 || connect(fd, at, is_unix ? sizeof(un) : sizeof(in)))
        die("%s: %s", s->name, strerror(errno));
    if (!is_unix)
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    return fd;
}

struct pipeline *pipeline_open(const struct server *s, bool is_unix,
                               const struct sl_buf *questions, unsigned count,
                               unsigned depth)
{
    struct pipeline *p = need(calloc(1, sizeof(*p)));

    p->questions = questions;
    p->count = count;
    p->depth = depth;
    p->epoll = epoll_create1(EPOLL_CLOEXEC);
    for (unsigned i = 0; i < CONNS; i++) {
        struct asker *a = &p->askers[i];
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = a};

        a->fd = connect_to(s, is_unix);
        a->bytes = need(malloc(REPLY_BYTES));
        if (epoll_ctl(p->epoll, EPOLL_CTL_ADD, a->fd, &event))
            die("epoll: %s", strerror(errno));
    }
    return p;
}

static void put(struct pipeline *p, struct asker *a)
{
    const struct sl_buf *question = &p->questions[p->next];

    p->next = (p->next + 1) % p->count;
    if (send(a->fd, question->bytes, question->len, MSG_NOSIGNAL) !=
        (ssize_t)question->len)
        die("a pipeline could not be sent: %s", strerror(errno));
    a->open = p->depth;
    a->len = 0;
    p->waiting++;
}

/* Take whole replies off what has come. */
static void count_replies(struct asker *a)
{
    struct sl_str rest = {a->bytes, a->len};
    struct sl_resp_reply reply;

    while (a->open > 0 && rest.len > 0) {
        enum sl_resp_result result;

        if (rest.at[0] == '-')
            die("an error: %.*s", sl_str_int(rest.len), rest.at);
        sl_resp_reply_begin(&reply, REPLY_BYTES);
        result = sl_resp_reply_read(&reply, rest);
        if (result == SL_RESP_REFUSED)
            die("a reply was none");
        if (result == SL_RESP_MORE)
            break;
        rest = sl_str_from(rest, reply.used);
        a->open--;
    }
    memmove(a->bytes, rest.at, rest.len);
    a->len = rest.len;
}

/* True if all replies of its pipeline are there. */
static bool get(struct asker *a)
{
    ssize_t n = recv(a->fd, a->bytes + a->len, REPLY_BYTES - a->len, 0);

    if (n <= 0)
        die("a connection was closed");
    a->len += (size_t)n;
    count_replies(a);
    return a->open == 0;
}

uint64_t pipeline_run(struct pipeline *p, double seconds, double *ret_seconds)
{
    double began = now(), at = began;
    uint64_t done = 0;

    for (unsigned i = 0; i < CONNS; i++)
        put(p, &p->askers[i]);
    while (p->waiting > 0) {
        struct epoll_event events[CONNS];
        int n = epoll_wait(p->epoll, events, CONNS, 5000);

        if (n <= 0)
            die("the server does not answer");
        at = now();
        for (int i = 0; i < n; i++) {
            struct asker *a = events[i].data.ptr;

            if (!get(a))
                continue;
            p->waiting--;
            done += p->depth;
            if (at - began < seconds)
                put(p, a);
        }
    }
    *ret_seconds = at - began;
    return done;
}

void command(const struct server *s, const struct sl_str *words, unsigned count,
             char *ret, size_t size)
{
    int fd = connect_to(s, false);
    struct sl_buf out;
    ssize_t n;

    sl_buf_init(&out, 1 << 20, &sl_alloc_libc);
    if (sl_resp_command_write(&out, words, count) ||
        send(fd, out.bytes, out.len, MSG_NOSIGNAL) != (ssize_t)out.len)
        die("%s takes no command", s->name);
    n = recv(fd, ret, size - 1, 0);
    if (n <= 0 || ret[0] == '-')
        die("%s: %.*s", s->name, (int)n, ret);
    ret[n] = '\0';
    sl_buf_done(&out);
    close(fd);
}
