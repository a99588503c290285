/* usage_replay.c -- records what an earlier process has left in the journal,
 * while the registry serves.
 *
 *     start:  lines of reports and holds, and of leased quotas, are recorded
 *     then:   a job about a subject records the lines of the subject first
 *     idle:   a portion of the oldest segment, again and again
 *
 * A portion is a transaction of its own. The lines before a job are in the
 * transaction of the job, which has locked their subject. Until all lines of a
 * segment are recorded, a row has a bit for each that is. The last portion
 * deletes the row and takes the sequence of the segment.
 *
 * Invariants. (test/prop/journal.c checks each by number.)
 *   (1) A line is recorded once: its bit, or the sequence of its segment, is in
 *       the transaction of its amount.
 *   (2) A job sees all lines of its subject, so that a pending line is never
 *       counted as unused.
 *   (3) The amounts of pending lines are added to those of the database when
 *       the table is compared with it.
 *   (4) The segments of a stream are completed in the order of their sequences.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/parse.h"
#include "registry/registry_int.h"
#include "registry/usage_journal.h"

#define TEXTS_MOST ((size_t)4 << 20)

/* Tries of a portion at the start; each waits for a lock for some
 * milliseconds. */
#define TRIES 200

/* Pause after a portion that failed, or whose subject is locked. */
#define RETRY (200 * SL_MS)

/* A failure is logged at most once in this time. */
#define LOG_AGAIN SL_MIN

/* Lines of a portion while other jobs come; it doubles while none do. */
#define PORTION_LEAST 8

/* How long the sequences of a journal that is not used are kept. */
#define JOURNAL_KEPT (400 * SL_DAY)

/* Bytes of an id that every database stores as it is. */
#define ID_MOST 400

#define BIT_WORDS (SL_JOURNAL_LINES / 64)
#define BIT_TEXT  (SL_JOURNAL_LINES / 4 + 1)

enum line_state { LINE_PENDING, LINE_WRITTEN, LINE_DONE };

enum line_flag {
    LINE_FIRST = 1,   /* recorded at the start */
    LINE_SHOWN = 2,   /* added to a counter */
    LINE_EARLIER = 4, /* a later period of its counter has usage */
};

/* What recording a line has done to its counter. */
struct crossed {
    uint16_t before, now; /* thresholds */
    uint64_t used, of;
};

struct line {
    uint32_t next; /* with the same hash: its number + 1; 0: none */
    uint32_t segment;
    uint16_t place;
    uint8_t state, flags;   /* WRITTEN: in the open transaction */
    struct crossed crossed; /* by a transaction whose outcome is not known */
};

struct segment {
    const struct sl_usage_segment *at;
    unsigned index;              /* among the recovered ones */
    uint32_t first, count, left; /* lines; not done */
    bool has_row;                /* at the start */
};

/* A line of the open transaction. */
struct written {
    uint32_t line;
    struct crossed crossed;
};

struct sl_usage_replay {
    struct sl_usage_journal *journal;
    struct segment *segments;
    struct line *lines;
    struct written *written;
    uint32_t *buckets; /* by subject: the number of a line + 1; 0: none */
    unsigned segment_count, next;
    size_t segment_most, line_most, bucket_count; /* allocated */
    uint32_t line_count, written_count;
    unsigned portion;
    sl_ns retry_at; /* monotonic */
    sl_ns log_at;   /* the next failure from then on */

    /* The portion under way. */
    struct sl_job job;
    struct sl_arena texts;
    bool finishes; /* its segment is complete with it */
    uint32_t list[SL_JOURNAL_LINES];
    struct sl_usage_entry entries[SL_JOURNAL_LINES];
};

/* ---- lines by subject ---- */

static const struct sl_usage_line *line_at(const struct sl_usage_replay *p,
                                           uint32_t number)
{
    const struct line *line = &p->lines[number];

    return (const void *)((const char *)p->segments[line->segment].at +
                          (size_t)line->place * SL_JOURNAL_UNIT);
}

/* The texts of a line begin with limit, scope and id. */
static struct sl_str text_of(const struct sl_usage_line *line, int which)
{
    const char *at = line->texts;

    for (int i = 0; i < which; i++)
        at += line->lengths[i];
    return (struct sl_str){at, line->lengths[which]};
}

