/* history.c -- rings of counts, by endpoint and by limit: see history.h.
 *
 * A ring has one slot for each step; a step's slot is its number (time divided
 * by its length) modulo the slots. The slot of the current step is written too,
 * and shown when the step has ended.
 */
#include "server/history.h"

#include <inttypes.h>
#include <string.h>

#include "server/metrics_int.h"
#include "wire/json.h"

enum value {
    ALLOWED, /* also those that a limit in shadow mode would have denied */
    DENIED_429,
    DENIED_402,
    DENIED_403,
    DENIED_409,
    DENIED_503,
    DENIED_OTHER,
    SHADOW,    /* denied only by a limit in shadow mode */
    CANDIDATE, /* limits: the candidate rate would have denied */
    CONSUMED,  /* limits: units */
    RETRIES,   /* endpoints: denials with a Retry-After, */
    RETRY_MS,  /* and its mean */
    VALUES
};

static const char *const names[VALUES] = {
    "allowed", "429",    "402",       "403",      "409",     "503",
    "other",   "shadow", "candidate", "consumed", "retries", "retry_ms"};

static const struct {
    int64_t seconds;
    unsigned slots;
} rings[SL_HISTORY_STEPS] = {
    {10, 360 },
    {60, 1440}
};

#define SLOTS (360 + 1440)
#define NAME  72

struct row {
    bool is_limit;
    char name[NAME];
    size_t len;
    uint64_t sum[VALUES], before[VALUES]; /* of all threads; RETRY_MS: a sum */
    uint32_t slots[SLOTS][VALUES];
};

struct sl_history {
    const struct sl_alloc *alloc;
    struct row *rows[SL_HISTORY_ROWS + 1]; /* the first is the total */
    unsigned row_count;
    int64_t first[SL_HISTORY_STEPS]; /* number of the oldest step; 0: none */
    int64_t last[SL_HISTORY_STEPS];  /* of the current one */
};

/* ---- life ---- */

static struct row *add_row(struct sl_history *h, bool is_limit,
                           struct sl_str name)
{
    struct row *row;

    if (h->row_count == SL_LEN(h->rows) || name.len >= NAME)
        return NULL;
    row = sl_alloc_new(h->alloc, sizeof(*row));
    if (!row)
        return NULL;
    memset(row, 0, sizeof(*row));
    row->is_limit = is_limit;
    row->len = name.len;
    if (name.len > 0)
        memcpy(row->name, name.at, name.len);
    h->rows[h->row_count++] = row;
    return row;
}

void sl_history_close(struct sl_history *h)
{
    if (!h)
        return;
    for (unsigned i = 0; i < h->row_count; i++)
        sl_alloc_free(h->alloc, h->rows[i], sizeof(*h->rows[i]));
    sl_alloc_free(h->alloc, h, sizeof(*h));
}

int sl_history_open(const struct sl_alloc *alloc, struct sl_history **ret)
{
    struct sl_history *h;

    if (!alloc)
        alloc = &sl_alloc_libc;
    h = sl_alloc_new(alloc, sizeof(*h));
    if (!h)
        return SLUICE_ENOMEM;
    memset(h, 0, sizeof(*h));
    h->alloc = alloc;
    if (!add_row(h, false, (struct sl_str){"", 0})) {
        sl_history_close(h);
        return SLUICE_ENOMEM;
    }
    *ret = h;
    return 0;
}

/* ---- read the counts of all threads ---- */

/* The row of a name, or NULL: beyond the maximum. */
static struct row *find_row(struct sl_history *h, bool is_limit,
                            struct sl_str name)
{
    for (unsigned i = 1; i < h->row_count; i++)
        if (h->rows[i]->is_limit == is_limit && h->rows[i]->len == name.len &&
            memcmp(h->rows[i]->name, name.at, name.len) == 0)
            return h->rows[i];
    return name.len > 0 ? add_row(h, is_limit, name) : NULL;
}

static uint64_t load(const sl_stat *value)
{
    return atomic_load_explicit(value, memory_order_relaxed);
}

