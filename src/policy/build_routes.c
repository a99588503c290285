/* build_routes.c -- `routes` and `default`: what requests match, the checks
 * before their limits, and their limits. */
#include <stdio.h>
#include <string.h>

#include "base/parse.h"
#include "policy/policy_int.h"
#include "wire/json.h"

#define SECRET_MIN   16 /* bytes; Standard Webhooks asks for 24 */
#define BACKLOGS_MAX 256
#define AMOUNT_MAX   ((UINT64_C(1) << 53) - 1)

/* Of the tree that finds covered routes: 64 segments of each. */
#define COVER_BYTES ((size_t)64 << 20)

void sl_fill_header(struct sl_build *b, const struct sl_schema_key *row,
                    const struct sl_yaml_node *node, void *into)
{
    if (node)
        *(struct sl_str *)sl_schema_field(row, into) = sl_build_header(b, node);
}

/* ---- verify ---- */

static bool read_secret(struct sl_build *b, const struct sl_yaml_node *item,
                        void *list, unsigned i, const void *ctx)
{
    enum sl_webhook_scheme scheme = *(const enum sl_webhook_scheme *)ctx;
    uint8_t *room = sl_build_take(b, item->text.len + 1, 1);
    struct sl_str *ret = (struct sl_str *)list + i;

    if (!room)
        return false;
    if (!sl_webhook_secret(scheme, item->text, room, ret))
        return sl_build_error(
            b, item,
            scheme == SL_WEBHOOK_STANDARD
                ? "A secret of standard-webhooks must be base64, like "
                  "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
                : "The secret must not be empty");
    return ret->len >= SECRET_MIN ||
           sl_build_error(
               b, item, "A secret of %zu bytes is too short. The minimum is %d",
               ret->len, SECRET_MIN);
}

/* "webhook" and "-id" in lower case. */
static struct sl_str join(struct sl_build *b, struct sl_str name,
                          const char *behind)
{
    size_t len = strlen(behind);
    char *text = sl_build_take(b, name.len + len + 1, 1);

    if (!text)
        return SL_STR("");
    for (size_t i = 0; i < name.len; i++)
        text[i] = (char)(name.at[i] >= 'A' && name.at[i] <= 'Z'
                             ? name.at[i] - 'A' + 'a'
                             : name.at[i]);
    memcpy(text + name.len, behind, len + 1);
    return (struct sl_str){text, name.len + len};
}

/* For standard-webhooks, `header` is the prefix of three headers. */
static void name_headers(struct sl_build *b, const struct sl_yaml_node *header,
                         struct sl_verify *verify)
{
    static const char *const usual[] = {"webhook", "stripe-signature",
                                        "x-hub-signature-256"};
    static const char *const behind[] = {"-id", "-timestamp", "-signature"};
    struct sl_str name = sl_str_c(usual[verify->rules.scheme]);

    if (header && sl_build_name(b, "a header", header))
        name = header->text;
    if (header && memchr(header->text.at, '_', header->text.len))
        sl_build_error(b, header,
                       "Headers with an underscore are ignored, because many "
                       "servers read it as a hyphen");
    verify->header = join(b, name, "");
    verify->names[2] = verify->header;
    for (int i = 0; i < 3 && verify->rules.scheme == SL_WEBHOOK_STANDARD; i++)
        verify->names[i] = join(b, name, behind[i]);
}

/* "${ENV:HOOK_SECRET:-}" of a variable that is not set: no signature is valid.
 */
static bool is_unset(const struct sl_yaml_node *secret)
{
    return secret && secret->kind == SL_NODE_SCALAR && secret->substituted &&
           secret->text.len == 0;
}

static void read_verify(struct sl_build *b, const struct sl_yaml_node *node,
                        struct sl_verify *verify)
{
    static const struct sl_list_form secrets = {
        .most = SL_WEBHOOK_SECRETS,
        .items = "secrets",
        .empty = "The list of secrets is empty. No webhook could be verified",
        .size = sizeof(struct sl_str),
        .read = read_secret,
    };
    struct sl_webhook_rules *rules = &verify->rules;
    const struct sl_yaml_node *secret = sl_build_get(node, "secret");

    if (!node)
        return;
    verify->written = true;
    if (!sl_build_get(node, "scheme"))
        return; /* reported by the schema */
    sl_schema_fill(b, SL_LEVEL_VERIFY, node, verify);
    if (is_unset(secret))
        sl_report_warning(b->report, secret->place,
                          "The secret is empty, so every webhook of this route "
                          "gets 401. Set the variable");
    else
        rules->secrets = sl_build_list(b, secret, &secrets, &rules->scheme,
                                       &rules->secret_count);
    name_headers(b, sl_build_get(node, "header"), verify);
}

/* ---- dedupe ---- */