static uint32_t *bucket_of(const struct sl_registry *r, struct sl_str scope,
                           struct sl_str id)
{
    struct sl_hash_key key = r->secret;

    key.k0 ^= scope.len;
    return &r->replay
                ->buckets[sl_hash64(&key, id) & (r->replay->bucket_count - 1)];
}

/* Moves *link to the next line of the subject that is not done, and returns its
 * number + 1; 0: there is none. Takes lines that are done out of the list. */
static uint32_t find(struct sl_usage_replay *p, uint32_t **link,
                     struct sl_str scope, struct sl_str id)
{
    while (**link) {
        struct line *line = &p->lines[**link - 1];
        const struct sl_usage_line *at = line_at(p, **link - 1);

        if (line->state == LINE_DONE) {
            **link = line->next;
            continue;
        }
        if (sl_str_eq(text_of(at, 2), id) && sl_str_eq(text_of(at, 1), scope))
            return **link;
        *link = &line->next;
    }
    return 0;
}

bool sl_usage_replay_has(struct sl_registry *r, struct sl_str scope,
                         struct sl_str id)
{
    uint32_t *link = r->replay ? bucket_of(r, scope, id) : NULL;

    return link && find(r->replay, &link, scope, id);
}

bool sl_usage_replay_has_limit(const struct sl_registry *r, struct sl_str limit)
{
    const struct sl_usage_replay *p = r->replay;

    for (uint32_t i = 0; p && i < p->line_count; i++)
        if (p->lines[i].state != LINE_DONE &&
            sl_str_eq(text_of(line_at(p, i), 0), limit))
            return true;
    return false;
}

/* ---- the row of a segment ----
 *
 * Sequence and row are read in the transaction that records lines: a
 * transaction of the killed process may be committed after the start. */

static int load_bits(struct sl_registry *r, const struct segment *s,
                     uint64_t bits[BIT_WORDS])
{
    struct sl_str text = SL_STR("");
    int found = sl_query_one(&r->db, SL_QUERY_SEGMENT, "tcc t",
                             sl_usage_journal_node(r->replay->journal),
                             s->at->stream, s->at->sequence, &text);

    memset(bits, 0, BIT_WORDS * sizeof(*bits));
    for (size_t i = 0; i < text.len && i < BIT_TEXT - 1; i++)
        bits[i / 16] = bits[i / 16] << 4 | (unsigned)sl_hex_value(text.at[i]);
    return found < 0 ? found : 0;
}

static int store_bits(struct sl_registry *r, const struct segment *s,
                      const uint64_t bits[BIT_WORDS])
{
    char text[BIT_TEXT];

    for (int i = 0; i < BIT_WORDS; i++)
        snprintf(text + 16 * i, 17, "%016" PRIx64, bits[i]);
    return sl_query_run(&r->db, SL_QUERY_PUT_SEGMENT, "tcctn",
                        sl_usage_journal_node(r->replay->journal),
                        s->at->stream, s->at->sequence, sl_str_c(text),
                        sl_clock_wall());
}

static bool has_bit(const uint64_t *bits, uint32_t n)
{
    return bits[n / 64] >> n % 64 & 1;
}

/* ---- recording ---- */

static void mark_written(struct sl_usage_replay *p, uint32_t number,
                         struct crossed crossed)
{
    p->written[p->written_count++] = (struct written){number, crossed};
    p->lines[number].state = LINE_WRITTEN;
}

/* A report whose key belongs to another report is left out. */
static int record_line(struct sl_registry *r, uint32_t number,
                       struct sl_usage_entry *u)
{
    unsigned failed;
    int err = sl_usage_db_record(&r->db, u, 1, &failed);

    if (err)
        return err;
    if (u->absorbed)
        sl_job_touch(r, u->scope, u->id);
    mark_written(r->replay, number,
                 (struct crossed){(uint16_t)u->threshold_before,
                                  (uint16_t)u->threshold, u->used, u->of});
    return 0;
}

