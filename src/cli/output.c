/* output.c -- input and output of commands. */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/parse.h"
#include "base/timestamp.h"
#include "cli/cli.h"
#include "wire/json.h"

#define POLICY_BYTES (1024 * 1024 + 1) /* one above the maximum */
#define READ_BYTES   16384

/* A C1 control character, U+0080 to U+009F, in UTF-8. */
static bool is_c1(const unsigned char *p)
{
    return p[0] == 0xc2 && p[1] >= 0x80 && p[1] < 0xa0;
}

static void print_clean(FILE *out, const char *text)
{
    const unsigned char *p = (const unsigned char *)text;

    for (; *p; p++) {
        bool control = (*p < 0x20 && *p != '\n' && *p != '\t') || *p == 0x7f;

        if (is_c1(p))
            p++;
        else if (!control) {
            fputc(*p, out);
            continue;
        }
        fputc('?', out);
    }
}

void sl_out_print(FILE *out, const char *fmt, ...)
{
    struct sl_buf text;
    va_list list, again;
    int len;

    va_start(list, fmt);
    va_copy(again, list);
    len = vsnprintf(NULL, 0, fmt, list);
    sl_buf_init(&text, (size_t)len + 1, &sl_alloc_libc);
    if (sl_buf_reserve(&text, (size_t)len + 1) == 0) {
        vsnprintf(text.bytes, (size_t)len + 1, fmt, again);
        print_clean(out, text.bytes);
    }
    sl_buf_done(&text);
    va_end(again);
    va_end(list);
}

void sl_out_json(FILE *out, const char *before, const char *text)
{
    struct sl_buf buf;

    /* A byte becomes at most six. */
    sl_buf_init(&buf, 6 * strlen(text) + 2, &sl_alloc_libc);
    fputs(before, out);
    if (sl_json_string(&buf, sl_str_c(text)) == 0)
        fwrite(buf.bytes, 1, buf.len, out);
    else
        fputs("null", out);
    sl_buf_done(&buf);
}

static bool wants_colour(FILE *out)
{
    const char *none = getenv("NO_COLOR"), *force = getenv("CLICOLOR_FORCE");
    const char *term = getenv("TERM");

    if (none && none[0])
        return false;
    if (force && force[0] && strcmp(force, "0") != 0)
        return true;
    if (!term || strcmp(term, "dumb") == 0)
        return false;
    return isatty(fileno(out)) == 1;
}

void sl_out_coloured(FILE *out, enum sl_colour colour, const char *text)
{
    static const char codes[] = {
        [SL_GREEN] = '2', [SL_RED] = '1', [SL_YELLOW] = '3'};

    if (wants_colour(out))
        fprintf(out, "\033[3%cm%s\033[0m", codes[colour], text);
    else
        fputs(text, out);
}

void sl_out_line(FILE *out, const char *text)
{
    size_t len = strlen(text);

    fputs(text, out);
    if (len == 0 || text[len - 1] != '\n')
        fputc('\n', out);
}

static int read_stream(FILE *in, struct sl_buf *buf)
{
    size_t got;

    do {
        size_t room = buf->ceiling - buf->len;

        if (room > READ_BYTES)
            room = READ_BYTES;
        if (sl_buf_reserve(buf, room)) {
            errno = ENOMEM;
            return -1;
        }
        got = room ? fread(buf->bytes + buf->len, 1, room, in) : 0;
        buf->len += got;
    } while (got > 0);
    return ferror(in) ? -1 : 0;
}

int sl_read_all(struct sl_cli *cli, const char *path, struct sl_buf *buf)
{
    bool is_stdin = strcmp(path, "-") == 0;
    FILE *in = is_stdin ? cli->in : fopen(path, "re");
    int err, saved;

    if (!in)
        return -1;
    err = read_stream(in, buf);
    saved = errno;
    if (!is_stdin)
        fclose(in);
    errno = saved;
    return err;
}

int sl_need_file(struct sl_cli_args *args, const char *path, struct sl_buf *buf)
{
    if (sl_read_all(args->cli, path, buf))
        return sl_cli_fail(args, "%s: %s", path, strerror(errno));
    return 0;
}

int sl_load_policy(struct sl_cli *cli, const char *path,
                   struct sluice_policy **ret,
                   struct sluice_problems **problems, const char **ret_why)
{
    struct sl_buf buf;
    int err;

