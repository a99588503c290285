/* guard.c -- `guard` of a route: the key of what is done by one at a time.
 *
 *     finalize:{org}:{header.x-recording-id}
 *
 * Values are escaped in it as in the names of limits (policy/key.h), and
 * between two placeholders there must be a byte that no escaped value has: so
 * different values never make one key.
 *
 * All guards are kept by one rule of one permit, which stands behind the limits
 * of the policy and has no name that anybody could write.
 */
#include "policy/build/build.h"

#include <string.h>

struct reading {
    struct sl_build *b;
    const struct sl_node *node; /* the text */
    struct sl_str text;         /* of it, what is not read yet */
    struct sl_conflict_piece *pieces;
    unsigned count, values;
    bool parted; /* from the value before, or there was none */
};

/* ---- the rule ---- */

static bool make_rule(struct sl_build *b, struct sl_rule *rule)
{
    const struct sl_rate one = {.form = SL_RATE_PLAIN, .count = 1};
    const struct sl_limit_options options = {.anchor = 0};

    *rule = (struct sl_rule){
        .name = SL_STR(SL_GUARD_NAME),
        .index = b->policy->rule_count,
        .kind = SL_PERMITS,
        .failure = SL_FAILURE_DENY,
        .on_full = SL_FULL_DENY, /* never two */
        .cost = 1,
        .limited = true,
        .key_text = SL_STR("sluice:{env}:" SL_GUARD_NAME ":"),
    };
    if (!sl_limit_init(&rule->strictest, SL_PERMITS, &one, &options, NULL) &&
        !sl_key_template_read(rule->key_text, b->arena, &rule->key, NULL))
        return true;
    b->no_memory = true;
    return false;
}

/* Behind the last limit there is room for one. */
static void add_rule(struct sl_build *b)
{
    struct sl_policy *policy = b->policy;

    if (policy->rule_total > policy->rule_count)
        return;
    if (!b->rules)
        b->rules = sl_build_take(b, 1, sizeof(*b->rules));
    if (!b->rules || !make_rule(b, &b->rules[policy->rule_count]))
        return;
    policy->rules = b->rules;
    policy->rule_total = policy->rule_count + 1;
}

/* ---- its key ---- */

static bool refuse(struct reading *r, const char *sentence)
{
    sl_report_error(r->b->report, SL_AT(r->node), "%s", sentence);
    return false;
}

static const struct sl_require *read_header(struct reading *r,
                                            struct sl_str word)
{
    struct sl_sources sources = {0};
    struct sl_node item = *r->node;
    struct sl_require *require;

    item.text = sl_build_keep(r->b, word);
    item.next = NULL;
    sl_build_sources(r->b, &item, SL_OF_GUARDS, &sources);
    require = sl_build_take(r->b, 1, sizeof(*require));
    if (!require || sources.count == 0)
        return NULL;
    require->header = sources.list[0].name;
    require->status = 400;
    require->code = SL_STR("BAD_REQUEST");
    return require;
}

static bool read_scope(struct reading *r, struct sl_str word,
                       struct sl_conflict_piece *piece)
{
    int scope = sl_names_find(&r->b->box->scopes, word);

    if (scope == SL_SCOPE_USER || scope == SL_SCOPE_ORG ||
        scope == SL_SCOPE_IP || scope >= SL_SCOPE_NAMED) {
        piece->scope = (unsigned)scope;
        return true;
    }
    if (!r->b->box->scopes.unsure)
        sl_hint(sl_report_error(r->b->report, SL_AT(r->node),
                                "Unknown placeholder {%s} in a guard. Valid "
                                "placeholders: {header.NAME}, {user}, {org}, "
                                "{ip} and the scopes of `identity`",
                                sl_quote(word).text),
                "{header.%s}", sl_quote(word).text);
    return false;
}

