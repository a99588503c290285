/* expect.c -- what stands behind the arrow: 429 by=ai-minute retry=12s.
 *
 * How a value is read depends on its field: a text is kept as it is, numbers
 * and spans are parsed, and of those that may be missing from an answer `none`
 * says so.
 */
#include <string.h>

#include "base/parse.h"
#include "cli/flow/words.h"

enum form { TEXT, NUMBER, SPAN };

static const struct field {
    const char *name;
    enum sl_field field;
    enum form form;
    bool may_be_none;
} fields[] = {
    {"by",        SL_FIELD_BY,        TEXT,   true },
    {"limit",     SL_FIELD_LIMIT,     NUMBER, true },
    {"remaining", SL_FIELD_REMAINING, NUMBER, true },
    {"retry",     SL_FIELD_RETRY,     SPAN,   true },
    {"reset",     SL_FIELD_RESET,     SPAN,   true },
    {"wait",      SL_FIELD_WAIT,      SPAN,   true },
    {"quota",     SL_FIELD_QUOTA,     NUMBER, true },
    {"allowed",   SL_FIELD_ALLOWED,   NUMBER, false},
    {"denied",    SL_FIELD_DENIED,    NUMBER, false},
};

/* For suggestions. */
static const char *const names[] = {
    "by",    "limit",   "remaining", "retry",       "reset",      "wait",
    "quota", "allowed", "denied",    "header.NAME", "body.FIELD",
};

static const char *const outcomes[] = {"allow",    "deny",    "never",
                                       "ok",       "held",    "settled",
                                       "released", "expired", "unknown"};

static const struct field *find_field(struct sl_str name)
{
    for (size_t i = 0; i < SL_LEN(fields); i++)
        if (sl_str_eq(name, sl_str_c(fields[i].name)))
            return &fields[i];
    return NULL;
}

static int refuse_field(const struct sl_word *word, struct sl_diag *diag)
{
    struct sl_str name = sl_word_name(word);
    const char *near = sl_str_nearest(name, names, SL_LEN(names));

    sl_refuse(
        sl_diag_at(diag, word->column), SLUICE_ECONF,
        "unknown expectation \"%.*s\"; valid are by, limit, remaining, retry, "
        "reset, wait, quota, allowed, denied, header.NAME and body.FIELD",
        SL_STR_ARG(name));
    if (near)
        sl_hint(diag, "%s=%s", near, sl_word_value(word));
    return SLUICE_ECONF;
}

static int refuse_outcome(const struct sl_word *word, size_t nth,
                          struct sl_diag *diag)
{
    struct sl_str text = sl_str_c(word->text);
    const char *near = sl_str_nearest(text, outcomes, SL_LEN(outcomes));

    sl_diag_at(diag, word->column);
    if (nth > 0)
        return sl_refuse(diag, SLUICE_ECONF,
                         "\"%s\" is not an expectation; write a status or a "
                         "word first, then NAME=VALUE",
                         word->text);
    sl_refuse(diag, SLUICE_ECONF,
              "\"%s\" is not an expectation; write a status, allow, deny, "
              "never, ok or NAME=VALUE",
              word->text);
    if (near)
        sl_hint(diag, "%s", near);
    return SLUICE_ECONF;
}

/* "429", or one of the words. */
static int read_outcome(const struct sl_word *word, size_t nth,
                        struct sl_expect *ret, struct sl_diag *diag)
{
    uint64_t status = 0;
    bool number = sl_parse_number(sl_str_c(word->text), &status, NULL) == 0;

    *ret = (struct sl_expect){
        .field = number ? SL_FIELD_STATUS : SL_FIELD_OUTCOME,
        .label = "",
        .want = word->text,
        .number = status,
    };
    if (nth > 0)
        return refuse_outcome(word, nth, diag);
    if (number && (status < 100 || status > 599))
        return sl_refuse(sl_diag_at(diag, word->column), SLUICE_ECONF,
                         "%s is not an HTTP status; write 100 to 599",
                         word->text);
    if (number)
        return 0;
    for (size_t i = 0; i < SL_LEN(outcomes); i++)
        if (sl_word_is(word, outcomes[i]))
            return 0;
    return refuse_outcome(word, nth, diag);
}

static int read_value(const struct field *field, const struct sl_word *word,
                      struct sl_expect *expect, struct sl_diag *diag)
{
    struct sl_str value = sl_str_c(expect->want);
    int err = 0;

    expect->none = field->may_be_none && sl_str_eq(value, SL_STR("none"));
    if (expect->none)
        return 0;
    if (field->form == NUMBER)
        err = sl_parse_count(value, &expect->number, diag);
    if (field->form == SPAN)
        err = sl_parse_duration(value, &expect->span, diag);
    return err ? sl_value_refused(diag, word, err) : 0;
}

static int read_pair(const struct sl_word *word, struct sl_arena *arena,
                     struct sl_expect *ret, struct sl_diag *diag)
{
    struct sl_str name = sl_word_name(word);
    const struct field *field = find_field(name);
    bool header = sl_word_under(name, "header.");
    bool body = sl_word_under(name, "body.");

    *ret = (struct sl_expect){.want = sl_word_value(word)};
    ret->label = sl_arena_copy(arena, name);
    if (!ret->label)
        return SLUICE_ENOMEM;
    if (header || body) {
        ret->field = header ? SL_FIELD_HEADER : SL_FIELD_BODY;
        ret->name = strchr(ret->label, '.') + 1;
        return 0;
    }
    if (!field)
        return refuse_field(word, diag);
    ret->field = field->field;
    return read_value(field, word, ret, diag);
}

int sl_expects_read(const struct sl_words *words, size_t from,
                    struct sl_arena *arena, struct sl_act *act,
                    struct sl_diag *diag)
{
    size_t count = words->count - from;
    int err = 0;

    act->expects = sl_arena_take(arena, count * sizeof(*act->expects));
    if (!act->expects)
        return SLUICE_ENOMEM;
    for (size_t i = 0; i < count && !err; i++) {
        const struct sl_word *word = &words->at[from + i];

        if (word->equals == SL_NO_EQUALS)
            err = read_outcome(word, i, &act->expects[i], diag);
        else
            err = read_pair(word, arena, &act->expects[i], diag);
        if (!err)
            err = sl_word_once(words, from, from + i, diag);
    }
    act->expect_count = count;
    return err;
}