/* Is the sequence of the segment taken? Then all of its lines are recorded. */
static int take_sequence(struct sl_registry *r, const struct segment *s,
                         bool finishes, bool *ret)
{
    struct sl_str node = sl_usage_journal_node(r->replay->journal);
    uint64_t last = 0;
    int found;

    if (finishes) {
        found = sl_query_one(&r->db, SL_QUERY_PUT_JOURNAL, "tccnc c", node,
                             s->at->stream, s->at->sequence, sl_clock_wall(),
                             (uint64_t)0, &last);
        *ret = found == 0;
    } else {
        found = sl_query_one(&r->db, SL_QUERY_JOURNAL, "tc c", node,
                             s->at->stream, &last);
        *ret = found == 1 && last >= s->at->sequence;
    }
    return found < 0 ? found : 0;
}

/* Records lines of one segment. `entries` NULL: reads them. (1) */
static int record_part(struct sl_registry *r, const uint32_t *list,
                       struct sl_usage_entry *entries, unsigned count,
                       const struct segment *s, bool finishes)
{
    struct sl_usage_replay *p = r->replay;
    uint64_t bits[BIT_WORDS];
    struct sl_usage_entry own;
    bool is_recorded;
    int err = take_sequence(r, s, finishes, &is_recorded);

    if (!err && !is_recorded)
        err = load_bits(r, s, bits);
    for (unsigned i = 0; i < count && !err; i++) {
        uint32_t bit = list[i] - s->first;

        if (entries && !is_recorded && i % SL_USAGE_AHEAD == 0)
            err = sl_usage_db_prefetch(&r->db, entries + i, count - i);
        if (err)
            break;
        if (is_recorded || has_bit(bits, bit)) {
            mark_written(p, list[i], p->lines[list[i]].crossed);
            continue;
        }
        if (!entries)
            sl_usage_line_read(line_at(p, list[i]), &own);
        err = record_line(r, list[i], entries ? &entries[i] : &own);
        bits[bit / 64] |= UINT64_C(1) << bit % 64;
    }
    if (!err)
        err = sl_query_fetch(&r->db);
    if (err || is_recorded)
        return err;
    if (!finishes)
        return count > 0 ? store_bits(r, s, bits) : 0;
    return sl_query_run(&r->db, SL_QUERY_DROP_SEGMENT, "tcc",
                        sl_usage_journal_node(p->journal), s->at->stream,
                        s->at->sequence);
}

static int record_list(struct sl_registry *r, const uint32_t *list,
                       struct sl_usage_entry *entries, unsigned count)
{
    struct sl_usage_replay *p = r->replay;
    int err = 0;

    for (unsigned i = 0, end; i < count && !err; i = end) {
        uint32_t segment = p->lines[list[i]].segment;

        for (end = i; end < count && p->lines[list[end]].segment == segment;)
            end++;
        err = record_part(r, list + i, entries ? entries + i : NULL, end - i,
                          &p->segments[segment], false);
    }
    return err;
}

/* Records the lines of a subject, in their order. */
static int record_subject(struct sl_registry *r, struct sl_str scope,
                          struct sl_str id)
{
    struct sl_usage_replay *p = r->replay;
    uint32_t *link = bucket_of(r, scope, id), number, list[32];
    unsigned count = 0;
    int err = 0;

    while (!err && (number = find(p, &link, scope, id))) {
        link = &p->lines[number - 1].next;
        if (p->lines[number - 1].state != LINE_PENDING)
            continue;
        list[count++] = number - 1;
        if (count == SL_LEN(list)) {
            err = record_list(r, list, NULL, count);
            count = 0;
        }
    }
    return err ? err : record_list(r, list, NULL, count);
}

int sl_usage_replay_before(struct sl_registry *r, const struct sl_job *job)
{
    int err = 0;

    if (!r->replay || job->is_replay)
        return 0;
    switch (job->kind) {
    case SL_JOB_USAGE:
        for (unsigned i = 0; i < job->change_count && !err; i++)
            if (job->usage[i].scope.len > 0)
                err = record_subject(r, job->usage[i].scope, job->usage[i].id);
        return err;
    case SL_JOB_LEASE:
        return job->claim->scope.len > 0
                   ? record_subject(r, job->claim->scope, job->claim->id)
                   : 0;
    case SL_JOB_GRANT:
        return record_subject(r, job->grant->scope, job->grant->id);
    case SL_JOB_USAGE_READ:
    case SL_JOB_CREDITS:
        return job->is_pending ? record_subject(r, job->scope, job->id) : 0;
    default:
        return 0;
    }
}

