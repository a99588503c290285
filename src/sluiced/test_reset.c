/* test_reset.c -- empties a store for the next flow; test builds only.
 *
 * It blocks on the server, which the released program never does: a daemon with
 * a virtual clock serves one test, which waits for it.
 */
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "sluiced/daemon.h"

/* Connects to a host, or to a socket at its name. Returns -1 on failure. */
static int call(const struct sl_redis_host *host)
{
    struct sockaddr_un path = {.sun_family = AF_UNIX};
    struct addrinfo local = {.ai_family = AF_UNIX,
                             .ai_addr = (struct sockaddr *)&path,
                             .ai_addrlen = sizeof(path)};
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list = NULL;
    const struct addrinfo *to = &local;
    char port[16];
    int fd;

    snprintf(path.sun_path, sizeof(path.sun_path), "%s", host->name);
    snprintf(port, sizeof(port), "%u", host->port);
    if (host->port > 0) {
        if (getaddrinfo(host->name, port, &hints, &list))
            return -1;
        to = list;
    }
    fd = socket(to->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, to->ai_addr, to->ai_addrlen)) {
        close(fd);
        fd = -1;
    }
    if (list)
        freeaddrinfo(list);
    return fd;
}

int sl_test_reset(const struct sl_redis_url *where)
{
    int fd = call(&where->hosts[0]);
    char words[64], reply[64] = "";
    size_t got = 0;
    ssize_t n = 1;
    int len = snprintf(words, sizeof(words), "SELECT %u\r\nFLUSHDB\r\n",
                       where->database);

    if (fd < 0)
        return SLUICE_ESTORE;
    if (write(fd, words, (size_t)len) != len)
        n = 0;
    while (n > 0 && got < strlen("+OK\r\n+OK\r\n")) {
        n = read(fd, reply + got, sizeof(reply) - 1 - got);
        got += n > 0 ? (size_t)n : 0;
    }
    close(fd);
    return strcmp(reply, "+OK\r\n+OK\r\n") == 0 ? 0 : SLUICE_ESTORE;
}

int sl_test_reset_dynamo(const struct sl_dynamo_url *where)
{
    static const char words[] = "POST /_shim HTTP/1.0\r\n"
                                "Content-Length: 14\r\n\r\n"
                                "{\"flush\":true}";
    char name[128], reply[64] = "";
    char *colon;
    struct sl_redis_host host = {.name = name};
    ssize_t n = 0;
    int fd;

    snprintf(name, sizeof(name), "%.*s", SL_STR_ARG(where->host));
    colon = strrchr(name, ':');
    if (!colon)
        return SLUICE_EINVAL;
    *colon = '\0';
    for (const char *at = colon + 1; *at >= '0' && *at <= '9'; at++)
        host.port = host.port * 10 + (unsigned)(*at - '0');
    fd = call(&host);
    if (fd < 0)
        return SLUICE_ESTORE;
    if (write(fd, words, strlen(words)) == (ssize_t)strlen(words))
        n = read(fd, reply, sizeof(reply) - 1);
    close(fd);
    return n > 0 && strstr(reply, " 200 ") ? 0 : SLUICE_ESTORE;
}
