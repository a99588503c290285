/* usage_export.c -- GET /v1/usage/export: the usage of all subjects, for bills.
 *
 *   ?from=2026-11-01   periods whose last day is this or later
 *   ?to=2026-12-01     and before this
 *   ?format=ndjson     or csv, or cloudevents
 *   ?rows=1000         a page; Sluice-Cursor of its answer continues
 *   ?cursor=...        the next page
 *
 * Without `rows` the answer has all rows: it is sent in chunks, and the next
 * page is read from the database when the client has read enough. An answer
 * that could not be completed ends without its last chunk.
 *
 *     handler --> page --> head and rows --> page --> rows --> ... --> end
 *                            ^                |
 *                            +--- on_room ----+ the client reads slowly
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/parse.h"
#include "base/timestamp.h"
#include "engine/engine_int.h"
#include "server/http/http_int.h"
#include "wire/csv.h"

#define ROWS_MOST    1000
#define DAY_MOST     INT64_C(1000000) /* after the year 4000 */
#define TEXT_MOST    ((size_t)16 << 20)
#define CURSOR_BYTES (3 * (SL_USAGE_ID + 2 * SL_USAGE_NAME) + 160)

enum format { NDJSON, CSV, CLOUDEVENTS };

struct export
{
    struct sl_http_stream stream; /* first: the two are cast into each other */
    struct sl_server_worker *worker;
    struct sl_http_call *call; /* until the first page has come */
    struct sl_active_policy *active;
    struct sl_job job;
    struct sl_usage_export page;
    enum format format;
    bool paged;   /* one page, of `rows` */
    bool reading; /* the registry has the job */
    bool closed;  /* the client has gone */
    char as_of[SL_TIMESTAMP_TEXT];
    struct sl_buf text;
    struct sl_buf position; /* the texts of page.after */
};

/* ---- one row ---- */

struct line {
    const struct sl_usage_export_row *row;
    struct sl_str org, user; /* "": none */
    struct sl_str unit;      /* of the numbers, which are exact */
    uint64_t scale;          /* of these in a unit of the policy */
    char from[SL_TIMESTAMP_TEXT], to[SL_TIMESTAMP_TEXT]; /* "": not known */
    char period[32];                                     /* likewise */
    char values[SL_USAGE_ID];
};

static void print_period(const struct sl_rule *rule, char out[32])
{
    static const char *const units[] = {"day", "week", "month"};
    const struct sl_limit *l = &rule->strictest;

    if (rule->kind != SL_QUOTA || (!l->calendar && l->period == 0))
        snprintf(out, 32, "day");
    else if (!l->calendar)
        snprintf(out, 32, "%" PRId64 "s", l->period / SL_S);
    else if (l->cal.every == 1)
        snprintf(out, 32, "%s", units[l->cal.unit]);
    else
        snprintf(out, 32, "%" PRIu32 "%s", l->cal.every, units[l->cal.unit]);
}

/* Find the organisation and the user among the values of the row. */
static void find_names(struct line *line)
{
    const struct sl_usage_export_row *row = line->row;
    struct sl_str scopes = row->scope, values[SL_PER_MAX];
    unsigned count = 1;

    for (size_t i = 0; i < scopes.len; i++)
        count += scopes.at[i] == ':';
    if (count > SL_PER_MAX || row->id.len > sizeof(line->values))
        return;
    memcpy(line->values, row->id.at, row->id.len);
    if (!sl_usage_split(line->values, row->id.len, count, values))
        return;
    for (unsigned i = 0; i < count; i++) {
        struct sl_str scope = sl_admin_cut(&scopes, ':');

        if (sl_str_eq(scope, SL_STR("org")))
            line->org = values[i];
        else if (sl_str_eq(scope, SL_STR("user")))
            line->user = values[i];
    }
}

/* Rows of earlier versions have no end: it is that of today's policy. Without
 * the limit, the last day known is the first. */
static void find_end(const struct sl_rule *rule,
                     struct sl_usage_export_row *row)
{
    if (row->end > 0)
        return;
    row->last_day = row->start / SL_DAY;
    if (!rule)
        return;
    row->end = sl_limit_period(&rule->strictest, row->start).end;
    row->last_day = sl_limit_last_day(&rule->strictest, row->end);
    row->zone = rule->zone_name;
}

