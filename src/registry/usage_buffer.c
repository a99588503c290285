/* usage_buffer.c -- lines of usage: added, sealed, sent, sent again. */
#include "registry/usage_buffer.h"

#include <string.h>
#include <sys/queue.h>

#include "base/arena.h"
#include "net/loop.h"

#define PAUSE       (50 * SL_MS)
#define AGAIN_LEAST (100 * SL_MS) /* after a failure */
#define AGAIN_MOST  SL_S

#define WINDOW    16 /* sealed segments at most */
#define TEXT_MOST ((size_t)4 << 20)
#define PLACES    2048 /* of the index, at first; a power of two */

/* Room that must be left for what is spent by decisions under way. */
#define KEPT_FREE ((size_t)16 << 10)

/* Units of 64 bytes in a segment. */
#define UNITS (SL_JOURNAL_SEGMENT / SL_JOURNAL_UNIT)

/* A sealed segment, as a job. */
struct batch {
    struct sl_usage_buffer *buffer;
    struct sl_usage_segment *segment;
    struct sl_job job;
    struct sl_arena texts; /* of the owners of holds */
    unsigned count;
    uint64_t units; /* spent up to this one, since the one before */
    bool is_sent;
    bool is_report[SL_JOURNAL_LINES];
    struct sl_usage_entry lines[SL_JOURNAL_LINES];
    TAILQ_ENTRY(batch) link;
};

struct sl_usage_buffer {
    struct sl_usage_sink sink;
    struct sl_registry *registry;
    struct sl_loop *loop;
    struct sl_usage_buffer_options options;
    struct sl_usage_journal *journal, *own;
    uint64_t stream, sequence;
    struct sl_timer *timer;
    bool timed;

    /* Lines of open segments by hash: number of the segment * UNITS + place of
     * the line; 0: none. */
    uint32_t *places;
    size_t place_count;
    size_t indexed;
    unsigned *open; /* segments, oldest first; lines are added to the last */
    unsigned open_count, open_most;
    uint64_t open_units;               /* spent, not sealed */
    struct sl_usage_segment *reserved; /* for lines of decisions that have
                                        * begun; or NULL */

    TAILQ_HEAD(sealed_list, batch) sealed; /* oldest first */
    unsigned sealed_count, sent;
    struct batch *spare; /* or NULL */
    bool wanted;         /* a flush had to leave something */
    bool failing;        /* sealed segments wait for retry_at */
    unsigned failures;   /* in a row */
    sl_ns retry_at;      /* monotonic */
    struct sl_jitter jitter;
    struct sl_usage_buffer_counts counts;
};

static void add(_Atomic uint64_t *count, uint64_t by)
{
    atomic_store_explicit(
        count, atomic_load_explicit(count, memory_order_relaxed) + by,
        memory_order_relaxed);
}

static uint64_t positive(int64_t amount)
{
    return amount > 0 ? (uint64_t)amount : 0;
}

static void start_timer(struct sl_usage_buffer *k, sl_ns after)
{
    if (k->timed)
        return;
    k->timed = true;
    sl_timer_start(k->timer, after);
}

/* ---- the index of lines ---- */

static struct sl_usage_line *line_at(const struct sl_usage_buffer *k,
                                     uint32_t place)
{
    struct sl_usage_segment *segment =
        sl_usage_segment_at(k->journal, place / UNITS);

    return (void *)((char *)segment + place % UNITS * 64);
}

static void clear_index(struct sl_usage_buffer *k)
{
    uint32_t *places;

    if (k->place_count > PLACES) {
        places = sl_alloc_new(k->options.alloc, PLACES * sizeof(*places));
        if (places) {
            sl_alloc_free(k->options.alloc, k->places,
                          k->place_count * sizeof(*places));
            k->places = places;
            k->place_count = PLACES;
        }
    }
    memset(k->places, 0, k->place_count * sizeof(*k->places));
    k->indexed = 0;
}

static void put_place(uint32_t *places, size_t count, uint64_t hash,
                      uint32_t place)
{
    size_t at = (size_t)hash & (count - 1);

    while (places[at])
        at = (at + 1) & (count - 1);
    places[at] = place;
}

