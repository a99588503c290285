/* main.c -- a load generator for the benches: connections that are never idle,
 * or that keep to a rate.
 *
 * One thread, one epoll. The requests are ready bytes in a file, each behind
 * its length (32 bits, little endian); they are sent in turn, over and over.
 * Prints one line of JSON. With a rate, the latency of a request counts from
 * the time at which it was due, so a server that falls behind is seen.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "load/load.h"

#define EVENTS  256
#define SAMPLES (1u << 20)
#define BYTES   ((size_t)1 << 20)

struct options options = {.conns = 64, .depth = 1, .seconds = 1};

static const struct codec *codec;
static struct sl_str *requests;
static size_t request_count, next_request;
static struct conn *conns;
static struct conn **idle; /* with a rate: connections that wait for work */
static unsigned idle_count;
static int epoll_fd;

static uint64_t sent, replies, admitted, opened;
static float *samples;
static uint64_t sample_count;

void die(const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    fprintf(stderr, "load: ");
    vfprintf(stderr, fmt, args);
    fprintf(stderr, "\n");
    va_end(args);
    exit(1);
}

static void *need(void *memory)
{
    if (!memory)
        die("there is no memory");
    return memory;
}

static double now_us(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec / 1e3;
}

/* ---- connections ---- */

static void conn_open(struct conn *c)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)options.port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
    int one = 1;

    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (c->fd < 0 || connect(c->fd, (struct sockaddr *)&at, sizeof(at)) ||
        setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) ||
        epoll_ctl(epoll_fd, EPOLL_CTL_ADD, c->fd, &event))
        die("port %u: %s", options.port, strerror(errno));
    c->requests = c->open = 0;
    c->need = c->in.len = c->out.len = 0;
    codec->open(c);
    opened++;
}

static void conn_close(struct conn *c)
{
    codec->close(c);
    close(c->fd);
}

static void conn_send(struct conn *c)
{
    size_t at = 0;

    while (at < c->out.len) {
        ssize_t n =
            send(c->fd, c->out.bytes + at, c->out.len - at, MSG_NOSIGNAL);

        if (n < 0)
            die("a request could not be sent: %s", strerror(errno));
        at += (size_t)n;
    }
    c->out.len = 0;
}

/* Send requests until `depth` are under way. */
static void conn_ask(struct conn *c, double due)
{
    if (options.per_conn && c->open == 0 && c->requests >= options.per_conn) {
        conn_close(c);
        conn_open(c);
    }
    c->sent_at = due;
    while (c->open < options.depth) {
        codec->put(c, requests[next_request]);
        next_request = (next_request + 1) % request_count;
        c->open++;
        c->requests++;
        sent++;
    }
    conn_send(c);
}

void on_reply(struct conn *c, struct sl_str reply)
{
    const char *text = options.admits;

    c->open--;
    replies++;
    if (!text || memmem(reply.at, reply.len, text, strlen(text)))
        admitted++;
}

/* ---- the run ---- */

static bool is_over(double began, double now)
{
    return now - began >= options.seconds * 1e6 ||
           (options.count && sent >= options.count);
}

static void take(struct conn *c)
{
    ssize_t n;

    if (sl_buf_reserve(&c->in, 16384))
        die("a reply is too long");
    n = recv(c->fd, c->in.bytes + c->in.len, c->in.size - c->in.len,
             MSG_DONTWAIT);
    if (n < 0 && errno == EAGAIN)
        return;
    if (n <= 0)
        die("a connection was closed");
    c->in.len += (size_t)n;
    codec->feed(c);
    conn_send(c);
}

static void sample(const struct conn *c, double now)
{
    /* Every sample once there is no room: the newest replace the oldest. */
    samples[sample_count++ % SAMPLES] = (float)(now - c->sent_at);
}

/* With a rate: give the work that is due to connections that have none. */
static void pace(double began, double now)
{
    double us = 1e6 / options.rate * options.depth;

    while (idle_count > 0) {
        double due = began + us * (double)(sent / options.depth);

        if (due > now || is_over(began, now))
            return;
        conn_ask(idle[--idle_count], due);
    }
}

static void on_event(struct conn *c, double began)
{
    unsigned before = c->open;
    double now;

    take(c);
    if (c->open == before)
        return;
    now = now_us();
    if (c->open == 0 || codec->is_rolling)
        sample(c, now);
    if (options.rate > 0) {
        if (c->open == 0)
            idle[idle_count++] = c;
    } else if ((c->open == 0 || codec->is_rolling) && !is_over(began, now)) {
        conn_ask(c, now);
    }
}

