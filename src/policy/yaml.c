/* yaml.c -- text to a tree of nodes with positions.
 *
 *     bytes ----> events ----> nodes
 *       |           |            |
 *       |           |            duplicates, substitutions, empty values
 *       |           anchors, aliases, tags, depth, count
 *       size, UTF-8, control characters, directives
 *
 * Events are taken from libfyaml one by one. What would be dangerous is refused
 * before nodes are built: nothing is resolved, and depth and count have limits.
 * libfyaml writes nothing to the terminal: its diagnostics are collected.
 *
 * Positions come from libfyaml's offsets, which count bytes, and an index of
 * the lines: its columns count characters. An empty item and the head of a
 * block of text have no token. They are searched for behind the last token.
 */
#include "policy/yaml.h"

#include <errno.h>
#include <libfyaml.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/parse.h"

/* A collection that is open. */
struct frame {
    struct sl_yaml_node *node;
    struct sl_yaml_node **tail; /* where the next child goes */
    bool is_key;                /* in place of a key; reported */

    /* In a map, of the next child: */
    bool has_key;
    bool drop; /* its key was refused */
    struct sl_str key;
    struct sl_source_pos key_place;
};

struct reader {
    struct sl_report *report;
    struct sl_arena *arena;
    struct sl_subst subst;
    struct sl_str text;
    uint32_t *lines; /* where each line begins */
    size_t line_count;
    struct fy_diag *diag;
    struct fy_parser *parser;
    struct sl_yaml_node *root;
    struct frame stack[SL_YAML_DEPTH];
    unsigned depth;
    unsigned nodes;
    size_t seen; /* the end of the last token */
    bool over;   /* the end of the stream */
    bool stop;   /* stop without a root; reported */
};

static void no_memory(struct reader *r)
{
    r->report->no_memory = r->stop = true;
}

/* ---- the file as bytes and lines, before and beside its YAML. */

#define BLANK_LINES 100 /* in a row */

static bool index_lines(struct reader *r)
{
    size_t count = 1, n = 0;

    for (size_t i = 0; i < r->text.len; i++)
        count += r->text.at[i] == '\n';
    r->lines = sl_alloc_new(r->report->alloc, count * sizeof(*r->lines));
    if (!r->lines)
        return false;
    r->line_count = count;
    r->lines[n++] = 0;
    for (size_t i = 0; i < r->text.len; i++)
        if (r->text.at[i] == '\n')
            r->lines[n++] = (uint32_t)(i + 1);
    return true;
}

static struct sl_source_pos pos_of(const struct reader *r, size_t at)
{
    size_t low = 0, high = r->line_count;

    if (at > r->text.len)
        at = r->text.len;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;

        if (r->lines[middle] <= at)
            low = middle;
        else
            high = middle;
    }
    return (struct sl_source_pos){(unsigned)low + 1,
                                  (unsigned)(at - r->lines[low]) + 1};
}

/* Report an error at an offset. */
static struct sl_diag *error_at(struct reader *r, size_t at, const char *fmt,
                                ...) SL_PRINTF(3, 4);

static struct sl_diag *error_at(struct reader *r, size_t at, const char *fmt,
                                ...)
{
    struct sl_diag *diag;
    va_list args;

    va_start(args, fmt);
    diag = sl_report_add(r->report, pos_of(r, at), false, fmt, args);
    va_end(args);
    return diag;
}

static size_t offset_at(const struct reader *r, unsigned line, unsigned column)
{
    size_t at;

    if (line > r->line_count)
        return r->text.len;
    at = r->lines[line - 1];
    for (; column > 1 && at < r->text.len && r->text.at[at] != '\n'; column--)
        do
            at++;
        while (at < r->text.len && (r->text.at[at] & 0xc0) == 0x80);
    return at;
}

static size_t find_behind(const struct reader *r, const char *wanted)
{
    bool comment = false;

    for (size_t i = r->seen; i < r->text.len; i++) {
        char c = r->text.at[i];

        if (c == '\n')
            comment = false;
        else if (c == '#' && i > 0 && strchr(" \t\n", r->text.at[i - 1]))
            comment = true;
        else if (!comment && strchr(wanted, c))
            return i;
    }
    return r->seen;
}