static enum value value_of(const struct sl_labels *labels)
{
    if (labels->result != SL_RESULT_DENY &&
        labels->result != SL_RESULT_ERROR_DENY)
        return ALLOWED;
    switch (labels->status) {
    case 429:
        return DENIED_429;
    case 402:
        return DENIED_402;
    case 403:
        return DENIED_403;
    case 409:
        return DENIED_409;
    case 503:
        return DENIED_503;
    default:
        return DENIED_OTHER;
    }
}

static void add_decisions(struct sl_history *h, const struct sl_series *series)
{
    const struct sl_labels *labels = &series->labels;
    struct row *to[] = {h->rows[0], find_row(h, false, labels->endpoint),
                        find_row(h, true, labels->limit)};
    uint64_t count = load(&series->values[0]);
    enum value value = value_of(labels);

    for (size_t i = 0; i < SL_LEN(to); i++) {
        if (!to[i])
            continue;
        to[i]->sum[value] += count;
        if (labels->result == SL_RESULT_SHADOW_DENY && !to[i]->is_limit)
            to[i]->sum[SHADOW] += count;
    }
}

static void add_limit(struct sl_history *h, const struct sl_series *series)
{
    uint64_t shadow = load(&series->values[OF_LIMIT_SHADOW]);
    uint64_t candidate = load(&series->values[OF_LIMIT_CANDIDATE]);
    uint64_t consumed = load(&series->values[OF_LIMIT_CONSUMED]);
    struct row *row = NULL;

    if (shadow + candidate + consumed > 0)
        row = find_row(h, true, series->labels.limit);
    if (!row)
        return;
    row->sum[SHADOW] += shadow;
    row->sum[CANDIDATE] += candidate;
    row->sum[CONSUMED] += consumed;
}

static void add_retries(struct sl_history *h, const struct sl_series *series)
{
    struct row *to[] = {h->rows[0], NULL};
    uint64_t count = 0;
    uint64_t sum = load(&series->values[SL_WAIT_VALUES - 1]) / SL_MS;

    for (unsigned i = 0; i < SL_WAIT_VALUES - 1; i++)
        count += load(&series->values[i]);
    if (count == 0)
        return;
    to[1] = find_row(h, false, series->labels.endpoint);
    for (size_t i = 0; i < SL_LEN(to); i++)
        if (to[i]) {
            to[i]->sum[RETRIES] += count;
            to[i]->sum[RETRY_MS] += sum;
        }
}

static void read_thread(struct sl_history *h, const struct sl_metrics *stats)
{
    unsigned count =
        atomic_load_explicit(&stats->series_count, memory_order_acquire);

    for (unsigned i = 0; i < count; i++) {
        const struct sl_series *series = stats->series[i];

        if (series->labels.kind == SL_OF_DECISION &&
            load(&series->values[0]) > 0)
            add_decisions(h, series);
        else if (series->labels.kind == SL_OF_LIMIT)
            add_limit(h, series);
        else if (series->labels.kind == SL_OF_ENDPOINT)
            add_retries(h, series);
    }
}

/* ---- write the difference into the rings ---- */

static uint32_t *slot_of(struct row *row, enum sl_history_step ring,
                         int64_t step)
{
    unsigned at = (unsigned)(step % (int64_t)rings[ring].slots);

    return row->slots[(ring == SL_HISTORY_10S ? 0 : rings[0].slots) + at];
}

static uint32_t capped(uint64_t value)
{
    return value < UINT32_MAX ? (uint32_t)value : UINT32_MAX;
}

static void add_values(uint32_t *slot, const uint64_t *more)
{
    uint64_t retries = slot[RETRIES] + more[RETRIES];
    uint64_t waited = (uint64_t)slot[RETRIES] * slot[RETRY_MS] + more[RETRY_MS];

    for (unsigned i = 0; i < VALUES; i++)
        if (i != RETRY_MS)
            slot[i] = capped(slot[i] + more[i]);
    slot[RETRY_MS] = retries > 0 ? capped(waited / retries) : 0;
}

static void keep_row(struct sl_history *h, struct row *row)
{
    uint64_t more[VALUES];

    for (unsigned i = 0; i < VALUES; i++) {
        more[i] =
            row->sum[i] > row->before[i] ? row->sum[i] - row->before[i] : 0;
        row->before[i] = row->sum[i];
    }
    for (unsigned ring = 0; ring < SL_HISTORY_STEPS; ring++)
        add_values(slot_of(row, ring, h->last[ring]), more);
}

