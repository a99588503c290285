/* gate.c -- hot keys through the library, as a program calls it.
 *
 * The reference is a stand-in for a limiter in Rust (governor): a map from text
 * keys to one word, SipHash-1-3 of 64 bits, a lock of the shard, the
 * processor's counter as its clock, and a compare-and-swap. It answers yes or
 * no only; a take answers with everything that headers need. governor itself
 * takes GOVERNOR times as long (measured side by side; its map has more to do).
 */
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "bench.h"
#include "pair.h"
#include "sluice.h"

#define KEYS    1000
#define KEY_LEN 21
#define PLACES  4096
#define MOST    16

#define GOVERNOR 1.69

static char keys[KEYS][KEY_LEN + 3];
static int64_t own_now = INT64_C(1790000000) * SL_S;

/* ---- the reference ---- */

struct place {
    const char *key;
    _Atomic uint64_t due; /* when nothing is owed */
};

static struct place places[PLACES];
static struct sl_hash_key secret;
static _Atomic uint64_t shards[64];

static struct place *find(const char *key)
{
    uint64_t at = sl_hash64(&secret, (struct sl_str){key, KEY_LEN}) % PLACES;

    while (places[at].key && memcmp(places[at].key, key, KEY_LEN) != 0)
        at = (at + 1) % PLACES;
    places[at].key = key;
    return &places[at];
}

static uint64_t stand_in(void *ctx, uint64_t rounds)
{
    static unsigned turn;
    uint64_t allowed = 0;

    (void)ctx;
    for (uint64_t i = 0; i < rounds; i++) {
        struct place *p = find(keys[turn = (turn + 619) % KEYS]);
        _Atomic uint64_t *shard = &shards[turn % 64];
        uint64_t now = (uint64_t)sl_clock_wall_near(), due, next;

        atomic_fetch_add(shard, 1);
        due = atomic_load(&p->due);
        do
            next = (due > now ? due : now) + 1000;
        while (next <= now + SL_S &&
               !atomic_compare_exchange_weak(&p->due, &due, next));
        atomic_fetch_sub(shard, 1);
        allowed += next <= now + SL_S;
    }
    return allowed;
}

/* ---- the candidates ---- */

struct gate {
    struct sluice *gate;
    unsigned parts;
    unsigned turn;
};

static int64_t own_clock(void *ctx)
{
    (void)ctx;
    return own_now += 100;
}

static uint64_t takes(void *ctx, uint64_t rounds)
{
    struct gate *g = ctx;
    struct sluice_verdict verdict;
    uint64_t sum = 0;

    for (uint64_t i = 0; i < rounds; i++) {
        struct sluice_part parts[MOST];

        g->turn = (g->turn + 619) % KEYS;
        for (unsigned j = 0; j < g->parts; j++)
            parts[j] = (struct sluice_part){.limit = j,
                                            .key = keys[g->turn],
                                            .key_len = KEY_LEN,
                                            .cost = 1};
        if (sluice_take(g->gate, parts, g->parts, &verdict))
            exit(1);
        sum += parts[0].answer.remaining + verdict.outcome;
    }
    return sum;
}

static struct gate open_gate(unsigned parts, int64_t (*now)(void *ctx))
{
    static char names[MOST][8];
    struct sluice_limit limits[MOST] = {{0}};
    struct sluice_options options = {
        .limits = limits, .limit_count = parts, .now = now};
    struct gate g = {.parts = parts};

    for (unsigned i = 0; i < parts; i++) {
        snprintf(names[i], sizeof(names[i]), "l%u", i);
        limits[i] = (struct sluice_limit){.name = names[i],
                                          .rate = "1000000/s burst 100000000"};
    }
    if (sluice_open(&options, &g.gate)) {
        fprintf(stderr, "bench: %s\n", sluice_why());
        exit(1);
    }
    pair_sink = takes(&g, KEYS); /* first sights are not measured */
    return g;
}

/* ---- rows ---- */

/* What each limit after the first adds to a take, in ns. */
static void set_row(unsigned parts)
{
    struct gate one = open_gate(1, NULL), many = open_gate(parts, NULL);
    struct pair p = measure(takes, &one, takes, &many);
    double each = (p.candidate - p.reference) / (parts - 1);

    printf("take-hot-set-of-%u\t%.1f\t<= 70.0\t%s\tns for each further limit, "
           "%d keys; %.1f ns against %.1f ns\n",
           parts, each, each <= 70 ? "ok" : "short", KEYS, p.candidate,
           p.reference);
    fflush(stdout);
    sluice_close(one.gate);
    sluice_close(many.gate);
}

/* ---- starting with a state file ---- */

#define START_KEYS UINT64_C(5000000)

static struct sluice *open_state(const char *path)
{
    struct sluice_limit limit = {.name = "l", .rate = "1000/day"};
    struct sluice_options options = {.limits = &limit,
                                     .limit_count = 1,
                                     .path = path,
                                     .size = START_KEYS * 40};
    struct sluice *gate;

