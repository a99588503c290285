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

struct route {
    struct sl_str path; /* without slashes at its end */
    bool prefix;
};

struct writer {
    struct sl_nginx *nginx;
    struct sl_writer *out;
    struct limit limits[LIMITS_MAX];
    unsigned limit_count;
    struct scope scopes[SL_NGINX_IDENTITY];
    unsigned scope_count;
    struct route *routes; /* those without a condition */
    unsigned route_count;
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

/* The name of a zone as a name of a limit. */
static void name_limit(struct writer *w, struct limit *limit, unsigned same)
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
    for (unsigned i = 0; i < w->limit_count; i++)
        if (strcmp(w->limits[i].name, limit->name) == 0 && same == 0)
            same = i + 2; /* a zone of the other kind, or a similar name */
    if (same > 0) {
        len = strlen(limit->name);
        snprintf(limit->name + len, sizeof(limit->name) - len, "-%u", same);
    }
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
    unsigned same = 0;

    if (!one.zone)
        return NULL;
    for (unsigned i = 0; i < w->limit_count; i++) {
        const struct limit *other = &w->limits[i];

        if (other->zone != one.zone)
            continue;
        if (other->shadow == one.shadow && other->status == one.status &&
            other->use->count == use->count &&
            other->use->nodelay == use->nodelay)
            return other;
        same = same ? same + 1 : 2;
    }
    if (w->limit_count == LIMITS_MAX) {
        w->full = true;
        return NULL;
    }
    name_limit(w, &one, same);
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

static void put_per(struct writer *w, const struct sl_nginx_zone *zone)
{
    char names[4][NAME_MAX_];
    unsigned count = 0;
    struct sl_str var;
    bool known = true;

    for (size_t at = 0; count < 4 && next_var(zone->key, &at, &var);) {
        bool again = false;

        per_of(w, zone, var, names[count]);
        known = known && (strcmp(names[count], "ip") == 0 ||
                          strcmp(names[count], "endpoint") == 0);
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
    if (!known) /* nginx does not count an empty key */
        sl_writer_addf(w->out, "    missing: skip\n");
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

static bool plain_name(struct sl_str name)
{
    for (size_t i = 0; i < name.len; i++) {
        char c = name.at[i];

        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
              (c >= '0' && c <= '9') || c == '.' || c == '-' ||
              (c == '*' && i == 0)))
            return false;
    }
    return name.len > 0 && name.len < 254;
}

/* Has a server a name that can be a condition? */
static bool has_name(const struct sl_nginx_block *server)
{
    for (unsigned i = 0; i < server->name_count; i++)
        if (plain_name(server->names[i]))
            return true;
    return false;
}

static void put_host(struct writer *w, const struct sl_nginx_block *server)
{
    unsigned count = 0;

    for (unsigned i = 0; i < server->name_count; i++)
        if (plain_name(server->names[i]))
            sl_writer_addf(w->out, "%s\"%.*s\"",
                           count++ ? ", " : "    when: [{ header.host: [",
                           SL_STR_ARG(server->names[i]));
    sl_writer_addf(w->out, "] }]\n");
}

/* Does a route without a condition take all requests of another? */
static bool covers(const struct route *a, const struct route *b)
{
    if (!sl_str_begins(b->path, a->path))
        return false;
    if (a->path.len == b->path.len)
        return a->prefix || !b->prefix;
    return a->prefix && b->path.at[a->path.len] == '/';
}

/* A route for a block of a server; `server` is NULL if all hosts have it. */
static void put_route(struct writer *w, const struct sl_nginx_block *block,
                      const struct sl_nginx_block *server)
{
    struct route route = {.path = block->path,
                          .prefix = block->match == SL_NGINX_PREFIX};

    if (block->kind != SL_NGINX_LOCATION)
        route.path = sl_str_c("/");
    while (route.path.len > 0 && route.path.at[route.path.len - 1] == '/')
        route.path.len--;
    for (unsigned i = 0; i < w->route_count; i++)
        if (covers(&w->routes[i], &route)) {
            sl_nginx_note(w->nginx, block->file, block->line,
                          "a server before this one has no plain name and "
                          "takes these requests; they are left out");
            return;
        }
    if (!server)
        w->routes[w->route_count++] = route;
    if (!w->has_routes)
        sl_writer_addf(w->out, "routes:\n");
    w->has_routes = true;
    sl_writer_addf(w->out, "  - match: \"%.*s%s\"\n", SL_STR_ARG(route.path),
                   route.prefix         ? "/**"
                   : route.path.len > 0 ? ""
                                        : "/");
    if (server)
        put_host(w, server);
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

static int put_server(struct writer *w, const struct sl_nginx_block *block,
                      bool several)
{
    size_t size = (w->nginx->block_count + 1) * sizeof(struct sorted);
    struct sorted *list = sl_arena_take(w->nginx->arena, size);
    bool named = several && has_name(block);
    unsigned count = 0;
    bool all = false;

    if (!list)
        return SLUICE_ENOMEM;
    if (several && !named)
        sl_nginx_note(w->nginx, block->file, block->line,
                      "a server without a plain server_name: its routes apply "
                      "to all hosts");
    collect(w, block, list, &count);
    qsort(list, count, sizeof(*list), compare);
    for (unsigned i = 0; i < count; i++) {
        put_route(w, list[i].block, named ? block : NULL);
        all = all || (list[i].block->path.len == 1 &&
                      list[i].block->match == SL_NGINX_PREFIX);
    }
    if (several && !all)
        put_route(w, block, named ? block : NULL);
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

/* `server` blocks, or locations alone: a file for sites-enabled. */
static int put_routes(struct writer *w)
{
    const struct sl_nginx_block *top = &w->nginx->top, *only = NULL;
    unsigned servers = 0;
    int err = 0;

    for (const struct sl_nginx_block *b = top->child; b; b = b->next)
        if (b->kind == SL_NGINX_SERVER && limits_below(top)) {
            servers++;
            only = b;
        }
    if (servers == 0)
        only = top;
    name_limits(w, servers > 1 ? top : only);
    if (servers <= 1) {
        err = put_server(w, only, false);
        sl_writer_addf(w->out, "default: ");
        put_names(w, only);
        sl_writer_addf(w->out, "\n");
        return err;
    }
    for (const struct sl_nginx_block *b = top->child; b && !err; b = b->next)
        if (b->kind == SL_NGINX_SERVER)
            err = put_server(w, b, true);
    sl_writer_addf(w->out, "default: ");
    put_names(w, top);
    sl_writer_addf(w->out, "\n");
    return err;
}

/* ---- all of it ---- */

/* The same note once, not for each limit. */
static void tell_status(struct writer *w)
{
    bool missing = false;

    for (unsigned i = 0; i < w->limit_count; i++)
        missing = missing || w->limits[i].status == 0;
    if (missing)
        sl_nginx_note(w->nginx, w->limits[0].use->file, w->limits[0].use->line,
                      "without limit_req_status, nginx answers 503; the "
                      "policy answers 429. For 503, write deny: { status: 503 "
                      "}");
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
    w->routes = sl_arena_take(nginx->arena,
                              (nginx->block_count + 1) * sizeof(*w->routes));
    if (!w->routes)
        return SLUICE_ENOMEM;
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
