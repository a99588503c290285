/* aim.c -- what to ask for: the first route that limits a plain caller.
 *
 * How often one key is admitted follows from what the limits show before
 * anything was taken: the least of what is there, divided by what the request
 * costs.
 */
#include <stdio.h>
#include <string.h>

#include "cli/bench.h"

#define STATE_BYTES ((size_t)1 << 20)

/* A path that the pattern matches: each star and each named segment becomes
 * an x. */
static void fill_path(const char *pattern, char *out, size_t size)
{
    size_t len = 0;

    while (*pattern && len + 2 < size) {
        bool hole = *pattern == '*' ||
                    (*pattern == ':' && len > 0 && out[len - 1] == '/');

        out[len++] = hole ? 'x' : *pattern;
        if (hole)
            pattern += strcspn(pattern, "/");
        else
            pattern++;
    }
    out[len] = '\0';
}

/* "GET,POST /api/x", "/api/x" or "job transcribe" as a request. */
static void aim_at_route(struct sl_target *t, const char *route)
{
    const char *blank = strchr(route, ' ');
    size_t len = blank ? strcspn(route, ", ") : 0;

    snprintf(t->text, sizeof(t->text), "%s", route);
    if (strncmp(route, "job ", 4) == 0) {
        snprintf(t->path, sizeof(t->path), "%s", route + 4);
        t->request = (struct sluice_request){.job = t->path};
        return;
    }
    snprintf(t->method, sizeof(t->method), "%.*s", (int)len, route);
    if (len == 0 || strcmp(t->method, "*") == 0)
        snprintf(t->method, sizeof(t->method), "GET");
    fill_path(blank ? blank + 1 : route, t->path, sizeof(t->path));
    t->request = (struct sluice_request){.method = t->method, .path = t->path};
    snprintf(t->text, sizeof(t->text), "%.64s %.256s", t->method, t->path);
}

static void aim_at_limit(struct sl_target *t, const char *limit)
{
    snprintf(t->text, sizeof(t->text), "take %s", limit);
    snprintf(t->path, sizeof(t->path), "%s", limit);
    t->request = (struct sluice_request){.limit = t->path};
}

/* A plain caller. */
static struct sluice_request as_somebody(const struct sl_target *t)
{
    struct sluice_request request = t->request;

    request.user = request.org = "k0";
    if (request.limit)
        request.key = "k0";
    return request;
}

/* The limits of `now` with what is there divided by what is asked for. */
static uint64_t least(const struct sluice_decision *now, const uint64_t *costs,
                      size_t count)
{
    uint64_t capacity = UINT64_MAX;

    for (size_t i = 0; i < count && i < sluice_decision_limits(now); i++) {
        struct sluice_shown s = sluice_decision_limit(now, i);

        if (!s.limited || costs[i] == 0 || strcmp(s.mode, "enforce") != 0)
            continue;
        if (s.remaining / costs[i] < capacity)
            capacity = s.remaining / costs[i];
    }
    return capacity;
}

static int measure(struct sluice_engine *engine,
                   struct sluice_decision *decision, struct sl_target *t)
{
    struct sluice_request request = as_somebody(t);
    uint64_t costs[SLUICE_PARTS_MAX];
    size_t count;
    int err = sluice_explain(engine, &request, decision);

    t->capacity = UINT64_MAX;
    if (err || !sluice_decision_allowed(decision))
        return err;
    count = sluice_decision_limits(decision);
    if (count > SLUICE_PARTS_MAX)
        count = SLUICE_PARTS_MAX;
    for (size_t i = 0; i < count; i++)
        costs[i] = sluice_decision_limit(decision, i).cost;
    request.has_cost = 1; /* cost 0: what is there */
    err = sluice_explain(engine, &request, decision);
    if (!err)
        t->capacity = least(decision, costs, count);
    return err;
}

/* Routes first, then limits by name. */
static int choose(struct sl_load *load, struct sluice_engine *engine,
                  struct sluice_decision *decision)
{
    size_t routes = sluice_policy_routes(load->policy);
    size_t limits = sluice_policy_limits(load->policy);
    struct sl_target *t = &load->target;
    int err = 0;

    for (size_t i = 0; i < routes + limits && !err; i++) {
        if (i < routes)
            aim_at_route(t, sluice_policy_route_text(load->policy, i));
        else
            aim_at_limit(t, sluice_policy_limit_name(load->policy, i - routes));
        err = measure(engine, decision, t);
        if (!err && t->capacity < UINT64_MAX && t->capacity > 0)
            return 0;
    }
    return err ? err : SLUICE_ENOENT;
}

int sl_load_aim(struct sl_load *load)
{
    struct sluice_engine_options options = {.size = STATE_BYTES};
    struct sluice_decision *decision = sluice_decision_new();
    struct sluice_engine *engine = NULL;
    int err = decision ? 0 : SLUICE_ENOMEM;

    if (!err)
        err = sluice_engine_open(load->policy, &options, &engine);
    if (!err)
        err = choose(load, engine, decision);
    sluice_engine_close(engine);
    sluice_decision_free(decision);
    return err;
}
