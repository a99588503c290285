/* lex.c -- a line of a flow file as words.
 *
 * The words of a line are written one behind the other into one piece of
 * memory: unquoting only shortens, and the NUL behind a word takes the place
 * of the blank or the end of line that was there.
 */
#include "cli/flow/lex.h"

#include <string.h>

struct lexer {
    struct sl_str line;
    size_t at;
    char *out; /* where the next byte goes */
    struct sl_diag *diag;
};

struct sl_diag *sl_diag_at(struct sl_diag *diag, unsigned column)
{
    if (diag)
        diag->column = column;
    return diag;
}

int sl_value_refused(struct sl_diag *diag, const struct sl_word *word, int err)
{
    if (diag)
        diag->column = word->value_column + (unsigned)diag->at;
    return err;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static char peek(const struct lexer *lex)
{
    return lex->at < lex->line.len ? lex->line.at[lex->at] : '\0';
}

static unsigned column(const struct lexer *lex)
{
    return (unsigned)lex->at + 1;
}

static bool word_ends(const struct lexer *lex)
{
    return lex->at == lex->line.len || is_blank(peek(lex));
}

/* The `\` of an escape has been passed. */
static int read_escape(struct lexer *lex)
{
    char c = peek(lex);

    if (c != '"' && c != '\\')
        return sl_refuse(sl_diag_at(lex->diag, column(lex) - 1), SLUICE_ECONF,
                         "inside quotes, a backslash must be followed by a "
                         "quote or a backslash; write \\\\ for a backslash");
    *lex->out++ = c;
    lex->at++;
    return 0;
}

/* The opening quote is next. */
static int read_quoted(struct lexer *lex)
{
    unsigned opened = column(lex);
    int err = 0;

    lex->at++;
    while (!err && lex->at < lex->line.len && peek(lex) != '"') {
        if (peek(lex) == '\\') {
            lex->at++;
            err = read_escape(lex);
        } else {
            *lex->out++ = lex->line.at[lex->at++];
        }
    }
    if (err)
        return err;
    if (lex->at == lex->line.len)
        return sl_refuse(sl_diag_at(lex->diag, opened), SLUICE_ECONF,
                         "the quote is not closed on this line");
    lex->at++;
    if (!word_ends(lex))
        return sl_refuse(sl_diag_at(lex->diag, column(lex)), SLUICE_ECONF,
                         "missing space after the closing quote");
    return 0;
}

static int refuse_quote(struct lexer *lex)
{
    return sl_refuse(sl_diag_at(lex->diag, column(lex)), SLUICE_ECONF,
                     "quote in the middle of a word; quote the whole value, "
                     "and write \\\" for a quote in it");
}

/* A word that begins without a quote: up to a blank, or up to its first `=`
 * and then perhaps quoted. */
static int read_plain(struct lexer *lex, struct sl_word *word)
{
    const char *from = lex->out;

    while (!word_ends(lex)) {
        char c = peek(lex);
        bool first = word->equals == SL_NO_EQUALS;

        if (c == '"')
            return refuse_quote(lex);
        if (c == '=' && first)
            word->equals = (size_t)(lex->out - from);
        *lex->out++ = c;
        lex->at++;
        if (c == '=' && first) {
            word->value_column = column(lex);
            if (peek(lex) == '"')
                return read_quoted(lex);
        }
    }
    return 0;
}

static int read_word(struct lexer *lex, struct sl_word *word)
{
    int err;

    *word = (struct sl_word){
        .text = lex->out,
        .equals = SL_NO_EQUALS,
        .column = column(lex),
        .value_column = column(lex),
        .quoted = peek(lex) == '"',
    };
    err = word->quoted ? read_quoted(lex) : read_plain(lex, word);
    if (err)
        return err;
    word->len = (size_t)(lex->out - word->text);
    *lex->out++ = '\0';
    return 0;
}

static int check_line(struct sl_str line, struct sl_diag *diag)
{
    const char *nul = line.len ? memchr(line.at, '\0', line.len) : NULL;

    if (line.len > SL_FLOW_LINE)
        return sl_refuse(sl_diag_at(diag, SL_FLOW_LINE + 1), SLUICE_ECONF,
                         "the line is longer than %d bytes", SL_FLOW_LINE);
    if (nul)
        return sl_refuse(sl_diag_at(diag, (unsigned)(nul - line.at) + 1),
                         SLUICE_ECONF,
                         "NUL byte found; a flow file must be text");
    return 0;
}

int sl_words_read(struct sl_str line, struct sl_arena *arena,
                  struct sl_words *ret, struct sl_diag *diag)
{
    struct lexer lex = {.line = line, .diag = diag};
    int err = check_line(line, diag);

    ret->count = 0;
    if (err)
        return err;
    lex.out = sl_arena_take(arena, line.len + 2);
    if (!lex.out)
        return SLUICE_ENOMEM;
    for (;;) {
        while (lex.at < line.len && is_blank(peek(&lex)))
            lex.at++;
        if (lex.at == line.len || peek(&lex) == '#')
            return 0;
        if (ret->count == SL_FLOW_WORDS)
            return sl_refuse(sl_diag_at(diag, column(&lex)), SLUICE_ECONF,
                             "the line has more than %d words", SL_FLOW_WORDS);
        err = read_word(&lex, &ret->at[ret->count]);
        if (err)
            return err;
        ret->count++;
    }
}

bool sl_word_is(const struct sl_word *word, const char *text)
{
    return !word->quoted && strcmp(word->text, text) == 0;
}

struct sl_str sl_word_name(const struct sl_word *word)
{
    bool all = word->equals == SL_NO_EQUALS;

    return (struct sl_str){word->text, all ? word->len : word->equals};
}

const char *sl_word_value(const struct sl_word *word)
{
    if (word->equals == SL_NO_EQUALS)
        return "";
    return word->text + word->equals + 1;
}
