/* usage_buffer.c -- batches of usage: filled, sent, retried. */
#include "registry/usage_buffer.h"

#include <string.h>
#include <sys/queue.h>

#include "base/arena.h"
#include "net/loop.h"

#define PAUSE (50 * SL_MS)
#define AGAIN (500 * SL_MS) /* after a failure */

#define LINES     1024
#define PLACES    (2 * LINES)
#define BATCHES   (SL_USAGE_BATCH / LINES * 16)
#define TEXT_MOST ((size_t)4 << 20)
#define TEXT_FULL ((size_t)1 << 20) /* a batch with this much text is full */

struct batch {
    struct sl_usage_buffer *buffer;
    struct sl_job job;
    struct sl_arena texts;
    unsigned count;
    size_t bytes;
    uint16_t places[PLACES]; /* by hash: number of the line + 1 */
    struct sl_usage_entry lines[LINES];
    TAILQ_ENTRY(batch) link;
};

struct sl_usage_buffer {
    struct sl_usage_sink sink;
    struct sl_registry *registry;
    struct sl_loop *loop;
    struct sl_usage_buffer_options options;
    struct sl_timer *timer;
    bool timed;
    struct batch *open;  /* or NULL: no amounts yet */
    struct batch *spare; /* or NULL */
    unsigned batches;    /* all batches */
    TAILQ_HEAD(, batch) failed;
    struct sl_usage_buffer_counts counts;
};

static void add(_Atomic uint64_t *count, uint64_t by)
{
    atomic_store_explicit(
        count, atomic_load_explicit(count, memory_order_relaxed) + by,
        memory_order_relaxed);
}

static void start_timer(struct sl_usage_buffer *k, sl_ns after)
{
    if (k->timed)
        return;
    k->timed = true;
    sl_timer_start(k->timer, after);
}

/* ---- batches ---- */

static void free_batch(struct sl_usage_buffer *k, struct batch *batch)
{
    if (!batch)
        return;
    sl_job_clear(&batch->job);
    sl_arena_done(&batch->texts);
    sl_alloc_free(k->options.alloc, batch, sizeof(*batch));
    k->batches--;
}

static void empty(struct batch *batch)
{
    batch->count = 0;
    batch->bytes = 0;
    memset(batch->places, 0, sizeof(batch->places));
}

static struct batch *new_batch(struct sl_usage_buffer *k)
{
    struct batch *batch = k->spare;

    if (batch) {
        k->spare = NULL;
        return batch;
    }
    if (k->batches == BATCHES)
        return NULL;
    batch = sl_alloc_new(k->options.alloc, sizeof(*batch));
    if (!batch)
        return NULL;
    k->batches++;
    batch->buffer = k;
    empty(batch);
    sl_arena_init(&batch->texts, TEXT_MOST, k->options.alloc);
    sl_job_init(&batch->job, SL_JOB_USAGE, k->options.alloc);
    return batch;
}

static void put_away(struct sl_usage_buffer *k, struct batch *batch)
{
    if (k->spare) {
        free_batch(k, batch);
        return;
    }
    empty(batch);
    sl_arena_reset(&batch->texts);
    k->spare = batch;
}

/* ---- sending ---- */

void sl_usage_buffer_report(struct sl_usage_sink *sink,
                            const struct sl_usage_entry *usage)
{
    struct sl_usage_buffer *k = (struct sl_usage_buffer *)sink;

    if (usage->threshold <= usage->threshold_before)
        return;
    add(&k->counts.thresholds, 1);
    if (k->options.on_threshold)
        k->options.on_threshold(k->options.ctx, usage);
}

static void on_written(struct sl_job *job)
{
    struct batch *batch = job->ctx;
    struct sl_usage_buffer *k = batch->buffer;

    if (job->err) {
        add(&k->counts.failed, 1);
        TAILQ_INSERT_TAIL(&k->failed, batch, link);
        start_timer(k, AGAIN);
        return;
    }
    add(&k->counts.written, batch->count);
    for (unsigned i = 0; i < batch->count; i++)
        sl_usage_buffer_report(&k->sink, &batch->lines[i]);
    put_away(k, batch);
}

static void send(struct sl_usage_buffer *k, struct batch *batch)
{
    batch->job.loop = k->loop;
    batch->job.done = on_written;
    batch->job.ctx = batch;
    batch->job.usage = batch->lines;
    batch->job.change_count = batch->count;
    batch->job.err = 0;
    batch->job.result = SL_JOB_DONE;
    sl_registry_ask(k->registry, &batch->job);
}

void sl_usage_buffer_flush(struct sl_usage_sink *sink)
{
    struct sl_usage_buffer *k = (struct sl_usage_buffer *)sink;
    struct batch *batch;

    if (!k)
        return;
    while ((batch = TAILQ_FIRST(&k->failed))) {
        TAILQ_REMOVE(&k->failed, batch, link);
        send(k, batch);
    }
    batch = k->open;
    k->open = NULL;
    if (batch)
        send(k, batch);
}