static bool read_field(struct sl_build *b, const struct sl_yaml_node *item,
                       void *list, unsigned i, const void *ctx)
{
    struct sl_dedupe_field *ret = (struct sl_dedupe_field *)list + i;

    (void)ctx;
    for (unsigned k = 0; k < SL_LEN(sl_dedupe_field_words); k++)
        if (sl_str_eq(item->text, sl_str_c(sl_dedupe_field_words[k]))) {
            ret->kind = (enum sl_dedupe_field_kind)k;
            return true;
        }
    if (item->text.len <= 7 || memcmp(item->text.at, "header.", 7) != 0)
        return sl_build_error(
            b, item,
            "Unknown part \"%.64s\" of a fingerprint. Write method, path, "
            "cost, body or header.NAME",
            sl_build_shown(item).text);
    ret->kind = SL_DEDUPE_FIELD_HEADER;
    ret->header = sl_build_header(b, item);
    return ret->header.len > 0;
}

static struct sl_str print_field(const void *list, unsigned i, char *room)
{
    const struct sl_dedupe_field *field =
        (const struct sl_dedupe_field *)list + i;

    return field->kind == SL_DEDUPE_FIELD_HEADER
               ? sl_print_header_name(field->header, room)
               : sl_str_c(sl_dedupe_field_words[field->kind]);
}

const struct sl_list_form sl_list_fingerprint = {
    .most = SL_DEDUPE_FIELDS_MAX,
    .items = "traits",
    .item = "Part",
    .size = sizeof(struct sl_dedupe_field),
    .read = read_field,
    .print = print_field,
};

/* The scalar of `guard` or `dedupe`, or the `key` of its map. */
static const struct sl_yaml_node *key_of(const struct sl_yaml_node *node)
{
    return node && node->kind == SL_NODE_MAP ? sl_build_get(node, "key") : node;
}

/* Reads the pointer behind `body.`; "" after a mistake. */
struct sl_str sl_build_pointer(struct sl_build *b,
                               const struct sl_yaml_node *node,
                               struct sl_str pointer)
{
    if (sl_json_pointer_ok(pointer))
        return sl_build_keep(b, pointer);
    sl_build_error(b, node,
                   "\"%.64s\" is not a JSON pointer (RFC 6901) into the "
                   "body. Write body./id or body./data/object/id, with ~1 "
                   "for a slash in a name and ~0 for a tilde",
                   sl_build_shown(node).text);
    return SL_STR("");
}

/* `header.NAME`, or `body./POINTER`. */
static void read_dedupe_key(struct sl_build *b, const struct sl_yaml_node *key,
                            struct sl_dedupe *dedupe)
{
    if (sl_str_begins(key->text, SL_STR("header.")))
        dedupe->header = sl_build_header(b, key);
    else if (sl_str_begins(key->text, SL_STR("body.")))
        dedupe->pointer = sl_build_pointer(b, key, sl_str_from(key->text, 5));
    else
        sl_build_error(b, key,
                       "Unknown source \"%.64s\". Write header.NAME, or "
                       "body./id for a value in the JSON body",
                       sl_build_shown(key).text);
}

static void read_dedupe(struct sl_build *b, const struct sl_yaml_node *node,
                        struct sl_dedupe *dedupe)
{
    static const struct sl_dedupe_field usual[] = {
        {.kind = SL_DEDUPE_FIELD_METHOD},
        {.kind = SL_DEDUPE_FIELD_PATH},
        {.kind = SL_DEDUPE_FIELD_COST},
        {.kind = SL_DEDUPE_FIELD_BODY}};
    const struct sl_yaml_node *key = key_of(node);

    if (!key)
        return;
    dedupe->written = true;
    read_dedupe_key(b, key, dedupe);
    sl_schema_fill(b, SL_LEVEL_DEDUPE, node, dedupe);
    if (!dedupe->traits) {
        dedupe->traits = usual;
        dedupe->trait_count = SL_LEN(usual);
    }
}

/* ---- require ---- */

/* A count or a size: 10k, 5GB. */
static bool read_amount(struct sl_build *b, const struct sl_yaml_node *node,
                        uint64_t *ret)
{
    if (sl_parse_count(node->text, ret, NULL) &&
        sl_parse_size(node->text, ret, NULL))
        return sl_build_error(
            b, node,
            "\"%.64s\" is not a count or a size. Write it like 10000 or 5GB",
            sl_build_shown(node).text);
    return *ret <= AMOUNT_MAX ||
           sl_build_error(b, node,
                          "\"%.64s\" is too large. The maximum is 2^53",
                          sl_build_shown(node).text);
}

void sl_fill_bound(struct sl_build *b, const struct sl_schema_key *row,
                   const struct sl_yaml_node *node, void *into)
{
    struct sl_require *require = into;
    bool good = node && read_amount(b, node, sl_schema_field(row, into));

    if (strcmp(row->name, "min") == 0)
        require->has_min = good;
    else
        require->has_max = good;
}

static void read_require(struct sl_build *b, const struct sl_yaml_node *node,
                         struct sl_require *ret)
{
    const struct sl_yaml_node *code = sl_build_get(node, "code");
    struct sl_yaml_node header = *node;

