/* open.c -- opening and closing a gate. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/zonefile.h"
#include "lib/gate.h"

#define DEFAULT_SIZE (UINT64_C(64) << 20)

/* A gate begins on a cache line, which an allocator does not promise. */
#define GATE_ALIGN 64
#define GATE_PIECE (sizeof(struct sluice) + GATE_ALIGN - 1)

static enum sl_kind kind_of(const struct sluice_limit *limit)
{
    static const enum sl_kind kinds[] = {
        [SLUICE_TOKEN_BUCKET] = SL_BUCKET, [SLUICE_LEAKY_BUCKET] = SL_LEAKY,
        [SLUICE_FIXED_WINDOW] = SL_FIXED,  [SLUICE_SLIDING_WINDOW] = SL_SLIDING,
        [SLUICE_QUOTA] = SL_QUOTA,         [SLUICE_CONCURRENCY] = SL_PERMITS,
        [SLUICE_LEVEL] = SL_LEVEL,
    };

    if (limit->kind == SLUICE_TOKEN_BUCKET && limit->interval)
        return SL_INTERVAL;
    return kinds[limit->kind];
}

/* Say which limit a refusal is about. */
static int about(const struct sluice_limit *limit, const char *rate, int err,
                 const struct sl_diag *why)
{
    const char *quote = rate && *rate ? rate : NULL;

    return sl_refuse(sl_gate_diag(), err, "limit \"%s\": %s%s%s%s%s",
                     limit->name, quote ? quote : "", quote ? ": " : "",
                     why->sentence, why->hint[0] ? "; did you mean " : "",
                     why->hint);
}

static int read_plan(struct sl_gate_limit *gl, const struct sluice_limit *from,
                     const char *text, struct sl_limit *ret)
{
    struct sl_limit_options options = {.zone = from->zone ? &gl->zone : NULL,
                                       .anchor = from->anchor};
    struct sl_diag why = {0};
    struct sl_rate rate;
    int err;

    if (!text)
        return sl_refuse(sl_gate_diag(), SLUICE_EINVAL,
                         "limit \"%s\" has no rate", from->name);
    err = sl_parse_rate(sl_str_c(text), &rate, &why);
    if (!err)
        err = sl_limit_init(ret, kind_of(from), &rate, &options, &why);
    return err ? about(from, text, SLUICE_ECONF, &why) : 0;
}

/* The slowest rate and the smallest capacity of all plans. */
static struct sl_limit strictest(const struct sl_gate_limit *gl)
{
    struct sl_limit limit = gl->plans[0];

    for (unsigned i = 1; i < gl->plan_count; i++) {
        const struct sl_limit *plan = &gl->plans[i];

        if (plan->count < limit.count)
            limit.count = plan->count;
        if (plan->capacity < limit.capacity)
            limit.capacity = plan->capacity;
    }
    sl_limit_derive(&limit);
    return limit;
}

static int read_plans(struct sluice *gate, struct sl_gate_limit *gl,
                      const struct sluice_limit *from)
{
    unsigned count = 1;

    while (from->plans && from->plans[count - 1])
        count++;
    gl->plans = sl_alloc_new(&gate->alloc, count * sizeof(*gl->plans));
    if (!gl->plans)
        return sl_refuse(sl_gate_diag(), SLUICE_ENOMEM, "out of memory");
    gl->plan_count = count;
    for (unsigned i = 0; i < count; i++) {
        const char *text = i ? from->plans[i - 1] : from->rate;
        int err = read_plan(gl, from, text, &gl->plans[i]);

        if (err)
            return err;
        if (sl_limit_shape(&gl->plans[i]) != sl_limit_shape(&gl->plans[0]))
            return sl_refuse(sl_gate_diag(), SLUICE_ECONF,
                             "limit \"%s\": %s has another period than %s; all "
                             "plans of a limit must have the same period",
                             from->name, text, from->rate);
    }
    gl->of.strictest = strictest(gl);
    return 0;
}

