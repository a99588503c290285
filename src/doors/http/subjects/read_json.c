/* read_json.c -- a subject as JSON, to a change.
 *
 *     {"plan":"pro","expires":"2026-12-31","roles":["admin"],
 *      "aliases":["ann@example.org"],"overrides":{"api":"100/min"},
 *      "until":"2h","by":"ops","note":"launch week"}
 *
 * null takes away. `until` goes for the overrides of this body; one of them
 * may also be {"rate":...,"until":...,"note":...}.
 */
#include <stdio.h>
#include <string.h>

#include "doors/http/subjects/subjects.h"
#include "wire/json_read.h"

/* What a body says, before it is a change. */
struct draft {
    struct sl_reading *reading;
    struct sl_json_reader json;
    struct sl_change *change;
    struct sl_str *roles, *aliases;
    struct sl_own_rate *rates, *details;
    unsigned detail_count;
    bool own_until[SL_ENTRY_RATES]; /* which rates have one of their own */
    bool own_note[SL_ENTRY_RATES];
    bool has_until;
    sl_ns until;
    unsigned seen; /* members, as bits */
};

static bool refuse(struct draft *d, const char *name, const char *must)
{
    enum sl_json_kind kind = sl_json_peek(&d->json); /* or it tells why not */

    if (d->json.no_memory)
        sl_refuse(&d->reading->diag, SLUICE_ENOMEM, "out of memory");
    else if (d->json.why)
        sl_refuse(&d->reading->diag, SLUICE_ECONF,
                  "invalid JSON at byte %zu: %s", d->json.at, d->json.why);
    else
        sl_refuse(&d->reading->diag, SLUICE_ECONF, "\"%s\" must be %s, not %s",
                  name, must, sl_json_kind_name(kind));
    return false;
}

/* A text, or null: then it is empty. */
static bool read_text(struct draft *d, const char *name, struct sl_str *ret)
{
    *ret = (struct sl_str){"", 0};
    if (sl_json_peek(&d->json) == SL_JSON_NULL)
        return sl_json_null(&d->json) || refuse(d, name, "a string or null");
    return sl_json_text(&d->json, ret) || refuse(d, name, "a string or null");
}

static bool read_time(struct draft *d, const char *name, sl_ns *ret)
{
    struct sl_str text;

    if (!read_text(d, name, &text))
        return false;
    *ret = SL_NS_NONE;
    return text.len == 0 || sl_reading_time(d->reading, name, text, ret);
}

static bool too_many(struct draft *d, const char *name, int most)
{
    sl_refuse(&d->reading->diag, SLUICE_ECONF, "there are more than %d %s",
              most, name);
    return false;
}

static bool read_names(struct draft *d, const char *name, struct sl_str *list,
                       unsigned most, unsigned *ret_count)
{
    if (sl_json_peek(&d->json) == SL_JSON_NULL)
        return sl_json_null(&d->json) || refuse(d, name, "a list of strings");
    if (!sl_json_enter(&d->json, '['))
        return refuse(d, name, "a list of strings");
    while (sl_json_item(&d->json)) {
        if (*ret_count == most)
            return too_many(d, name, (int)most);
        if (!sl_json_text(&d->json, &list[*ret_count]))
            return refuse(d, name, "a list of strings");
        ++*ret_count;
    }
    return !d->json.why || refuse(d, name, "a list of strings");
}

/* ---- overrides ---- */

/* {"rate":"5/min","until":"2h","note":"..."}, and what is shown beside. */
static bool read_rate_object(struct draft *d, struct sl_own_rate *rate,
                             bool *own_until, bool *own_note)
{
    struct sl_str name, text;
    bool over;

    if (!sl_json_enter(&d->json, '{'))
        return refuse(d, "overrides", "a map of limits to rates");
    while (sl_json_member(&d->json, &name)) {
        bool good = true;

        if (sl_str_eq(name, SL_STR("rate"))) {
            good = read_text(d, "rate", &rate->rate);
        } else if (sl_str_eq(name, SL_STR("until"))) {
            good = read_time(d, "until", &rate->until);
            *own_until = true;
        } else if (sl_str_eq(name, SL_STR("note"))) {
            good = read_text(d, "note", &rate->note);
            *own_note = true;
        } else if (sl_str_eq(name, SL_STR("limit"))) {
            good = read_text(d, "limit", &rate->limit);
        } else if (sl_str_eq(name, SL_STR("by"))) {
            good = read_text(d, "by", &text);
        } else if (sl_str_eq(name, SL_STR("over"))) {
            good = sl_json_bool(&d->json, &over) || refuse(d, "over", "true");
        } else {
            sl_refuse(&d->reading->diag, SLUICE_ECONF,
                      "unknown member \"%.*s\" of an override; write rate, "
                      "until or note",
                      SL_STR_ARG(name));
            good = false;
        }
        if (!good)
            return false;
    }
    return !d->json.why || refuse(d, "overrides", "a map");
}

