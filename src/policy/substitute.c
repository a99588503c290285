/* substitute.c -- ${ENV:NAME} and ${FILE:path} in quoted strings. */
#include <stdio.h>
#include <string.h>

#include "base/parse.h"
#include "policy/yaml.h"

/* One string on its way. */
struct job {
    struct sl_subst *subst;
    struct sl_yaml_node *node;
    struct sl_str text; /* as written */
    size_t at;          /* the `$` of what is being replaced */
    struct sl_buf out;
};

static bool has_at(struct sl_str text, size_t at, struct sl_str what)
{
    return text.len - at >= what.len &&
           !memcmp(text.at + at, what.at, what.len);
}

bool sl_subst_needed(struct sl_str text)
{
    for (size_t i = 0; i < text.len; i++)
        if (text.at[i] == '$' && has_at(text, i, SL_STR("${")))
            return true;
    return false;
}

/* Report an error at job->at. Returns SLUICE_ECONF. */
static int refuse(struct job *job, const char *fmt, ...) SL_PRINTF(2, 3);

static int refuse(struct job *job, const char *fmt, ...)
{
    struct sl_report *report = job->subst->report;
    va_list args;

    va_start(args, fmt);
    (void)sl_report_add(report,
                        sl_report_within(report, job->node->place, job->at),
                        false, fmt, args);
    va_end(args);
    return SLUICE_ECONF;
}

static int no_memory(struct job *job)
{
    job->subst->report->no_memory = true;
    return SLUICE_ENOMEM;
}

static int refuse_size(struct job *job, size_t bytes)
{
    refuse(job, "The text has more than %zu KB after substitution",
           bytes / 1024);
    return SLUICE_EFULL;
}

static int add(struct job *job, struct sl_str bytes)
{
    int err = sl_buf_add(&job->out, bytes);

    if (err == SLUICE_EFULL)
        return refuse_size(job, SL_SUBST_BYTES);
    return err ? no_memory(job) : 0;
}

/* Put in what a variable or a file has; `what` names it. */
static int put_in(struct job *job, struct sl_str value, const char *what,
                  struct sl_str name)
{
    struct sl_utf8_fault bad = sl_utf8_check(value);
    char words[64];