/* Doubles the index. Returns false without memory. */
static bool grow(struct sl_usage_buffer *k)
{
    size_t count = 2 * k->place_count;
    uint32_t *places = sl_alloc_new(k->options.alloc, count * sizeof(*places));

    if (!places)
        return false;
    memset(places, 0, count * sizeof(*places));
    for (size_t i = 0; i < k->place_count; i++)
        if (k->places[i])
            put_place(places, count, line_at(k, k->places[i])->hash,
                      k->places[i]);
    sl_alloc_free(k->options.alloc, k->places,
                  k->place_count * sizeof(*places));
    k->places = places;
    k->place_count = count;
    return true;
}

/* A line without a place in the index is recorded, but not added to. */
static void index_line(struct sl_usage_buffer *k, unsigned segment,
                       const struct sl_usage_line *line)
{
    size_t at = (size_t)((const char *)line - (const char *)sl_usage_segment_at(
                                                  k->journal, segment));

    if (2 * k->indexed >= k->place_count && !grow(k))
        return;
    k->indexed++;
    put_place(k->places, k->place_count, line->hash,
              (uint32_t)(segment * UNITS + at / 64));
}

/* ---- room ---- */

static bool has_reserve(const struct sl_usage_buffer *k)
{
    return sl_usage_journal_has_reserve(k->journal);
}

static void return_reserved(struct sl_usage_buffer *k)
{
    if (k->reserved)
        sl_usage_segment_free(k->journal, k->reserved);
    k->reserved = NULL;
}

static bool reserve(struct sl_usage_buffer *k)
{
    if (!k->reserved)
        k->reserved = sl_usage_segment_reserve(k->journal);
    return k->reserved;
}

static size_t room_left(const struct sl_usage_buffer *k)
{
    if (k->open_count == 0)
        return 0;
    return SL_JOURNAL_SEGMENT -
           atomic_load_explicit(
               &sl_usage_segment_at(k->journal, k->open[k->open_count - 1])
                    ->used,
               memory_order_relaxed);
}

/* The journal is full while room is left for the lines of decisions that have
 * begun, and for the ends of holds: in the reserved segment, which is open
 * then. */
static void update_full(struct sl_usage_buffer *k)
{
    if (has_reserve(k)) {
        k->sink.full = !reserve(k);
    } else {
        return_reserved(k);
        k->sink.full = room_left(k) < KEPT_FREE &&
                       sl_usage_journal_room(k->journal) <=
                           sl_usage_journal_reserve(k->journal);
    }
    k->sink.no_room = k->sink.full && room_left(k) < KEPT_FREE &&
                      sl_usage_journal_room(k->journal) == 0;
    if (k->sink.full)
        start_timer(k, AGAIN_LEAST); /* others make room, too */
}

/* Must the last open segment stay open, for lines of decisions that have begun?
 */
static bool is_needed(struct sl_usage_buffer *k)
{
    return has_reserve(k) && !reserve(k) && room_left(k) >= KEPT_FREE;
}

/* ---- batches ---- */

static void free_batch(struct sl_usage_buffer *k, struct batch *batch)
{
    if (!batch)
        return;
    sl_job_clear(&batch->job);
    sl_arena_done(&batch->texts);
    sl_alloc_free(k->options.alloc, batch, sizeof(*batch));
}

static struct batch *new_batch(struct sl_usage_buffer *k)
{
    struct batch *batch = k->spare;

    k->spare = NULL;
    if (!batch) {
        batch = sl_alloc_new(k->options.alloc, sizeof(*batch));
        if (!batch)
            return NULL;
        sl_arena_init(&batch->texts, TEXT_MOST, k->options.alloc);
    }
    batch->buffer = k;
    batch->count = 0;
    batch->units = 0;
    batch->is_sent = false;
    sl_job_init(&batch->job, SL_JOB_USAGE, k->options.alloc);
    return batch;
}

static void put_away(struct sl_usage_buffer *k, struct batch *batch)
{
    if (k->spare) {
        free_batch(k, batch);
        return;
    }
    sl_job_clear(&batch->job);
    sl_arena_reset(&batch->texts);
    k->spare = batch;
}

static void read_lines(struct batch *batch)
{
    const struct sl_usage_line *line = NULL;

    while ((line = sl_usage_segment_next(batch->segment, line))) {
        struct sl_usage_entry *entry = &batch->lines[batch->count];

        batch->is_report[batch->count++] = line->flags & SL_LINE_REPORT;
        sl_usage_line_read(line, entry);
        entry->names_in = &batch->texts;
    }
}

