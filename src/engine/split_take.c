/* split_take.c -- a set that lies in several slots of a cluster, taken in
 * steps. */
#include <string.h>

#include "engine/decision.h"

/* ---- slots ---- */

/* What a cluster goes by: the text in the first braces, unless it is empty;
 * else the whole name. */
static struct sl_str tag_of(struct sl_str name)
{
    const char *open = name.len > 0 ? memchr(name.at, '{', name.len) : NULL;
    struct sl_str rest =
        open ? sl_str_from(name, (size_t)(open - name.at) + 1) : name;
    const char *close =
        open && rest.len > 0 ? memchr(rest.at, '}', rest.len) : NULL;

    if (!close || close == rest.at)
        return name;
    return (struct sl_str){rest.at, (size_t)(close - rest.at)};
}

bool sl_split_take_is_one(const struct sl_take *take)
{
    for (unsigned i = 1; i < take->count; i++)
        if (!sl_str_eq(tag_of(take->parts[0].name),
                       tag_of(take->parts[i].name)))
            return false;
    return true;
}

/* ---- steps ---- */

static void on_step(struct sl_take *step);

/* What is carried goes with the part behind it. */
static unsigned parts_at(const struct sl_take *whole, unsigned at)
{
    return whole->parts[at].carried && at + 1 < whole->count ? 2 : 1;
}

static void finish(struct sl_split_take *a)
{
    a->whole->err = a->err;
    a->whole->sent = false; /* what was taken is given back */
    a->whole->allowed = a->allowed && !a->err;
    a->whole->done(a->whole);
}

/* The part before `at` that begins a step. */
static unsigned step_before(const struct sl_split_take *a, unsigned at)
{
    at--;
    return at > 0 && a->whole->parts[at - 1].carried ? at - 1 : at;
}

static void begin(struct sl_split_take *a, enum sl_take_op op)
{
    a->step.op = op;
    a->step.parts = &a->whole->parts[a->at];
    a->step.count = parts_at(a->whole, a->at);
    sl_store_take(a->store, &a->step);
}

/* What is carried was only looked at. */
static void give_back(struct sl_split_take *a)
{
    a->phase = SL_SPLIT_TAKE_BACK;
    if (a->taken == 0) {
        finish(a);
        return;
    }
    a->at = step_before(a, a->taken);
    a->taken = a->at;
    a->at += parts_at(a->whole, a->at) - 1;
    begin(a, SL_TAKE_OP_REFUND);
}

static void go_on(struct sl_split_take *a)
{
    enum sl_take_op op = a->whole->op;

    if (a->at == a->whole->count || a->err) {
        if (op == SL_TAKE_OP_TAKE && (!a->allowed || a->err))
            give_back(a);
        else
            finish(a);
        return;
    }
    if (op == SL_TAKE_OP_TAKE && !a->allowed)
        op = SL_TAKE_OP_PEEK; /* for what the verdict says of them */
    begin(a, op);
}

static void on_step(struct sl_take *step)
{
    struct sl_split_take *a = step->ctx;

    if (a->phase == SL_SPLIT_TAKE_BACK) {
        give_back(a); /* a failure changes nothing: it stays taken */
        return;
    }
    a->err = step->err;
    a->at += step->count;
    if (!step->err && step->op == SL_TAKE_OP_TAKE && step->allowed)
        a->taken = a->at;
    if (!step->err && step->op != SL_TAKE_OP_EACH)
        a->allowed = a->allowed && step->allowed;
    go_on(a);
}

void sl_split_take_take(struct sl_split_take *apart, struct sl_store *store,
                        struct sl_take *take)
{
    *apart =
        (struct sl_split_take){.whole = take, .store = store, .allowed = true};
    apart->step = (struct sl_take){
        .now = take->now,
        .deadline = take->deadline,
        .loop = take->loop,
        .done = on_step,
        .ctx = apart,
    };
    go_on(apart);
}
