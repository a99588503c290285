/* key.c -- keys of hostile tuples. The numbers are those of src/policy/key.c.
 *
 *   (1)  different tuples have different bytes, and the same the same
 *   (2)  different tuples of one limit have different names, whatever the
 *        template that the check let pass
 *   (4)  two limits whose templates do not meet never have one name
 */
#include "policy/key.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "prop.h"

/* What templates have between placeholders, and values inside. Each episode
 * has a favourite, so that the two come near each other. */
static const char *const joints[] = {":", ":", "/", "-", "a:", "",
                                     "|", "%", "b", "_", "::", "ip:"};
static const char *joint;

static const char *const scope_names[] = {"user", "org",      "ip",
                                          "anon", "endpoint", "region"};

/* A limit: what it is per, and how it is called. */
struct limit {
    struct sl_str scopes[SL_PER_MAX];
    struct sl_key_use use;
    struct sl_key_template key;
    struct sl_key_context context;
    bool stand_in_is_ip;
    char text[SL_KEY_TEXT];
};

/* A caller, as a limit sees it. */
struct tuple {
    char room[SL_PER_MAX + 1][4 * SL_VALUE_MAX];
    struct sl_key_value values[SL_PER_MAX];
};

static const char *pick(struct rng *rng, const char *const *list, size_t count)
{
    return list[rng_below(rng, count)];
}

/* The framing of the table's keys is among the atoms. */
static struct sl_str random_value(struct rng *rng, char *room)
{
    static const struct sl_str atoms[] = {
        {"a",          1},
        {"b",          1},
        {"a",          1},
        {"%3A",        3},
        {"\0",         1},
        {"user",       4},
        {"{}\n",       3},
        {"\xff",       1},
        {"1",          1},
        {"\3org\0",    5},
        {"\4user\0\0", 7},
        {"\3org\0\0",  6},
    };
    size_t len = 0;

    if (rng_once_in(rng, 20)) { /* around the edge */
        len = SL_VALUE_MAX - 1 + rng_below(rng, 4);
        memset(room, 'x', len);
        room[rng_below(rng, len)] = 'y';
        return (struct sl_str){room, len};
    }
    do {
        struct sl_str atom = atoms[rng_below(rng, SL_LEN(atoms))];

        if (rng_once_in(rng, 3))
            atom = sl_str_c(joint);
        memcpy(room + len, atom.at, atom.len);
        len += atom.len;
    } while (len == 0 || (len < 20 && rng_once_in(rng, 2)));
    return (struct sl_str){room, len};
}

static void random_scopes(struct rng *rng, struct limit *limit)
{
    unsigned want = (unsigned)rng_below(rng, SL_PER_MAX + 1), bits = 0;
    bool usual = rng_once_in(rng, 2); /* a user of an organisation */

    if (usual)
        want = 2;
    limit->use = (struct sl_key_use){.scopes = limit->scopes};
    while (limit->use.scope_count < want) {
        unsigned i = (unsigned)rng_below(rng, usual ? 2 : SL_LEN(scope_names));

        if (bits >> i & 1)
            continue;
        bits |= 1U << i;
        limit->scopes[limit->use.scope_count++] = sl_str_c(scope_names[i]);
    }
    limit->use.anonymous = rng_once_in(rng, 2);
    limit->use.windows = rng_once_in(rng, 2);
    limit->use.endpoints = 1;
}

/* Placeholders and what is between them, at random. */
static void random_text(struct rng *rng, struct limit *limit)
{
    unsigned count = 1 + (unsigned)rng_below(rng, 4);
    char *out = limit->text;
    size_t len = 0;

    for (unsigned i = 0; i < count; i++) {
        const char *hold = pick(rng, sl_key_hold_names, SL_KEY_HOLDS);
        uint64_t own = rng_below(rng, 2 * limit->use.scope_count);

        if (own < limit->use.scope_count)
            hold = limit->scopes[own].at; /* if it is one */
        if (rng_once_in(rng, 8))
            hold = "id";
        len += (size_t)snprintf(
            out + len, 32, "%s{%s}",
            rng_once_in(rng, 2) ? joint : pick(rng, joints, SL_LEN(joints)),
            hold);
    }
    if (rng_once_in(rng, 2))
        snprintf(out + len, 8, "%s", pick(rng, joints, SL_LEN(joints)));
}

