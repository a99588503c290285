/* path.c -- one canonical form of a request path, and its other readings.
 *
 * The text is read once, from left to right. Each byte belongs to the current
 * segment, ends it, or ends the path. The canonical reading:
 *
 *     plain byte            written, unless inside ;parameters
 *     ; (not %3b)           parameters begin; they last to the next slash
 *     / \ %2f %5c           the segment is over
 *     ? # NUL %00           the path is over
 *     %XX                   the decoded byte, decoded once: %252e gives %2e
 *
 * A complete segment is dropped (empty, `.`), removes its parent (`..`) or
 * stays. The room of a dropped segment is used again.
 *
 * Where servers differ, the canonical reading is the most common default: a %2f
 * ends parameters (nginx and IIS decode first), `..;x` is `..` (Tomcat). Other
 * readings have fewer of these rules; `readings` lists the servers of each. A
 * path of plain bytes, slashes and harmless escapes is the same in all
 * readings, and is read once.
 *
 * Linear in the text. Invariants. (test/unit/policy/path.c)
 *   (1) No canonical segment is empty, `.` or `..`, or has a slash or a NUL in
 *       it; a segment without room is empty.
 *   (2) Reading what was printed gives the same path, but for bytes that need
 *       an escape.
 *   (3) count is exact up to SL_PATH_SEGMENTS, whatever `..` has removed.
 *   (4) If the canonical reading met nothing odd, all readings are the same.
 */
#include <string.h>

#include "base/sixteen.h"
#include "policy/route.h"

enum kind {
    PLAIN,
    SLASH,
    BACKSLASH,
    PERCENT,
    SEMICOLON,
    QUERY,
    NUMBER_SIGN,
    NUL
};

static const uint8_t kinds[256] = {
    ['/'] = SLASH, ['\\'] = BACKSLASH,  ['%'] = PERCENT, [';'] = SEMICOLON,
    ['?'] = QUERY, ['#'] = NUMBER_SIGN, ['\0'] = NUL,
};

enum habit {
    ESCAPED_SLASH = 1 << 0,      /* %2f is a slash */
    BACKWARD = 1 << 1,           /* so is a backslash */
    ESCAPED_BACKWARD = 1 << 2,   /* and %5c */
    PARAMETERS = 1 << 3,         /* ;parameters are dropped */
    ESCAPED_PARAMETERS = 1 << 4, /* also behind %3b */
    FRAGMENT = 1 << 5,           /* the path ends before a number sign */
    C_STRING = 1 << 6,           /* and before a NUL and a %00 */
    DOTS = 1 << 7,               /* dot segments are resolved */
    EMPTY = 1 << 8,              /* `..` may take an empty segment away */
    AUTHORITY = 1 << 9,          /* what follows two slashes is a host */
    TWICE = 1 << 10,             /* escapes are decoded twice, and %uXXXX */
};

#define CANONICAL                                                              \
    (ESCAPED_SLASH | BACKWARD | ESCAPED_BACKWARD | PARAMETERS | FRAGMENT |     \
     C_STRING | DOTS)

static const unsigned readings[SL_PATH_READINGS] = {
    CANONICAL,
    /* Go (path.Clean), and routers that decode segments behind a proxy that
     * cleans */
    DOTS,
    /* Express, chi, Go's patterns with wildcards: nothing is cleaned */
    0,
    /* nginx, Apache: decoded as a whole, then cleaned */
    ESCAPED_SLASH | FRAGMENT | DOTS,
    /* Django, Flask, FastAPI, Symfony: decoded as a whole, not cleaned */
    ESCAPED_SLASH | FRAGMENT,
    /* IIS */
    ESCAPED_SLASH | BACKWARD | ESCAPED_BACKWARD | FRAGMENT | DOTS,
    /* Tomcat, Undertow, where they let %2f pass */
    PARAMETERS | FRAGMENT | DOTS,
    /* Spring WebFlux */
    PARAMETERS | FRAGMENT,
    /* nginx that hands what it decoded to one of these */
    CANONICAL | ESCAPED_PARAMETERS,
    /* Kestrel: RFC 3986 to the letter */
    DOTS | EMPTY,
    /* new URL() of Node and Deno, Envoy: as browsers do */
    BACKWARD | FRAGMENT | DOTS | EMPTY | AUTHORITY,
    /* IIS with %uXXXX or allowDoubleEscaping, and servers behind a proxy that
     * hands on what it decoded */
    CANONICAL | TWICE,
};