static bool check_bytes(struct reader *r)
{
    struct sl_utf8_fault bad = sl_utf8_check(r->text);
    char words[64];

    if (!bad.fault)
        return true;
    if (r->text.len >= 2 && bad.at == 0 &&
        (!memcmp(r->text.at, "\xff\xfe", 2) ||
         !memcmp(r->text.at, "\xfe\xff", 2)))
        sl_report_error(r->report, (struct sl_source_pos){1, 1},
                        "The file is UTF-16. Save it as UTF-8");
    else
        error_at(r, bad.at, "Found %s. A policy must be plain text in UTF-8",
                 sl_utf8_words(&bad, words));
    return false;
}

/* libfyaml's time is quadratic in the length of a directive. */
static bool check_directives(struct reader *r)
{
    for (size_t i = 0; i < r->line_count; i++) {
        size_t at = r->lines[i];

        if (at < r->text.len && r->text.at[at] == '%') {
            error_at(r, at,
                     "A policy has no YAML directives. Remove this line");
            return false;
        }
    }
    return true;
}

static bool is_blank_line(const struct reader *r, size_t line)
{
    size_t at = r->lines[line];

    while (at < r->text.len && strchr(" \t\r", r->text.at[at]))
        at++;
    return at == r->text.len || r->text.at[at] == '\n';
}

/* libfyaml's time is quadratic in blank lines inside a text, too. */
static bool check_blank_lines(struct reader *r)
{
    size_t run = 0;

    for (size_t i = 0; i < r->line_count; i++) {
        run = is_blank_line(r, i) ? run + 1 : 0;
        if (run > BLANK_LINES) {
            error_at(r, r->lines[i],
                     "More than %d blank lines in a row. Remove some",
                     BLANK_LINES);
            return false;
        }
    }
    return true;
}

static bool check_text(struct reader *r)
{
    return check_bytes(r) && check_directives(r) && check_blank_lines(r);
}

/* ---- strings in single quotes.
 *
 * libfyaml 0.7.12 can return a wrong text and leak memory if such a string has
 * more than eight doubled quotes. Two quotes are one, and a line end with the
 * blanks around it is a space, or as many line ends as blank lines follow.
 */

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* The end of the string whose first byte is at `from`. */
static size_t find_end(struct sl_str text, size_t from)
{
    size_t at = from;

    for (; at < text.len; at++) {
        if (text.at[at] != '\'')
            continue;
        if (at + 1 >= text.len || text.at[at + 1] != '\'')
            return at;
        at++;
    }
    return text.len;
}

/* Pass the line ends at *at and the blanks behind them; returns how many. */
static unsigned pass_lines(struct sl_str text, size_t *at)
{
    unsigned lines = 0;

    for (; *at < text.len; (*at)++) {
        if (text.at[*at] == '\n')
            lines++;
        else if (!is_blank(text.at[*at]))
            break;
    }
    return lines;
}

/* Write what `text` says to `out`, which is never longer; returns its length.
 */
static size_t unfold(struct sl_str text, char *out)
{
    size_t len = 0;

    for (size_t at = 0; at < text.len;) {
        if (text.at[at] == '\n') {
            unsigned lines = pass_lines(text, &at);

            while (len > 0 && is_blank(out[len - 1]))
                len--;
            if (lines == 1)
                out[len++] = ' ';
            for (; lines > 1; lines--)
                out[len++] = '\n';
            continue;
        }
        out[len++] = text.at[at];
        at += text.at[at] == '\'' ? 2 : 1;
    }
    return len;
}

static bool read_single(struct reader *r, size_t from, struct sl_str *ret)
{
    struct sl_str text = {r->text.at + from, find_end(r->text, from) - from};
    char *out = sl_arena_take(r->arena, text.len + 1);
    size_t len;

    if (!out)
        return false;
    len = unfold(text, out);
    out[len] = '\0';
    *ret = (struct sl_str){out, len};
    return true;
}

/* ---- nodes. Duplicate keys are found by sorting: a map can have a hundred
 * thousand children. */

void sl_yaml_node_refuse(struct sl_yaml_node *node)
{
    node->kind = SL_NODE_EMPTY;
    node->refused = true;
    node->child = NULL;
    node->count = 0;
}

struct sl_yaml_node *sl_yaml_node_get(const struct sl_yaml_node *map,
                                      const char *key)
{
    struct sl_str name = sl_str_c(key);

    if (!map || map->kind != SL_NODE_MAP)
        return NULL;
    for (struct sl_yaml_node *n = map->child; n; n = n->next)
        if (sl_str_eq(n->key, name))
            return n;
    return NULL;
}

