/* template.c -- texts with placeholders, cut into pieces.
 *
 * A cutter collects pieces and, separately, the bytes of all literals.
 * Neighbouring literals are joined. At the end both are copied into the arena
 * at their final size, and the pieces point at their bytes.
 *
 * A body is cut from nodes of a policy file: brackets, commas, names and
 * strings become literals that are JSON already. Rendering adds only values.
 */
#include "policy/template.h"

#include <string.h>

#include "wire/json.h"

/* A policy file has at most SL_YAML_BYTES, and a byte of it makes at most one
 * piece or, escaped, six bytes of JSON. */
#define BYTES_MAX  ((size_t)8 * SL_YAML_BYTES)
#define PIECES_MAX ((size_t)SL_YAML_BYTES * sizeof(struct sl_template_piece))

/* Digits that every reader of JSON keeps exactly. */
#define NUMBER_DIGITS 15

const char *const sl_holder_names[SL_HOLDS] = {
    [SL_HOLD_LIMIT] = "limit",
    [SL_HOLD_REMAINING] = "remaining",
    [SL_HOLD_RETRY_AFTER] = "retry_after",
    [SL_HOLD_RETRY_AFTER_MS] = "retry_after_ms",
    [SL_HOLD_RESET] = "reset",
    [SL_HOLD_RESET_MS] = "reset_ms",
    [SL_HOLD_RESET_ISO] = "reset_iso",
    [SL_HOLD_RESET_ISO_MS] = "reset_iso_ms",
    [SL_HOLD_MESSAGE] = "message",
    [SL_HOLD_NAME] = "name",
    [SL_HOLD_UNIT] = "unit",
    [SL_HOLD_PLAN] = "plan",
    [SL_HOLD_SCOPE] = "scope",
    [SL_HOLD_ID] = "id",
    [SL_HOLD_STATUS] = "status",
    [SL_HOLD_CODE] = "code",
    [SL_HOLD_REQUEST_ID] = "request_id",
    [SL_HOLD_NOW_ISO] = "now_iso",
    [SL_HOLD_NOW_ISO_MS] = "now_iso_ms",
};

struct cutter {
    struct sl_buf literals; /* the bytes of all literals */
    struct sl_buf pieces;   /* their literal.at is set at the end */
    struct sl_writer bytes; /* to `literals` */
    struct sl_writer out;   /* to `pieces` */
    unsigned count;
    bool body;
    struct sl_report *report; /* bodies */
};

static void cutter_init(struct cutter *cut, const struct sl_arena *arena)
{
    *cut = (struct cutter){
        .bytes = {&cut->literals, 0},
          .out = {&cut->pieces,   0}
    };
    sl_buf_init(&cut->literals, BYTES_MAX, arena->alloc);
    sl_buf_init(&cut->pieces, PIECES_MAX, arena->alloc);
}

static void cutter_done(struct cutter *cut)
{
    sl_buf_done(&cut->literals);
    sl_buf_done(&cut->pieces);
}

static int error_of(const struct cutter *cut)
{
    return cut->out.err ? cut->out.err : cut->bytes.err;
}

static void add_piece(struct cutter *cut, const struct sl_template_piece *piece)
{
    sl_writer_add(&cut->out,
                  (struct sl_str){(const char *)piece, sizeof(*piece)});
    cut->count += !cut->out.err;
}

/* Add bytes to the last literal, or to a new one. `inside`: as the inside of a
 * JSON string. */
static void add_bytes(struct cutter *cut, struct sl_str bytes, bool inside)
{
    static const struct sl_template_piece fresh = {
        .kind = SL_TEMPLATE_PIECE_LITERAL};
    struct sl_template_piece *last = (void *)cut->pieces.bytes;
    size_t before = cut->literals.len;

    if (cut->count == 0 ||
        last[cut->count - 1].kind != SL_TEMPLATE_PIECE_LITERAL)
        add_piece(cut, &fresh);
    if (!inside)
        sl_writer_add(&cut->bytes, bytes);
    else if (!cut->bytes.err)
        cut->bytes.err = sl_json_inside(&cut->literals, bytes);
    last = (void *)cut->pieces.bytes;
    if (!error_of(cut))
        last[cut->count - 1].literal.len += cut->literals.len - before;
}

/* Bytes of the result. */
static void add_raw(struct cutter *cut, struct sl_str bytes)
{
    add_bytes(cut, bytes, false);
}

/* Text of the user: in a body it is the inside of a string. */
static void add_words(struct cutter *cut, struct sl_str text)
{
    if (text.len > 0)
        add_bytes(cut, text, cut->body);
}

/* Move everything into the arena. */
static int hand_over(struct cutter *cut, struct sl_arena *arena,
                     struct sl_template *ret)
{
    struct sl_template_piece *pieces =
        sl_arena_take(arena, cut->count * sizeof(*pieces));
    const char *bytes = sl_arena_copy(arena, sl_buf_str(&cut->literals));

