/* output.c -- input and output of commands. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/parse.h"
#include "cli/cli.h"
#include "wire/json.h"

#define POLICY_BYTES (1024 * 1024 + 1) /* one above the maximum */
#define READ_BYTES   16384

/* A C1 control character, U+0080 to U+009F, in UTF-8. */
static bool is_c1(const unsigned char *p)
{
    return p[0] == 0xc2 && p[1] >= 0x80 && p[1] < 0xa0;
}

void sl_out_clean(FILE *out, const char *text)
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

void sl_out_json(FILE *out, const char *text)
{
    size_t len = strlen(text);
    struct sl_buf buf;

    /* A byte becomes at most six. */
    sl_buf_init(&buf, 6 * len + 2, &sl_alloc_libc);
    if (sl_json_string(&buf, sl_str_c(text)) == 0)
        fwrite(buf.bytes, 1, buf.len, out);
    else
        fputs("null", out);
    sl_buf_done(&buf);
}

static bool is_set(const char *name)
{
    const char *value = getenv(name);

    return value && value[0];
}

static bool wants_colour(FILE *out)
{
    const char *force = getenv("CLICOLOR_FORCE");
    const char *term = getenv("TERM");

    if (is_set("NO_COLOR"))
        return false;
    if (force && force[0] && strcmp(force, "0") != 0)
        return true;
    if (!term || strcmp(term, "dumb") == 0)
        return false;
    return isatty(fileno(out)) == 1;
}

