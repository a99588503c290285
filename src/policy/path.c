/* path.c -- one canonical form of a request path.
 *
 * One walk from left to right. Each byte either belongs to the segment being
 * written, or ends it, or ends the path:
 *
 *     plain byte            written, unless inside ;parameters
 *     ; (not %3b)           parameters begin; they last to the next slash
 *     / \ %2f %5c           the segment is over
 *     ? # NUL %00           the path is over
 *     %XX                   the byte it stands for; it is not looked at again,
 *                           so %252e is the text %2e and not a dot
 *
 * When a segment is over, it is dropped (empty, `.`), takes its parent away
 * (`..`) or stays. What is dropped gives its room back, so that no number of
 * detours uses any up.
 *
 * Where servers differ, the reading is the one that more of them share by
 * default: a %2f ends parameters (nginx and IIS decode before they look), a
 * `..;x` is a `..` (Tomcat).
 *
 * Work is linear in the text. Invariants. (test/unit/policy/path.c)
 *   (1) No segment is empty, `.` or `..`, or has a slash or a NUL in it; but
 *       one that found no room any more is empty.
 *   (2) Reading what was printed gives the same path, but for bytes that need
 *       an escape.
 *   (3) count is exact up to SL_PATH_SEGMENTS, wherever the path has been in
 *       between: sixty detours up and down again are no detours.
 */
#include "policy/path.h"

#include <string.h>

enum kind { PLAIN, SLASH, PERCENT, PARAMETERS, END };

static const uint8_t kinds[256] = {
    ['/'] = SLASH, ['\\'] = SLASH, ['%'] = PERCENT, [';'] = PARAMETERS,
    ['?'] = END,   ['#'] = END,    ['\0'] = END,
};

struct walk {
    struct sl_path *path;
    char *room;
    size_t used;  /* bytes of room that are kept */
    size_t start; /* of the segment being written */
    size_t len;   /* of that segment; if it does not fit, it was not written */
    size_t depth; /* as if there were no SL_PATH_SEGMENTS */
    char head[2]; /* the first bytes of the segment: dots count, fit or not */
    bool parameters;
};

static int hex_value(unsigned char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The byte of an escape at text.at[i], or -1 if it is none. */
static int escaped(struct sl_str text, size_t i)
{
    int high, low;

    if (text.len - i < 3)
        return -1;
    high = hex_value((unsigned char)text.at[i + 1]);
    low = hex_value((unsigned char)text.at[i + 2]);
    return high < 0 || low < 0 ? -1 : high << 4 | low;
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

        if (kind == SLASH || kind == END)
            break;
    }
    return sl_str_from(text, i);
}

static void put(struct walk *w, const char *bytes, size_t count)
{
    size_t end = w->start + w->len;

    if (w->parameters || count == 0)
        return;
    for (size_t i = 0; i < count && w->len + i < sizeof(w->head); i++)
        w->head[w->len + i] = bytes[i];
    if (end <= SL_PATH_BYTES && count <= SL_PATH_BYTES - end)
        memcpy(w->room + end, bytes, count);
    w->len += count;
}

static void go_up(struct walk *w)
{
    if (w->depth == 0)
        return;
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
    }
    w->depth++;
}

/* The segment is over. */
static void close_segment(struct walk *w)
{
    if (w->len == 2 && w->head[0] == '.' && w->head[1] == '.')
        go_up(w);
    else if (w->len > 1 || (w->len == 1 && w->head[0] != '.'))
        go_down(w);
    w->start = w->used;
    w->len = 0;
    w->parameters = false;
}

/* Read the '%' at `i`. Returns how many bytes were read; 0 if the path ends
 * here. */
static size_t read_percent(struct walk *w, struct sl_str text, size_t i)
{
    int c = escaped(text, i);
    char byte = (char)c;

    if (c < 0) {
        put(w, "%", 1);
        return 1;
    }
    if (c == 0)
        return 0;
    if (is_slash(byte))
        close_segment(w);
    else
        put(w, &byte, 1);
    return 3;
}

static void walk(struct walk *w, struct sl_str text)
{
    size_t i = 0, run, read;

    while (i < text.len) {
        for (run = i; run < text.len; run++)
            if (kinds[(unsigned char)text.at[run]] != PLAIN)
                break;
        put(w, text.at + i, run - i);
        i = run;
        if (i == text.len)
            break;
        switch (kinds[(unsigned char)text.at[i]]) {
        case SLASH:
            close_segment(w);
            i++;
            break;
        case PARAMETERS:
            w->parameters = true;
            i++;
            break;
        case PERCENT:
            read = read_percent(w, text, i);
            if (read == 0)
                return;
            i += read;
            break;
        default:
            return;
        }
    }
}

void sl_path_read(struct sl_str text, char *room, struct sl_path *ret)
{
    struct walk w = {.path = ret, .room = room};

    walk(&w, without_host(text));
    close_segment(&w);
    ret->deep = w.depth > SL_PATH_SEGMENTS;
    ret->count = ret->deep ? SL_PATH_SEGMENTS : (unsigned)w.depth;
}

size_t sl_path_print(const struct sl_path *path, char *out, size_t size)
{
    size_t len = 0;

    if (size == 0)
        return 0;
    for (unsigned i = 0; i < path->count && len < size - 1; i++) {
        size_t part = path->segment[i].len;

        out[len++] = '/';
        if (part > size - 1 - len)
            part = size - 1 - len;
        if (part > 0)
            memcpy(out + len, path->segment[i].at, part);
        len += part;
    }
    if (path->count == 0 && len < size - 1)
        out[len++] = '/';
    out[len] = '\0';
    return len;
}
