/* route.c -- the tree of routes against a loop over all patterns.
 *
 *   (1)  sl_routes_find() gives the lowest index whose pattern matches
 *   (2)  a pattern that covers another matches all that the other matches, and
 *        one that does not misses some of it
 *   (3)  no spelling of a path takes another route
 *   (4)  the first reading of a path is the canonical one, no two are the
 *        same, and without anything odd there is no second
 *   (5)  the first pattern that covers another is the one that a look at every
 *        pair finds
 */
#include "policy/route.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "prop.h"

#define MOST 60

/* Few and alike, so that patterns meet. */
static const char *const words[] = {"a", "b", "A", "ab", "api", "aPI", "%62"};

static const char *const methods[] = {
    "", "GET ", "POST ", "HEAD,PUT ", "OPTIONS ", "GET,DELETE ", "DELETE "};

struct world {
    struct rng rng;
    struct sl_arena arena;
    struct sl_pattern patterns[MOST];
    const struct sl_pattern *list[MOST];
    unsigned count;
    bool conditional; /* all of them */
    struct sl_routes *tree;
    char text[4096]; /* the last path */
};

static const char *pick(struct rng *rng, const char *const *list, size_t count)
{
    return list[rng_below(rng, count)];
}

static void random_pattern(struct world *w, struct sl_pattern *ret)
{
    unsigned depth = (unsigned)rng_below(&w->rng, 5);
    char text[256];
    size_t len = (size_t)snprintf(
        text, sizeof(text), "%s",
        pick(&w->rng, methods, rng_once_in(&w->rng, 2) ? 1 : SL_LEN(methods)));

    for (unsigned i = 0; i < depth; i++) {
        const char *segment = pick(&w->rng, words, SL_LEN(words));

        if (rng_once_in(&w->rng, 4))
            segment = rng_once_in(&w->rng, 2) ? "*" : ":id";
        len += (size_t)snprintf(text + len, sizeof(text) - len, "/%s", segment);
    }
    if (rng_once_in(&w->rng, 4))
        len += (size_t)snprintf(text + len, sizeof(text) - len, "/**");
    else if (depth == 0)
        len += (size_t)snprintf(text + len, sizeof(text) - len, "/");
    if (sl_pattern_read((struct sl_str){text, len}, &w->arena, ret, NULL))
        abort();
}

static void make_world(struct world *w, uint64_t seed)
{
    w->rng.state = seed;
    sl_arena_init(&w->arena, 1024 * 1024, &sl_alloc_libc);
    w->count = (unsigned)rng_below(&w->rng, MOST + 1);
    w->conditional = rng_once_in(&w->rng, 2);
    for (unsigned i = 0; i < w->count; i++) {
        random_pattern(w, &w->patterns[i]);
        w->patterns[i].conditional = w->conditional;
        w->list[i] = rng_once_in(&w->rng, 20) ? NULL : &w->patterns[i];
    }
    w->tree = sl_routes_build(w->list, w->count, &w->arena);
    if (!w->tree)
        abort();
}

/* Something that comes to nothing. */
static void add_detour(struct rng *rng, char *text, size_t *len)
{
    static const char *const detours[] = {"/",
                                          "/.",
                                          "/%2e",
                                          "/x/..",
                                          "/x/%2E.",
                                          "\\",
                                          "%2f",
                                          "%5C.",
                                          "/;p=/",
                                          "/.;x",
                                          "/a/b/../..;q",
                                          "/x%2f..%5c.",
                                          "/..;/..;/../.."};
    bool top = *len == 0;
    const char *detour = pick(rng, detours, SL_LEN(detours) - !top);

    *len += (size_t)snprintf(text + *len, 32, "%s", detour);
}

/* One segment, letter by letter. */
static void add_spelled(struct rng *rng, char *text, size_t *len,
                        const char *word)
{
    static const char *const slashes[] = {"/",   "//",  "\\",
                                          "%2f", "%5C", "/;x/"};

    *len += (size_t)snprintf(text + *len, 8, "%s",
                             pick(rng, slashes, SL_LEN(slashes)));
    for (; *word; word++)
        *len += (size_t)snprintf(text + *len, 8,
                                 rng_once_in(rng, 3) ? "%%%02x" : "%c", *word);
    if (rng_once_in(rng, 8))
        *len += (size_t)snprintf(text + *len, 8, ";p=%%41");
}