static void fill_job(struct sl_usage_buffer *k, struct batch *batch)
{
    struct sl_job *job = &batch->job;

    job->loop = k->loop;
    job->ctx = batch;
    job->usage = batch->lines;
    job->change_count = batch->count;
    job->stream = batch->segment->stream;
    job->sequence = batch->segment->sequence;
    /* A journal in memory ends with the process: uncertain_txn suffices. */
    if (sl_usage_journal_is_file(k->journal))
        job->journal = sl_usage_journal_node(k->journal);
}

/* Seals open segments, oldest first, at most `most` in all. Lines are then
 * added to new segments. */
static void seal(struct sl_usage_buffer *k, unsigned most)
{
    unsigned done = 0, count = k->open_count;
    struct batch *batch = NULL;

    if (count > 0 && most < UINT32_MAX && is_needed(k))
        count--;
    while (done < count && k->sealed_count < most && (batch = new_batch(k))) {
        batch->segment = sl_usage_segment_at(k->journal, k->open[done++]);
        sl_usage_segment_seal(batch->segment);
        read_lines(batch);
        fill_job(k, batch);
        TAILQ_INSERT_TAIL(&k->sealed, batch, link);
        k->sealed_count++;
    }
    if (done == 0)
        return;
    k->open_count -= done;
    if (batch && k->open_count == 0) {
        batch->units = k->open_units;
        k->open_units = 0;
    }
    memmove(k->open, k->open + done, k->open_count * sizeof(*k->open));
    clear_index(k);
}

/* ---- sending ---- */

static void on_written(struct sl_job *job);

static void send(struct sl_usage_buffer *k, struct batch *batch)
{
    const struct batch *before = TAILQ_PREV(batch, sealed_list, link);

    batch->is_sent = true;
    batch->job.after = before ? before->job.sequence : 0;
    k->sent++;
    batch->job.done = on_written;
    batch->job.err = 0;
    batch->job.result = SL_JOB_DONE;
    sl_registry_ask(k->registry, &batch->job);
}

static void send_all(struct sl_usage_buffer *k)
{
    struct batch *batch;

    TAILQ_FOREACH (batch, &k->sealed, link)
        if (!batch->is_sent)
            send(k, batch);
}

/* Returns how many segments may be sealed. Frequent flushes of a slow database
 * must not use up the journal. */
static unsigned window(const struct sl_usage_buffer *k)
{
    unsigned streams = sl_usage_journal_reserve(k->journal);
    unsigned part = sl_usage_journal_segments(k->journal) /
                    (4 * (streams > 0 ? streams : 1));

    if (part == 0)
        return 1;
    return part < WINDOW ? part : WINDOW;
}

void sl_usage_buffer_flush(struct sl_usage_sink *sink)
{
    struct sl_usage_buffer *k = (struct sl_usage_buffer *)sink;
    unsigned most;

    if (!k || k->failing)
        return;
    most = window(k);
    seal(k, most);
    k->wanted = k->open_count > 0;
    if (k->wanted && k->sealed_count < most)
        start_timer(k, AGAIN_LEAST); /* there was no memory */
    send_all(k);
    update_full(k); /* the room that was left is in a sealed segment */
}

void sl_usage_buffer_flush_last(struct sl_usage_sink *sink)
{
    struct sl_usage_buffer *k = (struct sl_usage_buffer *)sink;

    if (!k || (k->failing && sl_usage_journal_is_file(k->journal)))
        return; /* the next start records it */
    seal(k, UINT32_MAX);
    send_all(k);
}

/* The last segment that was opened has the highest sequence. */
uint64_t sl_usage_buffer_mark(const struct sl_usage_sink *sink)
{
    return ((const struct sl_usage_buffer *)sink)->sequence;
}

bool sl_usage_buffer_is_recorded(const struct sl_usage_sink *sink,
                                 uint64_t mark)
{
    const struct sl_usage_buffer *k = (const struct sl_usage_buffer *)sink;
    const struct batch *first = TAILQ_FIRST(&k->sealed);
    const struct sl_usage_segment *oldest = NULL;

    if (first)
        oldest = first->segment;
    else if (k->open_count > 0)
        oldest = sl_usage_segment_at(k->journal, k->open[0]);
    return !oldest || oldest->sequence > mark;
}

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