static bool read_rates(struct draft *d)
{
    struct sl_change *c = d->change;
    struct sl_str limit;

    c->no_rates = sl_json_peek(&d->json) == SL_JSON_NULL;
    if (c->no_rates)
        return sl_json_null(&d->json) || refuse(d, "overrides", "a map");
    if (!sl_json_enter(&d->json, '{'))
        return refuse(d, "overrides", "a map of limits to rates");
    while (sl_json_member(&d->json, &limit)) {
        unsigned i = c->rate_count;
        bool good;

        if (i == SL_ENTRY_RATES)
            return too_many(d, "overrides", SL_ENTRY_RATES);
        d->rates[i] = (struct sl_own_rate){.until = SL_NS_NONE};
        if (sl_json_peek(&d->json) == SL_JSON_OBJECT)
            good = read_rate_object(d, &d->rates[i], &d->own_until[i],
                                    &d->own_note[i]);
        else
            good = read_text(d, "overrides", &d->rates[i].rate);
        if (!good)
            return false;
        d->rates[i].limit = limit;
        c->rate_count++;
    }
    return !d->json.why || refuse(d, "overrides", "a map");
}

/* As they are shown: so that what was read can be written back. */
static bool read_details(struct draft *d)
{
    bool ignored;

    if (!sl_json_enter(&d->json, '['))
        return refuse(d, "override_details", "a list");
    while (sl_json_item(&d->json)) {
        if (d->detail_count == SL_ENTRY_RATES)
            return too_many(d, "override_details", SL_ENTRY_RATES);
        d->details[d->detail_count] = (struct sl_own_rate){.until = SL_NS_NONE};
        if (!read_rate_object(d, &d->details[d->detail_count], &ignored,
                              &ignored))
            return false;
        d->detail_count++;
    }
    return !d->json.why || refuse(d, "override_details", "a list");
}

/* ---- members ---- */

static bool skip_shown(struct draft *d, const char *name)
{
    struct sl_str text;
    uint64_t number;
    bool flag;

    switch (sl_json_peek(&d->json)) {
    case SL_JSON_BOOL:
        return sl_json_bool(&d->json, &flag) || refuse(d, name, "a boolean");
    case SL_JSON_NUMBER:
        return sl_json_whole(&d->json, &number) || refuse(d, name, "a number");
    case SL_JSON_ARRAY:
        if (!sl_json_enter(&d->json, '['))
            return refuse(d, name, "a list");
        while (sl_json_item(&d->json))
            if (!sl_json_text(&d->json, &text))
                return refuse(d, name, "a list of strings");
        return !d->json.why || refuse(d, name, "a list");
    default:
        return read_text(d, name, &text);
    }
}

enum member {
    PLAN,
    EXPIRES,
    ROLES,
    ALIASES,
    NOTE,
    OVERRIDES,
    UNTIL,
    BY,
    SCOPE,
    ID,
    DETAILS,
    SHOWN, /* and all behind it */
};

static const char *const members[] = {
    [PLAN] = "plan",
    [EXPIRES] = "expires",
    [ROLES] = "roles",
    [ALIASES] = "aliases",
    [NOTE] = "note",
    [OVERRIDES] = "overrides",
    [UNTIL] = "until",
    [BY] = "by",
    [SCOPE] = "scope",
    [ID] = "id",
    [DETAILS] = "override_details",
    [SHOWN] = "expired",
    "updated",
    "revision",
    "warnings",
};

