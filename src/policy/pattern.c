/* pattern.c -- what a route matches: methods and a path with wildcards.
 *
 *     GET,HEAD /api/shares/:id/(2 stars)
 *     |        |           |   |
 *     |        |           |   all below, and nothing too; last only
 *     |        |           one segment, with a name; or a star, without
 *     |        words, compared without case
 *     methods; none means any
 *
 * A word of a pattern is written like a path in a request and decoded in the
 * same way, so that %20 and %2a can be matched. Whatever no canonical path
 * (path.h) can ever contain is refused, for such a route would never be taken
 * and nobody would be told.
 */
#include "policy/route.h"

#include <string.h>

#include "base/digits.h"

#define LIKE "Write it like GET /api/items/:id"

/* For "%.*s": what is quoted of a text that may be long. */
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

/* Where a part of the text begins. */
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

    sl_hint(r->diag, "%.*s%.*s%.*s", SL_STR_ARG(before), SL_STR_ARG(words),
            SL_STR_ARG(behind));
}

/* ---- methods ---- */

static int refuse_method(const struct reading *r, struct sl_str name)
{
    const char *meant =
        sl_str_nearest(name, method_names, SL_LEN(method_names));

    if (name.len == 0)
        return sl_refuse_at(r->diag, SLUICE_ECONF, offset(r, name),
                            "Missing method. Separate methods by commas "
                            "without spaces, like GET,POST /path");
    sl_refuse_at(r->diag, SLUICE_ECONF, offset(r, name),
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

/* There is no slash where the path should begin, at `from`; or no blank before
 * it, as in GET/api. */
static int refuse_head(const struct reading *r, size_t from)
{
    struct sl_str path = sl_str_from(r->text, from), word = path;
    const char *slash = memchr(path.at, '/', path.len);

    sl_refuse_at(r->diag, SLUICE_ECONF, from,
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

/* Read what is before the path, and find the path. */
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

/* Bytes that no canonical path has, or that surely mean something else. */
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
            return sl_refuse_at(r->diag, SLUICE_ECONF,
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
        return sl_refuse_at(r->diag, SLUICE_ECONF, at,
                            "\"%.*s\" has an escape for a slash, a backslash "
                            "or NUL. No segment of a path can contain these",
                            QUOTE(raw));
    if (sl_str_eq(word, SL_STR(".")) || sl_str_eq(word, SL_STR("..")))
        return sl_refuse_at(r->diag, SLUICE_ECONF, at,
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
        return sl_refuse_at(r->diag, SLUICE_ECONF, offset(r, raw),
                            "Invalid segment name \"%.*s\". Write it like "
                            ":id, or write * for a segment without a name",
                            QUOTE(raw));
    *ret = (struct sl_segment){.kind = SL_SEGMENT_ONE, .word = decode(r, name)};
    return 0;
}

/* {id}, as OpenAPI and Spring have it. */
static int refuse_braces(const struct reading *r, struct sl_str raw)
{
    struct sl_str name = {raw.at + 1, raw.len - 2};
    char with_colon[64];

    sl_refuse_at(r->diag, SLUICE_ECONF, offset(r, raw),
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
        return sl_refuse_at(r->diag, SLUICE_ECONF, offset(r, raw),
                            "** matches all remaining segments, so it must be "
                            "last. Write * for one segment");
    if (sl_str_eq(raw, SL_STR("**")))
        *segment = (struct sl_segment){.kind = SL_SEGMENT_REST};
    else if (sl_str_eq(raw, SL_STR("*")))
        *segment = (struct sl_segment){.kind = SL_SEGMENT_ONE};
    else if (has(raw, '*'))
        return sl_refuse_at(r->diag, SLUICE_ECONF, offset(r, raw),
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
    sl_refuse_at(r->diag, SLUICE_ECONF, offset(r, slash),
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
            return sl_refuse_at(r->diag, SLUICE_ECONF, offset(r, raw),
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

/* What must be right before anything is read. */
static int check_text(struct sl_str text, struct sl_diag *diag)
{
    struct sl_str bare = sl_str_trim(text);

    if (bare.len == 0)
        return sl_refuse(diag, SLUICE_ECONF, "Missing pattern. " LIKE);
    if (text.len > SL_PATH_BYTES)
        return sl_refuse(diag, SLUICE_ECONF,
                         "A pattern can have at most %d bytes, not %zu",
                         SL_PATH_BYTES, text.len);
    if (bare.len == text.len)
        return 0;
    sl_refuse_at(diag, SLUICE_ECONF, bare.at > text.at ? 0 : bare.len,
                 "Pattern \"%.*s\" begins or ends with spaces", QUOTE(bare));
    sl_hint(diag, "%.*s", SL_STR_ARG(bare));
    return SLUICE_ECONF;
}

/* One of 64 bits for each word and where it stands, without case. What covers
 * a pattern has no bit that the pattern lacks, which tells most pairs of a
 * policy's routes apart without a look at their words. */
static uint64_t word_bits(const struct sl_pattern *p)
{
    uint64_t bits = 0;

    for (unsigned i = 0; i < p->count; i++) {
        const struct sl_segment *s = &p->segments[i];
        uint64_t h = i + 1;

        if (s->kind != SL_SEGMENT_WORD)
            continue;
        for (size_t k = 0; k < s->word.len; k++)
            h = (h ^ ((uint8_t)s->word.at[k] | 0x20u)) *
                UINT64_C(0x9e3779b97f4a7c15);
        bits |= UINT64_C(1) << (h >> 58);
    }
    return bits;
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
    r.pattern.words = word_bits(&r.pattern);
    *ret = r.pattern;
    return 0;
}

/* ---- matching ---- */

/* How many segments are there, the rest not counted? */
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
    unsigned wide_fixed, narrow_fixed;

    if ((wide->words & ~narrow->words) || (narrow->methods & ~wide->methods))
        return false;
    wide_fixed = fixed_count(wide);
    narrow_fixed = fixed_count(narrow);
    if (narrow_fixed < wide_fixed)
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