static double run(void)
{
    struct epoll_event events[EVENTS];
    double began = now_us();

    for (unsigned i = 0; i < options.conns; i++)
        if (options.rate > 0)
            idle[idle_count++] = &conns[i];
        else
            conn_ask(&conns[i], began);
    /* The clock is read after the last replies: on_event() asks no more when
     * the time is over, so nothing would be waited for. */
    while (replies < sent || !is_over(began, now_us())) {
        int n =
            epoll_wait(epoll_fd, events, EVENTS, options.rate > 0 ? 1 : 10000);
        double at = now_us();

        if (n == 0 && options.rate <= 0)
            die("nothing was answered for ten seconds");
        for (int i = 0; i < n; i++)
            on_event(events[i].data.ptr, began);
        if (options.rate > 0)
            pace(began, at);
    }
    return (now_us() - began) / 1e6;
}

/* ---- set-up and report ---- */

static void read_requests(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    const char *at, *end;
    size_t room = 0;

    if (fd < 0 || fstat(fd, &st))
        die("%s: %s", path, strerror(errno));
    at = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (at == MAP_FAILED)
        die("%s: %s", path, strerror(errno));
    end = at + st.st_size;
    while (end - at >= 4) {
        uint32_t len;

        memcpy(&len, at, 4);
        at += 4;
        if (len > (size_t)(end - at))
            die("%s: a request is cut off", path);
        if (request_count == room) {
            room = room ? room * 2 : 1024;
            requests = need(realloc(requests, room * sizeof(*requests)));
        }
        requests[request_count++] = (struct sl_str){at, len};
        at += len;
    }
    if (request_count == 0)
        die("%s: there is no request", path);
}

static int by_size(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;

    return (x > y) - (x < y);
}

static void report(double seconds)
{
    size_t n = sample_count < SAMPLES ? (size_t)sample_count : SAMPLES;

    qsort(samples, n, sizeof(*samples), by_size);
    printf("{\"requests\": %llu, \"admitted\": %llu, \"connections\": %llu, "
           "\"seconds\": %.6f, \"p50_us\": %.1f, \"p99_us\": %.1f}\n",
           (unsigned long long)replies, (unsigned long long)admitted,
           (unsigned long long)opened, seconds, n ? (double)samples[n / 2] : 0,
           n ? (double)samples[n - 1 - n / 100] : 0);
}

static void read_args(int argc, char **argv)
{
    int option;

    while ((option = getopt(argc, argv, "c:d:t:n:r:k:a:p:")) != -1)
        switch (option) {
        case 'c':
            options.conns = (unsigned)strtoul(optarg, NULL, 10);
            break;
        case 'd':
            options.depth = (unsigned)strtoul(optarg, NULL, 10);
            break;
        case 't':
            options.seconds = strtod(optarg, NULL);
            break;
        case 'n':
            options.count = strtoull(optarg, NULL, 10);
            break;
        case 'r':
            options.rate = strtod(optarg, NULL);
            break;
        case 'k':
            options.per_conn = (unsigned)strtoul(optarg, NULL, 10);
            break;
        case 'a':
            options.admits = optarg;
            break;
        case 'p':
            options.path = optarg;
            break;
        default:
            exit(2);
        }
    if (argc - optind != 3 || !options.conns || !options.depth) {
        fprintf(stderr, "usage: load [-c CONNECTIONS] [-d DEPTH] [-t SECONDS] "
                        "[-n REQUESTS] [-r PER-SECOND] [-k REQUESTS-PER-"
                        "CONNECTION] [-a ADMITTED-TEXT] [-p GRPC-METHOD] "
                        "http|resp|grpc PORT FILE\n");
        exit(2);
    }
    options.protocol = argv[optind];
    options.port = (unsigned)strtoul(argv[optind + 1], NULL, 10);
    options.file = argv[optind + 2];
}

int main(int argc, char **argv)
{
    struct rlimit files;

    read_args(argc, argv);
    codec = options.protocol[0] == 'h'   ? &codec_http
            : options.protocol[0] == 'g' ? &codec_grpc
                                         : &codec_resp;
    if (codec == &codec_grpc && !options.path)
        die("gRPC needs a method: -p");
    read_requests(options.file);
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &files);
    }
    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    samples = need(calloc(SAMPLES, sizeof(*samples)));
    conns = need(calloc(options.conns, sizeof(*conns)));
    idle = need(calloc(options.conns, sizeof(struct conn *)));
    for (unsigned i = 0; i < options.conns; i++) {
        sl_buf_init(&conns[i].in, BYTES, &sl_alloc_libc);
        sl_buf_init(&conns[i].out, BYTES, &sl_alloc_libc);
        conn_open(&conns[i]);
    }
    report(run());
    return 0;
}
