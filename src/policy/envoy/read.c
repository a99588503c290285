/* read.c -- a file of envoyproxy/ratelimit.
 *
 * Keys that they do not know are refused here as there; what they would find
 * out only when a request comes, or never, is refused, too: two descriptors
 * that are one, names that nobody has.
 */
#include <inttypes.h>
#include <string.h>

#include "base/parse.h"
#include "base/scan.h"
#include "policy/envoy/envoy.h"

#define RATE_MAX 100000000 /* per second */

static const char *const top_keys[] = {"domain", "descriptors"};
static const char *const node_keys[] = {
    "key",        "value",           "rate_limit",      "shadow_mode",
    "quota_mode", "detailed_metric", "value_to_metric", "share_threshold",
    "metadata",   "descriptors"};
static const char *const limit_keys[] = {"unit", "requests_per_unit",
                                         "unlimited", "name", "replaces"};
static const char *const replace_keys[] = {"name"};
static const char *const units[SL_ENVOY_UNITS] = {
    "second", "minute", "hour", "day", "week", "month", "year"};

struct reading {
    struct sl_envoy *envoy;
    struct sl_report *report;
};

/* ---- keys and values ---- */

static void refuse_key(struct reading *r, const struct sl_node *node,
                       const char *of, const char *const *keys, size_t count)
{
    const char *meant = sl_str_nearest(node->key, keys, count);
    struct sl_diag *diag =
        sl_report_error(r->report, node->key_place, "Unknown key \"%s\" in %s",
                        sl_quote(node->key).text, of);

    if (meant)
        sl_hint(diag, "%s", meant);
}

static bool check_keys(struct reading *r, const struct sl_node *map,
                       const char *of, const char *const *keys, size_t count)
{
    bool good = true;

    if (map->kind != SL_NODE_MAP) {
        sl_report_error(r->report, map->place, "Expected a map for %s", of);
        return false;
    }
    for (const struct sl_node *n = map->child; n; n = n->next) {
        bool known = false;

        for (size_t i = 0; i < count; i++)
            known |= sl_str_eq(n->key, sl_str_c(keys[i]));
        if (!known)
            refuse_key(r, n, of, keys, count);
        good &= known;
    }
    return good;
}

/* The text of a scalar; empty if it is not there. */
static struct sl_str read_text(struct reading *r, const struct sl_node *map,
                               const char *key)
{
    const struct sl_node *node = sl_node_get(map, key);

    if (!node || node->kind == SL_NODE_EMPTY)
        return (struct sl_str){"", 0};
    if (node->kind == SL_NODE_SCALAR)
        return node->text;
    sl_report_error(r->report, node->place, "`%s` must be a text", key);
    return (struct sl_str){"", 0};
}

/* The words that YAML 1.1 has for it. */
static bool read_bool(struct reading *r, const struct sl_node *map,
                      const char *key)
{
    static const char *const yes[] = {"true", "yes", "on", "y"};
    static const char *const no[] = {"false", "no", "off", "n", ""};
    struct sl_str text = read_text(r, map, key);

    for (size_t i = 0; i < SL_LEN(yes); i++)
        if (sl_str_eq_nocase(text, sl_str_c(yes[i])))
            return true;
    for (size_t i = 0; i < SL_LEN(no); i++)
        if (sl_str_eq_nocase(text, sl_str_c(no[i])))
            return false;
    sl_report_error(r->report, sl_node_get(map, key)->place,
                    "`%s` must be true or false, not \"%s\"", key,
                    sl_quote(text).text);
    return false;
}

/* ---- rate_limit ---- */

static void read_unit(struct reading *r, const struct sl_node *map,
                      struct sl_envoy_node *ret)
{
    struct sl_str text = read_text(r, map, "unit");
    struct sl_diag *diag;
    const char *meant;

