/* turns.c -- what a turn costs when many wait: ten thousand in a queue, against
 * a hundred. Each round something comes back, the first is granted, the next
 * is asked in vain, and the one who was served stands behind again.
 */
#include "turns.h"

#include <stdlib.h>

#include "engine/wait.h"
#include "pair.h"

#define LANES 10

struct hall {
    struct sl_queues *queues;
    struct sl_wait_thread room;
    struct sl_waiter *waiters;
    unsigned count;
    unsigned permits; /* free now */
    uint64_t granted;
    sl_ns now;
};

static const struct sl_queue_of of = {
    .key = {7, 11},
      .limit = 5, .most = 1000000, .weight = 1
};

static bool on_ring(struct sl_wait_thread *room)
{
    (void)room;
    return true;
}

static void join(struct hall *hall, struct sl_waiter *w)
{
    uint64_t lane = (uint64_t)(w - hall->waiters) % LANES;
    struct sl_queue_of own = of;

    own.group = (struct sl_hash128){lane, lane};
    w->since = hall->now;
    w->until = hall->now + 3600 * SL_S;
    if (sl_queue_join(hall->queues, &own, hall->now, hall->now + 1800 * SL_S,
                      false, w))
        exit(1);
}

static void on_turn(struct sl_waiter *w, sl_ns now)
{
    struct hall *hall = w->ctx;

    if (hall->permits == 0) {
        (void)sl_queue_stay(w, &of, now, now + 1800 * SL_S);
        return;
    }
    hall->permits--;
    hall->granted++;
    sl_queue_leave(w, now, true);
    join(hall, w);
}

static void on_late(struct sl_waiter *w, sl_ns now)
{
    (void)w;
    (void)now;
}

static void open_hall(struct hall *hall, unsigned count)
{
    *hall = (struct hall){.count = count, .now = SL_S};
    hall->waiters = calloc(count, sizeof(*hall->waiters));
    if (!hall->waiters || sl_queues_open(&sl_alloc_libc, &hall->queues))
        exit(1);
    sl_queues_resize(hall->queues, count);
    sl_wait_thread_init(&hall->room, hall->queues, on_ring, NULL);
    for (unsigned i = 0; i < count; i++) {
        hall->waiters[i].thread = &hall->room;
        hall->waiters[i].on_turn = on_turn;
        hall->waiters[i].on_late = on_late;
        hall->waiters[i].ctx = hall;
        join(hall, &hall->waiters[i]);
    }
}

static void close_hall(struct hall *hall)
{
    sl_wait_thread_done(&hall->room);
    sl_queues_close(hall->queues);
    free(hall->waiters);
}

static uint64_t grant(void *ctx, uint64_t rounds)
{
    struct hall *hall = ctx;

    for (uint64_t i = 0; i < rounds; i++) {
        hall->permits = 1;
        hall->now += SL_US;
        sl_queues_freed(hall->queues, of.limit);
        sl_wait_thread_serve(&hall->room, hall->now);
        if (hall->permits > 0)
            exit(1);
    }
    return hall->granted;
}

void bench_turns(void)
{
    static struct hall few, many;

    open_hall(&few, 100);
    open_hall(&many, 10000);
    print_row("holds: a turn with 10,000 waiting",
              measure(grant, &few, grant, &many), 1.5,
              "per grant, against 100 waiting");
    close_hall(&few);
    close_hall(&many);
}
