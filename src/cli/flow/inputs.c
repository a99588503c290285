/* inputs.c -- what an act brings along: user=ann plan=free cost=3 x8 every=1s.
 */
#include <string.h>

#include "base/instant.h"
#include "base/parse.h"
#include "cli/flow/words.h"

static const char *const names[] = {
    "user",        "org",
    "plan",        "role",
    "ip",          "token",
    "hold",        "as",
    "cost",        "every",
    "header.NAME", "cost.LIMIT",
    "body",        "idempotency_key",
};

/* Of a question that is asked once. */
static const char *const single_names[] = {
    "user",
    "org",
    "plan",
    "role",
    "ip",
    "at",
    "cost",
    "header.NAME",
    "cost.LIMIT",
    "token",
    "hold",
    "body",
    "idempotency_key",
};

int sl_moment_read(const char *text, const struct sl_word *word,
                   struct sl_moment *ret, struct sl_diag *diag)
{
    struct sl_str rest = sl_str_c(text);
    struct sl_moment moment = {.relative = text[0] == '+'};
    bool date = strlen(text) > 4 && text[4] == '-';
    int err;

    if (moment.relative)
        rest = sl_str_from(rest, 1);
    if (date)
        err = sl_instant_parse(rest, &moment.at, diag);
    else
        err = sl_parse_duration(rest, &moment.at, diag);
    if (err)
        return sl_value_refused(diag, word, err);
    if (moment.at >= SL_TIME_END)
        return sl_refuse(sl_diag_at(diag, word->value_column), SLUICE_ECONF,
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
    size_t count = in->header_count;
    struct sluice_header *list =
        sl_arena_take(arena, (count + 1) * sizeof(*list));

    if (!list)
        return SLUICE_ENOMEM;
    if (count > 0)
        memcpy(list, in->headers, count * sizeof(*list));
    list[count] = *header;
    in->headers = list;
    in->header_count = count + 1;
    return 0;
}

bool sl_word_under(struct sl_str name, const char *prefix)
{
    size_t len = strlen(prefix);

    return name.len > len && memcmp(name.at, prefix, len) == 0;
}

int sl_word_once(const struct sl_words *words, size_t from, size_t index,
                 struct sl_diag *diag)
{
    const struct sl_word *word = &words->at[index];
    struct sl_str name = sl_word_name(word);

    for (size_t i = from; i < index; i++)
        if (sl_str_eq(sl_word_name(&words->at[i]), name))
            return sl_refuse(sl_diag_at(diag, word->column), SLUICE_ECONF,
                             "%.*s is given twice", SL_STR_ARG(name));
    return 0;
}

/* "x8" */
static bool is_times(const struct sl_word *word)
{
    return !word->quoted && word->equals == SL_NO_EQUALS &&
           word->text[0] == 'x' && word->text[1] >= '0' && word->text[1] <= '9';
}

static int read_times(const struct sl_word *word, struct sl_inputs *in,
                      struct sl_diag *diag)
{
    struct sl_str digits = sl_str_c(word->text + 1);
    uint64_t n = 0;
    int err = sl_parse_count(digits, &n, diag);

    if (err && diag)
        diag->at++; /* the x */
    if (err)
        return sl_value_refused(diag, word, err);
    if (n < 1 || n > SL_FLOW_TIMES)
        return sl_refuse(sl_diag_at(diag, word->column), SLUICE_ECONF,
                         "a line can be repeated 1 to %d times, not %s",
                         SL_FLOW_TIMES, word->text + 1);
    if (in->times != 1)
        return sl_refuse(sl_diag_at(diag, word->column), SLUICE_ECONF,
                         "the number of repeats is given twice");
    in->times = n;
    return 0;
}

/* Room for as many as there are words is enough. */
static int add_header(const struct sl_words *words, const char *name,
                      const char *value, struct sl_arena *arena,
                      struct sl_inputs *in)
{
    if (!in->headers)
        in->headers = sl_arena_take(arena, words->count * sizeof(*in->headers));
    if (!in->headers)
        return SLUICE_ENOMEM;
    in->headers[in->header_count++] =
        (struct sluice_header){.name = name, .value = value};
    return 0;
}

static int add_cost(const struct sl_words *words, const char *limit,
                    uint64_t cost, struct sl_arena *arena, struct sl_inputs *in)
{
    if (!in->costs)
        in->costs = sl_arena_take(arena, words->count * sizeof(*in->costs));
    if (!in->costs)
        return SLUICE_ENOMEM;
    in->costs[in->cost_count++] =
        (struct sluice_cost){.limit = limit, .cost = cost};
    return 0;
}

/* An input that is a plain text, kept as it is; false if it is none. */
static bool take_text(struct sl_inputs *in, struct sl_str name,
                      const char *value)
{
    const struct {
        const char *name;
        const char **slot;
    } slots[] = {
        {"user",            &in->user           },
        {"org",             &in->org            },
        {"plan",            &in->plan           },
        {"role",            &in->role           },
        {"ip",              &in->ip             },
        {"token",           &in->token          },
        {"as",              &in->as             },
        {"body",            &in->body           },
        {"idempotency_key", &in->idempotency_key},
    };

    for (size_t i = 0; i < SL_LEN(slots); i++)
        if (sl_str_eq(name, sl_str_c(slots[i].name))) {
            *slots[i].slot = value;
            return true;
        }
    return false;
}

static int refuse_input(const struct sl_word *word, const struct sl_inputs *in,
                        struct sl_diag *diag)
{
    struct sl_str name = sl_word_name(word);
    const char *near =
        in->single ? sl_str_nearest(name, single_names, SL_LEN(single_names))
                   : sl_str_nearest(name, names, SL_LEN(names));

