/* diagnostics.c -- all problems of a file.
 *
 * Problems are kept sorted. When the list is full, the last warning is dropped,
 * or the last error if there is no warning.
 *
 * Of a long line, a window around the caret is shown: a policy can be one line
 * of a megabyte.
 */
#include "policy/diagnostics.h"

#include <stdio.h>
#include <string.h>

#define FIRST_ROOM 8
#define WINDOW     ((size_t)120) /* bytes of a line that are shown */

void sl_report_init(struct sl_report *report, const char *file,
                    struct sl_str text, const struct sl_alloc *alloc)
{
    *report = (struct sl_report){.file = file, .text = text, .alloc = alloc};
}

void sl_report_done(struct sl_report *report)
{
    sl_alloc_free(report->alloc, report->problems,
                  report->room * sizeof(*report->problems));
    report->problems = NULL;
    report->kept = report->room = 0;
}

/* Make room for one more; false at the maximum and without memory. */
static bool grow(struct sl_report *report)
{
    const struct sl_alloc *alloc = report->alloc;
    size_t size = sizeof(*report->problems);
    unsigned room = report->room ? report->room * 2 : FIRST_ROOM;
    void *grown;

    if (report->kept < report->room)
        return true;
    if (report->kept >= SL_PROBLEMS)
        return false;
    if (room > SL_PROBLEMS)
        room = SL_PROBLEMS;
    grown = alloc->resize(alloc->ctx, report->problems, report->room * size,
                          room * size);
    if (!grown) {
        report->no_memory = true;
        return false;
    }
    report->problems = grown;
    report->room = room;
    return true;
}

static bool is_after(const struct sl_problem *problem,
                     struct sl_source_pos place)
{
    if (problem->diag.line != place.line)
        return problem->diag.line > place.line;
    return problem->diag.column > place.column;
}

static void take_out(struct sl_report *report, unsigned i)
{
    report->kept--;
    memmove(&report->problems[i], &report->problems[i + 1],
            (report->kept - i) * sizeof(*report->problems));
}

/* The list is full: drop another problem. False if none is less important. */
static bool make_way(struct sl_report *report, struct sl_source_pos place,
                     bool warning)
{
    unsigned i = report->kept;

    while (i > 0 && !report->problems[i - 1].warning)
        i--;
    if (i > 0 && (!warning || is_after(&report->problems[i - 1], place))) {
        take_out(report, i - 1);
        return true;
    }
    i = report->kept;
    if (warning || i == 0 || !is_after(&report->problems[i - 1], place))
        return false;
    take_out(report, i - 1);
    return true;
}

/* A new problem without a sentence; never NULL. */
static struct sl_diag *add(struct sl_report *report, struct sl_source_pos place,
                           bool warning)
{
    unsigned i;

    if (warning)
        report->warnings++;
    else
        report->errors++;
    if (!grow(report) && !make_way(report, place, warning))
        return &report->spare;
    i = report->kept++;
    for (; i > 0 && is_after(&report->problems[i - 1], place); i--)
        report->problems[i] = report->problems[i - 1];
    report->problems[i] = (struct sl_problem){
        .diag = {.file = report->file,
                 .line = place.line,
                 .column = place.column},
        .warning = warning,
    };
    return &report->problems[i].diag;
}

struct sl_diag *sl_report_add(struct sl_report *report,
                              struct sl_source_pos place, bool warning,
                              const char *fmt, va_list args)
{
    struct sl_diag *diag = add(report, place, warning);
    char text[1024]; /* longer than a sentence, which ends in "..." if cut */
    char *hint;

    vsnprintf(text, sizeof(text), fmt, args);
    hint = strchr(text, *SL_HINT);
    if (hint)
        *hint++ = '\0';
    (void)sl_diag_error(diag, 0, "%s", text);
    if (hint)
        sl_diag_hint(diag, "%s", hint);
    return diag;
}

struct sl_diag *sl_report_error(struct sl_report *report,
                                struct sl_source_pos place, const char *fmt,
                                ...)
{
    struct sl_diag *diag;
    va_list args;

    va_start(args, fmt);
    diag = sl_report_add(report, place, false, fmt, args);
    va_end(args);
    return diag;
}

struct sl_diag *sl_report_warning(struct sl_report *report,
                                  struct sl_source_pos place, const char *fmt,
                                  ...)
{
    struct sl_diag *diag;
    va_list args;

    va_start(args, fmt);
    diag = sl_report_add(report, place, true, fmt, args);
    va_end(args);
    return diag;
}

/* The text without a byte order mark. Positions count behind it. */
static struct sl_str bare_text(const struct sl_report *report)
{
    if (report->text.len >= 3 && !memcmp(report->text.at, "\xef\xbb\xbf", 3))
        return sl_str_from(report->text, 3);
    return report->text;
}

/* Take the next line off `text`. */
static struct sl_str next_line(struct sl_str *text)
{
    const char *end = text->len ? memchr(text->at, '\n', text->len) : NULL;
    struct sl_str line = *text;

    if (end)
        line.len = (size_t)(end - text->at);
    *text = sl_str_from(*text, line.len + (end != NULL));
    if (line.len > 0 && line.at[line.len - 1] == '\r')
        line.len--;
    return line;
}

static struct sl_str line_at(const struct sl_report *report, unsigned number)
{
    struct sl_str text = bare_text(report), line = {NULL, 0};

    for (unsigned i = 0; i < number; i++)
        line = next_line(&text);
    return line;
}

