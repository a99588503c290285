/* record.c -- what the registry is told: plan=pro until=30d api=100/min. */
#include "base/parse.h"
#include "cli/flow/words.h"

/* A pair that is neither plan nor until: a limit and its rate. */
static int read_override(const struct sl_words *words, size_t index,
                         struct sl_arena *arena, struct sl_record *record,
                         struct sl_diag *diag)
{
    const struct sl_word *word = &words->at[index];
    struct sl_rate rate;
    const char *limit;
    int err = sl_parse_rate(sl_str_c(sl_word_value(word)), &rate, diag);

    if (err)
        return sl_value_refused(diag, word, err);
    if (!record->overrides)
        record->overrides =
            sl_arena_take(arena, words->count * sizeof(*record->overrides));
    limit = sl_arena_copy(arena, sl_word_name(word));
    if (!record->overrides || !limit)
        return SLUICE_ENOMEM;
    record->overrides[record->override_count++] =
        (struct sluice_override){.limit = limit, .rate = sl_word_value(word)};
    return 0;
}

static int read_pair(const struct sl_words *words, size_t index,
                     struct sl_arena *arena, struct sl_record *record,
                     struct sl_diag *diag)
{
    const struct sl_word *word = &words->at[index];
    struct sl_str name = sl_word_name(word);

    if (word->equals == SL_NO_EQUALS || name.len == 0)
        return sl_refuse(sl_diag_at(diag, word->column), SLUICE_ECONF,
                         "\"%s\" is not a setting of a subject; write "
                         "plan=NAME, until=TIME or LIMIT=RATE",
                         word->text);
    if (sl_str_eq(name, SL_STR("plan"))) {
        record->plan = sl_word_value(word);
        return 0;
    }
    if (sl_str_eq(name, SL_STR("until"))) {
        record->has_until = true;
        return sl_moment_read(sl_word_value(word), word, &record->until, diag);
    }
    return read_override(words, index, arena, record, diag);
}

int sl_record_read(const struct sl_words *words, size_t from,
                   struct sl_arena *arena, struct sl_act *act,
                   struct sl_diag *diag)
{
    struct sl_record *record = sl_arena_take(arena, sizeof(*record));
    int err = 0;

    if (!record)
        return SLUICE_ENOMEM;
    *record = (struct sl_record){.plan = NULL};
    for (size_t i = from; i < words->count && !err; i++) {
        err = sl_word_once(words, from, i, diag);
        if (!err)
            err = read_pair(words, i, arena, record, diag);
    }
    act->record = record;
    return err;
}