    if (node->kind != SL_NODE_MAP)
        return;
    header.text = node->key;
    header.place = node->key_place;
    ret->header = sl_build_header(b, &header);
    sl_schema_fill(b, SL_LEVEL_BOUNDS, node, ret);
    ret->code =
        ret->status == 413 ? SL_STR("TOO_LARGE") : SL_STR("BAD_REQUEST");
    if (code && sl_build_name(b, "a code", code))
        ret->code = sl_build_keep(b, code->text);
    if (ret->has_min && ret->has_max && ret->min > ret->max)
        sl_build_error(b, sl_yaml_node_get(node, "max"),
                       "`max` must not be less than `min`");
    if (!sl_yaml_node_get(node, "min") && !sl_yaml_node_get(node, "max") &&
        !sl_yaml_node_get(node, "equals"))
        sl_build_key_error(b, node,
                           "The header has no bounds. Write min, max or "
                           "equals" SL_HINT "max: 5GB");
}

static void read_requires(struct sl_build *b, const struct sl_yaml_node *node,
                          struct sl_prechecks *guards)
{
    struct sl_require *list;

    if (!node || !sl_build_short(b, node, SL_REQUIRES_MAX, "requirements"))
        return;
    list = sl_build_take(b, SL_REQUIRES_MAX, sizeof(*list));
    if (!list)
        return;
    guards->requires = list;
    for (const struct sl_yaml_node *n = node->child; n; n = n->next)
        read_require(b, n, &list[guards->require_count++]);
}

/* ---- backlog ---- */

/* Routes that lead to the same work share one. */
static unsigned find_backlog(struct sl_build *b,
                             const struct sl_yaml_node *node,
                             struct sl_str name)
{
    struct sl_policy *policy = b->policy;
    struct sl_str *list = (struct sl_str *)(uintptr_t)policy->backlogs;

    if (!list)
        list = sl_build_take(b, BACKLOGS_MAX, sizeof(*list));
    if (!list)
        return 0;
    policy->backlogs = list;
    for (unsigned i = 0; i < policy->backlog_count; i++)
        if (sl_str_eq(list[i], name))
            return i;
    if (policy->backlog_count == BACKLOGS_MAX) {
        sl_build_key_error(b, node,
                           "The policy has more than %d backlogs. Let routes "
                           "share a backlog by `name`",
                           BACKLOGS_MAX);
        return 0;
    }
    list[policy->backlog_count] = name;
    return policy->backlog_count++;
}

static void read_backlog(struct sl_build *b, const struct sl_yaml_node *node,
                         struct sl_str endpoint, struct sl_backlog *ret)
{
    const struct sl_yaml_node *name = sl_build_get(node, "name");

    if (!node)
        return;
    ret->written = true;
    sl_schema_fill(b, SL_LEVEL_BACKLOG, node, ret);
    if (name && sl_build_name(b, "a backlog", name))
        endpoint = sl_build_keep(b, name->text);
    ret->index = find_backlog(b, node, endpoint);
}

/* ---- `guard` of a route: the key of what is done by one at a time.
 *
 *     finalize:{org}:{header.x-recording-id}
 *
 * Values are escaped in it as in the names of limits (policy/key.h), and
 * between two placeholders there must be a byte that no escaped value has: so
 * different values never make one key.
 *
 * All guards are kept by one rule of one permit, which stands behind the limits
 * of the policy and has a name that a policy cannot write.
 */

struct guard_reader {
    struct sl_build *b;
    const struct sl_yaml_node *node; /* the text */
    struct sl_str text;              /* of it, what is not read yet */
    struct sl_guard_piece *pieces;
    unsigned count, values;
    bool parted; /* from the value before, or there was none */
};

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

    if (policy->rules && policy->rules[policy->rule_count].limited)
        return;
    if (!b->rules)
        b->rules = sl_build_take(b, 1, sizeof(*b->rules));
    if (!b->rules || !make_rule(b, &b->rules[policy->rule_count]))
        return;
    policy->rules = b->rules;
    if (policy->rule_total == policy->rule_count)
        policy->rule_total++;
}

static const struct sl_require *guard_read_header(struct guard_reader *r,
                                                  struct sl_str word)
{
    struct sl_require *require = sl_build_take(r->b, 1, sizeof(*require));
    struct sl_yaml_node item = *r->node;

    item.text = sl_build_keep(r->b, word);
    if (!require)
        return NULL;
    require->header = sl_build_header(r->b, &item);
    require->status = 400;
    require->code = SL_STR("BAD_REQUEST");
    return require->header.len > 0 ? require : NULL;
}

static bool read_scope(struct guard_reader *r, struct sl_str word,
                       struct sl_guard_piece *piece)
{
    int scope = sl_names_find(&r->b->box->scopes, word);

    if (scope == SL_SCOPE_USER || scope == SL_SCOPE_ORG ||
        scope == SL_SCOPE_IP || scope >= SL_SCOPE_NAMED) {
        piece->scope = (unsigned)scope;
        return true;
    }
    if (!r->b->box->scopes.unsure)
        sl_build_error(r->b, r->node,
                       "Unknown placeholder {%s} in a guard. Valid "
                       "placeholders: {header.NAME}, {user}, {org}, {ip} and "
                       "the scopes of `identity`" SL_HINT "{header.%s}",
                       sl_quote(word).text, sl_quote(word).text);
    return false;
}

