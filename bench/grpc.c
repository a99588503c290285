/* grpc.c -- the rows of gRPC: what ShouldRateLimit costs a server.
 *
 * h2load asks sluiced and, in turns, an nginx that says 200 to everything over
 * HTTP/2 in the clear: 8 connections with 32 streams each, and with one; both
 * are asked the same. What counts is the processor time of the server per
 * request; each row is the median of the ratios of neighbouring turns. The
 * question is a request as Envoy sends it, one descriptor with two entries: it
 * is decoded, decided and answered with numbers and headers.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "http/http.h"
#include "wire/rls.h"

#define ROUNDS 7

static const char policy[] =
    "sluice: 1\n"
    "limits:\n"
    "  per-user: { kind: token-bucket, per: user, rate: 1000k/s }\n"
    "routes: [{ job: edge, limits: [per-user] }]\n"
    "default: []\n";

#define RLS "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"

static const struct {
    const char *name, *streams;
    unsigned requests; /* in a turn */
    double budget;
} rows[] = {
    {"8x32", "32", 60000, 0.35},
    {"8x1",  "1",  20000, 0.85},
};

struct turn {
    double cost; /* us of processor time per request */
    double rate; /* requests per second */
};

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double values[ROUNDS])
{
    qsort(values, ROUNDS, sizeof(values[0]), by_value);
    return values[ROUNDS / 2];
}

/* The question in a file, with the five bytes in front of it. */
static void write_question(char path[128])
{
    static const struct sl_rls_entry entries[] = {
        {SL_STR("user"), SL_STR("user-4711")},
        {SL_STR("path"), SL_STR("")         },
    };
    static struct sl_rls_request request;
    char bytes[256] = {0};
    struct sl_pb_out out = {.bytes = bytes + 5, .size = sizeof(bytes) - 5};

    request.domain = SL_STR("edge");
    request.count = 1;
    request.descriptors[0] = (struct sl_rls_descriptor){
        .entries = entries, .entry_count = SL_LEN(entries)};
    sl_rls_request_write(&request, &out);
    bytes[4] = (char)out.len;
    write_file(path, "question", (struct sl_str){bytes, 5 + out.len});
}

/* What h2load says: all must have been answered by 200. */
static double read_rate(FILE *from, unsigned requests)
{
    char line[512];
    double rate = 0;
    unsigned good = 0;

    while (fgets(line, sizeof(line), from)) {
        const char *at = strstr(line, "s, ");

        if (strncmp(line, "finished in", 11) == 0 && at)
            rate = strtod(at + 3, NULL);
        if (strncmp(line, "status codes:", 13) == 0)
            good = (unsigned)strtoul(line + 13, NULL, 10);
    }
    if (good != requests)
        die("%u of %u requests were answered by 200", good, requests);
    return rate;
}

static struct turn run(const struct server *s, unsigned row, const char *path)
{
    char command[1024];
    unsigned port = s->grpc_port ? s->grpc_port : s->port;
    uint64_t before = server_cpu(s);
    struct turn turn;
    FILE *from;

    snprintf(command, sizeof(command),
             "h2load -n %u -c 8 -m %s -d %s -H 'te: trailers' "
             "-H 'content-type: application/grpc' http://127.0.0.1:%u%s 2>&1",
             rows[row].requests, rows[row].streams, path, port, RLS);
    from = popen(command, "r");
    if (!from)
        die("h2load can't be started");
    turn.rate = read_rate(from, rows[row].requests);
    if (pclose(from) != 0)
        die("h2load has failed");
    turn.cost = (double)(server_cpu(s) - before) / 1000.0 / rows[row].requests;
    return turn;
}

static void measure(const struct server *ours, const struct server *theirs,
                    unsigned row, const char *path)
{
    double ratios[ROUNDS], costs[ROUNDS], others[ROUNDS], rates[ROUNDS];
    double ratio;

    for (unsigned i = 0; i < ROUNDS; i++) {
        struct turn a = run(ours, row, path), b = run(theirs, row, path);

        fprintf(stderr, "bench: grpc %s, turn %u of %d\n", rows[row].name,
                i + 1, ROUNDS);
        ratios[i] = a.cost / b.cost;
        costs[i] = a.cost;
        others[i] = b.cost;
        rates[i] = a.rate;
    }
    ratio = median(ratios);
    printf("%s\t%.3f\t%.2f\t%s\tShouldRateLimit against nginx h2c return 200; "
           "%.2f us of CPU each, nginx %.2f; %.0f per second\n",
           rows[row].name, ratio, rows[row].budget,
           ratio <= rows[row].budget ? "ok" : "short", median(costs),
           median(others), median(rates));
}

int main(void)
{
    static struct server sluiced, nginx;
    char path[128];

    if (access("/usr/bin/h2load", X_OK))
        die("there is no h2load: scripts/setup bench installs it");
    if (!start_nginx(&nginx, "http2"))
        die("there is no nginx to compare with: scripts/setup bench installs "
            "it");
    start_sluiced(&sluiced, policy);
    write_question(path);
    if (!stay_aside())
        fprintf(stderr, "bench: there is one processor; load and server share "
                        "it\n");
    for (unsigned row = 0; row < SL_LEN(rows); row++)
        measure(&sluiced, &nginx, row, path);
    return 0;
}
