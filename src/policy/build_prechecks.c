/* build_prechecks.c -- `verify`, `dedupe`, `require` and `backlog` of a route;
 * its `guard` is in guard.c. */
#include <string.h>

#include "base/parse.h"
#include "policy/policy_int.h"

#define SECRET_MIN    16 /* bytes; Standard Webhooks asks for 24 */
#define TOLERANCE     (5 * SL_MIN)
#define TOLERANCE_MAX SL_HOUR
#define LIFE          SL_DAY
#define LIFE_MAX      (7 * SL_DAY)
#define REPEATS       16
#define REPEATS_MAX   1000
#define RETRY_AFTER   (30 * SL_S)
#define STALE         SL_MIN
#define STALE_MAX     SL_DAY
#define BACKLOGS_MAX  256
#define AMOUNT_MAX    ((UINT64_C(1) << 53) - 1)

/* ---- headers ---- */

/* The header that `node` or its key names: "header.x-event-id". */
static struct sl_str read_header(struct sl_build *b,
                                 const struct sl_yaml_node *node, bool by_key)
{
    struct sl_sources sources = {0};
    struct sl_yaml_node item = *node;

    if (by_key) {
        item.text = node->key;
        item.place = node->key_place;
        item.substituted = false;
    }
    item.kind = SL_NODE_SCALAR;
    item.next = NULL;
    sl_build_sources(b, &item, SL_OF_PRECHECKS, &sources);
    return sources.count > 0 ? sources.list[0].name : SL_STR("");
}

/* A span in (0, most]; `preset` if it is not there. */
static sl_ns read_span(struct sl_build *b, const struct sl_yaml_node *map,
                       const char *key, sl_ns preset, sl_ns most)
{
    const struct sl_yaml_node *node = sl_build_scalar(map, key);
    sl_ns span = sl_build_duration(b, map, key, preset);
    char longest[32], usual[32];

    if (!node || (span > 0 && span <= most))
        return span;
    sl_diag_hint(
        sl_report_error(b->report, SL_AT(node),
                        "`%s` must be longer than 0 and at most %s, not "
                        "\"%.64s\"",
                        key, sl_format_duration(most, longest),
                        sl_build_shown(node).text),
        "%s: %s", key, sl_format_duration(preset, usual));
    return preset;
}

/* ---- verify ---- */

static void read_secret(struct sl_build *b, const struct sl_yaml_node *item,
                        enum sl_webhook_scheme scheme, struct sl_str *ret)
{
    uint8_t *room = sl_build_take(b, item->text.len + 1, 1);

    if (!room)
        return;
    if (!sl_webhook_secret(scheme, item->text, room, ret))
        sl_report_error(b->report, SL_AT(item),
                        scheme == SL_WEBHOOK_STANDARD
                            ? "A secret of standard-webhooks must be base64, "
                              "like whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
                            : "The secret must not be empty");
    else if (ret->len < SECRET_MIN)
        sl_report_error(b->report, SL_AT(item),
                        "A secret of %zu bytes is too short. The minimum is %d",
                        ret->len, SECRET_MIN);
}

static void read_secrets(struct sl_build *b, const struct sl_yaml_node *list,
                         struct sl_webhook_rules *rules)
{
    const struct sl_yaml_node *item;
    struct sl_str *secrets;

    if (!list || list->kind == SL_NODE_EMPTY ||
        !sl_build_short(b, list, SL_WEBHOOK_SECRETS, "secrets"))
        return;
    if (list->kind == SL_NODE_LIST && list->count == 0)
        sl_report_error(b->report, SL_AT(list),
                        "The list of secrets is empty. No webhook could be "
                        "verified");
    secrets = sl_build_take(b, SL_WEBHOOK_SECRETS, sizeof(*secrets));
    if (!secrets)
        return;
    rules->secrets = secrets;
    for (item = sl_build_first(list); item; item = sl_build_next(list, item))
        read_secret(b, item, rules->scheme, &secrets[rules->secret_count++]);
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

/* Of standard-webhooks `header` is what three of them begin with. */
static void name_headers(struct sl_build *b, const struct sl_yaml_node *node,
                         struct sl_verify *verify)
{
    static const char *const usual[] = {"webhook", "stripe-signature",
                                        "x-hub-signature-256"};
    static const char *const behind[] = {"-id", "-timestamp", "-signature"};
    const struct sl_yaml_node *header = sl_build_scalar(node, "header");
    struct sl_str name = sl_str_c(usual[verify->rules.scheme]);

