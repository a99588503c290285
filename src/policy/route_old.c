/* route.c -- the patterns of a policy as a tree of segments.
 *
 *     0  /api/items          root -- api -- items     ends here: 0
 *     1  /api/:id/parts               |
 *     2  /api/(2 stars)               +---- * -- parts   ends here: 1
 *                                     |
 *                                     rest: 2
 *
 * A node has at most one child for each word, and one for "any segment".
 * Children by word are not kept in the node: one hash table for the whole tree
 * leads from (parent, word) to the child, so that a thousand words below one
 * node cost as much as ten.
 *
 * What must be found is the first in the file, not the most exact. So both the
 * word and the star are followed, but a node whose lowest route is no better
 * than what was already found is not entered.
 *
 * Bound  Each node is entered at most once for a path, since there is one way
 *        to it; so nothing that a client sends costs more than (nodes), which
 *        is at most the number of segments in all patterns, and it takes a
 *        policy with stars and words beside each other on every level to come
 *        near. A segment's bytes are hashed once, and compared only where the
 *        hash agrees; one that is longer than every word is not even hashed.
 *
 * The table's hash has no secret. Its contents are the operator's; a client
 * can look for what is not there, and finds the end of a row that he has no
 * part in making.
 */
#include "policy/route.h"

#include <string.h>

#define NONE 0 /* no node, no entry: the root is nobody's child */

/* A route that ends at a node, or has its rest there. */
struct entry {
    unsigned route;
    unsigned methods;
    unsigned next; /* the next one, with a higher route */
};

struct node {
    struct sl_str word; /* a pattern's; compared without case */
    uint32_t hash;      /* of the word and the parent */
    unsigned parent;
    unsigned star;   /* the child for any segment */
    unsigned lowest; /* route here or below */
    unsigned ends;   /* entries for paths that end here */
    unsigned rests;  /* entries for whatever is below, and here */
};

struct sl_routes {
    struct node *nodes; /* [0] is the root */
    struct entry *entries;
    unsigned *slots; /* nodes by hash; a power of two of them */
    unsigned mask;
    unsigned node_count, entry_count; /* [0] of the entries stays unused */
    size_t longest;                   /* word */
};

/* The last bytes of a word, fewer than eight, each at least once and always in
 * the same place. */
static uint64_t load_few(const char *at, size_t len)
{
    const unsigned char *p = (const unsigned char *)at;
    uint32_t low, high;

    if (len >= 4) { /* two halves that overlap */
        memcpy(&low, p, sizeof(low));
        memcpy(&high, p + len - 4, sizeof(high));
        return low | (uint64_t)high << 32;
    }
    return len == 0
               ? 0
               : p[0] | (uint64_t)p[len / 2] << 8 | (uint64_t)p[len - 1] << 16;
}

/* Eight bytes at a time. The bit that tells capitals from small letters is set
 * everywhere: a few more words share a hash, and none that are equal differ. */
static uint32_t hash_word(struct sl_str word)
{
    const uint64_t small = UINT64_C(0x2020202020202020);
    const uint64_t odd = UINT64_C(0x9e3779b97f4a7c15);
    uint64_t hash = word.len, bytes;
    size_t i = 0;

    for (; word.len - i >= 8; i += 8) {
        memcpy(&bytes, word.at + i, 8);
        hash = (hash ^ (bytes | small)) * odd;
        hash ^= hash >> 32;
    }
    bytes = load_few(word.at + i, word.len - i);
    hash = (hash ^ (bytes | small)) * odd;
    return (uint32_t)(hash >> 32);
}

static uint32_t hash_below(uint32_t word_hash, unsigned parent)
{
    uint32_t hash = word_hash ^ (parent * 2654435761U);

    return (hash ^ hash >> 15) * 2246822519U;
}

/* The child of `parent` for `word`, or NONE. *slot is where it is, or where
 * it would be. */
static unsigned find_child(const struct sl_routes *tree, unsigned parent,
                           struct sl_str word, uint32_t hash, unsigned *slot)
{
    for (unsigned i = hash >> 7;; i++) {
        unsigned child = tree->slots[i & tree->mask];
        const struct node *node = &tree->nodes[child];

        *slot = i & tree->mask;
        if (child == NONE)
            return NONE;
        if (node->hash == hash && node->parent == parent &&
            sl_str_eq_nocase(node->word, word))
            return child;
    }
}

/* ---- building ---- */

static unsigned add_node(struct sl_routes *tree, unsigned parent,
                         struct sl_str word, uint32_t hash)
{
    tree->nodes[tree->node_count] = (struct node){
        .word = word, .hash = hash, .parent = parent, .lowest = SL_NO_ROUTE};
    return tree->node_count++;
}

/* The child of `parent` that `segment` leads to; made if it is not there. */
static unsigned step(struct sl_routes *tree, unsigned parent,
                     const struct sl_segment *segment)
{
    unsigned child, slot;
    uint32_t hash;

    if (segment->kind == SL_SEGMENT_ONE) {
        if (tree->nodes[parent].star == NONE)
            tree->nodes[parent].star =
                add_node(tree, parent, (struct sl_str){NULL, 0}, 0);
        return tree->nodes[parent].star;
    }
    hash = hash_below(hash_word(segment->word), parent);
    child = find_child(tree, parent, segment->word, hash, &slot);
    if (child == NONE) {
        child = add_node(tree, parent, segment->word, hash);
        tree->slots[slot] = child;
        if (tree->longest < segment->word.len)
            tree->longest = segment->word.len;
    }
    return child;
}