static int compare_keys(const struct sl_yaml_node *a,
                        const struct sl_yaml_node *b)
{
    size_t len = a->key.len < b->key.len ? a->key.len : b->key.len;
    int order = memcmp(a->key.at, b->key.at, len);

    if (order)
        return order;
    return (a->key.len > b->key.len) - (a->key.len < b->key.len);
}

static int compare(const void *left, const void *right)
{
    const struct sl_yaml_node *a = *(struct sl_yaml_node *const *)left;
    const struct sl_yaml_node *b = *(struct sl_yaml_node *const *)right;
    struct sl_source_pos p = a->key_place, q = b->key_place;
    int order = compare_keys(a, b);

    if (order)
        return order;
    if (p.line != q.line)
        return p.line < q.line ? -1 : 1;
    return (p.column > q.column) - (p.column < q.column);
}

/* Report duplicate keys and mark them by a line of 0. False if there are none.
 */
static bool mark_duplicates(struct reader *r, struct sl_yaml_node **list,
                            size_t count)
{
    struct sl_yaml_node *first = list[0];
    bool any = false;

    for (size_t i = 1; i < count; i++) {
        if (compare_keys(first, list[i])) {
            first = list[i];
            continue;
        }
        sl_report_error(r->report, list[i]->key_place,
                        "Duplicate key \"%s\". The first one is on line %u, "
                        "column %u",
                        sl_quote(first->key).text, first->key_place.line,
                        first->key_place.column);
        list[i]->key_place.line = 0;
        any = true;
    }
    return any;
}

static void drop_marked(struct sl_yaml_node *map)
{
    struct sl_yaml_node **link = &map->child;

    while (*link) {
        if ((*link)->key_place.line > 0) {
            link = &(*link)->next;
            continue;
        }
        *link = (*link)->next;
        map->count--;
    }
}

static void drop_duplicates(struct reader *r, struct sl_yaml_node *map)
{
    const struct sl_alloc *alloc = r->report->alloc;
    size_t size = map->count * sizeof(struct sl_yaml_node *);
    struct sl_yaml_node **list;
    size_t count = 0;

    if (map->count < 2)
        return;
    list = sl_alloc_new(alloc, size);
    if (!list) {
        no_memory(r);
        return;
    }
    for (struct sl_yaml_node *n = map->child; n; n = n->next)
        list[count++] = n;
    qsort(list, count, sizeof(struct sl_yaml_node *), compare);
    if (mark_duplicates(r, list, count))
        drop_marked(map);
    sl_alloc_free(alloc, list, size);
}

/* ---- libfyaml.
 *
 * Without memory it can return an empty or cut text, omit a value, or stop
 * without a message. malloc() sets errno, so errno is cleared before every step
 * and checked after it.
 */

/* libfyaml 0.7.12 dereferences NULL without memory for the few hundred bytes of
 * a string. So that much is allocated and freed right before. */
static bool lay_in(void)
{
    const size_t size = (size_t)16 * 1024;
    volatile char *piece = sl_alloc_new(&sl_alloc_libc, size);

    if (!piece)
        return false;
    piece[0] = 0; /* so that the compiler keeps it */
    sl_alloc_free(&sl_alloc_libc, (void *)piece, size);
    return true;
}

static bool open_parser(struct reader *r)
{
    struct fy_diag_cfg diag;
    struct fy_parse_cfg config = {
        .flags = FYPCF_QUIET | FYPCF_COLLECT_DIAG | FYPCF_JSON_NONE |
                 FYPCF_DEFAULT_VERSION_1_2 | FYPCF_SLOPPY_FLOW_INDENTATION,
    };

    fy_diag_cfg_default(&diag);
    diag.fp = NULL;
    diag.output_fn = NULL;
    r->diag = fy_diag_create(&diag);
    if (!r->diag)
        return false;
    fy_diag_set_collect_errors(r->diag, true);
    config.diag = r->diag;
    r->parser = fy_parser_create(&config);
    return r->parser && lay_in() &&
           !fy_parser_set_string(r->parser, r->text.at, r->text.len);
}

static void close_parser(struct reader *r)
{
    if (r->parser)
        fy_parser_destroy(r->parser);
    if (r->diag)
        fy_diag_destroy(r->diag);
}

/* libfyaml refuses a block with the indentation 0 without a message. Returns
 * its offset, or the end of the text. */
