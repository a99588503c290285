/* systemd.c -- sockets and notifications of systemd. */
#include "sluiced/systemd.h"

#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "check.h"

static char own_pid[32];

TEST(sockets)
{
    enum { REFUSED = 9 };
    static const struct {
        const char *why, *pid, *fds, *names; /* pid NULL: this process */
        unsigned count;
        int http, admin;
    } rows[] = {
        {"no sockets",        NULL, NULL, NULL,          0,       -1, -1},
        {"by name",           NULL, "2",  "admin:http",  2,       4,  3 },
        {"without a name",    NULL, "1",  NULL,          1,       3,  -1},
        {"named by its unit", NULL, "1",  "sl.socket",   1,       3,  -1},
        {"one for the admin", NULL, "1",  "admin",       1,       -1, 3 },
        {"those of another",  "1",  "2",  "http:admin",  0,       -1, -1},
        {"an unknown name",   NULL, "2",  "http:gopher", REFUSED, -1, -1},
        {"two of a name",     NULL, "2",  "http:http",   REFUSED, -1, -1},
        {"too many",          NULL, "9",  "http",        REFUSED, -1, -1},
        {"a negative number", NULL, "-1", "http",        0,       -1, -1},
    };

    for (size_t i = 0; i < SL_LEN(rows); i++) {
        struct sl_activated got = {.count = REFUSED};
        struct sl_diag why = {0};

        CASE(rows[i].why);
        setenv("LISTEN_PID", rows[i].pid ? rows[i].pid : own_pid, 1);
        if (rows[i].fds)
            setenv("LISTEN_FDS", rows[i].fds, 1);
        if (rows[i].names)
            setenv("LISTEN_FDNAMES", rows[i].names, 1);
        CHECK_EQ(sl_activated_read(&got, &why),
                 rows[i].count == REFUSED ? SLUICE_ECONF : 0);
        CHECK_EQ(got.count, rows[i].count);
        CHECK(!getenv("LISTEN_FDS") && !getenv("LISTEN_PID") &&
              !getenv("LISTEN_FDNAMES"));
        if (rows[i].names && strstr(rows[i].names, "gopher"))
            CHECK(
                strstr(why.sentence, "\"gopher\"; write FileDescriptorName="));
        if (rows[i].count == REFUSED)
            continue;
        CHECK_EQ(sl_activated_find(&got, "http"), rows[i].http);
        CHECK_EQ(sl_activated_find(&got, "admin"), rows[i].admin);
        CHECK_EQ(sl_activated_find(&got, "grpc"), -1);
    }
}

/* Opens a socket like systemd's, at a path or an abstract name ('@'). */
static int listen_at(const char *path)
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

TEST(notifications)
{
    char path[64], abstract[64], status[4096], text[1024] = "";
    const struct {
        const char *why, *path;
        bool listens;
        const char *usec, *pid;
        sl_ns watchdog;
    } rows[] = {
        {"without systemd",  NULL,       false, NULL,       NULL,    0       },
        {"a path",           path,       true,  NULL,       NULL,    0       },
        {"an abstract name", abstract,   true,  NULL,       NULL,    0       },
        {"no listener",      path,       false, NULL,       NULL,    0       },
        {"no address",       "relative", false, NULL,       NULL,    0       },
        {"a watchdog",       abstract,   true,  "10000000", NULL,    5 * SL_S},
        {"its process",      abstract,   true,  "10000000", own_pid, 5 * SL_S},
        {"another process",  abstract,   true,  "10000000", "1",     0       },
        {"not a number",     abstract,   true,  "soon",     NULL,    0       },
    };

    snprintf(path, sizeof(path), "/tmp/sluiced-notify-%s", own_pid);
    snprintf(abstract, sizeof(abstract), "@sluiced-test-%s", own_pid);
    memset(status, 'x', sizeof(status) - 1);
    status[sizeof(status) - 1] = '\0';
    for (size_t i = 0; i < SL_LEN(rows); i++) {
        int fd = rows[i].listens ? listen_at(rows[i].path) : -1;
        struct sl_notify notify;

        CASE(rows[i].why);
        if (rows[i].path)
            setenv("NOTIFY_SOCKET", rows[i].path, 1);
        if (rows[i].usec)
            setenv("WATCHDOG_USEC", rows[i].usec, 1);
        if (rows[i].pid)
            setenv("WATCHDOG_PID", rows[i].pid, 1);
        sl_notify_open(&notify);
        CHECK_EQ(notify.fd >= 0, rows[i].listens);
        CHECK_EQ(notify.watchdog, rows[i].watchdog);
        CHECK(!getenv("NOTIFY_SOCKET") && !getenv("WATCHDOG_USEC") &&
              !getenv("WATCHDOG_PID"));
        sl_notify(&notify, "READY=1\nSTATUS=%s", "fine");
        if (fd >= 0) {
            ssize_t len = recv(fd, text, sizeof(text) - 1, MSG_DONTWAIT);

            text[len > 0 ? len : 0] = '\0';
            CHECK_STR(text, "READY=1\nSTATUS=fine");
            sl_notify(&notify, "STATUS=%s", status); /* is cut */
            CHECK_EQ(recv(fd, text, sizeof(text), MSG_DONTWAIT), 511);
            close(fd);
        }
        sl_notify_close(&notify);
        unlink(path);
    }
}

int main(void)
{
    snprintf(own_pid, sizeof(own_pid), "%d", (int)getpid());
    RUN_TESTS();
    return CHECK_DONE();
}
