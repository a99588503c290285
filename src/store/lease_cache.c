/* lease_cache.c -- a table of fixed size. A key has one of WAYS places that
 * follow each other. The place of a key without a lease that was not taken from
 * recently is free. If all are in use, the key has no lease.
 */
#include "store/lease_cache.h"

#include <string.h>
#include <sys/queue.h>

#include "base/arith.h"

#define WAYS       8
#define RECENT     (2 * SL_S)
#define EARLY      (200 * SL_MS) /* before its end a lease goes back */
#define WORDS_MOST 4096          /* of a name and its numbers */

/* A lease that serves fewer than two takes costs more than it saves: it is
 * requested and returned. If half of JUDGED leases were so, for CAREFUL only a
 * key with takes within SOON of each other is leased, after OFTEN of them. */
#define JUDGED  256
#define CAREFUL (30 * SL_S)
#define SOON    (250 * SL_MS)
#define OFTEN   2

/* Invariants
 *   (1) all > 0 exactly if it is in the list `by_end`; then left <= all.
 *   (2) While it is away it has no lease, and its place is kept. */
struct sl_lease {
    struct sl_hash128 hash; /* zeros: free */
    TAILQ_ENTRY(sl_lease) ends;
    uint64_t all, left;
    uint64_t was;    /* left when it was requested, before it shrinks */
    uint64_t till;   /* the store's time */
    sl_ns until;     /* by our clock: its end */
    sl_ns made;      /* by our clock: its start */
    uint64_t beside; /* left in the store then */
    sl_ns reset_in;
    uint64_t shrinks; /* so many... */
    sl_ns every;      /* ...in this span; 0: it does not */
    uint64_t demand;  /* taken since the last request */
    sl_ns asked;      /* when that was */
    bool away;
    uint8_t name;
    unsigned often;  /* takes within SOON less those that were not */
    unsigned served; /* takes of this lease */
    unsigned slot;
    size_t name_len;
    struct sl_buf words; /* its name and numbers, for the store */
};

TAILQ_HEAD(by_end, sl_lease);

struct sl_lease_cache {
    const struct sl_alloc *alloc;
    sl_lease_keep_f *keep;
    bool shrink;
    unsigned most;          /* places; a multiple of WAYS */
    unsigned ended, wasted; /* leases since the last judgement */
    sl_ns careful_until;
    struct by_end by_end;
    struct sl_lease list[];
};

/* ---- keys ---- */

static bool is_leasable(enum sl_kind kind)
{
    return kind == SL_BUCKET || kind == SL_INTERVAL || kind == SL_FIXED ||
           kind == SL_SLIDING || kind == SL_QUOTA;
}

bool sl_lease_cache_can_lease(const struct sl_take *take)
{
    if (take->op != SL_TAKE_OP_TAKE || take->count > SL_PARTS ||
        !sl_hold_id_is_none(take->hold))
        return false;
    for (unsigned i = 0; i < take->count; i++) {
        const struct sl_part *part = &take->parts[i];

        if (!part->binding || part->binding->lease == 0 || part->carried ||
            !is_leasable(part->limit->kind))
            return false;
        for (unsigned k = 0; k < i; k++)
            if (sl_str_eq(sl_take_part_name(&take->parts[k]),
                          sl_take_part_name(part)))
                return false; /* rare */
    }
    return take->count > 0;
}

void sl_lease_keys(const struct sl_denial_forgets *forgets,
                   const struct sl_take *take, struct sl_lease_keys *ret)
{
    ret->count = take->count;
    for (unsigned i = 0; i < take->count; i++) {
        struct sl_part part = take->parts[i];

        part.cost = 0; /* a lease serves all costs */
        ret->hash[i] = sl_denial_part_hash(
            forgets, &part, (struct sl_hash128){0, 0}, &ret->names[i]);
    }
}

static const struct sl_hash128 no_key = {0, 0};

static struct sl_lease *ways_of(struct sl_lease_cache *leases,
                                struct sl_hash128 hash)
{
    return &leases->list[hash.hi % (leases->most / WAYS) * WAYS];
}

static struct sl_lease *find(struct sl_lease_cache *leases,
                             struct sl_hash128 hash)
{
    struct sl_lease *ways = ways_of(leases, hash);

