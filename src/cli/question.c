/* question.c -- what is asked for, in the words of a command line. */
#include "cli/question.h"

#include <string.h>

#include "cli/flow/words.h"

#define ARENA_BYTES (1024 * 1024)

/* The next argument as a word; blanks in it are its own. */
static bool add_word(struct sl_question *q, const char *text)
{
    const char *equals = strchr(text, '=');

    if (q->words.count == SL_FLOW_WORDS)
        return false;
    q->words.at[q->words.count++] = (struct sl_word){
        .text = text,
        .len = strlen(text),
        .equals = equals ? (size_t)(equals - text) : SL_NO_EQUALS,
        .column = 1,
        .value_column = 1,
    };
    return true;
}

/* 'GET /path' is two words, and so may be GET /path. Only the first argument
 * is taken apart: values may have blanks. */
static bool take_apart(struct sl_question *q, char *text)
{
    char *at = text;

    for (;;) {
        char *end;

        at += strspn(at, " \t");
        if (!*at)
            return q->words.count > 0;
        end = at + strcspn(at, " \t");
        if (!*end)
            return add_word(q, at);
        *end = '\0';
        if (!add_word(q, at))
            return false;
        at = end + 1;
    }
}

/* How many words name what is asked for. */
static size_t name_count(const struct sl_question *q)
{
    const char *first = q->words.at[0].text;

    if (first[0] == '/') /* a path alone is a GET */
        return 1;
    return strcmp(first, "take") == 0 ? 3 : 2;
}

/* LIMIT KEY, where nobody could mean METHOD /PATH by it. */
static bool is_limit(const struct sl_question *q)
{
    const char *second = q->words.at[1].text;

    return q->bare_limits && second[0] != '/' && !strstr(second, "://");
}

static int read_names(struct sl_call *call, struct sl_question *q)
{
    const char *first = q->words.at[0].text;
    size_t count = name_count(q);

    if (q->words.count < count)
        return sl_complain(
            call, SL_EXIT_USAGE,
            "\"%s\" is not a request; write 'GET /path', 'job NAME' or %s",
            first, q->bare_limits ? "LIMIT KEY" : "'take LIMIT KEY'");
    if (count == 1) {
        q->act.kind = SL_ACT_REQUEST;
        q->act.names[0] = "GET";
        q->act.names[1] = first;
    } else if (strcmp(first, "job") == 0) {
        q->act.kind = SL_ACT_JOB;
        q->act.names[0] = q->words.at[1].text;
    } else if (strcmp(first, "take") == 0) {
        q->act.kind = SL_ACT_TAKE;
        q->act.names[0] = q->words.at[1].text;
        q->act.names[1] = q->words.at[2].text;
    } else if (is_limit(q)) {
        q->act.kind = SL_ACT_TAKE;
        q->act.names[0] = first;
        q->act.names[1] = q->words.at[1].text;
    } else {
        q->act.kind = SL_ACT_REQUEST;
        q->act.names[0] = first;
        q->act.names[1] = q->words.at[1].text;
    }
    return 0;
}

static int refuse(struct sl_call *call, const struct sl_diag *diag)
{
    if (diag->hint[0])
        return sl_complain(call, SL_EXIT_USAGE, "%s; write: %s", diag->sentence,
                           diag->hint);
    return sl_complain(call, SL_EXIT_USAGE, "%s",
                       diag->sentence[0] ? diag->sentence : "out of memory");
}

static int read_at(const struct sl_word *word, struct sl_question *q,
                   struct sl_diag *diag)
{
    struct sl_moment moment;
    int err = sl_moment_read(sl_word_value(word), word, &moment, diag);

    if (err)
        return err;
    q->now = moment.at + (moment.relative ? q->now : 0);
    if (q->now >= SL_TIME_END)
        return sl_refuse(diag, SLUICE_ECONF, "at= is after the year 2115");
    return 0;
}

/* What has no meaning for a single question. */
static const char *pointless(const struct sl_question *q)
{
    const struct sl_inputs *in = &q->in;

    return in->times > 1                  ? "xN"
           : in->every                    ? "every="
           : in->hold && !q->takes_hold   ? "hold="
           : in->as                       ? "as="
           : in->token && !q->takes_token ? "token="
                                          : NULL;
}

static int read_inputs(struct sl_call *call, struct sl_question *q)
{
    struct sl_diag diag = {.line = 0};
    int err = 0;

    for (size_t i = name_count(q); i < q->words.count && !err; i++) {
        const struct sl_word *word = &q->words.at[i];

        if (sl_str_eq(sl_word_name(word), SL_STR("at")))
            err = read_at(word, q, &diag);
        else
            err = sl_input_read(&q->words, i, &q->arena, &q->in, &diag);
    }
    if (err)
        return refuse(call, &diag);
    if (pointless(q))
        return sl_complain(call, SL_EXIT_USAGE, "%s cannot be used with %s",
                           pointless(q), call->errand->name);
    return 0;
}

int sl_question_read(struct sl_call *call, size_t from, struct sl_question *q)
{
    bool fits = take_apart(q, call->words[from]);
    int status;

    for (size_t i = from + 1; fits && i < call->word_count; i++)
        fits = add_word(q, call->words[i]);
    if (!fits)
        return sl_complain(call, SL_EXIT_USAGE,
                           q->words.count
                               ? "too many arguments"
                               : "missing request; write 'GET /path'");
    status = read_names(call, q);
    return status ? status : read_inputs(call, q);
}

void sl_question_init(struct sl_question *q, sl_ns now)
{
    *q = (struct sl_question){.now = now};
    q->act.in = &q->in;
    sl_inputs_init(&q->in);
    q->in.single = true;
    sl_arena_init(&q->arena, ARENA_BYTES, &sl_alloc_libc);
}

void sl_question_done(struct sl_question *q)
{
    sl_arena_done(&q->arena);
}
