/* resp.c -- the rows of the Redis protocol: what a command costs a server.
 *
 * Processor time per command, of sluiced and of Debian's redis-server, in turns
 * of a fraction of a second over the same connections' worth of load; each row
 * is the median of the ratios of neighbouring turns. Server and load have a
 * processor each, where there are two. Every command names another of 65,536
 * keys.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "resp/resp.h"
#include "wire/resp.h"

#define ROUNDS  9
#define SECONDS 0.3
#define DEEP    64
#define BATCHES 1024

#define LIMITS                                                                 \
    "sluice: 1\n"                                                              \
    "limits:\n"                                                                \
    "  second: { kind: token-bucket, per: user, rate: 1000k/s }\n"             \
    "  hour: { kind: fixed-window, per: user, rate: 1000M/hour }\n"            \
    "  closed: { kind: quota, per: user, rate: 1/month }\n"                    \
    "routes:\n"                                                                \
    "  - { match: GET /api/v1/things/:id, limits: [second, hour] }\n"          \
    "  - { match: GET /closed, limits: [second, closed] }\n"                   \
    "default: [second]\n"

static const char policy[] = LIMITS;
static const char policy_off[] = LIMITS "server: { denials: off }\n";

/* A bucket of 100 tokens that refills by 100 a second, as people write it. */
static const char script[] =
    "local t = redis.call('TIME')\n"
    "local now = t[1] * 1000 + math.floor(t[2] / 1000)\n"
    "local v = redis.call('HMGET', KEYS[1], 'tokens', 'at')\n"
    "local tokens = tonumber(v[1]) or tonumber(ARGV[1])\n"
    "local at = tonumber(v[2]) or now\n"
    "tokens = math.min(ARGV[1], tokens + (now - at) * ARGV[2] / 1000)\n"
    "local ok = tokens >= 1\n"
    "if ok then tokens = tokens - 1 end\n"
    "redis.call('HSET', KEYS[1], 'tokens', tokens, 'at', now)\n"
    "redis.call('PEXPIRE', KEYS[1], 60000)\n"
    "return { ok and 1 or 0, math.floor(tokens) }\n";

static char sha[64];

/* ---- commands ---- */

typedef void words_f(struct sl_buf *out, unsigned key);

static void write_words(struct sl_buf *out, const char *line)
{
    struct sl_str words[16];
    unsigned count = 0;

    while (*line) {
        size_t len = strcspn(line, " ");

        words[count++] = (struct sl_str){line, len};
        line += len + (line[len] == ' ');
    }
    if (sl_resp_command_write(out, words, count))
        die("there is no memory");
}

static void incr(struct sl_buf *out, unsigned key)
{
    char line[128];

    snprintf(line, sizeof(line), "INCR user:%u", key);
    write_words(out, line);
}

static void lua(struct sl_buf *out, unsigned key)
{
    char line[128];

    snprintf(line, sizeof(line), "EVALSHA %s 1 bucket:%u 100 100", sha, key);
    write_words(out, line);
}

static void throttle(struct sl_buf *out, unsigned key)
{
    char line[128];

    snprintf(line, sizeof(line), "CL.THROTTLE user:%u 99 100 1", key);
    write_words(out, line);
}

static void check(struct sl_buf *out, unsigned key)
{
    char line[128];

    snprintf(line, sizeof(line),
             "SLUICE.CHECK GET /api/v1/things/%u user user:%u", key * 7, key);
    write_words(out, line);
}

/* Refused, but for the first of a user. */
static void refused(struct sl_buf *out, unsigned key)
{
    char line[128];

    snprintf(line, sizeof(line), "SLUICE.CHECK GET /closed user user:%u", key);
    write_words(out, line);
}

/* ---- loads ---- */

enum what {
    INCR,
    INCR_DEEP,
    LUA_DEEP,
    CL,
    CL_DEEP,
    CHECK_DEEP,
    CL_UNIX,
    CHECK_OFF,
    REFUSED,
    REFUSED_OFF,
    WHATS
};

enum who { REDIS, SLUICED, SLUICED_UNIX, SLUICED_OFF, WHOS };

static const struct {
    enum who who;
    unsigned depth;
    words_f *words;
} kinds[WHATS] = {
    [INCR] = {REDIS,        1,    incr    },
    [INCR_DEEP] = {REDIS,        DEEP, incr    },
    [LUA_DEEP] = {REDIS,        DEEP, lua     },
    [CL] = {SLUICED,      1,    throttle},
    [CL_DEEP] = {SLUICED,      DEEP, throttle},
    [CHECK_DEEP] = {SLUICED,      DEEP, check   },
    [CL_UNIX] = {SLUICED_UNIX, 1,    throttle},
    [CHECK_OFF] = {SLUICED_OFF,  DEEP, check   },
    [REFUSED] = {SLUICED,      DEEP, refused },
    [REFUSED_OFF] = {SLUICED_OFF,  DEEP, refused },
};