/* The segment is recorded. */
static void finish(struct sl_usage_buffer *k, struct batch *batch)
{
    add(&k->counts.written, batch->count);
    add(&k->counts.recorded, batch->units);
    for (unsigned i = 0; i < batch->count; i++) {
        batch->lines[i].order = batch->job.order;
        sl_usage_buffer_report(&k->sink, &batch->lines[i]);
        if (batch->is_report[i] && k->options.on_report)
            k->options.on_report(k->options.ctx, &batch->lines[i]);
    }
    TAILQ_REMOVE(&k->sealed, batch, link);
    k->sealed_count--;
    sl_usage_segment_free(k->journal, batch->segment);
    put_away(k, batch);
}

/* The database fails. Nothing is sent before retry_at. */
static void pause_sending(struct sl_usage_buffer *k)
{
    sl_ns pause =
        sl_jitter_backoff(&k->jitter, k->failures++, AGAIN_LEAST, AGAIN_MOST);

    k->retry_at = sl_loop_mono(k->loop) + pause;
    start_timer(k, pause);
}

static void on_written(struct sl_job *job)
{
    struct batch *batch = job->ctx;
    struct sl_usage_buffer *k = batch->buffer;
    bool good = !job->err && job->result == SL_JOB_DONE;

    batch->is_sent = false;
    k->sent--;
    if (good) {
        finish(k, batch);
    } else {
        add(&k->counts.failed, 1);
        k->failing = true;
    }
    if (k->failing && k->sent == 0 && !good) {
        pause_sending(k);
    } else if (k->failing && k->sent == 0) {
        k->failing = false;
        k->failures = 0;
        k->wanted = true; /* what has failed before is sent again */
    }
    if (!k->failing && k->wanted)
        sl_usage_buffer_flush(&k->sink);
    update_full(k);
}

/* Sends the oldest sealed segment alone, to see whether the database works. */
static void try_again(struct sl_usage_buffer *k)
{
    sl_ns now = sl_loop_mono(k->loop);
    struct batch *first = TAILQ_FIRST(&k->sealed);

    if (k->sent > 0 || !first)
        return;
    if (now < k->retry_at)
        start_timer(k, k->retry_at - now);
    else
        send(k, first);
}

static void on_time(void *ctx)
{
    struct sl_usage_buffer *k = ctx;

    k->timed = false;
    if (k->failing)
        try_again(k);
    else
        sl_usage_buffer_flush(&k->sink);
    update_full(k);
}

/* ---- lines ---- */

static bool is_held(const uint64_t hold[2])
{
    return (hold[0] | hold[1]) != 0;
}

static bool has_fingerprint(struct sl_hash128 fingerprint)
{
    return (fingerprint.lo | fingerprint.hi) != 0;
}

static uint64_t hash_of(const struct sl_usage_buffer *k,
                        const struct sl_usage_entry *u)
{
    struct sl_hash_key key = *sl_registry_secret(k->registry);

    if (is_held(u->hold))
        return u->hold[0]; /* it is random */
    if (has_fingerprint(u->fingerprint))
        return u->fingerprint.lo;
    key.k0 ^= (uint64_t)u->start;
    key.k1 ^= sl_hash64(&key, u->limit);
    return sl_hash64(&key, u->id);
}

/* Lines have one time: amounts of two days are not added. */
static bool is_same_day(sl_ns a, sl_ns b)
{
    return a / SL_DAY == b / SL_DAY;
}

/* Returns whether an amount can be added to a line. Refunds and usage of a
 * leased quota cannot: the sum would hide how much was used. */
static bool is_same(const struct sl_usage_line *line,
                    const struct sl_usage_entry *u)
{
    struct sl_usage_entry a;

    sl_usage_line_read(line, &a);
    if (a.node.len > 0 && (a.amount < 0) != (u->amount < 0))
        return false;
    if (is_held(a.hold) || is_held(u->hold))
        return a.hold[0] == u->hold[0] && a.hold[1] == u->hold[1] &&
               a.node.len == u->node.len && sl_str_eq(a.limit, u->limit);
    return a.act == u->act && a.start == u->start && is_same_day(a.at, u->at) &&
           !a.reset && !u->reset && a.node.len == u->node.len &&
           sl_str_eq(a.limit, u->limit) && sl_str_eq(a.scope, u->scope) &&
           sl_str_eq(a.id, u->id) && sl_str_eq(a.plan, u->plan);
}

