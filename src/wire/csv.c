/* csv.c -- comma-separated values, a record at a time. */
#include "wire/csv.h"

#include <string.h>

static bool fail(struct sl_csv *csv, const char *why)
{
    if (!csv->why)
        csv->why = why;
    return false;
}

void sl_csv_begin(struct sl_csv *csv, struct sl_str text,
                  struct sl_arena *arena)
{
    *csv = (struct sl_csv){.text = text, .arena = arena};
    if (text.len >= 3 && memcmp(text.at, "\xef\xbb\xbf", 3) == 0)
        csv->at = 3;
}

static bool is_end(const struct sl_csv *csv)
{
    return csv->at >= csv->text.len;
}

static char here(const struct sl_csv *csv)
{
    return csv->text.at[csv->at];
}

/* Skip a line end, if there is one. */
static bool pass_line_end(struct sl_csv *csv)
{
    size_t at = csv->at;

    if (at < csv->text.len && csv->text.at[at] == '\r')
        at++;
    if (at >= csv->text.len || csv->text.at[at] != '\n')
        return false;
    csv->at = at + 1;
    csv->lines++;
    return true;
}

/* ---- cells ---- */

/* Decode the text between quotes: "" becomes one quote. */
static bool decode(struct sl_csv *csv, struct sl_str inside, struct sl_str *ret)
{
    char *out = sl_arena_take(csv->arena, inside.len + 1);
    size_t len = 0;

    if (!out) {
        csv->no_memory = true;
        return fail(csv, "out of memory");
    }
    for (size_t i = 0; i < inside.len; i++) {
        out[len++] = inside.at[i];
        if (inside.at[i] == '"')
            i++; /* the second quote */
    }
    *ret = (struct sl_str){out, len};
    return true;
}

static bool read_quoted(struct sl_csv *csv, struct sl_str *ret)
{
    size_t from = ++csv->at;
    bool doubled = false;

    for (;; csv->at++) {
        if (is_end(csv))
            return fail(csv, "a quote is opened here and never closed");
        if (here(csv) == '\n')
            csv->lines++;
        if (here(csv) != '"')
            continue;
        if (csv->at + 1 >= csv->text.len || csv->text.at[csv->at + 1] != '"')
            break;
        doubled = true;
        csv->at++;
    }
    *ret = (struct sl_str){csv->text.at + from, csv->at - from};
    csv->at++;
    return !doubled || decode(csv, *ret, ret);
}

static bool read_plain(struct sl_csv *csv, struct sl_str *ret)
{
    size_t from = csv->at;

    while (!is_end(csv) && here(csv) != ',' && here(csv) != '\n') {
        if (here(csv) == '"')
            return fail(csv, "there is a quote inside a cell; quote the whole "
                             "cell and double the quote");
        csv->at++;
    }
    *ret = (struct sl_str){csv->text.at + from, csv->at - from};
    if (ret->len > 0 && ret->at[ret->len - 1] == '\r') {
        ret->len--;
        csv->at--; /* part of the line end */
    }
    *ret = sl_str_trim(*ret);
    return true;
}

/* Blanks before a quote do not belong to the cell. */
static bool read_cell(struct sl_csv *csv, struct sl_str *ret)
{
    size_t at = csv->at;

    while (at < csv->text.len &&
           (csv->text.at[at] == ' ' || csv->text.at[at] == '\t'))
        at++;
    if (at >= csv->text.len || csv->text.at[at] != '"')
        return read_plain(csv, ret);
    csv->at = at;
    return read_quoted(csv, ret);
}

bool sl_csv_next(struct sl_csv *csv, struct sl_str *cells, unsigned most,
                 unsigned *ret_count)
{
    unsigned count = 0;

    while (!csv->why && pass_line_end(csv))
        ;
    csv->line = csv->lines + 1;
    if (csv->why || is_end(csv))
        return false;
    for (;;) {
        if (count == most)
            return fail(csv, "there are more cells than the first line has");
        if (!read_cell(csv, &cells[count++]))
            return false;
        if (is_end(csv) || pass_line_end(csv))
            break;
        if (here(csv) != ',')
            return fail(csv, "a comma is expected after the quote");
        csv->at++;
    }
    *ret_count = count;
    return true;
}

size_t sl_csv_cut(struct sl_str text)
{
    bool quoted = false;

    for (size_t i = 0; i < text.len; i++) {
        if (text.at[i] == '"')
            quoted = !quoted; /* an even number of quotes changes nothing */
        else if (text.at[i] == '\n' && !quoted)
            return i + 1;
    }
    return 0;
}

static bool is_formula(struct sl_str text)
{
    static const char first[] = {'=', '+', '-', '@', '\t', '\r'};

    return text.len > 0 && memchr(first, text.at[0], sizeof(first));
}

static bool needs_quotes(struct sl_str text)
{
    static const char special[] = {',', '"', '\r', '\n'};

    for (size_t i = 0; i < text.len; i++)
        if (memchr(special, text.at[i], sizeof(special)))
            return true;
    return text.len > 0 && sl_str_trim(text).len < text.len;
}

void sl_csv_write(struct sl_writer *w, struct sl_str text)
{
    bool quoted = needs_quotes(text);

    if (quoted)
        sl_writer_add(w, SL_STR("\""));
    if (is_formula(text))
        sl_writer_add(w, SL_STR("'"));
    while (text.len > 0) {
        const char *quote = memchr(text.at, '"', text.len);
        size_t len = quote ? (size_t)(quote - text.at) + 1 : text.len;

        sl_writer_add(w, (struct sl_str){text.at, len});
        if (quote)
            sl_writer_add(w, SL_STR("\""));
        text = sl_str_from(text, len);
    }
    if (quoted)
        sl_writer_add(w, SL_STR("\""));
}