    for (unsigned i = 0; i < WAYS; i++)
        if (sl_hash128_eq(ways[i].hash, hash))
            return &ways[i];
    return NULL;
}

static bool is_recent(const struct sl_lease *lease, sl_ns now)
{
    return lease->asked <= now && now - lease->asked < RECENT;
}

static bool may_go(const struct sl_lease *lease, sl_ns now)
{
    return lease->all == 0 && !lease->away &&
           (sl_hash128_eq(lease->hash, no_key) || !is_recent(lease, now));
}

/* The place of a key, or a free one for it; NULL: all are in use. */
static struct sl_lease *place(struct sl_lease_cache *leases,
                              struct sl_hash128 hash, sl_ns now)
{
    struct sl_lease *lease = find(leases, hash);
    struct sl_lease *ways = ways_of(leases, hash);

    for (unsigned i = 0; !lease && i < WAYS; i++)
        if (may_go(&ways[i], now))
            lease = &ways[i];
    if (lease && !sl_hash128_eq(lease->hash, hash)) {
        lease->hash = hash;
        lease->demand = 0;
        lease->often = 0;
        lease->asked = now - RECENT; /* not recently */
    }
    return lease;
}

/* ---- spending ---- */

/* What is left at `now`, which is not before `made`. */
static uint64_t left_at(const struct sl_lease *lease, sl_ns now)
{
    if (lease->every == 0)
        return lease->left;
    return sl_sub_floor(lease->left,
                        sl_muldiv_up((uint64_t)(now - lease->made),
                                     lease->shrinks, (uint64_t)lease->every));
}

static bool has(const struct sl_lease *lease, uint64_t cost, sl_ns now)
{
    return lease && lease->all > 0 && now < lease->until &&
           now >= lease->made && left_at(lease, now) >= cost;
}

static void spend(struct sl_lease *lease, struct sl_part *part, sl_ns now)
{
    sl_ns passed = now - lease->made;

    lease->left -= part->cost;
    lease->served++;
    lease->demand = sl_add_sat(lease->demand, part->cost);
    part->answer = (struct sl_answer){
        .outcome = SL_ALLOW,
        .limit = part->limit->count,
        .capacity = part->limit->capacity,
        .remaining = lease->beside + lease->left,
        .retry_in = SL_NS_NONE,
        .reset_in = lease->reset_in > passed ? lease->reset_in - passed : 0,
    };
    part->untracked = false;
}

bool sl_lease_cache_spend(struct sl_lease_cache *leases,
                          const struct sl_lease_keys *keys,
                          struct sl_take *take, sl_ns now)
{
    struct sl_lease *found[SL_PARTS];

    for (unsigned i = 0; i < keys->count; i++) {
        found[i] = find(leases, keys->hash[i]);
        if (!has(found[i], take->parts[i].cost, now))
            return false;
    }
    for (unsigned i = 0; i < keys->count; i++)
        spend(found[i], &take->parts[i], now);
    take->allowed = true;
    take->err = 0;
    return true;
}

/* ---- is a key worth one? ---- */

/* A lease has ended. One that was spent was not in vain. */
static void judge(struct sl_lease_cache *leases, struct sl_lease *lease,
                  sl_ns now)
{
    bool wasted = lease->served < 2 && lease->left > 0;

    lease->often = wasted ? 0 : OFTEN + 1;
    leases->wasted += wasted;
    if (++leases->ended < JUDGED)
        return;
    if (leases->wasted > JUDGED / 2)
        leases->careful_until = sl_ns_add_sat(now, CAREFUL);
    leases->ended = leases->wasted = 0;
}

/* A take without a lease. */
static void count_take(struct sl_lease *lease, sl_ns now)
{
    bool recent = is_recent(lease, now);

    if (recent && now - lease->asked < SOON)
        lease->often += lease->often <= OFTEN;
    else
        lease->often -= lease->often > 0;
    if (!recent)
        lease->often = 0;
}

/* After a clock step backwards nothing is known. */
static bool is_worth(const struct sl_lease_cache *leases,
                     const struct sl_lease *lease, sl_ns now)
{
    return now >= leases->careful_until ||
           now < leases->careful_until - CAREFUL || lease->often >= OFTEN;
}

