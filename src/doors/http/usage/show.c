/* show.c -- a meter as JSON, a history as JSON and CSV. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/arith.h"
#include "base/timestamp.h"
#include "engine/spent.h"
#include "server/http/usage.h"
#include "wire/json_old.h"

/* ---- what a decision says ---- */

/* Does it count up to its limit? What grows back, or slides, says itself what
 * is left of it. */
static bool counts_up(const struct sl_rule *rule)
{
    return rule->kind == SL_QUOTA || rule->kind == SL_LEVEL;
}

/* What was used, as the limit itself knows it. */
static uint64_t used_of(const struct sl_limit_view *shown)
{
    const struct sl_answer *a = &shown->answer;

    if (shown->open)
        return shown->used;
    return a->capacity > a->remaining ? a->capacity - a->remaining : 0;
}

static const struct sl_limit_view *shown_of(const struct sl_check *ask)
{
    const struct sl_decision *d = &ask->decision;

    return d->shown_count > 0 && !d->shown[0].skipped ? &d->shown[0] : NULL;
}

void sl_meter_view_of(const struct sl_check *ask, const struct sl_rule *rule,
                      sl_ns now, struct sl_meter_view *ret)
{
    const struct sl_limit_view *shown = shown_of(ask);
    const struct sl_limit *numbers = &rule->strictest;

    *ret = (struct sl_meter_view){.rule = rule, .now = now, .end = SL_NS_NONE};
    if (shown && sl_rate_has_numbers(shown->form)) {
        numbers = shown->numbers;
        ret->limited = true;
        ret->cap = numbers->count;
        ret->limit = counts_up(rule) ? numbers->count : numbers->capacity;
        ret->blind = ask->decision.degraded;
        ret->left = ret->blind ? ret->limit : shown->answer.remaining;
        ret->used = ret->blind ? 0 : used_of(shown);
        if (!ret->blind && shown->answer.reset_in >= 0)
            ret->end = now + shown->answer.reset_in;
    }
    if (shown)
        ret->plan = shown->plan_name;
    ret->start = sl_rule_start(rule, numbers, now);
    if (ret->end == SL_NS_NONE && rule->kind == SL_QUOTA && rule->limited &&
        numbers->calendar)
        ret->end = sl_calendar_period(&numbers->cal, now).end;
}

/* As much again in as much time again: the whole limit takes elapsed * limit /
 * used from the start. */
sl_ns sl_meter_view_exhausted(const struct sl_meter_view *v)
{
    sl_ns elapsed = v->now - v->start;
    unsigned __int128 whole;

    if (!v->limited || v->rule->kind != SL_QUOTA || v->end == SL_NS_NONE)
        return SL_NS_NONE;
    if (v->used >= v->limit)
        return v->now;
    if (v->used == 0 || elapsed <= 0)
        return SL_NS_NONE;
    whole = (unsigned __int128)elapsed * v->limit / v->used;
    return whole < (unsigned __int128)(v->end - v->start)
               ? v->start + (sl_ns)whole
               : SL_NS_NONE;
}

/* ---- JSON ---- */

static int add_text(struct sl_buf *out, const char *before, struct sl_str text)
{
    int err = sl_buf_addf(out, "%s", before);

    return err ? err : sl_json_string(out, text);
}

static int add_instant(struct sl_buf *out, const char *before, sl_ns at)
{
    char text[SL_TIMESTAMP_TEXT];

    if (at < 0)
        return sl_buf_addf(out, "%snull", before);
    sl_timestamp_print(at, false, text);
    return sl_buf_addf(out, "%s\"%s\"", before, text);
}

static int add_numbers(struct sl_buf *out, const struct sl_meter_view *v)
{
    uint64_t left =
        counts_up(v->rule) ? sl_sub_floor(v->limit, v->used) : v->left;
    int err = sl_buf_addf(out, ",\"used\":%" PRIu64, v->used);

    if (err || !v->limited)
        return err ? err
                   : sl_buf_addf(out, ",\"limit\":null,\"remaining\":null,"
                                      "\"share\":null");
    return sl_buf_addf(
        out,
        ",\"limit\":%" PRIu64 ",\"remaining\":%" PRIu64 ",\"share\":%" PRIu64,
        v->limit, left,
        v->limit ? (uint64_t)((unsigned __int128)v->used * 100 / v->limit) : 0);
}

