/* subjects_read.c -- reads a subject, from JSON or CSV, to a change.
 *
 *     {"plan":"pro","expires":"2026-12-31","roles":["admin"],
 *      "aliases":["ann@example.org"],"overrides":{"api":"100/min"},
 *      "until":"2h","by":"ops","note":"launch week"}
 *
 * null removes a value. `until` is for the overrides of this body. An override
 * may also be {"rate":...,"until":...,"note":...}.
 */
#include <stdio.h>
#include <string.h>

#include "base/parse.h"
#include "base/timestamp.h"
#include "server/http/subjects.h"
#include "wire/json.h"

/* The members of a body, before they are a change. */
struct draft {
    struct sl_reading *reading;
    struct sl_json_reader json;
    struct sl_subject_change *change;
    struct sl_str *roles, *aliases;
    struct sl_subject_override *rates, *details;
    unsigned detail_count;
    bool own_until[SL_SUBJECT_RECORD_RATES]; /* which rates have one of their
                                                own */
    bool own_note[SL_SUBJECT_RECORD_RATES];
    bool has_until;
    sl_ns until;
    unsigned seen; /* members, as bits */
};

static bool is(struct sl_str text, const char *word)
{
    return sl_str_eq(text, sl_str_c(word));
}

static bool refuse(struct draft *d, const char *name, const char *must)
{
    enum sl_json_kind kind = sl_json_peek(&d->json); /* may set json.why */

    if (d->json.no_memory)
        return SL_REFUSE(d->reading, "out of memory");
    if (d->json.why)
        return SL_REFUSE(d->reading, "invalid JSON at byte %zu: %s", d->json.at,
                         d->json.why);
    return SL_REFUSE(d->reading, "\"%s\" must be %s, not %s", name, must,
                     sl_json_kind_name(kind));
}

/* Read a text. null is an empty text. */
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
    return SL_REFUSE(d->reading, "there are more than %d %s", most, name);
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

/* Read {"rate":"5/min","until":"2h","note":"..."}. Members that are only shown
 * are skipped. */
static bool read_rate_object(struct draft *d, struct sl_subject_override *rate,
                             bool *own_until, bool *own_note)
{
    struct sl_str name, text;
    bool over;

    if (!sl_json_enter(&d->json, '{'))
        return refuse(d, "overrides", "a map of limits to rates");
    while (sl_json_member(&d->json, &name)) {
        bool good;

        if (is(name, "rate"))
            good = read_text(d, "rate", &rate->rate);
        else if (is(name, "until"))
            good = *own_until = read_time(d, "until", &rate->until);
        else if (is(name, "note"))
            good = *own_note = read_text(d, "note", &rate->note);
        else if (is(name, "limit"))
            good = read_text(d, "limit", &rate->limit);
        else if (is(name, "by"))
            good = read_text(d, "by", &text);
        else if (is(name, "over"))
            good = sl_json_bool(&d->json, &over) || refuse(d, "over", "true");
        else
            good = SL_REFUSE(d->reading,
                             "unknown member \"%.*s\" of an override; write "
                             "rate, until or note",
                             SL_STR_ARG(name));
        if (!good)
            return false;
    }
    return !d->json.why || refuse(d, "overrides", "a map");
}