/* ---- requests ---- */

/* The lease can no longer be spent. If the clock has stepped back, all of it
 * may have shrunk. */
static struct sl_lease_request withdraw(struct sl_lease_cache *leases,
                                        struct sl_lease *lease, sl_ns now)
{
    bool shrunk = lease->every > 0 && now < lease->made;
    struct sl_lease_request ended = {.all = lease->all,
                                     .left = shrunk ? 0 : left_at(lease, now),
                                     .till = lease->till};

    if (lease->all > 0) {
        TAILQ_REMOVE(&leases->by_end, lease, ends); /* (1) */
        judge(leases, lease, now);
    }
    lease->was = shrunk ? 0 : lease->left;
    lease->all = lease->left = 0;
    return ended;
}

static uint64_t share_of(const struct sl_part *part)
{
    uint64_t n =
        sl_muldiv_down(part->limit->capacity, part->binding->lease, 100);

    return n > 0 ? n : 1;
}

static uint64_t wanted(const struct sl_lease *lease, const struct sl_part *part,
                       sl_ns now)
{
    uint64_t share = share_of(part), shrinks = 0, twice;

    if (!is_recent(lease, now))
        return 0;
    if (lease->every > 0)
        shrinks = sl_muldiv_down((uint64_t)(now - lease->asked), lease->shrinks,
                                 (uint64_t)lease->every);
    twice = sl_mul_sat(sl_add_sat(lease->demand, shrinks), 2);
    return twice < share ? twice : share;
}

static bool keep_words(const struct sl_lease_cache *leases,
                       struct sl_lease *lease, const struct sl_part *part,
                       sl_ns near)
{
    sl_buf_clear(&lease->words);
    return !leases->keep(part, near, &lease->words, &lease->name_len);
}

static void set_shrinking(const struct sl_lease_cache *leases,
                          struct sl_lease *lease, const struct sl_limit *limit)
{
    bool shrinks = leases->shrink && limit->kind == SL_BUCKET;

    lease->shrinks = shrinks ? limit->count : 0;
    lease->every = shrinks ? limit->period : 0;
}

void sl_lease_cache_ask(struct sl_lease_cache *leases,
                        const struct sl_lease_keys *keys,
                        const struct sl_take *take, unsigned slot, sl_ns near,
                        sl_ns now, struct sl_lease_requests *ret)
{
    bool any = false;

    ret->frees = false;
    for (unsigned i = 0; i < keys->count; i++) {
        struct sl_lease *lease = place(leases, keys->hash[i], now);

        ret->list[i] = NULL;
        ret->words[i] = (struct sl_lease_request){0};
        if (!lease || lease->away)
            continue; /* a request is in flight */
        if (!is_recent(lease, now))
            lease->demand = 0;
        lease->demand = sl_add_sat(lease->demand, take->parts[i].cost);
        if (lease->all == 0)
            count_take(lease, now);
        ret->words[i] = withdraw(leases, lease, now);
        set_shrinking(leases, lease, take->parts[i].limit);
        ret->frees |= ret->words[i].left > 0;
        if (is_worth(leases, lease, now))
            ret->words[i].want = wanted(lease, &take->parts[i], now);
        if (ret->words[i].want > 0 &&
            !keep_words(leases, lease, &take->parts[i], near))
            ret->words[i].want = 0;
        lease->asked = now;
        lease->slot = slot;
        lease->name = keys->names[i];
        if (ret->words[i].want > 0 || ret->words[i].all > 0) {
            ret->list[i] = lease;
            lease->demand = 0;
            lease->away = any = true; /* (2) */
        }
    }
    ret->count = any ? keys->count : 0;
}

/* ---- results ---- */

/* Inserts by end; most leases last equally long. */
static void enlist(struct sl_lease_cache *leases, struct sl_lease *lease)
{
    struct sl_lease *before = TAILQ_LAST(&leases->by_end, by_end);

    while (before && before->until > lease->until)
        before = TAILQ_PREV(before, by_end, ends);
    if (before)
        TAILQ_INSERT_AFTER(&leases->by_end, before, lease, ends);
    else
        TAILQ_INSERT_HEAD(&leases->by_end, lease, ends);
}