    *problems = NULL;
    sl_buf_init(&buf, POLICY_BYTES, &sl_alloc_libc);
    if (strcmp(path, "-") != 0)
        err = sluice_policy_load(path, NULL, ret, problems);
    else if (sl_read_all(cli, path, &buf))
        err = SLUICE_ESYS;
    else
        err = sluice_policy_parse("stdin", buf.bytes ? buf.bytes : "", buf.len,
                                  NULL, ret, problems);
    sl_buf_done(&buf);
    *ret_why =
        strcmp(path, "-") == 0 ? "cannot read standard input" : sluice_why();
    return err;
}

void sl_free_text(char *text)
{
    free(text); /* style: the public interface uses malloc() */
}

int sl_need_policy(struct sl_cli_args *args, const char *path,
                   struct sluice_policy **ret)
{
    struct sluice_problems *problems;
    const char *why;
    int err = sl_load_policy(args->cli, path, ret, &problems, &why);

    if (err && problems && sluice_problems_count(problems) > 0)
        sl_out_line(args->cli->err, sluice_problems_text(problems));
    else if (err)
        sl_cli_error(args, 0, "%s", why);
    sluice_problems_free(problems);
    return err ? SL_EXIT_POLICY : 0;
}

/* ---- flags ---- */

typedef int parse_f(struct sl_str text, sl_ns *ret, struct sl_diag *diag);

static int read_flag(struct sl_cli_args *args, const char *name, parse_f *parse,
                     sl_ns *value)
{
    const char *text = sl_cli_flag(args, name);
    struct sl_diag diag = {.line = 0};

    if (text && parse(sl_str_c(text), value, &diag))
        return sl_cli_misuse(args, "--%s: %s", name, diag.sentence);
    return 0;
}

int sl_flag_duration(struct sl_cli_args *args, const char *name, sl_ns *value)
{
    return read_flag(args, name, sl_parse_duration, value);
}

int sl_flag_time(struct sl_cli_args *args, const char *name, sl_ns *value)
{
    return read_flag(args, name, sl_timestamp_parse, value);
}

/* ---- a table with aligned columns ---- */

#define ARENA_BYTES ((size_t)16 << 20)
#define GAP         2

struct sl_columns_row {
    struct sl_columns_row *next;
    const char *cells[SL_COLUMNS_MAX];
};

void sl_columns_init(struct sl_columns *columns, unsigned count,
                     const char *const *head)
{
    *columns = (struct sl_columns){.count = count, .last = &columns->rows};
    sl_arena_init(&columns->arena, ARENA_BYTES, &sl_alloc_libc);
    sl_columns_add(columns, head);
}

void sl_columns_done(struct sl_columns *columns)
{
    sl_arena_done(&columns->arena);
}

/* The number of characters: UTF-8 continuation bytes do not count. */
static size_t width_of(const char *text)
{
    size_t width = 0;

    for (; *text; text++)
        width += ((unsigned char)*text & 0xc0) != 0x80;
    return width;
}

/* A copy on one line, or NULL. */
static const char *copy_line(struct sl_arena *arena, const char *text)
{
    char *copy = sl_arena_copy(arena, sl_str_c(text));

    for (char *at = copy; at && *at; at++)
        if (*at == '\n' || *at == '\t')
            *at = '?';
    return copy;
}

void sl_columns_add(struct sl_columns *columns, const char *const *cells)
{
    struct sl_columns_row *row = sl_arena_take(&columns->arena, sizeof(*row));

    if (row)
        row->next = NULL;
    for (unsigned i = 0; row && i < columns->count; i++) {
        size_t width = width_of(cells[i]);

        row->cells[i] = copy_line(&columns->arena, cells[i]);
        if (!row->cells[i])
            row = NULL;
        if (width > columns->widths[i])
            columns->widths[i] = width;
    }
    if (!row) {
        columns->failed = true;
        return;
    }
    *columns->last = row;
    columns->last = &row->next;
}

/* Append a row with these members of `object`: texts, integers, and durations
 * if the name ends in _ms. A missing member is "-". */