static bool read_value(struct guard_reader *r)
{
    static const char header[] = "header.";
    struct sl_guard_piece *piece = &r->pieces[r->count];
    struct sl_str word = sl_str_from(r->text, 1);
    const char *end = word.len ? memchr(word.at, '}', word.len) : NULL;

    if (!end)
        return sl_build_error(r->b, r->node,
                              "Missing closing brace in the guard's key. Write "
                              "{{ for a literal brace");
    word.len = (size_t)(end - word.at);
    if (!r->parted)
        return sl_build_error(r->b, r->node,
                              "Two placeholders of the guard's key have no "
                              "separator, so different values could produce "
                              "the same key. Write a colon between them");
    if (r->values == SL_GUARD_VALUES)
        return sl_build_error(r->b, r->node,
                              "A guard's key can have at most 4 placeholders");
    if (word.len >= sizeof(header) - 1 &&
        memcmp(word.at, header, sizeof(header) - 1) == 0) {
        piece->header = guard_read_header(r, word);
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
static bool read_literal(struct guard_reader *r)
{
    char *room = sl_build_take(r->b, r->text.len + 1, 1);
    size_t len = 0;

    while (room && r->text.len > 0 && !is_single(r->text, '{')) {
        char c = r->text.at[0];

        if (is_single(r->text, '}'))
            return sl_build_error(r->b, r->node,
                                  "Unexpected closing brace in the guard's "
                                  "key. Write }} for a literal brace");
        if ((c & 0xe0) == 0 || c == 0x7f)
            return sl_build_error(
                r->b, r->node,
                "A guard's key must not contain control characters");
        room[len++] = c;
        r->parted |= !sl_key_is_plain((unsigned char)c) && c != '%';
        r->text = sl_str_from(r->text, c == '{' || c == '}' ? 2 : 1);
    }
    r->pieces[r->count++].literal = (struct sl_str){room, room ? len : 0};
    return room != NULL;
}

static void read_key(struct guard_reader *r, struct sl_guard *ret)
{
    size_t len = r->text.len;
    bool good = true;

    if (len == 0 || len > SL_KEY_TEXT) {
        sl_build_error(r->b, r->node,
                       "A guard's key must have 1 to %d bytes, not %zu" SL_HINT
                       "finalize:{header.x-recording-id}",
                       SL_KEY_TEXT, len);
        return;
    }
    r->pieces = sl_build_take(r->b, len, sizeof(*r->pieces));
    while (r->pieces && good && r->text.len > 0)
        good = is_single(r->text, '{') ? read_value(r) : read_literal(r);
    ret->pieces = r->pieces;
    ret->count = r->pieces ? r->count : 0;
}

static void read_guard(struct sl_build *b, const struct sl_yaml_node *node,
                       const struct sl_route *route, struct sl_guard *ret)
{
    const struct sl_yaml_node *key = key_of(node);
    struct guard_reader r = {.b = b, .node = key, .parted = true};

    if (!key)
        return;
    ret->written = true;
    ret->text = sl_build_keep(b, key->text);
    sl_schema_fill(b, SL_LEVEL_GUARD, node, ret);
    r.text = ret->text;
    read_key(&r, ret);
    add_rule(b);
    if (route->rule_count == SL_PARTS)
        sl_build_key_error(b, node,
                           "A route with a guard can have at most %d limits",
                           SL_PARTS - 1);
}

static void read_prechecks(struct sl_build *b, const struct sl_yaml_node *node,
                           struct sl_route *route)
{
    static const char *const keys[] = {"verify", "dedupe",  "require",
                                       "cost",   "backlog", "guard"};
    struct sl_prechecks *guards;
    bool any = false;

    for (size_t i = 0; i < SL_LEN(keys); i++)
        any = any || sl_yaml_node_get(node, keys[i]);
    guards = any ? sl_build_take(b, 1, sizeof(*guards)) : NULL;
    if (!guards)
        return;
    guards->next = b->policy->guarded;
    b->policy->guarded = route->guards = guards;
    read_verify(b, sl_build_get(node, "verify"), &guards->verify);
    read_dedupe(b, sl_build_get(node, "dedupe"), &guards->dedupe);
    read_requires(b, sl_build_get(node, "require"), guards);
    sl_build_costs(b, sl_build_get(node, "cost"), route, guards);
    read_backlog(b, sl_build_get(node, "backlog"), route->endpoint,
                 &guards->backlog);
    read_guard(b, sl_build_get(node, "guard"), route, &guards->guard);
}

/* ---- names of endpoints without `endpoint`.
 *
 *     /api/v1/ai/(2 stars)   api-v1-ai
 *     /api/items/:id         api-items-_id
 *     /api/items/id          api-items-id
 *     /api-items/id          api-items-id-2, since there is one by that name
 *
 * A limit `per: endpoint` keeps a state for each name, so two things must not
 * have one name. But GET /items and POST /items are one thing, asked for in
 * two ways.
 */

static bool is_plain(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c >= '0' && c <= '9') || c == '_' || c == '.';
}

/* Append the word to `out`, what may not be in a name as single '-'. */
static size_t add_word(char out[SL_NAME_MAX], size_t len, struct sl_str word)
{
    bool dash = len > 0;

    for (size_t i = 0; i < word.len && len < SL_NAME_MAX; i++) {
        bool plain = is_plain(word.at[i]);

        if (len == 0 && (!plain || word.at[i] == '_' || word.at[i] == '.'))
            continue; /* names don't begin with these */
        if (plain && dash && len + 1 < SL_NAME_MAX)
            out[len++] = '-';
        if (plain)
            out[len++] = word.at[i];
        dash = !plain && len > 0;
    }
    return len;
}

static struct sl_str make_name(struct sl_build *b, struct sl_str text)
{
    char name[SL_NAME_MAX];
    size_t len = add_word(name, 0, text);

    return len > 0 ? sl_build_keep(b, (struct sl_str){name, len})
                   : SL_STR("all");
}

/* Append what stands for any one segment: '_' and its name. */
static size_t add_one(char out[SL_NAME_MAX], size_t len, struct sl_str name)
{
    if (len == 0) { /* names don't begin with '_' */
        for (const char *c = "any"; *c; c++)
            out[len++] = *c;
    } else if (len < SL_NAME_MAX) {
        out[len++] = '-';
    }
    if (len < SL_NAME_MAX)
        out[len++] = '_';
    for (size_t i = 0; i < name.len && len < SL_NAME_MAX; i++)
        out[len++] = (char)(is_plain(name.at[i]) ? name.at[i] : '_');
    return len;
}

static struct sl_str name_endpoint(struct sl_build *b,
                                   const struct sl_pattern *pattern)
{
    char name[SL_NAME_MAX];
    size_t len = 0;

    for (unsigned i = 0; i < pattern->count; i++) {
        const struct sl_segment *segment = &pattern->segments[i];

        if (segment->kind == SL_SEGMENT_WORD)
            len = add_word(name, len, segment->word);
        else if (segment->kind == SL_SEGMENT_ONE)
            len = add_one(name, len, segment->word);
    }
    if (len == 0)
        return pattern->count ? SL_STR("all") : SL_STR("root");
    return sl_build_keep(b, (struct sl_str){name, len});
}

static unsigned count_without_rest(const struct sl_pattern *pattern)
{
    unsigned count = pattern->count;

    return count && pattern->segments[count - 1].kind == SL_SEGMENT_REST
               ? count - 1
               : count;
}

/* Is it one thing? GET /items and all below, and POST /items, are. */
static bool is_same(const struct sl_pattern *a, const struct sl_pattern *b)
{
    unsigned count = count_without_rest(a);

    if (count != count_without_rest(b) ||
        (a->count != b->count && a->methods == b->methods))
        return false;
    for (unsigned i = 0; i < count; i++)
        if (a->segments[i].kind != b->segments[i].kind ||
            !sl_str_eq_nocase(a->segments[i].word, b->segments[i].word))
            return false;
    return true;
}

/* The name with a number behind it: one that something has which is the same,
 * or one above *last that is free. Where the name must be cut for that, what is
 * left may be another's too, and the number is that of the route. Numbers up to
 * *last are tried only if some name is like that. */
static struct sl_str number(struct sl_build *b, const struct sl_names *names,
                            const struct sl_route *list,
                            const struct sl_route *route, unsigned *last)
{
    const size_t most = SL_NAME_MAX - sizeof("-12345") + 1;
    char text[2 * SL_NAME_MAX];
    struct sl_str name = route->endpoint, ret;
    unsigned i = 2;

    if (name.len > most) {
        name.len = most;
        *last = route->index;
    }
    ret = (struct sl_str){
        text, (size_t)snprintf(text, sizeof(text), "%.*s-", SL_STR_ARG(name))};
    if (*last >= i && !sl_names_begin(names, ret))
        i = *last + 1;
    for (;; i++) {
        int len = snprintf(text, sizeof(text), "%.*s-%u", SL_STR_ARG(name), i);
        int taken;

        ret = (struct sl_str){text, (size_t)len};
        taken = sl_names_find(names, ret);
        if (taken < 0 && i > *last)
            *last = i;
        else if (taken < 0 || !is_same(&list[taken].pattern, &route->pattern))
            continue;
        return sl_build_keep(b, ret);
    }
}

/* names->list[first] and those behind it up to `end` have one name; what was
 * written stays, what was made gives way to those above it. In the square of
 * them, and there are seldom two. */
static void tell_group(struct sl_build *b, const struct sl_names *names,
                       struct sl_route *list, unsigned first, unsigned end)
{
    unsigned last = 1;

    for (unsigned i = first + 1; i < end; i++) {
        struct sl_route *route = &list[names->list[i].index];
        unsigned j = first;

        if (route->names_endpoint)
            continue;
        while (j < i &&
               !is_same(&list[names->list[j].index].pattern, &route->pattern))
            j++;
        route->endpoint = j < i ? list[names->list[j].index].endpoint
                                : number(b, names, list, route, &last);
    }
}

static void name_endpoints(struct sl_build *b, struct sl_route *list,
                           unsigned count)
{
    struct sl_names names;
    unsigned end;

    if (!sl_names_init(&names, b, b->scratch, count, false))
        return;
    for (unsigned i = 0; i < count; i++)
        if (!list[i].is_job && !list[i].is_descriptor &&
            list[i].endpoint.len > 0)
            sl_names_add(&names, list[i].endpoint, i, list[i].place);
    sl_names_close(&names);
    for (unsigned i = 0; i < names.count; i = end) {
        for (end = i + 1; end < names.count && sl_names_again(&names, end);)
            end++;
        tell_group(b, &names, list, i, end);
    }
}

/* ---- routes for what Envoy tells of a request. */

#define TEXT_MOST 1024

static void read_parts(struct sl_build *b, const struct sl_yaml_node *list,
                       struct sl_descriptor_part *parts,
                       struct sl_descriptor *ret)
{
    const struct sl_yaml_node *item = sl_build_first(list);
    struct sl_diag diag = {0};

    ret->domain = sl_build_keep(b, item->text);
    ret->parts = parts;
    while ((item = sl_build_next(list, item))) {
        if (ret->count > 0 && parts[ret->count - 1].kind == SL_PART_REST) {
            sl_build_error(b, item,
                           "** matches all entries that follow. Put it last");
            return;
        }
        ret->count +=
            sl_build_ok(b, item,
                        sl_descriptor_part_read(sl_build_keep(b, item->text),
                                                &parts[ret->count], &diag),
                        &diag);
    }
}

/* "descriptor messaging message_type=marketing to_number" */
static struct sl_str make_text(struct sl_build *b,
                               const struct sl_yaml_node *list)
{
    char text[TEXT_MOST] = "descriptor";
    size_t len = strlen(text);

    for (const struct sl_yaml_node *item = sl_build_first(list); item;
         item = sl_build_next(list, item)) {
        int n = snprintf(text + len, sizeof(text) - len, " %.*s",
                         SL_STR_ARG(item->text));

        if (n < 0 || (size_t)n >= sizeof(text) - len)
            break;
        len += (size_t)n;
    }
    return sl_build_keep(b, (struct sl_str){text, len});
}

static void read_descriptor(struct sl_build *b, const struct sl_yaml_node *list,
                            struct sl_route *route)
{
    struct sl_descriptor_part *parts;

    route->is_descriptor = true;
    if (sl_build_refused(list) ||
        !sl_build_short(b, list, SL_DESCRIPTOR_PARTS + 1,
                        "parts of a descriptor"))
        return;
    if (!sl_build_first(list) || sl_build_first(list)->text.len == 0) {
        sl_build_error(b, list,
                       "A descriptor must begin with its domain" SL_HINT
                       "descriptor: [messaging, to_number]");
        return;
    }
    parts = sl_build_take(b, sl_build_most(list) + 1, sizeof(*parts));
    if (!parts)
        return;
    read_parts(b, list, parts, &route->descriptor);
    route->text = make_text(b, list);
    route->endpoint =
        make_name(b, sl_str_from(route->text, strlen("descriptor ")));
}

static void index_descriptors(struct sl_build *b, const struct sl_route *list,
                              unsigned count)
{
    unsigned *indices = sl_build_take(b, count + 1, sizeof(*indices));

    if (!indices)
        return;
    b->policy->descriptors = indices;
    for (unsigned i = 0; i < count; i++)
        if (list[i].is_descriptor && list[i].descriptor.domain.len > 0)
            indices[b->policy->descriptor_count++] = i;
}

static void read_match(struct sl_build *b, const struct sl_yaml_node *node,
                       struct sl_route *route)
{
    struct sl_diag diag = {0};

    route->text = sl_build_keep(b, node->text);
    if (!sl_build_ok(
            b, node,
            sl_pattern_read(route->text, b->arena, &route->pattern, &diag),
            &diag))
        route->pattern = (struct sl_pattern){.methods = 0}; /* unknown */
    else
        route->endpoint = name_endpoint(b, &route->pattern);
}

static void read_job(struct sl_build *b, const struct sl_yaml_node *node,
                     struct sl_route *route)
{
    char text[SL_NAME_MAX + 8] = "job ";

    route->is_job = true;
    if (!sl_build_name(b, "a job", node))
        return;
    memcpy(text + 4, node->text.at, node->text.len);
    route->text = sl_build_keep(b, (struct sl_str){text, 4 + node->text.len});
    route->job = sl_str_from(route->text, 4);
    route->endpoint = route->job;
}

static void read_target(struct sl_build *b, const struct sl_yaml_node *node,
                        struct sl_route *route)
{
    const struct sl_yaml_node *match = sl_yaml_node_get(node, "match");
    const struct sl_yaml_node *job = sl_yaml_node_get(node, "job");
    const struct sl_yaml_node *descriptor =
        sl_yaml_node_get(node, "descriptor");

    if (!match && !job && !descriptor)
        sl_build_error(
            b, node,
            "A route needs `match` or `job`. Write match: /path, or job: NAME");
    else if (match && job)
        sl_build_key_error(
            b, job,
            "A route can have `match` or `job`, not both. Write two routes");
    else if (descriptor && (match || job))
        sl_build_key_error(
            b, descriptor,
            "A route can have `%s` or `descriptor`, not both. Write two routes",
            match ? "match" : "job");
    else if (descriptor)
        read_descriptor(b, descriptor, route);
    else if (match && match->kind == SL_NODE_SCALAR)
        read_match(b, match, route);
    else if (job && job->kind == SL_NODE_SCALAR)
        read_job(b, job, route);
    else
        route->is_job = job != NULL; /* the schema has said it */
}

/* ---- limits ---- */

static bool read_rule(struct sl_build *b, const struct sl_yaml_node *item,
                      void *list, unsigned i, const void *ctx)
{
    int rule = sl_build_find(b, &b->box->rules, item, "limit");

    (void)ctx;
    if (rule >= 0)
        ((const struct sl_rule **)list)[i] = &b->rules[rule];
    return rule >= 0;
}

static struct sl_str print_rule(const void *list, unsigned i, char *room)
{
    (void)room;
    return ((const struct sl_rule *const *)list)[i]->name;
}

const struct sl_list_form sl_list_limits = {
    .most = SL_PARTS,
    .items = "limits of one route",
    .item = "Limit",
    .size = sizeof(struct sl_rule *),
    .read = read_rule,
    .print = print_rule,
};

const struct sl_list_form sl_list_replaces = {
    .most = UINT32_MAX,
    .items = "limits",
    .item = "Limit",
    .size = sizeof(struct sl_rule *),
    .read = read_rule,
    .print = print_rule,
};

/* Is a limit of that name in the route's list, whether it exists or not? */
static bool is_listed(const struct sl_yaml_node *list, struct sl_str name)
{
    const struct sl_yaml_node *item = sl_build_first(list);

    while (item && !sl_str_eq(item->text, name))
        item = sl_build_next(list, item);
    return item != NULL;
}

/* `report` or `quota`: the index in route->rules of the limit that it names, or
 * -1. The row of `limits` comes first. */
void sl_fill_pick(struct sl_build *b, const struct sl_schema_key *row,
                  const struct sl_yaml_node *pick, void *into)
{
    const struct sl_route *route = into;
    bool of_quota = strcmp(row->name, "quota") == 0;
    unsigned i = 0;
    enum sl_kind kind;

    if (!pick)
        return;
    while (i < route->rule_count &&
           !sl_str_eq(route->rules[i]->name, pick->text))
        i++;
    if (i < route->rule_count) {
        sl_schema_set(row, into, i);
        kind = route->rules[i]->kind;
        if (of_quota && kind != SL_QUOTA && kind != SL_KINDS)
            sl_build_error(b, pick,
                           "`quota` must be a limit of kind quota. \"%.64s\" "
                           "is a %s",
                           sl_build_shown(pick).text, sl_kind_name(kind));
    } else if (!sl_build_refused(b->limits) &&
               !is_listed(b->limits, pick->text) && /* reported there */
               sl_build_find(b, &b->box->rules, pick, "limit") >= 0) {
        sl_build_error(b, pick,
                       "`%s` must be a limit of the route. \"%.64s\" is not "
                       "in its `limits`",
                       row->name, sl_build_shown(pick).text);
    }
}

/* ---- the rest ---- */

static bool read_role(struct sl_build *b, const struct sl_yaml_node *item,
                      void *list, unsigned i, const void *ctx)
{
    (void)ctx;
    ((struct sl_str *)list)[i] = sl_build_keep(b, item->text);
    return sl_build_name(b, "a role", item);
}

const struct sl_list_form sl_list_roles = {
    .most = 64,
    .items = "roles",
    .item = "Role",
    .empty = "An empty list of roles denies every request. Leave `roles` out "
             "to allow all roles",
    .size = sizeof(struct sl_str),
    .read = read_role,
    .print = sl_print_text_item,
};

void sl_fill_feature(struct sl_build *b, const struct sl_schema_key *row,
                     const struct sl_yaml_node *node, void *into)
{
    int index =
        node ? sl_build_find(b, &b->box->features, node, "feature") : -1;

    if (index >= 0)
        sl_schema_set(row, into, index);
}

/* The keys of a route; of `default` (node is NULL) the presets. */
static void fill_route(struct sl_build *b, const struct sl_yaml_node *node,
                       struct sl_route *route)
{
    route->dialects = b->policy->dialects;
    route->reset = b->policy->reset;
    sl_schema_fill(b, SL_LEVEL_ROUTE, node, route);
}

static void read_route(struct sl_build *b, const struct sl_yaml_node *node,
                       struct sl_route *route)
{
    const struct sl_yaml_node *endpoint = sl_build_get(node, "endpoint");
    const struct sl_yaml_node *roles = sl_yaml_node_get(node, "roles");

    b->limits = sl_yaml_node_get(node, "limits");
    fill_route(b, node, route);
    route->place = node->place;
    if (node->kind != SL_NODE_MAP)
        return;
    read_target(b, node, route);
    route->pattern.conditional = route->when.count > 0;
    if (route->is_descriptor && route->when.count > 0)
        sl_build_key_error(b, sl_yaml_node_get(node, "when"),
                           "A route for a descriptor cannot have `when`. Its "
                           "entries are the conditions" SL_HINT
                           "descriptor: [messaging, plan=pro]");
    route->names_endpoint = endpoint != NULL;
    if (endpoint && sl_build_name(b, "an endpoint", endpoint))
        route->endpoint = sl_build_keep(b, endpoint->text);
    /* Behind an application that knows its own users, this can be intended. */
    if (roles && route->anonymous == SL_ANONYMOUS_PASS)
        sl_report_warning(b->report, roles->key_place,
                          "`anonymous: pass` allows all callers without "
                          "identity. `roles` applies only to callers with "
                          "identity" SL_HINT "anonymous: deny");
    b->policy->counts_each |= route->count != SL_COUNT_ALL;
    read_prechecks(b, node, route);
}

static bool is_match(const struct sl_route *route)
{
    return !route->is_job && !route->is_descriptor &&
           route->pattern.methods != 0;
}

/* A route that an earlier one covers is a mistake: its limits never apply. */
static void refuse_covered(struct sl_build *b, const struct sl_route *list,
                           const struct sl_pattern *const *patterns,
                           unsigned count)
{
    struct sl_arena arena;
    unsigned *covers;

    sl_arena_init(&arena, COVER_BYTES, b->scratch->alloc);
    covers = sl_arena_take(&arena, ((size_t)count + 1) * sizeof(*covers));
    if (!covers || sl_routes_covers(patterns, count, &arena, covers)) {
        b->no_memory = true;
        count = 0;
    }
    for (unsigned i = 0; i < count; i++)
        if (covers[i] != SL_NO_ROUTE)
            sl_report_error(b->report, list[i].place,
                            "No request reaches this route. \"%.64s\" on line "
                            "%u matches all of them. Put the narrower route "
                            "first",
                            list[covers[i]].text.at,
                            list[covers[i]].place.line);
    sl_arena_done(&arena);
}

static void refuse_same_jobs(struct sl_build *b)
{
    const struct sl_names *jobs = &b->box->jobs;

    for (unsigned i = 1; i < jobs->count; i++)
        if (sl_names_again(jobs, i) &&
            b->policy->routes[jobs->list[i - 1].index].when.count == 0)
            sl_report_error(b->report, jobs->list[i].place,
                            "Job \"%.64s\" already has a route on line %u",
                            jobs->list[i].name.at,
                            jobs->list[i - 1].place.line);
}

static void build_tree(struct sl_build *b, const struct sl_route *list,
                       unsigned count)
{
    const struct sl_pattern **patterns =
        sl_build_take(b, count + 1, sizeof(struct sl_pattern *));

    if (!patterns)
        return;
    for (unsigned i = 0; i < count; i++)
        patterns[i] = is_match(&list[i]) ? &list[i].pattern : NULL;
    refuse_covered(b, list, patterns, count);
    b->policy->tree = sl_routes_build(patterns, count, b->arena);
    if (!b->policy->tree)
        b->no_memory = true;
}

static void read_routes(struct sl_build *b, const struct sl_yaml_node *node)
{
    unsigned count = node ? node->count : 0, i = 0;
    struct sl_route *list = sl_build_take(b, count + 1, sizeof(*list));

    if (!sl_names_init(&b->box->jobs, b, b->arena, count, false))
        return;
    for (const struct sl_yaml_node *n = node ? node->child : NULL; n;
         n = n->next) {
        list[i].index = i;
        read_route(b, n, &list[i]);
        if (list[i].job.len > 0)
            sl_names_add(&b->box->jobs, list[i].job, i, list[i].place);
        i++;
    }
    sl_names_close(&b->box->jobs);
    b->policy->routes = list;
    b->policy->route_count = count;
    if (b->no_memory)
        return;
    index_descriptors(b, list, count);
    name_endpoints(b, list, count);
    refuse_same_jobs(b);
    build_tree(b, list, count);
}

static void read_default(struct sl_build *b)
{
    const struct sl_yaml_node *node = sl_yaml_node_get(b->root, "default");
    struct sl_route *route = &b->policy->fallback;

    fill_route(b, NULL, route);
    route->text = route->endpoint = SL_STR("default");
    if (node)
        route->place = node->place;
    route->rules =
        sl_build_list(b, node, &sl_list_limits, NULL, &route->rule_count);
}

void sl_build_routes(struct sl_build *b)
{
    const struct sl_yaml_node *node = sl_build_get(b->root, "routes");

    if (node && node->count > SL_ROUTES_MAX) {
        sl_build_key_error(b, node, "%u routes are too many. The maximum is %d",
                           node->count, SL_ROUTES_MAX);
        node = NULL;
    }
    read_routes(b, node);
    if (!b->no_memory)
        read_default(b);
}
