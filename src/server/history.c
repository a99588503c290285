/* history.c -- rings of counts, by endpoint and by limit: see history.h.
 *
 * A ring has one slot for each step; a step's slot is its number (time divided
 * by its length) modulo the slots. The slot of the current step is written too,
 * and shown when the step has ended.
 */
#include "server/history.h"

#include <inttypes.h>
#include <stdio.h>
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
#define NAME  144

enum of { OF_TOTAL, OF_ENDPOINT, OF_LIMIT, OF_USE, OFS };

static const char marks[OFS] = {'T', 'E', 'L', 'U'};

/* The name of a use is that of its endpoint, a newline and that of its limit.
 */
struct row {
    enum of of;
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

static struct row *add_row(struct sl_history *h, enum of of, struct sl_str name)
{
    struct row *row;

    if (h->row_count == SL_LEN(h->rows) || name.len >= NAME)
        return NULL;
    row = sl_alloc_new(h->alloc, sizeof(*row));
    if (!row)
        return NULL;
    memset(row, 0, sizeof(*row));
    row->of = of;
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
    if (!add_row(h, OF_TOTAL, (struct sl_str){"", 0})) {
        sl_history_close(h);
        return SLUICE_ENOMEM;
    }
    *ret = h;
    return 0;
}

/* ---- read the counts of all threads ---- */

/* The row of a name, or NULL: beyond the maximum. */
static struct row *find_row(struct sl_history *h, enum of of,
                            struct sl_str name)
{
    for (unsigned i = 1; i < h->row_count; i++)
        if (h->rows[i]->of == of && h->rows[i]->len == name.len &&
            memcmp(h->rows[i]->name, name.at, name.len) == 0)
            return h->rows[i];
    return name.len > 0 ? add_row(h, of, name) : NULL;
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
    struct row *to[] = {h->rows[0], find_row(h, OF_ENDPOINT, labels->endpoint),
                        find_row(h, OF_LIMIT, labels->limit)};
    uint64_t count = load(&series->values[0]);
    enum value value = value_of(labels);

