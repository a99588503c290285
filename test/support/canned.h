/* canned.h -- a server of a few fixed answers, on a thread and a free port.
 *
 * GET /N is answered by the Nth text, byte for byte, and the connection is
 * closed. One that is NULL is never answered: the connection stays open until
 * the server ends.
 */
#ifndef SL_TEST_CANNED_H
#define SL_TEST_CANNED_H

#include <arpa/inet.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define CANNED_HELD 32

struct canned {
    const char *const *answers;
    unsigned count;
    int fd;
    unsigned short port;
    pthread_t thread;
    atomic_uint asked;
    int held[CANNED_HELD];
    unsigned held_count;
};

static inline void canned_answer(struct canned *c, int fd)
{
    char head[4096];
    size_t len = 0;
    ssize_t n;
    unsigned which;

    while (len < sizeof(head) - 1 &&
           (n = read(fd, head + len, sizeof(head) - 1 - len)) > 0) {
        len += (size_t)n;
        head[len] = '\0';
        if (strstr(head, "\r\n\r\n"))
            break;
    }
    head[len] = '\0';
    atomic_fetch_add(&c->asked, 1);
    if (sscanf(head, "GET /%u", &which) != 1 || which >= c->count ||
        !c->answers[which]) {
        if (c->held_count < CANNED_HELD)
            c->held[c->held_count++] = fd;
        else
            close(fd);
        return;
    }
    for (const char *at = c->answers[which]; *at; at += n) {
        n = send(fd, at, strlen(at), MSG_NOSIGNAL);
        if (n <= 0)
            break;
    }
    close(fd);
}

static inline void *canned_run(void *arg)
{
    struct canned *c = arg;
    int fd;

    while ((fd = accept(c->fd, NULL, NULL)) >= 0)
        canned_answer(c, fd);
    return NULL;
}

static inline void canned_open(struct canned *c, const char *const *answers,
                               unsigned count)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(at);

    memset(c, 0, sizeof(*c));
    c->answers = answers;
    c->count = count;
    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (c->fd < 0 || bind(c->fd, (struct sockaddr *)&at, len) ||
        listen(c->fd, 64) || getsockname(c->fd, (struct sockaddr *)&at, &len) ||
        pthread_create(&c->thread, NULL, canned_run, c)) {
        printf("Bail out! no server\n");
        exit(1);
    }
    c->port = ntohs(at.sin_port);
}

static inline void canned_close(struct canned *c)
{
    shutdown(c->fd, SHUT_RDWR);
    pthread_join(c->thread, NULL);
    close(c->fd);
    for (unsigned i = 0; i < c->held_count; i++)
        close(c->held[i]);
}

#endif