/* ---- adding ---- */

/* Adds to a line. Sums are limited to the range of a counter. */
static void sum(struct sl_usage_line *line, int64_t amount, sl_ns at,
                uint64_t cap)
{
    const struct sl_usage_amount *old = sl_usage_line_amount(line);
    struct sl_usage_amount *new = sl_usage_line_change(line);
    const int64_t most = SL_USAGE_MOST;

    new->amount = old->amount + amount;
    if (new->amount > most)
        new->amount = most;
    else if (new->amount < -most)
        new->amount = -most;
    new->at = at;
    new->cap = cap;
    sl_usage_line_show(line);
}

/* Returns whether the end of a hold needs a line of its own: what exceeds the
 * hold counts in another period. */
static bool is_apart(const struct sl_usage_line *line,
                     const struct sl_usage_entry *u)
{
    const struct sl_usage_amount *old = sl_usage_line_amount(line);

    return u->act == SL_USAGE_ACT_HOLD_END && old->act == SL_USAGE_ACT_HOLD &&
           u->start != old->start && u->amount > old->amount;
}

/* Updates a hold that has a line. If it was taken and ended there, it counts as
 * a take. */
static void go_on(struct sl_usage_line *line, const struct sl_usage_entry *u)
{
    const struct sl_usage_amount *old = sl_usage_line_amount(line);
    struct sl_usage_amount *new = sl_usage_line_change(line);

    *new = *old;
    new->until = u->until;
    if (u->act == SL_USAGE_ACT_HOLD_END && old->act == SL_USAGE_ACT_HOLD) {
        new->act = SL_USAGE_ACT_TAKE;
        new->amount = u->amount;
        new->at = u->at;
    } else if (u->act == SL_USAGE_ACT_HOLD_END &&
               old->act == SL_USAGE_ACT_HOLD_EXTEND) {
        new->act = SL_USAGE_ACT_HOLD_END;
        new->amount = u->amount;
        new->at = u->at;
        new->start = u->start;
        new->end = u->end;
        new->last_day = u->last_day;
        new->level = u->level;
    } else if (old->act == SL_USAGE_ACT_HOLD_EXTEND) {
        new->at = u->at; /* from then on */
    }
    sl_usage_line_show(line);
}

static struct sl_str plan_of(const struct sl_usage_line *line)
{
    const char *at = line->texts;

    for (int i = 0; i < SL_LINE_PLAN; i++)
        at += line->lengths[i];
    return (struct sl_str){at, line->lengths[SL_LINE_PLAN]};
}

/* The fast path: the key has a line. Fingerprints of two keys never collide, so
 * no text is compared. */
static bool add_up(const struct sl_usage_buffer *k,
                   const struct sl_usage_delta *s)
{
    size_t mask = k->place_count - 1, at = (size_t)s->fingerprint.lo & mask;

    if (!has_fingerprint(s->fingerprint) || s->act != SL_USAGE_ACT_TAKE ||
        s->reset || s->elsewhere)
        return false;
    for (; k->places[at]; at = (at + 1) & mask) {
        struct sl_usage_line *line = line_at(k, k->places[at]);
        const struct sl_usage_amount *a = sl_usage_line_amount(line);

        if (!sl_hash128_eq(line->fingerprint, s->fingerprint) ||
            a->start != s->start || a->act != SL_USAGE_ACT_TAKE ||
            a->cap != s->cap || !is_same_day(a->at, s->at) ||
            line->flags & SL_LINE_RESET || (a->amount < 0) != (s->amount < 0) ||
            !sl_str_eq(plan_of(line), s->plan))
            continue;
        sum(line, s->amount, s->at, s->cap);
        return true; /* changed thresholds apply from the next segment on */
    }
    return false;
}