static size_t find_unindented(const struct reader *r)
{
    for (size_t i = r->seen; i + 1 < r->text.len; i++) {
        size_t digit = i + 1;

        if (r->text.at[i] != '|' && r->text.at[i] != '>')
            continue;
        if (r->text.at[digit] == '-' || r->text.at[digit] == '+')
            digit++;
        if (digit < r->text.len && r->text.at[digit] == '0')
            return i;
    }
    return r->text.len;
}

/* libfyaml stopped without a message. */
static void explain_silence(struct reader *r)
{
    size_t at = find_unindented(r);

    if (at < r->text.len)
        error_at(r, at,
                 "A text after \"|\" or \">\" is indented by 1 to 9, "
                 "not by 0. Leave the number out");
    else
        r->report->no_memory = true;
    r->stop = true;
}

static struct fy_event *next_event(struct reader *r)
{
    struct fy_event *event;
    void *walk = NULL;

    errno = 0;
    event = fy_parser_parse(r->parser);
    if (errno == ENOMEM)
        no_memory(r);
    else if (!event && !fy_diag_errors_iterate(r->diag, &walk))
        explain_silence(r);
    return event;
}

static bool token_text(struct fy_token *token, struct sl_str *ret)
{
    errno = 0;
    ret->at = fy_token_get_text(token, &ret->len);
    return ret->at && errno != ENOMEM &&
           ret->len == fy_token_get_text_length(token);
}

/* ---- why libfyaml stopped.
 *
 * The messages of libfyaml that users meet are replaced by sentences that say
 * what to do; the others are passed on. For brackets, the position of the
 * opening bracket helps: it is on the stack of the reader.
 */

static char byte_at(const struct reader *r, size_t at)
{
    return at < r->text.len ? r->text.at[at] : '\0';
}

/* The line that `at` stands in. */
static struct sl_str line_around(const struct reader *r, size_t at)
{
    size_t from = at, to = at;

    while (from > 0 && r->text.at[from - 1] != '\n')
        from--;
    while (to < r->text.len && r->text.at[to] != '\n' && r->text.at[to] != '\r')
        to++;
    return (struct sl_str){r->text.at + from, to - from};
}

/* The innermost [ or { that is open, or NULL. */
static const struct sl_yaml_node *open_bracket(const struct reader *r,
                                               char *ret)
{
    for (unsigned i = r->depth; i > 0; i--) {
        const struct sl_yaml_node *node = r->stack[i - 1].node;
        size_t at = r->lines[node->place.line - 1] + node->place.column - 1;

        *ret = byte_at(r, at);
        if (*ret == '[' || *ret == '{')
            return node;
    }
    return NULL;
}

static bool is_end(const struct reader *r, size_t at)
{
    for (; at < r->text.len; at++)
        if (!strchr(" \t\r\n", r->text.at[at]))
            return false;
    return true;
}

static void refuse_flow(struct reader *r, size_t at, const char *message)
{
    char open, close;
    const struct sl_yaml_node *node = open_bracket(r, &open);

    (void)message;
    if (!node) {
        error_at(r, at,
                 "Expected a value here. If this is text, put it in quotes");
        return;
    }
    close = open == '[' ? ']' : '}';
    if (is_end(r, at))
        sl_report_error(r->report, node->place,
                        "This \"%c\" is never closed. Add a \"%c\"", open,
                        close);
    else
        error_at(r, at,
                 "Missing comma or \"%c\" before this. The \"%c\" is on line "
                 "%u, column %u",
                 close, open, node->place.line, node->place.column);
}

static void refuse_quote(struct reader *r, size_t at, const char *message)
{
    char quote = strstr(message, "double") ? '"' : '\'';

    if (byte_at(r, at) != quote && at > 0 && byte_at(r, at - 1) == quote)
        at--;
    error_at(r, at,
             "The string that begins here has no closing %c. Close it, and "
             "indent its other lines",
             quote);
}

/* "message: You have: x" */
static void refuse_colon(struct reader *r, size_t at, const char *message)
{
    struct sl_str line = sl_str_trim(line_around(r, at));
    const char *colon = memmem(line.at, line.len, ": ", 2);
    size_t key = colon ? (size_t)(colon - line.at) : 0;
    struct sl_diag *diag = error_at(
        r, at,
        "Second colon and space in one line. Put a text with \": \" in quotes, "
        "or begin a map on its own line");

    (void)message;
    if (colon && line.len < 100 && !memchr(line.at, '"', line.len) &&
        !memchr(line.at, '#', line.len))
        sl_diag_hint(diag, "%.*s: \"%.*s\"", sl_str_int(key), line.at,
                     SL_STR_ARG(sl_str_trim(sl_str_from(line, key + 2))));
}

