/* redis.c -- the rows of a store in Redis: how much of it is left when a daemon
 * stands before it.
 *
 * Decisions a second of sluiced, asked over HTTP by 64 connections, and takes a
 * second by redis-benchmark, which sends the very same command at pipeline 16
 * to the same Redis; in turns, and each row is the median of the ratios of
 * neighbouring turns. Redis has a processor for itself, where there are two;
 * daemon and load share the other.
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "http/http.h"
#include "policy/policy.h"
#include "store/redis/script.h"
#include "wire/resp.h"

#define ROUNDS  9
#define SECONDS 0.5
#define USERS   1024
#define TAKES   12000 /* of redis-benchmark, in a turn */
#define WORDS   64

static const char policy[] =
    "sluice: 1\n"
    "limits:\n"
    "  second: { kind: token-bucket, per: user, rate: 1000k/s }\n"
    "default: [second]\n"
    "server: { deadline: 2s }\n"; /* nobody shall be let pass unasked */

static double redis_cost[ROUNDS], our_rate[ROUNDS], their_rate[ROUNDS];

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(const double *values)
{
    double sorted[ROUNDS];

    memcpy(sorted, values, sizeof(sorted));
    qsort(sorted, ROUNDS, sizeof(sorted[0]), by_value);
    return sorted[ROUNDS / 2];
}

/* ---- the same command, by redis-benchmark ---- */

/* What the store sends for a take of that limit; redis-benchmark puts another
 * number into the key each time. */
static void write_command(struct sl_buf *out)
{
    static const char key[] = "sluice:default:second:user:user-__rand_int__";
    struct sl_stored stored = {.name = "second"};
    struct sl_rate rate;
    struct sl_limit limit;
    struct sl_take_part part = {.of = &stored,
                                .limit = &limit,
                                .key = sl_str_c(key),
                                .name = sl_str_c(key),
                                .cost = 1};
    struct sl_take take = {
        .errand = SL_ERRAND_TAKE, .parts = &part, .count = 1};
    struct sl_script_how how = {.near = 1000 * SL_S};

    if (sl_parse_rate(SL_STR("1000k/s"), &rate, NULL) ||
        sl_limit_init(&limit, SL_BUCKET, &rate, NULL, NULL) ||
        sl_script_write(&take, &how, out))
        die("the command can't be written");
}

/* Its words as those of a command line. */
static void write_words(struct sl_buf *out)
{
    struct sl_buf bytes;
    struct sl_str rest;
    struct sl_resp_value all;
    int err = 0;

    sl_buf_init(&bytes, 1 << 16, &sl_alloc_libc);
    write_command(&bytes);
    rest = sl_buf_str(&bytes);
    all = sl_resp_next(&rest);
    for (int64_t i = 0; i < (int64_t)all.count && !err; i++) {
        struct sl_str word = sl_resp_next(&rest).text;

        err = sl_buf_addf(out, " '%.*s'", SL_STR_ARG(word));
    }
    sl_buf_done(&bytes);
    if (err || sl_buf_add(out, (struct sl_str){"", 1}))
        die("there is no memory");
}

static double benchmark(const struct server *redis, const char *words)
{
    char command[2048], line[1024];
    double rate = 0;
    FILE *out;

    snprintf(command, sizeof(command),
             "redis-benchmark -p %u -c 64 -P 16 -n %d -r %d --csv%s",
             redis->port, TAKES, USERS, words);
    out = popen(command, "r");
    if (!out)
        die("redis-benchmark can't be started");
    while (fgets(line, sizeof(line), out)) {
        const char *last = strstr(line, "\",\"");

        if (strncmp(line, "\"EVALSHA", 8) == 0 && last)
            rate = strtod(last + 3, NULL);
    }
    if (pclose(out) || rate <= 0)
        die("redis-benchmark could not measure");
    return rate;
}

/* ---- ours ---- */

