/* fuzz_subject.c -- subjects as JSON and as CSV.
 *
 * The first byte says which it is; what follows is the text.
 *
 *   (1) A text is read, or it is refused with a sentence.
 *   (2) What was read is within its bounds: so many of each, so many bytes,
 *       nothing that can't be shown, aliases in lower case.
 *   (3) Applied to an empty subject and shown, it can be read again and is the
 * same. (4) A CSV is cut where its records end: the pieces have as many records
 *       as the whole.
 */
#include "fuzz.h"

#include "server/http/http_int.h"

#define NOW (1000 * SL_S)

static void must_show(struct sl_str text, size_t most)
{
    MUST(text.len <= most);
    while (text.len > 0) {
        size_t len = sl_diag_char_len(text);

        MUST(len > 0);
        text = sl_str_from(text, len);
    }
}

static void must_be_bounded(const struct sl_subject_change *c)
{
    must_show(c->id, SL_SUBJECT_RECORD_ID);
    must_show(c->plan, SL_SUBJECT_RECORD_NAME);
    must_show(c->note, SL_SUBJECT_RECORD_NOTE);
    must_show(c->by, SL_SUBJECT_RECORD_BY);
    MUST(c->role_count <= SL_SUBJECT_RECORD_ROLES);
    MUST(c->alias_count <= SL_SUBJECT_RECORD_ALIASES);
    MUST(c->rate_count <= SL_SUBJECT_RECORD_RATES);
    MUST(c->expires == SL_NS_NONE ||
         (c->expires >= 0 && c->expires < SL_TIME_END));
    for (unsigned i = 0; i < c->role_count; i++)
        must_show(c->roles[i], SL_SUBJECT_RECORD_NAME);
    for (unsigned i = 0; i < c->alias_count; i++) {
        must_show(c->aliases[i], SL_SUBJECT_RECORD_ID);
        for (size_t k = 0; k < c->aliases[i].len; k++)
            MUST(c->aliases[i].at[k] < 'A' || c->aliases[i].at[k] > 'Z');
    }
    for (unsigned i = 0; i < c->rate_count; i++) {
        MUST(c->rates[i].limit.len > 0);
        must_show(c->rates[i].limit, SL_SUBJECT_RECORD_NAME);
        must_show(c->rates[i].rate, SL_SUBJECT_RECORD_RATE);
        must_show(c->rates[i].note, SL_SUBJECT_RECORD_NOTE);
    }
}

static void must_refuse(const struct sl_reading *reading)
{
    MUST(reading->body.sentence[0]);
}

/* Times are shown to the millisecond. */
static void round_times(struct sl_subject_draft *d)
{
    if (d->expires != SL_NS_NONE)
        d->expires -= d->expires % SL_MS;
    for (unsigned i = 0; i < d->rate_count; i++)
        if (d->rates[i].until != SL_NS_NONE)
            d->rates[i].until -= d->rates[i].until % SL_MS;
}

static void must_come_back(const struct sl_subject_change *change,
                           struct sl_arena *arena)
{
    static struct sl_subject_draft first, second;
    struct sl_reading reading;
    struct sl_subject_change again = {.id = change->id};
    struct sl_diag diag;
    struct sl_buf text;
    struct sl_writer w = {.out = &text};

    sl_reading_init(&reading, arena, NOW);
    memset(&first, 0, sizeof(first));
    memset(&second, 0, sizeof(second));
    first.expires = second.expires = SL_NS_NONE;
    MUST(sl_subject_draft_change(&first, change, NOW, &diag));
    round_times(&first);
    sl_buf_init(&text, 4 << 20, &sl_alloc_libc);
    sl_json_open(&w, '{');
    sl_subject_draft_json(&first, NOW, false, &w);
    sl_json_close(&w, '}');
    MUST(w.err == 0);
    MUST(sl_subject_change_read_json(&reading, sl_buf_str(&text), &again));
    again.kind = SL_CHANGE_PUT;
    again.scope = change->scope;
    MUST(sl_subject_draft_change(&second, &again, NOW, &diag));
    MUST(sl_subject_draft_same(&first, &second));
    sl_buf_done(&text);
}

static void read_object(struct sl_str text, struct sl_arena *arena)
{
    struct sl_reading reading;
    struct sl_subject_change change = {
        .kind = SL_CHANGE_PUT, .scope = SL_STR("user"), .id = SL_STR("ann")};

    sl_reading_init(&reading, arena, NOW);
    if (!sl_subject_change_read_json(&reading, text, &change)) {
        must_refuse(&reading);
        return;
    }
    must_be_bounded(&change);
    must_come_back(&change, arena);
}

static unsigned read_table(struct sl_str text, struct sl_arena *arena)
{
    static struct sl_csv_head head;
    struct sl_reading reading;
    struct sl_str cells[SL_CSV_COLUMNS];
    unsigned count, records = 0;
    struct sl_csv csv;

    sl_reading_init(&reading, arena, NOW);
    reading.named = true;
    sl_csv_begin(&csv, text, arena);
    if (!sl_csv_head_read(&reading, &csv, &head)) {
        must_refuse(&reading);
        return 0;
    }
    while (sl_csv_next(&csv, cells, head.count, &count)) {
        struct sl_subject_change change = {.kind = SL_CHANGE_PATCH};

        records++;
        reading.body.sentence[0] = '\0';
        if (!sl_subject_change_read_csv(&reading, &head, cells, count,
                                        &change)) {
            must_refuse(&reading);
            continue;
        }
        must_be_bounded(&change);
    }
    MUST(csv.at <= text.len);
    return csv.why ? 0 : records;
}

/* Records of a text that is whole, and of its pieces. */
static void must_cut(struct sl_str text, unsigned records)
{
    unsigned pieces = 0;

    while (text.len > 0) {
        size_t len = sl_csv_cut(text);
        size_t kept = len > 0 ? len : text.len;
        bool blank = true;

        for (size_t i = 0; i < kept; i++)
            blank = blank && (text.at[i] == '\r' || text.at[i] == '\n');
        pieces += !blank;
        text = sl_str_from(text, kept);
    }
    MUST(records == 0 || pieces <= records + 1);
}

void fuzz_subject(struct sl_str text, unsigned choice)
{
    struct sl_arena arena;

    sl_arena_init(&arena, 16 << 20, &sl_alloc_libc);
    if (choice & 1)
        read_object(text, &arena);
    else
        must_cut(text, read_table(text, &arena));
    sl_arena_done(&arena);
}