/* The same path plainly and oddly spelled. */
static void random_path(struct world *w, char plain[256], char odd[1024])
{
    struct rng *rng = &w->rng;
    unsigned depth = (unsigned)rng_below(rng, 7);
    size_t plain_len = 0, odd_len = 0;

    plain[0] = odd[0] = '\0';
    for (unsigned i = 0; i < depth; i++) {
        const char *word = pick(rng, words, SL_LEN(words) - 1);

        if (rng_once_in(rng, 3))
            add_detour(rng, odd, &odd_len);
        plain_len += (size_t)snprintf(plain + plain_len, 8, "/%s", word);
        add_spelled(rng, odd, &odd_len, word);
    }
    if (rng_once_in(rng, 3))
        snprintf(
            odd + odd_len, 16, "%s",
            pick(rng, (const char *[]){"/", "?a/b", "#x", "%00", "/.;x"}, 5));
}

static unsigned by_loop(const struct world *w, unsigned method,
                        const struct sl_path *path, unsigned from)
{
    for (unsigned i = from; i < w->count; i++)
        if (w->list[i] && sl_pattern_matches(w->list[i], method, path))
            return i;
    return SL_NO_ROUTE;
}

static const char *find_broken(struct world *w)
{
    unsigned method = 1U << rng_below(&w->rng, 10), found;
    unsigned from = w->conditional ? (unsigned)rng_below(&w->rng, 4) : 0;
    char plain[256], odd[1024], room[1024];
    struct sl_path path;

    random_path(w, plain, odd);
    snprintf(w->text, sizeof(w->text), "%s as %s", plain, odd);
    sl_path_read(sl_str_c(plain), room, &path);
    found = sl_routes_find(w->tree, method, &path, from);
    if (found != by_loop(w, method, &path, from))
        return "(1)";
    sl_path_read(sl_str_c(odd), room, &path);
    if (found != sl_routes_find(w->tree, method, &path, from))
        return "(3)";
    return NULL;
}

/* May servers differ on it? Said anew, from the text alone: `..` is looked for
 * between all slashes there are. */
static bool is_odd(const char *text)
{
    static const char *const odd[] = {";",   "\\",  "#",   "%2f", "%2F", "%5c",
                                      "%5C", "%3b", "%3B", "%00", "%25"};
    char dots[256];
    size_t len = 0;

    for (size_t i = 0; i < SL_LEN(odd); i++)
        if (strstr(text, odd[i]))
            return true;
    for (; *text; text++) {
        bool escape = strncasecmp(text, "%2e", 3) == 0;

        if (*text == '%' && (!isxdigit(text[1]) || !isxdigit(text[2])))
            return true; /* what follows may make it an escape */
        dots[len++] = escape ? '.' : *text;
        text += escape ? 2 : 0;
    }
    memcpy(dots + len, "/", 2);
    return strncmp(dots, "//", 2) == 0 || strstr(dots, "/./") ||
           strstr(dots, "/../");
}

static bool is_same(const struct sl_path *a, const struct sl_path *b)
{
    bool same = a->count == b->count && a->deep == b->deep;

    for (unsigned i = 0; same && i < a->count; i++)
        same = sl_str_eq(a->segment[i], b->segment[i]);
    return same;
}

static const char *readings_broken(struct world *w)
{
    static const char *const parts[] = {
        "/",   "/",   "/",   "/",   "a",   "b",      "a",     "b",   ".",
        ".",   "%2e", "%2E", "%61", "%3f", "%252",   "%",     "%z",  "..",
        "...", ";",   "\\",  "#",   "%2f", "%5C",    "%3b",   "%00", "%2F",
        "/a",  "/b",  "/..", "6",   "1",   "%u0061", "%u002e"};
    unsigned kinds = rng_once_in(&w->rng, 2) ? 19 : SL_LEN(parts), count;
    struct sl_path canonical, all[SL_PATH_READINGS];
    char text[64] = "/", room[64], rooms[SL_PATH_READINGS * sizeof(text)];
    size_t len = 1;

    for (uint64_t i = rng_below(&w->rng, 12); i > 0; i--)
        len += (size_t)snprintf(text + len, sizeof(text) - len, "%s",
                                pick(&w->rng, parts, kinds));
    snprintf(w->text, sizeof(w->text), "%s", text);
    sl_path_read(sl_str_c(text), room, &canonical);
    count = sl_path_readings(sl_str_c(text), rooms, all);
    if (count > 1 && !is_odd(text))
        return "(4)";
    for (unsigned i = 0; i < count; i++)
        for (unsigned j = 0; j < i; j++)
            if (is_same(&all[i], &all[j]))
                return "(4)";
    return is_same(&canonical, &all[0]) ? NULL : "(4)";
}