    if (header && sl_build_name(b, "a header", header) &&
        !memchr(header->text.at, '_', header->text.len))
        name = header->text;
    else if (header && memchr(header->text.at, '_', header->text.len))
        sl_report_error(b->report, SL_AT(header),
                        "Headers with an underscore are ignored, because many "
                        "servers read it as a hyphen");
    verify->header = join(b, name, "");
    verify->names[2] = verify->header;
    for (int i = 0; i < 3 && verify->rules.scheme == SL_WEBHOOK_STANDARD; i++)
        verify->names[i] = join(b, name, behind[i]);
}

static void read_verify(struct sl_build *b, const struct sl_yaml_node *node,
                        struct sl_verify *verify)
{
    int scheme = sl_build_choice(node, "scheme", sl_webhook_words,
                                 SL_WEBHOOK_SCHEMES, -1);

    if (!node || node->kind != SL_NODE_MAP)
        return;
    verify->written = true;
    if (scheme < 0)
        return; /* the schema has said it */
    verify->rules.scheme = (enum sl_webhook_scheme)scheme;
    verify->rules.tolerance =
        read_span(b, node, "tolerance", TOLERANCE, TOLERANCE_MAX);
    read_secrets(b, sl_yaml_node_get(node, "secret"), &verify->rules);
    name_headers(b, node, verify);
}

/* ---- dedupe ---- */

static bool read_trait(struct sl_build *b, const struct sl_yaml_node *item,
                       struct sl_dedupe_field *ret)
{
    for (unsigned i = 0; i < SL_LEN(sl_dedupe_field_words); i++)
        if (sl_str_eq(item->text, sl_str_c(sl_dedupe_field_words[i]))) {
            ret->kind = (enum sl_dedupe_field_kind)i;
            return true;
        }
    if (item->text.len > 7 && memcmp(item->text.at, "header.", 7) == 0) {
        ret->kind = SL_DEDUPE_FIELD_HEADER;
        ret->header = read_header(b, item, false);
        return ret->header.len > 0;
    }
    sl_report_error(b->report, SL_AT(item),
                    "Unknown part \"%.64s\" of a fingerprint. Write method, "
                    "path, cost, body or header.NAME",
                    sl_build_shown(item).text);
    return false;
}

static void read_traits(struct sl_build *b, const struct sl_yaml_node *list,
                        struct sl_dedupe *dedupe)
{
    static const struct sl_dedupe_field usual[] = {
        {.kind = SL_DEDUPE_FIELD_METHOD},
        {.kind = SL_DEDUPE_FIELD_PATH},
        {.kind = SL_DEDUPE_FIELD_COST},
        {.kind = SL_DEDUPE_FIELD_BODY}};
    const struct sl_yaml_node *item;
    struct sl_dedupe_field *traits;

    dedupe->traits = usual;
    dedupe->trait_count = SL_LEN(usual);
    if (!list || list->kind == SL_NODE_EMPTY ||
        !sl_build_short(b, list, SL_DEDUPE_FIELDS_MAX, "traits"))
        return;
    traits = sl_build_take(b, SL_DEDUPE_FIELDS_MAX, sizeof(*traits));
    if (!traits)
        return;
    dedupe->traits = traits;
    dedupe->trait_count = 0;
    for (item = sl_build_first(list); item; item = sl_build_next(list, item))
        if (!sl_build_twice(b, list, item, "Part") &&
            read_trait(b, item, &traits[dedupe->trait_count]))
            dedupe->trait_count++;
}

static void read_dedupe(struct sl_build *b, const struct sl_yaml_node *node,
                        struct sl_dedupe *dedupe)
{
    bool is_map = node && node->kind == SL_NODE_MAP;
    const struct sl_yaml_node *key =
        is_map ? sl_build_scalar(node, "key") : node;