    sl_diag_at(diag, word->column);
    if (word->equals == SL_NO_EQUALS)
        sl_refuse(diag, SLUICE_ECONF,
                  "\"%s\" is not an input; write NAME=VALUE%s", word->text,
                  in->single ? "" : ", or x8 to repeat eight times");
    else
        sl_refuse(diag, SLUICE_ECONF,
                  "unknown input \"%.*s\"; valid are user, org, plan, role, "
                  "ip, header.NAME, token, cost, cost.LIMIT, hold, body, "
                  "idempotency_key and %s",
                  SL_STR_ARG(name), in->single ? "at" : "every");
    if (near)
        sl_hint(diag, "%s=%s", near, sl_word_value(word));
    return SLUICE_ECONF;
}

static int read_cost(const struct sl_words *words, const struct sl_word *word,
                     struct sl_arena *arena, struct sl_inputs *in,
                     struct sl_diag *diag)
{
    struct sl_str name = sl_word_name(word);
    struct sl_str limit = sl_str_from(name, strlen("cost."));
    const char *copy;
    uint64_t cost = 0;
    int err = sl_parse_count(sl_str_c(sl_word_value(word)), &cost, diag);

    if (err)
        return sl_value_refused(diag, word, err);
    if (limit.len > 0) {
        copy = sl_arena_copy(arena, limit);
        return copy ? add_cost(words, copy, cost, arena, in) : SLUICE_ENOMEM;
    }
    in->has_cost = true;
    in->cost = cost;
    return 0;
}

static int read_every(const struct sl_word *word, struct sl_inputs *in,
                      struct sl_diag *diag)
{
    int err =
        sl_parse_duration(sl_str_c(sl_word_value(word)), &in->every, diag);

    return err ? sl_value_refused(diag, word, err) : 0;
}

static int read_hold(const struct sl_word *word, struct sl_inputs *in,
                     struct sl_diag *diag)
{
    int err = sl_parse_duration(sl_str_c(sl_word_value(word)), &in->hold, diag);

    if (err)
        return sl_value_refused(diag, word, err);
    if (in->hold == 0)
        return sl_refuse(
            sl_diag_at(diag, word->value_column), SLUICE_ECONF,
            "a hold needs a duration above 0; write one like hold=30s");
    return 0;
}

int sl_input_read(const struct sl_words *words, size_t index,
                  struct sl_arena *arena, struct sl_inputs *in,
                  struct sl_diag *diag)
{
    const struct sl_word *word = &words->at[index];
    struct sl_str name = sl_word_name(word);
    const char *copy;

    if (is_times(word))
        return read_times(word, in, diag);
    if (word->equals == SL_NO_EQUALS)
        return refuse_input(word, in, diag);
    if (sl_word_under(name, "header.")) {
        copy = sl_arena_copy(arena, sl_str_from(name, strlen("header.")));
        if (!copy)
            return SLUICE_ENOMEM;
        return add_header(words, copy, sl_word_value(word), arena, in);
    }
    if (sl_word_once(words, 0, index, diag))
        return SLUICE_ECONF;
    if (take_text(in, name, sl_word_value(word)))
        return 0;
    if (sl_str_eq(name, SL_STR("cost")) || sl_word_under(name, "cost."))
        return read_cost(words, word, arena, in, diag);
    if (sl_str_eq(name, SL_STR("every")))
        return read_every(word, in, diag);
    if (sl_str_eq(name, SL_STR("hold")))
        return read_hold(word, in, diag);
    return refuse_input(word, in, diag);
}