/* A path that `p` matches: stars become a word that no pattern has, two stars
 * `more` of them. */
static void example(const struct sl_pattern *p, unsigned more,
                    struct sl_path *ret)
{
    *ret = (struct sl_path){.count = 0};
    for (unsigned i = 0; i < p->count; i++) {
        if (p->segments[i].kind == SL_SEGMENT_REST)
            break;
        ret->segment[ret->count++] = p->segments[i].kind == SL_SEGMENT_WORD
                                         ? p->segments[i].word
                                         : SL_STR("unknown");
    }
    if (p->count > 0 && p->segments[p->count - 1].kind == SL_SEGMENT_REST)
        while (more-- > 0)
            ret->segment[ret->count++] = SL_STR("unknown");
}

static const char *covers_broken(struct world *w)
{
    const struct sl_pattern *wide = &w->patterns[rng_below(&w->rng, w->count)];
    const struct sl_pattern *narrow =
        &w->patterns[rng_below(&w->rng, w->count)];
    bool all = true;
    struct sl_path path;

    for (unsigned bit = 0; bit < 10; bit++)
        for (unsigned more = 0; more < 6; more++) {
            unsigned method = 1U << bit;

            example(narrow, more, &path);
            if (!sl_pattern_matches(narrow, method, &path))
                continue;
            all = all && sl_pattern_matches(wide, method, &path);
        }
    snprintf(w->text, sizeof(w->text), "%u over %u",
             (unsigned)(wide - w->patterns), (unsigned)(narrow - w->patterns));
    return all == sl_pattern_covers(wide, narrow) ? NULL : "(2)";
}

static bool episode(uint64_t seed, uint64_t *steps)
{
    static struct world w;
    const char *broken = NULL;

    make_world(&w, seed);
    for (unsigned i = 0; i < 200 && !broken; i++) {
        broken = find_broken(&w);
        if (!broken && w.count > 0)
            broken = covers_broken(&w);
        if (!broken)
            broken = readings_broken(&w);
        ++*steps;
    }
    if (broken)
        printf("# route %s: %s\n", broken, w.text);
    sl_arena_done(&w.arena);
    return !broken;
}

/* Every pair is looked at. */
static unsigned cover_by_pairs(const struct world *w, unsigned i)
{
    for (unsigned j = 0; w->list[i] && j < i; j++)
        if (w->list[j] && !w->list[j]->conditional &&
            sl_pattern_covers(w->list[j], w->list[i]))
            return j;
    return SL_NO_ROUTE;
}

static bool covers_episode(uint64_t seed, uint64_t *steps)
{
    static struct world w;
    unsigned covers[MOST], bad = 0;

    make_world(&w, seed);
    for (unsigned i = 0; i < w.count; i++)
        w.patterns[i].conditional = rng_once_in(&w.rng, 4);
    if (sl_routes_covers(w.list, w.count, &w.arena, covers))
        abort();
    while (bad < w.count && covers[bad] == cover_by_pairs(&w, bad))
        bad++;
    if (bad < w.count)
        printf("# route (5): pattern %u has %u, by pairs %u\n", bad,
               covers[bad], cover_by_pairs(&w, bad));
    *steps += w.count + 1;
    sl_arena_done(&w.arena);
    return bad == w.count;
}

const struct property prop_route = {
    .name = "route",
    .steps = 300000,
    .cases = {{"route (1) (2) (3) (4) the tree agrees with the patterns",
               episode},
              {"route (5) covers agree with a look at every pair",
               covers_episode}},
};