int sl_usage_replay_run(struct sl_registry *r, struct sl_job *job)
{
    struct sl_usage_replay *p = r->replay;

    job->failed = job->change_count;
    return p->finishes ? record_part(r, p->list, p->entries, job->change_count,
                                     &p->segments[p->next], true)
                       : record_list(r, p->list, p->entries, job->change_count);
}

/* ---- the end of a transaction ---- */

unsigned sl_usage_replay_mark(const struct sl_registry *r)
{
    return r->replay ? r->replay->written_count : 0;
}

/* If the transaction was committed after all, its lines are found to be
 * recorded at the next try, with what they have crossed. */
void sl_usage_replay_undo(struct sl_registry *r, unsigned mark)
{
    struct sl_usage_replay *p = r->replay;

    while (p && p->written_count > mark) {
        const struct written *w = &p->written[--p->written_count];

        p->lines[w->line].state = LINE_PENDING;
        if (r->db.uncertain_txn)
            p->lines[w->line].crossed = w->crossed;
    }
}

static void report(struct sl_registry *r, const struct written *w)
{
    struct sl_usage_entry u;

    if (!r->options.on_threshold || w->crossed.now <= w->crossed.before)
        return;
    sl_usage_line_read(line_at(r->replay, w->line), &u);
    u.threshold_before = w->crossed.before;
    u.threshold = w->crossed.now;
    u.of = w->crossed.of;
    u.used = w->crossed.used;
    r->options.on_threshold(r->ctx, &u);
}

void sl_usage_replay_commit(struct sl_registry *r)
{
    struct sl_usage_replay *p = r->replay;

    for (uint32_t i = 0; p && i < p->written_count; i++) {
        struct line *line = &p->lines[p->written[i].line];

        line->state = LINE_DONE;
        p->segments[line->segment].left--;
        report(r, &p->written[i]);
    }
    if (p)
        p->written_count = 0;
}

void sl_usage_replay_forget(struct sl_registry *r)
{
    struct sl_usage_replay *p = r->replay;

    for (uint32_t i = 0; p && i < p->line_count; i++)
        if (p->lines[i].state == LINE_PENDING)
            mark_written(p, i, (struct crossed){0});
}

/* ---- the amounts of pending lines (3) ---- */

/* Adds them to a counter. A counter and a line of different periods know of
 * each other, if both call this. */
static void add_pending(void *ctx, struct sl_usage_entry *u)
{
    struct sl_registry *r = ctx;
    struct sl_usage_replay *p = r->replay;
    uint32_t *link = bucket_of(r, u->scope, u->id), number;
    int64_t used = (int64_t)u->used;

    while ((number = find(p, &link, u->scope, u->id))) {
        const struct sl_usage_line *line = line_at(p, number - 1);
        const struct sl_usage_amount *a = sl_usage_line_amount(line);

        link = &p->lines[number - 1].next;
        if (!sl_str_eq(text_of(line, 0), u->limit))
            continue;
        if (a->start < u->start)
            p->lines[number - 1].flags |= LINE_EARLIER;
        u->later |= a->start > u->start;
        if (a->start != u->start)
            continue;
        p->lines[number - 1].flags |= LINE_SHOWN;
        used += a->amount;
        if (used > SL_USAGE_MOST)
            used = SL_USAGE_MOST;
        if (a->at > u->at)
            u->at = a->at;
    }
    u->used = used > 0 ? (uint64_t)used : 0;
}

/* The next counter that only pending lines have. */
static bool next_pending(void *ctx, uint32_t *at, struct sl_usage_entry *ret)
{
    struct sl_registry *r = ctx;
    const struct sl_usage_replay *p = r->replay;

    for (; *at < p->line_count; ++*at) {
        const struct line *line = &p->lines[*at];

        if (line->state == LINE_DONE || line->flags & LINE_SHOWN)
            continue;
        sl_usage_line_read(line_at(p, *at), ret);
        ret->later = line->flags & LINE_EARLIER;
        add_pending(ctx, ret);
        return true;
    }
    return false;
}

const struct sl_usage_pending *
sl_usage_replay_pending(struct sl_registry *r, struct sl_usage_pending *ret)
{
    *ret = (struct sl_usage_pending){add_pending, next_pending, r};
    return r->replay ? ret : NULL;
}

