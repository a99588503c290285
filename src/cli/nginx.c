/* nginx.c -- the limits of an nginx configuration as a policy. */
#include "cli/nginx.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIMITS_MAX 512
#define NAME_MAX_  48

/* A limit of the policy: a zone with what a limit_req adds to it. */
struct limit {
    const struct sl_nginx_zone *zone;
    const struct sl_nginx_use *use;
    bool shadow;
    unsigned status; /* 0: not set */
    char name[NAME_MAX_ + 8];
};

/* A variable of a key that becomes a scope under identity. */
struct scope {
    char name[NAME_MAX_];
    char source[NAME_MAX_ + 8];
};

struct writer {
    struct sl_nginx *nginx;
    struct sl_writer *out;
    struct limit limits[LIMITS_MAX];
    unsigned limit_count;
    struct scope scopes[SL_NGINX_IDENTITY];
    unsigned scope_count;
    unsigned servers;
    bool has_routes;
    bool full;
};

/* ---- the limits of a block ---- */

/* The nearest block with directives of this kind. */
static const struct sl_nginx_block *owner(const struct sl_nginx_block *block,
                                          bool conn)
{
    while (block && !block->uses[conn])
        block = block->up;
    return block;
}

static unsigned status_of(const struct sl_nginx_block *block, bool conn)
{
    while (block && !block->status[conn])
        block = block->up;
    return block ? block->status[conn] : 0;
}

static bool is_dry(const struct sl_nginx_block *block, bool conn)
{
    while (block && block->dry[conn] < 0)
        block = block->up;
    return block && block->dry[conn] > 0;
}

static const struct sl_nginx_zone *find_zone(const struct sl_nginx *nginx,
                                             const struct sl_nginx_use *use)
{
    for (unsigned i = 0; i < nginx->zone_count; i++)
        if (nginx->zones[i].conn == use->conn &&
            strcmp(nginx->zones[i].name, use->zone) == 0)
            return &nginx->zones[i];
    return NULL;
}

static bool is_taken(const struct writer *w, const char *name)
{
    for (unsigned i = 0; i < w->limit_count; i++)
        if (strcmp(w->limits[i].name, name) == 0)
            return true;
    return false;
}

/* The name of a zone as a name of a limit, with a number if it is taken: by
 * another use of the zone, a zone of the other kind, or a similar name. */
static void name_limit(struct writer *w, struct limit *limit)
{
    size_t len = 0;

    for (const char *c = limit->zone->name; *c && len < NAME_MAX_; c++) {
        bool letter = (*c >= 'a' && *c <= 'z') || (*c >= '0' && *c <= '9');
        bool upper = *c >= 'A' && *c <= 'Z';

        if (len == 0 && !letter && !upper)
            continue;
        limit->name[len++] = letter  ? *c
                             : upper ? (char)(*c + ('a' - 'A'))
                                     : '-';
    }
    while (len > 0 && limit->name[len - 1] == '-')
        len--;
    limit->name[len] = '\0';
    if (len == 0 || (limit->name[0] >= '0' && limit->name[0] <= '9'))
        snprintf(limit->name, sizeof(limit->name), "zone%u",
                 (unsigned)(limit->zone - w->nginx->zones) + 1);
    len = strlen(limit->name);
    for (unsigned n = 2; is_taken(w, limit->name); n++)
        snprintf(limit->name + len, sizeof(limit->name) - len, "-%u", n);
}

/* The limit of a use in a block, made at its first use. NULL: there is no such
 * zone, which nginx would refuse. */