static void fill_line(struct line *line, const struct sl_usage_export_row *row,
                      const struct sl_rule *rule)
{
    *line = (struct line){.row = row, .org = SL_STR(""), .user = SL_STR("")};
    line->unit = rule ? rule->unit : SL_STR("");
    line->scale = 1;
    if (row->scale > 1) {
        line->unit = row->counted;
        line->scale = row->scale;
    }
    find_names(line);
    sl_timestamp_print(row->start, false, line->from);
    if (row->end > 0)
        sl_timestamp_print(row->end, false, line->to);
    if (rule)
        print_period(rule, line->period);
}

/* ---- JSON and CloudEvents ---- */

static void member_or_null(struct sl_writer *w, const char *name,
                           struct sl_str text)
{
    sl_json_key(w, sl_str_c(name));
    if (text.len > 0)
        sl_json_str(w, text);
    else
        sl_json_nothing(w);
}

static void write_json(struct sl_writer *w, const struct line *line,
                       const char *as_of)
{
    const struct sl_usage_export_row *row = line->row;

    sl_json_open(w, '{');
    member_or_null(w, "org", line->org);
    member_or_null(w, "user", line->user);
    member_or_null(w, "plan", row->plan);
    sl_json_member_str(w, "limit", row->limit);
    sl_json_member_str(w, "unit", line->unit);
    sl_json_key(w, SL_STR("included"));
    if (row->cap >= 0)
        sl_json_int(w, row->cap);
    else
        sl_json_nothing(w);
    sl_json_key(w, SL_STR("used"));
    sl_json_uint(w, row->used);
    sl_json_key(w, SL_STR("overage"));
    sl_json_uint(w, row->overage);
    sl_json_key(w, SL_STR("credited"));
    sl_json_uint(w, row->credited);
    sl_json_member_text(w, "from", line->from);
    member_or_null(w, "to", sl_str_c(line->to));
    member_or_null(w, "zone", row->zone);
    member_or_null(w, "period", sl_str_c(line->period));
    sl_json_member_str(w, "scope", row->scope);
    sl_json_member_str(w, "id", row->id);
    sl_json_member_text(w, "as_of", as_of);
    sl_json_key(w, SL_STR("scale"));
    sl_json_uint(w, line->scale);
    sl_json_close(w, '}');
}

/* The same for the same subject, limit, period and instant, on any machine. */
static struct sl_hash128 event_id(const struct line *line, const char *as_of)
{
    static const struct sl_hash_key fixed = {UINT64_C(0x736c756963652d75),
                                             UINT64_C(0x736167652d657674)};
    const struct sl_usage_export_row *row = line->row;
    const struct sl_str parts[] = {row->limit, row->scope, row->id,
                                   sl_str_c(line->from), sl_str_c(as_of)};
    struct sl_hash_key key = fixed;
    struct sl_hash128 sum = {0, 0};

    for (size_t i = 0; i < SL_LEN(parts); i++) {
        sum = sl_hash128(&key, parts[i]);
        key = (struct sl_hash_key){sum.lo, sum.hi};
    }
    return sum;
}

/* CloudEvents 1.0: the row is the data. */
static void write_event(struct sl_writer *w, const struct line *line,
                        const char *as_of)
{
    const struct sl_usage_export_row *row = line->row;
    struct sl_hash128 id = event_id(line, as_of);
    char text[33], subject[SL_USAGE_ID + 2 * SL_USAGE_NAME];

    snprintf(text, sizeof(text), "%016" PRIx64 "%016" PRIx64, id.hi, id.lo);
    snprintf(subject, sizeof(subject), "%.*s/%.*s", SL_STR_ARG(row->scope),
             SL_STR_ARG(row->id));
    sl_json_open(w, '{');
    sl_json_member_text(w, "specversion", "1.0");
    sl_json_member_text(w, "id", text);
    sl_json_member_text(w, "source", "/sluice/usage");
    sl_json_member_text(w, "type", "sluice.usage");
    sl_json_member_text(w, "subject", subject);
    sl_json_member_text(w, "time", as_of);
    sl_json_member_text(w, "datacontenttype", "application/json");
    sl_json_key(w, SL_STR("data"));
    write_json(w, line, as_of);
    sl_json_close(w, '}');
}

/* ---- CSV ---- */

