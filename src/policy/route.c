/* route.c -- what a route matches: methods and a path with wildcards.
 *
 *     GET,HEAD /api/shares/:id/(2 stars)
 *     |        |           |   |
 *     |        |           |   all below, and nothing too; last only
 *     |        |           one segment, with a name; or a star, without
 *     |        words, compared without case
 *     methods; none means any
 *
 * Words are decoded like the path of a request, so that %20 and %2a can be
 * matched. What no canonical path can contain is refused: such a route would
 * never match.
 */
#include "policy/route.h"

#include <limits.h>
#include <string.h>

#include "base/str.h"

#define LIKE "Write it like GET /api/items/:id"

/* For "%.*s": at most 60 bytes. */
#define QUOTE(s) (int)((s).len < 60 ? (s).len : 60), ((s).at ? (s).at : "")

static const char *const method_names[] = {
    "GET",   "HEAD",    "POST",    "PUT",   "DELETE",
    "PATCH", "OPTIONS", "CONNECT", "TRACE",
};

unsigned sl_method_of(struct sl_str name)
{
    for (unsigned i = 0; i < SL_LEN(method_names); i++)
        if (sl_str_eq_nocase(name, sl_str_c(method_names[i])))
            return 1U << i;
    return SL_METHOD_OTHER;
}

/* A pattern being read. */
struct reading {
    struct sl_str text;
    struct sl_diag *diag;
    struct sl_pattern pattern;
    struct sl_segment *segments;
    char *room; /* for decoded words: as many bytes as the text has */
};

static size_t offset(const struct reading *r, struct sl_str part)
{
    return (size_t)(part.at - r->text.at);
}

/* The hint is the text with `part` replaced by `words`. */
static void hint_instead(const struct reading *r, struct sl_str part,
                         struct sl_str words)
{
    struct sl_str before = {r->text.at, offset(r, part)};
    struct sl_str behind = sl_str_from(r->text, before.len + part.len);

    sl_diag_hint(r->diag, "%.*s%.*s%.*s", SL_STR_ARG(before), SL_STR_ARG(words),
                 SL_STR_ARG(behind));
}

static int refuse_method(const struct reading *r, struct sl_str name)
{
    const char *meant =
        sl_str_nearest(name, method_names, SL_LEN(method_names));

    if (name.len == 0)
        return sl_diag_error_at(r->diag, SLUICE_ECONF, offset(r, name),
                                "Missing method. Separate methods by commas "
                                "without spaces, like GET,POST /path");
    sl_diag_error_at(
        r->diag, SLUICE_ECONF, offset(r, name),
        "Unknown method \"%.*s\". Write GET, HEAD, POST, PUT, "
        "DELETE, PATCH, OPTIONS, CONNECT or TRACE, or none for any",
        QUOTE(name));
    if (meant)
        hint_instead(r, name, sl_str_c(meant));
    return SLUICE_ECONF;
}

/* `list` is GET or GET,POST,... */
static int read_methods(struct reading *r, struct sl_str list)
{
    unsigned methods = 0;

    for (;;) {
        struct sl_str name = list;
        const char *comma = memchr(list.at, ',', list.len);
        unsigned bit;

        if (comma)
            name.len = (size_t)(comma - list.at);
        bit = sl_method_of(name);
        if (bit == SL_METHOD_OTHER)
            return refuse_method(r, name);
        methods |= bit;
        if (!comma)
            break;
        list = sl_str_from(list, name.len + 1);
        if (list.len == 0)
            return refuse_method(r, list);
    }
    if (methods & SL_METHOD_GET)
        methods |= SL_METHOD_HEAD;
    r->pattern.methods = methods;
    return 0;
}

/* The path at `from` does not begin with a slash, or not behind a space, as in
 * GET/api. */
static int refuse_head(const struct reading *r, size_t from)
{
    struct sl_str path = sl_str_from(r->text, from), word = path;
    const char *slash = memchr(path.at, '/', path.len);

    sl_diag_error_at(
        r->diag, SLUICE_ECONF, from,
        "Invalid path \"%.*s\". A path begins with a slash. A space "
        "separates it from the methods",
        QUOTE(path));
    word.len = slash ? (size_t)(slash - path.at) : path.len;
    if (sl_method_of(word) != SL_METHOD_OTHER) {
        word = (struct sl_str){path.at + word.len, 0};
        hint_instead(r, word, slash ? SL_STR(" ") : SL_STR(" /"));
    } else if (!memmem(path.at, path.len, "//", 2)) {
        hint_instead(r, (struct sl_str){path.at, 0}, SL_STR("/"));
    }
    return SLUICE_ECONF;
}