static const struct limit *limit_of(struct writer *w,
                                    const struct sl_nginx_block *block,
                                    const struct sl_nginx_use *use)
{
    struct limit one = {.zone = find_zone(w->nginx, use),
                        .use = use,
                        .shadow = is_dry(block, use->conn),
                        .status = status_of(block, use->conn)};

    if (!one.zone)
        return NULL;
    for (unsigned i = 0; i < w->limit_count; i++) {
        const struct limit *other = &w->limits[i];

        if (other->zone == one.zone && other->shadow == one.shadow &&
            other->status == one.status && other->use->count == use->count &&
            other->use->nodelay == use->nodelay)
            return other;
    }
    if (w->limit_count == LIMITS_MAX) {
        w->full = true;
        return NULL;
    }
    name_limit(w, &one);
    w->limits[w->limit_count] = one;
    return &w->limits[w->limit_count++];
}

/* ---- keys ---- */

static void add_scope(struct writer *w, const char *name, const char *source)
{
    for (unsigned i = 0; i < w->scope_count; i++)
        if (strcmp(w->scopes[i].name, name) == 0)
            return;
    if (w->scope_count == SL_NGINX_IDENTITY) {
        w->full = true;
        return;
    }
    snprintf(w->scopes[w->scope_count].name, NAME_MAX_, "%s", name);
    snprintf(w->scopes[w->scope_count++].source, NAME_MAX_ + 8, "%s", source);
}

static bool is(struct sl_str text, const char *word)
{
    return sl_str_eq(text, sl_str_c(word));
}

/* Names under identity that mean something else. */
static bool reserved(const char *name)
{
    static const char *const names[] = {
        "user", "org",      "plan",       "role", "ip",
        "anon", "endpoint", "descriptor", "jwt",  "subjects"};

    for (size_t i = 0; i < SL_LEN(names); i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

/* $http_x_api_key, $cookie_session: a scope of its own. */
static bool from_request(struct writer *w, struct sl_str var,
                         const char *prefix, const char *from,
                         char name[NAME_MAX_])
{
    struct sl_str rest = sl_str_from(var, strlen(prefix));
    char source[NAME_MAX_ + 8];

    if (!sl_str_begins(var, sl_str_c(prefix)) || rest.len == 0 ||
        rest.len >= NAME_MAX_)
        return false;
    for (size_t i = 0; i < rest.len; i++) {
        char c = rest.at[i];

        if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9' && i > 0) ||
              (c == '_' && i > 0)))
            return false;
        name[i] = c == '_' ? '-' : c;
    }
    name[rest.len] = '\0';
    snprintf(source, sizeof(source), "%s%s", from,
             strcmp(from, "cookie.") == 0 ? rest.at : name);
    if (strcmp(from, "cookie.") == 0)
        source[strlen(from) + rest.len] = '\0';
    if (reserved(name))
        snprintf(name, NAME_MAX_, "%.*s-%.*s", (int)strlen(from) - 1, from,
                 NAME_MAX_ - 10, source + strlen(from));
    add_scope(w, name, source);
    return true;
}

/* What a limit counts by a variable of its key. */
static void per_of(struct writer *w, const struct sl_nginx_zone *zone,
                   struct sl_str var, char name[NAME_MAX_])
{
    snprintf(name, NAME_MAX_, "ip");
    if (is(var, "binary_remote_addr") || is(var, "remote_addr"))
        return;
    if (is(var, "host") || is(var, "http_host") || is(var, "server_name")) {
        snprintf(name, NAME_MAX_, "host");
        add_scope(w, "host", "header.host");
        if (is(var, "server_name"))
            sl_nginx_note(w->nginx, zone->file, zone->line,
                          "$server_name: nginx counts by server; the policy "
                          "counts by the header Host, which clients choose");
        return;
    }
    if (is(var, "uri") || is(var, "request_uri") || is(var, "document_uri")) {
        snprintf(name, NAME_MAX_, "endpoint");
        sl_nginx_note(w->nginx, zone->file, zone->line,
                      "$%.*s: a policy counts by route, not by each path",
                      SL_STR_ARG(var));
        return;
    }
    if (from_request(w, var, "http_", "header.", name) ||
        from_request(w, var, "cookie_", "cookie.", name))
        return;
    snprintf(name, NAME_MAX_, "ip");
    sl_nginx_note(w->nginx, zone->file, zone->line,
                  "$%.*s has no equivalent; the limit counts by address. If a "
                  "map or geo sets it to exempt callers, write `exempt` on the "
                  "routes",
                  SL_STR_ARG(var));
}

