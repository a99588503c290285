/* yaml.c -- text to a tree of nodes with places.
 *
 *     bytes ----> events ----> nodes
 *       |           |            |
 *       |           |            twins, substitutions, empty values
 *       |           anchors, aliases, tags, depth, count
 *       size, UTF-8, control characters, directives
 *
 * Events are taken from libfyaml one by one, so that what would be dangerous
 * is refused before anything is built of it: nothing is ever resolved, and
 * neither depth nor count gets further than ours. libfyaml writes nothing to
 * the terminal: its diagnostics are collected, and complain.c puts them into
 * words.
 *
 * Places come from libfyaml's offsets, which count bytes, and an index of the
 * lines: its columns count characters. What has no token of its own, an empty
 * item or the head of a block of text, is looked for behind the last token.
 */
#include "policy/yaml/yaml.h"

#include <string.h>

#include "policy/yaml/bytes.h"
#include "policy/yaml/reader.h"

/* ---- what is refused ---- */

static size_t offset_of(const struct sl_reader *r, const struct fy_mark *mark)
{
    size_t at = mark ? mark->input_pos : r->seen;

    return at < r->text.len ? at : r->text.len;
}

static struct sl_place place_of(const struct sl_reader *r,
                                const struct fy_mark *mark)
{
    return sl_reader_place(r, offset_of(r, mark));
}

/* The same for marks that stand behind a quote, an ampersand or a star. */
static struct sl_place place_before(const struct sl_reader *r,
                                    const struct fy_mark *mark)
{
    size_t at = offset_of(r, mark);

    return sl_reader_place(r, at - (at > 0));
}

static void no_memory(struct sl_reader *r)
{
    r->report->no_memory = r->stop = true;
}

