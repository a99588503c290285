/* print.c -- a policy as text: the hooks of the schema. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "policy/policy.h"
#include "policy/policy_int.h"

struct sl_str sl_print_text_item(const void *ctx, unsigned i, char *room)
{
    (void)room;
    return ((const struct sl_str *)ctx)[i];
}

static void print_map(struct sl_printer *p, struct sl_str key,
                      enum sl_schema_level level, const void *from)
{
    sl_print_open(p, key);
    sl_schema_print(p, level, from);
    sl_print_close(p);
}

/* ---- plans ---- */

static bool has_one_plan(const struct sl_printer *p)
{
    const struct sl_plans *plans = &p->policy->plans;

    return plans->count == 1 &&
           sl_str_eq(plans->list[0].name, SL_STR("default"));
}

void sl_print_plans(struct sl_printer *p, const struct sl_schema_key *row,
                    const void *from)
{
    const struct sl_plans *plans = &((const struct sl_policy *)from)->plans;

    sl_print_open(p, sl_str_c(row->name));
    sl_print_text(p, "default", plans->list[plans->fallback].name);
    if (plans->anonymous != plans->fallback ||
        !sl_print_at(p, SL_STR("default")) ||
        sl_print_at(p, SL_STR("anonymous")))
        sl_print_text(p, "anonymous", plans->list[plans->anonymous].name);
    sl_schema_print(p, SL_LEVEL_PLANS, plans);
    for (unsigned i = 0; !has_one_plan(p) && i < plans->count; i++)
        print_map(p, plans->list[i].name, SL_LEVEL_PLAN, &plans->list[i]);
    sl_print_close(p);
}

/* ---- identity ---- */

#define TOKEN_SECRET "(a secret, which is not shown here)"

/* A secret is never shown. The text in its place is long enough to be read
 * back as a secret. */
void sl_print_jwt_secret(struct sl_printer *p, const struct sl_schema_key *row,
                         const void *from)
{
    static const struct sl_external_value secret = {
        .written = {TOKEN_SECRET, sizeof(TOKEN_SECRET) - 1}
    };

    if (p->raw)
        sl_print_text(p, row->name, ((const struct sl_jwt *)from)->secret);
    else if (((const struct sl_jwt *)from)->secret.len > 0)
        sl_print_from(p, sl_str_c(row->name), &secret);
}

void sl_print_scopes(struct sl_printer *p, const struct sl_schema_key *row,
                     const void *from)
{
    const struct sl_identity *identity = from;

    (void)row;
    for (unsigned i = SL_SCOPE_NAMED; i < identity->scope_count; i++)
        sl_print_list(p, identity->scope_names[i].at, sl_list_sources.print,
                      identity->scopes[i].list, identity->scopes[i].count);
}

/* ---- routes ---- */

static struct sl_str part_of(const void *ctx, unsigned i, char *room)
{
    const struct sl_descriptor *d = ctx;
    const struct sl_descriptor_part *part = &d->parts[i > 0 ? i - 1 : 0];
    struct sl_str end = part->value;

    (void)room;
    if (i == 0)
        return d->domain;
    if (part->kind == SL_PART_REST)
        return SL_STR("**");
    /* The key, what is between, and the value stand in a row as written. */
    if (part->kind == SL_PART_ANY)
        return part->key;
    return (struct sl_str){part->key.at,
                           (size_t)(end.at + end.len - part->key.at)};
}

void sl_print_target(struct sl_printer *p, const struct sl_schema_key *row,
                     const void *from)
{
    const struct sl_route *route = from;
    const char *key = route->is_job ? "job" : row->name;

    if (route->is_descriptor)
        sl_print_list(p, "descriptor", part_of, &route->descriptor,
                      route->descriptor.count + 1);
    else
        sl_print_text(p, key, route->is_job ? route->job : route->text);
    if (route->names_endpoint ||
        (!route->is_descriptor && !sl_print_at(p, sl_str_c(key))))
        sl_print_text(p, "endpoint", route->endpoint);
}

void sl_print_feature(struct sl_printer *p, const struct sl_schema_key *row,
                      const void *from)
{
    const struct sl_route *route = from;

    if (route->feature != SL_NO_FEATURE)
        sl_print_text(p, row->name, p->policy->features[route->feature].name);
}