static int read_limit(struct sluice *gate, struct sl_gate_limit *gl,
                      const struct sluice_limit *from)
{
    struct sl_diag why = {0};
    int err;

    if (!from->name || !*from->name)
        return sl_refuse(sl_gate_diag(), SLUICE_EINVAL, "a limit needs a name");
    if ((unsigned)from->kind > SLUICE_LEVEL)
        return sl_refuse(sl_gate_diag(), SLUICE_EINVAL,
                         "limit \"%s\": %d is not a kind", from->name,
                         (int)from->kind);
    if (from->kind != SLUICE_QUOTA && (from->zone || from->anchor))
        return sl_refuse(
            sl_gate_diag(), SLUICE_ECONF,
            "limit \"%s\": only a quota can have a time zone and an anchor",
            from->name);
    if (from->kind != SLUICE_TOKEN_BUCKET && from->interval)
        return sl_refuse(
            sl_gate_diag(), SLUICE_ECONF,
            "limit \"%s\": only a token-bucket can refill by the interval",
            from->name);
    if (from->share > 1000)
        return sl_refuse(
            sl_gate_diag(), SLUICE_EINVAL,
            "limit \"%s\": a share of %u is more than the maximum of 1000",
            from->name, from->share);
    if (from->zone) {
        err = sl_zone_load(from->zone, &gate->alloc, &gl->zone, &why);
        if (err)
            return about(from, NULL, err, &why);
    }
    gl->name_size = strlen(from->name) + 1;
    gl->name = sl_alloc_new(&gate->alloc, gl->name_size);
    if (!gl->name)
        return sl_refuse(sl_gate_diag(), SLUICE_ENOMEM, "out of memory");
    memcpy(gl->name, from->name, gl->name_size);
    gl->of.name = gl->name;
    gl->of.share = from->share;
    return read_plans(gate, gl, from);
}

static int read_limits(struct sluice *gate, const struct sluice_options *o)
{
    size_t size = o->limit_count * sizeof(*gate->limits);
    uint64_t shares = 0;

    if (!o->limits || o->limit_count == 0 || o->limit_count > SL_LIMITS)
        return sl_refuse(sl_gate_diag(), SLUICE_EINVAL,
                         "a gate needs between 1 and %d limits, not %zu",
                         SL_LIMITS, o->limit_count);
    gate->limits = sl_alloc_new(&gate->alloc, size);
    if (!gate->limits)
        return sl_refuse(sl_gate_diag(), SLUICE_ENOMEM, "out of memory");
    memset(gate->limits, 0, size);
    gate->limit_count = o->limit_count;
    for (size_t i = 0; i < o->limit_count; i++) {
        int err = read_limit(gate, &gate->limits[i], &o->limits[i]);

        if (err)
            return err;
        for (size_t j = 0; j < i; j++)
            if (strcmp(o->limits[i].name, o->limits[j].name) == 0)
                return sl_refuse(sl_gate_diag(), SLUICE_ECONF,
                                 "two limits have the name \"%s\"",
                                 o->limits[i].name);
        shares += o->limits[i].share;
    }
    if (shares > 1000)
        return sl_refuse(sl_gate_diag(), SLUICE_ECONF,
                         "the shares of all limits add up to %" PRIu64
                         ", more than 1000",
                         shares);
    return 0;
}

static int open_region(struct sluice *gate, const struct sluice_options *o,
                       struct sl_region *ret)
{
    uint64_t size = o->size ? o->size : DEFAULT_SIZE;
    struct sl_diag *diag = sl_gate_diag(), why;
    int err;

    if ((unsigned)o->on_full > SLUICE_FULL_DENY ||
        (unsigned)o->on_damage > SLUICE_DAMAGE_REFUSE)
        return sl_refuse(
            diag, SLUICE_EINVAL,
            "%d is not a value of on_full, or %d is not a value of on_damage",
            (int)o->on_full, (int)o->on_damage);
    if (o->memory && !o->size)
        return sl_refuse(diag, SLUICE_EINVAL, "memory needs a size");
    if (o->path && !*o->path)
        return sl_refuse(diag, SLUICE_EINVAL, "the path is empty");
    if (o->path && o->memory)
        return sl_refuse(diag, SLUICE_EINVAL,
                         "give either a path or memory, not both");
    if (o->memory)
        return sl_region_open_memory(ret, o->memory, size, diag);
    if (!o->path)
        return sl_region_open_heap(ret, size, diag);
    why = (struct sl_diag){0};
    err = sl_region_open_file(ret, o->path, size,
                              o->on_damage == SLUICE_DAMAGE_REFUSE
                                  ? SL_DAMAGE_REFUSE
                                  : SL_DAMAGE_SET_ASIDE,
                              &why);
    if (err == SLUICE_EDAMAGE)
        return sl_refuse(diag, err, "cannot use %s: %s", o->path, why.sentence);
    if (err)
        *diag = why;
    else if (ret->set_aside[0])
        snprintf(gate->notice, sizeof(gate->notice),
                 "cannot use %s: %s; it was moved to %s, and an empty state "
                 "file was created",
                 o->path, why.sentence, ret->set_aside);
    return err;
}

