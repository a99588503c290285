/* fair_queue.c -- lanes in a ring, each with its row of those who wait. */
#include <string.h>

#include "engine/wait.h"

struct sl_fair_tenant {
    TAILQ_ENTRY(sl_fair_tenant) turn;
    LIST_ENTRY(sl_fair_tenant) same; /* bucket */
    struct sl_hash128 group;
    TAILQ_HEAD(, sl_fair_entry) row;
    unsigned count;
    unsigned weight;
    unsigned served; /* in this row of turns; < weight */
};

int sl_fair_queue_init(struct sl_fair_queue *fair, const struct sl_alloc *alloc)
{
    size_t size = SL_FAIR_QUEUE_BUCKETS * sizeof(fair->buckets[0]);

    *fair = (struct sl_fair_queue){.alloc = alloc,
                                   .bucket_count = SL_FAIR_QUEUE_BUCKETS};
    TAILQ_INIT(&fair->turns);
    fair->buckets = sl_alloc_new(alloc, size);
    if (!fair->buckets)
        return SLUICE_ENOMEM;
    memset(fair->buckets, 0, size);
    return 0;
}

static struct sl_fair_tenant_bucket *bucket_of(const struct sl_fair_queue *fair,
                                               struct sl_hash128 group)
{
    return &fair->buckets[group.lo & (fair->bucket_count - 1)];
}

static struct sl_fair_tenant *find(const struct sl_fair_queue *fair,
                                   struct sl_hash128 group)
{
    struct sl_fair_tenant *lane;

    LIST_FOREACH(lane, bucket_of(fair, group), same)
    if (lane->group.lo == group.lo && lane->group.hi == group.hi)
        return lane;
    return NULL;
}

/* Twice as many buckets as lanes keep finding short; without memory it gets
 * longer, and nothing else. */
static void spread(struct sl_fair_queue *fair)
{
    unsigned count = 2 * fair->bucket_count;
    struct sl_fair_tenant_bucket *buckets, *old = fair->buckets;
    struct sl_fair_tenant *lane;

    if (fair->lanes < fair->bucket_count)
        return;
    buckets = sl_alloc_new(fair->alloc, count * sizeof(*buckets));
    if (!buckets)
        return;
    memset(buckets, 0, count * sizeof(*buckets));
    sl_alloc_free(fair->alloc, old, fair->bucket_count * sizeof(*old));
    fair->buckets = buckets;
    fair->bucket_count = count;
    TAILQ_FOREACH(lane, &fair->turns, turn)
    LIST_INSERT_HEAD(bucket_of(fair, lane->group), lane, same);
}

static struct sl_fair_tenant *new_lane(struct sl_fair_queue *fair,
                                       struct sl_hash128 group)
{
    struct sl_fair_tenant *lane = sl_alloc_new(fair->alloc, sizeof(*lane));

    if (!lane)
        return NULL;
    *lane = (struct sl_fair_tenant){.group = group, .weight = 1};
    TAILQ_INIT(&lane->row);
    spread(fair);
    LIST_INSERT_HEAD(bucket_of(fair, group), lane, same);
    TAILQ_INSERT_TAIL(&fair->turns, lane, turn); /* (3) */
    fair->lanes++;
    return lane;
}

static void free_lane(struct sl_fair_queue *fair, struct sl_fair_tenant *lane)
{
    TAILQ_REMOVE(&fair->turns, lane, turn);
    LIST_REMOVE(lane, same);
    fair->lanes--;
    sl_alloc_free(fair->alloc, lane, sizeof(*lane));
}

void sl_fair_queue_done(struct sl_fair_queue *fair)
{
    struct sl_fair_entry *place;

    while ((place = sl_fair_queue_first(fair)) != NULL)
        sl_fair_queue_leave(fair, place);
    sl_alloc_free(fair->alloc, fair->buckets,
                  fair->bucket_count * sizeof(fair->buckets[0]));
    fair->buckets = NULL;
}

int sl_fair_queue_add(struct sl_fair_queue *fair, struct sl_hash128 group,
                      unsigned weight, struct sl_fair_entry *place)
{
    struct sl_fair_tenant *lane = find(fair, group);

    if (!lane)
        lane = new_lane(fair, group);
    if (!lane)
        return SLUICE_ENOMEM;
    lane->weight = weight > 0 ? weight : 1;
    if (lane->served >= lane->weight)
        lane->served = lane->weight - 1;
    place->lane = lane;
    TAILQ_INSERT_TAIL(&lane->row, place, link); /* (1) */
    lane->count++;
    fair->count++;
    return 0;
}

struct sl_fair_entry *sl_fair_queue_first(const struct sl_fair_queue *fair)
{
    const struct sl_fair_tenant *lane = TAILQ_FIRST(&fair->turns);

    return lane ? TAILQ_FIRST(&lane->row) : NULL;
}

/* Out of the row; the lane goes with its last. */
static void take_out(struct sl_fair_queue *fair, struct sl_fair_entry *place)
{
    struct sl_fair_tenant *lane = place->lane;

    TAILQ_REMOVE(&lane->row, place, link);
    place->lane = NULL;
    lane->count--;
    fair->count--;
    if (lane->count == 0)
        free_lane(fair, lane);
}

void sl_fair_queue_serve(struct sl_fair_queue *fair)
{
    struct sl_fair_tenant *lane = TAILQ_FIRST(&fair->turns);

    if (!lane)
        return;
    if (++lane->served >= lane->weight) { /* (2) */
        lane->served = 0;
        TAILQ_REMOVE(&fair->turns, lane, turn);
        TAILQ_INSERT_TAIL(&fair->turns, lane, turn);
    }
    take_out(fair, TAILQ_FIRST(&lane->row));
}

void sl_fair_queue_leave(struct sl_fair_queue *fair,
                         struct sl_fair_entry *place)
{
    if (place->lane)
        take_out(fair, place); /* (4) */
}

unsigned sl_fair_queue_ahead(const struct sl_fair_queue *fair,
                             struct sl_hash128 group, unsigned weight)
{
    const struct sl_fair_tenant *own = find(fair, group), *lane;
    uint64_t before = own ? own->count : 0;
    uint64_t rounds, ahead = before;

    if (weight == 0)
        weight = 1;
    /* The rows of turns that begin before his own comes. */
    rounds = before / weight + 1;
    TAILQ_FOREACH(lane, &fair->turns, turn)
    {
        uint64_t turns = rounds * lane->weight;

        if (lane != own)
            ahead += turns < lane->count ? turns : lane->count;
    }
    return ahead < fair->count ? (unsigned)ahead : fair->count;
}
