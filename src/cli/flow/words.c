/* words.c -- the words of a line, and the inputs of an act: user=ann plan=free
 * cost=3 x8 every=1s. */
#include <stddef.h>
#include <string.h>

#include "base/parse.h"
#include "base/timestamp.h"
#include "cli/flow/flow.h"
#include "core/anchor.h"

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

int sl_moment_read(struct sl_flow_line *line, const struct sl_flow_word *word,
                   const char *text, struct sl_moment *ret)
{
    struct sl_str rest = sl_str_c(text);
    struct sl_moment moment = {.relative = text[0] == '+'};
    bool date = strlen(text) > 4 && text[4] == '-';
    int err;

    if (moment.relative)
        rest = sl_str_from(rest, 1);
    if (date)
        err = sl_timestamp_parse(rest, &moment.at, line->diag);
    else
        err = sl_parse_duration(rest, &moment.at, line->diag);
    if (err)
        return sl_flow_value_refused(line, word, err);
    if (moment.at >= SL_TIME_END)
        return sl_flow_refuse(line, word->value_column,
                              "\"%s\" is after the year 2115", text);
    *ret = moment;
    return 0;
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
        memcpy(list, in->request.headers, count * sizeof(*list));
    list[count] = *header;
    in->request.headers = list;
    in->request.header_count = count + 1;
    return 0;
}

bool sl_flow_word_under(struct sl_str name, const char *prefix)
{
    size_t len = strlen(prefix);

    return name.len > len && memcmp(name.at, prefix, len) == 0;
}

int sl_flow_word_once(struct sl_flow_line *line, size_t from, size_t index)
{
    const struct sl_flow_word *word = &line->words[index];

    for (size_t i = from; i < index; i++)
        if (sl_str_eq(line->words[i].name, word->name))
            return sl_flow_refuse(line, word->column, "%.*s is given twice",
                                  SL_STR_ARG(word->name));
    return 0;
}

/* "x8" */
static bool is_times(const struct sl_flow_word *word)
{
    return !word->quoted && !word->is_pair && word->text[0] == 'x' &&
           word->text[1] >= '0' && word->text[1] <= '9';
}

static int read_times(struct sl_flow_line *line,
                      const struct sl_flow_word *word, struct sl_inputs *in)
{
    uint64_t n = 0;
    int err = sl_parse_count(sl_str_c(word->text + 1), &n, line->diag);

    if (err) {
        line->diag->at++; /* the x */
        return sl_flow_value_refused(line, word, err);
    }
    sl_flow_line_at(line, word->column);
    if (n < 1 || n > SL_FLOW_TIMES)
        return sl_diag_error(line->diag, SLUICE_ECONF,
                             "a line can be repeated 1 to %d times, not %s",
                             SL_FLOW_TIMES, word->text + 1);
    if (in->times != 1)
        return sl_diag_error(line->diag, SLUICE_ECONF,
                             "the number of repeats is given twice");
    in->times = n;
    return 0;
}

/* header.NAME=VALUE */
static int read_header(struct sl_flow_line *line,
                       const struct sl_flow_word *word, struct sl_inputs *in)
{
    struct sluice_header header = {
        .name = sl_arena_copy(line->arena,
                              sl_str_from(word->name, strlen("header."))),
        .value = word->value};

    return header.name ? sl_inputs_header(in, &header, line->arena)
                       : SLUICE_ENOMEM;
}

static int refuse_input(struct sl_flow_line *line,
                        const struct sl_flow_word *word,
                        const struct sl_inputs *in)
{
    const char *names[24], *near;
    size_t count = 0;

    for (const struct sl_input_field *f = sl_input_fields; f->name; f++)
        if (!in->single || !f->flow_only)
            names[count++] = f->name;
    if (in->single)
        names[count++] = "at";
    near = sl_str_nearest(word->name, names, count);
    sl_flow_line_at(line, word->column);
    if (!word->is_pair)
        sl_diag_error(line->diag, SLUICE_ECONF,
                      "\"%s\" is not an input; write NAME=VALUE%s", word->text,
                      in->single ? "" : ", or x8 to repeat eight times");
    else
        sl_diag_error(
            line->diag, SLUICE_ECONF,
            "unknown input \"%.*s\"; valid are user, org, plan, role, "
            "ip, header.NAME, token, cost, cost.LIMIT, hold, body, "
            "idempotency_key and %s",
            SL_STR_ARG(word->name), in->single ? "at" : "every");
    if (near)
        sl_diag_hint(line->diag, "%s=%s", near, word->value);
    return SLUICE_ECONF;
}