/* Read the methods, and find the path. */
static int read_head(struct reading *r, struct sl_str *path)
{
    struct sl_str list = {r->text.at, 0};
    size_t from;

    r->pattern.methods = SL_METHOD_ANY;
    *path = r->text;
    if (r->text.at[0] == '/')
        return 0;
    while (list.len < r->text.len && r->text.at[list.len] != ' ' &&
           r->text.at[list.len] != '\t')
        list.len++;
    if (list.len == r->text.len)
        return refuse_head(r, 0);
    for (from = list.len; r->text.at[from] == ' ' || r->text.at[from] == '\t';)
        from++;
    *path = sl_str_from(r->text, from);
    if (list.at[list.len - 1] != ',' && path->at[0] != '/')
        return refuse_head(r, from);
    return read_methods(r, list);
}

/* ---- segments ---- */

/* Decode `raw` into the room. */
static struct sl_str decode(struct reading *r, struct sl_str raw)
{
    struct sl_str word = {r->room, 0};

    for (size_t i = 0; i < raw.len; i++) {
        char c = raw.at[i];

        if (c == '%' && raw.len - i >= 3 && sl_hex_value(raw.at[i + 1]) >= 0 &&
            sl_hex_value(raw.at[i + 2]) >= 0) {
            c = (char)(sl_hex_value(raw.at[i + 1]) << 4 |
                       sl_hex_value(raw.at[i + 2]));
            i += 2;
        }
        r->room[word.len++] = c;
    }
    r->room += word.len;
    return word;
}

static bool has(struct sl_str s, char c)
{
    return s.len > 0 && memchr(s.at, c, s.len);
}

/* Bytes that no canonical path has. */
static int check_raw(const struct reading *r, struct sl_str raw)
{
    static const struct {
        char byte;
        const char *sentence;
    } rows[] = {
        {'?',  "A pattern has no query. Requests are matched by their path"   },
        {'#',  "A pattern has no fragment. Requests are matched by their path"},
        {';',  "Requests are matched without their ;parameters. Remove them, "
              "or write %3b for the character"                   },
        {'\\', "A backslash counts as a slash. Write a slash"                 },
        {' ',  "Write %20 for a space in a path"                              },
        {'\t', "Write %09 for a tab in a path"                                },
        {'\0', "A path must not contain NUL"                                  },
    };

    for (size_t i = 0; i < SL_LEN(rows); i++) {
        const char *found = memchr(raw.at, rows[i].byte, raw.len);

        if (found)
            return sl_diag_error_at(r->diag, SLUICE_ECONF,
                                    (size_t)(found - r->text.at), "%s",
                                    rows[i].sentence);
    }
    return 0;
}

static int read_word(struct reading *r, struct sl_str raw,
                     struct sl_segment *ret)
{
    struct sl_str word = decode(r, raw);
    size_t at = offset(r, raw);

    if (has(word, '/') || has(word, '\\') || has(word, '\0'))
        return sl_diag_error_at(
            r->diag, SLUICE_ECONF, at,
            "\"%.*s\" has an escape for a slash, a backslash "
            "or NUL. No segment of a path can contain these",
            QUOTE(raw));
    if (sl_str_eq(word, SL_STR(".")) || sl_str_eq(word, SL_STR("..")))
        return sl_diag_error_at(r->diag, SLUICE_ECONF, at,
                                "\"%.*s\" is resolved before requests are "
                                "matched. Write the resulting path",
                                QUOTE(raw));
    *ret = (struct sl_segment){.kind = SL_SEGMENT_WORD, .word = word};
    return 0;
}

static bool is_name(struct sl_str name)
{
    for (size_t i = 0; i < name.len; i++) {
        char c = name.at[i], letter = (char)(c | 0x20);

        if ((letter < 'a' || letter > 'z') && c != '_' &&
            (i == 0 || ((c < '0' || c > '9') && c != '-')))
            return false;
    }
    return name.len > 0;
}