/* The next variable of a key from *at on: $name or ${name}. */
static bool next_var(struct sl_str key, size_t *at, struct sl_str *var)
{
    const char *dollar =
        *at < key.len ? memchr(key.at + *at, '$', key.len - *at) : NULL;
    size_t begin, end;

    if (!dollar)
        return false;
    begin = (size_t)(dollar - key.at) + 1;
    begin += begin < key.len && key.at[begin] == '{';
    for (end = begin; end < key.len; end++) {
        char c = key.at[end];

        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
              (c >= '0' && c <= '9') || c == '_'))
            break;
    }
    *at = end > begin ? end : begin;
    *var = (struct sl_str){key.at + begin, end - begin};
    return true;
}

/* Is all of a key variables? Other text is never empty. */
static bool is_bare(struct sl_str key)
{
    struct sl_str var;
    size_t at = 0, end = 0;

    while (next_var(key, &at, &var)) {
        size_t begin = (size_t)(var.at - key.at);
        bool braces = begin > 1 && key.at[begin - 1] == '{';

        if (begin - 1 - braces != end)
            return false;
        at += braces && at < key.len;
        end = at;
    }
    return end == key.len;
}

/* nginx does not count an empty key. A key is empty if all of it is; a scope
 * that is missing makes a limit skip the request, or count by address. */
static void put_missing(struct writer *w, const struct sl_nginx_zone *zone,
                        char names[][NAME_MAX_], unsigned count)
{
    bool scopes = false, ip = false;

    for (unsigned i = 0; i < count; i++) {
        bool known = strcmp(names[i], "endpoint") == 0;

        ip = ip || strcmp(names[i], "ip") == 0;
        scopes = scopes || (!known && strcmp(names[i], "ip") != 0);
    }
    if (!scopes || ip)
        return;
    sl_writer_addf(w->out, "    missing: skip\n");
    if (count > 1 || !is_bare(zone->key))
        sl_nginx_note(w->nginx, zone->file, zone->line,
                      "key %.100s: nginx counts a request without one of the "
                      "values by the rest of the key; the policy does not "
                      "count it",
                      zone->key.at);
}

static void put_per(struct writer *w, const struct sl_nginx_zone *zone)
{
    char names[4][NAME_MAX_];
    unsigned count = 0;
    struct sl_str var;

    for (size_t at = 0; next_var(zone->key, &at, &var);) {
        bool again = false;

        if (is(var, "server_name") && w->servers <= 1)
            continue; /* the same for all */
        if (count == SL_LEN(names)) {
            sl_nginx_note(w->nginx, zone->file, zone->line,
                          "$%.*s: a limit counts by at most %u values; it is "
                          "left out",
                          SL_STR_ARG(var), count);
            continue;
        }
        per_of(w, zone, var, names[count]);
        for (unsigned i = 0; i < count; i++)
            again = again || strcmp(names[i], names[count]) == 0;
        count += !again;
    }
    sl_writer_addf(w->out, "    per: ");
    if (count != 1)
        sl_writer_addf(w->out, "[");
    for (unsigned i = 0; i < count; i++)
        sl_writer_addf(w->out, "%s%s", i ? ", " : "", names[i]);
    sl_writer_addf(w->out, count != 1 ? "]\n" : "\n");
    put_missing(w, zone, names, count);
}

/* ---- the parts of the policy ---- */

