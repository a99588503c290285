/* dynamodb.c -- the rows of a store in DynamoDB: how many requests a decision
 * takes, on the average.
 *
 * Those are paid for, and an item serves a thousand writes a second at most.
 * What is counted are requests, not time: the table is dynalite, which the
 * tests have, and the clock is the takes' own. Each row is a stream of takes of
 * one key, once with what spares requests and once without, and its ratio is
 * that of the two counts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "store/dynamo/dynamo.h"

#define TAKES 1000

_Noreturn static void die(const char *why)
{
    fprintf(stderr, "bench: %s\n", why);
    exit(1);
}

/* ---- the table ---- */

/* Its port. It ends with its standard input, which is ours to close. */
static unsigned start_table(void)
{
    int in[2], out[2];
    char port[16] = "";

    if (pipe(in) || pipe(out))
        die("there are no pipes");
    if (fork() == 0) {
        dup2(in[0], 0);
        dup2(out[1], 1);
        close(in[1]);
        execlp("node", "node", SL_SOURCE "/test/dynamo/dynamo.js",
               (char *)NULL);
        _exit(127);
    }
    close(in[0]);
    close(out[1]);
    if (read(out[0], port, sizeof(port) - 1) <= 0)
        die("dynalite does not start; scripts/setup bench installs it");
    return (unsigned)strtoul(port, NULL, 10);
}

/* ---- takes ---- */

struct row {
    const char *name, *what, *rate;
    enum sl_kind kind;
    sl_ns every;    /* a take */
    unsigned lease; /* percent */
    double budget;  /* of the ratio */
};

struct world {
    struct sl_loop *loop;
    struct sl_arena arena;
    struct sl_dynamo_options options;
    struct sl_store *store;
    sl_ns now;
    bool done;
};

static void on_tick(void *ctx)
{
    sl_loop_stop(ctx);
}

static void open_store(struct world *w)
{
    struct sl_timer *timer;

    if (sl_dynamo_open(&w->options, &w->store, NULL) ||
        sl_remote_store_attach(w->store, w->loop, NULL) ||
        sl_timer_new(w->loop, on_tick, w->loop, &timer))
        die("there is no store");
    for (unsigned i = 0; i < 5000 && !sl_remote_store_is_ready(w->store); i++) {
        sl_timer_start(timer, SL_MS);
        sl_loop_run(w->loop);
    }
    sl_timer_free(timer);
}

static void on_done(struct sl_take *take)
{
    struct world *w = take->ctx;

    w->done = true;
    sl_loop_stop(w->loop);
}

static bool take(struct world *w, struct sl_part *part)
{
    struct sl_take take = {.op = SL_TAKE_OP_TAKE,
                           .parts = part,
                           .count = 1,
                           .now = w->now,
                           .loop = w->loop,
                           .done = on_done,
                           .ctx = w};

    w->done = false;
    sl_store_take(w->store, &take);
    while (!w->done)
        sl_loop_run(w->loop);
    if (take.err)
        die("DynamoDB has failed");
    return take.allowed;
}

/* Requests for each take; *ret_passed is how many were let pass. */
static double run(struct world *w, const struct row *row, bool spares,
                  unsigned *ret_passed)
{
    struct sl_remote_stats stats;
    struct sl_limit_binding stored = {.name = row->name, .lease = row->lease};
    struct sl_rate rate;
    struct sl_limit limit;
    char key[64];
    struct sl_part part = {.binding = &stored, .limit = &limit, .cost = 1};

    snprintf(key, sizeof(key), "%s:%d", row->name, spares);
    part.key = part.name = sl_str_c(key);
    if (sl_parse_rate(sl_str_c(row->rate), &rate, NULL) ||
        sl_limit_init(&limit, row->kind, &rate, NULL, NULL))
        die("that is no rate");
    w->options.remote.no_denials = w->options.remote.no_leases = !spares;
    w->now = 20000 * SL_DAY;
    open_store(w);
    *ret_passed = 0;
    for (unsigned i = 0; i < TAKES; i++, w->now += row->every)
        *ret_passed += take(w, &part);
    sl_remote_store_stats(w->store, &stats);
    sl_remote_store_detach(w->store, w->loop);
    sl_store_close(w->store);
    return (double)stats.asked / TAKES;
}

static void measure(struct world *w, const struct row *row)
{
    unsigned passed, passed_without;
    double without, with;

    fprintf(stderr, "bench: %s\n", row->name);
    without = run(w, row, false, &passed_without);
    with = run(w, row, true, &passed);
    printf("%s\t%.2f\t<= %.2f\t%s\t%s: %.3f requests a decision against %.3f; "
           "%u of %d passed, %u without\n",
           row->name, with / without, row->budget,
           with / without <= row->budget ? "ok" : "short", row->what, with,
           without, passed, TAKES, passed_without);
}

int main(void)
{
    static const struct row rows[] = {
  /* clang-format off */
        {"dynamodb-plain", "a fixed window, nothing spared", "10k/hour",
         SL_FIXED, SL_MS, 0, 1},
        {"dynamodb-denials", "an offender at ten times the limit, refusals "
         "remembered", "100/s", SL_FIXED, SL_MS, 0, 0.2},
        {"dynamodb-lease-window", "a hot fixed window, lease: 10%", "10k/hour",
         SL_FIXED, SL_MS, 10, 0.1},
        {"dynamodb-lease-quota", "a hot quota, lease: 10%", "10k/day", SL_QUOTA,
         SL_MS, 10, 0.1},
        {"dynamodb-lease-bucket", "a hot bucket at half its rate, lease: 10%",
         "2k/s burst 10k", SL_BUCKET, SL_MS, 10, 0.2},
  /* clang-format on */
    };
    struct world w = {
        .options = {.env = {.key_id = "id", .secret = "secret"},
                    .remote.own_now = true,
                    .remote.deadline = 10 * SL_S}
    };
    char where[128];

    sl_arena_init(&w.arena, 1 << 16, &sl_alloc_libc);
    snprintf(where, sizeof(where),
             "dynamodb://eu-west-1?endpoint=http://127.0.0.1:%u",
             start_table());
    if (sl_dynamo_url_read(sl_str_c(where), &w.arena, &w.options.where, NULL) ||
        sl_loop_open(NULL, &w.loop, NULL))
        die("there is no loop");
    for (unsigned i = 0; i < SL_LEN(rows); i++)
        measure(&w, &rows[i]);
    sl_loop_close(w.loop);
    sl_arena_done(&w.arena);
    return 0;
}