    if (!pieces || !bytes)
        return SLUICE_ENOMEM;
    if (cut->count > 0)
        memcpy(pieces, cut->pieces.bytes, cut->count * sizeof(*pieces));
    for (unsigned i = 0; i < cut->count; i++) {
        pieces[i].literal.at = bytes;
        bytes += pieces[i].literal.len;
    }
    *ret = (struct sl_template){pieces, cut->count};
    return 0;
}

/* ---- placeholders ---- */

static bool find_holder(struct sl_str name, enum sl_placeholder *ret)
{
    for (enum sl_placeholder h = 0; h < SL_HOLDS; h++)
        if (sl_str_eq(name, sl_str_c(sl_holder_names[h]))) {
            *ret = h;
            return true;
        }
    return false;
}

/* From a brace on, so much as makes a placeholder or looks like one: up to the
 * closing brace, or to the first byte that no placeholder has. */
static struct sl_str braced(struct sl_str rest)
{
    size_t i = 1;

    while (i < rest.len && rest.at[i] != '}' && rest.at[i] != '{' &&
           rest.at[i] != ' ' && rest.at[i] != '"')
        i++;
    if (i < rest.len && rest.at[i] == '}')
        i++;
    rest.len = i;
    return rest;
}

static int refuse_brace(struct sl_str word, size_t at, struct sl_diag *diag)
{
    bool closed = word.at[word.len - 1] == '}' && word.len > 1;
    struct sl_str name = {word.at + 1, word.len - 1 - closed};
    const char *meant = sl_str_nearest(name, sl_holder_names, SL_HOLDS);
    char quote[64];
    size_t len = word.len < sizeof(quote) ? word.len : sizeof(quote) - 1;

    for (size_t i = 0; i < len; i++)
        quote[i] = word.at[i] ? word.at[i] : '?';
    quote[len] = '\0';
    sl_diag_error_at(diag, SLUICE_ECONF, at,
                     "Unknown placeholder \"%s\". Write a literal brace twice",
                     quote);
    if (meant)
        sl_diag_hint(diag, "{%s}", meant);
    else if (closed)
        sl_diag_hint(diag, "{%.*s}", SL_STR_ARG(word));
    else
        sl_diag_hint(diag, "{{");
    return SLUICE_ECONF;
}

/* Read the placeholder at the beginning of `rest`, which is `at` bytes into
 * the text. */
static int read_holder(struct sl_str rest, size_t at, bool body,
                       enum sl_placeholder *ret, size_t *used,
                       struct sl_diag *diag)
{
    struct sl_str word = braced(rest);

    *used = word.len;
    if (word.at[word.len - 1] != '}' ||
        !find_holder((struct sl_str){word.at + 1, word.len - 2}, ret))
        return refuse_brace(word, at, diag);
    if (*ret == SL_HOLD_MESSAGE && !body)
        return sl_diag_error_at(diag, SLUICE_ECONF, at,
                                "A message must not contain {message}. Write "
                                "{message} only in a body");
    return 0;
}

/* Bytes before the next brace. */
static size_t to_brace(struct sl_str text)
{
    size_t i = 0;

    while (i < text.len && text.at[i] != '{' && text.at[i] != '}')
        i++;
    return i;
}

/* Cut what begins with a brace; *used is set to its bytes. SLUICE_ECONF if it
 * is invalid. */
static int cut_brace(struct cutter *cut, struct sl_str rest, size_t at,
                     size_t *used, struct sl_diag *diag)
{
    struct sl_template_piece piece = {.kind = SL_TEMPLATE_PIECE_TEXT};
    int err;

    if (rest.len > 1 && rest.at[1] == rest.at[0]) {
        *used = 2;
        add_words(cut, (struct sl_str){rest.at, 1});
        return 0;
    }
    if (rest.at[0] == '}') {
        sl_diag_error_at(diag, SLUICE_ECONF, at,
                         "\"}\" closes nothing. Write a literal brace twice");
        sl_diag_hint(diag, "}}");
        return SLUICE_ECONF;
    }
    err = read_holder(rest, at, cut->body, &piece.holder, used, diag);
    if (!err)
        add_piece(cut, &piece);
    return err;
}

static int cut_text(struct cutter *cut, struct sl_str text,
                    struct sl_diag *diag)
{
    for (size_t at = 0, used; at < text.len; at += used) {
        struct sl_str rest = sl_str_from(text, at);
        int err;

        used = to_brace(rest);
        if (used > 0) {
            add_words(cut, (struct sl_str){rest.at, used});
            continue;
        }
        err = cut_brace(cut, rest, at, &used, diag);
        if (err)
            return err;
    }
    return 0;
}