    if (!key || key->kind != SL_NODE_SCALAR)
        return;
    dedupe->written = true;
    dedupe->header = read_header(b, key, false);
    dedupe->life = read_span(b, node, "life", LIFE, LIFE_MAX);
    dedupe->repeats =
        (unsigned)sl_build_number(b, node, "repeats", 1, REPEATS_MAX, REPEATS);
    read_traits(b, sl_yaml_node_get(node, "fingerprint"), dedupe);
}

/* ---- require ---- */

/* A count or a size: 10k, 5GB. */
static bool read_amount(struct sl_build *b, const struct sl_yaml_node *map,
                        const char *key, uint64_t *ret)
{
    const struct sl_yaml_node *node = sl_build_scalar(map, key);
    struct sl_diag diag = {0};

    if (!node)
        return false;
    if (sl_parse_count(node->text, ret, &diag) &&
        sl_parse_size(node->text, ret, &diag)) {
        sl_report_error(b->report, SL_AT(node),
                        "\"%.64s\" is not a count or a size. Write it like "
                        "10000 or 5GB",
                        sl_build_shown(node).text);
        return false;
    }
    if (*ret <= AMOUNT_MAX)
        return true;
    sl_report_error(b->report, SL_AT(node),
                    "\"%.64s\" is too large. The maximum is 2^53",
                    sl_build_shown(node).text);
    return false;
}

static void check_bounds(struct sl_build *b, const struct sl_yaml_node *node,
                         const struct sl_require *require)
{
    if (require->has_min && require->has_max && require->min > require->max)
        sl_report_error(b->report, SL_AT(sl_yaml_node_get(node, "max")),
                        "`max` must not be less than `min`");
    if (!sl_yaml_node_get(node, "min") && !sl_yaml_node_get(node, "max") &&
        !sl_yaml_node_get(node, "equals"))
        sl_diag_hint(
            sl_report_error(b->report, SL_AT_KEY(node),
                            "The header has no bounds. Write min, max or "
                            "equals"),
            "max: 5GB");
}

static void read_require(struct sl_build *b, const struct sl_yaml_node *node,
                         struct sl_require *ret)
{
    const struct sl_yaml_node *equals = sl_build_scalar(node, "equals");
    const struct sl_yaml_node *code = sl_build_scalar(node, "code");

    if (node->kind != SL_NODE_MAP)
        return;
    ret->header = read_header(b, node, true);
    ret->has_min = read_amount(b, node, "min", &ret->min);
    ret->has_max = read_amount(b, node, "max", &ret->max);
    if (equals)
        ret->equals = read_header(b, equals, false);
    ret->optional = !sl_build_bool(node, "required", true);
    ret->status = sl_build_status(b, node, 400);
    ret->code =
        ret->status == 413 ? SL_STR("TOO_LARGE") : SL_STR("BAD_REQUEST");
    if (code && sl_build_name(b, "a code", code))
        ret->code = sl_build_keep(b, code->text);
    sl_build_message(b, node, &ret->message);
    check_bounds(b, node, ret);
}

static void read_requires(struct sl_build *b, const struct sl_yaml_node *node,
                          struct sl_prechecks *guards)
{
    struct sl_require *list;