struct walk {
    struct sl_path *path;
    char *room;
    unsigned habits;
    bool odd; /* another reading may differ */
    bool parameters;
    bool word;     /* the segment has a first or last byte that is no dot */
    size_t used;   /* bytes of room that are kept */
    size_t start;  /* of the segment being written */
    size_t len;    /* of that segment; if it does not fit, it was not written */
    size_t depth;  /* as if there were no SL_PATH_SEGMENTS */
    size_t *empty; /* EMPTY: how many there are at each depth up to this one;
                    * further down it is all zeros */
};

/* The byte of an escape at text.at[i], or -1 if it is none. */
static int escaped(struct sl_str text, size_t i)
{
    int high, low;

    if (text.len - i < 3)
        return -1;
    high = sl_hex_value(text.at[i + 1]);
    low = sl_hex_value(text.at[i + 2]);
    return high < 0 || low < 0 ? -1 : high << 4 | low;
}

/* The byte of %u0061 or, as IIS reads it, of the wide letter %uff41. */
static int escaped_wide(struct sl_str text, size_t i)
{
    int value = 0;

    if (text.len - i < 6 || (text.at[i + 1] | 0x20) != 'u')
        return -1;
    for (size_t k = i + 2; k < i + 6; k++) {
        int digit = sl_hex_value(text.at[k]);

        if (digit < 0)
            return -1;
        value = value << 4 | digit;
    }
    if (value >= 0xff01 && value <= 0xff5e)
        value -= 0xfee0;
    return value < 0x80 ? value : -1;
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_slash(char c)
{
    return c == '/' || c == '\\';
}

/* http://host:80/path loses what is before its path. */
static struct sl_str without_host(struct sl_str text)
{
    size_t i = 0;

    if (text.len == 0 || !is_letter(text.at[0]))
        return text;
    while (i < text.len &&
           (is_letter(text.at[i]) || (text.at[i] >= '0' && text.at[i] <= '9') ||
            text.at[i] == '+' || text.at[i] == '-' || text.at[i] == '.'))
        i++;
    if (text.len - i < 3 || text.at[i] != ':' || !is_slash(text.at[i + 1]) ||
        !is_slash(text.at[i + 2]))
        return text;
    for (i += 3; i < text.len; i++) {
        uint8_t kind = kinds[(unsigned char)text.at[i]];

        if (kind != PLAIN && kind != PERCENT && kind != SEMICOLON)
            break;
    }
    return sl_str_from(text, i);
}

static bool has_authority(struct sl_str text)
{
    return text.len > 1 && is_slash(text.at[0]) && is_slash(text.at[1]);
}

/* A program that reads this as a reference sees //host/path, with any number of
 * slashes. */
static struct sl_str without_authority(struct sl_str text)
{
    size_t i = 0;

    while (i < text.len && is_slash(text.at[i]))
        i++;
    while (i < text.len && !is_slash(text.at[i]) && text.at[i] != '?' &&
           text.at[i] != '#')
        i++;
    return sl_str_from(text, i);
}

static void put(struct walk *w, const char *bytes, size_t count)
{
    size_t end = w->start + w->len;

    if (w->parameters)
        return;
    if (bytes[0] != '.' || bytes[count - 1] != '.')
        w->word = true;
    if (end + count <= SL_PATH_BYTES) /* both are of texts in memory */
        memcpy(w->room + end, bytes, count);
    w->len += count;
}

static void go_up(struct walk *w)
{
    if (w->depth == 0)
        return;
    if (w->empty && w->depth <= SL_PATH_SEGMENTS && w->empty[w->depth] > 0) {
        w->empty[w->depth]--;
        return;
    }
    w->depth--;
    if (w->depth < SL_PATH_SEGMENTS)
        w->used = (size_t)(w->path->segment[w->depth].at - w->room);
}

static void go_down(struct walk *w)
{
    bool fits = w->len <= SL_PATH_BYTES - w->start;

    if (w->depth < SL_PATH_SEGMENTS) {
        w->path->segment[w->depth].at = w->room + w->start;
        w->path->segment[w->depth].len = fits ? w->len : 0;
        if (fits)
            w->used += w->len;
        else
            w->path->cut = true;
    }
    w->depth++;
}

/* Beyond the segments that are kept only the depth counts, and there an empty
 * one is as deep as another. */
static void pass_empty(struct walk *w)
{
    if (w->empty && w->depth <= SL_PATH_SEGMENTS)
        w->empty[w->depth]++;
    else if (w->empty)
        w->depth++;
}

static bool is_dots(const struct walk *w)
{
    return w->len <= 2 && !w->word;
}

static void close_dots(struct walk *w)
{
    w->odd = true;
    if (!(w->habits & DOTS))
        go_down(w);
    else if (w->len == 2)
        go_up(w);
}

/* The segment is over. */
static void close_segment(struct walk *w)
{
    if (w->len == 0)
        pass_empty(w);
    else if (is_dots(w))
        close_dots(w);
    else
        go_down(w);
    w->start = w->used;
    w->len = 0;
    w->parameters = false;
    w->word = false;
}

/* Read a byte that servers take differently: it is plain or, if `is_escape`,
 * was an escape. Returns false if the path ends here. */
static bool read_odd(struct walk *w, char byte, bool is_escape)
{
    unsigned habits = w->habits;

    w->odd = true;
    switch (kinds[(unsigned char)byte]) {
    case SLASH:
        habits &= ESCAPED_SLASH;
        break;
    case BACKSLASH:
        habits &= is_escape ? ESCAPED_BACKWARD : BACKWARD;
        break;
    case SEMICOLON:
        if (!(habits & (is_escape ? ESCAPED_PARAMETERS : PARAMETERS)))
            put(w, &byte, 1);
        else
            w->parameters = true;
        return true;
    default:
        if (habits & (byte == '#' ? FRAGMENT : C_STRING))
            return false;
        habits = 0;
    }
    if (habits)
        close_segment(w);
    else
        put(w, &byte, 1);
    return true;
}

/* The byte at `i`, decoded once. *len is that of its spelling. */
static int decoded(struct sl_str text, size_t i, size_t *len)
{
    int c = -1;

    *len = 1;
    if (i >= text.len)
        return -1;
    if (text.at[i] != '%')
        return (unsigned char)text.at[i];
    c = escaped(text, i);
    if (c >= 0) {
        *len = 3;
        return c;
    }
    c = escaped_wide(text, i);
    if (c >= 0)
        *len = 6;
    return c < 0 ? '%' : c;
}

/* TWICE: the byte at the '%' at `i`, or -1 if it is a percent sign. */
static int decoded_twice(struct sl_str text, size_t i, size_t *len)
{
    size_t high_len, low_len;
    int c = decoded(text, i, len), high, low;

    if (c != '%')
        return c;
    high = decoded(text, i + *len, &high_len);
    low = decoded(text, i + *len + high_len, &low_len);
    if (high < 0 || low < 0 || sl_hex_value((char)high) < 0 ||
        sl_hex_value((char)low) < 0)
        return -1;
    *len += high_len + low_len;
    return sl_hex_value((char)high) << 4 | sl_hex_value((char)low);
}

/* Read the '%' at `i`. Returns how many bytes were read; 0 if the path ends
 * here. */
static size_t read_percent(struct walk *w, struct sl_str text, size_t i)
{
    size_t len = 3;
    int c = w->habits & TWICE ? decoded_twice(text, i, &len) : escaped(text, i);
    char byte = (char)c;

    if (c < 0 || byte == '%')
        w->odd = true; /* TWICE may read more */
    if (c < 0) {
        put(w, "%", 1);
        return w->habits & TWICE ? len : 1;
    }
    switch (kinds[c]) {
    case SLASH:
    case BACKSLASH:
    case SEMICOLON:
    case NUL:
        return read_odd(w, byte, true) ? len : 0;
    default: /* no server ends a path at a %3f or %23 */
        put(w, &byte, 1);
        return len;
    }
}

/* Read what is neither plain nor a slash; returns as read_percent() does. */
static size_t read_special(struct walk *w, struct sl_str text, size_t i)
{
    switch (kinds[(unsigned char)text.at[i]]) {
    case PERCENT:
        return read_percent(w, text, i);
    case QUERY:
        return 0;
    default:
        return read_odd(w, text.at[i], false) ? 1 : 0;
    }
}

static void walk(struct walk *w, struct sl_str text)
{
    size_t i, run, read = 1;

    for (i = 0; read > 0; i = run + read) {
        for (run = i; run < text.len; run++)
            if (kinds[(unsigned char)text.at[run]] != PLAIN)
                break;
        if (run > i)
            put(w, text.at + i, run - i);
        if (run == text.len)
            break;
        read = 1;
        if (text.at[run] == '/')
            close_segment(w);
        else
            read = read_special(w, text, run);
    }
}

/* Read a text without its host. */
static void read_as(struct walk *w, struct sl_str text)
{
    w->path->cut = false;
    walk(w, text);
    close_segment(w);
    w->path->deep = w->depth > SL_PATH_SEGMENTS;
    w->path->count =
        w->depth > SL_PATH_SEGMENTS ? SL_PATH_SEGMENTS : (unsigned)w->depth;
}

void sl_path_read(struct sl_str text, char *room, struct sl_path *ret)
{
    struct walk w = {.path = ret, .room = room, .habits = CANONICAL};

    read_as(&w, without_host(text));
}

static bool is_same(const struct sl_path *a, const struct sl_path *b)
{
    if (a->count != b->count || a->deep != b->deep || a->cut != b->cut)
        return false;
    for (unsigned i = 0; i < a->count; i++)
        if (!sl_str_eq(a->segment[i], b->segment[i]))
            return false;
    return true;
}

static bool is_among(const struct sl_path *list, unsigned count,
                     const struct sl_path *path)
{
    for (unsigned i = 0; i < count; i++)
        if (is_same(&list[i], path))
            return true;
    return false;
}

/* Read it with these rules. */
static void read_again(unsigned habits, struct sl_str text, char *room,
                       struct sl_path *ret)
{
    size_t empty[SL_PATH_SEGMENTS + 1] = {0};
    struct walk w = {.path = ret, .room = room, .habits = habits};

    if (habits & EMPTY)
        w.empty = empty;
    if ((habits & AUTHORITY) && has_authority(text))
        text = without_authority(text);
    read_as(&w, text);
}

/* Add the readings that differ from the first. Returns their number. */
static unsigned add_readings(struct sl_str text, char *room, size_t size,
                             struct sl_path ret[SL_PATH_READINGS])
{
    unsigned count = 1;

    for (unsigned i = 1; i < SL_PATH_READINGS; i++) {
        read_again(readings[i], text, room + count * size, &ret[count]);
        if (!is_among(ret, count, &ret[count]))
            count++;
    }
    return count;
}

/* The next byte from `i` on that is not plain, or the end. */
static inline size_t skip_plain(struct sl_str text, size_t i)
{
    for (;;) {
        size_t left = text.len - i, run;
        sl_sixteen v = left < 16 ? sl_sixteen_load_few(text.at + i, left)
                                 : sl_sixteen_load(text.at + i);

        /* A NUL is not plain: it ends fewer than sixteen bytes. */
        run = sl_sixteen_first(
            (sl_sixteen)((v == '/') | (v == '\\') | (v == '%') | (v == ';') |
                         (v == '?') | (v == '#') | (v == 0)));
        i += run;
        if (run < 16)
            return i;
    }
}

/* Is the path already canonical? It begins with a slash, has no two in a row
 * and none at its end, no segment that begins with a dot, and only plain bytes
 * before a query. */
static bool read_plain(struct sl_str text, struct sl_path *ret)
{
    size_t start = 1, i = 1;
    uint8_t kind;

    if (text.len < 2 || text.at[0] != '/' || text.len > SL_PATH_BYTES)
        return false;
    ret->count = 0;
    ret->deep = ret->cut = false;
    do {
        i = skip_plain(text, i);
        kind = i < text.len ? kinds[(unsigned char)text.at[i]] : QUERY;
        if (i == start || text.at[start] == '.' ||
            (kind != SLASH && kind != QUERY) || ret->count == SL_PATH_SEGMENTS)
            return false;
        ret->segment[ret->count++] =
            (struct sl_str){text.at + start, i - start};
        start = ++i;
    } while (kind == SLASH);
    return true;
}

unsigned sl_path_readings(struct sl_str text, char *room,
                          struct sl_path ret[SL_PATH_READINGS])
{
    struct walk w = {.path = ret, .room = room, .habits = CANONICAL};
    struct sl_str rest;

    if (read_plain(text, ret))
        return 1; /* (4) */
    rest = without_host(text);
    read_as(&w, rest);
    if (!w.odd && !has_authority(rest))
        return 1; /* (4) */
    return add_readings(
        rest, room, text.len < SL_PATH_BYTES ? text.len : SL_PATH_BYTES, ret);
}
