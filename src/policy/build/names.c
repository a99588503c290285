/* names.c -- names in order, and what they stand for. */
#include "policy/build/names.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define FEW 8

bool sl_names_init(struct sl_names *names, unsigned room, bool nocase,
                   struct sl_arena *arena)
{
    struct sl_name *list = sl_arena_take(arena, room * sizeof(*list));
    const char **words = sl_arena_take(arena, room * sizeof(*words));

    if (!list || !words)
        return false;
    *names = (struct sl_names){
        .list = list, .words = words, .room = room, .nocase = nocase};
    return true;
}

void sl_names_add(struct sl_names *names, struct sl_str name, unsigned index,
                  struct sl_source_pos place)
{
    if (names->count == names->room)
        return;
    names->words[names->count] = name.at;
    names->list[names->count++] = (struct sl_name){name, index, place};
}

static unsigned char lower(char c)
{
    return (unsigned char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
}

/* Not strcasecmp(): that one follows the locale. */
static int compare(struct sl_str a, struct sl_str b, bool nocase)
{
    size_t len = a.len < b.len ? a.len : b.len;

    for (size_t i = 0; i < len; i++) {
        unsigned char x = nocase ? lower(a.at[i]) : (unsigned char)a.at[i];
        unsigned char y = nocase ? lower(b.at[i]) : (unsigned char)b.at[i];

        if (x != y)
            return x < y ? -1 : 1;
    }
    return (a.len > b.len) - (a.len < b.len);
}

static int by_place(const struct sl_name *a, const struct sl_name *b)
{
    if (a->place.line != b->place.line)
        return a->place.line < b->place.line ? -1 : 1;
    return (a->place.column > b->place.column) -
           (a->place.column < b->place.column);
}

static int in_order(const void *left, const void *right)
{
    const struct sl_name *a = left, *b = right;
    int order = compare(a->name, b->name, false);

    return order ? order : by_place(a, b);
}

static int in_order_nocase(const void *left, const void *right)
{
    const struct sl_name *a = left, *b = right;
    int order = compare(a->name, b->name, true);

    return order ? order : by_place(a, b);
}

void sl_names_close(struct sl_names *names)
{
    if (names->count > 0)
        qsort(names->list, names->count, sizeof(*names->list),
              names->nocase ? in_order_nocase : in_order);
}

/* A handful is looked through: nearly all differ in length already. */
static int find_among_few(const struct sl_names *names, struct sl_str name)
{
    for (unsigned i = 0; i < names->count; i++)
        if (names->nocase ? sl_str_eq_nocase(names->list[i].name, name)
                          : sl_str_eq(names->list[i].name, name))
            return (int)names->list[i].index;
    return -1;
}

int sl_names_find(const struct sl_names *names, struct sl_str name)
{
    unsigned low = 0, high = names->count;

    if (names->count <= FEW)
        return find_among_few(names, name);
    while (low < high) {
        unsigned mid = low + (high - low) / 2;

        if (compare(names->list[mid].name, name, names->nocase) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    if (low < names->count &&
        compare(names->list[low].name, name, names->nocase) == 0)
        return (int)names->list[low].index;
    return -1;
}

bool sl_names_again(const struct sl_names *names, unsigned i)
{
    return i > 0 && compare(names->list[i - 1].name, names->list[i].name,
                            names->nocase) == 0;
}

const char *sl_names_nearest(const struct sl_names *names, struct sl_str typo)
{
    return sl_str_nearest(typo, names->words, names->count);
}