/* :id */
static int read_named(struct reading *r, struct sl_str raw,
                      struct sl_segment *ret)
{
    struct sl_str name = sl_str_from(raw, 1);

    if (!is_name(name))
        return sl_diag_error_at(r->diag, SLUICE_ECONF, offset(r, raw),
                                "Invalid segment name \"%.*s\". Write it like "
                                ":id, or write * for a segment without a name",
                                QUOTE(raw));
    *ret = (struct sl_segment){.kind = SL_SEGMENT_ONE, .word = decode(r, name)};
    return 0;
}

/* {id}, as in OpenAPI and Spring. */
static int refuse_braces(const struct reading *r, struct sl_str raw)
{
    struct sl_str name = {raw.at + 1, raw.len - 2};
    char with_colon[64];

    sl_diag_error_at(
        r->diag, SLUICE_ECONF, offset(r, raw),
        "Invalid segment \"%.*s\". Write :name for a named segment",
        QUOTE(raw));
    if (is_name(name) && name.len < sizeof(with_colon)) {
        with_colon[0] = ':';
        memcpy(with_colon + 1, name.at, name.len);
        hint_instead(r, raw, (struct sl_str){with_colon, name.len + 1});
    }
    return SLUICE_ECONF;
}

static int read_segment(struct reading *r, struct sl_str raw, bool last)
{
    struct sl_segment *segment = &r->segments[r->pattern.count];
    int err = check_raw(r, raw);

    if (err)
        return err;
    if (sl_str_eq(raw, SL_STR("**")) && !last)
        return sl_diag_error_at(
            r->diag, SLUICE_ECONF, offset(r, raw),
            "** matches all remaining segments, so it must be "
            "last. Write * for one segment");
    if (sl_str_eq(raw, SL_STR("**")))
        *segment = (struct sl_segment){.kind = SL_SEGMENT_REST};
    else if (sl_str_eq(raw, SL_STR("*")))
        *segment = (struct sl_segment){.kind = SL_SEGMENT_ONE};
    else if (has(raw, '*'))
        return sl_diag_error_at(r->diag, SLUICE_ECONF, offset(r, raw),
                                "\"%.*s\" has a star for a part of a segment. "
                                "Write * for a whole segment, or %%2a for the "
                                "character",
                                QUOTE(raw));
    else if (raw.at[0] == '{' && raw.at[raw.len - 1] == '}')
        return refuse_braces(r, raw);
    else if (raw.at[0] == ':')
        err = read_named(r, raw, segment);
    else
        err = read_word(r, raw, segment);
    r->pattern.count++;
    return err;
}

static int refuse_empty(const struct reading *r, struct sl_str slash)
{
    sl_diag_error_at(
        r->diag, SLUICE_ECONF, offset(r, slash),
        "Empty segment. Requests are matched without doubled slashes "
        "and slashes at the end");
    hint_instead(r, slash, SL_STR(""));
    return SLUICE_ECONF;
}

/* `path` begins with a slash. */
static int read_segments(struct reading *r, struct sl_str path)
{
    int err = 0;

    if (path.len == 1)
        return 0; /* the root has no segment */
    while (!err && path.len > 0) {
        struct sl_str slash = {path.at, 1}, raw = sl_str_from(path, 1);
        const char *next = memchr(raw.at, '/', raw.len);

        if (next)
            raw.len = (size_t)(next - raw.at);
        if (raw.len == 0)
            return refuse_empty(r, slash);
        if (r->pattern.count == SL_PATH_SEGMENTS)
            return sl_diag_error_at(r->diag, SLUICE_ECONF, offset(r, raw),
                                    "A pattern can have at most %d segments",
                                    SL_PATH_SEGMENTS);
        err = read_segment(r, raw, !next);
        path = sl_str_from(path, raw.len + 1);
    }
    return err;
}

static size_t count_slashes(struct sl_str text)
{
    size_t count = 0;

    for (size_t i = 0; i < text.len; i++)
        count += text.at[i] == '/';
    return count < SL_PATH_SEGMENTS ? count : SL_PATH_SEGMENTS;
}