/* ---- portions ---- */

static void add_line(struct sl_usage_replay *p, uint32_t number)
{
    struct sl_usage_entry *u = &p->entries[p->job.change_count];

    p->list[p->job.change_count++] = number;
    sl_usage_line_read(line_at(p, number), u);
    u->names_in = &p->texts;
}

static void begin_portion(struct sl_usage_replay *p)
{
    sl_arena_reset(&p->texts);
    memset(&p->job, 0, sizeof(p->job));
    p->job.kind = SL_JOB_USAGE;
    p->job.is_replay = true;
    p->job.usage = p->entries;
    p->finishes = false;
}

/* Records the lines that must be recorded before the registry serves. */
static int record_first(struct sl_registry *r)
{
    struct sl_usage_replay *p = r->replay;
    struct sl_job *job = &p->job;
    uint32_t at = 0;

    do {
        begin_portion(p);
        for (; at < p->line_count && job->change_count < SL_JOURNAL_LINES; at++)
            if (p->lines[at].flags & LINE_FIRST &&
                p->lines[at].state == LINE_PENDING)
                add_line(p, at);
        for (unsigned i = 0;
             job->change_count > 0 && i < TRIES && (i == 0 || job->is_blocked);
             i++)
            sl_job_run_writes(r, job, false);
        if (job->is_blocked) {
            sl_job_give_up(r, job);
            r->db.is_temporary = true;
        }
        if (job->err)
            r->db.diag = job->diag;
    } while (!job->err && at < p->line_count);
    return job->err;
}

bool sl_usage_replay_is_due(const struct sl_registry *r)
{
    return r->replay && !r->is_away && !r->is_ending &&
           sl_clock_mono() >= r->replay->retry_at;
}

/* The sequences of earlier openings are not needed once no segment has one: the
 * file must say so on disk first. */
static int trim_sequences(struct sl_registry *r)
{
    struct sl_usage_journal *journal = r->options.journal;
    uint64_t first = sl_usage_journal_streams(journal);
    sl_ns now = sl_clock_wall();
    sl_ns old = now > JOURNAL_KEPT ? now - JOURNAL_KEPT : 0;
    int err;

    if (!sl_usage_journal_is_file(journal) || sl_usage_journal_flush(journal))
        return 0; /* at the next start */
    err = sl_query_run(&r->db, SL_QUERY_TRIM_JOURNAL, "tccn",
                       sl_usage_journal_node(journal), first,
                       first + SL_JOURNAL_STREAMS, old);
    return err ? err : sl_query_run(&r->db, SL_QUERY_TRIM_SEGMENTS, "n", old);
}

/* The segment is recorded. (4) */
static void finish_segment(struct sl_registry *r)
{
    struct sl_usage_replay *p = r->replay;

    sl_usage_journal_drop_recovered(p->journal, p->segments[p->next++].index);
    if (p->next < p->segment_count)
        return;
    sl_usage_replay_close(r);
    (void)!trim_sequences(r); /* or at the next start */
    if (r->options.on_replayed)
        r->options.on_replayed(r->ctx);
}

void sl_usage_replay_some(struct sl_registry *r, bool busy)
{
    struct sl_usage_replay *p = r->replay;
    struct sl_job *job = &p->job;
    const struct segment *s = &p->segments[p->next];

    p->portion = busy ? PORTION_LEAST : 2 * p->portion;
    if (p->portion > SL_JOURNAL_LINES)
        p->portion = SL_JOURNAL_LINES;
    begin_portion(p);
    for (uint32_t i = s->first;
         i < s->first + s->count && job->change_count < p->portion; i++)
        if (p->lines[i].state == LINE_PENDING)
            add_line(p, i);
    p->finishes = job->change_count == s->left;
    sl_job_run_writes(r, job, false);
    if (job->err && r->on_fault && sl_clock_mono() >= p->log_at) {
        r->on_fault(r->ctx, job->diag.sentence);
        p->log_at = sl_clock_mono() + LOG_AGAIN;
    }
    if (job->err || job->is_blocked)
        p->retry_at = sl_clock_mono() + RETRY;
    else if (p->finishes)
        finish_segment(r);
}

/* ---- opening ---- */