static void put_rate(struct writer *w, const struct limit *limit)
{
    const struct sl_nginx_zone *zone = limit->zone;
    const struct sl_nginx_use *use = limit->use;
    const char *unit = zone->per_minute ? "min" : "s";
    bool paced = !use->conn && use->count > 0 && !use->nodelay;

    sl_writer_addf(w->out, "    kind: %s\n",
                   use->conn ? "concurrency"
                   : paced   ? "leaky-bucket"
                             : "token-bucket");
    put_per(w, zone);
    if (use->conn)
        sl_writer_addf(w->out, "    rate: %" PRIu64 "\n", use->count);
    else
        sl_writer_addf(w->out, "    rate: %" PRIu64 "/%s %s %" PRIu64 "\n",
                       zone->rate, unit, paced ? "queue" : "burst",
                       paced ? use->count : use->count + 1);
    if (use->conn)
        sl_nginx_note(w->nginx, use->file, use->line,
                      "limit_conn: a permit is free again when its hold ends. "
                      "Middleware ends it with the response; behind "
                      "auth_request it lasts 60 s, so remove \"%s\" there",
                      limit->name);
    if (use->delay)
        sl_nginx_note(w->nginx, use->file, use->line,
                      "delay= has no equivalent: all requests of a burst are "
                      "paced. For none, write nodelay");
    else if (paced)
        sl_nginx_note(w->nginx, use->file, use->line,
                      "burst without nodelay: the verdict has wait_ms, and "
                      "middleware waits; nginx with auth_request does not");
}

static void put_limit(struct writer *w, const struct limit *limit)
{
    sl_writer_addf(w->out, "  %s:\n", limit->name);
    put_rate(w, limit);
    if (limit->shadow)
        sl_writer_addf(w->out, "    mode: shadow\n");
    if (limit->status && limit->status != 429)
        sl_writer_addf(w->out, "    deny: { status: %u }\n", limit->status);
}

static void put_names(struct writer *w, const struct sl_nginx_block *block)
{
    bool listed[LIMITS_MAX] = {false};
    unsigned count = 0;

    sl_writer_addf(w->out, "[");
    for (int conn = 0; conn < 2; conn++) {
        const struct sl_nginx_block *from = owner(block, conn);

        for (const struct sl_nginx_use *use = from ? from->uses[conn] : NULL;
             use; use = use->next) {
            const struct limit *limit = limit_of(w, block, use);

            if (!limit || listed[limit - w->limits])
                continue;
            listed[limit - w->limits] = true;
            sl_writer_addf(w->out, "%s%s", count++ ? ", " : "", limit->name);
        }
    }
    sl_writer_addf(w->out, "]");
}

/* ---- routes ---- */

/* Can a path be written as a route? One with // or .. never arrives. */
static bool plain_path(struct sl_str path)
{
    char before = '\0';

    for (size_t i = 0; i < path.len; i++) {
        char c = path.at[i];

        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
              (c >= '0' && c <= '9') || strchr("/_-.~", c)) ||
            c == '\0' || (before == '/' && (c == '/' || c == '.')))
            return false;
        before = c;
    }
    return path.len > 0 && path.len < 500;
}

/* How a name of a server becomes a condition. nginx takes exact names before
 * names with a star. */
enum form { FORM_EXACT, FORM_STAR, FORM_NONE };

static enum form form_of(struct sl_str name)
{
    bool star = false;

    for (size_t i = 0; i < name.len; i++) {
        char c = name.at[i];
        bool edge = i == 0 || i + 1 == name.len;

        star = star || (c == '*' && edge);
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
              (c >= '0' && c <= '9') || c == '.' || c == '-' ||
              (c == '*' && edge)))
            return FORM_NONE;
    }
    if (name.len == 0 || name.len > 253)
        return FORM_NONE;
    return star || name.at[0] == '.' ? FORM_STAR : FORM_EXACT;
}

static bool has_form(const struct sl_nginx_block *server, enum form form)
{
    for (unsigned i = 0; i < server->name_count; i++)
        if (form_of(server->names[i]) == form)
            return true;
    return false;
}

static bool is_named(const struct sl_nginx_block *server)
{
    return has_form(server, FORM_EXACT) || has_form(server, FORM_STAR);
}

/* .example.com is example.com and *.example.com. */
static void put_host(struct writer *w, const struct sl_nginx_block *server,
                     enum form form)
{
    unsigned count = 0;

