/* usage_import.c -- POST /v1/usage/import: sets the usage of present periods.
 *
 *     org,limit,used,from                    {"org":"acme","limit":"minutes",
 *     acme,minutes,812,2026-11-01T00:00:00Z   "used":812}
 *
 * The body is CSV or JSON lines with the members of an export: the subject, the
 * limit and `used`. The other members are accepted and not used, except that
 * `from` must fit, and `unit` is one of the limit's. `used` becomes the usage
 * of the present period, whatever it was, so that a repeated import changes
 * nothing. Rows of periods that have ended are skipped.
 *
 * The rows are checked first, recorded in one transaction, and then charged
 * like reports (usage_post.c). With dry_run=true nothing is changed.
 */
#include <string.h>

#include "base/parse.h"
#include "base/timestamp.h"
#include "server/http/http_int.h"
#include "wire/csv.h"

#define LINE_MOST ((size_t)64 << 10)

/* A row. Members that are not used are read to `ignored`. */
struct row {
    struct sl_usage_report_item *use;
    struct sl_str org, user, key, limit, unit, from, ignored;
    uint64_t used, number;
};

#define FIELD(name, member, form)                                              \
    SL_JSON_FIELD(name, offsetof(struct row, member), sl_json_body_##form)

/* `scope` and `id` name the subject once more. */
static const struct sl_json_field members[] = {
    FIELD("org", org, text),          FIELD("user", user, text),
    FIELD("key", key, text),          FIELD("limit", limit, text),
    FIELD("used", used, whole),       FIELD("unit", unit, text),
    FIELD("from", from, text),        FIELD("plan", ignored, text),
    FIELD("to", ignored, text),       FIELD("zone", ignored, text),
    FIELD("period", ignored, text),   FIELD("scope", ignored, text),
    FIELD("id", ignored, text),       FIELD("as_of", ignored, text),
    FIELD("included", number, whole), FIELD("overage", number, whole),
    FIELD("credited", number, whole), FIELD("scale", number, whole),
};

#define HAS_USED (1u << 4) /* the bit of "used" in sl_json_body.seen */

struct reading {
    struct sl_http_call *call;
    struct sl_usage_report_items *items;
    struct sl_json_body body; /* for refusals */
    struct sl_str rest;       /* unread JSON lines */
    struct sl_csv csv;
    bool is_csv;
    unsigned line;
    unsigned count;                    /* of columns */
    unsigned columns[SL_LEN(members)]; /* by number: of `members` */
    struct sl_str cells[SL_LEN(members) + 1];
};

bool sl_usage_import_refuse(struct sl_http_call *call, int status,
                            const char *code, unsigned line,
                            const char *sentence)
{
    sl_http_refuse(call, status, code, "line %u: %s", line, sentence);
    if (call->status != status)
        return false; /* no memory */
    call->text.len--; /* the brace */
    if (sl_buf_addf(&call->text, ",\"line\":%u}", line))
        return sl_http_no_memory(call);
    call->body = sl_buf_str(&call->text);
    return false;
}

/* ---- CSV ---- */

static bool refuse(struct reading *r, const char *sentence)
{
    return sl_json_body_refuse(&r->body, "BAD_LINE", "%s", sentence);
}

static bool read_column(struct reading *r, unsigned i)
{
    const char *names[SL_LEN(members)];
    unsigned k = 0;

    while (k < SL_LEN(members) && !sl_str_eq(r->cells[i], members[k].name)) {
        names[k] = members[k].name.at;
        k++;
    }
    if (k == SL_LEN(members))
        return sl_json_body_refuse(
            &r->body, "BAD_LINE", "unknown column \"%.*s\"%s",
            SL_STR_ARG(r->cells[i]),
            sl_hint_of(sl_str_nearest(r->cells[i], names, k), "").text);
    for (unsigned n = 0; n < i; n++)
        if (r->columns[n] == k)
            return sl_json_body_refuse(&r->body, "BAD_LINE",
                                       "column \"%.*s\" is there twice",
                                       SL_STR_ARG(r->cells[i]));
    r->columns[i] = k;
    return true;
}

static bool read_head(struct reading *r)
{
    r->line = 1;
    if (!sl_csv_next(&r->csv, r->cells, SL_LEN(members), &r->count))
        return refuse(r, r->csv.why
                             ? r->csv.why
                             : "the first line must name the columns, as in: "
                               "org,limit,used");
    r->line = r->csv.line;
    for (unsigned i = 0; i < r->count; i++)
        if (!read_column(r, i))
            return false;
    return true;
}

/* An export writes an apostrophe before what a spreadsheet takes for a
 * formula. */
static struct sl_str plain(struct sl_str cell)
{
    static const char begins[] = {'=', '+', '-', '@', '\t', '\r'};

    if (cell.len > 1 && cell.at[0] == '\'' &&
        memchr(begins, cell.at[1], sizeof(begins)))
        return sl_str_from(cell, 1);
    return cell;
}

static bool read_cells(struct reading *r, unsigned count, struct row *row)
{
    if (count > r->count)
        return refuse(r, "the line has more cells than there are columns");
    for (unsigned i = 0; i < count; i++) {
        const struct sl_json_field *field = &members[r->columns[i]];
        void *at = (char *)row + field->offset;
        struct sl_diag diag = {.sentence = ""};

        if (r->cells[i].len == 0)
            continue;
        r->body.seen |= 1u << r->columns[i];
        if (field->read == sl_json_body_text)
            *(struct sl_str *)at = plain(r->cells[i]);
        else if (sl_parse_number(r->cells[i], at, &diag))
            return sl_json_body_refuse(&r->body, "BAD_LINE", "%.*s: %s",
                                       SL_STR_ARG(field->name), diag.sentence);
    }
    return true;
}

static bool next_csv(struct reading *r, struct row *row, bool *ret_more)
{
    unsigned count = 0;

    r->body.seen = r->body.nulls = 0;
    *ret_more = sl_csv_next(&r->csv, r->cells, r->count, &count);
    r->line = r->csv.line;
    if (r->csv.no_memory)
        return sl_json_body_no_memory(&r->body);
    if (r->csv.why)
        return refuse(r, r->csv.why);
    return !*ret_more || read_cells(r, count, row);
}

/* ---- JSON lines ---- */

static bool next_json(struct reading *r, struct row *row, bool *ret_more)
{
    struct sl_str line;

    do {
        *ret_more = r->rest.len > 0;
        if (!*ret_more)
            return true;
        line = sl_str_trim(sl_admin_cut(&r->rest, '\n'));
        r->line++;
    } while (line.len == 0);
    if (line.len > LINE_MOST)
        return refuse(r, "the line is longer than 64 KiB");
    sl_json_begin(&r->body.json, line, &r->call->arena);
    return sl_json_body_fields(&r->body, members, SL_LEN(members), NULL, row) &&
           (sl_json_end(&r->body.json) || sl_json_body_broken(&r->body));
}

/* ---- a row ---- */

/* Rows are in the counted unit. Those that name the unit of the policy are
 * multiplied by its scale. */
static bool read_unit(struct reading *r, const struct row *row)
{
    struct sl_usage_report_item *use = row->use;
    const struct sl_rule *rule = use->rule;
    struct sl_str counted = sl_rule_counted(rule);
    uint64_t scale = 1;

    if (row->unit.len > 0 && !sl_str_eq(row->unit, counted)) {
        if (!sl_str_eq(row->unit, rule->unit))
            return sl_json_body_refuse(
                &r->body, "BAD_LINE",
                "limit \"%.*s\" has the unit \"%.*s\", not \"%.*s\"",
                SL_STR_ARG(rule->name), SL_STR_ARG(counted),
                SL_STR_ARG(row->unit));
        scale = rule->options.scale;
    }
    if (row->used > SL_AMOUNT_MAX / scale)
        return scale == 1
                   ? refuse(r, "\"used\" is greater than 9007199254740992")
                   : refuse(r, "\"used\" is greater than 9007199254740992 of "
                               "the counted unit");
    use->amount = row->used * scale;
    return true;
}

static bool check_row(struct reading *r, const struct row *row)
{
    struct sl_usage_report_item *use = row->use;
    const struct sl_rule *rule;

    use->request.org = row->org;
    use->request.user = row->user;
    use->request.limit = row->limit;
    use->other = row->key;
    use->amount = row->used;
    use->has_amount = true;
    use->line = r->line;
    if (!(r->body.seen & ~r->body.nulls & HAS_USED))
        return refuse(r, "\"used\" is missing: the units of the period");
    if (!sl_use_check(&r->body, use))
        return false;
    rule = use->rule;
    if (rule->kind != SL_QUOTA && rule->kind != SL_LEVEL)
        return sl_json_body_refuse(
            &r->body, "BAD_LINE",
            "limit \"%.*s\" is a %s; usage is imported for quotas and levels",
            SL_STR_ARG(rule->name), sl_kind_name(rule->kind));
    if (!read_unit(r, row))
        return false;
    if (row->from.len > 0 && sl_timestamp_parse(row->from, &use->from, NULL))
        return refuse(r, "\"from\" must be the start of a period, like "
                         "2026-11-01T00:00:00Z");
    return true;
}

static bool read_rows(struct reading *r)
{
    bool more = true;

    if (r->is_csv && !read_head(r))
        return false;
    for (;;) {
        struct row row = {.used = 0};

        if (!(r->is_csv ? next_csv(r, &row, &more) : next_json(r, &row, &more)))
            return false;
        if (!more)
            return true;
        if (r->items->count == SL_REPORTS)
            return sl_json_body_refuse(
                &r->body, "TOO_MANY",
                "one request can have %d rows; send the others with the next",
                SL_REPORTS);
        row.use = &r->items->list[r->items->count++];
        sl_use_begin(r->call, row.use);
        if (!check_row(r, &row))
            return false;
    }
}

/* Returns an upper bound of the number of rows. */
static size_t count_most(struct sl_str body)
{
    size_t count = 1;

    for (size_t i = 0; i < body.len && count < SL_REPORTS; i++)
        count += body.at[i] == '\n';
    return count;
}

bool sl_usage_import_read(struct sl_http_call *call,
                          struct sl_usage_report_items *ret)
{
    struct sl_str body = call->request->body, text = sl_str_trim(body);
    struct reading *r = sl_http_new(call, sizeof(*r));

    *ret = (struct sl_usage_report_items){.is_import = true};
    if (!r)
        return false;
    ret->list = sl_http_new(call, count_most(body) * sizeof(*ret->list));
    if (!ret->list)
        return false;
    r->call = call;
    r->items = ret;
    r->rest = body;
    r->is_csv = text.len > 0 && text.at[0] != '{';
    sl_json_body_begin(&r->body, call, "row");
    sl_csv_begin(&r->csv, body, &call->arena);
    if (read_rows(r))
        return true;
    if (r->body.json.no_memory)
        return sl_http_no_memory(call);
    return sl_usage_import_refuse(call, 400, r->body.code, r->line,
                                  r->body.sentence);
}

void sl_usage_import(struct sl_http_call *call)
{
    static const char *const words[] = {"false", "true"};
    struct sl_usage_sink *meter = sl_http_meter(call);
    struct sl_str dry_run;
    const struct sl_admin_option options[] = {
        {"dry_run", &dry_run}
    };
    struct sl_usage_report_items items;
    unsigned is_dry = 0;

    if (!meter || !sl_admin_options(call, options, SL_LEN(options)) ||
        !sl_admin_word(call, "dry_run", dry_run, words, SL_LEN(words),
                       "true or false", &is_dry) ||
        !sl_usage_import_read(call, &items))
        return;
    items.dry_run = is_dry;
    sl_uses_run(call, meter, &items);
}
