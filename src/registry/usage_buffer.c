/* usage_buffer.c -- one thread's slips: filled, sent, tried again. */
#include "registry/usage_buffer.h"

#include <string.h>
#include <sys/queue.h>

#include "base/arena.h"
#include "net/loop.h"

#define PAUSE (50 * SL_MS)
#define AGAIN (500 * SL_MS) /* after a failure */

#define LINES       1024
#define PLACES      (2 * LINES)
#define SLIPS       (SL_SLIP / LINES * 16)
#define TEXT_MOST   ((size_t)4 << 20)
#define TEXT_WANTED ((size_t)1 << 20) /* then a slip is full, too */

struct slip {
    struct sl_usage_buffer *keeper;
    struct sl_job job;
    struct sl_arena texts;
    unsigned count;
    size_t bytes;
    uint16_t places[PLACES]; /* by hash: a line's number + 1 */
    struct sl_usage_entry lines[LINES];
    TAILQ_ENTRY(slip) link;
};

struct sl_usage_buffer {
    struct sl_usage_sink meter;
    struct sl_registry *registry;
    struct sl_loop *loop;
    struct sl_usage_buffer_options options;
    struct sl_timer *timer;
    bool timed;
    struct slip *open;  /* or NULL: nothing was spent */
    struct slip *spare; /* or NULL */
    unsigned slips;     /* all of them */
    TAILQ_HEAD(, slip) failed;
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

/* ---- slips ---- */

static void free_slip(struct sl_usage_buffer *k, struct slip *slip)
{
    if (!slip)
        return;
    sl_job_clear(&slip->job);
    sl_arena_done(&slip->texts);
    sl_alloc_free(k->options.alloc, slip, sizeof(*slip));
    k->slips--;
}

static struct slip *new_slip(struct sl_usage_buffer *k)
{
    struct slip *slip = k->spare;

    if (slip) {
        k->spare = NULL;
        return slip;
    }
    if (k->slips == SLIPS)
        return NULL;
    slip = sl_alloc_new(k->options.alloc, sizeof(*slip));
    if (!slip)
        return NULL;
    k->slips++;
    slip->keeper = k;
    slip->count = 0;
    slip->bytes = 0;
    memset(slip->places, 0, sizeof(slip->places));
    sl_arena_init(&slip->texts, TEXT_MOST, k->options.alloc);
    sl_job_init(&slip->job, SL_JOB_USAGE, k->options.alloc);
    return slip;
}

static void put_away(struct sl_usage_buffer *k, struct slip *slip)
{
    if (k->spare) {
        free_slip(k, slip);
        return;
    }
    slip->count = 0;
    slip->bytes = 0;
    memset(slip->places, 0, sizeof(slip->places));
    sl_arena_reset(&slip->texts);
    k->spare = slip;
}

/* ---- sending ---- */

void sl_usage_buffer_marked(struct sl_usage_sink *meter,
                            const struct sl_usage_entry *usage)
{
    struct sl_usage_buffer *k = (struct sl_usage_buffer *)meter;

    if (usage->told <= usage->told_before)
        return;
    add(&k->counts.marks, 1);
    if (k->options.on_mark)
        k->options.on_mark(k->options.ctx, usage);
}

static void on_written(struct sl_job *job)
{
    struct slip *slip = job->ctx;
    struct sl_usage_buffer *k = slip->keeper;

    if (job->err) {
        add(&k->counts.failed, 1);
        TAILQ_INSERT_TAIL(&k->failed, slip, link);
        start_timer(k, AGAIN);
        return;
    }
    add(&k->counts.written, slip->count);
    for (unsigned i = 0; i < slip->count; i++)
        sl_usage_buffer_marked(&k->meter, &slip->lines[i]);
    put_away(k, slip);
}

static void send(struct sl_usage_buffer *k, struct slip *slip)
{
    slip->job.loop = k->loop;
    slip->job.done = on_written;
    slip->job.ctx = slip;
    slip->job.usage = slip->lines;
    slip->job.change_count = slip->count;
    slip->job.err = 0;
    slip->job.result = SL_JOB_DONE;
    sl_registry_ask(k->registry, &slip->job);
}

void sl_usage_buffer_flush(struct sl_usage_sink *meter)
{
    struct sl_usage_buffer *k = (struct sl_usage_buffer *)meter;
    struct slip *slip;

    if (!k)
        return;
    while ((slip = TAILQ_FIRST(&k->failed))) {
        TAILQ_REMOVE(&k->failed, slip, link);
        send(k, slip);
    }
    slip = k->open;
    k->open = NULL;
    if (slip)
        send(k, slip);
}

static void on_time(void *ctx)
{
    struct sl_usage_buffer *k = ctx;

    k->timed = false;
    sl_usage_buffer_flush(&k->meter);
}

/* ---- lines ---- */

static bool is_held(const struct sl_usage_entry *u)
{
    return (u->hold[0] | u->hold[1]) != 0;
}

static bool has_print(struct sl_hash128 print)
{
    return (print.lo | print.hi) != 0;
}

static uint64_t hash_of(const struct sl_usage_buffer *k,
                        const struct sl_usage_entry *u)
{
    struct sl_hash_key key = *sl_registry_secret(k->registry);

    if (is_held(u))
        return u->hold[0]; /* which is random */
    if (has_print(u->print))
        return u->print.lo;
    key.k0 ^= (uint64_t)u->start;
    key.k1 ^= sl_hash64(&key, u->limit);
    return sl_hash64(&key, u->id);
}

/* Is one's amount added to the other's? What is given back was leased by who
 * used it, and is no longer: there, the sum would not say how much was used. */
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

static bool keep(struct slip *slip, struct sl_str *text)
{
    const char *copy = sl_arena_copy(&slip->texts, *text);

    text->at = copy;
    slip->bytes += text->len + 1;
    return copy;
}

static bool write_line(struct slip *slip, const struct sl_usage_entry *u,
                       uint16_t *place)
{
    struct sl_usage_entry *line = &slip->lines[slip->count];

    *line = *u;
    line->names_in = &slip->texts;
    if (!keep(slip, &line->limit) || !keep(slip, &line->scope) ||
        !keep(slip, &line->id))
        return false;
    *place = (uint16_t)++slip->count;
    return true;
}

/* ---- adding up ---- */

/* Sums stay where a counter could be. */
static int64_t add_amount(int64_t a, int64_t b)
{
    int64_t most = SL_USAGE_MOST, sum = a + b;

    if (sum > most)
        return most;
    return sum < -most ? -most : sum;
}

static uint64_t add_over(uint64_t a, uint64_t b)
{
    uint64_t most = (uint64_t)SL_USAGE_MOST;

    return a + b < most ? a + b : most;
}

/* More is told of a hold that is on the slip. If it was taken and has ended
 * there, it is as if it had been used at once, but for what lies beyond the
 * limit, which nobody has found out. */
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
        line->reported = true;
    } else {
        line->act = SL_USAGE_ACT_HOLD_END;
        line->start = u->start;
        line->marks = u->marks;
        line->level = u->level;
    }
}

