/* sockets.c -- who gets an address, and who does not. */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "turns.h"

static char folder[64];

/* "unix:FOLDER/name". */
static struct sl_address at_path(const char *name)
{
    struct sl_address a = {.len = 0};
    char text[120];

    snprintf(text, sizeof(text), "unix:%s/%s", folder, name);
    CHECK_EQ(sl_address_parse(sl_str_c(text), &a, NULL), 0);
    return a;
}

static const char *path_of(const struct sl_address *a)
{
    return a->text + 5;
}

static struct sl_address at(const char *text)
{
    struct sl_address a = {.len = 0};

    CHECK_EQ(sl_address_parse(sl_str_c(text), &a, NULL), 0);
    return a;
}

/* A foreign program's socket on the same port: with these flags it either
 * binds and listens, or does not. */
static int foreign(const struct sl_sockets *s, bool addr, bool port)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0), yes = 1;

    if (addr)
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    if (port)
        setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &yes, sizeof(yes));
    if (bind(fd, (const void *)&s->address.bytes, s->address.len) == 0 &&
        listen(fd, 5) == 0)
        return fd;
    close(fd);
    return -1;
}

TEST(port)
{
    struct sl_address zero = at("127.0.0.1:0"), same;
    struct sl_sockets s, second = {.count = 99};
    struct sl_diag diag = {0};
    char text[64], want[128];

    CASE("port 0 is one that the kernel chooses, for all loops the same");
    CHECK_EQ(sl_sockets_open(&zero, 4, &s, &diag), 0);
    CHECK_EQ(s.count, 4);
    CHECK(sl_address_port(&s.address) > 0);
    CHECK(!s.activated);
    for (unsigned i = 0; i < 4; i++) {
        struct sockaddr_in sin;
        socklen_t len = sizeof(sin);

        CHECK_EQ(getsockname(s.fds[i], (void *)&sin, &len), 0);
        CHECK_EQ(ntohs(sin.sin_port), sl_address_port(&s.address));
        CHECK(fcntl(s.fds[i], F_GETFL) & O_NONBLOCK);
        CHECK(fcntl(s.fds[i], F_GETFD) & FD_CLOEXEC);
    }

    CASE("a second daemon of the same user is refused");
    sl_address_print(&s.address, text, sizeof(text));
    same = at(text);
    CHECK_EQ(sl_sockets_open(&same, 4, &second, &diag), SLUICE_ESYS);
    snprintf(want, sizeof(want), "%s is in use by another program", text);
    CHECK(strncmp(diag.sentence, want, strlen(want)) == 0);
    CHECK(diag.hint[0]);
    CHECK_EQ(second.count, 99);

    CASE("also on all addresses, and with a single loop");
    snprintf(text, sizeof(text), "*:%u", sl_address_port(&s.address));
    same = at(text);
    CHECK_EQ(sl_sockets_open(&same, 1, &second, &diag), SLUICE_ESYS);
    CHECK_EQ(second.count, 99);

    CASE("once it is closed the port is free again");
    sl_sockets_close(&s);
    CHECK_EQ(s.count, 0);
    sl_address_print(&s.address, text, sizeof(text));
    same = at(text);
    CHECK_EQ(sl_sockets_open(&same, 2, &s, &diag), 0);
    sl_sockets_close(&s);

    CASE("between 1 and 64 loops");
    CHECK_EQ(sl_sockets_open(&zero, 0, &second, &diag), SLUICE_EINVAL);
    CHECK_EQ(sl_sockets_open(&zero, 65, &second, &diag), SLUICE_EINVAL);
    CHECK_STR(diag.sentence,
              "a listener is shared by 1 to 64 worker threads, not 65");
    CHECK_EQ(sl_sockets_open(&zero, 64, &s, &diag), 0);
    sl_sockets_close(&s);

    CASE("an address that this machine does not have");
    same = at("192.0.2.1:0");
    CHECK_EQ(sl_sockets_open(&same, 1, &second, &diag), SLUICE_ESYS);
    CHECK_STR(
        diag.sentence,
        "cannot listen on 192.0.2.1:0: this machine does not have the address");
}

TEST(foreign)
{
    struct sl_address zero = at("127.0.0.1:0"), same;
    struct sl_sockets s, ours;
    char text[64];

    CHECK_EQ(sl_sockets_open(&zero, 1, &s, NULL), 0);
    sl_address_print(&s.address, text, sizeof(text));
    same = at(text);
    sl_sockets_close(&s);
    for (unsigned flags = 0; flags < 4; flags++) {
        int fd = foreign(&s, flags & 1, flags & 2);

        CASE("a port that another program listens on, whatever its flags");
        CHECK(fd >= 0);
        CHECK_EQ(sl_sockets_open(&same, 3, &ours, NULL), SLUICE_ESYS);
        close(fd);
    }

    CASE("and once we listen, others need SO_REUSEPORT to join");
    CHECK_EQ(sl_sockets_open(&same, 3, &ours, NULL), 0);
    CHECK_EQ(foreign(&ours, false, false), -1);
    CHECK_EQ(foreign(&ours, true, false), -1);
    sl_sockets_close(&ours);
}