static bool read_value(struct draft *d, unsigned which)
{
    struct sl_change *c = d->change;
    const char *name = members[which];
    struct sl_str text;

    switch (which) {
    case PLAN:
        return read_text(d, name, &c->plan);
    case EXPIRES:
        return read_time(d, name, &c->expires);
    case ROLES:
        return read_names(d, name, d->roles, SL_ENTRY_ROLES, &c->role_count);
    case ALIASES:
        return read_names(d, name, d->aliases, SL_ENTRY_ALIASES,
                          &c->alias_count);
    case NOTE:
        return read_text(d, name, &c->note);
    case OVERRIDES:
        return read_rates(d);
    case UNTIL:
        d->has_until = true;
        return read_time(d, name, &d->until);
    case BY:
        return read_text(d, name, &c->by);
    case SCOPE:
        return read_text(d, name, d->reading->named ? &c->scope : &text);
    case ID:
        return read_text(d, name, d->reading->named ? &c->id : &text);
    case DETAILS:
        return read_details(d);
    default:
        return skip_shown(d, name);
    }
}

static bool read_member(struct draft *d, struct sl_str name)
{
    const char *near = sl_str_nearest(name, members, SHOWN);
    unsigned i = 0;

    while (i < SL_LEN(members) && !sl_str_eq(sl_str_c(members[i]), name))
        i++;
    if (i == SL_LEN(members)) {
        sl_refuse(&d->reading->diag, SLUICE_ECONF,
                  "unknown member \"%.*s\" of a subject%s%s%s",
                  SL_STR_ARG(name), near ? "; did you mean \"" : "",
                  near ? near : "", near ? "\"?" : "");
        return false;
    }
    if (d->seen & 1u << i) {
        sl_refuse(&d->reading->diag, SLUICE_ECONF, "\"%s\" is given twice",
                  members[i]);
        return false;
    }
    d->seen |= 1u << i;
    return read_value(d, i);
}

/* ---- the whole ---- */

/* What was shown of an override holds on, if the override is the same. */
static void fill_in(struct draft *d)
{
    struct sl_change *c = d->change;

    for (unsigned i = 0; i < c->rate_count; i++) {
        struct sl_own_rate *rate = &d->rates[i];
        const struct sl_own_rate *was = NULL;

        for (unsigned k = 0; k < d->detail_count && !was; k++)
            if (sl_str_eq(d->details[k].limit, rate->limit) &&
                sl_str_eq(d->details[k].rate, rate->rate))
                was = &d->details[k];
        if (!d->own_until[i])
            rate->until = was ? was->until : d->until;
        if (!d->own_note[i])
            rate->note = was ? was->note : c->note;
        rate->by = c->by;
    }
}

static unsigned has_of(unsigned seen)
{
    static const unsigned bits[] = {
        [PLAN] = SL_HAS_PLAN,   [EXPIRES] = SL_HAS_EXPIRES,
        [ROLES] = SL_HAS_ROLES, [ALIASES] = SL_HAS_ALIASES,
        [NOTE] = SL_HAS_NOTE,   [OVERRIDES] = SL_HAS_RATES,
    };
    unsigned has = 0;

    for (unsigned i = 0; i < SL_LEN(bits); i++)
        if (seen & 1u << i)
            has |= bits[i];
    return has;
}

static bool make_room(struct draft *d)
{
    struct sl_arena *arena = d->reading->arena;

    d->roles = sl_arena_take(arena, SL_ENTRY_ROLES * sizeof(*d->roles));
    d->aliases = sl_arena_take(arena, SL_ENTRY_ALIASES * sizeof(*d->aliases));
    d->rates = sl_arena_take(arena, SL_ENTRY_RATES * sizeof(*d->rates));
    d->details = sl_arena_take(arena, SL_ENTRY_RATES * sizeof(*d->details));
    if (d->roles && d->aliases && d->rates && d->details)
        return true;
    sl_refuse(&d->reading->diag, SLUICE_ENOMEM, "out of memory");
    return false;
}

bool sl_change_read_json(struct sl_reading *reading, struct sl_str text,
                         struct sl_change *ret)
{
    struct draft d = {.reading = reading, .change = ret, .until = SL_NS_NONE};
    struct sl_str name;

    if (!make_room(&d))
        return false;
    ret->expires = SL_NS_NONE;
    sl_json_begin(&d.json, text, reading->arena);
    if (!sl_json_enter(&d.json, '{'))
        return refuse(&d, "the body", "an object");
    while (sl_json_member(&d.json, &name))
        if (!read_member(&d, name))
            return false;
    if (!sl_json_end(&d.json))
        return refuse(&d, "the body", "one object");
    fill_in(&d);
    ret->has = has_of(d.seen);
    ret->roles = d.roles;
    ret->aliases = d.aliases;
    ret->rates = d.rates;
    return sl_reading_finish(reading, ret);
}