/* Append to the list at *head. Where earlier ones take all its methods, it can
 * never win here and is left out; so a list has at most ten entries. */
static void add_entry(struct sl_routes *tree, unsigned *head, unsigned route,
                      unsigned methods)
{
    unsigned taken = 0;

    while (*head != NONE) {
        taken |= tree->entries[*head].methods;
        head = &tree->entries[*head].next;
    }
    if ((methods & ~taken) == 0)
        return;
    *head = tree->entry_count++;
    tree->entries[*head] = (struct entry){.route = route, .methods = methods};
}

/* Routes come in ascending order, so the first to pass a node is its lowest. */
static void add_pattern(struct sl_routes *tree,
                        const struct sl_pattern *pattern, unsigned route)
{
    unsigned at = 0;

    for (unsigned i = 0;; i++) {
        struct node *node = &tree->nodes[at];
        bool over = i == pattern->count;

        if (node->lowest == SL_NO_ROUTE)
            node->lowest = route;
        if (over || pattern->segments[i].kind == SL_SEGMENT_REST) {
            add_entry(tree, over ? &node->ends : &node->rests, route,
                      pattern->methods);
            return;
        }
        at = step(tree, at, &pattern->segments[i]);
    }
}

/* Room for `segments` segments of `count` patterns. */
static struct sl_routes *make_tree(struct sl_arena *arena, size_t segments,
                                   unsigned count)
{
    struct sl_routes *tree = sl_arena_take(arena, sizeof(*tree));
    size_t slots = 16;

    while (slots < 2 * segments)
        slots *= 2;
    if (!tree || slots > UINT32_MAX / 2)
        return NULL;
    *tree = (struct sl_routes){.mask = (unsigned)slots - 1, .entry_count = 1};
    tree->nodes = sl_arena_take(arena, (segments + 1) * sizeof(*tree->nodes));
    tree->entries =
        sl_arena_take(arena, ((size_t)count + 1) * sizeof(*tree->entries));
    tree->slots = sl_arena_take(arena, slots * sizeof(*tree->slots));
    if (!tree->nodes || !tree->entries || !tree->slots)
        return NULL;
    for (size_t i = 0; i < slots; i++)
        tree->slots[i] = NONE;
    add_node(tree, 0, (struct sl_str){NULL, 0}, 0);
    return tree;
}

struct sl_routes *sl_routes_build(const struct sl_pattern *const *patterns,
                                  unsigned count, struct sl_arena *arena)
{
    struct sl_routes *tree;
    size_t segments = 0;

    for (unsigned i = 0; i < count; i++)
        if (patterns[i])
            segments += patterns[i]->count;
    tree = make_tree(arena, segments, count);
    for (unsigned i = 0; tree && i < count; i++)
        if (patterns[i])
            add_pattern(tree, patterns[i], i);
    return tree;
}

/* ---- finding ---- */

struct search {
    const struct sl_routes *tree;
    const struct sl_path *path;
    unsigned method;
    unsigned best;
    unsigned hashed; /* segments whose hash is known */
    uint32_t hash[SL_PATH_SEGMENTS];
};

static void look_at(struct search *s, unsigned entry)
{
    for (; entry != NONE; entry = s->tree->entries[entry].next) {
        const struct entry *e = &s->tree->entries[entry];

        if (e->methods & s->method) {
            if (e->route < s->best)
                s->best = e->route;
            return;
        }
    }
}

static unsigned word_child(struct search *s, unsigned at, unsigned depth)
{
    struct sl_str word = s->path->segment[depth];
    unsigned slot;

    if (s->hashed == depth) {
        if (word.len <= s->tree->longest)
            s->hash[depth] = hash_word(word);
        s->hashed++;
    }
    if (word.len > s->tree->longest)
        return NONE;
    return find_child(s->tree, at, word, hash_below(s->hash[depth], at), &slot);
}

/* At most SL_PATH_SEGMENTS deep, and not at all where there is one way only:
 * most nodes have no star. */
static void enter(struct search *s, unsigned at, unsigned depth)
{
    const struct node *nodes = s->tree->nodes;

    for (; nodes[at].lowest < s->best; depth++) {
        unsigned word, star = nodes[at].star;

        look_at(s, nodes[at].rests);
        if (depth == s->path->count) {
            if (!s->path->deep)
                look_at(s, nodes[at].ends);
            return;
        }
        word = word_child(s, at, depth);
        if (word == NONE && star == NONE)
            return;
        at = word != NONE ? word : star;
        if (word == NONE || star == NONE)
            continue;
        if (nodes[star].lowest < nodes[word].lowest) {
            enter(s, star, depth + 1);
        } else {
            enter(s, word, depth + 1);
            at = star;
        }
    }
}

unsigned sl_routes_find(const struct sl_routes *routes, unsigned method,
                        const struct sl_path *path)
{
    struct search s;

    s.tree = routes;
    s.path = path;
    s.method = method;
    s.best = SL_NO_ROUTE;
    s.hashed = 0;
    enter(&s, 0, 0);
    return s.best;
}