/* A connection that ended from our side leaves the port in TIME_WAIT. */
TEST(restart)
{
    struct sl_address zero = at("127.0.0.1:0"), same;
    struct sl_sockets s;
    char text[64];
    int client, server;

    CASE("a port with connections that have just ended can be had again");
    CHECK_EQ(sl_sockets_open(&zero, 2, &s, NULL), 0);
    client = socket(AF_INET, SOCK_STREAM, 0);
    CHECK_EQ(connect(client, (void *)&s.address.bytes, s.address.len), 0);
    server = accept(s.fds[0], NULL, NULL);
    if (server < 0)
        server = accept(s.fds[1], NULL, NULL);
    CHECK(server >= 0);
    close(server);
    CHECK_STR(hear(client), "-");
    close(client);
    sl_address_print(&s.address, text, sizeof(text));
    same = at(text);
    sl_sockets_close(&s);
    CHECK_EQ(sl_sockets_open(&same, 2, &s, NULL), 0);
    sl_sockets_close(&s);
}

TEST(spread)
{
    struct sl_address zero = at("127.0.0.1:0");
    struct sl_sockets s;
    int clients[256];
    unsigned got[4] = {0}, all = 0;

    CASE("the kernel spreads connections over the loops, the first included");
    CHECK_EQ(sl_sockets_open(&zero, 4, &s, NULL), 0);
    for (unsigned i = 0; i < SL_LEN(clients); i++) {
        clients[i] = socket(AF_INET, SOCK_STREAM, 0);
        CHECK_EQ(connect(clients[i], (void *)&s.address.bytes, s.address.len),
                 0);
    }
    for (unsigned i = 0; i < 4; i++) {
        for (int fd; (fd = accept(s.fds[i], NULL, NULL)) >= 0; close(fd))
            got[i]++;
        CHECK(got[i] > 20);
        all += got[i];
    }
    CHECK_EQ(all, SL_LEN(clients));
    for (unsigned i = 0; i < SL_LEN(clients); i++)
        close(clients[i]);
    sl_sockets_close(&s);
}

static bool takes(const struct sl_sockets *s, const char *host)
{
    char text[64];
    struct sl_address a;
    bool taken;
    int fd;

    snprintf(text, sizeof(text), "%s:%u", host, sl_address_port(&s->address));
    a = at(text);
    fd = socket(a.bytes.ss_family, SOCK_STREAM, 0);
    taken = connect(fd, (void *)&a.bytes, a.len) == 0;
    close(fd);
    return taken;
}

TEST(all)
{
    struct sl_address star = at("*:0"), six = at("[::]:0");
    struct sl_sockets s;
    char text[64];

    CASE("* is all of IPv4 and IPv6");
    CHECK_EQ(sl_sockets_open(&star, 2, &s, NULL), 0);
    sl_address_print(&s.address, text, sizeof(text));
    CHECK_EQ(text[0], '*');
    CHECK(takes(&s, "127.0.0.1"));
    CHECK(s.address.bytes.ss_family == AF_INET || takes(&s, "[::1]"));
    sl_sockets_close(&s);

    CASE("[::] is IPv6 alone");
    if (sl_sockets_open(&six, 2, &s, NULL) == 0) { /* a kernel with IPv6 */
        CHECK(!takes(&s, "127.0.0.1"));
        CHECK(takes(&s, "[::1]"));
        sl_sockets_close(&s);
    }
}

static int foreign_unix(const struct sl_address *a, bool listens)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);

    CHECK_EQ(bind(fd, (const void *)&a->bytes, a->len), 0);
    if (listens)
        CHECK_EQ(listen(fd, 0), 0);
    return fd;
}