/* Make the gate's limits known to its table. */
static int make_known(struct sluice *gate)
{
    for (size_t i = 0; i < gate->limit_count; i++) {
        struct sl_table_limit *of = &gate->limits[i].of;

        if (!of->share)
            of->equal_parts = (uint32_t)gate->limit_count;
        if (sl_table_know(&gate->table, of))
            return sl_refuse(sl_gate_diag(), SLUICE_EFULL,
                             "the state file already has %d limits, from this "
                             "and earlier policies; start a new one",
                             SL_LIMITS);
    }
    return 0;
}

/* Give back what a gate, perhaps half built, has allocated. */
static void free_gate(struct sluice *gate)
{
    struct sl_alloc alloc = gate->alloc;

    for (size_t i = 0; i < gate->limit_count; i++) {
        struct sl_gate_limit *gl = &gate->limits[i];

        sl_alloc_free(&alloc, gl->plans, gl->plan_count * sizeof(*gl->plans));
        sl_zone_done(&gl->zone, &alloc);
        sl_alloc_free(&alloc, gl->name, gl->name_size);
    }
    sl_alloc_free(&alloc, gate->limits,
                  gate->limit_count * sizeof(*gate->limits));
    sl_alloc_free(&alloc, gate->piece, GATE_PIECE);
}

static struct sluice *new_gate(const struct sl_alloc *alloc)
{
    char *piece = sl_alloc_new(alloc, GATE_PIECE);
    struct sluice *gate;

    if (!piece)
        return NULL;
    gate = (struct sluice *)(void *)(piece + (GATE_ALIGN - 1) -
                                     ((uintptr_t)piece + GATE_ALIGN - 1) %
                                         GATE_ALIGN);
    memset(gate, 0, sizeof(*gate));
    gate->alloc = *alloc;
    gate->piece = piece;
    return gate;
}

int sluice_open(const struct sluice_options *options, struct sluice **ret)
{
    struct sl_alloc alloc = sl_alloc_libc;
    struct sl_region region;
    struct sluice *gate;
    int err;

    if (!options || !ret)
        return sl_refuse(sl_gate_diag(), SLUICE_EINVAL,
                         "sluice_open needs options and a result");
    if (options->resize)
        alloc = (struct sl_alloc){options->resize, options->resize_ctx};
    gate = new_gate(&alloc);
    if (!gate)
        return sl_refuse(sl_gate_diag(), SLUICE_ENOMEM, "out of memory");
    gate->now = options->now;
    gate->now_ctx = options->now_ctx;
    err = read_limits(gate, options);
    if (!err && sl_hash_key_make(&gate->ids))
        err = sl_refuse(sl_gate_diag(), SLUICE_ESYS,
                        "the kernel did not provide random numbers");
    if (!err)
        err = open_region(gate, options, &region);
    if (err) {
        free_gate(gate);
        return err;
    }
    sl_table_init(&gate->table, &region,
                  options->on_full == SLUICE_FULL_DENY ? SL_FULL_DENY
                                                       : SL_FULL_ALLOW);
    err = make_known(gate);
    if (err) {
        (void)sluice_close(gate);
        return err;
    }
    *ret = gate;
    return 0;
}

struct sluice *sluice_close(struct sluice *gate)
{
    if (gate) {
        sl_table_done(&gate->table);
        free_gate(gate);
    }
    return NULL;
}

const char *sluice_notice(const struct sluice *gate)
{
    return gate && gate->notice[0] ? gate->notice : NULL;
}