static void on_time(void *ctx)
{
    struct sl_usage_buffer *k = ctx;

    k->timed = false;
    sl_usage_buffer_flush(&k->sink);
}

/* ---- lines ---- */

static bool is_held(const struct sl_usage_entry *u)
{
    return (u->hold[0] | u->hold[1]) != 0;
}

static bool has_fingerprint(struct sl_hash128 fingerprint)
{
    return (fingerprint.lo | fingerprint.hi) != 0;
}

static uint64_t hash_of(const struct sl_usage_buffer *k,
                        const struct sl_usage_entry *u)
{
    struct sl_hash_key key = *sl_registry_secret(k->registry);

    if (is_held(u))
        return u->hold[0]; /* it is random */
    if (has_fingerprint(u->fingerprint))
        return u->fingerprint.lo;
    key.k0 ^= (uint64_t)u->start;
    key.k1 ^= sl_hash64(&key, u->limit);
    return sl_hash64(&key, u->id);
}

/* Returns whether two amounts can be summed. Refunds and usage of a leased
 * quota cannot: the sum would hide how much was used. */
static bool is_same(const struct sl_usage_entry *a,
                    const struct sl_usage_entry *b)
{
    if (a->node.len > 0 && (a->amount < 0) != (b->amount < 0))
        return false;
    if (is_held(a) || is_held(b))
        return a->hold[0] == b->hold[0] && a->hold[1] == b->hold[1] &&
               sl_str_eq(a->limit, b->limit);
    return a->act == b->act && a->start == b->start && !a->reset && !b->reset &&
           sl_str_eq(a->limit, b->limit) && sl_str_eq(a->scope, b->scope) &&
           sl_str_eq(a->id, b->id);
}

static bool keep(struct batch *batch, struct sl_str *text)
{
    const char *copy = sl_arena_copy(&batch->texts, *text);

    text->at = copy;
    batch->bytes += text->len + 1;
    return copy;
}

static bool write_line(struct batch *batch, const struct sl_usage_entry *u,
                       uint16_t *place)
{
    struct sl_usage_entry *line = &batch->lines[batch->count];

    *line = *u;
    line->names_in = &batch->texts;
    if (!keep(batch, &line->limit) || !keep(batch, &line->scope) ||
        !keep(batch, &line->id))
        return false;
    *place = (uint16_t)++batch->count;
    return true;
}

/* ---- adding ---- */

/* Adds to a line. Sums are limited to the range of a counter. */
static void sum(struct sl_usage_entry *line, int64_t amount, sl_ns at,
                uint64_t cap)
{
    const int64_t most = SL_USAGE_MOST;

    line->amount += amount;
    if (line->amount > most)
        line->amount = most;
    else if (line->amount < -most)
        line->amount = -most;
    line->at = at;
    line->cap = cap;
}

/* Updates a hold that is in the batch. If it was taken and ended there, it
 * counts as a take. */
static void go_on(struct sl_usage_entry *line, const struct sl_usage_entry *u)
{
    line->until = u->until;
    if (u->act != SL_USAGE_ACT_HOLD_END ||
        (line->act != SL_USAGE_ACT_HOLD &&
         line->act != SL_USAGE_ACT_HOLD_EXTEND))
        return;
    line->amount = u->amount;
    line->at = u->at;
    if (line->act == SL_USAGE_ACT_HOLD) {
        line->act = SL_USAGE_ACT_TAKE;
    } else {
        line->act = SL_USAGE_ACT_HOLD_END;
        line->start = u->start;
        line->thresholds = u->thresholds;
        line->level = u->level;
    }
}

/* The fast path: the key has a line. Fingerprints of two keys never collide, so
 * no text is compared. */
static bool add_up(struct batch *batch, const struct sl_usage_delta *s)
{
    unsigned at = (unsigned)(s->fingerprint.lo % PLACES);

    if (!batch || !has_fingerprint(s->fingerprint) ||
        s->act != SL_USAGE_ACT_TAKE || s->reset)
        return false;
    for (; batch->places[at]; at = (at + 1) % PLACES) {
        struct sl_usage_entry *line = &batch->lines[batch->places[at] - 1];

        if (!sl_hash128_eq(line->fingerprint, s->fingerprint) ||
            line->start != s->start || line->act != SL_USAGE_ACT_TAKE ||
            line->reset || (line->amount < 0) != (s->amount < 0))
            continue;
        sum(line, s->amount, s->at, s->cap);
        return true; /* changed thresholds apply from the next batch on */
    }
    return false;
}