#define TAB "A tab cannot indent a line in YAML. Use spaces"
#define KEY "Missing colon and space here, or a line below is indented too far"
#define TRAIL                                                                  \
    "Unexpected text after the value. Put all of it in one pair of quotes, "   \
    "or remove it"
#define DASH                                                                   \
    "A list with dashes must begin on its own line. On one line, write [a, b]"
#define ITEM "The items of the list above begin with \"- \". This line does not"
#define MISSING                                                                \
    "Expected a key with a colon and a space here, as in \"kind: quota\""
#define ALIAS                                                                  \
    "A policy has no anchors, aliases or tags. Put a text that begins with "   \
    "\"&\", \"*\" or \"!\" in quotes"
#define INDENT                                                                 \
    "Wrong indentation. Begin this line in the same column as the keys or "    \
    "items beside it"
#define COMMENT                                                                \
    "A comment needs a space before its \"#\". Put a text with \"#\" in "      \
    "quotes"
#define ESCAPE                                                                 \
    "Unknown escape after the backslash. Write \"\\\\\" for a backslash, or "  \
    "use single quotes"
#define COMMA "There is nothing between these commas. Remove one"
#define BLOCK                                                                  \
    "A text after \"|\" or \">\" must begin on the next line, indented more "  \
    "than its key"
#define EXTRA "This \"%c\" closes nothing. Remove it, or put the text in quotes"
#define START "A text cannot begin with \"%c\". Put it in quotes"

/* The first row whose words are in the message of libfyaml applies. "%c" is the
 * byte there. */
static const struct {
    const char *words, *sentence;
    void (*refuse)(struct reader *r, size_t at, const char *message);
} errors[] = {
    {"comment",                 COMMENT, NULL        },
    {"mismatched",              NULL,    refuse_flow },
    {"closing quote",           NULL,    refuse_quote},
    {"quoted scalar used as",   KEY,     NULL        },
    {"escape",                  ESCAPE,  NULL        },
    {"trailing content",        TRAIL,   NULL        },
    {"double-quoted",           NULL,    refuse_quote},
    {"single-quoted",           NULL,    refuse_quote},
    {"tab",                     TAB,     NULL        },
    {"extra comma",             COMMA,   NULL        },
    {"extra",                   EXTRA,   NULL        },
    {"missing comma",           NULL,    refuse_flow },
    {"without a closing",       NULL,    refuse_flow },
    {"expected node content",   NULL,    refuse_flow },
    {"flow mode",               NULL,    refuse_flow },
    {"nested block mapping",    NULL,    refuse_colon},
    {"block scalar",            BLOCK,   NULL        },
    {"multiline",               KEY,     NULL        },
    {"blank or zero",           TAB,     NULL        },
    {"cannot start with",       START,   NULL        },
    {"value after mapping",     TRAIL,   NULL        },
    {"block sequence on the",   DASH,    NULL        },
    {"sequence entries",        DASH,    NULL        },
    {"end of block sequence",   ITEM,    NULL        },
    {"expected '-'",            ITEM,    NULL        },
    {"expected key",            MISSING, NULL        },
    {"could not find expected", MISSING, NULL        },
    {"missing mapping value",   MISSING, NULL        },
    {"alias",                   ALIAS,   NULL        },
    {"anchor",                  ALIAS,   NULL        },
    {"tag",                     ALIAS,   NULL        },
    {"indent",                  INDENT,  NULL        },
    {"indend",                  INDENT,  NULL        },
};

static void report_stop(struct reader *r)
{
    void *walk = NULL;
    struct fy_diag_error *error = fy_diag_errors_iterate(r->diag, &walk);
    const char *message = error && error->msg ? error->msg : "";
    size_t at = r->seen, i = 0;
    char byte;

    if (error && error->line > 0 && error->column > 0)
        at = offset_at(r, (unsigned)error->line, (unsigned)error->column);
    byte = byte_at(r, at);
    while (i < SL_LEN(errors) && !strstr(message, errors[i].words))
        i++;
    if (i == SL_LEN(errors))
        error_at(r, at, "Invalid YAML: %s", message);
    else if (errors[i].refuse)
        errors[i].refuse(r, at, message);
    else if (strstr(errors[i].sentence, "%c"))
        /* style: the formats are those above */
        error_at(r, at, errors[i].sentence, byte ? byte : ' ');
    else
        error_at(r, at, "%s", errors[i].sentence);
}