static void add_members(struct sl_columns *columns, const json_t *object,
                        const char *const *names)
{
    const char *cells[SL_COLUMNS_MAX];
    char texts[SL_COLUMNS_MAX][32];

    for (unsigned i = 0; i < columns->count; i++) {
        const json_t *value = json_object_get(object, names[i]);

        cells[i] = json_string_value(value);
        if (strstr(names[i], "_ms")) {
            cells[i] = sl_member_span(object, names[i], texts[i]);
        } else if (json_is_integer(value)) {
            snprintf(texts[i], sizeof(texts[i]), "%" JSON_INTEGER_FORMAT,
                     json_integer_value(value));
            cells[i] = texts[i];
        }
        if (!cells[i])
            cells[i] = "-";
    }
    sl_columns_add(columns, cells);
}

static void print_row(const struct sl_columns *columns,
                      const struct sl_columns_row *row, FILE *out)
{
    for (unsigned i = 0; i < columns->count; i++) {
        size_t pad = columns->widths[i] - width_of(row->cells[i]) + GAP;

        sl_out_print(out, "%s%*s", row->cells[i],
                     i + 1 < columns->count ? (int)pad : 0, "");
    }
    fputc('\n', out);
}

int sl_columns_finish(struct sl_columns *columns, struct sl_cli_args *args)
{
    int status = columns->failed ? sl_cli_no_memory(args) : 0;

    for (const struct sl_columns_row *row = columns->rows; row && !status;
         row = row->next)
        print_row(columns, row, args->cli->out);
    sl_columns_done(columns);
    return status;
}

int sl_columns_print(struct sl_cli_args *args, json_t *list,
                     const char *const *names, unsigned count)
{
    struct sl_columns columns;
    json_t *row;
    size_t i;

    sl_columns_init(&columns, count, names);
    json_array_foreach(list, i, row) add_members(&columns, row, names);
    return sl_columns_finish(&columns, args);
}

/* ---- JSON answers ---- */

#define ROUND_ABOVE (10 * SL_S)

char *sl_span_print(sl_ns span, char out[32])
{
    sl_ns unit = span > SL_HOUR ? SL_MIN : SL_S;

    if (span > ROUND_ABOVE && span < SL_NS_MAX - unit)
        span = (span + unit - 1) / unit * unit;
    return sl_format_duration(span, out);
}

const char *sl_member_text(const json_t *map, const char *name)
{
    const char *text = json_string_value(json_object_get(map, name));

    return text ? text : "";
}

json_int_t sl_member_int(const json_t *map, const char *name)
{
    return json_integer_value(json_object_get(map, name));
}

bool sl_member_true(const json_t *map, const char *name)
{
    return json_is_true(json_object_get(map, name));
}

const char *sl_member_span(const json_t *map, const char *name, char out[32])
{
    json_t *ms = json_object_get(map, name);

    if (!json_is_integer(ms) || json_integer_value(ms) < 0 ||
        json_integer_value(ms) > SL_NS_MAX / SL_MS)
        return NULL;
    return sl_span_print(json_integer_value(ms) * SL_MS, out);
}

int sl_numbers_print(struct sl_cli_args *args, json_t *limits)
{
    static const char *const head[] = {"limit",     "scope", "plan",  "of",
                                       "remaining", "reset", "retry", "mode"};
    static const char *const members[] = {
        "name",      "scope",    "plan",           "limit",
        "remaining", "reset_ms", "retry_after_ms", "mode"};
    struct sl_columns columns;
    json_t *limit;
    size_t i;
    int status;

    sl_columns_init(&columns, SL_LEN(head), head);
    json_array_foreach(limits, i, limit) add_members(&columns, limit, members);
    status = sl_columns_finish(&columns, args);
    json_array_foreach(limits, i,
                       limit) if (!status && sl_member_true(limit, "blocked"))
        sl_out_print(args->cli->out, "blocked by the penalty of %s until %s\n",
                     sl_member_text(limit, "name"),
                     sl_member_text(limit, "blocked_until"));
    return status;
}

int sl_json_print(struct sl_cli_args *args, json_t *root)
{
    char *text = json_dumps(root, JSON_COMPACT | JSON_PRESERVE_ORDER);

    if (!text)
        return sl_cli_no_memory(args);
    fprintf(args->cli->out, "%s\n", text);
    sl_free_text(text);
    return 0;
}