/* Opens a segment, if `last` the reserved one. NULL: the journal is full. */
static struct sl_usage_segment *open_segment(struct sl_usage_buffer *k,
                                             sl_ns now, bool last)
{
    uint64_t next = k->sequence + 1;
    struct sl_usage_segment *segment =
        sl_usage_segment_open(k->journal, k->stream, next, now);

    if (!segment && last && k->reserved) {
        segment = k->reserved;
        k->reserved = NULL;
        sl_usage_segment_begin(k->journal, segment, k->stream, next, now);
    }
    if (segment)
        k->sequence = next;
    return segment;
}

/* Returns an open segment with room for the line, which is added. NULL: there
 * is no room. Full segments stay open, and amounts are added to their lines,
 * until as many are open as may be sealed. */
static struct sl_usage_line *add_line(struct sl_usage_buffer *k,
                                      const struct sl_usage_entry *u,
                                      uint64_t hash, unsigned flags)
{
    struct sl_usage_segment *segment = NULL;
    struct sl_usage_line *line = NULL;

    if (k->open_count > 0) {
        segment = sl_usage_segment_at(k->journal, k->open[k->open_count - 1]);
        line = sl_usage_segment_add(segment, u, hash, flags);
    }
    if (line)
        return line;
    if (k->open_count >= window(k))
        sl_usage_buffer_flush(&k->sink); /* before its time */
    if (k->open_count == k->open_most)
        return NULL;
    segment = open_segment(k, u->at, true);
    if (!segment)
        return NULL;
    k->open[k->open_count++] = sl_usage_segment_index(k->journal, segment);
    return sl_usage_segment_add(segment, u, hash, flags);
}

static bool put_down(struct sl_usage_buffer *k, const struct sl_usage_entry *u)
{
    uint64_t hash = hash_of(k, u);
    size_t mask = k->place_count - 1, at = (size_t)hash & mask;
    struct sl_usage_line *line;

    for (; k->places[at]; at = (at + 1) & mask) {
        line = line_at(k, k->places[at]);
        if (line->hash != hash || !is_same(line, u))
            continue;
        if (is_held(u->hold) && is_apart(line, u))
            continue;
        if (is_held(u->hold))
            go_on(line, u);
        else
            sum(line, u->amount, u->at, u->cap);
        return true;
    }
    line = add_line(k, u, hash, u->reset ? SL_LINE_RESET : 0);
    if (line)
        index_line(k, k->open[k->open_count - 1], line);
    return line;
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
        .plan = s->plan,
        .zone = s->zone,
        .level = s->level,
        .reset = s->reset,
        .thresholds = s->thresholds
    };
    struct sl_buf room;
    bool good;

    if (!s->elsewhere)
        u.node = k->options.node;
    /* Holds are found by their ids, and lines of another node by their texts.
     */
    if (!is_held(u.hold) && !s->elsewhere)
        u.fingerprint = s->fingerprint;
    if (s->numbers && s->start > 0)
        sl_usage_entry_period(&u, s->numbers);
    sl_buf_init(&room, SL_USAGE_ID, k->options.alloc);
    good = name_of(s, &room, &u.id) && put_down(k, &u);
    sl_buf_done(&room);
    return good;
}

static void count_units(struct sl_usage_buffer *k, int64_t amount)
{
    add(&k->counts.spent, 1);
    add(&k->counts.units, positive(amount));
    k->open_units += positive(amount);
}

static void spent(struct sl_usage_sink *sink, const struct sl_usage_delta *s)
{
    struct sl_usage_buffer *k = (struct sl_usage_buffer *)sink;

    if (add_up(k, s)) {
        count_units(k, s->amount);
        return; /* the caller that added the line has started the timer */
    }
    if (write_down(k, s)) {
        count_units(k, s->amount);
    } else {
        add(&k->counts.spent, 1);
        add(&k->counts.lost, positive(s->amount));
    }
    if (s->reset) {
        clear_index(k); /* later amounts are recorded after it */
        sl_usage_buffer_flush(sink);
    }
    if (!k->failing && k->open_count > 0)
        start_timer(k, PAUSE);
    update_full(k);
}

static const struct sl_usage_sink_calls calls = {spent};

/* ---- reports ---- */