/* Clear the slots of the steps from the last one to `step`. */
static void advance(struct sl_history *h, enum sl_history_step ring,
                    int64_t step)
{
    int64_t slots = rings[ring].slots;
    int64_t from = h->last[ring] + 1;

    if (h->first[ring] == 0 || step < h->last[ring]) {
        h->first[ring] = step;
        from = step - slots + 1;
    }
    if (from < step - slots + 1)
        from = step - slots + 1;
    for (; from <= step; from++)
        for (unsigned i = 0; i < h->row_count && from >= 0; i++)
            memset(slot_of(h->rows[i], ring, from), 0,
                   VALUES * sizeof(uint32_t));
    h->last[ring] = step;
    if (h->first[ring] <= step - slots)
        h->first[ring] = step - slots + 1;
}

/* What was counted since the last reading belongs to the step that has just
 * ended: the rings advance afterwards. */
void sl_history_poll(struct sl_history *h, struct sl_metrics *const *all,
                     unsigned count, sl_ns now)
{
    int64_t second = now / SL_S;
    bool begins = h->first[SL_HISTORY_10S] == 0;

    if (!begins &&
        second / rings[SL_HISTORY_10S].seconds == h->last[SL_HISTORY_10S])
        return;
    for (unsigned ring = 0; begins && ring < SL_HISTORY_STEPS; ring++)
        advance(h, ring, second / rings[ring].seconds);
    for (unsigned i = 0; i < h->row_count; i++)
        memset(h->rows[i]->sum, 0, sizeof(h->rows[i]->sum));
    for (unsigned i = 0; i < count; i++)
        read_thread(h, all[i]);
    for (unsigned i = 0; i < h->row_count; i++)
        keep_row(h, h->rows[i]);
    for (unsigned ring = 0; ring < SL_HISTORY_STEPS; ring++)
        if (second / rings[ring].seconds != h->last[ring])
            advance(h, ring, second / rings[ring].seconds);
}

/* ---- JSON ---- */

static void write_column(struct sl_writer *w, struct row *row,
                         enum sl_history_step ring, enum value value,
                         int64_t from, int64_t to)
{
    bool any = false;

    for (int64_t step = from; step < to && !any; step++)
        any = slot_of(row, ring, step)[value] > 0;
    if (!any)
        return;
    sl_json_key(w, sl_str_c(names[value]));
    for (int64_t step = from; step < to; step++)
        sl_writer_addf(w, "%c%" PRIu32, step == from ? '[' : ',',
                       slot_of(row, ring, step)[value]);
    sl_writer_add(w, SL_STR("]"));
}

static void write_row(struct sl_writer *w, struct row *row,
                      enum sl_history_step ring, int64_t from, int64_t to)
{
    sl_json_open(w, '{');
    sl_json_member_str(w, "name", (struct sl_str){row->name, row->len});
    for (unsigned i = 0; i < VALUES; i++)
        write_column(w, row, ring, (enum value)i, from, to);
    sl_json_close(w, '}');
}

int sl_history_write(const struct sl_history *h, enum sl_history_step ring,
                     int64_t since, struct sl_buf *out)
{
    int64_t seconds = rings[ring].seconds, from = h->first[ring];
    int64_t to = h->last[ring], wanted = (since + seconds - 1) / seconds;
    struct sl_writer w = {.out = out};

    if (wanted > from)
        from = wanted;
    if (from > to)
        from = to;
    sl_writer_addf(&w,
                   "{\"step\":%" PRId64 ",\"first\":%" PRId64
                   ",\"count\":%" PRId64 ",\"total\":",
                   seconds, from * seconds, to - from);
    write_row(&w, h->rows[0], ring, from, to);
    for (unsigned is_limit = 0; is_limit < 2; is_limit++) {
        sl_writer_add(&w, is_limit ? SL_STR(",\"limits\":[")
                                   : SL_STR(",\"endpoints\":["));
        for (unsigned i = 1; i < h->row_count; i++)
            if (h->rows[i]->is_limit == (bool)is_limit)
                write_row(&w, h->rows[i], ring, from, to);
        sl_writer_add(&w, SL_STR("]"));
    }
    sl_writer_add(&w, SL_STR("}"));
    return w.err;
}