static int check_text(struct sl_str text, struct sl_diag *diag)
{
    struct sl_str bare = sl_str_trim(text);

    if (bare.len == 0)
        return sl_diag_error(diag, SLUICE_ECONF, "Missing pattern. " LIKE);
    if (text.len > SL_PATH_BYTES)
        return sl_diag_error(diag, SLUICE_ECONF,
                             "A pattern can have at most %d bytes, not %zu",
                             SL_PATH_BYTES, text.len);
    if (bare.len == text.len)
        return 0;
    sl_diag_error_at(diag, SLUICE_ECONF, bare.at > text.at ? 0 : bare.len,
                     "Pattern \"%.*s\" begins or ends with spaces",
                     QUOTE(bare));
    sl_diag_hint(diag, "%.*s", SL_STR_ARG(bare));
    return SLUICE_ECONF;
}

int sl_pattern_read(struct sl_str text, struct sl_arena *arena,
                    struct sl_pattern *ret, struct sl_diag *diag)
{
    struct reading r = {.text = text, .diag = diag};
    struct sl_str path;
    int err = check_text(text, diag);

    if (!err)
        err = read_head(&r, &path);
    if (err)
        return err;
    r.segments =
        sl_arena_take(arena, count_slashes(path) * sizeof(*r.segments));
    r.room = sl_arena_take(arena, path.len);
    if (!r.segments || !r.room)
        return SLUICE_ENOMEM;
    err = read_segments(&r, path);
    if (err)
        return err;
    r.pattern.segments = r.segments;
    *ret = r.pattern;
    return 0;
}

/* ---- matching ---- */

/* Segments without the rest. */
static unsigned fixed_count(const struct sl_pattern *p)
{
    return p->count -
           (p->count > 0 && p->segments[p->count - 1].kind == SL_SEGMENT_REST);
}

bool sl_pattern_matches(const struct sl_pattern *pattern, unsigned method,
                        const struct sl_path *path)
{
    unsigned fixed = fixed_count(pattern);
    bool exact = fixed == pattern->count;

    if (!(pattern->methods & method))
        return false;
    if (exact ? path->deep || path->count != fixed : path->count < fixed)
        return false;
    for (unsigned i = 0; i < fixed; i++)
        if (pattern->segments[i].kind == SL_SEGMENT_WORD &&
            !sl_str_eq_nocase(pattern->segments[i].word, path->segment[i]))
            return false;
    return true;
}

bool sl_pattern_covers(const struct sl_pattern *wide,
                       const struct sl_pattern *narrow)
{
    unsigned wide_fixed = fixed_count(wide);
    unsigned narrow_fixed = fixed_count(narrow);

    if ((narrow->methods & ~wide->methods) || narrow_fixed < wide_fixed)
        return false; /* its shortest path is too short */
    if (wide_fixed == wide->count &&
        (narrow_fixed != narrow->count || narrow_fixed != wide_fixed))
        return false; /* it has longer ones */
    for (unsigned i = 0; i < wide_fixed; i++) {
        const struct sl_segment *w = &wide->segments[i];
        const struct sl_segment *n = &narrow->segments[i];

        if (w->kind == SL_SEGMENT_WORD &&
            (n->kind != SL_SEGMENT_WORD || !sl_str_eq_nocase(w->word, n->word)))
            return false;
    }
    return true;
}

/* ---- the patterns of a policy as a tree of segments.
 *
 *     0  /api/items          root -- api -- items     ends here: 0
 *     1  /api/:id/parts               |
 *     2  /api/(2 stars)               +---- * -- parts   ends here: 1
 *                                     |
 *                                     rest: 2
 *
 * A node has at most one child for each word, and one for "any segment". One
 * hash table for the whole tree maps (parent, word) to the child.
 *
 * The first route in the file wins, not the most exact one. So both the word
 * and the star are followed, but a node is not entered if its lowest route is
 * not better than the one found.
 *
 * Bound  Each node is entered at most once for a path, so the cost is at most
 *        the number of segments in all patterns. A segment is compared with
 *        the word of a node that has one only. Otherwise it is hashed once and
 *        compared only if the hash agrees; longer ones than every word are not
 *        hashed.
 *
 * The hash needs no secret: clients do not choose the contents of the table.
 */

#define NONE 0        /* no node, no entry: the root is not a child */
#define MANY UINT_MAX /* more than one node */

struct entry {
    unsigned route;
    unsigned methods;
    bool conditional;
    unsigned next; /* with a higher route */
};

