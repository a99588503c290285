/* words.c -- the words of a line, and the inputs of an act: user=ann plan=free
 * cost=3 x8 every=1s. */
#include <stddef.h>
#include <string.h>

#include "base/parse.h"
#include "base/timestamp.h"
#include "cli/flow/flow.h"

#define OF_INPUTS(member)  offsetof(struct sl_inputs, member)
#define OF_REQUEST(member) offsetof(struct sl_inputs, request.member)

const struct sl_input_field sl_input_fields[] = {
    {"user",            SL_INPUT_TEXT,   OF_REQUEST(user),            false},
    {"org",             SL_INPUT_TEXT,   OF_REQUEST(org),             false},
    {"plan",            SL_INPUT_TEXT,   OF_REQUEST(plan),            false},
    {"role",            SL_INPUT_TEXT,   OF_REQUEST(role),            false},
    {"ip",              SL_INPUT_TEXT,   OF_REQUEST(ip),              false},
    {"token",           SL_INPUT_TEXT,   OF_INPUTS(token),            false},
    {"hold",            SL_INPUT_SPAN,   OF_REQUEST(hold_ns),         false},
    {"as",              SL_INPUT_TEXT,   OF_INPUTS(as),               true },
    {"cost",            SL_INPUT_COST,   0,                           false},
    {"every",           SL_INPUT_SPAN,   OF_INPUTS(every),            true },
    {"header.NAME",     SL_INPUT_HEADER, 0,                           false},
    {"cost.LIMIT",      SL_INPUT_COST,   0,                           false},
    {"body",            SL_INPUT_TEXT,   OF_REQUEST(body),            false},
    {"idempotency_key", SL_INPUT_TEXT,   OF_REQUEST(idempotency_key), false},
    {NULL,              SL_INPUT_TEXT,   0,                           false},
};

_Static_assert(offsetof(struct sl_inputs, request) == 0,
               "sl_request_text() uses the same offsets");

static const struct sl_input_field *find_field(struct sl_str name)
{
    for (const struct sl_input_field *f = sl_input_fields; f->name; f++) {
        const char *dot = strchr(f->name, '.');
        size_t prefix = dot ? (size_t)(dot - f->name) + 1 : 0;

        if (dot ? name.len > prefix && memcmp(name.at, f->name, prefix) == 0
                : sl_str_eq(name, sl_str_c(f->name)))
            return f;
    }
    return NULL;
}

int sl_moment_read(const char *text, const struct sl_flow_word *word,
                   struct sl_moment *ret, struct sl_diag *diag)
{
    struct sl_str rest = sl_str_c(text);
    struct sl_moment moment = {.relative = text[0] == '+'};
    bool date = strlen(text) > 4 && text[4] == '-';
    int err;

    if (moment.relative)
        rest = sl_str_from(rest, 1);
    if (date)
        err = sl_timestamp_parse(rest, &moment.at, diag);
    else
        err = sl_parse_duration(rest, &moment.at, diag);
    if (err)
        return sl_flow_value_refused(diag, word, err);
    if (moment.at >= SL_TIME_END)
        return sl_diag_error(sl_diag_at(diag, word->value_column), SLUICE_ECONF,
                             "\"%s\" is after the year 2115", text);
    *ret = moment;
    return 0;
}

void sl_inputs_init(struct sl_inputs *in)
{
    *in = (struct sl_inputs){.times = 1};
}

int sl_inputs_header(struct sl_inputs *in, const struct sluice_header *header,
                     struct sl_arena *arena)
{
    size_t count = in->request.header_count;
    struct sluice_header *list =
        sl_arena_take(arena, (count + 1) * sizeof(*list));

    if (!list)
        return SLUICE_ENOMEM;
    if (count > 0)
        memcpy(list, in->headers, count * sizeof(*list));
    list[count] = *header;
    in->request.headers = in->headers = list;
    in->request.header_count = count + 1;
    return 0;
}

bool sl_flow_word_under(struct sl_str name, const char *prefix)
{
    size_t len = strlen(prefix);

    return name.len > len && memcmp(name.at, prefix, len) == 0;
}

