/* redis.c -- the rows of a store in Redis: how much of it is left when a daemon
 * stands before it.
 *
 * Decisions a second of sluiced, asked over HTTP by 64 connections, and takes a
 * second by redis-benchmark, which sends the very same command at pipeline 16
 * to the same Redis; in turns, and each row is the median of the ratios of
 * neighbouring turns. Redis has a processor for itself, where there are two;
 * daemon and load share the other.
 *
 * Both have as much on its way: redis-benchmark by pipelines of 16, ours by
 * arrays of 16 checks. One that asks for one thing at a time measures HTTP, and
 * nothing else. The second row is the same with a lease, by arrays of 32.
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "http/http.h"
#include "policy/policy.h"
#include "store/redis/redis_int.h"
#include "wire/resp.h"

#define ROUNDS  9
#define SECONDS 0.5
#define USERS   1024
#define HOT     64    /* users, with a lease: those that it is made for */
#define TAKES   12000 /* of redis-benchmark, in a turn */
#define ARRAY   32    /* checks in one request, with a lease */

/* What each of 64 clients has on its way, theirs and ours. */
#define PIPELINE 16

#define POLICY(more)                                                           \
    "sluice: 1\n"                                                              \
    "limits:\n"                                                                \
    "  second: { kind: token-bucket, per: user, rate: 1000k/s" more " }\n"     \
    "default: [second]\n"                                                      \
    "server: { deadline: 2s }\n" /* no request may pass without the store */

/* One row. */
struct row {
    const char *name, *what, *policy;
    unsigned array; /* checks in a request */
    unsigned users;
    double budget;
    double our_rate[ROUNDS], their_rate[ROUNDS];
    /* Processor time for one: of Redis, ours and theirs, and of sluiced. */
    double redis_cost[ROUNDS], their_cost[ROUNDS], own_cost[ROUNDS];
};

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
    struct sl_limit_binding stored = {.name = "second"};
    struct sl_rate rate;
    struct sl_limit limit;
    struct sl_part part = {.binding = &stored,
                           .limit = &limit,
                           .key = sl_str_c(key),
                           .name = sl_str_c(key),
                           .cost = 1};
    struct sl_take take = {.op = SL_TAKE_OP_TAKE, .parts = &part, .count = 1};
    struct sl_script_options how = {.near = 1000 * SL_S};

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

static double benchmark(const struct server *redis, unsigned users,
                        const char *words)
{
    char command[2048], line[1024];
    double rate = 0;
    FILE *out;

    snprintf(command, sizeof(command),
             "redis-benchmark -p %u -c 64 -P %d -n %d -r %u --csv%s",
             redis->port, PIPELINE, TAKES, users, words);
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

static void write_check(struct sl_buf *body, const struct row *row,
                        unsigned user)
{
    unsigned array = row->array;
    int err = array > 1 ? sl_buf_add(body, SL_STR("[")) : 0;

    for (unsigned k = 0; k < array && !err; k++)
        err = sl_buf_addf(body, "%s{\"path\":\"/x\",\"user\":\"user-%u\"}",
                          k ? "," : "", (user + k) % row->users);
    if (!err && array > 1)
        err = sl_buf_add(body, SL_STR("]"));
    if (err)
        die("there is no memory");
}

static void write_questions(struct sl_buf *questions, const struct row *row)
{
    struct sl_buf body;

    sl_buf_init(&body, 1 << 16, &sl_alloc_libc);
    for (unsigned i = 0; i < row->users; i++) {
        sl_buf_clear(&body);
        write_check(&body, row, i);
        sl_buf_init(&questions[i], 1 << 16, &sl_alloc_libc);
        if (sl_buf_addf(&questions[i],
                        "POST /v1/check HTTP/1.1\r\nHost: localhost\r\n"
                        "Content-Length: %zu\r\n\r\n",
                        body.len) ||
            sl_buf_add(&questions[i], sl_buf_str(&body)))
            die("there is no memory");
    }
    sl_buf_done(&body);
}

/* Off Redis's processor: to ours. */
static void move_aside(const struct server *s)
{
    cpu_set_t own;

    if (sched_getaffinity(0, sizeof(own), &own) == 0)
        sched_setaffinity(s->pid, sizeof(own), &own);
}

/* Exits if a request passed without the store. */
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

static void measure(struct row *row, struct load *load,
                    const struct server *own, const struct server *redis,
                    const char *words)
{
    load_run(load, SECONDS); /* and Redis has the script then */
    for (unsigned i = 0; i < ROUNDS; i++) {
        uint64_t before = server_cpu(redis), own_before = server_cpu(own);
        struct slice slice;
        double decisions;

        fprintf(stderr, "bench: %s, turn %u of %d\n", row->name, i + 1, ROUNDS);
        slice = load_run(load, SECONDS);
        decisions = (double)slice.requests * row->array;
        row->redis_cost[i] = (double)(server_cpu(redis) - before) / decisions;
        row->own_cost[i] = (double)(server_cpu(own) - own_before) / decisions;
        row->our_rate[i] = decisions / slice.seconds;
        before = server_cpu(redis);
        row->their_rate[i] = benchmark(redis, row->users, words);
        row->their_cost[i] = (double)(server_cpu(redis) - before) / TAKES;
    }
}

static void print(const struct row *row, bool two)
{
    double ratios[ROUNDS];

    for (unsigned i = 0; i < ROUNDS; i++)
        ratios[i] = row->our_rate[i] / row->their_rate[i];
    printf("%s\t%.2f\t>= %.2f\t%s\t%s, 64 connections, against EVALSHA of the "
           "same take, pipeline 16; %.0f/s against %.0f/s; %.1f us of Redis "
           "each against %.1f, and %.1f of sluiced%s\n",
           row->name, median(ratios), row->budget,
           median(ratios) >= row->budget ? "ok" : "short", row->what,
           median(row->our_rate), median(row->their_rate),
           median(row->redis_cost) / 1e3, median(row->their_cost) / 1e3,
           median(row->own_cost) / 1e3, two ? "" : "; one processor for all");
}

static void run(struct row *row, const struct server *redis, bool two)
{
    static struct sl_buf questions[USERS];
    struct server sluiced;
    struct sl_buf words;
    char store[64];

    snprintf(store, sizeof(store), "redis://127.0.0.1:%u", redis->port);
    start_sluiced_store(&sluiced, row->policy, store);
    move_aside(&sluiced);
    wait_until_ready(&sluiced);
    write_questions(questions, row);
    sl_buf_init(&words, 4096, &sl_alloc_libc);
    write_words(&words);
    measure(row, load_open(sluiced.port, questions, row->users), &sluiced,
            redis, words.bytes);
    check_honest(&sluiced);
    print(row, two);
}

int main(void)
{
    static struct row decisions = {.name = "redis-decisions",
                                   .what = "decisions by HTTP, arrays of 16",
                                   .policy = POLICY(""),
                                   .array = PIPELINE,
                                   .users = USERS,
                                   .budget = 0.9};
    static struct row lease = {.name = "redis-lease",
                               .what = "with a lease, arrays of 32 checks of "
                                       "64 users",
                               .policy = POLICY(", lease: 10%"),
                               .array = ARRAY,
                               .users = HOT,
                               .budget = 5};
    struct server redis;
    bool two = stay_aside();

    if (!start_redis(&redis))
        die("there is no redis-server");
    run(&decisions, &redis, two);
    run(&lease, &redis, two);
    return 0;
}