static bool read_rates(struct draft *d)
{
    struct sl_subject_change *c = d->change;
    struct sl_str limit;

    c->no_rates = sl_json_peek(&d->json) == SL_JSON_NULL;
    if (c->no_rates)
        return sl_json_null(&d->json) || refuse(d, "overrides", "a map");
    if (!sl_json_enter(&d->json, '{'))
        return refuse(d, "overrides", "a map of limits to rates");
    while (sl_json_member(&d->json, &limit)) {
        unsigned i = c->rate_count;
        bool good;

        if (i == SL_SUBJECT_RECORD_RATES)
            return too_many(d, "overrides", SL_SUBJECT_RECORD_RATES);
        d->rates[i] = (struct sl_subject_override){.until = SL_NS_NONE};
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

/* Read the details as an answer shows them, so that it can be sent back. */
static bool read_details(struct draft *d)
{
    bool ignored;

    if (!sl_json_enter(&d->json, '['))
        return refuse(d, "override_details", "a list");
    while (sl_json_item(&d->json)) {
        if (d->detail_count == SL_SUBJECT_RECORD_RATES)
            return too_many(d, "override_details", SL_SUBJECT_RECORD_RATES);
        d->details[d->detail_count] =
            (struct sl_subject_override){.until = SL_NS_NONE};
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
    SHOWN, /* this and the following are only shown */
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
    struct sl_subject_change *c = d->change;
    const char *name = members[which];
    struct sl_str text;

    switch (which) {
    case PLAN:
        return read_text(d, name, &c->plan);
    case EXPIRES:
        return read_time(d, name, &c->expires);
    case ROLES:
        return read_names(d, name, d->roles, SL_SUBJECT_RECORD_ROLES,
                          &c->role_count);
    case ALIASES:
        return read_names(d, name, d->aliases, SL_SUBJECT_RECORD_ALIASES,
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
    if (i == SL_LEN(members))
        return SL_REFUSE(d->reading,
                         "unknown member \"%.*s\" of a subject%s%s%s",
                         SL_STR_ARG(name), near ? "; did you mean \"" : "",
                         near ? near : "", near ? "\"?" : "");
    if (d->seen & 1u << i)
        return SL_REFUSE(d->reading, "\"%s\" is given twice", members[i]);
    d->seen |= 1u << i;
    return read_value(d, i);
}

/* ---- the whole ---- */

/* Keep the shown details of an override that is the same. */
static void fill_in(struct draft *d)
{
    struct sl_subject_change *c = d->change;

    for (unsigned i = 0; i < c->rate_count; i++) {
        struct sl_subject_override *rate = &d->rates[i];
        const struct sl_subject_override *was = NULL;

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

    d->roles =
        sl_arena_take(arena, SL_SUBJECT_RECORD_ROLES * sizeof(*d->roles));
    d->aliases =
        sl_arena_take(arena, SL_SUBJECT_RECORD_ALIASES * sizeof(*d->aliases));
    d->rates =
        sl_arena_take(arena, SL_SUBJECT_RECORD_RATES * sizeof(*d->rates));
    d->details =
        sl_arena_take(arena, SL_SUBJECT_RECORD_RATES * sizeof(*d->details));
    if (d->roles && d->aliases && d->rates && d->details)
        return true;
    return SL_REFUSE(d->reading, "out of memory");
}

bool sl_subject_change_read_json(struct sl_reading *reading, struct sl_str text,
                                 struct sl_subject_change *ret)
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

/* ---- CSV ----
 *
 *     scope,id,plan,expires,roles,aliases,note,override.api
 *     user,ann,pro,2026-12-31,admin;member,ann@example.org,,100/min
 *
 * Roles and aliases are separated by blanks or semicolons. An empty cell
 * changes nothing.
 */

static const char override_prefix[] = "override.";

static const char *const columns[] = {
    "scope", "id", "plan", "expires", "roles", "aliases", "note", "by", "until",
};

static bool is_override(struct sl_str name)
{
    return name.len > strlen(override_prefix) &&
           memcmp(name.at, override_prefix, strlen(override_prefix)) == 0;
}

/* ---- the first line ---- */

static bool check_column(struct sl_reading *reading,
                         const struct sl_csv_head *head, unsigned i)
{
    struct sl_str name = head->names[i];
    const char *near = sl_str_nearest(name, columns, SL_LEN(columns));
    bool known = is_override(name);

    for (size_t k = 0; k < SL_LEN(columns); k++)
        known = known || is(name, columns[k]);
    for (unsigned k = 0; k < i; k++)
        if (sl_str_eq(head->names[k], name))
            return SL_REFUSE(reading, "the column \"%.*s\" is given twice",
                             SL_STR_ARG(name));
    if (known)
        return true;
    if (near)
        return SL_REFUSE(reading,
                         "unknown column \"%.*s\"; did you mean \"%s\"?",
                         SL_STR_ARG(name), near);
    return SL_REFUSE(
        reading,
        "unknown column \"%.*s\"; valid are scope, id, plan, "
        "expires, roles, aliases, note, by, until and override.LIMIT",
        SL_STR_ARG(name));
}

bool sl_csv_head_read(struct sl_reading *reading, struct sl_csv *csv,
                      struct sl_csv_head *ret)
{
    bool has_scope = false, has_id = false;

    if (!sl_csv_next(csv, ret->names, SL_CSV_COLUMNS, &ret->count))
        return SL_REFUSE(
            reading, "%s",
            csv->why ? csv->why : "the first line with the columns is missing");
    for (unsigned i = 0; i < ret->count; i++) {
        if (!check_column(reading, ret, i))
            return false;
        has_scope = has_scope || is(ret->names[i], "scope");
        has_id = has_id || is(ret->names[i], "id");
    }
    if (has_scope && has_id)
        return true;
    return SL_REFUSE(
        reading,
        "the first line must name the columns, including scope and id, "
        "as in: scope,id,plan,expires");
}

/* ---- a line ---- */

/* Split "a;b c" to names in the arena. */
static bool split(struct sl_reading *reading, const char *what,
                  struct sl_str text, unsigned most, const struct sl_str **ret,
                  unsigned *ret_count)
{
    struct sl_str *list = sl_arena_take(reading->arena, most * sizeof(*list));

    if (!list)
        return SL_REFUSE(reading, "out of memory");
    *ret = list;
    *ret_count = 0;
    while (text.len > 0) {
        size_t len = 0;

        while (len < text.len && !strchr("; ", text.at[len]))
            len++;
        if (len > 0 && *ret_count == most)
            return SL_REFUSE(reading, "there are more than %u %s", most, what);
        if (len > 0)
            list[(*ret_count)++] = (struct sl_str){text.at, len};
        text = sl_str_from(text, len + 1);
    }
    return true;
}

static bool read_override(struct sl_reading *reading, struct sl_str name,
                          struct sl_str rate, struct sl_subject_change *change)
{
    struct sl_subject_override *rates =
        (struct sl_subject_override *)change->rates;

    if (change->rate_count == SL_SUBJECT_RECORD_RATES)
        return SL_REFUSE(reading, "there are more than %d overrides",
                         SL_SUBJECT_RECORD_RATES);
    rates[change->rate_count++] = (struct sl_subject_override){
        .limit = sl_str_from(name, strlen(override_prefix)),
        .rate = rate,
        .until = SL_NS_NONE,
    };
    change->has |= SL_HAS_RATES;
    return true;
}

static bool read_cell(struct sl_reading *reading, struct sl_str name,
                      struct sl_str cell, struct sl_subject_change *c,
                      sl_ns *until)
{
    static const struct {
        const char *name;
        unsigned has;
        size_t offset;
    } texts[] = {
        {"scope", 0,           offsetof(struct sl_subject_change, scope)},
        {"id",    0,           offsetof(struct sl_subject_change, id)   },
        {"by",    0,           offsetof(struct sl_subject_change, by)   },
        {"plan",  SL_HAS_PLAN, offsetof(struct sl_subject_change, plan) },
        {"note",  SL_HAS_NOTE, offsetof(struct sl_subject_change, note) },
    };

    for (size_t i = 0; i < SL_LEN(texts); i++)
        if (is(name, texts[i].name)) {
            *(struct sl_str *)((char *)c + texts[i].offset) = cell;
            c->has |= texts[i].has;
            return true;
        }
    if (is(name, "until"))
        return sl_reading_time(reading, "until", cell, until);
    if (is(name, "expires")) {
        c->has |= SL_HAS_EXPIRES;
        return sl_reading_time(reading, "expires", cell, &c->expires);
    }
    if (is(name, "roles")) {
        c->has |= SL_HAS_ROLES;
        return split(reading, "roles", cell, SL_SUBJECT_RECORD_ROLES, &c->roles,
                     &c->role_count);
    }
    if (is(name, "aliases")) {
        c->has |= SL_HAS_ALIASES;
        return split(reading, "aliases", cell, SL_SUBJECT_RECORD_ALIASES,
                     &c->aliases, &c->alias_count);
    }
    return read_override(reading, name, cell, c);
}

bool sl_subject_change_read_csv(struct sl_reading *reading,
                                const struct sl_csv_head *head,
                                const struct sl_str *cells, unsigned count,
                                struct sl_subject_change *ret)
{
    struct sl_subject_override *rates =
        sl_arena_take(reading->arena, SL_SUBJECT_RECORD_RATES * sizeof(*rates));
    sl_ns until = SL_NS_NONE;

    if (!rates)
        return SL_REFUSE(reading, "out of memory");
    ret->rates = rates;
    ret->expires = SL_NS_NONE;
    if (count != head->count)
        return SL_REFUSE(
            reading, "the line has %u cells, but the first line has %u columns",
            count, head->count);
    for (unsigned i = 0; i < count; i++)
        if (cells[i].len > 0 &&
            !read_cell(reading, head->names[i], cells[i], ret, &until))
            return false;
    for (unsigned i = 0; i < ret->rate_count; i++) {
        rates[i].until = until;
        rates[i].by = ret->by;
        rates[i].note = ret->note;
    }
    return sl_reading_finish(reading, ret);
}

/* ---- checks ---- */

/* ---- times and texts ---- */

/* A date is its first instant, in UTC. */
static bool read_date(struct sl_str text, sl_ns *ret)
{
    char whole[32];

    if (text.len != 10 || text.at[4] != '-' || text.at[7] != '-')
        return false;
    snprintf(whole, sizeof(whole), "%.10sT00:00:00Z", text.at);
    return sl_timestamp_parse(sl_str_c(whole), ret, NULL) == 0;
}

bool sl_reading_time(struct sl_reading *reading, const char *name,
                     struct sl_str text, sl_ns *ret)
{
    sl_ns span;

    if (read_date(text, ret) || sl_timestamp_parse(text, ret, NULL) == 0)
        return true;
    if (sl_parse_duration(text, &span, NULL) == 0 &&
        span < SL_TIME_END - reading->now) {
        *ret = reading->now + span;
        return true;
    }
    return SL_REFUSE(
        reading,
        "\"%s\": \"%.*s\" is not a time; write 2026-12-31T23:59:59Z, "
        "2026-12-31, or a duration from now such as 2h or 30d",
        name, SL_STR_ARG(text));
}

bool sl_reading_text(struct sl_reading *reading, const char *name,
                     struct sl_str text, size_t most)
{
    if (text.len > most)
        return SL_REFUSE(reading, "\"%s\" has %zu bytes; the maximum is %zu",
                         name, text.len, most);
    while (text.len > 0) {
        size_t len = sl_limit_view_len(text);

        if (len == 0)
            return SL_REFUSE(
                reading, "\"%s\" has control characters or is not valid UTF-8",
                name);
        text = sl_str_from(text, len);
    }
    return true;
}

static bool check_list(struct sl_reading *reading, const char *name,
                       const struct sl_str *list, unsigned count, size_t most)
{
    for (unsigned i = 0; i < count; i++) {
        if (list[i].len == 0)
            return SL_REFUSE(reading,
                             "\"%s\" contains an empty value; remove it", name);
        if (!sl_reading_text(reading, name, list[i], most))
            return false;
    }
    return true;
}

/* Convert aliases to lower case and drop duplicates. */
static bool lower_aliases(struct sl_reading *reading,
                          struct sl_subject_change *c)
{
    struct sl_str *list = (struct sl_str *)c->aliases;
    unsigned kept = 0;

    for (unsigned i = 0; i < c->alias_count; i++) {
        char *room = sl_arena_take(reading->arena, list[i].len + 1);
        unsigned k = 0;

        if (!room)
            return SL_REFUSE(reading, "out of memory");
        list[kept] = sl_str_lower(list[i], room);
        while (k < kept && !sl_str_eq(list[k], list[kept]))
            k++;
        kept += k == kept;
    }
    c->alias_count = kept;
    return true;
}

static bool check_rates(struct sl_reading *reading,
                        const struct sl_subject_change *c)
{
    for (unsigned i = 0; i < c->rate_count; i++) {
        const struct sl_subject_override *rate = &c->rates[i];

        for (unsigned k = 0; k < i; k++)
            if (sl_str_eq(c->rates[k].limit, rate->limit))
                return SL_REFUSE(reading,
                                 "the override of \"%.*s\" is given twice",
                                 SL_STR_ARG(rate->limit));
        if (rate->limit.len == 0)
            return SL_REFUSE(reading, "an override needs the name of a limit");
        if (!sl_reading_text(reading, "overrides", rate->limit,
                             SL_SUBJECT_RECORD_NAME) ||
            !sl_reading_text(reading, "overrides", rate->rate,
                             SL_SUBJECT_RECORD_RATE) ||
            !sl_reading_text(reading, "note", rate->note,
                             SL_SUBJECT_RECORD_NOTE))
            return false;
    }
    return true;
}

static bool check_names(struct sl_reading *reading,
                        const struct sl_subject_change *c)
{
    if (!is(c->scope, "user") && !is(c->scope, "org"))
        return SL_REFUSE(
            reading, "the scope of a subject must be user or org, not \"%.*s\"",
            SL_STR_ARG(c->scope));
    return c->id.len > 0 || SL_REFUSE(reading, "a subject needs an id");
}

bool sl_reading_finish(struct sl_reading *reading, struct sl_subject_change *c)
{
    if (reading->named && !check_names(reading, c))
        return false;
    if ((c->has & SL_HAS_EXPIRES) && c->expires != SL_NS_NONE &&
        (c->has & SL_HAS_PLAN) && c->plan.len == 0)
        return SL_REFUSE(reading, "\"expires\" needs a plan");
    return sl_reading_text(reading, "id", c->id, SL_SUBJECT_RECORD_ID) &&
           sl_reading_text(reading, "plan", c->plan, SL_SUBJECT_RECORD_NAME) &&
           sl_reading_text(reading, "note", c->note, SL_SUBJECT_RECORD_NOTE) &&
           sl_reading_text(reading, "by", c->by, SL_SUBJECT_RECORD_BY) &&
           check_list(reading, "roles", c->roles, c->role_count,
                      SL_SUBJECT_RECORD_NAME) &&
           check_list(reading, "aliases", c->aliases, c->alias_count,
                      SL_SUBJECT_RECORD_ID) &&
           check_rates(reading, c) && lower_aliases(reading, c);
}

/* ---- the policy ---- */

/* Refuse a plan or a limit that is not in the policy. */
static int refuse_name(const char *what, struct sl_str name,
                       const char *const *names, size_t count,
                       struct sl_diag *diag)
{
    const char *near = sl_str_nearest(name, names, count);

    return sl_diag_error(
        diag, SLUICE_ECONF, "the policy has no %s \"%.*s\"%s%s%s", what,
        SL_STR_ARG(name), near ? "; did you mean \"" : "", near ? near : "",
        near ? "\"?" : "; set force to keep it anyway");
}

static int refuse_plan(const struct sl_policy *policy, struct sl_str name,
                       struct sl_diag *diag)
{
    const char *names[256];
    size_t count = 0;

    for (; count < policy->plans.count && count < SL_LEN(names); count++)
        names[count] = policy->plans.list[count].name.at;
    return refuse_name("plan", name, names, count, diag);
}

static int refuse_limit(const struct sl_policy *policy, struct sl_str name,
                        struct sl_diag *diag)
{
    const char *names[256];
    size_t count = 0;

    for (; count < policy->rule_count && count < SL_LEN(names); count++)
        names[count] = policy->rules[count].name.at;
    return refuse_name("limit", name, names, count, diag);
}

static int check_rate(const struct sl_subject_override *own,
                      const struct sl_policy *policy, bool force,
                      struct sl_diag *diag)
{
    int index = sl_policy_rule(policy, own->limit);
    struct sl_plan_limit limit;
    struct sl_diag why = {0};
    struct sl_rate rate;
    int err;

    if (own->rate.len == 0)
        return 0; /* the override is removed */
    if (index < 0 && !force)
        return refuse_limit(policy, own->limit, diag);
    err = index < 0
              ? sl_parse_rate(own->rate, &rate, &why)
              : sl_rule_rate(&policy->rules[index], own->rate, &limit, &why);
    if (!err)
        return 0;
    return sl_diag_error(diag, SLUICE_ECONF, "\"%.*s\" for %.*s: %s%s%s",
                         SL_STR_ARG(own->rate), SL_STR_ARG(own->limit),
                         why.sentence, why.hint[0] ? "; write " : "", why.hint);
}

int sl_subject_change_check(const struct sl_subject_change *change,
                            const struct sl_policy *policy, bool force,
                            struct sl_diag *diag)
{
    int err = 0;

    if (change->plan.len > 0 && !force &&
        sl_policy_plan(policy, change->plan) < 0)
        err = refuse_plan(policy, change->plan, diag);
    for (unsigned i = 0; i < change->rate_count && !err; i++)
        err = check_rate(&change->rates[i], policy, force, diag);
    return err;
}
