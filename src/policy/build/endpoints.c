/* endpoints.c -- what an endpoint is called that nobody named.
 *
 *     /api/v1/ai/(2 stars)   api-v1-ai
 *     /api/items/:id         api-items-_id
 *     /api/items/id          api-items-id
 *     /api-items/id          api-items-id-2, since there is one by that name
 *
 * A limit `per: endpoint` keeps a state for each name, so two things must not
 * have one name. But GET /items and POST /items are one thing, asked for in
 * two ways.
 */
#include "policy/policy_int.h"

#include <stdio.h>
#include <string.h>

static bool is_plain(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c >= '0' && c <= '9') || c == '_' || c == '.';
}

/* Append the word to `out`, what may not be in a name as single '-'. */
static size_t add_word(char out[SL_NAME_MAX], size_t len, struct sl_str word)
{
    bool dash = len > 0;

    for (size_t i = 0; i < word.len && len < SL_NAME_MAX; i++) {
        bool plain = is_plain(word.at[i]);

        if (len == 0 && (!plain || word.at[i] == '_' || word.at[i] == '.'))
            continue; /* names don't begin with these */
        if (plain && dash && len + 1 < SL_NAME_MAX)
            out[len++] = '-';
        if (plain)
            out[len++] = word.at[i];
        dash = !plain && len > 0;
    }
    return len;
}

struct sl_str sl_build_name_of(struct sl_build *b, struct sl_str text)
{
    char name[SL_NAME_MAX];
    size_t len = add_word(name, 0, text);

    return len > 0 ? sl_build_keep(b, (struct sl_str){name, len})
                   : SL_STR("all");
}

/* Append what stands for any one segment: '_' and its name. */
static size_t add_one(char out[SL_NAME_MAX], size_t len, struct sl_str name)
{
    if (len == 0) { /* names don't begin with '_' */
        for (const char *c = "any"; *c; c++)
            out[len++] = *c;
    } else if (len < SL_NAME_MAX) {
        out[len++] = '-';
    }
    if (len < SL_NAME_MAX)
        out[len++] = '_';
    for (size_t i = 0; i < name.len && len < SL_NAME_MAX; i++)
        out[len++] = (char)(is_plain(name.at[i]) ? name.at[i] : '_');
    return len;
}

struct sl_str sl_build_endpoint(struct sl_build *b,
                                const struct sl_pattern *pattern)
{
    char name[SL_NAME_MAX];
    size_t len = 0;

    for (unsigned i = 0; i < pattern->count; i++) {
        const struct sl_segment *segment = &pattern->segments[i];

        if (segment->kind == SL_SEGMENT_WORD)
            len = add_word(name, len, segment->word);
        else if (segment->kind == SL_SEGMENT_ONE)
            len = add_one(name, len, segment->word);
    }
    if (len == 0)
        return pattern->count ? SL_STR("all") : SL_STR("root");
    return sl_build_keep(b, (struct sl_str){name, len});
}

/* ---- names that two have ---- */

static unsigned count_without_rest(const struct sl_pattern *pattern)
{
    unsigned count = pattern->count;

    return count && pattern->segments[count - 1].kind == SL_SEGMENT_REST
               ? count - 1
               : count;
}

/* Is it one thing? GET /items and all below, and POST /items, are. */
static bool is_same(const struct sl_pattern *a, const struct sl_pattern *b)
{
    unsigned count = count_without_rest(a);

    if (count != count_without_rest(b) ||
        (a->count != b->count && a->methods == b->methods))
        return false;
    for (unsigned i = 0; i < count; i++)
        if (a->segments[i].kind != b->segments[i].kind ||
            !sl_str_eq_nocase(a->segments[i].word, b->segments[i].word))
            return false;
    return true;
}

/* The name with a number behind it: one that something has which is the same,
 * or one above *last that is free. Where the name must be cut for that, what is
 * left may be another's too, and the number is that of the route. */
static struct sl_str number(struct sl_build *b, const struct sl_names *names,
                            const struct sl_route *list,
                            const struct sl_route *route, unsigned *last)
{
    const size_t most = SL_NAME_MAX - sizeof("-12345") + 1;
    char text[2 * SL_NAME_MAX];
    struct sl_str name = route->endpoint, ret;

    if (name.len > most) {
        name.len = most;
        *last = route->index;
    }
    for (unsigned i = 2;; i++) {
        int len = snprintf(text, sizeof(text), "%.*s-%u", SL_STR_ARG(name), i);
        int taken;

        ret = (struct sl_str){text, (size_t)len};
        taken = sl_names_find(names, ret);
        if (taken < 0 && i > *last)
            *last = i;
        else if (taken < 0 || !is_same(&list[taken].pattern, &route->pattern))
            continue;
        return sl_build_keep(b, ret);
    }
}

/* names->list[first] and those behind it up to `end` have one name; what was
 * written stays, what was made gives way to those above it. In the square of
 * them, and there are seldom two. */
static void tell_group(struct sl_build *b, const struct sl_names *names,
                       struct sl_route *list, unsigned first, unsigned end)
{
    unsigned last = 1;

    for (unsigned i = first + 1; i < end; i++) {
        struct sl_route *route = &list[names->list[i].index];
        unsigned j = first;

        if (route->names_endpoint)
            continue;
        while (j < i &&
               !is_same(&list[names->list[j].index].pattern, &route->pattern))
            j++;
        route->endpoint = j < i ? list[names->list[j].index].endpoint
                                : number(b, names, list, route, &last);
    }
}

void sl_build_tell_apart(struct sl_build *b, struct sl_route *list,
                         unsigned count)
{
    struct sl_names names;
    unsigned end;

    if (!sl_names_init(&names, count, false, b->scratch)) {
        b->no_memory = true;
        return;
    }
    for (unsigned i = 0; i < count; i++)
        if (!list[i].is_job && !list[i].is_descriptor &&
            list[i].endpoint.len > 0)
            sl_names_add(&names, list[i].endpoint, i, list[i].place);
    sl_names_close(&names);
    for (unsigned i = 0; i < names.count; i = end) {
        for (end = i + 1; end < names.count && sl_names_again(&names, end);)
            end++;
        tell_group(b, &names, list, i, end);
    }
}
