/* between.h -- a proxy between the registry and its PostgreSQL. It counts
 * round trips, and cuts the connection when the answer to a COMMIT comes; or
 * when the COMMIT comes, which it keeps and sends to the server later. */
#ifndef SL_TEST_BETWEEN_H
#define SL_TEST_BETWEEN_H

#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "registry/registry_int.h"

#define BETWEEN_LINES 16

struct between {
    int listener;
    unsigned port;
    pthread_t thread;
    _Atomic bool armed; /* the next answer to a COMMIT is not passed on */
    _Atomic bool shuts; /* no connection gets through from then on */
    _Atomic bool shut, over;
    _Atomic bool keeps;     /* the next COMMIT is kept, and its line is cut */
    _Atomic unsigned syncs; /* that clients have sent: for each they wait */
    char kept[65536];
    size_t kept_len;
    int kept_for;                /* the server still has its end of that line */
    int lines[BETWEEN_LINES][2]; /* client, server; -1: none */
};

static inline struct sockaddr_in between_at(unsigned port)
{
    return (struct sockaddr_in){.sin_family = AF_INET,
                                .sin_port = htons((uint16_t)port),
                                .sin_addr = {htonl(INADDR_LOOPBACK)}};
}

static inline void between_accept(struct between *b)
{
    struct sockaddr_in at =
        between_at((unsigned)strtoul(getenv("POSTGRES_PORT"), NULL, 10));
    int client = accept(b->listener, NULL, NULL);
    int server = socket(AF_INET, SOCK_STREAM, 0);

    for (int i = 0; client >= 0 && !atomic_load(&b->shut) && i < BETWEEN_LINES;
         i++) {
        if (b->lines[i][0] >= 0)
            continue;
        if (connect(server, (void *)&at, sizeof(at)) != 0)
            break;
        b->lines[i][0] = client;
        b->lines[i][1] = server;
        return;
    }
    close(client);
    close(server);
}

static inline void between_cut(int line[2])
{
    close(line[0]);
    close(line[1]);
    line[0] = line[1] = -1;
}

/* What is sent has a COMMIT, by the name of the prepared statement. */
static inline bool between_commits(const char *bytes, size_t len)
{
    char name[16];
    int name_len = snprintf(name, sizeof(name), "q%d", (int)SL_QUERY_COMMIT);

    return memmem(bytes, len, name, (size_t)name_len + 1);
}

static inline void between_keep(struct between *b, int line[2],
                                const char *bytes, size_t len)
{
    memcpy(b->kept, bytes, len);
    b->kept_len = len;
    b->kept_for = line[1];
    close(line[0]);
    line[0] = line[1] = -1;
    atomic_store(&b->keeps, false);
}

/* What was kept comes to the server. Is it committed? */
static inline bool between_bring(struct between *b)
{
    char bytes[65536];
    size_t len = 0;
    ssize_t got = write(b->kept_for, b->kept, b->kept_len);

    while (got > 0 && !memmem(bytes, len, "COMMIT", 7)) {
        got = read(b->kept_for, bytes + len, sizeof(bytes) - len);
        len += got > 0 ? (size_t)got : 0;
    }
    close(b->kept_for);
    return got > 0;
}

static inline unsigned between_syncs(const char *bytes, size_t len)
{
    static const char sync[] = {'S', 0, 0, 0, 4};
    const char *end = bytes + len;
    unsigned count = 0;

    while ((bytes = memmem(bytes, (size_t)(end - bytes), sync, sizeof(sync)))) {
        bytes += sizeof(sync);
        count++;
    }
    return count;
}

/* From one side of a line to the other. */
static inline void between_pass(struct between *b, int line[2], int from)
{
    static const char end[] = "COMMIT"; /* and its NUL */
    char bytes[65536];
    ssize_t len = read(line[from], bytes, sizeof(bytes));

    if (len > 0 && from == 0)
        atomic_fetch_add(&b->syncs, between_syncs(bytes, (size_t)len));
    if (len > 0 && from == 0 && atomic_load(&b->keeps) &&
        between_commits(bytes, (size_t)len)) {
        between_keep(b, line, bytes, (size_t)len);
        return;
    }
    if (len > 0 && from == 1 && atomic_load(&b->armed) &&
        memmem(bytes, (size_t)len, end, sizeof(end))) {
        atomic_store(&b->armed, false);
        atomic_store(&b->shut, atomic_load(&b->shuts));
        len = 0;
    }
    for (ssize_t at = 0; at < len;) {
        ssize_t sent = write(line[!from], bytes + at, (size_t)(len - at));

        if (sent <= 0) {
            len = 0;
            break;
        }
        at += sent;
    }
    if (len <= 0)
        between_cut(line);
}

static inline void *between_serve(void *ctx)
{
    struct between *b = ctx;

    while (!atomic_load(&b->over)) {
        struct pollfd fds[1 + 2 * BETWEEN_LINES];

        fds[0] = (struct pollfd){.fd = b->listener, .events = POLLIN};
        for (int i = 0; i < 2 * BETWEEN_LINES; i++)
            fds[1 + i] =
                (struct pollfd){.fd = b->lines[i / 2][i % 2], .events = POLLIN};
        poll(fds, sizeof(fds) / sizeof(fds[0]), 50);
        if (fds[0].revents)
            between_accept(b);
        for (int i = 0; i < 2 * BETWEEN_LINES; i++)
            if (fds[1 + i].revents && b->lines[i / 2][i % 2] == fds[1 + i].fd)
                between_pass(b, b->lines[i / 2], i % 2);
    }
    return NULL;
}

static inline void between_open(struct between *b)
{
    struct sockaddr_in at = between_at(0);
    socklen_t len = sizeof(at);

    memset(b, 0, sizeof(*b));
    for (int i = 0; i < BETWEEN_LINES; i++)
        b->lines[i][0] = b->lines[i][1] = -1;
    b->listener = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(b->listener, (void *)&at, len) || listen(b->listener, 16) ||
        getsockname(b->listener, (void *)&at, &len) ||
        pthread_create(&b->thread, NULL, between_serve, b)) {
        printf("Bail out! no proxy\n");
        exit(1);
    }
    b->port = ntohs(at.sin_port);
}

static inline void between_close(struct between *b)
{
    atomic_store(&b->over, true);
    pthread_join(b->thread, NULL);
    for (int i = 0; i < BETWEEN_LINES; i++)
        if (b->lines[i][0] >= 0)
            between_cut(b->lines[i]);
    close(b->listener);
}

#endif
