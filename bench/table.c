/* table.c -- what the table costs, each row against what the machine can do
 * with bare memory in the same run.
 *
 * The references touch as much memory as the table, under the same huge pages:
 * a read-modify-write of a random line, the next line depending on this one
 * (dependent), or thirty-two lines fetched together (prefetched).
 */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bench.h"
#include "pair.h"
#include "table/set.h"
#include "table/table.h"

#define GIB    (UINT64_C(1) << 30)
#define LINE   64
#define BATCH  32
#define LIMITS 4
#define HOT    (LIMITS - 1)

/* A table under test and how far it is filled. */
struct field {
    struct sl_table table;
    struct sl_limit_binding limits[LIMITS];
    uint64_t keys; /* per limit, but for the last, which has one hot key */
    sl_ns now;
    uint64_t at; /* the key that comes next; new keys count up from `keys` */
};

static struct field big, file_field;
static char *lines; /* the reference's memory */
static uint64_t line_count;

static uint64_t mix(uint64_t x)
{
    x ^= x >> 32;
    x *= UINT64_C(0x9fb21c651e98df25);
    x ^= x >> 29;
    x *= UINT64_C(0xa0761d6478bd642f);
    return x ^ x >> 32;
}

/* ---- setting up ---- */

static void set_limits(struct field *f)
{
    static const char *const names[] = {"one", "two", "three", "hot"};
    struct sl_diag diag = {0};
    struct sl_rate rate;

    for (unsigned i = 0; i < LIMITS; i++) {
        struct sl_limit_binding *l = &f->limits[i];
        struct sl_str text = i == HOT ? SL_STR("4000M/h") : SL_STR("1M/h");

        *l = (struct sl_limit_binding){.name = names[i], .share = 250};
        if (sl_parse_rate(text, &rate, &diag) ||
            sl_limit_init(&l->strictest, SL_BUCKET, &rate, NULL, &diag) ||
            sl_table_add_limit(&f->table, l)) {
            fprintf(stderr, "bench: %s\n", diag.sentence);
            exit(1);
        }
    }
}

static uint64_t take(struct field *f, unsigned limit, uint64_t key,
                     uint64_t cost)
{
    struct sl_part part = {
        .binding = &f->limits[limit],
        .limit = &f->limits[limit].strictest,
        .key = {(const char *)&key, sizeof(key)},
        .cost = cost
    };

    (void)!sl_table_decide(&f->table, &part, 1, f->now, true);
    return part.answer.remaining;
}

/* Fill with keys that owe half of what they may, so that none gives way. */
static void fill(struct field *f, double share)
{
    f->now = INT64_C(1790000000) * SL_S;
    f->keys = (uint64_t)((double)sl_region_head(&f->table.region)->buckets *
                         SL_SLOTS * share / 3);
    for (uint64_t k = 0; k < f->keys; k++)
        for (unsigned l = 0; l < 3; l++)
            take(f, l, k, 500000);
    f->at = 1;
}

static void open_heap(struct field *f, uint64_t size)
{
    struct sl_region region;
    struct sl_diag diag = {0};

    if (sl_region_open_heap(&region, size, &diag)) {
        fprintf(stderr, "bench: %s\n", diag.sentence);
        exit(1);
    }
    sl_table_init(&f->table, &region, SL_FULL_ALLOW);
    set_limits(f);
}

static void open_file(struct field *f, const char *path, uint64_t size)
{
    struct sl_region region;
    struct sl_diag diag = {0};

    if (sl_region_open_file(&region, path, size, SL_DAMAGE_REFUSE, &diag)) {
        fprintf(stderr, "bench: %s\n", diag.sentence);
        exit(1);
    }
    sl_table_init(&f->table, &region, SL_FULL_ALLOW);
    set_limits(f);
}