static void write_questions(struct sl_buf *questions)
{
    char body[128];

    for (unsigned i = 0; i < USERS; i++) {
        int len = snprintf(body, sizeof(body),
                           "{\"path\":\"/x\",\"user\":\"user-%u\"}", i);

        sl_buf_init(&questions[i], 4096, &sl_alloc_libc);
        if (sl_buf_addf(&questions[i],
                        "POST /v1/check HTTP/1.1\r\nHost: sluice\r\n"
                        "Content-Length: %d\r\n\r\n%s",
                        len, body))
            die("there is no memory");
    }
}

/* Off Redis's processor: to ours. */
static void move_aside(const struct server *s)
{
    cpu_set_t own;

    if (sched_getaffinity(0, sizeof(own), &own) == 0)
        sched_setaffinity(s->pid, sizeof(own), &own);
}

/* Dies if somebody was let pass without the store. */
static void check_honest(const struct server *s)
{
    static const char name[] = "sluice_fail_mode_decisions_total"
                               "{mode=\"allow\"} ";
    struct sl_buf page;
    const char *at;

    sl_buf_init(&page, 1 << 20, &sl_alloc_libc);
    ask(s->admin_port, "GET", "/metrics", SL_STR(""), &page);
    if (sl_buf_add(&page, (struct sl_str){"", 1}))
        die("there is no memory");
    at = strstr(page.bytes, name);
    if (!at || at[strlen(name)] != '0')
        die("some were decided without Redis");
    sl_buf_done(&page);
}

static void wait_until_ready(const struct server *s)
{
    struct sl_buf page;
    bool ready = false;

    for (int i = 0; i < 500 && !ready; i++) {
        sl_buf_init(&page, 4096, &sl_alloc_libc);
        ask(s->admin_port, "GET", "/readyz", SL_STR(""), &page);
        ready = page.len > 0 && !memmem(page.bytes, page.len, "degraded", 8);
        sl_buf_done(&page);
    }
    if (!ready)
        die("sluiced does not find its Redis");
}

static void measure(struct load *load, const struct server *redis,
                    const char *words)
{
    load_run(load, SECONDS); /* and Redis has the script then */
    for (unsigned i = 0; i < ROUNDS; i++) {
        uint64_t before = server_cpu(redis);
        struct slice slice;

        fprintf(stderr, "bench: redis, turn %u of %d\n", i + 1, ROUNDS);
        slice = load_run(load, SECONDS);
        redis_cost[i] =
            (double)(server_cpu(redis) - before) / (double)slice.requests;
        our_rate[i] = (double)slice.requests / slice.seconds;
        their_rate[i] = benchmark(redis, words);
    }
}

int main(void)
{
    static struct sl_buf questions[USERS];
    struct server redis, sluiced;
    double ratios[ROUNDS];
    struct sl_buf words;
    char store[64];
    bool two = stay_aside();

    if (!start_redis(&redis))
        die("there is no redis-server");
    snprintf(store, sizeof(store), "redis://127.0.0.1:%u", redis.port);
    start_sluiced_store(&sluiced, policy, store);
    move_aside(&sluiced);
    wait_until_ready(&sluiced);
    write_questions(questions);
    sl_buf_init(&words, 4096, &sl_alloc_libc);
    write_words(&words);
    measure(load_open(sluiced.port, questions, USERS), &redis, words.bytes);
    check_honest(&sluiced);
    for (unsigned i = 0; i < ROUNDS; i++)
        ratios[i] = our_rate[i] / their_rate[i];
    printf("redis-decisions\t%.2f\t>= 0.90\t%s\tdecisions by HTTP, 64 "
           "connections, against EVALSHA of the same take, pipeline 16; %.0f/s "
           "against %.0f/s; %.1f us of Redis each%s\n",
           median(ratios), median(ratios) >= 0.9 ? "ok" : "short",
           median(our_rate), median(their_rate), median(redis_cost) / 1e3,
           two ? "" : "; one processor for all");
    return 0;
}