    if (bad.fault)
        return refuse(
            job,
            "The %s \"%s\" contains %s. Only plain text can be substituted",
            what, sl_quote(name).text, sl_utf8_words(&bad, words));
    job->subst->total += value.len;
    if (job->subst->total > SL_SUBST_TOTAL)
        return refuse_size(job, SL_SUBST_TOTAL);
    job->node->substituted = true;
    return add(job, value);
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_variable(struct sl_str name)
{
    for (size_t i = 0; i < name.len; i++)
        if (!is_letter(name.at[i]) &&
            (i == 0 || name.at[i] < '0' || name.at[i] > '9'))
            return false;
    return name.len > 0;
}

/* `name` with a NUL behind it in out[SL_SUBST_NAME]; false if it is too long.
 */
static bool terminate(struct sl_str name, char *out)
{
    if (name.len >= SL_SUBST_NAME)
        return false;
    memcpy(out, name.at, name.len);
    out[name.len] = '\0';
    return true;
}

/* `name` may end with `:-TEXT`, for a variable that is not set or empty. */
static int put_variable(struct job *job, struct sl_str name)
{
    const struct sl_yaml_options *options = job->subst->options;
    const char *dash = memmem(name.at, name.len, ":-", 2);
    struct sl_str usual = SL_STR("");
    char text[SL_SUBST_NAME];
    const char *value = NULL;

    if (dash) {
        usual = sl_str_from(name, (size_t)(dash - name.at) + 2);
        name.len = (size_t)(dash - name.at);
    }
    if (!is_variable(name) || !terminate(name, text))
        return refuse(job,
                      "Invalid environment variable name \"%s\". Use letters, "
                      "digits and \"_\", as in ${ENV:API_TOKEN}",
                      sl_quote(name).text);
    if (options && options->env)
        value = options->env(options->ctx, text);
    if (dash && (!value || !value[0]))
        return put_in(job, usual, "environment variable", name);
    if (!value)
        return refuse(job, "Environment variable \"%s\" is not set",
                      sl_quote(name).text);
    return put_in(job, sl_str_c(value), "environment variable", name);
}

/* Read a file into `out`, and say why not. */
static int read_file(struct job *job, const char *path, struct sl_buf *out)
{
    const struct sl_yaml_options *options = job->subst->options;
    struct sl_diag diag = {.line = 0};
    int err = SLUICE_ENOENT;

    if (options && options->file)
        err = options->file(options->ctx, path, out, &diag);
    if (!err)
        return 0;
    if (err == SLUICE_ENOMEM)
        return no_memory(job);
    if (err == SLUICE_EFULL)
        return refuse_size(job, SL_SUBST_BYTES);
    return refuse(job, "Cannot substitute file \"%s\"%s%s",
                  sl_quote(sl_str_c(path)).text, diag.sentence[0] ? ": " : "",
                  diag.sentence);
}

static struct sl_str without_line_end(struct sl_str text)
{
    if (text.len == 0 || text.at[text.len - 1] != '\n')
        return text;
    text.len--;
    if (text.len > 0 && text.at[text.len - 1] == '\r')
        text.len--;
    return text;
}

static int put_file(struct job *job, struct sl_str name)
{
    char path[SL_SUBST_NAME];
    struct sl_buf value;
    int err;

    if (name.len == 0 || !terminate(name, path))
        return refuse(
            job,
            "${FILE:...} needs a path of 1 to %d bytes, as in ${FILE:./token}",
            SL_SUBST_NAME - 1);
    /* Two more, for a line end that does not count. */
    sl_buf_init(&value, SL_SUBST_BYTES + 2, job->subst->report->alloc);
    err = read_file(job, path, &value);
    if (!err)
        err = put_in(job, without_line_end(sl_buf_str(&value)), "file", name);
    sl_buf_done(&value);
    return err;
}

static int replace(struct job *job, struct sl_str inside)
{
    if (has_at(inside, 0, SL_STR("ENV:")))
        return put_variable(job, sl_str_from(inside, 4));
    if (has_at(inside, 0, SL_STR("FILE:")))
        return put_file(job, sl_str_from(inside, 5));
    return refuse(job,
                  "Unknown substitution \"${%s}\". Write ${ENV:NAME} or "
                  "${FILE:path}. Write \"$${\" for a literal \"${\"" SL_HINT
                  "%s%s%s",
                  sl_quote(inside).text, is_variable(inside) ? "${ENV:" : "",
                  is_variable(inside) ? sl_quote(inside).text : "",
                  is_variable(inside) ? "}" : "");
}

/* What begins with `$` at job->at. Passes it by moving *next behind it. */
static int read_dollar(struct job *job, size_t *next)
{
    struct sl_str rest = sl_str_from(job->text, job->at);
    const char *end;

    if (has_at(rest, 0, SL_STR("$${"))) {
        *next = job->at + 3;
        return add(job, SL_STR("${"));
    }
    if (!has_at(rest, 0, SL_STR("${"))) {
        *next = job->at + 1;
        return add(job, SL_STR("$"));
    }
    end = memchr(rest.at, '}', rest.len);
    if (!end)
        return refuse(job, "Missing \"}\" after \"${\". Write ${ENV:NAME} or "
                           "${FILE:path}. Write \"$${\" for a literal \"${\"");
    rest.len = (size_t)(end - rest.at);
    *next = job->at + rest.len + 1;
    return replace(job, sl_str_from(rest, 2));
}

/* Pass the text up to the next `$` and what begins there. */
static int read_piece(struct job *job)
{
    struct sl_str rest = sl_str_from(job->text, job->at);
    const char *dollar = memchr(rest.at, '$', rest.len);
    size_t next;
    int err;

    if (dollar)
        rest.len = (size_t)(dollar - rest.at);
    err = add(job, rest);
    job->at += rest.len;
    next = job->text.len;
    if (!err && dollar)
        err = read_dollar(job, &next);
    job->at = next;
    return err;
}

/* Goes on after a refusal, so that all unset variables are known at once. */
static int read_text(struct job *job)
{
    int err = 0;

    while (job->at < job->text.len) {
        int piece = read_piece(job);

        if (piece)
            err = piece;
        if (piece == SLUICE_ENOMEM || piece == SLUICE_EFULL)
            break;
    }
    return err;
}

void sl_subst_node(struct sl_subst *subst, struct sl_yaml_node *node)
{
    struct job job = {.subst = subst, .node = node, .text = node->text};
    char *copy = NULL;
    int err;

    sl_buf_init(&job.out, SL_SUBST_BYTES, subst->report->alloc);
    err = read_text(&job);
    if (!err)
        copy = sl_arena_copy(subst->arena, sl_buf_str(&job.out));
    if (copy && node->substituted)
        node->written = node->text;
    if (copy)
        node->text = (struct sl_str){copy, job.out.len};
    else if (!err)
        (void)no_memory(&job);
    if (!copy)
        sl_yaml_node_refuse(node);
    sl_buf_done(&job.out);
}

void sl_subst_plain(struct sl_subst *subst, struct sl_yaml_node *node)
{
    struct sl_str text = node->text;

    if (!memmem(text.at, text.len, "${ENV:", 6) &&
        !memmem(text.at, text.len, "${FILE:", 7))
        return;
    sl_report_error(subst->report, node->place,
                    "\"${...}\" is replaced only in quotes" SL_HINT "\"%s\"",
                    sl_quote(text).text);
    sl_yaml_node_refuse(node);
}

/* ---- is it plain text?
 *
 * Characters are decoded one by one and judged by their number. A megabyte
 * takes a few milliseconds.
 */

#define BAD UINT32_MAX

/* How many bytes a character has that begins with `c`; 0 if none does. */
static size_t length_of(unsigned char c)
{
    if (c < 0x80)
        return 1;
    if (c < 0xc2 || c > 0xf4)
        return 0;
    return c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : 2;
}

/* The character at `p`, of which `left` (> 0) bytes are there, and its length;
 * BAD if it is none: cut, longer than needed, half of a pair, too large. */
static uint32_t decode(const unsigned char *p, size_t left, size_t *len)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    uint32_t code;