struct node {
    struct sl_str word; /* a pattern's; compared without case */
    uint32_t hash;      /* of the word and the parent */
    unsigned parent;
    unsigned only;   /* the child for a word, NONE, or MANY: by the hash */
    unsigned star;   /* the child for any segment */
    unsigned lowest; /* route here or below */
    unsigned ends;   /* entries for paths that end here */
    unsigned rests;  /* entries for paths that end here or below */
};

struct sl_routes {
    struct node *nodes; /* [0] is the root */
    struct entry *entries;
    unsigned *slots; /* nodes by hash; a power of two of them */
    unsigned mask;
    unsigned node_count, entry_count; /* [0] of the entries stays unused */
    size_t longest;                   /* word */
    bool keeps_all;                   /* entries, also those never found */
};

/* The last bytes of a word, fewer than eight. */
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

/* Eight bytes at a time. The bit of small letters is set in all bytes, so that
 * the hash ignores case. */
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

/* The child of `parent` for `word`, or NONE. *slot is its slot, or a free one.
 */
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

/* The child of `parent` for `segment`, which is made if it is missing. */
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
        tree->nodes[parent].only =
            tree->nodes[parent].only == NONE ? child : MANY;
        if (tree->longest < segment->word.len)
            tree->longest = segment->word.len;
    }
    return child;
}

/* Append to the list at *head. Unless the tree keeps all, an entry is left out
 * if earlier ones take all its methods; so a list has at most ten entries
 * without conditions. */
static void add_entry(struct sl_routes *tree, unsigned *head, unsigned route,
                      const struct sl_pattern *pattern)
{
    unsigned taken = 0;

    while (*head != NONE) {
        if (!tree->entries[*head].conditional)
            taken |= tree->entries[*head].methods;
        head = &tree->entries[*head].next;
    }
    if ((pattern->methods & ~taken) == 0 && !tree->keeps_all)
        return;
    *head = tree->entry_count++;
    tree->entries[*head] = (struct entry){.route = route,
                                          .methods = pattern->methods,
                                          .conditional = pattern->conditional};
}

/* Routes come in ascending order: the first one at a node is its lowest. */
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
            add_entry(tree, over ? &node->ends : &node->rests, route, pattern);
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

static size_t count_segments(const struct sl_pattern *const *patterns,
                             unsigned count)
{
    size_t segments = 0;

    for (unsigned i = 0; i < count; i++)
        if (patterns[i])
            segments += patterns[i]->count;
    return segments;
}

struct sl_routes *sl_routes_build(const struct sl_pattern *const *patterns,
                                  unsigned count, struct sl_arena *arena)
{
    struct sl_routes *tree =
        make_tree(arena, count_segments(patterns, count), count);

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
    unsigned from;
    unsigned best;
    uint64_t hashed; /* segments whose hash is known, as bits */
    uint32_t hash[SL_PATH_SEGMENTS];
};

static void look_at(struct search *s, unsigned entry)
{
    for (; entry != NONE; entry = s->tree->entries[entry].next) {
        const struct entry *e = &s->tree->entries[entry];

        if (e->methods & s->method && e->route >= s->from) {
            if (e->route < s->best)
                s->best = e->route;
            return;
        }
    }
}

_Static_assert(SL_PATH_SEGMENTS <= 64, "`hashed` has a bit for each");

static unsigned word_child(struct search *s, unsigned at, unsigned depth)
{
    struct sl_str word = s->path->segment[depth];
    unsigned only = s->tree->nodes[at].only, slot;
    uint64_t bit = UINT64_C(1) << depth;

    if (only != MANY)
        return only != NONE && sl_str_eq_nocase(s->tree->nodes[only].word, word)
                   ? only
                   : NONE;
    if (word.len > s->tree->longest)
        return NONE;
    if (!(s->hashed & bit))
        s->hash[depth] = hash_word(word);
    s->hashed |= bit;
    return find_child(s->tree, at, word, hash_below(s->hash[depth], at), &slot);
}

/* At most SL_PATH_SEGMENTS deep; recursion only if word and star both match. */
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
                        const struct sl_path *path, unsigned from)
{
    struct search s;

    s.tree = routes;
    s.path = path;
    s.method = method;
    s.from = from;
    s.best = SL_NO_ROUTE;
    s.hashed = 0;
    enter(&s, 0, 0);
    return s.best;
}