    if (!node || node->kind != SL_NODE_MAP ||
        !sl_build_short(b, node, SL_REQUIRES_MAX, "requirements"))
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
        sl_report_error(b->report, SL_AT_KEY(node),
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
    const struct sl_yaml_node *name, *max;
    struct sl_diag diag = {0};

    if (!node || node->kind != SL_NODE_MAP)
        return;
    name = sl_build_scalar(node, "name");
    max = sl_build_scalar(node, "max");
    ret->written = true;
    if (max)
        (void)sl_build_ok(b, max, sl_parse_count(max->text, &ret->max, &diag),
                          &diag);
    ret->retry_after = read_span(b, node, "retry_after", RETRY_AFTER, SL_DAY);
    ret->stale = read_span(b, node, "stale", STALE, STALE_MAX);
    if (name && sl_build_name(b, "a backlog", name))
        endpoint = sl_build_keep(b, name->text);
    ret->index = find_backlog(b, node, endpoint);
}

/* ---- all of them ---- */

void sl_build_guards(struct sl_build *b, const struct sl_yaml_node *node,
                     struct sl_route *route)
{
    static const char *const keys[] = {"verify", "dedupe", "require", "backlog",
                                       "guard"};
    struct sl_prechecks *guards;
    bool any = false;

    for (size_t i = 0; i < SL_LEN(keys); i++)
        any = any || sl_yaml_node_get(node, keys[i]);
    guards = any ? sl_build_take(b, 1, sizeof(*guards)) : NULL;
    if (!guards)
        return;
    guards->next = b->policy->guarded;
    b->policy->guarded = route->guards = guards;
    read_verify(b, sl_yaml_node_get(node, "verify"), &guards->verify);
    read_dedupe(b, sl_yaml_node_get(node, "dedupe"), &guards->dedupe);
    read_requires(b, sl_yaml_node_get(node, "require"), guards);
    read_backlog(b, sl_yaml_node_get(node, "backlog"), route->endpoint,
                 &guards->backlog);
    sl_build_guard(b, sl_yaml_node_get(node, "guard"), route, &guards->guard);
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
 * of the policy and has no name that anybody could write.
 */

struct reading {
    struct sl_build *b;
    const struct sl_yaml_node *node; /* the text */
    struct sl_str text;              /* of it, what is not read yet */
    struct sl_guard_piece *pieces;
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

static const struct sl_require *guard_read_header(struct reading *r,
                                                  struct sl_str word)
{
    struct sl_sources sources = {0};
    struct sl_yaml_node item = *r->node;
    struct sl_require *require;

    item.text = sl_build_keep(r->b, word);
    item.next = NULL;
    sl_build_sources(r->b, &item, SL_OF_PRECHECKS, &sources);
    require = sl_build_take(r->b, 1, sizeof(*require));
    if (!require || sources.count == 0)
        return NULL;
    require->header = sources.list[0].name;
    require->status = 400;
    require->code = SL_STR("BAD_REQUEST");
    return require;
}

static bool read_scope(struct reading *r, struct sl_str word,
                       struct sl_guard_piece *piece)
{
    int scope = sl_names_find(&r->b->box->scopes, word);

    if (scope == SL_SCOPE_USER || scope == SL_SCOPE_ORG ||
        scope == SL_SCOPE_IP || scope >= SL_SCOPE_NAMED) {
        piece->scope = (unsigned)scope;
        return true;
    }
    if (!r->b->box->scopes.unsure)
        sl_diag_hint(
            sl_report_error(r->b->report, SL_AT(r->node),
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
    struct sl_guard_piece *piece = &r->pieces[r->count];
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

static void read_key(struct reading *r, struct sl_guard *ret)
{
    size_t len = r->text.len;
    bool good = true;

    if (len == 0 || len > SL_KEY_TEXT) {
        sl_diag_hint(
            sl_report_error(r->b->report, SL_AT(r->node),
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

void sl_build_guard(struct sl_build *b, const struct sl_yaml_node *node,
                    const struct sl_route *route, struct sl_guard *ret)
{
    static const char *const words[] = {"deny", "skip"};
    bool is_map = node && node->kind == SL_NODE_MAP;
    const struct sl_yaml_node *key =
        is_map ? sl_build_scalar(node, "key") : node;
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