static void begin(struct sl_lease_cache *leases, struct sl_lease *lease,
                  const struct sl_lease_grant *grant, sl_ns sent)
{
    lease->all = lease->left = grant->has;
    lease->served = 0;
    lease->till = grant->till;
    lease->until = sent + grant->life;
    lease->made = sent;
    lease->beside = sl_sub_floor(grant->remaining, grant->has);
    lease->reset_in = grant->reset_in;
    enlist(leases, lease);
}

/* Is it the lease requested, and not longer than leases are? */
static bool is_sound(const struct sl_lease_grant *grant, uint64_t want)
{
    return grant->has > 0 && grant->has <= want && grant->life > 0 &&
           grant->life <= SL_S;
}

bool sl_lease_cache_granted(struct sl_lease_cache *leases,
                            struct sl_lease_requests *asks, unsigned i,
                            const struct sl_lease_grant *grant, sl_ns sent)
{
    struct sl_lease *lease = asks->list[i];

    asks->list[i] = NULL;
    lease->away = false;
    if (!grant || !is_sound(grant, asks->words[i].want))
        return false;
    begin(leases, lease, grant, sent);
    return true;
}

void sl_lease_cache_lost(struct sl_lease_cache *leases,
                         struct sl_lease_requests *asks, bool unsent,
                         struct sl_lease_counts *counts)
{
    for (unsigned i = 0; i < asks->count; i++) {
        struct sl_lease *lease = asks->list[i];
        const struct sl_lease_request *was = &asks->words[i];

        if (!lease)
            continue;
        lease->away = false;
        if (unsent && was->all > 0) {
            lease->all = was->all;
            lease->left = lease->was; /* shrinks on from when it was made */
            enlist(leases, lease);
        } else {
            counts->under += was->left;
        }
    }
    asks->count = 0;
}

/* ---- ends ---- */

sl_ns sl_lease_cache_due(const struct sl_lease_cache *leases)
{
    const struct sl_lease *first = TAILQ_FIRST(&leases->by_end);

    return first ? first->until - EARLY : SL_NS_NONE;
}

bool sl_lease_cache_end(struct sl_lease_cache *leases, sl_ns now, bool all,
                        struct sl_lease_end *ret)
{
    struct sl_lease *lease = TAILQ_FIRST(&leases->by_end);
    struct sl_str words;

    if (!lease || (!all && lease->until - EARLY > now))
        return false;
    ret->asks = (struct sl_lease_requests){.list = {lease}, .count = 1};
    ret->asks.words[0] = withdraw(leases, lease, now);
    ret->asks.frees = ret->asks.words[0].left > 0;
    ret->place = lease->name;
    ret->slot = lease->slot;
    lease->away = true; /* (2) */
    words = sl_buf_str(&lease->words);
    ret->name = (struct sl_str){words.at, lease->name_len};
    ret->numbers = sl_str_from(words, lease->name_len);
    return true;
}

static size_t leases_size(unsigned most)
{
    return sizeof(struct sl_lease_cache) + most * sizeof(struct sl_lease);
}

int sl_lease_cache_open(unsigned most, sl_lease_keep_f *keep, bool shrink,
                        const struct sl_alloc *alloc,
                        struct sl_lease_cache **ret)
{
    struct sl_lease_cache *leases;

    most = (most + WAYS - 1) / WAYS * WAYS;
    leases = sl_alloc_new(alloc, leases_size(most));
    if (!leases)
        return SLUICE_ENOMEM;
    memset(leases, 0, leases_size(most));
    leases->alloc = alloc;
    leases->keep = keep;
    leases->shrink = shrink;
    leases->most = most;
    TAILQ_INIT(&leases->by_end);
    for (unsigned i = 0; i < most; i++)
        sl_buf_init(&leases->list[i].words, WORDS_MOST, alloc);
    *ret = leases;
    return 0;
}

void sl_lease_cache_close(struct sl_lease_cache *leases)
{
    if (!leases)
        return;
    for (unsigned i = 0; i < leases->most; i++)
        sl_buf_done(&leases->list[i].words);
    sl_alloc_free(leases->alloc, leases, leases_size(leases->most));
}
