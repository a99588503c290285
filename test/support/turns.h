/* turns.h -- a loop that is driven step by step, and clients beside it.
 *
 * Clients live in the same thread as the loop, so they never block: they write
 * little, let the loop turn, and read what is there. Nothing waits for longer
 * than it takes, and begin() sets an alarm that ends what hangs.
 */
#ifndef SL_TEST_TURNS_H
#define SL_TEST_TURNS_H

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "check.h"
#include "net/conn.h"
#include "net/listener.h"

struct rig {
    struct sl_loop *loop;
    struct sl_conns *conns;
    struct sl_timer *tick;
};

static void rig_stop(void *ctx)
{
    sl_loop_stop(ctx);
}

static inline void rig_open(struct rig *rig, struct sl_clock *clock)
{
    struct sl_diag diag = {0};

    if (sl_loop_open(clock, &rig->loop, &diag) ||
        sl_conns_open(rig->loop, 20000, &rig->conns) ||
        sl_timer_new(rig->loop, rig_stop, rig->loop, &rig->tick)) {
        printf("Bail out! no loop: %s\n", diag.sentence);
        exit(1);
    }
}

static inline void rig_close(struct rig *rig)
{
    sl_timer_free(rig->tick);
    sl_conns_close(rig->conns);
    sl_loop_close(rig->loop);
}

/* One turn: what is ready now. */
static inline void turn(struct rig *rig)
{
    CHECK_EQ(sl_loop_post(rig->loop, rig_stop, rig->loop), 0);
    sl_loop_run(rig->loop);
}

/* A millisecond or a few, or what comes earlier and stops the loop. */
static inline void tick(struct rig *rig)
{
    sl_timer_start(rig->tick, SL_MS);
    sl_loop_run(rig->loop);
}

static inline void step(struct rig *rig, unsigned i)
{
    if (i < 20)
        turn(rig);
    else
        tick(rig);
}

/* Let the loop turn until the condition holds; false after some seconds. */
#define WAIT_FOR(rig, cond)                                                    \
    do {                                                                       \
        for (unsigned i_ = 0; !(cond) && i_ < 4000; i_++)                      \
            step((rig), i_);                                                   \
        CHECK(cond);                                                           \
    } while (0)

static inline void no_waiting(int fd)
{
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

/* Two ends, ours and the client's; neither blocks. */
static inline void pair(int fds[2])
{
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds)) {
        printf("Bail out! socketpair: %s\n", strerror(errno));
        exit(1);
    }
}

/* Connect to where `s` listens. */
static inline int dial(const struct sl_sockets *s)
{
    int fd = socket(s->address.bytes.ss_family, SOCK_STREAM | SOCK_NONBLOCK, 0);

    if (fd >= 0 &&
        connect(fd, (const void *)&s->address.bytes, s->address.len) &&
        errno != EINPROGRESS) {
        close(fd);
        return -1;
    }
    return fd;
}

static inline void say(int fd, const char *text)
{
    CHECK_EQ(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

/* What the client has received since, as a string; "-" is the end, "!" a
 * failure. Valid until the next call. */
static inline const char *hear(int fd)
{
    static char text[65536];
    ssize_t n = recv(fd, text, sizeof(text) - 1, 0);

    if (n < 0)
        return errno == EAGAIN ? "" : "!";
    if (n == 0)
        return "-";
    text[n] = '\0';
    return text;
}

#endif