    for (unsigned i = 0; i < server->name_count; i++) {
        struct sl_str name = server->names[i];
        bool dot = name.len > 0 && name.at[0] == '.';

        if (form_of(name) != form)
            continue;
        sl_writer_addf(w->out, "%s", count++ ? ", " : "");
        if (dot)
            sl_writer_addf(w->out, "\"%.*s\", ",
                           SL_STR_ARG(sl_str_from(name, 1)));
        sl_writer_addf(w->out, "\"%s%.*s\"", dot ? "*" : "", SL_STR_ARG(name));
    }
}

/* The path of a block without slashes at its end. */
static struct sl_str route_path(const struct sl_nginx_block *block)
{
    struct sl_str path = block->path;

    if (block->kind != SL_NGINX_LOCATION)
        path.len = 0;
    while (path.len > 0 && path.at[path.len - 1] == '/')
        path.len--;
    return path;
}

/* A route for a block of a server; `server` is NULL if all hosts have it. */
static void put_route(struct writer *w, const struct sl_nginx_block *block,
                      const struct sl_nginx_block *server, enum form form)
{
    struct sl_str path = route_path(block);
    bool prefix = block->match == SL_NGINX_PREFIX;

    if (!w->has_routes)
        sl_writer_addf(w->out, "routes:\n");
    w->has_routes = true;
    sl_writer_addf(w->out, "  - match: \"%.*s%s\"\n", SL_STR_ARG(path),
                   prefix         ? "/**"
                   : path.len > 0 ? ""
                                  : "/");
    if (server) {
        sl_writer_addf(w->out, "    when: [{ header.host: [");
        put_host(w, server, form);
        sl_writer_addf(w->out, "] }]\n");
    }
    sl_writer_addf(w->out, "    limits: ");
    put_names(w, block);
    sl_writer_addf(w->out, "\n");
}

/* Exact locations first, then the longer prefix; else as in the file. */
struct sorted {
    const struct sl_nginx_block *block;
    unsigned place;
};

static int compare(const void *a, const void *b)
{
    const struct sorted *x = a, *y = b;
    bool exact = x->block->match == SL_NGINX_EXACT;

    if (exact != (y->block->match == SL_NGINX_EXACT))
        return exact ? -1 : 1;
    if (x->block->path.len != y->block->path.len)
        return x->block->path.len > y->block->path.len ? -1 : 1;
    return x->place < y->place ? -1 : 1;
}

/* The locations of a server that can be routes, also those inside others. */
static void collect(struct writer *w, const struct sl_nginx_block *block,
                    struct sorted *list, unsigned *count)
{
    for (const struct sl_nginx_block *b = block->child; b; b = b->next) {
        bool named = b->path.len > 0 && b->path.at[0] == '@';
        bool limited = named ? b->uses[0] || b->uses[1]
                             : owner(b, false) || owner(b, true);

        if (b->match == SL_NGINX_REGEX || !plain_path(b->path)) {
            if (limited)
                sl_nginx_note(w->nginx, b->file, b->line,
                              "location %.100s: a route has no regular "
                              "expressions and no names; write a `match` for "
                              "it",
                              b->path.at ? b->path.at : "");
        } else {
            list[*count] = (struct sorted){b, *count};
            (*count)++;
        }
        collect(w, b, list, count);
    }
}

static bool limits_below(const struct sl_nginx_block *block)
{
    if (block->uses[0] || block->uses[1])
        return true;
    for (const struct sl_nginx_block *b = block->child; b; b = b->next)
        if (limits_below(b))
            return true;
    return false;
}

static bool is_limited(const struct sl_nginx_block *server)
{
    return owner(server, false) || owner(server, true) || limits_below(server);
}