static void refuse_properties(struct sl_reader *r, struct fy_token *anchor,
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

static struct sl_node *new_node(struct sl_reader *r, enum sl_node_kind kind,
                                struct sl_place place)
{
    struct sl_node *node;

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
    *node = (struct sl_node){.kind = kind, .place = place};
    return node;
}

static struct sl_frame *top(struct sl_reader *r)
{
    return r->depth ? &r->stack[r->depth - 1] : NULL;
}

/* Does a key come next? */
static bool wants_key(struct sl_reader *r)
{
    struct sl_frame *frame = top(r);

    return frame && frame->node->kind == SL_NODE_MAP && !frame->has_key;
}

/* Hang a node into the collection that is open. */
static void add(struct sl_reader *r, struct sl_node *node)
{
    struct sl_frame *frame = top(r);
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
static void drop_next(struct sl_reader *r)
{
    struct sl_frame *frame = top(r);

    frame->key = (struct sl_str){"", 0};
    frame->has_key = frame->drop = true;
}

static void push(struct sl_reader *r, enum sl_node_kind kind,
                 struct fy_event *event)
{
    struct sl_place place = place_of(r, fy_event_start_mark(event));
    bool is_key = wants_key(r);
    struct sl_node *node;

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
        (struct sl_frame){.node = node, .tail = &node->child, .is_key = is_key};
}

static void pop(struct sl_reader *r)
{
    struct sl_frame *frame = top(r);

    if (frame->node->kind == SL_NODE_MAP)
        sl_reader_twins(r, frame->node);
    r->depth--;
    if (frame->is_key)
        drop_next(r);
}

/* ---- scalars ---- */

struct scalar {
    struct sl_str text;
    struct sl_place place;
    enum fy_scalar_style style;
};

static struct sl_place place_of_scalar(struct sl_reader *r,
                                       struct fy_event *event,
                                       enum fy_scalar_style style)
{
    const struct fy_mark *mark = fy_event_start_mark(event);
    struct sl_frame *frame = top(r);
    size_t at = offset_of(r, mark);

    if (style == FYSS_LITERAL || style == FYSS_FOLDED) {
        at = sl_reader_look(r, "|>");
    } else if (style == FYSS_SINGLE_QUOTED || style == FYSS_DOUBLE_QUOTED) {
        at -= at > 0; /* the mark stands behind the quote */
    } else if (!mark && frame && frame->has_key) {
        return frame->key_place;
    } else if (!mark) {
        at = sl_reader_look(r, frame && frame->node->kind == SL_NODE_MAP ? ":"
                                                                         : "-");
        r->seen = at < r->text.len ? at + 1 : at;
    }
    return sl_reader_place(r, at);
}

static bool read_token(struct sl_reader *r, struct fy_token *token,
                       struct sl_str *ret)
{
    if (fy_token_scalar_style(token) == FYSS_SINGLE_QUOTED)
        return sl_reader_single(r, offset_of(r, fy_token_start_mark(token)),
                                ret);
    return sl_reader_text(token, ret);
}

/* Take the scalar from its event. False without memory. */
static bool read_scalar(struct sl_reader *r, struct fy_event *event,
                        struct scalar *ret)
{
    struct fy_token *token = event->scalar.value;

    ret->text = (struct sl_str){"", 0};
    ret->style = token ? fy_token_scalar_style(token) : FYSS_PLAIN;
    if (token && !read_token(r, token, &ret->text)) {
        no_memory(r);
        return false;
    }
    ret->place = place_of_scalar(r, event, ret->style);
    return true;
}

static bool is_plain(const struct scalar *s, struct sl_str text)
{
    return s->style == FYSS_PLAIN && sl_str_eq(s->text, text);
}

static bool refuse_key(struct sl_reader *r, const struct scalar *key)
{
    struct sl_place place = key->place;

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

static void read_key(struct sl_reader *r, const struct scalar *scalar)
{
    struct sl_frame *frame = top(r);
    struct sl_node *map = frame->node;
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
static bool check_escapes(struct sl_reader *r, struct sl_node *node)
{
    struct sl_bytes_fault bad = sl_bytes_check(node->text);
    char words[64];

    if (!bad.fault)
        return true;
    sl_report_error(r->report, node->place,
                    "This string contains %s, written as an escape. A policy "
                    "must be plain text",
                    sl_bytes_words(&bad, words));
    sl_node_refuse(node);
    return false;
}

static void read_value(struct sl_reader *r, const struct scalar *scalar)
{
    bool plain = scalar->style == FYSS_PLAIN;
    bool empty = is_plain(scalar, SL_STR("")) ||
                 is_plain(scalar, SL_STR("~")) ||
                 is_plain(scalar, SL_STR("null"));
    struct sl_node *node =
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

static void on_scalar(struct sl_reader *r, struct fy_event *event)
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

static void on_alias(struct sl_reader *r, struct fy_event *event)
{
    struct sl_place place = place_before(r, fy_event_start_mark(event));
    struct sl_node *node;

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

static void on_document(struct sl_reader *r, struct fy_event *event)
{
    if (!r->root)
        return;
    sl_report_error(r->report, place_of(r, fy_event_start_mark(event)),
                    "A second document begins here. A policy must be one "
                    "document");
    r->over = true;
}

static void on_event(struct sl_reader *r, struct fy_event *event)
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

/* ---- the whole ---- */

/* Say what is still to be said of the collections that are open. */
static void end_early(struct sl_reader *r)
{
    for (; r->depth > 0; r->depth--)
        if (top(r)->node->kind == SL_NODE_MAP)
            sl_reader_twins(r, top(r)->node);
    r->stop = true;
}

static void read_events(struct sl_reader *r)
{
    while (!r->over && !r->stop) {
        struct fy_event *event = sl_reader_next(r);

        if (r->report->no_memory) {
            fy_parser_event_free(r->parser, event);
            return;
        }
        if (!event) {
            if (!r->stop)
                sl_reader_complain(r);
            end_early(r);
            return;
        }
        r->over = event->type == FYET_STREAM_END;
        on_event(r, event);
        fy_parser_event_free(r->parser, event);
    }
}

/* Read r->text; r->root stays NULL if there is nothing in it. */
static void read_text(struct sl_reader *r)
{
    if (!sl_reader_index(r)) {
        no_memory(r);
        return;
    }
    if (!sl_reader_check(r)) {
        r->stop = true;
        return;
    }
    if (r->text.len == 0)
        return;
    if (sl_reader_open(r))
        read_events(r);
    else
        no_memory(r);
    sl_reader_close(r);
}

struct sl_node *sl_yaml_read(struct sl_report *report,
                             const struct sl_yaml_options *options,
                             struct sl_arena *arena)
{
    struct sl_reader r = {
        .report = report,
        .arena = arena,
        .subst = {.options = options, .report = report, .arena = arena},
        .text = report->text,
    };

    if (report->text.len > SL_YAML_BYTES) {
        sl_report_error(report, (struct sl_place){1, 1},
                        "The file has %zu bytes. The maximum of a policy is %d",
                        report->text.len, SL_YAML_BYTES);
        return NULL;
    }
    if (report->text.len >= 3 && !memcmp(report->text.at, "\xef\xbb\xbf", 3))
        r.text = sl_str_from(report->text, 3);
    read_text(&r);
    sl_alloc_free(report->alloc, r.lines, r.line_count * sizeof(*r.lines));
    if (r.stop || report->no_memory)
        return NULL;
    if (!r.root)
        r.root = new_node(&r, SL_NODE_MAP, (struct sl_place){1, 1});
    else if (r.root->kind == SL_NODE_EMPTY && !r.root->refused)
        r.root->kind = SL_NODE_MAP;
    return r.root;
}