static bool read_value(struct reading *r)
{
    static const char header[] = "header.";
    struct sl_conflict_piece *piece = &r->pieces[r->count];
    struct sl_str word = sl_str_from(r->text, 1);
    const char *end = word.len ? memchr(word.at, '}', word.len) : NULL;

    if (!end)
        return refuse(r, "Missing closing brace in the guard's key. Write {{ "
                         "for a literal brace");
    word.len = (size_t)(end - word.at);
    if (!r->parted)
        return refuse(r, "Two placeholders of the guard's key have no "
                         "separator, so different values could produce the "
                         "same key. Write a colon between them");
    if (r->values == SL_GUARD_VALUES)
        return refuse(r, "A guard's key can have at most 4 placeholders");
    if (word.len >= sizeof(header) - 1 &&
        memcmp(word.at, header, sizeof(header) - 1) == 0) {
        piece->header = read_header(r, word);
        if (!piece->header)
            return false;
    } else if (!read_scope(r, word, piece)) {
        return false;
    }
    r->text = sl_str_from(r->text, word.len + 2);
    r->count++;
    r->values++;
    r->parted = false;
    return true;
}

static bool is_single(struct sl_str text, char brace)
{
    return text.at[0] == brace && !(text.len > 1 && text.at[1] == brace);
}

/* Up to the next placeholder. */
static bool read_literal(struct reading *r)
{
    char *room = sl_build_take(r->b, r->text.len + 1, 1);
    size_t len = 0;

    while (room && r->text.len > 0 && !is_single(r->text, '{')) {
        char c = r->text.at[0];

        if (is_single(r->text, '}'))
            return refuse(r, "Unexpected closing brace in the guard's key. "
                             "Write }} for a literal brace");
        if ((c & 0xe0) == 0 || c == 0x7f)
            return refuse(r, "A guard's key must not contain control "
                             "characters");
        room[len++] = c;
        r->parted |= !sl_key_is_plain((unsigned char)c) && c != '%';
        r->text = sl_str_from(r->text, c == '{' || c == '}' ? 2 : 1);
    }
    r->pieces[r->count++].literal = (struct sl_str){room, room ? len : 0};
    return room != NULL;
}

static void read_key(struct reading *r, struct sl_conflict *ret)
{
    size_t len = r->text.len;
    bool good = true;

    if (len == 0 || len > SL_KEY_TEXT) {
        sl_hint(sl_report_error(r->b->report, SL_AT(r->node),
                                "A guard's key must have 1 to %d bytes, not "
                                "%zu",
                                SL_KEY_TEXT, len),
                "finalize:{header.x-recording-id}");
        return;
    }
    r->pieces = sl_build_take(r->b, len, sizeof(*r->pieces));
    while (r->pieces && good && r->text.len > 0)
        good = is_single(r->text, '{') ? read_value(r) : read_literal(r);
    ret->pieces = r->pieces;
    ret->count = r->pieces ? r->count : 0;
}

/* ---- all of it ---- */

void sl_build_guard(struct sl_build *b, const struct sl_node *node,
                    const struct sl_route *route, struct sl_conflict *ret)
{
    static const char *const words[] = {"deny", "skip"};
    bool is_map = node && node->kind == SL_NODE_MAP;
    const struct sl_node *key = is_map ? sl_build_scalar(node, "key") : node;
    struct reading r = {.b = b, .node = key, .parted = true};

    if (!key || key->kind != SL_NODE_SCALAR)
        return;
    ret->written = true;
    ret->text = sl_build_keep(b, key->text);
    ret->hold = sl_build_hold_span(b, node);
    ret->skip = sl_build_choice(node, "missing", words, 2, 0) == 1;
    r.text = ret->text;
    read_key(&r, ret);
    add_rule(b);
    if (route->rule_count == SL_PARTS)
        sl_report_error(b->report, SL_AT_KEY(node),
                        "A route with a guard can have at most %d limits",
                        SL_PARTS - 1);
}