#define HEAD                                                                   \
    SL_STR("org,user,plan,limit,unit,included,used,overage,credited,from,to,"  \
           "zone,period,scope,id,as_of,scale\r\n")

static void write_csv(struct sl_writer *w, const struct line *line,
                      const char *as_of)
{
    const struct sl_usage_export_row *row = line->row;
    const struct sl_str before[] = {line->org, line->user, row->plan,
                                    row->limit, line->unit};
    const struct sl_str after[] = {
        sl_str_c(line->from),   sl_str_c(line->to), row->zone,
        sl_str_c(line->period), row->scope,         row->id,
        sl_str_c(as_of)};

    for (size_t i = 0; i < SL_LEN(before); i++) {
        sl_csv_write(w, before[i]);
        sl_writer_add(w, SL_STR(","));
    }
    if (row->cap >= 0)
        sl_writer_addf(w, "%" PRId64, row->cap);
    sl_writer_addf(w, ",%" PRIu64 ",%" PRIu64 ",%" PRIu64, row->used,
                   row->overage, row->credited);
    for (size_t i = 0; i < SL_LEN(after); i++) {
        sl_writer_add(w, SL_STR(","));
        sl_csv_write(w, after[i]);
    }
    sl_writer_addf(w, ",%" PRIu64 "\r\n", line->scale);
}

/* ---- a page ---- */

static void write_row(struct export *e, struct sl_writer *w,
                      struct sl_usage_export_row *row)
{
    const struct sl_policy *policy = e->active->policy;
    int index = sl_policy_rule(policy, row->limit);
    const struct sl_rule *rule = index < 0 ? NULL : &policy->rules[index];
    struct line line;

    find_end(rule, row);
    if (row->last_day < e->page.from || row->last_day >= e->page.to)
        return;
    fill_line(&line, row, rule);
    if (e->format == CSV) {
        write_csv(w, &line, e->as_of);
        return;
    }
    if (e->format == NDJSON)
        write_json(w, &line, e->as_of);
    else
        write_event(w, &line, e->as_of);
    sl_writer_add(w, SL_STR("\n"));
}

/* Write the rows of the job to e->text. */
static int write_rows(struct export *e)
{
    struct sl_writer w = {.out = &e->text};
    struct sl_str page = sl_buf_str(&e->job.text);
    struct sl_usage_export_row row;

    e->active = sl_engine_ref_policy(e->worker->engine, e->active);
    while (!w.err && sl_usage_export_next(&page, &row))
        write_row(e, &w, &row);
    return w.err;
}

/* Copy the texts of the position: they are in the page, which is freed. */
static int keep_position(struct export *e)
{
    struct sl_usage_position *p = &e->page.after;
    struct sl_str *texts[] = {&p->scope, &p->limit, &p->id};
    size_t at = 0;
    int err = 0;

    sl_buf_clear(&e->position);
    for (size_t i = 0; i < SL_LEN(texts) && !err; i++)
        err = sl_buf_add(&e->position, *texts[i]);
    for (size_t i = 0; i < SL_LEN(texts) && !err; i++) {
        texts[i]->at = e->position.bytes + at;
        at += texts[i]->len;
    }
    return err;
}

/* ---- cursors ----
 *
 * A client may put a cursor into the query as it is, or percent-encode it like
 * any other value: both mean the same. So its texts are escaped with '~', which
 * no client needs to encode, and not with '%'. */

static void write_escaped(struct sl_writer *w, struct sl_str text)
{
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.at[i];
        bool plain = (c >= '0' && c <= '9') ||
                     ((c | 32) >= 'a' && (c | 32) <= 'z') || c == '-' ||
                     c == '.' || c == '_';

        sl_writer_addf(w, plain ? "%c" : "~%02X", c);
    }
}

/* Cut the next text off, and write it without escapes where it is. */
static bool cut_escaped(struct sl_str *rest, char *at, struct sl_str *ret)
{
    struct sl_str text = sl_admin_cut(rest, '/');
    size_t len = 0;

    for (size_t i = 0; i < text.len; i++) {
        int high = 0, low = 0;

        at[len] = text.at[i];
        if (text.at[i] == '~') {
            if (text.len - i < 3)
                return false;
            high = sl_hex_value(text.at[++i]);
            low = sl_hex_value(text.at[++i]);
            at[len] = (char)(high * 16 + low);
        }
        if (high < 0 || low < 0)
            return false;
        len++;
    }
    *ret = (struct sl_str){at, len};
    return true;
}

