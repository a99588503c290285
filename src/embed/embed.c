/* embed.c -- open a policy over a state; decide, and end holds. */
#include "embed/embed.h"

#include <string.h>

#include "base/clock.h"
#include "embed/keys.h"
#include "engine/check.h"
#include "engine/hold_op.h"
#include "identity/webhook.h"
#include "libpolicy/libpolicy.h"
#include "table/region.h"

#define RENDER_MAX (1024 * 1024) /* a body, and the names of all limits */

struct sl_embed {
    struct sl_policy *policy; /* referenced */
    struct sl_engine *engine;
    struct sl_store *store; /* of the engine */
    struct sl_engine_ctx ctx;
    struct sl_embed_keys keys;
    struct sl_check check;
    struct sl_hold_op hold;
    struct sl_arena arena; /* of the last answer */
    struct sl_rendered rendered;
    char ip[SL_IP_TEXT];
    int64_t (*now)(void *ctx);
    void *now_ctx;
};

/* ---- open and close ---- */

static sl_ns read_clock(void *ctx)
{
    const struct sl_embed *embed = ctx;

    return embed->now ? embed->now(embed->now_ctx) : sl_clock_wall();
}

static int open_engine(struct sl_embed *embed,
                       const struct sl_embed_options *options,
                       struct sl_diag *diag)
{
    struct sl_memory_options memory = {.path = options->path,
                                       .memory = options->memory,
                                       .size = options->size,
                                       .now = read_clock,
                                       .now_ctx = embed};
    struct sl_engine_options o = {.now = read_clock, .now_ctx = embed};
    int err = sl_memory_open(&memory, &o.store, diag);

    if (err)
        return err;
    err = sl_engine_open(&o, embed->policy, &embed->engine, diag);
    if (err)
        sl_store_close(o.store);
    embed->store = o.store;
    return err;
}

static void on_hold_done(struct sl_hold_op *op)
{
    (void)op; /* the table answers before sl_hold_op_begin() returns */
}

int sl_embed_open(const struct sluice_policy *policy,
                  const struct sl_embed_options *options, struct sl_embed **ret,
                  struct sl_diag *diag)
{
    struct sl_embed *embed = sl_alloc_new(&sl_alloc_libc, sizeof(*embed));
    int err;

    if (!embed)
        return sl_diag_error(diag, SLUICE_ENOMEM, "out of memory");
    memset(embed, 0, sizeof(*embed));
    embed->policy = sl_policy_ref(policy->policy);
    embed->now = options->now;
    embed->now_ctx = options->now_ctx;
    sl_arena_init(&embed->arena, RENDER_MAX, &sl_alloc_libc);
    err = sl_embed_keys_open(&embed->keys, embed->policy, diag);
    if (!err)
        err = open_engine(embed, options, diag);
    if (err) {
        sl_embed_close(embed);
        return err;
    }
    embed->ctx.tokens = embed->keys.tokens;
    sl_check_init(&embed->check, embed->engine, &embed->ctx, &sl_alloc_libc);
    sl_hold_op_init(&embed->hold, embed->engine, &embed->ctx, &sl_alloc_libc);
    embed->hold.done = on_hold_done;
    *ret = embed;
    return 0;
}

void sl_embed_close(struct sl_embed *embed)
{
    if (!embed)
        return;
    if (embed->engine) {
        sl_hold_op_done(&embed->hold);
        sl_check_done(&embed->check);
        sl_engine_close(embed->engine);
    }
    sl_arena_done(&embed->arena);
    sl_embed_keys_close(&embed->keys);
    sl_policy_unref(embed->policy);
    sl_alloc_free(&sl_alloc_libc, embed, sizeof(*embed));
}

int sl_embed_grow(const char *path, uint64_t size, struct sl_diag *diag)
{
    uint64_t was = sl_region_file_size(path), now = was;
    int err = 0;

    if (was > 0 && was < size)
        err = sl_region_grow(path, size, &now, diag);
    return err ? err : now > was;
}

const char *sl_embed_notice(const struct sl_embed *embed)
{
    return sl_memory_notice(embed->store);
}

int sl_embed_refresh(struct sl_embed *embed, struct sl_diag *diag)
{
    return sl_embed_keys_refresh(&embed->keys, diag);
}

bool sl_embed_reads_keys(const struct sl_embed *embed)
{
    return embed->keys.path != NULL;
}

/* ---- decide ---- */