/* cost=N or cost.LIMIT=N. There are never more costs than words. */
static int read_cost(struct sl_flow_line *line, const struct sl_flow_word *word,
                     struct sl_inputs *in)
{
    struct sl_str limit = sl_str_from(word->name, strlen("cost."));
    struct sluice_cost *costs = in->costs;
    uint64_t cost = 0;
    int err = sl_parse_count(sl_str_c(word->value), &cost, line->diag);

    if (err)
        return sl_flow_value_refused(line, word, err);
    if (limit.len == 0) {
        in->request.has_cost = true;
        in->request.cost = cost;
        return 0;
    }
    if (!costs)
        costs = sl_arena_take(line->arena, line->count * sizeof(*costs));
    if (!costs)
        return SLUICE_ENOMEM;
    in->request.costs = in->costs = costs;
    costs += in->request.cost_count++;
    *costs = (struct sluice_cost){.limit = sl_arena_copy(line->arena, limit),
                                  .cost = cost};
    return costs->limit ? 0 : SLUICE_ENOMEM;
}

/* every=1s or hold=30s */
static int read_span(struct sl_flow_line *line, const struct sl_flow_word *word,
                     sl_ns *ret, bool positive)
{
    int err = sl_parse_duration(sl_str_c(word->value), ret, line->diag);

    if (err)
        return sl_flow_value_refused(line, word, err);
    if (positive && *ret == 0)
        return sl_flow_refuse(
            line, word->value_column,
            "a hold needs a duration above 0; write one like hold=30s");
    return 0;
}

int sl_input_read(struct sl_flow_line *line, size_t index, struct sl_inputs *in)
{
    const struct sl_flow_word *word = &line->words[index];
    const struct sl_input_field *field = find_field(word->name);
    void *at = field ? (char *)in + field->offset : NULL;

    if (is_times(word))
        return read_times(line, word, in);
    if (!word->is_pair)
        return refuse_input(line, word, in);
    if (field && field->kind == SL_INPUT_HEADER)
        return read_header(line, word, in);
    if (sl_flow_word_once(line, 0, index))
        return SLUICE_ECONF;
    if (!field)
        return refuse_input(line, word, in);
    if (field->kind == SL_INPUT_COST)
        return read_cost(line, word, in);
    if (field->kind == SL_INPUT_SPAN)
        return read_span(line, word, at, at == (void *)&in->request.hold_ns);
    *(const char **)at = word->value;
    return 0;
}

/* ---- a line of a flow file as words ----
 *
 * The words of a line are written to one piece of memory. It is large enough:
 * unquoting only shortens, and the NUL after a word replaces a blank or the
 * line end.
 */

struct lexer {
    struct sl_flow_line *line;
    struct sl_str text;
    size_t at;
    char *out; /* the next byte to write */
};

struct sl_diag *sl_flow_line_at(struct sl_flow_line *line, unsigned column)
{
    line->diag->column = column;
    return line->diag;
}