/* Until a template comes that is good for the scopes. */
static void random_limit(struct rng *rng, struct sl_arena *arena,
                         struct limit *limit, const struct limit *like)
{
    random_scopes(rng, limit);
    do {
        sl_arena_reset(arena);
        random_text(rng, limit);
        if (like && rng_once_in(rng, 3))
            memcpy(limit->text, like->text, sizeof(limit->text));
    } while (
        sl_key_template_read(sl_str_c(limit->text), arena, &limit->key, NULL) ||
        sl_key_template_check(&limit->key, &limit->use, NULL));
    limit->stand_in_is_ip = rng_once_in(rng, 2);
    limit->context = (struct sl_key_context){
        .env = SL_STR("e"),
        .endpoint = sl_str_c(rng_once_in(rng, 2) ? "a" : "b:"),
        .name = sl_str_c(rng_once_in(rng, 2) ? "a" : "ab"),
        .window_start_ms = 1,
        .use = &limit->use,
    };
}

/* As the engine fills them: what is missing is replaced by who the caller
 * seems to be, which is one value for the whole tuple. */
static void random_tuple(struct rng *rng, const struct limit *limit,
                         struct tuple *t)
{
    struct sl_key_value stand_in = {
        limit->stand_in_is_ip ? SL_STR("ip") : SL_STR("anon"),
        random_value(rng, t->room[SL_PER_MAX]),
    };

    for (unsigned i = 0; i < limit->use.scope_count; i++) {
        struct sl_str scope = limit->scopes[i];
        bool may_miss = sl_str_eq(scope, SL_STR("user")) ||
                        sl_str_eq(scope, SL_STR("org")) ||
                        sl_str_eq(scope, SL_STR("region"));

        t->values[i] =
            (struct sl_key_value){scope, random_value(rng, t->room[i])};
        if (sl_str_eq(scope, stand_in.scope) ||
            (limit->use.anonymous && may_miss && rng_once_in(rng, 3)))
            t->values[i] = stand_in;
    }
}

static bool same_tuple(const struct tuple *a, const struct tuple *b,
                       unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        if (!sl_str_eq(a->values[i].scope, b->values[i].scope) ||
            !sl_str_eq(a->values[i].value, b->values[i].value))
            return false;
    return true;
}

/* ---- the checks ---- */

static bool same_bytes(const struct tuple *a, unsigned a_count,
                       const struct tuple *b, unsigned b_count)
{
    static const struct sl_hash_key secret = {5, 6};
    char one[SL_KEY_MAX], two[SL_KEY_MAX];
    size_t len = sl_key_bytes(a->values, a_count, &secret, one);

    return sl_key_bytes(b->values, b_count, &secret, two) == len &&
           memcmp(one, two, len) == 0;
}

static void name_of(const struct limit *limit, const struct tuple *t,
                    struct sl_buf *out)
{
    sl_buf_clear(out);
    if (sl_key_name(&limit->key, &limit->context, t->values,
                    limit->use.scope_count, out))
        abort();
}

struct world {
    struct rng rng;
    struct sl_arena arenas[2];
    struct limit limits[2];
    struct sl_buf names[2];
    bool meet;
    uint64_t twins; /* names that were the same */
};

/* Is the value the attribute itself, and not what stands in its place? */
static bool is_own(const struct limit *limit, const struct tuple *t, unsigned i)
{
    return sl_str_eq(t->values[i].scope, limit->scopes[i]) &&
           !sl_str_eq(t->values[i].scope, SL_STR("ip")) &&
           !sl_str_eq(t->values[i].scope, SL_STR("anon"));
}

/* Make `b` of `a` by moving the border between two of its values: a|bc, ab|c,
 * with or without something at the border that moves along. */
static void shift(struct rng *rng, const struct limit *limit,
                  const struct tuple *a, struct tuple *b)
{
    static const struct sl_str borders[] = {
        {"\4user\0\0", 7},
        {"\3org\0\0",  6},
        {"",           0},
        {":",          1}
    };
    struct sl_str border =
        rng_once_in(rng, 3) ? borders[rng_below(rng, 4)] : sl_str_c(joint);
    unsigned i = (unsigned)rng_below(rng, limit->use.scope_count - 1);
    struct sl_str x = a->values[i].value, y = a->values[i + 1].value;
    size_t rest = x.len + y.len, at = rng_below(rng, rest + 1);
    char *joined = b->room[i];

    memcpy(b->values, a->values, sizeof(b->values));
    if (!is_own(limit, a, i) || !is_own(limit, a, i + 1))
        return;
    memcpy(joined, x.at, x.len);
    memcpy(joined + x.len, border.at, border.len);
    memcpy(joined + x.len + border.len, y.at, y.len);
    while (at <= rest && memcmp(joined + at, border.at, border.len) != 0)
        at++;
    if (at > rest)
        return;
    b->values[i].value = (struct sl_str){joined, at};
    b->values[i + 1].value =
        (struct sl_str){joined + at + border.len, rest - at};
}