static int write_cursor(const struct export *e, struct sl_buf *out)
{
    const struct sl_usage_export *p = &e->page;
    struct sl_writer w = {.out = out};

    sl_writer_addf(
        &w, "%" PRIu64 "/%" PRId64 "/%" PRId64 "/%" PRId64 "/%" PRId64 "/",
        p->number, p->from, p->to, p->after.day, p->after.start);
    write_escaped(&w, p->after.limit);
    sl_writer_add(&w, SL_STR("/"));
    write_escaped(&w, p->after.scope);
    sl_writer_add(&w, SL_STR("/"));
    write_escaped(&w, p->after.id);
    return w.err;
}

bool sl_export_cursor_read(char *bytes, size_t len, struct sl_usage_export *ret)
{
    struct sl_usage_position *after = &ret->after;
    struct sl_str *const texts[] = {&after->limit, &after->scope, &after->id};
    struct sl_str text = {bytes, len};
    uint64_t numbers[5];

    for (size_t i = 0; i < SL_LEN(numbers); i++)
        if (sl_parse_number(sl_admin_cut(&text, '/'), &numbers[i], NULL))
            return false;
    if (numbers[0] == 0 || numbers[0] > INT64_MAX || numbers[1] == 0 ||
        numbers[1] > DAY_MOST || numbers[2] > DAY_MOST ||
        numbers[3] > DAY_MOST || numbers[4] > INT64_MAX)
        return false;
    ret->number = numbers[0];
    ret->from = (int64_t)numbers[1];
    ret->to = (int64_t)numbers[2];
    after->day = (int64_t)numbers[3];
    after->start = (sl_ns)numbers[4];
    for (size_t i = 0; i < SL_LEN(texts); i++)
        if (!cut_escaped(&text, bytes + (len - text.len), texts[i]))
            return false;
    return text.len == 0 && after->id.len <= SL_USAGE_ID;
}

/* ---- the life of an export ---- */

static void free_export(struct export *e)
{
    const struct sl_alloc *alloc = e->worker->alloc;

    sl_job_clear(&e->job);
    sl_buf_done(&e->text);
    sl_buf_done(&e->position);
    sl_active_policy_unref(e->active);
    sl_alloc_free(alloc, e, sizeof(*e));
}

/* Returns false if the daemon ends. */
static bool ask_page(struct export *e)
{
    if (e->worker->draining)
        return false;
    sl_buf_clear(&e->job.text);
    e->job.err = 0;
    e->job.result = SL_JOB_DONE;
    e->reading = true;
    sl_registry_ask(sl_usage_buffer_registry(e->worker->engine_ctx->meter),
                    &e->job);
    return true;
}

/* The client has gone. An export with more pages is ended in the database. */
static void leave(struct export *e)
{
    e->closed = true;
    if (e->reading)
        return;
    e->page.most = 0;
    if (!e->page.more || e->page.gone || !ask_page(e))
        free_export(e);
}

static void on_close(struct sl_http_stream *stream)
{
    leave((struct export *)stream);
}

/* End the answer: whole, or cut off. */
static void finish(struct export *e, bool whole)
{
    struct sl_conn *conn = e->stream.conn;

    if (!whole ||
        (e->stream.chunked && sl_http1_write_chunk(&conn->out, SL_STR("")))) {
        sl_conn_abort(conn); /* on_close() follows */
        return;
    }
    sl_http_stream_end(&e->stream);
    free_export(e);
}

/* Send e->text, and go on when the client has read. */
static void send_rows(struct export *e)
{
    struct sl_conn *conn = e->stream.conn;
    struct sl_str text = sl_buf_str(&e->text);
    int err = 0;

    if (text.len > 0)
        err = e->stream.chunked ? sl_http1_write_chunk(&conn->out, text)
                                : sl_buf_add(&conn->out, text);
    sl_buf_clear(&e->text);
    if (err || !e->page.more) {
        finish(e, !err);
        return;
    }
    sl_conn_flush(conn);
    if (!sl_conn_is_full(conn) && !ask_page(e))
        finish(e, false);
}

static void on_begin(struct sl_http_stream *stream)
{
    send_rows((struct export *)stream);
}

