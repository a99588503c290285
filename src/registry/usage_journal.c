/* usage_journal.c -- the journal's file: segments, lines, reading, syncing. */
#include "registry/usage_journal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "net/loop.h"
#include "registry/registry_int.h"

#define MAGIC         UINT64_C(0x6a65676173757c73) /* "s|usagej" */
#define SEGMENT_MAGIC UINT64_C(0x746e656d67657301) /* "\1segment" */
#define VERSION       2

/* A segment of version 1 had its stream and sequence when it was sealed, and
 * other checks. */
#define OLD_SEGMENT_MAGIC UINT64_C(0x746e656d67657300)
#define OLD_VERSION       1
#define HEAD              4096 /* bytes before the first segment */
#define PATH_MOST         4096
#define PATHS             64 /* of a journal that daemons share */

struct head {
    uint64_t magic;
    uint32_t version, segment;
    uint64_t size;
    uint64_t node;
    uint64_t check;
};

struct sl_usage_journal {
    const struct sl_alloc *alloc;
    const char *path; /* NULL: in memory */
    char *other;      /* of PATH_MOST bytes: a path with a number, or NULL */
    int fd;
    char *base;
    uint64_t size;
    unsigned count;         /* of segments */
    _Atomic uint64_t *free; /* a bit for each */
    size_t free_words;
    _Atomic unsigned room; /* bits set */
    _Atomic uint64_t generation, order;
    _Atomic unsigned streams;
    uint64_t first_stream;
    char node[SL_JOURNAL_NODE];
    char notice[512];

    /* What an earlier process has left; one thread. */
    struct sl_usage_segment **recovered;
    size_t recovered_size; /* allocated */
    unsigned recovered_count;
    _Atomic uint64_t lines, units;

    pthread_t thread;
    bool has_thread;
    pthread_mutex_t lock; /* protects the fields below */
    pthread_cond_t more;
    struct sl_journal_sync *waiting;
    bool stop;
};

_Static_assert(sizeof(struct sl_usage_amount) == SL_JOURNAL_UNIT, "one unit");
_Static_assert(offsetof(struct sl_usage_line, amounts) == SL_JOURNAL_UNIT,
               "one unit");
_Static_assert(sizeof(struct sl_usage_segment) == 2 * SL_JOURNAL_UNIT,
               "two units");
_Static_assert((SL_JOURNAL_SEGMENT - 2 * SL_JOURNAL_UNIT) /
                       (4 * SL_JOURNAL_UNIT) <=
                   SL_JOURNAL_LINES,
               "a line has four units at least");

/* ---- checks ---- */

static uint64_t old_check_of(uint64_t key, const void *bytes, size_t len)
{
    struct sl_hash_key secret = {key, OLD_SEGMENT_MAGIC};

    return sl_hash64(&secret, (struct sl_str){bytes, len});
}