void sl_usage_replay_close(struct sl_registry *r)
{
    struct sl_usage_replay *p = r->replay;

    if (!p)
        return;
    sl_alloc_free(r->alloc, p->segments,
                  p->segment_most * sizeof(*p->segments));
    sl_alloc_free(r->alloc, p->lines, p->line_most * sizeof(*p->lines));
    sl_alloc_free(r->alloc, p->written, p->line_most * sizeof(*p->written));
    sl_alloc_free(r->alloc, p->buckets, p->bucket_count * sizeof(*p->buckets));
    sl_arena_done(&p->texts);
    sl_alloc_free(r->alloc, p, sizeof(*p));
    r->replay = NULL;
}

static int no_memory(struct sl_registry *r)
{
    return sl_diag_error(&r->db.diag, SLUICE_ENOMEM, "out of memory");
}

/* Frees the segments that are recorded, and lists the others. */
static int list_segments(struct sl_registry *r)
{
    struct sl_usage_replay *p = r->replay;
    const enum sl_query q = SL_QUERY_JOURNALS;
    struct sl_usage_segment *at;
    uint64_t stream, last;
    int found;

    sl_query_bind(&r->db, q, "t", sl_usage_journal_node(p->journal));
    while ((found = sl_query_next(&r->db, q, NULL, "cc", &stream, &last)) == 1)
        for (unsigned i = 0; i < p->segment_most; i++) {
            at = sl_usage_journal_recovered(p->journal, i);
            if (at && at->stream == stream && at->sequence <= last)
                sl_usage_journal_drop_recovered(p->journal, i);
        }
    sl_query_reset(&r->db, q);
    for (unsigned i = 0; i < p->segment_most; i++)
        if ((at = sl_usage_journal_recovered(p->journal, i)))
            p->segments[p->segment_count++] =
                (struct segment){.at = at, .index = i};
    return found;
}

static void list_lines(struct sl_usage_replay *p)
{
    for (unsigned i = 0; i < p->segment_count; i++) {
        struct segment *s = &p->segments[i];
        const struct sl_usage_line *line = NULL;

        s->first = p->line_count;
        while ((line = sl_usage_segment_next(s->at, line)))
            p->lines[p->line_count++] = (struct line){
                .segment = i,
                .place = (uint16_t)(((const char *)line - (const char *)s->at) /
                                    SL_JOURNAL_UNIT)};
        s->count = s->left = p->line_count - s->first;
    }
}

/* Finds out which lines of a segment are recorded. */
static int read_bits(struct sl_registry *r, struct segment *s)
{
    uint64_t bits[BIT_WORDS];
    int err = load_bits(r, s, bits);

    for (uint32_t i = 0; i < s->count && !err; i++)
        if (has_bit(bits, i)) {
            r->replay->lines[s->first + i].state = LINE_DONE;
            s->left--;
        }
    return err;
}

static int read_partial(struct sl_registry *r)
{
    struct sl_usage_replay *p = r->replay;
    const enum sl_query q = SL_QUERY_SEGMENTS;
    uint64_t stream, sequence;
    int found;

    sl_query_bind(&r->db, q, "t", sl_usage_journal_node(p->journal));
    while ((found = sl_query_next(&r->db, q, NULL, "cc", &stream, &sequence)) ==
           1)
        for (unsigned i = 0; i < p->segment_count; i++)
            p->segments[i].has_row |= p->segments[i].at->stream == stream &&
                                      p->segments[i].at->sequence == sequence;
    sl_query_reset(&r->db, q);
    for (unsigned i = 0; i < p->segment_count && found == 0; i++) {
        sl_arena_reset(&r->db.arena);
        if (p->segments[i].has_row)
            found = read_bits(r, &p->segments[i]);
    }
    return found;
}

/* From the last to the first: a list is in the order of the lines. */
static void index_lines(struct sl_registry *r)
{
    struct sl_usage_replay *p = r->replay;

    for (uint32_t i = p->line_count; i > 0; i--) {
        const struct sl_usage_line *line = line_at(p, i - 1);
        uint32_t *bucket;

        if (p->lines[i - 1].state == LINE_DONE || line->lengths[1] == 0)
            continue;
        bucket = bucket_of(r, text_of(line, 1), text_of(line, 2));
        p->lines[i - 1].next = *bucket;
        *bucket = i;
    }
}