TEST(unix)
{
    struct sl_address a = at_path("life");
    struct sl_sockets s, second;
    struct sl_diag diag = {0};
    struct stat st;
    char lock[128];
    int fd;

    CASE("a unix socket has mode 0660 whatever the umask, and is shared");
    umask(0077);
    CHECK_EQ(sl_sockets_open(&a, 3, &s, &diag), 0);
    CHECK_EQ(s.count, 3);
    CHECK_EQ(lstat(path_of(&a), &st), 0);
    CHECK(S_ISSOCK(st.st_mode));
    CHECK_EQ(st.st_mode & 0777, 0660);
    fd = dial(&s);
    CHECK(fd >= 0);
    close(fd);
    for (unsigned i = 0; i < 3; i++)
        CHECK(fcntl(s.fds[i], F_GETFD) & FD_CLOEXEC);
    umask(0022);

    CASE("no lock is left behind");
    snprintf(lock, sizeof(lock), "%s.lock", path_of(&a));
    CHECK_EQ(lstat(lock, &st), -1);

    CASE("a program listens: refused, and left alone");
    CHECK_EQ(sl_sockets_open(&a, 1, &second, &diag), SLUICE_ESYS);
    CHECK(strstr(diag.sentence, "is in use by another program"));
    fd = dial(&s);
    CHECK(fd >= 0);
    close(fd);

    CASE("closing removes it");
    sl_sockets_close(&s);
    CHECK_EQ(lstat(path_of(&a), &st), -1);

    CASE("a dead socket is replaced");
    close(foreign_unix(&a, true));
    CHECK_EQ(lstat(path_of(&a), &st), 0);
    CHECK_EQ(sl_sockets_open(&a, 1, &s, &diag), 0);
    fd = dial(&s);
    CHECK(fd >= 0);
    close(fd);
    sl_sockets_close(&s);
}

TEST(unix_held)
{
    struct sl_address a = at_path("held");
    struct sl_sockets s;
    struct sl_diag diag = {0};
    struct stat st;
    char lock_path[128];
    int fd, clients[8], lock;

    CASE("a program whose queue is full is alive");
    fd = foreign_unix(&a, true);
    for (unsigned i = 0; i < SL_LEN(clients); i++) {
        clients[i] = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
        if (connect(clients[i], (const void *)&a.bytes, a.len))
            CHECK_EQ(errno, EAGAIN);
    }
    CHECK_EQ(sl_sockets_open(&a, 1, &s, &diag), SLUICE_ESYS);
    CHECK_EQ(lstat(path_of(&a), &st), 0);
    for (unsigned i = 0; i < SL_LEN(clients); i++)
        close(clients[i]);
    close(fd);

    CASE("a successor's socket is not removed");
    CHECK_EQ(sl_sockets_open(&a, 1, &s, &diag), 0);
    CHECK_EQ(unlink(path_of(&a)), 0);
    fd = foreign_unix(&a, true);
    sl_sockets_close(&s);
    CHECK_EQ(lstat(path_of(&a), &st), 0);
    close(fd);

    CASE("one daemon at a time opens a socket");
    snprintf(lock_path, sizeof(lock_path), "%s.lock", path_of(&a));
    lock = open(lock_path, O_RDWR | O_CREAT, 0600);
    CHECK_EQ(flock(lock, LOCK_EX), 0);
    CHECK_EQ(sl_sockets_open(&a, 1, &s, &diag), SLUICE_ESYS);
    CHECK(strstr(diag.sentence, "is in use"));
    close(lock);

    CASE("a lock that a dead daemon left does no harm");
    CHECK_EQ(lstat(lock_path, &st), 0);
    CHECK_EQ(sl_sockets_open(&a, 1, &s, &diag), 0);
    CHECK_EQ(lstat(lock_path, &st), -1);
    sl_sockets_close(&s);
}

TEST(unix_bad)
{
    struct sl_address a = at_path("file"), none = at_path("none/x");
    struct sl_sockets s;
    struct sl_diag diag = {0};
    struct stat st;

    CASE("a file that is no socket is never removed");
    close(open(path_of(&a), O_CREAT | O_WRONLY, 0600));
    CHECK_EQ(sl_sockets_open(&a, 1, &s, &diag), SLUICE_ESYS);
    CHECK(strstr(diag.sentence, "is not a socket; remove it"));
    CHECK_EQ(lstat(path_of(&a), &st), 0);

    CASE("a folder that is not there");
    CHECK_EQ(sl_sockets_open(&none, 1, &s, &diag), SLUICE_ESYS);
    CHECK(strstr(diag.sentence, "No such file or directory"));
}

/* Children that all want the same address at the same moment; how many got
 * it. */