static void on_room(struct sl_http_stream *stream)
{
    struct export *e = (struct export *)stream;

    if (!e->reading && !ask_page(e))
        finish(e, false);
}

/* ---- the first page ---- */

static struct sl_str type_of(enum format format)
{
    return format == CSV ? SL_STR("text/csv; charset=utf-8")
                         : SL_STR("application/x-ndjson");
}

/* Add Sluice-Cursor if there is another page. */
static int add_cursor(struct export *e)
{
    struct sl_http_call *call = e->call;
    struct sl_buf cursor;
    const char *copy = NULL;

    if (!e->page.more)
        return 0;
    sl_buf_init(&cursor, CURSOR_BYTES, e->worker->alloc);
    if (!write_cursor(e, &cursor))
        copy = sl_arena_copy(&call->arena, sl_buf_str(&cursor));
    if (copy)
        sl_http_field(call, SL_STR("Sluice-Cursor"),
                      (struct sl_str){copy, cursor.len});
    sl_buf_done(&cursor);
    return copy ? 0 : SLUICE_ENOMEM;
}

/* A daemon that ends begins no stream: it sends the rows of one page, if these
 * are all. */
static bool is_one_answer(const struct export *e)
{
    return e->paged || e->worker->draining;
}

/* Returns false after a refusal. */
static bool check_page(struct export *e, int err)
{
    const struct sl_job *job = &e->job;

    if (job->err) {
        sl_http_field(e->call, SL_STR("Retry-After"), SL_STR("1"));
        return sl_http_refuse(e->call, 503, "USAGE", "%s", job->diag.sentence);
    }
    if (job->result == SL_JOB_NOT_FOUND)
        return sl_http_refuse(
            e->call, 410, "EXPORT_OVER",
            "the export of this cursor has ended: its last page was read, or "
            "none for an hour; begin again without cursor");
    if (e->page.more && !e->paged && is_one_answer(e))
        return sl_http_refuse(e->call, 503, "USAGE", "the daemon ends");
    return !err || sl_http_no_memory(e->call);
}

/* Fill the head of the answer, and the body of a page. Returns false after a
 * refusal. */
static bool fill_answer(struct export *e)
{
    struct sl_http_call *call = e->call;
    const char *as_of = sl_arena_copy(&call->arena, sl_str_c(e->as_of));

    if (!as_of || (e->paged && add_cursor(e)) ||
        (is_one_answer(e) && sl_buf_add(&call->text, sl_buf_str(&e->text))))
        return sl_http_no_memory(call);
    sl_http_field(call, SL_STR("Sluice-As-Of"), sl_str_c(as_of));
    sl_http_field(call, SL_STR("Cache-Control"), SL_STR("no-store"));
    sl_http_answer(call, 200, type_of(e->format), sl_buf_str(&call->text));
    return true;
}

static void answer_first(struct export *e, int err)
{
    struct sl_http_call *call = e->call;

    if (check_page(e, err) && fill_answer(e) && !is_one_answer(e))
        call->stream = &e->stream;
    e->call = NULL;
    if (!call->stream)
        free_export(e);
    sl_http_resume_finish(call); /* begins the stream, or calls on_close() */
}

/* ---- pages ---- */

static int use_page(struct export *e, bool first)
{
    int err = 0;

    if (first) {
        sl_timestamp_print(e->page.as_of, true, e->as_of);
        if (e->format == CSV)
            err = sl_buf_add(&e->text, HEAD);
    }
    if (!err)
        err = write_rows(e);
    e->page.number = e->page.begun;
    e->page.after = e->page.next;
    return err || !e->page.more ? err : keep_position(e);
}

static void on_page(struct sl_job *job)
{
    struct export *e = job->ctx;
    bool good = !job->err && job->result == SL_JOB_DONE;
    int err = 0;

    e->reading = false;
    if (e->closed) {
        e->page.number = e->page.begun;
        e->page.more = e->page.more && good && e->page.most > 0;
        leave(e);
        return;
    }
    if (good)
        err = use_page(e, e->call != NULL);
    if (e->call)
        answer_first(e, err);
    else if (!good || err)
        finish(e, false);
    else
        send_rows(e);
}

/* ---- the request ---- */

