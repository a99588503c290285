/* source.c -- the file as bytes and lines, before and beside its YAML. */
#include "policy/yaml/reader.h"

#include <string.h>

#include "policy/yaml/bytes.h"

#define BLANK_LINES 100 /* in a row */

bool sl_reader_index(struct sl_reader *r)
{
    size_t count = 1, n = 0;

    for (size_t i = 0; i < r->text.len; i++)
        count += r->text.at[i] == '\n';
    r->lines = sl_alloc_new(r->report->alloc, count * sizeof(*r->lines));
    if (!r->lines)
        return false;
    r->line_count = count;
    r->lines[n++] = 0;
    for (size_t i = 0; i < r->text.len; i++)
        if (r->text.at[i] == '\n')
            r->lines[n++] = (uint32_t)(i + 1);
    return true;
}

struct sl_place sl_reader_place(const struct sl_reader *r, size_t at)
{
    size_t low = 0, high = r->line_count;

    if (at > r->text.len)
        at = r->text.len;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;

        if (r->lines[middle] <= at)
            low = middle;
        else
            high = middle;
    }
    return (struct sl_place){(unsigned)low + 1,
                             (unsigned)(at - r->lines[low]) + 1};
}

size_t sl_reader_offset(const struct sl_reader *r, unsigned line,
                        unsigned column)
{
    size_t at;

    if (line > r->line_count)
        return r->text.len;
    at = r->lines[line - 1];
    for (; column > 1 && at < r->text.len && r->text.at[at] != '\n'; column--)
        do
            at++;
        while (at < r->text.len && (r->text.at[at] & 0xc0) == 0x80);
    return at;
}

size_t sl_reader_look(const struct sl_reader *r, const char *wanted)
{
    bool comment = false;

    for (size_t i = r->seen; i < r->text.len; i++) {
        char c = r->text.at[i];

        if (c == '\n')
            comment = false;
        else if (c == '#' && i > 0 && strchr(" \t\n", r->text.at[i - 1]))
            comment = true;
        else if (!comment && strchr(wanted, c))
            return i;
    }
    return r->seen;
}

static bool check_bytes(struct sl_reader *r)
{
    struct sl_bytes_fault bad = sl_bytes_check(r->text);
    char words[64];

    if (!bad.fault)
        return true;
    if (r->text.len >= 2 && bad.at == 0 &&
        (!memcmp(r->text.at, "\xff\xfe", 2) ||
         !memcmp(r->text.at, "\xfe\xff", 2)))
        sl_report_error(r->report, (struct sl_place){1, 1},
                        "The file is UTF-16. Save it as UTF-8");
    else
        sl_report_error(r->report, sl_reader_place(r, bad.at),
                        "Found %s. A policy must be plain text in UTF-8",
                        sl_bytes_words(&bad, words));
    return false;
}

/* Directives are refused before libfyaml sees them: it reads a long line of
 * them in a time that grows with its square. */
static bool check_directives(struct sl_reader *r)
{
    for (size_t i = 0; i < r->line_count; i++) {
        size_t at = r->lines[i];

        if (at < r->text.len && r->text.at[at] == '%') {
            sl_report_error(
                r->report, sl_reader_place(r, at),
                "A policy has no YAML directives. Remove this line");
            return false;
        }
    }
    return true;
}

static bool is_blank_line(const struct sl_reader *r, size_t line)
{
    size_t at = r->lines[line];

    while (at < r->text.len && strchr(" \t\r", r->text.at[at]))
        at++;
    return at == r->text.len || r->text.at[at] == '\n';
}

/* Another square: blank lines inside a text, each of which libfyaml counts
 * again from the next. */
static bool check_blank_lines(struct sl_reader *r)
{
    size_t run = 0;

    for (size_t i = 0; i < r->line_count; i++) {
        run = is_blank_line(r, i) ? run + 1 : 0;
        if (run > BLANK_LINES) {
            sl_report_error(r->report, sl_reader_place(r, r->lines[i]),
                            "More than %d blank lines in a row. Remove some",
                            BLANK_LINES);
            return false;
        }
    }
    return true;
}

bool sl_reader_check(struct sl_reader *r)
{
    return check_bytes(r) && check_directives(r) && check_blank_lines(r);
}
