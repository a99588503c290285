/* notify.c -- messages reach systemd's socket, wherever it is. */
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "check.h"
#include "sluiced/systemd.h"

/* A socket as systemd has it, at a path or at an abstract name ('@'). */
static int hear(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t len = strlen(path);
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    memcpy(address.sun_path, path, len);
    if (path[0] == '@')
        address.sun_path[0] = '\0';
    CHECK_EQ(bind(fd, (struct sockaddr *)&address,
                  (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len +
                              (path[0] == '/'))),
             0);
    return fd;
}

static const char *heard(int fd)
{
    static char text[1024];
    ssize_t len = recv(fd, text, sizeof(text) - 1, MSG_DONTWAIT);

    text[len > 0 ? len : 0] = '\0';
    return text;
}

static void check_at(const char *path)
{
    struct sl_notify notify;
    int fd = hear(path);

    setenv("NOTIFY_SOCKET", path, 1);
    sl_notify_open(&notify);
    CHECK(notify.fd >= 0);
    CHECK(getenv("NOTIFY_SOCKET") == NULL);
    sl_notify(&notify, "READY=1\nSTATUS=%s", "fine");
    CHECK_STR(heard(fd), "READY=1\nSTATUS=fine");
    sl_notify_close(&notify);
    close(fd);
}

static void check_watchdog(const char *path, const char *usec, const char *pid,
                           sl_ns want)
{
    struct sl_notify notify;
    int fd = hear(path);

    setenv("NOTIFY_SOCKET", path, 1);
    setenv("WATCHDOG_USEC", usec, 1);
    if (pid)
        setenv("WATCHDOG_PID", pid, 1);
    sl_notify_open(&notify);
    CHECK_EQ(notify.watchdog, want);
    CHECK(getenv("WATCHDOG_USEC") == NULL && getenv("WATCHDOG_PID") == NULL);
    sl_notify_close(&notify);
    close(fd);
}

int main(void)
{
    char folder[] = "/tmp/sluiced-notify-XXXXXX", path[64], abstract[64];
    char own[32], long_text[4096];
    struct sl_notify notify;
    int fd;

    CHECK(mkdtemp(folder) != NULL);
    snprintf(path, sizeof(path), "%s/n", folder);
    snprintf(abstract, sizeof(abstract), "@sluiced-test-%d", (int)getpid());
    snprintf(own, sizeof(own), "%d", (int)getpid());

    CASE("without systemd nothing happens");
    unsetenv("NOTIFY_SOCKET");
    sl_notify_open(&notify);
    CHECK_EQ(notify.fd, -1);
    sl_notify(&notify, "READY=1");
    sl_notify_close(&notify);

    CASE("a path");
    check_at(path);
    unlink(path);
    CASE("an abstract name");
    check_at(abstract);

    CASE("nobody there, or no such address, is no harm");
    setenv("NOTIFY_SOCKET", path, 1);
    sl_notify_open(&notify);
    CHECK_EQ(notify.fd, -1);
    setenv("NOTIFY_SOCKET", "relative", 1);
    sl_notify_open(&notify);
    CHECK_EQ(notify.fd, -1);

    CASE("the watchdog is fed twice as often as it bites");
    check_watchdog(abstract, "10000000", NULL, 5 * SL_S);
    check_watchdog(abstract, "10000000", own, 5 * SL_S);
    CASE("but not another's");
    check_watchdog(abstract, "10000000", "1", 0);
    check_watchdog(abstract, "soon", NULL, 0);

    CASE("a long status is cut, not left out");
    fd = hear(abstract);
    setenv("NOTIFY_SOCKET", abstract, 1);
    sl_notify_open(&notify);
    memset(long_text, 'x', sizeof(long_text) - 1);
    long_text[sizeof(long_text) - 1] = '\0';
    sl_notify(&notify, "STATUS=%s", long_text);
    CHECK_EQ(strlen(heard(fd)), 511);
    sl_notify_close(&notify);
    close(fd);
    rmdir(folder);
    return CHECK_DONE();
}