int sl_flow_word_once(const struct sl_words *words, size_t from, size_t index,
                      struct sl_diag *diag)
{
    const struct sl_flow_word *word = &words->at[index];
    struct sl_str name = sl_flow_word_name(word);

    for (size_t i = from; i < index; i++)
        if (sl_str_eq(sl_flow_word_name(&words->at[i]), name))
            return sl_diag_error(sl_diag_at(diag, word->column), SLUICE_ECONF,
                                 "%.*s is given twice", SL_STR_ARG(name));
    return 0;
}

/* "x8" */
static bool is_times(const struct sl_flow_word *word)
{
    return !word->quoted && word->equals == SL_NO_EQUALS &&
           word->text[0] == 'x' && word->text[1] >= '0' && word->text[1] <= '9';
}

static int read_times(const struct sl_flow_word *word, struct sl_inputs *in,
                      struct sl_diag *diag)
{
    struct sl_str digits = sl_str_c(word->text + 1);
    uint64_t n = 0;
    int err = sl_parse_count(digits, &n, diag);

    if (err && diag)
        diag->at++; /* the x */
    if (err)
        return sl_flow_value_refused(diag, word, err);
    if (n < 1 || n > SL_FLOW_TIMES)
        return sl_diag_error(sl_diag_at(diag, word->column), SLUICE_ECONF,
                             "a line can be repeated 1 to %d times, not %s",
                             SL_FLOW_TIMES, word->text + 1);
    if (in->times != 1)
        return sl_diag_error(sl_diag_at(diag, word->column), SLUICE_ECONF,
                             "the number of repeats is given twice");
    in->times = n;
    return 0;
}

/* header.NAME=VALUE. A list never has more items than the line has words. */
static int read_header(const struct sl_words *words,
                       const struct sl_flow_word *word, struct sl_arena *arena,
                       struct sl_inputs *in)
{
    struct sl_str name = sl_flow_word_name(word);
    const char *copy =
        sl_arena_copy(arena, sl_str_from(name, strlen("header.")));

    if (!in->headers)
        in->headers = sl_arena_take(arena, words->count * sizeof(*in->headers));
    if (!in->headers || !copy)
        return SLUICE_ENOMEM;
    in->headers[in->request.header_count++] =
        (struct sluice_header){.name = copy, .value = sl_flow_word_value(word)};
    in->request.headers = in->headers;
    return 0;
}

static int refuse_input(const struct sl_flow_word *word,
                        const struct sl_inputs *in, struct sl_diag *diag)
{
    struct sl_str name = sl_flow_word_name(word);
    const char *names[24], *near;
    size_t count = 0;

    for (const struct sl_input_field *f = sl_input_fields; f->name; f++)
        if (!in->single || !f->flow_only)
            names[count++] = f->name;
    if (in->single)
        names[count++] = "at";
    near = sl_str_nearest(name, names, count);
    sl_diag_at(diag, word->column);
    if (word->equals == SL_NO_EQUALS)
        sl_diag_error(diag, SLUICE_ECONF,
                      "\"%s\" is not an input; write NAME=VALUE%s", word->text,
                      in->single ? "" : ", or x8 to repeat eight times");
    else
        sl_diag_error(
            diag, SLUICE_ECONF,
            "unknown input \"%.*s\"; valid are user, org, plan, role, "
            "ip, header.NAME, token, cost, cost.LIMIT, hold, body, "
            "idempotency_key and %s",
            SL_STR_ARG(name), in->single ? "at" : "every");
    if (near)
        sl_diag_hint(diag, "%s=%s", near, sl_flow_word_value(word));
    return SLUICE_ECONF;
}

/* cost=N or cost.LIMIT=N */
static int read_cost(const struct sl_words *words,
                     const struct sl_flow_word *word, struct sl_arena *arena,
                     struct sl_inputs *in, struct sl_diag *diag)
{
    struct sl_str name = sl_flow_word_name(word);
    struct sl_str limit = sl_str_from(name, strlen("cost."));
    const char *copy;
    uint64_t cost = 0;
    int err = sl_parse_count(sl_str_c(sl_flow_word_value(word)), &cost, diag);

