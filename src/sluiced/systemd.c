/* systemd.c -- notifies systemd, and takes sockets from it. */
#include "sluiced/systemd.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/parse.h"

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
    if (path[0] == '@') /* an abstract name begins with a NUL and has no
                         * terminator */
        ret->sun_path[0] = '\0';
    *ret_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len +
                           (path[0] == '/'));
    return true;
}

/* Reads and unsets a variable. Returns its number, or 0. */
static uint64_t take_number(const char *variable)
{
    const char *text = getenv(variable);
    uint64_t number = 0;

    if (text && sl_parse_number(sl_str_c(text), &number, NULL))
        number = 0;
    unsetenv(variable);
    return number;
}

void sl_notify_open(struct sl_notify *notify)
{
    const char *path = getenv("NOTIFY_SOCKET");
    uint64_t usec = take_number("WATCHDOG_USEC");
    uint64_t pid = take_number("WATCHDOG_PID");
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
    unsetenv("NOTIFY_SOCKET");
    /* Twice as often as required, so that one late heartbeat is tolerated. */
    if (notify->fd >= 0 && (pid == 0 || pid == (uint64_t)getpid()) &&
        usec < (uint64_t)(SL_DAY / SL_US))
        notify->watchdog = (sl_ns)usec * SL_US / 2;
}

void sl_notify_close(struct sl_notify *notify)
{
    if (notify->fd >= 0)
        close(notify->fd);
    notify->fd = -1;
}

/* Errors cannot be reported. */
void sl_notify(const struct sl_notify *notify, const char *fmt, ...)
{
    char message[MESSAGE];
    va_list args;

    if (notify->fd < 0)
        return;
    va_start(args, fmt);
    /* style: the analyzer of clang 14 misses va_start() here */
    vsnprintf(message, sizeof(message), fmt, args);
    va_end(args);
    (void)!send(notify->fd, message, strlen(message),
                MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* ---- sockets that systemd opened for us.
 *
 * They begin at descriptor 3. LISTEN_PID is the process they are for: a child
 * process must not take them.
 */

#define FIRST 3

/* Splits "http:admin" into names. Without a name systemd uses "unknown";
 * without FileDescriptorName= it is the name of the unit. */
static void read_names(struct sl_activated *a, const char *names)
{
    for (unsigned i = 0; i < a->count; i++) {
        size_t len = names ? strcspn(names, ":") : 0;

        snprintf(a->names[i], sizeof(a->names[i]), "%.*s", (int)len,
                 names ? names : "");
        names = names && names[len] ? names + len + 1 : NULL;
    }
    if (a->count == 1 && strcmp(a->names[0], "admin") != 0)
        snprintf(a->names[0], sizeof(a->names[0]), "http");
}

static int check_names(const struct sl_activated *a, struct sl_diag *diag)
{
    for (unsigned i = 0; i < a->count; i++) {
        if (strcmp(a->names[i], "http") != 0 &&
            strcmp(a->names[i], "admin") != 0)
            return sl_diag_error(
                diag, SLUICE_ECONF,
                "systemd passed a socket named \"%s\"; write "
                "FileDescriptorName=http or =admin in its unit",
                a->names[i]);
        for (unsigned j = 0; j < i; j++)
            if (strcmp(a->names[i], a->names[j]) == 0)
                return sl_diag_error(
                    diag, SLUICE_ECONF,
                    "systemd passed two sockets named \"%s\"; a "
                    "listener needs exactly one",
                    a->names[i]);
    }
    return 0;
}

int sl_activated_read(struct sl_activated *ret, struct sl_diag *diag)
{
    struct sl_activated a = {0};
    uint64_t count = take_number("LISTEN_FDS");
    bool ours = take_number("LISTEN_PID") == (uint64_t)getpid();
    int err = 0;

    if (ours && count > SL_ACTIVATED)
        err = sl_diag_error(
            diag, SLUICE_ECONF,
            "systemd passed %u sockets; at most two are supported, "
            "http and admin",
            count < 1000 ? (unsigned)count : 1000);
    if (!err && ours) {
        a.count = (unsigned)count;
        for (unsigned i = 0; i < a.count; i++) {
            a.fds[i] = FIRST + (int)i;
            fcntl(a.fds[i], F_SETFD, FD_CLOEXEC);
        }
        read_names(&a, getenv("LISTEN_FDNAMES"));
        err = check_names(&a, diag);
    }
    unsetenv("LISTEN_FDNAMES");
    if (!err)
        *ret = a;
    return err;
}

int sl_activated_find(const struct sl_activated *activated, const char *name)
{
    for (unsigned i = 0; i < activated->count; i++)
        if (strcmp(activated->names[i], name) == 0)
            return activated->fds[i];
    return -1;
}
