/* schema_table.c -- the rows of schema.def, and how to find them. */
#include "policy/schema.h"

#include <string.h>

const struct sl_schema_kind sl_schema_kinds[SL_TYPES] = {
#define TYPE(id, name, must, each, pattern, meaning)                           \
    [SL_TYPE_##id] = {name, must, each, pattern, meaning},
#include "policy/schema.def"
};

const struct sl_schema_part sl_schema_parts[SL_LEVELS] = {
#define LEVEL(id, word, label, title, meaning)                                 \
    [SL_LEVEL_##id] = {word, label, title, meaning},
#include "policy/schema.def"
};

/* Those without a level below have SL_LEVELS there. */
#define ROW(level, name, type, words, below, when, meaning, example)           \
    {SL_LEVEL_##level, name,    SL_TYPE_##type, words, below,                  \
     SL_WHEN_##when,   meaning, example},

const struct sl_schema_key sl_schema_keys[] = {
#define KEY(level, name, type, when, meaning, example)                         \
    ROW(level, name, type, "", SL_LEVELS, when, meaning, example)
#define WORD(level, name, type, words, when, meaning, example)                 \
    ROW(level, name, type, words, SL_LEVELS, when, meaning, example)
#define BELOW(level, name, type, below, when, meaning, example)                \
    ROW(level, name, type, "", SL_LEVEL_##below, when, meaning, example)
#include "policy/schema.def"
};

const unsigned sl_schema_key_count = SL_LEN(sl_schema_keys);

const struct sl_schema_key *sl_schema_next(enum sl_schema_level level,
                                           const struct sl_schema_key *row)
{
    const struct sl_schema_key *end = sl_schema_keys + sl_schema_key_count;

    for (row = row ? row + 1 : sl_schema_keys; row < end; row++)
        if (row->level == level)
            return row;
    return NULL;
}

const struct sl_schema_key *sl_schema_any(enum sl_schema_level level)
{
    const struct sl_schema_key *row = NULL;

    while ((row = sl_schema_next(level, row)))
        if (!strcmp(row->name, "*"))
            return row;
    return NULL;
}

const struct sl_schema_key *sl_schema_find(enum sl_schema_level level,
                                           struct sl_str name)
{
    const struct sl_schema_key *row = NULL;

    while ((row = sl_schema_next(level, row)))
        if (sl_str_eq(name, sl_str_c(row->name)) && strcmp(row->name, "*") != 0)
            return row;
    return NULL;
}

struct sl_str sl_schema_word(const char **rest)
{
    const char *from = *rest + strspn(*rest, " ");
    size_t len = strcspn(from, " ");

    *rest = from + len;
    return (struct sl_str){from, len};
}

bool sl_schema_has_word(const struct sl_schema_key *row, struct sl_str word)
{
    const char *rest = row->words;
    struct sl_str next;

    while ((next = sl_schema_word(&rest)).len > 0)
        if (sl_str_eq(next, word))
            return true;
    return false;
}

const char *sl_schema_near_word(const struct sl_schema_key *row,
                                struct sl_str typo, struct sl_schema_room *room)
{
    struct sl_schema_room words[16];
    const char *list[SL_LEN(words)], *rest = row->words, *meant;
    size_t count = 0;
    struct sl_str next;

    while (count < SL_LEN(words) && (next = sl_schema_word(&rest)).len > 0) {
        size_t len = next.len < sizeof(room->text) ? next.len : 0;

        memcpy(words[count].text, next.at, len);
        words[count].text[len] = '\0';
        list[count] = words[count].text;
        count++;
    }
    meant = sl_str_nearest(typo, list, count);
    if (!meant)
        return NULL;
    memcpy(room->text, meant, strlen(meant) + 1);
    return room->text;
}

const char *sl_schema_near_key(enum sl_schema_level level, struct sl_str typo)
{
    const struct sl_schema_key *row = NULL;
    const char *list[32];
    size_t count = 0;

    while (count < SL_LEN(list) && (row = sl_schema_next(level, row)))
        if (strcmp(row->name, "*") != 0 && row->when != SL_WHEN_LATER)
            list[count++] = row->name;
    return sl_str_nearest(typo, list, count);
}

void sl_schema_list_add(struct sl_schema_list *list, struct sl_str word,
                        bool last)
{
    size_t len = strlen(list->text);
    const char *glue = len == 0 ? "" : last ? " or " : ", ";

    if (len + strlen(glue) + word.len + 1 > sizeof(list->text))
        return;
    memcpy(list->text + len, glue, strlen(glue));
    len += strlen(glue);
    memcpy(list->text + len, word.at, word.len);
    list->text[len + word.len] = '\0';
}
