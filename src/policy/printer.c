/* printer.c -- keys, values and lists of a policy's print. */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "policy/policy_int.h"

#define COLUMNS 80 /* a longer list is printed one item a line */

/* ---- texts as YAML.
 *
 * Other programs read the print, too: what any reader of YAML could take for a
 * number, a boolean, a date or null is put in quotes.
 */

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Some version of YAML does not read it as a text. */
static bool is_reserved(struct sl_str text)
{
    static const char *const words[] = {"true", "false", "yes", "no", "on",
                                        "off",  "null",  "y",   "n"};

    for (size_t i = 0; i < SL_LEN(words); i++)
        if (sl_str_eq_nocase(text, sl_str_c(words[i])))
            return true;
    return false;
}

/* Can text.at[i], i > 0, be printed without quotes? */
static bool is_safe(struct sl_str text, size_t i, bool flow)
{
    char c = text.at[i];
    char next = (char)(i + 1 < text.len ? text.at[i + 1] : ' ');

    if (c == ' ') /* not two, and not in the end */
        return next != ' ';
    if (c == ':')
        return !flow && next != ' ';
    return is_letter(c) || is_digit(c) ||
           (c != '\0' && strchr(flow ? "_./-@+" : "_./-@+,*", c));
}

static bool is_plain(struct sl_str text, bool flow)
{
    if (text.len == 0 || is_reserved(text))
        return false;
    if (!is_letter(text.at[0]) && text.at[0] != '/' &&
        (text.len == 1 || text.at[0] != '.' || text.at[1] != '/'))
        return false;
    for (size_t i = 1; i < text.len; i++)
        if (!is_safe(text, i, flow))
            return false;
    return true;
}

/* The length of a character that must be escaped, and its escape; 0 if it need
 * not be. Some readers take those beyond ASCII for line ends or refuse them. */
static size_t find_escape(struct sl_str rest, char out[8])
{
    static const struct {
        struct sl_str raw;
        const char *escape;
    } all[] = {
        {{"\"", 1},           "\\\""   },
        {{"\\", 1},           "\\\\"   },
        {{"\n", 1},           "\\n"    },
        {{"\r", 1},           "\\r"    },
        {{"\t", 1},           "\\t"    },
        {{"\xe2\x80\xa8", 3}, "\\u2028"},
        {{"\xe2\x80\xa9", 3}, "\\u2029"},
        {{"\xef\xbb\xbf", 3}, "\\ufeff"},
        {{"\xef\xbf\xbe", 3}, "\\ufffe"},
        {{"\xef\xbf\xbf", 3}, "\\uffff"},
    };
    const unsigned char *c = (const unsigned char *)rest.at;

    if (c[0] >= 0x20 && c[0] < 0x7f && c[0] != '"' && c[0] != '\\')
        return 0;
    for (size_t i = 0; i < SL_LEN(all); i++)
        if (rest.len >= all[i].raw.len &&
            memcmp(rest.at, all[i].raw.at, all[i].raw.len) == 0) {
            memcpy(out, all[i].escape, strlen(all[i].escape) + 1);
            return all[i].raw.len;
        }
    if (rest.len < 2 || c[0] != 0xc2 || c[1] > 0x9f)
        return 0;
    memcpy(out, c[1] > 0x8f ? "\\u009" : "\\u008", 6);
    out[5] = "0123456789abcdef"[c[1] & 15];
    out[6] = '\0';
    return 2;
}

/* The text in quotes. In a `value`, "${" is literal and becomes "$${". */
static void add_quoted(struct sl_writer *w, struct sl_str text, bool value)
{
    char escape[8];

    sl_writer_add(w, SL_STR("\""));
    for (size_t i = 0, len = 1; i < text.len; i += len) {
        struct sl_str rest = sl_str_from(text, i);
        size_t escaped = find_escape(rest, escape);

        len = escaped ? escaped : 1;
        if (escaped)
            sl_writer_add(w, sl_str_c(escape));
        else if (value && rest.len > 1 && memcmp(rest.at, "${", 2) == 0)
            sl_writer_add(w, SL_STR("$$"));
        else
            sl_writer_add(w, (struct sl_str){rest.at, 1});
    }
    sl_writer_add(w, SL_STR("\""));
}

void sl_print_scalar(struct sl_writer *w, struct sl_str text, bool flow)
{
    if (is_plain(text, flow))
        sl_writer_add(w, text);
    else
        add_quoted(w, text, true);
}