    if (err)
        return sl_flow_value_refused(diag, word, err);
    if (limit.len == 0) {
        in->request.has_cost = true;
        in->request.cost = cost;
        return 0;
    }
    copy = sl_arena_copy(arena, limit);
    if (!in->costs)
        in->costs = sl_arena_take(arena, words->count * sizeof(*in->costs));
    if (!in->costs || !copy)
        return SLUICE_ENOMEM;
    in->costs[in->request.cost_count++] =
        (struct sluice_cost){.limit = copy, .cost = cost};
    in->request.costs = in->costs;
    return 0;
}

/* every=1s or hold=30s */
static int read_span(const struct sl_flow_word *word, sl_ns *ret, bool positive,
                     struct sl_diag *diag)
{
    int err = sl_parse_duration(sl_str_c(sl_flow_word_value(word)), ret, diag);

    if (err)
        return sl_flow_value_refused(diag, word, err);
    if (positive && *ret == 0)
        return sl_diag_error(
            sl_diag_at(diag, word->value_column), SLUICE_ECONF,
            "a hold needs a duration above 0; write one like hold=30s");
    return 0;
}

int sl_input_read(const struct sl_words *words, size_t index,
                  struct sl_arena *arena, struct sl_inputs *in,
                  struct sl_diag *diag)
{
    const struct sl_flow_word *word = &words->at[index];
    const struct sl_input_field *field = find_field(sl_flow_word_name(word));
    void *at = field ? (char *)in + field->offset : NULL;

    if (is_times(word))
        return read_times(word, in, diag);
    if (word->equals == SL_NO_EQUALS)
        return refuse_input(word, in, diag);
    if (field && field->kind == SL_INPUT_HEADER)
        return read_header(words, word, arena, in);
    if (sl_flow_word_once(words, 0, index, diag))
        return SLUICE_ECONF;
    if (!field)
        return refuse_input(word, in, diag);
    if (field->kind == SL_INPUT_COST)
        return read_cost(words, word, arena, in, diag);
    if (field->kind == SL_INPUT_SPAN)
        return read_span(word, at, at == (void *)&in->request.hold_ns, diag);
    *(const char **)at = sl_flow_word_value(word);
    return 0;
}

/* ---- a line of a flow file as words ----
 *
 * The words of a line are written to one piece of memory. It is large enough:
 * unquoting only shortens, and the NUL after a word replaces a blank or the
 * line end.
 */

struct lexer {
    struct sl_str line;
    size_t at;
    char *out; /* the next byte to write */
    struct sl_diag *diag;
};

struct sl_diag *sl_diag_at(struct sl_diag *diag, unsigned column)
{
    if (diag)
        diag->column = column;
    return diag;
}

int sl_flow_value_refused(struct sl_diag *diag, const struct sl_flow_word *word,
                          int err)
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

/* After the `\` of an escape. */
static int read_escape(struct lexer *lex)
{
    char c = peek(lex);

    if (c != '"' && c != '\\')
        return sl_diag_error(
            sl_diag_at(lex->diag, column(lex) - 1), SLUICE_ECONF,
            "inside quotes, a backslash must be followed by a "
            "quote or a backslash; write \\\\ for a backslash");
    *lex->out++ = c;
    lex->at++;
    return 0;
}

/* At the opening quote. */
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
        return sl_diag_error(sl_diag_at(lex->diag, opened), SLUICE_ECONF,
                             "the quote is not closed on this line");
    lex->at++;
    if (!word_ends(lex))
        return sl_diag_error(sl_diag_at(lex->diag, column(lex)), SLUICE_ECONF,
                             "missing space after the closing quote");
    return 0;
}

static int refuse_quote(struct lexer *lex)
{
    return sl_diag_error(
        sl_diag_at(lex->diag, column(lex)), SLUICE_ECONF,
        "quote in the middle of a word; quote the whole value, "
        "and write \\\" for a quote in it");
}