/* The usual case, and the one that must be quick: there is a line for it. Two
 * keys never have the same print, so no text is looked at. */
static bool add_up(struct slip *slip, const struct sl_usage_delta *s)
{
    unsigned at = (unsigned)(s->print.lo % PLACES);

    if (!slip || !has_print(s->print) || s->act != SL_USAGE_ACT_TAKE ||
        s->reset)
        return false;
    for (; slip->places[at]; at = (at + 1) % PLACES) {
        struct sl_usage_entry *line = &slip->lines[slip->places[at] - 1];

        if (line->print.lo != s->print.lo || line->print.hi != s->print.hi ||
            line->start != s->start || line->act != SL_USAGE_ACT_TAKE ||
            line->reset || (line->amount < 0) != (s->amount < 0))
            continue;
        line->amount = add_amount(line->amount, s->amount);
        line->over = add_over(line->over, s->over);
        line->at = s->at;
        line->cap = s->cap;
        return true; /* marks that were changed meanwhile count from the next */
    }
    return false;
}

static bool put_down(struct sl_usage_buffer *k, const struct sl_usage_entry *u)
{
    struct slip *slip = k->open;
    unsigned at = (unsigned)(hash_of(k, u) % PLACES);

    if (!slip)
        slip = k->open = new_slip(k);
    if (!slip)
        return false;
    for (; slip->places[at]; at = (at + 1) % PLACES) {
        struct sl_usage_entry *line = &slip->lines[slip->places[at] - 1];

        if (!is_same(line, u))
            continue;
        if (is_held(u)) {
            go_on(line, u);
            return true;
        }
        line->amount = add_amount(line->amount, u->amount);
        line->over = add_over(line->over, u->over);
        line->at = u->at;
        line->cap = u->cap;
        line->marks = u->marks;
        return true;
    }
    return write_line(slip, u, &slip->places[at]);
}

/* Usually one name, which is borrowed; several are joined in `room`. */
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

/* Another line, or more of one that is found by its texts. False: there is no
 * room. */
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
        .over = s->over,
        .cap = s->cap,
        .level = s->level,
        .reset = s->reset,
        .marks = s->marks
    };
    struct sl_buf room;
    bool good;

    /* Where others use the same, only the books know what lies beyond. */
    if (k->options.node.len > 0 && !s->level) {
        u.node = k->options.node;
        u.reported = true;
    }
    if (!is_held(&u))
        u.print = s->print; /* holds are known by their ids */
    sl_buf_init(&room, SL_USAGE_ID, k->options.alloc);
    good = name_of(s, &room, &u.id) && put_down(k, &u);
    sl_buf_done(&room);
    return good;
}

static void spent(struct sl_usage_sink *meter, const struct sl_usage_delta *s)
{
    struct sl_usage_buffer *k = (struct sl_usage_buffer *)meter;

    add(&k->counts.spent, 1);
    if (add_up(k->open, s))
        return; /* whoever opened the slip has seen to its end */
    if (!write_down(k, s))
        add(&k->counts.lost, s->amount > 0 ? (uint64_t)s->amount : 0);
    if (k->open &&
        (k->open->count == LINES || k->open->bytes >= TEXT_WANTED || s->reset))
        sl_usage_buffer_flush(meter);
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
    k->meter.calls = &calls;
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

void sl_usage_buffer_close(struct sl_usage_buffer *k)
{
    struct slip *slip;

    if (!k)
        return;
    while ((slip = TAILQ_FIRST(&k->failed))) {
        TAILQ_REMOVE(&k->failed, slip, link);
        free_slip(k, slip);
    }
    free_slip(k, k->open);
    free_slip(k, k->spare);
    sl_timer_free(k->timer);
    sl_alloc_free(k->options.alloc, k, sizeof(*k));
}

struct sl_usage_sink *sl_usage_buffer_sink(struct sl_usage_buffer *keeper)
{
    return &keeper->meter;
}

struct sl_registry *sl_usage_buffer_registry(const struct sl_usage_sink *meter)
{
    return ((const struct sl_usage_buffer *)meter)->registry;
}

const struct sl_usage_buffer_counts *
sl_usage_buffer_counts(const struct sl_usage_buffer *keeper)
{
    return &keeper->counts;
}