/* `report` or `quota`. */
void sl_print_pick(struct sl_printer *p, const struct sl_schema_key *row,
                   const void *from)
{
    const struct sl_route *route = from;
    int64_t pick = sl_schema_get(row, from);

    if (pick >= 0)
        sl_print_text(p, row->name, route->rules[pick]->name);
}

/* `headers` and `reset` of a route, `mode` of a limit: left out if they only
 * repeat a value of the policy that came from ENV or FILE. */
void sl_print_inherited(struct sl_printer *p, const struct sl_schema_key *row,
                        const void *from)
{
    const struct sl_schema_key *top =
        sl_schema_find(SL_LEVEL_TOP, sl_str_c(row->name));
    char room[SL_SCHEMA_TEXT];

    if (sl_schema_get(row, from) == sl_schema_get(top, p->policy) &&
        sl_print_follows(p, row->name))
        return;
    if (row->type == SL_TYPE_CHOICES)
        sl_print_bits(p, row, from);
    else
        sl_print_yaml(p, sl_str_c(row->name), sl_schema_text(row, from, room));
}

/* The limits of a policy without routes are taken by name. An empty list would
 * cause warnings. */
void sl_print_routes(struct sl_printer *p, const struct sl_schema_key *row,
                     const void *from)
{
    const struct sl_policy *policy = from;

    if (policy->route_count == 0)
        return;
    sl_print_open(p, sl_str_c(row->name));
    for (unsigned i = 0; i < policy->route_count; i++) {
        sl_print_open_item(p, i);
        sl_schema_print(p, row->below, &policy->routes[i]);
        sl_print_close_item(p);
    }
    sl_print_close(p);
}

void sl_print_default(struct sl_printer *p, const struct sl_schema_key *row,
                      const void *from)
{
    const struct sl_policy *policy = from;
    const struct sl_route *route = &policy->fallback;

    if (policy->route_count > 0 || route->place.line > 0)
        sl_print_list(p, row->name, sl_list_limits.print, route->rules,
                      route->rule_count);
}

void sl_print_features(struct sl_printer *p, const struct sl_schema_key *row,
                       const void *from)
{
    const struct sl_policy *policy = from;

    if (policy->feature_count == 0)
        return;
    sl_print_open(p, sl_str_c(row->name));
    for (unsigned i = 0; i < policy->feature_count; i++)
        print_map(p, policy->features[i].name, SL_LEVEL_FEATURE,
                  &policy->features[i]);
    sl_print_close(p);
}

static bool is_written(const struct sl_error_form *form)
{
    return form->status != 0 || form->has_body;
}

void sl_print_error_body(struct sl_printer *p, const struct sl_schema_key *row,
                         const void *from)
{
    const struct sl_error_form *form = from;

    if (form->has_body)
        sl_print_yaml(p, sl_str_c(row->name), form->printed);
}

void sl_print_errors(struct sl_printer *p, const struct sl_schema_key *row,
                     const void *from)
{
    const struct sl_error_form *forms =
        ((const struct sl_policy *)from)->errors;
    const struct sl_schema_key *error = NULL;
    bool any = false;

    for (int i = 0; i < SL_ERRORS; i++)
        any |= is_written(&forms[i]);
    if (!any)
        return;
    sl_print_open(p, sl_str_c(row->name));
    /* The rows are in the order of enum sl_error. */
    for (int i = 0; (error = sl_schema_next(SL_LEVEL_ERRORS, error)); i++) {
        if (is_written(&forms[i]))
            print_map(p, sl_str_c(error->name), error->below, &forms[i]);
    }
    sl_print_close(p);
}

int sl_policy_print(const struct sl_policy *policy, struct sl_buf *out)
{
    struct sl_printer p = {
        .policy = policy, .w = {out, 0}
    };
    size_t before = out->len;

    sl_schema_print(&p, SL_LEVEL_TOP, policy);
    if (p.w.err)
        out->len = before;
    return p.w.err;
}

/* ---- `limits`.
 *
 * 5/60s and 5/min are the same rate. It is printed with the largest unit that
 * is exact, and always with its burst or queue. In quotas, 24 hours are not a
 * day.
 */

#define RATE_BYTES 96 /* three numbers of 20 digits, and words */

/* The largest unit of which the period is a multiple. */
static enum sl_unit unit_of(const struct sl_limit *limit)
{
    enum sl_unit unit = limit->kind == SL_QUOTA ? SL_UNIT_HOUR : SL_UNIT_DAY;

    while (unit > SL_UNIT_MS && limit->period % sl_unit_length(unit) != 0)
        unit--;
    return unit;
}