/* A word that does not begin with a quote: up to a blank, or up to its first
 * `=` and a quoted value. */
static int read_plain(struct lexer *lex, struct sl_flow_word *word)
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

static int read_word(struct lexer *lex, struct sl_flow_word *word)
{
    int err;

    *word = (struct sl_flow_word){
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
        return sl_diag_error(sl_diag_at(diag, SL_FLOW_LINE + 1), SLUICE_ECONF,
                             "the line is longer than %d bytes", SL_FLOW_LINE);
    if (nul)
        return sl_diag_error(sl_diag_at(diag, (unsigned)(nul - line.at) + 1),
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
            return sl_diag_error(sl_diag_at(diag, column(&lex)), SLUICE_ECONF,
                                 "the line has more than %d words",
                                 SL_FLOW_WORDS);
        err = read_word(&lex, &ret->at[ret->count]);
        if (err)
            return err;
        ret->count++;
    }
}

bool sl_flow_word_is(const struct sl_flow_word *word, const char *text)
{
    return !word->quoted && strcmp(word->text, text) == 0;
}

struct sl_str sl_flow_word_name(const struct sl_flow_word *word)
{
    bool all = word->equals == SL_NO_EQUALS;

    return (struct sl_str){word->text, all ? word->len : word->equals};
}

const char *sl_flow_word_value(const struct sl_flow_word *word)
{
    if (word->equals == SL_NO_EQUALS)
        return "";
    return word->text + word->equals + 1;
}

/* ---- the arguments of `subject`: plan=pro until=30d api=100/min ---- */

/* A pair other than plan and until: a limit and its rate. */
static int read_override(const struct sl_words *words, size_t index,
                         struct sl_arena *arena,
                         struct sl_flow_subject_args *record,
                         struct sl_diag *diag)
{
    const struct sl_flow_word *word = &words->at[index];
    struct sl_rate rate;
    const char *limit;
    int err = sl_parse_rate(sl_str_c(sl_flow_word_value(word)), &rate, diag);

    if (err)
        return sl_flow_value_refused(diag, word, err);
    if (!record->overrides)
        record->overrides =
            sl_arena_take(arena, words->count * sizeof(*record->overrides));
    limit = sl_arena_copy(arena, sl_flow_word_name(word));
    if (!record->overrides || !limit)
        return SLUICE_ENOMEM;
    record->overrides[record->override_count++] = (struct sluice_override){
        .limit = limit, .rate = sl_flow_word_value(word)};
    return 0;
}

static int read_pair(const struct sl_words *words, size_t index,
                     struct sl_arena *arena,
                     struct sl_flow_subject_args *record, struct sl_diag *diag)
{
    const struct sl_flow_word *word = &words->at[index];
    struct sl_str name = sl_flow_word_name(word);

    if (word->equals == SL_NO_EQUALS || name.len == 0)
        return sl_diag_error(sl_diag_at(diag, word->column), SLUICE_ECONF,
                             "\"%s\" is not a setting of a subject; write "
                             "plan=NAME, until=TIME or LIMIT=RATE",
                             word->text);
    if (sl_str_eq(name, SL_STR("plan"))) {
        record->plan = sl_flow_word_value(word);
        return 0;
    }
    if (sl_str_eq(name, SL_STR("until"))) {
        record->has_until = true;
        return sl_moment_read(sl_flow_word_value(word), word, &record->until,
                              diag);
    }
    return read_override(words, index, arena, record, diag);
}

int sl_flow_subject_args_read(const struct sl_words *words, size_t from,
                              struct sl_arena *arena, struct sl_flow_act *act,
                              struct sl_diag *diag)
{
    struct sl_flow_subject_args *record = sl_arena_take(arena, sizeof(*record));
    int err = 0;

    if (!record)
        return SLUICE_ENOMEM;
    *record = (struct sl_flow_subject_args){.plan = NULL};
    for (size_t i = from; i < words->count && !err; i++) {
        err = sl_flow_word_once(words, from, i, diag);
        if (!err)
            err = read_pair(words, i, arena, record, diag);
    }
    act->record = record;
    return err;
}