/* ---- covering. The pattern walks down a tree of those before it: its words
 * follow words and stars, its stars only stars.
 *
 * The tree has only patterns that no other covers, without conditions. What one
 * of the others covers, the one that covers that other covers too, and it is
 * before it. So all entries in a list have different methods, and there are at
 * most some hundred.
 */

struct cover {
    const struct sl_routes *tree;
    const struct sl_pattern *narrow;
    unsigned fixed; /* segments of it without the rest */
    unsigned best;
    uint32_t hash[SL_PATH_SEGMENTS]; /* of its words */
};

static void look_for_cover(struct cover *c, unsigned entry)
{
    for (; entry != NONE; entry = c->tree->entries[entry].next) {
        const struct entry *e = &c->tree->entries[entry];

        if ((c->narrow->methods & ~e->methods) == 0) {
            if (e->route < c->best)
                c->best = e->route;
            return;
        }
    }
}

/* Like enter(). */
static void enter_wider(struct cover *c, unsigned at, unsigned depth)
{
    const struct node *nodes = c->tree->nodes;

    for (; nodes[at].lowest < c->best; depth++) {
        unsigned word = NONE, star = nodes[at].star, slot;
        const struct sl_segment *segment;

        look_for_cover(c, nodes[at].rests);
        if (depth == c->fixed) {
            if (c->fixed == c->narrow->count)
                look_for_cover(c, nodes[at].ends);
            return;
        }
        segment = &c->narrow->segments[depth];
        if (segment->kind == SL_SEGMENT_WORD)
            word = find_child(c->tree, at, segment->word,
                              hash_below(c->hash[depth], at), &slot);
        if (word == NONE && star == NONE)
            return;
        at = word != NONE ? word : star;
        if (word == NONE || star == NONE)
            continue;
        enter_wider(c, word, depth + 1);
        at = star;
    }
}

static unsigned find_cover(const struct sl_routes *tree,
                           const struct sl_pattern *narrow)
{
    struct cover c;

    c.tree = tree;
    c.narrow = narrow;
    c.fixed = fixed_count(narrow);
    c.best = SL_NO_ROUTE;
    for (unsigned i = 0; i < c.fixed; i++)
        if (narrow->segments[i].kind == SL_SEGMENT_WORD)
            c.hash[i] = hash_word(narrow->segments[i].word);
    enter_wider(&c, 0, 0);
    return c.best;
}

int sl_routes_covers(const struct sl_pattern *const *patterns, unsigned count,
                     struct sl_arena *arena, unsigned *ret)
{
    struct sl_routes *tree =
        make_tree(arena, count_segments(patterns, count), count);

    if (!tree)
        return SLUICE_ENOMEM;
    tree->keeps_all = true;
    for (unsigned i = 0; i < count; i++) {
        ret[i] = patterns[i] ? find_cover(tree, patterns[i]) : SL_NO_ROUTE;
        if (patterns[i] && !patterns[i]->conditional && ret[i] == SL_NO_ROUTE)
            add_pattern(tree, patterns[i], i);
    }
    return 0;
}

/* ---- patterns of descriptors. */

static size_t key_length(struct sl_str text)
{
    size_t len = 0;

    while (len < text.len && text.at[len] != '=' && text.at[len] != '~')
        len++;
    return len;
}

int sl_descriptor_part_read(struct sl_str text, struct sl_descriptor_part *ret,
                            struct sl_diag *diag)
{
    size_t len = key_length(text);

    *ret = (struct sl_descriptor_part){.kind = SL_PART_REST};
    if (sl_str_eq(text, SL_STR("**")))
        return 0;
    if (len == 0)
        return sl_diag_error(
            diag, SLUICE_ECONF,
            "An entry needs a key. Write KEY, KEY=VALUE or **");
    ret->kind = SL_PART_ANY;
    ret->key = (struct sl_str){text.at, len};
    ret->value = sl_str_from(text, len + 1);
    if (memchr(ret->key.at, '*', len))
        return sl_diag_error(
            diag, SLUICE_ECONF,
            "A key must not contain *. Values can, as in KEY=a*");
    if (len == text.len)
        return 0;
    ret->shared = text.at[len] == '~';
    ret->kind = memchr(text.at + len, '*', text.len - len) ? SL_PART_LIKE
                                                           : SL_PART_EXACT;
    return 0;
}

