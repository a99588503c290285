/* tiers.c -- rate-limit.*: what each plan may do.
 *
 * The free tier is built into the original: 5 a minute, a burst of 8, 50 a
 * day. A paid tier that is not configured there makes its customers free
 * without a word; here it is told. One that is configured in part is refused,
 * as nobody can know what was meant.
 */
#include <stdio.h>
#include <string.h>

#include "cli/spring/spring.h"

#define FREE_RPM   5
#define FREE_BURST 8
#define FREE_DAILY 50

static const char *const paid[] = {"starter", "pro", "business"};

static const char *const fields[] = {"requests-per-minute", "burst-capacity",
                                     "daily-limit"};

static const char *const tops[] = {"enabled", "tiers"};

/* The part of a key up to the next dot; *rest is what is behind it. */
static struct sl_str step(struct sl_str *rest)
{
    const char *dot = rest->len ? memchr(rest->at, '.', rest->len) : NULL;
    struct sl_str first = {rest->at,
                           dot ? (size_t)(dot - rest->at) : rest->len};

    *rest = sl_str_from(*rest, first.len + (dot != NULL));
    return first;
}

static void unknown(struct sl_spring *spring, const struct sl_prop *prop,
                    struct sl_str name, const char *const *words, size_t count)
{
    const char *near = sl_str_nearest(name, words, count);

    if (near)
        sl_spring_warn(
            spring, prop->line,
            "%s is not a known setting and was ignored; did you mean %s?",
            prop->key, near);
    else
        sl_spring_warn(spring, prop->line,
                       "%s is not a known setting and was ignored", prop->key);
}

/* The tier of that name, a new one if there is none; NULL if there are too
 * many or the name could not be a plan's. */
static struct sl_tier *find_tier(struct sl_tiers *tiers, struct sl_str name)
{
    struct sl_tier *t;

    for (unsigned i = 0; i < tiers->count; i++)
        if (sl_spring_same(sl_str_c(tiers->list[i].name), name))
            return &tiers->list[i];
    if (tiers->count == SL_SPRING_TIERS || name.len == 0 ||
        name.len >= sizeof(t->name))
        return NULL;
    t = &tiers->list[tiers->count];
    for (size_t i = 0; i < name.len; i++) {
        char c = name.at[i];
        bool upper = c >= 'A' && c <= 'Z';

        if (!upper && !(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9') &&
            c != '-' && c != '_')
            return NULL;
        t->name[i] = upper ? (char)(c | 0x20) : c;
    }
    tiers->count++;
    return t;
}

/* tiers.NAME.FIELD */
static void read_tier(struct sl_spring *spring, const struct sl_prop *prop,
                      struct sl_str rest, struct sl_tiers *tiers)
{
    struct sl_str name = step(&rest);
    struct sl_tier *t = find_tier(tiers, name);
    const struct sl_prop **slots[3];

    if (!t) {
        sl_spring_error(spring, prop->line,
                        "%s: the name of a tier consists of letters, digits, - "
                        "and _, and there can be at most %d tiers",
                        prop->key, SL_SPRING_TIERS);
        return;
    }
    slots[0] = &t->rpm;
    slots[1] = &t->burst;
    slots[2] = &t->daily;
    for (size_t i = 0; i < SL_LEN(fields); i++)
        if (sl_spring_same(rest, sl_str_c(fields[i]))) {
            *slots[i] = prop;
            return;
        }
    unknown(spring, prop, rest, fields, SL_LEN(fields));
}

static void read_prop(struct sl_spring *spring, const struct sl_prop *prop,
                      struct sl_tiers *tiers)
{
    struct sl_str rest = sl_str_c(prop->key);
    struct sl_str first;

    if (!sl_spring_same(step(&rest), SL_STR("rate-limit")))
        return;
    tiers->there = true;
    first = step(&rest);
    if (sl_spring_same(first, SL_STR("enabled")) && rest.len == 0)
        sl_spring_switch(spring, prop, &tiers->enabled);
    else if (sl_spring_same(first, SL_STR("tiers")))
        read_tier(spring, prop, rest, tiers);
    else
        unknown(spring, prop, first, tops, SL_LEN(tops));
}

/* A field that may be missing gets `preset`, and that is told; one without a
 * preset (0) may not be. */
static void read_count(struct sl_spring *spring, const struct sl_tier *t,
                       const struct sl_prop *prop, const char *field,
                       uint64_t preset, uint64_t *ret)
{
    if (prop) {
        sl_spring_count(spring, prop, ret);
        return;
    }
    if (preset == 0) {
        sl_spring_error(spring, 0,
                        "rate-limit.tiers.%s has no %s; add the value that "
                        "this plan includes",
                        t->name, field);
        return;
    }
    *ret = preset;
    if (t->rpm || t->burst || t->daily)
        sl_spring_warn(spring, 0, "rate-limit.tiers.%s has no %s; %llu is used",
                       t->name, field, (unsigned long long)preset);
}

static void complete(struct sl_spring *spring, struct sl_tier *t)
{
    bool is_free = strcmp(t->name, "free") == 0;

    read_count(spring, t, t->rpm, fields[0], is_free ? FREE_RPM : 0,
               &t->rpm_count);
    read_count(spring, t, t->burst, fields[1],
               is_free ? FREE_BURST : t->rpm_count, &t->burst_count);
    read_count(spring, t, t->daily, fields[2], is_free ? FREE_DAILY : 0,
               &t->daily_count);
}

static bool has_tier(const struct sl_tiers *tiers, const char *name)
{
    for (unsigned i = 0; i < tiers->count; i++)
        if (strcmp(tiers->list[i].name, name) == 0)
            return true;
    return false;
}

void sl_tiers_read(struct sl_spring *spring, struct sl_tiers *ret)
{
    *ret = (struct sl_tiers){.enabled = true};
    find_tier(ret, SL_STR("free")); /* there is always one, and it is first */
    for (const struct sl_prop *p = spring->props->first; p; p = p->next)
        read_prop(spring, p, ret);
    if (!ret->there)
        return;
    for (unsigned i = 0; i < ret->count; i++)
        complete(spring, &ret->list[i]);
    for (size_t i = 0; i < SL_LEN(paid); i++)
        if (!has_tier(ret, paid[i]))
            sl_spring_warn(spring, 0,
                           "rate-limit.tiers.%s is missing, so customers on "
                           "that plan would get the limits of free; add the "
                           "tier, or write unknown_plan: deny below plans",
                           paid[i]);
}