/* "5/min", "30/5min". */
static int print_per(const struct sl_limit *limit, uint64_t count,
                     char out[RATE_BYTES])
{
    static const enum sl_unit calendar[] = {
        [SL_CALENDAR_DAY] = SL_UNIT_DAY,
        [SL_CALENDAR_WEEK] = SL_UNIT_WEEK,
        [SL_CALENDAR_MONTH] = SL_UNIT_MONTH,
    };
    enum sl_unit unit =
        limit->calendar ? calendar[limit->cal.unit] : unit_of(limit);
    uint64_t every = limit->calendar
                         ? limit->cal.every
                         : (uint64_t)(limit->period / sl_unit_length(unit));

    if (every == 1)
        return snprintf(out, RATE_BYTES, "%" PRIu64 "/%s", count,
                        sl_unit_name(unit));
    return snprintf(out, RATE_BYTES, "%" PRIu64 "/%" PRIu64 "%s", count, every,
                    sl_unit_name(unit));
}

static struct sl_str print_rate(const struct sl_plan_limit *plan,
                                char out[RATE_BYTES])
{
    const struct sl_limit *limit = &plan->numbers;
    uint64_t count = sl_plan_limit_written(plan, limit->count);
    enum sl_kind kind = limit->kind;
    size_t len, size = RATE_BYTES;

    if (plan->form == SL_RATE_UNLIMITED)
        return SL_STR("unlimited");
    if (plan->form == SL_RATE_NONE)
        return SL_STR("none");
    if (plan->form == SL_RATE_PLAIN)
        len = (size_t)snprintf(out, size, "%" PRIu64, count);
    else
        len = (size_t)print_per(limit, count, out);
    if (kind == SL_BUCKET || kind == SL_INTERVAL)
        snprintf(out + len, size - len, " burst %" PRIu64,
                 sl_plan_limit_written(plan, limit->capacity));
    else if (kind == SL_LEAKY)
        snprintf(out + len, size - len, " queue %" PRIu64, limit->capacity - 1);
    return sl_str_c(out);
}

/* The external rate of a plan that is written with an alias. */
static const struct sl_external_value *find_by_alias(const struct sl_printer *p,
                                                     unsigned plan)
{
    unsigned count;
    const struct sl_external_value *list = sl_print_below(p, &count);

    for (unsigned i = 0; i < count; i++) {
        struct sl_str name = sl_str_from(list[i].path, p->path_len + 1);

        if (sl_policy_plan(p->policy, name) == (int)plan)
            return &list[i];
    }
    return NULL;
}

static void print_plan_rate(struct sl_printer *p, unsigned i,
                            const struct sl_plan_limit *plan)
{
    struct sl_str name = p->policy->plans.list[i].name;
    const struct sl_external_value *from = sl_print_here(p);
    char rate[RATE_BYTES];

    if (!from)
        from = find_by_alias(p, i);
    if (from)
        sl_print_from(p, name, from);
    else
        sl_print_yaml(p, name, print_rate(plan, rate));
}

/* `rate` or `candidate`. */
void sl_print_rates(struct sl_printer *p, const struct sl_schema_key *row,
                    const void *from)
{
    const struct sl_plan_limit *list = *(
        const struct sl_plan_limit *const *)(const void *)((const char *)from +
                                                           row->offset);
    char rate[RATE_BYTES];

    if (!list)
        return;
    if (has_one_plan(p)) {
        sl_print_yaml(p, sl_str_c(row->name), print_rate(&list[0], rate));
        return;
    }
    sl_print_open(p, sl_str_c(row->name));
    for (unsigned i = 0; i < p->policy->plans.count; i++)
        print_plan_rate(p, i, &list[i]);
    sl_print_close(p);
}

struct scopes {
    const struct sl_policy *policy;
    const struct sl_rule *rule;
};

static struct sl_str scope(const void *ctx, unsigned i, char *room)
{
    const struct scopes *s = ctx;

    (void)room;
    return s->policy->identity.scope_names[s->rule->per[i]];
}

void sl_print_per(struct sl_printer *p, const struct sl_schema_key *row,
                  const void *from)
{
    struct scopes scopes = {p->policy, from};

    sl_print_list(p, row->name, scope, &scopes, scopes.rule->per_count);
}

static bool has_calendar(const struct sl_rule *rule)
{
    return rule->kind == SL_QUOTA &&
           (!rule->limited || rule->strictest.calendar);
}