/* What the route of a location does not say. */
static void tell_location(struct writer *w, const struct sl_nginx_block *block)
{
    struct sl_str path = block->path;

    if (block->match == SL_NGINX_PREFIX && path.at[path.len - 1] != '/' &&
        (block->uses[0] || block->uses[1]))
        sl_nginx_note(w->nginx, block->file, block->line,
                      "location %.100s: nginx takes %.100s2, too; the route "
                      "takes the path and what is below it",
                      path.at, path.at);
}

/* The routes of a server, for its names of one form, or for all hosts. */
static int put_server(struct writer *w, const struct sl_nginx_block *block,
                      bool hosts, enum form form)
{
    size_t size = (w->nginx->block_count + 1) * sizeof(struct sorted);
    struct sorted *list = sl_arena_take(w->nginx->arena, size);
    const struct sl_nginx_block *host = hosts ? block : NULL, *last = NULL;
    unsigned count = 0;
    bool all = false;

    if (!list)
        return SLUICE_ENOMEM;
    collect(w, block, list, &count);
    qsort(list, count, sizeof(*list), compare);
    for (unsigned i = 0; i < count; i++) {
        const struct sl_nginx_block *b = list[i].block;

        if (last && last->match == b->match &&
            sl_str_eq(route_path(last), route_path(b))) {
            sl_nginx_note(w->nginx, b->file, b->line,
                          "location %.100s has the same route as that of line "
                          "%u; it is left out",
                          b->path.at, last->line);
            continue;
        }
        last = b;
        tell_location(w, b);
        put_route(w, b, host, form);
        all = all || (b->path.len == 1 && b->match == SL_NGINX_PREFIX);
    }
    if (hosts && !all)
        put_route(w, block, host, form);
    return 0;
}

/* The limits in the order of the file, so that those of the server have the
 * plain names. */
static void name_limits(struct writer *w, const struct sl_nginx_block *block)
{
    for (int conn = 0; conn < 2; conn++) {
        const struct sl_nginx_block *from = owner(block, conn);

        for (const struct sl_nginx_use *use = from ? from->uses[conn] : NULL;
             use; use = use->next)
            (void)limit_of(w, block, use);
    }
    for (const struct sl_nginx_block *b = block->child; b; b = b->next)
        if (b->kind != SL_NGINX_LOCATION || b->match != SL_NGINX_REGEX)
            name_limits(w, b);
}

/* ---- servers ----
 *
 * The routes of a server have its names as a condition: exact names before
 * names with a star. The routes of the default server come last, for all other
 * hosts. A policy knows no ports. */

/* The server for hosts that no other has: one with default_server, else one
 * without names, else the first; those with limits before others. */
static const struct sl_nginx_block *
default_server(const struct sl_nginx_block *top)
{
    const struct sl_nginx_block *best = NULL;
    int most = -1;

    for (const struct sl_nginx_block *b = top->child; b; b = b->next) {
        bool regex = b->name_count > 0 && b->names[0].len > 0 &&
                     b->names[0].at[0] == '~';
        int points;

        if (b->kind != SL_NGINX_SERVER)
            continue;
        points = b->is_default            ? 2
                 : !is_named(b) && !regex ? 1
                 : !best /* the first */  ? 0
                                          : -1;
        if (points >= 0 && is_limited(b))
            points += 3;
        if (points > most) {
            most = points;
            best = b;
        }
    }
    return best;
}

/* The first server with this name that has limits, else the first. */
static const struct sl_nginx_block *server_of(const struct sl_nginx_block *top,
                                              struct sl_str name)
{
    const struct sl_nginx_block *found = NULL;

    for (const struct sl_nginx_block *b = top->child; b; b = b->next)
        for (unsigned i = 0; i < b->name_count; i++)
            if (sl_str_eq_nocase(b->names[i], name) &&
                (!found || (!is_limited(found) && is_limited(b))))
                found = b;
    return found;
}

