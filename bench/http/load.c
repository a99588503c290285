/* load.c -- 64 connections that are never idle.
 *
 * One thread, one epoll. Each connection asks, waits for the answer, and asks
 * the next question at once, which is what a proxy's pool does when it is
 * busy. Questions are ready bytes; of answers only the length is read. So the
 * load costs less than any server, and the server is what is measured.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "http/http.h"

#define ANSWER_BYTES ((size_t)256 * 1024)
#define SAMPLES      (1u << 20) /* of latencies in a slice */

struct asker {
    int fd;
    bool waits;
    double sent_at;   /* us */
    size_t got, need; /* need: 0 while the head is not there */
    char *answer;
};

struct load {
    int epoll;
    const struct sl_buf *questions;
    unsigned count, next;
    unsigned waiting;
    struct asker askers[CONNECTIONS];
    uint64_t requests;
    float *samples;
    unsigned sample_count;
};

static double now_us(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec / 1e3;
}

static void *need(void *memory)
{
    if (!memory)
        die("there is no memory");
    return memory;
}

static void open_asker(struct load *load, struct asker *asker, unsigned port)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = asker};
    int one = 1;

    asker->answer = need(malloc(ANSWER_BYTES + 1));
    asker->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (asker->fd < 0 ||
        connect(asker->fd, (struct sockaddr *)&at, sizeof(at)) ||
        setsockopt(asker->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) ||
        epoll_ctl(load->epoll, EPOLL_CTL_ADD, asker->fd, &event))
        die("port %u: %s", port, strerror(errno));
}

struct load *load_open(unsigned port, const struct sl_buf *questions,
                       unsigned count)
{
    struct load *load = need(calloc(1, sizeof(*load)));

    load->samples = need(calloc(SAMPLES, sizeof(*load->samples)));
    load->questions = questions;
    load->count = count;
    load->epoll = epoll_create1(EPOLL_CLOEXEC);
    for (unsigned i = 0; i < CONNECTIONS; i++)
        open_asker(load, &load->askers[i], port);
    return load;
}

void load_close(struct load *load)
{
    for (unsigned i = 0; i < CONNECTIONS; i++) {
        close(load->askers[i].fd);
        free(load->askers[i].answer);
    }
    close(load->epoll);
    free(load->samples);
    free(load);
}

/* A question goes out in one piece: nothing else is under way, and it is
 * smaller than any socket's buffer. */
static void put(struct load *load, struct asker *asker, double now)
{
    const struct sl_buf *question = &load->questions[load->next];

    load->next = (load->next + 1) % load->count;
    if (send(asker->fd, question->bytes, question->len, MSG_NOSIGNAL) !=
        (ssize_t)question->len)
        die("a question could not be sent: %s", strerror(errno));
    asker->got = asker->need = 0;
    asker->sent_at = now;
    if (!asker->waits)
        load->waiting++;
    asker->waits = true;
}

/* How long the answer is, as its head says. */
static size_t answer_length(const char *text, size_t head)
{
    static const char name[] = "\r\nContent-Length:";
    const char *at = strcasestr(text, name);

    if (strncmp(text, "HTTP/1.1 200 ", 13) != 0)
        die("an answer was not 200: %.*s", 200, text);
    if (!at || at > text + head)
        die("an answer has no length");
    return head + strtoul(at + strlen(name), NULL, 10);
}

/* Is the answer all there? */
static bool receive(struct asker *asker)
{
    ssize_t got = recv(asker->fd, asker->answer + asker->got,
                       ANSWER_BYTES - asker->got, 0);
    const char *end;

    if (got <= 0)
        die("a connection was closed");
    asker->got += (size_t)got;
    asker->answer[asker->got] = '\0';
    if (asker->need == 0) {
        end = memmem(asker->answer, asker->got, "\r\n\r\n", 4);
        if (end)
            asker->need =
                answer_length(asker->answer, (size_t)(end - asker->answer) + 4);
    }
    if (asker->need > ANSWER_BYTES || asker->got > ANSWER_BYTES - 1)
        die("an answer is too long");
    return asker->need > 0 && asker->got >= asker->need;
}

static void take_answer(struct load *load, struct asker *asker, double now)
{
    if (load->sample_count < SAMPLES)
        load->samples[load->sample_count++] = (float)(now - asker->sent_at);
    load->requests++;
    load->waiting--;
    asker->waits = false;
}

static void turn(struct load *load, double until)
{
    struct epoll_event events[CONNECTIONS];
    int count = epoll_wait(load->epoll, events, CONNECTIONS, 5000);
    double now = now_us();

    if (count == 0)
        die("nothing was answered for five seconds");
    for (int i = 0; i < count; i++) {
        struct asker *asker = events[i].data.ptr;

        if (!receive(asker))
            continue;
        take_answer(load, asker, now);
        if (now < until)
            put(load, asker, now);
    }
}

static int by_size(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;

    return (x > y) - (x < y);
}

struct slice load_run(struct load *load, double seconds)
{
    double began = now_us();
    struct slice slice;
    unsigned count;

    load->requests = load->sample_count = 0;
    for (unsigned i = 0; i < CONNECTIONS; i++)
        put(load, &load->askers[i], began);
    while (load->waiting > 0)
        turn(load, began + seconds * 1e6);
    count = load->sample_count;
    qsort(load->samples, count, sizeof(*load->samples), by_size);
    slice = (struct slice){
        .requests = load->requests,
        .seconds = (now_us() - began) / 1e6,
        .p50 = (double)load->samples[count / 2],
        .p99 = (double)load->samples[count - 1 - count / 100],
    };
    return slice;
}