void sl_print_kind(struct sl_printer *p, const struct sl_schema_key *row,
                   const void *from)
{
    enum sl_kind kind = ((const struct sl_rule *)from)->kind;

    sl_print_yaml(p, sl_str_c(row->name), sl_str_c(sl_kind_name(kind)));
    if (kind == SL_BUCKET || kind == SL_INTERVAL)
        sl_print_yaml(p, SL_STR("refill"),
                      kind == SL_BUCKET ? SL_STR("continuous")
                                        : SL_STR("interval"));
}

static struct sl_str mark_item(const void *ctx, unsigned i, char *room)
{
    const struct sl_thresholds *thresholds = ctx;
    int len = snprintf(room, SL_PRINT_ITEM, "%u%%", thresholds->list[i]);

    return (struct sl_str){room, (size_t)len};
}

void sl_print_thresholds(struct sl_printer *p, const struct sl_schema_key *row,
                         const void *from)
{
    const struct sl_rule *rule = from;

    if (rule->kind == SL_QUOTA || rule->kind == SL_LEVEL)
        sl_print_list(p, row->name, mark_item, &rule->thresholds,
                      rule->thresholds.count);
}

void sl_print_unit(struct sl_printer *p, const struct sl_schema_key *row,
                   const void *from)
{
    const struct sl_rule *rule = from;

    if (sl_rule_is_scaled(rule))
        print_map(p, sl_str_c(row->name), row->below, rule);
    else if (rule->unit.len > 0)
        sl_print_text(p, row->name, rule->unit);
}

void sl_print_cost(struct sl_printer *p, const struct sl_schema_key *row,
                   const void *from)
{
    const struct sl_rule *rule = from;

    if (rule->fixed_cost)
        sl_print_number(p, row->name, rule->cost);
}

void sl_print_lease(struct sl_printer *p, const struct sl_schema_key *row,
                    const void *from)
{
    const struct sl_rule *rule = from;
    char text[16];

    snprintf(text, sizeof(text), "%u%%", rule->lease);
    if (rule->lease > 0)
        sl_print_text(p, row->name, sl_str_c(text));
}

void sl_print_zone(struct sl_printer *p, const struct sl_schema_key *row,
                   const void *from)
{
    const struct sl_rule *rule = from;

    if (has_calendar(rule))
        sl_print_text(p, row->name, rule->zone_name);
}

void sl_print_anchor(struct sl_printer *p, const struct sl_schema_key *row,
                     const void *from)
{
    const struct sl_rule *rule = from;
    uint32_t anchor = rule->options.anchor;

    if (has_calendar(rule))
        sl_print_number(p, row->name, anchor ? anchor : 1);
}

void sl_print_limits(struct sl_printer *p, const struct sl_schema_key *row,
                     const void *from)
{
    const struct sl_policy *policy = from;

    if (policy->rule_count == 0)
        return;
    sl_print_open(p, sl_str_c(row->name));
    for (unsigned i = 0; i < policy->rule_count; i++)
        print_map(p, policy->rules[i].name, SL_LEVEL_LIMIT, &policy->rules[i]);
    sl_print_close(p);
}

/* ---- prechecks. Secrets are never shown; the text in their place is a valid
 * secret. */

/* "(a secret, which is not shown)" in base64, for all schemes alike. */
#define SECRET "whsec_KGEgc2VjcmV0LCB3aGljaCBpcyBub3Qgc2hvd24p"

static struct sl_str secret_of(const void *ctx, unsigned i, char *room)
{
    (void)ctx;
    (void)i;
    (void)room;
    return SL_STR(SECRET);
}

void sl_print_webhook_secret(struct sl_printer *p,
                             const struct sl_schema_key *row, const void *from)
{
    static const struct sl_external_value secret = {
        .written = {SECRET, sizeof(SECRET) - 1}
    };
    const struct sl_webhook_rules *rules =
        &((const struct sl_verify *)from)->rules;
    unsigned count = rules->secret_count;

    if (p->raw)
        sl_print_list(p, row->name, sl_print_text_item, rules->secrets, count);
    else if (count == 0) /* the variable is not set; shown as written */
        sl_print_text(p, row->name, SL_STR(""));
    else if (count == 1)
        sl_print_from(p, sl_str_c(row->name), &secret);
    else
        sl_print_list(p, row->name, secret_of, NULL, count);
}

