/* diag.c -- diagnostics.
 *
 * Sentences quote user input and are printed on terminals and in logs. Control
 * characters, U+0080 to U+009F too, and bytes that are not UTF-8 become '?'.
 * A long sentence is cut between characters and ends in "...".
 */
#include "base/diag.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define ELLIPSIS "..."

static bool is_tail(unsigned char c)
{
    return (c & 0xc0) == 0x80;
}

size_t sl_diag_char_len(struct sl_str text)
{
    const unsigned char *p = (const unsigned char *)text.at;
    unsigned char c = p[0];
    size_t len = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : 2;

    if (c < 0x80)
        return c >= 0x20 && c != 0x7f;
    if (c < 0xc2 || c > 0xf4 || text.len < len)
        return 0;
    for (size_t i = 1; i < len; i++)
        if (!is_tail(p[i]))
            return 0;
    if ((c == 0xc2 && p[1] < 0xa0) ||  /* eight-bit controls */
        (c == 0xe0 && p[1] < 0xa0) ||  /* longer than needed */
        (c == 0xed && p[1] >= 0xa0) || /* halves of UTF-16 */
        (c == 0xf0 && p[1] < 0x90) ||  /* longer than needed */
        (c == 0xf4 && p[1] >= 0x90))   /* beyond U+10FFFF */
        return 0;
    return len;
}

/* Replace unprintable bytes. Returns the length of the whole characters within
 * `most` bytes. */
static size_t clean(char *text, size_t len, size_t most)
{
    size_t fits = 0;

    for (size_t i = 0; i < len;) {
        size_t n = sl_diag_char_len((struct sl_str){text + i, len - i});

        if (n == 0) {
            text[i] = '?';
            n = 1;
        }
        i += n;
        if (i <= most)
            fits = i;
    }
    return fits;
}

/* Print into out[size], cleaned and cut. */
static void say(char *out, size_t size, const char *fmt, va_list args)
    SL_PRINTF(3, 0);

static void say(char *out, size_t size, const char *fmt, va_list args)
{
    int n = vsnprintf(out, size, fmt, args);
    size_t most = size - sizeof(ELLIPSIS);

    if (n < 0)
        out[0] = '\0';
    else if ((size_t)n < size)
        clean(out, (size_t)n, size);
    else
        memcpy(out + clean(out, size - 1, most), ELLIPSIS, sizeof(ELLIPSIS));
}

static void put_down(struct sl_diag *diag, size_t at, const char *fmt,
                     va_list args) SL_PRINTF(3, 0);

static void put_down(struct sl_diag *diag, size_t at, const char *fmt,
                     va_list args)
{
    char sentence[sizeof(diag->sentence)];

    if (!diag)
        return;
    /* Not in place: a sentence may quote the one before. */
    say(sentence, sizeof(sentence), fmt, args);
    memcpy(diag->sentence, sentence, sizeof(sentence));
    diag->at = at;
    diag->hint[0] = '\0';
}

int sl_diag_error(struct sl_diag *diag, int err, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    put_down(diag, 0, fmt, args);
    va_end(args);
    return err;
}

int sl_diag_error_at(struct sl_diag *diag, int err, size_t at, const char *fmt,
                     ...)
{
    va_list args;

    va_start(args, fmt);
    put_down(diag, at, fmt, args);
    va_end(args);
    return err;
}

void sl_diag_hint(struct sl_diag *diag, const char *fmt, ...)
{
    va_list args;

    if (!diag)
        return;
    va_start(args, fmt);
    say(diag->hint, sizeof(diag->hint), fmt, args);
    va_end(args);
}

/* The output of sl_diag_print(); counts on when it is full. */
struct sink {
    char *out;
    size_t size;
    size_t len; /* needed so far */
};

static void put(struct sink *sink, char c)
{
    if (sink->len + 1 < sink->size)
        sink->out[sink->len] = c;
    sink->len++;
}

static void put_text(struct sink *sink, const char *text)
{
    for (; *text; text++)
        put(sink, *text);
}

static void put_unsigned(struct sink *sink, unsigned n)
{
    char digits[16];

    snprintf(digits, sizeof(digits), "%u:", n);
    put_text(sink, digits);
}

static void put_place(struct sink *sink, const struct sl_diag *diag)
{
    if (diag->file) {
        put_text(sink, diag->file);
        put(sink, ':');
    }
    if (diag->line > 0)
        put_unsigned(sink, diag->line);
    if (diag->line > 0 && diag->column > 0)
        put_unsigned(sink, diag->column);
    if (diag->file || diag->line > 0)
        put(sink, ' ');
}

/* Write the line, or blanks for the caret's line: one for each character, and
 * tabs as they are. */
static void put_line(struct sink *sink, struct sl_str line, bool blank)
{
    put_text(sink, "\n  ");
    for (size_t i = 0; i < line.len;) {
        const unsigned char *p = (const unsigned char *)line.at + i;
        size_t n = sl_diag_char_len(sl_str_from(line, i));

        if (*p == '\t')
            put(sink, '\t');
        else if (blank)
            put(sink, ' ');
        else if (n == 0)
            put(sink, '?');
        else
            for (size_t k = 0; k < n; k++)
                put(sink, (char)p[k]);
        i += n ? n : 1;
    }
}

/* The bytes of `line` before the error. Without file and line, `line` is the
 * text that was read, and `at` is an offset in it. */
static size_t before_caret(const struct sl_diag *diag, struct sl_str line)
{
    size_t n = diag->column > 0 ? diag->column - 1 : diag->at;

    return n < line.len ? n : line.len;
}

size_t sl_diag_print(const struct sl_diag *diag, struct sl_str line, char *out,
                     size_t size)
{
    struct sink sink = {out, size, 0};

    put_place(&sink, diag);
    put_text(&sink, diag->sentence);
    if (line.len > 0)
        put_line(&sink, line, false);
    if (line.len > 0 && (diag->column > 0 || diag->line == 0)) {
        line.len = before_caret(diag, line);
        put_line(&sink, line, true);
        put(&sink, '^');
    }
    if (diag->hint[0]) {
        put_text(&sink, "\n  write: ");
        put_text(&sink, diag->hint);
    }
    if (size > 0)
        out[sink.len < size ? sink.len : size - 1] = '\0';
    return sink.len;
}