/* Adds the reports to the last open segment, or to a new one. */
static bool keep(struct sl_usage_buffer *k,
                 const struct sl_usage_entry *reports, unsigned count)
{
    struct sl_usage_segment *segment;

    if (k->open_count > 0 &&
        sl_usage_segment_add_reports(
            sl_usage_segment_at(k->journal, k->open[k->open_count - 1]),
            reports, count))
        return true;
    if (k->open_count == k->open_most ||
        (!has_reserve(k) && sl_usage_journal_room(k->journal) <=
                                sl_usage_journal_reserve(k->journal)))
        return false;
    segment = open_segment(k, reports[0].at, false);
    if (segment && sl_usage_segment_add_reports(segment, reports, count)) {
        k->open[k->open_count++] = sl_usage_segment_index(k->journal, segment);
        return true;
    }
    if (segment) {
        sl_usage_segment_free(k->journal, segment);
        k->sequence--;
    }
    return false;
}

bool sl_usage_buffer_keep(struct sl_usage_sink *sink,
                          const struct sl_usage_entry *reports, unsigned count)
{
    struct sl_usage_buffer *k = (struct sl_usage_buffer *)sink;

    if (!sl_usage_journal_is_file(k->journal) || k->sink.full ||
        !keep(k, reports, count))
        return false;
    for (unsigned i = 0; i < count; i++)
        count_units(k, reports[i].amount);
    if (!k->failing)
        start_timer(k, PAUSE);
    update_full(k);
    return true;
}

struct sl_usage_journal *
sl_usage_buffer_journal(const struct sl_usage_sink *sink)
{
    return ((const struct sl_usage_buffer *)sink)->journal;
}

/* ---- opening ---- */

static int open_all(struct sl_usage_buffer *k, struct sl_diag *diag)
{
    const struct sl_alloc *alloc = k->options.alloc;
    struct sl_usage_journal_options journal = {.alloc = alloc};
    int err = 0;

    if (!k->journal)
        err = sl_usage_journal_open(&journal, &k->own, diag);
    if (err)
        return err;
    if (k->own)
        k->journal = k->own;
    k->stream = sl_usage_journal_stream(k->journal);
    k->open_most = sl_usage_journal_segments(k->journal);
    k->open = sl_alloc_new(alloc, k->open_most * sizeof(*k->open));
    k->places = sl_alloc_new(alloc, PLACES * sizeof(*k->places));
    k->place_count = k->places ? PLACES : 0;
    k->spare = new_batch(k);
    if (!k->open || !k->places || !k->spare || sl_jitter_init(&k->jitter) ||
        sl_timer_new(k->loop, on_time, k, &k->timer))
        return sl_diag_error(diag, SLUICE_ENOMEM, "out of memory");
    clear_index(k);
    update_full(k); /* an earlier process may have left no room */
    return 0;
}

int sl_usage_buffer_open(struct sl_registry *registry, struct sl_loop *loop,
                         const struct sl_usage_buffer_options *options,
                         struct sl_usage_buffer **ret, struct sl_diag *diag)
{
    const struct sl_alloc *alloc =
        options->alloc ? options->alloc : &sl_alloc_libc;
    struct sl_usage_buffer *k = sl_alloc_new(alloc, sizeof(*k));
    int err;

    if (!k)
        return sl_diag_error(diag, SLUICE_ENOMEM, "out of memory");
    memset(k, 0, sizeof(*k));
    k->sink.calls = &calls;
    k->registry = registry;
    k->loop = loop;
    k->options = *options;
    k->options.alloc = alloc;
    k->journal = options->journal;
    TAILQ_INIT(&k->sealed);
    err = open_all(k, diag);
    if (err)
        sl_usage_buffer_close(k);
    else
        *ret = k;
    return err;
}

void sl_usage_buffer_close(struct sl_usage_buffer *buffer)
{
    struct sl_usage_buffer *k = buffer;
    struct batch *batch;

    if (!k)
        return;
    while ((batch = TAILQ_FIRST(&k->sealed))) {
        TAILQ_REMOVE(&k->sealed, batch, link);
        free_batch(k, batch);
    }
    free_batch(k, k->spare);
    return_reserved(k);
    sl_timer_free(k->timer);
    sl_alloc_free(k->options.alloc, k->open, k->open_most * sizeof(*k->open));
    sl_alloc_free(k->options.alloc, k->places,
                  k->place_count * sizeof(*k->places));
    sl_usage_journal_close(k->own);
    sl_alloc_free(k->options.alloc, k, sizeof(*k));
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