/* Does the part of a string with that quote have escapes? */
static bool has_escapes(struct sl_str bytes, char quote)
{
    for (size_t i = 0; i < bytes.len; i++)
        if (bytes.at[i] == quote || (bytes.at[i] == '\\' && quote == '"'))
            return true;
    return false;
}

/* The part of the scalar at `place` on its first line, without its opening
 * quote, which is put into *quote (NUL: none). */
static struct sl_str scalar_at(const struct sl_report *report,
                               struct sl_source_pos place, char *quote)
{
    struct sl_str rest = {NULL, 0};

    *quote = '\0';
    if (place.line > 0 && place.column > 0)
        rest = sl_str_from(line_at(report, place.line), place.column - 1);
    if (rest.len == 0 || rest.at[0] == '|' || rest.at[0] == '>')
        return (struct sl_str){NULL, 0};
    if (rest.at[0] != '"' && rest.at[0] != '\'')
        return rest;
    *quote = rest.at[0];
    return sl_str_from(rest, 1);
}

struct sl_source_pos sl_report_within(const struct sl_report *report,
                                      struct sl_source_pos place, size_t at)
{
    char quote;
    struct sl_str scalar = scalar_at(report, place, &quote);

    if (at > scalar.len || (at == 0 && !quote))
        return place;
    scalar.len = at;
    if (quote && has_escapes(scalar, quote))
        return place;
    place.column += (unsigned)at + (quote != '\0');
    return place;
}

bool sl_report_full(const struct sl_report *report)
{
    return report->kept == SL_PROBLEMS &&
           report->errors + report->warnings > 2 * SL_PROBLEMS;
}

/* Can the scalar have substitutions, so that the parser read another text? */
static bool has_dollar(const struct sl_report *report,
                       struct sl_source_pos place)
{
    char quote;
    struct sl_str scalar = scalar_at(report, place, &quote);

    SL_HOLDS(!quote || scalar.at);
    return quote && memmem(scalar.at, scalar.len, "${", 2);
}

void sl_report_diag(struct sl_report *report, struct sl_source_pos place,
                    const struct sl_diag *diag)
{
    struct sl_diag *ours;

    if (diag->at > 0 && !sl_report_full(report) && !has_dollar(report, place))
        place = sl_report_within(report, place, diag->at);
    ours = add(report, place, false);
    memcpy(ours->sentence, diag->sentence, sizeof(ours->sentence));
    memcpy(ours->hint, diag->hint, sizeof(ours->hint));
}

/* `at`, or the beginning of its character. Invalid UTF-8 is cut anywhere. */
static size_t cut_at(struct sl_str line, size_t at)
{
    size_t begin = at;

    for (unsigned i = 0; i < 3 && begin > 0 && begin < line.len; i++)
        if ((line.at[begin] & 0xc0) == 0x80)
            begin--;
    return begin < line.len && (line.at[begin] & 0xc0) == 0x80 ? at : begin;
}

/* The part of a long line around byte *at; *at becomes the offset in it. */
static struct sl_str window(struct sl_str line, size_t *at)
{
    size_t from, end;

    if (*at > line.len)
        *at = line.len;
    if (line.len <= WINDOW)
        return line;
    from = cut_at(line, *at > WINDOW / 2 ? *at - WINDOW / 2 : 0);
    end = line.len - from > WINDOW ? cut_at(line, from + WINDOW) : line.len;
    *at -= from;
    return (struct sl_str){line.at + from, end - from};
}

static int print_part(const struct sl_diag *diag, struct sl_str line,
                      struct sl_buf *out)
{
    size_t len = sl_diag_print(diag, line, NULL, 0);
    int err = sl_buf_reserve(out, len + 1); /* for its NUL */

    if (err)
        return err;
    sl_diag_print(diag, line, out->bytes + out->len, len + 1);
    out->len += len;
    return 0;
}

/* In two parts: the sentence with its position, then the line with a caret,
 * whose column differs if the line is a window. */
static int print_problem(const struct sl_problem *problem, struct sl_str line,
                         struct sl_buf *out)
{
    struct sl_diag head = problem->diag;
    struct sl_diag tail = {.at = head.column ? head.column - 1 : 0};
    int err;

    if (problem->warning)
        (void)sl_diag_error(&head, 0, "warning: %s", problem->diag.sentence);
    memcpy(tail.hint, problem->diag.hint, sizeof(tail.hint));
    head.hint[0] = '\0';
    err = print_part(&head, (struct sl_str){NULL, 0}, out);
    if (!err)
        err = print_part(&tail, window(line, &tail.at), out);
    if (!err)
        err = sl_buf_add(out, SL_STR("\n"));
    return err;
}

static int print_more(const struct sl_report *report, struct sl_buf *out)
{
    unsigned more = report->errors + report->warnings - report->kept;

    if (more == 0)
        return 0;
    return sl_buf_addf(out, "%s: %u more problem%s not shown\n",
                       report->file ? report->file : "policy", more,
                       more == 1 ? " is" : "s are");
}

int sl_report_print(const struct sl_report *report, struct sl_buf *out)
{
    struct sl_str text = bare_text(report), line = {NULL, 0};
    unsigned number = 0;
    int err = 0;

    for (unsigned i = 0; i < report->kept && !err; i++) {
        const struct sl_problem *problem = &report->problems[i];
        bool shown = problem->diag.line > 0 && problem->diag.column > 0;

        for (; number < problem->diag.line; number++)
            line = next_line(&text);
        err = print_problem(problem, shown ? line : (struct sl_str){NULL, 0},
                            out);
    }
    return err ? err : print_more(report, out);
}