/* The pattern up to its first star; `rest` follows the star. */
static struct sl_str take_literal(struct sl_str pattern, struct sl_str *rest)
{
    const char *star =
        pattern.len ? memchr(pattern.at, '*', pattern.len) : NULL;
    size_t len = star ? (size_t)(star - pattern.at) : pattern.len;

    *rest = sl_str_from(pattern, len + 1);
    return (struct sl_str){pattern.at, len};
}

static size_t literal_tail(struct sl_str pattern)
{
    size_t len = 0;

    while (len < pattern.len && pattern.at[pattern.len - 1 - len] != '*')
        len++;
    return len;
}

/* Both ends must match. The pieces between stars must occur in their order; the
 * first occurrence of each is taken. */
bool sl_value_is_like(struct sl_str pattern, struct sl_str value)
{
    size_t tail = literal_tail(pattern);
    struct sl_str end = sl_str_from(pattern, pattern.len - tail), piece;

    if (tail == pattern.len)
        return sl_str_eq(pattern, value);
    if (value.len < tail ||
        !sl_str_eq(sl_str_from(value, value.len - tail), end))
        return false;
    value.len -= tail;
    pattern.len -= tail; /* it ends in a star now */
    piece = take_literal(pattern, &pattern);
    if (!sl_str_begins(value, piece))
        return false;
    value = sl_str_from(value, piece.len);
    while (pattern.len > 0) {
        piece = take_literal(pattern, &pattern);
        while (!sl_str_begins(value, piece)) {
            if (value.len == 0)
                return false;
            value = sl_str_from(value, 1);
        }
        value = sl_str_from(value, piece.len);
    }
    return true;
}

static bool part_matches(const struct sl_descriptor_part *part,
                         const struct sl_descriptor_entry *entry)
{
    if (!sl_str_eq(part->key, entry->key))
        return false;
    switch (part->kind) {
    case SL_PART_EXACT:
        return sl_str_eq(part->value, entry->value);
    case SL_PART_LIKE:
        return sl_value_is_like(part->value, entry->value);
    case SL_PART_ANY:
    case SL_PART_REST:
        break;
    }
    return true;
}

bool sl_descriptor_matches(const struct sl_descriptor *pattern,
                           struct sl_str domain,
                           const struct sl_descriptor_entry *entries,
                           unsigned count)
{
    unsigned parts = pattern->count;
    bool rest = parts > 0 && pattern->parts[parts - 1].kind == SL_PART_REST;

    parts -= rest;
    if (rest ? count < parts : count != parts)
        return false;
    for (unsigned i = 0; i < parts; i++)
        if (!part_matches(&pattern->parts[i], &entries[i]))
            return false;
    return sl_str_eq(pattern->domain, domain);
}

static bool is_open(const struct sl_descriptor_part *part)
{
    return !part->shared &&
           (part->kind == SL_PART_LIKE || part->kind == SL_PART_ANY);
}

/* Append the value. '/', which separates values, '%' and a single '-' are
 * escaped. */
static char *add_value(char *to, struct sl_str value)
{
    static const char digits[] = "0123456789ABCDEF";

    for (size_t i = 0; i < value.len; i++) {
        unsigned char c = (unsigned char)value.at[i];

        if (c != '/' && c != '%' && !(c == '-' && value.len == 1)) {
            *to++ = (char)c;
            continue;
        }
        *to++ = '%';
        *to++ = digits[c >> 4];
        *to++ = digits[c & 15];
    }
    return to;
}

char *sl_descriptor_id(const struct sl_descriptor *pattern,
                       const struct sl_descriptor_entry *entries,
                       unsigned count, struct sl_arena *arena)
{
    bool first = true;
    size_t size = 2;
    char *id, *at;

    for (unsigned i = 0; i < count && i < pattern->count; i++)
        size += 3 * entries[i].value.len + 1;
    id = at = sl_arena_take(arena, size);
    if (!id)
        return NULL;
    for (unsigned i = 0; i < count && i < pattern->count; i++) {
        if (!is_open(&pattern->parts[i]))
            continue;
        if (!first)
            *at++ = '/';
        first = false;
        at = add_value(at, entries[i].value);
    }
    if (at == id)
        *at++ = '-';
    *at = '\0';
    return id;
}