int sl_flow_value_refused(struct sl_flow_line *line,
                          const struct sl_flow_word *word, int err)
{
    line->diag->column = word->value_column + (unsigned)line->diag->at;
    return err;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static char peek(const struct lexer *lex)
{
    return lex->at < lex->text.len ? lex->text.at[lex->at] : '\0';
}

static unsigned column(const struct lexer *lex)
{
    return (unsigned)lex->at + 1;
}

static bool word_ends(const struct lexer *lex)
{
    return lex->at == lex->text.len || is_blank(peek(lex));
}

static int refuse(struct lexer *lex, unsigned at, const char *sentence)
{
    return sl_flow_refuse(lex->line, at, "%s", sentence);
}

/* At the opening quote. */
static int read_quoted(struct lexer *lex)
{
    unsigned opened = column(lex);

    lex->at++;
    while (lex->at < lex->text.len && peek(lex) != '"') {
        if (peek(lex) == '\\') {
            lex->at++;
            if (peek(lex) != '"' && peek(lex) != '\\')
                return refuse(lex, column(lex) - 1,
                              "inside quotes, a backslash must be followed by "
                              "a quote or a backslash; write \\\\ for a "
                              "backslash");
        }
        *lex->out++ = lex->text.at[lex->at++];
    }
    if (lex->at == lex->text.len)
        return refuse(lex, opened, "the quote is not closed on this line");
    lex->at++;
    if (!word_ends(lex))
        return refuse(lex, column(lex),
                      "missing space after the closing quote");
    return 0;
}

/* A word that does not begin with a quote: up to a blank, or up to its first
 * `=` and a quoted value. */
static int read_plain(struct lexer *lex, struct sl_flow_word *word)
{
    while (!word_ends(lex)) {
        char c = peek(lex);
        bool first = c == '=' && !word->is_pair;

        if (c == '"')
            return refuse(lex, column(lex),
                          "quote in the middle of a word; quote the whole "
                          "value, and write \\\" for a quote in it");
        if (first)
            word->name.len = (size_t)(lex->out - word->text);
        *lex->out++ = c;
        lex->at++;
        if (first) {
            word->is_pair = true;
            word->value = lex->out;
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
        .name.at = lex->out,
        .value = "",
        .column = column(lex),
        .value_column = column(lex),
        .quoted = peek(lex) == '"',
    };
    err = word->quoted ? read_quoted(lex) : read_plain(lex, word);
    if (err)
        return err;
    if (!word->is_pair)
        word->name.len = (size_t)(lex->out - word->text);
    *lex->out++ = '\0';
    return 0;
}

static int check_line(struct sl_flow_line *line, struct sl_str text)
{
    const char *nul = text.len ? memchr(text.at, '\0', text.len) : NULL;

    if (text.len > SL_FLOW_LINE)
        return sl_flow_refuse(line, SL_FLOW_LINE + 1,
                              "the line is longer than %d bytes", SL_FLOW_LINE);
    if (nul)
        return sl_flow_refuse(line, (unsigned)(nul - text.at) + 1,
                              "NUL byte found; a flow file must be text");
    return 0;
}

int sl_flow_line_read(struct sl_flow_line *line, struct sl_str text)
{
    struct lexer lex = {.line = line, .text = text};
    int err = check_line(line, text);

    line->count = 0;
    if (err)
        return err;
    lex.out = sl_arena_take(line->arena, text.len + 2);
    if (!lex.out)
        return SLUICE_ENOMEM;
    for (;;) {
        while (lex.at < text.len && is_blank(peek(&lex)))
            lex.at++;
        if (lex.at == text.len || peek(&lex) == '#')
            return 0;
        if (line->count == SL_FLOW_WORDS)
            return sl_flow_refuse(line, column(&lex),
                                  "the line has more than %d words",
                                  SL_FLOW_WORDS);
        err = read_word(&lex, &line->words[line->count]);
        if (err)
            return err;
        line->count++;
    }
}

bool sl_flow_word_is(const struct sl_flow_word *word, const char *text)
{
    return !word->quoted && strcmp(word->text, text) == 0;
}

/* ---- the arguments of `subject`: plan=pro until=30d api=100/min
 * anchor=2026-01-17 zone=Europe/Berlin ---- */

/* A time, or a date, which is the end of that day. */
static int read_until(struct sl_flow_line *line,
                      const struct sl_flow_word *word,
                      struct sl_flow_subject_args *record)
{
    record->has_until = true;
    record->until_date = sl_day_read(sl_str_c(word->value), &record->last_day);
    return record->until_date
               ? 0
               : sl_moment_read(line, word, word->value, &record->until);
}

static int read_calendar(struct sl_flow_line *line,
                         const struct sl_flow_word *word, bool is_zone,
                         const char **ret)
{
    struct sl_anchor anchor;

    *ret = word->value;
    if (is_zone ? sl_zone_shared(sl_str_c(word->value), line->diag) == NULL
                : sl_anchor_parse(sl_str_c(word->value), &anchor, line->diag))
        return sl_flow_value_refused(line, word, SLUICE_ECONF);
    return 0;
}

/* Another pair: a limit and its rate. */
static int read_override(struct sl_flow_line *line,
                         const struct sl_flow_word *word,
                         struct sl_flow_subject_args *record)
{
    struct sluice_override *list = record->overrides;
    struct sl_rate rate;
    int err = sl_parse_rate(sl_str_c(word->value), &rate, line->diag);

    if (err)
        return sl_flow_value_refused(line, word, err);
    if (!list)
        list = sl_arena_take(line->arena, line->count * sizeof(*list));
    if (!list)
        return SLUICE_ENOMEM;
    record->overrides = list;
    list += record->override_count++;
    *list = (struct sluice_override){
        .limit = sl_arena_copy(line->arena, word->name), .rate = word->value};
    return list->limit ? 0 : SLUICE_ENOMEM;
}

/* Gives the act an empty record. NULL without memory. */
static struct sl_flow_subject_args *begin_record(struct sl_flow_line *line,
                                                 struct sl_flow_act *act)
{
    struct sl_flow_subject_args *record =
        sl_arena_take(line->arena, sizeof(*record));

    if (record)
        *record = (struct sl_flow_subject_args){.plan = NULL};
    act->record = record;
    return record;
}

int sl_flow_subject_read(struct sl_flow_line *line, size_t from,
                         struct sl_flow_act *act)
{
    struct sl_flow_subject_args *record = begin_record(line, act);
    int err = 0;

    if (!record)
        return SLUICE_ENOMEM;
    for (size_t i = from; i < line->count && !err; i++) {
        const struct sl_flow_word *word = &line->words[i];

        err = sl_flow_word_once(line, from, i);
        if (err)
            return err;
        if (!word->is_pair || word->name.len == 0)
            return sl_flow_refuse(line, word->column,
                                  "\"%s\" is not a setting of a subject; write "
                                  "plan=NAME, until=TIME, anchor=DATE, "
                                  "zone=ZONE or LIMIT=RATE",
                                  word->text);
        if (sl_str_eq(word->name, SL_STR("plan"))) {
            record->plan = word->value;
        } else if (sl_str_eq(word->name, SL_STR("until"))) {
            err = read_until(line, word, record);
        } else if (sl_str_eq(word->name, SL_STR("anchor"))) {
            err = read_calendar(line, word, false, &record->anchor);
        } else if (sl_str_eq(word->name, SL_STR("zone"))) {
            err = read_calendar(line, word, true, &record->zone);
        } else {
            err = read_override(line, word, record);
        }
    }
    return err;
}

/* ---- the arguments of `block`: until=2h note=scraping ---- */

int sl_flow_block_read(struct sl_flow_line *line, size_t from,
                       struct sl_flow_act *act)
{
    struct sl_flow_subject_args *record = begin_record(line, act);
    int err = 0;

    if (!record)
        return SLUICE_ENOMEM;
    for (size_t i = from; i < line->count && !err; i++) {
        const struct sl_flow_word *word = &line->words[i];

        err = sl_flow_word_once(line, from, i);
        if (err)
            return err;
        if (word->is_pair && sl_str_eq(word->name, SL_STR("note"))) {
            record->note = word->value;
        } else if (word->is_pair && sl_str_eq(word->name, SL_STR("until"))) {
            err = read_until(line, word, record);
        } else {
            return sl_flow_refuse(line, word->column,
                                  "\"%s\" is not a setting of a block; write "
                                  "until=TIME or note=TEXT",
                                  word->text);
        }
    }
    return err;
}