/* What is neither a quota nor from the books has no period that it is counted
 * from. */
static sl_ns period_of(const struct sl_meter_view *v)
{
    bool has = v->rule->kind == SL_QUOTA || v->from_books;

    return has && v->start > 0 ? v->start : SL_NS_NONE;
}

int sl_meter_view_write(const struct sl_meter_view *v, struct sl_buf *out)
{
    int err = add_text(out, "\"name\":", v->rule->name);

    if (!err)
        err =
            add_text(out, ",\"kind\":", sl_str_c(sl_kind_name(v->rule->kind)));
    if (!err)
        err = add_text(out, ",\"unit\":", v->rule->unit);
    if (!err)
        err = add_text(out, ",\"plan\":", v->plan);
    if (!err)
        err = add_text(out, ",\"scope\":", v->scope);
    if (!err)
        err = add_text(out, ",\"id\":", v->id);
    if (!err)
        err = add_numbers(out, v);
    if (!err)
        err = sl_buf_addf(out,
                          ",\"overage\":%" PRIu64 ",\"credited\":%" PRIu64
                          ",\"credits\":%" PRIu64,
                          v->overage, v->credited, v->credits);
    if (!err)
        err = add_instant(out, ",\"period_start\":", period_of(v));
    if (!err)
        err = add_instant(out, ",\"reset\":", v->end);
    if (!err)
        err = v->end < 0 ? sl_buf_addf(out, ",\"reset_ms\":null")
                         : sl_buf_addf(out, ",\"reset_ms\":%" PRId64,
                                       (v->end - v->now) / SL_MS);
    if (!err)
        err = add_instant(out, ",\"exhausted\":", sl_meter_view_exhausted(v));
    return err || !v->blind ? err : sl_buf_addf(out, ",\"degraded\":true");
}

/* ---- history ---- */

/* "2026-11-15", or "2026-11". */
static void print_when(const struct sl_usage_row *row, char out[32])
{
    int64_t year, month, day;

    if (row->kind == SL_ROW_MONTH) {
        snprintf(out, 32, "%04" PRId64 "-%02" PRId64, row->when / 100,
                 row->when % 100);
        return;
    }
    sl_civil_from_days(row->when, &year, &month, &day);
    snprintf(out, 32, "%04" PRId64 "-%02" PRId64 "-%02" PRId64, year, month,
             day);
}

static int add_rows(const struct sl_usage_row *rows, size_t count,
                    struct sl_str limit, enum sl_usage_row_kind kind,
                    struct sl_buf *out)
{
    const char *word = kind == SL_ROW_DAY ? "day" : "month";
    unsigned written = 0;
    char when[32];
    int err = sl_buf_addf(out, ",\"%ss\":[", word);

    for (size_t i = 0; i < count && !err; i++) {
        if (rows[i].kind != kind || !sl_str_eq(sl_str_c(rows[i].limit), limit))
            continue;
        print_when(&rows[i], when);
        err = sl_buf_addf(out,
                          "%s{\"%s\":\"%s\",\"used\":%" PRIu64
                          ",\"overage\":%" PRIu64 "}",
                          written++ > 0 ? "," : "", word, when, rows[i].used,
                          rows[i].overage);
    }
    return err ? err : sl_buf_add(out, SL_STR("]"));
}

int sl_history_write(const struct sl_usage_row *rows, size_t count,
                     struct sl_str limit, struct sl_buf *out)
{
    int err = add_rows(rows, count, limit, SL_ROW_DAY, out);

    return err ? err : add_rows(rows, count, limit, SL_ROW_MONTH, out);
}

/* Names of limits have no comma and no quote. */
int sl_history_csv(const struct sl_usage_row *rows, size_t count,
                   struct sl_buf *out)
{
    char when[32];
    int err = sl_buf_add(out, SL_STR("limit,day,used,overage\r\n"));

    for (size_t i = 0; i < count && !err; i++) {
        if (rows[i].kind != SL_ROW_DAY)
            continue;
        print_when(&rows[i], when);
        err = sl_buf_addf(out, "%s,%s,%" PRIu64 ",%" PRIu64 "\r\n",
                          rows[i].limit, when, rows[i].used, rows[i].overage);
    }
    return err;
}