/* Sets trust and the address of the client. */
static void find_client(struct sl_embed *embed, struct sl_request *request,
                        const struct sl_peer *peer)
{
    const struct sl_identity *identity = &embed->policy->identity;
    struct sl_ip ip;

    request->trusted = sl_peer_trusted(identity, peer);
    if (request->ip.len > 0 ||
        !sl_forwarded_client(identity, peer, request->headers,
                             request->header_count, &ip))
        return;
    if (peer->text.len > 0 && memcmp(&ip, &peer->ip, sizeof(ip)) == 0)
        request->ip = peer->text;
    else
        request->ip = (struct sl_str){embed->ip, sl_ip_print(&ip, embed->ip)};
}

/* The longest delay that a leaky bucket of the decision wants. */
static sl_ns longest_wait(const struct sl_decision *d)
{
    sl_ns wait = 0;

    for (unsigned i = 0; d->allowed && i < d->shown_count; i++) {
        const struct sl_limit_view *shown = &d->shown[i];

        if (shown->mode == SL_MODE_ENFORCE && sl_limit_view_answered(shown) &&
            shown->answer.wait > wait)
            wait = shown->answer.wait;
    }
    return wait;
}

static struct sl_str find_full(const struct sl_decision *d)
{
    for (unsigned i = 0; i < d->shown_count; i++)
        if (d->shown[i].untracked)
            return d->shown[i].rule->name;
    return (struct sl_str){NULL, 0};
}

static struct sl_embed_answer answer_of(const struct sl_embed *embed)
{
    const struct sl_decision *d = &embed->check.decision;
    struct sl_embed_answer ret = {
        .allowed = d->allowed,
        .limited = !d->not_limited,
        .degraded = d->degraded,
        .wait = longest_wait(d),
        .retry_in = d->allowed ? SL_NS_NONE : sl_decision_retry_in(d),
        .code = d->code,
        .plan = sl_decision_plan(d),
        .request_id = sl_str_c(d->request_id),
        .full = find_full(d),
        .hold = sl_str_c(d->hold),
        .hold_for = d->hold_for,
        .rendered = &embed->rendered,
    };

    if (d->by >= 0)
        ret.by = d->shown[d->by].rule->name;
    if (d->report >= 0 && sl_limit_view_limited(&d->shown[d->report]) &&
        sl_limit_view_answered(&d->shown[d->report])) {
        ret.has_numbers = true;
        ret.limit = sl_limit_view_count(&d->shown[d->report]);
        ret.remaining = sl_limit_view_remaining(&d->shown[d->report]);
    }
    return ret;
}

int sl_embed_decide(struct sl_embed *embed, struct sl_request *request,
                    const struct sl_peer *peer, struct sl_embed_answer *ret,
                    struct sl_diag *diag)
{
    int err;

    find_client(embed, request, peer);
    request->now = read_clock(embed);
    err = sl_request_check(embed->policy, request, diag);
    if (err)
        return err;
    sl_check_start(&embed->check, request, 1, true);
    if (embed->check.err) {
        *diag = embed->check.diag;
        return embed->check.err;
    }
    sl_arena_reset(&embed->arena);
    err = sl_render(&embed->check.decision, &embed->arena, &embed->rendered);
    if (err)
        return sl_diag_error(diag, err, "out of memory");
    *ret = answer_of(embed);
    return 0;
}

/* ---- holds ---- */

static int end(struct sl_embed *embed, struct sl_hold_op_input *input,
               struct sl_diag *diag)
{
    input->now = read_clock(embed);
    sl_hold_op_begin(&embed->hold, input);
    if (embed->hold.err)
        *diag = embed->hold.diag;
    return embed->hold.err;
}

int sl_embed_end(struct sl_embed *embed, struct sl_str hold,
                 const struct sl_embed_actual *actual, struct sl_diag *diag)
{
    struct sl_hold_op_input input = {.verb = SL_VERB_SETTLE, .name = hold};

    if (actual) {
        input.has_cost = actual->has_cost;
        input.cost = actual->cost;
        input.costs = actual->costs;
        input.cost_count = actual->cost_count;
    }
    return end(embed, &input, diag);
}

int sl_embed_extend(struct sl_embed *embed, struct sl_str hold, sl_ns life,
                    struct sl_diag *diag)
{
    struct sl_hold_op_input input = {
        .verb = SL_VERB_EXTEND, .name = hold, .hold = life};

    return end(embed, &input, diag);
}