void sl_out_colour(FILE *out, enum sl_colour colour)
{
    static const char *const codes[] = {"\033[0m", "\033[32m", "\033[31m",
                                        "\033[33m"};

    if (wants_colour(out))
        fputs(codes[colour], out);
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

int sl_load_policy(struct sl_cli *cli, const char *path,
                   struct sluice_policy **ret,
                   struct sluice_problems **problems)
{
    struct sl_buf buf;
    int err;

    *problems = NULL;
    if (strcmp(path, "-") != 0)
        return sluice_policy_load(path, NULL, ret, problems);
    sl_buf_init(&buf, POLICY_BYTES, &sl_alloc_libc);
    err = sl_read_all(cli, path, &buf) ? SLUICE_ESYS : 0;
    if (!err)
        err = sluice_policy_parse("stdin", buf.bytes ? buf.bytes : "", buf.len,
                                  NULL, ret, problems);
    sl_buf_done(&buf);
    return err;
}

const char *sl_load_why(const char *path)
{
    if (strcmp(path, "-") == 0)
        return "cannot read standard input";
    return sluice_why();
}

void sl_print_problems(FILE *out, const struct sluice_problems *problems)
{
    const char *text = sluice_problems_text(problems);
    size_t len = strlen(text);

    fputs(text, out);
    if (len > 0 && text[len - 1] != '\n')
        fputc('\n', out);
}

void sl_free_text(char *text)
{
    free(text); /* style: the public interface uses malloc() */
}

int sl_need_policy(struct sl_cli_args *args, const char *path,
                   struct sluice_policy **ret)
{
    struct sluice_problems *problems;
    int err = sl_load_policy(args->cli, path, ret, &problems);

    if (err && problems && sluice_problems_count(problems) > 0)
        sl_print_problems(args->cli->err, problems);
    else if (err)
        sl_cli_error(args, 0, "%s", sl_load_why(path));
    sluice_problems_free(problems);
    return err ? SL_EXIT_POLICY : 0;
}

/* ---- a table with aligned columns ---- */

#define ARENA_BYTES ((size_t)16 << 20)
#define GAP         2

struct sl_columns_row {
    struct sl_columns_row *next;
    const char *cells[SL_COLUMNS_MAX];
};

void sl_columns_init(struct sl_columns *columns, unsigned count)
{
    memset(columns, 0, sizeof(*columns));
    columns->count = count;
    columns->last = &columns->rows;
    sl_arena_init(&columns->arena, ARENA_BYTES, &sl_alloc_libc);
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

    if (!row) {
        columns->failed = true;
        return;
    }
    row->next = NULL;
    for (unsigned i = 0; i < columns->count; i++) {
        size_t width = width_of(cells[i]);

        row->cells[i] = copy_line(&columns->arena, cells[i]);
        if (!row->cells[i]) {
            columns->failed = true;
            return;
        }
        if (width > columns->widths[i])
            columns->widths[i] = width;
    }
    *columns->last = row;
    columns->last = &row->next;
}

static void print_row(const struct sl_columns *columns,
                      const struct sl_columns_row *row, FILE *out)
{
    for (unsigned i = 0; i < columns->count; i++) {
        size_t pad = columns->widths[i] - width_of(row->cells[i]) + GAP;

        sl_out_clean(out, row->cells[i]);
        if (i + 1 < columns->count)
            fprintf(out, "%*s", (int)pad, "");
    }
    fputc('\n', out);
}

void sl_columns_print(const struct sl_columns *columns, FILE *out)
{
    for (const struct sl_columns_row *row = columns->rows; row; row = row->next)
        print_row(columns, row, out);
}

int sl_columns_finish(struct sl_columns *columns, struct sl_cli_args *args)
{
    int status = 0;

    if (columns->failed)
        status = sl_cli_error(args, SL_EXIT_FAILED, "out of memory");
    else
        sl_columns_print(columns, args->cli->out);
    sl_columns_done(columns);
    return status;
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

enum { NAME, SCOPE, PLAN, LIMIT, REMAINING, RESET, RETRY, MODE, COLUMNS };

const char *sl_member_text(const json_t *map, const char *name,
                           const char *missing)
{
    const char *text = json_string_value(json_object_get(map, name));

    return text ? text : missing;
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

static const char *number_of(json_t *limit, const char *name, char out[32])
{
    json_t *number = json_object_get(limit, name);

    if (!json_is_integer(number))
        return "-";
    snprintf(out, 32, "%" JSON_INTEGER_FORMAT, json_integer_value(number));
    return out;
}

static const char *span_of(json_t *limit, const char *name, char out[32])
{
    const char *text = sl_member_span(limit, name, out);

    return text ? text : "-";
}

static void add_limit(struct sl_columns *columns, json_t *limit)
{
    const char *cells[COLUMNS];
    char room[COLUMNS][32];

    cells[NAME] = sl_member_text(limit, "name", "-");
    cells[SCOPE] = sl_member_text(limit, "scope", "-");
    cells[PLAN] = sl_member_text(limit, "plan", "-");
    cells[LIMIT] = number_of(limit, "limit", room[LIMIT]);
    cells[REMAINING] = number_of(limit, "remaining", room[REMAINING]);
    cells[RESET] = span_of(limit, "reset_ms", room[RESET]);
    cells[RETRY] = span_of(limit, "retry_after_ms", room[RETRY]);
    cells[MODE] = sl_member_text(limit, "mode", "-");
    sl_columns_add(columns, cells);
}

int sl_numbers_print(struct sl_cli_args *args, json_t *limits)
{
    static const char *const head[COLUMNS] = {
        "limit", "scope", "plan", "of", "remaining", "reset", "retry", "mode",
    };
    struct sl_columns columns;
    json_t *limit;
    size_t i;

    sl_columns_init(&columns, COLUMNS);
    sl_columns_add(&columns, head);
    json_array_foreach(limits, i, limit) add_limit(&columns, limit);
    return sl_columns_finish(&columns, args);
}

int sl_json_print(struct sl_cli_args *args, json_t *root)
{
    char *text = json_dumps(root, JSON_COMPACT | JSON_PRESERVE_ORDER);

    if (!text)
        return sl_cli_error(args, SL_EXIT_FAILED, "out of memory");
    fprintf(args->cli->out, "%s\n", text);
    sl_free_text(text);
    return 0;
}