static unsigned race(const struct sl_address *a, unsigned count)
{
    int start[2], done[2], status;
    unsigned won = 0;
    char byte;

    if (pipe(start) || pipe(done))
        exit(1);
    fflush(stdout); /* or the children say it again */
    for (unsigned i = 0; i < count; i++) {
        if (fork() == 0) {
            struct sl_sockets s;
            int err;

            close(start[1]);
            close(done[1]);
            if (read(start[0], &byte, 1) < 0)
                _exit(2);
            err = sl_sockets_open(a, 3, &s, NULL);
            /* The winner keeps it until all the others have tried. */
            if (!err)
                alarm(2);
            if (!err && read(done[0], &byte, 1) < 0)
                _exit(2);
            _exit(err ? 1 : 0);
        }
    }
    close(start[0]);
    close(done[0]);
    close(start[1]); /* go */
    /* The losers end by themselves; when only winners can be left, end it. */
    for (unsigned i = 0; i + 1 < count; i++)
        if (wait(&status) > 0 && WIFEXITED(status))
            won += WEXITSTATUS(status) == 0;
        else
            won++; /* its alarm rang: more than one waits */
    close(done[1]);
    if (wait(&status) > 0)
        won += !WIFEXITED(status) || WEXITSTATUS(status) == 0;
    return won;
}

TEST(races)
{
    struct sl_address zero = at("127.0.0.1:0"), a;
    struct sl_sockets s;
    char text[64];
    unsigned most = 0, all = 0;

    CASE("of many daemons that start at once, never do two get a port");
    for (unsigned i = 0; i < 20; i++) {
        unsigned won;

        CHECK_EQ(sl_sockets_open(&zero, 1, &s, NULL), 0);
        sl_address_print(&s.address, text, sizeof(text));
        a = at(text);
        sl_sockets_close(&s);
        won = race(&a, 6);
        most = won > most ? won : most;
        all += won;
    }
    CHECK_EQ(most, 1);
    CHECK(all > 0);

    CASE("nor a unix socket on which a dead one sits");
    most = all = 0;
    a = at_path("race");
    for (unsigned i = 0; i < 20; i++) {
        unsigned won;

        unlink(path_of(&a));
        close(foreign_unix(&a, true));
        won = race(&a, 6);
        most = won > most ? won : most;
        all += won;
    }
    CHECK_EQ(most, 1);
    CHECK(all > 0);
}

TEST(adopt)
{
    struct sl_address zero = at("127.0.0.1:0"), a = at_path("adopted");
    struct sl_sockets s, adopted;
    struct sl_diag diag = {0};
    struct stat st;
    int fds[2], fd, on = 0;
    socklen_t len = sizeof(on);

    CASE("a socket that systemd hands in is shared by all loops");
    CHECK_EQ(sl_sockets_open(&zero, 1, &s, &diag), 0);
    fcntl(s.fds[0], F_SETFL, 0);
    CHECK_EQ(sl_sockets_adopt(s.fds[0], 3, &adopted, &diag), 0);
    CHECK_EQ(adopted.count, 3);
    CHECK(adopted.activated);
    CHECK_EQ(adopted.fds[0], s.fds[0]);
    CHECK_EQ(sl_address_port(&adopted.address), sl_address_port(&s.address));
    CHECK(fcntl(adopted.fds[2], F_GETFL) & O_NONBLOCK);
    CHECK(fcntl(adopted.fds[0], F_GETFD) & FD_CLOEXEC);
    CHECK_EQ(getsockopt(adopted.fds[0], IPPROTO_TCP, TCP_NODELAY, &on, &len),
             0);
    CHECK(on);
    sl_sockets_close(&adopted);

    CASE("its unix socket is systemd's to remove");
    fd = foreign_unix(&a, true);
    CHECK_EQ(sl_sockets_adopt(fd, 2, &adopted, &diag), 0);
    CHECK(sl_address_is_unix(&adopted.address));
    CHECK_STR(adopted.address.text, a.text);
    sl_sockets_close(&adopted);
    CHECK_EQ(lstat(path_of(&a), &st), 0);

    CASE("what does not listen is refused and stays the caller's");
    pair(fds);
    CHECK_EQ(sl_sockets_adopt(fds[0], 1, &adopted, &diag), SLUICE_ESYS);
    CHECK(strstr(diag.sentence, "is not a listening stream socket"));
    CHECK_EQ(close(fds[0]), 0);
    CHECK_EQ(sl_sockets_adopt(fds[0], 1, &adopted, &diag), SLUICE_ESYS);
    CHECK_EQ(sl_sockets_adopt(fds[1], 65, &adopted, &diag), SLUICE_EINVAL);
    close(fds[1]);
}

int main(void)
{
    char command[128];

    snprintf(folder, sizeof(folder), "/tmp/sluice-net-XXXXXX");
    if (!mkdtemp(folder)) {
        printf("Bail out! mkdtemp: %s\n", strerror(errno));
        return 1;
    }
    RUN_TESTS();
    snprintf(command, sizeof(command), "rm -r %s", folder);
    CHECK_EQ(system(command), 0); /* style: a folder that we made */
    return CHECK_DONE();
}