static void put_first(struct sl_registry *r, struct sl_str scope,
                      struct sl_str id)
{
    struct sl_usage_replay *p = r->replay;
    uint32_t *link = bucket_of(r, scope, id), number;

    while ((number = find(p, &link, scope, id))) {
        p->lines[number - 1].flags |= LINE_FIRST;
        link = &p->lines[number - 1].next;
    }
}

/* Can its effect be told without the database, and may it be recorded later
 * than what comes now? Lines of another node may be recorded by it, too, when
 * it compares its leases with its table. */
static bool is_plain(const struct sl_registry *r,
                     const struct sl_usage_line *line)
{
    struct sl_str node = text_of(line, 5);

    return sl_usage_line_amount(line)->act == SL_USAGE_ACT_TAKE &&
           line->flags == 0 && line->lengths[1] > 0 && line->lengths[3] == 0 &&
           line->lengths[4] == 0 && line->lengths[2] <= ID_MOST &&
           (node.len == 0 || sl_str_eq(node, r->options.node));
}

/* Chooses what is recorded first: all lines of a subject that has one which is
 * not plain, or a lease of this node, which is compared with the table. */
static int choose_first(struct sl_registry *r)
{
    struct sl_usage_replay *p = r->replay;
    const enum sl_query q = SL_QUERY_OWN_LEASES;
    struct sl_str scope, id;
    int found;

    for (uint32_t i = 0; i < p->line_count; i++) {
        const struct sl_usage_line *line = line_at(p, i);

        if (p->lines[i].state == LINE_DONE || p->lines[i].flags & LINE_FIRST ||
            is_plain(r, line))
            continue;
        if (line->lengths[1] > 0)
            put_first(r, text_of(line, 1), text_of(line, 2));
        p->lines[i].flags |= LINE_FIRST;
    }
    if (!r->options.on_lease)
        return 0;
    sl_query_bind(&r->db, q, "t", r->options.node);
    while ((found = sl_query_next(&r->db, q, NULL, "tt", &scope, &id)) == 1)
        put_first(r, scope, id);
    sl_query_reset(&r->db, q);
    return found;
}

static int allocate(struct sl_registry *r, unsigned segments, uint64_t lines)
{
    struct sl_usage_replay *p = sl_alloc_new(r->alloc, sizeof(*p));

    if (!p)
        return no_memory(r);
    memset(p, 0, sizeof(*p));
    r->replay = p;
    p->journal = r->options.journal;
    p->portion = PORTION_LEAST;
    sl_arena_init(&p->texts, TEXTS_MOST, r->alloc);
    p->segment_most = segments;
    p->line_most = lines;
    for (p->bucket_count = 64; p->bucket_count < lines;)
        p->bucket_count *= 2;
    p->segments = sl_alloc_new(r->alloc, segments * sizeof(*p->segments));
    p->lines = sl_alloc_new(r->alloc, lines * sizeof(*p->lines));
    p->written = sl_alloc_new(r->alloc, lines * sizeof(*p->written));
    p->buckets = sl_alloc_new(r->alloc, p->bucket_count * sizeof(*p->buckets));
    if (!p->segments || !p->lines || !p->written || !p->buckets)
        return no_memory(r);
    memset(p->buckets, 0, p->bucket_count * sizeof(*p->buckets));
    return 0;
}

static int begin(struct sl_registry *r, uint64_t lines)
{
    int err = allocate(r, sl_usage_journal_segments(r->options.journal), lines);

    if (!err)
        err = list_segments(r);
    if (err)
        return err;
    list_lines(r->replay);
    err = read_partial(r);
    if (err)
        return err;
    index_lines(r);
    err = choose_first(r);
    return err ? err : record_first(r);
}

int sl_usage_replay_begin(struct sl_registry *r)
{
    struct sl_usage_journal_counts counts;
    int err = 0;

    sl_usage_replay_close(r);
    sl_usage_journal_count(r->options.journal, &counts);
    if (counts.lines > 0)
        err = begin(r, counts.lines);
    if (err || (r->replay && r->replay->segment_count == 0))
        sl_usage_replay_close(r);
    return err || r->replay ? err : trim_sequences(r);
}
