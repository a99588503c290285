/* policy.c -- what a policy has that a worker process cannot do. */
#include <string.h>

#include "embed/embed.h"
#include "libpolicy/libpolicy.h"
#include "server/jwt_keys_file.h"

#define ASK                                                                    \
    "ask sluiced instead: write `sluice_pass unix:/run/sluice/http.sock;`"

static bool starts_with(struct sl_str text, const char *word)
{
    return text.len >= strlen(word) && memcmp(text.at, word, strlen(word)) == 0;
}

/* A remote store is named by a URL without the password in it. */
static int check_store(const struct sl_policy *policy, struct sl_diag *diag)
{
    struct sl_str store = policy->server.store;
    size_t len = 0;

    if (store.len == 0 || starts_with(store, "memory:"))
        return 0;
    while (len < store.len && store.at[len] != ':')
        len++;
    return sl_diag_error(
        diag, SLUICE_ECONF,
        "server.store is %.*s:, and a worker process cannot wait for a remote "
        "store; " ASK,
        sl_str_int(len), store.at);
}

/* What a process must see all requests, or their bodies, for. */
static const char *find_precheck(const struct sl_prechecks *guards)
{
    if (guards->verify.written)
        return "verify";
    if (guards->dedupe.written)
        return "dedupe";
    if (guards->backlog.written)
        return "backlog";
    for (unsigned i = 0; i < guards->cost_count; i++)
        if (guards->costs[i].from == SL_COST_FROM_BODY ||
            guards->costs[i].from == SL_COST_FROM_SIZE)
            return "a cost from the body";
    return NULL;
}

int sl_embed_check_policy(const struct sluice_policy *policy,
                          struct sl_diag *diag)
{
    const struct sl_policy *p = policy->policy;
    int err = check_store(p, diag);

    if (err)
        return err;
    if (sl_jwt_keys_elsewhere(&p->identity.jwt))
        return sl_diag_error(
            diag, SLUICE_ECONF,
            "identity.jwt.jwks is a URL, and a worker process fetches none; "
            "name a file (jwks: \"file:./jwks.json\") that `sluice jwks fetch "
            "URL FILE` refreshes, or " ASK);
    if (p->identity.subjects.text.len > 0)
        return sl_diag_error(
            diag, SLUICE_ECONF,
            "identity.subjects has a query, and a worker process has no "
            "database; " ASK);
    for (unsigned i = 0; i < p->route_count; i++) {
        const struct sl_route *route = &p->routes[i];
        const char *what = route->guards ? find_precheck(route->guards) : NULL;

        if (!what)
            continue;
        if (diag)
            diag->line = route->place.line;
        return sl_diag_error(
            diag, SLUICE_ECONF,
            "the route %.*s has %s, which a worker process cannot do; " ASK,
            SL_STR_ARG(route->text), what);
    }
    return 0;
}

int sl_embed_check_limit(const struct sluice_policy *policy, struct sl_str name,
                         struct sl_diag *diag)
{
    struct sl_cost cost = {.limit = name};
    struct sl_request request = {.costs = &cost, .cost_count = 1};

    return sl_request_check(policy->policy, &request, diag);
}

const char *sl_embed_policy_note(const struct sluice_policy *policy)
{
    if (policy->policy->server.usage.len > 0)
        return "server.usage has no effect in a worker process: usage is not "
               "recorded, and subjects are not looked up; " ASK
               " if you need them";
    return NULL;
}