    for (size_t i = 0; i < SL_LEN(to); i++) {
        if (!to[i])
            continue;
        to[i]->sum[value] += count;
        if (labels->result == SL_RESULT_SHADOW_DENY && to[i]->of != OF_LIMIT)
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
        row = find_row(h, OF_LIMIT, series->labels.limit);
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
    to[1] = find_row(h, OF_ENDPOINT, series->labels.endpoint);
    for (size_t i = 0; i < SL_LEN(to); i++)
        if (to[i]) {
            to[i]->sum[RETRIES] += count;
            to[i]->sum[RETRY_MS] += sum;
        }
}

static void add_use(struct sl_history *h, const struct sl_series *series)
{
    const struct sl_labels *labels = &series->labels;
    uint64_t consumed = load(&series->values[0]);
    char name[2 * NAME];
    int len = snprintf(name, sizeof(name), "%.*s\n%.*s",
                       SL_STR_ARG(labels->endpoint), SL_STR_ARG(labels->limit));
    struct row *row = NULL;

    if (consumed > 0 && len < NAME)
        row = find_row(h, OF_USE, (struct sl_str){name, (size_t)len});
    if (row)
        row->sum[CONSUMED] += consumed;
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
        else if (series->labels.kind == SL_OF_USE)
            add_use(h, series);
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

/* ---- steps of other daemons ----
 *
 * A step is a text of printable ASCII: rows that end with ';'. A row is a mark
 * (T: total, E: endpoint, L: limit, U: use), its name, and ",COLUMN:VALUE" of
 * each column that is not 0. Other bytes of a name are written as %XX.
 */

static void write_name(struct sl_writer *w, const struct row *row)
{
    for (size_t i = 0; i < row->len; i++) {
        unsigned char c = (unsigned char)row->name[i];
        bool plain = c > ' ' && c < 127 && !strchr("%,;:", c);

        sl_writer_addf(w, plain ? "%c" : "%%%02X", c);
    }
}

static void write_step_row(struct sl_writer *w, struct row *row, int64_t step)
{
    const uint32_t *slot = slot_of(row, SL_HISTORY_10S, step);
    bool any = false;

    for (unsigned i = 0; i < VALUES && !any; i++)
        any = slot[i] > 0;
    if (!any)
        return;
    sl_writer_addf(w, "%c", marks[row->of]);
    write_name(w, row);
    for (unsigned i = 0; i < VALUES; i++)
        if (slot[i] > 0)
            sl_writer_addf(w, ",%u:%" PRIu32, i, slot[i]);
    sl_writer_addf(w, ";");
}

int64_t sl_history_last(const struct sl_history *h)
{
    return h->first[SL_HISTORY_10S] > 0 ? h->last[SL_HISTORY_10S] - 1 : 0;
}

bool sl_history_has(const struct sl_history *h, int64_t step)
{
    return step >= h->first[SL_HISTORY_10S] && step < h->last[SL_HISTORY_10S];
}

int sl_history_step_write(const struct sl_history *h, int64_t step, size_t most,
                          struct sl_buf *out)
{
    struct sl_writer w = {.out = out};

    for (unsigned i = 0; i < h->row_count && !w.err; i++) {
        size_t before = out->len;

        write_step_row(&w, h->rows[i], step);
        if (out->len > most)
            out->len = before; /* the total came first */
    }
    return w.err;
}

/* Reads the name of a row. Returns false if it is not one. */
static bool read_name(struct sl_str *text, char name[static NAME], size_t *ret)
{
    size_t i = 0, len = 0;

    for (; i < text->len && !strchr(",;", text->at[i]) && len < NAME; i++) {
        name[len] = text->at[i];
        if (text->at[i] == '%' && i + 2 < text->len) {
            int high = sl_hex_value(text->at[i + 1]);
            int low = sl_hex_value(text->at[i + 2]);

            if (high < 0 || low < 0)
                return false;
            name[len] = (char)(high << 4 | low);
            i += 2;
        }
        len++;
    }
    *text = sl_str_from(*text, i);
    *ret = len;
    return len < NAME;
}

static uint64_t read_digits(struct sl_str *text)
{
    uint64_t number = 0;
    size_t i = 0;

    for (; i < text->len && text->at[i] >= '0' && text->at[i] <= '9' &&
           number < UINT32_MAX;
         i++)
        number = number * 10 + (uint64_t)(text->at[i] - '0');
    *text = sl_str_from(*text, i);
    return number;
}

/* Reads the columns of a row, and the ';' behind it. */
static bool read_values(struct sl_str *text, uint64_t more[static VALUES])
{
    memset(more, 0, VALUES * sizeof(*more));
    while (text->len > 0 && text->at[0] == ',') {
        uint64_t column;

        *text = sl_str_from(*text, 1);
        column = read_digits(text);
        if (column >= VALUES || text->len == 0 || text->at[0] != ':')
            return false;
        *text = sl_str_from(*text, 1);
        more[column] = read_digits(text);
    }
    more[RETRY_MS] *= more[RETRIES]; /* a mean */
    if (text->len == 0 || text->at[0] != ';')
        return false;
    *text = sl_str_from(*text, 1);
    return true;
}

static bool read_row(struct sl_history *h, struct sl_str *text, int64_t step)
{
    const char *mark = memchr(marks, text->at[0], OFS);
    struct row *row = h->rows[0];
    uint64_t more[VALUES];
    char name[NAME];
    size_t len;

    *text = sl_str_from(*text, 1);
    if (!mark || !read_name(text, name, &len) || !read_values(text, more))
        return false;
    if (mark != marks)
        row = find_row(h, (enum of)(mark - marks), (struct sl_str){name, len});
    if (row) {
        add_values(slot_of(row, SL_HISTORY_10S, step), more);
        add_values(slot_of(row, SL_HISTORY_1M, step / 6), more);
    }
    return true;
}

/* Makes room for a step. Returns false if it is too old. */
static bool reach(struct sl_history *h, int64_t step)
{
    const int64_t of[SL_HISTORY_STEPS] = {step, step / 6};

    for (unsigned ring = 0; ring < SL_HISTORY_STEPS; ring++) {
        if (h->first[ring] == 0)
            advance(h, ring, of[ring]);
        if (of[ring] <= h->last[ring] - (int64_t)rings[ring].slots)
            return false;
        if (of[ring] < h->first[ring])
            h->first[ring] = of[ring];
    }
    if (h->last[SL_HISTORY_10S] <= step)
        advance(h, SL_HISTORY_10S, step + 1);
    if (h->last[SL_HISTORY_1M] < (step + 1) / 6)
        advance(h, SL_HISTORY_1M, (step + 1) / 6);
    return true;
}

bool sl_history_step_add(struct sl_history *h, int64_t step, struct sl_str text)
{
    if (step <= 0 || !reach(h, step))
        return false;
    while (text.len > 0)
        if (!read_row(h, &text, step))
            return false;
    return true;
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
    struct sl_str name = {row->name, row->len};
    const char *end =
        row->of == OF_USE ? memchr(name.at, '\n', name.len) : NULL;

    sl_json_open(w, '{');
    if (end) {
        name.len = (size_t)(end - name.at);
        sl_json_member_str(
            w, "limit",
            sl_str_from((struct sl_str){row->name, row->len}, name.len + 1));
    }
    sl_json_member_str(w, "name", name);
    for (unsigned i = 0; i < VALUES; i++)
        write_column(w, row, ring, (enum value)i, from, to);
    sl_json_close(w, '}');
}

int sl_history_write(const struct sl_history *h, enum sl_history_step ring,
                     int64_t since, struct sl_buf *out)
{
    int64_t seconds = rings[ring].seconds, from = h->first[ring];
    static const char *const lists[OFS] = {
        [OF_ENDPOINT] = "endpoints", [OF_LIMIT] = "limits", [OF_USE] = "uses"};
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
    for (unsigned of = OF_ENDPOINT; of < OFS; of++) {
        sl_writer_addf(&w, ",\"%s\":[", lists[of]);
        for (unsigned i = 1; i < h->row_count; i++)
            if (h->rows[i]->of == of)
                write_row(&w, h->rows[i], ring, from, to);
        sl_writer_add(&w, SL_STR("]"));
    }
    sl_writer_add(&w, SL_STR("}"));
    return w.err;
}