struct sl_str sl_print_header_name(struct sl_str name, char *room)
{
    int len = snprintf(room, SL_PRINT_ITEM, "header.%.*s", SL_STR_ARG(name));

    return (struct sl_str){room, (size_t)len};
}

void sl_print_header(struct sl_printer *p, const struct sl_schema_key *row,
                     const void *from)
{
    char room[SL_PRINT_ITEM], text[SL_SCHEMA_TEXT];
    struct sl_str name = sl_schema_text(row, from, text);

    if (name.len > 0)
        sl_print_text(p, row->name, sl_print_header_name(name, room));
}

void sl_print_dedupe_key(struct sl_printer *p, const struct sl_schema_key *row,
                         const void *from)
{
    const struct sl_dedupe *dedupe = from;
    char room[SL_PRINT_ITEM];
    int len;

    if (dedupe->pointer.len == 0) {
        sl_print_header(p, row, from);
        return;
    }
    len =
        snprintf(room, sizeof(room), "body.%.*s", SL_STR_ARG(dedupe->pointer));
    sl_print_text(p, row->name, (struct sl_str){room, (size_t)len});
}

/* `min` or `max`. */
void sl_print_bound(struct sl_printer *p, const struct sl_schema_key *row,
                    const void *from)
{
    const struct sl_require *require = from;

    if (strcmp(row->name, "min") == 0 ? require->has_min : require->has_max)
        sl_print_number(p, row->name, (uint64_t)sl_schema_get(row, from));
}

void sl_print_backlog_name(struct sl_printer *p,
                           const struct sl_schema_key *row, const void *from)
{
    const struct sl_backlog *backlog = from;

    sl_print_text(p, row->name, p->policy->backlogs[backlog->index]);
}

/* All of them, at the row of `verify`. */
void sl_print_prechecks(struct sl_printer *p, const struct sl_schema_key *row,
                        const void *from)
{
    const struct sl_prechecks *checks = ((const struct sl_route *)from)->guards;
    char room[SL_PRINT_ITEM];

    if (!checks)
        return;
    if (checks->verify.written)
        print_map(p, sl_str_c(row->name), row->below, &checks->verify);
    if (checks->require_count > 0)
        sl_print_open(p, SL_STR("require"));
    for (unsigned i = 0; i < checks->require_count; i++)
        print_map(p, sl_print_header_name(checks->requires[i].header, room),
                  SL_LEVEL_BOUNDS, &checks->requires[i]);
    if (checks->require_count > 0)
        sl_print_close(p);
    sl_print_costs(p, checks);
    if (checks->backlog.written)
        print_map(p, SL_STR("backlog"), SL_LEVEL_BACKLOG, &checks->backlog);
    if (checks->dedupe.written)
        print_map(p, SL_STR("dedupe"), SL_LEVEL_DEDUPE, &checks->dedupe);
    if (checks->guard.written)
        print_map(p, SL_STR("guard"), SL_LEVEL_GUARD, &checks->guard);
}

/* ---- `server`. Tokens and passwords in URLs are never shown. */

struct url {
    struct sl_writer w;
    bool written; /* ${...} is a substitution */
};

/* Bytes before the next `c` outside of ${...}. */
static size_t seek(const struct url *url, struct sl_str text, char c)
{
    bool inside = false;

    for (size_t i = 0; i < text.len; i++) {
        if (text.at[i] == c && !inside)
            return i;
        if (url->written && i > 0 && memcmp(text.at + i - 1, "${", 2) == 0)
            inside = true;
        else if (text.at[i] == '}')
            inside = false;
    }
    return text.len;
}

static void add_bytes(struct url *url, struct sl_str text, size_t len)
{
    sl_writer_add(&url->w, (struct sl_str){text.at, len});
}

/* A single ${...} is not a secret. */
static void add_hidden(struct url *url, struct sl_str secret)
{
    bool reference =
        url->written && secret.len > 3 && memcmp(secret.at, "${", 2) == 0 &&
        memchr(secret.at, '}', secret.len) == secret.at + secret.len - 1;

    sl_writer_add(&url->w, secret.len == 0 || reference
                               ? secret
                               : SL_STR(SL_PRINT_SECRET));
}

/* "user:password". */
static void add_user(struct url *url, struct sl_str user)
{
    size_t len = seek(url, user, ':');

    len += len < user.len;
    add_bytes(url, user, len);
    add_hidden(url, sl_str_from(user, len));
}