/* Names that are no conditions, or that another server has, are left out. */
static void check_names(struct writer *w, struct sl_nginx_block *server,
                        bool rest)
{
    const struct sl_nginx_block *top = &w->nginx->top;
    unsigned kept = 0;

    for (unsigned i = 0; i < server->name_count; i++) {
        struct sl_str name = server->names[i];
        const struct sl_nginx_block *other = server_of(top, name);

        if (form_of(name) == FORM_NONE) {
            if (!rest && is_limited(server))
                sl_nginx_note(w->nginx, server->file, server->line,
                              "server_name %.100s cannot be a condition; "
                              "requests for it take the routes of the default "
                              "server. Write routes for it",
                              name.at);
        } else if (other != server) {
            sl_nginx_note(
                w->nginx, server->file, server->line,
                "server_name %.100s is that of line %u, too. A "
                "policy knows no ports: the limits of that line apply",
                name.at, other->line);
        } else {
            server->names[kept++] = name;
        }
    }
    server->name_count = kept;
}

static size_t longest(const struct sl_nginx_block *server)
{
    size_t len = 0;

    for (unsigned i = 0; i < server->name_count; i++)
        if (form_of(server->names[i]) == FORM_STAR &&
            server->names[i].len > len)
            len = server->names[i].len;
    return len;
}

/* The servers with names of a form; of names with a star, the longer first. */
static int put_form(struct writer *w, const struct sl_nginx_block *rest,
                    enum form form)
{
    const struct sl_nginx_block *top = &w->nginx->top;
    size_t most = form == FORM_STAR ? 253 : 0;
    int err = 0;

    for (size_t len = most; !err; len--) {
        for (const struct sl_nginx_block *b = top->child; b && !err;
             b = b->next)
            if (b->kind == SL_NGINX_SERVER && has_form(b, form) &&
                (form == FORM_EXACT || longest(b) == len) && b != rest)
                err = put_server(w, b, true, form);
        if (len == 0)
            break;
    }
    return err;
}

/* The default server needs its names only where another could take them. */
static int put_servers(struct writer *w, const struct sl_nginx_block *rest)
{
    struct sl_nginx_block *top = &w->nginx->top;
    bool stars = false;
    int err;

    for (struct sl_nginx_block *b = top->child; b; b = b->next)
        if (b->kind == SL_NGINX_SERVER) {
            check_names(w, b, b == rest);
            stars = stars || (b != rest && has_form(b, FORM_STAR));
        }
    err = put_form(w, stars ? NULL : rest, FORM_EXACT);
    if (!err)
        err = put_form(w, stars ? NULL : rest, FORM_STAR);
    for (const struct sl_nginx_block *b = top->child; b && !err; b = b->next)
        if (b->kind == SL_NGINX_SERVER && b != rest && b->name_count == 0 &&
            is_limited(b))
            sl_nginx_note(w->nginx, b->file, b->line,
                          "a server without a name for a condition; its "
                          "limits are left out, those of line %u apply",
                          rest->line);
    if (!err && w->has_routes)
        sl_nginx_note(w->nginx, rest->file, rest->line,
                      "several servers: their routes compare the header Host. "
                      "Send the name in lower case without a port; in nginx: "
                      "proxy_set_header Host $host");
    return err;
}

/* `server` blocks, or locations alone: a file for sites-enabled. */
static int put_routes(struct writer *w)
{
    const struct sl_nginx_block *top = &w->nginx->top, *rest = top;
    int err = 0;

    for (const struct sl_nginx_block *b = top->child; b; b = b->next)
        w->servers += b->kind == SL_NGINX_SERVER;
    if (w->servers > 0)
        rest = default_server(top);
    name_limits(w, w->servers > 1 ? top : rest);
    if (w->servers > 1)
        err = put_servers(w, rest);
    if (!err)
        err = put_server(w, rest, false, FORM_NONE);
    sl_writer_addf(w->out, "default: ");
    put_names(w, rest);
    sl_writer_addf(w->out, "\n");
    return err;
}

/* ---- all of it ---- */