static void print_key(struct sl_writer *w, struct sl_str key)
{
    if (is_plain(key, true))
        sl_writer_add(w, key);
    else
        add_quoted(w, key, false);
}

static void print_written(struct sl_writer *w, struct sl_str written)
{
    add_quoted(w, written, false);
}

/* A number, true or false: in a body it is not a text without quotes. */
static bool is_bare(const struct sl_yaml_node *node)
{
    struct sl_str text = node->text;

    if (node->quoted)
        return false;
    if (sl_str_eq(text, SL_STR("true")) || sl_str_eq(text, SL_STR("false")))
        return true;
    if (text.at[0] == '-')
        text = sl_str_from(text, 1);
    if (text.len == 0 || !is_digit(text.at[0]))
        return false;
    for (size_t i = 0; i < text.len; i++)
        if (!is_digit(text.at[i]) && text.at[i] != '.')
            return false;
    return true;
}

static void print_leaf(struct sl_writer *w, const struct sl_yaml_node *node)
{
    if (node->kind == SL_NODE_EMPTY)
        sl_writer_add(w, SL_STR("null"));
    else if (node->substituted)
        print_written(w, node->written);
    else if (is_bare(node))
        sl_writer_add(w, node->text);
    else
        sl_print_scalar(w, node->text, true);
}

void sl_print_body(struct sl_writer *w, const struct sl_yaml_node *node)
{
    bool map = node->kind == SL_NODE_MAP;

    if (!map && node->kind != SL_NODE_LIST) {
        print_leaf(w, node);
        return;
    }
    if (!node->child) {
        sl_writer_add(w, map ? SL_STR("{}") : SL_STR("[]"));
        return;
    }
    sl_writer_add(w, map ? SL_STR("{ ") : SL_STR("["));
    for (const struct sl_yaml_node *c = node->child; c; c = c->next) {
        if (c != node->child)
            sl_writer_add(w, SL_STR(", "));
        if (map && c->key.len > 128) /* YAML needs it for a long key */
            sl_writer_add(w, SL_STR("? "));
        if (map) {
            print_key(w, c->key);
            sl_writer_add(w, SL_STR(": "));
        }
        sl_print_body(w, c); /* at most SL_YAML_DEPTH deep */
    }
    sl_writer_add(w, map ? SL_STR(" }") : SL_STR("]"));
}

/* ---- bytes ---- */

static void put(struct sl_printer *p, struct sl_str bytes)
{
    sl_writer_add(&p->w, bytes);
}

static void put_indent(struct sl_printer *p, unsigned depth)
{
    for (unsigned i = 0; i < depth; i++)
        put(p, SL_STR("  "));
}

static void put_key(struct sl_printer *p, struct sl_str key)
{
    put_indent(p, p->item ? p->depth - 1 : p->depth);
    if (p->item)
        put(p, SL_STR("- "));
    p->item = false;
    print_key(&p->w, key);
    put(p, SL_STR(":"));
}

/* ---- places ---- */

/* Go to `step`. Returns the old length of the path. Names of a checked policy
 * are short, and the print is at most six steps deep. */
static size_t enter(struct sl_printer *p, struct sl_str step)
{
    size_t back = p->path_len;

    assert(step.len + 1 <= SL_PRINT_PATH - back);
    p->path[p->path_len++] = '\n';
    if (step.len > 0)
        memcpy(p->path + p->path_len, step.at, step.len);
    p->path_len += step.len;
    return back;
}

static size_t enter_index(struct sl_printer *p, unsigned index)
{
    char digits[12];

    snprintf(digits, sizeof(digits), "%u", index);
    return enter(p, sl_str_c(digits));
}

static bool is_before(struct sl_str a, struct sl_str b)
{
    size_t len = a.len < b.len ? a.len : b.len;
    int order = len ? memcmp(a.at, b.at, len) : 0;

    return order ? order < 0 : a.len < b.len;
}

static unsigned count_outside(const struct sl_printer *p)
{
    return p->raw ? 0 : p->policy->outside_count;
}