static bool put_down(struct sl_usage_buffer *k, const struct sl_usage_entry *u)
{
    struct batch *batch = k->open;
    unsigned at = (unsigned)(hash_of(k, u) % PLACES);

    if (!batch)
        batch = k->open = new_batch(k);
    if (!batch)
        return false;
    for (; batch->places[at]; at = (at + 1) % PLACES) {
        struct sl_usage_entry *line = &batch->lines[batch->places[at] - 1];

        if (!is_same(line, u))
            continue;
        if (is_held(u)) {
            go_on(line, u);
            return true;
        }
        sum(line, u->amount, u->at, u->cap);
        line->thresholds = u->thresholds;
        return true;
    }
    return write_line(batch, u, &batch->places[at]);
}

/* Usually one name, which is borrowed. Several names are joined in `room`. */
static bool name_of(const struct sl_usage_delta *s, struct sl_buf *room,
                    struct sl_str *ret)
{
    bool good = true;

    if (s->value_count == 1)
        *ret = s->values[0];
    else if ((good = sl_usage_join(s->values, s->value_count, room)))
        *ret = sl_buf_str(room);
    return good && ret->len <= SL_USAGE_ID;
}

/* Adds a line, or adds to one with the same texts. Returns false without room.
 */
static bool write_down(struct sl_usage_buffer *k,
                       const struct sl_usage_delta *s)
{
    struct sl_usage_entry u = {
        .act = s->act,
        .hold = {s->hold[0], s->hold[1]},
        .until = s->until,
        .scope = s->scope,
        .limit = s->limit,
        .start = s->start,
        .at = s->at,
        .amount = s->amount,
        .cap = s->cap,
        .level = s->level,
        .reset = s->reset,
        .thresholds = s->thresholds
    };
    struct sl_buf room;
    bool good;

    if (!s->level)
        u.node = k->options.node;
    if (!is_held(&u))
        u.fingerprint = s->fingerprint; /* holds are found by their ids */
    sl_buf_init(&room, SL_USAGE_ID, k->options.alloc);
    good = name_of(s, &room, &u.id) && put_down(k, &u);
    sl_buf_done(&room);
    return good;
}

static void spent(struct sl_usage_sink *sink, const struct sl_usage_delta *s)
{
    struct sl_usage_buffer *k = (struct sl_usage_buffer *)sink;

    add(&k->counts.spent, 1);
    if (add_up(k->open, s))
        return; /* the caller that opened the batch sends it */
    if (!write_down(k, s))
        add(&k->counts.lost, s->amount > 0 ? (uint64_t)s->amount : 0);
    if (k->open &&
        (k->open->count == LINES || k->open->bytes >= TEXT_FULL || s->reset))
        sl_usage_buffer_flush(sink);
    else if (k->open)
        start_timer(k, PAUSE);
}

static const struct sl_usage_sink_calls calls = {spent};

/* ---- opening ---- */

int sl_usage_buffer_open(struct sl_registry *registry, struct sl_loop *loop,
                         const struct sl_usage_buffer_options *options,
                         struct sl_usage_buffer **ret, struct sl_diag *diag)
{
    const struct sl_alloc *alloc =
        options->alloc ? options->alloc : &sl_alloc_libc;
    struct sl_usage_buffer *k = sl_alloc_new(alloc, sizeof(*k));

    if (!k)
        return sl_diag_error(diag, SLUICE_ENOMEM, "out of memory");
    memset(k, 0, sizeof(*k));
    k->sink.calls = &calls;
    k->registry = registry;
    k->loop = loop;
    k->options = *options;
    k->options.alloc = alloc;
    TAILQ_INIT(&k->failed);
    if (sl_timer_new(loop, on_time, k, &k->timer)) {
        sl_usage_buffer_close(k);
        return sl_diag_error(diag, SLUICE_ENOMEM, "out of memory");
    }
    *ret = k;
    return 0;
}

void sl_usage_buffer_close(struct sl_usage_buffer *buffer)
{
    struct batch *batch;

    if (!buffer)
        return;
    while ((batch = TAILQ_FIRST(&buffer->failed))) {
        TAILQ_REMOVE(&buffer->failed, batch, link);
        free_batch(buffer, batch);
    }
    free_batch(buffer, buffer->open);
    free_batch(buffer, buffer->spare);
    sl_timer_free(buffer->timer);
    sl_alloc_free(buffer->options.alloc, buffer, sizeof(*buffer));
}

struct sl_usage_sink *sl_usage_buffer_sink(struct sl_usage_buffer *buffer)
{
    return &buffer->sink;
}

struct sl_registry *sl_usage_buffer_registry(const struct sl_usage_sink *sink)
{
    return ((const struct sl_usage_buffer *)sink)->registry;
}

const struct sl_usage_buffer_counts *
sl_usage_buffer_counts(const struct sl_usage_buffer *buffer)
{
    return &buffer->counts;
}