/* ---- what is refused ---- */

static size_t offset_of(const struct reader *r, const struct fy_mark *mark)
{
    size_t at = mark ? mark->input_pos : r->seen;

    return at < r->text.len ? at : r->text.len;
}

static struct sl_source_pos place_of(const struct reader *r,
                                     const struct fy_mark *mark)
{
    return pos_of(r, offset_of(r, mark));
}

/* The same for marks that stand behind a quote, an ampersand or a star. */
static struct sl_source_pos place_before(const struct reader *r,
                                         const struct fy_mark *mark)
{
    size_t at = offset_of(r, mark);

    return pos_of(r, at - (at > 0));
}

static void refuse_properties(struct reader *r, struct fy_token *anchor,
                              struct fy_token *tag)
{
    if (anchor)
        sl_report_error(r->report, place_before(r, fy_token_start_mark(anchor)),
                        "A policy has no anchors. Repeat the value where it "
                        "is needed");
    if (tag)
        sl_report_error(r->report, place_of(r, fy_token_start_mark(tag)),
                        "A policy has no tags. Put the text in quotes");
}

/* ---- nodes ---- */

static struct sl_yaml_node *new_node(struct reader *r,
                                     enum sl_yaml_node_kind kind,
                                     struct sl_source_pos place)
{
    struct sl_yaml_node *node;

    if (r->nodes >= SL_YAML_NODES) {
        sl_report_error(r->report, place,
                        "The file has more than %d values. The rest is not "
                        "read",
                        SL_YAML_NODES);
        r->stop = true;
        return NULL;
    }
    node = sl_arena_take(r->arena, sizeof(*node));
    if (!node) {
        no_memory(r);
        return NULL;
    }
    r->nodes++;
    *node = (struct sl_yaml_node){.kind = kind, .place = place};
    return node;
}

static struct frame *top(struct reader *r)
{
    return r->depth ? &r->stack[r->depth - 1] : NULL;
}

/* Does a key come next? */
static bool wants_key(struct reader *r)
{
    struct frame *frame = top(r);

    return frame && frame->node->kind == SL_NODE_MAP && !frame->has_key;
}

/* Hang a node into the collection that is open. */
static void add(struct reader *r, struct sl_yaml_node *node)
{
    struct frame *frame = top(r);
    bool drop = frame && frame->drop;

    if (!frame) {
        r->root = node;
        return;
    }
    node->key = frame->key;
    node->key_place = frame->key_place;
    frame->has_key = frame->drop = false;
    if (drop)
        return;
    *frame->tail = node;
    frame->tail = &node->next;
    frame->node->count++;
}

/* The next value has a key that was refused. */
static void drop_next(struct reader *r)
{
    struct frame *frame = top(r);

    frame->key = (struct sl_str){"", 0};
    frame->has_key = frame->drop = true;
}

static void push(struct reader *r, enum sl_yaml_node_kind kind,
                 struct fy_event *event)
{
    struct sl_source_pos place = place_of(r, fy_event_start_mark(event));
    bool is_key = wants_key(r);
    struct sl_yaml_node *node;

    if (r->depth == SL_YAML_DEPTH) {
        sl_report_error(r->report, place,
                        "Lists and maps are nested more than %d levels deep",
                        SL_YAML_DEPTH);
        r->stop = true;
        return;
    }
    node = new_node(r, kind, place);
    if (!node)
        return;
    if (is_key)
        sl_report_error(r->report, place,
                        "A key must be a text, not a list or a map");
    else
        add(r, node);
    r->stack[r->depth++] =
        (struct frame){.node = node, .tail = &node->child, .is_key = is_key};
}

static void pop(struct reader *r)
{
    struct frame *frame = top(r);

    if (frame->node->kind == SL_NODE_MAP)
        drop_duplicates(r, frame->node);
    r->depth--;
    if (frame->is_key)
        drop_next(r);
}

/* ---- scalars ---- */

struct scalar {
    struct sl_str text;
    struct sl_source_pos place;
    enum fy_scalar_style style;
};

/* Nothing is where its key is: it has no mark or, from libfyaml 0.8 on, that of
 * the colon. */