struct row {
    struct sl_buf questions[BATCHES];
    struct pipeline *load;
    const struct server *server;
    double cost[ROUNDS]; /* ns of processor time per command */
    double busy[ROUNDS], rate[ROUNDS];
};

static void open_row(struct row *row, enum what what, const struct server *all)
{
    unsigned depth = kinds[what].depth;

    row->server = &all[kinds[what].who];
    for (unsigned i = 0; i < BATCHES; i++) {
        sl_buf_init(&row->questions[i], 1 << 20, &sl_alloc_libc);
        for (unsigned k = 0; k < depth; k++)
            kinds[what].words(&row->questions[i], k * BATCHES + i);
    }
    row->load = pipeline_open(row->server, kinds[what].who == SLUICED_UNIX,
                              row->questions, BATCHES, depth);
}

static void take_turn(struct row *row, unsigned round)
{
    uint64_t before = server_cpu(row->server);
    double seconds;
    uint64_t done = pipeline_run(row->load, SECONDS, &seconds);
    double cpu = (double)(server_cpu(row->server) - before);

    row->cost[round] = cpu / (double)done;
    row->busy[round] = cpu / 1e9 / seconds * 100;
    row->rate[round] = (double)done / seconds;
}

/* ---- rows ---- */

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

static void compare(const char *name, const struct row *row,
                    const struct row *reference, double budget,
                    const char *what)
{
    double ratios[ROUNDS], ratio;

    for (unsigned i = 0; i < ROUNDS; i++)
        ratios[i] = row->cost[i] / reference->cost[i];
    ratio = median(ratios);
    printf("%s\t%.3f\t<= %.2f\t%s\t%s; %.3f us against %.3f us of the server; "
           "%.0f/s, %.0f %% busy (%.0f/s, %.0f %%)\n",
           name, ratio, budget, ratio <= budget ? "ok" : "short", what,
           median(row->cost) / 1e3, median(reference->cost) / 1e3,
           median(row->rate), median(row->busy), median(reference->rate),
           median(reference->busy));
    fflush(stdout);
}

static void load_script(const struct server *redis)
{
    struct sl_str words[] = {SL_STR("SCRIPT"), SL_STR("LOAD"),
                             sl_str_c(script)};
    char reply[128];

    command(redis, words, SL_LEN(words), reply, sizeof(reply));
    if (sscanf(reply, "$40\r\n%40s", sha) != 1)
        die("the script was not loaded: %s", reply);
}

static void measure(struct row *rows)
{
    double seconds;

    for (unsigned what = 0; what < WHATS; what++)
        pipeline_run(rows[what].load, SECONDS, &seconds); /* warm */
    for (unsigned round = 0; round < ROUNDS; round++) {
        fprintf(stderr, "bench: resp, turn %u of %d\n", round + 1, ROUNDS);
        for (unsigned what = 0; what < WHATS; what++)
            take_turn(&rows[what], round);
    }
}

static void print(const struct row *r)
{
    compare("throttle, pipeline 1", &r[CL], &r[INCR], 0.95,
            "CL.THROTTLE against INCR in Redis, 32 connections");
    compare("throttle, pipeline 64", &r[CL_DEEP], &r[INCR_DEEP], 0.3,
            "CL.THROTTLE against INCR in Redis, 32 connections");
    compare("throttle against Lua", &r[CL_DEEP], &r[LUA_DEEP], 0.04,
            "CL.THROTTLE against a token bucket by EVALSHA, pipeline 64");
    compare("check, pipeline 64", &r[CHECK_DEEP], &r[INCR_DEEP], 0.8,
            "SLUICE.CHECK of two limits against INCR in Redis");
    compare("unix socket", &r[CL_UNIX], &r[CL], 0.6,
            "CL.THROTTLE over a unix socket against TCP, pipeline 1");
    compare("denials, passes", &r[CHECK_DEEP], &r[CHECK_OFF], 1.03,
            "SLUICE.CHECK that passes, against `denials: off`; pipeline 64");
    compare("denials, refusals", &r[REFUSED], &r[REFUSED_OFF], 1.03,
            "SLUICE.CHECK that is refused, against `denials: off`, which also "
            "records nothing for what-if; pipeline 64");
}

int main(void)
{
    static struct row rows[WHATS];
    static struct server servers[WHOS];

    if (!start_redis(&servers[REDIS]))
        die("there is no redis-server to compare with: scripts/setup bench "
            "installs it");
    start_sluiced_resp(&servers[SLUICED], policy, false);
    start_sluiced_resp(&servers[SLUICED_UNIX], policy, true);
    start_sluiced_resp(&servers[SLUICED_OFF], policy_off, false);
    if (!stay_aside())
        fprintf(stderr, "bench: there is one processor; load and server share "
                        "it\n");
    load_script(&servers[REDIS]);
    for (unsigned what = 0; what < WHATS; what++)
        open_row(&rows[what], (enum what)what, servers);
    measure(rows);
    print(rows);
    return 0;
}