int sl_template_read(struct sl_str text, struct sl_arena *arena,
                     struct sl_template *ret, struct sl_diag *diag)
{
    struct cutter cut;
    int err;

    cutter_init(&cut, arena);
    err = cut_text(&cut, text, diag);
    if (!err)
        err = error_of(&cut);
    if (err == SLUICE_EFULL)
        err = sl_diag_error(diag, SLUICE_ECONF, "The text is too long");
    if (!err)
        err = hand_over(&cut, arena, ret);
    cutter_done(&cut);
    return err;
}

/* ---- bodies ---- */

/* Is the whole text one placeholder? */
static bool is_value(struct sl_str text, enum sl_placeholder *ret)
{
    return text.len > 2 && text.at[0] == '{' && text.at[text.len - 1] == '}' &&
           find_holder((struct sl_str){text.at + 1, text.len - 2}, ret);
}

/* A number as JSON has it, perhaps with a fraction, that readers keep exactly.
 */
static bool is_number(struct sl_str text)
{
    size_t i = text.len > 0 && text.at[0] == '-', digits = 0, dots = 0;
    size_t first = i;

    for (; i < text.len; i++) {
        if (text.at[i] >= '0' && text.at[i] <= '9')
            digits++;
        else if (text.at[i] != '.' || i == first || ++dots > 1)
            return false;
    }
    if (digits == 0 || digits > NUMBER_DIGITS || text.at[text.len - 1] == '.')
        return false;
    return text.at[first] != '0' || text.len == first + 1 ||
           text.at[first + 1] == '.';
}

static bool is_bare(const struct sl_yaml_node *node)
{
    return !node->quoted &&
           (sl_str_eq(node->text, SL_STR("true")) ||
            sl_str_eq(node->text, SL_STR("false")) ||
            sl_str_eq(node->text, SL_STR("null")) || is_number(node->text));
}

static void cut_scalar(struct cutter *cut, const struct sl_yaml_node *node)
{
    struct sl_template_piece piece = {.kind = SL_TEMPLATE_PIECE_VALUE};
    struct sl_diag diag = {.line = 0};

    if (is_value(node->text, &piece.holder)) {
        add_piece(cut, &piece);
    } else if (is_bare(node)) {
        add_raw(cut, node->text);
    } else {
        add_raw(cut, SL_STR("\""));
        if (cut_text(cut, node->text, &diag))
            sl_report_diag(cut->report, node->place, &diag);
        add_raw(cut, SL_STR("\""));
    }
}

/* {limit} without quotes is a map to YAML, and hardly what was meant. */
static void warn_of_quotes(struct cutter *cut, const struct sl_yaml_node *node)
{
    enum sl_placeholder holder;

    if (node->kind != SL_NODE_MAP || node->count != 1 ||
        node->child->kind != SL_NODE_EMPTY ||
        !find_holder(node->child->key, &holder))
        return;
    sl_report_warning(cut->report, node->place,
                      "{%s} without quotes is a map with an empty \"%s\". Put "
                      "a placeholder in quotes" SL_HINT "\"{%s}\"",
                      sl_holder_names[holder], sl_holder_names[holder],
                      sl_holder_names[holder]);
}

/* At most SL_YAML_DEPTH deep. Braces in names of members are literal. */
static void cut_node(struct cutter *cut, const struct sl_yaml_node *node)
{
    bool map = node->kind == SL_NODE_MAP;

    if (node->kind == SL_NODE_EMPTY)
        add_raw(cut, SL_STR("null"));
    else if (node->kind == SL_NODE_SCALAR)
        cut_scalar(cut, node);
    if (!map && node->kind != SL_NODE_LIST)
        return;
    warn_of_quotes(cut, node);
    add_raw(cut, map ? SL_STR("{") : SL_STR("["));
    for (const struct sl_yaml_node *c = node->child; c; c = c->next) {
        if (c != node->child)
            add_raw(cut, SL_STR(","));
        if (map) {
            add_raw(cut, SL_STR("\""));
            add_words(cut, c->key);
            add_raw(cut, SL_STR("\":"));
        }
        cut_node(cut, c);
    }
    add_raw(cut, map ? SL_STR("}") : SL_STR("]"));
}

int sl_template_read_body(const struct sl_yaml_node *node,
                          struct sl_arena *arena, struct sl_template *ret,
                          struct sl_report *report)
{
    unsigned errors = report->errors;
    struct cutter cut;
    int err;

    cutter_init(&cut, arena);
    cut.body = true;
    cut.report = report;
    cut_node(&cut, node);
    err = error_of(&cut);
    if (err == SLUICE_EFULL) {
        sl_report_error(report, node->place, "The body is too long");
        err = 0;
    }
    if (!err && report->errors > errors)
        err = SLUICE_ECONF;
    if (!err)
        err = hand_over(&cut, arena, ret);
    cutter_done(&cut);
    return err;
}