static struct sl_source_pos place_of_scalar(struct reader *r,
                                            struct fy_event *event,
                                            const struct scalar *s)
{
    const struct fy_mark *mark = fy_event_start_mark(event);
    bool nothing = s->style == FYSS_PLAIN && s->text.len == 0;
    struct frame *frame = top(r);
    size_t at = offset_of(r, mark);

    if (s->style == FYSS_LITERAL || s->style == FYSS_FOLDED) {
        at = find_behind(r, "|>");
    } else if (s->style == FYSS_SINGLE_QUOTED ||
               s->style == FYSS_DOUBLE_QUOTED) {
        at -= at > 0; /* the mark stands behind the quote */
    } else if (nothing && frame && frame->has_key) {
        return frame->key_place;
    } else if (!mark) {
        at = find_behind(r,
                         frame && frame->node->kind == SL_NODE_MAP ? ":" : "-");
        r->seen = at < r->text.len ? at + 1 : at;
    }
    return pos_of(r, at);
}

static bool read_token(struct reader *r, struct fy_token *token,
                       struct sl_str *ret)
{
    if (fy_token_scalar_style(token) == FYSS_SINGLE_QUOTED)
        return read_single(r, offset_of(r, fy_token_start_mark(token)), ret);
    return token_text(token, ret);
}

/* Take the scalar from its event. False without memory. */
static bool read_scalar(struct reader *r, struct fy_event *event,
                        struct scalar *ret)
{
    struct fy_token *token = event->scalar.value;

    ret->text = (struct sl_str){"", 0};
    ret->style = token ? fy_token_scalar_style(token) : FYSS_PLAIN;
    if (token && !read_token(r, token, &ret->text)) {
        no_memory(r);
        return false;
    }
    ret->place = place_of_scalar(r, event, ret);
    return true;
}

static bool is_plain(const struct scalar *s, struct sl_str text)
{
    return s->style == FYSS_PLAIN && sl_str_eq(s->text, text);
}

static bool refuse_key(struct reader *r, const struct scalar *key)
{
    struct sl_source_pos place = key->place;

    if (key->text.len == 0) {
        sl_report_error(r->report, place, "Missing key before the colon");
        return true;
    }
    if (is_plain(key, SL_STR("<<"))) {
        sl_report_error(r->report, place,
                        "A policy has no merge keys. Write the keys out");
        return true;
    }
    for (size_t i = 0; i < key->text.len; i++)
        if ((unsigned char)key->text.at[i] < 0x20 || key->text.at[i] == 0x7f) {
            sl_report_error(r->report, place,
                            "A key must be on one line, without control "
                            "characters");
            return true;
        }
    return false;
}

static void read_key(struct reader *r, const struct scalar *scalar)
{
    struct frame *frame = top(r);
    struct sl_yaml_node *map = frame->node;
    char *copy;

    frame->key_place = scalar->place;
    if (map->count == 0) /* [a: b] has its map begin at the colon */
        if (scalar->place.line < map->place.line ||
            (scalar->place.line == map->place.line &&
             scalar->place.column < map->place.column))
            map->place = scalar->place;
    if (refuse_key(r, scalar)) {
        drop_next(r);
        return;
    }
    copy = sl_arena_copy(r->arena, scalar->text);
    if (!copy) {
        no_memory(r);
        return;
    }
    frame->key = (struct sl_str){copy, scalar->text.len};
    frame->has_key = true;
}

/* Refuse what only an escape can bring in. */
static bool check_escapes(struct reader *r, struct sl_yaml_node *node)
{
    struct sl_utf8_fault bad = sl_utf8_check(node->text);
    char words[64];

    if (!bad.fault)
        return true;
    sl_report_error(r->report, node->place,
                    "This string contains %s, written as an escape. A policy "
                    "must be plain text",
                    sl_utf8_words(&bad, words));
    sl_yaml_node_refuse(node);
    return false;
}

static void read_value(struct reader *r, const struct scalar *scalar)
{
    bool plain = scalar->style == FYSS_PLAIN;
    bool empty = is_plain(scalar, SL_STR("")) ||
                 is_plain(scalar, SL_STR("~")) ||
                 is_plain(scalar, SL_STR("null"));
    struct sl_yaml_node *node =
        new_node(r, empty ? SL_NODE_EMPTY : SL_NODE_SCALAR, scalar->place);
    char *copy = node ? sl_arena_copy(r->arena, scalar->text) : NULL;

    if (!node)
        return;
    if (!copy) {
        no_memory(r);
        return;
    }
    node->text = (struct sl_str){copy, scalar->text.len};
    node->quoted = !plain;
    add(r, node);
    if (plain)
        sl_subst_plain(&r->subst, node);
    else if (check_escapes(r, node) && sl_subst_needed(node->text))
        sl_subst_node(&r->subst, node);
}