/* Two tuples of one limit, most of them nearly the same. */
static const char *tuples_broken(struct world *w)
{
    static struct tuple a, b;
    const struct limit *limit = &w->limits[0];
    unsigned count = limit->use.scope_count;
    uint64_t state = w->rng.state;
    bool same;

    random_tuple(&w->rng, limit, &a);
    if (rng_once_in(&w->rng, 8))
        w->rng.state = state;
    random_tuple(&w->rng, limit, &b);
    if (count > 1 && rng_once_in(&w->rng, 2))
        shift(&w->rng, limit, &a, &b);
    else if (rng_once_in(&w->rng, 2))
        for (unsigned i = 1; i < count; i++)
            if (is_own(limit, &a, i) && is_own(limit, &b, i))
                b.values[i] = a.values[i];
    same = same_tuple(&a, &b, count);
    if (same_bytes(&a, count, &b, count) != same)
        return "(1)";
    if (count > 1 && same_bytes(&a, count, &b, count - 1))
        return "(1) of another length";
    name_of(limit, &a, &w->names[0]);
    name_of(limit, &b, &w->names[1]);
    if (sl_str_eq(sl_buf_str(&w->names[0]), sl_buf_str(&w->names[1])) != same)
        return "(2)";
    return NULL;
}

static const char *limits_broken(struct world *w)
{
    static struct tuple a, b;

    random_tuple(&w->rng, &w->limits[0], &a);
    random_tuple(&w->rng, &w->limits[1], &b);
    for (unsigned i = 0; i < SL_PER_MAX; i++) /* often the same caller */
        if (i < w->limits[0].use.scope_count && rng_once_in(&w->rng, 2) &&
            i < w->limits[1].use.scope_count && is_own(&w->limits[0], &a, i) &&
            is_own(&w->limits[1], &b, i))
            b.values[i].value = a.values[i].value;
    name_of(&w->limits[0], &a, &w->names[0]);
    name_of(&w->limits[1], &b, &w->names[1]);
    if (!sl_str_eq(sl_buf_str(&w->names[0]), sl_buf_str(&w->names[1])))
        return NULL;
    w->twins++;
    return w->meet ? NULL : "(4)";
}

/* Who knows less must fear more. */
static const char *meeting_broken(struct world *w)
{
    struct sl_key_context a = w->limits[0].context, b = w->limits[1].context;
    const struct sl_key_template *p = &w->limits[0].key, *q = &w->limits[1].key;

    w->meet = sl_key_templates_collide(p, &a, q, &b);
    if (sl_key_templates_collide(q, &b, p, &a) != w->meet)
        return "(4) the other way round";
    a.use = NULL;
    a.endpoint = (struct sl_str){NULL, 0}; /* it may be one of the scopes */
    if (w->meet && !sl_key_templates_collide(p, &a, q, &b))
        return "(4) with scopes unknown";
    b.name = (struct sl_str){NULL, 0};
    if (w->meet && !sl_key_templates_collide(p, &a, q, &b))
        return "(4) with a name unknown";
    return NULL;
}

static uint64_t all_twins;

static bool episode(uint64_t seed, uint64_t *steps)
{
    static struct world w;
    const char *broken = NULL;

    w = (struct world){.rng = {seed}};
    joint = pick(&w.rng, joints, SL_LEN(joints));
    for (unsigned i = 0; i < 2; i++) {
        sl_arena_init(&w.arenas[i], 64 * 1024, &sl_alloc_libc);
        sl_buf_init(&w.names[i], 64 * 1024, &sl_alloc_libc);
        random_limit(&w.rng, &w.arenas[i], &w.limits[i],
                     i ? &w.limits[0] : NULL);
    }
    broken = meeting_broken(&w);
    for (unsigned i = 0; i < 100 && !broken; i++) {
        broken = tuples_broken(&w);
        if (!broken)
            broken = limits_broken(&w);
        ++*steps;
    }
    if (broken)
        printf("# key %s: %s (and %s): %.*s\n", broken, w.limits[0].text,
               w.limits[1].text, SL_STR_ARG(sl_buf_str(&w.names[0])));
    all_twins += w.twins;
    for (unsigned i = 0; i < 2; i++) {
        sl_arena_done(&w.arenas[i]);
        sl_buf_done(&w.names[i]);
    }
    return !broken;
}

static void finish(uint64_t steps)
{
    CASE("some names did collide, so that (4) was tried");
    printf("# %" PRIu64 " times\n", all_twins);
    CHECK(all_twins > 0 || steps < 100000);
}

const struct property prop_key = {
    .name = "key",
    .steps = 500000,
    .cases = {{"key (1) (2) (4) different states have different keys",
               episode}},
    .finish = finish,
};