    if (sluice_open(&options, &gate)) {
        fprintf(stderr, "bench: %s\n", sluice_why());
        exit(1);
    }
    return gate;
}

static void fill_state(struct sluice *gate)
{
    struct sluice_part parts[64];
    uint64_t key[64];

    for (uint64_t i = 0; i < START_KEYS; i += 64) {
        for (unsigned j = 0; j < 64; j++) {
            key[j] = i + j;
            parts[j] = (struct sluice_part){
                .key = &key[j], .key_len = sizeof(key[j]), .cost = 600};
        }
        if (sluice_take_batch(gate, parts, 64))
            exit(1);
    }
}

static double wall_ms(void)
{
    return (double)sl_clock_wall() / (double)SL_MS;
}

#define SLICE  (50 * SL_MS)
#define SECOND 20 /* slices */
#define SLICES (3 * SECOND)

static sl_ns own_time(void)
{
    struct timespec at;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &at);
    return at.tv_sec * SL_S + at.tv_nsec;
}

/* Takes of random keys for one slice of processor time: how many. */
static unsigned take_slice(struct sluice *gate, uint64_t *seed)
{
    struct sluice_part parts[64];
    uint64_t key[64];
    unsigned taken = 0;

    for (sl_ns end = own_time() + SLICE; own_time() < end; taken += 64) {
        for (unsigned j = 0; j < 64; j++) {
            *seed = *seed * UINT64_C(6364136223846793005) + 1442695040888963407;
            key[j] = (*seed >> 32) % START_KEYS;
            parts[j] = (struct sluice_part){
                .key = &key[j], .key_len = sizeof(key[j]), .cost = 1};
        }
        if (sluice_take_batch(gate, parts, 64) < 0)
            exit(1);
    }
    return taken;
}

static int by_count(const void *a, const void *b)
{
    return (*(const unsigned *)a > *(const unsigned *)b) -
           (*(const unsigned *)a < *(const unsigned *)b);
}

/* How long after it was opened a gate takes at 0.9 of the rate that it has two
 * seconds later; *ret_first: the rate of the first second, relative to that. */
static double speed_up(struct sluice *gate, double *ret_first)
{
    unsigned taken[SLICES], late[SECOND], usual, slice = 0;
    uint64_t seed = 1, second = 0;

    for (unsigned i = 0; i < SLICES; i++)
        taken[i] = take_slice(gate, &seed);
    memcpy(late, taken + SLICES - SECOND, sizeof(late));
    qsort(late, SECOND, sizeof(late[0]), by_count);
    usual = late[SECOND / 2];
    for (unsigned i = 0; i < SECOND; i++)
        second += taken[i];
    *ret_first = (double)second / SECOND / usual;
    while (slice < SLICES - 1 && taken[slice] < 0.9 * usual)
        slice++;
    return (double)slice * (double)SLICE / (double)SL_MS;
}

/* The best of three, because others use the machine as well. */
static void start_row(void)
{
    char path[] = "/tmp/sluice-bench-XXXXXX";
    int fd = mkstemp(path);
    struct sluice *gate;
    double best = 1e9, slow = 1e9, first = 0;

    if (fd < 0)
        exit(1);
    close(fd);
    gate = open_state(path);
    fill_state(gate);
    sluice_close(gate);
    for (unsigned i = 0; i < 3; i++) {
        double from = wall_ms(), took, share;

        gate = open_state(path);
        took = wall_ms() - from;
        best = took < best ? took : best;
        took = speed_up(gate, &share);
        slow = took < slow ? took : slow;
        first = share > first ? share : first;
        sluice_close(gate);
    }
    unlink(path);
    printf("start-5m-keys\t%.1f\t<= 50.0\t%s\tms to open a state file of 5 "
           "million keys that was closed in order\n",
           best, best <= 50 ? "ok" : "short");
    printf("start-5m-keys-speed\t%.0f\t<= 1000\t%s\tms of processor time until "
           "random takes have 0.9 of their later rate; the first second has "
           "%.2f of it\n",
           slow, slow <= 1000 ? "ok" : "short", first);
    fflush(stdout);
}

void bench_gate(void)
{
    struct gate g, own;

    for (unsigned i = 0; i < KEYS; i++)
        snprintf(keys[i], sizeof(keys[i]), "user-%016u", i);
    if (sl_hash_key_make(&secret))
        exit(1);
    g = open_gate(1, NULL);
    own = open_gate(1, own_clock);
    print_row("take-hot", measure(stand_in, NULL, takes, &g), GOVERNOR,
              "libsluice, 1,000 text keys; a stand-in for governor");
    print_row("take-hot-own-clock", measure(stand_in, NULL, takes, &own),
              0.8 * GOVERNOR, "the same with the caller's clock");
    sluice_close(g.gate);
    sluice_close(own.gate);
    set_row(4);
    set_row(16);
    start_row();
}