/* The same note once for each kind, not for each limit. */
static void tell_status(struct writer *w)
{
    bool told[2] = {false, false};

    for (unsigned i = 0; i < w->limit_count; i++) {
        const struct sl_nginx_use *use = w->limits[i].use;

        if (w->limits[i].status == 0 && !told[use->conn])
            sl_nginx_note(w->nginx, use->file, use->line,
                          "without %s, nginx answers 503; the policy answers "
                          "429. For 503, write deny: { status: 503 }",
                          use->conn ? "limit_conn_status" : "limit_req_status");
        told[use->conn] = told[use->conn] || w->limits[i].status == 0;
    }
}

static void tell_zones(struct writer *w)
{
    for (unsigned i = 1; i < w->limit_count; i++)
        for (unsigned k = 0; k < i; k++)
            if (w->limits[k].zone == w->limits[i].zone) {
                const struct sl_nginx_use *use = w->limits[i].use;

                sl_nginx_note(w->nginx, use->file, use->line,
                              "zone \"%.40s\" has another burst, status or "
                              "dry_run here. nginx counts both together; in "
                              "the policy \"%s\" counts alone",
                              use->zone, w->limits[i].name);
                break;
            }
}

static void tell_unknown(struct sl_nginx *nginx,
                         const struct sl_nginx_block *block)
{
    for (int conn = 0; conn < 2; conn++)
        for (struct sl_nginx_use *u = block->uses[conn]; u; u = u->next)
            if (!find_zone(nginx, u))
                sl_nginx_note(nginx, u->file, u->line,
                              "zone \"%.40s\" is not in what was read; it is "
                              "left out",
                              u->zone);
    for (const struct sl_nginx_block *b = block->child; b; b = b->next)
        tell_unknown(nginx, b);
}

/* Scopes come before limits, which come before routes; but routes decide which
 * limits there are. So the parts are written backwards, into three buffers. */
static int put_all(struct writer *w, struct sl_buf parts[2], struct sl_buf *out)
{
    struct sl_writer routes = {.out = &parts[0]}, limits = {.out = &parts[1]};
    struct sl_writer all = {.out = out};
    int err;

    w->out = &routes;
    err = put_routes(w);
    if (err)
        return err;
    if (w->limit_count == 0)
        return SLUICE_ENOENT;
    w->out = &limits;
    for (unsigned i = 0; i < w->limit_count; i++)
        put_limit(w, &w->limits[i]);
    sl_writer_addf(&all, "# Written by 'sluice import nginx'. Edit it as "
                         "needed.\nsluice: 1\n\n");
    if (w->scope_count)
        sl_writer_addf(&all, "identity:\n");
    for (unsigned i = 0; i < w->scope_count; i++)
        sl_writer_addf(&all, "  %s: %s\n", w->scopes[i].name,
                       w->scopes[i].source);
    sl_writer_addf(&all, "%slimits:\n", w->scope_count ? "\n" : "");
    sl_writer_add(&all, sl_buf_str(&parts[1]));
    sl_writer_addf(&all, "\n");
    sl_writer_add(&all, sl_buf_str(&parts[0]));
    if (routes.err || limits.err || all.err)
        return routes.err ? routes.err : limits.err ? limits.err : all.err;
    return w->full ? SLUICE_EFULL : 0;
}

int sl_nginx_write(struct sl_nginx *nginx, struct sl_buf *out)
{
    struct writer *w = sl_arena_take(nginx->arena, sizeof(*w));
    struct sl_buf parts[2];
    int err;

    if (!w)
        return SLUICE_ENOMEM;
    memset(w, 0, sizeof(*w));
    w->nginx = nginx;
    for (int i = 0; i < 2; i++)
        sl_buf_init(&parts[i], out->ceiling, &sl_alloc_libc);
    tell_unknown(nginx, &nginx->top);
    err = put_all(w, parts, out);
    if (!err) {
        tell_status(w);
        tell_zones(w);
    }
    for (int i = 0; i < 2; i++)
        sl_buf_done(&parts[i]);
    return err;
}