/* ---- events ---- */

static void on_scalar(struct reader *r, struct fy_event *event)
{
    struct scalar scalar;

    if (!read_scalar(r, event, &scalar))
        return;
    refuse_properties(r, event->scalar.anchor, event->scalar.tag);
    if (wants_key(r))
        read_key(r, &scalar);
    else
        read_value(r, &scalar);
}

static void on_alias(struct reader *r, struct fy_event *event)
{
    struct sl_source_pos place = place_before(r, fy_event_start_mark(event));
    struct sl_yaml_node *node;

    sl_report_error(r->report, place,
                    "A policy has no aliases. Repeat the value here");
    if (wants_key(r)) {
        drop_next(r);
        return;
    }
    node = new_node(r, SL_NODE_EMPTY, place);
    if (!node)
        return;
    node->refused = true;
    add(r, node);
}

static void on_document(struct reader *r, struct fy_event *event)
{
    if (!r->root)
        return;
    sl_report_error(r->report, place_of(r, fy_event_start_mark(event)),
                    "A second document begins here. A policy must be one "
                    "document");
    r->over = true;
}

static void on_event(struct reader *r, struct fy_event *event)
{
    const struct fy_mark *end;

    switch (event->type) {
    case FYET_DOCUMENT_START:
        on_document(r, event);
        break;
    case FYET_MAPPING_START:
        refuse_properties(r, event->mapping_start.anchor,
                          event->mapping_start.tag);
        push(r, SL_NODE_MAP, event);
        break;
    case FYET_SEQUENCE_START:
        refuse_properties(r, event->sequence_start.anchor,
                          event->sequence_start.tag);
        push(r, SL_NODE_LIST, event);
        break;
    case FYET_MAPPING_END:
    case FYET_SEQUENCE_END:
        pop(r);
        break;
    case FYET_SCALAR:
        on_scalar(r, event);
        break;
    case FYET_ALIAS:
        on_alias(r, event);
        break;
    default:
        break;
    }
    end = fy_event_end_mark(event);
    if (end && offset_of(r, end) > r->seen)
        r->seen = offset_of(r, end);
}

/* Report the duplicate keys of open maps. */
static void end_early(struct reader *r)
{
    for (; r->depth > 0; r->depth--)
        if (top(r)->node->kind == SL_NODE_MAP)
            drop_duplicates(r, top(r)->node);
    r->stop = true;
}

static void read_events(struct reader *r)
{
    while (!r->over && !r->stop) {
        struct fy_event *event = next_event(r);

        if (r->report->no_memory) {
            fy_parser_event_free(r->parser, event);
            return;
        }
        if (!event) {
            if (!r->stop)
                report_stop(r);
            end_early(r);
            return;
        }
        r->over = event->type == FYET_STREAM_END;
        on_event(r, event);
        fy_parser_event_free(r->parser, event);
    }
}

/* Read r->text; r->root stays NULL if there is nothing in it. */
static void read_text(struct reader *r)
{
    if (!index_lines(r)) {
        no_memory(r);
        return;
    }
    if (!check_text(r)) {
        r->stop = true;
        return;
    }
    if (r->text.len == 0)
        return;
    if (open_parser(r))
        read_events(r);
    else
        no_memory(r);
    close_parser(r);
}

struct sl_yaml_node *sl_yaml_read(struct sl_report *report,
                                  const struct sl_yaml_options *options,
                                  struct sl_arena *arena)
{
    struct reader r = {
        .report = report,
        .arena = arena,
        .subst = {.options = options, .report = report, .arena = arena},
        .text = report->text,
    };

    if (report->text.len > SL_YAML_BYTES) {
        sl_report_error(report, (struct sl_source_pos){1, 1},
                        "The file has more than %d bytes, the maximum of a "
                        "policy",
                        SL_YAML_BYTES);
        return NULL;
    }
    if (report->text.len >= 3 && !memcmp(report->text.at, "\xef\xbb\xbf", 3))
        r.text = sl_str_from(report->text, 3);
    read_text(&r);
    sl_alloc_free(report->alloc, r.lines, r.line_count * sizeof(*r.lines));
    if (r.stop || report->no_memory)
        return NULL;
    if (!r.root)
        r.root = new_node(&r, SL_NODE_MAP, (struct sl_source_pos){1, 1});
    else if (r.root->kind == SL_NODE_EMPTY && !r.root->refused)
        r.root->kind = SL_NODE_MAP;
    return r.root;
}