    *len = length_of(p[0]);
    if (*len == 0 || *len > left)
        return BAD;
    if (*len == 1)
        return p[0];
    code = p[0] & (0xffu >> (*len + 1));
    for (size_t i = 1; i < *len; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return BAD;
        code = code << 6 | (p[i] & 0x3f);
    }
    if (code < least[*len] || code > 0x10ffff ||
        (code >= 0xd800 && code <= 0xdfff))
        return BAD;
    return code;
}

static enum sl_utf8_error judge(uint32_t code, bool newline_behind)
{
    if (code == 0)
        return SL_FAULT_NUL;
    if (code == BAD)
        return SL_FAULT_UTF8;
    if (code == '\t' || code == '\n')
        return SL_FAULT_NONE;
    if (code == '\r')
        return newline_behind ? SL_FAULT_NONE : SL_FAULT_RETURN;
    if (code < 0x20 || (code >= 0x7f && code < 0xa0))
        return SL_FAULT_CONTROL;
    return code == 0xfeff ? SL_FAULT_MARK : SL_FAULT_NONE;
}

struct sl_utf8_fault sl_utf8_check(struct sl_str text)
{
    const unsigned char *p = (const unsigned char *)text.at;
    size_t len;

    for (size_t i = 0; i < text.len; i += len) {
        uint32_t code = decode(p + i, text.len - i, &len);
        bool newline = i + 1 < text.len && p[i + 1] == '\n';
        enum sl_utf8_error fault = judge(code, newline);

        if (fault)
            return (struct sl_utf8_fault){fault, i, code == BAD ? p[i] : code};
    }
    return (struct sl_utf8_fault){SL_FAULT_NONE, text.len, 0};
}

const char *sl_utf8_words(const struct sl_utf8_fault *bad, char out[64])
{
    static const char *const forms[] = {
        [SL_FAULT_NONE] = "nothing",
        [SL_FAULT_NUL] = "a NUL byte",
        [SL_FAULT_UTF8] = "the byte 0x%02X, which is not UTF-8",
        [SL_FAULT_CONTROL] = "the control character U+%04X",
        [SL_FAULT_RETURN] = "a carriage return without a newline",
        [SL_FAULT_MARK] = "a byte order mark (U+%04X)",
    };

    /* style: the formats are those above, and each takes one number or none */
    snprintf(out, 64, forms[bad->fault], bad->code);
    return out;
}