/* The first path that is not before the printer's. */
static unsigned find_place(const struct sl_printer *p)
{
    struct sl_str place = {p->path, p->path_len};
    unsigned low = 0, high = count_outside(p);

    while (low < high) {
        unsigned mid = low + (high - low) / 2;

        if (is_before(p->policy->outside[mid].path, place))
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* Is the ith path the printer's, or below it? */
static bool is_here(const struct sl_printer *p, unsigned i)
{
    return i < count_outside(p) &&
           sl_str_eq(p->policy->outside[i].path,
                     (struct sl_str){p->path, p->path_len});
}

static bool is_below(const struct sl_printer *p, unsigned i)
{
    struct sl_str path;

    if (i >= count_outside(p))
        return false;
    path = p->policy->outside[i].path;
    return path.len > p->path_len &&
           memcmp(path.at, p->path, p->path_len) == 0 &&
           path.at[p->path_len] == '\n';
}

const struct sl_external_value *sl_print_here(const struct sl_printer *p)
{
    unsigned i = find_place(p);

    return is_here(p, i) ? &p->policy->outside[i] : NULL;
}

const struct sl_external_value *sl_print_at(struct sl_printer *p,
                                            struct sl_str key)
{
    size_t back = enter(p, key);
    const struct sl_external_value *found = sl_print_here(p);

    p->path_len = back;
    return found;
}

/* No byte of a key is lower than the newline: the paths below a position follow
 * it directly. */
const struct sl_external_value *sl_print_below(const struct sl_printer *p,
                                               unsigned *count)
{
    unsigned first = find_place(p), end;

    first += is_here(p, first);
    for (end = first; is_below(p, end);)
        end++;
    *count = end - first;
    return end > first ? &p->policy->outside[first] : NULL;
}

/* Is the value of `key`, or a part of it, external? */
static bool is_outside(struct sl_printer *p, struct sl_str key)
{
    size_t back = enter(p, key);
    unsigned i = find_place(p);
    bool is = is_here(p, i) || is_below(p, i);

    p->path_len = back;
    return is;
}

bool sl_print_follows(struct sl_printer *p, const char *key)
{
    struct sl_printer top = {.policy = p->policy, .raw = p->raw};

    return is_outside(&top, sl_str_c(key)) && !is_outside(p, sl_str_c(key));
}

/* ---- maps ---- */

void sl_print_open(struct sl_printer *p, struct sl_str key)
{
    if (p->depth == 0)
        put(p, SL_STR("\n"));
    put_key(p, key);
    put(p, SL_STR("\n"));
    (void)enter(p, key);
    p->depth++;
}

void sl_print_close(struct sl_printer *p)
{
    while (p->path[--p->path_len] != '\n')
        ;
    p->depth--;
}

void sl_print_open_item(struct sl_printer *p, unsigned index)
{
    (void)enter_index(p, index);
    p->depth++;
    p->item = true;
}

void sl_print_close_item(struct sl_printer *p)
{
    sl_print_close(p);
    p->item = false;
}

/* ---- values ---- */

void sl_print_from(struct sl_printer *p, struct sl_str key,
                   const struct sl_external_value *from)
{
    put_key(p, key);
    put(p, SL_STR(" "));
    print_written(&p->w, from->written);
    put(p, SL_STR("\n"));
}

/* Print an external value as written. False if it is none. */
static bool print_outside(struct sl_printer *p, struct sl_str key)
{
    const struct sl_external_value *from = sl_print_at(p, key);

    if (from)
        sl_print_from(p, key, from);
    return from != NULL;
}

void sl_print_yaml(struct sl_printer *p, struct sl_str key, struct sl_str yaml)
{
    if (print_outside(p, key))
        return;
    put_key(p, key);
    put(p, SL_STR(" "));
    put(p, yaml);
    put(p, SL_STR("\n"));
}

void sl_print_text(struct sl_printer *p, const char *key, struct sl_str text)
{
    if (print_outside(p, sl_str_c(key)))
        return;
    put_key(p, sl_str_c(key));
    put(p, SL_STR(" "));
    sl_print_scalar(&p->w, text, false);
    put(p, SL_STR("\n"));
}

void sl_print_number(struct sl_printer *p, const char *key, uint64_t number)
{
    char digits[24];

    snprintf(digits, sizeof(digits), "%" PRIu64, number);
    sl_print_yaml(p, sl_str_c(key), sl_str_c(digits));
}

/* A literal brace is doubled. */
static void add_literal(struct sl_writer *w, struct sl_str literal)
{
    for (size_t i = 0; i < literal.len; i++) {
        struct sl_str byte = {literal.at + i, 1};

        sl_writer_add(w, byte);
        if (*byte.at == '{' || *byte.at == '}')
            sl_writer_add(w, byte);
    }
}

void sl_print_message(struct sl_printer *p, const struct sl_schema_key *row,
                      const void *from)
{
    const struct sl_template *message =
        (const void *)((const char *)from + row->offset);
    struct sl_buf text;
    struct sl_writer w = {&text, p->w.err};

    if (message->count == 0)
        return;
    sl_buf_init(&text, p->w.out->ceiling, p->w.out->alloc);
    for (unsigned i = 0; i < message->count; i++) {
        const struct sl_template_piece *piece = &message->pieces[i];

        if (piece->kind == SL_TEMPLATE_PIECE_LITERAL)
            add_literal(&w, piece->literal);
        else
            sl_writer_addf(&w, "{%s}", sl_holder_names[piece->holder]);
    }
    p->w.err = w.err;
    sl_print_text(p, row->name, sl_buf_str(&text));
    sl_buf_done(&text);
}

/* ---- lists ---- */

struct list {
    sl_print_item_f *item;
    const void *ctx;
    unsigned count;
};

/* The external value with this text: the position of the item is not known. */
static const struct sl_external_value *find_by_text(struct sl_printer *p,
                                                    struct sl_str text)
{
    const struct sl_external_value *here = sl_print_here(p);
    unsigned count;
    const struct sl_external_value *list = sl_print_below(p, &count);

    if (here && sl_str_eq(here->text, text))
        return here;
    for (unsigned i = 0; i < count; i++)
        if (sl_str_eq(list[i].text, text))
            return &list[i];
    return NULL;
}

static void put_item(struct sl_printer *p, const struct list *list, unsigned i,
                     bool flow)
{
    char room[SL_PRINT_ITEM];
    struct sl_str text = list->item(list->ctx, i, room);
    const struct sl_external_value *from = NULL;
    size_t back;

    if (p->any_order) {
        from = find_by_text(p, text);
    } else {
        if (list->count == 1) /* perhaps without a list around it */
            from = sl_print_here(p);
        back = enter_index(p, i);
        if (!from)
            from = sl_print_here(p);
        p->path_len = back;
    }
    if (from)
        print_written(&p->w, from->written);
    else
        sl_print_scalar(&p->w, text, flow);
}

static void put_flow(struct sl_printer *p, const struct list *list)
{
    put(p, SL_STR(" ["));
    for (unsigned i = 0; i < list->count; i++) {
        if (i > 0)
            put(p, SL_STR(", "));
        put_item(p, list, i, true);
    }
    put(p, SL_STR("]\n"));
}

static void put_block(struct sl_printer *p, const struct list *list)
{
    put(p, SL_STR("\n"));
    for (unsigned i = 0; i < list->count; i++) {
        put_indent(p, p->depth + 1);
        put(p, SL_STR("- "));
        put_item(p, list, i, false);
        put(p, SL_STR("\n"));
    }
}

void sl_print_list(struct sl_printer *p, const char *key, sl_print_item_f *item,
                   const void *ctx, unsigned count)
{
    struct list list = {item, ctx, count};
    size_t line = p->w.out->len, at, back;

    put_key(p, sl_str_c(key));
    at = p->w.out->len;
    back = enter(p, sl_str_c(key));
    put_flow(p, &list);
    if (!p->w.err && p->w.out->len - line > COLUMNS + 1 && count > 1) {
        p->w.out->len = at;
        put_block(p, &list);
    }
    p->path_len = back;
    p->any_order = false;
}

/* The word of the ith bit. */
struct bits {
    const struct sl_schema_key *row;
    int64_t bits;
};

static struct sl_str bit_item(const void *ctx, unsigned i, char *room)
{
    const struct bits *bits = ctx;
    int64_t bit = 0;

    (void)room;
    while (!(bits->bits >> bit & 1) || i-- > 0)
        bit++;
    return sl_schema_word_of(bits->row, bit);
}

/* Dialects and algorithms. No dialect is "none", the last word of the row; no
 * algorithm, or inherited dialects, are not printed. */
void sl_print_bits(struct sl_printer *p, const struct sl_schema_key *row,
                   const void *from)
{
    struct bits bits = {row, sl_schema_get(row, from)};
    unsigned count = 0;

    if (bits.bits == 0 && strstr(row->words, " none"))
        bits.bits = INT64_C(1) << sl_schema_value(row, SL_STR("none"));
    if (bits.bits <= 0)
        return;
    for (int64_t rest = bits.bits; rest; rest &= rest - 1)
        count++;
    p->any_order = true;
    sl_print_list(p, row->name, bit_item, &bits, count);
}