static bool is_secret_name(struct sl_str name)
{
    static const char *const parts[] = {"pass", "secret", "token", "key"};

    for (size_t i = 0; i < SL_LEN(parts); i++)
        for (size_t at = 0; at + strlen(parts[i]) <= name.len; at++) {
            struct sl_str part = {name.at + at, strlen(parts[i])};

            if (sl_str_eq_nocase(part, sl_str_c(parts[i])))
                return true;
        }
    return false;
}

/* "name=value". */
static void add_setting(struct url *url, struct sl_str setting)
{
    size_t len = seek(url, setting, '=');
    bool secret = is_secret_name((struct sl_str){setting.at, len});

    len += len < setting.len;
    add_bytes(url, setting, len);
    if (secret)
        add_hidden(url, sl_str_from(setting, len));
    else
        sl_writer_add(&url->w, sl_str_from(setting, len));
}

/* "?name=value&name=value". */
static void add_settings(struct url *url, struct sl_str rest)
{
    while (rest.len > 0) {
        size_t len;

        add_bytes(url, rest, 1);
        rest = sl_str_from(rest, 1);
        len = seek(url, rest, '&');
        add_setting(url, (struct sl_str){rest.at, len});
        rest = sl_str_from(rest, len);
    }
}

/* Bytes before the last @, or 0. A password can contain a slash. */
static size_t seek_last_at(const struct url *url, struct sl_str text)
{
    size_t last = 0;

    for (size_t at = seek(url, text, '@'); at < text.len;) {
        last = at;
        at += 1 + seek(url, sl_str_from(text, at + 1), '@');
    }
    return last;
}

static void add_url(struct url *url, struct sl_str text)
{
    const char *slashes = memmem(text.at, text.len, "://", 3);
    size_t len = slashes ? (size_t)(slashes - text.at) + 3 : 0;
    struct sl_str rest = sl_str_from(text, len);

    add_bytes(url, text, len);
    len = slashes ? seek_last_at(url, rest) : 0;
    add_user(url, (struct sl_str){rest.at, len});
    rest = sl_str_from(rest, len);
    len = seek(url, rest, '?');
    add_bytes(url, rest, len);
    add_settings(url, sl_str_from(rest, len));
}

void sl_print_url(struct sl_printer *p, const struct sl_schema_key *row,
                  const void *from)
{
    const struct sl_external_value *at = sl_print_at(p, sl_str_c(row->name));
    struct sl_external_value shown;
    char room[SL_SCHEMA_TEXT];
    struct sl_str text = sl_schema_text(row, from, room);
    struct sl_buf out;
    struct url url = {
        {&out, p->w.err},
        at != NULL
    };

    if (text.len == 0)
        return;
    sl_buf_init(&out, p->w.out->ceiling, p->w.out->alloc);
    add_url(&url, at ? at->written : text);
    p->w.err = url.w.err;
    shown.written = sl_buf_str(&out);
    if (at)
        sl_print_from(p, sl_str_c(row->name), &shown);
    else
        sl_print_text(p, row->name, shown.written);
    sl_buf_done(&out);
}

void sl_print_token(struct sl_printer *p, const struct sl_schema_key *row,
                    const void *from)
{
    static const struct sl_external_value secret = {
        .written = {SL_PRINT_SECRET, sizeof(SL_PRINT_SECRET) - 1}
    };
    char room[SL_SCHEMA_TEXT];

    if (sl_schema_text(row, from, room).len > 0)
        sl_print_from(p, sl_str_c(row->name), &secret);
}

/* The ith of "http,resp". */
static struct sl_str listener_item(const void *ctx, unsigned i, char *room)
{
    struct sl_str rest = *(const struct sl_str *)ctx;
    const char *comma;

    (void)room;
    while ((comma = memchr(rest.at, ',', rest.len)) != NULL && i-- > 0)
        rest = sl_str_from(rest, (size_t)(comma - rest.at) + 1);
    if (comma)
        rest.len = (size_t)(comma - rest.at);
    return rest;
}

void sl_print_joined(struct sl_printer *p, const struct sl_schema_key *row,
                     const void *from)
{
    const struct sl_str *list = sl_schema_const_field(row, from);
    unsigned count = 1;

    for (size_t i = 0; i < list->len; i++)
        count += list->at[i] == ',';
    if (list->len > 0)
        sl_print_list(p, row->name, listener_item, list, count);
}