static void get_lines(uint64_t size)
{
    uint64_t huge = UINT64_C(2) << 20;
    char *map = mmap(NULL, size + huge, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (map == MAP_FAILED)
        exit(1);
    lines = map + (huge - (uintptr_t)map % huge);
    madvise(lines, size, MADV_HUGEPAGE);
    memset(lines, 1, size);
    line_count = size / LINE;
}

/* ---- the references ---- */

static uint64_t bare_dependent(void *ctx, uint64_t rounds)
{
    uint64_t x = 1;

    (void)ctx;
    for (uint64_t i = 0; i < rounds; i++) {
        uint64_t *word =
            (uint64_t *)(void *)(lines + mix(x + i) % line_count * LINE);

        x = *word += i;
    }
    return x;
}

static uint64_t bare_prefetched(void *ctx, uint64_t rounds)
{
    static uint64_t seed;
    uint64_t at[BATCH], sum = 0;

    (void)ctx;
    for (uint64_t i = 0; i < rounds; i += BATCH) {
        for (unsigned j = 0; j < BATCH; j++) {
            at[j] = mix(++seed) % line_count * LINE;
            __builtin_prefetch(lines + at[j], 1);
        }
        for (unsigned j = 0; j < BATCH; j++)
            sum += ++*(uint64_t *)(void *)(lines + at[j]);
    }
    return sum;
}

/* ---- the candidates ---- */

static uint64_t existing(void *ctx, uint64_t rounds)
{
    struct field *f = ctx;
    uint64_t x = 0;

    for (uint64_t i = 0; i < rounds; i++) {
        x = take(f, 0, (mix(++f->at) ^ (x & 1)) % f->keys, 1);
        f->now += 100;
    }
    return x;
}

static uint64_t set_of_three(void *ctx, uint64_t rounds)
{
    struct field *f = ctx;
    uint64_t x = 0;

    for (uint64_t i = 0; i < rounds; i++) {
        struct sl_part parts[3];
        uint64_t key[3];

        for (unsigned l = 0; l < 3; l++) {
            key[l] = (mix(++f->at) ^ (x & 1)) % f->keys;
            parts[l] = (struct sl_part){
                .binding = &f->limits[l],
                .limit = &f->limits[l].strictest,
                .key = {(const char *)&key[l], sizeof(key[l])},
                .cost = 1
            };
        }
        (void)!sl_table_decide(&f->table, parts, 3, f->now, true);
        x = parts[0].answer.remaining + parts[2].answer.remaining;
        f->now += 100;
    }
    return x;
}

static uint64_t batches(void *ctx, uint64_t rounds)
{
    struct field *f = ctx;
    struct sl_part parts[BATCH], *pointers[BATCH];
    enum sl_set_result verdicts[BATCH];
    uint64_t keys[BATCH], sum = 0;

    for (unsigned j = 0; j < BATCH; j++) {
        parts[j] = (struct sl_part){
            .binding = &f->limits[0],
            .limit = &f->limits[0].strictest,
            .key = {(const char *)&keys[j], sizeof(keys[j])},
            .cost = 1
        };
        pointers[j] = &parts[j];
    }
    for (uint64_t i = 0; i < rounds; i += BATCH) {
        for (unsigned j = 0; j < BATCH; j++)
            keys[j] = mix(f->at++) % f->keys;
        sl_table_batch(&f->table, pointers, verdicts, BATCH, f->now, true);
        sum += parts[0].answer.remaining;
        f->now += 100;
    }
    return sum;
}

/* Keys that were never seen, one depending on the other. Each owes a little,
 * so that when the table is full they replace one another. */
static uint64_t first_sight(void *ctx, uint64_t rounds)
{
    static uint64_t fresh;
    struct field *f = ctx;
    uint64_t x = 0;

    for (uint64_t i = 0; i < rounds; i++) {
        x = take(f, 0, mix(f->keys + ++fresh + (x & 1)) | GIB << 20, 1);
        f->now += 100;
    }
    return x;
}

/* ---- threads ---- */

struct runner;

typedef void step_f(struct runner *self);

struct runner {
    step_f *step;
    struct field *field;
    uint64_t seed;
    uint64_t done;
    atomic_bool *stop;
};

static atomic_uint_fast64_t hot_word;

static void step_distinct(struct runner *r)
{
    uint64_t key = mix(r->seed += 2) % r->field->keys;

    take(r->field, (unsigned)(r->seed % 2), key, 1);
}

static void step_hot(struct runner *r)
{
    take(r->field, HOT, 0, 1);
}

static void step_cas(struct runner *r)
{
    uint64_t seen = atomic_load_explicit(&hot_word, memory_order_relaxed);

    (void)r;
    while (!atomic_compare_exchange_weak(&hot_word, &seen, seen + 1))
        ;
}

static void *run(void *ctx)
{
    struct runner *r = ctx;

    while (!atomic_load_explicit(r->stop, memory_order_relaxed)) {
        for (uint64_t i = 0; i < 64; i++)
            r->step(r);
        r->done += 64;
    }
    return NULL;
}

/* Steps per second of `threads` threads, each on a core of its own, in a short
 * slice of time. */
static double speed(struct field *f, unsigned threads, step_f *step)
{
    atomic_bool stop = false;
    struct runner runners[2];
    pthread_t ids[2];
    double sum = 0;

    for (unsigned i = 0; i < threads; i++) {
        cpu_set_t core;

        CPU_ZERO(&core);
        CPU_SET(i, &core);
        runners[i] = (struct runner){step, f, mix(f->at += 7919) | i, 0, &stop};
        pthread_create(&ids[i], NULL, run, &runners[i]);
        pthread_setaffinity_np(ids[i], sizeof(core), &core);
    }
    usleep(20000);
    atomic_store(&stop, true);
    for (unsigned i = 0; i < threads; i++) {
        pthread_join(ids[i], NULL);
        sum += (double)runners[i].done;
    }
    f->now += SL_S;
    return sum / 0.02;
}

/* Slices in which the two threads did not meet, because something else had a
 * core, say nothing: two threads that fight for a word are several times slower
 * together than one alone. */
static double hot_ratio(struct field *f, unsigned *valid)
{
    static double ratios[41];

    *valid = 0;
    for (unsigned i = 0; i < 400 && *valid < 41; i++) {
        double alone = speed(f, 1, step_cas), bare = speed(f, 2, step_cas);
        double hot = speed(f, 2, step_hot);

        if (3 * bare < alone)
            ratios[(*valid)++] = bare / hot;
    }
    return *valid ? median(ratios, *valid) : 0;
}

static double two_ratio(struct field *f)
{
    static double ratios[41];

    for (unsigned i = 0; i < 41; i++) {
        double one = speed(f, 1, step_distinct);

        ratios[i] = speed(f, 2, step_distinct) / one;
    }
    return median(ratios, 41);
}

/* ---- memory ---- */

/* Insert keys that owe half until one in 10,000 of a window of inserts finds
 * no free slot, and divide. */
/* Bytes of this process in memory. */
static double resident(void)
{
    unsigned long all, here;
    FILE *file = fopen("/proc/self/statm", "re");

    if (!file || fscanf(file, "%lu %lu", &all, &here) != 2)
        exit(1);
    fclose(file);
    return (double)here * (double)sysconf(_SC_PAGESIZE);
}

/* What was not there before the table was, and is now: places for holds that
 * without a take are not. */
static double bytes_per_key(void)
{
    struct field f = {0};
    struct sl_table_stats before, after;
    double at_first = resident(), at_last;
    uint64_t key = 0;

    open_heap(&f, UINT64_C(256) << 20);
    f.now = INT64_C(1790000000) * SL_S;
    do {
        sl_table_stats(&f.table, &before);
        for (unsigned i = 0; i < 100000; i++, key++)
            take(&f, (unsigned)(key % 3), key, 100000);
        sl_table_stats(&f.table, &after);
    } while (after.counted[SL_STAT_FULL] + after.counted[SL_STAT_EVICTED] -
                 before.counted[SL_STAT_FULL] -
                 before.counted[SL_STAT_EVICTED] <
             10);
    at_last = resident();
    sl_table_done(&f.table);
    return (at_last - at_first) / (double)after.occupied;
}

/* ---- rows ---- */

static void single_thread_rows(void)
{
    print_row("take-existing", measure(bare_dependent, NULL, existing, &big),
              1.25, "1 GiB, dependent keys; bare read-modify-write");
    print_row("take-batch-32", measure(bare_prefetched, NULL, batches, &big), 5,
              "1 GiB, batches of 32; prefetched read-modify-write");
    print_row("take-set-of-3", measure(existing, &big, set_of_three, &big), 1.6,
              "1 GiB, dependent keys; one limit");
    print_row("take-first-sight", measure(existing, &big, first_sight, &big), 2,
              "1 GiB; an existing key");
}

static void thread_rows(void)
{
    unsigned valid;
    double two = two_ratio(&big);
    double hot = hot_ratio(&big, &valid);

    printf("two-threads\t%.2f\t>= 1.80\t%s\tdistinct keys; one thread\n", two,
           two >= 1.8 ? "ok" : "short");
    printf("two-threads-hot-key\t%.2f\t<= 2.50\t%s\tone key; two threads' bare "
           "compare-and-swap on one word, %u slices\n",
           hot, hot <= 2.5 && valid ? "ok" : "short", valid);
    fflush(stdout);
}

static void file_row(void)
{
    char path[] = "/tmp/sluice-bench-XXXXXX";
    struct field heap = {0};
    int fd = mkstemp(path);

    if (fd < 0)
        exit(1);
    close(fd);
    open_file(&file_field, path, UINT64_C(256) << 20);
    open_heap(&heap, UINT64_C(256) << 20);
    fill(&file_field, 0.4);
    fill(&heap, 0.4);
    print_row("file-region", measure(existing, &heap, existing, &file_field),
              1.1, "256 MiB, dependent keys; heap region");
    sl_table_done(&file_field.table);
    sl_table_done(&heap.table);
    unlink(path);
}

void bench_table(void)
{
    double bytes;

    fprintf(stderr, "bench: filling 1 GiB\n");
    open_heap(&big, GIB);
    get_lines(GIB);
    fill(&big, 0.4);
    single_thread_rows();
    thread_rows();
    sl_table_done(&big.table);
    fprintf(stderr, "bench: files and bytes\n");
    file_row();
    bytes = bytes_per_key();
    printf("bytes-per-key\t%.1f\t<= 40.0\t%s\tresident, where one insert in "
           "10,000 "
           "displaces a live cell\n",
           bytes, bytes <= 40 ? "ok" : "short");
}
