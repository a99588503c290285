/* backlog.c -- reported backlogs in the memory of repeats, so that all daemons
 * know them, and a restart does (store/repeats.h).
 *
 * A report is written under a key of its own: the depth and the time of the
 * report. Each daemon reads the backlogs of its policy from time to time; the
 * newer report counts. Decisions read no more than the copy of the active
 * policy.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/parse.h"
#include "engine/engine_int.h"

#define LIFE SL_DAY /* at most: `stale` of a route ends it earlier */

/* A call that frees itself. */
struct backlog_call {
    struct sl_repeat_call call; /* first */
    struct sl_engine *engine;
    sl_backlog_shared_f *done; /* or NULL */
    void *ctx;
    char name[65];
    char memo[SL_REPEAT_MEMO];
};

/* "DEPTH TIME" */
static void hear(const struct backlog_call *own)
{
    struct sl_str memo = {own->memo, own->call.len};
    const char *space = memo.len > 0 ? memchr(memo.at, ' ', memo.len) : NULL;
    struct sl_str depth = {memo.at, space ? (size_t)(space - memo.at) : 0};
    uint64_t number, at;

    if (space && !sl_parse_number(depth, &number, NULL) &&
        !sl_parse_number(sl_str_from(memo, depth.len + 1), &at, NULL) &&
        at <= INT64_MAX)
        sl_engine_backlog_heard(own->engine, sl_str_c(own->name), number,
                                (sl_ns)at);
}

static void on_done(struct sl_repeat_call *call)
{
    struct backlog_call *own = (struct backlog_call *)call;

    if (!call->err && call->op == SL_REPEAT_LOOK &&
        call->found == SL_REPEAT_AGAIN)
        hear(own);
    if (own->done)
        own->done(own->ctx, call->err);
    sl_alloc_free(own->engine->alloc, own, sizeof(*own));
}

static bool begin(struct sl_engine *engine, struct sl_loop *loop,
                  struct sl_str env, struct sl_str name, sl_ns now,
                  struct backlog_call **ret)
{
    const struct sl_hash_key *secret =
        engine->shared ? engine->shared->secret(engine->shared)
                       : sl_store_secret(engine->store);
    const struct sl_str texts[] = {SL_STR("backlog"), env, name};
    struct sl_hash128 key = {0, 0};
    struct backlog_call *own;

    if (!secret || name.len >= sizeof(own->name))
        return false;
    own = sl_alloc_new(engine->alloc, sizeof(*own));
    if (!own)
        return false;
    for (size_t i = 0; i < SL_LEN(texts); i++)
        key = sl_fingerprint_add(secret, key, texts[i]);
    own->engine = engine;
    own->done = NULL;
    memcpy(own->name, name.at, name.len);
    own->name[name.len] = '\0';
    own->call = (struct sl_repeat_call){
        .claim = {.key = key, .until = now + LIFE, .repeats = UINT32_MAX},
        .now = now,
        .loop = loop,
        .memo = own->memo,
        .done = on_done,
    };
    *ret = own;
    return true;
}

static void send(struct sl_engine *engine, struct backlog_call *own,
                 enum sl_repeat_op op)
{
    own->call.op = op;
    if (engine->shared)
        engine->shared->call(engine->shared, &own->call);
    else
        sl_idempotency_cache(engine->caches[SL_CLAIM_REPEAT], &own->call);
}

void sl_engine_backlog_share(struct sl_engine *engine, struct sl_loop *loop,
                             struct sl_str name, uint64_t depth, sl_ns now,
                             sl_backlog_shared_f *done, void *ctx)
{
    struct sl_active_policy *active = sl_engine_ref_policy(engine, NULL);
    struct backlog_call *own;

    if (!begin(engine, loop, active->policy->env, name, now, &own)) {
        done(ctx, SLUICE_ESTORE);
    } else {
        own->done = done;
        own->ctx = ctx;
        own->call.len =
            (size_t)snprintf(own->memo, sizeof(own->memo),
                             "%" PRIu64 " %" PRId64, depth, (int64_t)now);
        send(engine, own, SL_REPEAT_PUT);
    }
    sl_active_policy_unref(active);
}

void sl_engine_backlog_refresh(struct sl_engine *engine, struct sl_loop *loop,
                               sl_ns now)
{
    struct sl_active_policy *active = sl_engine_ref_policy(engine, NULL);
    struct backlog_call *own;

    for (unsigned i = 0; i < active->policy->backlog_count; i++)
        if (begin(engine, loop, active->policy->env,
                  active->policy->backlogs[i], now, &own))
            send(engine, own, SL_REPEAT_LOOK);
    sl_active_policy_unref(active);
}
