/* notify.c -- telling systemd how we are. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/parse.h"
#include "sluiced/systemd.h"

#define MESSAGE 512

static bool address_of(const char *path, struct sockaddr_un *ret,
                       socklen_t *ret_len)
{
    size_t len = strlen(path);

    if ((path[0] != '/' && path[0] != '@') || len < 2 ||
        len >= sizeof(ret->sun_path))
        return false;
    *ret = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(ret->sun_path, path, len);
    if (path[0] == '@') /* an abstract name begins with a NUL and has no end */
        ret->sun_path[0] = '\0';
    *ret_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len +
                           (path[0] == '/'));
    return true;
}

uint64_t sl_systemd_number(const char *variable)
{
    const char *text = getenv(variable);
    uint64_t number = 0;

    if (text && sl_parse_number(sl_str_c(text), &number, NULL))
        number = 0;
    return number;
}

/* Twice as often as asked, so that one late turn is forgiven. */
static sl_ns watchdog_interval(void)
{
    uint64_t usec = sl_systemd_number("WATCHDOG_USEC");
    uint64_t pid = sl_systemd_number("WATCHDOG_PID");

    if (pid != 0 && pid != (uint64_t)getpid())
        return 0;
    return usec > 0 && usec < (uint64_t)(SL_DAY / SL_US)
               ? (sl_ns)usec * SL_US / 2
               : 0;
}

void sl_notify_open(struct sl_notify *notify)
{
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un address;
    socklen_t len;

    *notify = (struct sl_notify){.fd = -1};
    if (path && address_of(path, &address, &len)) {
        notify->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        if (notify->fd >= 0 &&
            connect(notify->fd, (struct sockaddr *)&address, len)) {
            close(notify->fd);
            notify->fd = -1;
        }
    }
    if (notify->fd >= 0)
        notify->watchdog = watchdog_interval();
    unsetenv("NOTIFY_SOCKET");
    unsetenv("WATCHDOG_USEC");
    unsetenv("WATCHDOG_PID");
}

void sl_notify_close(struct sl_notify *notify)
{
    if (notify->fd >= 0)
        close(notify->fd);
    notify->fd = -1;
}

static void send_text(int fd, const char *fmt, va_list args)
{
    char message[MESSAGE];
    ssize_t sent;
    /* style: the analyzer of clang 14 misses va_start() here */
    int len = vsnprintf(message, sizeof(message), fmt, args);

    if (len <= 0)
        return;
    if (len >= MESSAGE)
        len = MESSAGE - 1;
    sent = send(fd, message, (size_t)len, MSG_NOSIGNAL | MSG_DONTWAIT);
    (void)sent; /* there is nobody else to tell */
}

void sl_notify(const struct sl_notify *notify, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    if (notify->fd >= 0)
        send_text(notify->fd, fmt, args);
    va_end(args);
}
