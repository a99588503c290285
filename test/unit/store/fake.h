/* fake.h -- a Redis that the test plays: it hears whole commands and says what
 * it is told to, in the thread of the loop.
 */
#ifndef SL_TEST_FAKE_H
#define SL_TEST_FAKE_H

#include <sys/un.h>

#include "turns.h"

struct fake {
    struct rig rig;
    char path[64];
    int listen_fd; /* the listening socket */
    int fd;        /* its peer; -1: none */
    char heard[1 << 16];
    size_t len;
    unsigned calls; /* connections so far */
};

static inline void fake_open(struct fake *f)
{
    struct sockaddr_un sun = {.sun_family = AF_UNIX};

    memset(f, 0, sizeof(*f));
    rig_open(&f->rig, NULL);
    snprintf(f->path, sizeof(f->path), "/tmp/sluice-fake-%d", (int)getpid());
    snprintf(sun.sun_path, sizeof(sun.sun_path), "%s", f->path);
    unlink(f->path);
    f->fd = -1;
    f->listen_fd =
        socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (bind(f->listen_fd, (struct sockaddr *)&sun, sizeof(sun)) ||
        listen(f->listen_fd, 16)) {
        printf("Bail out! no socket: %s\n", strerror(errno));
        exit(1);
    }
}

static inline void fake_hang_up(struct fake *f)
{
    if (f->fd >= 0)
        close(f->fd);
    f->fd = -1;
    f->len = 0;
}

static inline void fake_close(struct fake *f)
{
    fake_hang_up(f);
    close(f->listen_fd);
    unlink(f->path);
    rig_close(&f->rig);
}

/* Forget those who have called and gone again. */
static inline void fake_clear(struct fake *f)
{
    int fd;

    while ((fd = accept4(f->listen_fd, NULL, NULL, SOCK_CLOEXEC)) >= 0)
        close(fd);
    fake_hang_up(f);
}

/* Has a client connected? The newest counts. */
static inline bool fake_called(struct fake *f)
{
    int fd = accept4(f->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

    if (fd < 0)
        return false;
    fake_hang_up(f);
    f->fd = fd;
    f->calls++;
    return true;
}

static inline void fake_say(struct fake *f, const char *text, size_t len)
{
    if (f->fd >= 0)
        (void)!send(f->fd, text, len, MSG_NOSIGNAL);
}

static inline void fake_says(struct fake *f, const char *text)
{
    fake_say(f, text, strlen(text));
}

/* A number at the start of a line. Not by strtol(): a sanitizer would look for
 * the end of the whole text at each call. */
static inline long fake_number(const char *digits)
{
    long number = 0;

    for (; *digits >= '0' && *digits <= '9'; digits++)
        number = 10 * number + (*digits - '0');
    return number;
}

/* How long the first command in what was heard is; 0: it is not whole. */
static inline size_t fake_command(const struct fake *f)
{
    const char *end = f->heard + f->len, *at = memchr(f->heard, '\n', f->len);
    long words;

    if (!at || f->heard[0] != '*')
        return 0;
    words = fake_number(f->heard + 1);
    for (at++; words > 0; words--) {
        const char *line = at < end ? memchr(at, '\n', (size_t)(end - at)) : 0;
        long len;

        if (!line || *at != '$')
            return 0;
        len = fake_number(at + 1);
        if (end - line < len + 3)
            return 0;
        at = line + len + 3;
    }
    return (size_t)(at - f->heard);
}

/* The next command that was heard, as text; NULL: none. Valid until the next
 * call. */
static inline const char *fake_hears(struct fake *f)
{
    static char command[1 << 16];
    ssize_t n = f->fd < 0 ? 0
                          : recv(f->fd, f->heard + f->len,
                                 sizeof(f->heard) - 1 - f->len, 0);
    size_t len;

    if (n > 0)
        f->len += (size_t)n;
    f->heard[f->len] = '\0';
    len = fake_command(f);
    if (len == 0)
        return NULL;
    memcpy(command, f->heard, len);
    command[len] = '\0';
    memmove(f->heard, f->heard + len, f->len - len);
    f->len -= len;
    return command;
}

/* Be greeted: PING, and AUTH and SELECT before it. */
static inline bool fake_greeted(struct fake *f)
{
    const char *command;

    fake_called(f);
    while ((command = fake_hears(f)) != NULL) {
        fake_says(f, "+OK\r\n");
        if (strstr(command, "PING"))
            return true;
    }
    return false;
}

/* The same, waited for. */
static inline const char *fake_wait(struct fake *f)
{
    const char *command = NULL;

    for (unsigned i = 0; !command && i < 4000; i++) {
        command = fake_hears(f);
        if (!command)
            step(&f->rig, i);
    }
    CHECK(command != NULL);
    return command ? command : "";
}

static inline void fake_wait_call(struct fake *f)
{
    bool called = false;

    for (unsigned i = 0; !called && i < 4000; i++) {
        called = fake_called(f);
        if (!called)
            step(&f->rig, i);
    }
    CHECK(called);
}

static inline void fake_wait_greeting(struct fake *f)
{
    bool greeted = false;

    for (unsigned i = 0; !greeted && i < 4000; i++) {
        greeted = fake_greeted(f);
        if (!greeted)
            step(&f->rig, i);
    }
    CHECK(greeted);
}

#endif
