/* refuse.c -- requests that are refused, sent to a daemon over sockets.
 *
 *     daemon-refuse PORT
 *
 * Each goes out with a good request right behind it, as an attacker's would.
 * The one answer must be the refusal; then the connection is closed, and the
 * request behind is never heard. It asks for the user `smuggled`, so that
 * abuse.sh can check that it was not counted.
 */
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "check.h"
#include "rows.h"

#define BEHIND                                                                 \
    "POST /v1/check HTTP/1.1\r\nHost: localhost\r\nContent-Length: 31\r\n\r\n" \
    "{\"path\":\"/x\",\"user\":\"smuggled\"}"

static int open_to(unsigned port)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct timeval wait = {.tv_sec = 10};
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    if (fd < 0 ||
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait)) ||
        connect(fd, (struct sockaddr *)&at, sizeof(at)))
        abort();
    return fd;
}

/* All that comes until the end. False if there is none in time. */
static bool hear(int fd, char *text, size_t size)
{
    size_t len = 0;
    ssize_t got;

    while ((got = recv(fd, text + len, size - 1 - len, 0)) > 0)
        len += (size_t)got;
    text[len] = '\0';
    return got == 0;
}

/* Does one answer fill the text? */
static bool is_one(const char *text)
{
    const char *body = strstr(text, "\r\n\r\n");
    const char *length = strcasestr(text, "\r\nContent-Length: ");

    return body && length && length < body &&
           strlen(body + 4) == strtoul(length + 18, NULL, 10);
}

static void refuse(unsigned port, const struct refused *row)
{
    char text[65536], status[32];
    int fd = open_to(port);

    CASE(row->what);
    CHECK_EQ(send(fd, row->text.at, row->text.len, MSG_NOSIGNAL),
             (ssize_t)row->text.len);
    (void)!send(fd, BEHIND, strlen(BEHIND), MSG_NOSIGNAL);
    CHECK(hear(fd, text, sizeof(text)));
    snprintf(status, sizeof(status), "HTTP/1.1 %d ", row->status);
    if (strncmp(text, status, strlen(status)) != 0)
        printf("# want %s, got %.60s\n", status, text);
    CHECK(strncmp(text, status, strlen(status)) == 0);
    CHECK(is_one(text));
    CHECK(strcasestr(text, "\r\nConnection: close\r\n") != NULL);
    close(fd);
}

int main(int argc, char **argv)
{
    unsigned port = argc == 2 ? (unsigned)strtoul(argv[1], NULL, 10) : 0;

    (void)accepted_rows;
    for (size_t i = 0; i < SL_LEN(refused_rows); i++)
        refuse(port, &refused_rows[i]);
    return CHECK_DONE();
}