/* The halves of the product, folded. */
static uint64_t fold(uint64_t a, uint64_t b)
{
    unsigned __int128 product = (unsigned __int128)a * b;

    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* Finds damage: pages that were not written, and bytes that changed. It is no
 * protection against forgery, so one product for 16 bytes is enough. `len` is a
 * multiple of 8. */
static uint64_t check_of(uint64_t key, const void *bytes, size_t len)
{
    const uint64_t odd = UINT64_C(0x9e3779b97f4a7c15);
    uint64_t sum = fold(key ^ SEGMENT_MAGIC, odd ^ len), pair[2] = {0};
    const char *at = bytes;

    for (; len >= sizeof(pair); len -= sizeof(pair), at += sizeof(pair)) {
        memcpy(pair, at, sizeof(pair));
        sum = fold(sum ^ pair[0], odd ^ pair[1]);
    }
    if (len == 0)
        return sum;
    memcpy(pair, at, sizeof(pair[0]));
    return fold(sum ^ pair[0], odd);
}

static uint64_t head_check(const struct head *head)
{
    return old_check_of(MAGIC, head, offsetof(struct head, check));
}

static bool is_old(const struct sl_usage_segment *segment)
{
    return segment->magic == OLD_SEGMENT_MAGIC;
}

typedef uint64_t check_f(uint64_t key, const void *bytes, size_t len);

/* The generation and the place are part of it, so that a line of an earlier use
 * of the segment is not taken for one of this. */
static uint32_t line_check(const struct sl_usage_segment *segment,
                           const struct sl_usage_line *line)
{
    const char *tail = (const char *)&line->thresholds;
    check_f *f = is_old(segment) ? old_check_of : check_of;
    struct sl_usage_line first;
    uint64_t key = segment->generation +
                   (uint64_t)((const char *)line - (const char *)segment);

    memcpy(&first, line, SL_JOURNAL_UNIT);
    first.check = 0;
    atomic_init(&first.which, 0);
    key = f(key, &first, SL_JOURNAL_UNIT);
    key = f(key, tail,
            (size_t)line->size * SL_JOURNAL_UNIT -
                offsetof(struct sl_usage_line, thresholds));
    return (uint32_t)(key ^ key >> 32);
}

static uint64_t open_check(const struct sl_usage_segment *segment)
{
    const uint64_t words[] = {segment->magic, atomic_load(&segment->order),
                              segment->stream, segment->sequence};

    return is_old(segment)
               ? old_check_of(segment->generation, words, 2 * sizeof(words[0]))
               : check_of(segment->generation, words, sizeof(words));
}

static uint64_t sealed_check(const struct sl_usage_segment *segment)
{
    check_f *f = is_old(segment) ? old_check_of : check_of;
    const uint64_t words[] = {
        segment->check_open, segment->stream, segment->sequence,
        f(segment->generation, segment + 1,
          atomic_load(&segment->used) - sizeof(*segment))};

    return f(segment->generation, words, sizeof(words));
}

/* ---- lines ---- */

struct sl_usage_line *
sl_usage_segment_next(const struct sl_usage_segment *segment,
                      const struct sl_usage_line *line)
{
    const char *at =
        line ? (const char *)line + (size_t)line->size * SL_JOURNAL_UNIT
             : (const char *)(segment + 1);

    return at < (const char *)segment +
                       atomic_load_explicit(&segment->used,
                                            memory_order_relaxed)
               ? (struct sl_usage_line *)(uintptr_t)at
               : NULL;
}

void sl_usage_line_read(const struct sl_usage_line *line,
                        struct sl_usage_entry *ret)
{
    const struct sl_usage_amount *a = sl_usage_line_amount(line);
    const char *at = line->texts;
    struct sl_str *texts[] = {&ret->limit, &ret->scope, &ret->id,   &ret->key,
                              &ret->name,  &ret->node,  &ret->plan, &ret->zone};

    *ret = (struct sl_usage_entry){
        .fingerprint = line->fingerprint,
        .act = (enum sl_usage_act)a->act,
        .level = a->level,
        .reset = line->flags & SL_LINE_RESET,
        .needs_refund = line->flags & SL_LINE_NEEDS_REFUND,
        .start = a->start,
        .end = a->end,
        .last_day = a->last_day,
        .at = a->at,
        .amount = a->amount,
        .cap = a->cap,
        .thresholds = line->thresholds,
        .hold = {line->hold[0], line->hold[1]},
        .until = a->until,
    };
    for (size_t i = 0; i < SL_LEN(texts); i++) {
        *texts[i] = (struct sl_str){at, line->lengths[i]};
        at += line->lengths[i];
    }
}

static void fill_amount(struct sl_usage_amount *a,
                        const struct sl_usage_entry *u)
{
    *a = (struct sl_usage_amount){
        .amount = u->amount,
        .at = u->at,
        .cap = u->cap,
        .until = u->until,
        .start = u->start,
        .end = u->end,
        .last_day = u->last_day,
        .act = (uint8_t)u->act,
        .level = u->level,
    };
}

/* Writes a line at *used, and moves *used behind it. Returns NULL without room.
 */
static struct sl_usage_line *write_line(struct sl_usage_segment *segment,
                                        uint32_t *used,
                                        const struct sl_usage_entry *u,
                                        uint64_t hash, unsigned flags)
{
    const struct sl_str texts[] = {u->limit, u->scope, u->id,   u->key,
                                   u->name,  u->node,  u->plan, u->zone};
    struct sl_usage_line *line = (void *)((char *)segment + *used);
    size_t size = sizeof(*line);
    char *at = line->texts;

    for (size_t i = 0; i < SL_LEN(texts); i++)
        size += texts[i].len < UINT16_MAX ? texts[i].len : SL_JOURNAL_SEGMENT;
    size = (size + SL_JOURNAL_UNIT - 1) / SL_JOURNAL_UNIT * SL_JOURNAL_UNIT;
    if (size > SL_JOURNAL_SEGMENT - *used)
        return NULL;
    memset(line, 0, size);
    line->size = (uint16_t)(size / SL_JOURNAL_UNIT);
    line->flags = (uint8_t)flags;
    line->hash = hash;
    line->fingerprint = u->fingerprint;
    line->hold[0] = u->hold[0];
    line->hold[1] = u->hold[1];
    line->thresholds = u->thresholds;
    fill_amount(&line->amounts[0], u);
    line->amounts[1] = line->amounts[0];
    for (size_t i = 0; i < SL_LEN(texts); i++) {
        line->lengths[i] = (uint16_t)texts[i].len;
        if (texts[i].len > 0)
            memcpy(at, texts[i].at, texts[i].len);
        at += texts[i].len;
    }
    line->check = line_check(segment, line);
    *used += (uint32_t)size;
    return line;
}

struct sl_usage_line *sl_usage_segment_add(struct sl_usage_segment *segment,
                                           const struct sl_usage_entry *usage,
                                           uint64_t hash, unsigned flags)
{
    uint32_t used = atomic_load_explicit(&segment->used, memory_order_relaxed);
    struct sl_usage_line *line = write_line(segment, &used, usage, hash, flags);

    atomic_store_explicit(&segment->used, used, memory_order_release); /* (1) */
    return line;
}

bool sl_usage_segment_add_reports(struct sl_usage_segment *segment,
                                  const struct sl_usage_entry *reports,
                                  unsigned count)
{
    uint32_t used = atomic_load_explicit(&segment->used, memory_order_relaxed);

    for (unsigned i = 0; i < count; i++)
        if (!write_line(segment, &used, &reports[i], 0,
                        reports[i].needs_refund
                            ? SL_LINE_REPORT | SL_LINE_NEEDS_REFUND
                            : SL_LINE_REPORT))
            return false;
    atomic_store_explicit(&segment->used, used, memory_order_release); /* (1) */
    return true;
}

/* ---- segments ---- */

struct sl_usage_segment *sl_usage_segment_at(const struct sl_usage_journal *j,
                                             unsigned index)
{
    return (void *)(j->base + HEAD + index * SL_JOURNAL_SEGMENT);
}

unsigned sl_usage_segment_index(const struct sl_usage_journal *j,
                                const struct sl_usage_segment *segment)
{
    return (unsigned)((size_t)((const char *)segment - j->base - HEAD) /
                      SL_JOURNAL_SEGMENT);
}

unsigned sl_usage_journal_segments(const struct sl_usage_journal *j)
{
    return j->count;
}

unsigned sl_usage_journal_room(const struct sl_usage_journal *j)
{
    return atomic_load_explicit(&j->room, memory_order_relaxed);
}

/* Takes a free bit. Returns false if there is none. */
static bool take_free(struct sl_usage_journal *j, unsigned *ret)
{
    for (size_t i = 0; i < j->free_words; i++) {
        uint64_t word = atomic_load_explicit(&j->free[i], memory_order_relaxed);

        while (word)
            if (atomic_compare_exchange_weak_explicit(
                    &j->free[i], &word, word & (word - 1), memory_order_acquire,
                    memory_order_relaxed)) {
                *ret = (unsigned)(64 * i) + (unsigned)__builtin_ctzll(word);
                atomic_fetch_sub(&j->room, 1);
                return true;
            }
    }
    return false;
}

static void give_free(struct sl_usage_journal *j, unsigned index)
{
    atomic_fetch_or_explicit(&j->free[index / 64], UINT64_C(1) << index % 64,
                             memory_order_release);
    atomic_fetch_add(&j->room, 1);
}

struct sl_usage_segment *sl_usage_segment_reserve(struct sl_usage_journal *j)
{
    unsigned index;

    return take_free(j, &index) ? sl_usage_segment_at(j, index) : NULL;
}

void sl_usage_segment_begin(struct sl_usage_journal *j,
                            struct sl_usage_segment *segment, uint64_t stream,
                            uint64_t sequence, sl_ns now)
{
    segment->magic = SEGMENT_MAGIC;
    segment->stream = stream;
    segment->sequence = sequence;
    segment->generation = atomic_fetch_add(&j->generation, 1);
    atomic_store_explicit(&segment->order, atomic_fetch_add(&j->order, 1),
                          memory_order_relaxed);
    atomic_store_explicit(&segment->since, now, memory_order_relaxed);
    atomic_store_explicit(&segment->used, (uint32_t)sizeof(*segment),
                          memory_order_relaxed);
    segment->check_open = open_check(segment);
    atomic_store_explicit(&segment->state, SL_SEGMENT_OPEN,
                          memory_order_release);
}

struct sl_usage_segment *sl_usage_segment_open(struct sl_usage_journal *j,
                                               uint64_t stream,
                                               uint64_t sequence, sl_ns now)
{
    struct sl_usage_segment *segment = sl_usage_segment_reserve(j);

    if (segment)
        sl_usage_segment_begin(j, segment, stream, sequence, now);
    return segment;
}

void sl_usage_segment_seal(struct sl_usage_segment *segment)
{
    segment->check_sealed = sealed_check(segment);
    atomic_store_explicit(&segment->state, SL_SEGMENT_SEALED,
                          memory_order_release);
}

void sl_usage_segment_free(struct sl_usage_journal *j,
                           struct sl_usage_segment *segment)
{
    uint32_t used = atomic_load_explicit(&segment->used, memory_order_relaxed);

    atomic_store_explicit(&segment->state, SL_SEGMENT_FREE,
                          memory_order_release);
    if (used > sizeof(*segment) && used <= SL_JOURNAL_SEGMENT)
        memset(segment + 1, 0, used - sizeof(*segment)); /* names */
    give_free(j, sl_usage_segment_index(j, segment));
}

/* ---- reading what may be damaged ---- */

static bool is_amount(const struct sl_usage_amount *a)
{
    return a->amount >= -SL_USAGE_MOST && a->amount <= SL_USAGE_MOST &&
           a->at >= 0 && a->start >= 0 && a->act <= SL_USAGE_ACT_REFUNDED &&
           a->level <= 1;
}

/* Returns whether there is a good line at `at`, which ends before `end`. */
static bool is_line(const struct sl_usage_segment *segment, uint32_t at,
                    uint32_t end)
{
    const struct sl_usage_line *line =
        (const void *)((const char *)segment + at);
    size_t len = sizeof(*line);

    if (at + 4 * SL_JOURNAL_UNIT > end || line->size < 4 ||
        (size_t)line->size * SL_JOURNAL_UNIT > end - at ||
        atomic_load(&line->which) > 1 || line->thresholds.count > SL_THRESHOLDS)
        return false;
    for (size_t i = 0; i < SL_LEN(line->lengths); i++)
        len += line->lengths[i];
    return len <= (size_t)line->size * SL_JOURNAL_UNIT &&
           line->check == line_check(segment, line) &&
           is_amount(sl_usage_line_amount(line));
}

static bool is_head(const struct sl_usage_segment *segment, uint32_t state,
                    uint32_t used)
{
    return (segment->magic == SEGMENT_MAGIC || is_old(segment)) &&
           state <= SL_SEGMENT_SEALED &&
           segment->check_open == open_check(segment) &&
           used >= sizeof(*segment) && used <= SL_JOURNAL_SEGMENT &&
           used % SL_JOURNAL_UNIT == 0 &&
           (state == SL_SEGMENT_OPEN ||
            segment->check_sealed == sealed_check(segment));
}

unsigned sl_usage_segment_check(const struct sl_usage_segment *segment,
                                uint32_t *ret_end, bool *ret_damaged)
{
    uint32_t state = atomic_load(&segment->state);
    uint32_t used = atomic_load(&segment->used), at = sizeof(*segment);
    unsigned lines = 0;

    *ret_end = at;
    *ret_damaged = state != SL_SEGMENT_FREE && !is_head(segment, state, used);
    if (state == SL_SEGMENT_FREE || *ret_damaged)
        return 0;
    for (; is_line(segment, at, used); lines++)
        at +=
            (uint32_t)SL_JOURNAL_UNIT *
            ((const struct sl_usage_line *)((const char *)segment + at))->size;
    *ret_end = at;
    *ret_damaged = at < used; /* (4) */
    return lines;
}

/* ---- an earlier process ---- */

/* By age: the segments of a stream are opened in the order of their sequences.
 * After a power failure a segment may be open again that is older than a sealed
 * one. */
static int compare(const void *a, const void *b)
{
    const struct sl_usage_segment *x = *(struct sl_usage_segment *const *)a;
    const struct sl_usage_segment *y = *(struct sl_usage_segment *const *)b;

    if (x->order != y->order)
        return x->order < y->order ? -1 : 1;
    return (x->sequence > y->sequence) - (x->sequence < y->sequence);
}

static void count_segment(const struct sl_usage_segment *segment,
                          uint64_t *lines, uint64_t *units)
{
    const struct sl_usage_line *line = NULL;

    *lines = *units = 0;
    while ((line = sl_usage_segment_next(segment, line))) {
        int64_t amount = sl_usage_line_amount(line)->amount;

        ++*lines;
        *units += amount > 0 ? (uint64_t)amount : 0;
    }
}

/* Writes a copy of the damaged file beside it. */
static bool keep_aside(const struct sl_usage_journal *j)
{
    char name[PATH_MOST];
    size_t done = 0;
    ssize_t got = 1;
    int fd;

    if (snprintf(name, sizeof(name), "%s.damaged", j->path) >= PATH_MOST)
        return false;
    fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    while (fd >= 0 && done < j->size && got > 0) {
        got = write(fd, j->base + done, j->size - done);
        done += got > 0 ? (size_t)got : 0;
    }
    if (fd >= 0)
        close(fd);
    return fd >= 0 && done == j->size;
}

/* Seals the segments that were open. One of version 1 belongs to no stream yet.
 */
static void seal_recovered(struct sl_usage_journal *j)
{
    uint64_t sequence = 0, lines, units;

    qsort(j->recovered, j->recovered_count, sizeof(struct sl_usage_segment *),
          compare);
    for (unsigned i = 0; i < j->recovered_count; i++) {
        struct sl_usage_segment *segment = j->recovered[i];

        if (atomic_load(&segment->state) == SL_SEGMENT_OPEN) {
            if (is_old(segment)) {
                segment->stream = j->first_stream;
                segment->sequence = ++sequence;
            }
            sl_usage_segment_seal(segment);
        }
        count_segment(segment, &lines, &units);
        atomic_fetch_add(&j->lines, lines);
        atomic_fetch_add(&j->units, units);
    }
}

static unsigned count_damaged(const struct sl_usage_journal *j)
{
    unsigned damaged = 0;
    uint32_t end;
    bool bad;

    for (unsigned i = 0; i < j->count; i++) {
        (void)sl_usage_segment_check(sl_usage_segment_at(j, i), &end, &bad);
        damaged += bad;
    }
    return damaged;
}

/* Finds the segments with lines. All others are free from now on. */
static void recover(struct sl_usage_journal *j)
{
    unsigned damaged = count_damaged(j), all = 0;
    bool kept = damaged > 0 && keep_aside(j), bad;

    for (unsigned i = 0; i < j->count; i++) {
        struct sl_usage_segment *segment = sl_usage_segment_at(j, i);
        uint32_t end;
        unsigned lines = sl_usage_segment_check(segment, &end, &bad);

        all += lines;
        if (lines == 0) {
            sl_usage_segment_free(j, segment);
            continue;
        }
        atomic_store(&segment->used, end);
        j->recovered[j->recovered_count++] = segment;
    }
    seal_recovered(j);
    if (j->recovered_count > 0) /* old segments have their stream from now on */
        (void)!sl_usage_journal_flush(j);
    if (damaged > 0)
        snprintf(j->notice, sizeof(j->notice),
                 "%.200s: %u segments are damaged; %u lines were read, and "
                 "what follows damage in a segment was not; %s",
                 j->path, damaged, all,
                 kept ? "a copy of the file has the same name and .damaged"
                      : "a copy could not be written");
}

struct sl_usage_segment *
sl_usage_journal_recovered(const struct sl_usage_journal *j, unsigned index)
{
    return index < j->recovered_count ? j->recovered[index] : NULL;
}

void sl_usage_journal_drop_recovered(struct sl_usage_journal *j, unsigned index)
{
    struct sl_usage_segment *segment = sl_usage_journal_recovered(j, index);
    uint64_t lines, units;

    if (!segment)
        return;
    count_segment(segment, &lines, &units);
    atomic_fetch_sub(&j->lines, lines);
    atomic_fetch_sub(&j->units, units);
    j->recovered[index] = NULL;
    sl_usage_segment_free(j, segment);
}

/* ---- the file ---- */

static int refuse(const struct sl_usage_journal *j, int err, const char *why,
                  struct sl_diag *diag)
{
    return sl_diag_error(diag, err,
                         "cannot use the usage journal %s: %s; choose another "
                         "file or size with --journal PATH?size=SIZE",
                         j->path, why);
}

static int refuse_system(const struct sl_usage_journal *j, int code,
                         struct sl_diag *diag)
{
    return refuse(j,
                  code == ENOSPC || code == EFBIG ? SLUICE_EFULL : SLUICE_ESYS,
                  strerror(code), diag);
}

static unsigned count_of(uint64_t size)
{
    return (unsigned)((size - HEAD) / SL_JOURNAL_SEGMENT);
}

/* Maps j->size bytes, or leaves j->base NULL. A file is allocated first: a
 * write to the map never finds the disk full. */
static int map(struct sl_usage_journal *j, struct sl_diag *diag)
{
    int code = j->path ? posix_fallocate(j->fd, 0, (off_t)j->size) : 0;
    void *at;

    if (code)
        return refuse_system(j, code, diag);
    at =
        mmap(NULL, j->size, PROT_READ | PROT_WRITE,
             j->path ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
             j->fd, 0);
    if (at == MAP_FAILED)
        return j->path ? refuse_system(j, errno, diag)
                       : sl_diag_error(diag, SLUICE_ENOMEM, "out of memory");
    j->base = at;
    return 0;
}

/* One write to one page: a process that is killed has written all of the head
 * or nothing. */
static int write_head(const struct sl_usage_journal *j, uint64_t node,
                      struct sl_diag *diag)
{
    struct head head = {.magic = MAGIC,
                        .version = VERSION,
                        .segment = (uint32_t)SL_JOURNAL_SEGMENT,
                        .size = j->size,
                        .node = node};
    ssize_t put;

    head.check = head_check(&head);
    do {
        put = pwrite(j->fd, &head, sizeof(head), 0);
    } while (put < 0 && errno == EINTR);
    return put == (ssize_t)sizeof(head)
               ? 0
               : refuse_system(j, put < 0 ? errno : EIO, diag);
}

static bool is_pending(const struct sl_usage_journal *j)
{
    for (unsigned i = 0; i < j->count; i++)
        if (atomic_load(&sl_usage_segment_at(j, i)->state) != SL_SEGMENT_FREE)
            return true;
    return false;
}

/* Makes an existing journal as large as asked for, unless it has lines. */
static int resize(struct sl_usage_journal *j, uint64_t size, uint64_t node,
                  struct sl_diag *diag)
{
    int err;

    if (size == j->size || is_pending(j))
        return 0;
    munmap(j->base, j->size);
    j->base = NULL;
    j->size = size;
    j->count = count_of(size);
    if (ftruncate(j->fd, 0)) /* without a head: a new file */
        return refuse_system(j, errno, diag);
    err = map(j, diag);
    return err ? err : write_head(j, node, diag);
}

/* Moves a file with a damaged head aside, and begins a new one. */
static int begin_again(struct sl_usage_journal *j, struct sl_diag *diag)
{
    char name[PATH_MOST];

    snprintf(name, sizeof(name), "%s.damaged", j->path);
    if (rename(j->path, name))
        return refuse_system(j, errno, diag);
    close(j->fd);
    j->fd = open(j->path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (j->fd < 0 || flock(j->fd, LOCK_EX | LOCK_NB))
        return refuse_system(j, errno, diag);
    snprintf(j->notice, sizeof(j->notice),
             "%.200s: its head is damaged, and 0 lines were read; the file was "
             "renamed to the same name and .damaged",
             j->path);
    return 0;
}

/* A process may have been killed while it wrote a head of version 1 anew, word
 * by word: the version is the new one, the check is that of the old one. */
static bool is_checked(const struct head *head)
{
    struct head old = *head;

    old.version = OLD_VERSION;
    return head->check == head_check(head) ||
           (head->version == VERSION && head->check == head_check(&old));
}

/* Reads the head. *ret_size: of the journal in the file; 0: there is none. */
static int read_head(struct sl_usage_journal *j, uint64_t *ret_size,
                     uint64_t *ret_node, struct sl_diag *diag)
{
    static const struct head none;
    struct head head = none;
    struct stat st = {0};
    ssize_t got = pread(j->fd, &head, sizeof(head), 0);

    *ret_size = 0;
    if (got < 0 || fstat(j->fd, &st))
        return refuse_system(j, errno, diag);
    /* An empty file, or one whose creation did not end. */
    if (got == 0 || memcmp(&head, &none, sizeof(head)) == 0)
        return 0;
    if (got < (ssize_t)sizeof(head) || head.magic != MAGIC)
        return refuse(j, SLUICE_ESYS, "the file is not a usage journal", diag);
    if (!is_checked(&head) || head.size < SL_JOURNAL_LEAST ||
        head.size > SL_JOURNAL_MOST || (uint64_t)st.st_size < head.size)
        return begin_again(j, diag);
    if ((head.version != VERSION && head.version != OLD_VERSION) ||
        head.segment != SL_JOURNAL_SEGMENT)
        return refuse(j, SLUICE_ESYS,
                      "it was written by another version of sluiced", diag);
    *ret_size = head.size;
    *ret_node = head.node;
    return 0;
}

/* Opens or creates the file. Returns 1 if another daemon uses it, 0, or an
 * error. */
static int lock_file(struct sl_usage_journal *j, bool *ret_new,
                     struct sl_diag *diag)
{
    j->fd = open(j->path, O_RDWR | O_CLOEXEC);
    *ret_new = j->fd < 0 && errno == ENOENT;
    if (*ret_new)
        j->fd = open(j->path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (j->fd < 0)
        return refuse_system(j, errno, diag);
    return flock(j->fd, LOCK_EX | LOCK_NB) != 0;
}

/* The next path of a journal that daemons share. Returns false if there is
 * none. */
static bool next_path(struct sl_usage_journal *j, const char *first,
                      unsigned number)
{
    if (number > PATHS)
        return false;
    if (!j->other)
        j->other = sl_alloc_new(j->alloc, PATH_MOST);
    if (!j->other ||
        snprintf(j->other, PATH_MOST, "%s.%u", first, number) >= PATH_MOST)
        return false;
    close(j->fd);
    j->fd = -1;
    j->path = j->other;
    return true;
}

static int open_file(struct sl_usage_journal *j, uint64_t size, bool shared,
                     uint64_t *node, struct sl_diag *diag)
{
    const char *first = j->path;
    uint64_t had = 0;
    bool is_new;
    int err = lock_file(j, &is_new, diag);

    for (unsigned i = 2; err == 1 && shared && next_path(j, first, i); i++)
        err = lock_file(j, &is_new, diag);
    if (err == 1)
        return refuse(j, SLUICE_ESYS, "another sluiced uses it", diag);
    if (!err)
        err = read_head(j, &had, node, diag);
    if (err)
        return err;
    j->size = had ? had : size;
    j->count = count_of(j->size);
    err = map(j, diag);
    if (err && is_new)
        unlink(j->path);
    if (!err)
        err = write_head(j, *node, diag); /* perhaps it was of version 1 */
    return err || !had ? err : resize(j, size, *node, diag);
}

/* ---- syncing ---- */

int sl_usage_journal_flush(struct sl_usage_journal *j)
{
    return !j->path || fdatasync(j->fd) == 0 ? 0 : SLUICE_ESYS;
}

static void on_synced(void *ctx)
{
    struct sl_journal_sync *sync = ctx;

    sync->done(sync);
}

/* Returns the order of the oldest segment that is not free; UINT64_MAX: none.
 */
static uint64_t oldest(const struct sl_usage_journal *j)
{
    uint64_t least = UINT64_MAX;

    for (unsigned i = 0; i < j->count; i++) {
        const struct sl_usage_segment *s = sl_usage_segment_at(j, i);
        uint64_t order = atomic_load_explicit(&s->order, memory_order_relaxed);

        if (atomic_load_explicit(&s->state, memory_order_acquire) !=
                SL_SEGMENT_FREE &&
            order < least)
            least = order;
    }
    return least;
}

/* Answers the syncs in `list`. Those that cannot be posted wait again. */
static struct sl_journal_sync *answer(struct sl_journal_sync *list, int err)
{
    struct sl_journal_sync *again = NULL, *next;

    for (; list; list = next) {
        next = list->next;
        list->err = err;
        if (sl_loop_post(list->loop, on_synced, list) == 0)
            continue;
        list->next = again;
        again = list;
    }
    return again;
}

/* Waits for a sync or for the next second. Returns false to end. */
static bool wait_for(struct sl_usage_journal *j, struct sl_journal_sync **ret)
{
    struct timespec until;
    sl_ns end = sl_clock_wall() + SL_JOURNAL_SYNC;
    bool more;

    until = (struct timespec){end / SL_S, end % SL_S};
    pthread_mutex_lock(&j->lock);
    if (!j->waiting && !j->stop)
        pthread_cond_timedwait(&j->more, &j->lock, &until);
    *ret = j->waiting;
    j->waiting = NULL;
    more = !j->stop;
    pthread_mutex_unlock(&j->lock);
    return more;
}

static void *sync_thread(void *ctx)
{
    struct sl_usage_journal *j = ctx;
    struct sl_journal_sync *list = NULL, *again = NULL;
    uint64_t last = UINT64_MAX, now;
    bool more = true;

    while (more || list || again) {
        more = wait_for(j, &list);
        again = answer(again, 0);
        now = oldest(j);
        /* A segment of the last second is usually recorded soon. */
        if (list || (now != UINT64_MAX && now == last))
            again = answer(list, sl_usage_journal_flush(j));
        last = now;
        list = NULL;
    }
    return NULL;
}

void sl_usage_journal_sync(struct sl_usage_journal *j,
                           struct sl_journal_sync *sync)
{
    bool mine;

    pthread_mutex_lock(&j->lock);
    mine = !j->has_thread || j->stop;
    if (!mine) {
        sync->next = j->waiting;
        j->waiting = sync;
        pthread_cond_signal(&j->more);
    }
    pthread_mutex_unlock(&j->lock);
    if (!mine)
        return;
    sync->err = sl_usage_journal_flush(j);
    sync->done(sync);
}

void sl_usage_journal_stop(struct sl_usage_journal *j)
{
    if (!j || !j->has_thread)
        return;
    pthread_mutex_lock(&j->lock);
    j->stop = true;
    pthread_cond_signal(&j->more);
    pthread_mutex_unlock(&j->lock);
    pthread_join(j->thread, NULL);
    j->has_thread = false;
}

static int start_syncing(struct sl_usage_journal *j, struct sl_diag *diag)
{
    int err = j->path ? sl_thread_start(&j->thread, sync_thread, j, diag) : 0;

    j->has_thread = j->path && !err;
    return err;
}

/* ---- opening ---- */

static int no_memory(struct sl_diag *diag)
{
    return sl_diag_error(diag, SLUICE_ENOMEM, "out of memory");
}

static int allocate(struct sl_usage_journal *j, struct sl_diag *diag)
{
    j->free_words = (j->count + 63) / 64;
    j->recovered_size = j->count * sizeof(struct sl_usage_segment *);
    j->free = sl_alloc_new(j->alloc, j->free_words * sizeof(*j->free));
    j->recovered = sl_alloc_new(j->alloc, j->recovered_size);
    if (!j->free || !j->recovered)
        return no_memory(diag);
    for (size_t i = 0; i < j->free_words; i++)
        atomic_init(&j->free[i], 0);
    return 0;
}

static void set_names(struct sl_usage_journal *j, uint64_t node,
                      const struct sl_hash_key *random)
{
    snprintf(j->node, sizeof(j->node), "%016" PRIx64, node);
    /* Positive as an int64_t, and room for SL_JOURNAL_STREAMS. */
    j->first_stream = random->k0 >> 17 << 16;
    atomic_init(&j->generation, random->k1);
    atomic_init(&j->streams, 1); /* the first is of recovered segments */
}

/* Continues the order of the segments that are there. */
static void set_order(struct sl_usage_journal *j)
{
    uint64_t order = 0;

    for (unsigned i = 0; i < j->recovered_count; i++)
        if (j->recovered[i]->order > order)
            order = j->recovered[i]->order;
    atomic_init(&j->order, order + 1);
}

static int open_journal(struct sl_usage_journal *j, uint64_t size, bool shared,
                        struct sl_diag *diag)
{
    struct sl_hash_key random, name;
    uint64_t node;
    int err = sl_hash_key_make(&random);

    if (!err)
        err = sl_hash_key_make(&name);
    if (err)
        return sl_diag_error(diag, err,
                             "the system did not provide random bytes");
    node = name.k0;
    if (j->path) {
        err = open_file(j, size, shared, &node, diag);
    } else {
        j->size = size;
        j->count = count_of(size);
        err = map(j, diag);
    }
    if (!err)
        err = allocate(j, diag);
    if (err)
        return err;
    set_names(j, node, &random);
    recover(j);
    set_order(j);
    return start_syncing(j, diag);
}

int sl_usage_journal_open(const struct sl_usage_journal_options *options,
                          struct sl_usage_journal **ret, struct sl_diag *diag)
{
    const struct sl_alloc *alloc =
        options->alloc ? options->alloc : &sl_alloc_libc;
    struct sl_usage_journal *j = sl_alloc_new(alloc, sizeof(*j));
    int err;

    if (!j)
        return no_memory(diag);
    memset(j, 0, sizeof(*j));
    j->alloc = alloc;
    j->path = options->path;
    j->fd = -1;
    pthread_cond_init(&j->more, NULL);
    pthread_mutex_init(&j->lock, NULL);
    err = open_journal(j, options->size ? options->size : SL_JOURNAL_SIZE,
                       options->shared, diag);
    if (err)
        sl_usage_journal_close(j);
    else
        *ret = j;
    return err;
}

void sl_usage_journal_close(struct sl_usage_journal *j)
{
    if (!j)
        return;
    sl_usage_journal_stop(j);
    if (j->base)
        munmap(j->base, j->size);
    if (j->fd >= 0)
        close(j->fd);
    sl_alloc_free(j->alloc, j->free, j->free_words * sizeof(*j->free));
    sl_alloc_free(j->alloc, j->recovered, j->recovered_size);
    pthread_cond_destroy(&j->more);
    pthread_mutex_destroy(&j->lock);
    sl_alloc_free(j->alloc, j->other, PATH_MOST);
    sl_alloc_free(j->alloc, j, sizeof(*j));
}

const char *sl_usage_journal_notice(const struct sl_usage_journal *j)
{
    return j->notice;
}

struct sl_str sl_usage_journal_node(const struct sl_usage_journal *j)
{
    return sl_str_c(j->node);
}

const char *sl_usage_journal_path(const struct sl_usage_journal *j)
{
    return j->path;
}

bool sl_usage_journal_is_file(const struct sl_usage_journal *j)
{
    return j->path != NULL;
}

uint64_t sl_usage_journal_streams(const struct sl_usage_journal *j)
{
    return j->first_stream;
}

uint64_t sl_usage_journal_stream(struct sl_usage_journal *j)
{
    return j->first_stream +
           atomic_fetch_add(&j->streams, 1) % SL_JOURNAL_STREAMS;
}

static unsigned count_streams(const struct sl_usage_journal *j)
{
    return atomic_load_explicit(&j->streams, memory_order_relaxed) - 1;
}

bool sl_usage_journal_has_reserve(const struct sl_usage_journal *j)
{
    return 3 * count_streams(j) <= j->count;
}

unsigned sl_usage_journal_reserve(const struct sl_usage_journal *j)
{
    unsigned streams = count_streams(j);

    return streams < j->count / 4 ? streams : j->count / 4;
}

void sl_usage_journal_count(const struct sl_usage_journal *j,
                            struct sl_usage_journal_counts *ret)
{
    *ret = (struct sl_usage_journal_counts){.lines = atomic_load(&j->lines),
                                            .units = atomic_load(&j->units),
                                            .oldest = SL_NS_NONE};
    for (unsigned i = 0; i < j->count; i++) {
        const struct sl_usage_segment *s = sl_usage_segment_at(j, i);
        sl_ns since;

        if (atomic_load_explicit(&s->state, memory_order_acquire) ==
            SL_SEGMENT_FREE)
            continue;
        since = atomic_load_explicit(&s->since, memory_order_relaxed);
        ret->bytes += atomic_load_explicit(&s->used, memory_order_relaxed);
        if (ret->oldest == SL_NS_NONE || since < ret->oldest)
            ret->oldest = since;
    }
}