    for (unsigned i = 0; i < SL_ENVOY_UNITS; i++)
        if (sl_str_eq_nocase(text, sl_str_c(units[i]))) {
            ret->unit = (enum sl_envoy_unit)i;
            return;
        }
    if (text.len == 0) {
        sl_hint(
            sl_report_error(r->report, map->place, "A rate_limit needs a unit"),
            "unit: minute");
        return;
    }
    meant = sl_str_nearest(text, units, SL_ENVOY_UNITS);
    diag = sl_report_error(r->report, sl_node_get(map, "unit")->place,
                           "Unknown unit \"%s\". Valid units: second, minute, "
                           "hour, day, week, month and year",
                           sl_quote(text).text);
    if (meant)
        sl_hint(diag, "unit: %s", meant);
}

static void read_requests(struct reading *r, const struct sl_node *map,
                          struct sl_envoy_node *ret)
{
    struct sl_str text = read_text(r, map, "requests_per_unit");
    struct sl_diag diag = {0};
    uint64_t number = 0;

    if (text.len == 0)
        return; /* as there: none is 0, and nothing passes */
    if (sl_parse_number(text, &number, &diag) || number > UINT32_MAX) {
        sl_report_error(r->report, sl_node_get(map, "requests_per_unit")->place,
                        "`requests_per_unit` must be a whole number up to "
                        "4294967295, not \"%s\"",
                        sl_quote(text).text);
        return;
    }
    if (ret->unit == SL_ENVOY_SECOND && number > RATE_MAX)
        sl_hint(sl_report_error(r->report,
                                sl_node_get(map, "requests_per_unit")->place,
                                "More than %d per second is the same as no "
                                "limit",
                                RATE_MAX),
                "unlimited: true");
    ret->requests = (uint32_t)number;
}

static void read_replaces(struct reading *r, const struct sl_node *map,
                          struct sl_envoy_node *ret)
{
    const struct sl_node *list = sl_node_get(map, "replaces");

    if (!list || list->kind == SL_NODE_EMPTY)
        return;
    if (list->kind != SL_NODE_LIST) {
        sl_hint(sl_report_error(r->report, list->place,
                                "`replaces` must be a list"),
                "replaces: [{ name: NAME }]");
        return;
    }
    for (const struct sl_node *n = list->child; n; n = n->next) {
        struct sl_str name;

        if (!check_keys(r, n, "an entry of replaces", replace_keys,
                        SL_LEN(replace_keys)))
            continue;
        name = read_text(r, n, "name");
        if (name.len == 0)
            sl_report_error(r->report, n->place,
                            "An entry of replaces needs a name");
        else if (sl_str_eq(name, ret->name))
            sl_report_error(r->report, n->place,
                            "A limit cannot replace itself");
    }
    ret->replaces = list;
}

static void read_limit(struct reading *r, const struct sl_node *node,
                       struct sl_envoy_node *ret)
{
    const struct sl_node *map = sl_node_get(node, "rate_limit");

    if (!map || map->kind == SL_NODE_EMPTY ||
        !check_keys(r, map, "rate_limit", limit_keys, SL_LEN(limit_keys)))
        return;
    ret->has_limit = true;
    ret->name = read_text(r, map, "name");
    ret->unlimited = read_bool(r, map, "unlimited");
    if (!ret->unlimited)
        read_unit(r, map, ret);
    else if (read_text(r, map, "unit").len > 0)
        sl_report_error(r->report, sl_node_get(map, "unit")->place,
                        "An unlimited limit has no unit. Leave it out");
    read_requests(r, map, ret);
    read_replaces(r, map, ret);
    if (++r->envoy->limit_count == SL_ENVOY_LIMITS + 1)
        sl_report_error(r->report, map->place,
                        "The configuration has more than %d limits",
                        SL_ENVOY_LIMITS);
}

/* ---- descriptors ---- */

static bool is_same(const struct sl_envoy_node *a,
                    const struct sl_envoy_node *b)
{
    return sl_str_eq(a->key, b->key) && sl_str_eq(a->value, b->value);
}