/* Is the option in the query, with or without a value? */
static bool is_given(const struct sl_http_call *call, const char *name)
{
    struct sl_str query = call->query;

    while (query.len > 0) {
        struct sl_str pair = sl_admin_cut(&query, '&');

        if (sl_str_eq(sl_admin_cut(&pair, '='), sl_str_c(name)))
            return true;
    }
    return false;
}

/* Read a date as days since 1970. An empty one is a mistake, such as a variable
 * that is not set: it would mean everything. */
static bool read_day(struct sl_http_call *call, const char *name,
                     struct sl_str text, int64_t *ret)
{
    if (text.len == 0 && !is_given(call, name))
        return true;
    if (!sl_day_read(text, ret) || *ret < 1)
        return sl_http_refuse(call, 400, "BAD_QUERY",
                              "\"%s\" must be a date like 2026-11-01, not "
                              "\"%.*s\"",
                              name, SL_STR_ARG(text));
    return true;
}

static bool read_cursor(struct export *e, struct sl_str cursor, bool has_dates)
{
    char *copy;

    if (cursor.len == 0)
        return true;
    if (has_dates)
        return sl_http_refuse(e->call, 400, "BAD_QUERY",
                              "a cursor has the dates of its export; send it "
                              "without \"from\" and \"to\"");
    copy = sl_arena_copy(&e->call->arena, cursor);
    if (!copy)
        return sl_http_no_memory(e->call);
    return sl_export_cursor_read(copy, cursor.len, &e->page) ||
           sl_http_refuse(e->call, 400, "BAD_QUERY",
                          "\"cursor\" is not the Sluice-Cursor of an answer; "
                          "send it as it was received");
}

static bool read_query(struct export *e)
{
    static const char *const formats[] = {"ndjson", "csv", "cloudevents"};
    struct sl_str from, to, format, rows, cursor;
    const struct sl_admin_option options[] = {
        {"from",   &from  },
        {"to",     &to    },
        {"format", &format},
        {"rows",   &rows  },
        {"cursor", &cursor},
    };
    unsigned form = NDJSON;
    uint64_t most = SL_EXPORT_PAGE;

    e->page.from = 1;
    e->page.to = DAY_MOST;
    if (!sl_admin_options(e->call, options, SL_LEN(options)) ||
        !read_day(e->call, "from", from, &e->page.from) ||
        !read_day(e->call, "to", to, &e->page.to) ||
        !sl_admin_word(e->call, "format", format, formats, SL_LEN(formats),
                       "ndjson, csv or cloudevents", &form) ||
        !sl_admin_number(e->call, "rows", rows, 1, ROWS_MOST,
                         "a number of rows from 1 to 1000", &most) ||
        !read_cursor(e, cursor, from.len + to.len > 0))
        return false;
    if (e->page.to <= e->page.from)
        return sl_http_refuse(e->call, 400, "BAD_QUERY",
                              "\"to\" is not included, so it must be after "
                              "\"from\": for November send from=2026-11-01 "
                              "and to=2026-12-01");
    e->format = (enum format)form;
    e->paged = rows.len > 0;
    e->page.most = (unsigned)most;
    return true;
}

void sl_http_usage_export(struct sl_http_call *call)
{
    struct sl_usage_sink *meter = sl_http_meter(call);
    const struct sl_alloc *alloc = call->worker->alloc;
    struct export *e = meter ? sl_alloc_new(alloc, sizeof(*e)) : NULL;

    if (!e) {
        if (meter)
            sl_http_no_memory(call);
        return;
    }
    memset(e, 0, sizeof(*e));
    e->stream = (struct sl_http_stream){.chunked = true,
                                        .on_begin = on_begin,
                                        .on_room = on_room,
                                        .on_close = on_close};
    e->worker = call->worker;
    e->call = call;
    sl_buf_init(&e->text, TEXT_MOST, alloc);
    sl_buf_init(&e->position, CURSOR_BYTES, alloc);
    sl_http_job_init(&e->job, call, SL_JOB_EXPORT, on_page, e);
    e->job.export = &e->page;
    if (!read_query(e) || (keep_position(e) && !sl_http_no_memory(call))) {
        free_export(e);
        return;
    }
    sl_http_suspend(call);
    sl_usage_buffer_flush(meter);
    if (!ask_page(e)) {
        sl_http_refuse(call, 503, "USAGE", "the daemon ends");
        e->call = NULL;
        free_export(e);
        sl_http_resume_finish(call);
    }
}