static void check_node(struct reading *r, const struct sl_envoy_node *node,
                       const struct sl_envoy_node *before)
{
    bool star = node->value.len > 0 &&
                memchr(node->value.at, '*', node->value.len) != NULL;

    if (node->key.len == 0)
        sl_hint(
            sl_report_error(r->report, node->place, "A descriptor needs a key"),
            "key: remote_address");
    else if (memchr(node->key.at, '*', node->key.len) ||
             memchr(node->key.at, '=', node->key.len) ||
             memchr(node->key.at, '~', node->key.len))
        sl_report_error(r->report, node->place,
                        "A key must not contain *, = or ~");
    if (node->shared && !star)
        sl_report_error(r->report, node->place,
                        "share_threshold is valid only for values with a *");
    for (; before; before = before->next)
        if (node->key.len > 0 && is_same(node, before)) {
            sl_report_error(r->report, node->place,
                            "Duplicate descriptor. The first one is on line %u",
                            before->place.line);
            return;
        }
}

static struct sl_envoy_node *
read_nodes(struct reading *r, const struct sl_node *list, unsigned depth);

static struct sl_envoy_node *
read_node(struct reading *r, const struct sl_node *map, unsigned depth)
{
    struct sl_envoy_node *node = sl_arena_take(r->envoy->arena, sizeof(*node));

    if (!node) {
        r->report->no_memory = true;
        return NULL;
    }
    *node = (struct sl_envoy_node){.place = map->place};
    if (!check_keys(r, map, "a descriptor", node_keys, SL_LEN(node_keys)))
        return node;
    node->key = read_text(r, map, "key");
    node->value = read_text(r, map, "value");
    node->shadow = read_bool(r, map, "shadow_mode");
    node->quota = read_bool(r, map, "quota_mode");
    node->shared = read_bool(r, map, "share_threshold");
    (void)read_bool(r, map, "detailed_metric"); /* of names in metrics, which */
    (void)read_bool(r, map, "value_to_metric"); /* here have no values */
    read_limit(r, map, node);
    node->child = read_nodes(r, sl_node_get(map, "descriptors"), depth + 1);
    return node;
}

static struct sl_envoy_node *
read_nodes(struct reading *r, const struct sl_node *list, unsigned depth)
{
    struct sl_envoy_node *first = NULL, **last = &first;

    if (!list || list->kind == SL_NODE_EMPTY)
        return NULL;
    if (list->kind != SL_NODE_LIST || depth > SL_ENVOY_DEPTH) {
        sl_report_error(r->report, list->place,
                        depth > SL_ENVOY_DEPTH
                            ? "Descriptors are nested more than 16 levels deep"
                            : "`descriptors` must be a list");
        return NULL;
    }
    for (const struct sl_node *n = list->child; n; n = n->next) {
        struct sl_envoy_node *node = read_node(r, n, depth);

        if (!node)
            break;
        check_node(r, node, first);
        *last = node;
        last = &node->next;
    }
    return first;
}

/* ---- a file ---- */

static void read_domain(struct reading *r, const struct sl_node *root)
{
    struct sl_envoy *envoy = r->envoy;
    struct sl_str domain = read_text(r, root, "domain");
    const struct sl_node *node = sl_node_get(root, "domain");

    if (domain.len == 0) {
        sl_hint(
            sl_report_error(r->report, root->place, "A file needs a domain"),
            "domain: my_domain");
        return;
    }
    for (unsigned i = 0; i < envoy->domain_count; i++)
        if (sl_str_eq(envoy->domains[i].name, domain)) {
            sl_report_error(r->report, node->place,
                            "Another file already has the domain \"%s\"",
                            sl_quote(domain).text);
            return;
        }
    if (envoy->domain_count == SL_ENVOY_DOMAINS) {
        sl_report_error(r->report, node->place,
                        "The configuration has more than %d domains",
                        SL_ENVOY_DOMAINS);
        return;
    }
    envoy->domains[envoy->domain_count].name = domain;
    envoy->domains[envoy->domain_count++].nodes =
        read_nodes(r, sl_node_get(root, "descriptors"), 1);
}

bool sl_envoy_read(struct sl_envoy *envoy, struct sl_report *report)
{
    static const struct sl_yaml_options nothing;
    struct reading r = {envoy, report};
    struct sl_node *root = sl_yaml_read(report, &nothing, envoy->arena);

    if (root && check_keys(&r, root, "the file", top_keys, SL_LEN(top_keys)))
        read_domain(&r, root);
    return root && report->errors == 0 && !report->no_memory;
}
